/* A search tells the same as runs with the number it found and with its neighbour. */
#include "sim/base/error.h"
#include "sim/experiment/find.h"
#include "sim/report/explain.h"
#include "tests/support/support.h"

#include <string.h>

/* All on a v5e. */
static EchFound *look(const char *trace, const char *find, const char *goal, const char *setting, GError **error)
{
    const char *goals[] = {goal, NULL}, *settings[] = {setting, NULL};
    const EchExperimentOverrides overrides = {.trace = trace, .device = "tpu-v5e", .find = find, .goals = goal ? goals : NULL, .settings = settings};
    g_autoptr(EchExperiment) experiment = ech_experiment_load(NULL, &overrides, error);
    return experiment ? ech_find_run(experiment, NULL, NULL, NULL, error) : NULL;
}

/* The run with @paths at @value, looked at without a search. */
static JsonNode *run_at(const char *trace, const char *const *paths, const char *value)
{
    g_autoptr(GPtrArray) settings = g_ptr_array_new_with_free_func(g_free);
    for (; *paths; paths++)
        g_ptr_array_add(settings, g_strdup_printf("%s=%s", *paths, value));
    g_ptr_array_add(settings, NULL);
    const EchExperimentOverrides overrides = {.trace = trace, .device = "tpu-v5e", .engine = "native", .settings = (const char *const *)settings->pdata};
    GError *error = NULL;
    g_autoptr(EchExperiment) experiment = ech_experiment_load(NULL, &overrides, &error);
    ck_assert_ptr_nonnull(experiment);
    g_autoptr(EchResult) result = ech_experiment_run(experiment, 0, &error);
    ck_assert_ptr_nonnull(result);
    EchReport report = ech_result_report(result);
    return ech_report_json(&report);
}

static JsonObject *answer_of(const EchFound *found, guint index)
{
    return json_array_get_object_element(json_object_get_array_member(json_node_get_object(found->json), "answers"), index);
}

START_TEST(test_least_memory)
{
    GError *error = NULL;
    static const char *const paths[] = {"device.memories.hbm.capacity", NULL};
    g_autoptr(EchFound) found = look("adam_none.v5e", "device.memories.hbm.capacity=512MiB..16GiB", NULL, NULL, &error);
    ck_assert_ptr_nonnull(found);
    JsonObject *answer = answer_of(found, 0);
    ck_assert_str_eq(json_object_get_string_member(answer, "holds"), "from");
    g_autoptr(JsonNode) good = run_at("adam_none.v5e", paths, json_object_get_string_member(answer, "found"));
    g_autoptr(JsonNode) bad = run_at("adam_none.v5e", paths, json_object_get_string_member(answer, "beyond"));
    ck_assert(ech_member_bool(json_node_get_object(good), "fits"));
    ck_assert(!ech_member_bool(json_node_get_object(bad), "fits"));
    ck_assert(found->somewhere);
    /* The table ascends; below a GiB it is said in MiB. */
    ck_assert_str_eq(found->labels[0], "512MiB");
    ck_assert_str_eq(found->labels[found->experiment->n_cases - 1], "16GiB");
    ck_assert_uint_eq(found->at[0], found->at[1] + 1);
}
END_TEST

static volatile sig_atomic_t stop;

static void stop_soon(size_t done, size_t total, void *data)
{
    (void)done;
    (void)total;
    (void)data;
    stop = 1;
}

static EchFound *look_until(const char *sweep, sig_atomic_t stopped)
{
    const char *const settings[] = {sweep, NULL};
    const EchExperimentOverrides overrides = {
        .trace = "adam_none.v5e", .device = "tpu-v5e", .find = "device.memories.hbm.capacity=512MiB..16GiB", .settings = sweep ? settings : NULL};
    GError *error = NULL;
    g_autoptr(EchExperiment) experiment = ech_experiment_load(NULL, &overrides, &error);
    ck_assert_ptr_nonnull(experiment);
    stop = stopped;
    EchFound *found = ech_find_run(experiment, &stop, stop_soon, NULL, &error);
    ck_assert_ptr_nonnull(found);
    return found;
}

/* What an interrupted search knows is told: the runs that were made, and that there are no more. */
START_TEST(test_interrupted)
{
    g_autoptr(EchFound) halved = look_until(NULL, 0);
    JsonObject *answer = answer_of(halved, 0);
    ck_assert_uint_eq(halved->experiment->n_cases, 3);
    ck_assert_str_eq(json_object_get_string_member(answer, "holds"), "from");
    ck_assert(json_object_get_boolean_member(answer, "interrupted"));
    ck_assert_uint_eq(halved->at[0], halved->at[1] + 1);
    ck_assert_ptr_nonnull(strstr(halved->text, "Interrupted"));
    g_autoptr(EchFound) begun = look_until(NULL, 1);
    answer = answer_of(begun, 0);
    ck_assert_uint_eq(begun->experiment->n_cases, 1);
    ck_assert_ptr_nonnull(begun->points[0].run);
    ck_assert_str_eq(json_object_get_string_member(answer, "holds"), "unknown");
    ck_assert_str_eq(json_object_get_string_member(answer, "beyond"), "512MiB");
    g_autoptr(EchFound) swept = look_until("sweep=[{path: device.memories.hbm.read, values: [x1, x2, x4]}]", 1);
    ck_assert_uint_eq(swept->experiment->n_cases, 3);
    ck_assert_ptr_nonnull(swept->points[0].run);
    for (size_t i = 1; i < 3; i++)
        ck_assert(swept->points[i].interrupted);
    ck_assert(!swept->somewhere);
}
END_TEST

START_TEST(test_slowest_link)
{
    GError *error = NULL;
    static const char *const paths[] = {"device.links.host.to_device", "device.links.host.from_device", NULL};
    g_autoptr(EchFound) found = look("gpt_offload.v5e", "device.links.host.to_device,device.links.host.from_device=x0.1..x1", "time<=x1.25", NULL, &error);
    ck_assert_ptr_nonnull(found);
    JsonObject *answer = answer_of(found, 0);
    static const char *const none[] = {NULL};
    g_autoptr(JsonNode) base = run_at("gpt_offload.v5e", none, "");
    g_autoptr(JsonNode) good = run_at("gpt_offload.v5e", paths, json_object_get_string_member(answer, "found"));
    g_autoptr(JsonNode) bad = run_at("gpt_offload.v5e", paths, json_object_get_string_member(answer, "beyond"));
    double limit = 1.25 * (double)ech_member_int(json_node_get_object(base), "makespan_ps");
    ck_assert((double)ech_member_int(json_node_get_object(good), "makespan_ps") <= limit);
    ck_assert((double)ech_member_int(json_node_get_object(bad), "makespan_ps") > limit);
}
END_TEST

/* One answer for each combination, whole numbers to the last, both ends the same, and nothing anywhere. */
START_TEST(test_sweep_and_ends)
{
    GError *error = NULL;
    const char *sweep = "sweep=[{path: trace, values: [adam_none.v5e, adam_moments.v5e]}]";
    g_autoptr(EchFound) two = look("adam_none.v5e", "device.memories.hbm.capacity=1GiB..16GiB", NULL, sweep, &error);
    ck_assert_ptr_nonnull(two);
    ck_assert_uint_eq(two->experiment->n_cases, 2);
    ck_assert_str_eq(json_object_get_string_member(answer_of(two, 0), "found"), "2.561GiB");
    ck_assert(strcmp(json_object_get_string_member(answer_of(two, 1), "found"), "2.561GiB") > 0);
    g_autoptr(EchFound) both = look("adam_none.v5e", "device.memories.hbm.capacity=8GiB..16GiB", "fits", NULL, &error);
    ck_assert_str_eq(json_object_get_string_member(answer_of(both, 0), "holds"), "throughout");
    ck_assert_uint_eq(both->experiment->n_cases, 2);
    ck_assert(both->somewhere);
    g_autoptr(EchFound) none = look("adam_none.v5e", "device.memories.hbm.capacity=1GiB..16GiB", "time<=1us", NULL, &error);
    ck_assert_str_eq(json_object_get_string_member(answer_of(none, 0), "holds"), "nowhere");
    ck_assert(!none->somewhere);
    g_autoptr(EchFound) whole = look(NULL, "matmul.buffers=1..6", "vector<=12MiB", "matmul.m=4096", &error);
    ck_assert_ptr_nonnull(whole);
    JsonObject *answer = answer_of(whole, 0);
    ck_assert_str_eq(json_object_get_string_member(answer, "holds"), "up to");
    ck_assert(whole->somewhere);
    ck_assert_int_eq(atoi(json_object_get_string_member(answer, "beyond")), atoi(json_object_get_string_member(answer, "found")) + 1);
    /* What is told in MiB, of a range in GiB, is found to the last digit too. */
    g_autoptr(EchFound) small = look("mlp_none.v5e", "device.memories.hbm.capacity=64MiB..4GiB", NULL, NULL, &error);
    ck_assert_ptr_nonnull(small);
    EchBytes least, less;
    ck_assert(ech_parse_bytes(json_object_get_string_member(answer_of(small, 0), "found"), &least, &error));
    ck_assert(ech_parse_bytes(json_object_get_string_member(answer_of(small, 0), "beyond"), &less, &error));
    ck_assert(less < least && least - less < 11000);
}
END_TEST

/* A combination that answers nothing is told as such, beside the answers of the others; where none answers, that is the error. */
START_TEST(test_sweep_goes_on)
{
    GError *error = NULL;
    const char *sweep = "sweep=[{path: device.memories.hbm.capacity, values: [2GiB, 16GiB]}]";
    const char *find = "device.memories.hbm.read=x0.5..x2", *says = "--for: 'time<=x1.05' is held against the run without the edit";
    g_autoptr(EchFound) found = look("gpt_pytorch.h100", find, "time<=x1.05", sweep, &error);
    ck_assert_msg(found, "%s", error ? error->message : "");
    ck_assert_uint_eq(found->experiment->n_cases, 2);
    ck_assert_str_eq(json_object_get_string_member(answer_of(found, 0), "holds"), "unknown");
    ck_assert_ptr_nonnull(strstr(json_object_get_string_member(answer_of(found, 0), "error"), says));
    ck_assert_str_ne(json_object_get_string_member(answer_of(found, 1), "holds"), "unknown");
    ck_assert(found->points[0].error && !found->points[0].interrupted && found->points[1].run && !found->somewhere);
    ck_assert_ptr_nonnull(strstr(found->text, says));
    ck_assert_ptr_nonnull(strstr(found->text, "capacity=16GiB: "));
    sweep = "sweep=[{path: device.memories.hbm.capacity, values: [2GiB, 2.5GiB]}]";
    g_autoptr(EchFound) nowhere = look("gpt_pytorch.h100", find, "time<=x1.05", sweep, &error);
    ck_assert(!nowhere && error && strstr(error->message, says));
    g_clear_error(&error);
}
END_TEST

/* A setting of what is looked for is one of the whole, as one of the sweep is: --set find.values=1GiB..2GiB. */
START_TEST(test_set)
{
    GError *error = NULL;
    const char *find = "device.memories.hbm.capacity=512MiB..16GiB";
    g_autoptr(EchFound) found = look("adam_none.v5e", find, NULL, "find.values=1GiB..2GiB", &error);
    ck_assert_msg(found, "%s", error ? error->message : "");
    ck_assert_str_eq(json_object_get_string_member(json_node_get_object(found->json), "values"), "1GiB..2GiB");
    ck_assert_str_eq(json_object_get_string_member(answer_of(found, 0), "holds"), "nowhere");
    g_autoptr(EchFound) none = look("adam_none.v5e", find, NULL, "set.find.values=1GiB..2GiB", &error);
    ck_assert(!none && error && strstr(error->message, "that is of the whole experiment"));
    g_clear_error(&error);
}
END_TEST

START_TEST(test_refused)
{
    static const struct {
        const char *find, *goal, *says;
    } cases[] = {
        {"device.memories.hbm.capacity", NULL, "or --find PATH=1GiB..16GiB"},
        {"device.memories.hbm.capacity=16GiB", NULL, "'16GiB' is no range; expected values like"},
        {"device.memories.hbm.capacity=16GiB..1GiB", NULL, "'16GiB..1GiB': the smaller comes first"},
        {"device.memories.hbm.capacity=x1..2", NULL, "'x1..2': both begin with x, as factors do, or neither"},
        {"device.memories.hbm.capacity=1GiB..2apples", NULL, "'2apples' is no number"},
        {"passes=prefetch:depth={1..", NULL, "expected values like"},
        {"memories.hbm.capacity=1GiB..2GiB", NULL, "did you mean 'device.memories.hbm.capacity'?"},
        {"find.path=1..2", NULL, "cannot be varied"},
        {"device.memories.hbm.read,device.memories.hbm.read=x0.5..x2", NULL, "'device.memories.hbm.read' stands here twice"},
        {"device.memories.hbm.capacity=1GiB..16GiB", "time<10ms", "'time<10ms' cannot be asked for: only 'at most' can"},
        {"device.memories.hbm.capacity=1GiB..16GiB", "time<=4GiB", "'time<=4GiB': '4GiB' is not a time"},
        {"device.memories.hbm.capacity=1GiB..16GiB", "<=4GiB", "'<=4GiB' cannot be asked for"},
        {"device.memories.hbm.capacity=1apple..2GiB", NULL, "'1apple' is no number"},
        {"device.memories.hbm.capacity=1GiB..16GiB", "time<=50", "'50' has no unit; expected 50ps, 50ns, 50us, 50ms or 50s"},
        {"device.memories.hbm.capacity=1GiB..16GiB", "hbm<=4", "'4' has no unit"},
        {"device.memories.hbm.capacity=1GiB..64", NULL, "'1GiB' has a unit, '64' has none"},
        {"device.memories.hbm.capacity=5us..1GiB", NULL, "'5us' and '1GiB' are not of one kind"},
        {"device.memories.hbm.capacity=1GiB..16GiB", "hbm<=x0", "'x0' is no factor"},
        {"device.memories.hbm.capacity=1GiB..16GiB", "hmb<=4GiB", "--for: 'hmb' is no memory of tpu-v5e; did you mean 'hbm'?"},
        {"device.memories.hbm.size=x1..x2", NULL, "--find: device.memories.hbm.size=x1: there is no 'size' to multiply"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(EchFound) found = look("adam_none.v5e", cases[i].find, cases[i].goal, NULL, &error);
        ck_assert_msg(!found && error && strstr(error->message, cases[i].says), "%s: %s", cases[i].find, error ? error->message : "no error");
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("find");
    TCase *tcase = tcase_create("find");
    tcase_add_test(tcase, test_least_memory);
    tcase_add_test(tcase, test_interrupted);
    tcase_add_test(tcase, test_slowest_link);
    tcase_add_test(tcase, test_sweep_and_ends);
    tcase_add_test(tcase, test_sweep_goes_on);
    tcase_add_test(tcase, test_set);
    tcase_add_test(tcase, test_refused);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
