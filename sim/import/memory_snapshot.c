/* PyTorch memory snapshots: torch.cuda.memory._dump_snapshot, _snapshot and the C++ pickler of all versions.
 *
 * A snapshot is the allocator's state at the end (segments tiled by blocks) and a window of its history before that. The
 * state at the window's start is what the history implies: an address whose first event is a free was live, and so was
 * every block that is live at the end and has no event. Segments are rewound as intervals.
 *
 * In the trace: ALLOC and FREE (at free_completed) on one host queue per device; buffers keep the requested size, the
 * recorded block size where the end shows it, address, segment number, stream and stack. What the allocator did besides
 * stays as MARKs that begin with the action's own name: "segment_start address=0x.. type=large", "segment_alloc address=..", "oom device_free=.. reserved=..":
 * a request that was refused, with what the allocator held then.
 */
#include "sim/import/import.h"
#include "sim/import/pickle.h"

#include "sim/base/error.h"
#include "sim/base/hash.h"

#include <string.h>

typedef enum {
    KEY_NONE,
    KEY_OTHER,
    KEY_ACTION,
    KEY_ADDR,
    KEY_SIZE,
    KEY_STREAM,
    KEY_TIME_US,
    KEY_FRAMES,
    KEY_DEVICE_FREE,
    KEY_USER_METADATA,
    KEY_POOL_ID,
    KEY_STAGE,
    KEY_NAME,
    KEY_DEVICE,
    KEY_ADDRESS,
    KEY_TOTAL_SIZE,
    KEY_ALLOCATED_SIZE,
    KEY_SEGMENT_TYPE,
    KEY_SEGMENT_POOL_ID,
    KEY_IS_EXPANDABLE,
    KEY_BLOCKS,
    KEY_REQUESTED_SIZE,
    KEY_STATE,
    KEY_HISTORY,
    KEY_REAL_SIZE,
    KEY_FILENAME,
    KEY_LINE,
    N_KEYS
} Key;

static const char *const key_names[N_KEYS] = {
    [KEY_ACTION] = "action",
    [KEY_ADDR] = "addr",
    [KEY_SIZE] = "size",
    [KEY_STREAM] = "stream",
    [KEY_TIME_US] = "time_us",
    [KEY_FRAMES] = "frames",
    [KEY_DEVICE_FREE] = "device_free",
    [KEY_USER_METADATA] = "user_metadata",
    [KEY_POOL_ID] = "pool_id",
    [KEY_STAGE] = "stage",
    [KEY_NAME] = "name",
    [KEY_DEVICE] = "device",
    [KEY_ADDRESS] = "address",
    [KEY_TOTAL_SIZE] = "total_size",
    [KEY_ALLOCATED_SIZE] = "allocated_size",
    [KEY_SEGMENT_TYPE] = "segment_type",
    [KEY_SEGMENT_POOL_ID] = "segment_pool_id",
    [KEY_IS_EXPANDABLE] = "is_expandable",
    [KEY_BLOCKS] = "blocks",
    [KEY_REQUESTED_SIZE] = "requested_size",
    [KEY_STATE] = "state",
    [KEY_HISTORY] = "history",
    [KEY_REAL_SIZE] = "real_size",
    [KEY_FILENAME] = "filename",
    [KEY_LINE] = "line",
};

enum {
    ACT_ALLOC,
    ACT_FREE_REQUESTED,
    ACT_FREE_COMPLETED,
    ACT_SEGMENT_ALLOC,
    ACT_SEGMENT_FREE,
    ACT_SEGMENT_MAP,
    ACT_SEGMENT_UNMAP,
    ACT_SNAPSHOT,
    ACT_OOM,
    ACT_ANNOTATE,
    ACT_UNKNOWN,
    N_ACTIONS,
    ACT_EXTERNAL
};
static const char *const action_names[N_ACTIONS] = {
    "alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "snapshot", "oom", "annotate", "unknown"};

#define TIME_UNKNOWN INT64_MIN
#define MAX_SPACES 64
#define MAX_DICT 256 /* pairs of an entry; real ones have about ten */

typedef struct {
    uint64_t address, size;
    uint64_t stream;
    int64_t time_us;                  /* TIME_UNKNOWN where not recorded */
    EchPickleRef frames, extra, pool; /* extra: user metadata, an annotation's name, or an unknown action */
    uint16_t space;
    uint8_t action;
    uint8_t start; /* ACT_EXTERNAL: a stage START; ACT_FREE_REQUESTED: completed at once, by the next event of its device */
} Event;

typedef struct {
    uint64_t address, size, requested, stream;
    EchPickleRef frames, pool;
    uint16_t space;
} Block;

/* Mapped memory: a cudaMalloc, or a mapped range of an expandable segment. */
typedef struct {
    uint64_t address, size, stream;
    EchPickleRef pool;
    uint32_t number;
    bool small, expandable;
} Segment;

/* One allocator: a device's, or the pinned host's. */
typedef struct {
    bool host, used; /* used: it has segments, or asked for some; others have marks alone */
    uint32_t device;
    EchId memory, queue;
    GTree *mapped; /* Segment by address */
    uint64_t mapped_bytes;
    uint32_t n_segments;
    int64_t last_time;
    EchPickleRef last_pool; /* of the last allocation */
} Space;

/* Open addressing from addresses to numbers. */
typedef struct {
    uint64_t *keys;
    uint32_t *values; /* 0: empty; number + 2; 1: deleted */
    size_t mask, used;
    uint64_t seed;
} Map;

typedef struct {
    EchPickle *pickle;
    EchImport *ret;
    EchTraceBuilder *builder;
    const char *where;
    uint8_t *keys;        /* keys[n_values]: Key of a string value, KEY_NONE while unknown */
    EchId *stacks;        /* stacks[n_values]: of a list of frames, its text's id + 1; of a frame, its place in frame_texts + 1; 0 while unknown */
    EchId *names;         /* names[n_values]: id + 1 of the short name of a list of frames */
    GString *frame_texts; /* "file.py:12:function\0...", each once */
    GString *scratch;
    GArray *spaces; /* Space */
    GArray *events; /* Event */
    GArray *blocks; /* Block: active ones at the end */
    uint64_t reserved, allocated, stack_budget;
    int64_t base_us;
    Map streams; /* device in the top bits and stream -> queue */
    Map places;  /* hash of a frame's text -> place in frame_texts */
} Reader;

/* ---- map ---- */

static void map_init(Map *map, size_t expected)
{
    size_t n = 64;
    while (n < expected * 2)
        n *= 2;
    map->keys = g_new(uint64_t, n);
    map->values = g_new0(uint32_t, n);
    map->mask = n - 1;
    map->used = 0;
    map->seed = (uint64_t)g_random_int() << 32 | g_random_int();
}

static void map_clear(Map *map)
{
    g_free(map->keys);
    g_free(map->values);
}

static size_t map_slot(const Map *map, uint64_t key)
{
    uint64_t h = key ^ map->seed;
    h ^= h >> 33;
    h *= UINT64_C(0xff51afd7ed558ccd);
    h ^= h >> 33;
    h *= UINT64_C(0xc4ceb9fe1a85ec53);
    h ^= h >> 33;
    size_t slot = (size_t)h & map->mask;
    g_assert(map->values);
    while (map->values[slot] && map->keys[slot] != key)
        slot = (slot + 1) & map->mask;
    return slot;
}

/* Number of a key; false where it has none. */
static bool map_get(const Map *map, uint64_t key, uint32_t *ret)
{
    uint32_t value = map->values[map_slot(map, key)];
    if (value < 2)
        return false;
    *ret = value - 2;
    return true;
}

static void map_grow(Map *map)
{
    Map bigger;
    map_init(&bigger, (map->mask + 1));
    bigger.seed = map->seed;
    for (size_t i = 0; i <= map->mask; i++) {
        if (map->values[i] < 2)
            continue;
        size_t slot = map_slot(&bigger, map->keys[i]);
        bigger.keys[slot] = map->keys[i];
        bigger.values[slot] = map->values[i];
        bigger.used++;
    }
    map_clear(map);
    *map = bigger;
}

static void map_set(Map *map, uint64_t key, uint32_t number)
{
    if ((map->used + 1) * 4 > (map->mask + 1) * 3)
        map_grow(map);
    size_t slot = map_slot(map, key);
    map->used += map->values[slot] == 0;
    map->keys[slot] = key;
    map->values[slot] = number + 2;
}

static void map_remove(Map *map, uint64_t key)
{
    size_t slot = map_slot(map, key);
    if (map->values[slot])
        map->values[slot] = 1;
}

/* ---- the pickle's dicts ---- */

static Key key_of(Reader *r, EchPickleRef ref)
{
    if (r->keys[ref] != KEY_NONE)
        return (Key)r->keys[ref];
    size_t n;
    const char *text = ech_pickle_text(r->pickle, ref, &n);
    Key key = KEY_OTHER;
    for (int k = KEY_ACTION; text && k < N_KEYS; k++) {
        if (strlen(key_names[k]) == n && memcmp(key_names[k], text, n) == 0)
            key = (Key)k;
    }
    r->keys[ref] = (uint8_t)key;
    return key;
}

/* Values of a dict by key, in one pass; absent ones are ECH_PICKLE_ABSENT. False if it is no dict. */
static bool fields(Reader *r, EchPickleRef dict, EchPickleRef ret[N_KEYS])
{
    if (ech_pickle_type(r->pickle, dict) != ECH_PICKLE_DICT)
        return false;
    for (int k = 0; k < N_KEYS; k++)
        ret[k] = ECH_PICKLE_ABSENT;
    size_t n;
    const EchPickleRef *items = ech_pickle_items(r->pickle, dict, &n);
    if (n > MAX_DICT)
        return false;
    for (size_t i = 0; i < n; i++)
        ret[key_of(r, items[2 * i])] = items[2 * i + 1];
    return true;
}

static bool fail(const Reader *r, GError **error, const char *what, size_t at)
{
    g_set_error(error, ECH_ERROR, ECH_ERROR_PARSE, "%s: %s %zu", r->where, what, at);
    return false;
}

static uint64_t number(const Reader *r, EchPickleRef ref, uint64_t fallback)
{
    uint64_t value;
    return ech_pickle_u64(r->pickle, ref, &value) ? value : fallback;
}

/* "file.py:12:function" of one frame, made once; borrowed until the next call. */
static const char *frame_text(Reader *r, EchPickleRef frame)
{
    if (ech_pickle_type(r->pickle, frame) == ECH_PICKLE_LIST || r->stack_budget == 0)
        return "?";
    if (r->stacks[frame])
        return r->frame_texts->str + r->stacks[frame] - 1;
    size_t at = r->frame_texts->len, n;
    EchPickleRef f[N_KEYS];
    const char *text;
    if (fields(r, frame, f)) {
        if ((text = ech_pickle_text(r->pickle, f[KEY_FILENAME], &n)))
            g_string_append_len(r->frame_texts, text, (gssize)MIN(n, (size_t)4096));
        g_string_append_printf(r->frame_texts, ":%" G_GUINT64_FORMAT ":", number(r, f[KEY_LINE], 0));
        if ((text = ech_pickle_text(r->pickle, f[KEY_NAME], &n)))
            g_string_append_len(r->frame_texts, text, (gssize)MIN(n, (size_t)4096));
    } else if ((text = ech_pickle_text(r->pickle, frame, &n))) {
        g_string_append_len(r->frame_texts, text, (gssize)MIN(n, (size_t)4096));
    }
    for (size_t i = at; i < r->frame_texts->len; i++) {
        if ((unsigned char)r->frame_texts->str[i] < ' ')
            r->frame_texts->str[i] = ' ';
    }
    size_t length = r->frame_texts->len - at;
    r->stack_budget -= MIN(r->stack_budget, length);
    g_string_append_c(r->frame_texts, '\0');
    /* Files that do not share frames have the same ones again for every event. */
    uint64_t hash = ech_hash_bytes(r->frame_texts->str + at, length);
    uint32_t same;
    if (map_get(&r->places, hash, &same) && strcmp(r->frame_texts->str + same, r->frame_texts->str + at) == 0) {
        g_string_truncate(r->frame_texts, at);
        at = same;
    } else if (at < UINT32_MAX - 2) {
        map_set(&r->places, hash, (uint32_t)at);
    }
    if (at < UINT32_MAX - 1)
        r->stacks[frame] = (EchId)(at + 1);
    return r->frame_texts->str + at;
}

/* What TorchInductor wrote for a model, in a file named by a hash: "c" and 51 digits to the base of 32. */
static bool is_generated(const char *frame, size_t n)
{
    const char *dot = g_strstr_len(frame, (gssize)n, ".py:");
    size_t digits = 0;
    while (dot && digits < (size_t)(dot - frame) && strchr("abcdefghijklmnopqrstuvwxyz234567", dot[-1 - (gssize)digits]))
        digits++;
    return digits == 52 && dot[-52] == 'c' && (dot - 52 == frame || strchr("/\\", dot[-53]));
}

/* PyTorch's, Python's or the capture's own: a line that every program comes through. */
static bool is_torch(const char *frame, size_t n)
{
    bool installed = g_strstr_len(frame, (gssize)n, "-packages/") != NULL;
    return *frame == '<' || is_generated(frame, n) || g_strstr_len(frame, (gssize)n, "-packages/torch/") ||
           g_strstr_len(frame, (gssize)n, "/echelon/pretend/python/") || (!installed && g_strstr_len(frame, (gssize)n, "/lib/python"));
}

/* People recognise a block by the innermost line of their model, or of the library that has it; PyTorch's own line behind it tells a layer from an activation:
 * "model.py:29 (linear.py:134)", "train.py:8 (compiled:1867)". @stack: frames innermost first, a line each. ECH_NONE where none is Python's. */
static EchId block_name(Reader *r, const char *stack)
{
    g_autofree char *inner = NULL, *own = NULL;
    for (const char *at = stack; *at && !own;) {
        size_t n = strcspn(at, "\n");
        const char *dot = g_strstr_len(at, (gssize)n, ".py:"), *begin = dot;
        while (dot && begin > at && begin[-1] != '/' && begin[-1] != '\\')
            begin--;
        if (dot) {
            char *line = is_generated(at, n) ? g_strdup_printf("compiled:%.*s", (int)strspn(dot + 4, "0123456789"), dot + 4)
                                             : g_strndup(begin, (size_t)(dot - begin) + 4 + strspn(dot + 4, "0123456789"));
            if (!is_torch(at, n))
                own = line;
            else if (!inner && !g_strstr_len(at, (gssize)n, "/torch/utils/_device.py:"))
                inner = line;
            else
                g_free(line);
        }
        at += n + (at[n] == '\n');
    }
    if (!own && !inner)
        return ECH_NONE;
    g_autofree char *both = own && inner ? g_strdup_printf("%s (%s)", own, inner) : g_strdup(own ? own : inner);
    return ech_trace_builder_string(r->builder, both, -1);
}

/* Ids of a list of frames, innermost first: the whole stack and a short name. ECH_NONE where there is none. */
static EchId stack_id(Reader *r, EchPickleRef frames, EchId *ret_name)
{
    size_t n;
    const EchPickleRef *items = frames == ECH_PICKLE_ABSENT ? NULL : ech_pickle_items(r->pickle, frames, &n);
    *ret_name = ECH_NONE;
    if (!items || ech_pickle_type(r->pickle, frames) != ECH_PICKLE_LIST)
        return ECH_NONE;
    if (r->stacks[frames] == 0) {
        g_string_truncate(r->scratch, 0);
        bool between = false;
        for (size_t i = 0; i < n; i++) {
            const char *text = frame_text(r, items[i]);
            size_t length = strlen(text);
            /* `echelon capture --pretend` stands between an operator and its caller. */
            bool ours = strstr(text, "/pretend_values.py:") != NULL;
            if (ours)
                g_string_truncate(r->scratch, 0);
            between = ours || (between && (strstr(text, "/torch/_dynamo/") || strstr(text, "/torch/_compile.py:")));
            if (between)
                continue;
            if (length + 1 > r->stack_budget) {
                ech_diag_dropped(r->ret->diag, "frames_left_out", n - i, "a stack of %zu frames; written out, the stacks are far larger than the file", n);
                break;
            }
            r->stack_budget -= length + 1;
            if (r->scratch->len)
                g_string_append_c(r->scratch, '\n');
            g_string_append_len(r->scratch, text, (gssize)length);
        }
        r->stacks[frames] = ech_trace_builder_string(r->builder, r->scratch->str, (gssize)r->scratch->len) + 1;
        r->names[frames] = block_name(r, r->scratch->str) + 1; /* ECH_NONE + 1 is 0 again */
    }
    *ret_name = r->names[frames] - 1;
    return r->stacks[frames] - 1;
}

/* "0:1" of a private pool, ECH_NONE for the default one (0, 0). */
static EchId pool_id(Reader *r, EchPickleRef pool)
{
    size_t n;
    const EchPickleRef *items = pool == ECH_PICKLE_ABSENT ? NULL : ech_pickle_items(r->pickle, pool, &n);
    if (!items || n != 2)
        return ECH_NONE;
    uint64_t a = number(r, items[0], 0), b = number(r, items[1], 0);
    if (a == 0 && b == 0)
        return ECH_NONE;
    char text[48];
    g_snprintf(text, sizeof text, "%" G_GUINT64_FORMAT ":%" G_GUINT64_FORMAT, a, b);
    return ech_trace_builder_string(r->builder, text, -1);
}

/* ---- reading the lists ---- */

static int compare_addresses(gconstpointer a, gconstpointer b, gpointer data)
{
    (void)data;
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The space's index; it is made when first named. False past MAX_SPACES. */
static bool space_of(Reader *r, bool host, uint64_t device, uint16_t *ret, GError **error)
{
    for (guint i = 0; i < r->spaces->len; i++) {
        const Space *space = &g_array_index(r->spaces, Space, i);
        if (space->host == host && space->device == device) {
            *ret = (uint16_t)i;
            return true;
        }
    }
    if (r->spaces->len >= MAX_SPACES || device > 65535)
        return fail(r, error, "no machine has a device number", (size_t)device);
    Space space = {.host = host, .device = (uint32_t)device, .last_time = TIME_UNKNOWN, .last_pool = ECH_PICKLE_ABSENT};
    space.mapped = g_tree_new_full(compare_addresses, NULL, NULL, g_free);
    g_array_append_val(r->spaces, space);
    *ret = (uint16_t)(r->spaces->len - 1);
    return true;
}

static void insert_segment(Space *space, Segment segment)
{
    if (segment.size == 0)
        return;
    Segment *copy = g_new(Segment, 1);
    *copy = segment;
    g_tree_insert(space->mapped, &copy->address, copy);
    space->mapped_bytes = ech_bytes_add(space->mapped_bytes, segment.size);
}

/* The mapped segment that holds an address, or NULL. */
static Segment *segment_at(const Space *space, uint64_t address)
{
    GTreeNode *after = g_tree_upper_bound(space->mapped, &address);
    GTreeNode *node = after ? g_tree_node_previous(after) : g_tree_node_last(space->mapped);
    Segment *segment = node ? g_tree_node_value(node) : NULL;
    return segment && address - segment->address < segment->size ? segment : NULL;
}

/* Takes [address, address + size) out of what is mapped; what stays of a segment at either side keeps its number. */
static void unmap(Space *space, uint64_t address, uint64_t size)
{
    uint64_t end = size > UINT64_MAX - address ? UINT64_MAX : address + size;
    for (;;) {
        Segment *segment = segment_at(space, address);
        if (!segment) {
            GTreeNode *node = g_tree_lower_bound(space->mapped, &address);
            segment = node ? g_tree_node_value(node) : NULL;
        }
        if (!segment || segment->address >= end || size == 0)
            return;
        Segment old = *segment;
        uint64_t old_end = old.size > UINT64_MAX - old.address ? UINT64_MAX : old.address + old.size;
        g_tree_remove(space->mapped, &old.address);
        space->mapped_bytes -= MIN(space->mapped_bytes, old.size);
        if (old.address < address) {
            Segment low = old;
            low.size = address - old.address;
            insert_segment(space, low);
        }
        if (old_end > end) {
            Segment high = old;
            high.address = end;
            high.size = old_end - end;
            insert_segment(space, high);
        }
    }
}

static bool read_block(Reader *r, EchPickleRef ref, uint16_t space, uint64_t stream, EchPickleRef pool, uint64_t *address, uint64_t *active, GError **error)
{
    EchPickleRef f[N_KEYS];
    if (!fields(r, ref, f) || ech_pickle_visit(r->pickle, ref))
        return fail(r, error, "a block is no dict of its own; value", ref);
    Block block = {.space = space, .stream = stream, .pool = pool, .frames = f[KEY_FRAMES]};
    if (!ech_pickle_u64(r->pickle, f[KEY_SIZE], &block.size))
        return fail(r, error, "a block has no size; value", ref);
    block.address = number(r, f[KEY_ADDRESS], *address);
    block.requested = number(r, f[KEY_REQUESTED_SIZE], block.size);
    size_t n;
    const EchPickleRef *history = f[KEY_HISTORY] == ECH_PICKLE_ABSENT ? NULL : ech_pickle_items(r->pickle, f[KEY_HISTORY], &n);
    EchPickleRef h[N_KEYS];
    if (history && ech_pickle_type(r->pickle, f[KEY_HISTORY]) == ECH_PICKLE_LIST && fields(r, history[0], h)) { /* 2.0 */
        block.frames = h[KEY_FRAMES];
        block.requested = number(r, f[KEY_REQUESTED_SIZE], number(r, h[KEY_REAL_SIZE], block.size));
    }
    *address = block.address + block.size;
    bool inactive = ech_pickle_equals(r->pickle, f[KEY_STATE], "inactive");
    if (!inactive)
        g_array_append_val(r->blocks, block);
    if (ech_pickle_equals(r->pickle, f[KEY_STATE], "active_allocated"))
        *active += block.size;
    return true;
}

static bool read_segment(Reader *r, EchPickleRef ref, bool host, GError **error)
{
    EchPickleRef f[N_KEYS];
    if (!fields(r, ref, f) || ech_pickle_visit(r->pickle, ref))
        return fail(r, error, "a segment is no dict of its own; value", ref);
    Segment segment = {.pool = f[KEY_SEGMENT_POOL_ID], .stream = number(r, f[KEY_STREAM], 0)};
    if (!ech_pickle_u64(r->pickle, f[KEY_ADDRESS], &segment.address) || !ech_pickle_u64(r->pickle, f[KEY_TOTAL_SIZE], &segment.size))
        return fail(r, error, "a segment has no address or no total_size; value", ref);
    uint16_t space;
    uint64_t device = number(r, f[KEY_DEVICE], 0);
    if (!space_of(r, host, host ? 0 : device, &space, error))
        return false;
    segment.small = ech_pickle_equals(r->pickle, f[KEY_SEGMENT_TYPE], "small");
    segment.expandable = number(r, f[KEY_IS_EXPANDABLE], 0) != 0;
    size_t n_blocks = 0;
    const EchPickleRef *blocks = f[KEY_BLOCKS] == ECH_PICKLE_ABSENT ? NULL : ech_pickle_items(r->pickle, f[KEY_BLOCKS], &n_blocks);
    if (f[KEY_BLOCKS] != ECH_PICKLE_ABSENT && ech_pickle_type(r->pickle, f[KEY_BLOCKS]) != ECH_PICKLE_LIST)
        return fail(r, error, "a segment's blocks are no list; value", ref);
    ech_diag_note(r->ret->records, host ? "host_blocks" : "blocks", n_blocks);
    uint64_t address = segment.address, active = 0;
    for (size_t i = 0; i < n_blocks; i++) {
        uint64_t before = address;
        if (!read_block(r, blocks[i], space, segment.stream, segment.pool, &address, &active, error))
            return false;
        if (i && address - before > segment.size)
            ech_diag_dropped(r->ret->diag, "blocks_outside_their_segment", 1, "segment 0x%" G_GINT64_MODIFIER "x", segment.address);
    }
    if (n_blocks && address - segment.address != segment.size)
        ech_diag_dropped(r->ret->diag, "segments_not_tiled_by_blocks", 1, "segment 0x%" G_GINT64_MODIFIER "x", segment.address);
    if (!host) {
        r->reserved = ech_bytes_add(r->reserved, segment.size);
        r->allocated = ech_bytes_add(r->allocated, number(r, f[KEY_ALLOCATED_SIZE], active));
    }
    Space *s = &g_array_index(r->spaces, Space, space);
    s->used = true;
    Segment *same = segment_at(s, segment.address);
    if (same)
        ech_diag_dropped(r->ret->diag, "overlapping_segments", 1, "segment 0x%" G_GINT64_MODIFIER "x", segment.address);
    else
        insert_segment(s, segment);
    return true;
}

static bool read_segments(Reader *r, EchPickleRef list, bool host, GError **error)
{
    if (list == ECH_PICKLE_ABSENT)
        return true;
    size_t n;
    const EchPickleRef *items = ech_pickle_items(r->pickle, list, &n);
    if (ech_pickle_type(r->pickle, list) != ECH_PICKLE_LIST)
        return fail(r, error, "the segments are no list; value", list);
    ech_diag_note(r->ret->records, host ? "host_segments" : "segments", n);
    for (size_t i = 0; i < n; i++) {
        if (!read_segment(r, items[i], host, error))
            return false;
    }
    return true;
}

static void set_time(Reader *r, Event *event, EchPickleRef time)
{
    int64_t us;
    event->time_us = TIME_UNKNOWN;
    if (time == ECH_PICKLE_ABSENT || !ech_pickle_i64(r->pickle, time, &us))
        return;
    if (us <= 0 || us > INT64_MAX / ECH_PS_PER_US * 1000) {
        ech_diag_dropped(r->ret->diag, "times_out_of_range", 1, "event %u", r->events->len);
        return;
    }
    event->time_us = us;
}

static bool read_entry(Reader *r, EchPickleRef ref, uint16_t space, uint64_t counts[N_ACTIONS], GError **error)
{
    EchPickleRef f[N_KEYS];
    if (!fields(r, ref, f) || ech_pickle_visit(r->pickle, ref))
        return fail(r, error, "a trace entry is no dict of its own; entry", r->events->len);
    Event event = {.space = space, .action = ACT_UNKNOWN, .frames = f[KEY_FRAMES], .extra = f[KEY_USER_METADATA], .pool = f[KEY_POOL_ID]};
    for (int a = 0; a < ACT_UNKNOWN; a++) {
        if (ech_pickle_equals(r->pickle, f[KEY_ACTION], action_names[a])) {
            event.action = (uint8_t)a;
            break;
        }
    }
    counts[event.action]++;
    if (event.action == ACT_UNKNOWN) {
        size_t n;
        const char *text = ech_pickle_text(r->pickle, f[KEY_ACTION], &n);
        g_autofree char *quoted = text ? ech_quote(text, (gssize)n, 40) : g_strdup("");
        ech_diag_dropped(r->ret->diag, "unknown_actions", 1, "entry %u: '%s'", r->events->len, quoted);
        return true;
    }
    bool has_address = ech_pickle_u64(r->pickle, f[event.action == ACT_OOM && f[KEY_ADDR] == ECH_PICKLE_ABSENT ? KEY_DEVICE_FREE : KEY_ADDR], &event.address);
    bool has_size = ech_pickle_u64(r->pickle, f[KEY_SIZE], &event.size);
    if (event.action <= ACT_SEGMENT_UNMAP && (!has_address || !has_size || event.size > INT64_MAX))
        return fail(r, error, "a trace entry has no address or no size; entry", r->events->len);
    g_array_index(r->spaces, Space, space).used |= event.action <= ACT_SEGMENT_UNMAP || event.action == ACT_OOM;
    event.stream = number(r, f[KEY_STREAM], 0);
    set_time(r, &event, f[KEY_TIME_US]);
    g_array_append_val(r->events, event);
    return true;
}

static bool read_traces(Reader *r, EchPickleRef list, bool host, GError **error)
{
    if (list == ECH_PICKLE_ABSENT)
        return true;
    size_t n_devices, n;
    const EchPickleRef *devices = ech_pickle_items(r->pickle, list, &n_devices);
    if (ech_pickle_type(r->pickle, list) != ECH_PICKLE_LIST)
        return fail(r, error, "the traces are no list; value", list);
    uint64_t counts[N_ACTIONS] = {0};
    /* host_traces is one list of entries, or one per device like device_traces. */
    bool flat = n_devices && ech_pickle_type(r->pickle, devices[0]) == ECH_PICKLE_DICT;
    for (size_t d = 0; d < (flat ? 1 : n_devices); d++) {
        const EchPickleRef *entries = ech_pickle_items(r->pickle, flat ? list : devices[d], &n);
        if (ech_pickle_type(r->pickle, flat ? list : devices[d]) != ECH_PICKLE_LIST || (n && ech_pickle_visit(r->pickle, flat ? list : devices[d])))
            return fail(r, error, "a device's trace is no list of its own; device", d);
        uint16_t space;
        if (n && !space_of(r, host, host ? 0 : d, &space, error))
            return false;
        for (size_t i = 0; i < n; i++) {
            if (!read_entry(r, entries[i], space, counts, error))
                return false;
        }
    }
    for (int a = 0; a < N_ACTIONS; a++) {
        g_autofree char *name = g_strconcat(host ? "host_" : "", action_names[a], NULL);
        if (counts[a])
            ech_diag_note(r->ret->records, name, counts[a]);
    }
    return true;
}

static bool read_annotations(Reader *r, EchPickleRef list, GError **error)
{
    size_t n = 0;
    const EchPickleRef *items = list == ECH_PICKLE_ABSENT || ech_pickle_type(r->pickle, list) != ECH_PICKLE_LIST ? NULL : ech_pickle_items(r->pickle, list, &n);
    for (size_t i = 0; i < n; i++) {
        EchPickleRef f[N_KEYS];
        if (!fields(r, items[i], f) || ech_pickle_visit(r->pickle, items[i]))
            return fail(r, error, "an annotation is no dict of its own; annotation", i);
        Event event = {.action = ACT_EXTERNAL, .extra = f[KEY_NAME], .frames = ECH_PICKLE_ABSENT, .pool = ECH_PICKLE_ABSENT};
        event.start = ech_pickle_equals(r->pickle, f[KEY_STAGE], "START");
        int64_t device;
        if (!ech_pickle_i64(r->pickle, f[KEY_DEVICE], &device) || device < 0)
            device = 0;
        if (!space_of(r, false, (uint64_t)device, &event.space, error))
            return false;
        set_time(r, &event, f[KEY_TIME_US]);
        g_array_append_val(r->events, event);
    }
    if (n)
        ech_diag_note(r->ret->records, "external_annotations", n);
    return true;
}

static char *scalar_text(const Reader *r, EchPickleRef ref)
{
    size_t n;
    int64_t integer;
    double real;
    const char *text = ech_pickle_text(r->pickle, ref, &n);
    if (text)
        return g_strndup(text, MIN(n, (size_t)4096));
    if (ech_pickle_type(r->pickle, ref) == ECH_PICKLE_BOOL)
        return g_strdup(number(r, ref, 0) ? "true" : "false");
    if (ech_pickle_i64(r->pickle, ref, &integer))
        return g_strdup_printf("%" G_GINT64_FORMAT, integer);
    if (ech_pickle_double(r->pickle, ref, &real)) {
        char digits[G_ASCII_DTOSTR_BUF_SIZE];
        return g_strdup(g_ascii_dtostr(digits, sizeof digits, real));
    }
    return NULL;
}

/* "allocator_settings.NAME": what the recorded allocator was told; a dict of scalars is "key:value,key:value". */
static void keep_settings(Reader *r, EchPickleRef dict)
{
    size_t n = 0;
    const EchPickleRef *items = ech_pickle_type(r->pickle, dict) == ECH_PICKLE_DICT ? ech_pickle_items(r->pickle, dict, &n) : NULL;
    for (size_t i = 0; i < MIN(n, (size_t)64); i++) {
        g_autofree char *name = scalar_text(r, items[2 * i]), *value = scalar_text(r, items[2 * i + 1]);
        if (name && !value && ech_pickle_type(r->pickle, items[2 * i + 1]) == ECH_PICKLE_DICT) {
            size_t m;
            const EchPickleRef *inner = ech_pickle_items(r->pickle, items[2 * i + 1], &m);
            g_autoptr(GString) text = g_string_new(NULL);
            for (size_t k = 0; k < MIN(m, (size_t)64); k++) {
                g_autofree char *a = scalar_text(r, inner[2 * k]), *b = scalar_text(r, inner[2 * k + 1]);
                if (a && b)
                    g_string_append_printf(text, "%s%s:%s", text->len ? "," : "", a, b);
            }
            value = g_strdup(text->str);
        }
        g_autofree char *key = name ? g_strconcat("allocator_settings.", name, NULL) : NULL;
        if (key && value)
            ech_trace_builder_set_property(r->builder, key, value);
    }
}

/* ---- building the trace ---- */

static EchId stream_queue(Reader *r, const Space *space, uint64_t stream)
{
    uint64_t key = stream ^ (uint64_t)space->device << 48;
    EchId id;
    if (map_get(&r->streams, key, &id))
        return id;
    char name[40];
    g_snprintf(name, sizeof name, "stream %" G_GUINT64_FORMAT, stream);
    id = ech_trace_builder_queue(r->builder, name, ECH_QUEUE_COMPUTE, space->device);
    map_set(&r->streams, key, id);
    return id;
}

static EchTime relative_time(const Reader *r, int64_t time_us)
{
    if (time_us == TIME_UNKNOWN || time_us - r->base_us > INT64_MAX / ECH_PS_PER_US)
        return ECH_TIME_NONE;
    return (time_us - r->base_us) * ECH_PS_PER_US;
}

static void mark(Reader *r, const Space *space, const char *name, gssize n_name, uint64_t bytes, EchPickleRef frames, int64_t time_us)
{
    EchOp op = ech_op_init(ECH_OP_MARK);
    EchId unused;
    op.name = ech_trace_builder_string(r->builder, name, n_name);
    op.queue = space->queue;
    op.bytes = bytes;
    op.bytes_origin = ECH_KNOWN;
    op.stack = stack_id(r, frames, &unused);
    op.recorded.start = relative_time(r, time_us);
    ech_trace_builder_op(r->builder, op);
}

static void append_pool(const Reader *r, GString *text, EchPickleRef ref)
{
    size_t n = 0;
    const EchPickleRef *pool = ref == ECH_PICKLE_ABSENT ? NULL : ech_pickle_items(r->pickle, ref, &n);
    if (pool && n == 2 && (number(r, pool[0], 0) || number(r, pool[1], 0)))
        g_string_append_printf(text, " pool=%" G_GUINT64_FORMAT ":%" G_GUINT64_FORMAT, number(r, pool[0], 0), number(r, pool[1], 0));
}

static void segment_mark(Reader *r, const Space *space, const char *action, const Segment *segment, EchPickleRef frames, int64_t time_us)
{
    g_string_printf(r->scratch, "%s address=0x%" G_GINT64_MODIFIER "x stream=%" G_GUINT64_FORMAT, action, segment->address, segment->stream);
    if (strcmp(action, "segment_start") == 0)
        g_string_append_printf(r->scratch, " type=%s%s", segment->small ? "small" : "large", segment->expandable ? " expandable=1" : "");
    append_pool(r, r->scratch, segment->pool);
    g_autofree char *text = g_strdup(r->scratch->str);
    mark(r, space, text, -1, segment->size, frames, time_us);
}

/* What was mapped when the window began: the end's segments, with every event undone from the last to the first. Before 2.9 events do not name a private
 * pool: then what is there at the end tells of which one a segment is. */
static void rewind_segments(Reader *r)
{
    for (guint i = r->events->len; i-- > 0;) {
        Event *e = &g_array_index(r->events, Event, i);
        Space *space = &g_array_index(r->spaces, Space, e->space);
        if (e->action == ACT_SEGMENT_ALLOC || e->action == ACT_SEGMENT_MAP) {
            const Segment *segment = segment_at(space, e->address);
            if (e->pool == ECH_PICKLE_ABSENT && segment)
                e->pool = segment->pool;
            unmap(space, e->address, e->size);
        }
        if (e->action == ACT_SEGMENT_FREE || e->action == ACT_SEGMENT_UNMAP) {
            unmap(space, e->address, e->size);
            insert_segment(space, (Segment){.address = e->address,
                                            .size = e->size,
                                            .stream = e->stream,
                                            .pool = e->pool,
                                            .small = e->action == ACT_SEGMENT_FREE && e->size <= 2 << 20,
                                            .expandable = e->action == ACT_SEGMENT_UNMAP});
        }
    }
    for (guint s = 0; s < r->spaces->len; s++) {
        Space *space = &g_array_index(r->spaces, Space, s);
        for (GTreeNode *node = g_tree_node_first(space->mapped); node; node = g_tree_node_next(node)) {
            Segment *segment = g_tree_node_value(node);
            segment->number = space->n_segments++;
            segment_mark(r, space, "segment_start", segment, ECH_PICKLE_ABSENT, TIME_UNKNOWN);
        }
    }
}

static EchId add_buffer(Reader *r, Space *space, uint64_t address, uint64_t requested, uint64_t rounded, uint64_t stream, EchPickleRef frames,
                        EchPickleRef pool, bool resident)
{
    EchBuffer b = ech_buffer_init();
    b.stack = stack_id(r, frames, &b.name);
    b.memory = space->memory;
    b.resident = resident;
    b.bytes = requested;
    b.rounded = rounded;
    b.address = address;
    b.queue = stream_queue(r, space, stream);
    b.pool = pool_id(r, pool);
    const Segment *segment = segment_at(space, address);
    if (segment) {
        b.segment = segment->number;
        if (b.pool == ECH_NONE)
            b.pool = pool_id(r, segment->pool);
    } else {
        ech_diag_note(r->ret->diag, "blocks_in_no_known_segment", 1);
    }
    return ech_trace_builder_buffer(r->builder, b);
}

/* Residents of one space, in the order of their addresses: first event is a free, or live at the end without an event. */
static void add_residents(Reader *r, guint s, Map *live)
{
    Space *space = &g_array_index(r->spaces, Space, s);
    Map first;
    map_init(&first, 64);
    GArray *residents = g_array_new(FALSE, FALSE, sizeof(Block));
    for (guint i = 0; i < r->events->len; i++) {
        const Event *e = &g_array_index(r->events, Event, i);
        uint32_t seen;
        if (e->space != s || e->action > ACT_FREE_COMPLETED || map_get(&first, e->address, &seen))
            continue;
        map_set(&first, e->address, 0);
        if (e->action == ACT_ALLOC)
            continue;
        Block block = {.address = e->address, .requested = e->size, .stream = e->stream, .frames = ECH_PICKLE_ABSENT, .pool = e->pool};
        g_array_append_val(residents, block);
    }
    if (residents->len)
        ech_diag_note(r->ret->diag, "start_state_from_frees", residents->len);
    size_t from_frees = residents->len;
    for (guint i = 0; i < r->blocks->len; i++) {
        const Block *block = &g_array_index(r->blocks, Block, i);
        uint32_t seen;
        if (block->space != s || map_get(&first, block->address, &seen))
            continue;
        map_set(&first, block->address, 0);
        g_array_append_val(residents, *block);
    }
    if (residents->len > from_frees)
        ech_diag_note(r->ret->diag, "start_state_from_end_state", residents->len - from_frees);
    map_clear(&first);
    g_array_sort_with_data(residents, compare_addresses, NULL);
    for (guint i = 0; i < residents->len; i++) {
        const Block *b = &g_array_index(residents, Block, i);
        EchId id = add_buffer(r, space, b->address, b->requested, b->size, b->stream, b->frames, b->pool, true);
        map_set(live, b->address, id);
    }
    g_array_unref(residents);
}

static void free_op(Reader *r, const Space *space, EchId buffer, const Event *e)
{
    EchOp op = ech_op_init(ECH_OP_FREE);
    op.queue = space->queue;
    op.target = buffer;
    op.bytes = ech_trace_builder_peek_buffer(r->builder, buffer)->bytes;
    op.bytes_origin = ECH_KNOWN;
    op.name = ech_trace_builder_peek_buffer(r->builder, buffer)->name;
    op.stack = stack_id(r, e->action == ACT_FREE_COMPLETED ? e->frames : ECH_PICKLE_ABSENT, &(EchId){0});
    op.recorded.start = relative_time(r, e->time_us);
    ech_trace_builder_op(r->builder, op);
}

static void alloc_event(Reader *r, Space *space, Map *live, const Event *e)
{
    uint32_t old;
    if (map_get(live, e->address, &old)) {
        ech_diag_dropped(r->ret->diag, "allocs_of_live_addresses", 1, "address 0x%" G_GINT64_MODIFIER "x", e->address);
        free_op(r, space, old, e);
    }
    EchId id = add_buffer(r, space, e->address, e->size, 0, e->stream, e->frames, e->pool, false);
    const Segment *segment = segment_at(space, e->address);
    space->last_pool = segment ? segment->pool : ECH_PICKLE_ABSENT;
    EchOp op = ech_op_init(ECH_OP_ALLOC);
    const EchBuffer *buffer = ech_trace_builder_peek_buffer(r->builder, id);
    size_t n;
    const char *metadata = ech_pickle_text(r->pickle, e->extra, &n);
    op.queue = space->queue;
    op.target = id;
    op.bytes = e->size;
    op.bytes_origin = ECH_KNOWN;
    op.stack = buffer->stack;
    op.name = metadata && n ? ech_trace_builder_string(r->builder, metadata, (gssize)n) : buffer->name;
    op.recorded.start = relative_time(r, e->time_us);
    ech_trace_builder_op(r->builder, op);
    map_set(live, e->address, id);
}

static void segment_event(Reader *r, Space *space, const Event *e)
{
    Segment segment = {.address = e->address, .size = e->size, .stream = e->stream, .pool = e->pool};
    segment.expandable = e->action == ACT_SEGMENT_MAP || e->action == ACT_SEGMENT_UNMAP;
    if (e->action == ACT_SEGMENT_ALLOC || e->action == ACT_SEGMENT_MAP) {
        unmap(space, e->address, e->size);
        segment.number = space->n_segments++;
        insert_segment(space, segment);
    } else {
        unmap(space, e->address, e->size);
    }
    segment_mark(r, space, action_names[e->action], &segment, e->frames, e->time_us);
}

static void other_event(Reader *r, const Space *space, const Event *e)
{
    size_t n = 0;
    const char *text = ech_pickle_text(r->pickle, e->extra, &n);
    g_autoptr(GString) name = g_string_new(NULL);
    if (e->action == ACT_EXTERNAL) {
        g_string_append(name, e->start ? "START " : "END ");
        g_string_append_len(name, text ? text : "", (gssize)(text ? n : 0));
    } else {
        g_string_append(name, action_names[e->action]);
        if (e->action == ACT_OOM) {
            g_string_append_printf(name, " device_free=%" G_GUINT64_FORMAT " reserved=%" G_GUINT64_FORMAT " stream=%" G_GUINT64_FORMAT, e->address,
                                   space->mapped_bytes, e->stream);
            /* Before 2.9 not named: what is refused while a graph is captured comes behind what was captured. */
            append_pool(r, name, e->pool == ECH_PICKLE_ABSENT ? space->last_pool : e->pool);
        } else if (e->action == ACT_FREE_REQUESTED) {
            g_string_append_printf(name, " address=0x%" G_GINT64_MODIFIER "x", e->address);
        } else if (text && n) {
            g_string_append_c(name, ' ');
            g_string_append_len(name, text, (gssize)n);
        }
    }
    mark(r, space, name->str, (gssize)name->len, e->size, e->frames, e->time_us);
}

static int compare_events(gconstpointer a, gconstpointer b, gpointer data)
{
    (void)data;
    const Event *x = a, *y = b;
    return x->time_us < y->time_us ? -1 : x->time_us > y->time_us;
}

/* Merges the devices' lists and the annotations by time. Lists keep their own order, whatever their clocks say. */
static void order_events(Reader *r)
{
    bool several = false;
    for (guint i = 0; i < r->events->len; i++) {
        Event *e = &g_array_index(r->events, Event, i);
        Space *space = &g_array_index(r->spaces, Space, e->space);
        several |= i && (e->space != e[-1].space || e->action == ACT_EXTERNAL);
        bool at_once = e->action == ACT_FREE_REQUESTED && i + 1 < r->events->len && e[1].action == ACT_FREE_COMPLETED;
        if (at_once)
            e->start = e[1].address == e->address && e[1].space == e->space;
        if (e->time_us == TIME_UNKNOWN)
            continue;
        if (r->base_us == TIME_UNKNOWN || e->time_us < r->base_us)
            r->base_us = e->time_us;
        if (e->action == ACT_EXTERNAL)
            continue;
        if (space->last_time != TIME_UNKNOWN && e->time_us < space->last_time) {
            ech_diag_dropped(r->ret->diag, "times_out_of_order", 1, "entry %u", i);
            e->time_us = space->last_time;
        }
        space->last_time = e->time_us;
    }
    if (several)
        g_array_sort_with_data(r->events, compare_events, NULL);
}

static void check_end(Reader *r, Map *live)
{
    uint64_t sizes = 0, missing = 0;
    for (guint i = 0; i < r->blocks->len; i++) {
        const Block *block = &g_array_index(r->blocks, Block, i);
        uint32_t id;
        if (!map_get(&live[block->space], block->address, &id)) {
            missing++;
            continue;
        }
        EchBuffer *buffer = ech_trace_builder_peek_buffer(r->builder, id);
        sizes += buffer->bytes != block->requested;
        buffer->rounded = block->size;
        map_remove(&live[block->space], block->address);
    }
    uint64_t extra = 0;
    for (guint s = 0; s < r->spaces->len; s++) {
        for (size_t i = 0; i <= live[s].mask; i++)
            extra += live[s].values[i] >= 2;
    }
    if (missing)
        ech_diag_note(r->ret->diag, "end_blocks_the_history_freed", missing);
    if (extra)
        ech_diag_note(r->ret->diag, "live_by_history_but_not_at_the_end", extra);
    if (sizes)
        ech_diag_note(r->ret->diag, "end_blocks_of_another_requested_size", sizes);
}

static void replay_events(Reader *r, Map *live)
{
    for (guint i = 0; i < r->events->len; i++) {
        const Event *e = &g_array_index(r->events, Event, i);
        Space *space = &g_array_index(r->spaces, Space, e->space);
        uint32_t id;
        switch (e->action) {
        case ACT_ALLOC: alloc_event(r, space, &live[e->space], e); break;
        case ACT_FREE_REQUESTED:
            /* Nearly always completed at once; only a wait for another stream is worth a mark. */
            if (!e->start)
                other_event(r, space, e);
            break;
        case ACT_FREE_COMPLETED:
            if (map_get(&live[e->space], e->address, &id)) {
                free_op(r, space, id, e);
                map_remove(&live[e->space], e->address);
            } else {
                ech_diag_dropped(r->ret->diag, "frees_of_unknown_addresses", 1, "address 0x%" G_GINT64_MODIFIER "x", e->address);
            }
            break;
        case ACT_SEGMENT_ALLOC:
        case ACT_SEGMENT_FREE:
        case ACT_SEGMENT_MAP:
        case ACT_SEGMENT_UNMAP: segment_event(r, space, e); break;
        default: other_event(r, space, e);
        }
    }
}

static bool build(Reader *r, GError **error)
{
    order_events(r);
    if (r->base_us != TIME_UNKNOWN)
        ech_trace_builder_printf_property(r->builder, "time_zero_unix_us", "%" G_GINT64_FORMAT, r->base_us);
    ech_trace_builder_printf_property(r->builder, "end_allocated_bytes", "%" G_GUINT64_FORMAT, r->allocated);
    ech_trace_builder_printf_property(r->builder, "end_reserved_bytes", "%" G_GUINT64_FORMAT, r->reserved);
    uint32_t lowest = UINT32_MAX; /* of those used, whichever has segments left */
    for (guint s = 0; s < r->spaces->len; s++) {
        const Space *space = &g_array_index(r->spaces, Space, s);
        lowest = space->host || !space->used ? lowest : MIN(lowest, space->device);
    }
    for (guint s = 0; s < r->spaces->len; s++) {
        Space *space = &g_array_index(r->spaces, Space, s);
        char name[40];
        g_snprintf(name, sizeof name, space->host ? "host" : space->device == lowest ? "hbm" : "hbm:%" G_GUINT32_FORMAT, space->device);
        space->memory = ech_trace_builder_memory(r->builder, name);
        space->queue = ech_trace_builder_queue(r->builder, space->host ? "pinned host allocator" : "caching allocator", ECH_QUEUE_HOST, space->device);
    }
    rewind_segments(r);
    g_autofree Map *live = g_new0(Map, r->spaces->len + 1);
    for (guint s = 0; s < r->spaces->len; s++) {
        map_init(&live[s], 64);
        add_residents(r, s, &live[s]);
    }
    replay_events(r, live);
    check_end(r, live);
    for (guint s = 0; s < r->spaces->len; s++)
        map_clear(&live[s]);
    r->ret->trace = ech_trace_builder_finish(r->builder, error);
    return r->ret->trace != NULL;
}

static bool is_snapshot(const EchPickle *pickle, EchPickleRef ref)
{
    return ech_pickle_get(pickle, ref, "segments") != ECH_PICKLE_ABSENT || ech_pickle_get(pickle, ref, "device_traces") != ECH_PICKLE_ABSENT;
}

/* What a pickle is that is no snapshot, or has them within: by rank, say. NULL: it is one. Owned by the caller. */
static char *not_a_snapshot(const Reader *r, EchPickleRef root)
{
#define TAKE_OUT "; write what is to be read into a file of its own (pickle.dump)"
    if (is_snapshot(r->pickle, root))
        return NULL;
    size_t n;
    const EchPickleRef *items = ech_pickle_items(r->pickle, root, &n);
    if (ech_pickle_type(r->pickle, root) == ECH_PICKLE_LIST) {
        if (n && is_snapshot(r->pickle, items[0]))
            return g_strdup_printf("a list of %zu of them" TAKE_OUT, n);
        bool dicts = n == 0 || ech_pickle_type(r->pickle, items[0]) == ECH_PICKLE_DICT;
        return dicts ? NULL : g_strdup_printf("a list of %zu values of another kind", n);
    }
    if (ech_pickle_type(r->pickle, root) == ECH_PICKLE_BIG) /* 0x1950a86a20f9469cfc6c: PyTorch before 1.6, and what still writes its form */
        return g_strdup("a large number, as older files of torch.save begin; torch.cuda.memory._dump_snapshot writes one");
    if (ech_pickle_type(r->pickle, root) != ECH_PICKLE_DICT)
        return g_strdup("a single value");
    g_autoptr(GString) keys = g_string_new(NULL);
    for (size_t i = 0; i < n; i++) {
        size_t length = 0;
        const char *text = ech_pickle_text(r->pickle, items[2 * i], &length);
        g_autofree char *key = text ? ech_quote(text, (gssize)length, 30) : g_strdup("a number");
        if (is_snapshot(r->pickle, items[2 * i + 1]))
            return g_strdup_printf("a dict with one in it, under '%s'" TAKE_OUT, key);
        if (i < 4)
            g_string_append_printf(keys, "%s'%s'", keys->len ? ", " : ": its keys begin ", key);
    }
    return g_strdup_printf("it has neither 'segments' nor 'device_traces'%s", keys->str);
#undef TAKE_OUT
}

static bool read_all(Reader *r, GError **error)
{
    EchPickleRef root = ech_pickle_root(r->pickle);
    char *other = not_a_snapshot(r, root);
    if (other) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "%s: a pickle, but no memory snapshot: %s", r->where, other);
        g_free(other);
        return false;
    }
    if (ech_pickle_type(r->pickle, root) == ECH_PICKLE_LIST) /* 1.x: the segments alone */
        return read_segments(r, root, false, error) && build(r, error);
    keep_settings(r, ech_pickle_get(r->pickle, root, "allocator_settings"));
    return read_segments(r, ech_pickle_get(r->pickle, root, "segments"), false, error) &&
           read_segments(r, ech_pickle_get(r->pickle, root, "host_segments"), true, error) &&
           read_traces(r, ech_pickle_get(r->pickle, root, "device_traces"), false, error) &&
           read_traces(r, ech_pickle_get(r->pickle, root, "host_traces"), true, error) &&
           read_annotations(r, ech_pickle_get(r->pickle, root, "external_annotations"), error) && build(r, error);
}

static void clear_space(gpointer data)
{
    g_tree_unref(((Space *)data)->mapped);
}

static bool snapshot_read(EchSource *source, const EchImportOptions *options, EchImport *ret, GError **error)
{
    (void)options;
    g_autoptr(GBytes) bytes = ech_source_bytes(source, 0, error);
    if (!bytes)
        return false;
    gsize n;
    const uint8_t *data = g_bytes_get_data(bytes, &n);
    g_autoptr(EchPickle) pickle = ech_pickle_read(data, n, ech_source_path(source), error);
    if (!pickle)
        return false;
    ech_diag_dropped(ret->diag, "trailing_bytes", ech_pickle_trailing(pickle), "byte %zu", (size_t)n - ech_pickle_trailing(pickle));
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("memory_snapshot");
    size_t n_values = ech_pickle_n_values(pickle);
    Reader r = {.pickle = pickle, .ret = ret, .builder = builder, .where = ech_source_path(source), .base_us = TIME_UNKNOWN};
    r.keys = g_new0(uint8_t, n_values);
    r.stacks = g_new0(EchId, n_values);
    r.names = g_new0(EchId, n_values);
    r.frame_texts = g_string_new(NULL);
    r.scratch = g_string_new(NULL);
    r.spaces = g_array_new(FALSE, FALSE, sizeof(Space));
    g_array_set_clear_func(r.spaces, clear_space);
    r.events = g_array_new(FALSE, FALSE, sizeof(Event));
    r.blocks = g_array_new(FALSE, FALSE, sizeof(Block));
    /* Stacks share frames in the file and are texts in the trace: deep ones could blow up. */
    r.stack_budget = MAX((uint64_t)64 << 20, (uint64_t)n * 8);
    map_init(&r.streams, 8);
    map_init(&r.places, 64);
    bool ok = read_all(&r, error);
    map_clear(&r.streams);
    map_clear(&r.places);
    g_array_unref(r.blocks);
    g_array_unref(r.events);
    g_array_unref(r.spaces);
    g_string_free(r.scratch, TRUE);
    g_string_free(r.frame_texts, TRUE);
    g_free(r.names);
    g_free(r.stacks);
    g_free(r.keys);
    return ok;
}

static int probe(const uint8_t *head, size_t n)
{
    if (n < 4 || head[0] != 0x80 || head[1] < 2 || head[1] > 5)
        return 0;
    return ech_head_has(head, n, "segments") || ech_head_has(head, n, "total_size") || ech_head_has(head, n, "device_traces") ? 2 : 1;
}

const EchImportClass ech_import_memory_snapshot = {
    .name = "memory_snapshot",
    .summary = "PyTorch memory snapshot (torch.cuda.memory._dump_snapshot), read without running the pickle",
    .probe = probe,
    .read = snapshot_read,
};
