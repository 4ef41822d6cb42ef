#include "models/place/loop.h"

#include "models/place/vmem.h"
#include "sim/base/compare.h"
#include "sim/base/hash.h"

#include <stdlib.h>
#include <string.h>

enum { MIN_SIZE = 4, MAX_SIZE = 400, HEAD_START = 10 };

typedef enum { UNSUPPORTED, TEMPORARY, CARRIED, PINNED, PREFETCH } Kind;

typedef struct {
    int64_t index; /* in the iteration */
    uint32_t operand, leaf;
    float bytes;
} Site;

typedef struct {
    uint64_t id; /* the lowest of its members' */
    uint32_t n_values;
    int64_t bytes;
    Kind kind;
    GArray *positions, *uses, *next_uses; /* Site */
    bool header;
    float per_byte, saving;
    bool kept, fetched;
    int64_t begin, end, even, odd; /* in the fast memory; offsets of even and odd iterations */
    int64_t after;                 /* fetch starts after this index */
    int64_t before;
} Value;

/* Numbers by a key that each has: those of key k are list[first[k]] to list[first[k + 1] - 1], ascending. */
typedef struct {
    uint32_t *first, *list;
} Index;

typedef struct {
    EchFlow *flow;
    const EchFlowInstruction *in;
    const EchLoopOptions *o;
    uint32_t n;
    uint32_t *print;              /* fingerprints, 0: none */
    Index members;                /* values of a group */
    Index positions, views, uses; /* of a value */
    Index uses_at;                /* of a step */
    bool *seen;                   /* per group, scratch: all false */
    int64_t first, size;          /* the iteration looked at */
    GArray *values;               /* Value */
    EchVmem *vmem;                /* over four iterations: what even and odd ones hold may lie in different places */
    float *read, *written;        /* per index: bytes in the fast memory */
} Loop;

/* ---- indices ---- */

/* @key: that of number 0, the next ones @stride bytes apart; below @n_keys. */
static Index index_new(const uint32_t *key, size_t stride, uint32_t n, uint32_t n_keys)
{
    Index index = {g_new0(uint32_t, (size_t)n_keys + 1), g_new(uint32_t, MAX(n, 1))};
    const char *at = (const char *)key;
#define KEY(i) (*(const uint32_t *)(const void *)(at + (i)*stride))
    for (uint32_t i = 0; i < n; i++)
        index.first[KEY(i)]++;
    for (uint32_t k = 0, end = 0; k <= n_keys; k++)
        index.first[k] = end += index.first[k];
    for (uint32_t i = n; i > 0; i--)
        index.list[--index.first[KEY(i - 1)]] = i - 1;
#undef KEY
    return index;
}

static void index_clear(Index *index)
{
    g_free(index->first);
    g_free(index->list);
}

static void begin(Loop *l)
{
    const EchMsaProblem *p = &l->flow->problem;
    l->members = index_new(&p->values->group, sizeof *p->values, p->n_values, p->n_values);
    l->positions = index_new(&p->positions->value, sizeof *p->positions, p->n_positions, p->n_values);
    l->views = index_new(&p->views->value, sizeof *p->views, p->n_views, p->n_values);
    l->uses = index_new(&p->uses->value, sizeof *p->uses, p->n_uses, p->n_values);
    l->uses_at = index_new(&p->uses->step, sizeof *p->uses, p->n_uses, p->n_steps);
    l->seen = g_new0(bool, MAX(p->n_values, 1));
}

static void end(Loop *l)
{
    index_clear(&l->members);
    index_clear(&l->positions);
    index_clear(&l->views);
    index_clear(&l->uses);
    index_clear(&l->uses_at);
    g_free(l->seen);
}

/* ---- finding ---- */

static bool passive(const EchFlowInstruction *in)
{
    return in->op == ECH_FLOW_PARAMETER || in->op == ECH_FLOW_TUPLE || in->op == ECH_FLOW_ELEMENT;
}

static void append_shape(GString *text, const EchFlowInstruction *in)
{
    if (in->tuple || in->n_leaves != 1)
        g_string_append_c(text, '(');
    for (uint32_t l = 0; l < in->n_leaves; l++) {
        const char *shape = in->leaves[l].text != NULL ? in->leaves[l].text : "";
        g_string_append_len(text, shape, (gssize)strcspn(shape, "{"));
        g_string_append_c(text, ',');
    }
    if (in->tuple || in->n_leaves != 1)
        g_string_append_c(text, ')');
}

/* The number of @text among those that are known, from 1. */
static uint32_t number_of(GHashTable *known, const GString *text)
{
    gpointer number = g_hash_table_lookup(known, text->str);
    if (number == NULL) {
        number = GUINT_TO_POINTER(g_hash_table_size(known) + 1);
        g_hash_table_insert(known, g_strdup(text->str), number);
    }
    return GPOINTER_TO_UINT(number);
}

static uint32_t *fingerprints(const EchFlowInstruction *in, uint32_t n)
{
    uint32_t *print = g_new0(uint32_t, MAX(n, 1));
    g_autofree uint32_t *shape = g_new(uint32_t, MAX(n, 1));
    g_autoptr(GHashTable) known = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL);
    g_autoptr(GHashTable) shapes = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL);
    g_autoptr(GString) text = g_string_new(NULL);
    for (uint32_t t = 0; t < n; t++) {
        g_string_truncate(text, 0);
        append_shape(text, &in[t]);
        shape[t] = number_of(shapes, text);
    }
    for (uint32_t t = 0; t < n; t++) {
        if (in[t].op == ECH_FLOW_WHILE || in[t].op == ECH_FLOW_CONDITIONAL)
            continue;
        g_string_printf(text, "%u %s(", shape[t], in[t].opcode != NULL ? in[t].opcode : "");
        for (uint32_t k = 0; k < in[t].n_operands; k++)
            if (in[t].operands[k] != ECH_PLACE_NONE)
                g_string_append_printf(text, "%u,", shape[in[t].operands[k]]);
        print[t] = number_of(known, text);
    }
    return print;
}

/* How far back an operand is made; -1 where that says nothing. */
static int64_t distance(const EchFlowInstruction *in, uint32_t step, uint32_t k)
{
    uint32_t from = in[step].operands[k];
    if (from == ECH_PLACE_NONE || passive(&in[from]) || in[from].op == ECH_FLOW_CONSTANT)
        return -1;
    return (int64_t)step - from;
}

static bool compatible(const EchFlowInstruction *in, uint32_t a, uint32_t b, int64_t size)
{
    if (in[a].n_operands != in[b].n_operands)
        return false;
    for (uint32_t k = 0; k < in[a].n_operands; k++) {
        int64_t x = distance(in, a, k), y = distance(in, b, k);
        if (x != -1 && y != -1 && x + size != y && x != y)
            return false;
    }
    return true;
}

/* Extends a candidate of @size steps whose first repetition is seen at @at. False if it does not begin. */
static bool scan(const Loop *l, uint32_t at, uint32_t size, EchLoopFound *ret)
{
    const EchFlowInstruction *in = l->in;
    int64_t first = -1, last = -1;
    for (int64_t i = MAX(0, (int64_t)at - size - HEAD_START); i < l->n; i++) {
        if (first < 0) {
            if (i > (int64_t)at - size || i + size >= l->n)
                break;
            uint32_t other = (uint32_t)i + size;
            if (passive(&in[i]) || l->print[i] == 0 || passive(&in[other]) || l->print[other] != l->print[i] || !compatible(in, (uint32_t)i, other, size))
                continue;
            first = i;
        }
        if (in[i].computation != in[first].computation)
            break;
        if (l->print[i] == 0)
            continue;
        if (i >= first + size) {
            uint32_t previous = (uint32_t)i - size;
            if (l->print[previous] != l->print[i] || !compatible(in, previous, (uint32_t)i, size))
                break;
        }
        last = i;
    }
    if (first < 0)
        return false;
    *ret = (EchLoopFound){(uint32_t)first, (uint32_t)last, size, false};
    return true;
}

/* ---- the fast memory ---- */

/* Where a value lies in the @n iterations from @first on, every @stride-th. */
typedef struct {
    int64_t starts[4], ends[4];
    uint32_t n;
} Spans;

static Spans spans_of(const Loop *l, int64_t begin, int64_t end, uint32_t first, uint32_t stride)
{
    Spans spans = {.n = 0};
    int64_t shift = begin < 0 ? l->size : 0;
    for (uint32_t k = first; k < 4; k += stride, spans.n++) {
        spans.starts[spans.n] = begin + shift + (int64_t)k * l->size;
        spans.ends[spans.n] = end + shift + (int64_t)k * l->size;
    }
    return spans;
}

static void remove_spans(Loop *l, const Spans *spans, int64_t offset, int64_t bytes)
{
    for (uint32_t k = 0; k < spans->n; k++)
        ech_vmem_remove(l->vmem, (EchVmemChunk){spans->starts[k], spans->ends[k], offset, bytes});
}

/* Places it; -1 if there is no room. */
static int64_t add_spans(Loop *l, const Spans *spans, int64_t bytes, int64_t preferred)
{
    int64_t offset = ech_vmem_find_many(l->vmem, spans->starts, spans->ends, spans->n, bytes, bytes, preferred);
    if (offset > (int64_t)l->flow->problem.options.size - bytes)
        return -1;
    for (uint32_t k = 0; k < spans->n; k++)
        ech_vmem_add(l->vmem, (EchVmemChunk){spans->starts[k], spans->ends[k], offset, bytes});
    return offset;
}

/* Places of even and of odd iterations; false, and nothing placed, if there is no room. */
static bool place_pair(Loop *l, int64_t begin, int64_t end, int64_t bytes, int64_t prefer_even, int64_t prefer_odd, int64_t *ret_even, int64_t *ret_odd)
{
    Spans evens = spans_of(l, begin, end, 0, 2), odds = spans_of(l, begin, end, 1, 2);
    int64_t even = add_spans(l, &evens, bytes, prefer_even), odd = even < 0 ? -1 : add_spans(l, &odds, bytes, prefer_odd);
    if (odd < 0) {
        if (even >= 0)
            remove_spans(l, &evens, even, bytes);
        return false;
    }
    *ret_even = even;
    *ret_odd = odd;
    return true;
}

static void remove_pair(Loop *l, int64_t begin, int64_t end, int64_t bytes, int64_t even, int64_t odd)
{
    Spans evens = spans_of(l, begin, end, 0, 2), odds = spans_of(l, begin, end, 1, 2);
    remove_spans(l, &evens, even, bytes);
    remove_spans(l, &odds, odd, bytes);
}

static bool place_same(Loop *l, int64_t begin, int64_t end, int64_t bytes)
{
    Spans all = spans_of(l, begin, end, 0, 1);
    return end - begin + 1 <= l->size && add_spans(l, &all, bytes, -1) >= 0;
}

/* ---- the values of one iteration ---- */

static int compare_site(const void *a, const void *b)
{
    const Site *x = a, *y = b;
    if (x->index != y->index)
        return x->index < y->index ? -1 : 1;
    if (x->operand != y->operand)
        return x->operand < y->operand ? -1 : 1;
    return (x->leaf > y->leaf) - (x->leaf < y->leaf);
}

static void value_done(gpointer data)
{
    Value *v = data;
    g_array_unref(v->positions);
    g_array_unref(v->uses);
    g_array_unref(v->next_uses);
}

/* Everything in the program that holds or uses the arrays of one buffer, as this iteration sees it. */
typedef struct {
    Value value;
    bool previous, footer;
    float written, read;
} Draft;

static void note_position(const Loop *l, Draft *d, const EchMsaPosition *position, float bytes)
{
    const EchFlowInstruction *in = &l->in[position->step];
    int64_t index = (int64_t)position->step - l->first;
    if (in->op == ECH_FLOW_ELEMENT)
        return;
    if (index >= 0 && index < l->size) {
        Site site = {.index = index, .leaf = (uint32_t)position->key, .bytes = bytes};
        g_array_append_val(d->value.positions, site);
        d->written += bytes;
    } else if (index >= -l->size && index < 0) {
        d->previous = true;
        d->written += bytes;
    } else if (!d->previous && d->value.positions->len == 0 && in->computation == l->in[l->first].computation)
        d->value.header = true;
}

static void note_use(const Loop *l, Draft *d, uint32_t u)
{
    const EchMsaProblem *p = &l->flow->problem;
    const EchFlowPlace *place = &l->flow->use_places[u];
    int64_t index = (int64_t)place->step - l->first;
    if (l->in[place->step].op == ECH_FLOW_ELEMENT)
        return;
    float bytes = p->steps[place->step].kind == ECH_MSA_TRIVIAL ? 0 : (float)p->uses[u].accessed;
    if (index >= 0 && index < 2 * l->size) {
        bool now = index < l->size;
        Site site = {now ? index : index - l->size, place->operand, place->leaf, bytes};
        g_array_append_val(now ? d->value.uses : d->value.next_uses, site);
        d->read += bytes;
    } else if (d->value.positions->len > 0 || d->value.uses->len > 0)
        d->footer = true;
}

static Kind kind_of(const Value *v)
{
    const Site *position = (const Site *)(const void *)v->positions->data, *use = (const Site *)(const void *)v->uses->data,
               *next = (const Site *)(const void *)v->next_uses->data;
    if (v->positions->len > 0) {
        if (v->next_uses->len == 0)
            return v->uses->len > 0 ? TEMPORARY : UNSUPPORTED;
        return next[v->next_uses->len - 1].index >= position[0].index ? CARRIED : TEMPORARY;
    }
    if (!v->header || v->uses->len == 0)
        return UNSUPPORTED;
    if (v->uses->len == v->next_uses->len && use[0].index == next[0].index)
        return PINNED;
    if (v->next_uses->len == 0 || next[v->next_uses->len - 1].index < use[0].index)
        return PREFETCH;
    return UNSUPPORTED;
}

static void see_group(Loop *l, uint32_t step, uint32_t leaf, GArray *groups)
{
    const EchFlow *flow = l->flow;
    uint32_t group = flow->problem.values[flow->value_of[flow->leaf_start[step] + leaf]].group;
    if (!l->seen[group])
        g_array_append_val(groups, group);
    l->seen[group] = true;
}

/* The groups of values that an instruction of the iteration makes or reads, ascending: only they count. Owned by the caller. */
static GArray *seen_groups(Loop *l)
{
    GArray *groups = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (int64_t t = l->first; t < l->first + l->size; t++) {
        const EchFlowInstruction *in = &l->in[t];
        for (uint32_t leaf = 0; leaf < in->n_leaves; leaf++)
            see_group(l, (uint32_t)t, leaf, groups);
        for (uint32_t k = 0; k < in->n_operands; k++)
            for (uint32_t leaf = 0; in->operands[k] != ECH_PLACE_NONE && leaf < l->in[in->operands[k]].n_leaves; leaf++)
                see_group(l, in->operands[k], leaf, groups);
    }
    for (guint i = 0; i < groups->len; i++)
        l->seen[g_array_index(groups, uint32_t, i)] = false;
    g_array_sort(groups, ech_compare_u32);
    return groups;
}

/* Where a group's values are made and read: value by value, of each first where it lies, then who reads it. The draft's value is the caller's to clear. */
static void draft_group(const Loop *l, uint32_t group, Draft *d)
{
    const EchMsaProblem *p = &l->flow->problem;
    *d = (Draft){.value = {.positions = g_array_new(FALSE, FALSE, sizeof(Site)),
                           .uses = g_array_new(FALSE, FALSE, sizeof(Site)),
                           .next_uses = g_array_new(FALSE, FALSE, sizeof(Site))}};
    for (uint32_t m = l->members.first[group]; m < l->members.first[group + 1]; m++) {
        uint32_t v = l->members.list[m];
        if (d->value.n_values++ == 0 || p->values[v].id < d->value.id) {
            d->value.id = p->values[v].id;
            d->value.bytes = (int64_t)p->values[v].bytes;
        }
        for (uint32_t i = l->positions.first[v]; i < l->positions.first[v + 1]; i++)
            note_position(l, d, &p->positions[l->positions.list[i]], (float)p->definition_bytes[l->positions.list[i]]);
        for (uint32_t i = l->views.first[v]; i < l->views.first[v + 1]; i++)
            note_position(l, d, &p->views[l->views.list[i]], 0);
        for (uint32_t i = l->uses.first[v]; i < l->uses.first[v + 1]; i++)
            note_use(l, d, l->uses.list[i]);
    }
}

static void sort_sites(GArray *sites)
{
    if (sites->len > 1)
        qsort(sites->data, sites->len, sizeof(Site), compare_site);
}

/* Finds the values of the iteration: what each is to it, and what keeping it on chip would save. */
static void collect(Loop *l)
{
    g_autoptr(GArray) groups = seen_groups(l);
    for (guint g = 0; g < groups->len; g++) {
        Draft d;
        draft_group(l, g_array_index(groups, uint32_t, g), &d);
        Value v = d.value;
        if ((v.positions->len == 0 && v.uses->len == 0) || d.previous || v.bytes == 0) {
            value_done(&v);
            continue;
        }
        sort_sites(v.positions);
        sort_sites(v.uses);
        sort_sites(v.next_uses);
        v.kind = kind_of(&v);
        v.saving = d.written + d.read;
        if (v.header)
            v.saving -= (float)v.bytes;
        if (v.positions->len > 0 && d.footer)
            v.saving -= (float)v.bytes;
        v.per_byte = v.saving / (float)v.bytes;
        g_array_append_val(l->values, v);
    }
}

/* Seconds in which instruction @index leaves the slow memory alone, with @more read of the fast one. */
static float idle(const Loop *l, int64_t index, float more)
{
    const EchPlaceChip *chip = l->o->chip;
    int64_t t = l->first + index;
    float read = l->read[index] + more, total = l->o->total[t];
    float slow = (float)((double)(total - (read + l->written[index])) / chip->hbm_bytes_per_s);
    return ech_place_elapsed(l->o->compute[t], ech_place_memory_seconds(chip, total, read, l->written[index])) - slow;
}

static void take_sites(Loop *l, Value *v, bool next_too)
{
    for (guint i = 0; i < v->positions->len; i++)
        l->written[g_array_index(v->positions, Site, i).index] += g_array_index(v->positions, Site, i).bytes;
    for (guint i = 0; i < v->uses->len; i++)
        l->read[g_array_index(v->uses, Site, i).index] += g_array_index(v->uses, Site, i).bytes;
    for (guint i = 0; next_too && i < v->next_uses->len; i++)
        l->read[g_array_index(v->next_uses, Site, i).index] += g_array_index(v->next_uses, Site, i).bytes;
}

static void keep_temporary(Loop *l, Value *v)
{
    if (v->n_values > 1)
        return;
    int64_t begin = g_array_index(v->positions, Site, 0).index;
    int64_t end =
        v->next_uses->len > 0 ? g_array_index(v->next_uses, Site, v->next_uses->len - 1).index + l->size : g_array_index(v->uses, Site, v->uses->len - 1).index;
    if (!place_same(l, begin, MAX(begin, end), v->bytes))
        return;
    v->kept = true;
    take_sites(l, v, true);
}

/* Whether a fetch that begins at @at has room, and those pulled forward with it have, all of them from that step on. */
static bool all_fit(Loop *l, const GPtrArray *forced, const Value *v, int64_t at, int64_t sentinel)
{
    g_autoptr(GArray) pending = g_array_new(FALSE, FALSE, sizeof(Value)); /* begin, end, bytes, even, odd only */
    bool fits = true;
    for (guint i = 0; fits && i <= forced->len; i++) {
        const Value *other = i < forced->len ? forced->pdata[i] : v;
        Value trial = {.begin = i < forced->len ? (at + l->size) % l->size : at, .end = i < forced->len ? other->end : sentinel, .bytes = other->bytes};
        fits = trial.end - trial.begin + 1 <= 2 * l->size && place_pair(l, trial.begin, trial.end, trial.bytes, -1, -1, &trial.even, &trial.odd);
        if (fits)
            g_array_append_val(pending, trial);
    }
    for (guint i = 0; i < pending->len; i++) {
        const Value *trial = &g_array_index(pending, Value, i);
        remove_pair(l, trial->begin, trial->end, trial->bytes, trial->even, trial->odd);
    }
    return fits;
}

/* Takes @wanted seconds of the idle times from before @first_use back to index @from. */
static void spend(const Loop *l, float *idle_times, int64_t first_use, int64_t sentinel, int64_t from, float wanted)
{
    float got = 0;
    for (int64_t at = first_use - 1; at >= sentinel - l->size; at--) {
        int64_t index = (at + l->size) % l->size;
        if (idle_times[index] >= wanted - got) {
            idle_times[index] -= wanted - got;
            break;
        }
        got += idle_times[index];
        idle_times[index] = 0;
        if (index == from)
            break;
    }
}

/* Fetches whose first use is later in the iteration, already placed, start no later than one that reaches into the iteration before: they are pulled forward
 * with it. */
static void fetch(Loop *l, Value **list, guint n_before, Value *v, float *idle_times)
{
    int64_t first_use = g_array_index(v->uses, Site, 0).index, last_use = g_array_index(v->uses, Site, v->uses->len - 1).index, sentinel = last_use;
    if (v->next_uses->len > 0) {
        last_use = g_array_index(v->next_uses, Site, v->next_uses->len - 1).index;
        sentinel = last_use + l->size;
    }
    float wanted = (float)((double)(float)v->bytes / l->o->chip->hbm_bytes_per_s), got = 0;
    int64_t even, odd, start = INT64_MIN;
    if (!place_pair(l, first_use, sentinel, v->bytes, -1, -1, &even, &odd))
        return;
    remove_pair(l, first_use, sentinel, v->bytes, even, odd);
    g_autoptr(GPtrArray) forced = g_ptr_array_new();
    guint look = 0, committed = 0;
    for (int64_t at = first_use - 1; at >= sentinel - l->size; at--) {
        int64_t index = (at + l->size) % l->size;
        for (; at < 0 && look < n_before; look++) {
            Value *other = list[look];
            if (!other->fetched)
                continue;
            bool around = other->before <= other->after + 1 || (other->after == l->size - 1 && other->before == 0);
            if (around || other->after != index)
                break;
            g_ptr_array_add(forced, other);
            remove_pair(l, other->begin, other->end, other->bytes, other->even, other->odd);
        }
        if (!all_fit(l, forced, v, at, sentinel))
            break;
        float free = idle_times[index];
        bool complete = free >= wanted - got, enough = start == INT64_MIN && got + free >= wanted * l->o->desired_ratio;
        bool whole = !complete && !enough && l->o->fully_pipelined && index == last_use;
        got = complete ? wanted : got + free;
        if (complete || enough || whole) {
            start = at;
            committed = forced->len;
        }
        if (complete || whole)
            break;
    }
    for (guint i = start == INT64_MIN ? 0 : committed; i < forced->len; i++) {
        Value *other = forced->pdata[i];
        place_pair(l, other->begin, other->end, other->bytes, other->even, other->odd, &other->even, &other->odd);
    }
    if (start == INT64_MIN)
        return;
    int64_t from = (start + l->size) % l->size;
    spend(l, idle_times, first_use, sentinel, from, wanted);
    for (guint i = 0; i < committed; i++) {
        Value *other = forced->pdata[i];
        other->begin = from;
        place_pair(l, other->begin, other->end, other->bytes, -1, -1, &other->even, &other->odd);
        other->after = (from - 1 + l->size) % l->size;
    }
    v->begin = start;
    v->end = sentinel;
    if (!place_pair(l, v->begin, v->end, v->bytes, -1, -1, &v->even, &v->odd))
        return;
    v->fetched = true;
    v->after = (from - 1 + l->size) % l->size;
    v->before = first_use;
    take_sites(l, v, true);
}

static int compare_value(const void *a, const void *b)
{
    const Value *x = a, *y = b;
    if (x->per_byte != y->per_byte)
        return x->per_byte > y->per_byte ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static int compare_first_use(const void *a, const void *b)
{
    const Value *x = *(Value *const *)a, *y = *(Value *const *)b;
    const Site *a_use = (const Site *)(const void *)x->uses->data, *b_use = (const Site *)(const void *)y->uses->data;
    if (a_use->index != b_use->index)
        return a_use->index > b_use->index ? -1 : 1;
    if (a_use->operand != b_use->operand)
        return a_use->operand > b_use->operand ? -1 : 1;
    return (x > y) - (x < y);
}

static void decide(Loop *l)
{
    const EchMsaProblem *p = &l->flow->problem;
    for (uint32_t i = 0; i < p->n_scoped; i++) {
        int64_t index = (int64_t)p->scoped[i].step - l->first, even, odd;
        if (index >= 0 && index < l->size && p->scoped[i].bytes > 0)
            place_pair(l, index, index, (int64_t)p->scoped[i].bytes, 0, 0, &even, &odd);
    }
    if (l->values->len > 1)
        qsort(l->values->data, l->values->len, sizeof(Value), compare_value);
    g_autofree Value **fetches = g_new0(Value *, MAX(l->values->len, 1));
    guint n = 0;
    for (guint i = 0; i < l->values->len; i++) {
        Value *v = &g_array_index(l->values, Value, i);
        if (v->kind == TEMPORARY)
            keep_temporary(l, v);
        else if (v->kind == PINNED && v->saving > 0 && place_same(l, 0, l->size - 1, v->bytes)) {
            v->kept = true;
            take_sites(l, v, false);
        } else if (v->kind == PREFETCH)
            fetches[n++] = v;
    }
    if (n > 1)
        qsort(fetches, n, sizeof *fetches, compare_first_use);
    g_autofree float *read = g_new0(float, l->size), *times = g_new0(float, l->size);
    for (guint i = 0; i < n; i++)
        for (guint k = 0; k < fetches[i]->uses->len; k++)
            read[g_array_index(fetches[i]->uses, Site, k).index] += g_array_index(fetches[i]->uses, Site, k).bytes;
    for (int64_t i = 0; i < l->size; i++)
        times[i] = idle(l, i, read[i]);
    for (guint i = 0; i < n; i++)
        fetch(l, fetches, i, fetches[i], times);
}

/* ---- hints ---- */

static void set_hint(Loop *l, const EchLoopFound *run, const Site *site, EchMsaHint hint, const Value *v, bool in_while, GArray *required)
{
    EchMsaProblem *p = &l->flow->problem;
    for (uint32_t t = run->first + (uint32_t)site->index; t <= run->last; t += run->size) {
        for (uint32_t at = l->uses_at.first[t]; at < l->uses_at.first[t + 1]; at++) {
            uint32_t u = l->uses_at.list[at];
            if (l->flow->use_places[u].operand != site->operand || l->flow->use_places[u].leaf != site->leaf)
                continue;
            EchMsaUse *use = &p->uses[u];
            use->hint = hint;
            if (hint == ECH_MSA_HINT_FETCH) {
                int64_t from = v->after;
                if (v->after == l->size - 1 && v->before == 0)
                    from = -l->size;
                else if (v->after + 1 >= v->before)
                    from -= l->size;
                use->preferred_start = (int64_t)t - site->index + from;
            }
            /* Inside a while loop the value must also enter the body in the slow memory. */
            for (uint32_t k = l->positions.first[use->value]; in_while && hint != ECH_MSA_HINT_KEEP && k < l->positions.first[use->value + 1]; k++) {
                uint32_t step = p->positions[l->positions.list[k]].step;
                EchMsaRequired need = {use->value, step};
                if (p->steps[step].parameter && l->in[step].computation == l->in[t].computation)
                    g_array_append_val(required, need);
            }
        }
    }
}

static bool called_by_while(const Loop *l)
{
    for (uint32_t t = 0; t < l->n; t++)
        for (uint32_t c = 0; l->in[t].op == ECH_FLOW_WHILE && c < l->in[t].n_called; c++)
            if (l->in[t].called[c] == l->in[l->first].computation)
                return true;
    return false;
}

static void hand_out(Loop *l, const EchLoopFound *run)
{
    EchMsaProblem *p = &l->flow->problem;
    g_autoptr(GArray) required = g_array_new(FALSE, FALSE, sizeof(EchMsaRequired));
    g_array_append_vals(required, p->required, p->n_required);
    bool in_while = called_by_while(l);
    for (guint i = 0; i < l->values->len; i++) {
        const Value *v = &g_array_index(l->values, Value, i);
        if (v->kind == UNSUPPORTED || v->kind == CARRIED)
            continue;
        EchMsaHint hint = v->fetched ? ECH_MSA_HINT_FETCH : v->kept ? ECH_MSA_HINT_KEEP : ECH_MSA_HINT_SLOW;
        g_autofree bool *used = g_new0(bool, l->size);
        for (guint k = 0; k < v->uses->len; k++) {
            const Site *site = &g_array_index(v->uses, Site, k);
            used[site->index] = true;
            set_hint(l, run, site, hint, v, in_while, required);
        }
        for (guint k = 0; k < v->next_uses->len; k++) {
            const Site *site = &g_array_index(v->next_uses, Site, k);
            bool taken = hint == ECH_MSA_HINT_FETCH || (hint == ECH_MSA_HINT_KEEP && v->kind == TEMPORARY);
            if (taken || !used[site->index])
                set_hint(l, run, site, taken ? hint : ECH_MSA_HINT_SLOW, v, in_while, required);
        }
    }
    g_free(p->required);
    p->n_required = required->len;
    p->required = (EchMsaRequired *)(void *)g_array_free(g_steal_pointer(&required), FALSE);
}

static void optimize(Loop *l, const EchLoopFound *run)
{
    l->first = (int64_t)run->first + run->size;
    l->size = run->size;
    l->values = g_array_new(FALSE, FALSE, sizeof(Value));
    g_array_set_clear_func(l->values, value_done);
    l->vmem = ech_vmem_new((uint32_t)(4 * l->size), (int64_t)MAX(l->flow->problem.options.alignment, 1));
    l->read = g_new0(float, l->size);
    l->written = g_new0(float, l->size);
    collect(l);
    decide(l);
    hand_out(l, run);
    g_array_unref(l->values);
    ech_vmem_free(l->vmem);
    g_free(l->read);
    g_free(l->written);
}

uint32_t ech_loop_optimize(EchFlow *flow, const EchFlowInstruction *instructions, const EchLoopOptions *options, GArray *found)
{
    Loop loop = {.flow = flow, .in = instructions, .o = options, .n = flow->problem.n_steps}, *l = &loop;
    uint32_t optimized = 0;
    l->print = fingerprints(instructions, l->n);
    begin(l);
    g_autoptr(GHashTable) latest = g_hash_table_new(NULL, NULL); /* fingerprint -> 1 + step */
    for (uint32_t t = 0; t < l->n; t++) {
        if (l->print[t] == 0 || passive(&instructions[t]))
            continue;
        gpointer key = GUINT_TO_POINTER(l->print[t]);
        uint32_t before = GPOINTER_TO_UINT(g_hash_table_lookup(latest, key));
        g_hash_table_insert(latest, key, GUINT_TO_POINTER(t + 1));
        uint32_t size = before != 0 ? t - (before - 1) : 0;
        EchLoopFound run;
        if (size < MIN_SIZE || size > MAX_SIZE || !scan(l, t, size, &run))
            continue;
        double iterations = (double)(run.last + 1 - run.first) / size;
        /* The optimizer looks at one iteration between two others. */
        run.optimized = iterations >= options->min_iterations && iterations >= 3;
        if (found != NULL)
            g_array_append_val(found, run);
        if (run.optimized) {
            optimize(l, &run);
            optimized++;
        }
        t = MAX(t, run.last);
    }
    g_free(l->print);
    end(l);
    return optimized;
}
