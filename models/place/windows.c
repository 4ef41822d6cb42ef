#include "models/place/windows.h"

#include "sim/base/units.h"

#include <math.h>

#define LANES UINT64_C(128)
#define ROWS UINT64_C(8)

typedef EchPlaceProduct Product;
typedef EchPlaceWindows Windows;

static double parts(uint64_t extent, uint64_t of)
{
    return (double)ech_div_up(extent, of);
}

double ech_place_tiles(uint64_t rows, uint64_t columns, bool rows_on_lanes)
{
    return rows_on_lanes ? parts(rows, LANES) * parts(columns, ROWS) : parts(rows, ROWS) * parts(columns, LANES);
}

/* Products in all. */
static uint64_t batch_of(const Product *p)
{
    return p->batch * MAX(p->batch_outer, 1u);
}

/* Of one of the outer rows and columns, all of the outer depth. */
static double lhs_tiles(const Product *p, uint64_t m, uint64_t k)
{
    return ech_place_tiles(m, k, p->rows_on_lanes) * (double)p->k_outer;
}

static double rhs_tiles(const Product *p, uint64_t n, uint64_t k)
{
    return ech_place_tiles(k, n, p->rhs_turned) * (double)p->k_outer;
}

static double out_tiles(const Product *p, uint64_t m, uint64_t n)
{
    return ech_place_tiles(m, n, p->out_turned);
}

static double whole_lhs(const Product *p)
{
    return lhs_tiles(p, p->m, p->k) * (double)p->m_outer;
}

static double whole_rhs(const Product *p)
{
    return rhs_tiles(p, p->n, p->k) * (double)p->n_outer;
}

static double whole_out(const Product *p)
{
    return out_tiles(p, p->m, p->n) * (double)p->m_outer * (double)p->n_outer;
}

/* What windows of @lhs, @rhs and @out tiles take. */
static double room(const Product *p, double lhs, double rhs, double out)
{
    double a = lhs < whole_lhs(p) || batch_of(p) > 1 ? 2 : 1, b = rhs < whole_rhs(p) || batch_of(p) > 1 ? 2 : 1,
           c = out < whole_out(p) || batch_of(p) > 1 ? 2 : 1;
    return lhs * (1 + p->lhs_arrays * a) + rhs * (1 + p->rhs_arrays * b) + out * (1 + (1 + p->more_out) * c);
}

/* Of a batch, of sequences or of heads as many as fit, where one fits: the first takes its room, each further one what it has once, or twice where the other
 * side has an outer dimension, too. */
static void take_outer(const Product *p, Windows *w)
{
    double lhs = lhs_tiles(p, p->m, p->k) * MAX(p->lhs_arrays, 1u), rhs = rhs_tiles(p, p->n, p->k) * MAX(p->rhs_arrays, 1u);
    double out = out_tiles(p, p->m, p->n) * (1 + p->more_out), all = lhs + rhs + out;
    if (batch_of(p) > 1) {
        /* Rows that are compared are held four times over, and count alone. */
        double fit = ECH_PLACE_WINDOWS_BUDGET / (p->compared ? 4 * out_tiles(p, p->m, p->n) : all), first = p->compared ? 0 : 2;
        w->batch = (uint64_t)CLAMP(floor(fit) - first, 1, (double)p->batch);
        if (w->batch == p->batch) /* and then of the outer dimensions */
            w->batch *= (uint64_t)CLAMP(floor(fit / (double)p->batch) - first, 1, (double)MAX(p->batch_outer, 1u));
        return;
    }
    if (p->n_outer > 1) {
        w->n_outer = (uint64_t)CLAMP(floor((ECH_PLACE_WINDOWS_BUDGET - all) / (2 * all)), 1, (double)p->n_outer);
        if (w->n_outer < p->n_outer)
            return;
        out *= (double)p->n_outer;
    }
    double each = lhs + out, left = ECH_PLACE_WINDOWS_BUDGET - 2 * whole_rhs(p) - 3 * each;
    w->m_outer = (uint64_t)CLAMP(1 + floor(left / (each * (p->k_outer > 1 ? 2 : 1))), 1, (double)p->m_outer);
}

/* How many times 128 rows fit beside all of k and @n columns. A part of an array that is not whole has room for two. */
static double rows_beside(const Product *p, uint64_t n)
{
    uint64_t row = MIN(p->rows_on_lanes ? LANES : ROWS, p->m);
    double heads = p->n_outer > 1 && !p->rhs_turned ? ((double)MIN(p->n_outer, 8u) + 1) / 3 : 1;
    double taken = room(p, lhs_tiles(p, row, p->k), rhs_tiles(p, n, p->k) * heads, p->out_turned ? out_tiles(p, row, n) : ech_place_tiles(1, n, false));
    return taken > ECH_PLACE_WINDOWS_BUDGET
               ? -1
               : (ECH_PLACE_WINDOWS_BUDGET - taken) / (2 * (lhs_tiles(p, LANES, p->k) * MAX(p->lhs_arrays, 1u) + out_tiles(p, LANES, n)));
}

static uint64_t rows_of(const Product *p, double parts_of_128)
{
    double rows = MAX(floor(parts_of_128), 1) * (double)LANES;
    return rows < (double)p->m ? (uint64_t)rows : p->m;
}

/* All of k and n. A window of rows needs half of what its 128 take, as far as seen. */
static bool take_columns(const Product *p, Windows *w)
{
    double left = rows_beside(p, p->n);
    if (left < MIN(0.5, (double)p->m / (double)LANES))
        return false;
    w->m = rows_of(p, left);
    w->n = p->n;
    w->k = p->k;
    w->k_outer = p->k_outer;
    if (w->m == p->m)
        take_outer(p, w);
    return true;
}

static bool take_result(const Product *p, Windows *w)
{
    double lhs = ech_place_tiles(p->m, MIN(p->rows_on_lanes ? ROWS : LANES, p->k), p->rows_on_lanes);
    double rhs = ech_place_tiles(MIN(p->rhs_turned ? LANES : ROWS, p->k), p->n, p->rhs_turned);
    double taken = room(p, lhs * (double)p->m_outer, rhs * (double)p->n_outer, whole_out(p));
    double outer = (double)p->k_outer, each = (whole_lhs(p) + whole_rhs(p)) / outer / parts(p->k, LANES) * (p->k_outer * p->m_outer * p->n_outer > 1 ? 2 : 1);
    double depth = floor((ECH_PLACE_WINDOWS_BUDGET - taken) / each);
    if (batch_of(p) > 1 || taken > ECH_PLACE_WINDOWS_BUDGET || depth < 1)
        return false;
    w->m = p->m;
    w->n = p->n;
    w->m_outer = p->m_outer;
    w->n_outer = p->n_outer;
    w->k = depth * (double)LANES < (double)p->k ? (uint64_t)depth * LANES : p->k;
    if (w->k == p->k && p->k_outer > 1) {
        double one = (whole_lhs(p) + whole_rhs(p)) / outer;
        w->k_outer = (uint64_t)CLAMP(1 + floor((ECH_PLACE_WINDOWS_BUDGET - 2 * whole_out(p) - 3 * one) / one), 1, outer);
    }
    return true;
}

/* All of k alone. */
static bool take_depth(const Product *p, double taken, Windows *w)
{
    if (taken + 2 * (parts(p->k, LANES) * (double)p->k_outer + 1) > ECH_PLACE_WINDOWS_BUDGET)
        return false;
    double columns =
        MAX(floor((ECH_PLACE_WINDOWS_BUDGET - taken) / (2 * (rhs_tiles(p, LANES, p->k) * MAX(p->rhs_arrays, 1u) + 1 + p->more_out))), 1) * (double)LANES;
    w->n = columns < (double)p->n ? (uint64_t)columns : p->n;
    w->m = rows_of(p, rows_beside(p, w->n));
    w->k = p->k;
    w->k_outer = p->k_outer;
    return true;
}

/* The longest dimension in halves, of one of each outer one. */
static void halve(const Product *p, Windows *w)
{
    Product one = *p;
    one.k_outer = 1;
    w->m = p->m;
    w->n = p->n;
    w->k = p->k;
    while (3 * (lhs_tiles(&one, w->m, w->k) + rhs_tiles(&one, w->n, w->k) + out_tiles(&one, w->m, w->n)) > ECH_PLACE_WINDOWS_BUDGET) {
        uint64_t *longest = w->n >= w->k && w->n >= w->m ? &w->n : w->k >= w->m ? &w->k : &w->m;
        if (*longest <= LANES)
            return;
        *longest = ech_round_up(ech_div_up(*longest, 2), LANES);
    }
}

static void choose(const Product *p, Windows *w)
{
    double least = room(p, lhs_tiles(p, MIN(p->rows_on_lanes ? LANES : ROWS, p->m), p->k), rhs_tiles(p, MIN(p->rhs_turned ? ROWS : LANES, p->n), p->k), 1);
    *w = (Windows){.batch = 1, .m_outer = 1, .n_outer = 1, .k_outer = 1};
    bool deep = least <= ECH_PLACE_WINDOWS_BUDGET;
    if ((deep && take_columns(p, w)) || take_result(p, w) || (deep && take_depth(p, least, w)))
        return;
    halve(p, w);
}

void ech_place_windows(const EchPlaceProduct *p, EchPlaceWindows *ret)
{
    choose(p, ret);
    double turns = ret->batch < p->batch ? parts(p->batch, ret->batch) * (double)MAX(p->batch_outer, 1u) : parts(batch_of(p), ret->batch);
    double rows = parts(p->m, ret->m) * parts(p->m_outer, ret->m_outer);
    double columns = parts(p->n, ret->n), heads = parts(p->n_outer, ret->n_outer), depth = parts(p->k, ret->k) * parts(p->k_outer, ret->k_outer);
    double together = (double)ret->batch, deep = parts(ret->k, LANES) * (double)ret->k_outer;
    ret->steps = turns * rows * columns * heads * depth;
    ret->lhs = together * lhs_tiles(p, ret->m, ret->k) / (double)p->k_outer * (double)ret->k_outer * (double)ret->m_outer;
    ret->rhs = together * rhs_tiles(p, ret->n, ret->k) / (double)p->k_outer * (double)ret->k_outer * (double)ret->n_outer;
    ret->out = together * out_tiles(p, ret->m, ret->n) * (double)ret->m_outer * (double)ret->n_outer;
    /* Columns outermost, k innermost; a window that stays the same is not brought in again; heads bring in no row anew. */
    ret->lhs_fetches = rows * depth > 1 ? ret->steps / heads : turns;
    ret->rhs_fetches = depth > 1 ? ret->steps : turns * columns * heads;
    ret->out_fetches = turns * rows * columns * heads;
    ret->lhs_times = ret->lhs * ret->lhs_fetches / (whole_lhs(p) * (double)batch_of(p));
    ret->rhs_times = ret->rhs * ret->rhs_fetches / (whole_rhs(p) * (double)batch_of(p));
    ret->out_times = ret->out * ret->out_fetches / (whole_out(p) * (double)batch_of(p));
    double width = (p->out_turned && p->rhs_turned ? parts(ret->n, ROWS) / 16 : parts(ret->n, LANES)) * (double)ret->n_outer;
    ret->matrix = ret->steps * together * parts(ret->m, ROWS) * (double)ret->m_outer * deep * width / 2;
    bool both = p->rows_on_lanes && !p->rhs_turned; /* both sides have on rows what is contracted */
    bool paired = both && p->summed_first && !p->out_turned && !p->narrow && batch_of(p) == 1 &&
                  (ret->k_outer == 1 || parts(ret->k, LANES) > 4); /* and two parts of it are added up before */
    ret->push = both ? 0 : ret->steps * ret->rhs / 2;
    ret->pop = ret->steps * ret->out * (paired ? MAX(floor(deep / 2) - 1, 0) : deep - 1);
    ret->moves = ret->steps * (ret->lhs / 2 + (depth > 1 ? ret->out : 0) + (together - 1) * ret->lhs / together * (p->rows_on_lanes ? 0.25 : 1));
    if (p->narrow)
        ret->moves = 0;
}
