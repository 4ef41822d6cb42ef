/** @file hbm.h
 * What share of a DRAM channel's rate a pattern of accesses gets: refresh, read-write turnaround, activations and bank conflicts, access granularity.
 *
 * A closed form per pseudo-channel, in the terms of JEDEC's timing parameters; channels are alike, so the share holds for the whole memory. It is held against
 * a cycle-level simulator (tests/unit/dram_sim.h, itself held against DRAMsim3) within 5 points over streams, strides, random accesses and mixes of reads and
 * writes, and against what was measured on GPUs. Presets come from public simulators' configurations: values in nanoseconds do not shrink with a faster bus.
 */
#pragma once
#include "models/device/device.h"
#include "models/layout/layout.h"

/** Timing of a pseudo-channel; times in picoseconds. */
typedef struct {
    const char *name; /**< "hbm2", "hbm2e", "hbm3", "hbm3e". */
    const char *source;
    uint64_t burst_bytes; /**< Smallest access. */
    uint64_t row_bytes;   /**< Of one bank's row buffer. */
    uint64_t banks, groups;
    uint64_t queue;  /**< Requests that the controller reorders, per direction; writes are drained in batches of 7/8 of it. */
    EchTime t_burst; /**< Data bus time of a burst. */
    EchTime t_rcd_read, t_rcd_write, t_rp, t_ras, t_ccd_s, t_ccd_l, t_rrd_s, t_rrd_l, t_faw;
    EchTime t_cwl, t_wr, t_wtr_s, t_wtr_l, t_rtp;
    EchTime t_rtw; /**< Read to write command: CL + burst + 2 clocks - CWL. */
    EchTime t_refi, t_rfc, t_rfc_bank;
    bool per_bank; /**< One bank is refreshed at a time, the others go on (t_rfc_bank each, all of them in t_refi). */
} EchHbm;

typedef enum { ECH_HBM_STREAM, ECH_HBM_STRIDED, ECH_HBM_RANDOM } EchHbmKind;
typedef struct {
    EchHbmKind kind;
    uint64_t run;    /**< Contiguous bytes of a visit, >= 1. */
    uint64_t stride; /**< Strided: bytes from one visit's start to the next. */
    double reads;    /**< Share of reads: 1 only reads, 0 only writes, 0.5 a copy. */
} EchHbmPattern;

/** Useful bytes over the data bus' peak, and what takes the rest: efficiency = granularity x activation x turnaround x refresh. */
typedef struct {
    double efficiency;
    double granularity; /**< Useful bytes over moved ones. */
    double activation;  /**< Rate that rows can be opened at, over the bus'; 1 where the bus is the limit. */
    double turnaround;  /**< Share of time not lost to changes of direction. */
    double refresh;     /**< Share of time not lost to refresh. */
} EchHbmShare;

EchHbmShare ech_hbm_share(const EchHbm *dram, const EchHbmPattern *pattern);
/** Timings of a generation, or NULL. */
const EchHbm *ech_hbm_preset(const char *name);
/** Names of the presets, NULL-terminated. */
const char *const *ech_hbm_names(void);
/** The preset that a memory names (its `dram`), changed by the device's numbers `dram.*` (queue, row_bytes, t_faw, ...). False where it names none. */
bool ech_hbm_of(const EchDevice *device, const EchMemory *memory, EchHbm *ret);
/** How much more of the port a pattern takes than a stream with the same share of reads: 1 for streams, at least 1. */
double ech_hbm_slowdown(const EchHbm *dram, const EchHbmPattern *pattern);
/** How an array of that layout is met by one that takes its rows at random (a gather, a scatter) or turns its dimensions round (a transposition).
 *
 * In tiles rows lie in pieces: as many lanes as the tile has, and where rows are packed into 32-bit words (bf16 in T(8,128)(2,1)) a piece holds its
 * neighbours' bytes too. What turns dimensions round takes whole tiles. Without tiles a row lies in one piece, and turning takes a granule of each.
 * ret_moved: bytes of the memory moved for a useful one, by the packing. */
EchHbmPattern ech_hbm_of_layout(const EchLayout *layout, EchHbmKind kind, uint64_t granule, double reads, double *ret_moved);
