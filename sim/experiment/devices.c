#include "sim/experiment/devices.h"

#include "sim/experiment/experiment_private.h"
#include "sim/report/devices.h"
#include "sim/report/ranks.h"
#include "sim/trace/select.h"

uint32_t *ech_experiment_devices(EchExperiment *experiment, const EchCase *c, size_t *ret_n)
{
    *ret_n = 0;
    if (ech_yaml_get(c->config, "matmul") || ech_yaml_get(c->config, "capture_device"))
        return NULL;
    const EchYamlNode *replay = ech_yaml_get(c->config, "replay");
    if (g_strcmp0(ech_yaml_text(replay, "engine"), "simgrid") == 0) /* replays one trace */
        return NULL;
    const EchImport *import = ech_experiment_import_case(experiment, c, NULL);
    g_autofree uint32_t *devices = import && import->trace && !import->program ? ech_trace_devices(import->trace, ret_n) : NULL;
    if (*ret_n > 1 && *ret_n <= ECH_MAX_RANKS)
        return g_steal_pointer(&devices);
    *ret_n = 0;
    return NULL;
}

/* One experiment for each of the first @n devices, in which what is selected of the capture is kept; they have the cases of whoever runs them. */
static GPtrArray *parts_of(EchExperiment *experiment, size_t n)
{
    struct EchImportCache *cache = experiment->cache;
    if (!cache->parts)
        cache->parts = g_ptr_array_new_with_free_func((GDestroyNotify)ech_experiment_free);
    while (cache->parts->len < n)
        g_ptr_array_add(cache->parts, ech_experiment_part_new(experiment));
    return cache->parts;
}

GPtrArray *ech_experiment_run_whole(EchExperiment *experiment, const EchCase *c, GError **error)
{
    g_autoptr(GPtrArray) results = g_ptr_array_new_with_free_func((GDestroyNotify)ech_result_free);
    size_t n;
    g_autofree uint32_t *devices = ech_experiment_devices(experiment, c, &n);
    if (!devices) {
        EchResult *one = ech_experiment_run_case(experiment, c, error);
        if (!one)
            return NULL;
        g_ptr_array_add(results, one);
        return g_steal_pointer(&results);
    }
    GPtrArray *parts = parts_of(experiment, n);
    EchResult *each[ECH_MAX_RANKS];
    for (size_t i = 0; i < n; i++) {
        EchExperiment *part = parts->pdata[i];
        ech_experiment_borrow_imports(part, experiment);
        part->of_device = devices[i];
        part->least_cache = experiment->least_cache;
        part->brief = experiment->brief;
        part->cases = (EchCase *)(uintptr_t)c;
        part->n_cases = 1;
    }
    bool ok = ech_experiment_run_together((EchExperiment *const *)(void *)parts->pdata, n, ECH_TOGETHER_ASKED, each, error);
    for (size_t i = 0; i < n; i++) {
        EchExperiment *part = parts->pdata[i];
        part->cases = NULL;
        part->n_cases = 0;
    }
    if (!ok)
        return NULL;
    for (size_t i = 0; i < n; i++)
        g_ptr_array_add(results, each[i]);
    return g_steal_pointer(&results);
}

JsonNode *ech_results_json(const GPtrArray *results, bool brief)
{
    EchReport reports[ECH_MAX_RANKS];
    for (guint i = 0; i < results->len; i++) {
        reports[i] = ech_result_report(results->pdata[i]);
        reports[i].brief = brief;
    }
    return results->len == 1 ? ech_report_json(&reports[0]) : ech_report_devices_json(reports, results->len);
}
