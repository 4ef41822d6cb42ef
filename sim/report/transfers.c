#include "sim/report/transfers.h"

#include "sim/base/compare.h"
#include "sim/base/hash.h"
#include "sim/base/stretches.h"

#include <string.h>

/* A wait this short only looked at a flag. */
#define WAITED (20 * ECH_PS_PER_NS)

/* Copies of one device from one kind of memory to another. */
typedef struct {
    uint32_t device, from, to;
    GArray *spans; /* EchStretch, merged before it is asked */
} Way;

typedef struct {
    uint32_t op, way, reverse; /* way indices; reverse: G_MAXUINT32 where nothing runs the other way */
    EchTime begin, end;        /* of the flight; end ECH_TIME_NONE where not recorded */
    EchTime wait, waited;      /* begin and length of the WAIT, ECH_TIME_NONE */
    EchTime barrier;           /* start of what came after the WAIT on its queue: the copy had ended by then, whatever the clocks say */
} Flight;

typedef struct {
    EchTransferRow row;
    const char *text;        /* of the name */
    GArray *flights, *waits; /* EchTime */
    GArray *told;            /* Told */
} Group;

typedef struct {
    uint32_t device;
    EchTime time;
} Told;

typedef struct {
    EchId name;
    uint32_t from, to;
    EchBytes bytes;
    EchOverlap overlap;
} Key;

static guint key_hash(gconstpointer p)
{
    const Key *k = p;
    return ech_hash_pair((uint64_t)k->name << 32 ^ (uint64_t)k->from << 20 ^ (uint64_t)k->to << 10 ^ (uint64_t)k->overlap, k->bytes);
}

static gboolean key_equal(gconstpointer a, gconstpointer b)
{
    const Key *x = a, *y = b;
    return x->name == y->name && x->from == y->from && x->to == y->to && x->bytes == y->bytes && x->overlap == y->overlap;
}

const char *ech_overlap_name(EchOverlap overlap)
{
    static const char *const names[ECH_N_OVERLAPS] = {"alone", "partly against", "against", "end not recorded"};
    return names[overlap];
}

/* Index of a kind of memory: its name up to a colon. */
static uint32_t kind_of(GPtrArray *names, const char *memory)
{
    size_t n = strcspn(memory, ":");
    for (guint i = 0; i < names->len; i++) {
        if (strlen(names->pdata[i]) == n && strncmp(names->pdata[i], memory, n) == 0)
            return i;
    }
    g_ptr_array_add(names, g_strndup(memory, n));
    return names->len - 1;
}

static gpointer way_key(uint32_t device, uint32_t from, uint32_t to)
{
    return GSIZE_TO_POINTER(((gsize)device << 32 | (gsize)(from & 0xffff) << 16 | (gsize)(to & 0xffff)) + 1);
}

static EchTime median(GArray *times)
{
    if (!times->len)
        return ECH_TIME_NONE;
    g_array_sort(times, ech_compare_i64);
    EchTime low = g_array_index(times, EchTime, (times->len - 1) / 2), high = g_array_index(times, EchTime, times->len / 2);
    return low + (high - low) / 2;
}

static int compare_told(gconstpointer a, gconstpointer b)
{
    const Told *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return x->time < y->time ? -1 : x->time > y->time;
}

static void device_medians(GArray *told, EchTransferRow *row)
{
    g_autoptr(GArray) medians = g_array_new(FALSE, FALSE, sizeof(EchTransferMedian));
    g_array_sort(told, compare_told);
    for (guint i = 0, end; i < told->len; i = end) {
        uint32_t device = g_array_index(told, Told, i).device;
        for (end = i; end < told->len && g_array_index(told, Told, end).device == device;)
            end++;
        EchTime low = g_array_index(told, Told, i + (end - i - 1) / 2).time, high = g_array_index(told, Told, i + (end - i) / 2).time;
        EchTransferMedian one = {device, low + (high - low) / 2};
        g_array_append_val(medians, one);
    }
    row->n_devices = medians->len;
    row->devices = (EchTransferMedian *)(void *)g_array_free(g_steal_pointer(&medians), FALSE);
}

static int compare_groups(gconstpointer a, gconstpointer b)
{
    const EchTransferRow *x = &(*(Group *const *)a)->row, *y = &(*(Group *const *)b)->row;
    int text = strcmp((*(Group *const *)a)->text, (*(Group *const *)b)->text);
    if (x->total != y->total)
        return x->total > y->total ? -1 : 1;
    if (text)
        return text;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    int way = strcmp(x->from, y->from);
    return way ? way : x->overlap < y->overlap ? -1 : x->overlap > y->overlap;
}

static void group_free(gpointer data)
{
    Group *group = data;
    g_array_unref(group->flights);
    g_array_unref(group->waits);
    g_array_unref(group->told);
    g_free(group);
}

static void way_clear(gpointer data)
{
    g_array_unref(((Way *)data)->spans);
}

/* For each op the recorded start of the next one of its queue; ECH_TIME_MAX where there is none. Owned by the caller. */
static EchTime *next_starts(const EchTrace *trace)
{
    const EchOp *ops = ech_trace_ops(trace);
    size_t n = ech_trace_n_ops(trace);
    EchTime *next = g_new(EchTime, n + 1);
    g_autofree EchTime *newest = g_new(EchTime, ech_trace_n_queues(trace) + 1);
    for (size_t q = 0; q < ech_trace_n_queues(trace); q++)
        newest[q] = ECH_TIME_MAX;
    for (size_t i = n; i-- > 0;) {
        next[i] = ops[i].queue == ECH_NONE ? ECH_TIME_MAX : newest[ops[i].queue];
        if (ops[i].queue != ECH_NONE && ops[i].recorded.start != ECH_TIME_NONE)
            newest[ops[i].queue] = ops[i].recorded.start;
    }
    return next;
}

/* The copies between different memories, and the WAIT each ended in. */
static GArray *find_flights(const EchTrace *trace, GPtrArray *names, GArray *ways)
{
    const EchOp *ops = ech_trace_ops(trace);
    const EchDep *deps = ech_trace_deps(trace);
    const EchQueue *queues = ech_trace_queues(trace);
    GArray *flights = g_array_new(FALSE, FALSE, sizeof(Flight));
    g_autoptr(GHashTable) index = g_hash_table_new(NULL, NULL); /* way_key -> way + 1 */
    g_autoptr(GHashTable) by_op = g_hash_table_new(NULL, NULL); /* op + 1 -> flight + 1, of copies on queues of their own */
    g_autofree EchTime *next = next_starts(trace);
    g_autofree uint32_t *kinds = g_new(uint32_t, ech_trace_n_memories(trace) + 1);
    for (EchId m = 0; m < ech_trace_n_memories(trace); m++)
        kinds[m] = kind_of(names, ech_trace_memory(trace, m));
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ops[i];
        EchTime start = op->recorded.start, duration = op->recorded.duration;
        if (op->kind == ECH_OP_WAIT && start != ECH_TIME_NONE && duration != ECH_TIME_NONE) {
            for (uint32_t d = 0; d < op->n_deps; d++) {
                guint at = GPOINTER_TO_UINT(g_hash_table_lookup(by_op, GUINT_TO_POINTER(deps[op->first_dep + d].op + 1)));
                Flight *f = at ? &g_array_index(flights, Flight, at - 1) : NULL;
                if (f && f->wait == ECH_TIME_NONE && start >= f->begin) {
                    f->wait = start;
                    f->waited = duration;
                    f->barrier = MAX(next[i], start);
                }
            }
        }
        if (op->kind != ECH_OP_COPY || start == ECH_TIME_NONE || op->queue == ECH_NONE || kinds[op->memory_from] == kinds[op->memory_to])
            continue;
        uint32_t device = queues[op->queue].device, from = kinds[op->memory_from], to = kinds[op->memory_to];
        gpointer key = way_key(device, from, to);
        guint way = GPOINTER_TO_UINT(g_hash_table_lookup(index, key));
        if (!way) {
            Way row = {device, from, to, g_array_new(FALSE, FALSE, sizeof(EchStretch))};
            g_array_append_val(ways, row);
            way = ways->len;
            g_hash_table_insert(index, key, GUINT_TO_POINTER(way));
        }
        Flight f = {.op = (uint32_t)i,
                    .way = way - 1,
                    .begin = start,
                    .end = duration == ECH_TIME_NONE ? ECH_TIME_NONE : ech_time_add(MAX(start, 0), duration),
                    .wait = ECH_TIME_NONE,
                    .waited = ECH_TIME_NONE,
                    .barrier = ECH_TIME_MAX};
        g_array_append_val(flights, f);
        if (queues[op->queue].kind == ECH_QUEUE_COPY)
            g_hash_table_insert(by_op, GUINT_TO_POINTER((guint)i + 1), GUINT_TO_POINTER(flights->len));
    }
    for (guint i = 0; i < flights->len; i++) {
        Flight *f = &g_array_index(flights, Flight, i);
        const Way *way = &g_array_index(ways, Way, f->way);
        guint reverse = GPOINTER_TO_UINT(g_hash_table_lookup(index, way_key(way->device, way->to, way->from)));
        f->reverse = reverse ? reverse - 1 : G_MAXUINT32;
        EchStretch span = {f->begin, f->end != ECH_TIME_NONE ? f->end : f->wait != ECH_TIME_NONE ? ech_time_add(MAX(f->wait, 0), f->waited) : f->begin, 0};
        span.end = MIN(span.end, f->barrier);
        if (span.end > span.begin)
            g_array_append_val(way->spans, span);
    }
    for (guint i = 0; i < ways->len; i++)
        ech_stretches_merge(g_array_index(ways, Way, i).spans);
    return flights;
}

static EchOverlap overlap_of(const Flight *f, const GArray *ways)
{
    bool stood = f->wait != ECH_TIME_NONE && f->waited >= WAITED;
    if (!stood && f->end == ECH_TIME_NONE)
        return ECH_OVERLAP_UNTIMED;
    EchTime begin = stood ? f->wait : f->begin, end = stood ? ech_time_add(MAX(f->wait, 0), f->waited) : f->end;
    end = MIN(end, f->barrier);
    if (f->reverse == G_MAXUINT32 || end <= begin)
        return ECH_OVERLAP_ALONE;
    const GArray *spans = g_array_index(ways, Way, f->reverse).spans;
    EchTime against = ech_stretches_before(spans, end) - ech_stretches_before(spans, begin);
    /* A permille is the coarseness of clocks, not an overlap. */
    return against <= (end - begin) / 1000 ? ECH_OVERLAP_ALONE : against <= (end - begin) / 2 ? ECH_OVERLAP_PARTLY : ECH_OVERLAP_AGAINST;
}

EchTransfers *ech_transfers_new(const EchTrace *trace)
{
    EchTransfers *transfers = g_new0(EchTransfers, 1);
    transfers->names = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GArray) ways = g_array_new(FALSE, FALSE, sizeof(Way));
    g_array_set_clear_func(ways, way_clear);
    g_autoptr(GArray) flights = find_flights(trace, transfers->names, ways);
    g_autoptr(GHashTable) index = g_hash_table_new_full(key_hash, key_equal, g_free, NULL);
    g_autoptr(GPtrArray) groups = g_ptr_array_new_with_free_func(group_free);
    for (guint i = 0; i < flights->len; i++) {
        const Flight *f = &g_array_index(flights, Flight, i);
        const Way *way = &g_array_index(ways, Way, f->way);
        const EchOp *op = &ech_trace_ops(trace)[f->op];
        Key key = {op->name, way->from, way->to, op->bytes, overlap_of(f, ways)};
        Group *group = g_hash_table_lookup(index, &key);
        if (!group) {
            group = g_new0(Group, 1);
            group->row = (EchTransferRow){.name = op->name,
                                          .from = transfers->names->pdata[way->from],
                                          .to = transfers->names->pdata[way->to],
                                          .bytes = op->bytes,
                                          .overlap = key.overlap};
            group->text = ech_trace_string(trace, op->name);
            group->flights = g_array_new(FALSE, FALSE, sizeof(EchTime));
            group->waits = g_array_new(FALSE, FALSE, sizeof(EchTime));
            group->told = g_array_new(FALSE, FALSE, sizeof(Told));
            g_ptr_array_add(groups, group);
            g_hash_table_insert(index, g_memdup2(&key, sizeof key), group);
        }
        EchTime told = f->waited != ECH_TIME_NONE && f->waited >= WAITED ? f->waited : op->recorded.duration;
        group->row.count++;
        if (op->recorded.duration != ECH_TIME_NONE)
            g_array_append_val(group->flights, op->recorded.duration);
        if (f->waited != ECH_TIME_NONE)
            g_array_append_val(group->waits, f->waited);
        if (told != ECH_TIME_NONE) {
            Told row = {way->device, told};
            g_array_append_val(group->told, row);
            group->row.total = ech_time_add(group->row.total, told);
        }
    }
    transfers->n = groups->len;
    transfers->rows = g_new0(EchTransferRow, groups->len + 1);
    if (groups->len)
        g_ptr_array_sort(groups, compare_groups);
    for (guint i = 0; i < groups->len; i++) {
        Group *group = groups->pdata[i];
        group->row.in_flight = median(group->flights);
        group->row.waited = median(group->waits);
        device_medians(group->told, &group->row);
        transfers->rows[i] = group->row;
    }
    return transfers;
}

void ech_transfers_free(EchTransfers *transfers)
{
    if (!transfers)
        return;
    for (size_t i = 0; i < transfers->n; i++)
        g_free(transfers->rows[i].devices);
    g_free(transfers->rows);
    g_ptr_array_unref(transfers->names);
    g_free(transfers);
}
