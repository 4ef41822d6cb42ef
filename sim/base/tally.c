#include "sim/base/tally.h"

#include "sim/base/hash.h"

#include <string.h>

struct EchTally {
    GArray *rows;
    GHashTable *index; /* Name, of a row, to row + 1. */
};

static void row_clear(gpointer data)
{
    g_free(((EchTallyRow *)data)->name);
}

static int compare_rows(gconstpointer a, gconstpointer b)
{
    const EchTallyRow *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes) : strcmp(x->name, y->name);
}

EchTally *ech_tally_new(void)
{
    EchTally *tally = g_new(EchTally, 1);
    *tally = (EchTally){g_array_new(FALSE, FALSE, sizeof(EchTallyRow)), g_hash_table_new(ech_hash_text, g_str_equal)};
    g_array_set_clear_func(tally->rows, row_clear);
    return tally;
}

void ech_tally_add(EchTally *tally, char *name, EchBytes bytes)
{
    guint index = GPOINTER_TO_UINT(g_hash_table_lookup(tally->index, name));
    if (index == 0) {
        g_array_append_val(tally->rows, ((EchTallyRow){.name = name}));
        index = tally->rows->len;
        g_hash_table_insert(tally->index, name, GUINT_TO_POINTER(index));
    } else
        g_free(name);
    EchTallyRow *row = &g_array_index(tally->rows, EchTallyRow, index - 1);
    row->bytes = ech_bytes_add(row->bytes, bytes);
    row->blocks++;
}

GArray *ech_tally_end(EchTally *tally)
{
    GArray *rows = tally->rows;
    g_hash_table_unref(tally->index);
    g_free(tally);
    if (rows->len > 1)
        g_array_sort(rows, compare_rows);
    return rows;
}

void ech_tally_drop_trifles(GArray *rows)
{
    enum { TRIFLE = 100 };
    while (rows->len > 1 && g_array_index(rows, EchTallyRow, rows->len - 1).bytes < g_array_index(rows, EchTallyRow, 0).bytes / TRIFLE)
        g_array_set_size(rows, rows->len - 1);
}
