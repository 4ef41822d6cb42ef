/* Counterfactuals held against the real compiler: from the default compile of a program alone, what would another setting of the compiler's knobs (less on-chip
 * memory, two prefetches at a time, none before the program, no slices, ...) have done to the bytes prefetched and to the time?
 *
 * The other compile's options are the only thing taken from it before the prediction; its decisions are then priced by the same costs. Where the compiler made
 * another program (it re-tiles kernels when it has less memory), only bytes can be compared and no prediction from the default compile can be exact: such pairs
 * are in the table, counted by themselves. The table goes to counterfactuals.txt in the build folder. */
#include <gio/gio.h>
#include <json-glib/json-glib.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SKIP = 77 };

typedef struct {
    double bytes, seconds;           /* predicted */
    double real_bytes, real_seconds; /* the compiler's, NAN where it made another program */
    double estimate;                 /* what the compiler's own simulator says of its program, NAN where it does not */
} Outcome;

static bool replay(const char *base, const char *knobs, Outcome *ret)
{
    const char *program = ECH_BINARY_DIR "/tests/msa-replay", *argv[] = {program, base, "--knobs", knobs, NULL};
    g_autoptr(GError) error = NULL;
    g_autoptr(GSubprocess) process = g_subprocess_newv(argv, G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_SILENCE, &error);
    g_autofree char *text = NULL;
    if (process == NULL || !g_subprocess_communicate_utf8(process, NULL, NULL, &text, NULL, &error) || text == NULL)
        return false;
    g_autoptr(JsonParser) parser = json_parser_new();
    if (!json_parser_load_from_data(parser, text, -1, NULL))
        return false;
    JsonObject *root = json_node_get_object(json_parser_get_root(parser));
    if (!json_object_has_member(root, "real"))
        return false;
    JsonObject *real = json_object_get_object_member(root, "real");
    *ret = (Outcome){.bytes = (double)json_object_get_int_member(root, "prefetch_bytes"),
                     .seconds = json_object_get_double_member(root, "seconds"),
                     .real_bytes = (double)json_object_get_int_member(real, "prefetch_bytes"),
                     .real_seconds = json_object_has_member(real, "seconds") ? json_object_get_double_member(real, "seconds") : NAN,
                     .estimate = json_object_has_member(real, "estimate") ? json_object_get_double_member(real, "estimate") : NAN};
    return true;
}

static int sign(double x, double nothing)
{
    return fabs(x) <= nothing ? 0 : x > 0 ? 1 : -1;
}

/* Within 10 % of the real change, or a hundredth (bytes) or a thousandth (time) of the whole. */
static bool near(double ours, double real, double slack)
{
    return fabs(ours - real) <= 0.1 * fabs(real) + slack;
}

static gint compare_names(gconstpointer a, gconstpointer b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int main(void)
{
    const char *folder = ECH_SHARED "/oracle/msa";
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    if (dir == NULL) {
        printf("no %s: skipped\n", folder);
        return SKIP;
    }
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free), defaults = g_ptr_array_new_with_free_func(g_free);
    for (const char *name = g_dir_read_name(dir); name != NULL; name = g_dir_read_name(dir)) {
        if (g_str_has_suffix(name, ".json.gz") && !g_str_has_suffix(name, ".default.json.gz") && !g_str_has_suffix(name, ".nomsa.json.gz"))
            g_ptr_array_add(names, g_strdup(name));
        else if (g_str_has_suffix(name, ".default.json.gz"))
            g_ptr_array_add(defaults, g_strdup(name));
    }
    g_ptr_array_sort(defaults, compare_names);
    g_ptr_array_sort(names, compare_names);
    g_autoptr(GString) table =
        g_string_new("what-if from the default compile alone, against the compiler's own compile with that setting; other program: the "
                     "compiler changed more than the placement\n"
                     "program.chip.setting                 prefetched MiB: predicted     real      time us: predicted       real  compiler\n"
                     "(real: the compiler's placement priced by the same costs; compiler: the change in the time its own simulator prints, which "
                     "charges parameters nothing and takes tiles into account)\n");
    g_autofree char *last = NULL;
    Outcome base = {0};
    double ratios = 0, worst = 0; /* our placement's time over the compiler's, same clock */
    unsigned timed = 0;
    unsigned estimated = 0, estimate_near = 0, estimate_sign = 0, other_estimated = 0, other_near = 0, other_sign = 0;
    unsigned pairs = 0, other = 0, bytes_near = 0, bytes_sign = 0, all_bytes_near = 0, all_bytes_sign = 0, time_near = 0, time_sign = 0;
    for (guint i = 0; i < names->len; i++) {
        g_autofree char *stem = g_strndup(names->pdata[i], strlen(names->pdata[i]) - strlen(".json.gz"));
        char *dot = strrchr(stem, '.');
        g_autofree char *program = g_strndup(stem, (gsize)(dot - stem));
        g_autofree char *from = g_strdup_printf("%s/%s.default.json.gz", folder, program), *to = g_strdup_printf("%s/%s.json.gz", folder, stem);
        Outcome changed;
        if (!g_file_test(from, G_FILE_TEST_EXISTS))
            continue;
        if (g_strcmp0(last, program) != 0) {
            if (!replay(from, from, &base))
                continue;
            g_free(last);
            last = g_strdup(program);
        }
        if (!replay(from, to, &changed)) {
            printf("%s: no outcome\n", stem);
            return EXIT_FAILURE;
        }
        double bytes = changed.bytes - base.bytes, real_bytes = changed.real_bytes - base.real_bytes;
        double time = changed.seconds - base.seconds, real_time = changed.real_seconds - base.real_seconds;
        bool same = !isnan(changed.real_seconds);
        bool b = near(bytes, real_bytes, 0.01 * base.real_bytes), bs = sign(bytes, 0.01 * base.real_bytes) * sign(real_bytes, 0.01 * base.real_bytes) >= 0;
        pairs++;
        all_bytes_near += b;
        all_bytes_sign += bs;
        g_string_append_printf(table, "%-36s %24.2f %8.2f", stem, bytes / 1048576, real_bytes / 1048576);
        double estimate = changed.estimate - base.estimate, floor = 0.001 * base.estimate;
        bool e = near(time, estimate, floor), es = sign(time, floor) * sign(estimate, floor) >= 0;
        if (!isnan(estimate)) {
            estimated++;
            estimate_near += e;
            estimate_sign += es;
            other_estimated += !same;
            other_near += !same && e;
            other_sign += !same && es;
        }
        if (!same) {
            other++;
            g_string_append_printf(table, " %24.3f %10s %10.3f  other program%s\n", time * 1e6, "", estimate * 1e6,
                                   b    ? ""
                                   : bs ? ", bytes off"
                                        : ", bytes of the other sign");
            continue;
        }
        bool t = near(time, real_time, 0.001 * base.real_seconds), ts = sign(time, 0.001 * base.real_seconds) * sign(real_time, 0.001 * base.real_seconds) >= 0;
        ratios += changed.seconds / changed.real_seconds;
        worst = MAX(worst, changed.seconds / changed.real_seconds);
        timed++;
        bytes_near += b;
        bytes_sign += bs;
        time_near += t;
        time_sign += ts;
        g_string_append_printf(table, " %24.3f %10.3f %10.3f%s%s\n", time * 1e6, real_time * 1e6, estimate * 1e6, b ? "" : "  bytes off",
                               t ? "" : "  time off");
    }
    for (guint i = 0; i < defaults->len; i++) {
        g_autofree char *path = g_strdup_printf("%s/%s", folder, (const char *)defaults->pdata[i]);
        Outcome outcome;
        if (!replay(path, path, &outcome))
            continue; /* a chip without such a memory */
        ratios += outcome.seconds / outcome.real_seconds;
        worst = MAX(worst, outcome.seconds / outcome.real_seconds);
        timed++;
    }
    if (pairs == 0) {
        printf("no pairs in %s: skipped\n", folder);
        return SKIP;
    }
    unsigned same = pairs - other;
    g_string_append_printf(table,
                           "%u pairs, in %u of them the compiler made another program\n"
                           "prefetched bytes: within 10 %% in %u of %u, sign right in %u of %u; of the %u of the same program %u and %u\n"
                           "time: within 10 %% in %u of %u, sign right in %u of %u\n"
                           "time against the compiler's own simulator: within 10 %% in %u of %u, sign right in %u; of the other programs %u of %u and %u\n"
                           "time of our placement over that of the compiler's, priced alike: mean %.4f, worst %.4f, of %u compiles\n",
                           pairs, other, all_bytes_near, pairs, all_bytes_sign, pairs, same, bytes_near, bytes_sign, time_near, same, time_sign, same,
                           estimate_near, estimated, estimate_sign, other_near, other_estimated, other_sign, ratios / timed, worst, timed);
    fputs(table->str, stdout);
    g_autoptr(GError) error = NULL;
    if (!g_file_set_contents(ECH_BINARY_DIR "/counterfactuals.txt", table->str, -1, &error)) {
        printf("%s\n", error->message);
        return EXIT_FAILURE;
    }
    bool good =
        bytes_sign == same && time_sign == same && all_bytes_near * 10 >= pairs * 8 && time_near * 10 >= same * 8 && ratios <= 1.02 * timed && worst <= 1.10;
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
