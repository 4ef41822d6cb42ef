/* prefetch: what is fetched from host memory is fetched earlier, as far ahead as it takes to hide the copy and as memory allows.
 *
 * Along a program, fetches keep their order and are given the latest start from which the link can finish each of them before it is waited for. Around a loop,
 * a fetch of what the loop does not itself write to the host is made iterations ahead, into a ring of buffers; the first ones are made before the loop. */
#include "sim/base/compare.h"
#include "sim/base/range_max.h"
#include "sim/pass/pass.h"
#include "sim/pass/survey.h"

typedef struct {
    double lookahead;
    uint64_t depth;
    EchBytes budget, above;
} PrefetchOptions;

static const EchParam prefetch_params[] = {
    {"lookahead", ECH_PARAM_RATIO, offsetof(PrefetchOptions, lookahead), "1", "0", "1000", NULL,
     "time kept for a fetch before its use, in its own lengths; 0: fetches stay where they are"},
    {"depth", ECH_PARAM_U64, offsetof(PrefetchOptions, depth), "1", "0", "64", NULL, "iterations that a loop's fetches run ahead; 0: none"},
    {"budget", ECH_PARAM_BYTES, offsetof(PrefetchOptions, budget), "0", NULL, NULL, NULL,
     "device memory that earlier fetches may take more, at any moment; 0: what is free then, of what an offload before was told to hold the device to"},
    {"above", ECH_PARAM_BYTES, offsetof(PrefetchOptions, above), "0", NULL, NULL, NULL, "only fetches of at least this size"},
    {NULL, ECH_PARAM_U64, 0, NULL, NULL, NULL, NULL, NULL},
};

typedef enum { STAYS, MOVED, RINGED } Fate;

typedef struct {
    EchId op;                      /* the COPY */
    EchId source, target;          /* buffers */
    EchId alloc, free;             /* of the target, in the same body; ECH_NONE */
    EchId wait;                    /* first op that depends on it */
    EchId bar;                     /* the last op before it that it must stay behind, or ECH_NONE */
    bool within;                   /* a loop inside its own waits for it, too */
    EchId region;                  /* LOOP around it, or ECH_NONE */
    EchTime needed, length, start; /* on the core's own clock */
    EchId after;                   /* MOVED: op that it goes right before */
    guint next;                    /* MOVED: 1 + the next fetch that goes there; 0: none */
    Fate fate;
    const char *why; /* STAYS */
} Fetch;

/* Of each of something the ops that do something with it. */
typedef struct {
    uint32_t *first; /* of its slice of op */
    EchId *op;
} List;

typedef struct {
    EchSurvey s;
    EchUsers users, writers; /* of roots */
    List waiters, memory;    /* of ops: that wait for it; of roots: that take or give back its memory */
    List stops;              /* of a LOOP's body, last of what is in none: before which a fetch may go */
    EchRangeMax *extra;      /* per op: bytes more that this pass has taken */
    EchRangeMax *held;       /* per op: all that counts against room */
    EchBytes room;           /* bytes the pass may take at any moment, at most UINT64_MAX / 4 */
    const PrefetchOptions *o;
    GArray *fetches;
} Pass;

/* The pass has taken @bytes more before ops [@first, @end). */
static void take(Pass *p, EchId first, EchId end, int64_t bytes)
{
    ech_range_max_add(p->extra, first, end, bytes);
    ech_range_max_add(p->held, first, end, bytes);
}

static int64_t bytes_of(const Pass *p, EchId buffer)
{
    return (int64_t)MIN(p->s.buffers[buffer].bytes, INT64_MAX / 4);
}

/* What copies to the host take out is there until something of the core waits for them, for all that the program knows. */
static void count_flights(Pass *p)
{
    const EchSurvey *s = &p->s;
    g_autofree EchId *waited = g_new(EchId, s->n + 1), *freed = g_new(EchId, s->n_buffers + 1);
    for (size_t i = 0; i <= s->n; i++)
        waited[i] = ECH_NONE;
    for (size_t b = 0; b <= s->n_buffers; b++)
        freed[b] = ECH_NONE;
    /* A queue's copies end in their order: who waits for one waits for those before it. */
    for (EchId i = (EchId)s->n; i-- > 0;) {
        const EchOp *o = &s->ops[i];
        if (o->kind == ECH_OP_FREE)
            freed[o->target] = i;
        for (uint32_t d = 0; d < o->n_deps && o->queue == s->core; d++)
            if (s->deps[o->first_dep + d].distance == 0)
                waited[s->deps[o->first_dep + d].op] = i;
    }
    EchId last = (EchId)s->n;
    for (EchId i = (EchId)s->n; i-- > 0;) {
        const EchOp *o = &s->ops[i];
        if (o->kind != ECH_OP_COPY || o->memory_from != s->hbm || !ech_survey_is_host(s, o->memory_to) || o->queue == s->core || o->n_uses == 0)
            continue;
        EchId from = s->uses[o->first_use].buffer, end = s->region[i] == ECH_NONE ? (EchId)s->n : s->end[s->region[i]];
        last = waited[i] != ECH_NONE ? MIN(last, waited[i]) : last;
        if (freed[from] != ECH_NONE && freed[from] > i)
            take(p, freed[from], MIN(last, end), bytes_of(p, from));
    }
}

/* Where the targets' memory is taken last before the fetch, and given back first after it. */
static void find_memory(Pass *p)
{
    g_autofree EchId *last = g_new(EchId, p->s.n_buffers + 1);
    for (size_t b = 0; b < p->s.n_buffers; b++)
        last[b] = ECH_NONE;
    guint k = 0;
    for (EchId i = 0; i < p->s.n; i++) {
        if (p->s.ops[i].kind == ECH_OP_ALLOC)
            last[p->s.ops[i].target] = i;
        Fetch *f = k < p->fetches->len ? &g_array_index(p->fetches, Fetch, k) : NULL;
        if (f == NULL || f->op != i)
            continue;
        f->alloc = f->target != ECH_NONE ? last[f->target] : ECH_NONE;
        k++;
    }
    for (size_t b = 0; b < p->s.n_buffers; b++)
        last[b] = ECH_NONE;
    for (EchId i = (EchId)p->s.n; i-- > 0;) {
        if (p->s.ops[i].kind == ECH_OP_FREE)
            last[p->s.ops[i].target] = i;
        Fetch *f = k > 0 ? &g_array_index(p->fetches, Fetch, k - 1) : NULL;
        if (f == NULL || f->op != i)
            continue;
        f->free = f->target != ECH_NONE ? last[f->target] : ECH_NONE;
        k--;
    }
}

static void find_fetches(Pass *p)
{
    g_autofree EchId *first_waiter = g_new(EchId, p->s.n + 1);
    g_autofree bool *within = g_new0(bool, p->s.n + 1);
    for (size_t i = 0; i < p->s.n; i++)
        first_waiter[i] = ECH_NONE;
    for (size_t i = 0; i < p->s.n; i++)
        for (uint32_t d = 0; d < p->s.ops[i].n_deps; d++) {
            const EchDep *dep = &p->s.deps[p->s.ops[i].first_dep + d];
            if (dep->distance == 0 && first_waiter[dep->op] == ECH_NONE)
                first_waiter[dep->op] = (EchId)i;
            within[dep->op] |= p->s.region[i] != p->s.region[dep->op];
        }
    for (size_t i = 0; i < p->s.n; i++) {
        const EchOp *o = &p->s.ops[i];
        if (o->kind != ECH_OP_COPY || o->memory_to != p->s.hbm || !ech_survey_is_host(&p->s, o->memory_from) || o->bytes < MAX(p->o->above, 1) ||
            o->queue == p->s.core)
            continue;
        Fetch f = {.op = (EchId)i,
                   .source = ECH_NONE,
                   .target = ECH_NONE,
                   .alloc = ECH_NONE,
                   .free = ECH_NONE,
                   .wait = first_waiter[i],
                   .within = within[i],
                   .region = p->s.region[i],
                   .after = ECH_NONE};
        if (o->n_uses >= 2) {
            f.source = p->s.uses[o->first_use].buffer;
            f.target = p->s.uses[o->first_use + 1].buffer;
        }
        f.length = ech_survey_fetch_time(&p->s, o->memory_from, o->bytes);
        g_array_append_val(p->fetches, f);
    }
    find_memory(p);
    for (guint k = 0; k < p->fetches->len; k++) {
        Fetch *f = &g_array_index(p->fetches, Fetch, k);
        if (f->alloc != ECH_NONE && p->s.region[f->alloc] != f->region)
            f->alloc = ECH_NONE;
        if (f->free != ECH_NONE && p->s.region[f->free] != f->region)
            f->free = ECH_NONE;
    }
}

/* Does @op write, or wait for a copy that writes, the source of a fetch? */
static bool makes(const Pass *p, EchId op, EchId source)
{
    EchId root = ech_survey_root(&p->s, source);
    const EchOp *o = &p->s.ops[op];
    for (uint32_t u = 0; u < o->n_uses; u++)
        if (p->s.uses[o->first_use + u].access == ECH_WRITE && ech_survey_root(&p->s, p->s.uses[o->first_use + u].buffer) == root)
            return true;
    for (uint32_t d = 0; d < o->n_deps; d++) {
        const EchOp *before = &p->s.ops[p->s.deps[o->first_dep + d].op];
        for (uint32_t u = 0; u < before->n_uses; u++)
            if (p->s.uses[before->first_use + u].access == ECH_WRITE && ech_survey_root(&p->s, p->s.uses[before->first_use + u].buffer) == root)
                return true;
    }
    return (o->kind == ECH_OP_ALLOC || o->kind == ECH_OP_FREE) && ech_survey_root(&p->s, o->target) == root;
}

static bool touches(const Pass *p, EchId op, EchId buffer)
{
    EchId root = ech_survey_root(&p->s, buffer);
    const EchOp *o = &p->s.ops[op];
    if ((o->kind == ECH_OP_ALLOC || o->kind == ECH_OP_FREE) && ech_survey_root(&p->s, o->target) == root)
        return true;
    for (uint32_t u = 0; u < o->n_uses; u++)
        if (ech_survey_root(&p->s, p->s.uses[o->first_use + u].buffer) == root)
            return true;
    return false;
}

/* ---- what a fetch must stay behind ---- */

/* Where a pass over all ops of which some are put into lists stands: counting how many each has, then filling them. */
static void put_into(List *list, size_t key, EchId op, bool fill)
{
    uint32_t *at = &list->first[key + (fill ? 1 : 2)];
    if (fill)
        list->op[*at] = op;
    ++*at;
}

/* Counts stand two behind their keys; with room made, where each list begins stands one behind, until it is filled. */
static void make_room(List *list, size_t keys)
{
    for (size_t k = 2; k < keys + 2; k++)
        list->first[k] += list->first[k - 1];
    list->op = g_new(EchId, (size_t)list->first[keys + 1] + 1);
}

static void find_lists(Pass *p)
{
    const EchSurvey *s = &p->s;
    p->waiters.first = g_new0(uint32_t, s->n + 2);
    p->memory.first = g_new0(uint32_t, s->n_buffers + 2);
    p->stops.first = g_new0(uint32_t, s->n + 3);
    for (int fill = 0; fill < 2; fill++) {
        for (EchId i = 0; i < s->n; i++) {
            const EchOp *o = &s->ops[i];
            for (uint32_t d = 0; d < o->n_deps; d++)
                put_into(&p->waiters, s->deps[o->first_dep + d].op, i, fill);
            if (o->kind == ECH_OP_ALLOC || o->kind == ECH_OP_FREE)
                put_into(&p->memory, ech_survey_root(s, o->target), i, fill);
            if (o->queue == s->core || o->kind == ECH_OP_LOOP)
                put_into(&p->stops, s->region[i] == ECH_NONE ? s->n : s->region[i], i, fill);
        }
        if (fill)
            return;
        make_room(&p->waiters, s->n);
        make_room(&p->memory, s->n_buffers);
        make_room(&p->stops, s->n + 1);
    }
}

static void list_clear(List *list)
{
    g_free(list->first);
    g_free(list->op);
}

/* Of the ascending ops[first..end) the last before @op that is not @but; ECH_NONE: none. */
static EchId last_before(const EchId *ops, uint32_t first, uint32_t end, EchId op, EchId but)
{
    uint32_t low = first;
    ECH_SEARCH(low, end, middle, ops[middle] < op);
    if (low > first && ops[low - 1] == but)
        low--;
    return low > first ? ops[low - 1] : ECH_NONE;
}

/* Of two ops, each of which may be ECH_NONE, the one that comes later. */
static EchId later(EchId a, EchId b)
{
    return a == ECH_NONE ? b : b == ECH_NONE ? a : MAX(a, b);
}

/* The last op before @op that writes the buffer, waits for what writes it, or takes or gives back its memory. */
static EchId last_maker(const Pass *p, EchId buffer, EchId op)
{
    EchId root = ech_survey_root(&p->s, buffer);
    const uint32_t *writers = &p->writers.first[root], *memory = &p->memory.first[root];
    EchId last = later(last_before(p->writers.op, writers[0], writers[1], op, ECH_NONE), last_before(p->memory.op, memory[0], memory[1], op, ECH_NONE));
    for (uint32_t k = writers[0]; k < writers[1]; k++) {
        const uint32_t *waiters = &p->waiters.first[p->writers.op[k]];
        last = later(last, last_before(p->waiters.op, waiters[0], waiters[1], op, ECH_NONE));
    }
    return last;
}

/* Nothing of a fetch may come before what makes what it reads, or what uses its target. */
static void find_bars(Pass *p)
{
    g_autofree EchId *marks = g_new(EchId, p->s.n + 1); /* per LOOP, last: the last MARK in its body so far */
    for (size_t i = 0; i <= p->s.n; i++)
        marks[i] = ECH_NONE;
    guint k = 0;
    for (EchId i = 0; i < p->s.n && k < p->fetches->len; i++) {
        EchId *mark = &marks[p->s.region[i] == ECH_NONE ? p->s.n : p->s.region[i]];
        if (p->s.ops[i].kind == ECH_OP_MARK)
            *mark = i;
        Fetch *f = &g_array_index(p->fetches, Fetch, k);
        if (f->op != i)
            continue;
        f->bar = f->source == ECH_NONE ? *mark : last_maker(p, f->source, i);
        if (f->target != ECH_NONE) {
            EchId root = ech_survey_root(&p->s, f->target);
            const uint32_t *users = &p->users.first[root], *memory = &p->memory.first[root];
            f->bar = later(f->bar, last_before(p->users.op, users[0], users[1], i, ECH_NONE));
            f->bar = later(f->bar, last_before(p->memory.op, memory[0], memory[1], i, f->alloc));
        }
        k++;
    }
}

/* The place from which a fetch is in time, which it is not yet, or as near to it as what it reads, memory and the start of its body allow. */
static void hoist(Pass *p, Fetch *f, EchTime wanted)
{
    const EchSurvey *s = &p->s;
    const EchId *stops = p->stops.op, bar = ech_survey_at_level(s, f->bar, f->region);
    const uint32_t *body = &p->stops.first[f->region == ECH_NONE ? s->n : f->region];
    uint32_t end = body[0], from = body[0], high = body[1];
    ECH_SEARCH(end, high, at, stops[at] < f->op);
    high = bar == ECH_NONE ? from : end;
    ECH_SEARCH(from, high, at, stops[at] <= bar);
    uint32_t in_time = from, roomy = from;
    high = end;
    ECH_SEARCH(in_time, high, at, s->clock[stops[at]] <= wanted);
    in_time -= in_time > from;
    size_t last_full = f->alloc == ECH_NONE ? SIZE_MAX : ech_range_max_last_above(p->held, f->alloc, (int64_t)p->room - bytes_of(p, f->target));
    high = last_full == SIZE_MAX ? from : end;
    ECH_SEARCH(roomy, high, at, stops[at] <= last_full);
    uint32_t best = MAX(in_time, roomy);
    if (best >= end || s->clock[stops[best]] >= s->clock[f->op]) {
        f->why = roomy > in_time   ? "no memory is free to hold it longer"
                 : bar != ECH_NONE ? "what they read is made just before, or their memory is in use until then"
                 : f->why != NULL  ? f->why /* nor an iteration ahead */
                                   : "they start at the beginning already";
        return;
    }
    f->fate = MOVED;
    f->after = stops[best]; /* goes right before it */
    f->start = s->clock[f->after];
    if (f->alloc != ECH_NONE)
        take(p, f->after, f->alloc, bytes_of(p, f->target));
}

static void plan_moves(Pass *p)
{
    /* From the last to the first of each body: each is done before it is waited for and before the next one needs the link. */
    EchTime next = INT64_MAX;
    EchId region = ECH_NONE - 1;
    for (guint k = p->fetches->len; k > 0; k--) {
        Fetch *f = &g_array_index(p->fetches, Fetch, k - 1);
        f->start = p->s.clock[f->op];
        EchId wait = f->wait == ECH_NONE ? ECH_NONE : ech_survey_at_level(&p->s, f->wait, f->region);
        f->needed = wait != ECH_NONE ? p->s.clock[wait] : p->s.clock[f->op];
        if (f->fate == RINGED)
            continue;
        if (f->region != region)
            next = INT64_MAX;
        region = f->region;
        EchTime kept = (EchTime)MIN(p->o->lookahead * (double)f->length, 9e18);
        EchTime latest = MIN(f->needed, next) - kept;
        if (f->start > latest && p->o->lookahead > 0)
            hoist(p, f, latest);
        else
            f->why = "they start early enough already";
        next = MIN(f->start, MAX(latest, 0));
    }
}

static EchId place_of(const Fetch *f)
{
    return f->fate == MOVED ? f->after : f->op;
}

/* Fetches keep their order: one that would overtake another starts right after it. */
static void keep_order(Pass *p)
{
    for (guint k = 1; k < p->fetches->len; k++) {
        const Fetch *before = &g_array_index(p->fetches, Fetch, k - 1);
        Fetch *f = &g_array_index(p->fetches, Fetch, k);
        EchId least = place_of(before);
        if (f->fate != MOVED || f->region != before->region || before->fate == RINGED || f->after >= least)
            continue;
        if (f->alloc != ECH_NONE)
            take(p, f->after, MIN(f->alloc, least), -bytes_of(p, f->target));
        f->after = least;
        f->start = p->s.clock[least];
        /* Right after the one before is where it is already. */
        EchId now = f->alloc != ECH_NONE && f->alloc > least ? f->alloc : f->op;
        if (before->fate != MOVED && least + 1 >= now) {
            f->fate = STAYS;
            f->why = "they follow another fetch at once";
        } else if (before->fate != MOVED)
            f->after = least + 1;
    }
}

/* A target that is there before its fetch begins stays where it was taken: what else uses it, an earlier fetch say, needs it there. */
static void leave_behind(Pass *p)
{
    for (guint k = 0; k < p->fetches->len; k++) {
        Fetch *f = &g_array_index(p->fetches, Fetch, k);
        if (f->fate == STAYS || (f->fate == MOVED && f->alloc != ECH_NONE && f->after > f->alloc))
            f->alloc = ECH_NONE;
    }
}

/* ---- loops ---- */

/* Whether its target is fetched into once more in its loop. */
static bool is_shared(const Pass *p, const Fetch *f)
{
    for (guint k = 0; k < p->fetches->len; k++) {
        const Fetch *other = &g_array_index(p->fetches, Fetch, k);
        if (other != f && other->region == f->region && other->target == f->target)
            return true;
    }
    return false;
}

/* Iterations that a ringed fetch runs ahead: no more than its loop has besides the first. */
static uint64_t depth_of(const Pass *p, const Fetch *f)
{
    return MIN(p->o->depth, MAX(p->s.ops[f->region].bytes, 1) - 1);
}

static void plan_rings(Pass *p)
{
    g_autofree bool *viewed = g_new0(bool, p->s.n_buffers + 1);
    for (size_t b = 0; b < p->s.n_buffers; b++)
        if (p->s.buffers[b].alias_of != ECH_NONE)
            viewed[p->s.buffers[b].alias_of] = true;
    for (guint k = 0; p->o->depth > 0 && k < p->fetches->len; k++) {
        Fetch *f = &g_array_index(p->fetches, Fetch, k);
        if (f->region == ECH_NONE || f->source == ECH_NONE || f->target == ECH_NONE || f->alloc == ECH_NONE || f->free == ECH_NONE || f->wait == ECH_NONE ||
            f->within || depth_of(p, f) == 0 || p->s.buffers[f->target].alias_of != ECH_NONE || is_shared(p, f))
            continue;
        /* In-place neighbours of the buffer would have to move with it. */
        EchId after = last_maker(p, f->source, p->s.end[f->region]), before = last_maker(p, f->source, f->op);
        /* It may itself wait for what made its source before the loop. */
        bool written = (after != ECH_NONE && after > f->op) || (before != ECH_NONE && before > f->region), shared = viewed[f->target];
        EchBytes more = ech_bytes_mul(p->s.buffers[f->target].bytes, depth_of(p, f));
        int64_t all = (int64_t)MIN(ech_bytes_add(more, p->s.buffers[f->target].bytes), INT64_MAX / 4);
        size_t last_full = ech_range_max_last_above(p->held, p->s.end[f->region], (int64_t)p->room - all);
        bool full = last_full != SIZE_MAX && last_full >= f->region;
        if (written || shared || full) {
            f->why = written  ? "they start with their iteration, and what they read is made in the one before"
                     : shared ? "they start with their iteration, and what views their memory would have to move with them"
                              : "they start with their iteration, and no memory is free to hold as many as depth asks for";
            continue;
        }
        f->fate = RINGED;
        take(p, f->region, p->s.end[f->region], all);
    }
}

/* ---- writing ---- */

typedef struct {
    Pass *p;
    EchEdit e;
    EchId *fetch_of; /* per op: 1 + fetch it belongs to (its ALLOC, FREE, COPY) */
    guint *moved_to; /* per op: 1 + first fetch that goes right before it; 0: none */
    GArray *loops;   /* open ones */
} Writer;

/* Iterations that @op runs ahead, where it is a fetch that does so. */
static uint32_t ahead_of(const Writer *w, EchId op)
{
    EchId k = w->fetch_of[op];
    const Fetch *f = k != 0 ? &g_array_index(w->p->fetches, Fetch, k - 1) : NULL;
    return f != NULL && f->fate == RINGED && f->op == op ? (uint32_t)depth_of(w->p, f) : 0;
}

/* What waits for a fetch that runs ahead waits for the one of an iteration before. */
static void add_rest(Writer *w, EchId op, bool deps)
{
    const Pass *p = w->p;
    const EchOp *o = &p->s.ops[op];
    for (uint32_t u = 0; u < o->n_uses; u++) {
        const EchUse *use = &p->s.uses[o->first_use + u];
        ech_trace_builder_use(w->e.builder, use->buffer, (EchAccess)use->access, use->bytes, (EchPattern)use->pattern, (EchOrigin)use->origin);
    }
    for (uint32_t d = 0; deps && d < o->n_deps; d++) {
        const EchDep *dep = &p->s.deps[o->first_dep + d];
        ech_edit_dep(&w->e, dep, ahead_of(w, dep->op));
    }
    ech_edit_work(&w->e, op, 1);
}

static void put(Writer *w, EchId op)
{
    w->e.map[op] = ech_trace_builder_op(w->e.builder, ech_edit_op(&w->e, op));
    if (w->p->s.ops[op].queue == w->p->s.core)
        w->e.last_core = w->e.map[op];
    add_rest(w, op, true);
}

/* A fetch where the core is now: it waits for that, and for copies that nobody waited for: that bring its source there, or still use its target. */
static EchId put_fetch(Writer *w, const Fetch *f)
{
    const Pass *p = w->p;
    const EchOp *o = &p->s.ops[f->op];
    EchId made = ech_trace_builder_op(w->e.builder, ech_edit_op(&w->e, f->op));
    if (w->e.last_core != ECH_NONE)
        ech_trace_builder_dep(w->e.builder, w->e.last_core, 0);
    for (uint32_t d = 0; f->source != ECH_NONE && d < o->n_deps; d++) {
        EchId before = p->s.deps[o->first_dep + d].op;
        if (p->s.ops[before].queue != p->s.core && w->e.map[before] != ECH_NONE && (makes(p, before, f->source) || touches(p, before, f->target)))
            ech_trace_builder_dep(w->e.builder, w->e.map[before], 0);
    }
    add_rest(w, f->op, false);
    return made;
}

static void put_moved(Writer *w, const Fetch *f)
{
    if (f->alloc != ECH_NONE)
        put(w, f->alloc);
    w->e.map[f->op] = put_fetch(w, f);
}

/* Before a loop: its ring, and the fetches of the first iterations. */
static void open_rings(Writer *w, EchId loop)
{
    const Pass *p = w->p;
    for (guint k = 0; k < p->fetches->len; k++) {
        const Fetch *f = &g_array_index(p->fetches, Fetch, k);
        if (f->fate != RINGED || f->region != loop)
            continue;
        EchBuffer *ring = ech_trace_builder_peek_buffer(w->e.builder, f->target);
        ring->bytes = ech_bytes_mul(ring->bytes, depth_of(p, f) + 1);
        (void)ech_edit_memory(&w->e, ECH_OP_ALLOC, f->target);
    }
    for (uint64_t ahead = 0; ahead < p->o->depth; ahead++)
        for (guint k = 0; k < p->fetches->len; k++) {
            const Fetch *f = &g_array_index(p->fetches, Fetch, k);
            if (f->fate != RINGED || f->region != loop || ahead >= depth_of(p, f))
                continue;
            EchId made = put_fetch(w, f);
            EchOp wait = ech_op_init(ECH_OP_WAIT);
            wait.queue = p->s.core;
            wait.name = ech_edit_text(&w->e, p->s.ops[f->wait].name);
            EchId waiter = ech_trace_builder_op(w->e.builder, wait);
            ech_trace_builder_dep(w->e.builder, made, 0);
            w->e.last_core = waiter;
        }
}

static void close_loop(Writer *w, EchId loop)
{
    const Pass *p = w->p;
    EchId made = w->e.map[loop];
    ech_edit_close(&w->e, made);
    for (guint k = 0; k < p->fetches->len; k++) {
        const Fetch *f = &g_array_index(p->fetches, Fetch, k);
        if (f->fate == RINGED && f->region == loop)
            (void)ech_edit_memory(&w->e, ECH_OP_FREE, f->target);
    }
}

static void write_ops(Writer *w)
{
    const Pass *p = w->p;
    for (EchId i = 0; i <= p->s.n; i++) {
        while (w->loops->len > 0 && p->s.end[g_array_index(w->loops, EchId, w->loops->len - 1)] == i) {
            EchId loop = g_array_index(w->loops, EchId, w->loops->len - 1);
            g_array_set_size(w->loops, w->loops->len - 1);
            close_loop(w, loop);
        }
        if (i == p->s.n)
            break;
        for (guint at = w->moved_to[i]; at != 0; at = g_array_index(p->fetches, Fetch, at - 1).next)
            put_moved(w, &g_array_index(p->fetches, Fetch, at - 1));
        EchId k = w->fetch_of[i];
        if (k != 0) {
            const Fetch *f = &g_array_index(p->fetches, Fetch, k - 1);
            if (f->fate != STAYS && (i == f->alloc || (f->fate == RINGED && i == f->free))) {
                w->e.map[i] = w->e.last_core; /* what waited for it, to begin here, waits for what came before */
                continue;
            }
            if (f->fate == MOVED && i == f->op)
                continue;
        }
        if (p->s.ops[i].kind == ECH_OP_LOOP) {
            open_rings(w, i);
            put(w, i);
            g_array_append_val(w->loops, i);
            w->e.last_core = ECH_NONE;
        } else
            put(w, i);
    }
}

/* Buffers made once per iteration name their LOOP op; rings are made before it. */
static void fix_loops(Writer *w)
{
    const Pass *p = w->p;
    ech_edit_loops(&w->e, p->s.n_buffers);
    for (guint k = 0; k < p->fetches->len; k++) {
        const Fetch *f = &g_array_index(p->fetches, Fetch, k);
        EchId around = f->fate == RINGED ? p->s.region[f->region] : ECH_NONE;
        if (f->fate == RINGED)
            ech_trace_builder_peek_buffer(w->e.builder, f->target)->loop = around == ECH_NONE ? ECH_NONE : w->e.map[around];
    }
}

/* Of the fetches that run @depth iterations ahead. */
static void say_rings(const Pass *p, uint64_t depth, EchDiag *diag)
{
    unsigned n = 0;
    EchBytes bytes = 0;
    for (guint k = 0; k < p->fetches->len; k++) {
        const Fetch *f = &g_array_index(p->fetches, Fetch, k);
        if (f->fate == RINGED && depth_of(p, f) == depth) {
            n++;
            bytes = ech_bytes_add(bytes, p->s.ops[f->op].bytes);
        }
    }
    if (n == 0)
        return;
    g_autofree char *size = ech_format_bytes(bytes);
    g_autofree char *less = depth < p->o->depth ? g_strdup_printf(", not the %" G_GUINT64_FORMAT " asked for: their loop has %" G_GUINT64_FORMAT " iterations",
                                                                  p->o->depth, depth + 1)
                                                : NULL;
    ech_diag_remark(diag,
                    "prefetch: %u fetch%s in loops (%s an iteration) run%s %" G_GUINT64_FORMAT
                    " iteration%s ahead%s; as many more than needed are made as the loop ends",
                    n, n == 1 ? "" : "es", size, n == 1 ? "s" : "", depth, depth == 1 ? "" : "s", less ? less : "");
}

static void say(const Pass *p, EchDiag *diag)
{
    unsigned moved = 0, ringed = 0;
    EchBytes moved_bytes = 0;
    EchTime gained = 0;
    for (guint k = 0; k < p->fetches->len; k++) {
        const Fetch *f = &g_array_index(p->fetches, Fetch, k);
        EchBytes bytes = p->s.ops[f->op].bytes;
        if (f->fate == MOVED) {
            moved++;
            moved_bytes = ech_bytes_add(moved_bytes, bytes);
            gained = MAX(gained, p->s.clock[f->op] - f->start);
        }
        ringed += f->fate == RINGED;
    }
    g_autofree char *a = ech_format_bytes(moved_bytes), *c = ech_format_bytes((EchBytes)MAX(ech_range_max_peak(p->extra, NULL), 0)),
                    *d = ech_format_time(gained);
    if (moved > 0)
        ech_diag_remark(diag, "prefetch: %u fetch%s from the host start%s earlier (%s), by %s of computing at most", moved, moved == 1 ? "" : "es",
                        moved == 1 ? "s" : "", a, d);
    for (uint64_t depth = p->o->depth; ringed > 0 && depth > 0; depth--)
        say_rings(p, depth, diag);
    if (moved + ringed > 0)
        ech_diag_remark(diag, "prefetch: it takes up to %s more of the device's memory%s", c,
                        ech_survey_has_places(&p->s) ? "; the compiler's places do not hold any more" : "");
    /* Declined, by reason, in the order met. */
    g_autofree bool *told = g_new0(bool, p->fetches->len + 1);
    for (guint k = 0; k < p->fetches->len; k++) {
        const Fetch *f = &g_array_index(p->fetches, Fetch, k);
        if (f->fate != STAYS || told[k] || f->why == NULL)
            continue;
        unsigned n = 0;
        for (guint j = k; j < p->fetches->len; j++) {
            const Fetch *g = &g_array_index(p->fetches, Fetch, j);
            if (g->fate == STAYS && g->why == f->why) {
                told[j] = true;
                n++;
            }
        }
        ech_diag_remark(diag, "prefetch: left %u fetch%s in place: %s", n, n == 1 ? "" : "es", f->why);
    }
}

static EchTrace *write_trace(Pass *p, GError **error)
{
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new(ech_trace_format(p->s.t));
    Writer writer = {.p = p}, *w = &writer;
    w->fetch_of = g_new0(EchId, p->s.n + 1);
    w->moved_to = g_new0(guint, p->s.n + 1);
    w->loops = g_array_new(FALSE, FALSE, sizeof(EchId));
    for (guint k = p->fetches->len; k-- > 0;) { /* of several in one place the first comes first */
        Fetch *f = &g_array_index(p->fetches, Fetch, k);
        if (f->fate != MOVED)
            continue;
        f->next = w->moved_to[f->after];
        w->moved_to[f->after] = k + 1;
    }
    for (guint k = 0; k < p->fetches->len; k++) {
        const Fetch *f = &g_array_index(p->fetches, Fetch, k);
        w->fetch_of[f->op] = k + 1;
        if (f->alloc != ECH_NONE)
            w->fetch_of[f->alloc] = k + 1;
        if (f->free != ECH_NONE && f->fate == RINGED)
            w->fetch_of[f->free] = k + 1;
    }
    ech_edit_init(&w->e, &p->s, builder);
    write_ops(w);
    fix_loops(w);
    EchTrace *out = ech_trace_builder_finish(builder, error);
    ech_edit_clear(&w->e);
    g_free(w->fetch_of);
    g_free(w->moved_to);
    g_array_unref(w->loops);
    return out;
}

static EchTrace *move_fetches(Pass *p, EchTrace *in, EchDiag *diag, GError **error)
{
    plan_rings(p);
    find_bars(p);
    plan_moves(p);
    keep_order(p);
    leave_behind(p);
    say(p, diag);
    bool any = false;
    for (guint k = 0; k < p->fetches->len; k++)
        any = any || g_array_index(p->fetches, Fetch, k).fate != STAYS;
    return any ? write_trace(p, error) : ech_trace_ref(in);
}

static EchTrace *prefetch_run(const void *options, const EchDevice *device, EchTrace *in, EchDiag *diag, GError **error)
{
    Pass pass = {.o = options}, *p = &pass;
    if (!ech_survey_init(&p->s, in, device)) {
        ech_diag_remark(diag, "prefetch: left the trace as it is: it has no device memory 'hbm', or nothing computes in it");
        return ech_trace_ref(in);
    }
    p->fetches = g_array_new(FALSE, FALSE, sizeof(Fetch));
    const EchMemory *hbm = device != NULL ? ech_device_memory(device, "hbm") : NULL;
    bool own_budget = p->o->budget > 0 || hbm == NULL;
    p->room = MIN(p->o->budget > 0 ? p->o->budget : hbm != NULL ? hbm->available : UINT64_MAX, UINT64_MAX / 4);
    const char *held = own_budget ? NULL : ech_trace_get_property(in, ECH_PASS_MEMORY);
    g_autofree int64_t *before = g_new0(int64_t, p->s.n + 1);
    p->extra = ech_range_max_new(before, p->s.n + 1);
    for (size_t i = 0; i <= p->s.n && !own_budget; i++)
        before[i] = (int64_t)MIN(p->s.live[i], INT64_MAX / 4);
    p->held = ech_range_max_new(before, p->s.n + 1);
    if (held != NULL) {
        p->room = MIN(p->room, g_ascii_strtoull(held, NULL, 10));
        count_flights(p);
    }
    find_fetches(p);
    EchTrace *out = NULL;
    if (p->fetches->len == 0) {
        ech_diag_remark(diag, "prefetch: nothing is fetched from the host by a copy of its own");
        out = ech_trace_ref(in);
    } else {
        ech_users_init(&p->users, &p->s, true, false);
        ech_users_init(&p->writers, &p->s, true, true);
        find_lists(p);
        out = move_fetches(p, in, diag, error);
        ech_users_clear(&p->users);
        ech_users_clear(&p->writers);
        list_clear(&p->waiters);
        list_clear(&p->memory);
        list_clear(&p->stops);
    }
    g_array_unref(p->fetches);
    ech_range_max_free(p->extra);
    ech_range_max_free(p->held);
    ech_survey_clear(&p->s);
    return out;
}

const EchPassClass ech_pass_prefetch = {.name = "prefetch",
                                        .summary = "fetch from host memory earlier, across layers and loop iterations, within a memory budget",
                                        .source = "ours",
                                        .params = prefetch_params,
                                        .options_size = sizeof(PrefetchOptions),
                                        .trace = prefetch_run};
