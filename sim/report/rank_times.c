#include "sim/report/rank_times.h"

#include "sim/base/compare.h"
#include "sim/base/hash.h"
#include "sim/report/steps.h"
#include "sim/trace/select.h"

#include <string.h>

const char *ech_rank_state_name(EchRankState state)
{
    static const char *const names[] = {"kernels", "communication", "waits", "idle"};
    return names[state];
}

void ech_ranks_free(EchRanks *ranks)
{
    if (!ranks)
        return;
    for (size_t i = 0; i < ranks->n; i++)
        g_free(ranks->ranks[i].stretches);
    g_free(ranks->ranks);
    g_free(ranks->waits);
    g_free(ranks);
}

/* ---- what a rank does ---- */

/* Something begins, or ends. */
typedef struct {
    EchTime time;
    uint32_t span;
    int8_t state, change;
} Turn;

static int by_time(const void *a, const void *b)
{
    const Turn *x = a, *y = b;
    return (x->time > y->time) - (x->time < y->time);
}

static void add_turns(GArray *turns, EchRankState state, uint32_t span, EchTime start, EchTime end)
{
    if (start >= end)
        return;
    const Turn pair[] = {{start, span, (int8_t)state, 1}, {end, span, (int8_t)state, -1}};
    g_array_append_vals(turns, pair, 2);
}

/* Of the waits that go on, the one that ends first. */
static uint32_t next_to_end(const EchRun *run, const GArray *open)
{
    uint32_t best = g_array_index(open, uint32_t, 0);
    for (guint i = 1; i < open->len; i++) {
        uint32_t other = g_array_index(open, uint32_t, i);
        if (run->spans[other].start < run->spans[best].start)
            best = other;
    }
    return best;
}

static void append_stretch(GArray *stretches, EchRankStretch stretch)
{
    EchRankStretch *last = stretches->len > 0 ? &g_array_index(stretches, EchRankStretch, stretches->len - 1) : NULL;
    if (last && last->state == stretch.state && last->span == stretch.span)
        last->end = stretch.end;
    else if (stretch.start < stretch.end)
        g_array_append_val(stretches, stretch);
}

static void turn(const Turn *turn, int *now, GArray *waits)
{
    now[turn->state] += turn->change;
    if (turn->state != ECH_RANK_WAITS)
        return;
    if (turn->change > 0) {
        g_array_append_val(waits, turn->span);
        return;
    }
    for (guint i = 0; i < waits->len; i++)
        if (g_array_index(waits, uint32_t, i) == turn->span) {
            g_array_remove_index(waits, i);
            return;
        }
}

/* A host works for itself beside its device. */
static bool is_of_host(const EchReport *report, const EchSpan *span)
{
    return span->queue < ech_trace_n_queues(report->trace) && ech_trace_queues(report->trace)[span->queue].kind == ECH_QUEUE_HOST;
}

static void find_stretches(const EchReport *report, EchRankTimes *ret)
{
    const EchOp *ops = ech_trace_ops(report->trace);
    const EchRun *run = report->run;
    g_autoptr(GArray) turns = g_array_new(FALSE, FALSE, sizeof(Turn)), waits = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (uint32_t s = 0; s < run->n_spans; s++) {
        const EchSpan *span = &run->spans[s];
        EchOpKind kind = (EchOpKind)ops[span->op].kind;
        if (kind == ECH_OP_COLLECTIVE || ech_trace_copy_between(report->trace, &ops[span->op]))
            add_turns(turns, ECH_RANK_COMMUNICATION, s, span->start, span->end);
        else if ((kind == ECH_OP_KERNEL || kind == ECH_OP_COPY) && !is_of_host(report, span))
            add_turns(turns, ECH_RANK_KERNELS, s, span->start, span->end);
        add_turns(turns, ECH_RANK_WAITS, s, span->start - span->waits[ECH_WAIT_PEERS], span->start);
    }
    g_array_sort(turns, by_time);
    GArray *stretches = g_array_new(FALSE, FALSE, sizeof(EchRankStretch));
    int now[ECH_N_RANK_STATES] = {0};
    EchTime before = 0;
    for (guint i = 0; i <= turns->len; i++) {
        const Turn *at = i < turns->len ? &g_array_index(turns, Turn, i) : NULL;
        EchTime time = at ? MIN(at->time, run->makespan) : run->makespan;
        EchRankStretch stretch = {.start = before, .end = time, .span = ECH_NONE};
        while (stretch.state < ECH_RANK_IDLE && now[stretch.state] == 0)
            stretch.state++;
        if (stretch.state == ECH_RANK_WAITS)
            stretch.span = next_to_end(run, waits);
        if (time > before)
            append_stretch(stretches, stretch);
        before = MAX(before, time);
        if (at)
            turn(at, now, waits);
    }
    ret->n_stretches = stretches->len;
    ret->stretches = (EchRankStretch *)(void *)g_array_free(stretches, FALSE);
}

/* The first stretch that ends after @time. */
static size_t stretch_at(const EchRankTimes *rank, EchTime time)
{
    size_t low = 0, high = rank->n_stretches;
    ECH_SEARCH(low, high, middle, rank->stretches[middle].end <= time);
    return low;
}

static void sum_times(const EchRankTimes *rank, EchTime from, EchTime to, EchTime *sums)
{
    for (size_t i = stretch_at(rank, from); i < rank->n_stretches && rank->stretches[i].start < to; i++)
        sums[rank->stretches[i].state] += MIN(rank->stretches[i].end, to) - MAX(rank->stretches[i].start, from);
}

static void find_step(const EchReport *reports, EchRanks *ret)
{
    g_autoptr(GPtrArray) all = g_ptr_array_new_with_free_func(g_free);
    ret->of = SIZE_MAX;
    for (size_t i = 0; i < ret->n; i++) {
        size_t count;
        g_ptr_array_add(all, ech_report_steps(&reports[i], &count));
        ret->of = MIN(ret->of, count);
    }
    ret->which = ret->of / 2;
    for (size_t i = 0; i < ret->n; i++) {
        const EchStep *steps = all->pdata[i];
        EchRankTimes *rank = &ret->ranks[i];
        rank->start = ret->of > 0 ? steps[ret->which].start : 0;
        rank->end = ret->of > 0 ? steps[ret->which].end : reports[i].run->makespan;
        sum_times(rank, rank->start, rank->end, rank->times);
        rank->times[ECH_RANK_IDLE] += rank->end - rank->start - rank->times[0] - rank->times[1] - rank->times[2] - rank->times[3];
    }
}

/* ---- who waits for whom ---- */

/* What one rank waited for another, as it is added up. */
typedef struct {
    EchRankWait wait;
    GHashTable *names; /* name -> EchTime */
} Pair;

static void pair_free(gpointer data)
{
    Pair *pair = data;
    g_hash_table_unref(pair->names);
    g_free(pair);
}

static int by_length(const void *a, const void *b)
{
    const EchRankWait *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? 1 : -1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (x->awaited > y->awaited) - (x->awaited < y->awaited);
}

static size_t place_of(const EchRanks *ranks, uint32_t number)
{
    for (size_t i = 0; i < ranks->n; i++)
        if (ranks->ranks[i].number == number)
            return i;
    return ranks->n;
}

static EchTime *time_of_name(GHashTable *names, const char *name)
{
    EchTime *time = g_hash_table_lookup(names, name);
    if (!time) {
        time = g_new0(EchTime, 1);
        g_hash_table_insert(names, (gpointer)(uintptr_t)name, time);
    }
    return time;
}

static void add_wait(EchRanks *ranks, Pair **pairs, size_t at, const EchRankStretch *stretch, uint8_t *seen)
{
    const EchRankTimes *rank = &ranks->ranks[at];
    const EchSpan *span = &ranks->reports[at].run->spans[stretch->span];
    EchTime from = MAX(stretch->start, rank->start), to = MIN(stretch->end, rank->end);
    size_t awaited = place_of(ranks, span->awaited);
    if (from >= to || awaited == ranks->n)
        return;
    if (!pairs[awaited]) {
        pairs[awaited] = g_new0(Pair, 1);
        pairs[awaited]->wait = (EchRankWait){.rank = (uint32_t)at, .awaited = (uint32_t)awaited};
        pairs[awaited]->names = g_hash_table_new_full(ech_hash_text, g_str_equal, NULL, g_free);
    }
    EchRankWait *wait = &pairs[awaited]->wait;
    wait->time += to - from;
    wait->times += !seen[stretch->span];
    seen[stretch->span] = 1;
    sum_times(&ranks->ranks[awaited], from, to, wait->meanwhile);
    const EchTrace *trace = ranks->reports[at].trace;
    const char *name = ech_trace_string(trace, ech_trace_ops(trace)[span->op].name);
    EchTime *time = time_of_name(pairs[awaited]->names, name);
    *time += to - from;
    if (*time > wait->at_time) {
        wait->at = name;
        wait->at_time = *time;
    }
}

static void find_waits(EchRanks *ranks)
{
    g_autoptr(GArray) all = g_array_new(FALSE, FALSE, sizeof(EchRankWait));
    for (size_t i = 0; i < ranks->n; i++) {
        const EchRankTimes *rank = &ranks->ranks[i];
        g_autofree Pair **pairs = g_new0(Pair *, ranks->n);
        g_autofree uint8_t *seen = g_new0(uint8_t, ranks->reports[i].run->n_spans + 1);
        for (size_t s = stretch_at(rank, rank->start); s < rank->n_stretches && rank->stretches[s].start < rank->end; s++)
            if (rank->stretches[s].state == ECH_RANK_WAITS)
                add_wait(ranks, pairs, i, &rank->stretches[s], seen);
        for (size_t k = 0; k < ranks->n; k++)
            if (pairs[k]) {
                g_array_append_val(all, pairs[k]->wait);
                pair_free(pairs[k]);
            }
    }
    g_array_sort(all, by_length);
    ranks->n_waits = all->len;
    ranks->waits = (EchRankWait *)(void *)g_array_free(g_steal_pointer(&all), FALSE);
}

EchRanks *ech_ranks_new(const EchReport *reports, size_t n)
{
    EchRanks *ranks = g_new0(EchRanks, 1);
    ranks->reports = reports;
    ranks->n = n;
    ranks->share = n > 0 ? reports[0].run->share : ECH_SHARE_NONE;
    ranks->devices = n > 0 && ech_trace_get_property(reports[0].trace, ECH_TRACE_TOGETHER) != NULL;
    ranks->processes = ranks->devices && ech_trace_get_property(reports[0].trace, ECH_TRACE_PROCESSES) != NULL;
    ranks->ranks = g_new0(EchRankTimes, n);
    for (size_t i = 0; i < n; i++) {
        ranks->ranks[i].number = ech_trace_number(reports[i].trace, i);
        find_stretches(&reports[i], &ranks->ranks[i]);
    }
    find_step(reports, ranks);
    find_waits(ranks);
    return ranks;
}

/* ---- whom they wait for longest ---- */

/* Time of a rank's kernels in the step by name. */
static GHashTable *kernel_times(const EchRanks *ranks, size_t i)
{
    const EchReport *report = &ranks->reports[i];
    const EchRankTimes *rank = &ranks->ranks[i];
    GHashTable *names = g_hash_table_new_full(ech_hash_text, g_str_equal, NULL, g_free);
    for (size_t s = 0; s < report->run->n_spans; s++) {
        const EchSpan *span = &report->run->spans[s];
        const EchOp *op = &ech_trace_ops(report->trace)[span->op];
        EchTime from = MAX(span->start, rank->start), to = MIN(span->end, rank->end);
        if (op->kind == ECH_OP_KERNEL && !is_of_host(report, span) && from < to)
            *time_of_name(names, ech_trace_string(report->trace, op->name)) += to - from;
    }
    return names;
}

static int by_kernels(const void *a, const void *b, void *user)
{
    const EchRanks *ranks = user;
    EchTime x = ranks->ranks[*(const size_t *)a].times[ECH_RANK_KERNELS], y = ranks->ranks[*(const size_t *)b].times[ECH_RANK_KERNELS];
    return (x > y) - (x < y);
}

bool ech_ranks_slowest(const EchRanks *ranks, EchRankSlowest *ret)
{
    if (ranks->n_waits == 0 || ranks->n < 2)
        return false;
    g_autofree EchTime *waited = g_new0(EchTime, ranks->n);
    for (size_t i = 0; i < ranks->n_waits; i++)
        waited[ranks->waits[i].awaited] += ranks->waits[i].time;
    EchRankSlowest slowest = {0};
    for (size_t i = 0; i < ranks->n; i++)
        if (waited[i] > waited[slowest.rank])
            slowest.rank = i;
    slowest.waited = waited[slowest.rank];
    g_autofree size_t *others = g_new(size_t, ranks->n);
    size_t n = 0;
    for (size_t i = 0; i < ranks->n; i++)
        if (i != slowest.rank)
            others[n++] = i;
    g_qsort_with_data(others, (gint)n, sizeof *others, by_kernels, (gpointer)(uintptr_t)ranks);
    size_t middle = others[(n - 1) / 2];
    slowest.own = ranks->ranks[slowest.rank].times[ECH_RANK_KERNELS];
    slowest.others = ranks->ranks[middle].times[ECH_RANK_KERNELS];
    g_autoptr(GHashTable) own = kernel_times(ranks, slowest.rank), theirs = kernel_times(ranks, middle);
    GHashTableIter iter;
    gpointer name, time;
    g_hash_table_iter_init(&iter, own);
    while (g_hash_table_iter_next(&iter, &name, &time)) {
        const EchTime *other = g_hash_table_lookup(theirs, name);
        EchTime more = *(const EchTime *)time - (other ? *other : 0), most = slowest.name_own - slowest.name_others;
        if (more > most || (more == most && slowest.name && strcmp(name, slowest.name) < 0)) {
            slowest.name = name;
            slowest.name_own = *(const EchTime *)time;
            slowest.name_others = other ? *other : 0;
        }
    }
    *ret = slowest;
    return true;
}
