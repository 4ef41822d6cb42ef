#include "sim/import/capture.h"

#include "models/kernel/gpu.h"
#include "sim/base/compare.h"
#include "sim/base/error.h"
#include "sim/base/hash.h"
#include "sim/base/heap.h"
#include "sim/import/graph_arrays.h"
#include "sim/import/meetings.h"
#include "sim/import/roles.h"
#include "sim/import/stream_waits.h"
#include "sim/trace/select.h"
#include "sim/trace/step.h"

#include <string.h>

typedef struct {
    char *name;
    EchQueueKind kind;
    uint32_t device, process;
    bool apart;      /* of what the device knows */
    EchId id;        /* in the builder, ECH_NONE until used */
    GArray *ops;     /* Issued: in order */
    EchId host_wait; /* the newest wait its next op must follow, or ECH_NONE */
    EchId waited;    /* the op of it that was waited for last, by queue... */
    uint32_t waiter; /* ...number; ECH_NONE and UINT32_MAX: none */
    EchId far_wait;  /* the newest wait for another device, which what its thread asks for next must follow, or ECH_NONE */
    uint32_t far_thread;
} Queue;

/* What a thread of the host has asked for. */
typedef struct {
    uint64_t launches, operators;
} Asked;

/* A wait for a whole device depends on the newest op of each of its queues: as many dependencies in all, and besides so many for each item. Programs have a few
 * streams and wait now and then. */
#define MOST_WAITED ((uint64_t)1 << 22)
enum { WAITED_EACH = 32 };

typedef struct {
    EchTime issued;
    EchId op;
} Issued;

typedef struct {
    uint8_t tier;
    uint32_t device;
    EchBytes baseline;
    EchId memory, traffic, queue;
    EchId after;       /* Op that the newest allocator event waits for, or ECH_NONE. */
    EchId after_queue; /* Queue of that event. */
} Memory;

/* Work of a device that had not ended at the newest allocator event: a heap, the earliest end first. */
typedef struct {
    EchTime end;
    uint32_t device;
    EchId op;
} Running;

struct EchCapture {
    EchImport *import;
    EchTraceBuilder *builder;
    GArray *items, *queues, *work, *memories; /* EchItem, Queue, EchItemWork, Memory */
    GArray *uses;                             /* EchAddressUse */
    GArray *captured;                         /* EchTime, per node of graphs */
    EchArrays *arrays;
    EchId host;                               /* The host's memory, where anything lies there; else ECH_NONE. */
    uint64_t n_unknown, n_inferred, n_untold; /* Uses of no array; without a direction; kernels whose uses are not told. */
    uint64_t n_over_link, n_left_out;         /* Kernels that use the host's memory; those of which it is not known how much of it. */
    GHashTable *queue_index;                  /* "kind device name" -> index + 1 */
    GHashTable *live;                         /* key -> buffer + 1 */
    GArray *filled;                           /* EchAddressUse: of a kernel that fills what is new */
    GHashTable *parts;                        /* of memory that is used in parts: buffer, offset, bytes -> its view + 1 */
    GArray *running;                          /* Running */
    GHashTable *ended;                        /* device + 1 -> op + 1 that ended last; unrecorded: that was issued last */
    GHashTable *asked; /* Asked: of all devices by thread << 32; by then when it asked device d last: | d + 1; waited last: | UINT32_MAX */
    bool unrecorded;
    EchWaitsTold told;
    GArray *given;         /* EchId: buffers given to modules */
    GHashTable *rows;      /* of those -> how often */
    bool gives_others;     /* not all calls of modules are given as many rows */
    EchTime marked_given;  /* when the call that was marked last was */
    GArray *calls;         /* EchWaitCall */
    GArray *after;         /* EchStreamWait */
    EchId *ops;            /* Of each item that streams may wait for. */
    guint next_after;      /* of `after` */
    uint64_t n_waited;     /* dependencies of waits for whole devices */
    uint32_t first_device; /* of the merged trace: 0 here */
    bool migrated;         /* a migration was recorded... */
    EchBytes paged[2];     /* ...and all that went from the device, and to it */
    EchTrace *foreign;
    EchTime foreign_zero;
    EchCaptureNamer namer;
    void *namer_data;
    EchTime zero;
};

/* An address of one memory, packed for the hash table. */
typedef struct {
    uint64_t address;
    uint32_t memory;
} LiveKey;

static void clear_queue(gpointer data)
{
    Queue *queue = data;
    g_free(queue->name);
    g_clear_pointer(&queue->ops, g_array_unref);
}

static guint live_hash(gconstpointer p)
{
    const LiveKey *key = p;
    return ech_hash_pair(key->address, key->memory);
}

static gboolean live_equal(gconstpointer a, gconstpointer b)
{
    const LiveKey *x = a, *y = b;
    return x->address == y->address && x->memory == y->memory;
}

/* Three words: a buffer, where in it, how much. */
static guint part_hash(gconstpointer key)
{
    return (guint)ech_hash_bytes(key, 3 * sizeof(uint64_t));
}

static gboolean part_equal(gconstpointer a, gconstpointer b)
{
    return memcmp(a, b, 3 * sizeof(uint64_t)) == 0;
}

EchCapture *ech_capture_new(EchImport *import, const char *format)
{
    EchCapture *capture = g_new0(EchCapture, 1);
    capture->import = import;
    capture->builder = ech_trace_builder_new(format);
    capture->items = g_array_new(FALSE, FALSE, sizeof(EchItem));
    capture->queues = g_array_new(FALSE, FALSE, sizeof(Queue));
    g_array_set_clear_func(capture->queues, clear_queue);
    capture->work = g_array_new(FALSE, FALSE, sizeof(EchItemWork));
    capture->memories = g_array_new(FALSE, FALSE, sizeof(Memory));
    capture->uses = g_array_new(FALSE, FALSE, sizeof(EchAddressUse));
    capture->captured = g_array_new(FALSE, FALSE, sizeof(EchTime));
    capture->arrays = ech_arrays_new();
    capture->filled = g_array_new(FALSE, FALSE, sizeof(EchAddressUse));
    capture->host = ECH_NONE;
    capture->queue_index = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL);
    capture->live = g_hash_table_new_full(live_hash, live_equal, g_free, NULL);
    capture->parts = g_hash_table_new_full(part_hash, part_equal, g_free, NULL);
    capture->running = g_array_new(FALSE, FALSE, sizeof(Running));
    capture->ended = g_hash_table_new(NULL, NULL);
    capture->asked = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, g_free);
    capture->calls = g_array_new(FALSE, FALSE, sizeof(EchWaitCall));
    capture->given = g_array_new(FALSE, FALSE, sizeof(EchId));
    capture->rows = g_hash_table_new(NULL, NULL);
    return capture;
}

void ech_capture_free(EchCapture *capture)
{
    if (!capture)
        return;
    ech_trace_builder_free(capture->builder);
    g_array_unref(capture->items);
    g_array_unref(capture->queues);
    g_array_unref(capture->work);
    g_array_unref(capture->uses);
    g_array_unref(capture->captured);
    ech_arrays_free(capture->arrays);
    g_array_unref(capture->memories);
    g_hash_table_unref(capture->queue_index);
    g_hash_table_unref(capture->live);
    g_hash_table_unref(capture->parts);
    g_array_unref(capture->filled);
    g_array_unref(capture->running);
    g_hash_table_unref(capture->ended);
    g_hash_table_unref(capture->asked);
    g_array_unref(capture->calls);
    g_array_unref(capture->given);
    g_hash_table_unref(capture->rows);
    g_clear_pointer(&capture->foreign, ech_trace_unref);
    g_free(capture);
}

EchTraceBuilder *ech_capture_builder(EchCapture *capture)
{
    return capture->builder;
}

static Queue *queue_at(EchCapture *capture, uint32_t i)
{
    return &g_array_index(capture->queues, Queue, i);
}

static char *queue_key(const char *name, EchQueueKind kind, uint32_t device)
{
    return g_strdup_printf("%d %u %s", (int)kind, device, name);
}

uint32_t ech_capture_queue(EchCapture *capture, const char *name, EchQueueKind kind, uint32_t device)
{
    /* Most captures have a handful. */
    for (guint i = 0; i < MIN(capture->queues->len, 8); i++) {
        const Queue *queue = &g_array_index(capture->queues, Queue, i);
        if (queue->kind == kind && queue->device == device && strcmp(queue->name, name) == 0)
            return i;
    }
    g_autofree char *key = queue_key(name, kind, device);
    uint32_t found = GPOINTER_TO_UINT(g_hash_table_lookup(capture->queue_index, key));
    if (found)
        return found - 1;
    Queue queue = {.name = g_strdup(name),
                   .kind = kind,
                   .device = device,
                   .id = ECH_NONE,
                   .host_wait = ECH_NONE,
                   .far_wait = ECH_NONE,
                   .waited = ECH_NONE,
                   .waiter = UINT32_MAX};
    g_array_append_val(capture->queues, queue);
    g_hash_table_insert(capture->queue_index, g_steal_pointer(&key), GUINT_TO_POINTER(capture->queues->len));
    return capture->queues->len - 1;
}

void ech_capture_set_process(EchCapture *capture, uint32_t queue, uint32_t process)
{
    g_array_index(capture->queues, Queue, queue).process = process;
}

void ech_capture_set_apart(EchCapture *capture, uint32_t queue)
{
    g_array_index(capture->queues, Queue, queue).apart = true;
}

uint32_t ech_capture_stream(EchCapture *capture, uint32_t device, int64_t stream)
{
    char name[40];
    g_snprintf(name, sizeof name, "stream %" G_GINT64_FORMAT, stream);
    return ech_capture_queue(capture, name, ECH_QUEUE_COMPUTE, device);
}

uint32_t ech_capture_queue_device(const EchCapture *capture, uint32_t queue)
{
    return g_array_index(capture->queues, Queue, queue).device;
}

bool ech_capture_has_other_device(const EchCapture *capture, uint32_t device)
{
    for (guint q = 0; q < capture->queues->len; q++) {
        const Queue *queue = &g_array_index(capture->queues, Queue, q);
        if (queue->device != device && queue->kind != ECH_QUEUE_HOST)
            return true;
    }
    return false;
}

void ech_capture_exchange_devices(EchCapture *capture, uint32_t a, uint32_t b)
{
    g_hash_table_remove_all(capture->queue_index);
    for (guint q = 0; q < capture->queues->len; q++) {
        Queue *queue = queue_at(capture, q);
        queue->device = queue->device == a ? b : queue->device == b ? a : queue->device;
        g_hash_table_insert(capture->queue_index, queue_key(queue->name, queue->kind, queue->device), GUINT_TO_POINTER(q + 1));
    }
    for (guint m = 0; m < capture->memories->len; m++) {
        Memory *memory = &g_array_index(capture->memories, Memory, m);
        memory->device = memory->device == a ? b : memory->device == b ? a : memory->device;
    }
}

EchItem ech_item_init(EchItemKind kind)
{
    return (EchItem){.start = ECH_TIME_NONE,
                     .duration = ECH_TIME_NONE,
                     .name = ECH_NONE,
                     .stack = ECH_NONE,
                     .queue = ECH_NONE,
                     .other = ECH_NONE,
                     .work = ECH_NONE,
                     .meets = ECH_NONE,
                     .thread = ECH_NONE,
                     .kind = (uint8_t)kind};
}

void ech_capture_add(EchCapture *capture, const EchItem *item)
{
    g_array_append_val(capture->items, *item);
}

size_t ech_capture_n_items(const EchCapture *capture)
{
    return capture->items->len;
}

EchItem *ech_capture_item(EchCapture *capture, size_t i)
{
    return &g_array_index(capture->items, EchItem, i);
}

void ech_capture_use(EchCapture *capture, size_t i, EchAddressUse use)
{
    EchItem *item = ech_capture_item(capture, i);
    if (item->n_uses == 0)
        item->first_use = capture->uses->len;
    item->n_uses++;
    g_array_append_val(capture->uses, use);
}

EchAddressUse *ech_capture_uses(EchCapture *capture, size_t i)
{
    const EchItem *item = ech_capture_item(capture, i);
    return item->n_uses > 0 ? &g_array_index(capture->uses, EchAddressUse, item->first_use) : NULL;
}

void ech_capture_captured(EchCapture *capture, EchTime time)
{
    g_array_append_val(capture->captured, time);
}

uint32_t ech_capture_work(EchCapture *capture, EchItemWork work)
{
    g_array_append_val(capture->work, work);
    return capture->work->len - 1;
}

uint32_t ech_capture_work_of(EchCapture *capture, const EchTrace *trace, const EchOp *op, EchOrigin origin)
{
    EchItemWork row = {.origin = (uint8_t)origin};
    uint32_t first = capture->work->len;
    for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
        const EchUse *use = &ech_trace_uses(trace)[u];
        EchBytes *sum = use->access == ECH_WRITE ? &row.write : &row.read;
        *sum = ech_bytes_add(*sum, use->bytes);
    }
    for (uint32_t w = 0; w < MAX(op->n_work, 1u); w++) {
        if (op->n_work > 0) {
            const EchWork *work = &ech_trace_work(trace)[op->first_work + w];
            row.unit = work->unit;
            row.dtype = work->dtype;
            row.ops = work->count;
        }
        row.more = w + 1 < op->n_work;
        (void)ech_capture_work(capture, row);
        row.read = row.write = 0;
    }
    return first;
}

uint32_t ech_capture_one_device(EchCapture *capture, uint32_t allocated)
{
    uint32_t streams = ECH_NONE;
    for (guint q = 0; q < capture->queues->len; q++) {
        const Queue *queue = queue_at(capture, q);
        if (queue->kind != ECH_QUEUE_COMPUTE)
            continue;
        if (queue->device == allocated || (streams != ECH_NONE && queue->device != streams))
            return allocated;
        streams = queue->device;
    }
    if (streams == ECH_NONE)
        return allocated;
    for (guint q = 0; q < capture->queues->len; q++)
        if (queue_at(capture, q)->device == allocated)
            queue_at(capture, q)->device = streams;
    return streams;
}

/* The row of a memory; made when first named. */
static uint32_t memory_index(EchCapture *capture, EchTier tier, uint32_t device)
{
    if (tier == ECH_TIER_HOST)
        device = 0;
    for (guint i = 0; i < capture->memories->len; i++) {
        const Memory *m = &g_array_index(capture->memories, Memory, i);
        if (m->tier == tier && m->device == device)
            return i;
    }
    Memory memory = {.tier = (uint8_t)tier, .device = device, .memory = ECH_NONE, .traffic = ECH_NONE, .queue = ECH_NONE, .after = ECH_NONE};
    g_array_append_val(capture->memories, memory);
    return capture->memories->len - 1;
}

/* Until the next one is named. */
static Memory *memory_of(EchCapture *capture, EchTier tier, uint32_t device)
{
    uint32_t i = memory_index(capture, tier, device); /* before the rows are looked at: it may move them */
    return &g_array_index(capture->memories, Memory, i);
}

void ech_capture_baseline(EchCapture *capture, EchTier tier, uint32_t device, EchBytes bytes)
{
    memory_of(capture, tier, device)->baseline = bytes;
}

EchImport *ech_capture_read_snapshot(const char *path, const char *what, int64_t *ret_unix_us, GError **error)
{
    g_autoptr(EchImport) snapshot = ech_import_file(path, "memory_snapshot", NULL, error);
    if (!snapshot)
        return NULL;
    const char *zero = ech_trace_get_property(snapshot->trace, "time_zero_unix_us");
    uint64_t unix_us;
    if (!zero || !ech_parse_u64(zero, &unix_us, NULL)) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "%s: this snapshot tells no times; it cannot be merged with %s", path, what);
        return NULL;
    }
    *ret_unix_us = (int64_t)MIN(unix_us, (uint64_t)INT64_MAX / 2);
    return g_steal_pointer(&snapshot);
}

void ech_capture_merge(EchCapture *capture, EchTrace *trace, EchTime zero)
{
    g_clear_pointer(&capture->foreign, ech_trace_unref);
    capture->foreign = ech_trace_ref(trace);
    capture->foreign_zero = zero;
}

void ech_capture_name_merged(EchCapture *capture, EchCaptureNamer namer, void *data)
{
    capture->namer = namer;
    capture->namer_data = data;
}

void ech_capture_set_first_device(EchCapture *capture, uint32_t device)
{
    capture->first_device = device;
}

void ech_capture_migrated(EchCapture *capture, bool to_device, EchBytes bytes)
{
    capture->migrated = true;
    capture->paged[to_device] = ech_bytes_add(capture->paged[to_device], bytes);
}

void ech_capture_set_waits(EchCapture *capture, EchWaitsTold told)
{
    capture->told = told;
}

void ech_capture_wait_call(EchCapture *capture, EchTime time, uint32_t thread, uint32_t queue)
{
    g_array_append_val(capture->calls, ((EchWaitCall){time, ECH_TIME_NONE, thread, queue}));
}

void ech_capture_stand_call(EchCapture *capture, EchTime time, EchTime end, uint32_t thread)
{
    g_array_append_val(capture->calls, ((EchWaitCall){time, end, thread, ECH_NONE}));
}

void ech_capture_set_unrecorded(EchCapture *capture)
{
    capture->unrecorded = true;
}

EchCollective ech_capture_collective(const char *name)
{
    static const struct {
        const char *mark;
        EchCollective kind;
    } kinds[] = {{"allreduce", ECH_COLLECTIVE_ALL_REDUCE},
                 {"allgather", ECH_COLLECTIVE_ALL_GATHER},
                 {"reducescatter", ECH_COLLECTIVE_REDUCE_SCATTER},
                 {"alltoall", ECH_COLLECTIVE_ALL_TO_ALL},
                 {"broadcast", ECH_COLLECTIVE_BROADCAST},
                 {"send", ECH_COLLECTIVE_SEND},
                 {"recv", ECH_COLLECTIVE_RECV}};
    g_autoptr(GString) letters = g_string_new(NULL);
    for (; *name; name++)
        if (*name != '_')
            g_string_append_c(letters, g_ascii_tolower(*name));
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++)
        if (strstr(letters->str, kinds[i].mark))
            return kinds[i].kind;
    return ECH_COLLECTIVE_NONE;
}

/* ---- finishing ---- */

static int compare_items(gconstpointer a, gconstpointer b, gpointer data)
{
    (void)data;
    const EchItem *x = a, *y = b;
    return x->issued < y->issued ? -1 : x->issued > y->issued;
}

static int compare_starts(gconstpointer a, gconstpointer b, gpointer data)
{
    (void)data;
    const EchItem *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static bool is_sorted(const GArray *items)
{
    for (guint i = 1; i < items->len; i++) {
        if (g_array_index(items, EchItem, i).issued < g_array_index(items, EchItem, i - 1).issued)
            return false;
    }
    return true;
}

static EchTime relative(const EchCapture *capture, EchTime time)
{
    return time == ECH_TIME_NONE ? ECH_TIME_NONE : time - capture->zero;
}

static EchId queue_id(EchCapture *capture, uint32_t i)
{
    Queue *queue = queue_at(capture, i);
    if (queue->id == ECH_NONE)
        queue->id = ech_trace_builder_queue(capture->builder, queue->name, queue->kind, queue->device);
    return queue->id;
}

/* Names: the device's memory is "hbm"; with several devices the lowest has that name and the others "hbm:N". */
static void name_memories(EchCapture *capture)
{
    uint32_t lowest = UINT32_MAX;
    for (guint i = 0; i < capture->memories->len; i++) {
        const Memory *m = &g_array_index(capture->memories, Memory, i);
        if (m->tier == ECH_TIER_DEVICE)
            lowest = MIN(lowest, m->device);
    }
    for (guint i = 0; i < capture->memories->len; i++) {
        Memory *m = &g_array_index(capture->memories, Memory, i);
        char name[32];
        static const char *const tiers[ECH_N_TIERS] = {"hbm", "host", "vector", "common", "scalar"};
        g_snprintf(name, sizeof name, m->tier == ECH_TIER_HOST || m->device == lowest ? "%s" : "%s:%u", tiers[m->tier], m->device);
        m->memory = ech_trace_builder_memory(capture->builder, name);
        if (m->tier == ECH_TIER_HOST)
            capture->host = m->memory;
    }
}

static EchId memory_queue(EchCapture *capture, Memory *m)
{
    if (m->queue == ECH_NONE)
        m->queue = ech_trace_builder_queue(capture->builder, m->tier == ECH_TIER_HOST ? "host allocator" : "allocator", ECH_QUEUE_HOST, m->device);
    return m->queue;
}

/* A resident buffer of no bytes that stands for data whose place is not recorded. */
static EchId traffic_buffer(EchCapture *capture, Memory *m)
{
    if (m->traffic == ECH_NONE) {
        EchBuffer b = ech_buffer_init();
        b.name = ech_trace_builder_string(capture->builder, "(data of unknown place)", -1);
        b.memory = m->memory;
        b.resident = 1;
        m->traffic = ech_trace_builder_buffer(capture->builder, b);
    }
    return m->traffic;
}

static EchId add_buffer(EchCapture *capture, const EchItem *item, const Memory *m, bool resident)
{
    EchBuffer b = ech_buffer_init();
    b.name = item->name;
    b.stack = item->stack;
    b.memory = m->memory;
    b.resident = resident;
    b.bytes = item->bytes;
    b.rounded = item->rounded;
    b.direct = item->direct;
    b.managed = item->managed;
    b.shape = item->kind == ECH_ITEM_ALLOC ? item->other : ECH_NONE;
    b.address = item->address;
    b.queue = item->queue == ECH_NONE ? ECH_NONE : queue_id(capture, item->queue);
    return ech_trace_builder_buffer(capture->builder, b);
}

static void add_array(EchCapture *capture, EchId buffer, const EchItem *item)
{
    ech_arrays_alloc(capture->arrays, buffer, item->address, item->bytes);
    if (item->to == ECH_TIER_HOST && !item->managed)
        ech_arrays_of_host(capture->arrays, item->address);
}

static void set_live(EchCapture *capture, uint32_t memory, uint64_t address, EchId buffer)
{
    LiveKey *key = g_new(LiveKey, 1);
    *key = (LiveKey){address, memory};
    g_hash_table_insert(capture->live, key, GUINT_TO_POINTER(buffer + 1));
}

static bool get_live(EchCapture *capture, uint32_t memory, uint64_t address, EchId *ret)
{
    LiveKey key = {address, memory};
    guint value = GPOINTER_TO_UINT(g_hash_table_lookup(capture->live, &key));
    *ret = value - 1;
    return value != 0;
}

static uint32_t item_memory(EchCapture *capture, const EchItem *item)
{
    return memory_index(capture, (EchTier)item->to, ech_capture_queue_device(capture, item->queue));
}

/* Buffers that were there before the first event. */
static void add_residents(EchCapture *capture)
{
    g_autoptr(GHashTable) seen = g_hash_table_new_full(live_hash, live_equal, g_free, NULL);
    g_autofree EchBytes *explained = g_new0(EchBytes, capture->memories->len + 1);
    uint64_t n = 0;
    for (guint i = 0; i < capture->items->len; i++) {
        const EchItem *item = &g_array_index(capture->items, EchItem, i);
        if (item->kind != ECH_ITEM_ALLOC && item->kind != ECH_ITEM_FREE)
            continue;
        LiveKey *key = g_new(LiveKey, 1);
        *key = (LiveKey){item->address, item_memory(capture, item)};
        uint32_t memory = key->memory;
        if (!g_hash_table_add(seen, key) || item->kind == ECH_ITEM_ALLOC || item->origin == ECH_ABSENT)
            continue;
        EchId buffer = add_buffer(capture, item, &g_array_index(capture->memories, Memory, memory), true);
        set_live(capture, memory, item->address, buffer);
        add_array(capture, buffer, item);
        explained[memory] = ech_bytes_add(explained[memory], item->bytes);
        n++;
    }
    ech_diag_note(capture->import->diag, "start_state_from_frees", n);
    for (guint i = 0; i < capture->memories->len; i++) {
        const Memory *m = &g_array_index(capture->memories, Memory, i);
        if (m->baseline <= explained[i])
            continue;
        EchBuffer b = ech_buffer_init();
        b.name = ech_trace_builder_string(capture->builder, "(in use before the capture)", -1);
        b.memory = m->memory;
        b.resident = 1;
        b.bytes = m->baseline - explained[i];
        ech_trace_builder_buffer(capture->builder, b);
        ech_diag_note(capture->import->diag, "start_state_baseline", 1);
    }
}

static EchOp op_of(EchCapture *capture, const EchItem *item, EchOpKind kind, EchId queue)
{
    EchOp op = ech_op_init(kind);
    op.name = item->name;
    op.stack = item->stack;
    op.queue = queue;
    op.bytes = item->bytes;
    op.bytes_origin = item->origin;
    op.recorded.start = relative(capture, item->start);
    op.recorded.duration = item->duration;
    return op;
}

static Asked *asked_by(EchCapture *capture, uint32_t thread, uint64_t which)
{
    uint64_t key = (uint64_t)thread << 32 | which;
    Asked *asked = g_hash_table_lookup(capture->asked, &key);
    if (!asked) {
        asked = g_new0(Asked, 1);
        g_hash_table_insert(capture->asked, g_memdup2(&key, sizeof key), asked);
    }
    return asked;
}

/* What the thread that asks for @item has asked of other devices since it asked this one for something, or waited; and notes that it asks now. */
static Asked asked_elsewhere(EchCapture *capture, const EchItem *item)
{
    if (!capture->unrecorded || item->together || queue_at(capture, item->queue)->kind == ECH_QUEUE_HOST)
        return (Asked){0};
    Asked *all = asked_by(capture, item->thread, 0), *own = asked_by(capture, item->thread, (uint64_t)ech_capture_queue_device(capture, item->queue) + 1);
    const Asked *waited = asked_by(capture, item->thread, UINT32_MAX);
    const Asked since = own->launches > waited->launches ? *own : *waited, elsewhere = {all->launches - since.launches, all->operators - since.operators};
    if (item->kind != ECH_ITEM_STREAM_WAIT) {
        all->launches++;
        all->operators += item->operators;
    }
    *own = *all;
    return elsewhere;
}

static void append_elsewhere(GString *launch, Asked elsewhere)
{
    if (elsewhere.launches > 0)
        g_string_append_printf(launch, "%selsewhere=%" G_GUINT64_FORMAT "+%" G_GUINT64_FORMAT, launch->len ? " " : "", elsewhere.launches, elsewhere.operators);
}

/* The text of a launch, and that there was none of its own. */
static EchId launch_of(EchCapture *capture, const EchItem *item, EchId launch)
{
    const Asked elsewhere = asked_elsewhere(capture, item);
    if (!item->together && !item->prefetch && !item->behind && item->operators == 0 && elsewhere.launches == 0)
        return launch;
    g_autoptr(GString) text = g_string_new(launch == ECH_NONE ? "" : ech_trace_builder_peek_string(capture->builder, launch));
    if (item->prefetch)
        g_string_append_printf(text, "%sprefetch=1", text->len ? " " : "");
    if (item->together)
        g_string_append_printf(text, "%sgraph=1", text->len ? " " : "");
    if (item->behind)
        g_string_append_printf(text, "%sbehind=%u", text->len ? " " : "", item->behind);
    if (item->operators > 0)
        g_string_append_printf(text, "%soperators=%u", text->len ? " " : "", item->operators);
    append_elsewhere(text, elsewhere);
    return ech_trace_builder_string(capture->builder, text->str, (gssize)text->len);
}

static gint compare_running(gconstpointer a, gconstpointer b, gpointer data)
{
    (void)data;
    EchTime x = ((const Running *)a)->end, y = ((const Running *)b)->end;
    return (x > y) - (x < y);
}

static void set_ended(EchCapture *capture, uint32_t device, EchId op)
{
    g_hash_table_insert(capture->ended, GSIZE_TO_POINTER((gsize)device + 1), GSIZE_TO_POINTER((gsize)op + 1));
}

/* The work of a device that had ended last at @time, or ECH_NONE. Asked with times that do not fall. */
static EchId last_ended(EchCapture *capture, uint32_t device, EchTime time)
{
    while (capture->running->len > 0 && g_array_index(capture->running, Running, 0).end <= time) {
        Running row;
        ech_heap_pop(capture->running, &row, compare_running, NULL);
        set_ended(capture, row.device, row.op);
    }
    gsize op = GPOINTER_TO_SIZE(g_hash_table_lookup(capture->ended, GSIZE_TO_POINTER((gsize)device + 1)));
    return op ? (EchId)(op - 1) : ECH_NONE;
}

/* Nothing but time ties an allocator's events to the device's work: an event comes after what had ended before it in the recording, so that a
 * replay shows memory where in the run it was held. A queue keeps its events in order; only a newer op needs telling. */
static void after_work(EchCapture *capture, Memory *m, EchId queue, uint32_t device, EchTime time)
{
    bool told = time != ECH_TIME_NONE || capture->unrecorded;
    EchId op = device != ECH_NONE && told ? last_ended(capture, device, time) : ECH_NONE;
    if (op == ECH_NONE || (op == m->after && queue == m->after_queue))
        return;
    ech_trace_builder_dep(capture->builder, op, 0);
    m->after = op;
    m->after_queue = queue;
}

/* Dependencies of work issued on a queue, and its place in the queue. */
static void issue(EchCapture *capture, uint32_t q, EchId op, const EchItem *item)
{
    Queue *queue = queue_at(capture, q);
    EchTime issued = item->issued;
    if (item->start != ECH_TIME_NONE && item->duration != ECH_TIME_NONE)
        ech_heap_push(capture->running, &(Running){ech_time_add(item->start, item->duration), queue->device, op}, compare_running, NULL);
    if (capture->unrecorded)
        set_ended(capture, queue->device, op);
    if (queue->host_wait != ECH_NONE) {
        ech_trace_builder_dep(capture->builder, queue->host_wait, 0);
        queue->host_wait = ECH_NONE;
    }
    if (queue->far_wait != ECH_NONE && queue->far_thread == item->thread) {
        ech_trace_builder_dep(capture->builder, queue->far_wait, 0);
        queue->far_wait = ECH_NONE;
    }
    guint index = (guint)(item - (const EchItem *)(const void *)capture->items->data);
    capture->ops[index] = op;
    for (; capture->next_after < capture->after->len && g_array_index(capture->after, EchStreamWait, capture->next_after).item == index; capture->next_after++)
        ech_trace_builder_dep(capture->builder, capture->ops[g_array_index(capture->after, EchStreamWait, capture->next_after).awaited], 0);
    if (!queue->ops)
        queue->ops = g_array_new(FALSE, FALSE, sizeof(Issued));
    Issued row = {issued, op};
    g_array_append_val(queue->ops, row);
}

/* What is asked of a device from now on waits for @op of its host, and so does what the same thread asks of others (where times were recorded, these say so).
 */
static void hold_up(EchCapture *capture, const EchItem *item, EchId op)
{
    const Queue *of = queue_at(capture, item->queue);
    for (guint q = 0; q < capture->queues->len; q++) {
        Queue *queue = queue_at(capture, q);
        if (q == item->queue || queue->process != of->process)
            continue;
        if (queue->device == of->device) {
            queue->host_wait = op;
        } else if (capture->unrecorded && queue->kind != ECH_QUEUE_HOST) {
            queue->far_wait = op;
            queue->far_thread = item->thread;
        }
    }
    *asked_by(capture, item->thread, UINT32_MAX) = *asked_by(capture, item->thread, 0);
}

/* Which arrays an item uses, and does @work with; borrowed until the next one is asked for. */
static const EchArrayUse *arrays_of(EchCapture *capture, const EchItem *item, const EchItemWork *work, size_t *ret_n)
{
    if (item->kind == ECH_ITEM_KERNEL && !item->told)
        capture->n_untold++;
    if (item->beyond && work) {
        g_array_set_size(capture->filled, 0);
        if (item->n_uses > 0)
            g_array_append_vals(capture->filled, &g_array_index(capture->uses, EchAddressUse, item->first_use), item->n_uses);
        ech_arrays_fill_new(capture->arrays, work->write, capture->filled);
        return ech_arrays_resolve(capture->arrays, (const EchAddressUse *)(const void *)capture->filled->data, capture->filled->len, false, ret_n,
                                  &capture->n_unknown, &capture->n_inferred);
    }
    return ech_arrays_resolve(capture->arrays, item->n_uses ? &g_array_index(capture->uses, EchAddressUse, item->first_use) : NULL, item->n_uses, item->parts,
                              ret_n, &capture->n_unknown, &capture->n_inferred);
}

/* Managed memory, and a block that holds many arrays, is used in parts, which are where they are: @bytes of the buffer from where @use begins. Of other memory
 * the buffer. */
static EchId part_of(EchCapture *capture, const EchArrayUse *use, EchBytes bytes)
{
    const EchBuffer *whole = ech_trace_builder_peek_buffer(capture->builder, use->buffer);
    if ((!whole->managed && !use->part) || (use->offset == 0 && bytes >= whole->bytes) || bytes == 0 || use->offset >= whole->bytes)
        return use->buffer;
    EchBuffer view = ech_buffer_init();
    view.name = whole->name;
    view.memory = whole->memory;
    view.resident = whole->resident;
    view.alias_of = use->buffer;
    view.alias_offset = use->offset;
    view.bytes = MIN(bytes, whole->bytes - use->offset);
    uint64_t key[3] = {use->buffer, view.alias_offset, view.bytes};
    EchId known = GPOINTER_TO_UINT(g_hash_table_lookup(capture->parts, key));
    if (known == 0) {
        known = ech_trace_builder_buffer(capture->builder, view) + 1;
        g_hash_table_insert(capture->parts, g_memdup2(key, sizeof key), GUINT_TO_POINTER(known));
    }
    return known - 1;
}

/* An operator's sizes may say more than lies anywhere: a sparse matrix has those of a dense one, a broadcast one those of what it is broadcast to. A kernel
 * whose arrays are all told moves each of them once at most, and what it computes is cut likewise. */
static void cut_to_arrays(EchCapture *capture, const EchArrayUse *arrays, size_t n, EchItemWork *work, EchId *launch)
{
    EchBytes most = MAX(work->read, work->write), given = 0;
    for (size_t i = 0; i < n; i++)
        given = ech_bytes_add(given, ech_trace_builder_peek_buffer(capture->builder, arrays[i].buffer)->bytes - arrays[i].offset);
    if (work->origin != ECH_INFERRED || work->beyond || n == 0 || most <= given)
        return;
    work->read = MIN(work->read, given);
    work->write = MIN(work->write, given);
    EchGpuLaunch shape;
    if (work->unit != ECH_WORK_VECTOR || *launch == ECH_NONE || !ech_gpu_launch_parse(ech_trace_builder_peek_string(capture->builder, *launch), &shape) ||
        shape.issued > 0) /* its own code says what it computes */
        return;
    __extension__ typedef unsigned __int128 u128;
    work->ops = (uint64_t)((u128)work->ops * given / most);
    shape.elements = (uint64_t)((u128)shape.elements * given / most);
    g_autoptr(GString) text = g_string_new(NULL);
    ech_gpu_launch_print(&shape, text);
    *launch = ech_trace_builder_string(capture->builder, text->str, (gssize)text->len);
}

/* Whether @array is the host's, which work of the device's memory @m reaches over the link. */
static bool is_far(const EchCapture *capture, const EchArrayUse *array, const Memory *m)
{
    const EchBuffer *buffer = ech_trace_builder_peek_buffer(capture->builder, array->buffer);
    return m->tier == ECH_TIER_DEVICE && !buffer->managed && buffer->memory == capture->host;
}

/* @arrays with those that are far last, of which there are @n_far. Owned by the caller. */
static EchArrayUse *far_last(const EchCapture *capture, const EchArrayUse *arrays, size_t n, size_t n_far, const Memory *m)
{
    EchArrayUse *sorted = g_new(EchArrayUse, n);
    size_t near = 0, far = n - n_far;
    for (size_t i = 0; i < n; i++)
        sorted[is_far(capture, &arrays[i], m) ? far++ : near++] = arrays[i];
    return sorted;
}

/* Bytes of @work are those of its arrays, as far as it has that many, of the host's memory last; what they do not explain is of unknown place. Of the host's
 * memory, whose bytes take long, none is taken to be used where it is not known how many bytes are. */
static void add_uses(EchCapture *capture, const EchArrayUse *arrays, size_t n, Memory *m, const EchItemWork *work)
{
    g_autofree EchBytes *each = g_new(EchBytes, n + 1);
    size_t n_far = 0;
    for (size_t i = 0; i < n && capture->host != ECH_NONE; i++)
        n_far += is_far(capture, &arrays[i], m);
    g_autofree EchArrayUse *sorted = n_far > 0 ? far_last(capture, arrays, n, n_far, m) : NULL;
    const EchArrayUse *all = sorted ? sorted : arrays;
    const size_t n_near = n - n_far;
    bool known = work->read > 0 || work->write > 0, over_link = false, left_out = false;
    for (int writes = 0; writes < 2; writes++) {
        EchBytes most = writes ? work->write : work->read, left = ech_arrays_share(all, n_near, writes, known ? most : UINT64_MAX, each);
        if (n > n_near)
            left = ech_arrays_share(all + n_near, n - n_near, writes, left, each + n_near);
        EchOrigin origin = work->origin == ECH_ABSENT ? ECH_INFERRED : (EchOrigin)work->origin;
        for (size_t i = 0; i < n; i++) {
            if (!(writes ? all[i].writes : all[i].reads))
                continue;
            if (!known && i >= n_near && !all[i].told) {
                left_out = true;
                continue;
            }
            ech_trace_builder_use(capture->builder, part_of(capture, &all[i], each[i]), writes ? ECH_WRITE : ECH_READ, each[i], ECH_PATTERN_STREAM, origin);
            over_link |= i >= n_near && each[i] > 0;
        }
        if (known && left > 0)
            ech_trace_builder_use(capture->builder, traffic_buffer(capture, m), writes ? ECH_WRITE : ECH_READ, left, ECH_PATTERN_STREAM, origin);
    }
    capture->n_over_link += over_link;
    capture->n_left_out += left_out;
}

static void kernel(EchCapture *capture, const EchItem *item)
{
    Memory *m = memory_of(capture, ECH_TIER_DEVICE, ech_capture_queue_device(capture, item->queue));
    EchItemWork work = {0};
    if (item->kind == ECH_ITEM_MEMSET)
        work = (EchItemWork){.write = item->bytes, .origin = item->origin};
    else if (item->work != ECH_NONE)
        work = g_array_index(capture->work, EchItemWork, item->work);
    if (item->to == ECH_TIER_HOST)
        m = memory_of(capture, ECH_TIER_HOST, 0);
    EchOp op = op_of(capture, item, ECH_OP_KERNEL, queue_id(capture, item->queue));
    op.bytes = 0;
    op.bytes_origin = ECH_ABSENT;
    op.launch = item->kind == ECH_ITEM_KERNEL ? item->other : ECH_NONE;
    if (item->kind == ECH_ITEM_MEMSET && item->to == ECH_TIER_DEVICE && item->bytes > 0) {
        char text[48];
        g_snprintf(text, sizeof text, "elements=%" G_GUINT64_FORMAT " operand_bytes=4", MAX(item->bytes / 4, 1));
        op.launch = ech_trace_builder_string(capture->builder, text, -1);
    }
    size_t n;
    uint64_t unknown = capture->n_unknown;
    const EchArrayUse *arrays = arrays_of(capture, item, &work, &n);
    if (item->told && capture->n_unknown == unknown)
        cut_to_arrays(capture, arrays, n, &work, &op.launch);
    op.launch = launch_of(capture, item, op.launch);
    EchId id = ech_trace_builder_op(capture->builder, op);
    add_uses(capture, arrays, n, m, &work);
    for (uint32_t row = item->work;; row++) {
        if (work.ops)
            ech_trace_builder_work(capture->builder, (EchWorkUnit)work.unit, (EchDtype)work.dtype, work.ops, (EchOrigin)work.origin);
        if (!work.more || row + 1 >= capture->work->len)
            break;
        work = g_array_index(capture->work, EchItemWork, row + 1);
    }
    issue(capture, item->queue, id, item);
    if (item->kind == ECH_ITEM_KERNEL && item->to == ECH_TIER_HOST)
        hold_up(capture, item, id);
}

/* The newest op of a queue issued no later than @time, or ECH_NONE. */
static EchId newest(const Queue *queue, EchTime time)
{
    guint low = 0, high = queue->ops ? queue->ops->len : 0;
    if (high > 0 && g_array_index(queue->ops, Issued, high - 1).issued <= time) /* mostly */
        return g_array_index(queue->ops, Issued, high - 1).op;
    ECH_SEARCH(low, high, middle, g_array_index(queue->ops, Issued, middle).issued <= time);
    return low ? g_array_index(queue->ops, Issued, low - 1).op : ECH_NONE;
}

static void follow(EchCapture *capture, const EchItem *item)
{
    EchId before = item->work == ECH_NONE ? ECH_NONE : newest(queue_at(capture, item->work), item->issued);
    if (before != ECH_NONE)
        ech_trace_builder_dep(capture->builder, before, 0);
}

/* Of a copy from device to device, its arrays say of which devices where the recording does not: the memory of those that it writes, or reads; else @own. */
static uint32_t memory_of_ends(const EchCapture *capture, const EchItem *item, const EchArrayUse *arrays, size_t n, bool writes, uint32_t own)
{
    if (item->from != ECH_TIER_DEVICE || item->to != ECH_TIER_DEVICE || item->other != ECH_NONE)
        return own;
    for (size_t i = 0; i < n; i++) {
        const EchBuffer *buffer = ech_trace_builder_peek_buffer(capture->builder, arrays[i].buffer);
        for (guint m = 0; (writes ? arrays[i].writes : arrays[i].reads) && !buffer->managed && m < capture->memories->len; m++) {
            const Memory *memory = &g_array_index(capture->memories, Memory, m);
            if (memory->tier == ECH_TIER_DEVICE && memory->memory == buffer->memory)
                return m;
        }
    }
    return own;
}

/* What a copy reads in memory @from and writes in memory @to, where one of the two is known. */
static void add_ends(EchCapture *capture, const EchItem *item, const EchArrayUse *arrays, size_t n, uint32_t from, uint32_t to)
{
    EchId ends[2] = {ECH_NONE, ECH_NONE};
    for (size_t i = 0; i < n; i++)
        for (int writes = 0; writes < 2; writes++) {
            EchId memory = g_array_index(capture->memories, Memory, writes ? to : from).memory;
            const EchBuffer *buffer = ech_trace_builder_peek_buffer(capture->builder, arrays[i].buffer);
            if ((writes ? arrays[i].writes : arrays[i].reads) && (buffer->memory == memory || buffer->managed))
                ends[writes] = part_of(capture, &arrays[i], item->bytes);
        }
    if (ends[0] == ECH_NONE && ends[1] == ECH_NONE)
        return;
    for (int writes = 0; writes < 2; writes++) {
        EchId buffer = ends[writes] != ECH_NONE ? ends[writes] : traffic_buffer(capture, &g_array_index(capture->memories, Memory, writes ? to : from));
        ech_trace_builder_use(capture->builder, buffer, writes ? ECH_WRITE : ECH_READ, item->bytes, ECH_PATTERN_STREAM, (EchOrigin)item->origin);
    }
}

static void copy(EchCapture *capture, const EchItem *item)
{
    uint32_t device = ech_capture_queue_device(capture, item->queue);
    uint32_t peer = item->to == ECH_TIER_DEVICE && item->from == ECH_TIER_DEVICE && item->other != ECH_NONE ? item->other : device;
    uint32_t from = memory_index(capture, (EchTier)item->from, item->pulled ? peer : device);
    uint32_t to = memory_index(capture, (EchTier)item->to, item->pulled ? device : peer);
    size_t n;
    const EchArrayUse *arrays = arrays_of(capture, item, NULL, &n);
    from = memory_of_ends(capture, item, arrays, n, false, from);
    to = memory_of_ends(capture, item, arrays, n, true, to);
    EchOp op = op_of(capture, item, ECH_OP_COPY, queue_id(capture, item->queue));
    op.memory_from = g_array_index(capture->memories, Memory, from).memory;
    op.memory_to = g_array_index(capture->memories, Memory, to).memory;
    op.launch = launch_of(capture, item, item->from == ECH_TIER_HOST && item->to == ECH_TIER_HOST ? item->other : ECH_NONE);
    EchId id = ech_trace_builder_op(capture->builder, op);
    add_ends(capture, item, arrays, n, from, to);
    follow(capture, item);
    issue(capture, item->queue, id, item);
}

static void advice(EchCapture *capture, const EchItem *item)
{
    EchId id;
    EchBuffer *buffer = ech_arrays_find(capture->arrays, item->address, &id) ? ech_trace_builder_peek_buffer(capture->builder, id) : NULL;
    if (!buffer || !buffer->managed) {
        ech_diag_dropped(capture->import->diag, "advice_on_unknown_addresses", 1, "address 0x%" G_GINT64_MODIFIER "x", item->address);
        return;
    }
    if (item->bytes < buffer->bytes / 2) {
        ech_diag_note(capture->import->diag, "advice_on_parts", 1);
        return;
    }
    buffer->managed |= item->managed;
}

/* Where a module is called, once for all arrays that it is given. */
static void mark_given(EchCapture *capture, const EchItem *item)
{
    if (item->issued == capture->marked_given)
        return;
    capture->marked_given = item->issued;
    EchOp op = op_of(capture, item, ECH_OP_MARK, queue_id(capture, item->queue));
    g_autofree char *name = g_strdup_printf(ECH_MARK_GIVEN, item->bytes);
    op.name = ech_trace_builder_string(capture->builder, name, -1);
    op.bytes = 0;
    ech_trace_builder_op(capture->builder, op);
}

static void given(EchCapture *capture, const EchItem *item)
{
    if (capture->gives_others)
        mark_given(capture, item);
    EchId id;
    if (!ech_arrays_find(capture->arrays, item->address, &id)) {
        ech_diag_note(capture->import->diag, "given_at_unknown_addresses", 1);
        return;
    }
    g_array_append_val(capture->given, id);
    ech_rows_count(capture->rows, item->bytes);
}

static void collective(EchCapture *capture, const EchItem *item)
{
    EchOp op = op_of(capture, item, ECH_OP_COLLECTIVE, queue_id(capture, item->queue));
    op.collective = item->from;
    op.memory_from = item->other == ECH_NONE ? 0 : item->other;
    const Asked elsewhere = asked_elsewhere(capture, item);
    if (item->rounded > 0 || item->meets != ECH_NONE || elsewhere.launches > 0) {
        g_autoptr(GString) text = g_string_new(NULL);
        if (item->rounded > 0)
            g_string_append_printf(text, "devices=%" G_GUINT64_FORMAT " stride=%" G_GUINT64_FORMAT, item->rounded, item->address);
        if (item->meets != ECH_NONE)
            g_string_append_printf(text, "%s%s", text->len > 0 ? " " : "", ech_trace_builder_peek_string(capture->builder, item->meets));
        append_elsewhere(text, elsewhere);
        op.launch = ech_trace_builder_string(capture->builder, text->str, (gssize)text->len);
    }
    EchId id = ech_trace_builder_op(capture->builder, op);
    size_t n;
    const EchArrayUse *arrays = arrays_of(capture, item, NULL, &n);
    for (size_t i = 0; i < n; i++)
        for (int writes = 0; writes < 2; writes++)
            if (writes ? arrays[i].writes : arrays[i].reads)
                ech_trace_builder_use(capture->builder, arrays[i].buffer, writes ? ECH_WRITE : ECH_READ, writes ? arrays[i].written : arrays[i].read,
                                      ECH_PATTERN_STREAM, ECH_KNOWN);
    follow(capture, item);
    issue(capture, item->queue, id, item);
}

static void memory_event(EchCapture *capture, const EchItem *item)
{
    uint32_t at = item_memory(capture, item);
    Memory *m = &g_array_index(capture->memories, Memory, at);
    EchId queue = memory_queue(capture, m), old;
    bool live = get_live(capture, at, item->address, &old);
    bool of_device = m->tier == ECH_TIER_DEVICE || item->managed; /* managed memory, too, is freed when the device is through with it */
    uint32_t device = of_device ? ech_capture_queue_device(capture, item->queue) : ECH_NONE;
    if (item->kind == ECH_ITEM_FREE && !live) {
        ech_diag_dropped(capture->import->diag, "frees_of_unknown_addresses", 1, "address 0x%" G_GINT64_MODIFIER "x", item->address);
        return;
    }
    if (live) {
        if (item->kind == ECH_ITEM_ALLOC)
            ech_diag_dropped(capture->import->diag, "allocs_of_live_addresses", 1, "address 0x%" G_GINT64_MODIFIER "x", item->address);
        EchOp op = op_of(capture, item, ECH_OP_FREE, queue);
        op.target = old;
        op.bytes = ech_trace_builder_peek_buffer(capture->builder, old)->bytes;
        op.name = ech_trace_builder_peek_buffer(capture->builder, old)->name;
        ech_trace_builder_op(capture->builder, op);
        after_work(capture, m, queue, device, item->start);
        LiveKey key = {item->address, at};
        g_hash_table_remove(capture->live, &key);
        ech_arrays_release(capture->arrays, item->address);
    }
    if (item->kind == ECH_ITEM_FREE)
        return;
    EchOp op = op_of(capture, item, ECH_OP_ALLOC, queue);
    op.target = add_buffer(capture, item, m, false);
    ech_trace_builder_op(capture->builder, op);
    after_work(capture, m, queue, device, item->start);
    set_live(capture, at, item->address, op.target);
    add_array(capture, op.target, item);
}

static void wait_op(EchCapture *capture, const EchItem *item)
{
    uint32_t device = ech_capture_queue_device(capture, item->queue), process = queue_at(capture, item->queue)->process;
    EchOp op = op_of(capture, item, ECH_OP_WAIT, queue_id(capture, item->queue));
    op.bytes = 0;
    op.bytes_origin = ECH_ABSENT;
    op.target = ECH_NONE;
    op.launch = item->meets;
    if (item->kind == ECH_ITEM_STREAM_WAIT)
        op.launch = launch_of(capture, item, op.launch);
    EchId id = ech_trace_builder_op(capture->builder, op);
    EchTime time = (EchTime)item->address;
    guint first = item->other != ECH_NONE ? item->other : 0, end = item->other != ECH_NONE ? first + 1 : capture->queues->len;
    for (guint q = first; q < end && item->meets == ECH_NONE; q++) {
        Queue *queue = queue_at(capture, q);
        if (q == item->queue || (item->other == ECH_NONE && (queue->device != device || queue->process != process || queue->apart)))
            continue;
        EchId op_before = newest(queue, time);
        /* What the same queue waited for before, it need not wait for again. */
        if (op_before == ECH_NONE || (op_before == queue->waited && item->queue == queue->waiter))
            continue;
        if (item->other == ECH_NONE && capture->n_waited++ >= MOST_WAITED + WAITED_EACH * (uint64_t)capture->items->len) {
            ech_diag_dropped(capture->import->diag, "waits_for_too_many_streams", 1, "%u queues", capture->queues->len);
            break;
        }
        queue->waited = op_before;
        queue->waiter = item->queue;
        ech_trace_builder_dep(capture->builder, op_before, 0);
    }
    if (item->kind == ECH_ITEM_STREAM_WAIT) {
        issue(capture, item->queue, id, item);
        return;
    }
    hold_up(capture, item, id);
}

/* The value of @key in "KEY=VALUE,KEY=VALUE#": up to the next ',' or '#'. Length 0 where it is not there. */
static const char *annotated(const char *text, const char *key, size_t *ret_n)
{
    size_t n = strlen(key);
    *ret_n = 0;
    for (const char *at = strstr(text, key); at; at = strstr(at + n, key)) {
        if ((at[-1] != '#' && at[-1] != ',') || at[n] != '=')
            continue;
        *ret_n = strcspn(at + n + 1, ",#");
        return at + n + 1;
    }
    return NULL;
}

char *ech_capture_xla_range(const char *text, bool *ret_module)
{
    size_t n, n_id;
    *ret_module = g_str_has_prefix(text, "XlaModule:#");
    if (*ret_module) {
        const char *module = annotated(text, "hlo_module", &n), *id = annotated(text, "program_id", &n_id);
        return n == 0 ? NULL : n_id == 0 ? g_strndup(module, n) : g_strdup_printf("%.*s(%.*s)", (int)n, module, (int)n_id, id);
    }
    const char *op = g_str_has_prefix(text, "Thunk:#") ? annotated(text, "hlo_op", &n) : NULL;
    return op && n > 0 ? g_strndup(op, n) : NULL;
}

static void mark(EchCapture *capture, const EchItem *item)
{
    EchOp op = op_of(capture, item, ECH_OP_MARK, queue_id(capture, item->queue));
    bool module;
    g_autofree char *name = ech_capture_xla_range(ech_trace_builder_peek_string(capture->builder, item->name), &module);
    if (name)
        op.name = ech_trace_builder_string(capture->builder, name, -1);
    ech_trace_builder_op(capture->builder, op);
}

/* ---- a snapshot's events ---- */

typedef struct {
    EchId *strings, *memories, *queues; /* of the foreign trace, in ours; ECH_NONE where not yet needed */
    EchId *buffers;                     /* the same: of what a graph makes anew, what it made last */
} Foreign;

static EchId foreign_string(EchCapture *capture, const Foreign *f, EchId id)
{
    if (id == ECH_NONE)
        return ECH_NONE;
    g_assert(f->strings);
    if (f->strings[id] == ECH_NONE)
        f->strings[id] = ech_trace_builder_string(capture->builder, ech_trace_string(capture->foreign, id), -1);
    return f->strings[id];
}

static EchId *none_table(size_t n)
{
    EchId *table = g_new(EchId, n + 1);
    memset(table, 0xff, (n + 1) * sizeof *table);
    return table;
}

static uint32_t foreign_device(const EchCapture *capture, uint32_t device)
{
    return device == capture->first_device ? 0 : device == 0 ? capture->first_device : device;
}

static EchId foreign_queue(EchCapture *capture, const Foreign *f, EchId id)
{
    if (id == ECH_NONE)
        return ECH_NONE;
    const EchQueue *queue = &ech_trace_queues(capture->foreign)[id];
    g_assert(f->queues);
    if (f->queues[id] == ECH_NONE)
        f->queues[id] = queue_id(capture, ech_capture_queue(capture, ech_trace_string(capture->foreign, queue->name), (EchQueueKind)queue->kind,
                                                            foreign_device(capture, queue->device)));
    return f->queues[id];
}

static void foreign_begin(EchCapture *capture, Foreign *f)
{
    const EchTrace *t = capture->foreign;
    f->strings = none_table(ech_trace_n_strings(t));
    f->queues = none_table(ech_trace_n_queues(t));
    f->memories = none_table(ech_trace_n_memories(t));
    EchId first = (EchId)ech_trace_builder_n_buffers(capture->builder);
    f->buffers = none_table(ech_trace_n_buffers(t));
    g_autofree EchTime *asked = g_new(EchTime, ech_trace_n_buffers(t) + 1); /* for each buffer */
    for (size_t i = 0; i < ech_trace_n_buffers(t); i++)
        asked[i] = ECH_TIME_NONE;
    for (size_t i = 0; capture->namer && i < ech_trace_n_ops(t); i++) {
        const EchOp *op = &ech_trace_ops(t)[i];
        if (op->kind == ECH_OP_ALLOC)
            asked[op->target] = op->recorded.start;
    }
    for (size_t i = 0; i < ech_trace_n_buffers(t); i++) {
        EchBuffer b = ech_trace_buffers(t)[i];
        b.name = foreign_string(capture, f, b.name);
        b.stack = foreign_string(capture, f, b.stack);
        b.pool = foreign_string(capture, f, b.pool);
        b.shape = foreign_string(capture, f, b.shape);
        b.queue = foreign_queue(capture, f, b.queue);
        if (f->memories[b.memory] == ECH_NONE) /* of devices that nothing was asked of there is nothing to tell */
            f->memories[b.memory] = ech_trace_builder_memory(capture->builder, ech_trace_memory(t, b.memory));
        b.memory = f->memories[b.memory];
        if (b.alias_of != ECH_NONE)
            b.alias_of += first;
        b.loop = ECH_NONE;
        if (b.resident && b.address != ECH_OFFSET_NONE)
            ech_arrays_alloc(capture->arrays, (EchId)(first + i), b.address, b.bytes);
        if (asked[i] != ECH_TIME_NONE && !*ech_trace_string(t, ech_trace_buffers(t)[i].name))
            capture->namer(capture->namer_data, capture->foreign_zero + asked[i], &b.name, &b.stack);
        f->buffers[i] = ech_trace_builder_buffer(capture->builder, b);
    }
}

/* A request that was refused: the operators that asked for it, in front of the lines of Python, of which a backward pass has none. */
static EchId refused_stack(EchCapture *capture, EchId stack, EchTime time)
{
    EchId name = ECH_NONE, within = ECH_NONE;
    capture->namer(capture->namer_data, time, &name, &within);
    if (within == ECH_NONE || stack == ECH_NONE)
        return within == ECH_NONE ? stack : within;
    g_autofree char *both =
        g_strdup_printf("%s\n%s", ech_trace_builder_peek_string(capture->builder, within), ech_trace_builder_peek_string(capture->builder, stack));
    return ech_trace_builder_string(capture->builder, both, -1);
}

/* Adds an op of the snapshot, which comes after the work that was asked for until now. */
static void add_foreign(EchCapture *capture, const Foreign *f, EchOp op, EchTime start)
{
    uint32_t device = op.queue == ECH_NONE ? 0 : foreign_device(capture, ech_trace_queues(capture->foreign)[op.queue].device);
    bool refused = capture->namer && op.kind == ECH_OP_MARK && op.bytes > 0 && g_str_has_prefix(ech_trace_string(capture->foreign, op.name), "oom ");
    op.name = foreign_string(capture, f, op.name);
    op.stack = foreign_string(capture, f, op.stack);
    if (refused)
        op.stack = refused_stack(capture, op.stack, start);
    op.queue = foreign_queue(capture, f, op.queue);
    op.recorded.start = capture->unrecorded ? ECH_TIME_NONE : relative(capture, start);
    if (op.kind == ECH_OP_ALLOC || op.kind == ECH_OP_FREE) {
        const EchBuffer *b = ech_trace_builder_peek_buffer(capture->builder, op.target);
        if (op.kind == ECH_OP_ALLOC && b->address != ECH_OFFSET_NONE)
            ech_arrays_alloc(capture->arrays, op.target, b->address, b->bytes);
        else if (op.kind == ECH_OP_FREE)
            ech_arrays_release(capture->arrays, b->address);
    }
    ech_trace_builder_op(capture->builder, op);
    if (op.queue != ECH_NONE)
        after_work(capture, memory_of(capture, ECH_TIER_DEVICE, device), op.queue, device, start);
}

static void foreign_op(EchCapture *capture, const Foreign *f, const EchItem *item)
{
    EchOp op = ech_trace_ops(capture->foreign)[item->address];
    if (op.kind == ECH_OP_ALLOC || op.kind == ECH_OP_FREE)
        op.target = f->buffers[op.target];
    add_foreign(capture, f, op, item->start);
}

/* Of the items that are gone through. */
typedef struct {
    GArray *arrays;    /* EchGraphArray, by first */
    GPtrArray *ending; /* The same, by last */
    GPtrArray *taking; /* Those that take the place of what is there, by when that goes */
    guint begun, ended, taken;
} Graphs;

static gint compare_ends(gconstpointer a, gconstpointer b)
{
    return ech_compare_u32(&(*(EchGraphArray *const *)a)->last, &(*(EchGraphArray *const *)b)->last);
}

static gint compare_taken(gconstpointer a, gconstpointer b)
{
    return ech_compare_u32(&(*(EchGraphArray *const *)a)->after, &(*(EchGraphArray *const *)b)->after);
}

/* Once the items are in order, which they are again then. */
static void graphs_begin(EchCapture *capture, Graphs *graphs)
{
    g_autoptr(EchGraphArrays) captures = ech_graph_arrays_new(capture->items, capture->uses, capture->captured, capture->foreign);
    ech_graph_arrays_settle(captures);
    if (!is_sorted(capture->items))
        g_array_sort_with_data(capture->items, compare_items, NULL);
    graphs->arrays = ech_graph_arrays_find(captures);
    graphs->ending = g_ptr_array_new();
    graphs->taking = g_ptr_array_new();
    for (guint k = 0; k < graphs->arrays->len; k++) {
        EchGraphArray *array = &g_array_index(graphs->arrays, EchGraphArray, k);
        g_ptr_array_add(array->after == G_MAXUINT ? graphs->ending : graphs->taking, array);
    }
    g_ptr_array_sort(graphs->ending, compare_ends);
    g_ptr_array_sort(graphs->taking, compare_taken);
    ech_diag_note(capture->import->diag, "arrays_of_graphs", graphs->arrays->len);
}

static void graphs_end(Graphs *graphs)
{
    g_array_unref(graphs->arrays);
    g_ptr_array_unref(graphs->ending);
    g_ptr_array_unref(graphs->taking);
}

/* An allocator's event, of @buffer, as the op of the snapshot that asked for the block. */
static void add_array_of_graph(EchCapture *capture, const Foreign *f, const EchGraphArray *array, EchOpKind kind, EchId buffer, guint i)
{
    EchOp op = ech_trace_ops(capture->foreign)[array->alloc];
    op.kind = (uint8_t)kind;
    op.target = buffer;
    add_foreign(capture, f, op, g_array_index(capture->items, EchItem, i).start);
}

/* Before item @i what is made anew goes, and the arrays come that live from it on. */
static void begin_arrays(EchCapture *capture, const Foreign *f, Graphs *graphs, guint i)
{
    for (; graphs->taken < graphs->taking->len && ((const EchGraphArray *)graphs->taking->pdata[graphs->taken])->after == i; graphs->taken++) {
        const EchGraphArray *array = graphs->taking->pdata[graphs->taken];
        add_array_of_graph(capture, f, array, ECH_OP_FREE, f->buffers[ech_trace_ops(capture->foreign)[array->alloc].target], i);
    }
    for (; graphs->begun < graphs->arrays->len && g_array_index(graphs->arrays, EchGraphArray, graphs->begun).first == i; graphs->begun++) {
        EchGraphArray *array = &g_array_index(graphs->arrays, EchGraphArray, graphs->begun);
        EchId *buffer = &f->buffers[ech_trace_ops(capture->foreign)[array->alloc].target];
        array->buffer = ech_trace_builder_buffer(capture->builder, *ech_trace_builder_peek_buffer(capture->builder, *buffer));
        if (array->after != G_MAXUINT)
            *buffer = array->buffer;
        add_array_of_graph(capture, f, array, ECH_OP_ALLOC, array->buffer, i);
    }
}

/* The arrays that live up to item @i go behind it. */
static void end_arrays(EchCapture *capture, const Foreign *f, Graphs *graphs, guint i)
{
    for (; graphs->ended < graphs->ending->len && ((const EchGraphArray *)graphs->ending->pdata[graphs->ended])->last == i; graphs->ended++) {
        const EchGraphArray *array = graphs->ending->pdata[graphs->ended];
        add_array_of_graph(capture, f, array, ECH_OP_FREE, array->buffer, i);
    }
}

/* The snapshot's events replace the profiler's own of the device, but for what lies beside its allocator. */
static void merge_items(EchCapture *capture)
{
    guint kept = 0, replaced = 0;
    for (guint i = 0; i < capture->items->len; i++) {
        const EchItem *item = &g_array_index(capture->items, EchItem, i);
        if ((item->kind == ECH_ITEM_ALLOC || item->kind == ECH_ITEM_FREE) && item->to == ECH_TIER_DEVICE && !item->direct)
            replaced++;
        else
            g_array_index(capture->items, EchItem, kept++) = *item;
    }
    g_array_set_size(capture->items, kept);
    ech_diag_note(capture->import->diag, "memory_events_replaced_by_the_snapshot", replaced);
    for (guint i = 0; i < capture->memories->len; i++) {
        if (g_array_index(capture->memories, Memory, i).tier == ECH_TIER_DEVICE)
            g_array_index(capture->memories, Memory, i).baseline = 0;
    }
    const EchOp *ops = ech_trace_ops(capture->foreign);
    EchTime last = INT64_MIN / 2;
    for (size_t i = 0; i < ech_trace_n_ops(capture->foreign); i++) {
        if (ops[i].kind != ECH_OP_ALLOC && ops[i].kind != ECH_OP_FREE && ops[i].kind != ECH_OP_MARK)
            continue;
        EchItem item = ech_item_init(ECH_ITEM_FOREIGN);
        if (ops[i].recorded.start != ECH_TIME_NONE)
            last = item.start = capture->foreign_zero + ops[i].recorded.start;
        item.issued = last;
        item.address = i;
        ech_capture_add(capture, &item);
    }
    const char *key, *value;
    for (size_t i = 0; (key = ech_trace_property(capture->foreign, i, &value)) != NULL; i++)
        ech_trace_builder_set_property(capture->builder, key, value);
}

/* What a snapshot lets go just before its last use, by a clock of whole microseconds, is let go just after it. */
static void settle_frees(EchCapture *capture)
{
    const EchTime slack = 2 * ECH_PS_PER_US;
    g_autoptr(EchArrays) live = ech_arrays_new(), gone = ech_arrays_new(); /* Their "buffers": the foreign one; the item that let it go. */
    uint64_t n = 0;
    for (guint i = 0; i < capture->items->len; i++) {
        const EchItem *item = &g_array_index(capture->items, EchItem, i);
        if (item->kind == ECH_ITEM_FOREIGN) {
            const EchOp *op = &ech_trace_ops(capture->foreign)[item->address];
            const EchBuffer *b = op->kind == ECH_OP_MARK ? NULL : &ech_trace_buffers(capture->foreign)[op->target];
            if (op->kind == ECH_OP_ALLOC)
                ech_arrays_alloc(live, op->target, b->address, b->bytes);
            if (op->kind == ECH_OP_FREE) {
                ech_arrays_release(live, b->address);
                ech_arrays_alloc(gone, i, b->address, b->bytes);
            }
        }
        for (uint32_t u = 0; u < item->n_uses; u++) {
            uint64_t address = g_array_index(capture->uses, EchAddressUse, item->first_use + u).address;
            EchId other;
            if (ech_arrays_find(live, address, &other) || !ech_arrays_find(gone, address, &other))
                continue;
            EchItem *freed = &g_array_index(capture->items, EchItem, other);
            if (item->issued - freed->issued <= slack) {
                freed->issued = item->issued + 1;
                n++;
            }
        }
    }
    ech_diag_note(capture->import->diag, "frees_moved_behind_uses", n);
    if (n > 0)
        g_array_sort_with_data(capture->items, compare_items, NULL);
}

/* Where all calls of modules are given as many rows, one number tells them. */
static bool gives_others(const EchCapture *capture)
{
    const EchItem *first = NULL;
    bool others = false;
    for (guint i = 0; i < capture->items->len && !others; i++) {
        const EchItem *item = &g_array_index(capture->items, EchItem, i);
        if (item->kind != ECH_ITEM_GIVEN)
            continue;
        first = first ? first : item;
        others = item->bytes != first->bytes;
    }
    return others;
}

static void settle_zero(EchCapture *capture)
{
    capture->zero = ECH_TIME_MAX;
    for (guint i = 0; i < capture->items->len; i++) {
        const EchItem *item = &g_array_index(capture->items, EchItem, i);
        if (item->start != ECH_TIME_NONE)
            capture->zero = MIN(capture->zero, item->start);
        bool host_only = (item->kind == ECH_ITEM_ALLOC || item->kind == ECH_ITEM_FREE) && item->to == ECH_TIER_HOST;
        if (item->kind != ECH_ITEM_FOREIGN && item->kind != ECH_ITEM_MARK && item->kind != ECH_ITEM_GIVEN && !host_only)
            memory_index(capture, ECH_TIER_DEVICE, ech_capture_queue_device(capture, item->queue));
        if (item->kind == ECH_ITEM_COPY && item->from == ECH_TIER_DEVICE && item->to == ECH_TIER_DEVICE && item->other != ECH_NONE)
            memory_index(capture, ECH_TIER_DEVICE, item->other);
        if (item->kind <= ECH_ITEM_FREE && (item->from == ECH_TIER_HOST || item->to == ECH_TIER_HOST))
            memory_index(capture, ECH_TIER_HOST, 0);
        if (item->kind == ECH_ITEM_COPY) {
            memory_index(capture, (EchTier)item->from, ech_capture_queue_device(capture, item->queue));
            memory_index(capture, (EchTier)item->to, ech_capture_queue_device(capture, item->queue));
        }
    }
    if (capture->zero == ECH_TIME_MAX)
        capture->zero = 0;
    ech_trace_builder_printf_property(capture->builder, "time_zero_ps", "%" G_GINT64_FORMAT, capture->zero);
}

static int compare_places(gconstpointer a, gconstpointer b, gpointer data)
{
    const EchItem *items = data, *x = &items[*(const guint *)a], *y = &items[*(const guint *)b];
    if (x->queue != y->queue)
        return x->queue < y->queue ? -1 : 1;
    return compare_starts(x, y, NULL);
}

static bool is_work(const EchItem *item)
{
    return (item->kind <= ECH_ITEM_COPY || item->kind == ECH_ITEM_COLLECTIVE) && item->start != ECH_TIME_NONE;
}

/* A stream does its work in the order in which it was asked for: what began before something else was asked for before it, whatever its call, which some
 * recordings lack, says. */
static void settle_issues(EchCapture *capture)
{
    EchItem *items = (EchItem *)(void *)capture->items->data;
    g_autoptr(GArray) places = g_array_new(FALSE, FALSE, sizeof(guint));
    for (guint i = 0; i < capture->items->len; i++)
        if (is_work(&items[i]) && queue_at(capture, items[i].queue)->kind == ECH_QUEUE_COMPUTE)
            g_array_append_val(places, i);
    g_array_sort_with_data(places, compare_places, items);
    uint64_t n = 0;
    for (guint k = places->len; k-- > 1;) {
        EchItem *before = &items[g_array_index(places, guint, k - 1)];
        const EchItem *behind = &items[g_array_index(places, guint, k)];
        if (before->queue != behind->queue || before->issued <= behind->issued)
            continue;
        before->issued = behind->issued;
        n++;
    }
    ech_diag_note(capture->import->diag, "issue_times_by_stream_order", n);
}

/* Work that the host asked for at one time, as by one graph, in the order in which it began. */
static void settle_ties(EchCapture *capture)
{
    EchItem *items = (EchItem *)(void *)capture->items->data;
    g_autoptr(GArray) work = g_array_new(FALSE, FALSE, sizeof(EchItem));
    g_autoptr(GArray) places = g_array_new(FALSE, FALSE, sizeof(guint));
    for (guint i = 0, end; i < capture->items->len; i = end) {
        g_array_set_size(work, 0);
        g_array_set_size(places, 0);
        for (end = i; end < capture->items->len && items[end].issued == items[i].issued; end++) {
            if (!is_work(&items[end]))
                continue;
            g_array_append_val(work, items[end]);
            g_array_append_val(places, end);
        }
        if (work->len < 2)
            continue;
        g_array_sort_with_data(work, compare_starts, NULL);
        for (guint k = 0; k < work->len; k++)
            items[g_array_index(places, guint, k)] = g_array_index(work, EchItem, k);
    }
}

/* What comes after what in streams that the recording does not say it of. */
static void infer_order(EchCapture *capture)
{
    g_autofree EchStreamOf *queues = g_new(EchStreamOf, capture->queues->len + 1);
    for (guint q = 0; q < capture->queues->len; q++) {
        const Queue *queue = queue_at(capture, q);
        queues[q] = (EchStreamOf){queue->device, queue->process, queue->kind == ECH_QUEUE_COMPUTE};
    }
    const EchItem *items = (const EchItem *)(const void *)capture->items->data;
    uint32_t left_out;
    capture->after = ech_stream_waits(items, capture->items->len, queues, capture->queues->len, capture->told, capture->calls, &left_out);
    ech_diag_dropped(capture->import->diag, "streams_of_unknown_order_beyond_256_of_a_device", left_out, NULL);
    capture->ops = g_new(EchId, capture->items->len + 1);
    capture->next_after = 0;
    ech_diag_note(capture->import->diag, "inferred_stream_waits", capture->after->len);
    if (capture->after->len > 0)
        ech_trace_builder_printf_property(capture->builder, "inferred_stream_waits", "%u", capture->after->len);
    if (capture->after->len > 0 && capture->told == ECH_WAITS_TOLD)
        ech_trace_builder_set_property(capture->builder, "stream_waits_told", "yes");
}

/* Whom collectives met, where a recording of several devices does not say it. */
static void infer_meetings(EchCapture *capture)
{
    g_autofree uint32_t *devices = g_new(uint32_t, capture->queues->len + 1);
    g_autoptr(GHashTable) processes = g_hash_table_new(NULL, NULL);
    bool several = false;
    for (guint q = 0; q < capture->queues->len; q++) {
        devices[q] = queue_at(capture, q)->device;
        several = several || devices[q] != devices[0];
        if (queue_at(capture, q)->kind == ECH_QUEUE_COMPUTE)
            g_hash_table_add(processes, GUINT_TO_POINTER(queue_at(capture, q)->process));
    }
    if (several && g_hash_table_size(processes) > 1)
        ech_trace_builder_printf_property(capture->builder, ECH_TRACE_PROCESSES, "%u", g_hash_table_size(processes));
    if (!several || capture->unrecorded)
        return;
    uint64_t n = ech_meetings_find(capture->builder, capture->items, devices);
    ech_diag_note(capture->import->diag, "collectives_that_met_by_their_times", n);
}

bool ech_capture_finish(EchCapture *capture, GError **error)
{
    if (capture->foreign)
        merge_items(capture);
    settle_issues(capture);
    if (!is_sorted(capture->items))
        g_array_sort_with_data(capture->items, compare_items, NULL);
    settle_ties(capture);
    if (capture->foreign && capture->uses->len > 0)
        settle_frees(capture);
    Graphs graphs = {0};
    if (capture->foreign)
        graphs_begin(capture, &graphs);
    infer_order(capture);
    infer_meetings(capture);
    settle_zero(capture);
    name_memories(capture);
    capture->gives_others = gives_others(capture);
    capture->marked_given = ECH_TIME_NONE;
    Foreign foreign = {0};
    if (capture->foreign)
        foreign_begin(capture, &foreign);
    add_residents(capture);
    for (guint i = 0; i < capture->items->len; i++) {
        const EchItem *item = &g_array_index(capture->items, EchItem, i);
        if (capture->foreign)
            begin_arrays(capture, &foreign, &graphs, i);
        switch ((EchItemKind)item->kind) {
        case ECH_ITEM_KERNEL:
        case ECH_ITEM_MEMSET: kernel(capture, item); break;
        case ECH_ITEM_COPY: copy(capture, item); break;
        case ECH_ITEM_ALLOC:
        case ECH_ITEM_FREE: memory_event(capture, item); break;
        case ECH_ITEM_MARK: mark(capture, item); break;
        case ECH_ITEM_STREAM_WAIT:
        case ECH_ITEM_HOST_WAIT: wait_op(capture, item); break;
        case ECH_ITEM_COLLECTIVE: collective(capture, item); break;
        case ECH_ITEM_ADVICE: advice(capture, item); break;
        case ECH_ITEM_GIVEN: given(capture, item); break;
        case ECH_ITEM_FOREIGN: foreign_op(capture, &foreign, item); break;
        }
        if (capture->foreign)
            end_arrays(capture, &foreign, &graphs, i);
    }
    if (capture->foreign)
        graphs_end(&graphs);
    g_free(foreign.strings);
    g_free(foreign.buffers);
    g_free(foreign.memories);
    g_free(foreign.queues);
    if (capture->uses->len > 0) {
        ech_roles_infer(capture->builder, capture->given);
        uint64_t rows = ech_rows_usual(capture->rows);
        if (rows > 0)
            ech_trace_builder_printf_property(capture->builder, ECH_TRACE_BATCH, "%" G_GUINT64_FORMAT, rows);
        ech_diag_note(capture->import->diag, "kernels_of_untold_arrays", capture->n_untold);
        ech_diag_note(capture->import->diag, "uses_of_no_array", capture->n_unknown);
        ech_diag_note(capture->import->diag, "uses_of_inferred_direction", capture->n_inferred);
        ech_diag_note(capture->import->diag, "kernels_over_the_link", capture->n_over_link);
        ech_diag_note(capture->import->diag, "kernels_over_the_link_left_out", capture->n_left_out);
        if (capture->n_over_link > 0)
            ech_diag_remark(capture->import->diag,
                            "%" G_GUINT64_FORMAT " of the capture's kernels use pinned memory of the host where it lies: its bytes take what the link takes",
                            capture->n_over_link);
        if (capture->n_left_out > 0)
            ech_diag_remark(capture->import->diag,
                            "%" G_GUINT64_FORMAT
                            " of the capture's kernels are given pinned memory of the host, and how many bytes of it they use is not known: "
                            "what those take of the link is left out",
                            capture->n_left_out);
    }
    if (capture->migrated) {
        ech_trace_builder_set_property(capture->builder, "migrations_recorded", "1");
        ech_trace_builder_printf_property(capture->builder, "recorded_paged_in_bytes", "%" G_GUINT64_FORMAT, capture->paged[1]);
        ech_trace_builder_printf_property(capture->builder, "recorded_paged_out_bytes", "%" G_GUINT64_FORMAT, capture->paged[0]);
    }
    g_array_set_size(capture->items, 0);
    g_array_unref(capture->after);
    g_free(capture->ops);
    capture->import->trace = ech_trace_builder_finish(capture->builder, error);
    return capture->import->trace != NULL;
}
