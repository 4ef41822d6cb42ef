#include "sim/trace/lifetime.h"

void ech_lifetimes_free(EchLifetimes *lifetimes)
{
    if (!lifetimes)
        return;
    g_free(lifetimes->items);
    g_free(lifetimes);
}

static int by_begin(const void *a, const void *b)
{
    const EchLifetime *x = a, *y = b;
    return x->begin != y->begin ? (x->begin > y->begin) - (x->begin < y->begin) : (x->buffer > y->buffer) - (x->buffer < y->buffer);
}

EchLifetimes *ech_lifetimes_new(const EchTrace *trace, EchId memory)
{
    EchLifetimes *lifetimes = g_new0(EchLifetimes, 1);
    size_t n_ops = ech_trace_n_ops(trace), n_buffers = ech_trace_n_buffers(trace);
    const EchOp *ops = ech_trace_ops(trace);
    const EchBuffer *buffers = ech_trace_buffers(trace);
    g_autoptr(GArray) items = g_array_new(FALSE, FALSE, sizeof(EchLifetime));
    g_autofree uint32_t *open = g_new(uint32_t, n_buffers + 1); /* Index of the item of a live buffer */
    EchBytes live = 0;
    for (size_t i = 0; i < n_buffers; i++) {
        open[i] = ECH_NONE;
        if (!buffers[i].resident || buffers[i].alias_of != ECH_NONE || (memory != ECH_NONE && buffers[i].memory != memory))
            continue;
        EchLifetime item = {(EchId)i, 0, (uint32_t)n_ops, buffers[i].bytes};
        open[i] = items->len;
        g_array_append_val(items, item);
        live = ech_bytes_add(live, item.bytes);
        lifetimes->total = ech_bytes_add(lifetimes->total, item.bytes);
    }
    lifetimes->peak = live;
    for (uint32_t at = 0; at < n_ops; at++) {
        const EchOp *op = &ops[at];
        if (op->kind != ECH_OP_ALLOC && op->kind != ECH_OP_FREE)
            continue;
        const EchBuffer *buffer = &buffers[op->target];
        if (memory != ECH_NONE && buffer->memory != memory)
            continue;
        if (op->kind == ECH_OP_ALLOC) {
            EchLifetime item = {op->target, at, (uint32_t)n_ops, buffer->bytes};
            open[op->target] = items->len;
            g_array_append_val(items, item);
            live = ech_bytes_add(live, item.bytes);
            lifetimes->total = ech_bytes_add(lifetimes->total, item.bytes);
            if (live > lifetimes->peak) {
                lifetimes->peak = live;
                lifetimes->peak_at = at;
            }
        } else {
            g_array_index(items, EchLifetime, open[op->target]).end = at;
            live -= MIN(live, buffer->bytes);
        }
    }
    lifetimes->end_live = live;
    lifetimes->n = items->len;
    g_array_sort(items, by_begin);
    lifetimes->items = (EchLifetime *)(void *)g_array_free(g_steal_pointer(&items), FALSE);
    return lifetimes;
}
