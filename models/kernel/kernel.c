/* One price rule for every kernel that walks its arrays in windows; the choice of windows is in blocks.c. */
#include "models/kernel/kernel_internal.h"

#include "sim/base/error.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define QUIET_STEP 16.0 /* cycles of a step that waits for no copy, as the compiler counts (libtpu 2026-10, v5e to tpu7x) */
#define LANE_SPREAD 8.0 /* cycles a row of registers that a broadcast fills lane by lane (libtpu 2026-10, v3 to tpu7x: exact) */
#define DEPTHWISE 2.0   /* cycles a register of the result and position of the window (libtpu 2026-10, v5e, v6e, tpu7x) */
/* Least rows that pass a unit where they lie on lanes: of a filter's gradient (libtpu 2026-10: 16 to 512 channels on v5e, v6e, tpu7x: exact) and of a product's
 * lhs (libtpu 0.0.52: four batches of products of 16 and 24 rows on v5e and v6e: exact). */
#define HALF_LANES 64.0
#define HALVES_START                                                                                                                                           \
    128.0                 /* cycles before half registers are laid out (libtpu 2026-10: 2 x 2 to 7 x 7 windows over 14 to 56 pixels a side, v5e, v6e, tpu7x)   \
                           */
#define UNPACK 4.0        /* cycles a register of 1024 elements whose lanes a copy on chip makes rows, out of tiles of 16 x 128 (libtpu 2026-10, tpu7x) */
#define TURN_WINDOW 100.0 /* cycles a window whose lanes become rows, as the compiler counts (libtpu 0.0.51, v5e, v6e, tpu7x) */
#define TURNED_REGISTERS 768.0 /* of such a window and of what it becomes at most, together (the same) */
#define REGISTER 1024.0        /* elements: 8 sublanes by 128 lanes */

static double number(const EchDevice *device, const char *prefix, const char *name, double fallback)
{
    char path[96];
    g_snprintf(path, sizeof path, "%s%s", prefix, name);
    if (ech_device_has_number(device, path))
        return ech_device_number(device, path, fallback);
    g_snprintf(path, sizeof path, "kernel.%s", name);
    return ech_device_number(device, path, fallback);
}

/* How many times as much as where the constants were counted a unit does in a cycle of the matrix unit, in which those are. */
static double pace(const EchDevice *device, EchUnitKind kind, const EchUnit *matrix)
{
    const EchUnit *unit = ech_device_unit(device, kind);
    uint64_t peak = unit != NULL ? ech_unit_peak(unit, "f32") : 0;
    double more = peak > 0 && unit->counted_peak > 0 ? (double)peak / (double)unit->counted_peak : 1,
           faster = matrix->counted_clock > 0 ? (double)matrix->clock_hz / (double)matrix->counted_clock : 1;
    return unit != NULL ? more / faster : 1;
}

/* Numbers of the device, and what stands for one that it does not have: what the six chips of the compiler's tables have in common, so that a chip without a
 * table follows from its data sheet; of bundles and stages v5e's, v5p's and v6e's. */
static const struct {
    const char *name;
    size_t member;
    double fallback;
} numbers[] = {
    {"fixed_cycles", offsetof(EchKernelModel, fixed), 24},
    {"touch_cycles", offsetof(EchKernelModel, touch), 0.25},
    {"bundle_half", offsetof(EchKernelModel, bundle.half), 1},
    {"bundle_convert", offsetof(EchKernelModel, bundle.convert), 1.5},
    {"bundle_reduce_lanes", offsetof(EchKernelModel, bundle.reduce_lanes), 8},
    {"bundle_reduce_vector", offsetof(EchKernelModel, bundle.reduce_vector), 6},
    {"bundle_push", offsetof(EchKernelModel, bundle.push), 0.5},
    {"bundle_partial_sums", offsetof(EchKernelModel, bundle.partial_sums), 1},
    {"bundle_chain", offsetof(EchKernelModel, bundle.chain), 140},
    {"bundle_product", offsetof(EchKernelModel, bundle.product), 123},
    {"bundle_reduction", offsetof(EchKernelModel, bundle.reduction), 115},
    {"matrix_overhead_cycles", offsetof(EchKernelModel, matrix_overhead), 0},
    {"accumulate_cycles", offsetof(EchKernelModel, accumulate), 0},
    {"load_cycles", offsetof(EchKernelModel, load), 0.0625},
    {"load_transposed", offsetof(EchKernelModel, load_transposed), 1},
    {"overlap", offsetof(EchKernelModel, overlap), 1000},
    {"narrow_on_chip", offsetof(EchKernelModel, narrow_on_chip), 1},
    {"pop_cycles", offsetof(EchKernelModel, pop), 0},
    {"pop_again_cycles", offsetof(EchKernelModel, pop_again), 0},
    {"pop_window_cycles", offsetof(EchKernelModel, pop_window), 0},
    {"turn_cycles", offsetof(EchKernelModel, turn), 0},
    {"epilogue", offsetof(EchKernelModel, epilogue), 1},
    {"int8_start_cycles", offsetof(EchKernelModel, int8_start), 0},
    {"int8_efficiency", offsetof(EchKernelModel, int8), 1},
    {"matrix_efficiency", offsetof(EchKernelModel, matrix), 1},
    {"gather_cycles", offsetof(EchKernelModel, gather), 8},
    {"shuffle_cycles", offsetof(EchKernelModel, shuffle), 8},
    {"relayout_cycles", offsetof(EchKernelModel, relayout), 5},
    {"half_register_cycles", offsetof(EchKernelModel, halves), 0},
    {"depthwise_gradient_cycles", offsetof(EchKernelModel, depthwise_gradient), DEPTHWISE},
    {"gradient_column_cycles", offsetof(EchKernelModel, gradient_column), DEPTHWISE},
    {"gradient_position_cycles", offsetof(EchKernelModel, gradient_position), 0},
    {"gradient_pixel_cycles", offsetof(EchKernelModel, gradient_pixel), 0},
    {"gather_rows_cycles", offsetof(EchKernelModel, gather_rows), 0.5},
    {"stage_input", offsetof(EchKernelModel, stage_input), 1},
    {"stage_weights", offsetof(EchKernelModel, stage_weights), 0},
    {"stage_result", offsetof(EchKernelModel, stage_result), 0},
    {"stage_precise_input", offsetof(EchKernelModel, stage_precise_input), 10},
    {"stage_precise_weights", offsetof(EchKernelModel, stage_precise_weights), 8},
};

/* What the model cannot do without, with something like what it is on a chip, or NULL. */
static const char *missing_number(const EchUnit *unit, const EchMemory *hbm)
{
    if (unit == NULL || unit->clock_hz == 0)
        return "units.matrix.clock=1.5GHz";
    return hbm == NULL || (hbm->read == 0 && hbm->nominal == 0) ? "memories.hbm.read=800GB/s" : NULL;
}

bool ech_kernel_model_init(EchKernelModel *ret, const EchDevice *device, EchKernelView view, GError **error)
{
    const EchUnit *unit = ech_device_unit(device, ECH_UNIT_MATRIX);
    const EchMemory *hbm = ech_device_memory_kind(device, ECH_MEM_HBM);
    const EchMemory *vector = ech_device_memory_kind(device, ECH_MEM_VECTOR);
    const char *lacks = missing_number(unit, hbm);
    if (lacks != NULL) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED,
                    "%s: kernels cannot be priced: the device lacks %.*s (in its file, or something like --set device.%s)",
                    device->name != NULL ? device->name : "device", (int)strcspn(lacks, "="), lacks, lacks);
        return false;
    }
    EchRate rate = hbm->read > 0 ? hbm->read : hbm->nominal, peak = MAX(hbm->nominal, rate);
    /* A number for one view only overrides the common one: "kernel.hardware.step_cycles". */
    const char *prefix = view == ECH_KERNEL_COMPILER ? "kernel.compiler." : "kernel.hardware.";
#define NUMBER(name, fallback) number(device, prefix, name, fallback)
    EchKernelModel model = {.view = view, .unit = unit, .clock_hz = (double)unit->clock_hz, .hbm_peak = peak};
    for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++)
        *(double *)(void *)((char *)&model + numbers[i].member) = NUMBER(numbers[i].name, numbers[i].fallback);
    model.hbm = NUMBER("hbm_efficiency", 1) * (double)rate / model.clock_hz;
    model.lane_sums = NUMBER("lane_sum_bytes", model.hbm);
    model.step = NUMBER("step_cycles", 1.2e-6 * model.clock_hz); /* v5e, v5p, v6e: 1.2 us; v4 0.53, tpu7x 1.0 */
    double lanes = pace(device, ECH_UNIT_VECTOR, unit), functions = pace(device, ECH_UNIT_TRANSCENDENTAL, unit);
    model.simple = NUMBER("simple_cycles", 0.25) / lanes;
    model.transcendental = NUMBER("transcendental_cycles", 0.5) / functions;
    model.divide = NUMBER("divide_cycles", 0.75) / lanes;
    model.reduce = NUMBER("reduce_cycles", 0.5) / lanes;
    model.touch_beside = NUMBER("touch_beside_cycles", model.touch);
    model.serial_work = NUMBER("serial_work", 0);
    model.start = NUMBER("start_cycles", 3 * model.step);
    model.matrix_step = NUMBER("matrix_step_cycles", 2 * model.step);
    model.matrix_store = NUMBER("matrix_store_cycles", model.matrix_step / 2);
    model.fetch_once = NUMBER("fetch_once", 0) > 0;
    model.bundle.vector = MAX(NUMBER("bundle_vector", 4) * lanes, 0.1);
    model.bundle.lanes = MAX(NUMBER("bundle_lanes", 3), 0.1);
    model.bundle.load = MAX(NUMBER("bundle_load", 3), 0.1);
    model.bundle.store = MAX(NUMBER("bundle_store", 1), 0.1);
    model.bundle.transcendental = MAX(NUMBER("bundle_transcendental", 1) * functions, 0.1);
    const EchLink *ici = ech_device_link(device, "ici");
    model.bundle.link = ici != NULL ? (double)MIN(ici->to_device, ici->from_device) / model.clock_hz : 0; /* it ends in another's link */
    model.narrow_last = NUMBER("narrow_last", 1) > 0;
    model.lone_registers = MAX(NUMBER("lone_registers", 128), 1);
    model.narrow_store = view == ECH_KERNEL_COMPILER ? 1 : NUMBER("narrow_store", 0);
    const EchMemory *accumulators = ech_device_memory_kind(device, ECH_MEM_ACCUMULATOR);
    model.accumulators = accumulators != NULL ? (double)accumulators->capacity : 0;
    model.stage_depth = NUMBER("stage_depth", model.unit->rows > 128 ? 1024 : 0); /* v5e, v5p; v6e */
    model.vmem = vector != NULL && vector->read > 0 ? (double)vector->read / model.clock_hz : 22 * model.hbm;
    model.vmem_read = NUMBER("vmem_read_bytes", model.vmem);
    model.cores = CLAMP(floor(NUMBER("megacore", 1)), 1, 1024); /* as many as a device may have */
    EchBytes budget = vector == NULL ? 16u << 20 : vector->kernel_reserved > 0 ? vector->kernel_reserved : vector->capacity;
    model.budget = (EchBytes)CLAMP(NUMBER("window_bytes", (double)budget), 0, 1e18);
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

bool ech_kernel_model_equal(const EchKernelModel *a, const EchKernelModel *b)
{
    /* From the first number to the last: 64 bits each, and the two of 32 side by side, so nothing lies between them. */
    size_t from = offsetof(EchKernelModel, clock_hz), to = offsetof(EchKernelModel, unit);
    const EchUnit *x = a->unit, *y = b->unit;
    bool same = a->view == b->view && a->fetch_once == b->fetch_once && a->narrow_last == b->narrow_last &&
                memcmp((const char *)a + from, (const char *)b + from, to - from) == 0 && x->count == y->count && x->rows == y->rows &&
                x->columns == y->columns && x->n_peaks == y->n_peaks;
    for (size_t i = 0; same && i < x->n_peaks; i++)
        same = x->peaks[i].ops == y->peaks[i].ops && strcmp(x->peaks[i].dtype, y->peaks[i].dtype) == 0;
    return same;
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

/* Narrowing is a pass over the 32-bit registers. */
static double store_bytes(const EchKernelModel *model, double registers, unsigned bits)
{
    return registers * REGISTER * (bits / 8.0 + (bits >= 32 ? 0 : model->narrow_store * 4));
}

/* Work on one thing while the next moves: a maximum, less than perfect where the exponent is small. */
static double overlap(double compute, double move, double exponent)
{
    double most = MAX(compute, move), least = MIN(compute, move);
    if (exponent == INFINITY)
        return most;
    return most > 0 ? most * pow(1 + pow(least / most, exponent), 1 / exponent) : 0;
}

/* Adds @times steps to the cost, splitting their time between what bounds them. */
static void add_steps(EchKernelSums *sums, const EchKernelModel *model, double times, double compute, double latency, double move)
{
    double step = overlap(compute, latency + move, model->overlap);
    sums->total += times * step;
    sums->busy_compute += times * compute;
    sums->busy_hbm += times * move;
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
    return ech_time_round(cycles / model->clock_hz * 1e12);
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

static uint64_t tile_elements(const EchLayout *layout)
{
    uint64_t tile = 1;
    for (uint8_t d = 0; layout->n_tiles > 0 && d < layout->tiles[0].rank; d++)
        tile *= (uint64_t)MAX(layout->tiles[0].dims[d], 1);
    return tile;
}

/* Whether a tile of the array fills less than whole registers. */
static bool is_partial(const EchLayout *layout)
{
    return (double)(tile_elements(layout) * ech_layout_element_bits(layout)) < REGISTER * 32;
}

/* Whether whole registers hold more than 1024 elements each: T(16,128) of 16 bits. */
static bool is_packed(const EchLayout *layout)
{
    return ech_layout_element_bits(layout) < 32 && !is_partial(layout);
}

/* Whether the compiler counts a register for every tile of an array, which fills it in part. */
static bool in_part(const EchKernelModel *model, const EchLayout *layout)
{
    return model->view == ECH_KERNEL_COMPILER && layout->rank > 1 && (double)tile_elements(layout) < REGISTER;
}

/* Elements that the registers hold which an array moves through (libtpu 0.0.51, T(1,128) to T(4,128) on v5e, v6e, tpu7x: exact). */
static double held_elements(const EchKernelModel *model, const EchLayout *layout, const EchBytes *bytes)
{
    double elements = moved_elements(layout, bytes);
    return in_part(model, layout) ? elements * REGISTER / (double)MAX(tile_elements(layout), 1u) : elements;
}

/* Bytes of the pass over 32-bit registers that a result takes before it is stored: of one that is narrowed, and of one that fills registers in part. */
static double pass_bytes(const EchKernelModel *model, const EchLayout *result, const EchBytes *bytes)
{
    return ech_layout_element_bits(result) >= 32 && !in_part(model, result) ? 0 : model->narrow_store * 4 * held_elements(model, result, bytes);
}

/* Traffic of the whole kernel, each operand read once. */
static EchKernelTraffic traffic_of(const EchKernelModel *model, const EchKernel *kernel, EchKernelCost *ret)
{
    EchKernelTraffic traffic = {.widest = kernel->body.made};
    for (size_t i = 0; i < kernel->n_operands; i++) {
        const EchLayout *operand = &kernel->operands[i];
        if (operand->rank == 0)
            continue;
        const EchBytes *real = kernel->operand_bytes != NULL ? &kernel->operand_bytes[i] : NULL;
        EchBytes bytes = real != NULL ? *real : ech_layout_padded_bytes(operand, ECH_LAYOUT_DENSE);
        traffic.widest = MAX(traffic.widest, held_elements(model, operand, real));
        traffic.elements = MAX(traffic.elements, moved_elements(operand, real));
        double bits = operand->rank > 1 ? ech_layout_element_bits(operand) : 0;
        traffic.whole_bits += bytes > 0 ? bits : 0; /* what is updated in place is not taken in */
        if (at_hand(model, operand)) {
            traffic.streamed |= kernel->body.reads;
            ret->vmem_read = ech_bytes_add(ret->vmem_read, bytes);
        } else {
            ret->hbm_read = ech_bytes_add(ret->hbm_read, bytes);
            traffic.window_bits += bits;
        }
    }
    double passed = 0; /* of several results the compiler counts the longest pass (libtpu 0.0.51, two to four slices of an array on v5e, v6e, tpu7x) */
    for (size_t i = 0; i < kernel->n_results; i++) {
        const EchLayout *result = &kernel->results[i];
        if (result->rank == 0)
            continue;
        const EchBytes *real = kernel->result_bytes != NULL ? &kernel->result_bytes[i] : NULL;
        EchBytes bytes = real != NULL ? *real : ech_layout_padded_bytes(result, ECH_LAYOUT_DENSE);
        double pass = pass_bytes(model, result, real);
        if (model->view == ECH_KERNEL_COMPILER) {
            double longest = MAX(pass, passed);
            pass = longest - passed;
            passed = longest;
        }
        traffic.widest = MAX(traffic.widest, held_elements(model, result, real));
        traffic.elements = MAX(traffic.elements, moved_elements(result, real));
        double bits = result->rank > 1 ? ech_layout_element_bits(result) : 0;
        traffic.whole_bits += bits;
        if (at_hand(model, result)) {
            ret->vmem_written = ech_bytes_add(ret->vmem_written, bytes);
            traffic.partial |= is_partial(result);
            traffic.narrowed += pass;
        } else {
            ret->hbm_written = ech_bytes_add(ret->hbm_written, bytes);
            traffic.stored += (double)bytes + pass;
            traffic.window_bits += bits;
        }
    }
    for (size_t i = 0; i < kernel->n_operands + kernel->n_results; i++) {
        bool result = i >= kernel->n_operands;
        size_t k = result ? i - kernel->n_operands : i;
        const EchLayout *layout = result ? &kernel->results[k] : &kernel->operands[k];
        const EchBytes *bytes = result ? kernel->result_bytes : kernel->operand_bytes;
        if (layout->rank == 0 || held_elements(model, layout, bytes != NULL ? &bytes[k] : NULL) * 2 < traffic.widest)
            continue;
        *(result ? &traffic.wide_results : &traffic.wide_operands) += 1;
        double bits = layout->rank == 1 ? ech_layout_element_bits(layout) : 0;
        traffic.whole_bits += bits;
        traffic.window_bits += at_hand(model, layout) ? 0 : bits;
        traffic.narrow |= result && ech_layout_element_bits(layout) < 32;
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

/* Tiles of a window times a tile's elements. */
static double window_elements(const uint32_t *window, unsigned n)
{
    double product = n > 0 ? REGISTER : 0;
    for (unsigned i = 0; i < n; i++)
        product *= MAX(window[i], 1u);
    return product;
}

/* Cycles of the body over @registers, in whole. A lone instruction's arithmetic hides under its loads and stores. Exact for 50 bodies on v5e, v6e and tpu7x
 * (libtpu 0.0.51, 64 x 512 to 512 x 1024 elements, on chip and in HBM). */
static double body_cycles(const EchKernelModel *model, const EchKernel *kernel, double registers)
{
    const EchKernelBody *body = &kernel->body;
    double cycles = model->simple * body->narrow;
    cycles += model->view == ECH_KERNEL_COMPILER ? model->reduce * body->windows : model->shuffle * body->shuffle + model->simple * body->positions;
    if (kernel->fused)
        cycles += model->simple * body->simple + model->transcendental * body->transcendental + model->divide * body->divide + model->reduce * body->reduce;
    double turned = model->view == ECH_KERNEL_COMPILER ? model->gather_rows * body->turned : 0;
    return registers * cycles + LANE_SPREAD * body->spread + body->rows + turned;
}

double ech_kernel_stream_cycles(const EchKernelModel *model, const EchKernel *kernel, const EchKernelTraffic *traffic, const EchKernelCost *cost, double steps,
                                EchKernelSums *sums)
{
    const EchKernelBody *body = &kernel->body;
    double registers = traffic->widest / REGISTER;
    bool compiler = model->view == ECH_KERNEL_COMPILER;
    double read = compiler && !body->reads ? 0 : (double)cost->hbm_read + (compiler ? (double)kernel->padded : 0), hbm = (read + traffic->stored) / model->hbm;
    /* What is reduced counts as stored, unless as wide a result is stored anyway. */
    bool made = body->made > 0 && !(traffic->wide_results > 0 && traffic->elements * 2 > body->made); /* half of it is not all of it */
    if (compiler && body->reduce > 0 && (!(traffic->wide_results > 0) || made))
        hbm += registers * REGISTER * 4 / model->hbm;
    double lanes = !compiler && body->lane_sums > 0 ? registers * REGISTER * 4 / model->lane_sums : 0; /* nor does that hide under anything */
    if (compiler && kernel->windows.n_iterations > 0 && steps > 1) {                                   /* every window counts as a whole one */
        double whole = window_elements(kernel->windows.output, kernel->windows.n_output) * steps / traffic->widest;
        hbm *= whole > 1 && whole < 1.5 ? whole : 1;
    }
    /* What is only spread out from an array on chip is not read at a rate. */
    double in_vmem = traffic->narrowed / model->hbm + (compiler ? 0 : (double)cost->vmem_written / model->vmem);
    if (!compiler || traffic->streamed)
        in_vmem += MAX((double)cost->vmem_read - (compiler ? body->only_turned : 0), 0) / model->vmem_read;
    double moved = hbm + in_vmem + lanes;
    double loads = body->loads > 0 ? body->loads : traffic->wide_operands;
    double compute = (registers * model->touch * (loads + traffic->wide_results) + body_cycles(model, kernel, registers)) / steps;
    bool windowed = compiler && (body->windows > 0 || body->rows_first > 0);
    if (windowed) /* what a window meets is read again, on chip; nothing that it leaves is spread */
        compute = (body_cycles(model, kernel, registers) - LANE_SPREAD * body->spread + ((double)cost->hbm_read + (double)cost->vmem_read) / model->vmem_read) /
                  steps;
    double serial = MAX(1, ceil(steps / model->cores)); /* steps of the core that has most of them */
    /* All arithmetic, where there is so much that it does not fit under the movement of a step. */
    double excess = MAX(0, compute - (moved / serial + model->step)) * (serial - 1);
    double latency = serial * model->step, fixed = model->fixed;
    /* Without a copy to wait for there is no latency; the compiler counts one as soon as it counts anything at a rate, or relays out a register. */
    bool copies = read + (double)cost->hbm_written > 0, quiet = !traffic->streamed && !(traffic->narrowed > 0) && !traffic->partial && !(hbm > 0);
    if (!copies && (!compiler || quiet)) {
        latency = fixed = 0;
        if (compiler)
            fixed = QUIET_STEP * serial;
        excess = compute * (serial - 1);
    }
    /* Reductions of windows are emitted as convolutions are: filled and drained (libtpu 0.0.51: 40 softmaxes, pools and running sums on v5e and v6e). */
    if (windowed && copies)
        latency = (serial + 2) * (model->step - QUIET_STEP);
    else if (windowed) { /* further steps on chip wait for nothing (libtpu 0.0.52: softmaxes of 384 and 2048 steps on v5e and v6e) */
        excess = MAX(0, compute - moved / serial) * (serial - 1);
        latency = MIN(latency, model->step);
    }
    double total = fixed + latency + moved + compute + excess;
    if (sums != NULL)
        *sums = (EchKernelSums){.total = total,
                                .latency = latency,
                                .hbm = moved - lanes,
                                .compute = compute + excess + lanes,
                                .busy_compute = compute * serial + lanes,
                                .busy_hbm = moved - lanes,
                                .in_vmem = in_vmem};
    return total;
}

/* Whether a kernel adds up or compares windows of positions, none of them whole rows, in windows that are known: the compiler emits it as a convolution. */
static bool sums_windows(const EchKernelModel *model, const EchKernel *kernel)
{
    const EchKernelWindows *w = &kernel->windows;
    return model->view == ECH_KERNEL_COMPILER && kernel->body.windows > 0 && kernel->body.rows_first == 0 && kernel->n_results > 0 && kernel->n_operands > 0 &&
           w->n_iterations > 0 && w->n_kernel > 0 && w->n_kernel == w->n_output && w->n_input == w->n_output;
}

/* Bytes of the result's register-sized parts that a step meets of an operand: a window that moves by one position reaches one further than it needs. */
static double met_elements(const EchKernelWindows *w, double tile)
{
    double product = tile;
    for (unsigned i = 0; i < w->n_input; i++) {
        bool halo = w->kernel[i] > 1 && w->input[i] + 1 == w->output[i] + w->kernel[i];
        product *= MAX(w->input[i] + (halo ? 1u : 0u), 1u);
    }
    return product;
}

/* What the compiler counts for windows of positions: as of a convolution whose filter, a register for each position, is fetched first; then what a step's
 * windows meet of operands in HBM; a result there or a narrow one waits for its store; arithmetic is that of one step. Rows that an operand has
 * elsewhere are gathered in that step, on v5e one by one. Where it lies on chip further steps cost nothing (libtpu 0.0.52: 90 running sums and pools on v5e
 * and v6e, exact but for a few). */
static void window_cycles(const EchKernelModel *model, const EchKernel *kernel, const EchKernelTraffic *traffic, EchKernelSums *sums)
{
    const EchKernelWindows *w = &kernel->windows;
    const EchLayout *result = &kernel->results[0];
    double steps = iterations(w), serial = MAX(1, ceil(steps / model->cores)), rate = model->hbm / model->cores;
    double tile = in_part(model, result) ? (double)tile_elements(result) : REGISTER, rows = tile / 128;
    double filter = window_elements(w->kernel, w->n_kernel) * ech_layout_element_bits(&kernel->operands[0]) / 8;
    double moved = 0, turned = 0, parts = window_elements(w->output, w->n_output) / REGISTER, met = met_elements(w, tile);
    for (size_t i = 0; i < kernel->n_operands; i++) {
        const EchLayout *operand = &kernel->operands[i];
        if (moved_elements(operand, NULL) * 2 < traffic->elements)
            continue;
        moved += at_hand(model, operand) ? 0 : met * ech_layout_element_bits(operand) / 8;
        if (operand->rank == result->rank && memcmp(operand->order, result->order, operand->rank * sizeof operand->order[0]) != 0) {
            double gathered = MAX(model->gather_rows - model->touch, 0) * (model->gather_rows > 8 * model->touch ? rows / 8 : 1);
            turned += window_elements(w->input, w->n_input) / REGISTER * (2 * model->touch + gathered);
        }
    }
    double narrow = ech_layout_element_bits(result) < 32 || in_part(model, result) ? parts * REGISTER * 4 : 0;
    double stored = at_hand(model, result) ? 0 : parts * tile * ech_layout_element_bits(result) / 8;
    double stores = stored > 0 || model->narrow_last ? serial : serial - 1;
    double fetch = moved > 0 ? model->matrix_step - model->matrix_store : 0, store = stored + narrow > 0 ? model->matrix_store : 0;
    double all = traffic->widest / REGISTER * model->reduce * kernel->body.windows + model->gather_rows * kernel->body.turned;
    double body = (body_cycles(model, kernel, traffic->widest / REGISTER) - all) / steps + model->touch * parts + turned;
    double latency = model->matrix_store + serial * fetch + stores * store, bytes = serial * moved + stores * (stored + narrow);
    *sums = (EchKernelSums){.total = latency + (filter + bytes) / rate + body,
                            .latency = latency,
                            .hbm = (filter + bytes) / rate,
                            .compute = body,
                            .busy_compute = body * serial,
                            .busy_hbm = (filter + bytes) / rate,
                            .in_vmem = (filter + (stored > 0 ? 0 : stores * narrow)) / rate};
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
    if (!own_tiles && sums_windows(model, kernel))
        window_cycles(model, kernel, &traffic, &sums);
    else
        ech_kernel_stream_cycles(model, kernel, &traffic, ret, steps, &sums);
    finish(model, &sums, ret);
}

/* -- contractions ---------------------------------------------------------- */

static uint64_t up(uint64_t value, uint64_t granule)
{
    return ech_round_up(value, granule);
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

/* Whether an operand is fetched with the blocks of a side: the side's own array, and arrays as large that it is computed from. */
static bool is_fetched_with(const EchKernel *kernel, size_t i, size_t main, EchKernelSide side)
{
    return i == main || (kernel->sides != NULL && (kernel->sides[i] & side) != 0 && kernel->operands[i].rank > 1 &&
                         ech_layout_elements(&kernel->operands[i]) * 2 >= ech_layout_elements(&kernel->operands[main]));
}

/* Bytes that a side's blocks are fetched from: of its arrays in HBM, or of its own array where all are on chip. */
static double side_total(const EchKernel *kernel, size_t main, EchKernelSide side, bool *ret_hbm, double *ret_moved)
{
    double total = 0, own = operand_bytes(kernel, main);
    *ret_hbm = false;
    for (size_t i = 0; i < kernel->n_operands; i++) {
        if (!is_fetched_with(kernel, i, main, side) || on_chip(&kernel->operands[i]))
            continue;
        *ret_hbm = true;
        total += operand_bytes(kernel, i);
    }
    if (!*ret_hbm)
        total = own;
    const EchKernelContraction *c = &kernel->contraction;
    *ret_moved = ech_layout_element_bits(&kernel->operands[main]) / 8.0 * (own > 0 ? total / own : 1);
    /* What the side is computed from may begin with a scalar or a row that is repeated: the side itself is larger. */
    double elements = (double)c->batch * (double)c->k * (side == ECH_KERNEL_SIDE_LHS ? (double)c->m : (double)c->n * (double)c->taps);
    bool computed = side == ECH_KERNEL_SIDE_LHS ? c->lhs_computed : c->rhs_computed;
    bool repeated = !c->convolution && (double)ech_layout_elements(&kernel->operands[main]) * 2 < elements;
    if (computed && !c->convolution) /* blocks of it are counted with the padding of what it is */
        elements = (double)c->batch *
                   (side == ECH_KERNEL_SIDE_LHS
                        ? (double)(up(c->m, c->lhs_transposed || c->out_transposed ? 128 : 8) * up(c->k, c->lhs_transposed ? 8 : 128))
                        : (double)(up(c->n, c->rhs_transposed || c->out_transposed ? 8 : 128) * up(c->k, c->rhs_transposed ? 128 : 8)) * (double)c->taps);
    if (repeated || computed)
        *ret_moved = total / elements;
    return total;
}

/* Whether an array has the elements of the contraction's result. */
static bool is_product(const EchKernelContraction *c, const EchLayout *result)
{
    return result->rank > 0 && (double)ech_layout_elements(result) == (double)c->batch * (double)c->m * (double)c->n;
}

/* Whether a result is the contraction's: of its elements, or written in a slice that has them (what a loop stacks), padded. */
static bool holds_product(const EchKernel *kernel, size_t i)
{
    const EchKernelContraction *c = &kernel->contraction;
    double product = (double)c->batch * (double)c->m * (double)c->n, written = result_elements(kernel, i);
    return is_product(c, &kernel->results[i]) || (kernel->results[i].rank > 0 && written >= product && written < 2 * product);
}

/* Whether a ragged product sums up over the rows of each group: the gradient of what they were multiplied with. The compiler counts both of its sides as
 * fetched from HBM for every block, wherever they lie (libtpu 0.0.52, ten on v5e). */
static bool sums_rows(const EchKernelContraction *c, const EchKernelWindows *w)
{
    return c->groups > 0 && c->row_axis + 1u == w->n_iterations;
}

static EchKernelShape shape_of(const EchKernelModel *model, const EchKernel *kernel)
{
    const EchKernelContraction *c = &kernel->contraction;
    const EchLayout *lhs = &kernel->operands[kernel->lhs];
    size_t own = 0;
    /* a fused product may also return a reduction, a mask or what a collective brings: its own fits, or is widest */
    for (size_t i = 1; i < kernel->n_results; i++) {
        bool fits = holds_product(kernel, i), fitted = holds_product(kernel, own);
        double more = result_elements(kernel, i), most = result_elements(kernel, own);
        bool wider = more > most || (more >= most && ech_layout_element_bits(&kernel->results[i]) > ech_layout_element_bits(&kernel->results[own]));
        if (fits != fitted ? fits : wider)
            own = i;
    }
    const EchLayout *result = &kernel->results[own];
    EchKernelShape shape = {
        .c = c,
        .lhs_bytes = ech_layout_element_bits(lhs) / 8.0,
        .out_bits = ech_layout_element_bits(result),
        .out_hbm = !at_hand(model, result),
        .out_common = result->space == 3 && model->view == ECH_KERNEL_COMPILER,
        .eight = ech_layout_element_bits(lhs) == 8,
    };
    shape.cores = (uint64_t)model->cores;
    shape.unit_size = MAX(model->unit->columns, 128u);
    shape.units = MAX(model->unit->count / (uint32_t)model->cores, 1u);
    shape.load = model->load;
    /* Products of 384 rows and columns take no more of a v6e's units than their lanes (measured); the compiler counts whole units. */
    shape.side = model->view == ECH_KERNEL_HARDWARE ? MIN(shape.unit_size, model->lanes) : shape.unit_size;
    shape.load_transposed = model->load_transposed;
    shape.depthwise_gradient = model->depthwise_gradient;
    shape.gradient_column = model->gradient_column;
    shape.gradient_position = model->gradient_position;
    shape.gradient_pixel = model->gradient_pixel;
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
    /* What the arrays really take, against which blocks with halos and padding are scaled. */
    shape.lhs_total = side_total(kernel, kernel->lhs, ECH_KERNEL_SIDE_LHS, &shape.lhs_hbm, &shape.lhs_moved);
    shape.rhs_total = side_total(kernel, kernel->rhs, ECH_KERNEL_SIDE_RHS, &shape.rhs_hbm, &shape.rhs_moved);
    if (sums_rows(c, &kernel->windows) && model->view == ECH_KERNEL_COMPILER)
        shape.lhs_hbm = shape.rhs_hbm = true;
    /* Further operands are fetched with the result's blocks. */
    for (size_t i = 0; i < kernel->n_operands; i++)
        if (!is_fetched_with(kernel, i, kernel->lhs, ECH_KERNEL_SIDE_LHS) && !is_fetched_with(kernel, i, kernel->rhs, ECH_KERNEL_SIDE_RHS) &&
            kernel->operands[i].rank > 0 && !on_chip(&kernel->operands[i])) {
            shape.extra_bytes += operand_bytes(kernel, i);
            shape.extra_moved += is_product(c, &kernel->operands[i]) ? ech_layout_element_bits(&kernel->operands[i]) / 8.0 : 0;
        }
    for (size_t i = 0; i < kernel->n_results; i++) {
        if (i == own || kernel->results[i].rank == 0 || at_hand(model, &kernel->results[i]))
            continue;
        shape.extra_bytes += result_bytes(kernel, i);
        shape.extra_moved += is_product(c, &kernel->results[i]) ? ech_layout_element_bits(&kernel->results[i]) / 8.0 : 0;
        shape.more_hbm = true;
    }
    shape.out_registers = result_elements(kernel, own) / REGISTER;
    shape.out_held = in_part(model, result) ? REGISTER / (double)MAX(tile_elements(result), 1u) : 1;
    shape.summed = shape.out_registers * REGISTER * 2 < (double)c->batch * (double)c->m * (double)c->n;
    shape.reduced = shape.summed || (shape.out_bits >= 32 && is_partial(result));
    return shape;
}

/* Passes of a large unit over the rows of a convolution whose channels out lie on lanes, its weights as they come. Whole lanes of channels take a pass a
 * position; else three positions share one, and of narrow channels the window's rows two by two, what is left over riding along. Two columns of 128 channels
 * out share a pass too (libtpu 0.0.51, v6e: 8 to 512 channels by 64 to 512 by windows of 1 x 2 to 7 x 7, 152 shapes exact but for two). */
static double window_passes(const EchKernelContraction *c, double n, double side)
{
    double taps = (double)c->taps, across = (double)MAX(c->across, 1u);
    double together = c->k % 128 == 0 ? 1 : c->k >= 64 ? MIN(3, taps) : across * MIN(2, taps / across);
    return ceil(together * (double)c->k / side) * ceil(MAX(floor(taps / together), 1) * ceil(n / 128) * 128 / side);
}

/* Whether a convolution's positions share passes as above. */
static bool shares_passes(const EchKernelContraction *c, double side)
{
    return side > 128 && c->convolution && c->taps > 1 && c->positions == 0 && c->dilated <= 1 && !c->one_tap && !c->apart && !(c->few && c->k < 128) &&
           !c->depthwise && !c->depthwise_gradient;
}

/* Whether a convolution's window meets holes of a dilated input, priced position by position. */
static bool meets_holes(const EchKernelContraction *c)
{
    return c->dilated > 1 && c->images > 0 && c->positions == 0 && !c->one_tap && !(c->few && c->k < 128);
}

/* Whether a product sums up over positions and lanes both, as the gradient of what mixes a few streams of a model does (libtpu 0.0.52: 40 of 2 to 64 rows by 4
 * to 32 columns over 512 positions on v6e, 12 % mean; before 3.5 times as long). */
static bool sums_positions(const EchKernelContraction *c)
{
    return c->convolution && c->taps > 1 && c->apart && c->positions == 0 && c->together == 0 && c->m == c->images && c->n < 128;
}

/* Whether the vector unit does a product, and so what is fused around it after or before, not beside it. */
static bool on_vector_unit(const EchKernelContraction *c)
{
    return c->depthwise || c->depthwise_gradient;
}

static double unit_depth(const EchKernelShape *s);

/* The same where every position takes its pixels in anew. Where they lie with images on lanes and the result, too, the channels out pass them: lanes of two
 * positions share a large unit, and a window's positions the rows of one, but where the weights have the channels in on lanes, which are taken in position by
 * position (libtpu 0.0.52: 40 convolutions of 1 to 128 channels, windows of 3 x 3 to 7 x 7, v5e and v6e). Else at least half a unit's lanes pass. */
static double position_cycles(const EchKernelShape *s, double m, double n, double k)
{
    const EchKernelContraction *c = s->c;
    double channels = m / (double)c->positions, side = s->unit_size, share = s->side / side;
    if (!c->out_transposed) {
        double passing = MAX(channels, HALF_LANES), taken = CLAMP(MIN((double)c->n, k), HALF_LANES, 128);
        return (double)c->positions * ceil(n / s->side) * ceil(k / s->side) * share * share * MAX(passing * side * side / s->rate, s->load * taken);
    }
    double deep = c->apart ? (double)c->k : k, taken = (double)up((uint64_t)MIN(deep, 128), 8);
    double met = c->apart ? (double)c->window / (double)c->dilated / (double)c->taps : 1; /* but for positions that meet holes of a dilated input */
    double load = s->load * (c->batch > 1 ? s->load_transposed : 1);                      /* pixels of groups are turned */
    return (double)c->positions * ceil(channels / 128) * 128 / side * (k / deep) * met * ceil(deep / s->side) * share *
           MAX(MAX(n, 8) * side * side / s->rate, load * taken);
}

/* The gradient of a depthwise filter by a step: @pixels times registers of the images that are added up, @positions of the filter, registers of @channels. The
 * vector unit meets every register for every position, more slowly where one column of 128 channels is all there is. Where images lie on lanes the compiler
 * counts one register of the input for each position, however many channels there are, all of the result's gradient, and the sums so far once (libtpu 0.0.52:
 * 139 such on v5e, v5p, v6e and tpu7x, 1.7 % mean, 96 others 4 %; what is computed before the product takes its time besides). */
static double filter_cycles(const EchKernelShape *s, double pixels, double positions, double channels)
{
    if (!s->c->apart || !(s->gradient_position > 0))
        return pixels * positions * channels * (channels > 1 ? s->depthwise_gradient : s->gradient_column);
    return floor(pixels * (s->gradient_position * positions + s->gradient_pixel * channels) + s->gradient_position * positions);
}

/* Cycles of the units for a block of @m by @n by @k. One side of the product is taken in as tiles of a unit's size and the rows of the other pass it: a tile
 * costs its rows, all of its columns, or the taking in of its own rows where that is more. Units of two tiles side by side take in all of their rows at
 * once. Which side passes follows from the result's layout. Exact for products of 8 to 1024 rows, columns and depth, batched and not, with everything on
 * chip (libtpu 0.0.51: 84 shapes on v5e, v6e and tpu7x each). */
static double unit_cycles(const EchKernelShape *s, double m, double n, double k)
{
    const EchKernelContraction *c = s->c;
    if (c->depthwise)
        return DEPTHWISE * m * ceil(n / 128) * 128 / REGISTER * (double)c->taps / (double)s->cores;
    if (c->depthwise_gradient) { /* one of a batch of columns of 128 channels */
        double images = (double)c->k, pixels = k / images, columns = (double)c->batch, positions = (double)c->m;
        double cycles = c->apart ? filter_cycles(s, pixels * ceil(images / 128), positions, ceil(n / 8))
                                 : filter_cycles(s, pixels * images / 8, positions, columns) / columns;
        return cycles / (double)s->cores;
    }
    if (c->positions > 0)
        return position_cycles(s, m, n, k);
    double side = s->unit_size, rows = c->out_transposed ? n : m, columns = c->out_transposed ? m : n;
    if (c->images_on_lanes) {
        /* Every position takes its pixels in anew, and the channels out pass them; lanes of two positions share a large unit (libtpu 0.0.52: matrices of FFTs
         * of 8 to 64 rows, v5e and v6e). */
        double images = (double)c->images, passing = (double)up((uint64_t)MIN(n, (double)c->n), 8), taken = (double)up((uint64_t)MIN((double)c->k, 128), 8);
        return m / images * ceil(images / 128) * 128 / side * ceil(k / s->side) * (s->side / side) *
               MAX(passing * side * side / s->rate, s->load * taken * c->passes);
    }
    if (shares_passes(c, side))
        return window_passes(c, n, side) * k / unit_depth(s) * MAX(rows * side * side / s->rate, s->load * 128);
    if (meets_holes(c)) {
        /* Every position of the result meets its own part of the window: the weights are taken in anew, as they lie (v4: as slowly as turned ones), tiles of
         * 128 lanes by the rows of a unit's side, and only the images pass them (libtpu 0.0.52: 40 shapes, windows of 2 to 16 by strides of 2 to 8, 8 to 64
         * images, 32 to 1024 channels in, 3 to 512 out, v3 to tpu7x). */
        double positions = rows / (double)MAX(c->images, 1u), window = (double)c->window / (double)c->dilated;
        double out = MIN(columns, (double)c->n), lanes = c->apart ? (double)c->k : out, deep = c->apart ? out : (double)c->k;
        double tiles = window * ceil(lanes / 128) * 128 / side * ceil(deep / side), taken = (double)up((uint64_t)MIN(deep, 128), 8);
        return positions * tiles * k / unit_depth(s) * MAX(s->images * side * side / s->rate, s->load * s->load_transposed * taken);
    }
    if (c->rows_on_lanes && !c->out_transposed)
        rows = MAX(rows, HALF_LANES);
    if (c->together > 0)
        rows = MIN(rows, (double)c->m) / (double)c->together * (double)up(c->together, 8);
    /* No more rows are taken in than there are (libtpu 0.0.52: batches of products of 8 to 64). */
    bool turned = (c->rhs_transposed && !c->out_transposed) || c->together > 0;
    double rows_of_rhs = turned ? MIN(columns, (double)c->n) : c->taps > 1 ? k : MIN(k, (double)c->k);
    double taken = MIN(rows_of_rhs, 128), load = s->load * (c->rhs_transposed || c->together > 0 ? s->load_transposed : 1);
    double deep = ceil(k / s->side), tiles = ceil(columns / s->side) * deep * pow(s->side / side, 2), pass = rows * side * side / s->rate;
    if (sums_positions(c)) /* of few rows and columns each: they are taken in as they lie, and the rows pass when that is done */
        return tiles * (pass + load * (double)up((uint64_t)MIN(columns, (double)c->n), 8) * c->passes);
    return tiles * MAX(pass, load * (double)up((uint64_t)taken, 8) * c->passes);
}

/* Whether a step waits for its result to be stored: the compiler lets it wait for the narrowing of one on chip too, for sums that fill their registers in
 * part, and for further results. */
static bool stores(const EchKernelModel *model, const EchKernelShape *s)
{
    return s->out_hbm || (model->view == ECH_KERNEL_COMPILER && model->narrow_on_chip > 0 && (s->out_bits < 32 || s->reduced || s->more_hbm));
}

/* Latency of what a step waits for: blocks of the operands in HBM, and the result's. */
static double latency_of(const EchKernelModel *model, const EchKernelShape *s, bool lhs, bool rhs, bool store)
{
    int fetches = (lhs && s->lhs_hbm) + (rhs && s->rhs_hbm);
    double latency = (model->matrix_step - model->matrix_store) * (model->fetch_once ? MIN(fetches, 1) : fetches);
    return store && stores(model, s) ? latency + model->matrix_store * (s->out_hbm ? 1 : model->narrow_on_chip) : latency;
}

/* Of @fetched cycles of HBM traffic, those beyond each operand once. */
static double again_cycles(const EchKernelModel *model, const EchKernelShape *s, double fetched)
{
    return MAX(0, fetched - ((s->lhs_hbm ? s->lhs_total : 0) + (s->rhs_hbm ? s->rhs_total : 0)) / model->hbm);
}

/* Rows of a small unit that a result's element passes: whole lanes of channels a tap. Narrow channels of several taps share a pass, as a unit's side holds
 * them: those along the window's last dimension, and where they do not fill a quarter of the lanes all of them. Rounded to whole passes, not up (libtpu
 * 0.0.51: 8 to 192 channels by 4 to 49 taps on v5e). */
static double packed_passes(const EchKernelContraction *c, double side)
{
    double taps = (double)c->taps, across = (double)MAX(c->across, 1u);
    return c->k < 64 ? rint(taps * (double)c->k / side) : taps / across * MAX(rint(across * (double)c->k / side), 1);
}

static double contraction_depth(const EchKernelContraction *c, double side)
{
    if (c->positions > 0 || c->depthwise_gradient)
        return (double)c->k * (double)c->taps;
    if (c->one_tap || c->taps <= 1)
        return (double)up(c->k, 128) * (double)c->taps;
    double window = c->dilated > 1 ? (double)c->window / (double)c->dilated : (double)c->taps; /* positions that meet holes are left out */
    if (c->few && c->k < 128)
        return 128 * ceil(window / (double)MIN(128 / c->k, 4u));
    if (c->dilated > 1)
        return ceil((double)c->k / side) * window * side;
    if (c->k >= 128 || c->apart)
        return (double)up(c->k, 128) * (double)c->taps;
    return MAX(packed_passes(c, side), 1) * side;
}

/* The same as the units take it: positions one a pass fill a unit each. */
static double unit_depth(const EchKernelShape *s)
{
    return s->c->one_tap ? (double)up(s->c->k, (uint64_t)s->side) * (double)s->c->taps : contraction_depth(s->c, s->unit_size);
}

double ech_kernel_contraction_macs(const EchKernelContraction *c)
{
    return (double)c->batch * (double)up(c->m, 8) * (double)up(c->n, 128) * contraction_depth(c, 128);
}

/* The steps one after the other: the next blocks are fetched, and a finished one stored, under the work of a step; the first fetch, and the work and the store
 * of the last step, stand alone. Every block counts as a whole one. Exact on v5e (libtpu 0.0.51: 137 products of its table, 0.1 % mean). */
static void sum_walk(const EchKernelModel *model, const EchKernelShape *s, const EchKernelWalk *w, EchKernelSums *sums)
{
    double columns = w->columns, rows = w->rows, depth = w->depth, tiles = columns * rows, steps = tiles * depth;
    double compute = w->compute;
    if (!on_vector_unit(s->c) && (s->lhs_hbm || s->rhs_hbm || s->out_hbm || model->view == ECH_KERNEL_COMPILER))
        compute += model->matrix_overhead * (1 + s->c->others);
    /* The vector unit does both, or the chip's compiler lets nothing run beside the units. */
    compute = on_vector_unit(s->c) || model->serial_work > 0 ? compute + w->beside : MAX(compute, w->beside);
    bool split = depth > 1;
    double fill = latency_of(model, s, true, true, false) + w->lhs + w->rhs;
    double waits = (model->matrix_step - model->matrix_store) * (model->fetch_once ? 1 : 2) + model->matrix_store;
    double once = (s->out_hbm ? MAX(0, model->start - waits) : 0) + s->wait;
    bool column = s->out_hbm || model->narrow_last; /* whether a column's last block waits for its store */
    double store = column ? w->store : 0;
    *sums = (EchKernelSums){.total = fill + once + (s->eight ? model->int8_start : 0), .macs = w->macs};
    /* Along k both operands change, along a column's rows the lhs, from column to column the rhs, from turn to turn both; one of one block only stays. */
    double turns = MAX(w->turns, 1);
    bool lhs_turns = rows > 1 || split;
    if (split)
        add_steps(sums, model, tiles * (depth - 1), compute, latency_of(model, s, true, true, false), w->lhs + w->rhs);
    add_steps(sums, model, columns * (rows - 1), compute, latency_of(model, s, true, split, true), w->lhs + (split ? w->rhs : 0) + w->store);
    add_steps(sums, model, columns - turns, compute, latency_of(model, s, lhs_turns, true, column), (lhs_turns ? w->lhs : 0) + w->rhs + store);
    /* Of a batch that takes whole products a step each waits for the narrowing of the one before (libtpu 0.0.52: 48 and 64 rows on v6e, exact). */
    bool waits_on = column || steps <= turns;
    add_steps(sums, model, turns - 1, compute, latency_of(model, s, true, true, waits_on), w->lhs + w->rhs + (waits_on ? w->store : 0));
    double last = latency_of(model, s, false, false, column);
    sums->total += compute + last + store;
    sums->compute += compute;
    sums->busy_compute += compute;
    sums->busy_hbm += w->lhs + w->rhs + store;
    sums->step_overhead = steps * (compute - w->compute);
    double lhs = w->lhs * (steps - (lhs_turns ? 0 : columns - turns)), rhs = w->rhs * (split ? steps : columns);
    sums->again = again_cycles(model, s, (s->lhs_hbm ? lhs : 0) + (s->rhs_hbm ? rhs : 0));
    sums->in_vmem = (s->lhs_hbm ? 0 : lhs) + (s->rhs_hbm ? 0 : rhs) + (s->out_hbm ? 0 : w->store * tiles);
}

/* Cycles of moving bytes of an operand: in HBM, or on chip, which the compiler does not count. */
static double move_cycles(const EchKernelModel *model, bool hbm, double bytes)
{
    return hbm ? bytes / model->hbm : model->view == ECH_KERNEL_COMPILER ? 0 : bytes / model->vmem;
}

/* Cycles of moving a block of @registers of the result, and its share of further arrays. A result in TPU v4's common memory costs the compiler as many
 * 32-bit registers more (libtpu 0.0.51: 18.0 and 13.5 cycles a register of 32 and 16 bits). */
static double store_cycles(const EchKernelModel *model, const EchKernelShape *s, double registers, double held, double tiles)
{
    double plain = registers * REGISTER * s->out_bits / 8, bytes = store_bytes(model, registers, s->out_bits), extra = s->extra_bytes / tiles;
    if (s->out_common)
        bytes = plain + registers * REGISTER * 4;
    if (held > registers && s->out_bits < 32)
        bytes = plain + held * REGISTER * 4 * model->narrow_store;
    if (s->reduced && model->view == ECH_KERNEL_COMPILER) { /* as a 32-bit result of the product's size */
        plain = 0;
        bytes = registers * REGISTER * 4;
    }
    if (s->out_hbm)
        return (bytes + extra) / model->hbm;
    bool waits = stores(model, s);
    if (model->view == ECH_KERNEL_COMPILER)
        return waits ? (bytes - plain + extra) / model->hbm : 0;
    return (bytes - plain + extra) / model->hbm + move_cycles(model, false, plain);
}

/* Steps shared by the cores that work as one device, along an axis that they divide evenly if there is one; each has its share of the rates. */
static void share_steps(const EchKernelModel *model, EchKernelWalk *w)
{
    double cores = model->cores, *axes[] = {&w->rows, &w->columns, &w->depth}, *axis = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(axes) && axis == NULL; i++)
        axis = fmod(*axes[i], cores) > 0 ? NULL : axes[i];
    for (size_t i = 0; i < G_N_ELEMENTS(axes) && axis == NULL; i++)
        axis = *axes[i] >= cores || i + 1 == G_N_ELEMENTS(axes) ? axes[i] : NULL;
    cores = MIN(cores, *axis);
    *axis = ceil(*axis / cores);
    w->turns = axis == &w->columns ? MAX(floor(w->turns / cores), 1) : w->turns;
    w->compute *= cores;
    w->lhs *= cores;
    w->rhs *= cores;
    w->store *= cores;
}

/* Steps that add to the same result: along k, and along the positions of a window. */
uint64_t ech_kernel_depth_steps(const EchKernelContraction *c, const EchKernelBlocks *blocks)
{
    return ech_div_up(c->k, MAX(blocks->bk, 1u)) * (blocks->taps > 0 ? ech_div_up(c->taps, blocks->taps) : 1);
}

double ech_kernel_product_cycles(const EchKernelModel *model, const EchKernelShape *s, const EchKernelBlocks *blocks, EchKernelSums *ret)
{
    const EchKernelContraction *c = s->c;
    uint64_t together = MAX(blocks->batch, 1u), turns = ech_div_up(c->batch, together), taps = blocks->taps > 0 ? blocks->taps : c->taps;
    double rows = (double)ech_div_up(c->m, MAX(blocks->bm, 1u)), columns = (double)ech_div_up(c->n, MAX(blocks->bn, 1u)),
           depth = (double)ech_kernel_depth_steps(c, blocks);
    double bm = (double)up(MIN(blocks->bm, c->m), s->m_granule), bn = (double)up(MIN(blocks->bn, c->n), s->n_granule), bk = (double)MIN(blocks->bk, c->k);
    if (model->view == ECH_KERNEL_HARDWARE) { /* the last block of an axis is as short as it is */
        bm = (double)up(c->m, s->m_granule) / rows;
        bn = (double)up(c->n, s->n_granule) / columns;
        bk = (double)c->k / (double)ech_div_up(c->k, MAX(blocks->bk, 1u));
    }
    EchKernelWalk walk = {.columns = columns * (double)turns, .rows = rows, .depth = depth, .turns = (double)turns};
    double deep = c->taps > 1 ? unit_depth(s) / depth : bk, k_lanes = ceil(bk / 128) * 128, k_rows = ceil(bk / 8) * 8, many = (double)together;
    walk.compute = many * unit_cycles(s, bm, bn, deep) + (c->other_macs / s->rate + s->between) / (walk.columns * rows * depth);
    walk.beside = (s->beside + s->beside_lhs * columns + s->beside_rhs * rows) / (walk.columns * rows * depth);
    if (depth > 1)
        walk.compute += model->accumulate * many * bm * bn / REGISTER;
    double halo = c->input_pixels > 0 && c->convolution ? s->lhs_total / rows / depth : 0;
    walk.lhs = move_cycles(model, s->lhs_hbm, c->convolution ? halo : many * bm * (c->lhs_transposed ? k_rows : k_lanes) * s->lhs_moved);
    walk.rhs = move_cycles(model, s->rhs_hbm, many * bn * (c->rhs_transposed ? k_lanes : k_rows) * (double)taps * s->rhs_moved);
    /* Of a convolution what lies on lanes may be its images: it stores what there is. */
    double tiles = walk.columns * rows, block = many * bm * (double)up((uint64_t)ceil(bn), s->n_granule) / REGISTER;
    double stored = c->convolution && !s->summed ? MIN(block, s->out_registers / tiles) : block;
    walk.store = store_cycles(model, s, stored, c->convolution ? stored * s->out_held : stored, tiles);
    walk.macs = (double)c->batch * bm * rows * bn * columns * contraction_depth(c, 128) + c->other_macs;
    share_steps(model, &walk);
    EchKernelSums sums;
    sum_walk(model, s, &walk, &sums);
    if (ret != NULL)
        *ret = sums;
    return sums.total;
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
        if (*block[i] == 0 || ech_div_up(extent[i], *block[i]) != n)
            *block[i] = ech_div_up(extent[i], n);
    }
    return true;
}

/* Of a ragged product's blocks the chip runs those that have rows of their group. */
static void skip_blocks(const EchKernelModel *model, const EchKernelContraction *c, const EchKernelWindows *w, EchKernelWalk *walk)
{
    if (c->groups == 0 || model->view == ECH_KERNEL_COMPILER || c->group_axis >= w->n_iterations || c->row_axis >= w->n_iterations)
        return;
    double groups = MAX(w->iterations[c->group_axis], 1u), blocks = MAX(w->iterations[c->row_axis], 1u);
    double *axis = sums_rows(c, w) ? &walk->depth : &walk->rows;
    double run = MIN(*axis, (blocks + groups - 1) / groups);
    walk->macs *= run / *axis;
    *axis = run;
}

/* A walk from the windows of a batch or a convolution: iterations [n, batch, pixels..., taps..., k]. Those along taps and k add to the same result, as those
 * along the pixels of a filter's gradient do. */
static EchKernelWalk walk_of_windows(const EchKernelModel *model, const EchKernelShape *s, const EchKernelWindows *w)
{
    const EchKernelContraction *c = s->c;
    unsigned last = MIN(c->convolution && w->n_iterations >= 3 ? (w->n_iterations + 1u) / 2 : w->n_iterations - 1u, w->n_iterations - 1u);
    double steps = iterations(w), outer = MAX(w->iterations[0], 1u), inner = 1;
    for (unsigned i = MAX(last, 1u); i < w->n_iterations; i++)
        inner = MIN(inner * MAX(w->iterations[i], 1u), 1e18);
    double turns = 1, columns = outer;
    if (c->batch > 1 && !c->convolution && w->n_iterations >= 5) { /* [batch.., n, m, ones.., k] */
        unsigned batched = (w->n_iterations - 3u) / 2;
        for (unsigned i = 0; i < batched; i++)
            turns *= MAX(w->iterations[i], 1u);
        outer = MAX(w->iterations[batched], 1u);
        columns = turns * outer;
        inner = MAX(steps / columns / MAX(w->iterations[batched + 1], 1u), 1);
    } else if (c->batch > 1) {
        turns = outer;
    }
    double middle = MAX(steps / columns / inner, 1);
    EchKernelWalk walk = {.columns = columns, .rows = middle, .depth = inner, .turns = turns};
    double tiles = columns * middle;
    walk.macs = (double)c->batch * (double)up(c->m, s->m_granule) * (double)up(c->n, s->n_granule) * contraction_depth(c, 128) + c->other_macs;
    double units = (double)c->batch * unit_cycles(s, (double)up(c->m, s->m_granule), (double)up(c->n, s->n_granule), unit_depth(s));
    if (c->depthwise_gradient && w->n_kernel >= 2 && w->n_output == w->n_kernel) { /* windows of [pixels.., rows, lanes] */
        unsigned rest = w->n_kernel - 2u;
        double pixels = window_elements(w->kernel, rest) / REGISTER, rows = MAX(w->kernel[rest], 1u), lanes = MAX(w->kernel[rest + 1], 1u);
        double positions = window_elements(w->output, rest) / REGISTER;
        units = steps / (double)s->cores * filter_cycles(s, pixels * (c->apart ? lanes : rows), positions, c->apart ? rows : lanes);
    }
    walk.compute = (units + c->other_macs / s->rate + s->between) / steps;
    bool again = c->batch == 1 && c->positions == 0 && !c->depthwise_gradient;
    walk.beside = (s->beside + s->beside_lhs * (again ? outer : 1) + s->beside_rhs * (again ? middle : 1)) / steps;
    if (c->depthwise) /* every register of a window is loaded, and of a result stored, besides */
        walk.compute += model->touch * (s->out_registers / steps + window_elements(w->input, w->n_input) / REGISTER);
    /* Halos are fetched again with every window; a partial last block is not fetched whole. */
    double lhs_parts = c->groups > 0 ? middle * inner : turns * middle * inner, rhs_parts = sums_rows(c, w) ? inner : columns * inner;
    double most = c->depthwise_gradient ? (middle * inner > 1 ? INFINITY : s->lhs_total / columns) : s->lhs_total * 2 / lhs_parts;
    double lhs = MIN(window_elements(w->input, w->n_input) * s->lhs_moved, most);
    double rhs = MIN(window_elements(w->kernel, w->n_kernel) * s->rhs_moved, s->rhs_total * (sums_rows(c, w) ? 2 : 1) / rhs_parts);
    walk.lhs = move_cycles(model, s->lhs_hbm, lhs);
    walk.rhs = move_cycles(model, s->rhs_hbm, rhs);
    double product = (double)c->batch * (double)up(c->m, s->m_granule) * (double)up(c->n, s->n_granule) / REGISTER;
    double stored = (s->summed ? product : s->out_registers) / tiles;
    walk.store = store_cycles(model, s, stored, s->summed ? stored : stored * s->out_held, tiles);
    skip_blocks(model, c, w, &walk);
    share_steps(model, &walk);
    return walk;
}

static double work_cycles(const EchKernelModel *model, const EchKernelWork *w)
{
    return model->simple * (w->simple + w->narrow) + model->transcendental * w->transcendental + model->divide * w->divide + model->reduce * w->reduce +
           model->touch_beside * w->touched + model->gather_rows * w->turned + LANE_SPREAD * w->spread + w->rows;
}

/* Cycles of taking a product out of the units, before anything is done with it: a register of every pass, whole columns of the unit (libtpu 0.0.51, v6e: 64 to
 * 512 columns and depth, windows of 1 x 1 to 5 x 5). */
static double pop_cycles(const EchKernelModel *model, const EchKernelShape *s)
{
    const EchKernelContraction *c = s->c;
    if (on_vector_unit(c))
        return 0;
    if (!(model->pop > 0))
        return model->touch_beside * s->out_registers;
    if (c->positions > 0) /* what counts there is turning the pixels to the lanes, for every position anew */
        return model->turn * (double)c->batch * (double)(c->out_transposed ? c->n * c->positions : c->m) * (double)c->k * (double)c->taps / REGISTER;
    if (c->images_on_lanes)
        return model->pop * s->out_registers;
    double side = s->unit_size, rows = (double)up(c->out_transposed ? c->n : c->m, 8), columns = ceil((double)(c->out_transposed ? c->m : c->n) / side);
    double registers = (double)c->batch * rows * side / REGISTER, passes = ceil(unit_depth(s) / side);
    if (shares_passes(c, side))
        return registers * model->pop_window * window_passes(c, (double)c->n, side);
    return registers * columns * (c->images_on_rows ? model->pop_window * passes : model->pop + model->pop_again * (passes - 1));
}

/* The arithmetic around a product that the compiler lets run beside the units: what the sides are computed by is done anew for every block that meets them. */
static void add_work(const EchKernelModel *model, const EchKernel *kernel, EchKernelShape *shape)
{
    const EchKernelContraction *c = &kernel->contraction;
    const EchKernelWindows *w = &kernel->windows;
    double halo = 1, stored = 0;
    if (c->convolution && c->taps > 1 && w->n_input > 0) {
        double lhs = ech_kernel_padded(&kernel->operands[kernel->lhs]);
        halo = lhs > 0 ? CLAMP(window_elements(w->input, w->n_input) * iterations(w) / MAX(w->iterations[0], 1u) / lhs, 1, 4) : 1;
    }
    for (size_t i = 0; i < kernel->n_results && !on_vector_unit(c); i++) /* there stores count among its own work */
        stored += kernel->results[i].rank > 0 ? result_elements(kernel, i) / REGISTER : 0;
    double behind = work_cycles(model, &c->behind), before = work_cycles(model, &c->before[0]) + work_cycles(model, &c->before[1]);
    /* What is only narrowed leaves the units on the way. */
    bool plain = model->serial_work > 0 && !(behind - model->simple * c->behind.narrow + before > 0);
    shape->beside += plain ? 0 : behind + model->touch_beside * stored + pop_cycles(model, shape);
    double met = c->convolution ? c->met : 1; /* a stride leaves pixels out; the part of a halo that is padding costs nothing */
    shape->beside_lhs = work_cycles(model, &c->before[0]) * met * (1 + halo) / 2;
    shape->beside_rhs = work_cycles(model, &c->before[1]);
}

static void price_contraction(const EchKernelModel *model, const EchKernel *kernel, bool own_tiles, EchKernelCost *ret)
{
    EchKernelShape shape = shape_of(model, kernel);
    EchKernelTraffic traffic = traffic_of(model, kernel, ret);
    EchKernelSums sums;
    EchKernelBlocks blocks = {0};
    double around = body_cycles(model, kernel, shape.out_registers);
    if (kernel->contraction.others == 0 && kernel->body.rows_first > 0 && (model->epilogue == 0 || model->view == ECH_KERNEL_HARDWARE)) {
        /* A softmax behind a product: its maximum needs whole rows, so exponentials and sums are a pass after the units. Exact for what has everything on chip
         * (libtpu 0.0.51: 17 kernels of attention on v5e, v5p, v6e, tpu7x). */
        const EchKernelContraction *c = &kernel->contraction;
        double registers = (double)c->batch * (double)up(c->m, 8) * (double)up(c->n, 128) / REGISTER;
        double pass = registers * (model->reduce * kernel->body.reduce + model->transcendental * kernel->body.transcendental);
        shape.between += pass / model->cores;
        around = MAX(around - pass, 0);
        shape.wait = MAX(model->step - QUIET_STEP, 0);
    }
    if (model->epilogue == 0) { /* the compiler hides it under the units, but for what lies between two products, and counts loads and stores with it */
        double registers = traffic.widest / REGISTER;
        double moves = model->serial_work > 0 ? 0 : registers * model->touch * (MAX(kernel->body.loads, 1u) + 1);
        double body = body_cycles(model, kernel, registers) + moves;
        if (kernel->contraction.half_registers > 0 && model->halves > 0)
            shape.between = model->halves * kernel->contraction.half_registers + HALVES_START;
        if (kernel->contraction.others > 0)
            shape.between += body / model->cores;
        else if (kernel->contraction.surveyed && kernel->body.rows_first == 0 &&
                 (model->pop > 0 || model->serial_work > 0 || on_vector_unit(&kernel->contraction)))
            add_work(model, kernel, &shape);
        else
            shape.beside += body;
    }
    bool known = (!own_tiles || kernel->contraction.groups > 0) && kernel->windows.n_iterations >= 2;
    shape.images = (double)kernel->contraction.images;
    if (known && kernel->contraction.convolution && kernel->windows.n_iterations >= 5) /* a block may hold part of them */
        shape.images = ceil(shape.images / MAX(kernel->windows.iterations[1], 1u));
    if (known && blocks_of_windows(&kernel->windows, &kernel->contraction, &blocks)) {
        blocks.buffers = kernel->windows.buffers;
        ret->vmem = ech_kernel_product_vmem(&shape, &blocks);
        ech_kernel_product_cycles(model, &shape, &blocks, &sums);
    } else if (known) {
        EchKernelWalk walk = walk_of_windows(model, &shape, &kernel->windows);
        sum_walk(model, &shape, &walk, &sums);
        blocks.buffers = kernel->windows.buffers;
        ret->vmem = ech_kernel_windows_vmem(&shape, &kernel->windows);
    } else {
        ech_kernel_choose_product(model, &shape, &blocks);
        ret->chosen = true;
        ret->vmem = ech_kernel_product_vmem(&shape, &blocks);
        ech_kernel_product_cycles(model, &shape, &blocks, &sums);
    }
    const EchKernelContraction *c = &kernel->contraction;
    blocks.steps = blocks.bm == 0 ? (uint64_t)iterations(&kernel->windows)
                                  : ech_div_up(c->batch, MAX(blocks.batch, 1u)) * ech_div_up(c->m, blocks.bm) * ech_div_up(c->n, blocks.bn) *
                                        ech_kernel_depth_steps(c, &blocks);
    ret->blocks = blocks;
    ret->macs = sums.macs;
    /* Arithmetic fused behind the product works on the result's registers, one window of it exposed. */
    double tiles = MAX(1, (double)blocks.steps);
    double tail = model->epilogue * around / tiles;
    sums.total += tail;
    sums.compute += tail;
    sums.busy_compute += tail * tiles;
    finish(model, &sums, ret);
}

/* -- copies and gathers ---------------------------------------------------- */

/* What the compiler counts for a copy that turns lanes to rows: a window in, turned, and out, one after the other, in 32 bits whatever the type and whole
 * registers whatever the tiles (libtpu 0.0.51, 40 copies on v5e, v6e and tpu7x: exact). Where two cores work as one device, each does half of it with its
 * share of the bandwidth, which the windows tell of (27 on v5p: exact). */
static double turned_cycles(const EchKernelModel *model, const EchKernel *kernel, double steps, bool own_tiles)
{
    const EchKernelWindows *w = &kernel->windows;
    bool known = !own_tiles && w->n_input > 0 && w->n_output > 0;
    const uint32_t *windows[2] = {w->input, w->output};
    unsigned ranks[2] = {w->n_input, w->n_output};
    double cycles = TURN_WINDOW;
    for (unsigned i = 0; i < 2; i++) {
        const EchLayout *layout = i == 0 ? &kernel->operands[0] : &kernel->results[0];
        double window = known ? window_elements(windows[i], ranks[i]) : moved_elements(layout, NULL) / model->cores / steps;
        if (!at_hand(model, layout))
            cycles += model->step - QUIET_STEP + window * 4 * model->cores / model->hbm;
    }
    return steps * cycles;
}

static void price_copy(const EchKernelModel *model, const EchKernel *kernel, bool own_tiles, EchKernelCost *ret)
{
    EchKernelTraffic traffic = traffic_of(model, kernel, ret);
    EchKernelSums sums = {0};
    bool same_lanes = kernel->n_results == 1 && kernel->n_operands >= 1 && kernel->results[0].rank == kernel->operands[0].rank &&
                      (kernel->results[0].rank == 0 || kernel->results[0].order[0] == kernel->operands[0].order[0]);
    bool compiler = model->view == ECH_KERNEL_COMPILER, from_hbm = ret->hbm_read > 0, hbm = from_hbm || ret->hbm_written > 0;
    bool packed = (kernel->n_operands > 0 && is_packed(&kernel->operands[0])) || (kernel->n_results > 0 && is_packed(&kernel->results[0]));
    bool turned = compiler && hbm && !same_lanes && !packed && kernel->n_operands > 0 && kernel->n_results > 0;
    double registers = traffic.widest / REGISTER, own = ceil(traffic.elements / REGISTER / 1024);
    if (turned)
        own = ceil((moved_elements(&kernel->operands[0], NULL) + moved_elements(&kernel->results[0], NULL)) / model->cores / REGISTER / TURNED_REGISTERS);
    double steps = kernel->windows.n_iterations > 0 && !own_tiles ? iterations(&kernel->windows) : MAX(1, own);
    double serial = MAX(1, ceil(steps / model->cores));
    double narrowed = same_lanes ? traffic.narrowed / model->hbm : 0;
    double stored = from_hbm || same_lanes ? traffic.stored : (double)ret->hbm_written;
    double moved = ((double)ret->hbm_read + stored) / model->hbm + (double)(ret->vmem_read + ret->vmem_written) / model->vmem + narrowed;
    /* A register whose lanes become rows goes through the cross-lane unit; the compiler counts that only behind a fetch. */
    double relayout = same_lanes ? 0 : registers * (from_hbm || !compiler ? model->relayout : MIN(model->relayout, 0.5));
    if (compiler && hbm && same_lanes) /* loads and stores of the last window, and its pass */
        relayout = registers / steps * (2 * model->touch + (traffic.stored + traffic.narrowed > (double)ret->hbm_written ? model->simple : 0));
    double latency = hbm || narrowed > 0 || (compiler && same_lanes && traffic.partial) ? serial * model->step : 0;
    if (compiler && !hbm && !same_lanes) { /* its price of a relayout on chip: a constant for every window */
        moved = 0;
        latency = kernel->n_operands > 0 && is_packed(&kernel->operands[0]) ? serial * model->step : 0;
        relayout = latency > 0 ? UNPACK * registers : TURN_WINDOW * steps;
    }
    if (compiler && !hbm && same_lanes) { /* registers on chip: stored anew, or their rows gathered from others */
        bool same_rows = kernel->results[0].rank < 2 || kernel->results[0].order[1] == kernel->operands[0].order[1];
        relayout = registers * (same_rows ? model->touch : model->gather_rows);
        if (in_part(model, &kernel->operands[0]))
            relayout = held_elements(model, &kernel->results[0], NULL) / REGISTER * 2 * model->touch;
        moved = narrowed;
        latency = latency > 0 ? latency : QUIET_STEP * serial;
    }
    sums.total = (hbm || latency > 0 ? model->fixed : 0) + latency + moved + relayout;
    if (turned) {
        sums.total = model->fixed + turned_cycles(model, kernel, steps, own_tiles);
        latency = MAX(0, sums.total - moved);
        relayout = 0;
    }
    sums.compute = relayout;
    sums.latency = latency;
    sums.hbm = MIN(moved, sums.total);
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
    EchBytes rows = 0;
    (void)traffic_of(model, kernel, ret);
    for (size_t i = 0; i < kernel->n_results; i++)
        rows = ech_bytes_add(rows, ech_layout_padded_bytes(&kernel->results[i], ECH_LAYOUT_DENSE));
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
