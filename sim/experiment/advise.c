#include "sim/experiment/advise_private.h"

#include "sim/base/file.h"
#include "sim/experiment/devices.h"
#include "sim/experiment/spread.h"
#include "sim/experiment/torch_measures.h"
#include "sim/report/explain.h"
#include <string.h>

enum { MOST_DEVICES = 3 };

/* Batches are tried up to so many times as large as the one there is; so many at a time. */
enum { MOST_TIMES = 64, PROBES = 3 };

/* What is handed to passes as what they may need, in per cent of what there is: all of it where plans and allocators want no more, less where they do; less
 * still where it would fit but may not, as compilers have it, or where what is free is in pieces. At last nothing is fetched ahead, which takes memory, too. */
static const unsigned goals[] = {100, 92, 80, 65, 92};
enum { NARROW_GOAL = 3 };

/* What fits and takes more than so many times as long is dear: more is tried. */
#define DEAR 1.5

/* Where kernels that there are need more than so many times what there is, no policy has been seen to do (validation/what_ifs.md). */
#define POLICY_MARGIN 1.5

/* Times that differ by less than one part in so many are not told apart. */
#define AS_QUICK 20

static void row_clear(EchAdviceRow *row)
{
    g_free(row->label);
    g_free(row->options);
    g_free(row->nothing);
    g_free(row->error);
}

static void trial_clear(void *data)
{
    row_clear(&((Trial *)data)->row);
}

static EchCase *vary(const EchCase *from, const char *path, const char *value, GError **error)
{
    const char *const paths[] = {path, NULL};
    return ech_case_vary(from, path, value, paths, value, error);
}

EchCase *ech_advise_vary_memory(const EchCase *from, const char *bytes, GError **error)
{
    static const char *const paths[] = {"device.memories.hbm.capacity", "device.memories.hbm.available", NULL};
    return ech_case_vary(from, "hbm", bytes, paths, bytes, error);
}

JsonArray *ech_advise_steps_of(JsonObject *run)
{
    JsonNode *node = json_object_get_member(run, "steps");
    return node && JSON_NODE_HOLDS_ARRAY(node) ? json_node_get_array(node) : NULL;
}

/* What a step takes, the last whole one of a usual batch, of a capture that tells steps: the rest of it, uploads and what is done once, is no part of training.
 * 0: not known. */
static EchTime time_of(const Advise *a, JsonObject *run)
{
    JsonArray *steps = a->alone ? NULL : ech_advise_steps_of(run);
    JsonObject *hbm = ech_member_object(ech_member_object(run, "memories"), "hbm");
    if (!ech_member_bool(run, "completed") || (hbm && json_object_has_member(hbm, "untold_parts_bytes")))
        return 0;
    if (steps)
        return ech_member_int(json_array_get_object_element(steps, MIN(a->step, json_array_get_length(steps) - 1)), "duration_ps");
    return a->advice->n_steps > 0 ? 0 : ech_member_int(run, "makespan_ps");
}

EchAdviceRun ech_advise_run_of(const Advise *a, JsonObject *run)
{
    bool fits = ech_member_bool(run, "fits") && ech_member_bool(run, "completed"), narrow = json_object_has_member(run, "may_need_hbm_bytes");
    EchBytes hbm = (EchBytes)ech_run_memory_bytes(run, "hbm");
    JsonObject *memory = ech_member_object(ech_member_object(run, "memories"), "hbm");
    /* Unified memory: the rest is the host's. */
    EchBytes here = memory && json_object_has_member(memory, "on_device_bytes") ? MIN(hbm, (EchBytes)ech_member_int(memory, "on_device_bytes")) : hbm;
    JsonObject *need = ech_member_object(ech_member_object(run, "needs"), "hbm");
    if (a->advice->kernel) /* advice is about hbm */
        fits = need && ech_member_bool(need, "fits") && ech_member_bool(run, "completed");
    return (EchAdviceRun){.fits = fits && !narrow,
                          .planned = need && ech_member_bool(need, "planned"),
                          .narrow = fits && narrow,
                          .hbm = here,
                          .host = ech_bytes_add((EchBytes)(ech_run_memory_bytes(run, "host") + ech_run_memory_bytes(run, "pageable")), hbm - here),
                          .makespan = time_of(a, run),
                          .whole = ech_member_int(run, "makespan_ps"),
                          .first = json_object_has_member(run, "brought_first_bytes") ? (EchBytes)ech_member_int(run, "brought_first_bytes") : 0,
                          .early = json_object_has_member(run, "fetched_early_bytes") ? (EchBytes)ech_member_int(run, "fetched_early_bytes") : 0,
                          .once = json_object_has_member(run, "again_at_once_bytes") ? (EchBytes)ech_member_int(run, "again_at_once_bytes") : 0};
}

/* Another device: what its compiler would keep on chip is its own business. */
static EchAdviceRun run_of_device(const Advise *a, JsonObject *run)
{
    EchAdviceRun out = ech_advise_run_of(a, run);
    JsonObject *need = ech_member_object(ech_member_object(run, "needs"), "hbm");
    if (!out.fits && need)
        out.fits = ech_member_bool(need, "fits") && ech_member_bool(run, "completed");
    return out;
}

/* Rounded down. */
static char *goal_text(EchBytes bytes)
{
    const EchBytes mib = (EchBytes)1 << 20;
    return bytes >= 16 * mib ? g_strdup_printf("%" G_GUINT64_FORMAT "MiB", bytes / mib) : g_strdup_printf("%" G_GUINT64_FORMAT "KiB", bytes >> 10);
}

/* The measure's passes, which the case's own go before. @ahead: with fetches ahead, which fill the memory there is. */
static char *passes_text(const Advise *a, const Trial *t, const char *goal, bool ahead, char **ret_options)
{
    const Measure *measure = t->measure;
    g_autoptr(GPtrArray) all = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GString) options = g_string_new(t->row.donated ? "--pass donate" : NULL);
    if (t->row.donated)
        g_ptr_array_add(all, g_strdup(PASS_DONATE));
    for (size_t i = 0, n = 0; measure->passes[i]; i++) {
        const char *pass = strcmp(measure->passes[i], PASS_SCHEDULE) == 0 && !a->xla ? PASS_PREFETCH : measure->passes[i];
        bool takes = strcmp(pass, PASS_SLICE) != 0, with_goal = goal && takes && n < measure->n_goals;
        n += takes;
        if ((!ahead && strcmp(pass, PASS_PREFETCH) == 0) || (!a->tpu && ech_advise_is_place(pass)))
            continue;
        bool of_blocks = g_str_has_prefix(pass, BLOCKS);
        g_autofree char *modules = of_blocks                       ? g_strconcat(BLOCKS, a->advice->blocks, pass + strlen(BLOCKS), NULL)
                                   : strcmp(pass, ROW_BY_ROW) == 0 ? g_strdup_printf("%s%" G_GUINT64_FORMAT, pass, a->advice->batch)
                                                                   : g_strdup(pass);
        g_autofree char *spec = g_strconcat(modules, with_goal ? (strchr(pass, ':') ? ",memory=" : ":memory=") : "", with_goal ? goal : "", NULL);
        g_ptr_array_add(all, g_strdup(spec));
        g_string_append_printf(options, "%s--pass %s", options->len ? " " : "", spec);
    }
    g_ptr_array_add(all, NULL);
    *ret_options = g_string_free(g_steal_pointer(&options), FALSE);
    return g_strjoinv(" ", (char **)all->pdata);
}

static EchBytes goal_bytes(const Advise *a, const Trial *t)
{
    return a->advice->available - a->advice->available / 100 * (100 - goals[t->tried]);
}

/* The case of another capture. */
static EchCase *captured_case(const Advise *a, Trial *t, GError **error)
{
    g_autofree char *file = ech_shell_word(t->trace);
    g_free(t->row.options);
    t->row.options = g_strdup_printf("%s--trace %s", t->row.growing ? "--allocator " GROWING " " : "", file);
    EchCase *c = vary(a->base, "trace", t->trace, error), *growing = c && t->row.growing ? vary(c, "allocator", GROWING, error) : NULL;
    if (!t->row.growing)
        return c;
    ech_case_free(c);
    return growing;
}

/* The case of a trial at its present goal. @roomy: to learn what it needs. */
static EchCase *trial_case(const Advise *a, Trial *t, bool roomy, GError **error)
{
    const Measure *m = t->measure;
    if (t->trace)
        return captured_case(a, t, error);
    if (!m)
        return vary(a->base, "device", t->row.label, error);
    g_free(t->row.options);
    if (m->when == PAGED) {
        t->row.options = g_strdup("--set replay.unified_memory=true");
        return vary(a->base, "replay.unified_memory", "true", error);
    }
    const char *spec = t->row.growing ? GROWING : m->allocator;
    g_autofree char *allocator = spec ? g_strdup_printf("--allocator %s", spec) : NULL;
    EchCase *other = spec ? vary(a->base, "allocator", spec, error) : NULL;
    if (spec && (!other || !m->passes[0])) {
        t->row.options = g_steal_pointer(&allocator);
        return other;
    }
    g_autofree char *goal = a->advice->base.fits ? NULL : goal_text(goal_bytes(a, t));
    g_autofree char *options = NULL, *passes = passes_text(a, t, goal, !roomy && t->tried + 1 < G_N_ELEMENTS(goals), &options);
    t->row.options = g_strconcat(allocator ? allocator : "", allocator ? " " : "", options, NULL);
    EchCase *c = vary(other ? other : a->base, "passes", passes, error);
    ech_case_free(other);
    return c;
}

/* Runs cases, @n of them, which are taken. */
static EchSweepPoint *run_cases(const Advise *a, EchCase **cases, size_t n, GError **error)
{
    EchExperiment some = {.least_cache = a->experiment->least_cache,
                          .of_device = a->experiment->of_device,
                          .title = a->experiment->title,
                          .cases = g_new(EchCase, n),
                          .n_cases = n,
                          .cache = a->experiment->cache,
                          .places = a->experiment->places,
                          .brief = true};
    for (size_t i = 0; i < n; i++)
        some.cases[i] = *cases[i];
    EchSweepPoint *points = ech_sweep_run(&some, a->jobs, a->stop, a->progress, a->data, error);
    g_free(some.cases);
    for (size_t i = 0; i < n; i++)
        ech_case_free(cases[i]);
    return points;
}

/* Why every pass of the measure that could save something, or one that the others rest on, left the program as it was; NULL where one did not. */
static char *why_nothing(const Measure *measure, JsonObject *run)
{
    JsonArray *remarks = json_object_get_array_member(run, "remarks");
    char *why = NULL;
    for (size_t i = 0; measure->passes[i]; i++) {
        g_autofree char *name = g_strndup(measure->passes[i], strcspn(measure->passes[i], ":"));
        g_autofree char *left = g_strconcat(name, ": left the ", NULL);
        const char *found = NULL;
        if (strcmp(name, PASS_PREFETCH) == 0 || strcmp(name, PASS_SCHEDULE) == 0 || ech_advise_is_place(name) || (strcmp(name, PASS_DONATE) == 0 && i > 0))
            continue;
        for (guint k = 0; remarks && !found && k < json_array_get_length(remarks); k++) {
            const char *remark = json_array_get_string_element(remarks, k);
            const char *reason = g_str_has_prefix(remark, left) ? strstr(remark, "as it is: ") : NULL;
            found = reason ? reason + strlen("as it is: ") : NULL;
        }
        if ((strcmp(name, PASS_SLICE) == 0 || strcmp(name, PASS_SHARD) == 0) && found) {
            g_free(why);
            return g_strdup(found);
        }
        if (!found) {
            g_free(why);
            return NULL;
        }
        if (!why)
            why = g_strdup(found);
    }
    return why;
}

/* Whether something is made again and something else goes to the host. */
static bool sends_too(const Measure *measure)
{
    bool sends = false;
    for (size_t i = 1; measure->passes[0] && measure->passes[i]; i++)
        sends |= g_str_has_prefix(measure->passes[0], PASS_REMAT) && g_str_has_prefix(measure->passes[i], "offload");
    return sends;
}

/* Why what makes again and sends something is no more than the former; NULL where it is. */
static char *nothing_sent(const Advise *a, const Trial *t)
{
    bool alone = t->measure && sends_too(t->measure) && t->row.run.host <= a->advice->base.host;
    const char *again = a->advice->blocks ? "checkpoint each block" : "make activations again";
    return alone ? g_strdup_printf("nothing goes to the host, so that it is '%s'", again) : NULL;
}

/* Where there is room a compiler spares none: whether less than half of what a measure saves is saved where what waits on the host comes back early. */
static bool spares_little(const Advise *a, const EchAdviceRun *run)
{
    const EchBytes base = a->advice->base.hbm;
    return run->early > run->hbm && run->hbm < base && (run->early >= base || base - run->early < (base - run->hbm) / 2);
}

/* What another capture of the program has that it has not itself: "autocast=bfloat16,fused", and how a program says so. */
static void name_captured(Trial *t, JsonObject *run)
{
    const char *with = ech_member_text(run, "captured_with");
    if (!with)
        return;
    g_free(t->row.label);
    t->row.label = g_strdup(with);
    g_auto(GStrv) specs = g_strsplit(with, ",", -1);
    g_autoptr(GString) code = g_string_new(NULL);
    for (char **spec = specs; *spec; spec++) {
        g_autofree char *its = ech_torch_measure_code(*spec);
        g_string_append_printf(code, "%s%s", code->len > 0 ? "; and " : "", its);
    }
    t->row.in_code = g_intern_string(code->str);
}

/* What a run says of a trial. */
static void take(const Advise *a, Trial *t, const EchSweepPoint *point)
{
    g_clear_pointer(&t->row.error, g_free);
    g_autoptr(JsonNode) node = ech_sweep_point_json(point);
    if (!node) {
        t->row.error = g_strdup(point->error);
        t->done = true;
        return;
    }
    JsonObject *run = json_node_get_object(node);
    const EchAdviceRun before = t->row.run;
    t->last = t->tried;
    t->row.run = t->row.device ? run_of_device(a, run) : ech_advise_run_of(a, run);
    if (strcmp(t->row.name, PARTS_IN_TURN) == 0 && a->advice->n_steps > 0 && t->row.run.makespan > 0)
        t->row.run.makespan = a->advice->base.makespan + MAX(t->row.run.whole - a->advice->base.whole, 0) / (EchTime)a->advice->n_steps;
    if (t->row.captured)
        name_captured(t, run);
    if (t->row.captured && ech_member_bool(run, "ran_out_when_captured")) {
        t->row.error = g_strdup("it ran out of memory when it was captured, and what it needs in all is not known; expected it captured with room: --set "
                                "device.memories.hbm.capacity=1TiB");
        t->done = true;
        return;
    }
    g_free(t->row.nothing);
    t->row.nothing = t->measure && t->measure->passes[0] ? why_nothing(t->measure, run) : NULL;
    if (t->row.paged && a->advice->holds_alone)
        t->row.nothing = g_strdup("nothing that uses the arrays is recorded, so that what they take to come and go is not known");
    EchBytes least = a->advice->base.hbm - (t->measure ? a->advice->base.hbm / WORTH : 0);
    bool no_less = a->advice->base.fits && t->row.run.fits && t->row.run.hbm >= least;
    if (!t->row.nothing && t->measure && no_less)
        t->row.nothing = g_strdup(NEEDS_NO_LESS);
    if (t->row.captured && no_less && t->row.run.makespan >= a->advice->base.makespan)
        t->row.nothing = g_strdup("no less is needed, and it is no quicker");
    if (t->row.run.fits && a->advice->base.fits && spares_little(a, &t->row.run)) {
        t->row.run.fits = false;
        t->row.run.narrow = true;
    }
    /* What allocators place as it comes and does not fit has ended before all that could go went. */
    if (!t->row.nothing && (t->row.run.makespan > 0 || a->xla))
        t->row.nothing = nothing_sent(a, t);
    /* Less is of no use. */
    bool stuck = t->tried > 0 && !t->row.nothing && before.hbm == t->row.run.hbm && before.makespan == t->row.run.makespan && t->row.run.hbm > goal_bytes(a, t);
    size_t n = G_N_ELEMENTS(goals) - (t->measure && t->measure->when == LAST ? 0 : 1);
    t->tried = stuck ? MAX(t->tried + 1, G_N_ELEMENTS(goals) - 1) : t->tried + 1;
    t->pieces = g_strcmp0(ech_member_text(ech_member_object(run, "failure"), "reason"), "fragmented") == 0;
    if (t->tried == NARROW_GOAL && !t->row.run.narrow && !t->pieces)
        t->tried++;
    /* The compiler brings back early what was sent away, however much that is. */
    bool early = t->row.run.narrow && t->measure && t->measure->n_goals > 0 && g_str_has_prefix(t->measure->passes[0], "offload");
    /* What is live is no more than what was asked for, and yet it does not fit: less may be asked for. */
    bool idle = t->row.nothing && (a->advice->base.fits || t->measure->n_goals == 0);
    t->done = t->row.run.fits || early || idle || a->advice->base.fits || !t->measure || t->measure->n_goals == 0 || t->tried >= n;
}

/* One run of each trial that is not done. */
static bool run_round(Advise *a, bool *ret_ran, GError **error)
{
    g_autoptr(GPtrArray) open = g_ptr_array_new();
    g_autoptr(GPtrArray) cases = g_ptr_array_new();
    for (guint i = 0; i < a->trials->len; i++) {
        Trial *t = &g_array_index(a->trials, Trial, i);
        EchCase *c = t->done ? NULL : trial_case(a, t, false, error);
        if (!t->done && !c)
            return false;
        if (c) {
            g_ptr_array_add(open, t);
            g_ptr_array_add(cases, c);
        }
    }
    *ret_ran = open->len > 0;
    if (open->len == 0)
        return true;
    EchSweepPoint *points = run_cases(a, (EchCase **)cases->pdata, cases->len, error);
    if (!points)
        return false;
    for (guint i = 0; i < open->len; i++)
        take(a, open->pdata[i], &points[i]);
    ech_sweep_free(points, open->len);
    return true;
}

static bool run_rounds(Advise *a, GError **error)
{
    bool ran = true;
    while (ran) {
        if (!run_round(a, &ran, error))
            return false;
    }
    return true;
}

/* Whether the program would fit on this device at a fair price. */
static bool is_enough(const Advise *a)
{
    bool enough = a->advice->base.fits;
    for (guint i = 0; i < a->trials->len; i++) {
        const Trial *t = &g_array_index(a->trials, Trial, i);
        enough |= !t->row.device && !t->row.several && t->row.run.fits && (!t->row.spread || t->row.run.makespan > 0) &&
                  (double)t->row.run.makespan <= DEAR * (double)a->advice->base.makespan;
    }
    return enough;
}

/* Whether donation may save some beside the measure; what waits on the host takes along what is written over it. */
static bool may_donate(const Measure *m)
{
    bool may = m->passes[0] != NULL;
    for (size_t i = 0; m->passes[i]; i++)
        may &= strcmp(m->passes[i], PASS_DONATE) != 0;
    return may;
}

/* Donation costs nothing: where it saves some, whatever does not fit is tried again with it; where something was @enough, what without it is not known. */
static bool try_donated(Advise *a, bool enough, GError **error)
{
    for (guint i = 0; i < a->trials->len; i++) {
        const Trial *t = &g_array_index(a->trials, Trial, i);
        a->donates |= t->measure && strcmp(t->row.name, PASS_DONATE) == 0 && !t->row.nothing && !t->row.error && t->row.run.hbm < a->advice->base.hbm;
    }
    for (guint i = 0; a->donates && i < a->trials->len; i++) {
        Trial *t = &g_array_index(a->trials, Trial, i);
        if (!t->measure || !may_donate(t->measure) || (enough && !ech_advise_is_sharded(t->measure)) || t->row.run.fits ||
            (t->row.nothing && !ech_advise_is_by_layer(t->measure) && !ech_advise_is_sharded(t->measure)) || t->row.error)
            continue;
        t->row.donated = true;
        t->row.run = (EchAdviceRun){0};
        t->tried = 0;
        t->done = false;
    }
    return !a->donates || run_rounds(a, error);
}

/* XLA brings stacks back whole and all at once: 17 of 18 steps that asked for it needed as much as without, or more, one 2 % less (validation/what_ifs.md). */
static void leave_whole_stacks(Advise *a)
{
    for (guint i = 0; i < a->trials->len; i++) {
        const Trial *t = &g_array_index(a->trials, Trial, i);
        a->stacks |= t->measure && ech_advise_is_by_layer(t->measure) && !t->row.nothing && !t->row.error;
    }
    for (guint i = 0; a->stacks && i < a->trials->len; i++) {
        Trial *t = &g_array_index(a->trials, Trial, i);
        if (!t->measure || !t->measure->passes[0] || !g_str_has_prefix(t->measure->passes[0], "offload:what=arguments") || t->row.error || t->row.nothing)
            continue;
        t->row.nothing = g_strdup("XLA brings stacked arrays back whole, all at once, and needs as much as without, or more; 'layer by layer' it does not");
        t->row.run.fits = false;
    }
}

/* Where what is free is in pieces, PyTorch's segments may grow. */
static bool try_growing(Advise *a, GError **error)
{
    for (guint i = 0; i < a->trials->len; i++) {
        Trial *t = &g_array_index(a->trials, Trial, i);
        if (t->measure ? t->measure->allocator || !t->measure->passes[0] : !t->trace)
            continue;
        if (!t->pieces || t->row.run.fits || t->row.nothing || t->row.error)
            continue;
        t->row.growing = true;
        t->row.run = (EchAdviceRun){0};
        t->tried = 0;
        t->done = false;
    }
    return run_rounds(a, error);
}

/* What a trial that does not fit needs is known. */
static void settle(const Advise *a, Trial *t)
{
    t->row.run.fits = false;
    t->row.run.makespan = 0;
    if (t->measure && t->measure->n_goals == 0 && t->row.run.hbm >= a->advice->base.hbm)
        t->row.nothing = g_strdup(NEEDS_NO_LESS);
    if (!t->row.nothing)
        t->row.nothing = nothing_sent(a, t);
}

/* What those that do not fit would need. A plan of all places tells, which would be another where there is more room; what is placed as it comes is run where
 * there is. */
static bool learn_needs(Advise *a, GError **error)
{
    g_autoptr(GPtrArray) open = g_ptr_array_new();
    g_autoptr(GPtrArray) cases = g_ptr_array_new();
    for (guint i = 0; i < a->trials->len; i++) {
        Trial *t = &g_array_index(a->trials, Trial, i);
        if (t->row.run.fits || t->row.run.narrow || t->row.nothing || t->row.error || t->row.spread)
            continue;
        if (t->measure && t->row.run.planned) {
            settle(a, t);
            continue;
        }
        t->tried = t->last;
        EchCase *c = trial_case(a, t, true, error), *roomy = c ? ech_advise_vary_memory(c, ROOMY, error) : NULL;
        ech_case_free(c);
        if (!roomy)
            return false;
        g_ptr_array_add(open, t);
        g_ptr_array_add(cases, roomy);
    }
    EchSweepPoint *points = open->len ? run_cases(a, (EchCase **)cases->pdata, cases->len, error) : NULL;
    if (open->len && !points)
        return false;
    for (guint i = 0; i < open->len; i++) {
        Trial *t = open->pdata[i];
        g_autoptr(JsonNode) node = ech_sweep_point_json(&points[i]);
        if (!node) {
            t->row.error = g_strdup(points[i].error);
            continue;
        }
        t->row.run = ech_advise_run_of(a, json_node_get_object(node));
        t->roomy = true;
        settle(a, t);
    }
    ech_sweep_free(points, open->len);
    return true;
}

/* Whether compilers asked for jax.checkpoint have needed as much less than the pass says of making again, which is most of the way there. */
static bool is_near(const Advise *a, const EchAdviceRow *row)
{
    const EchBytes available = a->advice->available, base = a->advice->base.hbm, hbm = row->run.hbm;
    bool within = hbm > available && (double)hbm <= (double)available * g_ascii_strtod(a->advice->margin, NULL);
    return strcmp(row->name, PASS_REMAT) == 0 && (hbm <= available || (within && base > hbm && base - hbm > hbm - available));
}

/* Where no product has batch dimensions both policies keep the same: one row says so. */
static void drop_alike(Advise *a)
{
    const EchAdviceRow *cheap = NULL;
    for (guint i = 0; i < a->trials->len; i++) {
        const EchAdviceRow *row = &g_array_index(a->trials, Trial, i).row;
        if (strcmp(row->name, REMAT_CHEAP) == 0)
            cheap = row;
        if (cheap && strcmp(row->name, REMAT_BETWEEN) == 0 && row->run.hbm == cheap->run.hbm && row->run.makespan == cheap->run.makespan) {
            g_array_remove_index(a->trials, i);
            return;
        }
    }
}

/* What a policy of jax.checkpoint neither keeps nor sends to the host is made again, and the compiler fuses anew; the passes have the kernels that there are,
 * which make what could be made again along with what is kept. So a policy may do where checkpointing without one does. */
static void allow_policies(Advise *a)
{
    bool enough = false;
    for (guint i = 0; a->xla && i < a->trials->len; i++) {
        EchAdviceRow *row = &g_array_index(a->trials, Trial, i).row;
        row->run.narrow |= is_near(a, row) && !row->run.fits && !row->nothing && !row->error;
        enough |= strcmp(row->name, PASS_REMAT) == 0 && !row->error && !row->nothing && (row->run.fits || row->run.narrow);
    }
    const double most = POLICY_MARGIN * (double)a->advice->available;
    for (guint i = 0; enough && i < a->trials->len; i++) {
        EchAdviceRow *row = &g_array_index(a->trials, Trial, i).row;
        bool policy = ech_advise_is_policy(row->name) || strcmp(row->name, OFFLOADED_PRODUCTS) == 0;
        row->run.narrow |= policy && (double)row->run.hbm <= most && !row->run.fits && !row->nothing && !row->error;
    }
}

/* PyTorch makes again what parts of a model make, not arrays one by one, and torch.compile what it chooses: less than the pass's choice may be too little. */
static void allow_parts(Advise *a)
{
    for (guint i = 0; a->pytorch && i < a->trials->len; i++) {
        EchAdviceRow *row = &g_array_index(a->trials, Trial, i).row;
        bool parts = row->in_code && g_str_has_prefix(row->in_code, TORCH_PARTS) && row->run.fits;
        row->run.narrow |= parts;
        row->run.fits &= !parts;
    }
}

static void add_captures(Advise *a, const char *const *also)
{
    for (; also && *also; also++) {
        Trial t = {.trace = *also, .row = {.name = "captured", .captured = true, .label = g_path_get_basename(*also)}};
        g_array_append_val(a->trials, t);
    }
}

/* Larger devices of the family and maker, one of each size, the smallest first. */
static void add_devices(Advise *a, const EchDevice *device)
{
    for (char **setting = a->base->settings; *setting; setting++) {
        if (strstr(*setting, "memories.hbm."))
            return; /* would be said of each of them */
    }
    const EchBytes here = a->advice->available + a->advice->context, needed = ech_bytes_add(a->advice->base.hbm, a->advice->context);
    g_autoptr(GPtrArray) larger = ech_device_with_room(device->family, ech_device_is_amd(device), MAX(here + 1, needed));
    g_autoptr(GPtrArray) sizes = ech_device_of_each_size(larger);
    for (guint i = 0; i < MIN(sizes->len, MOST_DEVICES); i++) {
        const EchDevice *other = sizes->pdata[i];
        Trial t = {.row = {.name = "device", .device = true, .label = g_strdup(other->name), .options = g_strdup_printf("--device %s", other->name)}};
        g_array_append_val(a->trials, t);
    }
}

/* "move 2 blocks from cuda:0 to cuda:1: then 6 on cuda:0 (8.1 GiB), 5 on cuda:1 from model.layers.6 (7.9 GiB); device_map=..." */
static const char *code_of_spread(const EchSpread *spread)
{
    g_autoptr(GString) text = g_string_new("move ");
    bool any = false;
    for (size_t i = 0, was = 0, now = 0; i + 1 < spread->n; i++) { /* over each border */
        const EchSpreadDevice *d = &spread->devices[i], *next = d + 1;
        was += d->was;
        now += d->now;
        if (was == now)
            continue;
        size_t moved = was > now ? was - now : now - was;
        g_string_append_printf(text, "%s%zu%s from cuda:%u to cuda:%u", any ? ", " : "", moved,
                               any          ? ""
                               : moved == 1 ? " block"
                                            : " blocks",
                               was > now ? d->device : next->device, was > now ? next->device : d->device);
        any = true;
    }
    const EchSpreadDevice *last = NULL; /* that has any */
    for (size_t i = 0; i < spread->n; i++) {
        const EchSpreadDevice *d = &spread->devices[i];
        g_autofree char *bytes = ech_format_bytes(d->after), *n = d->now > 0 ? g_strdup_printf("%zu", d->now) : g_strdup("none");
        g_string_append_printf(text, "%s%s on cuda:%u%s%s (%s)", i > 0 ? ", " : ": then ", n, d->device, i > 0 && d->first ? " from " : "",
                               i > 0 && d->first ? d->first : "", bytes);
        last = d->first ? d : last;
    }
    g_string_append_printf(text,
                           ", by device_map={..., \"%s\": %u, ...} of from_pretrained in place of \"auto\", or .to(\"cuda:%u\") where the program places them",
                           last->first, last->device, last->device);
    return g_intern_string(text->str);
}

/* Blocks divided anew between the devices of a process: told by what each holds, not by a run. */
static void add_spread(Advise *a, const EchResult *result)
{
    EchAdvice *advice = a->advice;
    if (advice->n_devices == 0 || !a->pytorch || !advice->blocks || *result->passes || ech_yaml_get(a->base->config, "step"))
        return;
    const EchImport *import = ech_experiment_import_case(a->experiment, a->base, NULL);
    g_autoptr(EchSpread) spread = import ? ech_spread_new(import->trace, advice->blocks) : NULL;
    if (!spread)
        return;
    EchAdviceRun run = {.host = advice->base.host};
    EchBytes reserved = 0;
    for (size_t i = 0; i < spread->n; i++)
        for (size_t k = 0; k < advice->n_devices; k++) {
            const EchSpreadDevice *d = &spread->devices[i];
            EchBytes with = ech_bytes_add(d->after, advice->devices[k].hbm);
            if (advice->devices[k].number != d->device)
                continue;
            run.hbm = MAX(run.hbm, with - MIN(with, d->before));
            reserved = MAX(reserved, with - MIN(with, d->before) + advice->devices[k].beside);
        }
    run.fits = reserved <= advice->available;
    run.narrow = !run.fits && run.hbm <= advice->available;
    run.makespan = a->in_turn && (run.fits || run.narrow) ? advice->base.makespan : 0;
    if (run.hbm + advice->base.hbm / WORTH > advice->base.hbm)
        return;
    Trial t = {.row = {.name = "spread", .spread = true, .label = g_strdup("blocks divided anew between GPUs"), .in_code = code_of_spread(spread), .run = run},
               .done = true};
    g_array_append_val(a->trials, t);
}

static void add_measures(Advise *a, When when)
{
    for (size_t i = 0; i < ech_advise_n_measures; i++) {
        const Measure *m = &ech_advise_measures[i];
        const char *in_code = ech_advise_code_for(a, m);
        if (m->when != when || !in_code)
            continue;
        Trial t = {.measure = m,
                   .row = {.name = m->name,
                           .label = g_strdup(m->label),
                           .paged = when == PAGED,
                           .several = when == MORE,
                           .donated = a->donates && may_donate(m),
                           .in_code = a->pytorch || a->xla ? in_code : NULL}};
        g_array_append_val(a->trials, t);
    }
}

/* What holds for all runs, as the command line and PyTorch's recording have it. */
static char **given(const Advise *a, const EchResult *result)
{
    g_autoptr(GStrvBuilder) all = g_strv_builder_new();
    for (char **edit = a->experiment->cases[0].edits; *edit; edit++)
        g_strv_builder_add(all, *edit);
    for (char **pass = result->passes; *pass; pass++) {
        g_autofree char *text = g_strconcat("pass ", *pass, NULL);
        g_strv_builder_add(all, text);
    }
    const EchYamlNode *allocator = ech_yaml_get(a->base->config, "allocator");
    const char *spec = allocator && allocator->kind == ECH_YAML_SCALAR ? allocator->text : result->allocator;
    if (spec) {
        g_autofree char *text = g_strconcat("allocator ", spec, allocator ? "" : ", as recorded", NULL);
        g_strv_builder_add(all, text);
    }
    return g_strv_builder_end(all);
}

EchAdviceRank ech_advice_rank(const EchAdviceRow *row)
{
    return row->error                      ? ERROR
           : row->nothing                  ? NOTHING
           : row->paged                    ? PAGES
           : row->device && row->run.fits  ? DEVICES
           : row->several && row->run.fits ? SEVERAL
           : row->run.fits                 ? FITS
           : row->run.narrow               ? MAY_FIT
                                           : NOT_ENOUGH;
}

/* Of what may fit, what does most often comes first: making again, then what sends to the host, last what has no room with the kernels that there are. */
typedef enum { AGAIN, SENT, NO_TIME } Doubt;

static Doubt doubt(const EchAdviceRow *row)
{
    return strcmp(row->name, PASS_REMAT) == 0 ? AGAIN : row->run.makespan > 0 ? SENT : NO_TIME;
}

/* @data: the EchTime up to which one is as quick as the quickest: of those, what a person would try first. Devices: the smallest first. */
static int compare_rows(const void *a, const void *b, void *data)
{
    const EchAdviceRow *x = a, *y = b;
    if (ech_advice_rank(x) != ech_advice_rank(y))
        return (int)ech_advice_rank(x) - (int)ech_advice_rank(y);
    if (ech_advice_rank(x) == DEVICES)
        return 0;
    const bool untimed[] = {x->spread && x->run.makespan == 0, y->spread && y->run.makespan == 0};
    if (untimed[0] != untimed[1])
        return (int)untimed[0] - (int)untimed[1];
    EchTime quick = *(const EchTime *)data, p = MAX(x->run.makespan, quick), q = MAX(y->run.makespan, quick);
    if (x->run.fits)
        return (p > q) - (p < q);
    if (x->run.narrow && doubt(x) != doubt(y))
        return (int)doubt(x) - (int)doubt(y);
    if (x->run.narrow && doubt(x) < NO_TIME)
        return (x->run.makespan > y->run.makespan) - (x->run.makespan < y->run.makespan);
    return (x->run.hbm > y->run.hbm) - (x->run.hbm < y->run.hbm);
}

/* The memory that a row's numbers are of, where that is not the device's: what schedules, pages and places goes by it. */
static void tell_memory(const Advise *a, Trial *t, const EchDevice *device)
{
    const char *size = t->roomy ? ROOMY : a->memory;
    EchBytes bytes = 0;
    if (!size || !t->row.options || !ech_parse_bytes(size, &bytes, NULL))
        return;
    bool more = bytes > ech_device_memory(device, "hbm")->capacity;
    g_autofree char *capacity = more ? g_strdup_printf("--set device.memories.hbm.capacity=%s ", size) : g_strdup("");
    g_autofree char *options = g_steal_pointer(&t->row.options);
    t->row.options = g_strdup_printf("%s--set device.memories.hbm.available=%s %s", capacity, size, options);
}

/* In their order; equal ones as they stand in the table. */
static void take_rows(Advise *a, const EchDevice *device)
{
    EchAdvice *advice = a->advice;
    advice->n = a->trials->len;
    advice->rows = g_new(EchAdviceRow, advice->n + 1);
    for (guint i = 0; i < a->trials->len; i++) {
        Trial *t = &g_array_index(a->trials, Trial, i);
        tell_memory(a, t, device);
        advice->rows[i] = t->row;
        t->row = (EchAdviceRow){0};
    }
    EchTime quickest = G_MAXINT64;
    for (size_t i = 0; i < advice->n; i++)
        quickest = ech_advice_rank(&advice->rows[i]) == FITS && advice->rows[i].run.makespan > 0 ? MIN(quickest, advice->rows[i].run.makespan) : quickest;
    EchTime quick = quickest < G_MAXINT64 / 2 ? quickest + quickest / AS_QUICK : 0;
    g_qsort_with_data(advice->rows, (gint)advice->n, sizeof *advice->rows, compare_rows, &quick);
}

/* ---- the largest batch ---- */

/* Runs with batches of @n sizes, ascending: *@fit is the largest that has room and its run, where one has that is larger, *@over the smallest that has none. */
static bool try_batches(Advise *a, const uint64_t *sizes, size_t n, uint64_t *fit, uint64_t *over, GError **error)
{
    EchCase *cases[PROBES];
    for (size_t i = 0; i < n; i++) {
        g_autofree char *spec = g_strdup_printf("batch:rows=%" G_GUINT64_FORMAT, sizes[i]);
        cases[i] = vary(a->base, "passes", spec, error);
        if (!cases[i]) {
            while (i-- > 0)
                ech_case_free(cases[i]);
            return false;
        }
    }
    EchSweepPoint *points = run_cases(a, cases, n, error);
    for (size_t i = 0; points && i < n && sizes[i] < *over; i++) {
        g_autoptr(JsonNode) node = ech_sweep_point_json(&points[i]);
        EchAdviceRun run = node ? ech_advise_run_of(a, json_node_get_object(node)) : (EchAdviceRun){0};
        if (run.fits && sizes[i] > *fit) {
            *fit = sizes[i];
            a->advice->most = run;
        } else if (!run.fits)
            *over = sizes[i];
    }
    ech_sweep_free(points, points ? n : 0);
    return points != NULL;
}

/* What a batch of one row needs, which has no room; of a batch that is one already, which part of that row has. */
static bool learn_least(Advise *a, GError **error)
{
    static const char *const parts[] = {"batch:times=0.5", "batch:times=0.25", "batch:times=0.125"};
    const bool one = a->advice->batch == 1;
    for (size_t i = 0; i < (one ? G_N_ELEMENTS(parts) : 1) && a->advice->row_parts == 0; i++) {
        EchCase *c = vary(a->base, "passes", one ? parts[i] : "batch:rows=1", error), *roomy = c ? ech_advise_vary_memory(c, ROOMY, error) : NULL;
        ech_case_free(c);
        EchSweepPoint *points = roomy ? run_cases(a, &roomy, 1, error) : NULL;
        g_autoptr(JsonNode) node = points ? ech_sweep_point_json(points) : NULL;
        if (node)
            a->advice->most = ech_advise_run_of(a, json_node_get_object(node));
        a->advice->most.fits = false;
        a->advice->row_parts = node && one && a->advice->most.hbm <= a->advice->available ? (uint64_t)2 << i : 0;
        ech_sweep_free(points, points ? 1 : 0);
        if (!points)
            return false;
    }
    return true;
}

/* The largest batch that has room as the program is. */
static bool find_batch(Advise *a, GError **error)
{
    const uint64_t rows = a->advice->batch;
    uint64_t fit = a->advice->base.fits ? rows : 0, over = a->advice->base.fits ? UINT64_MAX : rows;
    bool ok = true;
    a->advice->most = a->advice->base;
    for (uint64_t times = 2; ok && over == UINT64_MAX && times <= MOST_TIMES; times *= 8) {
        const uint64_t sizes[PROBES] = {rows * times, rows * times * 2, rows * times * 4};
        ok = try_batches(a, sizes, PROBES, &fit, &over, error);
    }
    while (ok && over != UINT64_MAX && over - fit > 1) {
        uint64_t sizes[PROBES];
        size_t n = 0;
        for (uint64_t k = 1; k <= PROBES; k++) {
            uint64_t size = fit + (over - fit) / (PROBES + 1) * k + (over - fit) % (PROBES + 1) * k / (PROBES + 1);
            if (size > fit && size < over && (n == 0 || size > sizes[n - 1]))
                sizes[n++] = size;
        }
        ok = try_batches(a, sizes, n, &fit, &over, error);
    }
    a->advice->most_batch = fit;
    a->advice->more_batch = over == UINT64_MAX;
    return ok && (fit > 0 || learn_least(a, error));
}

EchAdvice *ech_advise(EchExperiment *experiment, const char *memory, const char *const *also, unsigned jobs, const volatile sig_atomic_t *stop,
                      EchSweepProgress progress, void *data, GError **error)
{
    g_autoptr(EchAdvice) advice = g_new0(EchAdvice, 1);
    /* All on one engine, so that times compare. */
    EchCase *base = vary(&experiment->cases[0], "replay.engine", "native", error);
    if (base && memory) {
        EchCase *limited = ech_advise_vary_memory(base, memory, error);
        ech_case_free(base);
        base = limited;
    }
    if (!base)
        return NULL;
    experiment->least_cache = true;
    Advise a = {.experiment = experiment,
                .base = base,
                .memory = memory,
                .alone = ech_yaml_get(base->config, "step") != NULL,
                .advice = advice,
                .trials = g_array_new(FALSE, TRUE, sizeof(Trial)),
                .jobs = jobs,
                .stop = stop,
                .progress = progress,
                .data = data};
    g_array_set_clear_func(a.trials, trial_clear);
    g_autoptr(GPtrArray) results = NULL;
    EchResult *result = NULL;
    bool ok = ech_advise_run_base(&a, &results, &result, error);
    if (ok) {
        advice->device = g_strdup(result->device->name);
        advice->summary = g_strdup(result->device->summary);
        advice->title = g_strdup(experiment->title);
        advice->given = given(&a, result);
    }
    const bool done = ok && advice->kernel && advice->base.fits; /* of hbm it needs no less */
    if (ok && !done) {
        advice->to_capture = ech_advise_measures_to_capture(&a, result->trace, also);
        if (a.pytorch && !advice->base.fits && advice->live_fits)
            add_measures(&a, FRAGMENTED);
        add_captures(&a, also);
        add_spread(&a, result);
        add_measures(&a, ALWAYS);
        if (!advice->base.fits) {
            add_measures(&a, SHORT);
            add_devices(&a, result->device);
            add_measures(&a, MORE);
        }
        ok = run_rounds(&a, error);
        leave_whole_stacks(&a);
    }
    if (ok && !done) {
        ok = try_donated(&a, is_enough(&a), error);
        leave_whole_stacks(&a);
    }
    if (ok && !done && !is_enough(&a)) {
        add_measures(&a, LAST);
        ok = run_rounds(&a, error);
    }
    if (ok && a.pytorch && !advice->base.fits)
        ok = try_growing(&a, error);
    if (ok && !advice->base.fits && strcmp(result->device->family, "gpu") == 0 && !ech_device_is_amd(result->device)) {
        add_measures(&a, PAGED);
        ok = run_rounds(&a, error);
    }
    ok = ok && (done || learn_needs(&a, error)) && (advice->batch == 0 || find_batch(&a, error));
    if (ok) {
        drop_alike(&a);
        allow_policies(&a);
        allow_parts(&a);
        take_rows(&a, result->device);
    }
    g_array_unref(a.trials);
    ech_case_free(a.base);
    return ok ? g_steal_pointer(&advice) : NULL;
}

void ech_advice_free(EchAdvice *advice)
{
    if (!advice)
        return;
    for (size_t i = 0; i < advice->n; i++)
        row_clear(&advice->rows[i]);
    g_free(advice->rows);
    g_free(advice->title);
    g_free(advice->kernel);
    g_free(advice->device);
    g_free(advice->devices);
    g_free(advice->summary);
    g_strfreev(advice->given);
    g_strfreev(advice->holds);
    g_free(advice->step);
    g_free(advice->undonated);
    g_free(advice->blocks);
    g_free(advice->to_capture);
    g_free(advice);
}

bool ech_advice_helps(const EchAdvice *advice)
{
    if (advice->kernel)
        return false;
    bool helps = advice->base.fits;
    for (size_t i = 0; i < advice->n; i++)
        helps |= ech_advice_rank(&advice->rows[i]) == FITS || ech_advice_rank(&advice->rows[i]) == DEVICES || ech_advice_rank(&advice->rows[i]) == SEVERAL;
    return helps;
}
