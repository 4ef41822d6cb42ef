#include "sim/import/xla_folders.h"

#include "models/device/device.h"
#include "models/kernel/gpu.h"
#include "sim/base/hash.h"
#include "sim/import/json_stream.h"

#include <string.h>

enum { MOST_FOLDERS = 4096, MOST_NOTES = 1 << 20, MOST_SAID = 4, MOST_LOOPS = 64 };

/* Beside the capture. */
typedef struct {
    char *path;
    int64_t number, written_ns; /* -1: not told */
} Folder;

/* Of an instruction. */
typedef struct {
    EchId instruction;
    const EchOp *op;
    uint64_t times; /* that one run of the program runs it; 0: not known */
    uint64_t parts; /* kernels that it launches each time; 0: not known */
    bool sorts, launched;
    GArray *arguments; /* EchXlaArgument; NULL: not asked for yet */
} Kernel;

/* A module of which something was launched. */
typedef struct {
    EchId module;
    uint64_t number, launches;
    EchImport *import; /* of its folder; NULL: there is none */
    const char *path;  /* of that */
    EchTrace *trace;
    GHashTable *kernels; /* of every instruction: name -> Kernel */
    GString *wrong;      /* why nothing of it counts, of the first folder that was tried; "": nothing is wrong */
} Program;

struct EchXlaFolders {
    char *path, *device;
    uint64_t clock_ns;
    GArray *folders;     /* Folder, by name; NULL: not looked for yet */
    GPtrArray *programs; /* in the order of their first launches */
    GHashTable *index;   /* Program by itself */
};

static void clear_folder(gpointer data)
{
    g_free(((Folder *)data)->path);
}

static void free_kernel(gpointer data)
{
    Kernel *kernel = data;
    g_clear_pointer(&kernel->arguments, g_array_unref);
    g_free(kernel);
}

static void forget(Program *program)
{
    g_clear_pointer(&program->kernels, g_hash_table_unref);
    g_clear_pointer(&program->trace, ech_trace_unref);
    g_clear_pointer(&program->import, ech_import_free);
    program->path = NULL;
}

static void free_program(gpointer data)
{
    Program *program = data;
    forget(program);
    g_string_free(program->wrong, TRUE);
    g_free(program);
}

static guint program_hash(gconstpointer data)
{
    const Program *program = data;
    return ech_hash_pair(program->number, program->module);
}

static gboolean program_equal(gconstpointer a, gconstpointer b)
{
    const Program *x = a, *y = b;
    return x->number == y->number && x->module == y->module;
}

EchXlaFolders *ech_xla_folders_new(const char *path, uint64_t clock_ns, const char *device)
{
    EchXlaFolders *self = g_new0(EchXlaFolders, 1);
    self->path = g_strdup(path);
    self->clock_ns = clock_ns;
    self->device = g_strdup(device);
    self->programs = g_ptr_array_new_with_free_func(free_program);
    self->index = g_hash_table_new(program_hash, program_equal);
    return self;
}

void ech_xla_folders_free(EchXlaFolders *self)
{
    if (!self)
        return;
    g_clear_pointer(&self->folders, g_array_unref);
    g_hash_table_unref(self->index);
    g_ptr_array_unref(self->programs);
    g_free(self->path);
    g_free(self->device);
    g_free(self);
}

/* ---- what lies beside ---- */

/* Of program.json: which module of its process it was, and when it was written. Anything but such notes says neither. */
static void read_notes(Folder *folder)
{
    g_autofree char *path = g_build_filename(folder->path, "program.json", NULL);
    g_autoptr(EchSource) file = g_file_test(path, G_FILE_TEST_IS_REGULAR) ? ech_source_open(path, NULL) : NULL;
    g_autoptr(GBytes) bytes = file ? ech_source_bytes(file, MOST_NOTES, NULL) : NULL;
    gsize n = 0;
    const uint8_t *data = bytes ? g_bytes_get_data(bytes, &n) : NULL;
    g_autoptr(EchSource) source = data ? ech_source_new_memory(data, n, NULL) : NULL;
    g_autoptr(EchJson) json = source ? ech_json_new(source) : NULL;
    if (!json || ech_json_next(json) != ECH_JSON_OBJECT)
        return;
    while (ech_json_next(json) == ECH_JSON_KEY) {
        const char *key = ech_json_text(json, NULL);
        int64_t *into = strcmp(key, "program_id") == 0 ? &folder->number : strcmp(key, "written_unix_ns") == 0 ? &folder->written_ns : NULL;
        if (!into) {
            if (!ech_json_skip(json))
                return;
            continue;
        }
        size_t length;
        EchJsonToken token = ech_json_next(json);
        const char *text = token == ECH_JSON_NUMBER ? ech_json_text(json, &length) : NULL;
        if (!text || !ech_json_parse_i64(text, length, into))
            return;
    }
}

static gint by_path(gconstpointer a, gconstpointer b)
{
    return strcmp(((const Folder *)a)->path, ((const Folder *)b)->path);
}

/* PREFIX.PID.NAME of PREFIX.PID.pretend. */
static void look_beside(EchXlaFolders *self)
{
    self->folders = g_array_new(FALSE, TRUE, sizeof(Folder));
    g_array_set_clear_func(self->folders, clear_folder);
    g_autofree char *base = self->path ? g_path_get_basename(self->path) : g_strdup("");
    if (g_str_has_suffix(base, ".gz"))
        base[strlen(base) - 3] = '\0';
    if (!g_str_has_suffix(base, ".pretend"))
        return;
    base[strlen(base) - strlen("pretend")] = '\0';
    g_autofree char *parent = g_path_get_dirname(self->path);
    g_autoptr(GDir) dir = g_dir_open(parent, 0, NULL);
    for (const char *name = dir ? g_dir_read_name(dir) : NULL; name && self->folders->len < MOST_FOLDERS; name = g_dir_read_name(dir)) {
        if (!g_str_has_prefix(name, base))
            continue;
        Folder folder = {g_build_filename(parent, name, NULL), -1, -1};
        if (g_file_test(folder.path, G_FILE_TEST_IS_DIR))
            read_notes(&folder);
        if (folder.number >= 0)
            g_array_append_val(self->folders, folder);
        else
            clear_folder(&folder);
    }
    g_array_sort(self->folders, by_path);
}

/* ---- a program's kernels ---- */

static void add_kernels(Program *program)
{
    const EchOp *ops = ech_trace_ops(program->trace);
    struct {
        size_t end;
        uint64_t times;
    } loops[MOST_LOOPS] = {{SIZE_MAX, 1}};
    size_t depth = 0;
    for (size_t i = 0; i < ech_trace_n_ops(program->trace); i++) {
        while (depth > 0 && i >= loops[depth].end)
            depth--;
        uint64_t times = loops[depth].times;
        if (ops[i].kind == ECH_OP_LOOP && depth + 1 < MOST_LOOPS) {
            loops[++depth].end = i + 1 + ops[i].target;
            loops[depth].times = ops[i].bytes_origin == ECH_ASSUMED ? 0 : ech_bytes_mul(times, ops[i].bytes);
        }
        const char *name = ech_trace_string(program->trace, ops[i].name);
        Kernel *kernel = ops[i].kind == ECH_OP_KERNEL ? g_hash_table_lookup(program->kernels, name) : NULL;
        if (!kernel)
            continue;
        EchGpuLaunch launch;
        bool known = ops[i].launch != ECH_NONE && ech_gpu_launch_parse(ech_trace_string(program->trace, ops[i].launch), &launch);
        if (kernel->op) { /* of a computation that is called again: without its arrays */
            kernel->times = kernel->times > 0 && times > 0 ? ech_bytes_add(kernel->times, times) : 0;
            continue;
        }
        kernel->op = &ops[i];
        kernel->times = times;
        kernel->sorts = known && launch.kind == ECH_GPU_SORT;
    }
}

/* Whether @folder is @program's; if so it is read and lowered. Else program->wrong says why, if it looked as if it were. */
static bool load(EchXlaFolders *self, Program *program, const char *module, const Folder *folder)
{
    if (folder->written_ns < 0 || (uint64_t)folder->written_ns < self->clock_ns) {
        g_string_printf(program->wrong, "%s was written before the capture began", folder->path);
        return false;
    }
    g_autofree char *path = g_build_filename(folder->path, "program.hlo.txt.gz", NULL);
    const EchImportOptions options = {.device = self->device};
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_import_file(path, "hlo", &options, &error);
    if (!import) {
        g_string_assign(program->wrong, error->message);
        return false;
    }
    if (strcmp(import->program->name, module) != 0) {
        g_string_printf(program->wrong, "%s is of %s", folder->path, import->program->name);
        return false;
    }
    if (!import->program->assignment) {
        EchProgramAssignment *made = ech_program_assign(import->program, 0, import->diag, &error);
        if (made)
            ech_program_set_assignment(import->program, made, "made by echelon");
    }
    g_autoptr(EchDevice) device = self->device ? ech_device_load(self->device, NULL, NULL) : NULL;
    const EchLowerOptions lowering = {.loop_trips = 1};
    program->trace = import->program->assignment ? ech_program_lower(import->program, device, &lowering, import->diag, &error) : NULL;
    if (!program->trace) {
        g_string_printf(program->wrong, "%s: %s", folder->path, error->message);
        return false;
    }
    program->import = g_steal_pointer(&import);
    program->path = folder->path;
    program->kernels = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, free_kernel);
    for (size_t i = 0; i < program->import->program->n_instructions; i++) {
        Kernel *kernel = g_new0(Kernel, 1);
        kernel->instruction = (EchId)i;
        g_hash_table_insert(program->kernels, g_strdup(program->import->program->instructions[i].name), kernel);
    }
    add_kernels(program);
    return true;
}

static Program *program_of(EchXlaFolders *self, const EchXlaLaunch *launch, const char *module)
{
    const Program key = {.module = launch->module, .number = launch->number};
    Program *program = g_hash_table_lookup(self->index, &key);
    if (program)
        return program;
    program = g_new0(Program, 1);
    program->module = launch->module;
    program->number = launch->number;
    program->wrong = g_string_new(NULL);
    g_ptr_array_add(self->programs, program);
    g_hash_table_add(self->index, program);
    if (!self->folders)
        look_beside(self);
    for (guint i = 0; i < self->folders->len; i++) {
        const Folder *folder = &g_array_index(self->folders, Folder, i);
        if ((uint64_t)folder->number != launch->number)
            continue;
        if (program->trace) {
            Program again = {.wrong = g_string_new(NULL)};
            if (load(self, &again, module, folder)) {
                g_string_printf(program->wrong, "%s and %s are both of it", program->path, folder->path);
                forget(program);
                forget(&again);
                g_string_free(again.wrong, TRUE);
                return program;
            }
            g_string_free(again.wrong, TRUE);
        } else if (load(self, program, module, folder)) {
            g_string_truncate(program->wrong, 0);
        }
    }
    return program;
}

/* The operands' leaves, then the results', as XLA hands them to its kernels; none where their sums are not those of the op, which leaves out what lies in no
 * memory. */
static const GArray *arguments_of(const Program *program, Kernel *kernel)
{
    if (kernel->arguments)
        return kernel->arguments;
    const EchProgram *p = program->import->program;
    const EchInstruction *i = &p->instructions[kernel->instruction];
    kernel->arguments = g_array_new(FALSE, FALSE, sizeof(EchXlaArgument));
    EchBytes sums[2] = {0, 0};
    for (uint32_t k = 0; k < i->n_operands; k++) {
        EchId shape = p->instructions[ech_program_operand(p, i, k)].shape;
        for (uint32_t q = 0; q < p->shapes[shape].n_positions; q++) {
            const EchShape *leaf = &p->shapes[ech_program_subshape(p, shape, q)];
            EchXlaArgument argument = {p->shapes[shape].is_tuple ? leaf->bytes : ech_program_operand_bytes(p, kernel->instruction, k), false};
            if (leaf->is_tuple)
                continue;
            g_array_append_val(kernel->arguments, argument);
            sums[0] = ech_bytes_add(sums[0], argument.bytes);
        }
    }
    for (uint32_t q = 0; q < p->shapes[i->shape].n_positions; q++) {
        if (p->shapes[ech_program_subshape(p, i->shape, q)].is_tuple)
            continue;
        EchXlaArgument argument = {ech_program_result_bytes(p, kernel->instruction, q), true};
        g_array_append_val(kernel->arguments, argument);
        sums[1] = ech_bytes_add(sums[1], argument.bytes);
    }
    for (uint32_t u = kernel->op->first_use; u < kernel->op->first_use + kernel->op->n_uses; u++) {
        const EchUse *use = &ech_trace_uses(program->trace)[u];
        EchBytes *sum = &sums[use->access == ECH_WRITE];
        *sum = use->bytes <= *sum ? *sum - use->bytes : UINT64_MAX;
    }
    if (sums[0] != 0 || sums[1] != 0)
        g_array_set_size(kernel->arguments, 0);
    return kernel->arguments;
}

/* ---- launches ---- */

/* How often a run of a program launched an instruction's kernels. */
typedef struct {
    Kernel *kernel;
    uint64_t run, launches;
} Count;

static guint count_hash(gconstpointer data)
{
    const Count *count = data;
    return ech_hash_pair(count->run, (uintptr_t)count->kernel);
}

static gboolean count_equal(gconstpointer a, gconstpointer b)
{
    const Count *x = a, *y = b;
    return x->kernel == y->kernel && x->run == y->run;
}

static Count *count_of(GHashTable *counts, Kernel *kernel, uint64_t run)
{
    const Count key = {.kernel = kernel, .run = run};
    Count *count = g_hash_table_lookup(counts, &key);
    if (!count) {
        count = g_memdup2(&key, sizeof key);
        g_hash_table_add(counts, count);
    }
    return count;
}

/* Kernels that an instruction launches each time. Most launch one; a sort of XLA's own may launch many. Where it is not known how often a run comes by it,
 * those of a sort are not known either. */
static void settle_parts(GHashTable *counts)
{
    GHashTableIter iter;
    gpointer data;
    g_hash_table_iter_init(&iter, counts);
    while (g_hash_table_iter_next(&iter, &data, NULL)) {
        Count *count = data;
        Kernel *kernel = count->kernel;
        uint64_t parts = kernel->times == 0                     ? !kernel->sorts
                         : count->launches <= kernel->times     ? 1
                         : count->launches % kernel->times == 0 ? count->launches / kernel->times
                                                                : 0;
        kernel->parts = MAX(kernel->parts, parts);
        count->launches = 0;
    }
}

/* The names of programs, each once: "jit_add, jit_multiply and 3 others". */
static char *named(const GPtrArray *programs, const EchTraceBuilder *names)
{
    g_autoptr(GString) text = g_string_new(NULL);
    g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
    for (guint i = 0; i < programs->len; i++) {
        const Program *program = programs->pdata[i];
        if (!g_hash_table_add(seen, GUINT_TO_POINTER(program->module)) || g_hash_table_size(seen) > MOST_SAID)
            continue;
        g_autofree char *name = g_strndup(ech_trace_builder_peek_string(names, program->module), 80);
        g_string_append_printf(text, "%s%s", text->len > 0 ? ", " : "", name);
    }
    guint others = g_hash_table_size(seen) - MIN(g_hash_table_size(seen), (guint)MOST_SAID);
    if (others > 0)
        g_string_append_printf(text, " and %u other%s", others, others == 1 ? "" : "s");
    return g_string_free(g_steal_pointer(&text), FALSE);
}

/* Kernels of loops whose rounds are not counted that were not launched: their end was computed, from zeros. Other fusions than these are a library's or copies.
 */
static unsigned never_launched(const Program *program)
{
    const EchInstruction *instructions = program->import->program->instructions;
    unsigned n = 0;
    GHashTableIter iter;
    gpointer data;
    g_hash_table_iter_init(&iter, program->kernels);
    while (g_hash_table_iter_next(&iter, NULL, &data)) {
        const Kernel *kernel = data;
        uint8_t kind = instructions[kernel->instruction].fusion_kind;
        n += kernel->op && kernel->times == 0 && !kernel->launched && (kind == 'L' || kind == 'I');
    }
    return n;
}

static void remark(const EchXlaFolders *self, const EchTraceBuilder *names, uint64_t found, EchDiag *diag)
{
    g_autoptr(GPtrArray) without = g_ptr_array_new(), with = g_ptr_array_new();
    uint64_t left = 0;
    unsigned said = 0, loops = 0;
    for (guint i = 0; i < self->programs->len; i++) {
        Program *program = self->programs->pdata[i];
        if (program->trace) {
            g_ptr_array_add(with, program);
            unsigned missing = never_launched(program);
            if (missing > 0 && loops++ < MOST_SAID)
                ech_diag_remark(diag,
                                "%s: %u kernel%s of loops whose end is computed never ran, for results are zeros: what these loops take is not in the run",
                                ech_trace_builder_peek_string(names, program->module), missing, missing == 1 ? "" : "s");
        } else if (program->wrong->len == 0) {
            g_ptr_array_add(without, program);
            left += program->launches;
        } else if (said++ < MOST_SAID) {
            ech_diag_remark(diag, "%s: its %" G_GUINT64_FORMAT " kernels are priced by the arrays that they are given, and not by a program beside: %s",
                            ech_trace_builder_peek_string(names, program->module), program->launches, program->wrong->str);
        }
    }
    if (with->len > 0) {
        g_autofree char *text = named(with, names);
        ech_diag_remark(diag, "%" G_GUINT64_FORMAT " kernels that XLA compiled are priced as in the folders of their programs beside: %s", found, text);
    }
    if (without->len > 0) {
        g_autofree char *text = named(without, names);
        ech_diag_remark(
            diag, "%" G_GUINT64_FORMAT " kernels that XLA compiled are priced by the arrays that they are given: no folder of their programs lies beside (%s)",
            left, text);
    }
}

void ech_xla_folders_find(EchXlaFolders *self, const EchTraceBuilder *names, EchXlaLaunch *launches, size_t n, EchDiag *diag)
{
    g_autofree Program **programs = g_new(Program *, n + 1);
    for (size_t i = 0; i < n; i++) {
        const char *instruction = ech_trace_builder_peek_string(names, launches[i].instruction);
        Program *program = programs[i] = program_of(self, &launches[i], ech_trace_builder_peek_string(names, launches[i].module));
        program->launches++;
        if (program->trace && !g_hash_table_contains(program->kernels, instruction)) {
            g_string_printf(program->wrong, "%s has no instruction %.80s", program->path, instruction);
            forget(program);
        }
    }
    g_autofree Kernel **kernels = g_new(Kernel *, n + 1);
    g_autoptr(GHashTable) counts = g_hash_table_new_full(count_hash, count_equal, g_free, NULL);
    for (size_t i = 0; i < n; i++) {
        Kernel *kernel = programs[i]->trace ? g_hash_table_lookup(programs[i]->kernels, ech_trace_builder_peek_string(names, launches[i].instruction)) : NULL;
        kernels[i] = kernel && kernel->op ? kernel : NULL;
        if (!kernels[i])
            continue;
        kernel->launched = true;
        count_of(counts, kernel, launches[i].run)->launches++;
    }
    settle_parts(counts);
    uint64_t found = 0, unknown = 0;
    for (size_t i = 0; i < n; i++) {
        Kernel *kernel = kernels[i];
        if (!kernel || kernel->parts == 0) {
            unknown += programs[i]->trace != NULL;
            continue;
        }
        found++;
        launches[i].trace = programs[i]->trace;
        if (count_of(counts, kernel, launches[i].run)->launches++ % kernel->parts > 0)
            continue;
        launches[i].op = kernel->op;
        const GArray *arguments = arguments_of(programs[i], kernel);
        launches[i].arguments = (const EchXlaArgument *)(const void *)arguments->data;
        launches[i].n_arguments = arguments->len;
    }
    ech_diag_note(diag, "kernels_priced_by_their_program", found);
    ech_diag_note(diag, "kernels_not_told_by_their_program", unknown);
    remark(self, names, found, diag);
}
