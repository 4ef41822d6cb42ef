/** @file managed.h
 * Unified (managed) memory of an NVIDIA GPU: which of its blocks lie on the device, and what comes and goes where some are touched that do not.
 *
 * As NVIDIA's open driver has it (open-gpu-kernel-modules 595.45.04, kernel-open/nvidia-uvm): memory is had in blocks of 2 MiB of addresses. A block that a
 * kernel touches for the first time is made on the device, without a copy. Where the device is full the block goes that became resident longest ago, whatever
 * was used since, of which the hardware says nothing (uvm_pmm_gpu.c: a chunk goes to the end of the list of used ones when its first page becomes resident,
 * and the first of that list is evicted, after those that nothing is in); it is copied to the host, written or not. So a program that goes round in more
 * memory than there is has every block copied in and out in every round. What is not managed comes first: the allocator of all device memory has managed
 * blocks evicted, by the same rule, where an ordinary request finds no free ones (uvm_pmm_gpu_pma_evict_pages, called by pmaAllocatePages).
 *
 * Over NVLink-C2C the GPU reads and writes the host's memory itself: what found no room on the device stays on the host, and is reached there (assumed: nothing
 * migrates later; what the host wrote comes when it is touched as long as there is room). Over any link so are blocks whose preferred location is the host, or
 * that are mapped for the device (cudaMemAdviseSetAccessedBy), while they lie there (uvm_va_block.c, block_select_processor_residency).
 *
 * Not here: pinning of pages that thrash between host and device (uvm_perf_thrashing.c), which evictions do not count for, and access counters.
 */
#pragma once
#include "models/device/device.h"

typedef struct EchManaged EchManaged;

/** What cudaMemAdvise said of an allocation. A preferred location on the device changes nothing here: such blocks come when they are touched, and go like
 * others. */
enum {
    ECH_ADVICE_READ_MOSTLY = 1, /**< Blocks that are only read stay on the host, too, and need no copy when they go. */
    ECH_ADVICE_ON_HOST = 2,     /**< Preferred location: the host. */
    ECH_ADVICE_ON_DEVICE = 4,
    ECH_ADVICE_MAPPED = 8 /**< Accessed by the device. */
};

/** An allocation, or all of a memory. */
typedef struct {
    uint64_t address; /**< No two live ranges have a block in common. */
    EchBytes bytes;
    unsigned advice;
    bool of_host; /**< What is read before anything wrote it was written by the host. */
} EchManagedRange;

/** Bytes that cross the link. */
typedef struct {
    EchBytes to_device, from_device; /**< In blocks that come and go. */
    EchBytes read, written;          /**< Of blocks that stay on the host. */
    bool faults;                     /**< Blocks came because they were touched. */
} EchMigration;

/** Nothing is resident yet. @room: bytes of the device that managed memory may have; less than a block counts as one. @coherent: NVLink-C2C. */
EchManaged *ech_managed_new(EchBytes room, bool coherent) G_GNUC_WARN_UNUSED_RESULT;
void ech_managed_free(EchManaged *managed);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchManaged, ech_managed_free)

/** What is not managed has taken some of the room, or given it back; adds what goes for it. */
void ech_managed_set_room(EchManaged *managed, EchBytes room, EchMigration *migration);
/** A kernel or copy on the device touches @bytes of @range from @offset on, from their beginning to their end; adds what crosses the link for it. */
void ech_managed_touch(EchManaged *managed, const EchManagedRange *range, EchBytes offset, EchBytes bytes, bool reads, bool writes, EchMigration *migration);
/** All blocks that @bytes of @range from @offset on lie in come to the device, or go to the host. */
void ech_managed_move(EchManaged *managed, const EchManagedRange *range, EchBytes offset, EchBytes bytes, bool to_device, EchMigration *migration);
/** @range is no more: nothing is copied. */
void ech_managed_forget(EchManaged *managed, const EchManagedRange *range);

/** Bytes in blocks that lie on the host alone, and on the device, now. */
EchBytes ech_managed_on_host(const EchManaged *managed);
EchBytes ech_managed_on_device(const EchManaged *managed);

/** Share of a link's rate that migration by faults, or of blocks out and others in, reaches: the driver moves a block out, then another in, and takes time for
 * faults and page tables. Measured: a triad over 24 GiB on a V100 of 16 GB takes 5108 ms (RRZE-HPC/gpu-benches, um-stream) where those bytes, out and in over
 * its 12.36 GB/s, take 4170. */
#define ECH_MANAGED_SHARE 0.816

/** How long the device's work waits for it over @link, the host's, alone: blocks one after the other, what stays on the host both ways at once. */
EchTime ech_managed_time(const EchLink *link, const EchMigration *migration);
