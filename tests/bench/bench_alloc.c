/* Events per second of each allocator, beside what the real ones were measured to do; host memory beside live blocks.
 *
 * Traces: ours (seeded), and the oracle's where they lie. Ratios only; nothing here passes or fails. */
#include "models/alloc/events.h"
#include "sim/import/alloc_text.h"
#include "tests/support/random.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef __linux__
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* Fastest and slowest of the real code, events/s, over the oracle's traces (facts of XLA's BFC and PyTorch 2.6.0 on such a machine). */
static const struct {
    const char *spec;
    double slow, fast;
} cases[] = {
    {"bfc:limit=60GiB", 1.3e6, 8e6},
    {"bfc:growth=true", 1.3e6, 8e6},
    {"pytorch", 0.9e6, 2.3e6},
    {"pytorch:expandable_segments:True", 0.9e6, 2.3e6},
    {"best_fit", 0, 0},
    {"first_fit", 0, 0},
    {"tlsf", 0, 0},
    {"buddy", 0, 0},
    {"slab", 0, 0},
    {"cuda_async", 0, 0},
    {"arena", 0, 0},
};

static uint64_t state = 88172645463325252u;

static uint64_t draw(void)
{
    return ech_test_draw(&state);
}

/* Sizes with a heavy tail, frees at random, about @n_live live. */
static GArray *made(size_t n, size_t n_live, EchBytes largest)
{
    GArray *events = g_array_new(FALSE, FALSE, sizeof(EchAllocEvent));
    g_autofree uint32_t *live = g_new(uint32_t, n);
    size_t n_now = 0;
    uint32_t next = 0;
    for (size_t i = 0; i < n; i++) {
        EchAllocEvent event = {0};
        if (n_now && (n_now >= n_live || draw() % 5 < 2)) {
            size_t pick = draw() % n_now;
            event.id = live[pick];
            event.kind = ECH_EVENT_FREE;
            live[pick] = live[--n_now];
        } else {
            unsigned bits = 9 + (unsigned)(draw() % (unsigned)(g_bit_storage(largest) - 9));
            event = (EchAllocEvent){.bytes = 1 + draw() % (UINT64_C(1) << bits), .id = next++, .kind = ECH_EVENT_ALLOC};
            live[n_now++] = event.id;
        }
        g_array_append_val(events, event);
    }
    return events;
}

#ifdef __linux__
static int counter(uint64_t config)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_HARDWARE, .size = sizeof attr, .config = config, .disabled = 1, .exclude_kernel = 1, .exclude_hv = 1};
    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}
#endif

static void run(const char *trace, const GArray *events)
{
    const EchAllocEvent *items = (const EchAllocEvent *)(const void *)events->data;
    size_t bound_at;
    EchBytes bound = ech_alloc_lower_bound(items, events->len, &bound_at);
    g_autofree char *least = ech_format_bytes(bound);
    printf("%s: %u events, %s live\n", trace, events->len, least);
    for (size_t c = 0; c < G_N_ELEMENTS(cases); c++) {
        double best = 0;
        size_t heap = 0;
        uint64_t failed = 0, blocks = 0;
        long long misses = -1, instructions = -1;
        for (int round = 0; round < 5; round++) {
            EchAllocDevice device = {.capacity = UINT64_C(80) << 30};
            size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
            g_autoptr(EchAllocator) allocator = ech_allocator_new(cases[c].spec, &device, NULL);
#ifdef __linux__
            int fds[2] = {counter(PERF_COUNT_HW_CACHE_MISSES), counter(PERF_COUNT_HW_INSTRUCTIONS)};
            for (int i = 0; i < 2; i++)
                if (fds[i] >= 0)
                    ioctl(fds[i], PERF_EVENT_IOC_ENABLE, 0);
#endif
            EchAllocOutcome outcome = ech_alloc_run(allocator, items, events->len, &(EchAllocRunOptions){0});
#ifdef __linux__
            long long values[2] = {-1, -1};
            for (int i = 0; i < 2; i++) {
                if (fds[i] < 0)
                    continue;
                if (read(fds[i], &values[i], sizeof values[i]) != (ssize_t)sizeof values[i])
                    values[i] = -1;
                close(fds[i]);
            }
            misses = values[0];
            instructions = values[1];
#endif
            heap = mallinfo2().uordblks + mallinfo2().hblkhd - before;
            best = MAX(best, outcome.seconds > 0 ? (double)events->len / outcome.seconds : 0);
            failed = outcome.stats.failed;
            size_t n_blocks;
            g_free(ech_allocator_blocks(allocator, &n_blocks));
            blocks = n_blocks;
        }
        printf("  %-34s %7.2f M events/s", cases[c].spec, best / 1e6);
        if (cases[c].slow > 0)
            printf(", %5.1f to %5.1f times the real one", best / cases[c].fast, best / cases[c].slow);
        printf("; %zu kB of host memory at the end for %" G_GUINT64_FORMAT " blocks", heap / 1000, blocks);
        if (instructions >= 0)
            printf("; %.0f instructions", (double)instructions / events->len);
        if (misses >= 0)
            printf(", %.2f cache misses an event", (double)misses / events->len);
        if (failed)
            printf("; %" G_GUINT64_FORMAT " failed", failed);
        putchar('\n');
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        for (int i = 1; i < argc; i++) {
            g_autoptr(GError) error = NULL;
            g_autoptr(EchSource) source = ech_source_open(argv[i], &error);
            g_autoptr(GBytes) bytes = source ? ech_source_bytes(source, 0, &error) : NULL;
            g_autoptr(GArray) events = g_array_new(FALSE, FALSE, sizeof(EchAllocEvent));
            g_autoptr(EchDiag) diag = ech_diag_new();
            gsize n = 0;
            const char *data = bytes ? g_bytes_get_data(bytes, &n) : NULL;
            if (!data || !ech_alloc_text_read(data, n, argv[i], events, diag, &error)) {
                fprintf(stderr, "%s\n", error ? error->message : argv[i]);
                return EXIT_FAILURE;
            }
            run(argv[i], events);
        }
        return EXIT_SUCCESS;
    }
#ifdef __linux__
    int fd = counter(PERF_COUNT_HW_INSTRUCTIONS);
    if (fd < 0)
        puts("no hardware counters here: cache misses and instructions are not shown");
    else
        close(fd);
#endif
    g_autoptr(GArray) small = made(1000000, 2000, UINT64_C(1) << 20), large = made(1000000, 60000, UINT64_C(1) << 21);
    run("2,000 live, 512 B to 1 MiB", small);
    run("60,000 live, 512 B to 2 MiB", large);
    static const char *const names[] = {"train_gpt_ckpt", "uniform_1e5", "edges_2e4"};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *path = g_strdup_printf(ECH_SHARED "/oracle/traces/%s.txt.gz", names[i]);
        char *again[] = {argv[0], path, NULL};
        if (g_file_test(path, G_FILE_TEST_EXISTS))
            main(2, again);
    }
    return EXIT_SUCCESS;
}
