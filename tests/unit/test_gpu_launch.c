/* Kernels of programs compiled for GPUs: how XLA launches what it writes itself, what instructions say of themselves, and prices of both. */
#include "models/kernel/gpu_xla.h"
#include "sim/import/import.h"
#include "sim/program/gpu_launch.h"
#include "sim/replay/replay.h"
#include "tests/support/made.h"

#include <check.h>
#include <string.h>

#define ADD(name)                                                                                                                                              \
    "%" name " (a." name ": f32[], b." name ": f32[]) -> f32[] {\n  %a." name " = f32[] parameter(0)\n  %b." name " = f32[] parameter(1)\n  ROOT %s." name     \
    " = f32[] add(%a." name ", %b." name ")\n}\n\n"

/* One kernel of every kind; sizes chosen so that every rule shows. */
static const char bodies_text[] = "HloModule kinds, is_scheduled=true\n\n" ADD("add0") ADD("add1") ADD(
    "add2") "%loop (p0: f32[4096,1024], p1: f32[4096,1024]) -> f32[4096,1024] {\n"
            "  %p0 = f32[4096,1024]{1,0} parameter(0)\n"
            "  %p1 = f32[4096,1024]{1,0} parameter(1)\n"
            "  %e = f32[4096,1024]{1,0} exponential(%p0)\n"
            "  ROOT %m = f32[4096,1024]{1,0} multiply(%e, %p1)\n"
            "}\n\n"
            "%rows (p2: f32[4096,1024]) -> f32[4096] {\n"
            "  %p2 = f32[4096,1024]{1,0} parameter(0)\n"
            "  %z2 = f32[] constant(0)\n"
            "  ROOT %r2 = f32[4096]{0} reduce(%p2, %z2), dimensions={1}, to_apply=%add0\n"
            "}\n\n"
            "%columns (p3: f32[4096,1024]) -> f32[1024] {\n"
            "  %p3 = f32[4096,1024]{1,0} parameter(0)\n"
            "  %z3 = f32[] constant(0)\n"
            "  ROOT %r3 = f32[1024]{0} reduce(%p3, %z3), dimensions={0}, to_apply=%add1\n"
            "}\n\n"
            /* The sum of two halves is made inside every thread of the sum of rows. */
            "%nested (p4: f32[2,4096,1024]) -> f32[4096] {\n"
            "  %p4 = f32[2,4096,1024]{2,1,0} parameter(0)\n"
            "  %z4 = f32[] constant(0)\n"
            "  %h4 = f32[4096,1024]{1,0} reduce(%p4, %z4), dimensions={0}, to_apply=%add1\n"
            "  %n4 = f32[4096,1024]{1,0} negate(%h4)\n"
            "  ROOT %r4 = f32[4096]{0} reduce(%n4, %z4), dimensions={1}, to_apply=%add2\n"
            "}\n\n"
            "%turned (p5: f32[4096,1024]) -> f32[1024,4096] {\n"
            "  %p5 = f32[4096,1024]{1,0} parameter(0)\n"
            "  ROOT %t5 = f32[1024,4096]{1,0} transpose(%p5), dimensions={1,0}\n"
            "}\n\n"
            "%soft (p6: f32[4096,1024]) -> f32[4096,1024] {\n"
            "  %p6 = f32[4096,1024]{1,0} parameter(0)\n"
            "  %z6 = f32[] constant(0)\n"
            "  %e6 = f32[4096,1024]{1,0} exponential(%p6)\n"
            "  %s6 = f32[4096]{0} reduce(%e6, %z6), dimensions={1}, to_apply=%add0\n"
            "  %b6 = f32[4096,1024]{1,0} broadcast(%s6), dimensions={0}\n"
            "  ROOT %d6 = f32[4096,1024]{1,0} divide(%e6, %b6)\n"
            "}\n\n"
            "%left (q7: bf16[4096,1024]) -> bf16[4096,1024] {\n"
            "  ROOT %q7 = bf16[4096,1024]{1,0} parameter(0)\n"
            "}\n\n"
            "%product (p7: bf16[4096,1024], p8: bf16[1024,2048]) -> bf16[4096,2048] {\n"
            "  %p7 = bf16[4096,1024]{1,0} parameter(0)\n"
            "  %p8 = bf16[1024,2048]{1,0} parameter(1)\n"
            "  %f7 = bf16[4096,1024]{1,0} fusion(%p7), kind=kCustom, calls=%left, "
            "backend_config={\"fusion_backend_config\":{\"kind\":\"__triton_nested_gemm_fusion\",\"block_level_fusion_config\":{\"num_warps\":\"4\",\"output_"
            "tiles\":[{"
            "\"sizes\":[\"64\",\"32\"]}],\"num_stages\":3}}}\n"
            "  ROOT %d7 = bf16[4096,2048]{1,0} dot(%f7, %p8), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
            "}\n\n"
            "%after (p10: bf16[4096,1024], p11: bf16[1024,2048]) -> bf16[4096,2048] {\n"
            "  %p10 = bf16[4096,1024]{1,0} parameter(0)\n"
            "  %p11 = bf16[1024,2048]{1,0} parameter(1)\n"
            "  %d10 = bf16[4096,2048]{1,0} dot(%p10, %p11), lhs_contracting_dims={1}, rhs_contracting_dims={0}, backend_config={\"sizes\":[\"64\"]}\n"
            "  ROOT %t10 = bf16[4096,2048]{1,0} tanh(%d10)\n"
            "}\n\n";
static const char entry_text[] =
    "ENTRY %main (x: f32[4096,1024], y: f32[2,4096,1024], a: bf16[4096,1024], b: bf16[1024,2048], i: bf16[8,56,56,3], w: bf16[64,7,7,3]) -> f32[] {\n"
    "  %x = f32[4096,1024]{1,0} parameter(0)\n"
    "  %y = f32[2,4096,1024]{2,1,0} parameter(1)\n"
    "  %a = bf16[4096,1024]{1,0} parameter(2)\n"
    "  %b = bf16[1024,2048]{1,0} parameter(3)\n"
    "  %i = bf16[8,56,56,3]{3,2,1,0} parameter(4)\n"
    "  %w = bf16[64,7,7,3]{3,2,1,0} parameter(5)\n"
    "  %k_loop = f32[4096,1024]{1,0} fusion(%x, %x), kind=kLoop, calls=%loop\n"
    "  %k_rows = f32[4096]{0} fusion(%x), kind=kInput, calls=%rows\n"
    "  %k_columns = f32[1024]{0} fusion(%x), kind=kInput, calls=%columns\n"
    "  %k_nested = f32[4096]{0} fusion(%y), kind=kInput, calls=%nested\n"
    "  %k_turned = f32[1024,4096]{1,0} fusion(%x), kind=kInput, calls=%turned\n"
    "  %k_soft = f32[4096,1024]{1,0} fusion(%x), kind=kCustom, calls=%soft, "
    "backend_config={\"fusion_backend_config\":{\"kind\":\"__triton\",\"block_level_fusion_config\":{\"num_warps\":\"8\",\"output_tiles\":[{\"sizes\":["
    "\"1\","
    "\"1024\"]}],\"num_stages\":1}}}\n"
    "  %k_soft2 = f32[4096,1024]{1,0} fusion(%x), kind=kCustom, calls=%soft, "
    "backend_config={\"fusion_backend_config\":{\"kind\":\"__triton\",\"block_level_fusion_config\":{\"num_warps\":\"8\",\"output_tiles\":[{\"sizes\":["
    "\"2\","
    "\"1024\"]}],\"num_stages\":1}}}\n"
    "  %k_product = bf16[4096,2048]{1,0} fusion(%a, %b), kind=kCustom, calls=%product, "
    "backend_config={\"fusion_backend_config\":{\"kind\":\"__triton_nested_gemm_fusion\",\"block_level_fusion_config\":{\"num_warps\":\"2\",\"output_"
    "tiles\":[{"
    "\"sizes\":[\"16\",\"8\"]}],\"num_ctas\":1,\"num_stages\":1}}}\n"
    "  %k_after = bf16[4096,2048]{1,0} fusion(%a, %b), kind=kCustom, calls=%after, "
    "backend_config={\"fusion_backend_config\":{\"kind\":\"__triton_nested_gemm_fusion\",\"block_level_fusion_config\":{\"num_warps\":\"8\",\"output_"
    "tiles\":[{"
    "\"sizes\":[\"128\",\"256\"]}],\"num_ctas\":1,\"num_stages\":3}}}\n"
    "  %k_blas = (bf16[4096,2048]{1,0}, s8[4096]{0}) custom-call(%a, %b), custom_call_target=\"__cublas$gemm\", "
    "backend_config={\"gemm_backend_config\":{\"dot_dimension_numbers\":{\"lhs_contracting_dimensions\":[\"1\"],\"rhs_contracting_dimensions\":[\"0\"],"
    "\"lhs_batch_dimensions\":[],\"rhs_batch_dimensions\":[]},\"precision_config\":{\"operand_precision\":[\"DEFAULT\",\"DEFAULT\"]}}}\n"
    "  %k_precise = (f32[4096,4096]{1,0}, s8[4096]{0}) custom-call(%x, %x), custom_call_target=\"__cublas$gemm\", "
    "backend_config={\"gemm_backend_config\":{\"dot_dimension_numbers\":{\"lhs_contracting_dimensions\":[\"1\"],\"rhs_contracting_dimensions\":[\"1\"],"
    "\"lhs_batch_dimensions\":[],\"rhs_batch_dimensions\":[]},\"precision_config\":{\"operand_precision\":[\"HIGHEST\",\"HIGHEST\"]}}}\n"
    "  %k_conv = (bf16[8,28,28,64]{3,2,1,0}, u8[0]{0}) custom-call(%i, %w), window={size=7x7 stride=2x2 pad=3_2x3_2}, dim_labels=b01f_o01i->b01f, "
    "custom_call_target=\"__cudnn$convForward\"\n"
    "  %out = bf16[8,28,28,64]{3,2,1,0} get-tuple-element(%k_conv), index=0\n"
    "  %k_filter = (bf16[64,7,7,3]{3,2,1,0}, u8[0]{0}) custom-call(%i, %out), window={size=7x7 stride=2x2 pad=3_2x3_2}, dim_labels=b01f_o01i->b01f, "
    "custom_call_target=\"__cudnn$convBackwardFilter\"\n"
    "  %k_input = (bf16[8,56,56,3]{3,2,1,0}, u8[0]{0}) custom-call(%out, %w), window={size=7x7 stride=2x2 pad=3_2x3_2}, dim_labels=b01f_o01i->b01f, "
    "custom_call_target=\"__cudnn$convBackwardInput\"\n"
    "  %k_copy = f32[4096,1024]{1,0} copy(%x)\n"
    "  %n16 = u16[4096,1024]{1,0} convert(%x)\n"
    "  %k_integers = u32[4096,4096]{1,0} dot(%n16, %n16), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
    "  %n8 = s8[4096,1024]{1,0} convert(%x)\n"
    "  %k_bytes = s32[4096,4096]{1,0} dot(%n8, %n8), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
    "  ROOT %k_end = f32[] constant(0)\n"
    "}\n";

static EchImport *import(void)
{
    g_autofree char *text = g_strconcat(bodies_text, entry_text, NULL);
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)text, strlen(text), "kinds");
    GError *error = NULL;
    EchImportOptions options = {.device = "h100-sxm", .ignore_beside = true};
    EchImport *import = ech_import_source(source, "hlo", &options, &error);
    ck_assert_ok(import != NULL, error);
    EchProgramAssignment *made = ech_program_assign(import->program, 0, import->diag, &error);
    ck_assert_ok(made != NULL, error);
    ech_program_set_assignment(import->program, made, "made by echelon");
    return import;
}

static const struct {
    const char *name, *launch;
} kinds[] = {
    /* 4 elements a thread: 4 Mi elements keep 132 SMs of 2048 threads busy. exp 18, multiply 1, 12 for loads and store. */
    {"k_loop", "grid=8192x1x1 block=128x1x1 elements=4194304 operand_bytes=4 class=elementwise instructions=31 vector=4 trips=1"},
    /* 64 threads of 16 elements a row, four rows a block. */
    {"k_rows", "grid=1024x1x1 block=256x1x1 elements=4194304 operand_bytes=4 class=reduce instructions=7 vector=2 trips=3"},
    /* 32 threads of two columns each, 128 rows a thread, eight on their way, and two trips to add up. */
    {"k_columns", "grid=16x1x1 block=1024x1x1 elements=4194304 operand_bytes=4 class=reduce instructions=7 vector=2 trips=18"},
    /* Halves: two additions an element, a negation and the sum. */
    {"k_nested", "grid=1024x1x1 block=256x1x1 elements=4194304 operand_bytes=4 class=reduce instructions=10 vector=2 trips=3"},
    {"k_turned", "grid=4096x1x1 block=128x1x1 elements=4194304 operand_bytes=4 class=relayout instructions=28 vector=1 trips=2"},
    /* Of one row in a tile the exponentials are made twice. */
    {"k_soft", "grid=4096x1x1 block=256x1x1 registers=28 elements=4194304 operand_bytes=4 class=softmax_warp instructions=28 vector=1 trips=2"},
    {"k_soft2", "grid=2048x1x1 block=256x1x1 registers=32 elements=4194304 operand_bytes=4 class=softmax_warp instructions=19 vector=1 trips=2"},
    {"k_product", "grid=65536x1x1 block=64x1x1 shared=1536 registers=42 product=1x4096x2048x1024 turned=2097152 operand_bytes=2 class=product arithmetic=mma "
                  "tile=16x8x32 stages=1"},
    /* A step of k that the dot itself names, and what follows the product: tanh. */
    {"k_after", "grid=256x1x1 block=256x1x1 shared=147456 registers=168 product=1x4096x2048x1024 turned=2097152 operand_bytes=2 class=product arithmetic=wgmma "
                "tile=128x256x64 stages=3 instructions=22"},
    {"k_blas", "product=1x4096x2048x1024 turned=2097152 operand_bytes=2 class=product arithmetic=wgmma fills=1"},
    {"k_precise", "product=1x4096x4096x1024 operand_bytes=4 class=product arithmetic=fma"},
    {"k_conv", "product=1x6272x64x147 taps=49 operand_bytes=2 class=product arithmetic=wgmma"},
    /* The filter's gradient keeps the labels of the convolution: channels by positions times channels, summed over pixels. */
    {"k_filter", "product=1x64x147x6272 operand_bytes=2 class=product arithmetic=wgmma"},
    /* The input's gradient: at a stride of two one window position in four meets an output. */
    {"k_input", "product=1x25088x3x784 taps=12 operand_bytes=2 class=product arithmetic=wgmma"},
    {"k_copy", "elements=1048576 operand_bytes=16 class=elementwise instructions=4"},
    {"k_integers", "product=1x4096x4096x1024 operand_bytes=2 class=product arithmetic=fma"},
    {"k_bytes", "product=1x4096x4096x1024 operand_bytes=1 class=product arithmetic=wgmma"},
};

START_TEST(instructions_say)
{
    g_autoptr(EchImport) got = import();
    EchGpuLaunch launch, again;
    ck_assert_msg(ech_program_gpu_launch(got->program, ech_test_instruction(got->program, kinds[_i].name), 132, &launch), "%s", kinds[_i].name);
    g_autoptr(GString) text = g_string_new(NULL);
    ech_gpu_launch_print(&launch, text);
    ck_assert_str_eq(text->str, kinds[_i].launch);
    ck_assert(ech_gpu_launch_parse(text->str, &again));
    g_autoptr(GString) twice = g_string_new(NULL);
    ech_gpu_launch_print(&again, twice);
    ck_assert_str_eq(twice->str, kinds[_i].launch);
}
END_TEST

#define GREATER(name, more)                                                                                                                                    \
    "%" name " (" name "a: f32[], " name "b: f32[]" more ") -> pred[] {\n  %" name "a = f32[] parameter(0)\n  %" name "b = f32[] parameter(1)\n"
static const char library_text[] =
    "HloModule library, is_scheduled=true\n\n" GREATER("one", "") "  ROOT %one.r = pred[] compare(%onea, %oneb), direction=LT\n}\n\n" GREATER(
        "kept",
        ", keptc: s32[], keptd: s32[]") "  %keptc = s32[] parameter(2)\n  %keptd = s32[] parameter(3)\n"
                                        "  %kept.e = pred[] compare(%kepta, %keptb), direction=EQ\n"
                                        "  %kept.l = pred[] compare(%kepta, %keptb), direction=LT\n"
                                        "  %kept.p = pred[] compare(%keptc, %keptd), direction=LT\n"
                                        "  ROOT %kept.r = pred[] select(%kept.e, %kept.p, %kept.l)\n}\n\n"
                                        "ENTRY %main () -> f32[] {\n"
                                        "  %x = f32[64,8192]{1,0} parameter(0)\n  %v = s32[64,8192]{1,0} parameter(1)\n  %c = c64[256,4096]{1,0} parameter(2)\n"
                                        "  %m = f32[4,1024,512]{2,1,0} parameter(3)\n  %odd = c64[8,131]{1,0} parameter(4)\n  %r = f32[8,1024,1024]{2,1,0} "
                                        "parameter(5)\n"
                                        "  %where = s32[64,8192]{1,0} iota(), iota_dimension=1\n"
                                        "  %k_keys = f32[64,8192]{1,0} sort(%x), dimensions={1}, to_apply=%one\n"
                                        "  %k_stable = (f32[64,8192]{1,0}, s32[64,8192]{1,0}) sort(%x, %where), dimensions={1}, to_apply=%kept\n"
                                        "  %k_two = (f32[64,8192]{1,0}, s32[64,8192]{1,0}) sort(%x, %v), dimensions={1}, to_apply=%kept\n"
                                        "  %k_down = f32[64,8192]{1,0} sort(%x), dimensions={0}, to_apply=%one\n"
                                        "  %k_cub = (f32[64,8192]{1,0}, u8[65536]{0}) custom-call(%x), custom_call_target=\"__cub$DeviceRadixSort\"\n"
                                        "  %k_fft = c64[256,4096]{1,0} fft(%c), fft_type=FFT, fft_length={4096}\n"
                                        "  %k_prime = c64[8,131]{1,0} fft(%odd), fft_type=FFT, fft_length={131}\n"
                                        "  %k_plane = c64[8,1024,513]{2,1,0} fft(%r), fft_type=RFFT, fft_length={1024,1024}\n"
                                        "  %k_lu = (f32[4,1024,512]{2,1,0}, s32[4,512]{1,0}, s32[4]{0}) custom-call(%m), "
                                        "custom_call_target=\"cusolver_getrf_ffi\"\n"
                                        "  %k_solve = f32[4,1024,512]{2,1,0} custom-call(%r, %m), custom_call_target=\"__cublas$triangularSolve\"\n"
                                        "  ROOT %k_end = f32[] constant(0)\n}\n";

static const struct {
    const char *name, *launch;
} calls[] = {
    {"k_keys", "rows=64x8192 operand_bytes=4 class=sort instructions=1 keys=4"},
    /* Positions keep equal ones in order: cub's sort is stable by itself. */
    {"k_stable", "rows=64x8192 operand_bytes=8 class=sort instructions=2 keys=4"},
    {"k_two", "rows=64x8192 operand_bytes=8 class=sort instructions=2"},
    {"k_down", "rows=8192x64 operand_bytes=4 class=sort instructions=1"},
    {"k_cub", "rows=64x8192 operand_bytes=4 class=sort instructions=1 routine=radix keys=4"},
    {"k_fft", "rows=256x4096 elements=1048576 operand_bytes=8 class=fft instructions=96 passes=1"},
    /* Longer than any factor that cuFFT has kernels for: two transforms of twice the length and a product. */
    {"k_prime", "rows=4x262 elements=1048 operand_bytes=8 class=fft instructions=288 passes=5"},
    {"k_plane", "rows=4104x1024 elements=4202496 operand_bytes=8 class=fft instructions=160 passes=2"},
    {"k_lu", "product=1x1024x512x1 operand_bytes=4 class=solver routine=lu passes=4"},
    {"k_solve", "product=8x1024x1024x256 operand_bytes=4 class=solver routine=triangular"},
};

START_TEST(library_calls)
{
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)library_text, strlen(library_text), "library");
    GError *error = NULL;
    EchImportOptions options = {.device = "h100-sxm", .ignore_beside = true};
    g_autoptr(EchImport) got = ech_import_source(source, "hlo", &options, &error);
    ck_assert_msg(got != NULL, "%s", error ? error->message : "");
    EchGpuLaunch launch, again;
    ck_assert_msg(ech_program_gpu_launch(got->program, ech_test_instruction(got->program, calls[_i].name), 132, &launch), "%s", calls[_i].name);
    g_autoptr(GString) text = g_string_new(NULL), twice = g_string_new(NULL);
    ech_gpu_launch_print(&launch, text);
    ck_assert_str_eq(text->str, calls[_i].launch);
    ck_assert(ech_gpu_launch_parse(text->str, &again));
    ech_gpu_launch_print(&again, twice);
    ck_assert_str_eq(twice->str, calls[_i].launch);
}
END_TEST

/* XLA takes cuFFT's work area when the transform runs: no plan has it. */
START_TEST(work_areas)
{
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)library_text, strlen(library_text), "library");
    GError *error = NULL;
    EchImportOptions options = {.device = "h100-sxm", .ignore_beside = true};
    g_autoptr(EchImport) got = ech_import_source(source, "hlo", &options, &error);
    ck_assert_msg(got != NULL, "%s", error ? error->message : "");
    static const struct {
        const char *name;
        EchBytes bytes;
    } areas[] = {{"k_fft work area", 256 * 4096 * 8}, {"k_prime work area", 4 * 8 * 131 * 8}, {"k_plane work area", 8 * 1024 * 513 * 8}};
    g_autoptr(EchDevice) device = ech_device_load("h100-sxm", NULL, &error);
    ck_assert_msg(device != NULL, "%s", error ? error->message : "");
    g_autoptr(EchTrace) trace = ech_program_lower(got->program, device, NULL, got->diag, &error);
    ck_assert_msg(trace != NULL, "%s", error ? error->message : "");
    const EchOp *ops = ech_trace_ops(trace);
    size_t found = 0;
    for (EchId at = 0; at < ech_trace_n_ops(trace); at++) {
        const EchBuffer *buffer = ops[at].kind == ECH_OP_ALLOC ? &ech_trace_buffers(trace)[ops[at].target] : NULL;
        for (size_t i = 0; buffer && i < G_N_ELEMENTS(areas); i++) {
            if (g_strcmp0(ech_trace_string(trace, buffer->name), areas[i].name) != 0)
                continue;
            found++;
            ck_assert_uint_eq(buffer->bytes, areas[i].bytes);
            ck_assert(ops[at + 1].kind == ECH_OP_KERNEL && ops[at + 2].kind == ECH_OP_FREE && ops[at + 2].target == ops[at].target);
        }
    }
    ck_assert_uint_eq(found, G_N_ELEMENTS(areas));
}
END_TEST

START_TEST(reductions)
{
    EchGpuReduction r;
    const uint64_t dims[] = {1024, 1, 64, 8};
    const bool rows[] = {true, false, false, false}, columns[] = {false, true, true, false}, ends[] = {true, false, false, true},
               many[] = {true, false, true, false};
    ck_assert(ech_gpu_reduction_of(dims, rows, 4, &r) && r.row && r.minor == 1024 && r.mid == 512 && r.major == 1);
    ck_assert(ech_gpu_reduction_of(dims, columns, 4, &r) && !r.row && r.minor == 1024 && r.mid == 64 && r.major == 8);
    ck_assert(ech_gpu_reduction_of(dims, ends, 4, &r) && r.row && r.minor == 1024 && r.mid == 64 && r.major == 8);
    ck_assert(ech_gpu_reduction_of(dims, many, 4, &r) && r.row && r.minor == 65536 && r.mid == 8); /* a dimension of 1 parts nothing */
    const uint64_t four[] = {2, 3, 5, 7};
    ck_assert(!ech_gpu_reduction_of(four, many, 4, &r));
    ck_assert(ech_gpu_reduction_together(&(EchGpuReduction){.row = true, .major = 1, .mid = 9, .minor = 32}));
    ck_assert(!ech_gpu_reduction_together(&(EchGpuReduction){.row = true, .major = 1, .mid = 9, .minor = 20}));
    ck_assert(!ech_gpu_reduction_together(&(EchGpuReduction){.row = false, .major = 1, .mid = 2, .minor = 4096}));
    ck_assert(ech_gpu_reduction_together(&(EchGpuReduction){.row = false, .major = 1, .mid = 512, .minor = 4096}));
}
END_TEST

START_TEST(unrolled_loops)
{
    ck_assert_uint_eq(ech_gpu_loop_trips(128, 1), 16); /* 16 at once, of which registers keep 8 */
    ck_assert_uint_eq(ech_gpu_loop_trips(127, 1), 64); /* divides by nothing: one ahead */
    ck_assert_uint_eq(ech_gpu_loop_trips(10, 1), 2);   /* all ten */
    ck_assert_uint_eq(ech_gpu_loop_trips(15, 4), 1);
    ck_assert_uint_eq(ech_gpu_loop_trips(58, 1), 29); /* 2 of 29 */
    ck_assert_uint_eq(ech_gpu_loop_trips(1, 1), 1);
    ck_assert_uint_eq(ech_gpu_loop_trips(0, 0), 1);
    ck_assert_uint_eq(ech_gpu_loop_trips(UINT64_MAX, 1), UINT16_MAX - 2);
}
END_TEST

START_TEST(launches)
{
    EchGpuLaunch l = {0};
    ech_gpu_launch_loop(1000, 32, true, 132, &l); /* too few for four each */
    ck_assert_uint_eq(l.grid[0], 8);
    ck_assert_uint_eq(l.vector, 1);
    ech_gpu_launch_loop(4194306, 32, true, 132, &l); /* divides by two only */
    ck_assert_uint_eq(l.vector, 2);
    ech_gpu_launch_loop(4194304, 32, false, 132, &l);
    ck_assert_uint_eq(l.vector, 1);
    ech_gpu_launch_loop(UINT64_MAX, 32, true, 132, &l);
    ck_assert_uint_eq(l.grid[0], INT32_MAX);
    ech_gpu_launch_loop(0, 0, true, 0, &l);
    ck_assert_uint_eq(l.grid[0], 1);
    ech_gpu_launch_reduce(&(EchGpuReduction){.row = true, .major = 1, .mid = 100000, .minor = 32}, 32, 132, &l); /* short rows: vectors of two */
    ck_assert_uint_eq(l.grid[0], 6250);
    ck_assert_uint_eq(l.block[0], 256);
    ech_gpu_launch_reduce(&(EchGpuReduction){.row = true, .major = 1, .mid = 1, .minor = 1 << 20}, 32, 132, &l); /* one row in pieces */
    ck_assert_uint_eq(l.block[0], 1024);
    ck_assert_uint_eq(l.grid[0], 64);
    ech_gpu_launch_reduce(&(EchGpuReduction){.row = false, .major = 3, .mid = 4096, .minor = 16}, 32, 132, &l); /* narrow columns */
    ck_assert_uint_eq(l.grid[0], 3);
    ck_assert_uint_eq(l.block[0], 128);
    ech_gpu_launch_transpose(1 << 22, 32, &l); /* squares of 32 */
    ck_assert_uint_eq(l.grid[0], 4096);
    ck_assert_uint_eq(l.vector, 1);
    ech_gpu_launch_transpose(1 << 22, 16, &l); /* squares of 64, two halves at a time */
    ck_assert_uint_eq(l.grid[0], 1024);
    ck_assert_uint_eq(l.vector, 2);
    const uint64_t dims[] = {5, 100}, tiles[] = {2, 64};
    ech_gpu_launch_tiles(dims, tiles, 2, 4, &l);
    ck_assert_uint_eq(l.grid[0], 6);
    ck_assert_uint_eq(l.block[0], 128);
}
END_TEST

/* @compiled_for: as in ech_replay_run(). */
static EchRun *run_duty(const EchTrace *trace, const EchDevice *device, const EchDevice *compiled_for, bool tuned, double duty)
{
    EchReplayOptions options = {0};
    ech_params_defaults(ech_replay_params, &options);
    options.engine = ECH_ENGINE_NATIVE;
    options.tuned_tiles = tuned;
    options.products_duty = duty;
    GError *error = NULL;
    EchRun *run = ech_replay_run(trace, device, compiled_for, &options, &error);
    ck_assert_ok(run != NULL, error);
    ech_params_clear(ech_replay_params, &options);
    return run;
}

static EchRun *run(const EchTrace *trace, const EchDevice *device, bool tuned)
{
    return run_duty(trace, device, NULL, tuned, -1);
}

static const EchPrice *price_of(const EchRun *run, const EchTrace *trace, const char *name)
{
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++)
        if (ech_trace_ops(trace)[i].kind == ECH_OP_KERNEL && strcmp(ech_trace_string(trace, ech_trace_ops(trace)[i].name), name) == 0)
            return &run->prices[i];
    ck_abort_msg("no kernel %s", name);
    return NULL;
}

static double us(const EchPrice *price)
{
    return (double)price->alone * 1e-6;
}

START_TEST(prices)
{
    g_autoptr(EchImport) got = import();
    GError *error = NULL;
    g_autoptr(EchDevice) h100 = ech_test_device("h100-sxm", NULL), a100 = ech_test_device("a100-80", NULL);
    g_autoptr(EchTrace) trace = ech_program_lower(got->program, h100, NULL, got->diag, &error);
    ck_assert_ok(trace != NULL, error);
    g_autoptr(EchRun) tuned = run(trace, h100, true), written = run(trace, h100, false), older = run(trace, a100, true);
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
        const EchPrice *price = price_of(tuned, trace, kinds[i].name);
        ck_assert_uint_eq(price->source, ECH_PRICE_MODEL);
        ck_assert_uint_ne(price->kernel_class, 0);
        /* Nothing is faster than its launch, nor on the older chip than a fifth slower. */
        ck_assert_int_gt(price->alone, (EchTime)ech_device_number(h100, "runtime.launch_ps", 0));
        ck_assert_double_gt(us(price_of(older, trace, kinds[i].name)), 0.8 * us(price));
    }
    /* A tile of 16 x 8 was never timed: the tuner's is many times as fast, and about what cuBLAS takes. */
    double best = us(price_of(tuned, trace, "k_product")), as_is = us(price_of(written, trace, "k_product"));
    ck_assert_double_gt(as_is, 10 * best);
    /* Beside the fill that cuBLAS needs, and what Triton's takes longer: a block has one tile, and tanh follows it. */
    ck_assert_double_eq_tol(best, us(price_of(tuned, trace, "k_blas")) - 5.4, 0.02 * best);
    ck_assert_double_gt(us(price_of(tuned, trace, "k_after")), best + 2 * 128 * 256 * 22 / (128 * 1980.0));
    ck_assert_double_gt(best, 2.0 * 4096 * 2048 * 1024 / 989.4e6);
    ck_assert_uint_eq(ech_diag_count(tuned->diag, "products_with_tiles_never_timed"), 1);
    ck_assert_uint_eq(ech_diag_count(written->diag, "products_with_tiles_never_timed"), 0);
    /* Both directions of a convolution do the same work, whatever their labels say. */
    ck_assert_uint_eq(ech_program_work(got->program, ech_test_instruction(got->program, "k_filter")).matrix,
                      ech_program_work(got->program, ech_test_instruction(got->program, "k_conv")).matrix);
    /* What may not be rounded runs on the lanes: at most 66.9 TFLOP/s. */
    ck_assert_double_gt(us(price_of(tuned, trace, "k_precise")), 2.0 * 4096 * 4096 * 1024 / 66.9e6);
    /* 16 blocks for all columns: a fraction of the chip, where rows fill it. */
    ck_assert_double_gt(us(price_of(tuned, trace, "k_columns")), 2 * us(price_of(tuned, trace, "k_rows")));
    ck_assert_uint_eq(price_of(tuned, trace, "k_columns")->kernel_bound, ECH_GPU_BY_MEMORY);
}
END_TEST

/* No kernel takes longer where a part of the device is better, whatever is decided anew of it: which tiles were never timed, what is found in L2. */
START_TEST(better_is_not_slower)
{
    static const char *const programs[] = {"mlp_none.h100", "gpt_nothing.h100", "gpt_unrolled_kept.h100"};
    static const char *const better[][2] = {{"memories.hbm.latency=x0.5"}, {"memories.hbm.read=x2"},  {"memories.l2.read=x2"},  {"memories.l2.read=x16"},
                                            {"memories.hbm.both=x2"},      {"units.matrix.clock=x2"}, {"units.vector.clock=x4"}};
    g_autoptr(EchDevice) h100 = ech_test_device("h100-sxm", NULL);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) trace = ech_test_shipped(programs[_i], h100, diag);
    g_autoptr(EchRun) before = run(trace, h100, true);
    for (size_t b = 0; b < G_N_ELEMENTS(better); b++) {
        g_autoptr(EchDevice) other = ech_test_device("h100-sxm", better[b]);
        g_autoptr(EchRun) after = run_duty(trace, other, h100, true, -1);
        for (size_t i = 0; i < ech_trace_n_ops(trace); i++)
            ck_assert_msg(after->prices[i].alone <= before->prices[i].alone, "%s: %s: %g us, before %g", better[b][0],
                          ech_trace_string(trace, ech_trace_ops(trace)[i].name), us(&after->prices[i]), us(&before->prices[i]));
    }
}
END_TEST

/* In a loop everything is made as often as an element of the result asks for it: what is updated in place is gone over for its update alone, of what is padded,
 * joined or updated elsewhere only one branch runs, and only what a reduction adds up is made for each that it adds. */
START_TEST(made_where_it_is_asked_for)
{
    static const char text[] = "HloModule jit_decode, is_scheduled=true\n\n" ADD(
        "add") "%update (a: bf16[8,32,2048,128], b: f32[4,32,3072], c: s32[]) -> bf16[8,32,2048,128] {\n"
               "  %a = bf16[8,32,2048,128]{3,2,1,0} parameter(0)\n  %b = f32[4,32,3072]{2,1,0} parameter(1)\n  %zero = f32[] constant(0)\n"
               "  %sum = f32[32,3072]{1,0} reduce(%b, %zero), dimensions={0}, to_apply=%add\n  %narrow = bf16[32,3072]{1,0} convert(%sum)\n"
               "  %part = bf16[32,128]{1,0} slice(%narrow), slice={[0:32], [128:256]}\n  %row = bf16[1,32,1,128]{3,2,1,0} bitcast(%part)\n"
               "  %c = s32[] parameter(2)\n  %first = s32[] constant(0)\n"
               "  ROOT %new = bf16[8,32,2048,128]{3,2,1,0} dynamic-update-slice(%a, %row, %c, %first, %first, /*index=5*/%first)\n}\n\n"
               "%padded (d: f32[1,65536]) -> f32[16,65536] {\n  %d = f32[1,65536]{1,0} parameter(0)\n  %none = f32[] constant(0)\n"
               "  %power = f32[1,65536]{1,0} power(%d, %d)\n  ROOT %wide = f32[16,65536]{1,0} pad(%power, %none), padding=0_15x0_0\n}\n\n"
               "%beside (e: f32[4194304]) -> (f32[4194304], f32[1024]) {\n  %e = f32[4194304]{0} parameter(0)\n  %naught = f32[] constant(0)\n"
               "  %minus = f32[4194304]{0} negate(%e)\n  %rows = f32[1024,4096]{1,0} bitcast(%minus)\n"
               "  %sums = f32[1024]{0} reduce(%rows, %naught), dimensions={1}, to_apply=%add\n"
               "  ROOT %two = (f32[4194304]{0}, f32[1024]{0}) tuple(%minus, %sums)\n}\n\n"
               "ENTRY %main (x: bf16[8,32,2048,128], y: f32[4,32,3072], z: s32[], w: f32[1,65536], v: f32[4194304]) -> (bf16[8,32,2048,128], f32[16,65536], "
               "f32[4194304]) {\n"
               "  %v = f32[4194304]{0} parameter(4)\n  %loop = (f32[4194304]{0}, f32[1024]{0}) fusion(%v), kind=kLoop, calls=%beside\n"
               "  %third = f32[4194304]{0} get-tuple-element(%loop), index=0\n"
               "  %x = bf16[8,32,2048,128]{3,2,1,0} parameter(0)\n  %y = f32[4,32,3072]{2,1,0} parameter(1)\n  %z = s32[] parameter(2)\n"
               "  %w = f32[1,65536]{1,0} parameter(3)\n"
               "  %in_place = bf16[8,32,2048,128]{3,2,1,0} fusion(%x, %y, %z), kind=kLoop, calls=%update\n"
               "  %pad = f32[16,65536]{1,0} fusion(%w), kind=kLoop, calls=%padded\n"
               "  ROOT %both = (bf16[8,32,2048,128]{3,2,1,0}, f32[16,65536]{1,0}, f32[4194304]{0}) tuple(%in_place, %pad, %third)\n}\n";
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)text, strlen(text), "decode");
    GError *error = NULL;
    EchImportOptions options = {.device = "h100-sxm", .ignore_beside = true};
    g_autoptr(EchImport) import = ech_import_source(source, "hlo", &options, &error);
    ck_assert_ok(import != NULL, error);
    EchGpuLaunch update, pad;
    ck_assert(ech_program_gpu_launch(import->program, ech_test_instruction(import->program, "in_place"), 132, &update));
    ck_assert_uint_eq(update.elements, 32 * 128 * 4); /* four are added up for each */
    ck_assert_uint_lt(update.instructions, 40);
    ck_assert(ech_program_gpu_launch(import->program, ech_test_instruction(import->program, "pad"), 132, &pad));
    ck_assert_uint_eq(pad.elements, 16 * 65536);
    ck_assert_uint_lt(pad.instructions, 30); /* a power takes 78, for one row of 16 */
    EchGpuLaunch loop;                       /* sums beside what they add up are few: each of its elements is added once */
    ck_assert(ech_program_gpu_launch(import->program, ech_test_instruction(import->program, "loop"), 132, &loop));
    ck_assert_uint_eq(loop.elements, 4194304);
    ck_assert_uint_lt(loop.instructions, 20);
}
END_TEST

/* What a kernel reads or writes of the host's memory takes what the link takes, however fast the device's own memory is. */
START_TEST(pinned_memory_is_reached_over_the_link)
{
    static const char text[] = "HloModule jit_far, is_scheduled=true\n\n"
                               "%twice (p0: f32[16777216]) -> f32[16777216] {\n"
                               "  %p0 = f32[16777216]{0} parameter(0)\n"
                               "  ROOT %a0 = f32[16777216]{0} add(%p0, %p0)\n"
                               "}\n\n"
                               "ENTRY %main (far: f32[16777216], near: f32[16777216]) -> f32[16777216] {\n"
                               "  %far = f32[16777216]{0:S(5)} parameter(0)\n"
                               "  %near = f32[16777216]{0} parameter(1)\n"
                               "  %k_near = f32[16777216]{0} fusion(%near), kind=kLoop, calls=%twice\n"
                               "  %k_write = f32[16777216]{0:S(5)} fusion(%near), kind=kLoop, calls=%twice\n"
                               "  ROOT %k_read = f32[16777216]{0} fusion(%far), kind=kLoop, calls=%twice\n"
                               "}\n";
    g_autoptr(EchSource) source = ech_source_new_memory((const uint8_t *)text, strlen(text), "far");
    GError *error = NULL;
    EchImportOptions options = {.device = "h100-sxm", .ignore_beside = true};
    g_autoptr(EchImport) got = ech_import_source(source, "hlo", &options, &error);
    ck_assert_ok(got != NULL, error);
    g_autoptr(EchDevice) h100 = ech_test_device("h100-sxm", NULL);
    g_autoptr(EchTrace) trace = ech_program_lower(got->program, h100, NULL, got->diag, &error);
    ck_assert_ok(trace != NULL, error);
    g_autoptr(EchRun) far = run(trace, h100, true);
    const EchLink *link = ech_device_link(h100, "host");
    const double bytes = 4.0 * (1 << 24);
    ck_assert_double_lt(us(price_of(far, trace, "k_near")), 50);
    ck_assert_double_eq_tol(us(price_of(far, trace, "k_read")), 1e6 * bytes / (double)link->to_device, 2);
    ck_assert_double_eq_tol(us(price_of(far, trace, "k_write")), 1e6 * bytes / (double)link->from_device, 2);
}
END_TEST

/* XLA on an H100 (jax-ml/scaling-book, gpus.md): f32[65536] + f32[65536] in 1.5 us, f32[2^30] + f32[2^30] in 4.1 ms; the latter is where the device's bandwidth
 * comes from. */
START_TEST(measured_additions)
{
    static const struct {
        uint64_t elements;
        double us;
    } rows[] = {{65536, 1.5}, {UINT64_C(1) << 30, 4100}};
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", NULL);
    EchGpuKernel kernel = {.launch = {.elements = rows[_i].elements, .operand_bytes = 4, .kind = ECH_GPU_ELEMENTWISE, .instructions = 13, .trips = 1},
                           .read = 8 * rows[_i].elements,
                           .written = 4 * rows[_i].elements};
    ech_gpu_launch_loop(rows[_i].elements, 32, true, 132, &kernel.launch);
    ech_gpu_launch_says(&kernel.launch, &kernel.name);
    EchGpuCost cost;
    ck_assert(ech_gpu_kernel_price(device, &kernel, &cost));
    double predicted = (double)cost.time * 1e-6;
    ck_assert_msg(predicted > 0.95 * rows[_i].us && predicted < 1.15 * rows[_i].us, "%g us, measured %g", predicted, rows[_i].us);
}
END_TEST

static EchTime product(const EchDevice *device, const char *text, const char *dtype)
{
    EchGpuKernel kernel = {.read = 1 << 20, .written = 1 << 20, .dtype = dtype};
    ck_assert(ech_gpu_launch_parse(text, &kernel.launch));
    ech_gpu_launch_says(&kernel.launch, &kernel.name);
    EchGpuCost cost;
    ck_assert(ech_gpu_kernel_price(device, &kernel, &cost));
    return cost.time;
}

/* Under a limit of power products run as fast as what they take of the time leaves them power for: faster than all of the time, slower than without the limit,
 * and at the rate of the share that they then take. */
START_TEST(held_to_less_power)
{
    g_autoptr(EchImport) got = import();
    GError *error = NULL;
    static const char *const limit[] = {"kernel.power=300", NULL};
    g_autoptr(EchDevice) full = ech_test_device("h100-sxm", NULL), held = ech_test_device("h100-sxm", limit);
    g_autoptr(EchTrace) trace = ech_program_lower(got->program, held, NULL, got->diag, &error);
    ck_assert_ok(trace != NULL, error);
    g_autoptr(EchRun) free = run(trace, full, true), always = run_duty(trace, held, NULL, true, 1), settled = run(trace, held, true);
    double best = us(price_of(free, trace, "k_blas")), worst = us(price_of(always, trace, "k_blas")), between = us(price_of(settled, trace, "k_blas"));
    ck_assert_double_lt(best, between);
    ck_assert_double_lt(between, worst);
    EchTime products = 0;
    for (size_t i = 0; i < settled->n_spans; i++)
        if (settled->prices[settled->spans[i].op].kernel_class == ECH_GPU_PRODUCT || settled->prices[settled->spans[i].op].kernel_class == ECH_GPU_ATTENTION)
            products += settled->spans[i].end - settled->spans[i].start;
    g_autoptr(EchRun) again = run_duty(trace, held, NULL, true, (double)products / (double)settled->makespan);
    ck_assert_double_eq_tol(us(price_of(again, trace, "k_blas")), between, 0.03 * between);
    ck_assert_int_eq(price_of(free, trace, "k_rows")->alone, price_of(always, trace, "k_rows")->alone);
    bool told = false;
    for (const char *const *r = ech_diag_remarks(settled->diag); *r; r++)
        told = told || g_str_has_prefix(*r, "held to 300 W, products and attention");
    ck_assert(told);
}
END_TEST

/* Tensor cores step through a filter's channels one position at a time: in a given tile 3 channels cost what 32 do; a library that chooses has kernels that
 * take 16 bytes of every position, many positions a step. */
START_TEST(few_channels)
{
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", NULL);
    EchTime tiled = product(device, "product=1x25088x768x768 taps=256 operand_bytes=2 class=product arithmetic=mma tile=128x128x32", "bf16"),
            tiled_full = product(device, "product=1x25088x768x8192 taps=256 operand_bytes=2 class=product arithmetic=mma tile=128x128x32", "bf16"),
            three = product(device, "product=1x25088x768x768 taps=256 operand_bytes=2 class=product arithmetic=mma", "bf16"),
            eight = product(device, "product=1x25088x768x2048 taps=256 operand_bytes=2 class=product arithmetic=mma", "bf16"),
            nine = product(device, "product=1x25088x768x2304 taps=256 operand_bytes=2 class=product arithmetic=mma", "bf16"),
            plain = product(device, "product=1x25088x768x768 operand_bytes=2 class=product arithmetic=mma", "bf16");
    ck_assert_int_gt(tiled, 9 * tiled_full / 10);
    ck_assert_int_eq(three, eight);
    ck_assert_int_gt(nine, 3 * eight);
    ck_assert_int_gt(three, 2 * plain);
    ck_assert_int_gt(tiled, 3 * three);
    /* The lanes go through positions and channels together. */
    EchTime lanes = product(device, "product=1x25088x768x768 taps=256 operand_bytes=4 class=product arithmetic=fma", "f32"),
            lanes_plain = product(device, "product=1x25088x768x768 operand_bytes=4 class=product arithmetic=fma", "f32");
    ck_assert_int_lt(lanes, 3 * lanes_plain / 2);
    /* With few channels the shorter steps of the older kernels win. */
    ck_assert_int_le(product(device, "product=1x25088x768x768 taps=256 operand_bytes=2 class=product arithmetic=wgmma", "bf16"), three);
}
END_TEST

/* Groups of a few filters go together as one of 32, zeros between them: half as many groups of twice the filters cost the same, a dense filter far more. */
START_TEST(grouped_convolutions)
{
    g_autoptr(EchDevice) device = ech_test_device("rtx-4090", NULL);
    EchTime four = product(device, "product=32x1605632x4x36 taps=9 operand_bytes=2 class=product arithmetic=mma", "f16"),
            eight = product(device, "product=16x1605632x8x72 taps=9 operand_bytes=2 class=product arithmetic=mma", "f16"),
            wide = product(device, "product=4x1605632x32x288 taps=9 operand_bytes=2 class=product arithmetic=mma", "f16"),
            dense = product(device, "product=1x1605632x128x1152 taps=9 operand_bytes=2 class=product arithmetic=mma", "f16");
    ck_assert_int_eq(four, wide);
    ck_assert_int_eq(eight, wide);
    ck_assert_int_gt(dense, 3 * four / 2);
}
END_TEST

/* A product of few tiles and a long k fills the chip with parts of it. */
START_TEST(long_products)
{
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", NULL);
    EchTime whole = product(device, "product=1x128x512x65536 operand_bytes=2 class=product arithmetic=wgmma tile=128x128x64 stages=4", "bf16"),
            parts = product(device, "product=1x128x512x65536 operand_bytes=2 class=product arithmetic=wgmma", "bf16");
    ck_assert_int_lt(4 * parts, whole);
    ck_assert_double_gt((double)parts * 1e-12, 2.0 * 128 * 512 * 65536 / 989.4e12);
}
END_TEST

/* What makes rows and what sums them up go into a loop over elements: a kernel of Triton's that has both, in smaller tiles where threads would hold too much.
 */
START_TEST(rows_taken_in)
{
    static const char text[] = "grid=131072x1x1 block=128x1x1 elements=67108864 operand_bytes=2 class=elementwise instructions=23 vector=4 trips=1";
    EchGpuLaunch loop, rows, sum;
    ck_assert(ech_gpu_launch_parse(text, &loop));
    ck_assert(ech_gpu_launch_parse(
        "grid=4096x1x1 block=256x1x1 registers=216 elements=67108864 operand_bytes=4 class=softmax_warp instructions=20 vector=1 trips=2", &rows));
    ck_assert(ech_gpu_launch_parse("grid=16384x1x1 block=256x1x1 elements=67108864 operand_bytes=4 class=reduce instructions=7 vector=2 trips=3", &sum));
    EchGpuLaunch one = loop, whole;
    ech_gpu_launch_take_in(&one, &rows);
    ech_gpu_launch_take_in(&one, &sum);
    ech_gpu_launch_fit_rows(&one, 3, true);
    g_autofree char *printed = ech_gpu_launch_change(text, &one);
    ck_assert(ech_gpu_launch_parse(printed, &whole));
    ck_assert_int_eq(whole.kind, ECH_GPU_SOFTMAX_WARP);
    ck_assert_uint_eq(whole.instructions, 23 - 12 + 4 + (20 - 4) + (7 - 6));
    ck_assert_uint_eq(whole.trips, 3);
    ck_assert_uint_eq(whole.operand_bytes, 2);
    ck_assert_uint_eq(whole.block[0], 128);
    ck_assert_uint_eq(whole.grid[0], 16384);
    ck_assert_uint_eq(whole.registers, 24 + 32 * 4);
    ech_gpu_launch_take_in(&sum, &rows);
    ech_gpu_launch_fit_rows(&sum, 1, false);
    ck_assert_uint_eq(sum.trips, 3);
    ck_assert_uint_eq(sum.registers, 24 + 64);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_launch");
    TCase *tcase = tcase_create("all");
    tcase_add_loop_test(tcase, instructions_say, 0, G_N_ELEMENTS(kinds));
    tcase_add_loop_test(tcase, library_calls, 0, G_N_ELEMENTS(calls));
    tcase_add_test(tcase, work_areas);
    tcase_add_test(tcase, reductions);
    tcase_add_test(tcase, launches);
    tcase_add_test(tcase, unrolled_loops);
    tcase_add_test(tcase, prices);
    tcase_add_loop_test(tcase, better_is_not_slower, 0, 3);
    tcase_add_test(tcase, made_where_it_is_asked_for);
    tcase_add_test(tcase, pinned_memory_is_reached_over_the_link);
    tcase_add_test(tcase, held_to_less_power);
    tcase_add_loop_test(tcase, measured_additions, 0, 2);
    tcase_add_test(tcase, few_channels);
    tcase_add_test(tcase, grouped_convolutions);
    tcase_add_test(tcase, long_products);
    tcase_add_test(tcase, rows_taken_in);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
