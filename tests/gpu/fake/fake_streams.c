/* Queues, events, copies and graphs. */
#include "tests/gpu/fake/fake.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static char instance;
static int n_instances, n_graphs; /* Not destroyed */
static struct EchCuEventOpaque *events;

void fake_know_stream(const struct EchCuStreamOpaque *stream, const char *symbol)
{
    const struct EchCuStreamOpaque *at = fake.streams;
    while (at && at != stream)
        at = at->next;
    if (stream && !at)
        fake_misused(symbol, "a queue that is not there");
}

void fake_know_event(const struct EchCuEventOpaque *event, const char *symbol)
{
    if (event && event->destroyed)
        fake_misused(symbol, "an event that is not there");
}

static EchCuResult copy(void *target, const void *source, size_t bytes, EchCuStream stream, int to_host, int from_host)
{
    fake_know_stream(stream, "cuMemcpy");
    Block *t = fake_block_at(target, bytes), *s = fake_block_at(source, bytes);
    /* Of host memory that the driver knows, too, all must be there. */
    if ((to_host && !t && fake_block_at(target, 1)) || (from_host && !s && fake_block_at(source, 1)))
        return INVALID_VALUE;
    if (!stream || (!to_host && (!t || t->host)) || (!from_host && (!s || s->host)))
        return INVALID_VALUE;
    if (!fake.capturing && fake_moves()) {
        memmove(target, source, bytes);
    } else if (!fake.capturing && bytes > 0) { /* the sanitizer sees where it ends */
        memmove(target, source, 1);
        memmove((char *)target + bytes - 1, (const char *)source + bytes - 1, 1);
    }
    if (getenv("ECH_FAKE_CUDA_STRAY") && !to_host)
        fake_stray(t);
    fake_note_written(target, bytes, 0);
    /* Large copies reach their rate only slowly. */
    const FakeFigures *figures = fake_figures();
    double slow = fake_real() ? figures->ramp * sqrt((double)bytes) : 0;
    static int n_copies;
    const char *late = getenv("ECH_FAKE_CUDA_LATE"); /* These copies, as where something else uses the link */
    if (late) {
        const char *last = strchr(late, '-');
        n_copies++;
        slow += n_copies >= atoi(late) && n_copies <= atoi(last ? last + 1 : late) ? 20e6 : 0;
    }
    if (from_host || to_host) {
        const Block *pinned = from_host ? s : t;
        double rate =
            (from_host ? (pinned ? figures->to : figures->pageable_to) : (pinned ? figures->from : figures->pageable_from)) * (pinned && pinned->far ? 0.7 : 1);
        EchCuResult result =
            fake_issue_work(stream, from_host ? TO_DEVICE : FROM_DEVICE, figures->copy + slow, (double)bytes * (pinned ? 1 : fake_scatter(0.05)), rate);
        if (fake_real() && !pinned && !fake.capturing)
            fake_run_until(stream, NULL); /* The host copies, and waits */
        return result;
    }
    return fake_issue_work(stream, PORT, figures->launch, 2 * (double)bytes, figures->port * figures->mixed);
}

EXPORT EchCuResult cuMemcpyHtoDAsync_v2(EchCuPointer target, const void *source, size_t bytes, EchCuStream stream)
{
    ENTER_CONTEXT();
    fake_host_takes(fake_figures()->call);
    return copy((void *)(uintptr_t)target, source, bytes, stream, 0, 1);
}

EXPORT EchCuResult cuMemcpyDtoHAsync_v2(void *target, EchCuPointer source, size_t bytes, EchCuStream stream)
{
    ENTER_CONTEXT();
    fake_host_takes(fake_figures()->call);
    return copy(target, (void *)(uintptr_t)source, bytes, stream, 1, 0);
}

EXPORT EchCuResult cuMemcpyDtoDAsync_v2(EchCuPointer target, EchCuPointer source, size_t bytes, EchCuStream stream)
{
    ENTER_CONTEXT();
    fake_host_takes(fake_figures()->call);
    return copy((void *)(uintptr_t)target, (void *)(uintptr_t)source, bytes, stream, 0, 0);
}

EXPORT EchCuResult cuMemsetD32Async(EchCuPointer target, unsigned value, size_t words, EchCuStream stream)
{
    ENTER_CONTEXT();
    uint32_t *data = (uint32_t *)(uintptr_t)target;
    fake_know_stream(stream, __func__);
    if (!stream || target % 4 != 0 || !fake_block_at(data, words * 4))
        return INVALID_VALUE;
    for (size_t i = 0; i < words; i++)
        data[i] = value;
    fake_note_written(data, words * 4, 0);
    return fake_issue_work(stream, PORT, fake_figures()->launch, (double)words * 4, fake_figures()->port * fake_figures()->write);
}

EXPORT EchCuResult cuStreamCreate(EchCuStream *ret, unsigned flags)
{
    ENTER_CONTEXT();
    if (flags > ECH_CU_STREAM_NON_BLOCKING)
        return INVALID_VALUE;
    EchCuStream stream = calloc(1, sizeof *stream);
    if (!stream)
        abort();
    stream->last = &stream->first;
    stream->room = fake_figures()->depth;
    stream->next = fake.streams;
    fake.streams = stream;
    *ret = stream;
    fake.held++;
    return 0;
}

static void forget(EchCuStream stream)
{
    struct EchCuStreamOpaque **at = &fake.streams;
    while (*at && *at != stream)
        at = &(*at)->next;
    if (*at)
        *at = stream->next;
    free(stream);
}

EXPORT EchCuResult cuStreamDestroy_v2(EchCuStream stream)
{
    int fails = fake_failing();
    fake_enter_release(__func__);
    fake_know_stream(stream, __func__);
    if (!stream)
        fake_misused(__func__, "no queue");
    fake_run_all();
    fake_order_pool(stream, fake_pool_frees(), 1);
    forget(stream);
    fake.held--;
    return fails ? LAUNCH_FAILED : 0;
}

EXPORT EchCuResult cuStreamSynchronize(EchCuStream stream)
{
    ENTER_CONTEXT();
    fake_know_stream(stream, __func__);
    if (!stream || fake.capturing)
        return INVALID_HANDLE;
    int waits = fake_at_work();
    fake_run_until(stream, NULL);
    if (waits)
        fake_host_takes(fake_figures()->trip);
    fake_order_pool(stream, fake_pool_frees(), 1);
    fake_trim_pool();
    return fake_comes_to_fault() ? LAUNCH_FAILED : 0;
}

EXPORT EchCuResult cuStreamWaitEvent(EchCuStream stream, EchCuEvent event, unsigned flags)
{
    ENTER_CONTEXT();
    fake_host_takes(fake_figures()->call);
    fake_know_stream(stream, __func__);
    fake_know_event(event, __func__);
    if (!stream || !event || flags)
        return INVALID_HANDLE;
    if (!event->mark)
        return 0;
    if (event->mark->captured != (fake.capturing ? fake.captures : 0))
        return CAPTURE_ISOLATION;
    stream->capturing |= fake.capturing;
    if (fake.capturing && event->mark->of->captured == event->mark->behind)
        event->mark->of->loose = 0;
    fake_order_pool(event->mark->of, event->mark->frees, 0);
    return fake_issue(stream, (Task){.kind = WAIT, .mark = event->mark});
}

EXPORT EchCuResult cuStreamBeginCapture_v2(EchCuStream stream, int mode)
{
    ENTER_CONTEXT();
    fake_know_stream(stream, __func__);
    if (!stream || mode != ECH_CU_CAPTURE_RELAXED || fake.capturing)
        return INVALID_VALUE;
    fake_run_all();
    fake_empty_graph();
    fake.capturing = stream->capturing = 1;
    fake.captures++;
    return 0;
}

EXPORT EchCuResult cuStreamEndCapture(EchCuStream stream, EchCuGraph *ret)
{
    int fails = fake_failing();
    fake_enter_release(__func__);
    fake_know_stream(stream, __func__);
    if (!stream || !stream->capturing)
        return INVALID_HANDLE;
    int unjoined = 0;
    stream->loose = 0;
    for (struct EchCuStreamOpaque *at = fake.streams; at; at = at->next) {
        unjoined |= at->loose;
        at->capturing = at->loose = 0;
    }
    fake.capturing = 0;
    if (fails || unjoined)
        return fails ? LAUNCH_FAILED : CAPTURE_UNJOINED;
    fake.held++;
    n_graphs++;
    *ret = &fake.graph;
    return 0;
}

EXPORT EchCuResult cuGraphInstantiateWithFlags(EchCuGraphExec *ret, EchCuGraph from, unsigned long long flags)
{
    ENTER_CONTEXT();
    if (from != &fake.graph || flags)
        return INVALID_HANDLE;
    if (n_graphs == 0)
        fake_misused(__func__, "a graph that is not there");
    fake.held++;
    n_instances++;
    fake.uploaded = 0;
    *ret = (EchCuGraphExec)(void *)&instance;
    return 0;
}

static void know_instance(const char *symbol)
{
    if (n_instances == 0)
        fake_misused(symbol, "an executable graph that is not there");
}

/* In the order of the queue, as a first launch does it too. */
static void upload(EchCuStream stream)
{
    double nodes = 0;
    for (const Task *task = fake.graph.first; task; task = task->next)
        nodes += task->kind != MARK && task->kind != WAIT;
    if (fake_real() && !fake.uploaded)
        fake_issue(stream, (Task){.kind = OPERATIONS, .fixed = nodes * fake_figures()->upload, .rate = 1});
    fake.uploaded = 1;
}

EXPORT EchCuResult cuGraphUpload(EchCuGraphExec exec, EchCuStream stream)
{
    ENTER_CONTEXT();
    know_instance(__func__);
    fake_know_stream(stream, __func__);
    if ((void *)exec != &instance || !stream || fake.capturing)
        return INVALID_HANDLE;
    upload(stream);
    return 0;
}

/* The captured queues run as hidden ones, after what is ahead in @stream; kernels start faster. */
EXPORT EchCuResult cuGraphLaunch(EchCuGraphExec exec, EchCuStream stream)
{
    ENTER_CONTEXT();
    know_instance(__func__);
    fake_know_stream(stream, __func__);
    if ((void *)exec != &instance || !stream || fake.capturing)
        return INVALID_HANDLE;
    upload(stream);
    Mark *begin = fake_new_mark();
    fake_issue(stream, (Task){.kind = MARK, .mark = begin});
    struct EchCuStreamOpaque *hidden[64] = {NULL}, *of[64] = {NULL};
    size_t n = 0;
    for (Task *task = fake.graph.first; task; task = task->next) {
        size_t i = 0;
        while (i < n && of[i] != task->stream)
            i++;
        if (i == 64)
            return INVALID_VALUE;
        if (i == n) {
            n++;
            of[i] = task->stream;
            hidden[i] = calloc(1, sizeof *hidden[i]);
            if (!hidden[i])
                abort();
            hidden[i]->last = &hidden[i]->first;
            hidden[i]->next = fake.streams;
            fake.streams = hidden[i];
            fake_issue(hidden[i], (Task){.kind = WAIT, .mark = begin});
        }
        if (task->kind == MARK)
            task->mark->done = 0;
        Task again = *task;
        again.fixed -= task->kernel && task->fixed >= fake_figures()->graph ? fake_figures()->graph : 0;
        fake_issue(hidden[i], again);
    }
    for (size_t i = 0; i < n; i++) {
        Mark *end = fake_new_mark();
        fake_issue(hidden[i], (Task){.kind = MARK, .mark = end});
        fake_issue(stream, (Task){.kind = WAIT, .mark = end});
    }
    fake_run_all();
    for (size_t i = 0; i < n; i++)
        forget(hidden[i]);
    return 0;
}

EXPORT EchCuResult cuGraphExecDestroy(EchCuGraphExec exec)
{
    int fails = fake_failing();
    fake_enter_release(__func__);
    know_instance(__func__);
    n_instances--;
    fake.held--;
    return fails ? LAUNCH_FAILED : (void *)exec == &instance ? 0 : INVALID_HANDLE;
}

EXPORT EchCuResult cuGraphDestroy(EchCuGraph which)
{
    int fails = fake_failing();
    fake_enter_release(__func__);
    if (n_graphs-- == 0)
        fake_misused(__func__, "a graph that is not there");
    fake.held--;
    fake_empty_graph();
    return fails ? LAUNCH_FAILED : which == &fake.graph ? 0 : INVALID_HANDLE;
}

EXPORT EchCuResult cuEventCreate(EchCuEvent *ret, unsigned flags)
{
    ENTER_CONTEXT();
    if (flags > (ECH_CU_EVENT_DISABLE_TIMING | 1)) /* 1: who waits for it sleeps */
        return INVALID_VALUE;
    *ret = calloc(1, sizeof **ret);
    if (!*ret)
        abort();
    (*ret)->untimed = (flags & ECH_CU_EVENT_DISABLE_TIMING) != 0;
    (*ret)->next = events;
    events = *ret;
    fake.held++;
    return 0;
}

EXPORT EchCuResult cuEventDestroy_v2(EchCuEvent event)
{
    int fails = fake_failing();
    fake_enter_release(__func__);
    fake_know_event(event, __func__);
    if (!event)
        fake_misused(__func__, "no event");
    event->destroyed = 1; /* And stays, for whoever uses it all the same */
    fake.held--;
    return fails ? LAUNCH_FAILED : 0;
}

EXPORT EchCuResult cuEventRecord(EchCuEvent event, EchCuStream stream)
{
    ENTER_CONTEXT();
    fake_host_takes(fake_figures()->call);
    fake_know_stream(stream, __func__);
    fake_know_event(event, __func__);
    if (!event || !stream)
        return INVALID_HANDLE;
    event->mark = fake_new_mark();
    const FakeFigures *figures = fake_figures();
    if (fake_real() && !fake.capturing)
        fake_issue_work(stream, OPERATIONS, event->untimed ? figures->mark : (fake.busy < 20e6 ? 3 : 1) * figures->event, 0, 1);
    EchCuResult result = fake_issue(stream, (Task){.kind = MARK, .mark = event->mark});
    stream->behind = stream->behind == BEHIND_WAITING ? BEHIND_THAT_EVENT : BEHIND_EVENT;
    event->mark->of = stream;
    event->mark->behind = stream->captured;
    event->mark->frees = fake_pool_frees();
    return result;
}

EXPORT EchCuResult cuEventSynchronize(EchCuEvent event)
{
    ENTER_CONTEXT();
    fake_know_event(event, __func__);
    if (!event || !event->mark)
        return INVALID_HANDLE;
    if (event->mark->captured)
        return CAPTURED_EVENT;
    fake_run_until(NULL, event->mark);
    fake_order_pool(event->mark->of, event->mark->frees, 1);
    fake_trim_pool();
    return fake_comes_to_fault() ? LAUNCH_FAILED : event->mark->done ? 0 : INVALID_HANDLE;
}

EXPORT EchCuResult cuEventQuery(EchCuEvent event)
{
    ENTER_CONTEXT();
    fake_know_event(event, __func__);
    if (event && event->mark && event->mark->captured)
        return CAPTURED_EVENT;
    return !event ? INVALID_HANDLE : !event->mark || event->mark->done ? 0 : ECH_CU_ERROR_NOT_READY;
}

EXPORT EchCuResult cuEventElapsedTime(float *ret_ms, EchCuEvent begin, EchCuEvent end)
{
    ENTER_CONTEXT();
    fake_know_event(begin, __func__);
    fake_know_event(end, __func__);
    if (!begin || !end || begin->untimed || end->untimed || !begin->mark || !end->mark || begin->mark->captured || end->mark->captured)
        return INVALID_HANDLE;
    if (!begin->mark->done || !end->mark->done)
        return ECH_CU_ERROR_NOT_READY;
    double time = end->mark->time - begin->mark->time;
    *ret_ms = (float)((fake_real() ? round(time / fake_figures()->step) * fake_figures()->step : time) / 1e6);
    return 0;
}
