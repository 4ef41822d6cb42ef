/** @file pretend_private.h
 * What the files of the reader of pretended captures share: pretend.c has the format and goes through its lines, pretend_ranges.c keeps what ranges are open,
 * pretend_work.c makes items of what the device is asked for, pretend_uses.c says which arrays these use and whom they meet, pretend_sizes.c, at the end, what
 * kernels read, write and compute.
 *
 * Each function that adds something takes the line in Reader.lines; errors are ECH_ERROR_PARSE with its place.
 */
#pragma once
#include "sim/import/gpu_work.h"
#include "sim/import/kernel_arguments.h"
#include "sim/import/lines.h"
#include "sim/import/page_cache.h"
#include "sim/import/xla_folders.h"

/* So many inputs of an operator are looked at. */
enum { MAX_INPUTS = 4096 };

/* A text of the file as it stands there, with its escapes. */
typedef struct {
    const char *at;
    size_t n;
    EchId string;            /* Of a kernel or of a program's; ECH_NONE until asked for. */
    EchArguments *arguments; /* Likewise; NULL. */
    GArray *uses;            /* EchGpuUse: of a generated kernel's range; likewise. */
} Text;

/* An open range, and whether it says sizes. */
typedef struct {
    uint32_t path, call; /* call: UINT32_MAX where no range around says sizes */
    uint32_t module;     /* path of the innermost module; UINT32_MAX outside of all */
    uint32_t called;     /* the same of those that were called; what was compiled tells of others below it */
    uint32_t beneath;    /* what is around the innermost node of a backward pass; UINT32_MAX: nothing */
    EchId node;          /* and its name; ECH_NONE outside of all */
    uint32_t backward;   /* how many of these are around it: more than one where a node runs a backward pass of its own */
    bool evaluates;      /* autograd runs the node that is within */
} Range;

/* From then on, what asks is within this path; UINT32_MAX: within none. */
typedef struct {
    EchTime time;
    uint32_t path;
} Moment;

typedef struct {
    uint32_t parent;         /* UINT32_MAX at the outermost */
    EchId name, text, label; /* text, label: ECH_NONE until asked for */
} Path;

/* One call of an operator whose range says sizes. What it launched while a graph was captured is launched by each launch of the graph: calls of their own. */
typedef struct {
    EchGpuCall shared;
    uint32_t name;   /* of its range */
    uint32_t around; /* that of the innermost range around it that tells types; 0: there is none, or its own does */
    EchDtype dtype;
    bool read, settled;
    bool of_python;   /* no operator: the arrays of its kernels tell what these move */
    uint32_t lengths; /* in the reader's list + 1; 0: none */
    uint32_t again;   /* its call in the launch of a graph */
    uint64_t launch;  /* which that is, from 1 on; 0: none yet */
} Call;

/* What work is asked for within; UINT32_MAX where there is no such range. */
typedef struct {
    uint32_t path, call;
} Within;

/* Work that was captured into a graph, where that was, and the range there that is a mark, or ECH_NONE. */
typedef struct {
    Within where;
    EchId step;
} Node;

/* What an item is besides: of kernels. */
typedef struct {
    uint32_t item, call;
    uint32_t compiled;   /* in the reader's compiled launches + 1; 0: none of XLA's */
    uint32_t product;    /* number of the text that is its launch as a product; 0: not told */
    EchDtype dtype;      /* of what it multiplies */
    uint64_t multiplied; /* operations; 0: not told */
    uint64_t lanes[2];   /* operations of lanes, on up to 32 and on 64 bits */
    bool by_code;        /* That, and all that it moves, is told by its own code. */
    EchGpuLaunch launch;
} Kernel;

/* The newest record of an event. */
typedef struct {
    uint32_t queue;
    EchTime time;
} Recorded;

/* The run of a compiled program that asked for something last, on a device; what it launches together. */
typedef struct {
    uint64_t run;
    EchId last;       /* instruction */
    GHashTable *seen; /* instructions of this launch */
} Run;

typedef struct {
    EchImport *ret;
    EchSource *source;
    EchCapture *capture;
    EchTraceBuilder *builder;
    EchLines lines;
    GString *scratch;
    GArray *texts;      /* Text, of number i + 1 */
    GArray *calls;      /* Call */
    GArray *kernels;    /* Kernel */
    GArray *addresses;  /* uint64_t: of one parameter */
    uint32_t worked;    /* Item of the newest work; UINT32_MAX: none */
    Text *launched;     /* Its name, if it is a kernel's launch; NULL */
    GArray *paths;      /* Path */
    GHashTable *index;  /* parent path and name -> path + 1 */
    GHashTable *open;   /* thread -> GArray of Range */
    GArray *active;     /* Of the thread that opened or closed a range last; of `open`, or NULL */
    uint32_t thread;    /* that one; 0 where none has */
    GHashTable *events; /* event -> Recorded */
    GArray *backward;   /* EchTime: when backward passes began */
    bool runs_backward; /* One did, and no other operator since. */
    bool marked;        /* A module or an optimizer is. */
    GHashTable *nodes;  /* thread and sequence number -> path of a module + 1 */
    GArray *moments;    /* Moment */
    GHashTable *names;  /* of ech_gpu_name_of */
    EchTime newest;
    uint64_t budget;             /* Bytes of stacks that may still be written out... */
    uint64_t to_look_at;         /* ...and of names that may still be looked at. */
    GArray *nodes_of_graphs;     /* Node: of number i + 1 */
    uint64_t n_launches;         /* Of graphs. */
    EchId step_of_launch;        /* The range that its work until now stood in last, if that is a step of the program; ECH_NONE. */
    uint64_t of_graph;           /* Lines of work that are still to come of a graph's launch. */
    bool in_graph;               /* Not the first of them. */
    uint32_t operators;          /* Begun since the host asked before. */
    bool eager;                  /* Any were begun. */
    bool behind_copy;            /* Nothing was told since the last copy, but for what it uses: no range ended or began. */
    uint64_t node;               /* The next work's; 0: none. */
    GArray *lengths;             /* EchGpuLengths */
    bool meets_told, sends_told; /* of the work before: a line of each kind, so that its words do not grow with every line */
    GHashTable *met;             /* EchMeeting, a group and in place of its times a device: how often that has taken part in the group's collectives so far */
    bool next_lengths;           /* The last of them are the next work's. */
    GArray *compiled;            /* EchXlaLaunch */
    uint64_t newest_run;         /* of a compiled program */
    EchBytes staged_bytes;       /* copied between devices of which neither reaches the other */
    GHashTable *runs;            /* device -> Run */
    char *device;                /* that was pretended; NULL: not told */
    GString *with;               /* measures of PyTorch's that it was captured with, and has not itself: "autocast=bfloat16,fused" */
    uint64_t clock_ns, reserved, peak_reserved, n_refused, largest_refused, n_served_late;
    uint64_t n_unmasked;              /* kernels of FlexAttention's of which nothing says what their masks leave */
    uint64_t refused, refused_device; /* the last request that the driver had no room for, bytes; 0: none, or it was served since */
    bool pool_wanted;                 /* by the program itself, not in the place of another */
    bool of_tensorflow, of_xla;       /* it launched kernels that are called as these call theirs */
    bool of_framework;                /* or PyTorch, CuPy, Numba and other parts of TensorFlow theirs */
    uint64_t n_blocks, n_of_pool;     /* of the device that the program asked for; by cudaMallocAsync */
    uint64_t n_host_work;
    EchBytes host_work_bytes; /* read and written */
    EchPageCache *page_cache;
    EchBytes file_bytes; /* written to files by the page cache */
    EchBytes pinned;     /* of the host's memory, now */
    uint64_t first_device;
    bool any_device;
} Reader;

/* ---- pretend.c ---- */

/** The text of a range or a name without its escapes; in r->scratch, which it overwrites. */
const char *ech_pretend_plain(Reader *r, const char *at, size_t n);
/** NULL and an error where no such text was told. */
Text *ech_pretend_text_of(Reader *r, uint64_t number, GError **error);
EchId ech_pretend_string_of(Reader *r, const Text *text);
/** The same, of a text that is asked for often. */
EchId ech_pretend_kept_string_of(Reader *r, Text *text);
/** Nanoseconds to picoseconds; threads may write their lines a little out of order, and a time that does not fit is that of the line before. */
EchTime ech_pretend_time_of(Reader *r, uint64_t nanoseconds);
uint32_t ech_pretend_stream_queue(Reader *r, uint64_t device, uint64_t stream);
/** What asks the driver for such memory. */
const char *ech_pretend_memory_name(uint64_t kind);
/** Where @kind is allocated; copies of managed memory are the device's to make, and find it there. */
uint8_t ech_pretend_tier_of(uint64_t kind);
bool ech_pretend_is_managed(uint64_t kind);

/* ---- pretend_ranges.c ---- */

EchId ech_pretend_path_text(Reader *r, uint32_t at);
GArray *ech_pretend_ranges_of(Reader *r, uint64_t thread);
/** Launches do not say their thread: a range is around what is asked for while its thread was the last to open or close one, or to be named. */
const Range *ech_pretend_innermost(const Reader *r);
Within ech_pretend_within(const Reader *r);
void ech_pretend_mark_in(Reader *r, const char *queue, EchTime time, const char *name, size_t length);
void ech_pretend_mark_at(Reader *r, EchTime time, const char *name, size_t length);
void ech_pretend_mark_here(Reader *r, uint64_t time, const char *name, size_t length);
/** Ranges that people open themselves and optimizers' steps are marks; operators, what autograd opens and what compiled graphs do are not. */
bool ech_pretend_is_step(const char *name, const Range *around);
bool ech_pretend_add_push(Reader *r, GError **error);
void ech_pretend_add_pop(Reader *r);
bool ech_pretend_add_mark(Reader *r, GError **error);
/** Blocks of a backward pass have no line of Python: the range that was open then says whose they are. */
void ech_pretend_name_block(void *data, EchTime time, EchId *ret_name, EchId *ret_stack);

/* ---- pretend_work.c ---- */

bool ech_pretend_add_captured(Reader *r, GError **error);
bool ech_pretend_add_node(Reader *r, GError **error);
void ech_pretend_add_lengths(Reader *r);
bool ech_pretend_add_kernel(Reader *r, GError **error);
bool ech_pretend_add_library(Reader *r, GError **error);
/** The newest kernel's own products, as its author's tiles and loops tell them. */
bool ech_pretend_add_products(Reader *r, GError **error);
bool ech_pretend_add_lanes(Reader *r, GError **error);
bool ech_pretend_add_units(Reader *r, GError **error);
bool ech_pretend_add_atomics(Reader *r, GError **error);
bool ech_pretend_add_code(Reader *r, GError **error);
/** How the newest kernel's elements lie: neighbours apart, or by how many dimensions. */
bool ech_pretend_add_places(Reader *r, bool sectors, GError **error);
/** A kernel's own products stand where its operator does not say what it multiplies: the shape, too, if it is one. */
bool ech_pretend_take_products(Reader *r, const Kernel *kernel, EchGpuLaunch *launch, EchItemWork *work);
bool ech_pretend_add_host_work(Reader *r, GError **error);
bool ech_pretend_add_file(Reader *r, GError **error);
void ech_pretend_add_copy(Reader *r);
void ech_pretend_add_prefetch(Reader *r);
void ech_pretend_add_advice(Reader *r);
void ech_pretend_add_set(Reader *r);
/** The host pins @bytes, and asks the device for nothing until it has. */
void ech_pretend_add_pinning(Reader *r, EchBytes bytes, bool fresh);
/** Memory of the host that is pinned where it lies, or is not any more. */
void ech_pretend_add_registered(Reader *r, EchItemKind kind);
void ech_pretend_add_memory(Reader *r, EchItemKind kind);
/** The request refused last was not served. */
void ech_pretend_settle_refused(Reader *r);
void ech_pretend_add_refused(Reader *r);
void ech_pretend_add_event_record(Reader *r);
void ech_pretend_add_event_wait(Reader *r);
void ech_pretend_add_sync(Reader *r);
bool ech_pretend_add_collective(Reader *r, GError **error);
void ech_pretend_add_device(Reader *r);
bool ech_pretend_add_name(Reader *r, GError **error);

/* ---- pretend_uses.c ---- */

bool ech_pretend_add_known_uses(Reader *r, GError **error);
void ech_pretend_free_run(gpointer data);
bool ech_pretend_add_of(Reader *r, GError **error);
bool ech_pretend_add_meetings(Reader *r, bool sends, GError **error);
/** Hosts tell one another something: who hears it waits for all that tell it, who tells it for nobody. */
bool ech_pretend_add_host_meeting(Reader *r, bool tells, GError **error);
bool ech_pretend_add_arguments(Reader *r, GError **error);

/* ---- pretend_sizes.c ---- */

/** Traffic, operations and shape of every kernel, from the sizes of its operator, its name and its launch. */
void ech_pretend_infer_traffic(Reader *r);
