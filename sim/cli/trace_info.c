/* What there is to tell of a trace, and its JSON. */
#include "sim/cli/trace_info_private.h"
#include "sim/base/compare.h"
#include "sim/report/json_out.h"
#include "sim/trace/lifetime.h"

#include <string.h>

static void name_info_free(gpointer data)
{
    EchNameInfo *row = data;
    g_array_unref(row->durations);
    g_free(row);
}

static bool is_host(const char *memory)
{
    return g_str_has_prefix(memory, "host") || strcmp(memory, "disk") == 0;
}

static gint compare_rows(gconstpointer a, gconstpointer b)
{
    const EchNameInfo *x = *(EchNameInfo *const *)a, *y = *(EchNameInfo *const *)b;
    if (x->total != y->total)
        return x->total < y->total ? 1 : -1;
    int text = strcmp(x->text, y->text);
    if (text)
        return text;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return x->device < y->device ? -1 : x->device > y->device;
}

static EchOrigin work_origin(const EchTrace *trace, const EchOp *op)
{
    EchOrigin origin = ECH_ABSENT;
    const EchWork *work = ech_trace_work(trace);
    for (uint32_t i = 0; i < op->n_work; i++)
        origin = MAX(origin, (EchOrigin)work[op->first_work + i].origin);
    return origin;
}

static EchOrigin uses_origin(const EchTrace *trace, const EchOp *op)
{
    EchOrigin origin = ECH_ABSENT;
    const EchUse *uses = ech_trace_uses(trace);
    for (uint32_t i = 0; i < op->n_uses; i++)
        origin = MAX(origin, (EchOrigin)uses[op->first_use + i].origin);
    return origin;
}

static bool is_memset(const EchTrace *trace, const EchOp *op)
{
    return op->kind == ECH_OP_KERNEL && g_ascii_strncasecmp(ech_trace_string(trace, op->name), "memset", 6) == 0 && op->n_work == 0;
}

/* PyTorch's profiler counts collectives among the kernels that they are. */
static bool is_kernel_too(const EchTrace *trace, const EchOp *op)
{
    return op->kind == ECH_OP_COLLECTIVE && strcmp(ech_trace_format(trace), "kineto") == 0;
}

static void count_copy(const EchTrace *trace, const EchOp *op, EchTraceInfo *sum)
{
    bool from = is_host(ech_trace_memory(trace, op->memory_from)), to = is_host(ech_trace_memory(trace, op->memory_to));
    EchBytes *way = from && to ? &sum->h2h : from ? &sum->h2d : to ? &sum->d2h : &sum->d2d;
    if (ech_op_is_prefetch(trace, op))
        way = to ? &sum->prefetch_d2h : &sum->prefetch_h2d;
    *way = ech_bytes_add(*way, op->bytes);
    sum->copy_bytes[op->bytes_origin & 3]++;
}

static void summarise(const EchTrace *trace, EchTraceInfo *sum)
{
    const EchOp *ops = ech_trace_ops(trace);
    size_t n = ech_trace_n_ops(trace);
    sum->first = ECH_TIME_MAX;
    sum->last = ECH_TIME_NONE;
    for (size_t i = 0; i < n; i++) {
        const EchOp *op = &ops[i];
        bool memset = is_memset(trace, op);
        if (memset)
            sum->memsets++;
        else
            sum->ops[op->kind]++;
        if (is_kernel_too(trace, op))
            sum->ops[ECH_OP_KERNEL]++;
        if (op->kind == ECH_OP_ALLOC) {
            sum->allocated = ech_bytes_add(sum->allocated, op->bytes);
            sum->alloc_bytes[op->bytes_origin & 3]++;
        }
        if (op->kind == ECH_OP_LOOP)
            sum->loop_trips[op->bytes_origin & 3]++;
        if (op->kind == ECH_OP_COPY)
            count_copy(trace, op, sum);
        if (op->kind == ECH_OP_KERNEL && !memset) {
            sum->kernel_bytes[uses_origin(trace, op)]++;
            sum->kernel_work[work_origin(trace, op)]++;
        }
        EchTime duration = op->recorded.duration;
        if (op->recorded.start != ECH_TIME_NONE) {
            sum->first = MIN(sum->first, op->recorded.start);
            sum->last = MAX(sum->last, duration == ECH_TIME_NONE ? op->recorded.start : ech_time_add(MAX(op->recorded.start, 0), duration));
        }
        if (duration == ECH_TIME_NONE)
            continue;
        if (memset)
            sum->memset = ech_time_add(sum->memset, duration);
        else if (op->kind == ECH_OP_KERNEL || is_kernel_too(trace, op))
            sum->kernel = ech_time_add(sum->kernel, duration);
        if (op->kind == ECH_OP_COPY)
            sum->copy = ech_time_add(sum->copy, duration);
    }
}

/* Managed memory: what of it there is at one time, loops once. */
static EchBytes managed_peak(const EchTrace *trace)
{
    const EchBuffer *buffers = ech_trace_buffers(trace);
    EchBytes live = 0;
    for (size_t i = 0; i < ech_trace_n_buffers(trace); i++)
        live = ech_bytes_add(live, buffers[i].managed && buffers[i].resident ? buffers[i].bytes : 0);
    EchBytes peak = live;
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        if ((op->kind != ECH_OP_ALLOC && op->kind != ECH_OP_FREE) || !buffers[op->target].managed)
            continue;
        EchBytes bytes = buffers[op->target].bytes;
        live = op->kind == ECH_OP_ALLOC ? ech_bytes_add(live, bytes) : live - MIN(live, bytes);
        peak = MAX(peak, live);
    }
    return peak;
}

static EchTime median(const GArray *durations)
{
    EchTime low = g_array_index(durations, EchTime, (durations->len - 1) / 2), high = g_array_index(durations, EchTime, durations->len / 2);
    return low + (high - low) / 2;
}

static gpointer key_of(EchId name, uint8_t kind, uint32_t device, bool on_device)
{
    return GSIZE_TO_POINTER(((gsize)device << 37 | (gsize)on_device << 36 | (gsize)name << 4 | kind) + 1);
}

/* Recorded operations by name and, if asked, device; EchNameInfo, longest total first. */
static GPtrArray *names_of(const EchTrace *trace, bool by_device)
{
    GPtrArray *names = g_ptr_array_new_with_free_func(name_info_free);
    g_autoptr(GHashTable) index = g_hash_table_new(NULL, NULL);
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        if (op->recorded.duration == ECH_TIME_NONE)
            continue;
        uint32_t device = op->queue == ECH_NONE ? 0 : ech_trace_queues(trace)[op->queue].device;
        bool on_device = op->kind == ECH_OP_MARK && op->queue != ECH_NONE && ech_trace_queues(trace)[op->queue].kind != ECH_QUEUE_HOST;
        gpointer key = key_of(op->name, op->kind, by_device ? device : 0, on_device);
        EchNameInfo *row = g_hash_table_lookup(index, key);
        if (!row) {
            row = g_new0(EchNameInfo, 1);
            row->name = op->name;
            row->text = ech_trace_string(trace, op->name);
            row->kind = op->kind;
            row->device = by_device ? device : 0;
            row->on_device = on_device;
            row->durations = g_array_new(FALSE, FALSE, sizeof(EchTime));
            g_hash_table_insert(index, key, row);
            g_ptr_array_add(names, row);
        }
        g_array_append_val(row->durations, op->recorded.duration);
        row->total = ech_time_add(row->total, op->recorded.duration);
    }
    if (names->len)
        g_ptr_array_sort(names, compare_rows);
    for (guint i = 0; i < names->len; i++) {
        EchNameInfo *row = names->pdata[i];
        g_array_sort(row->durations, ech_compare_i64);
        row->median = median(row->durations);
        row->twice = row->kind == ECH_OP_MARK && g_hash_table_contains(index, key_of(row->name, row->kind, row->device, !row->on_device));
    }
    return names;
}

/* A figure the reader took from the file ("end_reserved_bytes"), or what the trace itself adds up to. */
static uint64_t figure(const EchTrace *trace, const char *key, uint64_t fallback)
{
    const char *text = ech_trace_get_property(trace, key);
    uint64_t value;
    return text && ech_parse_u64(text, &value, NULL) ? value : fallback;
}

static EchId main_memory(const EchTrace *trace)
{
    EchId hbm = ech_trace_find_memory(trace, "hbm");
    const EchBuffer *buffers = ech_trace_buffers(trace);
    for (size_t i = 0; hbm != ECH_NONE && i < ech_trace_n_buffers(trace); i++) {
        if (buffers[i].memory == hbm)
            return hbm;
    }
    return ECH_NONE;
}

EchTraceInfo *ech_trace_info_new(const EchTrace *trace)
{
    EchTraceInfo *info = g_new0(EchTraceInfo, 1);
    info->trace = trace;
    summarise(trace, info);
    info->main = main_memory(trace);
    g_autoptr(EchLifetimes) lifetimes = ech_lifetimes_new(trace, info->main);
    info->peak = lifetimes->peak;
    info->managed = managed_peak(trace);
    info->migrated_h2d = figure(trace, "recorded_paged_in_bytes", 0);
    info->migrated_d2h = figure(trace, "recorded_paged_out_bytes", 0);
    info->end_live = lifetimes->end_live;
    info->end_allocated = figure(trace, "end_allocated_bytes", lifetimes->end_live);
    info->end_reserved = figure(trace, "end_reserved_bytes", 0);
    info->end_reserved_known = ech_trace_get_property(trace, "end_reserved_bytes") != NULL;
    info->memories = g_new0(EchMemoryInfo, ech_trace_n_memories(trace) + 1);
    for (EchId m = 0; m < ech_trace_n_memories(trace); m++) {
        g_autoptr(EchLifetimes) own = ech_lifetimes_new(trace, m);
        const char *name = ech_trace_memory(trace, m);
        info->memories[m] = (EchMemoryInfo){name, own->n, own->peak, own->end_live, ech_padding_new(trace, name, NULL, 0)};
    }
    info->names = names_of(trace, false);
    info->by_device = names_of(trace, true);
    info->transfers = ech_transfers_new(trace);
    return info;
}

void ech_trace_info_free(EchTraceInfo *info)
{
    if (!info)
        return;
    for (EchId m = 0; m < ech_trace_n_memories(info->trace); m++)
        ech_padding_free(info->memories[m].padding);
    g_free(info->memories);
    g_ptr_array_unref(info->names);
    g_ptr_array_unref(info->by_device);
    ech_transfers_free(info->transfers);
    g_free(info);
}

static void add_shares(JsonBuilder *b, const char *name, const uint64_t shares[4])
{
    ech_json_begin_object(b, name);
    for (EchOrigin o = ECH_ABSENT; o <= ECH_ASSUMED; o++)
        ech_json_add_count(b, ech_origin_name(o), shares[o]);
    json_builder_end_object(b);
}

static void json_names(JsonBuilder *b, const char *member, const EchTrace *trace, const GPtrArray *names, bool by_device)
{
    ech_json_begin_array(b, member);
    for (guint i = 0; i < MIN(names->len, 500u); i++) {
        const EchNameInfo *row = names->pdata[i];
        json_builder_begin_object(b);
        ech_json_add_text(b, "name", ech_trace_string(trace, row->name));
        ech_json_add_text(b, "kind", ech_op_kind_name((EchOpKind)row->kind));
        if (by_device)
            ech_json_add_count(b, "device", row->device);
        if (row->kind == ECH_OP_MARK)
            ech_json_add_text(b, "on", row->on_device ? "device" : "host");
        ech_json_add_count(b, "count", row->durations->len);
        ech_json_add_count(b, "median_ps", (uint64_t)row->median);
        ech_json_add_count(b, "min_ps", (uint64_t)g_array_index(row->durations, EchTime, 0));
        ech_json_add_count(b, "max_ps", (uint64_t)g_array_index(row->durations, EchTime, row->durations->len - 1));
        ech_json_add_count(b, "total_ps", (uint64_t)row->total);
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
}

/* Absent where nothing was recorded. */
static void add_time(JsonBuilder *b, const char *name, EchTime time)
{
    if (time != ECH_TIME_NONE)
        ech_json_add_count(b, name, (uint64_t)time);
}

static void json_transfers(JsonBuilder *b, const EchTrace *trace, const EchTransfers *transfers)
{
    ech_json_begin_array(b, "transfers");
    for (size_t i = 0; i < MIN(transfers->n, (size_t)500); i++) {
        const EchTransferRow *row = &transfers->rows[i];
        json_builder_begin_object(b);
        ech_json_add_text(b, "name", ech_trace_string(trace, row->name));
        ech_json_add_text(b, "from", row->from);
        ech_json_add_text(b, "to", row->to);
        ech_json_add_text(b, "overlap", ech_overlap_name(row->overlap));
        ech_json_add_count(b, "bytes", row->bytes);
        ech_json_add_count(b, "count", row->count);
        add_time(b, "in_flight_median_ps", row->in_flight);
        add_time(b, "waited_median_ps", row->waited);
        ech_json_begin_array(b, "devices");
        for (size_t d = 0; d < row->n_devices; d++) {
            json_builder_begin_object(b);
            ech_json_add_count(b, "device", row->devices[d].device);
            ech_json_add_count(b, "median_ps", (uint64_t)row->devices[d].median);
            json_builder_end_object(b);
        }
        json_builder_end_array(b);
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
}

void ech_trace_info_json(JsonBuilder *b, const EchTraceInfo *info)
{
    const EchTrace *trace = info->trace;
    ech_json_add_text(b, "source_format", ech_trace_format(trace));
    ech_json_add_count(b, "events", ech_trace_n_ops(trace));
    ech_json_begin_object(b, "ops");
    for (int k = 0; k < ECH_N_OP_KINDS; k++)
        ech_json_add_count(b, ech_op_kind_name((EchOpKind)k), info->ops[k]);
    ech_json_add_count(b, "memset", info->memsets);
    json_builder_end_object(b);
    ech_json_add_count(b, "buffers", ech_trace_n_buffers(trace));
    ech_json_add_count(b, "queues", ech_trace_n_queues(trace));
    ech_json_begin_object(b, "bytes");
    ech_json_add_count(b, "allocated", info->allocated);
    ech_json_add_count(b, "peak_live", info->peak);
    ech_json_add_count(b, "h2d", info->h2d);
    ech_json_add_count(b, "d2h", info->d2h);
    ech_json_add_count(b, "d2d", info->d2d);
    ech_json_add_count(b, "h2h", info->h2h);
    if (info->managed || info->migrated_h2d || info->migrated_d2h) {
        ech_json_add_count(b, "managed_peak_live", info->managed);
        ech_json_add_count(b, "prefetch_h2d", info->prefetch_h2d);
        ech_json_add_count(b, "prefetch_d2h", info->prefetch_d2h);
        ech_json_add_count(b, "migrated_h2d", info->migrated_h2d);
        ech_json_add_count(b, "migrated_d2h", info->migrated_d2h);
    }
    ech_json_add_count(b, "end_allocated", info->end_allocated);
    ech_json_add_count(b, "end_reserved", info->end_reserved);
    json_builder_end_object(b);
    ech_json_add_count(b, "span_ps", info->last == ECH_TIME_NONE ? 0 : (uint64_t)(info->last - info->first));
    ech_json_begin_object(b, "recorded_ps");
    ech_json_add_count(b, "kernel", (uint64_t)info->kernel);
    ech_json_add_count(b, "copy", (uint64_t)info->copy);
    ech_json_add_count(b, "memset", (uint64_t)info->memset);
    json_builder_end_object(b);
    ech_json_begin_object(b, "origins");
    add_shares(b, "copy_bytes", info->copy_bytes);
    add_shares(b, "kernel_bytes", info->kernel_bytes);
    add_shares(b, "kernel_work", info->kernel_work);
    add_shares(b, "allocation_bytes", info->alloc_bytes);
    add_shares(b, "loop_trips", info->loop_trips);
    json_builder_end_object(b);
    ech_json_begin_object(b, "memories");
    for (EchId m = 0; m < ech_trace_n_memories(trace); m++) {
        const EchMemoryInfo *memory = &info->memories[m];
        ech_json_begin_object(b, memory->name);
        ech_json_add_count(b, "allocations", memory->allocations);
        ech_json_add_count(b, "peak_live_bytes", memory->peak);
        ech_json_add_count(b, "end_live_bytes", memory->end_live);
        if (memory->padding->bytes > 0) {
            json_builder_set_member_name(b, "padding");
            ech_padding_json(b, trace, memory->padding, 16);
        }
        json_builder_end_object(b);
    }
    json_builder_end_object(b);
    json_names(b, "names", trace, info->by_device, true);
    json_names(b, "names_on_all_devices", trace, info->names, false);
    json_transfers(b, trace, info->transfers);
    ech_json_begin_object(b, "properties");
    const char *value, *key;
    for (size_t i = 0; (key = ech_trace_property(trace, i, &value)) != NULL; i++)
        ech_json_add_text(b, key, value);
    json_builder_end_object(b);
}
