/* A trace made anonymous predicts what the original does, tells none of its texts, and is itself when it is made anonymous again. Random names of kernels, our
 * own traces and corpora, and every captured file that is at hand. ECH_SEED chooses another seed. */
#include "models/kernel/gpu.h"
#include "sim/base/error.h"
#include "sim/import/alloc_events.h"
#include "sim/import/anonymize.h"
#include "sim/import/import.h"
#include "sim/trace/file.h"
#include "tests/support/random.h"
#include "tests/support/support.h"

#include <check.h>
#include <string.h>

/* What names of kernels are made of, and what only looks like it. */
static const char *const fragments[] = {"splitKreduce",
                                        "flash_fwd_splitkv_combine",
                                        "flash_",
                                        "fmha",
                                        "nchwToNhwc",
                                        "transpose_readWrite",
                                        "DeviceRadixSortOnesweepKernel<policy_hub<float, NullType, ",
                                        "DeviceRadixSortOnesweepKernel<policy_hub<double, OpaqueType<4>, ",
                                        "DeviceRadixSortOnesweepKernel<policy_hub<c10::Half, int, ",
                                        "radixSortKVInPlace",
                                        "computeOffsetsKernel",
                                        "multi_tensor_apply",
                                        "layer_norm",
                                        "batchNorm",
                                        "softmax_warp",
                                        "softmax",
                                        "CatArrayBatchedCopy",
                                        "CatArrayBatchedCopy_contig",
                                        "CatArrayBatchedCopy<OpaqueType<2u>, unsigned int, 4, ",
                                        "bn_fw_tr_1C11_kernel_NCHW<",
                                        "bn_bw_1C11_kernel_new<__half, float, float2, 32, ",
                                        "bn_bw_1C11_singleread_spec<",
                                        "batch_norm_backward_reduce_channels_last",
                                        "fprop_image_first_layer_k64c4r7s7_tile16x64x64",
                                        "execute_split_k_kernel",
                                        "fmha_cutlassF::AttentionKernel<float, true, true>",
                                        "abs_kernel_vectorized2_kernel",
                                        "indexSelect",
                                        "embedding_backward",
                                        "vectorized_elementwise_kernel<4, ",
                                        "vectorized_elementwise_kernel<16, ",
                                        "vectorized_elementwise_kernel<1, ",
                                        "unrolled_elementwise_kernel<",
                                        "elementwise_kernel<128, 4, ",
                                        "elementwise_kernel<512, 1, ",
                                        "elementwise_kernel<64, 16, ",
                                        "elementwise_kernel<96, 3, ",
                                        "elementwise_kernel<",
                                        "op_generic_tensor_kernel",
                                        "FillFunctor",
                                        "BinaryFunctor",
                                        "CUDAFunctor_add",
                                        "array<char*, 2",
                                        "array<char*, 0",
                                        "array<char*, 99",
                                        "gemv",
                                        "nvjet",
                                        "gemm",
                                        "sgemm",
                                        "hgemm",
                                        "dgemm",
                                        "s16816gemm",
                                        "s1688gemm",
                                        "xmma",
                                        "cutlass",
                                        "cutlass3x_sm90",
                                        "gmma",
                                        "tensorop",
                                        "scudnn",
                                        "wgrad",
                                        "fprop",
                                        "tf32",
                                        "ffma",
                                        "simt",
                                        "align8",
                                        "align1",
                                        "aligna4",
                                        "alignc16",
                                        "128x64",
                                        "128x128x32",
                                        "256x64_32x4",
                                        "64x64x16_stage3",
                                        "128x128_32x12",
                                        "8x8x1024_stage9",
                                        "300x20",
                                        "16x8x16",
                                        "_stage4",
                                        "reduce_kernel",
                                        "reduce_kernel<128, 4, ",
                                        "reduce_kernel<256, 2, ",
                                        "reduce_kernel<512, 1, ",
                                        "WelfordOps",
                                        "triton_red_",
                                        "triton_poi_",
                                        "loop_",
                                        "roll_cuda",
                                        "layer_norm_grad_input_kernel_vectorized",
                                        "LoadWithCast<",
                                        "gpu_kernel_impl<",
                                        "transpose",
                                        "memset",
                                        "_rms_norm_forward_kernel",
                                        "vectorized_layer_norm_kernel<c10::BFloat16, float, true>",
                                        "internalgradients",
                                        "cunn_SoftMaxForwardSmem",
                                        "fmha_cutlassF_f16_aligned_64x128_rf_sm80",
                                        "flex_attention",
                                        "cudnn attention",
                                        "_fwd_grouped_kernel_stage1",
                                        "backward",
                                        "_bwd",
                                        "bprop",
                                        "bfloat16",
                                        "half",
                                        "f16",
                                        "double",
                                        "float",
                                        "<long",
                                        "<bool",
                                        "unsigned char",
                                        "OpaqueType<2",
                                        "OpaqueType<3",
                                        "OpaqueType<16",
                                        "geluBackward",
                                        "gelu",
                                        "pow_",
                                        "pow_tensor_tensor",
                                        "erf_",
                                        "dropout",
                                        "fused_dropout",
                                        "silu",
                                        "tanh",
                                        "exp_kernel",
                                        "sin_kernel",
                                        "div_",
                                        "sqrt",
                                        "secret",
                                        "_",
                                        "::",
                                        "7",
                                        "x",
                                        ">",
                                        ", "};

static void assert_name(uint64_t *state)
{
    g_autoptr(GString) name = g_string_new(NULL), said = g_string_new("kernel12");
    for (uint64_t n = ech_test_draw(state) % 7; n-- > 0;)
        g_string_append(name, fragments[ech_test_draw(state) % G_N_ELEMENTS(fragments)]);
    ech_anonymize_kernel(name->str, said);
    EchGpuName a, b;
    ech_gpu_name(name->str, &a);
    ech_gpu_name(said->str, &b);
    ck_assert_msg(a.kind == b.kind && a.arithmetic == b.arithmetic && a.alignment == b.alignment && a.stages == b.stages && a.tile_m == b.tile_m &&
                      a.tile_n == b.tile_n && a.tile_k == b.tile_k && a.backward == b.backward && a.tf32 == b.tf32 && a.arrays == b.arrays &&
                      a.element_bytes == b.element_bytes && a.block_elements == b.block_elements && a.instructions == b.instructions && a.vector == b.vector &&
                      a.trips == b.trips && a.sums_rows == b.sums_rows && a.generated == b.generated && a.efficient == b.efficient &&
                      a.flexible == b.flexible && a.splits == b.splits && a.library == b.library && a.every == b.every && a.places == b.places &&
                      a.row_instructions == b.row_instructions,
                  "'%s' and '%s' do not say the same", name->str, said->str);
}

START_TEST(names_of_kernels)
{
    uint64_t state = ech_test_seed_of(_i);
    for (unsigned i = 0; i < 20000; i++)
        assert_name(&state);
}
END_TEST

static EchTrace *anonymous(const EchTrace *trace, const char *what)
{
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(GError) error = NULL;
    EchTrace *made = ech_anonymize(trace, diag, &error);
    ck_assert_msg(made != NULL, "%s: %s", what, error ? error->message : "");
    return made;
}

/* Every text that a trace can hold is one that nobody else would choose. */
START_TEST(nothing_is_told)
{
    g_autoptr(EchTraceBuilder) b = ech_trace_builder_new("kineto");
    EchId hbm = ech_trace_builder_memory(b, "hbm"), queue = ech_trace_builder_queue(b, "stream 7 of secret", ECH_QUEUE_COMPUTE, 0);
    EchId odd = ech_trace_builder_queue(b, "stream 7", ECH_QUEUE_COMPUTE, 0);
    EchId stack = ech_trace_builder_string(b,
                                           "/home/secret/secret.py:12:secret\nsecret::run\nsecret/model.py(7): secret\ncopy\n.py:\nx.py\n"
                                           "/secret/site-packages/torch/optim/adam.py:5:step\n/secret/site-packages/secret/a.py:6:empty_cache\n"
                                           "nn.Module: secret.3.secret_4 (Secret)\naten::mm\naten::mm of secret\n"
                                           "autograd::engine::evaluate_function: SecretBackward0\nsecret::emptyCache()",
                                           -1);
    /* What allocators did, steps and optimizers keep what they are known by; [1] is how. */
    static const char *const marks[][2] = {{"segment_start address=0x7f21 stream=0 type=large expandable=1 pool=3:0", NULL},
                                           {"oom device_free=20971520 reserved=24691867648 stream=0", NULL},
                                           {"segment_free address=0x7f21 stream=0 secret", "mark"},
                                           {"ProfilerStep#2", NULL},
                                           {"secret_step_12", "step"},
                                           {"Optimizer.step#Secret.step", "Optimizer.step#"}};
    EchBuffer buffer = ech_buffer_init();
    buffer.memory = hbm;
    buffer.bytes = 64;
    buffer.resident = 1;
    buffer.stack = stack;
    buffer.name = ech_trace_builder_string(b, "weights of secret", -1);
    buffer.pool = ech_trace_builder_string(b, "(0, 1) secret", -1);
    buffer.shape = ech_trace_builder_string(b, "secret[8]", -1);
    EchId made = ech_trace_builder_buffer(b, buffer);
    static const char *const names[] = {
        "secret_gemm_128x64_secret", "copy-start.4",    "weights of secret", "caf\xc3\xa9", "secret_memset", "cudaSecretGemm", "192.168.7.12",
        "cudaStreamWaitEvent",       "2031-05-17 08:41"};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        EchOp op = ech_op_init(ECH_OP_KERNEL);
        op.queue = i % 2 ? odd : queue;
        op.name = ech_trace_builder_string(b, names[i], -1);
        op.stack = stack;
        op.launch = ech_trace_builder_string(b, i % 2 ? "grid=4 secret=3" : "secret", -1);
        ech_trace_builder_op(b, op);
        ech_trace_builder_use(b, made, ECH_READ, 64, ECH_PATTERN_STREAM, ECH_KNOWN);
    }
    EchOp op = ech_op_init(ECH_OP_COLLECTIVE);
    op.queue = queue;
    op.collective = ECH_COLLECTIVE_ALL_REDUCE;
    op.memory_from = 8;
    op.launch = ech_trace_builder_string(b, "devices=8 stride=2 back secret=secret", -1);
    ech_trace_builder_op(b, op);
    for (size_t i = 0; i < G_N_ELEMENTS(marks); i++) {
        EchOp mark = ech_op_init(ECH_OP_MARK);
        mark.queue = odd;
        mark.name = ech_trace_builder_string(b, marks[i][0], -1);
        ech_trace_builder_op(b, mark);
    }
    static const char *const properties[][2] = {{"program", "jit_secret"},
                                                {"remark.0", "of secret"},
                                                {"host_name", "secret"},
                                                {"device.0.uuid", "secret"},
                                                {"records.secret", "4"},
                                                {"noted.sums", "secret"},
                                                {"secret", "4"},
                                                {"fetched_first", "secret_gemm_128x64_secret"},
                                                {"allocator_settings.PYTORCH_CUDA_ALLOC_CONF", "secret:True"},
                                                {"allocator", "secret_bfc"}};
    for (size_t i = 0; i < G_N_ELEMENTS(properties); i++)
        ech_trace_builder_set_property(b, properties[i][0], properties[i][1]);
    ech_trace_builder_set_property(b, "device.0.name", "NVIDIA H100 80GB HBM3");
    ech_trace_builder_set_property(b, "records.copy-start", "3");
    ech_trace_builder_set_property(b, "allocator_settings.PYTORCH_ALLOC_CONF", "max_split_size_mb:64");
    g_autoptr(GError) error = NULL;
    g_autoptr(EchTrace) trace = ech_trace_builder_finish(b, &error);
    ck_assert_ok(trace != NULL, error);
    g_autoptr(EchTrace) shared = anonymous(trace, "the secret");
    g_autoptr(GString) text = ech_trace_file_print(shared);
    g_autofree char *lower = g_ascii_strdown(text->str, -1);
    static const char *const told[] = {"secret", "home", "caf", "192.168", "2031"};
    for (size_t i = 0; i < G_N_ELEMENTS(told); i++)
        ck_assert_msg(!strstr(lower, told[i]), "%s: %s", told[i], text->str);
    /* What is equal stays equal, what all may know stays. */
    const EchOp *ops = ech_trace_ops(shared);
    ck_assert_uint_eq(ops[2].name, ech_trace_buffers(shared)[0].name);
    ck_assert_str_eq(ech_trace_string(shared, ops[0].name), "kernel1 gemm 128x64");
    ck_assert_str_eq(ech_trace_get_property(shared, "fetched_first"), "kernel1 gemm 128x64");
    ck_assert_str_eq(ech_trace_string(shared, ops[1].name), "copy-start.4");
    ck_assert_str_eq(ech_trace_string(shared, ops[1].launch), "grid=4x1x1");
    ck_assert_str_eq(ech_trace_string(shared, ops[7].name), "cudaStreamWaitEvent");
    ck_assert_str_eq(ech_trace_string(shared, ops[G_N_ELEMENTS(names)].launch), "devices=8 stride=2 back");
    for (size_t i = 0; i < G_N_ELEMENTS(marks); i++) {
        const char *name = ech_trace_string(shared, ops[G_N_ELEMENTS(names) + 1 + i].name);
        ck_assert_msg(marks[i][1] ? g_str_has_prefix(name, marks[i][1]) : strcmp(name, marks[i][0]) == 0, "%s: %s", marks[i][0], name);
        ck_assert_int_eq(g_str_has_suffix(name, "12"), i == 4);
    }
    ck_assert_str_eq(ech_trace_get_property(shared, "allocator_settings.PYTORCH_ALLOC_CONF"), "max_split_size_mb:64");
    ck_assert_str_eq(ech_trace_string(shared, ech_trace_queues(shared)[1].name), "stream 7");
    ck_assert_str_eq(ech_trace_string(shared, ops[0].stack),
                     "file1.py:12:function1\nframe13\nfile2.py(7): function1\ncopy\n.py:\nframe15\n"
                     "site-packages/torch/optim/adam.py:5:step\nsite-packages/file4.py:6:empty_cache\nnn.Module: module16.3.module16_4 (module17)\naten::mm\n"
                     "frame18\nautograd::engine::evaluate_function: node19\nframe20 emptyCache");
    ck_assert_str_eq(ech_trace_get_property(shared, "device.0.name"), "NVIDIA H100 80GB HBM3");
    ck_assert_str_eq(ech_trace_get_property(shared, "records.copy-start"), "3");
    ck_assert_ptr_null(ech_trace_get_property(shared, "noted.sums"));
}
END_TEST

static void assert_same_run(const EchTrace *a, const EchTrace *b, const EchDevice *device, const EchReplayOptions *options, const char *what)
{
    g_autoptr(GError) error = NULL, other = NULL;
    g_autoptr(EchRun) x = ech_replay_run(a, device, NULL, options, &error), y = ech_replay_run(b, device, NULL, options, &other);
    if (!x && !y && strcmp(error->message, other->message) == 0)
        return;
    ck_assert_msg(x && y, "%s: one alone replays: %s", what, error ? error->message : other ? other->message : "");
    ck_assert_msg(x->makespan == y->makespan && x->ops == y->ops && x->fits == y->fits && x->n_spans == y->n_spans && x->lower_bound == y->lower_bound &&
                      x->serial == y->serial && memcmp(x->waits, y->waits, sizeof x->waits) == 0,
                  "%s: another run", what);
    for (size_t i = 0; i < x->n_prices; i++)
        ck_assert_msg(x->prices[i].alone == y->prices[i].alone && x->prices[i].source == y->prices[i].source, "%s: op %zu costs otherwise", what, i);
    for (size_t i = 0; i < x->n_spans; i++)
        ck_assert_msg(x->spans[i].op == y->spans[i].op && x->spans[i].start == y->spans[i].start && x->spans[i].end == y->spans[i].end, "%s: span %zu", what,
                      i);
    for (size_t i = 0; i < x->n_memories; i++)
        ck_assert_msg(x->memories[i].peak_live == y->memories[i].peak_live && x->memories[i].peak_reserved == y->memories[i].peak_reserved, "%s: %s", what,
                      x->memories[i].name);
    for (size_t i = 0; i < x->n_queues; i++)
        ck_assert_msg(x->queues[i].busy == y->queues[i].busy, "%s: queue %zu", what, i);
}

static void assert_alike(const EchTrace *trace, const char *what)
{
    g_autoptr(EchTrace) shared = anonymous(trace, what), twice = anonymous(shared, what);
    g_autoptr(GString) once = ech_trace_file_print(shared), again = ech_trace_file_print(twice);
    ck_assert_msg(strcmp(once->str, again->str) == 0, "%s: changes when it is made anonymous again", what);
    /* What decides under which allocator, in which order and for which device it is replayed. */
    g_autofree char *spec = ech_alloc_recorded_spec(trace), *same = ech_alloc_recorded_spec(shared);
    ck_assert_msg(g_strcmp0(spec, same) == 0, "%s: recorded under %s, now %s", what, spec, same);
    static const char *const deciding[] = {"asked_one_by_one",
                                           "batch",
                                           "begin_reserved_bytes",
                                           "host_order",
                                           "inferred_stream_waits",
                                           "kernels_of_programs",
                                           "migrations_recorded",
                                           "pretended_device",
                                           "rank",
                                           "ranks",
                                           "reserved_never_grew",
                                           "sums_only",
                                           "stream_waits_told",
                                           "recorded_paged_in_bytes"};
    for (size_t i = 0; i < G_N_ELEMENTS(deciding); i++)
        ck_assert_msg(g_strcmp0(ech_trace_get_property(trace, deciding[i]), ech_trace_get_property(shared, deciding[i])) == 0, "%s: %s", what, deciding[i]);
    ck_assert_msg(!ech_trace_get_property(trace, "time_zero_ps") == !ech_trace_get_property(shared, "time_zero_ps"), "%s: is no capture now", what);
    for (EchId m = 0; m < ech_trace_n_memories(trace); m++) {
        g_autoptr(EchAllocStart) start = ech_alloc_start_of_trace(trace, m), then = ech_alloc_start_of_trace(shared, m);
        ck_assert_msg(!start == !then && (!start || (start->seeds->len == then->seeds->len && start->script->len == then->script->len &&
                                                     start->homeless == then->homeless && start->guessed == then->guessed)),
                      "%s: memory %u begins otherwise", what, m);
        g_autoptr(GArray) refused = ech_alloc_refusals(trace, m), again_refused = ech_alloc_refusals(shared, m);
        ck_assert_msg(refused->len == again_refused->len, "%s: memory %u refuses otherwise", what, m);
    }
    /* Where an operation has a time of its own recorded or estimated, models that read names are asked by another device. */
    static const char *const devices[] = {"h100-sxm", "tpu-v6e", "tpu-v5e"};
    for (size_t d = 0; d < G_N_ELEMENTS(devices); d++) {
        g_autoptr(EchDevice) device = ech_test_device(devices[d], NULL);
        static const EchKernelTime times[] = {ECH_KERNEL_TIME_AUTO, ECH_KERNEL_TIME_MODEL};
        for (size_t k = 0; k < (d == 0 ? 2 : 1); k++) {
            EchReplayOptions options = {0};
            ech_params_defaults(ech_replay_params, &options);
            options.engine = ECH_ENGINE_NATIVE;
            options.kernel_time = times[k];
            assert_same_run(trace, shared, device, &options, what);
            ech_params_clear(ech_replay_params, &options);
        }
    }
}

static EchTrace *lowered(EchImport *import)
{
    g_autoptr(GError) error = NULL;
    if (import->trace)
        return ech_trace_ref(import->trace);
    const char *name = import->program->chip ? import->program->chip : "h100-sxm";
    g_autoptr(EchDevice) device = ech_test_device(name, NULL), reference = ech_test_device(name, NULL);
    return ech_experiment_lower(import->program, device, &reference, ECH_KERNEL_TIME_AUTO, 1, import->diag, &error);
}

static size_t visit(const char *folder, goffset limit)
{
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    size_t n = 0;
    const char *name;
    while (dir && (name = g_dir_read_name(dir))) {
        g_autofree char *path = g_build_filename(folder, name, NULL);
        g_autoptr(GFile) file = g_file_new_for_path(path);
        g_autoptr(GFileInfo) info = g_file_query_info(file, "standard::size", G_FILE_QUERY_INFO_NONE, NULL, NULL);
        if (!info || g_file_info_get_size(info) > limit)
            continue;
        g_autoptr(EchImport) import = ech_import_file(path, NULL, NULL, NULL);
        g_autoptr(EchTrace) trace = import ? lowered(import) : NULL;
        if (!trace)
            continue;
        assert_alike(trace, path);
        n++;
    }
    return n;
}

START_TEST(our_traces)
{
    ck_assert_uint_gt(visit(ECH_SOURCE_DIR "/traces", G_MAXINT64), 20);
}
END_TEST

START_TEST(our_corpora)
{
    static const char *const formats[] = {
        "kineto",          "nsys",           "rocpd",       "chakra",     "memory_snapshot", "xplane",        "xplane_json",
        "cupti",           "pretend",        "pretend_tpu", "pytorch_et", "trace_file",      "out_of_memory", "memory_usage_report",
        "memory_timeline", "memory_profile", "hlo_text",    "program",    "rocprof_json",    "rocprof_csv"};
    size_t n = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(formats); i++) {
        g_autofree char *folder = g_build_filename(ECH_SOURCE_DIR "/tests/fuzz/corpus", formats[i], NULL);
        n += visit(folder, G_MAXINT64);
    }
    ck_assert_uint_gt(n, 40);
}
END_TEST

START_TEST(captured_files)
{
    static const char *const folders[] = {"kineto", "nsys_sqlite", "xplane", "memory_snapshot"};
    g_autofree char *folder = g_build_filename(ECH_SHARED, "traces", folders[_i], NULL);
    if (ech_test_lacks(folder))
        return;
    ck_assert_uint_gt(visit(folder, 1 << 20), 0);
}
END_TEST

int main(void)
{
    ech_test_print_seed();
    Suite *suite = suite_create("anonymous traces");
    TCase *cases = tcase_create("anonymize");
    tcase_add_loop_test(cases, names_of_kernels, 0, 4);
    tcase_add_test(cases, nothing_is_told);
    tcase_add_test(cases, our_traces);
    tcase_add_test(cases, our_corpora);
    tcase_add_loop_test(cases, captured_files, 0, 4);
    suite_add_tcase(suite, cases);
    return ech_test_main(suite);
}
