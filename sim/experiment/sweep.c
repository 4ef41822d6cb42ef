#include "sim/experiment/sweep.h"

#include "sim/base/error.h"
#include "sim/experiment/devices.h"
#include "sim/report/json_out.h"

#include <errno.h>
#include <gio/gio.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A run's text packed: how long it is, and zlib's stream. */
typedef struct {
    gsize n;
    unsigned char stream[];
} Packed;

/* All of @in[n] at once, into @out[room]: how much that is. */
static gsize convert(GConverter *converter, const void *in, gsize n, void *out, gsize room)
{
    gsize taken, made;
    GConverterResult result = g_converter_convert(converter, in, n, out, room, G_CONVERTER_INPUT_AT_END, &taken, &made, NULL);
    g_assert(result == G_CONVERTER_FINISHED && taken == n);
    return made;
}

EchSweepPoint ech_sweep_point(JsonNode *run)
{
    enum { FASTEST = 1 };
    g_autofree char *text = ech_json_print(run);
    g_autoptr(GZlibCompressor) compressor = g_zlib_compressor_new(G_ZLIB_COMPRESSOR_FORMAT_ZLIB, FASTEST);
    gsize n = strlen(text), room = n + n / 8 + 64; /* What cannot be made shorter grows by 5 bytes in 16 kB. */
    Packed *packed = g_malloc(sizeof *packed + room);
    packed->n = n;
    gsize size = sizeof *packed + convert(G_CONVERTER(compressor), text, n, packed->stream, room);
    return (EchSweepPoint){.run = g_bytes_new_take(g_realloc(packed, size), size)};
}

char *ech_sweep_point_text(const EchSweepPoint *point)
{
    if (!point->run)
        return NULL;
    gsize size;
    const Packed *packed = g_bytes_get_data(point->run, &size);
    char *text = g_malloc(packed->n + 1);
    g_autoptr(GZlibDecompressor) decompressor = g_zlib_decompressor_new(G_ZLIB_COMPRESSOR_FORMAT_ZLIB);
    gsize made = convert(G_CONVERTER(decompressor), packed->stream, size - sizeof *packed, text, packed->n);
    g_assert(made == packed->n);
    text[made] = '\0';
    return text;
}

static EchSweepPoint run_case(EchExperiment *experiment, size_t index)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) results = ech_experiment_run_whole(experiment, &experiment->cases[index], &error);
    if (!results)
        return (EchSweepPoint){.error = g_strdup(error->message)};
    g_autoptr(JsonNode) node = ech_results_json(results, experiment->brief);
    return ech_sweep_point(node);
}

/* Shared by all workers. */
typedef struct {
    atomic_size_t next, done;
} Shared;

/* What a worker writes for each case, before its run or why there is none. */
typedef struct {
    size_t index, n, failed; /* failed: 1, what follows is why */
} Answer;

/* @answers: a file of this worker's own, in memory: nothing is left behind when all are interrupted. */
static void work(EchExperiment *experiment, Shared *shared, const volatile sig_atomic_t *stop, int answers)
{
    FILE *file = fdopen(answers, "wb");
    size_t index;
    ech_import_set_progress(NULL); /* The parent tells how far all are. */
    while (file && !ech_stopped(stop) && (index = atomic_fetch_add(&shared->next, 1)) < experiment->n_cases) {
        EchSweepPoint point = run_case(experiment, index);
        const void *told = point.run ? g_bytes_get_data(point.run, NULL) : point.error;
        const Answer answer = {index, point.run ? g_bytes_get_size(point.run) : strlen(point.error), !point.run};
        if (fwrite(&answer, sizeof answer, 1, file) != 1 || fwrite(told, 1, answer.n, file) != answer.n || fflush(file) != 0)
            _exit(1);
        ech_sweep_point_clear(&point);
        atomic_fetch_add(&shared->done, 1);
    }
    _exit(file ? 0 : 1);
}

/* What a worker has told, to its end or as far as it came. */
static void read_answers(int answers, EchSweepPoint *points, size_t n_cases)
{
    FILE *file = lseek(answers, 0, SEEK_SET) == 0 ? fdopen(answers, "rb") : NULL;
    Answer answer;
    while (file && fread(&answer, sizeof answer, 1, file) == 1 && answer.index < n_cases) {
        g_autofree char *text = g_malloc0(answer.n + 1);
        if (fread(text, 1, answer.n, file) != answer.n)
            break;
        if (answer.failed)
            points[answer.index].error = g_steal_pointer(&text);
        else
            points[answer.index].run = g_bytes_new_take(g_steal_pointer(&text), answer.n);
    }
    if (file)
        fclose(file);
    else
        close(answers);
}

static EchSweepPoint *run_forked(EchExperiment *experiment, unsigned jobs, const volatile sig_atomic_t *stop, EchSweepProgress progress, void *data,
                                 GError **error)
{
    g_autofree int *answers = g_new(int, jobs);
    for (unsigned i = 0; i < jobs; i++) {
        answers[i] = memfd_create("echelon-sweep", MFD_CLOEXEC);
        if (answers[i] < 0) {
            int code = errno;
            while (i-- > 0)
                close(answers[i]);
            g_set_error(error, G_FILE_ERROR, (int)g_file_error_from_errno(code), "--jobs %u: %s", jobs, g_strerror(code));
            return NULL;
        }
    }
    Shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned running = 0;
    int refused = shared == MAP_FAILED ? errno : 0;
    fflush(NULL);
    for (unsigned i = 0; i < jobs && refused == 0; i++) {
        pid_t parent = getpid(), child = fork();
        refused = child < 0 ? errno : 0;
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() == parent)
                work(experiment, shared, stop, answers[i]);
            _exit(1);
        }
        running += child > 0;
    }
    if (running == 0) {
        for (unsigned i = 0; i < jobs; i++)
            close(answers[i]);
        if (shared != MAP_FAILED)
            munmap(shared, sizeof *shared);
        g_set_error(error, G_FILE_ERROR, (int)g_file_error_from_errno(refused), "--jobs %u: no worker could be started: %s; --jobs 1 needs none", jobs,
                    g_strerror(refused));
        return NULL;
    }
    int ended_by = 0, ended_with = 0;
    bool told = false;
    while (running > 0) {
        int status;
        pid_t child = waitpid(-1, &status, WNOHANG);
        if (child > 0) {
            running--;
            if (WIFSIGNALED(status))
                ended_by = WTERMSIG(status);
            else if (WEXITSTATUS(status) != 0)
                ended_with = WEXITSTATUS(status);
        } else if (child < 0 && errno != EINTR) {
            break;
        } else {
            g_usleep(5000);
        }
        if (progress)
            progress(MIN(atomic_load(&shared->done), experiment->n_cases), experiment->n_cases, data);
        if (ech_stopped(stop) && !told) {
            atomic_store(&shared->next, experiment->n_cases); /* for workers that the signal did not reach */
            told = true;
        }
    }
    munmap(shared, sizeof *shared);
    EchSweepPoint *points = g_new0(EchSweepPoint, experiment->n_cases);
    for (unsigned i = 0; i < jobs; i++)
        read_answers(answers[i], points, experiment->n_cases);
    for (size_t i = 0; i < experiment->n_cases; i++) {
        if (points[i].run || points[i].error)
            continue;
        if (told)
            points[i] = ech_sweep_left_out();
        else
            points[i].error = ended_by ? g_strdup_printf("the worker that ran it was ended by signal %d", ended_by)
                              : ended_with
                                  ? g_strdup_printf("the worker that ran it ended with exit code %d, for want of memory or of room for its answer", ended_with)
                                  : g_strdup("no worker ran it");
    }
    return points;
}

EchSweepPoint *ech_sweep_run(EchExperiment *experiment, unsigned jobs, const volatile sig_atomic_t *stop, EchSweepProgress progress, void *data, GError **error)
{
    jobs = (unsigned)MIN(jobs, experiment->n_cases);
    if (jobs > 1) {
        /* What cannot be read is an error of its case, said when it runs. */
        (void)ech_experiment_preload(experiment, NULL);
        return run_forked(experiment, jobs, stop, progress, data, error);
    }
    EchSweepPoint *points = g_new0(EchSweepPoint, experiment->n_cases);
    for (size_t i = 0; i < experiment->n_cases; i++) {
        points[i] = ech_stopped(stop) ? ech_sweep_left_out() : run_case(experiment, i);
        if (progress)
            progress(i + 1, experiment->n_cases, data);
    }
    return points;
}

EchSweepPoint ech_sweep_left_out(void)
{
    return (EchSweepPoint){.error = g_strdup("interrupted before it ran"), .interrupted = true};
}

void ech_sweep_point_clear(EchSweepPoint *point)
{
    g_clear_pointer(&point->run, g_bytes_unref);
    g_clear_pointer(&point->error, g_free);
}

void ech_sweep_free(EchSweepPoint *points, size_t n)
{
    for (size_t i = 0; points && i < n; i++)
        ech_sweep_point_clear(&points[i]);
    g_free(points);
}

JsonNode *ech_sweep_point_json(const EchSweepPoint *point)
{
    g_autofree char *text = ech_sweep_point_text(point);
    JsonNode *node = text ? json_from_string(text, NULL) : NULL;
    g_assert(node || !text); /* We printed it. */
    return node;
}

void ech_sweep_rows_whole(EchSweepRows *rows, const EchSweepPoint *points, size_t index)
{
    EchTableRow *row = &rows->rows[index];
    if (!row->run)
        return;
    g_autoptr(JsonNode) node = ech_sweep_point_json(&points[index]);
    json_object_unref(row->run);
    row->run = json_node_dup_object(node);
}

EchSweepRows *ech_sweep_rows(const EchExperiment *experiment, const EchSweepPoint *points, EchSweepProgress progress, void *data)
{
    EchSweepRows *rows = g_new0(EchSweepRows, 1);
    const size_t *const *bases = (const size_t *const *)experiment->axis_bases;
    size_t n_axes = g_strv_length(experiment->axes);
    rows->n = experiment->n_cases;
    rows->rows = g_new0(EchTableRow, rows->n);
    for (size_t i = 0; i < rows->n; i++) {
        g_autoptr(JsonNode) node = ech_sweep_point_json(&points[i]);
        rows->rows[i] = (EchTableRow){.run = node ? ech_report_table_run(json_node_get_object(node)) : NULL,
                                      .error = points[i].error,
                                      .base = ech_explain_base(experiment->axis_sizes, bases, n_axes, i),
                                      .left_out = points[i].interrupted};
        if (progress)
            progress(i + 1, rows->n, data);
    }
    rows->steps = ech_explain_steps(rows->rows, experiment->axis_sizes, bases, n_axes, &rows->n_steps);
    for (size_t i = 0; i < rows->n_steps; i++) {
        if (rows->steps[i].from != SIZE_MAX)
            ech_sweep_rows_whole(rows, points, rows->steps[i].from);
        ech_sweep_rows_whole(rows, points, rows->steps[i].to);
    }
    return rows;
}

void ech_sweep_rows_free(EchSweepRows *rows)
{
    for (size_t i = 0; rows && i < rows->n; i++)
        g_clear_pointer(&rows->rows[i].run, json_object_unref);
    if (rows) {
        g_free(rows->rows);
        g_free(rows->steps);
    }
    g_free(rows);
}

JsonNode *ech_sweep_json(const EchExperiment *experiment, const EchSweepPoint *points, const EchSweepRows *rows)
{
    g_autoptr(JsonBuilder) b = json_builder_new();
    json_builder_begin_object(b);
    ech_json_add_text(b, "title", experiment->title);
    bool interrupted = false;
    for (size_t i = 0; i < experiment->n_cases; i++)
        interrupted |= points[i].interrupted;
    if (interrupted)
        ech_json_add_bool(b, "interrupted", true);
    ech_json_begin_array(b, "axes");
    for (char **axis = experiment->axes; *axis; axis++)
        json_builder_add_string_value(b, *axis);
    json_builder_end_array(b);
    ech_json_begin_array(b, "points");
    for (size_t i = 0; i < experiment->n_cases; i++) {
        const EchCase *c = &experiment->cases[i];
        JsonObject *run = rows->rows[i].run;
        json_builder_begin_object(b);
        ech_json_add_text(b, "label", c->label);
        ech_json_begin_array(b, "values");
        for (char **value = c->values; *value; value++)
            json_builder_add_string_value(b, *value);
        json_builder_end_array(b);
        if (run) {
            ech_json_add_bool(b, "fits", ech_member_bool(run, "fits"));
            ech_json_add_int(b, "makespan_ps", ech_member_int(run, "makespan_ps"));
            json_builder_set_member_name(b, "run");
            json_builder_add_value(b, json_node_init_object(json_node_alloc(), run));
        } else {
            ech_json_add_text(b, "error", points[i].error);
            if (points[i].interrupted)
                ech_json_add_bool(b, "interrupted", true);
        }
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
    ech_explain_json(b, rows->rows, rows->steps, rows->n_steps);
    json_builder_end_object(b);
    return json_builder_get_root(b);
}

static char *print(JsonNode *node, bool plain)
{
    g_autofree char *text = ech_json_print(node);
    return plain ? ech_plain(text) : g_steal_pointer(&text);
}

/* A document's text within another: each of its lines but the first behind @indent. Texts in it are on one line each. */
static bool write_within(const char *text, const char *indent, FILE *out)
{
    bool ok = true;
    size_t n;
    for (const char *line = text; ok && *line; line += n + (line[n] != '\0')) {
        n = strcspn(line, "\n");
        ok = (line == text || fputs(indent, out) >= 0) && fwrite(line, 1, n, out) == n;
    }
    return ok;
}

/* The point @told, with the run that @point has in place of the part of it that it may show. */
static bool write_point(JsonObject *told, const EchSweepPoint *point, bool plain, FILE *out)
{
    static const char end[] = "\n}\n";
    g_autoptr(JsonObject) alone = json_object_new();
    g_autoptr(GList) members = json_object_get_members(told);
    for (GList *at = members; at; at = at->next)
        if (strcmp(at->data, "run") != 0)
            json_object_set_member(alone, at->data, json_object_dup_member(told, at->data));
    g_autoptr(JsonNode) root = json_node_init_object(json_node_alloc(), alone);
    g_autofree char *text = print(root, plain), *run = ech_sweep_point_text(point), *plain_run = run && plain ? ech_plain(run) : NULL;
    g_assert(g_str_has_suffix(text, end));
    text[strlen(text) - strlen(end)] = '\0';
    return write_within(text, "\n    ", out) &&
           (!run || (fputs(",\n      \"run\" : ", out) >= 0 && write_within(plain_run ? plain_run : run, "\n      ", out))) && fputs("\n    }", out) >= 0;
}

bool ech_sweep_write(JsonNode *sweep, const EchSweepPoint *points, size_t n, bool plain, FILE *out, EchSweepProgress progress, void *data)
{
    static const char none[] = "\n  \"points\" : [";
    JsonObject *object = json_node_get_object(sweep);
    g_autoptr(JsonNode) told = json_object_dup_member(object, "points");
    JsonArray *array = json_node_get_array(told);
    g_assert(json_array_get_length(array) == n);
    json_object_set_array_member(object, "points", json_array_new());
    g_autofree char *text = print(sweep, plain);
    json_object_set_member(object, "points", json_node_copy(told));
    char *at = strstr(text, none);
    g_assert(at);
    at += strlen(none);
    bool ok = fwrite(text, 1, (size_t)(at - text), out) == (size_t)(at - text);
    for (size_t i = 0; ok && i < n; i++) {
        ok = fputs(i ? ",\n    " : "\n    ", out) >= 0 && write_point(json_array_get_object_element(array, (guint)i), &points[i], plain, out);
        if (progress)
            progress(i + 1, n, data);
    }
    return ok && fputs(n ? "\n  " : "", out) >= 0 && fputs(at, out) >= 0 && fflush(out) == 0;
}
