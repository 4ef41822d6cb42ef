#include "models/kernel/memo.h"

#include "sim/base/hash.h"

enum { MOST = 4096 }; /* prices kept, about a kilobyte each */

struct EchKernelMemo {
    GHashTable *prices; /* Key -> EchKernelCost */
    GByteArray *key;    /* Scratch. */
};

EchKernelMemo *ech_kernel_memo_new(void)
{
    EchKernelMemo *memo = g_new0(EchKernelMemo, 1);
    memo->prices = g_hash_table_new_full(ech_hash_gbytes, g_bytes_equal, (GDestroyNotify)g_bytes_unref, g_free);
    memo->key = g_byte_array_new();
    return memo;
}

void ech_kernel_memo_free(EchKernelMemo *memo)
{
    if (!memo)
        return;
    g_hash_table_unref(memo->prices);
    g_byte_array_unref(memo->key);
    g_free(memo);
}

static void put(GByteArray *key, const void *data, size_t n)
{
    if (n > 0)
        g_byte_array_append(key, data, (guint)n);
}

#define PUT(key, value) put(key, &(value), sizeof(value))

/* What is used of a layout: most have few dimensions and tiles. */
static void put_layout(GByteArray *key, const EchLayout *layout)
{
    PUT(key, layout->dtype);
    PUT(key, layout->bits);
    PUT(key, layout->element_bits);
    PUT(key, layout->rank);
    PUT(key, layout->has_layout);
    put(key, layout->dims, layout->rank * sizeof *layout->dims);
    PUT(key, layout->dynamic);
    put(key, layout->order, layout->rank * sizeof *layout->order);
    PUT(key, layout->n_tiles);
    PUT(key, layout->n_splits);
    for (unsigned i = 0; i < layout->n_tiles; i++) {
        PUT(key, layout->tiles[i].rank);
        put(key, layout->tiles[i].dims, layout->tiles[i].rank * sizeof *layout->tiles[i].dims);
    }
    for (unsigned i = 0; i < layout->n_splits; i++) {
        PUT(key, layout->splits[i].dim);
        PUT(key, layout->splits[i].n);
        put(key, layout->splits[i].at, layout->splits[i].n * sizeof *layout->splits[i].at);
    }
    PUT(key, layout->tail_alignment);
    PUT(key, layout->dynamic_prefix);
    PUT(key, layout->space);
}

/* All that the price is made of. Bytes between the members of a struct may differ where the members do not: then a price is computed once more. */
static void put_kernel(GByteArray *key, const EchKernelModel *model, const EchKernel *kernel, bool own_tiles)
{
    const uint8_t given = (uint8_t)((kernel->operand_bytes ? 1 : 0) | (kernel->result_bytes ? 2 : 0) | (kernel->sides ? 4 : 0));
    PUT(key, model);
    PUT(key, own_tiles);
    PUT(key, given);
    PUT(key, kernel->kind);
    PUT(key, kernel->n_results);
    PUT(key, kernel->n_operands);
    for (size_t i = 0; i < kernel->n_results; i++)
        put_layout(key, &kernel->results[i]);
    for (size_t i = 0; i < kernel->n_operands; i++)
        put_layout(key, &kernel->operands[i]);
    if (kernel->operand_bytes)
        put(key, kernel->operand_bytes, kernel->n_operands * sizeof *kernel->operand_bytes);
    if (kernel->result_bytes)
        put(key, kernel->result_bytes, kernel->n_results * sizeof *kernel->result_bytes);
    if (kernel->sides)
        put(key, kernel->sides, kernel->n_operands);
    PUT(key, kernel->lhs);
    PUT(key, kernel->rhs);
    PUT(key, kernel->body);
    PUT(key, kernel->padded);
    if (kernel->kind == ECH_KERNEL_CONTRACTION)
        PUT(key, kernel->contraction);
    PUT(key, kernel->windows);
    PUT(key, kernel->fused);
    PUT(key, kernel->gathered_rows);
}

void ech_kernel_memo_price(EchKernelMemo *memo, const EchKernelModel *model, const EchKernel *kernel, bool own_tiles, EchKernelCost *ret)
{
    if (!own_tiles && kernel->windows.n_iterations > 1) { /* nothing to choose */
        ech_kernel_price(model, kernel, own_tiles, ret);
        return;
    }
    g_byte_array_set_size(memo->key, 0);
    put_kernel(memo->key, model, kernel, own_tiles);
    g_autoptr(GBytes) key = g_bytes_new_static(memo->key->data, memo->key->len);
    const EchKernelCost *known = g_hash_table_lookup(memo->prices, key);
    if (known) {
        *ret = *known;
        return;
    }
    ech_kernel_price(model, kernel, own_tiles, ret);
    if (g_hash_table_size(memo->prices) >= MOST)
        g_hash_table_remove_all(memo->prices);
    g_hash_table_insert(memo->prices, g_bytes_new(memo->key->data, memo->key->len), g_memdup2(ret, sizeof *ret));
}
