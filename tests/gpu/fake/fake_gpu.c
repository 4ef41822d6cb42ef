/* Time: what is issued waits in its queue until somebody asks for it, then queues run side by side and share what the GPU has. */
#include "tests/gpu/fake/fake.h"

#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

static double now;
static double horizon = INFINITY; /* Time passes no further: what the host takes for a call */
static double heat;               /* Of the last milliseconds: what tensor cores did of what they can */
static Mark *marks;
static long order;

/* 1 in the middle, some percent around it, sometimes much more. */
double fake_scatter(double width)
{
    static uint64_t state = 88172645463325252u;
    double sum = 0;
    if (!fake_real())
        return 1;
    for (int i = 0; i < 4; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        sum += (double)(state >> 11) / 9007199254740992.0 - 0.5;
    }
    return 1 + fake_figures()->scatter * (width * sum + (state % 97 == 0 ? 0.3 : 0));
}

Mark *fake_new_mark(void)
{
    Mark *mark = calloc(1, sizeof *mark);
    if (!mark)
        abort();
    mark->captured = fake.capturing ? fake.captures : 0;
    mark->next = marks;
    marks = mark;
    return mark;
}

static void append(Task ***last, Task *task)
{
    **last = task;
    *last = &task->next;
    task->next = NULL;
}

/* A tenth of a second for which whoever asks has slept, rather than waited for a processor, cools it down. */
static void note_pause(void)
{
    static double last;
    static long slept;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    double seconds = (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
    if (seconds - last > 0.1 && usage.ru_nvcsw > slept)
        heat = 0;
    last = seconds;
    slept = usage.ru_nvcsw;
}

EchCuResult fake_issue(EchCuStream stream, Task model)
{
    note_pause();
    if (fake.capturing && !stream->capturing) /* A driver would let it run, which is never what is wanted */
        return CAPTURE_ISOLATION;
    stream->loose |= fake.capturing;
    stream->captured += fake.capturing;
    /* As the driver does, which has a ring for what it hands to the GPU. */
    while (fake_real() && !fake.capturing && stream->room > 0 && stream->length >= stream->room)
        fake_pass(1000);
    stream->length += !fake.capturing;
    Task *task = malloc(sizeof *task);
    if (!task)
        abort();
    *task = model;
    task->order = order++;
    task->stream = stream;
    task->kernel = fake.launching;
    append(fake.capturing ? &fake.graph.last : &stream->last, task);
    return 0;
}

EchCuResult fake_issue_work(EchCuStream stream, Kind kind, double fixed, double amount, double rate)
{
    double by = fake_scatter(0.015);
    fixed *= fake_scatter(0.05);
    amount *= by;
    return fake_issue(stream, (Task){.kind = kind, .fixed = fixed, .amount = amount, .rate = rate});
}

static void drop_first(struct EchCuStreamOpaque *stream)
{
    Task *task = stream->first;
    stream->first = task->next;
    stream->length--;
    if (!stream->first)
        stream->last = &stream->first;
    free(task);
}

/* Marks, waits and releases at the heads of queues, until none can pass. */
static int pass_heads(void)
{
    int passed = 0;
    for (struct EchCuStreamOpaque *stream = fake.streams; stream; stream = stream->next) {
        while (stream->first && (stream->first->kind == MARK || stream->first->kind == RELEASE || (stream->first->kind == WAIT && stream->first->mark->done))) {
            int waited = stream->first->kind == WAIT;
            if (stream->first->kind == RELEASE)
                fake_release_pooled(stream->first->pointer);
            if (stream->first->kind == MARK) {
                stream->first->mark->time = now;
                stream->first->mark->done = 1;
            }
            drop_first(stream);
            if (waited && fake_real() && stream->first && !stream->first->running)
                stream->first->fixed += fake_figures()->wait;
            passed = 1;
        }
    }
    return passed;
}

/* The heads that run: all, but of the copies of one direction the one issued first or already running. */
static size_t running_heads(Task **running, size_t room)
{
    size_t n = 0;
    Task *copies[2] = {NULL, NULL};
    for (struct EchCuStreamOpaque *stream = fake.streams; stream; stream = stream->next) {
        Task *task = stream->first;
        if (!task || task->kind == WAIT)
            continue;
        if (task->kind == TO_DEVICE || task->kind == FROM_DEVICE) {
            Task **best = &copies[task->kind == FROM_DEVICE];
            if (!*best || task->running > (*best)->running || (task->running == (*best)->running && task->order < (*best)->order))
                *best = task;
        } else if (n < room) {
            running[n++] = task;
        }
    }
    for (int i = 0; i < 2; i++) {
        if (copies[i] && n < room)
            running[n++] = copies[i];
    }
    for (size_t i = 0; i < n; i++)
        running[i]->running = 1;
    return n;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

static int is_tensor(const Task *task)
{
    return task->kind == OPERATIONS && task->rate >= fake_figures()->blas / 8;
}

/* Power is limited over milliseconds. */
static void warm(Task *const *running, size_t n, double step)
{
    double load = 0;
    for (size_t i = 0; i < n; i++)
        load += is_tensor(running[i]) && running[i]->fixed <= 0 ? least(running[i]->rate / fake_figures()->blas, 1) : 0;
    double keep = exp(-step / 5e6);
    heat = fake_real() ? heat * keep + load * (1 - keep) : 0;
}

/* What the limit of power takes of the rate of tensor cores: nothing while they do little. */
static double held_back(void)
{
    const FakeFigures *figures = fake_figures();
    return heat > figures->cool ? figures->heat * (heat - figures->cool) / (1 - figures->cool) : 0;
}

/* Units a nanosecond of each. */
static void share(Task **running, size_t n, double *rates)
{
    const FakeFigures *figures = fake_figures();
    double port = figures->port, port_users = 0, computing = 0;
    size_t copies = 0;
    for (size_t i = 0; i < n; i++) {
        Task *task = running[i];
        if (task->fixed > 0)
            continue;
        copies += task->kind == TO_DEVICE || task->kind == FROM_DEVICE;
        port_users += task->kind == PORT;
        computing += task->kind == OPERATIONS;
    }
    for (size_t i = 0; i < n; i++) {
        rates[i] = running[i]->fixed > 0 ? 0 : running[i]->rate;
        if (rates[i] > 0 && (running[i]->kind == TO_DEVICE || running[i]->kind == FROM_DEVICE)) {
            if (copies == 2)
                rates[i] = least(rates[i], !fake_real() ? figures->both / 2 : running[i]->kind == TO_DEVICE ? figures->both_to : figures->both_from);
            rates[i] *= !fake_real() || port_users == 0 ? 1 : running[i]->kind == TO_DEVICE ? figures->keep_to : figures->keep_from;
            port -= rates[i] * (fake_real() ? figures->port_bytes : 1);
        }
    }
    double clocks = fake_real() && fake.busy < 20e6 ? 0.5 : 1;
    for (size_t i = 0; i < n; i++) {
        if (running[i]->kind == PORT)
            rates[i] *= clocks < 1 ? 0.8 : 1;
        if (running[i]->kind == OPERATIONS)
            rates[i] *= clocks * (is_tensor(running[i]) ? 1 - held_back() : 1);
        if (rates[i] > 0 && running[i]->kind == PORT)
            rates[i] = least(rates[i], port / port_users * (running[i]->rate > figures->port ? running[i]->rate / figures->port : 1));
        else if (rates[i] > 0 && running[i]->kind == OPERATIONS)
            rates[i] /= computing;
    }
}

int fake_at_work(void)
{
    while (pass_heads())
        ;
    int found = 0;
    for (const struct EchCuStreamOpaque *stream = fake.streams; stream; stream = stream->next)
        found |= stream->first != NULL;
    return found;
}

/* Lets time pass until a queue is empty or a mark is reached, or, without either, until all queues are empty: a wait for a mark that never comes is then
 * left out. */
void fake_run_until(const struct EchCuStreamOpaque *empty, const Mark *mark)
{
    for (;;) {
        Task *running[64];
        double rates[64], step = 1e18;
        if (pass_heads())
            continue;
        if ((empty && !empty->first) || (mark && mark->done))
            return;
        size_t n = running_heads(running, 64);
        if (n == 0 && horizon < INFINITY) {
            now = horizon;
            return;
        }
        if (n == 0)
            break;
        share(running, n, rates);
        for (size_t i = 0; i < n; i++)
            step = least(step, running[i]->fixed > 0 ? running[i]->fixed : running[i]->amount > 0 ? running[i]->amount / rates[i] : 0);
        if (now >= horizon)
            return;
        step = least(step, horizon - now);
        warm(running, n, step);
        now += step;
        fake.busy += step;
        for (size_t i = 0; i < n; i++) {
            Task *task = running[i];
            if (task->fixed > 0) {
                task->fixed = task->fixed <= step * (1 + 1e-12) ? 0 : task->fixed - step;
            } else {
                task->amount -= step * rates[i];
            }
            if (task->fixed > 0 || task->amount > 1e-6)
                continue;
            for (struct EchCuStreamOpaque *stream = fake.streams; stream; stream = stream->next) {
                if (stream->first == task) {
                    drop_first(stream);
                    break;
                }
            }
        }
    }
    for (struct EchCuStreamOpaque *stream = fake.streams; stream; stream = stream->next) {
        while (stream->first) {
            if (stream->first->kind == RELEASE)
                fake_release_pooled(stream->first->pointer);
            drop_first(stream);
        }
    }
}

void fake_host_takes(double nanoseconds)
{
    if (!fake_real() || fake.capturing)
        return;
    const char *slower = getenv("ECH_FAKE_CUDA_SLOW");
    /* By its own clock too, unless that would take a test too long. */
    for (double begin = fake_wall_ns(); !slower && fake_wall_ns() < begin + nanoseconds;)
        ;
    fake_pass(nanoseconds * (slower ? strtod(slower, NULL) : 1));
}

void fake_pass(double nanoseconds)
{
    if (!fake_real() || fake.capturing)
        return;
    horizon = now + nanoseconds;
    fake_run_until(NULL, NULL);
    horizon = INFINITY;
}

void fake_load_code(void)
{
    if (!fake_real() || fake.capturing)
        return;
    fake_run_all();
    fake_host_takes(1e6);
}

void fake_empty_graph(void)
{
    while (fake.graph.first) {
        Task *task = fake.graph.first;
        fake.graph.first = task->next;
        free(task);
    }
    fake.graph.last = &fake.graph.first;
}

double fake_heat(void)
{
    return heat;
}
