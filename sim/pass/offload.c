/* offload: arrays wait in host memory between their uses, as JAX's offload policies and pinned_host shardings, or PyTorch's save_on_cpu, would have it.
 *
 * The array itself moves to the host. Around each run of uses that follow each other closely a copy of it stands in the device's memory: fetched before the
 * first one where that reads it, stored after the last one where one of them wrote. What a loop takes slices of (the inputs that a scan saves, its stacked
 * weights) is fetched and stored slice by slice, an iteration at a time. Kernels stay as they were compiled. */
#include "sim/base/error.h"
#include "sim/base/range_max.h"
#include "sim/pass/modules.h"
#include "sim/pass/pass.h"
#include "sim/pass/survey.h"
#include "sim/trace/ranges.h"
#include "sim/trace/select.h"
#include "sim/trace/step.h"

#include <string.h>

typedef enum { WHAT_SAVED, WHAT_ACTIVATIONS, WHAT_ARGUMENTS, WHAT_PARTS, WHAT_RESULTS } What;

typedef struct {
    uint64_t what, overlap, each, stash;
    char *names, *to;
    EchBytes above, memory;
    double idle;
} OffloadOptions;

static const char *const whats[] = {"saved", "activations", "arguments", "parts", "results", NULL};

static const EchParam offload_params[] = {
    {"what", ECH_PARAM_ENUM, offsetof(OffloadOptions, what), "saved", NULL, NULL, whats,
     "saved: what the program makes and uses again later; activations: of that, what a forward pass makes and a backward pass reads (of PyTorch's, or JAX's), "
     "each once out and back, over its longest pause (idle=0: as save_on_cpu, or a policy of jax.checkpoint, has it); arguments: what it is given (parameters, "
     "optimizer state), with what is written over it; parts: of PyTorch's, all that a module is given which is called outside of others comes before its calls "
     "and goes back when the one is called that came behind it first, as enable_model_cpu_offload() of diffusers has it; results: what it hands back"},
    {"names", ECH_PARAM_STRING, offsetof(OffloadOptions, names), "*", NULL, NULL, NULL,
     "only arrays whose name, argument (\"opt_state*\"), operation, source line (\"*model.py:29*\"), PyTorch module (\"*layers.*.mlp*\") or role "
     "(\"optimizer\") fits this, * standing for anything; products: what matrix products without batch dimensions make, and convolutions (of XLA's programs); "
     "stacks: what a loop writes, and one reads, slice by slice"},
    {"above", ECH_PARAM_BYTES, offsetof(OffloadOptions, above), "1MiB", NULL, NULL, NULL, "only arrays of at least this size"},
    {"idle", ECH_PARAM_RATIO, offsetof(OffloadOptions, idle), "1", "0", "1000000", NULL,
     "saved: only arrays that lie idle for at least this many times as long as copying them out and back takes; others: shorter pauses are spent on the "
     "device"},
    {"memory", ECH_PARAM_BYTES, offsetof(OffloadOptions, memory), "0", NULL, NULL, NULL,
     "only as many arrays, those idle for longest first, as bring what the device holds at its fullest down to this; 0: all"},
    {"each", ECH_PARAM_BOOL, offsetof(OffloadOptions, each), "false", NULL, NULL, NULL,
     "activations: out and back once for each operator that saved them, as save_on_cpu has it, which does not know them again and takes parameters and "
     "small ones, too (above=1); arguments: in once for each call of the PyTorch module that uses them, whatever the pause is, as hooks of accelerate and "
     "diffusers have it"},
    {"overlap", ECH_PARAM_BOOL, offsetof(OffloadOptions, overlap), "false", NULL, NULL, NULL,
     "false: the program waits for each copy to the host, as XLA's schedules and save_on_cpu mostly do; true: it goes on beside them, for as long as what they "
     "are still taking out has room in memory= (fetches: pass prefetch); of arguments with each=true what the next call needs comes beside this one, as "
     "enable_group_offload(use_stream=True) of diffusers has it"},
    {"stash", ECH_PARAM_U64, offsetof(OffloadOptions, stash), "0", NULL, NULL, NULL,
     "overlap=true: the program waits for the oldest copy to the host when more than this many are under way, as torchtune's OffloadActivations has it (5 "
     "there), which leaves parameters; 0: any number"},
    {"to", ECH_PARAM_STRING, offsetof(OffloadOptions, to), "", NULL, NULL, NULL,
     "memory of the device's file in which they wait, a tier beyond the host's, say (cxl), over the link that joins it with hbm; nothing: the host's"},
    {NULL, ECH_PARAM_U64, 0, NULL, NULL, NULL, NULL, NULL},
};

/* Uses of an array in one op of its own level: a kernel or a copy, or a whole loop. */
typedef struct {
    EchId op;          /* At the array's level. */
    EchId until;       /* There, too: where what computes has waited for who reads it on other queues, at the latest. */
    EchId region;      /* Slices: the LOOP whose iterations take one each. */
    EchId first, last; /* Slices: the first and last op of the body that use it. */
    EchBytes bytes;    /* Of what an iteration takes; else the largest use. */
    EchTime begin, end;
    bool slices, reads, writes; /* reads: before it is written, or around what is written. */
} Event;

/* Uses between which the array stays on the device. */
typedef struct {
    uint32_t array;
    Event at;        /* The first one's; writes: any of them. */
    EchId until;     /* The last one's op. */
    uint32_t times;  /* That what was written is copied out... */
    EchBytes part;   /* ...each: as much as operators save of it on average, and of what comes back, as the one that needs it does; 0: all. */
    uint32_t unread; /* Copies that come back for operators which go by their sizes alone. */
    bool last;       /* Nothing follows and nobody wants it: what was written is not stored. */
    bool fills;      /* Writes values that the slices after it all overwrite: left out. */
    bool waits;      /* Copies of other queues still read it where it ends: the program waits for them there. */
} Stay;

typedef struct {
    EchId buffer;
    EchId level;       /* LOOP that makes one per iteration, or ECH_NONE */
    EchId alloc, free; /* ECH_NONE: from the start; never */
    EchId upload;      /* Arguments: the copy that first brings it all from the host, where it waits: left out; or ECH_NONE */
    uint32_t first_stay, n_stays;
    double idle; /* Shortest pause spent on the host, in lengths of its copies. */
    bool chosen;
} Array;

/* A parameter, or what a cache holds besides, that an operator saved for its gradient: it stays, and a copy of it goes out and comes back all the same. */
typedef struct {
    EchId buffer;
    EchId saved;            /* By this op... */
    EchId first, last;      /* ...for these of its gradient. */
    EchId there, back, out; /* While it is written: on the host, on the device again, and the copy between. */
} Given;

/* Ops from the first to the last that one part of a program is called for, with none of another between. */
typedef struct {
    const char *part; /* Its line in their stacks, of n bytes. */
    size_t n;
    guint number; /* Of the part, in the order in which they are called first. */
    EchId first, last;
} Run;

typedef enum { OK, ALIASED, REMADE, SOON, N_REASONS } Reason;
static const char *const reasons[] = {"", "parts of them go by other names", "they are made more than once",
                                      "they are used again before copies out and back would be over (idle=0 takes them all the same)"};

typedef struct {
    EchSurvey s;
    const OffloadOptions *o;
    EchUsers users;
    EchId backward; /* Activations: first op of an XLA program's backward pass; ECH_NONE: none is told. */
    GArray *runs;   /* Parts: Run, in their order. */
    EchId *home;    /* Arguments, per buffer: its like on the host, from which it is copied; else ECH_NONE. */
    EchId *waiter;  /* Per op of another queue: the first that waits for it of the queue that computes; that itself where none does, and of other ops. */
    GArray *arrays; /* Array */
    GArray *stays;  /* Stay */
    GArray *given;  /* Given */
    EchId warm;     /* What a loader asks for, and gives back, that its allocator has room for the parameters to come; ECH_NONE: nothing. */
    EchId warm_alloc, warm_free;
    EchId asks; /* The queue that asks for memory, PyTorch's host, or ECH_NONE: the one that computes. */
    uint32_t declined[N_REASONS];
    EchBytes declined_bytes[N_REASONS];
} Pass;

static const Stay *stay_of(const Pass *p, uint32_t k)
{
    return &g_array_index(p->stays, Stay, k);
}

static bool is_named(const EchSurvey *s, EchId op, const char *part)
{
    const char *operation = ech_trace_string(s->t, s->ops[op].stack);
    return s->ops[op].kind == ECH_OP_KERNEL && g_strstr_len(operation, strchrnul(operation, '\n') - operation, part) != NULL;
}

/* By JAX's or TensorFlow's names, of a gradient. */
static bool is_backward(const EchSurvey *s, EchId op)
{
    return is_named(s, op, "/transpose(") || is_named(s, op, "gradient_tape/");
}

/* By JAX's names, of what is differentiated. */
static bool is_forward(const EchSurvey *s, EchId op)
{
    return is_named(s, op, "jvp(") && !is_backward(s, op);
}

/* Where the backward pass begins: compilers run some of it early (weights turned round) and some of the forward pass late, so where those take least time
 * together. */
static EchId find_backward(const EchSurvey *s)
{
    EchTime misplaced = 0, least = 0;
    EchId found = ECH_NONE;
    for (EchId i = (EchId)s->n; i-- > 0 && !ech_trace_is_captured(s->t);) {
        bool backward = is_backward(s, i);
        EchTime length = CLAMP(ech_survey_length(s, i), 1, ECH_TIME_MAX / 4 / (EchTime)s->n);
        misplaced += backward ? -length : is_forward(s, i) ? length : 0;
        if (backward && misplaced < least) {
            least = misplaced;
            found = i;
        }
    }
    return found;
}

/* The last op before @op whose result a gradient from there on reads, of a gradient itself: an optimization barrier of jax.checkpoint lets nothing be brought
 * before that is there. ECH_NONE: there is none near at this level. */
static EchId gradient_before(const Pass *p, EchId op)
{
    const EchSurvey *s = &p->s;
    const uint32_t near = 1000; /* ops; a gradient is mostly the one right before */
    for (EchId i = op; i-- > p->backward && op - i <= near;) {
        if (s->region[i] != s->region[op] || !is_backward(s, i))
            continue;
        for (uint32_t u = s->ops[i].first_use; u < s->ops[i].first_use + s->ops[i].n_uses; u++) {
            uint32_t first = p->users.first[s->uses[u].buffer], end = p->users.first[s->uses[u].buffer + 1];
            for (uint32_t k = end; s->uses[u].access == ECH_WRITE && k > first && p->users.op[k - 1] >= op; k--)
                if (is_backward(s, p->users.op[k - 1]))
                    return i;
        }
    }
    return ECH_NONE;
}

/* Made by the forward pass: what a gradient has made early, as zeros that it adds to, waits for nobody else. */
static bool is_read_backward(const Pass *p, EchId buffer)
{
    uint32_t first = p->users.first[buffer], end = p->users.first[buffer + 1];
    return first < end && p->backward != ECH_NONE && p->users.op[first] < p->backward && p->users.op[end - 1] >= p->backward &&
           !is_backward(&p->s, p->users.op[first]);
}

/* The first op of @buffer's where that brings all of it from the host; ECH_NONE: it begins otherwise. */
static EchId find_upload(const Pass *p, EchId buffer)
{
    const EchSurvey *s = &p->s;
    uint32_t first = p->users.first[buffer];
    if ((p->o->what != WHAT_ARGUMENTS && p->o->what != WHAT_PARTS) || first == p->users.first[buffer + 1] || s->buffers[buffer].resident)
        return ECH_NONE;
    const EchOp *o = &s->ops[p->users.op[first]];
    bool brings = o->kind == ECH_OP_COPY && s->region[p->users.op[first]] == ECH_NONE && o->memory_from != ECH_NONE && ech_survey_is_host(s, o->memory_from) &&
                  o->memory_to == s->hbm && o->bytes == s->buffers[buffer].bytes;
    return brings ? p->users.op[first] : ECH_NONE;
}

/* @unread: it is kept for a gradient that does not read it. */
static bool is_asked_for(const Pass *p, EchId buffer, bool unread)
{
    const EchBuffer *b = &p->s.buffers[buffer];
    if (b->memory != p->s.hbm || b->alias_of != ECH_NONE || b->bytes < MAX(p->o->above, 1) || b->role == ECH_ROLE_CONSTANT)
        return false;
    /* Programs that run as they are written make what they are given, too. */
    bool unused = b->role == ECH_ROLE_UNKNOWN && p->users.first[buffer + 1] - p->users.first[buffer] == 1 && find_upload(p, buffer) != ECH_NONE;
    bool given = b->resident || b->role == ECH_ROLE_PARAMETER || b->role == ECH_ROLE_OPTIMIZER || unused; /* a VAE's encoder, of what only decodes */
    What asked = p->o->what == WHAT_PARTS ? WHAT_ARGUMENTS : (What)p->o->what, is = given                        ? WHAT_ARGUMENTS
                                                                                    : b->role == ECH_ROLE_OUTPUT ? WHAT_RESULTS
                                                                                                                 : WHAT_SAVED;
    bool activation = b->role == ECH_ROLE_ACTIVATION || unread || is_read_backward(p, buffer);
    bool fits = p->o->what == WHAT_ACTIVATIONS ? is == WHAT_SAVED && activation : is == asked;
    return fits && ech_survey_fits_name(&p->s, buffer, p->o->names);
}

/* The op at @level by which what computes knows that @op is done: that itself, or what waits for it there. */
static EchId done_at(const Pass *p, EchId op, EchId level)
{
    EchId waiter = ech_survey_at_level(&p->s, p->waiter[op], level);
    return waiter != ECH_NONE ? waiter : ech_survey_at_level(&p->s, op, level);
}

static void find_waiters(Pass *p)
{
    const EchSurvey *s = &p->s;
    p->waiter = g_new(EchId, s->n + 1);
    for (EchId i = 0; i < s->n; i++) {
        p->waiter[i] = i;
        for (uint32_t d = 0; d < s->ops[i].n_deps && s->ops[i].queue == s->core; d++) {
            const EchDep *dep = &s->deps[s->ops[i].first_dep + d];
            if (dep->distance == 0 && s->ops[dep->op].queue != s->core && p->waiter[dep->op] == dep->op)
                p->waiter[dep->op] = i;
        }
    }
}

/* What an iteration of a loop takes of an array, in slices: its kernels may share a slice (weights and their gradients' readers), or each have one of its own
 * (keys and values, stacked together), so no less than the @largest, and no more than @all of them or the iteration's share of the array. */
static EchBytes taken_of(const EchSurvey *s, EchId region, EchBytes whole, EchBytes largest, EchBytes all)
{
    EchBytes share = whole / MAX(s->ops[region].bytes, 1u);
    return MAX(largest, MIN(all, share));
}

/* The next uses of @a from use *at on, which is moved past them. */
static Event next_event(const Pass *p, const Array *a, uint32_t *at)
{
    const EchSurvey *s = &p->s;
    EchBytes whole = s->buffers[a->buffer].bytes;
    EchId level_op = ech_survey_at_level(s, p->users.op[*at], a->level);
    Event e = {.op = level_op, .until = level_op, .region = s->region[p->users.op[*at]], .first = p->users.op[*at]};
    bool loop = s->ops[level_op].kind == ECH_OP_LOOP;
    EchBytes all = 0;
    e.slices = loop;
    for (; *at < p->users.first[a->buffer + 1] && ech_survey_at_level(s, p->users.op[*at], a->level) == level_op; (*at)++) {
        EchId op = p->users.op[*at];
        bool reads, writes;
        EchBytes bytes = ech_survey_access(s, op, a->buffer, &reads, &writes);
        e.slices &= s->region[op] == e.region && bytes < whole;
        e.reads |= (reads && !e.writes) || (!loop && writes && bytes < whole);
        e.writes |= writes;
        e.bytes = MAX(e.bytes, bytes);
        all = ech_bytes_add(all, bytes);
        /* What is written leaves by a copy, which waits for who wrote it. */
        e.until = writes ? e.until : MAX(e.until, done_at(p, op, a->level));
        e.last = MAX(e.last, e.slices && !writes ? ech_survey_after(s, done_at(p, op, e.region)) - 1 : op);
    }
    /* What a loop writes of a whole array in parts keeps the rest of it. */
    e.reads |= loop && !e.slices && e.bytes < whole;
    e.bytes = e.slices ? taken_of(s, e.region, whole, e.bytes, all) : e.bytes;
    e.begin = s->clock[level_op];
    e.end = loop ? s->clock[s->end[level_op]] : e.begin + ech_survey_length(s, level_op);
    e.end = MAX(e.end, s->clock[e.until]);
    return e;
}

/* What the copies of a pause take, and what the pause is. Slices of a loop lie idle for half of it on average. */
static double pause_between(const Pass *p, const Array *a, const Event *before, const Event *after)
{
    EchBytes bytes = p->s.buffers[a->buffer].bytes;
    EchTime copies = ech_time_add(ech_survey_copy_time(&p->s, bytes, false), ech_survey_copy_time(&p->s, bytes, true));
    EchTime idle =
        after->begin - before->end + (before->slices ? (before->end - before->begin) / 2 : 0) + (after->slices ? (after->end - after->begin) / 2 : 0);
    return copies > 0 ? (double)idle / (double)copies : G_MAXDOUBLE;
}

static bool all_overwritten(const Pass *p, const Array *a, const Event *fill, const Event *loop)
{
    const EchOp *op = &p->s.ops[fill->op];
    if (fill->slices || fill->reads || op->kind != ECH_OP_KERNEL || !loop->slices || !loop->writes || loop->reads || loop->region != loop->op)
        return false;
    EchBytes read = 0;
    for (uint32_t u = 0; u < op->n_uses; u++) {
        const EchUse *use = &p->s.uses[op->first_use + u];
        if (use->access == ECH_WRITE && use->buffer != a->buffer)
            return false;
        read = ech_bytes_add(read, use->access == ECH_READ ? use->bytes : 0);
    }
    /* Values of one scalar. */
    return read <= 4096 && ech_bytes_mul(loop->bytes, p->s.ops[loop->region].bytes) >= p->s.buffers[a->buffer].bytes;
}

/* Of the array's events the one after the longest pause; UINT32_MAX where it has none. */
static uint32_t after_longest_pause(const Pass *p, const Array *a)
{
    Event before = {0};
    double longest = -1;
    uint32_t found = UINT32_MAX, n = 0;
    for (uint32_t at = p->users.first[a->buffer]; at < p->users.first[a->buffer + 1]; n++) {
        Event e = next_event(p, a, &at);
        double idle = n > 0 ? pause_between(p, a, &before, &e) : -1;
        if (idle > longest) {
            longest = idle;
            found = n;
        }
        before = e;
    }
    return found;
}

/* Operators of PyTorch's that save an array of which their gradient reads nothing but its sizes (derivatives.yaml: "self" in a call of the backward function).
 */
static bool saves_unread(const EchSurvey *s, EchId op)
{
    static const char *const names[] = {
        "aten::nll_loss_forward", "aten::nll_loss2d_forward", "aten::max_pool2d_with_indices", "aten::max_pool3d_with_indices", "aten::adaptive_max_pool",
        "aten::avg_pool",         "aten::_adaptive_avg_pool", "aten::reflection_pad",          "aten::replication_pad",         "aten::gather"};
    bool saves = false;
    for (size_t k = 0; k < G_N_ELEMENTS(names) && !saves; k++)
        saves = is_named(s, op, names[k]);
    return saves && !is_named(s, op, "backward");
}

/* How many of those read @buffer. */
static uint32_t saved_unread(const Pass *p, EchId buffer)
{
    uint32_t n = 0;
    for (uint32_t k = p->users.first[buffer]; k < p->users.first[buffer + 1]; k++) {
        bool reads, writes;
        (void)ech_survey_access(&p->s, p->users.op[k], buffer, &reads, &writes);
        n += reads && !writes && saves_unread(&p->s, p->users.op[k]);
    }
    return n;
}

/* The op of a gradient up to which @buffer is kept though none reads it, since it is let go, by @free, right behind that; ECH_NONE: none. */
static EchId kept_unread_until(const Pass *p, EchId buffer, EchId free)
{
    const EchSurvey *s = &p->s;
    uint32_t end = p->users.first[buffer + 1];
    if (p->o->what != WHAT_ACTIVATIONS || !p->o->each || free == ECH_NONE || end == p->users.first[buffer] || saved_unread(p, buffer) == 0)
        return ECH_NONE;
    EchId i = free;
    while (i > p->users.op[end - 1] && (s->ops[i].queue != s->core || !ech_op_is_work(&s->ops[i])))
        i--;
    return i > p->users.op[end - 1] && ech_modules_is_backward(s, i) ? i : ECH_NONE;
}

/* What is kept for its sizes alone goes once it was made and used, and comes back for the gradient at @back. */
static Reason plan_unread(Pass *p, Array *a, EchId back)
{
    const EchSurvey *s = &p->s;
    uint32_t n = saved_unread(p, a->buffer);
    a->first_stay = p->stays->len;
    a->n_stays = 2;
    Stay made = {.array = p->arrays->len, .times = n};
    Event before = {0};
    for (uint32_t at = p->users.first[a->buffer]; at < p->users.first[a->buffer + 1];) {
        Event e = next_event(p, a, &at);
        if (e.slices)
            return SOON;
        if (made.at.end == 0)
            made.at = e;
        made.at.writes |= e.writes;
        made.until = MAX(made.until, e.until);
        before = e;
    }
    made.at.reads = s->buffers[a->buffer].resident;
    EchTime begin = s->clock[back];
    Event again = {.op = back, .until = back, .region = s->region[back], .first = back, .last = back, .reads = true, .begin = begin, .end = begin};
    Stay fetched = {.array = p->arrays->len, .at = again, .until = back, .times = 1, .unread = n - 1, .last = true};
    a->idle = pause_between(p, a, &before, &again);
    g_array_append_val(p->stays, made);
    g_array_append_val(p->stays, fetched);
    return OK;
}

/* Of @whole, what an operator saved whose gradient reads @bytes: a view of it (chunk()) where that is a half of it, or a third; else, as what is looked up,
 * all. */
static EchBytes saved_of(EchBytes whole, EchBytes bytes)
{
    enum { LEAST = 8 }; /* views are no less than one part in so many */
    return bytes > 0 && whole % bytes == 0 && whole / bytes <= LEAST ? bytes : whole;
}

/* What goes to the host of an array that several operators saved, each for itself. */
static void share_out(const Pass *p, const Array *a)
{
    Stay *made = &g_array_index(p->stays, Stay, a->first_stay);
    EchBytes sum = 0, whole = p->s.buffers[a->buffer].bytes;
    uint32_t n = 0;
    for (uint32_t k = a->first_stay + 1; k < a->first_stay + a->n_stays; k++) {
        Stay *stay = &g_array_index(p->stays, Stay, k);
        stay->part = stay->at.slices || stay->at.writes ? 0 : saved_of(whole, stay->at.bytes);
        sum = ech_bytes_add(sum, ech_bytes_add(stay->part > 0 ? stay->part : whole, ech_bytes_mul(whole, stay->unread)));
        n += 1 + stay->unread;
    }
    made->part = made->at.slices || n != made->times ? 0 : sum / n;
}

/* The buffer that the host has for good of which op @op copies all to @buffer, as much; ECH_NONE: it does anything else. */
static EchId copied_from_host(const EchSurvey *s, EchId op, EchId buffer)
{
    const EchOp *o = &s->ops[op];
    EchId from = ECH_NONE;
    for (uint32_t u = o->first_use; o->kind == ECH_OP_COPY && s->region[op] == ECH_NONE && o->n_deps > 0 && u < o->first_use + o->n_uses; u++) {
        const EchBuffer *other = &s->buffers[s->uses[u].buffer];
        if (s->uses[u].access == ECH_READ && other->resident && ech_survey_is_host(s, other->memory) && other->alias_of == ECH_NONE &&
            other->bytes == s->buffers[buffer].bytes && s->uses[u].bytes == other->bytes)
            from = s->uses[u].buffer;
    }
    return from;
}

/* Whether @op brings an argument from its like on the host, where it has been made anew (an optimizer that runs there): nothing is to bring where that waits.
 */
static bool brings_home(const Pass *p, EchId op)
{
    const EchOp *o = &p->s.ops[op];
    bool brings = false;
    for (uint32_t u = o->first_use; o->kind == ECH_OP_COPY && u < o->first_use + o->n_uses; u++) {
        EchId to = p->s.uses[u].access == ECH_WRITE ? p->s.uses[u].buffer : ECH_NONE;
        brings |= to != ECH_NONE && p->home[to] != ECH_NONE && copied_from_host(&p->s, op, to) == p->home[to];
    }
    return brings;
}

/* Whether nothing but the host's processor writes @buffer, and it does, as an optimizer that runs there. */
static bool is_made_on_host(const Pass *p, EchId buffer)
{
    const EchSurvey *s = &p->s;
    bool made = false;
    for (uint32_t u = p->users.first[buffer]; u < p->users.first[buffer + 1]; u++) {
        bool reads, writes;
        const EchOp *o = &s->ops[p->users.op[u]];
        (void)ech_survey_access(s, p->users.op[u], buffer, &reads, &writes);
        if (writes && (o->kind != ECH_OP_KERNEL || o->queue == ECH_NONE || ech_trace_queues(s->t)[o->queue].kind != ECH_QUEUE_HOST))
            return false;
        made |= writes;
    }
    return made;
}

/* Its like on the host is that of which alone it is copied once it was copied first. */
static void find_homes(Pass *p)
{
    const EchSurvey *s = &p->s;
    for (EchId b = 0; b < s->n_buffers; b++) {
        bool argument = p->o->what == WHAT_ARGUMENTS && is_asked_for(p, b, false);
        EchId home = ECH_NONE;
        for (uint32_t u = p->users.first[b]; argument && u < p->users.first[b + 1]; u++) {
            bool reads, writes;
            EchId from = copied_from_host(s, p->users.op[u], b);
            (void)ech_survey_access(s, p->users.op[u], b, &reads, &writes);
            argument = !writes || home == ECH_NONE || from == home;
            home = home == ECH_NONE ? from : home;
        }
        p->home[b] = argument && home != ECH_NONE && home > b && is_made_on_host(p, home) ? home : ECH_NONE; /* views come behind what they are of */
    }
}

/* Whether a line of op @op's stack is the first @n bytes of @line. */
static bool has_line(const EchSurvey *s, EchId op, const char *line, size_t n)
{
    bool has = false;
    for (const char *at = strstr(ech_trace_string(s->t, s->ops[op].stack), ECH_RANGE_MODULE); at && !has; at = strstr(at + 1, ECH_RANGE_MODULE))
        has = strcspn(at, "\n") == n && memcmp(at, line, n) == 0;
    return has;
}

/* Whether the program calls a module outside of others at @op. */
static bool is_call(const EchSurvey *s, EchId op)
{
    return s->ops[op].kind == ECH_OP_MARK && ech_mark_is_module_call(ech_trace_string(s->t, s->ops[op].name));
}

/* Whether one call of the innermost module that op @from is of goes on up to @to. */
static bool is_same_call(const Pass *p, EchId from, EchId to)
{
    const EchSurvey *s = &p->s;
    const char *module = strstr(ech_trace_string(s->t, s->ops[from].stack), ECH_RANGE_MODULE);
    bool same = module != NULL;
    for (EchId i = from + 1; i <= to && same; i++)
        same = !is_call(s, i) && (s->ops[i].queue != s->core || !ech_op_is_work(&s->ops[i]) || has_line(s, i, module, strcspn(module, "\n")));
    return same;
}

static bool is_of_module(const EchSurvey *s, EchId op)
{
    return ech_stack_has_module(ech_trace_string(s->t, s->ops[op].stack));
}

/* Whether an array goes between the uses @before and @after, whose pause is @idle. */
static bool goes_between(const Pass *p, const Event *before, const Event *after, double idle)
{
    bool called = p->o->what == WHAT_ARGUMENTS && p->o->each && (is_of_module(&p->s, before->op) || is_of_module(&p->s, after->op));
    return called ? !is_same_call(p, before->op, after->op) : idle >= p->o->idle;
}

/* The outermost module that op @op stands in: its line, of *ret_n bytes; NULL: none. */
static const char *part_of(const EchSurvey *s, EchId op, size_t *ret_n)
{
    const char *part = NULL;
    for (const char *at = strstr(ech_trace_string(s->t, s->ops[op].stack), ECH_RANGE_MODULE); at; at = strstr(at + 1, ECH_RANGE_MODULE))
        part = at;
    *ret_n = part ? strcspn(part, "\n") : 0;
    return part;
}

/* The number of a part that is called first or again. */
static guint number_of(const Pass *p, const char *part, size_t n)
{
    guint next = 0;
    for (guint k = 0; k < p->runs->len; k++) {
        const Run *run = &g_array_index(p->runs, Run, k);
        if (run->n == n && memcmp(run->part, part, n) == 0)
            return run->number;
        next = MAX(next, run->number + 1);
    }
    return next;
}

static void find_runs(Pass *p)
{
    const EchSurvey *s = &p->s;
    for (EchId i = 0; i < s->n && p->o->what == WHAT_PARTS; i++) {
        size_t n;
        const char *part = s->ops[i].queue == s->core && ech_op_is_work(&s->ops[i]) && s->ops[i].n_uses > 0 ? part_of(s, i, &n) : NULL;
        if (!part)
            continue;
        Run *open = p->runs->len > 0 ? &g_array_index(p->runs, Run, p->runs->len - 1) : NULL;
        if (open && open->n == n && memcmp(open->part, part, n) == 0)
            open->last = i;
        else
            g_array_append_val(p->runs, ((Run){part, n, number_of(p, part, n), i, i}));
    }
}

static bool has_parts(const Pass *p)
{
    return p->runs->len > 1; /* of one part alone there is one */
}

/* The last op before what is called after a part, as accelerate's cpu_offload_with_hook has it, sends that back: the part that was first called behind it, and
 * no other. @k: a run of the part. */
static EchId sent_back_after(const Pass *p, guint k)
{
    const guint number = g_array_index(p->runs, Run, k).number;
    for (guint next = k + 1; next < p->runs->len; next++)
        if (g_array_index(p->runs, Run, next).number == number + 1)
            return g_array_index(p->runs, Run, next).first - 1;
    return g_array_index(p->runs, Run, p->runs->len - 1).last;
}

/* All of a part is there from when it is called until it is sent back. */
static Reason plan_part(Pass *p, Array *a)
{
    const EchSurvey *s = &p->s;
    a->first_stay = p->stays->len;
    a->idle = G_MAXDOUBLE;
    guint k = 0;
    for (uint32_t at = p->users.first[a->buffer]; at < p->users.first[a->buffer + 1];) {
        Event e = next_event(p, a, &at);
        if (e.op == a->upload)
            continue;
        while (k < p->runs->len && g_array_index(p->runs, Run, k).last < e.op)
            k++;
        const Run *run = k < p->runs->len && g_array_index(p->runs, Run, k).first <= e.op ? &g_array_index(p->runs, Run, k) : NULL;
        if (a->n_stays > 0 && e.op <= g_array_index(p->stays, Stay, p->stays->len - 1).until)
            continue;
        if (run && (a->alloc == ECH_NONE || a->alloc < run->first)) {
            e.op = e.first = e.last = run->first;
            e.begin = s->clock[run->first];
        }
        e.reads = e.writes = true; /* module.to("cpu") copies what it has */
        Stay stay = {.array = p->arrays->len, .at = e, .until = run ? MAX(sent_back_after(p, k), e.until) : e.until, .times = 1};
        g_array_append_val(p->stays, stay);
        a->n_stays++;
    }
    return a->n_stays > 0 || a->upload != ECH_NONE ? OK : SOON;
}

static Reason plan_array(Pass *p, Array *a)
{
    const EchSurvey *s = &p->s;
    bool saved = p->o->what == WHAT_SAVED || p->o->what == WHAT_ACTIVATIONS;
    uint32_t only = p->o->what == WHAT_ACTIVATIONS ? after_longest_pause(p, a) : UINT32_MAX, n = 0;
    a->first_stay = p->stays->len;
    a->idle = G_MAXDOUBLE;
    Event before = {0};
    for (uint32_t at = p->users.first[a->buffer]; at < p->users.first[a->buffer + 1]; n++) {
        Event e = next_event(p, a, &at);
        if (brings_home(p, e.op) || e.op == a->upload)
            continue;
        Stay stay = {.array = p->arrays->len, .at = e, .until = e.until, .times = 1};
        stay.at.reads &= a->n_stays > 0 || s->buffers[a->buffer].resident || a->upload != ECH_NONE; /* nothing is there before */
        if (a->n_stays > 0) {
            Stay *open = &g_array_index(p->stays, Stay, p->stays->len - 1);
            double idle = pause_between(p, a, &before, &e);
            bool again = p->o->each && only != UINT32_MAX && n > only && !ech_modules_same_gradient(s, e.op, before.op);
            bool slices = e.slices || before.slices, under_way = open->until >= e.op; /* for another queue, which needs it still */
            if (under_way && slices && !saved) {
                open->until = before.op;
                open->waits = true;
            }
            if (a->n_stays == 1 && all_overwritten(p, a, &before, &e))
                open->fills = true;
            else if (!(under_way && (saved || !slices)) && goes_between(p, &before, &e, idle) && (only == UINT32_MAX || n == only))
                a->idle = MIN(a->idle, idle);
            else if (again && !under_way)
                g_array_index(p->stays, Stay, a->first_stay).times++;
            else if (saved && slices)
                return SOON;
            else if (!slices) {
                open->until = MAX(open->until, e.until);
                open->at.writes |= e.writes;
                open->at.bytes = MAX(open->at.bytes, e.bytes);
                before = e;
                continue;
            }
        }
        g_array_append_val(p->stays, stay);
        a->n_stays++;
        before = e;
    }
    if ((a->n_stays == 0 && a->upload == ECH_NONE) || (saved && a->n_stays == 1))
        return SOON;
    if (saved)
        g_array_index(p->stays, Stay, p->stays->len - 1).last = true;
    if (p->o->each && only != UINT32_MAX) {
        uint32_t unread = saved_unread(p, a->buffer);
        g_array_index(p->stays, Stay, a->first_stay).times += unread;
        g_array_index(p->stays, Stay, a->first_stay + 1).unread = unread;
        share_out(p, a);
    }
    return OK;
}

/* An operator of the forward pass that reads a parameter. */
typedef struct {
    EchId op;
    bool again; /* a checkpoint runs it once more, and its own hooks keep what it saves */
} Reader;

/* What gradients read of parameter @buffer, each what the last operator saved that no other gradient has had. */
static void find_given(Pass *p, EchId buffer)
{
    const EchSurvey *s = &p->s;
    g_autoptr(GArray) readers = g_array_new(FALSE, FALSE, sizeof(Reader));
    EchId gradient = ECH_NONE;
    bool open = false; /* the gradient's is the last of p->given */
    for (uint32_t k = p->users.first[buffer]; k < p->users.first[buffer + 1]; k++) {
        EchId op = p->users.op[k];
        bool reads, writes;
        (void)ech_survey_access(s, op, buffer, &reads, &writes);
        bool backward = ech_modules_is_backward(s, op), again = ech_stack_runs_again(ech_trace_string(s->t, s->ops[op].stack));
        if (writes || s->ops[op].kind != ECH_OP_KERNEL) {
            g_array_set_size(readers, 0); /* the next step's */
            gradient = ECH_NONE;
        } else if (!backward || again) {
            g_array_append_val(readers, ((Reader){op, again}));
        } else if (gradient != ECH_NONE && ech_modules_same_gradient(s, gradient, op)) {
            if (open)
                g_array_index(p->given, Given, p->given->len - 1).last = op;
        } else {
            gradient = op;
            open = readers->len > 0 && !g_array_index(readers, Reader, readers->len - 1).again;
            if (open) {
                Given given = {.buffer = buffer, .saved = g_array_index(readers, Reader, readers->len - 1).op, .first = op, .last = op};
                g_array_append_val(p->given, given);
            }
            g_array_set_size(readers, MAX(readers->len, 1) - 1);
        }
    }
}

/* Keys and values in a cache of transformers' (use_cache, which training has, too, unless it is told otherwise) are held by that as well. */
static bool is_cached(const EchSurvey *s, const EchBuffer *buffer)
{
    return buffer->stack != ECH_NONE && buffer->role != ECH_ROLE_PARAMETER && strstr(ech_trace_string(s->t, buffer->stack), "transformers/cache_utils.py:");
}

/* transformers' from_pretrained() asks for all that its parameters will take of a device, and gives it back: for those alone that go there. */
static EchId find_warm(const EchSurvey *s, const EchId *alloc, const EchId *freed)
{
    for (EchId b = 0; b < s->n_buffers; b++)
        if (s->buffers[b].memory == s->hbm && alloc[b] != ECH_NONE && freed[b] != ECH_NONE && s->buffers[b].stack != ECH_NONE &&
            strstr(ech_trace_string(s->t, s->buffers[b].stack), ":caching_allocator_warmup"))
            return b;
    return ECH_NONE;
}

static bool is_warmed_for(const Pass *p, const Array *a)
{
    return p->warm != ECH_NONE && p->s.buffers[a->buffer].role == ECH_ROLE_PARAMETER && a->alloc != ECH_NONE && a->alloc > p->warm_free;
}

static void find_arrays(Pass *p)
{
    const EchSurvey *s = &p->s;
    g_autofree EchId *alloc = g_new(EchId, s->n_buffers + 1), *freed = g_new(EchId, s->n_buffers + 1);
    g_autofree bool *odd = g_new0(bool, s->n_buffers + 1), *aliased = g_new0(bool, s->n_buffers + 1);
    p->asks = ECH_NONE;
    for (size_t b = 0; b < s->n_buffers; b++) {
        alloc[b] = freed[b] = ECH_NONE;
        if (s->buffers[b].alias_of != ECH_NONE)
            aliased[ech_survey_root(s, (EchId)b)] = true;
    }
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *o = &s->ops[i];
        if (o->kind != ECH_OP_ALLOC && o->kind != ECH_OP_FREE)
            continue;
        EchId *known = o->kind == ECH_OP_ALLOC ? alloc : freed;
        p->asks = p->asks == ECH_NONE && o->queue != s->core ? o->queue : p->asks;
        odd[o->target] |= known[o->target] != ECH_NONE || s->region[i] != s->buffers[o->target].loop;
        known[o->target] = i;
    }
    p->warm = find_warm(s, alloc, freed);
    p->warm_alloc = p->warm != ECH_NONE ? alloc[p->warm] : ECH_NONE;
    p->warm_free = p->warm != ECH_NONE ? freed[p->warm] : ECH_NONE;
    bool all = p->o->what == WHAT_ACTIVATIONS && p->o->each && p->o->memory == 0 && p->o->stash == 0; /* OffloadActivations leaves parameters */
    for (EchId b = 0; b < s->n_buffers; b++) {
        const EchBuffer *buffer = &s->buffers[b];
        bool cached = is_cached(s, buffer);
        if (all && (buffer->role == ECH_ROLE_PARAMETER || cached) && buffer->memory == s->hbm && buffer->alias_of == ECH_NONE && buffer->bytes >= p->o->above &&
            ech_survey_fits_name(s, b, p->o->names))
            find_given(p, b);
        if (all && cached)
            continue;
        EchId back = kept_unread_until(p, b, freed[b]);
        if (!is_asked_for(p, b, back != ECH_NONE))
            continue;
        Array a = {.buffer = b, .level = s->buffers[b].loop, .alloc = alloc[b], .free = freed[b]};
        a.upload = find_upload(p, b);
        guint kept = p->stays->len;
        Reason why = aliased[b]                                                                             ? ALIASED
                     : odd[b] || (s->buffers[b].resident && (alloc[b] != ECH_NONE || freed[b] != ECH_NONE)) ? REMADE
                     : back != ECH_NONE                                                                     ? plan_unread(p, &a, back)
                     : p->o->what == WHAT_PARTS                                                             ? plan_part(p, &a)
                                                                                                            : plan_array(p, &a);
        if (why == OK) {
            g_array_append_val(p->arrays, a);
            continue;
        }
        g_array_set_size(p->stays, kept);
        p->declined[why]++;
        p->declined_bytes[why] = ech_bytes_add(p->declined_bytes[why], s->buffers[b].bytes);
    }
}

/* Which arrays go: all, or as many as it takes */

static EchRangeMax *held_before(const EchSurvey *s)
{
    g_autofree int64_t *live = g_new(int64_t, s->n + 1);
    for (size_t i = 0; i <= s->n; i++)
        live[i] = (int64_t)MIN(s->live[i], INT64_MAX / 4);
    return ech_range_max_new(live, s->n + 1);
}

/* Takes what @a does not need any more off what the device holds before each op. */
static void change_held(const Pass *p, const Array *a, EchRangeMax *held)
{
    const EchSurvey *s = &p->s;
    int64_t bytes = (int64_t)MIN(s->buffers[a->buffer].bytes, INT64_MAX / 4);
    ech_range_max_add(held, a->alloc == ECH_NONE ? 0 : a->alloc + 1, a->free == ECH_NONE ? s->n + 1 : (size_t)a->free + 1, -bytes);
    if (is_warmed_for(p, a))
        ech_range_max_add(held, p->warm_alloc + 1, p->warm_free + 1, -bytes);
    for (uint32_t k = 0; k < a->n_stays; k++) {
        const Stay *stay = stay_of(p, a->first_stay + k);
        int64_t here = stay->fills ? 0 : stay->at.slices ? (int64_t)MIN(stay->at.bytes, INT64_MAX / 4) : bytes;
        ech_range_max_add(held, stay->at.op, ech_survey_after(s, stay->until), here);
    }
}

static bool is_away(const Pass *p, const Array *a, EchId at)
{
    if (is_warmed_for(p, a) && at > p->warm_alloc && at <= p->warm_free)
        return true;
    if ((a->alloc != ECH_NONE && at <= a->alloc) || (a->free != ECH_NONE && at > a->free))
        return false;
    for (uint32_t k = 0; k < a->n_stays; k++) {
        const Stay *stay = stay_of(p, a->first_stay + k);
        if (!stay->fills && !stay->at.slices && at >= stay->at.op && at < ech_survey_after(&p->s, stay->until))
            return false;
    }
    return true;
}

static gint by_idle(gconstpointer a, gconstpointer b, gpointer data)
{
    const GArray *arrays = data;
    guint x = *(const guint *)a, y = *(const guint *)b;
    double idle[2] = {g_array_index(arrays, Array, x).idle, g_array_index(arrays, Array, y).idle};
    if (idle[0] != idle[1])
        return idle[0] > idle[1] ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* At the fullest moment, of what could be away then, what lies idle for longest; until that is little enough. */
static void choose(Pass *p, EchDiag *diag)
{
    guint n = p->arrays->len, first = 0;
    for (guint k = 0; k < n; k++)
        g_array_index(p->arrays, Array, k).chosen = p->o->memory == 0;
    if (p->o->memory == 0)
        return;
    g_autoptr(GArray) order = g_array_sized_new(FALSE, FALSE, sizeof(guint), n);
    for (guint k = 0; k < n; k++)
        g_array_append_val(order, k);
    g_array_sort_with_data(order, by_idle, p->arrays);
    g_autoptr(EchRangeMax) held = held_before(&p->s);
    while (true) {
        size_t peak;
        int64_t most = ech_range_max_peak(held, &peak);
        if (most <= (int64_t)MIN(p->o->memory, INT64_MAX))
            return;
        Array *best = NULL;
        for (guint k = first; k < n && !best; k++) {
            Array *a = &g_array_index(p->arrays, Array, g_array_index(order, guint, k));
            first += k == first && a->chosen;
            if (!a->chosen && is_away(p, a, (EchId)peak))
                best = a;
        }
        if (best == NULL) {
            g_autofree char *bytes = ech_format_bytes((EchBytes)MAX(most, 0));
            ech_diag_remark(diag, "offload: %s are left at the fullest moment, in use there or not to be offloaded", bytes);
            return;
        }
        best->chosen = true;
        change_held(p, best, held);
    }
}

/* Whether loops fetch and store array @a slice by slice. */
static bool goes_in_slices(const Pass *p, const Array *a)
{
    bool slices = true;
    for (uint32_t j = a->first_stay; j < a->first_stay + a->n_stays; j++)
        slices &= stay_of(p, j)->at.slices || stay_of(p, j)->fills;
    return slices;
}

/* Most bytes that the device holds at a moment with those of the chosen arrays away that loops fetch and store slice by slice. */
static uint64_t most_held(const Pass *p)
{
    g_autoptr(EchRangeMax) held = held_before(&p->s);
    for (guint k = 0; k < p->arrays->len; k++) {
        const Array *a = &g_array_index(p->arrays, Array, k);
        if (a->chosen && goes_in_slices(p, a))
            change_held(p, a, held);
    }
    return (uint64_t)MAX(ech_range_max_peak(held, NULL), 0);
}

/* Whether most of what goes does not go slice by slice. */
static bool goes_whole(const Pass *p)
{
    EchBytes bytes[2] = {0, 0};
    for (guint k = 0; k < p->arrays->len; k++) {
        const Array *a = &g_array_index(p->arrays, Array, k);
        EchBytes *sum = &bytes[goes_in_slices(p, a)];
        *sum = ech_bytes_add(*sum, a->chosen ? p->s.buffers[a->buffer].bytes : 0);
    }
    return bytes[false] > bytes[true];
}

/* XLA goes by times, not by memory, when it puts copies from the host into its schedule: arrays come back as early as they can, many at once, and programs
 * have needed as much with as without (validation/what_ifs.md). Only what a loop fetches slice by slice is held back. Where the rest is made again, too, blocks
 * one after the other have needed up to as much as with neither. */
static void tell_early(const Pass *p, EchTraceBuilder *builder)
{
    const EchSurvey *s = &p->s;
    const char *before = ech_trace_get_property(s->t, "offload_early_bytes"), *from = ech_trace_get_property(s->t, "remat_from_bytes");
    bool compiled = ech_survey_has_places(s) || before != NULL || ech_trace_get_property(s->t, "remat_takes_up_to") != NULL;
    if (!compiled)
        return;
    uint64_t here = 0, known = before != NULL ? g_ascii_strtoull(before, NULL, 10) : 0;
    for (size_t i = 0; i <= s->n; i++)
        here = MAX(here, s->live[i]);
    uint64_t early = most_held(p) + (known > here ? known - here : 0);
    if (from != NULL && goes_whole(p))
        early = MAX(early, g_ascii_strtoull(from, NULL, 10));
    g_autofree char *text = g_strdup_printf("%" G_GUINT64_FORMAT, early);
    ech_trace_builder_set_property(builder, "offload_early_bytes", text);
}

/* What passes after this one should keep to as well. */
static void tell_goal(const Pass *p, EchTraceBuilder *builder)
{
    const char *before = ech_trace_get_property(p->s.t, ECH_PASS_MEMORY);
    EchBytes known = before != NULL ? g_ascii_strtoull(before, NULL, 10) : 0;
    if (p->o->memory == 0 || (known > 0 && known < p->o->memory))
        return;
    g_autofree char *text = g_strdup_printf("%" G_GUINT64_FORMAT, p->o->memory);
    ech_trace_builder_set_property(builder, ECH_PASS_MEMORY, text);
}

/* What the device holds before each op by the plan, and nothing after the last; the caller frees it. */
static int64_t *planned(const Pass *p)
{
    g_autoptr(EchRangeMax) held = held_before(&p->s);
    for (guint k = 0; k < p->arrays->len; k++)
        if (g_array_index(p->arrays, Array, k).chosen)
            change_held(p, &g_array_index(p->arrays, Array, k), held);
    int64_t *values = g_new0(int64_t, p->s.n + 2);
    ech_range_max_values(held, values);
    return values;
}

/* Writing */

typedef struct {
    const Pass *p;
    EchEdit e;
    EchTraceBuilder *b;
    EchId host, to_host, from_host;  /* Memory; queues. */
    EchId brought_last, called_last; /* the copy asked for last, and what a call did last that the host has waited for; or ECH_NONE */
    EchId *stands;                   /* per buffer: what stands for it on the device now, or ECH_NONE */
    EchId *fetched;                  /* per buffer: the copy that brought it, or ECH_NONE */
    EchId *stored;                   /* per buffer: what ends when it is on the host */
    GArray *begins, *ends;           /* uint32_t: stays by where they begin and end */
    GPtrArray *saved, *brought;      /* Given: by who saved them, and by who needs them */
    GPtrArray *back;                 /* Given: those that are there again */
    GArray *loops;                   /* open ones, old numbers */
    guint next_begin, next_end, next_saved, next_brought;
    bool *begun;   /* per stay */
    bool *dropped; /* per op */
    uint64_t n_out, n_in;
    EchBytes out, in;
    int64_t *held;   /* before each op, by the plan, without what copies still take out; NULL: however much there is */
    GArray *flights; /* Flight: copies out that nothing waits for yet, in their order */
} Writer;

/* A copy to the host under way, for all that the program knows: what it takes out is still there. */
typedef struct {
    EchId copy, body;
    int64_t bytes;
} Flight;

/* The body that a stay's copies are made in, its first op there, and the op it ends before. */
static EchId body_of(const Pass *p, const Stay *stay)
{
    return stay->at.slices ? stay->at.region : g_array_index(p->arrays, Array, stay->array).level;
}

static EchId begin_of(const Stay *stay)
{
    return stay->at.slices ? stay->at.first : stay->at.op;
}

static EchId end_of(const Pass *p, const Stay *stay)
{
    return stay->at.slices ? stay->at.last + 1 : ech_survey_after(&p->s, stay->until);
}

static gint compare_begin(gconstpointer x, gconstpointer y, gpointer data)
{
    const Pass *p = data;
    const uint32_t *a = x, *b = y;
    EchId i = begin_of(stay_of(p, *a)), j = begin_of(stay_of(p, *b));
    return i != j ? (i < j ? -1 : 1) : (*a > *b) - (*a < *b);
}

/* Of two that end before the same op, the one in the inner body first. */
static gint compare_end(gconstpointer x, gconstpointer y, gpointer data)
{
    const Pass *p = data;
    const uint32_t *a = x, *b = y;
    EchId i = end_of(p, stay_of(p, *a)), j = end_of(p, stay_of(p, *b));
    if (i != j)
        return i < j ? -1 : 1;
    EchId in = body_of(p, stay_of(p, *a)), jn = body_of(p, stay_of(p, *b));
    int64_t inner = in == ECH_NONE ? -1 : (int64_t)in, other = jn == ECH_NONE ? -1 : (int64_t)jn;
    return inner != other ? (inner > other ? -1 : 1) : (*a > *b) - (*a < *b);
}

static EchId open_body(const Writer *w)
{
    return w->loops->len > 0 ? g_array_index(w->loops, EchId, w->loops->len - 1) : ECH_NONE;
}

/* The core waits for what the WAIT is then made to depend on. */
static void put_wait(Writer *w, EchId name)
{
    EchOp wait = ech_op_init(ECH_OP_WAIT);
    wait.queue = w->p->s.core;
    wait.name = name;
    w->e.last_core = ech_trace_builder_op(w->b, wait);
}

/* The core waits for the first @n copies that are under way. */
static void land(Writer *w, guint n)
{
    EchId copy = g_array_index(w->flights, Flight, n - 1).copy;
    put_wait(w, ech_trace_builder_peek_op(w->b, copy)->name);
    ech_trace_builder_dep(w->b, copy, 0);
    g_array_remove_range(w->flights, 0, n);
}

/* Before op @i: where what is held and what copies are still taking out is more than may be, the program waits for as many of them as it takes. */
static void make_room(Writer *w, EchId i)
{
    if (w->held == NULL)
        return;
    int64_t left = (int64_t)MIN(w->p->o->memory, INT64_MAX / 4) - MAX(w->held[i], w->held[i + 1]);
    guint k = w->flights->len;
    while (k > 0 && g_array_index(w->flights, Flight, k - 1).bytes <= left)
        left -= g_array_index(w->flights, Flight, --k).bytes;
    if (k > 0)
        land(w, k);
}

/* What is under way when an iteration of @loop ends is so beside the next one. */
static void make_room_around(Writer *w, EchId loop)
{
    const EchSurvey *s = &w->p->s;
    int64_t most = 0, before = 0, within = 0;
    for (EchId i = loop; w->held && i <= s->end[loop]; i++)
        most = MAX(most, w->held[i]);
    for (guint k = 0; k < w->flights->len; k++) {
        const Flight *f = &g_array_index(w->flights, Flight, k);
        *(f->body == loop ? &within : &before) += f->bytes;
    }
    if (w->held && within > 0 && most + before + 2 * within > (int64_t)MIN(w->p->o->memory, INT64_MAX / 4))
        land(w, w->flights->len);
    for (guint k = 0; k < w->flights->len; k++) { /* from outside, they end as the loop does */
        Flight *f = &g_array_index(w->flights, Flight, k);
        if (f->body != loop)
            continue;
        f->copy = w->e.map[loop];
        f->body = s->region[loop];
    }
}

/* Operators that PyTorch's host begins for what save_on_cpu packs (empty(), copy_(), and detach() of what is an operator's input) and unpacks (to() and three
 * more); of a parameter's always detach(), and of a matrix, which products save turned round, what makes another of it first, a launch among it; and each is a
 * call of Python (traces/capture/pretend/python/pretend_saved.py). For what is brought for a call: to(); of a hook of accelerate's, which takes it from memory
 * that is not page-locked, set_module_tensor_to_device; of group offloading of diffusers, is_pinned() and what sets a weight, too. PyTorch 2.11,
 * accelerate 1.12; held out: validation/what_ifs.md. */
enum { FOR_PACKED = 5, FOR_PARAMETER = 6, FOR_TURNED = 13, FOR_UNPACKED = 5, FOR_BROUGHT = 4, FOR_HOOKED = 15, FOR_AHEAD = 8 };

/* Whether what the next call of a module needs comes beside this one. */
static bool goes_ahead(const Pass *p)
{
    return p->o->what == WHAT_ARGUMENTS && p->o->each && p->o->overlap;
}

/* Whether what a call needs comes from memory that is not page-locked, when it begins. */
static bool is_hooked(const Pass *p)
{
    return p->o->what == WHAT_ARGUMENTS && p->o->each && !p->o->overlap && p->s.tier && p->s.tier->kind == ECH_MEM_HOST_PAGEABLE;
}

static EchId copy_to(Writer *w, EchId queue, EchId from, EchId to, EchBytes bytes, unsigned operators)
{
    EchId copy = ech_edit_copy(&w->e, queue, from, to, bytes);
    if (w->p->o->each)
        ech_edit_operators(&w->e, ech_trace_builder_peek_op(w->b, copy), operators);
    ech_edit_asked(&w->e, queue);
    return copy;
}

static EchId put_copy(Writer *w, EchId buffer, EchId on_device, EchBytes bytes, bool out)
{
    bool saved = w->p->o->what == WHAT_ACTIVATIONS;
    return out ? copy_to(w, w->to_host, on_device, buffer, bytes, saved ? FOR_PACKED : FOR_BROUGHT)
               : copy_to(w, w->from_host, buffer, on_device, bytes,
                         saved              ? FOR_UNPACKED
                         : is_hooked(w->p)  ? FOR_HOOKED
                         : goes_ahead(w->p) ? FOR_AHEAD
                                            : FOR_BROUGHT);
}

/* The program waits for @copy to the host. */
static void wait_for_copy(Writer *w, EchId copy)
{
    put_wait(w, ech_trace_builder_peek_op(w->b, copy)->name);
    ech_trace_builder_dep(w->b, copy, 0);
    ech_edit_host_wait(&w->e, copy);
}

static void count(Writer *w, const Stay *stay, EchBytes bytes, uint64_t *ret_n, EchBytes *ret_bytes)
{
    uint64_t runs = ech_survey_runs(&w->p->s, begin_of(stay));
    *ret_n = ech_bytes_add(*ret_n, runs);
    *ret_bytes = ech_bytes_add(*ret_bytes, ech_bytes_mul(bytes, runs));
}

static void begin(Writer *w, const Stay *stay)
{
    const Pass *p = w->p;
    EchId buffer = g_array_index(p->arrays, Array, stay->array).buffer;
    EchBuffer made = *ech_trace_builder_peek_buffer(w->b, buffer);
    made.memory = p->s.hbm;
    made.resident = 0;
    if (stay->at.slices) {
        made.bytes = stay->at.bytes;
        made.dense = 0;
        made.shape = ECH_NONE;
    }
    EchId body = body_of(p, stay);
    made.loop = body == ECH_NONE ? ECH_NONE : w->e.map[body];
    for (uint32_t k = 0; k < stay->unread; k++) {
        EchId unread = ech_trace_builder_buffer(w->b, made);
        (void)ech_edit_memory(&w->e, ECH_OP_ALLOC, unread);
        EchId copy = put_copy(w, buffer, unread, made.bytes, false);
        count(w, stay, made.bytes, &w->n_in, &w->in);
        put_wait(w, made.name);
        ech_trace_builder_dep(w->b, copy, 0);
        (void)ech_edit_memory(&w->e, ECH_OP_FREE, unread);
    }
    if (stay->at.reads && stay->part > 0) {
        made.dense = made.bytes == stay->part ? made.dense : 0;
        made.shape = made.bytes == stay->part ? made.shape : ECH_NONE;
        made.bytes = stay->part;
    }
    w->stands[buffer] = ech_trace_builder_buffer(w->b, made);
    (void)ech_edit_memory(&w->e, ECH_OP_ALLOC, w->stands[buffer]);
    w->fetched[buffer] = ECH_NONE;
    if (!stay->at.reads)
        return;
    w->fetched[buffer] = put_copy(w, buffer, w->stands[buffer], made.bytes, false);
    if (w->stored[buffer] != ECH_NONE)
        ech_trace_builder_dep(w->b, w->stored[buffer], 0);
    EchId gradient = p->backward != ECH_NONE ? gradient_before(p, stay->at.op) : ECH_NONE;
    if (gradient != ECH_NONE && body == p->s.region[gradient])
        ech_trace_builder_dep(w->b, w->e.map[gradient], 0);
    w->brought_last = w->fetched[buffer];
    if (is_hooked(p))
        ech_edit_host_wait(&w->e, w->brought_last);
    count(w, stay, made.bytes, &w->n_in, &w->in);
}

/* Stays that begin at op @i, and, one call ahead, those that begin next. */
static void run_begins(Writer *w, EchId i)
{
    guint next = w->next_begin;
    for (; next < w->begins->len && begin_of(stay_of(w->p, g_array_index(w->begins, uint32_t, next))) == i; next++) {
        uint32_t k = g_array_index(w->begins, uint32_t, next);
        if (!w->begun[k])
            begin(w, stay_of(w->p, k));
    }
    bool any = next > w->next_begin;
    w->next_begin = next;
    EchId ahead = any && goes_ahead(w->p) && next < w->begins->len ? begin_of(stay_of(w->p, g_array_index(w->begins, uint32_t, next))) : ECH_NONE;
    for (EchId op = i + 1; ahead != ECH_NONE && op < ahead; op++)
        if (is_call(&w->p->s, op)) /* what that needs first nothing brings ahead */
            return;
    if (ahead != ECH_NONE && w->brought_last != ECH_NONE) /* as group offloading of diffusers has it, here and when a call is over */
        ech_edit_host_wait(&w->e, w->brought_last);
    for (; ahead != ECH_NONE && next < w->begins->len; next++) {
        uint32_t k = g_array_index(w->begins, uint32_t, next);
        const Stay *stay = stay_of(w->p, k);
        const Array *a = &g_array_index(w->p->arrays, Array, stay->array);
        if (begin_of(stay) != ahead)
            return;
        bool there = w->stands[a->buffer] != ECH_NONE, made = a->alloc != ECH_NONE && a->alloc > i; /* for the call before; only by then */
        if (there || made || w->p->s.region[i] != w->p->s.region[ahead])
            continue;
        begin(w, stay);
        w->begun[k] = true;
    }
}

/* The op appended last depends on what uses @buffer on other queues while the stay lasts. */
static void depend_on_users(Writer *w, const Stay *stay, EchId buffer)
{
    const Pass *p = w->p;
    EchId body = body_of(p, stay);
    for (uint32_t u = p->users.first[buffer]; u < p->users.first[buffer + 1]; u++) {
        EchId op = p->users.op[u];
        if (op >= begin_of(stay) && op < end_of(p, stay) && p->s.region[op] == body && p->s.ops[op].queue != p->s.core && w->e.map[op] != ECH_NONE)
            ech_trace_builder_dep(w->b, w->e.map[op], 0);
    }
}

/* As save_on_cpu lets it go, where memory is asked for on a queue of its own (PyTorch's host): what is asked for next there comes behind that. @asks: or
 * ECH_NONE. */
static void let_go(Writer *w, EchId asks, EchId on_device)
{
    const EchSurvey *s = &w->p->s;
    EchId last = w->e.last_core, made = ech_edit_memory(&w->e, ECH_OP_FREE, on_device);
    if (!w->p->o->each || asks == ECH_NONE || asks == s->core || last == ECH_NONE)
        return;
    ech_trace_builder_peek_op(w->b, made)->queue = asks;
    ech_trace_builder_dep(w->b, last, 0);
    w->e.last_core = last;
}

static void end(Writer *w, const Stay *stay)
{
    const Pass *p = w->p;
    EchId buffer = g_array_index(p->arrays, Array, stay->array).buffer, name = ech_trace_builder_peek_buffer(w->b, buffer)->name;
    EchId on_device = w->stands[buffer];
    w->stands[buffer] = ECH_NONE;
    if (goes_ahead(p) && w->e.last_core != ECH_NONE && w->e.last_core != w->called_last) {
        w->called_last = w->e.last_core;
        ech_edit_host_wait(&w->e, w->called_last);
    }
    if (stay->waits && !stay->at.writes) {
        put_wait(w, name);
        depend_on_users(w, stay, buffer);
        if (w->fetched[buffer] != ECH_NONE)
            ech_trace_builder_dep(w->b, w->fetched[buffer], 0);
    }
    if (stay->at.writes && !stay->last) {
        EchBytes whole = ech_trace_builder_peek_buffer(w->b, on_device)->bytes, bytes = stay->part > 0 ? MIN(stay->part, whole) : whole;
        EchId copy = put_copy(w, buffer, on_device, bytes, true);
        count(w, stay, bytes, &w->n_out, &w->out);
        for (uint32_t k = 1; k < stay->times; k++) {
            if (!p->o->overlap)
                wait_for_copy(w, copy);
            copy = put_copy(w, buffer, on_device, bytes, true);
            count(w, stay, bytes, &w->n_out, &w->out);
        }
        depend_on_users(w, stay, buffer);
        if (p->o->what == WHAT_PARTS && p->s.tier && p->s.tier->kind == ECH_MEM_HOST_PAGEABLE) /* memory of malloc's, anew each time */
            ech_trace_builder_peek_op(w->b, copy)->name = ech_trace_builder_string(w->b, ECH_COPY_TO_UNTOUCHED, -1);
        if (p->o->overlap && (w->held || p->o->stash > 0)) {
            Flight flight = {copy, open_body(w), (int64_t)MIN(bytes, INT64_MAX / 4)};
            g_array_append_val(w->flights, flight);
            if (p->o->stash > 0 && w->flights->len > p->o->stash)
                land(w, 1);
        }
        if (!p->o->overlap)
            wait_for_copy(w, copy);
        /* From outside, a loop's copies have ended when it has. */
        w->stored[buffer] = stay->at.slices ? w->e.map[stay->at.op] : copy;
    }
    EchId alloc = g_array_index(p->arrays, Array, stay->array).alloc;
    let_go(w, alloc != ECH_NONE ? p->s.ops[alloc].queue : ECH_NONE, on_device);
}

static gint compare_saved(gconstpointer x, gconstpointer y)
{
    const Given *a = *(const Given *const *)x, *b = *(const Given *const *)y;
    return a->saved != b->saved ? (a->saved < b->saved ? -1 : 1) : (a->first > b->first) - (a->first < b->first);
}

static gint compare_brought(gconstpointer x, gconstpointer y)
{
    const Given *a = *(const Given *const *)x, *b = *(const Given *const *)y;
    return a->first != b->first ? (a->first < b->first ? -1 : 1) : (a->buffer > b->buffer) - (a->buffer < b->buffer);
}

/* A buffer like @buffer that has nothing in it yet. */
static EchId like(Writer *w, EchId buffer, bool on_host)
{
    EchBuffer made = *ech_trace_builder_peek_buffer(w->b, buffer);
    made.resident = 0;
    ech_edit_move_buffer(&made, on_host ? w->host : w->p->s.hbm);
    EchId id = ech_trace_builder_buffer(w->b, made), asked = ech_edit_memory(&w->e, ECH_OP_ALLOC, id);
    if (!on_host && w->p->asks != ECH_NONE)
        ech_trace_builder_peek_op(w->b, asked)->queue = w->p->asks;
    return id;
}

/* Parameters that op @i saved go out, those of which it is the last to need what came back are let go. */
static void run_saved(Writer *w, EchId i)
{
    for (guint k = 0; k < w->back->len;) {
        Given *given = g_ptr_array_index(w->back, k);
        if (given->last != i) {
            k++;
            continue;
        }
        w->stands[given->buffer] = ECH_NONE;
        let_go(w, w->p->asks, given->back);
        (void)ech_edit_memory(&w->e, ECH_OP_FREE, given->there);
        g_ptr_array_remove_index(w->back, k);
    }
    for (; w->next_saved < w->saved->len; w->next_saved++) {
        Given *given = g_ptr_array_index(w->saved, w->next_saved);
        EchBytes bytes = w->p->s.buffers[given->buffer].bytes;
        if (given->saved != i)
            return;
        given->there = like(w, given->buffer, true);
        given->out = copy_to(w, w->to_host, given->buffer, given->there, bytes, ech_survey_has_products(&w->p->s, i) ? FOR_TURNED : FOR_PARAMETER);
        w->n_out++;
        w->out = ech_bytes_add(w->out, bytes);
        if (w->p->o->overlap)
            continue;
        wait_for_copy(w, given->out);
    }
}

/* What op @i needs of parameters that were saved comes back. */
static void run_brought(Writer *w, EchId i)
{
    for (; w->next_brought < w->brought->len; w->next_brought++) {
        Given *given = g_ptr_array_index(w->brought, w->next_brought);
        EchBytes bytes = w->p->s.buffers[given->buffer].bytes;
        if (given->first != i)
            return;
        given->back = w->stands[given->buffer] = like(w, given->buffer, false);
        w->fetched[given->buffer] = copy_to(w, w->from_host, given->there, given->back, bytes, FOR_UNPACKED);
        ech_trace_builder_dep(w->b, given->out, 0);
        w->n_in++;
        w->in = ech_bytes_add(w->in, bytes);
        g_ptr_array_add(w->back, given);
    }
}

static void put(Writer *w, EchId op)
{
    const EchSurvey *s = &w->p->s;
    const EchOp *o = &s->ops[op];
    w->e.map[op] = ech_trace_builder_op(w->b, ech_edit_op(&w->e, op));
    for (uint32_t u = 0; u < o->n_uses; u++) {
        const EchUse *use = &s->uses[o->first_use + u];
        EchId buffer = w->stands[use->buffer] != ECH_NONE ? w->stands[use->buffer] : use->buffer;
        ech_trace_builder_use(w->b, buffer, (EchAccess)use->access, use->bytes, (EchPattern)use->pattern, (EchOrigin)use->origin);
    }
    for (uint32_t d = 0; d < o->n_deps; d++)
        ech_edit_dep(&w->e, &s->deps[o->first_dep + d], 0);
    for (uint32_t u = 0; u < o->n_uses; u++) {
        EchId buffer = s->uses[o->first_use + u].buffer;
        if (w->stands[buffer] != ECH_NONE && w->fetched[buffer] != ECH_NONE)
            ech_trace_builder_dep(w->b, w->fetched[buffer], 0);
    }
    ech_edit_work(&w->e, op, 1);
    if (ech_op_is_work(o) && o->queue != ECH_NONE)
        ech_edit_asked(&w->e, o->queue);
    if (o->queue == s->core)
        w->e.last_core = w->e.map[op];
}

/* What ends before op @i in the body that is open. */
static void run_ends(Writer *w, EchId i)
{
    EchId open = open_body(w);
    while (w->next_end < w->ends->len) {
        const Stay *stay = stay_of(w->p, g_array_index(w->ends, uint32_t, w->next_end));
        if (end_of(w->p, stay) != i || body_of(w->p, stay) != open)
            return;
        end(w, stay);
        w->next_end++;
    }
}

/* What op @i would have brought is there when that is done which it waited for last. */
static EchId stay_home(Writer *w, EchId i)
{
    const EchSurvey *s = &w->p->s;
    const EchOp *o = &s->ops[i];
    EchId done = w->e.map[s->deps[o->first_dep + o->n_deps - 1].op];
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++)
        w->stored[s->uses[u].buffer] = s->uses[u].access == ECH_WRITE ? done : w->stored[s->uses[u].buffer];
    return done;
}

static void write_ops(Writer *w)
{
    const EchSurvey *s = &w->p->s;
    for (EchId i = 0; i <= s->n; i++) {
        run_ends(w, i);
        while (w->loops->len > 0 && s->end[g_array_index(w->loops, EchId, w->loops->len - 1)] == i) {
            make_room_around(w, open_body(w));
            ech_edit_close(&w->e, w->e.map[g_array_index(w->loops, EchId, w->loops->len - 1)]);
            g_array_set_size(w->loops, w->loops->len - 1);
            run_ends(w, i);
        }
        if (i == s->n)
            break;
        if (w->dropped[i]) {
            w->e.map[i] = brings_home(w->p, i) ? stay_home(w, i) : w->e.last_core;
            continue;
        }
        make_room(w, i);
        run_begins(w, i);
        run_brought(w, i);
        put(w, i);
        run_saved(w, i);
        if (s->ops[i].kind == ECH_OP_LOOP) {
            g_array_append_val(w->loops, i);
            w->e.last_core = ECH_NONE;
        }
    }
}

/* The arrays themselves are the host's now; what a recording or a compiler said of their places is no more. */
static void move_arrays(Writer *w)
{
    const Pass *p = w->p;
    w->host = ech_trace_builder_memory(w->b, ech_survey_host_memory(&p->s));
    for (EchId b = 0; b < p->s.n_buffers; b++) {
        EchBuffer *buffer = ech_trace_builder_peek_buffer(w->b, b);
        if (buffer->memory == w->host)
            buffer->offset = ECH_OFFSET_NONE;
    }
    for (guint k = 0; k < p->arrays->len; k++) {
        const Array *a = &g_array_index(p->arrays, Array, k);
        if (!a->chosen)
            continue;
        EchBuffer *buffer = ech_trace_builder_peek_buffer(w->b, a->buffer);
        ech_edit_move_buffer(buffer, w->host);
        EchBuffer *warm = is_warmed_for(p, a) ? ech_trace_builder_peek_buffer(w->b, p->warm) : NULL;
        if (warm) {
            warm->bytes -= MIN(warm->bytes, buffer->bytes);
            warm->rounded = 0;
        }
        for (uint32_t u = p->users.first[a->buffer]; u < p->users.first[a->buffer + 1]; u++)
            w->dropped[p->users.op[u]] |= brings_home(p, p->users.op[u]) || p->users.op[u] == a->upload;
        if (p->home[a->buffer] != ECH_NONE)
            ech_trace_builder_peek_buffer(w->b, p->home[a->buffer])->alias_of = a->buffer;
        for (uint32_t j = a->first_stay; j < a->first_stay + a->n_stays; j++) {
            if (stay_of(p, j)->fills) {
                w->dropped[stay_of(p, j)->at.op] = true;
                continue;
            }
            g_array_append_val(w->begins, j);
            g_array_append_val(w->ends, j);
        }
    }
    g_array_sort_with_data(w->begins, compare_begin, (gpointer)(uintptr_t)p);
    g_array_sort_with_data(w->ends, compare_end, (gpointer)(uintptr_t)p);
    for (guint k = 0; k < p->given->len; k++) {
        g_ptr_array_add(w->saved, &g_array_index(p->given, Given, k));
        g_ptr_array_add(w->brought, &g_array_index(p->given, Given, k));
    }
    g_ptr_array_sort(w->saved, compare_saved);
    g_ptr_array_sort(w->brought, compare_brought);
}

static void say(const Writer *w, EchDiag *diag)
{
    const Pass *p = w->p;
    uint32_t n = 0;
    EchBytes bytes = 0;
    for (guint k = 0; k < p->arrays->len; k++) {
        const Array *a = &g_array_index(p->arrays, Array, k);
        n += a->chosen;
        bytes = ech_bytes_add(bytes, a->chosen ? p->s.buffers[a->buffer].bytes : 0);
    }
    g_autofree char *all = ech_format_bytes(bytes), *out = ech_format_bytes(w->out), *in = ech_format_bytes(w->in);
    ech_diag_remark(diag, "offload: %u array%s (%s) on the host; %" G_GUINT64_FORMAT " copies there (%s) and %" G_GUINT64_FORMAT " back (%s)%s", n,
                    n == 1 ? "" : "s", all, w->n_out, out, w->n_in, in,
                    p->o->overlap ? "" : "; the program waits for each (overlap=true, and pass prefetch: what overlapping them would be worth)");
    if (ech_survey_has_places(&p->s))
        ech_diag_remark(diag, "offload: kernels are those compiled without it; the compiler's places do not hold any more");
    if (ech_survey_has_places(&p->s) && p->o->what == WHAT_ARGUMENTS && goes_whole(p))
        ech_diag_remark(
            diag, "offload: XLA brings back early, many at once, what no loop takes slice by slice (pass schedule after this one has it when XLA has it): "
                  "of stacks of layers that saved nothing (pass slice before this one updates them layer by layer, as a program can)");
}

/* Until PyTorch 2.11 the host waits for what save_on_cpu packs; since 2.12 the copy is asked for and left (non_blocking, autograd/graph.py). A snapshot does
 * not tell its release, but has a setting that 2.13 brought; 2.12, which has none of its own, is then told as 2.11. For what comes from memory that is not
 * page-locked it always waits. */
static bool host_waits(const Pass *p)
{
    const EchTrace *t = p->s.t;
    const char *release = ech_trace_get_property(t, ECH_TRACE_TORCH_RELEASE);
    bool older = release
                     ? g_ascii_strtoull(release, NULL, 10) < 12
                     : ech_trace_get_property(t, "allocator_settings.max_split_size") && !ech_trace_get_property(t, "allocator_settings.max_round_threshold");
    return is_hooked(p) || goes_ahead(p) || (p->o->each && p->o->what == WHAT_ACTIVATIONS && !p->o->overlap && older);
}

static EchTrace *write_trace(const Pass *p, EchDiag *diag, GError **error)
{
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new(ech_trace_format(p->s.t));
    Writer writer = {.p = p, .b = builder}, *w = &writer;
    ech_edit_init(&w->e, &p->s, builder);
    w->to_host = ech_edit_copy_queue(&w->e, true);
    w->from_host = ech_edit_copy_queue(&w->e, false);
    if (host_waits(p))
        ech_edit_host(&w->e);
    w->brought_last = w->called_last = ECH_NONE;
    w->stands = g_new(EchId, p->s.n_buffers + 1);
    w->fetched = g_new(EchId, p->s.n_buffers + 1);
    w->stored = g_new(EchId, p->s.n_buffers + 1);
    for (size_t b = 0; b <= p->s.n_buffers; b++)
        w->stands[b] = w->fetched[b] = w->stored[b] = ECH_NONE;
    w->begins = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    w->ends = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    w->loops = g_array_new(FALSE, FALSE, sizeof(EchId));
    w->saved = g_ptr_array_new();
    w->brought = g_ptr_array_new();
    w->back = g_ptr_array_new();
    w->dropped = g_new0(bool, p->s.n + 1);
    w->begun = g_new0(bool, p->stays->len + 1);
    move_arrays(w);
    g_autofree int64_t *held = p->o->overlap && p->o->memory > 0 ? planned(p) : NULL;
    w->held = held;
    w->flights = g_array_new(FALSE, FALSE, sizeof(Flight));
    write_ops(w);
    ech_edit_loops(&w->e, p->s.n_buffers);
    tell_early(p, builder);
    tell_goal(p, builder);
    EchTrace *out = ech_trace_builder_finish(builder, error);
    if (out != NULL)
        say(w, diag);
    ech_edit_clear(&w->e);
    g_free(w->stands);
    g_free(w->fetched);
    g_free(w->stored);
    g_array_unref(w->begins);
    g_array_unref(w->ends);
    g_array_unref(w->loops);
    g_ptr_array_unref(w->saved);
    g_ptr_array_unref(w->brought);
    g_ptr_array_unref(w->back);
    g_array_unref(w->flights);
    g_free(w->dropped);
    g_free(w->begun);
    return out;
}

static void say_declined(const Pass *p, EchDiag *diag)
{
    for (int k = OK + 1; k < N_REASONS; k++)
        if (p->declined[k] > 0) {
            g_autofree char *bytes = ech_format_bytes(p->declined_bytes[k]);
            const char *why = k == SOON && p->o->idle == 0 ? "nothing is done between their uses, or a loop uses them slice by slice" : reasons[k];
            ech_diag_remark(diag, "offload: left %u array%s on the device (%s): %s", p->declined[k], p->declined[k] == 1 ? "" : "s", bytes, why);
        }
}

/* Why nothing goes. @told: the trace says which arrays its operations use. */
static void say_nothing(const Pass *p, bool told, EchDiag *diag)
{
    EchBytes most = 0;
    for (size_t i = 0; i <= p->s.n; i++)
        most = MAX(most, p->s.live[i]);
    g_autofree char *held = ech_format_bytes(most), *asked = ech_format_bytes(p->o->memory);
    if (p->arrays->len > 0 && most <= p->o->memory) {
        ech_diag_remark(diag, "offload: left the trace as it is: it holds %s at its fullest, no more than the %s that it may", held, asked);
        return;
    }
    g_autoptr(GPtrArray) arguments = ech_survey_unnamed(&p->s, p->o->names);
    g_autofree char *unnamed = arguments ? ech_pass_unnamed(p->o->names, arguments) : NULL;
    g_autofree char *untold = told ? NULL : ech_users_untold(&p->s);
    ech_diag_remark(diag, "offload: left the trace as it is: %s",
                    p->arrays->len > 0                          ? "what could go is in use at its fullest moment"
                    : untold                                    ? untold
                    : p->o->what == WHAT_PARTS && !has_parts(p) ? "no two of PyTorch's modules are called outside of others"
                    : unnamed                                   ? unnamed
                                                                : "no array fits what was asked for");
}

/* The memory that 'to' names, NULL where it names none. */
static bool find_tier(const char *name, const EchDevice *device, const EchMemory **ret, GError **error)
{
    *ret = NULL;
    if (!name || !*name)
        return true;
    const EchMemory *hbm = device ? ech_device_memory_kind(device, ECH_MEM_HBM) : NULL;
    g_autoptr(GString) all = g_string_new(NULL);
    for (size_t i = 0; hbm && i < device->n_memories; i++) {
        const EchMemory *memory = &device->memories[i];
        bool forward, beyond = memory->kind == ECH_MEM_HOST_PINNED || memory->kind == ECH_MEM_HOST_PAGEABLE || memory->kind == ECH_MEM_DISK;
        if (!beyond || !ech_device_transfer_link(device, memory, hbm, &forward))
            continue;
        if (strcmp(memory->name, name) == 0)
            *ret = memory;
        g_string_append_printf(all, "%s%s", all->len ? ", " : "", memory->name);
    }
    if (!*ret)
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "to: '%s' is no memory beyond %s's hbm that a link joins with it; expected one of %s", name,
                    device ? device->name : "a device", all->len ? all->str : "(none)");
    return *ret != NULL;
}

static EchTrace *offload_run(const void *options, const EchDevice *device, EchTrace *in, EchDiag *diag, GError **error)
{
    Pass pass = {.o = options}, *p = &pass;
    if (!ech_survey_init(&p->s, in, device)) {
        ech_diag_remark(diag, "offload: left the trace as it is: it has no device memory 'hbm', or nothing computes in it");
        return ech_trace_ref(in);
    }
    if (device != NULL && ech_device_shares_host(device)) {
        ech_diag_remark(diag, "offload: left the trace as it is: %s and its host have one memory, so that what lies on the host takes as much of it",
                        device->name);
        ech_survey_clear(&p->s);
        return ech_trace_ref(in);
    }
    if (!find_tier(p->o->to, device, &p->s.tier, error)) {
        ech_survey_clear(&p->s);
        return NULL;
    }
    p->arrays = g_array_new(FALSE, FALSE, sizeof(Array));
    p->stays = g_array_new(FALSE, FALSE, sizeof(Stay));
    p->given = g_array_new(FALSE, FALSE, sizeof(Given));
    ech_users_init(&p->users, &p->s, false, false);
    find_waiters(p);
    p->home = g_new(EchId, p->s.n_buffers + 1);
    find_homes(p);
    p->runs = g_array_new(FALSE, FALSE, sizeof(Run));
    find_runs(p);
    p->backward = p->o->what == WHAT_ACTIVATIONS ? find_backward(&p->s) : ECH_NONE;
    if (p->o->what != WHAT_PARTS || has_parts(p))
        find_arrays(p);
    choose(p, diag);
    bool any = false, told = ech_users_of_arrays(&p->users, &p->s);
    for (guint k = 0; k < p->arrays->len; k++)
        any |= g_array_index(p->arrays, Array, k).chosen;
    if (!any)
        say_nothing(p, told, diag);
    EchTrace *out = any ? write_trace(p, diag, error) : ech_trace_ref(in);
    if (told)
        say_declined(p, diag);
    g_array_unref(p->arrays);
    g_array_unref(p->stays);
    g_array_unref(p->given);
    g_array_unref(p->runs);
    g_free(p->home);
    g_free(p->waiter);
    ech_users_clear(&p->users);
    ech_survey_clear(&p->s);
    return out;
}

static EchBytes offload_goal(const void *options)
{
    return ((const OffloadOptions *)options)->memory;
}

const EchPassClass ech_pass_offload = {.name = "offload",
                                       .summary = "let saved activations, arguments or results wait in host memory between their uses",
                                       .source = "ours; which copies a program waits for: XLA's schedules (traces/*offload*), PyTorch's save_on_cpu",
                                       .params = offload_params,
                                       .options_size = sizeof(OffloadOptions),
                                       .goal = offload_goal,
                                       .of_tensors = true,
                                       .trace = offload_run};
