/** @file triton.c  Triton's operations, counted. */
#include "sim/program/triton.h"
#include "sim/program/mlir_bytecode.h"

#include <math.h>
#include <string.h>

enum { MAX_SAMPLES = 1024, MAX_DEPTH = 32, MAX_VISITS = 1 << 22 };
#define GOLDEN 0.6180339887498949 /* its multiples spread evenly between whole numbers, whatever the grid's sizes */

typedef struct {
    bool known;
    int64_t is;
} Scalar;

typedef struct {
    const EchMlirModule *m;
    Scalar *values; /* of the function's scope */
    uint64_t block[3], visits;
    double weight; /* how often what is gone through happens */
    EchTritonWork *work;
    unsigned depth;
} Walk;

static Scalar value(const Walk *w, const EchMlirOp *op, uint32_t k)
{
    EchMlirOperand operand = ech_mlir_operand(w->m, op, k);
    return operand.value < w->m->n_values ? w->values[operand.value] : (Scalar){0};
}

static void set(Walk *w, uint32_t at, Scalar scalar)
{
    if (at < w->m->n_values)
        w->values[at] = scalar;
}

static const EchMlirType *type_of(const Walk *w, const EchMlirOp *op, uint32_t k)
{
    return ech_mlir_type(w->m, ech_mlir_operand(w->m, op, k).type);
}

/* 1 of a scalar. */
static double elements(const EchMlirType *type)
{
    double n = 1;
    for (unsigned d = 0; type && type->kind == ECH_MLIR_TENSOR && d < type->rank; d++)
        n *= (double)MAX(type->dims[d], 1);
    return n;
}

static bool compares(int64_t predicate, int64_t a, int64_t b)
{
    switch (predicate) { /* mlir/include/mlir/Dialect/Arith/IR/ArithBase.td; nothing here is as large as to need the unsigned ones */
    case 0: return a == b;
    case 1: return a != b;
    case 2:
    case 6: return a < b;
    case 3:
    case 7: return a <= b;
    case 4:
    case 8: return a > b;
    default: return a >= b;
    }
}

static bool is_small(int64_t number)
{
    return number >= -INT32_MAX && number <= INT32_MAX;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* A scalar operation of the name behind "arith."; nothing known where it is none of these. */
static Scalar computed(const Walk *w, const EchMlirOp *op, const char *name)
{
    Scalar a = value(w, op, 0), b = value(w, op, 1);
    int64_t number;
    if (strcmp(name, "constant") == 0) {
        uint32_t attribute = op->properties == ECH_MLIR_NONE ? ech_mlir_find(w->m, op->attributes, "value") : ech_mlir_property(w->m, op, 0);
        return ech_mlir_integer(w->m, attribute, &number) ? (Scalar){true, number} : (Scalar){0};
    }
    if (strcmp(name, "select") == 0)
        return a.known ? value(w, op, a.is ? 1 : 2) : (Scalar){0};
    if (!a.known)
        return (Scalar){0};
    if (strcmp(name, "index_cast") == 0 || strcmp(name, "extsi") == 0 || strcmp(name, "extui") == 0 || strcmp(name, "trunci") == 0)
        return a;
    if (!b.known || !is_small(a.is) || !is_small(b.is))
        return (Scalar){0};
    if (strcmp(name, "addi") == 0)
        return (Scalar){true, a.is + b.is};
    if (strcmp(name, "subi") == 0)
        return (Scalar){true, a.is - b.is};
    if (strcmp(name, "muli") == 0)
        return (Scalar){true, a.is * b.is};
    if (strcmp(name, "minsi") == 0 || strcmp(name, "minui") == 0)
        return (Scalar){true, MIN(a.is, b.is)};
    if (strcmp(name, "maxsi") == 0 || strcmp(name, "maxui") == 0)
        return (Scalar){true, MAX(a.is, b.is)};
    if (strcmp(name, "andi") == 0)
        return (Scalar){true, a.is & b.is};
    if (strcmp(name, "ori") == 0)
        return (Scalar){true, a.is | b.is};
    if (strcmp(name, "xori") == 0)
        return (Scalar){true, a.is ^ b.is};
    if (strcmp(name, "cmpi") == 0) {
        uint32_t attribute = op->properties == ECH_MLIR_NONE ? ech_mlir_find(w->m, op->attributes, "predicate") : ech_mlir_property(w->m, op, 0);
        return ech_mlir_integer(w->m, attribute, &number) ? (Scalar){true, compares(number, a.is, b.is)} : (Scalar){0};
    }
    if (b.is == 0)
        return (Scalar){0};
    if (strcmp(name, "divsi") == 0 || strcmp(name, "divui") == 0)
        return (Scalar){true, a.is / b.is};
    if (strcmp(name, "remsi") == 0 || strcmp(name, "remui") == 0)
        return (Scalar){true, a.is % b.is};
    if (strcmp(name, "floordivsi") == 0)
        return (Scalar){true, floor_div(a.is, b.is)};
    if (strcmp(name, "ceildivsi") == 0)
        return (Scalar){true, -floor_div(-a.is, b.is)};
    return (Scalar){0};
}

static void add_product(Walk *w, const EchMlirOp *op)
{
    const EchMlirType *a = type_of(w, op, 0), *b = type_of(w, op, 1);
    if (a && b && a->kind == ECH_MLIR_TENSOR && b->kind == ECH_MLIR_TENSOR && a->rank >= 2 && b->rank == a->rank)
        w->work->products += w->weight * 2 * elements(a) * (double)MAX(b->dims[b->rank - 1], 1);
}

static void walk(Walk *w, uint32_t region);

static uint32_t region_of(const Walk *w, const EchMlirOp *op, uint32_t k)
{
    return k < op->n_regions ? g_array_index(w->m->regions, uint32_t, op->regions + k) : ECH_MLIR_NONE;
}

/* Results and the body's carried values are what they were, or nothing known. */
static void loop(Walk *w, const EchMlirOp *op)
{
    uint32_t region = region_of(w, op, 0);
    const EchMlirBlock *block = ech_mlir_block(w->m, region);
    Scalar from = value(w, op, 0), to = value(w, op, 1), by = value(w, op, 2);
    if (!block)
        return;
    double trips = 1, outer = w->weight;
    Scalar middle = {0};
    if (from.known && to.known && by.known && by.is > 0 && is_small(from.is) && is_small(to.is)) {
        int64_t n = to.is > from.is ? (to.is - from.is - 1) / by.is + 1 : 0;
        trips = (double)n;
        middle = (Scalar){true, from.is + n / 2 * by.is};
    } else
        w->work->assumed = true;
    for (uint32_t k = 0; k < block->n_arguments; k++)
        set(w, block->argument + k, k == 0 ? middle : (Scalar){0});
    w->weight *= trips;
    if (trips > 0)
        walk(w, region);
    w->weight = outer;
    for (uint32_t k = 0; k < op->n_results; k++)
        set(w, op->result + k, trips > 0 ? (Scalar){0} : value(w, op, k + 3));
}

static void walk_op(Walk *w, const EchMlirOp *op)
{
    const EchMlirType *result = ech_mlir_result_type(w->m, op);
    int64_t axis = 0;
    if (strcmp(op->name, "tt.dot") == 0 || strcmp(op->name, "tt.dot_scaled") == 0)
        add_product(w, op);
    else if (strcmp(op->name, "tt.get_program_id") == 0) {
        uint32_t attribute = op->properties == ECH_MLIR_NONE ? ech_mlir_find(w->m, op->attributes, "axis") : ech_mlir_property(w->m, op, 0);
        bool known = ech_mlir_integer(w->m, attribute, &axis) && axis >= 0 && axis < 3;
        set(w, op->result, known ? (Scalar){true, (int64_t)w->block[axis]} : (Scalar){0});
        return;
    } else if (strcmp(op->name, "tt.load") == 0)
        w->work->loaded += w->weight * elements(result) * (result ? result->bits : 0) / 8;
    else if (strcmp(op->name, "tt.store") == 0 || strcmp(op->name, "tt.atomic_rmw") == 0) {
        const EchMlirType *stored = type_of(w, op, 1);
        w->work->stored += w->weight * elements(stored) * (stored ? stored->bits : 0) / 8;
    } else if (strcmp(op->name, "tt.reduce") == 0 || strcmp(op->name, "tt.scan") == 0)
        w->work->vector += w->weight * elements(type_of(w, op, 0)) * op->n_operands;
    else if (strcmp(op->name, "tt.call") == 0) /* a function of its own: Pallas writes none */
        w->work->assumed = true;
    else if (strcmp(op->name, "scf.for") == 0) {
        loop(w, op);
        return;
    } else if (strcmp(op->name, "scf.if") == 0) {
        Scalar condition = value(w, op, 0);
        w->work->assumed |= !condition.known;
        walk(w, region_of(w, op, condition.known && !condition.is ? 1 : 0));
    } else if (strcmp(op->name, "scf.while") == 0) {
        w->work->assumed = true;
        walk(w, region_of(w, op, 0));
        walk(w, region_of(w, op, 1));
    } else if (g_str_has_prefix(op->name, "math.") || strcmp(op->name, "tt.extern_elementwise") == 0) {
        bool plain = strcmp(op->name, "math.absf") == 0 || strcmp(op->name, "math.absi") == 0 || strcmp(op->name, "math.fma") == 0;
        *(plain ? &w->work->vector : &w->work->transcendental) += w->weight * elements(result);
    } else if (g_str_has_prefix(op->name, "arith.")) {
        const char *name = op->name + strlen("arith.");
        if (result && result->kind == ECH_MLIR_TENSOR) {
            const EchMlirType *of = op->n_operands > 0 ? type_of(w, op, 0) : NULL;
            if (strcmp(name, "constant") != 0 &&
                (result->is_float || (of && of->is_float))) /* whole numbers are addresses and masks, of which little is left */
                w->work->vector += w->weight * elements(result);
        } else {
            set(w, op->result, computed(w, op, name));
            return;
        }
    }
    for (uint32_t k = 0; k < op->n_results; k++)
        set(w, op->result + k, (Scalar){0});
}

static void walk(Walk *w, uint32_t region)
{
    if (w->depth >= MAX_DEPTH)
        return;
    w->depth++;
    for (const EchMlirBlock *block = ech_mlir_block(w->m, region); block; block = ech_mlir_block(w->m, block->next))
        for (const EchMlirOp *op = ech_mlir_op(w->m, block->first); op && w->visits > 0; op = ech_mlir_op(w->m, op->next)) {
            w->visits--;
            walk_op(w, op);
        }
    w->depth--;
}

bool ech_triton_read(const uint8_t *bytes, size_t n, const uint64_t grid[3], EchTritonWork *ret, GError **error)
{
    g_autoptr(EchMlirModule) m = ech_mlir_read(bytes, n, error);
    if (!m)
        return false;
    uint32_t region = ECH_MLIR_NONE;
    for (guint k = 0; k < m->ops->len && region == ECH_MLIR_NONE; k++) {
        const EchMlirOp *op = ech_mlir_op(m, k);
        if (strcmp(op->name, "tt.func") == 0 && op->n_regions > 0)
            region = g_array_index(m->regions, uint32_t, op->regions);
    }
    double blocks = (double)MAX(grid[0], 1u) * (double)MAX(grid[1], 1u) * (double)MAX(grid[2], 1u);
    if (region == ECH_MLIR_NONE || blocks > (double)INT64_MAX / MAX_SAMPLES) {
        g_set_error_literal(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "kernel's code: no function of Triton's, or more blocks than there can be");
        return false;
    }
    uint64_t all = (uint64_t)blocks, samples = MIN(all, (uint64_t)MAX_SAMPLES);
    EchTritonWork work = {0};
    g_autofree Scalar *values = g_new0(Scalar, (size_t)m->n_values + 1);
    Walk w = {.m = m, .values = values, .visits = MAX_VISITS, .work = &work, .weight = blocks / (double)samples};
    for (uint64_t s = 0; s < samples; s++) {
        double share = ((double)s + 0.5) * GOLDEN;
        uint64_t at = samples == all ? s : MIN((uint64_t)((share - floor(share)) * (double)all), all - 1);
        w.block[0] = at % MAX(grid[0], 1u);
        w.block[1] = at / MAX(grid[0], 1u) % MAX(grid[1], 1u);
        w.block[2] = at / MAX(grid[0], 1u) / MAX(grid[1], 1u);
        walk(&w, region);
    }
    if (w.visits == 0) {
        g_set_error_literal(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "kernel's code: too much to go through");
        return false;
    }
    *ret = work;
    return true;
}
