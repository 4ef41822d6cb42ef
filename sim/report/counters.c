/* Hardware counters of a chip with stationary weights. */
#include "sim/report/counters.h"

#include "sim/program/price_stationary.h"
#include "sim/report/json_out.h"
#include "sim/report/text.h"

#include <string.h>

static bool read_counter(const EchTrace *trace, const char *name, double *ret)
{
    g_autofree char *key = g_strconcat(ECH_STATIONARY_PROPERTY, name, NULL);
    const char *text = ech_trace_get_property(trace, key);
    if (text == NULL)
        return false;
    *ret = g_ascii_strtod(text, NULL);
    return true;
}

bool ech_report_counters(const EchReport *report, EchStationaryCounters *ret, double *ret_clock_hz)
{
    EchStationaryCounters c = {0};
    double clock = 0;
    struct {
        const char *name;
        double *value;
    } counters[] = {
        {"cycles", &c.cycles},
        {"array_active", &c.active},
        {"useful_macs", &c.useful},
        {"weight_stall", &c.weight_stall},
        {"weight_shift", &c.weight_shift},
        {"non_matrix", &c.non_matrix},
        {"dependency_stall", &c.dependency},
        {"input_stall", &c.input},
        {"macs", &c.macs},
        {"tiles", &c.tiles},
        {"weight_bytes", &c.weight_bytes},
        {"clock_hz", &clock},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(counters); i++)
        if (!read_counter(report->trace, counters[i].name, counters[i].value))
            return false;
    if (!(c.cycles > 0) || !(clock > 0))
        return false;
    *ret = c;
    *ret_clock_hz = clock;
    return true;
}

/* *ret -1 where it was not. */
static bool read_measured(const EchTrace *trace, const char *key, double *ret)
{
    g_autofree char *name = g_strconcat(&ECH_STATIONARY_MEASURED[strlen(ECH_STATIONARY_PROPERTY)], key, NULL);
    bool is = read_counter(trace, name, ret);
    *ret = is ? *ret : -1;
    return is;
}

typedef struct {
    const char *key, *words;
    double cycles;
} Row;

enum { N_ROWS = 8 };

static void rows_of(const EchStationaryCounters *c, Row rows[N_ROWS])
{
    const Row all[N_ROWS] = {
        {"array_active", "array active", c->active},
        {"useful_macs", "  with useful weights", c->useful},
        {"unused_macs", "  with unused cells", c->active - c->useful},
        {"weight_stall", "waiting for weights", c->weight_stall},
        {"weight_shift", "shifting weights in", c->weight_shift},
        {"non_matrix", "no matrix work", c->non_matrix},
        {"dependency_stall", "  of it: for an earlier layer", c->dependency},
        {"input_stall", "  of it: for the host's input", c->input},
    };
    for (size_t i = 0; i < N_ROWS; i++)
        rows[i] = all[i];
}

void ech_report_append_counters(GString *out, const EchReport *report, unsigned columns)
{
    EchStationaryCounters c;
    double clock;
    if (!ech_report_counters(report, &c, &clock))
        return;
    Row rows[N_ROWS];
    rows_of(&c, rows);
    double measured[N_ROWS];
    bool any = false;
    for (size_t i = 0; i < N_ROWS; i++)
        any = read_measured(report->trace, rows[i].key, &measured[i]) || any;
    g_string_append_printf(out, "\n  Counters of the matrix unit, of %.0f cycles%s\n", c.cycles, any ? " (in brackets: measured, the chip as it was)" : "");
    for (size_t i = 0; i < N_ROWS; i++) {
        double share = rows[i].cycles / c.cycles;
        g_string_append_printf(out, "    %-30s %5.1f %%  ", rows[i].words, 100 * share);
        if (any && measured[i] >= 0)
            g_string_append_printf(out, "(%4.1f)  ", measured[i]);
        else if (any)
            g_string_append(out, "        ");
        for (int k = 0; k < 20; k++)
            g_string_append_c(out, k < (int)(share * 20 + 0.5) ? '#' : '.');
        g_string_append_c(out, '\n');
    }
    g_autofree char *weights = ech_format_bytes((EchBytes)c.weight_bytes);
    g_autofree char *note = g_strdup_printf("%.1f TOP/s; %.0f tiles of weights, %s read, %.1f GB/s of weights over the whole run",
                                            2 * c.macs / c.cycles * clock / 1e12, c.tiles, weights, c.weight_bytes / c.cycles * clock / 1e9);
    ech_text_wrap(out, "    ", note, columns);
}

void ech_report_build_counters(JsonBuilder *b, const EchReport *report)
{
    EchStationaryCounters c;
    double clock;
    if (!ech_report_counters(report, &c, &clock))
        return;
    Row rows[N_ROWS];
    rows_of(&c, rows);
    ech_json_begin_object(b, "matrix_counters");
    ech_json_add_int(b, "cycles", (gint64)c.cycles);
    for (size_t i = 0; i < N_ROWS; i++) {
        ech_json_add_double(b, rows[i].key, rows[i].cycles / c.cycles);
    }
    ech_json_begin_object(b, "measured");
    for (size_t i = 0; i < N_ROWS; i++) {
        double measured;
        if (!read_measured(report->trace, rows[i].key, &measured))
            continue;
        ech_json_add_double(b, rows[i].key, measured / 100);
    }
    json_builder_end_object(b);
    ech_json_add_double(b, "ops_per_second", 2 * c.macs / c.cycles * clock);
    ech_json_add_int(b, "tiles", (gint64)c.tiles);
    ech_json_add_int(b, "weight_bytes", (gint64)c.weight_bytes);
    json_builder_end_object(b);
}
