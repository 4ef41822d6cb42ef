/* A run as JSON: the names of the documentation, in a fixed order. */
#include "models/kernel/gpu.h"
#include "sim/report/counters.h"
#include "sim/report/explain.h"
#include "sim/report/json_out.h"
#include "sim/report/origins.h"
#include "sim/report/padding.h"
#include "sim/report/program_info.h"
#include "sim/report/report.h"
#include "sim/report/stalls.h"
#include "sim/report/steps.h"
#include "sim/report/timeline.h"
#include "sim/report/transfer_waits.h"

#include <string.h>

static void add_texts(JsonBuilder *b, const char *name, const char *const *texts)
{
    ech_json_begin_array(b, name);
    for (; texts && *texts; texts++)
        json_builder_add_string_value(b, *texts);
    json_builder_end_array(b);
}

static void add_waits(JsonBuilder *b, const char *name, const EchTime *waits)
{
    ech_json_begin_object(b, name);
    for (int i = 0; i < ECH_N_WAITS; i++)
        ech_json_add_int(b, ech_wait_name((EchWait)i), waits[i]);
    json_builder_end_object(b);
}

/* What an array of a program holds, and the line that says so. */
static void add_origin(JsonBuilder *b, const char *stack)
{
    g_autofree char *op_name = g_strndup(stack, strcspn(stack, "\n"));
    g_autofree char *source = ech_report_source_line(stack);
    if (*op_name)
        ech_json_add_text(b, "op_name", op_name);
    if (source)
        ech_json_add_text(b, "source", source);
}

static void add_holders(JsonBuilder *b, const EchReport *report, const EchHolder *holders, size_t n, size_t most)
{
    size_t n_groups;
    EchHolderGroup *groups = ech_report_holder_groups(report, holders, n, &n_groups);
    ech_json_begin_array(b, "held_by");
    for (size_t i = 0; i < MIN(n_groups, most); i++) {
        const EchBuffer *buffer = &ech_trace_buffers(report->trace)[groups[i].buffer];
        json_builder_begin_object(b);
        ech_json_add_text(b, "name", groups[i].name);
        ech_json_add_count(b, "bytes", groups[i].bytes);
        ech_json_add_count(b, "buffers", groups[i].buffers);
        ech_json_add_text(b, "role", ech_role_name((EchRole)buffer->role));
        ech_json_add_text(b, "shape", ech_trace_string(report->trace, buffer->shape));
        if (report->program)
            add_origin(b, ech_trace_string(report->trace, buffer->stack));
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
    ech_holder_groups_free(groups, n_groups);
}

static void add_holdings(JsonBuilder *b, const EchReport *report, const EchMemoryRun *memory)
{
    size_t n;
    EchHolding *holdings = ech_report_holdings(report, memory->name, memory->peak_at, &n);
    ech_json_begin_object(b, "holds");
    for (size_t i = 0; i < n; i++) {
        ech_json_begin_object(b, holdings[i].name);
        ech_json_add_count(b, "bytes", holdings[i].bytes);
        ech_json_add_count(b, "buffers", holdings[i].buffers);
        ech_json_begin_array(b, "largest");
        for (size_t k = 0; k < G_N_ELEMENTS(holdings[i].largest) && holdings[i].largest[k] != ECH_NONE; k++) {
            g_autofree char *name = ech_report_buffer_name(report->trace, holdings[i].largest[k]);
            json_builder_add_string_value(b, name);
        }
        json_builder_end_array(b);
        json_builder_end_object(b);
    }
    json_builder_end_object(b);
    ech_holdings_free(holdings, n);
}

static void add_times(JsonBuilder *b, const EchReport *report, const char *member, const EchNameTime *times, size_t n)
{
    ech_json_begin_array(b, member);
    for (size_t i = 0; i < n; i++) {
        json_builder_begin_object(b);
        ech_json_add_text(b, "name", times[i].name);
        if (times[i].n_alike > 1)
            ech_json_add_count(b, "names_alike", times[i].n_alike);
        ech_json_add_text(b, "kind", ech_op_kind_name(times[i].kind));
        ech_json_add_int(b, "time_ps", times[i].time);
        ech_json_add_count(b, "times", times[i].count);
        ech_json_add_text(b, "priced_by", ech_price_name(times[i].price));
        if (times[i].kernel_class)
            ech_json_add_text(b, "kernel_class", ech_gpu_class_name((EchGpuClass)times[i].kernel_class));
        if (times[i].kernel_class || times[i].price == ECH_PRICE_CODE)
            ech_json_add_text(b, "bound_by", ech_gpu_bound_name((EchGpuBound)times[i].kernel_bound));
        if (report->program || (times[i].kind == ECH_OP_KERNEL && times[i].one_asker && strstr(times[i].stack, ".py:")))
            add_origin(b, times[i].stack);
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
}

static void add_longest(JsonBuilder *b, const EchReport *report)
{
    enum { MOST = 16 };
    size_t n, n_alike;
    g_autofree EchNameTime *times = ech_report_longest(report, SIZE_MAX, &n), *alike = ech_report_longest_alike(times, n, MOST, &n_alike);
    add_times(b, report, "longest", times, MIN(n, (size_t)MOST));
    for (size_t i = 0; i < n_alike; i++) {
        if (alike[i].n_alike > 1) {
            add_times(b, report, "longest_alike", alike, n_alike);
            break;
        }
    }
}

static void add_memories(JsonBuilder *b, const EchReport *report)
{
    const EchRun *run = report->run;
    ech_json_begin_object(b, "memories");
    for (size_t i = 0; i < run->n_memories; i++) {
        const EchMemoryRun *m = &run->memories[i];
        ech_json_begin_object(b, m->name);
        ech_json_add_count(b, "capacity_bytes", m->capacity);
        ech_json_add_count(b, "available_bytes", m->available);
        ech_json_add_count(b, "context_bytes", m->context);
        if (m->on_device)
            ech_json_add_count(b, "on_device_bytes", m->on_device);
        if (ech_report_untold(m))
            ech_json_add_count(b, "untold_parts_bytes", ech_report_untold(m));
        if (m->managed)
            ech_json_add_count(b, "managed_bytes", m->managed);
        if (m->peak_together)
            ech_json_add_count(b, "peak_with_host_bytes", m->peak_together);
        if (m->on_device || m->managed) {
            ech_json_add_count(b, "paged_in_bytes", m->paged_in);
            ech_json_add_count(b, "paged_out_bytes", m->paged_out);
        }
        ech_json_add_count(b, "peak_live_bytes", m->peak_live);
        ech_json_add_int(b, "peak_at_ps", m->peak_at);
        ech_json_add_count(b, "peak_reserved_bytes", m->peak_reserved);
        ech_json_add_count(b, "allocator_reserved_bytes", m->alloc.peak_reserved);
        ech_json_add_count(b, "direct_bytes", m->alloc.peak_direct);
        ech_json_add_count(b, "end_live_bytes", m->end_live);
        ech_json_add_count(b, "planned_bytes", m->fixed_extent);
        ech_json_add_double(b, "fragmentation", m->fragmentation);
        ech_json_add_count(b, "traffic_read_bytes", m->read);
        ech_json_add_count(b, "traffic_written_bytes", m->written);
        if (m->cached > 0)
            ech_json_add_count(b, "traffic_cached_bytes", m->cached);
        ech_json_add_int(b, "busy_ps", m->busy);
        ech_json_add_double(b, "utilisation", run->makespan > 0 ? (double)m->busy / (double)run->makespan : 0);
        ech_json_add_count(b, "allocs", m->allocs);
        ech_json_add_count(b, "frees", m->frees);
        ech_json_add_count(b, "failed", m->failed);
        ech_json_add_text(b, "allocator", m->allocator);
        if (report->recorded.allocator && strcmp(m->name, "hbm") == 0) {
            ech_json_add_bool(b, "allocator_recorded", true);
            ech_json_add_count(b, "recorded_reserved_bytes", report->recorded.peak);
        }
        size_t n;
        g_autofree EchHolder *holders = ech_report_holders(report, m->name, m->peak_at, &n);
        add_holders(b, report, holders, n, 8);
        add_holdings(b, report, m);
        EchWindows windows = ech_report_windows(report, m->name);
        if (windows.kept > 0 || windows.kernels > 0) {
            ech_json_begin_object(b, "windows");
            ech_json_add_count(b, "kept_bytes", windows.kept);
            ech_json_add_count(b, "most_bytes", windows.most);
            ech_json_add_text(b, "kernel", windows.kernel);
            ech_json_add_count(b, "kernels", windows.kernels);
            ech_json_add_count(b, "spilled_bytes", windows.spilled);
            json_builder_end_object(b);
        }
        g_autoptr(EchPadding) padding = ech_padding_new(report->trace, m->name, run, m->peak_at);
        if (padding->bytes > 0) {
            json_builder_set_member_name(b, "padding");
            ech_padding_json(b, report->trace, padding, 8);
        }
        json_builder_end_object(b);
    }
    json_builder_end_object(b);
}

static void add_fit(JsonBuilder *b, const EchReport *report)
{
    ech_json_add_bool(b, "fits", ech_report_fits(report));
    if (ech_report_may_need(report)) {
        ech_json_add_bool(b, "may_fit", true);
        ech_json_add_count(b, "may_need_hbm_bytes", ech_report_may_need(report)); /* more than there is */
    }
    if (ech_report_fetched_early(report))
        ech_json_add_count(b, "fetched_early_bytes", ech_report_fetched_early(report));
    if (ech_report_brought_first(report))
        ech_json_add_count(b, "brought_first_bytes", ech_report_brought_first(report));
    if (ech_report_again_at_once(report))
        ech_json_add_count(b, "again_at_once_bytes", ech_report_again_at_once(report));
    EchRanOut ran_out;
    if (ech_report_ran_out(report, &ran_out)) {
        g_free(ran_out.line);
        ech_json_add_bool(b, "ran_out_when_captured", true);
    }
    g_autofree char *went_on = ech_report_went_on(report);
    if (went_on)
        ech_json_add_text(b, "went_on_when_captured", went_on);
    g_autofree char *recorded = ech_report_refused_when_recorded(report);
    if (recorded)
        ech_json_add_text(b, "refused_when_recorded", recorded);
    if (ech_trace_get_property(report->trace, ECH_TRACE_WITH))
        ech_json_add_text(b, "captured_with", ech_trace_get_property(report->trace, ECH_TRACE_WITH));
    if (report->goal > 0)
        ech_json_add_count(b, "asked_hbm_bytes", report->goal);
    if (report->refusal)
        ech_json_add_text(b, "refused", report->refusal);
    EchCrowded crowded;
    if (ech_report_crowded(report, &crowded)) {
        ech_json_begin_object(b, "crowded");
        ech_json_add_text(b, "kernel", report->program->instructions[crowded.instruction].name);
        ech_json_add_count(b, "kept_bytes", crowded.kept);
        ech_json_add_count(b, "limit_bytes", crowded.limit);
        json_builder_end_object(b);
    }
    size_t n;
    g_autofree EchMemoryUse *uses = ech_report_uses(report, &n);
    ech_json_begin_object(b, "needs");
    for (size_t i = 0; i < n; i++) {
        ech_json_begin_object(b, uses[i].memory);
        ech_json_add_count(b, "bytes", uses[i].bytes);
        ech_json_add_count(b, "available_bytes", uses[i].available);
        ech_json_add_bool(b, "fits", uses[i].fits);
        ech_json_add_bool(b, "planned", uses[i].planned);
        json_builder_end_object(b);
    }
    json_builder_end_object(b);
    if (report->run->fits)
        return;
    const EchFailure *f = &report->run->failure;
    ech_json_begin_object(b, "failure");
    ech_json_add_text(b, "memory", f->memory);
    if (f->op != ECH_NONE)
        ech_json_add_text(b, "op", ech_trace_string(report->trace, ech_trace_ops(report->trace)[f->op].name));
    if (f->buffer != ECH_NONE) {
        g_autofree char *name = ech_report_buffer_name(report->trace, f->buffer);
        ech_json_add_text(b, "buffer", name);
    }
    ech_json_add_int(b, "time_ps", f->time);
    if (ech_report_failed_before(report))
        ech_json_add_bool(b, "before_the_step", true);
    ech_json_add_count(b, "asked_bytes", f->asked);
    ech_json_add_count(b, "live_bytes", f->live);
    ech_json_add_count(b, "reserved_bytes", f->reserved);
    ech_json_add_count(b, "limit_bytes", f->limit);
    if (f->elsewhere)
        ech_json_add_count(b, "other_processes_bytes", f->elsewhere);
    if (f->direct)
        ech_json_add_count(b, "direct_bytes", f->direct);
    if (f->kept)
        ech_json_add_count(b, "kept_bytes", f->kept);
    ech_json_add_text(b, "reason", f->fit == ECH_FIT_FRAGMENTED ? "fragmented" : "full");
    size_t n_live;
    g_autofree EchHolder *holders = ech_report_failure_holders(report, &n_live);
    add_holders(b, report, holders, n_live, 16);
    json_builder_end_object(b);
}

static void add_remarks(JsonBuilder *b, const EchReport *report)
{
    const EchDiag *const diags[] = {report->import_diag, report->pass_diag, report->run->diag};
    ech_json_begin_array(b, "remarks");
    for (size_t i = 0; i < G_N_ELEMENTS(diags); i++) {
        for (const char *const *remark = diags[i] ? ech_diag_remarks(diags[i]) : NULL; remark && *remark; remark++)
            json_builder_add_string_value(b, *remark);
    }
    json_builder_end_array(b);
    ech_json_begin_object(b, "counters");
    for (size_t i = 0; i < G_N_ELEMENTS(diags); i++) {
        size_t n = 0;
        const EchDiagRow *rows = diags[i] ? ech_diag_rows(diags[i], &n) : NULL;
        for (size_t j = 0; j < n; j++)
            ech_json_add_count(b, rows[j].name, rows[j].count);
    }
    json_builder_end_object(b);
}

static void add_provenance(JsonBuilder *b, const EchReport *report)
{
    const EchProvenance *p = &report->run->provenance;
    ech_json_begin_object(b, "provenance");
    ech_json_add_text(b, "echelon", ECH_VERSION);
    ech_json_add_text(b, "engine", p->engine);
    ech_json_add_text(b, "engine_version", p->engine_version);
    ech_json_add_text(b, "trace", report->trace_path);
    ech_json_add_text(b, "format", report->format);
    ech_json_add_text(b, "device", report->device->name);
    g_autofree char *trace_hash = g_strdup_printf("%016" G_GINT64_MODIFIER "x", p->trace_hash);
    g_autofree char *device_hash = g_strdup_printf("%016" G_GINT64_MODIFIER "x", p->device_hash);
    ech_json_add_text(b, "trace_hash", trace_hash);
    ech_json_add_text(b, "device_hash", device_hash);
    ech_json_add_text(b, "options", p->options);
    add_texts(b, "passes", report->passes);
    add_texts(b, "settings", report->settings);
    ech_json_begin_object(b, "kernels_priced_by");
    for (int i = 0; i < ECH_N_PRICES; i++) {
        if (p->kernels[i])
            ech_json_add_count(b, ech_price_name((EchPriceSource)i), p->kernels[i]);
    }
    json_builder_end_object(b);
    ech_json_add_count(b, "ops_executed", p->executed);
    ech_json_add_count(b, "engine_events", p->events);
    json_builder_end_object(b);
}

/* What the changes were worth. */
static void add_without_changes(JsonBuilder *b, const EchReport *report)
{
    if (!report->plain)
        return;
    g_autoptr(GPtrArray) why = ech_report_changes(report);
    g_ptr_array_add(why, NULL);
    ech_json_begin_object(b, "without_changes");
    ech_json_add_int(b, "makespan_ps", ech_member_int(report->plain, "makespan_ps"));
    ech_json_add_bool(b, "fits", ech_member_bool(report->plain, "fits"));
    add_texts(b, "why", (const char *const *)why->pdata);
    json_builder_end_object(b);
}

static void add_critical_path(JsonBuilder *b, const EchReport *report)
{
    size_t n;
    EchShare *shares = ech_report_critical_path(report, &n);
    ech_json_begin_object(b, "critical_path");
    for (size_t i = 0; i < n; i++)
        ech_json_add_int(b, shares[i].name, shares[i].time);
    json_builder_end_object(b);
    ech_json_add_text(b, "bound_by", n ? shares[0].name : "nothing");
    ech_shares_free(shares, n);
}

static void add_links(JsonBuilder *b, const EchReport *report)
{
    ech_json_begin_object(b, "links");
    for (size_t i = 0; i < report->run->n_links; i++) {
        const EchLinkRun *l = &report->run->links[i];
        ech_json_begin_object(b, l->name);
        ech_json_add_bool(b, "peers", ech_report_link_peers(report->device, l->name));
        ech_json_add_count(b, "bytes_forward", l->forward);
        ech_json_add_count(b, "bytes_backward", l->backward);
        ech_json_add_int(b, "busy_forward_ps", l->busy_forward);
        ech_json_add_int(b, "busy_backward_ps", l->busy_backward);
        ech_json_add_int(b, "busy_ps", l->busy);
        ech_json_add_double(b, "utilisation", l->utilisation);
        ech_json_add_count(b, "transfers", l->transfers);
        json_builder_end_object(b);
    }
    json_builder_end_object(b);
}

static void add_units(JsonBuilder *b, const EchRun *run)
{
    ech_json_begin_object(b, "units");
    for (size_t i = 0; i < run->n_units; i++) {
        const EchUnitRun *u = &run->units[i];
        ech_json_begin_object(b, u->name);
        ech_json_add_int(b, "busy_ps", u->busy);
        ech_json_add_double(b, "utilisation", u->utilisation);
        ech_json_add_double(b, "flops", u->flops);
        json_builder_end_object(b);
    }
    json_builder_end_object(b);
}

static void add_queues(JsonBuilder *b, const EchReport *report)
{
    ech_json_begin_object(b, "queues");
    for (size_t i = 0; i < report->run->n_queues; i++) {
        const EchQueueRun *q = &report->run->queues[i];
        g_autofree char *name = ech_report_queue_name(report->trace, q->queue);
        ech_json_begin_object(b, name);
        ech_json_add_int(b, "busy_ps", q->busy);
        ech_json_add_count(b, "ops", q->ops);
        add_waits(b, "waits", q->waits);
        json_builder_end_object(b);
    }
    json_builder_end_object(b);
}

JsonNode *ech_report_json(const EchReport *report)
{
    const EchRun *run = report->run;
    g_autoptr(JsonBuilder) b = json_builder_new();
    json_builder_begin_object(b);
    ech_json_add_text(b, "title", report->title);
    ech_json_add_int(b, "makespan_ps", run->makespan);
    ech_json_add_int(b, "lower_bound_ps", run->lower_bound);
    ech_json_add_int(b, "serial_ps", run->serial);
    ech_json_add_count(b, "ops", run->ops);
    ech_json_add_bool(b, "completed", run->completed);
    add_without_changes(b, report);
    add_fit(b, report);
    add_critical_path(b, report);
    add_memories(b, report);
    add_links(b, report);
    add_units(b, run);
    add_queues(b, report);
    add_waits(b, "waits", run->waits);
    ech_report_build_steps(b, report);
    ech_report_build_askers(b, report);
    add_longest(b, report);
    EchBasis basis;
    if (ech_report_basis(report, &basis))
        ech_report_add_basis(b, &basis);
    if (report->device->unmeasured)
        ech_json_add_text(b, "rates_unmeasured", report->device->unmeasured);
    ech_report_build_counters(b, report);
    if (!report->brief) {
        ech_report_build_stalls(b, report);
        ech_report_build_transfer_waits(b, report);
    }
    EchMemoryAnalysis exported;
    if (report->program)
        ech_report_memory_analysis(b, report->program);
    else if (ech_report_memory_needs(report, &exported))
        ech_report_memory_figures(b, &exported);
    add_remarks(b, report);
    add_provenance(b, report);
    json_builder_end_object(b);
    return json_builder_get_root(b);
}
