/* remat: arrays are made again instead of being kept, as JAX's jax.checkpoint, PyTorch's torch.utils.checkpoint or XLA's rematerialisation would have it.
 *
 * Which ones: those that bring down what the device holds at its fullest, cheapest first, until that is little enough or nothing brings it further down. Or,
 * with modules, all that a forward pass makes within a module of PyTorch and uses nowhere else: as if each were called through torch.utils.checkpoint. */
#include "sim/pass/batch.h"
#include "sim/pass/compiled.h"
#include "sim/pass/pass.h"
#include "sim/pass/remat.h"
#include "sim/pass/schedule.h"

#include <string.h>

/* Tries that each look at the whole trace. */
#define MAX_TRIES 2000
/* Times as many arrays at once, of so many that they are not tried one by one. */
#define MANY 8
/* What is chosen is timed, which writes a whole trace, where it holds less by so much of what there was at first; and in the end. */
#define TIMED_STEPS 512

typedef struct {
    uint64_t products;
    char *names, *keep, *modules;
    EchBytes above, memory;
} RematOptions;

static const EchParam remat_params[] = {
    {"names", ECH_PARAM_STRING, offsetof(RematOptions, names), "*", NULL, NULL, NULL,
     "only arrays whose name, operation or source line (\"*model.py:29*\") fits this, * standing for anything"},
    {"keep", ECH_PARAM_STRING, offsetof(RematOptions, keep), "", NULL, NULL, NULL,
     "none that fits this, as JAX's save_only_these_names has it; products: as its policies for dots have it, with convolutions"},
    {"above", ECH_PARAM_BYTES, offsetof(RematOptions, above), "64KiB", NULL, NULL, NULL, "only arrays of at least this size"},
    {"memory", ECH_PARAM_BYTES, offsetof(RematOptions, memory), "0", NULL, NULL, NULL,
     "only as many arrays, cheapest first, as bring what the device holds at its fullest down to this; 0: as far down as they can"},
    {"modules", ECH_PARAM_STRING, offsetof(RematOptions, modules), "", NULL, NULL, NULL,
     "of each module of PyTorch whose path fits this (\"layers.*\", \"encoder.*+decoder.*\"), all that its forward pass makes but its results, whatever that "
     "brings, as torch.utils.checkpoint has it"},
    {"products", ECH_PARAM_BOOL, offsetof(RematOptions, products), "true", NULL, NULL, NULL,
     "true: anything may run again; false: no matrix products, as JAX's dots_saveable has it"},
    {NULL, ECH_PARAM_U64, 0, NULL, NULL, NULL, NULL, NULL},
};

static const char *const reasons[] = {
    [ECH_REMAT_OK] = "",
    [ECH_REMAT_ALIASED] = "parts go by other names",
    [ECH_REMAT_REMADE] = "made more than once",
    [ECH_REMAT_PARTS] = "made in parts",
    [ECH_REMAT_COPIED] = "brought by copies from elsewhere",
    [ECH_REMAT_SENT] = "sent by another rank, once",
    [ECH_REMAT_GONE] = "made of what is overwritten by then",
    [ECH_REMAT_PRODUCT] = "matrix products would have to run again (products=true)",
    [ECH_REMAT_DEEP] = "too much would have to run again",
    [ECH_REMAT_LONG] = "the loops behind them take longer than they are not needed for",
    [ECH_REMAT_OUTSIDE] = "a loss's, or outside of loops over blocks: in no block that would be under jax.checkpoint (names=... says otherwise)",
};

/* Choosing */

static bool has_loops(const EchRemat *r)
{
    bool any = false;
    for (guint k = 0; k < r->runs->len; k++)
        any |= r->s->ops[ech_remat_run(r, k)->op].kind == ECH_OP_LOOP;
    return any;
}

/* Whether most of what could be made again is stacked up by loops: the program's blocks are a scan's body, and what is around that, weights in another type and
 * a loss, say, no part of them. */
static bool is_scan(const EchRemat *r)
{
    EchBytes stacks = 0, others = 0;
    for (guint k = 0; k < r->arrays->len; k++) {
        const EchRematArray *a = ech_remat_array(r, k);
        EchBytes *sum = a->made_in != ECH_NONE ? &stacks : &others;
        *sum = ech_bytes_add(*sum, r->s->buffers[a->buffer].bytes);
    }
    return stacks > others;
}

/* Each array alone: whether it can be made again, and what it takes. Those that cannot are taken off; and copies of slices of what can, which need no more be
 * copied then. */
static void price_arrays(EchRemat *r)
{
    g_autofree bool *kept = g_new0(bool, r->arrays->len + 1);
    const bool all = strcmp(r->asked.names, "*") == 0, scan = all && is_scan(r);
    g_autofree bool *logits = ech_batch_logits(r->s, all ? ech_trace_get_property(r->s->t, ECH_TRACE_LOGITS) : NULL);
    for (guint k = 0; k < r->arrays->len; k++) {
        EchRematArray *a = ech_remat_array(r, k);
        EchRematReason why = ech_remat_plan_alone(r, k);
        EchBytes bytes = r->s->buffers[a->buffer].bytes;
        EchTime time = ech_remat_time(r);
        if (why == ECH_REMAT_OK && a->made_in == ECH_NONE && time > a->pause && has_loops(r))
            why = ECH_REMAT_LONG;
        if (why == ECH_REMAT_OK && a->made_in == ECH_NONE && a->level == ECH_NONE && (scan || logits[a->buffer]))
            why = ECH_REMAT_OUTSIDE;
        if (why != ECH_REMAT_OK)
            ech_remat_decline(r, a, why);
        kept[k] = why == ECH_REMAT_OK;
        a->price = (double)time / (double)bytes;
    }
    for (guint k = 0; k < r->arrays->len; k++) {
        EchId stack = r->slice_of[ech_remat_array(r, k)->buffer];
        if (stack != ECH_NONE && kept[r->array_of[stack]])
            kept[k] = false;
    }
    ech_remat_keep_arrays(r, kept);
}

/* Whether @a would not be on the device before op @at. */
static bool is_away(const EchRematArray *a, EchId at)
{
    return a->made_in != ECH_NONE ? at > a->gone && (a->free == ECH_NONE || at <= a->free) : at >= a->gone && at < a->back;
}

/* Chooses the array that costs least of those that could be away before op @at and were not tried; UINT32_MAX where there is none. */
static uint32_t choose_cheapest(const EchRemat *r, EchId at)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t k = 0; k < r->arrays->len; k++) {
        const EchRematArray *a = ech_remat_array(r, k);
        if (!a->chosen && !a->tried && is_away(a, at) && (best == UINT32_MAX || a->price < ech_remat_array(r, best)->price))
            best = k;
    }
    if (best != UINT32_MAX)
        ech_remat_array(r, best)->chosen = ech_remat_array(r, best)->tried = true;
    return best;
}

/* The next to be chosen at op @at, @most of them. */
static void choose_next(const EchRemat *r, EchId at, guint most, GArray *ret_picked)
{
    g_array_set_size(ret_picked, 0);
    for (uint32_t k; ret_picked->len < most && (k = choose_cheapest(r, at)) != UINT32_MAX;)
        g_array_append_val(ret_picked, k);
}

/* They are not chosen after all; one alone does not help as it is. */
static void take_back(const EchRemat *r, const GArray *picked)
{
    for (guint k = 0; k < picked->len; k++) {
        EchRematArray *a = ech_remat_array(r, g_array_index(picked, uint32_t, k));
        a->chosen = false;
        a->tried = picked->len == 1;
    }
}

static void forget_tries(const EchRemat *r)
{
    for (guint k = 0; k < r->arrays->len; k++)
        ech_remat_array(r, k)->tried = false;
}

static EchId fullest(const EchSurvey *s, const int64_t *live)
{
    EchId peak = 0;
    for (EchId i = 1; i <= s->n; i++)
        peak = live[i] > live[peak] ? i : peak;
    return peak;
}

/* A choice of arrays, and what it comes to. */
typedef struct {
    bool stacks; /* It begins with all that loops stack up; else with nothing. */
    guint more;  /* Of those chosen one after the other from there on, so many. */
    int64_t most;
    EchTime time; /* ECH_TIME_MAX until somebody asks: see time_of. */
} Outcome;

/* A trace's arrays, and all that a choice of them was found to come to. */
typedef struct {
    EchTrace *trace;
    EchSurvey survey;
    EchRemat remat;
    int64_t most;         /* Bytes that the device holds at its fullest by what is chosen. */
    int64_t *live, *then; /* Before each op: by what is chosen; by what is tried. */
    guint tries;
    bool tired;
    GArray *order[2]; /* uint32_t: arrays in the order they were chosen; [1]: after all stacks. */
    GArray *outcomes; /* Outcome */
} Round;

static void round_clear(Round *c)
{
    ech_remat_clear(&c->remat);
    ech_survey_clear(&c->survey);
    g_clear_pointer(&c->trace, ech_trace_unref);
    g_clear_pointer(&c->live, g_free);
    g_clear_pointer(&c->then, g_free);
    g_clear_pointer(&c->order[0], g_array_unref);
    g_clear_pointer(&c->order[1], g_array_unref);
    g_clear_pointer(&c->outcomes, g_array_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Round, round_clear)

/* False where there is nothing to survey. */
static bool round_init(Round *c, EchTrace *trace, const EchDevice *device, const EchRematAsked *asked)
{
    c->trace = ech_trace_ref(trace);
    if (!ech_survey_init(&c->survey, trace, device))
        return false;
    ech_remat_init(&c->remat, &c->survey, asked);
    price_arrays(&c->remat);
    c->live = g_new(int64_t, c->survey.n + 1);
    c->then = g_new(int64_t, c->survey.n + 1);
    c->order[0] = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    c->order[1] = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    c->outcomes = g_array_new(FALSE, FALSE, sizeof(Outcome));
    return true;
}

static void begin_with(EchRemat *r, bool stacks)
{
    for (guint k = 0; k < r->arrays->len; k++) {
        EchRematArray *a = ech_remat_array(r, k);
        a->chosen = stacks && a->made_in != ECH_NONE;
        a->tried = false;
    }
}

/* What is chosen is one of those to choose from in the end. */
static void note(Round *c, bool stacks)
{
    Outcome o = {stacks, c->order[stacks]->len, c->most, ECH_TIME_MAX};
    g_array_append_val(c->outcomes, o);
}

/* What was noted last, of the least memory so far. */
static int64_t noted(const Round *c)
{
    return g_array_index(c->outcomes, Outcome, c->outcomes->len - 1).most;
}

/* From what is chosen on: at the fullest moment, of what could be away then, what costs least; until nothing helps. Of so many arrays that there are too few
 * tries, several at once, many more where that does not lead past @goal, and what did not help is tried again when all others were. */
static void descend(Round *c, bool stacks, int64_t goal)
{
    EchRemat *r = &c->remat;
    const EchSurvey *s = r->s;
    begin_with(r, stacks);
    c->most = ech_remat_plan(r) == ECH_REMAT_OK ? ech_remat_live(r, c->live) : INT64_MAX;
    if (c->most == INT64_MAX)
        return;
    note(c, stacks);
    int64_t step = MAX(c->most / TIMED_STEPS, 1);
    const guint several = 1 + r->arrays->len / (MAX_TRIES / 2);
    const guint many = several > 1 ? MANY * several : 1;
    guint suspect = 0; /* of the next so many one at least does not help */
    bool helped = false, near = false;
    g_autoptr(GArray) picked = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (c->tries = 0; c->tries < MAX_TRIES; c->tries++) {
        EchId peak = fullest(s, c->live);
        choose_next(r, peak, suspect > 1 ? suspect / 2 : suspect > 0 ? 1 : near ? several : many, picked);
        if (picked->len == 0 && !helped)
            break;
        if (picked->len == 0) {
            forget_tries(r);
            helped = false;
            continue;
        }
        int64_t now = ech_remat_plan(r) == ECH_REMAT_OK ? ech_remat_live(r, c->then) : INT64_MAX;
        if (now > c->most || (now == c->most && c->then[peak] >= c->live[peak])) {
            take_back(r, picked);
            suspect = picked->len > 1 ? picked->len : 0;
            continue;
        }
        if (now <= goal && c->most > goal && picked->len > several) {
            take_back(r, picked);
            near = true;
            suspect = 0;
            continue;
        }
        near &= now > goal;
        suspect -= MIN(suspect, picked->len);
        c->most = now;
        memcpy(c->live, c->then, (s->n + 1) * sizeof(int64_t));
        helped = several > 1;
        if (several == 1)
            forget_tries(r);
        g_array_append_vals(c->order[stacks], picked->data, picked->len);
        if (noted(c) - now >= step)
            note(c, stacks);
    }
    if (noted(c) > c->most && ech_remat_plan(r) == ECH_REMAT_OK)
        note(c, stacks);
}

/* One array after the other; and all that loops stack up at once, as jax.checkpoint around a scan's body has it: what makes one of them again makes others,
 * which each alone may only make room for. Nothing where what is there is little enough. */
static void explore(Round *c, int64_t goal)
{
    EchRemat *r = &c->remat;
    bool stacks = false;
    for (guint k = 0; k < r->arrays->len; k++)
        stacks |= ech_remat_array(r, k)->made_in != ECH_NONE;
    begin_with(r, false);
    if (ech_remat_plan(r) != ECH_REMAT_OK || ech_remat_live(r, c->live) <= goal)
        return;
    descend(c, false, goal);
    c->tired = c->tries == MAX_TRIES;
    if (stacks)
        descend(c, true, goal);
    c->tired |= c->tries == MAX_TRIES;
}

static void plan_for(Round *c, const Outcome *o)
{
    begin_with(&c->remat, o->stacks);
    for (guint k = 0; k < o->more; k++)
        ech_remat_array(&c->remat, g_array_index(c->order[o->stacks], uint32_t, k))->chosen = true;
    (void)ech_remat_plan(&c->remat);
}

/* How long the device takes by @o, of @c. To tell it the trace is written: most of the time that the pass takes, so only where memory does not decide. */
static EchTime time_of(Round *c, Outcome *o)
{
    if (o->time == ECH_TIME_MAX) {
        plan_for(c, o);
        o->time = ech_remat_measure(&c->remat);
    }
    return o->time;
}

/* Of what is little enough memory the fastest, whatever was asked for: less room never takes less time. Where nothing is little enough, the least memory. */
static bool is_better(Round *of_a, Outcome *a, Round *of_b, Outcome *b, int64_t goal)
{
    int64_t more = MAX(a->most, goal), other = MAX(b->most, goal);
    if (more != other)
        return more < other;
    EchTime time = time_of(of_a, a), others = time_of(of_b, b);
    return time != others ? time < others : a->most < b->most;
}

/* NULL where nothing was explored. */
static Outcome *best_of(Round *c, int64_t goal)
{
    Outcome *best = NULL;
    for (guint k = c->outcomes->len; k-- > 0;) { /* the later the less memory: from the end on, few times are asked for */
        Outcome *o = &g_array_index(c->outcomes, Outcome, k);
        best = best == NULL || !is_better(c, best, c, o, goal) ? o : best;
    }
    return best;
}

/* Of loops that run again inside of another, what they stack up there: as if the bodies of both were under jax.checkpoint. */
static void explore_nested(Round *nested, Round *c, const EchRematAsked *asked)
{
    g_autoptr(EchDiag) unsaid = ech_diag_new();
    const Outcome *least = best_of(c, 0);
    if (least == NULL)
        return;
    plan_for(c, least);
    if (!has_loops(&c->remat))
        return;
    g_autoptr(EchTrace) made = ech_remat_write(&c->remat, unsaid, NULL);
    EchRematAsked within = *asked;
    within.nested = true;
    if (made != NULL && round_init(nested, made, c->survey.device, &within) && nested->remat.arrays->len > 0)
        explore(nested, 0); /* whatever was asked for: it may be faster, too */
}

/* The plan, in @c, and what then is to be made again of what it makes, in @nested, if there is any. */
static bool choose(Round *c, Round *nested, EchBytes memory, const EchRematAsked *asked, EchDiag *diag)
{
    int64_t goal = (int64_t)MIN(memory, INT64_MAX);
    explore(c, goal);
    explore_nested(nested, c, asked);
    Outcome *best = best_of(c, goal), *more = nested->outcomes != NULL ? best_of(nested, goal) : NULL;
    if (best == NULL)
        return false;
    bool both = more != NULL && is_better(nested, more, c, best, goal);
    plan_for(c, both ? best_of(c, 0) : best);
    if (both)
        plan_for(nested, more);
    int64_t most = both ? more->most : best->most;
    if (memory > 0 && most > goal) {
        g_autofree char *bytes = ech_format_bytes((EchBytes)most);
        ech_diag_remark(diag, "remat: %s are left at the fullest moment, %s", bytes,
                        c->tired ? "after as many tries as are made" : "in use there or dearer to bring back");
    } else if (memory == 0 && c->tired)
        ech_diag_remark(diag, "remat: stopped after %d tries, where more arrays might be made again; above=SIZE leaves out small ones", MAX_TRIES);
    return both;
}

static void say_declined(const EchRemat *r, EchDiag *diag)
{
    for (int k = ECH_REMAT_OK + 1; k < ECH_REMAT_N_REASONS; k++)
        if (r->declined[k] > 0) {
            g_autofree char *bytes = ech_format_bytes(r->declined_bytes[k]);
            ech_diag_remark(diag, "remat: %u array%s (%s) kept: %s", r->declined[k], r->declined[k] == 1 ? "" : "s", bytes, reasons[k]);
        }
}

/* Why no array that could be made again is: what the device holds is little enough, or it is held where none of them is away. */
static void say_unmoved(const RematOptions *o, const EchRemat *r, EchDiag *diag)
{
    EchBytes most = r->s->live[r->fullest];
    g_autofree char *held = ech_format_bytes(most), *asked = ech_format_bytes(o->memory);
    if (most <= o->memory)
        ech_diag_remark(diag, "remat: left the trace as it is: it holds %s at its fullest, no more than the %s that it may", held, asked);
    else
        ech_diag_remark(diag, "remat: left the trace as it is: of the %s that it holds at its fullest, making arrays again (%u could be) saves nothing", held,
                        r->arrays->len);
}

static void say_nothing(const RematOptions *o, const EchRemat *r, bool fitting, EchDiag *diag)
{
    if (!fitting && r->arrays->len > 0)
        ech_diag_remark(diag, "remat: left the trace as it is: no module of PyTorch whose path fits '%s' makes arrays that wait; 'run' names modules",
                        o->modules);
    else if (r->arrays->len > 0)
        say_unmoved(o, r, diag);
    else {
        g_autoptr(GPtrArray) arguments = ech_survey_unnamed(r->s, o->names), none = g_ptr_array_new(); /* what is made again is no argument */
        g_autofree char *unnamed = arguments ? ech_pass_unnamed(o->names, none) : NULL;
        g_autofree char *untold = ech_users_of_arrays(&r->users, r->s) ? NULL : ech_users_untold(r->s);
        ech_diag_remark(diag, "remat: left the trace as it is: %s", untold ? untold : unnamed ? unnamed : "no array fits what was asked for");
    }
}

/* The trace as modules' checkpoints are planned for it. */
static EchTrace *ready_for_modules(const RematOptions *o, const EchDevice *device, EchTrace *in, GError **error)
{
    g_auto(EchSurvey) survey = {0};
    g_autoptr(EchTrace) apart = ech_compiled_apart(in, device, o->modules, error);
    if (!apart || !ech_survey_init(&survey, apart, device))
        return g_steal_pointer(&apart);
    return ech_remat_keep_inputs(&survey, o->modules, o->products != 0, error);
}

static EchTrace *remat_run(const void *options, const EchDevice *device, EchTrace *in, EchDiag *diag, GError **error)
{
    const RematOptions *o = options;
    const EchRematAsked asked = {.names = o->names, .keep = o->keep, .above = o->above, .products = o->products};
    g_auto(Round) round = {0}, nested = {0};
    g_autoptr(EchTrace) ready = *o->modules == '\0' ? ech_schedule_sooner(in, device, error) : ready_for_modules(o, device, in, error);
    if (ready == NULL)
        return NULL;
    if (!round_init(&round, ready, device, &asked)) {
        ech_diag_remark(diag, "remat: left the trace as it is: it has no device memory 'hbm', or nothing computes in it");
        return ech_trace_ref(in);
    }
    bool modules = *o->modules != '\0', fitting = !modules || ech_remat_choose_modules(&round.remat, o->modules);
    bool both = !modules && choose(&round, &nested, o->memory, &asked, diag);
    bool any = round.remat.runs->len > 0 || round.remat.inputs->len > 0;
    if (!any)
        say_nothing(o, &round.remat, fitting, diag);
    g_autoptr(EchTrace) out = any ? ech_remat_write(&round.remat, diag, error) : ech_trace_ref(in);
    if (any && round.remat.in_graph)
        ech_diag_remark(
            diag, "remat: these modules are parts of a graph of torch.compile, which decides itself when gradients are computed: 14 steps checkpointed so "
                  "took 0.8 to " ECH_REMAT_GRAPH_MARGIN " times the memory that is told; " ECH_REMAT_APART);
    say_declined(&round.remat, diag);
    if (!both || out == NULL)
        return g_steal_pointer(&out);
    ech_diag_remark(diag, "remat: what loops inside of loops stack up is made again, too: the bodies of both would be under jax.checkpoint");
    return ech_remat_write(&nested.remat, diag, error);
}

static EchBytes remat_goal(const void *options)
{
    return ((const RematOptions *)options)->memory;
}

const EchPassClass ech_pass_remat = {
    .name = "remat",
    .summary = "make saved activations again instead of keeping them",
    .source = "ours; what runs again: jax.checkpoint's nothing_saveable, dots_saveable (traces/gpu_aot/gpt6_remat, tpu_aot/*nothing*)",
    .params = remat_params,
    .options_size = sizeof(RematOptions),
    .goal = remat_goal,
    .of_tensors = true,
    .trace = remat_run};
