/* Every shipped experiment: it is found by its name, reads, says what it asks, and its first and last cases run. */
#include "sim/experiment/experiment.h"
#include "tests/support/support.h"

#include <check.h>
#include <string.h>

START_TEST(recipes)
{
    g_auto(GStrv) names = ech_experiment_list();
    ck_assert_uint_ge(g_strv_length(names), 14);
    static const char *const settings[] = {"replay.engine=native", NULL};
    const EchExperimentOverrides overrides = {.settings = settings};
    for (char **name = names; *name; name++) {
        g_autofree char *path = ech_experiment_find(*name);
        GError *error = NULL;
        g_autoptr(EchExperiment) experiment = ech_experiment_load(path, &overrides, &error);
        ck_assert_msg(experiment != NULL, "%s: %s", *name, error ? error->message : "");
        ck_assert_uint_gt(strlen(experiment->title), 10);
        const size_t cases[] = {0, experiment->n_cases - 1};
        for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
            g_autoptr(EchResult) result = ech_experiment_run(experiment, cases[i], &error);
            ck_assert_msg(result != NULL, "%s, case %d: %s", *name, (int)cases[i], error ? error->message : "");
            ck_assert_msg(result->run->makespan > 0, "%s, case %d", *name, (int)cases[i]);
        }
    }
}
END_TEST

/* The tutorial's question: on a TPU v5e the offloaded moments of Adam cost device memory; on an H100 overlap does. */
START_TEST(offload_costs)
{
    static const struct {
        const char *name;
        size_t base, offloaded;
    } cases[] = {{"offload_adam", 0, 1}, {"offload_h100", 0, 2}};
    static const char *const settings[] = {"replay.engine=native", NULL};
    const EchExperimentOverrides overrides = {.settings = settings};
    GError *error = NULL;
    g_autofree char *path = ech_experiment_find(cases[_i].name);
    g_autoptr(EchExperiment) experiment = ech_experiment_load(path, &overrides, &error);
    ck_assert_ok(experiment != NULL, error);
    EchBytes needed[2];
    for (size_t i = 0; i < 2; i++) {
        g_autoptr(EchResult) result = ech_experiment_run(experiment, i ? cases[_i].offloaded : cases[_i].base, &error);
        ck_assert_ok(result != NULL, error);
        EchReport report = ech_result_report(result);
        size_t n;
        g_autofree EchFitRow *rows = ech_report_fit_rows(&report, &n);
        needed[i] = 0;
        for (size_t k = 0; k < n; k++) {
            if (strcmp(rows[k].memory, "hbm") == 0)
                needed[i] = rows[k].needed;
        }
    }
    ck_assert_uint_gt(needed[1], needed[0] + needed[0] / 8);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("recipes");
    TCase *tests = tcase_create("recipes");
    tcase_add_test(tests, recipes);
    tcase_add_loop_test(tests, offload_costs, 0, 2);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
