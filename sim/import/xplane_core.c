#include "sim/import/xplane.h"

#include "models/layout/layout.h"
#include "models/link/link.h"
#include "sim/base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef enum { KIND_KERNEL, KIND_START, KIND_DONE, KIND_COLLECTIVE, KIND_CONTAINER } Kind;

typedef struct {
    Kind kind;
    EchId name, stack, partner; /* partner: the start's name, of a DONE */
    uint64_t bytes;
    uint8_t from, to, bytes_origin, collective;
    uint32_t group; /* ECH_NONE unknown */
    uint32_t devices, stride;
    EchItemWork work;
    bool has_work;
} Template;

typedef struct {
    EchTime start, duration;
    uint32_t device, template, order;
} Happening;

/* A copy whose done has not come yet. */
typedef struct {
    size_t item;
    EchTime issued;
    uint32_t queue;
} Pending;

struct EchXplane {
    EchImport *import;
    EchCapture *capture;
    EchTraceBuilder *builder;
    GArray *templates, *happenings;
    GHashTable *index; /* Key -> template + 1 */
};

/* What tells templates apart. Programs number their instructions alike: the same text may be other work, from another line. */
typedef struct {
    char *text;
    size_t n;
    uint64_t numbers[5];
} Key;

static guint key_hash(gconstpointer p)
{
    const Key *key = p;
    return ech_hash_pair(ech_hash_bytes(key->text, key->n), ech_hash_bytes((const char *)key->numbers, sizeof key->numbers));
}

static gboolean key_equal(gconstpointer a, gconstpointer b)
{
    const Key *x = a, *y = b;
    return x->n == y->n && memcmp(x->numbers, y->numbers, sizeof x->numbers) == 0 && memcmp(x->text, y->text, x->n) == 0;
}

static void key_free(gpointer data)
{
    g_free(((Key *)data)->text);
    g_free(data);
}

/* A copy-done this short only checks a flag (about 5 ns on v6e and v7x); a longer one waited. */
#define WAITED (20 * ECH_PS_PER_NS)

EchXplane *ech_xplane_new(EchImport *import, const char *format)
{
    EchXplane *x = g_new0(EchXplane, 1);
    x->import = import;
    x->capture = ech_capture_new(import, format);
    x->builder = ech_capture_builder(x->capture);
    x->templates = g_array_new(FALSE, TRUE, sizeof(Template));
    x->happenings = g_array_new(FALSE, FALSE, sizeof(Happening));
    x->index = g_hash_table_new_full(key_hash, key_equal, key_free, NULL);
    return x;
}

void ech_xplane_free(EchXplane *x)
{
    if (!x)
        return;
    ech_capture_free(x->capture);
    g_array_unref(x->templates);
    g_array_unref(x->happenings);
    g_hash_table_unref(x->index);
    g_free(x);
}

EchCapture *ech_xplane_capture(EchXplane *x)
{
    return x->capture;
}

bool ech_xplane_device(const char *plane, size_t n, uint32_t *ret_device, bool *ret_tpu)
{
    static const char tpu[] = "/device:TPU:", gpu[] = "/device:GPU:";
    bool is_tpu = n > sizeof tpu - 1 && memcmp(plane, tpu, sizeof tpu - 1) == 0;
    if (!is_tpu && !(n > sizeof gpu - 1 && memcmp(plane, gpu, sizeof gpu - 1) == 0))
        return false;
    uint32_t device = 0;
    for (size_t i = sizeof tpu - 1; i < n && g_ascii_isdigit(plane[i]); i++)
        device = device < 100000 ? device * 10 + (uint32_t)(plane[i] - '0') : device;
    *ret_device = device;
    *ret_tpu = is_tpu;
    return true;
}

bool ech_xplane_launch(const char *details, size_t n, EchGpuLaunch *ret)
{
    g_autofree char *text = g_strndup(details ? details : "", MIN(n, (size_t)1024));
    unsigned shared[2] = {0}, registers = 0;
    const char *keys[] = {"grid:", "block:", "regs:", "static_shared:", "dynamic_shared:"}, *at[G_N_ELEMENTS(keys)];
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) {
        at[i] = strstr(text, keys[i]);
        at[i] = at[i] ? at[i] + strlen(keys[i]) : "";
    }
    EchGpuLaunch launch = {0};
    if (sscanf(at[0], "%9" SCNu32 ",%9" SCNu32 ",%9" SCNu32, &launch.grid[0], &launch.grid[1], &launch.grid[2]) != 3 ||
        sscanf(at[1], "%9" SCNu32 ",%9" SCNu32 ",%9" SCNu32, &launch.block[0], &launch.block[1], &launch.block[2]) != 3 || launch.grid[0] == 0)
        return false;
    /* ROCm's tracer leaves the others as they were in memory. */
    if (sscanf(at[2], "%9u", &registers) == 1 && registers <= 1024)
        launch.registers = registers;
    if (launch.registers > 0 && sscanf(at[3], "%9u", &shared[0]) == 1 && sscanf(at[4], "%9u", &shared[1]) == 1)
        launch.shared = MIN(shared[0] + shared[1], 1u << 20);
    *ret = launch;
    return true;
}

/* ---- HLO text ---- */

/* Positions of the parts of "%name = shape opcode(operands), attributes". */
typedef struct {
    const char *name, *name_end, *shape, *shape_end, *opcode, *opcode_end, *operands, *operands_end, *end;
} Parts;

/* The position behind the bracket that closes the one at @p, counting all kinds alike; @end if none does. */
static const char *matching(const char *p, const char *end)
{
    int depth = 0;
    for (; p < end; p++) {
        if (*p == '(' || *p == '{' || *p == '[')
            depth++;
        else if (*p == ')' || *p == '}' || *p == ']')
            depth--;
        if (depth == 0)
            return p + 1;
    }
    return end;
}

static bool split(const char *text, size_t n, Parts *ret)
{
    const char *end = text + n, *equals = memmem(text, n, " = ", 3);
    if (!equals || text[0] != '%')
        return false;
    ret->name = text + 1;
    ret->name_end = equals;
    const char *p = ret->shape = equals + 3;
    if (p < end && *p == '(') {
        p = matching(p, end);
    } else {
        while (p < end && *p != ' ')
            p = *p == '{' || *p == '[' ? matching(p, end) : p + 1;
    }
    ret->shape_end = p;
    while (p < end && *p == ' ')
        p++;
    ret->opcode = p;
    while (p < end && *p != '(' && *p != ' ')
        p++;
    ret->opcode_end = p;
    ret->operands = p;
    ret->operands_end = p < end && *p == '(' ? matching(p, end) : p;
    ret->end = end;
    return ret->opcode < ret->opcode_end;
}

/* The next array shape of a span; false if there is none. */
static bool next_array(const char **p, const char *end, EchLayout *ret)
{
    while (*p < end) {
        const char *bracket = memchr(*p, '[', (size_t)(end - *p));
        if (!bracket)
            break;
        const char *begin = bracket;
        while (begin > *p && g_ascii_isalnum(begin[-1]))
            begin--;
        size_t used;
        if (begin < bracket && ech_layout_parse(begin, (size_t)(end - begin), ret, &used, NULL)) {
            *p = begin + used;
            return true;
        }
        *p = bracket + 1;
    }
    *p = end;
    return false;
}

static uint8_t tier_of(int32_t space)
{
    switch (space) {
    case 1: return ECH_TIER_VECTOR;
    case 3: return ECH_TIER_COMMON;
    case 4: return ECH_TIER_SCALAR;
    case 5: return ECH_TIER_HOST;
    default: return ECH_TIER_DEVICE;
    }
}

static EchBytes array_bytes(const EchLayout *layout)
{
    return ech_layout_padded_bytes(layout, ECH_LAYOUT_TPU);
}

/* Bytes of a span's arrays in main memory. */
static uint64_t main_memory(const char *p, const char *end)
{
    EchLayout layout;
    uint64_t bytes = 0;
    while (next_array(&p, end, &layout)) {
        if (tier_of(layout.space) == ECH_TIER_DEVICE)
            bytes = ech_bytes_add(bytes, array_bytes(&layout));
    }
    return bytes;
}

static bool ends_with(const char *begin, const char *end, const char *suffix)
{
    size_t n = strlen(suffix);
    return (size_t)(end - begin) >= n && memcmp(end - n, suffix, n) == 0;
}

static bool equals(const char *begin, const char *end, const char *text)
{
    return (size_t)(end - begin) == strlen(text) && memcmp(begin, text, strlen(text)) == 0;
}

static EchCollective collective_of(const char *begin, const char *end)
{
    static const struct {
        const char *name;
        EchCollective collective;
    } names[] = {{"all-reduce", ECH_COLLECTIVE_ALL_REDUCE},         {"all-gather", ECH_COLLECTIVE_ALL_GATHER},
                 {"reduce-scatter", ECH_COLLECTIVE_REDUCE_SCATTER}, {"all-to-all", ECH_COLLECTIVE_ALL_TO_ALL},
                 {"collective-permute", ECH_COLLECTIVE_PERMUTE},    {"collective-broadcast", ECH_COLLECTIVE_BROADCAST},
                 {"ragged-all-to-all", ECH_COLLECTIVE_ALL_TO_ALL}};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        size_t n = strlen(names[i].name);
        if ((size_t)(end - begin) >= n && memcmp(begin, names[i].name, n) == 0)
            return names[i].collective;
    }
    return ECH_COLLECTIVE_NONE;
}

/* "replica_groups=[4,2]<=[8]" has groups of 2, "{{0,1},{2,3}}" too. */
static bool read_groups(const char *p, const char *end, EchGroup *ret)
{
    static const char key[] = "replica_groups=";
    const char *at = memmem(p, (size_t)(end - p), key, sizeof key - 1);
    return at && ech_group_read(at + sizeof key - 1, (size_t)(end - at) - (sizeof key - 1), ret);
}

/* Bytes and direction of "x-start": copy-start has (destination, source, context), async-start ((operands), result, context). */
static void read_start(const Parts *parts, Template *t)
{
    EchLayout a, b;
    const char *p = parts->shape;
    if (equals(parts->opcode, parts->opcode_end, "copy-start")) {
        if (!next_array(&p, parts->shape_end, &a) || !next_array(&p, parts->shape_end, &b))
            return;
        t->to = tier_of(a.space);
        t->from = tier_of(b.space);
        t->bytes = array_bytes(&b);
        t->bytes_origin = ECH_KNOWN;
        return;
    }
    const char *inner = p + 1, *inner_end = inner < parts->shape_end && *inner == '(' ? matching(inner, parts->shape_end) : inner;
    const char *rest = inner_end;
    if (!next_array(&inner, inner_end, &a) || !next_array(&rest, parts->shape_end, &b))
        return;
    t->from = tier_of(a.space);
    t->to = tier_of(b.space);
    t->bytes = array_bytes(&b);
    t->bytes_origin = ECH_KNOWN;
    EchLayout update;
    /* A slice written into place: the result is the first operand, the second is what moves. */
    if (array_bytes(&a) == array_bytes(&b) && next_array(&inner, inner_end, &update) && array_bytes(&update) > 4096 / 8) {
        t->from = tier_of(update.space);
        t->bytes = array_bytes(&update);
    }
}

static EchDtype first_dtype(const Parts *parts)
{
    EchLayout layout;
    const char *p = parts->shape;
    return next_array(&p, parts->shape_end, &layout) ? ech_dtype_parse(layout.dtype, strlen(layout.dtype)) : ECH_DTYPE_NONE;
}

static void read_work(const EchXplaneOp *op, const Parts *parts, Template *t)
{
    bool matrix = (op->category && memmem(op->category, op->n_category, "convolution", 11)) || equals(parts->opcode, parts->opcode_end, "dot") ||
                  equals(parts->opcode, parts->opcode_end, "convolution");
    t->work.unit = matrix ? ECH_WORK_MATRIX : ECH_WORK_VECTOR;
    t->work.dtype = (uint8_t)first_dtype(parts);
    t->work.ops = op->has_flops ? op->flops : 0;
    t->work.origin = ECH_KNOWN;
    if (op->has_traffic) {
        t->work.read = op->read;
        t->work.write = op->written;
    } else if (op->has_bytes && op->bytes) {
        /* Only the total over all memories is told: the shapes say how much of it can be main memory. */
        uint64_t written = main_memory(parts->shape, parts->shape_end), read = main_memory(parts->operands, parts->operands_end);
        t->work.write = MIN(written, op->bytes);
        t->work.read = MIN(read, op->bytes - t->work.write);
        t->work.origin = ECH_INFERRED;
    }
    t->has_work = t->work.read || t->work.write || t->work.ops;
}

/* The last "%name" of the operands. */
static bool operand_name(const Parts *parts, const char **ret, size_t *ret_n)
{
    const char *percent = memrchr(parts->operands, '%', (size_t)(parts->operands_end - parts->operands));
    if (!percent)
        return false;
    const char *p = percent + 1;
    while (p < parts->operands_end && *p != ')' && *p != ',' && *p != ' ')
        p++;
    *ret = percent + 1;
    *ret_n = (size_t)(p - percent - 1);
    return true;
}

uint32_t ech_xplane_kind(EchXplane *x, const EchXplaneOp *op)
{
    uint64_t told = (uint64_t)op->has_flops | (uint64_t)op->has_bytes << 1 | (uint64_t)op->has_traffic << 2 | (uint64_t)op->stack << 3;
    Key key = {(char *)(uintptr_t)op->text, op->n_text, {told, op->flops, op->bytes, op->read, op->written}};
    uint32_t found = GPOINTER_TO_UINT(g_hash_table_lookup(x->index, &key));
    if (found)
        return found - 1;
    Template t = {.stack = op->stack, .partner = ECH_NONE, .group = ECH_NONE};
    Parts parts;
    bool hlo = split(op->text, op->n_text, &parts);
    const char *name = op->name && op->n_name ? op->name : hlo ? parts.name : op->text;
    size_t n_name = op->name && op->n_name ? op->n_name : hlo ? (size_t)(parts.name_end - parts.name) : op->n_text;
    if (hlo && parts.opcode) {
        EchCollective collective = collective_of(parts.opcode, parts.opcode_end);
        const char *partner;
        size_t n_partner;
        bool control = equals(parts.opcode, parts.opcode_end, "while") || equals(parts.opcode, parts.opcode_end, "conditional") ||
                       equals(parts.opcode, parts.opcode_end, "call");
        /* The display name may be cut or unified; partners are found by the instruction's own name. */
        name = parts.name;
        n_name = (size_t)(parts.name_end - parts.name);
        t.collective = (uint8_t)collective;
        if (control) {
            t.kind = KIND_CONTAINER;
        } else if (ends_with(parts.opcode, parts.opcode_end, "-done") && operand_name(&parts, &partner, &n_partner)) {
            t.kind = KIND_DONE;
            t.partner = ech_trace_builder_string(x->builder, partner, (gssize)n_partner);
        } else if (ends_with(parts.opcode, parts.opcode_end, "-start")) {
            t.kind = KIND_START;
            if (collective == ECH_COLLECTIVE_NONE)
                read_start(&parts, &t);
        } else if (collective != ECH_COLLECTIVE_NONE) {
            t.kind = KIND_COLLECTIVE;
        } else {
            t.kind = KIND_KERNEL;
            read_work(op, &parts, &t);
        }
        if (collective != ECH_COLLECTIVE_NONE) {
            const char *p = parts.operands;
            EchLayout layout;
            while (next_array(&p, parts.operands_end, &layout))
                t.bytes = ech_bytes_add(t.bytes, array_bytes(&layout));
            t.bytes_origin = ECH_KNOWN;
            EchGroup group;
            if (read_groups(parts.operands_end, parts.end, &group)) {
                t.group = group.size;
                t.devices = group.devices;
                t.stride = group.stride;
            }
        }
    }
    t.name = ech_trace_builder_string(x->builder, name, (gssize)n_name);
    g_array_append_val(x->templates, t);
    key.text = g_malloc(op->n_text + 1); /* never NULL, which memcmp does not take */
    memcpy(key.text, op->text, op->n_text);
    g_hash_table_insert(x->index, g_memdup2(&key, sizeof key), GUINT_TO_POINTER(x->templates->len));
    return x->templates->len - 1;
}

void ech_xplane_event(EchXplane *x, uint32_t device, uint32_t kind, EchTime start, EchTime duration)
{
    Happening h = {start, duration, device, kind, x->happenings->len};
    g_array_append_val(x->happenings, h);
}

void ech_xplane_mark(EchXplane *x, uint32_t device, const char *line, EchId name, EchTime start, EchTime duration)
{
    EchItem item = ech_item_init(ECH_ITEM_MARK);
    item.name = name;
    item.queue = ech_capture_queue(x->capture, line, ECH_QUEUE_HOST, device);
    item.issued = item.start = start;
    item.duration = duration;
    ech_capture_add(x->capture, &item);
}

/* ---- the core's line in order ---- */

static int compare_happenings(gconstpointer a, gconstpointer b)
{
    const Happening *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static uint32_t dma_queue(EchXplane *x, uint32_t device, const Template *t)
{
    static const char *const tiers[ECH_N_TIERS] = {"hbm", "host", "vector", "common", "scalar"};
    char name[64];
    if (t->collective)
        return ech_capture_queue(x->capture, "collectives", ECH_QUEUE_COLLECTIVE, device);
    g_snprintf(name, sizeof name, "dma %s to %s", tiers[t->from], tiers[t->to]);
    return ech_capture_queue(x->capture, name, ECH_QUEUE_COPY, device);
}

static EchItem item_of(EchItemKind kind, const Template *t, const Happening *h, uint32_t queue)
{
    EchItem item = ech_item_init(kind);
    item.name = t->name;
    item.stack = t->stack;
    item.queue = queue;
    item.issued = item.start = h->start;
    item.duration = h->duration;
    return item;
}

typedef struct {
    uint32_t device, core;
    GHashTable *pending; /* name + 1 -> Pending */
    GHashTable *ends;    /* queue + 1 -> EchTime: the newest known end of a transfer */
} Core;

static void start_transfer(EchXplane *x, Core *core, const Template *t, const Happening *h)
{
    uint32_t queue = dma_queue(x, core->device, t);
    EchItem item = item_of(t->collective ? ECH_ITEM_COLLECTIVE : ECH_ITEM_COPY, t, h, queue);
    item.duration = ECH_TIME_NONE;
    item.bytes = t->bytes;
    item.origin = t->bytes_origin;
    item.from = t->collective ? t->collective : t->from;
    item.to = t->to;
    item.work = core->core;
    item.other = t->collective ? t->group : ECH_NONE;
    item.rounded = t->collective ? t->devices : 0;
    item.address = t->collective ? t->stride : 0;
    if (!t->collective && t->bytes_origin == ECH_ABSENT)
        ech_diag_note(x->import->diag, "copies_without_bytes", 1);
    Pending *pending = g_new(Pending, 1);
    *pending = (Pending){ech_capture_n_items(x->capture), h->start, queue};
    ech_capture_add(x->capture, &item);
    if (!g_hash_table_replace(core->pending, GUINT_TO_POINTER(t->name + 1), pending))
        ech_diag_dropped(x->import->diag, "async_starts_without_done", 1, "%s", ech_trace_builder_peek_string(x->builder, t->name));
}

static void end_transfer(EchXplane *x, Core *core, const Template *t, const Happening *h)
{
    Pending *pending = g_hash_table_lookup(core->pending, GUINT_TO_POINTER(t->partner + 1));
    if (!pending) {
        ech_diag_dropped(x->import->diag, "async_dones_without_start", 1, "%s", ech_trace_builder_peek_string(x->builder, t->name));
        return;
    }
    EchItem *transfer = ech_capture_item(x->capture, pending->item);
    EchTime *last = g_hash_table_lookup(core->ends, GUINT_TO_POINTER(pending->queue + 1));
    if (last)
        transfer->start = MAX(transfer->start, *last);
    if (h->duration > WAITED && h->start + h->duration >= transfer->start) {
        EchTime end = h->start + h->duration;
        transfer->duration = end - transfer->start;
        if (!last) {
            last = g_new(EchTime, 1);
            g_hash_table_insert(core->ends, GUINT_TO_POINTER(pending->queue + 1), last);
        }
        *last = end;
        ech_diag_note(x->import->diag, "async_copies_timed_by_completion", 1);
    } else {
        ech_diag_note(x->import->diag, "async_copies_of_unknown_end", 1);
    }
    EchItem wait = item_of(ECH_ITEM_STREAM_WAIT, t, h, core->core);
    wait.other = pending->queue;
    wait.address = (uint64_t)pending->issued;
    ech_capture_add(x->capture, &wait);
    g_hash_table_remove(core->pending, GUINT_TO_POINTER(t->partner + 1));
}

static void core_event(EchXplane *x, Core *core, const Happening *h)
{
    const Template *t = &g_array_index(x->templates, Template, h->template);
    EchItem item;
    switch (t->kind) {
    case KIND_START: start_transfer(x, core, t, h); return;
    case KIND_DONE: end_transfer(x, core, t, h); return;
    case KIND_COLLECTIVE:
        item = item_of(ECH_ITEM_COLLECTIVE, t, h, core->core);
        item.bytes = t->bytes;
        item.origin = t->bytes_origin;
        item.from = t->collective;
        item.other = t->group;
        item.rounded = t->devices;
        item.address = t->stride;
        break;
    case KIND_CONTAINER: item = item_of(ECH_ITEM_MARK, t, h, ech_capture_queue(x->capture, "control flow", ECH_QUEUE_HOST, core->device)); break;
    case KIND_KERNEL:
    default:
        item = item_of(ECH_ITEM_KERNEL, t, h, core->core);
        if (t->has_work)
            item.work = ech_capture_work(x->capture, t->work);
        break;
    }
    ech_capture_add(x->capture, &item);
}

bool ech_xplane_finish(EchXplane *x, GError **error)
{
    g_array_sort(x->happenings, compare_happenings);
    Core core = {.device = UINT32_MAX};
    core.pending = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    core.ends = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    for (guint i = 0; i <= x->happenings->len; i++) {
        const Happening *h = i < x->happenings->len ? &g_array_index(x->happenings, Happening, i) : NULL;
        if (!h || h->device != core.device) {
            ech_diag_dropped(x->import->diag, "async_starts_without_done", g_hash_table_size(core.pending), "device %u, at the end", core.device);
            g_hash_table_remove_all(core.pending);
            g_hash_table_remove_all(core.ends);
            if (!h)
                break;
            core.device = h->device;
            core.core = ech_capture_queue(x->capture, "core", ECH_QUEUE_COMPUTE, h->device);
        }
        core_event(x, &core, h);
    }
    g_hash_table_unref(core.pending);
    g_hash_table_unref(core.ends);
    return ech_capture_finish(x->capture, error);
}
