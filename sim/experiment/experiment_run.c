/* Runs a case of an experiment: its trace and device are read, passes applied, the replay asked. */
#include "sim/experiment/experiment_private.h"

#include "models/device/device_yaml.h"
#include "sim/experiment/alloc_study.h"
#include "sim/base/error.h"
#include "sim/base/file.h"
#include "sim/experiment/layers.h"
#include "sim/experiment/served.h"
#include "sim/experiment/product.h"
#include "sim/pass/pass.h"
#include "sim/trace/meets.h"
#include "sim/trace/select.h"
#include "sim/trace/step.h"

#include <string.h>

/* The place of a node that stands in a file, or was put there by an edit, before an error that does not say it. */
static void prefix_place(const EchYamlNode *node, GError **error)
{
    if (node && error && *error && (node->line || g_str_has_prefix(node->file, "--set ")) && !g_str_has_prefix((*error)->message, node->file))
        ech_yaml_prefix(node, error);
}

static const EchYamlNode *required(const EchYamlNode *config, const char *key, const char *example, GError **error)
{
    const EchYamlNode *node = ech_yaml_get(config, key);
    if (!node)
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "no %s is given; expected '%s: %s' in the experiment, or --%s %s%s", key, key, example, key, example,
                    strcmp(key, "device") == 0 ? " ('echelon list devices')" : "");
    else if (node->kind == ECH_YAML_LIST) {
        ech_yaml_error(node, error, "%s: expected something like %s; a sweep varies it: sweep: [{path: %s, values: [...]}]%s", key, example, key,
                       strcmp(key, "trace") == 0 ? "; ranks of one program run together by 'echelon run --trace A B ...'" : "");
        node = NULL;
    } else if (node->kind == ECH_YAML_SCALAR && !*node->text) {
        ech_yaml_error(node, error, "%s: expected something like %s", key, example);
        node = NULL;
    }
    return node;
}

static bool trace_is_there(const EchYamlNode *node, const char *path, GError **error)
{
    if (g_file_test(path, G_FILE_TEST_EXISTS) || strcmp(path, "-") == 0)
        return true;
    g_autofree char *nearest = ech_experiment_nearest_trace(path);
    g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_NOENT, "%s: No such file or directory%s%s%s", path, nearest ? "; did you mean the shipped '" : "",
                nearest ? nearest : "", nearest ? "'?" : "");
    prefix_place(node, error);
    return false;
}

/* What a case is read from, as far as that can be told without reading it: files that are there, and a format that there is. *ret_beside may be NULL. */
static bool find_inputs(const EchYamlNode *config, char **ret_path, char **ret_beside, GError **error)
{
    const EchYamlNode *trace = required(config, "trace", "step.hlo.txt", error);
    if (!trace)
        return false;
    if (trace->kind != ECH_YAML_SCALAR) {
        ech_yaml_error(trace, error, "trace: expected a file's name");
        return false;
    }
    g_autofree char *path = ech_experiment_trace_path(trace), *beside = NULL;
    if (!trace_is_there(trace, path, error))
        return false;
    const char *format = ech_yaml_text(config, "format");
    if (format && !ech_import_is_format(format, error)) {
        ech_yaml_prefix(ech_yaml_get(config, "format"), error);
        return false;
    }
    if (ech_yaml_text(config, "beside")) {
        beside = ech_experiment_trace_path(ech_yaml_get(config, "beside"));
        if (!trace_is_there(ech_yaml_get(config, "beside"), beside, error))
            return false;
    }
    *ret_path = g_steal_pointer(&path);
    *ret_beside = g_steal_pointer(&beside);
    return true;
}

static EchImport *import_trace(EchExperiment *experiment, const EchYamlNode *config, const char **ret_path, GError **error)
{
    g_autofree char *path = NULL, *beside = NULL;
    if (!find_inputs(config, &path, &beside, error))
        return NULL;
    const char *format = ech_yaml_text(config, "format"), *device = ech_yaml_text(config, "device");
    EchImportOptions options = {.device = device};
    options.beside = beside;
    g_autofree char *key = g_strdup_printf("%s\n%s\n%s\n%s", path, format ? format : "", beside ? beside : "", device ? device : "");
    GArray *items = experiment->cache->items;
    for (guint i = 0; i < items->len; i++) {
        const EchCachedImport *cached = &g_array_index(items, EchCachedImport, i);
        if (strcmp(cached->key, key) == 0) {
            *ret_path = cached->key;
            return cached->import;
        }
    }
    g_autoptr(EchImport) import = ech_import_file(path, format, &options, error);
    if (!import)
        return NULL;
    if (import->trace && ech_trace_get_property(import->trace, "limit_of_a_kernel")) {
        g_set_error(
            error, ECH_ERROR, ECH_ERROR_UNSUPPORTED,
            "%s is a message about what one kernel keeps on the chip, which has a limit of its own: no device's memory decides whether it fits; 'echelon info' "
            "says what the message comes to",
            path);
        return NULL;
    }
    EchCachedImport cached = {.key = g_steal_pointer(&key), .import = g_steal_pointer(&import)};
    g_array_append_val(items, cached);
    *ret_path = cached.key;
    return cached.import;
}

bool ech_experiment_preload(EchExperiment *experiment, GError **error)
{
    for (size_t i = 0; i < experiment->n_cases; i++) {
        const char *path;
        if (!ech_yaml_get(experiment->cases[i].config, "matmul") && !import_trace(experiment, experiment->cases[i].config, &path, error))
            return false;
    }
    return true;
}

const EchImport *ech_experiment_import_case(EchExperiment *experiment, const EchCase *c, GError **error)
{
    const char *path;
    return import_trace(experiment, c->config, &path, error);
}

const EchImport *ech_experiment_import(EchExperiment *experiment, GError **error)
{
    return ech_experiment_import_case(experiment, &experiment->cases[0], error);
}

void ech_experiment_take_imports(EchExperiment *to, EchExperiment *from)
{
    GArray *none = to->cache->items;
    to->cache->items = from->cache->items;
    from->cache->items = none;
}

void ech_experiment_borrow_imports(EchExperiment *to, const EchExperiment *from)
{
    for (guint i = 0; i < from->cache->items->len; i++) {
        const EchCachedImport *cached = &g_array_index(from->cache->items, EchCachedImport, i);
        bool has = false;
        for (guint k = 0; k < to->cache->items->len && !has; k++)
            has = g_array_index(to->cache->items, EchCachedImport, k).import == cached->import;
        if (has)
            continue;
        EchCachedImport own = {.key = g_strdup(cached->key), .import = cached->import, .borrowed = true};
        g_array_append_val(to->cache->items, own);
    }
}

/* The chip a program was compiled for, where that is another one than it runs on. */
static EchDevice *compiled_device(const EchProgram *program, const EchDevice *device)
{
    const char *chip = program ? ech_program_kernels_for(program) : NULL;
    if (!chip || strcmp(chip, device->name) == 0)
        return NULL;
    EchDevice *compiled = ech_device_load(chip, NULL, NULL);
    /* Kernels cut for another kind of chip say nothing about this one: its roofline does. */
    if (compiled && g_strcmp0(compiled->family, device->family) != 0)
        g_clear_pointer(&compiled, ech_device_free);
    return compiled;
}

static const char by_maker[] = "a GPU by ";

static const char *said_of(const EchTrace *trace, uint32_t device, const char *what)
{
    g_autofree char *key = g_strdup_printf("device.%u.%s", device, what);
    const char *value = ech_trace_get_property(trace, key);
    return value && *value ? value : NULL;
}

static uint64_t figure_of(const EchTrace *trace, uint32_t device, const char *what)
{
    const char *said = said_of(trace, device, what);
    uint64_t value;
    return said && ech_parse_u64(said, &value, NULL) ? value : 0;
}

/* An older profiler of XLA says no names, but what its driver does: clocks in kHz. */
static EchGpuFigures figures_of(const EchTrace *trace, uint32_t device)
{
    const char *vendor = said_of(trace, device, "device_vendor");
    return (EchGpuFigures){.amd = vendor && strcmp(vendor, "AMD") == 0,
                           .multiprocessors = figure_of(trace, device, "core_count"),
                           .clock_hz = MIN(figure_of(trace, device, "clock_rate"), UINT64_MAX / 1000) * 1000,
                           .capability = (double)figure_of(trace, device, "compute_cap_major") + (double)figure_of(trace, device, "compute_cap_minor") / 10,
                           .memory = figure_of(trace, device, "memory_size")};
}

/* "a GPU by AMD of 256 multiprocessors at 2.4 GHz with 288 GiB" */
static char *described(const char *vendor, const EchGpuFigures *figures)
{
    g_autoptr(GString) text = g_string_new(by_maker);
    g_autofree char *memory = ech_format_bytes(figures->memory);
    g_string_append(text, vendor);
    if (figures->multiprocessors)
        g_string_append_printf(text, " of %" G_GUINT64_FORMAT " multiprocessors", figures->multiprocessors);
    if (figures->clock_hz)
        g_string_append_printf(text, " at %.4g GHz", (double)figures->clock_hz / 1e9);
    if (figures->memory)
        g_string_append_printf(text, " with %s", memory);
    return g_string_free(g_steal_pointer(&text), FALSE);
}

char *ech_recorded_on(const EchTrace *trace, uint32_t device)
{
    static const char *const names[] = {"name", "gpu_device_name", "device_type_string"};
    for (size_t k = 0; k < G_N_ELEMENTS(names); k++) {
        const char *name = said_of(trace, device, names[k]);
        if (name)
            return g_strdup(name);
    }
    EchGpuFigures figures = figures_of(trace, device);
    g_autoptr(EchDevice) like = ech_device_load_figures(&figures);
    if (like)
        return g_strdup(like->products && *like->products ? *like->products : like->name);
    char *of_first = device > 0 ? ech_recorded_on(trace, 0) : NULL;
    const char *vendor = said_of(trace, device, "device_vendor");
    return of_first || !vendor ? of_first : described(vendor, &figures);
}

static bool has_recorded_kernels(const EchTrace *trace)
{
    const EchOp *ops = ech_trace_ops(trace);
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        if (ops[i].kind == ECH_OP_KERNEL && ops[i].recorded.duration > 0)
            return true;
    }
    return false;
}

/* Recorded times hold for the hardware they were recorded on: where that is another device that we describe, it becomes the reference they are carried over
 * from. */
static void find_recorded_device(const EchTrace *trace, EchResult *result)
{
    size_t n;
    g_autofree uint32_t *devices = ech_trace_devices(trace, &n);
    g_autofree char *hardware = ech_recorded_on(trace, n > 0 ? devices[0] : 0);
    if (!hardware && has_recorded_kernels(trace))
        ech_diag_remark(result->pass_diag, "the file does not say what it was recorded on: its recorded times count as those of %s", result->reference->name);
    if (!hardware || ech_device_is_product(result->reference, hardware))
        return;
    EchDevice *found = ech_device_load_product(hardware);
    if (!found) {
        ech_diag_remark(result->pass_diag, "recorded on %s, %s: its recorded times count as those of %s", hardware,
                        g_str_has_prefix(hardware, by_maker) ? "which is all that the file says of it" : "of which there is no device file",
                        result->reference->name);
        return;
    }
    ech_diag_remark(result->pass_diag, "recorded on %s: recorded times are carried from %s to %s", hardware, found->name, result->device->name);
    ech_device_free(result->reference);
    result->reference = found;
}

static const EchYamlNode *device_tree(EchExperiment *experiment, const char *name, GError **error)
{
    EchYamlNode *tree = g_hash_table_lookup(experiment->cache->devices, name);
    if (!tree) {
        tree = ech_device_tree(name, error);
        if (tree)
            g_hash_table_insert(experiment->cache->devices, g_strdup(name), tree);
    }
    return tree;
}

static bool load_devices(EchExperiment *experiment, const EchCase *c, EchResult *result, GError **error)
{
    const EchYamlNode *node = required(c->config, "device", "tpu-v5e", error);
    if (!node)
        return false;
    const EchYamlNode *said = node;
    const char *const *settings = (const char *const *)c->settings;
    if (node->kind != ECH_YAML_MAP) {
        g_autofree char *name = ech_experiment_device_path(node);
        node = device_tree(experiment, name, error);
        if (!node)
            prefix_place(said, error);
    }
    result->reference = node ? ech_device_from_yaml(node, error) : NULL;
    result->device = result->reference ? ech_device_load_yaml(node, settings, error) : NULL;
    return result->device != NULL;
}

/* A number without a unit is bytes, which nobody means who says of a device's memory that it is so few: "offload:memory=24". */
static bool has_units(const char *spec, GError **error)
{
    enum { MOST_PLAIN_BYTES = 1024 };
    g_auto(GStrv) items = g_strsplit_set(spec, ":,", -1);
    for (char **item = items; *item; item++) {
        const char *value = g_str_has_prefix(*item, "memory=") ? *item + strlen("memory=") : "";
        uint64_t bytes;
        if (ech_parse_u64(value, &bytes, NULL) && bytes > 0 && bytes < MOST_PLAIN_BYTES) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "pass %s: memory: '%s' is %s bytes; expected something like 16GiB", items[0], value, value);
            return false;
        }
    }
    return true;
}

/* The passes that a text names, appended: one, or several as an axis of a sweep has them, "unplan pad:align=1MiB". */
static bool read_pass_texts(const EchYamlNode *node, GPtrArray *passes, GError **error)
{
    g_auto(GStrv) words = g_strsplit_set(node->text, " \n\t", -1);
    for (char **word = words; *word; word++) {
        if (!**word)
            continue;
        EchPass *pass = has_units(*word, error) ? ech_pass_new(*word, error) : NULL;
        if (!pass) {
            ech_yaml_prefix(node, error);
            return false;
        }
        g_ptr_array_add(passes, pass);
    }
    return true;
}

static GPtrArray *read_passes(const EchYamlNode *config, GError **error)
{
    g_autoptr(GPtrArray) passes = g_ptr_array_new_with_free_func((GDestroyNotify)ech_pass_free);
    const EchYamlNode *node = ech_yaml_get(config, "passes");
    bool list = node && node->kind != ECH_YAML_SCALAR;
    if (node && !list && !read_pass_texts(node, passes, error))
        return NULL;
    for (size_t i = 0; list && i < node->n; i++) {
        if (node->kind != ECH_YAML_LIST || node->items[i]->kind != ECH_YAML_SCALAR) {
            ech_yaml_error(node, error, "passes: expected a list of texts");
            return NULL;
        }
        if (!read_pass_texts(node->items[i], passes, error))
            return NULL;
    }
    return g_steal_pointer(&passes);
}

static bool read_options(const EchCase *c, bool sweep, EchReplayOptions *options, GError **error)
{
    const EchYamlNode *replay = ech_yaml_get(c->config, "replay");
    if (replay && (replay->kind == ECH_YAML_LIST || (replay->kind == ECH_YAML_SCALAR && *replay->text))) {
        ech_yaml_error(replay, error, "replay: expected options with their values");
        return false;
    }
    for (size_t i = 0; replay && i < replay->n; i++) {
        const EchYamlNode *value = replay->items[i];
        if (value->kind != ECH_YAML_SCALAR) {
            ech_yaml_error(value, error, "replay.%s: expected one value", replay->keys[i]);
            return false;
        }
        if (!ech_params_set(ech_replay_params, options, replay->keys[i], value->text, error)) {
            g_prefix_error(error, "replay: ");
            ech_yaml_prefix(value, error);
            return false;
        }
    }
    /* Sweeps take the engine without a process of its own unless told otherwise. */
    if (sweep && options->engine == ECH_ENGINE_AUTO)
        options->engine = ECH_ENGINE_NATIVE;
    static const char *const allocators[] = {"allocator", "host_allocator", NULL};
    for (const char *const *key = allocators; *key; key++) {
        const EchYamlNode *node = ech_yaml_get(c->config, *key);
        if (!node)
            continue;
        if (node->kind != ECH_YAML_SCALAR) {
            ech_yaml_error(node, error, "%s: expected a spec like bfc:limit=60GiB", *key);
            return false;
        }
        char **field = strcmp(*key, "allocator") == 0 ? &options->allocator : &options->host_allocator;
        g_free(*field);
        *field = g_strdup(node->text);
    }
    return true;
}

EchTrace *ech_experiment_lower(EchProgram *program, const EchDevice *device, EchDevice **reference, EchKernelTime kernel_time, uint64_t trips, EchDiag *diag,
                               GError **error)
{
    EchDevice *compiled = compiled_device(program, *reference);
    /* TPU kernels: the compiler's estimates, carried by our kernel model to the device itself, its settings included; unless the bare estimates are asked for.
     * Where the device's hardware constants were fitted to measured kernels, the model alone comes closer than a carried estimate. */
    bool by_model = kernel_time == ECH_KERNEL_TIME_MODEL || (kernel_time == ECH_KERNEL_TIME_AUTO && ech_kernel_stands_alone(device));
    bool model = program->platform == ECH_PLATFORM_TPU && g_strcmp0(device->family, "tpu") == 0 && (by_model || kernel_time == ECH_KERNEL_TIME_AUTO);
    if (compiled && model) {
        ech_diag_remark(diag, "the program was compiled for %s; its kernels keep their windows and are priced on %s", compiled->name, device->name);
        ech_device_free(*reference);
        *reference = compiled;
    } else if (compiled) {
        ech_diag_remark(diag, "the program was compiled for %s; its estimates are scaled to %s by the ratio of the two rooflines", compiled->name,
                        device->name);
        ech_device_free(*reference);
        *reference = compiled;
    }
    if (!program->assignment) {
        if (program->platform == ECH_PLATFORM_TPU && !program->chip && strcmp((*reference)->family, "tpu") == 0 &&
            !ech_program_set_chip(program, (*reference)->name, error))
            return NULL;
        const EchMemory *hbm = ech_device_memory(*reference, "hbm");
        EchProgramAssignment *made = ech_program_assign(program, hbm ? hbm->assignment_limit : 0, diag, error);
        if (!made)
            return NULL;
        ech_program_set_assignment(program, made, "made by echelon");
    }
    EchLowerOptions options = {.loop_trips = trips, .price_on = model ? device : NULL, .price_by_model = by_model};
    EchTrace *trace = ech_program_lower(program, *reference, &options, diag, error);
    if (trace && model) /* nothing is left to scale */
        g_clear_pointer(reference, ech_device_free);
    return trace;
}

/* Numbers that a program looks at, a loss say, are no time lost. */
#define PAGEABLE_WORTH_TELLING ((EchBytes)256 << 10)

/* Copies from and to pageable memory pass through the driver's staging buffer and wait for the host, and for the kernel where pages are new. */
static void remark_pageable(const EchTrace *trace, const EchMemory *pageable, EchDiag *diag)
{
    EchId memory = ech_trace_find_memory(trace, pageable->name);
    uint64_t copies = 0;
    EchBytes bytes = 0, untouched = 0;
    for (size_t i = 0; memory != ECH_NONE && i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        if (op->kind != ECH_OP_COPY || (op->memory_from != memory && op->memory_to != memory))
            continue;
        copies++;
        bytes = ech_bytes_add(bytes, op->bytes);
        if (ech_trace_copy_untouched(trace, op))
            untouched = ech_bytes_add(untouched, op->bytes);
    }
    g_autofree char *size = ech_format_bytes(bytes), *new_size = ech_format_bytes(untouched);
    if (bytes >= PAGEABLE_WORTH_TELLING)
        ech_diag_remark(diag,
                        "%" G_GUINT64_FORMAT
                        " cop%s of %s in all %s from or to pageable host memory, which is not counted; --pass pin says what pinned memory would be worth",
                        copies, copies == 1 ? "y" : "ies", size, copies == 1 ? "is" : "are");
    if (untouched)
        ech_diag_remark(
            diag,
            "%s of them go to host memory that nothing had touched, whose pages the kernel brings in one by one (runtime.touch_page_ps for 4 KiB each): "
            "tensor.to(\"cpu\") makes such memory each time; torch.empty(..., pin_memory=True) once and copy_(tensor, non_blocking=True) do not",
            new_size);
}

/* Programs pin what they need once, in their first step mostly. Less takes no time to speak of. */
#define PINNED_WORTH_TELLING ((EchBytes)64 << 20)

static void remark_pinning(const EchTrace *trace, EchDiag *diag)
{
    EchBytes bytes = 0;
    bool fresh;
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++)
        bytes = ech_bytes_add(bytes, ech_trace_pins(trace, &ech_trace_ops(trace)[i], &fresh));
    g_autofree char *size = ech_format_bytes(bytes);
    if (bytes >= PINNED_WORTH_TELLING)
        ech_diag_remark(diag,
                        "in the whole capture the host pins %s, for which it waits, page by page (runtime.pin_new_page_ps for 4 KiB each, pin_page_ps where "
                        "they are there): PyTorch keeps what it has pinned, so that later steps do not, as --step last shows; hosts differ by half to twice",
                        size);
}

/* Temporaries of PyTorch's optimizers that take all parameters at once, as they do unless they are told otherwise (foreach): as much as the parameters. */
static void remark_optimizer(const EchTrace *trace, EchDiag *diag)
{
    enum { LEAST_PART = 20 };
    g_autofree uint8_t *is_foreach = g_new0(uint8_t, ech_trace_n_strings(trace) + 1); /* by stack: 0 not looked at, else what ech_foreach_kind() says */
    bool fuses = true;
    EchBytes live = 0, most = 0, own = 0, most_own = 0;
    for (size_t i = 0; i < ech_trace_n_buffers(trace); i++) {
        if (ech_trace_buffers(trace)[i].resident)
            live = ech_bytes_add(live, ech_trace_buffers(trace)[i].bytes);
    }
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        if (op->kind != ECH_OP_ALLOC && op->kind != ECH_OP_FREE)
            continue;
        const EchBuffer *buffer = &ech_trace_buffers(trace)[op->target];
        uint8_t *flag = buffer->stack < ech_trace_n_strings(trace) ? &is_foreach[buffer->stack] : NULL;
        if (flag && *flag == 0)
            *flag = ech_foreach_kind(ech_trace_string(trace, buffer->stack));
        bool alloc = op->kind == ECH_OP_ALLOC;
        live = alloc ? ech_bytes_add(live, buffer->bytes) : live - MIN(live, buffer->bytes);
        most = MAX(most, live);
        if (flag && *flag >= ECH_FOREACH_FUSIBLE) {
            fuses &= *flag == ECH_FOREACH_FUSIBLE;
            own = alloc ? ech_bytes_add(own, buffer->bytes) : own - MIN(own, buffer->bytes);
            most_own = MAX(most_own, own);
        }
    }
    g_autofree char *size = ech_format_bytes(most_own);
    if (most_own > 0 && most_own >= most / LEAST_PART)
        ech_diag_remark(
            diag, ECH_REMARK_OPTIMIZER " takes all parameters at once and makes %s of temporaries for that: %sforeach=False %sthose of one parameter at a time",
            size, fuses ? "fused=True makes none, " : "", fuses ? "" : "makes ");
}

/* Weights and optimizer state that each device has whole where hooks of PyTorch's sum gradients up over them (DistributedDataParallel). */
#define ALIKE_WORTH_TELLING ((EchBytes)256 << 20)

static void remark_alike(const EchTrace *trace, EchDiag *diag)
{
    uint32_t devices = 0;
    bool state = true; /* is alike, too */
    EchBytes bytes = 0;
    EchId hbm = ech_trace_find_memory(trace, "hbm");
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        const char *stack = op->kind == ECH_OP_COLLECTIVE ? ech_trace_string(trace, op->stack) : "";
        if (op->collective == ECH_COLLECTIVE_ALL_REDUCE && op->memory_from > devices && strstr(stack, "AccumulateGrad"))
            devices = op->memory_from;
        state &= strstr(stack, "ZeroRedundancyOptimizer") == NULL;
    }
    for (size_t b = 0; b < ech_trace_n_buffers(trace) && devices > 1; b++) {
        const EchBuffer *buffer = &ech_trace_buffers(trace)[b];
        if (buffer->memory == hbm && (buffer->role == ECH_ROLE_PARAMETER || (state && buffer->role == ECH_ROLE_OPTIMIZER)))
            bytes = ech_bytes_add(bytes, buffer->bytes);
    }
    g_autofree char *size = ech_format_bytes(bytes);
    if (bytes >= ALIKE_WORTH_TELLING)
        ech_diag_remark(diag, "weights%s (%s) are the same on each of %u devices: --pass shard tells what splitting them over these would change (FSDP%s)",
                        state ? " and optimizer state" : "", size, devices, state ? "; weights=false: ZeRO-1" : "");
}

/* What the kernel model knows of AMD's GPUs. */
static void remark_amd(const EchTrace *trace, const EchResult *result)
{
    bool carried = result->program || ech_trace_get_property(trace, "pretended_device") ||
                   (result->reference && strcmp(result->reference->name, result->device->name) != 0);
    if (carried && ech_device_is_amd(result->device))
        ech_diag_remark(
            result->pass_diag,
            "what kernels take on %s follows from its memory, its lanes and the rate of its products as measured; the rest of the model, and collectives, "
            "are those of NVIDIA's GPUs",
            result->device->name);
}

/* Libraries and PyTorch choose their kernels by a device's compute capability. */
static void remark_pretended(const EchTrace *trace, const EchDevice *device, EchDiag *diag)
{
    const char *name = ech_trace_get_property(trace, "pretended_device"), *with = ech_trace_get_property(trace, ECH_TRACE_WITH);
    if (with)
        ech_diag_remark(diag, "it was captured with %s, which the program does not have itself (echelon capture --with)", with);
    if (!name || g_strcmp0(name, device->name) == 0)
        return;
    g_autoptr(EchDevice) pretended = ech_device_load(name, NULL, NULL);
    if (pretended && g_strcmp0(pretended->family, "tpu") == 0) {
        if (g_strcmp0(device->family, "tpu") == 0)
            ech_diag_remark(diag, "its programs are those that were compiled for %s; echelon capture --pretend %s has them compiled for %s", name, device->name,
                            device->name);
        return;
    }
    double there = pretended ? ech_device_number(pretended, "kernel.compute_capability", 0) : 0,
           here = ech_device_number(device, "kernel.compute_capability", 0);
    if (there > 0 && here == there)
        return;
    if (g_strcmp0(device->family, "gpu") != 0) {
        ech_diag_remark(diag, "its kernels are those of %s, a GPU: on %s their bytes and operations are priced, and nothing more is known", name, device->name);
        return;
    }
    if (ech_device_is_amd(device)) {
        ech_diag_remark(diag, "its kernels are those that CUDA's libraries chose for %s: AMD's have others, which cannot be pretended", name);
        return;
    }
    ech_diag_remark(diag, "its kernels are those that were chosen for %s%s: the libraries choose others for %s; echelon capture --pretend %s asks them", name,
                    there > 0 && here > 0 ? ", of another compute capability" : "", device->name, device->name);
}

/* The points of a sweep mostly select the same of a capture. */
static EchTrace *select_cached(EchExperiment *experiment, EchTrace *trace, const EchSelectOptions *options, GError **error)
{
    EchCachedImport *cached = NULL;
    for (guint i = 0; i < experiment->cache->items->len && !cached; i++) {
        EchCachedImport *at = &g_array_index(experiment->cache->items, EchCachedImport, i);
        cached = at->import->trace == trace ? at : NULL;
    }
    if (cached && cached->selected && cached->device == options->device && cached->together == options->together &&
        g_strcmp0(cached->pageable, options->pageable) == 0)
        return ech_trace_ref(cached->selected);
    EchTrace *selected = ech_trace_select(trace, options, NULL, error);
    if (!cached || !selected)
        return selected;
    g_clear_pointer(&cached->selected, ech_trace_unref);
    g_free(cached->pageable);
    cached->selected = ech_trace_ref(selected);
    cached->device = options->device;
    cached->together = options->together;
    cached->pageable = g_strdup(options->pageable);
    return selected;
}

static bool computes(const EchTrace *trace, uint32_t device)
{
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        bool any = op->kind == ECH_OP_KERNEL || op->kind == ECH_OP_COLLECTIVE || op->kind == ECH_OP_LOOP;
        if (any && op->queue != ECH_NONE && ech_trace_queues(trace)[op->queue].device == device)
            return true;
    }
    return false;
}

/* Of the devices that compute the one that held most at once; the first of several, and where none does. */
static uint32_t fullest_at_work(const EchTrace *trace, const uint32_t *devices, size_t n)
{
    size_t best = n;
    EchBytes most = 0;
    for (size_t k = 0; k < n && n > 1; k++) {
        EchBytes held = computes(trace, devices[k]) ? ech_trace_most_live(trace, devices[k]) : 0;
        if (held > most || (best == n && computes(trace, devices[k]))) {
            best = k;
            most = held;
        }
    }
    return best < n ? devices[best] : n > 0 ? devices[0] : 0;
}

/* One device of a capture of several: its link and its memory are its own. The fullest that computes, unless capture_device says another. */
static EchTrace *select_device(EchExperiment *experiment, const EchCase *c, EchTrace *trace, EchResult *result, GError **error)
{
    EchDiag *diag = result->pass_diag;
    const char *text = ech_yaml_text(c->config, "capture_device");
    size_t n;
    g_autofree uint32_t *devices = ech_trace_devices(trace, &n);
    bool together = experiment->of_device != ECH_NONE;
    uint64_t chosen = together ? experiment->of_device : fullest_at_work(trace, devices, n);
    if (text && !ech_parse_u64(text, &chosen, error)) {
        g_prefix_error(error, "capture_device: ");
        ech_yaml_prefix(ech_yaml_get(c->config, "capture_device"), error);
        return NULL;
    }
    g_autoptr(GString) list = g_string_new(NULL);
    bool there = false;
    for (size_t i = 0; i < n; i++) {
        g_string_append_printf(list, "%s%u", i ? ", " : "", devices[i]);
        there = there || devices[i] == chosen;
    }
    if (text && !there) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "capture_device: the capture has no device %s; expected one of %s", text, list->str);
        ech_yaml_prefix(ech_yaml_get(c->config, "capture_device"), error);
        return NULL;
    }
    remark_pinning(trace, diag);
    remark_optimizer(trace, diag);
    remark_alike(trace, diag);
    const EchMemory *pageable = ech_device_memory_kind(result->device, ECH_MEM_HOST_PAGEABLE);
    bool of_one = n > 1 || text || (n > 0 && ech_trace_is_of_several(trace));
    if (!of_one && !pageable)
        return ech_trace_ref(trace);
    if (n > 1 && !together)
        ech_diag_remark(diag,
                        ECH_REMARK_DEVICES "%s: device %" G_GUINT64_FORMAT "%s is replayed alone, on links and memories of its own, as if it had to wait "
                                           "for none of the others (capture_device chooses another)",
                        list->str, chosen, text ? "" : ", the fullest,");
    if (n > 1) {
        char *title = g_strdup_printf("%s, device %" G_GUINT64_FORMAT, result->title, chosen);
        g_free(result->title);
        result->title = title;
    }
    EchSelectOptions options = {.device = of_one ? (uint32_t)chosen : ECH_NONE, .together = together, .pageable = pageable ? pageable->name : NULL};
    return select_cached(experiment, trace, &options, error);
}

/* Does the program keep more in an on-chip memory than @device has of it? */
static bool exceeds_chip(const EchProgram *program, const EchDevice *device)
{
    static const int32_t spaces[] = {ECH_SPACE_VECTOR, ECH_SPACE_COMMON};
    for (size_t k = 0; k < G_N_ELEMENTS(spaces); k++) {
        EchBytes bytes = ech_program_space_bytes(program, spaces[k]);
        const EchMemory *memory = ech_device_space(device, spaces[k]);
        if (bytes > 0 && (!memory || bytes > memory->capacity || (memory->available > 0 && bytes > memory->available)))
            return true;
    }
    return false;
}

/* A program goes to another chip as it was placed. Where that chip has less on-chip memory, its compiler would have placed it otherwise: so does the
 * place pass, unless the user chose passes; what is no TPU has none to keep it in, whatever passes did. Owned. */
static EchProgram *place_again(const GPtrArray *passes, EchProgram *program, EchResult *result)
{
    bool other = program->platform == ECH_PLATFORM_TPU && program->chip && strcmp(program->chip, result->device->name) != 0;
    bool tpu = g_strcmp0(result->device->family, "tpu") == 0;
    for (guint k = 0; k < passes->len && tpu; k++)
        other &= !ech_pass_is_program(passes->pdata[k]);
    if (!other)
        return ech_program_ref(program);
    if (!program->assignment) {
        EchProgramAssignment *made = ech_program_assign(program, 0, result->pass_diag, NULL);
        if (made)
            ech_program_set_assignment(program, made, "made by echelon");
    }
    if (!exceeds_chip(program, result->device))
        return ech_program_ref(program);
    g_autoptr(GPtrArray) again = g_ptr_array_new_with_free_func((GDestroyNotify)ech_pass_free);
    EchPass *place = ech_pass_new("place", NULL);
    if (place)
        g_ptr_array_add(again, place);
    g_autoptr(GError) error = NULL;
    EchProgram *placed = ech_passes_run_program(again, result->device, program, result->pass_diag, &error);
    if (!placed) {
        ech_diag_remark(result->pass_diag, "it keeps more on chip than %s has, and cannot be placed again: %s", result->device->name, error->message);
        return ech_program_ref(program);
    }
    ech_diag_remark(result->pass_diag, "it keeps more on chip than %s has: %s (--pass place)", result->device->name,
                    tpu ? "placed again as that chip's compiler would" : "all of it lies in hbm");
    return placed;
}

/* Whether buffers of the device's memory have no place of a compiler's. */
static bool lacks_places(const EchTrace *trace)
{
    EchId memory = ech_trace_find_memory(trace, "hbm");
    const EchBuffer *buffers = ech_trace_buffers(trace);
    for (size_t i = 0; memory != ECH_NONE && i < ech_trace_n_buffers(trace); i++) {
        if (buffers[i].memory == memory && buffers[i].alias_of == ECH_NONE && buffers[i].offset == ECH_OFFSET_NONE)
            return true;
    }
    return false;
}

/* Whether the user says who places. */
static bool names_placement(const GPtrArray *passes)
{
    static const char *const placing[] = {"unplan", "plan", NULL};
    bool any = false;
    for (guint i = 0; i < passes->len; i++)
        any |= g_strv_contains(placing, ech_pass_name(passes->pdata[i]));
    return any;
}

/* A compiled program that passes changed: its compiler would place the buffers anew. Owned. */
static EchTrace *plan_again(EchTrace *trace, EchResult *result, GError **error)
{
    g_autoptr(GPtrArray) again = g_ptr_array_new_with_free_func((GDestroyNotify)ech_pass_free);
    EchPass *plan = ech_pass_new("plan", error);
    if (!plan)
        return NULL;
    g_ptr_array_add(again, plan);
    return ech_passes_run_trace(again, result->device, trace, result->pass_diag, error);
}

/* The trace to replay: passes on the program, its assignment, lowering, passes on the trace. */
static bool make_trace(EchExperiment *experiment, const EchCase *c, const EchImport *import, const GPtrArray *passes, const EchReplayOptions *replay,
                       EchResult *result, GError **error)
{
    g_autoptr(EchTrace) trace = NULL;
    if (import->program) {
        g_autoptr(EchProgram) passed = ech_passes_run_program(passes, result->device, import->program, result->pass_diag, error);
        if (!passed)
            return false;
        g_autoptr(EchProgram) program = place_again(passes, passed, result);
        trace = ech_experiment_lower(program, result->device, &result->reference, (EchKernelTime)replay->kernel_time, replay->trips, result->pass_diag, error);
        result->program = g_steal_pointer(&program);
        if (trace && import->resident) {
            EchTrace *merged = ech_import_add_resident(trace, import->resident, result->pass_diag, error);
            ech_trace_unref(trace);
            trace = merged;
        }
    } else {
        trace = select_device(experiment, c, import->trace, result, error);
        if (trace) {
            find_recorded_device(trace, result);
            remark_pretended(trace, result->device, result->pass_diag);
            EchTrace *served = ech_served_here(trace, result->device, experiment->least_cache, result->pass_diag, error);
            ech_trace_unref(trace);
            trace = served;
        }
        if (trace && strcmp(ech_trace_format(trace), "scalesim") == 0 && replay->kernel_time == ECH_KERNEL_TIME_AUTO) {
            EchTrace *priced = ech_layers_price(trace, result->device, result->pass_diag, error);
            if (!priced)
                return false;
            ech_trace_unref(trace);
            trace = priced;
        }
    }
    if (!trace)
        return false;
    remark_amd(trace, result);
    g_autoptr(EchTrace) passed = ech_passes_run_trace(passes, result->device, trace, result->pass_diag, error);
    if (!passed)
        return false;
    bool again = import->program && passed != trace && !ech_yaml_get(c->config, "allocator") && lacks_places(passed) && !names_placement(passes);
    result->trace = again ? plan_again(passed, result, error) : ech_trace_ref(passed);
    return result->trace != NULL;
}

/* Who says what is available means what a process's context leaves. */
static bool says_available(const EchCase *c)
{
    for (char **setting = c->settings; *setting; setting++) {
        if (g_str_has_prefix(*setting, "memories.hbm.available"))
            return true;
    }
    return false;
}

/* Whether buffer @id is in @trace, which passes made of @recorded, what it was at the start. */
static bool is_as_it_was(const EchTrace *recorded, const EchTrace *trace, uint32_t id)
{
    if (id >= ech_trace_n_buffers(trace))
        return false;
    const EchBuffer *was = &ech_trace_buffers(recorded)[id], *is = &ech_trace_buffers(trace)[id];
    return was->resident == is->resident && was->bytes == is->bytes && was->address == is->address &&
           strcmp(ech_trace_memory(recorded, was->memory), ech_trace_memory(trace, is->memory)) == 0;
}

/* The owners of the start state's blocks in @trace, where passes left all that it holds as it was: buffers and queues keep their numbers, pools do not. NULL
 * where something is held otherwise; *ret_moved: how much. */
static GArray *owners_after(const EchTrace *recorded, const EchTrace *trace, const EchAllocStart *start, EchBytes *ret_moved)
{
    *ret_moved = 0;
    for (guint i = 0; i < start->seeds->len; i++) {
        const EchSeedBlock *seed = &g_array_index(start->seeds, EchSeedBlock, i);
        if (seed->id != UINT32_MAX && !is_as_it_was(recorded, trace, seed->id))
            *ret_moved = ech_bytes_add(*ret_moved, seed->bytes);
    }
    if (*ret_moved > 0)
        return NULL;
    g_autoptr(GHashTable) pools = g_hash_table_new(NULL, NULL); /* + 1: of @recorded -> of @trace */
    size_t n = MIN(ech_trace_n_buffers(recorded), ech_trace_n_buffers(trace));
    for (size_t b = 0; b < n; b++)
        if (ech_trace_buffers(recorded)[b].pool != ECH_NONE && ech_trace_buffers(trace)[b].pool != ECH_NONE)
            g_hash_table_insert(pools, GUINT_TO_POINTER(ech_trace_buffers(recorded)[b].pool + 1), GUINT_TO_POINTER(ech_trace_buffers(trace)[b].pool + 1));
    GArray *owners = g_array_new(FALSE, FALSE, sizeof(EchAllocOwner));
    for (guint i = 0; i < start->owners->len; i++) {
        EchAllocOwner owner = g_array_index(start->owners, EchAllocOwner, i);
        guint pool = owner.pool == ECH_NONE ? 0 : GPOINTER_TO_UINT(g_hash_table_lookup(pools, GUINT_TO_POINTER(owner.pool + 1)));
        if (owner.pool != ECH_NONE)
            owner.pool = pool > 0 ? pool - 1 : ECH_NONE - 1; /* nobody asks for anything of it */
        g_array_append_val(owners, owner);
    }
    return owners;
}

/* The replay begins with what the recorded allocator held, as far as passes left that. */
static void begin_as_recorded(EchCachedImport *cached, const EchTrace *recorded, EchReplayOptions *options, EchResult *result)
{
    const EchAllocStart *start = cached->start;
    if (!start || start->granule != 0) /* not of PyTorch */
        return;
    g_clear_pointer(&cached->owners, g_array_unref);
    EchBytes moved;
    if (*result->passes && !(cached->owners = owners_after(recorded, result->trace, start, &moved))) {
        g_autofree char *text = ech_format_bytes(moved);
        ech_diag_remark(result->pass_diag,
                        "of what its allocator held when the recording began, passes have %s otherwise: it begins with an empty cache, and what it reserves is "
                        "not to be compared with the run without them",
                        text);
        return;
    }
    const GArray *owners = cached->owners ? cached->owners : start->owners;
    cached->begin = (EchReplayStart){.blocks = (const EchSeedBlock *)(const void *)start->seeds->data,
                                     .owners = (const EchAllocOwner *)(const void *)owners->data,
                                     .script = (const EchSegmentRange *)(const void *)start->script->data,
                                     .n = start->seeds->len,
                                     .n_script = start->script->len};
    options->begin = &cached->begin;
}

/* What the recorded allocator had of the device before the recording, of which only the amount is known; all that it asks for where it asked the device for
 * nothing. Passes may need more than it had. */
static EchBytes held_before(const EchTrace *recorded, const EchResult *result)
{
    const char *held = ech_trace_get_property(recorded, "begin_reserved_bytes");
    EchBytes bytes = 0;
    if (!*result->passes && g_strcmp0(ech_trace_get_property(recorded, "reserved_never_grew"), "1") == 0)
        return UINT64_MAX;
    return held && ech_parse_u64(held, &bytes, NULL) ? bytes : 0;
}

/* Where nobody says which allocator serves the device's memory: the one that was recorded; and where the device then puts things. */
static void take_recorded_allocator(EchExperiment *experiment, const EchTrace *recorded, EchReplayOptions *options, EchResult *result)
{
    EchCachedImport *cached = NULL;
    for (guint i = 0; recorded && i < experiment->cache->items->len && !cached; i++) {
        EchCachedImport *at = &g_array_index(experiment->cache->items, EchCachedImport, i);
        cached = at->import->trace == recorded ? at : NULL;
    }
    if (cached && cached->selected) /* of several devices the one that is replayed */
        recorded = cached->selected;
    if (cached)
        options->order = ech_alloc_recorded_order(recorded, ech_alloc_main_memory(recorded));
    if (!cached || options->allocator || !lacks_places(result->trace))
        return;
    if (!cached->asked || cached->asked_of != cached->device) {
        g_free(cached->allocator);
        g_clear_pointer(&cached->start, ech_alloc_start_free);
        cached->allocator = ech_recorded_allocator(recorded, &cached->released);
        cached->start = cached->allocator ? ech_alloc_start_of_trace(recorded, ech_alloc_main_memory(recorded)) : NULL;
    }
    cached->asked = true;
    cached->asked_of = cached->device;
    begin_as_recorded(cached, recorded, options, result);
    options->held = options->begin ? 0 : held_before(recorded, result);
    options->allocator = g_strdup(cached->allocator);
    result->allocator = g_strdup(cached->allocator);
    result->released = cached->released;
    result->recorded_peak = ech_alloc_recorded_peak(recorded, ech_alloc_main_memory(recorded));
}

/* What `matmul:` says, which is as could be on @device. */
static bool read_product(const EchYamlNode *node, const EchDevice *device, EchProductOptions *product, GError **error)
{
    if (node->kind != ECH_YAML_MAP)
        return ech_yaml_error(node, error, "matmul: expected sizes with their values, like {m: 4096, n: 4096, k: 4096, buffers: 2}"), false;
    for (size_t i = 0; i < node->n; i++) {
        if (node->items[i]->kind != ECH_YAML_SCALAR)
            return ech_yaml_error(node->items[i], error, "matmul.%s: expected one value", node->keys[i]), false;
        if (!ech_params_set(ech_product_params, product, node->keys[i], node->items[i]->text, error)) {
            g_prefix_error(error, "matmul: ");
            ech_yaml_prefix(node->items[i], error);
            return false;
        }
    }
    bool ok = ech_product_check(product, device, error);
    if (!ok)
        prefix_place(node, error);
    return ok;
}

static bool check_product(const EchYamlNode *node, const EchDevice *device, GError **error)
{
    EchProductOptions product = {0};
    ech_params_defaults(ech_product_params, &product);
    bool ok = read_product(node, device, &product, error);
    ech_params_clear(ech_product_params, &product);
    return ok;
}

/* A workload that no program was captured for. */
static EchTrace *make_product(const EchYamlNode *node, EchResult *result, GError **error)
{
    EchProductOptions product = {0};
    ech_params_defaults(ech_product_params, &product);
    bool ok = read_product(node, result->device, &product, error);
    EchTrace *trace = ok ? ech_product_trace(&product, result->device, result->pass_diag, error) : NULL;
    if (ok && !trace)
        prefix_place(node, error);
    ech_params_clear(ech_product_params, &product);
    return trace;
}

/* Keys that say one thing each. */
static bool check_scalars(const EchYamlNode *config, GError **error)
{
    static const char *const keys[] = {"title", "format", "beside", "capture_device"};
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) {
        const EchYamlNode *node = ech_yaml_get(config, keys[i]);
        if (node && node->kind != ECH_YAML_SCALAR) {
            ech_yaml_error(node, error, "%s: expected one text", keys[i]);
            return false;
        }
    }
    return true;
}

/* Are the allocators that the case names some? They are made by the replay. */
static bool check_allocators(const EchCase *c, const EchDevice *device, const EchReplayOptions *options, GError **error)
{
    static const char *const keys[] = {"allocator", "host_allocator"};
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) {
        const EchMemory *memory = ech_device_memory(device, i ? "host" : "hbm");
        const char *spec = i ? options->host_allocator : options->allocator;
        const EchAllocDevice below = {.capacity = memory && memory->capacity ? memory->capacity : UINT64_MAX, .granule = 0};
        if (!spec || !*spec)
            continue;
        g_autoptr(EchAllocator) allocator = ech_allocator_new(spec, &below, error);
        if (allocator)
            continue;
        const EchYamlNode *node = ech_yaml_get(c->config, keys[i]);
        if (!node)
            node = ech_yaml_get(ech_yaml_get(c->config, "replay"), keys[i]);
        if (node)
            ech_yaml_prefix(node, error);
        return false;
    }
    return true;
}

/* What a case says beside its trace: the device, the passes, the options of the replay. */
static bool read_case(EchExperiment *experiment, const EchCase *c, EchResult *result, GPtrArray **ret_passes, EchReplayOptions *options, GError **error)
{
    if (!load_devices(experiment, c, result, error))
        return false;
    const EchYamlNode *matmul = ech_yaml_get(c->config, "matmul"), *trace = ech_yaml_get(c->config, "trace");
    if (matmul && trace) {
        ech_yaml_error(matmul, error, "matmul: stands in place of a trace, and a trace is given too; expected one of them");
        return false;
    }
    g_autoptr(GPtrArray) passes = read_passes(c->config, error);
    if (!passes || !check_scalars(c->config, error) || !read_options(c, experiment->n_cases > 1 || experiment->find, options, error) ||
        !check_allocators(c, result->device, options, error))
        return false;
    *ret_passes = g_steal_pointer(&passes);
    return true;
}

/* Passes that change programs come before those that change traces, and there need be no program. @program: there is one. */
static void remark_passes(const GPtrArray *passes, bool program, EchDiag *diag)
{
    const char *before = NULL; /* the newest pass of traces */
    for (guint i = 0; i < passes->len; i++) {
        const EchPass *pass = passes->pdata[i];
        if (!ech_pass_is_program(pass))
            before = ech_pass_name(pass);
        else if (!program)
            ech_diag_remark(diag, "%s: left the trace as it is: it changes programs as their compiler would, and this is no XLA program", ech_pass_name(pass));
        else if (before)
            ech_diag_remark(diag, "%s: comes before %s, which changes what the program is lowered to", ech_pass_name(pass), before);
    }
}

/* "3", "2..3", "last" or "usual" of @n, as indices. @usual: as ech_trace_usual_step() has it. */
static bool read_steps(const EchYamlNode *node, size_t n, size_t usual, size_t *ret_first, size_t *ret_last, GError **error)
{
    g_auto(GStrv) ends = node->kind == ECH_YAML_SCALAR ? g_strsplit(node->text, "..", 2) : NULL;
    bool read = ends && ends[0], is_usual = read && strcmp(node->text, "usual") == 0;
    uint64_t first = is_usual ? usual + 1 : n, last = first;
    if (read && !is_usual && strcmp(node->text, "last") != 0)
        read = ech_parse_u64(ends[0], &first, NULL) && ech_parse_u64(ends[ends[1] ? 1 : 0], &last, NULL);
    if (!read || first < 1 || last < first || last > n) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG,
                    "step: '%s' is no step of this trace; expected a number from 1 to %zu, several as 1..%zu, last or usual",
                    node->kind == ECH_YAML_SCALAR ? node->text : "a list", n, n);
        prefix_place(node, error);
        return false;
    }
    *ret_first = (size_t)first - 1;
    *ret_last = (size_t)last - 1;
    return true;
}

/* Of the trace as passes left it one step alone, where the case asks for that. */
static bool take_step(const EchCase *c, EchReplayOptions *options, EchResult *result, GError **error)
{
    const EchYamlNode *node = ech_yaml_get(c->config, "step");
    if (!node)
        return true;
    size_t n, first, last;
    g_autofree EchTraceStep *steps = ech_trace_steps(result->trace, &n);
    if (!steps) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED,
                    "step: nothing in %s tells steps; expected marks like \"step 3\" (NVTX ranges, ProfilerStep#3), optimizers' steps, runs of one of XLA's "
                    "programs or, where nothing is trained, calls of a PyTorch module outside of others, two at least",
                    result->trace_path);
        prefix_place(node, error);
        return false;
    }
    size_t usual = ech_trace_usual_step(steps, n);
    if (!read_steps(node, n, usual, &first, &last, error))
        return false;
    /* The mark behind it is in: it tells that the step is whole. */
    EchId end = steps[last].next != ECH_NONE ? steps[last].next + 1 : steps[last].end;
    EchTrace *part = ech_trace_part(result->trace, steps[first].mark, end, error);
    if (!part)
        return false;
    const char *name = ech_trace_string(result->trace, ech_trace_ops(result->trace)[steps[first].mark].name);
    g_autoptr(GString) which = g_string_new(NULL);
    g_string_append_printf(which, first == last ? "step %zu" : "steps %zu to %zu", first + 1, last + 1);
    char *title = g_strdup_printf("%s, %s of %zu", result->title, which->str, n);
    g_free(result->title);
    result->title = title;
    ech_diag_remark(result->pass_diag, "%s of %zu alone, from %s%s: what was asked for before is held as it was then, and takes no time here", which->str, n,
                    name, ech_step_until(name, steps[first].others));
    if (first == last && first != usual && steps[first].rows != steps[usual].rows)
        ech_diag_remark(result->pass_diag,
                        "its batch was captured with %" G_GUINT64_FORMAT " rows, others with %" G_GUINT64_FORMAT
                        ", which is what --pass batch goes by: --step usual is the last of those",
                        steps[first].rows, steps[usual].rows);
    result->whole = result->trace;
    result->trace = part;
    options->whole = result->whole;
    options->n_before = steps[first].mark;
    return true;
}

static void add_word(GString *text, const char *option, const char *value)
{
    g_autofree char *quoted = ech_shell_word(value);
    g_string_append_printf(text, "%s--%s %s", text->len ? " " : "", option, quoted);
}

/* What the command line said of the case, for another verb; NULL where it said no more than trace and device, or a file of an experiment says the rest. */
static char *words_of(const EchExperiment *experiment, const EchCase *c)
{
    static const char *const keys[] = {"trace", "device", "format", "beside", "step"};
    g_autoptr(GString) text = g_string_new(NULL);
    size_t n = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) {
        const char *value = ech_yaml_text(c->config, keys[i]);
        if (value)
            add_word(text, keys[i], value);
        n += value != NULL;
    }
    const EchYamlNode *passes = ech_yaml_get(c->config, "passes");
    for (size_t i = 0; passes && i < passes->n; i++)
        add_word(text, "pass", passes->items[i]->text);
    for (char **edit = c->edits; *edit; edit++) {
        bool allocator = g_str_has_prefix(*edit, "allocator=");
        if (!g_str_has_prefix(*edit, "replay.engine=")) /* which advice chooses itself */
            add_word(text, allocator ? "allocator" : "set", allocator ? *edit + strlen("allocator=") : *edit);
        n += !g_str_has_prefix(*edit, "replay.engine=");
    }
    return !experiment->path && (n > 2 || (passes && passes->n > 0)) ? g_string_free(g_steal_pointer(&text), FALSE) : NULL;
}

/* All but the replay itself; @options is filled with defaults, and cleared by the caller. */
static EchResult *prepare_steps(EchExperiment *experiment, const EchCase *c, EchReplayOptions *options, GError **error)
{
    g_autoptr(EchResult) result = g_new0(EchResult, 1);
    result->title = *c->label ? g_strdup_printf("%s: %s", experiment->title, c->label) : g_strdup(experiment->title);
    result->settings = g_strdupv(c->edits);
    result->pass_diag = ech_diag_new();
    g_autoptr(GPtrArray) passes = NULL;
    if (!read_case(experiment, c, result, &passes, options, error))
        return NULL;
    result->words = words_of(experiment, c);
    g_autoptr(GPtrArray) specs = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 0; i < passes->len; i++) {
        EchBytes goal = ech_pass_goal(passes->pdata[i]);
        if (goal > 0 && (result->goal == 0 || goal < result->goal))
            result->goal = goal;
        g_ptr_array_add(specs, ech_pass_print(passes->pdata[i]));
    }
    g_ptr_array_add(specs, NULL);
    result->passes = (char **)g_ptr_array_steal(specs, NULL);
    const char *key;
    const EchYamlNode *matmul = ech_yaml_get(c->config, "matmul");
    EchImport *import = matmul ? NULL : import_trace(experiment, c->config, &key, error);
    remark_passes(passes, import && import->program, result->pass_diag);
    if (matmul) {
        result->trace_path = g_strdup("matmul");
        result->format = g_strdup("matmul");
        g_autoptr(EchTrace) trace = make_product(matmul, result, error);
        result->trace = trace ? ech_passes_run_trace(passes, result->device, trace, result->pass_diag, error) : NULL;
        g_clear_pointer(&result->reference, ech_device_free); /* nothing is carried over from it */
    } else if (import) {
        result->trace_path = g_strndup(key, strcspn(key, "\n"));
        result->format = g_strdup(import->format);
        result->import_diag = import->diag;
        result->refusal = import->refusal;
        options->context = !import->program && !says_available(c) && !ech_trace_get_property(import->trace, "context_held");
        if (make_trace(experiment, c, import, passes, options, result, error))
            take_recorded_allocator(experiment, import->trace, options, result);
    }
    if (!result->trace || !take_step(c, options, result, error))
        return NULL;
    const EchMemory *pageable = import && !import->program ? ech_device_memory_kind(result->device, ECH_MEM_HOST_PAGEABLE) : NULL;
    if (pageable)
        remark_pageable(result->trace, pageable, result->pass_diag);
    return g_steal_pointer(&result);
}

static EchResult *prepare_case(EchExperiment *experiment, const EchCase *c, EchReplayOptions *options, GError **error)
{
    ech_params_defaults(ech_replay_params, options);
    EchResult *result = prepare_steps(experiment, c, options, error);
    if (!result && error)
        ech_experiment_say_place(experiment->places, *error);
    return result;
}

static EchResult *run_case(EchExperiment *experiment, const EchCase *c, GError **error)
{
    EchReplayOptions options = {0};
    g_autoptr(EchResult) result = prepare_case(experiment, c, &options, error);
    if (result) {
        result->run = ech_replay_run(result->trace, result->device, result->reference, &options, error);
        if (!result->run && error)
            ech_experiment_say_place(experiment->places, *error);
    }
    ech_params_clear(ech_replay_params, &options);
    return result && result->run ? g_steal_pointer(&result) : NULL;
}

/* Captures of another run that lie in the same folder. */
static bool ranks_are_one_each(const GPtrArray *results, GError **error)
{
    for (guint i = 0; i < results->len; i++)
        for (guint k = 0; k < i; k++) {
            const EchResult *a = results->pdata[k], *b = results->pdata[i];
            const char *rank = ech_trace_get_property(a->trace, "rank");
            if (!rank || ech_trace_get_property(a->trace, ECH_TRACE_TOGETHER) || g_strcmp0(rank, ech_trace_get_property(b->trace, "rank")) != 0)
                continue;
            g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s and %s are both rank %s; expected the captures of one run, one of each rank", a->trace_path,
                        b->trace_path, rank);
            return false;
        }
    return true;
}

static bool join_meetings(const GPtrArray *results, EchReplayRank *ranks, GError **error)
{
    EchTrace *traces[ECH_MAX_RANKS] = {NULL};
    for (guint i = 0; i < results->len; i++)
        traces[i] = ((EchResult *)results->pdata[i])->trace;
    uint64_t settled = 0;
    bool ok = results->len < 2 || ech_meets_join(traces, results->len, &settled, error);
    for (guint i = 0; i < results->len; i++)
        ranks[i].trace = ((EchResult *)results->pdata[i])->trace = traces[i];
    for (guint i = 0; settled > 0 && i < results->len; i++)
        if (g_strcmp0(((EchResult *)results->pdata[i])->device->family, "gpu") == 0) /* others' take what the model says */
            ech_diag_remark(((EchResult *)results->pdata[i])->pass_diag,
                            "a recorded collective takes as long as it did with who came last to it; how long the others wait there is replayed");
    return ok;
}

bool ech_experiment_run_together(EchExperiment *const *experiments, size_t n, EchTogether how, EchResult **ret_results, GError **error)
{
    EchReplayRank ranks[ECH_MAX_RANKS];
    EchReplayOptions options[ECH_MAX_RANKS] = {0};
    EchRun *runs[ECH_MAX_RANKS] = {NULL};
    g_autoptr(GPtrArray) results = g_ptr_array_new_with_free_func((GDestroyNotify)ech_result_free);
    g_assert(n > 0 && n <= ECH_MAX_RANKS);
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++) {
        const EchCase *plain = how == ECH_TOGETHER_PLAIN ? experiments[i]->plain : NULL;
        EchResult *result = prepare_case(experiments[i], plain ? plain : &experiments[i]->cases[0], &options[i], error);
        ok = result != NULL;
        if (ok) {
            g_ptr_array_add(results, result);
            if (how == ECH_TOGETHER_APART)
                options[i].share = ECH_SHARE_NONE;
            ranks[i] =
                (EchReplayRank){result->trace, result->device, result->reference, &options[i], (uint32_t)MIN(ech_trace_number(result->trace, i), ECH_NONE - 1)};
        }
    }
    ok = ok && ranks_are_one_each(results, error) && join_meetings(results, ranks, error) && ech_replay_run_together(ranks, n, runs, error);
    for (size_t i = 0; i < n; i++)
        ech_params_clear(ech_replay_params, &options[i]);
    if (!ok)
        return false;
    for (size_t i = 0; i < n; i++) {
        ret_results[i] = results->pdata[i];
        ret_results[i]->run = runs[i];
    }
    g_free(g_ptr_array_steal(results, NULL));
    return true;
}

/* Could @index run, as far as that can be told without running it? */
static bool check_case(EchExperiment *experiment, size_t index, GError **error)
{
    const EchCase *c = &experiment->cases[index];
    g_autoptr(EchResult) result = g_new0(EchResult, 1);
    g_autoptr(GPtrArray) passes = NULL;
    EchReplayOptions options = {0};
    ech_params_defaults(ech_replay_params, &options);
    bool ok = read_case(experiment, c, result, &passes, &options, error);
    ech_params_clear(ech_replay_params, &options);
    const EchYamlNode *matmul = ech_yaml_get(c->config, "matmul");
    if (ok && matmul) {
        ok = check_product(matmul, result->device, error);
    } else if (ok) {
        g_autofree char *path = NULL, *beside = NULL;
        ok = find_inputs(c->config, &path, &beside, error);
    }
    if (!ok && error)
        ech_experiment_say_place(experiment->places, *error);
    return ok;
}

bool ech_experiment_check_values(EchExperiment *experiment, GError **error)
{
    enum { UNKNOWN, GOOD, BAD };
    g_autofree uint8_t *known = g_new0(uint8_t, experiment->n_cases);
    size_t stride = experiment->n_cases;
    for (size_t axis = 0; experiment->axes[axis]; axis++) {
        size_t n = experiment->axis_sizes[axis];
        stride /= n;
        for (size_t value = 0; value < n; value++) {
            bool good = false;
            for (size_t i = 0; i < experiment->n_cases && !good; i++) {
                if (i / stride % n != value)
                    continue;
                if (known[i] == UNKNOWN)
                    known[i] = check_case(experiment, i, NULL) ? GOOD : BAD;
                good = known[i] == GOOD;
            }
            if (!good) /* for the error of the first that has it */
                return check_case(experiment, value * stride, error);
        }
    }
    return true;
}

EchResult *ech_experiment_run(EchExperiment *experiment, size_t index, GError **error)
{
    g_assert(index < experiment->n_cases);
    return run_case(experiment, &experiment->cases[index], error);
}

EchResult *ech_experiment_run_case(EchExperiment *experiment, const EchCase *c, GError **error)
{
    return run_case(experiment, c, error);
}

EchResult *ech_experiment_run_plain(EchExperiment *experiment, GError **error)
{
    g_assert(experiment->plain);
    return run_case(experiment, experiment->plain, error);
}

void ech_result_free(EchResult *result)
{
    if (!result)
        return;
    g_free(result->title);
    g_free(result->trace_path);
    g_free(result->format);
    g_free(result->allocator);
    ech_device_free(result->device);
    ech_device_free(result->reference);
    if (result->program)
        ech_program_unref(result->program);
    if (result->trace)
        ech_trace_unref(result->trace);
    if (result->whole)
        ech_trace_unref(result->whole);
    ech_diag_free(result->pass_diag);
    g_strfreev(result->passes);
    g_strfreev(result->settings);
    g_free(result->words);
    ech_run_free(result->run);
    g_free(result);
}

EchReport ech_result_report(const EchResult *result)
{
    return (EchReport){
        .title = result->title,
        .trace_path = result->trace_path,
        .format = result->format,
        .trace = result->trace,
        .is_step = result->whole != NULL,
        .program = result->program,
        .device = result->device,
        .run = result->run,
        .import_diag = result->import_diag,
        .refusal = result->refusal,
        .pass_diag = result->pass_diag,
        .passes = (const char *const *)result->passes,
        .goal = result->goal,
        .settings = (const char *const *)result->settings,
        .words = result->words,
        .recorded = {result->allocator, result->released, *result->passes || result->whole ? 0 : result->recorded_peak},
    };
}
