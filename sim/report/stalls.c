/* What the time inside kernels is spent on. */
#include "sim/report/stalls.h"

#include "models/kernel/stationary.h"
#include "sim/program/price_kernels.h"
#include "sim/report/json_out.h"
#include "sim/report/text.h"

#include <string.h>

typedef struct {
    const char *name; /* Borrowed from the trace; NULL: the whole run. */
    EchTime time;     /* All its runs, alone. */
    uint64_t runs;
    EchStalls stalls; /* Add up to time. */
    EchBytes vmem;    /* On-chip bytes of its windows; 0: not known. */
} StallRow;

static int compare_rows(const void *a, const void *b)
{
    const StallRow *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? 1 : -1;
    return strcmp(x->name, y->name);
}

static EchTime times(EchTime time, uint64_t runs)
{
    uint64_t all = ech_bytes_mul((uint64_t)MAX(time, 0), runs);
    return all > (uint64_t)ECH_TIME_MAX ? ECH_TIME_MAX : (EchTime)all;
}

/* A tiled product carries the stalls of its schedule. */
static StallRow *stalls_of_trace(const EchReport *report, size_t *ret_n)
{
    StallRow *row = g_new0(StallRow, 1);
    bool any = false;
    for (unsigned i = 0; i < ECH_N_STALLS; i++) {
        g_autofree char *key = g_strdup_printf("stall.%s", ech_stall_name((EchStall)i));
        const char *value = ech_trace_get_property(report->trace, key);
        any = any || value != NULL;
        row->stalls.at[i] = value ? (EchTime)g_ascii_strtoll(value, NULL, 10) : 0;
    }
    row->time = ech_stalls_total(&row->stalls);
    row->runs = 1;
    *ret_n = any ? 1 : 0;
    if (!any)
        g_clear_pointer(&row, g_free);
    return row;
}

EchKernelInside *ech_report_kernel_insides(const EchReport *report)
{
    const EchTrace *trace = report->trace;
    if (g_strcmp0(ech_trace_get_property(trace, ECH_INSIDES_OF), report->device->name) != 0)
        return NULL;
    size_t n_ops = ech_trace_n_ops(trace), n_prices = report->run->n_prices;
    const EchOp *ops = ech_trace_ops(trace);
    EchKernelInside *insides = g_new0(EchKernelInside, n_ops + 1);
    for (size_t i = 0; i < MIN(n_ops, n_prices); i++) {
        EchPriceSource source = (EchPriceSource)report->run->prices[i].source;
        if (ops[i].kind == ECH_OP_KERNEL && ops[i].launch != ECH_NONE &&
            (source == ECH_PRICE_ESTIMATE || source == ECH_PRICE_ESTIMATE_SCALED || source == ECH_PRICE_MODEL))
            (void)ech_kernel_inside_parse(ech_trace_string(trace, ops[i].launch), &insides[i]);
    }
    return insides;
}

/* How often a pass over the trace runs each op: trip counts of the loops around it multiplied. Owned by the caller. */
static uint64_t *runs_of(const EchTrace *trace)
{
    size_t n = ech_trace_n_ops(trace);
    const EchOp *ops = ech_trace_ops(trace);
    uint64_t *runs = g_new(uint64_t, n + 1);
    for (size_t i = 0; i <= n; i++)
        runs[i] = 1;
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; ops[i].kind == ECH_OP_LOOP && k <= i + ops[i].target && k < n; k++)
            runs[k] = ech_bytes_mul(runs[k], ops[i].bytes);
    return runs;
}

/* The whole run first, then its kernels, longest first; NULL and 0 where there is none. Free with g_free. */
static StallRow *stall_rows(const EchReport *report, size_t *ret_n)
{
    *ret_n = 0;
    EchStationaryModel stationary;
    if (ech_stationary_model_init(&stationary, report->device)) /* counters of its own */
        return NULL;
    g_autofree EchKernelInside *insides = ech_report_kernel_insides(report);
    if (!insides)
        return stalls_of_trace(report, ret_n);
    g_autofree uint64_t *runs = runs_of(report->trace);
    g_autoptr(GArray) rows = g_array_new(FALSE, TRUE, sizeof(StallRow));
    StallRow whole = {.runs = 1};
    g_array_append_val(rows, whole);
    const EchOp *ops = ech_trace_ops(report->trace);
    for (size_t i = 0; i < ech_trace_n_ops(report->trace); i++) {
        if (ech_stalls_total(&insides[i].stalls) == 0)
            continue;
        StallRow row = {.name = ech_trace_string(report->trace, ops[i].name), .runs = runs[i], .vmem = insides[i].vmem};
        row.time = times(report->run->prices[i].alone, row.runs);
        ech_stalls_add(&row.stalls, &insides[i].stalls, row.time);
        StallRow *all = &g_array_index(rows, StallRow, 0);
        all->time = ech_time_add(all->time, row.time);
        for (unsigned k = 0; k < ECH_N_STALLS; k++)
            all->stalls.at[k] = ech_time_add(all->stalls.at[k], row.stalls.at[k]);
        g_array_append_val(rows, row);
    }
    if (rows->len < 2)
        return NULL;
    *ret_n = rows->len;
    StallRow *found = (StallRow *)(void *)g_array_steal(rows, NULL);
    qsort(found + 1, *ret_n - 1, sizeof *found, compare_rows);
    return found;
}

static double percent(EchTime part, EchTime whole)
{
    return whole > 0 ? 100 * (double)part / (double)whole : 0;
}

void ech_report_append_stalls(GString *out, const EchReport *report, unsigned columns)
{
    size_t n;
    g_autofree StallRow *rows = stall_rows(report, &n);
    if (n == 0 || rows[0].time == 0)
        return;
    g_autofree char *all = ech_format_time(rows[0].time);
    g_string_append_printf(out, "\n  Inside the kernels, tile by tile: %s of them\n", all);
    bool link = rows[0].stalls.at[ECH_STALL_LINK] > 0;
    g_string_append_printf(out, "                             compute    hbm  space   vmem  latency   fill   step%s\n", link ? "   link" : "");
    for (size_t i = 0; i < MIN(n, 6u); i++) {
        g_autofree char *time = ech_format_time(rows[i].time);
        const EchTime *at = rows[i].stalls.at;
        g_string_append(out, "    ");
        ech_text_cell(out, rows[i].name ? rows[i].name : "all", 16);
        g_string_append_printf(out, "%9s  %5.1f %6.1f %6.1f %6.1f   %6.1f %6.1f %6.1f", time, percent(at[ECH_STALL_COMPUTE], rows[i].time),
                               percent(at[ECH_STALL_HBM], rows[i].time), percent(at[ECH_STALL_SPACE], rows[i].time), percent(at[ECH_STALL_PORT], rows[i].time),
                               percent(at[ECH_STALL_LATENCY], rows[i].time), percent(at[ECH_STALL_FILL], rows[i].time),
                               percent(at[ECH_STALL_OVERHEAD], rows[i].time));
        if (link)
            g_string_append_printf(out, " %6.1f", percent(at[ECH_STALL_LINK], rows[i].time));
        g_string_append_c(out, '\n');
    }
    g_autofree char *note =
        g_strdup_printf("(per cent of a kernel's time: working; waiting for bytes, for bytes again for want of room on chip, for the on-chip "
                        "port, for a copy's latency; first fetch and last store; cost of grid steps%s)",
                        link ? "; waiting for bytes that it sends to other devices" : "");
    ech_text_wrap(out, "    ", note, columns);
}

static void add_row(JsonBuilder *b, const StallRow *row)
{
    json_builder_begin_object(b);
    if (row->name) {
        ech_json_add_text(b, "name", row->name);
    }
    ech_json_add_int(b, "time_ps", row->time);
    ech_json_add_count(b, "runs", row->runs);
    for (unsigned i = 0; i < ECH_N_STALLS; i++) {
        g_autofree char *name = g_strdup_printf("%s_ps", ech_stall_name((EchStall)i));
        ech_json_add_int(b, name, row->stalls.at[i]);
    }
    if (row->vmem > 0) {
        ech_json_add_count(b, "vmem_bytes", row->vmem);
    }
    json_builder_end_object(b);
}

void ech_report_build_stalls(JsonBuilder *b, const EchReport *report)
{
    size_t n;
    g_autofree StallRow *rows = stall_rows(report, &n);
    if (n == 0)
        return;
    ech_json_begin_array(b, "kernel_stalls");
    for (size_t i = 0; i < n; i++)
        add_row(b, &rows[i]);
    json_builder_end_array(b);
}
