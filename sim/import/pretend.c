/* What a program asked of a GPU that was not there (`echelon capture --pretend`): lines of a word and numbers, nanoseconds since `clock`.
 *
 *   echelon-pretend 1
 *   clock REALTIME_NS
 *   device BYTES CONTEXT_BYTES DEVICES "ID"
 *   name NUMBER "TEXT"                                                texts, numbered from 1 on
 *   kernel T DEVICE STREAM NAME GX GY GZ BX BY BZ SHARED              NAME: as people write it
 *   library T DEVICE STREAM NAME LAUNCH READ WRITTEN OPERATIONS DTYPE LAUNCH: as in models/kernel/gpu.h
 *   copy T DEVICE STREAM BYTES FROM_KIND TO_KIND ASYNC                kinds: 0 unknown, 1 pageable, 2 pinned, 3 device, 4 array, 5 managed,
 *                                                                     7 pageable, its pages not yet touched, 8 another device's, over
 *                                                                     the host's memory; ASYNC: 0 the host waits for it,
 *                                                                     2 it does not, and asked for it with the copy before (cudaMemcpyBatchAsync)
 *   set T DEVICE STREAM BYTES
 *   prefetch T DEVICE STREAM BYTES TO_DEVICE                          managed memory moves: its `uses` say which
 *   advise T DEVICE ADDRESS BYTES ADVICE OF_DEVICE                    cudaMemoryAdvise: 1 read mostly, 3 preferred location, 5 accessed by; 2, 4, 6
 *                                                                     take them back
 *   alloc|free T DEVICE STREAM ADDRESS BYTES KIND ASYNC               of the driver; kind 6: NCCL's and modules', beside the program's
 *                                                                     allocator, as is what PyTorch's snapshot does not know of
 *   pin T DEVICE BYTES NEW                                            host memory is pinned where it lies; NEW: its pages were not there yet
 *   registered|unregistered T DEVICE ADDRESS BYTES                    where the memory of `pin` lies, and that it is no longer pinned
 *   refused T DEVICE STREAM BYTES                                     the driver had no room
 *   record T DEVICE STREAM EVENT | wait T DEVICE STREAM EVENT
 *   pool MILLIONTHS GROWS                                             of the memory, which JAX's own pool would take; 0: not told; 1: as it is needed
 *   pool_told BYTES GROWS                                             what the program told TensorFlow's own pool, of each device: to take no more (0: not
 *                                                                     told), and only as it is needed
 *   pool_wanted 1                                                     the program itself wants its arrays one by one of the driver
 *   sync T TYPE DEVICE STREAM EVENT                                   1 event, 3 stream, 4 device, 5 files asked for by handle STREAM
 *   host T DEVICE NAME READ WRITTEN                                   an operator on arrays of the host, which its processor runs before it asks the
 *                                                                     device for more: bytes of them
 *   file T DEVICE NAME FILE HOW FROM BYTES HELD HANDLE                the host reads (HOW 0) or writes (1) these bytes of a file on a disk, or reads
 *                                                                     those of its pages that are mapped and needed (2), around its page cache (4
 *                                                                     more), or by a handle goes on meanwhile (8 more); HELD: bytes of its
 *                                                                     memory that the process has beside files
 *   collective T DEVICE STREAM NAME BYTES RANKS FIRST_STRIDE          NAME: a kind ("all-reduce"), or the kernel of an all-reduce
 *   uses HOW ADDRESS BYTES ...                                        of the work before: 1 reads, 2 writes, 3 both; BYTES 0: not known
 *   args PARAMETER ADDRESS ...                                        of the kernel before: addresses among its parameters, in their order
 *   meets GROUP ...                                                   who takes part in the collective before, a number each: whoever has
 *                                                                     the same number as often before takes part, too
 *   sends BYTES GROUP ...                                             the same of messages that it sends: so many bytes may be under way
 *                                                                     before they are received
 *   of RUN MODULE NUMBER INSTRUCTION                                  a compiled program of XLA's asked for the work before, in this run of all
 *                                                                     programs: its module, which is NUMBER in its process, and which
 *                                                                     instruction of it ("": not told)
 *   tells T NAME GROUP | hears T NAME GROUP                           the host tells others of this group something and goes on, or waits until all that
 *                                                                     tell it have
 *   rank T RANK RANKS                                                 which rank of a program of several processes this one is
 *   captured T NODE                                                   here work was captured into a graph: nodes are numbered from 1 on (older captures
 *                                                                     have no T)
 *   graph T DEVICE STREAM LINES                                       one launch for all of so many lines of work, records and waits that follow
 *   node NODE                                                         the next work is that node's: the ranges around it are those where
 *                                                                     it was captured
 *   lengths SEQUENCES QUERIES KEYS LONGEST SCORES                     of what the next kernel attends to: queries, keys and scores of all
 *                                                                     sequences together (queries and scores 0: not known), keys of the longest
 *   products LAUNCH OPERATIONS DTYPE                                  of the kernel before: what it multiplies in tiles; LAUNCH: as that of one
 *                                                                     product ("": it is none, or several)
 *   sectors N                                                         of the kernel before: of 32 bytes, that 32 neighbours touch in all of its
 *                                                                     arrays, where these do not lie together
 *   axes N                                                            of the kernel before: dimensions by which it computes where elements lie
 *   lanes OPERATIONS OPERATIONS_64 INSTRUCTIONS                       of the kernel before, whose own code was looked at: what its `uses` are is all that it
 *                                                                     moves, and this is what its lanes compute on numbers of up to 32 and of 64 bits;
 *                                                                     instructions of all its warps
 *   code ACCESSES WAVEFRONTS FETCHED CYCLES TRIPS BARRIERS REGISTERS SHARED
 *                                                                     of the kernel before, behind its lanes: what of all its warps goes to the units that
 *                                                                     load and store, and how many lines or words of each bank these let through;
 *                                                                     bytes of sectors that each block reads and each store writes; of the slowest warp
 *                                                                     of each block, of all blocks together, cycles, trips to L2 or beyond beside them,
 *                                                                     and barriers; registers of a thread (0: not known), bytes of shared memory of a
 *                                                                     block beside those that the launch asks for
 *   units SLOTS SLOTS_64 FUNCTIONS GROUPS                             of the kernel before, behind its code: instructions of lanes that take the units for
 *                                                                     arithmetic on numbers of 32 and of 64 bits, special functions; 1: tensor cores
 *                                                                     multiply for groups of four warps
 *   atomics CLOCKS MOST                                               of the kernel before, behind its code: clocks of the units of L2 for sectors that
 *                                                                     atomics and stores change in part, of all together and of the one that has most
 *   push T THREAD NAME | pop T THREAD | mark T THREAD NAME            NVTX ranges
 *   thread THREAD                                                     the next work is asked for by this one, of whose ranges none was opened or closed last
 *   end
 *
 * A kernel without a line of args has parameters that could not be read. What it does with those that could: pointers to const are read, PyTorch's element-wise
 * kernels and Eigen's have their result first, those that TensorFlow's compiler makes last, multi_tensor_apply's functors say which of their lists they write
 * (kernel_arguments.h); for the rest see arrays.h. Kernels that XLA compiled are what their programs' folders say (xla_folders.h). A run of such a program is
 * one launch of the host's, and each round of a loop in it is one, but for collectives: so XLA's CUDA graphs have it on a GPU (xla_gpu_enable_command_buffer of
 * jaxlib 0.10.2), while the capture has it launch them one by one.
 *
 * Lines of other words are passed over. Nothing in such a file was measured: its times say in which order the host asked, and no more.
 */
#include "models/kernel/comm_name.h"
#include "sim/base/compare.h"
#include "sim/base/error.h"
#include "sim/base/fnv.h"
#include "sim/base/hash.h"
#include "sim/import/direct.h"
#include "sim/import/gpu_work.h"
#include "sim/import/kernel_arguments.h"
#include "sim/import/lines.h"
#include "sim/import/page_cache.h"
#include "sim/import/range_sizes.h"
#include "sim/import/reuse.h"
#include "sim/import/xla_folders.h"
#include "sim/trace/meets.h"
#include "sim/trace/ranges.h"
#include "sim/trace/select.h"
#include "sim/trace/step.h"

#include <string.h>

#define MAGIC "echelon-pretend 1\n"
/* Deeper ranges are not kept; operators nest a few dozen deep. */
#define MAX_RANGES 512

/* Longer names are cut: an operator's sizes are, with thousands of arrays. */
#define MAX_NAME ((size_t)64 << 10)
/* Names are told once and looked at for every line that has them. Far fewer of their bytes than this are looked at, but for files that are made to take long.
 */
#define LOOKED_AT_LEAST ((uint64_t)1 << 28)
enum { LOOKED_AT_EACH = 256 }; /* times the file's size, besides */

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

static const Range no_range = {.path = UINT32_MAX, .call = UINT32_MAX, .module = UINT32_MAX, .called = UINT32_MAX, .beneath = UINT32_MAX, .node = ECH_NONE};

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

/* The text of a range or a name without its escapes; in r->scratch, which it overwrites. */
static const char *plain(Reader *r, const char *at, size_t n)
{
    return ech_lines_text(r->scratch, at, n);
}

/* NULL and an error where no such text was told. */
static Text *text_of(Reader *r, uint64_t number, GError **error)
{
    if (number >= 1 && number <= r->texts->len) {
        Text *text = &g_array_index(r->texts, Text, number - 1);
        if (text->n <= r->to_look_at) {
            r->to_look_at -= text->n;
            return text;
        }
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE,
                    "%s:%zu: name %" G_GUINT64_FORMAT " once more, of %zu bytes; names are used far too often for their length", r->lines.where, r->lines.line,
                    number, text->n);
        return NULL;
    }
    g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: name %" G_GUINT64_FORMAT " is not told before; the last one was %u", r->lines.where, r->lines.line,
                number, r->texts->len);
    return NULL;
}

static EchId string_of(Reader *r, const Text *text)
{
    plain(r, text->at, text->n);
    return ech_trace_builder_string(r->builder, r->scratch->str, (gssize)r->scratch->len);
}

/* The same, of a text that is asked for often. */
static EchId kept_string_of(Reader *r, Text *text)
{
    if (text->string == ECH_NONE)
        text->string = string_of(r, text);
    return text->string;
}

/* Nanoseconds to picoseconds; threads may write their lines a little out of order, and a time that does not fit is that of the line before. */
static EchTime time_of(Reader *r, uint64_t nanoseconds)
{
    if (nanoseconds <= (uint64_t)INT64_MAX / 2000)
        r->newest = (EchTime)nanoseconds * ECH_PS_PER_NS;
    return r->newest;
}

static uint32_t stream_queue(Reader *r, uint64_t device, uint64_t stream)
{
    return ech_capture_stream(r->capture, (uint32_t)MIN(device, 65535), (int64_t)stream);
}

/* What asks the driver for such memory. */
static const char *memory_name(uint64_t kind)
{
    static const char *const names[] = {"unknown", "pageable", "cudaMallocHost", "cudaMalloc", "array", "cudaMallocManaged", "NCCL's buffers"};
    return names[kind < G_N_ELEMENTS(names) ? kind : 0];
}

/* Where @kind is allocated; copies of managed memory are the device's to make, and find it there. */
static uint8_t tier_of(uint64_t kind)
{
    return kind == 1 || kind == 2 || kind == 7 ? ECH_TIER_HOST : ECH_TIER_DEVICE;
}

static bool is_managed(uint64_t kind)
{
    return kind == 5;
}

/* ---- ranges ---- */

static uint32_t path_of(Reader *r, uint32_t parent, EchId name)
{
    uint64_t key = (uint64_t)parent << 32 | name;
    uint32_t found = GPOINTER_TO_UINT(g_hash_table_lookup(r->index, &key));
    if (found)
        return found - 1;
    Path path = {parent, name, ECH_NONE, ECH_NONE};
    g_array_append_val(r->paths, path);
    g_hash_table_insert(r->index, g_memdup2(&key, sizeof key), GUINT_TO_POINTER(r->paths->len));
    return r->paths->len - 1;
}

static EchId path_text(Reader *r, uint32_t at)
{
    Path *path = &g_array_index(r->paths, Path, at);
    if (path->text != ECH_NONE || r->budget == 0)
        return path->text != ECH_NONE ? path->text : path->name;
    g_string_truncate(r->scratch, 0);
    for (uint32_t i = at; i != UINT32_MAX && r->scratch->len <= r->budget; i = g_array_index(r->paths, Path, i).parent) {
        if (r->scratch->len)
            g_string_append_c(r->scratch, '\n');
        g_string_append(r->scratch, ech_trace_builder_peek_string(r->builder, g_array_index(r->paths, Path, i).name));
    }
    r->budget -= MIN(r->budget, r->scratch->len);
    path->text = ech_trace_builder_string(r->builder, r->scratch->str, (gssize)r->scratch->len);
    return path->text;
}

static GArray *ranges_of(Reader *r, uint64_t thread)
{
    GArray *open = g_hash_table_lookup(r->open, &thread);
    if (!open) {
        open = g_array_new(FALSE, FALSE, sizeof(Range));
        g_hash_table_insert(r->open, g_memdup2(&thread, sizeof thread), open);
    }
    return open;
}

/* Launches do not say their thread: a range is around what is asked for while its thread was the last to open or close one, or to be named. */
static const Range *innermost(const Reader *r)
{
    return r->active && r->active->len > 0 ? &g_array_index(r->active, Range, MIN(r->active->len, MAX_RANGES) - 1) : NULL;
}

static Within within(const Reader *r)
{
    const Range *range = innermost(r);
    return range ? (Within){range->path, range->call} : (Within){UINT32_MAX, UINT32_MAX};
}

static void mark_in(Reader *r, const char *queue, EchTime time, const char *name, size_t length)
{
    EchItem item = ech_item_init(ECH_ITEM_MARK);
    item.issued = time;
    item.queue = ech_capture_queue(r->capture, queue, ECH_QUEUE_HOST, 0);
    item.name = ech_trace_builder_string(r->builder, name, (gssize)length);
    ech_capture_add(r->capture, &item);
}

static void mark_at(Reader *r, EchTime time, const char *name, size_t length)
{
    mark_in(r, "nvtx", time, name, length);
}

static void mark_here(Reader *r, uint64_t time, const char *name, size_t length)
{
    r->marked |= ech_mark_is_optimizer(name) || ech_mark_is_module_call(name);
    mark_at(r, time_of(r, time), name, length);
}

/* Modules that are called, and what a compiled graph says of its kernels: modules by their paths from the one that was compiled on
 * (capture/pretend/python/pretend_regions.py). */
#define BELOW "nn.Module below: "
#define BACKWARD_BELOW "backward of " BELOW

static bool is_below(const char *name)
{
    return g_str_has_prefix(name, BELOW) || g_str_has_prefix(name, BACKWARD_BELOW);
}

/* Ranges that people open themselves and optimizers' steps are marks; operators, what autograd opens and what compiled graphs do are not. */
static bool is_step(const char *name, const Range *around)
{
    return g_str_has_prefix(name, "Optimizer.step") || (!around && !strstr(name, "::") && !strstr(name, "Backward") && !is_below(name));
}

/* Autograd numbers an operator and the node that will run backward of it alike. Threads that run backward passes count for themselves. */
static uint64_t node_key(const Reader *r, uint64_t sequence, uint32_t backward)
{
    return (backward > 0 ? r->lines.fields[1] << 40 : 0) ^ sequence;
}

/* The path of a node of the backward pass is that of the module whose forward made it. */
static uint32_t node_path(Reader *r, Range *node, const Range *around, uint64_t sequence)
{
    uint64_t key = node_key(r, sequence, around->backward - 1);
    uint32_t module = GPOINTER_TO_UINT(g_hash_table_lookup(r->nodes, &key));
    if (!module)
        return around->path;
    node->beneath = node->called = module - 1;
    return path_of(r, module - 1, node->node);
}

static void note_moment(Reader *r, uint64_t time)
{
    Moment moment = {time_of(r, time), within(r).path};
    g_array_append_val(r->moments, moment);
}

/* "qkv (Linear)" below "nn.Module: layers.3 (Block)" is "nn.Module: layers.3.qkv (Linear)"; what is below a root, or nothing, has its own path. A root of its
 * own is "GPT" alone. */
static EchId joined_name(Reader *r, uint32_t called, const char *below)
{
    const char *outer =
        called != UINT32_MAX ? ech_trace_builder_peek_string(r->builder, g_array_index(r->paths, Path, called).name) + strlen(ECH_RANGE_MODULE) : "";
    const char *kind = strstr(outer, " (");
    g_autofree char *path = kind ? g_strndup(outer, (gsize)(kind - outer)) : NULL;
    g_autofree char *name = !path                 ? g_strconcat(ECH_RANGE_MODULE, below, NULL)
                            : strstr(below, " (") ? g_strconcat(ECH_RANGE_MODULE, path, ".", below, NULL)
                                                  : g_strconcat(ECH_RANGE_MODULE, path, " (", below, ")", NULL);
    return ech_trace_builder_string(r->builder, name, -1);
}

/* A module that a compiled graph tells; backward it stands beneath the node that runs, as a node stands in the module whose forward made it. */
static Range open_below(Reader *r, const Range *around, const char *name)
{
    Range range = around ? *around : no_range;
    bool backward = g_str_has_prefix(name, BACKWARD_BELOW);
    EchId module = joined_name(r, range.called, name + strlen(backward ? BACKWARD_BELOW : BELOW));
    range.evaluates = false;
    if (backward) {
        EchId node = range.node != ECH_NONE ? range.node : ech_trace_builder_string(r->builder, ECH_RANGE_BACKWARD "CompiledFunctionBackward", -1);
        range.module = range.beneath = path_of(r, range.beneath, module);
        range.path = path_of(r, range.beneath, node);
    } else
        range.module = range.path = path_of(r, range.path, module);
    return range;
}

static Range open_range(Reader *r, const Range *around, const char *name)
{
    if (is_below(name))
        return open_below(r, around, name);
    const char *number = strstr(name, ", seq = ");
    uint64_t sequence = number ? g_ascii_strtoull(number + 8, NULL, 10) : 0;
    uint32_t parent = around ? around->path : UINT32_MAX;
    Range range = around ? *around : no_range;
    range.call = UINT32_MAX;
    if (number && around && around->evaluates) {
        parent = node_path(r, &range, around, sequence);
    } else if (number && range.module != UINT32_MAX) {
        uint64_t key = node_key(r, sequence, range.backward);
        g_hash_table_insert(r->nodes, g_memdup2(&key, sizeof key), GUINT_TO_POINTER(range.module + 1));
    }
    range.path = path_of(r, parent, ech_trace_builder_string(r->builder, name, (gssize)ech_range_bare_length(name)));
    range.evaluates = g_str_has_prefix(name, ECH_RANGE_BACKWARD);
    if (range.evaluates) {
        range.backward++;
        range.beneath = parent;
        range.node = g_array_index(r->paths, Path, range.path).name;
    }
    if (g_str_has_prefix(name, ECH_RANGE_MODULE))
        range.module = range.called = range.path;
    return range;
}

/* Whether PyTorch's own range @name says again, without its types, the call that is around it, or is what FBGEMM's operator around it calls in turn, or
 * attention's of PyTorch, whose arguments it has in another order. */
static bool says_again(Reader *r, const Range *around, const char *name)
{
    if (!around || around->call == UINT32_MAX || strstr(name, ", types = ["))
        return false;
    const Text *text = &g_array_index(r->texts, Text, g_array_index(r->calls, Call, around->call).name - 1);
    size_t n = ech_range_bare_length(name);
    if (g_str_has_prefix(name, "fbgemm::") && strstr(name, "embedding_") && memmem(text->at, text->n, "_pt2_wrapper, sizes", 19))
        return true;
    if (g_str_has_prefix(name, "aten::_efficient_attention_") && g_strstr_len(text->at, (gssize)text->n, "_scaled_dot_product_efficient_attention"))
        return g_strstr_len(text->at, (gssize)text->n, ", types = [") != NULL;
    return text->n > n && memcmp(text->at, name, n) == 0 && text->at[n] == ',' && g_strstr_len(text->at, (gssize)text->n, ", types = [");
}

/* The name of the innermost range from @around on that tells types. */
static uint32_t tells_types(Reader *r, const Range *around)
{
    const Call *call = around && around->call != UINT32_MAX ? &g_array_index(r->calls, Call, around->call) : NULL;
    if (!call || call->around != 0)
        return call ? call->around : 0;
    const Text *text = &g_array_index(r->texts, Text, call->name - 1);
    return g_strstr_len(text->at, (gssize)text->n, ", types = [") ? call->name : 0;
}

/* Where a backward pass begins behind another's end. */
static void note_backward(Reader *r, const Range *around, const char *name)
{
    bool within = around && around->backward > 0, begins = !within && g_str_has_prefix(name, ECH_RANGE_BACKWARD);
    if (begins && !r->runs_backward) {
        EchTime time = time_of(r, r->lines.fields[0]);
        g_array_append_val(r->backward, time);
    }
    r->runs_backward = begins || (within && r->runs_backward) || (r->runs_backward && strncmp(name, "aten::", 6) != 0);
}

static bool add_push(Reader *r, GError **error)
{
    const Text *text = text_of(r, r->lines.fields[2], error);
    if (!text)
        return false;
    r->active = ranges_of(r, r->lines.fields[1]);
    r->thread = (uint32_t)r->lines.fields[1];
    const Range *around = innermost(r);
    const char *name = plain(r, text->at, text->n);
    bool sized = strstr(name, ", sizes = [") != NULL;
    r->operators += (sized || g_str_has_prefix(name, "autograd::engine::")) && r->operators < UINT32_MAX;
    r->eager |= sized;
    Range range = no_range;
    /* An operator's sizes are not those of what it calls in turn. */
    if (is_step(name, around))
        mark_here(r, r->lines.fields[0], name, ech_range_bare_length(name));
    note_backward(r, around, name);
    if (r->active->len < MAX_RANGES) {
        range = open_range(r, around, name);
        if (sized && !says_again(r, around, name)) {
            Call call = {.name = (uint32_t)r->lines.fields[2], .around = ech_range_tells_types(name) ? 0 : tells_types(r, around)};
            g_array_append_val(r->calls, call);
            range.call = r->calls->len - 1;
        } else if (around && (sized || strncmp(name, "aten::", 6) != 0)) {
            range.call = around->call;
        }
    }
    g_array_append_val(r->active, range);
    note_moment(r, r->lines.fields[0]);
    return true;
}

static void add_pop(Reader *r)
{
    r->active = ranges_of(r, r->lines.fields[1]);
    r->thread = (uint32_t)r->lines.fields[1];
    if (r->active->len > 0)
        g_array_set_size(r->active, r->active->len - 1);
    else
        ech_diag_note(r->ret->diag, "range_ends_without_begin", 1);
    note_moment(r, r->lines.fields[0]);
}

/* "nn.Module: layers.3.mlp (MLP)" as "layers.*.mlp (MLP)": layers of a network share a name. */
static void append_module(GString *out, const char *name)
{
    const char *at = name + strlen(ECH_RANGE_MODULE);
    while (*at) {
        size_t n = strcspn(at, ". "), digits = strspn(at, "0123456789");
        g_string_append_len(out, digits == n && n > 0 ? "*" : at, digits == n && n > 0 ? 1 : (gssize)n);
        at += n;
        if (*at)
            g_string_append_c(out, *at++);
    }
}

/* What is within @path: "AddmmBackward0 of layers.*.mlp (MLP)", "aten::cat in layers.*.mlp (MLP)". */
static EchId path_label(Reader *r, uint32_t path)
{
    Path *labelled = &g_array_index(r->paths, Path, path);
    if (labelled->label != ECH_NONE)
        return labelled->label;
    const char *called = NULL, *module = NULL, *node = NULL;
    for (uint32_t i = path; i != UINT32_MAX && !module; i = g_array_index(r->paths, Path, i).parent) {
        const char *name = ech_trace_builder_peek_string(r->builder, g_array_index(r->paths, Path, i).name);
        if (g_str_has_prefix(name, ECH_RANGE_MODULE))
            module = name;
        else if (g_str_has_prefix(name, ECH_RANGE_BACKWARD))
            node = name + strlen(ECH_RANGE_BACKWARD);
        else
            called = name; /* the outermost is what the program called */
    }
    g_string_assign(r->scratch, node ? node : called ? called : "");
    if (module) {
        if (r->scratch->len)
            g_string_append(r->scratch, node ? " of " : " in ");
        append_module(r->scratch, module);
    }
    labelled->label = ech_trace_builder_string(r->builder, r->scratch->str, (gssize)r->scratch->len);
    return labelled->label;
}

/* Blocks of a backward pass have no line of Python: the range that was open then says whose they are. */
static void name_block(void *data, EchTime time, EchId *ret_name, EchId *ret_stack)
{
    Reader *r = data;
    size_t low = 0, high = r->moments->len; /* the first moment after it; the snapshot counts whole microseconds */
    ECH_SEARCH(low, high, middle, g_array_index(r->moments, Moment, middle).time <= time + ECH_PS_PER_US / 2);
    uint32_t path = low > 0 ? g_array_index(r->moments, Moment, low - 1).path : UINT32_MAX;
    if (path == UINT32_MAX)
        return;
    *ret_name = path_label(r, path);
    *ret_stack = path_text(r, path);
}

/* Before the outermost module is called (capture/pretend/python/sitecustomize.py): rows of a batch, and where the arrays lie that it is given. */
#define GIVEN "nn.Module given: "

static void add_given(Reader *r, uint64_t time, const char *told)
{
    EchItem item = ech_item_init(ECH_ITEM_GIVEN);
    item.issued = time_of(r, time);
    item.queue = ech_capture_queue(r->capture, "nvtx", ECH_QUEUE_HOST, 0);
    char *at;
    item.bytes = g_ascii_strtoull(told, &at, 10);
    while (*at == ' ' && g_ascii_isdigit(at[1])) {
        item.address = g_ascii_strtoull(at, &at, 10);
        ech_capture_add(r->capture, &item);
    }
}

/* A measure of PyTorch's was applied that the program does not have itself (capture/pretend/python/pretend_with.py). */
#define WITH "echelon with: "

static void add_with(Reader *r, const char *measure)
{
    enum { MOST = 1000 }; /* characters of all */
    g_auto(GStrv) known = g_strsplit(r->with->str, ",", -1);
    if (g_strv_contains((const char *const *)known, measure) || r->with->len + strlen(measure) > MOST)
        return; /* of several processes, or models */
    g_string_append_printf(r->with, "%s%s", r->with->len > 0 ? "," : "", measure);
    ech_trace_builder_set_property(r->builder, ECH_TRACE_WITH, r->with->str);
}

static bool add_mark(Reader *r, GError **error)
{
    const Text *text = text_of(r, r->lines.fields[2], error);
    if (!text)
        return false;
    const char *name = plain(r, text->at, text->n);
    if (g_str_has_prefix(name, GIVEN))
        add_given(r, r->lines.fields[0], name + strlen(GIVEN));
    else if (g_str_has_prefix(name, WITH))
        add_with(r, name + strlen(WITH));
    else if (strcmp(name, ECH_MARK_KEEPS) == 0)
        ech_trace_builder_set_property(r->builder, ECH_TRACE_KEEPS, "true");
    else if (g_str_has_prefix(name, ECH_MARK_NO_ROOM))
        ech_trace_builder_set_property(r->builder, ECH_TRACE_NO_ROOM, name + strlen(ECH_MARK_NO_ROOM));
    else
        mark_here(r, r->lines.fields[0], name, r->scratch->len);
    return true;
}

/* ---- work ---- */

/* The same, of a node where it was captured, with the call that it is of this launch. */
static Within within_node(Reader *r, uint64_t node)
{
    Within where = g_array_index(r->nodes_of_graphs, Node, node - 1).where;
    if (where.call == UINT32_MAX)
        return where;
    Call *captured = &g_array_index(r->calls, Call, where.call);
    if (captured->launch != r->n_launches) {
        Call call = {.name = captured->name, .around = captured->around};
        captured->launch = r->n_launches;
        captured->again = r->calls->len;
        g_array_append_val(r->calls, call);
        captured = &g_array_index(r->calls, Call, where.call);
    }
    where.call = captured->again;
    return where;
}

/* The outermost range around, where that is a mark and no backward pass is within it, or an optimizer's step; ECH_NONE. */
static EchId step_around(Reader *r)
{
    const Range *range = innermost(r);
    EchId step = ECH_NONE;
    for (uint32_t i = range ? range->path : UINT32_MAX; i != UINT32_MAX; i = g_array_index(r->paths, Path, i).parent) {
        uint32_t parent = g_array_index(r->paths, Path, i).parent;
        EchId name = g_array_index(r->paths, Path, i).name;
        const char *text = ech_trace_builder_peek_string(r->builder, name);
        if (ech_mark_is_optimizer(text))
            return name;
        if (parent == UINT32_MAX && range->backward == 0 && is_step(text, NULL))
            step = name;
    }
    return step;
}

static bool add_captured(Reader *r, GError **error)
{
    const uint64_t *fields = (const uint64_t *)(const void *)r->lines.list->data;
    guint n = r->lines.list->len;
    uint64_t number = n > 0 ? fields[n - 1] : 0;
    if (n > 2) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: captured %" G_GUINT64_FORMAT "; expected %u and when, no more", r->lines.where, r->lines.line,
                    number, r->nodes_of_graphs->len + 1);
        return false;
    }
    if (number != (uint64_t)r->nodes_of_graphs->len + 1) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: captured %" G_GUINT64_FORMAT "; expected %u, one more than the node before", r->lines.where,
                    r->lines.line, number, r->nodes_of_graphs->len + 1);
        return false;
    }
    Node node = {within(r), step_around(r)};
    g_array_append_val(r->nodes_of_graphs, node);
    ech_capture_captured(r->capture, n == 2 ? time_of(r, fields[0]) : r->newest);
    return true;
}

/* A graph's launch outside of all ranges: the steps that its work stood in at its capture are marks again. */
static void mark_of_graph(Reader *r, uint64_t node)
{
    EchId step = g_array_index(r->nodes_of_graphs, Node, node - 1).step;
    if (step != r->step_of_launch && step != ECH_NONE && !innermost(r)) {
        g_autofree char *name = g_strdup(ech_trace_builder_peek_string(r->builder, step));
        mark_here(r, r->lines.fields[0], name, strlen(name));
    }
    r->step_of_launch = step;
}

static bool add_node(Reader *r, GError **error)
{
    r->node = r->lines.fields[0];
    if (r->node >= 1 && r->node <= r->nodes_of_graphs->len && r->n_launches > 0)
        return true;
    g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: node %" G_GUINT64_FORMAT " %s", r->lines.where, r->lines.line, r->node,
                r->n_launches > 0 ? "is not captured before" : "of no graph; expected its launch before");
    return false;
}

static void add_lengths(Reader *r)
{
    EchGpuLengths lengths = {r->lines.fields[0], r->lines.fields[1], r->lines.fields[2], r->lines.fields[3], r->lines.fields[4]};
    g_array_append_val(r->lengths, lengths);
    r->next_lengths = true;
}

static EchItem issued_item(Reader *r, EchItemKind kind, uint64_t device, uint64_t stream, Within *ret_within)
{
    EchItem item = ech_item_init(kind);
    item.issued = time_of(r, r->lines.fields[0]);
    item.queue = stream_queue(r, device, stream);
    item.thread = r->thread;
    item.node = (uint32_t)r->node;
    if (r->node > 0)
        mark_of_graph(r, r->node);
    if (r->of_graph > 0 && kind != ECH_ITEM_ALLOC && kind != ECH_ITEM_FREE) {
        item.together = r->in_graph;
        r->in_graph = --r->of_graph > 0;
    }
    *ret_within = r->node > 0 ? within_node(r, r->node) : within(r);
    r->node = 0;
    if (ret_within->path != UINT32_MAX)
        item.stack = path_text(r, ret_within->path);
    if (kind != ECH_ITEM_ALLOC && kind != ECH_ITEM_FREE) {
        r->worked = (uint32_t)ech_capture_n_items(r->capture);
        item.operators = item.together ? 0 : r->operators;
        r->operators = 0;
        r->meets_told = r->sends_told = false;
        r->launched = NULL;
    }
    return item;
}

static bool add_kernel(Reader *r, GError **error)
{
    Text *text = text_of(r, r->lines.fields[3], error);
    if (!text)
        return false;
    Within where;
    EchItem item = issued_item(r, ECH_ITEM_KERNEL, r->lines.fields[1], r->lines.fields[2], &where);
    item.name = kept_string_of(r, text);
    r->n_unmasked += !r->next_lengths && memmem(text->at, text->n, "triton_tem_", 11) && memmem(text->at, text->n, "flex_attention", 14);
    Kernel kernel = {.item = (uint32_t)ech_capture_n_items(r->capture), .call = where.call};
    for (size_t i = 0; i < 3; i++) {
        kernel.launch.grid[i] = (uint32_t)MIN(r->lines.fields[4 + i], (uint64_t)INT32_MAX);
        kernel.launch.block[i] = (uint32_t)MIN(r->lines.fields[7 + i], (uint64_t)INT32_MAX);
    }
    kernel.launch.shared = (uint32_t)MIN(r->lines.fields[10], (uint64_t)INT32_MAX);
    if (r->next_lengths && where.call != UINT32_MAX)
        g_array_index(r->calls, Call, where.call).lengths = r->lengths->len;
    r->next_lengths = false;
    r->launched = text;
    g_array_append_val(r->kernels, kernel);
    ech_capture_add(r->capture, &item);
    return true;
}

static bool add_library(Reader *r, GError **error)
{
    const Text *name = text_of(r, r->lines.fields[3], error), *launch = name ? text_of(r, r->lines.fields[4], error) : NULL,
               *dtype = launch ? text_of(r, r->lines.fields[8], error) : NULL;
    if (!dtype)
        return false;
    Within where;
    EchItem item = issued_item(r, ECH_ITEM_KERNEL, r->lines.fields[1], r->lines.fields[2], &where);
    item.name = string_of(r, name);
    item.other = string_of(r, launch);
    EchGpuLaunch parsed;
    bool known = ech_gpu_launch_parse(r->scratch->str, &parsed);
    if (!known)
        ech_diag_dropped(r->ret->diag, "library_calls_without_a_shape", 1, "%s:%zu", r->lines.where, r->lines.line);
    plain(r, dtype->at, dtype->n);
    EchItemWork work = {.read = r->lines.fields[5],
                        .write = r->lines.fields[6],
                        .ops = r->lines.fields[7],
                        .unit = known && (parsed.kind == ECH_GPU_PRODUCT || parsed.kind == ECH_GPU_ATTENTION) ? ECH_WORK_MATRIX : ECH_WORK_VECTOR,
                        .dtype = (uint8_t)ech_dtype_parse(r->scratch->str, r->scratch->len),
                        .origin = ECH_KNOWN};
    item.work = ech_capture_work(r->capture, work);
    ech_capture_add(r->capture, &item);
    if (where.call != UINT32_MAX) /* the operator's work is done */
        g_array_index(r->calls, Call, where.call).shared.n_main++;
    return true;
}

/* The newest kernel's own products, as its author's tiles and loops tell them. */
static bool add_products(Reader *r, GError **error)
{
    const Text *launch = text_of(r, r->lines.fields[0], error), *dtype = launch ? text_of(r, r->lines.fields[2], error) : NULL;
    if (!dtype)
        return false;
    if (!r->launched || r->kernels->len == 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: products of no kernel; expected its launch before", r->lines.where, r->lines.line);
        return false;
    }
    Kernel *kernel = &g_array_index(r->kernels, Kernel, r->kernels->len - 1);
    kernel->product = (uint32_t)r->lines.fields[0];
    kernel->multiplied = r->lines.fields[1];
    plain(r, dtype->at, dtype->n);
    kernel->dtype = ech_dtype_parse(r->scratch->str, r->scratch->len);
    return true;
}

static bool add_lanes(Reader *r, GError **error)
{
    if (!r->launched || r->kernels->len == 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: lanes of no kernel; expected its launch before", r->lines.where, r->lines.line);
        return false;
    }
    Kernel *kernel = &g_array_index(r->kernels, Kernel, r->kernels->len - 1);
    kernel->by_code = true;
    memcpy(kernel->lanes, r->lines.fields, sizeof kernel->lanes);
    kernel->launch.issued = r->lines.fields[2];
    return true;
}

/* The newest kernel, whose lanes were told. @what: the line at hand. */
static EchGpuLaunch *told_launch(Reader *r, const char *what, GError **error)
{
    if (!r->launched || r->kernels->len == 0 || !g_array_index(r->kernels, Kernel, r->kernels->len - 1).by_code) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: %s of no kernel; expected its lanes before", r->lines.where, r->lines.line, what);
        return NULL;
    }
    return &g_array_index(r->kernels, Kernel, r->kernels->len - 1).launch;
}

static bool add_units(Reader *r, GError **error)
{
    EchGpuLaunch *launch = told_launch(r, "units", error);
    if (!launch)
        return false;
    launch->slots = r->lines.fields[0];
    launch->slots_64 = r->lines.fields[1];
    launch->functions = r->lines.fields[2];
    if (g_array_index(r->kernels, Kernel, r->kernels->len - 1).multiplied > 0)
        launch->arithmetic = 1 + (r->lines.fields[3] > 0 ? ECH_GPU_WGMMA : ECH_GPU_MMA);
    return true;
}

static bool add_atomics(Reader *r, GError **error)
{
    EchGpuLaunch *launch = told_launch(r, "atomics", error);
    if (!launch)
        return false;
    launch->atomics = r->lines.fields[0];
    launch->crowded = r->lines.fields[1];
    return true;
}

static bool add_code(Reader *r, GError **error)
{
    EchGpuLaunch *launch = told_launch(r, "code", error);
    if (!launch)
        return false;
    uint64_t *const to[] = {&launch->accesses, &launch->wavefronts, &launch->fetched, &launch->path_cycles, &launch->path_trips, &launch->barriers};
    for (size_t i = 0; i < G_N_ELEMENTS(to); i++)
        *to[i] = r->lines.fields[i];
    launch->registers = (uint32_t)MIN(r->lines.fields[6], 255);
    launch->shared = (uint32_t)MIN(launch->shared + r->lines.fields[7], (uint64_t)INT32_MAX);
    return true;
}

/* How the newest kernel's elements lie: neighbours apart, or by how many dimensions. */
static bool add_places(Reader *r, bool sectors, GError **error)
{
    if (!r->launched || r->kernels->len == 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: %s of no kernel; expected its launch before", r->lines.where, r->lines.line,
                    sectors ? "sectors" : "axes");
        return false;
    }
    EchGpuLaunch *launch = &g_array_index(r->kernels, Kernel, r->kernels->len - 1).launch;
    if (sectors)
        launch->sectors = (uint16_t)MIN(r->lines.fields[0], 4096u);
    else
        launch->axes = (uint8_t)MIN(r->lines.fields[0], 25u);
    return true;
}

/* A kernel's own products stand where its operator does not say what it multiplies: the shape, too, if it is one. */
static bool take_products(Reader *r, const Kernel *kernel, EchGpuLaunch *launch, EchItemWork *work)
{
    if (kernel->multiplied == 0 || (work->unit == ECH_WORK_MATRIX && work->ops > 0))
        return false;
    work->ops = kernel->multiplied;
    work->unit = ECH_WORK_MATRIX;
    work->dtype = (uint8_t)kernel->dtype;
    work->origin = ECH_INFERRED;
    const Text *text = &g_array_index(r->texts, Text, kernel->product - 1);
    EchGpuLaunch product;
    plain(r, text->at, text->n);
    if (!ech_gpu_launch_parse(r->scratch->str, &product))
        return true;
    for (size_t i = 0; i < 3; i++) {
        product.grid[i] = launch->grid[i];
        product.block[i] = launch->block[i];
    }
    product.shared = launch->shared;
    product.registers = launch->registers;
    *launch = product;
    return true;
}

static void add_host_wait(Reader *r, EchTime at, uint32_t device, uint32_t queue, EchTime recorded, const char *name)
{
    EchItem item = ech_item_init(ECH_ITEM_HOST_WAIT);
    item.issued = at;
    item.queue = ech_capture_queue(r->capture, "host", ECH_QUEUE_HOST, device);
    item.thread = r->thread;
    item.other = queue;
    item.address = (uint64_t)recorded;
    item.name = ech_trace_builder_string(r->builder, name, -1);
    ech_capture_add(r->capture, &item);
    g_hash_table_remove_all(r->runs);
}

/* The device is asked for what follows when the host is done with this. */
static bool add_host_work(Reader *r, GError **error)
{
    const Text *name = text_of(r, r->lines.fields[2], error);
    if (!name)
        return false;
    uint32_t device = (uint32_t)MIN(r->lines.fields[1], 65535);
    Within where = within(r);
    EchItem item = ech_item_init(ECH_ITEM_KERNEL);
    item.issued = time_of(r, r->lines.fields[0]);
    item.queue = ech_capture_queue(r->capture, "host", ECH_QUEUE_HOST, device);
    item.thread = r->thread;
    item.to = ECH_TIER_HOST;
    item.told = true; /* none of the device's arrays */
    item.name = string_of(r, name);
    if (where.path != UINT32_MAX)
        item.stack = path_text(r, where.path);
    EchItemWork work = {.read = r->lines.fields[3], .write = r->lines.fields[4], .unit = ECH_WORK_VECTOR, .origin = ECH_KNOWN};
    item.work = ech_capture_work(r->capture, work);
    ech_capture_add(r->capture, &item);
    r->n_host_work++;
    r->host_work_bytes = ech_bytes_add(r->host_work_bytes, ech_bytes_add(work.read, work.write));
    return true;
}

static uint32_t file_queue(Reader *r, uint32_t device, uint64_t handle)
{
    g_autofree char *name = g_strdup_printf("files %" G_GUINT64_FORMAT, handle);
    const uint32_t queue = ech_capture_queue(r->capture, name, ECH_QUEUE_COPY, device);
    ech_capture_set_apart(r->capture, queue);
    return queue;
}

/* Of the memory of a host that may wait for its disk (vm.dirty_ratio, a fifth where it is not changed): who writes more waits, too. */
#define LEAST_MEMORY_OF_DIRTY 5

/* @bytes of the file of the line. The device is asked for what follows when the host has them, or got rid of them; beside, when it waits for that. */
static void add_file_work(Reader *r, const Text *path, EchFileUse use, bool beside, EchBytes bytes, EchBytes needs)
{
    const uint64_t *fields = r->lines.fields;
    const uint32_t device = (uint32_t)MIN(fields[1], 65535);
    if (bytes == 0)
        return;
    EchItem item = ech_item_init(beside ? ECH_ITEM_COPY : ECH_ITEM_KERNEL);
    item.issued = time_of(r, fields[0]);
    item.queue = beside ? file_queue(r, device, fields[8]) : ech_capture_queue(r->capture, "host", ECH_QUEUE_HOST, device);
    item.thread = r->thread;
    item.from = item.to = ECH_TIER_HOST;
    item.told = true;
    item.origin = ECH_KNOWN;
    Within where = within(r);
    if (where.path != UINT32_MAX)
        item.stack = path_text(r, where.path);
    plain(r, path->at, path->n);
    g_autofree char *base = g_path_get_basename(r->scratch->str);
    g_string_printf(r->scratch, "%s of %s", use == ECH_FILE_WRITTEN ? "write" : "read", base);
    item.name = ech_trace_builder_string(r->builder, r->scratch->str, (gssize)r->scratch->len);
    g_string_truncate(r->scratch, 0);
    ech_file_print(use, needs, r->scratch);
    item.other = ech_trace_builder_string(r->builder, r->scratch->str, (gssize)r->scratch->len);
    EchItemWork work = {.unit = ECH_WORK_VECTOR, .origin = ECH_KNOWN};
    *(use == ECH_FILE_WRITTEN ? &work.read : &work.write) = bytes;
    if (beside)
        item.bytes = bytes;
    else
        item.work = ech_capture_work(r->capture, work);
    ech_capture_add(r->capture, &item);
}

static bool add_file(Reader *r, GError **error)
{
    const uint64_t *fields = r->lines.fields;
    const Text *path = text_of(r, fields[2], error);
    if (!path)
        return false;
    const bool written = (fields[4] & 3) == 1, mapped = (fields[4] & 3) == 2, direct = fields[4] & 4, beside = fields[4] & 8;
    const EchFileUse use = written ? ECH_FILE_WRITTEN : mapped ? ECH_FILE_MAPPED : ECH_FILE_READ;
    const EchBytes bytes = fields[6], held = MAX(fields[7], r->pinned); /* which here may have no pages yet */
    if (direct) {                                                       /* and the page cache has none of it */
        add_file_work(r, path, use, beside, bytes, ECH_FILE_DISK);
        return true;
    }
    EchBytes fresh, since = ech_page_cache_take(r->page_cache, fields[3], fields[5], bytes, &fresh);
    if (written) {
        r->file_bytes = ech_bytes_add(r->file_bytes, bytes);
        const EchBytes waiting = r->file_bytes < UINT64_MAX / LEAST_MEMORY_OF_DIRTY ? LEAST_MEMORY_OF_DIRTY * r->file_bytes : UINT64_MAX;
        add_file_work(r, path, use, beside, bytes, ech_bytes_add(waiting, held));
    } else {
        add_file_work(r, path, use, beside, fresh, ECH_FILE_DISK);
        add_file_work(r, path, use, beside, bytes - fresh, ech_bytes_add(ech_bytes_add(since, fresh), held));
    }
    return true;
}

static void add_copy(Reader *r)
{
    Within where;
    EchItem item = issued_item(r, ECH_ITEM_COPY, r->lines.fields[1], r->lines.fields[2], &where);
    /* As profilers call it: copies of pageable memory are known by their name. */
    char name[64];
    static const char *const kinds[] = {
        "Unknown", "Pageable", "Pinned", "Device", "Array", "Managed", "Unknown", "Pageable, untouched", "Device, over the host"};
    uint64_t from = r->lines.fields[4] < G_N_ELEMENTS(kinds) ? r->lines.fields[4] : 0, to = r->lines.fields[5] < G_N_ELEMENTS(kinds) ? r->lines.fields[5] : 0;
    g_snprintf(name, sizeof name, "Memcpy %cto%c (%s -> %s)", tier_of(from) == ECH_TIER_HOST ? 'H' : 'D', tier_of(to) == ECH_TIER_HOST ? 'H' : 'D', kinds[from],
               kinds[to]);
    item.name = ech_trace_builder_string(r->builder, name, -1);
    item.bytes = r->lines.fields[3];
    r->staged_bytes = to == 8 ? ech_bytes_add(r->staged_bytes, item.bytes) : r->staged_bytes;
    item.origin = ECH_KNOWN;
    item.from = tier_of(from);
    item.to = tier_of(to);
    item.behind = r->lines.fields[6] == 2 ? ECH_BEHIND_BATCH : r->behind_copy && where.path != UINT32_MAX ? ECH_BEHIND_LOOP : ECH_BEHIND_NONE;
    r->behind_copy = true;
    ech_capture_add(r->capture, &item);
    if (r->lines.fields[6] == 0)
        add_host_wait(r, item.issued, ech_capture_queue_device(r->capture, item.queue), item.queue, item.issued, "Synchronous copy");
}

static void add_prefetch(Reader *r)
{
    Within where;
    EchItem item = issued_item(r, ECH_ITEM_COPY, r->lines.fields[1], r->lines.fields[2], &where);
    bool to_device = r->lines.fields[4] != 0;
    item.name = ech_trace_builder_string(r->builder, to_device ? "Prefetch of managed memory to the device" : "Prefetch of managed memory to the host", -1);
    item.bytes = r->lines.fields[3];
    item.origin = ECH_KNOWN;
    item.prefetch = true;
    item.from = to_device ? ECH_TIER_HOST : ECH_TIER_DEVICE;
    item.to = to_device ? ECH_TIER_DEVICE : ECH_TIER_HOST;
    ech_capture_add(r->capture, &item);
}

/* What is set stays: nothing that is known of sets and unsets it by turns. */
static void add_advice(Reader *r)
{
    bool of_device = r->lines.fields[5] != 0;
    EchItem item = ech_item_init(ECH_ITEM_ADVICE);
    item.issued = time_of(r, r->lines.fields[0]);
    item.queue = stream_queue(r, r->lines.fields[1], 0);
    item.address = r->lines.fields[2];
    item.bytes = r->lines.fields[3];
    switch (r->lines.fields[4]) {
    case 1: item.managed = ECH_MANAGED_READ_MOSTLY; break;
    case 3: item.managed = of_device ? ECH_MANAGED_ON_DEVICE : ECH_MANAGED_ON_HOST; break;
    case 5: item.managed = of_device ? ECH_MANAGED_MAPPED : 0; break; /* the host reaches none of a device's memory */
    default: ech_diag_note(r->ret->diag, "advice_taken_back", 1); break;
    }
    if (item.managed)
        ech_capture_add(r->capture, &item);
}

static void add_set(Reader *r)
{
    Within where;
    EchItem item = issued_item(r, ECH_ITEM_MEMSET, r->lines.fields[1], r->lines.fields[2], &where);
    item.name = ech_trace_builder_string(r->builder, "Memset", -1);
    item.bytes = r->lines.fields[3];
    item.origin = ECH_KNOWN;
    item.from = item.to = ECH_TIER_DEVICE;
    ech_capture_add(r->capture, &item);
}

/* The host pins @bytes, and asks the device for nothing until it has. */
static void add_pinning(Reader *r, EchBytes bytes, bool fresh)
{
    EchItem item = ech_item_init(ECH_ITEM_KERNEL);
    item.issued = time_of(r, r->lines.fields[0]);
    item.queue = ech_capture_queue(r->capture, "host", ECH_QUEUE_HOST, (uint32_t)MIN(r->lines.fields[1], 65535));
    item.to = ECH_TIER_HOST;
    item.told = true;
    item.name = ech_trace_builder_string(r->builder, fresh ? ECH_PIN_NEW : ECH_PIN_THERE, -1);
    item.work = ech_capture_work(r->capture, (EchItemWork){.write = bytes, .unit = ECH_WORK_VECTOR, .origin = ECH_KNOWN});
    ech_capture_add(r->capture, &item);
}

/* Memory of the host that is pinned where it lies, or is not any more. */
static void add_registered(Reader *r, EchItemKind kind)
{
    Within where;
    EchItem item = issued_item(r, kind, r->lines.fields[1], 0, &where);
    item.address = r->lines.fields[2];
    item.bytes = r->lines.fields[3];
    item.origin = ECH_KNOWN;
    item.from = item.to = ECH_TIER_HOST;
    item.name = ech_trace_builder_string(r->builder, "cudaHostRegister", -1);
    ech_capture_add(r->capture, &item);
}

/* TensorFlow's operators have arrays of their own: "model/dense/MatMul (MatMul)". */
static EchId named_by_operator(Reader *r, uint32_t path, EchId otherwise)
{
    const char *range = ech_trace_builder_peek_string(r->builder, g_array_index(r->paths, Path, path).name);
    if (!g_str_has_prefix(range, ECH_RANGE_TENSORFLOW))
        return otherwise;
    g_autofree char *name = g_strdup(range + strlen(ECH_RANGE_TENSORFLOW));
    return ech_trace_builder_string(r->builder, name, -1);
}

static void add_memory(Reader *r, EchItemKind kind)
{
    Within where;
    EchItem item = issued_item(r, kind, r->lines.fields[1], r->lines.fields[2] == UINT32_MAX ? 0 : r->lines.fields[2], &where);
    item.address = r->lines.fields[3];
    item.bytes = r->lines.fields[4];
    item.origin = ECH_KNOWN;
    item.managed = is_managed(r->lines.fields[5]) ? ECH_MANAGED : 0;
    item.from = item.to = item.managed ? ECH_TIER_HOST : tier_of(r->lines.fields[5]);
    /* NCCL's buffers are whole MiB each; less are variables of modules (traces/capture/pretend/code.c). */
    bool variable = r->lines.fields[5] == 6 && item.bytes < (uint64_t)1 << 20;
    item.name = ech_trace_builder_string(r->builder, variable ? "variables of modules" : memory_name(r->lines.fields[5]), -1);
    item.direct = r->lines.fields[5] == 6;
    if (item.to == ECH_TIER_DEVICE && !item.direct && where.path != UINT32_MAX)
        item.name = named_by_operator(r, where.path, item.name);
    ech_capture_add(r->capture, &item);
    if (kind == ECH_ITEM_ALLOC && r->lines.fields[5] == 2)
        add_pinning(r, item.bytes, true);
    if (r->lines.fields[5] == 2)
        r->pinned = kind == ECH_ITEM_ALLOC ? ech_bytes_add(r->pinned, item.bytes) : r->pinned - MIN(r->pinned, item.bytes);
    if (item.to != ECH_TIER_DEVICE || item.direct)
        return;
    if (kind == ECH_ITEM_ALLOC && r->refused > 0 && item.bytes == r->refused && r->lines.fields[1] == r->refused_device) {
        r->n_served_late++; /* once the program had given back what it kept */
        r->refused = 0;
    }
    r->n_blocks += kind == ECH_ITEM_ALLOC;
    r->n_of_pool += kind == ECH_ITEM_ALLOC && r->lines.fields[6] != 0;
    r->reserved = kind == ECH_ITEM_ALLOC ? ech_bytes_add(r->reserved, item.bytes) : r->reserved - MIN(r->reserved, item.bytes);
    r->peak_reserved = MAX(r->peak_reserved, r->reserved);
}

/* The request refused last was not served. */
static void settle_refused(Reader *r)
{
    r->n_refused += r->refused > 0;
    r->largest_refused = MAX(r->largest_refused, r->refused);
    r->refused = 0;
}

static void add_refused(Reader *r)
{
    settle_refused(r);
    r->refused = r->lines.fields[3];
    r->refused_device = r->lines.fields[1];
}

/* Records and waits are lines of a graph's, too, of no work. */
static void pass_line_of_graph(Reader *r)
{
    r->of_graph -= r->of_graph > 0;
    r->in_graph = r->in_graph && r->of_graph > 0;
}

static void add_event_record(Reader *r)
{
    pass_line_of_graph(r);
    Recorded *recorded = g_new(Recorded, 1);
    *recorded = (Recorded){stream_queue(r, r->lines.fields[1], r->lines.fields[2]), time_of(r, r->lines.fields[0])};
    g_hash_table_replace(r->events, g_memdup2(&r->lines.fields[3], sizeof r->lines.fields[3]), recorded);
}

static void add_event_wait(Reader *r)
{
    pass_line_of_graph(r);
    const Recorded *recorded = g_hash_table_lookup(r->events, &r->lines.fields[3]);
    EchTime at = time_of(r, r->lines.fields[0]);
    if (!recorded) { /* which CUDA lets pass at once */
        ech_diag_note(r->ret->diag, "waits_for_events_never_recorded", 1);
        return;
    }
    EchItem item = ech_item_init(ECH_ITEM_STREAM_WAIT);
    item.issued = at;
    item.queue = stream_queue(r, r->lines.fields[1], r->lines.fields[2]);
    if (item.queue == recorded->queue) /* in order anyway */
        return;
    item.thread = r->thread;
    item.other = recorded->queue;
    item.address = (uint64_t)recorded->time;
    item.name = ech_trace_builder_string(r->builder, "Stream waits for event", -1);
    ech_capture_add(r->capture, &item);
}

static void add_sync(Reader *r)
{
    uint64_t type = r->lines.fields[1];
    EchTime at = time_of(r, r->lines.fields[0]);
    uint32_t device = (uint32_t)MIN(r->lines.fields[2], 65535);
    const Recorded *recorded = type == 1 ? g_hash_table_lookup(r->events, &r->lines.fields[4]) : NULL;
    if (recorded)
        add_host_wait(r, at, ech_capture_queue_device(r->capture, recorded->queue), recorded->queue, recorded->time, "Synchronize event");
    else if (type == 3)
        add_host_wait(r, at, device, stream_queue(r, device, r->lines.fields[3]), at, "Synchronize stream");
    else if (type == 4)
        add_host_wait(r, at, device, ECH_NONE, at, "Synchronize device");
    else if (type == 5)
        add_host_wait(r, at, device, file_queue(r, device, r->lines.fields[3]), at, "Wait for files");
    else if (type == 1)
        ech_diag_note(r->ret->diag, "waits_for_events_never_recorded", 1);
    else
        ech_diag_dropped(r->ret->diag, "synchronisations_of_unknown_type", 1, "%s:%zu: type %" G_GUINT64_FORMAT, r->lines.where, r->lines.line, type);
}

static bool add_collective(Reader *r, GError **error)
{
    const Text *text = text_of(r, r->lines.fields[3], error);
    if (!text)
        return false;
    const char *name = plain(r, text->at, text->n);
    unsigned which = ECH_COLLECTIVE_NONE;
    for (unsigned i = ECH_COLLECTIVE_NONE + 1; i < ECH_N_COLLECTIVES; i++)
        if (strcmp(ech_collective_name((EchCollective)i), name) == 0)
            which = i;
    EchCommName kernel;
    if (which == ECH_COLLECTIVE_NONE && ech_comm_name(name, &kernel) && kernel.known && kernel.comm == ECH_COMM_ALL_REDUCE)
        which = ECH_COLLECTIVE_ALL_REDUCE;
    if (which == ECH_COLLECTIVE_NONE) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE,
                    "%s:%zu: collective '%.80s'; expected all-reduce or another kind, or a kernel that is known to be an all-reduce", r->lines.where,
                    r->lines.line, name);
        return false;
    }
    Within where;
    EchItem item = issued_item(r, ECH_ITEM_COLLECTIVE, r->lines.fields[1], r->lines.fields[2], &where);
    item.name = string_of(r, text);
    item.from = (uint8_t)which;
    item.bytes = r->lines.fields[4];
    item.origin = ECH_KNOWN;
    uint64_t ranks = MIN(r->lines.fields[5], 1u << 20), stride = MIN(r->lines.fields[6], 1u << 20);
    item.other = ranks > 0 ? (uint32_t)ranks : ECH_NONE;
    item.rounded = stride > 0 ? ranks * stride : 0;
    item.address = stride;
    ech_capture_add(r->capture, &item);
    return true;
}

static void add_device(Reader *r)
{
    g_free(r->device);
    r->device = g_strdup(plain(r, r->lines.quoted, r->lines.n_quoted));
    ech_trace_builder_set_property(r->builder, "pretended_device", r->device);
    ech_trace_builder_printf_property(r->builder, "pretended_bytes", "%" G_GUINT64_FORMAT, r->lines.fields[0]);
    ech_trace_builder_printf_property(r->builder, "pretended_context_bytes", "%" G_GUINT64_FORMAT, r->lines.fields[1]);
    ech_trace_builder_printf_property(r->builder, "pretended_devices", "%" G_GUINT64_FORMAT, r->lines.fields[2]);
}

static bool add_name(Reader *r, GError **error)
{
    if (r->lines.fields[0] != (uint64_t)r->texts->len + 1) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: name %" G_GUINT64_FORMAT "; expected %u, one more than the name before", r->lines.where,
                    r->lines.line, r->lines.fields[0], r->texts->len + 1);
        return false;
    }
    Text text = {r->lines.quoted, MIN(r->lines.n_quoted, MAX_NAME), ECH_NONE, NULL, NULL};
    if (text.n < r->lines.n_quoted)
        ech_diag_dropped(r->ret->diag, "names_cut", 1, "%s:%zu: %zu bytes", r->lines.where, r->lines.line, r->lines.n_quoted);
    g_array_append_val(r->texts, text);
    r->of_tensorflow |= memmem(text.at, text.n, "tensorflow::", 12) || memmem(text.at, text.n, "_GPU_DT_", 8);
    r->of_xla |= memmem(text.at, text.n, "_fusion", 7) || memmem(text.at, text.n, "wrapped_", 8);
    static const char *const frameworks[] = {"aten::", "at::native", "nn.Module", "triton_", "cupy", "cudapy", "tf::", "Eigen::"};
    for (size_t i = 0; i < G_N_ELEMENTS(frameworks) && !r->of_framework; i++)
        r->of_framework = memmem(text.at, text.n, frameworks[i], strlen(frameworks[i])) != NULL;
    r->launched = NULL; /* it may lie elsewhere now */
    return true;
}

/* ---- what work uses ---- */

static bool of_no_work(Reader *r, size_t numbers, GError **error)
{
    if (r->lines.list->len % numbers == 0 && r->worked != UINT32_MAX)
        return false;
    g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: %s", r->lines.where, r->lines.line,
                r->worked == UINT32_MAX ? "what work uses; expected the work before"
                : numbers == 3          ? "uses; expected three numbers each"
                                        : "args; expected two numbers each");
    return true;
}

static bool add_known_uses(Reader *r, GError **error)
{
    static const EchAddressAccess accesses[] = {ECH_ADDRESS_ANY, ECH_ADDRESS_READ, ECH_ADDRESS_WRITE, ECH_ADDRESS_UPDATE};
    if (of_no_work(r, 3, error))
        return false;
    for (guint i = 0; i < r->lines.list->len; i += 3) {
        const uint64_t *at = &g_array_index(r->lines.list, uint64_t, i);
        ech_capture_use(r->capture, r->worked, (EchAddressUse){at[1], at[2], accesses[at[0] < G_N_ELEMENTS(accesses) ? at[0] : 0]});
    }
    ech_capture_item(r->capture, r->worked)->told = true;
    return true;
}

static void free_run(gpointer data)
{
    g_hash_table_unref(((Run *)data)->seen);
    g_free(data);
}

/* Whether it is in one launch with what the run asked for before. A launch ends where an instruction (ECH_NONE: none is told) comes again, in the next round of
 * a loop. */
static bool is_launched_together(Reader *r, uint32_t device, uint64_t run, EchId instruction)
{
    Run *known = g_hash_table_lookup(r->runs, GUINT_TO_POINTER(device));
    if (!known) {
        known = g_new0(Run, 1);
        known->seen = g_hash_table_new(NULL, NULL);
        g_hash_table_insert(r->runs, GUINT_TO_POINTER(device), known);
    }
    bool again = known->run == run && g_hash_table_size(known->seen) > 0;
    bool comes_again = again && instruction != ECH_NONE && known->last != instruction && g_hash_table_contains(known->seen, GUINT_TO_POINTER(instruction));
    if (!again || comes_again)
        g_hash_table_remove_all(known->seen);
    g_hash_table_add(known->seen, GUINT_TO_POINTER(instruction));
    known->run = run;
    known->last = instruction;
    return again && !comes_again;
}

static bool add_of(Reader *r, GError **error)
{
    Text *module = text_of(r, r->lines.fields[1], error), *instruction = module ? text_of(r, r->lines.fields[3], error) : NULL;
    if (!instruction)
        return false;
    EchItem *item = r->worked == UINT32_MAX ? NULL : ech_capture_item(r->capture, r->worked);
    if (!item) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: of a compiled program; expected the work before", r->lines.where, r->lines.line);
        return false;
    }
    item->together |= is_launched_together(r, ech_capture_queue_device(r->capture, item->queue), r->lines.fields[0],
                                           instruction->n > 0 ? kept_string_of(r, instruction) : ECH_NONE) &&
                      item->kind != ECH_ITEM_COLLECTIVE;
    if (r->lines.fields[0] > r->newest_run) { /* of several devices, which each run it, the first that does */
        r->newest_run = r->lines.fields[0];
        g_autofree char *name = g_strdup_printf("%.*s(%" G_GUINT64_FORMAT ")", (int)module->n, module->at, r->lines.fields[2]);
        mark_in(r, ECH_QUEUE_OF_PROGRAMS, item->issued - 1, name, strlen(name));
    }
    Kernel *kernel = r->kernels->len > 0 ? &g_array_index(r->kernels, Kernel, r->kernels->len - 1) : NULL;
    if (instruction->n == 0 || !kernel || kernel->item != r->worked || kernel->compiled > 0)
        return true;
    EchXlaLaunch launch = {
        .run = r->lines.fields[0], .number = r->lines.fields[2], .module = kept_string_of(r, module), .instruction = kept_string_of(r, instruction)};
    g_array_append_val(r->compiled, launch);
    kernel->compiled = r->compiled->len;
    return true;
}

static bool add_meetings(Reader *r, bool sends, GError **error)
{
    EchItem *item = r->worked == UINT32_MAX ? NULL : ech_capture_item(r->capture, r->worked);
    const GArray *list = r->lines.list;
    if (!item || item->kind != ECH_ITEM_COLLECTIVE || list->len < (sends ? 2 : 1)) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: who meets; expected the collective before, and numbers", r->lines.where, r->lines.line);
        return false;
    }
    bool *told = sends ? &r->sends_told : &r->meets_told;
    if (*told) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:%zu: who meets, once more; expected one such line of a collective", r->lines.where, r->lines.line);
        return false;
    }
    *told = true;
    g_string_assign(r->scratch, item->meets == ECH_NONE ? "" : ech_trace_builder_peek_string(r->builder, item->meets));
    EchMeeting meeting = {.sends = sends, .buffer = sends ? g_array_index(list, uint64_t, 0) : 0};
    for (guint i = sends; i < list->len; i++) {
        meeting.group = g_array_index(list, uint64_t, i);
        const EchMeeting of_device = {.group = meeting.group, .times = ech_capture_queue_device(r->capture, item->queue)};
        uint64_t *times = g_hash_table_lookup(r->met, &of_device);
        if (!times) {
            times = g_new0(uint64_t, 1);
            g_hash_table_insert(r->met, g_memdup2(&of_device, sizeof of_device), times);
        }
        meeting.times = (*times)++;
        ech_meets_print(r->scratch, meeting);
    }
    item->meets = ech_trace_builder_string(r->builder, r->scratch->str, (gssize)r->scratch->len);
    return true;
}

/* Hosts tell one another something: who hears it waits for all that tell it, who tells it for nobody. */
static bool add_host_meeting(Reader *r, bool tells, GError **error)
{
    const Text *text = text_of(r, r->lines.fields[1], error);
    if (!text)
        return false;
    EchMeeting meeting = {.group = r->lines.fields[2], .sends = tells, .buffer = tells ? 1 : 0, .hears = !tells};
    g_string_truncate(r->scratch, 0);
    ech_meets_print(r->scratch, meeting);
    EchItem item = ech_item_init(ECH_ITEM_HOST_WAIT);
    item.issued = time_of(r, r->lines.fields[0]);
    item.queue = ech_capture_queue(r->capture, "host", ECH_QUEUE_HOST, 0);
    item.meets = ech_trace_builder_string(r->builder, r->scratch->str, (gssize)r->scratch->len);
    item.name = string_of(r, text);
    ech_capture_add(r->capture, &item);
    return true;
}

static const EchArguments *arguments_of(Reader *r, Text *text)
{
    if (!text->arguments) {
        text->arguments = g_new(EchArguments, 1);
        ech_arguments_read(plain(r, text->at, text->n), text->arguments);
    }
    return text->arguments;
}

enum { MAX_INPUTS = 4096 };

/* What the range of the kernel that was launched last, which is the kernel's own, tells of its @n arrays; NULL where it does not. */
static const EchGpuUse *told_uses(Reader *r, size_t n)
{
    const Kernel *kernel = r->launched && r->kernels->len > 0 ? &g_array_index(r->kernels, Kernel, r->kernels->len - 1) : NULL;
    if (!kernel || kernel->item != r->worked || kernel->call == UINT32_MAX)
        return NULL;
    Text *range = &g_array_index(r->texts, Text, g_array_index(r->calls, Call, kernel->call).name - 1);
    if (range->n <= r->launched->n || memcmp(range->at, r->launched->at, r->launched->n) != 0 || range->at[r->launched->n] != ',')
        return NULL;
    if (!range->uses) {
        range->uses = g_array_new(FALSE, FALSE, sizeof(EchGpuUse));
        g_autofree EchGpuInput *inputs = g_new(EchGpuInput, MAX_INPUTS);
        const char *name = plain(r, range->at, range->n);
        ech_gpu_generated_uses(name, inputs, ech_range_inputs(name, ECH_DTYPE_F32, inputs, MAX_INPUTS), range->uses);
    }
    return range->uses->len == n && n > 0 ? &g_array_index(range->uses, EchGpuUse, 0) : NULL;
}

static bool add_arguments(Reader *r, GError **error)
{
    if (of_no_work(r, 2, error))
        return false;
    static const EchArguments unknown = {0};
    const GArray *list = r->lines.list;
    const EchGpuUse *uses = told_uses(r, list->len / 2);
    for (guint i = 0; uses && i < list->len; i += 2) {
        EchAddressAccess access = !uses[i / 2].writes ? ECH_ADDRESS_READ : uses[i / 2].reads ? ECH_ADDRESS_INOUT : ECH_ADDRESS_WRITE;
        ech_capture_use(r->capture, r->worked, (EchAddressUse){g_array_index(list, uint64_t, i + 1), uses[i / 2].bytes, access});
    }
    if (uses) {
        ech_capture_item(r->capture, r->worked)->told = true;
        return true;
    }
    const EchArguments *arguments = r->launched ? arguments_of(r, r->launched) : &unknown;
    for (guint i = 0, end; i < list->len; i = end) {
        uint64_t parameter = g_array_index(list, uint64_t, i);
        g_array_set_size(r->addresses, 0);
        for (end = i; end < list->len && g_array_index(list, uint64_t, end) == parameter; end += 2)
            g_array_append_val(r->addresses, g_array_index(list, uint64_t, end + 1));
        const uint64_t *addresses = (const uint64_t *)(const void *)r->addresses->data;
        for (guint k = 0; k < r->addresses->len; k++)
            ech_capture_use(r->capture, r->worked,
                            (EchAddressUse){addresses[k], 0,
                                            arguments->result_last ? ech_arguments_by_result(list, i + 2 * k + 1)
                                                                   : ech_arguments_access(arguments, parameter, addresses, r->addresses->len, k)});
    }
    ech_capture_item(r->capture, r->worked)->told = !arguments->beyond;
    ech_capture_item(r->capture, r->worked)->beyond = arguments->beyond;
    return true;
}

/* ---- sizes ---- */

/* The range of a function of autograd that is written in Python: no operator of PyTorch's, whose results its name and the shapes of its inputs would tell, and
 * of what type these are it does not say. */
static bool is_of_python(const char *bare, const Call *call)
{
    return call->around == 0 && strstr(bare, "::") == NULL && !g_str_has_prefix(bare, "triton_");
}

static void read_call(Reader *r, Call *call)
{
    const Text *text = &g_array_index(r->texts, Text, call->name - 1);
    if (text->n > r->to_look_at) {
        ech_diag_dropped(r->ret->diag, "calls_not_looked_at", 1, NULL);
        return;
    }
    r->to_look_at -= text->n;
    const char *name = plain(r, text->at, text->n);
    g_autofree EchGpuInput *inputs = g_new(EchGpuInput, MAX_INPUTS);
    size_t n = ech_range_inputs(name, call->dtype != ECH_DTYPE_NONE ? call->dtype : ECH_DTYPE_F32, inputs, MAX_INPUTS);
    g_autofree char *bare = g_strndup(name, ech_range_bare_length(name));
    call->of_python = is_of_python(bare, call) && !ech_range_tells_types(name);
    if (call->of_python)
        return;
    const Text *around = call->around ? &g_array_index(r->texts, Text, call->around - 1) : NULL;
    if (around && around->n <= r->to_look_at) {
        r->to_look_at -= around->n;
        g_autofree EchGpuInput *outer = g_new(EchGpuInput, MAX_INPUTS);
        size_t n_outer = ech_range_inputs(plain(r, around->at, around->n), ECH_DTYPE_F32, outer, MAX_INPUTS);
        ech_range_types_of(outer, n_outer, inputs, n);
    }
    ech_gpu_operator_of(bare, inputs, n, &call->shared.whole);
    if (call->lengths > 0)
        ech_gpu_attention_lengths(bare, inputs, n, &g_array_index(r->lengths, EchGpuLengths, call->lengths - 1), &call->shared.whole);
}

/* The type that a kernel's name speaks of. Its width alone counts. */
static EchDtype dtype_of(const EchGpuName *name)
{
    switch (name->element_bytes) {
    case 1: return ECH_DTYPE_S8;
    case 2: return ECH_DTYPE_BF16;
    case 8: return ECH_DTYPE_F64;
    default: return ECH_DTYPE_F32;
    }
}

static EchId carried(Reader *r, const EchTrace *from, EchId string)
{
    return string == ECH_NONE ? ECH_NONE : ech_trace_builder_string(r->builder, ech_trace_string(from, string), -1);
}

/* A kernel is what its program's own lowering makes of the instruction. */
static void take_compiled(Reader *r, const Kernel *kernel, const EchXlaLaunch *launch)
{
    EchItem *item = ech_capture_item(r->capture, kernel->item);
    const EchOp *op = launch->op;
    item->name = launch->instruction;
    if (!op) {
        item->kind = ECH_ITEM_MARK;
        return;
    }
    item->stack = carried(r, launch->trace, op->stack);
    item->other = carried(r, launch->trace, op->launch);
    item->work = ech_capture_work_of(r->capture, launch->trace, op, ECH_KNOWN);
    EchAddressUse *uses = ech_capture_uses(r->capture, kernel->item);
    if (!uses || item->n_uses != launch->n_arguments)
        return;
    item->n_uses = 0;
    item->parts = true;
    for (uint32_t a = 0; a < launch->n_arguments; a++)
        if (launch->arguments[a].bytes > 0)
            uses[item->n_uses++] =
                (EchAddressUse){uses[a].address, launch->arguments[a].bytes, launch->arguments[a].written ? ECH_ADDRESS_WRITE : ECH_ADDRESS_READ};
}

/* How many kernels each call has, and what it works with where they alone tell. */
static void count_kernels(Reader *r)
{
    for (guint i = 0; i < r->kernels->len; i++) {
        const Kernel *kernel = &g_array_index(r->kernels, Kernel, i);
        if (kernel->call == UINT32_MAX)
            continue;
        Call *call = &g_array_index(r->calls, Call, kernel->call);
        if (!call->read) {
            read_call(r, call);
            call->read = true;
        }
        const EchGpuName *name = ech_gpu_name_of(r->capture, r->names, ech_capture_item(r->capture, kernel->item)->name);
        if (ech_gpu_call_count(&call->shared, name, &kernel->launch) && call->dtype == ECH_DTYPE_NONE)
            call->dtype = dtype_of(name);
    }
}

/* What is not known of calls of attention, and what the host did itself. */
static void say_untold(Reader *r)
{
    uint64_t told = 0, untold = 0;
    for (guint i = 0; i < r->calls->len; i++) {
        const Call *call = &g_array_index(r->calls, Call, i);
        if (call->shared.n_kernels > 0 && call->shared.whole.kind == ECH_GPU_OP_ATTENTION && call->shared.whole.paged)
            *(call->lengths > 0 ? &told : &untold) += 1;
    }
    ech_diag_note(r->ret->diag, "attention_by_lengths_on_the_host", told);
    ech_diag_note(r->ret->diag, "attention_of_assumed_lengths", untold);
    if (untold > 0)
        ech_diag_remark(r->ret->diag,
                        "how long the sequences are is not told for %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
                        " calls of paged attention: prompts are taken as they "
                        "are, and for a token each as many keys as its table of pages has room for, which is the longest that a sequence may become",
                        untold, told + untold);
    else if (told > 0)
        ech_diag_remark(r->ret->diag, "lengths of sequences are those that the host knew when it asked for attention over their pages");
    ech_diag_note(r->ret->diag, "kernels_of_unknown_masks", r->n_unmasked);
    if (r->n_unmasked > 0)
        ech_diag_remark(r->ret->diag,
                        "what the masks of FlexAttention leave is not known for %" G_GUINT64_FORMAT
                        " of its kernels in the whole capture: they count for the bytes of their arrays alone, which is the least",
                        r->n_unmasked);
    ech_diag_note(r->ret->diag, "operators_on_the_host", r->n_host_work);
    if (r->n_host_work > 0) {
        g_autofree char *bytes = ech_format_bytes(r->host_work_bytes);
        ech_diag_remark(r->ret->diag,
                        "%" G_GUINT64_FORMAT
                        " operator%s on the host's processor in the whole capture, on %s in all: what the host's memory takes for that is taken at least, or "
                        "its processor (memories.host.read and write, runtime.processor_rate), and the device is asked for nothing meanwhile",
                        r->n_host_work, r->n_host_work == 1 ? " runs" : "s run", bytes);
    }
}

/* What the kernel is told to read and write of its arrays. False where one of them is not told how much. */
static bool told_bytes(Reader *r, const Kernel *kernel, EchBytes *ret_read, EchBytes *ret_written)
{
    const EchItem *item = ech_capture_item(r->capture, kernel->item);
    const EchAddressUse *uses = ech_capture_uses(r->capture, kernel->item);
    *ret_read = *ret_written = 0;
    for (uint32_t i = 0; i < item->n_uses; i++) {
        if (uses[i].bytes == 0)
            return false;
        *ret_read = ech_bytes_add(*ret_read, uses[i].access == ECH_ADDRESS_WRITE ? 0 : uses[i].bytes);
        *ret_written = ech_bytes_add(*ret_written, uses[i].access == ECH_ADDRESS_READ ? 0 : uses[i].bytes);
    }
    return true;
}

/* A kernel whose own code was looked at: its traffic and its operations, by unit and type. */
static bool take_code(Reader *r, const Kernel *kernel)
{
    EchItemWork rows[3] = {{.origin = ECH_INFERRED}};
    if (!kernel->by_code || !told_bytes(r, kernel, &rows[0].read, &rows[0].write))
        return false;
    const EchDtype types[] = {kernel->dtype, ECH_DTYPE_F32, ECH_DTYPE_F64};
    const uint64_t operations[] = {kernel->multiplied, kernel->lanes[0], kernel->lanes[1]};
    size_t n = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        if (operations[i] == 0)
            continue;
        rows[n].ops = operations[i];
        rows[n].unit = i == 0 ? ECH_WORK_MATRIX : ECH_WORK_VECTOR;
        rows[n].dtype = (uint8_t)types[i];
        rows[n++].origin = ECH_INFERRED;
    }
    uint32_t first = UINT32_MAX;
    for (size_t i = 0; i < MAX(n, 1); i++) {
        rows[i].more = i + 1 < n;
        uint32_t row = ech_capture_work(r->capture, rows[i]);
        first = i == 0 ? row : first;
    }
    ech_capture_item(r->capture, kernel->item)->work = first;
    return true;
}

/* Goes on with what the items up to @end use, and notes which bytes of that one's were used shortly before on its device. */
static void take_uses(const Reader *r, GHashTable *devices, uint32_t *next, uint32_t end, uint64_t near[ECH_GPU_NEAR])
{
    for (; *next <= end; ++*next) {
        const EchItem *item = ech_capture_item(r->capture, *next);
        const EchAddressUse *uses = ech_capture_uses(r->capture, *next);
        uint64_t others[ECH_GPU_NEAR] = {0};
        if (!uses)
            continue;
        gpointer device = GUINT_TO_POINTER(ech_capture_queue_device(r->capture, item->queue));
        EchReuse *reuse = g_hash_table_lookup(devices, device);
        if (!reuse)
            g_hash_table_insert(devices, device, reuse = ech_reuse_new());
        for (uint32_t i = 0; i < item->n_uses; i++) {
            const EchAddressUse *use = &uses[i];
            if (use->access != ECH_ADDRESS_WRITE)
                ech_reuse_take(reuse, use->address, use->bytes, false, *next == end ? near : others);
            if (use->access != ECH_ADDRESS_READ)
                ech_reuse_take(reuse, use->address, use->bytes, true, *next == end ? near : others);
        }
    }
}

/* What a kernel that TorchInductor generated is called with may be much larger than what it touches of it (a slice, rows that are picked): where its loads and
 * stores are told, no more is moved. */
static void cut_to_uses(Reader *r, const Kernel *kernel, const Call *call, EchItemWork *work)
{
    const Text *range = call ? &g_array_index(r->texts, Text, call->name - 1) : NULL;
    static const char prefix[] = "triton_";
    EchBytes read, written;
    if (!range || range->n < sizeof prefix || memcmp(range->at, prefix, sizeof prefix - 1) != 0 || !told_bytes(r, kernel, &read, &written))
        return;
    if (ech_capture_item(r->capture, kernel->item)->n_uses > 0) {
        work->read = MIN(work->read, read);
        work->write = MIN(work->write, written);
    }
}

/* Traffic, operations and shape of every kernel, from the sizes of its operator, its name and its launch. */
static void infer_traffic(Reader *r)
{
    count_kernels(r);
    g_autoptr(GHashTable) devices = g_hash_table_new_full(NULL, NULL, NULL, (GDestroyNotify)ech_reuse_free);
    uint32_t next = 0;
    uint64_t by_tiles = 0, by_code = 0, by_shape = 0, by_grid = 0, assumed = 0, unknown = 0;
    for (guint i = 0; i < r->kernels->len; i++) {
        const Kernel *kernel = &g_array_index(r->kernels, Kernel, i);
        const EchXlaLaunch *compiled = kernel->compiled > 0 ? &g_array_index(r->compiled, EchXlaLaunch, kernel->compiled - 1) : NULL;
        if (compiled && compiled->trace) {
            take_compiled(r, kernel, compiled);
            continue;
        }
        EchItem *item = ech_capture_item(r->capture, kernel->item);
        const EchGpuName *name = ech_gpu_name_of(r->capture, r->names, item->name);
        Call *call = kernel->call == UINT32_MAX ? NULL : &g_array_index(r->calls, Call, kernel->call);
        if (call && !call->settled) {
            call->settled = true;
            call->dtype = call->dtype != ECH_DTYPE_NONE ? call->dtype : dtype_of(name);
            read_call(r, call);
        }
        EchGpuLaunch launch = kernel->launch;
        EchItemWork work = {0};
        double share = call ? ech_gpu_call_share(&call->shared, name, &launch) : 0;
        bool known = ech_gpu_kernel_work(call ? &call->shared.whole : NULL, name, share, &launch, &work);
        if (!known)
            work = (EchItemWork){0};
        cut_to_uses(r, kernel, call, &work);
        if (take_code(r, kernel)) {
            take_uses(r, devices, &next, kernel->item, launch.near);
            by_code++;
        } else if (take_products(r, kernel, &launch, &work)) {
            item->work = ech_capture_work(r->capture, work);
            by_tiles++;
        } else if (known) {
            item->work = ech_capture_work(r->capture, work);
            *(share > 0 ? &by_shape : &by_grid) += 1;
        } else if (!(item->told && call && call->of_python) && ech_gpu_assumed_work(name, &launch, &work)) {
            item->work = ech_capture_work(r->capture, work);
            assumed++;
        } else {
            unknown++;
        }
        g_string_truncate(r->scratch, 0);
        ech_gpu_launch_print(&launch, r->scratch);
        if (r->scratch->len > 0)
            item->other = ech_trace_builder_string(r->builder, r->scratch->str, (gssize)r->scratch->len);
    }
    say_untold(r);
    ech_diag_note(r->ret->diag, "kernels_of_told_products", by_tiles);
    ech_diag_note(r->ret->diag, "kernels_told_by_their_code", by_code);
    ech_diag_note(r->ret->diag, "kernel_traffic_inferred_from_shapes", by_shape);
    ech_diag_note(r->ret->diag, "kernel_traffic_inferred_from_grids", by_grid);
    ech_diag_note(r->ret->diag, "kernel_traffic_assumed", assumed);
    ech_diag_note(r->ret->diag, "kernels_of_unknown_traffic", unknown);
}

/* ---- lines ---- */

/* Words that lines begin with. */
enum {
    LINE_KERNEL,
    LINE_LIBRARY,
    LINE_COPY,
    LINE_SET,
    LINE_ALLOC,
    LINE_FREE,
    LINE_REFUSED,
    LINE_RECORD,
    LINE_WAIT,
    LINE_SYNC,
    LINE_COLLECTIVE,
    LINE_PUSH,
    LINE_POP,
    LINE_MARK,
    LINE_GRAPH,
    LINE_NAME,
    LINE_CLOCK,
    LINE_DEVICE,
    LINE_END,
    LINE_USES,
    LINE_ARGS,
    LINE_CAPTURED,
    LINE_NODE,
    LINE_LENGTHS,
    LINE_PRODUCTS,
    LINE_SECTORS,
    LINE_AXES,
    LINE_LANES,
    LINE_CODE,
    LINE_UNITS,
    LINE_ATOMICS,
    LINE_ASKED,
    LINE_THREAD,
    LINE_POOL,
    LINE_POOL_TOLD,
    LINE_POOL_WANTED,
    LINE_MEETS,
    LINE_RANK,
    LINE_SENDS,
    LINE_OF,
    LINE_HOST,
    LINE_FILE,
    LINE_TELLS,
    LINE_HEARS,
    LINE_PREFETCH,
    LINE_ADVISE,
    LINE_PIN,
    LINE_REGISTERED,
    LINE_UNREGISTERED,
};

static const EchLineKind kinds[] = {
    [LINE_KERNEL] = {"kernel", "kernel", 11, false},
    [LINE_LIBRARY] = {"library", "library", 9, false},
    [LINE_COPY] = {"copy", "copy", 7, false},
    [LINE_SET] = {"set", "set", 4, false},
    [LINE_ALLOC] = {"alloc", "alloc", 7, false},
    [LINE_FREE] = {"free", "free", 7, false},
    [LINE_REFUSED] = {"refused", "refused", 4, false},
    [LINE_RECORD] = {"record", "record", 4, false},
    [LINE_WAIT] = {"wait", "wait", 4, false},
    [LINE_SYNC] = {"sync", "sync", 5, false},
    [LINE_COLLECTIVE] = {"collective", "collective", 7, false},
    [LINE_PUSH] = {"push", "push", 3, false},
    [LINE_POP] = {"pop", "pop", 2, false},
    [LINE_MARK] = {"mark", "mark", 3, false},
    [LINE_GRAPH] = {"graph", "graph", 4, false},
    [LINE_NAME] = {"name", NULL, 1, true},
    [LINE_CLOCK] = {"clock", NULL, 1, false},
    [LINE_DEVICE] = {"device", NULL, 3, true},
    [LINE_END] = {"end", NULL, 0, false},
    [LINE_USES] = {"uses", NULL, ECH_LINE_LIST, false},
    [LINE_ARGS] = {"args", NULL, ECH_LINE_LIST, false},
    [LINE_CAPTURED] = {"captured", "captured", ECH_LINE_LIST, false},
    [LINE_NODE] = {"node", NULL, 1, false},
    [LINE_LENGTHS] = {"lengths", NULL, 5, false},
    [LINE_PRODUCTS] = {"products", NULL, 3, false},
    [LINE_SECTORS] = {"sectors", NULL, 1, false},
    [LINE_AXES] = {"axes", NULL, 1, false},
    [LINE_LANES] = {"lanes", NULL, 3, false},
    [LINE_CODE] = {"code", NULL, 8, false},
    [LINE_UNITS] = {"units", NULL, 4, false},
    [LINE_ATOMICS] = {"atomics", NULL, 2, false},
    [LINE_ASKED] = {"asked", NULL, 1, false},
    [LINE_THREAD] = {"thread", NULL, 1, false},
    [LINE_POOL] = {"pool", NULL, 2, false},
    [LINE_POOL_TOLD] = {"pool_told", NULL, 2, false},
    [LINE_POOL_WANTED] = {"pool_wanted", NULL, 1, false},
    [LINE_MEETS] = {"meets", NULL, ECH_LINE_LIST, false},
    [LINE_RANK] = {"rank", NULL, 3, false},
    [LINE_SENDS] = {"sends", NULL, ECH_LINE_LIST, false},
    [LINE_OF] = {"of", NULL, 4, false},
    [LINE_HOST] = {"host", "host", 5, false},
    [LINE_FILE] = {"file", "file", 9, false},
    [LINE_TELLS] = {"tells", "tells", 3, false},
    [LINE_HEARS] = {"hears", "hears", 3, false},
    [LINE_PREFETCH] = {"prefetch", "prefetch", 5, false},
    [LINE_ADVISE] = {"advise", "advise", 6, false},
    [LINE_PIN] = {"pin", "pin", 4, false},
    [LINE_REGISTERED] = {"registered", "registered", 4, false},
    [LINE_UNREGISTERED] = {"unregistered", "unregistered", 4, false},
};

/* Where each rank is a process of its own, it asks for one device of several: that is device 0 here, which the first one that anything was asked of changes
 * places with, until it turns out that others are asked, too. Waits come before and after, of whatever device a thread began with; what comes before is that
 * device's, too. */
static void number_device(Reader *r, size_t which)
{
    static const uint8_t fields[G_N_ELEMENTS(kinds)] = {
        [LINE_KERNEL] = 1,   [LINE_LIBRARY] = 1, [LINE_COPY] = 1, [LINE_SET] = 1,        [LINE_ALLOC] = 1,       [LINE_FREE] = 1, [LINE_REFUSED] = 1,
        [LINE_RECORD] = 1,   [LINE_WAIT] = 1,    [LINE_SYNC] = 2, [LINE_COLLECTIVE] = 1, [LINE_GRAPH] = 1,       [LINE_HOST] = 1, [LINE_FILE] = 1,
        [LINE_PREFETCH] = 1, [LINE_ADVISE] = 1,  [LINE_PIN] = 1,  [LINE_REGISTERED] = 1, [LINE_UNREGISTERED] = 1};
    if (fields[which] == 0)
        return;
    uint64_t *device = &r->lines.fields[fields[which]];
    if (!r->any_device && (which <= LINE_SET || (which == LINE_ALLOC && r->lines.fields[5] == 3 /* device memory */))) {
        r->any_device = true;
        r->first_device = *device;
    }
    *device = !r->any_device || *device == r->first_device ? 0 : *device == 0 ? r->first_device : *device;
}

static bool add_line(size_t which, void *data, GError **error)
{
    Reader *r = data;
    if (which == G_N_ELEMENTS(kinds)) {
        g_autofree char *word = ech_lines_word(&r->lines);
        ech_diag_dropped(r->ret->diag, "lines_of_unknown_kind", 1, "%s:%zu: '%s'", r->lines.where, r->lines.line, word);
        return true;
    }
    number_device(r, which);
    r->behind_copy = r->behind_copy && (which == LINE_COPY || which == LINE_USES || which == LINE_NAME);
    switch (which) {
    case LINE_KERNEL: return add_kernel(r, error);
    case LINE_LIBRARY: return add_library(r, error);
    case LINE_COPY: add_copy(r); break;
    case LINE_FILE: return add_file(r, error);
    case LINE_SET: add_set(r); break;
    case LINE_ALLOC: add_memory(r, ECH_ITEM_ALLOC); break;
    case LINE_FREE: add_memory(r, ECH_ITEM_FREE); break;
    case LINE_REFUSED: add_refused(r); break;
    case LINE_RECORD: add_event_record(r); break;
    case LINE_WAIT: add_event_wait(r); break;
    case LINE_SYNC: add_sync(r); break;
    case LINE_COLLECTIVE: return add_collective(r, error);
    case LINE_PUSH: return add_push(r, error);
    case LINE_POP: add_pop(r); break;
    case LINE_THREAD:
        r->active = ranges_of(r, r->lines.fields[0]);
        r->thread = (uint32_t)r->lines.fields[0];
        break;
    case LINE_MARK: return add_mark(r, error);
    case LINE_GRAPH:
        r->of_graph = r->lines.fields[3];
        r->in_graph = false;
        r->step_of_launch = ECH_NONE;
        r->n_launches++;
        break;
    case LINE_NAME: return add_name(r, error);
    case LINE_CLOCK:
        r->clock_ns = r->lines.fields[0];
        ech_trace_builder_printf_property(r->builder, "session_start_unix_ns", "%" G_GUINT64_FORMAT, r->clock_ns);
        break;
    case LINE_DEVICE: add_device(r); break;
    case LINE_USES: return add_known_uses(r, error);
    case LINE_ARGS: return add_arguments(r, error);
    case LINE_CAPTURED: return add_captured(r, error);
    case LINE_NODE: return add_node(r, error);
    case LINE_LENGTHS: add_lengths(r); break;
    case LINE_SECTORS: return add_places(r, true, error);
    case LINE_AXES: return add_places(r, false, error);
    case LINE_PRODUCTS: return add_products(r, error);
    case LINE_LANES: return add_lanes(r, error);
    case LINE_CODE: return add_code(r, error);
    case LINE_UNITS: return add_units(r, error);
    case LINE_ATOMICS: return add_atomics(r, error);
    case LINE_ASKED: /* what a library takes of the host, in operators */
        r->operators += r->eager ? (uint32_t)MIN(r->lines.fields[0], UINT32_MAX - r->operators) : 0;
        break;
    case LINE_POOL:
        if (r->lines.fields[0] > 0 && r->lines.fields[0] <= 1000000)
            ech_trace_builder_printf_property(r->builder, "pretended_pool_millionths", "%" G_GUINT64_FORMAT, r->lines.fields[0]);
        if (r->lines.fields[1] != 0)
            ech_trace_builder_set_property(r->builder, "pretended_pool_grows", "true");
        break;
    case LINE_POOL_TOLD:
        if (r->lines.fields[0] > 0)
            ech_trace_builder_printf_property(r->builder, "pretended_pool_limit", "%" G_GUINT64_FORMAT, r->lines.fields[0]);
        if (r->lines.fields[1] != 0)
            ech_trace_builder_set_property(r->builder, "pretended_pool_grows", "true");
        break;
    case LINE_POOL_WANTED: r->pool_wanted = true; break;
    case LINE_MEETS: return add_meetings(r, false, error);
    case LINE_SENDS: return add_meetings(r, true, error);
    case LINE_OF: return add_of(r, error);
    case LINE_HOST: return add_host_work(r, error);
    case LINE_TELLS: return add_host_meeting(r, true, error);
    case LINE_HEARS: return add_host_meeting(r, false, error);
    case LINE_PREFETCH: add_prefetch(r); break;
    case LINE_ADVISE: add_advice(r); break;
    case LINE_PIN: add_pinning(r, r->lines.fields[2], r->lines.fields[3] != 0); break;
    case LINE_REGISTERED: add_registered(r, ECH_ITEM_ALLOC); break;
    case LINE_UNREGISTERED: add_registered(r, ECH_ITEM_FREE); break;
    case LINE_RANK:
        ech_trace_builder_printf_property(r->builder, "rank", "%" G_GUINT64_FORMAT, r->lines.fields[1]);
        ech_trace_builder_printf_property(r->builder, "ranks", "%" G_GUINT64_FORMAT, r->lines.fields[2]);
        break;
    default: r->lines.ended = true; break;
    }
    return true;
}

static bool read_lines(Reader *r, const char *data, size_t n, GError **error)
{
    return ech_lines_read(&r->lines, data, n, kinds, G_N_ELEMENTS(kinds), add_line, r, error);
}

/* ---- the snapshot beside ---- */

/* PyTorch's own memory snapshot of the same process: STEM.pickle beside STEM.pretend. Owned by the caller; NULL where there is none. */
static char *find_snapshot(const char *path)
{
    if (!path)
        return NULL;
    g_autofree char *stem = g_strdup(path);
    if (g_str_has_suffix(stem, ".gz"))
        stem[strlen(stem) - 3] = '\0';
    if (!g_str_has_suffix(stem, ".pretend"))
        return NULL;
    stem[strlen(stem) - 8] = '\0';
    static const char *const ends[] = {".pickle", ".pickle.gz"};
    for (size_t i = 0; i < G_N_ELEMENTS(ends); i++) {
        g_autofree char *candidate = g_strconcat(stem, ends[i], NULL);
        if (g_file_test(candidate, G_FILE_TEST_IS_REGULAR))
            return g_steal_pointer(&candidate);
    }
    return NULL;
}

static bool merge_snapshot(Reader *r, const char *path, bool found, GError **error)
{
    int64_t unix_us;
    g_autoptr(GError) why = NULL;
    g_autoptr(EchImport) other = ech_capture_read_snapshot(path, "what was asked of a device", &unix_us, &why);
    if (!other && found && g_error_matches(why, ECH_ERROR, ECH_ERROR_UNSUPPORTED)) {
        ech_diag_remark(r->ret->diag, "%s lies beside it but tells no times: left out", path); /* one of no allocation at all */
        return true;
    }
    if (!other) {
        g_propagate_error(error, g_steal_pointer(&why));
        return false;
    }
    int64_t difference = unix_us - (int64_t)MIN(r->clock_ns / 1000, (uint64_t)INT64_MAX / 2);
    if (difference > INT64_C(86400000000) || difference < INT64_C(-86400000000)) {
        if (found) {
            ech_diag_remark(r->ret->diag, "%s lies beside it but is of another run: left out", path);
            return true;
        }
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: begins %" G_GINT64_FORMAT " s away from %s; they are not of the same run", path,
                    difference / 1000000, r->lines.where);
        return false;
    }
    EchTime zero = difference * ECH_PS_PER_US - (EchTime)(r->clock_ns % 1000) * ECH_PS_PER_NS;
    EchId name = ech_trace_builder_string(r->builder, memory_name(3), -1), direct = ech_trace_builder_string(r->builder, "cudaMalloc beside the allocator", -1);
    ech_direct_mark(r->capture, other->trace, zero, name, direct);
    ech_capture_merge(r->capture, other->trace, zero);
    ech_capture_name_merged(r->capture, name_block, r);
    ech_capture_set_first_device(r->capture, (uint32_t)MIN(r->first_device, 65535));
    if (found)
        ech_diag_source(r->ret->diag, "PyTorch's allocations", path);
    return true;
}

/* What a program asks for between two waits of its host. */
typedef struct {
    size_t first;  /* item */
    size_t n;      /* kernels */
    uint64_t hash; /* of their names, in order */
} Round;
/* Of fewer kernels it is no step: a program that waits for each of a few is no loop of steps. */
#define STEP_KERNELS 8

static GArray *find_rounds(const Reader *r, bool *ret_named)
{
    GArray *rounds = g_array_new(FALSE, FALSE, sizeof(Round));
    Round round = {.n = 0};
    bool begun = false;
    size_t n = ech_capture_n_items(r->capture);
    *ret_named = false;
    for (size_t i = 0; i <= n; i++) {
        const EchItem *item = i < n ? ech_capture_item(r->capture, i) : NULL;
        EchItemKind kind = item ? (EchItemKind)item->kind : ECH_ITEM_HOST_WAIT;
        *ret_named |= kind == ECH_ITEM_MARK;
        if (kind == ECH_ITEM_HOST_WAIT) {
            if (round.n >= STEP_KERNELS)
                g_array_append_val(rounds, round);
            round.n = 0;
            begun = false;
        } else if (kind == ECH_ITEM_KERNEL || kind == ECH_ITEM_COPY || kind == ECH_ITEM_MEMSET) {
            if (!begun)
                round = (Round){.first = i, .hash = ECH_FNV};
            begun = true;
            if (kind == ECH_ITEM_KERNEL) {
                round.n++;
                round.hash = ech_fnv(round.hash, &item->name, sizeof item->name);
            }
        }
    }
    return rounds;
}

/* Steps that nothing names: where compiled code asks for the same kernels three times and more, each time up to a wait of its host, as for one token after
 * another, all that lies between its waits are steps. */
static void mark_rounds(Reader *r)
{
    bool named, again = false;
    g_autoptr(GArray) rounds = find_rounds(r, &named);
    for (guint i = 2; i < rounds->len && !named; i++) {
        const Round *last = &g_array_index(rounds, Round, i - 2);
        again |= last[0].hash == last[1].hash && last[1].hash == last[2].hash;
    }
    for (guint i = 0; i < rounds->len && again; i++) {
        g_autofree char *name = g_strdup_printf("step %u", i);
        mark_at(r, ech_capture_item(r->capture, g_array_index(rounds, Round, i).first)->issued, name, strlen(name));
    }
    if (again)
        ech_diag_remark(r->ret->diag, "nothing names steps: each is what the program asked for between two waits of its host");
}

static bool finish(Reader *r, const EchImportOptions *options, GError **error)
{
    if (r->first_device > 0 && r->first_device <= 65535 && ech_capture_has_other_device(r->capture, 0)) { /* of several each keeps its number */
        ech_capture_exchange_devices(r->capture, 0, (uint32_t)r->first_device);
        r->first_device = 0;
    }
    g_autoptr(EchXlaFolders) folders = ech_xla_folders_new(ech_source_path(r->source), r->clock_ns, options && options->device ? options->device : r->device);
    if (r->compiled->len > 0 && !(options && options->ignore_beside))
        ech_xla_folders_find(folders, r->builder, (EchXlaLaunch *)(void *)r->compiled->data, r->compiled->len, r->ret->diag);
    if (r->staged_bytes > 0) {
        g_autofree char *bytes = ech_format_bytes(r->staged_bytes);
        ech_diag_remark(
            r->ret->diag,
            "%s are copied between devices of which neither was told to reach the other, over the host's memory: after cudaDeviceEnablePeerAccess() "
            "of either they would go straight",
            bytes);
    }
    uint64_t compiled = ech_diag_count(r->ret->diag, "kernels_priced_by_their_program");
    if (compiled > 0)
        ech_trace_builder_printf_property(r->builder, "kernels_of_programs", "%" G_GUINT64_FORMAT, compiled);
    infer_traffic(r);
    ech_trace_builder_printf_property(r->builder, "end_reserved_bytes", "%" G_GUINT64_FORMAT, r->reserved);
    ech_trace_builder_printf_property(r->builder, "peak_reserved_bytes", "%" G_GUINT64_FORMAT, r->peak_reserved);
    settle_refused(r);
    if (r->n_served_late > 0)
        ech_diag_remark(r->ret->diag,
                        "%" G_GUINT64_FORMAT
                        " of the program's requests found room on the device only once it had given back what it kept: where there is more, "
                        "it keeps more",
                        r->n_served_late);
    if (r->n_refused > 0) {
        g_autofree char *bytes = ech_format_bytes(r->largest_refused);
        ech_diag_note(r->ret->diag, "requests_that_the_device_refused", r->n_refused);
        ech_diag_remark(r->ret->diag,
                        "the device had no room for %" G_GUINT64_FORMAT " of the program's requests, the largest of %s: what the program did after "
                        "that is what it does where memory is short",
                        r->n_refused, bytes);
    }
    const char *given = options ? options->beside : NULL;
    g_autofree char *found = given || (options && options->ignore_beside) ? NULL : find_snapshot(ech_source_path(r->source));
    if ((given || found) && !merge_snapshot(r, given ? given : found, !given, error))
        return false;
    if (!given && !found && r->peak_reserved > 0 && r->calls->len > 0)
        ech_diag_remark(r->ret->diag,
                        "no snapshot of PyTorch's lies beside it: what is allocated are the segments that PyTorch asked the driver for, not its tensors");
    if (!given && !found && r->n_of_pool > r->n_blocks / 2) /* TensorFlow's and JAX's arrays, whatever scratch memory they ask for besides */
        ech_trace_builder_set_property(r->builder, "asked_one_by_one",
                                       r->pool_wanted     ? "cuda_async"
                                       : r->of_tensorflow ? "tensorflow"
                                       : r->of_xla        ? "jax"
                                                          : "cuda_async");
    for (guint i = 0; i < r->backward->len && !r->marked; i++)
        mark_at(r, g_array_index(r->backward, EchTime, i), ECH_MARK_BACKWARD, strlen(ECH_MARK_BACKWARD));
    ech_capture_set_unrecorded(r->capture);
    bool of_framework = r->of_framework || r->of_tensorflow || r->of_xla || r->compiled->len > 0;
    ech_trace_builder_set_property(r->builder, "host_order", of_framework ? "as asked" : ECH_HOST_COMPILED);
    if (!of_framework)
        mark_rounds(r);
    for (size_t i = 0; r->of_xla && i < ech_capture_n_items(r->capture); i++) { /* XLA's client asks each device by a thread of its own */
        EchItem *item = ech_capture_item(r->capture, i);
        item->thread = ech_capture_queue_device(r->capture, item->queue) + 1;
    }
    return ech_capture_finish(r->capture, error);
}

static void clear_text(gpointer text)
{
    g_free(((Text *)text)->arguments);
    g_clear_pointer(&((Text *)text)->uses, g_array_unref);
}

static bool pretend_read(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    g_autoptr(GBytes) bytes = ech_source_bytes(source, 0, error);
    if (!bytes)
        return false;
    gsize n;
    const char *data = g_bytes_get_data(bytes, &n);
    g_autoptr(EchCapture) capture = ech_capture_new(ret, "pretend");
    g_autoptr(GString) scratch = g_string_new(NULL), with = g_string_new(NULL);
    g_autoptr(EchPageCache) page_cache = ech_page_cache_new();
    g_autoptr(GArray) texts = g_array_new(FALSE, FALSE, sizeof(Text)), calls = g_array_new(FALSE, TRUE, sizeof(Call)),
                      kernels = g_array_new(FALSE, FALSE, sizeof(Kernel)), paths = g_array_new(FALSE, FALSE, sizeof(Path)),
                      moments = g_array_new(FALSE, FALSE, sizeof(Moment)), backward = g_array_new(FALSE, FALSE, sizeof(EchTime)),
                      list = g_array_new(FALSE, FALSE, sizeof(uint64_t)), addresses = g_array_new(FALSE, FALSE, sizeof(uint64_t)),
                      captured = g_array_new(FALSE, FALSE, sizeof(Node)), lengths = g_array_new(FALSE, FALSE, sizeof(EchGpuLengths)),
                      compiled = g_array_new(FALSE, TRUE, sizeof(EchXlaLaunch));
    g_autoptr(GHashTable) met = g_hash_table_new_full(ech_meeting_hash, ech_meeting_equal, g_free, g_free),
                          runs = g_hash_table_new_full(NULL, NULL, NULL, free_run);
    g_array_set_clear_func(texts, clear_text);
    g_autoptr(GHashTable) names = g_hash_table_new_full(NULL, NULL, NULL, g_free), index = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, NULL),
                          open = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, (GDestroyNotify)g_array_unref),
                          events = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, g_free),
                          nodes = g_hash_table_new_full(ech_hash_int64, g_int64_equal, g_free, NULL);
    Reader r = {.ret = ret,
                .source = source,
                .capture = capture,
                .builder = ech_capture_builder(capture),
                .lines = {.where = ech_source_path(source) ? ech_source_path(source) : "capture", .diag = ret->diag, .records = ret->records, .list = list},
                .scratch = scratch,
                .with = with,
                .texts = texts,
                .calls = calls,
                .kernels = kernels,
                .paths = paths,
                .index = index,
                .open = open,
                .events = events,
                .nodes = nodes,
                .moments = moments,
                .backward = backward,
                .addresses = addresses,
                .nodes_of_graphs = captured,
                .lengths = lengths,
                .compiled = compiled,
                .runs = runs,
                .met = met,
                .worked = UINT32_MAX,
                .names = names,
                .page_cache = page_cache,
                .budget = MAX((uint64_t)16 << 20, n / 8),
                .to_look_at = LOOKED_AT_LEAST + LOOKED_AT_EACH * (uint64_t)n};
    if (n < strlen(MAGIC) || memcmp(data, MAGIC, strlen(MAGIC)) != 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s:1: not what a program asked of a device; expected 'echelon-pretend 1'", r.lines.where);
        return false;
    }
    bool read = read_lines(&r, data + strlen(MAGIC), n - strlen(MAGIC), error) && finish(&r, options, error);
    g_free(r.device);
    return read;
}

static int probe(const uint8_t *head, size_t n)
{
    return n >= strlen(MAGIC) && memcmp(head, MAGIC, strlen(MAGIC)) == 0 ? 2 : 0;
}

const EchImportClass ech_import_pretend = {
    .name = "pretend",
    .summary = "what a CUDA program asked of a GPU that was not there ('echelon capture --pretend'), with PyTorch's snapshot beside it",
    .probe = probe,
    .read = pretend_read,
    .when_idle = "the program asked for nothing on a GPU: it may have been stopped before, or found no CUDA",
};
