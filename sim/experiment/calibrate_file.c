/* What a calibration is written as: a device file with the origin and the spread of every number, and lines for a reader. */
#include "sim/experiment/calibrate.h"

#include "models/device/device_yaml.h"
#include "sim/replay/cuda_blas.h"

#include <math.h>
#include <string.h>

EchFigure ech_calibration_rate(EchFigure time, double units, double fixed)
{
    double net = MAX(time.median - fixed, time.median * 0.01);
    return (EchFigure){.median = net > 0 ? units / net * 1e9 : 0, .spread = time.spread, .n = time.n};
}

EchFigure ech_calibration_gemm_rate(EchFigure time, double edge, double inner, double fixed)
{
    return ech_calibration_rate(time, 2 * edge * edge * inner, fixed);
}

typedef struct {
    GString *text;
    char *how; /* "measured: DATE, driver X" */
} Writer;

/* "{value: V, source: "measured: ..., median of N, spread S %"}" */
static void add_figure(Writer *w, const char *indent, const char *key, double value, const char *unit, EchFigure figure, const char *note)
{
    /* Five digits, never an exponent. */
    char number[64], format[8];
    int decimals = value > 0 && value < 1e4 ? MIN(4 - (int)floor(log10(value)), 9) : 0;
    g_snprintf(format, sizeof format, "%%.%df", decimals);
    g_ascii_formatd(number, sizeof number, format, value);
    size_t length = strlen(number);
    while (decimals > 0 && length > 1 && (number[length - 1] == '0' || number[length - 1] == '.')) {
        decimals = number[length - 1] == '.' ? 0 : decimals;
        number[--length] = '\0';
    }
    g_string_append_printf(w->text, "%s%s: {value: %s%s, source: \"%s, median of %u, spread %.1f %%%s%s\"}\n", indent, key, number, unit, w->how, figure.n,
                           100 * figure.spread, *note ? ", " : "", note);
}

static void add_rate(Writer *w, const char *indent, const char *key, EchFigure figure, const char *note)
{
    if (figure.n > 0 && figure.median > 0)
        add_figure(w, indent, key, figure.median / 1e9, "GB/s", figure, note);
}

static void add_ops(Writer *w, const char *key, EchFigure figure, const char *note)
{
    if (figure.n > 0 && figure.median > 0)
        add_figure(w, "      ", key, figure.median / 1e12, "TOP/s", figure, note);
}

/* Times are given as nanoseconds; a thousandth of one is a picosecond, which is what can be written. */
static void add_time(Writer *w, const char *indent, const char *key, EchFigure figure, const char *note)
{
    if (figure.n > 0)
        add_figure(w, indent, key, MAX(figure.median, 0.001), "ns", figure, note);
}

static const char *const matrix_names[] = {"bf16", "f16", "f32", "f64", "s8"}; /* Of EchCalibration */

static void add_share(Writer *w, const char *key, EchFigure figure, const char *note)
{
    if (figure.n > 0)
        add_figure(w, "  ", key, figure.median, "", figure, note);
}

static void add_said(Writer *w, const char *indent, const char *key, const char *source, const char *format, ...) G_GNUC_PRINTF(5, 6);
static void add_said(Writer *w, const char *indent, const char *key, const char *source, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *value = g_strdup_vprintf(format, args);
    va_end(args);
    g_string_append_printf(w->text, "%s%s: {value: %s, source: \"%s\"}\n", indent, key, value, source);
}

static char *size_key(EchBytes bytes)
{
    return bytes % (1 << 20) == 0 ? g_strdup_printf("%" G_GUINT64_FORMAT "MiB", bytes >> 20) : g_strdup_printf("%" G_GUINT64_FORMAT "KiB", bytes >> 10);
}

static void add_curve(Writer *w, const char *key, const EchCopyCurve *curve)
{
    g_string_append_printf(w->text, "    %s:\n", key);
    for (size_t i = 0; i < curve->n; i++) {
        g_autofree char *size = size_key(curve->bytes[i]);
        EchFigure rate = curve->time[i];
        rate.median = (double)curve->bytes[i] / MAX(rate.median, 1e-3) * 1e9;
        add_rate(w, "      ", size, rate, "");
    }
}

static void add_link(Writer *w, const char *name, const EchCopyCurve curves[2], const EchFigure *both_ways, const unsigned *engines)
{
    if (curves[0].n == 0 || curves[1].n == 0)
        return;
    g_string_append_printf(w->text, "  %s:\n    from: %s\n    to: hbm\n", name, name);
    static const char *const ways[] = {"to_device", "from_device"};
    for (unsigned i = 0; i < 2; i++) {
        EchFigure rate = curves[i].time[curves[i].n - 1];
        rate.median = curves[i].rate;
        add_rate(w, "    ", ways[i], rate, "growth of the time with the size, or the best of all sizes");
    }
    /* A total that the two cannot exceed anyway would be no limit. */
    if (both_ways && both_ways->median > 0 && both_ways->median < curves[0].rate + curves[1].rate)
        add_rate(w, "    ", "both_ways", *both_ways, "");
    EchFigure setup = curves[0].time[curves[0].n - 1];
    setup.median = (curves[0].setup + curves[1].setup) / 2;
    add_time(w, "    ", "setup", setup, "what the largest copies take beyond their bytes, mean of both ways");
    for (unsigned i = 0; engines && engines[i] > 0 && i < 2; i++) {
        g_autofree char *source = g_strdup_printf("%s, two copies in two queues end %s", w->how, engines[i] > 1 ? "together" : "one after the other");
        add_said(w, "    ", i == 0 ? "engines_to" : "engines_from", source, "%u", engines[i]);
    }
    add_curve(w, "curve", &curves[0]);
    add_curve(w, "curve_from_device", &curves[1]);
}

static void add_memories(Writer *w, const EchCalibration *c)
{
    g_string_append(w->text, "memories:\n  hbm:\n    kind: hbm\n    space: 0\n");
    add_said(w, "    ", "capacity", "driver: total memory", "%" G_GUINT64_FORMAT, c->total);
    add_said(w, "    ", "available", "driver: total memory; runtime.driver.context_bytes of it go", "%" G_GUINT64_FORMAT, c->total);
    if (c->memory_clock_khz > 0 && c->bus_bits > 0)
        add_said(w, "    ", "nominal", "driver: twice the memory clock times the bus", "%.0f", 2.0 * c->memory_clock_khz * 1e3 * c->bus_bits / 8);
    add_rate(w, "    ", "read", c->read, "");
    add_rate(w, "    ", "write", c->write, "");
    add_rate(w, "    ", "both", c->both, "read and written in equal parts");
    add_time(w, "    ", "latency", c->latency, "chain of dependent loads");
    add_said(w, "    ", "granule", "compiler: XLA's DRAM transaction", "64");
    add_said(w, "    ", "assignable", "compiler", "true");
    if (c->l2_bytes > 0 && c->l2_read.n > 0) {
        g_string_append(w->text, "  l2:\n    kind: cache\n");
        add_said(w, "    ", "capacity", "driver", "%d", c->l2_bytes);
        add_rate(w, "    ", "read", c->l2_read, "a quarter of the cache read over and over");
        if (c->l2_read.n > 0 && c->l2_read.median > 0)
            add_said(w, "    ", "write", "assumed: as read", "%.0fGB/s", c->l2_read.median / 1e9);
        add_time(w, "    ", "latency", c->l2_latency, "chain of dependent loads");
        add_said(w, "    ", "granule", "assumed: sectors of 128-byte lines", "32");
        add_said(w, "    ", "assignable", "compiler", "false");
    }
    static const char *const hosts[][2] = {{"host", "host-pinned"}, {"pageable", "host-pageable"}};
    for (size_t i = 0; i < G_N_ELEMENTS(hosts); i++) {
        g_string_append_printf(w->text, "  %s:\n    kind: %s\n%s", hosts[i][0], hosts[i][1], i == 0 ? "    space: 5\n" : "");
        add_said(w, "    ", "capacity", "the operating system's, of the machine it was measured on", "%" G_GUINT64_FORMAT, MAX(c->host, (EchBytes)1));
        add_said(w, "    ", "assignable", i == 0 ? "compiler" : "assumed", "%s", i == 0 ? "true" : "false");
    }
}

/* Some drivers do not say. */
static void add_clock(Writer *w, const EchCalibration *c)
{
    if (c->clock_khz > 0)
        add_said(w, "    ", "clock", "driver: highest", "%.0f", c->clock_khz * 1e3);
}

static void add_units(Writer *w, const EchCalibration *c)
{
    bool blas = c->blas_version > 0 && c->matrix[0].n > 0;
    g_string_append(w->text, "units:\n  matrix:\n");
    add_said(w, "    ", "count", "driver: multiprocessors; assumed: four tensor cores each", "%d", c->multiprocessors * 4);
    add_clock(w, c);
    g_string_append(w->text, "    peaks:\n");
    g_autofree char *note = g_strdup_printf("cuBLAS %d, a large product after half a second of it", c->blas_version);
    for (size_t i = 0; blas && i < G_N_ELEMENTS(matrix_names); i++) {
        add_ops(w, matrix_names[i], c->matrix[i], note);
        if (strcmp(matrix_names[i], "f32") == 0)
            add_ops(w, "tf32", c->matrix[i], note);
    }
    if (blas && c->major * 10 + c->minor >= 89) {
        static const char *const narrow[] = {"f8e4m3fn", "f8e5m2"};
        for (size_t i = 0; i < G_N_ELEMENTS(narrow); i++)
            add_said(w, "      ", narrow[i], "assumed: twice bf16", "%.1fTOP/s", 2 * c->matrix[0].median / 1e12);
    }
    for (size_t i = 0; !blas && i < 2; i++)
        add_ops(w, matrix_names[i], c->tensor, "mma.sync without cuBLAS, which reaches more on newer GPUs");
    g_string_append(w->text, "  vector:\n");
    add_said(w, "    ", "count", "driver: multiprocessors", "%d", c->multiprocessors);
    add_clock(w, c);
    g_string_append(w->text, "    peaks:\n");
    add_ops(w, "f32", c->f32, "");
    add_ops(w, "f64", c->f64, "");
    g_string_append(w->text, "  transcendental:\n");
    add_said(w, "    ", "count", "driver: multiprocessors", "%d", c->multiprocessors);
    add_clock(w, c);
    g_string_append(w->text, "    peaks:\n");
    add_ops(w, "f32", c->exponential, "exponentials");
}

static EchFigure share_of(EchFigure part, EchFigure whole)
{
    EchFigure share = part;
    share.median = whole.median > 0 ? part.median / whole.median : 0;
    return share;
}

/* The peak is what power leaves after half a second; of the grid all is measured just after a pause, where large products run so much faster. */
static double burst_of(const EchCalibration *c, const EchProductGrid *grid, size_t dtype, size_t edge, size_t inner)
{
    double side = grid->sides[edge], operations = 2 * side * side * grid->sides[inner];
    const EchFigure *burst = grid->odd ? &c->burst_odd[dtype] : &c->burst[dtype];
    return operations > (double)ECH_CUDA_GEMM_HEATS && burst->n > 0 ? MAX(burst->median, 1) : 1;
}

/* Products over the grid, as shares of the peak; how far streaming kernels are from bytes at the full rate. */
static void add_shapes(Writer *w, const EchCalibration *c)
{
    for (size_t odd = 0; odd < 2; odd++) {
        bool begun = false;
        for (size_t i = 0; i < ECH_CALIBRATE_PRODUCTS; i++) {
            const EchProductGrid *grid = &c->products[i];
            size_t dtype = grid->dtype == ECH_DTYPE_F32 ? 2 : 0;
            if (grid->n == 0 || grid->odd != (odd != 0) || !(c->matrix[dtype].median > 0))
                continue;
            if (!begun)
                g_string_append_printf(w->text, "  products%s: # EDGExK: of the peak, launch taken off\n", odd ? "_odd" : "");
            begun = true;
            g_string_append_printf(w->text, "    %s:\n", ech_dtype_name(grid->dtype));
            for (size_t e = 0; e < grid->n; e++) {
                for (size_t k = 0; k < grid->n; k++) {
                    g_autofree char *key = g_strdup_printf("%ux%u", grid->sides[e], grid->sides[k]);
                    EchFigure share = ech_calibration_gemm_rate(grid->time[e * grid->n + k], grid->sides[e], grid->sides[k], c->alone.median);
                    share.median /= c->matrix[dtype].median * burst_of(c, grid, dtype, e, k);
                    if (share.median > 0)
                        add_figure(w, "      ", key, share.median, "", share, "");
                }
            }
        }
    }
    if (c->stream.n > 0)
        g_string_append(w->text, "  stream_extra: # beyond launch and bytes\n");
    for (size_t i = 0; i < c->stream.n; i++) {
        EchFigure extra = c->stream.time[i];
        extra.median = MAX(extra.median - c->launch.median - (double)c->stream.bytes[i] / MAX(c->read.median, 1) * 1e9, 0.001);
        g_autofree char *size = size_key(c->stream.bytes[i]);
        add_time(w, "    ", size, extra, "");
    }
}

static void add_bursts(Writer *w, const char *key, const EchFigure *bursts)
{
    bool begun = false;
    for (size_t i = 0; i < G_N_ELEMENTS(matrix_names); i++) {
        if (bursts[i].n == 0)
            continue;
        if (!begun)
            g_string_append_printf(w->text, "  %s:\n", key);
        begun = true;
        add_figure(w, "    ", matrix_names[i], bursts[i].median, "", bursts[i], "products just after a pause, over those after half a second");
    }
}

/* Of a call of the driver that takes memory, while kernels run. */
static void add_beside(Writer *w, const char *call, EchFigure beside, bool waits)
{
    g_autofree char *time = g_strdup_printf("%s_beside_ps", call), *flag = g_strdup_printf("%s_waits", call),
                    *source = g_strdup_printf("%s, while a kernel runs the call lasts as long as that", w->how);
    add_time(w, "    ", time, beside, "the same while a kernel runs");
    if (waits)
        add_said(w, "    ", flag, source, "1");
}

static void add_runtime(Writer *w, const EchCalibration *c)
{
    g_string_append(w->text, "runtime:\n");
    add_time(w, "  ", "launch_ps", c->launch, "empty kernels one after the other");
    if (c->launch.n > 0)
        add_said(w, "  ", "kernel_gap_ps", "assumed: launch_ps, which is measured in a stream, has it", "0ns");
    add_time(w, "  ", "graph_launch_ps", c->graph_launch, "the same in a graph");
    add_time(w, "  ", "kernel_alone_ps", c->alone, "one empty kernel between two events");
    add_time(w, "  ", "event_ps", c->event, "from an event to the next");
    add_time(w, "  ", "wait_ps", c->wait, "from a kernel's end to the start of one in another queue that waits for it, beyond a launch");
    add_time(w, "  ", "wait_copy_ps", c->wait_copy, "the same between a kernel and a copy, of 40 us each");
    add_time(w, "  ", "wait_through_ps", c->wait_through, "the same between copies, by a queue that waits for one and does nothing");
    add_time(w, "  ", "wait_passed_ps", c->wait_passed, "what a kernel takes longer that waits for what is over already");
    add_time(w, "  ", "submit_ps", c->submit, "host time of a launch");
    add_time(w, "  ", "trip_ps", c->trip, "a kernel's way to the GPU and the news of its end: host time of both calls beyond a launch's and the kernel");
    if (c->host_rate.n > 0) {
        g_autofree char *what = g_strdup_printf("an array read and another read and written, by %u processors together", c->processors);
        add_rate(w, "  ", "processor_rate", c->host_rate, what);
    }
    add_time(w, "  ", "synchronize_ps", c->synchronize, "host time of waiting for an idle queue");
    add_time(w, "  ", "heat_ps", c->heat, "over which it looks at its power: after a pause bf16 products have lost half of their burst");
    g_string_append(w->text, "  driver: # host times; allocators of a framework seldom come here\n");
    g_autofree char *others = c->others > 0 ? g_strdup_printf(" and %" G_GUINT64_FORMAT " bytes of other processes", c->others) : g_strdup("");
    g_autofree char *context = g_strdup_printf("%s, what an empty context leaves of the total%s taken off it", w->how, others);
    add_said(w, "    ", "context_bytes", context, "%" G_GUINT64_FORMAT, c->total - MIN(c->total, ech_bytes_add(c->available, c->others)));
    add_time(w, "    ", "malloc_ps", c->malloc, "2 to 64 MiB in turn, beside others");
    add_time(w, "    ", "free_ps", c->free, "the same");
    add_beside(w, "malloc", c->malloc_beside, c->malloc_waits);
    add_time(w, "    ", "malloc_small_ps", c->malloc_small, "4 KiB");
    add_time(w, "    ", "free_small_ps", c->free_small, "4 KiB");
    g_autofree char *ladder = g_strdup_printf("every 2 MiB beyond the first, of %" G_GUINT64_FORMAT " MiB", c->malloc_largest >> 20);
    add_time(w, "    ", "malloc_page_ps", c->malloc_page, ladder);
    add_time(w, "    ", "free_page_ps", c->free_page, ladder);
    add_time(w, "    ", "map_ps", c->map, "addresses, memory, mapping and access of 2 to 64 MiB in turn, beside others");
    add_beside(w, "map", c->map_beside, c->map_waits);
    add_time(w, "    ", "map_piece_ps", c->map_piece, "every further piece of 2 MiB in one go");
    add_time(w, "    ", "map_page_ps", c->map_page, "every further 2 MiB of one piece");
    add_time(w, "    ", "unmap_ps", c->unmap, "the same");
    add_time(w, "    ", "unmap_piece_ps", c->unmap_piece, "every further piece of 2 MiB");
    add_time(w, "    ", "unmap_page_ps", c->unmap_page, "every further 2 MiB of one piece");
    add_time(w, "    ", "malloc_async_ps", c->malloc_async, "2 MiB");
    add_time(w, "    ", "free_async_ps", c->free_async, "2 MiB");
    add_time(w, "    ", "pin_ps", c->pin, "1 MiB");
    const struct {
        const char *key;
        EchBytes value;
        const char *note;
    } sizes[] = {{"malloc_page", c->page, "what large allocations are rounded up to"},
                 {"malloc_shared", c->page_shared, "largest of the sizes tried of which eight take less than eight pages"},
                 {"pool_growth", c->pool_growth, "what the pool of cudaMallocAsync takes for its first small buffer"}};
    for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
        g_autofree char *source = g_strdup_printf("%s, %s", w->how, sizes[i].note);
        if (sizes[i].value > 0)
            add_said(w, "    ", sizes[i].key, source, "%" G_GUINT64_FORMAT, sizes[i].value);
    }
    g_string_append(w->text, "kernel: # shares of the full rate\n");
    add_said(w, "  ", "compute_capability", w->how, "%d.%d", c->major, c->minor);
    add_share(w, "strided_share", share_of(c->strided, c->read), "16 bytes of every 64");
    add_share(w, "random_share", share_of(c->random, c->read), "16 bytes anywhere");
    add_share(w, "copy_share", share_of(c->copy_on_device, c->both), "bytes copied on the device against read and written by a kernel");
    add_share(w, "burst_share", c->burst[0], "bf16 products just after a pause, over those after half a second");
    add_share(w, "unpadded_share", c->unpadded, "bf16 product with sides one short of a multiple of 128");
    add_share(w, "both_ways_to_share", c->both_share, "of the bytes while pinned copies go both ways");
    add_share(w, "beside_copies_share", c->beside_copies[0], "reading kernel while pinned memory is copied to the device");
    add_share(w, "beside_copies_from_share", c->beside_copies[1], "reading kernel while device memory is copied to pinned memory");
    add_share(w, "copies_beside_share", c->copies_beside[0], "copies of pinned memory to the device while kernels read device memory");
    add_share(w, "copies_beside_from_share", c->copies_beside[1], "copies of device memory to pinned memory while kernels read device memory");
    add_share(w, "copies_both_beside_share", c->both_beside, "pinned copies both ways at once while kernels read device memory");
    add_share(w, "both_ways_beside_to_share", c->both_beside_share, "of the bytes while pinned copies go both ways and kernels read device memory");
    add_bursts(w, "bursts", c->burst);
    add_bursts(w, "bursts_odd", c->burst_odd);
    for (size_t i = 0; i < ECH_MEASURED_DUTIES && c->duty_rate[i].n > 0; i++) {
        g_autofree char *key = g_strdup_printf("%.0f", 100 * ech_measured_duties[i]);
        g_autofree char *note = g_strdup_printf("bf16 products with rests between them, %.1f %% of the time, over those of all of it", 100 * c->duty[i]);
        if (i == 0)
            g_string_append(w->text, "  duty_rates:\n");
        add_figure(w, "    ", key, c->duty_rate[i].median, "", c->duty_rate[i], note);
    }
    add_shapes(w, c);
}

static const char *compiler_of(const char *gpu)
{
    static const char *const names[][2] = {{"H200", "h200"}, {"H100", "h100"}, {"A100", "a100"}, {"B200", "b200"}};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        if (strstr(gpu, names[i][0]))
            return names[i][1];
    }
    return "";
}

/* Text that may stand between double quotes. */
static char *plain(const char *text)
{
    GString *out = g_string_new(NULL);
    for (; *text; text++) {
        if (g_ascii_isprint(*text) && *text != '"' && *text != '\\')
            g_string_append_c(out, *text);
    }
    return g_string_free(out, FALSE);
}

char *ech_calibration_yaml(const EchCalibration *c, const char *name, const char *date, GError **error)
{
    g_autofree char *gpu = plain(c->gpu), *own = plain(name), *day = plain(date);
    g_autoptr(GString) text = g_string_new(NULL);
    g_autofree char *how = g_strdup_printf("measured: %s, driver %d.%d", day, c->driver_version / 1000, c->driver_version % 1000 / 10);
    Writer w = {text, how};
    g_string_append_printf(text,
                           "# %s, measured by echelon %s on %s (driver for CUDA %d.%d) in %.0f s. The spread is half the middle half of the repeats.\n"
                           "# One GPU tells nothing of its links to others: a program with collectives needs an nvlink added.\n"
                           "name: %s\nsummary: \"%s, calibrated %s\"\nfamily: gpu\ncalibrated: %s\nproducts: [\"%s\"]\n",
                           gpu, ECH_VERSION, day, c->driver_version / 1000, c->driver_version % 1000 / 10, c->seconds, own, gpu, day, day, gpu);
    g_autofree char *state = ech_gpu_state_text(&c->state), *products = ech_gpu_state_text(&c->products_state);
    if (state)
        g_string_append_printf(text, "# while measuring: %s\n", state);
    if (products)
        g_string_append_printf(text, "# while multiplying matrices: %s\n", products);
    for (const char *at = c->failures; at && *at;) {
        const char *end = strchr(at, '\n');
        g_autofree char *raw = g_strndup(at, end ? (gsize)(end - at) : strlen(at)), *failed = plain(raw);
        g_string_append_printf(text, "# not measured: %s\n", failed);
        at = end ? end + 1 : "";
    }
    if (*compiler_of(gpu))
        g_string_append_printf(text, "compiler: %s\n", compiler_of(gpu));
    add_said(&w, "", "cores", "one program has the whole GPU", "1");
    add_memories(&w, c);
    g_string_append(text, "links:\n");
    add_link(&w, "host", c->pinned, &c->both_ways, c->engines);
    add_link(&w, "pageable", c->pageable, NULL, NULL);
    add_units(&w, c);
    add_runtime(&w, c);
    /* What would not load again is not worth writing. */
    g_autoptr(EchYamlNode) root = ech_yaml_parse(text->str, text->len, "the device file", error);
    g_autoptr(EchDevice) device = root ? ech_device_from_yaml(root, error) : NULL;
    if (!device) {
        g_prefix_error(error, "the measurements make no device: ");
        return NULL;
    }
    return g_strdup(text->str);
}

static void line(GString *text, const char *what, const char *value, EchFigure figure)
{
    if (figure.n > 0)
        g_string_append_printf(text, "  %-44s %-16s +- %.1f %%\n", what, value, 100 * figure.spread);
}

static void rate_line(GString *text, const char *what, EchFigure figure)
{
    g_autofree char *value = ech_format_rate((EchRate)figure.median);
    line(text, what, value, figure);
}

static void ops_line(GString *text, const char *what, EchFigure figure)
{
    g_autofree char *value = ech_format_count(figure.median, "OP/s");
    line(text, what, value, figure);
}

static void time_line(GString *text, const char *what, EchFigure figure)
{
    g_autofree char *value = ech_format_time((EchTime)(figure.median * 1e3));
    line(text, what, value, figure);
}

char *ech_calibration_text(const EchCalibration *c)
{
    g_autoptr(GString) text = g_string_new(NULL);
    g_string_append_printf(text, "%s, driver %d.%d, %s, measured in %.0f s\n", c->gpu, c->driver_version / 1000, c->driver_version % 1000 / 10,
                           c->blas_version > 0 ? "with cuBLAS" : "without cuBLAS", c->seconds);
    g_autofree char *state = ech_gpu_state_text(&c->state), *products = ech_gpu_state_text(&c->products_state);
    if (state)
        g_string_append_printf(text, "  %s\n", state);
    if (products)
        g_string_append_printf(text, "  matrix products: %s\n", products);
    static const char *const ways[] = {"to the device", "from the device"};
    for (unsigned i = 0; i < 2; i++) {
        const struct {
            const char *kind;
            const EchCopyCurve *curve;
        } kinds[] = {{"pinned", &c->pinned[i]}, {"pageable", &c->pageable[i]}};
        for (size_t k = 0; k < G_N_ELEMENTS(kinds); k++) {
            g_autofree char *what = g_strdup_printf("copies %s, %s", ways[i], kinds[k].kind);
            if (kinds[k].curve->n == 0)
                continue;
            EchFigure rate = kinds[k].curve->time[kinds[k].curve->n - 1];
            rate.median = kinds[k].curve->rate;
            rate_line(text, what, rate);
        }
    }
    rate_line(text, "both ways together, pinned", c->both_ways);
    rate_line(text, "host memory, by all processors", c->host_rate);
    rate_line(text, "device memory read", c->read);
    rate_line(text, "device memory written", c->write);
    rate_line(text, "device memory read and written", c->both);
    rate_line(text, "device memory, 16 bytes of every 64", c->strided);
    rate_line(text, "device memory, 16 bytes anywhere", c->random);
    rate_line(text, "second-level cache read", c->l2_read);
    time_line(text, "device memory latency", c->latency);
    time_line(text, "second-level cache latency", c->l2_latency);
    time_line(text, "a launch in a queue", c->launch);
    time_line(text, "a launch in a graph", c->graph_launch);
    time_line(text, "a kernel that waits for another queue's", c->wait);
    time_line(text, "a kernel that waits for a copy, or a copy", c->wait_copy_short);
    static const char *const by[ECH_CALIBRATE_WAITS] = {"the same for one of 10 us", "the same for one of 40 us", "the same for one of 160 us"};
    for (size_t i = 0; i < ECH_CALIBRATE_WAITS; i++)
        time_line(text, by[i], c->wait_copy_by[i]);
    time_line(text, "a copy that waits for another, half-way", c->wait_through);
    time_line(text, "a kernel that waits for what is over", c->wait_passed);
    time_line(text, "a kernel's way there, and the news of its end", c->trip);
    time_line(text, "cudaMalloc of 2 to 64 MiB (host)", c->malloc);
    time_line(text, "the same while a kernel runs", c->malloc_beside);
    time_line(text, "cudaFree of 2 to 64 MiB (host)", c->free);
    time_line(text, "cudaMalloc of 4 KiB (host)", c->malloc_small);
    time_line(text, "cudaMalloc, every further 2 MiB", c->malloc_page);
    time_line(text, "2 to 64 MiB mapped (host)", c->map);
    time_line(text, "the same while a kernel runs", c->map_beside);
    time_line(text, "every further piece of 2 MiB mapped with it", c->map_piece);
    time_line(text, "every further 2 MiB mapped in one piece", c->map_page);
    time_line(text, "2 to 64 MiB unmapped (host)", c->unmap);
    time_line(text, "cudaMallocAsync of 2 MiB (host)", c->malloc_async);
    static const char *const names[] = {"matrix products bf16", "matrix products f16", "matrix products f32 (TF32)", "matrix products f64",
                                        "matrix products s8"};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        ops_line(text, names[i], c->matrix[i]);
    ops_line(text, "mma.sync bf16, a kernel of ours", c->tensor);
    ops_line(text, "float32 multiply-adds", c->f32);
    if (c->burst[0].n > 0)
        g_string_append_printf(text, "  %-44s %.1f %%\n", "bf16 just after a pause, of the above", 100 * c->burst[0].median);
    for (size_t i = 0; i < ECH_MEASURED_DUTIES && c->duty_rate[i].n > 0; i++) {
        g_autofree char *what = g_strdup_printf("the same that runs %.0f %% of the time", 100 * c->duty[i]);
        g_string_append_printf(text, "  %-44s %.1f %%\n", what, 100 * c->duty_rate[i].median);
    }
    if (c->unpadded.n > 0)
        g_string_append_printf(text, "  %-44s %.0f %%\n", "rate at sides one short of a multiple of 128", 100 * c->unpadded.median);
    if (c->beside_copies[0].n > 0)
        g_string_append_printf(text, "  %-44s %.1f and %.1f %%\n", "a reading kernel beside copies each way keeps", 100 * c->beside_copies[0].median,
                               100 * c->beside_copies[1].median);
    if (c->copies_beside[0].n > 0)
        g_string_append_printf(text, "  %-44s %.1f and %.1f %%\n", "copies each way beside a reading kernel keep", 100 * c->copies_beside[0].median,
                               100 * c->copies_beside[1].median);
    if (c->failures && *c->failures)
        g_string_append_printf(text, "not measured:\n%s", c->failures);
    return g_strdup(text->str);
}
