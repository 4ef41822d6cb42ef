/** @file gpu.h
 * What a kernel costs on a GPU: its class from its name, its time from how it was launched and what it moves and computes.
 *
 * A kernel is a grid of blocks that the multiprocessors (SMs) work off, as many at a time as threads, registers and shared memory allow. Three things bound
 * it, and they overlap the better the more blocks an SM holds that do not wait for one another:
 *
 *     time = start + ||latency, issue, memory||_p,   p = 1 + log2(blocks an SM), 1 to 4
 *
 * latency: waves of blocks times the chain of dependent trips to memory in a thread's life; issue: instructions of its elements at 128 lanes a clock and SM;
 * memory: its bytes, from L2 as far as they fit there. Matrix products are tiles that SMs work off instead, at the rate of the instruction that their name
 * says (FMA, mma, wgmma), with whole tiles a wave. Names (cuBLAS, CUTLASS, cuDNN, PyTorch) say tile, stages, instruction, alignment and vector width.
 *
 * Class constants (instructions an element, trips) are the same on every chip; each stands in gpu.c with what it was taken from. Chips differ by their device
 * file alone: memories, units, and the numbers `kernel.*`.
 */
#pragma once
#include "models/device/device.h"

typedef enum {
    ECH_GPU_UNKNOWN,
    ECH_GPU_ELEMENTWISE,  /**< Contiguous arrays, several elements a thread in one access. */
    ECH_GPU_STRIDED,      /**< Element-wise with an offset computed for every element: views, broadcasts, types that differ. */
    ECH_GPU_FILL,         /**< Writes only: memset, fill. */
    ECH_GPU_REDUCE,       /**< To fewer elements. */
    ECH_GPU_SOFTMAX,      /**< A block a row: three passes with barriers between. */
    ECH_GPU_SOFTMAX_WARP, /**< A warp keeps one row or more in registers. */
    ECH_GPU_NORM,         /**< Layer, batch and RMS normalisation, forward and backward. */
    ECH_GPU_PRODUCT,      /**< Matrix products, and convolutions done as such. */
    ECH_GPU_VECTOR,       /**< Matrix times vector. */
    ECH_GPU_SPLIT_REDUCE, /**< Adds up the parts of a product split along k. */
    ECH_GPU_ATTENTION,    /**< Fused attention. */
    ECH_GPU_GATHER,       /**< Rows picked by indices: embedding, index_select. */
    ECH_GPU_SCATTER,
    ECH_GPU_CONCAT,
    ECH_GPU_RELAYOUT,  /**< Transposition, NCHW to NHWC. */
    ECH_GPU_OPTIMIZER, /**< One kernel over lists of tensors. */
    ECH_GPU_SORT,      /**< Many kernels: XLA's bitonic sort, or cub's radix sort. */
    ECH_GPU_FFT,       /**< cuFFT: passes over all points. */
    ECH_GPU_SOLVER,    /**< cuSOLVER, triangular solves: one column after another. */
    ECH_GPU_N_CLASSES,
} EchGpuClass;
/** "elementwise", "product", ... */
const char *ech_gpu_class_name(EchGpuClass kind);

/** What the price of a kernel that XLA made rests on. */
typedef enum {
    ECH_GPU_HELD,     /**< Held against published times of such kernels, most of them not used for anything: products, FFTs. */
    ECH_GPU_BORROWED, /**< Constants from other people's kernels of the class (PyTorch's, flash attention's); XLA's are held against no GPU. */
    ECH_GPU_ASSUMED,  /**< Assumed, or from one or two published figures. */
    ECH_GPU_N_BASES,
} EchGpuBasis;
EchGpuBasis ech_gpu_class_basis(EchGpuClass kind);

typedef enum {
    ECH_GPU_FMA,   /**< Lanes: sgemm, dgemm, simt, ffma. */
    ECH_GPU_MMA,   /**< Tensor cores by warp instructions, registers in: sm_70 to sm_89, and such kernels on later chips. */
    ECH_GPU_WGMMA, /**< Tensor cores fed from shared memory: sm_90 and later. */
} EchGpuArithmetic;

/** What a library's call does, where one class has several ways. */
typedef enum {
    ECH_GPU_ROUTINE_NONE, /**< Sorts: bitonic. */
    ECH_GPU_RADIX,
    ECH_GPU_CHOLESKY,
    ECH_GPU_LU,
    ECH_GPU_QR,
    ECH_GPU_ORTHOGONAL, /**< The orthogonal factor of a QR (orgqr). */
    ECH_GPU_EIGEN,      /**< Of symmetric matrices. */
    ECH_GPU_SINGULAR,
    ECH_GPU_TRIANGULAR, /**< Triangular solve. */
    ECH_GPU_N_ROUTINES,
} EchGpuRoutine;

/** Sums that threads make by themselves, of no tile: a result each (PyTorch's convolutions of one filter a channel), all threads of a block one weight's (their
 * gradient), a row of weights of eight bits each, several channels' that lie together (cuDNN's convolutions of one filter a channel, their gradient of filters,
 * and, built for one size of filter, a window of two channels' results and a square of four of the array's gradient). */
typedef enum {
    ECH_GPU_DIRECT_NONE,
    ECH_GPU_DIRECT_RESULTS,
    ECH_GPU_DIRECT_WEIGHTS,
    ECH_GPU_DIRECT_ROWS,
    ECH_GPU_DIRECT_CHANNELS,
    ECH_GPU_DIRECT_FILTERS,
    ECH_GPU_DIRECT_WINDOWS,
    ECH_GPU_DIRECT_SQUARES
} EchGpuDirect;

/** What a kernel's name says; 0 where it does not. */
typedef struct {
    uint8_t kind;            /**< EchGpuClass */
    uint8_t arithmetic;      /**< Products, attention: EchGpuArithmetic. */
    uint8_t alignment;       /**< Products: elements of an aligned access ("align1": every element alone); 0: full width. */
    uint8_t stages;          /**< Products: tiles of k in flight. */
    uint16_t tile_m, tile_n; /**< Products: output a block makes at once; the kernel may have the two sides swapped (column-major libraries). */
    uint16_t tile_k;         /**< Products: k of a stage. */
    /** Products: Marlin's, and CUTLASS's stream-K. Each block takes an equal share of all tiles, k first; a column's parts are added up one after another. 1:
     * Marlin's before 2025. */
    uint8_t striped;
    bool widens;             /**< Products: weights are of fewer bits than what they are multiplied by, and are widened in registers. */
    bool backward, tf32;     /**< tf32: tensor cores on f32. */
    uint8_t arrays;          /**< Element-wise: arrays read and written, the first of them written. */
    uint8_t element_bytes;   /**< Of the widest type named. */
    uint16_t block_elements; /**< Element-wise, gathers: elements a block does where the name says it (nt x vt), else 0. */
    uint32_t instructions;   /**< An element: issued lane slots. */
    uint8_t vector;          /**< Elements of an access. */
    uint16_t trips;          /**< Dependent accesses of a thread; 0: as its class has. */
    /** Bytes read and written for an element where these are not those of its arrays (conversions); 0: they are. */
    uint8_t read_bytes, written_bytes;
    uint8_t lists, lists_read, lists_written; /**< Over lists of tensors: how many lists it is given, reads and writes; 0: not known. */
    uint16_t query_rows, key_rows, head;      /**< Attention: rows of a block, and a head's dimension, the mean of keys' and values'; 0: not known. */
    bool walks;                               /**< Statistics of channels that lie together: each thread divides anew at every element of its own. */
    bool split;                               /**< A product, along k: another kernel adds up. */
    bool cuts;                                /**< Strided: one group's channels of a convolution, out of all or back among them. */
    bool widens_groups;                       /**< Strided: the channels of all groups, filled up to 2^n each or back from that. */
    bool filters;                             /**< A product: a convolution's gradient of its filters, a sum over pixels. */
    bool group;                               /**< A product: of a convolution's groups, one. */
    bool causal;                              /**< Attention: half of the products are left out. */
    bool library;                             /**< Attention: cuDNN's. */
    uint8_t direct;                           /**< Element-wise: EchGpuDirect. */
    bool efficient;                           /**< Attention: PyTorch's memory-efficient, CUTLASS's example 41. */
    bool general;                             /**< The same, forward: built for dropout and a bias, whether there are any. */
    bool flexible;                            /**< Attention: FlexAttention's in Triton, by blocks of a mask. */
    bool paged;                               /**< Attention: keys and values lie in pages shorter than a tile and are gathered row by row. */
    bool splits;                              /**< Attention of one query a sequence: the grid's third dimension splits keys as far as that fills the chip. */
    bool generated;                           /**< Reductions: TorchInductor's. Norms, softmax: a block keeps its row, as those do. */
    bool joins;                               /**< Reductions: PyTorch's. What blocks of one column of the grid leave, the last of them adds up. */
    uint8_t row_instructions;                 /**< Normalisation: those of each thread of a row's block, whatever the row's length. */
    bool sums_rows;                           /**< Normalisation: writes one row, the sum of all. */
    bool whole_rows;                          /**< Gathers, scatters: an index for a row, not for an element. */
    bool sorts;                               /**< Relayouts: a pass of cub's radix sort, of elements of read_bytes. */
    bool looks_back;                          /**< Reductions: cub's, of which each block needs what those before it made of theirs. */
    bool counts;                              /**< Reductions: cub's, of the digits of all keys that are sorted, element_bytes each. */
    uint8_t places;                           /**< Of its instructions those for where its elements are, and of what type. */
    bool every;                               /**< Each of an operator's kernels, if they are several, goes over all of its elements. */
    bool adds;                                /**< Gathers, scatters: every element is added where it belongs, by an access of its own. */
    uint8_t step;                             /**< Elements of a thread that it waits for at once, before the next ones; 0: as its class has. */
    uint8_t chain;                            /**< Tenths of accesses of a thread for each of its elements, one after the other; 0: trips. */
} EchGpuName;
/** Reads a demangled or mangled-enough kernel name. Never fails: kind is ECH_GPU_UNKNOWN where nothing is recognised. */
void ech_gpu_name(const char *name, EchGpuName *ret);

/** Instructions of an element for its places in all arrays: name->places, but where it is known by how many dimensions, @axes, PyTorch's kernels compute them
 * (0: not known). From sums, products and copies of models on an H100 (traces/gpu_h100-sxm/models): 86 with the operator's own of two and three, of four and
 * more 100, of three arrays 112. Held out: those on an H200. One array written of one that is repeated (@expanded: the
 * gradient of a mean) takes 53: of ResNet-50 there. Held out: EfficientNet-B0 and RegNetY on an H200. */
unsigned ech_gpu_place_instructions(const EchGpuName *name, unsigned axes, bool expanded);

/** How far back a use of memory may lie of which a launch tells: in that many ranges, each ending at so many bytes used since. */
#define ECH_GPU_NEAR 6
#define ECH_GPU_NEAR_MOST (UINT64_C(128) << 20)
/** Bytes used since, at most, of range @i: 4 MiB, and twice as many for every one after it up to ECH_GPU_NEAR_MOST. */
static inline uint64_t ech_gpu_near_limit(size_t i)
{
    return ECH_GPU_NEAR_MOST >> (ECH_GPU_NEAR - 1 - i);
}

/** A launch and its shape; 0 where not known. As text "grid=264x2x1 block=512x1x1 shared=0 registers=32 product=1x5185x1024x4096 rows=82960x5185 scattered=1
 * sectors=36 axes=4 elements=4096 operand_bytes=2"; what a compiled program says of the kernel itself, where a name would not, follows it: "class=product
 * arithmetic=mma tile=64x32x32 stages=3 alignment=1 instructions=30 vector=4 trips=2 routine=radix keys=4 passes=2 turned=4096", and of weights of few bits
 * "weight_bits=5", "fills=1", "waits=1", "filters=1"; of one that is told by its own code "issued=262144
 * access=65536x131072 fetched=4194304 path=5120000x16384 near=0x0x65536x65536x65536x2097152".
 */
typedef struct {
    uint32_t grid[3], block[3];
    uint32_t shared;         /**< Bytes a block. */
    uint32_t registers;      /**< A thread. */
    uint64_t batch, m, n, k; /**< Products: batch of [m, k] x [k, n]. Solvers: batch of [m, n]; k: right-hand sides. */
    uint64_t taps;           /**< Convolutions as products: positions of the filter, of whose k / taps channels every one takes whole steps of k; else 0. */
    uint64_t turned;         /**< Products: elements of operands whose fastest dimension is not summed over. */
    uint64_t rows, columns;  /**< Softmax, normalisation, sorts: rows, and elements of each. Concatenation: elements of the largest array, and 1. FFTs: blocks,
                                points of each. */
    uint64_t elements;       /**< Else: elements of the iteration. */
    uint32_t operand_bytes;  /**< An element. */
    bool scattered;          /**< The threads of a warp read or write elements that do not lie together. */
    uint16_t sectors;        /**< Of 32 bytes, that 32 neighbours touch in all arrays, where these do not lie together; else 0. */
    uint8_t axes;            /**< Dimensions by which places are computed, with those that lie together in all arrays as one; 0: not known. */
    bool waits;              /**< Blocks fetch all they need before they compute: whole waves, the time of memory beside them. */
    bool filters;            /**< As in EchGpuName. */
    bool dropout;            /**< Attention: a random number for every score. */
    bool backward, causal;   /**< As in EchGpuName, like all that follows. */
    uint16_t head;
    uint8_t kind;       /**< EchGpuClass; ECH_GPU_UNKNOWN: the name says. */
    uint8_t arithmetic; /**< EchGpuArithmetic + 1; 0: not said. */
    uint8_t stages, vector, alignment;
    uint16_t tile_m, tile_n, tile_k, trips;
    uint32_t instructions;
    uint8_t routine;     /**< EchGpuRoutine */
    uint8_t weight_bits; /**< Products: of an element of n x k, scales included, where it is packed; else 0. */
    uint8_t keys;        /**< Sorts: bytes of the key, where cub can sort by it; 0: it cannot. */
    bool fills;          /**< Products of a library in a program's graph: it sets the counter by which its blocks take tiles, a node of its own before it. */
    uint16_t passes;     /**< FFTs: times that all points are read and written. Solvers: calls of the routine, one after another. */
    /* Of one that is told by its own code, else 0; of all its warps or blocks together. */
    uint64_t issued;                     /**< Instructions of its warps. */
    uint64_t accesses, wavefronts;       /**< Of the units that load and store: instructions, and lines or words of each bank that these let through. */
    uint64_t fetched;                    /**< Bytes of sectors that each block reads, and that each of its stores writes. */
    uint64_t path_cycles, path_trips;    /**< Of each block's slowest warp: what its instructions wait for, and beside that trips to L2 or beyond. */
    uint64_t barriers;                   /**< Those that a warp of each block comes to. */
    uint64_t slots, slots_64, functions; /**< Of its lanes: instructions that take the units for numbers of 32 and of 64 bits, and special functions. */
    uint64_t atomics, crowded;   /**< Clocks of L2's units for sectors that atomics and stores change in part: all together, and the one that has most. */
    uint64_t near[ECH_GPU_NEAR]; /**< Of what it reads and writes, how many bytes were used shortly before, with at most ech_gpu_near_limit() others since. */
} EchGpuLaunch;
/** Parses the text above; fields in any order, unknown ones passed over. False where there is no grid and no shape in it. */
bool ech_gpu_launch_parse(const char *text, EchGpuLaunch *ret);
/** Prints it, only what is known. */
void ech_gpu_launch_print(const EchGpuLaunch *launch, GString *out);
/** @was with the shape of @launch in the place of its own, and its other words (what the host did for it) as they are. Owned by the caller. */
char *ech_gpu_launch_change(const char *was, const EchGpuLaunch *launch) G_GNUC_WARN_UNUSED_RESULT;
/** Of @bytes that it moves, those that the L2 of @device has by launch->near. A range's uses lie three quarters of its way back, and of what was used that long
 * ago L2 has what it has of a kernel that moves as much (ech_gpu_memory_seconds). 0 where nothing is told or the device says nothing of its L2. */
uint64_t ech_gpu_near_bytes(const EchGpuLaunch *launch, const EchDevice *device, uint64_t bytes);
/** What else a kernel does that is told by its own code: bytes of device memory, and what its operations take units, in seconds. */
typedef struct {
    double read, written, units;
} EchGpuCode;
/** What it takes beside its launch: what keeps busy all along, and what nothing of that hides. */
typedef struct {
    EchTime busy, waits;
    uint8_t bound; /**< EchGpuBound: of the longer of both. */
} EchGpuCodeCost;
/** How long a kernel takes on @device by its own code; false where that is not told. Its warps keep busy one thing most:
 *  - schedulers, each with an instruction of a warp a clock, on as many multiprocessors as there are blocks;
 *  - the units that load and store, kernel.sm_load_lanes lanes a clock and a wavefront a clock;
 *  - L2, by what blocks fetch from it, or device memory, by what is not there;
 *  - the units of L2 that change sectors, by atomics or a part that is written, each one a clock, all together as many as L2 reads and writes;
 *  - @code's units, those for arithmetic of 32 and 64 bits, an instruction of a lane a clock whatever it computes, and those for special functions.
 * The path is what the slowest warp of each block waits for, as often as blocks follow each other on a multiprocessor; its trips go to L2, or as far as bytes
 * come from there to device memory. Where warps wait for each other all of a block's wait at once, so the path comes on top; else as far as it is longer, but
 * at least one trip. */
bool ech_gpu_code_cost(const EchGpuLaunch *launch, const EchDevice *device, const EchGpuCode *code, EchGpuCodeCost *ret);
/** Of the rate that the file of @device has of its tensor cores, what products by the instructions of such a kernel (launch->arithmetic) reach at
 * most, at its clock. */
double ech_gpu_code_share(const EchGpuLaunch *launch, const EchDevice *device);
/** Lets what the launch says of the kernel stand over what was read of its name. */
void ech_gpu_launch_says(const EchGpuLaunch *launch, EchGpuName *name);
/** Elements of a list of tensors that a block of multi_tensor_apply takes at most (PyTorch 2.11 and 2.15, MultiTensorApply.cuh: kChunkSize). */
#define ECH_GPU_LIST_CHUNK 65536
/** Blocks of the grid and threads of a block; 0 where not known. */
uint64_t ech_gpu_blocks(const EchGpuLaunch *launch);
uint32_t ech_gpu_threads(const EchGpuLaunch *launch);
/** Of all blocks like the launch's that @device's multiprocessors hold at once, by their threads, registers and shared memory, the share that its grid is:
 * above 0, 1 where it is as many or more; 0 where the launch does not say. */
double ech_gpu_filled(const EchGpuLaunch *launch, const EchDevice *device);
/** Elements that the grid of an element-wise kernel covers: whole blocks, so up to one block too many; 0 where the name or the launch do not say. */
uint64_t ech_gpu_grid_elements(const EchGpuName *name, const EchGpuLaunch *launch);

/** A kernel to price. */
typedef struct {
    EchGpuName name;
    EchGpuLaunch launch;
    EchBytes read, written; /**< Of device memory, each byte once. */
    double operations;      /**< Of the matrix unit (a multiply-add is two); products without a shape, attention. */
    const char *dtype;      /**< Of the matrix operands ("bf16"); NULL: f32. */
    double duty;            /**< 0..1: share of the time in which products and attention run (ech_gpu_held); 0: not known, taken for all. */
} EchGpuKernel;

/** What bounds a kernel. */
typedef enum {
    ECH_GPU_BY_LATENCY,
    ECH_GPU_BY_ISSUE,
    ECH_GPU_BY_MEMORY,
    ECH_GPU_BY_MATRIX,
    ECH_GPU_BY_ACCESSES, /**< Lines of memory and banks of shared memory, one after the other. */
    ECH_GPU_BY_L2,
    ECH_GPU_BY_ARITHMETIC,
    ECH_GPU_BY_ATOMICS, /**< Sectors that L2 reads, changes and writes: atomics, and stores of parts. */
} EchGpuBound;

/** "latency", "issue", "memory", "matrix unit", "accesses", "L2", "arithmetic". */
const char *ech_gpu_bound_name(EchGpuBound bound);

/** What a GPU operator costs; times in picoseconds. */
typedef struct {
    EchTime time;
    EchTime compute;         /**< Of instructions or tiles, whole waves. */
    EchTime memory;          /**< Of all bytes at the achieved bandwidth. */
    EchTime latency;         /**< Of trips to memory that nothing hides. */
    EchTime launch;          /**< Start of the kernel; a framework's call in ech_gpu_product. */
    uint8_t bound;           /**< EchGpuBound */
    uint32_t tile_m, tile_n; /**< Read or chosen; 0 for what has no tiles. */
    uint64_t tiles, waves;
    uint32_t
        given; /**< Blocks that are there all at once, each with its tiles from the beginning (kernel.given_tiles); 0: any block makes room for the next. */
    double wave_efficiency; /**< tiles / (waves x SMs). */
    uint32_t resident;      /**< Blocks an SM holds at once. */
    EchBytes bytes;
    EchBytes cached; /**< Of what it reads and writes, what L2 has. */
} EchGpuCost;

/** Of the rate that products and attention have just after a pause, what the card's power (kernel.sustained_share of it, at its own; less under a limit
 * kernel.power below kernel.rated_power) leaves them where they run @duty of the time, 0..1. The less they run, the more power the rest leaves them. 0: not
 * known, taken for all under such a limit, for a kernel alone without. Above 0; 1 where nothing is said of it. */
double ech_gpu_held(const EchDevice *device, double duty);
/** The share of the time in which they run once their rate has settled, of a program in which they take @share of it at the rate of running all the time. */
double ech_gpu_settled_duty(const EchDevice *device, double share);

/** The number without which @device's file has no model of kernels, "units.vector.clock"; NULL: it has one. Owned by the caller. */
char *ech_gpu_lacks(const EchDevice *device) G_GNUC_WARN_UNUSED_RESULT;
/** What an empty kernel takes from its first instruction to its last, as a profiler times it: one of many in a graph, whose period (runtime.graph_launch_ps)
 * has next to nothing else in it, or runtime.launch_ps. */
EchTime ech_gpu_start(const EchDevice *device);
/** Whether blocks of products are there all at once, each with its tiles from the beginning (kernel.given_tiles). */
bool ech_gpu_gives_tiles(const EchDevice *device);
/** What a kernel waits for memory at least, if it reads: one access under load. 0 where the device is no GPU as below. */
EchTime ech_gpu_trip(const EchDevice *device);
/** Prices @kernel as a profiler times it, from its first instruction to its last. False where nothing of it is known (no bytes, no operations, no shape and
 * no launch), where its class says nothing, or where the device is no GPU with SMs and HBM. */
bool ech_gpu_kernel_price(const EchDevice *device, const EchGpuKernel *kernel, EchGpuCost *ret);

/** Whether libraries and frameworks have the same kernels for both: GPUs of one compute capability, or of one target of AMD's compiler. */
bool ech_gpu_same_kernels(const EchDevice *a, const EchDevice *b);
/** Makes of @kernel, launched on @from, what would be launched on @to, GPUs that have other kernels, as far as shapes tell it: a product has no tile of the
 * library there but is free to take what suits it best, by the lanes in f32 where @to multiplies no such type (*@ret_lanes then; never set to false), and a
 * grid of so many blocks a multiprocessor has as many on each of @to's. With @from as @to, the same kernel as it is compared with. */
void ech_gpu_kernel_elsewhere(EchGpuKernel *kernel, const EchDevice *from, const EchDevice *to, bool *ret_lanes);

/** [batch, m, k] x [batch, k, n] of @dtype, called from a framework (`kernel.call_ps`), in the tile that suits it best. False where the device has no matrix
 * unit with a count of SMs or no HBM. */
bool ech_gpu_product(const EchDevice *device, uint64_t batch, uint64_t m, uint64_t n, uint64_t k, const char *dtype, unsigned bits, EchGpuCost *ret);
/** The row-wise or element-wise operator @name ("softmax", "layer_norm", "gelu") over [rows, columns] of @bits, as PyTorch's own kernel for that size or (gelu,
 * layer_norm) as one made by a compiler, called from a framework (`kernel.call_eager_ps`, `kernel.call_compiled_ps`). False for other names. */
bool ech_gpu_operator(const EchDevice *device, const char *name, uint64_t rows, uint64_t columns, unsigned bits, EchGpuCost *ret);
