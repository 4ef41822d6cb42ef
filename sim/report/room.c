/** @file room.c  Kernels that keep more of vector memory than they may, and what they keep it for. */
#include "sim/report/report.h"

#include "sim/base/units.h"
#include "sim/program/mosaic_room.h"
#include "sim/report/text.h"

#include <string.h>

enum { MOST_ROWS = 8 };

/* "48.00M" as XLA writes sizes; 0: none stands there. */
static EchBytes said_size(const char *text)
{
    char *end;
    double n = g_ascii_strtod(text, &end);
    const char *units = "KMGT", *unit = end > text && *end ? strchr(units, *end) : NULL;
    double bytes = n * (unit ? (double)(UINT64_C(1) << 10 * (unit - units + 1)) : 1);
    return end > text && bytes > 0 && bytes < 1e18 ? (EchBytes)bytes : 0;
}

/* "Scoped allocation with size 48.00M and limit 16.00M", "Used 20.35M of 16.00M vmem". */
static bool said_sizes(const char *refusal, EchBytes *ret_needed, EchBytes *ret_limit)
{
    static const char *const forms[][2] = {{"Scoped allocation with size ", " and limit "}, {" in memory space vmem. Used ", " of "}};
    for (size_t i = 0; refusal && i < G_N_ELEMENTS(forms); i++) {
        const char *size = strstr(refusal, forms[i][0]), *limit = size ? strstr(size + strlen(forms[i][0]), forms[i][1]) : NULL;
        *ret_needed = size ? said_size(size + strlen(forms[i][0])) : 0;
        *ret_limit = limit ? said_size(limit + strlen(forms[i][1])) : 0;
        if (*ret_needed > 0 && *ret_limit > 0)
            return true;
    }
    return false;
}

/* Where all of the memory is not enough, it tells no instruction on the line that is kept. */
static bool is_of_all(const char *refusal)
{
    return strstr(refusal, "Exceeded vmem capacity") != NULL;
}

/* Whether the compiler names the instruction: "%matmul.1.", "HLO :: f.1". */
static bool is_named(const char *refusal, const char *name)
{
    for (const char *at = strstr(refusal, name); at; at = strstr(at + 1, name)) {
        char before = at > refusal ? at[-1] : ' ', behind = at[strlen(name)];
        if (!g_ascii_isalnum(before) && before != '_' && before != '.' && !g_ascii_isalnum(behind) && behind != '_')
            return true;
    }
    return false;
}

bool ech_report_crowded(const EchReport *report, EchCrowded *ret)
{
    const EchProgram *p = report->program;
    const EchMemory *vector = ech_device_memory(report->device, "vector");
    if (!p || !vector || vector->kind != ECH_MEM_VECTOR || vector->kernel_reserved == 0 || p->platform != ECH_PLATFORM_TPU)
        return false;
    EchBytes needed = 0, limit = 0;
    bool refused = ech_report_refused(report) && said_sizes(report->refusal, &needed, &limit);
    if (!refused && p->scheduled) /* what a compiler allowed is not written down, but it did */
        return false;
    EchCrowded worst = {.instruction = ECH_NONE};
    for (size_t i = 0; i < p->n_instructions; i++) {
        const EchKernelGrid *grid = ech_program_grid(p, (EchId)i);
        if (!grid || grid->kept == 0)
            continue;
        EchBytes asked = ech_program_asked_bytes(&p->instructions[i], ECH_SPACE_VECTOR);
        EchCrowded kernel = {.instruction = (EchId)i, .kept = grid->kept, .limit = MIN(asked > 0 ? asked : vector->kernel_reserved, vector->capacity)};
        if (refused && is_named(report->refusal, p->instructions[i].name)) {
            worst = kernel;
            worst.limit = limit;
            worst.said = needed;
            break;
        }
        if (refused && is_of_all(report->refusal) && kernel.kept > worst.kept) {
            worst = kernel;
            worst.limit = limit;
            worst.said = needed;
        }
        if (!refused && kernel.kept > kernel.limit && kernel.kept - kernel.limit > worst.kept - worst.limit)
            worst = kernel;
    }
    if (worst.instruction != ECH_NONE)
        *ret = worst;
    return worst.instruction != ECH_NONE;
}

static const char *list_of(const EchRoomArray *array)
{
    static const char *const names[] = {[ECH_ROOM_INPUT] = "in_specs", [ECH_ROOM_OUTPUT] = "out_specs", [ECH_ROOM_SCRATCH] = "scratch_shapes"};
    return array->kind < G_N_ELEMENTS(names) ? names[array->kind] : NULL;
}

static char *name_of(const EchRoomArray *array)
{
    const char *list = list_of(array);
    return list ? g_strdup_printf("%s[%u]", list, array->number) : g_strdup("set up on the way");
}

/* "2 blocks of bf16[512,1024]". */
static char *shape_of(const EchRoomArray *array)
{
    const EchMlirType *type = &array->type;
    g_autoptr(GString) text = g_string_new(array->kind >= ECH_ROOM_SCRATCH ? "" : array->buffers > 1 ? "2 blocks of " : array->fixed ? "" : "1 block of ");
    bool brain = type->is_float && type->bits == 16; /* f16 is none of a TPU's */
    g_string_append_printf(text, "%s%u[", brain ? "bf" : type->is_float ? "f" : "s", type->bits);
    for (uint8_t d = 0; d < type->rank; d++)
        g_string_append_printf(text, "%s%" G_GINT64_FORMAT, d > 0 ? "," : "", type->dims[d]);
    g_string_append_c(text, ']');
    if (array->asked_once && !array->fixed)
        g_string_append(text, ", as its pipeline_mode asks");
    return g_string_free(g_steal_pointer(&text), FALSE);
}

static int compare_arrays(const void *a, const void *b)
{
    const EchRoomArray *x = a, *y = b;
    EchBytes p = ech_room_array_bytes(x), q = ech_room_array_bytes(y);
    if (p != q)
        return p < q ? 1 : -1;
    return x->kind != y->kind ? (int)x->kind - (int)y->kind : (x->number > y->number) - (x->number < y->number);
}

static void append_arrays(GString *out, const EchKernelRoom *room, EchBytes spilled)
{
    g_autofree EchRoomArray *sorted = g_memdup2(room->arrays, room->n_arrays * sizeof *sorted);
    if (room->n_arrays > 0)
        qsort(sorted, room->n_arrays, sizeof *sorted, compare_arrays);
    EchBytes rest = 0;
    for (uint32_t i = 0; i < room->n_arrays; i++) {
        EchBytes bytes = ech_room_array_bytes(&sorted[i]), dense = ech_room_array_dense_bytes(&sorted[i]);
        if (i >= MOST_ROWS) {
            rest = ech_bytes_add(rest, bytes);
            continue;
        }
        g_autofree char *size = ech_format_bytes(bytes), *name = name_of(&sorted[i]), *shape = shape_of(&sorted[i]), *wasted = ech_format_bytes(bytes - dense);
        g_string_append_printf(out, "    %9s  %-18s %s", size, name, shape);
        if (bytes - dense > bytes / 8)
            g_string_append_printf(out, "; %s of that are padding", wasted);
        g_string_append_c(out, '\n');
    }
    g_autofree char *others = ech_format_bytes(rest), *registers = ech_format_bytes(spilled);
    if (rest > 0)
        g_string_append_printf(out, "    %9s  others\n", others);
    if (spilled > 0)
        g_string_append_printf(out, "    %9s  registers that the compiler spills: vectors that are larger than all registers\n", registers);
    g_autofree char *results = ech_format_bytes(room->results);
    if (spilled == 0 && room->results > 0)
        g_string_append_printf(
            out, "    and part of %s of vectors (results of products, or what is summed up and used again) that no registers hold: the compiler spills them\n",
            results);
}

/* One buffer instead of two of as few blocks as make room for @excess. */
static void append_single(GString *out, const EchKernelRoom *room, EchBytes excess, unsigned columns)
{
    g_autofree EchRoomArray *sorted = g_memdup2(room->arrays, room->n_arrays * sizeof *sorted);
    if (room->n_arrays > 0)
        qsort(sorted, room->n_arrays, sizeof *sorted, compare_arrays);
    g_autoptr(GString) names = g_string_new(NULL);
    EchBytes saved = 0;
    for (uint32_t i = room->n_arrays; i-- > 0 && saved < excess;) /* the smallest that is enough by itself */
        if (sorted[i].buffers == 2 && ech_room_array_bytes(&sorted[i]) / 2 >= excess) {
            g_autofree char *name = name_of(&sorted[i]);
            g_string_assign(names, name);
            saved = ech_room_array_bytes(&sorted[i]) / 2;
        }
    for (uint32_t i = 0; i < room->n_arrays && saved < excess; i++)
        if (sorted[i].buffers == 2) {
            g_autofree char *name = name_of(&sorted[i]);
            g_string_append_printf(names, "%s%s", names->len > 0 ? ", " : "", name);
            saved = ech_bytes_add(saved, ech_room_array_bytes(&sorted[i]) / 2);
        }
    if (saved < excess)
        return;
    g_autofree char *left = ech_format_bytes(room->bytes - saved);
    g_autofree char *text =
        g_strdup_printf("one buffer for %s (pl.BlockSpec(..., pipeline_mode=pl.Buffered(1))): %s; nothing hides such copies then", names->str, left);
    ech_text_wrap(out, "    - ", text, columns);
}

/* Blocks half as long, along whatever dimension of the grid leaves least, until there is room. What is spilled becomes less as the blocks do, by whose vectors
 * it comes about. */
static bool append_smaller(GString *out, const EchKernelRoom *room, EchBytes spilled, EchBytes limit, unsigned columns)
{
    g_autofree EchKernelRoom *now = g_memdup2(room, sizeof *now), *best = g_new(EchKernelRoom, 1), *tried = g_new(EchKernelRoom, 1);
    int64_t from[ECH_ROOM_MAX_GRID] = {0};
    unsigned times[ECH_ROOM_MAX_GRID] = {0};
    while (ech_bytes_add(now->bytes, spilled) > limit) {
        unsigned axis = UINT_MAX;
        for (unsigned a = 0; a < room->rank; a++) {
            int64_t length = 0;
            *tried = *now;
            EchBytes bytes = ech_room_halve(tried, a, &length);
            if (bytes == 0 || (axis != UINT_MAX && bytes >= best->bytes))
                continue;
            *best = *tried;
            axis = a;
            from[a] = times[a] == 0 ? length : from[a];
        }
        if (axis == UINT_MAX)
            return false;
        *now = *best;
        times[axis]++;
        spilled /= 2;
    }
    g_autoptr(GString) text = g_string_new("blocks of ");
    const char *joined = "";
    for (unsigned a = 0; a < room->rank; a++) {
        if (times[a] == 0)
            continue;
        g_string_append_printf(text, "%s%" G_GINT64_FORMAT " instead of %" G_GINT64_FORMAT " along dimension %u of the grid", joined, from[a] >> times[a],
                               from[a], a);
        joined = ", and of ";
    }
    g_autofree char *left = ech_format_bytes(now->bytes), *more = ech_format_bytes(spilled);
    g_string_append_printf(text, ": %s%s%s%s", left, spilled > 0 ? ", and up to " : "", spilled > 0 ? more : "", spilled > 0 ? " of registers" : "");
    ech_text_wrap(out, "    - ", text->str, columns);
    return true;
}

void ech_report_append_crowded(GString *out, const EchReport *report, const EchCrowded *crowded, unsigned columns)
{
    const EchProgram *p = report->program;
    const EchMemory *vector = ech_device_memory(report->device, "vector");
    g_autofree EchKernelRoom *room = g_new0(EchKernelRoom, 1);
    if (!ech_program_kernel_room(p, crowded->instruction, room))
        return;
    /* The compiler stops at the first array that has no room, and spills when all of them have. */
    EchBytes spilled = room->bytes <= crowded->limit && crowded->said > room->bytes ? crowded->said - room->bytes : 0,
             needed = ech_bytes_add(room->bytes, spilled);
    if (crowded->limit == vector->capacity && crowded->said > room->bytes)
        spilled = crowded->said - room->bytes;
    g_autofree char *keeps = ech_format_bytes(needed), *may = ech_format_bytes(crowded->limit), *there = ech_format_bytes(vector->capacity);
    g_autofree char *text = g_strdup_printf("%s keeps %s of vector memory (VMEM) while it runs, and may keep %s of the %s that there are:",
                                            p->instructions[crowded->instruction].name, keeps, may, there);
    ech_text_wrap(out, "  ", text, columns);
    append_arrays(out, room, spilled);
    /* Where the compiler has not come to spill, all that it may. */
    EchBytes more = spilled > 0 ? spilled : room->results;
    g_string_append(out, "  What would make room for it\n");
    if (needed < vector->capacity) {
        g_autofree char *most = ech_format_bytes(ech_bytes_add(room->bytes, more)),
                        *up_to = spilled == 0 && more > 0 ? g_strdup_printf(" (%s with all that it may spill)", most) : g_strdup("");
        g_autofree char *asks =
            g_strdup_printf("a higher limit: compiler_params=pltpu.CompilerParams(vmem_limit_bytes=...), %s at the least%s; or for all kernels "
                            "--xla_tpu_scoped_vmem_limit_kib in LIBTPU_INIT_ARGS (here --set device.memories.%s.kernel_reserved=...). XLA "
                            "keeps so much less there from one kernel to the next",
                            keeps, up_to, vector->name);
        ech_text_wrap(out, "    - ", asks, columns);
    }
    bool own = false; /* what no grid sizes */
    for (uint32_t i = 0; i < room->n_arrays; i++)
        own = own || room->arrays[i].kind >= ECH_ROOM_SCRATCH;
    if (!append_smaller(out, room, more, crowded->limit, columns) && own)
        ech_text_wrap(
            out, "    - ",
            "smaller arrays of its own: what it makes room for itself goes by its own parameters (pages, rows or columns of a block), not by its grid",
            columns);
    if (ech_bytes_add(room->bytes, more) > crowded->limit)
        append_single(out, room, ech_bytes_add(room->bytes, more) - crowded->limit, columns);
    bool whole = false;
    for (uint32_t i = 0; i < room->n_arrays; i++)
        whole = whole || (room->arrays[i].kind < ECH_ROOM_SCRATCH && room->rank == 0);
    if (whole)
        ech_text_wrap(out, "    - ",
                      "blocks at all: without a grid and BlockSpecs every operand is one block, the whole array; or memory_space=pl.ANY, and copies of parts",
                      columns);
}
