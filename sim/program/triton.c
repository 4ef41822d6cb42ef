/** @file triton.c  Triton's operations, counted. */
#include "sim/program/triton.h"
#include "sim/program/mlir_arith.h"
#include "sim/program/mlir_bytecode.h"

#include <math.h>
#include <string.h>

enum { MAX_SAMPLES = 1024, MAX_DEPTH = 32, MAX_VISITS = 1 << 22 };
#define GOLDEN 0.6180339887498949 /* its multiples spread evenly between whole numbers, whatever the grid's sizes */

typedef enum {
    OTHER,
    DOT,
    BLOCK,
    LOAD,
    STORE,
    FOLD,
    CALL,
    FOR,
    IF,
    WHILE,
    PLAIN, /* of math, what is an instruction like others */
    MATH,
    CONSTANT, /* arithmetic from here on */
    SELECT,
    CAST,
    COMPARE,
    ARITH
} Kind;

static const struct {
    const char *name;
    Kind kind;
} kinds[] = {
    {"tt.dot", DOT},
    {"tt.dot_scaled", DOT},
    {"tt.get_program_id", BLOCK},
    {"tt.load", LOAD},
    {"tt.store", STORE},
    {"tt.atomic_rmw", STORE},
    {"tt.reduce", FOLD},
    {"tt.scan", FOLD},
    {"tt.call", CALL},
    {"tt.extern_elementwise", MATH},
    {"scf.for", FOR},
    {"scf.if", IF},
    {"scf.while", WHILE},
    {"math.absf", PLAIN},
    {"math.absi", PLAIN},
    {"math.fma", PLAIN},
    {"arith.constant", CONSTANT},
    {"arith.select", SELECT},
    {"arith.index_cast", CAST},
    {"arith.extsi", CAST},
    {"arith.extui", CAST},
    {"arith.trunci", CAST},
    {"arith.cmpi", COMPARE},
};

static Kind kind_of(const char *name)
{
    for (size_t k = 0; k < G_N_ELEMENTS(kinds); k++)
        if (strcmp(kinds[k].name, name) == 0)
            return kinds[k].kind;
    return g_str_has_prefix(name, "math.") ? MATH : g_str_has_prefix(name, "arith.") ? ARITH : OTHER;
}

/* An operation as the walk knows it. */
typedef struct {
    Kind kind;
    EchMlirArith arith;
} Step;

typedef struct {
    bool known;
    int64_t is;
} Scalar;

typedef struct {
    const EchMlirModule *m;
    const Step *steps; /* of each operation */
    Scalar *values;    /* of the function's scope */
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

static bool is_small(int64_t number)
{
    return number >= -INT32_MAX && number <= INT32_MAX;
}

/* An attribute that is a whole number: the first of the properties, in what knows none the one of that name. */
static bool number_of(const Walk *w, const EchMlirOp *op, const char *name, int64_t *ret)
{
    return ech_mlir_integer(w->m, op->properties == ECH_MLIR_NONE ? ech_mlir_find(w->m, op->attributes, name) : ech_mlir_property(w->m, op, 0), ret);
}

/* A scalar operation; nothing known where it is no arithmetic on whole numbers. */
static Scalar computed(const Walk *w, const EchMlirOp *op, const Step *step)
{
    Scalar a = value(w, op, 0), b = value(w, op, 1), made = {0};
    int64_t predicate;
    if (step->kind == CONSTANT)
        made.known = number_of(w, op, "value", &made.is);
    else if (a.known && step->kind == SELECT)
        made = value(w, op, a.is ? 1 : 2);
    else if (a.known && step->kind == CAST)
        made = a;
    else if (a.known && b.known && step->kind == COMPARE)
        made.known = number_of(w, op, "predicate", &predicate) && ech_mlir_compare(predicate, a.is, b.is, &made.is);
    else if (a.known && b.known)
        made.known = ech_mlir_compute(step->arith, a.is, b.is, &made.is);
    return made;
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

/* Of what is stored or loaded. */
static double bytes_of(const EchMlirType *type)
{
    return elements(type) * (type ? type->bits : 0) / 8;
}

static void walk_op(Walk *w, const EchMlirOp *op)
{
    const EchMlirType *result = ech_mlir_result_type(w->m, op);
    const Step *step = &w->steps[op - ech_mlir_op(w->m, 0)];
    Scalar first = {0}; /* of its results */
    int64_t axis;
    switch ((int)step->kind) {
    case DOT: add_product(w, op); break;
    case BLOCK:
        if (number_of(w, op, "axis", &axis) && axis >= 0 && axis < 3)
            first = (Scalar){true, (int64_t)w->block[axis]};
        break;
    case LOAD: w->work->loaded += w->weight * bytes_of(result); break;
    case STORE: w->work->stored += w->weight * bytes_of(type_of(w, op, 1)); break;
    case FOLD: w->work->vector += w->weight * elements(type_of(w, op, 0)) * op->n_operands; break;
    case CALL: w->work->assumed = true; break; /* a function of its own: Pallas writes none */
    case FOR: loop(w, op); return;
    case IF: {
        Scalar condition = value(w, op, 0);
        w->work->assumed |= !condition.known;
        walk(w, region_of(w, op, condition.known && !condition.is ? 1 : 0));
        break;
    }
    case WHILE:
        w->work->assumed = true;
        walk(w, region_of(w, op, 0));
        walk(w, region_of(w, op, 1));
        break;
    case PLAIN: w->work->vector += w->weight * elements(result); break;
    case MATH: w->work->transcendental += w->weight * elements(result); break;
    case OTHER: break;
    default:
        if (result && result->kind == ECH_MLIR_TENSOR) {
            const EchMlirType *of = op->n_operands > 0 ? type_of(w, op, 0) : NULL;
            bool counts =
                step->kind != CONSTANT && (result->is_float || (of && of->is_float)); /* whole numbers are addresses and masks, of which little is left */
            w->work->vector += counts ? w->weight * elements(result) : 0;
        } else
            first = computed(w, op, step);
    }
    for (uint32_t k = 0; k < op->n_results; k++)
        set(w, op->result + k, k == 0 ? first : (Scalar){0});
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
    g_autofree Step *steps = g_new(Step, (size_t)m->ops->len + 1);
    for (guint k = 0; k < m->ops->len; k++)
        steps[k] = (Step){kind_of(ech_mlir_op(m, k)->name), ech_mlir_arith(ech_mlir_op(m, k)->name)};
    Walk w = {.m = m, .steps = steps, .values = values, .visits = MAX_VISITS, .work = &work, .weight = blocks / (double)samples};
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
