/* What there is to tell of a trace, for a terminal. */
#include "models/device/device.h"
#include "sim/base/error.h"
#include "sim/cli/cli.h"
#include "sim/cli/trace_info_private.h"
#include "sim/import/import.h"
#include "sim/report/text.h"

#include <string.h>

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

enum { LEAST_NAME = 24 };

/* A name to stand behind @taken columns: shortened to what a terminal has left, whole where nobody looks at it in one. */
static char *short_name(const EchTrace *trace, EchId id, int taken)
{
    g_autofree char *kernel = ech_text_kernel(ech_trace_string(trace, id));
    unsigned columns = ech_cli_columns();
    return ech_text_short(kernel, columns ? MAX((int)columns - taken, LEAST_NAME) : 0);
}

void ech_trace_info_sentence(GString *out, const char *format, ...)
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
static void text_name_devices(GString *out, const GPtrArray *by_device, const EchNameInfo *all)
{
    uint32_t devices[MAX_DEVICES_SHOWN + 1];
    EchTime medians[MAX_DEVICES_SHOWN + 1];
    size_t n = 0;
    for (guint i = 0; i < by_device->len && n <= MAX_DEVICES_SHOWN; i++) {
        const EchNameInfo *row = by_device->pdata[i];
        if (row->name != all->name || row->kind != all->kind || row->on_device != all->on_device)
            continue;
        size_t at = n++;
        for (; at && devices[at - 1] > row->device; at--) {
            devices[at] = devices[at - 1];
            medians[at] = medians[at - 1];
        }
        devices[at] = row->device;
        medians[at] = row->median;
    }
    text_devices(out, devices, medians, n);
}

static void text_names(GString *out, const EchTrace *trace, const GPtrArray *names, const GPtrArray *by_device, const char *title, uint32_t kinds, guint limit)
{
    guint shown = 0, more = 0;
    for (guint i = 0; i < names->len; i++) {
        const EchNameInfo *row = names->pdata[i];
        if (!(kinds >> row->kind & 1))
            continue;
        if (shown == limit) {
            more++;
            continue;
        }
        if (shown++ == 0)
            g_string_append_printf(out, "%s\n       count       median        total  name\n", title);
        const char *kind = row->kind == ECH_OP_MARK ? "" : ech_op_kind_name((EchOpKind)row->kind), *on = row->twice && row->on_device ? ", on the device" : "";
        g_autofree char *middle = fine_time(row->median), *total = fine_time(row->total),
                        *name = short_name(trace, row->name, 40 + (int)strlen(kind) + (*kind != '\0') + (int)strlen(on));
        g_string_append_printf(out, "  %10u %12s %12s  %s%s%s%s\n", row->durations->len, middle, total, kind, *kind ? " " : "", name, on);
        text_name_devices(out, by_device, row);
    }
    if (more)
        g_string_append_printf(out, "              and %u name%s more\n", more, more > 1 ? "s" : "");
}

enum { MAX_TRANSFERS_SHOWN = 16 };

/* "host to hbm, against hbm to host". */
static char *transfer_label(const EchTransferRow *row)
{
    bool against = row->overlap == ECH_OVERLAP_AGAINST || row->overlap == ECH_OVERLAP_PARTLY;
    return g_strdup_printf("%s to %s, %s%s%s%s%s", row->from, row->to, ech_overlap_name(row->overlap), against ? " " : "", against ? row->to : "",
                           against ? " to " : "", against ? row->from : "");
}

static void text_transfer(GString *out, const EchTrace *trace, const EchTransferRow *row, bool waits, bool beside)
{
    g_autofree char *size = row->bytes ? ech_format_bytes(row->bytes) : g_strdup("-"), *flight = fine_time(row->in_flight), *waited = fine_time(row->waited);
    g_autofree char *rate =
        row->in_flight > 0 && row->bytes ? ech_format_rate((EchRate)MIN((double)row->bytes * 1e12 / (double)row->in_flight, 1e18)) : g_strdup("-");
    g_autofree char *label = transfer_label(row);
    gsize begin = out->len;
    g_string_append_printf(out, "  %10" G_GUINT64_FORMAT " %12s %12s", row->count, size, flight);
    if (waits)
        g_string_append_printf(out, " %12s", waited);
    g_string_append_printf(out, " %12s", rate);
    if (!beside) {
        g_string_append_c(out, '\n');
        begin = out->len;
        g_string_append(out, "            ");
    }
    g_string_append_printf(out, "  %s", label);
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

static void text_transfers(GString *out, const EchTrace *trace, const EchTransfers *transfers)
{
    size_t n = MIN(transfers->n, (size_t)MAX_TRANSFERS_SHOWN);
    bool waits = false;
    unsigned widest = 0, columns = ech_cli_columns();
    for (size_t i = 0; i < n; i++) {
        g_autofree char *label = transfer_label(&transfers->rows[i]);
        waits |= transfers->rows[i].waited != ECH_TIME_NONE;
        widest = MAX(widest, (unsigned)ech_text_width(label));
    }
    if (n == 0)
        return;
    ech_trace_info_sentence(out, "recorded copies: medians by kind and by what ran the other way%s",
                            waits ? " (in flight; waited: a core stood still for it)" : "");
    /* A terminal too narrow for what was copied to stand beside the figures has it on a line of its own. */
    bool beside = columns == 0 || columns >= (waits ? 67 : 54) + widest + 2 + LEAST_NAME;
    g_string_append_printf(out, "       count         size    in flight%s         rate%s\n", waits ? "       waited" : "", beside ? "  copy" : "");
    for (size_t i = 0; i < n; i++)
        text_transfer(out, trace, &transfers->rows[i], waits, beside);
    if (transfers->n > n)
        g_string_append_printf(out, "              and %zu kinds more\n", transfers->n - n);
}

static void text_some_bytes(GString *out, const char *label, EchBytes bytes)
{
    if (bytes > 0)
        text_bytes(out, label, bytes);
}

static void text_managed(GString *out, const EchTraceInfo *info)
{
    text_some_bytes(out, "managed, at most", info->managed);
    text_some_bytes(out, "prefetched to device", info->prefetch_h2d);
    text_some_bytes(out, "prefetched to host", info->prefetch_d2h);
    text_some_bytes(out, "migrated to device", info->migrated_h2d);
    text_some_bytes(out, "migrated to host", info->migrated_d2h);
}

/* Peaks of the memories besides the main one. */
static void text_memories(GString *out, const EchTraceInfo *info)
{
    EchId n = (EchId)MIN(ech_trace_n_memories(info->trace), (size_t)16);
    for (EchId m = 0; m < n; m++) {
        const EchMemoryInfo *memory = &info->memories[m];
        g_autofree char *name = ech_quote(memory->name, -1, 9), *label = g_strdup_printf("most live in %s", name);
        if (m != info->main && memory->peak && info->main != ECH_NONE)
            text_bytes(out, label, memory->peak);
    }
    for (EchId m = 0; m < n; m++) {
        g_autoptr(GString) text = g_string_new(NULL);
        ech_padding_text(text, info->trace, info->memories[m].padding, 5, "    ", ech_cli_columns());
        if (text->len)
            g_string_append_printf(out, "  padding of all buffers in %s\n%s", info->memories[m].name, text->str);
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
        if (!buffers[i].resident || buffers[i].bytes == 0 || has_parts[i])
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

/* Devices of @family that would have room for @needed in @percent of their memory, and beside it, unless it is in that, for the process's context, the smallest
 * first; nothing where all have. */
static void text_family(GString *out, const char *family, EchBytes needed, bool context, uint64_t percent, bool refused)
{
    enum { SHOWN = 5 };
    g_autoptr(GPtrArray) devices = ech_device_with_room(family, false, needed / percent * 100), all = ech_device_with_room(family, false, 0);
    g_autofree char *size = ech_format_bytes(needed),
                    *part = percent < 100 ? g_strdup_printf(" in %" G_GUINT64_FORMAT " %% of their memory", percent) : g_strdup("");
    for (guint i = devices->len; i-- > 0 && !context;) {
        const EchDevice *device = devices->pdata[i];
        if (ech_bytes_add(needed, ech_device_context(device)) > ech_device_memory(device, "hbm")->available)
            g_ptr_array_remove_index(devices, i);
    }
    /* Where every device has, that says nothing of the one that refused. */
    if (!refused && devices->len == all->len)
        return;
    g_autoptr(GString) names = g_string_new(NULL);
    g_autoptr(GPtrArray) sizes = ech_device_of_each_size(devices);
    guint told = 0;
    for (guint i = 0; i < MIN(sizes->len, SHOWN); i++) {
        const EchDevice *device = sizes->pdata[i];
        guint same = 0;
        for (guint j = 0; j < devices->len; j++)
            same += ech_device_same_size(device, devices->pdata[j]);
        g_autofree char *room = ech_format_bytes(ech_device_memory(device, "hbm")->available);
        g_string_append_printf(names, "%s%s (%s", i ? ", " : "", device->name, room);
        g_string_append_printf(names, same > 1 ? ", and %u like it)" : ")", same - 1);
        told += same;
    }
    if (devices->len > told)
        g_string_append_printf(names, " and %u larger ('echelon list devices')", devices->len - told);
    ech_trace_info_sentence(out, "room for %s%s have: %s", size, part, devices->len ? names->str : "none of 'echelon list devices'");
}

/* Devices that would have room for as much; nothing where the one that refused had it. */
static void text_room(GString *out, const EchTraceInfo *info)
{
    const char *family = ech_trace_get_property(info->trace, "refused_on");
    const char *had = ech_trace_get_property(info->trace, "had_bytes"), *others = ech_trace_get_property(info->trace, "others_bytes"),
               *share = ech_trace_get_property(info->trace, "share_percent");
    uint64_t bytes = 0, held = 0, percent = 100;
    /* Where all that is known is the request, the rest is not. */
    if (!family || info->main == ECH_NONE || ech_trace_n_buffers(info->trace) <= ech_trace_n_ops(info->trace))
        return;
    /* What other processes held need not be there. */
    if (others && ech_parse_u64(others, &held, NULL))
        held = MIN(held, info->peak);
    if (share && (!ech_parse_u64(share, &percent, NULL) || percent == 0 || percent > 100))
        percent = 100;
    EchBytes own = info->peak - held;
    bool context = ech_trace_get_property(info->trace, "context_held") != NULL;
    if (had && ech_parse_u64(had, &bytes, NULL) && bytes >= own)
        return;
    if (strcmp(family, "any") != 0) {
        text_family(out, family, own, context, percent, had != NULL);
        return;
    }
    /* Of a program that XLA compiled for a chip that is not told; of a GPU's memory JAX takes three quarters unless told otherwise. */
    text_family(out, "tpu", own, context, 100, false);
    text_family(out, "gpu", own, context, 75, false);
}

/* Of a message: sums, and what was asked for besides. */
static void text_refused(GString *out, const EchTraceInfo *info)
{
    text_held(out, info->trace);
    for (size_t i = 0; i < ech_trace_n_ops(info->trace); i++) {
        const EchOp *op = &ech_trace_ops(info->trace)[i];
        g_autofree char *size = ech_format_bytes(op->bytes);
        if (op->kind == ECH_OP_ALLOC)
            g_string_append_printf(out, "  %12s  asked for besides\n", size);
    }
    g_autofree char *all = ech_format_bytes(info->peak);
    bool several = ech_trace_n_memories(info->trace) > 1 && info->main != ECH_NONE;
    if (ech_trace_n_buffers(info->trace) > 1)
        g_string_append_printf(out, "  %12s  in all%s%s  (%" G_GUINT64_FORMAT ")\n", all, several ? " in " : "", several ? info->memories[info->main].name : "",
                               info->peak);
    text_memories(out, info);
    text_room(out, info);
}

void ech_trace_info_text(GString *out, const EchTraceInfo *info)
{
    const EchTrace *trace = info->trace;
    if (ech_import_is_pasted(ech_trace_format(trace))) {
        text_refused(out, info);
        return;
    }
    g_string_append_printf(out, "%zu operation%s on %zu queue%s, %zu buffer%s\n", ech_trace_n_ops(trace), ech_trace_n_ops(trace) == 1 ? "" : "s",
                           ech_trace_n_queues(trace), ech_trace_n_queues(trace) == 1 ? "" : "s", ech_trace_n_buffers(trace),
                           ech_trace_n_buffers(trace) == 1 ? "" : "s");
    for (int k = 0; k < ECH_N_OP_KINDS; k++) {
        if (info->ops[k])
            g_string_append_printf(out, "  %s %" G_GUINT64_FORMAT, ech_op_kind_name((EchOpKind)k), info->ops[k]);
    }
    if (info->memsets)
        g_string_append_printf(out, "  memset %" G_GUINT64_FORMAT, info->memsets);
    if (ech_trace_n_ops(trace))
        g_string_append_c(out, '\n');
    g_string_append(out, info->ops[ECH_OP_LOOP] ? "bytes (bodies of loops once)\n" : "bytes\n");
    text_bytes(out, "allocated in all", info->allocated);
    bool several = ech_trace_n_memories(trace) > 1 && info->main != ECH_NONE;
    g_autofree char *main_name = several ? ech_quote(ech_trace_memory(trace, info->main), -1, 9) : NULL;
    g_autofree char *peak = several ? g_strdup_printf("most live in %s", main_name) : g_strdup("live at the peak");
    text_bytes(out, peak, info->peak);
    text_memories(out, info);
    if (!several || info->end_allocated == info->end_live)
        text_bytes(out, "live at the end", info->end_live);
    if (info->end_allocated != info->end_live)
        text_bytes(out, "in blocks at the end", info->end_allocated);
    if (info->end_reserved_known)
        text_bytes(out, "reserved at the end", info->end_reserved);
    if (info->ops[ECH_OP_COPY]) {
        text_bytes(out, "host to device", info->h2d);
        text_bytes(out, "device to host", info->d2h);
        text_bytes(out, "device to device", info->d2d);
    }
    text_managed(out, info);
    if (info->last != ECH_TIME_NONE) {
        g_autofree char *span = fine_time(info->last - info->first), *kernel = fine_time(info->kernel), *copy = fine_time(info->copy),
                        *fill = fine_time(info->memset);
        g_autofree char *all = g_strdup_printf("; in all kernels %s, copies %s%s%s", kernel, copy, info->memset ? ", fills " : "", info->memset ? fill : "");
        ech_trace_info_sentence(out, "recorded: %s from first to last%s", span, info->kernel || info->copy || info->memset ? all : "");
    }
    if (ech_trace_n_ops(trace) <= 1)
        text_held(out, trace);
    gsize before = out->len;
    text_shares(out, "sizes of allocations", info->alloc_bytes);
    text_shares(out, "bytes of copies", info->copy_bytes);
    text_shares(out, "bytes of kernels", info->kernel_bytes);
    text_shares(out, "operations of kernels", info->kernel_work);
    text_shares(out, "trip counts of loops", info->loop_trips);
    if (out->len > before)
        g_string_insert(out, (gssize)before, "what the file says, what was inferred\n");
    const GPtrArray *names = info->names, *by_device = info->by_device;
    text_names(out, trace, names, by_device, "recorded steps and phases", 1u << ECH_OP_MARK, 8);
    text_names(out, trace, names, by_device, "recorded kernels and collectives, longest in all first", 1u << ECH_OP_KERNEL | 1u << ECH_OP_COLLECTIVE, 20);
    text_transfers(out, trace, info->transfers);
    text_names(out, trace, names, by_device, "recorded waits", 1u << ECH_OP_WAIT, 6);
}
