/* What the files of cuDNN share: tensors, and the launches that are written of them. */
#pragma once
#include "pretend.h"

/* cudnnStatus_t. */
enum { SUCCESS = 0, BAD_PARAM = 2000, NO_MEMORY = 4003 };
/* cudnnBackendDescriptorType_t: of convolutions. */
enum { CONVOLUTION_FORWARD = 10, CONVOLUTION_FILTER = 11, CONVOLUTION_DATA = 12 };

#define PRETEND_DNN_DIMENSIONS 8

typedef struct {
    int rank;
    int64_t sizes[PRETEND_DNN_DIMENSIONS], strides[PRETEND_DNN_DIMENSIONS];
    int64_t type;   /* cudnnDataType_t */
    int64_t id;     /* of a graph's */
    bool in_memory; /* neither inside the kernel nor a number that is handed over */
} PretendTensor;

/* Streams of the library's own, which the groups of a convolution take by turns, and their events; the last of these is of the stream that it was called on. */
#define PRETEND_DNN_STREAMS 8

typedef struct {
    void *stream;
    void *own[PRETEND_DNN_STREAMS], *events[PRETEND_DNN_STREAMS + 1];
} PretendDnnHandle;

/* What a plan's knobs tell of its kernel; 0: nothing. */
typedef struct {
    unsigned m, n, k, stages;
    unsigned split; /* parts of k */
} PretendDnnTile;

/* What a launch is written for. */
typedef struct {
    void *stream;
    uint64_t workspace;     /* of the plan */
    bool tensor_cores;      /* its engine uses them, on f32 by rounding to tf32 */
    uint64_t read, written; /* bytes that the next launch moves */
    PretendDnnHandle *handle;
    PretendDnnTile tile;
} PretendDnnCall;

/* Bits of an element of a cudnnDataType_t, and its name, as traces have it. */
unsigned pretend_dnn_bits(int64_t type);
const char *pretend_dnn_type(int64_t type);
/* Elements that differ: dimensions of stride 0 count once. */
uint64_t pretend_dnn_elements(const PretendTensor *tensor);
uint64_t pretend_dnn_bytes(const PretendTensor *tensor);
/* Elements of the copies of input, filters and output that kernels of tensor cores need, and their bytes in all. @fill: with channels filled up, so that what
 * lies well, too, is copied. */
uint64_t pretend_dnn_copied_bytes(const PretendTensor *x, const PretendTensor *w, const PretendTensor *y, bool fill, uint64_t ret_elements[3]);

/* Says that the library is asked for a convolution or a batch norm, which takes it as much of the host as several of PyTorch's operators, beside its launches.
 */
void pretend_dnn_asked(void);
/* Write a launch, with what @call has read and written so far. */
void pretend_dnn_launch(PretendDnnCall *call, const char *name, const char *launch, uint64_t operations, const char *type);
/* Bytes that cuDNN asks for where it cuts groups out, as many at a time as it has streams. */
uint64_t pretend_dnn_cut_bytes(const PretendTensor *x, const PretendTensor *w, const PretendTensor *y);
/* @kind: CONVOLUTION_FORWARD and so on; with the copies that tensor cores need, where the workspace has room for them. */
void pretend_dnn_convolution(PretendDnnCall *call, int kind, const char *name, const PretendTensor *x, const PretendTensor *w, const PretendTensor *y);
void pretend_dnn_norm(PretendDnnCall *call, const char *name, const PretendTensor *x, bool backward);
