/** @file alloc.h
 * Online allocators: what a runtime does at alloc and free, one file per allocator, one class table.
 *
 * Plain numbers in and out; knows no traces and no clock. Addresses are in the simulated device's virtual space. A request that does
 * not fit is a result (EchFit), never an error. To add an allocator: one file with a const EchAllocClass, one row in allocators.def.
 */
#pragma once
#include "sim/base/param.h"

typedef enum {
    ECH_FIT_OK,
    ECH_FIT_FULL,       /**< Not enough free bytes at all. */
    ECH_FIT_FRAGMENTED, /**< Enough free bytes, but not where they could be used. */
} EchFit;

/** The device below an allocator: capacity in bytes; cudaMalloc-like ranges are 2 MiB granules, first fit (granule 0 means that). */
typedef struct {
    EchBytes capacity;
    EchBytes granule;
} EchAllocDevice;

typedef struct {
    uint32_t id;      /**< The caller's number of the allocation; dense from 0. */
    EchBytes bytes;
    uint32_t stream;
    bool upper_end;   /**< BFC two-ended: from the upper end. */
} EchAllocRequest;

typedef struct {
    EchBytes rounded;    /**< Bytes the block takes. */
    uint64_t address;    /**< In the device's virtual space; VMM reservations start at reservation << 48. */
    uint32_t segment;    /**< Running number of the region or segment it lies in. */
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
    EchBytes reserved, peak_reserved;   /**< Taken from the device. */
    EchBytes largest_free;              /**< Largest free block inside what is reserved. */
    uint64_t segments_allocated, segments_freed;
} EchAllocStats;

typedef struct EchAllocator EchAllocator;

/** Makes an allocator from a spec (ours or a framework's own string; see ech_alloc_specs). ECH_ERROR_CONFIG. */
EchAllocator *ech_allocator_new(const char *spec, const EchAllocDevice *device, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_allocator_free(EchAllocator *allocator);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchAllocator, ech_allocator_free)
/** ECH_FIT_OK fills *ret; otherwise *ret is untouched. A request of 0 bytes is answered as the framework does. */
EchFit ech_allocator_alloc(EchAllocator *allocator, const EchAllocRequest *request, EchPlacement *ret);
/** Frees allocation @id; one that failed, or that is unknown, is ignored and returns false. */
bool ech_allocator_release(EchAllocator *allocator, uint32_t id);
/** record_stream and "all events recorded so far on the stream complete"; ignored where the allocator has no streams. */
void ech_allocator_record_stream(EchAllocator *allocator, uint32_t id, uint32_t stream);
void ech_allocator_stream_done(EchAllocator *allocator, uint32_t stream);
void ech_allocator_stats(const EchAllocator *allocator, EchAllocStats *ret);
/** The framework's own statistics; borrowed until the next call. */
const EchAllocStat *ech_allocator_own_stats(EchAllocator *allocator, size_t *ret_n);
/** Canonical spec, for reports; borrowed. */
const char *ech_allocator_name(const EchAllocator *allocator);
