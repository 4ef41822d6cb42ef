/** @file tpu_v1_table.h
 * What is published of TPU v1's six workloads, and our runs of them. Source: Jouppi et al., ISCA 2017 (arXiv 1704.04760): table 3, per cent of the matrix
 * unit's cycles; the mix that weighs them is table 1's 61 % MLP, 29 % LSTM, 5 % CNN, split inside a kind so that table 6's two weighted means come out. */
#pragma once
#include "sim/experiment/experiment.h"
#include "sim/report/counters.h"

#include <math.h>

typedef struct {
    const char *name;
    double active, useful, unused, stall, shift, non_matrix; /* per cent */
    double tops, mix;
} TpuV1Row;

static const TpuV1Row tpu_v1_rows[] = {
    {"mlp0", 12.7, 12.5, 0.3, 53.9, 15.9, 17.5, 12.3, 0.579}, {"mlp1", 10.6, 9.4, 1.2, 44.2, 13.4, 31.9, 9.7, 0.031},
    {"lstm0", 8.2, 8.2, 0.0, 58.1, 15.8, 17.9, 3.7, 0.132},   {"lstm1", 10.5, 6.3, 4.2, 62.1, 17.1, 10.3, 2.8, 0.158},
    {"cnn0", 78.2, 78.2, 0.0, 0.0, 0.0, 21.8, 86.0, 0.025},   {"cnn1", 46.2, 22.5, 23.7, 28.1, 7.0, 18.7, 14.1, 0.025},
};

/* One run of a program with settings of the device; its makespan, or 0. */
static inline EchTime tpu_v1_run_file(const char *trace, const char *const *settings, EchStationaryCounters *ret_counters, double *ret_clock, char **ret_error)
{
    const EchExperimentOverrides overrides = {.trace = trace, .device = "tpu-v1", .engine = "native", .settings = settings};
    g_autoptr(GError) error = NULL;
    g_autoptr(EchExperiment) experiment = ech_experiment_load(NULL, &overrides, &error);
    g_autoptr(EchResult) result = experiment ? ech_experiment_run(experiment, 0, &error) : NULL;
    if (!result) {
        *ret_error = g_strdup(error ? error->message : "no result");
        return 0;
    }
    EchReport report = ech_result_report(result);
    if (!ech_report_counters(&report, ret_counters, ret_clock)) {
        *ret_error = g_strdup("no counters");
        return 0;
    }
    return result->run->makespan;
}

/* One of the six. */
static inline EchTime tpu_v1_run(const char *name, const char *const *settings, EchStationaryCounters *ret_counters, double *ret_clock, char **ret_error)
{
    g_autofree char *trace = g_strdup_printf(ECH_SOURCE_DIR "/traces/%s.v1", name);
    return tpu_v1_run_file(trace, settings, ret_counters, ret_clock, ret_error);
}

/* Without the host, as figure 11 of the paper: its transfers take no time. */
#define TPU_V1_NO_HOST                                                                                                                                         \
    "device.links.host.to_device=x1000", "device.links.host.from_device=x1000", "device.links.host.both_ways=x1000", "device.links.host.setup=0",              \
        "device.memories.host.read=x1000", "device.memories.host.write=x1000"
#define TPU_V1_MEMORY_X4 "device.memories.hbm.read=x4"
/* 180 GB/s in place of 34. */
#define TPU_V1_GDDR5 "device.memories.hbm.read=x5.3"
#define TPU_V1_CLOCK_X4 "device.units.matrix.clock=x4"
/* And as many more accumulators. */
#define TPU_V1_MATRIX_X2 "device.units.matrix.rows=512", "device.units.matrix.columns=512", "device.memories.accumulator.capacity=x4"

/* How much faster each of the six gets by @settings, which begin with TPU_V1_NO_HOST, and their means. */
static inline bool tpu_v1_what_if(const char *const *settings, double *ret_gain, double *ret_geometric, double *ret_weighted, char **ret_error)
{
    static const char *const base[] = {TPU_V1_NO_HOST, NULL};
    double log_sum = 0, weighted = 0, weights = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(tpu_v1_rows); i++) {
        EchStationaryCounters c;
        double clock;
        EchTime before = tpu_v1_run(tpu_v1_rows[i].name, base, &c, &clock, ret_error);
        EchTime after = before > 0 ? tpu_v1_run(tpu_v1_rows[i].name, settings, &c, &clock, ret_error) : 0;
        if (after <= 0)
            return false;
        ret_gain[i] = (double)before / (double)after;
        log_sum += log(ret_gain[i]);
        weighted += tpu_v1_rows[i].mix * ret_gain[i];
        weights += tpu_v1_rows[i].mix;
    }
    *ret_geometric = exp(log_sum / G_N_ELEMENTS(tpu_v1_rows));
    *ret_weighted = weighted / weights;
    return true;
}
