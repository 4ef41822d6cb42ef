/** @file timeline.h
 * The tracks of a run, for writers of timelines: one per queue, one per direction of a link, more where slices would overlap.
 */
#pragma once
#include "sim/report/report.h"

/** What a track stands for. */
typedef enum { ECH_TRACK_QUEUE, ECH_TRACK_LINK } EchTrackGroup;

typedef struct {
    EchTrackGroup group;
    char *name;    /**< "core", "host link to device", "ici link"; lanes above 0 keep it, so that viewers put them together. */
    uint32_t lane; /**< 0, then 1, 2... for slices that overlap the ones before. */
} EchTrack;

/** A span on a track; copies stand on two: their queue's and their link's. What waited for another rank stands there from when it came. */
typedef struct {
    uint32_t track;
    bool waits;  /**< It is that wait, not the span itself. */
    size_t span; /**< Index into the run's spans. */
    EchTime start, end;
} EchSlice;

/** From the end of a copy to the start of an operation that waited for it: indices into slices. */
typedef struct {
    size_t from, to;
} EchArrow;

typedef struct {
    EchTrack *tracks; /**< tracks[n_tracks], queues first, in the trace's order. */
    size_t n_tracks;
    EchSlice *slices; /**< slices[n_slices], by track, then start. On one track they never overlap. */
    size_t n_slices;
    EchArrow *flows; /**< flows[n_flows] */
    size_t n_flows;
} EchTimeline;

/** A queue's name, which no other has: with its device where the trace has queues of several, numbered where captures call several the same. Owned by the
 * caller. */
char *ech_report_queue_name(const EchTrace *trace, EchId queue) G_GNUC_WARN_UNUSED_RESULT;
/** Owned by the caller. */
EchTimeline *ech_timeline_new(const EchReport *report) G_GNUC_WARN_UNUSED_RESULT;
void ech_timeline_free(EchTimeline *timeline);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchTimeline, ech_timeline_free)
/** What a group of tracks is called: "Queues", "Links". */
const char *ech_track_group_name(EchTrackGroup group);
/** What an operation is called: its name, or its kind where it has none. Borrowed. */
const char *ech_slice_name(const EchTrace *trace, const EchOp *op);
/** Iterations that the run skipped stand on a track of their own, of this name. */
#define ECH_TRACK_REPEATS "iterations that repeat"
/** What skip @i of a run is called there: "40 iterations like the one before, 7 us each". Owned by the caller. */
char *ech_skip_label(const EchRun *run, size_t i) G_GNUC_WARN_UNUSED_RESULT;
/** When it ends: its period is rounded, and the next one does not overlap. */
EchTime ech_skip_end(const EchRun *run, size_t i);
/** What a slice is called: as its operation, or "waits for rank 1". Owned by the caller. */
char *ech_slice_label(const EchReport *report, const EchSlice *slice) G_GNUC_WARN_UNUSED_RESULT;
