/* What a program asked of a GPU that was not there: hand-made files. */
#include "sim/experiment/alloc_study.h"
#include "sim/import/alloc_events.h"
#include "sim/import/anonymize.h"
#include "sim/import/arrays.h"
#include "sim/base/error.h"
#include "sim/import/import.h"
#include "models/kernel/gpu.h"
#include "sim/replay/replay.h"
#include "sim/report/report.h"
#include "sim/trace/select.h"
#include "sim/trace/step.h"
#include "tests/support/support.h"

#include <check.h>
#include <math.h>
#include <string.h>

#define HEAD "echelon-pretend 1\nclock 1790000000000000000\ndevice 84942979072 536870912 1 \"h100-sxm\"\n"
#define ADD                                                                                                                                                    \
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>, false>(int, "                               \
    "at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
#define DEMANGLED "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>, false>("

static EchImport *read_text(const char *text, GError **error)
{
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)text, strlen(text), NULL);
    return ech_import_source(source, NULL, NULL, error);
}

static EchImport *must_read(const char *text)
{
    g_autoptr(GError) error = NULL;
    EchImport *import = read_text(text, &error);
    ck_assert_msg(import != NULL, "%s", error ? error->message : "?");
    ck_assert_str_eq(import->format, "pretend");
    return import;
}

static void must_fail(const char *text, const char *says)
{
    g_autoptr(GError) error = NULL;
    EchImport *import = read_text(text, &error);
    ck_assert_msg(import == NULL, "read: %s", text);
    ck_assert_msg(strstr(error->message, says) != NULL, "%s", error->message);
}

static EchBytes moved(const EchTrace *t, const EchOp *op, EchAccess access)
{
    EchBytes bytes = 0;
    for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++)
        if (ech_trace_uses(t)[u].access == access)
            bytes += ech_trace_uses(t)[u].bytes;
    return bytes;
}

static bool depends(const EchTrace *t, const EchOp *op, const EchOp *on)
{
    for (uint32_t d = op->first_dep; d < op->first_dep + op->n_deps; d++)
        if (&ech_trace_ops(t)[ech_trace_deps(t)[d].op] == on)
            return true;
    return false;
}

static const EchOp *nth(const EchTrace *t, EchOpKind kind, size_t n)
{
    for (size_t i = 0; i < ech_trace_n_ops(t); i++)
        if (ech_trace_ops(t)[i].kind == kind && n-- == 0)
            return &ech_trace_ops(t)[i];
    ck_abort_msg("no such op");
    return NULL;
}

static EchRun *must_run(const EchTrace *trace, const EchDevice *device, bool host)
{
    EchReplayOptions options = {0};
    ech_params_defaults(ech_replay_params, &options);
    options.engine = ECH_ENGINE_NATIVE;
    options.host_launches = host;
    g_autoptr(GError) error = NULL;
    EchRun *run = ech_replay_run(trace, device, NULL, &options, &error);
    ck_assert_msg(run != NULL, "%s", error ? error->message : "?");
    ech_params_clear(ech_replay_params, &options);
    return run;
}

/* A function of autograd that is written in Python is no operator, and says no types: its kernel in Triton moves what its arrays hold, here of 16 bits. What
 * PyTorch's own operator of such a shape would do is by 32. */
START_TEST(functions_of_python_move_their_arrays)
{
    static const char *const ranges[] = {"LigerRMSNormFunction, seq = 0, sizes = [[2048, 1024], [1024], [], []]",
                                         "aten::rms_norm, sizes = [[2048, 1024], [1024]]"};
    for (size_t i = 0; i < G_N_ELEMENTS(ranges); i++) {
        g_autofree char *text = g_strdup_printf(HEAD "name 1 \"_rms_norm_forward_kernel\"\nname 2 \"%s\"\n"
                                                     "alloc 0 0 0 4096 4194304 3 0\nalloc 0 0 0 8388608 2048 3 0\n"
                                                     "alloc 1 0 0 16777216 4194304 3 0\npush 1 9 2\nkernel 5 0 0 1 2048 1 1 128 1 1 16\n"
                                                     "args 0 16777216 2 4096 4 8388608\npop 9 9\nend\n",
                                                ranges[i]);
        g_autoptr(EchImport) import = must_read(text);
        const EchOp *kernel = nth(import->trace, ECH_OP_KERNEL, 0);
        EchBytes both = moved(import->trace, kernel, ECH_READ) + moved(import->trace, kernel, ECH_WRITE);
        ck_assert_uint_eq(both, i == 0 ? 2 * 4194304 + 2048 : 4 * 4194304 + 4096);
    }
}
END_TEST

START_TEST(kernels_by_ranges_and_grids)
{
    g_autoptr(EchImport) import = must_read(HEAD "name 1 \"" ADD "\"\n"
                                                 "name 2 \"aten::add, seq = 5, op_id = 12, sizes = [[1000, 768], [1000, 768], []], input_op_ids = [(1,0)]\"\n"
                                                 "name 3 \"Model\"\n"
                                                 "push 1 9 3\npush 2 9 2\n"
                                                 "kernel 10 0 0 1 1500 1 1 128 1 1 0\n"
                                                 "pop 20 9\npop 30 9\n"
                                                 "kernel 40 0 0 1 750 1 1 128 1 1 0\n"
                                                 "end\n");
    const EchTrace *t = import->trace;
    const EchOp *first = nth(t, ECH_OP_KERNEL, 0), *second = nth(t, ECH_OP_KERNEL, 1);
    ck_assert_msg(g_str_has_prefix(ech_trace_string(t, first->name), DEMANGLED), "%s", ech_trace_string(t, first->name));
    /* Shapes: two arrays of 1000 x 768 floats read, one written. */
    ck_assert_uint_eq(moved(t, first, ECH_READ), 2 * 1000 * 768 * 4);
    ck_assert_uint_eq(moved(t, first, ECH_WRITE), 1000 * 768 * 4);
    ck_assert_str_eq(ech_trace_string(t, first->stack), "aten::add\nModel");
    /* No range: 750 blocks of 128 threads of 8, as PyTorch's have since 2.7. */
    ck_assert_uint_eq(moved(t, second, ECH_READ), 2 * 750 * 1024 * 4);
    ck_assert_uint_eq(second->stack, ECH_NONE);
    /* Nothing was measured. */
    ck_assert(first->recorded.start == ECH_TIME_NONE && first->recorded.duration == ECH_TIME_NONE);
    ck_assert_str_eq(ech_trace_get_property(t, "pretended_device"), "h100-sxm");
}
END_TEST

START_TEST(backward_is_of_the_module_whose_forward_made_it)
{
    g_autoptr(EchImport) import = must_read(HEAD "name 1 \"" ADD "\"\n"
                                                 "name 2 \"nn.Module: layers.3.mlp (MLP)\"\n"
                                                 "name 3 \"aten::add, seq = 5, sizes = [[4], [4], []]\"\n"
                                                 "name 4 \"autograd::engine::evaluate_function: AddBackward0\"\n"
                                                 "name 5 \"AddBackward0, seq = 5, sizes = [[4]]\"\n"
                                                 "name 6 \"AddBackward0, seq = 6, sizes = [[4]]\"\n"
                                                 "push 10 1 2\npush 11 1 3\nkernel 12 0 0 1 1 1 1 32 1 1 0\npop 13 1\npop 14 1\n"
                                                 "push 20 2 4\npush 21 2 5\nkernel 22 0 0 1 1 1 1 32 1 1 0\npop 23 2\npop 24 2\n"
                                                 "push 30 2 4\npush 31 2 6\nkernel 32 0 0 1 1 1 1 32 1 1 0\npop 33 2\npop 34 2\nend\n");
    const EchTrace *t = import->trace;
    ck_assert_str_eq(ech_trace_string(t, nth(t, ECH_OP_KERNEL, 0)->stack), "aten::add\nnn.Module: layers.3.mlp (MLP)");
    ck_assert_str_eq(ech_trace_string(t, nth(t, ECH_OP_KERNEL, 1)->stack),
                     "AddBackward0\nautograd::engine::evaluate_function: AddBackward0\nnn.Module: layers.3.mlp (MLP)");
    ck_assert_str_eq(ech_trace_string(t, nth(t, ECH_OP_KERNEL, 2)->stack), "AddBackward0\nautograd::engine::evaluate_function: AddBackward0");
}
END_TEST

/* Modules of what was compiled, from the module on that is called, or from none: forward, backward, made again there, and a root of its own. */
START_TEST(compiled_graphs_tell_modules)
{
#define RUNS "autograd::engine::evaluate_function: CompiledFunctionBackward"
    static const struct {
        const char *forward, *backward, *again, *root;
    } told[] = {
        {"nn.Module: layers.3.mlp (MLP)\nnn.Module: layers.3 (Block)\nCompiledFunction\nnn.Module: layers.3 (Block)\nnn.Module: GPT",
         RUNS "\nnn.Module: layers.3.mlp (MLP)\nnn.Module: layers.3 (Block)\nnn.Module: layers.3 (Block)\nnn.Module: GPT",
         "nn.Module: layers.3.mlp (MLP)\nCompiledFunctionBackward\n" RUNS "\nnn.Module: layers.3 (Block)\nnn.Module: GPT",
         "nn.Module: layers.3 (Block)\nCompiledFunction\nnn.Module: layers.3 (Block)\nnn.Module: GPT"},
        {"nn.Module: mlp (MLP)\nnn.Module: Block\nCompiledFunction", RUNS "\nnn.Module: mlp (MLP)\nnn.Module: Block",
         "nn.Module: mlp (MLP)\nCompiledFunctionBackward\n" RUNS, "nn.Module: Block\nCompiledFunction"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(told); i++) {
        g_autofree char *text =
            g_strdup_printf(HEAD "name 1 \"" ADD "\"\nname 2 \"nn.Module: GPT\"\nname 3 \"nn.Module: layers.3 (Block)\"\n"
                                 "name 4 \"CompiledFunction, seq = 5\"\nname 5 \"nn.Module below: Block\"\nname 6 \"nn.Module below: mlp (MLP)\"\n"
                                 "name 7 \"" RUNS "\"\nname 8 \"CompiledFunctionBackward, seq = 5\"\n"
                                 "name 9 \"backward of nn.Module below: Block\"\nname 10 \"backward of nn.Module below: mlp (MLP)\"\n"
                                 "%spush 12 1 4\n"
                                 "push 13 1 5\npush 14 1 6\nkernel 15 0 0 1 1 1 1 32 1 1 0\npop 16 1\nkernel 17 0 0 1 1 1 1 32 1 1 0\npop 18 1\n"
                                 "pop 19 1\n%spush 30 2 7\npush 31 2 8\n"
                                 "push 32 2 9\npush 33 2 10\nkernel 34 0 0 1 1 1 1 32 1 1 0\npop 35 2\npop 36 2\n"
                                 "push 37 2 6\nkernel 38 0 0 1 1 1 1 32 1 1 0\npop 39 2\npop 40 2\npop 41 2\n"
                                 "push 50 3 10\nkernel 51 0 0 1 1 1 1 32 1 1 0\npop 52 3\nend\n",
                            i == 0 ? "push 10 1 2\npush 11 1 3\n" : "", i == 0 ? "pop 20 1\npop 21 1\n" : "");
        g_autoptr(EchImport) import = must_read(text);
        const EchTrace *t = import->trace;
        ck_assert_str_eq(ech_trace_string(t, nth(t, ECH_OP_KERNEL, 0)->stack), told[i].forward);
        ck_assert_str_eq(ech_trace_string(t, nth(t, ECH_OP_KERNEL, 1)->stack), told[i].root);
        ck_assert_str_eq(ech_trace_string(t, nth(t, ECH_OP_KERNEL, 2)->stack), told[i].backward);
        ck_assert_str_eq(ech_trace_string(t, nth(t, ECH_OP_KERNEL, 3)->stack), told[i].again);
        /* A backward pass without autograd's ranges. */
        ck_assert_str_eq(ech_trace_string(t, nth(t, ECH_OP_KERNEL, 4)->stack), RUNS "\nnn.Module: mlp (MLP)");
    }
#undef RUNS
}
END_TEST

START_TEST(library_calls)
{
    g_autoptr(EchImport) import =
        must_read(HEAD "name 1 \"cublasLtMatmul\"\nname 2 \"product=1x8192x2304x768 operand_bytes=2 class=product\"\nname 3 \"bf16\"\n"
                       "library 5 0 0 1 2 16121856 37748736 28991029248 3\nend\n");
    const EchTrace *t = import->trace;
    const EchOp *op = nth(t, ECH_OP_KERNEL, 0);
    ck_assert_str_eq(ech_trace_string(t, op->name), "cublasLtMatmul");
    ck_assert_str_eq(ech_trace_string(t, op->launch), "product=1x8192x2304x768 operand_bytes=2 class=product");
    ck_assert_uint_eq(moved(t, op, ECH_READ), 16121856);
    ck_assert_uint_eq(op->n_work, 1);
    ck_assert_uint_eq(ech_trace_work(t)[op->first_work].count, 28991029248);
    ck_assert_int_eq(ech_trace_work(t)[op->first_work].unit, ECH_WORK_MATRIX);
    ck_assert_int_eq(ech_trace_work(t)[op->first_work].dtype, ECH_DTYPE_BF16);
}
END_TEST

/* One call of a library may be of several classes: a product with a vector is none of the products with matrices, and what the times rest on is told of each.
 */
START_TEST(calls_of_several_classes)
{
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", NULL);
    g_autoptr(EchImport) import = must_read(HEAD "name 1 \"cublasLtMatmul\"\nname 2 \"product=1x1x2304x768 operand_bytes=2 class=vector\"\nname 3 \"bf16\"\n"
                                                 "name 4 \"product=1x8192x2304x768 operand_bytes=2 class=product\"\n"
                                                 "library 5 0 0 1 2 3540480 4608 3538944 3\nlibrary 6 0 0 1 4 16121856 37748736 28991029248 3\n"
                                                 "library 7 0 0 1 2 3540480 4608 3538944 3\nend\n");
    g_autoptr(EchRun) run = must_run(import->trace, device, false);
    const EchReport report = {.title = "t", .trace = import->trace, .device = device, .run = run};
    size_t n;
    g_autofree EchNameTime *times = ech_report_longest(&report, 16, &n);
    ck_assert_uint_eq(n, 2);
    ck_assert_str_eq(times[0].name, "cublasLtMatmul");
    ck_assert_str_eq(times[1].name, "cublasLtMatmul");
    ck_assert_uint_eq(times[0].kernel_class, ECH_GPU_PRODUCT);
    ck_assert_uint_eq(times[0].count, 1);
    ck_assert_uint_ne(times[1].kernel_class, ECH_GPU_PRODUCT);
    ck_assert_uint_eq(times[1].count, 2);
    ck_assert_int_eq(times[0].time + times[1].time + 2 * run->kernel_gap, run->serial);
    EchBasis basis;
    ck_assert(ech_report_basis(&report, &basis));
    ck_assert_int_eq(basis.model[ECH_GPU_HELD], times[0].time);
    ck_assert_int_eq(basis.all, ech_time_add(times[0].time, times[1].time));
}
END_TEST

/* A rank's process asks for one device of its host's eight: here it is device 0, whatever a wait before was of. */
START_TEST(the_only_device)
{
    g_autoptr(EchImport) import =
        must_read("echelon-pretend 1\nclock 1790000000000000000\ndevice 84942979072 536870912 8 \"h100-sxm\"\nname 1 \"all-reduce\"\nsync 5 4 0 0 0\n"
                  "host 8 5 1 1048576 1048576\nalloc 10 5 0 4096 1048576 3 0\nset 20 5 7 1024\ncollective 30 5 7 1 1024 2 8\nsync 40 4 5 0 0\nend\n");
    const EchTrace *t = import->trace;
    const EchOp *collective = nth(t, ECH_OP_COLLECTIVE, 0), *alloc = nth(t, ECH_OP_ALLOC, 0);
    ck_assert_uint_eq(ech_trace_queues(t)[collective->queue].device, 0);
    ck_assert_str_eq(ech_trace_memory(t, ech_trace_buffers(t)[alloc->target].memory), "hbm");
    size_t n;
    g_autofree uint32_t *devices = ech_trace_devices(t, &n); /* what its host did before is that device's, too */
    ck_assert_uint_eq(n, 1);
    ck_assert_uint_eq(devices[0], 0);
}
END_TEST

/* FlexAttention: two products for every score that is told forward, seven backward, of heads of which keys have fewer. Where none is told its arrays' bytes
 * count, which is said; sums before a gradient are no attention. PyTorch's own range of a kernel says its sizes again. */
START_TEST(flexible_attention)
{
    g_autoptr(EchImport) import = must_read(
        HEAD
        "name 1 \"triton_tem_fused_flex_attention_0, sizes = [[2, 8, 4096, 64], [2, 2, 4096, 64], [2, 2, 4096, 128], []], types = [bf16, bf16, bf16, -]\"\n"
        "name 2 \"triton_tem_fused_flex_attention_0, sizes = [[2, 8, 4096, 64], [2, 2, 4096, 64], [2, 2, 4096, 128], []]\"\n"
        "name 3 \"triton_tem_fused_flex_attention_0\"\n"
        "name 4 \"triton_tem_fused_flex_attention_backward_transpose_view_9, sizes = [[2, 8, 4096, 64], [2, 2, 4096, 64], [2, 2, 4096, 128], []], types = "
        "[bf16, "
        "bf16, bf16, -]\"\n"
        "name 5 \"triton_tem_fused_flex_attention_backward_transpose_view_9\"\n"
        "name 6 \"triton_per_fused_flex_attention_backward_0\"\n"
        "push 1 9 1\npush 2 9 2\nlengths 2 8192 8192 4096 3047424\nkernel 5 0 0 3 32 2 8 128 1 1 0\npop 9 9\npop 9 9\n"
        "push 10 9 4\nlengths 2 8192 8192 4096 3047424\nkernel 15 0 0 5 40 2 2 128 1 1 0\npop 19 9\n"
        "kernel 20 0 0 6 512 1 1 128 1 1 0\npush 30 9 1\nkernel 35 0 0 3 32 2 8 128 1 1 0\npop 39 9\nend\n");
    EchBytes queries = 2u * 8 * 4096 * 64 * 2, results = 2 * queries, keys = 2u * 2 * 4096 * (64 + 128) * 2;
    const EchOp *forward = nth(import->trace, ECH_OP_KERNEL, 0), *backward = nth(import->trace, ECH_OP_KERNEL, 1),
                *untold = nth(import->trace, ECH_OP_KERNEL, 3);
    ck_assert_uint_eq(ech_trace_work(import->trace)[forward->first_work].count, UINT64_C(2) * 3047424 * 8 * (64 + 128));
    ck_assert_uint_eq(ech_trace_work(import->trace)[backward->first_work].count, UINT64_C(2) * 3047424 * 8 * (4 * 64 + 3 * 128));
    ck_assert_uint_eq(untold->n_work, 0);
    ck_assert_uint_eq(moved(import->trace, forward, ECH_READ), queries + keys);
    ck_assert_uint_eq(moved(import->trace, forward, ECH_WRITE), results);
    ck_assert_uint_eq(moved(import->trace, backward, ECH_READ), queries + results + keys);
    ck_assert_uint_eq(moved(import->trace, backward, ECH_WRITE), queries + keys);
    ck_assert_uint_eq(ech_diag_count(import->diag, "kernels_of_unknown_masks"), 1);
    ck_assert(ech_test_says(import->diag, "is not known for 1 of its kernels in the whole capture: they count for the bytes of their arrays alone"));
}
END_TEST

/* FBGEMM's tables, 8 of a million rows of 128: of them only what is picked is read, and changed by the optimizer's step. Its operators say within others of
 * theirs what they are given, without types and numbers. */
START_TEST(tables_of_embeddings)
{
    g_autoptr(EchImport) import = must_read(
        HEAD "name 1 \"fbgemm::split_embedding_codegen_forward_unweighted_pt2_wrapper, sizes = [[], [1024000000], [0], [0, 0], [8], [8], [9], [], [], [9], "
             "[1310720], "
             "[65537], [], []], types = [-, f32, f32, f32, s32, s64, s32, 1024, 128, s64, s64, s64, 0, -]\"\n"
             "name 2 \"fbgemm::split_embedding_codegen_forward_unweighted_cuda, sizes = [[1024000000], [0], [0, 0], [8], [8], [9], [], [], [1310720], [65537], "
             "[], []]\"\n"
             "name 3 \"void split_embedding_codegen_forward_unweighted_kernel<float, float, float, false, long, 1ul, 32ul>(x)\"\n"
             "name 4 \"fbgemm::split_embedding_backward_codegen_rowwise_adagrad_unweighted_pt2_wrapper, sizes = [[8192, 1024], [], [9], [], [], [9], [], "
             "[1310720], [65537], "
             "[], [8000000], []], types = [f32, -, s32, 128, 0, s64, 23, s64, s64, -, f32, -]\"\n"
             "name 5 \"void split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel_warp_per_row_1<float, float, float, long, 1, 32, false>(x)\"\n"
             "push 1 9 1\npush 2 9 2\nkernel 3 0 0 3 4096 1 1 32 16 1 0\npop 4 9\npop 5 9\npush 6 9 4\nkernel 7 0 0 5 8448 1 1 32 16 1 0\npop 8 9\nend\n");
    const EchOp *lookup = nth(import->trace, ECH_OP_KERNEL, 0), *step = nth(import->trace, ECH_OP_KERNEL, 1);
    const EchBytes rows = 1310720u * 512u, results = 8192u * 1024 * 4;
    ck_assert_uint_eq(moved(import->trace, lookup, ECH_READ), rows + (1310720 + 65537) * 8);
    ck_assert_uint_eq(moved(import->trace, lookup, ECH_WRITE), results);
    ck_assert_uint_eq(moved(import->trace, step, ECH_READ), rows + results + 1310720 * 8);
    ck_assert_uint_eq(moved(import->trace, step, ECH_WRITE), rows);
}
END_TEST

/* Kernels whose own code was looked at: what they use is all that they move, whatever their names and the sizes of their arrays say, and they compute what is
 * said, by unit and type. */
START_TEST(told_by_code)
{
    g_autoptr(EchImport) import =
        must_read(HEAD "name 1 \"softmax_forward_kernel5(float*)\"\nname 2 \"bf16\"\nname 3 \"\"\nalloc 1 0 0 1099511627776 1073741824 3 0\n"
                       "kernel 2 0 0 1 64 1 1 128 1 1 0\nuses 1 1099511627776 4096 1 1099512676352 512 2 1099513724928 8192\nlanes 777 5 0\n"
                       "kernel 3 0 0 1 64 1 1 128 1 1 0\nuses 1 1099511627776 64\nproducts 3 4096 2\nlanes 0 0 900\ncode 300 400 500 6000 70 8 32 1024\nunits "
                       "11 12 13 1\natomics 90 80\nkernel "
                       "4 0 0 1 1 1 1 1 1 1 0\nargs\nlanes 0 9 0\nend\n");
    static const struct {
        EchBytes read, write;
        size_t n;
        uint64_t operations[2];
        EchWorkUnit units[2];
        EchDtype dtypes[2];
    } expected[] = {{4608, 8192, 2, {777, 5}, {ECH_WORK_VECTOR, ECH_WORK_VECTOR}, {ECH_DTYPE_F32, ECH_DTYPE_F64}},
                    {64, 0, 1, {4096}, {ECH_WORK_MATRIX}, {ECH_DTYPE_BF16}},
                    {0, 0, 1, {9}, {ECH_WORK_VECTOR}, {ECH_DTYPE_F64}}};
    for (size_t i = 0; i < G_N_ELEMENTS(expected); i++) {
        const EchOp *op = nth(import->trace, ECH_OP_KERNEL, i);
        ck_assert_uint_eq(moved(import->trace, op, ECH_READ), expected[i].read);
        ck_assert_uint_eq(moved(import->trace, op, ECH_WRITE), expected[i].write);
        ck_assert_uint_eq(op->n_work, expected[i].n);
        for (size_t k = 0; k < expected[i].n; k++) {
            const EchWork *work = &ech_trace_work(import->trace)[op->first_work + k];
            ck_assert_uint_eq(work->count, expected[i].operations[k]);
            ck_assert_int_eq(work->unit, expected[i].units[k]);
            ck_assert_int_eq(work->dtype, expected[i].dtypes[k]);
        }
    }
    ck_assert_uint_eq(ech_diag_count(import->diag, "kernels_told_by_their_code"), 3);
    ck_assert_str_eq(ech_trace_string(import->trace, nth(import->trace, ECH_OP_KERNEL, 0)->launch), "grid=64x1x1 block=128x1x1");
    ck_assert_str_eq(ech_trace_string(import->trace, nth(import->trace, ECH_OP_KERNEL, 1)->launch),
                     "grid=64x1x1 block=128x1x1 shared=1024 registers=32 arithmetic=wgmma issued=900 access=300x400 fetched=500 path=6000x70 barriers=8 "
                     "units=11x12x13 atomics=90x80 near=64x64x64x64x64x64"); /* read by the one before */
    /* More bytes than the array has are no less operations. */
    g_autoptr(EchImport) beyond = must_read(HEAD "name 1 \"k(float*)\"\nalloc 1 0 0 1099511627776 4096 3 0\n"
                                                 "kernel 2 0 0 1 64 1 1 128 1 1 0\nuses 1 1099511627776 8192\nlanes 800 0 5\nend\n");
    const EchOp *all = nth(beyond->trace, ECH_OP_KERNEL, 0);
    ck_assert_uint_eq(moved(beyond->trace, all, ECH_READ), 4096);
    ck_assert_uint_eq(ech_trace_work(beyond->trace)[all->first_work].count, 800);
    must_fail(HEAD "lanes 1 2 3\nend\n", "lanes of no kernel; expected its launch before");
    must_fail(HEAD "name 1 \"a\"\nkernel 1 0 0 1 8 1 1 128 1 1 0\ncode 1 2 3 4 5 6 7 8\nend\n", "code of no kernel; expected its lanes before");
    must_fail(HEAD "name 1 \"a\"\nkernel 1 0 0 1 8 1 1 128 1 1 0\nunits 1 2 3 0\nend\n", "units of no kernel; expected its lanes before");
    must_fail(HEAD "name 1 \"a\"\nkernel 1 0 0 1 8 1 1 128 1 1 0\natomics 1 2\nend\n", "atomics of no kernel; expected its lanes before");
    must_fail(HEAD "name 1 \"a\"\nkernel 1 0 0 1 8 1 1 128 1 1 0\nlanes 4 5\nend\n", ":6: ");
}
END_TEST

/* The captured @rounds of as many kernels each, up to a wait of the host. */
static EchImport *rounds(const unsigned *kernels, size_t n, const char *before)
{
    g_autoptr(GString) text = g_string_new(HEAD "name 1 \"one\"\nname 2 \"other\"\n");
    g_string_append(text, before);
    for (size_t i = 0; i < n; i++) {
        g_string_append_printf(text, "copy %zu 0 0 4096 2 3 1\n", 100 * i);
        for (unsigned k = 0; k < kernels[i]; k++)
            g_string_append_printf(text, "kernel %zu 0 0 %d 64 1 1 128 1 1 0\n", 100 * i + k, k == 3 ? 2 : 1);
        g_string_append_printf(text, "sync %zu 4 0 0 0\nsync %zu 4 0 0 0\n", 100 * i + 99, 100 * i + 99);
    }
    g_string_append(text, "end\n");
    return must_read(text->str);
}

/* What compiled code asks for again and again between waits of its host are steps; not what it asks for twice, nor where something is named. */
START_TEST(rounds_are_steps)
{
    static const unsigned tokens[] = {2, 40, 20, 20, 20, 3}, twice[] = {40, 20, 20, 21}, few[] = {7, 7, 7, 7};
    static const struct {
        const unsigned *kernels;
        size_t n;
        const char *before;
        size_t steps;
    } cases[] = {{tokens, G_N_ELEMENTS(tokens), "", 4},
                 {twice, G_N_ELEMENTS(twice), "", 0},
                 {few, G_N_ELEMENTS(few), "", 0},
                 {tokens, G_N_ELEMENTS(tokens), "name 3 \"load\"\nmark 0 0 3\n", 0},
                 {tokens, G_N_ELEMENTS(tokens), "name 3 \"aten::add\"\n", 0}};
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(EchImport) import = rounds(cases[i].kernels, cases[i].n, cases[i].before);
        size_t n;
        g_autofree EchTraceStep *steps = ech_trace_steps(import->trace, &n);
        ck_assert_msg(n == cases[i].steps, "%zu: %zu steps", i, n);
    }
}
END_TEST

/* What kernels of a program's own multiply, where their tiles tell it: one product has its shape, with the grid it was launched with; several have operations
 * alone. An operator that is a product itself knows better, and what goes before is no kernel's. */
START_TEST(told_products)
{
    g_autoptr(EchImport) import =
        must_read(HEAD "name 1 \"mine\"\nname 2 \"bf16\"\nname 3 \"product=1x1024x512x256 operand_bytes=2 class=product tile=128x128x64 stages=3\"\nname 4 "
                       "\"\"\nname 5 \"f16\"\n"
                       "name 6 \"aten::mm, sizes = [[64, 32], [32, 16]]\"\nname 7 \"class=attention head=64\"\n"
                       "kernel 1 0 0 1 32 1 1 256 1 1 98304\nproducts 3 268435456 2\nkernel 2 0 0 1 8 1 1 128 1 1 0\nproducts 4 4096 5\n"
                       "push 3 9 6\nkernel 4 0 0 1 8 1 1 128 1 1 0\nproducts 4 4096 5\npop 5 9\n"
                       "kernel 6 0 0 1 32 4 1 128 1 1 0\nproducts 7 8192 2\nkernel 7 0 0 1 8 1 1 128 1 1 0\nend\n");
    static const struct {
        uint64_t operations;
        EchDtype dtype;
        const char *launch;
    } expected[] = {
        {268435456, ECH_DTYPE_BF16, "grid=32x1x1 block=256x1x1 shared=98304 product=1x1024x512x256 operand_bytes=2 class=product tile=128x128x64 stages=3"},
        {4096, ECH_DTYPE_F16, "grid=8x1x1 block=128x1x1"},
        {2 * 64 * 32 * 16, ECH_DTYPE_F32, "grid=8x1x1 block=128x1x1 product=1x64x16x32 operand_bytes=4 operators=1"},
        {8192, ECH_DTYPE_BF16, "grid=32x4x1 block=128x1x1 class=attention head=64"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(expected); i++) {
        const EchOp *op = nth(import->trace, ECH_OP_KERNEL, i);
        ck_assert_uint_eq(op->n_work, 1);
        const EchWork *work = &ech_trace_work(import->trace)[op->first_work];
        ck_assert_uint_eq(work->count, expected[i].operations);
        ck_assert_int_eq(work->unit, ECH_WORK_MATRIX);
        ck_assert_int_eq(work->dtype, expected[i].dtype);
        ck_assert_str_eq(ech_trace_string(import->trace, op->launch), expected[i].launch);
    }
    ck_assert_uint_eq(nth(import->trace, ECH_OP_KERNEL, 4)->n_work, 0);
    ck_assert_uint_eq(ech_diag_count(import->diag, "kernels_of_told_products"), 3);
    must_fail(HEAD "name 1 \"\"\nname 2 \"f16\"\nproducts 1 4096 2\nend\n", ":6: products of no kernel; expected its launch before");
    must_fail(HEAD "name 1 \"a\"\nkernel 1 0 0 1 8 1 1 128 1 1 0\nproducts 1 4096 2\nend\n", ":6: ");
    must_fail(HEAD "name 1 \"a\"\nkernel 1 0 0 1 8 1 1 128 1 1 0\nproducts 1 4096\nend\n", ":6: ");
}
END_TEST

/* A copy whose neighbours lie apart: each takes a sector of L2's for itself, so that it takes longer than one whose bytes alone count. */
START_TEST(told_sectors)
{
    static const char copies[] =
        "name 1 \"void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda(x)>>(int, x)\"\n"
        "name 2 \"aten::copy_, sizes = [[8192, 8192], [8192, 8192], []]\"\n"
        "push 3 9 2\nkernel 1 0 0 1 131072 1 1 128 1 1 0\n%spop 5 9\nend\n";
    g_autofree char *straight = g_strdup_printf(copies, ""), *turned = g_strdup_printf(copies, "sectors 34\naxes 2\n");
    EchTime times[2];
    for (int i = 0; i < 2; i++) {
        g_autofree char *text = g_strconcat(HEAD, i ? turned : straight, NULL);
        g_autoptr(EchImport) import = must_read(text);
        g_autoptr(GError) error = NULL;
        g_autoptr(EchDevice) device = ech_device_load("h100-sxm", NULL, &error);
        ck_assert_ok(device != NULL, error);
        EchGpuKernel kernel = {.read = 128 << 20, .written = 128 << 20};
        const EchOp *op = nth(import->trace, ECH_OP_KERNEL, 0);
        ech_gpu_name(ech_trace_string(import->trace, op->name), &kernel.name);
        ck_assert(ech_gpu_launch_parse(ech_trace_string(import->trace, op->launch), &kernel.launch));
        ck_assert_uint_eq(kernel.launch.sectors, i ? 34 : 0);
        ck_assert_uint_eq(kernel.launch.axes, i ? 2 : 0);
        EchGpuCost cost;
        ck_assert(ech_gpu_kernel_price(device, &kernel, &cost));
        times[i] = cost.time;
    }
    ck_assert(times[1] > 2 * times[0]);
    must_fail(HEAD "sectors 34\nend\n", ":4: sectors of no kernel; expected its launch before");
    must_fail(HEAD "axes 2\nend\n", ":4: axes of no kernel; expected its launch before");
}
END_TEST

/* An all-reduce by a server's own kernel is one; a kernel of which it is not known what it does for whom is refused. */
START_TEST(own_all_reduces)
{
    g_autoptr(EchImport) import = must_read(HEAD "name 1 \"cross_device_reduce_1stage\"\ncollective 30 0 7 1 16384 8 1\nend\n");
    const EchOp *own = nth(import->trace, ECH_OP_COLLECTIVE, 0);
    ck_assert_int_eq(own->collective, ECH_COLLECTIVE_ALL_REDUCE);
    ck_assert_str_eq(ech_trace_string(import->trace, own->name), "cross_device_reduce_1stage");
    must_fail(HEAD "name 1 \"ncclDevKernel_Generic\"\ncollective 31 0 7 1 16384 8 1\nend\n", ":5: collective 'ncclDevKernel_Generic'; expected all-reduce");
}
END_TEST

START_TEST(streams_and_waits)
{
    g_autoptr(EchImport) import = must_read(HEAD "name 1 \"" ADD "\"\nname 2 \"all-reduce\"\n"
                                                 "kernel 10 0 0 1 1 1 1 128 1 1 0\n" /* before the record */
                                                 "record 20 0 0 77\n"
                                                 "kernel 30 0 0 1 2 1 1 128 1 1 0\n" /* after it */
                                                 "wait 40 0 7 77\nwait 41 0 7 78\n"
                                                 "collective 50 0 7 2 4096 8 1\n"
                                                 "sync 60 3 0 7 0\n"
                                                 "kernel 70 0 0 1 3 1 1 128 1 1 0\n"
                                                 "end\n");
    const EchTrace *t = import->trace;
    const EchOp *before = nth(t, ECH_OP_KERNEL, 0), *after = nth(t, ECH_OP_KERNEL, 1), *last = nth(t, ECH_OP_KERNEL, 2);
    const EchOp *wait = nth(t, ECH_OP_WAIT, 0), *host = nth(t, ECH_OP_WAIT, 1), *all = nth(t, ECH_OP_COLLECTIVE, 0);
    ck_assert(depends(t, wait, before) && !depends(t, wait, after));
    ck_assert_uint_eq(wait->queue, all->queue);
    ck_assert(depends(t, host, all) && depends(t, last, host));
    ck_assert_int_eq(all->collective, ECH_COLLECTIVE_ALL_REDUCE);
    ck_assert_uint_eq(all->memory_from, 8);
    ck_assert_uint_eq(ech_diag_count(import->diag, "waits_for_events_never_recorded"), 1);
}
END_TEST

START_TEST(memory_follows_what_was_asked)
{
    g_autoptr(EchImport) import = must_read(HEAD "name 1 \"" ADD "\"\n"
                                                 "alloc 5 0 0 4096 2097152 3 0\n"
                                                 "kernel 10 0 0 1 1 1 1 128 1 1 0\n"
                                                 "alloc 15 0 0 9999744 20971520 3 0\n"
                                                 "refused 16 0 0 99999999999\n"
                                                 "refused 17 0 0 4194304\n"
                                                 "free 20 0 0 4096 2097152 3 0\n"
                                                 "alloc 21 0 0 4096 4194304 3 0\nend\n");
    const EchTrace *t = import->trace;
    const EchOp *kernel = nth(t, ECH_OP_KERNEL, 0);
    ck_assert(!depends(t, nth(t, ECH_OP_ALLOC, 0), kernel) && depends(t, nth(t, ECH_OP_ALLOC, 1), kernel));
    ck_assert_uint_eq(nth(t, ECH_OP_FREE, 0)->target, nth(t, ECH_OP_ALLOC, 0)->target);
    ck_assert_str_eq(ech_trace_get_property(t, "peak_reserved_bytes"), "25165824");
    ck_assert_str_eq(ech_trace_get_property(t, "end_reserved_bytes"), "25165824");
    ck_assert_uint_eq(ech_diag_count(import->diag, "requests_that_the_device_refused"), 1); /* 4 MiB were there once 2 had been given back */
    ck_assert(ech_test_says(import->diag, "1 of the program's requests found room"));
    ck_assert(ech_test_says(import->diag, "the largest of 93.1 GiB"));
}
END_TEST

/* PyTorch's snapshot tells of its own allocations alone: a library's beside them stay, in the order of the device's work. */
START_TEST(a_librarys_memory_stays)
{
    static const char text[] = "echelon-pretend 1\nclock 1699999999999000000\ndevice 84942979072 536870912 1 \"h100-sxm\"\nname 1 \"" ADD "\"\n"
                               "alloc 100 0 0 33554432 4096 3 0\nfree 200 0 0 33554432 4096 3 0\n" /* before the recording: perhaps PyTorch's */
                               "alloc 300 0 0 67108864 5242880 3 0\n"
                               "alloc 1000500 0 0 4096 2097152 6 0\n"
                               "alloc 1000600 0 0 139638043836416 20971520 3 0\n" /* a segment of PyTorch's */
                               "alloc 1000650 0 0 50331648 1000 3 0\n"
                               "kernel 1001500 0 0 1 1 1 1 128 1 1 0\n"
                               "free 1008000 0 0 50331648 1000 3 0\n"
                               "alloc 1050000 0 0 83886080 4096 3 0\n"  /* after the recording */
                               "alloc 1060000 0 0 100663296 8192 5 0\n" /* managed memory is the driver's */
                               "free 1099000 0 0 4096 2097152 6 0\nend\n";
    g_autoptr(GError) error = NULL;
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)text, strlen(text), NULL);
    EchImportOptions options = {.beside = ECH_SOURCE_DIR "/tests/fuzz/corpus/memory_snapshot/small.5.pickle"};
    g_autoptr(EchImport) import = ech_import_source(source, NULL, &options, &error);
    ck_assert_msg(import != NULL, "%s", error ? error->message : "?");
    const EchTrace *t = import->trace;
    ck_assert_uint_eq(ech_diag_count(import->diag, "memory_events_replaced_by_the_snapshot"), 4);
    EchBytes direct[2] = {0}; /* NCCL's, others' */
    for (size_t i = 0; i < ech_trace_n_buffers(t); i++) {
        const EchBuffer *buffer = &ech_trace_buffers(t)[i];
        const char *name = ech_trace_string(t, buffer->name);
        ck_assert_int_eq(buffer->direct, strcmp(name, "NCCL's buffers") == 0 || strcmp(name, "cudaMalloc beside the allocator") == 0);
        direct[*name == 'c'] += buffer->direct ? buffer->bytes : 0;
    }
    ck_assert(direct[0] == 2097152 && direct[1] == 5242880 + 1000);
    ck_assert_uint_eq(ech_test_count(t, ECH_OP_ALLOC), 6);
    const EchOp *alloc = ech_test_op(t, ECH_OP_ALLOC, "NCCL's buffers"), *free = ech_test_op(t, ECH_OP_FREE, "NCCL's buffers");
    ck_assert_uint_eq(alloc->target, free->target);
    ck_assert(depends(t, free, nth(t, ECH_OP_KERNEL, 0)));
    ck_assert_uint_eq(ech_alloc_direct_peak(t, ech_trace_find_memory(t, "hbm")), 2097152 + 5242880 + 1000);
    g_autofree char *names = ech_direct_names(t, ech_trace_find_memory(t, "hbm"));
    ck_assert_str_eq(names, "cudaMalloc beside the allocator, NCCL's buffers");
}
END_TEST

static const EchBuffer *used(const EchTrace *t, const EchOp *op, uint32_t use)
{
    return &ech_trace_buffers(t)[ech_trace_uses(t)[op->first_use + use].buffer];
}

/* It is the host's memory, of which the device uses parts; what it is asked to move is no copy of its own. */
START_TEST(managed_memory)
{
    g_autoptr(EchImport) import = must_read(HEAD "name 1 \"void first(float const*, float*)\"\n"
                                                 "alloc 10 0 0 4194304 8388608 5 0\nalloc 11 0 0 16777216 4096 3 0\n"
                                                 "advise 12 0 4194304 8388608 1 1\nadvise 13 0 4194304 8388608 3 0\nadvise 14 0 4194304 8388608 5 1\n"
                                                 "advise 15 0 4194304 8388608 5 0\nadvise 16 0 4194304 8388608 4 0\n"
                                                 "advise 17 0 4194304 1048576 3 1\nadvise 18 0 16777216 4096 1 1\n"
                                                 "kernel 20 0 0 1 1 1 1 128 1 1 0\nuses 1 6291456 1048576 2 16777216 4096\n"
                                                 "kernel 21 0 0 1 1 1 1 128 1 1 0\nuses 1 6291456 1048576\n"
                                                 "kernel 22 0 0 1 1 1 1 128 1 1 0\nargs 0 4194304 1 16777216\n"
                                                 "prefetch 30 0 0 2097152 0\nuses 3 4194304 2097152\n"
                                                 "prefetch 31 0 0 8388608 1\nuses 3 4194304 8388608\n"
                                                 "copy 40 0 0 1048576 1 5 1\nuses 2 4194304 1048576\n"
                                                 "free 50 0 0 4194304 8388608 5 0\nend\n");
    const EchTrace *t = import->trace;
    const EchOp *alloc = nth(t, ECH_OP_ALLOC, 0);
    const EchBuffer *whole = &ech_trace_buffers(t)[alloc->target];
    ck_assert_int_eq(whole->managed, ECH_MANAGED | ECH_MANAGED_READ_MOSTLY | ECH_MANAGED_ON_HOST | ECH_MANAGED_MAPPED);
    ck_assert_str_eq(ech_trace_memory(t, whole->memory), "host");
    ck_assert_uint_eq(ech_diag_count(import->diag, "advice_taken_back"), 1);
    ck_assert_uint_eq(ech_diag_count(import->diag, "advice_on_parts"), 1);
    ck_assert_uint_eq(ech_diag_count(import->diag, "advice_on_unknown_addresses"), 1);
    ck_assert_int_eq(ech_trace_buffers(t)[nth(t, ECH_OP_ALLOC, 1)->target].managed, 0);
    ck_assert_str_eq(ech_trace_get_property(t, "peak_reserved_bytes"), "4096");
    const EchBuffer *part = used(t, nth(t, ECH_OP_KERNEL, 0), 0);
    ck_assert(part->alias_of == alloc->target && part->alias_offset == 2097152 && part->bytes == 1048576);
    ck_assert_ptr_eq(used(t, nth(t, ECH_OP_KERNEL, 1), 0), part); /* the same part */
    ck_assert_ptr_eq(used(t, nth(t, ECH_OP_KERNEL, 2), 0), whole);
    const EchOp *out = nth(t, ECH_OP_COPY, 0), *in = nth(t, ECH_OP_COPY, 1), *copy = nth(t, ECH_OP_COPY, 2);
    ck_assert(ech_op_is_prefetch(t, out) && ech_op_is_prefetch(t, in) && !ech_op_is_prefetch(t, copy));
    ck_assert_str_eq(ech_trace_memory(t, out->memory_to), "host");
    ck_assert_str_eq(ech_trace_memory(t, in->memory_to), "hbm");
    ck_assert_uint_eq(in->bytes, 8388608);
    ck_assert_ptr_eq(used(t, in, 0), whole);
    ck_assert_ptr_eq(used(t, in, 1), whole);
    ck_assert_uint_eq(used(t, out, 0)->bytes, 2097152);
    ck_assert_str_eq(ech_trace_memory(t, copy->memory_to), "hbm");
    ck_assert_uint_eq(used(t, copy, 1)->alias_of, alloc->target);
    ck_assert(depends(t, nth(t, ECH_OP_FREE, 0), copy)); /* for which cudaFree waits */
    must_fail(HEAD "prefetch 1 2 3\n", ":4: a prefetch line; expected 5 numbers");
}
END_TEST

/* PyTorch marks in a snapshot when it was taken, for each device that the process sees, those too that nothing was asked of. */
START_TEST(snapshots_of_many_devices)
{
    static const char text[] = "echelon-pretend 1\nclock 1700000000000000000\ndevice 84942979072 536870912 1 \"h100-sxm\"\nname 1 \"" ADD "\"\n"
                               "alloc 500 0 0 139637978824704 2097152 3 0\n"
                               "kernel 700 0 0 1 1 1 1 128 1 1 0\n"
                               "kernel 800 3 0 1 1 1 1 128 1 1 0\nend\n";
    g_autoptr(GError) error = NULL;
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)text, strlen(text), NULL);
    EchImportOptions options = {.beside = ECH_SOURCE_DIR "/tests/fuzz/corpus/memory_snapshot/devices.pickle"};
    g_autoptr(EchImport) import = ech_import_source(source, NULL, &options, &error);
    ck_assert_msg(import != NULL, "%s", error ? error->message : "?");
    const EchTrace *t = import->trace;
    ck_assert_uint_eq(ech_test_count(t, ECH_OP_MARK), 1 + 16); /* the segment's, too */
    ck_assert(depends(t, nth(t, ECH_OP_ALLOC, 0), nth(t, ECH_OP_KERNEL, 0)));
    ck_assert_uint_eq(ech_test_count(t, ECH_OP_ALLOC), 1);
    for (size_t i = 0; i < 16; i++) {
        const EchOp *mark = nth(t, ECH_OP_MARK, 1 + i);
        uint32_t device = ech_trace_queues(t)[mark->queue].device;
        ck_assert_uint_eq(device, i);
        ck_assert(depends(t, mark, nth(t, ECH_OP_KERNEL, 1)) == (device == 3));
    }
}
END_TEST

/* What PyTorch's gathers and scatters have caught: the index, where results go, what they are made of. All three were used before. */
START_TEST(gathers_and_scatters)
{
#define CAUGHT(of) "void at::native::_scatter_" of "::{lambda(int)#1}>(int, at::native::_cuda_scatter_" of "::{lambda(int)#1})"
#define MOVED(which) "gather_elementwise_kernel<128, 8, at::native::_cuda_scatter_gather_internal_kernel<" which ", float, long>::operator()(long)"
    static const struct {
        const char *name;
        bool reads; /* what it writes to */
    } cases[] = {{CAUGHT(MOVED("false")), false},
                 {CAUGHT(MOVED("true")), true},
                 {CAUGHT("fill_elementwise_kernel<128, 8, at::native::_cuda_scatter_fill_internal_kernel<long>::operator()(long)"), true}};
    enum { INDEX = 4096, RESULT = 8192, SOURCE = 16384, SIZE = 2048 };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *text =
            g_strdup_printf(HEAD "name 1 \"%s\"\nname 2 \"first\"\nalloc 1 0 0 4096 2048 3 0\nalloc 2 0 0 8192 2048 3 0\nalloc 3 0 0 16384 2048 3 0\n"
                                 "kernel 4 0 0 2 1 1 1 128 1 1 0\nuses 2 4096 2048 2 8192 2048 2 16384 2048\n"
                                 "kernel 5 0 0 1 1 1 1 128 1 1 0\nargs 1 4096 1 8192 1 16384\nend\n",
                            cases[i].name);
        g_autoptr(EchImport) import = must_read(text);
        const EchTrace *t = import->trace;
        const EchOp *kernel = nth(t, ECH_OP_KERNEL, 1);
        for (uint32_t u = kernel->first_use; u < kernel->first_use + kernel->n_uses; u++) {
            const EchUse *use = &ech_trace_uses(t)[u];
            const EchBuffer *buffer = &ech_trace_buffers(t)[use->buffer];
            bool result = use->buffer == nth(t, ECH_OP_ALLOC, 1)->target;
            if (buffer->bytes > 0) /* else traffic of unknown place */
                ck_assert_msg(use->access == ECH_READ ? !result || cases[i].reads : result, "%s: use %u", cases[i].name, u - kernel->first_use);
        }
        ck_assert_uint_eq(ech_diag_count(import->diag, "uses_of_inferred_direction"), 0);
    }
}
END_TEST

/* A copy from one device to another is told by its arrays alone. */
START_TEST(copies_between_devices)
{
    g_autoptr(EchImport) import = must_read(HEAD "alloc 1 0 0 4096 512 3 0\nalloc 2 1 0 8192 512 3 0\n"
                                                 "copy 3 0 7 512 3 3 1\nuses 1 4096 512 2 8192 512\n"
                                                 "copy 4 0 7 512 3 3 1\nuses 1 4096 256 2 4352 256\nend\n");
    const EchTrace *t = import->trace;
    const EchOp *across = nth(t, ECH_OP_COPY, 0), *within = nth(t, ECH_OP_COPY, 1);
    ck_assert_str_eq(ech_trace_memory(t, across->memory_from), "hbm");
    ck_assert_str_eq(ech_trace_memory(t, across->memory_to), "hbm:1");
    ck_assert_uint_eq(moved(t, across, ECH_READ), 512);
    ck_assert_uint_eq(moved(t, across, ECH_WRITE), 512);
    ck_assert_uint_eq(within->memory_from, within->memory_to);
}
END_TEST

START_TEST(what_is_cut_or_unknown)
{
    g_autoptr(EchImport) import = must_read(HEAD "hologram 1 2 three\ncopy 5 0 0 100 2 3 1\ncopy 6 0 0 10");
    ck_assert_uint_eq(ech_diag_count(import->diag, "lines_of_unknown_kind"), 1);
    ck_assert_uint_eq(ech_diag_count(import->diag, "lines_cut_off"), 1);
    ck_assert_uint_eq(ech_diag_count(import->diag, "captures_without_end"), 1);
    ck_assert_uint_eq(nth(import->trace, ECH_OP_COPY, 0)->bytes, 100);
    must_fail(HEAD "kernel 1 2 3\n", ":4: a kernel line; expected 11 numbers");
    must_fail(HEAD "name 2 \"a\"\n", ":4: name 2; expected 1");
    must_fail(HEAD "mark 5 1 1\n", ":4: name 1 is not told before");
    must_fail(HEAD "copy 1 99999999999999999999 3 4 5 6 7\n", ":4: a copy line");
}
END_TEST

#define PS_PER_US INT64_C(1000000)

/* 200 additions of 512 elements: an operator each, and nothing to do. */
static EchImport *small_kernels(unsigned n, const char *behind)
{
    g_autoptr(GString) text = g_string_new(HEAD "name 1 \"" ADD "\"\n");
    for (unsigned i = 0; i < n; i++)
        g_string_append_printf(text, "kernel %u 0 0 1 1 1 1 128 1 1 0\n", 10 * i);
    g_string_append_printf(text, "%s", behind);
    g_string_append(text, "end\n");
    return must_read(text->str);
}

START_TEST(work_of_the_host)
{
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", (const char *const[]){"device.runtime.eager_launch_ps=10us", "device.runtime.submit_ps=10us",
                                                                                    "device.memories.host.read=100GB/s", "device.memories.host.write=100GB/s",
                                                                                    "device.runtime.processor_rate=200GB/s", NULL});
    /* A copy, which the host waits for; an optimizer's step on 3 GB read and 2 written; a copy back. */
    const char *text = HEAD "name 1 \"aten::_fused_adamw_\"\ncopy 1 0 0 1000000 3 2 1\nsync 2 4 0 0 0\n%scopy 4 0 0 1000000 2 3 1\nend\n";
    g_autofree char *with = g_strdup_printf(text, "host 3 0 1 3000000000 2000000000\n"), *without = g_strdup_printf(text, "");
    g_autoptr(EchImport) import = must_read(with), other = must_read(without);
    const EchTrace *t = import->trace;
    const EchOp *step = nth(t, ECH_OP_KERNEL, 0), *back = nth(t, ECH_OP_COPY, 1);
    ck_assert_str_eq(ech_trace_string(t, step->name), "aten::_fused_adamw_");
    ck_assert_uint_eq(ech_trace_queues(t)[step->queue].kind, ECH_QUEUE_HOST);
    ck_assert(depends(t, back, step));
    ck_assert_uint_eq(moved(t, step, ECH_READ), 3000000000);
    ck_assert_uint_eq(moved(t, step, ECH_WRITE), 2000000000);
    ck_assert_uint_eq(ech_diag_count(import->diag, "operators_on_the_host"), 1);
    g_autoptr(EchRun) run = must_run(t, device, true), least = must_run(other->trace, device, true);
    ck_assert_int_eq(run->makespan - least->makespan, 50000 * PS_PER_US); /* and no link between */
    ck_assert_uint_eq(run->provenance.kernels[ECH_PRICE_HOST], 1);
    /* A virtual machine's processors do not get all that memory gives; what they do where a file does not say is assumed, and said. */
    static const char *const few[] = {"device.runtime.eager_launch_ps=10us", "device.memories.host.read=100GB/s", "device.memories.host.write=100GB/s",
                                      "device.runtime.processor_rate=40GB/s", NULL};
    g_autoptr(EchDevice) slow = ech_test_device("h100-sxm", few), unsaid = ech_test_device("h100-sxm-calibrated", NULL);
    g_autoptr(EchRun) slower = must_run(t, slow, true), assumed = must_run(t, unsaid, true);
    ck_assert_int_eq(slower->makespan - least->makespan, 125000 * PS_PER_US);
    ck_assert_uint_eq(ech_diag_count(run->diag, "host_work_at_assumed_rate") + ech_diag_count(slower->diag, "host_work_at_assumed_rate"), 0);
    ck_assert_uint_eq(ech_diag_count(assumed->diag, "host_work_at_assumed_rate"), 1);
    for (size_t i = 0; i < assumed->n_spans; i++)
        if (assumed->spans[i].op == (EchId)(step - ech_trace_ops(t)))
            ck_assert_int_eq((assumed->spans[i].end - assumed->spans[i].start) / PS_PER_US, 72463); /* 5 GB at 69 GB/s */
    must_fail(HEAD "host 3 0 1 5 5\nend\n", ":4: name 1 is not told before");
}
END_TEST

/* Pages that the host never touched are brought in while the driver copies to them. */
START_TEST(copies_to_untouched_memory)
{
    const char *const edits[] = {"device.runtime.touch_page_ps=1us", "device.links.pageable.from_device=10GB/s", "device.memories.pageable.write=10GB/s", NULL};
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", edits);
    EchTime took[3];
    static const int kinds[] = {1, 7, 2}; /* touched, not touched, pinned */
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
        g_autofree char *text = g_strdup_printf(HEAD "copy 1 0 0 409600000 3 %d 0\nend\n", kinds[i]);
        g_autoptr(EchImport) import = must_read(text);
        g_autoptr(EchTrace) trace = ech_trace_select(import->trace, &(EchSelectOptions){.device = ECH_NONE, .pageable = "pageable"}, NULL, NULL);
        ck_assert_ptr_nonnull(trace);
        ck_assert_int_eq(ech_trace_copy_pageable(trace, nth(trace, ECH_OP_COPY, 0)), kinds[i] != 2);
        g_autoptr(EchRun) run = must_run(trace, device, true);
        took[i] = run->makespan;
    }
    ck_assert_int_eq(took[1] - took[0], 100000 * PS_PER_US); /* 100,000 pages */
    ck_assert_int_lt(took[2], took[0]);
}
END_TEST

/* What is asked for behind it waits. */
START_TEST(pinning_takes_time_by_the_page)
{
    const char *const edits[] = {"device.runtime.pin_new_page_ps=2us", "device.runtime.pin_page_ps=1us", NULL};
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", edits);
    static const struct {
        const char *line;
        EchTime takes;
    } ways[] = {
        {"alloc 0 0 0 4096 409600000 2 0\n", 200000 * PS_PER_US}, {"pin 0 0 409600000 1\n", 200000 * PS_PER_US}, {"pin 0 0 409600000 0\n", 100000 * PS_PER_US}};
    g_autoptr(EchImport) alone = must_read(HEAD "copy 1 0 0 4096 2 3 1\nend\n");
    g_autoptr(EchRun) copy = must_run(alone->trace, device, true);
    for (size_t i = 0; i < G_N_ELEMENTS(ways); i++) {
        g_autofree char *text = g_strdup_printf(HEAD "%scopy 1 0 0 4096 2 3 1\nend\n", ways[i].line);
        g_autoptr(EchImport) import = must_read(text);
        g_autoptr(EchRun) run = must_run(import->trace, device, true);
        ck_assert_int_eq(run->makespan - copy->makespan, ways[i].takes);
        ck_assert_uint_eq(run->provenance.kernels[ECH_PRICE_PIN], 1);
    }
}
END_TEST

/* A gigabyte is read of a file, the host's memory being large enough to have it or not; what is asked for by a handle runs beside. */
static EchTime start_of_copy(const EchTrace *trace, const EchRun *run, EchBytes bytes)
{
    for (size_t i = 0; i < run->n_spans; i++) {
        const EchOp *op = &ech_trace_ops(trace)[run->spans[i].op];
        if (op->kind == ECH_OP_COPY && op->bytes == bytes)
            return run->spans[i].start;
    }
    ck_abort_msg("no copy of %" G_GUINT64_FORMAT " bytes", bytes);
    return 0;
}

START_TEST(files_take_a_disk)
{
    static const char *const edits[] = {"device.runtime.disk_read=2GB/s",
                                        "device.runtime.disk_write=1GB/s",
                                        "device.memories.host.capacity=4GiB",
                                        "device.runtime.pin_new_page_ps=0",
                                        "device.memories.pageable.read=10GB/s",
                                        "device.memories.pageable.write=10GB/s",
                                        NULL};
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", edits);
    g_autoptr(EchImport) alone = must_read(HEAD "copy 1 0 0 4096 2 3 1\nend\n");
    g_autoptr(EchRun) copy = must_run(alone->trace, device, false);
    static const struct {
        const char *lines;
        EchTime ms;
    } ways[] = {{"file 0 0 1 91 0 0 1000000000 0 0\n", 500},
                {"file 0 0 1 91 2 0 1000000000 0 0\n", 500},
                {"file 0 0 1 91 0 0 1000000000 0 0\nfile 0 0 1 91 0 0 1000000000 0 0\n", 600},           /* it is there */
                {"file 0 0 1 91 0 0 1000000000 0 0\nfile 0 0 1 91 2 500 1000 0 0\n", 500},               /* its pages, too, which are mapped */
                {"file 0 0 1 91 0 0 1000000000 0 0\nfile 0 0 1 91 0 0 1000000000 4000000000 0\n", 1000}, /* the program itself has the memory */
                {"alloc 0 0 0 4096 4000000000 2 0\nfile 0 0 1 91 0 0 1000000000 0 0\nfile 0 0 1 91 0 0 1000000000 0 0\n", 1000}, /* or has pinned it */
                {"alloc 0 0 0 4096 4000000000 2 0\nfree 0 0 0 4096 4000000000 2 0\nfile 0 0 1 91 0 0 1000000000 0 0\nfile 0 0 1 91 0 0 1000000000 0 0\n", 600},
                {"file 0 0 1 91 0 0 1000000000 0 0\nfile 0 0 2 92 0 0 4000000000 0 0\nfile 0 0 1 91 0 0 1000000000 0 0\n", 3000}, /* the other file has it */
                {"file 0 0 1 91 0 0 1000000000 0 0\nfile 0 0 1 91 4 0 1000000000 0 0\n", 1000},                                   /* around the cache */
                {"file 0 0 1 91 0 0 1000000000 0 0\nfile 0 0 2 92 4 0 4000000000 0 0\nfile 0 0 1 91 0 0 1000000000 0 0\n", 2600}, /* which has none of that */
                {"file 0 0 1 91 5 0 500000000 0 0\nfile 0 0 1 91 1 0 500000000 0 0\n", 550},
                {"file 0 0 1 91 1 0 500000000 0 0\n", 50}, /* a fifth may wait for the disk */
                {"file 0 0 1 91 1 0 1000000000 0 0\n", 1000},
                {"file 0 0 1 91 5 0 500000000 0 0\n", 500},
                {"file 0 0 1 91 12 0 1000000000 0 7\nfile 0 0 1 91 13 0 600000000 0 8\nsync 0 5 0 7 0\n", 500},
                {"file 0 0 1 91 12 0 1000000000 0 7\nfile 0 0 1 91 13 0 600000000 0 8\nsync 0 5 0 8 0\n", 600},
                {"file 0 0 1 91 12 0 1000000000 0 7\nsync 0 4 0 0 0\nsync 0 5 0 7 0\n", 500}};
    for (size_t i = 0; i < G_N_ELEMENTS(ways); i++) {
        g_autofree char *text = g_strdup_printf(HEAD "name 1 \"/a/w.dat\"\nname 2 \"/a/x.dat\"\n%scopy 1 0 0 4096 2 3 1\nend\n", ways[i].lines);
        g_autoptr(EchImport) import = must_read(text);
        g_autoptr(EchTrace) shared = ech_anonymize(import->trace, import->diag, NULL);
        g_autoptr(EchRun) run = must_run(import->trace, device, false), same = must_run(shared, device, false);
        const EchTime later = start_of_copy(import->trace, run, 4096) - start_of_copy(alone->trace, copy, 4096);
        ck_assert_msg(later / ECH_PS_PER_MS == ways[i].ms, "way %zu: %" G_GINT64_FORMAT " ms later", i, later / ECH_PS_PER_MS);
        ck_assert_int_eq(run->makespan, same->makespan);
        const EchOp *first = ech_trace_ops(import->trace);
        EchBytes bytes, needs;
        while (ech_op_file(import->trace, first, &bytes, &needs) == ECH_FILE_NONE)
            first++;
        const bool written = strstr(ways[i].lines, " 91 1 ") || strstr(ways[i].lines, " 91 5 ");
        ck_assert_str_eq(ech_trace_string(import->trace, first->name), written ? "write of w.dat" : "read of w.dat");
    }
    /* The device is not held up by what goes on beside. */
    g_autoptr(EchImport) beside = must_read(HEAD "name 1 \"w\"\nfile 0 0 1 91 12 0 1000000000 0 7\nsync 0 4 0 0 0\ncopy 1 0 0 4096 2 3 1\nend\n");
    g_autoptr(EchRun) run = must_run(beside->trace, device, false);
    ck_assert_int_lt(start_of_copy(beside->trace, run, 4096), ECH_PS_PER_MS);
    must_fail(HEAD "file 0 0 1 91 0 0 5 0 0\nend\n", ":4: name 1 is not told before");
}
END_TEST

/* 1,000 copies of 4 KiB: of an operator each, of one's loop, and of a batch; only the last are asked for with one call. */
START_TEST(copies_right_behind_others)
{
    const char *const edits[] = {"device.runtime.submit_ps=10us", "device.runtime.copy_in_loop_ps=2us", "device.runtime.copy_in_batch_ps=1us", NULL};
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", edits);
    static const struct {
        const char *before, *behind;
        int asked;
        EchTime each;
    } ways[] = {{"push 0 1 1\n", "pop 0 1\n", 1, 10 * PS_PER_US}, {"", "", 1, 2 * PS_PER_US}, {"", "", 2, PS_PER_US}};
    for (size_t w = 0; w < G_N_ELEMENTS(ways); w++) {
        EchTime took[2];
        for (unsigned many = 0; many < 2; many++) {
            g_autoptr(GString) text = g_string_new(HEAD "name 1 \"vllm::swap_blocks\"\npush 0 1 1\n");
            for (unsigned i = 0; i < (many ? 1001 : 1); i++)
                g_string_append_printf(text, "%scopy 1 0 0 4096 2 3 %d\nuses 1 %u 4096\n%s", ways[w].before, i == 0 ? 1 : ways[w].asked, i * 4096,
                                       ways[w].behind);
            g_string_append(text, "pop 0 1\nend\n");
            g_autoptr(EchImport) import = must_read(text->str);
            g_autoptr(EchRun) run = must_run(import->trace, device, true);
            took[many] = run->makespan;
        }
        ck_assert_int_eq(took[1] - took[0], 1000 * ways[w].each);
    }
    /* Outside of all operators nobody says what is between two calls. */
    g_autoptr(EchImport) import = must_read(HEAD "copy 1 0 0 4096 2 3 1\ncopy 2 0 0 4096 2 3 1\nend\n");
    ck_assert_int_eq(ech_op_behind(import->trace, nth(import->trace, ECH_OP_COPY, 1)), ECH_BEHIND_NONE);
}
END_TEST

START_TEST(small_kernels_wait_for_the_host)
{
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", (const char *const[]){"device.runtime.eager_launch_ps=10us", NULL});
    g_autoptr(EchImport) one = small_kernels(1, ""), many = small_kernels(200, "");
    g_autoptr(EchRun) alone = must_run(one->trace, device, false), free_host = must_run(many->trace, device, false), run = must_run(many->trace, device, true);
    ck_assert_int_eq(free_host->makespan, 200 * alone->makespan + 199 * free_host->kernel_gap);
    ck_assert_int_lt(alone->makespan, 10 * PS_PER_US);
    /* The last is asked for after 200 launches, and runs then. */
    ck_assert_int_eq(run->makespan, 200 * 10 * PS_PER_US + alone->makespan);
    ck_assert_int_eq(run->host_launch, 10 * PS_PER_US);
    ck_assert_int_eq(run->waits[ECH_WAIT_HOST], 10 * PS_PER_US + 199 * (10 * PS_PER_US - alone->makespan));
    ck_assert_int_eq(run->lower_bound, 200 * 10 * PS_PER_US);
}
END_TEST

/* A ResNet-50's first layer in the tiles that cuDNN's heuristics take, which are not the best ones: forward and its filters' gradient took an H100 1,541 and
 * 884 us (traces/gpu_h100-sxm/models). */
START_TEST(convolutions_in_their_tiles)
{
    static const struct {
        const char *launch;
        double us, off;
    } rows[] = {
        {"product=1x3211264x64x392 taps=49 operand_bytes=2 class=product arithmetic=mma grid=12544x1x1 block=128x1x1 shared=81920 tile=256x64x32 stages=4",
         1541.3, 0.05},
        {"product=1x64x392x3211264 operand_bytes=2 class=product arithmetic=mma filters=1 grid=4x1x61 block=128x1x1 shared=73728 tile=64x128x32 stages=6",
         884.3, 0.15}};
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *text = g_strdup_printf(HEAD "name 1 \"cudnn convolution\"\nname 2 \"%s\"\nname 3 \"bf16\"\n"
                                                     "library 5 0 0 1 2 205570048 411041792 161128382464 3\nend\n",
                                                rows[i].launch);
        g_autoptr(EchImport) import = must_read(text);
        g_autoptr(EchRun) run = must_run(import->trace, device, false);
        double us = (double)run->makespan / (double)PS_PER_US;
        ck_assert_msg(fabs(us / rows[i].us - 1) <= rows[i].off, "%zu: %.1f us, measured %.1f", i, us, rows[i].us);
    }
}
END_TEST

/* Each operator takes its time of the host, those that launch nothing, too; ranges of programs and modules take none. A device may say that only launches do.
 */
START_TEST(operators_take_the_host)
{
    const char *const told[] = {"device.runtime.eager_launch_ps=10us", "device.runtime.eager_operator_ps=6us", "device.runtime.submit_ps=4us", NULL};
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", told), by_launch = ech_test_device("h100-sxm", (const char *const[]){told[0], NULL}),
                         untold = ech_test_device("h100-sxm", NULL);
    const char *kernel = "kernel 5 0 0 1 1 1 1 128 1 1 0\n";
    g_autofree char *text = g_strconcat(HEAD "name 1 \"" ADD "\"\nname 2 \"aten::add, sizes = [[4]]\"\nname 3 \"nn.Module: a (A)\"\n"
                                             "name 4 \"autograd::engine::evaluate_function: AddBackward0\"\n",
                                        "push 1 7 3\npush 2 7 2\npush 3 7 2\npop 4 7\n", kernel, "pop 6 7\npop 7 7\npush 8 7 4\npush 9 7 2\n", kernel,
                                        "asked 3\n", kernel, "pop 11 7\npop 12 7\nend\n", NULL);
    g_autoptr(EchImport) import = must_read(text), one = small_kernels(1, "");
    const uint32_t operators[] = {2, 2, 3};
    for (uint32_t i = 0; i < G_N_ELEMENTS(operators); i++)
        ck_assert_int_eq(ech_op_operators(import->trace, nth(import->trace, ECH_OP_KERNEL, i)), operators[i]);
    g_autoptr(EchRun) alone = must_run(one->trace, device, false), run = must_run(import->trace, device, true),
                      before = must_run(import->trace, by_launch, true), none = must_run(one->trace, device, true),
                      usual = must_run(import->trace, untold, true);
    ck_assert_int_eq(run->lower_bound, (3 * 4 + 7 * 6) * PS_PER_US);
    ck_assert_int_eq(usual->lower_bound, 3 * 3519000 + 7 * 4800000);
    ck_assert_int_eq(run->host_operator, 6 * PS_PER_US);
    ck_assert_int_eq(before->lower_bound, 3 * 10 * PS_PER_US);
    ck_assert_int_eq(before->host_operator, 0);
    ck_assert_int_eq(none->makespan, 10 * PS_PER_US + alone->makespan);
}
END_TEST

/* Kernels of a stream that were asked for in time begin a little after one another, as recorded ones do; those of a graph at once, and those that come late as
 * they come. */
START_TEST(kernels_follow_one_another)
{
    const char *const late[] = {"device.runtime.eager_launch_ps=10us", "device.runtime.kernel_gap_ps=2us", NULL}, *const ahead[] = {late[1], NULL};
    g_autoptr(EchDevice) slow = ech_test_device("h100-sxm", late), device = ech_test_device("h100-sxm", ahead), as_is = ech_test_device("h100-sxm", NULL);
    const char *waits = "copy 1 0 0 1000000000 2 3 1\n", *kernels = "kernel 2 0 0 1 1 1 1 128 1 1 0\nkernel 3 0 0 1 1 1 1 128 1 1 0\n";
    g_autofree char *text = g_strconcat(HEAD "name 1 \"" ADD "\"\n", waits, kernels, "end\n", NULL),
                    *as_graph = g_strconcat(HEAD "name 1 \"" ADD "\"\n", waits, "graph 2 0 0 2\n", kernels, "end\n", NULL),
                    *two_streams =
                        g_strconcat(HEAD "name 1 \"" ADD "\"\n", waits, "kernel 2 0 0 1 1 1 1 128 1 1 0\nkernel 3 0 7 1 1 1 1 128 1 1 0\nend\n", NULL);
    g_autoptr(EchImport) stream = must_read(text), graph = must_read(as_graph), apart = must_read(two_streams), one = small_kernels(1, ""),
                         two = small_kernels(2, "");
    g_autoptr(EchRun) alone = must_run(one->trace, device, false), x = must_run(stream->trace, device, true), y = must_run(graph->trace, device, true);
    g_autoptr(EchRun) z = must_run(stream->trace, as_is, true), w = must_run(apart->trace, device, true), v = must_run(two->trace, slow, true);
    ck_assert_int_eq(x->makespan - y->makespan, 2 * PS_PER_US);
    ck_assert_int_eq(x->makespan - z->makespan, 2 * PS_PER_US - z->kernel_gap);
    ck_assert_int_eq(z->kernel_gap, 1250000);
    ck_assert_int_eq(v->makespan, 20 * PS_PER_US + alone->makespan);
    ck_assert_int_lt(w->makespan, x->makespan);
    ck_assert_int_ge(x->serial, x->makespan);
    ck_assert_int_le(x->lower_bound, x->makespan);
}
END_TEST

START_TEST(the_host_runs_ahead_and_waits)
{
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", (const char *const[]){"device.runtime.eager_launch_ps=10us", NULL});
    /* A copy of 1 GB over a link of 53.7 GB/s takes ms: what is asked for meanwhile waits for it alone. After the wait the host begins anew. */
    const char *ahead = "copy 1 0 0 1000000000 2 3 1\n";
    g_autofree char *before = g_strdup_printf(HEAD "name 1 \"" ADD "\"\n%skernel 2 0 0 1 1 1 1 128 1 1 0\nend\n", ahead),
                    *waited = g_strdup_printf(HEAD "name 1 \"" ADD "\"\n%ssync 2 4 0 0 0\nkernel 3 0 0 1 1 1 1 128 1 1 0\nend\n", ahead);
    g_autoptr(EchImport) queued = must_read(before), after = must_read(waited), one = small_kernels(1, "");
    g_autoptr(EchRun) alone = must_run(one->trace, device, false), x = must_run(queued->trace, device, true), y = must_run(after->trace, device, true);
    ck_assert_int_gt(x->makespan, 15000 * PS_PER_US);
    ck_assert_int_eq(y->makespan - x->makespan, 10 * PS_PER_US);
    g_autoptr(EchRun) z = must_run(queued->trace, device, false);
    ck_assert_int_eq(x->makespan - z->makespan, 10 * PS_PER_US); /* of the copy */
    ck_assert_int_gt(alone->makespan, 0);
}
END_TEST

START_TEST(the_host_thinks_after_it_waited)
{
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", (const char *const[]){"device.runtime.eager_launch_ps=10us", NULL});
    /* Two steps of a server: a kernel that keeps keys in pages, a wait for what it made; and a wait behind which nothing is asked for. */
    static const char step[] = "kernel 1 0 0 1 1 1 1 128 1 1 0\nsync 2 4 0 0 0\nkernel 3 0 0 1 1 1 1 128 1 1 0\nsync 4 4 0 0 0\nend\n";
    g_autofree char *text = g_strconcat(HEAD "name 1 \"vllm::reshape_and_cache_flash_kernel\"\n", step, NULL),
                    *else_text = g_strconcat(HEAD "name 1 \"" ADD "\"\n", step, NULL);
    g_autoptr(EchImport) import = must_read(text), other = must_read(else_text);
    EchReplayOptions options = {0};
    ech_params_defaults(ech_replay_params, &options);
    options.engine = ECH_ENGINE_NATIVE;
    g_autoptr(GError) error = NULL;
    g_autoptr(EchRun) run = ech_replay_run(import->trace, device, NULL, &options, &error),
                      no_server = ech_replay_run(other->trace, device, NULL, &options, &error);
    options.after_wait = 1500 * PS_PER_US;
    g_autoptr(EchRun) counted = ech_replay_run(import->trace, device, NULL, &options, &error);
    ech_params_clear(ech_replay_params, &options);
    ck_assert(run && no_server && counted);
    ck_assert_uint_eq(run->host_waits, 1);
    ck_assert_int_eq(counted->makespan - run->makespan, 1500 * PS_PER_US);
    ck_assert_int_eq(counted->lower_bound - run->lower_bound, 1500 * PS_PER_US);
    ck_assert_int_ge(counted->serial, counted->makespan);
    const EchRun *const runs[] = {run, no_server, counted};
    for (size_t i = 0; i < G_N_ELEMENTS(runs); i++) {
        bool told = false;
        for (const char *const *remark = ech_diag_remarks(runs[i]->diag); *remark; remark++)
            told |= strstr(*remark, "of this server's host") != NULL;
        ck_assert_msg(told == (i == 0), "%zu", i);
    }
}
END_TEST

static EchOp priced(const char *range, const char *kernel, const char *grid, EchImport **ret)
{
    g_autofree char *text = g_strdup_printf(HEAD "name 1 \"%s\"\nname 2 \"%s\"\npush 1 9 2\nkernel 5 0 0 1 %s\npop 9 9\nend\n", kernel, range, grid);
    *ret = must_read(text);
    return *nth((*ret)->trace, ECH_OP_KERNEL, 0);
}

START_TEST(graphs_are_asked_for_once)
{
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", (const char *const[]){"device.runtime.eager_launch_ps=10us", NULL});
    g_autoptr(EchImport) one = small_kernels(1, ""), graph = small_kernels(0, "graph 1 0 0 3\nkernel 2 0 0 1 1 1 1 128 1 1 0\nkernel 3 0 0 1 1 1 1 128 1 1 0\n"
                                                                              "kernel 4 0 0 1 1 1 1 128 1 1 0\nkernel 5 0 0 1 1 1 1 128 1 1 0\n");
    g_autoptr(EchRun) alone = must_run(one->trace, device, false), run = must_run(graph->trace, device, true);
    ck_assert_int_eq(run->makespan, 20 * PS_PER_US + alone->makespan);
    ck_assert_int_eq(run->waits[ECH_WAIT_HOST], 10 * PS_PER_US + 10 * PS_PER_US - 3 * alone->makespan);
    /* Records and waits are lines of it, too: what follows is asked for by itself. */
    g_autoptr(EchImport) forked =
        small_kernels(0, "graph 1 0 0 4\nkernel 2 0 0 1 1 1 1 128 1 1 0\nrecord 2 0 0 1\nwait 2 0 0 1\nkernel 3 0 0 1 1 1 1 128 1 1 0\n"
                         "kernel 4 0 0 1 1 1 1 128 1 1 0\nkernel 5 0 0 1 1 1 1 128 1 1 0\n");
    g_autoptr(EchRun) by_itself = must_run(forked->trace, device, true);
    ck_assert_int_eq(by_itself->makespan, 30 * PS_PER_US + alone->makespan);
}
END_TEST

/* What was known of a kernel where a graph was captured comes back at each of its launches, whatever is around those. */
START_TEST(nodes_of_graphs_are_what_was_captured)
{
#define OPERATOR                                                                                                                                               \
    "name 1 \"" ADD "\"\nname 2 \"nn.Module: mlp (MLP)\"\nname 3 \"aten::add, sizes = [[1000, 768], [1000, 768], []]\"\nname 4 \"aten::mul, sizes = [[7]]\"\n"
#define LAUNCH "kernel 9 0 0 1 1500 1 1 128 1 1 0\n"
    g_autoptr(EchImport) eager = must_read(HEAD OPERATOR "push 1 9 2\npush 2 9 3\n" LAUNCH LAUNCH "pop 9 9\npop 9 9\nend\n");
    g_autoptr(EchImport) graph = must_read(HEAD OPERATOR "push 1 9 2\npush 2 9 3\ncaptured 1\ncaptured 2\npop 2 9\npop 2 9\ncaptured 3\npush 3 9 4\n"
                                                         "graph 4 0 0 4\nnode 1\n" LAUNCH "record 9 0 0 1\nnode 2\n" LAUNCH "node 3\n" LAUNCH
                                                         "graph 9 0 0 2\nnode 1\n" LAUNCH "node 2\n" LAUNCH LAUNCH "pop 9 9\nend\n");
    const EchTrace *t = graph->trace;
    const EchOp *as_it_was = nth(eager->trace, ECH_OP_KERNEL, 0);
    ck_assert_uint_eq(moved(eager->trace, as_it_was, ECH_WRITE), 1000 * 768 * 4 / 2); /* two kernels share the operator's work */
    static const size_t nodes[] = {0, 1, 3, 4};
    for (size_t i = 0; i < G_N_ELEMENTS(nodes); i++) {
        const EchOp *op = nth(t, ECH_OP_KERNEL, nodes[i]);
        ck_assert_uint_eq(moved(t, op, ECH_READ), moved(eager->trace, as_it_was, ECH_READ));
        ck_assert_uint_eq(moved(t, op, ECH_WRITE), moved(eager->trace, as_it_was, ECH_WRITE));
        ck_assert_str_eq(ech_trace_string(t, op->stack), "aten::add\nnn.Module: mlp (MLP)");
    }
    ck_assert_uint_eq(nth(t, ECH_OP_KERNEL, 2)->stack, ECH_NONE); /* captured outside of all ranges */
    ck_assert_str_eq(ech_trace_string(t, nth(t, ECH_OP_KERNEL, 5)->stack), "aten::mul");
    must_fail(HEAD "captured 2\nend\n", ":4: captured 2; expected 1, one more than the node before");
    must_fail(HEAD "captured 7 1 1\nend\n", ":4: captured 1; expected 1 and when, no more");
    must_fail(HEAD "captured 1\nnode 1\nend\n", ":5: node 1 of no graph; expected its launch before");
    must_fail(HEAD "captured 1\ngraph 1 0 0 1\nnode 2\nend\n", ":6: node 2 is not captured before");
}
END_TEST

/* A step that is one graph is a step at each launch; within a range that is open then it is that range's. */
START_TEST(launches_of_graphs_are_steps)
{
#define STEP "name 1 \"" ADD "\"\nname 2 \"nn.Module: mlp (MLP)\"\nname 3 \"Optimizer.step#SGD.step\"\nname 4 \"mine::range\"\n"
#define CAPTURE "push 1 9 2\ncaptured 1 1\npop 2 9\npush 3 9 3\ncaptured 3 2\npop 4 9\n"
#define REPLAY "graph 9 0 0 2\nnode 1\n" LAUNCH "node 2\n" LAUNCH
    g_autoptr(EchImport) graph = must_read(HEAD STEP CAPTURE REPLAY REPLAY REPLAY "end\n");
    g_autoptr(EchImport) within = must_read(HEAD STEP CAPTURE "push 5 9 4\n" REPLAY REPLAY REPLAY "pop 9 9\nend\n");
    size_t n, n_within;
    g_autofree EchTraceStep *steps = ech_trace_steps(graph->trace, &n), *none = ech_trace_steps(within->trace, &n_within);
    ck_assert_uint_eq(n, 3); /* from the optimizer at the capture, and of each launch, to the next */
    ck_assert_str_eq(ech_trace_string(graph->trace, ech_trace_ops(graph->trace)[steps[0].mark].name), "Optimizer.step#SGD.step");
    ck_assert_uint_eq(n_within, 0);
    (void)none;
}
END_TEST

/* Without modules and optimizers a step goes from one backward pass to the next. */
START_TEST(backward_passes_are_steps)
{
#define PASSES                                                                                                                                                 \
    "name 1 \"" ADD "\"\nname 2 \"aten::add, sizes = [[7]]\"\nname 3 \"autograd::engine::evaluate_function: MulBackward0\"\n"                                  \
    "name 4 \"Optimizer.step#SGD.step\"\n"
#define FORWARD(T) "push " #T "1 9 2\nkernel " #T "2 0 0 1 1500 1 1 128 1 1 0\npop " #T "3 9\n"
#define NODE(T) "push " #T "1 8 3\npush " #T "2 8 2\nkernel " #T "3 0 0 1 1500 1 1 128 1 1 0\npop " #T "4 8\npop " #T "5 8\n"
    g_autoptr(EchImport) import =
        must_read(HEAD PASSES FORWARD(1) NODE(2) NODE(3) FORWARD(4) FORWARD(5) NODE(6) NODE(7) FORWARD(8) NODE(9) NODE(10) FORWARD(11) "end\n");
    g_autoptr(EchImport) stepped =
        must_read(HEAD PASSES FORWARD(1) NODE(2) FORWARD(3) NODE(4) "push 51 9 4\nkernel 52 0 0 1 1500 1 1 128 1 1 0\npop 53 9\nend\n");
    size_t n;
    g_autofree EchTraceStep *steps = ech_trace_steps(import->trace, &n);
    ck_assert_uint_eq(n, 2);
    unsigned kernels[2] = {0};
    for (size_t i = 0; i < n; i++)
        for (EchId op = steps[i].mark; op < steps[i].end; op++)
            kernels[i] += ech_trace_ops(import->trace)[op].kind == ECH_OP_KERNEL;
    ck_assert(kernels[0] == 4 && kernels[1] == 3);
    ck_assert_str_eq(ech_trace_string(import->trace, ech_trace_ops(import->trace)[steps[0].mark].name), ECH_MARK_BACKWARD);
    ck_assert_uint_eq(ech_test_count(stepped->trace, ECH_OP_MARK), 1); /* the optimizer's alone */
}
END_TEST

#define PAGED                                                                                                                                                  \
    "name 1 \"void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>, false>(flash::Flash_fwd_params)\"\nname 2 "                       \
    "\"_vllm_fa2_C::varlen_fwd, sizes = [[4, 32, 128], [5000, 16, 8, 128], [5000, 16, 8, 128], [4, 32, 128], [5], [5], [4], [], [4, 128]], types = [bf16, "    \
    "bf16, bf16]\"\n"

/* Attention of one token each over a paged cache: by the lengths that were told, else as long as the tables have room for. */
START_TEST(attention_over_pages_by_its_lengths)
{
    g_autoptr(EchImport) import = must_read(HEAD PAGED "push 1 9 2\nlengths 3 3 307 105 307\nkernel 5 0 0 1 1 8 4 128 1 1 0\npop 9 9\n"
                                                       "push 1 9 2\nlengths 3 0 307 105 0\nkernel 5 0 0 1 1 8 4 128 1 1 0\npop 9 9\n"
                                                       "push 1 9 2\nkernel 5 0 0 1 1 8 4 128 1 1 0\npop 9 9\nend\n");
    const EchTrace *t = import->trace;
    const uint64_t queries = 4 * 32 * 128 * 2, row = 8 * 128 * 2;
    const EchOp *told = nth(t, ECH_OP_KERNEL, 0), *shared = nth(t, ECH_OP_KERNEL, 1), *untold = nth(t, ECH_OP_KERNEL, 2);
    ck_assert_uint_eq(moved(t, told, ECH_READ), queries + 2 * 307 * row);
    ck_assert_uint_eq(moved(t, told, ECH_WRITE), queries);
    ck_assert_uint_eq(moved(t, shared, ECH_READ), queries + 2 * 307 * row);
    ck_assert_uint_eq(moved(t, untold, ECH_READ), queries + 2 * 4 * 128 * 16 * row);
    ck_assert_uint_eq(ech_trace_work(t)[told->first_work].count, 4ull * 307 * 32 * 128);
    ck_assert_uint_eq(ech_trace_work(t)[shared->first_work].count, 4ull * 4 * 307 * 32 * 128 / 3); /* four queries over three sequences */
    ck_assert_uint_eq(ech_diag_count(import->diag, "attention_by_lengths_on_the_host"), 2);
    ck_assert_uint_eq(ech_diag_count(import->diag, "attention_of_assumed_lengths"), 1);
}
END_TEST

#define EXPERTS "\"sglang::inplace_fused_experts, sizes = [[4, 64], [16, 96, 64], [16, 64, 48], [4, 2], [4, 2], []"

/* An operator of another package's, whose types the hook tells around PyTorch's own range of it: a mixture's experts, of which four tokens ask for 6.6,
 * two each. */
START_TEST(operators_of_others_have_types)
{
    g_autoptr(EchImport) import =
        must_read(HEAD "name 1 \"fused_moe_kernel\"\nname 2 " EXPERTS "], types = [bf16, bf16, bf16, f32, s32, true]\"\nname 3 " EXPERTS "]\"\n"
                       "push 1 9 3\npush 1 9 2\npush 1 9 3\nkernel 5 0 0 1 1 1 1 128 1 1 0\nkernel 6 0 0 1 3 1 1 128 1 1 0\npop 9 9\npop 9 9\npop 9 9\n"
                       "push 1 9 3\nkernel 7 0 0 1 1 1 1 128 1 1 0\npop 9 9\nend\n");
    const EchTrace *t = import->trace;
    const EchOp *up = nth(t, ECH_OP_KERNEL, 0), *down = nth(t, ECH_OP_KERNEL, 1), *untyped = nth(t, ECH_OP_KERNEL, 2);
    const double asked = 16 * (1 - pow(14 / 16.0, 4));
    const uint64_t read = (uint64_t)(asked * 2 * 96 * 64) + (uint64_t)(asked * 2 * 48 * 64) + 2 * (4 * 64 + 8 * 48), written = 8 * (96 + 64);
    ck_assert_uint_eq(moved(t, up, ECH_READ) + moved(t, down, ECH_READ), read);
    ck_assert_uint_eq(moved(t, up, ECH_WRITE) * 3, moved(t, down, ECH_WRITE));
    ck_assert_uint_eq(moved(t, up, ECH_WRITE) + moved(t, down, ECH_WRITE), 2 * written);
    ck_assert_uint_eq(ech_trace_work(t)[up->first_work].count + ech_trace_work(t)[down->first_work].count, 2 * 8 * (96 + 48) * 64);
    ck_assert_uint_eq(ech_trace_work(t)[up->first_work].dtype, ECH_DTYPE_BF16);
    const uint64_t wide = (uint64_t)(asked * 4 * 96 * 64) + (uint64_t)(asked * 4 * 48 * 64) + 4 * (4 * 64 + 8 * 48);
    ck_assert_uint_eq(moved(t, untyped, ECH_READ), wide);
}
END_TEST

/* What the hook tells of PyTorch's own attention, whose kernels do not name their masks: what it calls in turn has the mask that it was given, or none,
 * whatever else is so. */
START_TEST(attention_is_masked_as_the_hook_tells)
{
#define SIZES "sizes = [[4, 16, 4096, 128], [4, 16, 4096, 128], [4, 16, 4096, 128]"
    g_autoptr(EchImport) import = must_read(
        HEAD "name 1 \"fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel)\"\n"
             "name 2 \"aten::_scaled_dot_product_efficient_attention, seq = 4, " SIZES ", [], [], []]\"\n"
             "name 3 \"aten::_scaled_dot_product_efficient_attention, " SIZES ", [], [], [], [], []], types = [bf16, bf16, bf16, -, true, -, -, -]\"\n"
             "name 4 \"aten::_scaled_dot_product_efficient_attention, " SIZES ", [], [], [], [], []], types = [bf16, bf16, bf16, -, true, -, true, -]\"\n"
             "name 5 \"aten::_efficient_attention_forward, sizes = [[4, 4096, 16, 128], [4, 4096, 16, 128], [4, 4096, 16, 128], [], [], [], []]\"\n"
             "push 1 9 2\npush 1 9 3\npush 1 9 5\nkernel 5 0 0 1 64 16 4 32 4 1 0\npop 9 9\npop 9 9\npop 9 9\n"
             "push 1 9 2\npush 1 9 4\npush 1 9 5\nkernel 6 0 0 1 64 16 4 32 4 1 0\npop 9 9\npop 9 9\npop 9 9\n"
             "push 1 9 2\npush 1 9 5\nkernel 7 0 0 1 64 16 4 32 4 1 0\npop 9 9\npop 9 9\nend\n");
#undef SIZES
    const uint64_t whole = UINT64_C(4) * 4 * 16 * 4096 * 4096 * 128;
    for (size_t i = 0; i < 3; i++) {
        const EchOp *op = nth(import->trace, ECH_OP_KERNEL, i);
        ck_assert_uint_eq(ech_trace_work(import->trace)[op->first_work].count, i == 1 ? whole / 2 : whole);
    }
}
END_TEST

/* An operator that another one, of which types are told, calls in turn: vLLM's Marlin. Its arrays have the types of those that are as large there. */
START_TEST(types_of_what_is_handed_on)
{
    g_autoptr(EchImport) import =
        must_read(HEAD "name 1 \"void marlin::Marlin<1125899906910725l, 256, 1, 8, 8, true, 4, 8, false>(int4 const*)\"\n"
                       "name 2 \"vllm::marlin_gemm, sizes = [[8, 4096], [256, 12288], [], [32, 6144], []], types = [f16, s32, -, f16, -]\"\n"
                       "name 3 \"_C::marlin_gemm, sizes = [[8, 4096], [], [256, 12288], [], [32, 6144], [], [], [0], [432]]\"\n"
                       "push 1 9 2\npush 1 9 3\nkernel 5 0 0 1 108 1 1 256 1 1 0\npop 9 9\npop 9 9\n"
                       "push 1 9 3\nkernel 6 0 0 1 108 1 1 256 1 1 0\npop 9 9\nend\n");
    const EchTrace *t = import->trace;
    const EchOp *told = nth(t, ECH_OP_KERNEL, 0);
    ck_assert_uint_eq(moved(t, told, ECH_READ), 2 * 8 * 4096 + 4096 * 6144 / 2 + 2 * 32 * 6144);
    ck_assert_uint_eq(moved(t, told, ECH_WRITE), 2 * 8 * 6144);
    ck_assert_uint_eq(ech_trace_work(t)[told->first_work].count, 2ull * 8 * 4096 * 6144);
    ck_assert_uint_eq(ech_trace_work(t)[told->first_work].dtype, ECH_DTYPE_F16);
    ck_assert_uint_ne(moved(t, nth(t, ECH_OP_KERNEL, 1), ECH_READ), moved(t, told, ECH_READ));
}
END_TEST

/* What TorchInductor wrote, by the types and the elements that the hook tells: of an embedding's table and of a cache, as much as it goes over. */
START_TEST(generated_kernels_by_what_they_go_over)
{
    g_autoptr(EchImport) import =
        must_read(HEAD "name 1 \"triton_red_fused_embedding_0\"\n"
                       "name 2 \"triton_red_fused_embedding_0, sizes = [[1, 1], [32000, 4096], [1, 1, 4096], [], []], types = [s32, bf16, f32, 1, 4096]\"\n"
                       "name 3 \"triton_poi_fused_index_put_1, sizes = [[1], [1, 4096], [1, 32, 2048, 128], [], []], types = [s64, bf16, bf16, -, 4096]\"\n"
                       "name 4 \"triton_poi_fused_mul_2, sizes = [[1, 8192], [1, 4096], []], types = [bf16, bf16, 4096]\"\n"
                       "name 5 \"triton_poi_fused_mul_2, sizes = [[1, 8192], [1, 4096], []]\"\n"
                       "push 1 9 2\nkernel 5 0 0 1 1 1 1 128 1 1 0\npop 9 9\npush 1 9 3\nkernel 5 0 0 1 8 1 1 128 1 1 0\npop 9 9\n"
                       "push 1 9 4\nkernel 5 0 0 1 8 1 1 128 1 1 0\npop 9 9\npush 1 9 5\nkernel 5 0 0 1 8 1 1 128 1 1 0\npop 9 9\n"
                       "name 6 \"triton_red_fused_embedding_mm_3, sizes = [[1, 3], [32000, 4096], [4096], [4096, 4096], [3, 4096], [], []], types = [s32, "
                       "bf16, bf16, bf16, f32, 12288, 4096]\"\n"
                       "push 1 9 6\nkernel 5 0 0 1 8 1 1 128 1 1 0\npop 9 9\n"
                       /* Sizes that its indices hang on stand before the length. */
                       "name 7 \"triton_poi_fused_add_4, sizes = [[888], [888], [888], [], [], []], types = [s32, s64, pred, 25136, 201088, 888]\"\n"
                       "push 1 9 7\nkernel 5 0 0 1 8 1 1 128 1 1 0\npop 9 9\nend\n");
    static const uint64_t expected[][2] = {
        {4 + 4096 * 2, 4096 * 4}, {8 + 4096 * 2, 4096 * 2}, {8192 * 2, 4096 * 2}, {8192 * 4, 4096 * 4}, {12 + 3 * 8192 + 8192 + 4096 * 8192, 3 * 4096 * 4},
        {888 * 12, 888}};
    for (size_t i = 0; i < G_N_ELEMENTS(expected); i++) {
        const EchOp *op = nth(import->trace, ECH_OP_KERNEL, i);
        ck_assert_uint_eq(moved(import->trace, op, ECH_READ), expected[i][0]);
        ck_assert_uint_eq(moved(import->trace, op, ECH_WRITE), expected[i][1]);
        ck_assert_uint_le(op->n_work ? ech_trace_work(import->trace)[op->first_work].count : 0, 1 << 28);
    }
}
END_TEST

/* What its loads and stores move is less than the arrays that it is called with hold; all of one of which nobody knows how much. */
START_TEST(generated_kernels_move_what_they_load_and_store)
{
    g_autoptr(EchImport) import =
        must_read(HEAD "name 1 \"triton_poi_fused_index_0\"\n"
                       "name 2 \"triton_poi_fused_index_0, sizes = [[16], [128, 4096], [16, 4096], []], types = [s64, f32, out f32, 65536]\"\n"
                       "alloc 0 0 0 4096 128 3 0\nalloc 0 0 0 65536 2097152 3 0\nalloc 0 0 0 4194304 262144 3 0\n"
                       "push 1 9 2\nkernel 2 0 0 1 64 1 1 128 1 1 0\nuses 1 4096 128 1 65536 262144 2 4194304 262144\npop 3 9\n"
                       "push 4 9 2\nkernel 5 0 0 1 64 1 1 128 1 1 0\nuses 1 4096 128 1 65536 0 2 4194304 262144\npop 6 9\n"
                       "end\n");
    static const EchBytes read[] = {128 + 262144, 128 + 2097152};
    for (unsigned k = 0; k < 2; k++) {
        ck_assert_uint_eq(moved(import->trace, nth(import->trace, ECH_OP_KERNEL, k), ECH_READ), read[k]);
        ck_assert_uint_eq(moved(import->trace, nth(import->trace, ECH_OP_KERNEL, k), ECH_WRITE), 262144);
    }
}
END_TEST

/* Which arrays a generated kernel writes is told: several, one in place that has been used before, one of which it fills a part; and one that reads nothing. */
START_TEST(generated_kernels_tell_what_they_write)
{
    g_autoptr(EchImport) import =
        must_read(HEAD "name 1 \"triton_poi_fused_mul_0\"\n"
                       "name 2 \"triton_poi_fused_mul_0, sizes = [[1024], [1024], [1024], [65536], []], types = [inout f32, bf16, out f32, out bf16, 1024]\"\n"
                       "name 3 \"triton_poi_fused_full_1\"\n"
                       "name 4 \"triton_poi_fused_full_1, sizes = [[1024], []], types = [out f32, 1024]\"\n"
                       "name 5 \"triton_poi_fused_mul_0, sizes = [[1024], [1024], []], types = [bf16, out bf16, 1024]\"\n"
                       "alloc 0 0 0 4096 4096 3 0\nalloc 0 0 0 8192 2048 3 0\nalloc 0 0 0 12288 4096 3 0\nalloc 0 0 0 131072 131072 3 0\n"
                       "push 1 9 4\nkernel 2 0 0 3 1 1 1 128 1 1 0\nargs 0 4096\npop 3 9\n"
                       "push 4 9 2\nkernel 5 0 0 1 8 1 1 128 1 1 0\nargs 0 4096 1 8192 2 12288 3 131072\npop 6 9\n"
                       /* As many arrays as it is launched with, or nothing is told; nor of another kernel in its range. */
                       "push 7 9 5\nkernel 8 0 0 1 8 1 1 128 1 1 0\nargs 0 8192 1 4096 2 12288\nkernel 9 0 0 3 8 1 1 128 1 1 0\nargs 0 12288 1 8192\npop 10 9\n"
                       "end\n");
    const EchTrace *t = import->trace;
    ck_assert_uint_eq(moved(t, nth(t, ECH_OP_KERNEL, 0), ECH_READ), 0);
    ck_assert_uint_eq(moved(t, nth(t, ECH_OP_KERNEL, 0), ECH_WRITE), 4096);
    static const EchBytes expected[][2] = {{4096, 4096}, {2048, 0}, {0, 4096}, {0, 2048}}; /* read, written, of each array */
    const EchOp *op = nth(t, ECH_OP_KERNEL, 1);
    EchBytes got[4][2] = {{0}};
    for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
        const EchUse *use = &ech_trace_uses(t)[u];
        uint64_t address = ech_trace_buffers(t)[use->buffer].address;
        got[address == 4096 ? 0 : address == 8192 ? 1 : address == 12288 ? 2 : 3][use->access == ECH_WRITE] += use->bytes;
    }
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < 2; k++)
            ck_assert_msg(got[i][k] == expected[i][k], "array %zu: %" G_GUINT64_FORMAT " %s", i, got[i][k], k ? "written" : "read");
    ck_assert_uint_eq(op->n_uses, 5);
}
END_TEST

/* Bytes of what PyTorch launches, by hand. */
START_TEST(operators)
{
    static const struct {
        const char *range, *kernel, *grid;
        EchBytes read, written;
        uint64_t operations;
    } cases[] = {
        /* bf16 read, f32 written */
        {"aten::copy_, sizes = [[8, 1024], [8, 1024], []]",
         "void at::native::vectorized_elementwise_kernel<4, at::native::converting_copy_kernel_cuda<c10::BFloat16, float>(at::TensorIteratorBase&)"
         "::{lambda(c10::BFloat16)#1}, std::array<char*, 2ul>, false>(int)",
         "8 1 1 128 1 1 0", 8192 * 2, 8192 * 4, 0},
        /* three lists of 2 x 1000 read, one written; a list is named tensor by tensor */
        {"aten::_foreach_addcmul_, sizes = [[1000], [1000], [1000], [1000], [1000], [1000], []]",
         "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::TensorListMetadata<3>, "
         "at::native::(anonymous namespace)::PointwiseOpScalarFunctor<float, 3, 3, 0>, std::multiplies<float>, float>(int)",
         "2 1 1 512 1 1 0", 3 * 2000 * 4, 2000 * 4, 0},
        {"aten::_fused_adamw_, sizes = [[1000], [1000], [1000], [1000], [], [], [], [], [], []]",
         "void at::native::multi_tensor_apply_kernel<at::native::FusedOptimizerTensorListMetadata<4>, at::native::FusedAdamMathFunctor<float, float, 4, "
         "(at::native::ADAM_MODE)1, false>, float const*>(int)",
         "1 1 1 512 1 1 0", 4 * 1000 * 4, 3 * 1000 * 4, 0},
        /* rates are doubles, elements are not */
        {"aten::_fused_adagrad_, sizes = [[1000], [1000], [1000], []]",
         "void at::native::multi_tensor_apply_kernel<at::native::FusedOptimizerTensorListMetadata<3>, at::native::FusedAdagradMathFunctor<float>, float "
         "const*, double, double, double, double, bool>(int)",
         "1 1 1 512 1 1 0", 3 * 1000 * 4, 2 * 1000 * 4, 0},
        {"aten::_fused_sgd_",
         "void at::native::multi_tensor_apply_kernel<at::native::FusedOptimizerTensorListMetadata<3>, at::native::FusedSgdMathFunctor<c10::Half, 3>, double, "
         "double, float const*, double, bool>(int)",
         "2 1 1 512 1 1 0", 3 * 2 * 65536 * 2, 2 * 2 * 65536 * 2, 0},
        /* a row kept in registers, whatever its name begins with */
        {"aten::_fused_rms_norm, sizes = [[64, 768], [], [768], []]",
         "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float, true>(int)", "64 1 1 32 4 1 24", (64 * 768 + 768) * 4,
         64 * 768 * 4, 64 * 768},
        /* the rows that are picked, by threads of 16 bytes; one mask of bytes; one index an element */
        {"aten::index, sizes = [[1000, 64], [128]]", "void at::native::vectorized_gather_kernel<16, long>(char*)", "128 1 1 16 1 1 0", 128 * 256, 128 * 256, 0},
        /* a row of each of 8 heads into a cache of 136 */
        {"aten::index_copy_, sizes = [[1, 8, 136, 128], [], [1], [1, 8, 1, 128]], types = [bf16, -, s64, bf16]",
         "void at::native::index_elementwise_kernel<128, 4, at::native::index_copy_kernel_impl<at::native::OpaqueType<2> >(at::TensorIterator&, long, long, "
         "long)::{lambda(int)#1}>(long)",
         "2 1 1 128 1 1 0", 1024 * 2 + 8, 1024 * 2, 0},
        {"aten::scatter_add_, sizes = [[100, 256], [], [1000, 256], [1000, 256]]",
         "void at::native::vectorized_scatter_kernel<at::native::ScatterAddOp, 16, float, long>(float*)", "250 1 1 256 1 1 0", 1000 * 1024, 1000 * 1024, 0},
        /* rows where a mask is set: a block does 512 elements, at most */
        {"aten::index, sizes = [[1, 1603, 1024], [1, 1603]]",
         "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<at::native::index_kernel_impl<at::native::OpaqueType<4> > > >(int)",
         "3200 1 1 128 1 1 0", 3200 * 512 * 4 + 1603 * 8, 3200 * 512 * 4, 3200 * 512},
        {"aten::where, sizes = [[1024], [1024], [1024]]",
         "void at::native::vectorized_elementwise_kernel<4, at::native::where_kernel_impl(float), std::array<char*, 4ul>, false>(int)", "1 1 1 128 1 1 0",
         1024 * (1 + 4 + 4), 1024 * 4, 0},
        {"aten::scatter_, sizes = [[64, 32], [], [64, 1], []]", "void at::native::_scatter_gather_elementwise_kernel<128, 8, float>(int)", "1 1 1 128 1 1 0",
         64 * 8 + 64 * 64, 64 * 64, 0},
        /* rows of 8 experts, each by its own matrix; and the gradient of these: 8 of 32 x 16 */
        {"aten::_grouped_mm, sizes = [[64, 32], [8, 32, 16], [8], [], []]", "cutlass::device_kernel<bfloat16_t>", "132 1 1 384 1 1 215040",
         (64 * 32 + 8 * 32 * 16) * 2, 64 * 16 * 2, 2 * 64 * 32 * 16},
        {"aten::_grouped_mm, sizes = [[32, 64], [64, 16], [8], [], []]", "cutlass::device_kernel<bfloat16_t>", "132 1 1 384 1 1 215040",
         (32 * 64 + 64 * 16) * 2, 8 * 32 * 16 * 2, 2 * 64 * 32 * 16},
        /* the same of 8 bits, behind scales of rows and columns; results of 16 bits */
        {"aten::_scaled_grouped_mm, sizes = [[64, 32], [8, 32, 16], [64], [8, 16], [8], [], [], [], []]", "cutlass::device_kernel<float_e4m3_t>",
         "58 2 1 384 1 1 215552", 64 * 32 + 8 * 32 * 16, 64 * 16 * 2, 2 * 64 * 32 * 16},
        {"aten::_scaled_grouped_mm, sizes = [[32, 64], [64, 16], [256], [128], [8], [], [], [], []]", "cutlass::device_kernel<float_e4m3_t>",
         "58 2 1 384 1 1 215552", 32 * 64 + 64 * 16, 8 * 32 * 16 * 2, 2 * 64 * 32 * 16},
        /* inputs and an output of as many elements, however each is shaped */
        {"triton_poi_fused_gelu_7, sizes = [[64, 32], [8, 8, 32], []]", "triton_poi_fused_gelu_7", "2 1 1 128 1 1 0", 2048 * 4, 2048 * 4, 2048},
        /* all that is concatenated, read and written */
        {"aten::cat, sizes = [[64, 32], [64, 96], []]", "void at::native::CatArrayBatchedCopy<at::native::OpaqueType<2u>, unsigned int, 4, 64, 64>(int)",
         "16 2 1 512 1 1 0", 64 * 128 * 2, 64 * 128 * 2, 0},
        /* 4 x 2 x 12 x 1024^2 x 64, half of it and half a block of keys more */
        {"aten::_flash_attention_forward, sizes = [[2, 1024, 12, 64], [2, 1024, 12, 64], [2, 1024, 12, 64], [], [], [], [], [], [], [], []]",
         "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t, Flash_kernel_traits<64, 128, 128, "
         "4, "
         "cutlass::bfloat16_t> >, false, true, false, false, true, true, false, false>(pytorch_flash::Flash_fwd_params)",
         "8 2 12 128 1 1 49152", 3 * 2 * 1024 * 768 * 2, 2 * 1024 * 768 * 2, UINT64_C(4) * 2 * 12 * 1024 * 1024 * 64 / 2 * 9 / 8},
        /* the same two sequences packed one behind the other, which only where they begin tells */
        {"aten::_flash_attention_forward, sizes = [[2048, 12, 64], [2048, 12, 64], [2048, 12, 64], [3], [3], [], [], [], [], [], []]",
         "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t, Flash_kernel_traits<64, 128, 128, "
         "4, "
         "cutlass::bfloat16_t> >, false, true, false, false, true, true, false, false>(pytorch_flash::Flash_fwd_params)",
         "8 2 12 128 1 1 49152", 3 * 2048 * 768 * 2 + 2 * 3 * 2, 2048 * 768 * 2, UINT64_C(4) * 2 * 12 * 1024 * 1024 * 64 / 2 * 9 / 8},
        /* one element and one target a row */
        {"aten::nll_loss_forward, sizes = [[8192, 50304], [8192], [], [], []]",
         "void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(float*)", "1 1 1 512 1 1 4096", 8192 * (8 + 4), 8,
         0},
        /* a gradient and an input; a row of sums */
        {"aten::native_layer_norm_backward, sizes = [[64, 768], [64, 768], [], [64, 1], [64, 1], [768], [768], []]",
         "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate<float, float, 32u, 32u, 256u, false, true, false>(long)",
         "24 1 1 32 32 1 8448", (2 * 64 * 768 + 2 * 64 + 2 * 768) * 4, 768 * 4, 64 * 768},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(EchImport) import = NULL;
        EchOp op = priced(cases[i].range, cases[i].kernel, cases[i].grid, &import);
        ck_assert_msg(moved(import->trace, &op, ECH_READ) == cases[i].read, "%s reads %" G_GUINT64_FORMAT, cases[i].range, moved(import->trace, &op, ECH_READ));
        ck_assert_msg(moved(import->trace, &op, ECH_WRITE) == cases[i].written, "%s writes %" G_GUINT64_FORMAT, cases[i].range,
                      moved(import->trace, &op, ECH_WRITE));
        if (cases[i].operations > 0)
            ck_assert_uint_eq(ech_trace_work(import->trace)[op.first_work].count, cases[i].operations);
    }
}
END_TEST

static const EchUse *use_of(const EchTrace *t, const EchOp *op, uint64_t address, EchAccess access)
{
    for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
        const EchUse *use = &ech_trace_uses(t)[u];
        if (use->access == access && ech_trace_buffers(t)[use->buffer].address == address)
            return use;
    }
    return NULL;
}

static bool uses(const EchTrace *t, const EchOp *op, uint64_t address, bool reads, bool writes)
{
    return (use_of(t, op, address, ECH_READ) != NULL) == reads && (use_of(t, op, address, ECH_WRITE) != NULL) == writes;
}

/* By what a kernel's name says of its parameters, and by what was used before. Arrays of 4096 bytes at 4096, 8192... */
/* A sparse matrix has the sizes of a dense one, of which nothing lies anywhere: a kernel moves no more than what it is given. One that is given memory of which
 * nothing is known is left as it is. */
START_TEST(sizes_of_sparse_matrices)
{
    g_autoptr(EchImport) import =
        must_read(HEAD "name 1 \"aten::sum, seq = 0, sizes = [[100000, 100000]]\"\n"
                       "name 2 \"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float, "
                       "at::native::sum_functor<float, float, float> >, unsigned int, float, 4, 4> >\"\n"
                       "alloc 1 0 0 4096 40000 3 0\nalloc 2 0 0 65536 60000 3 0\n"
                       "push 10 1 1\nkernel 12 0 0 2 100 1 1 256 1 1 0\nargs 0 4096 1 65536\npop 13 1\n"
                       "push 20 1 1\nkernel 22 0 0 2 100 1 1 256 1 1 0\nargs 0 4096 1 7\npop 23 1\nend\n");
    const EchTrace *t = import->trace;
    const EchOp *cut = nth(t, ECH_OP_KERNEL, 0), *left = nth(t, ECH_OP_KERNEL, 1);
    ck_assert_uint_le(moved(t, cut, ECH_READ), 100000);
    ck_assert_uint_le(moved(t, cut, ECH_WRITE), 100000);
    ck_assert_uint_le(ech_trace_work(t)[cut->first_work].count, 25000);
    EchGpuLaunch shape;
    ck_assert(ech_gpu_launch_parse(ech_trace_string(t, cut->launch), &shape));
    ck_assert_uint_le(shape.elements, 25000);
    ck_assert_uint_eq(moved(t, left, ECH_READ), UINT64_C(40000000000));
}
END_TEST

/* Rows of 8 experts: their matrices are found by addresses in arrays of their own, which are all that the kernel is given. */
START_TEST(operands_by_address)
{
    g_autoptr(EchImport) import = must_read(HEAD "name 1 \"aten::_grouped_mm, seq = 0, sizes = [[64, 512], [8, 512, 256], [8], [], []]\"\n"
                                                 "name 2 \"cutlass::device_kernel<bfloat16_t>\"\n"
                                                 "alloc 1 0 0 4096 512 3 0\nalloc 2 0 0 8192 512 3 0\n"
                                                 "push 10 1 1\nkernel 12 0 0 2 132 1 1 384 1 1 215040\nargs 0 4096 1 8192\npop 13 1\nend\n");
    ck_assert_uint_eq(moved(import->trace, nth(import->trace, ECH_OP_KERNEL, 0), ECH_READ), (64 * 512 + 8 * 512 * 256) * 2);
}
END_TEST

/* FSDP's copy of what it gathered to where its weights lie, by addresses that lie in an array of their own: it fills what is new, all of it, and what moves is
 * what the operator says. */
START_TEST(copies_to_places_of_their_own)
{
    g_autoptr(EchImport) import =
        must_read(HEAD "name 1 \"aten::split_with_sizes_copy, sizes = [[8, 1024], [], [], [8, 768], [8, 256]]\"\n"
                       "name 2 \"at::native::detail::split_with_sizes_copy_out_contiguous_no_cast_kernel(char**, char**, long*, long*, long*, long, long)\"\n"
                       "name 3 \"aten::add, sizes = [[8, 768], [8, 768]]\"\n"
                       "name 4 \"" ADD "\"\n"
                       "alloc 1 0 0 4096 4096 3 0\n" /* older, and never used */
                       "alloc 2 0 0 65536 24576 3 0\nalloc 3 0 0 131072 8192 3 0\nalloc 4 0 0 196608 512 3 0\nalloc 5 0 0 262144 24576 3 0\n"
                       "set 6 0 0 512\nuses 2 196608 512\n"
                       "set 7 0 0 24576\nuses 2 262144 24576\n"
                       "push 20 9 1\nkernel 21 0 0 2 64 1 1 128 1 1 0\nargs 0 196608 1 196632\npop 22 9\n"
                       "push 30 9 3\nkernel 31 0 0 4 48 1 1 128 1 1 0\nargs 2 262144 2 65536 2 65536\npop 32 9\nend\n");
    const EchTrace *t = import->trace;
    const EchOp *op = nth(t, ECH_OP_KERNEL, 2);
    ck_assert(uses(t, op, 65536, false, true) && uses(t, op, 131072, false, true));
    ck_assert_uint_eq(use_of(t, op, 65536, ECH_WRITE)->bytes, 24576);
    ck_assert_uint_eq(use_of(t, op, 131072, ECH_WRITE)->bytes, 8192);
    EchBytes read = 0;
    for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++)
        read += ech_trace_uses(t)[u].access == ECH_READ ? ech_trace_uses(t)[u].bytes : 0;
    ck_assert_uint_eq(read, 32768);
    op = nth(t, ECH_OP_KERNEL, 3); /* what was filled is read */
    ck_assert(uses(t, op, 65536, true, false) && uses(t, op, 262144, false, true));
}
END_TEST

START_TEST(arrays_that_kernels_use)
{
    g_autoptr(EchImport) import = must_read(
        HEAD "name 1 \"" ADD "\"\n"
             "name 2 \"void norm<float, float>(int, float const*, float*, Params)\"\n"
             "name 3 \"triton_poi_fused_0\"\n"
             "name 4 \"void at::native::multi_tensor_apply_kernel<at::native::TensorListMetadata<3>, at::native::PointwiseOpScalarFunctor<float, 3, "
             "3, 0>, std::multiplies<float>, float>(at::native::TensorListMetadata<3>, at::native::PointwiseOpScalarFunctor<float, 3, 3, 0>)\"\n"
             "name 5 \"void at::native::multi_tensor_apply_kernel<at::native::FusedOptimizerTensorListMetadata<4>, "
             "at::native::FusedAdamMathFunctor<float, float, 4, (at::native::ADAM_MODE)1, false>, float const*>"
             "(at::native::FusedOptimizerTensorListMetadata<4>, int)\"\n"
             "alloc 1 0 0 4096 4096 3 0\nalloc 2 0 0 8192 4096 3 0\nalloc 3 0 0 12288 4096 3 0\nalloc 4 0 0 16384 4096 3 0\nalloc 5 0 0 20480 4096 3 0\n"
             "kernel 10 0 0 1 1 1 1 128 1 1 0\nargs 2 4096 2 8192 2 12288\n" /* the result first */
             "kernel 11 0 0 1 1 1 1 128 1 1 0\nargs 2 4096 2 4096 2 9000\n"  /* in place, and the middle of another */
             "kernel 12 0 0 2 1 1 1 128 1 1 0\nargs 1 4096 2 16384 3 8192\n" /* a result that nothing used before */
             "kernel 13 0 0 2 1 1 1 128 1 1 0\nargs 1 4096 2 16384\n"        /* none: what may be written is */
             "kernel 14 0 0 3 1 1 1 128 1 1 0\nargs 0 4096 1 20480\n"        /* a name that says nothing */
             "kernel 15 0 0 4 2 1 1 512 1 1 0\nargs 0 4096 0 8192 0 12288 0 16384 0 20480 0 20488\n"
             "kernel 16 0 0 5 1 1 1 512 1 1 0\nargs 0 4096 0 8192 0 12288 0 16384 0 20480\n"
             "kernel 17 0 0 3 1 1 1 128 1 1 0\nargs\n"
             "kernel 18 0 0 3 1 1 1 128 1 1 0\n"
             "free 19 0 0 4096 4096 3 0\n"
             "kernel 20 0 0 3 1 1 1 128 1 1 0\nargs 0 4096\nend\n");
    const EchTrace *t = import->trace;
    const EchOp *op = nth(t, ECH_OP_KERNEL, 0);
    ck_assert(uses(t, op, 4096, false, true) && uses(t, op, 8192, false, true) && uses(t, op, 12288, false, true));
    op = nth(t, ECH_OP_KERNEL, 1);
    ck_assert(uses(t, op, 4096, true, true) && uses(t, op, 8192, true, false));
    ck_assert_uint_eq(use_of(t, op, 8192, ECH_READ)->bytes, 12288 - 9000);
    op = nth(t, ECH_OP_KERNEL, 2);
    ck_assert(uses(t, op, 4096, true, false) && uses(t, op, 16384, false, true) && uses(t, op, 8192, true, false));
    op = nth(t, ECH_OP_KERNEL, 3);
    ck_assert(uses(t, op, 4096, true, false) && uses(t, op, 16384, true, true));
    op = nth(t, ECH_OP_KERNEL, 4);
    ck_assert(uses(t, op, 4096, true, false) && uses(t, op, 20480, false, true));
    op = nth(t, ECH_OP_KERNEL, 5); /* three lists of two */
    ck_assert(uses(t, op, 4096, true, true) && uses(t, op, 8192, true, true) && uses(t, op, 12288, true, false) && uses(t, op, 20480, true, false));
    op = nth(t, ECH_OP_KERNEL, 6); /* parameters, gradients, state, steps */
    ck_assert(uses(t, op, 4096, true, true) && uses(t, op, 8192, true, false) && uses(t, op, 12288, true, true) && uses(t, op, 20480, true, false));
    ck_assert_uint_eq(ech_diag_count(import->diag, "kernels_of_untold_arrays"), 1);
    ck_assert_uint_eq(ech_diag_count(import->diag, "uses_of_no_array"), 1);
    must_fail(HEAD "args 0 1\nend\n", ":4: what work uses; expected the work before");
    must_fail(HEAD "set 1 0 0 8\nuses 1 4096\nend\n", ":5: uses; expected three numbers each");
    must_fail(HEAD "set 1 0 0 8\nargs 1\nend\n", ":5: args; expected two numbers each");
    must_fail(HEAD "set 1 0 0 8\nargs x\nend\n", ":5: a args line; expected numbers");
}
END_TEST

/* Pinned memory is read where it lies: as much as is told, or of the bytes that are known what the device's arrays leave; where none are known nothing is. */
static const struct {
    const char *lines;
    size_t pins;
} pinned[] = {{"alloc 2 0 0 8192 8192 2 0\n", 1}, /* by the driver; where it lay, and part of which was pinned before */
              {"pin 2 0 4096 1\nregistered 2 0 8192 4096\nunregistered 2 0 8192 4096\npin 2 0 8192 1\nregistered 2 0 8192 8192\n", 2}};

START_TEST(kernels_that_use_the_hosts_memory)
{
    g_autofree char *text = g_strconcat(HEAD "name 1 \"cublasLtMatmul\"\nname 2 \"product=1x64x64x64 operand_bytes=2 class=product\"\nname 3 \"bf16\"\n"
                                             "name 4 \"moves\"\nalloc 1 0 0 4096 4096 3 0\n",
                                        pinned[_i].lines,
                                        "alloc 3 0 0 16384 8192 3 0\n"
                                        "library 6 0 0 1 2 9000 8192 524288 3\nuses 1 8192 8192 1 4096 4096 2 16384 8192\n"
                                        "library 7 0 0 1 2 4096 8192 524288 3\nuses 1 4096 4096 2 8192 8192\n"
                                        "kernel 10 0 0 4 1 1 1 128 1 1 0\nargs 0 8192 1 16384\n"
                                        "kernel 11 0 0 4 1 1 1 128 1 1 0\nuses 1 8192 32 2 16384 64\nend\n",
                                        NULL);
    g_autoptr(EchImport) import = must_read(text);
    const EchTrace *t = import->trace;
    const size_t first = pinned[_i].pins;
    const EchOp *reads = nth(t, ECH_OP_KERNEL, first), *writes = nth(t, ECH_OP_KERNEL, first + 1), *unknown = nth(t, ECH_OP_KERNEL, first + 2),
                *told = nth(t, ECH_OP_KERNEL, first + 3);
    ck_assert_uint_eq(use_of(t, reads, 4096, ECH_READ)->bytes, 4096);
    ck_assert_uint_eq(use_of(t, reads, 8192, ECH_READ)->bytes, 9000 - 4096);
    ck_assert_uint_eq(moved(t, reads, ECH_READ), 9000);
    ck_assert(uses(t, writes, 8192, false, true));
    ck_assert(uses(t, unknown, 8192, false, false) && uses(t, unknown, 16384, true, true));
    ck_assert_uint_eq(use_of(t, told, 8192, ECH_READ)->bytes, 32);
    ck_assert_uint_eq(moved(t, told, ECH_WRITE), 64);
    ck_assert_uint_eq(ech_diag_count(import->diag, "kernels_over_the_link"), 3);
    ck_assert_uint_eq(ech_diag_count(import->diag, "kernels_over_the_link_left_out"), 1);
    ck_assert(ech_test_says(import->diag, "3 of the capture's kernels use pinned memory of the host where it lies"));
    ck_assert(ech_test_says(import->diag, "1 of the capture's kernels are given pinned memory of the host, and"));
}
END_TEST

/* TensorFlow's: generated ones have their result last, Eigen's assignments first, whatever was used before. */
/* Operators are ranges of TensorFlow's: whose arrays and kernels these are; they tell no steps. What the program told the pool of TensorFlow's is told on. */
#define TENSORFLOW                                                                                                                                             \
    HEAD "name 1 \"Mul_GPU_DT_FLOAT_DT_FLOAT_kernel\"\n"                                                                                                       \
         "name 2 \"tf::net/dense_1/MatMul (MatMul)\"\nname 3 \"tf::gradient_tape/net/dense_1/Relu/ReluGrad (ReluGrad)\"\nname 4 \"train_step 0\"\n"            \
         "name 5 \"train_step 1\"\nname 6 \"tf::x (_Send)\"\nmark 1 7 4\npush 2 8 2\npush 2 9 6\nthread 8\nalloc 3 0 0 4096 4096 3 1\n"                        \
         "set 4 0 0 4096\nuses 2 4096 4096\nkernel 5 0 0 1 1 1 1 128 1 1 0\nargs 1 4096\npop 6 9\npop 6 8\nmark 7 7 5\npush 8 8 3\n"                           \
         "kernel 9 0 0 1 1 1 1 128 1 1 0\nargs 1 4096\npop 10 8\n"

START_TEST(what_tensorflow_is_told_and_tells)
{
    static const struct {
        const char *line, *allocator;
    } cases[] = {{"", "tensorflow"},
                 {"pool_told 0 1\n", "tensorflow:allow_growth"},
                 {"pool_told 2147483648 0\n", "tensorflow:memory_limit=2048"},
                 {"pool_told 2147483648 1\n", "tensorflow:memory_limit=2048,allow_growth"},
                 {"pool_wanted 1\n", "cuda_async"}};
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *text = g_strconcat(TENSORFLOW, cases[i].line, "end\n", NULL);
        g_autoptr(EchImport) import = must_read(text);
        const char *release;
        g_autofree char *allocator = ech_recorded_allocator(import->trace, &release);
        ck_assert_str_eq(allocator, cases[i].allocator);
    }
    g_autoptr(EchImport) import = must_read(TENSORFLOW "end\n");
    const EchTrace *t = import->trace;
    ck_assert_str_eq(ech_trace_string(t, ech_trace_buffers(t)[0].name), "net/dense_1/MatMul (MatMul)");
    size_t n;
    g_autofree EchTraceStep *steps = ech_trace_steps(t, &n);
    ck_assert_uint_eq(n, 2);
    ck_assert_str_eq(ech_trace_string(t, ech_trace_ops(t)[steps[1].mark].name), "train_step 1");
}
END_TEST

START_TEST(arrays_that_tensorflow_uses)
{
    g_autoptr(EchImport) import =
        must_read(HEAD "name 1 \"Mul_GPU_DT_FLOAT_DT_FLOAT_kernel\"\n"
                       "name 2 \"main_kernel\"\n"
                       "name 3 \"void Eigen::internal::EigenMetaKernel<Eigen::TensorEvaluator<Eigen::TensorAssignOp<A, B> const, Eigen::GpuDevice>, "
                       "int>(Eigen::TensorEvaluator<Eigen::TensorAssignOp<A, B> const, Eigen::GpuDevice>, int)\"\n"
                       "alloc 1 0 0 4096 4096 3 0\nalloc 2 0 0 8192 4096 3 0\nalloc 3 0 0 12288 4096 3 0\n"
                       "set 4 0 0 4096\nuses 2 4096 4096\nset 5 0 0 4096\nuses 2 8192 4096\nset 6 0 0 4096\nuses 2 12288 4096\n"
                       "kernel 10 0 0 1 1 1 1 128 1 1 0\nargs 1 4096 2 4096 6 8192 7 8192 11 12288 12 12288\n"
                       "kernel 11 0 0 1 1 1 1 128 1 1 0\nargs 1 4096 2 4096 6 8192 7 8192 11 4096 12 4096\n" /* in place */
                       "kernel 12 0 0 2 1 1 1 128 1 1 0\nargs 1 4096 2 4096 6 4096 7 4096\n"
                       "kernel 13 0 0 2 1 1 1 128 1 1 0\nargs 0 4096 1 8192\n" /* of another maker: what may be written is */
                       "kernel 14 0 0 3 1 1 1 128 1 1 0\nargs 0 12288 0 4096 0 8192\n"
                       "kernel 15 0 0 3 1 1 1 128 1 1 0\nargs 0 12288 0 4096 0 12288\nend\n");
    const EchTrace *t = import->trace;
    const EchOp *op = nth(t, ECH_OP_KERNEL, 3);
    ck_assert(uses(t, op, 4096, true, false) && uses(t, op, 8192, true, false) && uses(t, op, 12288, false, true));
    ck_assert_uint_eq(moved(t, op, ECH_READ), 8192);
    op = nth(t, ECH_OP_KERNEL, 4);
    ck_assert(uses(t, op, 4096, true, true) && uses(t, op, 8192, true, false));
    op = nth(t, ECH_OP_KERNEL, 5);
    ck_assert(uses(t, op, 4096, true, true));
    op = nth(t, ECH_OP_KERNEL, 6);
    ck_assert(uses(t, op, 4096, true, true) && uses(t, op, 8192, true, true));
    op = nth(t, ECH_OP_KERNEL, 7);
    ck_assert(uses(t, op, 4096, true, false) && uses(t, op, 8192, true, false) && uses(t, op, 12288, false, true));
    op = nth(t, ECH_OP_KERNEL, 8);
    ck_assert(uses(t, op, 4096, true, false) && uses(t, op, 12288, true, true));
}
END_TEST

/* What moves is as before; of its arrays as far as they go, the rest of unknown place. Copies have both ends or none. */
START_TEST(arrays_of_library_calls_copies_and_collectives)
{
    g_autoptr(EchImport) import = must_read(HEAD "name 1 \"cublasLtMatmul\"\nname 2 \"product=1x64x64x64 operand_bytes=2 class=product\"\nname 3 \"bf16\"\n"
                                                 "name 4 \"all-reduce\"\n"
                                                 "alloc 1 0 0 4096 4096 3 0\nalloc 2 0 0 8192 4096 3 0\nalloc 3 0 0 16384 8192 3 0\n"
                                                 "copy 4 0 0 4096 1 3 1\nuses 2 4096 4096\n"
                                                 "set 5 0 0 4096\nuses 2 8192 4096\n"
                                                 "library 6 0 0 1 2 9000 2000 524288 3\nuses 1 4096 4096 1 8192 4096 3 16384 8192\n"
                                                 "collective 7 0 0 4 8192 8 1\nuses 1 16384 8192 2 16384 8192\n"
                                                 "copy 8 0 0 100 3 1 1\nend\n");
    const EchTrace *t = import->trace;
    const EchOp *in = nth(t, ECH_OP_COPY, 0), *out = nth(t, ECH_OP_COPY, 1), *product = nth(t, ECH_OP_KERNEL, 1);
    ck_assert(uses(t, in, 4096, false, true) && in->n_uses == 2 && out->n_uses == 0);
    ck_assert(uses(t, nth(t, ECH_OP_KERNEL, 0), 8192, false, true));
    ck_assert_uint_eq(moved(t, product, ECH_READ), 9000);
    ck_assert_uint_eq(moved(t, product, ECH_WRITE), 2000);
    ck_assert_uint_eq(use_of(t, product, 4096, ECH_READ)->bytes, 9000 * 4096 / 16384);
    ck_assert(uses(t, product, 16384, true, true) && uses(t, nth(t, ECH_OP_COLLECTIVE, 0), 16384, true, true));
}
END_TEST

/* Words count how often each of those met has been met before; what is sent says how much may be under way. */
START_TEST(whom_collectives_meet)
{
    g_autoptr(EchImport) import = must_read(HEAD "rank 1 3 8\nname 1 \"all-reduce\"\nname 2 \"permute\"\n"
                                                 "collective 7 0 0 1 8192 8 1\nmeets 171\nuses 1 16384 8192\n"
                                                 "collective 8 0 0 2 8192 2 1\nmeets 5 6\nsends 4096 7\n"
                                                 "collective 9 0 0 1 8192 8 0\nmeets 171\nend\n");
    const EchTrace *t = import->trace;
    ck_assert_str_eq(ech_trace_string(t, nth(t, ECH_OP_COLLECTIVE, 0)->launch), "devices=8 stride=1 meets=ab/0");
    ck_assert_str_eq(ech_trace_string(t, nth(t, ECH_OP_COLLECTIVE, 1)->launch), "devices=2 stride=1 meets=5/0,6/0,7/0>4096");
    ck_assert_str_eq(ech_trace_string(t, nth(t, ECH_OP_COLLECTIVE, 2)->launch), "meets=ab/1");
    ck_assert_str_eq(ech_trace_get_property(t, "rank"), "3");
    ck_assert_str_eq(ech_trace_get_property(t, "ranks"), "8");
    must_fail(HEAD "meets 5\nend\n", ":4: who meets; expected the collective before");
    must_fail(HEAD "set 1 0 0 8\nmeets 5\nend\n", ":5: who meets; expected the collective before");
    must_fail(HEAD "name 1 \"all-reduce\"\ncollective 7 0 0 1 8192 8 1\nsends 5\nend\n", ":6: who meets; expected the collective before, and numbers");
    must_fail(HEAD "name 1 \"all-reduce\"\ncollective 7 0 0 1 8192 8 1\nmeets 5\nmeets 6\nend\n", ":7: who meets, once more; expected one such line");
}
END_TEST

/* A host that tells others something, and one that hears it: each waits for what was waited for before, and what is asked for after it waits for it. */
START_TEST(hosts_tell_and_hear)
{
    g_autoptr(EchImport) import = must_read(HEAD "name 1 \"barrier\"\nset 1 0 0 8\ntells 2 1 171\nhears 3 1 171\nset 4 0 0 8\nend\n");
    const EchTrace *t = import->trace;
    const EchOp *tells = nth(t, ECH_OP_WAIT, 0), *hears = nth(t, ECH_OP_WAIT, 1), *after = nth(t, ECH_OP_KERNEL, 1);
    ck_assert_str_eq(ech_trace_string(t, tells->launch), "meets=ab/0>1");
    ck_assert_str_eq(ech_trace_string(t, hears->launch), "meets=ab/0<");
    ck_assert_str_eq(ech_trace_string(t, hears->name), "barrier");
    ck_assert(tells->queue == hears->queue && ech_trace_queues(t)[hears->queue].kind == ECH_QUEUE_HOST);
    ck_assert_uint_eq(tells->n_deps + hears->n_deps, 0); /* the GPU is not waited for */
    ck_assert_uint_eq(after->n_deps, 1);
    ck_assert_ptr_eq(&ech_trace_ops(t)[ech_trace_deps(t)[after->first_dep].op], hears);
    must_fail(HEAD "tells 2 1 171\nend\n", ":4:");
}
END_TEST

/* Three steps of a program: a parameter, its optimizer's state, an activation of each step, its gradient, a temporary; and the module of each. And of one that
 * gives its optimizer a closure, so that all of a step but its backward pass, in a thread of its own, is within the optimizer's range. */
START_TEST(roles_and_modules_of_arrays)
{
    bool closure = _i == 1;
    g_autoptr(GString) text = g_string_new(HEAD "name 1 \"k(float const*, float*)\"\nname 2 \"nn.Module: layers.0.up (Linear)\"\nname 3 \"aten::mm, seq = 5\"\n"
                                                "name 4 \"autograd::engine::evaluate_function: MmBackward0\"\nname 5 \"MmBackward0, seq = 5\"\n"
                                                "name 6 \"Optimizer.step#Adam.step\"\nname 7 \"k(float const*, float const*, float*)\"\n"
                                                "name 8 \"aten::_fused_adam_\"\nalloc 1 0 0 4096 4096 3 0\nset 2 0 0 4096\nuses 2 4096 4096\n");
    for (int step = 0; step < 3; step++) {
        int at = 100 * (step + 1);
        if (closure)
            g_string_append_printf(text, "alloc %d 0 0 262144 4096 3 0\npush %d 9 6\n", at, at);
        g_string_append_printf(text,
                               "alloc %d 0 0 65536 4096 3 0\nalloc %d 0 0 131072 4096 3 0\n"
                               "push %d 9 2\npush %d 9 3\nkernel %d 0 0 1 1 1 1 32 1 1 0\nargs 0 4096 1 65536\n"
                               "kernel %d 0 0 1 1 1 1 32 1 1 0\nargs 0 4096 1 131072\npop %d 9\npop %d 9\n"
                               "free %d 0 0 131072 4096 3 0\nalloc %d 0 0 196608 4096 3 0\n",
                               at, at, at + 1, at + 2, at + 3, at + 4, at + 5, at + 6, at + 7, at + 8);
        if (closure) /* the loss */
            g_string_append_printf(text, "kernel %d 0 0 1 1 1 1 32 1 1 0\nargs 0 65536 1 262144\n", at + 9);
        g_string_append_printf(text,
                               "push %d 8 4\npush %d 8 5\nkernel %d 0 0 1 1 1 1 32 1 1 0\nargs 0 65536 1 196608\npop %d 8\npop %d 8\n"
                               "free %d 0 0 65536 4096 3 0\n",
                               at + 10, at + 11, at + 12, at + 13, at + 14, at + 15);
        if (closure)
            g_string_append_printf(text, "free %d 0 0 262144 4096 3 0\n", at + 15);
        else
            g_string_append_printf(text, "push %d 9 6\n", at + 16);
        if (step == 0)
            g_string_append(text, "alloc 117 0 0 8192 4096 3 0\nset 118 0 0 4096\nuses 2 8192 4096\n");
        g_string_append_printf(text,
                               "push %d 9 8\nkernel %d 0 0 7 1 1 1 32 1 1 0\nargs 0 196608 1 8192 2 4096\npop %d 9\npop %d 9\n"
                               "free %d 0 0 196608 4096 3 0\n",
                               at + 19, at + 20, at + 21, at + 21, at + 22);
    }
    g_string_append(text, "end\n");
    g_autoptr(EchImport) import = must_read(text->str);
    static const struct {
        uint64_t address;
        EchRole role;
        const char *module;
    } expected[] = {{4096, ECH_ROLE_PARAMETER, "nn.Module: layers.0.up (Linear)"},
                    {8192, ECH_ROLE_OPTIMIZER, ""},
                    {65536, ECH_ROLE_ACTIVATION, "nn.Module: layers.0.up (Linear)"},
                    {131072, ECH_ROLE_TEMPORARY, "nn.Module: layers.0.up (Linear)"},
                    {196608, ECH_ROLE_GRADIENT, "nn.Module: layers.0.up (Linear)"}};
    const EchTrace *t = import->trace;
    size_t n = 0;
    for (size_t b = 0; b < ech_trace_n_buffers(t); b++)
        for (size_t i = 0; i < G_N_ELEMENTS(expected); i++)
            if (ech_trace_buffers(t)[b].address == expected[i].address) {
                const char *stack = ech_trace_string(t, ech_trace_buffers(t)[b].stack);
                ck_assert_msg(ech_trace_buffers(t)[b].role == expected[i].role, "%s: %s", ech_role_name(ech_trace_buffers(t)[b].role), stack);
                ck_assert_msg(*expected[i].module ? strstr(stack, expected[i].module) != NULL : !strstr(stack, "nn.Module"), "%s", stack);
                n++;
            }
    ck_assert_uint_eq(n, 2 + 3 * 3);
}
END_TEST

/* What PyTorch was told besides, each once, in no more room than all that there are take; and what was captured without says nothing. */
START_TEST(measures_captured_with)
{
    g_autofree char *much = g_strnfill(2000, 'x'), *name = g_strdup_printf("name 4 \"echelon with: checkpoint=%s\"\n", much);
    g_autofree char *text =
        g_strconcat(HEAD "name 1 \"echelon with: autocast=bfloat16\"\nname 2 \"echelon with: fused\"\nname 3 \"with: compile\"\n", name,
                    "name 5 \"nn.Module keeps what a backward pass takes\"\nname 6 \"echelon torch: 2.12.1+cu130\"\nname 7 \"echelon torch: 3.0\"\n"
                    "mark 1 1 1\nmark 2 1 2\nmark 3 1 1\nmark 4 1 3\nmark 5 1 4\nmark 5 1 5\nmark 5 1 6\nmark 5 1 7\n"
                    "set 6 0 0 8\nend\n",
                    NULL);
    g_autoptr(EchImport) import = must_read(text);
    ck_assert_str_eq(ech_trace_get_property(import->trace, ECH_TRACE_WITH), "autocast=bfloat16,fused");
    ck_assert(ech_trace_says(import->trace, "with: compile", "") && !ech_trace_says(import->trace, "echelon with", "")); /* the program's own mark */
    g_autoptr(EchImport) without = must_read(HEAD "set 6 0 0 8\nend\n");
    ck_assert_ptr_null(ech_trace_get_property(without->trace, ECH_TRACE_WITH));
    ck_assert_str_eq(ech_trace_get_property(import->trace, ECH_TRACE_TORCH_RELEASE), "12"); /* of a 3.0 nothing is known */
    ck_assert_ptr_null(ech_trace_get_property(without->trace, ECH_TRACE_TORCH_RELEASE));
    ck_assert(ech_trace_get_property(import->trace, ECH_TRACE_KEEPS) && !ech_trace_get_property(without->trace, ECH_TRACE_KEEPS));
}
END_TEST

/* What a program hands to its modules, by marks before each call: arrays of its own are inputs, what a module made (a loss is given that) is not; rows are
 * those that most calls have, the last batch of all has fewer. What lies nowhere is counted. */
START_TEST(what_modules_are_given)
{
    g_autofree char *text =
        g_strdup(HEAD "name 1 \"k(float const*, float*)\"\nname 2 \"nn.Module: Linear\"\nname 3 \"nn.Module given: 8 4096\"\n"
                      "name 4 \"nn.Module given: 8 8192 12288\"\nname 5 \"nn.Module: CrossEntropyLoss\"\nname 6 \"nn.Module given: 3 4096 99 \"\n"
                      "name 7 \"nn.Module given: \"\n"
                      "alloc 1 0 0 4096 4096 3 0\nalloc 1 0 0 8192 4096 3 0\nalloc 1 0 0 12288 4096 3 0\nset 2 0 0 4096\nuses 2 4096 4096\n"
                      "set 2 0 0 4096\nuses 2 12288 4096\nmark 3 9 3\npush 4 9 2\nkernel 5 0 0 1 1 1 1 32 1 1 0\nargs 0 4096 1 8192\npop 6 9\n"
                      "mark 7 9 4\npush 8 9 5\nkernel 9 0 0 1 1 1 1 32 1 1 0\nargs 0 12288 1 8192\npop 10 9\nmark 11 9 6\nmark 12 9 7\nend\n");
    g_autoptr(EchImport) import = must_read(text);
    const EchTrace *t = import->trace;
    ck_assert_str_eq(ech_trace_get_property(t, ECH_TRACE_BATCH), "8");
    ck_assert(!ech_trace_says(t, "nn.Module given", ""));
    static const char *const calls[] = {"given 8 rows", "given 8 rows", "given 3 rows"};
    size_t n_calls = 0;
    for (size_t i = 0; i < ech_trace_n_ops(t); i++) {
        const EchOp *op = &ech_trace_ops(t)[i];
        const char *name = op->kind == ECH_OP_MARK ? ech_trace_string(t, op->name) : "";
        if (!g_str_has_prefix(name, "given "))
            continue;
        ck_assert_uint_lt(n_calls, G_N_ELEMENTS(calls));
        ck_assert_str_eq(name, calls[n_calls++]);
    }
    ck_assert_uint_eq(n_calls, G_N_ELEMENTS(calls)); /* of one with several arrays, too */
    size_t n = 0;
    for (size_t b = 0; b < ech_trace_n_buffers(t); b++) {
        const EchBuffer *buffer = &ech_trace_buffers(t)[b];
        ck_assert_int_eq(buffer->role == ECH_ROLE_INPUT, buffer->address == 4096 || buffer->address == 12288);
        n += buffer->role == ECH_ROLE_INPUT;
    }
    ck_assert_uint_eq(n, 2);
    ck_assert_uint_eq(ech_diag_count(import->diag, "given_at_unknown_addresses"), 1);
}
END_TEST

/* An allocator's events hold up no stream: what another stream was asked for before lies in front of them, not of what uses them. */
START_TEST(streams_do_not_wait_for_the_hosts_allocator)
{
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", (const char *const[]){"device.runtime.eager_launch_ps=0", NULL});
    static const char *const lines[] = {"", "args 2 1048576 2 1048576\n"};
    EchTime makespans[2];
    for (size_t i = 0; i < 2; i++) {
        g_autofree char *text = g_strdup_printf(HEAD "name 1 \"" ADD "\"\nkernel 5 0 1 1 900000 1 1 128 1 1 0\nalloc 6 0 2 1048576 1048576 3 0\n"
                                                     "kernel 7 0 2 1 100 1 1 128 1 1 0\n%send\n",
                                                lines[i]);
        g_autoptr(EchImport) import = must_read(text);
        g_autoptr(EchRun) run = must_run(import->trace, device, false);
        makespans[i] = run->makespan;
    }
    ck_assert_int_eq(makespans[0], makespans[1]);
}
END_TEST

/* Without ranges: attention over whole blocks. */
START_TEST(attention_by_its_grid)
{
    g_autoptr(EchImport) import = NULL;
    EchOp op =
        priced("train",
               "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t, Flash_kernel_traits<64, 128, "
               "128, 4, cutlass::bfloat16_t> >, false, false, false, false, true, true, false, false>(pytorch_flash::Flash_fwd_params)",
               "8 2 12 128 1 1 49152", &import);
    ck_assert_uint_eq(moved(import->trace, &op, ECH_READ), 3 * 2 * 1024 * 768 * 2);
    ck_assert_uint_eq(ech_trace_work(import->trace)[op.first_work].count, UINT64_C(4) * 2 * 12 * 1024 * 1024 * 64);
}
END_TEST

/* What is counted without the last scale and statistic is whole all the same; what is counted as a part is one. */
START_TEST(neglected)
{
    const EchArrayUse arrays[] = {{.written = 1000000, .writes = true}, {.written = 256, .writes = true}};
    EchBytes each[2];
    ck_assert_uint_eq(ech_arrays_share(arrays, 2, true, 1000000, each), 0);
    ck_assert(each[0] == 1000000 && each[1] == 256);
    ck_assert_uint_eq(ech_arrays_share(arrays, 2, true, 500128, each), 0);
    ck_assert_uint_eq(each[0] + each[1], 500128);
    ck_assert_uint_eq(ech_arrays_share(arrays, 2, true, 1000300, each), 44);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pretend");
    TCase *cases = tcase_create("pretend");
    tcase_add_test(cases, kernels_by_ranges_and_grids);
    tcase_add_test(cases, functions_of_python_move_their_arrays);
    tcase_add_test(cases, backward_is_of_the_module_whose_forward_made_it);
    tcase_add_test(cases, compiled_graphs_tell_modules);
    tcase_add_test(cases, measures_captured_with);
    tcase_add_test(cases, what_modules_are_given);
    tcase_add_test(cases, library_calls);
    tcase_add_test(cases, calls_of_several_classes);
    tcase_add_test(cases, the_only_device);
    tcase_add_test(cases, own_all_reduces);
    tcase_add_test(cases, streams_and_waits);
    tcase_add_test(cases, flexible_attention);
    tcase_add_test(cases, tables_of_embeddings);
    tcase_add_test(cases, memory_follows_what_was_asked);
    tcase_add_test(cases, a_librarys_memory_stays);
    tcase_add_test(cases, snapshots_of_many_devices);
    tcase_add_test(cases, managed_memory);
    tcase_add_test(cases, what_is_cut_or_unknown);
    tcase_add_test(cases, attention_is_masked_as_the_hook_tells);
    tcase_add_test(cases, types_of_what_is_handed_on);
    tcase_add_test(cases, work_of_the_host);
    tcase_add_test(cases, copies_to_untouched_memory);
    tcase_add_test(cases, pinning_takes_time_by_the_page);
    tcase_add_test(cases, files_take_a_disk);
    tcase_add_test(cases, copies_right_behind_others);
    tcase_add_test(cases, small_kernels_wait_for_the_host);
    tcase_add_test(cases, convolutions_in_their_tiles);
    tcase_add_test(cases, operators_take_the_host);
    tcase_add_test(cases, kernels_follow_one_another);
    tcase_add_test(cases, the_host_runs_ahead_and_waits);
    tcase_add_test(cases, the_host_thinks_after_it_waited);
    tcase_add_test(cases, graphs_are_asked_for_once);
    tcase_add_test(cases, nodes_of_graphs_are_what_was_captured);
    tcase_add_test(cases, launches_of_graphs_are_steps);
    tcase_add_test(cases, backward_passes_are_steps);
    tcase_add_test(cases, attention_over_pages_by_its_lengths);
    tcase_add_test(cases, told_by_code);
    tcase_add_test(cases, rounds_are_steps);
    tcase_add_test(cases, told_products);
    tcase_add_test(cases, told_sectors);
    tcase_add_test(cases, operators_of_others_have_types);
    tcase_add_test(cases, generated_kernels_by_what_they_go_over);
    tcase_add_test(cases, generated_kernels_move_what_they_load_and_store);
    tcase_add_test(cases, generated_kernels_tell_what_they_write);
    tcase_add_test(cases, operators);
    tcase_add_test(cases, sizes_of_sparse_matrices);
    tcase_add_test(cases, operands_by_address);
    tcase_add_test(cases, copies_to_places_of_their_own);
    tcase_add_test(cases, arrays_that_kernels_use);
    tcase_add_loop_test(cases, kernels_that_use_the_hosts_memory, 0, G_N_ELEMENTS(pinned));
    tcase_add_test(cases, what_tensorflow_is_told_and_tells);
    tcase_add_test(cases, arrays_that_tensorflow_uses);
    tcase_add_test(cases, arrays_of_library_calls_copies_and_collectives);
    tcase_add_test(cases, whom_collectives_meet);
    tcase_add_test(cases, hosts_tell_and_hear);
    tcase_add_loop_test(cases, roles_and_modules_of_arrays, 0, 2);
    tcase_add_test(cases, streams_do_not_wait_for_the_hosts_allocator);
    tcase_add_test(cases, attention_by_its_grid);
    tcase_add_test(cases, neglected);
    tcase_add_test(cases, copies_between_devices);
    tcase_add_test(cases, gathers_and_scatters);
    suite_add_tcase(suite, cases);
    return ech_test_main(suite);
}
