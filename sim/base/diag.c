#include "sim/base/diag.h"

#include "sim/base/error.h"
#include "sim/base/hash.h"

#include <string.h>

struct EchDiag {
    GArray *rows; /* EchDiagRow; names and places owned by strings */
    GStringChunk *strings;
    GHashTable *index;  /* name -> row number + 1 */
    GPtrArray *remarks; /* owned strings, NULL-terminated */
    GPtrArray *sources; /* those that name where something was taken from; borrowed */
};

EchDiag *ech_diag_new(void)
{
    EchDiag *diag = g_new0(EchDiag, 1);
    diag->rows = g_array_new(FALSE, TRUE, sizeof(EchDiagRow));
    diag->strings = g_string_chunk_new(1024);
    diag->index = g_hash_table_new(ech_hash_text, g_str_equal);
    diag->remarks = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(diag->remarks, NULL);
    diag->sources = g_ptr_array_new();
    return diag;
}

void ech_diag_free(EchDiag *diag)
{
    if (!diag)
        return;
    g_array_unref(diag->rows);
    g_hash_table_unref(diag->index);
    g_string_chunk_free(diag->strings);
    g_ptr_array_unref(diag->remarks);
    g_ptr_array_unref(diag->sources);
    g_free(diag);
}

static EchDiagRow *diag_row(EchDiag *diag, const char *name)
{
    size_t at = GPOINTER_TO_SIZE(g_hash_table_lookup(diag->index, name));
    if (at == 0) {
        EchDiagRow row = {.name = g_string_chunk_insert_const(diag->strings, name)};
        g_array_append_val(diag->rows, row);
        at = diag->rows->len;
        g_hash_table_insert(diag->index, g_string_chunk_insert_const(diag->strings, name), GSIZE_TO_POINTER(at));
    }
    return &g_array_index(diag->rows, EchDiagRow, at - 1);
}

void ech_diag_dropped(EchDiag *diag, const char *name, uint64_t n, const char *where, ...)
{
    if (n == 0)
        return;
    EchDiagRow *row = diag_row(diag, name);
    if (row->count == 0 && where) {
        va_list args;
        va_start(args, where);
        g_autofree char *text = g_strdup_vprintf(where, args);
        va_end(args);
        row->first = g_string_chunk_insert(diag->strings, text);
    }
    row->count += n;
    row->fatal_if_strict = true;
}

void ech_diag_note(EchDiag *diag, const char *name, uint64_t n)
{
    if (n > 0)
        diag_row(diag, name)->count += n;
}

const EchDiagRow *ech_diag_rows(const EchDiag *diag, size_t *ret_n)
{
    *ret_n = diag->rows->len;
    return (const EchDiagRow *)(const void *)diag->rows->data;
}

uint64_t ech_diag_count(const EchDiag *diag, const char *name)
{
    size_t n;
    const EchDiagRow *rows = ech_diag_rows(diag, &n);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].count;
    }
    return 0;
}

bool ech_diag_check_strict(const EchDiag *diag, GError **error)
{
    size_t n;
    const EchDiagRow *rows = ech_diag_rows(diag, &n);
    for (size_t i = 0; i < n; i++) {
        if (!rows[i].fatal_if_strict || rows[i].count == 0)
            continue;
        g_set_error(error, ECH_ERROR, ECH_ERROR_VERIFY, "%s%s%" G_GUINT64_FORMAT " %s; expected none with --strict", rows[i].first ? rows[i].first : "",
                    rows[i].first ? ": " : "", rows[i].count, rows[i].name);
        return false;
    }
    return true;
}

void ech_diag_remark(EchDiag *diag, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = g_strdup_vprintf(format, args);
    va_end(args);
    g_ptr_array_insert(diag->remarks, (int)diag->remarks->len - 1, text);
}

void ech_diag_source(EchDiag *diag, const char *what, const char *path)
{
    ech_diag_remark(diag, "%s taken from %s", what, path);
    g_ptr_array_add(diag->sources, diag->remarks->pdata[diag->remarks->len - 2]);
}

bool ech_diag_is_source(const EchDiag *diag, const char *remark)
{
    return g_ptr_array_find(diag->sources, remark, NULL);
}

const char *const *ech_diag_remarks(const EchDiag *diag)
{
    return (const char *const *)diag->remarks->pdata;
}
