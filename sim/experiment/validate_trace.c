/* Recorded durations of a trace against the model's, operation by operation. */
#include "models/kernel/gpu.h"
#include "models/kernel/stalls.h"
#include "sim/base/compare.h"
#include "sim/base/error.h"
#include "sim/experiment/experiment.h"
#include "sim/experiment/validate.h"
#include "sim/replay/replay.h"
#include "sim/trace/select.h"

#include <string.h>

/* A copy counts as running against the other direction when so much of it overlaps with copies that way. */
#define SHARED_PERCENT 10

typedef struct {
    EchTime start, end;
} Interval;

typedef struct {
    const EchTrace *trace; /* as recorded */
    const EchDevice *device;
    bool has_loops;
    GArray *pairs;   /* EchValidatePair */
    GArray *gaps;    /* EchValidateGap */
    GArray *wholes;  /* EchValidateWhole */
    GArray *ways[2]; /* Interval: copies of the device at hand to it and from it, merged, ascending */
    GArray *open[2]; /* Interval: the same for copies of unknown end, each until the next one begins */
} Validator;

static bool recorded(const EchOp *op)
{
    return ech_op_is_work(op) && op->recorded.duration != ECH_TIME_NONE && op->recorded.duration >= 0;
}

static const char *kind_name(const EchOp *op)
{
    return op->kind == ECH_OP_COPY ? "copy" : op->kind == ECH_OP_KERNEL ? "kernel" : "collective";
}

static void add_gap(Validator *v, const EchOp *op, const char *reason)
{
    EchValidateGap *gap = NULL;
    const char *kind = kind_name(op);
    for (guint i = 0; i < v->gaps->len && !gap; i++) {
        EchValidateGap *at = &g_array_index(v->gaps, EchValidateGap, i);
        gap = at->kind == kind && strcmp(at->reason, reason) == 0 ? at : NULL;
    }
    if (!gap) {
        EchValidateGap fresh = {.kind = kind, .reason = reason, .example = g_strdup(ech_trace_string(v->trace, op->name))};
        g_array_append_val(v->gaps, fresh);
        gap = &g_array_index(v->gaps, EchValidateGap, v->gaps->len - 1);
    }
    gap->count++;
    if (recorded(op))
        gap->measured = ech_time_add(gap->measured, op->recorded.duration);
}

/* ---- Intervals ---- */

static gint compare_intervals(gconstpointer a, gconstpointer b)
{
    const Interval *x = a, *y = b;
    return x->start != y->start ? (x->start > y->start) - (x->start < y->start) : (x->end > y->end) - (x->end < y->end);
}

/* Sorts and joins what overlaps; returns the length of all. */
static EchTime merge(GArray *intervals)
{
    g_array_sort(intervals, compare_intervals);
    guint n = 0;
    EchTime length = 0;
    for (guint i = 0; i < intervals->len; i++) {
        Interval at = g_array_index(intervals, Interval, i);
        if (n > 0 && g_array_index(intervals, Interval, n - 1).end >= at.start)
            g_array_index(intervals, Interval, n - 1).end = MAX(g_array_index(intervals, Interval, n - 1).end, at.end);
        else
            g_array_index(intervals, Interval, n++) = at;
    }
    g_array_set_size(intervals, n);
    for (guint i = 0; i < n; i++)
        length = ech_time_add(length, g_array_index(intervals, Interval, i).end - g_array_index(intervals, Interval, i).start);
    return length;
}

static EchTime covered(const GArray *merged, EchTime start, EchTime end)
{
    guint low = 0, high = merged->len;
    ECH_SEARCH(low, high, middle, g_array_index(merged, Interval, middle).end <= start);
    EchTime length = 0;
    for (; low < merged->len && g_array_index(merged, Interval, low).start < end; low++)
        length += MIN(end, g_array_index(merged, Interval, low).end) - MAX(start, g_array_index(merged, Interval, low).start);
    return length;
}

/* ---- Groups ---- */

/* 0 to the device, 1 from it, -1 neither. */
static int way_of(const EchTrace *trace, const EchOp *op)
{
    bool from = ech_trace_is_host(trace, op->memory_from), to = ech_trace_is_host(trace, op->memory_to);
    return from == to ? -1 : from ? 0 : 1;
}

static bool has_range(const EchOp *op)
{
    return recorded(op) && ech_op_has_start(op) && op->recorded.duration < ECH_TIME_MAX / 4;
}

static char *copy_group(const Validator *v, const EchOp *op)
{
    const EchTrace *trace = v->trace;
    const char *name = ech_trace_string(trace, op->name), *open = strchr(name, '(');
    g_autoptr(GString) group = g_string_new(NULL);
    g_autofree char *from = g_strdup(ech_trace_memory(trace, op->memory_from)), *to = g_strdup(ech_trace_memory(trace, op->memory_to));
    from[strcspn(from, ":")] = to[strcspn(to, ":")] = '\0';
    g_string_printf(group, "%s to %s", from, to);
    if (g_str_has_prefix(name, "Unified memory"))
        g_string_append(group, ", unified memory");
    if (open && (g_str_has_prefix(name, "Unified memory") || strstr(open, "Page")))
        g_string_append_printf(group, strstr(open, "Pageable") ? ", pageable" : ", %.*s", (int)strcspn(open + 1, ")"), open + 1);
    else if (open && strstr(open, "Pinned"))
        g_string_append(group, ", pinned");
    int way = way_of(trace, op);
    if (way >= 0 && has_range(op)) {
        EchTime shared = covered(v->ways[1 - way], op->recorded.start, op->recorded.start + op->recorded.duration);
        if (shared > op->recorded.duration / 100 * SHARED_PERCENT && op->recorded.duration > 0)
            g_string_append(group, ", against the other direction");
        else if (covered(v->open[1 - way], op->recorded.start, op->recorded.start + op->recorded.duration) > op->recorded.duration / 100 * SHARED_PERCENT &&
                 op->recorded.duration > 0)
            g_string_append(group, ", perhaps against the other");
    }
    return g_string_free(g_steal_pointer(&group), FALSE);
}

/* Kernels of a GPU by what their names say they are. */
static char *gpu_group(const EchTrace *trace, const EchOp *op)
{
    static const char *const words[ECH_GPU_N_CLASSES] = {
        [ECH_GPU_ELEMENTWISE] = "element-wise",
        [ECH_GPU_STRIDED] = "element-wise, strided",
        [ECH_GPU_FILL] = "fills",
        [ECH_GPU_REDUCE] = "reductions",
        [ECH_GPU_SOFTMAX] = "softmax",
        [ECH_GPU_SOFTMAX_WARP] = "softmax",
        [ECH_GPU_NORM] = "normalisation",
        [ECH_GPU_PRODUCT] = "matrix products",
        [ECH_GPU_VECTOR] = "matrix times vector",
        [ECH_GPU_SPLIT_REDUCE] = "split reductions",
        [ECH_GPU_ATTENTION] = "attention",
        [ECH_GPU_GATHER] = "gathers",
        [ECH_GPU_SCATTER] = "scatters",
        [ECH_GPU_CONCAT] = "concatenation",
        [ECH_GPU_RELAYOUT] = "relayouts",
        [ECH_GPU_OPTIMIZER] = "lists of tensors",
    };
    EchKernelInside inside;
    if (op->launch == ECH_NONE || ech_kernel_inside_parse(ech_trace_string(trace, op->launch), &inside)) /* no GPU's */
        return g_strdup("the kernel model");
    EchGpuName name;
    ech_gpu_name(ech_trace_string(trace, op->name), &name);
    EchGpuLaunch launch;
    if (ech_gpu_launch_parse(ech_trace_string(trace, op->launch), &launch))
        ech_gpu_launch_says(&launch, &name);
    return g_strdup(words[name.kind] ? words[name.kind] : "the kernel model");
}

static char *kernel_group(const EchTrace *trace, const EchOp *op, const char *how)
{
    if (g_str_has_prefix(how, "estimate"))
        return g_strdup("the compiler's estimate");
    if (strcmp(how, ech_price_name(ECH_PRICE_MODEL)) == 0)
        return gpu_group(trace, op);
    bool bytes = false, inferred = false;
    for (uint32_t i = 0; i < op->n_uses; i++) {
        const EchUse *use = &ech_trace_uses(trace)[op->first_use + i];
        bytes = bytes || (use->bytes > 0 && use->origin != ECH_ABSENT);
        inferred = inferred || use->origin == ECH_INFERRED || use->origin == ECH_ASSUMED;
    }
    for (uint32_t i = 0; i < op->n_work; i++)
        inferred = inferred || ech_trace_work(trace)[op->first_work + i].origin != ECH_KNOWN;
    if (bytes && op->n_work > 0)
        return g_strdup(inferred ? "bytes and operations inferred" : "bytes and operations recorded");
    if (bytes)
        return g_strdup(inferred ? "bytes inferred, operations not known" : "bytes recorded, operations not known");
    return g_strdup(inferred ? "operations inferred, bytes not known" : "operations recorded, bytes not known");
}

/* Copies of unknown end run at most until the next one of their direction begins, for all that is known. */
static void find_open(Validator *v, const EchId *ops)
{
    g_autoptr(GArray) starts = g_array_new(FALSE, FALSE, sizeof(EchTime));
    size_t n = ech_trace_n_ops(v->trace);
    for (int way = 0; way < 2; way++) {
        g_array_set_size(v->open[way], 0);
        g_array_set_size(starts, 0);
        for (size_t i = 0; i < n; i++) {
            const EchOp *op = &ech_trace_ops(v->trace)[i];
            if (ops[i] != ECH_NONE && op->kind == ECH_OP_COPY && way_of(v->trace, op) == way && ech_op_has_start(op))
                g_array_append_val(starts, op->recorded.start);
        }
        g_array_sort(starts, ech_compare_i64);
        for (size_t i = 0; i < n; i++) {
            const EchOp *op = &ech_trace_ops(v->trace)[i];
            if (ops[i] == ECH_NONE || op->kind != ECH_OP_COPY || way_of(v->trace, op) != way || !ech_op_has_start(op) || recorded(op))
                continue;
            guint low = 0, high = starts->len; /* first start after this one */
            ECH_SEARCH(low, high, middle, g_array_index(starts, EchTime, middle) <= op->recorded.start);
            Interval interval = {op->recorded.start, low < starts->len ? g_array_index(starts, EchTime, low) : op->recorded.start};
            g_array_append_val(v->open[way], interval);
        }
        merge(v->open[way]);
    }
}

/* ---- Predictions ---- */

static EchRun *replay(const EchTrace *trace, const EchDevice *device, GError **error)
{
    EchReplayOptions options = {0};
    ech_params_defaults(ech_replay_params, &options);
    options.engine = ECH_ENGINE_NATIVE;          /* the same times as SimGrid, in process */
    options.kernel_time = ECH_KERNEL_TIME_MODEL; /* what was recorded is what it is held against */
    options.allocator_on = 0;                    /* what was recorded did fit where it ran */
    options.keep_going = 1;
    options.max_spans = 100000000;
    options.max_points = 16;
    EchRun *run = ech_replay_run(trace, device, NULL, &options, error);
    ech_params_clear(ech_replay_params, &options);
    return run;
}

static bool predicts(EchPriceSource source)
{
    switch (source) {
    case ECH_PRICE_ROOFLINE:
    case ECH_PRICE_ESTIMATE:
    case ECH_PRICE_ESTIMATE_SCALED:
    case ECH_PRICE_MODEL:
    case ECH_PRICE_CODE:
    case ECH_PRICE_HOST:
    case ECH_PRICE_PIN:
    case ECH_PRICE_FILE:
    case ECH_PRICE_LINK:
    case ECH_PRICE_PORT:
    case ECH_PRICE_COLLECTIVE: return true;
    case ECH_PRICE_FREE:
    case ECH_PRICE_RECORDED:
    case ECH_PRICE_RECORDED_SCALED:
    case ECH_PRICE_RUNTIME:
    case ECH_PRICE_UNKNOWN:
    case ECH_N_PRICES: break;
    }
    return false;
}

/* Why an operation has no prediction, or NULL. */
static const char *gap_reason(const Validator *v, const EchOp *op, const EchPrice *price)
{
    if (!recorded(op))
        return op->recorded.start != ECH_TIME_NONE ? "its end was not recorded" : "nothing was recorded";
    if (op->recorded.duration == 0)
        return "recorded as taking no time";
    if (op->kind == ECH_OP_COLLECTIVE && (op->memory_from == 0 || op->memory_from == ECH_NONE) && op->collective != ECH_COLLECTIVE_SEND &&
        op->collective != ECH_COLLECTIVE_RECV)
        return "the group's size is not known";
    if (op->kind == ECH_OP_COLLECTIVE && (op->bytes == 0 || op->bytes_origin == ECH_ABSENT))
        return "its bytes are not known";
    if (op->kind == ECH_OP_COPY && (op->bytes == 0 || op->bytes_origin == ECH_ABSENT))
        return "its bytes are not known";
    if (op->kind == ECH_OP_KERNEL && !predicts((EchPriceSource)price->source))
        return ech_trace_kernel_known(v->trace, (EchId)(op - ech_trace_ops(v->trace))) ? "the device has no such memory or unit"
                                                                                       : "neither bytes nor operations are known";
    if (!predicts((EchPriceSource)price->source) || price->alone <= 0 || (op->kind == ECH_OP_COPY && price->n_parts == 0))
        return op->kind == ECH_OP_COPY     ? "the device has no way between these memories"
               : op->kind == ECH_OP_KERNEL ? "the device has no such memory or unit"
                                           : "the device has no link for it";
    return NULL;
}

static void compare(Validator *v, uint32_t device, const EchRun *run, const EchId *ops)
{
    g_autofree EchTime *took = g_new(EchTime, run->n_prices + 1);
    for (size_t i = 0; i < run->n_prices; i++)
        took[i] = run->prices[i].alone;
    for (size_t i = 0; !v->has_loops && i < run->n_spans; i++)
        /* A copy's fixed time can hide behind the one before it; recordings have it in them. */
        took[run->spans[i].op] = MAX(took[run->spans[i].op], run->spans[i].end - run->spans[i].start);
    /* A copy inside a GPU's memory is a kernel, which reads and then writes, and recordings of that begin when it does. */
    EchTime launch = g_strcmp0(v->device->family, "gpu") == 0 ? (EchTime)ech_device_number(v->device, "runtime.launch_ps", 0) : 0;
    for (size_t i = 0; i < ech_trace_n_ops(v->trace); i++) {
        const EchOp *op = &ech_trace_ops(v->trace)[i];
        if (ops[i] == ECH_NONE || !ech_op_is_work(op))
            continue;
        if (op->kind == ECH_OP_COPY && op->memory_from == op->memory_to && took[ops[i]] > launch)
            took[ops[i]] = MAX(took[ops[i]] - launch, MIN(took[ops[i]], 2 * ech_gpu_trip(v->device)));
        const EchPrice *price = &run->prices[ops[i]];
        const char *reason = gap_reason(v, op, price);
        if (reason) {
            add_gap(v, op, reason);
            continue;
        }
        EchValidatePair pair = {
            .name = g_strdup(ech_trace_string(v->trace, op->name)),
            .kind = g_strdup(kind_name(op)),
            .how = ech_price_name((EchPriceSource)price->source),
            .start = op->recorded.start,
            .bytes = op->kind == ECH_OP_KERNEL ? 0 : op->bytes,
            .device = device,
            .measured = op->recorded.duration,
            .predicted = took[ops[i]],
        };
        for (uint32_t u = 0; op->kind == ECH_OP_KERNEL && u < op->n_uses; u++)
            pair.bytes = ech_bytes_add(pair.bytes, ech_trace_uses(v->trace)[op->first_use + u].bytes);
        pair.group = op->kind == ECH_OP_COPY     ? copy_group(v, op)
                     : op->kind == ECH_OP_KERNEL ? kernel_group(v->trace, op, pair.how)
                                                 : g_strdup(ech_collective_name((EchCollective)op->collective));
        g_array_append_val(v->pairs, pair);
    }
}

/* Devices that were measured here have a memory of pageable pages with a link of its own. */
static const char *pageable_memory(const EchDevice *device)
{
    const EchMemory *memory = ech_device_memory_kind(device, ECH_MEM_HOST_PAGEABLE);
    return memory ? memory->name : NULL;
}

static bool validate_device(Validator *v, uint32_t device, GError **error)
{
    size_t n = ech_trace_n_ops(v->trace);
    g_autofree EchId *ops = g_new(EchId, n + 1);
    EchSelectOptions options = {.device = v->has_loops ? ECH_NONE : device, .clock = !v->has_loops, .forget = true, .pageable = pageable_memory(v->device)};
    g_autoptr(EchTrace) paced = ech_trace_select(v->trace, &options, ops, error);
    if (!paced)
        return false;
    g_autoptr(GArray) all = g_array_new(FALSE, FALSE, sizeof(Interval));
    for (int way = 0; way < 2; way++)
        g_array_set_size(v->ways[way], 0);
    EchTime first = ECH_TIME_MAX, last = ECH_TIME_NONE;
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        const EchOp *op = &ech_trace_ops(v->trace)[i];
        any = any || (ops[i] != ECH_NONE && recorded(op));
        if (ops[i] == ECH_NONE || !has_range(op))
            continue;
        Interval interval = {op->recorded.start, op->recorded.start + op->recorded.duration};
        first = MIN(first, interval.start);
        last = MAX(last, interval.end);
        g_array_append_val(all, interval);
        if (op->kind == ECH_OP_COPY && way_of(v->trace, op) >= 0)
            g_array_append_val(v->ways[way_of(v->trace, op)], interval);
    }
    if (!any)
        return true;
    EchTime busy = merge(all);
    merge(v->ways[0]);
    merge(v->ways[1]);
    find_open(v, ops);
    g_autoptr(EchRun) company = replay(paced, v->device, error);
    if (!company)
        return false;
    compare(v, device, company, ops);
    if (all->len == 0)
        return true;

    options.clock = false;
    g_autoptr(EchTrace) free_running = ech_trace_select(v->trace, &options, ops, error);
    if (!free_running)
        return false;
    g_autoptr(EchRun) run = replay(free_running, v->device, error);
    if (!run)
        return false;
    EchValidateWhole whole = {.device = device, .span = last - first, .measured = busy, .predicted = run->makespan};
    for (size_t i = 0; i < n; i++)
        if (ops[i] != ECH_NONE && run->prices[ops[i]].source == ECH_PRICE_RECORDED)
            whole.stand_in = ech_time_add(whole.stand_in, ech_trace_ops(v->trace)[i].recorded.duration);
    g_array_append_val(v->wholes, whole);
    return true;
}

/* ---- Words ---- */

static void G_GNUC_PRINTF(2, 3) note(EchValidation *validation, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    g_ptr_array_add(validation->notes, g_strdup_vprintf(format, list));
    va_end(list);
}

static void note_links(const Validator *v, EchValidation *validation);

static void write_notes(const Validator *v, EchValidation *validation)
{
    g_autofree char *hardware = v->wholes->len > 0 ? ech_recorded_on(v->trace, g_array_index(v->wholes, EchValidateWhole, 0).device) : NULL;
    validation->subject = hardware ? g_strdup_printf("recorded on %s", hardware) : g_strdup("recorded; the file does not say on what");
    if (hardware && !ech_device_is_product(v->device, hardware))
        note(validation,
             "The recording was made on %s, the predictions are for %s: what the two differ in is part of every error here. Describe your own hardware with "
             "'echelon calibrate' or a device file.",
             hardware, v->device->name);
    bool models = false, rooflines = false, links = false, pageable = false, unified = false, estimates = false, inferred = false;
    for (size_t i = 0; i < validation->n_pairs; i++) {
        const EchValidatePair *pair = &validation->pairs[i];
        rooflines = rooflines || strcmp(pair->how, "roofline") == 0;
        models = models || strcmp(pair->how, ech_price_name(ECH_PRICE_MODEL)) == 0;
        estimates = estimates || g_str_has_prefix(pair->how, "estimate");
        links = links || strcmp(pair->how, "link") == 0;
        pageable = pageable || strstr(pair->group, "pageable");
        unified = unified || strstr(pair->group, "unified");
        inferred = inferred || strstr(pair->group, "inferred");
    }
    if (links)
        note(validation, "Copies: the host link of %s (rate, latency, both directions together), each beside what it was recorded beside.", v->device->name);
    if (links)
        note_links(v, validation);
    if (pageable && pageable_memory(v->device))
        note(validation, "Pageable copies: the device's own link of pageable memory.");
    else if (pageable)
        note(validation, "Pageable copies pass through a staging buffer of the driver; the model's link is that of pinned memory, so they come out too fast.");
    if (unified)
        note(validation, "Migrations of unified memory pay for page faults and small blocks; the model prices their bytes over the link only.");
    if (rooflines)
        note(validation, "Kernels: the slower of operations at peak and bytes at full bandwidth of %s%s; a lower bound, so most should come out too fast.",
             v->device->name, inferred ? ", both inferred from recorded shapes" : "");
    if (estimates)
        note(validation, "Kernels with the compiler's estimate: that estimate.");
    if (models && g_strcmp0(v->device->family, "gpu") == 0)
        note(validation, "Kernels by class: the GPU kernel model (tiles and waves, latency, issue and memory); shapes come from the recorded operators or the "
                         "program in the file, tiles and types from the kernels' names, work of element-wise kernels without shapes from their grids.");
    for (size_t i = 0; i < validation->n_wholes; i++) {
        const EchValidateWhole *whole = &validation->wholes[i];
        if (whole->stand_in > 0 && validation->n_pairs > 0) {
            note(validation, "In the whole run, kernels about which nothing but their recorded time is known take that time on both sides: it validates "
                             "nothing, and where it is most of the run, neither does the whole.");
            break;
        }
    }
    if (g_strcmp0(v->device->family, "tpu") != 0)
        note(validation, "Set-ups of copies are left out on both sides, as are times in which the device had nothing to do: they are the host's. A kernel's "
                         "least time is runtime.graph_launch_ps of the device, or launch_ps.");
}

/* Where the rates of the host's link come from: a rate fitted to the very recording agrees with it by making. */
static void note_links(const Validator *v, EchValidation *validation)
{
    g_autoptr(GString) text = g_string_new(NULL);
    for (size_t i = 0; i < v->device->n_numbers; i++) {
        const EchDeviceNumber *number = &v->device->numbers[i];
        static const char *const ends[] = {".to_device", ".from_device", ".both_ways"};
        for (size_t e = 0; e < G_N_ELEMENTS(ends); e++)
            if (g_str_has_prefix(number->path, "links.host") && g_str_has_suffix(number->path, ends[e]) && number->source)
                g_string_append_printf(text, "%s%s: %s", text->len ? "; " : "", number->path, number->source);
    }
    if (text->len > 0)
        note(validation, "Where the link's rates come from (one that was fitted to this very recording agrees with it by making): %s.", text->str);
}

static void clear_pair(gpointer data)
{
    EchValidatePair *pair = data;
    g_free(pair->name);
    g_free(pair->kind);
    g_free(pair->group);
}

static void clear_gap(gpointer data)
{
    g_free(((EchValidateGap *)data)->example);
}

static bool validate_all(Validator *v, GError **error)
{
    size_t n_devices;
    g_autofree uint32_t *devices = ech_trace_devices(v->trace, &n_devices);
    uint64_t any = 0;
    for (size_t i = 0; i < ech_trace_n_ops(v->trace); i++)
        any += recorded(&ech_trace_ops(v->trace)[i]);
    if (any == 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED,
                    "no kernel, copy or collective of the trace has a recorded duration: there is nothing to hold a prediction against");
        return false;
    }
    for (size_t d = 0; d < (v->has_loops ? 1 : n_devices); d++)
        if (!validate_device(v, devices[d], error))
            return false;
    return true;
}

EchValidation *ech_validate_trace(const EchTrace *trace, const EchDevice *device, GError **error)
{
    g_autoptr(GArray) pairs = g_array_new(FALSE, TRUE, sizeof(EchValidatePair)), gaps = g_array_new(FALSE, TRUE, sizeof(EchValidateGap));
    g_autoptr(GArray) wholes = g_array_new(FALSE, TRUE, sizeof(EchValidateWhole)), to = g_array_new(FALSE, FALSE, sizeof(Interval)),
                      from = g_array_new(FALSE, FALSE, sizeof(Interval));
    g_autoptr(GArray) open_to = g_array_new(FALSE, FALSE, sizeof(Interval)), open_from = g_array_new(FALSE, FALSE, sizeof(Interval));
    g_array_set_clear_func(pairs, clear_pair);
    g_array_set_clear_func(gaps, clear_gap);
    /* Recordings of a GPU's copies begin when its engine does: their set-up, a call of the host's, is not in them. A TPU's begin when they are issued. */
    EchDevice without_setup = *device;
    g_autofree EchLink *links = g_memdup2(device->links, device->n_links * sizeof *links);
    for (size_t i = 0; i < device->n_links && g_strcmp0(device->family, "tpu") != 0; i++)
        links[i].setup = 0;
    without_setup.links = links;
    Validator v = {.trace = trace,
                   .device = &without_setup,
                   .has_loops = ech_trace_has_op(trace, ECH_OP_LOOP),
                   .pairs = pairs,
                   .gaps = gaps,
                   .wholes = wholes,
                   .ways = {to, from},
                   .open = {open_to, open_from}};
    if (!validate_all(&v, error))
        return NULL;
    EchValidation *validation = g_new0(EchValidation, 1);
    validation->makespan_measured = validation->makespan_predicted = ECH_TIME_NONE;
    for (guint i = 0; i < wholes->len && pairs->len > 0; i++) { /* the device that was busy longest */
        const EchValidateWhole *whole = &g_array_index(wholes, EchValidateWhole, i);
        if (i == 0 || whole->measured > validation->makespan_measured) {
            validation->makespan_measured = whole->measured;
            validation->makespan_predicted = whole->predicted;
        }
    }
    validation->n_pairs = pairs->len;
    validation->n_gaps = gaps->len;
    validation->n_wholes = wholes->len;
    validation->pairs = g_memdup2(pairs->data, pairs->len * sizeof(EchValidatePair));
    validation->gaps = g_memdup2(gaps->data, gaps->len * sizeof(EchValidateGap));
    validation->wholes = g_memdup2(wholes->data, wholes->len * sizeof(EchValidateWhole));
    g_array_set_clear_func(pairs, NULL);
    g_array_set_clear_func(gaps, NULL);
    validation->notes = g_ptr_array_new_with_free_func(g_free);
    write_notes(&v, validation);
    return validation;
}
