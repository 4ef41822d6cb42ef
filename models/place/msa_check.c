#include "models/place/msa_private.h"

typedef struct {
    int64_t start, end;
    uint64_t offset, bytes;
    uint32_t value;
} Row;

static gint compare_row(gconstpointer a, gconstpointer b)
{
    const Row *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

char *ech_msa_check(const EchMsaProblem *problem, const EchMsaResult *result)
{
    g_autoptr(GArray) rows = g_array_new(FALSE, FALSE, sizeof(Row));
    for (uint32_t i = 0; i < result->n_stays; i++) {
        const EchMsaStay *stay = &result->stays[i];
        if (!stay->fast || stay->kind == ECH_MSA_MIRRORED)
            continue;
        uint32_t group = stay->kind == ECH_MSA_SCOPED ? ECH_PLACE_NONE : problem->values[stay->value].group;
        for (uint32_t k = 0; k < MAX(stay->n_slices, 1); k++) {
            Row row = {stay->start, stay->end, stay->offset, stay->bytes, group};
            if (stay->n_slices > 0) {
                const EchMsaSlice *slice = &result->slices[stay->first_slice + k];
                row = (Row){(int64_t)(int32_t)slice->after + 1, stay->end, slice->offset, slice->bytes, group};
            }
            g_array_append_val(rows, row);
            if (row.offset % problem->options.alignment != 0)
                return g_strdup_printf("value %u: offset %" G_GUINT64_FORMAT " is not a multiple of %" G_GUINT64_FORMAT, stay->value, row.offset,
                                       problem->options.alignment);
            if (row.offset + row.bytes > problem->options.size)
                return g_strdup_printf("value %u: ends at %" G_GUINT64_FORMAT ", limit %" G_GUINT64_FORMAT, stay->value, row.offset + row.bytes,
                                       problem->options.size);
        }
    }
    g_array_sort(rows, compare_row);
    for (guint i = 0; i < rows->len; i++)
        for (guint k = i + 1; k < rows->len; k++) {
            const Row *a = &g_array_index(rows, Row, i), *b = &g_array_index(rows, Row, k);
            if (b->start > a->end) /* both closed */
                break;
            if (a->value != b->value && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes)
                return g_strdup_printf("groups %u and %u overlap at step %" G_GINT64_FORMAT, a->value, b->value, b->start);
        }
    return NULL;
}
