/* Joins what a Kineto file says in several places: copies with what their call asked for, kernels with their launch and their operator, both with the stack
 * they were called from. */
#include "sim/import/kineto.h"

#include "models/kernel/comm_name.h"
#include "sim/base/compare.h"
#include "sim/base/fnv.h"
#include "sim/base/hash.h"
#include "sim/trace/meets.h"

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
    ECH_SEARCH(low, high, middle, g_array_index(r->launches, Launch, middle).correlation < correlation);
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
            item->thread = side->thread = call->thread;
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

/* What the file says of the waits of streams: all where PyTorch's profiler was asked to (enable_cuda_sync_events), else the calls, if it has the host's. Where
 * it was asked and says of none what for, Kineto has not heard of any event (with CUDA 12.9 and later, pytorch/kineto#1552). */
static void tell_waits(Reader *r)
{
    bool asked = r->n_syncs + r->n_untold > 0, unheard = r->n_untold > 0 && r->n_stream_waits == 0;
    ech_capture_set_waits(r->capture, asked && !unheard ? ECH_WAITS_TOLD : asked || r->launches->len ? ECH_WAITS_CALLS : ECH_WAITS_UNKNOWN);
    for (guint i = 0; i < r->launches->len; i++) {
        const Launch *launch = &g_array_index(r->launches, Launch, i);
        if (launch->role == SYNC_STREAM_WAIT && !asked)
            ech_capture_wait_call(r->capture, launch->start, launch->thread, ECH_NONE);
        if (launch->role == SYNC_STREAM || launch->role == SYNC_DEVICE || launch->role == SYNC_EVENT)
            ech_capture_stand_call(r->capture, launch->start, launch->end, launch->thread);
    }
    if (!unheard)
        return;
    ech_trace_builder_set_property(r->builder, "stream_waits_told", "yes"); /* it need not be asked again */
    ech_diag_remark(r->ret->diag,
                    "of none of the %" G_GUINT64_FORMAT " waits of streams in it is told what for: Kineto leaves that out for events of another "
                    "device, and with CUDA 12.9 and later for all (github.com/pytorch/kineto/pull/1552)",
                    r->n_untold);
}

static int compare_shapes(gconstpointer a, gconstpointer b)
{
    const Shape *x = a, *y = b;
    return x->external < y->external ? -1 : x->external > y->external;
}

static Shape *find_shape(Reader *r, int64_t external)
{
    guint low = 0, high = r->shapes->len;
    ECH_SEARCH(low, high, middle, g_array_index(r->shapes, Shape, middle).external < external);
    return low < r->shapes->len && g_array_index(r->shapes, Shape, low).external == external ? &g_array_index(r->shapes, Shape, low) : NULL;
}

/* ---- collectives that do not say what they send ---- */

static int compare_comms(gconstpointer a, gconstpointer b)
{
    const Comm *x = a, *y = b;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Adds what the calls around @time say to @ret; the innermost that says what is sent, or NULL. */
static Comm *enclosing(Reader *r, uint32_t thread, EchTime time, uint32_t *ret_group)
{
    guint low = 0, high = r->comms->len;
    while (low < high) {
        guint middle = low + (high - low) / 2;
        const Comm *comm = &g_array_index(r->comms, Comm, middle);
        if (comm->thread < thread || (comm->thread == thread && comm->start <= time))
            low = middle + 1;
        else
            high = middle;
    }
    Comm *found = NULL;
    enum { NEAR = 8 }; /* calls of these kinds nest in twos */
    for (guint i = low, n = 0; i > 0 && n < NEAR; i--, n++) {
        Comm *comm = &g_array_index(r->comms, Comm, i - 1);
        if (comm->thread != thread)
            break;
        if (comm->end < time)
            continue;
        found = found || comm->bytes == 0 ? found : comm;
        *ret_group = *ret_group > 0 ? *ret_group : comm->group;
    }
    return found;
}

/* What a library's kernel sends by itself, of the operator that launched it: an all-reduce its largest operand, an all-gather a share of it. */
static uint64_t sent_by(const Shape *shape, EchComm comm, uint32_t group)
{
    const EchGpuOperator *whole = shape ? &shape->call.whole : NULL;
    if (!whole || whole->listed > 0 || group < 2)
        return 0;
    uint64_t bytes = ech_bytes_mul(whole->elements, ech_dtype_bits((EchDtype)whole->dtype)) / 8;
    return comm == ECH_COMM_ALL_GATHER ? bytes / group : bytes;
}

/* A kernel that communicates, and what its name says of that. */
typedef struct {
    size_t item;
    EchCommName name;
} Talking;

/* Talking[], in the order of the items. Each name is looked through once. */
static GArray *kernels_that_talk(const Reader *r)
{
    GArray *talking = g_array_new(FALSE, FALSE, sizeof(Talking));
    g_autoptr(GHashTable) names = g_hash_table_new_full(NULL, NULL, NULL, g_free); /* String id + 1 -> EchCommName; NULL: does not communicate. */
    for (size_t i = 0; i < ech_capture_n_items(r->capture); i++) {
        const EchItem *item = ech_capture_item(r->capture, i);
        gpointer key = GUINT_TO_POINTER(item->name + 1), known;
        if (item->kind != ECH_ITEM_KERNEL)
            continue;
        if (!g_hash_table_lookup_extended(names, key, NULL, &known)) {
            EchCommName name;
            known = ech_comm_name(ech_trace_builder_peek_string(r->builder, item->name), &name) ? g_memdup2(&name, sizeof name) : NULL;
            g_hash_table_insert(names, key, known);
        }
        if (known) {
            Talking one = {.item = i, .name = *(const EchCommName *)known};
            g_array_append_val(talking, one);
        }
    }
    return talking;
}

/* Kernels that communicate and do not say how much become collectives where the calls or operators that launched them do; where nothing says how many take
 * part, all processes of the run. */
static void size_collectives(Reader *r)
{
    static const uint8_t kinds[] = {[ECH_COMM_ALL_REDUCE] = ECH_COLLECTIVE_ALL_REDUCE,
                                    [ECH_COMM_ALL_GATHER] = ECH_COLLECTIVE_ALL_GATHER,
                                    [ECH_COMM_REDUCE_SCATTER] = ECH_COLLECTIVE_REDUCE_SCATTER,
                                    [ECH_COMM_ALL_TO_ALL] = ECH_COLLECTIVE_ALL_TO_ALL,
                                    [ECH_COMM_PERMUTE] = ECH_COLLECTIVE_NONE,
                                    [ECH_COMM_BROADCAST] = ECH_COLLECTIVE_BROADCAST};
    uint32_t world = r->world >= 2 && r->world <= 1 << 20 ? (uint32_t)r->world : 0, group = 0;
    g_autoptr(GArray) talking = kernels_that_talk(r);
    g_array_sort(r->comms, compare_comms);
    g_array_sort(r->shapes, compare_shapes);
    for (int pass = 0; pass < 2; pass++) /* a call may launch several, which share what it sends */
        for (guint k = 0; k < talking->len; k++) {
            size_t i = g_array_index(talking, Talking, k).item;
            EchCommName name = g_array_index(talking, Talking, k).name;
            EchItem *item = ech_capture_item(r->capture, i);
            const Side *side = &g_array_index(r->sides, Side, i);
            group = name.group;
            Comm *comm = side->thread != UINT32_MAX ? enclosing(r, side->thread, item->issued, &group) : NULL;
            if (pass == 0) {
                if (comm)
                    comm->kernels++;
                continue;
            }
            bool all = group < 2;
            group = all ? world : group;
            uint8_t kind = comm ? comm->kind : name.known ? kinds[name.comm] : ECH_COLLECTIVE_NONE;
            uint64_t bytes = comm ? comm->bytes / comm->kernels : sent_by(find_shape(r, side->external), (EchComm)name.comm, group);
            if (kind == ECH_COLLECTIVE_NONE || bytes == 0 || group < 2)
                continue;
            item->kind = ECH_ITEM_COLLECTIVE;
            item->from = kind;
            item->bytes = bytes;
            item->origin = ECH_INFERRED;
            item->other = kind == ECH_COLLECTIVE_SEND || kind == ECH_COLLECTIVE_RECV ? 2 : group;
            ech_diag_note(r->ret->diag, "collectives_sized_by_their_calls", 1);
            ech_diag_note(r->ret->diag, "collectives_taken_as_of_all_processes", all);
        }
}

/* ---- who meets whom ---- */

static int compare_met(gconstpointer a, gconstpointer b, gpointer data)
{
    const Reader *r = data;
    const Met *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    EchTime s = ech_capture_item(r->capture, x->item)->start, t = ech_capture_item(r->capture, y->item)->start;
    return s != t ? (s < t ? -1 : 1) : x->item < y->item ? -1 : x->item > y->item;
}

/* Numbers collectives of each group, and messages of each pair, in the order in which they ran: NCCL runs those of a group one after another. */
static void number_meetings(Reader *r)
{
    /* What is sent and not longer goes ahead of who receives it: NCCL_BUFFSIZE, unless set. */
    static const EchBytes BUFFER = 4 << 20;
    for (guint i = 0; i < r->met->len; i++) {
        Met *met = &g_array_index(r->met, Met, i);
        const EchItem *item = ech_capture_item(r->capture, met->item);
        bool sends = item->from == ECH_COLLECTIVE_SEND, message = sends || item->from == ECH_COLLECTIVE_RECV;
        int64_t *own = sends ? &met->from : &met->to, ends[2];
        *own = message && *own < 0 ? r->rank : *own;
        ends[0] = met->from;
        ends[1] = met->to;
        met->group =
            message && (ends[0] < 0 || ends[1] < 0) ? 0 : ech_fnv(met->group, ends, message ? sizeof ends : 0) >> 2; /* below select.c's and meets.c's */
    }
    g_array_sort_with_data(r->met, compare_met, r);
    g_autoptr(GString) text = g_string_new(NULL);
    EchMeeting meeting = {0};
    for (guint i = 0; i < r->met->len; i++) {
        const Met *met = &g_array_index(r->met, Met, i), *before = i > 0 ? met - 1 : met;
        EchItem *item = ech_capture_item(r->capture, met->item);
        meeting.times = i > 0 && before->group == met->group && before->process == met->process ? meeting.times + 1 : 0;
        meeting.group = met->group;
        meeting.sends = item->from == ECH_COLLECTIVE_SEND;
        meeting.buffer = meeting.sends ? BUFFER : 0;
        g_string_truncate(text, 0);
        ech_meets_print(text, meeting);
        item->meets = met->group ? ech_trace_builder_string(r->builder, text->str, (gssize)text->len) : ECH_NONE;
    }
    if (r->met->len > 0)
        ech_trace_builder_set_property(r->builder, ECH_TRACE_MEETS_COUNTED, "1");
}

/* Traffic, operations and shape of every kernel, from its operator, its name and its launch. */
static void infer_traffic(Reader *r)
{
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
    tell_waits(r);
    infer_host_waits(r);
    size_collectives(r);
    number_meetings(r);
    infer_traffic(r);
    join_stacks(r);
    /* What the trace is made of is in the capture now: the rest goes before the trace comes. */
    drop(&r->launches);
    drop(&r->asked);
    drop(&r->sides);
    drop(&r->shapes);
    drop(&r->kernels);
    drop(&r->comms);
    drop(&r->met);
}
