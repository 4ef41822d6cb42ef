/** @file sqlite.h
 * SQLite databases of profilers, read by table and column: tables exist only where they have rows and columns come and go with versions, so a query is made
 * from the columns that are there, and an absent one reads as NULL. Only plain tables are read; how long all of it may take is bounded by the file's size.
 */
#pragma once
#include "sim/import/import.h"

typedef struct EchSqlite EchSqlite;

/** Opens a database in memory. Borrows @bytes and @where; the first thing that fails later is told by @error, too (PARSE). */
EchSqlite *ech_sqlite_open(GBytes *bytes, const char *where, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_sqlite_free(EchSqlite *db);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchSqlite, ech_sqlite_free)

/** Whether there is a plain table of that name. */
bool ech_sqlite_has_table(EchSqlite *db, const char *table);
/** Whether a table has a column. */
bool ech_sqlite_has_column(EchSqlite *db, const char *table, const char *column);
/** Names of plain tables, as the file has them, at most 1024; owned by the caller. NULL with an error where the file cannot be read. */
GPtrArray *ech_sqlite_tables(EchSqlite *db) G_GNUC_WARN_UNUSED_RESULT;
/** Counts the rows of a table, whose name may not have quotes in it. False with an error. */
bool ech_sqlite_count(EchSqlite *db, const char *table, uint64_t *ret);

/** Rows of a query, one at a time. */
typedef struct {
    EchSqlite *db;
    struct sqlite3_stmt *statement; /**< NULL: no row is left. */
    const char *table;
} EchSqliteRows;

/** SELECT of @columns (NULL-terminated), absent ones as NULL, with @tail ("ORDER BY 1"). False with an error; no rows where there is no such table. */
bool ech_sqlite_query(EchSqlite *db, const char *table, const char *const *columns, const char *tail, EchSqliteRows *ret_rows);
/** True with a row; false at the end, and *ret_ok tells whether it was a good end. */
bool ech_sqlite_next(EchSqliteRows *rows, bool *ret_ok);

/** Of the row: columns in the order that they were asked for. */
bool ech_sqlite_is_null(const EchSqliteRows *rows, int column);
bool ech_sqlite_is_text(const EchSqliteRows *rows, int column);
int64_t ech_sqlite_int(const EchSqliteRows *rows, int column, int64_t fallback);
/** A count of a launch; 0 where it is not recorded or cannot be. */
uint32_t ech_sqlite_small(const EchSqliteRows *rows, int column);
/** As text; NULL where there is none. Borrowed until the next row. */
const char *ech_sqlite_text(const EchSqliteRows *rows, int column);
/** Picoseconds of nanoseconds; ECH_TIME_NONE where there are none or too many, which is counted ("times_out_of_range"). */
EchTime ech_sqlite_ns(const EchSqliteRows *rows, int column, EchDiag *diag);
