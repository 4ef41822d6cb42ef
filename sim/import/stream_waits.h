/** @file stream_waits.h
 * Which work of a GPU's stream came after which work of another one, as far as a recording does not say it itself: from the calls of the host and the recorded
 * times. Not for what was never run: without times there is nothing to tell it from.
 *
 * Three rules, none of which contradicts the recorded times:
 *  - what the host asked for after other work had ended comes after it: the host made that order, and a replay that leaves out the host's time keeps it. Where
 *    a recording does not say when the host asked, whatever had ended when it began;
 *  - what is asked for next after a call that lets a stream wait (cudaStreamWaitEvent) waits for the stream that was given work last before the call;
 *  - what began late, just when another stream's work had ended, waited for that.
 * The second and third hold only where the waits themselves are not told. Streams of a process's other devices count, too: by the first rule where the
 * host stood still for what had ended, or it is not told when it asked and a copy joins the two devices; by the others for such copies.
 */
#pragma once
#include "sim/import/capture.h"

/** A queue, as far as it matters here. */
typedef struct {
    uint32_t device, process;
    bool stream; /**< Of a GPU; what is not is left alone. */
} EchStreamOf;

/** A call that lets a stream wait (with all waits told: one of those that name no event, which another device's stream recorded), or the host itself. */
typedef struct {
    EchTime time;
    EchTime end;     /**< Of the host's own wait; ECH_TIME_NONE: it is a stream's. */
    uint32_t thread; /**< As EchItem.thread. */
    uint32_t queue;  /**< The stream, or ECH_NONE where it is not told. */
} EchWaitCall;

/** Item @item comes after item @awaited, which comes before it in the list. */
typedef struct {
    uint32_t item, awaited;
} EchStreamWait;

/** EchStreamWait in the order of `item`, of @items in the order in which they were asked for. @calls: EchWaitCall in any order, sorted here. @ret_left_out:
 * streams of a device and process that has more than 256, of which nothing is found. Owned by the caller. */
GArray *ech_stream_waits(const EchItem *items, size_t n_items, const EchStreamOf *queues, uint32_t n_queues, EchWaitsTold told, GArray *calls,
                         uint32_t *ret_left_out) G_GNUC_WARN_UNUSED_RESULT;
