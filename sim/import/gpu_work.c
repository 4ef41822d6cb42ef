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

static void attention(const EchGpuInput *inputs, size_t n, bool backward, EchGpuOperator *ret)
{
    /* q, k, v [batch, heads, length, depth]; a gradient first where it is one. */
    size_t at = backward ? 1 : 0;
    if (n < at + 3 || inputs[at].rank != 4 || inputs[at + 1].rank != 4 || !is_tensor(&inputs[at]))
        return;
    const EchGpuInput *q = &inputs[at], *keys = &inputs[at + 1];
    uint64_t length = dim(keys, 1);
    double operations = 4.0 * (double)q->numel * (double)length * (backward ? 2.5 : 1);
    for (size_t i = at + 3; i < n; i++)
        if (inputs[i].truth) { /* causal: half; dropout's and others' flags are numbers */
            operations /= 2;
            break;
        }
    ret->kind = ECH_GPU_OP_ATTENTION;
    ret->k = operations < 9e18 ? (uint64_t)operations : 0;
    ret->dtype = q->dtype;
    ret->elements = q->numel;
    ret->written = bytes_of(q->numel, q->dtype);
}

void ech_gpu_operator_of(const char *name, const EchGpuInput *inputs, size_t n, EchGpuOperator *ret)
{
    *ret = (EchGpuOperator){0};
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
    } else if (NAMED(op, "index_select", "embedding", "gather", "embedding_dense_backward", "index") && n >= 2) {
        /* Only the rows picked are read. */
        bool rows = strcmp(op, "index_select") == 0 && n >= 3 && inputs[0].rank > 0;
        const EchGpuInput *table = &inputs[0], *indices = &inputs[rows ? 2 : 1];
        uint64_t row = rows ? table->numel / MAX((uint64_t)MAX(table->dims[0], 1), 1) : strcmp(op, "embedding") == 0 ? dim(table, 0) : 1;
        ret->kind = ECH_GPU_OP_GATHER;
        ret->dtype = table->dtype;
        ret->elements = strcmp(op, "embedding_dense_backward") == 0 ? table->numel : ech_bytes_mul(MAX(indices->numel, 1), MAX(row, 1));
        ret->written = bytes_of(ret->elements, table->dtype);
        ret->read = ech_bytes_add(ret->written, bytes_of(indices->numel, indices->dtype));
    } else if (strstr(op, "scaled_dot_product") && (strstr(op, "flash") || strstr(op, "efficient") || strstr(op, "cudnn"))) {
        attention(inputs, n, strstr(op, "backward") != NULL, ret);
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
    case ECH_GPU_OP_OTHER: return name->kind != ECH_GPU_FILL || whole->read == 0;
    case ECH_GPU_OP_NONE: break;
    }
    return false;
}

static uint64_t scaled(uint64_t amount, double share)
{
    return share >= 1 || amount > UINT64_C(1) << 62 ? amount : (uint64_t)llround((double)amount * share);
}

/* What the grid covers. */
static bool grid_work(const EchGpuName *name, EchGpuLaunch *launch, EchItemWork *ret)
{
    uint64_t elements = ech_gpu_grid_elements(name, launch);
    unsigned arrays = name->arrays;
    if (name->kind == ECH_GPU_RELAYOUT) {
        elements = ech_bytes_mul(ech_bytes_mul(ech_gpu_blocks(launch), ech_gpu_threads(launch)), name->vector);
        arrays = 2;
    } else if (name->kind != ECH_GPU_ELEMENTWISE && name->kind != ECH_GPU_STRIDED && name->kind != ECH_GPU_FILL) {
        return false;
    }
    if (elements == 0 || arrays == 0)
        return false;
    EchBytes each = MAX(name->element_bytes, 1);
    launch->elements = elements;
    launch->operand_bytes = (uint32_t)each;
    *ret = (EchItemWork){.read = ech_bytes_mul(elements, each * (arrays - 1)), .write = ech_bytes_mul(elements, each), .origin = ECH_INFERRED};
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
    if (!(share > 0))
        return grid_work(name, launch, ret);
    if (whole->listed > 0) {
        /* cat writes what it reads; element-wise operators on lists write their first; an optimizer three of its four (not the gradients). */
        uint64_t each_element = MAX(name->element_bytes, 1),
                 written = whole->listed > whole->elements && name->kind == ECH_GPU_OPTIMIZER ? whole->listed / 4 * 3 : whole->elements;
        launch->elements = scaled(whole->elements, share);
        launch->operand_bytes = (uint32_t)each_element;
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
        ret->ops = ech_bytes_mul(ech_bytes_mul(2, ech_bytes_mul(launch->batch, launch->m)), ech_bytes_mul(launch->n, launch->k));
        ret->unit = ECH_WORK_MATRIX;
    } else if (whole->kind == ECH_GPU_OP_ATTENTION) {
        ret->ops = scaled(whole->k, share);
        ret->unit = ECH_WORK_MATRIX;
    } else if (whole->kind == ECH_GPU_OP_ROWS && whole->m > 0) {
        ret->read = whole->read; /* every one of its passes reads all */
        ret->write = whole->written;
        ret->ops = whole->elements;
        launch->rows = whole->m;
        launch->columns = whole->n;
    } else {
        launch->elements = scaled(whole->elements, share);
        /* The grid knows better where the shapes are not those of the kernel (an optional input, a part of an whole). */
        uint64_t grid = ech_gpu_grid_elements(name, launch);
        if (whole->kind == ECH_GPU_OP_OTHER && grid > 0 && (launch->elements > grid || ech_bytes_mul(launch->elements, 4) < grid) &&
            grid_work(name, launch, ret)) {
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
