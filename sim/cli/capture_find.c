#include "sim/cli/capture_find.h"

#include "sim/base/error.h"
#include "sim/base/file.h"
#include "sim/base/units.h"
#include "sim/cli/cli.h"
#include "sim/experiment/devices.h"
#include "sim/report/json_out.h"
#include "sim/report/ranks.h"

#include <glib/gstdio.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* What is looked for. */
typedef struct {
    char *name, *hole;       /* "length", "{length}" */
    uint64_t from, to, step; /* in units of the last decimal; step 0: not said */
    unsigned decimals;       /* of all numbers: 2 of 0.5..0.95 */
} Find;

static void find_clear(Find *find)
{
    g_free(find->name);
    g_free(find->hole);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Find, find_clear)

/* What came of a number. */
typedef enum { FITS, RAN_OUT, FAILED, INTERRUPTED } Outcome;

/* A number that was tried. */
typedef struct {
    uint64_t number;
    Outcome outcome;
    EchCaptured captured;
    EchBytes needed, available; /* of hbm; needed 0: not known */
    EchTime time;               /* of its last step, or of all; 0: not known */
    bool step;
} Try;

static void try_free(void *data)
{
    Try *t = data;
    ech_captured_clear(&t->captured);
    g_free(t);
}

/* ---- words ---- */

/* Decimals behind the point, @most of them at most. False where @text is no such number. */
static bool count_decimals(const char *text, unsigned most, unsigned *decimals)
{
    static const char digits[] = "0123456789";
    size_t whole = strspn(text, digits), part = text[whole] == '.' ? strspn(text + whole + 1, digits) : 0;
    *decimals = MAX(*decimals, (unsigned)part);
    return whole > 0 && text[whole + (part > 0 ? part + 1 : 0)] == '\0' && part <= most;
}

/* "0.5" with 2 decimals is 50. */
static bool read_number(const char *text, unsigned decimals, uint64_t *ret)
{
    const char *point = strchr(text, '.');
    g_autoptr(GString) all = g_string_new_len(text, point ? point - text : (gssize)strlen(text));
    g_string_append(all, point ? point + 1 : "");
    for (size_t have = point ? strlen(point + 1) : 0; have < decimals; have++)
        g_string_append_c(all, '0');
    return ech_parse_u64(all->str, ret, NULL);
}

/* As it was written; owned by the caller. */
static char *number_text(const Find *find, uint64_t number)
{
    uint64_t unit = 1;
    for (unsigned i = 0; i < find->decimals; i++)
        unit *= 10;
    return find->decimals == 0 ? g_strdup_printf("%" G_GUINT64_FORMAT, number)
                               : g_strdup_printf("%" G_GUINT64_FORMAT ".%0*" G_GUINT64_FORMAT, number / unit, (int)find->decimals, number % unit);
}

/* "length=512..65536:128", "share=0.5..0.95" */
static bool read_find(const char *text, Find *ret, GError **error)
{
    const char *equals = strchr(text, '='), *dots = equals ? strstr(equals, "..") : NULL, *colon = dots ? strchr(dots, ':') : NULL;
    ret->name = g_strndup(text, equals ? (gsize)(equals - text) : 0);
    bool named = *ret->name && strspn(ret->name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == strlen(ret->name);
    ret->hole = g_strdup_printf("{%s}", ret->name);
    g_autofree char *from = dots ? g_strndup(equals + 1, (gsize)(dots - equals - 1)) : NULL,
                    *to = dots ? g_strndup(dots + 2, colon ? (gsize)(colon - dots - 2) : strlen(dots + 2)) : NULL;
    enum { LEAST = 2, MOST = 6 };
    bool numbers = named && dots && count_decimals(from, MOST, &ret->decimals) && count_decimals(to, MOST, &ret->decimals) &&
                   (!colon || count_decimals(colon + 1, MOST, &ret->decimals));
    ret->decimals = ret->decimals > 0 ? MAX(ret->decimals, LEAST) : 0; /* hundredths, where a tenth is told */
    numbers = numbers && read_number(from, ret->decimals, &ret->from) && read_number(to, ret->decimals, &ret->to) &&
              (!colon || (read_number(colon + 1, ret->decimals, &ret->step) && ret->step > 0));
    if (!numbers || ret->from == 0 || ret->from >= ret->to || ret->to > UINT32_MAX) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG,
                    "--find: '%s': expected NAME=FROM..TO or NAME=FROM..TO:STEP, numbers above 0, the smaller first: length=512..65536:128, share=0.5..0.95",
                    text);
        return false;
    }
    return true;
}

/* @text with @number in the place of the name; *ret_any: the name stands in it. Owned by the caller. */
static char *filled(const char *text, const Find *find, uint64_t number, bool *ret_any)
{
    g_auto(GStrv) parts = g_strsplit(text, find->hole, -1);
    g_autofree char *shown = number_text(find, number);
    *ret_any |= g_strv_length(parts) > 1;
    return *parts ? g_strjoinv(shown, parts) : g_strdup("");
}

/* The words without --find at @option, with @number in the place of the name. NULL where that stands nowhere. */
static char **words_of(int argc, char **argv, int option, const Find *find, uint64_t number)
{
    g_autoptr(GStrvBuilder) words = g_strv_builder_new();
    bool any = false;
    for (int i = 0; i < argc; i++) {
        if (i == option) {
            i += strcmp(argv[i], "--find") == 0;
            continue;
        }
        g_autofree char *word = filled(argv[i], find, number, &any);
        g_strv_builder_add(words, word);
    }
    g_auto(GStrv) all = g_strv_builder_end(words);
    return any ? g_steal_pointer(&all) : NULL;
}

/* ---- one number ---- */

/* The run of captures, ranks of one program where they are several, as JSON: their usual step where they tell steps, or that of all devices of a process.
 * *@step: that it is. NULL: it cannot be replayed. */
static JsonNode *replay(char **paths, guint n, const char *device, const char *const *settings, bool *step)
{
    EchExperimentOverrides overrides = {.device = device, .settings = settings};
    g_autoptr(GPtrArray) experiments = g_ptr_array_new_with_free_func((GDestroyNotify)ech_experiment_free);
    for (guint i = 0; i < n; i++) {
        overrides.trace = paths[i];
        EchExperiment *experiment = ech_experiment_load(NULL, &overrides, NULL);
        if (!experiment)
            return NULL;
        experiment->brief = true;
        g_ptr_array_add(experiments, experiment);
    }
    EchExperiment *first = experiments->pdata[0];
    size_t n_devices = 0;
    g_autofree uint32_t *devices = n == 1 ? ech_experiment_devices(first, &first->cases[0], &n_devices) : NULL;
    g_autoptr(EchExperiment) usual = NULL;
    if (n == 1 && !devices && *step) {
        overrides.step = "usual";
        usual = ech_experiment_load(NULL, &overrides, NULL);
        if (!usual)
            return NULL;
        usual->brief = true;
        ech_experiment_borrow_imports(usual, first);
    }
    g_autoptr(GPtrArray) results = NULL;
    if (n == 1)
        results = ech_experiment_run_whole(usual ? usual : first, &(usual ? usual : first)->cases[0], NULL);
    else {
        EchResult *each[ECH_MAX_RANKS];
        if (!ech_experiment_run_together((EchExperiment *const *)(void *)experiments->pdata, n, ECH_TOGETHER_ASKED, each, NULL))
            return NULL;
        results = g_ptr_array_new_with_free_func((GDestroyNotify)ech_result_free);
        for (guint i = 0; i < n; i++)
            g_ptr_array_add(results, each[i]);
    }
    if (!results)
        return NULL;
    EchReport reports[ECH_MAX_RANKS];
    for (guint i = 0; i < results->len; i++)
        reports[i] = ech_result_report(results->pdata[i]);
    if (results->len == 1)
        return ech_report_json(&reports[0]);
    g_autoptr(EchRanks) ranks = ech_ranks_new(reports, results->len);
    *step = ranks->of > 0;
    return ech_report_ranks_json("", ranks, NULL);
}

/* What a run tells of a number. @compiled: of a program, which nobody but the replay has asked for memory. */
static void take_run(Try *t, JsonNode *node, bool compiled, bool step)
{
    JsonObject *run = json_node_get_object(node);
    bool ranks = ech_report_is_of_ranks(run), completed = ranks || ech_member_bool(run, "completed");
    JsonObject *hbm = ranks ? NULL : ech_member_object(ech_member_object(run, "needs"), "hbm");
    EchBytes needed = (EchBytes)(ranks ? ech_member_int(run, "fullest_bytes") : hbm ? ech_member_int(hbm, "bytes") : 0);
    EchTime time = ech_member_int(run, ranks && step ? "step_ps" : "makespan_ps");
    bool refused = ech_member_bool(run, "ran_out_when_captured") || (compiled && !ech_member_bool(run, "fits"));
    if (ranks) {
        JsonArray *each = json_object_get_array_member(run, "ranks");
        for (guint i = 0; i < json_array_get_length(each); i++)
            refused |= ech_member_bool(ech_member_object(json_array_get_object_element(each, i), "run"), "ran_out_when_captured");
    }
    t->needed = MAX(t->needed, needed);
    if (completed && time > t->time) {
        t->time = time;
        t->step = step;
    }
    t->outcome = refused && t->outcome != INTERRUPTED ? RAN_OUT : t->outcome;
}

/* Replays what was captured: the program's runs, ranks together; of JAX's programs for a TPU, which are no part of one, each. */
static void judge(Try *t)
{
    const EchCaptured *c = &t->captured;
    GPtrArray *of = c->runs->len > 0 ? c->runs : c->programs;
    guint together = of == c->runs && of->len <= ECH_MAX_RANKS ? of->len : 1;
    for (guint i = 0; i < of->len; i += together) {
        bool step = of == c->runs;
        JsonNode *node = replay((char **)of->pdata + i, together, c->device_word, (const char *const *)c->settings, &step);
        if (!node && step) {
            step = false;
            node = replay((char **)of->pdata + i, together, c->device_word, (const char *const *)c->settings, &step);
        }
        if (!node)
            continue;
        take_run(t, node, of == c->programs, step);
        json_node_unref(node);
    }
}

/* Whether what a command printed that failed says that memory was short: for a cache of keys and values (vLLM), say, which nobody asked the device for. */
static bool says_short(const char *log)
{
    g_autoptr(EchImport) import = ech_import_file(log, "out_of_memory", NULL, NULL);
    return import != NULL;
}

/* Captures with @number. NULL: it was not run, and *ret_code says with what to end. */
static Try *try_number(int argc, char **argv, int option, const Find *find, uint64_t number, int *ret_code)
{
    g_autofree char *shown = number_text(find, number), *mark = g_strconcat(".", shown, NULL);
    g_auto(GStrv) words = words_of(argc, argv, option, find, number);
    Try *t = g_new0(Try, 1);
    t->number = number;
    *ret_code = ech_capture_once((int)g_strv_length(words), words, mark, &t->captured);
    const EchCaptured *c = &t->captured;
    if (*ret_code == ECH_EXIT_DONE && c->code == ECH_EXIT_DONE && c->runs->len + c->programs->len == 0) {
        fprintf(stderr, "echelon capture: nothing was captured with %s %s; no process of the command asked for the device: see %s\n", find->name, mark + 1,
                c->log);
        *ret_code = ECH_EXIT_FAILED;
    }
    if (*ret_code != ECH_EXIT_DONE) {
        try_free(t);
        return NULL;
    }
    t->outcome = c->interrupted ? INTERRUPTED : c->code == ECH_EXIT_DONE ? FITS : c->ran_out ? RAN_OUT : FAILED;
    const EchMemory *hbm = ech_device_memory_kind(c->device, ECH_MEM_HBM);
    t->available = hbm ? hbm->available : 0;
    if (t->outcome != INTERRUPTED)
        judge(t);
    if (t->outcome == FAILED && says_short(c->log))
        t->outcome = RAN_OUT;
    return t;
}

/* Removes a capture PREFIX.PID.pretend and what lies beside it: PyTorch's snapshot, compiled programs. */
static void discard_run(const char *path)
{
    g_autofree char *folder = g_path_get_dirname(path), *name = g_path_get_basename(path),
                    *stem = g_strndup(name, strlen(name) - strlen("pretend")); /* with its dot */
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    for (const char *other = dir ? g_dir_read_name(dir) : NULL; other; other = g_dir_read_name(dir))
        if (g_str_has_prefix(other, stem)) {
            g_autofree char *beside = g_build_filename(folder, other, NULL);
            ech_remove_tree(beside);
        }
}

/* Removes what a number left that is no neighbour of the answer. */
static void discard(const Try *t)
{
    const EchCaptured *c = &t->captured;
    for (guint i = 0; i < c->runs->len; i++)
        discard_run(c->runs->pdata[i]);
    for (guint i = 0; i < c->programs->len; i++)
        ech_remove_tree(c->programs->pdata[i]);
    g_unlink(c->log);
}

/* ---- telling ---- */

static char *outcome_words(const Try *t)
{
    return t->outcome == FITS      ? g_strdup("fits")
           : t->outcome == RAN_OUT ? g_strdup("runs out of memory")
           : t->outcome == FAILED  ? g_strdup_printf("fails: exit status %d", t->captured.code)
                                   : g_strdup("interrupted");
}

/* "1.31 s a step"; "" where it is not known, or of a program that did not come to its end. */
static char *time_words(const Try *t)
{
    g_autofree char *time = ech_format_time(t->time);
    return t->time == 0 || t->outcome != FITS ? g_strdup("") : g_strdup_printf("%s%s", time, t->step ? " a step" : "");
}

static char *memory_words(const Try *t)
{
    g_autofree char *needed = ech_format_bytes(t->needed), *available = ech_format_bytes(t->available);
    return t->needed == 0 || t->outcome != FITS ? g_strdup("") : g_strdup_printf("%s of %s", needed, available);
}

/* As it is known; the search goes on. */
static void tell_try(const Find *find, const Try *t)
{
    g_autofree char *number = number_text(find, t->number), *outcome = outcome_words(t), *memory = memory_words(t), *time = time_words(t);
    fprintf(stderr, "echelon capture: %s %s: %s%s%s%s%s\n", find->name, number, outcome, *memory ? ", " : "", memory, *time ? ", " : "", time);
}

/* The end of what the command printed. */
static void tell_log(const Try *t)
{
    enum { LINES = 12, MOST = 64 << 10 };
    g_autoptr(GMappedFile) file = g_mapped_file_new(t->captured.log, FALSE, NULL);
    gsize n = file ? g_mapped_file_get_length(file) : 0, from = n;
    const char *text = n > 0 ? g_mapped_file_get_contents(file) : "";
    unsigned lines = 0;
    while (from > 0 && n - from < MOST && (lines < LINES || text[from - 1] != '\n'))
        lines += text[--from] == '\n';
    g_autofree char *end = g_strndup(text + from, n - from), *valid = g_utf8_make_valid(end, -1);
    ech_cli_say("%s", valid);
}

static int by_number(gconstpointer a, gconstpointer b)
{
    const Try *x = *(Try *const *)a, *y = *(Try *const *)b;
    return (x->number > y->number) - (x->number < y->number);
}

/* What is found, and what to do with it. @fits, @lacks: neighbours; NULL: there is none. */
static void tell_answer(const Find *find, const Try *fits, const Try *lacks, bool interrupted, GString *out)
{
    const char *name = find->name;
    g_autofree char *from = number_text(find, find->from), *to = number_text(find, find->to);
    const EchCaptured *c = fits ? &fits->captured : &lacks->captured;
    if (interrupted)
        g_string_append(out, "Interrupted before all that lies between was tried.\n");
    if (interrupted && (!fits || !lacks))
        return;
    if (!fits || !lacks)
        g_string_append_printf(out, "%s %s with %s %s %s %s; nothing between was tried, and what is asked for lies outside.\n",
                               fits ? "It fits" : "It does not fit", c->device->name, name, from, fits ? "as with" : "nor with", to);
    else {
        g_autofree char *memory = memory_words(fits), *time = time_words(fits), *other = outcome_words(lacks);
        g_autofree char *found = number_text(find, fits->number), *beyond = number_text(find, lacks->number);
        g_string_append_printf(out, "%s %s with which it fits %s: %s", fits->number < lacks->number ? "Largest" : "Least", name, c->device->name, found);
        if (*memory || *time)
            g_string_append_printf(out, " (%s%s%s)", memory, *memory && *time ? ", " : "", time);
        g_string_append_printf(out, ". With %s it %s%s%s.\n", beyond, other, lacks->outcome == FAILED ? ", not for want of memory that it says: see " : "",
                               lacks->outcome == FAILED ? lacks->captured.log : "");
    }
}

/* What to do with them: ranks are replayed together, programs each. */
static void tell_next(const Try *fits, const Try *lacks, GString *out)
{
    const GPtrArray *runs = fits ? fits->captured.runs : NULL, *shown = runs && runs->len == 0 ? fits->captured.programs : runs;
    for (guint i = 0; shown && i < shown->len; i++) {
        g_autofree char *word = ech_shell_word(shown->pdata[i]);
        bool first = i == 0 || shown != runs, last = i + 1 == shown->len || shown != runs;
        g_string_append_printf(out, "%s %s%s%s", first ? "Now: echelon run --trace" : "", word, last ? fits->captured.as_run : "", last ? "\n" : "");
    }
    if (lacks && lacks->outcome == RAN_OUT) {
        const char *file = lacks->captured.ran_out ? lacks->captured.ran_out : lacks->captured.log;
        g_autofree char *word = ech_shell_word(file);
        g_string_append_printf(out, "%s: %s echelon %s %s\n", fits ? "Beyond" : "Now",
                               lacks->captured.ran_out ? "what held it, would another setting of the allocator have done?" : "why?",
                               lacks->captured.ran_out ? "alloc" : "info", word);
    }
}

static void tell_table(const Find *find, GPtrArray *tries, GString *out)
{
    g_ptr_array_sort(tries, by_number);
    int width = MAX((int)strlen(find->name), 10);
    for (guint i = 0; i < tries->len; i++) {
        const Try *t = tries->pdata[i];
        g_autofree char *number = number_text(find, t->number), *outcome = outcome_words(t), *memory = memory_words(t), *time = time_words(t),
                        *line = g_strdup_printf("  %*s  %-22s  %-24s  %s", width, number, outcome, memory, time);
        g_string_append_printf(out, "%s\n", g_strchomp(line));
    }
}

/* ---- the search ---- */

/* Between the two, a multiple of the step; 0: nothing is. */
static uint64_t between(const Find *find, uint64_t low, uint64_t high)
{
    uint64_t step = find->step;
    for (step = MAX(step, 1); find->step == 0 && step <= low / 128; step *= 2) /* a power of two of a hundredth or so */
        continue;
    uint64_t middle = high > 2 * low ? (uint64_t)sqrt((double)low * (double)high) : low + (high - low) / 2, at = middle / step * step;
    at = at > low ? at : (low / step + 1) * step;
    return at < high ? at : 0;
}

/* What was tried. */
typedef struct {
    GPtrArray *tries;  /* Try */
    Try *fits, *lacks; /* neighbours, or NULL */
    int interrupted;   /* exit status of a command that was; 0: none */
} Search;

/* False where *ret_code says with what to end. */
static bool look_at(Search *search, int argc, char **argv, int option, const Find *find, uint64_t number, int *ret_code)
{
    Try *t = try_number(argc, argv, option, find, number, ret_code);
    if (!t)
        return false;
    g_ptr_array_add(search->tries, t);
    tell_try(find, t);
    if (t->outcome == INTERRUPTED) {
        search->interrupted = MAX(t->captured.code, ECH_EXIT_FAILED);
        discard(t);
        return true;
    }
    Try **side = t->outcome == FITS ? &search->fits : &search->lacks;
    if (*side && search->fits && search->lacks)
        discard(*side);
    *side = t;
    return true;
}

static bool search_all(Search *search, int argc, char **argv, int option, const Find *find, int *ret_code)
{
    if (!look_at(search, argc, argv, option, find, find->from, ret_code))
        return false;
    if (search->lacks && search->lacks->outcome == FAILED) {
        g_autofree char *from = number_text(find, find->from);
        fprintf(stderr, "echelon capture: with %s %s already the command fails, not for want of memory; it printed (%s):\n", find->name, from,
                search->lacks->captured.log);
        tell_log(search->lacks);
        *ret_code = search->lacks->captured.code;
        return false;
    }
    bool ok = search->interrupted || look_at(search, argc, argv, option, find, find->to, ret_code);
    while (ok && !search->interrupted && search->fits && search->lacks) {
        uint64_t number = between(find, MIN(search->fits->number, search->lacks->number), MAX(search->fits->number, search->lacks->number));
        if (number == 0)
            break;
        ok = look_at(search, argc, argv, option, find, number, ret_code);
    }
    return ok;
}

int ech_capture_find(int argc, char **argv, int option)
{
    g_auto(Find) find = {0};
    g_autoptr(GError) error = NULL;
    const char *text = strcmp(argv[option], "--find") == 0 ? (option + 1 < argc ? argv[option + 1] : "") : strchr(argv[option], '=') + 1;
    if (!read_find(text, &find, &error))
        return ech_cli_fail(g_steal_pointer(&error));
    g_auto(GStrv) words = words_of(argc, argv, option, &find, find.from);
    if (!words) {
        fprintf(stderr, "echelon capture: --find: %s stands nowhere; expected it where the number goes: -- python train.py --%s %s\n", find.hole, find.name,
                find.hole);
        return ECH_EXIT_USAGE;
    }
    g_autoptr(GPtrArray) tries = g_ptr_array_new_with_free_func(try_free);
    Search search = {.tries = tries};
    int code = ECH_EXIT_DONE;
    if (!search_all(&search, argc, argv, option, &find, &code))
        return code;
    g_autoptr(GString) out = g_string_new(NULL);
    if (search.fits || search.lacks)
        tell_answer(&find, search.fits, search.lacks, search.interrupted != 0, out);
    tell_table(&find, tries, out);
    tell_next(search.fits, search.fits ? search.lacks : tries->pdata[0], out);
    ech_cli_print(out->str);
    return search.interrupted ? search.interrupted : search.fits ? ECH_EXIT_DONE : ECH_EXIT_DOES_NOT_FIT;
}
