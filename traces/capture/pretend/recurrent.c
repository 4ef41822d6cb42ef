/* cuDNN's recurrent networks: the layout of their weights, and their products step by step. */
#include "dnn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODE_LSTM = 2, MODE_GRU = 3 };
enum { PERSISTENT = 1 }; /* CUDNN_RNN_ALGO_PERSIST_STATIC, which its caller asks for */
enum { NO_BIAS = 0, DOUBLE_BIAS = 2 };

typedef struct {
    int algorithm, mode, bias, directions, type, math;
    uint64_t input, hidden, projection, layers;
} Network;

typedef struct {
    int type;
    uint64_t steps, batch, vector;
    uint64_t cells;   /* steps of all sequences together */
    int32_t *lengths; /* of each, steps; NULL: all are as long */
} Data;

/* Sequences that are longer than @step. */
static uint64_t batch_at(const Data *data, uint64_t step)
{
    uint64_t n = 0;
    for (uint64_t i = 0; data->lengths && i < data->batch; i++)
        n += data->lengths[i] > 0 && (uint64_t)data->lengths[i] > step;
    return data->lengths ? n : data->batch;
}

static unsigned bytes_of(const Network *network)
{
    return pretend_dnn_bits(network->type) / 8;
}

static const char *type_name(const Network *network)
{
    /* CUDNN_TENSOR_OP_MATH and _ALLOW_CONVERSION let f32 be tf32; CUDNN_FMA_MATH (3) does not. */
    bool tf32 = network->math != 3 && pretend_device()->major >= 8;
    return network->type == 0 && tf32 ? "tf32" : pretend_dnn_type(network->type);
}

static unsigned gates_of(const Network *network)
{
    return network->mode == MODE_LSTM ? 4 : network->mode == MODE_GRU ? 3 : 1;
}

/* What a step hands on: the projection, where there is one. */
static uint64_t output_of(const Network *network)
{
    return network->projection > 0 && network->projection < network->hidden ? network->projection : network->hidden;
}

static bool projects(const Network *network)
{
    return output_of(network) < network->hidden;
}

static uint64_t input_of(const Network *network, uint64_t layer)
{
    return layer == 0 ? network->input : output_of(network) * (uint64_t)network->directions;
}

/* Elements of the matrices of a layer in one direction. */
static uint64_t matrices_of(const Network *network, uint64_t layer)
{
    return gates_of(network) * network->hidden * (input_of(network, layer) + output_of(network)) +
           (projects(network) ? network->hidden * output_of(network) : 0);
}

static unsigned biases_of(const Network *network)
{
    return network->bias == NO_BIAS ? 0 : network->bias == DOUBLE_BIAS ? 2 : 1;
}

PRETEND_EXPORT int cudnnCreateRNNDescriptor(void **ret)
{
    *ret = calloc(1, sizeof(Network));
    return *ret ? SUCCESS : NO_MEMORY;
}

PRETEND_EXPORT int cudnnDestroyRNNDescriptor(void *network)
{
    free(network);
    return SUCCESS;
}

PRETEND_EXPORT int cudnnSetRNNDescriptor_v8(void *of, int algorithm, int mode, int bias, int direction, int input_mode, int type, int precision, int math,
                                            int32_t input, int32_t hidden, int32_t projection, int32_t layers, void *dropout, uint32_t flags)
{
    (void)input_mode, (void)precision, (void)dropout, (void)flags;
    if (!of || input < 1 || hidden < 1 || projection < 0 || layers < 1)
        return BAD_PARAM;
    *(Network *)of = (Network){.algorithm = algorithm,
                               .mode = mode,
                               .bias = bias,
                               .directions = direction == 1 ? 2 : 1,
                               .type = type,
                               .math = math,
                               .input = (uint64_t)input,
                               .hidden = (uint64_t)hidden,
                               .projection = (uint64_t)projection,
                               .layers = (uint64_t)layers};
    return SUCCESS;
}

PRETEND_EXPORT int cudnnCreateRNNDataDescriptor(void **ret)
{
    *ret = calloc(1, sizeof(Data));
    return *ret ? SUCCESS : NO_MEMORY;
}

PRETEND_EXPORT int cudnnDestroyRNNDataDescriptor(void *data)
{
    if (data)
        free(((Data *)data)->lengths);
    free(data);
    return SUCCESS;
}

PRETEND_EXPORT int cudnnSetRNNDataDescriptor(void *of, int type, int layout, int steps, int batch, int vector, const int *lengths, void *padding)
{
    (void)layout, (void)padding;
    Data *data = of;
    if (!data || steps < 1 || batch < 1 || vector < 1)
        return BAD_PARAM;
    free(data->lengths);
    *data = (Data){.type = type, .steps = (uint64_t)steps, .batch = (uint64_t)batch, .vector = (uint64_t)vector};
    data->lengths = lengths ? malloc((size_t)batch * sizeof *lengths) : NULL;
    if (data->lengths)
        memcpy(data->lengths, lengths, (size_t)batch * sizeof *lengths);
    for (uint64_t step = 0; step < data->steps; step++)
        data->cells += batch_at(data, step);
    return SUCCESS;
}

/* Dropout's random states: the library keeps one of 16 bytes for every thread that a multiprocessor holds. */
PRETEND_EXPORT int cudnnDropoutGetStatesSize(void *handle, size_t *ret)
{
    (void)handle;
    *ret = (size_t)pretend_device()->multiprocessors * 2048 * 16;
    return SUCCESS;
}

PRETEND_EXPORT int cudnnSetDropoutDescriptor(void *of, void *handle, float dropout, void *states, size_t bytes, unsigned long long seed)
{
    (void)of, (void)dropout, (void)seed;
    if (!states || bytes == 0)
        return SUCCESS;
    pretend_use(PRETEND_WRITES, states, bytes);
    pretend_library_kernel(((PretendDnnHandle *)handle)->stream, "cudnn dropout states", "class=fill operand_bytes=4", 0, bytes, 0, NULL);
    return SUCCESS;
}

PRETEND_EXPORT int cudnnRestoreDropoutDescriptor(void *of, void *handle, float dropout, void *states, size_t bytes, unsigned long long seed)
{
    (void)of, (void)handle, (void)dropout, (void)states, (void)bytes, (void)seed;
    return SUCCESS;
}

PRETEND_EXPORT int cudnnGetRNNWeightSpaceSize(void *handle, void *of, size_t *ret)
{
    (void)handle;
    const Network *network = of;
    uint64_t elements = 0;
    for (uint64_t layer = 0; layer < network->layers; layer++)
        elements += (uint64_t)network->directions * (matrices_of(network, layer) + biases_of(network) * gates_of(network) * network->hidden);
    *ret = elements * bytes_of(network);
    return SUCCESS;
}

static void describe(void *descriptor, int type, uint64_t rows, uint64_t columns)
{
    void *symbol = pretend_cudnn_symbol("cudnnSetTensorNdDescriptor");
    int (*set)(void *, int, int, const int *, const int *);
    memcpy(&set, &symbol, sizeof set);
    if (symbol && descriptor)
        set(descriptor, type, 3, (const int[]){1, (int)rows, (int)columns}, (const int[]){(int)(rows * columns), (int)columns, 1});
}

/* All matrices, layer by layer and direction by direction, gates of the input before gates of the hidden state; then all biases in that order. @gate counts
 * both; one behind them is the projection. */
PRETEND_EXPORT int cudnnGetRNNWeightParams(void *handle, void *of, int32_t pseudo_layer, size_t bytes, const void *weights, int32_t gate, void *matrix_of,
                                           void **ret_matrix, void *bias_of, void **ret_bias)
{
    (void)handle, (void)bytes;
    const Network *network = of;
    unsigned gates = gates_of(network);
    uint64_t directions = (uint64_t)network->directions, at = 0, all = 0, matrix_bytes = bytes_of(network);
    if (pseudo_layer < 0 || gate < 0 || (uint64_t)pseudo_layer >= network->layers * directions || (unsigned)gate > 2 * gates)
        return BAD_PARAM;
    for (uint64_t layer = 0; layer < network->layers; layer++) {
        for (uint64_t direction = 0; direction < directions; direction++) {
            if (layer * directions + direction < (uint64_t)pseudo_layer)
                at += matrices_of(network, layer);
            all += matrices_of(network, layer);
        }
    }
    uint64_t layer = (uint64_t)pseudo_layer / directions, input = input_of(network, layer), output = output_of(network), hidden = network->hidden,
             which = (uint64_t)gate;
    uint8_t *base = (uint8_t *)(uintptr_t)weights;
    void *unasked; /* PyTorch asks for one of the two */
    ret_matrix = ret_matrix ? ret_matrix : &unasked;
    ret_bias = ret_bias ? ret_bias : &unasked;
    *ret_matrix = *ret_bias = NULL;
    if (which == 2 * gates) {
        if (projects(network)) {
            at += gates * hidden * (input + output);
            describe(matrix_of, network->type, output, hidden);
            *ret_matrix = base + at * matrix_bytes;
        }
        return SUCCESS;
    }
    bool recurrent = which >= gates;
    at += recurrent ? gates * hidden * input + (which - gates) * hidden * output : which * hidden * input;
    describe(matrix_of, network->type, hidden, recurrent ? output : input);
    *ret_matrix = base + at * matrix_bytes;
    unsigned biases = biases_of(network);
    if (biases == 2 || (biases == 1 && !recurrent)) {
        uint64_t bias = all + ((uint64_t)pseudo_layer * biases * gates + which) * hidden;
        describe(bias_of, network->type, hidden, 1);
        *ret_bias = base + bias * matrix_bytes;
    }
    return SUCCESS;
}

/* Not known without the library and a GPU. Kept for the gradients: the gates and the state of every step and layer; while it runs: the gates of a layer for all
 * steps. */
PRETEND_EXPORT int cudnnGetRNNTempSpaceSizes(void *handle, void *of, int forward_mode, void *data, size_t *ret_workspace, size_t *ret_reserve)
{
    (void)handle;
    const Network *network = of;
    const Data *x = data;
    uint64_t cells = x->cells * network->hidden * (uint64_t)network->directions, bytes = bytes_of(network);
    if (ret_workspace)
        *ret_workspace = cells * gates_of(network) * bytes;
    if (ret_reserve)
        *ret_reserve = forward_mode == 1 ? network->layers * cells * (gates_of(network) + (network->mode == MODE_LSTM ? 2 : 1)) * bytes : 0;
    pretend_say_once("the workspaces of cuDNN's recurrent networks are assumed: the library tells them only on a GPU");
    return SUCCESS;
}

static void write_product(void *stream, const Network *network, const char *name, uint64_t m, uint64_t n, uint64_t k)
{
    char launch[160];
    unsigned bytes = bytes_of(network);
    snprintf(launch, sizeof launch, "product=1x%llux%llux%llu operand_bytes=%u class=%s", (unsigned long long)m, (unsigned long long)n, (unsigned long long)k,
             bytes, m == 1 || n == 1 ? "vector" : "product");
    pretend_library_kernel(stream, name, launch, (m * k + k * n) * bytes, m * n * bytes, 2 * m * n * k, type_name(network));
}

static void write_cells(void *stream, const Network *network, const char *name, uint64_t cells, bool backward)
{
    char launch[160];
    uint64_t bytes = cells * bytes_of(network);
    snprintf(launch, sizeof launch, "elements=%llu operand_bytes=%u class=elementwise%s", (unsigned long long)cells, bytes_of(network),
             backward ? " backward=1" : "");
    pretend_library_kernel(stream, name, launch, bytes * (gates_of(network) + 1u), bytes * (backward ? gates_of(network) : 2u), 0, NULL);
}

/* One kernel for all steps: a block keeps the weights of 16 of the hidden state, and each step waits for what the other blocks wrote in the one before. An LSTM
 * of 512, 64 sequences at once, on an H100: 128 steps in 789 us. */
#define PERSISTENT_STEP_TRIPS 12

static void write_persistent(void *stream, const Network *network, const Data *x, bool backward)
{
    char launch[200];
    uint64_t cells = x->cells * network->hidden, bytes = bytes_of(network), gates = gates_of(network),
             trips = x->steps * PERSISTENT_STEP_TRIPS < 60000 ? x->steps * PERSISTENT_STEP_TRIPS : 60000;
    snprintf(launch, sizeof launch, "grid=%llux1x1 block=256x1x1 elements=%llu operand_bytes=%u class=elementwise%s trips=%llu",
             (unsigned long long)((network->hidden + 15) / 16), (unsigned long long)cells, bytes_of(network), backward ? " backward=1" : "",
             (unsigned long long)trips);
    pretend_library_kernel(stream, backward ? "cudnn recurrent steps: gradients" : "cudnn recurrent steps", launch,
                           (cells * (gates + 1) + gates * network->hidden * output_of(network)) * bytes, cells * bytes * (backward ? gates : 2), 0, NULL);
}

/* Steps of one layer follow one another: [batch, hidden] x [hidden, gates], and the cell. */
static void write_steps(void *stream, const Network *network, const Data *x, bool backward)
{
    uint64_t gates = gates_of(network) * network->hidden, output = output_of(network);
    if (network->algorithm == PERSISTENT && !projects(network)) {
        write_persistent(stream, network, x, backward);
        return;
    }
    for (uint64_t step = 0; step < x->steps; step++) {
        uint64_t batch = batch_at(x, step);
        if (batch == 0)
            continue;
        if (!backward)
            write_product(stream, network, "cudnn recurrent step", batch, gates, output);
        write_cells(stream, network, backward ? "cudnn recurrent cell: gradients" : "cudnn recurrent cell", batch * network->hidden, backward);
        if (backward)
            write_product(stream, network, "cudnn recurrent step: gradients", batch, output, gates);
        if (projects(network))
            write_product(stream, network, "cudnn recurrent projection", batch, backward ? network->hidden : output, backward ? output : network->hidden);
    }
}

PRETEND_EXPORT int cudnnRNNForward(void *handle, void *of, int forward_mode, const int32_t *lengths, void *x_of, const void *x, void *y_of, void *y, void *h_of,
                                   const void *hx, void *hy, void *c_of, const void *cx, void *cy, size_t weight_bytes, const void *weights,
                                   size_t workspace_bytes, void *workspace, size_t reserve_bytes, void *reserve)
{
    (void)forward_mode, (void)lengths, (void)y_of, (void)h_of, (void)c_of, (void)weight_bytes, (void)workspace_bytes, (void)reserve_bytes;
    pretend_uses((const void *const[]){x, hx, cx, weights}, 4, (const void *const[]){y, hy, cy, workspace, reserve}, 5);
    const Network *network = of;
    const Data *data = x_of;
    void *stream = ((PretendDnnHandle *)handle)->stream;
    for (uint64_t layer = 0; layer < network->layers; layer++) {
        for (int direction = 0; direction < network->directions; direction++) {
            write_product(stream, network, "cudnn recurrent input", data->cells, gates_of(network) * network->hidden, input_of(network, layer));
            write_steps(stream, network, data, false);
        }
    }
    return SUCCESS;
}

PRETEND_EXPORT int cudnnRNNBackwardData_v8(void *handle, void *of, const int32_t *lengths, void *y_of, const void *y, const void *dy, void *x_of, void *dx,
                                           void *h_of, const void *hx, const void *dhy, void *dhx, void *c_of, const void *cx, const void *dcy, void *dcx,
                                           size_t weight_bytes, const void *weights, size_t workspace_bytes, void *workspace, size_t reserve_bytes,
                                           void *reserve)
{
    (void)lengths, (void)y_of, (void)h_of, (void)c_of, (void)weight_bytes, (void)workspace_bytes, (void)reserve_bytes;
    pretend_uses((const void *const[]){y, dy, hx, dhy, cx, dcy, weights, reserve}, 8, (const void *const[]){dx, dhx, dcx, workspace, reserve}, 5);
    const Network *network = of;
    const Data *data = x_of;
    void *stream = ((PretendDnnHandle *)handle)->stream;
    for (uint64_t layer = network->layers; layer-- > 0;) {
        for (int direction = 0; direction < network->directions; direction++) {
            write_steps(stream, network, data, true);
            write_product(stream, network, "cudnn recurrent input: gradients", data->cells, input_of(network, layer), gates_of(network) * network->hidden);
        }
    }
    return SUCCESS;
}

PRETEND_EXPORT int cudnnRNNBackwardWeights_v8(void *handle, void *of, int add, const int32_t *lengths, void *x_of, const void *x, void *h_of, const void *hx,
                                              void *y_of, const void *y, size_t weight_bytes, void *weights, size_t workspace_bytes, void *workspace,
                                              size_t reserve_bytes, void *reserve)
{
    (void)add, (void)lengths, (void)h_of, (void)y_of, (void)weight_bytes, (void)workspace_bytes, (void)reserve_bytes;
    pretend_uses((const void *const[]){x, hx, y, reserve, workspace}, 5, NULL, 0);
    pretend_use(PRETEND_UPDATES, weights, 0);
    const Network *network = of;
    const Data *data = x_of;
    uint64_t gates = gates_of(network) * network->hidden, rows = data->cells, output = output_of(network);
    void *stream = ((PretendDnnHandle *)handle)->stream;
    for (uint64_t layer = 0; layer < network->layers; layer++) {
        for (int direction = 0; direction < network->directions; direction++) {
            write_product(stream, network, "cudnn recurrent input: gradient of the weights", gates, input_of(network, layer), rows);
            write_product(stream, network, "cudnn recurrent step: gradient of the weights", gates, output, rows);
            if (projects(network))
                write_product(stream, network, "cudnn recurrent projection: gradient of the weights", output, network->hidden, rows);
        }
    }
    return SUCCESS;
}
