/* prefetch: what is fetched from host memory is fetched earlier, as far ahead as it takes to hide the copy and as memory allows.
 *
 * Along a program, fetches keep their order and are given the latest start from which the link can finish each of them before it is waited for. Around a loop,
 * a fetch of what the loop does not itself write to the host is made iterations ahead, into a ring of buffers; the first ones are made before the loop. */
#include "sim/pass/pass.h"

#include "sim/base/error.h"

#include <string.h>

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
     "device memory that earlier fetches may take more, at any moment; 0: what is free then"},
    {"above", ECH_PARAM_BYTES, offsetof(PrefetchOptions, above), "0", NULL, NULL, NULL, "only fetches of at least this size"},
    {NULL, ECH_PARAM_U64, 0, NULL, NULL, NULL, NULL, NULL},
};

typedef enum { STAYS, MOVED, RINGED } Fate;

typedef struct {
    EchId op;                      /* the COPY */
    EchId source, target;          /* buffers */
    EchId alloc, free;             /* of the target, in the same body; ECH_NONE */
    EchId wait;                    /* first op that depends on it */
    EchId region;                  /* LOOP around it, or ECH_NONE */
    EchTime needed, length, start; /* on the core's own clock */
    EchId after;                   /* MOVED: op it follows; the region's LOOP for its very beginning */
    Fate fate;
    const char *why; /* STAYS */
} Fetch;

typedef struct {
    EchTrace *t;
    const EchOp *ops;
    const EchUse *uses;
    const EchDep *deps;
    const EchBuffer *buffers;
    size_t n;
    EchId hbm, core;
    EchId *region;   /* per op: LOOP around it, or ECH_NONE */
    EchId *end;      /* LOOP: first op after its body */
    EchTime *clock;  /* per op: when the core comes to it, loops in it once; what a WAIT waits is not in it */
    uint64_t *live;  /* per op: bytes of the device memory taken before it */
    uint64_t *extra; /* per op: bytes more that this pass has taken */
    uint64_t room;   /* bytes the pass may take at any moment */
    bool own_budget;
    const PrefetchOptions *o;
    GArray *fetches;
} Pass;

static bool is_host(const EchDevice *device, const EchTrace *t, EchId memory)
{
    const char *name = ech_trace_memory(t, memory);
    const EchMemory *known = device != NULL ? ech_device_memory(device, name) : NULL;
    return known != NULL ? known->kind == ECH_MEM_HOST_PINNED || known->kind == ECH_MEM_HOST_PAGEABLE : g_str_has_prefix(name, "host");
}

static EchId root_buffer(const Pass *p, EchId buffer)
{
    while (buffer != ECH_NONE && p->buffers[buffer].alias_of != ECH_NONE)
        buffer = p->buffers[buffer].alias_of;
    return buffer;
}

/* How long the core is busy with an op. */
static EchTime length_of(const Pass *p, const EchDevice *device, EchId op)
{
    const EchOp *o = &p->ops[op];
    if (o->kind != ECH_OP_KERNEL || o->queue != p->core)
        return 0;
    if (o->estimate != ECH_TIME_NONE)
        return o->estimate;
    if (o->recorded.duration != ECH_TIME_NONE)
        return o->recorded.duration;
    EchBytes bytes = 0;
    for (uint32_t u = 0; u < o->n_uses; u++)
        bytes = ech_bytes_add(bytes, p->uses[o->first_use + u].bytes);
    const EchMemory *hbm = device != NULL ? ech_device_memory(device, "hbm") : NULL;
    EchTime time = hbm != NULL && hbm->read > 0 ? ech_time_for(bytes, hbm->read) : 0;
    for (uint32_t w = 0; device != NULL && w < o->n_work; w++) {
        const EchWork *work = &ech_trace_work(p->t)[o->first_work + w];
        const EchUnit *unit = ech_device_unit(device, work->unit == ECH_WORK_MATRIX   ? ECH_UNIT_MATRIX
                                                      : work->unit == ECH_WORK_VECTOR ? ECH_UNIT_VECTOR
                                                                                      : ECH_UNIT_TRANSCENDENTAL);
        uint64_t peak = 0;
        for (size_t k = 0; unit != NULL && k < unit->n_peaks; k++)
            if (strcmp(unit->peaks[k].dtype, ech_dtype_name((EchDtype)work->dtype)) == 0 || peak == 0)
                peak = unit->peaks[k].ops;
        if (peak > 0)
            time = MAX(time, ech_time_for(work->count, peak));
    }
    return time;
}

static void survey(Pass *p, const EchDevice *device)
{
    g_autoptr(GArray) open = g_array_new(FALSE, FALSE, sizeof(EchId));
    g_autofree EchTime *began = g_new0(EchTime, p->n + 1);
    EchTime now = 0;
    uint64_t live = 0;
    for (size_t b = 0; b < ech_trace_n_buffers(p->t); b++)
        if (p->buffers[b].resident && p->buffers[b].memory == p->hbm && p->buffers[b].alias_of == ECH_NONE)
            live = ech_bytes_add(live, p->buffers[b].bytes);
    for (size_t i = 0; i <= p->n; i++) {
        while (open->len > 0 && p->end[g_array_index(open, EchId, open->len - 1)] == i) {
            EchId loop = g_array_index(open, EchId, open->len - 1);
            /* Its other iterations. */
            EchTime body = now - began[loop];
            uint64_t more = p->ops[loop].bytes > 0 ? p->ops[loop].bytes - 1 : 0;
            if (body > 0 && more > 0)
                now = (uint64_t)body > (uint64_t)INT64_MAX / 4 / more ? INT64_MAX / 4 : now + body * (EchTime)more;
            now = MIN(now, INT64_MAX / 4);
            g_array_set_size(open, open->len - 1);
        }
        if (i == p->n)
            break;
        const EchOp *o = &p->ops[i];
        p->region[i] = open->len > 0 ? g_array_index(open, EchId, open->len - 1) : ECH_NONE;
        p->clock[i] = now;
        p->live[i] = live;
        if (o->kind == ECH_OP_LOOP) {
            EchId loop = (EchId)i;
            p->end[i] = (EchId)(i + 1 + o->target);
            began[i] = now;
            g_array_append_val(open, loop);
        } else if ((o->kind == ECH_OP_ALLOC || o->kind == ECH_OP_FREE) && p->buffers[o->target].memory == p->hbm)
            live = o->kind == ECH_OP_ALLOC ? ech_bytes_add(live, p->buffers[o->target].bytes) : live - MIN(live, p->buffers[o->target].bytes);
        EchTime length = length_of(p, device, (EchId)i);
        now = MIN(now + MIN(length, INT64_MAX / 8), INT64_MAX / 4);
    }
}

/* The op at @region's level that @op is part of; ECH_NONE if it is outside. */
static EchId at_level(const Pass *p, EchId op, EchId region)
{
    while (op != ECH_NONE && p->region[op] != region)
        op = p->region[op];
    return op;
}

static void find_fetches(Pass *p, const EchDevice *device)
{
    g_autofree EchId *first_waiter = g_new(EchId, p->n + 1);
    for (size_t i = 0; i < p->n; i++)
        first_waiter[i] = ECH_NONE;
    for (size_t i = 0; i < p->n; i++)
        for (uint32_t d = 0; d < p->ops[i].n_deps; d++) {
            const EchDep *dep = &p->deps[p->ops[i].first_dep + d];
            if (dep->distance == 0 && first_waiter[dep->op] == ECH_NONE)
                first_waiter[dep->op] = (EchId)i;
        }
    for (size_t i = 0; i < p->n; i++) {
        const EchOp *o = &p->ops[i];
        if (o->kind != ECH_OP_COPY || o->memory_to != p->hbm || !is_host(device, p->t, o->memory_from) || o->bytes < MAX(p->o->above, 1) || o->queue == p->core)
            continue;
        Fetch f = {.op = (EchId)i,
                   .source = ECH_NONE,
                   .target = ECH_NONE,
                   .alloc = ECH_NONE,
                   .free = ECH_NONE,
                   .wait = first_waiter[i],
                   .region = p->region[i],
                   .after = ECH_NONE};
        if (o->n_uses >= 2) {
            f.source = p->uses[o->first_use].buffer;
            f.target = p->uses[o->first_use + 1].buffer;
        }
        const EchLink *link = NULL;
        for (size_t l = 0; device != NULL && l < device->n_links && link == NULL; l++)
            if (strcmp(device->links[l].name, "host") == 0)
                link = &device->links[l];
        f.length = link != NULL && link->to_device > 0 ? ech_time_for(o->bytes, link->to_device) + link->latency + link->setup : 0;
        g_array_append_val(p->fetches, f);
    }
    /* Where the target's memory is taken and given back. */
    for (guint k = 0; k < p->fetches->len; k++) {
        Fetch *f = &g_array_index(p->fetches, Fetch, k);
        for (EchId i = f->op; f->target != ECH_NONE && i-- > 0 && f->alloc == ECH_NONE;)
            if (p->ops[i].kind == ECH_OP_ALLOC && p->ops[i].target == f->target)
                f->alloc = i;
        for (EchId i = f->op; f->target != ECH_NONE && i < p->n && f->free == ECH_NONE; i++)
            if (p->ops[i].kind == ECH_OP_FREE && p->ops[i].target == f->target)
                f->free = i;
        if (f->alloc != ECH_NONE && p->region[f->alloc] != f->region)
            f->alloc = ECH_NONE;
        if (f->free != ECH_NONE && p->region[f->free] != f->region)
            f->free = ECH_NONE;
    }
}

/* Does @op write, or wait for a copy that writes, the source of a fetch? */
static bool makes(const Pass *p, EchId op, EchId source)
{
    EchId root = root_buffer(p, source);
    const EchOp *o = &p->ops[op];
    for (uint32_t u = 0; u < o->n_uses; u++)
        if (p->uses[o->first_use + u].access == ECH_WRITE && root_buffer(p, p->uses[o->first_use + u].buffer) == root)
            return true;
    for (uint32_t d = 0; d < o->n_deps; d++) {
        const EchOp *before = &p->ops[p->deps[o->first_dep + d].op];
        for (uint32_t u = 0; u < before->n_uses; u++)
            if (p->uses[before->first_use + u].access == ECH_WRITE && root_buffer(p, p->uses[before->first_use + u].buffer) == root)
                return true;
    }
    return (o->kind == ECH_OP_ALLOC || o->kind == ECH_OP_FREE) && root_buffer(p, o->target) == root;
}

static bool touches(const Pass *p, EchId op, EchId buffer)
{
    EchId root = root_buffer(p, buffer);
    const EchOp *o = &p->ops[op];
    if ((o->kind == ECH_OP_ALLOC || o->kind == ECH_OP_FREE) && root_buffer(p, o->target) == root)
        return true;
    for (uint32_t u = 0; u < o->n_uses; u++)
        if (root_buffer(p, p->uses[o->first_use + u].buffer) == root)
            return true;
    return false;
}

/* Nothing of the fetch may come before this op (at the fetch's level), or right after it at the earliest. */
static bool bars(const Pass *p, const Fetch *f, EchId op)
{
    EchId last = p->ops[op].kind == ECH_OP_LOOP ? p->end[op] - 1 : op;
    for (EchId i = op; i <= last; i++) {
        if (f->source != ECH_NONE && makes(p, i, f->source))
            return true;
        if (f->target != ECH_NONE && i != f->alloc && touches(p, i, f->target))
            return true;
        if (p->ops[i].kind == ECH_OP_MARK && i == op && f->source == ECH_NONE)
            return true;
    }
    return false;
}

static bool has_room(const Pass *p, const Fetch *f, EchId from)
{
    if (f->alloc == ECH_NONE)
        return true;
    EchBytes bytes = p->buffers[f->target].bytes;
    for (EchId i = from; i < f->alloc; i++)
        if ((p->own_budget ? 0 : p->live[i]) + p->extra[i] + bytes > p->room)
            return false;
    return true;
}

/* The place from which a fetch is in time, or as near to it as what it reads, memory and the start of its body allow. */
static void hoist(Pass *p, Fetch *f, EchTime wanted)
{
    EchId best = ECH_NONE, at = f->op;
    bool barred = false, full = false;
    while (true) {
        /* The op before, at this level. */
        EchId before = at == 0 ? ECH_NONE : at_level(p, at - 1, f->region);
        if (before == ECH_NONE || before == f->region || at - 1 == f->region)
            break;
        if (bars(p, f, before)) {
            barred = true;
            break;
        }
        at = before;
        if (p->ops[at].queue != p->core && p->ops[at].kind != ECH_OP_LOOP)
            continue;
        /* Starts before @at: after what precedes it on the core. */
        if (!has_room(p, f, at)) {
            full = true;
            break;
        }
        if (p->clock[at] >= f->start && best == ECH_NONE && f->start <= wanted)
            break;
        best = at;
        if (p->clock[at] <= wanted)
            break;
    }
    if (best == ECH_NONE || p->clock[best] >= p->clock[f->op]) {
        f->why = full     ? "no memory is free to hold it longer"
                 : barred ? "what they read is made just before, or their memory is in use until then"
                          : "they start at the beginning already";
        return;
    }
    f->fate = MOVED;
    f->after = best; /* goes right before it */
    f->start = p->clock[best];
    if (f->alloc != ECH_NONE)
        for (EchId i = best; i < f->alloc; i++)
            p->extra[i] += p->buffers[f->target].bytes;
}

static void plan_moves(Pass *p)
{
    /* From the last to the first of each body: each is done before it is waited for and before the next one needs the link. */
    EchTime next = INT64_MAX;
    EchId region = ECH_NONE - 1;
    for (guint k = p->fetches->len; k > 0; k--) {
        Fetch *f = &g_array_index(p->fetches, Fetch, k - 1);
        f->start = p->clock[f->op];
        EchId wait = f->wait == ECH_NONE ? ECH_NONE : at_level(p, f->wait, f->region);
        f->needed = wait != ECH_NONE ? p->clock[wait] : p->clock[f->op];
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
        for (EchId i = f->after; f->alloc != ECH_NONE && i < f->alloc && i < least; i++)
            p->extra[i] -= p->buffers[f->target].bytes;
        f->after = least;
        f->start = p->clock[least];
        /* Right after the one before is where it is already. */
        if (before->fate != MOVED && least + 1 >= (f->alloc != ECH_NONE ? f->alloc : f->op)) {
            f->fate = STAYS;
            f->why = "they follow another fetch at once";
        } else if (before->fate != MOVED)
            f->after = least + 1;
    }
}

/* ---- loops ---- */

static void plan_rings(Pass *p)
{
    for (guint k = 0; p->o->depth > 0 && k < p->fetches->len; k++) {
        Fetch *f = &g_array_index(p->fetches, Fetch, k);
        if (f->region == ECH_NONE || f->source == ECH_NONE || f->target == ECH_NONE || f->alloc == ECH_NONE || f->free == ECH_NONE || f->wait == ECH_NONE ||
            at_level(p, f->wait, f->region) != f->wait || p->ops[f->region].bytes <= p->o->depth || p->buffers[f->target].alias_of != ECH_NONE)
            continue;
        /* In-place neighbours of the buffer would have to move with it. */
        bool written = false, shared = false;
        for (EchId i = f->region + 1; i < p->end[f->region] && !written; i++)
            written = makes(p, i, f->source);
        for (size_t b = 0; b < ech_trace_n_buffers(p->t) && !shared; b++)
            shared = p->buffers[b].alias_of == f->target;
        EchBytes more = ech_bytes_mul(p->buffers[f->target].bytes, p->o->depth);
        bool full = false;
        for (EchId i = f->region; i < p->end[f->region] && !full; i++)
            full = ech_bytes_add((p->own_budget ? 0 : p->live[i]) + p->extra[i], ech_bytes_add(more, p->buffers[f->target].bytes)) > p->room;
        if (written || shared || full)
            continue;
        f->fate = RINGED;
        for (EchId i = f->region; i < p->end[f->region]; i++)
            p->extra[i] += ech_bytes_add(more, p->buffers[f->target].bytes);
    }
}

/* ---- writing ---- */

typedef struct {
    Pass *p;
    EchTraceBuilder *b;
    EchId *map;      /* new id of an op */
    EchId *fetch_of; /* per op: 1 + fetch it belongs to (its ALLOC, FREE, COPY) */
    GArray *loops;   /* open ones */
    EchId last_core;
} Writer;

static EchId text(Writer *w, EchId string)
{
    return string == ECH_NONE ? ECH_NONE : ech_trace_builder_string(w->b, ech_trace_string(w->p->t, string), -1);
}

static void copy_frame(Writer *w)
{
    const EchTrace *t = w->p->t;
    for (size_t m = 0; m < ech_trace_n_memories(t); m++)
        (void)ech_trace_builder_memory(w->b, ech_trace_memory(t, (EchId)m));
    for (size_t q = 0; q < ech_trace_n_queues(t); q++) {
        const EchQueue *queue = &ech_trace_queues(t)[q];
        (void)ech_trace_builder_queue(w->b, ech_trace_string(t, queue->name), (EchQueueKind)queue->kind, queue->device);
    }
    const char *key, *value;
    for (size_t i = 0; (key = ech_trace_property(t, i, &value)) != NULL; i++)
        ech_trace_builder_set_property(w->b, key, value);
    for (size_t b = 0; b < ech_trace_n_buffers(t); b++) {
        EchBuffer buffer = w->p->buffers[b];
        buffer.name = text(w, buffer.name);
        buffer.pool = text(w, buffer.pool);
        buffer.stack = text(w, buffer.stack);
        buffer.shape = text(w, buffer.shape);
        /* The compiler's places hold for its own schedule. */
        if (buffer.memory == w->p->hbm)
            buffer.offset = ECH_OFFSET_NONE;
        (void)ech_trace_builder_buffer(w->b, buffer);
    }
}

static EchOp fresh(Writer *w, EchId op)
{
    EchOp o = w->p->ops[op];
    o.name = text(w, o.name);
    o.stack = text(w, o.stack);
    o.launch = text(w, o.launch);
    return o;
}

static void add_rest(Writer *w, EchId op, bool deps, uint32_t more_distance, EchId fetch)
{
    const Pass *p = w->p;
    const EchOp *o = &p->ops[op];
    for (uint32_t u = 0; u < o->n_uses; u++) {
        const EchUse *use = &p->uses[o->first_use + u];
        ech_trace_builder_use(w->b, use->buffer, (EchAccess)use->access, use->bytes, (EchPattern)use->pattern, (EchOrigin)use->origin);
    }
    for (uint32_t d = 0; deps && d < o->n_deps; d++) {
        const EchDep *dep = &p->deps[o->first_dep + d];
        if (w->map[dep->op] != ECH_NONE)
            ech_trace_builder_dep(w->b, w->map[dep->op], dep->distance + (dep->op == fetch ? more_distance : 0));
    }
    for (uint32_t k = 0; k < o->n_work; k++) {
        const EchWork *work = &ech_trace_work(p->t)[o->first_work + k];
        ech_trace_builder_work(w->b, (EchWorkUnit)work->unit, (EchDtype)work->dtype, work->count, (EchOrigin)work->origin);
    }
}

static void put(Writer *w, EchId op)
{
    EchId fetch = ECH_NONE;
    uint32_t more = 0;
    const Pass *p = w->p;
    /* Waiting for a fetch that runs ahead: for the one of an iteration before. */
    for (uint32_t d = 0; d < p->ops[op].n_deps; d++) {
        EchId before = p->deps[p->ops[op].first_dep + d].op, k = w->fetch_of[before];
        if (k != 0 && g_array_index(p->fetches, Fetch, k - 1).fate == RINGED && g_array_index(p->fetches, Fetch, k - 1).op == before) {
            fetch = before;
            more = (uint32_t)p->o->depth;
        }
    }
    w->map[op] = ech_trace_builder_op(w->b, fresh(w, op));
    if (p->ops[op].queue == p->core)
        w->last_core = w->map[op];
    add_rest(w, op, true, more, fetch);
}

static void put_memory(Writer *w, EchOpKind kind, EchId buffer)
{
    EchOp o = ech_op_init(kind);
    o.target = buffer;
    o.bytes = ech_trace_builder_peek_buffer(w->b, buffer)->bytes;
    o.bytes_origin = ECH_INFERRED;
    o.queue = w->p->core;
    o.name = ech_trace_builder_peek_buffer(w->b, buffer)->name;
    w->last_core = ech_trace_builder_op(w->b, o);
}

static void put_moved(Writer *w, const Fetch *f)
{
    if (f->alloc != ECH_NONE)
        put(w, f->alloc);
    w->map[f->op] = ech_trace_builder_op(w->b, fresh(w, f->op));
    if (w->last_core != ECH_NONE)
        ech_trace_builder_dep(w->b, w->last_core, 0);
    add_rest(w, f->op, false, 0, ECH_NONE);
}

/* Before a loop: its ring, and the fetches of the first iterations. */
static void open_rings(Writer *w, EchId loop)
{
    const Pass *p = w->p;
    for (guint k = 0; k < p->fetches->len; k++) {
        const Fetch *f = &g_array_index(p->fetches, Fetch, k);
        if (f->fate != RINGED || f->region != loop)
            continue;
        EchBuffer *ring = ech_trace_builder_peek_buffer(w->b, f->target);
        ring->bytes = ech_bytes_mul(ring->bytes, p->o->depth + 1);
        ring->loop = p->region[loop] == ECH_NONE ? ECH_NONE : w->map[p->region[loop]];
        put_memory(w, ECH_OP_ALLOC, f->target);
    }
    for (uint64_t ahead = 0; ahead < p->o->depth; ahead++)
        for (guint k = 0; k < p->fetches->len; k++) {
            const Fetch *f = &g_array_index(p->fetches, Fetch, k);
            if (f->fate != RINGED || f->region != loop)
                continue;
            EchId made = ech_trace_builder_op(w->b, fresh(w, f->op));
            if (w->last_core != ECH_NONE)
                ech_trace_builder_dep(w->b, w->last_core, 0);
            add_rest(w, f->op, false, 0, ECH_NONE);
            EchOp wait = ech_op_init(ECH_OP_WAIT);
            wait.queue = p->core;
            wait.name = text(w, p->ops[f->wait].name);
            EchId waiter = ech_trace_builder_op(w->b, wait);
            ech_trace_builder_dep(w->b, made, 0);
            w->last_core = waiter;
        }
}

static void close_loop(Writer *w, EchId loop)
{
    const Pass *p = w->p;
    EchId made = w->map[loop];
    ech_trace_builder_peek_op(w->b, made)->target = (EchId)(ech_trace_builder_n_ops(w->b) - made - 1);
    w->last_core = made;
    for (guint k = 0; k < p->fetches->len; k++) {
        const Fetch *f = &g_array_index(p->fetches, Fetch, k);
        if (f->fate == RINGED && f->region == loop)
            put_memory(w, ECH_OP_FREE, f->target);
    }
}

static void write_ops(Writer *w)
{
    const Pass *p = w->p;
    for (EchId i = 0; i <= p->n; i++) {
        while (w->loops->len > 0 && p->end[g_array_index(w->loops, EchId, w->loops->len - 1)] == i) {
            EchId loop = g_array_index(w->loops, EchId, w->loops->len - 1);
            g_array_set_size(w->loops, w->loops->len - 1);
            close_loop(w, loop);
        }
        if (i == p->n)
            break;
        for (guint k = 0; k < p->fetches->len; k++) {
            const Fetch *f = &g_array_index(p->fetches, Fetch, k);
            if (f->fate == MOVED && f->after == i)
                put_moved(w, f);
        }
        EchId k = w->fetch_of[i];
        if (k != 0) {
            const Fetch *f = &g_array_index(p->fetches, Fetch, k - 1);
            if (f->fate == MOVED && (i == f->op || i == f->alloc))
                continue;
            if (f->fate == RINGED && (i == f->alloc || i == f->free)) {
                w->map[i] = w->last_core; /* what waited for it waits for what came before */
                continue;
            }
        }
        if (p->ops[i].kind == ECH_OP_LOOP) {
            open_rings(w, i);
            put(w, i);
            g_array_append_val(w->loops, i);
            w->last_core = ECH_NONE;
        } else
            put(w, i);
    }
}

static void fix_loops(Writer *w)
{
    /* Buffers made once per iteration name their LOOP op. */
    const Pass *p = w->p;
    for (size_t b = 0; b < ech_trace_n_buffers(p->t); b++) {
        EchBuffer *buffer = ech_trace_builder_peek_buffer(w->b, (EchId)b);
        bool ring = false;
        for (guint k = 0; k < p->fetches->len && !ring; k++)
            ring = g_array_index(p->fetches, Fetch, k).fate == RINGED && g_array_index(p->fetches, Fetch, k).target == b;
        if (!ring && p->buffers[b].loop != ECH_NONE)
            buffer->loop = w->map[p->buffers[b].loop];
    }
}

static void say(const Pass *p, EchDiag *diag)
{
    unsigned moved = 0, ringed = 0;
    EchBytes moved_bytes = 0, ringed_bytes = 0, most = 0;
    EchTime gained = 0;
    for (guint k = 0; k < p->fetches->len; k++) {
        const Fetch *f = &g_array_index(p->fetches, Fetch, k);
        EchBytes bytes = p->ops[f->op].bytes;
        if (f->fate == MOVED) {
            moved++;
            moved_bytes = ech_bytes_add(moved_bytes, bytes);
            gained = MAX(gained, p->clock[f->op] - f->start);
        }
        if (f->fate == RINGED) {
            ringed++;
            ringed_bytes = ech_bytes_add(ringed_bytes, bytes);
        }
    }
    for (size_t i = 0; i < p->n; i++)
        most = MAX(most, p->extra[i]);
    g_autofree char *a = ech_format_bytes(moved_bytes), *b = ech_format_bytes(ringed_bytes), *c = ech_format_bytes(most), *d = ech_format_time(gained);
    if (moved > 0)
        ech_diag_remark(diag, "prefetch: %u fetch%s from the host start%s earlier (%s), by %s of computing at most", moved, moved == 1 ? "" : "es",
                        moved == 1 ? "s" : "", a, d);
    if (ringed > 0)
        ech_diag_remark(diag,
                        "prefetch: %u fetch%s in loops (%s an iteration) run%s %" G_GUINT64_FORMAT
                        " iteration%s ahead; as many more than needed are made as the loop ends",
                        ringed, ringed == 1 ? "" : "es", b, ringed == 1 ? "s" : "", p->o->depth, p->o->depth == 1 ? "" : "s");
    if (moved + ringed > 0)
        ech_diag_remark(
            diag,
            "prefetch: it takes up to %s more of the device's memory; its buffers are placed by the allocator, the compiler's places do not hold any more", c);
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

static EchTrace *prefetch_run(const void *options, const EchDevice *device, EchTrace *in, EchDiag *diag, GError **error)
{
    Pass pass = {.t = in,
                 .ops = ech_trace_ops(in),
                 .uses = ech_trace_uses(in),
                 .deps = ech_trace_deps(in),
                 .buffers = ech_trace_buffers(in),
                 .n = ech_trace_n_ops(in),
                 .o = options},
         *p = &pass;
    p->hbm = ech_trace_find_memory(in, "hbm");
    p->core = ECH_NONE;
    for (size_t q = 0; q < ech_trace_n_queues(in) && p->core == ECH_NONE; q++)
        if (ech_trace_queues(in)[q].kind == ECH_QUEUE_COMPUTE)
            p->core = (EchId)q;
    if (p->hbm == ECH_NONE || p->core == ECH_NONE) {
        ech_diag_remark(diag, "prefetch: left the trace as it is: it has no device memory 'hbm', or nothing computes in it");
        return ech_trace_ref(in);
    }
    p->fetches = g_array_new(FALSE, FALSE, sizeof(Fetch));
    p->region = g_new0(EchId, p->n + 1);
    p->end = g_new0(EchId, p->n + 1);
    p->clock = g_new0(EchTime, p->n + 1);
    p->live = g_new0(uint64_t, p->n + 1);
    p->extra = g_new0(uint64_t, p->n + 1);
    const EchMemory *hbm = device != NULL ? ech_device_memory(device, "hbm") : NULL;
    p->own_budget = p->o->budget > 0 || hbm == NULL;
    p->room = p->o->budget > 0 ? p->o->budget : hbm != NULL ? hbm->available : UINT64_MAX / 4;
    survey(p, device);
    find_fetches(p, device);
    EchTrace *out = NULL;
    if (p->fetches->len == 0) {
        ech_diag_remark(diag, "prefetch: nothing is fetched from the host by a copy of its own");
        out = ech_trace_ref(in);
    } else {
        plan_rings(p);
        plan_moves(p);
        keep_order(p);
        say(p, diag);
        bool any = false;
        for (guint k = 0; k < p->fetches->len; k++)
            any = any || g_array_index(p->fetches, Fetch, k).fate != STAYS;
        if (!any)
            out = ech_trace_ref(in);
        else {
            g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new(ech_trace_format(in));
            Writer writer = {.p = p, .b = builder, .last_core = ECH_NONE}, *w = &writer;
            w->map = g_new(EchId, p->n + 1);
            w->fetch_of = g_new0(EchId, p->n + 1);
            w->loops = g_array_new(FALSE, FALSE, sizeof(EchId));
            for (guint k = 0; k < p->fetches->len; k++) {
                const Fetch *f = &g_array_index(p->fetches, Fetch, k);
                w->fetch_of[f->op] = k + 1;
                if (f->alloc != ECH_NONE)
                    w->fetch_of[f->alloc] = k + 1;
                if (f->free != ECH_NONE && f->fate == RINGED)
                    w->fetch_of[f->free] = k + 1;
            }
            copy_frame(w);
            write_ops(w);
            fix_loops(w);
            ech_trace_builder_drop_properties(builder, "buffer_assignment");
            out = ech_trace_builder_finish(builder, error);
            g_free(w->map);
            g_free(w->fetch_of);
            g_array_unref(w->loops);
        }
    }
    g_array_unref(p->fetches);
    g_free(p->region);
    g_free(p->end);
    g_free(p->clock);
    g_free(p->live);
    g_free(p->extra);
    return out;
}

const EchPassClass ech_pass_prefetch = {.name = "prefetch",
                                        .summary = "fetch from host memory earlier, across layers and loop iterations, within a memory budget",
                                        .source = "ours",
                                        .params = prefetch_params,
                                        .options_size = sizeof(PrefetchOptions),
                                        .trace = prefetch_run};
