#include "sim/trace/verify.h"

#include "sim/base/error.h"

/* An open loop while the ops are walked in order. */
typedef struct {
    uint32_t op;        /* The LOOP */
    uint32_t end;       /* First op after its body */
    uint32_t first_log; /* Where its allocations begin in the log */
    uint64_t cost;      /* Ops its body expands to so far */
} OpenLoop;

typedef struct {
    const EchTrace *trace;
    const EchOp *ops;
    const EchBuffer *buffers;
    size_t n_ops, n_buffers;
    GArray *loops;    /* OpenLoop */
    uint32_t *parent; /* parent[n_ops]: innermost LOOP around an op */
    uint8_t *live;    /* live[n_buffers] */
    uint8_t *odd;     /* odd[n_buffers]: scratch for the balance of a loop body */
    GArray *log;      /* Buffers allocated or freed inside the open loops */
    GHashTable *events;
    uint64_t cost;
} Verifier;

#define FAIL(error, ...)                                                                                                                                       \
    do {                                                                                                                                                       \
        g_set_error(error, ECH_ERROR, ECH_ERROR_VERIFY, __VA_ARGS__);                                                                                          \
        return false;                                                                                                                                          \
    } while (0)

static bool id_ok(EchId id, size_t n)
{
    return id == ECH_NONE || id < n;
}

static bool verify_buffers(Verifier *v, GError **error)
{
    const EchTrace *trace = v->trace;
    size_t n_strings = ech_trace_n_strings(trace);
    if (ech_trace_n_memories(trace) > ECH_MAX_MEMORIES || ech_trace_n_queues(trace) > ECH_MAX_QUEUES)
        FAIL(error, "V15: %zu memories and %zu queues; expected at most %d and %d", ech_trace_n_memories(trace), ech_trace_n_queues(trace), ECH_MAX_MEMORIES,
             ECH_MAX_QUEUES);
    g_autofree uint8_t *depth = g_new0(uint8_t, v->n_buffers + 1); /* how many parents a buffer has */
    for (size_t i = 0; i < v->n_buffers; i++) {
        const EchBuffer *b = &v->buffers[i];
        if (!id_ok(b->name, n_strings) || b->memory >= ech_trace_n_memories(trace) || !id_ok(b->queue, ech_trace_n_queues(trace)) ||
            !id_ok(b->pool, n_strings) || !id_ok(b->stack, n_strings) || !id_ok(b->shape, n_strings) || !id_ok(b->loop, v->n_ops) || b->role >= ECH_N_ROLES ||
            b->dtype >= ECH_N_DTYPES)
            FAIL(error, "V1: buffer %zu names something that does not exist", i);
        if (b->loop != ECH_NONE && v->ops[b->loop].kind != ECH_OP_LOOP)
            FAIL(error, "V1: buffer %zu: op %u is not a loop", i, b->loop);
        if (b->alias_of != ECH_NONE) {
            if (b->alias_of >= i)
                FAIL(error, "V7: buffer %zu is an alias of buffer %u, which does not come before it", i, b->alias_of);
            EchBytes parent = v->buffers[b->alias_of].bytes;
            if (b->bytes > parent || b->alias_offset > parent - b->bytes)
                FAIL(error, "V7: buffer %zu: bytes [%" G_GUINT64_FORMAT ", +%" G_GUINT64_FORMAT ") lie outside its parent's %" G_GUINT64_FORMAT, i,
                     b->alias_offset, b->bytes, parent);
            if (depth[b->alias_of] >= ECH_MAX_ALIASES)
                FAIL(error, "V7: buffer %zu is an alias of an alias, and so on more than %d deep", i, ECH_MAX_ALIASES);
            depth[i] = (uint8_t)(depth[b->alias_of] + 1);
        }
        if (b->offset != ECH_OFFSET_NONE && b->bytes > UINT64_MAX - b->offset)
            FAIL(error, "V13: buffer %zu: offset + bytes overflows", i);
        if (b->direct && (b->offset != ECH_OFFSET_NONE || b->alias_of != ECH_NONE || b->pool != ECH_NONE))
            FAIL(error, "V16: buffer %zu is direct and has a fixed offset, a private pool, or is an alias", i);
        if (b->managed && (b->managed > ECH_MANAGED_ALL || !(b->managed & ECH_MANAGED)))
            FAIL(error, "V17: buffer %zu has no kind of managed memory that is known", i);
        if (b->managed && (b->direct || b->offset != ECH_OFFSET_NONE || b->alias_of != ECH_NONE || b->pool != ECH_NONE))
            FAIL(error, "V17: buffer %zu is managed and direct, has a fixed offset, a private pool, or is an alias", i);
        v->live[i] = b->resident != 0;
    }
    for (size_t i = 0; i < ech_trace_n_queues(trace); i++) {
        const EchQueue *q = &ech_trace_queues(trace)[i];
        if (!id_ok(q->name, n_strings) || q->kind >= ECH_N_QUEUE_KINDS)
            FAIL(error, "V1: queue %zu names something that does not exist", i);
    }
    return true;
}

static bool inside(const Verifier *v, uint32_t op, EchId loop)
{
    return loop == ECH_NONE || (op > loop && op - loop <= v->ops[loop].target);
}

static bool verify_uses(Verifier *v, uint32_t at, GError **error)
{
    const EchOp *op = &v->ops[at];
    const EchUse *uses = ech_trace_uses(v->trace);
    for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
        const EchUse *use = &uses[u];
        if (use->buffer >= v->n_buffers || use->access > ECH_WRITE || use->pattern >= ECH_N_PATTERNS || use->origin > ECH_ASSUMED)
            FAIL(error, "V1: op %u: use %u names something that does not exist", at, u - op->first_use);
        EchId root = ech_buffer_root(v->buffers, use->buffer, NULL);
        if (!v->live[root])
            FAIL(error, "V8: op %u ('%s') uses buffer %u ('%s') outside its lifetime", at, ech_trace_string(v->trace, op->name), use->buffer,
                 ech_trace_string(v->trace, v->buffers[use->buffer].name));
        if (!inside(v, at, v->buffers[root].loop))
            FAIL(error, "V14: op %u uses buffer %u outside the loop it belongs to", at, use->buffer);
    }
    return true;
}

static bool verify_deps(Verifier *v, uint32_t at, GError **error)
{
    const EchOp *op = &v->ops[at];
    const EchDep *deps = ech_trace_deps(v->trace);
    for (uint32_t d = op->first_dep; d < op->first_dep + op->n_deps; d++) {
        EchDep dep = deps[d];
        if (dep.op >= v->n_ops)
            FAIL(error, "V1: op %u depends on op %u of %zu", at, dep.op, v->n_ops);
        if (dep.distance == 0) {
            if (dep.op >= at)
                FAIL(error, "V3: op %u depends on op %u, which does not come before it", at, dep.op);
            EchId loop = v->parent[dep.op];
            if (!inside(v, at, loop))
                FAIL(error, "V5: op %u depends on op %u inside loop %u; expected the loop itself", at, dep.op, loop);
        }
    }
    return true;
}

/* Dependencies on an earlier iteration may point forward, so they are checked once every op's loop is known. */
static bool verify_carried(const Verifier *v, GError **error)
{
    const EchDep *deps = ech_trace_deps(v->trace);
    for (uint32_t at = 0; at < v->n_ops; at++) {
        for (uint32_t d = v->ops[at].first_dep; d < v->ops[at].first_dep + v->ops[at].n_deps; d++) {
            if (deps[d].distance > 0 && (v->parent[at] == ECH_NONE || v->parent[deps[d].op] != v->parent[at]))
                FAIL(error, "V3: op %u depends on op %u of an earlier iteration, but they are not in one loop body", at, deps[d].op);
        }
    }
    return true;
}

static bool verify_life(Verifier *v, uint32_t at, GError **error)
{
    const EchOp *op = &v->ops[at];
    bool alloc = op->kind == ECH_OP_ALLOC;
    if (op->target >= v->n_buffers)
        FAIL(error, "V1: op %u: there is no buffer %u", at, op->target);
    const EchBuffer *buffer = &v->buffers[op->target];
    if (buffer->alias_of != ECH_NONE)
        FAIL(error, "V6: op %u: buffer %u is an alias; expected its parent", at, op->target);
    if (v->live[op->target] == alloc)
        FAIL(error, "V6: op %u (%s): buffer %u is %s", at, ech_op_kind_name((EchOpKind)op->kind), op->target, alloc ? "live already" : "not live");
    if (!inside(v, at, buffer->loop))
        FAIL(error, "V14: op %u: buffer %u belongs to loop %u", at, op->target, buffer->loop);
    v->live[op->target] = alloc;
    if (v->loops->len > 0)
        g_array_append_val(v->log, op->target);
    return true;
}

/* Ends every loop whose body ends before op @at: what it allocated it must have freed, or its second iteration could not run. */
static bool close_loops(Verifier *v, uint32_t at, GError **error)
{
    while (v->loops->len > 0) {
        OpenLoop loop = g_array_index(v->loops, OpenLoop, v->loops->len - 1);
        if (loop.end > at)
            return true;
        EchId unbalanced = ECH_NONE;
        for (uint32_t i = loop.first_log; i < v->log->len; i++)
            v->odd[g_array_index(v->log, EchId, i)] ^= 1;
        for (uint32_t i = loop.first_log; i < v->log->len; i++) {
            EchId buffer = g_array_index(v->log, EchId, i);
            if (v->odd[buffer])
                unbalanced = buffer;
            v->odd[buffer] = 0;
        }
        if (unbalanced != ECH_NONE)
            FAIL(error, "V6: loop %u: its body leaves buffer %u %s", loop.op, unbalanced, v->live[unbalanced] ? "allocated" : "freed");
        g_array_set_size(v->log, loop.first_log);
        g_array_set_size(v->loops, v->loops->len - 1);
        uint64_t cost;
        if (__builtin_mul_overflow(loop.cost, v->ops[loop.op].bytes, &cost) || cost > (UINT64_C(1) << 62))
            FAIL(error, "V12: loop %u expands to more than 2^62 ops", loop.op);
        uint64_t *sum = v->loops->len > 0 ? &g_array_index(v->loops, OpenLoop, v->loops->len - 1).cost : &v->cost;
        if (__builtin_add_overflow(*sum, cost, sum) || *sum > (UINT64_C(1) << 62))
            FAIL(error, "V12: the trace expands to more than 2^62 ops");
    }
    return true;
}

static bool verify_kind(Verifier *v, uint32_t at, GError **error)
{
    const EchOp *op = &v->ops[at];
    const EchUse *uses = op->n_uses ? ech_trace_uses(v->trace) + op->first_use : NULL; /* an empty array may be NULL */
    switch ((EchOpKind)op->kind) {
    case ECH_OP_KERNEL:
    case ECH_OP_MARK: return true;
    case ECH_OP_COPY:
        if (op->memory_from >= ech_trace_n_memories(v->trace) || op->memory_to >= ech_trace_n_memories(v->trace))
            FAIL(error, "V9: op %u: a copy names two memories", at);
        if (op->n_uses > 0 && (op->n_uses < 2 || uses[0].access != ECH_READ || uses[1].access != ECH_WRITE))
            FAIL(error, "V9: op %u: a copy reads its first use and writes its second", at);
        return true;
    case ECH_OP_ALLOC:
    case ECH_OP_FREE: return verify_life(v, at, error);
    case ECH_OP_COLLECTIVE:
        if (op->collective == ECH_COLLECTIVE_NONE || op->collective >= ECH_N_COLLECTIVES)
            FAIL(error, "V1: op %u: a collective names its type", at);
        return true;
    case ECH_OP_LOOP: {
        uint32_t limit = v->loops->len > 0 ? g_array_index(v->loops, OpenLoop, v->loops->len - 1).end : (uint32_t)v->n_ops;
        if (op->target > limit - at - 1)
            FAIL(error, "V4: loop %u: its body of %u ops ends outside its parent", at, op->target);
        OpenLoop loop = {at, at + 1 + op->target, v->log->len, 0};
        g_array_append_val(v->loops, loop);
        return true;
    }
    case ECH_OP_SIGNAL:
        if (op->target == ECH_NONE)
            FAIL(error, "V11: op %u: a signal names its event", at);
        g_hash_table_add(v->events, GUINT_TO_POINTER(op->target));
        return true;
    case ECH_OP_WAIT:
        if (op->target != ECH_NONE && !g_hash_table_contains(v->events, GUINT_TO_POINTER(op->target)))
            FAIL(error, "V11: op %u waits for event %u, which nothing before it signals", at, op->target);
        return true;
    case ECH_N_OP_KINDS: break;
    }
    FAIL(error, "V1: op %u is of no known kind", at);
}

static bool verify_ops(Verifier *v, GError **error)
{
    size_t n_strings = ech_trace_n_strings(v->trace);
    uint32_t use = 0, dep = 0, work = 0;
    for (uint32_t at = 0; at < v->n_ops; at++) {
        const EchOp *op = &v->ops[at];
        if (!close_loops(v, at, error))
            return false;
        v->parent[at] = v->loops->len > 0 ? g_array_index(v->loops, OpenLoop, v->loops->len - 1).op : ECH_NONE;
        if (v->loops->len > 0)
            g_array_index(v->loops, OpenLoop, v->loops->len - 1).cost++;
        else
            v->cost++;
        if (op->kind >= ECH_N_OP_KINDS || op->queue >= ech_trace_n_queues(v->trace) || !id_ok(op->name, n_strings) || !id_ok(op->stack, n_strings) ||
            !id_ok(op->launch, n_strings))
            FAIL(error, "V1: op %u names something that does not exist", at);
        if (op->first_use != use || op->first_dep != dep || op->first_work != work)
            FAIL(error, "V2: op %u: its uses, dependencies or work do not follow those of the op before it", at);
        use += op->n_uses;
        dep += op->n_deps;
        work += op->n_work;
        if (op->recorded.duration != ECH_TIME_NONE && op->recorded.duration < 0)
            FAIL(error, "V10: op %u: a recorded duration of %" G_GINT64_FORMAT " ps", at, op->recorded.duration);
        if (op->estimate != ECH_TIME_NONE && op->estimate < 0)
            FAIL(error, "V10: op %u: an estimate of %" G_GINT64_FORMAT " ps", at, op->estimate);
        if (!verify_kind(v, at, error) || !verify_uses(v, at, error) || !verify_deps(v, at, error))
            return false;
        const EchWork *works = ech_trace_work(v->trace);
        for (uint32_t w = op->first_work; w < work; w++) {
            if (works[w].unit >= ECH_N_WORK_UNITS || works[w].dtype >= ECH_N_DTYPES)
                FAIL(error, "V1: op %u: work %u is on no known unit", at, w - op->first_work);
        }
    }
    if (use != ech_trace_n_uses(v->trace) || dep != ech_trace_n_deps(v->trace) || work != ech_trace_n_work(v->trace))
        FAIL(error, "V2: uses, dependencies or work that belong to no op");
    return close_loops(v, (uint32_t)v->n_ops, error) && verify_carried(v, error);
}

bool ech_trace_verify(const EchTrace *trace, GError **error)
{
    Verifier v = {.trace = trace,
                  .ops = ech_trace_ops(trace),
                  .buffers = ech_trace_buffers(trace),
                  .n_ops = ech_trace_n_ops(trace),
                  .n_buffers = ech_trace_n_buffers(trace)};
    g_autoptr(GArray) loops = v.loops = g_array_new(FALSE, FALSE, sizeof(OpenLoop));
    g_autoptr(GArray) log = v.log = g_array_new(FALSE, FALSE, sizeof(EchId));
    g_autoptr(GHashTable) events = v.events = g_hash_table_new(NULL, NULL);
    g_autofree uint32_t *parent = v.parent = g_new(uint32_t, v.n_ops + 1);
    g_autofree uint8_t *live = v.live = g_new0(uint8_t, v.n_buffers + 1);
    g_autofree uint8_t *odd = v.odd = g_new0(uint8_t, v.n_buffers + 1);
    return verify_buffers(&v, error) && verify_ops(&v, error);
}
