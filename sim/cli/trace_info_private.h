/** @file trace_info_private.h
 * What trace_info.c gathers and trace_info_text.c prints.
 */
#pragma once
#include "sim/cli/trace_info.h"
#include "sim/report/padding.h"
#include "sim/report/transfers.h"

/** One name of recorded operations, on one device or on all: how often, and how long. */
typedef struct {
    EchId name;
    const char *text; /**< Of the name: equal totals are ordered by it, not by an id that a file may renumber. */
    uint8_t kind;
    uint32_t device;   /**< 0 where the row is of all devices. */
    bool on_device;    /**< A mark among the device's work: profilers tell a range twice, as the host was in it and as what it had asked for ran. */
    bool twice;        /**< So it is here. */
    GArray *durations; /**< EchTime, ascending. */
    EchTime total, median;
} EchNameInfo;

/** What lies in a memory of the trace. */
typedef struct {
    const char *name;
    size_t allocations;
    EchBytes peak, end_live;
    EchPadding *padding;
} EchMemoryInfo;

struct EchTraceInfo {
    const EchTrace *trace;
    uint64_t ops[ECH_N_OP_KINDS];
    uint64_t memsets; /**< Kernels of the runtime that fill; counted apart from the program's own. */
    EchBytes allocated, h2d, d2h, d2d, h2h;
    EchBytes managed;                    /**< Most of managed memory at one time; 0: there is none. */
    EchBytes prefetch_h2d, prefetch_d2h; /**< Asked to be moved of it; not among the copies. */
    EchBytes migrated_h2d, migrated_d2h; /**< Recorded migrations; among the copies. */
    EchTime first, last;                 /**< Recorded; last is ECH_TIME_NONE where nothing was. */
    EchTime kernel, copy, memset;
    /** Shares by EchOrigin: bytes of copies, uses of kernels, operation counts of kernels; kernels without any are absent. */
    uint64_t copy_bytes[4], kernel_bytes[4], kernel_work[4], alloc_bytes[4], loop_trips[4];
    EchId main;                           /**< The memory that peak and end are of; ECH_NONE: of all. */
    EchBytes peak, end_live;              /**< Of the main memory, as asked for. */
    EchBytes end_allocated, end_reserved; /**< The ends as the file has them, where it does: blocks with what rounding added. */
    bool end_reserved_known;
    EchMemoryInfo *memories; /**< memories[n_memories of the trace] */
    GPtrArray *names;        /**< EchNameInfo of all devices together, longest total first, */
    GPtrArray *by_device;    /**< and of each. */
    EchTransfers *transfers;
};
