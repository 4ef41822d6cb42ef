/** @file grid.c  A kernel's own grid, priced. */
#include "models/kernel/grid.h"
#include <math.h>

#define TOGETHER 1.5 /* exponent of the overlap of matrix units and the others, see grid.h */

static double padded(uint64_t size, uint32_t to)
{
    return to > 0 ? ceil((double)size / to) * to : (double)size;
}

/* Rows pass through the units at their rate, once the side they hold has been loaded. */
static double product_cycles(const EchKernelModel *model, const EchKernelGridProduct *p)
{
    const char *dtype = p->is_float ? (p->rhs_bits <= 8 ? "f8e4m3fn" : "bf16") : p->rhs_bits <= 4 ? "s4" : p->rhs_bits <= 8 ? "s8" : "bf16";
    double rate = ech_kernel_macs_per_cycle(model, dtype), k = padded(p->k, model->unit->rows), n = padded(p->n, model->unit->columns);
    double multiplied = rate > 0 ? padded(p->m, model->sublanes) * k * n / rate : 0;
    double loaded = model->load * k * (model->unit->columns > 0 ? n / model->unit->columns : 1);
    return p->times * p->passes * MAX(multiplied, loaded);
}

static EchTime time_of(const EchKernelModel *model, double cycles)
{
    double ps = cycles / model->clock_hz * 1e12;
    return ps < 9e18 ? (EchTime)(ps + 0.5) : ECH_TIME_MAX;
}

void ech_kernel_grid_price(const EchKernelModel *model, const EchKernelGrid *grid, EchBytes vmem, EchKernelCost *ret)
{
    double matrix = 0, macs = 0;
    for (uint32_t i = 0; i < grid->n_products; i++) {
        const EchKernelGridProduct *p = &grid->products[i];
        matrix += product_cycles(model, p);
        macs += p->times * p->passes * padded(p->m, model->sublanes) * padded(p->k, model->unit->rows) * padded(p->n, model->unit->columns);
    }
    double others =
        MAX(MAX(grid->vector * model->simple, grid->transcendental * model->transcendental), MAX(grid->lanes * model->reduce, grid->touched * model->touch));
    double most = MAX(matrix, others);
    double compute = most > 0 ? most * pow(pow(matrix / most, TOGETHER) + pow(others / most, TOGETHER), 1 / TOGETHER) : 0;
    double bytes = model->hbm > 0 ? 1 / model->hbm : 0, edges = ((double)grid->first + (double)grid->last) * bytes;
    double all = ((double)grid->read + (double)grid->written) * bytes, hidden = MAX(all - edges, 0), steps = grid->steps * ECH_KERNEL_GRID_STEP_CYCLES;
    edges = MIN(edges, all);
    EchKernelCost cost = {
        .compute = time_of(model, compute),
        .hbm = time_of(model, MAX(hidden - compute - steps, 0)),
        .fill = time_of(model, model->fixed + edges),
        .overhead = time_of(model, steps),
        .busy_compute = time_of(model, compute),
        .busy_hbm = time_of(model, all),
        .hbm_read = grid->read,
        .hbm_written = grid->written,
        .vmem = vmem,
        .macs = macs,
    };
    cost.time = ech_time_add(ech_time_add(cost.compute, cost.hbm), ech_time_add(cost.fill, cost.overhead));
    *ret = cost;
}
