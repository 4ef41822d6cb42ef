/* What the names of GPU kernels say: class, tile, stages, instruction, alignment, arrays; and launches as text. */
#include "models/kernel/gpu.h"

#include <string.h>

static const char *const ech_gpu_class_names[ECH_GPU_N_CLASSES] = {
    "unknown",      "elementwise", "strided", "fill",    "reduce", "softmax",  "softmax_warp", "norm", "product", "vector",
    "split_reduce", "attention",   "gather",  "scatter", "concat", "relayout", "optimizer",    "sort", "fft",     "solver"};
static const char *const routines[ECH_GPU_N_ROUTINES] = {"", "radix", "cholesky", "lu", "qr", "orthogonal", "eigen", "singular", "triangular"};
/* "": not said */
static const char *const arithmetics[] = {"", "fma", "mma", "wgmma"};

const char *ech_gpu_class_name(EchGpuClass kind)
{
    return kind < ECH_GPU_N_CLASSES ? ech_gpu_class_names[kind] : ech_gpu_class_names[0];
}

EchGpuBasis ech_gpu_class_basis(EchGpuClass kind)
{
    switch (kind) {
    case ECH_GPU_PRODUCT:
    case ECH_GPU_FFT: return ECH_GPU_HELD;
    case ECH_GPU_ELEMENTWISE:
    case ECH_GPU_STRIDED:
    case ECH_GPU_FILL:
    case ECH_GPU_REDUCE:
    case ECH_GPU_SOFTMAX:
    case ECH_GPU_SOFTMAX_WARP:
    case ECH_GPU_NORM:
    case ECH_GPU_VECTOR:
    case ECH_GPU_SPLIT_REDUCE:
    case ECH_GPU_ATTENTION:
    case ECH_GPU_GATHER:
    case ECH_GPU_CONCAT:
    case ECH_GPU_RELAYOUT:
    case ECH_GPU_OPTIMIZER: return ECH_GPU_BORROWED;
    case ECH_GPU_UNKNOWN:
    case ECH_GPU_SCATTER:
    case ECH_GPU_SORT:
    case ECH_GPU_SOLVER:
    case ECH_GPU_N_CLASSES: break;
    }
    return ECH_GPU_ASSUMED;
}

/* Names of kernels, most telling first: the first that occurs decides. Seen in profiles of PyTorch 1.8 to 2.7, cuBLAS 10 to 12.8, cuDNN 7 to 9, CUTLASS,
 * FlashAttention and XLA. Case does not matter. */
static const struct {
    const char *part;
    EchGpuClass kind;
} classes[] = {
    {"triton_red_", ECH_GPU_REDUCE}, /* named after all that is fused into them, norms, softmax, collectives before them */
    {"triton_per_", ECH_GPU_REDUCE},
    {"triton_poi_", ECH_GPU_ELEMENTWISE},
    {"marlin_repack", ECH_GPU_RELAYOUT}, /* once, when a model is loaded */
    {"prepack_b_kernel", ECH_GPU_RELAYOUT},
    {"kdequantizeblockwise", ECH_GPU_ELEMENTWISE}, /* bitsandbytes': weights of 4 and states of 8 bits, widened and rounded */
    {"kquantizeblockwise", ECH_GPU_ELEMENTWISE},
    {"kdequant_mm_int32", ECH_GPU_ELEMENTWISE},
    {"kint8vectorquant", ECH_GPU_NORM},
    {"gemm_4bit_simt", ECH_GPU_VECTOR},
    {"gemm_4bit_inference", ECH_GPU_VECTOR},
    {"wgrad2d_c1_k1_nhwc_reduce", ECH_GPU_SPLIT_REDUCE},
    {"nhwcslicec", ECH_GPU_STRIDED},                  /* a group's channels taken out, or put back */
    {"tensortransformgeneric", ECH_GPU_STRIDED},      /* groups' channels filled up to 2^n, or taken from that */
    {"_c1_k1_nhwc", ECH_GPU_UNKNOWN},                 /* cuDNN's convolutions of one filter a channel: sums of threads */
    {"execute_split_k_kernel", ECH_GPU_SPLIT_REDUCE}, /* cuDNN's: what adds up the parts of a gradient of filters */
    {"reduce_wgrad_nchw_helper", ECH_GPU_SPLIT_REDUCE},
    {"splitkreduce", ECH_GPU_SPLIT_REDUCE},
    {"split_k_reduce", ECH_GPU_SPLIT_REDUCE},
    {"splitk_reduce", ECH_GPU_SPLIT_REDUCE},
    {"reducesplitk", ECH_GPU_SPLIT_REDUCE},
    {"flash_fwd_splitkv_combine", ECH_GPU_REDUCE},
    {"flashattnfwdcombine", ECH_GPU_REDUCE},
    {"flash_bwd_dot_do_o", ECH_GPU_ELEMENTWISE},
    {"flash_bwd_convert", ECH_GPU_ELEMENTWISE},
    {"fusion::compute_dot_do_o", ECH_GPU_ELEMENTWISE}, /* cuDNN's of the same */
    {"fusion::convert_dq_to_16bits", ECH_GPU_ELEMENTWISE},
    {"flash_fwd_combine", ECH_GPU_REDUCE}, /* FlashAttention 4 */
    {"flash_bwd_preprocess", ECH_GPU_ELEMENTWISE},
    {"flash_bwd_postprocess", ECH_GPU_ELEMENTWISE},
    {"reshape_and_cache", ECH_GPU_STRIDED}, /* servers' caches of keys and values: a place is read, a row written there */
    {"concat_and_cache", ECH_GPU_STRIDED},
    {"flash_", ECH_GPU_ATTENTION},
    {"flashattn", ECH_GPU_ATTENTION},
    {"fmha_reduce_head", ECH_GPU_REDUCE}, /* of keys and values that several heads share: their gradients added up */
    {"fmha", ECH_GPU_ATTENTION},
    {"attn_fwd", ECH_GPU_ATTENTION}, /* AOTriton: PyTorch's on AMD */
    {"attention_kernel", ECH_GPU_ATTENTION},
    {"_fwd_kernel_stage1", ECH_GPU_ATTENTION}, /* SGLang's in Triton: parts of the keys, and their sums */
    {"_fwd_grouped_kernel_stage1", ECH_GPU_ATTENTION},
    {"_fwd_kernel_stage2", ECH_GPU_ELEMENTWISE},
    {"attentionkernel", ECH_GPU_ATTENTION},
    {"batchdecodewith", ECH_GPU_ATTENTION}, /* FlashInfer's, and their parts added up */
    {"batchprefillwith", ECH_GPU_ATTENTION},
    {"prefillwithkvcache", ECH_GPU_ATTENTION},
    {"mergestates", ECH_GPU_REDUCE},
    {"nchwtonhwc", ECH_GPU_RELAYOUT},
    {"nhwctonchw", ECH_GPU_RELAYOUT},
    {"nhwcaddpadding", ECH_GPU_RELAYOUT},
    {"transpose_readwrite", ECH_GPU_RELAYOUT},
    {"computeoffsetskernel", ECH_GPU_UNKNOWN},
    {"prepare_grouped_gemm", ECH_GPU_REDUCE},
    {"split_with_sizes_copy_out", ECH_GPU_ELEMENTWISE}, /* what FSDP has gathered, to where weights lie */
    {"multi_tensor_apply", ECH_GPU_OPTIMIZER},
    {"vectorized_elementwise_kernel", ECH_GPU_ELEMENTWISE},
    {"unrolled_elementwise_kernel", ECH_GPU_STRIDED},
    {"gpu_kernel_impl", ECH_GPU_STRIDED},
    {"vectorized_layer_norm", ECH_GPU_NORM},
    {"layer_norm", ECH_GPU_NORM},
    {"layernorm", ECH_GPU_NORM},
    {"rms_norm", ECH_GPU_NORM},
    {"rmsnorm", ECH_GPU_NORM},
    {"batch_norm", ECH_GPU_NORM},
    {"batchnorm", ECH_GPU_NORM},
    {"group_norm", ECH_GPU_NORM},
    {"groupnorm", ECH_GPU_NORM},
    {"rowwisemoments", ECH_GPU_NORM},
    {"gammabetabackwardcudakernel1", ECH_GPU_REDUCE}, /* of group norms: over sums that "internal gradients" made */
    {"gammabetabackwardcudakernel2", ECH_GPU_REDUCE},
    {"fusedparamscudakernel", ECH_GPU_REDUCE},
    {"internalgradients", ECH_GPU_NORM},
    {"gammabeta", ECH_GPU_NORM},
    {"cucomputegradinput", ECH_GPU_NORM},
    {"bn_fw_", ECH_GPU_NORM},
    {"bn_bw_", ECH_GPU_NORM},
    {"softmax_warp", ECH_GPU_SOFTMAX_WARP},
    {"softmaxwarp", ECH_GPU_SOFTMAX_WARP},
    {"softmax", ECH_GPU_SOFTMAX},
    {"catarraybatchedcopy", ECH_GPU_CONCAT},
    {"nll_loss_forward", ECH_GPU_GATHER},
    {"nll_loss2d_forward", ECH_GPU_GATHER},
    {"nll_loss_backward", ECH_GPU_SCATTER},
    {"nll_loss2d_backward", ECH_GPU_SCATTER},
    {"radixsorthistogram", ECH_GPU_REDUCE},
    {"fill_reverse_indices", ECH_GPU_FILL},
    {"searchsorted", ECH_GPU_GATHER},
    {"kernelhistogram1d", ECH_GPU_REDUCE},
    {"gathermedian", ECH_GPU_REDUCE},
    {"_kernel_vectorized", ECH_GPU_ELEMENTWISE}, /* jiterator's: "abs_kernel_vectorized2_kernel" */
    {"radixsortexclusivesum", ECH_GPU_REDUCE},
    {"radixsort", ECH_GPU_RELAYOUT},
    {"devicescan", ECH_GPU_REDUCE},
    {"uniquebykey", ECH_GPU_REDUCE},
    {"devicecompactinit", ECH_GPU_FILL},
    {"deviceselect", ECH_GPU_REDUCE},
    {"indexselect", ECH_GPU_GATHER},
    {"index_elementwise_kernel", ECH_GPU_GATHER},
    {"vectorized_gather", ECH_GPU_GATHER},
    {"vectorized_scatter", ECH_GPU_SCATTER},
    {"embedding_backward", ECH_GPU_SCATTER},
    {"compute_grad_weight", ECH_GPU_SCATTER},
    {"sum_and_scatter", ECH_GPU_SCATTER},
    {"krn_partial", ECH_GPU_REDUCE},
    {"compute_num_of_partial", ECH_GPU_REDUCE},
    {"embeddingbag", ECH_GPU_GATHER},
    {"embedding_codegen_forward", ECH_GPU_GATHER}, /* FBGEMM's tables */
    {"find_long_segments", ECH_GPU_REDUCE},
    {"embedding_backward_codegen", ECH_GPU_SCATTER},
    {"tma_scatter", ECH_GPU_SCATTER},
    {"store_kvcache", ECH_GPU_STRIDED},
    {"fused_rope", ECH_GPU_STRIDED},
    {"applyrotary", ECH_GPU_STRIDED},
    {"qknorm", ECH_GPU_NORM},
    {"per_token_quant", ECH_GPU_NORM},
    {"per_token_group_quant", ECH_GPU_NORM},
    {"scaled_fp8_quant", ECH_GPU_NORM},
    {"scaled_int8_quant", ECH_GPU_NORM},
    {"per_block_quant", ECH_GPU_NORM},
    {"act_and_mul", ECH_GPU_ELEMENTWISE},
    {"rotary_embedding", ECH_GPU_STRIDED},
    {"embedding_kernel", ECH_GPU_GATHER},
    {"indexing_backward", ECH_GPU_SCATTER},
    {"scatter_gather_elementwise", ECH_GPU_GATHER},
    {"indexfunc", ECH_GPU_SCATTER},
    {"indexadd", ECH_GPU_SCATTER},
    {"index_put", ECH_GPU_SCATTER},
    {"elementwise_kernel_with_index", ECH_GPU_FILL},
    {"elementwise_kernel", ECH_GPU_STRIDED},
    {"distribution_elementwise", ECH_GPU_ELEMENTWISE},
    {"kernelpointwiseapply", ECH_GPU_STRIDED},
    {"triu_tril", ECH_GPU_STRIDED},
    {"max_pool", ECH_GPU_STRIDED},
    {"avg_pool", ECH_GPU_STRIDED},
    {"average_pool", ECH_GPU_STRIDED},
    {"upsample", ECH_GPU_STRIDED},
    {"roll_cuda", ECH_GPU_STRIDED},
    {"tensor_kernel_scan", ECH_GPU_REDUCE},
    {"gathertopk", ECH_GPU_REDUCE},
    {"topk", ECH_GPU_REDUCE},
    {"bitonicsort", ECH_GPU_RELAYOUT},
    {"amp_update_scale", ECH_GPU_ELEMENTWISE},
    {"fused_dropout", ECH_GPU_ELEMENTWISE},
    {"op_generic_tensor_kernel", ECH_GPU_STRIDED},
    {"gemv", ECH_GPU_VECTOR},
    {"dot_kernel", ECH_GPU_VECTOR},
    {"nvjet", ECH_GPU_PRODUCT},
    {"cijk_", ECH_GPU_PRODUCT},
    {"gemm", ECH_GPU_PRODUCT},
    {"xmma", ECH_GPU_PRODUCT},
    {"tensorop", ECH_GPU_PRODUCT},
    {"scudnn", ECH_GPU_PRODUCT},
    {"h884cudnn", ECH_GPU_PRODUCT},
    {"implicit_convolve", ECH_GPU_PRODUCT},
    {"wgrad", ECH_GPU_PRODUCT},
    {"dgrad", ECH_GPU_PRODUCT},
    {"fprop", ECH_GPU_PRODUCT},
    {"triton_mm", ECH_GPU_PRODUCT},
    {"fused_moe_kernel", ECH_GPU_PRODUCT},
    {"triton_tem_fused_mm", ECH_GPU_PRODUCT},
    {"marlin<", ECH_GPU_PRODUCT}, /* weights of 4 and 8 bits */
    {"block_scaled_mm", ECH_GPU_PRODUCT},
    {"all_reduce", ECH_GPU_UNKNOWN}, /* between GPUs: symmetric memory's, vLLM's own */
    {"cross_device_reduce", ECH_GPU_UNKNOWN},
    {"reduce_kernel", ECH_GPU_REDUCE},
    {"devicereduce", ECH_GPU_REDUCE},
    {"reduce_1block", ECH_GPU_REDUCE},
    {"lpnorm_cleanup", ECH_GPU_REDUCE},
    {"input_reduce_fusion", ECH_GPU_REDUCE},
    {"loop_", ECH_GPU_ELEMENTWISE},
    {"transpose", ECH_GPU_RELAYOUT},
    {"memset", ECH_GPU_FILL},
};

/* Lower case, ASCII alone, bounded: what matters of a name is near its beginning; functors nest. */
enum { NAME_MAX_READ = 1600 };

typedef struct {
    unsigned values[3];
    unsigned n;
    size_t begin, end;
} Sides;

/* The next "AxB" or "AxBxC" at or after @at; n 0 where there is none. */
static Sides next_sides(const char *text, size_t at)
{
    Sides sides = {0};
    for (size_t i = at; text[i]; i++) {
        if (!g_ascii_isdigit(text[i]) || (i > 0 && g_ascii_isdigit(text[i - 1])))
            continue;
        size_t j = i;
        unsigned n = 0, values[3] = {0};
        while (n < 3 && g_ascii_isdigit(text[j])) {
            unsigned value = 0;
            for (; g_ascii_isdigit(text[j]) && value < 100000; j++)
                value = value * 10 + (unsigned)(text[j] - '0');
            values[n++] = value;
            if (n < 3 && text[j] == 'x' && g_ascii_isdigit(text[j + 1]))
                j++;
            else
                break;
        }
        if (n >= 2) {
            memcpy(sides.values, values, sizeof values);
            sides.n = n;
            sides.begin = i;
            sides.end = j;
            return sides;
        }
        i = j > i ? j - 1 : i;
    }
    return sides;
}

static bool is_side(unsigned value)
{
    return value >= 8 && value <= 512 && value % 8 == 0;
}

/* CUTLASS 3's templates: of "cute::tuple<cute::c<128>, cute::c<64>, cute::c<128> >" the first one that is no cluster is a block's part of m, n and k. */
static bool read_cute_tile(const char *text, EchGpuName *ret)
{
    static const char opens[] = "cute::tuple<cute::c<", constant[] = "cute::c<";
    for (const char *tuple = strstr(text, opens); tuple; tuple = strstr(tuple + 1, opens)) {
        unsigned sides[3] = {0}, n = 0;
        for (const char *at = tuple + strlen("cute::tuple<"); at && n < 3 && strncmp(at, constant, strlen(constant)) == 0; n++) {
            sides[n] = (unsigned)MIN(g_ascii_strtoull(at + strlen(constant), NULL, 10), (guint64)1024);
            at = strchr(at, '>');
            for (at = at ? at + 1 : NULL; at && (*at == ',' || *at == ' ');)
                at++;
        }
        if (n < 3 || !is_side(sides[0]) || !is_side(sides[1]) || !is_side(sides[2]))
            continue;
        ret->tile_m = (uint16_t)sides[0];
        ret->tile_n = (uint16_t)sides[1];
        ret->tile_k = (uint16_t)sides[2];
        return true;
    }
    return false;
}

/* CUTLASS 2's, mangled: "ImplicitGemmMultistageINS_4gemm9GemmShapeILi64ELi128ELi32EEE...", and far behind "Li6EbEENS_8epilogue": stages. */
static bool read_multistage(const char *text, EchGpuName *ret)
{
    const char *at = strstr(text, "implicitgemmmultistageins_4gemm9gemmshapeili");
    unsigned sides[3] = {0}, n = 0;
    at = at ? at + strlen("implicitgemmmultistageins_4gemm9gemmshapei") : NULL;
    for (; at && n < 3 && strncmp(at, "li", 2) == 0; n++) {
        sides[n] = (unsigned)MIN(g_ascii_strtoull(at + 2, NULL, 10), (guint64)1024);
        at = strchr(at, 'e');
        at = at ? at + 1 : NULL;
    }
    if (!at || n < 3 || !is_side(sides[0]) || !is_side(sides[1]) || !is_side(sides[2]))
        return false;
    ret->tile_m = (uint16_t)sides[0];
    ret->tile_n = (uint16_t)sides[1];
    ret->tile_k = (uint16_t)sides[2];
    const char *stages = strstr(at, "ebeens_8epilogue");
    if (stages && g_ascii_isdigit(stages[-1]) && stages[-2] == 'i')
        ret->stages = (uint8_t)(stages[-1] - '0');
    return true;
}

/* "tilesize128x128x64", "_256x64_32x4_", "_128x128x64_1x1x1_", "128x128_ldg8_f2f_stages_32x5", "s64x128x16gemm" (an instruction, no tile). */
static void read_tile(const char *text, EchGpuName *ret)
{
    if (read_cute_tile(text, ret) || read_multistage(text, ret))
        return;
    for (Sides sides = next_sides(text, 0); sides.n; sides = next_sides(text, sides.end)) {
        const unsigned *v = sides.values;
        bool instruction = strncmp(text + sides.end, "gemm", 4) == 0 || strncmp(text + sides.end, "fprop", 5) == 0 ||
                           strncmp(text + sides.end, "dgrad", 5) == 0 || strncmp(text + sides.end, "wgrad", 5) == 0;
        if (instruction)
            continue;
        if (ret->tile_m == 0 && is_side(v[0]) && is_side(v[1])) {
            ret->tile_m = (uint16_t)v[0];
            ret->tile_n = (uint16_t)v[1];
            if (sides.n == 3)
                ret->tile_k = (uint16_t)MIN(v[2], 1024u);
            const char *stage = strstr(text + sides.end, "_stage");
            if (stage && stage == text + sides.end && g_ascii_isdigit(stage[6]))
                ret->stages = (uint8_t)(stage[6] - '0');
        } else if (ret->tile_m && ret->tile_k == 0 && sides.n == 2 && v[0] >= 8 && v[0] <= 256 && v[1] >= 1 && v[1] <= 16) {
            ret->tile_k = (uint16_t)v[0];
            ret->stages = (uint8_t)v[1];
        }
    }
}

/* AMD's Tensile: "cijk_alik_bljk_hhs_bh_mt128x128x32_mi32x32x8x1_...": after the three operands their type, MI an instruction of the matrix units. Its launches
 * count threads where others count blocks (rocprof, Kineto), so the tile is left to the model. */
static void read_tensile(const char *text, EchGpuName *ret)
{
    const char *type = text;
    for (unsigned word = 0; type && word < 3; word++) {
        type = strchr(type, '_');
        type = type ? type + 1 : NULL;
    }
    const char *instruction = strstr(text, "_mi");
    ret->arithmetic = instruction && instruction[3] >= '1' && instruction[3] <= '9' ? ECH_GPU_MMA : ECH_GPU_FMA;
    switch (type ? *type : 's') {
    case 'h':
    case 'b': ret->element_bytes = 2; break;
    case 'f':
    case 'i': ret->element_bytes = 1; break;
    case 'c':
    case 'd': ret->element_bytes = 8; break;
    case 'z': ret->element_bytes = 16; break;
    default: ret->element_bytes = 4; break;
    }
}

static unsigned number_after(const char *at)
{
    unsigned value = 0;
    while (*at == ' ')
        at++;
    for (; g_ascii_isdigit(*at) && value < 100000; at++)
        value = value * 10 + (unsigned)(*at - '0');
    return value;
}

/* What stands before the bracket that closes the one at @open; NULL where none does. */
static const char *closing(const char *open)
{
    int depth = 0;
    for (const char *at = open; *at; at++) {
        depth += *at == '<';
        depth -= *at == '>';
        if (depth == 0)
            return at;
    }
    return NULL;
}

/* "marlin::marlin<4503599629483016l, 4503599644147720l, ..., 256, 1, 8, 8, true, 4, 8, false>", before "marlin<half, 4503599644147720l, 256, 1, 8, 8, ...":
 * types as long numbers, threads, blocks of 16 of m, n and k, and, behind what else is so, how many tiles are in flight. */
static bool read_marlin(const char *text, EchGpuName *ret)
{
    const char *at = strstr(text, "marlin<"), *end = at ? closing(at + 6) : NULL;
    unsigned values[4] = {0}, n = 0;
    for (at = end ? at + 7 : NULL; at && at < end && n < 4;) {
        unsigned value = number_after(at);
        if (n > 0 || value == 128 || value == 256)
            values[n++] = value;
        at = strchr(at, ',');
        at = at ? at + 1 : NULL;
    }
    if (n < 4 || !is_side(16 * values[2]) || !is_side(16 * values[3]) || values[1] > 8)
        return false;
    ret->arithmetic = ECH_GPU_MMA;
    ret->striped = at && (strncmp(at, " true", 5) == 0 || strncmp(at, " false", 6) == 0) ? 2 : 1;
    ret->tile_m = (uint16_t)(at && strncmp(at, " true", 5) == 0 && values[1] == 1 ? 8 : 16 * MAX(values[1], 1u));
    ret->tile_n = (uint16_t)(16 * values[2]);
    ret->tile_k = (uint16_t)(16 * values[3]);
    ret->stages = 4;
    ret->widens = true;
    return true;
}

/* bitsandbytes' "gemm_4bit_sm80_m16n8k16<__nv_bfloat16, 32, 64, 128>": a block's part of m, n and k. */
static bool read_four_bits(const char *text, EchGpuName *ret)
{
    const char *at = strstr(text, "gemm_4bit_sm"), *end = at ? strchr(at, '>') : NULL;
    unsigned sides[3] = {0}, n = 0;
    for (at = at ? strchr(at, ',') : NULL; at && at < end && n < 3; at = strchr(at + 1, ','))
        sides[n++] = number_after(at + 1);
    if (n < 3 || !is_side(sides[0]) || !is_side(sides[1]) || !is_side(sides[2]))
        return false;
    ret->arithmetic = ECH_GPU_MMA;
    ret->tile_m = (uint16_t)sides[0];
    ret->tile_n = (uint16_t)sides[1];
    ret->tile_k = (uint16_t)sides[2];
    return true;
}

/* cuDNN's of images of few channels, "fprop_image_first_layer_..._k64c4r7s7_stride2x2_tile16x64x64_": a block makes rows and columns of a picture, of all 64
 * filters, and goes position by position over four channels. */
static void read_first_layer(const char *text, EchGpuName *ret)
{
    const char *at = ret->kind == ECH_GPU_PRODUCT && ret->stages == 0 ? strstr(text, "fprop_image_first_layer") : NULL, *filters = at ? strstr(at, "_k") : NULL;
    while (filters && !g_ascii_isdigit(filters[2]))
        filters = strstr(filters + 2, "_k");
    const char *channels = filters ? strchr(filters, 'c') : NULL;
    if (!channels || number_after(filters + 2) == 0 || number_after(filters + 2) > 1024 || ret->tile_m == 0 || ret->tile_m * ret->tile_n > 4096)
        return;
    ret->tile_m = (uint16_t)(ret->tile_m * ret->tile_n);
    ret->tile_n = (uint16_t)number_after(filters + 2);
    ret->tile_k = (uint16_t)CLAMP(number_after(channels + 1), 1, 64);
}

static void read_product(const char *text, EchGpuName *ret)
{
    if (g_str_has_prefix(text, "cijk_")) {
        read_tensile(text, ret);
        return;
    }
    if (read_marlin(text, ret) || read_four_bits(text, ret))
        return;
    ret->widens = strstr(text, "machete") != NULL;
    ret->striped = ret->widens || strstr(text, "streamkscheduler") ? 2 : 0; /* Machete's, too: it stands too far behind in their names */
    read_tile(text, ret);
    read_first_layer(text, ret);
    bool tensor = strstr(text, "tensorop") || strstr(text, "s884") || strstr(text, "s1688") || strstr(text, "s16816") || strstr(text, "s161616") ||
                  strstr(text, "i8816") || strstr(text, "i16832") || strstr(text, "h884") || strstr(text, "h1688") || strstr(text, "hmma") ||
                  strstr(text, "imma") || strstr(text, "d884") || strstr(text, "_tf32f32") || strstr(text, "tf32") || strstr(text, "bf16") ||
                  strstr(text, "f16f16") || strstr(text, "_mma");
    bool lanes = strstr(text, "ffma") || strstr(text, "simt") || strstr(text, "hfma") || strstr(text, "dfma") ||
                 (!tensor && (strstr(text, "sgemm") || strstr(text, "scudnn") || strstr(text, "dgemm") || strstr(text, "hgemm") ||
                              strstr(text, "implicit_convolve_sgemm")));
    if (strstr(text, "sm90_") || strstr(text, "sm90<") || strstr(text, "gmma") || strstr(text, "nvjet") || strstr(text, "sm100_") ||
        strstr(text, "cutlass3x_sm"))
        ret->arithmetic = strstr(text, "fprop_image_first_layer") ? ECH_GPU_MMA : ECH_GPU_WGMMA;
    else
        ret->arithmetic = lanes ? ECH_GPU_FMA : ECH_GPU_MMA;
    /* s1688 on 16-bit operands names them. */
    ret->tf32 = ret->arithmetic != ECH_GPU_FMA && (strstr(text, "tf32") || (strstr(text, "s1688") && !strstr(text, "f16") && !strstr(text, "fp16")));
    const char *align = strstr(text, "align");
    while (align && !g_ascii_isdigit(align[5])) /* "aligna4": of one operand */
        align = align[5] && g_ascii_isdigit(align[6]) && (align[5] == 'a' || align[5] == 'c') ? NULL : strstr(align + 5, "align");
    if (align)
        ret->alignment = (uint8_t)MIN(number_after(align + 5), 16u);
}

/* "elementwise_kernel<128, 4, ...": threads and elements a thread. */
static bool read_block(const char *arguments, EchGpuName *ret)
{
    unsigned threads = arguments ? number_after(arguments + 19) : 0;
    const char *comma = arguments ? strchr(arguments, ',') : NULL;
    if (threads < 32 || threads > 1024 || !comma || number_after(comma + 1) < 1 || number_after(comma + 1) > 16)
        return false;
    ret->block_elements = (uint16_t)(threads * number_after(comma + 1));
    return true;
}

/* "..._kernel<128, 4, ...": threads and elements a thread; "vectorized_elementwise_kernel<4, ...": elements a thread at least. */
static void read_elementwise(const char *text, EchGpuName *ret)
{
    const char *arguments = strstr(text, "elementwise_kernel<"), *array = strstr(text, "array<char*, ");
    if (arguments) {
        unsigned first = number_after(arguments + 19);
        if (ret->kind == ECH_GPU_ELEMENTWISE)
            ret->block_elements = (uint16_t)(128 * MAX(MIN(first, 16u), 4u));
        else if (!read_block(arguments, ret) && strstr(text, "unrolled_elementwise_kernel<"))
            ret->block_elements = 512;
        if (ret->kind == ECH_GPU_ELEMENTWISE)
            ret->vector = (uint8_t)MAX(MIN(first, 16u), 1u);
        /* PyTorch 2.7 and later, which names one argument more: eight a thread at least. */
        const char *past = array ? strchr(array, '>') : NULL;
        if (ret->kind == ECH_GPU_ELEMENTWISE && past && (strncmp(past, ">, false>", 9) == 0 || strncmp(past, ">, true>", 8) == 0))
            ret->block_elements = (uint16_t)(128 * MAX(MIN(first, 16u), 8u));
    }
    /* "abs_kernel_vectorized2_kernel": elements of 16 bytes together, 8 a thread. */
    const char *jiterated = arguments || array || ret->kind != ECH_GPU_ELEMENTWISE || strstr(text, "fillfunctor") ? NULL : strstr(text, "_kernel_vectorized");
    unsigned together = jiterated ? number_after(jiterated + strlen("_kernel_vectorized")) : 0;
    if (together == 1 || together == 2 || together == 4) {
        ret->element_bytes = (uint8_t)(16 / together);
        ret->vector = (uint8_t)together;
        ret->block_elements = 1024;
        ret->arrays = 2;
    }
    if (array)
        ret->arrays = (uint8_t)MIN(number_after(array + 13), 32u);
    else if (strstr(text, "fillfunctor"))
        ret->arrays = 1;
    else if (strstr(text, "binaryfunctor") || strstr(text, "functor_add") || strstr(text, "functor_mul"))
        ret->arrays = 3;
    if (strstr(text, "fillfunctor"))
        ret->kind = ECH_GPU_FILL;
}

static unsigned type_bytes(const char *at)
{
    static const struct {
        const char *name;
        unsigned bytes;
    } types[] = {{"c10::bfloat16", 2}, {"__nv_bfloat16", 2}, {"__half", 2},        {"c10::half", 2},   {"c10::float8", 1}, {"float", 4}, {"double", 8},
                 {"long", 8},          {"int", 4},           {"unsigned char", 1}, {"signed char", 1}, {"short", 2},       {"bool", 1}};
    for (size_t i = 0; i < G_N_ELEMENTS(types); i++)
        if (strncmp(at, types[i].name, strlen(types[i].name)) == 0)
            return types[i].bytes;
    return 0;
}

/* "converting_copy_kernel_cuda<float, c10::BFloat16>": what it reads, what it writes. As many elements a thread as fit 16 bytes of the narrower one. Before it
 * there was "bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}" (and float16_, and float8_ of several types): what it reads. */
static void read_conversion(const char *text, EchGpuName *ret)
{
    const char *half = strstr(text, "float16_copy_kernel_cuda("), *eighth = strstr(text, "float8_copy_kernel_cuda("),
               *source = half || eighth ? strstr(half ? half : eighth, "{lambda(") : NULL;
    if (source && type_bytes(source + 8) > 0) {
        ret->read_bytes = (uint8_t)type_bytes(source + 8);
        ret->written_bytes = half ? 2 : 1;
    }
    const char *types = strstr(text, "converting_copy_kernel_cuda<"), *comma = types ? strstr(types, ", ") : NULL;
    if (!comma)
        return;
    unsigned from = type_bytes(types + 28), to = type_bytes(comma + 2);
    if (from == 0 || to == 0)
        return;
    ret->read_bytes = (uint8_t)from;
    ret->written_bytes = (uint8_t)to;
    ret->element_bytes = (uint8_t)MAX(from, to);
    if (ret->kind == ECH_GPU_ELEMENTWISE)
        ret->block_elements = (uint16_t)(128 * (MIN(from, to) == 1 ? 16 : MIN(from, to) == 2 ? 8 : 4));
}

/* bitsandbytes' "kDequantizeBlockwise<__nv_bfloat16, 512, 64, 8, 2>": what it writes, bytes that a block reads, threads, bytes a thread, and 0 where a byte is
 * one value, else two (csrc/kernels.cu); "kdequant_mm_int32_fp16": products of 8 bits, to 16. */
static void read_widening(const char *text, EchGpuName *ret)
{
    const char *at = strstr(text, "kdequantizeblockwise<"), *end = at ? strchr(at, '>') : NULL;
    if (end && g_ascii_isdigit(end[-1])) {
        unsigned each = type_bytes(at + strlen("kdequantizeblockwise<"));
        ret->element_bytes = 1;
        ret->block_elements = 512;
        ret->read_bytes = 1;
        ret->written_bytes = (uint8_t)(MAX(each, 1u) * (end[-1] == '0' ? 1 : 2));
    } else if (strstr(text, "kdequant_mm_int32")) {
        ret->read_bytes = 4;
        ret->written_bytes = 2;
    }
}

/* bitsandbytes' "kOptimizer32bit2State<__nv_bfloat16, 0>" and "kOptimizerStatic8bit2StateBlockwise<float, 0, 256, 1>": gradient, parameter and states are read,
 * parameter and states written (csrc/cuda/optimizers.cu); scales of the 8 bits are next to nothing. AdEMAMix (6) keeps a third state behind the first, and is
 * left to what its arrays tell. */
static void read_states(const char *text, EchGpuName *ret)
{
    static const struct {
        const char *part;
        unsigned states;
    } kinds[] = {{"koptimizer32bit2state<", 2 * 4},
                 {"koptimizer32bit1state<", 4},
                 {"koptimizerstatic8bit2stateblockwise<", 2},
                 {"koptimizerstatic8bit1stateblockwise<", 1}};
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
        const char *at = strstr(text, kinds[i].part), *type = at ? at + strlen(kinds[i].part) : NULL;
        unsigned each = type ? type_bytes(type) : 0;
        if (each == 0 || strncmp(type + strcspn(type, ",>"), ", 6", 3) == 0)
            continue;
        ret->element_bytes = (uint8_t)each;
        ret->read_bytes = (uint8_t)(2 * each + kinds[i].states);
        ret->written_bytes = (uint8_t)(each + kinds[i].states);
    }
}

/*
 * multi_tensor_apply_kernel<TensorListMetadata<lists>, Functor<type, lists, read, index of the result>>; optimizers of one kernel
 * (FusedAdamMathFunctor) write all their lists but the gradients; norms write next to nothing.
 */
static uint16_t elementwise_instructions(const char *text);

static void read_lists(const char *text, EchGpuName *ret)
{
    const char *lists = strstr(text, "metadata<"), *end = lists ? closing(lists + 8) : NULL;
    if (!end || !g_ascii_isdigit(end[-1]))
        return;
    unsigned depth = MIN(number_after(end - 1), 8u), read = depth, written = 1, given = 0;
    const char *functor = strstr(end, "functor<"), *last = functor ? closing(functor + 7) : NULL;
    unsigned numbers = 0, values[3] = {0};
    for (const char *at = last; at && at > functor && numbers < 3 && g_ascii_isdigit(at[-1]); numbers++) {
        const char *from = at - 1;
        while (from > functor && g_ascii_isdigit(from[-1]))
            from--;
        values[numbers] = number_after(from);
        at = from > functor + 2 && from[-1] == ' ' && from[-2] == ',' ? from - 2 : NULL;
    }
    if (strstr(text, "fused")) {
        written = depth > 1 ? depth - 1 : 1;
    } else if (numbers == 3 && values[1] >= 1 && values[1] <= depth) {
        ret->instructions = elementwise_instructions(text); /* one operator, no optimizer */
        read = values[1];
        given = strstr(text, "copyfunctor<") ? 2 : 0;
    }
    ret->lists = (uint8_t)(given ? given : read);
    ret->lists_read = (uint8_t)(strstr(text, "zerofunctor<") ? 0 : read);
    ret->lists_written = (uint8_t)(strstr(text, "normfunctor<") ? 0 : written);
}

/* Rows and head of a block that FlashAttention-3 works on: "CollectiveMainloopFwdSm90<2, cute::tuple<cluster>, cute::tuple<cute::C<128>, cute::C<176>,
 * cute::C<128> >, ...". */
static void read_mainloop(const char *text, EchGpuName *ret)
{
    const char *at = strstr(text, "collectivemainloop");
    at = at ? strstr(at, "tuple<") : NULL;
    at = at ? strstr(at + 6, "tuple<") : NULL;
    uint16_t sizes[3] = {0};
    for (size_t i = 0; i < 3 && at && (at = strstr(at, "c<")); i++) {
        at += 2;
        sizes[i] = (uint16_t)MIN(number_after(at), 1024u);
    }
    if (sizes[2] > 0) {
        ret->query_rows = sizes[0];
        ret->key_rows = sizes[1];
        ret->head = sizes[2];
    }
    /* "..., 512, ..." behind that: values of another depth. Where it is more, queries have a part as deep as that, which keys share with values (DeepSeek's):
     * as many operations a score as heads of that depth have. */
    const char *values = at ? strchr(at, ',') : NULL;
    unsigned depth = values ? MIN(number_after(values + 1), 1024u) : 0;
    if (sizes[2] > 0 && depth > 0)
        ret->head = (uint16_t)((depth > sizes[2] ? sizes[2] + 2 * depth : sizes[2] + depth) / 2);
    /* "..., cutlass::arch::Sm90, causal, local, capped, of varying length, in pages, ..." (hopper/mainloop_fwd_sm90_tma_gmma_ws.hpp) */
    at = at ? strstr(at, "sm90, ") : NULL;
    for (size_t i = 0; i < 4 && at; i++) {
        at = strchr(at, ',');
        at = at && at[1] ? at + 2 : NULL;
    }
    at = at ? strchr(at, ',') : NULL;
    ret->paged = at && strncmp(at, ", true", 6) == 0;
}

/* "flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, ...>, dropout, causal, ...>": head, rows of queries and of keys; split over keys there is no
 * dropout to name. "fmha_cutlassF_bf16_aligned_64x128_rf_sm80": rows of both. */
static void read_attention(const char *text, EchGpuName *ret)
{
    ret->query_rows = ret->tile_m;
    ret->key_rows = ret->tile_n;
    ret->library = strstr(text, "cudnn") != NULL;
    ret->flexible = strstr(text, "flex_attention") != NULL;
    ret->splits = strstr(text, "kernel_stage1") != NULL;
    ret->efficient = strstr(text, "fmha_cutlass") != NULL;
    const char *kernel = ret->efficient ? strstr(text, "::attentionkernel<") : NULL, *last = kernel ? closing(kernel + strlen("::attentionkernel")) : NULL;
    ret->general = last && last - kernel > 12 && strncmp(last - 12, ", true, true", 12) == 0;
    read_mainloop(text, ret);
    const char *traits = strstr(text, "kernel_traits<"), *end = traits ? closing(traits + 13) : NULL;
    if (!end)
        return;
    const char *first = strchr(traits, ','), *second = first ? strchr(first + 1, ',') : NULL;
    if (second && second < end) {
        ret->head = (uint16_t)MIN(number_after(traits + 14), 1024u);
        ret->query_rows = (uint16_t)MIN(number_after(first + 1), 1024u);
        ret->key_rows = (uint16_t)MIN(number_after(second + 1), 1024u);
    }
    const char *causal = end + 1;
    if (!strstr(text, "splitkv") && strncmp(causal, ", ", 2) == 0 && strchr(causal + 2, ','))
        causal = strchr(causal + 2, ',');
    ret->causal = strncmp(causal, ", true", 6) == 0;
}

/* Issued instructions an element, all of a thread's over its elements. Taken from the sizes at which kernels on an H100 and an A100 stop being bound by memory
 * (LLMCompass and NeuSight artifacts, recorded profiles): what only adds and multiplies is never bound by them; an error function costs 50, a general power 60.
 * A scalar power that is no 2, 3 or -2, the fourth function of its kernel, is from 64 M of f32, which take an H100 and an H200 210 us alike
 * (traces/gpu_h200/operators.json.gz). GELUs are from two kernels of our own step on an H100 (traces/gpu_h100-sxm; 54 and 80 before); held out: the operators
 * there, -4 and 0 %, 20 and 27 before.
 */
static uint16_t elementwise_instructions(const char *text)
{
    static const struct {
        const char *part;
        uint16_t count;
    } costs[] = {
        {"gelubackward", 46}, {"gelu", 34}, {"pow_tensor_tensor", 90}, {"pow_", 24}, {"erf_", 54},       {"dropout", 60},    {"normal_and_transform", 70},
        {"distribution", 60}, {"silu", 34}, {"sigmoid", 34},           {"tanh", 34}, {"exp_kernel", 30}, {"log_kernel", 30}, {"sin_kernel", 40},
        {"cos_kernel", 40},   {"div_", 20}, {"divfunctor", 20},        {"sqrt", 20}};
    if (strstr(text, "pow_tensor_scalar") && strstr(text, ")#4}"))
        return 104;
    for (size_t i = 0; i < G_N_ELEMENTS(costs); i++)
        if (strstr(text, costs[i].part))
            return costs[i].count;
    return 13;
}

static EchGpuClass class_of(const char *text)
{
    size_t i = 0;
    if (strstr(text, "triton_tem_") && strstr(text, "flex_attention")) /* with what is fused into it in between */
        return ECH_GPU_ATTENTION;
    while (i < G_N_ELEMENTS(classes) && !strstr(text, classes[i].part))
        i++;
    if (i < G_N_ELEMENTS(classes) && classes[i].kind != ECH_GPU_UNKNOWN)
        return classes[i].kind;
    if (strstr(text, "cutlass"))
        return ECH_GPU_PRODUCT;
    return strcmp(text, "_fwd_kernel") == 0 ? ECH_GPU_ATTENTION : ECH_GPU_UNKNOWN; /* of prompts, in Triton: SGLang's, LightLLM's, vLLM's */
}

static bool says_one_of(const char *text, const char *const *parts)
{
    while (*parts && !strstr(text, *parts))
        parts++;
    return *parts != NULL;
}

static uint8_t bytes_of_element(const char *text)
{
    static const char *const two[] = {"bfloat16", "half", "bf16", "fp16", "f16", NULL}, *const one[] = {"<bool", "unsigned char", NULL};
    const char *opaque = strstr(text, "opaquetype<"), *drawn = strstr(text, "_and_transform<"), *fused = strstr(text, "mathfunctor<");
    if (opaque && g_ascii_isdigit(opaque[11])) /* bytes, whatever the type */
        return (uint8_t)CLAMP(opaque[11] - '0', 1, 8);
    if (strstr(text, "complex<"))
        return strstr(text, "complex<double>") ? 16 : 8;
    if (drawn && type_bytes(drawn + 15) > 0)
        return (uint8_t)type_bytes(drawn + 15);
    if (fused && type_bytes(fused + 12) > 0) /* of optimizers, whose rates are doubles */
        return (uint8_t)type_bytes(fused + 12);
    if (strstr(text, "transpose_copy_tiled_kernel<unsigned int, 2,") || /* two in a word */
        (strstr(text, "where_kernel_impl") && strstr(text, "vectorized_elementwise_kernel<8")))
        return 2;
    return says_one_of(text, two) ? 2 : strstr(text, "double") ? 8 : strstr(text, "float") ? 4 : strstr(text, "<long") ? 8 : says_one_of(text, one) ? 1 : 4;
}

/* Kernels whose threads go from one element to the next, waiting for each. Upsampling: a thread has one place of all images and channels (of some of them where
 * it only copies; UpSampleBilinear2d.cu, UpSampleNearest2d.cu). Pooling, channels last (DilatedMaxPool2d.cu): a wait for each place of each window that an
 * element of the input lies in, and two backward, for its place and then its gradient; 3 x 3 in steps of 2 is taken, of which an element lies in 2.25: the
 * sizes of a window no launch tells. */
static void read_chain(const char *text, EchGpuName *ret)
{
    static const char *const each[] = {"upsample_bilinear2d_out_frame", "upsample_nearest2d_out_frame", "upsample_bicubic2d_out_frame", NULL};
    if (says_one_of(text, each))
        ret->chain = 10;
    else if (strstr(text, "max_pool_forward_nhwc"))
        ret->chain = 23;
    else if (strstr(text, "max_pool_backward_nhwc"))
        ret->chain = 45;
}

/* Lane slots of an element's places where nothing tells by how many dimensions they are computed. */
#define PLAIN_PLACES 71
/* One load, and divisions of 64 bits (TensorTransformations.cu): twice 19 M elements of f16 on an H100, 178 us (traces/gpu_h100-sxm/operators.csv). Held out:
 * Swin-T's on an H200. */
#define ROLL_INSTRUCTIONS 150

/* Whether each element is converted by a switch over types as it is loaded and stored (PyTorch's fetch_and_cast, cast_and_store in Loops.cuh): arrays of
 * different types. Where places are computed, too, the name tells by its functor's type: kernels that convert compute in 4 bytes and more, of which others take
 * two elements a thread, not four, or say that they do not ("_nocast"). */
static bool converts(const char *text, const EchGpuName *name)
{
    return strstr(text, "loadwithcast<") || (name->block_elements == 512 && strstr(text, "gpu_kernel_impl<") && name->element_bytes >= 4);
}

/* Lane slots of the arrays of a kernel whose elements are not read one after the other: of offsets, divisions by every dimension. What converts is from an
 * H100's casts of 2 to 4 bytes (GPT-2's losses, 97 in all) and sums of two types (ViT-B's, 120), each less what waits for memory beside it; with offsets, from
 * ConvNeXt-T's gradients on an H200 (146). Held out: the other models' there (traces/gpu_h100-sxm/models, traces/gpu_h200). */
static uint8_t place_instructions(const char *text, const EchGpuName *name)
{
    bool many = name->arrays > 2, offsets = !strstr(text, "loadwithcast<");
    if (!converts(text, name))
        return PLAIN_PLACES;
    return many ? offsets ? 133 : 107 : 83;
}

unsigned ech_gpu_place_instructions(const EchGpuName *name, unsigned axes, bool expanded)
{
    if (axes == 0 || name->places != PLAIN_PLACES)
        return name->places;
    return axes < 4 ? (expanded && name->arrays < 3 ? 40 : 73) : name->arrays > 2 ? 99 : 87;
}

/* cuDNN's "tensorTransformGeneric": an element's place in both arrays by divisions by all dimensions, in a loop of blocks that are there at once. 64 x 168 x
 * 112 x 112 filled up to 192 on an H200 (traces/gpu_h200/models, RegNetY-8GF: 1,093 us). Held out: its other sizes. */
#define TRANSFORM_INSTRUCTIONS 237

static void read_stream(const char *text, EchGpuName *ret)
{
    read_elementwise(text, ret);
    read_conversion(text, ret);
    read_widening(text, ret);
    if (strstr(text, "flash_bwd_dot_do_o") || strstr(text, "flash_bwd_preprocess") ||
        strstr(text, "fusion::compute_dot_do_o")) { /* two of 16 bits; clears the f32 sums of another */
        ret->read_bytes = ret->written_bytes = 4;
    } else if (strstr(text, "flash_bwd_convert_dq") || strstr(text, "flash_bwd_postprocess") || strstr(text, "fusion::convert_dq")) {
        ret->read_bytes = 4;
        ret->written_bytes = 2;
    } else if (strstr(text, "_fwd_kernel_stage2")) { /* sums of two parts in f32, mostly */
        ret->read_bytes = 8;
        ret->written_bytes = 2;
    }
    read_chain(text, ret);
    ret->cuts = strstr(text, "nhwcslicec") != NULL;
    ret->widens_groups = strstr(text, "tensortransformgeneric") != NULL;
    ret->places = ret->kind == ECH_GPU_STRIDED && !ret->widens_groups ? place_instructions(text, ret) : 0;
    ret->instructions = (uint16_t)(elementwise_instructions(text) + ret->places);
    if (ret->widens_groups)
        ret->instructions = TRANSFORM_INSTRUCTIONS;
    if (ret->cuts) /* an element a thread, where others take several places before they read */
        ret->trips = 1;
    if (ret->kind == ECH_GPU_STRIDED && strstr(text, "roll_cuda")) {
        ret->places = 0;
        ret->instructions = ROLL_INSTRUCTIONS;
        ret->trips = 1;
        ret->every = true; /* a dimension after the other */
    }
    if (strstr(text, "triu_tril")) /* once for two neighbours (TriangularOps.cu, elements_per_thread) */
        ret->instructions = 13 + PLAIN_PLACES / 2;
}

/* PyTorch's own, "reduce_kernel<128, 4, ": a thread takes so many columns at once (Reduce.cuh's output_vec_size) of four rows before it adds them up (vt0; of
 * two where it keeps mean and variance). A trip is two accesses of @vector elements; that many are under way of what lies together, too. */
static void read_reduce_kernel(const char *text, EchGpuName *ret)
{
    const char *at = strstr(text, "reduce_kernel<"), *columns = at ? strstr(at, ", ") : NULL;
    if (!columns || (at > text && !strchr(" :", at[-1])) || !strchr("124", columns[2]) || columns[3] != ',')
        return;
    ret->joins = true;
    if (columns[2] != '1')
        ret->vector = (uint8_t)((columns[2] - '0') * (strstr(at, "welfordops") ? 1 : 2));
}

/* PyTorch's choice of the largest of a row by a block (SortingRadixSelect.cuh): a look at the whole row for every two bits of a value, each with barriers and a
 * count of four digits by shared memory. Seen on an H100: medians of 4096 are bound by what is issued, two of 64 by the wait. */
#define CHOICE_INSTRUCTIONS 40
#define CHOICE_TRIPS 1.5
/* ScanUtils.cuh, tensor_kernel_scan_innermost_dim: a row of threads takes two elements each, sums by shared memory, and goes on: reading, barriers, writing. A
 * step is two elements a thread; 4096 rows of 4096 on an H100. */
#define SCAN_CHAIN 13
/* SummaryOps.cu, kernelHistogram1D: a bin is a division, and a count in shared memory that others want. 2^24 floats and 2^24 whole numbers on an H100. */
#define HISTOGRAM_INSTRUCTIONS 150
/* For a digit of a key of what cub counts before it sorts: its place, and a count in shared memory. 2^24 floats and 2^22 long ones on an H100. */
#define DIGIT_INSTRUCTIONS 22

static void read_counting(const char *text, EchGpuName *ret)
{
    static const char *const in_order[] = {"devicescankernel",       "devicescanbykeykernel", "selectsweepkernel",
                                           "uniquebykeysweepkernel", "reducebykeykernel",     NULL};
    ret->looks_back = says_one_of(text, in_order);
    if (strstr(text, "gathermedian") || strstr(text, "sbtopk::gathertopk")) {
        unsigned looks = ret->element_bytes * 4u;
        ret->instructions = (uint16_t)(CHOICE_INSTRUCTIONS * looks);
        ret->trips = (uint16_t)(CHOICE_TRIPS * looks);
    } else if (strstr(text, "tensor_kernel_scan_innermost_dim")) {
        ret->chain = SCAN_CHAIN;
    } else if (strstr(text, "kernelhistogram1d")) {
        ret->instructions = HISTOGRAM_INSTRUCTIONS;
    } else if (strstr(text, "radixsorthistogram")) {
        const char *hub = strstr(text, "policy_hub<"), *key = hub ? hub : strstr(text, "radixsortpolicy<");
        unsigned bytes = key ? type_bytes(strchr(key, '<') + 1) : 0;
        if (bytes > 0) {
            ret->counts = true;
            ret->element_bytes = (uint8_t)bytes;
            ret->instructions = (uint16_t)(DIGIT_INSTRUCTIONS * bytes);
        }
    }
}

static void read_reduction(const char *text, EchGpuName *ret)
{
    read_reduce_kernel(text, ret);
    read_counting(text, ret);
    if (!strstr(text, "triton_"))
        return;
    ret->vector = 4; /* rows that lie together, no offsets to compute: as what is element-wise, in accesses of 16 bytes */
    ret->instructions = 13;
    ret->generated = true;
}

/* Elements that a thread sorts in a pass of cub's radix sort, by the bytes of a key and of what moves with it: as PyTorch 2.15 launches it on Hopper and
 * Blackwell, values of 8 bytes; earlier GPUs have 8 to 23. */
static uint8_t radix_items(unsigned keys, unsigned values)
{
    static const uint8_t alone[] = {[1] = 19, [2] = 20, [4] = 19, [8] = 15}, with[] = {[1] = 9, [2] = 11, [4] = 14, [8] = 12};
    return keys > 8 || !alone[keys] ? 0 : values > 0 ? with[keys] : alone[keys];
}

/* A pass of cub's radix sort, "onesweepkernel<...policy_hub<float, at::cuda::cub::detail::opaquetype<8>, unsigned long long>::policy1000, ": keys and what
 * moves with each of them. */
static void read_onesweep(const char *text, EchGpuName *ret)
{
    const char *key = strstr(text, "policy_hub<"), *value = key ? strstr(key, ", ") : NULL;
    ret->sorts = true;
    if (!value)
        return;
    unsigned keys = type_bytes(key + strlen("policy_hub<")), with = 0;
    value += strlen(", ");
    const char *opaque = strstr(value, "opaquetype<"), *end = strchr(value, ',');
    if (opaque && (!end || opaque < end))
        with = (unsigned)CLAMP(g_ascii_digit_value(opaque[11]), 1, 8);
    else if (!strstr(value, "nulltype") || (end && strstr(value, "nulltype") > end))
        with = type_bytes(value);
    if (keys == 0)
        return;
    ret->element_bytes = (uint8_t)keys;
    ret->vector = radix_items(keys, with);
    ret->read_bytes = ret->written_bytes = (uint8_t)(keys + with);
}

/* cub's BlockRadixSort takes four bits a pass if it is not told otherwise; 4096 rows of 1024 floats on an H100. */
#define ROW_SORT_INSTRUCTIONS 122

static void read_relayout(const char *text, EchGpuName *ret)
{
    ret->vector = strstr(text, "radixsort") ? 16 : strstr(text, "nhwctonchw") ? 4 : 1; /* elements a thread */
    if (strstr(text, "onesweep"))
        read_onesweep(text, ret);
    else if (strstr(text, "radixsortkvinplace")) /* a block sorts its row in shared memory, with an index of 64 bits for every key */
        ret->instructions = (uint16_t)(ROW_SORT_INSTRUCTIONS * (ret->element_bytes * 8 / 4));
}

/* A name that is written as Triton has it, after a Python function: no template, no parameters, no name space. Those of libraries that are plain, too, have
 * their library's first. */
static bool is_of_triton(const char *text)
{
    return strpbrk(text, "<>():, ") == NULL && !g_str_has_prefix(text, "miopen") && !g_str_has_prefix(text, "cudnn");
}

/* cuDNN's batch norms of planes: a block of 512 threads has a channel. "bn_fw_tr_1C11_kernel_NCHW<__half, float, int, 128, ...", "bn_bw_1C11_kernel_new<" go
 * through it twice, "..._singleread" keep it. Tenths of a trip an element and thread: 64 channels of 64 x 56 x 56 in f16 on an H100 (133 and 296 us), 128 of
 * 28 x 28, of planes that a warp has ("32", 50 us; kept 12.5), and gradients of 256 of 14 x 14, kept (11 us). Held out: what else ResNet-50 has there
 * (traces/gpu_h100-sxm/models), and the operators' f32. */
static void read_plane_norm(const char *text, EchGpuName *ret)
{
    bool forward = strstr(text, "bn_fw_tr_1c11") != NULL;
    if (strstr(text, "norm") || ret->sums_rows || (!forward && !strstr(text, "bn_bw_1c11")))
        return;
    ret->generated = strstr(text, "singleread") != NULL;
    if (ret->generated)
        ret->chain = forward ? 1 : 5;
    else
        ret->chain = forward ? 7 : strstr(text, ", 32,") ? 10 : 15;
}

static void read_norm(const char *text, EchGpuName *ret)
{
    static const char *const divides[] = {"collect_statistics", "rowwisemoments", NULL};
    static const char *const sums[] = {"gammabeta", "collect_statistics", "rowwisemoments", "batch_norm_backward_reduce", "internalgradients", NULL};
    /* A block of 128 sums up a row twice, whatever its length (layer_norm_kernel.cu): rows of 96 and 192 of Swin-T on an H200 (333 and 97.4 us), of 768 of
     * GPT-2 on an H100 (30.7). Held out: rows of 384, and of 768 in other models there (traces/gpu_h200, traces/gpu_h100-sxm). */
    if (strstr(text, "layer_norm_grad_input_kernel_vectorized")) {
        ret->instructions = 55;
        ret->row_instructions = 125;
        ret->trips = 3;
        return;
    }
    ret->sums_rows = says_one_of(text, sums);
    ret->walks = strstr(text, "collect_statistics_channels_last") || strstr(text, "batch_norm_backward_reduce_channels_last");
    read_plane_norm(text, ret);
    /* As reductions, but that a mean and variance that go on are divided anew at every element (WelfordOps), as in a norm itself. */
    ret->instructions =
        ret->walks || ret->chain > 0 || (ret->sums_rows && !says_one_of(text, divides)) || (strstr(text, "_quant") && !strstr(text, "norm")) ? 24 : 0;
    /* Batch norms' own elements, scaled and moved, and their gradients: of ResNet-50's rows of 784 MiB on an H100 (368 and 484 us). A thread waits for four
     * loads at once (Normalization.cuh: ELEMENTS_PER_ITER), and 128 rows of blocks, however few channels there are, all take as long: of 64 channels, 144 and
     * 224 a half or all of the chip waits. Held out: all others of ResNet-50's, and EfficientNet's and RegNetY's on an H200. */
    if (strstr(text, "transform_input_channels_last") || strstr(text, "backward_elemt_channels_last")) {
        ret->instructions = strstr(text, "backward_elemt") ? 60 : 51;
        ret->step = 4;
    }
    /* RMS norms add up squares, where a layer norm's mean and variance are divided anew at every element (layer_norm_kernel.cu, cuRMSOnlineSum and
     * cuWelfordOnlineSum): as reductions. "vectorized_layer_norm_kernel<c10::bfloat16, float, true>". */
    const char *squares = strstr(text, "vectorized_layer_norm_kernel<"), *ends = squares ? strchr(squares, '>') : NULL;
    if (ends && ends - squares > 6 && strncmp(ends - 6, ", true", 6) == 0)
        ret->instructions = 24;
    if (!ret->walks && strstr(text, "internalgradients")) /* of group norms: a block's threads read what they add up at once, and add up by shared memory */
        ret->generated = true;
    if (!ret->backward && (is_of_triton(text) || strstr(text, "triton_norm"))) { /* a block keeps its row; gradients go through several rows, summing up */
        ret->generated = true;
        ret->instructions = 24;
    }
}

/* Machine instructions of a division of 32 bits by what is only known then, with its rest and that one's place (three of them conversions and a reciprocal),
 * and tenths of a trip to memory that a chain of them takes: PyTorch's decoding over a cache of 1024 places on an H100 (traces/gpu_h100-sxm/models, 103 us).
 * And what is beside them of an element. */
#define DIVISION_INSTRUCTIONS 20
#define DIVISION_TENTHS 2
#define PLACE_INSTRUCTIONS 10

/* PyTorch's of pieces that do not lie together, "CatArrayBatchedCopy<OpaqueType<2u>, unsigned int, 4, ": every element's place in the piece and in the whole by
 * divisions by all dimensions but the first, and the next one's only when it is stored (Shape.cu). */
static void read_concatenation(const char *text, EchGpuName *ret)
{
    const char *at = strstr(text, "catarraybatchedcopy<"), *type = at ? strstr(at, "unsigned int, ") : NULL;
    unsigned divisions = type ? number_after(type + strlen("unsigned int, ")) : 0;
    if (strstr(text, "_vectorized")) { /* places are computed for an access of 16 bytes */
        ret->instructions = (uint16_t)MAX(45 / MAX(16 / ret->element_bytes, 1), 4);
        ret->vector = (uint8_t)MAX(16 / ret->element_bytes, 1);
    } else if (divisions > 1 && divisions <= 8) {
        ret->instructions = PLACE_INSTRUCTIONS + 2 * (divisions - 1) * DIVISION_INSTRUCTIONS;
        ret->chain = (uint8_t)(10 + (divisions - 1) * DIVISION_TENTHS);
    } else if (strstr(text, "_contig")) { /* no offsets to compute: trips overlap */
        ret->vector = 2;
    }
}

static void read_direct(const char *text, EchGpuName *ret)
{
    static const char *const weights[] = {"grad_weight_kernel", "backward_weight_kernel", NULL};
    if (strstr(text, "conv_depthwise"))
        ret->direct = says_one_of(text, weights) ? ECH_GPU_DIRECT_WEIGHTS : ECH_GPU_DIRECT_RESULTS;
    else if (strstr(text, "weight_int8pack_mm_kernel"))
        ret->direct = ECH_GPU_DIRECT_ROWS;
    else if (strstr(text, "_c1_k1_nhwc"))
        ret->direct = strstr(text, "wgrad")           ? ECH_GPU_DIRECT_FILTERS
                      : !strstr(text, "_specialized") ? ECH_GPU_DIRECT_CHANNELS
                      : strstr(text, "dgrad")         ? ECH_GPU_DIRECT_SQUARES
                                                      : ECH_GPU_DIRECT_WINDOWS;
    if (ret->direct)
        ret->kind = ECH_GPU_ELEMENTWISE;
}

void ech_gpu_name(const char *name, EchGpuName *ret)
{
    static const char *const backward[] = {"backward", "_bwd", "bprop", "attnbwd", "bn_bw", NULL};
    char text[NAME_MAX_READ];
    size_t n = 0;
    for (; name[n] && n + 1 < sizeof text; n++)
        text[n] = g_ascii_tolower(name[n]);
    text[n] = '\0';
    *ret = (EchGpuName){.kind = (uint8_t)class_of(text), .vector = 1, .backward = says_one_of(text, backward), .element_bytes = bytes_of_element(text)};
    if (ret->kind == ECH_GPU_UNKNOWN) {
        read_direct(text, ret);
        read_states(text, ret);
    }
    switch ((EchGpuClass)ret->kind) {
    case ECH_GPU_PRODUCT:
        read_product(text, ret);
        ret->split = strstr(text, "nvjet") && strstr(text, "_splitk_");
        ret->filters = ret->arithmetic == ECH_GPU_MMA && strstr(text, "wgrad") && !strstr(text, "first_layer") && !strstr(text, "direct");
        ret->group = strstr(text, "cutlass") && strstr(text, "cudnn") && (strstr(text, "_optimized_") || strstr(text, "implicitgemmconvolution"));
        break;
    case ECH_GPU_ATTENTION:
        read_product(text, ret);
        read_attention(text, ret);
        break;
    case ECH_GPU_ELEMENTWISE:
    case ECH_GPU_STRIDED: read_stream(text, ret); break;
    case ECH_GPU_VECTOR:
        ret->vector = 8;               /* 16 bytes */
        if (strstr(text, "gemm_4bit")) /* four weights an element: each looked up and widened, and multiplied */
            ret->instructions = 4 * (4 + 1);
        break;
    case ECH_GPU_REDUCE: read_reduction(text, ret); break;
    case ECH_GPU_RELAYOUT: read_relayout(text, ret); break;
    case ECH_GPU_CONCAT: read_concatenation(text, ret); break;
    case ECH_GPU_OPTIMIZER: read_lists(text, ret); break;
    case ECH_GPU_NORM: read_norm(text, ret); break;
    case ECH_GPU_GATHER:
        ret->whole_rows = strstr(text, "vectorized_gather") != NULL;
        ret->adds = strstr(text, "reduceadd") != NULL;
        if (ret->whole_rows) { /* 16 bytes a thread, and an index looked up, checked and followed: rows of 256 and of 2048 bytes on an H100 */
            ret->element_bytes = 4;
            ret->vector = 4;
            ret->instructions = 45 / 4;
            ret->trips = 5;
        }
        if (strstr(text, "embedding_codegen_forward")) /* a lane of the warp that sums a bag has four columns (FBGEMM's Vec4T) */
            ret->vector = 4;
        read_block(strstr(text, "elementwise_kernel<"), ret);
        break;
    case ECH_GPU_SCATTER: /* a thread adds up the rows of one index, mostly one or two */
        ret->whole_rows = strstr(text, "vectorized_scatter") != NULL;
        ret->adds = strstr(text, "reduceadd") != NULL;
        ret->trips = strstr(text, "compute_grad_weight") || strstr(text, "sum_and_scatter") ? 2 : 0;
        break;
    case ECH_GPU_SOFTMAX: /* a block's row in registers or in shared memory (PyTorch from 2.1 and 2.8 on); cunn_SoftMaxForward alone goes through it again and
                             again */
        ret->generated = strstr(text, "softmaxforwardreg") || strstr(text, "softmaxforwardsmem");
        break;
    case ECH_GPU_FILL:
        if (strstr(text, "fill_reverse_indices")) { /* PyTorch's sort: places of 64 bits, one a thread of 1024 */
            ret->element_bytes = 8;
            ret->block_elements = 1024;
            ret->arrays = 1;
        }
        break;
    case ECH_GPU_UNKNOWN:
    case ECH_GPU_SOFTMAX_WARP:
    case ECH_GPU_SPLIT_REDUCE:
    case ECH_GPU_SORT:
    case ECH_GPU_FFT:
    case ECH_GPU_SOLVER:
    case ECH_GPU_N_CLASSES: break;
    }
}

/* ---- Launches as text ---- */

/* A member of EchGpuLaunch and the most that is read into it. */
typedef struct {
    uint16_t at;
    uint8_t size;
    uint64_t most;
} Member;
#define MEMBER(member, most)                                                                                                                                   \
    {                                                                                                                                                          \
        offsetof(EchGpuLaunch, member), sizeof(((EchGpuLaunch *)NULL)->member), most                                                                           \
    }
#define ANY UINT64_MAX

/* "NAME=AxBxC", or "NAME=WORD" by the index of the word, in the order of the text. Written where member @shown_by is not 0. */
static const struct {
    const char *name;
    uint8_t n, shown_by;
    uint8_t missing; /* what a number that is not said stands for */
    Member members[ECH_GPU_NEAR];
    const char *const *words;
    size_t n_words;
} fields[] = {
    {"grid", 3, .missing = 1, .members = {MEMBER(grid[0], UINT32_MAX), MEMBER(grid[1], UINT32_MAX), MEMBER(grid[2], UINT32_MAX)}},
    {"block", 3, .missing = 1, .members = {MEMBER(block[0], UINT32_MAX), MEMBER(block[1], UINT32_MAX), MEMBER(block[2], UINT32_MAX)}},
    {"shared", 1, .members = {MEMBER(shared, UINT32_MAX)}},
    {"registers", 1, .members = {MEMBER(registers, 1024)}},
    {"product", 4, .shown_by = 1, .members = {MEMBER(batch, ANY), MEMBER(m, ANY), MEMBER(n, ANY), MEMBER(k, ANY)}},
    {"taps", 1, .members = {MEMBER(taps, ANY)}},
    {"turned", 1, .members = {MEMBER(turned, ANY)}},
    {"rows", 2, .members = {MEMBER(rows, ANY), MEMBER(columns, ANY)}},
    {"elements", 1, .members = {MEMBER(elements, ANY)}},
    {"operand_bytes", 1, .members = {MEMBER(operand_bytes, 64)}},
    {"scattered", 1, .members = {MEMBER(scattered, 1)}},
    {"sectors", 1, .members = {MEMBER(sectors, 4096)}},
    {"axes", 1, .members = {MEMBER(axes, 25)}},
    {"class", 1, .members = {MEMBER(kind, 0)}, .words = ech_gpu_class_names, .n_words = ECH_GPU_N_CLASSES},
    {"backward", 1, .members = {MEMBER(backward, 1)}},
    {"causal", 1, .members = {MEMBER(causal, 1)}},
    {"dropout", 1, .members = {MEMBER(dropout, 1)}},
    {"head", 1, .members = {MEMBER(head, 1024)}},
    {"arithmetic", 1, .members = {MEMBER(arithmetic, 0)}, .words = arithmetics, .n_words = G_N_ELEMENTS(arithmetics)},
    {"tile", 3, .members = {MEMBER(tile_m, 4096), MEMBER(tile_n, 4096), MEMBER(tile_k, 4096)}},
    {"stages", 1, .members = {MEMBER(stages, 16)}},
    {"alignment", 1, .members = {MEMBER(alignment, 16)}},
    {"instructions", 1, .members = {MEMBER(instructions, 1u << 24)}},
    {"vector", 1, .members = {MEMBER(vector, 64)}},
    {"trips", 1, .members = {MEMBER(trips, UINT16_MAX)}},
    {"routine", 1, .members = {MEMBER(routine, 0)}, .words = routines, .n_words = ECH_GPU_N_ROUTINES},
    {"weight_bits", 1, .members = {MEMBER(weight_bits, 64)}},
    {"keys", 1, .members = {MEMBER(keys, 8)}},
    {"passes", 1, .members = {MEMBER(passes, UINT16_MAX)}},
    {"fills", 1, .members = {MEMBER(fills, 1)}},
    {"waits", 1, .members = {MEMBER(waits, 1)}},
    {"filters", 1, .members = {MEMBER(filters, 1)}},
    {"issued", 1, .members = {MEMBER(issued, ANY)}},
    {"access", 2, .members = {MEMBER(accesses, ANY), MEMBER(wavefronts, ANY)}},
    {"fetched", 1, .members = {MEMBER(fetched, ANY)}},
    {"path", 2, .members = {MEMBER(path_cycles, ANY), MEMBER(path_trips, ANY)}},
    {"barriers", 1, .members = {MEMBER(barriers, ANY)}},
    {"units", 3, .members = {MEMBER(slots, ANY), MEMBER(slots_64, ANY), MEMBER(functions, ANY)}},
    {"atomics", 2, .members = {MEMBER(atomics, ANY), MEMBER(crowded, ANY)}},
    {"near", ECH_GPU_NEAR, .shown_by = ECH_GPU_NEAR - 1,
     .members = {MEMBER(near[0], ANY), MEMBER(near[1], ANY), MEMBER(near[2], ANY), MEMBER(near[3], ANY), MEMBER(near[4], ANY), MEMBER(near[5], ANY)}},
};

static void set_member(EchGpuLaunch *launch, const Member *member, uint64_t value)
{
    char *at = (char *)launch + member->at;
    switch (member->size) {
    case 1: *(uint8_t *)at = (uint8_t)value; break; /* truths, too: those are 0 or 1 */
    case 2: memcpy(at, &(uint16_t){(uint16_t)value}, 2); break;
    case 4: memcpy(at, &(uint32_t){(uint32_t)value}, 4); break;
    default: memcpy(at, &value, 8); break;
    }
}

static uint64_t get_member(const EchGpuLaunch *launch, const Member *member)
{
    const char *at = (const char *)launch + member->at;
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    switch (member->size) {
    case 1: return *(const uint8_t *)at;
    case 2: memcpy(&two, at, 2); return two;
    case 4: memcpy(&four, at, 4); return four;
    default: memcpy(&eight, at, 8); return eight;
    }
}

/* "AxBxC" into at most @n numbers; those not said stay. */
static const char *read_numbers(const char *at, uint64_t *values, size_t n)
{
    for (size_t i = 0; i < n && g_ascii_isdigit(*at); i++) {
        guint64 value = 0;
        for (; g_ascii_isdigit(*at); at++)
            value = value < G_MAXUINT64 / 16 ? value * 10 + (guint64)(*at - '0') : value;
        values[i] = value;
        if (*at != 'x')
            break;
        at++;
    }
    return at;
}

/* Index of the word at @at among @words; 0 where it is none of them. */
static size_t read_word(const char *at, const char *const *words, size_t n)
{
    size_t length = strcspn(at, " ");
    for (size_t i = 1; i < n; i++)
        if (strlen(words[i]) == length && strncmp(at, words[i], length) == 0)
            return i;
    return 0;
}

/* What stands behind "=" into field @f; where it ends. */
static const char *read_field(size_t f, const char *at, EchGpuLaunch *ret)
{
    if (fields[f].words) {
        set_member(ret, &fields[f].members[0], read_word(at, fields[f].words, fields[f].n_words));
        return at;
    }
    uint64_t values[G_N_ELEMENTS(fields[f].members)];
    for (size_t i = 0; i < fields[f].n; i++)
        values[i] = fields[f].missing;
    at = read_numbers(at, values, fields[f].n);
    for (size_t i = 0; i < fields[f].n; i++)
        set_member(ret, &fields[f].members[i], MIN(values[i], fields[f].members[i].most));
    return at;
}

bool ech_gpu_launch_parse(const char *text, EchGpuLaunch *ret)
{
    *ret = (EchGpuLaunch){0};
    for (const char *at = text; at && *at; at = strchr(at, ' ')) {
        while (*at == ' ')
            at++;
        const char *equal = strchr(at, '=');
        if (!equal)
            break;
        size_t length = (size_t)(equal - at), f = 0;
        while (f < G_N_ELEMENTS(fields) && (strncmp(at, fields[f].name, length) != 0 || fields[f].name[length] != '\0'))
            f++;
        at = f < G_N_ELEMENTS(fields) ? read_field(f, equal + 1, ret) : equal;
    }
    return ret->grid[0] || ret->m || ret->rows || ret->elements || ret->kind;
}

/* By hand: a capture has such a text per kernel. */
static void print_number(GString *out, uint64_t value)
{
    char digits[20];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + value % 10);
    while (value /= 10);
    g_string_append_len(out, digits + at, (gssize)(sizeof digits - at));
}

void ech_gpu_launch_print(const EchGpuLaunch *launch, GString *out)
{
    size_t start = out->len;
    for (size_t f = 0; f < G_N_ELEMENTS(fields); f++) {
        uint64_t shown = get_member(launch, &fields[f].members[fields[f].shown_by]);
        if (shown == 0 || (fields[f].words && shown >= fields[f].n_words))
            continue;
        if (out->len > start)
            g_string_append_c(out, ' ');
        g_string_append(out, fields[f].name);
        for (size_t i = 0; i < fields[f].n; i++) {
            g_string_append_c(out, i > 0 ? 'x' : '=');
            if (fields[f].words)
                g_string_append(out, fields[f].words[shown]);
            else
                print_number(out, get_member(launch, &fields[f].members[i]));
        }
    }
}

char *ech_gpu_launch_change(const char *was, const EchGpuLaunch *launch)
{
    g_autoptr(GString) text = g_string_new(NULL);
    g_auto(GStrv) words = g_strsplit(was, " ", -1);
    ech_gpu_launch_print(launch, text);
    for (gsize k = 0; words[k]; k++) {
        const char *end = strchr(words[k], '=');
        bool is_shape = end == NULL;
        for (size_t f = 0; f < G_N_ELEMENTS(fields) && !is_shape; f++)
            is_shape = strncmp(fields[f].name, words[k], (size_t)(end - words[k])) == 0 && fields[f].name[end - words[k]] == '\0';
        if (!is_shape)
            g_string_append_printf(text, "%s%s", text->len > 0 ? " " : "", words[k]);
    }
    return g_string_free(g_steal_pointer(&text), FALSE);
}

/* Rows of a block of a library's attention, as its grid is written (traces/capture/pretend/dnn.c). */
#define LIBRARY_ROWS 128

void ech_gpu_launch_says(const EchGpuLaunch *launch, EchGpuName *name)
{
    if (launch->kind)
        *name = (EchGpuName){.kind = launch->kind,
                             .arithmetic = launch->kind == ECH_GPU_PRODUCT ? ECH_GPU_WGMMA : ECH_GPU_FMA, /* a library takes the best there is */
                             .vector = launch->kind == ECH_GPU_VECTOR ? (uint8_t)(16 / CLAMP(launch->operand_bytes, 1, 16)) : 1, /* 16 bytes */
                             .element_bytes = (uint8_t)MIN(launch->operand_bytes, 16u),
                             .library = launch->kind == ECH_GPU_ATTENTION};
    if (launch->backward)
        name->backward = true;
    if (launch->causal)
        name->causal = true;
    if (launch->filters)
        name->filters = true;
    if (launch->head) {
        name->head = launch->head;
        if (name->query_rows == 0)
            name->query_rows = name->key_rows = LIBRARY_ROWS;
    }
    if (launch->arithmetic)
        name->arithmetic = launch->arithmetic - 1;
    if (launch->tile_m) {
        name->tile_m = launch->tile_m;
        name->tile_n = launch->tile_n;
        name->tile_k = launch->tile_k;
    }
    if (launch->stages)
        name->stages = launch->stages;
    if (launch->alignment)
        name->alignment = launch->alignment;
    if (launch->instructions)
        name->instructions = launch->instructions;
    if (launch->vector)
        name->vector = launch->vector;
    if (launch->trips)
        name->trips = launch->trips;
}

uint64_t ech_gpu_blocks(const EchGpuLaunch *launch)
{
    return ech_bytes_mul(ech_bytes_mul(launch->grid[0], launch->grid[1]), launch->grid[2]);
}

uint32_t ech_gpu_threads(const EchGpuLaunch *launch)
{
    return (uint32_t)MIN(ech_bytes_mul(ech_bytes_mul(launch->block[0], launch->block[1]), launch->block[2]), (uint64_t)1024);
}

uint64_t ech_gpu_grid_elements(const EchGpuName *name, const EchGpuLaunch *launch)
{
    return ech_bytes_mul(ech_gpu_blocks(launch), name->block_elements);
}
