/* Streams, events and graphs. Nothing waits: what was asked for is done. */
#include "pretend.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, ILLEGAL_STATE = 401, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, CAPTURE_UNMATCHED = 903 };

typedef struct {
    const char *word; /* a literal */
    int device;
    uint32_t stream;
    size_t rest;            /* where the line goes on in the graph's texts */
    uint32_t node;          /* it is told as `captured T NODE`, and as `node NODE` before each of its lines; 0: an event, which is not */
    PretendLengths lengths; /* n 0: none */
} Item;

typedef struct Graph {
    unsigned references;
    uint64_t id;
    uint32_t origin; /* stream that the capture began on: work there goes to the stream of the launch */
    int device;      /* that stream's */
    bool open, broken;
    Item *items;
    size_t n_items, item_room;
    char *texts;
    size_t text_used, text_room;
    struct Graph *next; /* of those being captured */
} Graph;

/* What is launched. */
typedef struct {
    Graph *graph;
} Instance;

/* cudaGraphExecUpdateResultInfo of CUDA 12 and later; before, a node, and behind it the result. */
typedef struct {
    int result;
    void *node, *from;
} UpdateResult;

typedef struct {
    uint32_t number;
    int device, priority;
    unsigned flags;
    uint64_t capture;  /* id of the graph that it is captured into; 0: none. Of a capture that ended: none, too */
    bool communicates; /* what was asked of it last is a collective */
} Stream;              /* the first four never change */

typedef struct {
    uint32_t number;
    uint64_t launches; /* before it */
    uint64_t capture;  /* as Stream's */
    int not_ready;     /* as often whoever asks hears that it has not happened yet */
} Event;

enum { NOT_READY = 600 /* cudaErrorNotReady */, NOT_READY_TIMES = 3 };

static Graph *captures; /* open ones */
static uint32_t n_streams, n_events, n_nodes;
static uint64_t n_graphs, n_launches; /* what events count: launches, and what is told to take as long as so many */

/* Default streams (1: the legacy one, 2: a thread's own) have none. */
static Stream *stream_of(void *stream)
{
    return (uintptr_t)stream <= 2 ? NULL : stream;
}

uint32_t pretend_stream(void *stream)
{
    const Stream *s = stream_of(stream);
    return s ? s->number : 0;
}

int pretend_stream_device(void *stream)
{
    const Stream *s = stream_of(stream);
    return s ? s->device : pretend_current_device();
}

/* ---- graphs ---- */

/* The open graph of that id, with the lock held. */
static Graph *capture_of(uint64_t id)
{
    Graph *graph = id ? captures : NULL;
    while (graph && graph->id != id)
        graph = graph->next;
    return graph;
}

static bool append(Graph *graph, const Item *item, const char *rest)
{
    size_t n = strlen(rest);
    if (graph->n_items == graph->item_room) {
        size_t room = graph->item_room ? 2 * graph->item_room : 256;
        Item *larger = realloc(graph->items, room * sizeof *larger);
        if (!larger)
            return false;
        graph->items = larger;
        graph->item_room = room;
    }
    if (graph->text_room - graph->text_used < n + 1) {
        size_t room = 2 * (graph->text_room + n + 1);
        char *larger = realloc(graph->texts, room);
        if (!larger)
            return false;
        graph->texts = larger;
        graph->text_room = room;
    }
    memcpy(graph->texts + graph->text_used, rest, n + 1);
    graph->items[graph->n_items] = *item;
    graph->items[graph->n_items++].rest = graph->text_used;
    graph->text_used += n + 1;
    return true;
}

void pretend_takes_longer(unsigned launches)
{
    pretend_lock();
    n_launches += launches;
    pretend_unlock();
}

bool pretend_graph_take(const char *word, void *stream, const char *rest)
{
    const Stream *s = stream_of(stream);
    pretend_lock();
    n_launches += *word == 'k' || *word == 'l'; /* kernel, library */
    Graph *graph = s ? capture_of(s->capture) : NULL;
    if (graph) {
        Item item = {.word = word, .device = s->device, .stream = s->number};
        if (*word != 'r' && *word != 'w') { /* record, wait */
            item.node = ++n_nodes;
            if (*word == 'k' && pretend_lengths()) /* kernel */
                item.lengths = *pretend_lengths();
        }
        graph->broken |= !append(graph, &item, rest);
        if (item.node > 0)
            pretend_event("captured", "%u", item.node);
    }
    pretend_unlock();
    return graph != NULL;
}

static void ref(Graph *graph)
{
    pretend_lock();
    graph->references++;
    pretend_unlock();
}

static void unref(Graph *graph)
{
    pretend_lock();
    bool last = --graph->references == 0;
    pretend_unlock();
    if (!last)
        return;
    free(graph->items);
    free(graph->texts);
    free(graph);
}

static int begin_capture(void *stream, Graph *graph)
{
    Stream *s = stream_of(stream);
    if (!s)
        return pretend_fail(INVALID_VALUE);
    pretend_lock();
    bool free_now = !capture_of(s->capture) && !graph->open;
    if (free_now) {
        graph->origin = graph->n_items > 0 ? graph->origin : s->number;
        graph->device = s->device;
        graph->open = true;
        graph->next = captures;
        captures = graph;
        s->capture = graph->id;
    }
    pretend_unlock();
    return free_now ? SUCCESS : pretend_fail(ILLEGAL_STATE);
}

static Graph *new_graph(void)
{
    Graph *graph = calloc(1, sizeof *graph);
    if (graph)
        *graph = (Graph){.references = 1, .id = __atomic_add_fetch(&n_graphs, 1, __ATOMIC_RELAXED)};
    return graph;
}

PRETEND_EXPORT int cudaStreamBeginCapture(void *stream, int mode)
{
    (void)mode;
    Graph *graph = new_graph();
    int error = graph ? begin_capture(stream, graph) : pretend_fail(OUT_OF_MEMORY);
    if (error != SUCCESS && graph)
        unref(graph);
    return error;
}

PRETEND_EXPORT int cudaStreamBeginCaptureToGraph(void *stream, void *graph, const void *after, const void *edges, size_t n, int mode)
{
    (void)after, (void)edges, (void)n, (void)mode;
    int error = begin_capture(stream, graph);
    if (error == SUCCESS)
        ref(graph);
    return error;
}

PRETEND_EXPORT int cudaStreamEndCapture(void *stream, void **ret)
{
    Stream *s = stream_of(stream);
    pretend_lock();
    Graph *graph = s ? capture_of(s->capture) : NULL;
    for (Graph **at = &captures; graph && *at; at = &(*at)->next) {
        if (*at == graph) {
            *at = graph->next;
            break;
        }
    }
    if (graph) {
        graph->open = false;
        s->capture = 0;
    }
    pretend_unlock();
    bool broken = graph && graph->broken;
    if (broken)
        unref(graph);
    *ret = broken ? NULL : graph;
    return !graph ? pretend_fail(CAPTURE_UNMATCHED) : broken ? pretend_fail(CAPTURE_INVALIDATED) : SUCCESS;
}

static int capture_info(void *stream, int *ret_status, uint64_t *ret_id, void **ret_graph)
{
    const Stream *s = stream_of(stream);
    pretend_lock();
    Graph *graph = s ? capture_of(s->capture) : NULL;
    pretend_unlock();
    *ret_status = graph != NULL;
    if (ret_id)
        *ret_id = graph ? graph->id : 0;
    if (ret_graph && graph)
        *ret_graph = graph;
    return SUCCESS;
}

PRETEND_EXPORT int cudaStreamIsCapturing(void *stream, int *ret)
{
    return capture_info(stream, ret, NULL, NULL);
}

/* Of CUDA 12 the short one (its graph is what _v2 and _v3 tell), of CUDA 13 the long one. Dependencies: none are told. */
PRETEND_EXPORT int cudaStreamGetCaptureInfo(void *stream, int *ret_status, uint64_t *ret_id, void **ret_graph, const void **ret_before, const void **ret_edges,
                                            size_t *ret_n)
{
    bool whole = pretend_runtime_version() >= 13000;
    if (whole && ret_before)
        *ret_before = NULL;
    if (whole && ret_edges)
        *ret_edges = NULL;
    if (whole && ret_n)
        *ret_n = 0;
    return capture_info(stream, ret_status, ret_id, whole ? ret_graph : NULL);
}

PRETEND_EXPORT int cudaStreamGetCaptureInfo_v2(void *stream, int *ret_status, uint64_t *ret_id, void **ret_graph, const void **ret_before, size_t *ret_n)
{
    if (ret_before)
        *ret_before = NULL;
    if (ret_n)
        *ret_n = 0;
    return capture_info(stream, ret_status, ret_id, ret_graph);
}

PRETEND_EXPORT int cudaStreamGetCaptureInfo_v3(void *stream, int *ret_status, uint64_t *ret_id, void **ret_graph, const void **ret_before,
                                               const void **ret_edges, size_t *ret_n)
{
    if (ret_edges)
        *ret_edges = NULL;
    return cudaStreamGetCaptureInfo_v2(stream, ret_status, ret_id, ret_graph, ret_before, ret_n);
}

PRETEND_EXPORT int cudaStreamUpdateCaptureDependencies(void *stream)
{
    (void)stream;
    return SUCCESS;
}

PRETEND_EXPORT int cudaStreamUpdateCaptureDependencies_v2(void *stream)
{
    (void)stream;
    return SUCCESS;
}

/* Modes: 0 global, which nothing of ours minds. */
PRETEND_EXPORT int cudaThreadExchangeStreamCaptureMode(int *mode)
{
    static __thread int held;
    int was = held;
    held = *mode;
    *mode = was;
    return SUCCESS;
}

PRETEND_EXPORT int cudaGraphCreate(void **ret, unsigned flags)
{
    (void)flags;
    *ret = new_graph();
    return *ret ? SUCCESS : pretend_fail(OUT_OF_MEMORY);
}

PRETEND_EXPORT int cudaGraphDestroy(void *graph)
{
    unref(graph);
    return SUCCESS;
}

PRETEND_EXPORT int cudaGraphInstantiateWithFlags(void **ret, void *graph, unsigned long long flags)
{
    (void)flags;
    Instance *instance = malloc(sizeof *instance);
    if (!instance)
        return pretend_fail(OUT_OF_MEMORY);
    instance->graph = graph;
    ref(graph);
    *ret = instance;
    return SUCCESS;
}

PRETEND_EXPORT int cudaGraphInstantiate(void **ret, void *graph, unsigned long long flags)
{
    return cudaGraphInstantiateWithFlags(ret, graph, flags);
}

/* The instance does what @graph does from now on. Whatever its nodes are: a driver would refuse other ones than before. */
PRETEND_EXPORT int cudaGraphExecUpdate(void *instance, void *graph, void *ret_told, int *ret_result)
{
    Instance *i = instance;
    Graph *before = i->graph;
    i->graph = graph;
    ref(graph);
    unref(before);
    if (pretend_runtime_version() < 12000)
        *ret_result = 0; /* it could be updated */
    else if (ret_told)
        memset(ret_told, 0, sizeof(UpdateResult));
    return SUCCESS;
}

PRETEND_EXPORT int cudaGraphExecDestroy(void *instance)
{
    unref(((Instance *)instance)->graph);
    free(instance);
    return SUCCESS;
}

PRETEND_EXPORT int cudaGraphUpload(void *graph, void *stream)
{
    (void)graph, (void)stream;
    return SUCCESS;
}

PRETEND_EXPORT int cudaGraphGetNodes(void *graph, void **ret_nodes, size_t *ret_n)
{
    const Graph *g = graph;
    for (size_t i = 0; ret_nodes && i < *ret_n; i++)
        ret_nodes[i] = i < g->n_items ? &g->items[i] : NULL;
    if (!ret_nodes || *ret_n > g->n_items)
        *ret_n = g->n_items;
    return SUCCESS;
}

PRETEND_EXPORT int cudaGraphDebugDotPrint(void *graph, const char *path, unsigned flags)
{
    (void)graph, (void)path, (void)flags;
    return SUCCESS;
}

/* Launched on a stream that is itself captured, a graph becomes part of that one. Its origin's work goes to the stream that it is launched on. */
static bool is_captured_into(const Graph *child, const Stream *s)
{
    pretend_lock();
    Graph *graph = s ? capture_of(s->capture) : NULL;
    for (size_t i = 0; graph && graph != child && i < child->n_items; i++) {
        Item item = child->items[i];
        item.stream = item.stream == child->origin ? s->number : item.stream;
        graph->broken |= !append(graph, &item, child->texts + item.rest);
    }
    pretend_unlock();
    return graph != NULL;
}

/* A launch does all of it again. */
PRETEND_EXPORT int cudaGraphLaunch(void *instance, void *stream)
{
    const Graph *g = ((Instance *)instance)->graph;
    if (is_captured_into(g, stream_of(stream)))
        return SUCCESS;
    uint32_t number = pretend_stream(stream);
    pretend_lock();
    pretend_event("graph", "%d %u %zu", pretend_stream_device(stream), number, g->n_items); /* one call of the host's for the lines that follow */
    for (size_t i = 0; i < g->n_items; i++) {
        const Item *item = &g->items[i];
        n_launches += *item->word == 'k' || *item->word == 'l';
        if (item->node > 0)
            pretend_line("node", "%u", item->node);
        if (item->lengths.n > 0)
            pretend_write_lengths(&item->lengths);
        pretend_event(item->word, "%d %u %s", item->device, item->stream == g->origin ? number : item->stream, g->texts + item->rest);
    }
    pretend_unlock();
    return SUCCESS;
}

/* What a graph keeps alive lives on: a graph may be launched as long as the process runs. */
PRETEND_EXPORT int cudaUserObjectCreate(void **ret, void *object, void (*destroy)(void *), unsigned references, unsigned flags)
{
    (void)destroy, (void)references, (void)flags;
    *ret = object;
    return SUCCESS;
}

PRETEND_EXPORT int cudaUserObjectRelease(void *object, unsigned count)
{
    (void)object, (void)count;
    return SUCCESS;
}

PRETEND_EXPORT int cudaGraphRetainUserObject(void *graph, void *object, unsigned count, unsigned flags)
{
    (void)graph, (void)object, (void)count, (void)flags;
    return SUCCESS;
}

/* ---- streams ---- */

PRETEND_EXPORT int cudaStreamCreateWithPriority(void **ret, unsigned flags, int priority)
{
    Stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return pretend_fail(OUT_OF_MEMORY);
    *stream = (Stream){.number = __atomic_add_fetch(&n_streams, 1, __ATOMIC_RELAXED), .device = pretend_current_device(), .priority = priority, .flags = flags};
    *ret = stream;
    return SUCCESS;
}

PRETEND_EXPORT int cudaStreamCreateWithFlags(void **ret, unsigned flags)
{
    return cudaStreamCreateWithPriority(ret, flags, 0);
}

PRETEND_EXPORT int cudaStreamCreate(void **ret)
{
    return cudaStreamCreateWithPriority(ret, 0, 0);
}

PRETEND_EXPORT int cudaStreamDestroy(void *stream)
{
    free(stream_of(stream));
    return SUCCESS;
}

PRETEND_EXPORT int cudaStreamGetPriority(void *stream, int *ret)
{
    const Stream *s = stream_of(stream);
    *ret = s ? s->priority : 0;
    return SUCCESS;
}

PRETEND_EXPORT int cudaStreamGetFlags(void *stream, unsigned *ret)
{
    const Stream *s = stream_of(stream);
    *ret = s ? s->flags : 0;
    return SUCCESS;
}

PRETEND_EXPORT int cudaStreamGetId(void *stream, unsigned long long *ret)
{
    *ret = pretend_stream(stream);
    return SUCCESS;
}

PRETEND_EXPORT int cudaStreamGetDevice(void *stream, int *ret)
{
    *ret = pretend_stream_device(stream);
    return SUCCESS;
}

PRETEND_EXPORT int cudaDeviceGetStreamPriorityRange(int *ret_least, int *ret_greatest)
{
    if (ret_least)
        *ret_least = 0;
    if (ret_greatest)
        *ret_greatest = -5;
    return SUCCESS;
}

/* Whether somebody waits for a stream that is being captured, or (@stream NULL) for the whole device of one: that must not be, and the graph is of no use any
 * more (CUDA C++ Programming Guide, prohibited and unhandled operations of stream capture). */
static bool breaks_capture(void *stream, int device)
{
    const Stream *s = stream_of(stream);
    bool breaks = false;
    pretend_lock();
    for (Graph *graph = captures; graph; graph = graph->next) {
        bool meant = stream ? s && s->capture == graph->id : graph->device == device;
        graph->broken |= meant;
        breaks |= meant;
    }
    pretend_unlock();
    return breaks;
}

PRETEND_EXPORT int cudaStreamQuery(void *stream)
{
    return stream && breaks_capture(stream, 0) ? pretend_fail(CAPTURE_UNSUPPORTED) : SUCCESS;
}

PRETEND_EXPORT int cudaStreamSynchronize(void *stream)
{
    if (stream && breaks_capture(stream, 0))
        return pretend_fail(CAPTURE_UNSUPPORTED);
    pretend_event("sync", "3 %d %u 0", pretend_stream_device(stream), pretend_stream(stream));
    return SUCCESS;
}

PRETEND_EXPORT int cudaDeviceSynchronize(void)
{
    if (breaks_capture(NULL, pretend_current_device()))
        return pretend_fail(CAPTURE_UNSUPPORTED);
    pretend_event("sync", "4 %d 0 0", pretend_current_device());
    return SUCCESS;
}

/* A stream that waits for an event of a capture is captured, too. */
PRETEND_EXPORT int cudaStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    (void)flags;
    Event *e = event;
    Stream *s = stream_of(stream);
    pretend_lock();
    e->not_ready = 0;
    if (s && !capture_of(s->capture) && capture_of(e->capture))
        s->capture = e->capture;
    pretend_unlock();
    pretend_work("wait", stream, "%u", e->number);
    return SUCCESS;
}

PRETEND_EXPORT int cudaLaunchHostFunc(void *stream, void (*function)(void *), void *data)
{
    (void)stream;
    function(data);
    return SUCCESS;
}

PRETEND_EXPORT int cudaStreamAddCallback(void *stream, void (*callback)(void *, int, void *), void *data, unsigned flags)
{
    (void)flags;
    callback(stream, SUCCESS, data);
    return SUCCESS;
}

/* ---- events ---- */

PRETEND_EXPORT int cudaEventCreateWithFlags(void **ret, unsigned flags)
{
    (void)flags;
    Event *event = calloc(1, sizeof *event);
    if (!event)
        return pretend_fail(OUT_OF_MEMORY);
    event->number = __atomic_add_fetch(&n_events, 1, __ATOMIC_RELAXED);
    *ret = event;
    return SUCCESS;
}

PRETEND_EXPORT int cudaEventCreate(void **ret)
{
    return cudaEventCreateWithFlags(ret, 0);
}

PRETEND_EXPORT int cudaEventDestroy(void *event)
{
    free(event);
    return SUCCESS;
}

PRETEND_EXPORT int cudaEventRecord(void *event, void *stream)
{
    Event *e = event;
    Stream *s = stream_of(stream);
    pretend_lock();
    e->launches = n_launches;
    e->capture = s ? s->capture : 0;
    e->not_ready = s && s->communicates ? NOT_READY_TIMES : 0;
    if (s)
        s->communicates = false;
    pretend_unlock();
    pretend_work("record", stream, "%u", e->number);
    return SUCCESS;
}

PRETEND_EXPORT int cudaEventRecordWithFlags(void *event, void *stream, unsigned flags)
{
    (void)flags;
    return cudaEventRecord(event, stream);
}

void pretend_stream_communicates(void *stream)
{
    Stream *s = stream_of(stream);
    pretend_lock();
    if (s && !capture_of(s->capture))
        s->communicates = true;
    pretend_unlock();
}

/* PyTorch 2.15 lets no stream wait for a collective that has ended, by the event behind it. On a GPU it hardly ever has when that is asked; so here it has not,
 * a few times, but for the threads that watch over collectives and wait for their end. */
PRETEND_EXPORT int cudaEventQuery(void *event)
{
    Event *e = event;
    char thread[32] = "";
    bool watches = pthread_getname_np(pthread_self(), thread, sizeof thread) == 0 && strncmp(thread, "pt_nccl_", 8) == 0;
    pretend_lock();
    bool ready = e->not_ready == 0 || watches;
    e->not_ready -= !ready;
    pretend_unlock();
    return ready ? SUCCESS : NOT_READY;
}

PRETEND_EXPORT int cudaEventSynchronize(void *event)
{
    Event *e = event;
    pretend_lock();
    e->not_ready = 0;
    pretend_unlock();
    pretend_event("sync", "1 %d 0 %u", pretend_current_device(), e->number);
    return SUCCESS;
}

/* Whether DistributedDataParallel asks, for its own log: it does of its first ten steps, and of every hundredth. */
static bool is_asked_for_a_log(void)
{
    void *callers[8];
    Dl_info info;
    int n = backtrace(callers, (int)(sizeof callers / sizeof *callers));
    bool is = false;
    for (int i = 0; i < n && !is; i++)
        is = dladdr(callers[i], &info) && info.dli_sname && strstr(info.dli_sname, "c10d6Logger");
    return is;
}

/* A millisecond for each launch: who chooses between kernels by timing them (Triton's and Inductor's tuning) is soon done and takes the first, each time; of a
 * library's plans the one that its heuristics name first. */
PRETEND_EXPORT int cudaEventElapsedTime(float *ret_ms, void *begin, void *end)
{
    const Event *b = begin, *e = end;
    pretend_lock();
    *ret_ms = e->launches > b->launches ? (float)(e->launches - b->launches) : 1e-3f;
    pretend_unlock();
    if (!is_asked_for_a_log())
        pretend_say_once(
            "the program asks how long things took: what CUDA events tell it is 1 ms for each launch, and speeds that it prints from that mean nothing");
    return SUCCESS;
}

PRETEND_EXPORT int cudaEventElapsedTime_v2(float *ret_ms, void *begin, void *end)
{
    return cudaEventElapsedTime(ret_ms, begin, end);
}
