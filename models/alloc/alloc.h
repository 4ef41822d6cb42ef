/** @file alloc.h
 * Online allocators: what a runtime does at alloc and free, one file per allocator, one class table.
 *
 * Plain numbers in and out; knows no traces and no clock. Addresses are in the simulated device's virtual space. A request that does
 * not fit is a result (EchFit), never an error. To add an allocator: one file with a const EchAllocClass (class.h), one row in
 * allocators.def.
 *
 * A spec is "name", "name:key=value,..." or a framework's own words: "jax", "XLA_PYTHON_CLIENT_MEM_FRACTION=.9", "tensorflow:allow_growth",
 * "pytorch:" followed by PYTORCH_CUDA_ALLOC_CONF as it stands, "PYTORCH_CUDA_ALLOC_CONF=...".
 */
#pragma once
#include "sim/base/param.h"

typedef enum {
    ECH_FIT_OK,
    ECH_FIT_FULL,       /**< Not enough free bytes at all. */
    ECH_FIT_FRAGMENTED, /**< Enough free bytes, but not where they could be used. */
} EchFit;

/** Where a device puts what is taken from it. An allocator that looks at addresses (PyTorch's to 2.11, among free blocks of a size) depends on it. */
typedef enum {
    ECH_ADDRESSES_FIRST_FIT, /**< At the lowest free address; new reservations above the others. */
    ECH_ADDRESSES_ASCEND,    /**< Above all it ever gave. */
    ECH_ADDRESSES_DESCEND,   /**< Below all it ever gave, reservations too. */
} EchAddressOrder;

/** The device below an allocator: capacity in bytes; cudaMalloc-like ranges are 2 MiB granules (granule 0 means that). */
typedef struct {
    EchBytes capacity;
    EchBytes context; /**< What it has besides, taken by the process's context: what frameworks take shares of is both together. */
    EchBytes granule;
    EchAddressOrder order;
} EchAllocDevice;

typedef struct {
    uint32_t id; /**< The caller's number of the allocation; dense from 0. */
    EchBytes bytes;
    uint32_t stream;
    bool upper_end;    /**< BFC two-ended: from the upper end. */
    bool private_pool; /**< PyTorch: from a private pool (of a CUDA graph's capture, or a MemPool) that has @stream for itself. */
    bool captured;     /**< private_pool: while a CUDA graph is captured. */
    bool direct;       /**< Of the device itself, beside the allocator: a library asks the driver for it (NCCL's buffers). The rest is 0. */
} EchAllocRequest;

#define ECH_ADDRESS_NONE UINT64_MAX

typedef struct {
    EchBytes rounded;    /**< Bytes the block takes; 0 for a request of 0 bytes. */
    uint64_t address;    /**< In the device's virtual space; reservation k of a VMM allocator starts at (k + 1) << 48, or at (65535 - k) << 48 where addresses
                            descend. A request of 0 bytes that the framework answers with a null pointer has ECH_ADDRESS_NONE. */
    uint32_t segment;    /**< Running number of the region or segment it lies in; UINT32_MAX beside the allocator, at addresses from 1 << 47 on. */
    uint64_t offset;     /**< In that segment. */
    int32_t reservation; /**< VMM reservation number k of "E<k>+offset", or -1. */
} EchPlacement;

/** One statistic a framework keeps, under its own name. */
typedef struct {
    const char *name; /**< "allocated_bytes.all.peak"; static. */
    int64_t value;
} EchAllocStat;

typedef struct {
    uint64_t allocs, frees, failed;
    EchBytes live, peak_live;           /**< Rounded bytes in use. */
    EchBytes requested, peak_requested; /**< As asked. */
    EchBytes reserved, peak_reserved;   /**< Taken from the device by the allocator. */
    EchBytes direct, peak_direct;       /**< Taken from the device beside it; in none of the others but allocs, frees and failed. */
    EchBytes peak_taken;                /**< Most of reserved and direct together. */
    EchBytes waste_at_peak;             /**< Rounded minus requested bytes when the rounded ones peaked. */
    EchBytes largest_free;              /**< Largest free block inside what is reserved. */
    uint64_t segments_allocated, segments_freed;
} EchAllocStats;

typedef struct EchAllocator EchAllocator;

/** Makes an allocator from a spec (above). ECH_ERROR_CONFIG. */
EchAllocator *ech_allocator_new(const char *spec, const EchAllocDevice *device, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** Bytes of the memory that it takes segments from: the device's, or more where its settings make that unified memory (JAX's and TensorFlow's fraction above
 * 1). */
EchBytes ech_allocator_capacity(const EchAllocator *allocator);
/** From now on @bytes of it are other processes': it can take what is left beside them, and has what it took before. */
void ech_allocator_set_elsewhere(EchAllocator *allocator, EchBytes bytes);
void ech_allocator_free(EchAllocator *allocator);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchAllocator, ech_allocator_free)
/** ECH_FIT_OK fills *ret; otherwise *ret is untouched. A request of 0 bytes is answered as the framework does. */
EchFit ech_allocator_alloc(EchAllocator *allocator, const EchAllocRequest *request, EchPlacement *ret);
/** Frees allocation @id; one that failed, or that is unknown, is ignored and returns false. */
bool ech_allocator_release(EchAllocator *allocator, uint32_t id);
/** record_stream and "all events recorded so far on the stream complete"; ignored where the allocator has no streams. */
void ech_allocator_record_stream(EchAllocator *allocator, uint32_t id, uint32_t stream);
void ech_allocator_stream_done(EchAllocator *allocator, uint32_t stream);
/** Whether memory is asked for and given back in the order of streams (cudaMallocAsync): the three below are for that. Stamps grow from 1. */
bool ech_allocator_orders_streams(const EchAllocator *allocator);
/** As ech_allocator_release(), by @stream, which may be another than the one that asked. */
bool ech_allocator_free_on(EchAllocator *allocator, uint32_t id, uint32_t stream, uint64_t stamp);
/** Other streams come, by an event, after what @stream has freed up to @stamp. */
void ech_allocator_ordered(EchAllocator *allocator, uint32_t stream, uint64_t stamp);
/** Whoever asks from now on finds all that was freed up to @stamp to be over on the device. */
void ech_allocator_passed(EchAllocator *allocator, uint64_t stamp);
void ech_allocator_stats(const EchAllocator *allocator, EchAllocStats *ret);
/** The same without largest_free, which some allocators have to search for. */
void ech_allocator_counters(const EchAllocator *allocator, EchAllocStats *ret);
/** The most of anything is what there is now, as torch.cuda.reset_peak_memory_stats() has it: what was before is not told any more. */
void ech_allocator_reset_peaks(EchAllocator *allocator);
/** What an allocator has called the driver for. Every give waits for the device (cudaFree does; PyTorch waits before it unmaps), and so does every free of an
 * allocator that keeps nothing. */
typedef struct {
    uint64_t takes, gives;                   /**< cudaMalloc and cudaFree, pools' growth and trimming. */
    EchBytes taken, given;                   /**< Bytes of those. */
    uint64_t maps, unmaps;                   /**< VMM: times that a range of addresses got pages, or gave them back. */
    uint64_t pieces_mapped, pieces_unmapped; /**< Pieces of physical memory (cuMemCreate) of those. */
    EchBytes mapped, unmapped;               /**< Bytes of those. */
} EchDriverCalls;
void ech_allocator_driver(const EchAllocator *allocator, EchDriverCalls *ret);
/** True where every free is a call that waits for the device. */
bool ech_allocator_free_waits(const EchAllocator *allocator);
/** True where every request is mapped into addresses of its own, in one piece, instead of a cudaMalloc. */
bool ech_allocator_maps(const EchAllocator *allocator);
/** The framework's own statistics; borrowed until the next call. */
const EchAllocStat *ech_allocator_own_stats(EchAllocator *allocator, size_t *ret_n);
/** Canonical spec, for reports; borrowed. */
const char *ech_allocator_name(const EchAllocator *allocator);
/** What a reader of its placements must know ("placement is a model: ..."), or NULL; static. */
const char *ech_allocator_note(const EchAllocator *allocator);
/** Why the last call failed for a reason that is not memory (a plugin crashed or placed illegally), or NULL; borrowed. */
const char *ech_allocator_fault(const EchAllocator *allocator);
/** A block that exists before the first request, for traces that start mid-run. */
typedef struct {
    uint32_t id;        /**< Allocation, or UINT32_MAX for a free block. */
    uint64_t address;   /**< As recorded. */
    EchBytes bytes;     /**< Of the block. */
    EchBytes requested; /**< As asked for; 0 for a free block. */
    uint64_t segment_address;
    EchBytes segment_bytes;
    uint32_t stream;
    bool small_pool, expandable, private_pool;
} EchSeedBlock;
/** Blocks of one segment tile it and come in address order, all segments' blocks together in @blocks. ECH_ERROR_CONFIG where a seed makes
 * no sense, ECH_ERROR_UNSUPPORTED where the allocator takes none. Call once, before the first request. */
bool ech_allocator_seed(EchAllocator *allocator, const EchSeedBlock *blocks, size_t n, GError **error);
/** A range that a device gave; of 0 bytes: where a reservation of addresses began, and for which stream's pool. */
typedef struct {
    uint64_t address;
    EchBytes bytes;
    uint32_t stream;
    bool small_pool;
} EchSegmentRange;
/** Where the device puts what is taken from it: each request takes the first unused range of its size (granules), each reservation the first unused one of its
 * pool, and where there is none they go where the device's order says. For replaying a recording at its own addresses. @ranges must outlive the allocator. */
void ech_allocator_script(EchAllocator *allocator, const EchSegmentRange *ranges, size_t n);
/** The recorded allocator gave these bytes back to the device: so does this one, if they are free here. False if they are not. */
bool ech_allocator_give_back(EchAllocator *allocator, uint64_t address, EchBytes bytes);
/** Gives what is cached back to the device, as far as that goes (torch.cuda.empty_cache). False for an allocator whose framework has no such call. */
bool ech_allocator_empty_cache(EchAllocator *allocator);
/** The private pool that has @stream for itself is released (its graphs are destroyed, its MemPool deleted): what it has cached can go from now on. Ignored
 * where the allocator has no private pools. */
void ech_allocator_pool_done(EchAllocator *allocator, uint32_t stream);
/** PyTorch's expandable_segments from here on, as a program may set it while it runs; what it holds stays as it is. Ignored by other allocators. */
void ech_allocator_set_expandable(EchAllocator *allocator, bool on);
/** Bytes that are cached and that a request cannot have: those of other private pools, which keep them until they are released; and for the request of a
 * private pool (@private_pool, that of @stream) those of every other pool, because nothing is given back for a capture. 0 where the allocator has no private
 * pools. */
EchBytes ech_allocator_kept(const EchAllocator *allocator, uint32_t stream, bool private_pool);
/** The next @n device allocations (or page mappings) after @skip successful ones are refused, as a driver would. For tests. */
void ech_allocator_inject_failure(EchAllocator *allocator, uint64_t skip, uint64_t n);

typedef enum {
    ECH_BLOCK_USED,
    ECH_BLOCK_FREE,
    ECH_BLOCK_PENDING, /**< Freed, waiting for another stream. */
} EchBlockState;

/** One block of the reserved memory. The blocks of a segment tile it. */
typedef struct {
    uint32_t segment; /**< Running number. */
    EchBlockState state;
    uint64_t address;
    EchBytes bytes;
    EchBytes requested; /**< Used blocks. */
    uint32_t id;        /**< Used blocks; otherwise UINT32_MAX. */
    uint32_t stream;
} EchAllocBlock;
/** Every block, by address; @ret_n of them, owned by the caller (g_free). */
EchAllocBlock *ech_allocator_blocks(const EchAllocator *allocator, size_t *ret_n) G_GNUC_WARN_UNUSED_RESULT;

/** One allocator's row. */
typedef struct {
    const char *name;    /**< First word of a spec. */
    const char *summary; /**< One sentence. */
    const char *source;  /**< Where the behaviour was read, or "own design". */
    const EchParam *params;
} EchAllocInfo;
/** All online allocators, in the order of the table; borrowed. */
const EchAllocInfo *ech_alloc_infos(size_t *ret_n);
