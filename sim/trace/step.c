#include "sim/trace/step.h"

#include "sim/base/compare.h"
#include "sim/base/error.h"
#include "sim/trace/ranges.h"

#include <stdio.h>
#include <string.h>

/* What marks are steps by, the surest last. */
typedef enum { BY_BACKWARD, BY_MODULE, BY_PROGRAM, BY_OPTIMIZER, BY_NUMBER } By;

/* Marks of one kind, in program order. */
typedef struct {
    const char *stem; /* not ended: the first @length bytes */
    size_t length;
    EchId queue;
    By by;
    EchTime time;   /* all of them together; of programs without recorded times their weight */
    EchTime weight; /* of the kernels behind each, up to the next of any program (weight_of()) */
    size_t work;    /* BY_MODULE: kernels from each on, up to the next of any module */
    GArray *ops;    /* EchId */
} Kind;

static void kind_free(gpointer data)
{
    g_array_unref(((Kind *)data)->ops);
    g_free(data);
}

/* Bytes of @name before the number it ends in, or of all of it where it is an optimizer's step; 0 where it names no step. */
static size_t stem_length(const char *name)
{
    if (ech_mark_is_optimizer(name))
        return strlen(name);
    if (ech_mark_is_backward(name))
        return strlen(name);
    if (g_str_has_prefix(name, ECH_MARK_SERVER)) /* how much it computes follows */
        return strlen(ECH_MARK_SERVER);
    if (g_str_has_prefix(name, "START ") || g_str_has_prefix(name, "END ")) /* PyTorch's own annotations: compilation, say */
        return 0;
    size_t length = strlen(name), stem = length;
    while (stem > 0 && g_ascii_isdigit(name[stem - 1]))
        stem--;
    if (stem == length)
        return 0;
    static const char *const words[] = {"step", "iter", "batch", "epoch"};
    g_autofree char *lower = g_ascii_strdown(name, (gssize)stem);
    for (size_t i = 0; i < G_N_ELEMENTS(words); i++) {
        if (strstr(lower, words[i]))
            return stem;
    }
    return 0;
}

static Kind *kind_of(GPtrArray *kinds, const char *name, size_t length, EchId queue, By by)
{
    guint alike = 0;
    for (guint i = 0; i < kinds->len; i++) {
        Kind *kind = kinds->pdata[i];
        alike += kind->by == by;
        if (kind->queue == queue && kind->length == length && memcmp(kind->stem, name, length) == 0)
            return kind;
    }
    if (alike == (by == BY_PROGRAM ? 512 : 64)) /* more kinds than anybody counts steps by */
        return NULL;
    Kind *kind = g_new(Kind, 1);
    *kind = (Kind){.stem = name, .length = length, .queue = queue, .by = by, .ops = g_array_new(FALSE, FALSE, sizeof(EchId))};
    g_ptr_array_add(kinds, kind);
    return kind;
}

static EchTime programs_time(const GPtrArray *kinds)
{
    EchTime time = 0;
    for (guint i = 0; i < kinds->len; i++) {
        const Kind *kind = kinds->pdata[i];
        if (kind->by == BY_PROGRAM)
            time = ech_time_add(time, kind->time);
    }
    return time;
}

/* Of the programs that ran as often as @kind: a loop may call several. */
static EchTime time_as_often(const GPtrArray *kinds, const Kind *kind)
{
    EchTime time = 0;
    for (guint i = 0; i < kinds->len; i++) {
        const Kind *other = kinds->pdata[i];
        if (other->by == BY_PROGRAM && other->ops->len == kind->ops->len)
            time = ech_time_add(time, other->time);
    }
    return time;
}

static bool has_optimizers(const GPtrArray *kinds)
{
    bool any = false;
    for (guint i = 0; i < kinds->len && !any; i++)
        any = ((const Kind *)kinds->pdata[i])->by == BY_OPTIMIZER;
    return any;
}

/* The kind with the most marks; those that are numbered go before optimizers' steps, which tell the same in the middle of it. Of programs the one that runs for
 * most of the time, of those that run as often, which do so for half of it at least. A module's calls are steps where nothing is trained: there a step may call
 * it several times. Of modules the one that has most kernels in its calls: a pipeline may call its encoders more often. */
static const Kind *best_kind(const GPtrArray *kinds)
{
    const Kind *best = NULL;
    EchTime programs = programs_time(kinds);
    bool trains = has_optimizers(kinds);
    for (guint i = 0; i < kinds->len; i++) {
        const Kind *kind = kinds->pdata[i];
        if (kind->ops->len < 2 || (kind->by == BY_PROGRAM && time_as_often(kinds, kind) < programs / 2) || (kind->by == BY_MODULE && trains))
            continue;
        bool more = best && (kind->by == BY_MODULE    ? kind->work > best->work
                             : kind->by == BY_PROGRAM ? kind->time > best->time
                                                      : kind->ops->len > best->ops->len);
        if (!best || kind->by > best->by || (kind->by == best->by && more))
            best = kind;
    }
    return best;
}

static bool runs(const EchOp *op)
{
    return op->kind == ECH_OP_KERNEL || op->kind == ECH_OP_COLLECTIVE;
}

/* Of several optimizers' steps with no forward pass between them (one for each parameter, within the backward pass), the first is the program's. Where nobody
 * names modules, all are. */
static void keep_first_of_each(const EchTrace *trace, GArray *marks)
{
    const EchOp *ops = ech_trace_ops(trace);
    g_autofree uint8_t *told = g_new0(uint8_t, ech_trace_n_strings(trace) + 1); /* of a stack: 1 in no forward pass of a module, 2 in one */
    g_autoptr(GArray) firsts = g_array_new(FALSE, FALSE, sizeof(EchId));
    guint next = 0;
    bool forward = true, known = false;
    for (size_t i = 0; i < ech_trace_n_ops(trace) && next < marks->len; i++) {
        if (g_array_index(marks, EchId, next) == i) {
            EchId mark = g_array_index(marks, EchId, next++);
            if (forward)
                g_array_append_val(firsts, mark);
            forward = false;
        } else if (runs(&ops[i]) && ops[i].stack < ech_trace_n_strings(trace)) {
            uint8_t *of = &told[ops[i].stack];
            const char *stack = *of == 0 ? ech_trace_string(trace, ops[i].stack) : NULL;
            if (stack)
                *of = ech_stack_has_module(stack) && !ech_stack_is_backward(stack) ? 2 : 1;
            forward |= *of == 2;
            known |= *of == 2;
        }
    }
    if (known) {
        g_array_set_size(marks, 0);
        g_array_append_vals(marks, firsts->data, firsts->len);
    }
}

/* The queue of the first device's runs of programs: each device has its own of the same. ECH_NONE where there is none. */
static EchId queue_of_programs(const EchTrace *trace)
{
    const EchQueue *queues = ech_trace_queues(trace);
    EchId first = ECH_NONE;
    for (size_t i = 0; i < ech_trace_n_queues(trace); i++)
        if (queues[i].kind == ECH_QUEUE_HOST && (first == ECH_NONE || queues[i].device < queues[first].device) &&
            strcmp(ech_trace_string(trace, queues[i].name), ECH_QUEUE_OF_PROGRAMS) == 0)
            first = (EchId)i;
    return first;
}

/* Bytes that a kernel moves, or operations that take as long where a device has some 256 for each byte: which of two programs is the larger. */
static EchTime weight_of(const EchTrace *trace, const EchOp *op)
{
    EchBytes bytes = 0;
    uint64_t operations = 0;
    for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++)
        bytes = ech_bytes_add(bytes, ech_trace_uses(trace)[u].bytes);
    for (uint32_t w = op->first_work; w < op->first_work + op->n_work; w++)
        operations = ech_bytes_add(operations, ech_trace_work(trace)[w].count);
    return (EchTime)MIN(MAX(bytes, operations / 256), (uint64_t)INT64_MAX / 2);
}

static GPtrArray *kinds_of(const EchTrace *trace)
{
    GPtrArray *kinds = g_ptr_array_new_with_free_func(kind_free);
    EchId programs = queue_of_programs(trace);
    Kind *called = NULL, *running = NULL;
    bool timed = false;
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        if (called && op->kind == ECH_OP_KERNEL)
            called->work++;
        if (running && op->kind == ECH_OP_KERNEL)
            running->weight = ech_time_add(running->weight, weight_of(trace, op));
        if (op->kind != ECH_OP_MARK || op->queue == ECH_NONE || ech_trace_queues(trace)[op->queue].kind != ECH_QUEUE_HOST)
            continue;
        const char *name = ech_trace_string(trace, op->name);
        By by = op->queue == programs           ? BY_PROGRAM
                : ech_mark_is_optimizer(name)   ? BY_OPTIMIZER
                : ech_mark_is_module_call(name) ? BY_MODULE
                : ech_mark_is_backward(name)    ? BY_BACKWARD
                                                : BY_NUMBER;
        size_t length = by == BY_PROGRAM || by == BY_MODULE ? strlen(name) : stem_length(name);
        Kind *kind = length ? kind_of(kinds, name, length, op->queue, by) : NULL;
        EchId id = (EchId)i;
        if (!kind)
            continue;
        g_array_append_val(kind->ops, id);
        called = by == BY_MODULE ? kind : called;
        running = by == BY_PROGRAM ? kind : running;
        if (op->recorded.duration != ECH_TIME_NONE)
            kind->time = ech_time_add(kind->time, op->recorded.duration);
        timed |= by == BY_PROGRAM && op->recorded.duration != ECH_TIME_NONE;
    }
    for (guint i = 0; i < kinds->len; i++) {
        Kind *kind = kinds->pdata[i];
        kind->time = timed ? kind->time : kind->weight;
        if (kind->by == BY_OPTIMIZER)
            keep_first_of_each(trace, kind->ops);
    }
    return kinds;
}

/* Whether steps of all of @others, bits, stand between any two of @optimizer's. */
static bool has_in_between(const uint32_t *of, size_t n, uint32_t optimizer, uint64_t others)
{
    uint64_t seen = others;
    for (size_t i = 0; i < n; i++) {
        if (of[i] != optimizer)
            seen |= UINT64_C(1) << of[i];
        else if ((seen & others) != others)
            return false;
        else
            seen = 0;
    }
    return true;
}

uint32_t ech_steps_of_program(const uint32_t *of, size_t n)
{
    size_t counts[ECH_MAX_OPTIMIZERS] = {0};
    uint64_t twice = 0;
    for (size_t i = 0; i < n; i++)
        if (++counts[of[i]] == 2)
            twice |= UINT64_C(1) << of[i];
    if ((twice & (twice - 1)) == 0)
        return UINT32_MAX;
    uint32_t best = UINT32_MAX;
    for (uint32_t k = 0; k < ECH_MAX_OPTIMIZERS; k++)
        if ((twice >> k & 1) && (best == UINT32_MAX || counts[k] > counts[best]) && has_in_between(of, n, k, twice & ~(UINT64_C(1) << k)))
            best = k;
    return best;
}

/* The steps of optimizers of all kinds in one queue. */
static GArray *optimizers_steps(const GPtrArray *kinds, EchId queue)
{
    GArray *marks = g_array_new(FALSE, FALSE, sizeof(EchId));
    for (guint i = 0; i < kinds->len; i++) {
        const Kind *kind = kinds->pdata[i];
        if (kind->by == BY_OPTIMIZER && kind->queue == queue)
            g_array_append_vals(marks, kind->ops->data, kind->ops->len);
    }
    g_array_sort(marks, ech_compare_u32);
    return marks;
}

/* What tells optimizers apart. */
typedef struct {
    const EchTrace *trace;
    uint32_t *of_buffers; /* whose it is, or UINT32_MAX */
    uint8_t *of_stacks;   /* 0: not asked, 1: in no optimizer's step, 2: in one */
} Owners;

static bool is_of_optimizer(const Owners *o, const EchOp *op)
{
    if (op->n_uses == 0 || op->stack >= ech_trace_n_strings(o->trace))
        return false;
    uint8_t *of = &o->of_stacks[op->stack];
    if (*of == 0)
        *of = ech_stack_is_optimizer(ech_trace_string(o->trace, op->stack)) ? 2 : 1;
    return *of == 2;
}

/* Whose optimizer's step [begin, end) begins with: the first that has any of what it writes, or else @fresh. All that it writes is that one's then. */
static uint32_t owner_of(const Owners *o, EchId begin, EchId end, uint32_t fresh)
{
    const EchUse *uses = ech_trace_uses(o->trace);
    g_autoptr(GArray) written = g_array_new(FALSE, FALSE, sizeof(EchId));
    uint32_t owner = UINT32_MAX;
    for (EchId i = begin; i < end; i++) {
        const EchOp *op = &ech_trace_ops(o->trace)[i];
        for (uint32_t u = op->first_use; is_of_optimizer(o, op) && u < op->first_use + op->n_uses; u++) {
            EchId root = ech_buffer_root(ech_trace_buffers(o->trace), uses[u].buffer, NULL);
            if (uses[u].access != ECH_WRITE)
                continue;
            owner = owner == UINT32_MAX ? o->of_buffers[root] : owner;
            g_array_append_val(written, root);
        }
    }
    owner = owner == UINT32_MAX ? fresh : owner;
    for (guint k = 0; k < written->len; k++)
        o->of_buffers[g_array_index(written, EchId, k)] = owner;
    return owner;
}

/* Of several optimizers (a GAN's, say) the marks of the one that steps once a step of the program; NULL where that cannot be told. */
static GArray *of_one_optimizer(const EchTrace *trace, const GPtrArray *kinds, const Kind *kind)
{
    g_autoptr(GArray) marks = optimizers_steps(kinds, kind->queue);
    size_t n_buffers = ech_trace_n_buffers(trace);
    g_autofree uint32_t *of_buffers = g_new(uint32_t, n_buffers + 1), *of = g_new(uint32_t, marks->len + 1);
    g_autofree uint8_t *of_stacks = g_new0(uint8_t, ech_trace_n_strings(trace) + 1);
    memset(of_buffers, 0xff, (n_buffers + 1) * sizeof *of_buffers);
    const Owners owners = {trace, of_buffers, of_stacks};
    /* A part of a trace begins with a mark and ends with the next of that optimizer. */
    bool part = marks->len > 1 && g_array_index(marks, EchId, 0) == 0 && g_array_index(marks, EchId, marks->len - 1) + 1 == ech_trace_n_ops(trace);
    guint whole = marks->len - part;
    uint32_t n = 0;
    for (guint i = 0; i < whole; i++) {
        EchId end = i + 1 < marks->len ? g_array_index(marks, EchId, i + 1) : (EchId)ech_trace_n_ops(trace);
        of[i] = owner_of(&owners, g_array_index(marks, EchId, i), end, n);
        n += of[i] == n;
        if (n > ECH_MAX_OPTIMIZERS)
            return NULL;
    }
    of[whole] = of[0];
    uint32_t one = part ? of[0] : ech_steps_of_program(of, marks->len);
    if (n < 2 || one == UINT32_MAX)
        return NULL;
    GArray *own = g_array_new(FALSE, FALSE, sizeof(EchId));
    for (guint i = 0; i < marks->len; i++)
        if (of[i] == one)
            g_array_append_val(own, g_array_index(marks, EchId, i));
    return own;
}

uint64_t ech_rows_usual(GHashTable *times)
{
    GHashTableIter iter;
    gpointer rows, n;
    uint64_t usual = 0;
    guint most = 0;
    g_hash_table_iter_init(&iter, times);
    while (g_hash_table_iter_next(&iter, &rows, &n)) {
        if (GPOINTER_TO_UINT(n) > most || (GPOINTER_TO_UINT(n) == most && GPOINTER_TO_SIZE(rows) > usual)) {
            usual = GPOINTER_TO_SIZE(rows);
            most = GPOINTER_TO_UINT(n);
        }
    }
    return usual;
}

void ech_rows_count(GHashTable *times, uint64_t rows)
{
    gpointer key = GSIZE_TO_POINTER(rows);
    g_hash_table_insert(times, key, GUINT_TO_POINTER(GPOINTER_TO_UINT(g_hash_table_lookup(times, key)) + 1));
}

static uint64_t rows_of(const EchTrace *trace, const EchTraceStep *step)
{
    g_autoptr(GHashTable) times = g_hash_table_new(NULL, NULL);
    for (EchId i = step->mark; i < step->end; i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        uint64_t rows;
        if (op->kind == ECH_OP_MARK && sscanf(ech_trace_string(trace, op->name), ECH_MARK_GIVEN, &rows) == 1)
            ech_rows_count(times, rows);
    }
    return ech_rows_usual(times);
}

size_t ech_trace_usual_step(const EchTraceStep *steps, size_t n)
{
    g_autoptr(GHashTable) times = g_hash_table_new(NULL, NULL);
    for (size_t i = 0; i < n; i++)
        ech_rows_count(times, steps[i].rows);
    uint64_t usual = ech_rows_usual(times);
    size_t last = n - 1;
    if (GPOINTER_TO_UINT(g_hash_table_lookup(times, GSIZE_TO_POINTER(usual))) < (n + 1) / 2)
        return last;
    while (steps[last].rows != usual)
        last--;
    return last;
}

/* Where the last of a module's calls is over: at the call of another that none of those before was followed by (a VAE's, which decodes what many steps of
 * diffusion made); else where the trace ends. */
static EchId end_of_calls(const EchTrace *trace, const GPtrArray *kinds, const GArray *marks)
{
    EchId first = g_array_index(marks, EchId, 0), last = g_array_index(marks, EchId, marks->len - 1), end = (EchId)ech_trace_n_ops(trace);
    for (guint i = 0; i < kinds->len; i++) {
        const Kind *kind = kinds->pdata[i];
        guint before = 0;
        while (kind->by == BY_MODULE && before < kind->ops->len && g_array_index(kind->ops, EchId, before) < first)
            before++;
        if (kind->by == BY_MODULE && before < kind->ops->len && g_array_index(kind->ops, EchId, before) > last)
            end = MIN(end, g_array_index(kind->ops, EchId, before));
    }
    return end;
}

EchTraceStep *ech_trace_steps(const EchTrace *trace, size_t *ret_n)
{
    *ret_n = 0;
    g_autoptr(GPtrArray) kinds = kinds_of(trace);
    const Kind *kind = best_kind(kinds);
    if (!kind)
        return NULL;
    g_autoptr(GArray) one = kind->by == BY_OPTIMIZER ? of_one_optimizer(trace, kinds, kind) : NULL;
    const GArray *marks = one ? one : kind->ops;
    guint n = marks->len - (kind->by == BY_OPTIMIZER || kind->by == BY_BACKWARD ? 1 : 0);
    EchId end = kind->by == BY_MODULE ? end_of_calls(trace, kinds, marks) : (EchId)ech_trace_n_ops(trace);
    g_autoptr(GArray) steps = g_array_new(FALSE, FALSE, sizeof(EchTraceStep));
    for (guint i = 0; i < n; i++) {
        EchTraceStep step = {.mark = g_array_index(marks, EchId, i), .end = end, .next = ECH_NONE, .last = ECH_NONE, .others = one != NULL};
        if (i + 1 < marks->len)
            step.next = step.end = g_array_index(marks, EchId, i + 1);
        EchId copy = ECH_NONE;
        for (EchId op = step.mark; op < step.end; op++) {
            step.last = runs(&ech_trace_ops(trace)[op]) ? op : step.last;
            copy = ech_trace_ops(trace)[op].kind == ECH_OP_COPY ? op : copy;
        }
        step.last = step.last == ECH_NONE ? copy : step.last;
        step.rows = rows_of(trace, &step);
        if (step.last != ECH_NONE)
            g_array_append_val(steps, step);
    }
    if (steps->len < (n < marks->len ? 1 : 2))
        return NULL;
    *ret_n = steps->len;
    return (EchTraceStep *)(void *)g_array_steal(steps, NULL);
}

char *ech_trace_main_program(const EchTrace *trace)
{
    g_autoptr(GPtrArray) kinds = kinds_of(trace);
    const Kind *main = NULL;
    for (guint i = 0; i < kinds->len; i++) {
        const Kind *kind = kinds->pdata[i];
        if (kind->by == BY_PROGRAM && (!main || kind->time > main->time))
            main = kind;
    }
    return main ? g_strndup(main->stem, strcspn(main->stem, "(")) : NULL;
}

/* A part in the making. */
typedef struct {
    const EchTrace *trace;
    EchTraceBuilder *b;
    EchId begin, end;
    bool *there; /* by buffer that is no alias: alive at the begin */
    bool *used;  /* likewise: that, or allocated in the part */
} Part;

static bool cuts_no_loop(const Part *p, GError **error)
{
    const EchOp *ops = ech_trace_ops(p->trace);
    for (size_t i = 0; i < p->end; i++) {
        if (ops[i].kind != ECH_OP_LOOP)
            continue;
        size_t last = i + ops[i].target; /* of its body */
        if ((i < p->begin && last >= p->begin) || last >= p->end) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "a part of a trace cannot begin or end within a loop ('%s')",
                        ech_trace_string(p->trace, ops[i].name));
            return false;
        }
        i = last;
    }
    return true;
}

static void find_buffers(Part *p)
{
    const EchOp *ops = ech_trace_ops(p->trace);
    for (size_t i = 0; i < ech_trace_n_buffers(p->trace); i++)
        p->there[i] = ech_trace_buffers(p->trace)[i].resident;
    for (size_t i = 0; i < p->begin; i++) {
        if (ops[i].kind == ECH_OP_ALLOC || ops[i].kind == ECH_OP_FREE)
            p->there[ops[i].target] = ops[i].kind == ECH_OP_ALLOC;
    }
    memcpy(p->used, p->there, ech_trace_n_buffers(p->trace) * sizeof *p->used);
    for (size_t i = p->begin; i < p->end; i++) {
        if (ops[i].kind == ECH_OP_ALLOC)
            p->used[ops[i].target] = true;
    }
}

/* Whether a WAIT has something to wait for that is left; @signals: events of the part so far. */
static bool still_waits(const Part *p, const EchOp *op, GHashTable *signals)
{
    bool waits = op->launch != ECH_NONE || (op->target == ECH_NONE && op->n_deps == 0); /* the former: for other hosts */
    if (op->target != ECH_NONE)
        waits |= g_hash_table_contains(signals, GUINT_TO_POINTER(op->target));
    for (uint32_t d = op->first_dep; d < op->first_dep + op->n_deps && !waits; d++)
        waits = ech_trace_deps(p->trace)[d].op >= p->begin;
    return waits;
}

static void copy_tables(const Part *p)
{
    for (size_t i = 0; i < ech_trace_n_strings(p->trace); i++) {
        EchId id = ech_trace_builder_string(p->b, ech_trace_string(p->trace, (EchId)i), -1);
        g_assert(id == i);
    }
    for (size_t i = 0; i < ech_trace_n_memories(p->trace); i++)
        (void)ech_trace_builder_memory(p->b, ech_trace_memory(p->trace, (EchId)i));
    for (size_t i = 0; i < ech_trace_n_queues(p->trace); i++) {
        const EchQueue *queue = &ech_trace_queues(p->trace)[i];
        (void)ech_trace_builder_queue(p->b, ech_trace_string(p->trace, queue->name), (EchQueueKind)queue->kind, queue->device);
    }
    const char *key, *value;
    for (size_t i = 0; (key = ech_trace_property(p->trace, i, &value)); i++)
        ech_trace_builder_set_property(p->b, key, value);
}

static void copy_buffers(const Part *p)
{
    const EchBuffer *buffers = ech_trace_buffers(p->trace);
    for (size_t i = 0; i < ech_trace_n_buffers(p->trace); i++) {
        EchBuffer buffer = buffers[i];
        EchId root = ech_buffer_root(buffers, (EchId)i, NULL);
        buffer.resident = p->there[root];
        buffer.loop = buffer.loop >= p->begin && buffer.loop < p->end ? buffer.loop - p->begin : ECH_NONE;
        if (!p->used[root]) {
            buffer.bytes = buffer.rounded = buffer.dense = buffer.alias_offset = 0;
            buffer.offset = ECH_OFFSET_NONE;
        }
        ech_trace_builder_buffer(p->b, buffer);
    }
}

static void copy_ops(const Part *p)
{
    g_autoptr(GHashTable) signals = g_hash_table_new(NULL, NULL);
    for (EchId i = p->begin; i < p->end; i++) {
        EchOp op = ech_trace_ops(p->trace)[i];
        if (op.kind == ECH_OP_SIGNAL)
            g_hash_table_add(signals, GUINT_TO_POINTER(op.target));
        bool waits = op.kind == ECH_OP_WAIT;
        if (waits && !still_waits(p, &op, signals))
            op.kind = ECH_OP_MARK; /* so that loops stay as long as they are */
        if (waits && (op.kind == ECH_OP_MARK || !g_hash_table_contains(signals, GUINT_TO_POINTER(op.target))))
            op.target = ECH_NONE;
        ech_trace_builder_op(p->b, op);
        for (uint32_t u = op.first_use; u < op.first_use + op.n_uses; u++) {
            const EchUse *use = &ech_trace_uses(p->trace)[u];
            ech_trace_builder_use(p->b, use->buffer, (EchAccess)use->access, use->bytes, (EchPattern)use->pattern, (EchOrigin)use->origin);
        }
        for (uint32_t w = op.first_work; w < op.first_work + op.n_work; w++) {
            const EchWork *work = &ech_trace_work(p->trace)[w];
            ech_trace_builder_work(p->b, (EchWorkUnit)work->unit, (EchDtype)work->dtype, work->count, (EchOrigin)work->origin);
        }
        for (uint32_t d = op.first_dep; d < op.first_dep + op.n_deps; d++) {
            const EchDep *dep = &ech_trace_deps(p->trace)[d];
            if (dep->op >= p->begin)
                ech_trace_builder_dep(p->b, dep->op - p->begin, dep->distance);
        }
    }
}

EchTrace *ech_trace_part(const EchTrace *trace, EchId begin, EchId end, GError **error)
{
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new(ech_trace_format(trace));
    size_t n_buffers = ech_trace_n_buffers(trace);
    g_autofree bool *there = g_new0(bool, n_buffers + 1), *used = g_new0(bool, n_buffers + 1);
    Part p = {trace, builder, begin, end, there, used};
    if (!cuts_no_loop(&p, error))
        return NULL;
    find_buffers(&p);
    copy_tables(&p);
    copy_buffers(&p);
    copy_ops(&p);
    return ech_trace_builder_finish(builder, error);
}
