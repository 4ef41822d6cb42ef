/** @file memory.h
 * The simulated device below an allocator: cudaMalloc-like ranges and VMM pages against one capacity.
 *
 * A range takes whole granules at the lowest virtual address where it fits (first fit), or in another order (EchAddressOrder); the request fails when the sum
 * would exceed the capacity. First fit is the device the real allocators were run on when their placements were recorded. The real driver does not document its
 * placement; recorded ones descend on Linux, from multiples of 32 MiB, and ascend under Windows' driver model (validation/allocators.md).
 */
#pragma once
#include "models/alloc/alloc.h"
#include "models/alloc/gaps.h"
#include "sim/base/units.h"

/** Granule of cudaMalloc and of VMM pages: 2 MiB (CUDA driver, granularity of cuMemCreate). */
#define ECH_GRANULE (UINT64_C(2) << 20)

typedef struct {
    EchBytes capacity, granule;
    EchAddressOrder order;
    uint64_t lowest, highest;                /**< Ever given; highest is the end, 0 before anything was. */
    EchBytes used;                           /**< Physical bytes handed out. */
    EchBytes elsewhere;                      /**< Of the capacity, what other processes on the device have at the moment. */
    uint64_t takes, gives;                   /**< Device calls that worked, those of pages among them. */
    bool maps_ranges;                        /**< Ranges are mapped, each in one piece (cuMemCreate, cuMemMap), instead of cudaMalloc's. */
    uint64_t maps, unmaps;                   /**< Of them, of pages. */
    uint64_t pieces_mapped, pieces_unmapped; /**< Pieces of physical memory that those pages came in. */
    EchBytes mapped, unmapped;               /**< Bytes of those pages. */
    EchBytes taken, given;                   /**< Bytes of the other calls. */
    uint64_t fail_skip, fail;                /**< Injected failures: after fail_skip more successes, fail refusals. */
    uint32_t n_reservations;
    const EchSegmentRange *script; /**< Ranges to hand out by size, in order; borrowed. */
    size_t n_script, script_at;    /**< Everything below script_at is used. */
    bool *script_used;
    EchGaps space;  /**< Free virtual ranges. */
    EchGaps beside; /**< The same of what is taken beside an allocator. */
} EchDeviceMemory;

/** A device of which nothing is taken. @granule 0: ECH_GRANULE. */
void ech_device_memory_init(EchDeviceMemory *memory, EchBytes capacity, EchBytes granule);
/** Frees what it holds. */
void ech_device_memory_clear(EchDeviceMemory *memory);
/** Bytes that it can still hand out. */
EchBytes ech_device_memory_left(const EchDeviceMemory *memory);
/** A contiguous range; false where it does not fit. */
bool ech_device_memory_take(EchDeviceMemory *memory, EchBytes bytes, uint64_t *ret_address);
/** Gives a range back that was taken, all of it or a part of whole granules. */
void ech_device_memory_give(EchDeviceMemory *memory, uint64_t address, EchBytes bytes);
/** @bytes beside the allocator, at addresses that no other range gets, so that those are what they are without it; false where they do not fit. */
bool ech_device_memory_take_beside(EchDeviceMemory *memory, EchBytes bytes, uint64_t *ret_address);
/** Gives all of them back. */
void ech_device_memory_give_beside(EchDeviceMemory *memory, uint64_t address, EchBytes bytes);
/** The range at @address, for start states; false where it is taken or too large. */
bool ech_device_memory_take_at(EchDeviceMemory *memory, uint64_t address, EchBytes bytes);
/** @bytes behind a reservation of addresses, which the driver itself takes for its pool; false where they do not fit. */
bool ech_device_memory_take_pages(EchDeviceMemory *memory, EchBytes bytes);
/** Gives so many of them back. */
void ech_device_memory_give_pages(EchDeviceMemory *memory, EchBytes bytes);
/** @n pieces of physical memory of @page bytes; all or none. */
bool ech_device_memory_map(EchDeviceMemory *memory, EchBytes page, uint64_t n);
/** Gives @n pieces of @page bytes back. */
void ech_device_memory_unmap(EchDeviceMemory *memory, EchBytes page, uint64_t n);
/** Start of a new virtual reservation for a stream's pool, and its number. */
uint64_t ech_device_memory_reserve(EchDeviceMemory *memory, uint32_t stream, bool small_pool, uint32_t *ret_number);
