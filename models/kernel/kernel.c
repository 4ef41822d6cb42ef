/* One price rule for every kernel that walks its arrays in windows; the choice of windows is in blocks.c. */
#include "models/kernel/kernel_internal.h"

#include "sim/base/error.h"

#include <math.h>
#include <string.h>

#define QUIET_STEP 16.0 /* cycles of a step that waits for no copy, as the compiler counts (libtpu 2026-10, v5e to tpu7x) */
#define LANE_SPREAD 8.0 /* cycles a register that a lone broadcast fills lane by lane (libtpu 2026-10, v5e, v6e, tpu7x: exact) */
#define REGISTER 1024.0 /* elements: 8 sublanes by 128 lanes */

static double number(const EchDevice *device, const char *prefix, const char *name, double fallback)
{
    char path[96];
    g_snprintf(path, sizeof path, "%s%s", prefix, name);
    if (ech_device_has_number(device, path))
        return ech_device_number(device, path, fallback);
    g_snprintf(path, sizeof path, "kernel.%s", name);
    return ech_device_number(device, path, fallback);
}

bool ech_kernel_model_init(EchKernelModel *ret, const EchDevice *device, EchKernelView view, GError **error)
{
    const EchUnit *unit = ech_device_unit(device, ECH_UNIT_MATRIX);
    const EchMemory *hbm = ech_device_memory_kind(device, ECH_MEM_HBM);
    const EchMemory *vector = ech_device_memory_kind(device, ECH_MEM_VECTOR);
    if (unit == NULL || unit->clock_hz == 0 || hbm == NULL || (hbm->read == 0 && hbm->nominal == 0)) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED,
                    "%s: kernels cannot be priced: the device needs a matrix unit with a clock and an hbm memory with a bandwidth",
                    device->name != NULL ? device->name : "device");
        return false;
    }
    EchRate rate = hbm->read > 0 ? hbm->read : hbm->nominal, peak = MAX(hbm->nominal, rate);
    /* A number for one view only overrides the common one: "kernel.hardware.step_cycles". */
    const char *prefix = view == ECH_KERNEL_COMPILER ? "kernel.compiler." : "kernel.hardware.";
#define NUMBER(name, fallback) number(device, prefix, name, fallback)
    EchKernelModel model = {.view = view, .unit = unit, .clock_hz = (double)unit->clock_hz, .hbm_peak = peak};
    /* Fallbacks: what the six chips of the compiler's tables have in common, so that a chip without a table follows from its data sheet. */
    model.hbm = NUMBER("hbm_efficiency", 1) * (double)rate / model.clock_hz;
    model.step = NUMBER("step_cycles", 1.2e-6 * model.clock_hz); /* v5e, v5p, v6e: 1.2 us; v4 0.53, tpu7x 1.0 */
    model.fixed = NUMBER("fixed_cycles", 24);
    model.simple = NUMBER("simple_cycles", 0.4);
    model.transcendental = NUMBER("transcendental_cycles", 0.5);
    model.divide = NUMBER("divide_cycles", 3);
    model.broadcast = NUMBER("broadcast_cycles", 0.6);
    model.reduce = NUMBER("reduce_cycles", 1.4);
    model.start = NUMBER("start_cycles", 3 * model.step);
    model.matrix_step = NUMBER("matrix_step_cycles", 2 * model.step);
    model.matrix_overhead = NUMBER("matrix_overhead_cycles", 0);
    model.matrix_store = NUMBER("matrix_store_cycles", 0);
    model.accumulate = NUMBER("accumulate_cycles", 0);
    model.transpose = NUMBER("transpose_cycles", 0.2);
    model.weights = NUMBER("weights_cycles", 0);
    model.split_store = NUMBER("split_store", 1);
    model.overlap = NUMBER("overlap", 12);
    model.int8_start = NUMBER("int8_start_cycles", 0);
    model.int8 = NUMBER("int8_efficiency", 1);
    model.matrix = NUMBER("matrix_efficiency", 1);
    model.lone_registers = MAX(NUMBER("lone_registers", 128), 1);
    model.gather = NUMBER("gather_cycles", 8);
    model.shuffle = NUMBER("shuffle_cycles", 8);
    model.relayout = NUMBER("relayout_cycles", 5);
    model.narrow_store = view == ECH_KERNEL_COMPILER ? 1 : NUMBER("narrow_store", 0);
    model.stage_input = NUMBER("stage_input", 1);
    model.stage_weights = NUMBER("stage_weights", 0);
    model.stage_result = NUMBER("stage_result", 0);
    const EchMemory *accumulators = ech_device_memory_kind(device, ECH_MEM_ACCUMULATOR);
    model.accumulators = accumulators != NULL ? (double)accumulators->capacity : 0;
    model.stage_depth = NUMBER("stage_depth", model.unit->rows > 128 ? 1024 : 0); /* v5e, v5p; v6e */
    model.stage_precise_input = NUMBER("stage_precise_input", 10);                /* v5e, v5p, v6e */
    model.stage_precise_weights = NUMBER("stage_precise_weights", 8);
    model.vmem = vector != NULL && vector->read > 0 ? (double)vector->read / model.clock_hz : 22 * model.hbm;
    model.vmem_read = NUMBER("vmem_read_bytes", model.vmem);
    model.cores = MAX(floor(NUMBER("megacore", 1)), 1);
    EchBytes budget = vector == NULL ? 16u << 20 : vector->kernel_reserved > 0 ? vector->kernel_reserved : vector->capacity;
    model.budget = (EchBytes)NUMBER("window_bytes", (double)budget);
    model.lanes = 128;
    model.sublanes = 8;
#undef NUMBER
    *ret = model;
    return true;
}

bool ech_kernel_stands_alone(const EchDevice *device)
{
    return ech_device_number(device, "kernel.hardware.stands_alone", 0) > 0;
}

double ech_kernel_macs_per_cycle(const EchKernelModel *model, const char *dtype)
{
    /* f32 at default precision is one pass of bf16. */
    const char *unit_dtype = strcmp(dtype, "f32") == 0 || strcmp(dtype, "f16") == 0 ? "bf16" : strcmp(dtype, "u8") == 0 ? "s8" : dtype;
    if (ech_unit_peak(model->unit, unit_dtype) == 0) /* no rate of its own: as 16 bits */
        unit_dtype = "bf16";
    double rate = (double)ech_unit_peak(model->unit, unit_dtype) / 2 / model->clock_hz * model->matrix;
    return strcmp(unit_dtype, "s8") == 0 ? rate * model->int8 / model->matrix : rate;
}

double ech_kernel_store_bytes(const EchKernelModel *model, double registers, unsigned bits)
{
    double bytes = registers * REGISTER * bits / 8;
    return bits >= 32 ? bytes : bytes + model->narrow_store * (registers * REGISTER * 6 - bytes); /* narrowing is a pass over the 32-bit registers */
}

/* Work on one thing while the next moves: a maximum, less than perfect where the exponent is small. */
static double overlap(double compute, double move, double exponent)
{
    double most = MAX(compute, move), least = MIN(compute, move);
    return most > 0 ? most * pow(1 + pow(least / most, exponent), 1 / exponent) : 0;
}

/* Adds @times steps to the cost, splitting their time between what bounds them. */
static void add_steps(EchKernelSums *sums, const EchKernelModel *model, double times, double compute, double latency, double move, double exposed)
{
    double step = overlap(compute, latency + move, model->overlap);
    sums->total += times * (step + exposed);
    sums->busy_compute += times * compute;
    sums->busy_hbm += times * (move + exposed);
    sums->hbm += times * exposed;
    if (compute >= latency + move) {
        sums->compute += times * compute;
        sums->hbm += times * (step - compute);
    } else {
        sums->latency += times * latency;
        sums->hbm += times * move;
        sums->compute += times * (step - latency - move);
    }
}

static EchTime picoseconds(const EchKernelModel *model, double cycles)
{
    double time = cycles / model->clock_hz * 1e12;
    return time >= 9e18 ? ECH_TIME_MAX : (EchTime)llround(MAX(time, 0));
}

static void finish(const EchKernelModel *model, const EchKernelSums *sums, EchKernelCost *ret)
{
    ret->time = picoseconds(model, sums->total);
    if (sums->total / model->clock_hz >= 4e6) { /* months: sizes that nobody runs; the parts would only saturate one by one */
        ret->fill = ret->time;
        return;
    }
    double moved = sums->busy_hbm > 0 ? sums->busy_hbm : 1;
    double port = sums->hbm * MIN(sums->in_vmem / moved, 1), space = sums->hbm * MIN(sums->again / moved, 1 - MIN(sums->in_vmem / moved, 1));
    double overhead = sums->busy_compute > 0 ? sums->compute * MIN(sums->step_overhead / sums->busy_compute, 1) : 0;
    ret->compute = picoseconds(model, sums->compute - overhead);
    ret->hbm = picoseconds(model, sums->hbm - port - space);
    ret->port = picoseconds(model, port);
    ret->space = picoseconds(model, space);
    ret->latency = picoseconds(model, sums->latency);
    ret->overhead = picoseconds(model, sums->overhead + overhead);
    ret->busy_compute = picoseconds(model, sums->busy_compute);
    ret->busy_hbm = picoseconds(model, sums->busy_hbm);
    ret->fill = ret->time - ret->compute - ret->hbm - ret->port - ret->space - ret->latency - ret->overhead;
}

/* -- arrays ---------------------------------------------------------------- */

static bool on_chip(const EchLayout *layout)
{
    return layout->space == 1 || layout->space == 3;
}

/* Whether an array is where kernels reach it without windows. TPU v4's compiler prices what streams to and from the common memory, and the results of products
 * there, as in HBM, operands of products as on chip (libtpu 2026-10: 574 streaming kernels of 40 programs, median error 2.9 %, 188 fused products 14 %). */
static bool at_hand(const EchKernelModel *model, const EchLayout *layout)
{
    return layout->space == 1 || (layout->space == 3 && model->view == ECH_KERNEL_HARDWARE);
}

double ech_kernel_padded(const EchLayout *layout)
{
    unsigned bits = ech_layout_element_bits(layout);
    return bits == 0 ? 0 : (double)ech_layout_padded_bytes(layout, ECH_LAYOUT_DENSE) * 8 / bits;
}

/* Elements an array moves, padded. */
static double moved_elements(const EchLayout *layout, const EchBytes *bytes)
{
    unsigned bits = ech_layout_element_bits(layout);
    return bytes == NULL ? ech_kernel_padded(layout) : bits > 0 ? (double)*bytes * 8 / bits : 0;
}

/* Traffic of the whole kernel, each operand read once. */
static EchKernelTraffic traffic_of(const EchKernelModel *model, const EchKernel *kernel, EchKernelCost *ret)
{
    EchKernelTraffic traffic = {0};
    for (size_t i = 0; i < kernel->n_operands; i++) {
        const EchLayout *operand = &kernel->operands[i];
        if (operand->rank == 0)
            continue;
        const EchBytes *real = kernel->operand_bytes != NULL ? &kernel->operand_bytes[i] : NULL;
        EchBytes bytes = real != NULL ? *real : ech_layout_padded_bytes(operand, ECH_LAYOUT_DENSE);
        traffic.widest = MAX(traffic.widest, moved_elements(operand, real));
        if (at_hand(model, operand)) {
            ret->vmem_read = ech_bytes_add(ret->vmem_read, bytes);
        } else {
            ret->hbm_read = ech_bytes_add(ret->hbm_read, bytes);
            traffic.window_bits += ech_layout_element_bits(operand) * (operand->rank > 1 ? 1.0 : 0.0);
        }
    }
    for (size_t i = 0; i < kernel->n_results; i++) {
        const EchLayout *result = &kernel->results[i];
        if (result->rank == 0)
            continue;
        const EchBytes *real = kernel->result_bytes != NULL ? &kernel->result_bytes[i] : NULL;
        EchBytes bytes = real != NULL ? *real : ech_layout_padded_bytes(result, ECH_LAYOUT_DENSE);
        double elements = moved_elements(result, real);
        traffic.widest = MAX(traffic.widest, elements);
        if (at_hand(model, result)) {
            ret->vmem_written = ech_bytes_add(ret->vmem_written, bytes);
            uint64_t tile = 1;
            for (uint8_t d = 0; result->n_tiles > 0 && d < result->tiles[0].rank; d++)
                tile *= (uint64_t)MAX(result->tiles[0].dims[d], 1);
            traffic.partial |= tile * ech_layout_element_bits(result) < REGISTER * 32;
            traffic.narrowed +=
                ech_kernel_store_bytes(model, elements / REGISTER, ech_layout_element_bits(result)) - elements * ech_layout_element_bits(result) / 8;
        } else {
            ret->hbm_written = ech_bytes_add(ret->hbm_written, bytes);
            traffic.stored += ech_kernel_store_bytes(model, elements / REGISTER, ech_layout_element_bits(result));
            traffic.window_bits += ech_layout_element_bits(result) * (result->rank > 1 ? 1.0 : 0.0);
        }
    }
    return traffic;
}

/* -- streaming kernels ----------------------------------------------------- */

static double iterations(const EchKernelWindows *windows)
{
    double n = 1;
    for (unsigned i = 0; i < windows->n_iterations; i++)
        n = MIN(n * MAX(windows->iterations[i], 1u), 1e18);
    return n;
}

static double body_cycles(const EchKernelModel *model, const EchKernelBody *body, bool fused)
{
    double cycles = model->simple * body->simple + model->shuffle * body->shuffle;
    /* A lone instruction's arithmetic hides under its many small windows. */
    if (fused)
        cycles +=
            model->transcendental * body->transcendental + model->divide * body->divide + model->broadcast * body->broadcast + model->reduce * body->reduce;
    return cycles;
}

double ech_kernel_stream_cycles(const EchKernelModel *model, const EchKernel *kernel, const EchKernelTraffic *traffic, const EchKernelCost *cost, double steps,
                                EchKernelSums *sums)
{
    double registers = traffic->widest / REGISTER;
    double moved = ((double)cost->hbm_read + traffic->stored) / model->hbm;
    if ((model->view == ECH_KERNEL_COMPILER ? kernel->body.reduce : kernel->body.lane_sums) > 0)
        moved += registers * REGISTER * 4 / model->hbm;
    double in_vmem = (double)cost->vmem_read / model->vmem_read + (double)cost->vmem_written / model->vmem + traffic->narrowed / model->hbm;
    moved += in_vmem;
    double compute = registers / steps * body_cycles(model, &kernel->body, kernel->fused);
    double serial = MAX(1, ceil(steps / model->cores)); /* steps of the core that has most of them */
    /* All arithmetic, where there is so much that it does not fit under the movement of a step. */
    double excess = MAX(0, compute - (moved / serial + model->step)) * (serial - 1);
    double latency = serial * model->step, fixed = model->fixed;
    /* Without a copy to wait for there is no latency; the compiler counts one as soon as it counts anything at the memory's rate, or relays out a register.
     * What is only spread out from an array on chip is none of that. */
    bool copies = cost->hbm_read + cost->hbm_written > 0, spread = !kernel->fused && kernel->body.broadcast > 0;
    bool quiet = (cost->vmem_read == 0 || spread) && !(traffic->narrowed > 0) && !traffic->partial;
    if (!copies && (model->view == ECH_KERNEL_HARDWARE || quiet)) {
        latency = fixed = 0;
        if (model->view == ECH_KERNEL_COMPILER)
            fixed = QUIET_STEP * serial;
        excess = compute * (serial - 1) + (spread && kernel->body.lane_spread > 0 ? LANE_SPREAD * registers : 0);
    }
    double total = fixed + latency + moved + compute + excess;
    if (sums != NULL)
        *sums = (EchKernelSums){.total = total,
                                .latency = latency,
                                .hbm = moved,
                                .compute = compute + excess,
                                .busy_compute = compute * serial,
                                .busy_hbm = moved,
                                .in_vmem = in_vmem};
    return total;
}

static void price_stream(const EchKernelModel *model, const EchKernel *kernel, bool own_tiles, EchKernelCost *ret)
{
    EchKernelTraffic traffic = traffic_of(model, kernel, ret);
    EchKernelSums sums = {0};
    if (traffic.widest == 0) { /* scalars only: registers and scalar memory */
        sums.total = sums.overhead = MAX(model->step, model->fixed) / 8;
        finish(model, &sums, ret);
        return;
    }
    double steps;
    if (kernel->windows.n_iterations == 0 || own_tiles) {
        ech_kernel_choose_stream(model, kernel, &traffic, ret);
        steps = (double)ret->blocks.steps;
    } else {
        steps = iterations(&kernel->windows);
        ret->blocks.steps = (uint64_t)steps;
        ret->blocks.buffers = kernel->windows.buffers;
        ret->blocks.bm = (uint64_t)ceil(traffic.widest / REGISTER / steps);
        ech_kernel_stream_vmem(model, kernel, ret, false);
    }
    ech_kernel_stream_cycles(model, kernel, &traffic, ret, steps, &sums);
    finish(model, &sums, ret);
}

/* -- contractions ---------------------------------------------------------- */

static uint64_t up(uint64_t value, uint64_t granule)
{
    return ech_round_up(value, granule);
}

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* One block's numbers; the last block of an axis is smaller. */
typedef struct {
    double full, last;
    uint64_t n;
} Axis;

static Axis axis(uint64_t extent, uint64_t block, uint64_t granule)
{
    uint64_t n = MAX(ceil_div(extent, MAX(block, 1u)), 1u);
    uint64_t rest = extent - (n - 1) * MIN(block, extent);
    return (Axis){.full = (double)up(MIN(block, extent), granule), .last = (double)up(MAX(rest, 1u), granule), .n = n};
}

static double at(const Axis *a, uint64_t i)
{
    return i + 1 == a->n ? a->last : a->full;
}

static double operand_bytes(const EchKernel *kernel, size_t i)
{
    return (double)(kernel->operand_bytes != NULL ? kernel->operand_bytes[i] : ech_layout_padded_bytes(&kernel->operands[i], ECH_LAYOUT_DENSE));
}

static double result_bytes(const EchKernel *kernel, size_t i)
{
    return (double)(kernel->result_bytes != NULL ? kernel->result_bytes[i] : ech_layout_padded_bytes(&kernel->results[i], ECH_LAYOUT_DENSE));
}

static double result_elements(const EchKernel *kernel, size_t i)
{
    unsigned bits = ech_layout_element_bits(&kernel->results[i]);
    return bits == 0 ? 0 : result_bytes(kernel, i) * 8 / bits;
}

EchKernelShape ech_kernel_shape(const EchKernelModel *model, const EchKernel *kernel)
{
    const EchKernelContraction *c = &kernel->contraction;
    const EchLayout *lhs = &kernel->operands[kernel->lhs], *rhs = &kernel->operands[kernel->rhs];
    size_t own = 0;
    for (size_t i = 1; i < kernel->n_results; i++) /* a fused product may also return a reduction: the widest is its own */
        if (result_elements(kernel, i) > result_elements(kernel, own))
            own = i;
    const EchLayout *result = &kernel->results[own];
    EchKernelShape shape = {
        .c = c,
        .lhs_bytes = ech_layout_element_bits(lhs) / 8.0,
        .rhs_bytes = ech_layout_element_bits(rhs) / 8.0,
        .out_bits = ech_layout_element_bits(result),
        .lhs_hbm = !on_chip(lhs),
        .rhs_hbm = !on_chip(rhs),
        .out_hbm = !at_hand(model, result),
        .eight = ech_layout_element_bits(lhs) == 8,
    };
    shape.cores = (uint64_t)model->cores;
    shape.unit_size = MAX(model->unit->columns, 128u);
    shape.units = MAX(model->unit->count / (uint32_t)model->cores, 1u);
    shape.stage_input = model->stage_input;
    shape.stage_weights = model->stage_weights;
    shape.stage_result = model->stage_result;
    shape.stage_depth = model->stage_depth;
    shape.accumulators = model->accumulators;
    shape.stage_precise_input = model->stage_precise_input;
    shape.stage_precise_weights = model->stage_precise_weights;
    shape.rate = ech_kernel_macs_per_cycle(model, lhs->dtype) / MAX(c->passes, 1u);
    if (!(shape.rate > 0))
        shape.rate = 1;
    bool swapped_rows = c->lhs_transposed || c->out_transposed;
    shape.m_granule = swapped_rows ? 128 : 8;
    shape.n_granule = c->rhs_transposed || c->out_transposed ? 8 : 128;
    /* Extra operands of a fused epilogue or prologue are fetched with the result's blocks. */
    for (size_t i = 0; i < kernel->n_operands; i++)
        if (i != kernel->lhs && i != kernel->rhs && kernel->operands[i].rank > 0 && !on_chip(&kernel->operands[i]))
            shape.extra_bytes += operand_bytes(kernel, i);
    for (size_t i = 0; i < kernel->n_results; i++)
        if (i != own && kernel->results[i].rank > 0 && !at_hand(model, &kernel->results[i]))
            shape.extra_bytes += result_bytes(kernel, i);
    /* What the arrays really take, against which blocks with halos and padding are scaled. */
    shape.lhs_total = operand_bytes(kernel, kernel->lhs);
    shape.rhs_total = operand_bytes(kernel, kernel->rhs);
    shape.out_registers = result_elements(kernel, own) / REGISTER;
    return shape;
}

/* Cycles until the units have taken in @weights stationary operands that lie on chip: more than a quarter of a cycle a row of every tile (compiler: products
 * of 8 to 128 rows, 35 cycles a tile of 128 rows on v5e, 72 a tile of 256 on v6e). Few rows of the other operand do not hide it; a fetch from HBM does. */
static double load_cycles(const EchKernelShape *s, double weights)
{
    double side = s->unit_size;
    if (s->rhs_hbm)
        return 0;
    return ceil(weights / (side * side)) * 0.28 * side / s->units;
}

/* Latencies follow the copies that a step waits for: the constants are those of two in a step, and of three (two operands and a result) at the start. */
static double start_cycles(const EchKernelModel *model, const EchKernelShape *s)
{
    double store = s->out_hbm ? MAX(0, model->start - model->matrix_step) : 0;
    return store + model->matrix_step / 2 * (s->lhs_hbm + s->rhs_hbm) + (s->eight ? model->int8_start : 0);
}

static double step_latency(const EchKernelModel *model, unsigned copies)
{
    return model->matrix_step * MIN(copies, 2u) / 2;
}

/* Of @fetched cycles of HBM traffic, those beyond each operand once. */
static double again_cycles(const EchKernelModel *model, const EchKernelShape *s, double fetched)
{
    return MAX(0, fetched - ((s->lhs_hbm ? s->lhs_total : 0) + (s->rhs_hbm ? s->rhs_total : 0)) / model->hbm);
}

/* Narrowing @elements of a result that stays on chip, as the view counts it. */
static double narrowing_cycles(const EchKernelModel *model, double elements, unsigned bits)
{
    return (ech_kernel_store_bytes(model, elements / REGISTER, bits) - elements * bits / 8) / model->hbm;
}

/* A product with its steps one by one: [n][m][k], k innermost; a window is fetched only when its index changes. */
static void walk_product(const EchKernelModel *model, const EchKernelShape *s, const EchKernelBlocks *blocks, EchKernelSums *sums)
{
    const EchKernelContraction *c = s->c;
    Axis rows = axis(c->m, blocks->bm, s->m_granule), columns = axis(c->n, blocks->bn, s->n_granule), depth = axis(c->k, blocks->bk, 8);
    bool split = depth.n > 1;
    double lhs_unit = s->lhs_hbm ? s->lhs_bytes / model->hbm : s->lhs_bytes / model->vmem;
    double rhs_unit = s->rhs_hbm ? s->rhs_bytes / model->hbm : s->rhs_bytes / model->vmem;
    double extra = s->extra_bytes / model->hbm / (double)(rows.n * columns.n) / (double)c->batch;
    double step_overhead = s->lhs_hbm || s->rhs_hbm || s->out_hbm ? model->matrix_overhead : 0, tile_overhead = s->out_hbm ? model->matrix_store : 0;
    *sums = (EchKernelSums){.total = start_cycles(model, s)};
    /* Several cores take tiles, or shares of k where there are no more tiles, side by side: a step's latency and overhead count once for all of
     * them, the first fetches and the last stores together. */
    double all_tiles = (double)(rows.n * columns.n) * (double)c->batch, cores = MIN(model->cores, all_tiles * (double)depth.n), tile = 0;
    double shared_k = all_tiles < cores ? cores - all_tiles : 0;
    double fill = 0, fetched[2] = {0}; /* on chip, from HBM */
    for (uint64_t group = 0; group < c->batch; group++) {
        for (uint64_t n = 0; n < columns.n; n++) {
            double bn = at(&columns, n), bn_lanes = (double)up((uint64_t)bn, s->n_granule == 8 ? 8 : 128);
            for (uint64_t m = 0; m < rows.n; m++) {
                double bm = at(&rows, m);
                double registers = s->out_hbm ? bm * bn_lanes / REGISTER : 0;
                double store = s->out_hbm ? ech_kernel_store_bytes(model, registers, s->out_bits) / model->hbm
                                          : bm * bn * s->out_bits / 8 / model->vmem + narrowing_cycles(model, bm * bn_lanes, s->out_bits);
                store += extra + tile_overhead / cores;
                bool with_others = ++tile < cores;
                bool last_tile = group + 1 == c->batch && n + 1 == columns.n && m + 1 == rows.n;
                /* Two kinds of step at most: full ones and the last of k. */
                for (unsigned part = 0; part < 2; part++) {
                    double times = part == 0 ? (double)(depth.n - 1) - (tile == 1 ? MIN(shared_k, (double)(depth.n - 1)) : 0) : 1;
                    if (times <= 0)
                        continue;
                    double bk = part == 0 ? depth.full : depth.last;
                    double bk_lanes = (double)up((uint64_t)bk, 128);
                    double compute = (double)up((uint64_t)bm, s->c->out_transposed ? 128 : 8) * (double)up((uint64_t)bn, s->n_granule) * bk_lanes / s->rate;
                    compute = MAX(compute, load_cycles(s, (double)up((uint64_t)bn, 128) * bk_lanes)) + step_overhead / cores;
                    if (split)
                        compute += model->accumulate * bm * (double)up((uint64_t)bn, 128) / REGISTER;
                    compute += model->transpose * ((c->lhs_transposed ? bm * bk : 0) + (c->rhs_transposed ? bn * bk : 0)) / REGISTER;
                    compute += model->weights * bn * bk_lanes / REGISTER;
                    sums->macs += times * bm * bn * bk_lanes;
                    double lhs_block = bm * (c->lhs_transposed ? bk : bk_lanes) * lhs_unit;
                    double rhs_block = bn * (c->rhs_transposed ? bk_lanes : bk) * rhs_unit;
                    if (group == 0 && n == 0 && m == 0 && (part == 0 || depth.n == 1 || fill == 0))
                        fill = cores * (lhs_block + rhs_block);
                    sums->step_overhead += times * step_overhead / cores;
                    if (part == 1 && last_tile) {
                        sums->total += cores * (compute + store) - tile_overhead; /* nothing follows that could wait for it */
                        sums->compute += cores * compute;
                        sums->busy_compute += cores * compute;
                        sums->busy_hbm += cores * store;
                        continue;
                    }
                    if (part == 1 && with_others) /* ends with the last one */
                        continue;
                    if (part == 0) {
                        /* Inside a tile both windows change every step; the step before the last fetches a shorter block. */
                        double last_k = depth.last, last_lanes = (double)up((uint64_t)last_k, 128);
                        double next_last =
                            bm * (c->lhs_transposed ? last_k : last_lanes) * lhs_unit + bn * (c->rhs_transposed ? last_lanes : last_k) * rhs_unit;
                        double latency = step_latency(model, (unsigned)s->lhs_hbm + s->rhs_hbm) / cores;
                        add_steps(sums, model, times - 1, compute, latency, lhs_block + rhs_block, 0);
                        add_steps(sums, model, 1, compute, latency, next_last, 0);
                        fetched[s->lhs_hbm] += (times - 1) * lhs_block + (next_last > 0 ? lhs_block : 0);
                        fetched[s->rhs_hbm] += (times - 1) * rhs_block + (next_last > 0 ? rhs_block : 0);
                        continue;
                    }
                    bool next_column = m + 1 == rows.n;
                    double next_bm = at(&rows, next_column ? 0 : m + 1), next_bn = next_column ? at(&columns, n + 1 == columns.n ? 0 : n + 1) : bn;
                    double first_k = depth.full, first_lanes = (double)up((uint64_t)first_k, 128);
                    bool lhs_moves = split || rows.n > 1 || (next_column && n + 1 == columns.n);
                    bool rhs_moves = split || next_column;
                    double next = (lhs_moves ? next_bm * (c->lhs_transposed ? first_k : first_lanes) * lhs_unit : 0) +
                                  (rhs_moves ? next_bn * (c->rhs_transposed ? first_lanes : first_k) * rhs_unit : 0);
                    fetched[s->lhs_hbm] += lhs_moves ? next_bm * (c->lhs_transposed ? first_k : first_lanes) * lhs_unit : 0;
                    fetched[s->rhs_hbm] += rhs_moves ? next_bn * (c->rhs_transposed ? first_lanes : first_k) * rhs_unit : 0;
                    unsigned copies = (unsigned)(lhs_moves && s->lhs_hbm) + (rhs_moves && s->rhs_hbm);
                    if (split)
                        add_steps(sums, model, 1, compute, step_latency(model, copies) / cores, next, model->split_store * store);
                    else
                        add_steps(sums, model, 1, compute, step_latency(model, copies + s->out_hbm) / cores, next + store, 0);
                }
            }
        }
    }
    sums->total += fill;
    sums->busy_hbm += fill;
    sums->in_vmem = fetched[0] + (s->out_hbm ? 0 : s->out_registers * REGISTER * s->out_bits / 8 / model->vmem);
    sums->again = again_cycles(model, s, fetched[1] + (s->lhs_hbm || s->rhs_hbm ? fill : 0));
}

/* Rows of the unit that a result's element passes: whole lanes of channels a tap; of narrow ones up to four taps share a pass. */
static double contraction_depth(const EchKernelContraction *c)
{
    uint64_t packed = c->one_tap || c->k >= 128 ? 1 : MIN(128 / c->k, 4u);
    return (double)up(c->k, 128) * (double)ceil_div(c->taps, packed);
}

double ech_kernel_contraction_macs(const EchKernelContraction *c)
{
    return (double)c->batch * (double)up(c->m, 8) * (double)up(c->n, 128) * contraction_depth(c);
}

/* Many equal steps: batches and convolutions, and products too long to walk. */
static void sum_product(const EchKernelModel *model, const EchKernelShape *s, const EchKernelWalk *walk, EchKernelSums *sums)
{
    double steps = MAX(walk->steps, 1);
    double tiles = MAX(walk->tiles, 1), cores = MIN(model->cores, steps);
    bool copies = s->lhs_hbm || s->rhs_hbm || s->out_hbm;
    double compute = MAX(walk->macs / steps / s->rate, load_cycles(s, walk->weights)) + (copies ? model->matrix_overhead : 0) / cores;
    double in = walk->in_bytes / steps / model->hbm;
    unsigned fetches = in > 0 ? (unsigned)s->lhs_hbm + s->rhs_hbm : 0;
    double tile_overhead = s->out_hbm ? model->matrix_store / cores : 0;
    double registers = s->out_hbm ? s->out_registers : 0;
    double store = (ech_kernel_store_bytes(model, registers, s->out_bits) + s->extra_bytes) / model->hbm + tiles * tile_overhead;
    if (!s->out_hbm)
        store += s->out_registers * REGISTER * s->out_bits / 8 / model->vmem + narrowing_cycles(model, s->out_registers * REGISTER, s->out_bits);
    bool split = walk->tiles < walk->steps;
    *sums = (EchKernelSums){.total = start_cycles(model, s), .macs = walk->macs};
    sums->total += cores * (in + compute + store / tiles - tile_overhead);
    sums->compute += cores * compute;
    sums->busy_compute += cores * compute;
    sums->busy_hbm += cores * (in + store / tiles);
    sums->step_overhead = steps * (copies ? model->matrix_overhead : 0) / cores;
    sums->again = again_cycles(model, s, in * steps);
    sums->in_vmem = s->out_hbm ? 0 : store;
    if (split) {
        add_steps(sums, model, steps - MAX(tiles, cores), compute, step_latency(model, fetches) / cores, in, 0);
        add_steps(sums, model, MAX(tiles - cores, 0), compute, step_latency(model, fetches) / cores, in, model->split_store * store / tiles);
    } else {
        add_steps(sums, model, steps - cores, compute, step_latency(model, fetches + s->out_hbm) / cores, in + store / tiles, 0);
    }
}

double ech_kernel_walk_cycles(const EchKernelModel *model, const EchKernelShape *shape, const EchKernelWalk *walk)
{
    EchKernelSums sums;
    sum_product(model, shape, walk, &sums);
    return sums.total;
}

double ech_kernel_product_cycles(const EchKernelModel *model, const EchKernelShape *shape, const EchKernelBlocks *blocks, EchKernelSums *ret)
{
    EchKernelSums sums;
    const EchKernelContraction *c = shape->c;
    uint64_t m = ceil_div(c->m, MAX(blocks->bm, 1u)), n = ceil_div(c->n, MAX(blocks->bn, 1u)), k = ceil_div(c->k, MAX(blocks->bk, 1u));
    if (!c->convolution && !(c->other_macs > 0) && blocks->batch <= 1 && (double)m * (double)n * (double)c->batch <= 65536) {
        walk_product(model, shape, blocks, &sums);
    } else {
        EchKernelWalk walk = ech_kernel_walk(shape, blocks, m, n, k);
        sum_product(model, shape, &walk, &sums);
    }
    if (ret != NULL)
        *ret = sums;
    return sums.total;
}

EchKernelWalk ech_kernel_walk(const EchKernelShape *s, const EchKernelBlocks *blocks, uint64_t m, uint64_t n, uint64_t k)
{
    const EchKernelContraction *c = s->c;
    double groups = (double)c->batch;
    double turns = blocks->batch > 1 ? (double)ceil_div(c->batch, blocks->batch) : groups;
    EchKernelWalk walk = {.steps = turns * (double)m * (double)n * (double)k, .tiles = turns * (double)m * (double)n};
    /* The unit works on whole lanes of k and n. */
    double rows = (double)m * (double)up(MIN(blocks->bm, c->m), s->m_granule), columns = (double)n * (double)up(MIN(blocks->bn, c->n), s->n_granule);
    rows = MIN(rows, (double)up(c->m, s->m_granule));
    columns = MIN(columns, (double)up(c->n, s->n_granule));
    walk.macs = groups * rows * columns * contraction_depth(c) + c->other_macs;
    double lhs = s->lhs_total * (k > 1 ? (double)n : m > 1 ? (double)n : 1);
    double rhs = s->rhs_total * (k > 1 ? (double)m : 1);
    walk.in_bytes = (s->lhs_hbm ? lhs : 0) + (s->rhs_hbm ? rhs : 0);
    return walk;
}

/* Blocks in elements from windows counted in tiles; false where the windows do not describe a plain product. */
static bool blocks_of_windows(const EchKernelWindows *w, const EchKernelContraction *c, EchKernelBlocks *ret)
{
    if (c->convolution || c->batch != 1 || c->other_macs > 0 || w->n_iterations != 3 || w->n_output != 2 || w->n_input != 2)
        return false;
    ret->bm = c->out_transposed ? (uint64_t)w->output[1] * 128 : (uint64_t)w->output[0] * 8;
    ret->bn = c->out_transposed ? (uint64_t)w->output[0] * 8 : (uint64_t)w->output[1] * 128;
    ret->bk = c->lhs_transposed ? (uint64_t)w->input[0] * 8 : (uint64_t)w->input[1] * 128;
    /* The bounds may cover more than the axis: what counts is into how many blocks it is cut. */
    uint64_t *block[3] = {&ret->bn, &ret->bm, &ret->bk}, extent[3] = {c->n, c->m, c->k};
    for (unsigned i = 0; i < 3; i++) {
        uint64_t n = MAX(w->iterations[i], 1u);
        if (*block[i] == 0 || ceil_div(extent[i], *block[i]) != n)
            *block[i] = ceil_div(extent[i], n);
    }
    return true;
}

/* Tiles of a window times a tile's elements. */
static double window_elements(const uint32_t *window, unsigned n)
{
    double product = n > 0 ? REGISTER : 0;
    for (unsigned i = 0; i < n; i++)
        product *= MAX(window[i], 1u);
    return product;
}

/* A walk from the windows of a batch or a convolution: iterations [n or batch, pixels..., taps..., k]. */
static EchKernelWalk walk_of_windows(const EchKernelShape *s, const EchKernelWindows *w)
{
    const EchKernelContraction *c = s->c;
    double steps = iterations(w), outer = MAX(w->iterations[0], 1u), inner = MAX(w->iterations[w->n_iterations - 1], 1u);
    double middle = steps / outer / inner;
    EchKernelWalk walk = {.steps = steps, .tiles = steps / inner};
    walk.macs = (double)c->batch * (double)up(c->m, 8) * (double)up(c->n, s->n_granule) * contraction_depth(c) + c->other_macs;
    double lhs_window = window_elements(w->input, w->n_input) * s->lhs_bytes, rhs_window = window_elements(w->kernel, w->n_kernel) * s->rhs_bytes;
    double rhs_loads = c->batch > 1 ? steps : inner > 1 ? outer * middle * inner : outer;
    double lhs_loads = middle * inner > 1 || c->batch > 1 ? steps : 1;
    /* Halos are fetched again with every window; a partial last block is not fetched whole. */
    double lhs = MIN(lhs_window * lhs_loads, s->lhs_total * (c->batch > 1 ? 1 : outer) * 2),
           rhs = MIN(rhs_window * rhs_loads, s->rhs_total * (c->batch > 1 || inner == 1 ? 1 : middle));
    walk.in_bytes = (s->lhs_hbm ? lhs : 0) + (s->rhs_hbm ? rhs : 0);
    walk.weights =
        c->convolution ? 0 : MIN(window_elements(w->kernel, w->n_kernel), (double)up(c->n, 128) * (double)up(c->k, 128) * (double)c->batch / (outer * inner));
    return walk;
}

static void price_contraction(const EchKernelModel *model, const EchKernel *kernel, bool own_tiles, EchKernelCost *ret)
{
    EchKernelShape shape = ech_kernel_shape(model, kernel);
    (void)traffic_of(model, kernel, ret);
    EchKernelSums sums;
    EchKernelBlocks blocks = {0};
    bool known = !own_tiles && kernel->windows.n_iterations >= 2;
    if (known && blocks_of_windows(&kernel->windows, &kernel->contraction, &blocks)) {
        blocks.buffers = kernel->windows.buffers;
        ret->vmem = ech_kernel_product_vmem(&shape, &blocks);
        ech_kernel_product_cycles(model, &shape, &blocks, &sums);
    } else if (known) {
        EchKernelWalk walk = walk_of_windows(&shape, &kernel->windows);
        sum_product(model, &shape, &walk, &sums);
        blocks.buffers = kernel->windows.buffers;
        ret->vmem = ech_kernel_windows_vmem(&shape, &kernel->windows);
    } else {
        ech_kernel_choose_product(model, kernel, &shape, &blocks);
        ret->chosen = true;
        ret->vmem = ech_kernel_product_vmem(&shape, &blocks);
        ech_kernel_product_cycles(model, &shape, &blocks, &sums);
    }
    const EchKernelContraction *c = &kernel->contraction;
    blocks.steps = blocks.bm == 0
                       ? (uint64_t)iterations(&kernel->windows)
                       : ceil_div(c->batch, MAX(blocks.batch, 1u)) * ceil_div(c->m, blocks.bm) * ceil_div(c->n, blocks.bn) * ceil_div(c->k, blocks.bk);
    ret->blocks = blocks;
    ret->macs = sums.macs;
    /* Arithmetic fused behind the product works on the result's registers, one window of it exposed. */
    double tiles = MAX(1, (double)blocks.steps);
    double tail = shape.out_registers / tiles * body_cycles(model, &kernel->body, kernel->fused);
    sums.total += tail;
    sums.compute += tail;
    sums.busy_compute += tail * tiles;
    finish(model, &sums, ret);
}

/* -- copies and gathers ---------------------------------------------------- */

static void price_copy(const EchKernelModel *model, const EchKernel *kernel, bool own_tiles, EchKernelCost *ret)
{
    EchKernelTraffic traffic = traffic_of(model, kernel, ret);
    EchKernelSums sums = {0};
    double registers = traffic.widest / REGISTER;
    double steps = kernel->windows.n_iterations > 0 && !own_tiles ? iterations(&kernel->windows) : MAX(1, ceil(registers / 1024));
    double serial = MAX(1, ceil(steps / model->cores));
    bool same_lanes = kernel->n_results == 1 && kernel->n_operands >= 1 && kernel->results[0].rank == kernel->operands[0].rank &&
                      (kernel->results[0].rank == 0 || kernel->results[0].order[0] == kernel->operands[0].order[0]);
    bool compiler = model->view == ECH_KERNEL_COMPILER, from_hbm = ret->hbm_read > 0, hbm = from_hbm || ret->hbm_written > 0;
    double narrowed = same_lanes ? traffic.narrowed / model->hbm : 0;
    double stored = from_hbm || same_lanes ? traffic.stored : (double)ret->hbm_written;
    double moved = ((double)ret->hbm_read + stored) / model->hbm + (double)(ret->vmem_read + ret->vmem_written) / model->vmem + narrowed;
    /* A register whose lanes become rows goes through the cross-lane unit; the compiler counts that only behind a fetch. */
    double relayout = same_lanes ? 0 : registers * (from_hbm || !compiler ? model->relayout : MIN(model->relayout, 0.5));
    double latency = hbm || narrowed > 0 ? serial * model->step : 0;
    if (compiler && !hbm && !same_lanes) { /* its price of a relayout on chip: a constant for every window */
        moved = 0;
        latency = 0;
        relayout = 100 * steps;
    }
    sums.total = (hbm || latency > 0 ? model->fixed : 0) + latency + moved + relayout;
    sums.compute = relayout;
    sums.latency = latency;
    sums.hbm = moved;
    sums.busy_hbm = moved;
    sums.in_vmem = MAX(0, moved - ((double)ret->hbm_read + stored) / model->hbm);
    sums.busy_compute = relayout;
    ret->blocks.steps = (uint64_t)MIN(steps, 1e18);
    ret->blocks.bm = (uint64_t)MIN(ceil(registers / steps), 1e18);
    ech_kernel_copy_vmem(model, kernel, ret);
    finish(model, &sums, ret);
}

static void price_gather(const EchKernelModel *model, const EchKernel *kernel, EchKernelCost *ret)
{
    /* Only the picked rows are read, not the table. */
    EchKernelTraffic traffic = {0};
    (void)traffic_of(model, kernel, ret);
    for (size_t i = 0; i < kernel->n_results; i++)
        traffic.stored += (double)ech_layout_padded_bytes(&kernel->results[i], ECH_LAYOUT_DENSE);
    EchBytes rows = (EchBytes)traffic.stored;
    EchBytes indices = kernel->n_operands > 1 ? ech_layout_padded_bytes(&kernel->operands[1], ECH_LAYOUT_DENSE) : 0;
    ret->hbm_read = MIN(ret->hbm_read, ech_bytes_add(rows, indices));
    double moved = ((double)ret->hbm_read + (double)ret->hbm_written) / model->hbm;
    double issue = (double)kernel->gathered_rows * model->gather;
    EchKernelSums sums = {.total = model->step + MAX(moved, issue), .latency = model->step, .hbm = moved, .overhead = MAX(0, issue - moved), .busy_hbm = moved};
    finish(model, &sums, ret);
}

void ech_kernel_price(const EchKernelModel *model, const EchKernel *kernel, bool own_tiles, EchKernelCost *ret)
{
    EchKernelCost cost = {0};
    switch (kernel->kind) {
    case ECH_KERNEL_CONTRACTION:
        if (kernel->n_results > 0 && kernel->lhs < kernel->n_operands && kernel->rhs < kernel->n_operands)
            price_contraction(model, kernel, own_tiles, &cost);
        else
            price_stream(model, kernel, own_tiles, &cost);
        break;
    case ECH_KERNEL_COPY: price_copy(model, kernel, own_tiles, &cost); break;
    case ECH_KERNEL_GATHER: price_gather(model, kernel, &cost); break;
    case ECH_KERNEL_STREAM:
    case ECH_N_KERNEL_CLASSES: price_stream(model, kernel, own_tiles, &cost); break;
    }
    *ret = cost;
}
