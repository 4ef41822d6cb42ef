#include "sim/import/sqlite.h"

#include "sim/base/error.h"

#include <glib/gstdio.h>
#include <sqlite3.h>
#include <string.h>

enum { STEP_INSTRUCTIONS = 100000 }; /* of SQLite's machine, between two calls of progress */

struct EchSqlite {
    sqlite3 *db;
    const char *where;
    uint64_t steps, max_steps;
    GError **error;
    uint8_t *copy; /* of a file whose header had to be another, or NULL */
};

/* Of the header (sqlite.org/fileformat.html): what a file of this many pages has at least, and whether its newest part may lie in a log beside it. */
enum { HEADER = 100, PAGE_SIZE = 16, WRITE_VERSION = 18, READ_VERSION = 19, CHANGES = 24, PAGES = 28, PAGES_OF_CHANGES = 92, LOGGED = 2 };

static uint64_t big_endian(const uint8_t *data, size_t n)
{
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++)
        value = value << 8 | data[i];
    return value;
}

/* Whether the file is whole. */
static bool check_whole(const uint8_t *data, size_t n, const char *where, GError **error)
{
    uint64_t page = n < HEADER ? 0 : big_endian(data + PAGE_SIZE, 2), pages = n < HEADER ? 0 : big_endian(data + PAGES, 4);
    bool current = n >= HEADER && memcmp(data + CHANGES, data + PAGES_OF_CHANGES, 4) == 0;
    uint64_t whole = pages * (page == 1 ? 65536 : page);
    if (n >= HEADER && (!current || whole <= n))
        return true;
    g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: the file is cut: %zu bytes of a database of %" G_GUINT64_FORMAT, where, n,
                MAX(whole, (uint64_t)HEADER));
    return false;
}

/* A database that was kept with a log is like any other once the log is in it, but for two bytes that call for the log. False: it is not in it. */
static bool take_logged(EchSqlite *db, const uint8_t *data, size_t n, GError **error)
{
    g_autofree char *log = g_strconcat(db->where, "-wal", NULL);
    GStatBuf status;
    if (data[READ_VERSION] != LOGGED)
        return true;
    if (g_stat(log, &status) == 0 && status.st_size > 0) {
        g_set_error(
            error, ECH_ERROR, ECH_ERROR_PARSE,
            "%s: what was written last lies in %s and not in it yet; end what writes it, then 'sqlite3 %s \"PRAGMA journal_mode=DELETE\"' puts it there",
            db->where, log, db->where);
        return false;
    }
    db->copy = g_memdup2(data, n);
    db->copy[WRITE_VERSION] = db->copy[READ_VERSION] = 1;
    return true;
}

static bool fail(EchSqlite *db, const char *table)
{
    if (db->error && !*db->error)
        g_set_error(db->error, ECH_ERROR, ECH_ERROR_PARSE, "%s: table %s: %s", db->where, table,
                    db->steps > db->max_steps ? "reading it takes far longer than its size explains" : sqlite3_errmsg(db->db));
    return false;
}

static int progress(void *data)
{
    EchSqlite *db = data;
    return ++db->steps > db->max_steps;
}

EchSqlite *ech_sqlite_open(GBytes *contents, const char *where, GError **error)
{
    gsize n;
    /* SQLite's interface has no const; read-only is said by the flag. */
    union {
        const void *in;
        unsigned char *out;
    } bytes = {.in = g_bytes_get_data(contents, &n)};
    if (!check_whole(bytes.in, n, where, error))
        return NULL;
    g_autoptr(EchSqlite) db = g_new0(EchSqlite, 1);
    *db = (EchSqlite){.where = where, .max_steps = 2000 + n / 1000, .error = error};
    if (!take_logged(db, bytes.in, n, error))
        return NULL;
    if (db->copy)
        bytes.out = db->copy;
    if (sqlite3_open_v2(":memory:", &db->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK ||
        sqlite3_deserialize(db->db, "main", bytes.out, (sqlite3_int64)n, (sqlite3_int64)n, SQLITE_DESERIALIZE_READONLY) != SQLITE_OK) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: %s", where, db->db ? sqlite3_errmsg(db->db) : "SQLite cannot open it");
        return NULL;
    }
    sqlite3_db_config(db->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(db->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(db->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(db->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_limit(db->db, SQLITE_LIMIT_LENGTH, 64 << 20);
    sqlite3_limit(db->db, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_progress_handler(db->db, STEP_INSTRUCTIONS, progress, db);
    return g_steal_pointer(&db);
}

void ech_sqlite_free(EchSqlite *db)
{
    if (!db)
        return;
    /* A statement left open by a failure would keep the database alive. */
    for (sqlite3_stmt *open = db->db ? sqlite3_next_stmt(db->db, NULL) : NULL; open; open = sqlite3_next_stmt(db->db, NULL))
        sqlite3_finalize(open);
    sqlite3_close(db->db);
    g_free(db->copy);
    g_free(db);
}

bool ech_sqlite_has_table(EchSqlite *db, const char *table)
{
    sqlite3_stmt *statement = NULL;
    /* A view, a virtual table or a column that is generated could compute anything: only plain tables are read. */
    if (sqlite3_prepare_v2(db->db,
                           "SELECT 1 FROM sqlite_master WHERE type='table' AND name=?1 AND sql NOT LIKE 'CREATE VIRTUAL%' AND rootpage > 0 AND NOT EXISTS "
                           "(SELECT 1 FROM pragma_table_xinfo(?1) WHERE hidden > 1)",
                           -1, &statement, NULL) != SQLITE_OK)
        return false;
    sqlite3_bind_text(statement, 1, table, -1, SQLITE_STATIC);
    bool found = sqlite3_step(statement) == SQLITE_ROW;
    sqlite3_finalize(statement);
    return found;
}

bool ech_sqlite_has_column(EchSqlite *db, const char *table, const char *column)
{
    return sqlite3_table_column_metadata(db->db, "main", table, column, NULL, NULL, NULL, NULL, NULL) == SQLITE_OK;
}

GPtrArray *ech_sqlite_tables(EchSqlite *db)
{
    EchSqliteRows rows = {db, NULL, "sqlite_master"};
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    if (sqlite3_prepare_v2(db->db, "SELECT name FROM sqlite_master WHERE type='table' AND sql NOT LIKE 'CREATE VIRTUAL%' AND rootpage > 0 LIMIT 1024", -1,
                           &rows.statement, NULL) != SQLITE_OK) {
        fail(db, rows.table);
        return NULL;
    }
    bool ok;
    while (ech_sqlite_next(&rows, &ok)) {
        const char *name = ech_sqlite_text(&rows, 0);
        if (name && !strpbrk(name, "\"\\"))
            g_ptr_array_add(names, g_strdup(name));
    }
    return ok ? g_steal_pointer(&names) : NULL;
}

bool ech_sqlite_count(EchSqlite *db, const char *table, uint64_t *ret)
{
    EchSqliteRows rows = {db, NULL, table};
    g_autofree char *sql = g_strdup_printf("SELECT count(*) FROM \"%s\"", table);
    if (sqlite3_prepare_v2(db->db, sql, -1, &rows.statement, NULL) != SQLITE_OK)
        return fail(db, table);
    bool ok;
    uint64_t count = 0;
    while (ech_sqlite_next(&rows, &ok))
        count = (uint64_t)MAX(ech_sqlite_int(&rows, 0, 0), 0);
    if (ok)
        *ret = count;
    return ok;
}

bool ech_sqlite_query(EchSqlite *db, const char *table, const char *const *columns, const char *tail, EchSqliteRows *ret_rows)
{
    *ret_rows = (EchSqliteRows){db, NULL, table};
    if (!ech_sqlite_has_table(db, table))
        return true;
    g_autoptr(GString) sql = g_string_new("SELECT ");
    for (size_t i = 0; columns[i]; i++) {
        if (ech_sqlite_has_column(db, table, columns[i]))
            g_string_append_printf(sql, "%s\"%s\"", i ? "," : "", columns[i]);
        else
            g_string_append_printf(sql, "%sNULL", i ? "," : "");
    }
    g_string_append_printf(sql, " FROM \"%s\" %s", table, tail);
    return sqlite3_prepare_v2(db->db, sql->str, -1, &ret_rows->statement, NULL) == SQLITE_OK || fail(db, table);
}

bool ech_sqlite_next(EchSqliteRows *rows, bool *ret_ok)
{
    *ret_ok = true;
    if (!rows->statement)
        return false;
    int status = sqlite3_step(rows->statement);
    if (status == SQLITE_ROW)
        return true;
    *ret_ok = status == SQLITE_DONE || fail(rows->db, rows->table);
    sqlite3_finalize(rows->statement);
    rows->statement = NULL;
    return false;
}

bool ech_sqlite_is_null(const EchSqliteRows *rows, int column)
{
    return sqlite3_column_type(rows->statement, column) == SQLITE_NULL;
}

bool ech_sqlite_is_text(const EchSqliteRows *rows, int column)
{
    return sqlite3_column_type(rows->statement, column) == SQLITE_TEXT;
}

int64_t ech_sqlite_int(const EchSqliteRows *rows, int column, int64_t fallback)
{
    return ech_sqlite_is_null(rows, column) ? fallback : sqlite3_column_int64(rows->statement, column);
}

uint32_t ech_sqlite_small(const EchSqliteRows *rows, int column)
{
    int64_t value = ech_sqlite_int(rows, column, 0);
    return value > 0 && value <= INT32_MAX ? (uint32_t)value : 0;
}

const char *ech_sqlite_text(const EchSqliteRows *rows, int column)
{
    return (const char *)sqlite3_column_text(rows->statement, column);
}

EchTime ech_sqlite_ns(const EchSqliteRows *rows, int column, EchDiag *diag)
{
    if (ech_sqlite_is_null(rows, column))
        return ECH_TIME_NONE;
    int64_t ns = sqlite3_column_int64(rows->statement, column);
    if (ns > INT64_MAX / 4 / ECH_PS_PER_NS || ns < -(INT64_MAX / 4 / ECH_PS_PER_NS)) {
        ech_diag_dropped(diag, "times_out_of_range", 1, "table %s", rows->table);
        return ECH_TIME_NONE;
    }
    return ns * ECH_PS_PER_NS;
}
