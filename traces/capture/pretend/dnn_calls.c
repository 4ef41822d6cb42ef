/* cuDNN: calls from before graphs. Their tensors are the library's own, which needs no GPU for them. */
#include "dnn.h"

#include <stdio.h>
#include <string.h>

static bool read_own_tensor(const char *getter, bool filter, const void *descriptor, PretendTensor *ret)
{
    int type = 0, format = 0, rank = 0, sizes[PRETEND_DNN_DIMENSIONS] = {0}, strides[PRETEND_DNN_DIMENSIONS] = {0};
    void *symbol = descriptor ? pretend_cudnn_symbol(getter) : NULL;
    int (*get)(const void *, int, int *, int *, int *, int *);
    memcpy(&get, &symbol, sizeof get);
    *ret = (PretendTensor){.in_memory = true};
    /* A filter's layout stands where a tensor's rank does. */
    if (!symbol || get(descriptor, PRETEND_DNN_DIMENSIONS, &type, filter ? &format : &rank, filter ? &rank : sizes, filter ? sizes : strides) != SUCCESS ||
        rank < 1 || rank > PRETEND_DNN_DIMENSIONS)
        return false;
    ret->rank = rank;
    ret->type = type;
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        ret->sizes[i] = sizes[i];
        ret->strides[i] = filter ? stride : strides[i];
        stride *= sizes[i];
    }
    if (filter && format == 1) /* CUDNN_TENSOR_NHWC: channels side by side */
        ret->strides[1] = 1;
    return true;
}

static bool tensor_of(const void *descriptor, PretendTensor *ret)
{
    return read_own_tensor("cudnnGetTensorNdDescriptor", false, descriptor, ret);
}

static bool filter_of(const void *descriptor, PretendTensor *ret)
{
    return read_own_tensor("cudnnGetFilterNdDescriptor", true, descriptor, ret);
}

/* @at: where x, w and y lie. CUDNN_FMA_MATH is asked for where tf32 is not allowed; it is not read back from the descriptor: f32 stands for f32 here. */
static int call_convolution(void *handle, int kind, const char *name, const void *x_of, const void *w_of, const void *y_of, const void *const *at)
{
    PretendTensor x, w, y;
    if (!handle || !tensor_of(x_of, &x) || !filter_of(w_of, &w) || !tensor_of(y_of, &y) || x.rank < 3 || x.rank != w.rank || x.rank != y.rank)
        return BAD_PARAM;
    const PretendTensor *const all[] = {&x, &w, &y}, *result = kind == CONVOLUTION_FORWARD ? &y : kind == CONVOLUTION_DATA ? &x : &w;
    PretendDnnCall call = {.stream = ((PretendDnnHandle *)handle)->stream, .tensor_cores = pretend_dnn_bits(x.type) <= 16};
    for (size_t i = 0; i < 3; i++)
        *(all[i] == result ? &call.written : &call.read) += pretend_dnn_bytes(all[i]);
    for (size_t i = 0; i < 3; i++)
        pretend_use(all[i] == result ? PRETEND_WRITES : PRETEND_READS, at[i], pretend_dnn_bytes(all[i]));
    pretend_dnn_asked();
    pretend_dnn_convolution(&call, kind, name, &x, &w, &y);
    return SUCCESS;
}

PRETEND_EXPORT int cudnnConvolutionForward(void *handle, const void *alpha, const void *x_of, const void *x, const void *w_of, const void *w,
                                           const void *convolution, int algorithm, void *workspace, size_t workspace_bytes, const void *beta, const void *y_of,
                                           void *y)
{
    (void)alpha, (void)convolution, (void)algorithm, (void)workspace, (void)workspace_bytes, (void)beta;
    return call_convolution(handle, CONVOLUTION_FORWARD, "cudnn convolution", x_of, w_of, y_of, (const void *const[]){x, w, y});
}

PRETEND_EXPORT int cudnnConvolutionBiasActivationForward(void *handle, const void *alpha, const void *x_of, const void *x, const void *w_of, const void *w,
                                                         const void *convolution, int algorithm, void *workspace, size_t workspace_bytes, const void *alpha2,
                                                         const void *z_of, const void *z, const void *bias_of, const void *bias, const void *activation,
                                                         const void *y_of, void *y)
{
    (void)alpha, (void)convolution, (void)algorithm, (void)workspace, (void)workspace_bytes, (void)alpha2, (void)z_of, (void)bias_of, (void)activation;
    pretend_use(PRETEND_READS, z, 0);
    pretend_use(PRETEND_READS, bias, 0);
    return call_convolution(handle, CONVOLUTION_FORWARD, "cudnn convolution", x_of, w_of, y_of, (const void *const[]){x, w, y});
}

PRETEND_EXPORT int cudnnConvolutionBackwardData(void *handle, const void *alpha, const void *w_of, const void *w, const void *dy_of, const void *dy,
                                                const void *convolution, int algorithm, void *workspace, size_t workspace_bytes, const void *beta,
                                                const void *dx_of, void *dx)
{
    (void)alpha, (void)convolution, (void)algorithm, (void)workspace, (void)workspace_bytes, (void)beta;
    return call_convolution(handle, CONVOLUTION_DATA, "cudnn convolution: gradient of the data", dx_of, w_of, dy_of, (const void *const[]){dx, w, dy});
}

PRETEND_EXPORT int cudnnConvolutionBackwardFilter(void *handle, const void *alpha, const void *x_of, const void *x, const void *dy_of, const void *dy,
                                                  const void *convolution, int algorithm, void *workspace, size_t workspace_bytes, const void *beta,
                                                  const void *dw_of, void *dw)
{
    (void)alpha, (void)convolution, (void)algorithm, (void)workspace, (void)workspace_bytes, (void)beta;
    return call_convolution(handle, CONVOLUTION_FILTER, "cudnn convolution: gradient of the filters", x_of, dw_of, dy_of, (const void *const[]){x, dw, dy});
}

/* cudnnConvolution*AlgoPerf_t. */
typedef struct {
    int algorithm, status;
    float ms;
    size_t workspace;
    int deterministic, math, reserved[3];
} Algorithm;

/* One algorithm, the implicit product (1 in all three enumerations), of no workspace. */
static int choose_algorithm(int room, int *ret_n, void *ret)
{
    *ret_n = room > 0;
    if (room > 0)
        *(Algorithm *)ret = (Algorithm){.algorithm = 1, .ms = 1, .deterministic = 1};
    return SUCCESS;
}

#define CHOOSES(name)                                                                                                                                          \
    PRETEND_EXPORT int cudnnGet##name##Algorithm_v7(void *handle, void *a, void *b, void *c, void *d, int room, int *ret_n, void *ret)                         \
    {                                                                                                                                                          \
        (void)handle, (void)a, (void)b, (void)c, (void)d;                                                                                                      \
        return choose_algorithm(room, ret_n, ret);                                                                                                             \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cudnnFind##name##AlgorithmEx(void *handle, void *a, void *a_data, void *b, void *b_data, void *c, void *d, void *d_data, int room,      \
                                                    int *ret_n, void *ret, void *workspace, size_t bytes)                                                      \
    {                                                                                                                                                          \
        (void)handle, (void)a, (void)a_data, (void)b, (void)b_data, (void)c, (void)d, (void)d_data, (void)workspace, (void)bytes;                              \
        return choose_algorithm(room, ret_n, ret);                                                                                                             \
    }                                                                                                                                                          \
    PRETEND_EXPORT int cudnnGet##name##WorkspaceSize(void *handle, void *a, void *b, void *c, void *d, int algorithm, size_t *ret)                             \
    {                                                                                                                                                          \
        (void)handle, (void)a, (void)b, (void)c, (void)d, (void)algorithm;                                                                                     \
        *ret = 0;                                                                                                                                              \
        return SUCCESS;                                                                                                                                        \
    }
CHOOSES(ConvolutionForward)
CHOOSES(ConvolutionBackwardData)
CHOOSES(ConvolutionBackwardFilter)

/* Batch norm. The library does not say sizes without a GPU: a bit an element is kept where an activation follows (cudnnBatchNormOps_t above 0), and partial
 * sums of two statistics a channel for every multiprocessor are assumed; of what lies plane by plane there are none (an H100's). */
static size_t norm_workspace(const void *x_of)
{
    PretendTensor x;
    return tensor_of(x_of, &x) && x.rank > 1 && !(x.rank > 2 && x.strides[1] != 1) ? (size_t)x.sizes[1] * 2 * sizeof(float) * pretend_device()->multiprocessors
                                                                                   : 0;
}

PRETEND_EXPORT int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void *handle, int mode, int operations, const void *x_of, const void *z_of,
                                                                            const void *y_of, const void *scale_of, const void *activation, size_t *ret)
{
    (void)handle, (void)mode, (void)operations, (void)z_of, (void)y_of, (void)scale_of, (void)activation;
    *ret = norm_workspace(x_of);
    return SUCCESS;
}

PRETEND_EXPORT int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void *handle, int mode, int operations, const void *x_of, const void *y_of,
                                                                     const void *dy_of, const void *dz_of, const void *dx_of, const void *scale_of,
                                                                     const void *activation, size_t *ret)
{
    (void)handle, (void)mode, (void)operations, (void)y_of, (void)dy_of, (void)dz_of, (void)dx_of, (void)scale_of, (void)activation;
    *ret = norm_workspace(x_of);
    return SUCCESS;
}

PRETEND_EXPORT int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void *handle, int mode, int operations, const void *activation, const void *x_of,
                                                                        size_t *ret)
{
    (void)handle, (void)mode, (void)activation;
    PretendTensor x;
    *ret = operations > 0 && tensor_of(x_of, &x) ? (size_t)(pretend_dnn_elements(&x) + 7) / 8 : 0;
    return SUCCESS;
}

static int call_norm(void *handle, const char *name, const void *x_of, uint64_t reads, bool backward)
{
    PretendTensor x;
    if (!handle || !tensor_of(x_of, &x))
        return BAD_PARAM;
    PretendDnnCall call = {.stream = ((PretendDnnHandle *)handle)->stream, .read = reads * pretend_dnn_bytes(&x), .written = pretend_dnn_bytes(&x)};
    pretend_dnn_asked();
    pretend_dnn_norm(&call, name, &x, backward);
    return SUCCESS;
}

PRETEND_EXPORT int cudnnBatchNormalizationForwardTrainingEx(void *handle, int mode, int operations, const void *alpha, const void *beta, const void *x_of,
                                                            const void *x, const void *z_of, const void *z, const void *y_of, void *y, const void *scale_of,
                                                            const void *scale, const void *bias, double factor, void *mean, void *variance, double epsilon,
                                                            void *saved_mean, void *saved_variance, void *activation, void *workspace, size_t workspace_bytes,
                                                            void *reserve, size_t reserve_bytes)
{
    (void)mode, (void)operations, (void)alpha, (void)beta, (void)z_of, (void)y_of, (void)scale_of, (void)factor, (void)epsilon, (void)activation;
    (void)workspace, (void)workspace_bytes, (void)reserve_bytes;
    pretend_uses((const void *const[]){x, z, scale, bias}, 4, (const void *const[]){y, saved_mean, saved_variance, reserve}, 4);
    pretend_use(PRETEND_UPDATES, mean, 0);
    pretend_use(PRETEND_UPDATES, variance, 0);
    return call_norm(handle, "cudnn batch norm", x_of, z ? 2 : 1, false);
}

PRETEND_EXPORT int cudnnBatchNormalizationForwardTraining(void *handle, int mode, const void *alpha, const void *beta, const void *x_of, const void *x,
                                                          const void *y_of, void *y, const void *scale_of, const void *scale, const void *bias, double factor,
                                                          void *mean, void *variance, double epsilon, void *saved_mean, void *saved_variance)
{
    return cudnnBatchNormalizationForwardTrainingEx(handle, mode, 0, alpha, beta, x_of, x, NULL, NULL, y_of, y, scale_of, scale, bias, factor, mean, variance,
                                                    epsilon, saved_mean, saved_variance, NULL, NULL, 0, NULL, 0);
}

PRETEND_EXPORT int cudnnBatchNormalizationForwardInference(void *handle, int mode, const void *alpha, const void *beta, const void *x_of, const void *x,
                                                           const void *y_of, void *y, const void *scale_of, const void *scale, const void *bias,
                                                           const void *mean, const void *variance, double epsilon)
{
    (void)mode, (void)alpha, (void)beta, (void)y_of, (void)scale_of, (void)epsilon;
    pretend_uses((const void *const[]){x, scale, bias, mean, variance}, 5, (const void *const[]){y}, 1);
    PretendTensor tensor;
    if (!handle || !tensor_of(x_of, &tensor))
        return BAD_PARAM;
    PretendDnnCall call = {.stream = ((PretendDnnHandle *)handle)->stream, .read = pretend_dnn_bytes(&tensor), .written = pretend_dnn_bytes(&tensor)};
    char launch[96]; /* its statistics are there: every element once */
    snprintf(launch, sizeof launch, "elements=%llu operand_bytes=%u class=elementwise", (unsigned long long)pretend_dnn_elements(&tensor),
             (pretend_dnn_bits(tensor.type) + 7) / 8);
    pretend_dnn_launch(&call, "cudnn batch norm", launch, 0, NULL);
    return SUCCESS;
}

PRETEND_EXPORT int cudnnBatchNormalizationBackwardEx(void *handle, int mode, int operations, const void *alpha_data, const void *beta_data,
                                                     const void *alpha_parameters, const void *beta_parameters, const void *x_of, const void *x,
                                                     const void *y_of, const void *y, const void *dy_of, const void *dy, const void *dz_of, void *dz,
                                                     const void *dx_of, void *dx, const void *scale_of, const void *scale, const void *bias, void *dscale,
                                                     void *dbias, double epsilon, const void *saved_mean, const void *saved_variance, void *activation,
                                                     void *workspace, size_t workspace_bytes, void *reserve, size_t reserve_bytes)
{
    (void)mode, (void)operations, (void)alpha_data, (void)beta_data, (void)alpha_parameters, (void)beta_parameters, (void)y_of, (void)dy_of, (void)dz_of;
    (void)dx_of, (void)scale_of, (void)epsilon, (void)activation, (void)workspace, (void)workspace_bytes, (void)reserve_bytes;
    pretend_uses((const void *const[]){x, y, dy, scale, bias, saved_mean, saved_variance, reserve}, 8, (const void *const[]){dx, dz, dscale, dbias}, 4);
    return call_norm(handle, "cudnn batch norm: gradients", x_of, 2, true);
}

PRETEND_EXPORT int cudnnBatchNormalizationBackward(void *handle, int mode, const void *alpha_data, const void *beta_data, const void *alpha_parameters,
                                                   const void *beta_parameters, const void *x_of, const void *x, const void *dy_of, const void *dy,
                                                   const void *dx_of, void *dx, const void *scale_of, const void *scale, void *dscale, void *dbias,
                                                   double epsilon, const void *saved_mean, const void *saved_variance)
{
    return cudnnBatchNormalizationBackwardEx(handle, mode, 0, alpha_data, beta_data, alpha_parameters, beta_parameters, x_of, x, NULL, NULL, dy_of, dy, NULL,
                                             NULL, dx_of, dx, scale_of, scale, NULL, dscale, dbias, epsilon, saved_mean, saved_variance, NULL, NULL, 0, NULL,
                                             0);
}

/* ---- the rest: what they read and write ---- */

static uint64_t size_of(const void *descriptor)
{
    PretendTensor tensor;
    return tensor_of(descriptor, &tensor) ? pretend_dnn_bytes(&tensor) : 0;
}

/* @over: whose elements are gone over, as models/kernel/gpu.h calls @kind. */
static int call_elementwise(void *handle, const char *name, const char *kind, const void *over, uint64_t read, uint64_t written)
{
    PretendTensor tensor;
    if (!handle || !tensor_of(over, &tensor))
        return BAD_PARAM;
    char launch[128];
    snprintf(launch, sizeof launch, "elements=%llu operand_bytes=%u class=%s", (unsigned long long)pretend_dnn_elements(&tensor),
             (pretend_dnn_bits(tensor.type) + 7) / 8, kind);
    pretend_library_kernel(((PretendDnnHandle *)handle)->stream, name, launch, read, written, 0, NULL);
    return SUCCESS;
}

PRETEND_EXPORT int cudnnPoolingForward(void *handle, const void *pooling, const void *alpha, const void *x_of, const void *x, const void *beta,
                                       const void *y_of, void *y)
{
    (void)pooling, (void)alpha, (void)beta;
    pretend_uses(&x, 1, (const void *const[]){y}, 1);
    return call_elementwise(handle, "cudnn pooling", "strided", y_of, size_of(x_of), size_of(y_of));
}

PRETEND_EXPORT int cudnnPoolingBackward(void *handle, const void *pooling, const void *alpha, const void *y_of, const void *y, const void *dy_of,
                                        const void *dy, const void *x_of, const void *x, const void *beta, const void *dx_of, void *dx)
{
    (void)pooling, (void)alpha, (void)beta;
    pretend_uses((const void *const[]){y, dy, x}, 3, (const void *const[]){dx}, 1);
    return call_elementwise(handle, "cudnn pooling: gradients", "strided", dx_of, size_of(y_of) + size_of(dy_of) + size_of(x_of), size_of(dx_of));
}

PRETEND_EXPORT int cudnnSoftmaxForward(void *handle, int algorithm, int mode, const void *alpha, const void *x_of, const void *x, const void *beta,
                                       const void *y_of, void *y)
{
    (void)algorithm, (void)mode, (void)alpha, (void)beta;
    pretend_uses(&x, 1, (const void *const[]){y}, 1);
    return call_elementwise(handle, "cudnn softmax", "elementwise", y_of, size_of(x_of), size_of(y_of));
}

PRETEND_EXPORT int cudnnSoftmaxBackward(void *handle, int algorithm, int mode, const void *alpha, const void *y_of, const void *y, const void *dy_of,
                                        const void *dy, const void *beta, const void *dx_of, void *dx)
{
    (void)algorithm, (void)mode, (void)alpha, (void)beta;
    pretend_uses((const void *const[]){y, dy}, 2, (const void *const[]){dx}, 1);
    return call_elementwise(handle, "cudnn softmax: gradients", "elementwise", dx_of, size_of(y_of) + size_of(dy_of), size_of(dx_of));
}

PRETEND_EXPORT int cudnnActivationForward(void *handle, void *activation, const void *alpha, const void *x_of, const void *x, const void *beta,
                                          const void *y_of, void *y)
{
    (void)activation, (void)alpha, (void)beta;
    pretend_uses(&x, 1, (const void *const[]){y}, 1);
    return call_elementwise(handle, "cudnn activation", "elementwise", y_of, size_of(x_of), size_of(y_of));
}

PRETEND_EXPORT int cudnnActivationBackward(void *handle, void *activation, const void *alpha, const void *y_of, const void *y, const void *dy_of,
                                           const void *dy, const void *x_of, const void *x, const void *beta, const void *dx_of, void *dx)
{
    (void)activation, (void)alpha, (void)beta;
    pretend_uses((const void *const[]){y, dy, x}, 3, (const void *const[]){dx}, 1);
    return call_elementwise(handle, "cudnn activation: gradients", "elementwise", dx_of, size_of(y_of) + size_of(dy_of) + size_of(x_of), size_of(dx_of));
}

PRETEND_EXPORT int cudnnLRNCrossChannelForward(void *handle, void *norm, int mode, const void *alpha, const void *x_of, const void *x, const void *beta,
                                               const void *y_of, void *y)
{
    (void)norm, (void)mode, (void)alpha, (void)beta;
    pretend_uses(&x, 1, (const void *const[]){y}, 1);
    return call_elementwise(handle, "cudnn local response norm", "elementwise", y_of, size_of(x_of), size_of(y_of));
}

PRETEND_EXPORT int cudnnLRNCrossChannelBackward(void *handle, void *norm, int mode, const void *alpha, const void *y_of, const void *y, const void *dy_of,
                                                const void *dy, const void *x_of, const void *x, const void *beta, const void *dx_of, void *dx)
{
    (void)norm, (void)mode, (void)alpha, (void)beta;
    pretend_uses((const void *const[]){y, dy, x}, 3, (const void *const[]){dx}, 1);
    return call_elementwise(handle, "cudnn local response norm: gradients", "elementwise", dx_of, size_of(y_of) + size_of(dy_of) + size_of(x_of),
                            size_of(dx_of));
}

/* c = a op b, and c += a, of which b or a may be smaller. */
PRETEND_EXPORT int cudnnOpTensor(void *handle, const void *operation, const void *alpha1, const void *a_of, const void *a, const void *alpha2, const void *b_of,
                                 const void *b, const void *beta, const void *c_of, void *c)
{
    (void)operation, (void)alpha1, (void)alpha2, (void)beta;
    pretend_uses((const void *const[]){a, b}, 2, (const void *const[]){c}, 1);
    return call_elementwise(handle, "cudnn element by element", "elementwise", c_of, size_of(a_of) + size_of(b_of), size_of(c_of));
}

PRETEND_EXPORT int cudnnAddTensor(void *handle, const void *alpha, const void *a_of, const void *a, const void *beta, const void *c_of, void *c)
{
    (void)alpha, (void)beta;
    pretend_use(PRETEND_READS, a, 0);
    pretend_use(PRETEND_UPDATES, c, 0);
    return call_elementwise(handle, "cudnn addition", "elementwise", c_of, size_of(a_of) + size_of(c_of), size_of(c_of));
}

PRETEND_EXPORT int cudnnTransformTensor(void *handle, const void *alpha, const void *x_of, const void *x, const void *beta, const void *y_of, void *y)
{
    (void)alpha, (void)beta;
    pretend_uses(&x, 1, (const void *const[]){y}, 1);
    return call_elementwise(handle, "cudnn relayout", "relayout", y_of, size_of(x_of), size_of(y_of));
}

PRETEND_EXPORT int cudnnConvolutionBackwardBias(void *handle, const void *alpha, const void *dy_of, const void *dy, const void *beta, const void *db_of,
                                                void *db)
{
    (void)alpha, (void)beta;
    pretend_uses(&dy, 1, (const void *const[]){db}, 1);
    return call_elementwise(handle, "cudnn convolution: gradient of the bias", "reduce", dy_of, size_of(dy_of), size_of(db_of));
}

/* A reduction's scratch memory is assumed to be as its result in f32. */
PRETEND_EXPORT int cudnnGetReductionWorkspaceSize(void *handle, const void *reduction, const void *a_of, const void *c_of, size_t *ret)
{
    (void)handle, (void)reduction, (void)a_of;
    PretendTensor c;
    *ret = tensor_of(c_of, &c) ? sizeof(float) * (size_t)pretend_dnn_elements(&c) : 0;
    return SUCCESS;
}

PRETEND_EXPORT int cudnnGetReductionIndicesSize(void *handle, const void *reduction, const void *a_of, const void *c_of, size_t *ret)
{
    return cudnnGetReductionWorkspaceSize(handle, reduction, a_of, c_of, ret); /* 32 bits each, too */
}

PRETEND_EXPORT int cudnnReduceTensor(void *handle, const void *reduction, void *indices, size_t indices_bytes, void *workspace, size_t workspace_bytes,
                                     const void *alpha, const void *a_of, const void *a, const void *beta, const void *c_of, void *c)
{
    (void)reduction, (void)indices_bytes, (void)workspace, (void)workspace_bytes, (void)alpha, (void)beta;
    pretend_uses(&a, 1, (const void *const[]){c, indices}, 2);
    return call_elementwise(handle, "cudnn reduction", "reduce", a_of, size_of(a_of), size_of(c_of));
}

PRETEND_EXPORT int cudnnSpatialTfSamplerForward(void *handle, const void *sampler, const void *alpha, const void *x_of, const void *x, const void *grid,
                                                const void *beta, const void *y_of, void *y)
{
    (void)sampler, (void)alpha, (void)beta;
    pretend_uses((const void *const[]){x, grid}, 2, (const void *const[]){y}, 1);
    return call_elementwise(handle, "cudnn grid sampler", "gather", y_of, size_of(x_of), size_of(y_of));
}

PRETEND_EXPORT int cudnnSpatialTfSamplerBackward(void *handle, const void *sampler, const void *alpha, const void *x_of, const void *x, const void *beta,
                                                 const void *dx_of, void *dx, const void *alpha_grid, const void *dy_of, const void *dy, const void *grid,
                                                 const void *beta_grid, void *dgrid)
{
    (void)sampler, (void)alpha, (void)beta, (void)alpha_grid, (void)beta_grid;
    pretend_uses((const void *const[]){x, dy, grid}, 3, (const void *const[]){dx, dgrid}, 2);
    return call_elementwise(handle, "cudnn grid sampler: gradients", "scatter", dy_of, 2 * size_of(x_of), size_of(dx_of));
}

/* Of a few numbers an image: what is computed is small, and the grid's size stands in a descriptor that cannot be read. */
PRETEND_EXPORT int cudnnSpatialTfGridGeneratorForward(void *handle, const void *sampler, const void *theta, void *grid)
{
    (void)handle, (void)sampler, (void)theta, (void)grid;
    pretend_say_once("cuDNN's affine grids (affine_grid) are not counted");
    return SUCCESS;
}

PRETEND_EXPORT int cudnnSpatialTfGridGeneratorBackward(void *handle, const void *sampler, const void *dgrid, void *dtheta)
{
    (void)handle, (void)sampler, (void)dgrid, (void)dtheta;
    pretend_say_once("cuDNN's affine grids (affine_grid) are not counted");
    return SUCCESS;
}

/* As large as the probabilities in two directions of time: assumed. */
static int ctc_workspace(const void *probabilities, size_t *ret)
{
    PretendTensor tensor;
    *ret = tensor_of(probabilities, &tensor) ? 2 * (size_t)pretend_dnn_bytes(&tensor) : 0;
    return SUCCESS;
}

PRETEND_EXPORT int cudnnGetCTCLossWorkspaceSize(void *handle, const void *probabilities, const void *gradients, const int *labels, const int *label_lengths,
                                                const int *lengths, int algorithm, const void *loss, size_t *ret)
{
    (void)handle, (void)gradients, (void)labels, (void)label_lengths, (void)lengths, (void)algorithm, (void)loss;
    return ctc_workspace(probabilities, ret);
}

PRETEND_EXPORT int cudnnGetCTCLossWorkspaceSize_v8(void *handle, int algorithm, const void *loss, const void *probabilities, const void *gradients, size_t *ret)
{
    (void)handle, (void)algorithm, (void)loss, (void)gradients;
    return ctc_workspace(probabilities, ret);
}

PRETEND_EXPORT int cudnnCTCLoss(void *handle, const void *probabilities_of, const void *probabilities, const int *labels, const int *label_lengths,
                                const int *lengths, void *costs, const void *gradients_of, void *gradients, int algorithm, const void *loss, void *workspace,
                                size_t bytes)
{
    (void)labels, (void)label_lengths, (void)lengths, (void)algorithm, (void)loss, (void)workspace, (void)bytes;
    pretend_uses(&probabilities, 1, (const void *const[]){costs, gradients}, 2);
    return call_elementwise(handle, "cudnn CTC loss", "reduce", probabilities_of, size_of(probabilities_of), size_of(gradients_of));
}

PRETEND_EXPORT int cudnnCTCLoss_v8(void *handle, int algorithm, const void *loss, const void *probabilities_of, const void *probabilities, const int *labels,
                                   const int *label_lengths, const int *lengths, void *costs, const void *gradients_of, void *gradients, size_t bytes,
                                   void *workspace)
{
    (void)algorithm, (void)loss, (void)bytes, (void)workspace;
    pretend_uses((const void *const[]){probabilities, labels, label_lengths, lengths}, 4, (const void *const[]){costs, gradients}, 2);
    return call_elementwise(handle, "cudnn CTC loss", "reduce", probabilities_of, size_of(probabilities_of), size_of(gradients_of));
}
