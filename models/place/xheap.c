#include "models/place/xheap.h"

#include "models/alloc/heap_fast.h"
#include "models/place/vmem.h"
#include "sim/base/heap.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

typedef struct {
    int64_t start, end; /* event clock, closed; end -1: not yet */
    uint32_t group;
    bool freed;
} Life;

typedef struct {
    int64_t start, end;
    EchBytes first_bytes, bytes; /* of the first member, of the largest */
    uint64_t id;                 /* of the first member */
    uint32_t group;
} Group;

static gint compare_group(gconstpointer a, gconstpointer b)
{
    const Group *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->first_bytes != y->first_bytes)
        return x->first_bytes > y->first_bytes ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Lifetimes on the clock that ticks at every event. */
static Life *lives(const EchXheapEvent *events, uint32_t n_events, const EchBytes *sizes, uint32_t n, bool skip_empty, int64_t *ret_clock)
{
    Life *life = g_new0(Life, MAX(n, 1));
    int64_t clock = 0;
    for (uint32_t i = 0; i < n; i++)
        life[i] = (Life){-1, -1, NONE, false};
    for (uint32_t i = 0; i < n_events; i++)
        if (events[i].kind == ECH_XHEAP_RELEASE)
            life[events[i].buffer].freed = true;
    for (uint32_t i = 0; i < n_events; i++) {
        const EchXheapEvent *e = &events[i];
        Life *l = &life[e->buffer];
        if (skip_empty && sizes[e->buffer] == 0)
            continue;
        if (e->kind == ECH_XHEAP_RELEASE)
            l->end = l->start >= 0 ? clock : -1;
        else {
            Life *other = e->kind == ECH_XHEAP_SHARE && e->with < n ? &life[e->with] : NULL;
            if (other != NULL && other->start >= 0 && !other->freed && other->end < 0)
                other->end = clock++; /* the operand ends before the one in its place begins */
            l->start = clock;
            l->group = other != NULL && other->start >= 0 ? other->group : e->buffer;
        }
        clock++;
    }
    for (uint32_t i = 0; i < n; i++)
        if (life[i].start >= 0 && life[i].end < 0)
            life[i].end = clock++;
    *ret_clock = clock;
    return life;
}

typedef struct {
    int64_t end;
    uint32_t chunk;
} Taken;

static gint compare_taken(gconstpointer a, gconstpointer b, gpointer data)
{
    (void)data;
    int64_t x = ((const Taken *)a)->end, y = ((const Taken *)b)->end;
    return (x > y) - (x < y);
}

static EchBytes fast_merge(const GArray *groups, EchBytes alignment, EchBytes *offsets)
{
    g_autoptr(EchFastHeap) heap = ech_fast_heap_new(0, alignment);
    g_autoptr(GArray) taken = g_array_new(FALSE, FALSE, sizeof(Taken));
    EchBytes top = 0;
    for (guint g = 0; g < groups->len; g++) {
        const Group *group = &g_array_index(groups, Group, g);
        Taken ended;
        while (taken->len > 0 && g_array_index(taken, Taken, 0).end <= group->start) {
            ech_heap_pop(taken, &ended, compare_taken, NULL);
            ech_fast_heap_give(heap, ended.chunk);
        }
        uint32_t chunk = ech_fast_heap_take(heap, group->bytes, &offsets[group->group]);
        ech_heap_push(taken, &(Taken){group->end, chunk}, compare_taken, NULL);
        top = MAX(top, offsets[group->group] + group->bytes);
    }
    return top;
}

static EchBytes best_fit(bool temporal, const Life *life, const EchBytes *sizes, const uint64_t *ids, uint32_t n, const GArray *groups, EchBytes alignment,
                         int64_t clock, EchBytes *offsets)
{
    /* Members of a group hold one place, each over its own range. */
    g_autofree uint32_t *next = g_new(uint32_t, MAX(n, 1)), *head = g_new(uint32_t, MAX(n, 1));
    g_autofree Group *order = g_new(Group, MAX(groups->len, 1));
    for (uint32_t i = 0; i < n; i++)
        head[i] = next[i] = NONE;
    for (uint32_t i = n; i > 0; i--)
        if (life[i - 1].start >= 0) {
            next[i - 1] = head[life[i - 1].group];
            head[life[i - 1].group] = i - 1;
        }
    for (guint g = 0; g < groups->len; g++) {
        Group group = g_array_index(groups, Group, g);
        /* compare_group() sorts by start, -bytes, id: put the keys there. */
        if (temporal)
            group.start = group.start - group.end;
        else {
            group.start = -(int64_t)sizes[group.group];
            group.first_bytes = (EchBytes)(life[group.group].end - life[group.group].start);
        }
        group.id = ids[group.group];
        order[g] = group;
    }
    qsort(order, groups->len, sizeof(Group), compare_group);
    g_autoptr(EchVmem) vmem = ech_vmem_new((uint32_t)MIN(clock + 1, (int64_t)UINT32_MAX - 64), (int64_t)alignment);
    g_autoptr(GArray) starts = g_array_new(FALSE, FALSE, sizeof(int64_t)), ends = g_array_new(FALSE, FALSE, sizeof(int64_t));
    EchBytes top = 0;
    for (guint g = 0; g < groups->len; g++) {
        uint32_t owner = order[g].group;
        g_array_set_size(starts, 0);
        g_array_set_size(ends, 0);
        for (uint32_t k = head[owner]; k != NONE; k = next[k]) {
            g_array_append_val(starts, life[k].start);
            g_array_append_val(ends, life[k].end);
        }
        int64_t offset = ech_vmem_find_many(vmem, (const int64_t *)(const void *)starts->data, (const int64_t *)(const void *)ends->data, starts->len,
                                            (int64_t)sizes[owner], (int64_t)order[g].bytes, -1);
        for (uint32_t k = head[owner]; k != NONE; k = next[k]) {
            ech_vmem_add(vmem, (EchVmemChunk){life[k].start, life[k].end, offset, (int64_t)order[g].bytes}); /* of the largest, as heap.c has it */
        }
        top = MAX(top, (EchBytes)offset + order[g].bytes);
        offsets[owner] = (EchBytes)offset;
    }
    return top;
}

EchBytes ech_xheap_run(EchXheapAlgorithm algorithm, EchBytes alignment, const EchXheapEvent *events, uint32_t n_events, const EchBytes *sizes,
                       const uint64_t *ids, uint32_t n_buffers, uint64_t *ret_offsets)
{
    int64_t clock;
    /* An empty buffer does not make the best fits' clock tick. */
    g_autofree Life *life = lives(events, n_events, sizes, n_buffers, algorithm != ECH_XHEAP_FAST_MERGE, &clock);
    g_autofree uint32_t *index = g_new0(uint32_t, MAX(n_buffers, 1)); /* 1 + group's index */
    g_autoptr(GArray) groups = g_array_new(FALSE, FALSE, sizeof(Group));
    for (uint32_t i = 0; i < n_buffers; i++) {
        if (life[i].start < 0)
            continue;
        uint32_t g = life[i].group;
        if (index[g] == 0) {
            Group group = {INT64_MAX, INT64_MIN, sizes[g], 0, ids[g], g};
            g_array_append_val(groups, group);
            index[g] = groups->len;
        }
        Group *group = &g_array_index(groups, Group, index[g] - 1);
        group->start = MIN(group->start, life[i].start);
        group->end = MAX(group->end, life[i].end);
        group->bytes = MAX(group->bytes, sizes[i]);
    }
    for (guint g = groups->len; g > 0; g--)
        if (g_array_index(groups, Group, g - 1).bytes == 0)
            g_array_remove_index(groups, g - 1);
    g_array_sort(groups, compare_group);
    g_autofree EchBytes *offsets = g_new(EchBytes, MAX(n_buffers, 1)), *second = g_new(EchBytes, MAX(n_buffers, 1));
    for (uint32_t i = 0; i < n_buffers; i++)
        offsets[i] = second[i] = UINT64_MAX;
    EchBytes size;
    if (algorithm == ECH_XHEAP_FAST_MERGE)
        size = fast_merge(groups, alignment, offsets);
    else {
        size = best_fit(algorithm == ECH_XHEAP_TEMPORAL, life, sizes, ids, n_buffers, groups, alignment, clock, offsets);
        if (algorithm == ECH_XHEAP_BEST) {
            EchBytes other = best_fit(true, life, sizes, ids, n_buffers, groups, alignment, clock, second);
            if (other < size) {
                size = other;
                g_free(offsets);
                offsets = g_steal_pointer(&second);
            }
        }
    }
    for (uint32_t i = 0; i < n_buffers; i++)
        ret_offsets[i] = life[i].start < 0 || life[i].group == NONE ? UINT64_MAX : offsets[life[i].group];
    return size;
}

typedef struct {
    uint32_t place, begin, end; /* Events. */
    uint64_t within, bytes;
} Piece;

typedef struct {
    uint32_t first, n;   /* Its pieces, */
    uint32_t begin, end; /* and when the first begins and the last ends. */
    uint64_t bytes, offset;
    double rank; /* Placed in order of it, largest first. */
} Place;

static int compare_pieces(const void *a, const void *b)
{
    const Piece *x = a, *y = b;
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return x->begin != y->begin ? (x->begin < y->begin ? -1 : 1) : (x->within > y->within) - (x->within < y->within);
}

static int compare_places(gconstpointer a, gconstpointer b, gpointer data)
{
    const Place *places = data;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (places[x].rank != places[y].rank)
        return places[x].rank > places[y].rank ? -1 : 1;
    return (x > y) - (x < y);
}

enum { N_ORDERS = 4, MAX_ROUNDS = 64, PAIRS = 20000000 };

/* What a place comes early for: its size, the space and time it fills, how long it stays, how early it begins. */
static double rank_of(const Place *place, const Piece *pieces, unsigned way)
{
    double area = 0;
    for (uint32_t k = place->first; k < place->first + place->n; k++)
        area += (double)pieces[k].bytes * (double)(pieces[k].end - pieces[k].begin);
    switch (way) {
    case 0: return (double)place->bytes;
    case 1: return area;
    case 2: return (double)place->end - (double)place->begin;
    default: return -(double)place->begin;
    }
}

/* The lowest base for @place: what one of its pieces does not leave free moves it up, until all find room. */
static uint64_t lowest_base(EchVmem *taken, const Place *place, const Piece *pieces)
{
    int64_t base = 0, before;
    do {
        before = base;
        for (uint32_t k = place->first; k < place->first + place->n; k++)
            base = ech_vmem_find_lowest(taken, pieces[k].begin, (int64_t)pieces[k].end - 1, (int64_t)pieces[k].within, (int64_t)pieces[k].bytes, base);
    } while (base != before);
    return (uint64_t)base;
}

EchBytes ech_xheap_run_staggered(EchBytes alignment, const EchXheapEvent *events, uint32_t n_events, const EchBytes *sizes, const EchBytes *within,
                                 uint32_t n_buffers, uint64_t *ret_offsets)
{
    if (n_buffers > (1u << 14))
        return UINT64_MAX;
    g_autofree Piece *pieces = g_new0(Piece, (size_t)n_buffers + 1);
    g_autofree uint32_t *piece_of = g_new(uint32_t, (size_t)n_buffers + 1);
    uint32_t n = 0, n_places = 0;
    for (uint32_t e = 0; e < n_events; e++) {
        const EchXheapEvent *event = &events[e];
        if (event->kind == ECH_XHEAP_RELEASE) {
            pieces[piece_of[event->buffer]].end = e;
            continue;
        }
        piece_of[event->buffer] = n;
        uint32_t place = event->kind == ECH_XHEAP_SHARE ? pieces[piece_of[event->with]].place : n_places++;
        pieces[n++] = (Piece){.place = place, .begin = e, .end = n_events, .within = within[event->buffer], .bytes = sizes[event->buffer]};
    }
    g_autofree uint32_t *place_of = g_new(uint32_t, (size_t)n_buffers + 1);
    for (uint32_t b = 0; b < n_buffers; b++)
        place_of[b] = UINT32_MAX;
    for (uint32_t e = 0; e < n_events; e++)
        if (events[e].kind != ECH_XHEAP_RELEASE)
            place_of[events[e].buffer] = pieces[piece_of[events[e].buffer]].place;
    if (n > 0)
        qsort(pieces, n, sizeof *pieces, compare_pieces);
    g_autofree Place *places = g_new0(Place, (size_t)n_places + 1);
    g_autofree uint32_t *order = g_new(uint32_t, (size_t)n_places + 1);
    for (uint32_t k = n; k-- > 0;) {
        Place *place = &places[pieces[k].place];
        place->first = k;
        place->begin = place->n == 0 ? pieces[k].begin : MIN(place->begin, pieces[k].begin);
        place->end = MAX(place->end, pieces[k].end);
        place->n++;
        place->bytes = MAX(place->bytes, pieces[k].within + pieces[k].bytes);
    }
    g_autoptr(EchVmem) taken = ech_vmem_new(n_events, (int64_t)MAX(alignment, 1u));
    uint64_t best = UINT64_MAX;
    unsigned best_way = 0, rounds = (unsigned)MIN((uint64_t)MAX_ROUNDS, 1 + PAIRS / ((uint64_t)n * n + 1));
    for (unsigned way = 0; way < N_ORDERS + rounds; way++) {
        /* After the plain orders the best of them again, with what ended highest the last time before all others, time after time. */
        uint32_t highest = 0;
        for (uint32_t k = 0; k < n_places && way >= N_ORDERS; k++)
            if (places[k].offset + places[k].bytes > places[highest].offset + places[highest].bytes)
                highest = k;
        for (uint32_t k = 0; k < n_places; k++) {
            order[k] = k;
            if (way <= N_ORDERS)
                places[k].rank = rank_of(&places[k], pieces, way < N_ORDERS ? way : best_way);
        }
        if (way >= N_ORDERS && n_places > 0)
            places[highest].rank = (double)UINT64_MAX * (way + 1);
        if (n_places > 0)
            g_qsort_with_data(order, (int)n_places, sizeof *order, compare_places, places);
        ech_vmem_clear(taken);
        uint64_t height = 0;
        for (uint32_t k = 0; k < n_places; k++) {
            Place *place = &places[order[k]];
            place->offset = lowest_base(taken, place, pieces);
            for (uint32_t i = place->first; i < place->first + place->n; i++)
                ech_vmem_add(
                    taken, (EchVmemChunk){pieces[i].begin, (int64_t)pieces[i].end - 1, (int64_t)(place->offset + pieces[i].within), (int64_t)pieces[i].bytes});
            height = MAX(height, place->offset + place->bytes);
        }
        if (height >= best)
            continue;
        best = height;
        best_way = way < N_ORDERS ? way : best_way;
        for (uint32_t b = 0; b < n_buffers; b++)
            ret_offsets[b] = place_of[b] == UINT32_MAX ? UINT64_MAX : places[place_of[b]].offset + within[b];
    }
    return best;
}
