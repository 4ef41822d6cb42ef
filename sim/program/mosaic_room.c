/** @file mosaic_room.c  What a Pallas kernel keeps in vector memory. */
#include "sim/program/mosaic_room.h"

#include <string.h>

#define LANES 128
#define SUBLANES 8
#define REGISTERS (64u << 12)  /* bytes: 64 of 8 by 128 words */
#define MAX_CALLS 16           /* regions and calls within one another */
#define MOST_VISITS (1u << 22) /* operations that are looked at, all in all */

/* ---- Sizes ---- */

static int64_t up_to(int64_t n, int64_t unit)
{
    return n > INT64_MAX - unit ? n : (n + unit - 1) / unit * unit;
}

static EchBytes bytes_of(const EchMlirType *type, bool padded)
{
    if (!type)
        return 0;
    EchBytes n = type->bits;
    int64_t packed = type->bits > 0 && type->bits < 32 ? 32 / type->bits : 1;
    for (uint8_t d = 0; d < type->rank; d++) {
        int64_t size = MAX(type->dims[d], 0), rows = packed;
        if (padded && d + 1 == type->rank)
            size = up_to(size, LANES);
        while (rows < SUBLANES && rows < size)
            rows *= 2;
        if (padded && d + 2 == type->rank)
            size = up_to(size, rows);
        n = ech_bytes_mul(n, (EchBytes)size);
    }
    return n / 8;
}

EchBytes ech_room_array_bytes(const EchRoomArray *array)
{
    return ech_bytes_mul(bytes_of(&array->type, true), array->buffers);
}

EchBytes ech_room_array_dense_bytes(const EchRoomArray *array)
{
    return ech_bytes_mul(bytes_of(&array->type, false), array->buffers);
}

static EchBytes sum_of(const EchKernelRoom *room)
{
    EchBytes sum = 0;
    for (uint32_t i = 0; i < room->n_arrays; i++)
        sum = ech_bytes_add(sum, ech_room_array_bytes(&room->arrays[i]));
    return sum;
}

/* ---- The kernel's code ---- */

typedef struct {
    const EchMlirModule *m;
    EchKernelRoom *room;
    uint32_t locals; /* set up so far */
    unsigned depth;
    uint32_t left;  /* visits */
    uint8_t *users; /* of each value, up to two operations */
} Reader;

static const EchMlirBlock *body_of(const EchMlirModule *m, const EchMlirOp *op, uint32_t k)
{
    return k < op->n_regions ? ech_mlir_block(m, g_array_index(m->regions, uint32_t, op->regions + k)) : NULL;
}

static bool is_named(const EchMlirOp *op, const char *name)
{
    return strcmp(g_str_has_prefix(op->name, "stable_mosaic.") ? op->name + strlen("stable_mosaic.") : op->name, name) == 0;
}

/* The first function of this name; NULL for the name: the kernel. */
static const EchMlirOp *function_named(const EchMlirModule *m, const char *name)
{
    const EchMlirOp *first = NULL;
    for (uint32_t i = 0; i < m->ops->len; i++) {
        const EchMlirOp *op = ech_mlir_op(m, i);
        if (!is_named(op, "func.func"))
            continue;
        const char *own = ech_mlir_string(m, ech_mlir_find(m, op->attributes, "sym_name"));
        if (name ? own && strcmp(own, name) == 0
                 : ech_mlir_find(m, op->attributes, "dimension_semantics") != ECH_MLIR_NONE ||
                       ech_mlir_find(m, op->attributes, "iteration_bounds") != ECH_MLIR_NONE)
            return op;
        first = first ? first : op;
    }
    return name ? NULL : first;
}

static const EchMlirType *argument_type(const EchMlirModule *m, const EchMlirBlock *block, uint32_t i)
{
    return ech_mlir_type(m, g_array_index(m->results, uint32_t, block->argument_types + i));
}

static bool is_vector_memory(const EchMlirModule *m, const EchMlirType *type)
{
    return type && type->kind == ECH_MLIR_MEMREF && type->bits > 0 && ech_mlir_text_has(m, type->space, "vmem");
}

/* Whether anything in a function uses one of its values; where it goes too deep or takes too long to say, it is taken to. */
static bool is_used(Reader *r, const EchMlirBlock *block, uint32_t value, unsigned depth)
{
    if (depth >= MAX_CALLS)
        return true;
    for (; block; block = ech_mlir_block(r->m, block->next))
        for (const EchMlirOp *op = ech_mlir_op(r->m, block->first); op; op = ech_mlir_op(r->m, op->next)) {
            if (r->left == 0)
                return true;
            r->left--;
            for (uint32_t k = 0; k < op->n_operands; k++)
                if (ech_mlir_operand(r->m, op, k).value == value)
                    return true;
            for (uint32_t k = 0; k < op->n_regions; k++)
                if (is_used(r, body_of(r->m, op, k), value, depth + 1))
                    return true;
        }
    return false;
}

static void add(Reader *r, const EchRoomArray *array)
{
    if (r->room->n_arrays < ECH_ROOM_MAX_ARRAYS)
        r->room->arrays[r->room->n_arrays++] = *array;
    else
        r->room->more = true;
}

/* ---- Blocks ---- */

/* Which dimension of the grid, of those with several steps, picks the block along each dimension. Returns whether any of them picks anything. */
static bool read_axes(Reader *r, const char *transform, EchRoomArray *array)
{
    memset(array->axis, -1, sizeof array->axis);
    const EchMlirOp *function = transform ? function_named(r->m, transform) : NULL, *last = NULL;
    const EchMlirBlock *block = function ? body_of(r->m, function, 0) : NULL;
    bool moves = false;
    for (uint32_t i = 0; block && i < MIN(r->room->rank, block->n_arguments); i++)
        moves = moves || (r->room->bounds[i] != 1 && is_used(r, block, block->argument + i, 0));
    for (const EchMlirOp *op = block ? ech_mlir_op(r->m, block->first) : NULL; op; op = ech_mlir_op(r->m, op->next))
        last = op;
    /* The index has a number for each dimension of the array; a block may leave out such as have one element. */
    uint32_t rank = last ? MIN(last->n_operands, ECH_MLIR_MAX_RANK) : 0, left_out = rank > array->type.rank ? rank - array->type.rank : 0;
    for (uint32_t d = left_out; d < rank; d++) {
        uint32_t value = ech_mlir_operand(r->m, last, d).value;
        if (value >= block->argument && value < block->argument + MIN(r->room->rank, block->n_arguments) && r->room->bounds[value - block->argument] != 1)
            array->axis[d - left_out] = (int8_t)(value - block->argument);
    }
    return moves;
}

static void add_window(Reader *r, const EchMlirType *type, uint32_t params, bool input, uint32_t number)
{
    const char *transform = ech_mlir_string(r->m, ech_mlir_find(r->m, params, "transform_indices"));
    EchRoomArray array = {.kind = input ? ECH_ROOM_INPUT : ECH_ROOM_OUTPUT, .number = number, .type = *type};
    array.fixed = !read_axes(r, transform, &array);
    array.asked_once = ech_mlir_text_has(r->m, ech_mlir_find(r->m, params, "pipeline_mode"), "synchronous");
    array.buffers = array.fixed || array.asked_once ? 1 : 2;
    add(r, &array);
}

/* ---- What is set up on the way ---- */

static void walk_locals(Reader *r, const EchMlirBlock *block);

/* The bytes of a vector that an operation makes and several use: what is loaded is loaded again instead, and what repeats a number is none. */
static EchBytes kept_for_later(const Reader *r, const EchMlirOp *op)
{
    const EchMlirType *type = ech_mlir_result_type(r->m, op);
    bool made = type && type->kind == ECH_MLIR_VECTOR && !g_str_has_suffix(op->name, "load") && !is_named(op, "vector.broadcast") &&
                !is_named(op, "arith.constant") && !is_named(op, "vector.shape_cast");
    return made && op->result < r->m->n_values && r->users[op->result] > 1 ? bytes_of(type, true) : 0;
}

static void count_users(Reader *r, const EchMlirBlock *block, unsigned depth)
{
    for (; block && depth < MAX_CALLS; block = ech_mlir_block(r->m, block->next))
        for (const EchMlirOp *op = ech_mlir_op(r->m, block->first); op; op = ech_mlir_op(r->m, op->next)) {
            for (uint32_t k = 0; k < op->n_operands; k++) {
                uint32_t value = ech_mlir_operand(r->m, op, k).value;
                bool anew = value < r->m->n_values && (k == 0 || ech_mlir_operand(r->m, op, k - 1).value != value); /* x * x is one */
                if (anew && r->users[value] < 2)
                    r->users[value]++;
            }
            for (uint32_t k = 0; k < op->n_regions; k++)
                count_users(r, body_of(r->m, op, k), depth + 1);
        }
}

/* What a region, or a function that is called, sets up is gone when it ends: of those after one another the one that has most stays. */
static void take_larger(Reader *r, const EchMlirBlock *block, EchKernelRoom *most)
{
    EchKernelRoom *room = r->room;
    uint32_t n = room->n_arrays;
    bool more = room->more;
    r->depth++;
    if (r->depth < MAX_CALLS)
        walk_locals(r, block);
    r->depth--;
    EchKernelRoom within = {.n_arrays = room->n_arrays - n};
    memcpy(within.arrays, room->arrays + n, within.n_arrays * sizeof within.arrays[0]);
    within.bytes = sum_of(&within);
    if (within.bytes > most->bytes)
        *most = within;
    room->n_arrays = n;
    room->more = more || room->more;
}

static void walk_locals(Reader *r, const EchMlirBlock *block)
{
    g_autofree EchKernelRoom *most = g_new0(EchKernelRoom, 1);
    EchBytes results = 0, again = 0;
    bool sums = false;
    for (; block; block = ech_mlir_block(r->m, block->next))
        for (const EchMlirOp *op = ech_mlir_op(r->m, block->first); op; op = ech_mlir_op(r->m, op->next)) {
            const EchMlirType *type = is_named(op, "memref.alloca") ? ech_mlir_result_type(r->m, op) : NULL;
            if (r->left == 0)
                return;
            r->left--;
            if (is_vector_memory(r->m, type)) {
                EchRoomArray array = {.kind = ECH_ROOM_LOCAL, .buffers = 1, .fixed = true, .number = r->locals++, .type = *type};
                memset(array.axis, -1, sizeof array.axis);
                add(r, &array);
            }
            if (is_named(op, "tpu.matmul") || is_named(op, "vector.contract"))
                results = ech_bytes_add(results, bytes_of(ech_mlir_result_type(r->m, op), true));
            sums = sums || is_named(op, "vector.multi_reduction") || is_named(op, "tpu.all_reduce");
            again = MAX(again, kept_for_later(r, op)); /* one goes on where the last ends */
            for (uint32_t k = 0; k < op->n_regions; k++)
                take_larger(r, body_of(r->m, op, k), most);
            const EchMlirOp *callee =
                is_named(op, "func.call") ? function_named(r->m, ech_mlir_string(r->m, ech_mlir_find(r->m, op->attributes, "callee"))) : NULL;
            if (callee)
                take_larger(r, body_of(r->m, callee, 0), most);
        }
    for (uint32_t i = 0; i < most->n_arrays; i++)
        add(r, &most->arrays[i]);
    results = results > 0 || !sums ? results : again;
    if (results > REGISTERS)
        r->room->results = MAX(r->room->results, results);
}

bool ech_mosaic_room(const uint8_t *bytes, size_t n, const EchMosaicArray *arrays, size_t n_operands, size_t n_arrays, EchKernelRoom *ret, GError **error)
{
    g_autoptr(EchMlirModule) m = ech_mlir_read(bytes, n, error);
    if (!m)
        return false;
    const EchMlirOp *kernel = function_named(m, NULL);
    const EchMlirBlock *block = kernel ? body_of(m, kernel, 0) : NULL;
    if (!block) {
        g_set_error_literal(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "kernel's code: no function in it");
        return false;
    }
    g_autofree EchKernelRoom *room = g_new0(EchKernelRoom, 1);
    g_autofree uint8_t *users = g_new0(uint8_t, MAX(m->n_values, 1u));
    Reader r = {.m = m, .room = room, .left = MOST_VISITS, .users = users};
    count_users(&r, block, 0);
    size_t rank = ech_mlir_numbers(m, ech_mlir_find(m, kernel->attributes, "iteration_bounds"), room->bounds, ECH_ROOM_MAX_GRID);
    room->rank = (uint8_t)MIN(rank, ECH_ROOM_MAX_GRID);
    size_t computed = 0; /* bounds, which are the call's first operands */
    for (uint8_t i = 0; i < room->rank; i++)
        computed += room->bounds[i] == INT64_MIN;
    computed = MIN(computed, n_operands);
    int64_t said = 0;
    size_t prefetched = ech_mlir_integer(m, ech_mlir_find(m, kernel->attributes, "scalar_prefetch"), &said) && said > 0 ? (size_t)MIN(said, INT16_MAX) : 0;
    uint32_t list = ech_mlir_find(m, kernel->attributes, "window_params");
    for (uint32_t i = (uint32_t)MIN(rank, INT16_MAX); i < block->n_arguments; i++) {
        const EchMlirType *type = argument_type(m, block, i);
        size_t array = i - rank + computed; /* of the call's */
        if (!is_vector_memory(m, type) || i - rank < prefetched)
            continue;
        if (array >= n_arrays) {
            EchRoomArray scratch = {.kind = ECH_ROOM_SCRATCH, .buffers = 1, .fixed = true, .number = (uint32_t)(array - n_arrays), .type = *type};
            memset(scratch.axis, -1, sizeof scratch.axis);
            if (is_used(&r, block, block->argument + i, 0))
                add(&r, &scratch);
        } else if (!arrays[array].on_chip) {
            bool input = array < n_operands;
            size_t number = input ? array - computed - prefetched : array - n_operands;
            add_window(&r, type, ech_mlir_element(m, list, i - rank - prefetched), input, (uint32_t)number);
        }
    }
    walk_locals(&r, block);
    room->bytes = sum_of(room);
    *ret = *room;
    return true;
}

/* ---- Smaller blocks ---- */

/* Scratch goes by blocks: by one of its own shape, or by those that are as long as one of its dimensions, where only one dimension of the grid has such. */
static bool follows(const EchKernelRoom *room, const EchRoomArray *scratch, uint8_t d, unsigned axis)
{
    bool here = false, elsewhere = false;
    for (uint32_t i = 0; i < room->n_arrays; i++) {
        const EchRoomArray *block = &room->arrays[i];
        if (block->kind >= ECH_ROOM_SCRATCH)
            continue;
        if (block->type.rank == scratch->type.rank && memcmp(block->type.dims, scratch->type.dims, block->type.rank * sizeof(int64_t)) == 0 &&
            block->kind == ECH_ROOM_OUTPUT)
            return block->axis[d] == (int)axis;
        for (uint8_t k = 0; k < block->type.rank; k++)
            if (block->axis[k] >= 0 && block->type.dims[k] == scratch->type.dims[d]) {
                here = here || block->axis[k] == (int)axis;
                elsewhere = elsewhere || block->axis[k] != (int)axis;
            }
    }
    return here && !elsewhere;
}

EchBytes ech_room_halve(EchKernelRoom *room, unsigned axis, int64_t *ret_from)
{
    g_autofree EchKernelRoom *halved = g_memdup2(room, sizeof *room);
    int64_t longest = 0;
    for (uint32_t i = 0; i < room->n_arrays; i++) {
        const EchRoomArray *array = &room->arrays[i];
        for (uint8_t d = 0; d < array->type.rank; d++) {
            bool block = array->kind < ECH_ROOM_SCRATCH && array->axis[d] == (int)axis;
            if (!block && !(array->kind == ECH_ROOM_SCRATCH && follows(room, array, d, axis)))
                continue;
            int64_t least = d + 1 == array->type.rank ? LANES : d + 2 == array->type.rank ? SUBLANES : 1, size = array->type.dims[d];
            if (size % (2 * least) != 0)
                return 0;
            halved->arrays[i].type.dims[d] = size / 2;
            longest = block ? MAX(longest, size) : longest;
        }
    }
    if (longest == 0)
        return 0;
    halved->bytes = sum_of(halved);
    *room = *halved;
    *ret_from = longest;
    return room->bytes;
}
