/* emit_pipeline's schedule: one walk over the grid that says what happens in which order, and two listeners: one keeps the clock, one writes
 * the activities down. */
#include "models/kernel/pipeline.h"

#include "sim/base/error.h"

#define MAX_BUFFERS 64
#define MAX_STEPS (UINT64_C(1) << 26)
#define MAX_ACTIVITIES (UINT64_C(1) << 22)

/* A step of the grid as coordinates, and the block that an operand has there. */
typedef struct {
    uint64_t at[ECH_PIPELINE_MAX_AXES];
    uint64_t step, id;
} Cursor;

typedef struct {
    const EchPipelineOperand *spec;
    uint64_t stride[ECH_PIPELINE_MAX_AXES]; /* per grid axis: what one step along it adds to the block's number */
    uint32_t buffers;
    bool whole;                  /* the block is the array: copied once, outside the loop */
    Cursor ahead;                /* last step whose block was asked for or seen to be there */
    bool started;                /* ahead is valid */
    uint64_t fetched, current;   /* different blocks asked for; reached */
    uint64_t previous, id, next; /* block numbers of steps i-1, i, i+1 */
} Walker;

/* What the walk tells. */
typedef struct Listener Listener;
struct Listener {
    void (*in)(Listener *self, size_t operand, uint64_t step, EchBytes bytes);
    void (*wait_in)(Listener *self, size_t operand, uint64_t step);
    void (*compute)(Listener *self, uint64_t step, EchTime work);
    void (*out)(Listener *self, size_t operand, uint64_t step, EchBytes bytes);
    void (*wait_out)(Listener *self, size_t operand, bool last);
};

static uint64_t steps_of(const EchPipeline *pipeline)
{
    uint64_t steps = 1;
    for (unsigned i = 0; i < pipeline->n_axes; i++)
        steps = ech_bytes_mul(steps, pipeline->grid[i]);
    return steps;
}

static void advance(const EchPipeline *pipeline, const Walker *walker, Cursor *cursor)
{
    cursor->step++;
    for (unsigned axis = pipeline->n_axes; axis-- > 0;) {
        if (++cursor->at[axis] < pipeline->grid[axis]) {
            cursor->id += walker->stride[axis];
            return;
        }
        cursor->at[axis] = 0;
        cursor->id -= walker->stride[axis] * (pipeline->grid[axis] - 1);
    }
}

/* Bytes of the block at a step: cut at the array's edge, padded to whole tiles. */
static EchBytes block_bytes(const EchPipeline *pipeline, const EchPipelineOperand *operand, const uint64_t *at, bool full)
{
    EchBytes elements = 1;
    for (unsigned d = 0; d < operand->n_dims; d++) {
        uint64_t size = operand->block[d];
        uint64_t granule = d + 1u == operand->n_dims ? MAX(pipeline->lanes, 1u) : d + 2u == operand->n_dims ? MAX(pipeline->rows, 1u) : 1;
        if (!full) {
            uint64_t index = operand->axis[d] >= 0 ? at[operand->axis[d]] : 0;
            uint64_t begin = ech_bytes_mul(index, operand->block[d]);
            size = begin < operand->extent[d] ? MIN(size, operand->extent[d] - begin) : 0;
        }
        elements = ech_bytes_mul(elements, ech_round_up(size, granule));
    }
    return ech_bytes_mul(elements, operand->bits) / 8;
}

static void walker_init(const EchPipeline *pipeline, const EchPipelineOperand *operand, Walker *ret)
{
    *ret = (Walker){.spec = operand, .buffers = operand->buffers > 0 ? operand->buffers : 2};
    if (operand->output)
        ret->buffers = MIN(ret->buffers, 2u);
    ret->whole = true;
    uint64_t unit = 1;
    for (unsigned d = operand->n_dims; d-- > 0;) {
        if (operand->block[d] < operand->extent[d])
            ret->whole = false;
        if (operand->axis[d] >= 0) {
            ret->stride[operand->axis[d]] += unit;
            unit *= pipeline->grid[operand->axis[d]];
        }
    }
}

static EchTime step_compute(const EchPipeline *pipeline, const uint64_t *at)
{
    double share = 1;
    bool cut = false;
    for (unsigned axis = 0; axis < pipeline->n_axes; axis++) {
        uint64_t extent = pipeline->compute_extent[axis], block = pipeline->compute_block[axis];
        if (extent == 0 || block == 0 || (at[axis] + 1) * block <= extent)
            continue;
        uint64_t begin = at[axis] * block;
        share *= begin < extent ? (double)(extent - begin) / (double)block : 0;
        cut = true;
    }
    EchTime whole = MAX(pipeline->compute, pipeline->port);
    return cut ? (EchTime)((double)whole * share + 0.5) : whole;
}

/* Asks for the block of the next step if it is another one; true if there was a next step. */
static bool ask_next(const EchPipeline *pipeline, Walker *walker, size_t operand, uint64_t n, Listener *listener)
{
    uint64_t before = walker->ahead.id;
    if (walker->started) {
        if (walker->ahead.step + 1 >= n)
            return false;
        advance(pipeline, walker, &walker->ahead);
    }
    if (!walker->started || walker->ahead.id != before) {
        walker->started = true;
        walker->fetched++;
        listener->in(listener, operand, walker->ahead.step, block_bytes(pipeline, walker->spec, walker->ahead.at, false));
    }
    return true;
}

static void walk(const EchPipeline *pipeline, Listener *listener)
{
    Walker walkers[ECH_PIPELINE_MAX_OPERANDS];
    Cursor cursors[ECH_PIPELINE_MAX_OPERANDS] = {0}; /* at step i + 1 */
    static const uint64_t origin[ECH_PIPELINE_MAX_AXES] = {0};
    uint64_t n = steps_of(pipeline), at[ECH_PIPELINE_MAX_AXES] = {0};
    size_t count = pipeline->n_operands;
    uint32_t deepest = 1;
    for (size_t o = 0; o < count; o++) {
        walker_init(pipeline, &pipeline->operands[o], &walkers[o]);
        if (!walkers[o].whole && !walkers[o].spec->output)
            deepest = MAX(deepest, walkers[o].buffers);
    }
    /* Whole arrays come in before everything else. */
    for (size_t o = 0; o < count; o++) {
        if (walkers[o].whole && !walkers[o].spec->output) {
            listener->in(listener, o, 0, block_bytes(pipeline, walkers[o].spec, origin, false));
            listener->wait_in(listener, o, 0);
        }
    }
    for (uint32_t s = 0; s + 1 < deepest && s < n; s++)
        for (size_t o = 0; o < count; o++)
            if (!walkers[o].whole && !walkers[o].spec->output && s + 1 < walkers[o].buffers && !(walkers[o].spec->lookahead && walkers[o].fetched > s))
                (void)ask_next(pipeline, &walkers[o], o, n, listener);
    for (size_t o = 0; o < count; o++)
        if (n > 1)
            advance(pipeline, &walkers[o], &cursors[o]);
    for (uint64_t i = 0; i < n; i++) {
        for (size_t o = 0; o < count; o++) {
            Walker *w = &walkers[o];
            w->next = cursors[o].id;
            if (i == 0 || w->id != w->previous)
                w->current++;
            if (w->whole || w->spec->output)
                continue;
            if (!w->spec->lookahead) {
                if (i + w->buffers <= n)
                    (void)ask_next(pipeline, w, o, n, listener);
            } else {
                while (w->fetched - (w->current - 1) < w->buffers && ask_next(pipeline, w, o, n, listener))
                    ;
            }
        }
        for (size_t o = 0; o < count; o++)
            if (!walkers[o].whole && !walkers[o].spec->output && (i == 0 || walkers[o].id != walkers[o].previous))
                listener->wait_in(listener, o, i);
        listener->compute(listener, i, step_compute(pipeline, at));
        for (size_t o = 0; o < count; o++) {
            Walker *w = &walkers[o];
            if (!w->whole && w->spec->output && (i + 1 == n || w->next != w->id)) {
                listener->out(listener, o, i, block_bytes(pipeline, w->spec, at, false));
                if (w->buffers == 1)
                    listener->wait_out(listener, o, i + 1 == n);
            }
        }
        for (size_t o = 0; o < count; o++) {
            Walker *w = &walkers[o];
            if (!w->whole && w->spec->output && w->buffers > 1 && i > 0 && w->id != w->previous)
                listener->wait_out(listener, o, false);
            w->previous = w->id;
            w->id = w->next;
            if (i + 2 < n)
                advance(pipeline, w, &cursors[o]);
        }
        for (unsigned axis = pipeline->n_axes; axis-- > 0;) {
            if (++at[axis] < pipeline->grid[axis])
                break;
            at[axis] = 0;
        }
    }
    for (size_t o = 0; o < count; o++) {
        Walker *w = &walkers[o];
        if (!w->spec->output)
            continue;
        if (w->whole)
            listener->out(listener, o, n - 1, block_bytes(pipeline, w->spec, origin, false));
        if (w->whole || w->buffers > 1)
            listener->wait_out(listener, o, true);
    }
}

/* -- the clock ------------------------------------------------------------- */

/* Ends of copies not yet waited for, first asked first. */
typedef struct {
    EchTime ends[MAX_BUFFERS + 1];
    uint32_t first, n;
} Pending;

typedef struct {
    Listener listener;
    const EchPipeline *pipeline;
    EchPipelineResult *result;
    EchTime now, free_in, free_out;
    Pending pending[ECH_PIPELINE_MAX_OPERANDS];
} Clock;

static void push(Pending *pending, EchTime end)
{
    pending->ends[(pending->first + pending->n++) % G_N_ELEMENTS(pending->ends)] = end;
}

static EchTime pop(Pending *pending)
{
    g_assert(pending->n > 0);
    EchTime end = pending->ends[pending->first];
    pending->first = (pending->first + 1) % G_N_ELEMENTS(pending->ends);
    pending->n--;
    return end;
}

static EchTime copy_time(const EchPipeline *pipeline, EchBytes bytes, bool out)
{
    return ech_time_add(pipeline->setup, ech_time_for(bytes, out ? pipeline->write : pipeline->read));
}

static void clock_in(Listener *self, size_t operand, uint64_t step, EchBytes bytes)
{
    Clock *clock = (Clock *)(void *)self;
    (void)step;
    EchTime duration = copy_time(clock->pipeline, bytes, false);
    clock->free_in = ech_time_add(MAX(clock->now, clock->free_in), duration);
    push(&clock->pending[operand], ech_time_add(clock->free_in, clock->pipeline->latency));
    clock->result->busy_in = ech_time_add(clock->result->busy_in, duration);
    clock->result->bytes_in += bytes;
    clock->result->copies_in++;
}

static void clock_out(Listener *self, size_t operand, uint64_t step, EchBytes bytes)
{
    Clock *clock = (Clock *)(void *)self;
    (void)step;
    EchTime duration = copy_time(clock->pipeline, bytes, true);
    EchTime *queue = clock->pipeline->shared_port ? &clock->free_in : &clock->free_out;
    *queue = ech_time_add(MAX(clock->now, *queue), duration);
    push(&clock->pending[operand], ech_time_add(*queue, clock->pipeline->latency));
    clock->result->busy_out = ech_time_add(clock->result->busy_out, duration);
    clock->result->bytes_out += bytes;
    clock->result->copies_out++;
}

static void wait_until(Clock *clock, EchTime end, EchTime *reason)
{
    if (end > clock->now) {
        *reason += end - clock->now;
        clock->now = end;
    }
}

static void clock_wait_in(Listener *self, size_t operand, uint64_t step)
{
    Clock *clock = (Clock *)(void *)self;
    wait_until(clock, pop(&clock->pending[operand]), step == 0 ? &clock->result->fill : &clock->result->wait_in);
}

static void clock_wait_out(Listener *self, size_t operand, bool last)
{
    Clock *clock = (Clock *)(void *)self;
    wait_until(clock, pop(&clock->pending[operand]), last ? &clock->result->drain : &clock->result->wait_out);
}

static void clock_compute(Listener *self, uint64_t step, EchTime work)
{
    Clock *clock = (Clock *)(void *)self;
    (void)step;
    clock->result->compute = ech_time_add(clock->result->compute, work);
    clock->result->overhead = ech_time_add(clock->result->overhead, clock->pipeline->step_overhead);
    clock->now = ech_time_add(clock->now, ech_time_add(work, clock->pipeline->step_overhead));
}

static EchBytes vmem_of(const EchPipeline *pipeline)
{
    EchBytes bytes = pipeline->scratch;
    for (size_t o = 0; o < pipeline->n_operands; o++) {
        Walker walker;
        walker_init(pipeline, &pipeline->operands[o], &walker);
        bytes = ech_bytes_add(bytes, ech_bytes_mul(block_bytes(pipeline, walker.spec, NULL, true), walker.whole ? 1 : walker.buffers));
    }
    return bytes;
}

void ech_pipeline_run(const EchPipeline *pipeline, EchPipelineResult *ret)
{
    EchPipelineResult result = {.steps = steps_of(pipeline), .vmem = vmem_of(pipeline)};
    g_autofree Clock *clock = g_new0(Clock, 1);
    clock->listener = (Listener){.in = clock_in, .wait_in = clock_wait_in, .compute = clock_compute, .out = clock_out, .wait_out = clock_wait_out};
    clock->pipeline = pipeline;
    clock->result = &result;
    walk(pipeline, &clock->listener);
    result.total = clock->now;
    *ret = result;
}

bool ech_pipeline_check(const EchPipeline *pipeline, GError **error)
{
    if (pipeline->n_axes == 0 || pipeline->n_axes > ECH_PIPELINE_MAX_AXES || pipeline->n_operands > ECH_PIPELINE_MAX_OPERANDS) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "a pipeline of %u axes and %zu arrays; expected 1 to %d axes and at most %d arrays", pipeline->n_axes,
                    pipeline->n_operands, ECH_PIPELINE_MAX_AXES, ECH_PIPELINE_MAX_OPERANDS);
        return false;
    }
    uint64_t steps = steps_of(pipeline);
    if (steps == 0 || steps > MAX_STEPS || pipeline->compute < 0 || pipeline->port < 0 || pipeline->step_overhead < 0 || pipeline->setup < 0 ||
        pipeline->latency < 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG,
                    "a pipeline of %" G_GUINT64_FORMAT " steps; expected 1 to %" G_GUINT64_FORMAT " and times that are not negative", steps, MAX_STEPS);
        return false;
    }
    for (size_t o = 0; o < pipeline->n_operands; o++) {
        const EchPipelineOperand *operand = &pipeline->operands[o];
        bool fine = operand->n_dims > 0 && operand->n_dims <= ECH_PIPELINE_MAX_AXES && operand->bits > 0 && operand->buffers <= MAX_BUFFERS;
        for (unsigned d = 0; fine && d < operand->n_dims; d++)
            fine = operand->block[d] > 0 && operand->extent[d] > 0 && operand->axis[d] < (int)pipeline->n_axes;
        if (!fine) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG,
                        "array %zu of a pipeline: expected 1 to %d dimensions with blocks, extents and existing axes, and at most %d buffers", o,
                        ECH_PIPELINE_MAX_AXES, MAX_BUFFERS);
            return false;
        }
        if ((operand->output ? pipeline->write : pipeline->read) == 0) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "array %zu of a pipeline: no bandwidth", o);
            return false;
        }
    }
    return true;
}

/* -- the activities -------------------------------------------------------- */

typedef struct {
    Listener listener;
    const EchPipeline *pipeline;
    GArray *activities, *dependencies;
    uint32_t gate[2 * ECH_PIPELINE_MAX_OPERANDS + 2]; /* what must have ended before the core's next act */
    uint32_t n_gate;
    GQueue pending[ECH_PIPELINE_MAX_OPERANDS];
    bool full;
} Writer;

static uint32_t write_activity(Writer *writer, EchPipelineActivity activity)
{
    if (writer->activities->len >= MAX_ACTIVITIES) {
        writer->full = true;
        return 0;
    }
    activity.first_dependency = writer->dependencies->len;
    activity.n_dependencies = writer->n_gate;
    g_array_append_vals(writer->dependencies, writer->gate, writer->n_gate);
    g_array_append_val(writer->activities, activity);
    return writer->activities->len - 1;
}

static void write_copy(Writer *writer, size_t operand, uint64_t step, EchBytes bytes, bool out)
{
    uint32_t id = write_activity(writer, (EchPipelineActivity){.kind = out ? ECH_PIPELINE_OUT : ECH_PIPELINE_IN,
                                                               .operand = (uint32_t)operand,
                                                               .step = step,
                                                               .bytes = bytes,
                                                               .duration = copy_time(writer->pipeline, bytes, out),
                                                               .tail = writer->pipeline->latency,
                                                               .queue = out && !writer->pipeline->shared_port ? 2 : 1});
    g_queue_push_tail(&writer->pending[operand], GUINT_TO_POINTER(id));
}

static void write_in(Listener *self, size_t operand, uint64_t step, EchBytes bytes)
{
    write_copy((Writer *)(void *)self, operand, step, bytes, false);
}

static void write_out(Listener *self, size_t operand, uint64_t step, EchBytes bytes)
{
    write_copy((Writer *)(void *)self, operand, step, bytes, true);
}

static void write_wait(Writer *writer, size_t operand)
{
    if (writer->n_gate < G_N_ELEMENTS(writer->gate) && !g_queue_is_empty(&writer->pending[operand]))
        writer->gate[writer->n_gate++] = GPOINTER_TO_UINT(g_queue_pop_head(&writer->pending[operand]));
}

static void write_wait_in(Listener *self, size_t operand, uint64_t step)
{
    (void)step;
    write_wait((Writer *)(void *)self, operand);
}

static void write_wait_out(Listener *self, size_t operand, bool last)
{
    (void)last;
    write_wait((Writer *)(void *)self, operand);
}

static void write_compute(Listener *self, uint64_t step, EchTime work)
{
    Writer *writer = (Writer *)(void *)self;
    uint32_t id = write_activity(
        writer, (EchPipelineActivity){.kind = ECH_PIPELINE_COMPUTE, .step = step, .duration = ech_time_add(work, writer->pipeline->step_overhead)});
    writer->gate[0] = id;
    writer->n_gate = 1;
}

EchPipelineExpansion *ech_pipeline_expand(const EchPipeline *pipeline, GError **error)
{
    if (!ech_pipeline_check(pipeline, error))
        return NULL;
    g_autofree Writer *writer = g_new0(Writer, 1);
    writer->listener = (Listener){.in = write_in, .wait_in = write_wait_in, .compute = write_compute, .out = write_out, .wait_out = write_wait_out};
    writer->pipeline = pipeline;
    writer->activities = g_array_new(FALSE, FALSE, sizeof(EchPipelineActivity));
    writer->dependencies = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (size_t o = 0; o < pipeline->n_operands; o++)
        g_queue_init(&writer->pending[o]);
    if (steps_of(pipeline) < MAX_ACTIVITIES)
        walk(pipeline, &writer->listener);
    else
        writer->full = true;
    for (size_t o = 0; o < pipeline->n_operands; o++)
        g_queue_clear(&writer->pending[o]);
    EchPipelineExpansion *expansion = g_new0(EchPipelineExpansion, 1);
    expansion->n_activities = writer->activities->len;
    expansion->n_dependencies = writer->dependencies->len;
    expansion->activities = (EchPipelineActivity *)(void *)g_array_free(writer->activities, FALSE);
    expansion->dependencies = (uint32_t *)(void *)g_array_free(writer->dependencies, FALSE);
    if (writer->full) {
        ech_pipeline_expansion_free(expansion);
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "the pipeline has more than %" G_GUINT64_FORMAT " activities", MAX_ACTIVITIES);
        return NULL;
    }
    return expansion;
}

void ech_pipeline_expansion_free(EchPipelineExpansion *expansion)
{
    if (expansion == NULL)
        return;
    g_free(expansion->activities);
    g_free(expansion->dependencies);
    g_free(expansion);
}

/* -- matrix products ------------------------------------------------------- */

void ech_pipeline_product(const EchPipelineProduct *p, EchPipelineOperand operands[3], EchPipeline *ret)
{
    uint64_t cores = MAX(p->cores, 1u), m = ech_div_up(p->m, cores); /* the slowest core has the most rows */
    uint64_t bm = MIN(p->bm, m);
    operands[0] = (EchPipelineOperand){.n_dims = 2, .axis = {0, 2}, .extent = {m, p->k}, .block = {bm, p->bk}, .bits = p->bits, .buffers = p->buffers};
    operands[1] = (EchPipelineOperand){.n_dims = 2, .axis = {2, 1}, .extent = {p->k, p->n}, .block = {p->bk, p->bn}, .bits = p->bits, .buffers = p->buffers};
    operands[2] =
        (EchPipelineOperand){.output = true, .n_dims = 2, .axis = {0, 1}, .extent = {m, p->n}, .block = {bm, p->bn}, .bits = p->out_bits, .buffers = 2};
    *ret = (EchPipeline){
        .n_axes = 3,
        .grid = {ech_div_up(m, bm), ech_div_up(p->n, p->bn), ech_div_up(p->k, p->bk)},
        .operands = operands,
        .n_operands = 3,
        .compute = ech_time_round((double)bm * (double)p->bn * (double)p->bk / p->macs_per_second * 1e12 * (double)cores),
        .port = p->port > 0 ? ech_time_for(ech_bytes_mul(ech_bytes_mul(bm + p->bn, p->bk), p->bits) / 8, p->port) : 0,
        .compute_extent = {m, p->n, p->k},
        .compute_block = {bm, p->bn, p->bk},
        .step_overhead = p->step_overhead,
        .read = MAX(p->read / cores, 1u),
        .write = MAX(p->write / cores, 1u),
        .setup = p->setup,
        .latency = p->latency,
        .shared_port = p->shared_port,
        .rows = 8,
        .lanes = 128,
        .scratch = ech_bytes_mul(ech_bytes_mul(bm, p->bn), 4),
    };
}

size_t ech_pipeline_search(const EchPipelineProduct *product, EchBytes budget, uint32_t max_buffers, EchPipelineProduct *ret, EchPipelineResult *ret_result)
{
    size_t tried = 0;
    EchTime best = ECH_TIME_MAX;
    uint64_t most = MAX(MAX(product->m, product->n), product->k);
    /* Powers of two and their one and a half, from one lane tile to the whole axis. */
    uint64_t sizes[64];
    size_t n_sizes = 0;
    for (uint64_t size = 128; n_sizes + 1 < G_N_ELEMENTS(sizes); size *= 2) {
        sizes[n_sizes++] = size;
        if (size >= most)
            break;
        if (size >= 256)
            sizes[n_sizes++] = size + size / 2;
    }
    for (uint32_t buffers = 2; buffers <= MIN(MAX(max_buffers, 2u), (uint32_t)MAX_BUFFERS); buffers++) {
        for (size_t i = 0; i < n_sizes; i++) {
            for (size_t j = 0; j < n_sizes; j++) {
                for (size_t l = 0; l < n_sizes; l++) {
                    EchPipelineProduct p = *product;
                    p.bm = MIN(sizes[i], ech_round_up(p.m, 8));
                    p.bn = MIN(sizes[j], ech_round_up(p.n, 128));
                    p.bk = MIN(sizes[l], ech_round_up(p.k, 128));
                    p.buffers = buffers;
                    /* A block beyond the axis repeats the one before. */
                    if ((i > 0 && sizes[i - 1] >= p.m) || (j > 0 && sizes[j - 1] >= p.n) || (l > 0 && sizes[l - 1] >= p.k))
                        continue;
                    EchPipelineOperand operands[3];
                    EchPipeline pipeline;
                    ech_pipeline_product(&p, operands, &pipeline);
                    if (vmem_of(&pipeline) > budget || !ech_pipeline_check(&pipeline, NULL))
                        continue;
                    /* No schedule beats its own compute or copies: skip what cannot win. */
                    double floor = (double)steps_of(&pipeline) * (double)(pipeline.compute + pipeline.step_overhead) * 0.5;
                    if (best != ECH_TIME_MAX && floor > (double)best)
                        continue;
                    EchPipelineResult result;
                    ech_pipeline_run(&pipeline, &result);
                    tried++;
                    if (result.total < best) {
                        best = result.total;
                        *ret = p;
                        *ret_result = result;
                    }
                }
            }
        }
    }
    return tried;
}
