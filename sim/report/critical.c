/* The critical path of a run, and what bounded its operations. */
#include "sim/report/report.h"

#include "sim/base/compare.h"
#include "sim/report/stalls.h"

#include <string.h>

/* What bounds an operation, or a part of it, besides one resource of its own: the first six of what no resource does, the others as the kernel model has it. */
typedef enum {
    BY_RECORDED,
    BY_OVERHEAD,
    BY_ALLOCATOR,
    BY_PINNING,
    BY_DISK,
    BY_PAGES,
    BY_INSIDE,
    BY_STEPS,
    BY_ICI,
    BY_HBM,
    BY_VECTOR_PORT,
    BY_MATRIX,
    BY_VECTOR,
    N_OTHERS
} Other;

struct EchBounds {
    const EchReport *report;
    GPtrArray *names; /* of all resources, then of Other, then NULL */
    EchKernelInside *insides;
};

static char *port_name(const EchDevice *device, EchMemoryKind kind, const char *usual)
{
    const EchMemory *memory = ech_device_memory_kind(device, kind);
    return g_strdup_printf("%s port", memory ? memory->name : usual);
}

static char *unit_name(const EchDevice *device, EchUnitKind kind, const char *usual)
{
    const EchUnit *unit = ech_device_unit(device, kind);
    return g_strdup_printf("%s unit", unit ? unit->name : usual);
}

EchBounds *ech_report_bounds_new(const EchReport *report)
{
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
    for (uint32_t i = 0; i < report->run->n_resources; i++)
        g_ptr_array_add(names, ech_report_resource_name(report, i));
    char *others[N_OTHERS] = {
        /* What a kernel's grid costs besides its blocks is all that such a workload has recorded. */
        [BY_RECORDED] = g_strdup(strcmp(ech_trace_format(report->trace), "matmul") == 0 ? "grid steps" : "recorded kernel times"),
        [BY_OVERHEAD] = g_strdup("overhead"),
        [BY_ALLOCATOR] = g_strdup("allocator"),
        [BY_PINNING] = g_strdup("pinning memory"),
        [BY_DISK] = g_strdup("the host's files"),
        [BY_PAGES] = g_strdup("unified memory's pages"),
        [BY_INSIDE] = g_strdup("latency inside kernels"),
        [BY_STEPS] = g_strdup("grid steps"),
        [BY_ICI] = g_strdup_printf("ici link %s", ech_report_link_way(true, 0)),
        [BY_HBM] = port_name(report->device, ECH_MEM_HBM, "hbm"),
        [BY_VECTOR_PORT] = port_name(report->device, ECH_MEM_VECTOR, "vector"),
        [BY_MATRIX] = unit_name(report->device, ECH_UNIT_MATRIX, "matrix"),
        [BY_VECTOR] = unit_name(report->device, ECH_UNIT_VECTOR, "vector"),
    };
    for (unsigned i = 0; i < N_OTHERS; i++)
        g_ptr_array_add(names, others[i]);
    g_ptr_array_add(names, NULL);
    EchBounds *bounds = g_new(EchBounds, 1);
    *bounds = (EchBounds){.report = report, .names = names, .insides = ech_report_kernel_insides(report)};
    return bounds;
}

void ech_bounds_free(EchBounds *bounds)
{
    if (!bounds)
        return;
    g_ptr_array_unref(bounds->names);
    g_free(bounds->insides);
    g_free(bounds);
}

const char *const *ech_bounds_words(const EchBounds *bounds)
{
    return (const char *const *)(void *)bounds->names->pdata;
}

static uint32_t bound_of(const EchReport *report, const EchSpan *span)
{
    const EchRun *run = report->run;
    if (span->resource < run->n_resources)
        return span->resource;
    const EchPrice *price = span->op < run->n_prices ? &run->prices[span->op] : NULL;
    EchPriceSource source = price ? (EchPriceSource)price->source : ECH_PRICE_FREE;
    EchOpKind kind = (EchOpKind)ech_trace_ops(report->trace)[span->op].kind;
    bool modelled = source == ECH_PRICE_MODEL || source == ECH_PRICE_CODE || source == ECH_PRICE_ESTIMATE || source == ECH_PRICE_ESTIMATE_SCALED;
    bool inside = kind == ECH_OP_KERNEL && (modelled || (source == ECH_PRICE_ROOFLINE && price->minimum > 0));
    Other other = source == ECH_PRICE_RECORDED || source == ECH_PRICE_RECORDED_SCALED ? BY_RECORDED
                  : kind == ECH_OP_ALLOC || kind == ECH_OP_FREE                       ? BY_ALLOCATOR
                  : source == ECH_PRICE_PIN                                           ? BY_PINNING
                  : source == ECH_PRICE_FILE                                          ? BY_DISK
                  : inside                                                            ? BY_INSIDE
                                                                                      : BY_OVERHEAD;
    return (uint32_t)run->n_resources + other;
}

/* What of a span no resource bounds: all of a kernel's fixed time; of a copy's what did not hide behind the copy before. */
static EchTime fixed_time(const EchRun *run, const EchSpan *span)
{
    const EchPrice *price = span->op < run->n_prices ? &run->prices[span->op] : NULL;
    if (!price || span->resource >= run->n_resources)
        return 0;
    EchTime length = span->end - span->start - span->waits[ECH_WAIT_PAGES], work = price->alone - price->fixed;
    return price->link == ECH_NONE && price->source != ECH_PRICE_PORT ? MIN(price->fixed, length) : CLAMP(length - work, 0, price->fixed);
}

/* A piece of an operation on the path, and what bounded it: a resource, or n_resources + Other. */
typedef struct {
    EchTime start, end;
    uint32_t bound;
} Segment;
enum { MOST_SEGMENTS = ECH_N_STALLS + 2 };

/* The pieces of @span as far as it lies before @limit, last first. What the kernel model knows the inside of is split by that; what contention added to it, and
 * everything else, is one resource's but for launches, set-ups and latencies, which come first. */
static size_t split(const EchBounds *bounds, const EchSpan *span, EchTime limit, Segment *ret)
{
    const EchReport *report = bounds->report;
    const EchKernelInside *inside = bounds->insides && span->op < report->run->n_prices ? &bounds->insides[span->op] : NULL;
    uint32_t others = (uint32_t)report->run->n_resources, bound = bound_of(report, span);
    EchTime begin = MIN(span->start, limit), end = MIN(span->end, limit), start = begin + MIN(span->waits[ECH_WAIT_PAGES], end - begin);
    if (!inside || ech_stalls_total(&inside->stalls) == 0) {
        EchTime middle = start + MIN(fixed_time(report->run, span), end - start);
        ret[0] = (Segment){middle, end, bound};
        ret[1] = (Segment){start, middle, others + BY_OVERHEAD};
        ret[2] = (Segment){begin, start, others + BY_PAGES};
        return 3;
    }
    const uint32_t of[ECH_N_STALLS] = {
        [ECH_STALL_COMPUTE] = others + (inside->by_vector ? BY_VECTOR : BY_MATRIX),
        [ECH_STALL_HBM] = others + BY_HBM,
        [ECH_STALL_SPACE] = others + BY_HBM,
        [ECH_STALL_PORT] = others + BY_VECTOR_PORT,
        [ECH_STALL_LATENCY] = others + BY_INSIDE,
        [ECH_STALL_FILL] = others + BY_OVERHEAD,
        [ECH_STALL_OVERHEAD] = others + BY_STEPS,
        [ECH_STALL_LINK] = others + BY_ICI,
    };
    EchTime alone = MIN(end - start, report->run->prices[span->op].alone);
    EchStalls stalls = {{0}};
    ech_stalls_add(&stalls, &inside->stalls, alone);
    size_t n = 0;
    ret[n++] = (Segment){start + alone, end, bound};
    for (unsigned i = 0; i < ECH_N_STALLS; i++) {
        EchTime until = ret[n - 1].start;
        ret[n] = (Segment){until - stalls.at[i], until, of[i]};
        n++;
    }
    ret[n++] = (Segment){begin, start, others + BY_PAGES};
    return n;
}

int ech_bounds_of(const EchBounds *bounds, const EchSpan *span)
{
    if (span->op >= bounds->report->run->n_prices)
        return -1;
    Segment segments[MOST_SEGMENTS];
    size_t n = split(bounds, span, span->end, segments);
    const char *const *words = ech_bounds_words(bounds);
    EchTime longest = 0;
    int best = -1;
    for (size_t i = 0; i < n; i++) {
        EchTime length = 0;
        for (size_t k = 0; k < n; k++)
            length += strcmp(words[segments[k].bound], words[segments[i].bound]) == 0 ? segments[k].end - segments[k].start : 0;
        if (length > longest) {
            longest = length;
            best = (int)segments[i].bound;
        }
    }
    return best;
}

/* Index of the share of that name, made where there is none; names are few. */
static EchShare *share_of(GArray *shares, const char *name)
{
    for (guint i = 0; i < shares->len; i++) {
        EchShare *share = &g_array_index(shares, EchShare, i);
        if (strcmp(share->name, name) == 0)
            return share;
    }
    EchShare share = {g_strdup(name), 0};
    g_array_append_val(shares, share);
    return &g_array_index(shares, EchShare, shares->len - 1);
}

static bool depends_on(const EchTrace *trace, EchId op, EchId on)
{
    const EchOp *o = &ech_trace_ops(trace)[op];
    for (uint32_t i = 0; i < o->n_deps; i++) {
        if (ech_trace_deps(trace)[o->first_dep + i].op == on)
            return true;
    }
    return false;
}

/* The span that let @span start: of those that ended last before it, one it depends on, else one of its queue, else the last. */
static size_t span_before(const EchReport *report, size_t limit, EchTime time, const EchSpan *span)
{
    const EchSpan *spans = report->run->spans;
    size_t low = 0, high = limit;
    ECH_SEARCH(low, high, middle, spans[middle].end <= time);
    if (low == 0)
        return SIZE_MAX;
    size_t best = low - 1;
    int best_rank = -1;
    for (size_t i = low; i-- > 0 && spans[i].end == spans[low - 1].end && low - i < 64;) {
        bool instant = spans[i].start == spans[i].end && spans[i].waits[ECH_WAIT_PEERS] == 0;
        int rank = instant ? 0 : depends_on(report->trace, span->op, spans[i].op) ? 3 : spans[i].queue == span->queue ? 2 : 1;
        if (rank > best_rank) {
            best = i;
            best_rank = rank;
        }
    }
    return best;
}

/* What of the path lies in each skip of the run, which come in the order of their times. */
typedef struct {
    EchTime *times; /* times[n_skips] */
    EchTime *until; /* until[n_skips]: when it and all before it are over; a skip's period is rounded, so that it may end within the next */
} Skipped;

static EchTime end_of(const EchSkip *skip)
{
    return ech_time_add(skip->time, skip->period * (EchTime)skip->count);
}

/* Adds [from, to) in which no span is on the path: skipped iterations repeat what came before them; the rest is idle. */
static void add_gap(const EchRun *run, EchTime from, EchTime to, const Skipped *skipped, GArray *shares)
{
    EchTime left = to - from;
    size_t low = 0, high = run->n_skips;
    ECH_SEARCH(low, high, middle, skipped->until[middle] <= from);
    for (size_t i = low; i < run->n_skips && run->skips[i].time < to && left > 0; i++) {
        EchTime begin = MAX(from, run->skips[i].time), end = MIN(to, end_of(&run->skips[i]));
        if (end > begin) {
            skipped->times[i] += end - begin;
            left -= end - begin;
        }
    }
    EchTime between = MIN(left, run->kernel_gap);
    if (between > 0)
        share_of(shares, "overhead")->time += between;
    left -= MAX(between, 0);
    if (left > 0)
        share_of(shares, run->host_launch > 0 ? ECH_BOUND_HOST : run->waits[ECH_WAIT_HOST] > 0 ? "the host, as recorded" : "idle")->time += left;
}

static int compare_shares(const void *a, const void *b)
{
    const EchShare *x = a, *y = b;
    return x->time != y->time ? (x->time < y->time ? 1 : -1) : strcmp(x->name, y->name);
}

EchShare *ech_report_critical_path(const EchReport *report, size_t *ret_n)
{
    const EchRun *run = report->run;
    g_autoptr(EchBounds) bounds = ech_report_bounds_new(report);
    const char *const *names = ech_bounds_words(bounds);
    g_autoptr(GArray) shares = g_array_new(FALSE, FALSE, sizeof(EchShare));
    g_autofree EchTime *times = g_new0(EchTime, run->n_skips + 1), *until = g_new0(EchTime, run->n_skips + 1);
    const Skipped skipped = {times, until};
    for (size_t i = 0; i < run->n_skips; i++)
        until[i] = MAX(i > 0 ? until[i - 1] : 0, end_of(&run->skips[i]));
    g_autoptr(GArray) path = g_array_new(FALSE, FALSE, sizeof(Segment)); /* to find what a skipped stretch repeats */
    size_t at = run->n_spans ? run->n_spans - 1 : SIZE_MAX;
    EchTime time = run->makespan;
    while (at != SIZE_MAX && time > 0) {
        const EchSpan *span = &run->spans[at];
        if (span->end < time)
            add_gap(run, span->end, time, &skipped, shares);
        Segment segments[MOST_SEGMENTS];
        size_t n = split(bounds, span, time, segments);
        for (size_t i = 0; i < n; i++) {
            if (segments[i].end == segments[i].start)
                continue;
            share_of(shares, names[segments[i].bound])->time += segments[i].end - segments[i].start;
            g_array_append_val(path, segments[i]);
        }
        time = MIN(span->start, time);
        EchTime waited = MIN(span->waits[ECH_WAIT_PEERS], time);
        if (waited > 0) /* another rank let it start */
            share_of(shares, "waiting for other devices")->time += waited;
        time -= waited;
        at = span_before(report, at, time, span);
    }
    if (time > 0)
        add_gap(run, 0, time, &skipped, shares);
    /* The path lies there from its end to its begin. */
    for (size_t i = 0; i < run->n_skips; i++) {
        if (times[i] == 0)
            continue;
        const EchSkip *skip = &run->skips[i];
        EchTime begin = MAX(skip->time - skip->period, 0), covered = 0;
        guint low = 0, high = path->len;
        ECH_SEARCH(low, high, middle, g_array_index(path, Segment, middle).start >= skip->time);
        for (guint j = low; j < path->len && g_array_index(path, Segment, j).end > begin; j++) {
            const Segment *s = &g_array_index(path, Segment, j);
            EchTime a = MAX(s->start, begin), b = MIN(s->end, skip->time);
            EchTime part = (EchTime)((double)times[i] * (double)(b - a) / (double)MAX(skip->period, 1));
            part = MIN(part, times[i] - covered);
            share_of(shares, names[s->bound])->time += part;
            covered += part;
        }
        if (covered < times[i])
            share_of(shares, "idle")->time += times[i] - covered;
    }
    g_array_sort(shares, compare_shares);
    *ret_n = shares->len;
    return (EchShare *)(void *)g_array_steal(shares, NULL);
}

void ech_shares_free(EchShare *shares, size_t n)
{
    for (size_t i = 0; i < n; i++)
        g_free(shares[i].name);
    g_free(shares);
}
