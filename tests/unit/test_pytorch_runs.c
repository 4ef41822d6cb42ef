/* What PyTorch's own caching allocator did with the workloads of traces/pytorch_allocator (workload.py ran them): every placement, refusal and count. */
#include "models/alloc/events.h"
#include "sim/import/alloc_text.h"
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

#define FOLDER ECH_SOURCE_DIR "/traces/pytorch_allocator"

enum { WORKLOAD, TORCH, BYTES, SETTINGS, FIRST_REFUSED, PLACEMENTS, FIRST_STAT, MAX_FIELDS = 32 };

/* Fields of a line of runs.csv; quotes are around the settings only. */
static unsigned fields_of(char *line, char *ret[MAX_FIELDS])
{
    unsigned n = 0;
    for (char *at = line; at && n < MAX_FIELDS;) {
        bool quoted = *at == '"';
        ret[n++] = at += quoted;
        char *end = strchr(at, quoted ? '"' : ',');
        if (quoted && end)
            *end++ = '\0';
        if (end)
            *end++ = '\0';
        at = end;
    }
    return n;
}

static GArray *requests_of(const char *workload)
{
    g_autofree char *path = g_strdup_printf(FOLDER "/%s.txt.gz", workload);
    g_autoptr(GError) error = NULL;
    g_autoptr(EchSource) source = ech_source_open(path, &error);
    ck_assert_ok(source, error);
    g_autoptr(GBytes) bytes = ech_source_bytes(source, 0, &error);
    ck_assert_ok(bytes, error);
    gsize n;
    const char *text = g_bytes_get_data(bytes, &n);
    g_autoptr(EchDiag) diag = ech_diag_new();
    GArray *events = g_array_new(FALSE, FALSE, sizeof(EchAllocEvent));
    ck_assert_ok(ech_alloc_text_read(text, n, path, events, diag, &error), error);
    return events;
}

/* FNV-1a of lines "ID SEGMENT OFFSET", segments numbered as requests meet them, or "ID -". */
static uint64_t hash_of(const GArray *events, const GArray *placed, uint32_t *ret_first_refused)
{
    g_autoptr(GHashTable) numbers = g_hash_table_new(NULL, NULL); /* segment + 1 to number */
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    *ret_first_refused = UINT32_MAX;
    for (guint i = 0; i < placed->len; i++) {
        const EchPlacedEvent *item = &g_array_index(placed, EchPlacedEvent, i);
        uint32_t id = g_array_index(events, EchAllocEvent, item->event).id;
        char line[80];
        if (item->fit == ECH_FIT_OK) {
            gpointer key = GUINT_TO_POINTER(item->placement.segment + 1), number;
            if (!g_hash_table_lookup_extended(numbers, key, NULL, &number)) {
                number = GUINT_TO_POINTER(g_hash_table_size(numbers));
                g_hash_table_insert(numbers, key, number);
            }
            snprintf(line, sizeof line, "%u %u %" G_GUINT64_FORMAT "\n", id, GPOINTER_TO_UINT(number), item->placement.offset);
        } else {
            *ret_first_refused = MIN(*ret_first_refused, id);
            snprintf(line, sizeof line, "%u -\n", id);
        }
        for (const char *at = line; *at; at++)
            hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static const EchAllocStat *stat_of(const EchAllocStat *stats, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(stats[i].name, name) == 0)
            return &stats[i];
    }
    return NULL;
}

static void check_run(char *const *names, char *const *run, unsigned n_fields, uint64_t *ret_requests, uint64_t *ret_refused)
{
    g_autoptr(GArray) events = requests_of(run[WORKLOAD]);
    g_autofree char *spec = g_strdup_printf("pytorch:release:%s%s%s", run[TORCH], *run[SETTINGS] ? "," : "", run[SETTINGS]);
    EchAllocDevice device = {.capacity = g_ascii_strtoull(run[BYTES], NULL, 10), .order = ECH_ADDRESSES_ASCEND};
    g_autoptr(GError) error = NULL;
    g_autoptr(EchAllocator) allocator = ech_allocator_new(spec, &device, &error);
    ck_assert_ok(allocator, error);
    g_autoptr(GArray) placed = g_array_new(FALSE, FALSE, sizeof(EchPlacedEvent));
    const EchAllocRunOptions options = {.placed = placed};
    EchAllocOutcome outcome = ech_alloc_run(allocator, (const EchAllocEvent *)(const void *)events->data, events->len, &options);
    uint32_t first;
    g_autofree char *hash = g_strdup_printf("%" G_GUINT64_FORMAT, hash_of(events, placed, &first));
    g_autofree char *refused = first == UINT32_MAX ? g_strdup("") : g_strdup_printf("%u", first);
    ck_assert_msg(strcmp(refused, run[FIRST_REFUSED]) == 0, "%s under %s, %s bytes: first refused '%s', expected '%s'", run[WORKLOAD], spec, run[BYTES],
                  refused, run[FIRST_REFUSED]);
    size_t n_stats;
    const EchAllocStat *stats = ech_allocator_own_stats(allocator, &n_stats);
    for (unsigned i = FIRST_STAT; i < n_fields; i++) {
        if (!*run[i])
            continue; /* that release did not count it */
        const EchAllocStat *stat = stat_of(stats, n_stats, names[i]);
        ck_assert_msg(stat != NULL, "no '%s'", names[i]);
        ck_assert_msg(g_ascii_strtoll(run[i], NULL, 10) == stat->value, "%s under %s, %s bytes: %s is %" G_GINT64_FORMAT ", expected %s", run[WORKLOAD], spec,
                      run[BYTES], names[i], stat->value, run[i]);
    }
    ck_assert_msg(strcmp(hash, run[PLACEMENTS]) == 0, "%s under %s, %s bytes: placements differ", run[WORKLOAD], spec, run[BYTES]);
    *ret_requests += placed->len;
    *ret_refused += outcome.stats.failed;
}

START_TEST(as_pytorch_itself)
{
    g_autofree char *text = NULL;
    g_autoptr(GError) error = NULL;
    ck_assert_ok(g_file_get_contents(FOLDER "/runs.csv", &text, NULL, &error), error);
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    char *names[MAX_FIELDS], *run[MAX_FIELDS];
    unsigned n_fields = fields_of(lines[0], names), n_runs = 0;
    ck_assert_uint_gt(n_fields, FIRST_STAT);
    uint64_t requests = 0, refused = 0;
    for (unsigned i = 1; lines[i] && *lines[i]; i++) {
        ck_assert_uint_eq(fields_of(lines[i], run), n_fields);
        check_run(names, run, n_fields, &requests, &refused);
        n_runs++;
    }
    printf("%u runs, %" G_GUINT64_FORMAT " allocations, %" G_GUINT64_FORMAT " refused: all as PyTorch\n", n_runs, requests, refused);
    ck_assert_uint_gt(n_runs, 300);
    ck_assert_uint_gt(refused, 1000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pytorch_runs");
    TCase *runs = tcase_create("runs");
    tcase_add_test(runs, as_pytorch_itself);
    suite_add_tcase(suite, runs);
    return ech_test_main(suite);
}
