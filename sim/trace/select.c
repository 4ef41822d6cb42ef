#include "sim/trace/select.h"

#include "sim/base/compare.h"
#include "sim/base/error.h"
#include "sim/trace/meets.h"

#include <string.h>

static bool copy_name_says(const EchTrace *trace, const EchOp *op, const char *what)
{
    const char *open = strchr(ech_trace_string(trace, op->name), '(');
    return open && strstr(open, what);
}

bool ech_trace_copy_pageable(const EchTrace *trace, const EchOp *op)
{
    return copy_name_says(trace, op, "Pageable");
}

bool ech_trace_copy_untouched(const EchTrace *trace, const EchOp *op)
{
    return copy_name_says(trace, op, "-> Pageable, untouched");
}

bool ech_trace_copy_staged(const EchTrace *trace, const EchOp *op)
{
    return copy_name_says(trace, op, "-> Device, over the host");
}

EchBytes ech_trace_pins(const EchTrace *trace, const EchOp *op, bool *ret_new)
{
    if (op->kind != ECH_OP_KERNEL || op->queue == ECH_NONE || ech_trace_queues(trace)[op->queue].kind != ECH_QUEUE_HOST)
        return 0;
    const char *name = ech_trace_string(trace, op->name);
    *ret_new = strcmp(name, ECH_PIN_NEW) == 0;
    if (!*ret_new && strcmp(name, ECH_PIN_THERE) != 0)
        return 0;
    EchBytes bytes = 0;
    for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++)
        bytes = ech_bytes_add(bytes, ech_trace_uses(trace)[u].bytes);
    return bytes;
}

bool ech_trace_kernel_known(const EchTrace *trace, EchId id)
{
    const EchOp *op = &ech_trace_ops(trace)[id];
    if (op->estimate != ECH_TIME_NONE && op->estimate_origin != ECH_ABSENT)
        return true;
    for (uint32_t i = 0; i < op->n_work; i++)
        if (ech_trace_work(trace)[op->first_work + i].count > 0)
            return true;
    for (uint32_t i = 0; i < op->n_uses; i++)
        if (ech_trace_uses(trace)[op->first_use + i].bytes > 0 && ech_trace_uses(trace)[op->first_use + i].origin != ECH_ABSENT)
            return true;
    return false;
}

static bool is_host_name(const char *name)
{
    return g_str_has_prefix(name, "host");
}

/* Queues that anything ran on; of a trace in which nothing did, those whose allocations are not the host's. By queue; g_free. */
static bool *queues_in_use(const EchTrace *trace)
{
    bool *seen = g_new0(bool, ech_trace_n_queues(trace) + 1), any = false;
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++)
        if (ech_op_is_work(&ech_trace_ops(trace)[i]))
            any = seen[ech_trace_ops(trace)[i].queue] = true;
    for (size_t b = 0; !any && b < ech_trace_n_buffers(trace); b++) {
        const EchBuffer *buffer = &ech_trace_buffers(trace)[b];
        if (buffer->queue != ECH_NONE && !is_host_name(ech_trace_memory(trace, buffer->memory)))
            seen[buffer->queue] = true;
    }
    return seen;
}

uint32_t *ech_trace_devices(const EchTrace *trace, size_t *ret_n)
{
    g_autofree bool *seen = queues_in_use(trace);
    g_autoptr(GArray) devices = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (size_t q = 0; q < ech_trace_n_queues(trace); q++)
        if (seen[q])
            g_array_append_val(devices, ech_trace_queues(trace)[q].device);
    g_array_sort(devices, ech_compare_u32);
    guint n = 0;
    for (guint i = 0; i < devices->len; i++)
        if (i == 0 || g_array_index(devices, uint32_t, i) != g_array_index(devices, uint32_t, n - 1))
            g_array_index(devices, uint32_t, n++) = g_array_index(devices, uint32_t, i);
    *ret_n = n;
    return (uint32_t *)(void *)g_array_free(g_steal_pointer(&devices), FALSE);
}

const char *ech_trace_property_of(const EchTrace *trace, const char *key, uint32_t device)
{
    g_autofree char *own = g_strdup_printf("%s:%u", key, device);
    const char *value = ech_trace_get_property(trace, own);
    return value ? value : ech_trace_get_property(trace, key);
}

bool ech_trace_device_of(const EchTrace *trace, EchId memory, uint32_t *ret)
{
    const EchBuffer *buffers = ech_trace_buffers(trace);
    for (size_t i = 0; i < ech_trace_n_buffers(trace); i++) {
        if (buffers[i].memory == memory && buffers[i].queue != ECH_NONE) {
            *ret = ech_trace_queues(trace)[buffers[i].queue].device;
            return true;
        }
    }
    return false;
}

/* Number behind the last colon of a memory's name, ECH_NONE without one. */
static uint32_t memory_device(const char *name)
{
    const char *colon = strrchr(name, ':');
    if (!colon || !colon[1] || strlen(colon + 1) > 6 || strspn(colon + 1, "0123456789") != strlen(colon + 1))
        return ECH_NONE;
    return (uint32_t)g_ascii_strtoull(colon + 1, NULL, 10);
}

bool ech_trace_copy_between(const EchTrace *trace, const EchOp *op)
{
    if (op->kind != ECH_OP_COPY)
        return false;
    const char *from = ech_trace_memory(trace, op->memory_from), *to = ech_trace_memory(trace, op->memory_to);
    return !is_host_name(from) && !is_host_name(to) && memory_device(from) != memory_device(to);
}

bool ech_trace_is_of_several(const EchTrace *trace)
{
    for (size_t m = 0; m < ech_trace_n_memories(trace); m++)
        if (memory_device(ech_trace_memory(trace, (EchId)m)) != ECH_NONE)
            return true;
    return false;
}

/* The device whose memory has no number in its name: the lowest that anything ran on, unless it has one. ECH_NONE: one that nothing ran on. */
static uint32_t plain_device(const EchTrace *trace)
{
    size_t n;
    g_autofree uint32_t *devices = ech_trace_devices(trace, &n);
    bool numbered = n == 0;
    for (size_t m = 0; m < ech_trace_n_memories(trace) && !numbered; m++)
        numbered = memory_device(ech_trace_memory(trace, (EchId)m)) == devices[0];
    return numbered ? ECH_NONE : devices[0];
}

EchBytes ech_trace_most_live(const EchTrace *trace, uint32_t device)
{
    uint32_t plain = plain_device(trace);
    size_t n = ech_trace_n_memories(trace);
    g_autofree bool *own = g_new0(bool, n + 1);
    for (size_t m = 0; m < n; m++) {
        const char *name = ech_trace_memory(trace, (EchId)m);
        uint32_t of = memory_device(name);
        own[m] = !is_host_name(name) && (of == ECH_NONE ? plain : of) == device;
    }
    EchBytes live = 0;
    for (size_t b = 0; b < ech_trace_n_buffers(trace); b++) {
        const EchBuffer *buffer = &ech_trace_buffers(trace)[b];
        live = ech_bytes_add(live, buffer->resident && buffer->alias_of == ECH_NONE && own[buffer->memory] ? buffer->bytes : 0);
    }
    EchBytes most = live;
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        const EchBuffer *buffer = op->kind == ECH_OP_ALLOC || op->kind == ECH_OP_FREE ? &ech_trace_buffers(trace)[op->target] : NULL;
        if (!buffer || !own[buffer->memory])
            continue;
        live = op->kind == ECH_OP_ALLOC ? ech_bytes_add(live, buffer->bytes) : live - MIN(live, buffer->bytes);
        most = MAX(most, live);
    }
    return most;
}

/* ---- what devices that are replayed together wait for in one another: who is awaited tells it by a wait of its own behind it, who waits hears that ---- */

typedef struct {
    const EchTrace *trace;
    const EchSelectOptions *options;
    EchTraceBuilder *builder;
    bool one;        /* of several devices */
    bool *awaited;   /* by op: others that are selected, too, wait for its end; NULL where none are */
    bool *heard;     /* by op: what is kept waits for its end, another host's */
    bool apart;      /* devices have memories of their own names */
    uint32_t plain;  /* then whose has no number in it */
    bool *keep;      /* by op */
    EchId *strings;  /* by string */
    EchId *memories; /* by memory */
    EchId pageable;  /* memory of pageable copies, or ECH_NONE */
    bool *used;      /* by buffer: by what is kept */
    bool *gone;      /* by memory: another device's, and nothing that is kept touches it */
    EchId *stand_in; /* by memory: for what copies use of another device's */
} Selection;

static bool memory_kept(const Selection *s, EchId memory)
{
    const char *name = ech_trace_memory(s->trace, memory);
    uint32_t device = memory_device(name);
    if (!s->apart || is_host_name(name))
        return true;
    return (device == ECH_NONE ? s->plain : device) == s->options->device;
}

/* Of which device an op is; a host's is of the one that it works for. */
static uint32_t device_of_op(const Selection *s, EchId op)
{
    return ech_trace_queues(s->trace)[ech_trace_ops(s->trace)[op].queue].device;
}

static bool is_of_host(const Selection *s, EchId op)
{
    return ech_trace_queues(s->trace)[ech_trace_ops(s->trace)[op].queue].kind == ECH_QUEUE_HOST;
}

/* Whether @op waits for work of another device. What an allocator gives and takes is asked for by turns with its own device's. */
static bool waits_afar(const Selection *s, EchId op, EchId awaited)
{
    EchOpKind kind = (EchOpKind)ech_trace_ops(s->trace)[op].kind;
    return s->awaited && device_of_op(s, op) != device_of_op(s, awaited) && kind != ECH_OP_ALLOC && kind != ECH_OP_FREE;
}

static bool any_afar(const Selection *s, EchId op)
{
    const EchOp *of = &ech_trace_ops(s->trace)[op];
    for (uint32_t d = of->first_dep; d < of->first_dep + of->n_deps; d++)
        if (waits_afar(s, op, ech_trace_deps(s->trace)[d].op))
            return true;
    return false;
}

static void find_awaited(Selection *s)
{
    for (size_t i = 0; s->awaited && i < ech_trace_n_ops(s->trace); i++) {
        const EchOp *op = &ech_trace_ops(s->trace)[i];
        for (uint32_t d = op->first_dep; d < op->first_dep + op->n_deps; d++) {
            EchId awaited = ech_trace_deps(s->trace)[d].op;
            bool afar = waits_afar(s, (EchId)i, awaited);
            s->awaited[awaited] |= afar;
            s->heard[awaited] |= afar && s->keep[i] && !s->keep[awaited] && is_of_host(s, awaited);
        }
    }
}

/* Copies between devices are one's; what they use of another's memory is that one's to tell. */
static bool use_kept(const Selection *s, const EchOp *op, const EchUse *use)
{
    return !s->one || op->kind != ECH_OP_COPY || memory_kept(s, ech_trace_buffers(s->trace)[use->buffer].memory);
}

static void choose_ops(Selection *s)
{
    const EchOp *ops = ech_trace_ops(s->trace);
    const EchQueue *queues = ech_trace_queues(s->trace);
    const EchBuffer *buffers = ech_trace_buffers(s->trace);
    size_t n_ops = ech_trace_n_ops(s->trace), n_buffers = ech_trace_n_buffers(s->trace);
    bool *used = s->used;
    for (size_t i = 0; i < n_ops; i++) {
        const EchQueue *queue = &queues[ops[i].queue];
        s->keep[i] = !s->one || queue->device == s->options->device || (queue->kind == ECH_QUEUE_HOST && !ech_op_is_work(&ops[i]));
        for (uint32_t u = ops[i].first_use; s->keep[i] && u < ops[i].first_use + ops[i].n_uses; u++)
            used[ech_trace_uses(s->trace)[u].buffer] |= use_kept(s, &ops[i], &ech_trace_uses(s->trace)[u]);
    }
    for (size_t b = n_buffers; b-- > 0;) /* parents come before */
        if (used[b] && buffers[b].alias_of != ECH_NONE)
            used[buffers[b].alias_of] = true;
    g_autoptr(GHashTable) signals = g_hash_table_new(NULL, NULL);
    for (size_t i = 0; s->one && i < n_ops; i++) {
        if (ops[i].kind == ECH_OP_ALLOC || ops[i].kind == ECH_OP_FREE)
            s->keep[i] = used[ops[i].target] || memory_kept(s, buffers[ops[i].target].memory);
        else if (ops[i].kind == ECH_OP_SIGNAL && s->keep[i])
            g_hash_table_add(signals, GUINT_TO_POINTER(ops[i].target));
        else if (ops[i].kind == ECH_OP_WAIT && s->keep[i]) {
            bool waits = (ops[i].target != ECH_NONE && g_hash_table_contains(signals, GUINT_TO_POINTER(ops[i].target))) ||
                         (queues[ops[i].queue].device == s->options->device && any_afar(s, (EchId)i));
            for (uint32_t d = 0; d < ops[i].n_deps; d++)
                waits = waits || s->keep[ech_trace_deps(s->trace)[ops[i].first_dep + d].op];
            s->keep[i] = waits;
        }
    }
}

/* Finds memories of other devices that nothing touches any more. */
static void find_gone(Selection *s)
{
    size_t n = ech_trace_n_memories(s->trace);
    for (size_t m = 0; m < n; m++)
        s->gone[m] = s->one && !memory_kept(s, (EchId)m);
    const EchBuffer *buffers = ech_trace_buffers(s->trace);
    for (size_t b = 0; b < ech_trace_n_buffers(s->trace); b++)
        if (buffers[b].alias_of != ECH_NONE && buffers[buffers[b].alias_of].memory != buffers[b].memory)
            s->gone[buffers[b].memory] = s->gone[buffers[buffers[b].alias_of].memory] = false;
    for (size_t i = 0; i < ech_trace_n_ops(s->trace); i++) {
        const EchOp *op = &ech_trace_ops(s->trace)[i];
        if (!s->keep[i])
            continue;
        if (op->kind == ECH_OP_COPY)
            s->gone[op->memory_from] = s->gone[op->memory_to] = false;
        if (op->kind == ECH_OP_ALLOC || op->kind == ECH_OP_FREE)
            s->gone[buffers[op->target].memory] = false;
        for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++)
            if (use_kept(s, op, &ech_trace_uses(s->trace)[u]))
                s->gone[buffers[ech_trace_uses(s->trace)[u].buffer].memory] = false;
    }
}

static void copy_tables(Selection *s)
{
    const EchTrace *trace = s->trace;
    size_t n = ech_trace_n_strings(trace);
    s->strings = g_new(EchId, n + 1);
    for (size_t i = 0; i < n; i++)
        s->strings[i] = ech_trace_builder_string(s->builder, ech_trace_string(trace, (EchId)i), -1);
    n = ech_trace_n_memories(trace);
    s->memories = g_new(EchId, n + 1);
    for (size_t i = 0; i < n; i++) {
        const char *name = ech_trace_memory(trace, (EchId)i);
        if (s->gone[i]) {
            s->memories[i] = ECH_NONE;
            continue;
        }
        g_autofree char *own = g_strdup(name);
        if (s->apart && !is_host_name(name)) {
            uint32_t device = memory_device(name);
            if (device == s->options->device)
                *strrchr(own, ':') = '\0';
            else if (device == ECH_NONE && s->plain != s->options->device) {
                g_free(own);
                own = g_strdup_printf("%s:%u", name, s->plain == ECH_NONE ? 0 : s->plain);
            }
        }
        s->memories[i] = ech_trace_builder_memory(s->builder, own);
    }
    for (size_t i = 0; i < ech_trace_n_queues(trace); i++) {
        const EchQueue *queue = &ech_trace_queues(trace)[i];
        ech_trace_builder_queue(s->builder, ech_trace_string(trace, queue->name), (EchQueueKind)queue->kind, queue->device);
    }
    const char *key, *value;
    g_autofree char *of_device = g_strdup_printf(":%u", s->options->device);
    for (size_t i = 0; (key = ech_trace_property(trace, i, &value)); i++) {
        g_autofree char *of_all = s->apart && g_str_has_suffix(key, of_device) ? g_strndup(key, strlen(key) - strlen(of_device)) : NULL;
        if (of_all && ech_trace_get_property(trace, of_all))
            ech_trace_builder_set_property(s->builder, of_all, value);
        else
            ech_trace_builder_set_property(s->builder, key, value);
    }
}

static EchId mapped(const EchId *map, EchId id)
{
    return id == ECH_NONE ? ECH_NONE : map[id];
}

static EchId first_memory(const Selection *s)
{
    for (size_t m = 0; m < ech_trace_n_memories(s->trace); m++)
        if (!s->gone[m] && (!s->one || memory_kept(s, (EchId)m)))
            return s->memories[m];
    return ech_trace_builder_memory(s->builder, "hbm");
}

/* What another device's copies bring, but in a backward pass, is what this one is given: nothing here makes it. By buffer; g_free. */
static bool *find_given(const Selection *s)
{
    bool *given = g_new0(bool, ech_trace_n_buffers(s->trace) + 1);
    for (size_t i = 0; i < ech_trace_n_ops(s->trace); i++) {
        const EchOp *op = &ech_trace_ops(s->trace)[i];
        if (s->keep[i] || op->kind != ECH_OP_COPY || (op->stack != ECH_NONE && strstr(ech_trace_string(s->trace, op->stack), "Backward")))
            continue;
        for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
            const EchUse *use = &ech_trace_uses(s->trace)[u];
            const EchBuffer *buffer = &ech_trace_buffers(s->trace)[use->buffer];
            bool unmade = buffer->role == ECH_ROLE_UNKNOWN || buffer->role == ECH_ROLE_ACTIVATION || buffer->role == ECH_ROLE_TEMPORARY;
            given[use->buffer] |=
                use->access == ECH_WRITE && unmade && memory_kept(s, buffer->memory) && !is_host_name(ech_trace_memory(s->trace, buffer->memory));
        }
    }
    return given;
}

static void copy_buffers(Selection *s, const EchId *op_map)
{
    g_autofree bool *given = s->one ? find_given(s) : NULL;
    for (size_t i = 0; i < ech_trace_n_buffers(s->trace); i++) {
        EchBuffer buffer = ech_trace_buffers(s->trace)[i];
        buffer.name = mapped(s->strings, buffer.name);
        buffer.pool = mapped(s->strings, buffer.pool);
        buffer.stack = mapped(s->strings, buffer.stack);
        buffer.shape = mapped(s->strings, buffer.shape);
        /* Buffers keep their numbers: what is gone stays as a name without bytes in some memory. */
        if (s->gone[buffer.memory] || (s->one && !s->used[i] && !memory_kept(s, buffer.memory))) {
            buffer.bytes = buffer.rounded = buffer.dense = buffer.alias_offset = 0;
            buffer.resident = 0;
            buffer.offset = ECH_OFFSET_NONE;
            buffer.memory = first_memory(s);
            buffer.queue = ECH_NONE;
        } else {
            buffer.memory = s->memories[buffer.memory];
            if (given && given[i])
                buffer.role = ECH_ROLE_INPUT;
        }
        buffer.loop = mapped(op_map, buffer.loop);
        ech_trace_builder_buffer(s->builder, buffer);
    }
    s->stand_in = g_new(EchId, ech_trace_n_memories(s->trace) + 1);
    for (size_t m = 0; m < ech_trace_n_memories(s->trace); m++) {
        if (!s->one || s->gone[m] || memory_kept(s, (EchId)m))
            continue;
        EchBuffer buffer = ech_buffer_init();
        buffer.name = ech_trace_builder_string(s->builder, "(another device's)", -1);
        buffer.memory = s->memories[m];
        buffer.resident = 1;
        s->stand_in[m] = ech_trace_builder_buffer(s->builder, buffer);
    }
}

typedef struct {
    EchTime start;
    EchId op;
} Start;

static gint compare_starts(gconstpointer a, gconstpointer b)
{
    const Start *x = a, *y = b;
    return x->start != y->start ? (x->start > y->start) - (x->start < y->start) : (x->op > y->op) - (x->op < y->op);
}

/* One delay per distinct recorded start; @delay[op] gets the one to wait for. Returns how many. */
static uint32_t add_clock(Selection *s, EchId *delay)
{
    g_autoptr(GArray) starts = g_array_new(FALSE, FALSE, sizeof(Start));
    for (size_t i = 0; i < ech_trace_n_ops(s->trace); i++) {
        const EchOp *op = &ech_trace_ops(s->trace)[i];
        Start start = {op->recorded.start, (EchId)i};
        delay[i] = ECH_NONE;
        if (s->keep[i] && ech_op_is_work(op) && op->recorded.start != ECH_TIME_NONE)
            g_array_append_val(starts, start);
    }
    if (starts->len == 0)
        return 0;
    g_array_sort(starts, compare_starts);
    EchId queue = ech_trace_builder_queue(s->builder, "clock", ECH_QUEUE_HOST, 0), name = ech_trace_builder_string(s->builder, "clock", -1);
    EchTime now = g_array_index(starts, Start, 0).start;
    EchId last = ECH_NONE;
    uint32_t n = 0;
    for (guint i = 0; i < starts->len; i++) {
        const Start *start = &g_array_index(starts, Start, i);
        if (start->start > now) {
            EchOp op = ech_op_init(ECH_OP_KERNEL);
            op.name = name;
            op.queue = queue;
            if (__builtin_sub_overflow(start->start, now, &op.recorded.duration))
                op.recorded.duration = ECH_TIME_MAX;
            last = ech_trace_builder_op(s->builder, op);
            now = start->start;
            n++;
        }
        delay[start->op] = last;
    }
    return n;
}

/* How many ops of another device op @op waits for; *ret_words: what it hears them by. Those of a host are heard where they stand. */
static size_t awaited_of(const Selection *s, EchId op, GString *ret_words)
{
    const EchOp *of = &ech_trace_ops(s->trace)[op];
    size_t n = 0;
    for (uint32_t d = of->first_dep; d < of->first_dep + of->n_deps; d++) {
        EchId awaited = ech_trace_deps(s->trace)[d].op;
        if (s->keep[awaited] || is_of_host(s, awaited) || !waits_afar(s, op, awaited))
            continue;
        if (ret_words)
            ech_meets_print(ret_words, (EchMeeting){.group = UINT64_C(1) << 62 | awaited, .hears = true});
        n++;
    }
    return n;
}

/* Whether op @op, which waits for another device, is a wait that can say so itself; else one is put before it. */
static bool hears_itself(const Selection *s, EchId op)
{
    const EchOp *of = &ech_trace_ops(s->trace)[op];
    return of->kind == ECH_OP_WAIT && (of->launch == ECH_NONE || !*ech_meets_of(ech_trace_string(s->trace, of->launch)));
}

/* A wait in the queue of op @op that tells its end to others, or hears what @words say. */
static void add_meeting(const Selection *s, EchId op, const char *words)
{
    EchOp wait = ech_op_init(ECH_OP_WAIT);
    wait.queue = ech_trace_ops(s->trace)[op].queue;
    wait.name = mapped(s->strings, ech_trace_ops(s->trace)[op].name);
    wait.launch = ech_trace_builder_string(s->builder, words, -1);
    ech_trace_builder_op(s->builder, wait);
}

static void add_words(const Selection *s, EchId op, bool hears)
{
    g_autoptr(GString) words = g_string_new(NULL);
    ech_meets_print(words, (EchMeeting){.group = UINT64_C(1) << 62 | op, .hears = hears, .sends = !hears, .buffer = 1});
    add_meeting(s, op, words->str);
}

/* New numbers of what is kept, and of waits that stand for others' hosts. */
static void number_ops(const Selection *s, EchId next, EchId *ret_map)
{
    for (size_t i = 0; i < ech_trace_n_ops(s->trace); i++) {
        bool heard = s->awaited && s->heard[i];
        next += s->awaited && s->keep[i] && !hears_itself(s, (EchId)i) && awaited_of(s, (EchId)i, NULL) > 0;
        ret_map[i] = s->keep[i] || heard ? next++ : ECH_NONE;
        next += s->awaited && s->keep[i] && s->awaited[i];
    }
}

static void copy_ops(Selection *s, const EchId *op_map, const EchId *delay)
{
    const EchTrace *trace = s->trace;
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        if (!s->keep[i]) {
            if (op_map[i] != ECH_NONE)
                add_words(s, (EchId)i, true);
            continue;
        }
        g_autoptr(GString) heard = g_string_new(NULL);
        bool hears = s->awaited && awaited_of(s, (EchId)i, heard) > 0;
        if (hears && !hears_itself(s, (EchId)i))
            add_meeting(s, (EchId)i, heard->str);
        EchOp op = ech_trace_ops(trace)[i];
        const EchOp *old = &ech_trace_ops(trace)[i];
        op.name = mapped(s->strings, op.name);
        op.stack = mapped(s->strings, op.stack);
        op.launch = mapped(s->strings, op.launch);
        if (hears && hears_itself(s, (EchId)i)) {
            if (old->launch != ECH_NONE)
                g_string_append_printf(heard, " %s", ech_trace_string(trace, old->launch));
            op.launch = ech_trace_builder_string(s->builder, heard->str, (gssize)heard->len);
        }
        if (op.kind == ECH_OP_COPY) {
            bool pageable = s->pageable != ECH_NONE && ech_trace_copy_pageable(trace, old);
            op.memory_from = pageable && is_host_name(ech_trace_memory(trace, old->memory_from)) ? s->pageable : s->memories[old->memory_from];
            op.memory_to = pageable && is_host_name(ech_trace_memory(trace, old->memory_to)) ? s->pageable : s->memories[old->memory_to];
        }
        if (s->options->forget && op.kind == ECH_OP_KERNEL && ech_trace_kernel_known(trace, (EchId)i))
            op.recorded.duration = ECH_TIME_NONE;
        ech_trace_builder_op(s->builder, op);
        for (uint32_t u = old->first_use; u < old->first_use + old->n_uses; u++) {
            const EchUse *use = &ech_trace_uses(trace)[u];
            EchId buffer = use_kept(s, old, use) ? use->buffer : s->stand_in[ech_trace_buffers(trace)[use->buffer].memory];
            ech_trace_builder_use(s->builder, buffer, (EchAccess)use->access, use->bytes, (EchPattern)use->pattern, (EchOrigin)use->origin);
        }
        for (uint32_t w = old->first_work; w < old->first_work + old->n_work; w++) {
            const EchWork *work = &ech_trace_work(trace)[w];
            ech_trace_builder_work(s->builder, (EchWorkUnit)work->unit, (EchDtype)work->dtype, work->count, (EchOrigin)work->origin);
        }
        if (delay && delay[i] != ECH_NONE)
            ech_trace_builder_dep(s->builder, delay[i], 0);
        for (uint32_t d = old->first_dep; d < old->first_dep + old->n_deps; d++) {
            const EchDep *dep = &ech_trace_deps(trace)[d];
            if (op_map[dep->op] != ECH_NONE)
                ech_trace_builder_dep(s->builder, op_map[dep->op], dep->distance);
        }
        if (s->awaited && s->awaited[i])
            add_words(s, (EchId)i, false);
    }
}

uint64_t ech_trace_number(const EchTrace *trace, uint64_t place)
{
    bool together = trace && ech_trace_get_property(trace, ECH_TRACE_TOGETHER);
    const char *device = together ? ech_trace_get_property(trace, ECH_TRACE_DEVICE) : NULL, *rank = trace ? ech_trace_get_property(trace, "rank") : NULL;
    return device ? g_ascii_strtoull(device, NULL, 10) : rank ? g_ascii_strtoull(rank, NULL, 10) : place;
}

/* Which devices run how many kernels beside the selected one. */
static void tell_others(const Selection *s)
{
    size_t n;
    g_autofree uint32_t *devices = ech_trace_devices(s->trace, &n);
    g_autoptr(GString) text = g_string_new(NULL);
    for (size_t d = 0; d < n; d++) {
        size_t kernels = 0;
        for (size_t i = 0; i < ech_trace_n_ops(s->trace) && devices[d] != s->options->device; i++) {
            const EchOp *op = &ech_trace_ops(s->trace)[i];
            const EchQueue *queue = op->kind == ECH_OP_KERNEL && op->queue != ECH_NONE ? &ech_trace_queues(s->trace)[op->queue] : NULL;
            kernels += queue && queue->kind != ECH_QUEUE_HOST && queue->device == devices[d];
        }
        if (kernels > 0)
            g_string_append_printf(text, "%s%u (%zu kernel%s)", text->len ? ", " : "", devices[d], kernels, kernels == 1 ? "" : "s");
    }
    if (text->len)
        ech_trace_builder_set_property(s->builder, ECH_TRACE_OTHER_DEVICES, text->str);
}

EchTrace *ech_trace_select(const EchTrace *trace, const EchSelectOptions *options, EchId *ret_ops, GError **error)
{
    size_t n_ops = ech_trace_n_ops(trace);
    Selection s = {.trace = trace, .options = options, .one = options->device != ECH_NONE};
    if ((s.one || options->clock) && ech_trace_has_op(trace, ECH_OP_LOOP)) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "a trace with loops has no recorded starts of its own, nor devices to choose from");
        return NULL;
    }
    s.apart = s.one && ech_trace_is_of_several(trace);
    s.plain = plain_device(trace);
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new(ech_trace_format(trace));
    g_autofree bool *keep = g_new0(bool, n_ops + 1);
    g_autofree EchId *map = g_new(EchId, n_ops + 1), *delay = options->clock ? g_new(EchId, n_ops + 1) : NULL;
    s.builder = builder;
    s.keep = keep;
    g_autofree bool *gone = g_new0(bool, ech_trace_n_memories(trace) + 1);
    s.gone = gone;
    g_autofree bool *used = g_new0(bool, ech_trace_n_buffers(trace) + 1);
    s.used = used;
    g_autofree bool *awaited = options->together ? g_new0(bool, n_ops + 1) : NULL, *heard = options->together ? g_new0(bool, n_ops + 1) : NULL;
    s.awaited = awaited;
    s.heard = heard;
    choose_ops(&s);
    find_awaited(&s);
    find_gone(&s);
    copy_tables(&s);
    s.pageable = options->pageable ? ech_trace_builder_memory(builder, options->pageable) : ECH_NONE;
    EchId next = delay ? add_clock(&s, delay) : 0;
    number_ops(&s, next, map);
    copy_buffers(&s, map);
    copy_ops(&s, map, delay);
    if (s.apart || options->together)
        ech_trace_builder_printf_property(builder, ECH_TRACE_DEVICE, "%u", options->device);
    if (options->together)
        ech_trace_builder_set_property(builder, ECH_TRACE_TOGETHER, "yes");
    else if (s.one)
        tell_others(&s);
    g_free(s.strings);
    g_free(s.memories);
    g_free(s.stand_in);
    EchTrace *selected = ech_trace_builder_finish(builder, error);
    if (selected && ret_ops)
        memcpy(ret_ops, map, n_ops * sizeof *map);
    return selected;
}
