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
#include "sim/import/pretend_private.h"

#include "sim/base/error.h"
#include "sim/base/fnv.h"
#include "sim/base/hash.h"
#include "sim/import/direct.h"
#include "sim/trace/meets.h"
#include "sim/trace/ranges.h"
#include <string.h>

#define MAGIC "echelon-pretend 1\n"
/* Names are told once and looked at for every line that has them. Far fewer of their bytes than this are looked at, but for files that are made to take long.
 */
#define LOOKED_AT_LEAST ((uint64_t)1 << 28)
enum { LOOKED_AT_EACH = 256 }; /* times the file's size, besides */

const char *ech_pretend_plain(Reader *r, const char *at, size_t n)
{
    return ech_lines_text(r->scratch, at, n);
}

Text *ech_pretend_text_of(Reader *r, uint64_t number, GError **error)
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

EchId ech_pretend_string_of(Reader *r, const Text *text)
{
    ech_pretend_plain(r, text->at, text->n);
    return ech_trace_builder_string(r->builder, r->scratch->str, (gssize)r->scratch->len);
}

EchId ech_pretend_kept_string_of(Reader *r, Text *text)
{
    if (text->string == ECH_NONE)
        text->string = ech_pretend_string_of(r, text);
    return text->string;
}

EchTime ech_pretend_time_of(Reader *r, uint64_t nanoseconds)
{
    if (nanoseconds <= (uint64_t)INT64_MAX / 2000)
        r->newest = (EchTime)nanoseconds * ECH_PS_PER_NS;
    return r->newest;
}

uint32_t ech_pretend_stream_queue(Reader *r, uint64_t device, uint64_t stream)
{
    return ech_capture_stream(r->capture, (uint32_t)MIN(device, 65535), (int64_t)stream);
}

const char *ech_pretend_memory_name(uint64_t kind)
{
    static const char *const names[] = {"unknown", "pageable", "cudaMallocHost", "cudaMalloc", "array", "cudaMallocManaged", "NCCL's buffers"};
    return names[kind < G_N_ELEMENTS(names) ? kind : 0];
}

uint8_t ech_pretend_tier_of(uint64_t kind)
{
    return kind == 1 || kind == 2 || kind == 7 ? ECH_TIER_HOST : ECH_TIER_DEVICE;
}

bool ech_pretend_is_managed(uint64_t kind)
{
    return kind == 5;
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
    case LINE_KERNEL: return ech_pretend_add_kernel(r, error);
    case LINE_LIBRARY: return ech_pretend_add_library(r, error);
    case LINE_COPY: ech_pretend_add_copy(r); break;
    case LINE_FILE: return ech_pretend_add_file(r, error);
    case LINE_SET: ech_pretend_add_set(r); break;
    case LINE_ALLOC: ech_pretend_add_memory(r, ECH_ITEM_ALLOC); break;
    case LINE_FREE: ech_pretend_add_memory(r, ECH_ITEM_FREE); break;
    case LINE_REFUSED: ech_pretend_add_refused(r); break;
    case LINE_RECORD: ech_pretend_add_event_record(r); break;
    case LINE_WAIT: ech_pretend_add_event_wait(r); break;
    case LINE_SYNC: ech_pretend_add_sync(r); break;
    case LINE_COLLECTIVE: return ech_pretend_add_collective(r, error);
    case LINE_PUSH: return ech_pretend_add_push(r, error);
    case LINE_POP: ech_pretend_add_pop(r); break;
    case LINE_THREAD:
        r->active = ech_pretend_ranges_of(r, r->lines.fields[0]);
        r->thread = (uint32_t)r->lines.fields[0];
        break;
    case LINE_MARK: return ech_pretend_add_mark(r, error);
    case LINE_GRAPH:
        r->of_graph = r->lines.fields[3];
        r->in_graph = false;
        r->step_of_launch = ECH_NONE;
        r->n_launches++;
        break;
    case LINE_NAME: return ech_pretend_add_name(r, error);
    case LINE_CLOCK:
        r->clock_ns = r->lines.fields[0];
        ech_trace_builder_printf_property(r->builder, "session_start_unix_ns", "%" G_GUINT64_FORMAT, r->clock_ns);
        break;
    case LINE_DEVICE: ech_pretend_add_device(r); break;
    case LINE_USES: return ech_pretend_add_known_uses(r, error);
    case LINE_ARGS: return ech_pretend_add_arguments(r, error);
    case LINE_CAPTURED: return ech_pretend_add_captured(r, error);
    case LINE_NODE: return ech_pretend_add_node(r, error);
    case LINE_LENGTHS: ech_pretend_add_lengths(r); break;
    case LINE_SECTORS: return ech_pretend_add_places(r, true, error);
    case LINE_AXES: return ech_pretend_add_places(r, false, error);
    case LINE_PRODUCTS: return ech_pretend_add_products(r, error);
    case LINE_LANES: return ech_pretend_add_lanes(r, error);
    case LINE_CODE: return ech_pretend_add_code(r, error);
    case LINE_UNITS: return ech_pretend_add_units(r, error);
    case LINE_ATOMICS: return ech_pretend_add_atomics(r, error);
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
    case LINE_MEETS: return ech_pretend_add_meetings(r, false, error);
    case LINE_SENDS: return ech_pretend_add_meetings(r, true, error);
    case LINE_OF: return ech_pretend_add_of(r, error);
    case LINE_HOST: return ech_pretend_add_host_work(r, error);
    case LINE_TELLS: return ech_pretend_add_host_meeting(r, true, error);
    case LINE_HEARS: return ech_pretend_add_host_meeting(r, false, error);
    case LINE_PREFETCH: ech_pretend_add_prefetch(r); break;
    case LINE_ADVISE: ech_pretend_add_advice(r); break;
    case LINE_PIN: ech_pretend_add_pinning(r, r->lines.fields[2], r->lines.fields[3] != 0); break;
    case LINE_REGISTERED: ech_pretend_add_registered(r, ECH_ITEM_ALLOC); break;
    case LINE_UNREGISTERED: ech_pretend_add_registered(r, ECH_ITEM_FREE); break;
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

static bool merge_snapshot(Reader *r, const char *path, bool found, bool *ret_of_another, GError **error)
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
            *ret_of_another = true;
            return true;
        }
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "%s: begins %" G_GINT64_FORMAT " s away from %s; they are not of the same run", path,
                    difference / 1000000, r->lines.where);
        return false;
    }
    EchTime zero = difference * ECH_PS_PER_US - (EchTime)(r->clock_ns % 1000) * ECH_PS_PER_NS;
    EchId name = ech_trace_builder_string(r->builder, ech_pretend_memory_name(3), -1),
          direct = ech_trace_builder_string(r->builder, "cudaMalloc beside the allocator", -1);
    ech_direct_mark(r->capture, other->trace, zero, name, direct);
    ech_capture_merge(r->capture, other->trace, zero);
    ech_capture_name_merged(r->capture, ech_pretend_name_block, r);
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
        ech_pretend_mark_at(r, ech_capture_item(r->capture, g_array_index(rounds, Round, i).first)->issued, name, strlen(name));
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
    ech_pretend_infer_traffic(r);
    ech_trace_builder_printf_property(r->builder, "end_reserved_bytes", "%" G_GUINT64_FORMAT, r->reserved);
    ech_trace_builder_printf_property(r->builder, "peak_reserved_bytes", "%" G_GUINT64_FORMAT, r->peak_reserved);
    ech_pretend_settle_refused(r);
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
    bool none = !given && !found, one_by_one = r->n_of_pool > r->n_blocks / 2;
    if (!none && !merge_snapshot(r, given ? given : found, !given, &none, error))
        return false;
    if (none && !one_by_one && r->peak_reserved > 0 && r->calls->len > 0) {
        ech_trace_builder_set_property(r->builder, ECH_TRACE_SEGMENTS, "1");
        ech_diag_remark(r->ret->diag,
                        "no snapshot of PyTorch's lies beside it: what is allocated are the segments that PyTorch asked the driver for, not its tensors");
    }
    if (none && one_by_one) /* TensorFlow's and JAX's arrays, whatever scratch memory they ask for besides */
        ech_trace_builder_set_property(r->builder, "asked_one_by_one",
                                       r->pool_wanted     ? "cuda_async"
                                       : r->of_tensorflow ? "tensorflow"
                                       : r->of_xla        ? "jax"
                                                          : "cuda_async");
    for (guint i = 0; i < r->backward->len && !r->marked; i++)
        ech_pretend_mark_at(r, g_array_index(r->backward, EchTime, i), ECH_MARK_BACKWARD, strlen(ECH_MARK_BACKWARD));
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
                          runs = g_hash_table_new_full(NULL, NULL, NULL, ech_pretend_free_run);
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
