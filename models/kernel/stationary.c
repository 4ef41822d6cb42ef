/* Steps of a program on a chip with stationary weights. */
#include "models/kernel/stationary.h"

#include <math.h>

/* Tiles of a step that are run one by one; the rest follow at the mean rate of the second half of these. */
#define TILES_RUN 65536

/* Rows that wait in accumulators for the activation unit. */
typedef struct {
    double rows, until;
} Held;

typedef struct {
    const EchStationaryModel *model;
    double memory;                 /* When the weight memory is free. */
    double *shifted;               /* shifted[fifo]: ends of the last shifts, by tile number. */
    uint64_t tile;                 /* Tiles so far. */
    double last_shift, last_start; /* Of the tile before: when it was shifted in, and when it became active. */
    double unit, activation;       /* When the matrix and the activation unit are free. */
    GArray *held;                  /* Held, oldest first from @first_held on. */
    guint first_held;
    double held_rows;
    double link[2]; /* By direction: from the device, to it. */
    EchStationaryCounters counters;
} Machine;

bool ech_stationary_model_init(EchStationaryModel *ret, const EchDevice *device)
{
    const EchMemory *weights = ech_device_memory_kind(device, ECH_MEM_HBM), *accumulator = ech_device_memory_kind(device, ECH_MEM_ACCUMULATOR);
    const EchUnit *unit = ech_device_unit(device, ECH_UNIT_MATRIX);
    double fifo = ech_device_number(device, "kernel.weight_fifo_tiles", 0);
    if (!(fifo >= 1) || !weights || weights->read == 0 || !accumulator || !unit || unit->clock_hz == 0 || unit->rows == 0 || unit->columns == 0)
        return false;
    double tile = (double)unit->rows * unit->columns;
    *ret = (EchStationaryModel){
        .clock_hz = (double)unit->clock_hz,
        .rows = unit->rows,
        .columns = unit->columns,
        .load = tile / (double)weights->read * (double)unit->clock_hz,
        .fifo = (uint64_t)MIN(fifo, 4096.0),
        .accumulators = MAX(accumulator->capacity / ((uint64_t)unit->columns * sizeof(uint32_t)), 1u),
        .wait = MAX(ech_device_number(device, "kernel.dependency_wait_cycles", 0), 0.0),
    };
    return true;
}

/* Cycles of the unit a row: one for 8-bit operands, twice that for every side of 16 bits (and so on). */
static double passes_of(uint32_t lhs_bits, uint32_t rhs_bits)
{
    return (double)MAX(ech_div_up(lhs_bits, 8), 1u) * (double)MAX(ech_div_up(rhs_bits, 8), 1u);
}

/* How a step walks its weights. */
typedef struct {
    const EchStationaryProduct *products; /* products[n], one after the other into the same accumulators */
    size_t n;
    uint64_t columns; /* of tiles */
    uint64_t passes;  /* over the rows */
    uint64_t rows;
    double row_cycles; /* of the activation unit a row */
    uint64_t depth;    /* tiles of one column of one pass */
} Walk;

static uint64_t depth_of(const EchStationaryModel *model, const EchStationaryProduct *product)
{
    return ech_bytes_mul(ech_bytes_mul(ech_div_up(product->k, model->rows), product->taps), product->copies);
}

static Walk walk_of(const EchStationaryModel *model, const EchStationaryProduct *products, size_t n, uint32_t result_bits)
{
    Walk walk = {.products = products, .n = n, .rows = products->m, .columns = ech_div_up(products->n, model->columns)};
    walk.row_cycles = (double)MAX(ech_div_up(result_bits, 8), 1u);
    for (size_t i = 0; i < n; i++)
        walk.depth = ech_bytes_add(walk.depth, depth_of(model, &products[i]));
    /* Half of the accumulators a pass, so that the other half is emptied meanwhile, or all of them: what takes less. */
    double least = INFINITY;
    for (unsigned share = 2; share >= 1; share--) {
        uint64_t limit = MAX(model->accumulators / share, 1u), passes = ech_div_up(walk.rows, limit);
        double rows = (double)walk.rows / (double)passes, column = 0;
        for (size_t i = 0; i < n; i++) {
            double rate = passes_of(products[i].lhs_bits, products[i].rhs_bits), load = model->load * (double)MAX(ech_div_up(products[i].rhs_bits, 8), 1u);
            column += (double)depth_of(model, &products[i]) * MAX(MAX(rows * rate, load), (double)model->rows);
        }
        double activation = rows * walk.row_cycles, cycles = (double)passes * (double)walk.columns;
        cycles = share == 2 ? cycles * MAX(column, activation) + activation : cycles * (column + activation);
        if (cycles < least) {
            least = cycles;
            walk.passes = passes;
        }
    }
    return walk;
}

/* Waits until @rows accumulators are free; when that is. */
static double claim(Machine *m, double rows)
{
    double at = 0, room = (double)m->model->accumulators;
    while (m->held_rows + rows > room && m->first_held < m->held->len) {
        const Held *oldest = &g_array_index(m->held, Held, m->first_held);
        at = MAX(at, oldest->until);
        m->held_rows -= oldest->rows;
        m->first_held++;
    }
    if (m->first_held > 4096) {
        g_array_remove_range(m->held, 0, m->first_held);
        m->first_held = 0;
    }
    return at;
}

/* What a step waits for before its first row: transfers, and other steps. */
typedef struct {
    double input, dependency;
} Ready;

static void run_tile(Machine *m, double rows, double rate, double bytes, double useful, const Ready *ready, double accumulators)
{
    const EchStationaryModel *model = m->model;
    double *slot = &m->shifted[m->tile % model->fifo];
    double loaded = MAX(m->memory, *slot) + model->load * bytes;
    m->memory = loaded;
    double shift = MAX(MAX(loaded, m->last_shift), m->last_start), shifted = shift + (double)model->rows;
    *slot = m->last_shift = shifted;
    m->tile++;
    double data = MAX(MAX(ready->input, ready->dependency), accumulators), idle = m->unit;
    double start = MAX(MAX(shifted, idle), data);
    /* The time since the tile before: first for want of data, then for want of weights. */
    double input = CLAMP(ready->input, idle, start), dependency = CLAMP(ready->dependency, input, start), there = CLAMP(data, idle, start);
    EchStationaryCounters *c = &m->counters;
    c->input += input - idle;
    c->dependency += dependency - input;
    c->non_matrix += there - idle;
    double moving = MAX(MIN(start, shifted) - MAX(there, shift), 0);
    c->weight_shift += moving;
    c->weight_stall += start - there - moving;
    c->active += rows * rate;
    c->useful += rows * rate * useful;
    c->tiles++;
    c->weight_bytes += (double)model->rows * model->columns * bytes;
    m->last_start = start;
    m->unit = start + rows * rate;
}

/* Everything @by cycles later. */
static void delay(Machine *m, double by)
{
    m->memory += by;
    m->last_shift += by;
    m->last_start += by;
    m->unit += by;
    m->activation += by;
    for (uint64_t i = 0; i < m->model->fifo; i++)
        m->shifted[i] += by;
    for (guint i = m->first_held; i < m->held->len; i++)
        g_array_index(m->held, Held, i).until += by;
}

static void add_scaled(EchStationaryCounters *c, const EchStationaryCounters *from, const EchStationaryCounters *to, double factor)
{
    c->active += (to->active - from->active) * factor;
    c->useful += (to->useful - from->useful) * factor;
    c->weight_stall += (to->weight_stall - from->weight_stall) * factor;
    c->weight_shift += (to->weight_shift - from->weight_shift) * factor;
    c->non_matrix += (to->non_matrix - from->non_matrix) * factor;
    c->dependency += (to->dependency - from->dependency) * factor;
    c->input += (to->input - from->input) * factor;
    c->tiles += (to->tiles - from->tiles) * factor;
    c->weight_bytes += (to->weight_bytes - from->weight_bytes) * factor;
}

static double run_product(Machine *m, const Walk *walk, const Ready *ready)
{
    const EchStationaryModel *model = m->model;
    double all = (double)walk->depth * (double)walk->columns * (double)walk->passes, run = 0, half_at = 0;
    EchStationaryCounters half = m->counters;
    for (uint64_t column = 0; column < walk->columns && run < TILES_RUN; column++) {
        for (uint64_t pass = 0; pass < walk->passes && run < TILES_RUN; pass++) {
            double rows = (double)(walk->rows / walk->passes + (pass < walk->rows % walk->passes ? 1 : 0));
            double accumulators = claim(m, rows);
            for (size_t i = 0; i < walk->n && run < TILES_RUN; i++) {
                const EchStationaryProduct *p = &walk->products[i];
                double rate = passes_of(p->lhs_bits, p->rhs_bits), bytes = (double)MAX(ech_div_up(p->rhs_bits, 8), 1u);
                double useful = (double)p->k * (double)p->n / ((double)ech_div_up(p->k, model->rows) * model->rows * (double)walk->columns * model->columns);
                uint64_t depth = depth_of(model, p);
                for (uint64_t t = 0; t < depth && run < TILES_RUN; t++) {
                    run_tile(m, rows, rate, bytes, useful, ready, accumulators);
                    if (++run == TILES_RUN / 2) {
                        half = m->counters;
                        half_at = m->unit;
                    }
                }
            }
            m->activation = MAX(m->activation, m->unit) + rows * walk->row_cycles;
            Held held = {rows, m->activation};
            g_array_append_val(m->held, held);
            m->held_rows += rows;
        }
    }
    if (run < all) {
        double factor = (all - run) / (run - TILES_RUN / 2);
        delay(m, (m->unit - half_at) * factor);
        EchStationaryCounters now = m->counters;
        add_scaled(&m->counters, &half, &now, factor);
    }
    for (size_t i = 0; i < walk->n; i++) {
        const EchStationaryProduct *p = &walk->products[i];
        m->counters.macs += (double)p->m * (double)p->n * (double)p->k * (double)p->taps * (double)p->copies;
    }
    return m->activation;
}

static EchTime picoseconds(const EchStationaryModel *model, double cycles)
{
    return ech_time_round(cycles * (double)ECH_PS_PER_S / model->clock_hz);
}

static EchKernelInside inside_of(const EchStationaryModel *model, const EchStationaryCounters *before, const EchStationaryCounters *now)
{
    return (EchKernelInside){.stalls = {{[ECH_STALL_COMPUTE] = picoseconds(model, now->active - before->active + now->weight_shift - before->weight_shift),
                                         [ECH_STALL_HBM] = picoseconds(model, now->weight_stall - before->weight_stall),
                                         [ECH_STALL_LATENCY] = picoseconds(model, now->non_matrix - before->non_matrix)}}};
}

void ech_stationary_run(const EchStationaryModel *model, const EchStationaryStep *steps, size_t n_steps, const EchStationaryProduct *products,
                        const uint32_t *deps, EchTime *ret_ends, EchKernelInside *ret_insides, EchStationaryCounters *ret_total)
{
    Machine m = {.model = model, .shifted = g_new0(double, model->fifo), .held = g_array_new(FALSE, FALSE, sizeof(Held))};
    g_autofree double *ends = g_new0(double, n_steps + 1);
    double core = 0, joined = 0, path = model->columns;
    for (size_t s = 0; s < n_steps; s++) {
        const EchStationaryStep *step = &steps[s];
        const EchStationaryCounters before = m.counters;
        EchKernelInside inside = {.by_vector = step->kind == ECH_STATIONARY_VECTOR};
        Ready ready = {.input = joined};
        for (uint32_t d = step->first_dep; d < step->first_dep + step->n_deps; d++) {
            if (steps[deps[d]].kind == ECH_STATIONARY_TRANSFER || steps[deps[d]].kind == ECH_STATIONARY_WAIT)
                ready.input = MAX(ready.input, ends[deps[d]]);
            else
                ready.dependency =
                    MAX(ready.dependency, ends[deps[d]] + (step->kind == ECH_STATIONARY_TRANSFER || step->kind == ECH_STATIONARY_WAIT ? 0 : model->wait));
        }
        switch (step->kind) {
        case ECH_STATIONARY_PRODUCT:
            ends[s] = core;
            /* Products of one shape add up in the same accumulators; others follow as steps of their own. */
            for (size_t i = 0, n; i < step->n_products; i += n) {
                const EchStationaryProduct *first = &products[step->first_product + i];
                for (n = 1; i + n < step->n_products && first[n].m == first->m && first[n].n == first->n;)
                    n++;
                Walk walk = walk_of(model, first, n, step->result_bits);
                ends[s] = run_product(&m, &walk, &ready);
            }
            inside = inside_of(model, &before, &m.counters);
            core = MAX(core, ends[s]);
            break;
        case ECH_STATIONARY_VECTOR:
            inside.stalls.at[ECH_STALL_COMPUTE] = picoseconds(model, (double)step->moved / path);
            m.activation = MAX(m.activation, MAX(ready.input, ready.dependency)) + (double)step->moved / path;
            ends[s] = m.activation;
            core = MAX(core, ends[s]);
            break;
        case ECH_STATIONARY_TRANSFER: {
            double *link = &m.link[step->to_device];
            /* It starts where the core is; inputs that nothing waits for yet start at once. */
            *link = MAX(MAX(*link, core), ready.dependency) + (double)step->transfer * model->clock_hz / (double)ECH_PS_PER_S;
            ends[s] = *link;
            break;
        }
        case ECH_STATIONARY_WAIT: ends[s] = joined = core = MAX(core, MAX(ready.input, ready.dependency)); break;
        }
        ret_ends[s] = picoseconds(model, ends[s]);
        if (ret_insides)
            ret_insides[s] = inside;
    }
    double end = MAX(core, m.unit);
    for (size_t s = 0; s < n_steps; s++)
        end = MAX(end, ends[s]);
    m.counters.cycles = end;
    m.counters.non_matrix += end - m.unit;
    *ret_total = m.counters;
    g_free(m.shifted);
    g_array_unref(m.held);
}
