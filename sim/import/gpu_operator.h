/** @file gpu_operator.h
 * What an operator of PyTorch, vLLM, SGLang... moves and computes, from its name and the shapes of its inputs alone. Which of its kernels does how much of that
 * is gpu_work.h.
 */
#pragma once
#include "sim/trace/trace.h"

enum { ECH_GPU_MAX_RANK = 8, ECH_GPU_MAX_INTEGERS = 4 };

/** Operations of attention's gradient for each of attention itself: five products to two, of which two make scores and their gradients again. */
#define ECH_GPU_GRADIENT_PRODUCTS 2.5

/** One input of an operator as a profiler records it. */
typedef struct {
    uint64_t numel;   /**< Of all tensors of a list. */
    uint64_t largest; /**< Of a list: elements of its largest tensor; 0: not known. */
    int64_t dims[ECH_GPU_MAX_RANK], strides[ECH_GPU_MAX_RANK];
    int64_t integers[ECH_GPU_MAX_INTEGERS];     /**< A concrete "[14, 14]" or "1". */
    uint8_t rank, n_strides, n_integers, dtype; /**< EchDtype */
    bool list, known, truth, fraction; /**< list: of tensors; known: it has dimensions; truth: a concrete "True"; fraction: a number between 0 and 1. */
    bool typed, written, updated;      /**< Its type is told; of what a generated kernel is called with: so is that it writes it; and reads it as well. */
} EchGpuInput;

typedef enum {
    ECH_GPU_OP_NONE,
    ECH_GPU_OP_OTHER,
    ECH_GPU_OP_PRODUCT,
    ECH_GPU_OP_ROWS,
    ECH_GPU_OP_GATHER,
    ECH_GPU_OP_ATTENTION,
    ECH_GPU_OP_REDUCE
} EchGpuOperatorKind;

/** The work of one operator; small, for there are many. */
typedef struct {
    EchBytes read, written;
    uint64_t elements;       /**< Of the result, or of the input of a reduction. */
    uint64_t batch, m, n, k; /**< Products. ROWS: m rows of n. ATTENTION: k operations on n keys, of prompts m rows in batch sequences of a head where lengths
                                are told. GATHER: n bytes of indices. */
    uint64_t groups;         /**< PRODUCT: of a convolution's channels, each a product of its own, all together in n; 0: no convolution. */
    uint64_t channels;       /**< PRODUCT: of a convolution, those of a group that it reads; else 0. */
    uint64_t taps;           /**< PRODUCT: positions of a convolution's filter, forward; else 0. */
    uint64_t steps;          /**< Multiply-adds for one of the result, where threads may do them one by one (EchGpuDirect); else 0. */
    uint64_t results;        /**< How many results have so many; of a gradient, of the array that it begins with. 0: as the grid says. */
    uint64_t planes_filled;  /**< Of such a gradient, with its channels in whole warps and its planes in whole squares of 4 x 4; else 0. */
    uint64_t images;         /**< Of such a gradient; else 0. */
    uint64_t listed;         /**< Elements of lists of tensors of unknown type; then read and written are not known. */
    uint64_t largest;        /**< Elements of the largest tensor of lists; 0: not known. */
    uint8_t kind;            /**< EchGpuOperatorKind */
    uint8_t dtype;           /**< EchDtype of the main operand. */
    uint8_t products;        /**< PRODUCT: how many such products: 2 for a convolution's gradients, else 1. */
    uint8_t weight_bits;     /**< PRODUCT: of an element of the second operand, scales included, where it is packed; else 0. */
    uint64_t planes;         /**< Of images, where the threads of a grid's first two dimensions have a place of all of them each; else 0. */
    uint16_t trips;          /**< Accesses of a thread that wait for one another, where shapes tell it; else 0. */
    uint8_t axes;            /**< Dimensions of its arrays with those as one that lie together in all of them; 0: not known. */
    uint16_t spread;         /**< Of such a gradient, elements of the convolution's input for each of its result; else 0. */
    bool scattered;
    bool by_address; /**< PRODUCT: its kernel finds operands and results by addresses, which lie in the arrays that it is given. */
    bool dropout;    /**< ATTENTION: of its scores. */
    bool causal;     /**< ATTENTION: known to be, and k halved. */
    bool paged;      /**< ATTENTION: over pages, so that shapes do not say how many keys there are. */
    uint16_t head;   /**< ATTENTION: a head's dimension; 0: not known. */
} EchGpuOperator;

/** What a kernel does with one array: so many bytes of it each. */
typedef struct {
    EchBytes bytes;
    bool reads, writes;
} EchGpuUse;

/** Of the sequences of one call of attention; 0 where not known. */
typedef struct {
    uint64_t sequences, queries, keys; /**< queries, keys: of all together. */
    uint64_t longest;                  /**< Keys. */
    uint64_t scores;                   /**< Of all, without those that a causal mask leaves out. */
} EchGpuLengths;

/** The element type that PyTorch calls "float", "c10::BFloat16"...; ECH_DTYPE_NONE where it is none. */
EchDtype ech_gpu_torch_dtype(const char *text, size_t n);
/** Work of the PyTorch operator @name ("aten::addmm"). kind is ECH_GPU_OP_NONE where no input has a shape. */
void ech_gpu_operator_of(const char *name, const EchGpuInput *inputs, size_t n, EchGpuOperator *ret);
/** What a kernel does with each array that it is called with, of a range that tells which it writes: @uses (EchGpuUse) is appended to, by nothing where none is
 * told. */
void ech_gpu_generated_uses(const char *name, const EchGpuInput *inputs, size_t n, GArray *uses);
/** Work of attention over sequences of @lengths, or of its gradient, as @name says: @inputs are [tokens, heads, depth] (a gradient's own before it), and keys
 * and values of as many dimensions or [pages, tokens, heads, depth]; FlexAttention's as its mask leaves scores. Leaves @ret as it is where they are not. */
void ech_gpu_attention_lengths(const char *name, const EchGpuInput *inputs, size_t n, const EchGpuLengths *lengths, EchGpuOperator *ret);
