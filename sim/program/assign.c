/* Buffer assignment as XLA makes it, from the program alone. GPU: buffers by size, temporaries into donated and live-out allocations, the rest into
 * the smaller of a spatial and a temporal best-fit heap. TPU: a fast-merge heap for HBM, falling back to the GPU's way where it does not fit.
 * Sources: XLA's BufferAssigner and HeapSimulator; libtpu 0.0.51's assignments. */
#include "sim/program/private.h"

#include "models/place/xheap.h"
#include "sim/base/compare.h"
#include "sim/base/error.h"

#include <string.h>

enum { GPU_ALIGNMENT = 256, TPU_HBM_ALIGNMENT = 16384, TPU_FLAGS_ALIGNMENT = 4, TPU_SCALAR_ALIGNMENT = 512, TPU_VMEM_ALIGNMENT = 4096 };

/* A value that lies in an allocation, when it begins, and when the last of it and of those that began before it ends. */
typedef struct {
    EchId value;
    int64_t start, reach;
} Lodger;

/* An allocation while it is filled. */
typedef struct {
    EchAllocation base;
    GArray *assigned; /* EchAssigned */
    bool open;        /* takes more buffers */
    GArray *lodgers;  /* Lodger, by their starts; of an open one, else NULL */
} Draft;

typedef struct {
    const EchProgram *p;
    GArray *drafts;   /* Draft */
    uint8_t *waiting; /* per buffer: goes into a heap */
    uint8_t *context; /* per buffer: state of a SparseCore computation in HBM */
    bool any_context;
    uint32_t *n_users;     /* per instruction */
    uint32_t *last_holder; /* per value: index of its last holder by position */
    struct EchHeapFigures *figures;
    size_t n_figures;
    EchBytes largest; /* running sum in any one heap */
} Assigner;

typedef struct {
    EchId buffer;
    uint8_t largest_first, live_out;
    int64_t rank;
    EchBytes bytes;
} Order;

static int compare_order(gconstpointer a, gconstpointer b)
{
    const Order *x = a, *y = b;
    if (x->largest_first && x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->live_out != y->live_out)
        return x->live_out ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return (x->buffer > y->buffer) - (x->buffer < y->buffer);
}

static guint new_draft(Assigner *a, const EchValueBuffer *buffer)
{
    Draft draft = {.base = {.bytes = buffer->bytes, .space = buffer->space, .parameter = -1}, .assigned = g_array_new(FALSE, FALSE, sizeof(EchAssigned))};
    g_array_append_val(a->drafts, draft);
    return a->drafts->len - 1;
}

static Draft *draft_at(Assigner *a, guint k)
{
    return &g_array_index(a->drafts, Draft, k);
}

static void put_value(Draft *draft, const EchProgram *p, EchId value, EchBytes offset)
{
    EchAssigned assigned = {value, offset, p->values[value].bytes};
    g_array_append_val(draft->assigned, assigned);
}

static void put_buffer(Assigner *a, guint draft, EchId b)
{
    const EchValueBuffer *buffer = &a->p->buffers[b];
    for (uint32_t k = 0; k < buffer->n_values; k++)
        put_value(draft_at(a, draft), a->p, a->p->buffer_values[buffer->first_value + k], 0);
}

/* Where a value's life ends at the position of its last holder, a user there may take its place. */
static bool takes_over(const Assigner *a, const EchValue *next, const EchValue *before)
{
    if (next->start != before->end)
        return false;
    const EchPosition *holder = &a->p->holders[before->first_holder + a->last_holder[before - a->p->values]];
    if (holder->position != 0)
        return false;
    return ech_program_may_share(a->p, next->defined.instruction, next->defined.position, holder->instruction, a->n_users);
}

static bool interfere(const Assigner *a, const EchValue *x, const EchValue *y)
{
    if (x->start < 0 || y->start < 0 || x->start > y->end || y->start > x->end)
        return false;
    return !takes_over(a, x, y) && !takes_over(a, y, x);
}

/* How many of those that lie in @draft have begun by @time. */
static guint begun_by(const Draft *draft, int64_t time)
{
    guint low = 0, high = draft->lodgers->len;
    ECH_SEARCH(low, high, middle, g_array_index(draft->lodgers, Lodger, middle).start <= time);
    return low;
}

/* Lets @buffer's values lie in @draft. */
static void lodge(const EchProgram *p, Draft *draft, const EchValueBuffer *buffer)
{
    for (uint32_t k = 0; k < buffer->n_values; k++) {
        EchId id = p->buffer_values[buffer->first_value + k];
        const EchValue *value = &p->values[id];
        Lodger lodger = {.value = id, .start = value->start};
        if (value->start < 0)
            continue;
        guint at = begun_by(draft, value->start);
        g_array_insert_val(draft->lodgers, at, lodger);
        for (guint i = at; i < draft->lodgers->len; i++) {
            Lodger *one = &g_array_index(draft->lodgers, Lodger, i);
            int64_t reach = MAX(p->values[one->value].end, i > 0 ? g_array_index(draft->lodgers, Lodger, i - 1).reach : INT64_MIN);
            if (i > at && one->reach == reach)
                break; /* so are those behind it */
            one->reach = reach;
        }
    }
}

/* Contexts that take memory are compared by what their starts define alone: the next one begins when its predecessor is handed to the update. */
static bool are_compared(const Assigner *a, EchId x, EchId y)
{
    const EchProgram *p = a->p;
    const EchValueBuffer *of_x = &p->buffers[p->values[x].buffer], *of_y = &p->buffers[p->values[y].buffer];
    bool both = a->context[p->values[x].buffer] && a->context[p->values[y].buffer] && of_x->bytes > 0 && of_y->bytes > 0;
    return !both || (p->buffer_values[of_x->first_value] == x && p->buffer_values[of_y->first_value] == y);
}

static bool fits(const Assigner *a, const EchValueBuffer *buffer, const Draft *draft)
{
    if (!draft->open || draft->base.space != buffer->space || buffer->bytes > draft->base.bytes ||
        (buffer->live_out && (draft->base.is_temp || buffer->bytes != draft->base.bytes)))
        return false;
    for (uint32_t k = 0; k < buffer->n_values; k++) {
        EchId id = a->p->buffer_values[buffer->first_value + k];
        const EchValue *value = &a->p->values[id];
        /* Only who has begun before its end, and not ended before its start, is there with it. */
        for (guint j = begun_by(draft, value->end); j-- > 0 && g_array_index(draft->lodgers, Lodger, j).reach >= value->start;) {
            EchId there = g_array_index(draft->lodgers, Lodger, j).value;
            if (are_compared(a, id, there) && interfere(a, value, &a->p->values[there]))
                return false;
        }
    }
    return true;
}

static int64_t parameter_number(const EchProgram *p, const EchValueBuffer *buffer)
{
    for (uint32_t k = 0; k < buffer->n_values; k++) {
        const EchInstruction *i = &p->instructions[p->values[p->buffer_values[buffer->first_value + k]].defined.instruction];
        if (i->opcode == ECH_HLO_PARAMETER && i->computation == p->entry)
            return i->number;
    }
    return -1;
}

/* What a SparseCore computation that is started without operands keeps in HBM while it runs. */
static bool is_context(const EchProgram *p, const EchValueBuffer *buffer)
{
    for (uint32_t k = 0; k < buffer->n_values && buffer->space == ECH_SPACE_HBM && !buffer->is_tuple && !buffer->live_out; k++) {
        const EchValue *value = &p->values[p->buffer_values[buffer->first_value + k]];
        const EchInstruction *i = &p->instructions[value->defined.instruction];
        if (p->platform == ECH_PLATFORM_TPU && i->opcode == ECH_HLO_ASYNC_START && i->n_operands == 0 && p->shapes[i->shape].n_elements > 2 &&
            value->defined.position > ech_program_member_position(p, i->shape, 2))
            return true;
    }
    return false;
}

/* Of so many drafts in a row: when the last of their first lodgers begins, and when the first of those ends. Who is there in between has no place in any. */
enum { GROUP = 64 };
typedef struct {
    int64_t begun, ended;
} Group;

static bool is_taken(const EchProgram *p, const Group *group, const EchValueBuffer *buffer)
{
    for (uint32_t k = 0; k < buffer->n_values; k++) {
        const EchValue *value = &p->values[p->buffer_values[buffer->first_value + k]];
        if (value->start >= 0 && value->start < group->ended && value->end > group->begun)
            return true;
    }
    return false;
}

/* Draft @k is new, or has a new lodger. */
static void regroup(Assigner *a, GArray *groups, guint k)
{
    g_array_set_size(groups, MAX(groups->len, k / GROUP + 1));
    Group *group = &g_array_index(groups, Group, k / GROUP);
    *group = (Group){.begun = INT64_MIN, .ended = INT64_MAX};
    for (guint i = k / GROUP * GROUP; i < MIN(k / GROUP * GROUP + GROUP, a->drafts->len); i++) {
        const Draft *draft = draft_at(a, i);
        if (!draft->open)
            continue;
        const Lodger *first = draft->lodgers->len > 0 ? &g_array_index(draft->lodgers, Lodger, 0) : NULL;
        group->begun = first ? MAX(group->begun, first->start) : INT64_MAX;
        group->ended = first ? MIN(group->ended, a->p->values[first->value].end) : INT64_MIN;
        if (!first)
            break;
    }
}

/* @reuse: temporaries may lie in donated and live-out allocations, the smallest that holds them, which was made last. In a context's they may always, the first
 * that holds them. */
static void place(Assigner *a, EchId b, bool reuse, GArray *groups)
{
    const EchValueBuffer *buffer = &a->p->buffers[b];
    bool own = buffer->is_constant || buffer->is_parameter || buffer->is_tuple;
    a->context[b] = !own && is_context(a->p, buffer);
    const guint n = a->drafts->len;
    for (guint tried = 0; !own && (reuse || a->any_context) && tried < n; tried++) {
        guint k = reuse ? n - 1 - tried : tried;
        bool first = tried == 0 || k % GROUP == (reuse ? GROUP - 1 : 0);
        if (first && is_taken(a->p, &g_array_index(groups, Group, k / GROUP), buffer)) {
            tried += reuse ? k % GROUP : GROUP - 1;
            continue;
        }
        if (!fits(a, buffer, draft_at(a, k)))
            continue;
        put_buffer(a, k, b);
        lodge(a->p, draft_at(a, k), buffer);
        regroup(a, groups, k);
        draft_at(a, k)->base.is_live_out |= buffer->live_out;
        return;
    }
    if (!own && !buffer->live_out && !a->context[b]) {
        a->waiting[b] = 1;
        return;
    }
    a->any_context |= a->context[b];
    guint k = new_draft(a, buffer);
    put_buffer(a, k, b);
    Draft *draft = draft_at(a, k);
    draft->base.is_constant = buffer->is_constant;
    draft->base.is_parameter = buffer->is_parameter;
    draft->base.is_live_out = buffer->live_out;
    draft->base.is_tuple = buffer->is_tuple;
    if (buffer->is_parameter)
        draft->base.parameter = parameter_number(a->p, buffer);
    /* A context, or a tuple's table that is neither handed in nor out, is a temporary of its own. */
    draft->base.is_temp = a->context[b] || (buffer->is_tuple && !buffer->is_parameter && !buffer->live_out && !buffer->is_constant);
    draft->open = (a->context[b] && buffer->bytes > 0) || (reuse && !buffer->is_tuple && !buffer->is_constant && (buffer->live_out || !buffer->is_parameter));
    if (draft->open) {
        draft->lodgers = g_array_new(FALSE, FALSE, sizeof(Lodger));
        lodge(a->p, draft, buffer);
    }
    regroup(a, groups, k);
}

/* Where nothing lies in donated and live-out allocations, in the order of the schedule; else the largest first. */
static void place_all(Assigner *a, bool reuse)
{
    const EchProgram *p = a->p;
    g_autofree uint32_t *rank = ech_program_post_order(p, false);
    g_autoptr(GArray) order = g_array_new(FALSE, FALSE, sizeof(Order));
    for (EchId b = 0; b < p->n_buffers; b++) {
        const EchValueBuffer *buffer = &p->buffers[b];
        if (!buffer->in_flat)
            continue;
        Order entry = {b, reuse, reuse && buffer->live_out, INT64_MAX, buffer->bytes};
        for (uint32_t k = 0; k < buffer->n_values; k++) {
            const EchValue *value = &p->values[p->buffer_values[buffer->first_value + k]];
            entry.rank = MIN(entry.rank, reuse ? (int64_t)rank[value->defined.instruction] : value->start);
        }
        g_array_append_val(order, entry);
    }
    g_array_sort(order, compare_order);
    g_autoptr(GArray) groups = g_array_new(FALSE, FALSE, sizeof(Group));
    for (guint k = 0; k < order->len; k++)
        place(a, g_array_index(order, Order, k).buffer, reuse, groups);
}

/* Heaps */

typedef struct {
    GArray *events; /* EchXheapEvent, in terms of heap indices */
    GArray *values; /* EchId per heap index */
    GArray *sizes;  /* EchBytes */
    GArray *ids;    /* uint64_t */
    GArray *within; /* EchBytes per heap index: offset in the place it shares with other slices */
    EchBytes peak;
} Heap;

typedef struct {
    const EchProgram *p;
    uint8_t *ended;    /* per value: freed early, its place was taken over */
    uint32_t *index;   /* per value: heap index, or ECH_NONE */
    EchId *first_of;   /* per buffer: first value alive, or ECH_NONE */
    uint32_t *alive;   /* per buffer */
    uint32_t *joined;  /* per value: number of the array that it is or becomes a part of, or 0 */
    EchId *first_part; /* per such array: a value that has its place, or ECH_NONE */
    EchBytes live;
} Simulation;

static int compare_end(gconstpointer a, gconstpointer b, gpointer data)
{
    const EchProgram *p = data;
    const EchValue *x = &p->values[*(const EchId *)a], *y = &p->values[*(const EchId *)b];
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return ech_program_compare_ranges(a, b, data);
}

/* Whether memory-space assignment fills it. */
static bool is_preset(const EchProgram *p, int32_t space)
{
    return p->platform == ECH_PLATFORM_TPU && (space == ECH_SPACE_VECTOR || space == ECH_SPACE_COMMON);
}

/* The operand whose place @value may take at its own definition, or ECH_NONE. */
static EchId place_to_take(const Assigner *a, const Simulation *s, EchId v)
{
    const EchProgram *p = a->p;
    const EchValue *value = &p->values[v];
    const EchInstruction *user = &p->instructions[value->defined.instruction];
    if (p->buffers[value->buffer].n_values != 1)
        return ECH_NONE;
    for (uint32_t k = 0; k < user->n_operands; k++) {
        EchId operand = ech_program_operand(p, user, k);
        EchId o = ech_program_value(p, operand, 0);
        if (o == ECH_NONE || s->index[o] == ECH_NONE || s->ended[o] || p->buffers[p->values[o].buffer].n_values != 1 || p->values[o].end != value->start)
            continue;
        /* What memory-space assignment fetched counts as its own operand there. */
        if ((p->values[o].defined.instruction != operand || p->values[o].defined.position != 0) && !is_preset(p, p->buffers[value->buffer].space))
            continue;
        if (ech_program_may_share(p, value->defined.instruction, value->defined.position, operand, a->n_users))
            return o;
    }
    return ECH_NONE;
}

static void add_event(Heap *heap, EchXheapEventKind kind, uint32_t buffer, uint32_t with)
{
    EchXheapEvent event = {.kind = kind, .buffer = buffer, .with = with};
    g_array_append_val(heap->events, event);
}

static void count(Simulation *s, Heap *heap, EchId buffer, bool born)
{
    EchBytes bytes = s->p->buffers[buffer].bytes;
    if (born && s->alive[buffer]++ == 0)
        s->live = ech_bytes_add(s->live, bytes);
    else if (!born && --s->alive[buffer] == 0)
        s->live -= bytes;
    heap->peak = MAX(heap->peak, s->live);
}

static void define(Assigner *a, Simulation *s, Heap *heap, EchId v)
{
    const EchValue *value = &a->p->values[v];
    uint32_t index = s->index[v];
    EchId with = s->first_of[value->buffer], *part = s->joined[v] ? &s->first_part[s->joined[v]] : NULL;
    if (part && *part == ECH_NONE)
        *part = v;
    else if (part && with == ECH_NONE)
        with = *part;
    if (with != ECH_NONE) {
        if (s->first_of[value->buffer] == ECH_NONE)
            s->first_of[value->buffer] = v;
        add_event(heap, ECH_XHEAP_SHARE, index, s->index[with]);
        count(s, heap, value->buffer, true);
        return;
    }
    EchId taken = place_to_take(a, s, v);
    if (taken != ECH_NONE) {
        add_event(heap, ECH_XHEAP_RELEASE, s->index[taken], 0);
        s->ended[taken] = 1;
        count(s, heap, a->p->values[taken].buffer, false);
        add_event(heap, ECH_XHEAP_SHARE, index, s->index[taken]);
    } else
        add_event(heap, ECH_XHEAP_ALLOC, index, 0);
    s->first_of[value->buffer] = v;
    count(s, heap, value->buffer, true);
}

static void heap_clear(Heap *heap)
{
    g_clear_pointer(&heap->events, g_array_unref);
    g_clear_pointer(&heap->values, g_array_unref);
    g_clear_pointer(&heap->sizes, g_array_unref);
    g_clear_pointer(&heap->ids, g_array_unref);
    g_clear_pointer(&heap->within, g_array_unref);
}

/* Arrays fetched into the on-chip memory in slices lie side by side and become one array without a move: they are one place. Returns how many there are. */
static uint32_t join_slices(const EchProgram *p, const uint32_t *index, Heap *heap, uint32_t *joined)
{
    uint32_t n = 0;
    for (size_t k = 0; k < p->n_instructions; k++) {
        const EchInstruction *i = &p->instructions[k];
        EchId whole = ech_program_joins_slices(i) ? ech_program_value(p, (EchId)k, 0) : ECH_NONE;
        if (whole == ECH_NONE || index[whole] == ECH_NONE || joined[whole] != 0)
            continue;
        EchBytes bytes = 0;
        joined[whole] = ++n;
        for (uint32_t o = 0; o < i->n_operands; o++) {
            EchId slice = ech_program_value(p, ech_program_operand(p, i, o), 0);
            if (slice == ECH_NONE || index[slice] == ECH_NONE || joined[slice] != 0)
                continue;
            joined[slice] = n;
            g_array_index(heap->within, EchBytes, index[slice]) = bytes;
            bytes = ech_bytes_add(bytes, p->values[slice].bytes);
        }
        bytes = MAX(bytes, p->buffers[p->values[whole].buffer].bytes);
        g_array_index(heap->sizes, EchBytes, index[whole]) = bytes;
        for (uint32_t o = 0; o < i->n_operands; o++) {
            EchId slice = ech_program_value(p, ech_program_operand(p, i, o), 0);
            if (slice != ECH_NONE && joined[slice] == n)
                g_array_index(heap->sizes, EchBytes, index[slice]) = bytes;
        }
    }
    return n;
}

/* Events of the waiting buffers of one space, in the compiler's order. */
static Heap simulate(Assigner *a, int32_t space)
{
    const EchProgram *p = a->p;
    Heap heap = {g_array_new(FALSE, FALSE, sizeof(EchXheapEvent)), g_array_new(FALSE, FALSE, sizeof(EchId)),   g_array_new(FALSE, FALSE, sizeof(EchBytes)),
                 g_array_new(FALSE, FALSE, sizeof(uint64_t)),      g_array_new(FALSE, TRUE, sizeof(EchBytes)), 0};
    for (EchId v = 0; v < p->n_values; v++) {
        if (p->values[v].start >= 0 && a->waiting[p->values[v].buffer] && p->buffers[p->values[v].buffer].space == space)
            g_array_append_val(heap.values, v);
    }
    g_array_sort_with_data(heap.values, ech_program_compare_ranges, (gpointer)(uintptr_t)p);
    g_autofree EchId *ends = g_memdup2(heap.values->data, (size_t)heap.values->len * sizeof(EchId));
    if (heap.values->len > 0)
        g_qsort_with_data(ends, (int)heap.values->len, sizeof *ends, compare_end, (gpointer)(uintptr_t)p);
    g_autofree uint8_t *ended = g_new0(uint8_t, p->n_values + 1);
    g_autofree uint32_t *index = g_new(uint32_t, p->n_values + 1), *alive = g_new0(uint32_t, p->n_buffers + 1);
    g_autofree EchId *first_of = g_new(EchId, p->n_buffers + 1);
    for (size_t v = 0; v < p->n_values; v++)
        index[v] = ECH_NONE;
    for (size_t b = 0; b < p->n_buffers; b++)
        first_of[b] = ECH_NONE;
    for (guint k = 0; k < heap.values->len; k++) {
        EchId v = g_array_index(heap.values, EchId, k);
        uint64_t id = p->values[v].order;
        index[v] = k;
        g_array_append_val(heap.sizes, p->buffers[p->values[v].buffer].bytes);
        g_array_append_val(heap.ids, id);
    }
    g_array_set_size(heap.within, heap.values->len);
    g_autofree uint32_t *joined = g_new0(uint32_t, p->n_values + 1);
    uint32_t n_joined = is_preset(p, space) ? join_slices(p, index, &heap, joined) : 0;
    g_autofree EchId *first_part = g_new(EchId, (size_t)n_joined + 1);
    for (uint32_t k = 0; k <= n_joined; k++)
        first_part[k] = ECH_NONE;
    Simulation s = {p, ended, index, first_of, alive, joined, first_part, 0};
    guint next = 0;
    for (guint k = 0; k < heap.values->len || next < heap.values->len;) {
        int64_t step = p->values[ends[next]].end;
        if (k < heap.values->len)
            step = MIN(step, p->values[g_array_index(heap.values, EchId, k)].start);
        for (; k < heap.values->len && p->values[g_array_index(heap.values, EchId, k)].start == step; k++)
            define(a, &s, &heap, g_array_index(heap.values, EchId, k));
        for (; next < heap.values->len && p->values[ends[next]].end == step; next++) {
            if (ended[ends[next]])
                continue;
            add_event(&heap, ECH_XHEAP_RELEASE, index[ends[next]], 0);
            count(&s, &heap, p->values[ends[next]].buffer, false);
        }
    }
    return heap;
}

/* A value comes or goes in the memory that memory-space assignment filled. */
typedef struct {
    int64_t at;
    uint8_t order; /* at one moment: what goes on in another's place goes before that comes, all else after what comes */
    bool goes;
    EchId value;
} Passing;

static int compare_passing(gconstpointer a, gconstpointer b)
{
    const Passing *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    if (x->order != y->order)
        return x->order < y->order ? -1 : 1;
    return (x->value > y->value) - (x->value < y->value);
}

/* The last instruction that uses @value, of those in @computation (ECH_NONE: all); ECH_NONE. */
static EchId last_user(const EchProgram *p, const EchValue *value, EchId computation)
{
    EchId last = ECH_NONE;
    for (uint32_t k = 0; k < value->n_uses; k++) {
        EchId user = p->uses[value->first_use + k].user;
        const EchInstruction *i = &p->instructions[user];
        if (i->schedule != ECH_NONE && (computation == ECH_NONE || i->computation == computation) &&
            (last == ECH_NONE || i->schedule > p->instructions[last].schedule))
            last = user;
    }
    return last;
}

/* A place that a value goes on in around a loop, from that moment. */
typedef struct {
    EchId buffer;
    int64_t at;
} Heir;

static guint heir_hash(gconstpointer key)
{
    const Heir *h = key;
    return h->buffer * 2654435761u ^ (guint)h->at;
}

static gboolean heir_equal(gconstpointer x, gconstpointer y)
{
    const Heir *a = x, *b = y;
    return a->buffer == b->buffer && a->at == b->at;
}

/* All that a heap's values come and go by. */
typedef struct {
    const EchProgram *p;
    GHashTable *heirs; /* Heir, owned: loops' values by where they begin */
    GArray *passings;  /* Passing */
} Stays;

static void add_stay(const Stays *s, EchId v, int64_t begin, int64_t end, EchId user)
{
    Heir heir = {s->p->values[v].buffer, end};
    bool goes_on = g_hash_table_contains(s->heirs, &heir) ||
                   (user != ECH_NONE && s->p->instructions[user].schedule == end && ech_program_joins_slices(&s->p->instructions[user]));
    Passing comes = {begin, 1, false, v}, goes = {end, goes_on ? 0 : 2, true, v};
    g_array_append_val(s->passings, comes);
    g_array_append_val(s->passings, goes);
}

/* A value that a conditional uses last is there until the branches begin, and in each of them until its last use there, or @end where that comes before. */
static void add_branches(const Stays *s, EchId v, EchId conditional, int64_t begin, int64_t end, unsigned depth)
{
    enum { MAX_NESTED = 64 };
    const EchProgram *p = s->p;
    const EchInstruction *i = &p->instructions[conditional];
    int64_t earliest = end;
    for (uint32_t k = 0; k < i->n_called; k++) {
        EchId called = ech_program_called(p, i, k), last = last_user(p, &p->values[v], called);
        int64_t from = p->computations[called].begin;
        earliest = MIN(earliest, from);
        if (last == ECH_NONE)
            continue;
        int64_t until = MIN((int64_t)p->instructions[last].schedule, end);
        if (p->instructions[last].opcode == ECH_HLO_CONDITIONAL && depth < MAX_NESTED)
            add_branches(s, v, last, from, until, depth + 1);
        else
            add_stay(s, v, from, until, last);
    }
    add_stay(s, v, begin, earliest - 1, ECH_NONE);
}

/* Most bytes at once, as the compiler has it: what goes twice at one moment goes once; what comes is there once, however often it came, and may have gone
 * before it comes (a branch's stay ends where another value of its place begins, even if that was in a branch before). */
static EchBytes most_at_once(const EchProgram *p, GArray *passings)
{
    g_autofree int8_t *there = g_new0(int8_t, p->n_values + 1);
    int64_t sum = 0, peak = 0;
    g_array_sort(passings, compare_passing);
    for (guint k = 0; k < passings->len; k++) {
        const Passing *passing = &g_array_index(passings, Passing, k);
        int8_t *now = &there[passing->value];
        if ((k > 0 && compare_passing(passing, passing - 1) == 0) || *now == (passing->goes ? -1 : 1))
            continue;
        int64_t bytes = (int64_t)MIN(p->values[passing->value].bytes, INT64_MAX / 4);
        *now = (int8_t)(*now + (passing->goes ? -1 : 1));
        sum = MIN(passing->goes ? sum - bytes : sum + bytes, INT64_MAX / 4);
        peak = MAX(peak, sum);
    }
    return (EchBytes)peak;
}

/* The memory that memory-space assignment filled: every value counts over its own range, the new one before the old one ends, but for a value that goes on
 * around a loop and for slices that become one array. By XLA's MemorySpaceAssignment::VerifyAndExportHeapSimulatorTrace. */
static EchBytes preset_peak(const Assigner *a, const Heap *heap)
{
    const EchProgram *p = a->p;
    g_autoptr(GArray) passings = g_array_new(FALSE, FALSE, sizeof(Passing));
    g_autoptr(GHashTable) heirs = g_hash_table_new_full(heir_hash, heir_equal, g_free, NULL);
    Stays s = {p, heirs, passings};
    for (guint k = 0; k < heap->values->len; k++) {
        const EchValue *value = &p->values[g_array_index(heap->values, EchId, k)];
        Heir heir = {value->buffer, value->start};
        if (value->is_phi)
            g_hash_table_add(heirs, g_memdup2(&heir, sizeof heir));
    }
    for (guint k = 0; k < heap->values->len; k++) {
        EchId v = g_array_index(heap->values, EchId, k), last = last_user(p, &p->values[v], ECH_NONE);
        const EchValue *value = &p->values[v];
        if (value->start == value->end) /* a result that nothing reads */
            continue;
        if (last != ECH_NONE && p->instructions[last].opcode == ECH_HLO_CONDITIONAL && value->natural_end == (int64_t)p->instructions[last].schedule)
            add_branches(&s, v, last, value->start, value->end, 0);
        else
            add_stay(&s, v, value->start, MIN(value->end, MAX(value->natural_end, value->start)), last);
    }
    return most_at_once(p, passings);
}

/* How a TPU's compiler fills HBM. */
typedef struct {
    bool reuse; /* temporaries lie in results and donated arguments, too, as on a GPU */
    bool best;  /* the smaller of the two best fits; else one pass by start */
} Filling;

/* A module does not name its compiler, but what it tells of kernels' windows came with releases: how often they are buffered with libtpu 0.0.45, what they take
 * of VMEM with 0.0.38. Compiled with and found: best fits until 0.0.38 (from 0.0.17), one pass since 0.0.41, results left alone since 0.0.46. So 0.0.38 and
 * 0.0.45 are taken for what came next. A module without windows is taken as today's. */
static Filling filling_of(const EchProgram *p)
{
    bool windows = false, taken = false;
    for (size_t k = 0; k < p->n_instructions; k++) {
        size_t n, m;
        const char *config = ech_program_config(&p->instructions[k], "window_config", &n);
        if (!config)
            continue;
        if (ech_program_config_member(config, n, "buffering_level", &m))
            return (Filling){false, false};
        windows = true;
        taken = taken || ech_program_config_member(config, n, "estimated_scoped_vmem_bytes", &m) != NULL;
    }
    return (Filling){windows, windows && !taken};
}

static void heap_rules(const EchProgram *p, int32_t space, bool best, EchXheapAlgorithm *ret_algorithm, EchBytes *ret_alignment)
{
    *ret_algorithm = ECH_XHEAP_BEST;
    *ret_alignment = GPU_ALIGNMENT;
    if (p->platform != ECH_PLATFORM_TPU)
        return;
    switch (space) {
    case ECH_SPACE_HBM:
        *ret_algorithm = best ? ECH_XHEAP_BEST : ECH_XHEAP_FAST_MERGE;
        *ret_alignment = TPU_HBM_ALIGNMENT;
        break;
    case ECH_SPACE_VECTOR:
    case ECH_SPACE_COMMON: *ret_alignment = TPU_VMEM_ALIGNMENT; break;
    case ECH_SPACE_FLAGS: *ret_alignment = TPU_FLAGS_ALIGNMENT; break;
    case ECH_SPACE_SCALAR:
        *ret_algorithm = ECH_XHEAP_FAST_MERGE;
        *ret_alignment = TPU_SCALAR_ALIGNMENT;
        break;
    case ECH_SPACE_HOST: *ret_alignment = TPU_HBM_ALIGNMENT; break; /* libtpu 0.0.51's own log: best fit */
    default: *ret_alignment = 4; break;
    }
}

static EchBytes alignment_of(const EchProgram *p, int32_t space)
{
    EchXheapAlgorithm algorithm;
    EchBytes alignment;
    heap_rules(p, space, false, &algorithm, &alignment);
    return alignment;
}

/* On chip: the arrays' places are the compiler's secret; ours let slices begin one by one. @offsets holds those of the heap on entry; returns the height. */
static EchBytes place_preset(const EchProgram *p, const Heap *heap, EchBytes alignment, EchBytes height, uint64_t *offsets)
{
    g_autofree EchBytes *bytes = g_new(EchBytes, (size_t)heap->values->len + 1);
    g_autofree uint64_t *staggered = g_new(uint64_t, (size_t)heap->values->len + 1);
    for (guint k = 0; k < heap->values->len; k++)
        bytes[k] = p->buffers[p->values[g_array_index(heap->values, EchId, k)].buffer].bytes;
    EchBytes lower = ech_xheap_run_staggered(alignment, (const EchXheapEvent *)(const void *)heap->events->data, heap->events->len, bytes,
                                             (const EchBytes *)(const void *)heap->within->data, heap->values->len, staggered);
    if (lower < height) {
        memcpy(offsets, staggered, heap->values->len * sizeof *offsets);
        return lower;
    }
    for (guint k = 0; k < heap->values->len; k++)
        if (offsets[k] != UINT64_MAX)
            offsets[k] = ech_bytes_add(offsets[k], g_array_index(heap->within, EchBytes, k));
    return height;
}

/* One heap of all waiting buffers of a space, as a draft; nothing where none waits. */
static void run_heap(Assigner *a, int32_t space, bool best)
{
    const EchProgram *p = a->p;
    Heap heap = simulate(a, space);
    if (heap.values->len > 0) {
        EchXheapAlgorithm algorithm;
        EchBytes alignment;
        heap_rules(p, space, best, &algorithm, &alignment);
        g_autofree uint64_t *offsets = g_new0(uint64_t, heap.values->len);
        EchBytes size =
            ech_xheap_run(algorithm, alignment, (const EchXheapEvent *)(const void *)heap.events->data, heap.events->len,
                          (const EchBytes *)(const void *)heap.sizes->data, (const uint64_t *)(const void *)heap.ids->data, heap.values->len, offsets);
        if (is_preset(p, space))
            size = place_preset(p, &heap, alignment, size, offsets);
        EchValueBuffer shape = {.bytes = size, .space = space};
        guint k = new_draft(a, &shape);
        draft_at(a, k)->base.is_temp = 1;
        for (guint v = 0; v < heap.values->len; v++)
            put_value(draft_at(a, k), p, g_array_index(heap.values, EchId, v), offsets[v] == UINT64_MAX ? 0 : offsets[v]);
        EchBytes peak = is_preset(p, space) ? preset_peak(a, &heap) : heap.peak;
        a->figures = g_renew(struct EchHeapFigures, a->figures, a->n_figures + 1);
        a->figures[a->n_figures++] = (struct EchHeapFigures){space, size, peak};
        a->largest = MAX(a->largest, peak);
    }
    heap_clear(&heap);
}

static int compare_space(gconstpointer a, gconstpointer b)
{
    return (*(const int32_t *)a > *(const int32_t *)b) - (*(const int32_t *)a < *(const int32_t *)b);
}

static void run_heaps(Assigner *a, bool best)
{
    g_autoptr(GArray) spaces = g_array_new(FALSE, FALSE, sizeof(int32_t));
    bool seen[256] = {false};
    for (size_t b = 0; b < a->p->n_buffers; b++) {
        int32_t space = a->p->buffers[b].space;
        if (!a->waiting[b] || space < 0)
            continue;
        if (space < 256) {
            if (seen[space])
                continue;
            seen[space] = true;
        }
        bool known = false;
        for (guint k = 0; space >= 256 && k < spaces->len; k++)
            known |= g_array_index(spaces, int32_t, k) == space;
        if (!known && (space < 256 || spaces->len < 512))
            g_array_append_val(spaces, space);
    }
    g_array_sort(spaces, compare_space);
    for (guint k = 0; k < spaces->len; k++)
        run_heap(a, g_array_index(spaces, int32_t, k), best);
}

/* Values of reducers and comparators: scratch of a thread, each by itself; constants in them are constants of the module. */
static void place_thread_local(Assigner *a)
{
    for (EchId b = 0; b < a->p->n_buffers; b++) {
        const EchValueBuffer *buffer = &a->p->buffers[b];
        if (buffer->in_flat)
            continue;
        guint k = new_draft(a, buffer);
        put_buffer(a, k, b);
        draft_at(a, k)->base.is_constant = buffer->is_constant;
        draft_at(a, k)->base.is_thread_local = !buffer->is_constant;
    }
}

/* Temporaries to the back, as an unstable partition leaves them, then all of a space joined into one. */
static void combine_temporaries(Assigner *a)
{
    guint first = 0, last = a->drafts->len;
    while (true) {
        while (first < last && !draft_at(a, first)->base.is_temp)
            first++;
        do {
            if (first >= last)
                break;
            last--;
        } while (first < last && draft_at(a, last)->base.is_temp);
        if (first >= last)
            break;
        Draft swap = *draft_at(a, first);
        *draft_at(a, first) = *draft_at(a, last);
        *draft_at(a, last) = swap;
        first++;
    }
    guint kept = 0;
    for (guint k = 0; k < a->drafts->len; k++) {
        Draft draft = *draft_at(a, k);
        Draft *into = NULL;
        for (guint j = kept; draft.base.is_temp && j-- > 0 && draft_at(a, j)->base.is_temp;) {
            if (draft_at(a, j)->base.space == draft.base.space)
                into = draft_at(a, j);
        }
        if (!into) {
            *draft_at(a, kept++) = draft;
            continue;
        }
        EchBytes base = ech_round_up(into->base.bytes, alignment_of(a->p, draft.base.space));
        for (guint v = 0; v < draft.assigned->len; v++) {
            EchAssigned assigned = g_array_index(draft.assigned, EchAssigned, v);
            assigned.offset = ech_bytes_add(assigned.offset, base);
            g_array_append_val(into->assigned, assigned);
        }
        into->base.bytes = ech_bytes_add(base, draft.base.bytes);
        g_array_unref(draft.assigned);
        g_clear_pointer(&draft.lodgers, g_array_unref);
    }
    g_array_set_size(a->drafts, kept);
}

static EchBytes total_in_use(Assigner *a, int32_t space)
{
    EchBytes total = 0;
    for (guint k = 0; k < a->drafts->len; k++) {
        const EchAllocation *base = &draft_at(a, k)->base;
        if (base->space == space && !base->is_thread_local)
            total = ech_bytes_add(total, base->is_temp ? ech_round_up(base->bytes, TPU_HBM_ALIGNMENT) : base->bytes);
    }
    return total;
}

/* The first holder is where a value is defined. What is made asynchronously is so until the async-done, which is not later than that. */
static void find_last_holders(Assigner *a)
{
    const EchProgram *p = a->p;
    for (EchId v = 0; v < p->n_values; v++) {
        const EchValue *value = &p->values[v];
        int64_t latest = value->made;
        for (uint32_t k = 1; k < value->n_holders; k++) {
            const EchInstruction *i = &p->instructions[p->holders[value->first_holder + k].instruction];
            int64_t at = i->schedule == ECH_NONE ? -1 : i->is_root ? (int64_t)p->computations[i->computation].end : (int64_t)i->schedule;
            if (at > latest) {
                latest = at;
                a->last_holder[v] = k;
            }
        }
    }
}

static void clear_drafts(Assigner *a)
{
    for (guint k = 0; k < a->drafts->len; k++) {
        g_array_unref(draft_at(a, k)->assigned);
        g_clear_pointer(&draft_at(a, k)->lodgers, g_array_unref);
    }
    g_array_set_size(a->drafts, 0);
    g_clear_pointer(&a->figures, g_free);
    a->n_figures = 0;
    a->largest = 0;
    memset(a->waiting, 0, a->p->n_buffers + 1);
    memset(a->context, 0, a->p->n_buffers + 1);
    a->any_context = false;
}

static void attempt(Assigner *a, Filling filling)
{
    clear_drafts(a);
    place_all(a, filling.reuse);
    run_heaps(a, filling.best);
    place_thread_local(a);
    combine_temporaries(a);
}

static EchProgramAssignment *finish(Assigner *a)
{
    EchProgramAssignment *assignment = g_new0(EchProgramAssignment, 1);
    g_autoptr(GArray) assigned = g_array_new(FALSE, FALSE, sizeof(EchAssigned));
    assignment->n_allocations = a->drafts->len;
    assignment->allocations = g_new0(EchAllocation, a->drafts->len + 1);
    EchBytes fixed = 0;
    for (guint k = 0; k < a->drafts->len; k++) {
        Draft *draft = draft_at(a, k);
        draft->base.first_assigned = assigned->len;
        draft->base.n_assigned = draft->assigned->len;
        g_array_append_vals(assigned, draft->assigned->data, draft->assigned->len);
        assignment->allocations[k] = draft->base;
        if (draft->base.is_parameter || draft->base.is_constant || draft->base.is_live_out)
            fixed = ech_bytes_add(fixed, draft->base.bytes);
        for (size_t h = 0; draft->base.is_temp && h < a->n_figures; h++) {
            if (a->figures[h].space == draft->base.space)
                a->figures[h].allocation_bytes = draft->base.bytes;
        }
    }
    assignment->n_assigned = assigned->len;
    assignment->assigned = g_memdup2(assigned->data, (size_t)assigned->len * sizeof(EchAssigned));
    assignment->made = true;
    assignment->peak = ech_bytes_add(fixed, a->largest);
    assignment->n_heaps = a->n_figures;
    assignment->heaps = g_steal_pointer(&a->figures);
    if (!assignment->heaps)
        assignment->heaps = g_new0(struct EchHeapFigures, 1);
    return assignment;
}

EchProgramAssignment *ech_program_assign(const EchProgram *program, EchBytes hbm_limit, EchDiag *diag, GError **error)
{
    if (program->platform == ECH_PLATFORM_TPU && !program->chip) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG,
                    "%s: TPU chips differ in their tuple tables; expected the chip the program was compiled for (--device tpu-v5e)", program->name);
        return NULL;
    }
    Assigner a = {.p = program};
    a.drafts = g_array_new(FALSE, FALSE, sizeof(Draft));
    a.waiting = g_new0(uint8_t, program->n_buffers + 1);
    a.context = g_new0(uint8_t, program->n_buffers + 1);
    a.n_users = g_new0(uint32_t, program->n_instructions + 1);
    a.last_holder = g_new0(uint32_t, program->n_values + 1);
    for (size_t k = 0; k < program->n_operands; k++)
        a.n_users[program->operands[k]]++;
    find_last_holders(&a);
    bool tpu = program->platform == ECH_PLATFORM_TPU;
    attempt(&a, tpu ? filling_of(program) : (Filling){.reuse = true});
    if (tpu && hbm_limit > 0 && total_in_use(&a, ECH_SPACE_HBM) > hbm_limit) {
        ech_diag_remark(diag,
                        "the program takes more than the %" G_GUINT64_FORMAT " bytes of HBM that its compiler gives it: buffers are placed as it does then",
                        hbm_limit);
        attempt(&a, (Filling){true, true});
    }
    EchProgramAssignment *assignment = finish(&a);
    clear_drafts(&a);
    g_array_unref(a.drafts);
    g_free(a.waiting);
    g_free(a.context);
    g_free(a.n_users);
    g_free(a.last_holder);
    return assignment;
}
