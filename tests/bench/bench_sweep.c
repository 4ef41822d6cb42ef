/* Points of a sweep a second, beside what reading the program costs: the points share what does not depend on them. Shipped programs, one worker.
 * Prints figures and ratios; decides nothing. */
#include "sim/experiment/sweep.h"
#include "tests/support/clock.h"

#include <glib/gstdio.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static const struct {
    const char *trace, *device, *pass;
} programs[] = {
    {"gpt_everything.v5e", "tpu-v5e", NULL},
    {"gpt_everything.v5e", "tpu-v5e", "place"},
    {"gpt_unrolled_overlap.h100", "h100-sxm", NULL},
    {"adam_moments.v5e", "tpu-v5e", NULL},
};

enum { SIDE = 10 };

static void write_axis(GString *out, const char *path)
{
    g_string_append_printf(out, "  - {path: %s, values: [", path);
    for (int i = 0; i < SIDE; i++)
        g_string_append_printf(out, "%sx%d.%d", i > 0 ? ", " : "", 1 + i / 10, i % 10);
    g_string_append(out, "]}\n");
}

int main(void)
{
    g_autofree char *path = NULL;
    int file = g_file_open_tmp("bench-sweep-XXXXXX.yaml", &path, NULL);
    if (file < 0 || !g_close(file, NULL))
        return EXIT_FAILURE;
    for (size_t p = 0; p < G_N_ELEMENTS(programs); p++) {
        g_autoptr(GString) text = g_string_new(NULL);
        g_string_append_printf(text, "trace: %s\ndevice: %s\n", programs[p].trace, programs[p].device);
        if (programs[p].pass)
            g_string_append_printf(text, "passes: [%s]\n", programs[p].pass);
        g_string_append(text, "sweep:\n");
        write_axis(text, "device.links.host.to_device");
        write_axis(text, "device.memories.hbm.read");
        EchExperimentOverrides overrides = {0};
        g_autoptr(GError) error = NULL;
        g_autoptr(EchExperiment) experiment =
            g_file_set_contents(path, text->str, (gssize)text->len, &error) ? ech_experiment_load(path, &overrides, &error) : NULL;
        double begin = ech_test_cpu_seconds();
        if (!experiment || !ech_experiment_preload(experiment, &error)) {
            fprintf(stderr, "%s\n", error->message);
            g_unlink(path);
            return EXIT_FAILURE;
        }
        double read = ech_test_cpu_seconds() - begin;
        begin = ech_test_cpu_seconds();
        EchSweepPoint *points = ech_sweep_run(experiment, 1, NULL, NULL, NULL, &error);
        double each = (ech_test_cpu_seconds() - begin) / (double)experiment->n_cases;
        ech_sweep_free(points, points ? experiment->n_cases : 0);
        printf("%-28s %-6s %zu points: %6.2f ms each, %5.2f times reading the program (%.1f ms)\n", programs[p].trace, programs[p].pass ? programs[p].pass : "",
               experiment->n_cases, each * 1e3, each / read, read * 1e3);
    }
    g_unlink(path);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("peak memory %.0f MiB\n", (double)usage.ru_maxrss / 1024);
    return EXIT_SUCCESS;
}
