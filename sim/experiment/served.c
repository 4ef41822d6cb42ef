#include "sim/experiment/served.h"

#include "sim/base/units.h"

#include <string.h>

/* What stands for none for a cache. */
#define LEAST_CACHE ((EchBytes)2 << 20)

static bool is_cache(const EchBuffer *buffer)
{
    return buffer->role == ECH_ROLE_KV_CACHE && buffer->alias_of == ECH_NONE;
}

bool ech_serves(const EchTrace *trace)
{
    bool serves = false;
    for (size_t b = 0; b < ech_trace_n_buffers(trace) && !serves; b++)
        serves = is_cache(&ech_trace_buffers(trace)[b]);
    return serves;
}

/* Bytes of the caches, and of all else in their memory at most. */
static EchBytes cache_of(const EchTrace *trace, EchBytes *ret_beside)
{
    const EchBuffer *buffers = ech_trace_buffers(trace);
    EchBytes cache = 0, live = 0, most;
    EchId memory = ECH_NONE;
    for (size_t b = 0; b < ech_trace_n_buffers(trace); b++) {
        cache = is_cache(&buffers[b]) ? ech_bytes_add(cache, buffers[b].bytes) : cache;
        memory = is_cache(&buffers[b]) ? buffers[b].memory : memory;
    }
    for (size_t b = 0; b < ech_trace_n_buffers(trace); b++)
        if (buffers[b].resident && buffers[b].memory == memory && buffers[b].alias_of == ECH_NONE && !is_cache(&buffers[b]))
            live = ech_bytes_add(live, buffers[b].bytes);
    most = live;
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        const EchBuffer *buffer = op->kind == ECH_OP_ALLOC || op->kind == ECH_OP_FREE ? &buffers[op->target] : NULL;
        if (!buffer || buffer->memory != memory || is_cache(buffer))
            continue;
        live = op->kind == ECH_OP_ALLOC ? ech_bytes_add(live, buffer->bytes) : live - MIN(live, buffer->bytes);
        most = MAX(most, live);
    }
    *ret_beside = most;
    return cache;
}

/* @bytes, as much less as @now is less than @before. */
static EchBytes share(EchBytes bytes, EchBytes now, EchBytes before)
{
    return (EchBytes)((double)bytes * ((double)now / (double)MAX(before, 1)));
}

/* With caches of @now bytes in all, of @before. What goes over all of one goes over all that is left of it; what goes over some rows goes over as many. */
static EchTrace *cut(EchTrace *trace, EchBytes now, EchBytes before, GError **error)
{
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new_from(trace);
    const EchBuffer *buffers = ech_trace_buffers(trace);
    size_t n = ech_trace_n_buffers(trace);
    g_autofree EchBytes *sizes = g_new(EchBytes, n + 1);
    for (size_t b = 0; b < n; b++) {
        EchBuffer *buffer = ech_trace_builder_peek_buffer(builder, (EchId)b);
        sizes[b] = is_cache(buffer) ? MAX(share(buffer->bytes, now, before), 1) : buffer->bytes;
        if (buffer->alias_of != ECH_NONE && sizes[buffer->alias_of] < buffers[buffer->alias_of].bytes) { /* parents come first */
            EchBytes parent = sizes[buffer->alias_of];
            sizes[b] = MIN(buffer->bytes, parent);
            buffer->alias_offset = MIN(buffer->alias_offset, parent - sizes[b]);
        }
        buffer->bytes = sizes[b];
    }
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        if ((op->kind == ECH_OP_ALLOC || op->kind == ECH_OP_FREE) && op->bytes == buffers[op->target].bytes)
            ech_trace_builder_peek_op(builder, (EchId)i)->bytes = sizes[op->target];
        for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
            EchUse *use = ech_trace_builder_peek_use(builder, u);
            if (use->bytes >= buffers[use->buffer].bytes && sizes[use->buffer] < buffers[use->buffer].bytes)
                use->bytes = sizes[use->buffer];
        }
    }
    return ech_trace_builder_finish(builder, error);
}

/* ", 36,000 tokens"; "" where it is not told how many it had. Owned by the caller. */
static char *tokens_of(const EchTrace *trace, EchBytes now, EchBytes before)
{
    const char *told = ech_trace_get_property(trace, ECH_TRACE_SERVED_TOKENS);
    uint64_t tokens;
    return told && ech_parse_u64(told, &tokens, NULL) ? g_strdup_printf(", %" G_GUINT64_FORMAT " tokens", share(tokens, now, before)) : g_strdup("");
}

EchTrace *ech_served_here(EchTrace *trace, const EchDevice *device, bool least, EchDiag *diag, GError **error)
{
    if (!ech_serves(trace))
        return ech_trace_ref(trace);
    const EchMemory *hbm = ech_device_memory_kind(device, ECH_MEM_HBM);
    EchBytes beside, cache = cache_of(trace, &beside), taken = ech_bytes_add(cache, beside), all = hbm ? (hbm->available ? hbm->available : hbm->capacity) : 0,
                     there = 0;
    const char *captured_on = ech_trace_get_property(trace, "pretended_device"), *pretended = ech_trace_get_property(trace, "pretended_bytes");
    bool told = captured_on && pretended && ech_parse_u64(pretended, &there, NULL) && there > 0;
    /* Servers take a share of the device's memory. */
    EchBytes room = told ? MIN(share(all, taken, there), all) : all, left = all < there ? room - MIN(room, beside) : cache,
             now = least ? LEAST_CACHE : MAX(left, LEAST_CACHE);
    g_autofree char *size = ech_format_bytes(cache), *needed = ech_format_bytes(beside), *here = ech_format_bytes(left), *whole = ech_format_bytes(there),
                    *tokens = tokens_of(trace, cache, cache), *fewer = tokens_of(trace, left, cache);
    g_autoptr(GString) text = g_string_new(NULL);
    g_string_append_printf(text, ECH_REMARK_CACHE ", %s%s, is what its share of the memory left it", size, tokens);
    if (told)
        g_string_append_printf(text, " (%s, %s)", captured_on, whole);
    g_string_append_printf(text, "; beside it %s are needed at most", needed);
    if (left == 0)
        g_string_append(text, ", more than the same share is here");
    else if (left < cache)
        g_string_append_printf(text, ", so that the same share leaves some %s%s here ('echelon capture --pretend %s' tells exactly)", here, fewer,
                               device->name);
    if (least)
        g_string_append(text, "; memory is told without it");
    else if (left > 0 && left < cache)
        g_string_append(text, ", with which it is replayed");
    ech_diag_remark(diag, "%s", text->str);
    return now < cache && (least || left > 0) ? cut(trace, now, cache, error) : ech_trace_ref(trace);
}
