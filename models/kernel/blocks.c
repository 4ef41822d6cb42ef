/* The windows of a kernel: what they take on chip, and which ones we choose where the program says none.
 *
 * The choice follows what the compiler's tables show: full k first, blocks that need not divide the axis, two buffers a window, and of what
 * fits into the budget the blocks that our own price finds fastest. */
#include "models/kernel/kernel_internal.h"

#include <math.h>

#define REGISTER 1024.0
#define MAX_STREAM_REGISTERS 1024 /* the largest window of any streaming kernel in the tables */
#define MAX_CUTS 96               /* ways of cutting one axis that are tried */

static EchBytes to_bytes(double value)
{
    return value >= 1.8e19 ? UINT64_MAX : value > 0 ? (EchBytes)ceil(value) : 0;
}

/* What of a step lies on chip besides its windows; elements. */
typedef struct {
    double lhs, rhs, out, rows, depth, width;
    uint64_t taps;
    bool whole_depth; /* a step has all of k */
} EchKernelStaging;

#define STAGED_FREE 172032.0 /* bytes of a second lhs that cost nothing: libtpu 0.0.51, v5e and v6e alike */
#define STRIP_DEPTH 1024     /* from this k on a block's result is summed up in 32-bit strips of 256 columns */
#define STRIP_COLUMNS 256.0

/* Bytes of the copies that a kernel keeps besides its windows. Weights wait in the units; what does not fit there at once is met again by a lhs block laid
 * out for it, and its sums wait in 32 bits: in strips of the result, on small units all of it. A block of an odd number of 8-row halves of 16-bit tiles is
 * laid out anew too. 8-bit operands are staged in their own width, f32 ones of higher precision in the parts that their passes take. A result whose rows lie
 * along lanes swaps the operands' roles. Source: scoped VMEM of all products in the compiler's tables. */
static double staging(const EchKernelShape *s, const EchKernelStaging *b)
{
    const EchKernelContraction *c = s->c;
    double side = s->unit_size, deep = ceil(b->depth / side) * (double)b->taps, wide = ceil(b->width / side), loads = deep * wide;
    if (s->eight)
        return 0;
    if (c->passes > 1)
        return (b->width > 128 ? s->stage_precise_input * b->lhs : 0) + (b->width > 128 || b->depth > 128 ? s->stage_precise_weights * b->rhs : 0);
    if (c->out_transposed && !c->lhs_transposed)
        return s->stage_weights > 0 ? s->stage_weights * 4 * b->lhs : b->width > 32 ? 4 * b->rhs : 0;
    /* With accumulators of their own the units take as many columns at once as there are units, and rows until those are full. */
    bool kept = s->accumulators > 0, met_again = loads > s->units && deep > 1 && (!kept || wide > s->units), sixteen = s->lhs_bytes == 2,
         laid_out = !c->convolution && !c->lhs_transposed;
    bool odd = sixteen && laid_out && !(s->stage_weights > 0) && fmod(b->rows, 16) > 0;
    double staged = s->stage_weights * 4 * b->rhs;
    if (odd)
        staged += 2 * b->lhs;
    else if (met_again && !c->out_transposed && (c->convolution ? sixteen : wide > 1 && (!sixteen || b->depth >= s->stage_depth)))
        staged += MAX(s->stage_input * (2 * b->lhs - (laid_out ? STAGED_FREE : 0)), 0);
    if (s->out_bits >= 32 || !b->whole_depth)
        return staged;
    if (c->taps > 1 || (c->lhs_transposed && deep > 1)) /* summed up over passes that do not follow each other in the unit */
        staged += 4 * b->out;
    else if (kept)
        staged +=
            !c->convolution && b->depth >= STRIP_DEPTH && b->rows * side * s->units * 4 > s->accumulators ? 4 * b->rows * MIN(b->width, side * s->units) : 0;
    else if (s->stage_result > 0)
        staged += met_again ? s->stage_result * 4 * b->out : 0;
    else if (b->depth >= STRIP_DEPTH && wide <= 1)
        staged += MAX(4 * b->out - STAGED_FREE, 0);
    else if (met_again && wide > 1 && (b->depth >= STRIP_DEPTH || (side <= 128 && b->depth * 2 >= STRIP_DEPTH)))
        staged += s->stage_input * 4 * b->rows * MIN(b->width, b->depth >= STRIP_DEPTH ? STRIP_COLUMNS : 128);
    return staged;
}

/* Positions of a convolution's result. */
static uint64_t places_of(const EchKernelContraction *c)
{
    return MAX(c->m / MAX(c->images, 1u), 1u);
}

/* Whether a convolution adds up over more positions than its result has: a filter's gradient, over the pixels. */
static bool sums_pixels(const EchKernelContraction *c)
{
    return c->convolution && c->taps > places_of(c) && !c->depthwise;
}

EchBytes ech_kernel_product_vmem(const EchKernelShape *s, const EchKernelBlocks *blocks)
{
    const EchKernelContraction *c = s->c;
    uint64_t n_m = ech_div_up(c->m, MAX(blocks->bm, 1u)), n_n = ech_div_up(c->n, MAX(blocks->bn, 1u)), n_k = ech_kernel_depth_steps(c, blocks);
    /* Cores that share the steps each hold the windows of their own. */
    uint64_t *axis = n_m >= s->cores ? &n_m : n_n >= s->cores ? &n_n : &n_k;
    *axis = ech_div_up(*axis, s->cores);
    double bm = (double)ech_round_up(MIN(blocks->bm, c->m), s->m_granule), bn = (double)ech_round_up(MIN(blocks->bn, c->n), s->n_granule);
    double bk = (double)MIN(blocks->bk, c->k);
    double bk_lanes = (double)ech_round_up((uint64_t)bk, 128), bk_rows = (double)ech_round_up((uint64_t)bk, 8);
    double taps = (double)(blocks->taps > 0 ? blocks->taps : c->taps);
    double pixels = sums_pixels(c) ? bk_rows * taps / (double)places_of(c) : c->lhs_transposed ? bk_rows : bk_lanes;
    double input = bm * pixels, output = bm * bn;
    if (c->convolution && c->taps == 1 && s->lhs_moved > 0) { /* what lies on lanes may be its images, so that narrow channels fill none */
        double share = bm / (double)MAX(c->m, 1u);
        input = MIN(input, s->lhs_total / s->lhs_moved * share);
        output = MIN(output, s->out_registers * REGISTER * share);
    }
    double buffers = blocks->buffers > 0 ? blocks->buffers : 2;
    double together = (double)MAX(blocks->batch, 1u), batch = c->batch > MAX(blocks->batch, 1u) ? buffers : 1;
    double rhs = s->rhs_hbm ? bn * (c->rhs_transposed ? bk_lanes : bk_rows) * taps * s->rhs_moved * (n_n * n_k > 1 ? buffers : batch) : 0;
    double lhs = s->lhs_hbm ? input * s->lhs_moved * (n_m * n_k > 1 || (n_n > 1 && n_m > 1) ? buffers : batch) : 0;
    double out = output * ((s->out_hbm ? s->out_bits / 8.0 : 0) + s->extra_moved) * (n_m * n_n > 1 ? 2 : batch);
    /* 32-bit results accumulate where they lie. */
    double accumulator = n_k > 1 && s->out_bits < 32 ? 4 * bm * bn : 0;
    EchKernelStaging blocks_of = {
        .lhs = bm * bk_lanes, .rhs = bk_rows * bn, .out = bm * bn, .rows = bm, .depth = bk, .width = bn, .taps = 1, .whole_depth = n_k == 1};
    double staged = staging(s, &blocks_of);
    return to_bytes(together * (lhs + rhs + out + accumulator + staged));
}

EchBytes ech_kernel_windows_vmem(const EchKernelShape *s, const EchKernelWindows *w)
{
    double steps = 1, kernel = REGISTER, input = REGISTER, output = REGISTER;
    for (unsigned i = 0; i < w->n_iterations; i++)
        steps *= MAX(w->iterations[i], 1u);
    for (unsigned i = 0; i < w->n_kernel; i++)
        kernel *= MAX(w->kernel[i], 1u);
    for (unsigned i = 0; i < w->n_input; i++)
        input *= MAX(w->input[i], 1u);
    for (unsigned i = 0; i < w->n_output; i++)
        output *= MAX(w->output[i], 1u);
    double inner = MAX(w->iterations[w->n_iterations - 1], 1u), outer = MAX(w->iterations[0], 1u);
    double others = steps / outer;
    if (s->cores > 1) { /* each core has windows for its share of the steps */
        steps = ceil(steps / (double)s->cores);
        outer = others < (double)s->cores ? ceil(outer / (double)s->cores) : outer;
    }
    double buffers = w->buffers > 0 ? w->buffers : 2;
    double lhs = s->lhs_hbm ? MIN(input * s->lhs_moved, s->lhs_total * 2) * (steps / outer > 1 || s->c->batch > 1 ? (steps > 1 ? buffers : 1) : 1) : 0;
    double rhs = s->rhs_hbm ? kernel * s->rhs_moved * (outer > 1 || inner > 1 ? buffers : 1) : 0;
    double out = output * ((s->out_hbm ? s->out_bits / 8.0 : 0) + s->extra_moved) * (steps > 1 ? 2 : 1);
    double accumulator = inner > 1 && s->out_bits < 32 ? 4 * output : 0;
    /* Of a batch every product is loaded anew; only what is transposed or kept in 32 bits is staged. */
    const EchKernelContraction *c = s->c;
    double together = MAX((double)c->batch / MAX(w->n_iterations > 0 ? w->iterations[0] : 1u, 1u), 1);
    EchKernelStaging blocks = {.lhs = input,
                               .rhs = kernel,
                               .out = output,
                               .rows = (double)c->m,
                               .depth = (double)c->k / inner,
                               .width = c->batch > 1 ? MIN((double)c->n, kernel / MAX(together * (double)c->k, 1)) : (double)c->n / outer,
                               .taps = c->convolution ? c->taps : 1,
                               .whole_depth = inner <= 1};
    double staged = c->batch > 1 && s->stage_weights == 0 && !c->convolution ? 0 : staging(s, &blocks);
    return to_bytes(lhs + rhs + out + accumulator + staged);
}

/* Bytes of one step's windows over all arrays that lie in HBM; small vectors ride along whole. */
static double stream_window(const EchKernel *kernel, double window_elements, double widest, bool many, double buffers)
{
    double bytes = 0;
    for (size_t i = 0; i < kernel->n_operands + kernel->n_results; i++) {
        const EchLayout *layout = i < kernel->n_operands ? &kernel->operands[i] : &kernel->results[i - kernel->n_operands];
        if (layout->rank == 0 || layout->space == 1 || layout->space == 3)
            continue;
        double elements = ech_kernel_padded(layout), width = ech_layout_element_bits(layout) / 8.0;
        bool wide = elements * 2 > widest;
        bytes += wide ? MIN(window_elements, elements) * width * (many ? buffers : 1) : elements * width;
    }
    return bytes;
}

/* Elements of a window given in tiles. */
static double window_of(const uint32_t *bounds, unsigned n)
{
    double elements = REGISTER;
    for (unsigned i = 0; i < n; i++)
        elements *= MAX(bounds[i], 1u);
    return elements;
}

/* Whether a core takes more than one step, and so fetches one while it works on another. */
static bool many_steps(const EchKernelModel *model, uint64_t steps)
{
    return (double)steps > model->cores;
}

void ech_kernel_copy_vmem(const EchKernelModel *model, const EchKernel *kernel, EchKernelCost *cost)
{
    /* What is read for a window of the result, and the window; turned round they are as long but shaped otherwise. */
    const EchKernelWindows *w = &kernel->windows;
    double buffers = many_steps(model, cost->blocks.steps) ? MAX(w->buffers, 2u) : 1, bytes = 0;
    double out = w->n_output > 0 ? window_of(w->output, w->n_output) : (double)cost->blocks.bm * REGISTER;
    double in = w->n_input > 0 ? window_of(w->input, w->n_input) : out;
    for (size_t i = 0; i < kernel->n_operands && i < 1; i++)
        bytes += kernel->operands[i].space == 1 ? 0 : MIN(in, ech_kernel_padded(&kernel->operands[i])) * ech_layout_element_bits(&kernel->operands[i]) / 8;
    for (size_t i = 0; i < kernel->n_results && i < 1; i++)
        bytes += kernel->results[i].space == 1 ? 0 : MIN(out, ech_kernel_padded(&kernel->results[i])) * ech_layout_element_bits(&kernel->results[i]) / 8;
    cost->vmem = to_bytes(bytes * buffers);
}

void ech_kernel_stream_vmem(const EchKernelModel *model, const EchKernel *kernel, EchKernelCost *cost, bool chosen)
{
    double widest = 0;
    for (size_t i = 0; i < kernel->n_operands; i++)
        widest = MAX(widest, ech_kernel_padded(&kernel->operands[i]));
    for (size_t i = 0; i < kernel->n_results; i++)
        widest = MAX(widest, ech_kernel_padded(&kernel->results[i]));
    double window = (double)cost->blocks.bm * REGISTER;
    /* The output's window is known exactly; the inputs' follow it except through a reduction. */
    if (!chosen && kernel->windows.n_output > 0)
        window = window_of(kernel->windows.output, kernel->windows.n_output);
    double buffers = cost->blocks.buffers > 0 ? cost->blocks.buffers : 1;
    cost->vmem = to_bytes(stream_window(kernel, window, widest, many_steps(model, cost->blocks.steps), buffers));
}

void ech_kernel_choose_stream(const EchKernelModel *model, const EchKernel *kernel, const EchKernelTraffic *traffic, EchKernelCost *ret)
{
    double registers = traffic->elements / REGISTER;
    uint64_t steps = 1, buffers = 2;
    /* An instruction of the library takes whole what fits twice, and once more in 32 bits where it is narrowed; of a reduction a quarter of the budget: all of
     * its arrays, wherever they lie. Else it is cut by the registers that its tiles take, full or not (libtpu 0.0.52: nine on v5e, v5p, v6e). */
    double each = ceil(registers / model->cores) * REGISTER;
    double share = each * (2 * MAX(traffic->whole_bits, 8) / 8 + (traffic->narrow ? 4 : 0));
    bool lone = !kernel->fused && registers > (kernel->body.reduce > 0 ? 8 : 1) * model->lone_registers;
    if (lone && (kernel->body.reduce > 0 ? each * MAX(traffic->whole_bits, 8) / 2 : share) < (double)model->budget) {
        steps = (uint64_t)model->cores;
    } else if (lone) {
        steps = (uint64_t)ceil(MAX(registers, traffic->widest / REGISTER) / model->lone_registers);
        buffers = registers > 8 * model->lone_registers ? 6 : 2;
    } else if (kernel->fused || registers > model->lone_registers) {
        /* The fewest windows that fit; then as long as more of them, with less arithmetic exposed, are faster. */
        double per_register = MAX(traffic->window_bits, 8) / 8 * REGISTER * (double)buffers;
        double most = MAX(8, MIN(MAX_STREAM_REGISTERS, floor(0.93 * (double)model->budget / per_register)));
        steps = MAX((uint64_t)ceil(registers / most), 1u);
        double best = ech_kernel_stream_cycles(model, kernel, traffic, ret, (double)steps, NULL);
        for (uint64_t n = steps + 1; n <= steps + 64 && (double)n <= MAX(registers / 8, 1); n++) {
            double time = ech_kernel_stream_cycles(model, kernel, traffic, ret, (double)n, NULL);
            if (time >= best)
                break;
            best = time;
            steps = n;
        }
    }
    if (model->cores > 1 && registers >= model->cores) /* every core has its share */
        steps = ech_round_up(steps, (uint64_t)model->cores);
    ret->blocks = (EchKernelBlocks){.bm = (uint64_t)ceil(registers / (double)steps), .steps = steps, .buffers = (uint32_t)buffers};
    ret->chosen = true;
    ech_kernel_stream_vmem(model, kernel, ret, true);
}

/* Block sizes that cut an axis into 1, 2, 3, ... parts, largest first, all different. */
static size_t cuts(uint64_t extent, uint64_t granule, uint64_t *ret)
{
    size_t n = 0;
    uint64_t whole = ech_round_up(extent, granule);
    for (uint64_t parts = 1; n < MAX_CUTS; parts++) {
        uint64_t block = MAX(ech_round_up(ech_div_up(whole, parts), granule), 1u);
        if (n == 0 || block < ret[n - 1])
            ret[n++] = block;
        if (block <= granule)
            break;
        if (parts > 48) /* many thin blocks: only every halving */
            parts = parts * 3 / 2;
    }
    return n;
}

/* What a step takes of what is added up: all, then less; of a filter's gradient fewer pixels, then fewer images; else less of k. */
static size_t cut_depth(const EchKernelContraction *c, EchKernelBlocks *ret)
{
    uint64_t depth[MAX_CUTS], taps[MAX_CUTS] = {0};
    size_t n_depth = cuts(c->k, 128, depth), n_taps = sums_pixels(c) ? cuts(c->taps, 1, taps) : 1, n = 0;
    for (size_t t = 0; t < n_taps; t++)
        ret[n++] = (EchKernelBlocks){.bk = depth[0], .taps = taps[t], .buffers = 2};
    for (size_t k = 1; k < n_depth; k++)
        ret[n++] = (EchKernelBlocks){.bk = depth[k], .taps = taps[n_taps - 1], .buffers = 2};
    return n;
}

/* The fastest blocks of those that take at most @budget; infinity, and the smallest, where none does. */
static double fastest_blocks(const EchKernelModel *model, const EchKernelShape *shape, EchBytes budget, EchKernelBlocks *ret)
{
    const EchKernelContraction *c = shape->c;
    uint64_t rows[MAX_CUTS], columns[MAX_CUTS], turns[MAX_CUTS];
    EchKernelBlocks depth[2 * MAX_CUTS];
    /* Pixels that lie on lanes pass the units for each of the result's positions: a block has all of these. So it has of a depthwise filter's gradient. */
    uint64_t granule = c->depthwise_gradient ? c->m : shape->m_granule * (c->positions > 0 ? c->positions : 1);
    size_t n_turns = cuts(c->batch, 1, turns), n_rows = cuts(c->m, granule, rows), n_columns = cuts(c->n, shape->n_granule, columns),
           n_depth = cut_depth(c, depth);
    EchKernelBlocks best = depth[n_depth - 1];
    best.bm = rows[n_rows - 1];
    best.bn = columns[n_columns - 1];
    double best_time = INFINITY;
    /* With perfect overlap it takes no longer, and without at most @stretch times as long: most blocks are found wanting by that alone, without its powers. */
    EchKernelModel perfect = *model;
    perfect.overlap = INFINITY;
    const double stretch = pow(2, 1 / model->overlap) * (1 + 1e-9);
    for (size_t k = 0; k < n_depth; k++) {
        for (size_t n = 0; n < n_columns; n++) {
            for (size_t m = 0; m < n_rows; m++) {
                EchKernelBlocks blocks = depth[k];
                blocks.bm = rows[m];
                blocks.bn = columns[n];
                blocks.batch = 1;
                if (ech_kernel_product_vmem(shape, &blocks) > budget)
                    continue;
                double time = INFINITY, tiles = (double)ech_div_up(c->m, rows[m]) * (double)ech_div_up(c->n, columns[n]);
                double steps = tiles * (double)ech_kernel_depth_steps(c, &blocks);
                /* As many products of a batch as fit go into a step together; of cut ones the most that do, or one. */
                bool whole = m == 0 && n == 0 && k == 0;
                for (size_t i = 0, tried = 0; i < n_turns; i++) {
                    blocks.batch = turns[i];
                    if (ech_kernel_product_vmem(shape, &blocks) > budget)
                        continue;
                    time = ech_kernel_product_cycles(&perfect, shape, &blocks, NULL);
                    if (time < best_time || (steps > 64 && time <= 2 * best_time && time * stretch > 2 * best_time))
                        time = ech_kernel_product_cycles(model, shape, &blocks, NULL);
                    if (time < best_time * (1 - 1e-9)) {
                        best_time = time;
                        best = blocks;
                    }
                    if (!whole && ++tried > 1)
                        break;
                }
                if (steps > 64 && time > 2 * best_time)
                    break; /* thinner blocks only move more */
            }
        }
    }
    *ret = best;
    return best_time;
}

void ech_kernel_choose_product(const EchKernelModel *model, const EchKernelShape *shape, EchKernelBlocks *ret)
{
    /* What fits nowhere the compiler would not have put together: as if there were room. */
    if (!isfinite(fastest_blocks(model, shape, (EchBytes)(0.94 * (double)model->budget), ret)))
        fastest_blocks(model, shape, UINT64_MAX, ret);
}
