/* remat: arrays are made again instead of being kept, as JAX's jax.checkpoint, PyTorch's torch.utils.checkpoint or XLA's rematerialisation would have it.
 *
 * Which ones: those that bring down what the device holds at its fullest, cheapest first, until that is little enough or nothing brings it further down. Or,
 * with modules, all that a forward pass makes within a module of PyTorch and uses nowhere else: as if each were called through torch.utils.checkpoint. */
#include "sim/pass/pass.h"
#include "sim/pass/remat.h"

#include <string.h>

/* Tries that each look at the whole trace. */
#define MAX_TRIES 2000

typedef struct {
    uint64_t products;
    char *names, *keep, *modules;
    EchBytes above, memory;
} RematOptions;

static const EchParam remat_params[] = {
    {"names", ECH_PARAM_STRING, offsetof(RematOptions, names), "*", NULL, NULL, NULL,
     "only arrays whose name, operation or source line (\"*model.py:29*\") fits this, * standing for anything"},
    {"keep", ECH_PARAM_STRING, offsetof(RematOptions, keep), "", NULL, NULL, NULL, "none that fits this, as JAX's save_only_these_names has it"},
    {"above", ECH_PARAM_BYTES, offsetof(RematOptions, above), "64KiB", NULL, NULL, NULL, "only arrays of at least this size"},
    {"memory", ECH_PARAM_BYTES, offsetof(RematOptions, memory), "0", NULL, NULL, NULL,
     "only as many arrays, cheapest first, as bring what the device holds at its fullest down to this; 0: as far down as they can"},
    {"modules", ECH_PARAM_STRING, offsetof(RematOptions, modules), "", NULL, NULL, NULL,
     "of each module of PyTorch whose path fits this (\"layers.*\"), all that its forward pass makes but its results, whatever that brings, as "
     "torch.utils.checkpoint has it"},
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
};

/* Choosing */

static bool has_loops(const EchRemat *r)
{
    bool any = false;
    for (guint k = 0; k < r->runs->len; k++)
        any |= r->s->ops[ech_remat_run(r, k)->op].kind == ECH_OP_LOOP;
    return any;
}

/* Each array alone: whether it can be made again, and what it takes. Those that cannot are taken off. */
static void price_arrays(EchRemat *r)
{
    GArray *kept = g_array_new(FALSE, FALSE, sizeof(EchRematArray));
    for (guint k = 0; k < r->arrays->len; k++) {
        EchRematArray *a = ech_remat_array(r, k);
        EchRematReason why = ech_remat_plan_alone(r, k);
        EchBytes bytes = r->s->buffers[a->buffer].bytes;
        EchTime time = ech_remat_time(r);
        if (why == ECH_REMAT_OK && a->made_in == ECH_NONE && time > a->pause && has_loops(r))
            why = ECH_REMAT_LONG;
        if (why != ECH_REMAT_OK) {
            ech_remat_decline(r, a, why);
            continue;
        }
        a->price = (double)time / (double)bytes;
        g_array_append_val(kept, *a);
    }
    for (guint k = 0; k < r->arrays->len; k++)
        r->array_of[ech_remat_array(r, k)->buffer] = UINT32_MAX;
    for (guint k = 0; k < kept->len; k++)
        r->array_of[g_array_index(kept, EchRematArray, k).buffer] = k;
    g_array_unref(r->arrays);
    r->arrays = kept;
}

/* Whether @a would not be on the device before op @at. */
static bool is_away(const EchRematArray *a, EchId at)
{
    return a->made_in != ECH_NONE ? at > a->gone && (a->free == ECH_NONE || at <= a->free) : at >= a->gone && at < a->back;
}

static EchRematArray *cheapest_away(const EchRemat *r, EchId at)
{
    EchRematArray *best = NULL;
    for (guint k = 0; k < r->arrays->len; k++) {
        EchRematArray *a = ech_remat_array(r, k);
        if (!a->chosen && !a->tried && is_away(a, at) && (best == NULL || a->price < best->price))
            best = a;
    }
    return best;
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
    EchTime time;
} Outcome;

/* Choosing under way. */
typedef struct {
    EchRemat *r;
    int64_t most;         /* Bytes that the device holds at its fullest by what is chosen. */
    int64_t *live, *then; /* Before each op: by what is chosen; by what is tried. */
    guint tries;
    GArray *order[2]; /* uint32_t: arrays in the order they were chosen; [1]: after all stacks. */
    GArray *outcomes; /* Outcome */
} Choice;

static void begin_with(EchRemat *r, bool stacks)
{
    for (guint k = 0; k < r->arrays->len; k++) {
        EchRematArray *a = ech_remat_array(r, k);
        a->chosen = stacks && a->made_in != ECH_NONE;
        a->tried = false;
    }
}

/* What is chosen is one of those to choose from in the end. */
static void note(Choice *c, bool stacks)
{
    Outcome o = {stacks, c->order[stacks]->len, c->most, ech_remat_measure(c->r)};
    g_array_append_val(c->outcomes, o);
}

/* From what is chosen on: at the fullest moment, of what could be away then, what costs least; until nothing helps. */
static void descend(Choice *c, bool stacks)
{
    EchRemat *r = c->r;
    const EchSurvey *s = r->s;
    begin_with(r, stacks);
    c->most = ech_remat_plan(r) == ECH_REMAT_OK ? ech_remat_live(r, c->live) : INT64_MAX;
    if (c->most < INT64_MAX)
        note(c, stacks);
    for (c->tries = 0; c->tries < MAX_TRIES && c->most < INT64_MAX; c->tries++) {
        EchId peak = fullest(s, c->live);
        EchRematArray *a = cheapest_away(r, peak);
        if (a == NULL)
            return;
        a->chosen = a->tried = true;
        int64_t now = ech_remat_plan(r) == ECH_REMAT_OK ? ech_remat_live(r, c->then) : INT64_MAX;
        if (now > c->most || (now == c->most && c->then[peak] >= c->live[peak])) {
            a->chosen = false;
            continue;
        }
        bool less = now < c->most;
        c->most = now;
        memcpy(c->live, c->then, (s->n + 1) * sizeof(int64_t));
        for (guint k = 0; k < r->arrays->len; k++)
            ech_remat_array(r, k)->tried = false;
        uint32_t index = r->array_of[a->buffer];
        g_array_append_val(c->order[stacks], index);
        if (less)
            note(c, stacks);
    }
}

/* Of what is little enough memory the fastest, whatever was asked for: less room never takes less time. Where nothing is little enough, the least memory. */
static bool is_better(const Outcome *a, const Outcome *b, int64_t goal)
{
    int64_t more = MAX(a->most, goal), other = MAX(b->most, goal);
    return more != other ? more < other : a->time != b->time ? a->time < b->time : a->most < b->most;
}

/* One array after the other; and all that loops stack up at once, as jax.checkpoint around a scan's body has it: what makes one of them again makes others,
 * which each alone may only make room for. */
static void choose(EchRemat *r, EchBytes memory, EchDiag *diag)
{
    size_t n = r->s->n;
    g_autofree int64_t *live = g_new(int64_t, n + 1), *then = g_new(int64_t, n + 1);
    g_autoptr(GArray) order = g_array_new(FALSE, FALSE, sizeof(uint32_t)), after = g_array_new(FALSE, FALSE, sizeof(uint32_t)),
                      outcomes = g_array_new(FALSE, FALSE, sizeof(Outcome));
    Choice c = {.r = r, .live = live, .then = then, .order = {order, after}, .outcomes = outcomes};
    int64_t goal = (int64_t)MIN(memory, INT64_MAX);
    bool stacks = false;
    for (guint k = 0; k < r->arrays->len; k++)
        stacks |= ech_remat_array(r, k)->made_in != ECH_NONE;
    begin_with(r, false);
    if (ech_remat_plan(r) != ECH_REMAT_OK || ech_remat_live(r, live) <= goal)
        return;
    descend(&c, false);
    bool tired = c.tries == MAX_TRIES;
    if (stacks)
        descend(&c, true);
    tired |= c.tries == MAX_TRIES;
    const Outcome *best = &g_array_index(outcomes, Outcome, 0);
    for (guint k = 1; k < outcomes->len; k++)
        best = is_better(&g_array_index(outcomes, Outcome, k), best, goal) ? &g_array_index(outcomes, Outcome, k) : best;
    begin_with(r, best->stacks);
    for (guint k = 0; k < best->more; k++)
        ech_remat_array(r, g_array_index(c.order[best->stacks], uint32_t, k))->chosen = true;
    (void)ech_remat_plan(r);
    if (memory > 0 && best->most > goal) {
        g_autofree char *bytes = ech_format_bytes((EchBytes)best->most);
        ech_diag_remark(diag, "remat: %s are left at the fullest moment, %s", bytes,
                        tired ? "after as many tries as are made" : "in use there or dearer to bring back");
    }
}

static void say_declined(const EchRemat *r, EchDiag *diag)
{
    for (int k = ECH_REMAT_OK + 1; k < ECH_REMAT_N_REASONS; k++)
        if (r->declined[k] > 0) {
            g_autofree char *bytes = ech_format_bytes(r->declined_bytes[k]);
            ech_diag_remark(diag, "remat: %u array%s (%s) kept: %s", r->declined[k], r->declined[k] == 1 ? "" : "s", bytes, reasons[k]);
        }
}

static EchTrace *remat_run(const void *options, const EchDevice *device, EchTrace *in, EchDiag *diag, GError **error)
{
    const RematOptions *o = options;
    g_auto(EchSurvey) survey = {0}, before = {0};
    g_autoptr(EchTrace) kept = NULL;
    if (*o->modules && ech_survey_init(&before, in, device)) {
        kept = ech_remat_keep_inputs(&before, o->modules, error);
        if (kept == NULL)
            return NULL;
        in = kept;
    }
    if (!ech_survey_init(&survey, in, device)) {
        ech_diag_remark(diag, "remat: left the trace as it is: it has no device memory 'hbm', or nothing computes in it");
        return ech_trace_ref(in);
    }
    g_auto(EchRemat) remat = {0};
    ech_remat_init(&remat, &survey, &(EchRematAsked){o->names, o->keep, o->above, o->products});
    price_arrays(&remat);
    bool fitting = true;
    if (*o->modules)
        fitting = ech_remat_choose_modules(&remat, o->modules);
    else
        choose(&remat, o->memory, diag);
    bool any = remat.runs->len > 0 || remat.inputs->len > 0;
    if (!any && !fitting && remat.arrays->len > 0)
        ech_diag_remark(diag,
                        "remat: left the trace as it is: no module of PyTorch whose path fits '%s' makes arrays that wait; 'run' names modules, and what "
                        "torch.compile compiled is one",
                        o->modules);
    else if (!any)
        ech_diag_remark(diag, "remat: left the trace as it is: %s",
                        remat.arrays->len > 0                         ? "it needs no more than it may, or nothing brings that down"
                        : !ech_users_of_arrays(&remat.users, &survey) ? "it does not say which arrays its operations use"
                                                                      : "no array fits what was asked for");
    EchTrace *out = any ? ech_remat_write(&remat, diag, error) : ech_trace_ref(in);
    say_declined(&remat, diag);
    return out;
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
    .trace = remat_run};
