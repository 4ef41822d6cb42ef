/* plan: gives every buffer of a memory a place before the program runs, as a compiler does once it knows all lifetimes. The counterpart of unplan.
 *
 * Lives are those of the program's order: what is freed before another is allocated may lend it its place. That holds where one queue allocates and frees, and
 * has waited for what other queues do with a buffer before it frees it. Where not, which of two comes first shows only as the program runs, and an allocator
 * has to place them. */
#include "sim/pass/pass.h"

#include "models/alloc/plan.h"
#include "sim/base/compare.h"
#include "sim/base/error.h"
#include "sim/base/units.h"
#include "sim/trace/lifetime.h"

#include <string.h>

typedef struct {
    char *memory, *planner;
    uint64_t results_apart;
} PlanOptions;

static const EchParam plan_params[] = {
    {"memory", ECH_PARAM_STRING, offsetof(PlanOptions, memory), "hbm", NULL, NULL, NULL, "whose buffers"},
    {"planner", ECH_PARAM_STRING, offsetof(PlanOptions, planner), "xla", NULL, NULL, NULL, "xla, greedy or exact ('echelon list planners')"},
    {"results_apart", ECH_PARAM_BOOL, offsetof(PlanOptions, results_apart), "true", NULL, NULL, NULL,
     "what is live at the end has a place of its own, where only what is no larger lies before, as XLA has it; false: anything may lie there"},
    {NULL, ECH_PARAM_U64, 0, NULL, NULL, NULL, NULL, NULL},
};

/* An op of another queue that uses a buffer. */
typedef struct {
    EchId op;
    uint32_t next; /* of the same buffer; UINT32_MAX: none */
} User;

/* A loop, and the buffers that live from one of its iterations into the next. */
typedef struct {
    EchId end; /* the first op after its body */
    GArray *carried;
} Loop;

/* Walks the trace in its order. */
typedef struct {
    const EchTrace *trace;
    const EchOp *ops;
    const EchBuffer *buffers;
    EchId memory, queue; /* queue: the one that allocates and frees; ECH_NONE where none does */
    uint32_t *users;     /* per buffer: the newest of its users, or UINT32_MAX */
    GArray *user;        /* User */
    EchId *waited;       /* per queue: the newest op that the allocating queue has waited for, plus 1 */
    bool *made;          /* per buffer: it was allocated */
    EchId *until;        /* per FREE: the op by which others are done with the buffer; 0: the FREE */
    GArray *lingering;   /* EchId: FREEs before that, in the present loop */
    GArray *loops;       /* Loop: those around the op, the innermost last */
} Order;

/* What is taken beside an allocator, and what moves as it is touched, is nobody's to place. */
static bool is_placed(const EchBuffer *buffer)
{
    return !buffer->direct && !buffer->managed;
}

static void note_users(Order *o, EchId op)
{
    for (uint32_t u = 0; u < o->ops[op].n_uses; u++) {
        EchId buffer = ech_buffer_root(o->buffers, ech_trace_uses(o->trace)[o->ops[op].first_use + u].buffer, NULL);
        if (o->buffers[buffer].memory != o->memory)
            continue;
        User user = {op, o->users[buffer]};
        o->users[buffer] = o->user->len;
        g_array_append_val(o->user, user);
    }
}

/* Whether @op waits for more than was waited for before. */
static bool note_waits(Order *o, EchId op)
{
    bool newer = false;
    for (uint32_t d = 0; d < o->ops[op].n_deps; d++) {
        const EchDep *dep = &ech_trace_deps(o->trace)[o->ops[op].first_dep + d];
        EchId queue = o->ops[dep->op].queue;
        if (dep->distance != 0 || queue == ECH_NONE || o->waited[queue] > dep->op)
            continue;
        o->waited[queue] = dep->op + 1;
        newer = true;
    }
    return newer;
}

/* Whether all other queues are known to be done with @buffer. */
static bool is_quiet(const Order *o, EchId buffer)
{
    for (uint32_t k = o->users[buffer]; k != UINT32_MAX; k = g_array_index(o->user, User, k).next) {
        EchId op = g_array_index(o->user, User, k).op;
        if (o->ops[op].queue != o->queue && o->waited[o->ops[op].queue] <= op)
            return false;
    }
    return true;
}

/* What was freed while other queues used it, and is not used any more by @op. */
static void end_lingering(Order *o, EchId op)
{
    for (guint i = o->lingering->len; i-- > 0;) {
        EchId free = g_array_index(o->lingering, EchId, i);
        if (!is_quiet(o, o->ops[free].target))
            continue;
        o->until[free] = op;
        g_array_remove_index_fast(o->lingering, i);
    }
}

static const char in_use[] = "buffers are freed that copies still use";

/* Why lives are not those of the program's order; NULL where they are. */
static const char *disorder_at(Order *o, EchId op)
{
    const EchOp *of = &o->ops[op];
    bool allocates = of->kind == ECH_OP_ALLOC, frees = of->kind == ECH_OP_FREE;
    if (of->queue == o->queue) {
        if (note_waits(o, op))
            end_lingering(o, op);
    } else if (of->queue != ECH_NONE)
        note_users(o, op);
    if (!allocates && !frees)
        return NULL;
    if (o->buffers[of->target].memory != o->memory || !is_placed(&o->buffers[of->target]))
        return NULL;
    if (of->queue != o->queue)
        return "several queues allocate and free";
    if (frees) {
        if (!is_quiet(o, of->target))
            g_array_append_val(o->lingering, op);
        return NULL;
    }
    for (guint i = 0; i < o->lingering->len; i++) {
        if (o->ops[g_array_index(o->lingering, EchId, i)].target == of->target)
            return in_use;
    }
    if (o->made[of->target] && o->loops->len > 0)
        g_array_append_val(g_array_index(o->loops, Loop, o->loops->len - 1).carried, of->target);
    o->made[of->target] = true;
    return NULL;
}

static void loop_clear(void *data)
{
    g_array_unref(((Loop *)data)->carried);
}

/* The same of loops: what the next iteration frees, this one must be done with. */
static const char *disorder_of_loops(Order *o, EchId op)
{
    while (o->loops->len > 0 && g_array_index(o->loops, Loop, o->loops->len - 1).end == op) {
        const Loop *loop = &g_array_index(o->loops, Loop, o->loops->len - 1);
        if (o->lingering->len > 0)
            return in_use;
        for (guint i = 0; i < loop->carried->len; i++) {
            if (!is_quiet(o, g_array_index(loop->carried, EchId, i)))
                return in_use;
        }
        g_array_set_size(o->loops, o->loops->len - 1);
    }
    if (o->ops[op].kind == ECH_OP_LOOP) {
        if (o->lingering->len > 0)
            return in_use;
        Loop loop = {op + 1 + o->ops[op].target, g_array_new(FALSE, FALSE, sizeof(EchId))};
        g_array_append_val(o->loops, loop);
    }
    return NULL;
}

/* @until: per op, zeroed. */
static const char *disorder(const EchTrace *trace, EchId memory, EchId *until)
{
    size_t n = ech_trace_n_ops(trace), n_buffers = ech_trace_n_buffers(trace), n_queues = ech_trace_n_queues(trace);
    g_autofree uint32_t *users = g_new(uint32_t, n_buffers + 1);
    memset(users, 0xff, sizeof *users * (n_buffers + 1));
    g_autoptr(GArray) user = g_array_new(FALSE, FALSE, sizeof(User));
    g_autofree EchId *waited = g_new0(EchId, n_queues + 1);
    g_autofree bool *made = g_new0(bool, n_buffers + 1);
    g_autoptr(GArray) loops = g_array_new(FALSE, FALSE, sizeof(Loop));
    g_array_set_clear_func(loops, loop_clear);
    g_autoptr(GArray) lingering = g_array_new(FALSE, FALSE, sizeof(EchId));
    Order o = {trace, ech_trace_ops(trace), ech_trace_buffers(trace), memory, ECH_NONE, users, user, waited, made, until, lingering, loops};
    for (EchId i = 0; i < n && o.queue == ECH_NONE; i++) {
        bool lives = o.ops[i].kind == ECH_OP_ALLOC || o.ops[i].kind == ECH_OP_FREE;
        const EchBuffer *buffer = lives ? &o.buffers[o.ops[i].target] : NULL;
        if (lives && buffer->memory == memory && is_placed(buffer))
            o.queue = o.ops[i].queue;
    }
    const char *why = NULL;
    for (EchId i = 0; i < n && !why; i++) {
        why = disorder_of_loops(&o, i);
        why = why ? why : disorder_at(&o, i);
    }
    return why || lingering->len == 0 ? why : in_use;
}

/* ---- results ---- */

static int by_begin(const void *a, const void *b)
{
    const EchPlanItem *x = *(EchPlanItem *const *)a, *y = *(EchPlanItem *const *)b;
    return x->begin != y->begin ? (x->begin > y->begin) - (x->begin < y->begin) : (x->colocation > y->colocation) - (x->colocation < y->colocation);
}

static int larger_first(const void *a, const void *b)
{
    const EchPlanItem *x = *(EchPlanItem *const *)a, *y = *(EchPlanItem *const *)b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes) : by_begin(a, b);
}

/* Where in @guests, which are in order and never live at once, @item would stand; UINT_MAX where it lives at once with one of them. */
static guint room_among(const GPtrArray *guests, const EchPlanItem *item)
{
    guint low = 0, high = guests->len;
    ECH_SEARCH(low, high, middle, ((const EchPlanItem *)guests->pdata[middle])->end <= item->begin);
    return low < guests->len && ((const EchPlanItem *)guests->pdata[low])->begin < item->end ? UINT_MAX : low;
}

/* XLA's BufferAssigner: largest first, what is not live at the end takes the smallest place of a result that is as large and free then. @items: results live to
 * @end; several of a buffer (colocation) stay as they are. */
static void lodge(EchPlanItem *items, size_t n, int64_t end, size_t n_buffers)
{
    g_autofree uint32_t *lives = g_new0(uint32_t, n_buffers + 1);
    g_autoptr(GPtrArray) order = g_ptr_array_new(), results = g_ptr_array_new();
    g_autoptr(GPtrArray) guests = g_ptr_array_new_with_free_func((GDestroyNotify)g_ptr_array_unref); /* per result */
    for (size_t i = 0; i < n; i++)
        lives[items[i].colocation]++;
    for (size_t i = 0; i < n; i++)
        if (lives[items[i].colocation] == 1)
            g_ptr_array_add(items[i].end >= end ? results : order, &items[i]);
    g_ptr_array_sort(order, larger_first);
    g_ptr_array_sort(results, larger_first);
    for (guint k = 0; k < results->len; k++) {
        GPtrArray *first = g_ptr_array_new();
        g_ptr_array_add(first, results->pdata[k]);
        g_ptr_array_add(guests, first);
    }
    for (guint i = 0; i < order->len; i++) {
        EchPlanItem *item = order->pdata[i];
        for (guint k = results->len; k-- > 0;) {
            const EchPlanItem *result = results->pdata[k];
            guint at = result->bytes >= item->bytes ? room_among(guests->pdata[k], item) : UINT_MAX;
            if (at == UINT_MAX)
                continue;
            g_ptr_array_insert(guests->pdata[k], (gint)at, item);
            item->colocation = result->colocation;
            break;
        }
    }
}

/* Results have their places from the beginning on. */
static void keep_apart(EchPlanItem *items, size_t n, int64_t end)
{
    for (size_t i = 0; i < n; i++)
        items[i].begin = items[i].end >= end ? 0 : items[i].begin;
}

/* As XLA's compilers: on a TPU nothing lies in the places of results as long as there is room. */
static EchPlan *plan_apart(const EchPlanner *planner, const EchDevice *device, const char *memory, const EchTrace *trace, EchPlanItem *items, size_t n,
                           GError **error)
{
    int64_t end = (int64_t)ech_trace_n_ops(trace);
    if (device && g_strcmp0(device->family, "tpu") == 0) {
        const EchMemory *there = ech_device_memory(device, memory);
        g_autofree EchPlanItem *alone = g_memdup2(items, (n + 1) * sizeof *items);
        keep_apart(alone, n, end);
        EchPlan *made = ech_planner_run(planner, alone, n, 0, error);
        if (!made || (there && made->height <= there->available))
            return made;
        ech_plan_free(made);
    }
    lodge(items, n, end, ech_trace_n_buffers(trace));
    keep_apart(items, n, end);
    return ech_planner_run(planner, items, n, 0, error);
}

static EchTrace *plan_run(const void *options, const EchDevice *device, EchTrace *in, EchDiag *diag, GError **error)
{
    const PlanOptions *plan = options;
    EchId memory = ech_trace_find_memory(in, plan->memory);
    if (memory == ECH_NONE) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "memory: the trace has no memory '%s'", plan->memory);
        return NULL;
    }
    g_autoptr(EchPlanner) planner = ech_planner_new(plan->planner, error);
    if (!planner) {
        g_prefix_error(error, "planner: ");
        return NULL;
    }
    g_autofree EchId *until = g_new0(EchId, ech_trace_n_ops(in) + 1);
    const char *why = disorder(in, memory, until);
    if (why) {
        ech_diag_remark(diag, "plan: left the trace as it is: in '%s' %s, so that an allocator has to place them as it runs", plan->memory, why);
        return ech_trace_ref(in);
    }
    g_autoptr(EchLifetimes) lives = ech_lifetimes_new(in, memory); /* several of a buffer that loops hand on, at one place */
    size_t n = 0;
    for (size_t i = 0; i < lives->n; i++)
        if (is_placed(&ech_trace_buffers(in)[lives->items[i].buffer]))
            lives->items[n++] = lives->items[i];
    lives->n = n;
    g_autofree EchPlanItem *items = g_new0(EchPlanItem, lives->n + 1);
    for (size_t i = 0; i < lives->n; i++) {
        const EchLifetime *life = &lives->items[i];
        items[i] = (EchPlanItem){.begin = life->begin, .end = MAX(life->end, until[life->end]), .bytes = life->bytes, .colocation = life->buffer};
    }
    g_autoptr(EchPlan) made =
        plan->results_apart ? plan_apart(planner, device, plan->memory, in, items, lives->n, error) : ech_planner_run(planner, items, lives->n, 0, error);
    if (!made)
        return NULL;
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new_from(in);
    for (size_t i = 0; i < ech_trace_n_buffers(in); i++) {
        EchBuffer *buffer = ech_trace_builder_peek_buffer(builder, (EchId)i);
        if (buffer->memory == memory && buffer->alias_of == ECH_NONE && is_placed(buffer) && buffer->bytes <= made->height)
            buffer->offset = 0; /* also of what nothing brings to life any more */
    }
    for (size_t i = 0; i < lives->n; i++)
        ech_trace_builder_peek_buffer(builder, lives->items[i].buffer)->offset = made->offsets[i];
    ech_trace_builder_set_property(builder, "planned_anew", plan->memory);
    g_autofree char *height = ech_format_bytes(made->height), *bound = ech_format_bytes(lives->peak);
    ech_diag_remark(diag, "plan: %zu buffers of '%s' placed by %s in %s; %s are live at its fullest", lives->n, plan->memory, ech_planner_name(planner), height,
                    bound);
    return ech_trace_builder_finish(builder, error);
}

const EchPassClass ech_pass_plan = {.name = "plan",
                                    .summary = "place all buffers anew before the program runs, as a compiler does",
                                    .source = "the planner's (models/alloc)",
                                    .params = plan_params,
                                    .options_size = sizeof(PlanOptions),
                                    .trace = plan_run};
