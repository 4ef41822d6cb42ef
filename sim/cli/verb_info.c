/* echelon info: what is in a trace or in a captured file. */
#include "models/device/device.h"
#include "models/device/gpu_target.h"
#include "sim/base/error.h"
#include "sim/cli/cli.h"
#include "sim/import/alloc_events.h"
#include "sim/import/import.h"
#include "sim/report/json_out.h"
#include "sim/report/padding.h"
#include "sim/report/program_info.h"
#include "sim/report/text.h"
#include "sim/report/transfers.h"
#include "sim/trace/lifetime.h"

#include <json-glib/json-glib.h>
#include <stdio.h>
#include <string.h>

/* One name of recorded operations, on one device or on all: how often, and how long. */
typedef struct {
    EchId name;
    const char *text; /* of the name: equal totals are ordered by it, not by an id that a file may renumber */
    uint8_t kind;
    uint32_t device;   /* 0 where the row is of all devices */
    GArray *durations; /* EchTime */
    EchTime total;
} NameRow;

typedef struct {
    uint64_t ops[ECH_N_OP_KINDS];
    uint64_t memsets; /* kernels of the runtime that fill; counted apart from the program's own */
    EchBytes allocated, h2d, d2h, d2d, h2h;
    EchTime first, last; /* recorded */
    EchTime kernel, copy, memset;
    /* Shares by EchOrigin: bytes of copies, uses of kernels, operation counts of kernels; kernels without any are absent. */
    uint64_t copy_bytes[4], kernel_bytes[4], kernel_work[4], alloc_bytes[4], loop_trips[4];
    uint64_t timed[ECH_N_OP_KINDS];
} Summary;

static void name_row_free(gpointer data)
{
    NameRow *row = data;
    g_array_unref(row->durations);
    g_free(row);
}

static bool is_host(const char *memory)
{
    return g_str_has_prefix(memory, "host") || strcmp(memory, "disk") == 0;
}

static gint compare_rows(gconstpointer a, gconstpointer b)
{
    const NameRow *x = *(NameRow *const *)a, *y = *(NameRow *const *)b;
    if (x->total != y->total)
        return x->total < y->total ? 1 : -1;
    int text = strcmp(x->text, y->text);
    if (text)
        return text;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return x->device < y->device ? -1 : x->device > y->device;
}

static gint compare_times(gconstpointer a, gconstpointer b)
{
    EchTime x = *(const EchTime *)a, y = *(const EchTime *)b;
    return x < y ? -1 : x > y;
}

static EchOrigin work_origin(const EchTrace *trace, const EchOp *op)
{
    EchOrigin origin = ECH_ABSENT;
    const EchWork *work = ech_trace_work(trace);
    for (uint32_t i = 0; i < op->n_work; i++)
        origin = MAX(origin, (EchOrigin)work[op->first_work + i].origin);
    return origin;
}

static EchOrigin uses_origin(const EchTrace *trace, const EchOp *op)
{
    EchOrigin origin = ECH_ABSENT;
    const EchUse *uses = ech_trace_uses(trace);
    for (uint32_t i = 0; i < op->n_uses; i++)
        origin = MAX(origin, (EchOrigin)uses[op->first_use + i].origin);
    return origin;
}

static bool is_memset(const EchTrace *trace, const EchOp *op)
{
    return op->kind == ECH_OP_KERNEL && g_ascii_strncasecmp(ech_trace_string(trace, op->name), "memset", 6) == 0 && op->n_work == 0;
}

static void count_copy(const EchTrace *trace, const EchOp *op, Summary *sum)
{
    bool from = is_host(ech_trace_memory(trace, op->memory_from)), to = is_host(ech_trace_memory(trace, op->memory_to));
    EchBytes *way = from && to ? &sum->h2h : from ? &sum->h2d : to ? &sum->d2h : &sum->d2d;
    *way = ech_bytes_add(*way, op->bytes);
    sum->copy_bytes[op->bytes_origin & 3]++;
}

static void summarise(const EchTrace *trace, Summary *sum)
{
    const EchOp *ops = ech_trace_ops(trace);
    size_t n = ech_trace_n_ops(trace);
    sum->first = ECH_TIME_MAX;
    sum->last = ECH_TIME_NONE;
    for (size_t i = 0; i < n; i++) {
        const EchOp *op = &ops[i];
        bool memset = is_memset(trace, op);
        if (memset)
            sum->memsets++;
        else
            sum->ops[op->kind]++;
        if (op->kind == ECH_OP_ALLOC) {
            sum->allocated = ech_bytes_add(sum->allocated, op->bytes);
            sum->alloc_bytes[op->bytes_origin & 3]++;
        }
        if (op->kind == ECH_OP_LOOP)
            sum->loop_trips[op->bytes_origin & 3]++;
        if (op->kind == ECH_OP_COPY)
            count_copy(trace, op, sum);
        if (op->kind == ECH_OP_KERNEL && !memset) {
            sum->kernel_bytes[uses_origin(trace, op)]++;
            sum->kernel_work[work_origin(trace, op)]++;
        }
        EchTime duration = op->recorded.duration;
        if (op->recorded.start != ECH_TIME_NONE) {
            sum->first = MIN(sum->first, op->recorded.start);
            sum->last = MAX(sum->last, duration == ECH_TIME_NONE ? op->recorded.start : ech_time_add(MAX(op->recorded.start, 0), duration));
        }
        if (duration == ECH_TIME_NONE)
            continue;
        sum->timed[op->kind]++;
        if (memset)
            sum->memset = ech_time_add(sum->memset, duration);
        else if (op->kind == ECH_OP_KERNEL)
            sum->kernel = ech_time_add(sum->kernel, duration);
        if (op->kind == ECH_OP_COPY)
            sum->copy = ech_time_add(sum->copy, duration);
    }
}

/* Recorded operations by name and, if asked, device; NameRow, longest total first. */
static GPtrArray *names_of(const EchTrace *trace, bool by_device)
{
    GPtrArray *names = g_ptr_array_new_with_free_func(name_row_free);
    g_autoptr(GHashTable) index = g_hash_table_new(NULL, NULL);
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        if (op->recorded.duration == ECH_TIME_NONE)
            continue;
        uint32_t device = op->queue == ECH_NONE ? 0 : ech_trace_queues(trace)[op->queue].device;
        gpointer key = GSIZE_TO_POINTER(((gsize)(by_device ? device : 0) << 36 | (gsize)op->name << 4 | op->kind) + 1);
        NameRow *row = g_hash_table_lookup(index, key);
        if (!row) {
            row = g_new0(NameRow, 1);
            row->name = op->name;
            row->text = ech_trace_string(trace, op->name);
            row->kind = op->kind;
            row->device = by_device ? device : 0;
            row->durations = g_array_new(FALSE, FALSE, sizeof(EchTime));
            g_hash_table_insert(index, key, row);
            g_ptr_array_add(names, row);
        }
        g_array_append_val(row->durations, op->recorded.duration);
        row->total = ech_time_add(row->total, op->recorded.duration);
    }
    if (names->len)
        g_ptr_array_sort(names, compare_rows);
    for (guint i = 0; i < names->len; i++)
        g_array_sort(((NameRow *)names->pdata[i])->durations, compare_times);
    return names;
}

static EchTime median(const GArray *durations)
{
    EchTime low = g_array_index(durations, EchTime, (durations->len - 1) / 2), high = g_array_index(durations, EchTime, durations->len / 2);
    return low + (high - low) / 2;
}

static void add_rows(JsonBuilder *b, const char *name, const EchDiag *diag, bool dropped)
{
    size_t n;
    const EchDiagRow *rows = ech_diag_rows(diag, &n);
    ech_json_begin_object(b, name);
    for (size_t i = 0; i < n; i++) {
        if (rows[i].fatal_if_strict != dropped)
            continue;
        g_autofree char *valid = g_utf8_make_valid(rows[i].name, -1);
        ech_json_add_count(b, valid, rows[i].count);
    }
    json_builder_end_object(b);
}

static void add_shares(JsonBuilder *b, const char *name, const uint64_t shares[4])
{
    ech_json_begin_object(b, name);
    for (EchOrigin o = ECH_ABSENT; o <= ECH_ASSUMED; o++)
        ech_json_add_count(b, ech_origin_name(o), shares[o]);
    json_builder_end_object(b);
}

/* A figure the reader took from the file ("end_reserved_bytes"), or what the trace itself adds up to. */
static uint64_t figure(const EchTrace *trace, const char *key, uint64_t fallback)
{
    const char *text = ech_trace_get_property(trace, key);
    uint64_t value;
    return text && ech_parse_u64(text, &value, NULL) ? value : fallback;
}

static EchId main_memory(const EchTrace *trace)
{
    EchId hbm = ech_trace_find_memory(trace, "hbm");
    const EchBuffer *buffers = ech_trace_buffers(trace);
    for (size_t i = 0; hbm != ECH_NONE && i < ech_trace_n_buffers(trace); i++) {
        if (buffers[i].memory == hbm)
            return hbm;
    }
    return ECH_NONE;
}

static void json_names(JsonBuilder *b, const char *member, const EchTrace *trace, bool by_device)
{
    g_autoptr(GPtrArray) names = names_of(trace, by_device);
    ech_json_begin_array(b, member);
    for (guint i = 0; i < MIN(names->len, 500u); i++) {
        const NameRow *row = names->pdata[i];
        json_builder_begin_object(b);
        ech_json_add_text(b, "name", ech_trace_string(trace, row->name));
        ech_json_add_text(b, "kind", ech_op_kind_name((EchOpKind)row->kind));
        if (by_device)
            ech_json_add_count(b, "device", row->device);
        ech_json_add_count(b, "count", row->durations->len);
        ech_json_add_count(b, "median_ps", (uint64_t)median(row->durations));
        ech_json_add_count(b, "min_ps", (uint64_t)g_array_index(row->durations, EchTime, 0));
        ech_json_add_count(b, "max_ps", (uint64_t)g_array_index(row->durations, EchTime, row->durations->len - 1));
        ech_json_add_count(b, "total_ps", (uint64_t)row->total);
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
}

/* Absent where nothing was recorded. */
static void add_time(JsonBuilder *b, const char *name, EchTime time)
{
    if (time != ECH_TIME_NONE)
        ech_json_add_count(b, name, (uint64_t)time);
}

static void json_transfers(JsonBuilder *b, const EchTrace *trace)
{
    g_autoptr(EchTransfers) transfers = ech_transfers_new(trace);
    ech_json_begin_array(b, "transfers");
    for (size_t i = 0; i < MIN(transfers->n, (size_t)500); i++) {
        const EchTransferRow *row = &transfers->rows[i];
        json_builder_begin_object(b);
        ech_json_add_text(b, "name", ech_trace_string(trace, row->name));
        ech_json_add_text(b, "from", row->from);
        ech_json_add_text(b, "to", row->to);
        ech_json_add_text(b, "overlap", ech_overlap_name(row->overlap));
        ech_json_add_count(b, "bytes", row->bytes);
        ech_json_add_count(b, "count", row->count);
        add_time(b, "in_flight_median_ps", row->in_flight);
        add_time(b, "waited_median_ps", row->waited);
        ech_json_begin_array(b, "devices");
        for (size_t d = 0; d < row->n_devices; d++) {
            json_builder_begin_object(b);
            ech_json_add_count(b, "device", row->devices[d].device);
            ech_json_add_count(b, "median_ps", (uint64_t)row->devices[d].median);
            json_builder_end_object(b);
        }
        json_builder_end_array(b);
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
}

static void json_trace(JsonBuilder *b, const EchTrace *trace)
{
    Summary sum = {0};
    summarise(trace, &sum);
    g_autoptr(EchLifetimes) lifetimes = ech_lifetimes_new(trace, main_memory(trace));
    ech_json_add_text(b, "source_format", ech_trace_format(trace));
    ech_json_add_count(b, "events", ech_trace_n_ops(trace));
    ech_json_begin_object(b, "ops");
    for (int k = 0; k < ECH_N_OP_KINDS; k++)
        ech_json_add_count(b, ech_op_kind_name((EchOpKind)k), sum.ops[k]);
    ech_json_add_count(b, "memset", sum.memsets);
    json_builder_end_object(b);
    ech_json_add_count(b, "buffers", ech_trace_n_buffers(trace));
    ech_json_add_count(b, "queues", ech_trace_n_queues(trace));
    ech_json_begin_object(b, "bytes");
    ech_json_add_count(b, "allocated", sum.allocated);
    ech_json_add_count(b, "peak_live", lifetimes->peak);
    ech_json_add_count(b, "h2d", sum.h2d);
    ech_json_add_count(b, "d2h", sum.d2h);
    ech_json_add_count(b, "d2d", sum.d2d);
    ech_json_add_count(b, "h2h", sum.h2h);
    ech_json_add_count(b, "end_allocated", figure(trace, "end_allocated_bytes", lifetimes->end_live));
    ech_json_add_count(b, "end_reserved", figure(trace, "end_reserved_bytes", 0));
    json_builder_end_object(b);
    ech_json_add_count(b, "span_ps", sum.last == ECH_TIME_NONE ? 0 : (uint64_t)(sum.last - sum.first));
    ech_json_begin_object(b, "recorded_ps");
    ech_json_add_count(b, "kernel", (uint64_t)sum.kernel);
    ech_json_add_count(b, "copy", (uint64_t)sum.copy);
    ech_json_add_count(b, "memset", (uint64_t)sum.memset);
    json_builder_end_object(b);
    ech_json_begin_object(b, "origins");
    add_shares(b, "copy_bytes", sum.copy_bytes);
    add_shares(b, "kernel_bytes", sum.kernel_bytes);
    add_shares(b, "kernel_work", sum.kernel_work);
    add_shares(b, "allocation_bytes", sum.alloc_bytes);
    add_shares(b, "loop_trips", sum.loop_trips);
    json_builder_end_object(b);
    ech_json_begin_object(b, "memories");
    for (EchId m = 0; m < ech_trace_n_memories(trace); m++) {
        g_autoptr(EchLifetimes) own = ech_lifetimes_new(trace, m);
        ech_json_begin_object(b, ech_trace_memory(trace, m));
        ech_json_add_count(b, "allocations", own->n);
        ech_json_add_count(b, "peak_live_bytes", own->peak);
        ech_json_add_count(b, "end_live_bytes", own->end_live);
        g_autoptr(EchPadding) padding = ech_padding_new(trace, ech_trace_memory(trace, m), NULL, 0);
        if (padding->bytes > 0) {
            json_builder_set_member_name(b, "padding");
            ech_padding_json(b, trace, padding, 16);
        }
        json_builder_end_object(b);
    }
    json_builder_end_object(b);
    json_names(b, "names", trace, true);
    json_names(b, "names_on_all_devices", trace, false);
    json_transfers(b, trace);
    ech_json_begin_object(b, "properties");
    const char *value, *key;
    for (size_t i = 0; (key = ech_trace_property(trace, i, &value)) != NULL; i++)
        ech_json_add_text(b, key, value);
    json_builder_end_object(b);
}

static void print_json_text(JsonBuilder *b)
{
    g_autofree char *text = ech_json_finish(b);
    ech_cli_print(text);
}

static int print_json(const EchImport *import, const EchTrace *trace, const char *device)
{
    g_autoptr(JsonBuilder) b = json_builder_new();
    json_builder_begin_object(b);
    ech_json_add_text(b, "format", import->format);
    if (trace)
        json_trace(b, trace);
    if (import->program)
        ech_report_program_info(b, import->program);
    if (import->program)
        ech_report_program_kernels(b, import->program, device);
    if (import->refusal)
        ech_json_add_text(b, "refused", import->refusal);
    add_rows(b, "records", import->records, false);
    add_rows(b, "dropped", import->diag, true);
    add_rows(b, "notes", import->diag, false);
    ech_json_begin_array(b, "remarks");
    for (const char *const *remark = ech_diag_remarks(import->diag); *remark; remark++)
        json_builder_add_string_value(b, *remark);
    json_builder_end_array(b);
    json_builder_end_object(b);
    print_json_text(b);
    return ECH_EXIT_DONE;
}

static void text_bytes(GString *out, const char *label, EchBytes bytes)
{
    g_autofree char *text = ech_format_bytes(bytes);
    g_string_append_printf(out, "  %-22s %12s  (%" G_GUINT64_FORMAT ")\n", label, text, bytes);
}

static void text_shares(GString *out, const char *label, const uint64_t shares[4])
{
    uint64_t total = shares[0] + shares[1] + shares[2] + shares[3];
    if (total == 0)
        return;
    g_string_append_printf(out, "  %-22s", label);
    for (EchOrigin o = ECH_ABSENT; o <= ECH_ASSUMED; o++) {
        if (shares[o])
            g_string_append_printf(out, " %s %.1f %%", ech_origin_name(o), 100.0 * (double)shares[o] / (double)total);
    }
    g_string_append_c(out, '\n');
}

/* Two decimals: a median is compared with other people's. */
static char *fine_time(EchTime time)
{
    static const char *const units[] = {"ps", "ns", "us", "ms", "s"};
    if (time == ECH_TIME_NONE)
        return g_strdup("-");
    double value = (double)time;
    size_t i = 0;
    for (; value >= 999.995 && i + 1 < G_N_ELEMENTS(units); i++)
        value /= 1000;
    char digits[G_ASCII_DTOSTR_BUF_SIZE];
    g_ascii_formatd(digits, sizeof digits, i ? "%.2f" : "%.0f", value);
    return g_strdup_printf("%s %s", digits, units[i]);
}

/* A name to stand behind @taken columns: shortened to what a terminal has left, whole where nobody looks at it in one. */
static char *short_name(const EchTrace *trace, EchId id, int taken)
{
    g_autofree char *kernel = ech_text_kernel(ech_trace_string(trace, id));
    unsigned columns = ech_cli_columns();
    return ech_text_short(kernel, columns ? MAX((int)columns - taken, 24) : 0);
}

/* A sentence, broken where a terminal's lines end. */
static void G_GNUC_PRINTF(2, 3) sentence(GString *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    ech_text_wrap(out, "", text, ech_cli_columns());
}

enum { MAX_DEVICES_SHOWN = 8 };

/* The medians of several devices, one line. */
static void text_devices(GString *out, const uint32_t *devices, const EchTime *medians, size_t n)
{
    if (n < 2)
        return;
    g_string_append(out, "              by device: ");
    for (size_t i = 0; i < MIN(n, (size_t)MAX_DEVICES_SHOWN); i++) {
        g_autofree char *time = fine_time(medians[i]);
        g_string_append_printf(out, "%s%u: %s", i ? ", " : "", devices[i], time);
    }
    g_string_append_printf(out, "%s\n", n > MAX_DEVICES_SHOWN ? ", ..." : "");
}

/* The medians of one name on each device. */
static void text_name_devices(GString *out, const GPtrArray *by_device, const NameRow *all)
{
    uint32_t devices[MAX_DEVICES_SHOWN + 1];
    EchTime medians[MAX_DEVICES_SHOWN + 1];
    size_t n = 0;
    for (guint i = 0; i < by_device->len && n <= MAX_DEVICES_SHOWN; i++) {
        const NameRow *row = by_device->pdata[i];
        if (row->name != all->name || row->kind != all->kind)
            continue;
        size_t at = n++;
        for (; at && devices[at - 1] > row->device; at--) {
            devices[at] = devices[at - 1];
            medians[at] = medians[at - 1];
        }
        devices[at] = row->device;
        medians[at] = median(row->durations);
    }
    text_devices(out, devices, medians, n);
}

static void text_names(GString *out, const EchTrace *trace, const GPtrArray *names, const GPtrArray *by_device, const char *title, uint32_t kinds, guint limit)
{
    guint shown = 0, more = 0;
    for (guint i = 0; i < names->len; i++) {
        const NameRow *row = names->pdata[i];
        if (!(kinds >> row->kind & 1))
            continue;
        if (shown == limit) {
            more++;
            continue;
        }
        if (shown++ == 0)
            g_string_append_printf(out, "%s\n       count       median        total  name\n", title);
        const char *kind = row->kind == ECH_OP_MARK ? "" : ech_op_kind_name((EchOpKind)row->kind);
        g_autofree char *middle = fine_time(median(row->durations)), *total = fine_time(row->total),
                        *name = short_name(trace, row->name, 40 + (int)strlen(kind) + (*kind != '\0'));
        g_string_append_printf(out, "  %10u %12s %12s  %s%s%s\n", row->durations->len, middle, total, kind, *kind ? " " : "", name);
        text_name_devices(out, by_device, row);
    }
    if (more)
        g_string_append_printf(out, "              and %u name%s more\n", more, more > 1 ? "s" : "");
}

static void text_transfers(GString *out, const EchTrace *trace)
{
    g_autoptr(EchTransfers) transfers = ech_transfers_new(trace);
    bool waits = false;
    for (size_t i = 0; i < MIN(transfers->n, (size_t)16); i++)
        waits |= transfers->rows[i].waited != ECH_TIME_NONE;
    if (transfers->n) {
        sentence(out, "recorded copies: medians by kind and by what ran the other way%s", waits ? " (in flight; waited: a core stood still for it)" : "");
        g_string_append_printf(out, "       count         size    in flight%s         rate  copy\n", waits ? "       waited" : "");
    }
    for (size_t i = 0; i < MIN(transfers->n, (size_t)16); i++) {
        const EchTransferRow *row = &transfers->rows[i];
        g_autofree char *size = row->bytes ? ech_format_bytes(row->bytes) : g_strdup("-"), *flight = fine_time(row->in_flight),
                        *waited = fine_time(row->waited);
        g_autofree char *rate =
            row->in_flight > 0 && row->bytes ? ech_format_rate((EchRate)MIN((double)row->bytes * 1e12 / (double)row->in_flight, 1e18)) : g_strdup("-");
        gsize begin = out->len;
        g_string_append_printf(out, "  %10" G_GUINT64_FORMAT " %12s %12s", row->count, size, flight);
        if (waits)
            g_string_append_printf(out, " %12s", waited);
        g_string_append_printf(out, " %12s  %s to %s, %s", rate, row->from, row->to, ech_overlap_name(row->overlap));
        if (row->overlap == ECH_OVERLAP_AGAINST || row->overlap == ECH_OVERLAP_PARTLY)
            g_string_append_printf(out, " %s to %s", row->to, row->from);
        g_autofree char *name = short_name(trace, row->name, (int)(out->len - begin) + 2);
        g_string_append_printf(out, ": %s\n", name);
        uint32_t devices[MAX_DEVICES_SHOWN + 1];
        EchTime medians[MAX_DEVICES_SHOWN + 1];
        size_t n = MIN(row->n_devices, (size_t)MAX_DEVICES_SHOWN + 1);
        for (size_t d = 0; d < n; d++) {
            devices[d] = row->devices[d].device;
            medians[d] = row->devices[d].median;
        }
        text_devices(out, devices, medians, n);
    }
    if (transfers->n > 16)
        g_string_append_printf(out, "              and %zu kinds more\n", transfers->n - 16);
}

/* Peaks of the memories besides the main one. */
static void text_memories(GString *out, const EchTrace *trace)
{
    EchId main = main_memory(trace);
    for (EchId m = 0; m < MIN(ech_trace_n_memories(trace), (size_t)16); m++) {
        g_autoptr(EchLifetimes) own = m != main ? ech_lifetimes_new(trace, m) : NULL;
        g_autofree char *name = ech_quote(ech_trace_memory(trace, m), -1, 9), *label = g_strdup_printf("most live in %s", name);
        if (own && own->peak && main != ECH_NONE)
            text_bytes(out, label, own->peak);
    }
    for (EchId m = 0; m < MIN(ech_trace_n_memories(trace), (size_t)16); m++) {
        g_autoptr(EchPadding) padding = ech_padding_new(trace, ech_trace_memory(trace, m), NULL, 0);
        g_autoptr(GString) text = g_string_new(NULL);
        ech_padding_text(text, trace, padding, 5, "    ", ech_cli_columns());
        if (text->len)
            g_string_append_printf(out, "  padding of all buffers in %s\n%s", ech_trace_memory(trace, m), text->str);
    }
}

/* Buffers of one name in one memory. */
typedef struct {
    const EchBuffer *first;
    EchBytes bytes;
    uint64_t n;
} Held;

static int compare_held(const void *a, const void *b)
{
    const Held *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : (x->first > y->first) - (x->first < y->first);
}

/* What lies in memory all the time: all that a capture tells whose operations nobody recorded. What has named parts is told by them. */
static void text_held(GString *out, const EchTrace *trace)
{
    enum { SHOWN = 12 };
    const EchBuffer *buffers = ech_trace_buffers(trace);
    size_t n = ech_trace_n_buffers(trace);
    g_autofree bool *has_parts = g_new0(bool, n + 1);
    bool shared = false;
    for (size_t i = 0; i < n; i++) {
        if (buffers[i].alias_of != ECH_NONE)
            shared = has_parts[buffers[i].alias_of] = true;
    }
    g_autoptr(GArray) rows = g_array_new(FALSE, FALSE, sizeof(Held));
    g_autoptr(GHashTable) known = g_hash_table_new(NULL, NULL); /* name and memory to row + 1 */
    for (size_t i = 0; i < n; i++) {
        if (!buffers[i].resident || has_parts[i])
            continue;
        gpointer key = GSIZE_TO_POINTER((gsize)buffers[i].memory << 32 | buffers[i].name);
        gsize at = GPOINTER_TO_SIZE(g_hash_table_lookup(known, key));
        if (at == 0) {
            Held row = {.first = &buffers[i]};
            g_array_append_val(rows, row);
            at = rows->len;
            g_hash_table_insert(known, key, GSIZE_TO_POINTER(at));
        }
        Held *row = &g_array_index(rows, Held, at - 1);
        row->bytes = ech_bytes_add(row->bytes, buffers[i].bytes);
        row->n++;
    }
    if (rows->len == 0)
        return;
    g_array_sort(rows, compare_held);
    g_string_append(out, shared ? "held, most first (parts of an allocation may share its bytes at different times)\n" : "held, most first\n");
    EchBytes rest = 0;
    for (guint i = 0; i < rows->len; i++) {
        const Held *row = &g_array_index(rows, Held, i);
        if (i >= SHOWN) {
            rest = ech_bytes_add(rest, row->bytes);
            continue;
        }
        g_autofree char *size = ech_format_bytes(row->bytes), *name = short_name(trace, row->first->name, 26);
        g_string_append_printf(out, "  %12s  ", size);
        if (row->n > 1)
            g_string_append_printf(out, "%" G_GUINT64_FORMAT " x ", row->n);
        g_string_append(out, *name ? name : "(without a name)");
        if (ech_trace_n_memories(trace) > 1)
            g_string_append_printf(out, "  in %s", ech_trace_memory(trace, row->first->memory));
        g_string_append_c(out, '\n');
    }
    if (rows->len > SHOWN) {
        g_autofree char *size = ech_format_bytes(rest);
        g_string_append_printf(out, "  %12s  in %u more\n", size, rows->len - SHOWN);
    }
}

static void text_trace(GString *out, const EchTrace *trace)
{
    Summary sum = {0};
    summarise(trace, &sum);
    g_autoptr(EchLifetimes) lifetimes = ech_lifetimes_new(trace, main_memory(trace));
    g_string_append_printf(out, "%zu operation%s on %zu queue%s, %zu buffer%s\n", ech_trace_n_ops(trace), ech_trace_n_ops(trace) == 1 ? "" : "s",
                           ech_trace_n_queues(trace), ech_trace_n_queues(trace) == 1 ? "" : "s", ech_trace_n_buffers(trace),
                           ech_trace_n_buffers(trace) == 1 ? "" : "s");
    for (int k = 0; k < ECH_N_OP_KINDS; k++) {
        if (sum.ops[k])
            g_string_append_printf(out, "  %s %" G_GUINT64_FORMAT, ech_op_kind_name((EchOpKind)k), sum.ops[k]);
    }
    if (sum.memsets)
        g_string_append_printf(out, "  memset %" G_GUINT64_FORMAT, sum.memsets);
    if (ech_trace_n_ops(trace))
        g_string_append_c(out, '\n');
    g_string_append(out, sum.ops[ECH_OP_LOOP] ? "bytes (bodies of loops once)\n" : "bytes\n");
    text_bytes(out, "allocated in all", sum.allocated);
    bool several = ech_trace_n_memories(trace) > 1 && main_memory(trace) != ECH_NONE;
    g_autofree char *main_name = several ? ech_quote(ech_trace_memory(trace, main_memory(trace)), -1, 9) : NULL;
    g_autofree char *peak = several ? g_strdup_printf("most live in %s", main_name) : g_strdup("live at the peak");
    text_bytes(out, peak, lifetimes->peak);
    text_memories(out, trace);
    text_bytes(out, "live at the end", figure(trace, "end_allocated_bytes", lifetimes->end_live));
    if (ech_trace_get_property(trace, "end_reserved_bytes"))
        text_bytes(out, "reserved at the end", figure(trace, "end_reserved_bytes", 0));
    if (sum.ops[ECH_OP_COPY]) {
        text_bytes(out, "host to device", sum.h2d);
        text_bytes(out, "device to host", sum.d2h);
        text_bytes(out, "device to device", sum.d2d);
    }
    if (sum.last != ECH_TIME_NONE) {
        g_autofree char *span = fine_time(sum.last - sum.first), *kernel = fine_time(sum.kernel), *copy = fine_time(sum.copy), *fill = fine_time(sum.memset);
        g_autofree char *all = g_strdup_printf("; in all kernels %s, copies %s%s%s", kernel, copy, sum.memset ? ", fills " : "", sum.memset ? fill : "");
        sentence(out, "recorded: %s from first to last%s", span, sum.kernel || sum.copy || sum.memset ? all : "");
    }
    if (ech_trace_n_ops(trace) <= 1)
        text_held(out, trace);
    gsize before = out->len;
    text_shares(out, "sizes of allocations", sum.alloc_bytes);
    text_shares(out, "bytes of copies", sum.copy_bytes);
    text_shares(out, "bytes of kernels", sum.kernel_bytes);
    text_shares(out, "operations of kernels", sum.kernel_work);
    text_shares(out, "trip counts of loops", sum.loop_trips);
    if (out->len > before)
        g_string_insert(out, (gssize)before, "what the file says, what was inferred\n");
    g_autoptr(GPtrArray) names = names_of(trace, false);
    g_autoptr(GPtrArray) by_device = names_of(trace, true);
    text_names(out, trace, names, by_device, "recorded steps and phases", 1u << ECH_OP_MARK, 8);
    text_names(out, trace, names, by_device, "recorded kernels and collectives, longest in all first", 1u << ECH_OP_KERNEL | 1u << ECH_OP_COLLECTIVE, 20);
    text_transfers(out, trace);
    text_names(out, trace, names, by_device, "recorded waits", 1u << ECH_OP_WAIT, 6);
}

static int compare_records(const void *a, const void *b)
{
    const EchDiagRow *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count ? 1 : -1) : strcmp(x->name, y->name);
}

/* At most @most of them (0: all), with the most frequent first. */
static void text_rows(GString *out, const char *title, const EchDiag *diag, bool dropped, size_t most)
{
    size_t n, said = 0;
    const EchDiagRow *all = ech_diag_rows(diag, &n);
    g_autofree EchDiagRow *rows = g_memdup2(all, n * sizeof *all);
    if (most && n > 1)
        qsort(rows, n, sizeof *rows, compare_records);
    for (size_t i = 0; i < n; i++) {
        if (rows[i].fatal_if_strict != dropped)
            continue;
        if (most && n > most + 1 && said++ >= most) {
            guint64 rest = 0;
            for (size_t k = i; k < n; k++)
                rest += rows[k].count;
            g_string_append_printf(out, "  %10" G_GUINT64_FORMAT "  of %zu other kinds (--json has them)\n", rest, n - i);
            break;
        }
        if (title)
            g_string_append_printf(out, "%s\n", title);
        title = NULL;
        g_autofree char *name = g_utf8_make_valid(rows[i].name, -1);
        g_string_append_printf(out, "  %10" G_GUINT64_FORMAT "  %s%s%s\n", rows[i].count, name, rows[i].first ? ", first at " : "",
                               rows[i].first ? rows[i].first : "");
    }
}

/* What a snapshot of PyTorch's allocator tells besides: its settings, where it began, and whether it ran out of memory. */
static void text_snapshot(GString *out, const EchTrace *trace, const char *path)
{
    g_autofree char *spec = ech_alloc_recorded_spec(trace);
    uint64_t live = 0;
    EchBytes bytes = 0;
    for (size_t i = 0; i < ech_trace_n_buffers(trace); i++) {
        const EchBuffer *buffer = &ech_trace_buffers(trace)[i];
        live += buffer->resident;
        bytes = ech_bytes_add(bytes, buffer->resident ? buffer->bytes : 0);
    }
    g_autofree char *size = ech_format_bytes(bytes);
    g_autofree char *began = live ? g_strdup_printf("; when the recording began %" G_GUINT64_FORMAT " blocks of it were live, %s", live, size) : NULL;
    sentence(out, "PyTorch's allocator: %s%s", strcmp(spec, "pytorch") == 0 ? "default settings" : spec + strlen("pytorch:"), began ? began : "");
    for (EchId m = 0; m < ech_trace_n_memories(trace); m++) {
        g_autoptr(GArray) refusals = ech_alloc_refusals(trace, m);
        if (refusals->len == 0)
            continue;
        const EchRefusal *last = &g_array_index(refusals, EchRefusal, refusals->len - 1);
        g_autofree char *asked = ech_format_bytes(last->bytes), *held = ech_format_bytes(last->reserved), *left = ech_format_bytes(last->device_free);
        g_autofree char *of = m == ech_alloc_main_memory(trace) ? g_strdup("") : g_strdup_printf(" --memory %s", ech_trace_memory(trace, m));
        sentence(out, "out of memory %u time%s: %s asked for, %s held, %s left on the device; 'echelon alloc %s%s' says who would have served it",
                 refusals->len, refusals->len == 1 ? "" : "s", asked, held, left, path, of);
    }
}

static int print_text(const EchImport *import, const EchTrace *trace, const char *path, const char *device)
{
    GString *out = g_string_new(NULL);
    g_string_append_printf(out, "%s: %s\n", path, import->format);
    if (trace)
        text_trace(out, trace);
    if (trace && strcmp(import->format, "memory_snapshot") == 0)
        text_snapshot(out, trace, path);
    if (import->program)
        ech_report_program_text(out, import->program);
    if (import->program)
        ech_report_program_kernels_text(out, import->program, device);
    if (import->refusal)
        sentence(out, "the compiler refused it: %s", import->refusal);
    text_rows(out, "records of the file", import->records, false, 16);
    text_rows(out, "dropped or repaired", import->diag, true, 0);
    text_rows(out, "notes", import->diag, false, 0);
    for (const char *const *remark = ech_diag_remarks(import->diag); *remark; remark++)
        ech_text_wrap(out, "", *remark, ech_cli_columns());
    ech_cli_print(out->str);
    g_string_free(out, TRUE);
    return ECH_EXIT_DONE;
}

/* A program is summed up as the trace it makes. The device only names memories and gives the clock here: without its file the usual names do. */
static EchTrace *lower(const EchProgram *program, const char *device, uint64_t trips, EchDiag *diag, GError **error)
{
    g_autoptr(EchDevice) loaded = device ? ech_device_load(device, NULL, NULL) : NULL;
    EchLowerOptions options = {.loop_trips = trips};
    return ech_program_lower(program, loaded, &options, diag, error);
}

static void text_device(GString *out, const EchDevice *device)
{
    for (size_t i = 0; i < device->n_memories; i++) {
        const EchMemory *m = &device->memories[i];
        g_autofree char *size = ech_format_bytes(m->capacity), *read = m->read ? ech_format_rate(m->read) : g_strdup("unlimited"),
                        *write = m->write ? ech_format_rate(m->write) : g_strdup("unlimited");
        g_string_append_printf(out, "  memory %-15s %12s, read %s, written %s\n", m->name, size, read, write);
    }
    for (size_t i = 0; i < device->n_links; i++) {
        const EchLink *l = &device->links[i];
        g_autofree char *to = ech_format_rate(l->to_device), *from = ech_format_rate(l->from_device);
        g_string_append_printf(out, "  link %-17s %12s to the device, %s from it%s\n", l->name, to, from, l->ports > 1 ? ", each port" : "");
    }
    for (size_t i = 0; i < device->n_units; i++) {
        const EchUnit *u = &device->units[i];
        g_string_append_printf(out, "  unit %-17s", u->name);
        for (size_t k = 0; k < u->n_peaks; k++) {
            g_autofree char *peak = ech_format_count((double)u->peaks[k].ops, "OP/s");
            g_string_append_printf(out, "%s %s %s", k ? "," : "", u->peaks[k].dtype, peak);
        }
        g_string_append_c(out, '\n');
    }
}

static void json_device(JsonBuilder *b, const EchDevice *device)
{
    ech_json_add_text(b, "name", device->name);
    ech_json_add_text(b, "summary", device->summary);
    ech_json_begin_object(b, "memories");
    for (size_t i = 0; i < device->n_memories; i++) {
        ech_json_begin_object(b, device->memories[i].name);
        ech_json_add_count(b, "capacity_bytes", device->memories[i].capacity);
        ech_json_add_count(b, "nominal_bytes_per_s", device->memories[i].nominal);
        ech_json_add_count(b, "read_bytes_per_s", device->memories[i].read);
        ech_json_add_count(b, "write_bytes_per_s", device->memories[i].write);
        json_builder_end_object(b);
    }
    json_builder_end_object(b);
    ech_json_begin_object(b, "links");
    for (size_t i = 0; i < device->n_links; i++) {
        ech_json_begin_object(b, device->links[i].name);
        ech_json_add_count(b, "to_device_bytes_per_s", device->links[i].to_device);
        ech_json_add_count(b, "from_device_bytes_per_s", device->links[i].from_device);
        json_builder_end_object(b);
    }
    json_builder_end_object(b);
    ech_json_begin_object(b, "units");
    for (size_t i = 0; i < device->n_units; i++) {
        ech_json_begin_object(b, device->units[i].name);
        for (size_t k = 0; k < device->units[i].n_peaks; k++)
            ech_json_add_count(b, device->units[i].peaks[k].dtype, device->units[i].peaks[k].ops);
        json_builder_end_object(b);
    }
    json_builder_end_object(b);
}

/* XLA's description of a GPU is a device. */
static bool is_device(const char *path)
{
    g_autoptr(EchSource) source = ech_source_open(path, NULL);
    size_t n = 0;
    const uint8_t *head = source ? ech_source_head(source, &n) : NULL;
    return n && ech_gpu_target_probe((const char *)head, n);
}

static int info_device(const char *path, bool json)
{
    GError *error = NULL;
    g_autoptr(EchDevice) device = ech_device_load(path, NULL, &error);
    if (!device)
        return ech_cli_fail(error);
    if (json) {
        g_autoptr(JsonBuilder) b = json_builder_new();
        json_builder_begin_object(b);
        ech_json_add_text(b, "format", "gpu_target_config");
        ech_json_begin_object(b, "device");
        json_device(b, device);
        json_builder_end_object(b);
        json_builder_end_object(b);
        print_json_text(b);
        return ECH_EXIT_DONE;
    }
    g_autoptr(GString) out = g_string_new(NULL);
    g_string_append_printf(out, "%s: gpu_target_config, a device: %s\n", path, device->summary);
    text_device(out, device);
    g_string_append(out, "give it as --device FILE; 'echelon import FILE -o DEVICE.yaml' writes it as a device file, with the source of every number\n");
    ech_cli_print(out->str);
    return ECH_EXIT_DONE;
}

int ech_verb_info(int argc, char **argv)
{
    g_autofree char *format = NULL, *device = NULL, *beside = NULL;
    gboolean json = FALSE, strict = FALSE, ignore = FALSE;
    gint64 trips = 1;
    const GOptionEntry entries[] = {
        {"device", 0, 0, G_OPTION_ARG_STRING, &device, "chip the file was made for, where the format does not say", "NAME"},
        {"format", 0, 0, G_OPTION_ARG_STRING, &format, "take the file as this format instead of looking at its bytes", "F"},
        {"beside", 0, 0, G_OPTION_ARG_FILENAME, &beside,
         "a second file of the same run to merge: a memory snapshot beside a Kineto profile, a JAX device memory profile beside anything", "FILE"},
        {"alone", 0, 0, G_OPTION_ARG_NONE, &ignore, "do not pick up files that lie beside the program", NULL},
        {"loop-trips", 0, 0, G_OPTION_ARG_INT64, &trips, "trip count of loops that tell none (default 1)", "N"},
        {"strict", 0, 0, G_OPTION_ARG_NONE, &strict, "fail if anything was dropped or repaired", NULL},
        {"json", 0, 0, G_OPTION_ARG_NONE, &json, "one JSON document on standard output", NULL},
        G_OPTION_ENTRY_NULL,
    };
    g_auto(GStrv) rest = NULL;
    if (!ech_cli_options(argc, argv, entries, &rest))
        return ECH_EXIT_USAGE;
    if (g_strv_length(rest) != 1 || trips < 0) {
        fprintf(stderr, "echelon info: one FILE is needed%s\n", trips < 0 ? " and --loop-trips must not be negative" : "");
        return ECH_EXIT_USAGE;
    }
    if (!format && !g_file_test(rest[0], G_FILE_TEST_IS_DIR) && is_device(rest[0]))
        return info_device(rest[0], json);
    GError *error = NULL;
    EchImportOptions options = {.device = device, .beside = beside, .loop_trips = (uint64_t)trips, .ignore_beside = ignore};
    g_autoptr(EchImport) import = ech_import_file(rest[0], format, &options, &error);
    if (!import || (strict && !ech_diag_check_strict(import->diag, &error)))
        return ech_cli_fail(error);
    if (import->program && !ech_report_program_complete(import->program, device, import->diag, &error))
        return ech_cli_fail(error);
    g_autoptr(EchTrace) lowered = import->program ? lower(import->program, device, (uint64_t)trips, import->diag, &error) : NULL;
    if (lowered && import->resident) {
        EchTrace *merged = ech_import_add_resident(lowered, import->resident, import->diag, &error);
        ech_trace_unref(lowered);
        lowered = merged;
    }
    if (error)
        return ech_cli_fail(error);
    const EchTrace *trace = lowered ? lowered : import->trace;
    return json ? print_json(import, trace, device) : print_text(import, trace, rest[0], device);
}
