/* Where a run stands still for copies and collectives. */
#include "sim/report/transfer_waits.h"

#include "sim/base/compare.h"
#include "sim/base/hash.h"
#include "sim/report/json_out.h"
#include "sim/report/text.h"

#include <string.h>

typedef struct {
    EchTime start, end;
} Stretch;

/* A queue of kernels standing still, or the host that asks for them. */
typedef struct {
    Stretch at;
    size_t span;     /* What waited, or the transfer itself where it is in the queue. */
    size_t transfer; /* Its span. */
} Wait;

typedef struct {
    const EchReport *report;
    const EchOp *ops;
    bool *computes;   /* computes[queue]: it has kernels. */
    bool *asks;       /* asks[queue]: the host's, whose waits keep it from asking for kernels. */
    EchId *before;    /* before[op]: the one before it in its queue, or ECH_NONE. */
    EchId *kernel;    /* kernel[op]: the next kernel of its queue, of the host's the next of any, or ECH_NONE. */
    size_t *first_of; /* spans_of[first_of[op] .. first_of[op + 1]): spans of an op, in order of end. */
    size_t *spans_of;
    GArray *kernels; /* Stretches in which at least one kernel runs, disjoint, ascending. */
    EchTime *ran;    /* ran[i]: the length of kernels[0 .. i) together. */
} Finder;

static bool is_transfer(const EchOp *op)
{
    return op->kind == ECH_OP_COPY || op->kind == ECH_OP_COLLECTIVE;
}

static int compare_stretches(const void *a, const void *b)
{
    const Stretch *x = a, *y = b;
    return x->start != y->start ? (x->start < y->start ? -1 : 1) : x->end < y->end ? -1 : x->end > y->end;
}

static void find_kernels(Finder *finder)
{
    const EchRun *run = finder->report->run;
    g_autoptr(GArray) all = g_array_new(FALSE, FALSE, sizeof(Stretch));
    for (size_t i = 0; i < run->n_spans; i++) {
        Stretch stretch = {run->spans[i].start, run->spans[i].end};
        if (finder->ops[run->spans[i].op].kind == ECH_OP_KERNEL && stretch.end > stretch.start)
            g_array_append_val(all, stretch);
    }
    g_array_sort(all, compare_stretches);
    finder->kernels = g_array_new(FALSE, FALSE, sizeof(Stretch));
    for (guint i = 0; i < all->len; i++) {
        Stretch stretch = g_array_index(all, Stretch, i);
        Stretch *last = finder->kernels->len ? &g_array_index(finder->kernels, Stretch, finder->kernels->len - 1) : NULL;
        if (last && stretch.start <= last->end)
            last->end = MAX(last->end, stretch.end);
        else
            g_array_append_val(finder->kernels, stretch);
    }
    finder->ran = g_new0(EchTime, finder->kernels->len + 1);
    for (guint i = 0; i < finder->kernels->len; i++) {
        const Stretch *stretch = &g_array_index(finder->kernels, Stretch, i);
        finder->ran[i + 1] = finder->ran[i] + (stretch->end - stretch->start);
    }
}

/* How long of [0, time) at least one kernel ran. */
static EchTime kernels_until(const Finder *finder, EchTime time)
{
    size_t low = 0, high = finder->kernels->len;
    ECH_SEARCH(low, high, middle, g_array_index(finder->kernels, Stretch, middle).start < time);
    if (low == 0)
        return 0;
    const Stretch *last = &g_array_index(finder->kernels, Stretch, low - 1);
    return finder->ran[low - 1] + MIN(last->end, time) - last->start;
}

static EchTime idle_in(const Finder *finder, EchTime start, EchTime end)
{
    return end > start ? end - start - (kernels_until(finder, end) - kernels_until(finder, start)) : 0;
}

static void finder_init(Finder *finder, const EchReport *report)
{
    const EchTrace *trace = report->trace;
    const EchRun *run = report->run;
    size_t n = ech_trace_n_ops(trace), n_queues = ech_trace_n_queues(trace);
    *finder = (Finder){.report = report, .ops = ech_trace_ops(trace)};
    finder->computes = g_new0(bool, n_queues + 1);
    finder->asks = g_new0(bool, n_queues + 1);
    for (size_t i = 0; i < n_queues; i++)
        finder->asks[i] = run->host_launch > 0 && ech_trace_queues(trace)[i].kind == ECH_QUEUE_HOST;
    finder->before = g_new(EchId, n + 1);
    g_autofree EchId *last = g_new(EchId, n_queues + 1);
    for (size_t i = 0; i <= n_queues; i++)
        last[i] = ECH_NONE;
    for (size_t i = 0; i < n; i++) {
        EchId queue = finder->ops[i].queue;
        finder->before[i] = ECH_NONE;
        if (queue >= n_queues)
            continue;
        finder->before[i] = last[queue];
        last[queue] = (EchId)i;
        finder->computes[queue] |= finder->ops[i].kind == ECH_OP_KERNEL;
    }
    finder->kernel = g_new(EchId, n + 1);
    for (size_t i = 0; i <= n_queues; i++)
        last[i] = ECH_NONE;
    EchId next = ECH_NONE; /* of any queue but the host's */
    for (size_t i = n; i-- > 0;) {
        EchId queue = finder->ops[i].queue;
        finder->kernel[i] = queue >= n_queues ? ECH_NONE : finder->asks[queue] ? next : last[queue];
        if (queue >= n_queues || finder->ops[i].kind != ECH_OP_KERNEL)
            continue;
        last[queue] = (EchId)i;
        next = finder->asks[queue] ? next : (EchId)i;
    }
    finder->first_of = g_new0(size_t, n + 2);
    for (size_t i = 0; i < run->n_spans; i++)
        finder->first_of[run->spans[i].op + 2]++;
    for (size_t i = 2; i < n + 2; i++)
        finder->first_of[i] += finder->first_of[i - 1];
    finder->spans_of = g_new(size_t, run->n_spans + 1);
    for (size_t i = 0; i < run->n_spans; i++)
        finder->spans_of[finder->first_of[run->spans[i].op + 1]++] = i;
    find_kernels(finder);
}

static void finder_clear(Finder *finder)
{
    g_free(finder->computes);
    g_free(finder->asks);
    g_free(finder->before);
    g_free(finder->kernel);
    g_free(finder->first_of);
    g_free(finder->spans_of);
    g_free(finder->ran);
    g_array_unref(finder->kernels);
}

/* The last span of @op that ended by @time, or SIZE_MAX. */
static size_t last_of(const Finder *finder, EchId op, EchTime time)
{
    const EchSpan *spans = finder->report->run->spans;
    size_t low = finder->first_of[op], high = finder->first_of[op + 1];
    ECH_SEARCH(low, high, middle, spans[finder->spans_of[middle]].end <= time);
    return low > finder->first_of[op] ? finder->spans_of[low - 1] : SIZE_MAX;
}

/* What @op waited for until @time: of all it depends on, directly or by way of what takes no time (events, waits), the span that ended last. */
static size_t awaited_by(const Finder *finder, EchId op, EchTime time)
{
    enum { MOST = 256 }; /* Events in a chain are few; a bound on what a strange trace costs. */
    const EchDep *deps = ech_trace_deps(finder->report->trace);
    const EchSpan *spans = finder->report->run->spans;
    EchId open[MOST];
    size_t n = 0, best = SIZE_MAX;
    const EchOp *waiter = &finder->ops[op];
    for (uint32_t i = 0; i < waiter->n_deps && n < MOST; i++)
        open[n++] = deps[waiter->first_dep + i].op;
    for (size_t at = 0; at < n; at++) {
        const EchOp *of = &finder->ops[open[at]];
        if (is_transfer(of) || of->kind == ECH_OP_KERNEL) {
            size_t span = last_of(finder, open[at], time);
            if (span != SIZE_MAX && (best == SIZE_MAX || spans[span].end > spans[best].end))
                best = span;
            continue;
        }
        for (uint32_t i = 0; i < of->n_deps && n < MOST; i++)
            open[n++] = deps[of->first_dep + i].op;
        if (finder->before[open[at]] != ECH_NONE && n < MOST)
            open[n++] = finder->before[open[at]];
    }
    return best;
}

/* Of the copies that ended with that of @span, one after the other in its queue, the one that @at was spent on most: a bias is asked for behind its weights. */
static size_t most_of(const Finder *finder, size_t span, Stretch at)
{
    const EchSpan *spans = finder->report->run->spans;
    size_t best = span;
    EchTime most = 0;
    for (EchId op = spans[span].op; op != ECH_NONE && finder->ops[op].kind == ECH_OP_COPY; op = finder->before[op]) {
        size_t one = last_of(finder, op, at.end);
        if (one == SIZE_MAX || spans[one].end <= at.start)
            break;
        EchTime time = spans[one].end - MAX(spans[one].start, at.start);
        if (time > most) {
            best = one;
            most = time;
        }
    }
    return best;
}

static GArray *find_waits(const Finder *finder)
{
    const EchRun *run = finder->report->run;
    GArray *waits = g_array_new(FALSE, FALSE, sizeof(Wait));
    for (size_t i = 0; i < run->n_spans; i++) {
        const EchSpan *span = &run->spans[i];
        const EchOp *op = &finder->ops[span->op];
        if (span->queue >= ech_trace_n_queues(finder->report->trace))
            continue;
        bool host_waits = finder->asks[span->queue] && op->kind == ECH_OP_WAIT; /* and asks for no kernel meanwhile */
        if (!finder->computes[span->queue] && !host_waits)
            continue;
        EchTime gap = run->host_launch > 0 ? 0 : span->waits[ECH_WAIT_HOST]; /* a recorded one follows what was depended on; launches come before it */
        EchTime released = span->start - gap - span->waits[ECH_WAIT_ALLOCATOR] - span->waits[ECH_WAIT_SPACE] - span->waits[ECH_WAIT_PEERS];
        Wait wait = {{released - span->waits[ECH_WAIT_DEPENDENCY], released}, i, SIZE_MAX};
        if (wait.at.end > wait.at.start && !is_transfer(op))
            wait.transfer = awaited_by(finder, span->op, released);
        if (wait.transfer != SIZE_MAX && is_transfer(&finder->ops[run->spans[wait.transfer].op])) {
            wait.transfer = most_of(finder, wait.transfer, wait.at);
            g_array_append_val(waits, wait);
        }
        if (is_transfer(op)) {
            wait = (Wait){{span->start, span->end}, i, i};
            g_array_append_val(waits, wait);
        }
    }
    return waits;
}

static int compare_ends(const void *a, const void *b)
{
    const Wait *x = a, *y = b;
    if (x->at.end != y->at.end)
        return x->at.end < y->at.end ? -1 : 1;
    return x->at.start != y->at.start ? (x->at.start > y->at.start ? -1 : 1) : x->span < y->span ? -1 : x->span > y->span;
}

static bool touches(const EchTrace *trace, const EchOp *op, EchId buffer, bool writes)
{
    const EchUse *uses = ech_trace_uses(trace);
    for (uint32_t i = 0; i < op->n_uses; i++)
        if (uses[op->first_use + i].buffer == buffer && (!writes || uses[op->first_use + i].access == ECH_WRITE))
            return true;
    return false;
}

/* The buffer that a transfer fills, or ECH_NONE. */
static EchId filled_by(const EchTrace *trace, const EchOp *transfer)
{
    const EchUse *uses = ech_trace_uses(trace);
    for (uint32_t i = 0; i < transfer->n_uses; i++)
        if (uses[transfer->first_use + i].access == ECH_WRITE)
            return uses[transfer->first_use + i].buffer;
    return ECH_NONE;
}

/* What @waited waits on behalf of: the first kernel soon after it that touches what the transfer fills, else the next one of its queue. ECH_NONE: the end. */
static EchId waits_for_whom(const Finder *finder, EchId waited, EchId transfer)
{
    enum { SOON = 1024 };
    const EchTrace *trace = finder->report->trace;
    if (finder->ops[waited].kind == ECH_OP_KERNEL)
        return waited;
    EchId filled = filled_by(trace, &finder->ops[transfer]);
    size_t end = filled == ECH_NONE ? 0 : MIN(ech_trace_n_ops(trace), (size_t)waited + SOON);
    for (size_t i = (size_t)waited + 1; i < end; i++)
        if (finder->ops[i].kind == ECH_OP_KERNEL && touches(trace, &finder->ops[i], filled, false))
            return (EchId)i;
    return finder->kernel[waited];
}

/* Where an operation comes from: the line of the program's source, the argument that is moved, PyTorch's operator. NULL where the trace does not tell. */
static char *place_of(const EchReport *report, const EchOp *op)
{
    const char *stack = ech_trace_string(report->trace, op->stack);
    size_t first = strcspn(stack, "\n");
    if (report->program || strstr(stack, ".py:")) {
        char *line = ech_report_source_line(stack);
        if (line)
            return line;
    }
    bool argument = report->program && is_transfer(op) && stack[first] == '\0', operator= g_strstr_len(stack, (gssize)first, "::") != NULL;
    return first > 0 && (argument || operator) && g_str_is_ascii(stack) ? g_strndup(stack, first) : NULL;
}

/* What waits share that are told as one: a recording has an operation for each time that something ran, under the same name, from the same place, with as
 * many bytes. @waiter may be ECH_NONE. @numbers: whether the numbers that names end in count. */
static char *likeness(const EchReport *report, EchId waiter, EchId transfer, bool numbers)
{
    const EchOp *ops = ech_trace_ops(report->trace), *moved = &ops[transfer];
    g_autofree char *from = waiter == ECH_NONE ? NULL : place_of(report, &ops[waiter]), *moved_from = place_of(report, moved);
    const char *name = waiter == ECH_NONE ? "" : ech_trace_string(report->trace, ops[waiter].name), *moved_name = ech_trace_string(report->trace, moved->name);
    return g_strdup_printf("%u %u %" G_GUINT64_FORMAT " %.*s\n%.*s\n%s\n%s", moved->memory_from, moved->memory_to, moved->bytes,
                           (int)(numbers ? strlen(name) : ech_report_stem(name)), name, (int)(numbers ? strlen(moved_name) : ech_report_stem(moved_name)),
                           moved_name, from ? from : "", moved_from ? moved_from : "");
}

/* What an operation waits for and with what it is told, as long as it waits for the same. */
typedef struct {
    EchId transfer, waiter;
    guint sum; /* Its place + 1; 0: none yet */
} Known;

/* Sums of waits that are alike; times are in @time, the rest is of the longest. */
typedef struct {
    EchId waiter, transfer;
    uint64_t count;
    size_t n_alike;
    EchTime time, longest;
    size_t span, of;
    Stretch at;
} Sum;

static int compare_sums(const void *a, const void *b)
{
    const Sum *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? 1 : -1;
    return x->waiter != y->waiter ? (x->waiter < y->waiter ? -1 : 1) : x->transfer < y->transfer ? -1 : x->transfer > y->transfer;
}

/* Time of @wait that neither a kernel nor an earlier wait has. @covered: stretches of earlier ones, disjoint, ascending. */
static EchTime own_time(const Finder *finder, const Wait *wait, GArray *covered)
{
    EchTime time = 0, until = wait->at.end, start = wait->at.start;
    while (covered->len > 0) {
        Stretch last = g_array_index(covered, Stretch, covered->len - 1);
        if (last.end < wait->at.start)
            break;
        time += idle_in(finder, last.end, until);
        until = MIN(until, last.start);
        start = MIN(start, last.start);
        g_array_set_size(covered, covered->len - 1);
    }
    time += idle_in(finder, wait->at.start, until);
    Stretch whole = {start, wait->at.end};
    g_array_append_val(covered, whole);
    return time;
}

static GArray *sum_waits(const Finder *finder, const GArray *waits, EchTime *ret_total)
{
    const EchRun *run = finder->report->run;
    g_autofree uint64_t *counts = ech_run_span_counts(run, finder->report->trace);
    GArray *sums = g_array_new(FALSE, FALSE, sizeof(Sum));
    g_autoptr(GHashTable) index = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL); /* likeness -> place + 1 */
    g_autoptr(GArray) covered = g_array_new(FALSE, FALSE, sizeof(Stretch));
    g_autofree Known *known = g_new0(Known, ech_trace_n_ops(finder->report->trace) + 1);
    for (guint i = 0; i < waits->len; i++) {
        const Wait *wait = &g_array_index(waits, Wait, i);
        EchTime time = own_time(finder, wait, covered);
        if (time <= 0)
            continue;
        EchId waited = run->spans[wait->span].op, transfer = run->spans[wait->transfer].op;
        Known *one = &known[waited];
        if (one->sum == 0 || one->transfer != transfer) {
            *one = (Known){.transfer = transfer, .waiter = waits_for_whom(finder, waited, transfer)};
            g_autofree char *like = likeness(finder->report, one->waiter, transfer, true);
            one->sum = GPOINTER_TO_UINT(g_hash_table_lookup(index, like));
            if (one->sum == 0) {
                Sum none = {.n_alike = 1};
                g_array_append_val(sums, none);
                one->sum = sums->len;
                g_hash_table_insert(index, g_steal_pointer(&like), GUINT_TO_POINTER(one->sum));
            }
        }
        Sum *sum = &g_array_index(sums, Sum, one->sum - 1);
        EchTime all = (EchTime)MIN(ech_bytes_mul((uint64_t)time, counts[wait->span]), (uint64_t)ECH_TIME_MAX);
        sum->count += counts[wait->span];
        sum->time = ech_time_add(sum->time, all);
        *ret_total = ech_time_add(*ret_total, all);
        if (time > sum->longest) {
            sum->longest = time;
            sum->waiter = one->waiter;
            sum->transfer = transfer;
            sum->span = wait->span;
            sum->of = wait->transfer;
            sum->at = wait->at;
        }
    }
    g_array_sort(sums, compare_sums);
    return sums;
}

/* Those of an unrolled program's layers together, where there are more than anybody reads: names that differ in the number they end in alone. */
static void join_numbered(const EchReport *report, GArray *sums)
{
    enum { READ = 12 };
    guint used = 0;
    if (sums->len <= READ)
        return;
    g_autoptr(GHashTable) index = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL); /* likeness -> place + 1 */
    for (guint i = 0; i < sums->len; i++) {
        Sum sum = g_array_index(sums, Sum, i);
        g_autofree char *like = likeness(report, sum.waiter, sum.transfer, false);
        guint at = GPOINTER_TO_UINT(g_hash_table_lookup(index, like));
        if (at == 0) {
            g_array_index(sums, Sum, used++) = sum;
            g_hash_table_insert(index, g_steal_pointer(&like), GUINT_TO_POINTER(used));
            continue;
        }
        Sum *joined = &g_array_index(sums, Sum, at - 1), one = *joined;
        if (sum.longest > one.longest)
            *joined = sum;
        joined->time = ech_time_add(one.time, sum.time);
        joined->count = one.count + sum.count;
        joined->n_alike = one.n_alike + sum.n_alike;
    }
    g_array_set_size(sums, used);
    g_array_sort(sums, compare_sums);
}

/* How long others of its queue or link were before a transfer that could have begun, by what the replay says of one that depends on something. */
static EchTime stood_behind(const EchRun *run, const EchSpan *transfer)
{
    EchTime alone = transfer->op < run->n_prices ? run->prices[transfer->op].alone : 0;
    /* What a link cost is of both, before and inside; the latter is what sharing stretched. */
    EchTime stretched = MAX(transfer->end - transfer->start - alone, 0);
    return transfer->waits[ECH_WAIT_QUEUE] + MAX(transfer->waits[ECH_WAIT_LINK] - stretched, 0);
}

/* Since when only others of its queue or link were before a transfer. One that depends on nothing itself is asked for with those before it in its queue,
 * behind what holds the queue (a wait for another one's event). */
static EchTime released_at(const Finder *finder, const EchSpan *transfer)
{
    enum { MOST = 4096 };
    const EchRun *run = finder->report->run;
    EchTime start = transfer->start - transfer->waits[ECH_WAIT_PEERS];
    EchId at = transfer->op;
    for (unsigned i = 0; i < MOST && at != ECH_NONE && is_transfer(&finder->ops[at]) && finder->ops[at].n_deps == 0; i++)
        at = finder->before[at];
    if (at == transfer->op)
        return start - stood_behind(run, transfer);
    if (at == ECH_NONE)
        return 0;
    size_t held = last_of(finder, at, start);
    if (held != SIZE_MAX && is_transfer(&finder->ops[at]))
        return run->spans[held].start - run->spans[held].waits[ECH_WAIT_PEERS] - stood_behind(run, &run->spans[held]);
    if (held == SIZE_MAX) /* it held nothing up: what it waits for had ended */
        held = awaited_by(finder, at, start);
    return held == SIZE_MAX ? start : MIN(run->spans[held].end, start);
}

/* Why the longest of @sum took as long. */
static void explain_wait(const Finder *finder, const Sum *sum, EchTransferWait *ret)
{
    const EchSpan *transfer = &finder->report->run->spans[sum->of];
    ret->took = transfer->end - transfer->start;
    ret->own_queue = sum->span == sum->of;
    ret->peers = transfer->waits[ECH_WAIT_PEERS];
    if (ret->own_queue)
        return;
    EchTime released = released_at(finder, transfer);
    ret->behind = transfer->start - ret->peers - released;
    ret->ahead = sum->at.start - released;
    ret->after = sum->at.end - transfer->end;
}

EchTransferWaits *ech_transfer_waits_new(const EchReport *report)
{
    EchTransferWaits *ret = g_new0(EchTransferWaits, 1);
    const EchRun *run = report->run;
    if (run->n_spans == 0 || run->spans_left_out > 0)
        return ret;
    Finder finder;
    finder_init(&finder, report);
    g_autoptr(GArray) waits = find_waits(&finder);
    g_array_sort(waits, compare_ends);
    g_autoptr(GArray) sums = sum_waits(&finder, waits, &ret->total);
    join_numbered(report, sums);
    ret->waits = g_new0(EchTransferWait, sums->len + 1);
    ret->n = sums->len;
    for (guint i = 0; i < sums->len; i++) {
        const Sum *sum = &g_array_index(sums, Sum, i);
        ret->waits[i] = (EchTransferWait){.waiter = sum->waiter, .transfer = sum->transfer, .count = sum->count, .n_alike = sum->n_alike, .time = sum->time};
        explain_wait(&finder, sum, &ret->waits[i]);
    }
    ret->least = MAX(run->lower_bound - (run->makespan - ret->total), 0);
    finder_clear(&finder);
    return ret;
}

void ech_transfer_waits_free(EchTransferWaits *waits)
{
    if (!waits)
        return;
    g_free(waits->waits);
    g_free(waits);
}

/* "w['up'], 64 MiB from host to hbm" */
static char *cargo_of(const EchReport *report, const EchOp *op)
{
    const EchTrace *trace = report->trace;
    GString *text = g_string_new(NULL);
    g_autofree char *place = place_of(report, op), *bytes = ech_format_bytes(op->bytes);
    if (place)
        g_string_append_printf(text, "%s, ", place);
    g_string_append(text, bytes);
    EchBytes of_file, needs;
    if (op->kind == ECH_OP_COPY && ech_op_file(trace, op, &of_file, &needs) == ECH_FILE_NONE)
        g_string_append_printf(text, " from %s to %s", ech_trace_memory(trace, op->memory_from), ech_trace_memory(trace, op->memory_to));
    return g_string_free(text, FALSE);
}

/* "fusion.577", and of several "fusion.*". */
static char *shown_name(const EchTrace *trace, const EchOp *op, bool several)
{
    const char *name = ech_trace_string(trace, op->name);
    size_t stem = ech_report_stem(name);
    return several && name[stem] ? g_strdup_printf("%.*s.*", (int)stem, name) : ech_text_kernel(name);
}

static void append_row(GString *out, const EchReport *report, const EchTransferWait *wait, unsigned columns)
{
    enum { TOLD = 20 }; /* others that took less than this part of its time are not worth a word */
    const EchTrace *trace = report->trace;
    const EchOp *ops = ech_trace_ops(trace), *transfer = &ops[wait->transfer], *waiter = wait->waiter != ECH_NONE ? &ops[wait->waiter] : NULL;
    g_autofree char *place = waiter ? place_of(report, waiter) : NULL, *time = ech_format_time(wait->time), *took = ech_format_time(wait->took);
    g_autofree char *name = waiter ? shown_name(trace, waiter, wait->n_alike > 1) : g_strdup("the program's end");
    g_autofree char *moved = shown_name(trace, transfer, wait->n_alike > 1), *cargo = cargo_of(report, transfer);
    g_autofree char *short_name = ech_text_short(name, 48), *short_moved = ech_text_short(moved, 48);
    g_autoptr(GString) text = g_string_new(NULL);
    g_string_append_printf(text, "%s %.1f %%: %s", time, 100 * (double)wait->time / (double)report->run->makespan, short_name);
    if (place)
        g_string_append_printf(text, " (%s)", place);
    g_string_append_printf(text, " for %s (%s)", short_moved, cargo);
    if (wait->count > 1)
        g_string_append_printf(text, ", %" G_GUINT64_FORMAT " times; the longest", wait->count);
    if (wait->own_queue) {
        g_string_append_printf(text, ": %s in its own queue", took);
    } else {
        g_autofree char *ahead = ech_format_time(ABS(wait->ahead)), *behind = ech_format_time(wait->behind);
        if (wait->ahead == 0)
            g_string_append(text, ": could begin only then");
        else
            g_string_append_printf(text, ": could begin %s %s", ahead, wait->ahead > 0 ? "before" : "into the wait");
        if (wait->behind > 0)
            g_string_append_printf(text, ", stood %s behind others", behind);
        if (wait->peers > 0) {
            g_autofree char *peers = ech_format_time(wait->peers);
            g_string_append_printf(text, ", waited %s for other devices", peers);
        }
        g_string_append_printf(text, ", took %s", took);
        if (wait->after > wait->took / TOLD) {
            g_autofree char *after = ech_format_time(wait->after);
            g_string_append_printf(text, ", and others after it %s", after);
        }
    }
    ech_text_wrap(out, "    ", text->str, columns);
}

void ech_report_append_transfer_waits(GString *out, const EchReport *report, unsigned columns)
{
    enum { MOST = 5, LEAST_SHARE = 100 };
    g_autoptr(EchTransferWaits) all = ech_transfer_waits_new(report);
    if (all->n == 0 || all->total < report->run->makespan / LEAST_SHARE)
        return;
    double run = (double)report->run->makespan;
    g_autofree char *total = ech_format_time(all->total), *least = ech_format_time(all->least), *shortest = ech_format_time(report->run->lower_bound);
    g_string_append_printf(out, "\n  Waits for copies and collectives while nothing computes: %s, %.1f %%\n", total, 100 * (double)all->total / run);
    EchTime rest = 0;
    for (size_t i = MOST; i < all->n; i++)
        rest = ech_time_add(rest, all->waits[i].time);
    for (size_t i = 0; i < MIN(all->n, (size_t)MOST); i++)
        append_row(out, report, &all->waits[i], columns);
    if (rest > 0) {
        g_autofree char *time = ech_format_time(rest);
        g_string_append_printf(out, "    %s %.1f %%: in %zu more\n", time, 100 * (double)rest / run, all->n - MOST);
    }
    if (all->waits[0].peers > 0) /* no copy of this rank's own asked for earlier helps there */
        return;
    g_autofree char *hint =
        all->least > 0
            ? g_strdup_printf("(at least %s of it stays, whenever they are asked for: no schedule is shorter than %s; less to move or a "
                              "faster link helps there, asking earlier and both ways at once with the rest)",
                              least, shortest)
            : g_strdup("(nothing is busy for so long that any of it had to stay: asked for earlier, or both ways at once, all of it may hide behind kernels)");
    ech_text_wrap(out, "    ", hint, columns);
}

static void add_op(JsonBuilder *b, const EchReport *report, const char *member, EchId id)
{
    const EchOp *op = &ech_trace_ops(report->trace)[id];
    g_autofree char *place = place_of(report, op);
    ech_json_begin_object(b, member);
    ech_json_add_text(b, "name", ech_trace_string(report->trace, op->name));
    ech_json_add_text(b, "kind", ech_op_kind_name(op->kind));
    if (place)
        ech_json_add_text(b, "from", place);
    if (is_transfer(op))
        ech_json_add_count(b, "bytes", op->bytes);
    json_builder_end_object(b);
}

void ech_report_build_transfer_waits(JsonBuilder *b, const EchReport *report)
{
    enum { MOST = 16 };
    g_autoptr(EchTransferWaits) all = ech_transfer_waits_new(report);
    if (all->n == 0)
        return;
    ech_json_begin_object(b, "transfer_waits");
    ech_json_add_int(b, "total_ps", all->total);
    ech_json_add_int(b, "least_ps", all->least);
    ech_json_add_count(b, "pairs", all->n);
    ech_json_begin_array(b, "longest");
    for (size_t i = 0; i < MIN(all->n, (size_t)MOST); i++) {
        const EchTransferWait *wait = &all->waits[i];
        json_builder_begin_object(b);
        ech_json_add_int(b, "time_ps", wait->time);
        ech_json_add_count(b, "times", wait->count);
        if (wait->n_alike > 1)
            ech_json_add_count(b, "pairs_alike", wait->n_alike);
        if (wait->waiter != ECH_NONE)
            add_op(b, report, "waiter", wait->waiter);
        add_op(b, report, "transfer", wait->transfer);
        ech_json_add_bool(b, "own_queue", wait->own_queue);
        ech_json_add_int(b, "ahead_ps", wait->ahead);
        ech_json_add_int(b, "behind_ps", wait->behind);
        ech_json_add_int(b, "peers_ps", wait->peers);
        ech_json_add_int(b, "took_ps", wait->took);
        ech_json_add_int(b, "after_ps", wait->after);
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
    json_builder_end_object(b);
}
