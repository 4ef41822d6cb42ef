/** @file grid.c  A kernel's own grid, priced. */
#include "models/kernel/grid.h"
#include <math.h>

#define TOGETHER 1.5 /* exponent of the overlap of matrix units and the others, see grid.h */

static double padded(uint64_t size, uint32_t to)
{
    return to > 0 ? ceil((double)size / to) * to : (double)size;
}

/* Rows pass through the units at their rate, once the side they hold has been pushed into them. */
static double product_cycles(const EchKernelModel *model, const EchKernelGridProduct *p)
{
    const char *dtype = p->is_float ? (p->rhs_bits <= 8 ? "f8e4m3fn" : "bf16") : p->rhs_bits <= 4 ? "s4" : p->rhs_bits <= 8 ? "s8" : "bf16";
    double rate = ech_kernel_macs_per_cycle(model, dtype) / model->cores, k = padded(p->k, model->unit->rows), n = padded(p->n, model->unit->columns);
    double multiplied = rate > 0 ? padded(p->m, model->sublanes) * k * n / rate : 0;
    double pushed = model->bundle.push * padded(p->k, 16) / 16 * padded(p->n, model->lanes) / model->lanes;
    return p->times * p->passes * MAX(multiplied, p->transposed ? 2 * pushed : pushed);
}

/* Products deeper than a unit are as many results, which the vector unit adds up. */
static double partial_sums(const EchKernelModel *model, const EchKernelGridProduct *p)
{
    double depths = model->unit->rows > 0 ? ceil((double)p->k / model->unit->rows) : 1;
    return p->times * p->passes * (depths - 1) * (padded(p->m, model->sublanes) / model->sublanes) * (padded(p->n, model->lanes) / model->lanes);
}

static double together(double matrix, double others)
{
    double most = MAX(matrix, others);
    return most > 0 ? most * pow(pow(matrix / most, TOGETHER) + pow(others / most, TOGETHER), 1 / TOGETHER) : 0;
}

/* Cycles of the busiest kind of instruction but those across lanes. */
static double busiest(const EchKernelModel *model, double vector, double transcendental, double loaded, double stored)
{
    return MAX(MAX(vector / model->bundle.vector, transcendental / model->bundle.transcendental),
               MAX(loaded / model->bundle.load, stored / model->bundle.store));
}

/* Cycles that stretches of few rows take beyond what they compute: their results are waited for. */
static double waits_alone(const EchKernelModel *model, const EchKernelAlone *alone)
{
    double pushed = model->bundle.push * alone->pushes, way = model->bundle.product * alone->products + model->bundle.reduction * alone->reduced;
    way = MAX(way, model->bundle.product * alone->heads);
    double others = busiest(model, alone->vector, alone->transcendental, alone->loaded, alone->stored);
    return MAX(pushed + way - together(pushed, others) - alone->stretches * model->bundle.chain, 0);
}

/* Cycles that one core computes, and whether the matrix units have less of them than the others. */
static double compute_cycles(const EchKernelModel *model, const EchKernelGrid *grid, bool *ret_by_vector)
{
    double vector = grid->vector + model->bundle.half * grid->half + model->bundle.convert * grid->converted + model->bundle.reduce_vector * grid->reduced;
    double lanes = grid->lanes + model->bundle.reduce_lanes * grid->reduced, matrix = 0;
    for (uint32_t i = 0; i < grid->n_products; i++) {
        matrix += product_cycles(model, &grid->products[i]);
        vector += model->bundle.partial_sums * partial_sums(model, &grid->products[i]);
    }
    double others = MAX(busiest(model, vector, grid->transcendental, grid->loaded, grid->stored), lanes / model->bundle.lanes);
    *ret_by_vector = matrix < others;
    return together(matrix, others) + grid->chains * model->bundle.chain + waits_alone(model, &grid->alone);
}

/* Of the steps, what the busier of the cores that share them has. */
static double share_of(const EchKernelModel *model, const EchKernelGrid *grid)
{
    double bound = (double)MAX(grid->parallel, 1);
    return ceil(bound / model->cores) / bound;
}

static EchTime time_of(const EchKernelModel *model, double cycles)
{
    return ech_time_round(cycles / model->clock_hz * 1e12);
}

void ech_kernel_grid_price(const EchKernelModel *model, const EchKernelGrid *grid, EchBytes vmem, EchKernelCost *ret)
{
    bool by_vector;
    double macs = 0, share = share_of(model, grid), compute = share * compute_cycles(model, grid, &by_vector);
    for (uint32_t i = 0; i < grid->n_products; i++) {
        const EchKernelGridProduct *p = &grid->products[i];
        macs += p->times * p->passes * padded(p->m, model->sublanes) * padded(p->k, model->unit->rows) * padded(p->n, model->unit->columns);
    }
    double bytes = model->hbm > 0 ? 1 / model->hbm : 0, edges = ((double)grid->first + (double)grid->last) * bytes;
    double all = ((double)grid->read + (double)grid->written) * bytes, hidden = MAX(all - edges, 0);
    double steps = share * (grid->steps * ECH_KERNEL_GRID_STEP_CYCLES + grid->copies * ECH_KERNEL_GRID_COPY_CYCLES);
    double sent = model->bundle.link > 0 ? (double)grid->sent / model->bundle.link : 0;
    EchTime waits = time_of(model, MAX(MAX(hidden, sent) - compute - steps, ech_bursts_waited(&grid->bursts, compute + steps, model->hbm)));
    edges = MIN(edges, all);
    EchKernelCost cost = {
        .compute = time_of(model, compute),
        .hbm = sent > hidden ? 0 : waits,
        .link = sent > hidden ? waits : 0,
        .fill = time_of(model, model->fixed + edges),
        .overhead = time_of(model, steps + share * grid->scalar),
        .busy_compute = time_of(model, compute),
        .busy_hbm = time_of(model, all),
        .hbm_read = grid->read,
        .hbm_written = grid->written,
        .vmem = vmem,
        .macs = macs,
        .by_vector = by_vector,
    };
    cost.time = ech_time_add(ech_time_add(cost.compute, waits), ech_time_add(cost.fill, cost.overhead));
    *ret = cost;
}
