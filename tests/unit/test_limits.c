/* No run of a shipped program moves more than its memory can, or computes more than its units can, in the time that they are said to be busy for that; nor is
 * anything busy for longer than the run takes. Also on a device of which one number is another. */
#include "sim/experiment/experiment.h"
#include "tests/support/support.h"

#include <check.h>
#include <string.h>

/* What one number may be above what the device file says: times of a compiler's own, which it estimates from rates that are not quite the file's. */
#define PORT_MARGIN 1.04
#define UNIT_MARGIN 1.3

static EchRate full_rate(const EchMemory *memory)
{
    return MAX(MAX(memory->read, memory->write), memory->both);
}

static uint64_t best_peak(const EchUnit *unit)
{
    uint64_t best = 0;
    for (size_t i = 0; i < unit->n_peaks; i++)
        best = MAX(best, unit->peaks[i].ops);
    return best;
}

/* @ports: also what memories move; not where copies before the program began, or collectives, are in its traffic and not in its time. */
static void check_run(const char *name, const EchResult *result, bool ports)
{
    const EchRun *run = result->run;
    for (size_t i = 0; i < run->n_memories; i++) {
        const EchMemoryRun *m = &run->memories[i];
        const EchMemory *memory = ech_device_memory(result->device, m->name);
        ck_assert_msg(m->busy <= run->makespan, "%s: %s is busy %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT " ps", name, m->name, m->busy, run->makespan);
        ck_assert_msg(m->cached <= m->read + m->written, "%s: %s: more in a cache than was asked for", name, m->name);
        if (!ports || !memory || memory->kind != ECH_MEM_HBM || full_rate(memory) == 0)
            continue;
        double moved = (double)(m->read + m->written - m->cached), can = (double)full_rate(memory) * (double)m->busy / 1e12;
        ck_assert_msg(moved <= can * PORT_MARGIN + 65536, "%s: %s moves %.0f bytes, and can %.0f in the time that it is busy", name, m->name, moved, can);
    }
    for (size_t i = 0; i < run->n_units; i++) {
        const EchUnitRun *u = &run->units[i];
        double can = (double)best_peak(&result->device->units[i]) * (double)u->busy / 1e12;
        ck_assert_msg(u->busy <= run->makespan, "%s: %s is busy %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT " ps", name, u->name, u->busy, run->makespan);
        ck_assert_msg(u->flops <= can * UNIT_MARGIN + 1024, "%s: %s does %.0f operations, and can %.0f in the time that it is busy", name, u->name, u->flops,
                      can);
    }
    ck_assert_msg(run->lower_bound <= run->makespan, "%s: no schedule is shorter than %" G_GINT64_FORMAT ", and this one is: %" G_GINT64_FORMAT, name,
                  run->lower_bound, run->makespan);
}

static const struct {
    const char *ending, *device;
} kinds[] = {{".h100", "h100-sxm"}, {".v5e", "tpu-v5e"}, {".v6e", "tpu-v6e"}, {".v5e.hlo.txt.gz", "tpu-v5e"}, {".v6e.hlo.txt.gz", "tpu-v6e"}};

/* All programs in folder @path, each on its own device. Returns how many runs there were. */
static unsigned check_folder(const char *path, bool ports)
{
    static const char *const numbers[] = {"device.memories.hbm.read=x1", "device.memories.hbm.read=x0.3"};
    GError *error = NULL;
    g_autoptr(GDir) dir = g_dir_open(path, 0, &error);
    ck_assert_ok(dir != NULL, error);
    unsigned n = 0;
    for (const char *name; (name = g_dir_read_name(dir));) {
        const char *device = NULL;
        for (size_t k = 0; k < G_N_ELEMENTS(kinds); k++)
            device = g_str_has_suffix(name, kinds[k].ending) && !g_str_has_prefix(name, "pipeline") ? kinds[k].device : device;
        for (size_t i = 0; device && i < G_N_ELEMENTS(numbers); i++) {
            g_autofree char *file = g_build_filename(path, name, NULL);
            const char *const settings[] = {"replay.engine=native", numbers[i], NULL};
            const EchExperimentOverrides overrides = {.trace = file, .device = device, .settings = settings};
            g_autoptr(EchExperiment) experiment = ech_experiment_load(NULL, &overrides, &error);
            ck_assert_msg(experiment != NULL, "%s: %s", name, error ? error->message : "");
            g_autoptr(EchResult) result = ech_experiment_run(experiment, 0, &error);
            ck_assert_msg(result != NULL, "%s: %s", name, error ? error->message : "");
            check_run(name, result, ports);
            n++;
        }
    }
    return n;
}

START_TEST(nothing_does_more_than_it_can)
{
    ck_assert_uint_ge(check_folder(ECH_SOURCE_DIR "/traces", true), 50);
}
END_TEST

START_TEST(nor_do_captured_programs)
{
    if (ech_test_lacks(ECH_SHARED "/traces/tpu_aot"))
        return;
    ck_assert_uint_ge(check_folder(ECH_SHARED "/traces/tpu_aot", false), 20);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("limits");
    TCase *tests = tcase_create("limits");
    tcase_set_timeout(tests, 600);
    tcase_add_test(tests, nothing_does_more_than_it_can);
    tcase_add_test(tests, nor_do_captured_programs);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
