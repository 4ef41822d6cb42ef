/** @file check.h
 * The allocator-blind checker: knows nothing of how placements were made, only that live ones must not overlap.
 */
#pragma once
#include "models/alloc/alloc.h"

/** One placement and its life, half-open [begin, end) in any unit of time. */
typedef struct {
    uint64_t address;
    EchBytes bytes;
    uint64_t begin, end;
} EchPlacedRange;

/** True if no two items overlap in both address and time, and each ends at or below @limit (0: no limit).
 * Items of 0 bytes or of no time are fine anywhere. ECH_ERROR_VERIFY names the first offenders by index. */
bool ech_placement_check(const EchPlacedRange *items, size_t n, EchBytes limit, GError **error);

/** The same, step by step, beside a running allocator. */
typedef struct EchPlacementChecker EchPlacementChecker;

EchPlacementChecker *ech_placement_checker_new(void) G_GNUC_WARN_UNUSED_RESULT;
void ech_placement_checker_free(EchPlacementChecker *checker);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchPlacementChecker, ech_placement_checker_free)
/** Allocation @id now lies at [address, address + bytes). ECH_ERROR_VERIFY if that overlaps one that lives. */
bool ech_placement_checker_add(EchPlacementChecker *checker, uint32_t id, uint64_t address, EchBytes bytes, GError **error);
/** It is gone. */
void ech_placement_checker_remove(EchPlacementChecker *checker, uint64_t address);
