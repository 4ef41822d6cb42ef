#include "sim/experiment/sweep.h"

#include "sim/report/explain.h"
#include "sim/report/json_out.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static EchSweepPoint run_case(EchExperiment *experiment, size_t index)
{
    EchSweepPoint point = {0};
    g_autoptr(GError) error = NULL;
    g_autoptr(EchResult) result = ech_experiment_run(experiment, index, &error);
    if (!result) {
        point.error = g_strdup(error->message);
        return point;
    }
    EchReport report = ech_result_report(result);
    report.brief = experiment->brief;
    JsonNode *node = ech_report_json(&report);
    point.json = ech_json_print(node);
    json_node_unref(node);
    return point;
}

/* Shared by all workers. */
typedef struct {
    atomic_size_t next, done;
} Shared;

/* What a worker writes for each case, before its text. */
typedef struct {
    size_t index, n, failed; /* failed: 1, the text says why */
} Answer;

/* @answers: a file of this worker's own, in memory: nothing is left behind when all are interrupted. */
static void work(EchExperiment *experiment, Shared *shared, const volatile sig_atomic_t *stop, int answers)
{
    FILE *file = fdopen(answers, "wb");
    size_t index;
    ech_import_set_progress(NULL); /* The parent tells how far all are. */
    while (file && !ech_stopped(stop) && (index = atomic_fetch_add(&shared->next, 1)) < experiment->n_cases) {
        EchSweepPoint point = run_case(experiment, index);
        const char *text = point.json ? point.json : point.error;
        g_assert(text);
        const Answer answer = {index, strlen(text), !point.json};
        if (fwrite(&answer, sizeof answer, 1, file) != 1 || fwrite(text, 1, answer.n, file) != answer.n || fflush(file) != 0)
            _exit(1);
        ech_sweep_free(g_memdup2(&point, sizeof point), 1);
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
        *(answer.failed ? &points[answer.index].error : &points[answer.index].json) = g_steal_pointer(&text);
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
        if (points[i].json || points[i].error)
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

void ech_sweep_free(EchSweepPoint *points, size_t n)
{
    for (size_t i = 0; points && i < n; i++) {
        g_free(points[i].json);
        g_free(points[i].error);
    }
    g_free(points);
}

/* From which point to which, and the sentences. */
static void add_changes(JsonBuilder *b, const EchExperiment *experiment, const EchSweepPoint *points, JsonArray *runs)
{
    g_autofree EchTableRow *rows = g_new0(EchTableRow, experiment->n_cases);
    for (size_t i = 0; i < experiment->n_cases; i++) {
        JsonNode *run = json_array_get_element(runs, (guint)i);
        rows[i].run = JSON_NODE_HOLDS_OBJECT(run) ? json_node_get_object(run) : NULL;
        rows[i].left_out = points[i].interrupted;
    }
    size_t n;
    g_autofree EchExplainStep *steps =
        ech_explain_steps(rows, experiment->axis_sizes, (const size_t *const *)experiment->axis_bases, g_strv_length(experiment->axes), &n);
    ech_explain_json(b, rows, steps, n);
}

JsonNode *ech_sweep_json(const EchExperiment *experiment, const EchSweepPoint *points, GError **error)
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
    g_autoptr(JsonArray) runs = json_array_new();
    ech_json_begin_array(b, "points");
    for (size_t i = 0; i < experiment->n_cases; i++) {
        const EchCase *c = &experiment->cases[i];
        json_builder_begin_object(b);
        ech_json_add_text(b, "label", c->label);
        ech_json_begin_array(b, "values");
        for (char **value = c->values; *value; value++)
            json_builder_add_string_value(b, *value);
        json_builder_end_array(b);
        if (points[i].json) {
            g_autoptr(JsonParser) parser = json_parser_new_immutable();
            if (!json_parser_load_from_data(parser, points[i].json, -1, error))
                return NULL;
            JsonNode *run = json_node_copy(json_parser_get_root(parser));
            JsonObject *object = json_node_get_object(run);
            ech_json_add_bool(b, "fits", json_object_get_boolean_member(object, "fits"));
            ech_json_add_int(b, "makespan_ps", json_object_get_int_member(object, "makespan_ps"));
            json_array_add_element(runs, json_node_copy(run));
            json_builder_set_member_name(b, "run");
            json_builder_add_value(b, run);
        } else {
            ech_json_add_text(b, "error", points[i].error);
            if (points[i].interrupted)
                ech_json_add_bool(b, "interrupted", true);
            json_array_add_null_element(runs);
        }
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
    add_changes(b, experiment, points, runs);
    json_builder_end_object(b);
    return json_builder_get_root(b);
}
