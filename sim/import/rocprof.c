#include "sim/import/rocprof.h"

#include "sim/base/compare.h"
#include "sim/base/hash.h"
#include "sim/import/gpu_work.h"
#include "sim/import/xla_programs.h"

enum { MAX_QUEUES = 2048, MAX_NAME = 256 };

struct EchRocprof {
    EchImport *ret;
    EchCapture *capture;
    EchTraceBuilder *builder;
    GArray *records[ECH_ROC_KINDS]; /* EchRocRecord */
    GHashTable *queues;             /* "process device stream" -> index + 1 */
    GHashTable *names;              /* EchGpuName by string id + 1 */
    GHashTable *live;               /* address of a process -> 1 + tier + ECH_N_TIERS * device, of what was allocated */
    bool by_stream[ECH_ROC_PROCESSES];
    uint32_t n_queues[ECH_ROC_PROCESSES];
};

EchRocprof *ech_rocprof_new(EchImport *ret, const char *format)
{
    EchRocprof *r = g_new0(EchRocprof, 1);
    r->ret = ret;
    r->capture = ech_capture_new(ret, format);
    r->builder = ech_capture_builder(r->capture);
    for (size_t kind = 0; kind < ECH_ROC_KINDS; kind++)
        r->records[kind] = g_array_new(FALSE, FALSE, sizeof(EchRocRecord));
    r->queues = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL);
    r->names = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    r->live = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, NULL);
    return r;
}

void ech_rocprof_free(EchRocprof *r)
{
    if (!r)
        return;
    for (size_t kind = 0; kind < ECH_ROC_KINDS; kind++)
        g_array_unref(r->records[kind]);
    g_hash_table_unref(r->live);
    g_hash_table_unref(r->names);
    g_hash_table_unref(r->queues);
    ech_capture_free(r->capture);
    g_free(r);
}

EchTraceBuilder *ech_rocprof_builder(EchRocprof *r)
{
    return r->builder;
}

EchId ech_rocprof_kernel_name(EchRocprof *r, const char *name)
{
    static const char *const suffixes[] = {" [clone .kd]", ".kd"};
    size_t n = strlen(name);
    for (size_t i = 0; i < G_N_ELEMENTS(suffixes); i++) {
        if (n > strlen(suffixes[i]) && g_str_has_suffix(name, suffixes[i]))
            return ech_trace_builder_string(r->builder, name, (gssize)(n - strlen(suffixes[i])));
    }
    return ech_trace_builder_string(r->builder, name, -1);
}

void ech_rocprof_name_device(EchRocprof *r, uint32_t device, const char *name)
{
    if (!name || !*name || strlen(name) >= MAX_NAME)
        return;
    g_autofree char *key = g_strdup_printf("device.%u.name", device);
    ech_trace_builder_set_property(r->builder, key, name);
}

EchRocRecord ech_roc_record(EchRocKind kind)
{
    return (EchRocRecord){.start = ECH_ROC_NONE,
                          .end = ECH_ROC_NONE,
                          .call = ECH_ROC_NONE,
                          .bytes = ECH_ROC_NONE,
                          .address = ECH_ROC_NONE,
                          .name = ECH_NONE,
                          .kind = (uint8_t)kind};
}

void ech_rocprof_add(EchRocprof *r, const EchRocRecord *record)
{
    if (record->start == ECH_ROC_NONE)
        ech_diag_dropped(r->ret->diag, "events_without_time", 1, NULL);
    else
        g_array_append_vals(r->records[record->kind], record, 1);
}

/* ---- once all is there ---- */

/* ECH_TIME_NONE for what is not known or is farther from @base than times reach. */
static EchTime picoseconds(EchRocprof *r, int64_t ns, int64_t base)
{
    int64_t since;
    if (ns == ECH_ROC_NONE)
        return ECH_TIME_NONE;
    if (!__builtin_sub_overflow(ns, base, &since) && since <= INT64_MAX / 4 / ECH_PS_PER_NS && since >= -(INT64_MAX / 4 / ECH_PS_PER_NS))
        return since * ECH_PS_PER_NS;
    ech_diag_dropped(r->ret->diag, "times_out_of_range", 1, "%" G_GINT64_FORMAT " ns", ns);
    return ECH_TIME_NONE;
}

/* Makes of the records' nanoseconds since the machine was started, which may be months, picoseconds since the newest of them (what has no time is 0). */
static void set_times(EchRocprof *r)
{
    int64_t base = INT64_MIN;
    for (size_t kind = 0; kind < ECH_ROC_KINDS; kind++)
        for (guint i = 0; i < r->records[kind]->len; i++)
            base = MAX(base, g_array_index(r->records[kind], EchRocRecord, i).start);
    for (size_t kind = 0; kind < ECH_ROC_KINDS; kind++) {
        guint kept = 0;
        for (guint i = 0; i < r->records[kind]->len; i++) {
            EchRocRecord record = g_array_index(r->records[kind], EchRocRecord, i);
            record.start = picoseconds(r, record.start, base);
            record.end = picoseconds(r, record.end, base);
            if (record.start != ECH_TIME_NONE)
                g_array_index(r->records[kind], EchRocRecord, kept++) = record;
        }
        g_array_set_size(r->records[kind], kept);
    }
    if (base != INT64_MIN)
        ech_trace_builder_printf_property(r->builder, "time_base_ns", "%" G_GINT64_FORMAT, base);
}

static EchTime duration_of(const EchRocRecord *record)
{
    return record->end != ECH_TIME_NONE && record->end >= record->start ? record->end - record->start : ECH_TIME_NONE;
}

static EchItem device_item(EchRocprof *r, EchItemKind kind, const EchRocRecord *record)
{
    EchItem item = ech_item_init(kind);
    item.start = record->start;
    item.duration = duration_of(record);
    if (item.duration == ECH_TIME_NONE)
        ech_diag_dropped(r->ret->diag, "device_events_without_duration", 1, NULL);
    return item;
}

static uint32_t stream_queue(EchRocprof *r, uint32_t device, const EchRocRecord *record)
{
    unsigned process = record->process;
    bool by_stream = r->by_stream[process];
    int64_t number = by_stream ? record->stream : record->queue;
    g_autofree char *key = g_strdup_printf("%u %u %" G_GINT64_FORMAT, process, device, number);
    uint32_t found = GPOINTER_TO_UINT(g_hash_table_lookup(r->queues, key));
    if (found)
        return found - 1;
    if (g_hash_table_size(r->queues) >= MAX_QUEUES) {
        ech_diag_dropped(r->ret->diag, "streams_beyond_2048", 1, "stream %" G_GINT64_FORMAT, number);
        return ech_capture_queue(r->capture, "other streams", ECH_QUEUE_COMPUTE, device);
    }
    g_autoptr(GString) name = g_string_new(NULL);
    g_string_append_printf(name, "%s %" G_GINT64_FORMAT, by_stream ? "stream" : "queue", number);
    if (process)
        g_string_append_printf(name, " process %u", process);
    uint32_t queue = ech_capture_queue(r->capture, name->str, ECH_QUEUE_COMPUTE, device);
    ech_capture_set_process(r->capture, queue, process);
    g_hash_table_insert(r->queues, g_steal_pointer(&key), GUINT_TO_POINTER(queue + 1));
    r->n_queues[process]++;
    return queue;
}

static uint32_t host_queue(EchRocprof *r, unsigned process, uint32_t device)
{
    g_autofree char *name = process ? g_strdup_printf("host process %u", process) : g_strdup("host");
    uint32_t queue = ech_capture_queue(r->capture, name, ECH_QUEUE_HOST, device);
    ech_capture_set_process(r->capture, queue, process);
    return queue;
}

static int compare_starts(gconstpointer a, gconstpointer b)
{
    const EchRocRecord *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static int compare_calls(gconstpointer a, gconstpointer b)
{
    const EchRocRecord *x = a, *y = b;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    if (x->call != y->call)
        return x->call < y->call ? -1 : 1;
    return x->start < y->start ? -1 : x->start > y->start;
}

static void set_issue(EchRocprof *r, EchItem *item, const EchRocRecord *record)
{
    const GArray *all = r->records[ECH_ROC_CALL];
    const EchRocRecord *calls = (const EchRocRecord *)(const void *)all->data;
    guint low = 0, high = all->len;
    ECH_SEARCH(low, high, middle, calls[middle].process != record->process ? calls[middle].process < record->process : calls[middle].call < record->call);
    const EchRocRecord *call = low < all->len ? &calls[low] : NULL;
    item->issued = item->start;
    if (call && call->process == record->process && call->call == record->call && record->call != ECH_ROC_NONE && call->start <= item->start) {
        item->issued = call->start;
        item->thread = (uint32_t)call->thread;
    } else {
        ech_diag_note(r->ret->diag, "device_events_without_launch", 1);
    }
}

static void add_mark(EchRocprof *r, const EchRocRecord *record)
{
    EchItem item = ech_item_init(ECH_ITEM_MARK);
    item.issued = item.start = record->start;
    item.duration = duration_of(record);
    item.name = record->name;
    g_autofree char *queue = g_strdup_printf("thread %" G_GINT64_FORMAT, record->thread);
    item.queue = ech_capture_queue(r->capture, queue, ECH_QUEUE_HOST, 0);
    ech_capture_add(r->capture, &item);
}

static void add_kernel(EchRocprof *r, const EchRocRecord *record)
{
    EchItem item = device_item(r, ECH_ITEM_KERNEL, record);
    item.name = record->name != ECH_NONE ? record->name : ech_trace_builder_string(r->builder, "kernel", -1);
    item.queue = stream_queue(r, record->to.device, record);
    set_issue(r, &item, record);
    EchGpuLaunch launch = {.shared = record->shared};
    for (int i = 0; i < 3; i++) {
        launch.block[i] = record->block[i];
        launch.grid[i] = record->block[i] ? record->items[i] / record->block[i] + (record->items[i] % record->block[i] > 0) : 0;
    }
    if (ech_gpu_kernel_by_launch(r->capture, r->names, launch, &item))
        ech_diag_note(r->ret->diag, "kernel_traffic_inferred_from_grids", 1);
    ech_capture_add(r->capture, &item);
}

static EchTier tier_of(EchRocAgent agent)
{
    return agent.gpu ? ECH_TIER_DEVICE : ECH_TIER_HOST;
}

/* The device whose work it is: of a copy between two, the one that it comes from. */
static uint32_t device_of(const EchRocRecord *record)
{
    return record->kind == ECH_ROC_COPY && record->from.gpu ? record->from.device : record->to.device;
}

static void add_copy(EchRocprof *r, const EchRocRecord *record)
{
    static const char *const names[2][2] = {{"Memcpy DtoD", "Memcpy DtoH"}, {"Memcpy HtoD", "Memcpy HtoH"}};
    EchItem item = device_item(r, ECH_ITEM_COPY, record);
    item.origin = record->bytes >= 0 ? ECH_KNOWN : ECH_ABSENT;
    item.bytes = record->bytes >= 0 ? (uint64_t)record->bytes : 0;
    item.from = (uint8_t)tier_of(record->from);
    item.to = (uint8_t)tier_of(record->to);
    bool up = !record->from.gpu, down = !record->to.gpu;
    item.name = ech_trace_builder_string(r->builder, names[up][down], -1);
    item.queue = stream_queue(r, device_of(record), record);
    if (!up && !down && record->from.device != record->to.device)
        item.other = record->to.device;
    set_issue(r, &item, record);
    ech_capture_add(r->capture, &item);
}

/* When memory is the program's: from the end of the call on, to the begin of the one that frees it. */
static EchTime memory_time(const EchRocRecord *record)
{
    return record->kind == ECH_ROC_FREE || record->end == ECH_TIME_NONE ? record->start : record->end;
}

static int compare_memory(gconstpointer a, gconstpointer b)
{
    EchTime x = memory_time(a), y = memory_time(b);
    return x < y ? -1 : x > y;
}

/* What HIP asked its runtime for. A free has neither size nor place: the last allocation of that address before it has. */
static void add_memory(EchRocprof *r, const EchRocRecord *record)
{
    bool freed = record->kind == ECH_ROC_FREE;
    int64_t address = (int64_t)((uint64_t)record->address | (uint64_t)record->process << 56); /* each process has an address space of its own */
    guint known = freed ? GPOINTER_TO_UINT(g_hash_table_lookup(r->live, &address)) : 0;
    if (record->address == ECH_ROC_NONE || (!freed && record->bytes <= 0) || (freed && !known)) {
        ech_diag_dropped(r->ret->diag, freed ? "frees_of_unknown_addresses" : "memory_events_without_size_or_address", 1, NULL);
        return;
    }
    EchItem item = ech_item_init(freed ? ECH_ITEM_FREE : ECH_ITEM_ALLOC);
    item.issued = item.start = memory_time(record);
    guint where = freed ? known - 1 : (guint)tier_of(record->to) + ECH_N_TIERS * record->to.device;
    item.to = item.from = (uint8_t)(where % ECH_N_TIERS);
    item.bytes = record->bytes > 0 ? (uint64_t)record->bytes : 0;
    item.origin = record->bytes > 0 ? ECH_KNOWN : ECH_ABSENT;
    item.address = (uint64_t)address;
    item.name = ech_trace_builder_string(r->builder, item.to == ECH_TIER_HOST ? "host memory" : "device memory", -1);
    item.queue = ech_capture_queue(r->capture, "driver", ECH_QUEUE_HOST, where / ECH_N_TIERS);
    ech_capture_add(r->capture, &item);
    if (!freed)
        g_hash_table_insert(r->live, g_memdup2(&address, sizeof address), GUINT_TO_POINTER(where + 1));
}

/* A call that makes a stream wait, or waits itself, for @device. */
static void add_wait(EchRocprof *r, const EchRocRecord *call, uint32_t device)
{
    const char *name = ech_trace_builder_peek_string(r->builder, call->name);
    if (g_str_has_prefix(name, "hipStreamWaitEvent"))
        ech_capture_wait_call(r->capture, call->start, (uint32_t)call->thread, ECH_NONE);
    bool stream = g_str_has_prefix(name, "hipStreamSynchronize") || g_str_has_prefix(name, "hipEventSynchronize");
    if (!g_str_has_prefix(name, "hipDeviceSynchronize") && !(stream && r->n_queues[call->process] <= 1))
        return;
    EchItem item = ech_item_init(ECH_ITEM_HOST_WAIT);
    item.name = call->name;
    item.issued = item.start = call->start;
    item.duration = duration_of(call);
    item.address = (uint64_t)call->start;
    item.queue = host_queue(r, call->process, device);
    ech_capture_add(r->capture, &item);
    ech_diag_note(r->ret->diag, "inferred_host_waits", 1);
}

/* Numbers of calls and of threads, of each process its own. */
static int64_t of_process(int64_t number, unsigned process)
{
    return (int64_t)((uint64_t)number ^ (uint64_t)process << 56);
}

static void set_device(GHashTable *devices, int64_t key, uint32_t device)
{
    g_hash_table_insert(devices, g_memdup2(&key, sizeof key), GUINT_TO_POINTER(device + 1));
}

/* Which device each call asked for something: where the work that shares its number ran. Owned by the caller. */
static GHashTable *devices_of_calls(const EchRocprof *r)
{
    GHashTable *devices = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, NULL);
    for (size_t copies = 0; copies < 2; copies++) {
        const GArray *records = r->records[copies ? ECH_ROC_COPY : ECH_ROC_KERNEL];
        for (guint i = 0; i < records->len; i++) {
            const EchRocRecord *record = &g_array_index(records, EchRocRecord, i);
            if (record->call != ECH_ROC_NONE)
                set_device(devices, of_process(record->call, record->process), device_of(record));
        }
    }
    return devices;
}

/* Calls do not say for which device they wait: for the one that their thread asked for something last, else the first that any of their process did. */
static void add_waits(EchRocprof *r)
{
    g_autoptr(GHashTable) asked = devices_of_calls(r), threads = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, NULL);
    g_autoptr(GArray) calls = g_array_copy(r->records[ECH_ROC_CALL]);
    uint32_t first[ECH_ROC_PROCESSES] = {0}; /* + 1; 0: none yet */
    g_array_sort(calls, compare_starts);
    for (guint i = 0; i < calls->len; i++) {
        const EchRocRecord *call = &g_array_index(calls, EchRocRecord, i);
        int64_t number = of_process(call->call, call->process), thread = of_process(call->thread, call->process);
        guint device = GPOINTER_TO_UINT(g_hash_table_lookup(asked, &number));
        if (device && !first[call->process])
            first[call->process] = device;
        if (device)
            set_device(threads, thread, device - 1);
        device = GPOINTER_TO_UINT(g_hash_table_lookup(threads, &thread));
        add_wait(r, call, device ? device - 1 : MAX(first[call->process], 1) - 1);
    }
}

static void each(EchRocprof *r, EchRocKind kind, void (*add)(EchRocprof *, const EchRocRecord *))
{
    for (guint i = 0; i < r->records[kind]->len; i++)
        add(r, &g_array_index(r->records[kind], EchRocRecord, i));
}

static void find_streams(EchRocprof *r)
{
    int64_t last[ECH_ROC_PROCESSES];
    bool any[ECH_ROC_PROCESSES] = {false};
    for (guint i = 0; i < r->records[ECH_ROC_KERNEL]->len; i++) {
        const EchRocRecord *kernel = &g_array_index(r->records[ECH_ROC_KERNEL], EchRocRecord, i);
        unsigned process = kernel->process;
        r->by_stream[process] = r->by_stream[process] || (any[process] && kernel->stream != last[process]);
        last[process] = kernel->stream;
        any[process] = true;
    }
}

bool ech_rocprof_finish(EchRocprof *r, const char *beside, GError **error)
{
    set_times(r);
    g_array_sort(r->records[ECH_ROC_CALL], compare_calls);
    find_streams(r);
    each(r, ECH_ROC_MARK, add_mark);
    each(r, ECH_ROC_KERNEL, add_kernel);
    each(r, ECH_ROC_COPY, add_copy);
    g_array_append_vals(r->records[ECH_ROC_ALLOC], r->records[ECH_ROC_FREE]->data, r->records[ECH_ROC_FREE]->len);
    g_array_sort(r->records[ECH_ROC_ALLOC], compare_memory);
    each(r, ECH_ROC_ALLOC, add_memory);
    add_waits(r);
    ech_capture_set_waits(r->capture, r->records[ECH_ROC_CALL]->len ? ECH_WAITS_CALLS : ECH_WAITS_UNKNOWN);
    return ech_xla_programs_beside(r->capture, beside, r->ret->diag, error) && ech_capture_finish(r->capture, error);
}
