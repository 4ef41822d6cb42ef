/* echelon list: what there is to choose from, from the same tables that are used. */
#include "sim/cli/cli.h"
#include "sim/experiment/experiment.h"
#include "sim/experiment/torch_measures.h"

#include "models/alloc/alloc.h"
#include "models/alloc/plan.h"
#include "models/device/device.h"
#include "models/device/mig.h"
#include "sim/import/import.h"
#include "sim/pass/pass.h"
#include "sim/replay/cuda.h"
#include "sim/report/json_out.h"
#include "sim/report/text.h"
#include "sim/report/writers.h"

#include <json-glib/json-glib.h>
#include <stdio.h>
#include <string.h>

/* One thing that can be chosen. */
typedef struct {
    const char *name, *summary, *source; /* source may be NULL */
    const EchParam *params;              /* may be NULL */
    const char *by_hand;                 /* how people write it, or NULL */
} Row;

typedef struct {
    JsonBuilder *json; /* NULL: text */
    GString *text;
    bool sources;
    int width;        /* of names */
    const char *only; /* NULL: all */
    bool found;
    GPtrArray *names; /* char *, of all */
} Writer;

static void add_member(Writer *writer, const char *name, const char *value)
{
    ech_json_add_text(writer->json, name, value);
}

static void write_params(Writer *writer, const EchParam *params)
{
    if (!writer->json) {
        ech_cli_params(writer->text, params);
        return;
    }
    json_builder_set_member_name(writer->json, "parameters");
    json_builder_begin_array(writer->json);
    for (const EchParam *param = params; param && param->name; param++) {
        g_autofree char *values = ech_cli_param_takes(param);
        json_builder_begin_object(writer->json);
        add_member(writer, "name", param->name);
        add_member(writer, "takes", values);
        if (param->def)
            add_member(writer, "default", param->def);
        add_member(writer, "doc", param->doc ? param->doc : "");
        json_builder_end_object(writer->json);
    }
    json_builder_end_array(writer->json);
}

static bool is_chosen(Writer *writer, const char *name)
{
    bool chosen = !writer->only || strcmp(writer->only, name) == 0;
    writer->found = writer->found || chosen;
    g_ptr_array_add(writer->names, g_strdup(name));
    return chosen;
}

/* An example as it stands, and what it means, in lines that are wrapped. */
static void write_by_hand(GString *out, const char *by_hand)
{
    g_auto(GStrv) parts = g_strsplit(by_hand, "\n\n", 2);
    g_auto(GStrv) example = g_strsplit(parts[0], "\n", -1), meaning = g_strsplit(parts[1], "\n", -1);
    g_string_append_c(out, '\n');
    for (char **line = example; *line; line++)
        g_string_append_printf(out, "%s\n", *line); /* never broken, to be copied */
    g_string_append_c(out, '\n');
    for (char **line = meaning; *line; line++)
        ech_text_wrap(out, "    ", *line, ech_cli_columns());
}

static void write_row(Writer *writer, const Row *row)
{
    if (!is_chosen(writer, row->name))
        return;
    if (writer->json) {
        json_builder_begin_object(writer->json);
        add_member(writer, "name", row->name);
        add_member(writer, "summary", row->summary ? row->summary : "");
        if (row->source)
            add_member(writer, "source", row->source);
        if (row->params)
            write_params(writer, row->params);
        json_builder_end_object(writer->json);
        return;
    }
    g_autofree char *first = g_strdup_printf("  %-*s ", writer->width, row->name);
    ech_text_wrap(writer->text, first, row->summary ? row->summary : "", ech_cli_columns());
    if (row->params)
        write_params(writer, row->params);
    if (writer->sources && row->source)
        ech_text_wrap(writer->text, "      source: ", row->source, ech_cli_columns());
    if (row->by_hand && writer->only)
        write_by_hand(writer->text, row->by_hand);
}

/* Every number and where it comes from, on a line, or in a narrow terminal on two. */
static void write_sources(GString *out, const EchDevice *device)
{
    enum { BESIDE = 100 };
    unsigned columns = ech_cli_columns();
    ech_text_wrap(out, "      ", "(sizes in bytes, rates in bytes or operations a second, clocks in Hz, times in ps; 'device.' and a path is what --set takes)",
                  columns);
    for (size_t i = 0; i < device->n_numbers; i++) {
        const EchDeviceNumber *number = &device->numbers[i];
        char value[G_ASCII_DTOSTR_BUF_SIZE];
        g_ascii_formatd(value, sizeof value, "%.15g", number->value);
        g_autofree char *first = g_strdup_printf("      %-38s %18s  ", number->path, value);
        bool beside = columns == 0 || columns >= BESIDE;
        if (!beside)
            g_string_append_printf(out, "%s\n", g_strchomp(first));
        ech_text_wrap(out, beside ? first : "          ", number->source, columns);
    }
}

static void write_device(Writer *writer, const EchDevice *device)
{
    if (!writer->json) {
        g_autofree char *first = g_strdup_printf(*device->summary ? "  %-19s " : "  %s", device->name);
        ech_text_wrap(writer->text, first, device->summary, ech_cli_columns());
        g_autofree char *parts = writer->only ? ech_mig_profiles(device) : NULL;
        g_autofree char *cut = g_strdup_printf("MIG cuts it into %s: %s:PROFILE is a device, too", parts, writer->only);
        if (parts)
            ech_text_wrap(writer->text, "      ", cut, ech_cli_columns());
        if (writer->sources)
            write_sources(writer->text, device);
        return;
    }
    json_builder_begin_object(writer->json);
    add_member(writer, "name", device->name);
    add_member(writer, "summary", device->summary);
    add_member(writer, "family", device->family);
    if (device->unmeasured)
        add_member(writer, "rates_unmeasured", device->unmeasured);
    if (writer->sources) {
        json_builder_set_member_name(writer->json, "numbers");
        json_builder_begin_array(writer->json);
        for (size_t i = 0; i < device->n_numbers; i++) {
            json_builder_begin_object(writer->json);
            add_member(writer, "path", device->numbers[i].path);
            ech_json_add_double(writer->json, "value", device->numbers[i].value);
            add_member(writer, "source", device->numbers[i].source);
            json_builder_end_object(writer->json);
        }
        json_builder_end_array(writer->json);
    }
    json_builder_end_object(writer->json);
}

/* What a person who looks for a device knows of it, NVIDIA's by the compute capability from which on they are of a generation. */
enum { N_GENERATIONS = 5, AMD = N_GENERATIONS, GOOGLE, OTHERS, CALIBRATED, N_GROUPS };

static const struct {
    const char *name;
    double capability;
} groups[N_GROUPS] = {{"NVIDIA, Blackwell and Rubin", 10},
                      {"NVIDIA, Hopper", 9},
                      {"NVIDIA, Ada", 8.9},
                      {"NVIDIA, Ampere", 8},
                      {"NVIDIA, Pascal to Turing", 1},
                      {"AMD", 0},
                      {"Google", 0},
                      {"others", 0},
                      {"calibrated", 0}};

static int group_of(const EchDevice *device)
{
    if (device->calibrated)
        return CALIBRATED;
    if (strcmp(device->family, "tpu") == 0)
        return GOOGLE;
    if (ech_device_is_amd(device))
        return AMD;
    double capability = ech_device_number(device, "kernel.compute_capability", 0);
    for (int i = 0; i < N_GENERATIONS; i++) {
        if (capability >= groups[i].capability)
            return i;
    }
    return OTHERS;
}

static void write_groups(Writer *writer, const GPtrArray *devices)
{
    for (int g = 0; g < N_GROUPS; g++) {
        bool any = false;
        for (guint i = 0; i < devices->len; i++) {
            if (group_of(devices->pdata[i]) != g)
                continue;
            if (!any)
                g_string_append_printf(writer->text, "%s\n", groups[g].name);
            any = true;
            write_device(writer, devices->pdata[i]);
        }
    }
}

/* Those that are shipped, or the one of a file or a part of one (MIG). */
static bool list_devices(Writer *writer, GError **error)
{
    g_auto(GStrv) names = ech_device_list();
    bool file = writer->only && (strchr(writer->only, '/') || ech_mig_profile(writer->only) || g_str_has_suffix(writer->only, ".yaml") ||
                                 (!g_strv_contains((const char *const *)names, writer->only) && g_file_test(writer->only, G_FILE_TEST_IS_REGULAR)));
    g_autoptr(GPtrArray) devices = g_ptr_array_new_with_free_func((GDestroyNotify)ech_device_free);
    for (char **name = names; *name && !file; name++) {
        if (!is_chosen(writer, *name))
            continue;
        EchDevice *device = ech_device_load(*name, NULL, error);
        if (!device)
            return false;
        g_ptr_array_add(devices, device);
    }
    if (!writer->json && !writer->only)
        write_groups(writer, devices);
    for (guint i = 0; (writer->json || writer->only) && i < devices->len; i++)
        write_device(writer, devices->pdata[i]);
    if (file && is_chosen(writer, writer->only)) {
        g_autoptr(EchDevice) device = ech_device_load(writer->only, NULL, error);
        if (!device)
            return false;
        write_device(writer, device);
    }
    return true;
}

static bool list_allocators(Writer *writer, GError **error)
{
    (void)error;
    size_t n;
    const EchAllocInfo *infos = ech_alloc_infos(&n);
    for (size_t i = 0; i < n; i++)
        write_row(writer, &(Row){infos[i].name, infos[i].summary, infos[i].source, infos[i].params, NULL});
    return true;
}

static bool list_planners(Writer *writer, GError **error)
{
    (void)error;
    size_t n;
    const EchPlanClass *const *classes = ech_plan_classes(&n);
    for (size_t i = 0; i < n; i++)
        write_row(writer, &(Row){classes[i]->name, classes[i]->summary, classes[i]->source, classes[i]->params, NULL});
    return true;
}

static bool list_passes(Writer *writer, GError **error)
{
    (void)error;
    size_t n;
    const EchPassClass *const *classes = ech_pass_classes(&n);
    for (size_t i = 0; i < n; i++)
        write_row(writer, &(Row){classes[i]->name, classes[i]->summary, classes[i]->source, classes[i]->params, NULL});
    return true;
}

static bool list_measures(Writer *writer, GError **error)
{
    (void)error;
    size_t n;
    const EchTorchMeasure *measures = ech_torch_measures(&n);
    for (size_t i = 0; i < n; i++)
        writer->width = MAX(writer->width, (int)strlen(measures[i].name));
    for (size_t i = 0; i < n; i++) {
        g_autofree char *in_code = g_strconcat(measures[i].in_code, "\n\n", NULL);
        write_row(writer, &(Row){measures[i].name, measures[i].summary, NULL, NULL, in_code});
    }
    return true;
}

static bool list_experiments(Writer *writer, GError **error)
{
    g_auto(GStrv) names = ech_experiment_list();
    for (char **name = names; *name; name++)
        writer->width = MAX(writer->width, (int)strlen(*name));
    for (char **name = names; *name; name++) {
        g_autofree char *path = ech_experiment_find(*name);
        g_autoptr(EchYamlNode) root = ech_yaml_load(path, error);
        if (!root)
            return false;
        const EchYamlNode *title = ech_yaml_get(root, "title");
        write_row(writer, &(Row){*name, title && title->kind == ECH_YAML_SCALAR ? title->text : "", NULL, NULL, NULL});
    }
    return true;
}

static bool list_formats(Writer *writer, GError **error)
{
    (void)error;
    size_t n;
    const EchImportClass *const *classes = ech_import_classes(&n);
    for (size_t i = 0; i < n; i++)
        writer->width = MAX(writer->width, (int)strlen(classes[i]->name));
    for (size_t i = 0; i < n; i++)
        write_row(writer, &(Row){.name = classes[i]->name, .summary = classes[i]->summary, .by_hand = classes[i]->by_hand});
    return true;
}

static bool list_writers(Writer *writer, GError **error)
{
    (void)error;
    size_t n;
    const EchTraceWriter *writers = ech_trace_writers(&n);
    for (size_t i = 0; i < n; i++) {
        g_autofree char *summary = g_strdup_printf("%s (%s)", writers[i].summary, writers[i].endings);
        write_row(writer, &(Row){writers[i].name, summary, NULL, NULL, NULL});
    }
    return true;
}

static bool list_engines(Writer *writer, GError **error)
{
    (void)error;
    g_autoptr(GError) absent = NULL;
    const EchFluidModule *module = ech_simgrid_module(&absent);
    g_autofree char *simgrid = module ? g_strdup_printf("%s in a process of its own; the reference, default of a single run", module->version)
                                      : g_strdup_printf("cannot be used here: %s", absent->message);
    g_autoptr(GError) no_gpu = NULL;
    EchCuGpu gpu;
    const EchCuDriver *driver = ech_cuda_driver(&no_gpu);
    bool present = driver && ech_cuda_open(driver, 0, &gpu, &no_gpu);
    g_autofree char *cuda = present ? g_strdup_printf("replays for real on %s; it measures, the others predict", gpu.name)
                                    : g_strdup_printf("cannot be used here: %s", no_gpu->message);
    if (present)
        ech_cuda_close(driver, &gpu);
    const Row rows[] = {
        {"native", "in process: sweeps, searches, many operations; the same semantics", "ours", NULL, NULL},
        {"simgrid", simgrid, "simgrid.org, parallel tasks under the bottleneck-max-fairness solver", NULL, NULL},
        {"cuda", cuda, "CUDA driver API, cuBLAS where it is installed; kernels of ours", ech_cuda_params, NULL},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
        write_row(writer, &rows[i]);
    return true;
}

static const struct {
    const char *name;
    bool (*list)(Writer *writer, GError **error);
} kinds[] = {
    {"devices", list_devices}, {"allocators", list_allocators}, {"planners", list_planners},       {"passes", list_passes},     {"formats", list_formats},
    {"writers", list_writers}, {"engines", list_engines},       {"experiments", list_experiments}, {"measures", list_measures},
};

int ech_verb_list(int argc, char **argv)
{
    gboolean json = FALSE, sources = FALSE;
    const GOptionEntry entries[] = {
        {"json", 0, 0, G_OPTION_ARG_NONE, &json, "print one JSON document", NULL},
        {"sources", 0, 0, G_OPTION_ARG_NONE, &sources, "say where every number and rule comes from", NULL},
        {NULL, 0, 0, 0, NULL, NULL, NULL},
    };
    g_auto(GStrv) rest = NULL;
    if (!ech_cli_options(argc, argv, entries, &rest))
        return ECH_EXIT_USAGE;
    const char *names[G_N_ELEMENTS(kinds) + 1] = {NULL};
    size_t kind = G_N_ELEMENTS(kinds);
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
        names[i] = kinds[i].name;
        if (rest[0] && strcmp(rest[0], kinds[i].name) == 0)
            kind = i;
    }
    if (!rest[0] || (rest[1] && rest[2]) || kind == G_N_ELEMENTS(kinds)) {
        const char *nearest = rest[0] && kind == G_N_ELEMENTS(kinds) ? ech_nearest_name(rest[0], names) : NULL;
        g_autofree char *all = g_strjoinv(", ", (char **)(uintptr_t)names);
        fprintf(stderr, "echelon list: %s%s%s\n", nearest ? "did you mean '" : "expected one of ", nearest ? nearest : all, nearest ? "'?" : "");
        return ECH_EXIT_USAGE;
    }
    g_autoptr(JsonBuilder) builder = json ? json_builder_new() : NULL;
    g_autoptr(GString) text = g_string_new(NULL);
    g_autoptr(GPtrArray) all_names = g_ptr_array_new_with_free_func(g_free);
    Writer writer = {.json = builder, .text = text, .sources = sources, .width = 16, .only = rest[1], .names = all_names};
    if (json)
        json_builder_begin_array(builder);
    GError *error = NULL;
    if (!kinds[kind].list(&writer, &error))
        return ech_cli_fail(error);
    if (rest[1] && !writer.found) {
        g_ptr_array_add(all_names, NULL);
        const char *nearest = ech_nearest_name(rest[1], (const char *const *)all_names->pdata);
        fprintf(stderr, "echelon list %s: there is no '%s'%s%s%s\n", rest[0], rest[1], nearest ? "; did you mean '" : "", nearest ? nearest : "",
                nearest ? "'?" : "");
        return ECH_EXIT_USAGE;
    }
    if (json) {
        json_builder_end_array(builder);
        g_autofree char *printed = ech_json_finish(builder);
        g_string_append(text, printed);
    }
    ech_cli_print(text->str);
    return ECH_EXIT_DONE;
}
