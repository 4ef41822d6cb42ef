#include "sim/import/stream_waits.h"

#include "sim/base/compare.h"
#include "sim/base/heap.h"

#include <string.h>

/* What a stream has been given: its items in order, the place of the newest, and how far each other stream has waited for it. */
typedef struct {
    uint32_t group, device;
    GArray *items;     /* uint32_t */
    uint32_t *waited;  /* [stream of its group]: index + 1 of the newest of the items that it has waited for */
    guint looked;      /* Entries of its group's log that it has come after. */
    uint32_t pending;  /* A call has let this very stream wait since its newest item: the first item asked for after it. ECH_NONE: none has. */
    EchTime last_wait; /* Of the newest such call; INT64_MIN: none. */
} Stream;

/* When a host stood still for work; end INT64_MIN: it has not. */
typedef struct {
    EchTime start, end;
} Stand;

/* What a host thread has called. */
typedef struct {
    uint32_t pending;  /* The first item asked for after the newest call, until then; ECH_NONE: none */
    EchTime last_wait; /* INT64_MIN: none */
    Stand stand;       /* the newest */
} Caller;

/* Streams of one process; where some process has too many, of one of its devices. */
typedef struct {
    uint32_t device, process;
    uint32_t first, n_streams; /* They follow each other. */
    GArray *log;               /* uint32_t: items in the order in which they ended */
    GArray *running;           /* uint32_t: items that had not ended when the host asked last; a heap, the earliest end first */
    Stand stand;               /* the newest of its host's */
} Group;

typedef struct {
    const EchItem *items;
    const EchStreamOf *queues;
    uint32_t n_queues, n;
    EchWaitsTold told;
    bool apart;          /* groups are of one device each */
    uint32_t *index;     /* [queue]: of its stream, or ECH_NONE */
    Stream *streams;     /* [n] */
    GArray *groups;      /* Group */
    GHashTable *callers; /* thread + 1 -> Caller */
    GArray *found;       /* EchStreamWait */
} Search;

enum { MAX_STREAMS = 256, MAX_ENDED = 16 }; /* Of a group; that have ended, looked at. */
/* Recorded times are of whole microseconds in old files. A kernel starts within a few of them once what it waited for has ended. */
static const EchTime CLOCK_PS = 2 * ECH_PS_PER_US, START_PS = 15 * ECH_PS_PER_US, HELD_UP_PS = 5 * ECH_PS_PER_US;

static EchTime end_of(const EchItem *item)
{
    return ech_time_add(item->start, item->duration);
}

static uint32_t newest_of(const Stream *stream)
{
    return stream->items->len ? g_array_index(stream->items, uint32_t, stream->items->len - 1) : ECH_NONE;
}

static uint32_t stream_of(const Search *s, uint32_t item)
{
    return s->index[s->items[item].queue];
}

static const Group *group_at(const Search *s, uint32_t stream)
{
    return &g_array_index(s->groups, Group, s->streams[stream].group);
}

static void add_wait(Search *s, uint32_t x, uint32_t y)
{
    uint32_t own = stream_of(s, x), *waited = &s->streams[stream_of(s, y)].waited[own - group_at(s, own)->first];
    if (*waited > y)
        return;
    *waited = y + 1;
    g_array_append_val(s->found, ((EchStreamWait){x, y}));
}

static bool is_peer(const EchItem *copy, uint32_t device)
{
    return copy->kind == ECH_ITEM_COPY && copy->from == ECH_TIER_DEVICE && copy->to == ECH_TIER_DEVICE && copy->other == device;
}

/* Whether one of the two, of different devices, is a copy between them. */
static bool joins(const Search *s, uint32_t x, uint32_t y)
{
    return is_peer(&s->items[y], s->streams[stream_of(s, x)].device) || is_peer(&s->items[x], s->streams[stream_of(s, y)].device);
}

/* Whether @x may have waited for @y for what the recording does not say: on another device only for a copy between the two, unless all waits on its own
 * device's work are told. */
static bool may_await(const Search *s, uint32_t x, uint32_t y)
{
    uint32_t own = s->streams[stream_of(s, x)].device, others = s->streams[stream_of(s, y)].device;
    if (own == others)
        return s->told != ECH_WAITS_TOLD;
    return s->told == ECH_WAITS_TOLD || joins(s, x, y);
}

/* ---- what had ended when the host asked ---- */

static gint compare_ends(gconstpointer a, gconstpointer b, gpointer data)
{
    const EchItem *items = ((const Search *)data)->items;
    EchTime x = end_of(&items[*(const uint32_t *)a]), y = end_of(&items[*(const uint32_t *)b]);
    return (x > y) - (x < y);
}

static Caller *caller_of(Search *s, uint32_t thread)
{
    gpointer key = GSIZE_TO_POINTER((gsize)thread + 1);
    Caller *caller = g_hash_table_lookup(s->callers, key);
    if (!caller) {
        caller = g_new(Caller, 1);
        *caller = (Caller){.pending = ECH_NONE, .last_wait = INT64_MIN, .stand = {.end = INT64_MIN}};
        g_hash_table_insert(s->callers, key, caller);
    }
    return caller;
}

/* Whether the host stood still for @y, until it ended, before it asked for @x. */
static bool stood_for(const Search *s, const Stand *stand, uint32_t x, uint32_t y)
{
    EchTime end = end_of(&s->items[y]);
    return stand->end > INT64_MIN && stand->end <= s->items[x].issued + CLOCK_PS && end > stand->start && end <= stand->end + CLOCK_PS &&
           end >= stand->end - START_PS;
}

/* What a host asks of one device need not come after what it asked of another, unless it stood still for that, or, where it is not told when it asked, a copy
 * joins the two. */
static bool host_orders(Search *s, uint32_t x, uint32_t y)
{
    uint32_t own = stream_of(s, x);
    return s->streams[own].device == s->streams[stream_of(s, y)].device || stood_for(s, &group_at(s, own)->stand, x, y) ||
           stood_for(s, &caller_of(s, s->items[x].thread)->stand, x, y) || (s->items[x].issued == s->items[x].start && joins(s, x, y));
}

/* The newest of each other stream that had ended when @x was asked for, those first that ended last. */
static void wait_for_ended(Search *s, Group *group, uint32_t x)
{
    const EchItem *item = &s->items[x];
    while (group->running->len > 0 && end_of(&s->items[g_array_index(group->running, uint32_t, 0)]) <= item->issued) {
        uint32_t y;
        ech_heap_pop(group->running, &y, compare_ends, s);
        g_array_append_val(group->log, y);
    }
    Stream *own = &s->streams[stream_of(s, x)];
    uint32_t seen[MAX_ENDED];
    uint32_t n_seen = 0;
    for (guint i = group->log->len; i > own->looked && n_seen < MIN((uint32_t)MAX_ENDED, group->n_streams - 1); i--) {
        uint32_t y = g_array_index(group->log, uint32_t, i - 1), q = stream_of(s, y), k = 0;
        while (k < n_seen && seen[k] != q)
            k++;
        if (q == stream_of(s, x) || k < n_seen || !host_orders(s, x, y))
            continue;
        seen[n_seen++] = q;
        add_wait(s, x, y);
    }
    own->looked = group->log->len;
}

/* ---- what a stream waited for ---- */

/* The newest of a stream's items that had ended by @time; ECH_NONE without one. */
static uint32_t ended_by(const Search *s, const Stream *stream, EchTime time)
{
    guint low = 0, high = stream->items->len;
    ECH_SEARCH(low, high, middle, end_of(&s->items[g_array_index(stream->items, uint32_t, middle)]) <= time);
    return low ? g_array_index(stream->items, uint32_t, low - 1) : ECH_NONE;
}

/* The newest of a stream's items before item @limit; ECH_NONE without one. */
static uint32_t newest_before(const Stream *stream, uint32_t limit)
{
    guint low = 0, high = stream->items->len;
    ECH_SEARCH(low, high, middle, g_array_index(stream->items, uint32_t, middle) < limit);
    return low ? g_array_index(stream->items, uint32_t, low - 1) : ECH_NONE;
}

/* Of the streams that @x's has not waited for since, the one that was given work last before item @limit: its newest item then, if it had ended when @x began.
 */
static uint32_t newest_elsewhere(const Search *s, uint32_t x, uint32_t limit)
{
    uint32_t newest = ECH_NONE, own = stream_of(s, x);
    const Group *group = group_at(s, own);
    for (uint32_t q = group->first; q < group->first + group->n_streams; q++) {
        uint32_t y = q != own ? newest_before(&s->streams[q], limit) : ECH_NONE;
        if (y != ECH_NONE && may_await(s, x, y) && s->streams[q].waited[own - group->first] <= y && (newest == ECH_NONE || y > newest))
            newest = y;
    }
    return newest != ECH_NONE && end_of(&s->items[newest]) <= s->items[x].start + CLOCK_PS ? newest : ECH_NONE;
}

/* What visibly held @x up: it had been asked for, its stream was idle, and it began just when this had ended, which was asked for before @before. */
static uint32_t held_up_by(const Search *s, uint32_t x, EchTime before)
{
    const EchItem *item = &s->items[x];
    uint32_t own = stream_of(s, x), newest = newest_of(&s->streams[own]), last = ECH_NONE;
    EchTime ready = newest == ECH_NONE ? item->issued : MAX(item->issued, end_of(&s->items[newest]));
    if (item->start + CLOCK_PS < ready + HELD_UP_PS)
        return ECH_NONE;
    const Group *group = group_at(s, own);
    for (uint32_t q = group->first; q < group->first + group->n_streams; q++) {
        uint32_t y = q != own ? ended_by(s, &s->streams[q], item->start + CLOCK_PS) : ECH_NONE;
        if (y == ECH_NONE || !may_await(s, x, y))
            continue;
        EchTime end = end_of(&s->items[y]);
        if (s->items[y].issued < before && end >= item->start - START_PS && end >= ready + HELD_UP_PS && (last == ECH_NONE || end > end_of(&s->items[last])))
            last = y;
    }
    return last;
}

static void wait_as_called(Search *s, uint32_t x, Caller *caller)
{
    Stream *own = &s->streams[stream_of(s, x)];
    uint32_t newest = newest_of(own);
    EchTime last_wait = MAX(caller->last_wait, own->last_wait);
    uint32_t limit = own->pending != ECH_NONE ? own->pending : caller->pending;
    uint32_t called = limit != ECH_NONE ? newest_elsewhere(s, x, limit) : ECH_NONE;
    if (called != ECH_NONE)
        add_wait(s, x, called);
    if (last_wait > INT64_MIN && (newest == ECH_NONE || s->items[newest].issued < last_wait)) {
        uint32_t y = held_up_by(s, x, last_wait);
        if (y != ECH_NONE)
            add_wait(s, x, y);
    }
    caller->pending = own->pending = ECH_NONE;
}

/* ---- all of it ---- */

static int compare_calls(gconstpointer a, gconstpointer b)
{
    const EchWaitCall *x = a, *y = b;
    return x->time < y->time ? -1 : x->time > y->time;
}

static bool is_work(const Search *s, const EchItem *item)
{
    bool works = item->kind == ECH_ITEM_KERNEL || item->kind == ECH_ITEM_COPY || item->kind == ECH_ITEM_MEMSET || item->kind == ECH_ITEM_COLLECTIVE;
    return works && item->queue < s->n_queues && s->queues[item->queue].stream && item->start != ECH_TIME_NONE && item->duration != ECH_TIME_NONE;
}

static void clear_group(gpointer data)
{
    Group *group = data;
    g_array_unref(group->log);
    g_array_unref(group->running);
}

/* The group of a queue; made when first asked for. */
static uint32_t group_of(Search *s, const EchStreamOf *queue)
{
    for (guint i = 0; i < s->groups->len; i++) {
        const Group *group = &g_array_index(s->groups, Group, i);
        if (group->process == queue->process && (!s->apart || group->device == queue->device))
            return i;
    }
    Group group = {.device = queue->device, .process = queue->process, .stand = {.end = INT64_MIN}};
    group.log = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    group.running = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_array_append_val(s->groups, group);
    return s->groups->len - 1;
}

/* Numbers of streams that work is done on, in their groups. Whether some group has too many. */
static bool group_streams(Search *s, size_t n_items)
{
    bool too_many = false;
    memset(s->index, 0xff, (s->n_queues + 1) * sizeof *s->index);
    g_array_set_size(s->groups, 0);
    for (size_t i = 0; i < n_items; i++) {
        uint32_t q = s->items[i].queue;
        if (!is_work(s, &s->items[i]) || s->index[q] != ECH_NONE)
            continue;
        uint32_t at = group_of(s, &s->queues[q]); /* before the rows are looked at: it may move them */
        s->index[q] = g_array_index(s->groups, Group, at).n_streams++;
        too_many = too_many || s->index[q] >= MAX_STREAMS;
    }
    return too_many;
}

/* Streams that work is done on, by their groups; those of groups of too many are left alone. Their number. */
static uint32_t number_streams(Search *s, size_t n_items)
{
    s->apart = group_streams(s, n_items);
    if (s->apart)
        (void)group_streams(s, n_items);
    uint32_t left_out = 0;
    for (guint i = 0; i < s->groups->len; i++) {
        Group *group = &g_array_index(s->groups, Group, i);
        group->first = s->n;
        if (group->n_streams > MAX_STREAMS) {
            left_out += group->n_streams;
            group->n_streams = 0;
        }
        s->n += group->n_streams;
    }
    return left_out;
}

/* Rows of streams; whether they are of several devices. */
static bool begin(Search *s)
{
    s->streams = g_new0(Stream, s->n);
    bool several = false;
    for (uint32_t q = 0, first = ECH_NONE; q < s->n_queues; q++) {
        if (s->index[q] == ECH_NONE)
            continue;
        uint32_t at = group_of(s, &s->queues[q]);
        const Group *group = &g_array_index(s->groups, Group, at);
        first = first == ECH_NONE ? q : first;
        several = several || s->queues[first].device != s->queues[q].device;
        s->index[q] = group->n_streams > 0 ? group->first + s->index[q] : ECH_NONE;
        if (s->index[q] == ECH_NONE)
            continue;
        s->streams[s->index[q]] = (Stream){.group = at, .device = s->queues[q].device, .pending = ECH_NONE, .last_wait = INT64_MIN};
        s->streams[s->index[q]].items = g_array_new(FALSE, FALSE, sizeof(uint32_t));
        s->streams[s->index[q]].waited = g_new0(uint32_t, group->n_streams);
    }
    return several;
}

static void end(Search *s)
{
    for (uint32_t q = 0; q < s->n; q++) {
        g_array_unref(s->streams[q].items);
        g_free(s->streams[q].waited);
    }
    g_free(s->streams);
}

/* The host's waits that are told hold for its process. */
static void note_stand(const Search *s, const EchItem *item)
{
    if (item->kind != ECH_ITEM_HOST_WAIT || item->start == ECH_TIME_NONE || item->duration == ECH_TIME_NONE || item->queue >= s->n_queues)
        return;
    for (guint i = 0; i < s->groups->len; i++) {
        Group *group = &g_array_index(s->groups, Group, i);
        if (group->process == s->queues[item->queue].process)
            group->stand = (Stand){item->start, end_of(item)};
    }
}

static void search(Search *s, size_t n_items, GArray *calls)
{
    bool several = begin(s); /* of one device, all threads launch in turn (autograd's and the program's own); of several, each thread has its own */
    g_array_sort(calls, compare_calls);
    guint c = 0;
    for (uint32_t x = 0; x < n_items; x++) {
        const EchItem *item = &s->items[x];
        note_stand(s, item);
        if (!is_work(s, item) || s->index[item->queue] == ECH_NONE)
            continue;
        for (; c < calls->len && g_array_index(calls, EchWaitCall, c).time <= item->issued; c++) {
            const EchWaitCall *call = &g_array_index(calls, EchWaitCall, c);
            if (call->end != ECH_TIME_NONE) {
                caller_of(s, call->thread)->stand = (Stand){call->time, call->end};
            } else if (call->queue == ECH_NONE) {
                Caller *caller = caller_of(s, several ? call->thread : 0);
                caller->pending = x;
                caller->last_wait = call->time;
            } else if (s->index[call->queue] != ECH_NONE) {
                s->streams[s->index[call->queue]].pending = x;
                s->streams[s->index[call->queue]].last_wait = call->time;
            }
        }
        Stream *own = &s->streams[s->index[item->queue]];
        Group *group = &g_array_index(s->groups, Group, own->group);
        wait_for_ended(s, group, x);
        uint32_t y = s->told == ECH_WAITS_UNKNOWN ? held_up_by(s, x, INT64_MAX) : ECH_NONE;
        if (y != ECH_NONE)
            add_wait(s, x, y);
        if (s->told != ECH_WAITS_UNKNOWN)
            wait_as_called(s, x, caller_of(s, several ? item->thread : 0));
        g_array_append_val(own->items, x);
        ech_heap_push(group->running, &x, compare_ends, s);
    }
    end(s);
}

GArray *ech_stream_waits(const EchItem *items, size_t n_items, const EchStreamOf *queues, uint32_t n_queues, EchWaitsTold told, GArray *calls,
                         uint32_t *ret_left_out)
{
    Search s = {.items = items, .queues = queues, .n_queues = n_queues, .told = told, .found = g_array_new(FALSE, FALSE, sizeof(EchStreamWait))};
    s.index = g_new(uint32_t, n_queues + 1);
    s.groups = g_array_new(FALSE, FALSE, sizeof(Group));
    g_array_set_clear_func(s.groups, clear_group);
    s.callers = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    *ret_left_out = number_streams(&s, n_items);
    if (s.n > 1 && n_items < ECH_NONE)
        search(&s, n_items, calls);
    g_array_unref(s.groups);
    g_hash_table_unref(s.callers);
    g_free(s.index);
    return s.found;
}
