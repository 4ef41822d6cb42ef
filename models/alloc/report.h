/** @file report.h
 * Fragmentation explained: what was reserved, used, wasted and stranded at a moment, and which live blocks pin which segments.
 */
#pragma once
#include "models/alloc/events.h"

/** One segment at a moment. */
typedef struct {
    uint32_t segment;
    uint64_t address;
    EchBytes bytes, used, largest_free;
    uint32_t first_block, n_blocks; /**< Live blocks: pins[first_block .. first_block + n_blocks), largest first. */
} EchSegmentReport;

/** A live block in a segment that also has free bytes. */
typedef struct {
    uint32_t id;
    uint32_t born; /**< Event that made it. */
    uint64_t address;
    EchBytes bytes, requested;
} EchPin;

typedef enum { ECH_MOMENT_PEAK, ECH_MOMENT_FAILURE, ECH_MOMENT_END } EchMomentKind;

typedef struct {
    EchMomentKind kind;
    uint64_t event; /**< Index of the event it is after (or at which the request failed). */
    EchBytes asked; /**< FAILURE: bytes. */
    uint32_t asked_id;
    EchFit fit;                 /**< FAILURE */
    EchAllocStats stats;        /**< Then. */
    EchBytes internal_waste;    /**< Rounded minus requested, of live blocks. */
    EchBytes pending;           /**< Freed, but waiting for other streams. */
    EchBytes stranded;          /**< Free bytes in segments that live blocks keep from going back. */
    EchBytes cached;            /**< Free bytes in segments without a live block. */
    EchSegmentReport *segments; /**< segments[n_segments]: those with stranded bytes, most stranded first. */
    uint32_t n_segments;
    EchPin *pins; /**< pins[n_pins] */
    uint32_t n_pins;
    uint32_t n_free;      /**< Free blocks. */
    EchBytes device_free; /**< Of the device's memory, neither taken by the allocator nor beside it. */
    /** FAILURE: where the request would have fitted with the fewest live bytes gone: a run of blocks in one segment. hole.bytes is 0 where no
     * segment is as large. hole_pins[hole.n_blocks], largest first. */
    EchSegmentReport hole;
    EchPin *hole_pins;
    char *picture; /**< The reserved memory by address in 100 columns: '*' used, 'x' wasted by rounding, '_' free (BFC's dump). */
} EchMoment;

typedef struct {
    uint32_t event;
    EchBytes requested, live, reserved;
} EchAllocSample;

/** A request that failed. */
typedef struct {
    uint32_t event, id;
    EchBytes asked, live, reserved;
    EchFit fit;
} EchAllocFailure;

/** Address x time, as characters: ' ' not reserved, '.' reserved and free, then by the used share of what the place stands for: ':' less than
 * half, '+' more, '#' all but a tenth. Addresses that were never reserved are left out. */
typedef struct {
    char **rows; /**< rows[n_rows], the highest addresses first; n_columns characters each. */
    uint32_t n_rows, n_columns;
    EchBytes bytes;   /**< Of all rows: everything that was ever reserved. */
    uint32_t *events; /**< events[n_columns]: the event after which a column was taken. */
} EchAddressMap;

typedef struct {
    GArray *moments;  /**< EchMoment: the peak of reserved bytes, the first failures, the end. */
    GArray *samples;  /**< EchAllocSample, evenly spread. */
    GArray *failures; /**< EchAllocFailure: all, up to ECH_REPORT_MAX_FAILURES. */
    EchAddressMap map;
} EchAllocReport;

#define ECH_REPORT_MAX_FAILURES 100000u

typedef struct {
    uint64_t peak_at;      /**< Event of the peak. */
    unsigned max_failures; /**< Moments for so many failures. */
    unsigned n_samples;
    unsigned map_rows, map_columns; /**< Of the address map; 0: none. */
    const EchSeedBlock *seeds;      /**< Start state, or NULL. */
    size_t n_seeds;
    const EchSegmentRange *script; /**< Where the device puts segments, or NULL. */
    size_t n_script;
} EchAllocReportOptions;

/** Replays once more and looks closely. ECH_ERROR_CONFIG. */
EchAllocReport *ech_alloc_report_new(const char *spec, const EchAllocDevice *device, const EchAllocEvent *events, size_t n,
                                     const EchAllocReportOptions *options, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_alloc_report_free(EchAllocReport *report);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchAllocReport, ech_alloc_report_free)
