/* Operations replayed per second with 1 to 256 demands alive, by the native engine and by SimGrid, beside raw SimGrid activities in the same
 * run; start-up and peak memory; events of captured files imported a second. Prints figures and ratios; decides nothing. */
#include "sim/import/import.h"
#include "sim/replay/replay.h"
#include "tests/support/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A figure of 0 means that SimGrid's solver gave up, or was not asked: with 256 alive it starts and ends two a second. */

enum { MOST_LIVE = 256, N_LIVES = 5 };

/* Engines alone: keep @live demands alive, on 2 of 6 resources each, until @total have ended. */
typedef struct {
    uint32_t live, next;
    uint64_t total, ended;
    double begin, *rate; /* So far; shared with the parent, since SimGrid's solver may give up on the way. */
    EchFluidPart parts[1024][2];
} Load;

static void load_init(Load *load, uint32_t live, uint64_t total)
{
    g_autoptr(GRand) rand = g_rand_new_with_seed(1);
    *load = (Load){.live = live, .total = total};
    for (int i = 0; i < 1024; i++) {
        uint32_t first = (uint32_t)g_rand_int_range(rand, 0, 6), second = (first + 1 + (uint32_t)g_rand_int_range(rand, 0, 5)) % 6;
        load->parts[i][0] = (EchFluidPart){.resource = first, .amount = g_rand_double_range(rand, 0.01, 1) * 1e6};
        load->parts[i][1] = (EchFluidPart){.resource = second, .amount = g_rand_double_range(rand, 0.01, 1) * 1e6};
    }
}

static void drive_load(const EchFluidClass *class, void *engine, void *data)
{
    Load *load = data;
    uint32_t tokens[MOST_LIVE], n;
    EchTime now;
    for (uint32_t i = 0; i < load->live; i++)
        class->start(engine, i, load->parts[load->next++ % 1024], 2, 0);
    while (load->ended < load->total && (n = class->next(engine, tokens, &now)) > 0) {
        load->ended += n;
        if (load->rate && load->ended % 64 < n)
            *load->rate = (double)load->ended / (ech_test_cpu_seconds() - load->begin);
        for (uint32_t i = 0; i < n; i++)
            class->start(engine, tokens[i], load->parts[load->next++ % 1024], 2, 0);
    }
}

static const EchFluidResource six[6] = {{.capacity = 1e6}, {.capacity = 1e6}, {.capacity = 1e6}, {.capacity = 1e6}, {.capacity = 1e6}, {.capacity = 1e6}};

static double native_rate(uint32_t live, uint64_t total)
{
    static Load load;
    load_init(&load, live, total);
    g_autoptr(EchNative) engine = ech_native_new(six, 6, MOST_LIVE);
    double begin = ech_test_cpu_seconds();
    drive_load(&ech_native_class, engine, &load);
    return (double)load.ended / (ech_test_cpu_seconds() - begin);
}

static double simgrid_rate(const EchFluidModule *module, uint32_t live, uint64_t total)
{
    double *rate = mmap(NULL, sizeof *rate, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (rate == MAP_FAILED)
        return 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        static Load load;
        if (!freopen("/dev/null", "w", stderr))
            _exit(1);
        load_init(&load, live, total);
        load.begin = ech_test_cpu_seconds();
        load.rate = rate;
        module->run(six, 6, MOST_LIVE, ECH_PS_PER_S, drive_load, &load);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    double result = *rate;
    munmap(rate, sizeof *rate);
    return result;
}

static EchDevice *make_device(void)
{
    EchDevice *device = ech_device_new();
    device->name = g_strdup("bench");
    device->family = g_strdup("gpu");
    device->compiler = g_strdup("");
    device->summary = g_strdup("");
    device->n_memories = 2;
    device->memories = g_new0(EchMemory, 2);
    device->memories[0] = (EchMemory){
        .name = g_strdup("hbm"), .kind = ECH_MEM_HBM, .capacity = UINT64_C(1) << 40, .read = UINT64_C(1000000000000), .write = UINT64_C(1000000000000)};
    device->memories[1] = (EchMemory){.name = g_strdup("host"), .kind = ECH_MEM_HOST_PINNED};
    device->n_links = 1;
    device->links = g_new0(EchLink, 1);
    device->links[0] = (EchLink){.name = g_strdup("host"),
                                 .from = 1,
                                 .to = 0,
                                 .to_device = UINT64_C(100000000000),
                                 .from_device = UINT64_C(100000000000),
                                 .engines_to = MOST_LIVE,
                                 .engines_from = MOST_LIVE,
                                 .ports = 1};
    device->n_units = 1;
    device->units = g_new0(EchUnit, 1);
    device->units[0] = (EchUnit){.name = g_strdup("matrix"), .kind = ECH_UNIT_MATRIX, .count = 1, .n_peaks = 1, .peaks = g_new0(EchPeak, 1)};
    device->units[0].peaks[0] = (EchPeak){.dtype = g_strdup("bf16"), .ops = UINT64_C(100000000000000)};
    return device;
}

/* @n ops spread over @queues queues: half kernels that read memory, half copies either way. */
static EchTrace *make_trace(uint32_t queues, uint32_t n)
{
    g_autoptr(EchTraceBuilder) b = ech_trace_builder_new("bench");
    g_autoptr(GRand) rand = g_rand_new_with_seed(3);
    EchId hbm = ech_trace_builder_memory(b, "hbm"), host = ech_trace_builder_memory(b, "host");
    EchBuffer buffer = ech_buffer_init();
    buffer.name = ech_trace_builder_string(b, "x", -1);
    buffer.memory = hbm;
    buffer.bytes = 1 << 30;
    buffer.resident = 1;
    EchId x = ech_trace_builder_buffer(b, buffer);
    EchId name = ech_trace_builder_string(b, "op", -1);
    for (uint32_t q = 0; q < queues; q++) {
        g_autofree char *text = g_strdup_printf("q%u", q);
        ech_trace_builder_queue(b, text, ECH_QUEUE_COMPUTE, 0);
    }
    g_assert(queues > 0);
    for (uint32_t i = 0; i < n; i++) {
        EchOp op = ech_op_init(i & 1 ? ECH_OP_COPY : ECH_OP_KERNEL);
        op.name = name;
        op.queue = (i / 2) % queues;
        if (i & 1) {
            op.memory_from = i & 2 ? hbm : host;
            op.memory_to = i & 2 ? host : hbm;
            op.bytes = (uint64_t)g_rand_int_range(rand, 1000, 1000000);
        }
        ech_trace_builder_op(b, op);
        if (!(i & 1)) {
            ech_trace_builder_work(b, ECH_WORK_MATRIX, ECH_DTYPE_BF16, (uint64_t)g_rand_int_range(rand, 1000, 1000000000), ECH_KNOWN);
            ech_trace_builder_use(b, x, ECH_READ, (EchBytes)g_rand_int_range(rand, 1000, 10000000), ECH_PATTERN_STREAM, ECH_KNOWN);
        }
    }
    return ech_trace_builder_finish(b, NULL);
}

static double replay_rate(EchEngine engine, uint32_t queues, uint32_t n)
{
    g_autoptr(EchTrace) trace = make_trace(queues, n);
    g_autoptr(EchDevice) device = make_device();
    EchReplayOptions options = {0};
    ech_params_defaults(ech_replay_params, &options);
    options.engine = engine;
    double (*clock)(void) = engine == ECH_ENGINE_SIMGRID ? ech_test_wall_seconds : ech_test_cpu_seconds;
    double begin = clock();
    g_autoptr(EchRun) run = ech_replay_run(trace, device, NULL, &options, NULL);
    double spent = clock() - begin;
    /* Answered by the other engine: no figure. */
    return run && (engine == ECH_ENGINE_SIMGRID) == (strcmp(run->provenance.engine, "simgrid") == 0) ? (double)run->ops / spent : 0;
}

/* Events of captured files a second, where such files are at hand. */
static void import_rates(void)
{
    static const char *const folders[] = {"kineto", "memory_snapshot", "xplane", "nsys"};
    for (size_t f = 0; f < G_N_ELEMENTS(folders); f++) {
        g_autofree char *folder = g_build_filename(ECH_SHARED, "traces", folders[f], NULL);
        g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
        double spent = 0, events = 0;
        uint64_t bytes = 0, files = 0;
        for (const char *name = dir ? g_dir_read_name(dir) : NULL; name && files < 8; name = g_dir_read_name(dir)) {
            g_autofree char *path = g_build_filename(folder, name, NULL);
            struct stat status;
            if (stat(path, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > 64 << 20)
                continue;
            double begin = ech_test_cpu_seconds();
            EchImportOptions options = {0};
            g_autoptr(EchImport) import = ech_import_file(path, NULL, &options, NULL);
            if (!import || !import->trace)
                continue;
            spent += ech_test_cpu_seconds() - begin;
            events += (double)ech_trace_n_ops(import->trace);
            bytes += (uint64_t)status.st_size;
            files++;
        }
        if (files > 0)
            printf("imported %-16s %10.0f operations a second (%" G_GUINT64_FORMAT " files, %.1f MB as stored)\n", folders[f], events / spent, files,
                   (double)bytes / 1e6);
    }
}

/* Figures, or how many times those of @base. */
static void print_row(const char *what, const double *figures, const double *base)
{
    printf("%-28s", what);
    for (int i = 0; i < N_LIVES; i++)
        if (!base)
            printf(" %10.0f", figures[i]);
        else if (base[i] > 0)
            printf(" %9.1fx", figures[i] / base[i]);
        else
            printf(" %10s", "-");
    printf("\n");
}

/* bench_replay native|replay LIVE: one of them only, for a profiler. */
static int one(const char *what, uint32_t live)
{
    bool native = strcmp(what, "native") == 0;
    printf("%s, %u alive: %.0f a second\n", native ? "native engine" : "replay native", live,
           native ? native_rate(live, 3000000) : replay_rate(ECH_ENGINE_NATIVE, live, 2000000));
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    static const uint32_t lives[N_LIVES] = {1, 4, 16, 64, MOST_LIVE};
    if (argc == 3)
        return one(argv[1], (uint32_t)CLAMP(atoi(argv[2]), 1, MOST_LIVE));
    double begin = ech_test_wall_seconds();
    const EchFluidModule *module = ech_simgrid_module(NULL);
    double load = ech_test_wall_seconds() - begin;
    printf("%-28s", "per second, alive:");
    for (int i = 0; i < N_LIVES; i++)
        printf(" %10u", lives[i]);
    printf("\n");
    double native[N_LIVES], raw[N_LIVES], replayed[N_LIVES], on_simgrid[N_LIVES];
    for (int i = 0; i < N_LIVES; i++) {
        native[i] = native_rate(lives[i], 2000000);
        raw[i] = module && lives[i] <= 64 ? simgrid_rate(module, lives[i], lives[i] > 16 ? 3000 : 30000) : 0;
        replayed[i] = replay_rate(ECH_ENGINE_NATIVE, lives[i], 1000000);
        on_simgrid[i] = module && lives[i] <= 64 ? replay_rate(ECH_ENGINE_SIMGRID, lives[i], lives[i] > 16 ? 4000 : 30000) : 0;
    }
    print_row("native engine, demands", native, NULL);
    print_row("raw SimGrid, activities", raw, NULL);
    print_row("replay native, operations", replayed, NULL);
    print_row("replay SimGrid, operations", on_simgrid, NULL);
    if (module) {
        print_row("native / raw SimGrid", native, raw);
        print_row("replay native / raw SimGrid", replayed, raw);
        begin = ech_test_wall_seconds();
        replay_rate(ECH_ENGINE_SIMGRID, 1, 2);
        printf("loading SimGrid %.1f ms, a run of two operations on it %.1f ms\n", load * 1e3, (ech_test_wall_seconds() - begin) * 1e3);
    }
    import_rates();
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("peak memory %.0f MiB with the spans of 10^6 operations\n", (double)usage.ru_maxrss / 1024);
    return EXIT_SUCCESS;
}
