#include "sim/replay/replay.h"

#include "models/kernel/comm_name.h"
#include "models/kernel/gpu.h"
#include "sim/base/compare.h"
#include "sim/base/error.h"
#include "sim/replay/replaying.h"
#include "sim/trace/step.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Each queue is a process of SimGrid's with a stack of its own, and it looks at all of them at every event: with a thousand a replay takes minutes. */
enum { SIMGRID_QUEUES = 256 };

static const char *const engine_names[] = {"auto", "native", "simgrid", NULL};
static const char *const kernel_time_names[] = {"auto", "roofline", "estimate", "recorded", "model", NULL};

static const char *const share_names[] = {"none", "mps", "slices", NULL};

#define FIELD(name) offsetof(EchReplayOptions, name)
const EchParam ech_replay_params[] = {
    {"engine", ECH_PARAM_ENUM, FIELD(engine), "auto", NULL, NULL, engine_names,
     "what shares the resources: simgrid is the reference, native the fast one; auto takes simgrid for one short run"},
    {"kernel_time", ECH_PARAM_ENUM, FIELD(kernel_time), "auto", NULL, NULL, kernel_time_names,
     "where kernel times come from; auto: the compiler's estimate, carried to the device by the kernel model on TPUs, else what was recorded, carried by the "
     "kernel model on GPUs or the ratio of rooflines, else that model or the roofline; model: nothing recorded where anything is known to compute from. "
     "Recorded copies and collectives of "
     "GPUs take what was recorded under auto and recorded"},
    {"overhead", ECH_PARAM_BOOL, FIELD(overhead), "true", NULL, NULL, NULL, "charge launch, set-up and latency of the device"},
    {"allocator_on", ECH_PARAM_BOOL, FIELD(allocator_on), "true", NULL, NULL, NULL,
     "allocations go through an allocator; false: only counted against the capacity"},
    {"allocator", ECH_PARAM_STRING, FIELD(allocator), NULL, NULL, NULL, NULL,
     "allocator of the device's memory, for buffers without a fixed offset (run: as recorded, where the capture tells it; else best_fit)"},
    {"host_allocator", ECH_PARAM_STRING, FIELD(host_allocator), NULL, NULL, NULL, NULL, "allocator of the other memories; not given: only counted"},
    {"trips", ECH_PARAM_U64, FIELD(trips), "0", NULL, NULL, NULL, "iterations of loops that do not say how many; 0: as the trace assumes"},
    {"max_ops", ECH_PARAM_U64, FIELD(max_ops), "200000000", "1", NULL, NULL, "most operation instances run one by one"},
    {"max_spans", ECH_PARAM_U64, FIELD(max_spans), "4000000", NULL, "100000000", NULL, "most timeline spans kept"},
    {"max_points", ECH_PARAM_U64, FIELD(max_points), "1000000", "16", "100000000", NULL, "most points of an occupancy series"},
    {"skip_steady", ECH_PARAM_BOOL, FIELD(skip_steady), "true", NULL, NULL, NULL, "skip iterations that repeat exactly"},
    {"keep_going", ECH_PARAM_BOOL, FIELD(keep_going), "false", NULL, NULL, NULL, "go on after an allocation that does not fit, as if it had"},
    {"auto_limit", ECH_PARAM_U64, FIELD(auto_limit), "100000", NULL, NULL, NULL, "engine auto: most operation instances for simgrid"},
    {"copy_curve", ECH_PARAM_BOOL, FIELD(copy_curve), "true", NULL, NULL, NULL, "size curves of links apply"},
    {"graph", ECH_PARAM_BOOL, FIELD(graph), "false", NULL, NULL, NULL,
     "kernels are launched by one CUDA graph (runtime.graph_launch_ps, where the device says it: calibrate measures it)"},
    {"driver_calls", ECH_PARAM_BOOL, FIELD(driver_calls), "true", NULL, NULL, NULL,
     "allocators' calls of the driver take their time, and a cudaFree waits for the device"},
    {"tuned_tiles", ECH_PARAM_BOOL, FIELD(tuned_tiles), "true", NULL, NULL, NULL,
     "products of GPU programs whose tile no timing would have chosen (compiled without a GPU) take the best one; false: as written"},
    {"products_duty", ECH_PARAM_RATIO, FIELD(products_duty), "-1", "-1", "1", NULL,
     "share of the time in which matrix products run, for a device file that says what they do just after a pause (kernel.burst_share): at 0 they all do that, "
     "at 1 what power leaves them, between what the power then saved allows; -1: each as it was measured, large ones at the latter and small ones at the "
     "former. Under kernel.power, and of what runs a tenth of a second and more where the device says what its own power sustains (kernel.sustained_share), "
     "the same of modelled products and attention, where -1 is the share that they come to"},
    {"unified_memory", ECH_PARAM_BOOL, FIELD(unified_memory), "false", NULL, NULL, NULL,
     "NVIDIA GPUs: what the device has no room for waits in host memory and comes in blocks of 2 MiB when it is touched (cudaMallocManaged); on by itself "
     "where an allocator's settings have it so (TF_FORCE_UNIFIED_MEMORY=1 and a fraction above 1)"},
    {"host_launches", ECH_PARAM_BOOL, FIELD(host_launches), "true", NULL, NULL, NULL,
     "programs that ran on a GPU that was not there: one thread of the host asks for one kernel or copy after another, and takes runtime.submit_ps for each "
     "and "
     "runtime.eager_operator_ps for each operator of PyTorch (3.52 and 4.8 us where the device does not say); where no operators are told, "
     "runtime.eager_launch_ps for each launch (15 us); of a program in CUDA C++ runtime.submit_ps alone (4.57 us); false: the host is never late"},
    {"after_wait", ECH_PARAM_TIME, FIELD(after_wait), "0", NULL, NULL, NULL,
     "of such programs, what the host does each time that it has waited for the device, before it asks for more: what a server schedules, samples and writes "
     "between steps"},
    {"share", ECH_PARAM_ENUM, FIELD(share), "none", NULL, NULL, share_names,
     "several captures are processes on one GPU, not ranks with a GPU each: mps, their kernels run side by side; slices, without MPS, they take turns of "
     "runtime.slice_ps (2 ms where the device does not say), or until one has had nothing there for runtime.idle_slice_ps (200 us); a change takes "
     "runtime.switch_ps (70 us)"},
    {"host_gaps", ECH_PARAM_BOOL, FIELD(host_gaps), "false", NULL, NULL, NULL,
     "keep the time of the recording in which the device had nothing to do: the time the host took to ask for the next operation"},
    {0},
};

const char *ech_wait_name(EchWait wait)
{
    static const char *const names[] = {"dependency", "queue", "link", "memory_port", "compute", "space", "host", "allocator", "pages", "peers"};
    return names[wait];
}

static EchReplayProgress progress_call;
static void *progress_data;

void ech_replay_set_progress(EchReplayProgress progress, void *data)
{
    progress_call = progress;
    progress_data = data;
}

/* Spans of the native engine go straight into the run. */
static void keep_span(const EchSpan *span, void *user)
{
    g_array_append_vals(user, span, 1);
}

/* The worker: a fork of this process runs the machine on SimGrid and leaves everything in two files that exist nowhere. */

typedef struct {
    int fd;
    bool failed;
    size_t n;
    char buffer[1 << 16];
} Writer;

static bool write_all(int fd, const void *data, size_t n)
{
    const char *at = data;
    while (n > 0) {
        ssize_t done = write(fd, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        at += done;
        n -= (size_t)done;
    }
    return true;
}

static void writer_flush(Writer *writer)
{
    if (writer->n > 0 && !write_all(writer->fd, writer->buffer, writer->n))
        writer->failed = true;
    writer->n = 0;
}

static void writer_put(Writer *writer, const void *data, size_t n)
{
    if (writer->n + n > sizeof writer->buffer)
        writer_flush(writer);
    if (n > sizeof writer->buffer) {
        if (!write_all(writer->fd, data, n))
            writer->failed = true;
        return;
    }
    if (n > 0)
        memcpy(writer->buffer + writer->n, data, n);
    writer->n += n;
}

static void put_span(const EchSpan *span, void *user)
{
    writer_put(user, span, sizeof *span);
}

static void put_array(Writer *writer, const GArray *array)
{
    uint64_t n = array->len;
    writer_put(writer, &n, sizeof n);
    writer_put(writer, array->data, n * g_array_get_element_size((GArray *)(uintptr_t)array));
}

/* Everything a machine leaves behind, except spans, in one order for both sides. */
static void put_machine(Writer *writer, EchMachine *machine, uint32_t n_memories)
{
    size_t n;
    writer_put(writer, ech_machine_outcome(machine), sizeof(EchOutcome));
    int64_t *sums = ech_machine_sums(machine, &n);
    writer_put(writer, sums, n * sizeof *sums);
    double *amounts = ech_machine_amounts(machine, &n);
    writer_put(writer, amounts, n * sizeof *amounts);
    for (uint32_t i = 0; i < n_memories; i++) {
        EchMemoryState state = ech_machine_memories(machine)[i];
        writer_put(writer, &state, sizeof state);
        put_array(writer, state.series);
    }
    put_array(writer, ech_machine_skips(machine));
    put_array(writer, ech_machine_placed(machine));
}

static bool take(const char **at, const char *end, void *into, size_t n)
{
    if ((size_t)(end - *at) < n)
        return false;
    if (n > 0)
        memcpy(into, *at, n);
    *at += n;
    return true;
}

static bool take_array(const char **at, const char *end, GArray *array)
{
    uint64_t n;
    size_t size = g_array_get_element_size(array);
    if (!take(at, end, &n, sizeof n) || n > (size_t)(end - *at) / size || n > UINT32_MAX)
        return false;
    g_array_set_size(array, 0);
    g_array_append_vals(array, *at, (guint)n);
    *at += n * size;
    return true;
}

static bool take_machine(EchMachine *machine, uint32_t n_memories, const char *at, size_t length)
{
    const char *end = at + length;
    size_t n;
    if (!take(&at, end, ech_machine_outcome(machine), sizeof(EchOutcome)))
        return false;
    int64_t *sums = ech_machine_sums(machine, &n);
    if (!take(&at, end, sums, n * sizeof *sums))
        return false;
    double *amounts = ech_machine_amounts(machine, &n);
    if (!take(&at, end, amounts, n * sizeof *amounts))
        return false;
    for (uint32_t i = 0; i < n_memories; i++) {
        EchMemoryState *state = &ech_machine_memories(machine)[i];
        GArray *series = state->series;
        bool ok = take(&at, end, state, sizeof *state);
        state->series = series;
        if (!ok || !take_array(&at, end, series))
            return false;
    }
    return take_array(&at, end, ech_machine_skips(machine)) && take_array(&at, end, ech_machine_placed(machine)) && at == end;
}

static char *map_file(int fd, size_t *ret_n)
{
    off_t n = lseek(fd, 0, SEEK_END);
    *ret_n = n > 0 ? (size_t)n : 0;
    return n > 0 ? mmap(NULL, (size_t)n, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
}

/* The last line a dying worker wrote, for the message. */
static char *last_words(int fd)
{
    char text[4096];
    off_t n = lseek(fd, 0, SEEK_END);
    ssize_t got = n > 0 ? pread(fd, text, sizeof text - 1, MAX(n - (off_t)(sizeof text - 1), 0)) : 0;
    text[MAX(got, 0)] = '\0';
    g_strchomp(text);
    const char *line = strrchr(text, '\n');
    return g_utf8_make_valid(line ? line + 1 : text, -1);
}

typedef enum { WORKER_DONE, WORKER_GAVE_UP, WORKER_FAILED } WorkerEnd;
enum { EXIT_NO_ROOM = 2, EXIT_NO_PARENT = 3 }; /* of a worker */

/* Median time of the ops that take any. */
static EchTime typical_time(const EchPrices *prices)
{
    g_autofree EchTime *times = g_new(EchTime, prices->n_prices + 1);
    size_t n = 0;
    for (size_t i = 0; i < prices->n_prices; i++)
        if (prices->prices[i].alone > 0)
            times[n++] = prices->prices[i].alone;
    if (n == 0)
        return ECH_PS_PER_US;
    qsort(times, n, sizeof *times, ech_compare_i64);
    return times[n / 2];
}

G_GNUC_NORETURN static void worker_main(const EchFluidModule *module, const EchPrices *prices, EchMachine *machine, uint32_t n_memories, const int fds[3],
                                        uint64_t *progress, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_NO_PARENT);
    dup2(fds[2], STDERR_FILENO);
    dup2(fds[2], STDOUT_FILENO);
    Writer *spans = g_new0(Writer, 1);
    spans->fd = fds[0];
    ech_machine_set_sink(machine, put_span, spans, progress);
    module->run(prices->resources, prices->n_resources, ech_machine_max_live(machine), typical_time(prices), ech_machine_drive, machine);
    writer_flush(spans);
    Writer *rest = g_new0(Writer, 1);
    rest->fd = fds[1];
    put_machine(rest, machine, n_memories);
    writer_flush(rest);
    _exit(spans->failed || rest->failed ? EXIT_NO_ROOM : 0);
}

static void tell_progress(const EchMachine *machine, uint64_t done)
{
    if (progress_call)
        progress_call(done, ech_machine_total(machine), progress_data);
}

static WorkerEnd run_worker(const EchFluidModule *module, const EchPrices *prices, EchMachine *machine, uint32_t n_memories, GArray *spans, char **ret_why)
{
    uint64_t *progress = mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int fds[3] = {memfd_create("spans", MFD_CLOEXEC), memfd_create("run", MFD_CLOEXEC), memfd_create("words", MFD_CLOEXEC)};
    WorkerEnd end = WORKER_FAILED;
    pid_t parent = getpid();
    fflush(NULL);
    pid_t pid = progress == MAP_FAILED || fds[0] < 0 || fds[1] < 0 || fds[2] < 0 ? -1 : fork();
    if (pid == 0)
        worker_main(module, prices, machine, n_memories, fds, progress, parent);
    if (pid < 0) {
        *ret_why = g_strdup_printf("no worker could be started: %s", g_strerror(errno));
    } else {
        int status = 0;
        pid_t got;
        while ((got = waitpid(pid, &status, progress_call ? WNOHANG : 0)) == 0 || (got < 0 && errno == EINTR)) {
            if (got == 0) {
                tell_progress(machine, __atomic_load_n(progress, __ATOMIC_RELAXED));
                g_usleep(20000);
            }
        }
        size_t n_spans, n_rest;
        char *span_bytes = map_file(fds[0], &n_spans), *rest_bytes = map_file(fds[1], &n_rest);
        if (got > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 && span_bytes != MAP_FAILED && rest_bytes && rest_bytes != MAP_FAILED &&
            take_machine(machine, n_memories, rest_bytes, n_rest)) {
            g_array_append_vals(spans, span_bytes, (guint)(n_spans / sizeof(EchSpan)));
            end = WORKER_DONE;
        } else {
            g_autofree char *words = last_words(fds[2]);
            bool gave_up = got > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
            end = gave_up ? WORKER_GAVE_UP : WORKER_FAILED;
            if (got > 0 && WIFSIGNALED(status))
                *ret_why = g_strdup_printf("the worker died of signal %d (%s)%s%s", WTERMSIG(status), g_strsignal(WTERMSIG(status)), *words ? ": " : "", words);
            else if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NO_ROOM)
                *ret_why = g_strdup("the worker had no room for its answer (memory, or ulimit -f)");
            else
                *ret_why = g_strdup_printf("the worker ended with status %d%s%s", WIFEXITED(status) ? WEXITSTATUS(status) : -1, *words ? ": " : "", words);
        }
        if (span_bytes && span_bytes != MAP_FAILED)
            munmap(span_bytes, n_spans);
        if (rest_bytes && rest_bytes != MAP_FAILED)
            munmap(rest_bytes, n_rest);
    }
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (progress != MAP_FAILED)
        munmap(progress, sizeof *progress);
    return end;
}

/* From what the machine left to a run */

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static EchTime to_ps(double ps)
{
    return ps < 9e18 ? (EchTime)llrint(ps) : ECH_TIME_MAX;
}

static void fill_memories(EchRun *run, const EchTrace *trace, const EchDevice *device, const EchPrices *prices, EchMachine *machine, const int64_t *sums,
                          const double *amounts)
{
    size_t n = ech_trace_n_memories(trace), extra = 0;
    run->memories = g_new0(EchMemoryRun, n + device->n_memories);
    for (size_t i = 0; i < n; i++) {
        EchMemoryRun *out = &run->memories[i];
        EchMemoryState *state = &ech_machine_memories(machine)[i];
        const EchMemory *memory = ech_device_memory(device, ech_trace_memory(trace, (EchId)i));
        out->name = g_strdup(ech_trace_memory(trace, (EchId)i));
        out->capacity = memory ? memory->capacity : 0;
        out->context = state->context;
        out->available = memory ? (memory->available ? memory->available : memory->capacity) - state->context : 0;
        out->on_device = state->on_device;
        if (state->on_device)
            out->available = state->limit;
        out->untold = state->untold;
        out->managed = state->managed;
        out->peak_together = state->peak_together;
        out->paged_in = state->paged_in;
        out->paged_out = state->paged_out;
        out->peak_live = state->peak_live;
        out->peak_reserved = state->peak_reserved;
        out->peak_at = state->peak_at;
        out->peak_born = state->peak_born;
        out->end_live = state->live;
        out->fixed_extent = state->fixed_extent;
        out->read = (EchBytes)sums[i * ECH_SUMS_PER_MEMORY + ECH_SUM_MEMORY_READ];
        out->written = (EchBytes)sums[i * ECH_SUMS_PER_MEMORY + ECH_SUM_MEMORY_WRITTEN];
        out->cached = (EchBytes)sums[i * ECH_SUMS_PER_MEMORY + ECH_SUM_MEMORY_CACHED];
        out->allocs = state->allocs;
        out->frees = state->frees;
        out->failed = state->failed;
        out->fragmentation =
            state->peak_reserved > 0 && state->peak_live <= state->peak_reserved ? 1 - (double)state->peak_live / (double)state->peak_reserved : 0;
        out->alloc = state->alloc;
        out->allocator = g_strdup(ech_machine_allocator(machine, (uint32_t)i));
        out->n_series = state->series->len;
        out->series = g_memdup2(state->series->data, state->series->len * sizeof(EchPoint));
        for (uint32_t r = 0; memory && r < prices->n_resources; r++)
            if (prices->kinds[r] == ECH_RESOURCE_PORT && &device->memories[prices->owners[r]] == memory)
                out->busy = to_ps(amounts[r] * (double)ECH_PS_PER_S / prices->resources[r].capacity);
    }
    /* Memories of the device that the trace does not use appear too, empty. */
    for (size_t i = 0; i < device->n_memories; i++) {
        bool used = false;
        for (size_t m = 0; m < n && !used; m++) /* whatever the device calls it */
            used = ech_device_memory(device, ech_trace_memory(trace, (EchId)m)) == &device->memories[i];
        if (used)
            continue;
        EchMemoryRun *out = &run->memories[n + extra++];
        out->name = g_strdup(device->memories[i].name);
        out->capacity = device->memories[i].capacity;
        out->available = device->memories[i].available ? device->memories[i].available : device->memories[i].capacity;
        out->allocator = g_strdup("counted");
    }
    run->n_memories = n + extra;
}

/* How long a link was busy one way. What kernels read and write of the host's memory where it lies takes no engine, and what its bytes take at full rate. */
static EchTime busy_of_link(EchTime engines, EchBytes bytes, EchRate rate, uint32_t ports)
{
    double most = (double)rate * MAX(ports, 1u);
    return most > 0 ? MAX(engines, to_ps((double)bytes * (double)ECH_PS_PER_S / most)) : engines;
}

static void fill_links(EchRun *run, const EchDevice *device, const int64_t *sums)
{
    run->n_links = device->n_links;
    run->links = g_new0(EchLinkRun, device->n_links + 1);
    for (size_t i = 0; i < device->n_links; i++) {
        const int64_t *s = sums + i * ECH_SUMS_PER_LINK;
        const EchLink *link = &device->links[i];
        EchLinkRun *out = &run->links[i];
        out->name = g_strdup(link->name);
        out->forward = (EchBytes)s[ECH_SUM_LINK_FORWARD];
        out->backward = (EchBytes)s[ECH_SUM_LINK_BACKWARD];
        out->busy_forward = busy_of_link(s[ECH_SUM_LINK_BUSY_FORWARD], out->forward, link->to_device, link->ports);
        out->busy_backward = busy_of_link(s[ECH_SUM_LINK_BUSY_BACKWARD], out->backward, link->from_device, link->ports);
        out->busy = MAX(s[ECH_SUM_LINK_BUSY], MAX(out->busy_forward, out->busy_backward));
        out->transfers = (uint64_t)s[ECH_SUM_LINK_TRANSFERS];
        double sum = (double)link->to_device + (double)link->from_device,
               rate = (link->both_ways ? MIN((double)link->both_ways, sum) : sum) * MAX(link->ports, 1u);
        out->utilisation = share((double)out->forward + (double)out->backward, rate * (double)run->makespan / (double)ECH_PS_PER_S);
    }
}

/* Operations per unit: from the work of the ops, by instances done. */
static void fill_units(EchRun *run, const EchDevice *device, const EchPrices *prices, const double *amounts)
{
    run->n_units = device->n_units;
    run->units = g_new0(EchUnitRun, device->n_units + 1);
    for (size_t i = 0; i < device->n_units; i++)
        run->units[i].name = g_strdup(device->units[i].name);
    for (uint32_t r = 0; r < prices->n_resources; r++) {
        if (prices->kinds[r] != ECH_RESOURCE_UNIT)
            continue;
        EchUnitRun *out = &run->units[prices->owners[r]];
        out->busy = to_ps(amounts[r] * (double)ECH_PS_PER_S / prices->resources[r].capacity);
        out->utilisation = share((double)out->busy, (double)run->makespan);
        out->flops = amounts[prices->n_resources + prices->owners[r]];
    }
}

static void fill_failure(EchRun *run, const EchTrace *trace, const EchOutcome *out)
{
    run->fits = out->fits;
    if (out->fits)
        return;
    run->failure = out->failure;
    run->failure.memory = g_strdup(ech_trace_memory(trace, out->failed_memory));
    run->failure.n_holders = MIN(out->failure.n_holders, G_N_ELEMENTS(out->holders));
    run->failure.holders = g_memdup2(out->holders, run->failure.n_holders * sizeof *out->holders);
}

static void fill_run(EchRun *run, const EchTrace *trace, const EchDevice *device, EchPrices *prices, EchMachine *machine, GArray *spans)
{
    const EchOutcome *out = ech_machine_outcome(machine);
    size_t n_sums, n_amounts, n_memories = ech_trace_n_memories(trace);
    const int64_t *sums = ech_machine_sums(machine, &n_sums);
    const double *amounts = ech_machine_amounts(machine, &n_amounts);
    run->makespan = out->makespan;
    run->ops = out->ops;
    run->completed = out->completed;
    fill_failure(run, trace, out);
    run->spans_left_out = out->spans_left_out;
    run->spans = g_array_steal(spans, &run->n_spans);
    run->skips = g_array_steal(ech_machine_skips(machine), &run->n_skips);
    run->placed = g_array_steal(ech_machine_placed(machine), &run->n_placed);
    run->n_resources = prices->n_resources;
    run->resources = g_new0(char *, prices->n_resources + 1);
    for (uint32_t r = 0; r < prices->n_resources; r++)
        run->resources[r] = g_strdup(prices->resources[r].name);
    memcpy(run->waits, sums, sizeof run->waits);
    sums += ECH_N_WAITS;
    run->n_queues = ech_trace_n_queues(trace);
    run->queues = g_new0(EchQueueRun, run->n_queues + 1);
    for (size_t q = 0; q < run->n_queues; q++, sums += ECH_SUMS_PER_QUEUE) {
        run->queues[q].queue = (EchId)q;
        run->queues[q].busy = sums[ECH_SUM_QUEUE_BUSY];
        run->queues[q].ops = (uint64_t)sums[ECH_SUM_QUEUE_OPS];
        memcpy(run->queues[q].waits, sums + ECH_SUM_QUEUE_WAITS, sizeof run->queues[q].waits);
    }
    sums += ECH_SUMS_PER_QUEUE; /* Ops without a queue. */
    fill_memories(run, trace, device, prices, machine, sums, amounts);
    fill_links(run, device, sums + n_memories * ECH_SUMS_PER_MEMORY);
    fill_units(run, device, prices, amounts);
    for (size_t i = 0; i < run->n_memories; i++)
        run->memories[i].utilisation = share((double)run->memories[i].busy, (double)run->makespan);
    ech_machine_bounds(machine, &run->lower_bound, &run->serial);
    if (out->driver > 0 || prices->gaps) /* what allocators called the driver for is in no price, nor when the host was late for which queue */
        run->serial = MAX(ech_time_add(run->serial, out->driver), run->makespan);
    for (uint32_t i = 0; i < n_memories; i++)
        run->serial = ech_time_add(run->serial, ech_machine_memories(machine)[i].paging);
    memcpy(run->provenance.kernels, prices->kernels, sizeof run->provenance.kernels);
    run->provenance.executed = out->executed;
    run->provenance.events = out->events;
    run->provenance.trace_hash = ech_trace_hash(trace);
    run->provenance.device_hash = device->hash;
    run->host_launch = ech_machine_host_launch(machine, &run->host_operator, &run->host_waits);
    run->kernel_gap = ech_machine_kernel_gap(machine);
    run->n_prices = prices->n_prices;
    run->prices = g_steal_pointer(&prices->prices);
}

static bool check_outcome(const EchTrace *trace, EchMachine *machine, const EchReplayOptions *options, GError **error)
{
    const EchOutcome *out = ech_machine_outcome(machine);
    if (out->too_many) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED,
                    "the trace expands to %" G_GUINT64_FORMAT " operations, more than max_ops = %" G_GUINT64_FORMAT
                    "; raise it, or set trips for loops that do not say their count",
                    ech_machine_total(machine), options->max_ops);
        return false;
    }
    if (out->too_long) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED,
                    "the run takes longer than the 46 days that can be simulated; a time or a size in the trace, or a rate of the device, is absurd");
        return false;
    }
    if (out->stuck != ECH_NONE) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "op %u ('%s') never becomes ready: it waits for something that waits for it", out->stuck,
                    ech_trace_string(trace, ech_trace_ops(trace)[out->stuck].name));
        return false;
    }
    return true;
}

/* Says so when the recording took longer than the replay: what lies between is the host's, or a slower device's. */
static void remark_recorded(const EchTrace *trace, EchRun *run)
{
    EchTime first = ECH_TIME_MAX, last = 0;
    const EchOp *ops = ech_trace_ops(trace);
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchRecorded *recorded = &ops[i].recorded;
        bool works = ech_op_is_work(&ops[i]);
        if (!works || recorded->start == ECH_TIME_NONE || recorded->duration == ECH_TIME_NONE || recorded->start < 0 || recorded->duration < 0)
            continue;
        first = MIN(first, recorded->start);
        last = MAX(last, ech_time_add(recorded->start, recorded->duration));
    }
    if (first >= last || (last - first) / 20 * 19 <= run->makespan)
        return;
    g_autofree char *span = ech_format_time(last - first);
    ech_diag_remark(run->diag,
                    "recorded, it took %s from the first operation to the last: time in which the host asked for nothing is left out here; --set "
                    "replay.host_gaps=true keeps it",
                    span);
}

/* Says so when what streams wait for is a guess. */
static void remark_waits(const EchTrace *trace, EchRun *run)
{
    const char *inferred = ech_trace_get_property(trace, "inferred_stream_waits");
    if (!inferred)
        return;
    bool untold = g_strcmp0(ech_trace_format(trace), "kineto") == 0 && !ech_trace_get_property(trace, "stream_waits_told");
    ech_diag_remark(
        run->diag,
        "what comes after what in different streams is taken from the order of calls and the recorded times, where the recording does not say it: %s "
        "times%s",
        inferred,
        untold ? "; torch.profiler.profile(experimental_config=torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)) has it say "
                 "which stream waits for which"
               : "");
}

/* Says so when kernels that talk to other GPUs are no collectives, because nothing says what they send. */
static void remark_unsized(const EchTrace *trace, EchRun *run)
{
    g_autofree uint8_t *seen = g_new0(uint8_t, ech_trace_n_strings(trace) + 1); /* 1: does not; 2: does */
    uint64_t n = 0;
    EchTime time = 0;
    EchId first = ECH_NONE;
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        EchCommName name;
        if (op->kind != ECH_OP_KERNEL || op->name == ECH_NONE || op->recorded.duration == ECH_TIME_NONE)
            continue;
        if (!seen[op->name])
            seen[op->name] = ech_comm_name(ech_trace_string(trace, op->name), &name) ? 2 : 1;
        if (seen[op->name] == 1)
            continue;
        first = first == ECH_NONE ? op->name : first;
        time = ech_time_add(time, op->recorded.duration);
        n++;
    }
    if (n == 0)
        return;
    g_autofree char *text = ech_format_time(time), *kernel = ech_quote(ech_trace_string(trace, first), -1, 60);
    ech_diag_remark(run->diag,
                    "%" G_GUINT64_FORMAT
                    " kernel%s talk%s to other GPUs (%s recorded in all; first: %s), and nothing says how much: counted as kernels like any "
                    "other, so that links between GPUs do not touch them",
                    n, n == 1 ? "" : "s", n == 1 ? "s" : "", text, kernel);
}

/* Says of a server what of its host is not counted: launches alone are, and what lies between steps takes longer than they do. Servers are known by kernels
 * that keep keys and values in pages. */
static void remark_server(const EchTrace *trace, EchRun *run)
{
    static const char *const keepers[] = {"reshape_and_cache", "concat_and_cache", "store_kvcache", "BatchDecodeWithPagedKVCache"};
    bool serves = false;
    for (size_t i = 0; i < ech_trace_n_ops(trace) && run->host_waits > 0 && run->after_wait == 0 && !serves; i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        for (size_t k = 0; k < G_N_ELEMENTS(keepers) && op->kind == ECH_OP_KERNEL && op->name != ECH_NONE && !serves; k++)
            serves = strstr(ech_trace_string(trace, op->name), keepers[k]) != NULL;
    }
    if (serves) /* 1.2 ms: what a step of Llama 3.2 1B took in vLLM of May 2025, 2.73 ms (vllm-project/vllm pull request 17866), less its kernels on an H100 */
        ech_diag_remark(run->diag,
                        "of this server's host launches alone are counted: what it schedules, samples and writes between steps is not, and it waited for the "
                        "device %" G_GUINT64_FORMAT
                        " times before it asked for more. vLLM of 2025 took some 1.2 ms a step so, later ones schedule ahead; --set "
                        "replay.after_wait=1.2ms counts as much after each wait",
                        run->host_waits);
}

static EchPrices *prices_of(const EchReplayRank *rank, EchDiag *diag)
{
    const EchReplayOptions *options = rank->options;
    const EchPriceOptions price_options = {.kernel_time = (EchKernelTime)options->kernel_time,
                                           .overhead = options->overhead != 0,
                                           .copy_curve = options->copy_curve != 0,
                                           .graph = options->graph != 0,
                                           .tuned_tiles = options->tuned_tiles != 0,
                                           .duty_known = options->products_duty >= 0,
                                           .products_duty = options->products_duty,
                                           .side_by_side = options->share == ECH_SHARE_MPS,
                                           .gaps = options->host_gaps ? ECH_HOST_GAPS_ALL : ECH_HOST_GAPS_BESIDE};
    return ech_prices_new(rank->trace, rank->device, rank->reference, &price_options, diag);
}

/* What comes before a part of a trace, of which only is left how far the host is ahead of the device: a part that began level with it would wait for launches
 * that are long since done. */
static bool run_ahead(EchReplaying *r, GError **error)
{
    EchReplayOptions options = *r->rank.options;
    g_autoptr(EchTrace) before = ech_trace_part(options.whole, 0, options.n_before, error);
    if (!before)
        return false;
    options.whole = NULL;
    options.n_before = 0;
    const EchReplayRank rank = {.trace = before, .device = r->rank.device, .reference = r->rank.reference, .options = &options};
    g_autoptr(EchDiag) silent = ech_diag_new();
    g_autoptr(EchPrices) prices = prices_of(&rank, silent);
    g_autoptr(EchMachine) earlier = ech_machine_new(before, rank.device, prices, &options, silent, error);
    if (!earlier)
        return false;
    g_autoptr(EchNative) engine = ech_native_new(prices->resources, prices->n_resources, ech_machine_max_live(earlier));
    ech_machine_drive(&ech_native_class, engine, earlier);
    ech_machine_set_host_lead(r->machine, ech_machine_host_lead(earlier));
    return true;
}

static bool has_host_ahead(const EchReplaying *r)
{
    EchTime each;
    uint64_t waits;
    return r->rank.options->whole && r->rank.options->n_before > 0 && ech_machine_host_launch(r->machine, &each, &waits) > 0;
}

/* The step before, of which only is left where it left the blocks of unified memory. */
static bool run_before(EchReplaying *r, GError **error)
{
    g_autoptr(EchDiag) silent = ech_diag_new();
    g_autoptr(EchMachine) earlier = ech_machine_new(r->rank.trace, r->rank.device, r->prices, r->rank.options, silent, error);
    if (!earlier)
        return false;
    g_autoptr(EchNative) engine = ech_native_new(r->prices->resources, r->prices->n_resources, ech_machine_max_live(earlier));
    ech_machine_drive(&ech_native_class, engine, earlier);
    ech_machine_take_pages(r->machine, earlier);
    return true;
}

bool ech_replaying_begin(const EchReplayRank *rank, EchReplaying *ret, GError **error)
{
    const EchReplayOptions *options = rank->options;
    EchReplaying r = {.rank = *rank, .run = g_new0(EchRun, 1)};
    r.run->diag = ech_diag_new();
    r.prices = prices_of(rank, r.run->diag);
    r.machine = ech_machine_new(rank->trace, rank->device, r.prices, options, r.run->diag, error);
    if (!r.machine || (ech_machine_begins_paged(r.machine) && !run_before(&r, error)) || (has_host_ahead(&r) && !run_ahead(&r, error))) {
        ech_replaying_clear(&r);
        return false;
    }
    r.spans = g_array_sized_new(FALSE, FALSE, sizeof(EchSpan), (guint)MIN(MIN(ech_machine_total(r.machine), options->max_spans), 1u << 16));
    *ret = r;
    return true;
}

void ech_replaying_clear(EchReplaying *r)
{
    g_clear_pointer(&r->machine, ech_machine_free);
    g_clear_pointer(&r->prices, ech_prices_free);
    g_clear_pointer(&r->run, ech_run_free);
    g_clear_pointer(&r->spans, g_array_unref);
}

void ech_replaying_keep_spans(EchReplaying *r)
{
    ech_machine_set_sink(r->machine, keep_span, r->spans, NULL);
}

static void run_native(EchReplaying *r)
{
    g_autoptr(EchNative) engine = ech_native_new(r->prices->resources, r->prices->n_resources, ech_machine_max_live(r->machine));
    ech_replaying_keep_spans(r);
    ech_machine_drive(&ech_native_class, engine, r->machine);
}

EchRun *ech_replaying_end(EchReplaying *r, const char *engine, const char *version, GError **error)
{
    if (!check_outcome(r->rank.trace, r->machine, r->rank.options, error))
        return NULL;
    fill_run(r->run, r->rank.trace, r->rank.device, r->prices, r->machine, r->spans);
    r->run->after_wait = r->rank.options->after_wait;
    r->run->share = (EchSharing)r->rank.options->share;
    if (!r->rank.options->host_gaps)
        remark_recorded(r->rank.trace, r->run);
    remark_waits(r->rank.trace, r->run);
    remark_unsized(r->rank.trace, r->run);
    remark_server(r->rank.trace, r->run);
    r->run->provenance.engine = g_strdup(engine);
    r->run->provenance.engine_version = g_strdup(version);
    r->run->provenance.options = ech_params_print(ech_replay_params, r->rank.options);
    return g_steal_pointer(&r->run);
}

uint64_t *ech_run_span_counts(const EchRun *run, const EchTrace *trace)
{
    const EchOp *ops = ech_trace_ops(trace);
    uint64_t *counts = g_new(uint64_t, run->n_spans + 1);
    for (size_t i = 0; i < run->n_spans; i++)
        counts[i] = 1;
    /* Each skip repeats the iteration before it; what that one skipped itself (an inner loop) came earlier in the list. Spans are in the order of their ends.
     */
    size_t at = 0;
    for (size_t s = 0; s < run->n_skips; s++) {
        const EchSkip *skip = &run->skips[s];
        uint64_t body = skip->loop == ECH_NONE ? 0 : ops[skip->loop].target;
        while (at < run->n_spans && run->spans[at].end <= skip->time)
            at++;
        for (size_t i = at; i-- > 0 && run->spans[i].end > skip->time - skip->period;) {
            EchId op = run->spans[i].op;
            if (op > skip->loop && op - skip->loop <= body)
                counts[i] = ech_bytes_mul(counts[i], skip->count + 1);
        }
    }
    return counts;
}

/* Products in a row for less than this run as just after a pause: an H100's of 8192 cubed, 36 times, take half of it and are not held, of 10240 cubed a little
 * more and are (zzc0721/torch-performance-test-data issue 79). */
#define HEATS_FROM (100 * ECH_PS_PER_MS)

bool ech_replaying_unsettled(const EchReplayRank *rank)
{
    /* By tables of what was measured, products run as fast as they were measured. */
    bool tables = ech_device_has_number(rank->device, "kernel.burst_share") && !ech_trace_is_captured(rank->trace);
    return rank->options->products_duty < 0 && ech_gpu_held(rank->device, 1) < 1 && !tables;
}

bool ech_replaying_limited(const EchReplayRank *rank)
{
    return ech_gpu_held(rank->device, 0) < 1;
}

double ech_replaying_settled_duty(const EchReplayRank *rank, const EchRun *run)
{
    EchTime products = 0, end = 0;
    g_autofree uint64_t *counts = ech_run_span_counts(run, rank->trace);
    for (size_t i = 0; i < run->n_spans; i++) {
        const EchPrice *price = &run->prices[run->spans[i].op];
        end = MAX(end, run->spans[i].end);
        bool multiplies = price->kernel_class == ECH_GPU_PRODUCT || price->kernel_class == ECH_GPU_ATTENTION;
        if (multiplies && (!price->on_lanes || ech_replaying_limited(rank))) { /* the card's own power has room for what lanes multiply */
            /* beside collectives they take longer, with less of the chip */
            uint64_t took = (uint64_t)MIN(run->spans[i].end - run->spans[i].start, price->alone);
            products = ech_time_add(products, (EchTime)MIN(ech_bytes_mul(took, counts[i]), (uint64_t)INT64_MAX));
        }
    }
    if (ech_replaying_limited(rank))
        return ech_gpu_settled_duty(rank->device, share((double)products, (double)end));
    if (end < HEATS_FROM)
        return 0;
    double slow = (double)products / ech_gpu_held(rank->device, 1); /* what they would take if they ran all the time */
    return ech_gpu_settled_duty(rank->device, share(slow, slow + (double)(end - MIN(products, end))));
}

void ech_replaying_remark_held(const EchReplayRank *rank, EchRun *run)
{
    double duty = rank->options->products_duty,
           power = ech_device_number(rank->device, "kernel.power", ech_device_number(rank->device, "kernel.rated_power", 0));
    g_autofree char *held = power > 0 ? g_strdup_printf("held to %g W", power) : g_strdup("held by the card's power");
    ech_diag_remark(run->diag,
                    "%s, products and attention, which run %.0f %% of the time, run at %.0f %% of their rate just after a pause (--set "
                    "replay.products_duty says otherwise)",
                    held, 100 * duty, 100 * ech_gpu_held(rank->device, duty));
}

static EchRun *run_once(const EchReplayRank *rank, GError **error);

/* Under a limit of power: replays at the rate that it leaves products that run all the time, which tells how much of the time they run, and then at the rate of
 * that. Without: at the rate just after a pause, and again where they run for so long that the card's own power holds them. */
static EchRun *run_settled(const EchReplayRank *rank, GError **error)
{
    EchReplayOptions options = *rank->options;
    const EchReplayRank settled = {.trace = rank->trace, .device = rank->device, .reference = rank->reference, .options = &options};
    if (ech_replaying_limited(rank))
        options.products_duty = 1;
    g_autoptr(EchRun) first = run_once(&settled, error);
    if (!first)
        return NULL;
    double duty = ech_replaying_settled_duty(rank, first);
    if (!ech_replaying_limited(rank) && ech_gpu_held(rank->device, duty) >= 1)
        return g_steal_pointer(&first);
    options.products_duty = duty;
    EchRun *run = run_once(&settled, error);
    if (run)
        ech_replaying_remark_held(&settled, run);
    return run;
}

EchRun *ech_replay_run(const EchTrace *trace, const EchDevice *device, const EchDevice *reference, const EchReplayOptions *options, GError **error)
{
    const EchReplayRank rank = {.trace = trace, .device = device, .reference = reference, .options = options};
    if (options->share != ECH_SHARE_NONE) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG,
                    "replay.share: processes share a device, and there is one; expected several captures, --trace FIRST SECOND ...");
        return NULL;
    }
    return ech_replaying_unsettled(&rank) ? run_settled(&rank, error) : run_once(&rank, error);
}

static EchRun *run_once(const EchReplayRank *rank, GError **error)
{
    g_auto(EchReplaying) r = {0};
    const EchReplayOptions *options = rank->options;
    if (!ech_replaying_begin(rank, &r, error))
        return NULL;
    const EchFluidModule *module = NULL;
    bool few = ech_machine_total(r.machine) <= options->auto_limit && ech_trace_n_queues(rank->trace) <= SIMGRID_QUEUES;
    bool want = options->engine == ECH_ENGINE_SIMGRID || (options->engine == ECH_ENGINE_AUTO && few);
    if (want) {
        g_autoptr(GError) why = NULL;
        module = ech_simgrid_module(&why);
        if (!module && options->engine == ECH_ENGINE_SIMGRID) {
            g_propagate_error(error, g_steal_pointer(&why));
            return NULL;
        }
        if (!module)
            ech_diag_remark(r.run->diag, "native engine: %s", why->message);
    }
    bool native = !module;
    if (module) {
        g_autofree char *why = NULL;
        switch (run_worker(module, r.prices, r.machine, (uint32_t)ech_trace_n_memories(rank->trace), r.spans, &why)) {
        case WORKER_DONE: break;
        case WORKER_GAVE_UP:
            ech_diag_remark(r.run->diag, "SimGrid's solver gave up (%s): this run is the native engine's", why);
            native = true;
            break;
        case WORKER_FAILED:
            g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "the SimGrid engine failed: %s; --engine native needs no worker", why);
            return NULL;
        }
    }
    if (native)
        run_native(&r);
    EchRun *run = ech_replaying_end(&r, native ? "native" : "simgrid", native ? ECH_VERSION : module->version, error);
    if (run)
        tell_progress(r.machine, ech_machine_total(r.machine));
    return run;
}

void ech_run_free(EchRun *run)
{
    if (!run)
        return;
    for (size_t i = 0; i < run->n_memories; i++) {
        g_free(run->memories[i].name);
        g_free(run->memories[i].allocator);
        g_free(run->memories[i].series);
    }
    for (size_t i = 0; i < run->n_links; i++)
        g_free(run->links[i].name);
    for (size_t i = 0; i < run->n_units; i++)
        g_free(run->units[i].name);
    for (size_t i = 0; i < run->n_resources; i++)
        g_free(run->resources[i]);
    g_free(run->failure.memory);
    g_free(run->failure.holders);
    g_free(run->spans);
    g_free(run->skips);
    g_free(run->resources);
    g_free(run->memories);
    g_free(run->links);
    g_free(run->units);
    g_free(run->queues);
    g_free(run->placed);
    g_free(run->prices);
    g_free(run->provenance.engine);
    g_free(run->provenance.engine_version);
    g_free(run->provenance.options);
    if (run->diag)
        ech_diag_free(run->diag);
    g_free(run);
}
