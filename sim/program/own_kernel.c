/** @file own_kernel.c  Kernels that the program brings along (Pallas): their code found, with what is known of the arrays it works on, and read. */
#include "sim/program/mosaic_room.h"
#include "sim/program/private.h"
#include "sim/program/triton.h"

#include <math.h>
#include <string.h>

enum { MAX_ARRAYS = 128 };

/* A GPU's: Pallas' by Triton, whose code is there; Pallas' by Mosaic and jax-triton's, which are compiled. */
static bool is_triton(const EchInstruction *i)
{
    return strcmp(i->target, "__gpu$xla.gpu.triton") == 0;
}

bool ech_program_is_own_kernel(const EchInstruction *instruction)
{
    return instruction->opcode == ECH_HLO_CUSTOM_CALL && instruction->target &&
           (strcmp(instruction->target, "tpu_custom_call") == 0 || is_triton(instruction) || g_str_has_prefix(instruction->target, "mosaic_gpu") ||
            strcmp(instruction->target, "triton_kernel_call") == 0);
}

const EchKernelGrid *ech_program_grid(const EchProgram *program, EchId instruction)
{
    uint32_t grid = program->instructions[instruction].grid;
    return grid > 0 ? &program->grids[grid - 1] : NULL;
}

EchBytes ech_program_kept_bytes(const EchProgram *program, EchId instruction)
{
    EchBytes used = ech_program_scoped_bytes(&program->instructions[instruction]);
    const EchKernelGrid *grid = ech_program_grid(program, instruction);
    return used > 0 || !grid ? used : grid->kept;
}

/* With the integers of one device. */
typedef struct {
    const char *body;
    size_t body_n, n_arrays, n_operands;
    EchMosaicArray arrays[MAX_ARRAYS];
    GArray *values[MAX_ARRAYS]; /* what arrays[].values point into, held; NULL: nothing */
    bool by_device;
} Code;

static void free_code(gpointer data)
{
    Code *code = data;
    for (size_t k = 0; code && k < code->n_arrays; k++)
        if (code->values[k])
            g_array_unref(code->values[k]);
    g_free(code);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Code, free_code)

static bool same_code(const Code *a, const Code *b)
{
    if (a->by_device != b->by_device || a->body_n != b->body_n || a->n_arrays != b->n_arrays || a->n_operands != b->n_operands ||
        memcmp(a->body, b->body, a->body_n) != 0)
        return false;
    for (size_t i = 0; i < a->n_arrays; i++) {
        const EchMosaicArray *x = &a->arrays[i], *y = &b->arrays[i];
        if (x->on_chip != y->on_chip || x->rank != y->rank || (x->rank > 0 && memcmp(x->dims, y->dims, x->rank * sizeof(uint64_t)) != 0) || x->n != y->n ||
            (x->n > 0 && memcmp(x->values, y->values, x->n * sizeof(int64_t)) != 0))
            return false;
    }
    return true;
}

static void add_array(const EchProgram *p, EchId shape, GArray *values, Code *code)
{
    const EchLayout *layout = ech_program_layout(p, shape);
    if (code->n_arrays == MAX_ARRAYS)
        return;
    code->values[code->n_arrays] = values ? g_array_ref(values) : NULL;
    code->arrays[code->n_arrays++] = (EchMosaicArray){.values = values ? (const int64_t *)(const void *)values->data : NULL,
                                                      .n = values ? values->len : 0,
                                                      .dims = layout ? layout->dims : NULL,
                                                      .rank = layout ? layout->rank : 0,
                                                      .on_chip = layout && layout->space == ECH_SPACE_VECTOR};
}

/* NULL where the kernel's code is not there. */
static Code *code_of(const EchProgram *p, EchId id, EchIntegers *integers)
{
    const EchInstruction *i = &p->instructions[id];
    size_t n;
    const char *body = ech_program_config(i, "custom_call_config.body", &n);
    if (!body || i->n_operands > MAX_ARRAYS)
        return NULL;
    Code *code = g_new0(Code, 1);
    code->body = body;
    code->body_n = n;
    code->n_operands = i->n_operands;
    for (uint32_t k = 0; k < i->n_operands; k++) {
        EchId array = ech_program_operand(p, i, k);
        unsigned by = 0;
        GArray *values = ech_integers_of(integers, array, &by);
        add_array(p, p->instructions[array].shape, values, code);
        code->by_device = code->by_device || (by & ECH_BY_DEVICE);
    }
    for (uint32_t q = 0; q < p->shapes[i->shape].n_positions; q++) {
        EchId shape = ech_program_subshape(p, i->shape, q);
        if (!p->shapes[shape].is_tuple)
            add_array(p, shape, NULL, code);
    }
    return code;
}

/* The rows, depth and columns of the blocks of a ragged product that the compiler has made a grouped kernel of, as it says beside it; its code is text. */
static bool ragged_tiling(const EchInstruction *i, int64_t ret[3])
{
    size_t n;
    const char *attributes = ech_program_attribute(i, "frontend_attributes", &n);
    const char *key = "ragged_dot_tiling=\"", *at = attributes ? g_strstr_len(attributes, (gssize)n, key) : NULL;
    if (!at)
        return false;
    at += strlen(key);
    const char *end = memchr(at, '"', n - (size_t)(at - attributes));
    return end && ech_program_numbers(at, (size_t)(end - at), ret, 3) == 3 && MIN(ret[0], MIN(ret[1], ret[2])) > 0 &&
           MAX(ret[0], MAX(ret[1], ret[2])) <= INT32_MAX;
}

/* Such a kernel: lhs [rows, k], rhs [groups, k, n] to [rows, n], or, for the weights' gradient, lhs [rows, k], rhs [rows, n] to [groups, k, n]. A group's rows
 * need not begin with a block: one that two groups share is worked on for either. Blocks stay where the next step has the same. */
static bool read_ragged(const EchProgram *p, EchId id, EchKernelGrid *ret)
{
    const EchInstruction *i = &p->instructions[id];
    int64_t tile[3];
    if (!ragged_tiling(i, tile) || i->n_operands < 2)
        return false;
    const EchLayout *lhs = ech_program_layout(p, p->instructions[ech_program_operand(p, i, i->n_operands - 2u)].shape),
                    *rhs = ech_program_layout(p, p->instructions[ech_program_operand(p, i, i->n_operands - 1u)].shape), *out = ech_program_layout(p, i->shape);
    if (!lhs || !rhs || !out || lhs->rank != 2 || rhs->rank + out->rank != 5 || (rhs->rank != 2 && rhs->rank != 3))
        return false;
    bool gradient = out->rank == 3;
    double m = (double)MIN((uint64_t)tile[0], lhs->dims[0]), k = (double)MIN((uint64_t)tile[1], lhs->dims[1]), columns = (double)out->dims[out->rank - 1];
    double n = MIN((double)tile[2], columns), groups = (double)(gradient ? out->dims[0] : rhs->dims[0]);
    double blocks = ceil((double)lhs->dims[0] / m), visits = blocks + MAX(groups - 1, 0), across = ceil(columns / n), deep = ceil((double)lhs->dims[1] / k);
    double steps = across * visits * deep, bits[3] = {ech_layout_element_bits(lhs), ech_layout_element_bits(rhs), ech_layout_element_bits(out)};
    double block[3] = {m * k * bits[0] / 8, (gradient ? m : k) * n * bits[1] / 8, (gradient ? k : m) * n * bits[2] / 8};
    if (!(steps >= 1) || steps > INT32_MAX)
        return false;
    bool kept = gradient || deep == 1; /* a block of rows, from one group to the next; that of a group, from one block of rows to the next */
    double fetched[3] = {across * deep * (kept ? blocks : visits),
                         gradient    ? across * deep * blocks
                         : deep == 1 ? across * groups
                                     : steps,
                         gradient ? across * deep * groups : across * blocks};
    const EchLayout *arrays[3] = {lhs, rhs, out};
    EchKernelGrid grid = {.steps = steps, .chains = steps, .parallel = (uint64_t)across, .n_products = 1, .assumed = true};
    for (unsigned a = 0; a < 3; a++) {
        EchBytes moved = arrays[a]->space == ECH_SPACE_VECTOR ? 0 : (EchBytes)(fetched[a] * block[a]), *sum = a < 2 ? &grid.read : &grid.written;
        EchBytes *alone = a < 2 ? &grid.first : &grid.last;
        *sum = ech_bytes_add(*sum, moved);
        *alone = ech_bytes_add(*alone, moved > 0 ? (EchBytes)block[a] : 0);
    }
    grid.products[0] = (EchKernelGridProduct){.m = (uint64_t)(gradient ? k : m),
                                              .k = (uint64_t)(gradient ? m : k),
                                              .n = (uint64_t)n,
                                              .lhs_bits = (uint8_t)bits[0],
                                              .rhs_bits = (uint8_t)bits[1],
                                              .is_float = lhs->dtype[0] != 's' && lhs->dtype[0] != 'u',
                                              .passes = 1,
                                              .times = steps};
    grid.operations = 2.0 * (double)lhs->dims[0] * (double)lhs->dims[1] * columns;
    /* Rows of other groups are masked: of the result, or of both operands, one of which is turned round; a gradient is summed up in 32 bits. */
    double words = 32.0 * 1024;
    grid.vector = steps * (gradient ? m : m / 2 + m * n / 1024);
    grid.half = steps * m * (gradient ? k + n : n) / 1024;
    grid.lanes = gradient ? steps * m * k * bits[0] / words : 0;
    grid.loaded = steps * ((block[0] + block[1]) * 8 / words + (gradient ? k * n / 1024 : m * n * bits[2] / words));
    grid.stored = steps * (gradient ? k * n / 1024 : m * n * bits[2] / words);
    *ret = grid;
    return true;
}

/* Kernels of a program that are read, each with other code or integers once. */
typedef struct {
    EchProgram *program;
    EchIntegers *integers;
    GArray *grids;    /* EchKernelGrid */
    GPtrArray *codes; /* Code of each */
} Reading;

/* The number of the kernel's grid on @device, from 1; 0: it cannot be read. */
static uint32_t read_on(Reading *r, EchId id, uint32_t device, uint64_t *visits)
{
    ech_integers_set_device(r->integers, device);
    g_autoptr(Code) code = code_of(r->program, id, r->integers);
    if (!code)
        return 0;
    for (guint k = 0; k < r->codes->len; k++)
        if (r->codes->pdata[k] && same_code(r->codes->pdata[k], code))
            return k + 1;
    g_autofree char *text = g_strndup(code->body, code->body_n);
    size_t n = 0;
    g_autofree guchar *bytes = g_base64_decode(text, &n);
    EchKernelGrid grid;
    g_autoptr(GError) unread = NULL; /* such a kernel is told of where it is lowered */
    if (!read_ragged(r->program, id, &grid) && !ech_mosaic_read(bytes, n, code->arrays, code->n_operands, code->n_arrays, visits, &grid, &unread))
        return 0;
    grid.by_device = code->by_device;
    EchKernelRoom room;
    if (ech_mosaic_room(bytes, n, code->arrays, code->n_operands, code->n_arrays, &room, NULL)) {
        grid.kept = room.bytes;
        grid.results = room.results;
    }
    g_array_append_val(r->grids, grid);
    g_ptr_array_add(r->codes, g_steal_pointer(&code));
    return r->grids->len;
}

bool ech_program_kernel_room(const EchProgram *program, EchId id, EchKernelRoom *ret)
{
    const EchInstruction *i = &program->instructions[id];
    if (!ech_program_is_own_kernel(i) || is_triton(i))
        return false;
    g_autoptr(EchIntegers) integers = ech_integers_new(program);
    g_autoptr(Code) code = code_of(program, id, integers);
    if (!code)
        return false;
    g_autofree char *text = g_strndup(code->body, code->body_n);
    size_t n = 0;
    g_autofree guchar *bytes = g_base64_decode(text, &n);
    return ech_mosaic_room(bytes, n, code->arrays, code->n_operands, code->n_arrays, ret, NULL);
}

/* "grid_x = 64 : i32" of a dictionary as MLIR writes it. */
static uint64_t said_in(const char *text, size_t n, const char *key)
{
    const char *at = g_strstr_len(text, (gssize)n, key);
    int64_t number;
    at = at ? at + strlen(key) : NULL;
    return at && ech_program_numbers(at, MIN((size_t)(text + n - at), 20u), &number, 1) > 0 && number > 0 ? (uint64_t)number : 1;
}

/* The bytes of a string of such a dictionary, in which what cannot be printed is two digits behind a backslash. */
static GByteArray *unescaped(const char *text, size_t n)
{
    GByteArray *bytes = g_byte_array_sized_new((guint)MIN(n, (size_t)INT32_MAX));
    for (size_t k = 0; k < n && text[k] != '"'; k++) {
        uint8_t byte = (uint8_t)text[k];
        if (byte == '\\' && k + 2 < n && g_ascii_isxdigit(text[k + 1]) && g_ascii_isxdigit(text[k + 2])) {
            byte = (uint8_t)(g_ascii_xdigit_value(text[k + 1]) << 4 | g_ascii_xdigit_value(text[k + 2]));
            k += 2;
        } else if (byte == '\\' && k + 1 < n)
            byte = (uint8_t)text[++k];
        g_byte_array_append(bytes, &byte, 1);
    }
    return bytes;
}

/* The number of a Triton kernel's work, from 1; 0: it cannot be read. */
static uint32_t read_triton(Reading *r, const EchInstruction *i)
{
    size_t n;
    const char *text = ech_program_attribute(i, "backend_config", &n), *key = "ir = \"", *code = text ? g_strstr_len(text, (gssize)n, key) : NULL;
    if (!code)
        return 0;
    const uint64_t launch[3] = {said_in(text, n, "grid_x = "), said_in(text, n, "grid_y = "), said_in(text, n, "grid_z = ")};
    g_autoptr(GByteArray) bytes = unescaped(code + strlen(key), (size_t)(text + n - code) - strlen(key));
    EchTritonWork work;
    if (!ech_triton_read(bytes->data, bytes->len, launch, &work, NULL))
        return 0;
    EchKernelGrid grid = {.steps = (double)launch[0] * (double)launch[1] * (double)launch[2],
                          .operations = work.products,
                          .vector = work.vector / 1024, /* as if in registers of a TPU's */
                          .transcendental = work.transcendental / 1024,
                          .assumed = work.assumed};
    g_array_append_val(r->grids, grid);
    g_ptr_array_add(r->codes, NULL);
    return r->grids->len;
}

static bool has_more_to_do(const EchKernelGrid *a, const EchKernelGrid *b)
{
    if (a->operations != b->operations)
        return a->operations > b->operations;
    return a->vector != b->vector ? a->vector > b->vector : ech_bytes_add(a->read, a->written) > ech_bytes_add(b->read, b->written);
}

/* What it takes to look at a kernel on another device, in visits: some microseconds. */
#define VISITS_OF_A_DEVICE 4096

void ech_program_derive_grids(EchProgram *p)
{
    Reading r = {.program = p, .grids = g_array_new(FALSE, FALSE, sizeof(EchKernelGrid)), .codes = g_ptr_array_new_with_free_func(free_code)};
    g_autoptr(GPtrArray) codes = r.codes;
    g_autoptr(EchIntegers) integers = NULL;
    uint64_t visits = ECH_MOSAIC_VISITS, visits_elsewhere = ECH_MOSAIC_VISITS / 4, n_devices = (uint64_t)p->partitions * p->replicas;
    for (size_t i = 0; i < p->n_instructions; i++) {
        EchInstruction *instruction = &p->instructions[i];
        instruction->grid = 0;
        if (!ech_program_is_own_kernel(instruction))
            continue;
        if (is_triton(instruction)) {
            instruction->grid = read_triton(&r, instruction);
            continue;
        }
        r.integers = integers = integers ? integers : ech_integers_new(p);
        instruction->grid = read_on(&r, (EchId)i, 0, &visits);
        /* Devices may have other steps of it, and wait for each other: the one that has most to do tells the time. */
        bool elsewhere = instruction->grid > 0 && g_array_index(r.grids, EchKernelGrid, instruction->grid - 1).by_device;
        for (uint32_t device = 1; elsewhere && device < MIN(n_devices, UINT32_MAX) && visits_elsewhere > VISITS_OF_A_DEVICE; device++) {
            visits_elsewhere -= VISITS_OF_A_DEVICE;
            uint32_t other = read_on(&r, (EchId)i, device, &visits_elsewhere);
            if (other > 0 && has_more_to_do(&g_array_index(r.grids, EchKernelGrid, other - 1), &g_array_index(r.grids, EchKernelGrid, instruction->grid - 1)))
                instruction->grid = other;
        }
    }
    g_free(p->grids);
    p->grids = (EchKernelGrid *)(void *)g_array_free(r.grids, FALSE);
}

/* Whether a kernel of the program's own is given what one of its parameters holds or what is computed of it, or a conditional goes by that. */
static bool goes_by_arguments(const EchProgram *p)
{
    g_autoptr(EchIntegers) integers = ech_integers_new(p);
    for (size_t i = 0; i < p->n_instructions; i++) {
        const EchInstruction *instruction = &p->instructions[i];
        if (instruction->opcode == ECH_HLO_WHILE && ech_program_trips_given(p, (EchId)i))
            return true;
        uint32_t n = ech_program_is_own_kernel(instruction) ? instruction->n_operands : instruction->opcode == ECH_HLO_CONDITIONAL ? 1 : 0;
        for (uint32_t k = 0; k < MIN(n, instruction->n_operands); k++) {
            unsigned by;
            if (ech_integers_of(integers, ech_program_operand(p, instruction, k), &by) && (by & ECH_BY_ARGUMENT))
                return true;
        }
    }
    return false;
}

bool ech_program_set_arguments(EchProgram *p, const GPtrArray *texts)
{
    const EchComputation *entry = &p->computations[p->entry];
    bool any = false;
    for (uint32_t i = entry->first; i < entry->first + entry->n; i++) {
        EchInstruction *parameter = &p->instructions[i];
        const char *text = NULL;
        if (parameter->opcode == ECH_HLO_PARAMETER && parameter->number >= 0 && (uint64_t)parameter->number < texts->len)
            text = texts->pdata[parameter->number];
        if (!text)
            continue;
        GBytes *kept = g_bytes_new(text, strlen(text)); /* where programs that are made of this one find it, too */
        g_ptr_array_add(p->keep, kept);
        parameter->literal = g_bytes_get_data(kept, NULL);
        parameter->literal_n = (uint32_t)MIN(strlen(text), (size_t)UINT32_MAX);
        any = true;
    }
    if (!any || !goes_by_arguments(p))
        return false;
    ech_program_derive_grids(p);
    return true;
}
