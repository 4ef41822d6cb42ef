/* Where the time of a run goes, on shipped captures of several kinds: reading the file, running (lowering, pricing, replaying), telling it as text,
 * JSON, a timeline and a page; and the most memory after each. Prints figures and ratios; decides nothing. Arguments: other files, each behind its device. */
#include "sim/experiment/experiment.h"
#include "tests/support/clock.h"

#include <json-glib/json-glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { PAGE_SPANS = 20000 };

static double mebibytes(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

typedef struct {
    const char *name;
    double seconds, memory;
} Stage;

static void end_stage(Stage *stage, const char *name, double *begin)
{
    double now = ech_test_cpu_seconds();
    *stage = (Stage){name, now - *begin, mebibytes()};
    *begin = ech_test_cpu_seconds();
}

static void measure(const char *path, const char *device)
{
    Stage stages[6];
    size_t n = 0;
    EchExperimentOverrides overrides = {.trace = path, .device = device, .engine = "native"};
    g_autoptr(GError) error = NULL;
    g_autoptr(EchExperiment) experiment = ech_experiment_load(NULL, &overrides, &error);
    double begin = ech_test_cpu_seconds();
    if (!experiment || !ech_experiment_preload(experiment, &error)) {
        printf("%s: %s\n", path, error->message);
        return;
    }
    end_stage(&stages[n++], "read", &begin);
    g_autoptr(EchResult) result = ech_experiment_run(experiment, 0, &error);
    if (!result) {
        printf("%s: %s\n", path, error->message);
        return;
    }
    end_stage(&stages[n++], "run", &begin);
    EchReport report = ech_result_report(result);
    g_autoptr(JsonNode) json = ech_report_json(&report);
    g_autofree char *text = json_to_string(json, FALSE);
    end_stage(&stages[n++], "JSON", &begin);
    g_autoptr(GByteArray) timeline = ech_report_perfetto(&report);
    end_stage(&stages[n++], "timeline", &begin);
    g_autoptr(GString) details = ech_report_details(&report, PAGE_SPANS);
    GString *page = ech_report_html(text, details->str);
    g_string_free(page, TRUE);
    end_stage(&stages[n++], "page", &begin);
    g_autofree char *name = g_path_get_basename(path);
    printf("%-36s %8" G_GUINT64_FORMAT " operations:", name, result->run->ops);
    for (size_t i = 0; i < n; i++)
        printf("  %s %.1f ms (%.2f of reading), %.0f MiB", stages[i].name, stages[i].seconds * 1e3, stages[i].seconds / stages[0].seconds, stages[i].memory);
    printf("\n");
}

int main(int argc, char **argv)
{
    static const char *const files[][2] = {{"gpt_pytorch.h100", "h100-sxm"},
                                           {"gpt_everything.v5e", "tpu-v5e"},
                                           {"published_models/bert_large-train-8x512.pretend.gz", "h100-sxm"},
                                           {"published_steps/llama3.1-70b.v6e-128.hlo.txt.gz", "tpu-v6e"},
                                           {"published_steps/maxtext-512b.v5p-512.hlo.txt.gz", "tpu-v5p"}};
    for (int i = 1; i + 1 < argc; i += 2)
        measure(argv[i + 1], argv[i]);
    for (size_t i = 0; argc < 3 && i < G_N_ELEMENTS(files); i++) {
        g_autofree char *path = g_build_filename(ECH_SOURCE_DIR, "traces", files[i][0], NULL);
        measure(path, files[i][1]);
    }
    return EXIT_SUCCESS;
}
