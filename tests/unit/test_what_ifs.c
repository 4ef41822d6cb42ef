/* What passes tell of a PyTorch program, beside the program changed by hand, where its host is slow: their operators are counted as PyTorch begins them. */
#include "sim/experiment/experiment.h"
#include "sim/trace/file.h"
#include "tests/support/support.h"

#include <check.h>
#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

#define GPT ECH_SOURCE_DIR "/traces/gpt_pytorch.h100/gpt.pretend.gz"
#define SAVE_ON_CPU "offload:what=activations,idle=0,each=true,above=1"

static EchResult *run(const char *trace, const char *pass, const char *operator)
{
    g_autofree char *slow = g_strconcat("device.runtime.eager_operator_ps=", operator, NULL);
    const char *passes[] = {pass, NULL}, *settings[] = {slow, NULL};
    const EchExperimentOverrides overrides = {
        .trace = trace, .device = "h100-sxm", .engine = "native", .step = "last", .settings = settings, .passes = pass ? passes : NULL};
    return ech_test_run(&overrides);
}

static const struct {
    const char *pass, *by_hand;
    double off;
} rows[] = {{"batch:parts=2", "accumulate", .01}, {"remat:modules=blocks.*", "checkpoint", .03}, {SAVE_ON_CPU, "save_on_cpu", .01}};

START_TEST(as_by_hand_on_a_slow_host)
{
    g_autofree char *made = g_strdup_printf(ECH_SOURCE_DIR "/traces/gpt_pytorch_measures.h100/%s.pretend.gz", rows[_i].by_hand);
    g_autoptr(EchResult) told = run(GPT, rows[_i].pass, "20us");
    g_autoptr(EchResult) is = run(made, NULL, "20us");
    double time = (double)told->run->makespan / (double)is->run->makespan;
    ck_assert_msg(fabs(time - 1) <= rows[_i].off, "%g", time);
}
END_TEST

/* Until 2.11 the host waits for each copy that save_on_cpu makes, and asks for nothing else meanwhile. */
START_TEST(older_host_waits)
{
    g_autoptr(EchResult) as_is = run(GPT, NULL, "20us");
    g_autoptr(GString) text = ech_trace_file_print(as_is->trace);
    char *setting = strstr(text->str, "property \"allocator_settings.max_round_threshold\"");
    ck_assert_ptr_nonnull(setting);
    g_string_erase(text, setting - text->str, strchr(setting, '\n') + 1 - setting);
    g_autofree char *folder = g_dir_make_tmp("echelon-what-ifs-XXXXXX", NULL), *older = g_build_filename(folder, "older.ech", NULL);
    ck_assert(g_file_set_contents(older, text->str, (gssize)text->len, NULL));
    g_autoptr(EchResult) now = run(GPT, SAVE_ON_CPU, "20us");
    g_autoptr(EchResult) then = run(older, SAVE_ON_CPU, "20us");
    ck_assert_int_gt(then->run->makespan, now->run->makespan + now->run->makespan / 20);
    g_unlink(older);
    g_rmdir(folder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("what_ifs");
    TCase *tcase = tcase_create("what_ifs");
    tcase_add_loop_test(tcase, as_by_hand_on_a_slow_host, 0, G_N_ELEMENTS(rows));
    tcase_add_test(tcase, older_host_waits);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
