/* Validation of recorded traces: what was replayed validates itself, recordings never predict themselves, devices of a capture are apart. */
#include "sim/experiment/validate.h"

#include "models/device/device_yaml.h"
#include "sim/base/error.h"
#include "sim/import/import.h"
#include "sim/replay/replay.h"
#include "sim/trace/select.h"
#include "tests/support/support.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DATA ECH_SOURCE_DIR "/tests/golden/data/"
static const char small[] = DATA "small.yaml";

static EchTrace *load_trace(const char *path)
{
    g_autoptr(EchImport) import = ech_test_import(path, NULL);
    return ech_trace_ref(import->trace);
}

static EchTrace *finish(EchTraceBuilder *builder)
{
    g_autoptr(GError) error = NULL;
    EchTrace *trace = ech_trace_builder_finish(builder, &error);
    ck_assert_ok(trace != NULL, error);
    return trace;
}

/* The trace with the times of a replay of it as if they were recorded. */
static EchTrace *record(const EchTrace *trace, const EchDevice *device)
{
    EchReplayOptions options = {0};
    ech_params_defaults(ech_replay_params, &options);
    options.engine = ECH_ENGINE_NATIVE;
    g_autoptr(EchRun) run = ech_replay_run(trace, device, NULL, &options, NULL);
    ck_assert_ptr_nonnull(run);
    ech_params_clear(ech_replay_params, &options);
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new_from(trace);
    for (size_t i = 0; i < run->n_spans; i++)
        ech_trace_builder_peek_op(builder, run->spans[i].op)->recorded = (EchRecorded){run->spans[i].start, run->spans[i].end - run->spans[i].start};
    return finish(builder);
}

START_TEST(a_replay_validates_itself)
{
    g_autoptr(EchDevice) device = ech_test_device(small, NULL);
    g_autoptr(EchTrace) trace = load_trace(DATA "stream.ech"), own = record(trace, device);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchValidation) validation = ech_validate_trace(own, device, &error);
    ck_assert_ok(validation != NULL, error);
    ck_assert_uint_eq(validation->n_pairs, 6);
    ck_assert_uint_eq(validation->n_gaps, 0);
    for (size_t i = 0; i < validation->n_pairs; i++) {
        const EchValidatePair *pair = &validation->pairs[i];
        ck_assert_msg(llabs(pair->measured - pair->predicted) <= 2, "%s: %" G_GINT64_FORMAT " against %" G_GINT64_FORMAT, pair->name, pair->measured,
                      pair->predicted);
    }
    ck_assert_int_eq(validation->makespan_measured, validation->makespan_predicted);
    ck_assert(ech_validation_mape(validation, "copy") < 1e-9 && ech_validation_mape(validation, "kernel") < 1e-9);
    ck_assert_int_eq(validation->wholes[0].stand_in, 0);
}
END_TEST

START_TEST(recordings_never_predict_themselves)
{
    g_autoptr(EchDevice) device = ech_test_device(small, NULL);
    g_autoptr(EchTrace) trace = load_trace(DATA "stream.ech"), own = record(trace, device);
    g_autoptr(EchValidation) before = ech_validate_trace(own, device, NULL);
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new_from(own);
    for (EchId i = 0; i < ech_trace_n_ops(own); i++) {
        EchOp *op = ech_trace_builder_peek_op(builder, i);
        if (op->recorded.duration != ECH_TIME_NONE)
            op->recorded.duration = op->recorded.duration * (3 + i % 5) + 7;
    }
    g_autoptr(EchTrace) other = finish(builder);
    g_autoptr(EchValidation) after = ech_validate_trace(other, device, NULL);
    ck_assert_uint_eq(before->n_pairs, after->n_pairs);
    for (size_t i = 0; i < before->n_pairs; i++) {
        ck_assert_int_eq(before->pairs[i].predicted, after->pairs[i].predicted);
        ck_assert_int_ne(before->pairs[i].measured, after->pairs[i].measured);
    }
    ck_assert_int_eq(before->makespan_predicted, after->makespan_predicted);
}
END_TEST

/* Two devices that each copy at full speed over links of their own, the second's memory by another name; kernels of unknown cost are gaps. */
START_TEST(devices_are_apart)
{
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("test");
    EchId host = ech_trace_builder_memory(builder, "host"),
          memories[2] = {ech_trace_builder_memory(builder, "hbm"), ech_trace_builder_memory(builder, "hbm:1")};
    EchId name = ech_trace_builder_string(builder, "c", -1);
    for (uint32_t d = 0; d < 2; d++) {
        EchId queue = ech_trace_builder_queue(builder, "dma", ECH_QUEUE_COPY, d), core = ech_trace_builder_queue(builder, "core", ECH_QUEUE_COMPUTE, d);
        EchOp op = ech_op_init(ECH_OP_COPY);
        op.name = name;
        op.queue = queue;
        op.memory_from = host;
        op.memory_to = memories[d];
        op.bytes = 10000000;
        op.bytes_origin = ECH_KNOWN;
        op.recorded = (EchRecorded){0, ECH_PS_PER_MS};
        EchId copy = ech_trace_builder_op(builder, op);
        EchOp kernel = ech_op_init(ECH_OP_KERNEL);
        kernel.name = name;
        kernel.queue = core;
        kernel.recorded = (EchRecorded){ECH_PS_PER_MS, ECH_PS_PER_MS};
        ech_trace_builder_op(builder, kernel);
        ech_trace_builder_dep(builder, copy, 0);
    }
    g_autoptr(EchTrace) trace = finish(builder);
    g_autoptr(EchDevice) device = ech_test_device(small, NULL);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchValidation) validation = ech_validate_trace(trace, device, &error);
    ck_assert_ok(validation != NULL, error);
    ck_assert_uint_eq(validation->n_pairs, 2);
    ck_assert_uint_eq(validation->n_wholes, 2);
    for (uint32_t d = 0; d < 2; d++) {
        ck_assert_int_eq(validation->pairs[d].predicted, ECH_PS_PER_MS);
        ck_assert_uint_eq(validation->pairs[d].device, d);
        ck_assert_int_eq(validation->wholes[d].stand_in, ECH_PS_PER_MS);
        ck_assert_int_eq(validation->wholes[d].predicted, 2 * ECH_PS_PER_MS);
    }
    ck_assert_uint_eq(validation->n_gaps, 1);
    ck_assert_uint_eq(validation->gaps[0].count, 2);
    ck_assert(ech_validation_mape(validation, "kernel") < 0);
}
END_TEST

START_TEST(selection)
{
    g_autoptr(EchTrace) trace = load_trace(DATA "recorded.ech");
    size_t n = ech_trace_n_ops(trace);
    g_autofree EchId *map = g_new(EchId, n);
    EchSelectOptions options = {.device = ECH_NONE, .clock = true, .forget = true};
    g_autoptr(GError) error = NULL;
    g_autoptr(EchTrace) paced = ech_trace_select(trace, &options, map, &error);
    ck_assert_ok(paced != NULL, error);
    for (size_t i = 0; i < n; i++) {
        const EchOp *op = &ech_trace_ops(paced)[map[i]];
        ck_assert_str_eq(ech_trace_string(paced, op->name), ech_trace_string(trace, ech_trace_ops(trace)[i].name));
        bool unknown = strcmp(ech_trace_string(paced, op->name), "unknown") == 0;
        if (op->kind == ECH_OP_KERNEL)
            ck_assert((op->recorded.duration != ECH_TIME_NONE) == unknown);
    }
    /* Delays add up to the last start. */
    EchTime sum = 0;
    for (size_t i = 0; i < map[0]; i++)
        sum += ech_trace_ops(paced)[i].recorded.duration;
    ck_assert_int_eq(sum, 71 * ECH_PS_PER_MS);
    options = (EchSelectOptions){.device = 7};
    g_autoptr(EchTrace) nothing = ech_trace_select(trace, &options, map, &error);
    ck_assert_ptr_nonnull(nothing);
    for (size_t i = 0; i < n; i++)
        ck_assert_uint_eq(map[i], ECH_NONE);
    /* Of a trace with loops there is nothing to choose. */
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("test");
    ech_trace_builder_op(builder, ech_op_init(ECH_OP_LOOP));
    ech_trace_builder_peek_op(builder, 0)->target = 0;
    ech_trace_builder_peek_op(builder, 0)->queue = ech_trace_builder_queue(builder, "core", ECH_QUEUE_COMPUTE, 0);
    g_autoptr(EchTrace) looped = finish(builder);
    static const EchSelectOptions refused[] = {{.device = 0}, {.device = ECH_NONE, .clock = true}};
    for (size_t i = 0; i < G_N_ELEMENTS(refused); i++) {
        ck_assert_ptr_null(ech_trace_select(looped, &refused[i], NULL, &error));
        ck_assert(g_error_matches(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED));
        g_clear_error(&error);
    }
    options = (EchSelectOptions){.device = ECH_NONE, .forget = true};
    g_autoptr(EchTrace) forgot = ech_trace_select(looped, &options, NULL, &error);
    ck_assert_ok(forgot != NULL, error);
}
END_TEST

/* On a device with pageable memory, copies that were recorded as pageable take its link. */
START_TEST(pageable_copies)
{
    static const char text[] = "name: p\nfamily: gpu\nmemories:\n  hbm: {kind: hbm, space: 0, capacity: 64MB, read: 1TB/s, write: 1TB/s}\n  host: {kind: "
                               "host-pinned, space: 5, capacity: 64GB}\n"
                               "  pages: {kind: host-pageable, capacity: 64GB}\nlinks:\n  host: {from: host, to: hbm, to_device: 10GB/s, from_device: 10GB/s}\n"
                               "  pages: {from: pages, to: hbm, to_device: 2GB/s, from_device: 1GB/s}\nunits:\n  matrix: {peaks: {bf16: 100GFLOP/s}}\n  "
                               "vector: {peaks: {f32: 10GFLOP/s}}\n";
    g_autoptr(GError) error = NULL;
    g_autoptr(EchYamlNode) root = ech_yaml_parse(text, strlen(text), "device", &error);
    g_autoptr(EchDevice) device = root ? ech_device_from_yaml(root, &error) : NULL;
    ck_assert_ok(device != NULL, error);
    static const struct {
        const char *name;
        bool out;
        EchTime predicted;
    } rows[] = {{"Memcpy HtoD (Pinned -> Device)", false, ECH_PS_PER_MS},
                {"Memcpy HtoD (Pageable -> Device)", false, 5 * ECH_PS_PER_MS},
                {"Memcpy DtoH (Device -> Pageable)", true, 10 * ECH_PS_PER_MS}};
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("test");
    EchId host = ech_trace_builder_memory(builder, "host"), hbm = ech_trace_builder_memory(builder, "hbm"),
          queue = ech_trace_builder_queue(builder, "s", ECH_QUEUE_COPY, 0);
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        EchOp op = ech_op_init(ECH_OP_COPY);
        op.name = ech_trace_builder_string(builder, rows[i].name, -1);
        op.queue = queue;
        op.memory_from = rows[i].out ? hbm : host;
        op.memory_to = rows[i].out ? host : hbm;
        op.bytes = 10000000;
        op.bytes_origin = ECH_KNOWN;
        op.recorded = (EchRecorded){(EchTime)i * 20 * ECH_PS_PER_MS, ECH_PS_PER_MS};
        ech_trace_builder_op(builder, op);
    }
    g_autoptr(EchTrace) trace = finish(builder);
    g_autoptr(EchValidation) validation = ech_validate_trace(trace, device, &error);
    ck_assert_ok(validation != NULL, error);
    ck_assert_uint_eq(validation->n_pairs, G_N_ELEMENTS(rows));
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
        ck_assert_int_eq(validation->pairs[i].predicted, rows[i].predicted);
}
END_TEST

START_TEST(nothing_recorded)
{
    g_autoptr(EchDevice) device = ech_test_device(small, NULL);
    g_autoptr(EchTrace) trace = load_trace(DATA "stream.ech");
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(ech_validate_trace(trace, device, &error));
    ck_assert(g_error_matches(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED));
}
END_TEST

/* Recorded times at the ends of the range must not overflow. */
/* The trace with these recordings, one after the other from number @first on, validated. */
static EchValidation *validate_recorded(const EchRecorded *times, size_t n, size_t first, const EchDevice *device, GError **error)
{
    g_autoptr(EchTrace) trace = load_trace(DATA "recorded.ech");
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new_from(trace);
    for (EchId i = 0; i < ech_trace_n_ops(trace); i++)
        ech_trace_builder_peek_op(builder, i)->recorded = times[(first + i) % n];
    g_autoptr(EchTrace) odd = ech_trace_builder_finish(builder, error);
    return odd ? ech_validate_trace(odd, device, error) : NULL;
}

START_TEST(absurd_times)
{
    static const EchRecorded absurd[] = {{INT64_MAX - 1, INT64_MAX}, {INT64_MIN + 1, INT64_MAX}, {0, INT64_MAX}, {-5, 0}, {INT64_MIN + 1, 1}, {INT64_MAX, 0}};
    static const EchRecorded odd[] = {{-5, 0}, {ECH_TIME_NONE, 1}, {7, ECH_TIME_NONE}, {0, 0}, {INT64_C(1) << 60, 7}, {-1000000, 3}};
    g_autoptr(EchDevice) device = ech_test_device(small, NULL);
    for (size_t first = 0; first < G_N_ELEMENTS(absurd); first++) {
        g_autoptr(GError) error = NULL;
        ck_assert_ptr_null(validate_recorded(absurd, G_N_ELEMENTS(absurd), first, device, &error));
        ck_assert_msg(strstr(error->message, "absurd") != NULL, "%s", error->message);
    }
    for (size_t first = 0; first < G_N_ELEMENTS(odd); first++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(EchValidation) validation = validate_recorded(odd, G_N_ELEMENTS(odd), first, device, &error);
        ck_assert_ok(validation != NULL, error);
        g_autoptr(GString) text = ech_validation_text(validation, device, "odd", 80), svg = ech_validation_svg(validation, device, "odd");
        g_autoptr(JsonNode) json = ech_validation_json(validation, device);
        ck_assert(text->len > 0 && svg->len > 0 && json != NULL);
    }
}
END_TEST

/* The v6e profile: the program of tests on offload, whose copies and kernels the device file's link was measured on. */
START_TEST(real_profile)
{
    const char *path = ECH_SHARED "/traces/xplane/tpu_inference_2_old.xplane.pb";
    if (ech_test_lacks(path))
        return;
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_import_file(path, NULL, NULL, &error);
    ck_assert_ok(import != NULL, error);
    g_autoptr(EchDevice) device = ech_test_device("tpu-v6e", NULL);
    g_autoptr(EchValidation) validation = ech_validate_trace(import->trace, device, &error);
    ck_assert_ok(validation != NULL, error);
    ck_assert_uint_eq(validation->n_wholes, 4);
    for (size_t i = 0; i < 4; i++)
        ck_assert(fabs((double)validation->wholes[i].predicted / (double)validation->wholes[i].measured - 1) < 0.03);
    ck_assert(ech_validation_mape(validation, "kernel") < 0.05);
    ck_assert(ech_validation_mape(validation, "copy") < 0.08);
}
END_TEST

/* A step of JAX on an H100, kernel by kernel: products of Triton's and cuBLAS's, 82 % of its kernels' time, what is written by many small blocks, copies. */
START_TEST(xla_on_an_h100)
{
    static const struct {
        const char *name;
        double least, most;
    } kernels[] = {{"gemm_fusion_dot_general_2", 0.9, 1.1}, {"gemm_fusion_dot_general_3", 0.9, 1.1}, {"nvjet_sm90_tst_176x128_64x5_1x2_h_bz_TNN", 0.85, 1.18},
                   {"loop_multiply_fusion", 0.9, 1.1},      {"loop_broadcast_fusion", 0.95, 1.05},   {"loop_subtract_fusion_2", 0.9, 1.1}};
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import = ech_import_file(ECH_SOURCE_DIR "/traces/gpu_h100-sxm/jax_profile.xplane.pb.gz", NULL, NULL, &error);
    ck_assert_ok(import != NULL, error);
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", NULL);
    g_autoptr(EchValidation) validation = ech_validate_trace(import->trace, device, &error);
    ck_assert_ok(validation != NULL, error);
    ck_assert_uint_eq(validation->n_pairs, 594);
    for (size_t k = 0; k < G_N_ELEMENTS(kernels); k++) {
        double measured = 0, predicted = 0;
        for (size_t i = 0; i < validation->n_pairs; i++) {
            const EchValidatePair *pair = &validation->pairs[i];
            if (strcmp(pair->name, kernels[k].name) == 0) {
                measured += (double)pair->measured;
                predicted += (double)pair->predicted;
            }
        }
        ck_assert_msg(predicted > kernels[k].least * measured && predicted < kernels[k].most * measured, "%s: %g of %g ps", kernels[k].name, predicted,
                      measured);
    }
    ck_assert(fabs((double)validation->wholes[0].predicted / (double)validation->wholes[0].measured - 1) < 0.05);
}
END_TEST

/* A GPT block after block on an H200, whose kernels XLA names after any one of the instructions that share them: of 1516 all are known but fills and calls
 * beside those whose place in the graph is not told. */
START_TEST(xla_on_an_h200)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(EchImport) import =
        ech_import_file(ECH_SOURCE_DIR "/traces/gpu_h200/jax_offload/gpt_unrolled_inputs-profiled/profile.xplane.pb.gz", NULL, NULL, &error);
    ck_assert_ok(import != NULL, error);
    g_autoptr(EchDevice) device = ech_test_device("h200", NULL);
    g_autoptr(EchValidation) validation = ech_validate_trace(import->trace, device, &error);
    ck_assert_ok(validation != NULL, error);
    ck_assert_str_eq(validation->subject, "recorded on NVIDIA H200");
    ck_assert_uint_eq(validation->n_pairs, 1250);
}
END_TEST

/* Estimates that XLA leaves in backend_config, as it prints them: of several models the one made for the kernel; what is no number is none. */
#define COST(time, name) "{\"end_to_end_cycles\":1,\"exec_time_us\":" time ",\"compute_time_us\":0,\"memory_access_time_us\":0,\"name\":\"" name "\"}"
#define KERNEL(name, costs)                                                                                                                                    \
    "  %" name " = f32[1048576]{0} negate(%x), backend_config={\"operation_queue_id\":\"0\",\"reification_cost\":[" costs "],\"device_type\":\"GPU\"}\n"
static const char estimated_text[] =
    "HloModule estimated, is_scheduled=true\n\n"
    "ENTRY %main (x: f32[1048576]) -> f32[1048576] {\n"
    "  %x = f32[1048576]{0} parameter(0)\n" KERNEL("general", COST("0.01", "sol") "," COST("2.5", ""))
        KERNEL("tiles", COST("2692578935.42", "") "," COST("3.5175", "indexing-cost-model") "," COST("0.01", "sol"))
            KERNEL("gemm", COST("8219.5", "") "," COST("7955.117", "experimental-gemm-cost-model") "," COST("31114.7", "indexing-cost-model"))
                KERNEL("bound", COST("0.01", "sol")) KERNEL("none", "") KERNEL("negative", COST("-1", "")) KERNEL("word", COST("nan", ""))
                    KERNEL("huge", COST("1e300", "")) KERNEL("open", "{\"exec_time_us\":1") "  ROOT %last = f32[1048576]{0} negate(%x)\n"
                                                                                            "}\n";

START_TEST(estimates_of_gpu_programs)
{
    static const struct {
        const char *name;
        EchTime measured;
    } expected[] = {{"general", 2500000}, {"tiles", 3517500}, {"gemm", 7955117000}};
    g_autoptr(GError) error = NULL;
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)estimated_text, strlen(estimated_text), "estimated");
    EchImportOptions options = {.device = "h100-sxm", .ignore_beside = true};
    g_autoptr(EchImport) import = ech_import_source(source, "hlo", &options, &error);
    ck_assert_ok(import != NULL, error);
    ck_assert_int_eq(import->program->platform, ECH_PLATFORM_GPU);
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", NULL);
    g_autoptr(EchValidation) validation = ech_validate_gpu_program(import->program, device, &error);
    ck_assert_ok(validation != NULL, error);
    ck_assert_uint_eq(validation->n_pairs, G_N_ELEMENTS(expected));
    for (size_t i = 0; i < G_N_ELEMENTS(expected); i++) {
        ck_assert_str_eq(validation->pairs[i].name, expected[i].name);
        ck_assert_int_eq(validation->pairs[i].measured, expected[i].measured);
        ck_assert_uint_eq(validation->pairs[i].bytes, 8 << 20);
        /* 8 MiB that fit into L2 at 5.6 TB/s take 1.5 us; a start would be another. */
        ck_assert_int_gt(validation->pairs[i].predicted, ECH_PS_PER_US);
        ck_assert_int_lt(validation->pairs[i].predicted, 5 * ECH_PS_PER_US / 2);
    }
    ck_assert_uint_eq(validation->n_gaps, 1);
    ck_assert_uint_eq(validation->gaps[0].count, 7);
    ck_assert_str_eq(validation->gaps[0].example, "bound");
}
END_TEST

START_TEST(gpu_programs_without_estimates)
{
    static const char text[] = "HloModule none, is_scheduled=true\n\nENTRY %main (x: f32[8]) -> f32[8] {\n  %x = f32[8]{0} parameter(0)\n"
                               "  ROOT %n = f32[8]{0} negate(%x), backend_config={\"reification_cost\":[]}\n}\n";
    g_autoptr(GError) error = NULL;
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)text, strlen(text), "none");
    EchImportOptions options = {.device = "h100-sxm", .ignore_beside = true};
    g_autoptr(EchImport) import = ech_import_source(source, "hlo", &options, &error);
    ck_assert_ok(import != NULL, error);
    g_autoptr(EchDevice) device = ech_device_load("h100-sxm", NULL, &error);
    ck_assert_ptr_null(ech_validate_gpu_program(import->program, device, &error));
    ck_assert(g_error_matches(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED));
    ck_assert_ptr_nonnull(strstr(error->message, "xla_gpu_collect_cost_model_stats"));
    g_clear_error(&error);
    g_autoptr(EchDevice) tpu = ech_device_load("tpu-v5e", NULL, &error);
    ck_assert_ptr_null(ech_validate_gpu_program(import->program, tpu, &error));
    ck_assert_ptr_nonnull(strstr(error->message, "compiled for a GPU, and tpu-v5e is none"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("validation");
    TCase *cases = tcase_create("recorded");
    tcase_add_test(cases, a_replay_validates_itself);
    tcase_add_test(cases, recordings_never_predict_themselves);
    tcase_add_test(cases, devices_are_apart);
    tcase_add_test(cases, selection);
    tcase_add_test(cases, pageable_copies);
    tcase_add_test(cases, nothing_recorded);
    tcase_add_test(cases, absurd_times);
    tcase_add_test(cases, real_profile);
    tcase_add_test(cases, xla_on_an_h100);
    tcase_add_test(cases, xla_on_an_h200);
    tcase_add_test(cases, estimates_of_gpu_programs);
    tcase_add_test(cases, gpu_programs_without_estimates);
    suite_add_tcase(suite, cases);
    return ech_test_main(suite);
}
