/* Devices of one process, replayed together: who waits for whom, their one host, what each holds. */
#include "sim/base/error.h"
#include "sim/experiment/advise.h"
#include "sim/experiment/devices.h"
#include "sim/experiment/find.h"
#include "sim/import/alloc_events.h"
#include "sim/import/import.h"
#include "sim/report/explain.h"
#include "sim/report/json_out.h"
#include "sim/report/ranks.h"
#include "sim/trace/meets.h"
#include "sim/trace/select.h"
#include "tests/support/support.h"

#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#define HEAD                                                                                                                                                   \
    "echelon-pretend 1\nclock 1\ndevice 80000000000 0 2 \"h100-sxm\"\nname 1 \"k(float const*, float*)\"\nname 2 \"all-reduce\"\nname 3 \"range\"\n"           \
    "alloc 1 0 0 1000000000 67108864 3 0\nalloc 1 1 0 2000000000 134217728 3 0\n"
/* By @t at @d: a kernel over 64 MiB of the device. */
#define KERNEL(t, d, at) "kernel " t " " d " 0 1 4096 1 1 256 1 1 0\nuses 1 " at " 67108864 2 " at " 67108864\n"
#define ON_0 "1000000000"
#define ON_1 "2000000000"
#define COPY(t, d, from, to) "copy " t " " d " 0 67108864 3 3 1\nuses 1 " from " 67108864 2 " to " 67108864\n"

static EchImport *must_read(const char *text)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *whole = g_strconcat(text, "end\n", NULL);
    EchImport *import = ech_test_text(whole, &error);
    ck_assert_ok(import != NULL, error);
    return import;
}

static EchTrace *of_device(const EchTrace *trace, uint32_t device, bool together)
{
    g_autoptr(GError) error = NULL;
    EchTrace *one = ech_trace_select(trace, &(EchSelectOptions){.device = device, .together = together}, NULL, &error);
    ck_assert_ok(one != NULL, error);
    return one;
}

/* Both devices of @text; without overheads, and of the host nothing but what it waits for. */
static void replay(const char *text, bool together, EchTime *ret_makespans)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchDevice) device = ech_device_load("h100-sxm", NULL, &error);
    ck_assert_ok(device != NULL, error);
    g_autoptr(EchImport) import = must_read(text);
    EchReplayOptions options = {0};
    ech_params_defaults(ech_replay_params, &options);
    options.overhead = options.host_launches = false;
    options.engine = ECH_ENGINE_NATIVE;
    EchTrace *traces[2];
    EchReplayRank ranks[2];
    EchRun *runs[2] = {NULL};
    for (uint32_t d = 0; d < 2; d++) {
        traces[d] = of_device(import->trace, d, together);
        ranks[d] = (EchReplayRank){traces[d], device, NULL, &options, d};
        ck_assert_uint_eq(ech_trace_number(traces[d], 7), together ? d : 7);
    }
    bool ok = ech_replay_run_together(ranks, 2, runs, &error);
    ck_assert_ok(ok, error);
    for (uint32_t d = 0; d < 2; d++) {
        ret_makespans[d] = runs[d]->makespan;
        ech_run_free(runs[d]);
        ech_trace_unref(traces[d]);
    }
    ech_params_clear(ech_replay_params, &options);
}

static void near(EchTime got, EchTime want)
{
    ck_assert_msg(ABS(got - want) <= 1000, "got %" G_GINT64_FORMAT ", expected %" G_GINT64_FORMAT, got, want);
}

/* A kernel, a copy to the other device, which waits for that and does the same. Waits without an event that was recorded are for nobody. */
START_TEST(a_device_waits_for_events_of_another)
{
    EchTime kernel[2], copy[2], chain[2], alone[2], back[2];
    replay(HEAD KERNEL("2", "0", ON_0), true, kernel);
    replay(HEAD COPY("2", "0", ON_0, ON_1), true, copy);
    static const char text[] = HEAD KERNEL("2", "0", ON_0) COPY("3", "0", ON_0, ON_1) "record 4 0 0 1\nwait 5 1 0 1\n" KERNEL("6", "1", ON_1);
    replay(text, true, chain);
    near(chain[0], kernel[0] + copy[0]);
    near(chain[1], 2 * kernel[0] + copy[0]);
    replay(text, false, alone);
    near(alone[1], kernel[0]);
    replay(HEAD KERNEL("2", "0", ON_0) "record 3 0 0 1\nwait 4 1 0 1\n" KERNEL("5", "1", ON_1) "record 6 1 0 2\nwait 7 0 0 2\n" KERNEL("8", "0", ON_0), true,
           back);
    near(back[0], 3 * kernel[0]);
    near(back[1], 2 * kernel[0]);
}
END_TEST

/* Where neither reaches the other's memory it goes over the host's: 0.69 of that link, not NVLink. */
START_TEST(copies_over_the_host)
{
    EchTime straight[2], staged[2], whole[2];
    replay(HEAD COPY("2", "0", ON_0, ON_1), true, straight);
    replay(HEAD "copy 2 0 0 67108864 3 8 1\nuses 1 " ON_0 " 67108864 2 " ON_1 " 67108864\n", true, staged);
    replay(HEAD "copy 2 0 0 67108864 3 2 1\nuses 1 " ON_0 " 67108864\n", true, whole);
    ck_assert_int_gt(staged[0], 4 * straight[0]);
    double share = (double)whole[0] / (double)staged[0];
    ck_assert_msg(share > 0.68 && share < 0.71, "%f", share);
}
END_TEST

/* What a thread waits for on one device holds up what it asks of another, and nothing that another thread asks. */
START_TEST(a_host_waits_for_one_device_before_it_asks_another)
{
    EchTime kernel[2], same[2], other[2], beside[2];
    replay(HEAD KERNEL("2", "0", ON_0), true, kernel);
    replay(HEAD "push 1 5 3\n" KERNEL("2", "0", ON_0) "sync 3 3 0 0 0\n" KERNEL("4", "1", ON_1) "sync 5 3 1 0 0\n" KERNEL("6", "0", ON_0), true, same);
    near(same[1], 2 * kernel[0]);
    near(same[0], 3 * kernel[0]);
    replay(HEAD "push 1 5 3\n" KERNEL("2", "0", ON_0) "sync 3 3 0 0 0\npush 3 6 3\n" KERNEL("4", "1", ON_1), true, other);
    near(other[1], kernel[0]);
    replay(HEAD "push 1 5 3\n" KERNEL("2", "0", ON_0) KERNEL("4", "1", ON_1), true, beside);
    near(beside[1], kernel[0]);
}
END_TEST

static uint32_t elsewhere(const EchTrace *trace, size_t kernel)
{
    uint32_t operators;
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++)
        if (ech_trace_ops(trace)[i].kind == ECH_OP_KERNEL && kernel-- == 0)
            return ech_op_elsewhere(trace, &ech_trace_ops(trace)[i], &operators);
    ck_abort_msg("no such kernel");
    return 0;
}

/* A host's launches on one device are before those on another, if one thread asks for both and does not wait between. */
START_TEST(launches_elsewhere_take_the_host)
{
    g_autoptr(EchImport) import =
        must_read(HEAD "push 1 5 3\n" KERNEL("2", "0", ON_0) KERNEL("3", "0", ON_0) KERNEL("4", "1", ON_1) KERNEL("5", "1", ON_1) KERNEL("6", "0", ON_0) /**/
                  "push 7 6 3\n" KERNEL("8", "1", ON_1) "pop 9 6\npop 9 5\n" KERNEL("10", "1", ON_1) "sync 11 3 1 0 0\n" KERNEL("12", "0", ON_0));
    static const uint32_t told[] = {0, 0, 2, 0, 2, 0, 1, 0};
    for (size_t k = 0; k < G_N_ELEMENTS(told); k++)
        ck_assert_uint_eq(elsewhere(import->trace, k), told[k]);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchDevice) device = ech_device_load("h100-sxm", NULL, &error);
    g_autoptr(EchTrace) one = of_device(import->trace, 1, false);
    EchReplayOptions options = {0};
    ech_params_defaults(ech_replay_params, &options);
    options.engine = ECH_ENGINE_NATIVE;
    g_autoptr(EchRun) run = ech_replay_run(one, device, NULL, &options, &error);
    ck_assert_ok(run != NULL, error);
    ech_params_clear(ech_replay_params, &options);
    /* The third launch of the host is the first on this device. */
    for (size_t s = 0; s < run->n_spans; s++)
        if (ech_trace_ops(one)[run->spans[s].op].kind == ECH_OP_KERNEL) {
            ck_assert_int_ge(run->spans[s].start, 3 * run->host_launch);
            ck_assert_int_lt(run->spans[s].start, 4 * run->host_launch);
            break;
        }
}
END_TEST

/* The devices of a group in one process meet: the second collective of one is the second of the other. */
START_TEST(collectives_meet_in_one_process)
{
    g_autoptr(EchImport) import = must_read(HEAD "collective 2 0 0 2 1024 2 1\nmeets 77\ncollective 3 1 0 2 1024 2 1\nmeets 77\n"
                                                 "collective 4 0 0 2 1024 2 1\nmeets 77\ncollective 5 1 0 2 1024 2 1\nmeets 77\n");
    uint64_t times[2] = {0};
    for (size_t i = 0; i < ech_trace_n_ops(import->trace); i++) {
        const EchOp *op = &ech_trace_ops(import->trace)[i];
        EchMeeting meeting;
        if (op->kind != ECH_OP_COLLECTIVE)
            continue;
        const char *at = ech_meets_of(ech_trace_string(import->trace, op->launch));
        ck_assert(ech_meets_next(&at, &meeting));
        ck_assert_uint_eq(meeting.times, times[ech_trace_queues(import->trace)[op->queue].device]++);
    }
    ck_assert_uint_eq(times[0], 2);
    ck_assert_uint_eq(times[1], 2);
}
END_TEST

/* Each has its own memory, and of the other's no more than a name; and devices keep their numbers, whichever is asked first. */
START_TEST(each_device_has_its_own_memory)
{
    static const char *const texts[] = {HEAD COPY("2", "0", ON_0, ON_1) KERNEL("3", "1", ON_1),
                                        "echelon-pretend 1\nclock 1\ndevice 80000000000 0 2 \"h100-sxm\"\nname 1 \"k(float const*, float*)\"\n"
                                        "alloc 1 1 0 2000000000 134217728 3 0\nalloc 1 0 0 1000000000 67108864 3 0\n" KERNEL("2", "1", ON_1)
                                            COPY("3", "0", ON_0, ON_1)};
    static const EchBytes held[] = {67108864, 134217728};
    for (size_t k = 0; k < 4; k++) {
        g_autoptr(EchImport) import = must_read(texts[k / 2]);
        ck_assert_uint_eq(ech_trace_most_live(import->trace, k % 2), held[k % 2]);
        EchId fullest = ech_alloc_main_memory(import->trace);
        uint32_t its;
        ck_assert(ech_trace_device_of(import->trace, fullest, &its) && its == 1);
        g_autoptr(EchTrace) one = of_device(import->trace, k % 2, true);
        EchId hbm = ech_trace_find_memory(one, "hbm");
        EchBytes bytes = 0, others = 0;
        for (size_t b = 0; b < ech_trace_n_buffers(one); b++) {
            const EchBuffer *buffer = &ech_trace_buffers(one)[b];
            *(buffer->memory == hbm ? &bytes : &others) += buffer->bytes;
        }
        ck_assert_uint_eq(bytes, held[k % 2]);
        ck_assert_uint_eq(others, 0);
        uint32_t device;
        ck_assert(ech_trace_device_of(one, hbm, &device));
        ck_assert_uint_eq(device, k % 2);
    }
}
END_TEST

/* What the other device sends is what this one is given: a batch of more rows has more of it. Gradients are not. */
START_TEST(what_another_device_sends_is_given)
{
    static const char *const ranges[] = {"range", "autograd::engine::evaluate_function: ToCopyBackward0"};
    for (size_t k = 0; k < G_N_ELEMENTS(ranges); k++) {
        g_autofree char *text = g_strdup_printf(HEAD "name 4 \"%s\"\npush 1 5 4\n" COPY("2", "0", ON_0, ON_1) "pop 3 5\n" KERNEL("4", "1", ON_1), ranges[k]);
        g_autoptr(EchImport) import = must_read(text);
        g_autoptr(EchTrace) one = of_device(import->trace, 1, true);
        size_t given = 0;
        for (size_t b = 0; b < ech_trace_n_buffers(one); b++)
            given += ech_trace_buffers(one)[b].role == ECH_ROLE_INPUT && ech_trace_buffers(one)[b].bytes > 0;
        ck_assert_uint_eq(given, k == 0);
    }
}
END_TEST

/* Four blocks of 64 MiB of weights each, which a forward pass reads and a step of an optimizer writes, three of them on device 0; what each makes, 128 MiB, is
 * kept. Twice. */
static char *write_blocks(void)
{
    g_autoptr(GString) text = g_string_new("echelon-pretend 1\nclock 1\ndevice 80000000000 0 2 \"h100-sxm\"\nname 1 \"k(float const*, float*)\"\n"
                                           "name 2 \"Optimizer.step#SGD.step\"\n");
    for (int b = 0; b < 4; b++)
        g_string_append_printf(text, "name %d \"nn.Module: layers.%d (Block)\"\nname %d \"nn.Module: layers.%d.linear (Linear)\"\n", 3 + 2 * b, b, 4 + 2 * b,
                               b);
    for (int b = 0; b < 4; b++) {
        g_string_append_printf(text, "alloc 1 %d 0 %d000000000 67108864 3 0\n", b / 3, 1 + b);
        g_string_append_printf(text, "alloc 1 %d 0 %d000000000 134217728 3 0\n", b / 3, 11 + b);
    }
    for (int step = 0, t = 2; step < 3; step++, t += 100) {
        for (int b = 0; b < 4; b++) {
            if (b == 3) /* one device after the other */
                g_string_append_printf(text, "record %d 0 0 1\nwait %d 1 0 1\n", t + 25, t + 26);
            g_string_append_printf(text,
                                   "push %d 5 %d\npush %d 5 %d\nkernel %d %d 0 1 4096 1 1 256 1 1 0\nuses 1 %d000000000 67108864 2 %d000000000 134217728\n"
                                   "pop %d 5\npop %d 5\n",
                                   t + 10 * b, 3 + 2 * b, t + 10 * b, 4 + 2 * b, t + 10 * b + 1, b / 3, 1 + b, 11 + b, t + 10 * b + 2, t + 10 * b + 2);
        }
        for (int k = 0; k < 25; k++) /* the first block has more, and one of another device is told to be its own */
            g_string_append_printf(text, "push %d 5 3\nkernel %d %d 0 1 4096 1 1 256 1 1 0\nuses 1 %d000000000 4096\npop %d 5\n", t + 40, t + 40, k == 24,
                                   k == 24 ? 4 : 1, t + 40);
        g_string_append_printf(text, "record %d 1 0 2\nwait %d 0 0 2\npush %d 5 2\n", t + 48, t + 49, t + 50);
        for (int b = 0; b < 4; b++)
            g_string_append_printf(text, "kernel %d %d 0 1 4096 1 1 256 1 1 0\nuses 3 %d000000000 67108864\n", t + 51 + b, b / 3, 1 + b);
        g_string_append_printf(text, "pop %d 5\n", t + 60);
    }
    g_string_append(text, "end\n");
    char *path = g_build_filename(g_get_tmp_dir(), "echelon-blocks-XXXXXX", NULL);
    int file = g_mkstemp(path);
    ck_assert_int_ge(file, 0);
    close(file);
    ck_assert(g_file_set_contents(path, text->str, (gssize)text->len, NULL));
    return path;
}

static EchExperiment *load_blocks(const char *path, const char *setting, const char *find)
{
    g_autoptr(GError) error = NULL;
    const char *const settings[] = {setting, NULL};
    const EchExperimentOverrides overrides = {.trace = path, .device = "h100-sxm", .settings = settings, .find = find};
    EchExperiment *experiment = ech_experiment_load(NULL, &overrides, &error);
    ck_assert_ok(experiment != NULL, error);
    return experiment;
}

/* A search is about all devices: it fits where the fullest does, and takes as long as all. */
START_TEST(a_search_is_of_all_devices)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *path = write_blocks();
    g_autoptr(EchExperiment) experiment = load_blocks(path, "device.runtime.driver.context_bytes=0", "device.memories.hbm.available=1MiB..2GiB");
    g_autoptr(EchFound) found = ech_find_run(experiment, NULL, NULL, NULL, &error);
    ck_assert_ok(found != NULL, error);
    g_autoptr(JsonNode) node = ech_sweep_point_json(&found->points[found->at[0]]);
    JsonObject *run = json_node_get_object(node);
    JsonArray *devices = json_object_get_array_member(run, "devices");
    ck_assert_uint_eq(json_array_get_length(devices), 2);
    ck_assert_int_eq(ech_member_int(run, "fullest_device"), 0);
    ck_assert_int_eq(ech_run_memory_bytes(run, "hbm"), 3 * 201326592);
    ck_assert_int_eq(ech_member_int(json_array_get_object_element(devices, 1), "hbm_bytes"), 201326592);
    g_autoptr(EchExperiment) one = load_blocks(path, "capture_device=1", NULL);
    size_t n;
    g_autofree uint32_t *of = ech_experiment_devices(one, &one->cases[0], &n);
    ck_assert(!of && n == 0);
    g_autoptr(EchResult) alone = ech_experiment_run(one, 0, &error);
    ck_assert_ok(alone != NULL, error);
    ck_assert_int_gt(ech_member_int(run, "makespan_ps"), alone->run->makespan);
    g_unlink(path);
}
END_TEST

/* Advice is about all of them, and divides blocks evenly. */
START_TEST(blocks_are_divided_anew)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *path = write_blocks();
    g_autoptr(EchExperiment) experiment = load_blocks(path, "device.runtime.driver.context_bytes=0", NULL);
    g_autoptr(EchAdvice) advice = ech_advise(experiment, "500MiB", NULL, 1, NULL, NULL, NULL, &error);
    ck_assert_ok(advice != NULL, error);
    ck_assert_uint_eq(advice->n_devices, 2);
    ck_assert(!advice->base.fits && !advice->devices[0].fits && advice->devices[1].fits);
    ck_assert_uint_eq(advice->base.hbm, 3 * 201326592);
    ck_assert_uint_eq(advice->devices[1].hbm, 201326592);
    size_t row = 0;
    while (row < advice->n && !advice->rows[row].spread)
        row++;
    ck_assert_uint_lt(row, advice->n);
    ck_assert(advice->rows[row].run.fits);
    ck_assert_uint_eq(advice->rows[row].run.hbm, 2 * 201326592);
    ck_assert_int_eq(advice->rows[row].run.makespan, advice->base.makespan);
    g_autoptr(GString) text = ech_advice_text(advice, 400);
    ck_assert(strstr(text->str, "move 1 block from cuda:0 to cuda:1: then 2 on cuda:0 (384 MiB), 2 on cuda:1 from layers.2 (384 MiB), by device_map={..., "
                                "\"layers.2\": 1, ...}"));
    ck_assert(strstr(text->str, "It runs on 2 devices: 0 needs 576 MiB and has no room for it, 1 needs 192 MiB."));
    g_unlink(path);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("devices");
    TCase *cases = tcase_create("devices");
    tcase_add_test(cases, a_device_waits_for_events_of_another);
    tcase_add_test(cases, copies_over_the_host);
    tcase_add_test(cases, a_host_waits_for_one_device_before_it_asks_another);
    tcase_add_test(cases, launches_elsewhere_take_the_host);
    tcase_add_test(cases, collectives_meet_in_one_process);
    tcase_add_test(cases, each_device_has_its_own_memory);
    tcase_add_test(cases, what_another_device_sends_is_given);
    tcase_add_test(cases, a_search_is_of_all_devices);
    tcase_add_test(cases, blocks_are_divided_anew);
    suite_add_tcase(suite, cases);
    return ech_test_main(suite);
}
