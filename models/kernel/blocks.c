/* The windows of a kernel: what they take on chip, and which ones we choose where the program says none.
 *
 * The choice follows what the compiler's tables show: full k first, blocks that need not divide the axis, two buffers a window, and of what
 * fits into the budget the blocks that our own price finds fastest. */
#include "models/kernel/kernel_internal.h"

#include <math.h>

#define REGISTER 1024.0
#define MAX_STREAM_REGISTERS 1024 /* the largest window of any streaming kernel in the tables */
#define MAX_CUTS 96               /* ways of cutting one axis that are tried */

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static EchBytes to_bytes(double value)
{
    return value >= 1.8e19 ? UINT64_MAX : (EchBytes)ceil(value);
}

EchBytes ech_kernel_product_vmem(const EchKernelShape *s, const EchKernelBlocks *blocks)
{
    const EchKernelContraction *c = s->c;
    uint64_t n_m = ceil_div(c->m, MAX(blocks->bm, 1u)), n_n = ceil_div(c->n, MAX(blocks->bn, 1u)), n_k = ceil_div(c->k, MAX(blocks->bk, 1u));
    /* Cores that share the steps each hold the windows of their own. */
    uint64_t *axis = n_n >= s->cores ? &n_n : n_m >= s->cores ? &n_m : &n_k;
    *axis = ceil_div(*axis, s->cores);
    double bm = (double)ech_round_up(MIN(blocks->bm, c->m), s->m_granule), bn = (double)ech_round_up(MIN(blocks->bn, c->n), s->n_granule);
    double bk = (double)MIN(blocks->bk, c->k);
    double bk_lanes = (double)ech_round_up((uint64_t)bk, 128), bk_rows = (double)ech_round_up((uint64_t)bk, 8);
    double buffers = blocks->buffers > 0 ? blocks->buffers : 2;
    double together = (double)MAX(blocks->batch, 1u), batch = c->batch > MAX(blocks->batch, 1u) ? buffers : 1;
    double rhs = s->rhs_hbm ? bn * (c->rhs_transposed ? bk_lanes : bk_rows) * s->rhs_bytes * (n_n * n_k > 1 ? buffers : batch) : 0;
    double lhs = s->lhs_hbm ? bm * (c->lhs_transposed ? bk_rows : bk_lanes) * s->lhs_bytes * (n_m * n_k > 1 || (n_n > 1 && n_m > 1) ? buffers : batch) : 0;
    double out = s->out_hbm ? bm * bn * s->out_bits / 8 * (n_m * n_n > 1 ? 2 : batch) : 0;
    /* 32-bit results accumulate where they lie. */
    double accumulator = n_k > 1 && s->out_bits < 32 ? 4 * bm * bn : 0;
    /* Copies that a kernel keeps besides its windows: weights wait in the units, and what does not fit there at once is met again by a lhs
     * block laid out for it; small units keep 32-bit weights and results aside. 8-bit operands are staged in their own width. */
    double staged = 0;
    if (!s->eight) {
        uint64_t side = s->unit_size, loads = ceil_div((uint64_t)bk, side) * ceil_div((uint64_t)bn, side);
        if (loads > s->units && bk > (double)side && bn > (double)side)
            staged += s->stage_input * 2 * bm * bk_lanes;
        staged += s->stage_weights * 4 * bk_rows * bn;
        if (n_k == 1 && loads > s->units && bk > (double)side && s->out_bits < 32)
            staged += s->stage_result * 4 * bm * bn;
    }
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
    double buffers = w->buffers > 0 ? w->buffers : 2;
    double lhs = s->lhs_hbm ? MIN(input * s->lhs_bytes, s->lhs_total * 2) * (steps / outer > 1 || s->c->batch > 1 ? (steps > 1 ? buffers : 1) : 1) : 0;
    double rhs = s->rhs_hbm ? kernel * s->rhs_bytes * (outer > 1 || inner > 1 ? buffers : 1) : 0;
    double out = s->out_hbm ? output * s->out_bits / 8 * (steps > 1 ? 2 : 1) : 0;
    double accumulator = inner > 1 && s->out_bits < 32 ? 4 * output : 0;
    return to_bytes(lhs + rhs + out + accumulator);
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

void ech_kernel_stream_vmem(const EchKernel *kernel, EchKernelCost *cost, bool chosen)
{
    double widest = 0;
    for (size_t i = 0; i < kernel->n_operands; i++)
        widest = MAX(widest, ech_kernel_padded(&kernel->operands[i]));
    for (size_t i = 0; i < kernel->n_results; i++)
        widest = MAX(widest, ech_kernel_padded(&kernel->results[i]));
    double window = (double)cost->blocks.bm * REGISTER;
    /* The output's window is known exactly; the inputs' follow it except through a reduction. */
    if (!chosen && kernel->windows.n_output > 0) {
        double product = REGISTER;
        for (unsigned i = 0; i < kernel->windows.n_output; i++)
            product *= MAX(kernel->windows.output[i], 1u);
        window = product;
    }
    double buffers = cost->blocks.buffers > 0 ? cost->blocks.buffers : 1;
    cost->vmem = to_bytes(stream_window(kernel, window, widest, cost->blocks.steps > 1, buffers));
}

void ech_kernel_choose_stream(const EchKernelModel *model, const EchKernel *kernel, const EchKernelTraffic *traffic, EchKernelCost *ret)
{
    double registers = traffic->widest / REGISTER;
    uint64_t steps = 1, buffers = 2;
    if (!kernel->fused && registers > 8 * model->lone_registers) {
        steps = (uint64_t)ceil(registers / model->lone_registers);
        buffers = 6;
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
    ech_kernel_stream_vmem(kernel, ret, true);
}

/* Block sizes that cut an axis into 1, 2, 3, ... parts, largest first, all different. */
static size_t cuts(uint64_t extent, uint64_t granule, uint64_t *ret)
{
    size_t n = 0;
    uint64_t whole = ech_round_up(extent, granule);
    for (uint64_t parts = 1; n < MAX_CUTS; parts++) {
        uint64_t block = ech_round_up(ceil_div(whole, parts), granule);
        if (n == 0 || block < ret[n - 1])
            ret[n++] = block;
        if (block <= granule)
            break;
        if (parts > 48) /* many thin blocks: only every halving */
            parts = parts * 3 / 2;
    }
    return n;
}

void ech_kernel_choose_product(const EchKernelModel *model, const EchKernel *kernel, const EchKernelShape *shape, EchKernelBlocks *ret)
{
    const EchKernelContraction *c = shape->c;
    (void)kernel;
    uint64_t rows[MAX_CUTS], columns[MAX_CUTS], depth[MAX_CUTS];
    size_t n_rows = cuts(c->m, shape->m_granule, rows), n_columns = cuts(c->n, shape->n_granule, columns), n_depth = cuts(c->k, 128, depth);
    EchBytes budget = (EchBytes)(0.94 * (double)model->budget);
    EchKernelBlocks best = {.bm = rows[n_rows - 1], .bn = columns[n_columns - 1], .bk = depth[n_depth - 1], .buffers = 2};
    double best_time = INFINITY;
    for (size_t k = 0; k < n_depth; k++) {
        for (size_t n = 0; n < n_columns; n++) {
            for (size_t m = 0; m < n_rows; m++) {
                EchKernelBlocks blocks = {.bm = rows[m], .bn = columns[n], .bk = depth[k], .batch = 1, .buffers = 2};
                if (ech_kernel_product_vmem(shape, &blocks) > budget)
                    continue;
                /* Whole products of a batch go into a step together as long as they fit. */
                bool whole = n_rows > 0 && m == 0 && n == 0 && k == 0;
                while (whole && blocks.batch * 2 <= c->batch) {
                    EchKernelBlocks more = blocks;
                    more.batch *= 2;
                    if (ech_kernel_product_vmem(shape, &more) > budget)
                        break;
                    blocks = more;
                }
                double time = INFINITY;
                EchKernelWalk walk;
                for (uint64_t together = blocks.batch; together >= 1; together /= 2) {
                    EchKernelBlocks some = blocks;
                    some.batch = together;
                    walk = ech_kernel_walk(shape, &some, ceil_div(c->m, some.bm), ceil_div(c->n, some.bn), ceil_div(c->k, some.bk));
                    time = ech_kernel_walk_cycles(model, shape, &walk);
                    if (time < best_time * (1 - 1e-9)) {
                        best_time = time;
                        best = some;
                    }
                }
                if (walk.steps > 64 && time > 2 * best_time)
                    break; /* thinner blocks only move more */
            }
        }
    }
    *ret = best;
}
