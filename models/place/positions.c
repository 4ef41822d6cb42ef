/* The windows of a convolution, after libtpu 0.0.52's log of 25 on v6e: rows of positions. */
#include "models/place/windows.h"

#include "sim/base/units.h"

#include <math.h>

#define DEPTHWISE 2.02 /* vector instructions a register of the result and position of the window */
#define MORE_ROWS 5.0  /* that a filter's gradient has room for beside its own */

typedef EchPlaceConvolution Convolution;

/* Tiles of one position of the input, of the weights and of the result. */
typedef struct {
    double lhs, rhs, out;
} Planes;

static Planes planes_of(const Convolution *c)
{
    const EchPlaceProduct *p = &c->product;
    uint64_t k = c->depthwise ? p->n : p->k, m = c->depthwise_gradient ? p->n : p->m;
    return (Planes){ech_place_tiles(m, k, p->rows_on_lanes), ech_place_tiles(p->k, p->n, p->rhs_turned), ech_place_tiles(p->m, p->n, p->out_turned)};
}

/* Rows of the input that @rows of the result meet: more than they need, as far as seen. */
static double rows_met(const Convolution *c, double rows)
{
    double size = (double)c->dims[0].size, more = rows > 1 ? size * (size > 1) : 0;
    return MIN((rows - 1) * (double)c->dims[0].stride + size + more, (double)c->dims[0].lhs);
}

/* Rows of the result a step. */
static double choose_rows(const Convolution *c, double lhs, double rhs, double out)
{
    double all = (double)c->dims[0].out, rows = 1;
    if (lhs + out + rhs <= 0)
        return all;
    while (rows < all && 2 * (rhs + rows_met(c, rows + 1) * lhs + (rows + 1) * out) <= ECH_PLACE_WINDOWS_BUDGET && rows < 4096)
        rows++;
    return rows >= 4096 ? all : rows;
}

void ech_place_convolution(const EchPlaceConvolution *c, EchPlaceWindows *ret)
{
    Planes one = planes_of(c);
    double lhs = one.lhs, rhs = one.rhs, out = one.out, taps = 1, met = 1; /* of a row of positions, of all weights */
    for (unsigned i = 0; i < c->n; i++) {
        lhs *= i > 0 ? (double)c->dims[i].lhs : 1;
        out *= i > 0 ? (double)c->dims[i].out : 1;
        rhs *= (double)c->dims[i].size;
        taps *= (double)c->dims[i].size;
        met *= c->dims[i].met;
    }
    double rows = (double)c->dims[0].out, input = (double)c->dims[0].lhs, steps = 1, share = 1, again = 1;
    bool large = 2 * rhs > ECH_PLACE_WINDOWS_BUDGET; /* a filter's gradient: its window is cut instead */
    if (large) {
        double kernel = rhs / (double)c->dims[0].size, fits = floor((ECH_PLACE_WINDOWS_BUDGET - rows * out) / (lhs + kernel)) - MORE_ROWS;
        fits = CLAMP(fits, 1, (double)c->dims[0].size);
        steps = ceil((double)c->dims[0].size / fits);
        share = steps * fits / (double)c->dims[0].size;
        again = MAX(steps * MIN(fits + rows - 1, input) / input, 1);
    } else {
        rows = choose_rows(c, lhs, rhs, out);
        steps = ceil((double)c->dims[0].out / rows);
        share = steps * rows / (double)c->dims[0].out;
        again = MAX(steps * rows_met(c, rows) / input, 1);
    }
    double results = share * out * (double)c->dims[0].out, deep = (double)ech_div_up(c->product.k, 128) * taps;
    if (c->dims[0].size > c->dims[0].out && !c->apart && c->product.n >= 128) /* images of several positions share a pass */
        deep = (double)c->product.k * taps / 128;
    if (c->product.rows_on_lanes && c->product.out_turned) /* images lie on lanes: channels of all positions do */
        deep = ceil((double)c->product.k * taps / 128);
    *ret = (EchPlaceWindows){.batch = 1, .m_outer = 1, .n_outer = 1, .k_outer = 1, .m = c->product.m, .n = c->product.n, .k = c->product.k};
    ret->steps = steps;
    ret->lhs = again * lhs * input / steps;
    ret->rhs = large ? rhs * share / steps : rhs;
    ret->out = large ? results : results / steps;
    ret->lhs_fetches = steps;
    ret->rhs_fetches = large ? steps : 1;
    ret->out_fetches = large ? 1 : steps;
    ret->lhs_times = again;
    ret->rhs_times = large ? share : 1;
    ret->out_times = large ? 1 : share;
    if (c->depthwise || c->depthwise_gradient) {
        double registers = c->depthwise ? results : ech_place_tiles(c->product.k, c->product.n, false) * results / MAX(one.out, 1);
        ret->moves = DEPTHWISE * registers * taps * met;
        return;
    }
    ret->matrix = results * deep / 2 * met;
    ret->pop = results * MAX(deep - 1, 0) * met;
    ret->moves = again * lhs * input / 2;
}
