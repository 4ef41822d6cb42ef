/* What the host's processors read and write of memory together: what optimizers and other operators on the host go by. */
#include <glib.h>
#include <string.h>

#include "sim/base/error.h"
#include "sim/experiment/calibrate_private.h"

enum { MOST_THREADS = 256 };

/* A thread's part of two arrays. */
typedef struct {
    double *changed;
    const double *added;
    size_t n;
} Part;

/* Reads both, writes one, as an optimizer does: in place, so that no line is fetched only to be overwritten. */
static void *change(void *data)
{
    Part *part = data;
    for (size_t i = 0; i < part->n; i++)
        part->changed[i] = 0.5 * part->changed[i] + part->added[i];
    return NULL;
}

/* Nanoseconds of all parts together. */
static bool time_parts(Part *parts, unsigned n, double *ret, GError **error)
{
    GThread *threads[MOST_THREADS];
    g_autoptr(GError) refused = NULL;
    double begin = ech_bench_host_ns();
    unsigned started = 0;
    while (started < n && (threads[started] = g_thread_try_new("memory", change, &parts[started], &refused)) != NULL)
        started++;
    for (unsigned i = 0; i < started; i++)
        g_thread_join(threads[i]);
    *ret = ech_bench_host_ns() - begin;
    if (refused)
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "%u of %u threads could be started: %s", started, n, refused->message);
    return started == n;
}

bool ech_calibrate_host(Bench *b, GError **error)
{
    unsigned n = CLAMP(g_get_num_processors(), 1, MOST_THREADS);
    size_t each = b->host_bytes / sizeof(double) / n;
    Part parts[MOST_THREADS];
    memset(b->pageable, 0, b->host_bytes);
    memset(b->pinned[0], 0, b->host_bytes);
    for (unsigned i = 0; i < n; i++)
        parts[i] = (Part){.changed = (double *)b->pageable + i * each, .added = (const double *)b->pinned[0] + i * each, .n = each};
    double rates[REPEATS], took;
    if (!time_parts(parts, n, &took, error)) /* brings the pages in */
        return false;
    for (unsigned i = 0; i < REPEATS; i++) {
        if (!time_parts(parts, n, &took, error))
            return false;
        rates[i] = 3.0 * (double)(each * n * sizeof(double)) / MAX(took, 1) * 1e9;
    }
    b->result->processors = n;
    b->result->host_rate = ech_bench_figure(rates, REPEATS);
    return true;
}
