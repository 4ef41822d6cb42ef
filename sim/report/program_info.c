#include "sim/report/program_info.h"

#include "models/device/device.h"
#include "sim/report/json_out.h"
#include "sim/report/report.h"
#include "sim/report/text.h"

void ech_report_memory_figures(JsonBuilder *b, const EchMemoryAnalysis *m)
{
    ech_json_begin_object(b, "memory_analysis");
    ech_json_add_count(b, "argument", m->argument);
    ech_json_add_count(b, "output", m->output);
    ech_json_add_count(b, "temp", m->temp);
    ech_json_add_count(b, "alias", m->alias);
    ech_json_add_count(b, "constant", m->constant);
    ech_json_add_count(b, "host_argument", m->host_argument);
    ech_json_add_count(b, "host_output", m->host_output);
    ech_json_add_count(b, "host_alias", m->host_alias);
    ech_json_add_count(b, "host_temp", m->host_temp);
    ech_json_add_count(b, "peak", m->peak);
    json_builder_end_object(b);
}

void ech_report_memory_analysis(JsonBuilder *b, const EchProgram *program)
{
    if (!program->assignment)
        return;
    EchMemoryAnalysis m = ech_program_memory_analysis(program);
    ech_report_memory_figures(b, &m);
    ech_json_begin_object(b, "heap");
    for (size_t h = 0; h < program->assignment->n_heaps; h++) {
        g_autofree char *name = g_strdup_printf("%d", program->assignment->heaps[h].space);
        ech_json_begin_object(b, name);
        ech_json_add_count(b, "allocation_bytes", program->assignment->heaps[h].allocation_bytes);
        ech_json_add_count(b, "peak_live_bytes", program->assignment->heaps[h].peak_live_bytes);
        json_builder_end_object(b);
    }
    json_builder_end_object(b);
}

/* Spaces in ascending order, each once; the caller frees. */
static GArray *spaces_of(const EchProgram *program)
{
    GArray *spaces = g_array_new(FALSE, FALSE, sizeof(int32_t));
    const EchProgramAssignment *assignment = program->assignment;
    for (size_t a = 0; a < assignment->n_allocations; a++) {
        int32_t space = assignment->allocations[a].space;
        guint at = 0;
        while (at < spaces->len && g_array_index(spaces, int32_t, at) < space)
            at++;
        if (at == spaces->len || g_array_index(spaces, int32_t, at) != space)
            g_array_insert_val(spaces, at, space);
    }
    return spaces;
}

static void report_assignment(JsonBuilder *b, const EchProgram *program)
{
    ech_report_memory_analysis(b, program);
    ech_json_begin_object(b, "spaces");
    g_autoptr(GArray) spaces = spaces_of(program);
    for (guint k = 0; k < spaces->len; k++) {
        int32_t space = g_array_index(spaces, int32_t, k);
        g_autofree char *name = g_strdup_printf("%d", space);
        ech_json_add_count(b, name, ech_program_space_bytes(program, space));
    }
    json_builder_end_object(b);
}

/* Memory spaces of a copy-start: its result is (destination, source, context). False if the shape is another. */
static bool copy_direction(const EchProgram *program, const EchInstruction *instruction, int32_t *ret_from, int32_t *ret_to)
{
    const EchShape *shape = &program->shapes[instruction->shape];
    if (instruction->opcode != ECH_HLO_COPY_START || shape->n_elements < 2)
        return false;
    *ret_to = program->shapes[program->elements[shape->first_element]].space;
    *ret_from = program->shapes[program->elements[shape->first_element + 1]].space;
    return true;
}

static void report_copies(JsonBuilder *b, const EchProgram *program)
{
    g_autoptr(EchDiag) counts = ech_diag_new();
    for (size_t i = 0; i < program->n_instructions; i++) {
        int32_t from, to;
        if (!copy_direction(program, &program->instructions[i], &from, &to))
            continue;
        g_autofree char *name = g_strdup_printf("%d->%d", from, to);
        ech_diag_note(counts, name, 1);
    }
    ech_json_begin_object(b, "copies");
    size_t n;
    const EchDiagRow *rows = ech_diag_rows(counts, &n);
    for (size_t k = 0; k < n; k++)
        ech_json_add_count(b, rows[k].name, rows[k].count);
    json_builder_end_object(b);
}

static const char *platform_name(EchPlatform platform)
{
    return platform == ECH_PLATFORM_TPU ? "tpu" : platform == ECH_PLATFORM_GPU ? "gpu" : "unknown";
}

void ech_report_program_info(JsonBuilder *b, const EchProgram *program)
{
    if (program->assignment)
        report_assignment(b, program);
    report_copies(b, program);
    ech_json_begin_object(b, "program");
    ech_json_add_text(b, "name", program->name);
    ech_json_add_text(b, "platform", platform_name(program->platform));
    if (program->chip)
        ech_json_add_text(b, "chip", program->chip);
    if (program->assignment_source)
        ech_json_add_text(b, "buffer_assignment", program->assignment_source);
    ech_json_add_bool(b, "scheduled", program->scheduled);
    ech_json_add_count(b, "computations", program->n_computations);
    ech_json_add_count(b, "instructions", program->n_instructions);
    ech_json_add_count(b, "schedule", program->n_flat);
    ech_json_add_count(b, "values", program->n_values);
    ech_json_add_count(b, "donations", program->n_donations);
    json_builder_end_object(b);
}

bool ech_report_program_complete(EchProgram *program, const char *device, EchDiag *diag, GError **error)
{
    if (program->assignment)
        return true;
    if (device && !ech_program_set_chip(program, device, error))
        return false;
    if (program->platform == ECH_PLATFORM_TPU && !program->chip) {
        ech_diag_remark(diag, "no buffer assignment beside the program, and TPU chips differ in theirs: give the chip with --device for memory figures");
        return true;
    }
    EchBytes limit = 0;
    if (device) {
        g_autoptr(EchDevice) loaded = ech_device_load(device, NULL, NULL);
        const EchMemory *hbm = loaded ? ech_device_space(loaded, ECH_SPACE_HBM) : NULL;
        limit = hbm ? hbm->assignment_limit : 0;
    }
    EchProgramAssignment *assignment = ech_program_assign(program, limit, diag, error);
    if (!assignment)
        return false;
    ech_program_set_assignment(program, assignment, "made by echelon");
    return true;
}

static EchDevice *device_of(const EchProgram *program, const char *device, EchBasis *ret, uint64_t *ret_kernels)
{
    const char *name = device ? device : program->chip;
    g_autoptr(EchDevice) loaded = name ? ech_device_load(name, NULL, NULL) : NULL;
    return loaded && ech_report_program_basis(program, loaded, ret, ret_kernels) ? g_steal_pointer(&loaded) : NULL;
}

void ech_report_program_kernels(JsonBuilder *b, const EchProgram *program, const char *device)
{
    EchBasis basis;
    uint64_t kernels;
    g_autoptr(EchDevice) of = device_of(program, device, &basis, &kernels);
    if (!of)
        return;
    ech_json_begin_object(b, "kernels");
    ech_json_add_text(b, "device", of->name);
    ech_json_add_count(b, "count", kernels);
    ech_json_add_int(b, "time_ps", basis.all);
    ech_report_add_basis(b, &basis);
    json_builder_end_object(b);
}

void ech_report_program_kernels_text(GString *text, const EchProgram *program, const char *device, unsigned columns)
{
    EchBasis basis;
    uint64_t kernels;
    g_autoptr(EchDevice) of = device_of(program, device, &basis, &kernels);
    if (!of)
        return;
    g_autofree char *time = ech_format_time(basis.all), *said = ech_report_basis_text(&basis);
    g_autofree char *all =
        g_strdup_printf("kernels, one after the other on %s, loops as often as they run: %s (%" G_GUINT64_FORMAT " in the schedule)", of->name, time, kernels);
    ech_text_wrap(text, "", all, columns);
    ech_text_wrap(text, "  ", said, columns);
}

static void line(GString *text, const char *name, EchBytes bytes)
{
    if (bytes == 0)
        return;
    g_autofree char *size = ech_format_bytes(bytes);
    g_string_append_printf(text, "  %-22s %s\n", name, size);
}

/* XLA's number of a memory, behind what devices call it. Owned by the caller. */
static char *space_name(const EchProgram *program, int32_t space)
{
    static const char *const of_tpu[] = {"hbm", "vector", NULL, "common", NULL, "host", "scalar"}, *const of_gpu[] = {"hbm", "collectives", NULL,
                                                                                                                      NULL,  NULL,          "host"};
    bool gpu = program->platform == ECH_PLATFORM_GPU;
    int32_t n = gpu ? (int32_t)G_N_ELEMENTS(of_gpu) : (int32_t)G_N_ELEMENTS(of_tpu);
    const char *name = space < 0 || space >= n ? NULL : gpu ? of_gpu[space] : of_tpu[space];
    return name ? g_strdup_printf("%s (%d)", name, space) : g_strdup_printf("space %d", space);
}

void ech_report_program_text(GString *text, const EchProgram *program)
{
    g_string_append_printf(text, "program %s (%s%s%s): %zu computations, %zu instructions, %zu in the schedule\n", program->name,
                           platform_name(program->platform), program->chip ? ", " : "", program->chip ? program->chip : "", program->n_computations,
                           program->n_instructions, program->n_flat);
    if (!program->assignment)
        return;
    EchMemoryAnalysis m = ech_program_memory_analysis(program);
    g_string_append_printf(text, "memory (buffer assignment %s)\n", program->assignment_source);
    line(text, "arguments", m.argument);
    line(text, "outputs", m.output);
    line(text, "of both (donated)", m.alias);
    line(text, "constants", m.constant);
    line(text, "temporaries", m.temp);
    line(text, "host arguments", m.host_argument);
    line(text, "host outputs", m.host_output);
    line(text, "host of both", m.host_alias);
    line(text, "host temporaries", m.host_temp);
    line(text, "peak, all memories", m.peak);
    for (size_t h = 0; h < program->assignment->n_heaps; h++) {
        const struct EchHeapFigures *heap = &program->assignment->heaps[h];
        g_autofree char *size = ech_format_bytes(heap->allocation_bytes), *live = ech_format_bytes(heap->peak_live_bytes);
        g_autofree char *space = space_name(program, heap->space);
        g_string_append_printf(text, "  heap of %-14s %s, at most %s live\n", space, size, live);
    }
}
