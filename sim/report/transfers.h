/** @file transfers.h
 * Recorded copies by kind and by what ran the other way meanwhile: medians, for any trace that recorded times.
 *
 * Two times are told of a copy. *In flight* is its recorded duration. *Waited* is how long a core stood still for it: the recorded duration of a WAIT
 * that depends on it, where the copy has a queue of its own (a DMA engine); in a stream of a GPU the copy itself occupies the queue and nothing is waited.
 * The overlap is that of the waited interval where something waited, of the flight otherwise: the share of it in which a copy of the same device between
 * the same two memories ran the other way. A copy whose end nobody recorded counts as possibly running until its WAIT.
 */
#pragma once
#include "sim/trace/trace.h"

/** ALONE: nothing ran the other way. PARTLY: in at most half of the time. AGAINST: in more. UNTIMED: no end recorded. */
typedef enum { ECH_OVERLAP_ALONE, ECH_OVERLAP_PARTLY, ECH_OVERLAP_AGAINST, ECH_OVERLAP_UNTIMED, ECH_N_OVERLAPS } EchOverlap;

/** The median of what was told (waited where a core stood still, else in flight) on one device. */
typedef struct {
    uint32_t device;
    EchTime median;
} EchTransferMedian;

/** Copies of one name, size, pair of memories and overlap, over all devices. */
typedef struct {
    EchId name;            /**< String id. */
    const char *from, *to; /**< Kinds of memories: "hbm:3" counts as "hbm". Owned by the list. */
    EchBytes bytes;
    EchOverlap overlap;
    uint64_t count;
    EchTime in_flight;          /**< Median, or ECH_TIME_NONE. */
    EchTime waited;             /**< Median, or ECH_TIME_NONE where nothing waited. */
    EchTransferMedian *devices; /**< devices[n_devices], by device; empty where nothing was timed. */
    size_t n_devices;
    EchTime total; /**< Sum of what was told (waited, else in flight), for the order. */
} EchTransferRow;

typedef struct {
    EchTransferRow *rows; /**< rows[n], longest total first. */
    size_t n;
    GPtrArray *names; /**< Owner of the memories' names. */
} EchTransfers;

/** Copies between different memories. Owned by the caller. */
EchTransfers *ech_transfers_new(const EchTrace *trace) G_GNUC_WARN_UNUSED_RESULT;
void ech_transfers_free(EchTransfers *transfers);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchTransfers, ech_transfers_free)
const char *ech_overlap_name(EchOverlap overlap);
