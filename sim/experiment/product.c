#include "sim/experiment/product.h"

#include "models/kernel/grid.h"
#include "models/kernel/stalls.h"
#include "models/layout/advice.h"
#include "models/memory/onchip.h"
#include "sim/base/error.h"

#include <string.h>

const EchParam ech_product_params[] = {
    {"m", ECH_PARAM_U64, offsetof(EchProductOptions, m), "4096", "1", "1048576", NULL, "rows of the left operand and of the result"},
    {"n", ECH_PARAM_U64, offsetof(EchProductOptions, n), "4096", "1", "1048576", NULL, "columns of the right operand and of the result"},
    {"k", ECH_PARAM_U64, offsetof(EchProductOptions, k), "4096", "1", "1048576", NULL, "the dimension that is summed over"},
    {"block_m", ECH_PARAM_U64, offsetof(EchProductOptions, block_m), "512", "0", "65536", NULL,
     "rows of a block; 0 in any of the three: the fastest blocks that fit into what the compiler keeps for kernels"},
    {"block_n", ECH_PARAM_U64, offsetof(EchProductOptions, block_n), "1024", "0", "65536", NULL, "columns of a block"},
    {"block_k", ECH_PARAM_U64, offsetof(EchProductOptions, block_k), "1024", "0", "65536", NULL, "depth of a block"},
    {"buffers", ECH_PARAM_U64, offsetof(EchProductOptions, buffers), "2", "1", "16", NULL, "windows on chip per input: 1 fetches nothing ahead"},
    {"dtype", ECH_PARAM_STRING, offsetof(EchProductOptions, dtype), "bf16", NULL, NULL, NULL, "element type of the operands"},
    {"result", ECH_PARAM_STRING, offsetof(EchProductOptions, result), NULL, NULL, NULL, NULL, "element type of the result; none: the operands'"},
    {NULL, ECH_PARAM_U64, 0, NULL, NULL, NULL, NULL, NULL},
};

typedef struct {
    EchTraceBuilder *b;
    unsigned generation;
} Maker;

/* A row-major array or window with the tiles that the compiler gives it. */
static EchId add_array(const Maker *maker, const char *name, EchId memory, const char *dtype, uint64_t rows, uint64_t columns, EchRole role, int32_t space)
{
    EchBuffer buffer = ech_buffer_init();
    g_autofree char *text = g_strdup_printf("%s[%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT "]{1,0}", dtype, rows, columns);
    EchLayout layout;
    if (ech_layout_parse(text, strlen(text), &layout, NULL, NULL)) {
        ech_layout_choose_tiles(&layout, MAX(maker->generation, 2u));
        layout.space = space;
        g_autofree char *shape = ech_layout_print(&layout);
        buffer.bytes = ech_layout_padded_bytes(&layout, ECH_LAYOUT_TPU);
        buffer.dense = ech_layout_dense_bytes(&layout);
        buffer.shape = ech_trace_builder_string(maker->b, shape, -1);
    }
    buffer.name = ech_trace_builder_string(maker->b, name, -1);
    buffer.memory = memory;
    buffer.role = (uint8_t)role;
    buffer.dtype = (uint8_t)ech_dtype_parse(dtype, strlen(dtype));
    buffer.resident = 1;
    return ech_trace_builder_buffer(maker->b, buffer);
}

/* Rows of the tile that a block gets: the granule of a cut block. */
static uint32_t tile_rows(const Maker *maker, const char *dtype, uint64_t rows, uint64_t columns)
{
    g_autofree char *text = g_strdup_printf("%s[%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT "]{1,0}", dtype, rows, columns);
    EchLayout layout;
    if (!ech_layout_parse(text, strlen(text), &layout, NULL, NULL))
        return 8;
    ech_layout_choose_tiles(&layout, MAX(maker->generation, 2u));
    return layout.n_tiles > 0 && layout.tiles[0].rank >= 2 ? (uint32_t)CLAMP(layout.tiles[0].dims[layout.tiles[0].rank - 2], 1, 1024) : 8;
}

static EchId add_block(const Maker *maker, const char *name, EchId memory, EchBytes bytes)
{
    EchBuffer buffer = ech_buffer_init();
    buffer.name = ech_trace_builder_string(maker->b, name, -1);
    buffer.memory = memory;
    buffer.role = ECH_ROLE_TEMPORARY;
    buffer.resident = 1;
    buffer.bytes = bytes;
    return ech_trace_builder_buffer(maker->b, buffer);
}

static bool check_dtype(const char *name, const char *what, GError **error)
{
    if (ech_layout_dtype_bits(name, strlen(name)) >= 4 && ech_dtype_parse(name, strlen(name)) != ECH_DTYPE_NONE)
        return true;
    const char *meant = ech_layout_dtype_meant(name, strlen(name));
    g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "matmul: %s: '%s' is no element type; expected %s", what, name,
                meant ? meant : "something like bf16, f32 or s8");
    return false;
}

static uint64_t padded_work(const EchUnit *unit, uint64_t m, uint64_t n, uint64_t k)
{
    return ech_bytes_mul(2, ech_bytes_mul(ech_round_up(m, 8), ech_bytes_mul(ech_round_up(n, MAX(unit->columns, 1u)), ech_round_up(k, MAX(unit->rows, 1u)))));
}

static void remark_windows(const EchDevice *device, EchBytes windows, EchDiag *diag)
{
    const EchMemory *vector = ech_device_memory_kind(device, ECH_MEM_VECTOR);
    g_autofree char *takes = ech_format_bytes(windows), *kept = ech_format_bytes(vector->kernel_reserved);
    if (vector->kernel_reserved > 0 && windows > vector->kernel_reserved)
        ech_diag_remark(diag,
                        "matmul: its windows and accumulator take %s of vector memory, more than the %s that the compiler keeps for kernels unless "
                        "vmem_limit_bytes says otherwise",
                        takes, kept);
    else
        ech_diag_remark(diag, "matmul: its windows and accumulator take %s of vector memory%s%s%s", takes, vector->kernel_reserved ? ", of " : "",
                        vector->kernel_reserved ? kept : "", vector->kernel_reserved ? " kept for kernels" : "");
}

/* The product with the device's own rates, for the schedule evaluated directly (no engine). */
static EchPipelineProduct on_device(const EchProductOptions *options, const EchDevice *device, const char *dtype, const char *result, EchTime step)
{
    const EchMemory *hbm = ech_device_memory_kind(device, ECH_MEM_HBM), *vector = ech_device_memory_kind(device, ECH_MEM_VECTOR);
    const EchUnit *unit = ech_device_unit(device, ECH_UNIT_MATRIX);
    return (EchPipelineProduct){
        .m = options->m,
        .n = options->n,
        .k = options->k,
        .bits = (uint32_t)ech_layout_dtype_bits(dtype, strlen(dtype)),
        .out_bits = (uint32_t)ech_layout_dtype_bits(result, strlen(result)),
        .bm = MIN(options->block_m, options->m),
        .bn = MIN(options->block_n, options->n),
        .bk = MIN(options->block_k, options->k),
        .buffers = (uint32_t)options->buffers,
        .macs_per_second = MAX((double)ech_unit_peak(unit, dtype) / 2, 1),
        .port = vector->read,
        .step_overhead = step,
        .read = MAX(hbm->read, 1u),
        .write = MAX(hbm->write > 0 ? hbm->write : hbm->read, 1u),
        .latency = hbm->latency,
        .shared_port = true,
        .cores = 1,
    };
}

/* Blocks of our own choice; false (with an error) where nothing fits. */
static bool search_blocks(const EchPipelineProduct *product, const EchMemory *vector, uint64_t *bm, uint64_t *bn, uint64_t *bk, EchDiag *diag, GError **error)
{
    EchBytes budget = vector->kernel_reserved > 0 ? vector->kernel_reserved : vector->capacity;
    EchPipelineProduct best = *product;
    EchPipelineResult result;
    size_t tried = ech_pipeline_search(product, budget, product->buffers, &best, &result);
    if (tried == 0) {
        g_autofree char *room = ech_format_bytes(budget);
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG,
                    "matmul: no blocks of %s or more fit into %s of vector memory; expected block_m, block_n and block_k, or fewer buffers", "128 x 128 x 128",
                    room);
        return false;
    }
    *bm = best.bm;
    *bn = best.bn;
    *bk = best.bk;
    g_autofree char *time = ech_format_time(result.total), *takes = ech_format_bytes(result.vmem);
    ech_diag_remark(diag,
                    "matmul: blocks of %" G_GUINT64_FORMAT " x %" G_GUINT64_FORMAT " x %" G_GUINT64_FORMAT
                    " (m, n, k), the fastest of %zu that fit: %s and %s on chip by their schedule alone",
                    best.bm, best.bn, best.bk, tried, time, takes);
    return true;
}

/* What a step asks of the device besides its copies: operations of the matrix unit and bytes of on-chip memory. */
typedef struct {
    uint64_t work;
    EchBytes read, written;
} StepDemand;

/* Where the schedule's time goes, for the report: the replay's own rates, evaluated without an engine. Both agree to the picosecond where blocks and rates make
 * whole picoseconds and the on-chip port is not fought for. */
static void note_stalls(EchTraceBuilder *b, const EchPipeline *schedule, const EchDevice *device, const char *dtype, EchTime step, const StepDemand *demand)
{
    const EchMemory *hbm = ech_device_memory_kind(device, ECH_MEM_HBM), *vector = ech_device_memory_kind(device, ECH_MEM_VECTOR);
    const EchUnit *unit = ech_device_unit(device, ECH_UNIT_MATRIX);
    EchRate reads = vector->read > 0 ? vector->read : vector->write, writes = vector->write > 0 ? vector->write : vector->read;
    EchPipeline pipeline = *schedule;
    uint64_t peak = ech_unit_peak(unit, dtype);
    pipeline.compute = peak > 0 ? ech_time_for(demand->work, peak) : 0;
    pipeline.port = reads > 0 ? ech_time_add(ech_time_for(demand->read, reads), ech_time_for(demand->written, writes)) : 0;
    pipeline.step_overhead = ech_time_add(step, (EchTime)ech_device_number(device, "runtime.launch_ps", 0));
    pipeline.read = hbm->read > 0 ? hbm->read : hbm->write;
    pipeline.write = hbm->write > 0 ? hbm->write : hbm->read;
    if (pipeline.read == 0)
        return;
    if (reads > 0) {
        pipeline.read = MIN(pipeline.read, writes);
        pipeline.write = MIN(pipeline.write, reads);
    }
    pipeline.latency = MAX(hbm->latency, vector->latency);
    if (!ech_pipeline_check(&pipeline, NULL))
        return;
    EchPipelineResult result;
    ech_pipeline_run(&pipeline, &result);
    ech_trace_builder_printf_property(b, "recurrence_ps", "%" G_GINT64_FORMAT, result.total);
    EchStalls stalls;
    ech_pipeline_stalls(&pipeline, &stalls);
    for (unsigned i = 0; i < ECH_N_STALLS; i++) {
        g_autofree char *key = g_strdup_printf("stall.%s", ech_stall_name((EchStall)i));
        ech_trace_builder_printf_property(b, key, "%" G_GINT64_FORMAT, stalls.at[i]);
    }
}

/* A product's trace in the making. Operands are numbered as a pipeline's: lhs, rhs, result. */
typedef struct {
    Maker maker;
    const EchMemory *hbm, *vector;
    const char *dtype, *result;
    uint64_t bm, bn, bk;
    EchTime step;         /* a step's bookkeeping */
    EchPipeline pipeline; /* a product's duration counts its operations, for the replay to price */
    EchPipelineOperand operands[3];
    EchId in_hbm, on_chip; /* memories */
    EchId core, dma;       /* queues */
    EchId arrays[3];       /* buffers */
    EchId windows[3][16];  /* buffers: windows[operand][slots] */
    uint32_t slots[3];     /* windows of an operand */
    uint32_t next[3];      /* blocks of it moved so far */
    EchAccumulators sums;  /* of a block */
    EchId spilled;         /* buffer of what the accumulators do not hold, or ECH_NONE */
    bool sums_move;        /* which is read and written at every step */
    EchId fetch_names[3], product_name, step_name, wait_name;
} Product;

/* Whole arrays in HBM, windows of blocks on chip. */
static void add_arrays(Product *p, const EchProductOptions *options)
{
    static const char *const names[3] = {"lhs", "rhs", "result"}, *const fetches[3] = {"fetch lhs", "fetch rhs", "store result"};
    const uint64_t extents[3][2] = {{options->m, options->k}, {options->k, options->n}, {options->m, options->n}},
                   blocks[3][2] = {{p->bm, p->bk}, {p->bk, p->bn}, {p->bm, p->bn}};
    bool whole = p->bm >= options->m && p->bn >= options->n && p->bk >= options->k;
    for (size_t o = 0; o < 3; o++) {
        const char *type = o == 2 ? p->result : p->dtype;
        p->arrays[o] = add_array(&p->maker, names[o], p->in_hbm, type, extents[o][0], extents[o][1], o == 2 ? ECH_ROLE_OUTPUT : ECH_ROLE_PARAMETER, 0);
        p->fetch_names[o] = ech_trace_builder_string(p->maker.b, fetches[o], -1);
        p->slots[o] = whole ? 1 : o == 2 ? 2 : (uint32_t)options->buffers;
        for (uint32_t s = 0; s < p->slots[o]; s++) {
            g_autofree char *window = g_strdup_printf("window of %s, %u", names[o], s);
            p->windows[o][s] = add_array(&p->maker, window, p->on_chip, type, blocks[o][0], blocks[o][1], ECH_ROLE_TEMPORARY, p->vector->space);
        }
    }
}

/* Sums stay in the matrix units' accumulators as far as those reach; the rest goes through vector memory at every step. */
static void add_sums(Product *p, const EchProductOptions *options, const EchDevice *device, EchDiag *diag)
{
    p->sums = ech_onchip_accumulators(device, p->bm, p->bn);
    p->spilled = ECH_NONE;
    p->sums_move = p->sums.spilled > 0 && p->bk < options->k;
    if (p->sums.held > 0) {
        const EchMemory *units = ech_device_memory_kind(device, ECH_MEM_ACCUMULATOR);
        (void)add_block(&p->maker, "accumulators", ech_trace_builder_memory(p->maker.b, units->name), p->sums.held);
    }
    if (p->sums.spilled > 0)
        p->spilled = add_block(&p->maker, p->sums.held > 0 ? "sums beyond the accumulators" : "accumulator", p->on_chip, p->sums.spilled);
    if (p->sums.held > 0 && p->sums.spilled > 0) {
        g_autofree char *block = ech_format_bytes(p->sums.block), *held = ech_format_bytes(p->sums.held);
        ech_diag_remark(diag, "matmul: a block's sums take %s, the accumulators hold %s: the rest is read and written in vector memory at every step", block,
                        held);
    }
}

static EchBytes window_bytes(const Product *p, size_t operand, uint32_t slot)
{
    return ech_trace_builder_peek_buffer(p->maker.b, p->windows[operand][slot])->bytes;
}

static void add_deps(const Product *p, const EchPipelineExpansion *expansion, const EchPipelineActivity *activity, const EchId *ends)
{
    for (uint32_t d = 0; d < activity->n_dependencies; d++)
        ech_trace_builder_dep(p->maker.b, ends[expansion->dependencies[activity->first_dependency + d]], 0);
}

/* A product of blocks, then the step's bookkeeping. The operation that ends it. */
static EchId add_compute(const Product *p, const EchPipelineExpansion *expansion, const EchPipelineActivity *activity, const EchId *ends)
{
    EchTraceBuilder *b = p->maker.b;
    EchOp kernel = ech_op_init(ECH_OP_KERNEL);
    kernel.name = p->product_name;
    kernel.queue = p->core;
    (void)ech_trace_builder_op(b, kernel);
    add_deps(p, expansion, activity, ends);
    double share = (double)activity->duration / (double)MAX(p->pipeline.compute, 1); /* of a block that the array's edge cuts */
    ech_trace_builder_work(b, ECH_WORK_MATRIX, ech_dtype_parse(p->dtype, strlen(p->dtype)), (uint64_t)activity->duration, ECH_INFERRED);
    for (size_t o = 0; o < 2; o++) {
        uint32_t slot = (p->next[o] + p->slots[o] - 1) % p->slots[o];
        EchBytes bytes = (EchBytes)((double)window_bytes(p, o, slot) * share);
        ech_trace_builder_use(b, p->windows[o][slot], ECH_READ, bytes, ECH_PATTERN_STREAM, ECH_INFERRED);
    }
    if (p->sums_move) {
        EchBytes bytes = (EchBytes)((double)p->sums.spilled * share);
        ech_trace_builder_use(b, p->spilled, ECH_READ, bytes, ECH_PATTERN_STREAM, ECH_INFERRED);
        ech_trace_builder_use(b, p->spilled, ECH_WRITE, bytes, ECH_PATTERN_STREAM, ECH_INFERRED);
    }
    /* The core is busy with a step's bookkeeping before it asks for anything else. */
    EchOp overhead = ech_op_init(ECH_OP_KERNEL);
    overhead.name = p->step_name;
    overhead.queue = p->core;
    overhead.recorded.duration = p->step;
    return ech_trace_builder_op(b, overhead);
}

/* A block's copy. One that the core asks for only after another has ended: the core waits, then asks. */
static EchId add_copy(Product *p, const EchPipelineExpansion *expansion, const EchPipelineActivity *activity, const EchId *ends)
{
    EchTraceBuilder *b = p->maker.b;
    EchId waited = ECH_NONE;
    bool after_copies = false;
    for (uint32_t d = 0; d < activity->n_dependencies; d++)
        after_copies = after_copies || expansion->activities[expansion->dependencies[activity->first_dependency + d]].kind != ECH_PIPELINE_COMPUTE;
    if (after_copies) {
        EchOp wait = ech_op_init(ECH_OP_WAIT);
        wait.name = p->wait_name;
        wait.queue = p->core;
        waited = ech_trace_builder_op(b, wait);
        add_deps(p, expansion, activity, ends);
    }
    uint32_t o = activity->operand, slot = p->next[o]++ % p->slots[o];
    bool in = activity->kind == ECH_PIPELINE_IN;
    EchOp copy = ech_op_init(ECH_OP_COPY);
    copy.name = p->fetch_names[o];
    copy.queue = p->dma;
    copy.memory_from = in ? p->in_hbm : p->on_chip;
    copy.memory_to = in ? p->on_chip : p->in_hbm;
    copy.bytes = activity->bytes;
    copy.bytes_origin = ECH_INFERRED;
    EchId id = ech_trace_builder_op(b, copy);
    if (after_copies)
        ech_trace_builder_dep(b, waited, 0);
    else
        add_deps(p, expansion, activity, ends);
    ech_trace_builder_use(b, in ? p->arrays[o] : p->windows[o][slot], ECH_READ, copy.bytes, ECH_PATTERN_STREAM, ECH_INFERRED);
    ech_trace_builder_use(b, in ? p->windows[o][slot] : p->arrays[o], ECH_WRITE, copy.bytes, ECH_PATTERN_STREAM, ECH_INFERRED);
    return id;
}

/* The order of copies and products, with blocks of the sizes asked for or found. */
static EchPipelineExpansion *expand(Product *p, const EchProductOptions *options, const EchDevice *device, const EchUnit *unit, EchDiag *diag, GError **error)
{
    p->bm = MIN(options->block_m, options->m);
    p->bn = MIN(options->block_n, options->n);
    p->bk = MIN(options->block_k, options->k);
    p->step = (EchTime)ech_device_number(device, "runtime.grid_step_ps", (double)ECH_KERNEL_GRID_STEP_CYCLES * 1e12 / (double)unit->clock_hz);
    EchPipelineProduct real = on_device(options, device, p->dtype, p->result, p->step);
    if ((p->bm == 0 || p->bn == 0 || p->bk == 0) && !search_blocks(&real, p->vector, &p->bm, &p->bn, &p->bk, diag, error))
        return NULL;
    real.bm = p->bm;
    real.bn = p->bn;
    real.bk = p->bk;
    ech_pipeline_product(&real, p->operands, &p->pipeline);
    p->pipeline.rows = tile_rows(&p->maker, p->dtype, p->bm, p->bn);
    p->pipeline.compute = (EchTime)MIN(padded_work(unit, p->bm, p->bn, p->bk), (uint64_t)ECH_TIME_MAX / 2);
    p->pipeline.port = 0;
    p->pipeline.step_overhead = 0;
    return ech_pipeline_expand(&p->pipeline, error);
}

static const char *dtype_of(const EchProductOptions *options)
{
    return options->dtype ? options->dtype : "bf16";
}

static const char *result_of(const EchProductOptions *options)
{
    return options->result && *options->result ? options->result : dtype_of(options);
}

bool ech_product_check(const EchProductOptions *options, const EchDevice *device, GError **error)
{
    const EchUnit *unit = ech_device_unit(device, ECH_UNIT_MATRIX);
    bool hbm = ech_device_memory_kind(device, ECH_MEM_HBM), vector = ech_device_memory_kind(device, ECH_MEM_VECTOR);
    if (!hbm || !vector || !unit || unit->clock_hz == 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED,
                    "matmul: %s has no %s; a tiled product as a workload is for chips whose kernels manage their on-chip memory (TPUs)", device->name,
                    !hbm      ? "hbm"
                    : !vector ? "vector memory"
                              : "clock of its matrix unit (--set device.units.matrix.clock=1.5GHz)");
        return false;
    }
    return check_dtype(dtype_of(options), "dtype", error) && check_dtype(result_of(options), "result", error);
}

EchTrace *ech_product_trace(const EchProductOptions *options, const EchDevice *device, EchDiag *diag, GError **error)
{
    if (!ech_product_check(options, device, error))
        return NULL;
    const EchUnit *unit = ech_device_unit(device, ECH_UNIT_MATRIX);
    Product p = {.maker.generation = ech_layout_generation(device->compiler),
                 .hbm = ech_device_memory_kind(device, ECH_MEM_HBM),
                 .vector = ech_device_memory_kind(device, ECH_MEM_VECTOR),
                 .dtype = dtype_of(options),
                 .result = result_of(options)};
    g_autoptr(EchPipelineExpansion) expansion = expand(&p, options, device, unit, diag, error);
    if (!expansion)
        return NULL;
    g_autoptr(EchTraceBuilder) b = p.maker.b = ech_trace_builder_new("matmul");
    p.in_hbm = ech_trace_builder_memory(b, p.hbm->name);
    p.on_chip = ech_trace_builder_memory(b, p.vector->name);
    /* Blocks are moved in the order they are asked for, in and out alike; a queue of copies overlaps the next one's latency with this one's bytes. */
    p.core = ech_trace_builder_queue(b, "core", ECH_QUEUE_COMPUTE, 0);
    p.dma = ech_trace_builder_queue(b, "dma", ECH_QUEUE_COPY, 0);
    add_arrays(&p, options);
    add_sums(&p, options, device, diag);
    EchBytes taken = p.sums.spilled;
    for (size_t o = 0; o < 3; o++)
        taken = ech_bytes_add(taken, ech_bytes_mul(p.slots[o], window_bytes(&p, o, 0)));
    remark_windows(device, taken, diag);
    p.product_name = ech_trace_builder_string(b, "product of blocks", -1);
    p.step_name = ech_trace_builder_string(b, "grid step", -1);
    p.wait_name = ech_trace_builder_string(b, "wait for a copy", -1);
    g_autofree EchId *ends = g_new(EchId, MAX(expansion->n_activities, 1));
    for (size_t i = 0; i < expansion->n_activities; i++) {
        const EchPipelineActivity *activity = &expansion->activities[i];
        ends[i] = activity->kind == ECH_PIPELINE_COMPUTE ? add_compute(&p, expansion, activity, ends) : add_copy(&p, expansion, activity, ends);
    }
    StepDemand demand = {.work = (uint64_t)p.pipeline.compute,
                         .read = ech_bytes_add(window_bytes(&p, 0, 0), window_bytes(&p, 1, 0)),
                         .written = p.sums_move ? p.sums.spilled : 0};
    demand.read = ech_bytes_add(demand.read, demand.written);
    note_stalls(b, &p.pipeline, device, p.dtype, p.step, &demand);
    return ech_trace_builder_finish(b, error);
}
