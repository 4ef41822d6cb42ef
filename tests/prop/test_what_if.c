/* What-ifs of shipped programs and captures: every number of a device moves time the way it must or not at all, all rates twice and all times half is half the
 * time, an exported trace is the program, a queue that nobody uses is nobody's. */
#include "sim/experiment/experiment_private.h"
#include "sim/report/counters.h"
#include "sim/report/explain.h"
#include "sim/report/report.h"
#include "sim/report/timeline.h"
#include "sim/trace/file.h"
#include "tests/support/support.h"

#include <check.h>
#include <glib/gstdio.h>
#include <string.h>

typedef struct {
    const char *trace, *device;
} Case;

static const Case cases[] = {
    {"gpt_offload.v5e", "tpu-v5e"},
    {"sharded_mlp.v6e", "tpu-v6e"},
    {"cnn0.v1", "tpu-v1"},
    {"gpt_unrolled_offload.h100", "h100-sxm"},
    {"pipeline_pytorch.h100/rank0.pretend.gz", "h100-sxm"},
};

static EchExperiment *load(const Case *c, const char *const *settings)
{
    g_autoptr(GError) error = NULL;
    const EchExperimentOverrides overrides = {.trace = c->trace, .device = c->device, .engine = "native", .settings = settings};
    EchExperiment *experiment = ech_experiment_load(NULL, &overrides, &error);
    ck_assert_ok(experiment != NULL, error);
    return experiment;
}

/* The case with one edit more; NULL where the value cannot be (half a core). */
static EchResult *vary(EchExperiment *experiment, const char *path, const char *value)
{
    const char *const paths[] = {path, NULL};
    EchCase *c = ech_case_vary(&experiment->cases[0], "number", value, paths, value, NULL);
    EchResult *result = c ? ech_experiment_run_case(experiment, c, NULL) : NULL;
    ech_case_free(c);
    return result;
}

static const char *last_of(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

static bool is_rate(const char *path)
{
    static const char *const rates[] = {"read", "write", "both", "to_device", "from_device", "both_ways", "clock", "tile_feed", NULL};
    return g_strv_contains(rates, last_of(path)) || strstr(path, ".peaks.");
}

static bool is_time(const char *path)
{
    static const char *const times[] = {"latency", "setup", NULL};
    return g_strv_contains(times, last_of(path)) || g_str_has_suffix(path, "_ps");
}

/* 1: the more, the sooner it is done; -1: the later; 0: neither is certain. */
static int direction(const char *path)
{
    if (is_rate(path) || g_str_has_suffix(path, "_efficiency") || g_str_has_suffix(path, "_share"))
        return 1;
    return is_time(path) || g_str_has_suffix(path, "_cycles") ? -1 : 0;
}

/* What starts sooner may be in the way of something else: so much is no error. */
#define ANOMALY 0.01

START_TEST(numbers_act_the_right_way)
{
    const Case *c = &cases[_i];
    g_autoptr(EchExperiment) experiment = load(c, NULL);
    g_autoptr(EchResult) base = vary(experiment, "device.runtime.unheard_of", "1");
    ck_assert_ptr_nonnull(base);
    const double before = (double)base->run->makespan;
    for (size_t i = 0; i < base->device->n_numbers; i++) {
        const char *path = base->device->numbers[i].path;
        int way = direction(path);
        g_autofree char *full = g_strconcat("device.", path, NULL);
        for (int twice = 0; way != 0 && twice < 2; twice++) {
            g_autoptr(EchResult) result = vary(experiment, full, twice ? "x2" : "x0.5");
            ck_assert_msg(result != NULL, "%s on %s: %s", c->trace, c->device, path);
            if (!result->run->completed)
                continue;
            double ratio = (double)result->run->makespan / before;
            bool sooner = (way > 0) == (twice == 1);
            ck_assert_msg(sooner ? ratio <= 1 + ANOMALY : ratio >= 1 - ANOMALY, "%s on %s: with %s %s it takes %.4f times as long", c->trace, c->device, path,
                          twice ? "twice" : "half", ratio);
        }
    }
}
END_TEST

/* What must be heard of, in these or those: a number that nothing reads is a promise that is not kept. */
START_TEST(numbers_are_heard)
{
    static const struct {
        size_t in;
        const char *path;
    } numbers[] = {
        {0, "memories.hbm.read"},
        {0, "memories.hbm.write"},
        {0, "memories.hbm.latency"},
        {0, "memories.vector.read"},
        {0, "links.host.to_device"},
        {0, "links.host.from_device"},
        {0, "links.host.setup"},
        {0, "links.host.latency"},
        {0, "units.vector.clock"},
        {0, "units.vector.peaks.f32"},
        {0, "units.vector.rows"},
        {0, "units.transcendental.clock"},
        {0, "units.transcendental.peaks.f32"},
        {0, "units.matrix.clock"},
        {0, "units.matrix.rows"},
        {0, "units.matrix.count"},
        {0, "units.matrix.peaks.bf16"},
        {1, "links.ici.to_device"},
        {1, "links.ici.from_device"},
        {1, "links.ici.latency"},
        {2, "memories.hbm.read"},
        {2, "links.host.to_device"},
        {2, "kernel.dependency_wait_cycles"},
        {3, "memories.hbm.read"},
        {3, "memories.hbm.both"},
        {3, "memories.hbm.latency"},
        {3, "memories.l2.read"},
        {3, "links.host.both_ways"},
        {3, "links.host.setup"},
        {3, "units.vector.clock"},
        {3, "runtime.launch_ps"},
        {3, "kernel.tile_feed"},
        {3, "kernel.wgmma_share"},
        {4, "links.nvlink.to_device"},
        {4, "links.nvlink.from_device"},
        {4, "links.nvlink.latency"},
        {4, "runtime.collective_launch_ps"},
        {4, "memories.pageable.read"},
        {4, "links.pageable.setup"},
        {4, "runtime.driver.malloc_ps"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++) {
        const Case *c = &cases[numbers[i].in];
        g_autoptr(EchExperiment) experiment = load(c, NULL);
        g_autofree char *full = g_strconcat("device.", numbers[i].path, NULL);
        g_autoptr(EchResult) half = vary(experiment, full, "x0.5"), as_it_is = vary(experiment, full, "x1");
        ck_assert_msg(half != NULL && as_it_is != NULL, "%s on %s: %s", c->trace, c->device, numbers[i].path);
        ck_assert_msg(half->run->serial != as_it_is->run->serial, "%s on %s does not hear of %s", c->trace, c->device, numbers[i].path);
    }
}
END_TEST

/* One way of a link that has less is not one way and a half. */
START_TEST(ways_of_a_link_are_apart)
{
    static const struct {
        size_t in;
        const char *path, *same;
    } pairs[] = {{1, "device.links.ici.from_device", "device.links.ici.to_device"}, {4, "device.links.nvlink.from_device", "device.links.nvlink.to_device"}};
    for (size_t i = 0; i < G_N_ELEMENTS(pairs); i++) { /* what one sends another takes: the slower way holds */
        g_autoptr(EchExperiment) experiment = load(&cases[pairs[i].in], NULL);
        g_autoptr(EchResult) a = vary(experiment, pairs[i].path, "x0.5"), b = vary(experiment, pairs[i].same, "x0.5");
        ck_assert(a && b);
        ck_assert_int_eq(a->run->makespan, b->run->makespan);
    }
    g_autoptr(EchExperiment) experiment = load(&cases[4], NULL); /* it only copies to the device from pageable memory */
    g_autoptr(EchResult) half = vary(experiment, "device.links.pageable.from_device", "x0.5"), whole = vary(experiment, "device.links.pageable.latency", "x1");
    ck_assert(half && whole);
    ck_assert_int_eq(half->run->makespan, whole->run->makespan);
}
END_TEST

/* Where every rate is twice and every time half of what it was, so is all the time there is to spend; no length of time is anybody's own. (How far things
 * overlap may change by a hair: what of an estimate no bandwidth hides has a length of its own.) */
START_TEST(twice_as_fast)
{
    enum { TPUS = 3 };
    const Case *c = &cases[_i];
    ck_assert_int_lt(_i, TPUS);
    g_autoptr(EchExperiment) experiment = load(c, NULL);
    g_autoptr(EchResult) base = ech_experiment_run(experiment, 0, NULL);
    ck_assert_ptr_nonnull(base);
    g_autoptr(GPtrArray) settings = g_ptr_array_new_with_free_func(g_free);
    for (size_t i = 0; i < base->device->n_numbers; i++) {
        const char *path = base->device->numbers[i].path;
        bool follows = strstr(path, ".peaks.") && ech_device_number(base->device, "units.matrix.clock", 0) > 0; /* its unit's clock */
        if ((is_rate(path) && !follows) || g_str_has_suffix(path, ".nominal"))
            g_ptr_array_add(settings, g_strdup_printf("device.%s=x2", path));
        else if (is_time(path))
            g_ptr_array_add(settings, g_strdup_printf("device.%s=x0.5", path));
    }
    g_ptr_array_add(settings, NULL);
    g_autoptr(EchExperiment) fast = load(c, (const char *const *)settings->pdata);
    g_autoptr(EchResult) half = ech_experiment_run(fast, 0, NULL);
    ck_assert_ptr_nonnull(half);
    double serial = (double)half->run->serial / (double)base->run->serial, makespan = (double)half->run->makespan / (double)base->run->makespan;
    ck_assert_msg(serial > 0.499999 && serial < 0.500001, "%s: %.9f", c->trace, serial);
    ck_assert_msg(makespan > 0.49 && makespan < 0.51, "%s: %.9f", c->trace, makespan);
    for (size_t i = 0; i < base->run->n_memories; i++)
        ck_assert_uint_eq(half->run->memories[i].peak_reserved, base->run->memories[i].peak_reserved);
}
END_TEST

static char *shares_text(const EchResult *result, EchTime *ret_sum)
{
    EchReport report = ech_result_report(result);
    size_t n;
    EchShare *shares = ech_report_critical_path(&report, &n);
    g_autoptr(GString) text = g_string_new(NULL);
    *ret_sum = 0;
    for (size_t i = 0; i < n; i++) {
        *ret_sum += shares[i].time;
        g_string_append_printf(text, "%s %" G_GINT64_FORMAT "\n", shares[i].name, shares[i].time);
    }
    ech_shares_free(shares, n);
    return g_string_free(g_steal_pointer(&text), FALSE);
}

/* A trace that was written down takes as long, holds as much and is bound by the same as what it was made of. */
START_TEST(an_exported_trace_is_the_program)
{
    const Case *c = &cases[_i];
    g_autoptr(EchExperiment) experiment = load(c, NULL);
    g_autoptr(EchResult) result = ech_experiment_run(experiment, 0, NULL);
    ck_assert_ptr_nonnull(result);
    g_autofree char *path = g_build_filename(g_get_tmp_dir(), "what-if.ech", NULL);
    g_autoptr(GError) error = NULL;
    ck_assert_ok(ech_trace_file_write(result->trace, path, &error), error);
    const Case written = {path, c->device};
    g_autoptr(EchExperiment) again = load(&written, NULL);
    g_autoptr(EchResult) same = ech_experiment_run(again, 0, NULL);
    g_unlink(path);
    ck_assert_ptr_nonnull(same);
    ck_assert_int_eq(same->run->makespan, result->run->makespan);
    ck_assert_int_eq(same->run->serial, result->run->serial);
    ck_assert_uint_eq(same->run->n_memories, result->run->n_memories);
    EchTime sum, sum_same;
    g_autofree char *shares = shares_text(result, &sum), *shares_same = shares_text(same, &sum_same);
    ck_assert_str_eq(shares_same, shares);
    ck_assert_int_eq(sum, result->run->makespan);
    ck_assert_int_eq(sum_same, result->run->makespan);
    for (size_t i = 0; i < result->run->n_memories; i++)
        ck_assert_uint_eq(same->run->memories[i].peak_live, result->run->memories[i].peak_live);
}
END_TEST

static double share_named(const EchResult *result, const char *name)
{
    EchReport report = ech_result_report(result);
    size_t n;
    EchShare *shares = ech_report_critical_path(&report, &n);
    EchTime time = 0;
    for (size_t i = 0; i < n; i++)
        time += strcmp(shares[i].name, name) == 0 ? shares[i].time : 0;
    ech_shares_free(shares, n);
    return (double)time / (double)result->run->makespan;
}

/* On a chip whose array holds weights the critical path says what its counters say: cells that work or are loaded, waits for weights. */
START_TEST(counters_and_path_agree)
{
    static const char *const traces[] = {ECH_SOURCE_DIR "/tests/fuzz/corpus/scalesim/conv.csv", "mlp0.v1", "lstm0.v1"};
    for (size_t i = 0; i < G_N_ELEMENTS(traces); i++) {
        const Case c = {traces[i], "tpu-v1"};
        g_autoptr(EchExperiment) experiment = load(&c, NULL);
        g_autoptr(EchResult) result = ech_experiment_run(experiment, 0, NULL);
        ck_assert_ptr_nonnull(result);
        EchReport report = ech_result_report(result);
        EchStationaryCounters counters;
        double clock;
        ck_assert(ech_report_counters(&report, &counters, &clock));
        double weights = share_named(result, "hbm port"), array = share_named(result, "matrix unit");
        double wanted = counters.weight_stall / counters.cycles, busy = (counters.active + counters.weight_shift) / counters.cycles;
        ck_assert_msg(weights > wanted - 0.06 && weights < wanted + 0.06, "%s: %.3f of the path waits for weights, the counters say %.3f", traces[i], weights,
                      wanted);
        ck_assert_msg(array > busy - 0.06 && array < busy + 0.06, "%s: %.3f of the path is the array's, the counters say %.3f", traces[i], array, busy);
    }
}
END_TEST

static gint64 sum_of(JsonObject *object)
{
    gint64 sum = 0;
    g_autoptr(GList) names = json_object_get_members(object);
    for (GList *at = names; at; at = at->next)
        sum += ech_member_int(object, at->data);
    return sum;
}

/* What a memory holds at its fullest, told by purpose, is all that is live then, and the largest holders are no more than it. */
static void holds_add_up(JsonObject *memories)
{
    g_autoptr(GList) names = json_object_get_members(memories);
    for (GList *at = names; at; at = at->next) {
        JsonObject *memory = ech_member_object(memories, at->data), *holds = ech_member_object(memory, "holds");
        JsonArray *held_by = json_object_get_array_member(memory, "held_by");
        gint64 live = ech_member_int(memory, "peak_live_bytes"), sum = 0, listed = 0;
        g_autoptr(GList) purposes = json_object_get_members(holds);
        for (GList *purpose = purposes; purpose; purpose = purpose->next)
            sum += ech_member_int(ech_member_object(holds, purpose->data), "bytes");
        for (guint i = 0; i < json_array_get_length(held_by); i++)
            listed += ech_member_int(json_array_get_object_element(held_by, i), "bytes");
        ck_assert_msg(sum == live, "%s: %" G_GINT64_FORMAT " by purpose, %" G_GINT64_FORMAT " live", (char *)at->data, sum, live);
        ck_assert_int_le(listed, live);
    }
}

static gint64 sum_of_queues(JsonObject *queues)
{
    gint64 sum = 0;
    g_autoptr(GList) names = json_object_get_members(queues);
    for (GList *at = names; at; at = at->next)
        sum += ech_member_int(ech_member_object(queues, at->data), "busy_ps");
    return sum;
}

/* The shares that the terminal shows along the critical path come to all of it, but for what rounding to a tenth of a per cent takes of each row. */
static void path_is_told_whole(const EchReport *report)
{
    g_autoptr(GString) text = ech_report_summary(report, 0);
    const char *path = strstr(text->str, "\n  Critical path\n");
    if (!path)
        return;
    double sum = 0;
    unsigned rows = 0;
    g_auto(GStrv) lines = g_strsplit(path + strlen("\n  Critical path\n"), "\n", -1);
    for (char **line = lines; *line && **line; line++) {
        const char *percent = strstr(*line, " % ");
        if (!percent || (*line)[4] == '(')
            break;
        while (percent > *line && (g_ascii_isdigit(percent[-1]) || percent[-1] == '.'))
            percent--;
        sum += g_ascii_strtod(percent, NULL);
        rows++;
    }
    ck_assert_msg(rows > 1 && sum > 99.95 - 0.051 * rows - 0.05 && sum < 100.05 + 0.051 * rows, "%u rows come to %.1f %%:%s", rows, sum, path);
}

/* Whatever passes do: what a run says of itself adds up, and nothing is used more than all the time. */
START_TEST(figures_add_up)
{
    static const char *const passes[] = {"", "unplan", "serial", "offload", "offload:what=arguments prefetch"}, *const groups[] = {"memories", "units",
                                                                                                                                   "links"};
    g_autoptr(EchExperiment) experiment = load(&cases[_i], NULL);
    for (size_t p = 0; p < G_N_ELEMENTS(passes); p++) {
        g_autoptr(EchResult) result = vary(experiment, "passes", passes[p]);
        ck_assert_msg(result != NULL, "%s: %s", cases[_i].trace, passes[p]);
        EchReport report = ech_result_report(result);
        g_autoptr(JsonNode) node = ech_report_json(&report);
        JsonObject *run = json_node_get_object(node), *queues = ech_member_object(run, "queues"), *needs = ech_member_object(run, "needs");
        gint64 makespan = ech_member_int(run, "makespan_ps"), waited = 0;
        ck_assert_int_eq(sum_of(ech_member_object(run, "critical_path")), makespan);
        ck_assert_uint_eq(json_object_get_size(queues), result->run->n_queues);
        g_autoptr(GList) names = json_object_get_members(queues), needed = json_object_get_members(needs);
        for (GList *at = names; at; at = at->next)
            waited += sum_of(ech_member_object(ech_member_object(queues, at->data), "waits"));
        ck_assert_int_eq(waited, sum_of(ech_member_object(run, "waits")));
        for (size_t g = 0; g < G_N_ELEMENTS(groups); g++) {
            JsonObject *group = ech_member_object(run, groups[g]);
            g_autoptr(GList) members = json_object_get_members(group);
            for (GList *at = members; at; at = at->next)
                ck_assert_msg(ech_member_double(ech_member_object(group, at->data), "utilisation") < 1.0001, "%s %s", groups[g], (char *)at->data);
        }
        holds_add_up(ech_member_object(run, "memories"));
        ck_assert_int_le(sum_of(ech_member_object(run, "kernel_time_basis")), sum_of_queues(queues));
        path_is_told_whole(&report);
        for (GList *at = needed; at; at = at->next)
            ck_assert(!ech_member_bool(run, "fits") || ech_member_bool(ech_member_object(needs, at->data), "fits"));
    }
}
END_TEST

START_TEST(an_idle_queue_changes_nothing)
{
    const Case *c = &cases[_i];
    g_autoptr(EchExperiment) experiment = load(c, NULL);
    g_autoptr(EchResult) result = ech_experiment_run(experiment, 0, NULL);
    ck_assert_ptr_nonnull(result);
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new_from(result->trace);
    const EchQueue *first = &ech_trace_queues(result->trace)[0];
    EchId made = ech_trace_builder_queue(builder, ech_trace_string(result->trace, first->name), ECH_QUEUE_COPY, first->device);
    g_autoptr(EchTrace) trace = ech_trace_builder_finish(builder, NULL);
    ck_assert_ptr_nonnull(trace);
    g_autofree char *name = ech_report_queue_name(trace, made), *other = ech_report_queue_name(trace, 0);
    ck_assert_str_ne(name, other);
    g_autoptr(EchRun) before = ech_test_replay(result->trace, result->device), after = ech_test_replay(trace, result->device);
    ck_assert_int_eq(after->makespan, before->makespan);
    ck_assert_int_eq(after->serial, before->serial);
    ck_assert_uint_eq(after->n_spans, before->n_spans);
}
END_TEST

/* Nothing on the device overlaps any more: no sooner done than before, and never later than all of it one after the other. */
START_TEST(serial_is_no_faster)
{
    const Case *c = &cases[_i];
    g_autoptr(EchExperiment) experiment = load(c, NULL);
    g_autoptr(EchResult) result = ech_experiment_run(experiment, 0, NULL), serial = vary(experiment, "passes", "serial");
    ck_assert(result && serial);
    ck_assert_int_ge(serial->run->makespan, result->run->makespan);
    ck_assert_int_le(serial->run->makespan, serial->run->serial + (EchTime)serial->run->ops);
    ck_assert_int_eq(serial->run->serial, result->run->serial);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("what_if");
    TCase *tests = tcase_create("properties");
    tcase_add_loop_test(tests, numbers_act_the_right_way, 0, G_N_ELEMENTS(cases));
    tcase_add_test(tests, numbers_are_heard);
    tcase_add_test(tests, ways_of_a_link_are_apart);
    tcase_add_loop_test(tests, twice_as_fast, 0, 3);
    tcase_add_loop_test(tests, an_exported_trace_is_the_program, 0, G_N_ELEMENTS(cases));
    tcase_add_test(tests, counters_and_path_agree);
    tcase_add_loop_test(tests, figures_add_up, 0, G_N_ELEMENTS(cases));
    tcase_add_loop_test(tests, an_idle_queue_changes_nothing, 0, G_N_ELEMENTS(cases));
    tcase_add_loop_test(tests, serial_is_no_faster, 0, G_N_ELEMENTS(cases));
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
