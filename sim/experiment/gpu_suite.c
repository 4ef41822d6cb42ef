/* One stage after the other, as far as the budget lasts. */
#include "sim/experiment/gpu_suite_private.h"

#include "sim/experiment/validate_cuda.h"
#include "sim/trace/file.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>

void ech_gpu_suite_free(EchGpuSuite *suite)
{
    if (!suite)
        return;
    for (size_t i = 0; i < suite->n_cases; i++) {
        g_free(suite->cases[i].name);
        g_free(suite->cases[i].allocator);
        g_free(suite->cases[i].file);
        g_free(suite->cases[i].error);
    }
    g_free(suite->cases);
    g_free(suite->gpu);
    g_free(suite->device_path);
    g_free(suite->table);
    g_free(suite->calibration);
    g_free(suite);
}

/* Ours, compiled for an H100: with offload and its copies overlapped, without overlap, without offload, and so on. */
static const char *const programs[] = {"gpt_unrolled_overlap.h100", "gpt_unrolled_offload.h100", "gpt_unrolled_kept.h100", "gpt_offload.h100",
                                       "gpt_nothing.h100",          "gpt_everything.h100",       "adam_moments.h100",      "adam_none.h100",
                                       "mlp_parameters.h100",       "mlp_activations.h100",      "mlp_none.h100"};

static bool write_json(const char *folder, const char *name, const EchCudaValidation *v, GError **error)
{
    g_autofree char *json = ech_cuda_validation_json(v), *file = g_strdup_printf("%s.json", name), *path = g_build_filename(folder, file, NULL);
    return g_file_set_contents(path, json, -1, error);
}

/* Predicts and measures @trace, a file, into @row. */
static bool run_case(const EchGpuSuiteOptions *options, const char *device, const char *trace, const char *allocator, const char *spec, EchGpuCase *row,
                     GError **error)
{
    g_autofree char *all = g_strdup_printf("gpu=%" G_GUINT64_FORMAT ",scale=true%s%s", options->gpu, spec ? "," : "", spec ? spec : "");
    const EchExperimentOverrides overrides = {.trace = trace, .device = device, .engine = "native"};
    g_autoptr(EchExperiment) experiment = ech_experiment_load(NULL, &overrides, error);
    g_autoptr(EchCudaValidation) v = experiment ? ech_validate_cuda(experiment, all, options->repeats ? options->repeats : 10, allocator, error) : NULL;
    if (!v)
        return false;
    row->measured = v->measured->makespan;
    row->low = v->measured->low;
    row->high = v->measured->high;
    row->predicted = v->predicted->makespan;
    row->memory_measured = v->memory_measured;
    row->memory_predicted = v->memory_predicted;
    row->copies = ech_cuda_validation_mape(v, "copy", 1 << 20);
    row->copies_interval = ech_cuda_validation_interval(v, "copy", 1 << 20);
    row->kernels = ech_cuda_validation_mape(v, "kernel", 0);
    row->scale = v->measured->scale;
    return write_json(options->folder, row->name, v, error);
}

typedef struct {
    const EchGpuSuiteOptions *options;
    const EchGpuSuite *suite;
    EchGpuCase *row;
    const EchGpuRecipe *recipe; /* NULL: a program, @path */
    const char *path;
    const char *const *left_out; /* Steps of the calibration */
} Job;

/* Writes down which GPU is here: a line with its identity, one with its name and the driver. */
static bool probe(void *data, GError **error)
{
    const Job *job = data;
    const EchCuDriver *driver = ech_cuda_driver(error);
    EchCuGpu gpu;
    if (!driver || !ech_cuda_open(driver, (int)MIN(job->options->gpu, 1023), &gpu, error))
        return false;
    g_autofree char *text = g_strdup_printf("%s\n%s, driver for CUDA %d.%d\n", gpu.uuid, gpu.name, gpu.driver_version / 1000, gpu.driver_version % 1000 / 10);
    g_autofree char *path = ech_gpu_file(job->options, "gpu", ".now");
    ech_cuda_close(driver, &gpu);
    return g_file_set_contents(path, text, -1, error);
}

/* Which step has begun, for whoever finds that it was the last. */
static void note_step(unsigned done, unsigned total, const char *what, void *data)
{
    (void)done, (void)total;
    const Job *job = data;
    g_autofree char *path = ech_gpu_file(job->options, "calibration", ".step");
    if (what)
        g_file_set_contents(path, what, -1, NULL);
}

static bool calibrate(void *data, GError **error)
{
    const Job *job = data;
    g_autoptr(EchCalibration) gpu = ech_calibrate(job->options->gpu, job->left_out, note_step, data, error);
    g_autofree char *yaml = gpu ? ech_calibration_yaml(gpu, job->options->name, job->options->date, error) : NULL;
    if (!yaml)
        return false;
    g_autofree char *text = ech_calibration_text(gpu), *words = ech_gpu_file(job->options, "calibration", ".txt");
    return g_file_set_contents(words, text, -1, error) && g_file_set_contents(job->suite->device_path, yaml, -1, error);
}

static bool run_job(void *data, GError **error)
{
    const Job *job = data;
    const EchGpuRecipe *recipe = job->recipe;
    gint64 begin = g_get_monotonic_time();
    g_autofree char *made = recipe ? ech_gpu_file(job->options, recipe->name, ".ech") : NULL;
    if (recipe) {
        g_autoptr(EchTrace) trace = ech_gpu_make_trace(recipe, job->suite->device_path, error);
        if (!trace || !ech_trace_file_write(trace, made, error))
            return false;
    }
    if (!run_case(job->options, job->suite->device_path, recipe ? made : job->path, recipe ? recipe->allocator : NULL, recipe ? recipe->options : NULL,
                  job->row, error))
        return false;
    job->row->seconds = (double)(g_get_monotonic_time() - begin) / 1e6;
    return ech_gpu_write_row(job->options, job->row, error);
}

static bool is_taken(const EchGpuSuite *suite, const char *name)
{
    for (size_t i = 0; i < suite->n_cases; i++) {
        if (strcmp(suite->cases[i].name, name) == 0)
            return true;
    }
    return false;
}

/* Files of the folder are named after cases: of two programs of one name, in two folders, the second gets a number. */
static EchGpuCase *next_case(EchGpuSuite *suite, const char *name, const char *allocator, char *file)
{
    g_autofree char *own = g_strdup(name);
    for (unsigned n = 2; is_taken(suite, own); n++) {
        g_free(own);
        own = g_strdup_printf("%s-%u", name, n);
    }
    EchGpuCase *row = &suite->cases[suite->n_cases++];
    *row =
        (EchGpuCase){.name = g_steal_pointer(&own), .allocator = g_strdup(allocator ? allocator : ""), .file = file, .copies = -1, .kernels = -1, .scale = 1};
    return row;
}

/* Which file a row is of: an earlier call's row of another one, or of one that has changed since, is none of this. */
static char *identify(const char *path)
{
    g_autofree char *own = g_canonicalize_filename(path, NULL), *whole = g_filename_display_name(own); /* rows are kept as UTF-8 */
    GStatBuf s;
    if (g_stat(path, &s) != 0)
        return g_steal_pointer(&whole);
    return g_strdup_printf("%s, %" G_GINT64_FORMAT " bytes, %" G_GINT64_FORMAT ".%09ld", whole, (gint64)s.st_size, (gint64)s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
}

typedef struct {
    const EchGpuSuiteOptions *options;
    EchGpuSuite *suite;
    EchGpuSuiteProgress progress;
    void *data;
    gint64 begin;
    unsigned done, total;
    bool spent;
} Course;

static double elapsed_of(const Course *c)
{
    return (double)(g_get_monotonic_time() - c->begin) / 1e6;
}

static void tell(const Course *c, const char *stage, const char *outcome)
{
    if (c->progress)
        c->progress(stage, outcome, c->done, c->total, elapsed_of(c), c->data);
}

static double stage_limit(const Course *c)
{
    return c->options->stage_limit > 0 ? c->options->stage_limit : 90;
}

/* Seconds that a stage may take: its own limit, or what is left. 0: not worth beginning. */
static double allowance(const Course *c, double limit)
{
    if (!(c->options->budget > 0))
        return limit;
    double left = c->options->budget - elapsed_of(c);
    return left < MIN(8, limit) ? 0 : MIN(limit, left);
}

static bool write_table(const Course *c, GError **error)
{
    c->suite->seconds = elapsed_of(c);
    g_free(c->suite->table);
    c->suite->table = ech_gpu_table(c->suite, c->options);
    g_autofree char *path = ech_gpu_file(c->options, "table", ".md");
    return g_file_set_contents(path, c->suite->table, -1, error);
}

/* One case: found done, left, or run. Two tries in all, for what hangs once hangs again. */
static bool run_stage(Course *c, Job *job, GError **error)
{
    EchGpuCase *row = job->row;
    c->done++;
    bool known = ech_gpu_read_row(c->options, row);
    if (known && (!row->error || row->tries >= 2)) {
        c->suite->kept++;
        return write_table(c, error);
    }
    g_clear_pointer(&row->error, g_free);
    double limit = allowance(c, stage_limit(c));
    c->spent = c->spent || limit <= 0;
    if (c->spent) {
        row->left = true;
        c->suite->left++;
        return write_table(c, error);
    }
    tell(c, row->name, NULL);
    /* Written before it begins: if this whole process is killed in it, that was a try. */
    row->tries++;
    row->error = g_strdup("cut short");
    if (!ech_gpu_write_row(c->options, row, error))
        return false;
    g_clear_pointer(&row->error, g_free);
    g_autoptr(GError) failure = NULL;
    gint64 begin = g_get_monotonic_time();
    if (!ech_gpu_in_child(run_job, job, &(EchGpuLimit){.seconds = limit}, &failure)) {
        row->error = g_strdup(failure->message);
        row->seconds = (double)(g_get_monotonic_time() - begin) / 1e6;
        if (!ech_gpu_write_row(c->options, row, error))
            return false;
    } else {
        ech_gpu_read_row(c->options, row);
    }
    g_autofree char *outcome = ech_gpu_outcome(row);
    tell(c, row->name, outcome);
    return write_table(c, error);
}

/* A step that ends the whole process, or hangs it, is left out of the next try. */
static bool calibrate_somehow(Course *c, Job *job, GError **error)
{
    enum { TRIES = 3 };
    g_autofree char *path = ech_gpu_file(c->options, "calibration", ".step");
    g_autoptr(GPtrArray) left_out = g_ptr_array_new_with_free_func(g_free);
    const EchGpuLimit limit = {.seconds = 2 * stage_limit(c), .step_seconds = stage_limit(c) / 2, .step = path};
    g_autoptr(GError) failure = NULL;
    g_ptr_array_add(left_out, NULL);
    for (unsigned i = 0; i < TRIES; i++) {
        char *step;
        g_clear_error(&failure);
        tell(c, i > 0 ? "calibration, once more" : "calibration", NULL);
        job->left_out = (const char *const *)left_out->pdata;
        bool ok = ech_gpu_in_child(calibrate, job, &limit, &failure);
        if (g_file_get_contents(path, &step, NULL, NULL))
            g_ptr_array_insert(left_out, 0, step);
        g_unlink(path);
        if (ok)
            return true;
        tell(c, "calibration", failure->message);
    }
    g_propagate_error(error, g_steal_pointer(&failure));
    return false;
}

/* The GPU that is here, and the device file of it: an earlier call's where that was the same GPU. */
static bool prepare(Course *c, GError **error)
{
    Job job = {.options = c->options, .suite = c->suite};
    g_autofree char *now = ech_gpu_file(c->options, "gpu", ".now"), *known = ech_gpu_file(c->options, "gpu", ".txt"),
                    *words = ech_gpu_file(c->options, "calibration", ".txt");
    g_autofree char *here = NULL, *before = NULL;
    if (!ech_gpu_in_child(probe, &job, &(EchGpuLimit){.seconds = 60}, error) || !g_file_get_contents(now, &here, NULL, error))
        return false;
    g_unlink(now);
    bool same = g_file_get_contents(known, &before, NULL, NULL) && strcmp(here, before) == 0 && g_file_test(c->suite->device_path, G_FILE_TEST_EXISTS);
    const char *name = strchr(here, '\n');
    c->suite->gpu = g_strchomp(g_strdup(name ? name + 1 : here));
    if (!same) {
        ech_gpu_forget_rows(c->options);
        g_unlink(c->suite->device_path);
        if (!calibrate_somehow(c, &job, error) || !g_file_set_contents(known, here, -1, error))
            return false;
    }
    if (!g_file_get_contents(words, &c->suite->calibration, NULL, NULL))
        c->suite->calibration = g_strdup("");
    tell(c, "calibration", same ? "as measured by an earlier call" : "device.yaml is written");
    return true;
}

static char *program_name(const char *path)
{
    char *base = g_path_get_basename(path);
    if (g_str_has_suffix(base, ".hlo.txt.gz"))
        base[strlen(base) - strlen(".hlo.txt.gz")] = '\0';
    return base;
}

static bool run_stages(Course *c, size_t shipped, size_t more, GError **error)
{
    if (!prepare(c, error))
        return false;
    for (size_t i = 0; i < ech_gpu_n_recipes; i++) {
        EchGpuCase *row = next_case(c->suite, ech_gpu_recipes[i].name, ech_gpu_recipes[i].allocator, g_strdup(""));
        row->goal_copies = ech_gpu_recipes[i].goal_copies;
        row->goal_makespan = ech_gpu_recipes[i].goal_makespan;
        row->goal_kernels = ech_gpu_recipes[i].goal_kernels;
        Job job = {.options = c->options, .suite = c->suite, .row = row, .recipe = &ech_gpu_recipes[i]};
        if (!run_stage(c, &job, error))
            return false;
    }
    for (size_t i = 0; i < shipped + more; i++) {
        g_autofree char *found = i < shipped ? ech_trace_find(programs[i], NULL) : NULL;
        g_autofree char *path = g_strdup(found ? found : i < shipped ? programs[i] : c->options->programs[i - shipped]), *name = program_name(path);
        Job job = {.options = c->options, .suite = c->suite, .row = next_case(c->suite, name, NULL, identify(path)), .path = path};
        if (!run_stage(c, &job, error))
            return false;
    }
    return true;
}

EchGpuSuite *ech_gpu_suite_run(const EchGpuSuiteOptions *options, EchGpuSuiteProgress progress, void *data, GError **error)
{
    size_t shipped = options->no_shipped_programs ? 0 : G_N_ELEMENTS(programs);
    size_t more = options->programs ? g_strv_length((char **)(uintptr_t)options->programs) : 0;
    g_autoptr(EchGpuSuite) suite = g_new0(EchGpuSuite, 1);
    Course course = {.options = options, .suite = suite, .progress = progress, .data = data, .begin = g_get_monotonic_time()};
    course.total = (unsigned)(ech_gpu_n_recipes + shipped + more);
    if (g_mkdir_with_parents(options->folder, 0777) != 0) {
        g_set_error(error, G_FILE_ERROR, (gint)g_file_error_from_errno(errno), "%s: %s", options->folder, g_strerror(errno));
        return NULL;
    }
    suite->device_path = ech_gpu_file(options, "device", ".yaml");
    suite->cases = g_new0(EchGpuCase, course.total + 1);
    pid_t keeper = ech_gpu_start_keeper();
    bool ok = run_stages(&course, shipped, more, error);
    ech_gpu_stop_keeper(keeper);
    if (!ok)
        return NULL;
    for (size_t i = 0; i < suite->n_cases; i++)
        suite->missed += !suite->cases[i].left && ech_gpu_misses(&suite->cases[i]);
    return g_steal_pointer(&suite);
}
