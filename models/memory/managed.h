/** @file managed.h
 * Unified (managed) memory of an NVIDIA GPU with more of it in use than the device has: which of its blocks lie on the device, and what comes and goes where
 * some are touched that do not.
 *
 * As NVIDIA's open driver has it (open-gpu-kernel-modules, kernel-open/nvidia-uvm): memory is had in blocks of 2 MiB of addresses. A block that a kernel
 * touches for the first time is made on the device, without a copy. Where the device is full the block goes that became resident longest ago, whatever was
 * used since, of which the hardware says nothing (uvm_pmm_gpu.c: a chunk goes to the end of va_block_used when its first page becomes resident, and the first
 * of that list is evicted); it is copied to the host, written or not. So a program that goes round in more memory than there is has every block copied in and
 * out in every round.
 *
 * Over NVLink-C2C the GPU reads and writes the host's memory itself: what found no room on the device stays on the host, and is reached there (assumed: nothing
 * migrates later).
 */
#pragma once
#include "models/device/device.h"

typedef struct EchManaged EchManaged;

/** Bytes that cross the link. */
typedef struct {
    EchBytes to_device, from_device;
} EchMigration;

/** Nothing is resident yet. @capacity: bytes of the device that managed memory may have; less than a block counts as one. @coherent: NVLink-C2C. */
EchManaged *ech_managed_new(EchBytes capacity, bool coherent) G_GNUC_WARN_UNUSED_RESULT;
void ech_managed_free(EchManaged *managed);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchManaged, ech_managed_free)

/** A kernel or copy on the device touches [address, address + bytes), from its beginning to its end; adds what crosses the link for it. */
void ech_managed_touch(EchManaged *managed, uint64_t address, EchBytes bytes, bool reads, bool writes, EchMigration *migration);

/** Bytes in blocks that lie on the host now. */
EchBytes ech_managed_on_host(const EchManaged *managed);

/** Share of a link's rate that migration reaches: the driver moves a block out, then another in, and takes time for faults and page tables. Measured: a triad
 * over 24 GiB on a V100 of 16 GB takes 5108 ms (RRZE-HPC/gpu-benches, um-stream) where those bytes, out and in over its 12.36 GB/s, take 4170. */
#define ECH_MANAGED_SHARE 0.816

/** How long the device's work waits for it over @link, the host's, alone. @coherent: at the link's own rates, both ways at once. */
EchTime ech_managed_time(const EchLink *link, const EchMigration *migration, bool coherent);
