#include "sim/report/devices.h"

#include "sim/report/explain.h"
#include "sim/report/json_out.h"
#include "sim/report/steps.h"
#include "sim/trace/select.h"

#include <string.h>

static EchBytes needed_of(const EchReport *report, const char *memory, EchBytes *ret_available)
{
    size_t n;
    g_autofree EchMemoryUse *uses = ech_report_uses(report, &n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(uses[i].memory, memory) == 0) {
            *ret_available = uses[i].available;
            return uses[i].bytes;
        }
    return 0;
}

size_t ech_report_fullest_device(const EchReport *reports, size_t n)
{
    size_t best = 0;
    EchBytes most = 0, available;
    bool fits = true;
    for (size_t i = 0; i < n; i++) {
        const bool its = ech_report_fits(&reports[i]);
        const EchBytes bytes = needed_of(&reports[i], "hbm", &available);
        if (i > 0 && (its > fits || (its == fits && bytes <= most)))
            continue;
        best = i;
        most = bytes;
        fits = its;
    }
    return best;
}

/* Of the whole: as many as all of them have come to the end of. */
static JsonNode *steps_of(const EchReport *reports, size_t n, size_t main)
{
    g_autofree EchStep **steps = g_new0(EchStep *, n);
    g_autofree size_t *counts = g_new0(size_t, n);
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        steps[i] = ech_report_steps(&reports[i], &counts[i]);
        least = MIN(least, counts[i]);
    }
    g_autoptr(JsonBuilder) b = json_builder_new();
    json_builder_begin_array(b);
    EchTime before = 0;
    for (size_t s = 0; s < least; s++) {
        EchTime start = ECH_TIME_MAX, end = 0;
        EchBytes peak = 0;
        uint64_t kernels = 0;
        for (size_t i = 0; i < n; i++) {
            start = MIN(start, steps[i][s].start);
            end = MAX(end, steps[i][s].end);
            peak = MAX(peak, steps[i][s].peak);
            kernels += steps[i][s].kernels;
        }
        start = s > 0 ? before : start;
        before = MAX(end, start);
        json_builder_begin_object(b);
        ech_json_add_text(b, "name", steps[main][s].name);
        if (steps[main][s].others)
            ech_json_add_bool(b, "of_several_optimizers", true);
        ech_json_add_int(b, "start_ps", start);
        ech_json_add_int(b, "duration_ps", before - start);
        ech_json_add_count(b, "kernels", kernels);
        if (peak > 0)
            ech_json_add_count(b, "peak_live_bytes", peak);
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
    for (size_t i = 0; i < n; i++)
        g_free(steps[i]);
    return least > 0 ? json_builder_get_root(b) : NULL;
}

/* Each has what of the host's is its own. */
static void add_needs(JsonObject *whole, const EchReport *reports, size_t n)
{
    static const char *const memories[] = {"host", "pageable"};
    JsonObject *needs = ech_member_object(whole, "needs");
    for (size_t m = 0; needs && m < G_N_ELEMENTS(memories); m++) {
        EchBytes bytes = 0, available = 0;
        for (size_t i = 0; i < n; i++)
            bytes = ech_bytes_add(bytes, needed_of(&reports[i], memories[m], &available));
        if (bytes == 0)
            continue;
        JsonObject *need = json_object_new();
        json_object_set_int_member(need, "bytes", (gint64)MIN(bytes, (EchBytes)INT64_MAX));
        json_object_set_int_member(need, "available_bytes", (gint64)MIN(available, (EchBytes)INT64_MAX));
        json_object_set_boolean_member(need, "fits", bytes <= available);
        json_object_set_boolean_member(need, "planned", FALSE);
        json_object_set_object_member(needs, memories[m], need);
    }
}

/* Of a remark that says that a pass left something as it is how much tells which. */
static size_t left_length(const char *remark)
{
    const char *left = strstr(remark, ": left the "), *is = left ? strstr(left, "as it is") : NULL;
    return is ? (size_t)(is - remark) : 0;
}

static bool has_remark(const EchReport *report, const char *remark)
{
    const EchDiag *const diags[] = {report->import_diag, report->pass_diag, report->run->diag};
    const size_t n = left_length(remark);
    for (size_t d = 0; d < G_N_ELEMENTS(diags); d++)
        for (const char *const *text = diags[d] ? ech_diag_remarks(diags[d]) : NULL; text && *text; text++)
            if (n > 0 ? strncmp(*text, remark, n) == 0 && left_length(*text) == n : strcmp(*text, remark) == 0)
                return true;
    return false;
}

static bool any_before(const EchReport *reports, size_t n, const char *remark)
{
    bool any = false;
    for (size_t i = 0; i < n && !any; i++)
        any = has_remark(&reports[i], remark);
    return any;
}

/* What any says, once; that a pass did nothing where all say it. */
static JsonArray *remarks_of(const EchReport *reports, size_t n)
{
    JsonArray *all = json_array_new();
    for (size_t i = 0; i < n; i++) {
        const EchDiag *const diags[] = {reports[i].import_diag, reports[i].pass_diag, reports[i].run->diag};
        for (size_t d = 0; d < G_N_ELEMENTS(diags); d++)
            for (const char *const *text = diags[d] ? ech_diag_remarks(diags[d]) : NULL; text && *text; text++) {
                bool told = any_before(reports, i, *text), everywhere = !told;
                for (size_t k = 0; k < n && everywhere && left_length(*text) > 0; k++)
                    everywhere = has_remark(&reports[k], *text);
                if (everywhere)
                    json_array_add_string_element(all, *text);
            }
    }
    return all;
}

static JsonArray *devices_of(const EchReport *reports, size_t n)
{
    JsonArray *devices = json_array_new();
    for (size_t i = 0; i < n; i++) {
        EchBytes available = 0, bytes = needed_of(&reports[i], "hbm", &available);
        JsonObject *device = json_object_new();
        json_object_set_int_member(device, "device", (gint64)ech_trace_number(reports[i].trace, i));
        json_object_set_boolean_member(device, "fits", ech_report_fits(&reports[i]));
        json_object_set_int_member(device, "hbm_bytes", (gint64)bytes);
        json_object_set_int_member(device, "available_bytes", (gint64)available);
        json_array_add_object_element(devices, device);
    }
    return devices;
}

JsonNode *ech_report_devices_json(const EchReport *reports, size_t n)
{
    const size_t main = ech_report_fullest_device(reports, n);
    JsonNode *node = ech_report_json(&reports[main]);
    JsonObject *whole = json_node_get_object(node);
    EchTime makespan = 0;
    bool fits = true, completed = true, ran_out = false;
    for (size_t i = 0; i < n; i++) {
        EchRanOut ran;
        makespan = MAX(makespan, reports[i].run->makespan);
        fits = fits && ech_report_fits(&reports[i]);
        completed = completed && reports[i].run->completed;
        if (ech_report_ran_out(&reports[i], &ran)) {
            g_free(ran.line);
            ran_out = true;
        }
    }
    json_object_set_int_member(whole, "makespan_ps", makespan);
    json_object_set_boolean_member(whole, "fits", fits);
    json_object_set_boolean_member(whole, "completed", completed);
    if (ran_out)
        json_object_set_boolean_member(whole, "ran_out_when_captured", TRUE);
    JsonNode *steps = steps_of(reports, n, main);
    json_object_remove_member(whole, "steps");
    if (steps)
        json_object_set_member(whole, "steps", steps);
    add_needs(whole, reports, n);
    json_object_set_array_member(whole, "remarks", remarks_of(reports, n));
    json_object_set_int_member(whole, "fullest_device", (gint64)ech_trace_number(reports[main].trace, main));
    json_object_set_array_member(whole, "devices", devices_of(reports, n));
    return node;
}
