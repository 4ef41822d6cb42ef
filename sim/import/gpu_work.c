#include "sim/import/gpu_work.h"

#include <math.h>
#include <string.h>

static EchBytes bytes_of(uint64_t numel, uint8_t dtype)
{
    return ech_bytes_mul(numel, ech_dtype_bits((EchDtype)dtype)) / 8;
}

static bool is_tensor(const EchGpuInput *input)
{
    return input->known && ech_dtype_bits((EchDtype)input->dtype) > 0;
}

static bool named(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}
#define NAMED(name, ...) named(name, (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static bool is_whole(uint8_t dtype)
{
    return dtype == ECH_DTYPE_S64 || dtype == ECH_DTYPE_S32;
}

static uint64_t dim(const EchGpuInput *input, unsigned from_end)
{
    return input->rank > from_end && input->dims[input->rank - 1 - from_end] > 0 ? (uint64_t)input->dims[input->rank - 1 - from_end] : 0;
}

EchDtype ech_gpu_torch_dtype(const char *text, size_t n)
{
    static const struct {
        const char *name;
        EchDtype dtype;
    } names[] = {
        {"float", ECH_DTYPE_F32},
        {"double", ECH_DTYPE_F64},
        {"c10::Half", ECH_DTYPE_F16},
        {"c10::BFloat16", ECH_DTYPE_BF16},
        {"long int", ECH_DTYPE_S64},
        {"long", ECH_DTYPE_S64},
        {"long long", ECH_DTYPE_S64},
        {"int", ECH_DTYPE_S32},
        {"short", ECH_DTYPE_S16},
        {"signed char", ECH_DTYPE_S8},
        {"unsigned char", ECH_DTYPE_U8},
        {"bool", ECH_DTYPE_PRED},
        {"c10::complex<float>", ECH_DTYPE_C64},
        {"c10::complex<double>", ECH_DTYPE_C128},
        {"c10::Float8_e4m3fn", ECH_DTYPE_F8E4M3FN},
        {"c10::Float8_e5m2", ECH_DTYPE_F8E5M2},
        {"c10::Float8_e4m3fnuz", ECH_DTYPE_F8E4M3FNUZ},
        {"c10::Float8_e5m2fnuz", ECH_DTYPE_F8E5M2FNUZ},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        if (n > 0 && names[i].name[0] == text[0] && strlen(names[i].name) == n && memcmp(text, names[i].name, n) == 0)
            return names[i].dtype;
    }
    return ECH_DTYPE_NONE;
}

/* [.., m, k] x [.., k, n]; @transposed: the second is [n, k]. */
static bool product(const EchGpuInput *a, const EchGpuInput *b, bool transposed, EchGpuOperator *ret)
{
    if (a->rank < 1 || b->rank < 1 || a->list || b->list)
        return false;
    uint64_t k = dim(a, 0), n = b->rank == 1 ? 1 : dim(b, transposed ? 1 : 0);
    if (k == 0 || n == 0 || a->numel == 0)
        return false;
    uint64_t batch = a->rank == 3 && b->rank == 3 ? (uint64_t)a->dims[0] : 1;
    ret->kind = ECH_GPU_OP_PRODUCT;
    ret->products = 1;
    ret->batch = MAX(batch, 1);
    ret->m = a->numel / k / ret->batch;
    ret->n = n;
    ret->k = k;
    ret->dtype = a->dtype;
    ret->elements = ech_bytes_mul(ret->batch, ech_bytes_mul(ret->m, ret->n));
    ret->read = ech_bytes_add(bytes_of(a->numel, a->dtype), bytes_of(b->numel, b->dtype));
    ret->written = bytes_of(ret->elements, a->dtype);
    return true;
}

/* Products of groups of rows, as many groups as the third input has ends: [rows, k] x [groups, k, n], or [m, rows] x [rows, n] of which every group sums its
 * own rows. */
static bool grouped_product(const EchGpuInput *a, const EchGpuInput *b, const EchGpuInput *ends, EchGpuOperator *ret)
{
    if (a->rank != 2 || (b->rank != 2 && b->rank != 3) || !product(a, b, false, ret))
        return false;
    if (b->rank == 2)
        ret->elements = ech_bytes_mul(ret->elements, ends && ends->known ? MAX(ends->numel, 1) : 1);
    ret->written = bytes_of(ret->elements, a->dtype);
    return true;
}

/* Operands of 8 bits with scales, results of 16. */
static bool scaled_product(const EchGpuInput *a, const EchGpuInput *b, bool transposed, EchGpuOperator *ret)
{
    if (a->rank != 2 || b->rank != 2 || !product(a, b, transposed, ret))
        return false;
    ret->written = bytes_of(ret->elements, ECH_DTYPE_BF16);
    return true;
}

/* Of a mixture's experts, how many are asked for by @tokens that choose @chosen each: not each token another's, as if they went around, but whichever they are,
 * so that many ask for the same. So do benchmarks of such kernels, whose times are those of so many experts (an L40S, 128 experts of which 8, vllm-project/vllm
 * pull request 53710: 4, 8, 16 and 32 tokens take 0.23, 0.41, 0.66 and 0.88 of what 64 do, and ask for 0.23, 0.41, 0.65 and 0.89 of the experts). */
static double experts_asked(uint64_t experts, uint64_t tokens, uint64_t chosen)
{
    double all = (double)MAX(experts, 1);
    return all * (1 - pow(1 - MIN((double)chosen, all) / all, (double)tokens));
}

/* What is read of the weights of experts, @bytes of all of them, for @results rows of which @rows tokens asked. */
static EchBytes experts_read(EchBytes bytes, uint64_t experts, uint64_t rows, uint64_t results)
{
    bool each_asks = rows > 0 && results > rows && results % rows == 0;
    double asked = each_asks ? experts_asked(experts, rows, results / rows) : experts_asked(experts, results, 1);
    double read = (double)bytes / (double)MAX(experts, 1) * asked;
    return read < 1.8e19 ? (EchBytes)read : bytes; /* counts of hostile shapes saturate */
}

/* DeepGEMM's, by itself or within vLLM's operator: each operand is followed by its scales, of 128 rows or columns. Grouped ones have weights of all experts, of
 * which rows ask for no more than there are. */
static bool blockwise_product(const char *op, const EchGpuInput *inputs, EchGpuOperator *ret)
{
    EchGpuInput a = inputs[0], weights = inputs[2];
    if (strstr(op, "fp8")) /* the call around it may have been given rows that are rounded within */
        a.dtype = weights.dtype = ECH_DTYPE_F8E4M3FN;
    uint64_t experts = weights.rank == 3 ? MAX(dim(&weights, 2), 1) : 1;
    if (weights.rank == 3) {
        weights.rank = 2;
        memmove(weights.dims, weights.dims + 1, 2 * sizeof *weights.dims);
        weights.numel /= experts;
    }
    if (!scaled_product(&a, &weights, true, ret))
        return false;
    ret->read = ech_bytes_add(ret->read, ech_bytes_mul(bytes_of(weights.numel, weights.dtype), MIN(experts, MAX(ret->m, 1)) - 1));
    return true;
}

/* Of a weight, in bits, with its share of scales and zeros. */
static uint8_t bits_of(EchBytes bytes, uint64_t weights)
{
    return weights > 0 ? (uint8_t)CLAMP(round(8 * (double)bytes / (double)weights), 1, 64) : 0;
}

/* Weights of four bits, as PyTorch packs them for its tensor cores: [n / 8, k / (16 j), 32, j / 2] words of 32 bits, and for each group of k a scale and a zero
 * for every column; activations and results have 16 bits (aten/src/ATen/native/cuda/int4mm.cu). */
static bool packed_product(const EchGpuInput *a, const EchGpuInput *weight, const EchGpuInput *scales, EchGpuOperator *ret)
{
    if (weight->rank != 4 || weight->dims[0] <= 0 || !product(a, weight, false, ret))
        return false;
    ret->n = (uint64_t)weight->dims[0] * 8;
    ret->dtype = ECH_DTYPE_BF16;
    ret->elements = ech_bytes_mul(ret->m, ret->n);
    ret->read =
        ech_bytes_add(bytes_of(a->numel, ECH_DTYPE_BF16), ech_bytes_add(bytes_of(weight->numel, ECH_DTYPE_S32), bytes_of(scales->numel, ECH_DTYPE_BF16)));
    ret->written = bytes_of(ret->elements, ECH_DTYPE_BF16);
    ret->weight_bits = bits_of(ret->read - bytes_of(a->numel, ECH_DTYPE_BF16), ech_bytes_mul(ret->n, ret->k));
    return true;
}

/* Weights of fewer bits than the rows that they multiply, packed in words or bytes, and a scale of each group of k and column behind them, as servers' kernels
 * take them (Marlin, Machete, AWQ's, ExLlama's for GPTQ): what the packing is the operator does not say, but scales are [groups, n]. Zeros are as many as
 * scales. */
typedef struct {
    const EchGpuInput *weight, *scales;
    EchBytes bytes; /* of both and of zeros */
} Packed;

static bool is_packed(uint8_t dtype)
{
    return dtype == ECH_DTYPE_S32 || dtype == ECH_DTYPE_U32 || dtype == ECH_DTYPE_U8 || dtype == ECH_DTYPE_S8 || dtype == ECH_DTYPE_F8E4M3FN;
}

static bool packed_weights(const EchGpuInput *inputs, size_t n, Packed *ret)
{
    *ret = (Packed){0};
    for (size_t i = 1; i < n && !ret->scales; i++) {
        const EchGpuInput *in = &inputs[i];
        if (!in->known || in->list || in->rank != 2)
            continue;
        if (!ret->weight && is_packed(in->dtype))
            ret->weight = in;
        else if (ret->weight && !is_whole(in->dtype) && dim(in, 0) > 0)
            ret->scales = in;
    }
    for (size_t i = 1; i < n && ret->scales; i++)
        if (inputs[i].known && !inputs[i].list && inputs[i].rank == 2 && &inputs[i] >= ret->weight && dim(&inputs[i], 1) > 0 &&
            (&inputs[i] == ret->weight || dim(&inputs[i], 1) == dim(ret->scales, 1)))
            ret->bytes = ech_bytes_add(ret->bytes, bytes_of(inputs[i].numel, inputs[i].dtype));
    return ret->scales != NULL;
}

static bool dequantized_product(const EchGpuInput *inputs, size_t n, EchGpuOperator *ret)
{
    Packed packed;
    const EchGpuInput *a = &inputs[0];
    if (n < 3 || a->rank < 2 || !is_tensor(a) || dim(a, 0) == 0 || !packed_weights(inputs, n, &packed))
        return false;
    uint64_t columns = dim(packed.scales, 0), rows = a->numel / dim(a, 0);
    *ret = (EchGpuOperator){.kind = ECH_GPU_OP_PRODUCT,
                            .dtype = a->dtype,
                            .products = 1,
                            .batch = 1,
                            .m = rows,
                            .n = columns,
                            .k = dim(a, 0),
                            .elements = ech_bytes_mul(rows, columns),
                            .read = ech_bytes_add(bytes_of(a->numel, a->dtype), packed.bytes),
                            .weight_bits = bits_of(packed.bytes, ech_bytes_mul(columns, dim(a, 0)))};
    ret->written = bytes_of(ret->elements, a->dtype);
    return rows > 0;
}

/* bitsandbytes' (csrc/gemm_4bit.cu): rows [.., k], weights of four bits, of which the operator has all in one row, and scales of blocks, some of them of 8 bits
 * with scales of their own. */
static bool four_bit_product(const EchGpuInput *inputs, size_t n, EchGpuOperator *ret)
{
    const EchGpuInput *a = &inputs[0], *weight = &inputs[1];
    if (n < 4 || !is_tensor(a) || a->list || !is_tensor(weight) || weight->list || dim(a, 0) == 0)
        return false;
    EchBytes weights = 0;
    for (size_t i = 1; i < n; i++)
        weights = ech_bytes_add(weights, is_tensor(&inputs[i]) && !inputs[i].list ? bytes_of(inputs[i].numel, inputs[i].dtype) : 0);
    uint64_t k = dim(a, 0), columns = ech_bytes_mul(bytes_of(weight->numel, weight->dtype), 2) / k, rows = a->numel / k;
    *ret = (EchGpuOperator){.kind = ECH_GPU_OP_PRODUCT,
                            .dtype = a->dtype,
                            .products = 1,
                            .batch = 1,
                            .m = rows,
                            .n = columns,
                            .k = k,
                            .elements = ech_bytes_mul(rows, columns),
                            .read = ech_bytes_add(bytes_of(a->numel, a->dtype), weights),
                            .weight_bits = bits_of(weights, ech_bytes_mul(columns, k))};
    ret->written = bytes_of(ret->elements, a->dtype);
    return rows > 0 && columns > 0;
}

/* The same of a mixture's experts: rows [rows, k], then results [chosen, n], weights and scales of all experts, and their zeros. Servers call it from within
 * operators that are not given the weights, so that types may not be told: words of 32 bits, and scales and rows of 16. */
static bool dequantized_experts(const EchGpuInput *inputs, size_t n, EchGpuOperator *ret)
{
    const EchGpuInput *a = &inputs[0], *results = &inputs[1], *of_experts[3] = {NULL};
    size_t n_found = 0;
    for (size_t i = 2; i < n && n_found < G_N_ELEMENTS(of_experts); i++)
        if (inputs[i].known && !inputs[i].list && inputs[i].rank == 3)
            of_experts[n_found++] = &inputs[i];
    if (n_found < 2 || a->rank != 2 || !is_tensor(a) || results->rank != 2)
        return false;
    const EchGpuInput *weights = of_experts[0], *scales = of_experts[1], *zeros = of_experts[2];
    uint64_t columns = dim(scales, 0), k = dim(a, 0), experts = MAX(dim(weights, 2), 1), rows = columns > 0 ? results->numel / columns : 0;
    if (rows == 0 || k == 0)
        return false;
    uint8_t dtype = ech_dtype_bits((EchDtype)a->dtype) <= 16 ? a->dtype : (uint8_t)ECH_DTYPE_F16;
    EchBytes bytes = ech_bytes_add(bytes_of(weights->numel, is_packed(weights->dtype) ? weights->dtype : ECH_DTYPE_S32),
                                   bytes_of(scales->numel, ech_dtype_bits((EchDtype)scales->dtype) <= 16 ? scales->dtype : ECH_DTYPE_F16));
    if (zeros && dim(zeros, 1) == dim(scales, 1))
        bytes = ech_bytes_add(bytes, bytes_of(zeros->numel, ECH_DTYPE_S32));
    *ret = (EchGpuOperator){.kind = ECH_GPU_OP_PRODUCT,
                            .dtype = dtype,
                            .products = 1,
                            .batch = 1,
                            .m = rows,
                            .n = columns,
                            .k = k,
                            .elements = ech_bytes_mul(rows, columns),
                            .read = ech_bytes_add(bytes_of(a->numel, dtype), experts_read(bytes, experts, a->numel / k, rows)),
                            .weight_bits = bits_of(bytes, ech_bytes_mul(experts, ech_bytes_mul(columns, k)))};
    ret->written = bytes_of(ret->elements, dtype);
    return true;
}

/* Pixels of a convolution's result: those of a gradient that is at hand, else from padding, stride and dilation. */
static bool convolution(const EchGpuInput *in, const EchGpuInput *weight, const EchGpuInput *gradient, const EchGpuInput *padding, const EchGpuInput *stride,
                        const EchGpuInput *dilation, EchGpuOperator *ret)
{
    if (in->rank < 3 || in->rank != weight->rank || weight->dims[0] <= 0 || in->numel == 0)
        return false;
    uint64_t pixels = in->dims[0] > 0 ? (uint64_t)in->dims[0] : 0;
    for (unsigned d = 2; d < in->rank; d++) {
        int64_t out;
        if (gradient) {
            out = gradient->rank == in->rank ? gradient->dims[d] : 0;
        } else {
            if (!stride || stride->n_integers == 0)
                return false;
            unsigned at = d - 2;
            int64_t s = stride->integers[MIN(at, stride->n_integers - 1u)],
                    p = padding && padding->n_integers ? padding->integers[MIN(at, padding->n_integers - 1u)] : 0,
                    l = dilation && dilation->n_integers ? dilation->integers[MIN(at, dilation->n_integers - 1u)] : 1;
            if (s <= 0 || s > 4096 || p < 0 || p > 4096 || l < 1 || l > 4096 || weight->dims[d] < 1 || weight->dims[d] > 1 << 20 ||
                in->dims[d] > INT64_C(1) << 40)
                return false;
            out = (in->dims[d] + 2 * p - l * (weight->dims[d] - 1) - 1) / s + 1;
        }
        if (out <= 0)
            return false;
        pixels = ech_bytes_mul(pixels, (uint64_t)out);
    }
    ret->kind = ECH_GPU_OP_PRODUCT;
    ret->batch = 1;
    ret->products = gradient ? 2 : 1;
    ret->m = pixels;
    ret->n = (uint64_t)weight->dims[0];
    ret->k = weight->numel / (uint64_t)weight->dims[0];
    ret->taps = gradient || weight->dims[1] < 1 ? 0 : ret->k / (uint64_t)weight->dims[1];
    ret->dtype = in->dtype;
    ret->elements = ech_bytes_mul(pixels, ret->n);
    ret->read = ech_bytes_add(bytes_of(in->numel, in->dtype), bytes_of(weight->numel, weight->dtype));
    ret->written = bytes_of(ret->elements, in->dtype);
    return ret->m > 0 && ret->k > 0;
}

/* The dimension whose neighbours lie together, or -1 where that is not known or nothing is longer than 1. */
static int fastest(const EchGpuInput *input)
{
    int best = -1;
    for (int d = 0; d < input->rank && d < input->n_strides; d++)
        if (input->dims[d] > 1 && input->strides[d] > 0 && (best < 0 || input->strides[d] <= input->strides[best]))
            best = d;
    return input->n_strides == input->rank ? best : -1;
}

/* Elements of the broadcast result, the bytes of all inputs, and whether two inputs of that size run along different dimensions. */
static void broadcast(const EchGpuInput *inputs, size_t n, EchGpuOperator *ret)
{
    uint64_t dims[ECH_GPU_MAX_RANK];
    for (size_t d = 0; d < ECH_GPU_MAX_RANK; d++)
        dims[d] = 1;
    uint64_t listed = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        const EchGpuInput *in = &inputs[i];
        if (in->known && in->list && in->dtype == ECH_DTYPE_NONE) /* lists are recorded without their type: the kernel's name tells its width */
            ret->listed = ech_bytes_add(ret->listed, in->numel);
        ret->largest = MAX(ret->largest, in->list ? in->largest : 0);
        if (!is_tensor(in))
            continue;
        ret->read = ech_bytes_add(ret->read, bytes_of(in->numel, in->dtype));
        if (bytes_of(in->numel, in->dtype) > most) {
            most = bytes_of(in->numel, in->dtype);
            ret->dtype = in->dtype;
        }
        if (in->list)
            listed = MAX(listed, in->numel);
        for (unsigned d = 0; !in->list && d < in->rank; d++)
            dims[d] = MAX(dims[d], dim(in, d));
    }
    uint64_t elements = 1, widest = 0;
    for (size_t i = 0; i < n; i++)
        widest = MAX(widest, is_tensor(&inputs[i]) && !inputs[i].list ? inputs[i].numel : 0);
    for (size_t d = 0; d < ECH_GPU_MAX_RANK; d++)
        elements = ech_bytes_mul(elements, dims[d]);
    /* Inputs that do not broadcast (weights beside an image) would multiply up. */
    ret->elements = MAX(elements <= 64 * MAX(widest, 1) ? MAX(elements, widest) : widest, listed);
    int along = -1;
    for (size_t i = 0; i < n; i++) {
        int here = is_tensor(&inputs[i]) && !inputs[i].list && inputs[i].numel == widest && inputs[i].rank > 1 ? fastest(&inputs[i]) : -1;
        if (here >= 0 && along >= 0 && here != along)
            ret->scattered = true;
        along = here >= 0 ? here : along;
    }
    ret->written = bytes_of(ret->elements, ret->dtype);
}

/* Products of a gradient for every two of the attention itself (five, of which two make scores and their gradients again). */
#define GRADIENT_PRODUCTS 2.5

/* Sequences that are packed one behind the other, as where they begin says: an array of one more, behind keys and values at @at; 0: there is none. */
static uint64_t packed_sequences(const EchGpuInput *inputs, size_t n, size_t at)
{
    for (size_t i = at; i < n; i++)
        if (is_tensor(&inputs[i]) && !inputs[i].list && inputs[i].rank == 1)
            return inputs[i].numel > 1 ? inputs[i].numel - 1 : 0;
    return 0;
}

static void attention(const EchGpuInput *inputs, size_t n, bool backward, bool heads_last, EchGpuOperator *ret)
{
    /* q, k, v [batch, heads, length, depth], or the two in the middle the other way round, or [tokens, heads, depth] of packed sequences; a gradient first
     * where it is one. */
    size_t at = backward ? 1 : 0;
    if (n < at + 3 || !is_tensor(&inputs[at]) || inputs[at].rank != inputs[at + 1].rank)
        return;
    const EchGpuInput *q = &inputs[at], *keys = &inputs[at + 1];
    uint64_t sequences = q->rank == 3 ? packed_sequences(inputs, n, at + 3) : 0;
    if (q->rank != 4 && sequences == 0)
        return;
    /* Packed ones are taken to be of one length, which their shapes do not say. */
    uint64_t length = sequences > 0 ? MAX(dim(keys, 2) / sequences, 1) : dim(keys, heads_last ? 2 : 1);
    double operations = 4.0 * (double)q->numel * (double)length * (backward ? GRADIENT_PRODUCTS : 1);
    for (size_t i = at + 3; i < n; i++)
        if (inputs[i].truth) { /* causal: half; dropout's and others' flags are numbers */
            operations /= 2;
            ret->causal = true;
            break;
        }
    ret->kind = ECH_GPU_OP_ATTENTION;
    ret->k = operations < 9e18 ? (uint64_t)operations : 0;
    ret->head = (uint16_t)MIN(dim(q, 0), 1024u);
    ret->dtype = q->dtype;
    ret->n = length;
    ret->elements = q->numel;
    ret->written = backward ? ech_bytes_add(bytes_of(q->numel, q->dtype), ech_bytes_mul(2, bytes_of(keys->numel, q->dtype))) : bytes_of(q->numel, q->dtype);
}

/* Attention of a server of language models over keys that lie in pages: q [tokens, heads, depth], keys and values [pages, tokens of one, heads, depth], which
 * are the whole cache, and, behind them, a table [sequences, pages]. How long the sequences are is said nowhere. Assumed: where there are more tokens than
 * sequences, their prompts and nothing before them, masked causally; where there is one for each, as long as the table has room for. */
static void paged_attention(const EchGpuInput *inputs, size_t n, EchGpuOperator *ret)
{
    if (n < 4 || inputs[0].rank != 3 || inputs[1].rank != 4 || inputs[2].rank != 4)
        return;
    const EchGpuInput *q = &inputs[0], *keys = &inputs[1], *table = NULL;
    for (size_t i = 3; i < n && !table; i++)
        table = inputs[i].known && inputs[i].rank == 2 ? &inputs[i] : NULL;
    uint64_t tokens = dim(q, 2), page = dim(keys, 2), row = ech_bytes_mul(dim(keys, 1), dim(keys, 0)), sequences = table ? dim(table, 1) : 0;
    if (tokens == 0 || page == 0 || row == 0 || sequences == 0)
        return;
    bool prompts = tokens > sequences;
    uint64_t length = prompts ? (tokens + sequences - 1) / sequences : ech_bytes_mul(dim(table, 0), page),
             all = MIN(ech_bytes_mul(length, sequences), keys->numel / row);
    double operations = 4.0 * (double)q->numel * (double)length / (prompts ? 2 : 1);
    *ret = (EchGpuOperator){.kind = ECH_GPU_OP_ATTENTION,
                            .dtype = q->dtype,
                            .head = (uint16_t)MIN(dim(q, 0), 1024u),
                            .elements = q->numel,
                            .n = length,
                            .k = operations < 9e18 ? (uint64_t)operations : 0,
                            .causal = prompts,
                            .paged = true,
                            .read = ech_bytes_add(bytes_of(q->numel, q->dtype), ech_bytes_mul(2, bytes_of(ech_bytes_mul(all, row), keys->dtype))),
                            .written = bytes_of(q->numel, q->dtype)};
}

/* "_flash_attention_backward", "flash_attn::_flash_attn_backward", "flash_attn_3::bwd": a gradient comes first. */
static bool is_gradient(const char *op)
{
    return strstr(op, "backward") || strstr(op, "::bwd") || strstr(op, "_bwd");
}

void ech_gpu_attention_lengths(const char *name, const EchGpuInput *inputs, size_t n, const EchGpuLengths *lengths, EchGpuOperator *ret)
{
    bool backward = is_gradient(name);
    size_t at = backward ? 1 : 0;
    if (n < at + 3 || inputs[at].rank != 3 || !is_tensor(&inputs[at]) || inputs[at + 1].rank < 3 || !is_tensor(&inputs[at + 1]))
        return;
    const EchGpuInput *q = &inputs[at], *keys = &inputs[at + 1], *values = &inputs[at + 2];
    uint64_t tokens = dim(q, 2), heads = dim(q, 1), deep = dim(keys, 0), wide = values->rank >= 3 && dim(values, 0) > 0 ? dim(values, 0) : deep;
    EchBytes row = ech_bytes_mul(dim(keys, 1), ech_bytes_add(deep, wide));
    /* DeepSeek's: keys that are values, too, but for what turns with their places, and queries in two parts, the second of them the sixth input (FlashAttention
     * 3). */
    const EchGpuInput *latent = (strstr(name, "_fa3_C::fwd") || strstr(name, "sgl_kernel::fwd")) && n > 5 && inputs[5].rank == 3 ? &inputs[5] : NULL;
    uint64_t multiplied = ech_bytes_add(deep, latent ? dim(latent, 0) : 0);
    /* Where it is not known whose the queries are, each sequence has as many. */
    double scores = lengths->scores > 0      ? (double)lengths->scores
                    : lengths->sequences > 0 ? (double)tokens / (double)lengths->sequences * (double)lengths->keys
                                             : 0;
    double operations = 2 * scores * (double)heads * ((double)multiplied + (double)wide) * (backward ? GRADIENT_PRODUCTS : 1);
    EchBytes queries = bytes_of(ech_bytes_add(q->numel, latent ? latent->numel : 0), q->dtype), kept = bytes_of(ech_bytes_mul(lengths->keys, row), keys->dtype),
             results = bytes_of(ech_bytes_mul(ech_bytes_mul(tokens, heads), wide), q->dtype);
    *ret = (EchGpuOperator){.kind = ECH_GPU_OP_ATTENTION,
                            .dtype = q->dtype,
                            .head = (uint16_t)MIN(MAX(multiplied, wide), 1024u),
                            .elements = q->numel,
                            .n = lengths->longest,
                            .k = operations < 9e18 ? (uint64_t)operations : 0,
                            .causal = lengths->scores > 0,
                            .paged = ret->paged,
                            /* a gradient: of results and their gradients, too */
                            .read = ech_bytes_add(ech_bytes_add(queries, backward ? ech_bytes_mul(2, results) : 0), kept),
                            .written = backward ? ech_bytes_add(queries, kept) : results};
}

/* Keys and values of new tokens, put where the cache has room for them; of the cache itself nothing is read. */
static void into_cache(const EchGpuInput *inputs, size_t n, EchGpuOperator *ret)
{
    if (n < 3 || !inputs[0].known || !inputs[1].known)
        return;
    ret->kind = ECH_GPU_OP_OTHER;
    ret->dtype = inputs[0].dtype;
    ret->elements = ech_bytes_add(inputs[0].numel, inputs[1].numel);
    ret->read = ret->written = bytes_of(ret->elements, ret->dtype);
}

/* Activations to 8 bits by a scale of each row, or of so many neighbours in it, some with the norm before: input and result, one of them first. */
static bool to_eight_bits(const char *op, const EchGpuInput *inputs, size_t n, EchGpuOperator *ret)
{
    static const char *const input_first[] = {"per_token_quant_fp8", "per_token_group_fp8_quant", "per_token_group_quant"},
                             *const result_first[] = {"scaled_fp8_quant",         "scaled_int8_quant",  "rms_norm_dynamic_per_token_quant",
                                                      "rms_norm_per_block_quant", "silu_and_mul_quant", "silu_and_mul_per_block_quant"};
    const EchGpuInput *in = NULL, *out = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(input_first) && n >= 2 && !in; i++)
        if (strstr(op, input_first[i]))
            in = &inputs[0], out = &inputs[1];
    for (size_t i = 0; i < G_N_ELEMENTS(result_first) && n >= 2 && !in; i++)
        if (strstr(op, result_first[i]))
            in = &inputs[1], out = &inputs[0];
    if (!in || !is_tensor(in) || !is_tensor(out) || dim(in, 0) == 0 || in->list)
        return false;
    *ret = (EchGpuOperator){.kind = ECH_GPU_OP_ROWS,
                            .dtype = in->dtype,
                            .elements = in->numel,
                            .n = dim(in, 0),
                            .m = in->numel / dim(in, 0),
                            .read = bytes_of(in->numel, in->dtype)};
    ret->written = ech_bytes_add(out->numel, ech_bytes_mul(ret->m, 4));
    return true;
}

/* What is read of weights [experts, ...]. */
static EchBytes expert_bytes(const EchGpuInput *weights, uint64_t rows, uint64_t results)
{
    return experts_read(bytes_of(weights->numel, weights->dtype), MAX(dim(weights, 2), 1), rows, results);
}

/* Rows [tokens, width], weights [experts, inner, width] and [experts, width, half], and which experts each token goes to [tokens, chosen]: two products of all
 * of the chosen rows. */
static void fused_experts(const EchGpuInput *inputs, size_t n, EchGpuOperator *ret)
{
    const EchGpuInput *rows = &inputs[0], *up = &inputs[1], *down = &inputs[2], *chosen = &inputs[3];
    if (n < 4 || rows->rank != 2 || up->rank != 3 || down->rank != 3 || chosen->rank != 2 || !is_tensor(rows) || !is_tensor(up) || !is_tensor(down))
        return;
    uint64_t width = dim(rows, 0), inner = dim(up, 1), half = dim(down, 0), all = chosen->numel;
    if (width == 0 || inner == 0 || half == 0 || all == 0)
        return;
    *ret = (EchGpuOperator){.kind = ECH_GPU_OP_PRODUCT,
                            .dtype = rows->dtype,
                            .products = 1,
                            .batch = 1,
                            .m = all,
                            .n = ech_bytes_add(inner, half),
                            .k = width,
                            .elements = ech_bytes_mul(all, ech_bytes_add(inner, width)),
                            .read = ech_bytes_add(ech_bytes_add(expert_bytes(up, dim(chosen, 1), all), expert_bytes(down, dim(chosen, 1), all)),
                                                  bytes_of(ech_bytes_add(rows->numel, ech_bytes_mul(all, half)), rows->dtype))};
    ret->written = bytes_of(ret->elements, rows->dtype);
}

/* One of them: rows [.., width], weights [experts, inner, width], results [.., inner]. */
static void expert_product(const EchGpuInput *inputs, size_t n, EchGpuOperator *ret)
{
    const EchGpuInput *rows = &inputs[0], *weights = &inputs[1], *results = &inputs[2];
    if (n < 3 || rows->rank < 2 || weights->rank != 3 || !is_tensor(rows) || !is_tensor(weights) || !is_tensor(results))
        return;
    uint64_t width = dim(rows, 0), inner = dim(results, 0), all = inner > 0 ? results->numel / inner : 0;
    if (width == 0 || all == 0)
        return;
    *ret = (EchGpuOperator){.kind = ECH_GPU_OP_PRODUCT,
                            .dtype = rows->dtype,
                            .products = 1,
                            .batch = 1,
                            .m = all,
                            .n = inner,
                            .k = width,
                            .elements = results->numel,
                            .read = ech_bytes_add(expert_bytes(weights, rows->numel / width, all), bytes_of(rows->numel, rows->dtype)),
                            .written = bytes_of(results->numel, results->dtype)};
}

/* Queries and keys that change in place, then a table of angles, of which a row is read for each token; before them or behind them positions [tokens]. */
static void rotary_embedding(const EchGpuInput *inputs, size_t n, EchGpuOperator *ret)
{
    const EchGpuInput *positions = NULL, *arrays[3] = {NULL};
    size_t n_arrays = 0;
    for (size_t i = 0; i < n; i++) {
        if (!inputs[i].known || inputs[i].list)
            continue;
        if (inputs[i].rank == 1 && !positions)
            positions = &inputs[i];
        else if (inputs[i].rank >= 2 && n_arrays < G_N_ELEMENTS(arrays))
            arrays[n_arrays++] = &inputs[i];
    }
    const EchGpuInput *queries = arrays[0], *keys = n_arrays == 3 ? arrays[1] : NULL, *table = n_arrays > 1 ? arrays[n_arrays - 1] : NULL;
    if (!positions || !table || table->rank != 2)
        return;
    ret->kind = ECH_GPU_OP_OTHER;
    ret->dtype = queries->dtype;
    ret->elements = ech_bytes_add(queries->numel, keys ? keys->numel : 0);
    ret->written = bytes_of(ret->elements, ret->dtype);
    ret->read = ech_bytes_add(ret->written, bytes_of(ech_bytes_mul(positions->numel, dim(table, 0)), table->dtype));
}

/* Of an array that is so much larger than what a kernel goes over, it picks elements (an embedding, a cache that gets new entries): each is one that it goes
 * over. Smaller ones it may read several times as often as it writes (pooling, halves of an array). */
#define PICKED 16

static uint64_t touched(const EchGpuInput *input, uint64_t iteration)
{
    return iteration > 0 && input->numel / PICKED > iteration ? iteration : input->numel;
}

/* The lengths that a kernel of TorchInductor goes over stand last; before them may stand sizes that its indices hang on, of which none is taken that makes more
 * than its arrays can hold. */
static uint64_t iterated(const EchGpuInput *inputs, size_t n)
{
    uint64_t largest = 0, iteration = 0;
    for (size_t i = 0; i < n; i++)
        largest = MAX(largest, inputs[i].known && !inputs[i].list && inputs[i].rank > 0 ? inputs[i].numel : 0);
    for (size_t i = n; i-- > 0;) {
        if (inputs[i].n_integers != 1 || inputs[i].integers[0] <= 0)
            continue;
        uint64_t more = ech_bytes_mul(MAX(iteration, 1), (uint64_t)inputs[i].integers[0]);
        if (iteration > 0 && largest > 0 && more / PICKED > largest)
            break;
        iteration = more;
    }
    return iteration;
}

/* A kernel that TorchInductor or CuTe compiled: its inputs and then its outputs, of which one is taken to be; where there is but one tensor, it changes in
 * place. */
static void generated(const char *name, const EchGpuInput *inputs, size_t n, EchGpuOperator *ret)
{
    const EchGpuInput *last = NULL;
    uint64_t read = 0, most = 0, iteration = iterated(inputs, n), rows = 0;
    bool embeds = strstr(name, "_embedding") != NULL;
    for (size_t i = 0; i < n; i++) {
        if (!inputs[i].known || inputs[i].list || inputs[i].rank == 0)
            continue;
        uint64_t read_of = last ? touched(last, iteration) : 0;
        /* A table of rows behind what says which of them. */
        if (last && rows > 0 && last->rank == 2 && !is_whole(last->dtype)) {
            read_of = MIN(read_of, ech_bytes_mul(rows, dim(last, 0)));
            rows = 0;
        }
        if (embeds && last && is_whole(last->dtype)) {
            rows = last->numel;
            embeds = false;
        }
        read = ech_bytes_add(read, bytes_of(read_of, last ? last->dtype : ECH_DTYPE_NONE));
        most = MAX(most, inputs[i].numel);
        last = &inputs[i];
    }
    if (!last)
        return;
    ret->kind = ECH_GPU_OP_OTHER;
    ret->elements = iteration > 0 ? iteration : most;
    ret->dtype = last->dtype;
    ret->written = bytes_of(touched(last, iteration), last->dtype);
    ret->read = read > 0 ? read : ret->written;
}

void ech_gpu_operator_of(const char *name, const EchGpuInput *inputs, size_t n, EchGpuOperator *ret)
{
    *ret = (EchGpuOperator){0};
    if (strncmp(name, "triton_", 7) == 0 || strncmp(name, "cute::", 6) == 0) {
        generated(name, inputs, n, ret);
        return;
    }
    broadcast(inputs, n, ret);
    if (ret->read == 0 && ret->listed == 0)
        return;
    ret->kind = ECH_GPU_OP_OTHER;
    if (ret->listed > 0) {
        size_t first = 0;
        while (!inputs[first].known || !inputs[first].list)
            first++;
        ret->elements = inputs[first].numel;
        return;
    }
    const char *op = strncmp(name, "aten::", 6) == 0 ? name + 6 : name;
    EchGpuOperator made = {0};
    if (NAMED(op, "mm", "bmm", "mv", "dot", "matmul") && n >= 2 && product(&inputs[0], &inputs[1], false, &made))
        *ret = made;
    else if (NAMED(op, "_grouped_mm") && n >= 2 && grouped_product(&inputs[0], &inputs[1], n > 2 ? &inputs[2] : NULL, &made))
        *ret = made;
    else if (NAMED(op, "sgl_kernel::fp8_scaled_mm", "sgl_kernel::int8_scaled_mm", "sgl_kernel::fp8_blockwise_scaled_mm") && n >= 2 &&
             scaled_product(&inputs[0], &inputs[1], false, &made))
        *ret = made;
    else if (strstr(op, "::cutlass_scaled_mm") && n >= 3 && scaled_product(&inputs[1], &inputs[2], false, &made)) /* vLLM's: the result comes first */
        *ret = made;
    else if (strstr(op, "gemm_nt") && n >= 3 && blockwise_product(op, inputs, &made))
        *ret = made;
    else if (strstr(op, "::w8a8_triton_block_scaled_mm") && n >= 2 && scaled_product(&inputs[0], &inputs[1], true, &made))
        *ret = made;
    else if ((strstr(op, "marlin_gemm") || strstr(op, "::machete_mm") || strstr(op, "::awq_gemm") || strstr(op, "::gptq_gemm")) &&
             (strstr(op, "::moe_") ? dequantized_experts(inputs, n, &made) : dequantized_product(inputs, n, &made)))
        *ret = made;
    else if ((strstr(op, "bitsandbytes::gemm_4bit") || strstr(op, "bitsandbytes::gemv_4bit")) && four_bit_product(inputs, n, &made))
        *ret = made;
    else if (NAMED(op, "_weight_int4pack_mm") && n >= 4 && packed_product(&inputs[0], &inputs[1], &inputs[3], &made))
        *ret = made;
    else if (strcmp(op, "linear") == 0 && n >= 2 && product(&inputs[0], &inputs[1], true, &made))
        *ret = made;
    else if (NAMED(op, "addmm", "baddbmm", "addmv", "_addmm_activation", "addmm_") && n >= 3 && product(&inputs[1], &inputs[2], false, &made))
        *ret = made;
    else if (NAMED(op, "cudnn_convolution", "miopen_convolution", "mkldnn_convolution") && n >= 4 &&
             convolution(&inputs[0], &inputs[1], NULL, &inputs[2], &inputs[3], n > 4 ? &inputs[4] : NULL, &made))
        *ret = made;
    else if (NAMED(op, "cudnn_convolution_relu") && n >= 5 &&
             convolution(&inputs[0], &inputs[1], NULL, &inputs[4], &inputs[3], n > 5 ? &inputs[5] : NULL, &made))
        *ret = made;
    else if (NAMED(op, "convolution_backward", "cudnn_convolution_backward") && n >= 3 &&
             convolution(&inputs[strcmp(op, "convolution_backward") == 0 ? 1 : 0], &inputs[2], &inputs[strcmp(op, "convolution_backward") == 0 ? 0 : 1], NULL,
                         NULL, NULL, &made))
        *ret = made;
    else if (NAMED(op, "_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data", "softmax", "log_softmax") &&
             dim(&inputs[0], 0) > 0) {
        ret->kind = ECH_GPU_OP_ROWS;
        ret->n = dim(&inputs[0], 0);
        ret->elements = inputs[0].numel;
        ret->m = ret->elements / MAX(ret->n, 1u);
        ret->written = bytes_of(ret->elements, ret->dtype);
    } else if (strstr(op, "layer_norm") || strstr(op, "rms_norm") || strstr(op, "batch_norm") || strstr(op, "group_norm")) {
        uint64_t columns = dim(&inputs[0], 0);
        ret->kind = ECH_GPU_OP_ROWS;
        ret->elements = inputs[0].numel;
        ret->n = strstr(op, "batch_norm") ? 0 : columns;
        ret->m = ret->n ? ret->elements / ret->n : 0;
        ret->written = bytes_of(ret->elements, inputs[0].dtype);
    } else if (to_eight_bits(op, inputs, n, &made)) {
        *ret = made;
    } else if (NAMED(op, "index_select", "embedding", "gather", "embedding_dense_backward", "index") && n >= 2) {
        /* Only the rows picked are read. */
        bool rows = strcmp(op, "index_select") == 0 && n >= 3 && inputs[0].rank > 0;
        const EchGpuInput *table = &inputs[0], *indices = &inputs[(rows || strcmp(op, "gather") == 0) && n >= 3 ? 2 : 1];
        uint64_t row = strcmp(op, "index") == 0 && table->rank > 0 ? table->numel / MAX((uint64_t)MAX(table->dims[0], 1), 1)
                       : rows                                      ? table->numel / MAX((uint64_t)MAX(table->dims[0], 1), 1)
                       : strcmp(op, "embedding") == 0              ? dim(table, 0)
                                                                   : 1;
        ret->kind = ECH_GPU_OP_GATHER;
        ret->dtype = table->dtype;
        ret->elements = strcmp(op, "embedding_dense_backward") == 0 ? table->numel : ech_bytes_mul(MAX(indices->numel, 1), MAX(row, 1));
        ret->written = bytes_of(ret->elements, table->dtype);
        ret->n = bytes_of(indices->numel, indices->dtype);
        ret->read = ech_bytes_add(ret->written, ret->n);
        ret->products = strcmp(op, "embedding_dense_backward") == 0 ? 2 : 1; /* sums of parts, then sums of those */
    } else if (NAMED(op, "scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_") && n >= 3) {
        bool adds = strlen(op) > 8;
        ret->kind = ECH_GPU_OP_GATHER;
        ret->dtype = inputs[0].dtype;
        ret->elements = inputs[2].known ? inputs[2].numel : 1;
        ret->n = ech_bytes_mul(ret->elements, 8);
        ret->written = bytes_of(ret->elements, ret->dtype);
        ret->read = ech_bytes_add(ret->n, ech_bytes_mul(ret->written, (n > 3 && inputs[3].known ? 1u : 0u) + (adds ? 1u : 0u)));
    } else if (NAMED(op, "index_put_", "_index_put_impl_", "index_put") && n >= 3) {
        const EchGpuInput *values = &inputs[2];
        for (size_t i = 2; i < n && !values->known; i++)
            values = &inputs[i];
        ret->kind = ECH_GPU_OP_GATHER;
        ret->dtype = inputs[0].dtype;
        ret->elements = values->known ? values->numel : inputs[1].numel;
        ret->n = inputs[1].known ? ech_bytes_mul(inputs[1].numel, 8) : 0;
        ret->written = bytes_of(ret->elements, ret->dtype);
        ret->read = ech_bytes_add(ret->written, ret->n);
    } else if (strstr(op, "nll_loss")) {
        /* One element of each row; the rest of a gradient is cleared before. */
        const EchGpuInput *target = &inputs[0];
        for (size_t i = 1; i < n; i++)
            if (inputs[i].known && (inputs[i].rank < target->rank || !target->known) && inputs[i].numel > 0)
                target = inputs[i].numel > 1 || !target->known ? &inputs[i] : target;
        bool backward = strstr(op, "backward") != NULL;
        ret->kind = ECH_GPU_OP_GATHER;
        ret->elements = target->known ? target->numel : 1;
        ret->n = ech_bytes_mul(ret->elements, 8);
        ret->read = ech_bytes_add(ret->n, backward ? 0 : bytes_of(ret->elements, ret->dtype));
        ret->written = backward ? bytes_of(ret->elements, ret->dtype) : 8;
    } else if (((strstr(op, "flash_attention_") || strstr(op, "efficient_attention_")) && op[0] == '_' && op[1] != 's') ||
               strncmp(op, "flash_attn::", 12) == 0 || strncmp(op, "flash_attn_3::", 14) == 0) {
        attention(inputs, n, is_gradient(op), true, ret);
    } else if (NAMED(op, "sglang::paged_attention", "flashinfer::paged_attention") && n >= 3 && inputs[0].rank == 3) {
        /* Queries [tokens, heads, depth]; keys are the cache, which says nothing: each token looks at itself until lengths are told. */
        ret->kind = ECH_GPU_OP_ATTENTION;
        ret->dtype = inputs[0].dtype;
        ret->head = (uint16_t)MIN(dim(&inputs[0], 0), 1024u);
        ret->elements = ret->k = inputs[0].numel;
        ret->n = 1;
        ret->read = ret->written = bytes_of(inputs[0].numel, inputs[0].dtype);
    } else if ((strncmp(op, "_vllm_fa", 8) == 0 && strstr(op, "fwd")) || strcmp(op, "sgl_kernel::fwd") == 0) {
        paged_attention(inputs, n, ret);
    } else if (strstr(op, "reshape_and_cache") || strstr(op, "::store_cache") || strstr(op, "::concat_and_cache")) {
        into_cache(inputs, n, ret);
    } else if (strstr(op, "place_fused_experts")) {
        fused_experts(inputs, n, ret);
    } else if (strstr(op, "::fused_moe_kernel")) {
        expert_product(inputs, n, ret);
    } else if (strstr(op, "::rotary_embedding") || strstr(op, "::apply_rope_inplace")) {
        rotary_embedding(inputs, n, ret);
    } else if (NAMED(op, "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "log_normal_", "cauchy_", "geometric_")) {
        ret->read = 0;
    } else if (strstr(op, "scaled_dot_product") && (strstr(op, "flash") || strstr(op, "efficient") || strstr(op, "cudnn"))) {
        attention(inputs, n, strstr(op, "backward") != NULL, false, ret);
    } else if (NAMED(op, "sum", "mean", "max", "min", "argmax", "argmin", "prod", "any", "all", "var", "std", "var_mean", "norm", "linalg_vector_norm", "amax",
                     "amin", "logsumexp", "nonzero")) {
        ret->kind = ECH_GPU_OP_REDUCE;
        ret->elements = inputs[0].numel;
        ret->written = 0;
    } else if (NAMED(op, "copy_", "fill_", "zero_") && is_tensor(&inputs[0])) {
        ret->elements = inputs[0].numel;
        ret->dtype = inputs[0].dtype;
        ret->written = bytes_of(inputs[0].numel, inputs[0].dtype);
        ret->read = op[0] == 'c' && n > 1 && is_tensor(&inputs[1]) ? bytes_of(inputs[1].numel, inputs[1].dtype) : 0;
    } else if (NAMED(op, "eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "logical_and", "logical_or", "logical_not", "logical_xor")) {
        ret->written = ret->elements; /* truth */
    } else if (strncmp(op, "_fused_adam", 11) == 0) {
        ret->written = ret->read / 4 * 3; /* parameters, gradients, two moments: all but the gradients are written */
    }
}

bool ech_gpu_is_main(const EchGpuOperator *whole, const EchGpuName *name)
{
    switch ((EchGpuOperatorKind)whole->kind) {
    case ECH_GPU_OP_PRODUCT: return name->kind == ECH_GPU_PRODUCT || name->kind == ECH_GPU_VECTOR;
    case ECH_GPU_OP_ROWS: return name->kind == ECH_GPU_SOFTMAX || name->kind == ECH_GPU_SOFTMAX_WARP || name->kind == ECH_GPU_NORM;
    case ECH_GPU_OP_GATHER: return name->kind == ECH_GPU_GATHER || name->kind == ECH_GPU_SCATTER;
    case ECH_GPU_OP_ATTENTION: return name->kind == ECH_GPU_ATTENTION;
    case ECH_GPU_OP_REDUCE: return name->kind == ECH_GPU_REDUCE;
    case ECH_GPU_OP_OTHER: return (name->kind != ECH_GPU_FILL || whole->read == 0) && (whole->listed == 0 || name->kind != ECH_GPU_REDUCE);
    case ECH_GPU_OP_NONE: break;
    }
    return false;
}

/* A kernel of one thread goes over no arrays, whatever its name begins with: a mean's division, a count. */
static bool does_most(const EchGpuCall *call, const EchGpuName *name, const EchGpuLaunch *launch)
{
    return ech_gpu_is_main(&call->whole, name) && !(launch && ech_gpu_blocks(launch) == 1 && ech_gpu_threads(launch) == 1);
}

bool ech_gpu_call_count(EchGpuCall *call, const EchGpuName *name, const EchGpuLaunch *launch)
{
    call->n_kernels++;
    if (!does_most(call, name, launch))
        return false;
    call->n_main++;
    call->blocks += launch ? (double)ech_gpu_blocks(launch) : 1;
    return true;
}

double ech_gpu_call_share(const EchGpuCall *call, const EchGpuName *name, const EchGpuLaunch *launch)
{
    double share = 0;
    if (call->n_main == 0) /* none looks like what the operator does: all of them do it, but that a product is none of those whose grid tells */
        share = call->n_kernels > 0 && (call->whole.kind != ECH_GPU_OP_PRODUCT || name->block_elements == 0) ? 1.0 / call->n_kernels : 0;
    else if (call->whole.kind == ECH_GPU_OP_ROWS && does_most(call, name, launch)) /* each goes over all */
        share = 1;
    else if (does_most(call, name, launch))
        share = call->blocks > 0 ? (launch ? (double)ech_gpu_blocks(launch) : 1) / call->blocks * MAX(call->whole.products, 1) : 1.0 / call->n_main;
    return MIN(share, 1);
}

static uint64_t scaled(uint64_t amount, double share)
{
    return share >= 1 || amount > UINT64_C(1) << 62 ? amount : (uint64_t)llround((double)amount * share);
}

/* Elements of a list that a block of multi_tensor_apply takes at most (PyTorch, MultiTensorApply.cuh: kChunkSize). */
#define CHUNK 65536
/* What a thread of a kernel of which only the launch is known reads, and what it writes: one wide access. Assumed. */
#define THREAD_BYTES 16

static void set_traffic(EchItemWork *ret, EchBytes read, EchBytes written, EchOrigin origin)
{
    *ret = (EchItemWork){.read = read, .write = written, .origin = (uint8_t)origin};
}

/* Attention over whole blocks of queries; a gradient goes over blocks of keys. Keys as many as queries. */
static bool attention_by_grid(const EchGpuName *name, EchGpuLaunch *launch, EchItemWork *ret)
{
    uint32_t rows = name->backward ? name->key_rows : name->query_rows;
    if (name->head == 0 || rows == 0 || launch->grid[0] == 0)
        return false;
    double length = (double)launch->grid[0] * rows, heads = (double)launch->grid[1] * launch->grid[2],
           operations = 4 * length * length * name->head * heads * (name->causal ? 0.5 : 1) * (name->backward ? GRADIENT_PRODUCTS : 1);
    EchBytes each = MAX(name->element_bytes, 1), array = (EchBytes)MIN(length * heads * name->head * (double)each, 1e18);
    set_traffic(ret, ech_bytes_mul(array, name->backward ? 5 : 3), ech_bytes_mul(array, name->backward ? 3 : 1), ECH_INFERRED);
    ret->unit = ECH_WORK_MATRIX;
    ret->dtype = each == 2 ? ECH_DTYPE_BF16 : ECH_DTYPE_F32;
    ret->ops = operations < 9e18 ? (uint64_t)operations : 0;
    launch->operand_bytes = (uint32_t)each;
    return true;
}

/* What the grid covers. */
static bool grid_work(const EchGpuName *name, EchGpuLaunch *launch, EchItemWork *ret)
{
    uint64_t elements = ech_gpu_grid_elements(name, launch), threads = ech_bytes_mul(ech_gpu_blocks(launch), ech_gpu_threads(launch));
    unsigned arrays = name->arrays;
    EchBytes each = MAX(name->element_bytes, 1);
    switch ((EchGpuClass)name->kind) {
    case ECH_GPU_ATTENTION: return attention_by_grid(name, launch, ret);
    case ECH_GPU_OPTIMIZER:
        if (name->lists == 0 || threads == 0)
            return false;
        launch->elements = ech_bytes_mul(ech_gpu_blocks(launch), CHUNK);
        launch->operand_bytes = (uint32_t)each;
        set_traffic(ret, ech_bytes_mul(launch->elements, each * name->lists_read), ech_bytes_mul(launch->elements, each * name->lists_written), ECH_INFERRED);
        return true;
    case ECH_GPU_RELAYOUT:
        elements = ech_bytes_mul(threads, name->vector);
        arrays = 2;
        break;
    case ECH_GPU_ELEMENTWISE:
    case ECH_GPU_STRIDED:
    case ECH_GPU_FILL: break;
    case ECH_GPU_UNKNOWN:
    case ECH_GPU_PRODUCT:
    case ECH_GPU_FFT:
    case ECH_GPU_SOLVER:
    case ECH_GPU_SORT:
    case ECH_GPU_N_CLASSES:
    case ECH_GPU_REDUCE:
    case ECH_GPU_SOFTMAX:
    case ECH_GPU_SOFTMAX_WARP:
    case ECH_GPU_NORM:
    case ECH_GPU_VECTOR:
    case ECH_GPU_SPLIT_REDUCE:
    case ECH_GPU_GATHER:
    case ECH_GPU_SCATTER:
    case ECH_GPU_CONCAT:
    default: return false;
    }
    if (elements == 0 || (arrays == 0 && name->written_bytes == 0))
        return false;
    launch->elements = elements;
    launch->operand_bytes = (uint32_t)each;
    set_traffic(ret, ech_bytes_mul(elements, name->written_bytes ? name->read_bytes : each * (arrays - 1)),
                ech_bytes_mul(elements, name->written_bytes ? name->written_bytes : each), ECH_INFERRED);
    return true;
}

/* Whether a block does 4, 8 or 16 elements a thread of what @launch says: versions of PyTorch differ. */
static bool fits_grid(const EchGpuName *name, const EchGpuLaunch *launch)
{
    bool contiguous = name->kind == ECH_GPU_ELEMENTWISE || name->kind == ECH_GPU_FILL;
    for (uint64_t each = 512; contiguous && launch->elements > 0 && each <= 2048; each *= 2)
        if ((launch->elements - 1) / each + 1 == ech_gpu_blocks(launch))
            return true;
    return false;
}

bool ech_gpu_assumed_work(const EchGpuName *name, EchGpuLaunch *launch, EchItemWork *ret)
{
    uint64_t threads = ech_bytes_mul(ech_gpu_blocks(launch), ech_gpu_threads(launch));
    bool streams = name->kind != ECH_GPU_UNKNOWN && name->kind != ECH_GPU_PRODUCT && name->kind != ECH_GPU_ATTENTION && name->kind < ECH_GPU_SORT;
    if (!streams || threads == 0)
        return false;
    uint64_t covered = ech_gpu_grid_elements(name, launch);
    EchBytes moved = covered > 0 ? ech_bytes_mul(covered, MAX(name->element_bytes, 1u)) : ech_bytes_mul(threads, THREAD_BYTES);
    launch->operand_bytes = (uint32_t)MAX(name->element_bytes, 1);
    launch->elements = moved / launch->operand_bytes;
    set_traffic(ret, name->kind == ECH_GPU_FILL ? 0 : moved, name->kind == ECH_GPU_REDUCE ? 0 : moved, ECH_ASSUMED);
    return true;
}

bool ech_gpu_kernel_work(const EchGpuOperator *whole, const EchGpuName *name, double share, EchGpuLaunch *launch, EchItemWork *ret)
{
    if (!whole || whole->kind == ECH_GPU_OP_NONE)
        return grid_work(name, launch, ret);
    EchBytes each = ech_dtype_bits((EchDtype)whole->dtype) / 8;
    if (whole->kind == ECH_GPU_OP_PRODUCT && name->kind == ECH_GPU_SPLIT_REDUCE) {
        /* Parts in f32; how many the launch does not say: four. */
        launch->elements = whole->elements;
        *ret = (EchItemWork){.read = ech_bytes_mul(whole->elements, 16), .write = whole->written, .origin = ECH_INFERRED};
        return true;
    }
    if (!(share > 0)) {
        if (whole->kind != ECH_GPU_OP_ATTENTION || name->written_bytes == 0)
            return grid_work(name, launch, ret);
        /* Before and after a gradient: once over the queries. */
        launch->elements = whole->elements;
        launch->operand_bytes = (uint32_t)each;
        set_traffic(ret, ech_bytes_mul(whole->elements, name->read_bytes), ech_bytes_mul(whole->elements, name->written_bytes), ECH_INFERRED);
        return true;
    }
    if (whole->listed > 0) {
        /* cat writes what it reads; element-wise operators on lists write their first; an optimizer three of its four (not the gradients). */
        uint64_t each_element = MAX(name->element_bytes, 1);
        if (name->lists > 0) {
            launch->elements = scaled(whole->listed / name->lists, share);
            launch->operand_bytes = (uint32_t)each_element;
            set_traffic(ret, ech_bytes_mul(launch->elements, each_element * name->lists_read),
                        ech_bytes_mul(launch->elements, each_element * name->lists_written), ECH_INFERRED);
            return ret->read > 0 || ret->write > 0;
        }
        uint64_t written = whole->listed > whole->elements && name->kind == ECH_GPU_OPTIMIZER ? whole->listed / 4 * 3 : whole->elements;
        launch->elements = scaled(whole->elements, share);
        launch->operand_bytes = (uint32_t)each_element;
        if (name->kind == ECH_GPU_CONCAT && whole->largest > 0) {
            launch->rows = whole->largest;
            launch->columns = 1;
        }
        *ret = (EchItemWork){.read = scaled(ech_bytes_mul(whole->listed, each_element), share),
                             .write = scaled(ech_bytes_mul(MIN(written, whole->listed), each_element), share),
                             .origin = ECH_INFERRED};
        return ret->read > 0;
    }
    *ret = (EchItemWork){.read = scaled(whole->read, share),
                         .write = scaled(whole->written, share),
                         .unit = ECH_WORK_VECTOR,
                         .ops = scaled(whole->elements, share),
                         .dtype = whole->dtype,
                         .origin = ECH_INFERRED};
    launch->operand_bytes = (uint32_t)each;
    launch->scattered = whole->scattered && name->kind == ECH_GPU_STRIDED;
    if (whole->kind == ECH_GPU_OP_PRODUCT) {
        launch->batch = whole->batch;
        launch->m = MAX(scaled(whole->m, share), 1);
        launch->n = whole->n;
        launch->k = whole->k;
        launch->taps = whole->taps;
        launch->weight_bits = whole->weight_bits;
        ret->ops = ech_bytes_mul(ech_bytes_mul(2, ech_bytes_mul(launch->batch, launch->m)), ech_bytes_mul(launch->n, launch->k));
        ret->unit = ECH_WORK_MATRIX;
    } else if (whole->kind == ECH_GPU_OP_ATTENTION) {
        ret->ops = scaled(whole->k, share);
        if (name->causal) /* half of it, but the blocks on the diagonal are whole */
            ret->ops = scaled(ret->ops, (whole->causal ? 1 : 0.5) * (1 + MIN((double)name->key_rows / (double)MAX(whole->n, 1), 1)));
        if (name->head == 0 && name->query_rows == 0) { /* a name that does not tell its heads does not tell its mask either */
            launch->head = whole->head;
            launch->causal = whole->causal;
        }
        ret->unit = ECH_WORK_MATRIX;
    } else if (whole->kind == ECH_GPU_OP_ROWS && (whole->m > 0 || name->kind == ECH_GPU_NORM)) {
        ret->read = whole->read; /* every one of its passes reads all */
        ret->write = name->sums_rows ? bytes_of(MAX(whole->n, 1), whole->dtype) : whole->written;
        ret->ops = whole->elements;
        launch->rows = whole->m;
        launch->columns = whole->n;
        launch->elements = whole->m > 0 ? 0 : whole->elements;
    } else {
        launch->elements = scaled(whole->elements, share);
        /* Threads of 16 bytes cover the rows, whatever their type; the index of a row is next to nothing. */
        uint64_t covered = name->whole_rows ? ech_bytes_mul(ech_bytes_mul(ech_gpu_blocks(launch), ech_gpu_threads(launch)), THREAD_BYTES) : 0;
        if (whole->kind == ECH_GPU_OP_GATHER && covered > 0) {
            ret->read = ret->write = covered;
            launch->operand_bytes = name->element_bytes;
            launch->elements = covered / MAX(name->element_bytes, 1);
        }
        /* A mask among the indices picks fewer than it has elements, or fewer than its shape times the rest: the grid knows how many. */
        uint64_t picked = whole->kind == ECH_GPU_OP_GATHER ? ech_gpu_grid_elements(name, launch) : 0;
        if (picked > 0 && launch->elements > picked) {
            launch->elements = ret->ops = picked;
            ret->write = ech_bytes_mul(picked, each);
            ret->read = ech_bytes_add(ret->write, MIN(whole->n, ech_bytes_mul(picked, 8)));
        }
        if (whole->kind == ECH_GPU_OP_OTHER && name->written_bytes > 0) {
            ret->read = ech_bytes_mul(launch->elements, name->read_bytes);
            ret->write = ech_bytes_mul(launch->elements, name->written_bytes);
        }
        /* The grid knows better where the shapes are not those of the kernel (an optional input, a part of an whole). */
        uint64_t grid = fits_grid(name, launch) ? 0 : ech_gpu_grid_elements(name, launch);
        if (whole->kind == ECH_GPU_OP_OTHER && grid > 0 && (launch->elements > grid || ech_bytes_mul(launch->elements, 4) < grid) &&
            grid_work(name, launch, ret) && name->written_bytes == 0) {
            launch->operand_bytes = (uint32_t)each;
            uint64_t arrays = MAX(name->arrays, 1);
            ret->read = ech_bytes_mul(launch->elements, each * (arrays - 1));
            ret->write = ech_bytes_mul(launch->elements, each);
        }
    }
    return ret->read > 0 || ret->write > 0;
}

const EchGpuName *ech_gpu_name_of(EchCapture *capture, GHashTable *names, EchId id)
{
    EchGpuName *name = g_hash_table_lookup(names, GUINT_TO_POINTER(id + 1));
    if (!name) {
        name = g_new(EchGpuName, 1);
        ech_gpu_name(ech_trace_builder_peek_string(ech_capture_builder(capture), id), name);
        g_hash_table_insert(names, GUINT_TO_POINTER(id + 1), name);
    }
    return name;
}

bool ech_gpu_kernel_by_launch(EchCapture *capture, GHashTable *names, EchGpuLaunch launch, EchItem *item)
{
    EchItemWork work;
    bool known = ech_gpu_kernel_work(NULL, ech_gpu_name_of(capture, names, item->name), 0, &launch, &work);
    if (known)
        item->work = ech_capture_work(capture, work);
    g_autoptr(GString) text = g_string_new(NULL);
    ech_gpu_launch_print(&launch, text);
    if (text->len > 0)
        item->other = ech_trace_builder_string(ech_capture_builder(capture), text->str, (gssize)text->len);
    return known;
}
