#include "sim/trace/allocator_marks.h"

#include <glib.h>
#include <string.h>

bool ech_mark_takes_segment(const char *name)
{
    return g_str_has_prefix(name, "segment_start ") || g_str_has_prefix(name, "segment_alloc ") || g_str_has_prefix(name, "segment_map ");
}

bool ech_mark_gives_segment(const char *name)
{
    return g_str_has_prefix(name, "segment_free ") || g_str_has_prefix(name, "segment_unmap ");
}

bool ech_mark_address(const char *name, uint64_t *ret)
{
    const char *text = strstr(name, " address=0x");
    char *end = NULL;
    uint64_t address = text ? g_ascii_strtoull(text + strlen(" address=0x"), &end, 16) : 0;
    if (!text || (*end != ' ' && *end != '\0'))
        return false;
    *ret = address;
    return true;
}

const char *ech_mark_pool(const char *name)
{
    const char *pool = strstr(name, " pool=");
    return pool ? pool + strlen(" pool=") : NULL;
}

bool ech_pool_is_capture(const char *pool, uint64_t stream)
{
    return stream != 0 || !g_str_has_prefix(pool, "0:");
}

bool ech_buffer_is_captured(const EchTrace *trace, const EchBuffer *buffer)
{
    if (buffer->pool == ECH_NONE)
        return false;
    /* Only snapshots tell the stream beside the pool; in a text of allocations the pool's number is the stream's. */
    bool other = buffer->queue != ECH_NONE && strcmp(ech_trace_format(trace), "memory_snapshot") == 0 &&
                 strcmp(ech_trace_string(trace, ech_trace_queues(trace)[buffer->queue].name), "stream 0") != 0;
    return ech_pool_is_capture(ech_trace_string(trace, buffer->pool), other);
}

char *ech_direct_names(const EchTrace *trace, EchId memory)
{
    enum { MOST = 3 };
    g_autoptr(GString) out = g_string_new(NULL);
    EchId names[MOST];
    size_t n = 0;
    const EchBuffer *buffers = ech_trace_buffers(trace);
    for (size_t i = 0; i < ech_trace_n_buffers(trace) && n <= MOST; i++) {
        bool known = !buffers[i].direct || buffers[i].memory != memory;
        for (size_t k = 0; k < MIN(n, (size_t)MOST); k++)
            known = known || names[k] == buffers[i].name;
        if (known)
            continue;
        const char *name = ech_trace_string(trace, buffers[i].name);
        g_string_append_printf(out, "%s%s", n > 0 ? ", " : "", n == MOST ? "..." : *name ? name : "of no name");
        if (n < MOST)
            names[n] = buffers[i].name;
        n++;
    }
    return n > 0 ? g_string_free(g_steal_pointer(&out), FALSE) : NULL;
}

bool ech_stack_empties_cache(const char *stack)
{
    for (const char *at = strstr(stack, "mpty"); at; at = strstr(at + 1, "mpty")) {
        size_t n = strlen("mpty_cache");
        if (strncmp(at, "mptyCache", strlen("mptyCache")) == 0 || (strncmp(at, "mpty_cache", n) == 0 && (at[n] == '\n' || at[n] == '\0')))
            return true;
    }
    return false;
}
