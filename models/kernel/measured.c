/* Tables of measured kernels, and what lies between their points. */
#include "models/kernel/measured.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 16 };

/* A full grid: share[edge * n_inner + k]. */
typedef struct {
    char *dtype;
    bool odd;
    double edges[MOST_STEPS], inner[MOST_STEPS];
    size_t n_edges, n_inner;
    double share[MOST_STEPS * MOST_STEPS];
} Grid;

typedef struct {
    double bytes, extra; /* Picoseconds */
} Step;

struct EchMeasured {
    GArray *grids;   /* Grid */
    GArray *streams; /* Step, ascending */
};

void ech_measured_free(EchMeasured *measured)
{
    if (!measured)
        return;
    for (guint i = 0; i < measured->grids->len; i++)
        g_free(g_array_index(measured->grids, Grid, i).dtype);
    g_array_unref(measured->grids);
    g_array_unref(measured->streams);
    g_free(measured);
}

/* Index of @value among ascending steps, where it is put if it is new; SIZE_MAX where there is no room. */
static size_t step_of(double *steps, size_t *n, double value)
{
    size_t at = 0;
    while (at < *n && steps[at] < value)
        at++;
    if (at < *n && steps[at] == value)
        return at;
    if (*n == MOST_STEPS)
        return SIZE_MAX;
    memmove(steps + at + 1, steps + at, (*n - at) * sizeof *steps);
    steps[at] = value;
    (*n)++;
    return at;
}

/* "DTYPE.EDGExK" behind @prefix. */
static bool split(const char *path, const char *prefix, char **ret_dtype, double *ret_edge, double *ret_k)
{
    if (!g_str_has_prefix(path, prefix))
        return false;
    const char *dtype = path + strlen(prefix), *dot = strchr(dtype, '.');
    char *end = NULL;
    if (!dot)
        return false;
    guint64 edge = g_ascii_strtoull(dot + 1, &end, 10), k = *end == 'x' ? g_ascii_strtoull(end + 1, &end, 10) : 0;
    if (edge == 0 || k == 0 || *end != '\0')
        return false;
    *ret_dtype = g_strndup(dtype, (gsize)(dot - dtype));
    *ret_edge = (double)edge;
    *ret_k = (double)k;
    return true;
}

static Grid *grid_for(EchMeasured *measured, const char *dtype, bool odd)
{
    for (guint i = 0; i < measured->grids->len; i++) {
        Grid *grid = &g_array_index(measured->grids, Grid, i);
        if (grid->odd == odd && strcmp(grid->dtype, dtype) == 0)
            return grid;
    }
    Grid fresh = {.dtype = g_strdup(dtype), .odd = odd};
    g_array_append_val(measured->grids, fresh);
    return &g_array_index(measured->grids, Grid, measured->grids->len - 1);
}

/* First the steps of every grid (@place false), then the shares at them: a grid with holes is none. */
static void read_products(EchMeasured *measured, const EchDevice *device, bool place)
{
    static const char *const prefixes[] = {"kernel.products.", "kernel.products_odd."};
    for (size_t i = 0; i < device->n_numbers; i++) {
        for (size_t odd = 0; odd < G_N_ELEMENTS(prefixes); odd++) {
            g_autofree char *dtype = NULL;
            double edge, k;
            if (!(device->numbers[i].value > 0) || !split(device->numbers[i].path, prefixes[odd], &dtype, &edge, &k))
                continue;
            Grid *grid = grid_for(measured, dtype, odd);
            size_t e = step_of(grid->edges, &grid->n_edges, edge), c = step_of(grid->inner, &grid->n_inner, k);
            if (place && e != SIZE_MAX && c != SIZE_MAX)
                grid->share[e * grid->n_inner + c] = device->numbers[i].value;
        }
    }
    for (guint i = measured->grids->len; place && i-- > 0;) {
        const Grid *grid = &g_array_index(measured->grids, Grid, i);
        bool whole = true;
        for (size_t at = 0; at < grid->n_edges * grid->n_inner; at++)
            whole = whole && grid->share[at] > 0;
        if (whole)
            continue;
        g_free(grid->dtype);
        g_array_remove_index(measured->grids, i);
    }
}

static int by_bytes(const void *a, const void *b)
{
    double x = ((const Step *)a)->bytes, y = ((const Step *)b)->bytes;
    return (x > y) - (x < y);
}

static void read_streams(EchMeasured *measured, const EchDevice *device)
{
    const char *prefix = "kernel.stream_extra.";
    for (size_t i = 0; i < device->n_numbers; i++) {
        EchBytes bytes;
        if (!g_str_has_prefix(device->numbers[i].path, prefix) || !(device->numbers[i].value >= 0) ||
            !ech_parse_bytes(device->numbers[i].path + strlen(prefix), &bytes, NULL) || bytes == 0)
            continue;
        Step step = {(double)bytes, device->numbers[i].value};
        g_array_append_val(measured->streams, step);
    }
    if (measured->streams->len > 1)
        qsort(measured->streams->data, measured->streams->len, sizeof(Step), by_bytes);
    for (guint i = 1; i < measured->streams->len;) { /* "1MiB" and "1024KiB" are one size */
        if (g_array_index(measured->streams, Step, i).bytes > g_array_index(measured->streams, Step, i - 1).bytes)
            i++;
        else
            g_array_remove_index(measured->streams, i);
    }
}

EchMeasured *ech_measured_new(const EchDevice *device)
{
    g_autoptr(EchMeasured) measured = g_new0(EchMeasured, 1);
    measured->grids = g_array_new(FALSE, FALSE, sizeof(Grid));
    measured->streams = g_array_new(FALSE, FALSE, sizeof(Step));
    read_products(measured, device, false);
    read_products(measured, device, true);
    read_streams(measured, device);
    return measured->grids->len > 0 || measured->streams->len > 0 ? g_steal_pointer(&measured) : NULL;
}

/* The interval of ascending @steps that holds @value, which is moved into their range; the part of it that lies below, by logarithms. */
static size_t interval(const double *steps, size_t n, double *value, double *ret_part)
{
    *value = CLAMP(*value, steps[0], steps[n - 1]);
    size_t at = 0;
    while (at + 2 < n && steps[at + 1] < *value)
        at++;
    *ret_part = n > 1 ? log(*value / steps[at]) / log(steps[at + 1] / steps[at]) : 0;
    return at;
}

double ech_measured_product(const EchMeasured *measured, const char *dtype, uint64_t m, uint64_t n, uint64_t k, uint64_t batch)
{
    if (!measured || m == 0 || n == 0 || k == 0 || batch == 0)
        return 0;
    bool odd = m % 8 != 0 || n % 8 != 0 || k % 8 != 0;
    const Grid *best = NULL;
    for (guint i = 0; i < measured->grids->len; i++) {
        const Grid *grid = &g_array_index(measured->grids, Grid, i);
        if (strcmp(grid->dtype, dtype) == 0 && (!best || grid->odd == odd))
            best = grid;
    }
    if (!best)
        return 0;
    double edge = sqrt((double)m * (double)n * (double)batch), inner = (double)k, e = edge, c = inner, down, along, sum = 0;
    size_t row = interval(best->edges, best->n_edges, &e, &down), column = interval(best->inner, best->n_inner, &c, &along);
    for (size_t i = 0; i < 2; i++) {
        for (size_t j = 0; j < 2; j++) {
            double weight = (i ? down : 1 - down) * (j ? along : 1 - along);
            size_t r = MIN(row + i, best->n_edges - 1), q = MIN(column + j, best->n_inner - 1);
            sum += weight * log(best->share[r * best->n_inner + q]);
        }
    }
    return exp(sum) * MIN(edge * edge / (e * e), 1) * MIN(inner / c, 1);
}

EchTime ech_measured_stream_extra(const EchMeasured *measured, EchBytes bytes)
{
    if (!measured || measured->streams->len == 0 || bytes == 0)
        return 0;
    const Step *steps = (const Step *)(void *)measured->streams->data;
    size_t n = measured->streams->len, at = 0;
    double value = CLAMP((double)bytes, steps[0].bytes, steps[n - 1].bytes);
    while (at + 2 < n && steps[at + 1].bytes < value)
        at++;
    double extra = steps[at].extra;
    if (n > 1)
        extra += (steps[at + 1].extra - steps[at].extra) * (value - steps[at].bytes) / (steps[at + 1].bytes - steps[at].bytes);
    return (EchTime)extra;
}

static const double power_exponent = 2.5; /* Assumed: power is clock times voltage squared, and voltage goes with most of the clock */

const double ech_measured_duties[ECH_MEASURED_DUTIES] = {0.5, 0.7, 0.85};
static const char *const duty_paths[ECH_MEASURED_DUTIES] = {"kernel.duty_rates.50", "kernel.duty_rates.70", "kernel.duty_rates.85"};

bool ech_measured_has_duty_rates(const EchDevice *device)
{
    bool all = true;
    for (size_t i = 0; i < ECH_MEASURED_DUTIES; i++)
        all = all && ech_device_number(device, duty_paths[i], 0) > 0;
    return all;
}

static double by_power(double duty)
{
    return pow(duty, -1 / power_exponent);
}

/* Between the measured duties and all of the time. */
static double between_duties(const EchDevice *device, double duty)
{
    size_t n = ECH_MEASURED_DUTIES, at = 0;
    while (at < n && ech_measured_duties[at] <= duty)
        at++;
    double next = at < n ? ech_measured_duties[at] : 1, above = at < n ? ech_device_number(device, duty_paths[at], 1) : 1;
    if (at == 0)
        return above * by_power(duty / next);
    double last = ech_measured_duties[at - 1], below = ech_device_number(device, duty_paths[at - 1], 1);
    return below + (above - below) * (duty - last) / (next - last);
}

double ech_measured_duty_rate(const EchDevice *device, double burst, double duty)
{
    burst = MAX(burst, 1);
    if (!(duty > 0))
        return burst;
    duty = MIN(duty, 1);
    return CLAMP(device && ech_measured_has_duty_rates(device) ? between_duties(device, duty) : by_power(duty), 1, burst);
}

double ech_measured_duty_weight(double burst, double own)
{
    return pow(MAX(own, 1) / MAX(burst, 1), power_exponent);
}

double ech_measured_burst(const EchDevice *device, const char *dtype, bool odd)
{
    double burst = ech_device_number(device, "kernel.burst_share", 1);
    g_autofree char *even = g_strconcat("kernel.bursts.", dtype, NULL), *own = g_strconcat("kernel.bursts_odd.", dtype, NULL);
    if (!odd)
        return MAX(ech_device_number(device, even, burst), 1);
    return MAX(ech_device_number(device, own, ech_device_number(device, "kernel.bursts_odd.bf16", burst)), 1);
}

double ech_measured_largest_burst(const EchMeasured *measured, const EchDevice *device, double heats)
{
    double burst = ech_measured_burst(device, "bf16", false);
    for (guint i = 0; measured && i < measured->grids->len; i++) {
        const Grid *grid = &g_array_index(measured->grids, Grid, i);
        if (grid->odd || strcmp(grid->dtype, "bf16") != 0)
            continue;
        double edge = grid->edges[grid->n_edges - 1], inner = grid->inner[grid->n_inner - 1];
        return MAX(grid->share[grid->n_edges * grid->n_inner - 1] * (2 * edge * edge * inner > heats ? burst : 1), 1);
    }
    return burst;
}

double ech_measured_heat(double constant, double busy, double period)
{
    period = MAX(period, busy);
    if (!(busy > 0))
        return 0;
    if (!(constant > 0))
        return busy / period;
    double on = busy / constant, off = (period - busy) / constant, whole = period / constant;
    return whole > 1e-6 ? 1 - expm1(-on) * expm1(-off) / -expm1(-whole) / on : busy / period;
}

double ech_measured_heat_constant(double burst, double half)
{
    double clock = (1 + 1 / burst) / 2, load = pow(clock * burst, -power_exponent);
    return burst > 1 && half > 0 ? half / -log1p(-load) : 0;
}
