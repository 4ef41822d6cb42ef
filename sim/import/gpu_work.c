#include "sim/import/gpu_work.h"

#include <math.h>
#include <string.h>

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
    double blocks = launch ? (double)ech_gpu_blocks(launch) : 1;
    call->n_main++;
    call->blocks += blocks;
    call->filter_blocks += name->filters ? blocks : 0;
    return true;
}

double ech_gpu_call_share(const EchGpuCall *call, const EchGpuName *name, const EchGpuLaunch *launch)
{
    double share = 0;
    if (call->n_main == 0) /* none looks like what the operator does: all of them do it, but that a product is none of those whose grid tells */
        share = call->n_kernels > 0 && (call->whole.kind != ECH_GPU_OP_PRODUCT || name->block_elements == 0) ? 1.0 / call->n_kernels : 0;
    else if (call->whole.kind == ECH_GPU_OP_ROWS && does_most(call, name, launch)) /* each goes over all */
        share = 1;
    else if (does_most(call, name, launch) && call->filter_blocks > 0) /* both gradients do as much */
        share = (launch ? (double)ech_gpu_blocks(launch) : 1) / (name->filters ? call->filter_blocks : call->blocks - call->filter_blocks);
    else if (does_most(call, name, launch))
        share = call->blocks > 0 ? (launch ? (double)ech_gpu_blocks(launch) : 1) / call->blocks * MAX(call->whole.products, 1) : 1.0 / call->n_main;
    return MIN(share, 1);
}

static uint64_t scaled(uint64_t amount, double share)
{
    return share >= 1 || amount > UINT64_C(1) << 62 ? amount : (uint64_t)llround((double)amount * share);
}

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
           operations = 4 * length * length * name->head * heads * (name->causal ? 0.5 : 1) * (name->backward ? ECH_GPU_GRADIENT_PRODUCTS : 1);
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
        launch->elements = ech_bytes_mul(ech_gpu_blocks(launch), ECH_GPU_LIST_CHUNK);
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

/* A kernel that does none of what the operator is called for. */
static bool helper_work(const EchGpuOperator *whole, const EchGpuName *name, EchGpuLaunch *launch, EchItemWork *ret)
{
    EchBytes queries = ech_bytes_mul(whole->elements, ech_dtype_bits((EchDtype)whole->dtype) / 8);
    if (whole->kind == ECH_GPU_OP_ATTENTION && name->kind == ECH_GPU_REDUCE && whole->written > queries) {
        /* Gradients of keys, or of values, that several heads share: as many as queries, added up. */
        launch->elements = whole->elements;
        launch->operand_bytes = ech_dtype_bits((EchDtype)whole->dtype) / 8;
        set_traffic(ret, queries, (whole->written - queries) / 2, ECH_INFERRED);
        return true;
    }
    if (whole->kind != ECH_GPU_OP_ATTENTION || name->written_bytes == 0)
        return grid_work(name, launch, ret);
    /* Before and after a gradient: once over the queries. */
    launch->elements = whole->elements;
    launch->operand_bytes = ech_dtype_bits((EchDtype)whole->dtype) / 8;
    set_traffic(ret, ech_bytes_mul(whole->elements, name->read_bytes), ech_bytes_mul(whole->elements, name->written_bytes), ECH_INFERRED);
    return true;
}

/* Over lists of tensors: cat writes what it reads; element-wise operators write their first; an optimizer three of its four (not the gradients). */
static bool list_work(const EchGpuOperator *whole, const EchGpuName *name, double share, EchGpuLaunch *launch, EchItemWork *ret)
{
    uint64_t each = MAX(name->element_bytes, 1);
    launch->operand_bytes = (uint32_t)each;
    if (name->lists > 0) {
        launch->elements = scaled(whole->listed / name->lists, share);
        set_traffic(ret, ech_bytes_mul(launch->elements, each * name->lists_read), ech_bytes_mul(launch->elements, each * name->lists_written), ECH_INFERRED);
        return ret->read > 0 || ret->write > 0;
    }
    uint64_t written = whole->listed > whole->elements && name->kind == ECH_GPU_OPTIMIZER ? whole->listed / 4 * 3 : whole->elements;
    launch->elements = scaled(whole->elements, share);
    if (name->kind == ECH_GPU_CONCAT && whole->largest > 0) {
        launch->rows = whole->largest;
        launch->columns = 1;
    }
    set_traffic(ret, scaled(ech_bytes_mul(whole->listed, each), share), scaled(ech_bytes_mul(MIN(written, whole->listed), each), share), ECH_INFERRED);
    return ret->read > 0;
}

static void product_work(const EchGpuOperator *whole, const EchGpuName *name, double share, EchGpuLaunch *launch, EchItemWork *ret)
{
    launch->batch = whole->batch;
    launch->m = MAX(scaled(whole->m, share), 1);
    launch->n = whole->n;
    launch->k = whole->k;
    if (name->group && whole->groups > 1) {
        launch->m = whole->m;
        launch->n = MAX(whole->n / whole->groups, 1);
        ret->read /= whole->groups;
        ret->write /= whole->groups;
    }
    if (name->filters && whole->groups > 0) {
        launch->batch = name->group ? 1 : whole->groups;
        launch->m = MAX(whole->n / whole->groups, 1);
        /* Channels in whole accesses of 16 bytes. */
        launch->n = ech_bytes_mul(ech_round_up(whole->channels, MAX(128 / MAX(ech_dtype_bits((EchDtype)whole->dtype), 1u), 1u)), whole->k / whole->channels);
        launch->k = MAX(name->group ? whole->m : scaled(whole->m, share), 1);
    }
    launch->taps = whole->taps;
    launch->weight_bits = whole->weight_bits;
    ret->ops = ech_bytes_mul(ech_bytes_mul(2, ech_bytes_mul(launch->batch, launch->m)), ech_bytes_mul(launch->n, launch->k));
    ret->unit = ECH_WORK_MATRIX;
}

static void attention_work(const EchGpuOperator *whole, const EchGpuName *name, double share, EchGpuLaunch *launch, EchItemWork *ret)
{
    ret->ops = scaled(whole->k, share);
    launch->rows = whole->m;
    launch->batch = whole->batch;
    if (name->library && whole->m == 0 && whole->batch == 0 && whole->head > 0 && whole->n > 0) { /* rows of all heads, keys of each */
        launch->rows = whole->elements / whole->head;
        launch->columns = whole->n;
        launch->head = whole->head; /* nor does its name tell its mask */
        launch->causal = whole->causal;
    }
    launch->dropout = name->library && whole->dropout;
    if (name->causal) /* half of it, but the blocks on the diagonal are whole */
        ret->ops = scaled(ret->ops, (whole->causal ? 1 : 0.5) * (1 + MIN((double)name->key_rows / (double)MAX(whole->n, 1), 1)));
    if (name->head == 0 && (name->query_rows == 0 || name->efficient)) { /* a name that does not tell its heads does not tell its mask either */
        launch->head = whole->head;
        launch->causal = whole->causal;
    }
    ret->unit = ECH_WORK_MATRIX;
}

static void rows_work(const EchGpuOperator *whole, const EchGpuName *name, EchGpuLaunch *launch, EchItemWork *ret)
{
    ret->read = whole->read; /* every one of its passes reads all */
    ret->write = name->sums_rows ? ech_bytes_mul(MAX(whole->n, 1), ech_dtype_bits((EchDtype)whole->dtype)) / 8 : whole->written;
    ret->ops = whole->elements;
    launch->rows = whole->m;
    launch->columns = whole->n;
    launch->elements = whole->m > 0 ? 0 : whole->elements;
    uint64_t blocks = ech_gpu_blocks(launch);
    if (launch->rows == 0 && name->chain > 0 && blocks > 0 && blocks <= whole->elements) { /* a block has a channel of all images */
        launch->rows = blocks;
        launch->columns = whole->elements / blocks;
    }
}

static void gather_work(const EchGpuOperator *whole, const EchGpuName *name, EchGpuLaunch *launch, EchItemWork *ret)
{
    /* Threads of 16 bytes cover the rows, whatever their type; the index of a row is next to nothing. */
    uint64_t covered = name->whole_rows ? ech_bytes_mul(ech_bytes_mul(ech_gpu_blocks(launch), ech_gpu_threads(launch)), THREAD_BYTES) : 0;
    if (covered > 0) {
        ret->read = ret->write = covered;
        launch->operand_bytes = name->element_bytes;
        launch->elements = covered / MAX(name->element_bytes, 1);
    }
    /* A mask among the indices picks fewer than it has elements, or fewer than its shape times the rest: the grid knows how many. */
    uint64_t picked = ech_gpu_grid_elements(name, launch);
    if (picked > 0 && launch->elements > picked) {
        launch->elements = ret->ops = picked;
        ret->write = ech_bytes_mul(picked, ech_dtype_bits((EchDtype)whole->dtype) / 8);
        ret->read = ech_bytes_add(ret->write, MIN(whole->n, ech_bytes_mul(picked, 8)));
    }
}

static void element_work(const EchGpuOperator *whole, const EchGpuName *name, EchGpuLaunch *launch, EchItemWork *ret)
{
    if (name->written_bytes > 0) {
        ret->read = ech_bytes_mul(launch->elements, name->read_bytes);
        ret->write = ech_bytes_mul(launch->elements, name->written_bytes);
    }
    /* The grid knows better where the shapes are not those of the kernel (an optional input, a part of a whole). */
    uint64_t grid = fits_grid(name, launch) ? 0 : ech_gpu_grid_elements(name, launch);
    bool other = grid > 0 && (launch->elements > grid || ech_bytes_mul(launch->elements, 4) < grid);
    if (other && grid_work(name, launch, ret) && name->written_bytes == 0) {
        EchBytes each = ech_dtype_bits((EchDtype)whole->dtype) / 8;
        launch->operand_bytes = (uint32_t)each;
        ret->read = ech_bytes_mul(launch->elements, each * (MAX(name->arrays, 1u) - 1));
        ret->write = ech_bytes_mul(launch->elements, each);
    }
}

/* Every place of all planes, of which the first two dimensions of the grid cover one. */
static void planes_work(const EchGpuOperator *whole, EchGpuLaunch *launch, EchItemWork *ret)
{
    EchBytes each = ech_dtype_bits((EchDtype)whole->dtype) / 8;
    launch->elements = ret->ops = ech_bytes_mul(
        whole->planes, ech_bytes_mul((uint64_t)launch->grid[0] * launch->grid[1], (uint64_t)MAX(launch->block[0], 1u) * MAX(launch->block[1], 1u)));
    ret->write = ech_bytes_mul(launch->elements, each);
}

/* Each pass of a sort goes over all, and moves more than the operator has: over its elements, if the launch may be one of so many on some GPU; else they are
 * sorted in parts, or others are. */
static bool sort_work(const EchGpuOperator *whole, const EchGpuName *name, EchGpuLaunch *launch, EchItemWork *ret)
{
    if (!grid_work(name, launch, ret))
        return false;
    double covered = (double)launch->elements;
    if (name->read_bytes > 0 && (double)whole->elements > 0.55 * covered && (double)whole->elements < 1.3 * covered) {
        launch->elements = whole->elements;
        set_traffic(ret, ech_bytes_mul(whole->elements, name->read_bytes), ech_bytes_mul(whole->elements, name->written_bytes), ECH_INFERRED);
    }
    return true;
}

/* Issued lane slots of a thread that does all multiply-adds for one result by itself: for the result and for each of them (two loads, checks of the edges;
 * whole numbers, for which an SM has half as many lanes as it issues to). Convolutions of 3x3 to 31x31 over 32x32 points on an RTX 2080 Ti (RepLKNet,
 * arXiv:2203.06717, appendix) lie on such a line. */
#define RESULT_INSTRUCTIONS 80
#define STEP_INSTRUCTIONS 16.4
/* Where a thread has several channels that lie together (cuDNN's conv2d_c1_k1_nhwc), checks are theirs together and weights stay in registers. From 3 x 3 and
 * 5 x 5 of EfficientNet-B0 on an H200 (traces/gpu_h200/models). Held out: f32 on an RTX PRO 6000 (tests/unit/test_gpu_kernel.c). */
#define CHANNEL_RESULT_INSTRUCTIONS 14
#define CHANNEL_STEP_INSTRUCTIONS 4.9
/* Where it is built for one size of filter (conv2d_c1_k1_nhwc_specialized), a thread has 3 x 8 results of two channels, 2 x 8 of a stride of 2, as its grids
 * say, and keeps weights and windows in registers (80, 160 and 255 for 3 x 3, 5 x 5 and 7 x 7), so that few blocks find room; they fetch at once and compute
 * then, each wave as long: trips to memory, and of one for a weight. From stride 1, 3 x 3 and 5 x 5 of EfficientNet-B0 on an H200. Held out: its strides of 2
 * (-16 to -3 %), 7 x 7 of ConvNeXt-T there, f16 on an H200 and an H100 (960 blocks where 924 find room). */
#define WINDOW_TRIPS 3.5
#define WINDOW_WEIGHT_TRIPS (1 / 3.0)
/* The array's gradient (dgrad2d_c1_k1_nhwc_specialized): a thread has 2 x 2 of a channel's elements; for each of them and each weight, with those that a stride
 * leaves out. From EfficientNet-B0's there. And a trip for each row of the filter, which is what 7 x 7 of ConvNeXt-T waits for (16 warps a multiprocessor). */
#define SQUARE_ELEMENTS 4
#define GRADIENT_RESULT_INSTRUCTIONS 45
#define GRADIENT_STEP_INSTRUCTIONS 7
/* The weights' gradient (wgrad2d_c1_k1_nhwc): a block has an image's plane of 32 channels, in squares of 4 x 4, loads what its convolution read and a gradient
 * for each result, and adds up what its four warps have. And what adds up the images' (wgrad2d_c1_k1_nhwc_reduce) takes 16 at once. From 3 x 3 and 5 x 5 of
 * EfficientNet-B0 there, both strides. Held out: 7 x 7 of ConvNeXt-T. */
#define FILTER_RESULT_INSTRUCTIONS 6
#define FILTER_LOAD_INSTRUCTIONS 28
#define FILTER_STEP_INSTRUCTIONS 2.8
#define FILTER_SUM_INSTRUCTIONS 120
#define FILTER_IMAGES 16
/* The same where the threads of a block add up for one weight: divisions for each. What forward and backward of 3x3x3 on a V100 leave for it (PyTorch's pull
 * request 40801). And of what a thread waits for from L2 each time so much of a trip to memory: assumed. */
#define SUM_INSTRUCTIONS 103
#define SUM_TRIP 0.25
/* Of rows of eight bits a thread each: two loads, what they widen, the loop's counting; of a trip where they lie in L1. Assumed. */
#define ROW_INSTRUCTIONS 8
#define ROW_TRIP (1 / 32.0)

/* Sums that threads make by themselves, of no tile. */
static bool direct_work(const EchGpuOperator *whole, const EchGpuName *name, EchGpuLaunch *launch, EchItemWork *ret)
{
    double threads = (double)ech_gpu_blocks(launch) * ech_gpu_threads(launch), steps = (double)whole->steps, instructions = 0, trips = 0;
    uint64_t each = ech_dtype_bits((EchDtype)whole->dtype) / 8, elements = threads < 1e15 ? (uint64_t)threads : 0;
    EchBytes read = whole->read, written = ech_bytes_mul(elements, each);
    uint64_t threads_make = 0; /* elements, where they are others than what operations are counted by */
    switch ((EchGpuDirect)name->direct) {
    case ECH_GPU_DIRECT_NONE: return false;
    case ECH_GPU_DIRECT_CHANNELS:
    case ECH_GPU_DIRECT_WINDOWS:
    case ECH_GPU_DIRECT_SQUARES:
        instructions = CHANNEL_RESULT_INSTRUCTIONS + steps * CHANNEL_STEP_INSTRUCTIONS;
        elements = whole->elements;
        written = whole->written;
        if (whole->results > 0) {
            instructions = GRADIENT_RESULT_INSTRUCTIONS + steps * GRADIENT_STEP_INSTRUCTIONS;
            elements = whole->results;
            read = ech_bytes_mul(elements, each);
            written = whole->read;
            threads_make = each > 0 ? written / each : 0;
        }
        if (name->direct == ECH_GPU_DIRECT_SQUARES) {
            threads_make = MAX(threads_make, threads < 1e15 ? (uint64_t)threads * SQUARE_ELEMENTS : 0);
            trips = ceil(sqrt(steps));
        } else if (name->direct == ECH_GPU_DIRECT_WINDOWS) {
            instructions = 0;
            trips = round(WINDOW_TRIPS + steps * WINDOW_WEIGHT_TRIPS);
            launch->waits = true;
        }
        break;
    case ECH_GPU_DIRECT_FILTERS:
        elements = whole->results;
        read = ech_bytes_add(whole->read, ech_bytes_mul(elements, each));
        written = 0;
        threads_make = whole->planes_filled;
        instructions = FILTER_RESULT_INSTRUCTIONS + FILTER_LOAD_INSTRUCTIONS * MAX(whole->spread, 1) + steps * FILTER_STEP_INSTRUCTIONS;
        if (whole->results > 0 && whole->images > 0) /* of a plane, however large */
            instructions += steps * FILTER_SUM_INSTRUCTIONS * (double)whole->images * (double)whole->n / (double)whole->results;
        break;
    case ECH_GPU_DIRECT_RESULTS:
        instructions = RESULT_INSTRUCTIONS + steps * STEP_INSTRUCTIONS;
        read = whole->results > 0 ? ech_bytes_mul(whole->results, each) : read;
        break;
    case ECH_GPU_DIRECT_WEIGHTS:
        written = ech_bytes_mul(ech_gpu_blocks(launch), each);
        elements = whole->results;
        read = ech_bytes_add(read, ech_bytes_mul(elements, each));
        instructions = steps * SUM_INSTRUCTIONS;
        trips = threads > 0 ? (double)elements * steps / threads * SUM_TRIP : 0;
        break;
    case ECH_GPU_DIRECT_ROWS:
        elements = whole->results;
        written = whole->written;
        instructions = steps * ROW_INSTRUCTIONS;
        trips = steps * ROW_TRIP;
        break;
    }
    set_traffic(ret, read, written, ECH_INFERRED);
    ret->unit = ECH_WORK_VECTOR;
    ret->dtype = whole->dtype;
    ret->ops = ech_bytes_mul(2, ech_bytes_mul(elements, whole->steps));
    launch->elements = threads_make > 0 ? threads_make : elements;
    launch->operand_bytes = (uint32_t)each;
    launch->instructions = (uint32_t)MIN(instructions, 1e7);
    launch->trips = (uint16_t)MIN(trips, 6e4);
    return elements > 0;
}

/* Results of a product that was split along k. Of a convolution's gradients that is the weights', which adds up over all positions: the longest of the three.
 */
static uint64_t split_elements(const EchGpuOperator *whole)
{
    uint64_t longest = MAX(whole->m, MAX(whole->n, whole->k));
    if (whole->products < 2 || longest == 0)
        return whole->elements;
    uint64_t others = longest == whole->m   ? ech_bytes_mul(whole->n, whole->k)
                      : longest == whole->n ? ech_bytes_mul(whole->m, whole->k)
                                            : ech_bytes_mul(whole->m, whole->n);
    return ech_bytes_mul(MAX(whole->batch, 1), others);
}

/* Blocks that cuDNN launches at most to take a group's channels out of all (nhwcSliceCKernel); fewer have an element a thread. */
#define CUT_BLOCKS 2048

/* What lies around the groups of a convolution, of which a launch does not tell the array: the mean of those there are. */
static bool groups_work(const EchGpuOperator *whole, const EchGpuName *name, EchGpuLaunch *launch, EchItemWork *ret)
{
    uint64_t each = MAX(ech_dtype_bits((EchDtype)whole->dtype) / 8, 1), filters = MAX(whole->n / whole->groups, 1), weights = ech_bytes_mul(whole->n, whole->k),
             in = whole->read / each > weights ? whole->read / each - weights : 0, out = whole->elements;
    double wide = exp2(ceil(log2((double)MAX(filters, whole->channels))));
    launch->elements = ech_bytes_mul(ech_gpu_blocks(launch), ech_gpu_threads(launch));
    if (name->cuts && ech_gpu_blocks(launch) >= CUT_BLOCKS)
        launch->elements = (in / 2 + out / 2) / whole->groups;
    if (name->widens_groups)
        launch->elements = (uint64_t)MIN(((double)in * wide / (double)whole->channels + (double)out * wide / (double)filters +
                                          (double)weights * wide / (double)whole->channels * wide / (double)filters) /
                                             3,
                                         1e18);
    launch->operand_bytes = (uint32_t)each;
    set_traffic(ret, ech_bytes_mul(launch->elements, each), ech_bytes_mul(launch->elements, each), ECH_INFERRED);
    return launch->elements > 0;
}

bool ech_gpu_kernel_work(const EchGpuOperator *whole, const EchGpuName *name, double share, EchGpuLaunch *launch, EchItemWork *ret)
{
    if (!whole || whole->kind == ECH_GPU_OP_NONE)
        return grid_work(name, launch, ret);
    if ((name->cuts || name->widens_groups) && whole->groups > 1)
        return groups_work(whole, name, launch, ret);
    if (name->direct && whole->steps > 0)
        return direct_work(whole, name, launch, ret);
    if (whole->kind == ECH_GPU_OP_PRODUCT && name->kind == ECH_GPU_SPLIT_REDUCE && whole->images > 0) {
        launch->elements = ech_bytes_mul(whole->n, whole->steps);
        launch->trips = (uint16_t)MIN(whole->images / FILTER_IMAGES, 60000u);
        set_traffic(ret, ech_bytes_mul(launch->elements, ech_bytes_mul(whole->images, 4)),
                    ech_bytes_mul(launch->elements, ech_dtype_bits((EchDtype)whole->dtype) / 8), ECH_INFERRED);
        return true;
    }
    if (whole->kind == ECH_GPU_OP_PRODUCT && name->kind == ECH_GPU_SPLIT_REDUCE) {
        /* Parts in f32; how many the launch does not say: four. */
        launch->elements = split_elements(whole);
        set_traffic(ret, ech_bytes_mul(launch->elements, 16), MIN(whole->written, ech_bytes_mul(launch->elements, ech_dtype_bits((EchDtype)whole->dtype) / 8)),
                    ECH_INFERRED);
        return true;
    }
    if (name->sorts)
        return sort_work(whole, name, launch, ret);
    if (name->counts) { /* of what is sorted: all, or indices of a gradient's rows */
        launch->elements = whole->kind == ECH_GPU_OP_GATHER ? whole->n / 8 : whole->elements;
        launch->operand_bytes = name->element_bytes;
        set_traffic(ret, ech_bytes_mul(launch->elements, name->element_bytes), 0, ECH_INFERRED);
        return launch->elements > 0;
    }
    if (!(share > 0))
        return helper_work(whole, name, launch, ret);
    if (name->every)
        share = 1;
    if (whole->listed > 0) {
        bool known = list_work(whole, name, share, launch, ret);
        ret->beyond = share < 1;
        return known;
    }
    *ret = (EchItemWork){.read = scaled(whole->read, share),
                         .write = scaled(whole->written, share),
                         .unit = ECH_WORK_VECTOR,
                         .ops = scaled(whole->elements, share),
                         .dtype = whole->dtype,
                         .origin = ECH_INFERRED};
    launch->operand_bytes = ech_dtype_bits((EchDtype)whole->dtype) / 8;
    launch->scattered = whole->scattered && name->kind == ECH_GPU_STRIDED;
    if (name->places > 0 && launch->axes == 0)
        launch->axes = whole->axes;
    if (whole->kind == ECH_GPU_OP_PRODUCT) {
        product_work(whole, name, share, launch, ret);
    } else if (whole->kind == ECH_GPU_OP_ATTENTION) {
        attention_work(whole, name, share, launch, ret);
    } else if (whole->kind == ECH_GPU_OP_ROWS && (whole->m > 0 || name->kind == ECH_GPU_NORM)) {
        rows_work(whole, name, launch, ret);
    } else {
        launch->elements = scaled(whole->elements, share);
        launch->trips = whole->trips;
        if (whole->planes > 0 && name->chain > 0)
            planes_work(whole, launch, ret);
        else if (whole->kind == ECH_GPU_OP_GATHER)
            gather_work(whole, name, launch, ret);
        else if (whole->kind == ECH_GPU_OP_OTHER)
            element_work(whole, name, launch, ret);
    }
    ret->beyond |= whole->by_address;
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
