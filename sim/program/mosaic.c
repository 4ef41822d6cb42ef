/** @file mosaic.c  A Pallas kernel walked step by step. */
#include "sim/program/mosaic.h"

#include "sim/base/hash.h"
#include "sim/program/mlir_arith.h"
#include "sim/program/mlir_bytecode.h"

#include <math.h>
#include <string.h>

#define MAX_GRID 8     /* dimensions */
#define MAX_WINDOWS 64 /* blocks that Pallas' pipeline moves */
/* Operations visited in all, about: a larger grid is walked in strides. A single step may have as many. */
#define BUDGET 1000000u
#define LEAST_STEPS 16
/* Trips of an inner loop that are walked one by one, however many visits each is. */
#define LEAST_TRIPS 16
#define MAX_CALLS 16    /* calls within calls */
#define MAX_ARRIVALS 64 /* copies under way */
/* Cycles of the scalar core, which does one thing after the other where each needs the one before: until a load's result is there, and until a branch is
 * taken (final schedules of libtpu 0.0.52). */
#define SCALAR_LOAD 6
#define SCALAR_BRANCH 7
#define SCALAR_COUNTER 2 /* added to and compared */
/* Arrays of scalars that a kernel writes itself, and elements of one: the scalar memory has 1 MiB. */
#define MAX_HELD 16
#define MOST_HELD 262144
/* Rows of a product, at most, whose stretch of code has nothing to do while it waits: a token's query heads that share keys and values. */
#define FEW_ROWS 32
#define LANES 128
#define SUBLANES 8

/* What an operation is to the walk; the classes of arithmetic say how many register operations one is. */
typedef enum {
    OTHER,
    CONSTANT,
    SCALAR,
    COMPARE,
    SELECT,
    CAST,
    SAME, /* the value of its operand */
    LOAD_SCALAR,
    STORE_SCALAR,
    IF,
    FOR,
    WHILE,
    CALL,
    MATMUL,
    LOAD,
    STORE,
    DMA,
    WAIT,
    SEMAPHORES,
    ALLOCATE,
    REDUCE,
    TRANSPOSE,
    ARITHMETIC,
    WIDEN, /* to more bits */
    NARROW,
    UNARY, /* a transcendental that is one instruction of its unit and one more */
    EXP,
    DIVIDE,
    ROOT,
    POWER,
    WAVE,
    IOTA,
    ROTATE,
    BROADCAST,
    SLICE, /* of a memref */
    FREE,  /* names, shapes, waits: no register is computed */
} Kind;

static const struct {
    const char *name;
    Kind kind;
} kinds[] = {
    {"arith.constant", CONSTANT},
    {"arith.cmpi", COMPARE},
    {"arith.select", SELECT},
    {"arith.extsi", CAST},
    {"arith.extui", CAST},
    {"arith.trunci", CAST},
    {"arith.index_cast", CAST},
    {"arith.index_castui", CAST},
    {"tpu.assume_multiple", SAME},
    {"memref.load", LOAD_SCALAR},
    {"memref.store", STORE_SCALAR},
    {"scf.if", IF},
    {"scf.for", FOR},
    {"scf.while", WHILE},
    {"func.call", CALL},
    {"tpu.matmul", MATMUL},
    {"vector.contract", MATMUL},
    {"vector.load", LOAD},
    {"tpu.load", LOAD},
    {"tpu.vector_load", LOAD},
    {"tpu.strided_load", LOAD},
    {"vector.store", STORE},
    {"tpu.store", STORE},
    {"tpu.vector_store", STORE},
    {"tpu.strided_store", STORE},
    {"tpu.enqueue_dma", DMA},
    {"tpu.wait_dma", WAIT},
    {"tpu.wait_dma2", WAIT},
    {"tpu.sem_alloc", SEMAPHORES},
    {"vector.multi_reduction", REDUCE},
    {"tpu.all_reduce", REDUCE},
    {"vector.transpose", TRANSPOSE},
    {"tpu.transpose", TRANSPOSE},
    {"arith.extf", WIDEN},
    {"arith.truncf", NARROW},
    {"tpu.iota", IOTA},
    {"math.exp", EXP},
    {"math.exp2", UNARY},
    {"math.log", EXP},
    {"math.log1p", EXP},
    {"math.log2", UNARY},
    {"math.tanh", UNARY},
    {"math.rsqrt", UNARY},
    {"math.erf", UNARY},
    {"tpu.reciprocal", UNARY},
    {"arith.divf", DIVIDE},
    {"arith.remf", DIVIDE},
    {"math.sqrt", ROOT},
    {"math.powf", POWER},
    {"math.sin", WAVE},
    {"math.cos", WAVE},
    {"tpu.rotate", ROTATE},
    {"tpu.dynamic_rotate", ROTATE},
    {"tpu.gather", ROTATE},
    {"tpu.dynamic_gather", ROTATE},
    {"vector.broadcast", BROADCAST},
    {"vector.shape_cast", FREE},
    {"vector.extract", FREE},
    {"vector.extract_strided_slice", FREE},
    {"vector.bitcast", FREE},
    {"tpu.bitcast", FREE},
    {"tpu.concatenate", FREE},
    {"tpu.reshape", FREE},
    {"tpu.memref_slice", SLICE},
    {"tpu.memref_squeeze", SAME},
    {"tpu.memref_reshape", SAME},
    {"memref.alloca", ALLOCATE},
    {"scf.yield", FREE},
    {"scf.condition", FREE},
    {"func.return", FREE},
};

/* What a value waited for since its stretch of code began, on the longest way. */
typedef struct {
    uint32_t stretch; /* in which that is so */
    uint16_t products, reduced;
} Way;

/* What is known of a value. Registers of a vector that hold the same are computed once: a row that is repeated, a scalar, the numbers along one dimension. */
typedef struct {
    int64_t value; /* of a memref that is cut to a size of the program's: how many elements */
    bool known;
    bool bounded;               /* not known, but @value at most */
    uint8_t same;               /* bit d: its registers do not change along dimension d */
    bool spread;                /* all lanes hold the same */
    bool guessed;               /* known only by what a list is taken to hold (Guess) */
    uint64_t symbol;            /* not known, but the same as others of this number; 0: nothing is known */
    uint8_t dimension;          /* 1 + the dimension of the grid whose index it is; 0: something else */
    const EchMosaicArray *data; /* of a memref */
    uint16_t from;              /* 1 + the array of the call that it is an element of, or that times @factor; 0: something else */
    int64_t factor;
    uint16_t below;   /* 1 + the array of the call whose element it starts again from 0 at; 0: something else */
    uint16_t held;    /* of a memref: 1 + the kernel's own array of scalars that it is; 0: something else */
    uint16_t carried; /* 1 + which of the values it is that the loop around it hands from trip to trip; 0: none */
    uint16_t summed;  /* such a value, and the element of @from has been added to it */
    bool fixed;       /* made of constants: the compiler knows it */
    uint32_t depth;   /* cycles of the scalar core on the longest way to it since the trip began of the loop around */
    Way way;
} Value;

/* Code of a region, without that of the regions in it. */
typedef struct {
    uint32_t id;
    bool computes, multiplies;
    double copies;
    int64_t rows; /* of its products, at most */
    double products, pushes;
    Way longest;           /* of its values */
    EchKernelAlone within; /* what the regions in it do */
} Stretch;

/* What an array of scalars that nobody knows is taken to hold. The number of a pipeline's steps is as large as it may be: as the list of what each step works
 * on is long. And such a list goes through what it picks from in order, all of it, as those of grouped products do: their rows are sorted. Where the kernel
 * makes that list itself, from the sizes of groups that it adds up to where each begins, all rows are spread evenly over the groups. */
typedef struct {
    int64_t bound;  /* 0, or the length of the shortest list whose index stays below its element */
    bool of_steps;  /* an index that stays below a number that is not known picks from it */
    int64_t blocks; /* 0, or how many things its elements pick from */
    bool summed;    /* a loop adds its elements up */
} Guess;

/* An array of scalars that the kernel writes itself: what is known of its elements. */
typedef struct {
    Value *elements;
    int64_t n;    /* 0: something else than loads and stores of scalars takes it */
    bool written; /* in this step of the grid */
} Held;

typedef struct {
    int64_t index[ECH_MLIR_MAX_RANK]; /* or symbols of what is not known */
    uint32_t rank;
    bool known, named; /* all of them; or each at least by a symbol */
} BlockIndex;

/* A block that the pipeline moves. */
typedef struct {
    uint32_t transform; /* its function; ECH_MLIR_NONE: always the same block */
    const EchMlirType *type;
    size_t array; /* of the call's */
    EchBytes bytes;
    bool input;
    bool single;      /* it has one buffer, by its kernel's wish: nothing hides its copies */
    uint64_t seen;    /* 1 + the last step that was asked for, */
    BlockIndex shown; /* and the block of that step */
} Window;

/* A copy that has been begun and not been waited for, by its semaphore. */
typedef struct {
    uint64_t semaphore; /* 0: none */
    EchBurstTimes done;
} Arrival;

/* An operation as the walk knows it. */
typedef struct {
    Kind kind;
    bool known; /* CONSTANT: @number is its value; COMPARE: the predicate */
    bool dead;  /* nothing uses what it makes: stores of Pallas read what was there before */
    int64_t number;
    uint32_t callee; /* CALL: the function; ECH_MLIR_NONE: there is none of its name */
    uint16_t held;   /* ALLOCATE: 1 + the array of the kernel's own; 0: none yet */
    EchMlirArith arith;
} Step;

typedef struct {
    const EchMlirModule *m;
    Step *steps;         /* of every operation */
    uint32_t *functions; /* those of the module */
    uint32_t n_functions;
    GHashTable *named;        /* the first function of each name */
    Value *values;            /* of the function that is walked: every one numbers its own from 0 */
    Value *frames[MAX_CALLS]; /* those of the functions that it calls, by how deep; NULL until there is a call */
    EchKernelGrid *work;
    double weight;
    uint64_t visits; /* in this step of the grid */
    uint64_t left;   /* visits, of all that may be */
    int64_t *limits; /* of the grid's dimensions, while they are looked for; NULL else */
    bool *open;      /* of the grid's dimensions: the bound is looked for */
    Guess *guesses;  /* of the call's arrays */
    const EchMosaicArray *arrays;
    int64_t rows; /* of the call's first result, where an operand has as many: what sizes of groups add up to; 0: not so */
    Held held[MAX_HELD];
    unsigned n_held;
    unsigned unsure;  /* regions around that are walked once, and may happen never or often */
    uint32_t deepest; /* of the values of this trip (depth) */
    double cycles;    /* of the scalar core since the loop around began, whose trips are as long as their longest way */
    double scalar;    /* of loops that have only those */
    uint64_t others;  /* operations so far that are not the scalar core's alone */
    uint64_t allowed; /* visits in a loop: beyond that its trips are taken to go on as they did */
    unsigned calls;
    Stretch stretch; /* that is walked */
    uint32_t stretches;
    EchBursts *bursts; /* NULL: copies are only counted */
    double multiplied; /* cycles that products have taken so far, by worked() */
    double timed;      /* of worked(), what is in bursts */
    Arrival arrivals[MAX_ARRIVALS];
    unsigned arrived; /* the place in arrivals that is taken next */
} Walk;

static const char *short_name(const char *name)
{
    return g_str_has_prefix(name, "stable_mosaic.") ? name + strlen("stable_mosaic.") : name;
}

static Kind kind_of(const EchMlirModule *m, const EchMlirOp *op)
{
    const char *name = short_name(op->name);
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++)
        if (strcmp(kinds[i].name, name) == 0)
            return kinds[i].kind;
    bool arithmetic = g_str_has_prefix(name, "arith.") || g_str_has_prefix(name, "math.");
    const EchMlirType *type = ech_mlir_result_type(m, op);
    return !arithmetic || !type ? OTHER : type->kind == ECH_MLIR_VECTOR ? ARITHMETIC : SCALAR;
}

/* ---- Scalars ---- */

static Value value_of(const Walk *w, const EchMlirOp *op, uint32_t k)
{
    uint32_t value = ech_mlir_operand(w->m, op, k).value;
    return value == ECH_MLIR_NONE ? (Value){0} : w->values[value];
}

static const EchMlirType *operand_type(const Walk *w, const EchMlirOp *op, uint32_t k)
{
    return ech_mlir_type(w->m, ech_mlir_operand(w->m, op, k).type);
}

static bool is_semaphore(const EchMlirType *type)
{
    return type && type->kind == ECH_MLIR_MEMREF && type->bits == 0;
}

static void set(Walk *w, const EchMlirOp *op, Value value)
{
    for (uint32_t i = 0; i < op->n_results; i++)
        w->values[op->result + i] = i == 0 ? value : (Value){0};
}

/* The index of a dimension stays below what it picks from. */
static void limit(const Walk *w, Value index, int64_t size)
{
    if (index.dimension > 0 && size > 0)
        w->limits[index.dimension - 1] = MIN(w->limits[index.dimension - 1], size);
}

/* What an array's element picks from has so many things. */
static void limit_picked(const Walk *w, Value index, int64_t things)
{
    if (index.from > 0 && things > 0) {
        int64_t *blocks = &w->guesses[index.from - 1].blocks;
        *blocks = *blocks > 0 ? MIN(*blocks, things) : things;
    }
}

/* An index into a list of @n: of a dimension, or of a pipeline's loop, that has as many steps as a number says that nobody knows. */
static void limit_steps(const Walk *w, Value index, Guess *list, int64_t n)
{
    if (index.below > 0) {
        int64_t *bound = &w->guesses[index.below - 1].bound;
        *bound = *bound > 0 ? MIN(*bound, n) : n;
    }
    list->of_steps = list->of_steps || index.below > 0 || (index.dimension > 0 && w->open[index.dimension - 1]);
}

/* An element of an array whose contents are not known. */
static Value guessed_element(const Walk *w, uint16_t array, int64_t at, int64_t n)
{
    const Guess *guess = &w->guesses[array];
    Value value = {.from = (uint16_t)(array + 1), .factor = 1};
    bool listed = guess->of_steps && guess->blocks > 0, sized = guess->summed && w->rows > 0 && n <= INT32_MAX && w->rows <= INT32_MAX;
    value.guessed = value.known = !w->limits && at >= 0 && (guess->bound > 0 || listed || sized);
    if (value.known && (guess->bound > 0 || listed))
        value.value = guess->bound > 0 ? guess->bound : (int64_t)((double)at * (double)guess->blocks / (double)n);
    else if (value.known)
        value.value = (at + 1) * w->rows / n - at * w->rows / n;
    return value;
}

/* Where an operation's indices, from operand @first on, lie in an array of this type; -1: not known. */
static int64_t place_of(const Walk *w, const EchMlirOp *op, uint32_t first, const EchMlirType *type)
{
    int64_t at = 0;
    for (uint32_t i = 0; i < type->rank && at >= 0; i++) {
        Value index = value_of(w, op, first + i);
        bool within = index.known && index.value >= 0 && index.value < type->dims[i] && type->dims[i] <= INT32_MAX && at <= INT32_MAX;
        at = within ? at * type->dims[i] + index.value : -1;
    }
    return at;
}

/* Array @i of scalars that the kernel writes itself, of this type, begins with nothing known. False where there is no such array. */
static bool hold_one(Walk *w, const EchMlirType *type, unsigned i)
{
    if (i >= MAX_HELD || !type || type->kind != ECH_MLIR_MEMREF || type->bits == 0 || !ech_mlir_text_has(w->m, type->space, "smem"))
        return false;
    int64_t n = 1;
    for (uint8_t d = 0; d < type->rank; d++)
        n = type->dims[d] > 0 && type->dims[d] <= MOST_HELD / n ? n * type->dims[d] : MOST_HELD + 1;
    if (n > MOST_HELD)
        return false;
    Held *held = &w->held[i];
    if (!held->elements)
        *held = (Held){.elements = g_new0(Value, (size_t)n), .n = n};
    if (held->written)
        memset(held->elements, 0, (size_t)held->n * sizeof(Value));
    held->written = false;
    return true;
}

/* Those among the kernel's arguments, from @first on. */
static void hold(Walk *w, const EchMlirBlock *block, size_t first)
{
    unsigned n_held = 0;
    for (size_t i = first; block && i < block->n_arguments; i++)
        if (hold_one(w, ech_mlir_type(w->m, g_array_index(w->m->results, uint32_t, block->argument_types + i)), n_held))
            w->values[block->argument + i].held = (uint16_t)++n_held;
    w->n_held = MAX(w->n_held, n_held);
}

/* One that it sets up on its way: each time anew. */
static void hold_local(Walk *w, const EchMlirOp *op, Step *step)
{
    uint16_t held = step->held > 0 ? step->held : (uint16_t)(w->n_held + 1);
    bool holds = hold_one(w, ech_mlir_result_type(w->m, op), held - 1u);
    if (holds && step->held == 0)
        w->n_held = step->held = held;
    set(w, op, (Value){.held = holds ? held : 0});
}

/* What else takes such an array may write it: copies, parts of it. */
static void let_go(Walk *w, const EchMlirOp *op)
{
    for (uint32_t k = 0; k < op->n_operands; k++) {
        uint16_t held = value_of(w, op, k).held;
        if (held > 0)
            w->held[held - 1].n = 0;
    }
}

/* A scalar written to an array of the kernel's own. What may happen never or often leaves nothing known there. */
static void store_scalar(Walk *w, const EchMlirOp *op)
{
    const EchMlirType *type = operand_type(w, op, 1);
    Value stored = value_of(w, op, 0), array = value_of(w, op, 1);
    if (array.held == 0 || !type || type->rank + 2u != op->n_operands)
        return;
    Held *held = &w->held[array.held - 1];
    int64_t at = place_of(w, op, 2, type);
    held->written = true;
    if (at < 0 || at >= held->n)
        memset(held->elements, 0, (size_t)held->n * sizeof(Value));
    else
        held->elements[at] = stored.known && w->unsure == 0 ? (Value){.known = true, .value = stored.value, .guessed = stored.guessed} : (Value){0};
}

/* An element of an array that the call was given. */
static Value load_scalar(const Walk *w, const EchMlirOp *op)
{
    const EchMosaicArray *data = value_of(w, op, 0).data;
    const EchMlirType *type = ech_mlir_type(w->m, ech_mlir_operand(w->m, op, 0).type);
    for (uint32_t i = 0; w->limits && type && i < MIN(type->rank, op->n_operands - 1); i++)
        limit(w, value_of(w, op, i + 1), type->dims[i]);
    uint16_t own = value_of(w, op, 0).held;
    if (own > 0 && type && type->rank + 1u == op->n_operands) {
        int64_t at = place_of(w, op, 1, type);
        return at >= 0 && at < w->held[own - 1].n ? w->held[own - 1].elements[at] : (Value){0};
    }
    if (!data || !type || type->rank + 1u != op->n_operands)
        return (Value){0};
    uint16_t array = (uint16_t)(data - w->arrays);
    if (w->limits && !data->values && type->rank == 1 && type->dims[0] > 0)
        limit_steps(w, value_of(w, op, 1), &w->guesses[array], type->dims[0]);
    int64_t at = place_of(w, op, 1, type);
    if (!data->values)
        return type->rank == 1 ? guessed_element(w, array, at, type->dims[0]) : (Value){0};
    return at >= 0 && (uint64_t)at < data->n ? (Value){.known = true, .value = data->values[at]} : (Value){0};
}

/* A number for what an operation makes of operands that are not known: the same where it is done to the same again. */
static uint64_t symbol_of(const Walk *w, const EchMlirOp *op)
{
    uint64_t symbol = 0x9e3779b97f4a7c15u ^ (uint64_t)(g_str_hash(op->name) + 1u);
    bool known = op->n_operands > 0;
    for (uint32_t k = 0; k < op->n_operands && known; k++) {
        Value value = value_of(w, op, k);
        bool array = operand_type(w, op, k) && operand_type(w, op, k)->kind == ECH_MLIR_MEMREF;
        known = array || value.known || value.symbol != 0;
        uint64_t named = array && value.symbol == 0 ? ech_mlir_operand(w->m, op, k).value : value.symbol;
        uint64_t part = value.known && !array ? (uint64_t)value.value : named;
        symbol = (symbol ^ part) * 0xff51afd7ed558ccdu;
        symbol ^= symbol >> 32 ^ (uint64_t)value.known;
    }
    return known ? MAX(symbol, 1) : 0;
}

/* At most the least of what may be known of either, or the most of both. */
static Value bounded_by(Value a, Value b, bool least)
{
    bool has_a = a.known || a.bounded, has_b = b.known || b.bounded;
    if (!(least ? has_a || has_b : has_a && has_b))
        return (Value){0};
    int64_t value = !has_b ? a.value : !has_a ? b.value : least ? MIN(a.value, b.value) : MAX(a.value, b.value);
    return (Value){.bounded = true, .value = value};
}

/* An element times a number, or moved by something, picks as the element does. */
static void still_picks(const char *name, Value a, Value b, Value *made)
{
    bool product = strcmp(name, "arith.muli") == 0, moved = strcmp(name, "arith.addi") == 0 || strcmp(name, "arith.subi") == 0;
    Value element = a.from > 0 ? a : product || strcmp(name, "arith.addi") == 0 ? b : (Value){0}, other = a.from > 0 ? b : a;
    int64_t factor;
    if (element.from > 0 && (moved || (product && other.known && !other.guessed)) &&
        !__builtin_mul_overflow(element.factor, product ? other.value : 1, &factor) && factor > 0) {
        made->from = element.from;
        made->factor = factor;
    }
    if (moved && b.known && b.value == 0)
        made->below = a.below;
    if (strcmp(name, "arith.addi") == 0 && element.from > 0 && element.factor == 1)
        made->summed = other.carried;
}

/* What one operand settles, whatever the other is: nothing and something, or true or something, of truth values. */
static bool settles(const Walk *w, const EchMlirOp *op, const char *name, Value operand)
{
    const EchMlirType *type = ech_mlir_result_type(w->m, op);
    return operand.known && ((operand.value == 0 && (strcmp(name, "arith.andi") == 0 || strcmp(name, "arith.muli") == 0)) ||
                             (operand.value != 0 && type && type->bits == 1 && strcmp(name, "arith.ori") == 0));
}

static Value computed(const Walk *w, const EchMlirOp *op, const Step *step, Value a, Value b)
{
    const char *name = short_name(op->name);
    Value made = {0};
    if (!(a.known && b.known) && (settles(w, op, name, a) || settles(w, op, name, b)))
        return (Value){.known = true, .value = a.known ? a.value : b.value, .guessed = a.known ? a.guessed : b.guessed};
    if (a.known && b.known && ech_mlir_compute(step->arith, a.value, b.value, &made.value)) {
        made.known = true;
        made.guessed = a.guessed || b.guessed;
    } else if (strcmp(name, "arith.minsi") == 0 || strcmp(name, "arith.maxsi") == 0) {
        return bounded_by(a, b, strcmp(name, "arith.minsi") == 0);
    }
    still_picks(name, a, b, &made);
    return made;
}

/* Whether two numbers compare so. Two that are not known, but the same, do as any other does with itself. */
static Value compared(const Step *step, Value a, Value b)
{
    bool same = !a.known && !b.known && a.symbol != 0 && a.symbol == b.symbol;
    Value result = {.guessed = a.guessed || b.guessed};
    result.known = step->known && (same || (a.known && b.known)) && ech_mlir_compare(step->number, same ? 0 : a.value, same ? 0 : b.value, &result.value);
    if (!result.known && step->known && step->number == 0)
        result.below = b.from;
    return result;
}

/* Zero where an index has come to a number that is not known, else the index: it stays below that number. */
static Value selected(Value condition, Value yes, Value no)
{
    if (condition.known) {
        Value result = condition.value ? yes : no;
        result.guessed = result.guessed || condition.guessed;
        return result;
    }
    Value result = bounded_by(yes, no, false);
    if (condition.below > 0 && yes.known && yes.value == 0)
        result.below = condition.below;
    return result;
}

/* How a scalar is come by: of constants alone, or on how long a way. */
static Value way_of_scalars(Walk *w, const EchMlirOp *op, const Step *step)
{
    Value way = {.fixed = step->kind != LOAD_SCALAR};
    for (uint32_t k = 0; k < op->n_operands; k++) {
        Value operand = value_of(w, op, k);
        way.fixed = way.fixed && operand.fixed;
        way.depth = MAX(way.depth, operand.depth);
    }
    const char *name = short_name(op->name);
    Value last = op->n_operands > 1 ? value_of(w, op, op->n_operands - 1) : (Value){0};
    bool nothing = last.fixed && last.known && last.value == 1 && (g_str_has_prefix(name, "arith.div") || strcmp(name, "arith.muli") == 0);
    if (way.fixed)
        way.depth = 0;
    else if (step->kind != CAST && step->kind != SAME && !nothing)
        way.depth += step->kind == LOAD_SCALAR ? SCALAR_LOAD : 1;
    if (!step->dead)
        w->deepest = MAX(w->deepest, way.depth);
    return way;
}

static void scalar(Walk *w, const EchMlirOp *op, const Step *step)
{
    if (step->kind == CONSTANT) {
        set(w, op, (Value){.known = step->known, .value = step->number, .same = UINT8_MAX, .spread = true, .fixed = true});
        return;
    }
    Value a = value_of(w, op, 0), b = op->n_operands > 1 ? value_of(w, op, 1) : (Value){0}, result = {0};
    Value way = way_of_scalars(w, op, step);
    switch ((int)step->kind) {
    case SCALAR: result = computed(w, op, step, a, b); break;
    case COMPARE: result = compared(step, a, b); break;
    case SELECT: result = selected(a, b, value_of(w, op, 2)); break;
    case CAST: { /* one bit is true or false, and all ones as a signed number */
        const EchMlirType *from = operand_type(w, op, 0);
        result = a;
        if (a.known && from && from->bits == 1 && g_str_has_suffix(op->name, ".extsi"))
            result.value = a.value != 0 ? -1 : 0;
        break;
    }
    case SAME: result = a; break;
    case LOAD_SCALAR: result = load_scalar(w, op); break;
    default: break;
    }
    bool named = step->kind == LOAD_SCALAR ? a.data != NULL : !is_semaphore(ech_mlir_result_type(w->m, op)); /* what the kernel writes itself changes */
    if (!result.known && result.symbol == 0 && named)
        result.symbol = symbol_of(w, op);
    result.fixed = way.fixed;
    result.depth = way.depth;
    set(w, op, result);
}

/* ---- Vectors ---- */

static double rounded(int64_t size, int64_t to)
{
    return size > 0 ? ceil((double)size / (double)to) : 0;
}

/* Registers of 8 by 128 elements that a vector takes, whatever their bits; those that hold the same counted once. */
static double distinct(const EchMlirType *type, uint8_t same)
{
    if (!type || type->kind != ECH_MLIR_VECTOR)
        return 0;
    double n = 1;
    if (type->rank == 1)
        return same & 1 ? 1 : ceil(rounded(type->dims[0], LANES) / SUBLANES);
    for (uint8_t i = 0; i < type->rank; i++)
        n *= same >> i & 1 ? (type->dims[i] > 0) : rounded(type->dims[i], i + 1 == type->rank ? LANES : i + 2 == type->rank ? SUBLANES : 1);
    return n;
}

static double registers(const EchMlirType *type)
{
    return distinct(type, 0);
}

/* Those that it takes in memory, narrow elements packed. */
static double stored(const EchMlirType *type)
{
    return type && type->bits > 1 ? registers(type) * type->bits / 32 : registers(type);
}

/* The register operations that one operation on each element is: as many as its widest operand or result has different registers. */
static double work_of(const Walk *w, const EchMlirOp *op, Value *ret)
{
    const EchMlirType *result = ech_mlir_result_type(w->m, op);
    Value made = {.same = UINT8_MAX, .spread = true};
    double n = 0;
    for (uint32_t k = 0; k < MIN(op->n_operands, 4); k++) {
        const EchMlirType *type = operand_type(w, op, k);
        if (!type || type->kind != ECH_MLIR_VECTOR)
            continue;
        Value value = value_of(w, op, k);
        made.same = result && type->rank == result->rank ? made.same & value.same : 0;
        made.spread = made.spread && value.spread;
        n = MAX(n, distinct(type, value.same));
    }
    *ret = made;
    return MAX(n, distinct(result, made.same));
}

static double elements(const EchMlirType *type)
{
    double n = 1;
    for (uint8_t i = 0; type && i < type->rank; i++)
        n *= (double)MAX(type->dims[i], 0);
    return n;
}

static double volume(const EchKernelGridProduct *p)
{
    return ceil((double)p->m / SUBLANES) * ceil((double)p->k / LANES) * ceil((double)p->n / LANES);
}

/* Cycles about, of a v6e: 8 rows pass through 256 by 256 units in two, 16 rows of the side that they hold are pushed in in one. */
static double product_cycles(const EchKernelGridProduct *p)
{
    double registers = rounded((int64_t)p->k, 16) * rounded((int64_t)p->n, LANES);
    return p->passes * MAX(volume(p) / 2, p->transposed ? 2 * registers : registers);
}

/* A shape that the table has no room for: as many products of the likest one as make its work. */
static void add_to_nearest(EchKernelGrid *work, const EchKernelGridProduct *product)
{
    uint32_t best = 0;
    double least = HUGE_VAL;
    for (uint32_t i = 0; i < work->n_products; i++) {
        const EchKernelGridProduct *p = &work->products[i];
        bool alike = p->lhs_bits == product->lhs_bits && p->rhs_bits == product->rhs_bits && p->is_float == product->is_float && p->passes == product->passes;
        double away = fabs(log((double)p->m / (double)product->m)) + fabs(log((double)p->k / (double)product->k)) +
                      fabs(log((double)p->n / (double)product->n)) + (alike ? 0 : 1000);
        if (away < least) {
            least = away;
            best = i;
        }
    }
    EchKernelGridProduct *to = &work->products[best];
    to->times += product->times * volume(product) / volume(to);
}

/* Ways are compared as they are on a v6e: 192 cycles for a product's result, 137 for a reduction's. */
static unsigned length_of_way(Way way)
{
    return 192u * way.products + 137u * way.reduced;
}

static Way longer(Way a, Way b)
{
    return length_of_way(b) > length_of_way(a) ? b : a;
}

/* The longest of those of operands @from to @to, as far as they are of this stretch. */
static Way way_to(const Walk *w, const EchMlirOp *op, uint32_t from, uint32_t to)
{
    Way way = {.stretch = w->stretch.id};
    for (uint32_t k = from; k < MIN(to, op->n_operands); k++) {
        Way other = value_of(w, op, k).way;
        way = other.stretch == way.stretch ? longer(way, other) : way;
    }
    return way;
}

/* What a product takes @n columns and @k rows of lies the other way: rows of the columns. Where both are as many its dimensions say so. */
static bool is_transposed(const EchMlirModule *m, const EchMlirOp *op, const EchMlirType *rhs, double k, double n)
{
    if (k != n && rhs->rank >= 2)
        return (double)rhs->dims[rhs->rank - 1] == k && (double)rhs->dims[rhs->rank - 2] == n;
    int64_t said = 0;
    return (ech_mlir_integer(m, ech_mlir_find(m, op->attributes, "transpose_rhs"), &said) && said != 0) ||
           ech_mlir_text_has(m, ech_mlir_find(m, op->attributes, "dimension_numbers"), "<[1], [1]");
}

/* The stretch's product: what is added to it besides is not waited for. */
static Way add_to_stretch(Walk *w, const EchMlirOp *op, const EchKernelGridProduct *p, double batch)
{
    Stretch *stretch = &w->stretch;
    double pushes = p->passes * rounded((int64_t)p->k, 16) * rounded((int64_t)p->n, LANES) * (p->transposed ? 2 : 1);
    stretch->rows = MAX(stretch->rows, (int64_t)p->m);
    stretch->products += batch;
    stretch->pushes += pushes * batch;
    Way way = way_to(w, op, 0, 2);
    way.products = (uint16_t)MIN(way.products + 1, UINT16_MAX);
    return longer(way, way_to(w, op, 2, op->n_operands));
}

static Way add_product(Walk *w, const EchMlirOp *op)
{
    const EchMlirType *lhs = operand_type(w, op, 0), *rhs = operand_type(w, op, 1), *result = ech_mlir_result_type(w->m, op);
    if (!lhs || !rhs || !result || lhs->kind != ECH_MLIR_VECTOR || rhs->kind != ECH_MLIR_VECTOR || result->kind != ECH_MLIR_VECTOR || result->rank < 2)
        return (Way){0};
    double m = (double)result->dims[result->rank - 2], n = (double)result->dims[result->rank - 1], batch = m > 0 && n > 0 ? elements(result) / (m * n) : 0;
    double k = batch > 0 ? elements(lhs) / (batch * m) : 0;
    if (!(k >= 1 && m >= 1 && n >= 1) || m > INT32_MAX || n > INT32_MAX || k > INT32_MAX)
        return (Way){0};
    bool precise = lhs->bits == 32 && lhs->is_float && ech_mlir_text_has(w->m, ech_mlir_find(w->m, op->attributes, "precision"), "fp32");
    EchKernelGridProduct product = {.m = (uint64_t)m,
                                    .k = (uint64_t)k,
                                    .n = (uint64_t)n,
                                    .lhs_bits = (uint8_t)MIN(lhs->bits, 64),
                                    .rhs_bits = (uint8_t)MIN(rhs->bits, 64),
                                    .is_float = lhs->is_float,
                                    .passes = precise ? 6 : 1,
                                    .transposed = is_transposed(w->m, op, rhs, k, n)};
    Way way = add_to_stretch(w, op, &product, batch);
    w->multiplied += product_cycles(&product) * batch * w->weight;
    EchKernelGrid *work = w->work;
    work->operations += 2 * m * n * k * batch * w->weight;
    for (uint32_t i = 0; i < work->n_products; i++) {
        EchKernelGridProduct *p = &work->products[i];
        if (p->m == product.m && p->k == product.k && p->n == product.n && p->lhs_bits == product.lhs_bits && p->rhs_bits == product.rhs_bits &&
            p->is_float == product.is_float && p->passes == product.passes && p->transposed == product.transposed) {
            p->times += batch * w->weight;
            return way;
        }
    }
    product.times = batch * w->weight;
    if (work->n_products < ECH_KERNEL_MAX_PRODUCTS)
        work->products[work->n_products++] = product;
    else
        add_to_nearest(work, &product);
    return way;
}

/* Registers combined, then within registers: three rotations along rows, or passes of the cross-lane unit along lanes. True: all lanes hold the result. */
static bool add_reduction(Walk *w, const EchMlirOp *op)
{
    const EchMlirType *from = operand_type(w, op, 0);
    int64_t dims[ECH_MLIR_MAX_RANK];
    size_t n = MIN(ech_mlir_numbers(w->m, ech_mlir_find(w->m, op->attributes, "reduction_dims"), dims, G_N_ELEMENTS(dims)), G_N_ELEMENTS(dims));
    if (!from || from->kind != ECH_MLIR_VECTOR || from->rank == 0)
        return false;
    double in = registers(from), out = in;
    bool along_lanes = n == 0, along_rows = false;
    for (size_t i = 0; i < n; i++) {
        if (dims[i] == from->rank - 1) {
            along_lanes = true;
            out /= MAX(rounded(from->dims[from->rank - 1], LANES), 1);
        } else if (dims[i] == from->rank - 2) {
            along_rows = true;
            out /= MAX(rounded(from->dims[from->rank - 2], SUBLANES), 1);
        } else if (dims[i] >= 0 && dims[i] < from->rank) {
            out /= (double)MAX(from->dims[dims[i]], 1);
        }
    }
    w->work->vector += w->weight * (in - out + (along_rows ? 3 * out : 0));
    w->work->reduced += along_lanes ? w->weight * out : 0;
    return along_lanes;
}

static EchBytes memref_bytes(const EchMlirType *type)
{
    if (!type || type->kind != ECH_MLIR_MEMREF || type->bits == 0)
        return 0;
    EchBytes n = 1;
    for (uint8_t i = 0; i < type->rank; i++)
        n = ech_bytes_mul(n, (EchBytes)MAX(type->dims[i], 0));
    return ech_bytes_mul(n, type->bits) / 8;
}

static bool is_local(const EchMlirModule *m, const EchMlirType *type)
{
    return type && (ech_mlir_text_has(m, type->space, "vmem") || ech_mlir_text_has(m, type->space, "smem") || ech_mlir_text_has(m, type->space, "cmem"));
}

static EchBytes weighted(const Walk *w, EchBytes bytes)
{
    double n = w->weight * (double)bytes;
    return n < 1e18 ? (EchBytes)n : (EchBytes)1e18;
}

/* A part of a memref: the sizes that the program computes are the last operands, one for each dimension that the type leaves open. One that is not known is
 * as large as it may be, at most what it is cut from. */
static Value sliced(Walk *w, const EchMlirOp *op)
{
    const EchMlirType *from = operand_type(w, op, 0), *to = ech_mlir_result_type(w->m, op);
    if (!from || !to || to->kind != ECH_MLIR_MEMREF || from->rank != to->rank)
        return (Value){0};
    for (uint32_t i = 0; w->limits && i < MIN(from->rank, op->n_operands - 1); i++) {
        Value offset = value_of(w, op, i + 1);
        limit_picked(w, offset, offset.factor > 0 && from->dims[i] > 0 ? (from->dims[i] - 1) / offset.factor + 1 : 0);
    }
    if (is_semaphore(to)) {
        bool known = true;
        for (uint32_t i = 1; i < op->n_operands; i++)
            known = known && value_of(w, op, i).known;
        return (Value){.symbol = known ? symbol_of(w, op) : 0};
    }
    uint32_t open = 0, next = 0;
    for (uint8_t i = 0; i < to->rank; i++)
        open += to->dims[i] < 0;
    if (open == 0 || open >= op->n_operands)
        return (Value){0};
    EchBytes n = 1;
    for (uint8_t i = 0; i < to->rank; i++) {
        int64_t size = to->dims[i];
        if (size < 0) {
            Value given = value_of(w, op, op->n_operands - open + next++);
            bool told = given.known || given.bounded;
            if (!told && from->dims[i] < 0)
                return (Value){0};
            w->work->assumed = w->work->assumed || !given.known;
            size = !told ? from->dims[i] : from->dims[i] < 0 ? given.value : MIN(given.value, from->dims[i]);
        }
        n = ech_bytes_mul(n, (EchBytes)MAX(size, 0));
    }
    return (Value){.known = n <= INT64_MAX, .value = (int64_t)n};
}

static EchBytes copied_bytes(const Walk *w, const EchMlirOp *op, uint32_t k)
{
    const EchMlirType *type = operand_type(w, op, k);
    bool open = false;
    for (uint8_t i = 0; i < type->rank; i++)
        open = open || type->dims[i] < 0;
    Value value = value_of(w, op, k);
    return !open ? memref_bytes(type) : value.known ? ech_bytes_mul((EchBytes)MAX(value.value, 0), type->bits) / 8 : 0;
}

/* ---- Copies beside the work ---- */

/* Cycles that what has been walked takes, about: what each part of a kernel is of its whole, whose time is told where the chip is known (a v6e's units here).
 */
static double worked(const Walk *w)
{
    const EchKernelGrid *work = w->work;
    return w->multiplied + (work->vector + work->half) / 4 + work->transcendental + work->copies * ECH_KERNEL_GRID_COPY_CYCLES;
}

static void catch_up(Walk *w)
{
    double now = worked(w);
    ech_bursts_work(w->bursts, now - w->timed);
    w->timed = now;
}

/* A number for semaphores that are the function's value @value. */
static uint64_t named_semaphores(const Walk *w, uint32_t value)
{
    return (uint64_t)1 << 63 | (uint64_t)w->calls << 32 | value;
}

/* The number of the semaphore that is an operation's operand @k; 0: it is not known which of several. */
static uint64_t semaphore_of(const Walk *w, const EchMlirOp *op, uint32_t k)
{
    return is_semaphore(operand_type(w, op, k)) ? value_of(w, op, k).symbol : 0;
}

/* A copy of so many bytes in all begins; who waits for it waits for its semaphore. */
static void begin_copy(Walk *w, const EchMlirOp *op, EchBytes bytes)
{
    if (!w->bursts)
        return;
    uint64_t semaphore = 0;
    for (uint32_t k = 0; k < op->n_operands; k++)
        semaphore = is_semaphore(operand_type(w, op, k)) ? semaphore_of(w, op, k) : semaphore;
    Arrival *arrival = &w->arrivals[w->arrived];
    for (unsigned i = 0; i < MAX_ARRIVALS; i++)
        if (semaphore != 0 && w->arrivals[i].semaphore == semaphore)
            arrival = &w->arrivals[i];
    w->arrived = arrival == &w->arrivals[w->arrived] ? (w->arrived + 1) % MAX_ARRIVALS : w->arrived;
    arrival->semaphore = semaphore;
    catch_up(w);
    ech_bursts_begin(w->bursts, (double)bytes, &arrival->done);
}

static void wait_for_copy(Walk *w, const EchMlirOp *op)
{
    uint64_t semaphore = w->bursts && op->n_operands > 0 ? semaphore_of(w, op, 0) : 0;
    for (unsigned i = 0; semaphore != 0 && i < MAX_ARRIVALS; i++)
        if (w->arrivals[i].semaphore == semaphore) {
            catch_up(w);
            ech_bursts_wait(w->bursts, &w->arrivals[i].done);
            w->arrivals[i].semaphore = 0;
        }
}

/* Copies that the kernel starts by itself: the first operand that is a memref is the source, the next the target. A number among the operands says on which
 * device that target is; as much arrives here as leaves. */
static void add_copy(Walk *w, const EchMlirOp *op)
{
    const EchMlirType *ends[2] = {NULL, NULL};
    EchBytes sizes[2] = {0, 0};
    bool away = false;
    for (uint32_t k = 0, found = 0; k < op->n_operands; k++) {
        const EchMlirType *type = operand_type(w, op, k);
        if (found < 2 && type && type->kind == ECH_MLIR_MEMREF && type->bits > 0) {
            sizes[found] = copied_bytes(w, op, k);
            ends[found++] = type;
        }
        away = away || (type && (type->kind == ECH_MLIR_INTEGER || type->kind == ECH_MLIR_INDEX));
    }
    if (!ends[0] || !ends[1])
        return;
    w->stretch.copies++;
    EchBytes bytes = weighted(w, MIN(sizes[0], sizes[1]));
    if (!is_local(w->m, ends[0]))
        w->work->read = ech_bytes_add(w->work->read, bytes);
    if (!is_local(w->m, ends[1]))
        w->work->written = ech_bytes_add(w->work->written, bytes);
    if (away)
        w->work->sent = ech_bytes_add(w->work->sent, bytes);
    else if (!is_local(w->m, ends[0]) || !is_local(w->m, ends[1]))
        begin_copy(w, op, bytes);
}

/* The numbers along one dimension: different registers along it, or one of the lanes' numbers. */
static Value iota(const Walk *w, const EchMlirOp *op)
{
    int64_t dim = -1;
    if (!ech_mlir_integer(w->m, ech_mlir_find(w->m, op->attributes, "dimension"), &dim) &&
        ech_mlir_numbers(w->m, ech_mlir_find(w->m, op->attributes, "dimensions"), &dim, 1) != 1)
        return (Value){0};
    return dim >= 0 && dim < ECH_MLIR_MAX_RANK ? (Value){.same = (uint8_t) ~(1u << dim)} : (Value){0};
}

/* The same elements under another shape: what is known of dimensions from the last on, as far as they are as long. */
static Value reshaped(const EchMlirType *from, const EchMlirType *to, Value value)
{
    Value made = {.spread = value.spread};
    if (!from || !to || from->kind != ECH_MLIR_VECTOR || to->kind != ECH_MLIR_VECTOR)
        return made;
    for (uint8_t i = 1; i <= MIN(from->rank, to->rank) && from->dims[from->rank - i] == to->dims[to->rank - i]; i++)
        if (value.same >> (from->rank - i) & 1)
            made.same |= (uint8_t)(1u << (to->rank - i));
    return made;
}

/* Of a scalar or a row: a register that is there. Of a column: along the lanes of each row of registers, unless they hold it already, as after a reduction. */
static Value broadcast(Walk *w, const EchMlirType *from, const EchMlirType *to, Value value)
{
    if (!to || to->kind != ECH_MLIR_VECTOR || to->rank == 0 || !from || from->kind != ECH_MLIR_VECTOR || from->rank == 0)
        return (Value){.same = UINT8_MAX, .spread = true};
    Value made = {.spread = value.spread};
    for (uint8_t i = 1; i <= to->rank; i++) {
        bool copied = i > from->rank || (from->dims[from->rank - i] == 1 && to->dims[to->rank - i] > 1);
        if (copied || (value.same >> (from->rank - i) & 1))
            made.same |= (uint8_t)(1u << (to->rank - i));
    }
    if (to->rank > 1 && from->dims[from->rank - 1] == 1 && to->dims[to->rank - 1] > 1) {
        w->work->lanes += value.spread ? 0 : w->weight * distinct(to, made.same);
        made.spread = true;
    }
    return made;
}

/* Instructions that an operation is, of 32-bit registers, from what the compiler's final schedules hold (libtpu 0.0.51, v6e). */
static void add_arithmetic(Walk *w, const EchMlirOp *op, double instructions, double transcendental, Value *ret)
{
    EchKernelGrid *work = w->work;
    const EchMlirType *result = ech_mlir_result_type(w->m, op), *from = operand_type(w, op, 0);
    double n = w->weight * work_of(w, op, ret);
    bool half = result && from && MAX(result->bits, from->bits) == 16;
    *(half ? &work->half : &work->vector) += instructions * n;
    work->converted += half ? n : 0;
    work->transcendental += transcendental * n;
}

static void vector(Walk *w, const EchMlirOp *op, Kind kind, bool dead)
{
    w->others += !dead && kind != FREE && kind != SLICE;
    let_go(w, op);
    EchKernelGrid *work = w->work;
    const EchMlirType *result = ech_mlir_result_type(w->m, op), *from = operand_type(w, op, 0);
    Value first = value_of(w, op, 0), made = {0};
    Way way = way_to(w, op, 0, op->n_operands);
    w->stretch.computes = w->stretch.computes || !(dead || kind == DMA || kind == SLICE || kind == FREE || kind == OTHER);
    switch (dead ? (int)OTHER : (int)kind) {
    case MATMUL: way = add_product(w, op); break;
    case LOAD: work->loaded += w->weight * stored(result); break;
    case STORE: work->stored += w->weight * stored(from); break;
    case DMA: add_copy(w, op); break;
    case REDUCE:
        made.spread = add_reduction(w, op);
        way.reduced = (uint16_t)MIN(way.reduced + made.spread, UINT16_MAX);
        break;
    case TRANSPOSE: work->lanes += 2 * w->weight * stored(from); break;
    case ROTATE: work->lanes += w->weight * stored(from); break;
    case WIDEN: /* an instruction a register made; two become one */
        work->vector += w->weight * distinct(result, first.same);
        made = (Value){.same = first.same, .spread = first.spread};
        break;
    case NARROW:
        work->vector += w->weight * distinct(from, first.same) / 2;
        made = (Value){.same = first.same, .spread = first.spread};
        break;
    case UNARY: add_arithmetic(w, op, 1, 1, &made); break;
    case EXP: add_arithmetic(w, op, 2, 1, &made); break;
    case DIVIDE: add_arithmetic(w, op, 2, 1, &made); break;
    case ROOT: add_arithmetic(w, op, 7, 1, &made); break;
    case POWER: add_arithmetic(w, op, 8, 2, &made); break;
    case WAVE: add_arithmetic(w, op, 94, 2, &made); break;
    case IOTA: made = iota(w, op); break;
    case BROADCAST: made = broadcast(w, from, result, first); break;
    case FREE: made = reshaped(from, result, first); break;
    case SLICE: made = sliced(w, op); break;
    case OTHER: break;
    default: add_arithmetic(w, op, 1, 0, &made); break;
    }
    made.way = way;
    w->stretch.longest = longer(w->stretch.longest, way);
    set(w, op, made);
}

/* ---- Control ---- */

static void walk_region(Walk *w, uint32_t region);

static uint32_t region_of(const Walk *w, const EchMlirOp *op, uint32_t k)
{
    return k < op->n_regions ? g_array_index(w->m->regions, uint32_t, op->regions + k) : ECH_MLIR_NONE;
}

static uint32_t length_of(const EchMlirModule *m, uint32_t region)
{
    uint32_t n = 0;
    for (uint32_t b = region; b != ECH_MLIR_NONE; b = ech_mlir_block(m, b)->next)
        for (uint32_t o = ech_mlir_block(m, b)->first; o != ECH_MLIR_NONE; o = ech_mlir_op(m, o)->next)
            n++;
    return n;
}

#define MAX_CARRIED 64 /* values that a loop hands from one trip to the next */

/* What the last operation of a region hands on, from operand @first: the values that it had when it was walked. Others are not known. */
static void handed_on(const Walk *w, uint32_t region, uint32_t first, Value *ret, uint32_t n)
{
    uint32_t last = ECH_MLIR_NONE;
    for (uint32_t b = region; b != ECH_MLIR_NONE; b = ech_mlir_block(w->m, b)->next)
        for (uint32_t o = ech_mlir_block(w->m, b)->first; o != ECH_MLIR_NONE; o = ech_mlir_op(w->m, o)->next)
            last = o;
    const EchMlirOp *end = ech_mlir_op(w->m, last);
    for (uint32_t i = 0; i < n; i++)
        ret[i] = end && first + i < end->n_operands ? value_of(w, end, first + i) : (Value){0};
}

static void set_all(Walk *w, const EchMlirOp *op, const Value *values, uint32_t n)
{
    for (uint32_t i = 0; i < op->n_results; i++)
        w->values[op->result + i] = i < n ? values[i] : (Value){0};
}

static void branch(Walk *w, const EchMlirOp *op)
{
    Value condition = value_of(w, op, 0), made[MAX_CARRIED];
    w->unsure += !condition.known;
    uint32_t yes = region_of(w, op, 0), no = region_of(w, op, 1), n = MIN(op->n_results, MAX_CARRIED);
    if (!condition.known || condition.guessed)
        w->work->assumed = true;
    w->cycles += condition.fixed ? 0 : w->weight * SCALAR_BRANCH;
    bool taken = condition.known ? condition.value != 0 : length_of(w->m, yes) >= length_of(w->m, no);
    walk_region(w, taken ? yes : no);
    w->unsure -= !condition.known;
    handed_on(w, taken ? yes : no, 0, made, condition.known ? n : 0);
    set_all(w, op, made, condition.known ? n : 0);
}

/* Walks a loop's region with these arguments. */
static void enter(Walk *w, uint32_t region, const Value *arguments, uint32_t n)
{
    const EchMlirBlock *block = ech_mlir_block(w->m, region);
    for (uint32_t i = 0; block && i < block->n_arguments; i++)
        w->values[block->argument + i] = i < n ? arguments[i] : (Value){0};
    walk_region(w, region);
}

/* Trips that are walked: as many as visits allow. The last half of them stand for those that are left. */
static int64_t trips_walked(int64_t trips, uint64_t visits, uint64_t allowed)
{
    return (int64_t)MIN((uint64_t)trips, MAX(allowed / MAX(visits, 1), LEAST_TRIPS));
}

/* A loop's counter is its body's first argument, the others are what it carries. */
static void loop(Walk *w, const EchMlirOp *op)
{
    Value from = value_of(w, op, 0), to = value_of(w, op, 1), step = value_of(w, op, 2), arguments[1 + MAX_CARRIED];
    uint32_t body = region_of(w, op, 0), carried = op->n_operands > 3 ? MIN(op->n_operands - 3, MAX_CARRIED) : 0;
    for (uint32_t i = 0; i < carried; i++)
        arguments[1 + i] = value_of(w, op, 3 + i);
    int64_t far;
    if (!(from.known && to.known && step.known && step.value > 0 && !__builtin_sub_overflow(to.value, from.value, &far) && far <= INT32_MAX)) {
        w->work->assumed = true;
        w->unsure++;
        enter(w, body, NULL, 0);
        w->unsure--;
        set(w, op, (Value){0});
        return;
    }
    w->work->assumed = w->work->assumed || from.guessed || to.guessed || step.guessed;
    int64_t trips = far > 0 ? (far - 1) / step.value + 1 : 0, walked = trips;
    uint64_t allowed = w->allowed, before = w->visits, others = w->others;
    double weight = w->weight, cycles = w->cycles, scalar = w->scalar;
    uint32_t deepest = w->deepest;
    w->cycles = 0;
    w->allowed = allowed / (uint64_t)CLAMP(trips, 1, LEAST_TRIPS);
    for (int64_t i = 0; i < walked && w->visits++ < BUDGET; i++) {
        if (walked < trips && i == walked / 2)
            w->weight = weight * (double)(trips - i) / (double)(walked - i);
        arguments[0] = (Value){.known = true, .value = from.value + i * step.value};
        w->deepest = SCALAR_COUNTER;
        for (uint32_t k = 1; k <= carried; k++)
            arguments[k].carried = (uint16_t)k;
        enter(w, body, arguments, 1 + carried);
        handed_on(w, body, 0, &arguments[1], carried);
        w->cycles += w->weight * (w->deepest + SCALAR_BRANCH);
        for (uint32_t k = 1; k <= carried; k++) {
            arguments[k].depth = 0;
            if (w->limits && arguments[k].summed == k && arguments[k].from > 0)
                w->guesses[arguments[k].from - 1].summed = true;
        }
        if (i == 0)
            walked = trips_walked(trips, w->visits - before, allowed);
    }
    w->scalar = w->others == others ? scalar + w->cycles : w->scalar;
    w->cycles += cycles + weight * SCALAR_BRANCH;
    w->deepest = deepest;
    w->weight = weight;
    w->allowed = allowed;
    for (uint32_t i = 0; i < carried && walked < trips; i++)
        arguments[1 + i] = (Value){0};
    set_all(w, op, &arguments[1], carried);
}

#define MAX_ASKED 1024 /* trips */

/* The region that asks, then the one that works, as long as the answer is known; once each where it is not. */
static void repeat(Walk *w, const EchMlirOp *op)
{
    Value arguments[MAX_CARRIED], answer = {0};
    bool unsure;
    uint32_t ask = region_of(w, op, 0), body = region_of(w, op, 1), carried = MIN(op->n_operands, MAX_CARRIED), handed = MIN(op->n_results, MAX_CARRIED);
    for (uint32_t i = 0; i < carried; i++)
        arguments[i] = value_of(w, op, i);
    for (unsigned trip = 0; trip <= MAX_ASKED && w->visits++ < BUDGET; trip++) {
        enter(w, ask, arguments, carried);
        handed_on(w, ask, 0, &answer, 1);
        unsure = !answer.known;
        if (answer.known && answer.value == 0) {
            handed_on(w, ask, 1, arguments, handed);
            set_all(w, op, arguments, handed);
            return;
        }
        handed_on(w, ask, 1, arguments, handed);
        w->unsure += unsure;
        enter(w, body, arguments, handed);
        w->unsure -= unsure;
        handed_on(w, body, 0, arguments, carried);
        if (!answer.known)
            break;
    }
    w->work->assumed = true;
    set(w, op, (Value){0});
}

static uint32_t function_named(const Walk *w, const char *name)
{
    gpointer function;
    return name && g_hash_table_lookup_extended(w->named, name, NULL, &function) ? GPOINTER_TO_UINT(function) : ECH_MLIR_NONE;
}

static void call(Walk *w, const EchMlirOp *op, uint32_t callee)
{
    if (callee == ECH_MLIR_NONE || w->calls >= MAX_CALLS) {
        set(w, op, (Value){0});
        return;
    }
    uint32_t body = region_of(w, ech_mlir_op(w->m, callee), 0), n = MIN(op->n_results, MAX_CARRIED);
    const EchMlirBlock *block = ech_mlir_block(w->m, body);
    Value *own = w->values, made[MAX_CARRIED];
    if (!w->frames[w->calls])
        w->frames[w->calls] = g_new0(Value, MAX(w->m->n_values, 1u));
    Value *frame = w->frames[w->calls++];
    for (uint32_t i = 0; block && i < block->n_arguments; i++)
        frame[block->argument + i] = i < op->n_operands ? value_of(w, op, i) : (Value){0};
    w->values = frame;
    walk_region(w, body);
    handed_on(w, body, 0, made, n);
    w->values = own;
    w->calls--;
    set_all(w, op, made, n);
}

static void walk_op(Walk *w, uint32_t id)
{
    const EchMlirOp *op = ech_mlir_op(w->m, id);
    Kind kind = w->steps[id].kind;
    const EchMlirType *result = ech_mlir_result_type(w->m, op);
    switch (kind) {
    case IF: branch(w, op); return;
    case FOR: loop(w, op); return;
    case WHILE: repeat(w, op); return;
    case CALL: call(w, op, w->steps[id].callee); return;
    case ALLOCATE: hold_local(w, op, &w->steps[id]); return;
    case SEMAPHORES: set(w, op, (Value){.symbol = named_semaphores(w, op->result)}); return;
    case WAIT:
        wait_for_copy(w, op);
        let_go(w, op);
        w->others++;
        return;
    case STORE_SCALAR: store_scalar(w, op); return;
    case CONSTANT:
    case SCALAR:
    case COMPARE:
    case SELECT:
    case CAST:
    case SAME:
    case LOAD_SCALAR:
        if (kind == CONSTANT || !result || result->kind != ECH_MLIR_VECTOR) {
            scalar(w, op, &w->steps[id]);
            return;
        }
        break;
    case OTHER: /* regions of operations that are not known happen once: tpu.region, tpu.trace */
        let_go(w, op);
        w->others += op->n_regions == 0 && !g_str_has_prefix(short_name(op->name), "tpu.trace");
        set(w, op, (Value){0});
        for (uint32_t i = 0; i < op->n_regions; i++)
            enter(w, region_of(w, op, i), NULL, 0);
        return;
    case MATMUL:
    case LOAD:
    case STORE:
    case DMA:
    case REDUCE:
    case TRANSPOSE:
    case ARITHMETIC:
    case WIDEN:
    case NARROW:
    case UNARY:
    case EXP:
    case DIVIDE:
    case ROOT:
    case POWER:
    case WAVE:
    case IOTA:
    case ROTATE:
    case BROADCAST:
    case SLICE:
    case FREE:
    default: break;
    }
    vector(w, op, kind, w->steps[id].dead);
}

/* What has been counted so far of what stretches of few rows are told apart by. */
static EchKernelAlone counted(const EchKernelGrid *work)
{
    return (EchKernelAlone){.vector = work->vector + work->half, .transcendental = work->transcendental, .loaded = work->loaded, .stored = work->stored};
}

/* A stretch has ended that counts @weight times; it and the regions in it did @done. */
static void end_stretch(EchKernelGrid *work, const Stretch *stretch, const EchKernelAlone *done, double weight)
{
    work->chains += stretch->multiplies ? weight : 0;
    work->copies += stretch->computes ? 0 : weight * stretch->copies;
    if (!stretch->multiplies || stretch->rows > FEW_ROWS)
        return;
    EchKernelAlone *alone = &work->alone;
    alone->stretches += weight;
    bool heads = stretch->longest.products > 1 && stretch->longest.reduced > 0;
    alone->heads += weight * (heads ? stretch->products / stretch->longest.products : 0);
    alone->products += weight * stretch->longest.products;
    alone->reduced += weight * stretch->longest.reduced;
    alone->pushes += weight * stretch->pushes;
    alone->vector += done->vector - stretch->within.vector;
    alone->transcendental += done->transcendental - stretch->within.transcendental;
    alone->loaded += done->loaded - stretch->within.loaded;
    alone->stored += done->stored - stretch->within.stored;
}

static void walk_region(Walk *w, uint32_t region)
{
    Stretch outer = w->stretch;
    EchKernelAlone before = counted(w->work);
    w->stretch = (Stretch){.id = ++w->stretches};
    for (uint32_t b = region; b != ECH_MLIR_NONE; b = ech_mlir_block(w->m, b)->next)
        for (uint32_t o = ech_mlir_block(w->m, b)->first; o != ECH_MLIR_NONE; o = ech_mlir_op(w->m, o)->next) {
            if (w->visits++ >= BUDGET || w->left == 0) {
                w->work->assumed = true;
                w->stretch = outer;
                return;
            }
            w->left--;
            w->stretch.multiplies = w->stretch.multiplies || w->steps[o].kind == MATMUL;
            walk_op(w, o);
        }
    EchKernelAlone done = counted(w->work);
    done.vector -= before.vector;
    done.transcendental -= before.transcendental;
    done.loaded -= before.loaded;
    done.stored -= before.stored;
    end_stretch(w->work, &w->stretch, &done, w->weight);
    outer.within.vector += done.vector;
    outer.within.transcendental += done.transcendental;
    outer.within.loaded += done.loaded;
    outer.within.stored += done.stored;
    w->stretch = outer;
}

/* What computes nothing that is used, from the last operation back. @used: of the scope's values. */
static void mark_dead(Walk *w, uint32_t region, bool *used)
{
    g_autoptr(GArray) order = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (uint32_t b = region; b != ECH_MLIR_NONE; b = ech_mlir_block(w->m, b)->next)
        for (uint32_t o = ech_mlir_block(w->m, b)->first; o != ECH_MLIR_NONE; o = ech_mlir_op(w->m, o)->next)
            g_array_append_val(order, o);
    for (guint k = order->len; k-- > 0;) {
        uint32_t id = g_array_index(order, uint32_t, k);
        const EchMlirOp *op = ech_mlir_op(w->m, id);
        Kind kind = w->steps[id].kind;
        bool needed = op->n_results == 0 || op->n_regions > 0 || kind == OTHER || kind == CALL || kind == STORE || kind == DMA;
        for (uint32_t i = 0; i < op->n_results && !needed; i++)
            needed = used[op->result + i];
        w->steps[id].dead = !needed;
        for (uint32_t i = 0; i < op->n_results; i++)
            used[op->result + i] = false; /* its number is another value's in the region before */
        for (uint32_t i = 0; i < op->n_regions; i++)
            mark_dead(w, region_of(w, op, i), used);
        for (uint32_t i = 0; i < op->n_operands && needed; i++) {
            uint32_t value = ech_mlir_operand(w->m, op, i).value;
            if (value != ECH_MLIR_NONE)
                used[value] = true;
        }
    }
}

/* ---- The grid ---- */

typedef struct {
    int64_t bounds[MAX_GRID];
    size_t rank;
    size_t n_prefetched;
    const EchMosaicArray *arrays; /* operands, then results */
    size_t n_operands, n_arrays;
} Grid;

/* The arguments of the kernel and of its transforms begin alike: the step's indices, then the prefetched arrays. */
static void bind(Walk *w, uint32_t function, const Grid *grid, uint64_t step)
{
    const EchMlirBlock *block = ech_mlir_block(w->m, region_of(w, ech_mlir_op(w->m, function), 0));
    for (uint32_t i = 0; block && i < block->n_arguments; i++)
        w->values[block->argument + i] = (Value){0};
    for (size_t i = grid->rank; i-- > 0 && block;) {
        if (i < block->n_arguments)
            w->values[block->argument + i] = (Value){.known = true, .value = (int64_t)(step % (uint64_t)grid->bounds[i]), .dimension = (uint8_t)(i + 1)};
        step /= (uint64_t)grid->bounds[i];
    }
    /* Without a grid there are no windows: scalars are arrays of the call. */
    size_t n = grid->rank > 0 ? MIN(grid->n_prefetched, grid->n_operands) : grid->n_operands;
    for (size_t i = 0; i < n && block && grid->rank + i < block->n_arguments; i++) {
        const EchMlirType *type = ech_mlir_type(w->m, g_array_index(w->m->results, uint32_t, block->argument_types + grid->rank + i));
        if (i < grid->n_prefetched || (type && ech_mlir_text_has(w->m, type->space, "smem")))
            w->values[block->argument + grid->rank + i].data = &grid->arrays[i];
    }
    for (uint32_t i = 0; block && i < block->n_arguments; i++)
        if (is_semaphore(ech_mlir_type(w->m, g_array_index(w->m->results, uint32_t, block->argument_types + i))))
            w->values[block->argument + i].symbol = named_semaphores(w, block->argument + i);
}

/* Which block a window shows at a step. */
static BlockIndex block_at(Walk *w, const Window *window, const Grid *grid, uint64_t step)
{
    BlockIndex at = {.known = true, .named = true};
    if (window->transform == ECH_MLIR_NONE)
        return at;
    const EchMosaicArray *array = window->array < grid->n_arrays ? &grid->arrays[window->array] : NULL;
    w->visits = 0;
    bind(w, window->transform, grid, step);
    uint32_t body = region_of(w, ech_mlir_op(w->m, window->transform), 0);
    walk_region(w, body);
    uint32_t last = ECH_MLIR_NONE;
    if (body != ECH_MLIR_NONE)
        for (uint32_t o = ech_mlir_block(w->m, body)->first; o != ECH_MLIR_NONE; o = ech_mlir_op(w->m, o)->next)
            last = o;
    const EchMlirOp *end = ech_mlir_op(w->m, last);
    for (uint32_t i = 0; end && i < MIN(end->n_operands, ECH_MLIR_MAX_RANK); i++) {
        Value value = value_of(w, end, i);
        if (w->limits && array && i < array->rank && array->rank == window->type->rank && window->type->dims[i] > 0 && array->dims[i] > 0) {
            int64_t blocks = (int64_t)((array->dims[i] - 1) / (uint64_t)window->type->dims[i] + 1);
            limit(w, value, blocks);
            limit_picked(w, value, value.factor > 0 ? (blocks - 1) / value.factor + 1 : 0);
        }
        at.known = at.known && value.known && !value.guessed;
        at.named = at.named && (value.known || value.symbol != 0);
        at.index[at.rank++] = value.known ? value.value : (int64_t)value.symbol;
    }
    return at;
}

/* The same, for steps that are asked for one after the other: each is the earlier one of a pair once, and the later one once. */
static BlockIndex shown_at(Walk *w, Window *window, const Grid *grid, uint64_t step)
{
    if (window->seen != step + 1) {
        window->shown = block_at(w, window, grid, step);
        window->seen = step + 1;
    }
    return window->shown;
}

static bool same_block(const BlockIndex *a, const BlockIndex *b)
{
    return a->named && b->named && a->rank == b->rank && memcmp(a->index, b->index, a->rank * sizeof(a->index[0])) == 0;
}

/* A block in memory: whole tiles of 8 rows (more where elements are packed) by 128 lanes. */
static EchBytes block_bytes(const EchMlirType *type)
{
    if (!type || type->kind != ECH_MLIR_MEMREF || type->bits == 0)
        return 0;
    EchMlirType padded = *type;
    uint8_t rank = type->rank;
    if (rank > 1 && type->dims[rank - 1] > 0)
        padded.dims[rank - 1] = type->dims[rank - 1] > INT32_MAX ? type->dims[rank - 1] : (type->dims[rank - 1] + LANES - 1) / LANES * LANES;
    return memref_bytes(&padded);
}

static size_t read_windows(const Walk *w, uint32_t kernel, const Grid *grid, Window *ret)
{
    const EchMlirOp *op = ech_mlir_op(w->m, kernel);
    uint32_t list = ech_mlir_find(w->m, op->attributes, "window_params");
    const EchMlirBlock *block = ech_mlir_block(w->m, region_of(w, op, 0));
    size_t n = 0;
    for (; n < MAX_WINDOWS && block; n++) {
        uint32_t params = ech_mlir_element(w->m, list, n);
        size_t array = grid->n_prefetched + n, argument = grid->rank + array;
        /* Without a grid there is no list of them, and what is given in vector memory is brought there whole. */
        if ((params == ECH_MLIR_NONE && (list != ECH_MLIR_NONE || array >= grid->n_arrays)) || argument >= block->n_arguments)
            break;
        const EchMlirType *type = ech_mlir_type(w->m, g_array_index(w->m->results, uint32_t, block->argument_types + argument));
        const char *transform = ech_mlir_string(w->m, ech_mlir_find(w->m, params, "transform_indices"));
        bool moved = type && ech_mlir_text_has(w->m, type->space, "vmem") && !(array < grid->n_arrays && grid->arrays[array].on_chip);
        ret[n] = (Window){.transform = type ? function_named(w, transform) : ECH_MLIR_NONE,
                          .type = type,
                          .array = array,
                          .bytes = moved ? block_bytes(type) : 0,
                          .input = array < grid->n_operands,
                          .single = ech_mlir_text_has(w->m, ech_mlir_find(w->m, params, "pipeline_mode"), "synchronous")};
    }
    return n;
}

/* Steps from one that is walked to the next: prime to every dimension where that can be, so that all indices come up alike. */
static uint64_t stride_for(const Grid *grid, uint64_t steps, uint64_t most)
{
    uint64_t least = (steps - 1) / most + 1;
    for (uint64_t stride = least; stride > 1 && stride < 2 * least + 8; stride++) {
        bool prime = true;
        for (size_t i = 0; i < grid->rank && prime; i++)
            prime = ech_gcd((uint64_t)grid->bounds[i], stride) == 1;
        if (prime)
            return stride;
    }
    return least;
}

/* One step's work, as many times as it stands for. */
static void walk_step(Walk *w, uint32_t kernel, const Grid *grid, uint64_t step, double weight)
{
    w->weight = weight;
    w->visits = 0;
    bind(w, kernel, grid, step);
    uint32_t body = region_of(w, ech_mlir_op(w->m, kernel), 0);
    hold(w, ech_mlir_block(w->m, body), grid->rank + grid->n_arrays);
    w->cycles = w->scalar = 0;
    walk_region(w, body);
    w->work->scalar += w->scalar;
}

/* Blocks that are fetched beside a step, because the next one shows others, or that are stored after it. */
static EchBytes moved_blocks(Walk *w, const Grid *grid, Window *windows, size_t n_windows, uint64_t step, uint64_t steps, double weight, bool input)
{
    EchKernelGrid scratch = {0}, *work = w->work;
    EchBytes moved = 0, *sum = input ? &work->read : &work->written, *alone = input ? &work->first : &work->last;
    w->work = &scratch; /* transforms are the scalar core's */
    w->weight = weight;
    for (size_t i = 0; i < n_windows; i++) {
        Window *window = &windows[i];
        if (window->bytes == 0 || window->input != input)
            continue;
        BlockIndex shown = shown_at(w, window, grid, step);
        work->assumed = work->assumed || !shown.known;
        if (step + 1 < steps) {
            BlockIndex next = shown_at(w, window, grid, step + 1);
            EchBytes changed = same_block(&shown, &next) ? 0 : weighted(w, window->bytes), *to = window->single ? alone : &moved;
            *to = ech_bytes_add(*to, changed);
            *sum = ech_bytes_add(*sum, window->single ? changed : 0);
        }
        if (step == 0) { /* the first step's, or the last one's */
            *alone = ech_bytes_add(*alone, window->bytes);
            *sum = ech_bytes_add(*sum, window->bytes);
        }
    }
    w->work = work;
    *sum = ech_bytes_add(*sum, moved);
    return moved;
}

/* False where that takes more visits than are left. */
static bool walk_grid(Walk *w, uint32_t kernel, const Grid *grid, Window *windows, size_t n_windows, uint64_t steps)
{
    EchKernelGrid first = {0}, *work = w->work;
    w->work = &first;
    walk_step(w, kernel, grid, 0, 1);
    w->work = work;
    uint64_t stride = stride_for(grid, steps, MAX(BUDGET / MAX(w->visits, 1), LEAST_STEPS));
    EchBursts bursts = {0};
    EchBurstTimes fetched, stored = {{0}};
    w->bursts = &bursts;
    w->timed = worked(w);
    for (uint64_t step = 0; step < steps && w->left > 0; step += stride) {
        double weight = (double)MIN(stride, steps - step);
        ech_bursts_begin(&bursts, (double)moved_blocks(w, grid, windows, n_windows, step, steps, weight, true), &fetched);
        walk_step(w, kernel, grid, step, weight);
        ech_bursts_work(&bursts, weight * ECH_KERNEL_GRID_STEP_CYCLES);
        catch_up(w);
        ech_bursts_wait(&bursts, &stored);
        ech_bursts_begin(&bursts, (double)moved_blocks(w, grid, windows, n_windows, step, steps, weight, false), &stored);
        ech_bursts_wait(&bursts, &fetched);
    }
    ech_bursts_wait(&bursts, &bursts.idle);
    w->bursts = NULL;
    work->bursts = bursts.waits;
    return w->left > 0;
}

/* The rows of the call's first result, where an operand has as many; 0: none has. */
static int64_t shared_rows(const Grid *grid)
{
    const EchMosaicArray *result = grid->n_operands < grid->n_arrays ? &grid->arrays[grid->n_operands] : NULL;
    for (size_t i = 0; result && result->rank > 1 && i < grid->n_operands; i++)
        if (grid->arrays[i].rank > 1 && grid->arrays[i].dims[0] == result->dims[0] && result->dims[0] <= INT32_MAX)
            return (int64_t)result->dims[0];
    return 0;
}

static bool no_grid(GError **error)
{
    g_set_error_literal(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "kernel's code: a grid that is not of known size");
    return false;
}

#define DYNAMIC INT64_MIN

/* The bound of the first dimension whose steps may run in any order. */
static uint64_t parallel_bound(const EchMlirModule *m, uint32_t attributes, const Grid *grid)
{
    uint32_t list = ech_mlir_find(m, attributes, "dimension_semantics");
    for (size_t i = 0; i < grid->rank; i++)
        if (grid->bounds[i] > 1 && ech_mlir_text_has(m, ech_mlir_element(m, list, i), "parallel"))
            return (uint64_t)grid->bounds[i];
    return 1;
}

/* The grid's bounds. Those that the program computes are the call's first operands. */
static bool read_bounds(const Walk *w, uint32_t attributes, Grid *grid, GError **error)
{
    grid->rank = ech_mlir_numbers(w->m, ech_mlir_find(w->m, attributes, "iteration_bounds"), grid->bounds, MAX_GRID);
    if (grid->rank > MAX_GRID)
        return no_grid(error);
    for (size_t i = 0; i < grid->rank; i++) {
        if (grid->bounds[i] != DYNAMIC || grid->n_operands == 0)
            continue;
        if (grid->arrays->values && grid->arrays->n == 1 && grid->arrays->values[0] > 0)
            grid->bounds[i] = grid->arrays->values[0];
        grid->arrays++;
        grid->n_operands--;
        grid->n_arrays--;
    }
    return true;
}

/* Whether the kernel is given scalars that nobody knows. */
static bool lacks_scalars(Walk *w, uint32_t kernel, const Grid *grid)
{
    const EchMlirBlock *block = ech_mlir_block(w->m, region_of(w, ech_mlir_op(w->m, kernel), 0));
    bind(w, kernel, grid, 0);
    for (uint32_t i = 0; block && i < block->n_arguments; i++) {
        const EchMosaicArray *data = w->values[block->argument + i].data;
        if (data && !data->values)
            return true;
    }
    return false;
}

/* A bound that nobody knows is taken to be as large as what its index picks from: an array of the kernel's scalars, or the blocks of one of its arrays. What
 * else such scalars are taken to hold comes out of the same look (Guess). */
static bool settle_bounds(Walk *w, uint32_t kernel, Grid *grid, const Window *windows, size_t n_windows, uint64_t *ret_steps, GError **error)
{
    int64_t limits[MAX_GRID];
    bool opens[MAX_GRID] = {false}, open = false;
    for (size_t i = 0; i < grid->rank; i++) {
        if (grid->bounds[i] != DYNAMIC && grid->bounds[i] < 1)
            return no_grid(error);
        limits[i] = grid->bounds[i] == DYNAMIC ? INT64_MAX : grid->bounds[i];
        opens[i] = grid->bounds[i] == DYNAMIC;
        open = open || opens[i];
        grid->bounds[i] = grid->bounds[i] == DYNAMIC ? 1 : grid->bounds[i];
    }
    if (open || lacks_scalars(w, kernel, grid)) {
        EchKernelGrid scratch = {0}, *work = w->work;
        w->work = &scratch;
        w->limits = limits;
        w->open = opens;
        for (size_t i = 0; i < n_windows; i++)
            (void)block_at(w, &windows[i], grid, 0);
        walk_step(w, kernel, grid, 0, 1);
        w->limits = NULL;
        w->work = work;
        work->assumed = open;
    }
    uint64_t steps = 1;
    for (size_t i = 0; i < grid->rank; i++) {
        grid->bounds[i] = open ? limits[i] : grid->bounds[i];
        if (grid->bounds[i] < 1 || (steps = ech_bytes_mul(steps, (uint64_t)grid->bounds[i])) > INT32_MAX)
            return no_grid(error);
    }
    w->allowed = BUDGET / 2 / MIN(steps, LEAST_STEPS);
    *ret_steps = steps;
    return true;
}

static uint32_t kernel_of(const Walk *w)
{
    for (uint32_t i = 0; i < w->n_functions; i++)
        if (ech_mlir_find(w->m, ech_mlir_op(w->m, w->functions[i])->attributes, "dimension_semantics") != ECH_MLIR_NONE ||
            ech_mlir_find(w->m, ech_mlir_op(w->m, w->functions[i])->attributes, "iteration_bounds") != ECH_MLIR_NONE)
            return w->functions[i];
    return w->n_functions > 0 ? w->functions[0] : ECH_MLIR_NONE;
}

/* What each operation is to the walk, and the module's functions. */
static void read_steps(Walk *w)
{
    const EchMlirModule *m = w->m;
    for (uint32_t i = 0; i < m->ops->len; i++) {
        const EchMlirOp *op = ech_mlir_op(m, i);
        Step *step = &w->steps[i];
        step->kind = kind_of(m, op);
        step->arith = ech_mlir_arith(short_name(op->name));
        if (step->kind == CONSTANT || step->kind == COMPARE)
            step->known = ech_mlir_integer(m, ech_mlir_find(m, op->attributes, step->kind == CONSTANT ? "value" : "predicate"), &step->number);
        if (strcmp(short_name(op->name), "func.func") != 0)
            continue;
        w->functions[w->n_functions++] = i;
        const char *name = ech_mlir_string(m, ech_mlir_find(m, op->attributes, "sym_name"));
        if (name && !g_hash_table_contains(w->named, name))
            g_hash_table_insert(w->named, (gpointer)(uintptr_t)name, GUINT_TO_POINTER(i));
    }
    for (uint32_t i = 0; i < m->ops->len; i++)
        if (w->steps[i].kind == CALL)
            w->steps[i].callee = function_named(w, ech_mlir_string(m, ech_mlir_find(m, ech_mlir_op(m, i)->attributes, "callee")));
}

bool ech_mosaic_read(const uint8_t *bytes, size_t n, const EchMosaicArray *arrays, size_t n_operands, size_t n_arrays, uint64_t *visits, EchKernelGrid *ret,
                     GError **error)
{
    g_autoptr(EchMlirModule) m = ech_mlir_read(bytes, n, error);
    if (!m)
        return false;
    g_autofree Step *ops = g_new0(Step, m->ops->len);
    g_autofree uint32_t *functions = g_new(uint32_t, m->ops->len);
    g_autofree Value *values = g_new0(Value, MAX(m->n_values, 1u));
    EchKernelGrid work = {0};
    g_autoptr(GHashTable) named = g_hash_table_new(ech_hash_text, g_str_equal);
    Walk w = {
        .m = m, .steps = ops, .functions = functions, .named = named, .values = values, .work = &work, .left = *visits, .allowed = BUDGET / 2 / LEAST_STEPS};
    read_steps(&w);
    uint32_t kernel = kernel_of(&w);
    if (kernel == ECH_MLIR_NONE) {
        g_set_error_literal(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "kernel's code: no function in it");
        return false;
    }
    uint32_t attributes = ech_mlir_op(m, kernel)->attributes;
    Grid grid = {.arrays = arrays, .n_operands = n_operands, .n_arrays = n_arrays};
    if (!read_bounds(&w, attributes, &grid, error))
        return false;
    g_autofree Guess *guesses = g_new0(Guess, MAX(grid.n_operands, 1u));
    w.arrays = grid.arrays;
    w.guesses = guesses;
    w.rows = shared_rows(&grid);
    g_autofree bool *used = g_new(bool, MAX(m->n_values, 1u));
    for (uint32_t i = 0; i < w.n_functions; i++) {
        memset(used, 0, MAX(m->n_values, 1u) * sizeof(bool));
        mark_dead(&w, region_of(&w, ech_mlir_op(m, functions[i]), 0), used);
    }
    int64_t prefetched = 0;
    if (ech_mlir_integer(m, ech_mlir_find(m, attributes, "scalar_prefetch"), &prefetched) && prefetched > 0)
        grid.n_prefetched = (size_t)MIN(prefetched, MAX_WINDOWS);
    Window windows[MAX_WINDOWS];
    size_t n_windows = read_windows(&w, kernel, &grid, windows);
    uint64_t steps;
    bool settled = settle_bounds(&w, kernel, &grid, windows, n_windows, &steps, error), walked = false;
    if (settled) {
        work.steps = (double)steps;
        work.parallel = parallel_bound(m, attributes, &grid);
        walked = walk_grid(&w, kernel, &grid, windows, n_windows, steps);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(w.frames); i++)
        g_free(w.frames[i]);
    for (size_t i = 0; i < G_N_ELEMENTS(w.held); i++)
        g_free(w.held[i].elements);
    if (!settled)
        return false;
    *visits = walked ? w.left : 0;
    if (walked)
        *ret = work;
    else
        g_set_error_literal(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "kernel's code: its steps take far too long to go through");
    return walked;
}
