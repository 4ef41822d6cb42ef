/* Joins what a Kineto file says in several places: copies with what their call asked for, kernels with their launch and their operator, both with the stack
 * they were called from. */
#include "sim/import/kineto.h"

#include "sim/base/hash.h"

#include <string.h>

/* Gives an array's memory back; an empty one stands in its place. */
static void drop(GArray **array)
{
    guint size = g_array_get_element_size(*array);
    g_array_unref(*array);
    *array = g_array_new(FALSE, FALSE, size);
}

static bool is_device_work(const EchItem *item)
{
    return item->kind == ECH_ITEM_KERNEL || item->kind == ECH_ITEM_COPY || item->kind == ECH_ITEM_MEMSET || item->kind == ECH_ITEM_COLLECTIVE;
}

static int compare_launches(gconstpointer a, gconstpointer b)
{
    const Launch *x = a, *y = b;
    return x->correlation < y->correlation ? -1 : x->correlation > y->correlation;
}

static const Launch *find_launch(const Reader *r, int64_t correlation)
{
    guint low = 0, high = r->launches->len;
    while (low < high) {
        guint middle = low + (high - low) / 2;
        if (g_array_index(r->launches, Launch, middle).correlation < correlation)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == r->launches->len || g_array_index(r->launches, Launch, low).correlation != correlation)
        return NULL;
    return &g_array_index(r->launches, Launch, low);
}

static int compare_asked(gconstpointer a, gconstpointer b)
{
    const Asked *x = a, *y = b;
    return x->correlation < y->correlation ? -1 : x->correlation > y->correlation;
}

/* Copies that tell no bytes take those of their call. */
static void join_bytes(Reader *r)
{
    g_array_sort(r->asked, compare_asked);
    uint64_t joined = 0, without = 0;
    for (size_t i = 0; i < ech_capture_n_items(r->capture); i++) {
        EchItem *item = ech_capture_item(r->capture, i);
        if (item->kind != ECH_ITEM_COPY || item->origin != ECH_ABSENT)
            continue;
        Asked key = {.correlation = g_array_index(r->sides, Side, i).correlation};
        const Asked *asked = r->asked->len && key.correlation >= 0 ? bsearch(&key, r->asked->data, r->asked->len, sizeof key, compare_asked) : NULL;
        if (asked) {
            item->bytes = asked->bytes;
            item->origin = ECH_INFERRED;
            joined++;
        } else {
            without++;
        }
    }
    ech_diag_note(r->ret->diag, "copy_bytes_from_their_calls", joined);
    ech_diag_note(r->ret->diag, "copies_without_bytes", without);
}

/* Times of issue from the runtime calls, and the moments at which awaited events were recorded. */
static void join_launches(Reader *r)
{
    g_array_sort(r->launches, compare_launches);
    uint64_t without = 0;
    for (size_t i = 0; i < ech_capture_n_items(r->capture); i++) {
        EchItem *item = ech_capture_item(r->capture, i);
        Side *side = &g_array_index(r->sides, Side, i);
        if (item->kind == ECH_ITEM_STREAM_WAIT || item->kind == ECH_ITEM_HOST_WAIT) {
            const Launch *call = side->correlation >= 0 ? find_launch(r, side->correlation) : NULL;
            const Launch *record = side->external >= 0 ? find_launch(r, side->external) : NULL;
            if (call)
                item->issued = call->start;
            item->address = (uint64_t)(record ? record->start : item->issued);
            side->external = -1;
            continue;
        }
        if (!is_device_work(item))
            continue;
        const Launch *call = side->correlation >= 0 ? find_launch(r, side->correlation) : NULL;
        if (call && call->start <= item->start) {
            item->issued = call->start;
            side->thread = call->thread;
        } else {
            without++;
        }
        if (call && call->in_work_items && side->launch != ECH_NONE) {
            EchGpuLaunch *launch = &g_array_index(r->kernels, EchGpuLaunch, side->launch);
            for (size_t d = 0; d < G_N_ELEMENTS(launch->grid); d++)
                launch->grid[d] = launch->block[d] ? (launch->grid[d] + launch->block[d] - 1) / launch->block[d] : launch->grid[d];
        }
    }
    ech_diag_note(r->ret->diag, "device_events_without_launch", without);
}

/* Without recorded synchronisation, calls of the runtime that wait tell what the host waited for: whatever had ended by then. */
static void infer_host_waits(Reader *r)
{
    if (r->n_syncs)
        return;
    guint n = r->launches->len;
    size_t n_items = ech_capture_n_items(r->capture);
    if (n_items == 0)
        return;
    bool any[MAX_SPACES] = {false};
    for (size_t i = 0; i < n_items; i++) {
        const EchItem *item = ech_capture_item(r->capture, i);
        if (is_device_work(item))
            any[MIN(ech_capture_queue_device(r->capture, item->queue), (uint32_t)MAX_SPACES - 1)] = true;
    }
    uint32_t device = 0, n_devices = 0;
    for (uint32_t d = 0; d < MAX_SPACES; d++) {
        n_devices += any[d];
        device = any[d] && n_devices == 1 ? d : device;
    }
    if (n_devices != 1)
        return;
    for (guint i = 0; i < n; i++) {
        const Launch *call = &g_array_index(r->launches, Launch, i);
        /* A wait for one stream or event of several cannot be told apart: only those for all of the device are sure. */
        if (call->role != SYNC_DEVICE)
            continue;
        EchItem item = ech_item_init(ECH_ITEM_HOST_WAIT);
        item.name = ech_trace_builder_string(r->builder, "Device Sync", -1);
        item.issued = item.start = call->start;
        item.duration = call->end - call->start;
        item.queue = ech_capture_queue(r->capture, "host", ECH_QUEUE_HOST, device);
        item.address = (uint64_t)call->start;
        ech_kineto_add_item(r, &item, -1, -1, UINT32_MAX);
        r->n_host_syncs++;
    }
    ech_diag_note(r->ret->diag, "inferred_host_waits", r->n_host_syncs);
}

/* ---- what streams waited for, where nothing was recorded of it ---- */

/* A call in the order in which the host made it: an item's launch, or a wait of a stream that the file does not name (item = ECH_NONE). */
typedef struct {
    EchTime time;
    uint32_t thread, item;
} Call;

/* What a stream has been given: its items in order, the place of the newest in the order of calls, and how far each other stream has waited for it. */
typedef struct {
    GArray *items;
    uint32_t at;
    uint32_t *waited; /* [stream]: place + 1 of the newest item that it has waited for */
} Stream;

enum { MAX_STREAMS = 256 };
/* Recorded times are of whole microseconds in old files. A kernel starts within a few of them once what it waited for has ended. */
static const EchTime CLOCK_PS = 2 * ECH_PS_PER_US, START_PS = 15 * ECH_PS_PER_US, HELD_UP_PS = 5 * ECH_PS_PER_US;

static int compare_calls(gconstpointer a, gconstpointer b)
{
    const Call *x = a, *y = b;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return x->item < y->item ? 1 : x->item > y->item ? -1 : 0;
}

static EchTime end_of(const EchItem *item)
{
    return ech_time_add(item->start, item->duration);
}

/* The newest of a stream's items that had ended by @time; ECH_NONE without one. */
static uint32_t ended_by(const Reader *r, const Stream *stream, EchTime time)
{
    guint low = 0, high = stream->items->len;
    while (low < high) {
        guint middle = low + (high - low) / 2;
        if (end_of(ech_capture_item(r->capture, g_array_index(stream->items, uint32_t, middle))) <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? g_array_index(stream->items, uint32_t, low - 1) : ECH_NONE;
}

/* Of the streams that @x's has not waited for since, the one that was given work last: its newest item, if it had ended when @x began. */
static uint32_t newest_elsewhere(const Reader *r, const Stream *streams, uint32_t n, const EchItem *x)
{
    uint32_t newest = ECH_NONE;
    for (uint32_t q = 0; q < n; q++) {
        if (q == x->queue || streams[q].items->len == 0 || ech_capture_queue_device(r->capture, q) != ech_capture_queue_device(r->capture, x->queue) ||
            streams[q].waited[x->queue] > streams[q].at)
            continue;
        if (newest == ECH_NONE || streams[q].at > streams[newest].at)
            newest = q;
    }
    if (newest == ECH_NONE)
        return ECH_NONE;
    uint32_t y = g_array_index(streams[newest].items, uint32_t, streams[newest].items->len - 1);
    return end_of(ech_capture_item(r->capture, y)) <= x->start + CLOCK_PS ? y : ECH_NONE;
}

/* What visibly held @x up: it had been asked for, its stream was idle, and it began just when this had ended. */
static uint32_t held_up_by(const Reader *r, const Stream *streams, uint32_t n, const EchItem *x, EchTime before)
{
    const GArray *own = streams[x->queue].items;
    EchTime ready = x->issued;
    if (own->len)
        ready = MAX(ready, end_of(ech_capture_item(r->capture, g_array_index(own, uint32_t, own->len - 1))));
    uint32_t last = ECH_NONE;
    for (uint32_t q = 0; q < n; q++) {
        if (q == x->queue || ech_capture_queue_device(r->capture, q) != ech_capture_queue_device(r->capture, x->queue))
            continue;
        uint32_t y = ended_by(r, &streams[q], x->start + CLOCK_PS);
        if (y == ECH_NONE)
            continue;
        const EchItem *item = ech_capture_item(r->capture, y);
        EchTime end = end_of(item);
        if (item->issued < before && end >= x->start - START_PS && end >= ready + HELD_UP_PS &&
            (last == ECH_NONE || end > end_of(ech_capture_item(r->capture, last))))
            last = y;
    }
    return last;
}

static Stream *streams_new(uint32_t n)
{
    Stream *streams = g_new0(Stream, n);
    for (uint32_t q = 0; q < n; q++) {
        streams[q].items = g_array_new(FALSE, FALSE, sizeof(uint32_t));
        streams[q].waited = g_new0(uint32_t, n);
    }
    return streams;
}

static void streams_free(Stream *streams, uint32_t n)
{
    for (uint32_t q = 0; q < n; q++) {
        g_array_unref(streams[q].items);
        g_free(streams[q].waited);
    }
    g_free(streams);
}

/* Lets the stream of item @x wait for item @y of another one, from before @x on. */
static void add_stream_wait(Reader *r, Stream *streams, uint32_t x, uint32_t y, const uint32_t *places)
{
    if (y == ECH_NONE)
        return;
    const EchItem *waits = ech_capture_item(r->capture, x), *awaited = ech_capture_item(r->capture, y);
    if (streams[awaited->queue].waited[waits->queue] > places[y] || awaited->issued >= waits->issued)
        return;
    streams[awaited->queue].waited[waits->queue] = places[y] + 1;
    EchItem item = ech_item_init(ECH_ITEM_STREAM_WAIT);
    item.name = ech_trace_builder_string(r->builder, "Stream Wait Event", -1);
    item.issued = waits->issued - 1;
    item.address = (uint64_t)awaited->issued;
    item.queue = waits->queue;
    item.other = awaited->queue;
    item.start = item.duration = ECH_TIME_NONE;
    ech_kineto_add_item(r, &item, -1, -1, UINT32_MAX);
    r->n_inferred_waits++;
}

/* PyTorch's profiler says which stream waited for which only where it was asked to (enable_cuda_sync_events); else there are the calls, which name neither
 * the stream nor the event. What is launched next after such a call waits: for the stream that was given work last before it. Otherwise, what began late,
 * just when another stream's work had ended, waited for that. Neither may contradict the recorded times. */
static void infer_stream_waits(Reader *r)
{
    if (r->n_syncs)
        return;
    size_t n_items = ech_capture_n_items(r->capture);
    g_autoptr(GArray) calls = g_array_new(FALSE, FALSE, sizeof(Call));
    uint32_t n = 0, device = ECH_NONE;
    bool several = false;
    for (guint i = 0; i < r->launches->len; i++) {
        const Launch *launch = &g_array_index(r->launches, Launch, i);
        if (launch->role == SYNC_STREAM_WAIT)
            g_array_append_val(calls, ((Call){launch->start, launch->thread, ECH_NONE}));
    }
    if (calls->len == 0)
        return;
    for (size_t i = 0; i < n_items; i++) {
        const EchItem *item = ech_capture_item(r->capture, i);
        uint32_t thread = g_array_index(r->sides, Side, i).thread;
        if (!is_device_work(item) || thread == UINT32_MAX || item->start == ECH_TIME_NONE || item->duration == ECH_TIME_NONE)
            continue;
        uint32_t on = ech_capture_queue_device(r->capture, item->queue);
        several = several || (device != ECH_NONE && on != device);
        device = on;
        n = MAX(n, item->queue + 1);
        g_array_append_val(calls, ((Call){item->issued, thread, (uint32_t)i}));
    }
    if (n > MAX_STREAMS)
        return;
    /* Of one device, all threads launch in turn (autograd's and the program's own); of several, each thread has its own. */
    for (guint i = 0; !several && i < calls->len; i++)
        g_array_index(calls, Call, i).thread = 0;
    g_array_sort(calls, compare_calls);
    g_autofree uint32_t *places = g_new0(uint32_t, n_items);
    Stream *streams = streams_new(n);
    bool pending = false, any = false;
    EchTime last_wait = 0;
    for (guint i = 0; i < calls->len; i++) {
        const Call *call = &g_array_index(calls, Call, i);
        if (i && call->thread != g_array_index(calls, Call, i - 1).thread) {
            streams_free(streams, n);
            streams = streams_new(n);
            pending = any = false;
        }
        if (call->item == ECH_NONE) {
            pending = any = true;
            last_wait = call->time;
            continue;
        }
        EchItem x = *ech_capture_item(r->capture, call->item);
        Stream *own = &streams[x.queue];
        places[call->item] = i;
        if (pending)
            add_stream_wait(r, streams, call->item, newest_elsewhere(r, streams, n, &x), places);
        if (any && (own->items->len == 0 || ech_capture_item(r->capture, g_array_index(own->items, uint32_t, own->items->len - 1))->issued < last_wait))
            add_stream_wait(r, streams, call->item, held_up_by(r, streams, n, &x, last_wait), places);
        pending = false;
        g_array_append_val(own->items, call->item);
        own->at = i;
    }
    streams_free(streams, n);
    ech_diag_note(r->ret->diag, "inferred_stream_waits", r->n_inferred_waits);
    if (r->n_inferred_waits > 0)
        ech_trace_builder_printf_property(r->builder, "inferred_stream_waits", "%" G_GUINT64_FORMAT, r->n_inferred_waits);
}

static int compare_shapes(gconstpointer a, gconstpointer b)
{
    const Shape *x = a, *y = b;
    return x->external < y->external ? -1 : x->external > y->external;
}

static Shape *find_shape(Reader *r, int64_t external)
{
    guint low = 0, high = r->shapes->len;
    while (low < high) {
        guint middle = low + (high - low) / 2;
        if (g_array_index(r->shapes, Shape, middle).external < external)
            low = middle + 1;
        else
            high = middle;
    }
    return low < r->shapes->len && g_array_index(r->shapes, Shape, low).external == external ? &g_array_index(r->shapes, Shape, low) : NULL;
}

/* Traffic, operations and shape of every kernel, from its operator, its name and its launch. */
static void infer_traffic(Reader *r)
{
    g_array_sort(r->shapes, compare_shapes);
    g_autoptr(GHashTable) names = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    size_t n = ech_capture_n_items(r->capture);
    for (size_t i = 0; i < n; i++) {
        const EchItem *item = ech_capture_item(r->capture, i);
        const Side *side = &g_array_index(r->sides, Side, i);
        Shape *shape = item->kind == ECH_ITEM_KERNEL ? find_shape(r, side->external) : NULL;
        if (!shape)
            continue;
        const EchGpuLaunch *launch = side->launch != ECH_NONE ? &g_array_index(r->kernels, EchGpuLaunch, side->launch) : NULL;
        ech_gpu_call_count(&shape->call, ech_gpu_name_of(r->capture, names, item->name), launch);
    }
    uint64_t inferred = 0, by_grid = 0;
    g_autoptr(GString) text = g_string_new(NULL);
    for (size_t i = 0; i < n; i++) {
        EchItem *item = ech_capture_item(r->capture, i);
        const Side *side = &g_array_index(r->sides, Side, i);
        if (item->kind != ECH_ITEM_KERNEL)
            continue;
        const Shape *shape = find_shape(r, side->external);
        const EchGpuName *name = ech_gpu_name_of(r->capture, names, item->name);
        EchGpuLaunch launch = side->launch != ECH_NONE ? g_array_index(r->kernels, EchGpuLaunch, side->launch) : (EchGpuLaunch){0};
        double share = shape ? ech_gpu_call_share(&shape->call, name, side->launch != ECH_NONE ? &launch : NULL) : 0;
        EchItemWork work;
        if (ech_gpu_kernel_work(shape ? &shape->call.whole : NULL, name, share, &launch, &work)) {
            item->work = ech_capture_work(r->capture, work);
            *(shape ? &inferred : &by_grid) += 1;
        }
        g_string_truncate(text, 0);
        ech_gpu_launch_print(&launch, text);
        if (text->len > 0)
            item->other = ech_trace_builder_string(r->builder, text->str, (gssize)text->len);
    }
    ech_diag_note(r->ret->diag, "kernel_traffic_inferred_from_shapes", inferred);
    ech_diag_note(r->ret->diag, "kernel_traffic_inferred_from_grids", by_grid);
}

/* ---- stacks ---- */

typedef struct {
    EchTime time;
    uint32_t thread, item;
} Lookup;

/* A path of enclosing spans, shared by all launches below it. */
typedef struct {
    uint32_t parent; /* path index, UINT32_MAX at the outermost */
    EchId name, text;
} Path;

static int compare_spans(gconstpointer a, gconstpointer b)
{
    const Span *x = a, *y = b;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->duration > y->duration ? -1 : x->duration < y->duration;
}

static int compare_lookups(gconstpointer a, gconstpointer b)
{
    const Lookup *x = a, *y = b;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

static uint32_t path_of(GArray *paths, GHashTable *index, uint32_t parent, EchId name)
{
    gpointer key = GSIZE_TO_POINTER((gsize)parent << 32 | name);
    gpointer found;
    if (g_hash_table_lookup_extended(index, key, NULL, &found))
        return GPOINTER_TO_UINT(found);
    Path path = {parent, name, ECH_NONE};
    g_array_append_val(paths, path);
    g_hash_table_insert(index, key, GUINT_TO_POINTER(paths->len - 1));
    return paths->len - 1;
}

static EchId path_text(Reader *r, GArray *paths, uint32_t at, GString *scratch, uint64_t *budget)
{
    Path *path = &g_array_index(paths, Path, at);
    if (path->text != ECH_NONE)
        return path->text;
    g_string_truncate(scratch, 0);
    for (uint32_t i = at; i != UINT32_MAX; i = g_array_index(paths, Path, i).parent) {
        if (scratch->len > *budget) {
            ech_diag_dropped(r->ret->diag, "stacks_cut", 1, NULL);
            break;
        }
        if (scratch->len)
            g_string_append_c(scratch, '\n');
        g_string_append(scratch, ech_trace_builder_peek_string(r->builder, g_array_index(paths, Path, i).name));
    }
    *budget -= MIN(*budget, scratch->len);
    path->text = ech_trace_builder_string(r->builder, scratch->str, (gssize)scratch->len);
    return path->text;
}

/* Each launch and allocation gets the operators and Python functions that enclose it on its thread, innermost first. */
static void join_stacks(Reader *r)
{
    g_autoptr(GArray) lookups = g_array_new(FALSE, FALSE, sizeof(Lookup));
    size_t n = ech_capture_n_items(r->capture);
    for (size_t i = 0; i < n; i++) {
        const EchItem *item = ech_capture_item(r->capture, i);
        Lookup lookup = {item->issued, g_array_index(r->sides, Side, i).thread, (uint32_t)i};
        if (lookup.thread != UINT32_MAX)
            g_array_append_val(lookups, lookup);
    }
    g_array_sort(lookups, compare_lookups);
    g_array_sort(r->spans, compare_spans);
    g_autoptr(GArray) paths = g_array_new(FALSE, FALSE, sizeof(Path));
    g_autoptr(GHashTable) index = g_hash_table_new(ech_hash_key, NULL);
    g_autoptr(GArray) open = g_array_new(FALSE, FALSE, sizeof(uint32_t)); /* spans and their paths in turn */
    g_autoptr(GString) scratch = g_string_new(NULL);
    /* Written out, shared stacks can be far longer than the file: an eighth of it is kept. */
    uint64_t budget = MAX((uint64_t)16 << 20, ech_json_offset(r->json) / 8);
    guint s = 0;
    for (guint l = 0; l < lookups->len; l++) {
        const Lookup *lookup = &g_array_index(lookups, Lookup, l);
        if (l && lookup->thread != g_array_index(lookups, Lookup, l - 1).thread)
            g_array_set_size(open, 0);
        for (; s < r->spans->len; s++) {
            const Span *span = &g_array_index(r->spans, Span, s);
            if (span->thread > lookup->thread || (span->thread == lookup->thread && span->start > lookup->time))
                break;
            if (span->thread < lookup->thread)
                continue;
            while (open->len) {
                const Span *top = &g_array_index(r->spans, Span, g_array_index(open, uint32_t, open->len - 2));
                if (top->start + top->duration > span->start || (top->duration == 0 && top->start == span->start))
                    break;
                g_array_set_size(open, open->len - 2);
            }
            if (open->len >= 2 * 512)
                continue;
            uint32_t path = path_of(paths, index, open->len ? g_array_index(open, uint32_t, open->len - 1) : UINT32_MAX, span->name);
            g_array_append_val(open, s);
            g_array_append_val(open, path);
        }
        while (open->len) {
            const Span *top = &g_array_index(r->spans, Span, g_array_index(open, uint32_t, open->len - 2));
            if (top->start + top->duration >= lookup->time)
                break;
            g_array_set_size(open, open->len - 2);
        }
        if (open->len)
            ech_capture_item(r->capture, lookup->item)->stack = path_text(r, paths, g_array_index(open, uint32_t, open->len - 1), scratch, &budget);
    }
    ech_diag_note(r->ret->diag, "cpu_spans_kept_as_stacks", r->spans->len);
    drop(&r->spans); /* by far the largest */
}

void ech_kineto_join(Reader *r)
{
    join_bytes(r);
    join_launches(r);
    infer_stream_waits(r);
    infer_host_waits(r);
    infer_traffic(r);
    join_stacks(r);
    /* What the trace is made of is in the capture now: the rest goes before the trace comes. */
    drop(&r->launches);
    drop(&r->asked);
    drop(&r->sides);
    drop(&r->shapes);
    drop(&r->kernels);
}
