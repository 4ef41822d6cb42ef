#include "sim/report/ranks.h"

#include "sim/base/hash.h"
#include "sim/report/json_out.h"
#include "sim/report/text.h"
#include "sim/trace/allocator_marks.h"

#include <string.h>

/* ---- of all of them ---- */

typedef struct {
    EchTime makespan, step; /* of the slowest */
    double waits;           /* share of all ranks' steps */
    EchBytes fullest;       /* what one of them holds; of processes on one device what all of them have */
    bool fits;
} Whole;

/* What they are called: "rank", of one process "device", on one device "process". */
static const char *noun_of(const EchRanks *ranks)
{
    return ranks->devices ? "device" : ranks->share != ECH_SHARE_NONE ? "process" : "rank";
}

static const char *nouns_of(const EchRanks *ranks)
{
    return ranks->devices ? "devices" : ranks->share != ECH_SHARE_NONE ? "processes" : "ranks";
}

static EchTime step_of(const EchRankTimes *rank)
{
    return rank->end - rank->start;
}

/* When what a process has of the device's memory changes for the @at-th time; one that has run out of memory has none at its end. ECH_TIME_MAX: no more. */
static EchTime changes_at(const EchReport *report, size_t at, EchBytes *ret_has)
{
    const EchMemoryRun *memory = ech_report_main_memory(report);
    size_t n = memory ? memory->n_series : 0;
    *ret_has = at < n ? ech_bytes_add(memory->series[at].reserved, memory->context) : 0;
    return at < n ? memory->series[at].time : at == n && !ech_report_fits(report) ? report->run->makespan : ECH_TIME_MAX;
}

/* Most that processes on one device have of its memory at one time: segments, plans and contexts. */
static EchBytes most_together(const EchRanks *ranks)
{
    size_t at[ECH_MAX_RANKS] = {0};
    EchBytes has[ECH_MAX_RANKS] = {0}, then, most = 0;
    for (;;) {
        EchTime next = ECH_TIME_MAX;
        for (size_t i = 0; i < ranks->n; i++)
            next = MIN(next, changes_at(&ranks->reports[i], at[i], &then));
        if (next == ECH_TIME_MAX)
            return most;
        EchBytes sum = 0;
        for (size_t i = 0; i < ranks->n; i++) {
            for (; changes_at(&ranks->reports[i], at[i], &then) == next; at[i]++)
                has[i] = then;
            sum = ech_bytes_add(sum, has[i]);
        }
        most = MAX(most, sum);
    }
}

static Whole whole_of(const EchRanks *ranks)
{
    Whole whole = {.fits = true};
    double waits = 0, time = 0;
    for (size_t i = 0; i < ranks->n; i++) {
        const EchReport *report = &ranks->reports[i];
        const EchMemoryRun *memory = ech_report_main_memory(report);
        whole.makespan = MAX(whole.makespan, report->run->makespan);
        whole.step = MAX(whole.step, step_of(&ranks->ranks[i]));
        whole.fullest = MAX(whole.fullest, memory ? memory->peak_live : 0);
        whole.fits = whole.fits && ech_report_fits(report);
        waits += (double)ranks->ranks[i].times[ECH_RANK_WAITS];
        time += (double)step_of(&ranks->ranks[i]);
    }
    whole.fullest = ranks->share != ECH_SHARE_NONE ? most_together(ranks) : whole.fullest;
    whole.waits = time > 0 ? waits / time : 0;
    return whole;
}

/* ---- remarks: the same sentence of several ranks stands once ---- */

typedef struct {
    const char *text; /* borrowed */
    GArray *whose;    /* of their numbers, uint64_t */
} Remark;

static void remark_clear(gpointer data)
{
    g_array_unref(((Remark *)data)->whose);
}

static void add_remark(GArray *remarks, GHashTable *index, const char *text, uint64_t rank)
{
    guint at = GPOINTER_TO_UINT(g_hash_table_lookup(index, text));
    if (at == 0) {
        Remark remark = {text, g_array_new(FALSE, FALSE, sizeof(uint64_t))};
        g_array_append_val(remarks, remark);
        at = remarks->len;
        g_hash_table_insert(index, (gpointer)(uintptr_t)text, GUINT_TO_POINTER(at));
    }
    g_array_append_val(g_array_index(remarks, Remark, at - 1).whose, rank);
}

/* Remark[]; owned by the caller. */
static GArray *find_remarks(const EchRanks *ranks)
{
    GArray *remarks = g_array_new(FALSE, FALSE, sizeof(Remark));
    g_array_set_clear_func(remarks, remark_clear);
    g_autoptr(GHashTable) index = g_hash_table_new(ech_hash_text, g_str_equal);
    for (size_t i = 0; i < ranks->n; i++) {
        const EchReport *report = &ranks->reports[i];
        const EchDiag *diags[] = {report->import_diag, report->pass_diag, report->run->diag};
        for (size_t d = 0; d < G_N_ELEMENTS(diags); d++)
            for (const char *const *text = diags[d] ? ech_diag_remarks(diags[d]) : NULL; text && *text; text++)
                if (!ech_diag_is_source(diags[d], *text))
                    add_remark(remarks, index, *text, ranks->ranks[i].number);
    }
    return remarks;
}

/* ---- text ---- */

/* Whether processes on one device fit it. */
static void append_shared(GString *out, const EchRanks *ranks, const Whole *whole, const char *refused, unsigned columns)
{
    const EchMemoryRun *memory = ech_report_main_memory(&ranks->reports[0]);
    EchBytes contexts = 0;
    for (size_t i = 0; i < ranks->n; i++) {
        const EchMemoryRun *its = ech_report_main_memory(&ranks->reports[i]);
        contexts = ech_bytes_add(contexts, its ? its->context : 0);
    }
    g_autofree char *most = ech_format_bytes(whole->fullest), *of = ech_format_bytes(memory ? memory->available + memory->context : 0),
                    *context = ech_format_bytes(contexts);
    g_autoptr(GString) text = g_string_new(NULL);
    if (whole->fits)
        g_string_append_printf(text, "They fit: together they have at most %s of %s of %s", most, of, memory ? memory->name : "memory");
    else
        g_string_append_printf(text,
                               "THEY DO NOT FIT: process%s %s. (The others were replayed without %s from there on.) Together they had at most %s of %s of %s",
                               strchr(refused, ',') ? "es" : "", refused, strchr(refused, ',') ? "those" : "it", most, of, memory ? memory->name : "memory");
    if (contexts > 0)
        g_string_append_printf(text, ", %s of it their contexts", context);
    g_string_append_c(text, '.');
    ech_text_wrap(out, "  ", text->str, columns);
}

static bool knows_memory(const EchRanks *ranks)
{
    size_t n = 0;
    for (size_t i = 0; i < ranks->n && n == 0; i++)
        g_free(ech_report_uses(&ranks->reports[i], &n));
    return n > 0;
}

static void append_head(GString *out, const EchRanks *ranks, const Whole *whole, unsigned columns)
{
    g_autoptr(GString) refused = g_string_new(NULL);
    for (size_t i = 0; i < ranks->n; i++)
        if (!ech_report_fits(&ranks->reports[i]))
            g_string_append_printf(refused, "%s%" G_GUINT64_FORMAT, refused->len > 0 ? ", " : "", ranks->ranks[i].number);
    const char *who = strchr(refused->str, ',') ? nouns_of(ranks) : noun_of(ranks);
    if (ranks->share != ECH_SHARE_NONE)
        append_shared(out, ranks, whole, refused->str, columns);
    else if (whole->fits && !knows_memory(ranks))
        g_string_append(out, "  Nothing here says what lies in memory.\n");
    else if (whole->fits)
        g_string_append_printf(out, "  Every %s fits.\n", noun_of(ranks));
    else
        g_string_append_printf(out, "  IT DOES NOT FIT: %s %s. (The others were replayed as if nobody had to wait for those; times mean little.)\n", who,
                               refused->str);
    g_autofree char *takes = ech_format_time(whole->makespan), *step = ech_format_time(whole->step);
    g_autoptr(GString) line = g_string_new(NULL);
    g_string_append_printf(line, "It takes %s", takes);
    if (ranks->of > 0)
        g_string_append_printf(line, ", step %zu of %zu takes %s", ranks->which + 1, ranks->of, step);
    if (ranks->share == ECH_SHARE_MPS)
        g_string_append_c(line, '.');
    else
        g_string_append_printf(line, "; %.1f %% of all %s' time %sis waiting for one another.", 100 * whole->waits, nouns_of(ranks),
                               ranks->of > 0 ? "in that step " : "");
    ech_text_wrap(out, "  ", line->str, columns);
}

/* Processes on one device, each beside what it takes there alone. */
static void append_slowed(GString *out, const EchRanks *ranks, const EchRanks *alone, unsigned columns)
{
    EchTime serial = 0, together = 0;
    g_autoptr(GString) text = g_string_new("Beside what each takes alone:");
    for (size_t i = 0; i < ranks->n; i++) {
        EchTime before = alone->reports[i].run->makespan, after = ranks->reports[i].run->makespan;
        g_autofree char *was = ech_format_time(before), *is = ech_format_time(after);
        serial = ech_time_add(serial, before);
        together = MAX(together, after);
        g_string_append_printf(text, "%s %" G_GUINT64_FORMAT " %s -> %s (x%.2f)", i ? "," : "", ranks->ranks[i].number, was, is,
                               before > 0 ? (double)after / (double)before : 1);
    }
    g_autofree char *in_turn = ech_format_time(serial), *all = ech_format_time(together);
    g_string_append_printf(text, ". One after the other they take %s, together %s.", in_turn, all);
    ech_text_wrap(out, "  ", text->str, columns);
}

static void append_changes(GString *out, const EchRanks *ranks, const EchRanks *plain, const Whole *old, const Whole *now, unsigned columns)
{
    if (!old->fits || !now->fits)
        return;
    if (ranks->share != ECH_SHARE_NONE) {
        append_slowed(out, ranks, plain, columns);
        return;
    }
    g_autofree char *before = ech_format_time(old->step), *after = ech_format_time(now->step), *less = ech_format_bytes(old->fullest),
                    *more = ech_format_bytes(now->fullest);
    g_autofree char *text = g_strdup_printf("What that changes: %s -> %s; the fullest %s's memory %s -> %s; waiting for one another %.1f %% -> %.1f %%.",
                                            before, after, noun_of(ranks), less, more, 100 * old->waits, 100 * now->waits);
    ech_text_wrap(out, "  ", text, columns);
}

/* What lies beside what the ranks' allocators have reserved. */
static void append_direct(GString *out, const EchRanks *ranks, unsigned columns)
{
    EchBytes least = UINT64_MAX, most = 0;
    g_autofree char *names = NULL;
    for (size_t i = 0; i < ranks->n; i++) {
        const EchMemoryRun *memory = ech_report_main_memory(&ranks->reports[i]);
        EchBytes direct = memory ? memory->alloc.peak_direct : 0;
        least = MIN(least, direct);
        most = MAX(most, direct);
        if (direct && !names)
            names = ech_direct_names(ranks->reports[i].trace, ech_trace_find_memory(ranks->reports[i].trace, memory->name));
    }
    if (most == 0)
        return;
    g_autofree char *low = ech_format_bytes(least), *high = ech_format_bytes(most);
    g_autofree char *text = g_strdup_printf("Live, but beside what the allocator has reserved: %s%s%s of each %s (%s).", least < most ? low : "",
                                            least < most ? " to " : "", high, noun_of(ranks), names ? names : "");
    ech_text_wrap(out, "  ", text, columns);
}

/* Shares of the time where there is room for them. */
static void append_rows(GString *out, const EchRanks *ranks, unsigned columns)
{
    bool wide = columns == 0 || columns >= 102;
    int first = ranks->devices ? 6 : ranks->share != ECH_SHARE_NONE ? 7 : wide ? 5 : 4, size = wide ? 10 : 9, cell = wide ? 15 : 9;
    g_string_append_printf(out, "\n  %*s %*s %*s %*s  %*s %*s %*s %*s\n", first, "", size, "", size, "", size, "", cell, "kernels", cell,
                           wide ? "communication" : "traffic", cell, "waits for", cell, "host,");
    g_string_append_printf(out, "  %*s %*s %*s %*s  %*s %*s %*s %*s\n", first, noun_of(ranks), size, "live", size, "reserved", size,
                           ranks->of > 0 ? "step" : "time", cell, "run", cell, "alone", cell, strcmp(noun_of(ranks), "rank") == 0 ? "ranks" : "others", cell,
                           "idle");
    for (size_t i = 0; i < ranks->n; i++) {
        const EchRankTimes *rank = &ranks->ranks[i];
        const EchMemoryRun *memory = ech_report_main_memory(&ranks->reports[i]);
        EchBytes own = memory ? (memory->alloc.peak_direct ? ech_bytes_add(memory->fixed_extent, memory->alloc.peak_reserved) : memory->peak_reserved) : 0;
        g_autofree char *live = ech_format_bytes(memory ? memory->peak_live : 0), *reserved = ech_format_bytes(own), *time = ech_format_time(step_of(rank));
        g_string_append_printf(out, "  %*" G_GUINT64_FORMAT " %*s %*s %*s ", first, rank->number, size, live, size, reserved, size, time);
        for (int s = 0; s < ECH_N_RANK_STATES; s++) {
            g_autofree char *part = ech_format_time(rank->times[s]);
            g_autofree char *share = g_strdup_printf("%s %3.0f %%", part, step_of(rank) > 0 ? 100 * (double)rank->times[s] / (double)step_of(rank) : 0);
            g_string_append_printf(out, " %*s", cell, wide ? share : part);
        }
        g_string_append(out, ech_report_fits(&ranks->reports[i]) ? "\n" : "  does not fit\n");
    }
    append_direct(out, ranks, columns);
}

/* "runs kernels 92 %, waits itself 5 %"; what is less than a hundredth is not told. */
static char *meanwhile_text(const EchRankWait *wait)
{
    static const char *const does[] = {"runs kernels", "communicates", "waits itself", "waits for its host"};
    g_autoptr(GString) out = g_string_new(NULL);
    EchTime rest = wait->time;
    for (int s = 0; s < ECH_N_RANK_STATES; s++) {
        double share = 100 * (double)wait->meanwhile[s] / (double)wait->time;
        rest -= wait->meanwhile[s];
        if (share >= 0.995)
            g_string_append_printf(out, "%s%s %.0f %%", out->len > 0 ? ", " : "", does[s], share);
    }
    if (rest > wait->time / 100)
        g_string_append_printf(out, "%shas ended %.0f %%", out->len > 0 ? ", " : "", 100 * (double)rest / (double)wait->time);
    return g_strdup(out->str);
}

enum { TOLD_WAITS = 8 };

static void append_waits(GString *out, const EchRanks *ranks, unsigned columns)
{
    EchTime all = 0, told = 0;
    for (size_t i = 0; i < ranks->n_waits; i++)
        all += ranks->waits[i].time;
    if (all == 0)
        return;
    g_string_append_printf(out, "\n  Who waits for whom%s, and what that one does meanwhile\n", ranks->of > 0 ? " in that step" : "");
    for (size_t i = 0; i < MIN(ranks->n_waits, TOLD_WAITS); i++) {
        const EchRankWait *wait = &ranks->waits[i];
        g_autofree char *time = ech_format_time(wait->time), *does = meanwhile_text(wait), *name = ech_text_short(wait->at, 32);
        g_autofree char *who =
            g_strdup_printf("%" G_GUINT64_FORMAT " for %" G_GUINT64_FORMAT, ranks->ranks[wait->rank].number, ranks->ranks[wait->awaited].number);
        g_autofree char *first = g_strdup_printf("    %s %-12s %10s  ", noun_of(ranks), who, time);
        g_autofree char *text = g_strdup_printf("%" G_GUINT64_FORMAT " time%s, %s at %s: %s", wait->times, wait->times == 1 ? "" : "s",
                                                wait->at_time == wait->time ? "all" : "most", name, does);
        ech_text_wrap(out, first, text, columns);
        told += wait->time;
    }
    if (ranks->n_waits > TOLD_WAITS) {
        g_autofree char *rest = ech_format_time(all - told);
        g_string_append_printf(out, "    and %zu more, %s together\n", ranks->n_waits - TOLD_WAITS, rest);
    }
}

/* A rank whose kernels take longer than the others': more than a fiftieth, which layers that do not divide evenly come to. */
static bool is_slower(const EchRankSlowest *slowest)
{
    return slowest->own > slowest->others + slowest->others / 50;
}

static void append_slowest(GString *out, const EchRanks *ranks, unsigned columns)
{
    EchRankSlowest slowest;
    if (!ech_ranks_slowest(ranks, &slowest))
        return;
    g_autofree char *waited = ech_format_time(slowest.waited), *own = ech_format_time(slowest.own), *others = ech_format_time(slowest.others);
    g_autoptr(GString) text = g_string_new(NULL);
    g_string_append_printf(text, "%s %" G_GUINT64_FORMAT " is waited for longest, %s by all together; its kernels take %s, those of the others %s",
                           ranks->devices ? "Device" : "Rank", ranks->ranks[slowest.rank].number, waited, own, others);
    if (ranks->n > 2)
        g_string_append(text, " at the middle");
    if (is_slower(&slowest) && slowest.name) {
        g_autofree char *name_own = ech_format_time(slowest.name_own), *name_others = ech_format_time(slowest.name_others),
                        *name = ech_text_kernel(slowest.name);
        g_autofree char *shown = ech_text_short(name, 48);
        g_string_append_printf(text, ", most of it at %s: %s against %s", shown, name_own, slowest.name_others > 0 ? name_others : "none");
    }
    g_string_append_c(text, '.');
    ech_text_wrap(out, "    ", text->str, columns);
}

enum { TOLD_REFUSED = 3 };

/* What did not fit, when, what held the memory, and what to do. */
static void append_refused(GString *out, const EchRanks *ranks, unsigned columns)
{
    size_t n = 0;
    for (size_t i = 0; i < ranks->n && n < TOLD_REFUSED; i++) {
        if (ech_report_fits(&ranks->reports[i]))
            continue;
        g_string_append_printf(out, "\n  %s %s %" G_GUINT64_FORMAT "\n", ranks->share != ECH_SHARE_NONE ? "In" : "On", noun_of(ranks), ranks->ranks[i].number);
        ech_report_append_fit(out, &ranks->reports[i], columns);
        n++;
    }
    for (size_t i = 0; i < ranks->n; i++) {
        g_autofree char *text = ech_report_fits(&ranks->reports[i]) ? ech_report_refused_when_recorded(&ranks->reports[i]) : NULL;
        if (text)
            g_string_append_c(out, '\n');
        if (text)
            ech_text_wrap(out, "  ", text, columns);
    }
}

enum { UNEVEN = 10 }; /* the fullest holds so much, a tenth, more than the mean */

/* Of one process's devices: what fills the one that holds most. */
static void append_fullest(GString *out, const EchRanks *ranks, unsigned columns)
{
    size_t best = 0;
    EchBytes most = 0, all = 0;
    for (size_t i = 0; i < ranks->n; i++) {
        const EchMemoryRun *memory = ech_report_main_memory(&ranks->reports[i]);
        EchBytes live = memory ? memory->peak_live : 0;
        all = ech_bytes_add(all, live);
        if (live > most) {
            most = live;
            best = i;
        }
    }
    g_autofree char *even = ech_format_bytes(all / ranks->n);
    g_autoptr(GString) text = g_string_new(NULL);
    bool told = most > 0 && whole_of(ranks).fits; /* else what does not fit is told already */
    if (told)
        g_string_append_printf(text, "Device %" G_GUINT64_FORMAT " is the fullest", ranks->ranks[best].number);
    if (told && most > all / ranks->n + all / ranks->n / UNEVEN)
        g_string_append_printf(text, "; spread evenly, each would hold %s at its fullest", even);
    g_string_append(text, told ? ". " : "");
    g_string_append(text, "--set capture_device=N tells all of one, alone; -o DIR writes a page of each.");
    g_string_append_c(out, '\n');
    ech_text_wrap(out, "  ", text->str, columns);
    if (told)
        ech_report_append_memories(out, &ranks->reports[best], columns);
}

static void append_remarks(GString *out, const EchRanks *ranks, unsigned columns)
{
    g_autoptr(GArray) remarks = find_remarks(ranks);
    if (remarks->len > 0)
        g_string_append(out, "\n  Remarks\n");
    for (guint i = 0; i < remarks->len; i++) {
        const Remark *remark = &g_array_index(remarks, Remark, i);
        g_autoptr(GString) text = g_string_new(NULL);
        g_string_append_printf(text, "%s ", remark->whose->len > 1 ? nouns_of(ranks) : noun_of(ranks));
        for (guint k = 0; k < remark->whose->len; k++)
            g_string_append_printf(text, "%s%" G_GUINT64_FORMAT, k > 0 ? ", " : "", g_array_index(remark->whose, uint64_t, k));
        g_string_append_printf(text, ": %s", remark->text);
        ech_text_wrap(out, "    ", text->str, columns);
    }
}

GString *ech_report_ranks_text(const char *title, const EchRanks *ranks, const EchRanks *plain, unsigned columns)
{
    Whole whole = whole_of(ranks), old = plain ? whole_of(plain) : (Whole){0};
    GString *out = g_string_new(NULL);
    static const char *const shared[] = {"", ", side by side (MPS)", ", by turns (without MPS)"};
    const char *on = ranks->devices ? (ranks->processes ? " of one recording," : " of one process,") : ranks->share != ECH_SHARE_NONE ? " on one" : " on";
    g_string_append_printf(out, "%s: %zu %s%s %s%s\n\n", title, ranks->n, nouns_of(ranks), on, ranks->reports[0].device->name, shared[ranks->share]);
    append_head(out, ranks, &whole, columns);
    append_changes(out, ranks, plain, &old, &whole, columns);
    append_rows(out, ranks, columns);
    append_waits(out, ranks, columns);
    append_slowest(out, ranks, columns);
    append_refused(out, ranks, columns);
    if (ranks->devices)
        append_fullest(out, ranks, columns);
    append_remarks(out, ranks, columns);
    return out;
}

/* ---- JSON ---- */

static const char *const share_names[] = {"none", "mps", "slices"};

static void add_whole(JsonBuilder *b, const EchRanks *ranks)
{
    Whole whole = whole_of(ranks);
    ech_json_add_int(b, "makespan_ps", whole.makespan);
    ech_json_add_int(b, "step_ps", whole.step);
    ech_json_add_double(b, "waits_share", whole.waits);
    ech_json_add_count(b, "fullest_bytes", whole.fullest);
    ech_json_add_bool(b, "fits", whole.fits);
    ech_json_add_bool(b, "devices_of_one_process", ranks->devices && !ranks->processes);
    ech_json_add_text(b, "share", share_names[ranks->share]);
}

static void add_times(JsonBuilder *b, const EchTime *times)
{
    static const char *const names[] = {"kernels_ps", "communication_alone_ps", "waits_for_ranks_ps", "idle_ps"};
    for (int s = 0; s < ECH_N_RANK_STATES; s++)
        ech_json_add_int(b, names[s], times[s]);
}

static void add_waits(JsonBuilder *b, const EchRanks *ranks, size_t rank)
{
    ech_json_begin_array(b, "waits_for");
    for (size_t i = 0; i < ranks->n_waits; i++) {
        const EchRankWait *wait = &ranks->waits[i];
        if (wait->rank != rank)
            continue;
        json_builder_begin_object(b);
        ech_json_add_count(b, "rank", ranks->ranks[wait->awaited].number);
        ech_json_add_int(b, "time_ps", wait->time);
        ech_json_add_count(b, "times", wait->times);
        ech_json_add_text(b, "most_at", wait->at);
        ech_json_add_int(b, "most_at_ps", wait->at_time);
        ech_json_begin_object(b, "meanwhile");
        add_times(b, wait->meanwhile);
        json_builder_end_object(b);
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
}

static void add_slowest(JsonBuilder *b, const EchRanks *ranks)
{
    EchRankSlowest slowest;
    if (!ech_ranks_slowest(ranks, &slowest))
        return;
    ech_json_begin_object(b, "waited_for_longest");
    ech_json_add_count(b, "rank", ranks->ranks[slowest.rank].number);
    ech_json_add_int(b, "waited_ps", slowest.waited);
    ech_json_add_int(b, "kernels_ps", slowest.own);
    ech_json_add_int(b, "kernels_of_others_ps", slowest.others);
    if (is_slower(&slowest) && slowest.name) {
        ech_json_add_text(b, "most_at", slowest.name);
        ech_json_add_int(b, "most_at_ps", slowest.name_own);
        ech_json_add_int(b, "most_at_of_others_ps", slowest.name_others);
    }
    json_builder_end_object(b);
}

static void add_rank(JsonBuilder *b, const EchRanks *ranks, size_t i)
{
    const EchRankTimes *rank = &ranks->ranks[i];
    const EchReport *report = &ranks->reports[i];
    const EchMemoryRun *memory = ech_report_main_memory(report);
    json_builder_begin_object(b);
    ech_json_add_count(b, "rank", rank->number);
    ech_json_add_text(b, "trace", report->trace_path);
    ech_json_add_text(b, "device", report->device->name);
    ech_json_add_bool(b, "fits", ech_report_fits(report));
    if (memory) {
        ech_json_begin_object(b, "memory");
        ech_json_add_text(b, "name", memory->name);
        ech_json_add_count(b, "capacity_bytes", memory->capacity);
        ech_json_add_count(b, "available_bytes", memory->available);
        ech_json_add_count(b, "peak_live_bytes", memory->peak_live);
        ech_json_add_count(b, "peak_reserved_bytes", memory->peak_reserved);
        ech_json_add_count(b, "direct_bytes", memory->alloc.peak_direct);
        json_builder_end_object(b);
    }
    ech_json_begin_object(b, "step");
    ech_json_add_int(b, "time_ps", step_of(rank));
    ech_json_add_int(b, "start_ps", rank->start);
    add_times(b, rank->times);
    json_builder_end_object(b);
    add_waits(b, ranks, i);
    json_builder_set_member_name(b, "run");
    json_builder_add_value(b, ech_report_json(report));
    json_builder_end_object(b);
}

JsonNode *ech_report_ranks_json(const char *title, const EchRanks *ranks, const EchRanks *plain)
{
    g_autoptr(JsonBuilder) b = json_builder_new();
    json_builder_begin_object(b);
    ech_json_add_text(b, "title", title);
    add_whole(b, ranks);
    if (ranks->of > 0) {
        ech_json_add_count(b, "step", ranks->which + 1);
        ech_json_add_count(b, "steps", ranks->of);
    }
    if (plain) {
        ech_json_begin_object(b, "without_changes");
        add_whole(b, plain);
        json_builder_end_object(b);
    }
    add_slowest(b, ranks);
    ech_json_begin_array(b, "ranks");
    for (size_t i = 0; i < ranks->n; i++)
        add_rank(b, ranks, i);
    json_builder_end_array(b);
    g_autoptr(GArray) remarks = find_remarks(ranks);
    ech_json_begin_array(b, "remarks");
    for (guint i = 0; i < remarks->len; i++) {
        const Remark *remark = &g_array_index(remarks, Remark, i);
        json_builder_begin_object(b);
        ech_json_begin_array(b, "ranks");
        for (guint k = 0; k < remark->whose->len; k++)
            json_builder_add_int_value(b, (gint64)g_array_index(remark->whose, uint64_t, k));
        json_builder_end_array(b);
        ech_json_add_text(b, "text", remark->text);
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
    json_builder_end_object(b);
    return json_builder_get_root(b);
}

/* ---- what the page draws ---- */

/* In each of @bins parts of the time: what the rank does for most of it. */
static void append_binned(GString *out, const EchRankTimes *rank, EchTime end, size_t bins)
{
    int last = -1;
    size_t at = 0;
    for (size_t bin = 0; bin < bins; bin++) {
        EchTime from = (EchTime)((double)end / (double)bins * (double)bin), to = (EchTime)((double)end / (double)bins * (double)(bin + 1)), most = 0;
        EchTime sums[ECH_N_RANK_STATES] = {0};
        int state = -1;
        for (; at < rank->n_stretches && rank->stretches[at].start < to; at++) {
            sums[rank->stretches[at].state] += MAX(MIN(rank->stretches[at].end, to) - MAX(rank->stretches[at].start, from), 0);
            if (rank->stretches[at].end > to)
                break;
        }
        for (int s = 0; s < ECH_N_RANK_STATES; s++)
            if (sums[s] > most) {
                most = sums[s];
                state = s;
            }
        if (state != last)
            g_string_append_printf(out, "%s[%" G_GINT64_FORMAT ",%d,-1]", bin ? "," : "", from, state < 0 ? ECH_N_RANK_STATES : state);
        last = state;
    }
}

GString *ech_report_ranks_details(const EchRanks *ranks, size_t most)
{
    EchTime end = whole_of(ranks).makespan;
    GString *out = g_string_new("{\"states\":[");
    for (int s = 0; s < ECH_N_RANK_STATES; s++)
        g_string_append_printf(out, "%s\"%s\"", s ? "," : "", ech_rank_state_name((EchRankState)s));
    g_string_append_printf(out, "],\"makespan\":%" G_GINT64_FORMAT ",\"ranks\":[", end);
    /* [start, state or behind them for its end, number of the rank that is waited for or -1] */
    for (size_t i = 0; i < ranks->n; i++) {
        const EchRankTimes *rank = &ranks->ranks[i];
        g_string_append(out, i ? ",\n[" : "\n[");
        if (rank->n_stretches > most)
            append_binned(out, rank, end, most);
        for (size_t s = 0; s < rank->n_stretches && rank->n_stretches <= most; s++) {
            const EchRankStretch *stretch = &rank->stretches[s];
            uint32_t awaited = stretch->span == ECH_NONE ? ECH_NONE : ranks->reports[i].run->spans[stretch->span].awaited;
            g_string_append_printf(out, "%s[%" G_GINT64_FORMAT ",%d,%" G_GINT64_FORMAT "]", s ? "," : "", stretch->start, (int)stretch->state,
                                   awaited == ECH_NONE ? -1 : (gint64)awaited);
        }
        g_string_append_printf(out, "%s[%" G_GINT64_FORMAT ",%d,-1]]", rank->n_stretches > 0 ? "," : "", ranks->reports[i].run->makespan, ECH_N_RANK_STATES);
    }
    g_string_append(out, "]}\n");
    return out;
}
