/** @file select.h
 * A part of a trace, or the same trace told otherwise: one device of a capture of many, operations held back until their recorded start,
 * recorded durations forgotten. For comparing predictions with recordings.
 */
#pragma once
#include "sim/trace/trace.h"

typedef struct {
    /** Keep what ran on this device of the capture; ECH_NONE: all. Its memories lose their ":N", those of another that have none get it. Queues of the host
     * stay. Dependencies on what is left out are forgotten. */
    uint32_t device;
    /** The capture's other devices are selected one by one, too, to be replayed together (ech_replay_run_together): what depends on work of another of them
     * meets it there (meets.h), and waits for nothing but what it waited for. */
    bool together;
    /** Hold kernels, copies and collectives back until their recorded start: a queue "clock" of delays comes first. */
    bool clock;
    /** Forget the recorded durations of kernels of which bytes, operations or an estimate are known, so that no model can use them. */
    bool forget;
    /** Copies that their recorded name calls pageable ("Memcpy HtoD (Pageable -> Device)") come from or go to this memory in place of "host"; NULL: as
     * recorded. Borrowed. */
    const char *pageable;
} EchSelectOptions;

/** A property of what was selected of one device alone: "1 (840 kernels), 2 (12 kernels)", the other devices that the program's kernels run on. */
#define ECH_TRACE_OTHER_DEVICES "other_devices"
/** Properties of what was selected of a capture of several devices: the device's number; whether it is to be replayed together with the others. */
#define ECH_TRACE_DEVICE "device_of_several"
#define ECH_TRACE_TOGETHER "devices_together"
/** How many processes the devices of a capture are of, where those are several. */
#define ECH_TRACE_PROCESSES "processes"
/** The number by which a trace is told among others that are replayed with it: its device's where they are those of one capture, else its rank's, or @place. */
uint64_t ech_trace_number(const EchTrace *trace, uint64_t place);
/** The selected trace; @ret_ops[n_ops of @trace] gets the new number of each operation, ECH_NONE for those left out (may be NULL). Traces with
 * loops can only be forgotten: ECH_ERROR_UNSUPPORTED for the rest. */
EchTrace *ech_trace_select(const EchTrace *trace, const EchSelectOptions *options, EchId *ret_ops, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/** Whether memories of several devices have names in it, although one may have done all the work. */
bool ech_trace_is_of_several(const EchTrace *trace);
/** What property @key says of @device alone ("peak_reserved_bytes:1"), or of all where that is one. NULL: nothing. Borrowed. */
const char *ech_trace_property_of(const EchTrace *trace, const char *key, uint32_t device);
/** The device whose allocator a memory belongs to: that of its buffers' queues. False where none has one. */
bool ech_trace_device_of(const EchTrace *trace, EchId memory, uint32_t *ret);

/** The most that a device of the capture held at once of what has a size, bytes. */
EchBytes ech_trace_most_live(const EchTrace *trace, uint32_t device);

/** Ordinals of the devices that kernels, copies or collectives ran on, of a trace that tells of none (an allocator's) those that memory was taken of,
 * ascending; g_free. */
uint32_t *ech_trace_devices(const EchTrace *trace, size_t *ret_n) G_GNUC_WARN_UNUSED_RESULT;

/** A copy from or to pageable memory, as CUPTI's names say it in Kineto's and Nsight's captures and ours; to such memory of which no page was touched yet. */
bool ech_trace_copy_pageable(const EchTrace *trace, const EchOp *op);
bool ech_trace_copy_untouched(const EchTrace *trace, const EchOp *op);
/** A copy to another device's memory, of which neither reaches the other's: over the host's. */
bool ech_trace_copy_staged(const EchTrace *trace, const EchOp *op);
/** A copy between the memories of two devices of the capture. */
bool ech_trace_copy_between(const EchTrace *trace, const EchOp *op);
#define ECH_COPY_TO_UNTOUCHED "Memcpy DtoH (Device -> Pageable, untouched)"

/** What the host's calls are called that pin memory: pages that it has to bring in first, or that are there. */
#define ECH_PIN_NEW "cudaHostAlloc"
#define ECH_PIN_THERE "cudaHostRegister"
/** Whether @op is such a call, and of how many bytes; @ret_new as above. */
EchBytes ech_trace_pins(const EchTrace *trace, const EchOp *op, bool *ret_new);

/** True for a kernel whose time a model can tell without its recording: an estimate, operations, or bytes. */
bool ech_trace_kernel_known(const EchTrace *trace, EchId op);
