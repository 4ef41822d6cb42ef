#include "sim/import/alloc_events.h"
#include "models/alloc/pytorch_conf.h"
#include "sim/base/compare.h"
#include "sim/base/hash.h"
#include "sim/trace/allocator_marks.h"
#include "sim/trace/select.h"

#include <stdio.h>
#include <string.h>

/* Of "hbm", "hbm:1" and so on, of several devices, the one in which most lives at once; ECH_NONE where there are no two. */
static EchId fullest_device(const EchTrace *trace)
{
    size_t n_memories = ech_trace_n_memories(trace), n_devices = 0;
    for (EchId m = 0; m < n_memories; m++)
        n_devices += strcmp(ech_trace_memory(trace, m), "hbm") == 0 || g_str_has_prefix(ech_trace_memory(trace, m), "hbm:");
    if (n_devices < 2)
        return ECH_NONE;
    const EchBuffer *buffers = ech_trace_buffers(trace);
    g_autofree EchBytes *live = g_new0(EchBytes, n_memories), *most = g_new0(EchBytes, n_memories);
    for (size_t i = 0; i < ech_trace_n_buffers(trace); i++)
        if (buffers[i].resident && buffers[i].alias_of == ECH_NONE)
            most[buffers[i].memory] = live[buffers[i].memory] = ech_bytes_add(live[buffers[i].memory], buffers[i].bytes);
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        if (op->kind != ECH_OP_ALLOC && op->kind != ECH_OP_FREE)
            continue;
        const EchBuffer *buffer = &buffers[op->target];
        EchBytes *now = &live[buffer->memory];
        *now = op->kind == ECH_OP_ALLOC ? ech_bytes_add(*now, buffer->bytes) : *now - MIN(*now, buffer->bytes);
        most[buffer->memory] = MAX(most[buffer->memory], *now);
    }
    EchId best = ECH_NONE;
    for (EchId m = 0; m < n_memories; m++)
        if (g_str_has_prefix(ech_trace_memory(trace, m), "hbm") && (best == ECH_NONE || most[m] > most[best]))
            best = m;
    return most[best] > 0 ? best : ECH_NONE;
}

EchId ech_alloc_main_memory(const EchTrace *trace)
{
    EchId fullest = fullest_device(trace);
    if (fullest != ECH_NONE)
        return fullest;
    size_t n_memories = ech_trace_n_memories(trace), n = ech_trace_n_buffers(trace);
    const EchBuffer *buffers = ech_trace_buffers(trace);
    g_autofree EchBytes *bytes = g_new0(EchBytes, n_memories + 1);
    for (size_t i = 0; i < n; i++) {
        if (buffers[i].memory < n_memories && buffers[i].alias_of == ECH_NONE)
            bytes[buffers[i].memory] = ech_bytes_add(bytes[buffers[i].memory], buffers[i].bytes);
    }
    EchId best = ech_trace_find_memory(trace, "hbm");
    if (best != ECH_NONE && bytes[best])
        return best;
    best = ECH_NONE;
    for (EchId i = 0; i < n_memories; i++) {
        if (bytes[i] && (best == ECH_NONE || bytes[i] > bytes[best]))
            best = i;
    }
    return best;
}

/* Numbers for (queue, private pool): a small stream number stands for itself, everything else gets one from the upper half. */
typedef struct {
    const EchTrace *trace;
    GHashTable *numbers; /* queue << 32 | pool to number; never walked */
} Streams;

#define OWN_STREAMS (1u << 23)

static uint32_t stream_number(Streams *streams, EchId queue, EchId pool)
{
    uint64_t number;
    if (queue == ECH_NONE && pool == ECH_NONE)
        return 0;
    const char *name = queue == ECH_NONE ? "" : ech_trace_string(streams->trace, ech_trace_queues(streams->trace)[queue].name);
    if (pool == ECH_NONE && g_str_has_prefix(name, "stream ") && ech_parse_u64(name + 7, &number, NULL) && number < OWN_STREAMS)
        return (uint32_t)number;
    uint64_t key = (uint64_t)queue << 32 | pool;
    gpointer known = g_hash_table_lookup(streams->numbers, &key);
    if (!known) {
        known = GUINT_TO_POINTER(g_hash_table_size(streams->numbers) + 1);
        g_hash_table_insert(streams->numbers, g_memdup2(&key, sizeof key), known);
    }
    return (OWN_STREAMS + GPOINTER_TO_UINT(known)) & ECH_EVENT_MAX_STREAM;
}

/* Every stream of the trace has its number at once: the start state, which meets them in another order than the events, gives them the same ones. */
static Streams streams_new(const EchTrace *trace)
{
    Streams streams = {trace, g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, NULL)};
    const EchBuffer *buffers = ech_trace_buffers(trace);
    for (size_t i = 0; i < ech_trace_n_buffers(trace); i++) {
        if (i == 0 || buffers[i].queue != buffers[i - 1].queue || buffers[i].pool != buffers[i - 1].pool)
            stream_number(&streams, buffers[i].queue, buffers[i].pool);
    }
    return streams;
}

/* A recorded change of segments: "segment_alloc address=0x7f21 stream=0 type=large expandable=1 pool=0:1". */
typedef struct {
    uint64_t address, stream;
    char pool[44];
    bool small, expandable;
} SegmentMark;

static bool read_mark(const EchTrace *trace, const EchOp *op, uint32_t device, const char *action, SegmentMark *ret)
{
    const char *name = ech_trace_string(trace, op->name);
    size_t n = strlen(action);
    const EchQueue *queue = &ech_trace_queues(trace)[op->queue];
    if (strncmp(name, action, n) != 0 || name[n] != ' ' || queue->device != device || strcmp(ech_trace_string(trace, queue->name), "caching allocator") != 0)
        return false;
    *ret = (SegmentMark){0};
    if (sscanf(name + n, " address=0x%" G_GINT64_MODIFIER "x stream=%" G_GUINT64_FORMAT, &ret->address, &ret->stream) != 2)
        return false;
    ret->small = strstr(name, " type=small") != NULL;
    ret->expandable = strstr(name, " expandable=1") != NULL;
    const char *pool = ech_mark_pool(name);
    if (pool)
        g_strlcpy(ret->pool, pool, sizeof ret->pool);
    return true;
}

static bool is_allocator_mark(const EchTrace *trace, const EchOp *op, uint32_t device)
{
    if (op->kind != ECH_OP_MARK || op->queue == ECH_NONE)
        return false;
    const EchQueue *queue = &ech_trace_queues(trace)[op->queue];
    return queue->device == device && strcmp(ech_trace_string(trace, queue->name), "caching allocator") == 0;
}

/* "oom device_free=20971520 reserved=24691867648 stream=0 pool=0:1" */
static bool read_refusal(const EchTrace *trace, size_t i, uint32_t device, EchRefusal *ret, uint64_t *ret_stream, const char **ret_pool)
{
    const EchOp *op = &ech_trace_ops(trace)[i];
    if (!is_allocator_mark(trace, op, device) || op->bytes == 0)
        return false;
    const char *name = ech_trace_string(trace, op->name);
    EchRefusal refusal = {.op = (EchId)i, .bytes = op->bytes};
    if (sscanf(name, "oom device_free=%" G_GUINT64_FORMAT " reserved=%" G_GUINT64_FORMAT " stream=%" G_GUINT64_FORMAT, &refusal.device_free, &refusal.reserved,
               ret_stream) != 3)
        return false;
    *ret_pool = ech_mark_pool(name);
    *ret = refusal;
    return true;
}

/* A device's recorded streams and pools by what the recording calls them. */
typedef struct {
    GHashTable *queues; /* stream value to queue + 1 */
    GHashTable *pools;  /* text, owned, to string id + 1; a pool that no buffer is of has a number from the top */
    uint64_t *values;   /* keys of queues */
} Names;

static Names names_new(const EchTrace *trace, uint32_t device)
{
    Names names = {g_hash_table_new(ech_hash_int64, g_int64_equal), g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL),
                   g_new0(uint64_t, ech_trace_n_queues(trace) + 1)};
    const EchBuffer *buffers = ech_trace_buffers(trace);
    EchId last = ECH_NONE;
    for (size_t i = 0; i < ech_trace_n_buffers(trace); i++) {
        if (buffers[i].pool != ECH_NONE && buffers[i].pool != last)
            g_hash_table_insert(names.pools, g_strdup(ech_trace_string(trace, buffers[i].pool)), GUINT_TO_POINTER(buffers[i].pool + 1));
        last = buffers[i].pool;
    }
    for (size_t i = 0; i < ech_trace_n_queues(trace); i++) {
        const char *name = ech_trace_string(trace, ech_trace_queues(trace)[i].name);
        if (ech_trace_queues(trace)[i].device == device && g_str_has_prefix(name, "stream ") && ech_parse_u64(name + 7, &names.values[i], NULL))
            g_hash_table_insert(names.queues, &names.values[i], GUINT_TO_POINTER(i + 1));
    }
    return names;
}

static void names_clear(Names *names)
{
    g_hash_table_unref(names->queues);
    g_hash_table_unref(names->pools);
    g_free(names->values);
}

static EchAllocOwner owner_of(Names *names, uint64_t stream, const char *pool)
{
    EchId queue = (EchId)GPOINTER_TO_UINT(g_hash_table_lookup(names->queues, &stream)) - 1;
    EchId id = pool && *pool ? (EchId)GPOINTER_TO_UINT(g_hash_table_lookup(names->pools, pool)) - 1 : ECH_NONE;
    if (id == ECH_NONE && pool && *pool) {
        id = ECH_NONE - 1 - g_hash_table_size(names->pools);
        g_hash_table_insert(names->pools, g_strdup(pool), GUINT_TO_POINTER(id + 1));
    }
    return (EchAllocOwner){queue, id};
}

/* The number that events of a recorded stream and pool have ("0:1", or "" and NULL for the default one). */
static uint32_t named_stream(Streams *streams, Names *names, uint64_t stream, const char *pool)
{
    EchId queue = owner_of(names, stream, pool).queue, id = owner_of(names, stream, pool).pool;
    if (id == ECH_NONE && stream < OWN_STREAMS && (stream == 0 || queue == ECH_NONE))
        return (uint32_t)stream;
    return stream_number(streams, queue, id) & ECH_EVENT_MAX_STREAM;
}

/* The last request for each private pool: index of its op + 1, by the pool's string id. */
static GHashTable *last_requests(const EchTrace *trace)
{
    GHashTable *last = g_hash_table_new(NULL, NULL);
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        EchId pool = op->kind == ECH_OP_ALLOC ? ech_trace_buffers(trace)[op->target].pool : ECH_NONE;
        if (pool != ECH_NONE)
            g_hash_table_insert(last, GUINT_TO_POINTER(pool + 1), GSIZE_TO_POINTER(i + 1));
    }
    return last;
}

/* True where nothing is asked of a private pool from op @i on. One that is still used gives segments back too, for want of memory. */
static bool is_over(const Names *names, GHashTable *last, const char *pool, size_t i)
{
    gpointer id = g_hash_table_lookup(names->pools, pool);
    return GPOINTER_TO_SIZE(g_hash_table_lookup(last, id)) <= i;
}

/* Of PyTorch's snapshot, alone or beside what a program asked of a GPU that was not there. */
static bool is_snapshot(const EchTrace *trace, EchId memory)
{
    const char *format = ech_trace_format(trace);
    return strcmp(format, "memory_snapshot") == 0 || (strcmp(format, "pretend") == 0 && memory != ECH_NONE && !ech_trace_is_host(trace, memory));
}

GArray *ech_alloc_refusals(const EchTrace *trace, EchId memory)
{
    GArray *out = g_array_new(FALSE, FALSE, sizeof(EchRefusal));
    uint32_t device;
    EchBytes kept = 0;
    if (!is_snapshot(trace, memory) || !ech_trace_device_of(trace, memory, &device))
        return out;
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        EchRefusal refusal;
        uint64_t stream;
        const char *pool;
        const EchOp *op = &ech_trace_ops(trace)[i];
        if (is_allocator_mark(trace, op, device)) {
            const char *name = ech_trace_string(trace, op->name);
            if (ech_mark_takes_segment(name) && ech_mark_pool(name))
                kept = ech_bytes_add(kept, op->bytes);
            else if (ech_mark_gives_segment(name) && ech_mark_pool(name))
                kept -= MIN(kept, op->bytes);
        }
        if (!read_refusal(trace, i, device, &refusal, &stream, &pool))
            continue;
        refusal.kept = kept;
        refusal.in_pool = pool != NULL;
        g_array_append_val(out, refusal);
    }
    return out;
}

EchBytes ech_alloc_direct_peak(const EchTrace *trace, EchId memory)
{
    const EchBuffer *buffers = ech_trace_buffers(trace);
    EchBytes live = 0, peak = 0;
    for (size_t i = 0; i < ech_trace_n_buffers(trace); i++)
        live = ech_bytes_add(live, buffers[i].resident && buffers[i].direct && buffers[i].memory == memory ? buffers[i].bytes : 0);
    peak = live;
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        const EchBuffer *buffer = op->kind == ECH_OP_ALLOC || op->kind == ECH_OP_FREE ? &buffers[op->target] : NULL;
        if (!buffer || !buffer->direct || buffer->memory != memory)
            continue;
        live = op->kind == ECH_OP_ALLOC ? ech_bytes_add(live, buffer->bytes) : live - MIN(live, buffer->bytes);
        peak = MAX(peak, live);
    }
    return peak;
}

EchBytes ech_alloc_recorded_peak(const EchTrace *trace, EchId memory)
{
    uint32_t device = ECH_NONE;
    EchBytes held = 0, peak = 0;
    bool host = memory != ECH_NONE && ech_trace_is_host(trace, memory), own = memory != ECH_NONE && ech_trace_device_of(trace, memory, &device);
    const char *said = own ? ech_trace_property_of(trace, "peak_reserved_bytes", device) : ech_trace_get_property(trace, "peak_reserved_bytes");
    if (!is_snapshot(trace, memory) || !own)
        return said && !host && ech_parse_u64(said, &peak, NULL) ? peak : 0;
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        if (!is_allocator_mark(trace, op, device))
            continue;
        const char *name = ech_trace_string(trace, op->name);
        if (ech_mark_takes_segment(name))
            held = ech_bytes_add(held, op->bytes);
        else if (ech_mark_gives_segment(name))
            held -= MIN(held, op->bytes);
        peak = MAX(peak, held);
    }
    return peak;
}

static const char *setting(const EchTrace *trace, const char *name)
{
    g_autofree char *key = g_strconcat("allocator_settings.", name, NULL);
    const char *value = ech_trace_get_property(trace, key);
    return value ? value : "";
}

/* What PYTORCH_CUDA_ALLOC_CONF was; "" where it was not set. */
static const char *recorded_conf(const EchTrace *trace)
{
    /* Of NVIDIA's builds, of AMD's, and of newer ones for all devices. */
    static const char *const variables[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF"};
    const char *conf = "";
    for (size_t i = 0; i < G_N_ELEMENTS(variables) && !*conf; i++)
        conf = setting(trace, variables[i]);
    return conf;
}

/* large_segment_size_mb, 20 MiB where it is not set. */
static EchBytes large_segment(const EchTrace *trace)
{
    const char *at = strstr(recorded_conf(trace), "large_segment_size_mb:");
    uint64_t mib = at ? g_ascii_strtoull(strchr(at, ':') + 1, NULL, 10) : 0;
    return (mib && mib <= 1 << 20 ? mib : 20) << 20;
}

/* The most that a limit was seen to let expandable segments grow to: PyTorch asks it for the whole of a request, of which it then maps what is not there yet
 * (alloc_block() of CUDACachingAllocator.cpp). @large: a page. */
static EchBytes let_grow(const EchTrace *trace, EchId memory, EchBytes large)
{
    const EchBytes small = ECH_PYTORCH_SMALL_BUFFER;
    uint32_t device = ECH_NONE;
    EchBytes held = 0, before = 0, most = 0;
    bool grows = false;
    if (!ech_trace_device_of(trace, memory, &device))
        return 0;
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        const EchBuffer *buffer = op->kind == ECH_OP_ALLOC ? &ech_trace_buffers(trace)[op->target] : NULL;
        const char *name = is_allocator_mark(trace, op, device) ? ech_trace_string(trace, op->name) : "";
        if (ech_mark_takes_segment(name)) {
            before = grows ? before : held;
            grows = true;
            held = ech_bytes_add(held, op->bytes);
        } else if (ech_mark_gives_segment(name)) {
            grows = false;
            held -= MIN(held, op->bytes);
        } else if (buffer && buffer->memory == memory) {
            EchBytes asked = buffer->bytes <= small / 2 ? small : buffer->bytes < large / 2 ? large : ech_round_up(buffer->bytes, small);
            most = grows ? MAX(most, ech_bytes_add(before, asked)) : most;
            grows = false;
        }
    }
    return most;
}

EchBytes ech_alloc_refused_capacity(const EchTrace *trace, EchId memory, bool *ret_limited)
{
    g_autoptr(GArray) refusals = ech_alloc_refusals(trace, memory);
    *ret_limited = false;
    if (refusals->len == 0)
        return 0;
    const EchRefusal *last = &g_array_index(refusals, EchRefusal, refusals->len - 1);
    /* The driver is asked for a large segment at least, or for the request in units of 2 MiB; for expandable segments in pages as large as that. */
    EchBytes large = large_segment(trace), unit = strcmp(setting(trace, "expandable_segments"), "true") == 0 ? large : UINT64_C(2) << 20;
    *ret_limited = last->device_free >= MAX(ech_round_up(last->bytes, unit), large);
    EchBytes grown = *ret_limited && unit == large ? let_grow(trace, memory, large) : 0;
    return MAX(MAX(ech_alloc_recorded_peak(trace, memory), grown), ech_bytes_add(last->reserved, *ret_limited ? 0 : last->device_free));
}

/* Settings may be made by calls too, and those of later releases may be unknown here: what was in effect is recorded value by value. */
static char *settings_in_effect(const EchTrace *trace)
{
    g_autoptr(GString) spec = g_string_new("pytorch");
    char separator = ':';
    uint64_t bytes;
    if (strcmp(setting(trace, "expandable_segments"), "true") == 0) {
        g_string_append_printf(spec, "%cexpandable_segments:True", separator);
        separator = ',';
    }
    if (ech_parse_u64(setting(trace, "max_split_size"), &bytes, NULL) && bytes >= UINT64_C(20) << 20 && bytes < UINT64_C(1) << 50) {
        g_string_append_printf(spec, "%cmax_split_size_mb:%" G_GUINT64_FORMAT, separator, bytes >> 20);
        separator = ',';
    }
    double threshold = g_ascii_strtod(setting(trace, "garbage_collection_threshold"), NULL);
    if (threshold > 0 && threshold < 1) {
        g_string_append_printf(spec, "%cgarbage_collection_threshold:%s", separator, setting(trace, "garbage_collection_threshold"));
        separator = ',';
    }
    const char *divisions = setting(trace, "roundup_power2_divisions");
    for (const char *at = strchr(divisions, ':'); at; at = strchr(at + 1, ':')) {
        if (at[1] < '2' || at[1] > '9')
            continue;
        g_string_append_printf(spec, "%croundup_power2_divisions:[%s]", separator, divisions);
        break;
    }
    return g_string_free(g_steal_pointer(&spec), FALSE);
}

/* Whether the allocations are those of PyTorch's caching allocator: of what was asked of a GPU that was not there only with PyTorch's own snapshot beside it,
 * else they are what that allocator asked the driver for. */
static bool is_pytorch(const EchTrace *trace)
{
    static const char *const formats[] = {"memory_snapshot", "kineto", "pytorch_et", "memory_timeline", NULL};
    const char *format = ech_trace_format(trace);
    if (strcmp(format, "pretend") != 0)
        return g_strv_contains(formats, format);
    for (size_t i = 0; i < ech_trace_n_queues(trace); i++) {
        if (strcmp(ech_trace_string(trace, ech_trace_queues(trace)[i].name), "caching allocator") == 0)
            return true;
    }
    return false;
}

char *ech_alloc_recorded_spec(const EchTrace *trace)
{
    const char *name = ech_trace_get_property(trace, "allocator"); /* "GPU_0_bfc" */
    if ((name && strstr(name, "bfc")) || ech_trace_get_property(trace, "allocator_regions"))
        return g_strdup("bfc");
    if (!is_pytorch(trace))
        return NULL;
    const char *conf = recorded_conf(trace);
    g_autofree char *effect = settings_in_effect(trace);
    if (!*conf || (strstr(effect, "expandable_segments") && !strstr(conf, "expandable_segments")))
        return g_steal_pointer(&effect);
    g_autofree char *said = g_strconcat("pytorch:", conf, NULL);
    EchAllocDevice device = {.capacity = UINT64_C(1) << 30};
    g_autoptr(EchAllocator) probe = ech_allocator_new(said, &device, NULL);
    return probe ? g_steal_pointer(&said) : g_steal_pointer(&effect);
}

static EchPyTorchConf recorded_settings(const EchTrace *trace)
{
    EchPyTorchConf conf = {0};
    g_autofree char *spec = ech_alloc_recorded_spec(trace);
    const char *said = spec ? strchr(spec, ':') : NULL;
    if (!ech_pytorch_conf_read(said ? said + 1 : NULL, &conf, NULL))
        return (EchPyTorchConf){0};
    return conf;
}

/* Requests that were rounded to more than blocks, among the events so far. */
typedef struct {
    GHashTable *last; /* by the size that it was rounded to: bytes of the last one */
    guint looked;     /* events */
} Rounded;

/* What a refused request that the recording tells rounded asked for. Where sizes are rounded to more than blocks, that of the last request that was rounded to
 * as much, if there was one. */
static EchBytes asked_for(Rounded *known, const GArray *events, const EchPyTorchConf *conf, EchBytes rounded)
{
    for (; known->looked < events->len; known->looked++) {
        const EchAllocEvent *event = &g_array_index(events, EchAllocEvent, known->looked);
        EchBytes to = event->kind == ECH_EVENT_ALLOC ? ech_pytorch_round(conf, event->bytes) : 0;
        if (to > event->bytes && to - event->bytes >= ECH_PYTORCH_MIN_BLOCK)
            g_hash_table_insert(known->last, GSIZE_TO_POINTER(to), GSIZE_TO_POINTER(event->bytes));
    }
    gpointer bytes;
    return g_hash_table_lookup_extended(known->last, GSIZE_TO_POINTER(rounded), NULL, &bytes) ? GPOINTER_TO_SIZE(bytes) : rounded;
}

/* What is known of the recorded allocator's segments while its trace is gone through. */
typedef struct {
    EchId memory;
    uint32_t device;
    EchBytes held, peak; /* peak: the most it ever held, or could have held as a refusal tells */
    bool collects;       /* idle blocks are given back on the way too (garbage_collection_threshold) */
    size_t looked;       /* index behind the last run of segments given back that was looked at */
} Segments;

/* A run of segments given back begins with op @i. True where the program emptied the cache, rather than the allocator on the way to a request. Without a stack:
 * an allocator that gives them back for want of memory takes more at once, and could not have had both. */
static bool is_emptied(const EchTrace *trace, size_t i, Segments *segments)
{
    EchBytes held = segments->held;
    EchId stack = ech_trace_ops(trace)[i].stack;
    for (; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        if ((op->kind == ECH_OP_ALLOC || op->kind == ECH_OP_FREE) && ech_trace_buffers(trace)[op->target].memory == segments->memory)
            break;
        if (!is_allocator_mark(trace, op, segments->device))
            continue;
        const char *name = ech_trace_string(trace, op->name);
        segments->looked = i + 1;
        if (ech_mark_gives_segment(name))
            continue;
        bool takes = ech_mark_takes_segment(name);
        if (!takes && !g_str_has_prefix(name, "oom "))
            continue;
        if (stack != ECH_NONE)
            break;
        return takes && !segments->collects && ech_bytes_add(held, op->bytes) <= segments->peak;
    }
    if (stack != ECH_NONE)
        return ech_stack_empties_cache(ech_trace_string(trace, stack));
    segments->looked = i;
    return true;
}

/* A segment that is given back. */
static bool read_gift(const EchTrace *trace, const EchOp *op, uint32_t device, SegmentMark *ret)
{
    return read_mark(trace, op, device, "segment_free", ret) || read_mark(trace, op, device, "segment_unmap", ret);
}

/* Where a segment is given back: the event that says so. */
static bool given_back(const EchTrace *trace, size_t i, bool recorded, Segments *segments, EchAllocEvent *ret)
{
    const EchOp *op = &ech_trace_ops(trace)[i];
    SegmentMark mark;
    if (!read_gift(trace, op, segments->device, &mark))
        return false;
    bool emptied = !recorded && !*mark.pool && i >= segments->looked && is_emptied(trace, i, segments); /* of a private pool its release tells */
    segments->held -= MIN(segments->held, op->bytes);
    if (recorded)
        *ret = (EchAllocEvent){.bytes = mark.address, .id = (uint32_t)MIN(op->bytes / 512, (uint64_t)UINT32_MAX), .kind = ECH_EVENT_GIVE_BACK};
    else
        *ret = (EchAllocEvent){.kind = ECH_EVENT_EMPTY_CACHE};
    return recorded || emptied;
}

/* Before op @op expandable_segments is set. */
typedef struct {
    size_t op;
    bool on;
} Switch;

typedef struct {
    uint64_t address, end;
} Range;

static int by_range(const void *a, const void *b)
{
    const Range *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

/* Addresses that pages were ever mapped at, as disjoint ranges (Range), ascending. */
static GArray *expandable_ranges(const EchTrace *trace, uint32_t device)
{
    GArray *ranges = g_array_new(FALSE, FALSE, sizeof(Range));
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        SegmentMark mark;
        if (op->kind != ECH_OP_MARK)
            continue;
        if ((read_mark(trace, op, device, "segment_start", &mark) && mark.expandable) || read_mark(trace, op, device, "segment_map", &mark)) {
            Range range = {mark.address, ech_bytes_add(mark.address, op->bytes)};
            g_array_append_val(ranges, range);
        }
    }
    g_array_sort(ranges, by_range);
    guint n = 0;
    for (guint i = 0; i < ranges->len; i++) {
        Range range = g_array_index(ranges, Range, i), *last = n ? &g_array_index(ranges, Range, n - 1) : NULL;
        if (last && range.address <= last->end)
            last->end = MAX(last->end, range.end);
        else
            g_array_index(ranges, Range, n++) = range;
    }
    g_array_set_size(ranges, n);
    return ranges;
}

static bool lies_in(const GArray *ranges, uint64_t address)
{
    guint low = 0, high = ranges->len;
    ECH_SEARCH(low, high, middle, g_array_index(ranges, Range, middle).end <= address);
    return low < ranges->len && g_array_index(ranges, Range, low).address <= address;
}

/* Where a program changed expandable_segments while it was recorded (torch.cuda.memory._set_allocator_settings), as the first one, what held at the start; none
 * where it did not (Switch). Pages are mapped, and blocks among them taken, only where it is on; cudaMalloc serves the common pool only where it is off. What
 * tells neither, blocks of cudaMalloc's segments that were cached, is taken to be of the time when it was off, where that is next to it. What holds at the end
 * the recording says. */
static GArray *expandable_switches(const EchTrace *trace, EchId memory, uint32_t device, bool on_at_end)
{
    GArray *switches = g_array_new(FALSE, FALSE, sizeof(Switch));
    g_autoptr(GArray) ranges = expandable_ranges(trace, device);
    const EchBuffer *buffers = ech_trace_buffers(trace);
    size_t after = 0; /* the op behind the last one that tells */
    for (size_t i = 0; ranges->len && i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        SegmentMark mark;
        bool on = op->kind == ECH_OP_MARK ? read_mark(trace, op, device, "segment_map", &mark)
                                          : op->kind == ECH_OP_ALLOC && buffers[op->target].memory == memory && lies_in(ranges, buffers[op->target].address);
        bool off = !on && op->kind == ECH_OP_MARK && read_mark(trace, op, device, "segment_alloc", &mark) && !*mark.pool;
        if (!on && !off)
            continue;
        if (switches->len == 0 || g_array_index(switches, Switch, switches->len - 1).on != on) {
            Switch change = {switches->len == 0 ? 0 : on ? i : after, on};
            g_array_append_val(switches, change);
        }
        after = i + 1;
    }
    if (switches->len && !on_at_end && g_array_index(switches, Switch, switches->len - 1).on) {
        const Switch change = {after, false};
        g_array_append_val(switches, change);
    }
    if (switches->len == 1)
        g_array_set_size(switches, 0);
    return switches;
}

/* An allocation taken or given back. @recorded: by an allocator whose private pools are known as such. */
static EchAllocEvent buffer_event(Streams *streams, EchId id, bool given, bool recorded)
{
    const EchTrace *trace = streams->trace;
    const EchBuffer *buffer = &ech_trace_buffers(trace)[id];
    bool written = strcmp(ech_trace_format(trace), "alloc_text") == 0; /* as text, where a private pool's number is its stream */
    EchAllocEvent event = {
        .bytes = buffer->bytes, .id = id, .kind = given ? ECH_EVENT_ALLOC : ECH_EVENT_FREE, .upper_end = buffer->upper_end != 0, .direct = buffer->direct != 0};
    event.stream = stream_number(streams, buffer->queue, written ? ECH_NONE : buffer->pool) & ECH_EVENT_MAX_STREAM;
    event.private_pool = (recorded || written) && buffer->pool != ECH_NONE;
    event.captured = event.private_pool && ech_buffer_is_captured(trace, buffer);
    return event;
}

GArray *ech_alloc_events_of_trace(const EchTrace *trace, EchId memory, bool residents, bool as_recorded)
{
    GArray *events = g_array_new(FALSE, FALSE, sizeof(EchAllocEvent));
    const EchBuffer *buffers = ech_trace_buffers(trace);
    size_t n_buffers = ech_trace_n_buffers(trace);
    Streams streams = streams_new(trace);
    uint32_t device = 0;
    bool recorded = ech_trace_device_of(trace, memory, &device) && is_snapshot(trace, memory);
    uint32_t n_refused = 0;
    g_auto(EchPyTorchConf) conf = recorded_settings(trace);
    Segments segments = {.memory = memory, .device = device};
    if (recorded) {
        bool limited;
        segments.peak = MAX(ech_alloc_recorded_peak(trace, memory), ech_alloc_refused_capacity(trace, memory, &limited));
        segments.collects = g_ascii_strtod(setting(trace, "garbage_collection_threshold"), NULL) > 0;
    }
    Names names = names_new(trace, device);
    g_autoptr(GHashTable) last = last_requests(trace), by_rounded = g_hash_table_new(NULL, NULL);
    Rounded rounded = {by_rounded, 0};
    for (size_t i = 0; i < n_buffers; i++) {
        const EchBuffer *buffer = &buffers[i];
        if (!buffer->resident || buffer->memory != memory || buffer->alias_of != ECH_NONE || !(residents || buffer->direct))
            continue;
        const EchAllocEvent event = buffer_event(&streams, (EchId)i, true, recorded);
        g_array_append_val(events, event);
    }
    g_autoptr(GArray) switches =
        recorded && as_recorded ? expandable_switches(trace, memory, device, conf.expandable) : g_array_new(FALSE, FALSE, sizeof(Switch));
    guint n_switched = 0;
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        EchAllocEvent event = {0};
        for (; n_switched < switches->len && g_array_index(switches, Switch, n_switched).op == i; n_switched++) {
            const EchAllocEvent change = {.kind = ECH_EVENT_EXPANDABLE, .id = g_array_index(switches, Switch, n_switched).on};
            g_array_append_val(events, change);
        }
        if (op->kind == ECH_OP_MARK) {
            uint32_t buffer, stream;
            uint64_t of;
            EchRefusal refusal;
            const char *name = ech_trace_string(trace, op->name), *pool;
            if (recorded && is_allocator_mark(trace, op, device) && ech_mark_takes_segment(name))
                segments.held = ech_bytes_add(segments.held, op->bytes);
            if (recorded && read_refusal(trace, i, device, &refusal, &of, &pool)) {
                event = (EchAllocEvent){
                    .bytes = asked_for(&rounded, events, &conf, refusal.bytes), .id = (uint32_t)n_buffers + n_refused++, .kind = ECH_EVENT_ALLOC};
                event.stream = named_stream(&streams, &names, of, pool) & ECH_EVENT_MAX_STREAM;
                event.private_pool = pool != NULL;
                event.captured = pool && ech_pool_is_capture(pool, of);
                g_array_append_val(events, event);
                event.kind = ECH_EVENT_FREE;
                g_array_append_val(events, event);
                continue;
            }
            SegmentMark mark;
            if (recorded && ech_mark_gives_segment(name) && read_gift(trace, op, device, &mark) && *mark.pool && is_over(&names, last, mark.pool, i)) {
                event = (EchAllocEvent){.kind = ECH_EVENT_POOL_DONE};
                event.stream = named_stream(&streams, &names, mark.stream, mark.pool) & ECH_EVENT_MAX_STREAM;
                g_array_append_val(events, event);
            }
            if (sscanf(name, "record_stream buffer=%u stream=%u", &buffer, &stream) == 2 && buffer < n_buffers && buffers[buffer].memory == memory)
                event = (EchAllocEvent){.id = buffer, .kind = ECH_EVENT_RECORD_STREAM, .stream = stream & ECH_EVENT_MAX_STREAM};
            else if (sscanf(name, "stream_done stream=%u", &stream) == 1)
                event = (EchAllocEvent){.kind = ECH_EVENT_STREAM_DONE, .stream = stream & ECH_EVENT_MAX_STREAM};
            else if (sscanf(name, "pool_done stream=%u", &stream) == 1)
                event = (EchAllocEvent){.kind = ECH_EVENT_POOL_DONE, .stream = stream & ECH_EVENT_MAX_STREAM};
            else if (strcmp(name, "empty_cache") == 0)
                event = (EchAllocEvent){.kind = ECH_EVENT_EMPTY_CACHE};
            else if (!recorded || !given_back(trace, i, as_recorded, &segments, &event))
                continue;
        } else {
            if ((op->kind != ECH_OP_ALLOC && op->kind != ECH_OP_FREE) || buffers[op->target].memory != memory)
                continue;
            event = buffer_event(&streams, op->target, op->kind == ECH_OP_ALLOC, recorded);
        }
        g_array_append_val(events, event);
    }
    names_clear(&names);
    g_hash_table_unref(streams.numbers);
    return events;
}

EchAddressOrder ech_alloc_recorded_order(const EchTrace *trace, EchId memory)
{
    /* Where the kernel maps from the top down, and where pretended devices have their memory (traces/capture/pretend/memory.c); Windows' driver model gives low
     * ones, of which it is not known in which order. */
    static const uint64_t mapped = UINT64_C(0x700000000000), pretended[] = {UINT64_C(0x3a6700000000), UINT64_C(0x500000000000)};
    const EchBuffer *buffers = ech_trace_buffers(trace);
    for (size_t i = 0; i < ech_trace_n_buffers(trace); i++) {
        if (buffers[i].memory != memory || buffers[i].address == ECH_OFFSET_NONE)
            continue;
        if (buffers[i].address >= mapped)
            return ECH_ADDRESSES_DESCEND;
        return buffers[i].address >= pretended[0] && buffers[i].address < pretended[1] ? ECH_ADDRESSES_ASCEND : ECH_ADDRESSES_FIRST_FIT;
    }
    return ECH_ADDRESSES_FIRST_FIT;
}

/* ---- the start state ---- */

void ech_alloc_start_free(EchAllocStart *start)
{
    if (!start)
        return;
    g_array_unref(start->seeds);
    g_array_unref(start->owners);
    g_array_unref(start->script);
    g_free(start);
}

typedef struct {
    SegmentMark mark;
    EchBytes bytes;
    bool gone; /* given back, not taken */
} StartSegment;

static int by_segment(const void *a, const void *b)
{
    const StartSegment *x = a, *y = b;
    return (x->mark.address > y->mark.address) - (x->mark.address < y->mark.address);
}

static int by_address(const void *a, const void *b, void *data)
{
    const EchBuffer *buffers = data;
    const EchId *i = a, *j = b;
    uint64_t x = buffers[*i].address, y = buffers[*j].address;
    return (x > y) - (x < y);
}

/* Adjacent ranges of one reservation are one: a block may lie across them that was in use then, and what was unmapped later cut them apart. @segments: by
 * address. */
static void join_ranges(GArray *segments)
{
    guint n = 0;
    for (guint i = 0; i < segments->len; i++) {
        const StartSegment *segment = &g_array_index(segments, StartSegment, i);
        StartSegment *last = n ? &g_array_index(segments, StartSegment, n - 1) : NULL;
        if (last && last->mark.expandable && segment->mark.expandable && last->mark.address + last->bytes == segment->mark.address &&
            last->mark.stream == segment->mark.stream && last->mark.small == segment->mark.small && strcmp(last->mark.pool, segment->mark.pool) == 0)
            last->bytes = ech_bytes_add(last->bytes, segment->bytes);
        else
            g_array_index(segments, StartSegment, n++) = *segment;
    }
    g_array_set_size(segments, n);
}

/* Bytes of a resident's block. Where only the request is known it is rounded as the settings say, and in the large pool of cudaMalloc segments a rest of at
 * most 1 MiB before the next block belongs to it: no free block there is that small (facts of b.6: it would not have been split off). Nor is a block of
 * max_split_size ever split. */
static EchBytes block_bytes(const EchBuffer *buffer, const StartSegment *segment, uint64_t next, const EchPyTorchConf *conf, EchAllocStart *start)
{
    EchBytes room = next - buffer->address, bytes = buffer->rounded;
    if (bytes == 0) {
        bytes = ech_pytorch_round(conf, buffer->bytes);
        start->guessed++;
        if (!segment->mark.small && !segment->mark.expandable && bytes < room && (room - bytes <= UINT64_C(1) << 20 || bytes >= conf->max_split))
            bytes = room;
    }
    return MIN(bytes, room);
}

enum { MAX_RESERVATIONS = 256 };

/* A reservation of addresses that has pages: from the lowest to the highest that ever was one. */
typedef struct {
    const SegmentMark *mark;
    uint64_t address;
    EchBytes bytes, mapped;
} Reservation;

static bool same_pool(const SegmentMark *a, const SegmentMark *b)
{
    return a->stream == b->stream && a->small == b->small && strcmp(a->pool, b->pool) == 0;
}

/* Pages are mapped from a reservation's start on, behind those that are, or where they had been: what is mapped elsewhere begins a new reservation, and so does
 * what is mapped after a reservation's last page was given back, which ends it. Of those there at the start, one stream and pool has one. A reservation of
 * which no page was ever mapped, for want of memory, is not told: each goes to the pool that it was made for. @segments: by address. */
static void script_reservations(GArray *script, const GArray *segments, const GArray *mapped, Streams *streams, Names *names)
{
    g_autoptr(GArray) known = g_array_new(FALSE, FALSE, sizeof(Reservation));
    for (guint i = 0; i < segments->len + mapped->len && known->len < MAX_RESERVATIONS; i++) {
        bool later = i >= segments->len;
        const StartSegment *segment = &g_array_index(later ? mapped : segments, StartSegment, later ? i - segments->len : i);
        uint64_t address = segment->mark.address;
        if (!segment->mark.expandable && !later)
            continue;
        guint k = 0;
        for (; k < known->len; k++) {
            const Reservation *other = &g_array_index(known, Reservation, k);
            if (address >= other->address && (later ? address - other->address <= other->bytes : same_pool(&segment->mark, other->mark)))
                break;
        }
        Reservation *of = k < known->len ? &g_array_index(known, Reservation, k) : NULL;
        if (of && segment->gone) {
            of->mapped -= MIN(of->mapped, segment->bytes);
            if (of->mapped == 0)
                g_array_remove_index_fast(known, k);
        } else if (of) {
            of->bytes = MAX(of->bytes, ech_bytes_add(address - of->address, segment->bytes));
            of->mapped = ech_bytes_add(of->mapped, segment->bytes);
        } else if (!segment->gone) {
            Reservation new = {&segment->mark, address, segment->bytes, segment->bytes};
            g_array_append_val(known, new);
            if (later) {
                uint32_t stream = named_stream(streams, names, segment->mark.stream, segment->mark.pool) & ECH_EVENT_MAX_STREAM;
                EchSegmentRange range = {.address = address, .stream = stream, .small_pool = segment->bytes <= ECH_PYTORCH_SMALL_BUFFER};
                g_array_append_val(script, range);
            }
        }
    }
}

/* Segments there at the start, ranges taken later (the script) and ranges of reservations mapped and unmapped later, as the recording's marks tell. */
static void read_segments(const EchTrace *trace, uint32_t device, GArray *segments, GArray *script, GArray *mapped)
{
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        StartSegment segment = {.bytes = op->bytes};
        if (op->kind != ECH_OP_MARK)
            continue;
        if (read_mark(trace, op, device, "segment_start", &segment.mark)) {
            g_array_append_val(segments, segment);
        } else if (read_mark(trace, op, device, "segment_alloc", &segment.mark)) {
            EchSegmentRange range = {.address = segment.mark.address, .bytes = op->bytes};
            g_array_append_val(script, range);
        } else if (read_mark(trace, op, device, "segment_map", &segment.mark)) {
            g_array_append_val(mapped, segment);
        } else if (read_mark(trace, op, device, "segment_unmap", &segment.mark)) {
            segment.gone = true;
            g_array_append_val(mapped, segment);
        }
    }
}

/* Resident buffers of a memory's allocator whose address is known (EchId), by address. */
static GArray *residents_of(const EchTrace *trace, EchId memory)
{
    const EchBuffer *buffers = ech_trace_buffers(trace);
    GArray *out = g_array_new(FALSE, FALSE, sizeof(EchId));
    for (EchId i = 0; i < ech_trace_n_buffers(trace); i++) {
        if (buffers[i].resident && buffers[i].memory == memory && buffers[i].alias_of == ECH_NONE && buffers[i].address != ECH_OFFSET_NONE &&
            !buffers[i].direct)
            g_array_append_val(out, i);
    }
    if (out->len)
        g_qsort_with_data(out->data, (gint)out->len, sizeof(EchId), by_address, (void *)(uintptr_t)buffers);
    return out;
}

/* Number of the resident buffer that is next in line, where it lies below @end; else ECH_NONE, and *ret_address is @end. */
static EchId resident_below(const EchBuffer *buffers, const GArray *residents, guint at, uint64_t end, uint64_t *ret_address)
{
    EchId id = at < residents->len ? g_array_index(residents, EchId, at) : ECH_NONE;
    bool below = id != ECH_NONE && buffers[id].address < end;
    *ret_address = below ? buffers[id].address : end;
    return below ? id : ECH_NONE;
}

/* Tiles a segment with its residents and the free blocks between them, beginning with resident number @at; the number behind its last. */
static guint add_seeds(const EchBuffer *buffers, const GArray *residents, guint at, const StartSegment *segment, uint32_t stream, const EchPyTorchConf *conf,
                       EchAllocStart *start)
{
    uint64_t position = segment->mark.address, end = position + segment->bytes;
    EchSeedBlock block = {.segment_address = position,
                          .segment_bytes = segment->bytes,
                          .small_pool = segment->mark.small,
                          .expandable = segment->mark.expandable,
                          .private_pool = *segment->mark.pool != '\0',
                          .stream = stream};
    while (position < end) {
        uint64_t next, limit;
        EchId id = resident_below(buffers, residents, at, end, &next);
        block.address = position;
        if (next > position) {
            block.id = UINT32_MAX;
            block.bytes = next - position;
            block.requested = 0;
        } else {
            at++;
            (void)resident_below(buffers, residents, at, end, &limit);
            if (limit == position) { /* two residents at one address: one is enough */
                start->homeless++;
                continue;
            }
            block.id = id;
            block.bytes = block_bytes(&buffers[id], segment, limit, conf, start);
            block.requested = MIN(buffers[id].bytes, block.bytes);
        }
        if (block.bytes == 0)
            break;
        position += block.bytes;
        g_array_append_val(start->seeds, block);
    }
    return at;
}

static EchAllocStart *start_new(void)
{
    EchAllocStart *start = g_new0(EchAllocStart, 1);
    start->seeds = g_array_new(FALSE, FALSE, sizeof(EchSeedBlock));
    start->owners = g_array_new(FALSE, FALSE, sizeof(EchAllocOwner));
    start->script = g_array_new(FALSE, FALSE, sizeof(EchSegmentRange));
    return start;
}

/* BFC's log: chunks in use are resident, and what lies between them in a region ("0x7f21000000+4194304 ...") is free. */
static EchAllocStart *start_of_log(const EchTrace *trace, EchId memory)
{
    const char *text = ech_trace_get_property(trace, "allocator_regions");
    g_autoptr(GArray) segments = g_array_new(FALSE, FALSE, sizeof(StartSegment)), residents = residents_of(trace, memory);
    while (text && *text) {
        StartSegment segment = {0};
        char *end;
        segment.mark.address = g_ascii_strtoull(text, &end, 16);
        segment.bytes = *end == '+' ? g_ascii_strtoull(end + 1, &end, 10) : 0;
        if (segment.bytes == 0 || segment.bytes > UINT64_MAX - segment.mark.address || (*end && *end != ' '))
            return NULL;
        g_array_append_val(segments, segment);
        text = *end ? end + 1 : end;
    }
    if (segments->len == 0)
        return NULL;
    g_array_sort(segments, by_segment);
    EchAllocStart *start = start_new();
    start->granule = 256;
    const EchPyTorchConf none = {0};
    guint at = 0;
    const EchBuffer *buffers = ech_trace_buffers(trace);
    for (guint i = 0; i < segments->len; i++) {
        const StartSegment *segment = &g_array_index(segments, StartSegment, i);
        for (; at < residents->len && buffers[g_array_index(residents, EchId, at)].address < segment->mark.address; at++)
            start->homeless++;
        at = add_seeds(buffers, residents, at, segment, 0, &none, start);
    }
    const EchAllocOwner nobody = {ECH_NONE, ECH_NONE};
    while (start->owners->len < start->seeds->len)
        g_array_append_val(start->owners, nobody);
    start->homeless += residents->len - at;
    return start;
}

EchAllocStart *ech_alloc_start_of_trace(const EchTrace *trace, EchId memory)
{
    uint32_t device;
    if (strcmp(ech_trace_format(trace), "out_of_memory") == 0 && memory != ECH_NONE)
        return start_of_log(trace, memory);
    if (!is_snapshot(trace, memory) || memory == ECH_NONE || !ech_trace_device_of(trace, memory, &device))
        return NULL;
    EchAllocStart *start = start_new();
    g_autoptr(GArray) segments = g_array_new(FALSE, FALSE, sizeof(StartSegment)), mapped = g_array_new(FALSE, FALSE, sizeof(StartSegment));
    read_segments(trace, device, segments, start->script, mapped);
    if (segments->len) {
        g_array_sort(segments, by_segment);
        join_ranges(segments);
    }
    const EchBuffer *buffers = ech_trace_buffers(trace);
    g_autoptr(GArray) residents = residents_of(trace, memory);
    Streams streams = streams_new(trace);
    Names names = names_new(trace, device);
    script_reservations(start->script, segments, mapped, &streams, &names);
    g_auto(EchPyTorchConf) conf = recorded_settings(trace);
    guint at = 0;
    for (guint i = 0; i < segments->len; i++) {
        const StartSegment *segment = &g_array_index(segments, StartSegment, i);
        for (; at < residents->len && buffers[g_array_index(residents, EchId, at)].address < segment->mark.address; at++)
            start->homeless++;
        at = add_seeds(buffers, residents, at, segment, named_stream(&streams, &names, segment->mark.stream, segment->mark.pool), &conf, start);
        EchAllocOwner owner = owner_of(&names, segment->mark.stream, segment->mark.pool);
        while (start->owners->len < start->seeds->len)
            g_array_append_val(start->owners, owner);
    }
    start->homeless += residents->len - at;
    names_clear(&names);
    g_hash_table_unref(streams.numbers);
    if (start->seeds->len == 0 && start->script->len == 0)
        g_clear_pointer(&start, ech_alloc_start_free);
    return start;
}
