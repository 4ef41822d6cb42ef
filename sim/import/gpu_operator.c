#include "sim/import/gpu_operator.h"

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

/* A call of an operator, which has an input at least. */
typedef struct {
    const char *op; /* its name, without "aten::" */
    const EchGpuInput *inputs;
    size_t n;
} Call;

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

/* @m rows by @n columns of sums of @k, once; rows and results are of @dtype, @read is of both operands. */
static void set_product(EchGpuOperator *ret, uint8_t dtype, uint64_t m, uint64_t n, uint64_t k, EchBytes read)
{
    uint64_t elements = ech_bytes_mul(m, n);
    *ret = (EchGpuOperator){.kind = ECH_GPU_OP_PRODUCT,
                            .dtype = dtype,
                            .products = 1,
                            .batch = 1,
                            .m = m,
                            .n = n,
                            .k = k,
                            .elements = elements,
                            .read = read,
                            .written = bytes_of(elements, dtype)};
}

/* [.., m, k] x [.., k, n]; @transposed: the second is [n, k]. */
static bool product(const EchGpuInput *a, const EchGpuInput *b, bool transposed, EchGpuOperator *ret)
{
    if (a->rank < 1 || b->rank < 1 || a->list || b->list)
        return false;
    uint64_t k = dim(a, 0), n = b->rank == 1 ? 1 : dim(b, transposed ? 1 : 0);
    if (k == 0 || n == 0 || a->numel == 0)
        return false;
    uint64_t batch = a->rank == 3 && b->rank == 3 ? MAX((uint64_t)a->dims[0], 1) : 1;
    set_product(ret, a->dtype, a->numel / k / batch, n, k, ech_bytes_add(bytes_of(a->numel, a->dtype), bytes_of(b->numel, b->dtype)));
    ret->batch = batch;
    ret->elements = ech_bytes_mul(batch, ret->elements);
    ret->written = bytes_of(ret->elements, a->dtype);
    return true;
}

static bool plain_product(const Call *c, EchGpuOperator *ret)
{
    return product(&c->inputs[0], &c->inputs[1], false, ret);
}

static bool linear(const Call *c, EchGpuOperator *ret)
{
    return product(&c->inputs[0], &c->inputs[1], true, ret);
}

/* What the product is added to comes first. */
static bool added_product(const Call *c, EchGpuOperator *ret)
{
    return product(&c->inputs[1], &c->inputs[2], false, ret);
}

/* Products of groups of rows, as many groups as @ends has elements: [rows, k] x [groups, k, n], or [m, rows] x [rows, n] of which every group sums its own
 * rows. Results are of @dtype. */
static bool product_of_groups(const EchGpuInput *a, const EchGpuInput *b, const EchGpuInput *ends, uint8_t dtype, EchGpuOperator *ret)
{
    if (a->rank != 2 || (b->rank != 2 && b->rank != 3) || !product(a, b, false, ret))
        return false;
    if (b->rank == 2)
        ret->elements = ech_bytes_mul(ret->elements, ends && ends->known ? MAX(ends->numel, 1) : 1);
    ret->written = bytes_of(ret->elements, dtype);
    ret->by_address = true;
    return true;
}

static bool grouped_product(const Call *c, EchGpuOperator *ret)
{
    return product_of_groups(&c->inputs[0], &c->inputs[1], c->n > 2 ? &c->inputs[2] : NULL, c->inputs[0].dtype, ret);
}

/* Of operands of 8 bits, which two inputs of scales follow; results of 16. */
static bool scaled_grouped_product(const Call *c, EchGpuOperator *ret)
{
    EchGpuInput a = c->inputs[0], b = c->inputs[1];
    a.dtype = b.dtype = ECH_DTYPE_F8E4M3FN;
    return product_of_groups(&a, &b, c->n > 4 ? &c->inputs[4] : NULL, ECH_DTYPE_BF16, ret);
}

/* Operands of 8 bits with scales, results of 16. */
static bool scaled_product(const EchGpuInput *a, const EchGpuInput *b, bool transposed, EchGpuOperator *ret)
{
    if (a->rank != 2 || b->rank != 2 || !product(a, b, transposed, ret))
        return false;
    ret->written = bytes_of(ret->elements, ECH_DTYPE_BF16);
    return true;
}

static bool scaled_plain(const Call *c, EchGpuOperator *ret)
{
    return scaled_product(&c->inputs[0], &c->inputs[1], false, ret);
}

/* Of whole numbers of 8 bits, results of 32. */
static bool whole_product(const Call *c, EchGpuOperator *ret)
{
    if (!product(&c->inputs[0], &c->inputs[1], false, ret))
        return false;
    ret->written = bytes_of(ret->elements, ECH_DTYPE_S32);
    return true;
}

static bool scaled_linear(const Call *c, EchGpuOperator *ret)
{
    return scaled_product(&c->inputs[0], &c->inputs[1], true, ret);
}

/* vLLM's: the result comes first. */
static bool scaled_after_result(const Call *c, EchGpuOperator *ret)
{
    return scaled_product(&c->inputs[1], &c->inputs[2], false, ret);
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
static bool blockwise_product(const Call *c, EchGpuOperator *ret)
{
    EchGpuInput a = c->inputs[0], weights = c->inputs[2];
    if (strstr(c->op, "fp8")) /* the call around it may have been given rows that are rounded within */
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
    double bits = weights > 0 ? CLAMP(round(8 * (double)bytes / (double)weights), 1, 64) : 0;
    return (uint8_t)bits;
}

/* Weights of four bits, as PyTorch packs them for its tensor cores: [n / 8, k / (16 j), 32, j / 2] words of 32 bits, and for each group of k a scale and a zero
 * for every column; activations and results have 16 bits (aten/src/ATen/native/cuda/int4mm.cu). */
static bool packed_product(const Call *c, EchGpuOperator *ret)
{
    const EchGpuInput *a = &c->inputs[0], *weight = &c->inputs[1], *scales = &c->inputs[3];
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

static bool dequantized_product(const Call *c, EchGpuOperator *ret)
{
    Packed packed;
    const EchGpuInput *a = &c->inputs[0];
    if (a->rank < 2 || !is_tensor(a) || dim(a, 0) == 0 || !packed_weights(c->inputs, c->n, &packed))
        return false;
    uint64_t columns = dim(packed.scales, 0), k = dim(a, 0);
    set_product(ret, a->dtype, a->numel / k, columns, k, ech_bytes_add(bytes_of(a->numel, a->dtype), packed.bytes));
    ret->weight_bits = bits_of(packed.bytes, ech_bytes_mul(columns, k));
    return ret->m > 0;
}

/* bitsandbytes' (csrc/gemm_4bit.cu): rows [.., k], weights of four bits, of which the operator has all in one row, and scales of blocks, some of them of 8 bits
 * with scales of their own. */
static bool four_bit_product(const Call *c, EchGpuOperator *ret)
{
    const EchGpuInput *a = &c->inputs[0], *weight = &c->inputs[1];
    if (!is_tensor(a) || a->list || !is_tensor(weight) || weight->list || dim(a, 0) == 0)
        return false;
    EchBytes weights = 0;
    for (size_t i = 1; i < c->n; i++)
        weights = ech_bytes_add(weights, is_tensor(&c->inputs[i]) && !c->inputs[i].list ? bytes_of(c->inputs[i].numel, c->inputs[i].dtype) : 0);
    uint64_t k = dim(a, 0), columns = ech_bytes_mul(bytes_of(weight->numel, weight->dtype), 2) / k;
    set_product(ret, a->dtype, a->numel / k, columns, k, ech_bytes_add(bytes_of(a->numel, a->dtype), weights));
    ret->weight_bits = bits_of(weights, ech_bytes_mul(columns, k));
    return ret->m > 0 && columns > 0;
}

/* The same of a mixture's experts: rows [rows, k], then results [chosen, n], weights and scales of all experts, and their zeros. Servers call it from within
 * operators that are not given the weights, so that types may not be told: words of 32 bits, and scales and rows of 16. */
static bool dequantized_experts(const Call *c, EchGpuOperator *ret)
{
    const EchGpuInput *a = &c->inputs[0], *results = &c->inputs[1], *of_experts[3] = {NULL};
    size_t n_found = 0;
    for (size_t i = 2; i < c->n && n_found < G_N_ELEMENTS(of_experts); i++)
        if (c->inputs[i].known && !c->inputs[i].list && c->inputs[i].rank == 3)
            of_experts[n_found++] = &c->inputs[i];
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
    set_product(ret, dtype, rows, columns, k, ech_bytes_add(bytes_of(a->numel, dtype), experts_read(bytes, experts, a->numel / k, rows)));
    ret->weight_bits = bits_of(bytes, ech_bytes_mul(experts, ech_bytes_mul(columns, k)));
    return true;
}

static bool widened_product(const Call *c, EchGpuOperator *ret)
{
    return strstr(c->op, "::moe_") ? dequantized_experts(c, ret) : dequantized_product(c, ret);
}

/* What a convolution is told beside its arrays; each one number for all dimensions or one for each. NULL: as if nothing were told. */
typedef struct {
    const EchGpuInput *padding, *stride, *dilation;
} Steps;

static int64_t step(const EchGpuInput *told, unsigned dimension, int64_t untold)
{
    return told && told->n_integers ? told->integers[MIN(dimension, told->n_integers - 1u)] : untold;
}

/* How far a convolution's result, or (@transposed) that which a convolution would make @in of, reaches in one dimension; 0 where that makes no sense. */
static uint64_t reach(int64_t in, int64_t filter, const Steps *steps, unsigned dimension, bool transposed)
{
    int64_t s = step(steps->stride, dimension, 0), p = step(steps->padding, dimension, 0), l = step(steps->dilation, dimension, 1);
    if (s <= 0 || s > 4096 || p < 0 || p > 4096 || l < 1 || l > 4096 || filter < 1 || filter > 1 << 20 || in < 1 || in > INT64_C(1) << 40)
        return 0;
    int64_t covered = l * (filter - 1) + 1, out = transposed ? (in - 1) * s + covered - 2 * p : (in + 2 * p - covered) / s + 1;
    return in + 2 * p < covered && !transposed ? 0 : (uint64_t)MAX(out, 0);
}

/* A product of weights by the array of those two that has fewer pixels, the result of a convolution and what goes into a transposed one, or of what a gradient
 * makes of it. */
static bool convolution(const EchGpuInput *in, const EchGpuInput *weight, const EchGpuInput *gradient, const Steps *steps, EchGpuOperator *ret)
{
    if (in->rank < 3 || in->rank != weight->rank || weight->dims[0] <= 0 || in->numel == 0)
        return false;
    uint64_t pixels = in->dims[0] > 0 ? (uint64_t)in->dims[0] : 0;
    for (unsigned d = 2; d < in->rank; d++) {
        uint64_t out = !gradient                                             ? reach(in->dims[d], weight->dims[d], steps, d - 2, false)
                       : gradient->rank == in->rank && gradient->dims[d] > 0 ? (uint64_t)gradient->dims[d]
                                                                             : 0;
        if (out == 0)
            return false;
        pixels = ech_bytes_mul(pixels, out);
    }
    uint64_t channels = (uint64_t)weight->dims[0];
    set_product(ret, in->dtype, pixels, channels, weight->numel / channels,
                ech_bytes_add(bytes_of(in->numel, in->dtype), bytes_of(weight->numel, weight->dtype)));
    ret->products = gradient ? 2 : 1;
    ret->groups = weight->dims[1] > 0 && in->dims[1] > weight->dims[1] ? (uint64_t)(in->dims[1] / weight->dims[1]) : 1;
    ret->channels = (uint64_t)MAX(weight->dims[1], 1);
    ret->taps = gradient || weight->dims[1] < 1 ? 0 : ret->k / (uint64_t)weight->dims[1];
    return ret->m > 0 && ret->k > 0;
}

/* Padding, stride and dilation behind a bias or instead of it. */
static size_t behind_bias(const Call *c)
{
    return c->inputs[2].n_integers > 0 ? 2 : 3;
}

static const EchGpuInput *input(const Call *c, size_t at)
{
    return at < c->n ? &c->inputs[at] : NULL;
}

/* A filter for each channel, which some kernels do in the lanes (PyTorch's DepthwiseConv2d.cu, DepthwiseConv3d.cu; cuDNN's of channels that lie together). What
 * the result's sizes are its grid says, or the product. */
static void depthwise(const EchGpuInput *weight, EchGpuOperator *ret)
{
    if (weight->rank >= 3 && weight->dims[0] > 0 && weight->dims[1] == 1)
        ret->steps = weight->numel / (uint64_t)weight->dims[0];
}

static void depthwise_backward(const EchGpuInput *in, const EchGpuInput *weight, const EchGpuInput *gradient, EchGpuOperator *ret)
{
    depthwise(weight, ret);
    if (ret->steps == 0)
        return;
    ret->results = gradient->numel;
    if (gradient->rank < 3 || gradient->numel == 0)
        return;
    ret->images = (uint64_t)MAX(gradient->dims[0], 0);
    ret->spread = (uint16_t)MIN(MAX(in->numel / gradient->numel, 1u), 4096u);
    ret->planes_filled = ech_bytes_mul(ret->images, ech_round_up((uint64_t)MAX(gradient->dims[1], 0), 32));
    for (unsigned d = 2; d < gradient->rank; d++)
        ret->planes_filled = ech_bytes_mul(ret->planes_filled, ech_round_up((uint64_t)MAX(gradient->dims[d], 0), 4));
}

static bool convolution_forward(const Call *c, EchGpuOperator *ret)
{
    size_t at = behind_bias(c);
    if (!convolution(&c->inputs[0], &c->inputs[1], NULL, &(Steps){input(c, at), input(c, at + 1), input(c, at + 2)}, ret))
        return false;
    depthwise(&c->inputs[1], ret);
    return true;
}

static bool convolution_relu(const Call *c, EchGpuOperator *ret)
{
    return convolution(&c->inputs[0], &c->inputs[1], NULL, &(Steps){input(c, 4), input(c, 3), input(c, 5)}, ret);
}

/* As the gradient of a convolution's input: of every pixel that goes in, channels by positions of the filter times its own. Weights are [channels in, channels
 * out, ...]. */
static bool convolution_transposed(const Call *c, EchGpuOperator *ret)
{
    const EchGpuInput *in = &c->inputs[0], *weight = &c->inputs[1];
    size_t at = behind_bias(c);
    const Steps steps = {input(c, at), input(c, at + 2), input(c, at + 3)};
    if (in->rank < 3 || in->rank != weight->rank || weight->dims[0] <= 0 || weight->dims[1] <= 0 || in->dims[0] <= 0 || in->dims[1] <= 0)
        return false;
    uint64_t pixels = (uint64_t)in->dims[0], results = (uint64_t)in->dims[0], channels = (uint64_t)weight->dims[0];
    for (unsigned d = 2; d < in->rank; d++) {
        int64_t more = step(input(c, at + 1), d - 2, 0); /* rows of the result that its stride leaves open */
        pixels = ech_bytes_mul(pixels, (uint64_t)MAX(in->dims[d], 0));
        results = ech_bytes_mul(results, ech_bytes_add(reach(in->dims[d], weight->dims[d], &steps, d - 2, true), (uint64_t)CLAMP(more, 0, 4096)));
    }
    if (pixels == 0 || results == 0)
        return false;
    int64_t groups = step(input(c, at + 4), 0, 1);
    set_product(ret, in->dtype, pixels, weight->numel / channels, channels,
                ech_bytes_add(bytes_of(in->numel, in->dtype), bytes_of(weight->numel, weight->dtype)));
    ret->elements = ech_bytes_mul(results, ech_bytes_mul((uint64_t)weight->dims[1], (uint64_t)MAX(groups, 1)));
    ret->written = bytes_of(ret->elements, in->dtype);
    return ret->n > 0;
}

/* Whether @in is what a transposed convolution made @out of, as weights say; where they fit both ways, as it was told. */
static bool is_transposed(const Call *c, const EchGpuInput *in, const EchGpuInput *out)
{
    const EchGpuInput *weight = &c->inputs[2];
    if (in->rank < 3 || out->rank < 3 || weight->rank < 3)
        return false;
    bool straight = out->dims[1] == weight->dims[0], turned = in->dims[1] == weight->dims[0];
    return turned && (!straight || (c->n > 7 && c->inputs[7].truth));
}

static bool depthwise_forward(const Call *c, EchGpuOperator *ret)
{
    if (!is_tensor(&c->inputs[0]) || !is_tensor(&c->inputs[1]) || c->inputs[0].rank != c->inputs[1].rank)
        return false;
    depthwise(&c->inputs[1], ret);
    return ret->steps > 0;
}

/* Rows of f32 and weights [n, k] of eight bits, with a scale for each of n (int8mm.cu). */
static bool eight_bit_product(const Call *c, EchGpuOperator *ret)
{
    const EchGpuInput *rows = &c->inputs[0], *weight = &c->inputs[1];
    if (rows->rank != 2 || weight->rank != 2)
        return false;
    ret->results = ret->elements = ech_bytes_mul(dim(rows, 1), dim(weight, 1));
    ret->steps = dim(rows, 0);
    ret->read = ech_bytes_add(bytes_of(rows->numel, ECH_DTYPE_F32), bytes_of(weight->numel, ECH_DTYPE_S8));
    ret->written = bytes_of(ret->elements, ECH_DTYPE_F32);
    ret->dtype = ECH_DTYPE_F32;
    return true;
}

/* cuDNN's has the array first, PyTorch's the gradient. */
static bool convolution_backward(const Call *c, EchGpuOperator *ret)
{
    size_t at = strcmp(c->op, "convolution_backward") == 0 ? 1 : 0;
    const EchGpuInput *in = &c->inputs[at], *gradient = &c->inputs[1 - at];
    bool transposed = is_transposed(c, in, gradient);
    if (!convolution(transposed ? gradient : in, &c->inputs[2], transposed ? in : gradient, NULL, ret))
        return false;
    depthwise_backward(in, &c->inputs[2], gradient, ret);
    return true;
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

/* Elements that lie somewhere: one that was expanded stands for many. */
static uint64_t own_elements(const EchGpuInput *input)
{
    uint64_t own = 1;
    for (unsigned d = 0; d < input->rank; d++)
        own = ech_bytes_mul(own, d < input->n_strides && input->strides[d] == 0 ? 1 : (uint64_t)MAX(input->dims[d], 0));
    return input->list || input->n_strides != input->rank ? input->numel : MIN(own, input->numel);
}

/* Elements of the broadcast result, the bytes of all inputs, and whether two inputs of that size run along different dimensions. */
enum { MOST_PLACED = 4 }; /* Arrays */

/* Of the elements of arrays as PyTorch goes over them (TensorIterator.cpp, reorder_dimensions and coalesce_dimensions): dimensions by ascending steps, and
 * those as one that lie together in all arrays; what is expanded has a step of 0. A new result lies as they are gone over, and hinders nothing. */
typedef struct {
    uint64_t sizes[ECH_GPU_MAX_RANK], steps[MOST_PLACED][ECH_GPU_MAX_RANK];
    unsigned rank, arrays;
} Places;

static bool places_of(const EchGpuInput *inputs, size_t n, Places *ret)
{
    *ret = (Places){0};
    for (size_t i = 0; i < n; i++)
        ret->rank = is_tensor(&inputs[i]) ? MAX(ret->rank, inputs[i].rank) : ret->rank;
    for (unsigned d = 0; d < ret->rank; d++)
        ret->sizes[d] = 1;
    for (size_t i = 0; i < n; i++) {
        const EchGpuInput *in = &inputs[i];
        if (!is_tensor(in) || (in->rank == 0 && !in->list))
            continue;
        if (in->list || in->n_strides != in->rank || ret->arrays == MOST_PLACED)
            return false;
        for (unsigned d = 0; d < in->rank; d++) {
            unsigned at = ret->rank - in->rank + d;
            ret->sizes[at] = MAX(ret->sizes[at], (uint64_t)MAX(in->dims[d], 0));
            ret->steps[ret->arrays][at] = in->dims[d] > 1 ? (uint64_t)MAX(in->strides[d], 0) : 0;
        }
        ret->arrays++;
    }
    return ret->arrays > 0;
}

/* Whether dimension @a goes before @b: 1, -1, or 0 where the steps do not tell. */
static int goes_before(const Places *places, unsigned a, unsigned b)
{
    for (unsigned i = 0; i < places->arrays; i++) {
        uint64_t x = places->steps[i][a], y = places->steps[i][b];
        if (x == 0 || y == 0)
            continue;
        if (x != y)
            return x < y ? 1 : -1;
        if (places->sizes[a] < places->sizes[b])
            return 1;
    }
    return 0;
}

static bool lie_together(const Places *places, unsigned inner, unsigned outer, uint64_t size)
{
    bool all = true;
    for (unsigned i = 0; i < places->arrays; i++)
        all = all && places->steps[i][inner] * size == places->steps[i][outer];
    return all;
}

/* 0: not known. */
static uint8_t axes_of(const EchGpuInput *inputs, size_t n)
{
    Places places;
    unsigned order[ECH_GPU_MAX_RANK], used = 0;
    if (!places_of(inputs, n, &places))
        return 0;
    for (unsigned d = places.rank; d-- > 0;) { /* from the last dimension on, each before those that it goes before */
        unsigned at = used++;
        order[at] = d;
        for (unsigned other = at; other-- > 0;) {
            int before = goes_before(&places, d, order[other]);
            if (before < 0)
                break;
            if (before > 0) { /* they change places, whatever is between them */
                order[at] = order[other];
                order[other] = d;
                at = other;
            }
        }
    }
    unsigned axes = 0, first = 0;
    uint64_t size = 0; /* Of the axis that grows; its elements' steps are of dimension @first */
    for (unsigned i = 0; i < used; i++) {
        unsigned d = order[i];
        if (places.sizes[d] == 1)
            continue;
        if (axes > 0 && lie_together(&places, first, d, size)) {
            size *= places.sizes[d];
            continue;
        }
        axes++;
        first = d;
        size = places.sizes[d];
    }
    return (uint8_t)MAX(axes, 1u);
}

static void broadcast(const EchGpuInput *inputs, size_t n, EchGpuOperator *ret)
{
    ret->axes = axes_of(inputs, n);
    uint64_t dims[ECH_GPU_MAX_RANK];
    for (size_t d = 0; d < ECH_GPU_MAX_RANK; d++)
        dims[d] = 1;
    uint64_t listed = 0, most = 0;
    bool clash = false; /* sizes of which neither is 1: inputs that do not broadcast (weights beside an image, an optimizer's scales) */
    for (size_t i = 0; i < n; i++) {
        const EchGpuInput *in = &inputs[i];
        if (in->known && in->list && in->dtype == ECH_DTYPE_NONE) /* lists are recorded without their type: the kernel's name tells its width */
            ret->listed = ech_bytes_add(ret->listed, in->numel);
        ret->largest = MAX(ret->largest, in->list ? in->largest : 0);
        if (!is_tensor(in))
            continue;
        ret->read = ech_bytes_add(ret->read, bytes_of(own_elements(in), in->dtype));
        if (bytes_of(in->numel, in->dtype) > most) {
            most = bytes_of(in->numel, in->dtype);
            ret->dtype = in->dtype;
        }
        if (in->list)
            listed = MAX(listed, in->numel);
        for (unsigned d = 0; !in->list && d < in->rank; d++) {
            clash |= dims[d] > 1 && dim(in, d) > 1 && dims[d] != dim(in, d);
            dims[d] = MAX(dims[d], dim(in, d));
        }
    }
    uint64_t elements = 1, widest = 0;
    for (size_t i = 0; i < n; i++)
        widest = MAX(widest, is_tensor(&inputs[i]) && !inputs[i].list ? inputs[i].numel : 0);
    for (size_t d = 0; d < ECH_GPU_MAX_RANK; d++)
        elements = ech_bytes_mul(elements, dims[d]);
    ret->elements = MAX(clash ? widest : elements, listed);
    int along = -1;
    for (size_t i = 0; i < n; i++) {
        int here = is_tensor(&inputs[i]) && !inputs[i].list && inputs[i].numel == widest && inputs[i].rank > 1 ? fastest(&inputs[i]) : -1;
        if (here >= 0 && along >= 0 && here != along)
            ret->scattered = true;
        along = here >= 0 ? here : along;
    }
    ret->written = bytes_of(ret->elements, ret->dtype);
}

/* Sequences that are packed one behind the other, as where they begin says: an array of one more, behind keys and values at @at; 0: there is none. */
static uint64_t packed_sequences(const EchGpuInput *inputs, size_t n, size_t at)
{
    for (size_t i = at; i < n; i++)
        if (is_tensor(&inputs[i]) && !inputs[i].list && inputs[i].rank == 1)
            return inputs[i].numel > 1 ? inputs[i].numel - 1 : 0;
    return 0;
}

/* Where PyTorch's operators have their causal mask, as a truth or (kind) as a mask's kind, 0 of which is none; others of their flags are truths, too
 * (native_functions.yaml). */
static const struct {
    const char *op;
    uint8_t at;
    bool kind;
} causal_flags[] = {
    {"_scaled_dot_product_flash_attention", 4, false},
    {"_scaled_dot_product_flash_attention_backward", 11, false},
    {"_scaled_dot_product_efficient_attention", 6, false},
    {"_scaled_dot_product_efficient_attention_backward", 11, false},
    {"_scaled_dot_product_cudnn_attention", 6, false},
    {"_scaled_dot_product_cudnn_attention_backward", 14, false},
    {"_flash_attention_forward", 8, false},
    {"_flash_attention_backward", 11, false},
    {"_efficient_attention_forward", 9, true},
    {"_efficient_attention_backward", 14, true},
    {"_cudnn_attention_forward", 10, false},
    {"_cudnn_attention_backward", 14, false},
};

static bool mask_is_flagged(const char *op)
{
    for (size_t i = 0; i < G_N_ELEMENTS(causal_flags); i++) {
        if (strcmp(op, causal_flags[i].op) == 0)
            return true;
    }
    return false;
}

/* Of others the first truth behind the arrays: dropout's and others' flags are numbers. */
static bool is_causal(const Call *c, size_t behind)
{
    for (size_t i = 0; i < G_N_ELEMENTS(causal_flags); i++) {
        if (strcmp(c->op, causal_flags[i].op) != 0 || causal_flags[i].at >= c->n)
            continue;
        const EchGpuInput *flag = &c->inputs[causal_flags[i].at];
        return causal_flags[i].kind ? flag->n_integers > 0 && flag->integers[0] > 0 : flag->truth;
    }
    for (size_t i = behind; i < c->n; i++) {
        if (c->inputs[i].truth)
            return true;
    }
    return false;
}

/* cuDNN's have their dropout right before that; names of other kernels tell it. */
static bool drops_out(const Call *c)
{
    for (size_t i = 0; i < G_N_ELEMENTS(causal_flags); i++) {
        if (strcmp(c->op, causal_flags[i].op) == 0 && strstr(c->op, "cudnn") && causal_flags[i].at < c->n)
            return c->inputs[causal_flags[i].at - 1].fraction;
    }
    return false;
}

static bool attention(const Call *c, bool backward, bool heads_last, EchGpuOperator *ret)
{
    const EchGpuInput *inputs = c->inputs;
    size_t n = c->n;
    /* q, k, v [batch, heads, length, depth], or the two in the middle the other way round, or [tokens, heads, depth] of packed sequences; a gradient first
     * where it is one. */
    size_t at = backward ? 1 : 0;
    if (n < at + 3 || !is_tensor(&inputs[at]) || inputs[at].rank != inputs[at + 1].rank)
        return false;
    const EchGpuInput *q = &inputs[at], *keys = &inputs[at + 1];
    uint64_t sequences = q->rank == 3 ? packed_sequences(inputs, n, at + 3) : 0;
    if (q->rank != 4 && sequences == 0)
        return false;
    /* Packed ones are taken to be of one length, which their shapes do not say. */
    uint64_t length = sequences > 0 ? MAX(dim(keys, 2) / sequences, 1) : dim(keys, heads_last ? 2 : 1);
    double operations = 4.0 * (double)q->numel * (double)length * (backward ? ECH_GPU_GRADIENT_PRODUCTS : 1);
    if (is_causal(c, at + 3)) {
        operations /= 2;
        ret->causal = true;
    }
    ret->kind = ECH_GPU_OP_ATTENTION;
    ret->dropout = drops_out(c);
    ret->k = operations < 9e18 ? (uint64_t)operations : 0;
    ret->head = (uint16_t)MIN(dim(q, 0), 1024u);
    ret->dtype = q->dtype;
    ret->n = length;
    ret->elements = q->numel;
    ret->written = backward ? ech_bytes_add(bytes_of(q->numel, q->dtype), ech_bytes_mul(2, bytes_of(keys->numel, q->dtype))) : bytes_of(q->numel, q->dtype);
    return true;
}

/* Attention of a server of language models over keys that lie in pages: q [tokens, heads, depth], keys and values [pages, tokens of one, heads, depth], which
 * are the whole cache, and, behind them, a table [sequences, pages]. How long the sequences are is said nowhere. Assumed: where there are more tokens than
 * sequences, their prompts and nothing before them, masked causally; where there is one for each, as long as the table has room for. */
static bool paged_attention(const Call *c, EchGpuOperator *ret)
{
    if (!strstr(c->op, "fwd") || c->inputs[0].rank != 3 || c->inputs[1].rank != 4 || c->inputs[2].rank != 4)
        return false;
    const EchGpuInput *q = &c->inputs[0], *keys = &c->inputs[1], *table = NULL;
    for (size_t i = 3; i < c->n && !table; i++)
        table = c->inputs[i].known && c->inputs[i].rank == 2 ? &c->inputs[i] : NULL;
    uint64_t tokens = dim(q, 2), page = dim(keys, 2), row = ech_bytes_mul(dim(keys, 1), dim(keys, 0)), sequences = table ? dim(table, 1) : 0;
    if (tokens == 0 || page == 0 || row == 0 || sequences == 0)
        return false;
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
    return true;
}

/* "_flash_attention_backward", "flash_attn::_flash_attn_backward", "flash_attn_3::bwd": a gradient comes first. */
static bool is_gradient(const char *op)
{
    return strstr(op, "backward") || strstr(op, "::bwd") || strstr(op, "_bwd");
}

static bool flash_attention(const Call *c, EchGpuOperator *ret)
{
    return attention(c, is_gradient(c->op), true, ret);
}

static bool cudnn_attention(const Call *c, EchGpuOperator *ret)
{
    return attention(c, is_gradient(c->op), false, ret);
}

static bool scaled_dot_product(const Call *c, EchGpuOperator *ret)
{
    return (strstr(c->op, "flash") || strstr(c->op, "efficient") || strstr(c->op, "cudnn")) && attention(c, strstr(c->op, "backward") != NULL, false, ret);
}

/* Queries [tokens, heads, depth]; keys are the cache, which says nothing: each token looks at itself until lengths are told. */
static bool attention_of_unknown_lengths(const Call *c, EchGpuOperator *ret)
{
    const EchGpuInput *q = &c->inputs[0];
    if (q->rank != 3)
        return false;
    ret->kind = ECH_GPU_OP_ATTENTION;
    ret->dtype = q->dtype;
    ret->head = (uint16_t)MIN(dim(q, 0), 1024u);
    ret->elements = ret->k = q->numel;
    ret->n = 1;
    ret->read = ret->written = bytes_of(q->numel, q->dtype);
    return true;
}

/* FlexAttention's template of TorchInductor, with what is fused into it. */
static bool is_flexible(const char *name)
{
    return g_str_has_prefix(name, "triton_tem_") && strstr(name, "flex_attention");
}

/* Queries, keys and values [batch, heads, length, depth] come first, queries of as many heads as keys or of a multiple; what is given twice is told once. False
 * where they do not. */
static bool flexible_arrays(const EchGpuInput *inputs, size_t n, const EchGpuInput *ret[3])
{
    if (n == 0 || inputs[0].rank != 4 || !is_tensor(&inputs[0]))
        return false;
    for (size_t i = 0; i < 3; i++)
        ret[i] = i < n && inputs[i].rank == 4 && is_tensor(&inputs[i]) ? &inputs[i] : ret[i - 1];
    return true;
}

/* What the mask leaves is told beside it; where it is not, all of these arrays' bytes are moved and nothing is multiplied. */
static void flexible_attention(const char *name, const EchGpuInput *inputs, size_t n, EchGpuOperator *ret)
{
    const EchGpuInput *arrays[3];
    if (!flexible_arrays(inputs, n, arrays))
        return;
    const EchGpuInput *q = arrays[0], *keys = arrays[1], *values = arrays[2];
    bool backward = is_gradient(name);
    EchBytes results = dim(q, 0) > 0 ? bytes_of(ech_bytes_mul(q->numel / dim(q, 0), dim(values, 0)), q->dtype) : 0, queries = bytes_of(q->numel, q->dtype),
             kept = bytes_of(ech_bytes_add(keys->numel, values->numel), keys->dtype);
    *ret = (EchGpuOperator){.kind = ECH_GPU_OP_ATTENTION,
                            .dtype = q->dtype,
                            .head = (uint16_t)MIN((dim(q, 0) + dim(values, 0)) / 2, 1024u),
                            .elements = q->numel,
                            .n = dim(keys, 1),
                            .read = ech_bytes_add(ech_bytes_add(queries, backward ? results : 0), kept),
                            .written = backward ? ech_bytes_add(queries, kept) : results};
}

/* Of two products for every score that its blocks compute forward, and seven backward: scores are made again for queries and for keys. */
static void flexible_lengths(const EchGpuInput *inputs, size_t n, const EchGpuLengths *lengths, bool backward, EchGpuOperator *ret)
{
    const EchGpuInput *arrays[3];
    if (!flexible_arrays(inputs, n, arrays))
        return;
    double deep = (double)dim(arrays[0], 0), wide = (double)dim(arrays[2], 0), heads = (double)dim(arrays[0], 2),
           operations = 2 * (double)lengths->scores * heads * (backward ? 4 * deep + 3 * wide : deep + wide);
    ret->k = operations < 9e18 ? (uint64_t)operations : 0;
}

/* Fewer a sequence are tokens that are made, whose kernels split keys rather than queries; assumed. */
#define PROMPT_QUERIES 16

void ech_gpu_attention_lengths(const char *name, const EchGpuInput *inputs, size_t n, const EchGpuLengths *lengths, EchGpuOperator *ret)
{
    bool backward = is_gradient(name);
    size_t at = backward ? 1 : 0;
    if (is_flexible(name)) {
        flexible_lengths(inputs, n, lengths, backward, ret);
        return;
    }
    if (n < at + 3 || !is_tensor(&inputs[at]) || inputs[at + 1].rank < 3 || !is_tensor(&inputs[at + 1]))
        return;
    const EchGpuInput *q = &inputs[at], *keys = &inputs[at + 1], *values = &inputs[at + 2];
    if (q->rank != 3 && (q->rank != 4 || dim(q, 3) != 1)) /* one batch of all, as PyTorch's memory-efficient attention is given them */
        return;
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
    double operations = 2 * scores * (double)heads * ((double)multiplied + (double)wide) * (backward ? ECH_GPU_GRADIENT_PRODUCTS : 1);
    EchBytes queries = bytes_of(ech_bytes_add(q->numel, latent ? latent->numel : 0), q->dtype), kept = bytes_of(ech_bytes_mul(lengths->keys, row), keys->dtype),
             results = bytes_of(ech_bytes_mul(ech_bytes_mul(tokens, heads), wide), q->dtype);
    const Call call = {g_str_has_prefix(name, "aten::") ? name + strlen("aten::") : name, inputs, n};
    bool prompts = lengths->scores > 0 && lengths->queries >= ech_bytes_mul(lengths->sequences, PROMPT_QUERIES);
    *ret = (EchGpuOperator){.kind = ECH_GPU_OP_ATTENTION,
                            .dtype = q->dtype,
                            .head = (uint16_t)MIN(MAX(multiplied, wide), 1024u),
                            .elements = q->numel,
                            .batch = prompts ? ech_bytes_mul(lengths->sequences, heads) : 0,
                            .m = prompts ? ech_bytes_mul(backward ? lengths->keys : lengths->queries, heads) : 0,
                            .n = lengths->longest,
                            .k = operations < 9e18 ? (uint64_t)operations : 0,
                            .causal = lengths->scores > 0 && (!mask_is_flagged(call.op) || is_causal(&call, at + 3)),
                            .paged = ret->paged,
                            /* a gradient: of results and their gradients, too */
                            .read = ech_bytes_add(ech_bytes_add(queries, backward ? ech_bytes_mul(2, results) : 0), kept),
                            .written = backward ? ech_bytes_add(queries, kept) : results};
}

/* Keys and values of new tokens, put where the cache has room for them; of the cache itself nothing is read. */
static bool into_cache(const Call *c, EchGpuOperator *ret)
{
    if (!c->inputs[0].known || !c->inputs[1].known)
        return false;
    ret->kind = ECH_GPU_OP_OTHER;
    ret->dtype = c->inputs[0].dtype;
    ret->elements = ech_bytes_add(c->inputs[0].numel, c->inputs[1].numel);
    ret->read = ret->written = bytes_of(ret->elements, ret->dtype);
    return true;
}

/* Activations to 8 bits by a scale of each row, or of so many neighbours in it, some with the norm before. */
static bool to_eight_bits(const EchGpuInput *in, const EchGpuInput *out, EchGpuOperator *ret)
{
    if (!is_tensor(in) || !is_tensor(out) || dim(in, 0) == 0 || in->list)
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

static bool first_to_eight_bits(const Call *c, EchGpuOperator *ret)
{
    return to_eight_bits(&c->inputs[0], &c->inputs[1], ret);
}

static bool second_to_eight_bits(const Call *c, EchGpuOperator *ret)
{
    return to_eight_bits(&c->inputs[1], &c->inputs[0], ret);
}

/* What is read of weights [experts, ...]. */
static EchBytes expert_bytes(const EchGpuInput *weights, uint64_t rows, uint64_t results)
{
    return experts_read(bytes_of(weights->numel, weights->dtype), MAX(dim(weights, 2), 1), rows, results);
}

/* Rows [tokens, width], weights [experts, inner, width] and [experts, width, half], and which experts each token goes to [tokens, chosen]: two products of all
 * of the chosen rows. */
static bool fused_experts(const Call *c, EchGpuOperator *ret)
{
    const EchGpuInput *rows = &c->inputs[0], *up = &c->inputs[1], *down = &c->inputs[2], *chosen = &c->inputs[3];
    if (rows->rank != 2 || up->rank != 3 || down->rank != 3 || chosen->rank != 2 || !is_tensor(rows) || !is_tensor(up) || !is_tensor(down))
        return false;
    uint64_t width = dim(rows, 0), inner = dim(up, 1), half = dim(down, 0), all = chosen->numel;
    if (width == 0 || inner == 0 || half == 0 || all == 0)
        return false;
    set_product(ret, rows->dtype, all, ech_bytes_add(inner, half), width,
                ech_bytes_add(ech_bytes_add(expert_bytes(up, dim(chosen, 1), all), expert_bytes(down, dim(chosen, 1), all)),
                              bytes_of(ech_bytes_add(rows->numel, ech_bytes_mul(all, half)), rows->dtype)));
    ret->elements = ech_bytes_mul(all, ech_bytes_add(inner, width)); /* the second product's are as wide as the rows */
    ret->written = bytes_of(ret->elements, rows->dtype);
    return true;
}

/* One of them: rows [.., width], weights [experts, inner, width], results [.., inner]. */
static bool expert_product(const Call *c, EchGpuOperator *ret)
{
    const EchGpuInput *rows = &c->inputs[0], *weights = &c->inputs[1], *results = &c->inputs[2];
    if (rows->rank < 2 || weights->rank != 3 || !is_tensor(rows) || !is_tensor(weights) || !is_tensor(results))
        return false;
    uint64_t width = dim(rows, 0), inner = dim(results, 0), all = inner > 0 ? results->numel / inner : 0;
    if (width == 0 || all == 0)
        return false;
    set_product(ret, rows->dtype, all, inner, width, ech_bytes_add(expert_bytes(weights, rows->numel / width, all), bytes_of(rows->numel, rows->dtype)));
    ret->written = bytes_of(results->numel, results->dtype);
    return true;
}

/* Queries and keys that change in place, then a table of angles, of which a row is read for each token; before them or behind them positions [tokens]. */
static bool rotary_embedding(const Call *c, EchGpuOperator *ret)
{
    const EchGpuInput *positions = NULL, *arrays[3] = {NULL};
    size_t n_arrays = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (!c->inputs[i].known || c->inputs[i].list)
            continue;
        if (c->inputs[i].rank == 1 && !positions)
            positions = &c->inputs[i];
        else if (c->inputs[i].rank >= 2 && n_arrays < G_N_ELEMENTS(arrays))
            arrays[n_arrays++] = &c->inputs[i];
    }
    const EchGpuInput *queries = arrays[0], *keys = n_arrays == 3 ? arrays[1] : NULL, *table = n_arrays > 1 ? arrays[n_arrays - 1] : NULL;
    if (!positions || !table || table->rank != 2)
        return false;
    ret->kind = ECH_GPU_OP_OTHER;
    ret->dtype = queries->dtype;
    ret->elements = ech_bytes_add(queries->numel, keys ? keys->numel : 0);
    ret->written = bytes_of(ret->elements, ret->dtype);
    ret->read = ech_bytes_add(ret->written, bytes_of(ech_bytes_mul(positions->numel, dim(table, 0)), table->dtype));
    return true;
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

/* The last of @inputs that is an array; @n: none. */
static size_t last_array(const EchGpuInput *inputs, size_t n)
{
    size_t last = n;
    for (size_t i = 0; i < n; i++)
        if (inputs[i].known && !inputs[i].list && inputs[i].rank > 0)
            last = i;
    return last;
}

static bool tells_written(const EchGpuInput *inputs, size_t n)
{
    bool told = false;
    for (size_t i = 0; i < n; i++)
        told |= inputs[i].written;
    return told;
}

/* What a kernel that TorchInductor or CuTe compiled does with each of @inputs: these are its inputs and then its outputs, of which one is taken to be where
 * none is told. Appended to @uses. */
static void generated_uses(const char *name, const EchGpuInput *inputs, size_t n, GArray *uses)
{
    uint64_t iteration = iterated(inputs, n), rows = 0;
    size_t last = last_array(inputs, n);
    bool embeds = strstr(name, "_embedding") != NULL, told = tells_written(inputs, n);
    for (size_t i = 0; i < n; i++) {
        const EchGpuInput *input = &inputs[i];
        bool array = input->known && !input->list && input->rank > 0;
        EchGpuUse use = {.writes = told ? input->written : i == last};
        use.reads = !use.writes || input->updated;
        uint64_t elements = !array ? input->typed : touched(input, iteration);
        if (told && use.writes && iteration > 0)
            elements = MIN(elements, iteration); /* of each that it goes over it writes one, of a table that is added to, too */
        /* A table of rows behind what says which of them. */
        if (array && use.reads && rows > 0 && input->rank == 2 && !is_whole(input->dtype)) {
            elements = MIN(elements, ech_bytes_mul(rows, dim(input, 0)));
            rows = 0;
        }
        if (array && use.reads && embeds && is_whole(input->dtype)) {
            rows = input->numel;
            embeds = false;
        }
        use.bytes = bytes_of(elements, input->dtype);
        g_array_append_val(uses, use);
    }
}

void ech_gpu_generated_uses(const char *name, const EchGpuInput *inputs, size_t n, GArray *uses)
{
    if (!tells_written(inputs, n))
        return;
    guint first = uses->len, kept = first;
    generated_uses(name, inputs, n, uses);
    for (size_t i = 0; i < n; i++)
        if (inputs[i].typed)
            g_array_index(uses, EchGpuUse, kept++) = g_array_index(uses, EchGpuUse, first + i);
    g_array_set_size(uses, kept);
}

/* Of a kernel that has but one array, and does not tell what it writes, that changes in place. */
static void generated(const char *name, const EchGpuInput *inputs, size_t n, EchGpuOperator *ret)
{
    size_t last = last_array(inputs, n);
    if (last == n)
        return;
    g_autoptr(GArray) uses = g_array_new(FALSE, FALSE, sizeof(EchGpuUse));
    generated_uses(name, inputs, n, uses);
    uint64_t most = 0, iteration = iterated(inputs, n);
    for (size_t i = 0; i < n; i++) {
        const EchGpuUse *use = &g_array_index(uses, EchGpuUse, i);
        ret->read = ech_bytes_add(ret->read, use->reads ? use->bytes : 0);
        ret->written = ech_bytes_add(ret->written, use->writes ? use->bytes : 0);
        ret->dtype = use->writes ? inputs[i].dtype : ret->dtype;
        most = MAX(most, inputs[i].known && !inputs[i].list ? inputs[i].numel : 0);
    }
    ret->kind = ECH_GPU_OP_OTHER;
    ret->elements = iteration > 0 ? iteration : most;
    ret->read = ret->read > 0 || tells_written(inputs, n) ? ret->read : ret->written;
}

static bool softmax(const Call *c, EchGpuOperator *ret)
{
    if (dim(&c->inputs[0], 0) == 0)
        return false;
    ret->kind = ECH_GPU_OP_ROWS;
    ret->n = dim(&c->inputs[0], 0);
    ret->elements = c->inputs[0].numel;
    ret->m = ret->elements / ret->n;
    ret->written = bytes_of(ret->elements, ret->dtype);
    return true;
}

static bool norm(const Call *c, EchGpuOperator *ret)
{
    ret->kind = ECH_GPU_OP_ROWS;
    ret->elements = c->inputs[0].numel;
    ret->n = strstr(c->op, "batch_norm") ? 0 : dim(&c->inputs[0], 0);
    ret->m = ret->n ? ret->elements / ret->n : 0;
    ret->written = bytes_of(ret->elements, c->inputs[0].dtype);
    return true;
}

/* Of @table, @each elements for every index: only what is picked is read. */
static bool gather(const EchGpuInput *table, const EchGpuInput *indices, uint64_t each, EchGpuOperator *ret)
{
    ret->kind = ECH_GPU_OP_GATHER;
    ret->dtype = table->dtype;
    ret->elements = ech_bytes_mul(MAX(indices->numel, 1), MAX(each, 1));
    ret->written = bytes_of(ret->elements, table->dtype);
    ret->n = bytes_of(indices->numel, indices->dtype);
    ret->read = ech_bytes_add(ret->written, ret->n);
    ret->products = 1;
    return true;
}

static uint64_t row_elements(const EchGpuInput *table)
{
    return table->rank > 0 ? table->numel / (uint64_t)MAX(table->dims[0], 1) : 1;
}

static bool embedding(const Call *c, EchGpuOperator *ret)
{
    return gather(&c->inputs[0], &c->inputs[1], dim(&c->inputs[0], 0), ret);
}

/* vLLM's, of a part of the vocabulary: the result comes first. Rows of other ranks are not read, and nobody knows of how many tokens. */
static bool embedding_of_part(const Call *c, EchGpuOperator *ret)
{
    return gather(&c->inputs[2], &c->inputs[1], dim(&c->inputs[2], 0), ret);
}

static bool indexed(const Call *c, EchGpuOperator *ret)
{
    return gather(&c->inputs[0], &c->inputs[1], row_elements(&c->inputs[0]), ret);
}

/* The dimension comes before the indices. */
static bool selected(const Call *c, EchGpuOperator *ret)
{
    return gather(&c->inputs[0], &c->inputs[2], row_elements(&c->inputs[0]), ret);
}

static bool gathered(const Call *c, EchGpuOperator *ret)
{
    return gather(&c->inputs[0], &c->inputs[2], 1, ret);
}

/* A table, indices, and where each bag of them begins: a row of the result for each bag. */
static bool embedding_bags(const Call *c, EchGpuOperator *ret)
{
    const EchGpuInput *table = &c->inputs[0], *indices = &c->inputs[1], *starts = &c->inputs[2];
    if (table->rank != 2 || table->list || !is_tensor(table))
        return false;
    gather(table, indices, dim(table, 0), ret);
    uint64_t n_bags = starts->known ? starts->numel : MAX(dim(indices, 1), 1);
    ret->read = ech_bytes_add(ret->read, bytes_of(n_bags, starts->known ? starts->dtype : ECH_DTYPE_NONE));
    ret->written = bytes_of(ech_bytes_mul(n_bags, dim(table, 0)), table->dtype);
    return true;
}

/* FBGEMM's tables, flat, one behind the other: where the columns of each begin, and how wide all of them are together or the widest is; then indices, and where
 * each bag of them begins, of each table as many. */
typedef struct {
    uint64_t tables, width; /* width: the number behind where columns begin */
    const EchGpuInput *indices, *starts;
} Lookup;

static bool is_list_of_whole(const EchGpuInput *input)
{
    return input->known && input->rank == 1 && is_whole(input->dtype);
}

static bool find_lookup(const Call *c, Lookup *ret)
{
    *ret = (Lookup){0};
    for (size_t i = 0; i + 1 < c->n; i++) {
        const EchGpuInput *one = &c->inputs[i], *next = &c->inputs[i + 1];
        if (!is_list_of_whole(one) || one->numel < 2)
            continue;
        if (ret->tables == 0 && next->n_integers == 1 && next->integers[0] > 0) {
            ret->tables = one->numel - 1;
            ret->width = (uint64_t)next->integers[0];
        } else if (ret->tables > 0 && is_list_of_whole(next) && next->numel > 1 && (next->numel - 1) % ret->tables == 0) {
            ret->indices = one;
            ret->starts = next;
            return true;
        }
    }
    return false;
}

static bool tables_lookup(const Call *c, EchGpuOperator *ret)
{
    Lookup lookup;
    uint8_t dtype = ECH_DTYPE_NONE;
    for (size_t i = 0; i < c->n && dtype == ECH_DTYPE_NONE; i++)
        dtype = is_tensor(&c->inputs[i]) && c->inputs[i].rank == 1 && !is_whole(c->inputs[i].dtype) && c->inputs[i].numel > 0 ? c->inputs[i].dtype : dtype;
    if (dtype == ECH_DTYPE_NONE || !find_lookup(c, &lookup))
        return false;
    const EchGpuInput row = {.dtype = dtype};
    gather(&row, lookup.indices, MAX(lookup.width / lookup.tables, 1), ret);
    ret->n = ech_bytes_add(ret->n, bytes_of(lookup.starts->numel, lookup.starts->dtype));
    ret->read = ech_bytes_add(ret->written, ret->n);
    ret->written = bytes_of(ech_bytes_mul((lookup.starts->numel - 1) / lookup.tables, lookup.width), dtype);
    return true;
}

/* Their gradient and the step of their optimizer in one: rows that are picked, each taken to be another, are read and written; the gradient [bags, columns of
 * all tables] is read. No more rows than an optimizer's list of one number for each has. */
static bool tables_step(const Call *c, EchGpuOperator *ret)
{
    Lookup lookup;
    const EchGpuInput *gradient = &c->inputs[0];
    if (!is_tensor(gradient) || gradient->rank != 2 || !find_lookup(c, &lookup))
        return false;
    uint64_t rows = lookup.indices->numel, all = 0;
    for (size_t i = 1; i < c->n; i++)
        all = MAX(all, is_tensor(&c->inputs[i]) && c->inputs[i].rank == 1 && !is_whole(c->inputs[i].dtype) ? c->inputs[i].numel : 0);
    const EchGpuInput row = {.dtype = gradient->dtype}, picked = {.numel = all > 0 ? MIN(rows, all) : rows, .dtype = lookup.indices->dtype};
    gather(&row, &picked, MAX(dim(gradient, 0) / lookup.tables, 1), ret);
    ret->n = bytes_of(rows, lookup.indices->dtype);
    ret->read = ech_bytes_add(ech_bytes_add(ret->written, ret->n), bytes_of(gradient->numel, gradient->dtype));
    return true;
}

static bool taken(const Call *c, EchGpuOperator *ret)
{
    return gather(&c->inputs[0], &c->inputs[1], 1, ret);
}

/* Sums of parts, then sums of those. */
static bool embedding_backward(const Call *c, EchGpuOperator *ret)
{
    gather(&c->inputs[0], &c->inputs[1], 1, ret);
    ret->elements = c->inputs[0].numel;
    ret->written = bytes_of(ret->elements, ret->dtype);
    ret->read = ech_bytes_add(ret->written, ret->n);
    ret->products = 2;
    return true;
}

/* Of HBM, that an access takes (JEDEC's pseudo channels of HBM2 and HBM3: 64 bytes). */
#define GRANULE 64

/* Bytes that @picks elements of @array take where they lie apart, as one of every row does: each of them a granule, or what there is for each. */
static EchBytes apart(const EchGpuInput *array, uint64_t picks)
{
    EchBytes all = bytes_of(array->numel, array->dtype), each = bytes_of(1, array->dtype);
    return picks == 0 ? 0 : ech_bytes_mul(picks, CLAMP(all / picks, each, GRANULE));
}

static bool scatter(const Call *c, EchGpuOperator *ret)
{
    bool adds = strlen(c->op) > strlen("scatter_"), of_tensor = c->n > 3 && c->inputs[3].known;
    ret->kind = ECH_GPU_OP_GATHER;
    ret->dtype = c->inputs[0].dtype;
    ret->elements = c->inputs[2].known ? c->inputs[2].numel : 1;
    ret->n = ech_bytes_mul(ret->elements, 8);
    ret->written = bytes_of(ret->elements, ret->dtype);
    EchBytes whole = apart(&c->inputs[0], ret->elements), more = whole > ret->written ? whole - ret->written : 0; /* read before it is written in part */
    ret->read = ech_bytes_add(ret->n, ech_bytes_mul(ret->written, (of_tensor ? 1u : 0u) + (adds ? 1u : 0u)));
    ret->read = ech_bytes_add(ret->read, more > 0 && !adds ? whole : more);
    ret->written = ech_bytes_add(ret->written, more);
    return true;
}

static bool index_put(const Call *c, EchGpuOperator *ret)
{
    const EchGpuInput *indices = &c->inputs[1], *values = &c->inputs[2];
    for (size_t i = 2; i < c->n && !values->known; i++)
        values = &c->inputs[i];
    ret->kind = ECH_GPU_OP_GATHER;
    ret->dtype = c->inputs[0].dtype;
    ret->elements = values->known ? values->numel : indices->numel;
    ret->n = indices->known ? ech_bytes_mul(indices->numel, 8) : 0;
    ret->written = bytes_of(ret->elements, ret->dtype);
    ret->read = ech_bytes_add(ret->written, ret->n);
    return true;
}

/* An array, a dimension, indices, what is copied or added there: the rest stays as it is. */
static bool index_copy(const Call *c, EchGpuOperator *ret)
{
    gather(&c->inputs[0], &c->inputs[2], 1, ret);
    ret->elements = c->inputs[3].numel;
    ret->written = bytes_of(ret->elements, ret->dtype);
    ret->read = ech_bytes_add(ech_bytes_mul(ret->written, strncmp(c->op, "index_add", 9) == 0 ? 2 : 1), ret->n);
    return true;
}

/* One element of each row; the rest of a gradient is cleared before. */
static bool nll_loss(const Call *c, EchGpuOperator *ret)
{
    const EchGpuInput *target = &c->inputs[0];
    for (size_t i = 1; i < c->n; i++) {
        const EchGpuInput *in = &c->inputs[i];
        if (in->known && (in->rank < target->rank || !target->known) && in->numel > 0 && (in->numel > 1 || !target->known))
            target = in;
    }
    bool backward = strstr(c->op, "backward") != NULL;
    ret->kind = ECH_GPU_OP_GATHER;
    ret->elements = target->known ? target->numel : 1;
    ret->n = ech_bytes_mul(ret->elements, 8);
    ret->read = ech_bytes_add(ret->n, backward ? 0 : bytes_of(ret->elements, ret->dtype));
    ret->written = backward ? bytes_of(ret->elements, ret->dtype) : 8;
    return true;
}

static bool random_numbers(const Call *c, EchGpuOperator *ret)
{
    (void)c;
    ret->read = 0;
    return true;
}

/* Images [.., height, width], the second input the new height and width, which the launch tells. */
static bool upsampling(const Call *c, EchGpuOperator *ret)
{
    uint64_t plane = ech_bytes_mul(dim(&c->inputs[0], 0), dim(&c->inputs[0], 1));
    if (!is_tensor(&c->inputs[0]) || c->inputs[0].rank != 4 || plane == 0 || strstr(c->op, "backward"))
        return false;
    ret->planes = c->inputs[0].numel / plane;
    return true;
}

/* Where in a sorted row each of others belongs: half of what is left at each look, and before and after that a wait for what is looked for and where it goes.
 */
static bool search(const Call *c, EchGpuOperator *ret)
{
    const EchGpuInput *sorted = &c->inputs[0], *wanted = &c->inputs[1];
    if (!is_tensor(sorted) || !is_tensor(wanted) || dim(sorted, 0) == 0)
        return false;
    ret->kind = ECH_GPU_OP_GATHER;
    ret->dtype = wanted->dtype;
    ret->elements = wanted->numel;
    ret->trips = (uint16_t)(2 + ceil(log2((double)dim(sorted, 0) + 1)));
    ret->read = ech_bytes_add(bytes_of(sorted->numel, sorted->dtype), bytes_of(wanted->numel, wanted->dtype));
    ret->written = bytes_of(wanted->numel, ECH_DTYPE_S64);
    return true;
}

static bool reduction(const Call *c, EchGpuOperator *ret)
{
    ret->kind = ECH_GPU_OP_REDUCE;
    ret->elements = c->inputs[0].numel;
    ret->written = 0;
    return true;
}

static bool fill(const Call *c, EchGpuOperator *ret)
{
    if (!is_tensor(&c->inputs[0]))
        return false;
    ret->elements = c->inputs[0].numel;
    ret->dtype = c->inputs[0].dtype;
    ret->written = bytes_of(c->inputs[0].numel, c->inputs[0].dtype);
    ret->read = 0;
    return true;
}

static bool copy(const Call *c, EchGpuOperator *ret)
{
    if (!fill(c, ret))
        return false;
    ret->read = c->n > 1 && is_tensor(&c->inputs[1]) ? bytes_of(c->inputs[1].numel, c->inputs[1].dtype) : 0;
    return true;
}

/* All parts of one array to their places. */
static bool parts_copied(const Call *c, EchGpuOperator *ret)
{
    const EchGpuInput *largest = NULL;
    for (size_t i = 0; i < c->n; i++)
        if (is_tensor(&c->inputs[i]) && (!largest || c->inputs[i].numel > largest->numel))
            largest = &c->inputs[i];
    if (!largest)
        return false;
    ret->elements = largest->numel;
    ret->dtype = largest->dtype;
    ret->read = ret->written = bytes_of(largest->numel, largest->dtype);
    return true;
}

static bool truth(const Call *c, EchGpuOperator *ret)
{
    (void)c;
    ret->written = ret->elements;
    return true;
}

/* Parameters, gradients, two moments: all but the gradients are written. */
/* Parameters, gradients and two moments; the former and the latter are written. */
static bool fused_adam(const Call *c, EchGpuOperator *ret)
{
    (void)c;
    ret->written = ret->read / 4 * 3;
    return true;
}

/* Of a list of sums. */
static bool fused_adagrad(const Call *c, EchGpuOperator *ret)
{
    (void)c;
    ret->written = ret->read / 3 * 2;
    return true;
}

/* What an operator does, by its name: the first row that it is called by, has inputs enough for, and whose function takes them. That function changes what an
 * element-wise operator would do; an operator of no row is one. */
enum { MOST_NAMES = 20 };
static const struct {
    enum { IS, BEGINS, HAS } match;
    uint8_t least; /* inputs */
    bool (*work)(const Call *c, EchGpuOperator *ret);
    const char *names[MOST_NAMES]; /* up to the first NULL */
} rules[] = {
    {IS, 2, plain_product, {"mm", "bmm", "mv", "dot", "matmul"}},
    {IS, 2, grouped_product, {"_grouped_mm"}},
    {IS, 2, scaled_grouped_product, {"_scaled_grouped_mm", "_scaled_grouped_mm_v2"}},
    {IS, 2, scaled_plain, {"_scaled_mm", "_scaled_mm_v2", "sgl_kernel::fp8_scaled_mm", "sgl_kernel::int8_scaled_mm", "sgl_kernel::fp8_blockwise_scaled_mm"}},
    {IS, 2, whole_product, {"_int_mm"}},
    {HAS, 3, scaled_after_result, {"::cutlass_scaled_mm"}},
    {HAS, 3, blockwise_product, {"gemm_nt"}},
    {HAS, 2, scaled_linear, {"::w8a8_triton_block_scaled_mm"}},
    {HAS, 3, widened_product, {"marlin_gemm", "::machete_mm", "::awq_gemm", "::gptq_gemm"}},
    {HAS, 4, four_bit_product, {"bitsandbytes::gemm_4bit", "bitsandbytes::gemv_4bit"}},
    {IS, 4, packed_product, {"_weight_int4pack_mm"}},
    {IS, 3, eight_bit_product, {"_weight_int8pack_mm"}},
    {IS, 2, linear, {"linear"}},
    {IS, 3, added_product, {"addmm", "baddbmm", "addmv", "_addmm_activation", "addmm_"}},
    {IS, 4, convolution_forward, {"cudnn_convolution", "miopen_convolution", "mkldnn_convolution"}},
    {IS, 5, convolution_relu, {"cudnn_convolution_relu", "miopen_convolution_relu"}},
    {IS, 5, convolution_transposed, {"cudnn_convolution_transpose", "miopen_convolution_transpose"}},
    {IS, 5, depthwise_forward, {"_conv_depthwise2d", "conv_depthwise3d"}},
    {IS, 3, convolution_backward, {"convolution_backward", "cudnn_convolution_backward"}},
    {IS, 1, softmax, {"_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data", "softmax", "log_softmax"}},
    {HAS, 2, first_to_eight_bits, {"per_token_quant_fp8", "per_token_group_fp8_quant", "per_token_group_quant"}},
    {HAS,
     2,
     second_to_eight_bits,
     {"scaled_fp8_quant", "scaled_int8_quant", "rms_norm_dynamic_per_token_quant", "rms_norm_per_block_quant", "silu_and_mul_quant",
      "silu_and_mul_per_block_quant"}},
    {HAS, 1, norm, {"layer_norm", "rms_norm", "batch_norm", "group_norm"}},
    {IS, 2, embedding, {"embedding"}},
    {HAS, 3, embedding_of_part, {"::vocab_parallel_embedding"}},
    {IS, 3, embedding_bags, {"_embedding_bag", "_embedding_bag_forward_only"}},
    {IS, 2, taken, {"take"}},
    {IS, 2, search, {"searchsorted"}},
    {BEGINS, 1, upsampling, {"upsample_"}},
    {HAS, 3, tables_lookup, {"embedding_codegen_forward"}},
    {HAS, 3, tables_step, {"embedding_backward_codegen"}},
    {IS, 2, indexed, {"index"}},
    {IS, 3, selected, {"index_select"}},
    {IS, 3, gathered, {"gather"}},
    {IS, 2, embedding_backward, {"embedding_dense_backward"}},
    {IS, 3, scatter, {"scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_"}},
    {IS, 3, index_put, {"index_put_", "_index_put_impl_", "index_put"}},
    {IS, 4, index_copy, {"index_copy", "index_copy_", "index_add", "index_add_"}},
    {HAS, 1, nll_loss, {"nll_loss"}},
    {BEGINS, 1, cudnn_attention, {"_cudnn_attention_"}},
    {BEGINS, 1, flash_attention, {"_flash_attention_", "_efficient_attention_", "flash_attn::", "flash_attn_3::"}},
    {IS, 3, attention_of_unknown_lengths, {"sglang::paged_attention", "flashinfer::paged_attention"}},
    {BEGINS, 4, paged_attention, {"_vllm_fa"}},
    {IS, 4, paged_attention, {"sgl_kernel::fwd"}},
    {HAS, 3, into_cache, {"reshape_and_cache", "::store_cache", "::concat_and_cache"}},
    {HAS, 4, fused_experts, {"place_fused_experts"}},
    {HAS, 3, expert_product, {"::fused_moe_kernel"}},
    {HAS, 1, rotary_embedding, {"::rotary_embedding", "::apply_rope_inplace"}},
    {IS, 1, random_numbers, {"normal_", "uniform_", "random_", "bernoulli_", "exponential_", "log_normal_", "cauchy_", "geometric_"}},
    {HAS, 1, scaled_dot_product, {"scaled_dot_product"}},
    {IS,
     1,
     reduction,
     {"sum", "mean", "max", "min", "argmax", "argmin", "prod", "any", "all", "var", "std", "var_mean", "norm", "linalg_vector_norm", "amax", "amin",
      "logsumexp", "nonzero"}},
    {IS, 1, fill, {"fill_", "zero_"}},
    {IS, 1, copy, {"copy_"}},
    {IS, 1, parts_copied, {"split_with_sizes_copy"}},
    {IS, 1, truth, {"eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "logical_and", "logical_or", "logical_not", "logical_xor"}},
    {BEGINS, 1, fused_adam, {"_fused_adam"}},
    {BEGINS, 1, fused_adagrad, {"_fused_adagrad"}},
};

static bool is_called(const char *op, size_t rule)
{
    for (const char *const *name = rules[rule].names; *name; name++)
        if (rules[rule].match == HAS ? strstr(op, *name) != NULL : rules[rule].match == IS ? strcmp(op, *name) == 0 : g_str_has_prefix(op, *name))
            return true;
    return false;
}

void ech_gpu_operator_of(const char *name, const EchGpuInput *inputs, size_t n, EchGpuOperator *ret)
{
    *ret = (EchGpuOperator){0};
    if (is_flexible(name)) {
        flexible_attention(name, inputs, n, ret);
        return;
    }
    if (g_str_has_prefix(name, "triton_") || g_str_has_prefix(name, "cute::")) {
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
    const Call call = {g_str_has_prefix(name, "aten::") ? name + strlen("aten::") : name, inputs, n};
    for (size_t i = 0; i < G_N_ELEMENTS(rules); i++) {
        EchGpuOperator made = *ret;
        if (n >= rules[i].least && is_called(call.op, i) && rules[i].work(&call, &made)) {
            *ret = made;
            return;
        }
    }
}
