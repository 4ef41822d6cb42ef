/* Calibration over the fake driver, whose figures stand at the top of fake_cuda.c: it must find them. Nothing here ran on a GPU. */
#include "models/device/device_yaml.h"
#include "models/kernel/measured.h"
#include "sim/base/error.h"
#include "sim/experiment/calibrate.h"
#include "sim/experiment/validate_cuda.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/support.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static EchFakeCuda fake;

#define NEAR(figure, value, share) ck_assert_msg(fabs((figure) / (value)-1) <= (share), #figure " is %g, expected %g", (double)(figure), (double)(value))

/* Something else uses the link for as long as copies of one size are measured: seen on a GPU whose machine several share, where 86 GB/s came out of a link
 * of 55. */
START_TEST(finds_the_link_when_others_used_it)
{
    fake = ech_test_fake_cuda("134217728");
    g_setenv("ECH_FAKE_CUDA_LATE", "113-126", TRUE); /* All of the ninth size */
    g_autoptr(EchCalibration) c = ech_test_calibrate();
    g_unsetenv("ECH_FAKE_CUDA_LATE");
    for (size_t i = 0; i < c->pinned[0].n; i++)
        NEAR(c->pinned[0].time[i].median, 5000 + (double)c->pinned[0].bytes[i] / 20, 0.001);
    NEAR(c->pinned[0].rate, 20e9, 0.001);
}
END_TEST

START_TEST(finds_what_the_fake_is_made_of)
{
    fake = ech_test_fake_cuda("134217728");
    g_setenv("ECH_FAKE_CUDA_ALLOC_US", "300", TRUE);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchCalibration) c = ech_test_calibrate();
    ck_assert_int_eq(fake.held(), 0);
    NEAR(c->pinned[0].rate, 20e9, 0.001);
    NEAR(c->pinned[1].rate, 18e9, 0.001);
    NEAR(c->pinned[0].setup, 5000, 0.01);
    NEAR(c->pageable[0].rate, 6e9, 0.001);
    NEAR(c->pageable[1].rate, 5e9, 0.001);
    for (size_t i = 0; i < c->pinned[0].n; i++)
        NEAR(c->pinned[0].time[i].median, 5000 + (double)c->pinned[0].bytes[i] / 20, 0.001);
    NEAR(c->both_ways.median, 30e9, 0.015); /* Set-ups between copies leave the link to the other direction */
    ck_assert_uint_eq(c->engines[0], 1);
    ck_assert_uint_eq(c->engines[1], 1);
    ck_assert_uint_eq(c->host_rate.n, 11); /* the machine's own that runs this */
    ck_assert_double_gt(c->host_rate.median, 1e8);
    ck_assert_uint_ge(c->processors, 1);
    NEAR(c->read.median, 1000e9, 0.001);
    NEAR(c->write.median, 900e9, 0.001);
    NEAR(c->both.median, 950e9, 0.001);
    NEAR(c->strided.median, 500e9, 0.001);
    NEAR(c->l2_read.median, 4000e9, 0.001);
    NEAR(c->latency.median, 600, 0.001);
    NEAR(c->l2_latency.median, 200, 0.001);
    NEAR(c->launch.median, 2000, 0.001);
    NEAR(c->alone.median, 2000, 0.001);
    ck_assert_uint_eq(c->stream.bytes[0], 1024); /* Programs are full of kernels for a few numbers */
    NEAR(c->stream.time[0].median, 2001, 0.001);
    NEAR(c->graph_launch.median, 1000, 0.01);
    NEAR(c->f32.median, 1e12, 0.001);
    NEAR(c->f64.median, 0.5e12, 0.001);
    NEAR(c->exponential.median, 0.125e12, 0.001);
    NEAR(c->tensor.median, 100e12, 0.001);
    static const double matrix[] = {200e12, 200e12, 100e12, 25e12, 200e12};
    for (size_t i = 0; i < G_N_ELEMENTS(matrix); i++)
        NEAR(c->matrix[i].median, matrix[i], 0.002);
    NEAR(c->unpadded.median, 0.7, 0.002);
    /* 20 or 18 of 1000 go to the copies while kernels move bytes; their launches are not slowed. */
    for (unsigned way = 0; way < 2; way++)
        ck_assert(c->beside_copies[way].median > 0.975 && c->beside_copies[way].median < 0.99);
    ck_assert_double_ge(c->malloc.median, 300e3);
    ck_assert_double_ge(c->malloc_async.median, 300e3);
    ck_assert_double_lt(c->free.median, 300e3);

    /* The file loads, says the same, and predicts the fake's own times. */
    g_autofree char *yaml = ech_calibration_yaml(c, "fake", "2026-01-02", &error);
    ck_assert_ok(yaml != NULL, error);
    g_autofree char *path = g_build_filename(g_get_tmp_dir(), "calibrated.yaml", NULL);
    ck_assert(g_file_set_contents(path, yaml, -1, NULL));
    g_autoptr(EchDevice) device = ech_test_device(path, NULL);
    NEAR((double)ech_device_memory(device, "hbm")->read, 1000e9, 0.001);
    NEAR((double)ech_device_link(device, "host")->from_device, 18e9, 0.001);
    NEAR(ech_device_number(device, "runtime.launch_ps", 0), 2e6, 0.001);
    ck_assert_double_eq_tol(ech_device_number(device, "runtime.kernel_gap_ps", 1), 0, 1e-9);
    for (size_t i = 0; i < device->n_numbers; i++)
        ck_assert_msg(*device->numbers[i].source, "%s has no source", device->numbers[i].path);
    ck_assert_ptr_nonnull(strstr(yaml, "measured: 2026-01-02, driver 13.0"));
    const EchExperimentOverrides overrides = {.trace = ECH_SOURCE_DIR "/traces/gpt_offload.v5e", .device = path, .engine = "native"};
    g_autoptr(EchExperiment) experiment = ech_experiment_load(NULL, &overrides, &error);
    g_unsetenv("ECH_FAKE_CUDA_ALLOC_US");
    g_autoptr(EchCudaValidation) v = experiment ? ech_validate_cuda(experiment, "repeats=3,warmups=1", 0, NULL, &error) : NULL;
    ck_assert_ok(v != NULL, error);
    double error_of_makespan = fabs((double)v->predicted->makespan / (double)v->measured->makespan - 1);
    ck_assert_msg(error_of_makespan < 0.05, "makespan predicted %g, measured %g", (double)v->predicted->makespan, (double)v->measured->makespan);
    ck_assert_double_lt(ech_cuda_validation_mape(v, "copy", 1 << 20), 0.03);
    ck_assert_double_lt(ech_cuda_validation_mape(v, "kernel", 0), 0.1);
}
END_TEST

/* What others have of the GPU's memory is no part of what a context takes, and copies are those of memory on the GPU's side. */
START_TEST(others_on_the_machine_are_left_out)
{
    g_setenv("ECH_FAKE_CUDA_WEIGHTLESS", "1", TRUE);
    g_setenv("ECHELON_LIBNVML", ECH_FAKE_CUDA, TRUE);
    g_setenv("ECH_FAKE_CUDA_OTHERS", "104857600", TRUE);
    g_setenv("ECH_FAKE_CUDA_SOCKETS", "1", TRUE);
    fake = ech_test_fake_cuda("268435456");
    g_autoptr(GError) error = NULL;
    g_autoptr(EchCalibration) c = ech_test_calibrate();
    ck_assert_int_eq(fake.held(), 0);
    ck_assert_uint_eq(c->others, 104857600);
    NEAR(c->pinned[0].rate, 20e9, 0.05);
    g_autofree char *yaml = ech_calibration_yaml(c, "fake", "2026-11-21", &error);
    ck_assert_ok(yaml != NULL, error);
    ck_assert_ptr_nonnull(strstr(yaml,
                                 "context_bytes: {value: 8388608, source: \"measured: 2026-11-21, driver 13.0, what an empty context leaves of the total and "
                                 "104857600 bytes of other processes taken off it\"}"));
}
END_TEST

/* On a machine that rounds and shares, as drivers do: found, and what a validation then expects of the driver's memory. */
START_TEST(finds_how_the_driver_rounds)
{
    g_setenv("ECH_FAKE_CUDA_WEIGHTLESS", "1", TRUE);
    g_setenv("ECH_FAKE_CUDA_ALLOC_US", "1000", TRUE);
    g_setenv("ECHELON_LIBNVML", ECH_FAKE_CUDA, TRUE);
    g_setenv("ECH_FAKE_CUDA_REAL", "1", TRUE);
    fake = ech_test_fake_cuda("268435456");
    g_autoptr(GError) error = NULL;
    g_autoptr(EchCalibration) c = ech_test_calibrate();
    ck_assert_int_eq(fake.held(), 0);
    ck_assert_uint_eq(c->page, 2 << 20);
    ck_assert_uint_eq(c->page_shared, 1 << 20);
    ck_assert_uint_eq(c->pool_growth, 32 << 20);
    /* Kernels that stream one after the other never find each other's bytes in the cache, from which these would take half as long. */
    for (size_t i = 0; i < c->stream.n; i++) {
        if (c->stream.bytes[i] >= 1 << 20)
            NEAR(c->stream.time[i].median, 4500 + (double)c->stream.bytes[i] / 1000, 0.1);
    }
    /* A wait takes the fake 1.5 us and the event before it 0.15; tensor cores that have rested do an eighth more. */
    NEAR(c->wait.median, 1650, 0.1);
    NEAR(c->wait_copy_short.median, 1650, 0.15);
    NEAR(c->wait_copy.median, 1650, 0.35);   /* With half the scatter of 40 us of work and as much copying in it */
    NEAR(c->wait_through.median, 1650, 0.2); /* To its events a wait is as to kernels */
    NEAR(c->wait_passed.median, 1500, 0.1);
    NEAR(c->burst[0].median, 1 / 0.875, 0.03);
    /* Seven tenths of the time leave them cool; in the pauses of more they cool down to what the next begins at. */
    NEAR(c->duty_rate[0].median, 1 / 0.875, 0.03);
    NEAR(c->duty_rate[1].median, 1 / 0.875, 0.03);
    ck_assert_msg(c->duty_rate[2].median > 1.05 && c->duty_rate[2].median < 1.13, "%g", c->duty_rate[2].median);
    for (size_t i = 0; i < ECH_MEASURED_DUTIES; i++)
        NEAR(c->duty[i], ech_measured_duties[i], 0.02);
    NEAR(c->burst_odd[0].median, 1, 0.02);                                                               /* Odd sides leave them cool */
    ck_assert_msg(c->heat.n == 1 && c->heat.median > 1e6 && c->heat.median < 2e7, "%g", c->heat.median); /* 5 ms, by another law */
    /* Mapping is by pieces: 2 + 29 + 2 + 38 us, of which a further one takes the last three, and back 34 + 23 + 1. */
    ck_assert(c->map.median >= 71e3 && c->unmap.median >= 58e3);
    /* Host time too: only what it is at least is sure. */
    ck_assert_msg(c->map_piece.median > 60e3, "%g", c->map_piece.median);
    ck_assert_msg(c->unmap_piece.median > 45e3, "%g", c->unmap_piece.median);
    ck_assert_msg(c->map_page.median > 500, "%g", c->map_page.median);
    /* A copy takes four times its bytes of the port, and gets 0.93 or 0.88 of its rate beside kernels: over those parts of the time in which bytes move. */
    for (unsigned way = 0; way < 2; way++) {
        double kept = 1 - 4 * (way ? 18 * 0.88 : 20 * 0.93) / 1000;
        ck_assert_msg(c->beside_copies[way].median > kept - 0.02 && c->beside_copies[way].median < kept + 0.03, "%g", c->beside_copies[way].median);
        ck_assert_msg(c->copies_beside[way].median > (way ? 0.86 : 0.91) && c->copies_beside[way].median < (way ? 0.92 : 0.96), "%g",
                      c->copies_beside[way].median);
    }
    NEAR(c->both_beside.median, (17 * 0.93 + 12 * 0.88) / 29, 0.03);
    /* Host time: what else this machine does comes on top. */
    const double whole[] = {c->malloc.median, c->free.median, c->malloc_small.median, c->free_small.median},
                 pages[] = {c->malloc_page.median, c->free_page.median};
    for (size_t i = 0; i < G_N_ELEMENTS(whole); i++)
        ck_assert_msg(whole[i] >= 1e6, "call %zu takes %g ns", i, whole[i]);
    for (size_t i = 0; i < G_N_ELEMENTS(pages); i++)
        ck_assert_msg(pages[i] > 0.3e6 && pages[i] < 10e6, "a page of call %zu takes %g ns", i, pages[i]);
    /* Products heat it more than anything else. */
    ck_assert(c->state.sm_high == 1500 && c->products_state.sm_low < c->state.sm_low && c->products_state.power_mw > c->state.power_mw);
    /* What products multiply is noise still, after all the copies. */
    ck_assert_int_eq(fake.plain_products(), 0);
    g_autofree char *yaml = ech_calibration_yaml(c, "fake", "2026-01-02", &error);
    g_autoptr(EchYamlNode) root = yaml ? ech_yaml_parse(yaml, strlen(yaml), "it", &error) : NULL;
    g_autoptr(EchDevice) device = root ? ech_device_from_yaml(root, &error) : NULL;
    ck_assert_ok(device != NULL, error);
    ck_assert_ptr_nonnull(strstr(yaml, "# while multiplying matrices: SM clock 1"));
    ck_assert_double_eq(ech_device_number(device, "runtime.driver.malloc_page", 0), 2 << 20);
    ck_assert_double_eq(ech_device_number(device, "runtime.driver.pool_growth", 0), 32 << 20);
    NEAR(ech_device_number(device, "runtime.driver.map_ps", 0), c->map.median * 1e3, 0.001);
    NEAR(ech_device_number(device, "runtime.driver.unmap_piece_ps", 0), c->unmap_piece.median * 1e3, 0.001);
    NEAR(ech_device_number(device, "runtime.wait_ps", 0), c->wait.median * 1e3, 0.001);
    NEAR(ech_device_number(device, "runtime.wait_through_ps", 0), c->wait_through.median * 1e3, 0.001);
    NEAR(ech_device_number(device, "kernel.copies_beside_from_share", 0), c->copies_beside[1].median, 0.001);
    NEAR(ech_device_number(device, "kernel.burst_share", 0), c->burst[0].median, 0.001);
    NEAR(ech_device_number(device, "kernel.bursts_odd.bf16", 0), c->burst_odd[0].median, 0.001);
    NEAR(ech_device_number(device, "kernel.duty_rates.85", 0), c->duty_rate[2].median, 0.001);
    ck_assert(ech_measured_has_duty_rates(device));
}
END_TEST

/* Calls that take memory last longer while a kernel runs, or as long as that, which is told apart; and the host learns late that one is over. */
START_TEST(calls_beside_kernels)
{
    static const char *const left_out[] = {"graphs",
                                           "pages",
                                           "pageable copies",
                                           "copies both ways",
                                           "copy engines",
                                           "streaming kernels",
                                           "queues that wait",
                                           "cache",
                                           "latency",
                                           "matrix products",
                                           "matrix products by shape",
                                           "kernels beside copies",
                                           NULL};
    g_setenv("ECH_FAKE_CUDA_WEIGHTLESS", "1", TRUE);
    g_setenv("ECH_FAKE_CUDA_REAL", "1", TRUE);
    g_setenv("ECH_FAKE_CUDA_FIGURES", _i == 0 ? "beside=300000,trip=200000" : "settle=1", TRUE);
    fake = ech_test_fake_cuda("268435456");
    g_autoptr(GError) error = NULL;
    g_autoptr(EchCalibration) c = ech_calibrate(0, left_out, NULL, NULL, &error);
    ck_assert_ok(c != NULL, error);
    ck_assert_int_eq(fake.held(), 0);
    g_autofree char *yaml = ech_calibration_yaml(c, "fake", "2026-01-02", &error);
    g_autoptr(EchYamlNode) root = yaml ? ech_yaml_parse(yaml, strlen(yaml), "it", &error) : NULL;
    g_autoptr(EchDevice) device = root ? ech_device_from_yaml(root, &error) : NULL;
    ck_assert_ok(device != NULL, error);
    ck_assert(c->malloc_waits == (_i == 1) && c->map_waits == (_i == 1));
    ck_assert_double_eq(ech_device_number(device, "runtime.driver.malloc_waits", 0), _i);
    ck_assert_double_eq(ech_device_number(device, "runtime.driver.map_waits", 0), _i);
    if (_i == 1) {
        ck_assert(!ech_device_has_number(device, "runtime.driver.malloc_beside_ps") && !ech_device_has_number(device, "runtime.driver.map_beside_ps"));
        return;
    }
    ck_assert_msg(c->trip.median > 195e3, "%g", c->trip.median);
    ck_assert_msg(c->malloc_beside.median > c->malloc.median + 200e3, "%g, alone %g", c->malloc_beside.median, c->malloc.median);
    ck_assert_msg(c->map_beside.median > c->map.median + 200e3, "%g, alone %g", c->map_beside.median, c->map.median);
    NEAR(ech_device_number(device, "runtime.trip_ps", 0), c->trip.median * 1e3, 0.001);
    NEAR(ech_device_number(device, "runtime.driver.malloc_beside_ps", 0), c->malloc_beside.median * 1e3, 0.001);
    NEAR(ech_device_number(device, "runtime.driver.map_beside_ps", 0), c->map_beside.median * 1e3, 0.001);
}
END_TEST

/* On a machine whose host needs 30 us for a call, of kernels of 2 us: the GPU gets a longer head start, and none of them seems longer. On one that needs a
 * millisecond no head start is long enough, and that is said. */
START_TEST(a_slow_host_is_noticed)
{
    g_setenv("ECH_FAKE_CUDA_WEIGHTLESS", "1", TRUE);
    g_setenv("ECH_FAKE_CUDA_REAL", "1", TRUE);
    g_setenv("ECH_FAKE_CUDA_SLOW", _i == 0 ? "20" : "700", TRUE);
    fake = ech_test_fake_cuda("33554432");
    g_autoptr(EchCalibration) c = ech_test_calibrate();
    ck_assert_int_eq(fake.held(), 0);
    ck_assert_int_eq(strstr(c->failures, "waited for the host") != NULL, _i == 1);
    if (_i > 0)
        return;
    NEAR(c->launch.median, 2000, 0.05);
    NEAR(c->alone.median, 2000, 0.3); /* The clock's steps */
}
END_TEST

/* A file of one specimen stands in for its product only where there is no file of the product. */
START_TEST(one_specimen_is_not_its_kind)
{
    g_setenv("ECH_FAKE_CUDA_WEIGHTLESS", "1", TRUE);
    fake = ech_test_fake_cuda("67108864");
    g_setenv("ECH_FAKE_CUDA_NAME", "NVIDIA H100 80GB HBM3", TRUE);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchCalibration) c = ech_test_calibrate();
    g_autofree char *folder = g_dir_make_tmp("echelon-devices-XXXXXX", NULL);
    static const char *const products[] = {"NVIDIA H100 80GB HBM3", "Some Other GPU"};
    for (size_t i = 0; i < G_N_ELEMENTS(products); i++) {
        g_free(c->gpu);
        c->gpu = g_strdup(products[i]);
        g_autofree char *name = g_strdup_printf("a%zu", i), *file = g_strdup_printf("%s.yaml", name), *path = g_build_filename(folder, file, NULL);
        g_autofree char *yaml = ech_calibration_yaml(c, name, "2026-01-02", &error);
        ck_assert_ok(yaml != NULL, error);
        ck_assert(g_file_set_contents(path, yaml, -1, NULL));
    }
    g_setenv("ECHELON_DEVICES", folder, TRUE);
    g_autoptr(EchDevice) kind = ech_device_load_product(products[0]), specimen = ech_device_load_product(products[1]),
                         named = ech_device_load("a0", NULL, &error);
    ck_assert_str_eq(kind->name, "h100-sxm");
    ck_assert_ptr_null(kind->calibrated);
    ck_assert_str_eq(specimen->name, "a1");
    ck_assert_str_eq(specimen->calibrated, "2026-01-02");
    ck_assert(named && ech_device_is_product(named, products[0]));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("calibrate");
    TCase *tests = tcase_create("calibrate");
    tcase_add_test(tests, finds_what_the_fake_is_made_of);
    tcase_add_test(tests, finds_the_link_when_others_used_it);
    tcase_add_test(tests, finds_how_the_driver_rounds);
    tcase_add_test(tests, others_on_the_machine_are_left_out);
    tcase_add_loop_test(tests, calls_beside_kernels, 0, 2);
    tcase_add_loop_test(tests, a_slow_host_is_noticed, 0, 2);
    tcase_add_test(tests, one_specimen_is_not_its_kind);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
