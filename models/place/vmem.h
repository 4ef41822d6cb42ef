/** @file vmem.h
 * The address line of the fast memory over time: chunks, the best-fit search for whole and sliced buffers, and the repacker.
 *
 * As XLA's GlobalDecreasingSizeBestFitHeap: an endless line; of the gaps that fit the smallest, then the lowest; offsets aligned, sizes not.
 */
#pragma once
#include "sim/base/units.h"

#define ECH_VMEM_MAX_SLICES 64

typedef struct {
    int64_t start, end; /**< Steps, closed. */
    int64_t offset, bytes;
} EchVmemChunk;

typedef struct EchVmem EchVmem;

EchVmem *ech_vmem_new(uint32_t n_steps, int64_t alignment) G_GNUC_WARN_UNUSED_RESULT;
void ech_vmem_free(EchVmem *vmem);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchVmem, ech_vmem_free)
void ech_vmem_add(EchVmem *vmem, EchVmemChunk chunk);
/** False when there is no such chunk. */
bool ech_vmem_remove(EchVmem *vmem, EchVmemChunk chunk);
void ech_vmem_clear(EchVmem *vmem);
/** Ours, not XLA's: choose among fitting gaps so that the largest gap stays whole. */
void ech_vmem_keep_largest_gap(EchVmem *vmem, bool on);

/** A buffer to place: @n slices, sizes in the order of their offsets, starts ascending (step from which the i-th copied slice needs its place). */
typedef struct {
    uint32_t n;
    int64_t bytes[ECH_VMEM_MAX_SLICES];
    int64_t starts[ECH_VMEM_MAX_SLICES];
    int64_t end;
    bool all_orders;         /**< Try every order of slices; else three. */
    const int64_t *original; /**< Repacking: start of the slice at the i-th offset as it was; the pairs of size and start must stay. NULL if new. */
} EchVmemRequest;

/** Offset for one whole buffer over [start, end]: the preferred one if it is free (-1 for none), else the best fit. */
int64_t ech_vmem_find(EchVmem *vmem, int64_t start, int64_t end, int64_t bytes, int64_t preferred);
/** The same for a buffer of @bytes that must be free over all of the @n ranges, with room for @room >= bytes above its offset. */
int64_t ech_vmem_find_many(EchVmem *vmem, const int64_t *starts, const int64_t *ends, uint32_t n, int64_t bytes, int64_t room, int64_t preferred);
/** The lowest aligned place at or above @from that leaves @bytes at @within of it free over [start, end]. */
int64_t ech_vmem_find_lowest(EchVmem *vmem, int64_t start, int64_t end, int64_t within, int64_t bytes, int64_t from);
/** Best fit for a sliced buffer; ret_offsets[i] belongs to the slice that starts at starts[i]. False if no place was found. */
bool ech_vmem_find_sliced(EchVmem *vmem, const EchVmemRequest *request, int64_t preferred, int64_t *ret_offsets);
/** Latest step e <= @end such that [offset, offset + bytes) is free over [start, e]; start - 1 if not even at @start. */
int64_t ech_vmem_free_until(const EchVmem *vmem, int64_t start, int64_t end, int64_t offset, int64_t bytes);

/** One placed buffer for the repacker. Blocks of one @group (any number) get one offset. */
typedef struct {
    uint32_t group;
    EchVmemRequest request;                /**< n = 1: whole. */
    int64_t original[ECH_VMEM_MAX_SLICES]; /**< Sliced: start of the slice at the i-th offset. */
    int64_t offsets[ECH_VMEM_MAX_SLICES];  /**< Out: offset of the slice that starts i-th. */
} EchVmemBlock;

/** Places all blocks anew, longest stay first, then largest, then by index. True, and offsets filled, if they end at or below @limit. */
bool ech_vmem_repack(EchVmemBlock *blocks, uint32_t n, uint32_t n_steps, int64_t alignment, int64_t limit);
