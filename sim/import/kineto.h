/** @file kineto.h
 * What the two halves of the Kineto reader share: kineto.c reads events, kineto_join.c joins them once all are there. Short type names, because nothing else
 * includes it.
 */
#pragma once
#include "sim/import/capture.h"
#include "sim/import/gpu_work.h"
#include "sim/import/json_stream.h"
#include "sim/import/onnx_nodes.h"

typedef enum {
    CAT_OTHER,
    CAT_KERNEL,
    CAT_MEMCPY,
    CAT_MEMSET,
    CAT_RUNTIME,
    CAT_CPU_OP,
    CAT_PYTHON,
    CAT_ANNOTATION,
    CAT_GPU_ANNOTATION,
    CAT_INSTANT,
    CAT_SYNC,
    CAT_FLOW,
    CAT_NODE
} Category;

/* An interval of a CPU thread that may enclose launches. */
typedef struct {
    EchTime start, duration;
    EchId name;
    uint32_t thread;
} Span;

/* A runtime or driver call. */
typedef struct {
    int64_t correlation;
    EchTime start, end;
    uint32_t thread;
    uint8_t role;       /* SYNC_..., else 0 */
    bool in_work_items; /* its kernel's grid counts threads, not blocks */
} Launch;
enum { SYNC_NONE, SYNC_STREAM, SYNC_DEVICE, SYNC_EVENT, SYNC_STREAM_WAIT };

/* Bytes that a copying call was asked for: ROCm says them there, and not always in the copy itself. */
typedef struct {
    int64_t correlation;
    uint64_t bytes;
} Asked;

/* What a reader's own items need besides. */
typedef struct {
    int64_t correlation; /* -1 none */
    int64_t external;    /* -1 none */
    uint32_t thread;
    uint32_t launch; /* of kernels, or ECH_NONE */
} Side;

/* A call of PyTorch's distributed layer, which encloses the launch of its collective: "nccl:all_reduce" says what is sent, c10d's operators how many share. */
typedef struct {
    EchTime start, end;
    uint64_t bytes; /* 0: not said here */
    uint32_t thread, group, kernels;
    uint8_t kind; /* EchCollective */
} Comm;

/* A collective that says whom it meets, before those of its group are numbered. */
typedef struct {
    uint64_t group;
    uint32_t item, process;
    int64_t from, to; /* ranks of a message; -1: this one, or not said */
} Met;

/* Traffic of a CPU operator, by "External id". */
typedef struct {
    int64_t external;
    EchGpuCall call;
} Shape;

enum { MAX_KINDS = 256, MAX_INPUTS = 24, MAX_RANK = ECH_GPU_MAX_RANK, MAX_SPACES = 1000 };

typedef EchGpuInput Input;

/* Total Allocated before the first event of a memory, Total Reserved after the first and after the last. */
typedef struct {
    uint8_t tier;
    uint32_t device;
    EchTime first, last;
    uint64_t baseline, first_reserved, reserved, peak_reserved;
} Use;

typedef struct {
    char phase;
    Category category;
    uint32_t kind_index; /* in kinds, or ECH_NONE */
    bool has_time, has_duration;
    int64_t stamp_us; /* "ts", with what is behind the point */
    int32_t stamp_ps;
    EchTime start, duration; /* start: from base_us on */
    int64_t pid, tid, correlation, external, stream, device, bytes, address, total_allocated, total_reserved, device_type, device_id, wait_stream, wait_record,
        from_device, to_device, shared, registers, sent_elements, group, sequence, from_rank, to_rank, node, parameters, output, in_use, rank, raw_pid;
    uint8_t has_bytes, has_address, has_reserved, has_allocated;
    uint32_t process; /* of a file in which several are merged: its place in `processes` + 1; else 0 */
    EchGpuLaunch launch;
    GString *name, *kind, *sync, *collective, *dtype, *ranks, *of_group; /* the last four: what PyTorch says of NCCL's kernels */
    GString *op, *provider;                                              /* of ONNX Runtime's nodes */
    size_t n_inputs, n_types, n_details;                                 /* dims, types, strides and concrete values */
    Input inputs[MAX_INPUTS];
} Event;

/* A word that stood under "cat". */
typedef struct {
    char *name;
    size_t n;
    Category category;
    guint count;
} Kind;

typedef struct {
    EchImport *ret;
    EchJson *json;
    EchCapture *capture;
    EchTraceBuilder *builder;
    GArray *spans, *launches, *asked, *sides, *shapes, *uses, *kernels, *comms; /* Span, Launch, Asked, Side, Shape, Use, EchGpuLaunch, Comm */
    GArray *met;                                                                /* Met */
    int64_t world;                                                              /* processes of the run, or 0 */
    int64_t rank;                                                               /* of this one, or -1 */
    GHashTable *threads;                                                        /* tid -> index + 1 */
    GHashTable *processes;                                                      /* names of merged ones -> place + 1 */
    bool taken[MAX_SPACES];                                                     /* numbers of devices */
    GHashTable *numbered;                                                       /* process and device -> that number + 1 */
    GArray *kinds;                                                              /* Kind, in the order of the file */
    Event e;
    bool has_base;
    int64_t base_us;
    int64_t base_ns;                                    /* baseTimeNanoseconds */
    uint64_t n_events, n_syncs, n_host_syncs, n_halves; /* halves: events told by a beginning and an end */
    uint64_t n_stream_waits, n_untold;                  /* of streams: those that say what for, and those that do not */
    bool events_seen;
    bool takes_memory; /* a call takes memory of the device */
    EchOnnxNodes *nodes;
    bool pytorch;          /* it has what PyTorch's profiler alone writes beside its events */
    const char *elsewhere; /* what it ran on, where that is no device whose work is read; or NULL */
    GString *keys;         /* the first ones of the document, for the message when it is no trace */
    const char *where;
} Reader;

/** Adds an item with what joins it to its call and its operator; -1 and UINT32_MAX where there is none. */
void ech_kineto_add_item(Reader *r, const EchItem *item, int64_t correlation, int64_t external, uint32_t thread);
/** Bytes of copies, times of issue, what the host waited for, traffic of kernels and stacks, from what was read besides the items; gives that back. */
void ech_kineto_join(Reader *r);
