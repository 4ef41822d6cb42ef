/* Reading a study: events, what was there before them, and how much memory there is for them. */
#include "sim/experiment/alloc_study_private.h"
#include "models/alloc/pytorch_conf.h"
#include "models/device/device.h"
#include "sim/base/error.h"
#include "sim/import/alloc_text.h"
#include "sim/import/import.h"
#include "sim/trace/select.h"

#include <string.h>

/* Where nothing tells the capacity: the H100 and A100 of 80 GB, and the device the recorded placements were made on. */
static const EchBytes DEFAULT_CAPACITY = UINT64_C(80) << 30;
enum {
    SEARCH_UNASKED = 200000, /* events up to which the smallest capacity is searched without being asked for */
    SPLITS_UNASKED = 50000,  /* events up to which max_split_size_mb is tried at all its usual values */
};

void ech_alloc_study_free(EchAllocStudy *study)
{
    if (!study)
        return;
    g_clear_pointer(&study->events, g_array_unref);
    g_clear_pointer(&study->planned, g_array_unref);
    g_clear_pointer(&study->after, g_array_unref);
    g_clear_pointer(&study->start, ech_alloc_start_free);
    g_clear_pointer(&study->trace, ech_trace_unref);
    g_clear_pointer(&study->refusals, g_array_unref);
    g_clear_pointer(&study->diag, ech_diag_free);
    g_free(study->format);
    g_free(study->others);
    g_free(study);
}

/* What of a program's memory is there before it runs, and what its compiler needs in all. */
static void count_program(const EchProgram *program, EchId memory, EchAllocStudy *study)
{
    for (size_t i = 0; i < ech_trace_n_buffers(study->trace); i++) {
        const EchBuffer *buffer = &ech_trace_buffers(study->trace)[i];
        if (buffer->memory == memory && buffer->resident && buffer->alias_of == ECH_NONE)
            study->resident = ech_bytes_add(study->resident, buffer->bytes);
    }
    if (memory == ECH_NONE || strcmp(ech_trace_memory(study->trace, memory), "hbm") != 0 || !program->assignment)
        return;
    EchMemoryAnalysis m = ech_program_memory_analysis(program);
    EchBytes more = ech_bytes_add(m.output - MIN(m.alias, m.output), m.temp);
    study->compiler_bytes = study->temporaries ? more : ech_bytes_add(more, ech_bytes_add(m.argument, m.constant));
}

/* The memory that ran out, if it is one of several devices'; else the main one. */
static EchId memory_of(const EchTrace *trace)
{
    EchId best = ech_alloc_main_memory(trace);
    g_autoptr(GArray) of_main = ech_alloc_refusals(trace, best);
    for (EchId m = 0; m < ech_trace_n_memories(trace) && of_main->len == 0; m++) {
        g_autoptr(GArray) refusals = ech_alloc_refusals(trace, m);
        if (refusals->len)
            return m;
    }
    return best;
}

/* Names of the memories but @id that have buffers of any size, or NULL. */
static char *others_of(const EchTrace *trace, EchId id)
{
    size_t n = ech_trace_n_memories(trace);
    g_autofree bool *has = g_new0(bool, n + 1);
    for (size_t i = 0; i < ech_trace_n_buffers(trace); i++)
        has[MIN((size_t)ech_trace_buffers(trace)[i].memory, n)] |= ech_trace_buffers(trace)[i].bytes > 0;
    g_autoptr(GString) names = g_string_new(NULL);
    for (EchId m = 0; m < n; m++) {
        if (has[m] && m != id)
            g_string_append_printf(names, "%s%s", names->len ? ", " : "", ech_trace_memory(trace, m));
    }
    return names->len ? g_strdup(names->str) : NULL;
}

/* Text of events is read straight into the array, because a trace of it would take many times its memory. */
static bool read_text(EchSource *source, const char *path, EchAllocStudy *study, GError **error)
{
    study->format = g_strdup("alloc_text");
    study->diag = ech_diag_new();
    study->events = g_array_new(FALSE, FALSE, sizeof(EchAllocEvent));
    g_autoptr(GBytes) bytes = ech_source_bytes(source, 0, error);
    if (!bytes)
        return false;
    gsize size;
    const char *data = g_bytes_get_data(bytes, &size);
    return ech_alloc_text_read(data, size, path, study->events, study->diag, error);
}

/* The trace of a file, or of its program with each loop's body once. */
static bool take_trace(EchImport *import, EchAllocStudy *study, GError **error)
{
    study->format = g_strdup(import->format);
    if (import->trace) {
        study->trace = ech_trace_ref(import->trace);
    } else {
        const EchLowerOptions lower = {.loop_trips = 1};
        study->trace = ech_program_lower(import->program, NULL, &lower, import->diag, error);
        if (!study->trace)
            return false;
        study->is_program = true;
        study->platform = import->program->platform;
    }
    study->diag = g_steal_pointer(&import->diag);
    return true;
}

/* Whose arrays were asked of the driver one by one, so that a capture sees them: "tensorflow", "jax", whose own pools then had them of it at once, or
 * "cuda_async"; NULL: of nobody. */
static const char *one_by_one(const EchTrace *trace)
{
    return trace ? ech_trace_get_property(trace, "asked_one_by_one") : NULL;
}

/* JAX's, as the program's environment has it. */
static char *pool_of_jax(const EchTrace *trace)
{
    const char *share = ech_trace_get_property(trace, "pretended_pool_millionths"), *grows = ech_trace_get_property(trace, "pretended_pool_grows");
    g_autoptr(GString) spec = g_string_new("jax");
    uint64_t millionths;
    if (share && ech_parse_u64(share, &millionths, NULL)) {
        char fraction[G_ASCII_DTOSTR_BUF_SIZE];
        g_string_append_printf(spec, ":mem_fraction=%s", g_ascii_formatd(fraction, sizeof fraction, "%g", (double)millionths / 1e6));
    }
    if (grows)
        g_string_append_printf(spec, "%spreallocate=false", spec->len > strlen("jax") ? "," : ":");
    return g_string_free(g_steal_pointer(&spec), FALSE);
}

/* TensorFlow's, as the program has it: it leaves the system what the GPU's generation takes. */
static char *pool_of_tensorflow(const EchTrace *trace)
{
    const char *name = ech_trace_get_property(trace, "pretended_device"), *limit = ech_trace_get_property(trace, "pretended_pool_limit");
    g_autoptr(EchDevice) device = name ? ech_device_load(name, NULL, NULL) : NULL;
    double capability = device ? ech_device_number(device, "kernel.compute_capability", 0) : 0;
    g_autoptr(GString) spec = g_string_new("tensorflow");
    uint64_t bytes;
    if (capability > 0 && capability < 9)
        g_string_append_printf(spec, ":compute_capability=%.1f", capability);
    if (limit && ech_parse_u64(limit, &bytes, NULL))
        g_string_append_printf(spec, "%cmemory_limit=%" G_GUINT64_FORMAT, strchr(spec->str, ':') ? ',' : ':', bytes >> 20);
    if (ech_trace_get_property(trace, "pretended_pool_grows"))
        g_string_append_printf(spec, "%callow_growth", strchr(spec->str, ':') ? ',' : ':');
    return g_string_free(g_steal_pointer(&spec), FALSE);
}

/* That pool. Owned by the caller. */
static char *pool_of(const EchTrace *trace)
{
    const char *whose = one_by_one(trace);
    return g_strcmp0(whose, "jax") == 0 ? pool_of_jax(trace) : g_strcmp0(whose, "tensorflow") == 0 ? pool_of_tensorflow(trace) : g_strdup(whose);
}

/* Lives of what is taken beside the allocator are nobody's to place. */
static GArray *without_direct(GArray *events)
{
    GArray *rest = g_array_sized_new(FALSE, FALSE, sizeof(EchAllocEvent), events->len);
    g_autoptr(GHashTable) direct = g_hash_table_new(NULL, NULL);
    for (guint i = 0; i < events->len; i++) {
        const EchAllocEvent *event = &g_array_index(events, EchAllocEvent, i);
        if (event->kind == ECH_EVENT_ALLOC && event->direct)
            g_hash_table_add(direct, GUINT_TO_POINTER(event->id));
        else if (!(event->kind == ECH_EVENT_FREE && g_hash_table_contains(direct, GUINT_TO_POINTER(event->id))))
            g_array_append_val(rest, *event);
    }
    return rest;
}

/* The most that a recording says its allocator had reserved, or what it had at the end: of @id's device, or of all together, so of @id where that is the one
 * there is. */
static EchBytes reserved_of(const EchTrace *trace, EchId id)
{
    uint32_t device = ECH_NONE;
    bool own = id != ECH_NONE && ech_trace_device_of(trace, id, &device);
    const char *all = ech_trace_get_property(trace, "peak_reserved_bytes"), *reserved = own ? ech_trace_property_of(trace, "peak_reserved_bytes", device) : all;
    own = own && reserved != all;
    reserved = reserved ? reserved : ech_trace_get_property(trace, "end_reserved_bytes");
    bool alone = own || (id != ECH_NONE && strcmp(ech_trace_memory(trace, id), "hbm") == 0);
    for (EchId m = 0; m < ech_trace_n_memories(trace) && !own; m++)
        alone = alone && !g_str_has_prefix(ech_trace_memory(trace, m), "hbm:");
    EchBytes bytes;
    return alone && reserved && ech_parse_bytes(reserved, &bytes, NULL) ? bytes : 0;
}

/* The allocations of @id, and all that the trace tells of the allocator they were made by. */
static void take_memory(EchAllocStudy *study, EchId id)
{
    const EchTrace *trace = study->trace;
    study->memory = id == ECH_NONE ? NULL : ech_trace_memory(trace, id);
    study->events = ech_alloc_events_of_trace(trace, id, !study->temporaries, false);
    study->direct = ech_alloc_direct_peak(trace, id);
    study->start = ech_alloc_start_of_trace(trace, id);
    if (study->start)
        study->after = ech_alloc_events_of_trace(trace, id, false, true);
    study->refusals = ech_alloc_refusals(trace, id);
    study->held = ech_alloc_recorded_peak(trace, id);
    study->had = study->refusals->len ? ech_alloc_refused_capacity(trace, id, &study->limited) : study->held;
    study->held = study->held ? study->held : reserved_of(trace, id);
    static const char *const pytorch[] = {"memory_snapshot", "kineto", "pretend", "pytorch_et", "memory_timeline", NULL};
    study->order = ech_alloc_recorded_order(trace, id);
    study->of_pytorch = g_strv_contains(pytorch, ech_trace_format(trace)) && !one_by_one(trace); /* of an exported trace: what it was made from */
}

static bool read_events(const char *path, const EchAllocStudyOptions *options, EchAllocStudy *study, GError **error)
{
    const EchImportOptions import_options = {.device = options->device};
    g_autoptr(EchImport) import = NULL;
    if (g_file_test(path, G_FILE_TEST_IS_DIR)) {
        import = ech_import_file(path, options->format, &import_options, error);
    } else {
        g_autoptr(EchSource) source = ech_source_open(path, error);
        if (!source)
            return false;
        size_t n;
        const uint8_t *head = ech_source_head(source, &n);
        if ((!options->format || strcmp(options->format, "alloc_text") == 0) && ech_alloc_text_probe(head, n))
            return read_text(source, path, study, error);
        import = ech_import_source(source, options->format, &import_options, error);
    }
    if (!import || !take_trace(import, study, error))
        return false;
    EchId id = options->memory ? ech_trace_find_memory(study->trace, options->memory) : memory_of(study->trace);
    study->others = others_of(study->trace, id);
    if (options->memory && id == ECH_NONE) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "--memory: the trace has no memory '%s'; it has %s", options->memory,
                    study->others ? study->others : "none");
        return false;
    }
    take_memory(study, id);
    if (study->is_program)
        count_program(import->program, id, study);
    return true;
}

/* What a device's runtime hands out of a memory: of a GPU's, what the context of the process that asks leaves. */
static bool capacity_of(const char *name, const char *memory, EchBytes *ret, EchBytes *ret_context, GError **error)
{
    g_autoptr(EchDevice) device = ech_device_load(name, NULL, error);
    if (!device)
        return false;
    const EchMemory *found = ech_device_memory(device, memory ? memory : "hbm");
    if (!found) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "--device %s has no memory '%s'", name, memory ? memory : "hbm");
        return false;
    }
    EchBytes context = ech_device_context(device);
    *ret_context = strcmp(found->name, "hbm") == 0 && context < found->available ? context : 0;
    *ret = found->available - *ret_context;
    return true;
}

/* The least memory of which the recorded per_process_memory_fraction is what a limit left; 0 where no such share was set. */
static EchBytes shared_capacity(const EchAllocStudy *study)
{
    g_autofree char *spec = study->trace && study->limited ? ech_alloc_recorded_spec(study->trace) : NULL;
    const char *said = spec && g_str_has_prefix(spec, "pytorch:") ? strchr(spec, ':') + 1 : NULL;
    g_auto(EchPyTorchConf) conf = {0};
    if (!said || !ech_pytorch_conf_read(said, &conf, NULL) || !conf.has_fraction || conf.fraction <= 0 || conf.fraction >= 1)
        return 0;
    EchBytes had = ech_bytes_add(study->had, study->direct);
    double whole = (double)had / conf.fraction;
    if (whole >= (double)(UINT64_C(1) << 62))
        return 0;
    EchBytes capacity = (EchBytes)whole;
    while ((EchBytes)(conf.fraction * (double)capacity) < had)
        capacity++;
    return capacity;
}

/* How much memory there is where neither the user nor a device says it: a recording that ran out knows, a compiled program says what it is for. */
static void guess_capacity(const char *memory, EchAllocStudy *study)
{
    const char *chip = study->trace ? ech_trace_get_property(study->trace, "chip") : NULL;
    const char *had = study->trace ? ech_trace_get_property(study->trace, "had_bytes") : NULL;
    const char *pretended = study->trace ? ech_trace_get_property(study->trace, "pretended_bytes") : NULL,
               *context = study->trace ? ech_trace_get_property(study->trace, "pretended_context_bytes") : NULL;
    uint64_t of_all, taken;
    study->capacity = DEFAULT_CAPACITY;
    study->capacity_from = "assumed (--device or --capacity says it)";
    if (ech_alloc_study_n_refusals(study)) {
        EchBytes whole = shared_capacity(study);
        study->capacity = whole ? whole : ech_bytes_add(study->had, study->direct);
        study->capacity_from = whole            ? "by what the recording held when its per_process_memory_fraction refused more"
                               : study->limited ? "what the recording held when a limit refused more"
                                                : "what the recording held and what was free when it ran out";
    } else if (had && ech_parse_bytes(had, &study->capacity, NULL)) {
        study->capacity_from = "what there is, as the message says";
    } else if (pretended && context && ech_parse_u64(pretended, &of_all, NULL) && ech_parse_u64(context, &taken, NULL) && of_all > taken) {
        study->capacity = of_all - taken;
        study->context = taken;
        study->capacity_from = "what the pretended device had beside its context";
    } else if (chip && capacity_of(chip, memory, &study->capacity, &study->context, NULL)) {
        study->capacity_from = chip;
    } else if (ech_bytes_add(study->had, study->direct) > DEFAULT_CAPACITY) {
        study->capacity = ech_bytes_add(study->had, study->direct);
        study->capacity_from = "the most that the recording held (--device or --capacity says more)";
    }
}

char *ech_recorded_allocator(const EchTrace *trace, const char **ret_released)
{
    *ret_released = NULL;
    g_autofree char *spec = ech_alloc_recorded_spec(trace);
    if (!spec)
        return pool_of(trace);
    if (!g_str_has_prefix(spec, "pytorch"))
        return g_strdup("jax"); /* XLA's, and how JAX sets it up */
    g_autoptr(EchAllocStudy) study = g_new0(EchAllocStudy, 1);
    study->trace = ech_trace_ref((EchTrace *)(uintptr_t)trace);
    take_memory(study, memory_of(trace));
    guess_capacity(NULL, study);
    ech_alloc_study_find_release(study);
    *ret_released = study->released;
    return ech_alloc_study_released(study, spec);
}

EchAllocStudy *ech_alloc_study_read(const char *path, const EchAllocStudyOptions *options, GError **error)
{
    g_autoptr(EchAllocStudy) study = g_new0(EchAllocStudy, 1);
    study->temporaries = options->temporaries;
    study->capacity = options->capacity;
    if (options->device && !options->capacity && !capacity_of(options->device, options->memory, &study->capacity, &study->context, error))
        return NULL;
    if (!read_events(path, options, study, error))
        return NULL;
    study->planned = study->direct > 0 ? without_direct(study->events) : g_array_ref(study->events);
    if (!options->device && !options->capacity)
        guess_capacity(options->memory, study);
    if (!options->capacity && study->context > 0 && study->trace && ech_trace_get_property(study->trace, "context_held")) {
        study->capacity += study->context; /* among what is held */
        study->context = 0;
    }
    ech_alloc_study_find_release(study);
    return g_steal_pointer(&study);
}

bool ech_alloc_study_sums_only(const EchAllocStudy *study)
{
    return study->trace && ech_trace_get_property(study->trace, "sums_only");
}

bool ech_alloc_study_searches(const EchAllocStudy *study)
{
    return (study->is_program || study->of_pytorch || study->start) && study->events->len <= SEARCH_UNASKED;
}

/* The max_split_size_mb with which the least memory would do, as a spec; NULL where none of the usual values is better than none at all. */
static char *best_split(const EchAllocStudy *study, const volatile sig_atomic_t *stop)
{
    static const unsigned mib[] = {32, 64, 128, 256, 512, 1024};
    const EchAllocEvent *events = (const EchAllocEvent *)(const void *)study->events->data;
    size_t n = study->events->len;
    g_autofree char *unlimited = ech_alloc_study_released(study, "pytorch");
    EchBytes least = ech_alloc_smallest_capacity(unlimited, events, n, ECH_ALLOC_STUDY_GRANULE, study->order, stop, NULL);
    char *best = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(mib); i++) {
        g_autofree char *spec = g_strdup_printf("pytorch:max_split_size_mb:%u", mib[i]);
        g_autofree char *released = ech_alloc_study_released(study, spec);
        EchBytes bytes = ech_alloc_smallest_capacity(released, events, n, ECH_ALLOC_STUDY_GRANULE, study->order, stop, NULL);
        if (bytes == 0 || bytes >= least)
            continue;
        least = bytes;
        g_free(best);
        best = g_steal_pointer(&spec);
    }
    return best;
}

static void add(GPtrArray *specs, const char *spec)
{
    g_ptr_array_add(specs, g_strdup(spec));
}

/* What a user of PyTorch can choose; the first is what was recorded. */
static void add_pytorch(const EchAllocStudy *study, bool fresh, const volatile sig_atomic_t *stop, GPtrArray *specs)
{
    g_autofree char *recorded = study->start && !fresh ? ech_alloc_recorded_spec(study->trace) : NULL;
    bool holes = study->start && study->start->seeds->len;
    add(specs, "pytorch");
    if (recorded && (holes || strcmp(recorded, "pytorch") != 0))
        add(specs, "pytorch:");
    g_autofree char *split = study->events->len && study->events->len <= SPLITS_UNASKED ? best_split(study, stop) : NULL;
    if (split)
        add(specs, split);
    if (!recorded || !strstr(recorded, "expandable_segments:True") || (holes && strcmp(recorded, "pytorch:expandable_segments:True") != 0))
        add(specs, "pytorch:expandable_segments:True");
    add(specs, "pytorch:backend:cudaMallocAsync");
}

char **ech_alloc_study_specs(const EchAllocStudy *study, bool fresh, const volatile sig_atomic_t *stop)
{
    GPtrArray *specs = g_ptr_array_new();
    if (ech_alloc_study_sums_only(study)) {
        /* Sums lie side by side under any of them. */
    } else if (study->is_program) {
        /* Each shows what it needs: reserved bytes of a pool that is taken whole at the start say nothing. */
        add(specs, "bfc");
        add(specs, "pytorch");
        add(specs, "pytorch:expandable_segments:True");
        add(specs, "plan");
        add(specs, "plan:exact:step_limit=200000");
        if (study->compiler_bytes)
            add(specs, "compiler");
    } else if (study->of_pytorch && study->memory && g_str_has_prefix(study->memory, "host")) {
        add(specs, "pytorch_pinned");
    } else if (study->of_pytorch) {
        add_pytorch(study, fresh, stop, specs);
    } else if (one_by_one(study->trace)) {
        g_ptr_array_add(specs, pool_of(study->trace));
        if (strcmp(one_by_one(study->trace), "cuda_async") != 0)
            add(specs, "cuda_async");
    } else if (study->start && !fresh) {
        /* BFC ran out: as it was, without its holes, and with what JAX and TensorFlow can be told to use instead. */
        add(specs, "bfc");
        add(specs, "bfc:");
        add(specs, "cuda_async");
    } else {
        add(specs, "bfc");
        add(specs, "pytorch");
    }
    g_ptr_array_add(specs, NULL);
    return (char **)g_ptr_array_free(specs, FALSE);
}
