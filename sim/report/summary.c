/* The terminal summary: whether it fits, how long, what bounds it, then the tables. */
#include "models/kernel/gpu.h"
#include "models/memory/onchip.h"
#include "sim/report/counters.h"
#include "sim/report/explain.h"
#include "sim/report/origins.h"
#include "sim/report/padding.h"
#include "sim/report/report.h"
#include "sim/report/stalls.h"
#include "sim/report/steps.h"
#include "sim/report/text.h"
#include "sim/trace/select.h"
#include "sim/report/transfer_waits.h"
#include "sim/trace/allocator_marks.h"

#include <math.h>
#include <string.h>

enum { BAR = 20, LEAST_BAR = 5, LABEL = 26, SHARE_COLUMNS = 4 + 1 + 10 + 2 + 7 /* Indent, value, share. */ };

/* Rows of a name, a value and its share of a whole. */
typedef struct {
    char *label, *value, *note;
    double share;
} ShareRow;

static void share_row_clear(gpointer data)
{
    ShareRow *row = data;
    g_free(row->label);
    g_free(row->value);
    g_free(row->note);
}

static GArray *share_rows_new(void)
{
    GArray *rows = g_array_new(FALSE, FALSE, sizeof(ShareRow));
    g_array_set_clear_func(rows, share_row_clear);
    return rows;
}

/* Takes @value and @note (or NULL). */
static void add_share(GArray *rows, const char *label, char *value, double share, char *note)
{
    ShareRow row = {g_strdup(label), value, note, share};
    g_array_append_val(rows, row);
}

/* Notes come before bars: those are as long as there is room. */
static void append_shares(GString *out, const GArray *rows, unsigned columns)
{
    const unsigned wrapped = columns; /* 0: notes stay on their line */
    columns = columns ? columns : ECH_TEXT_COLUMNS;
    int label = 0, note = 0;
    for (guint i = 0; i < rows->len; i++) {
        const ShareRow *row = &g_array_index(rows, ShareRow, i);
        label = MAX(label, ech_text_width(row->label));
        note = MAX(note, row->note ? ech_text_width(row->note) + 2 : 0);
    }
    const int fixed = SHARE_COLUMNS;
    int room = (int)columns - fixed - note - 1 - BAR;
    if (label < LABEL && room >= LABEL)
        label = LABEL;
    label = MIN(label, MAX(room, (int)LABEL));
    int bar = MIN((int)BAR, (int)columns - fixed - label - 1 - note);
    for (guint i = 0; i < rows->len; i++) {
        const ShareRow *row = &g_array_index(rows, ShareRow, i);
        g_autoptr(GString) line = g_string_new("    ");
        ech_text_cell(line, row->label, label);
        g_string_append_printf(line, bar >= LEAST_BAR ? " %10s  %5.1f %%" : "%10s %5.1f %%", row->value, row->share * 100);
        int filled = (int)(CLAMP(row->share, 0, 1) * bar + 0.5);
        for (int k = 0; bar >= LEAST_BAR && k < bar; k++)
            g_string_append_printf(line, "%s%c", k ? "" : " ", k < filled ? '#' : '.');
        bool noted = row->note && *row->note;
        if (noted)
            g_string_append(line, "  ");
        ech_text_wrap(out, line->str, noted ? row->note : "", wrapped);
    }
}

static double ratio(EchTime part, EchTime whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

/* Shape, padding and place in the source of a buffer, as far as there is room: dimensions first, then the line, the layout and the operation's name. */
static void append_holder_notes(GString *out, const EchReport *report, const EchBuffer *buffer, const char *name, int room)
{
    const char *shape = ech_trace_string(report->trace, buffer->shape), *frames = report->program ? ech_trace_string(report->trace, buffer->stack) : "";
    g_autofree char *stack = g_strndup(frames, strcspn(frames, "\n")), *source = ech_report_source_line(frames);
    gsize start = out->len;
    int line = source ? ech_text_width(source) + 2 : 0;
    g_autofree char *padding = buffer->dense > 0 && buffer->dense < buffer->bytes - buffer->bytes / 100
                                   ? g_strdup_printf(", %.0f %% padding", 100 * (double)(buffer->bytes - buffer->dense) / (double)buffer->bytes)
                                   : g_strdup("");
    int left = room - ech_text_width(padding) - 2;
    if (*shape && !strstr(name, shape) && left >= 8) {
        /* Dimensions say more than the layout behind them. */
        g_autofree char *dims = g_strndup(shape, strcspn(shape, "{"));
        g_string_append(out, "  ");
        if (ech_text_width(shape) + line <= left)
            g_string_append(out, shape);
        else
            ech_text_cell(out, dims, MIN(left, ech_text_width(dims)));
    }
    if (room > ech_text_width(padding))
        g_string_append(out, padding);
    left = room - (int)(out->len - start);
    if (source && line <= left) {
        g_string_append_printf(out, "  %s", source);
        left -= line;
    }
    /* Where the program's source says it comes from: the end of the path tells most. */
    left -= 2;
    if (*stack && !strstr(name, stack) && left >= 16 && g_str_is_ascii(stack)) {
        int length = ech_text_width(stack);
        g_string_append_printf(out, "  %s%s", length > left ? "..." : "", stack + (length > left ? length - left + 3 : 0));
    }
}

/* Columns that dimensions and line of a buffer take beside its name. */
static int notes_width(const EchReport *report, const EchBuffer *buffer, const char *name)
{
    const char *shape = ech_trace_string(report->trace, buffer->shape), *frames = report->program ? ech_trace_string(report->trace, buffer->stack) : "";
    g_autofree char *source = ech_report_source_line(frames);
    return (*shape && !strstr(name, shape) ? (int)strcspn(shape, "{") + 2 : 0) + (source ? ech_text_width(source) + 2 : 0);
}

static void append_holders(GString *out, const EchReport *report, const EchHolder *holders, size_t n, size_t most, const char *indent, unsigned columns)
{
    enum { NOTES = 44 /* Of a line, at most kept for what is said beside long names. */ };
    size_t n_rows;
    EchHolderGroup *rows = ech_report_holder_groups(report, holders, n, &n_rows);
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    int name_width = 0, role_width = 0, notes = 0, most_columns = (int)(columns ? columns : ECH_TEXT_COLUMNS);
    for (size_t i = 0; i < MIN(n_rows, most); i++) {
        const EchBuffer *buffer = &ech_trace_buffers(report->trace)[rows[i].buffer];
        g_ptr_array_add(names,
                        rows[i].buffers > 1 ? g_strdup_printf("%s, %" G_GUINT64_FORMAT " of them", rows[i].name, rows[i].buffers) : g_strdup(rows[i].name));
        name_width = MAX(name_width, ech_text_width(names->pdata[i]));
        notes = MAX(notes, notes_width(report, buffer, names->pdata[i]));
        role_width = MAX(role_width, buffer->role != ECH_ROLE_UNKNOWN ? ech_text_width(ech_role_name((EchRole)buffer->role)) : 0);
    }
    int fixed = ech_text_width(indent) + 12;
    name_width = CLAMP(name_width, 5, MAX(most_columns - fixed - role_width - 2 - MIN(notes, (int)NOTES), 24));
    for (size_t i = 0; i < MIN(n_rows, most); i++) {
        const EchBuffer *buffer = &ech_trace_buffers(report->trace)[rows[i].buffer];
        g_autofree char *bytes = ech_format_bytes(rows[i].bytes);
        g_string_append_printf(out, "%s%10s  ", indent, bytes);
        ech_text_cell(out, names->pdata[i], name_width);
        if (role_width)
            g_string_append_printf(out, "  %-*s", role_width, buffer->role != ECH_ROLE_UNKNOWN ? ech_role_name((EchRole)buffer->role) : "");
        append_holder_notes(out, report, buffer, names->pdata[i], most_columns - fixed - name_width - (role_width ? role_width + 2 : 0));
        while (out->len && out->str[out->len - 1] == ' ')
            g_string_truncate(out, out->len - 1);
        g_string_append_c(out, '\n');
    }
    if (n_rows > most) {
        EchBytes rest = 0;
        for (size_t i = most; i < n_rows; i++)
            rest = ech_bytes_add(rest, rows[i].bytes);
        g_autofree char *bytes = ech_format_bytes(rest);
        g_string_append_printf(out, "%s%10s  in %zu more\n", indent, bytes, n_rows - most);
    }
    ech_holder_groups_free(rows, n_rows);
    g_autofree char *parts = ech_report_parts(report, holders, n);
    if (parts) {
        g_autofree char *in = g_strconcat(indent, "  ", NULL), *text = g_strdup_printf("(weights, by who uses them: %s)", parts);
        ech_text_wrap(out, in, text, columns);
    }
}

/* What lies in an on-chip memory was decided for the chip that the program was compiled for. */
static void append_place_advice(GString *out, const EchReport *report, const EchMemoryRun *memory, unsigned columns)
{
    const EchMemory *of = ech_device_memory(report->device, memory->name);
    bool on_chip = of && (of->kind == ECH_MEM_VECTOR || of->kind == ECH_MEM_COMMON);
    for (const char *const *pass = report->passes; pass && *pass; pass++)
        on_chip = on_chip && !g_str_has_prefix(*pass, "place");
    if (on_chip && report->program && report->program->platform == ECH_PLATFORM_TPU)
        ech_text_wrap(out, "  ", "A compiler that knew of so little would keep less of it on chip: --pass place decides anew what lies there.", columns);
}

/* A compiler's plan that reaches beyond the memory: the first buffer beyond it is found out late; what fills the plan says more. */
static void append_plan_failure(GString *out, const EchReport *report, const EchMemoryRun *memory, unsigned columns)
{
    const EchFailure *f = &report->run->failure;
    g_autofree char *when = ech_format_time(f->time);
    g_autofree char *limit = ech_format_bytes(f->limit);
    g_autofree char *peak_at = ech_format_time(memory->peak_at);
    g_autofree char *peak = ech_format_bytes(memory->peak_live);
    g_autofree char *name = f->buffer == ECH_NONE ? g_strdup("the plan") : ech_report_buffer_name(report->trace, f->buffer);
    g_autofree char *text = g_strdup_printf("The first whose place lies beyond %s is '%s', at %s. At its fullest, %s into the step, %s would be live:", limit,
                                            name, when, peak_at, peak);
    ech_text_wrap(out, "  ", text, columns);
    size_t n;
    g_autofree EchHolder *holders = ech_report_holders(report, memory->name, memory->peak_at, &n);
    append_holders(out, report, holders, n, 10, "  ", columns);
    g_autoptr(EchPadding) padding = ech_padding_new(report->trace, memory->name, report->run, memory->peak_at);
    ech_padding_text(out, report->trace, padding, 3, "    ", columns);
    append_place_advice(out, report, memory, columns);
}

static void append_refusal(GString *out, const EchReport *report, unsigned columns)
{
    EchCrowded crowded;
    bool is_crowded = ech_report_crowded(report, &crowded);
    if (ech_report_refused(report)) {
        g_autofree char *text = g_strdup_printf("The compiler refused it: %s", report->refusal);
        ech_text_wrap(out, "  ", text, columns);
    }
    if (is_crowded) {
        ech_report_append_crowded(out, report, &crowded, columns);
        return;
    }
    if (!ech_report_refused(report) || !strstr(report->refusal, "vmem"))
        return;
    const EchMemory *memory = ech_device_memory(report->device, "vector");
    g_autofree char *size = memory ? ech_format_bytes(memory->capacity) : NULL;
    g_autofree char *advice = g_strdup_printf(
        "What a kernel keeps on chip for its own windows and scratch has a limit%s%s%s. Smaller blocks or fewer buffers need less; a Pallas kernel may "
        "ask for more (pltpu.CompilerParams(vmem_limit_bytes=...)), XLA's own with --option xla_tpu_scoped_vmem_limit_kib=...",
        size ? ", less than the " : "", size ? size : "", size ? " there are" : "");
    ech_text_wrap(out, "  ", advice, columns);
}

/* " hbm 3 GiB of 16 GiB (19 %), host ...": what is over its size first. */
static void append_uses(GString *text, const EchReport *report, bool fits)
{
    size_t n;
    g_autofree EchMemoryUse *uses = ech_report_uses(report, &n);
    bool said = false;
    for (size_t k = 0; k < 2 * n; k++) {
        const EchMemoryUse *use = &uses[k % n];
        if ((use->bytes > use->available) != (k < n))
            continue;
        g_autofree char *a = ech_format_bytes(use->bytes), *b = ech_format_bytes(use->available);
        bool guessed = fits && use->bytes > use->available; /* by places that are not the compiler's: see "unplaced" among the trace's properties */
        g_string_append_printf(text, "%s %s %s of %s", said ? "," : "", use->memory, a, b);
        if (use->available)
            g_string_append_printf(text, " (%.0f %%%s)", 100 * (double)use->bytes / (double)use->available, guessed ? ", by places of our own" : "");
        said = true;
    }
}

/* What the compiled program needs beyond what there is. */
static void append_excess(GString *out, const EchReport *report, const EchFitRow *row, unsigned columns)
{
    g_autofree char *a = ech_format_bytes(row->needed), *b = ech_format_bytes(row->available), *c = ech_format_bytes(row->needed - row->available);
    g_autofree char *verdict =
        g_strdup_printf("The %s program needs %s of %s, which has %s: %s too much.", row->anew ? "changed" : "compiled", a, row->memory, b, c);
    ech_text_wrap(out, "  ", verdict, columns);
    if (strcmp(row->memory, "hbm") != 0 || row->anew)
        return;
    EchMemoryAnalysis m;
    if (!ech_report_memory_needs(report, &m))
        return;
    g_autofree char *argument = ech_format_bytes(m.argument), *output = ech_format_bytes(m.output), *alias = ech_format_bytes(m.alias),
                    *constant = ech_format_bytes(m.constant), *temp = ech_format_bytes(m.temp);
    g_autofree char *text =
        g_strdup_printf("%s arguments + %s outputs - %s shared by both + %s constants + %s temporaries", argument, output, alias, constant, temp);
    ech_text_wrap(out, "    ", text, columns);
}

static void append_kept(GString *text, const EchReport *report, const EchFailure *f)
{
    g_autofree char *kept = ech_format_bytes(f->kept);
    const EchBuffer *buffer = f->buffer != ECH_NONE ? &ech_trace_buffers(report->trace)[f->buffer] : NULL;
    bool captured = buffer && buffer->pool != ECH_NONE, direct = buffer && buffer->direct;
    g_string_append_printf(text,
                           direct     ? ". It is asked of the device, not of the allocator, which has %s cached that only its own requests get."
                           : captured ? ". It is for a private pool (of a CUDA graph or MemPool), and %s are cached for others, which nothing gives back then."
                                      : ", and private pools (of CUDA graphs, MemPools) keep %s more until they are released.",
                           kept);
}

/* Where the replay failed, and what held the memory then. */
static void append_failure(GString *out, const EchReport *report, unsigned columns)
{
    const EchFailure *f = &report->run->failure;
    const EchMemoryRun *memory = ech_report_memory(report->run, f->memory);
    if (memory && report->run->completed && memory->fixed_extent > f->limit) {
        append_plan_failure(out, report, memory, columns);
        return;
    }
    g_autofree char *asked = ech_format_bytes(f->asked), *live = ech_format_bytes(f->live), *limit = ech_format_bytes(f->limit),
                    *reserved = ech_format_bytes(f->reserved), *when = ech_format_time(f->time);
    if (f->op == ECH_NONE && f->buffer == ECH_NONE) {
        g_string_append_printf(out, "  From the start: what %s is to hold takes %s, its limit is %s.\n", f->memory, asked, limit);
    } else {
        g_autofree char *name = ech_report_buffer_name(report->trace, f->buffer);
        const char *who = f->buffer == ECH_NONE ? ech_trace_string(report->trace, ech_trace_ops(report->trace)[f->op].name) : name;
        g_autoptr(GString) text = g_string_new(NULL);
        bool before = ech_report_failed_before(report);
        g_string_printf(text, "%s%s '%s' asks for %s more in %s: %s of %s are live, %s reserved",
                        before              ? "In the steps before"
                        : f->op == ECH_NONE ? "Before that begins"
                                            : "At ",
                        f->op == ECH_NONE ? "" : when, who, asked, f->memory, live, limit, reserved);
        if (f->direct) {
            g_autofree char *direct = ech_format_bytes(f->direct);
            g_string_append_printf(text, ", %s of both beside the allocator", direct);
        }
        if (f->elsewhere) {
            g_autofree char *elsewhere = ech_format_bytes(f->elsewhere);
            g_string_append_printf(text, ", and the other processes on the device have %s", elsewhere);
        }
        /* Enough is free, but only with what no cache gives back. */
        bool kept = f->fit == ECH_FIT_FRAGMENTED && f->kept && f->asked > f->limit - MIN(f->limit, ech_bytes_add(f->live, f->kept));
        if (kept)
            append_kept(text, report, f);
        else
            g_string_append(text, f->fit == ECH_FIT_FRAGMENTED ? ", and no free piece is large enough (fragmentation)." : ".");
        ech_text_wrap(out, "  ", text->str, columns);
    }
    size_t n_live;
    g_autofree EchHolder *live_then = ech_report_failure_holders(report, &n_live);
    if (n_live) {
        g_string_append(out, f->op == ECH_NONE && f->buffer == ECH_NONE ? "  What that is:\n" : "  What held the memory:\n");
        append_holders(out, report, live_then, n_live, 10, "  ", columns);
    }
}

/* The program stopped there when it was captured: what it needs in all nobody knows. */
static void append_ran_out(GString *out, const EchReport *report, unsigned columns)
{
    EchRanOut ran;
    if (!ech_report_ran_out(report, &ran))
        return;
    g_autofree char *line = ran.line, *asked = ech_format_bytes(ran.asked), *live = ech_format_bytes(ran.live), *left = ech_format_bytes(ran.left),
                    *unused = ech_format_bytes(ran.held - MIN(ran.held, ran.live)), *capacity = ech_format_bytes(ran.capacity);
    const char *device = ech_trace_get_property(report->trace, ECH_TRACE_DEVICE);
    g_autofree char *text =
        ran.said
            ? g_strdup_printf("The server stopped when it was captured, with %s: \"%s\" What is said here is up to there.", capacity, ran.said)
            : g_strdup_printf("The program ran out of memory%s%s when it was captured, with %s, and stopped: %s more were asked for%s%s with %s in use, %s "
                              "held unused by PyTorch's allocator and %s free. What is said here is up to there. 'echelon alloc' says which settings of "
                              "the allocator would have served that; 'echelon capture --pretend' with room (--set device.memories.hbm.capacity=1TiB), what "
                              "the program needs in all, and 'echelon advise' of that, what would make it fit.",
                              device ? " on device " : "", device ? device : "", capacity, asked, line ? " by " : "", line ? line : "", live, unused, left);
    ech_text_wrap(out, "  ", text, columns);
}

/* What such a program did is not what it does with room: batches that it left out, say; nor is what was recorded up to there. */
static void append_went_on(GString *out, const EchReport *report, unsigned columns)
{
    g_autofree char *text = ech_report_went_on(report), *recorded = ech_report_refused_when_recorded(report);
    if (text)
        ech_text_wrap(out, "  ", text, columns);
    if (recorded)
        ech_text_wrap(out, "  ", recorded, columns);
}

bool ech_report_is_taken_whole(const char *allocator)
{
    bool pool = g_str_has_prefix(allocator, "bfc") || g_str_has_prefix(allocator, "jax") || g_str_has_prefix(allocator, "tensorflow");
    return pool && !strstr(allocator, "growth") && !strstr(allocator, "preallocate=false") && !strstr(allocator, "PREALLOCATE=false");
}

/* A cache that was emptied on the way, by the program or after the trials of cudnn.benchmark, holds less from then on: what nvidia-smi shows most of the time.
 */
static void append_reserved_later(GString *text, const EchReport *report, const EchMemoryRun *m)
{
    size_t n;
    g_autofree EchStep *steps = report->is_step ? NULL : ech_report_steps(report, &n);
    if (!steps || n < 2 || m != ech_report_main_memory(report) || steps[n - 1].reserved >= m->peak_reserved - m->peak_reserved / 50)
        return;
    g_autofree char *later = ech_format_bytes(steps[n - 1].reserved);
    g_string_append_printf(text, "; in the last step %s, the rest was given back before it", later);
}

/* Who hands the device's memory out, and what it holds, which is more than what is live and what other programs see; where it is the one that was recorded or
 * holds more. */
static void append_reserved(GString *out, const EchReport *report, unsigned columns)
{
    const EchMemoryRun *m = ech_report_memory(report->run, "hbm");
    if (!m || m->alloc.peak_reserved == 0 || (!report->recorded.allocator && m->peak_reserved <= m->peak_live))
        return;
    g_autoptr(GString) text = g_string_new(NULL);
    g_autofree char *reserved = ech_format_bytes(ech_bytes_add(m->fixed_extent, m->alloc.peak_reserved));
    g_string_append_printf(text, "%s reserved by allocator %s", reserved, m->allocator);
    if (report->recorded.allocator)
        g_string_append(text, ", as recorded");
    if (report->recorded.allocator && report->recorded.release)
        g_string_append_printf(text, " (PyTorch %s)", report->recorded.release);
    append_reserved_later(text, report, m);
    if (m->alloc.peak_direct) {
        g_autofree char *direct = ech_format_bytes(m->alloc.peak_direct),
                        *names = ech_direct_names(report->trace, ech_trace_find_memory(report->trace, m->name));
        g_string_append_printf(text, "; %s beside it, from the device itself%s%s%s", direct, names ? " (" : "", names ? names : "", names ? ")" : "");
    }
    if (m->context && ech_device_shares_host(report->device)) {
        g_autofree char *context = ech_format_bytes(m->context);
        g_string_append_printf(text, "; the process's context takes %s beside it, and nvidia-smi shows no memory of such a device, but /proc/meminfo does",
                               context);
    } else if (m->context && !m->on_device) { /* of unified memory what is there is what there is */
        g_autofree char *all = ech_format_bytes(m->peak_reserved + m->context), *context = ech_format_bytes(m->context);
        g_string_append_printf(text, "; %s would show %s, %s of it the process's context", ech_device_is_amd(report->device) ? "amd-smi" : "nvidia-smi", all,
                               context);
    }
    g_string_append_c(text, '.');
    EchBytes peak = report->recorded.peak, now = m->alloc.peak_reserved, apart = MAX(peak, now) - MIN(peak, now);
    if (peak && apart > now / 100) {
        g_autofree char *held = ech_format_bytes(peak);
        g_string_append_printf(text, " When it was recorded it held %s: how its cache lay when that began is not known here.", held);
    }
    ech_text_wrap(out, "  ", text->str, columns);
}

/* What came and went, and how long that kept operations; over NVLink-C2C, what was reached where it lies. */
static void append_pages(GString *text, const EchReport *report, const EchMemoryRun *m)
{
    g_autofree char *in = ech_format_bytes(m->paged_in), *gone = ech_format_bytes(m->paged_out), *waited = ech_format_time(report->run->waits[ECH_WAIT_PAGES]);
    const EchLink *link = ech_device_host_link(report->device, NULL);
    if (link && link->coherent && m->on_device)
        g_string_append_printf(text, ". Of the rest, where it lies on the host, %s were read over the link and %s written; operations waited %s for that.", in,
                               gone, waited);
    else
        g_string_append_printf(text, ". %s came from the host when they were touched%s, and %s went there to make room; operations waited %s for that.", in,
                               m->on_device ? "" : " or prefetched, or were read there", gone, waited);
}

/* Where host and device have one memory: what both held of it. */
static void append_together(GString *out, const EchReport *report, unsigned columns)
{
    const EchMemoryRun *m = ech_report_memory(report->run, "hbm"), *host = ech_report_memory(report->run, "host");
    if (!m || !m->peak_together || !host || host->peak_live == 0)
        return;
    g_autofree char *together = ech_format_bytes(m->peak_together),
                    *text = g_strdup_printf("Host and device have one memory: of that both held %s at the most.", together);
    ech_text_wrap(out, "  ", text, columns);
}

/* What of unified memory, or of managed buffers, had to come and go. */
static void append_unified(GString *out, const EchReport *report, unsigned columns)
{
    const EchMemoryRun *m = ech_report_memory(report->run, "hbm");
    if (!m || (!m->on_device && !m->managed))
        return;
    EchBytes untold = ech_report_untold(m);
    g_autofree char *there = ech_format_bytes(m->on_device), *managed = ech_format_bytes(m->managed), *parts = ech_format_bytes(untold);
    g_autoptr(GString) text = g_string_new(NULL);
    if (m->on_device)
        g_string_printf(text, "Unified memory: %s of it are the device's", there);
    else
        g_string_printf(text, "Managed memory: up to %s, on the device as far as hbm has room left, else on the host", managed);
    if (m->paged_in + m->paged_out > 0)
        append_pages(text, report, m);
    else if (untold)
        g_string_append(text, ", which is not enough.");
    else
        g_string_append(text, m->on_device ? ", which is enough: nothing comes and goes." : "; nothing of it comes and goes.");
    if (untold)
        g_string_append_printf(text,
                               " Up to %s are used in parts, of which the capture does not tell where they lie: what comes and goes of those is not counted, "
                               "and it may take many times as long.",
                               parts);
    ech_text_wrap(out, "  ", text->str, columns);
}

/* What JAX hands a compiled program of a GPU's memory, unless told otherwise, where that is too little. */
static void append_share(GString *out, const EchReport *report, const EchFitRow *rows, size_t n, unsigned columns)
{
    EchBytes context = ech_device_context(report->device);
    for (size_t i = 0; i < n; i++) {
        const EchFitRow *row = &rows[i];
        const EchMemoryRun *m = ech_report_memory(report->run, row->memory);
        if (context == 0 || strcmp(row->memory, "hbm") != 0 || (m && m->on_device) || row->needed <= row->available / 4 * 3)
            continue;
        g_autofree char *share = ech_format_bytes(row->available / 4 * 3), *taken = ech_format_bytes(context);
        double fraction = ceil(100 * (double)row->needed / (double)row->available) / 100;
        bool room = ech_bytes_add(row->needed, context) <= row->available;
        g_autofree char *advice = room ? g_strdup_printf("XLA_PYTHON_CLIENT_MEM_FRACTION=%.2f gives enough", fraction)
                                       : g_strdup_printf("nor would the process's context, %s, have room beside it", taken);
        g_autofree char *text = g_strdup_printf("JAX would not run it as it is: it takes three quarters of the memory, %s; %s.", share, advice);
        ech_text_wrap(out, "  ", text, columns);
    }
}

char *ech_report_how_to_know(const char *device)
{
    const char *quicker =
        g_str_has_prefix(device, "tpu") ? " (large programs: compile.py --no-codegen tells the memory, long before the compiler is done)" : "";
    return g_strdup_printf(
        "The compiler settles it: with the measure in the program (jax.checkpoint, its offload policies, memory_kind=\"pinned_host\", shardings), "
        "'echelon capture --pretend %s -o asked -- python train.py' tells what it needs then%s.",
        device, quicker);
}

/* A pass's own figure has room, but not all that a compiler may take. */
static void append_narrow(GString *out, const EchReport *report, EchBytes most, unsigned columns)
{
    if (most == 0)
        return;
    g_autofree char *bytes = ech_format_bytes(most);
    const char *graph = ech_trace_get_property(report->trace, "graph_takes_up_to");
    if (graph) {
        g_autofree char *said =
            g_strdup_printf("Checkpoints within one graph of torch.compile have taken up to %s times what remat says; that would be %s of hbm. "
                            "Modules compiled one at a time (module.compile()) take what is told.",
                            graph, bytes);
        ech_text_wrap(out, "  ", said, columns);
        return;
    }
    const char *times = ech_trace_get_property(report->trace, "remat_takes_up_to");
    bool early = ech_report_fetched_early(report) > 0;
    const char *scheduled = ech_trace_get_property(report->trace, "schedule_takes_up_to");
    const char *sharded = ech_trace_get_property(report->trace, "shard_takes_up_to");
    g_autofree char *remat =
        times       ? g_strdup_printf("Compilers asked for jax.checkpoint have taken up to %s times what remat says", times)
        : scheduled ? g_strdup_printf("What its compiler makes again itself to come down to memory is its own choice, and has taken up to %s times "
                                      "what schedule says",
                                      scheduled)
        : sharded   ? g_strdup_printf("Compilers asked for it have taken up to %s times what shard says", sharded)
                    : NULL;
    const char *brought = early                              ? "XLA fetches offloaded arrays early, many at once, but for what loops fetch slice by slice"
                          : ech_report_brought_first(report) ? "Some programs' offloaded arrays libtpu brings before all else"
                                                             : "";
    g_autofree char *know = ech_report_how_to_know(report->device->name);
    g_autofree char *text = g_strdup_printf("%s%s%s; that would be %s of hbm%s. %s", remat ? remat : "", remat && *brought ? ". " : "", brought, bytes,
                                            early      ? ", or more: --pass schedule, after offload, tells"
                                            : *brought ? "; " ECH_BRING_LATE " mostly has them as told"
                                                       : "",
                                            know);
    ech_text_wrap(out, "  ", text, columns);
}

/* Where everything kept has no room: remat cuts what it makes again as finely as that helps, a program's author by its blocks. */
static void append_blocks(GString *out, const EchReport *report, unsigned columns)
{
    EchBytes once = ech_report_again_at_once(report);
    if (once == 0)
        return;
    g_autofree char *bytes = ech_format_bytes(once);
    g_autofree char *text = g_strdup_printf("Of what is made again %s are there at once at most. jax.checkpoint has all there that a block makes: what a block "
                                            "makes beyond %s it needs besides.",
                                            bytes, bytes);
    ech_text_wrap(out, "  ", text, columns);
}

/* Passes left more of the device's memory in use than they were asked to. */
static void append_goal(GString *out, const EchReport *report, unsigned columns)
{
    EchBytes needed = ech_report_beyond_goal(report);
    if (needed == 0 || !report->run->completed)
        return;
    g_autofree char *a = ech_format_bytes(needed), *b = ech_format_bytes(report->goal);
    g_autofree char *text = g_strdup_printf("Passes were asked for %s of hbm at most; %s are needed.", b, a);
    ech_text_wrap(out, "  ", text, columns);
}

static bool has_stopped(const EchReport *report)
{
    EchRanOut ran = {0};
    bool stopped = ech_report_ran_out(report, &ran);
    g_free(ran.line);
    return stopped;
}

static bool knows_memory(const EchReport *report)
{
    size_t n;
    g_free(ech_report_uses(report, &n));
    return n > 0;
}

static bool is_unsplit(const EchReport *report)
{
    return report->program && report->program->unsplit;
}

const char *ech_report_verdict(const EchReport *report)
{
    return !ech_report_fits(report)      ? (is_unsplit(report) ? "NOT PARTITIONED YET: what all devices have together DOES NOT FIT one." : "IT DOES NOT FIT.")
           : !knows_memory(report)       ? "It says nothing of what lies in memory."
           : has_stopped(report)         ? "It fits as far as the program came."
           : ech_report_may_need(report) ? "It may fit."
                                         : "It fits.";
}

/* Whether there are collectives for which the device has no link. */
static bool lacks_link(const EchReport *report)
{
    const EchRun *run = report->run;
    for (size_t i = 0; i < run->n_prices; i++) {
        if (ech_trace_ops(report->trace)[i].kind == ECH_OP_COLLECTIVE && run->prices[i].source == ECH_PRICE_UNKNOWN)
            return true;
    }
    return false;
}

const char *ech_report_time_verdict(const EchReport *report)
{
    if (!report->run->completed || has_stopped(report))
        return "Up to there it takes";
    if (!ech_report_fits(report))
        return "If it fitted, it would take";
    return lacks_link(report) ? "Without its collectives it takes" : "It takes";
}

/* Whether it is the device's memory that does not suffice. */
static bool lacks_hbm(const EchReport *report)
{
    size_t n;
    g_autofree EchFitRow *rows = ech_report_fit_rows(report, &n);
    bool lacks = !report->run->fits && strcmp(report->run->failure.memory, "hbm") == 0;
    for (size_t i = 0; i < n; i++)
        lacks |= rows[i].needed > rows[i].available && strcmp(rows[i].memory, "hbm") == 0;
    return lacks;
}

/* All devices' work on one is what nobody runs: where what one of them runs comes from. */
static void append_unsplit(GString *out, const EchReport *report, unsigned columns)
{
    if (!is_unsplit(report))
        return;
    g_autofree char *text =
        g_strdup_printf("Nor has a partitioner: what is told here is all %u devices' work on one. What each of them runs, the compiler tells: "
                        "'echelon capture --pretend %s --gpus %u -- COMMAND'.",
                        report->program->partitions, report->device->name, report->program->partitions);
    ech_text_wrap(out, "  ", text, columns);
}

/* Where it does not fit: what tries measures. */
static void append_measures(GString *out, const EchReport *report, unsigned columns)
{
    if (ech_report_fits(report) || has_stopped(report) || is_unsplit(report) || (!report->run->fits && !lacks_hbm(report)))
        return;
    EchCrowded crowded;
    if (report->run->fits && ech_report_crowded(report, &crowded)) /* what would is told with it */
        return;
    bool sums = ech_trace_get_property(report->trace, "sums_only") != NULL;
    if (report->words && !sums) { /* on one line, to be copied */
        g_string_append_printf(out, "  What would make it fit:\n    echelon advise %s\n", report->words);
        return;
    }
    ech_text_wrap(out, "  ",
                  sums ? "What would make it fit takes the program: 'echelon capture --pretend NAME -- COMMAND' writes it down, then 'echelon advise'."
                       : "What would make it fit: 'echelon advise', with the same --trace and --device.",
                  columns);
}

/* Of a device that nobody measured, what its rates rest on. */
static void append_unmeasured(GString *out, const EchReport *report, unsigned columns)
{
    if (!report->device->unmeasured || report->run->makespan == 0)
        return;
    g_autofree char *text = g_strdup_printf("No times of kernels measured on such a device are known: its rates rest on %s.", report->device->unmeasured);
    ech_text_wrap(out, "  ", text, columns);
}

/* A program that waits for its host is as fast as that, which is no part of a GPU: what it rests on. */
static void append_host(GString *out, const EchReport *report, unsigned columns)
{
    const EchRun *run = report->run;
    if (run->host_launch == 0)
        return;
    size_t n;
    EchShare *shares = ech_report_critical_path(report, &n);
    EchTime late = 0;
    for (size_t i = 0; i < n; i++)
        late += strcmp(shares[i].name, ECH_BOUND_HOST) == 0 ? shares[i].time : 0;
    ech_shares_free(shares, n);
    if (late == 0 || late < run->makespan / 10)
        return;
    g_autofree char *each = ech_format_time(run->host_launch), *operators = ech_format_time(run->host_operator);
    g_autoptr(GString) text = g_string_new(NULL);
    g_string_printf(text, "For %.0f %% of that the GPU waits for the program's host: ", 100 * ratio(late, run->makespan));
    const char *tells =
        " Other hosts differ, by published programs 2 to 8 us an operator: a step that waits for it, timed, less its launches, over its operators, "
        "is its eager_operator_ps (--set device.runtime.eager_operator_ps=2.5us).";
    if (run->host_operator > 0) {
        const char *source = ech_device_number_source(report->device, "runtime.eager_operator_ps");
        g_string_append_printf(text, "%s for each launch and %s for each operator of PyTorch (runtime.submit_ps, eager_operator_ps; %s).", each, operators,
                               source ? source : "of a virtual machine with an H200");
    } else if (g_strcmp0(ech_trace_get_property(report->trace, "host_order"), ECH_HOST_COMPILED) != 0) {
        const char *source = ech_device_number_source(report->device, "runtime.eager_launch_ps");
        g_string_append_printf(text, "%s for each launch (runtime.eager_launch_ps; %s).", each, source ? source : "of a core of an AMD EPYC");
        tells = " Other hosts differ (--set device.runtime.eager_launch_ps=30us).";
    } else {
        const char *source = ech_device_number_source(report->device, "runtime.submit_ps");
        g_string_append_printf(text, "%s for each launch (runtime.submit_ps; %s).", each, source ? source : "of a virtual machine with an H100");
        tells = " Other hosts differ (--set device.runtime.submit_ps=2.5us).";
    }
    g_string_append(text, tells);
    ech_text_wrap(out, "  ", text->str, columns);
}

char **ech_report_said(const EchReport *report)
{
    size_t n;
    g_autofree EchFitRow *rows = ech_report_fit_rows(report, &n);
    g_autoptr(GString) text = g_string_new(NULL);
    append_goal(text, report, 0);
    append_narrow(text, report, ech_report_may_need(report), 0);
    append_blocks(text, report, 0);
    append_reserved(text, report, 0);
    append_together(text, report, 0);
    append_unified(text, report, 0);
    if (ech_report_fits(report))
        append_share(text, report, rows, n, 0);
    append_ran_out(text, report, 0);
    append_went_on(text, report, 0);
    append_measures(text, report, 0);
    append_unmeasured(text, report, 0);
    append_host(text, report, 0);
    EchBasis basis;
    if (ech_report_basis(report, &basis) && (!basis.tpu || basis.compiler < basis.all)) {
        g_autofree char *said = ech_report_basis_text(&basis);
        g_string_append(text, said);
    }
    char **lines = g_strsplit(g_strchomp(text->str), "\n", -1);
    for (char **line = lines; *line; line++)
        g_strstrip(*line);
    return lines;
}

/* Where the device's memory does not suffice: what of it no program gets. */
static void append_withheld(GString *out, const EchReport *report, unsigned columns)
{
    const EchMemory *hbm = ech_device_memory_kind(report->device, ECH_MEM_HBM);
    const EchMemoryRun *m = hbm ? ech_report_memory(report->run, hbm->name) : NULL;
    EchBytes kept = m ? m->context + (hbm->available ? hbm->capacity - hbm->available : 0) : 0;
    if (kept == 0)
        return;
    g_autofree char *a = ech_format_bytes(kept), *b = ech_format_bytes(hbm->capacity);
    g_autofree char *edit = g_strdup_printf("device.memories.%s.available=", hbm->name);
    for (const char *const *setting = report->settings; setting && *setting; setting++) {
        if (g_str_has_prefix(*setting, edit)) {
            g_autofree char *there = ech_format_bytes(m->available),
                            *said = g_strdup_printf("(%s of the %s of %s were set to be available.)", there, b, hbm->name);
            ech_text_wrap(out, "  ", said, columns);
            return;
        }
    }
    g_autofree char *text =
        g_strdup_printf("(%s of the %s of %s are kept by the driver%s.)", a, b, hbm->name, m->context ? " and the process's context" : " and the runtime");
    ech_text_wrap(out, "  ", text, columns);
}

void ech_report_append_fit(GString *out, const EchReport *report, unsigned columns)
{
    bool fits = ech_report_fits(report);
    size_t n;
    g_autofree EchFitRow *rows = ech_report_fit_rows(report, &n);
    EchBytes most = ech_report_may_need(report);
    g_autoptr(GString) text = g_string_new(ech_report_verdict(report));
    append_uses(text, report, fits);
    ech_text_wrap(out, "  ", text->str, columns);
    append_goal(out, report, columns);
    append_narrow(out, report, most, columns);
    append_blocks(out, report, columns);
    append_reserved(out, report, columns);
    append_together(out, report, columns);
    append_unified(out, report, columns);
    if (fits)
        append_share(out, report, rows, n, columns);
    append_refusal(out, report, columns);
    append_ran_out(out, report, columns);
    append_went_on(out, report, columns);
    if (fits)
        return;
    for (size_t i = 0; i < n; i++) {
        if (rows[i].needed > rows[i].available)
            append_excess(out, report, &rows[i], columns);
    }
    if (!report->run->fits)
        append_failure(out, report, columns);
    if (lacks_hbm(report))
        append_withheld(out, report, columns);
    append_measures(out, report, columns);
}

/* What passes and settings of the command line are worth. */
static void append_changes(GString *out, const EchReport *report, unsigned columns)
{
    if (!report->plain)
        return;
    g_autoptr(GPtrArray) why = ech_report_changes(report);
    JsonArray *passes = json_object_get_array_member(ech_member_object(report->plain, "provenance"), "passes");
    guint n = passes ? json_array_get_length(passes) : 0;
    if (n == 0)
        g_string_append(out, "\n  What that changes\n");
    else
        g_string_append_printf(out, "\n  What that changes, from pass %s as it is\n", json_array_get_string_element(passes, n - 1));
    for (guint i = 0; i < why->len; i++)
        ech_text_wrap(out, "    ", why->pdata[i], columns);
}

/* What shares of the critical path mean whose names do not say it. */
static const struct {
    const char *name, *text;
} meanings[] = {
    {"allocator", "its cudaMalloc and cudaFree; the latter waits for the device"},
    {"grid steps", "what each step of a kernel's grid costs besides its work"},
    {"kernels beside collectives", "those that were slowed because a collective, a kernel too, held some of the multiprocessors"},
    {"latency inside kernels",
     "beyond bytes and operations at full rate: waits for their own copies, accesses and instructions, tiles that do not fill a unit"},
    {"overhead", "launches, set-ups and latencies, the fill and drain of kernels"},
    {ECH_BOUND_HOST,
     "one thread of the host asks for one kernel or copy after another and takes runtime.submit_ps for each and runtime.eager_operator_ps for each operator "
     "(runtime.eager_launch_ps for each where no operators are told; of a program in CUDA C++ runtime.submit_ps alone): larger ones or a CUDA graph "
     "(replay.graph=true) hide it, replay.host_launches=false leaves it out"},
    {"pageable port", "copies from or to host memory that is not page-locked: the driver takes them over a buffer of its own"},
    {"pinning memory", "the host waits while pages of its memory are locked one by one: once, where a cache of pinned memory keeps them, as PyTorch's does"},
    {"recorded kernel times", "kernels that take longer than what they move and compute needs, or of which neither is known"},
    {"unified memory's pages", "blocks of 2 MiB that were on the host when they were touched: each comes over the link, and one goes, the one that came "
                               "longest ago (over NVLink-C2C none "
                               "moves: they are reached where they lie)"},
};

const char *ech_report_bound_meaning(const char *bound)
{
    for (size_t k = 0; k < G_N_ELEMENTS(meanings); k++) {
        if (strcmp(bound, meanings[k].name) == 0)
            return meanings[k].text;
    }
    return NULL;
}

static void append_time(GString *out, const EchReport *report, unsigned columns)
{
    const EchRun *run = report->run;
    if (run->makespan == 0 && !run->completed) {
        g_string_append_printf(out, "  That is before anything%s ran.\n", ech_report_failed_before(report) ? " of it" : "");
        return;
    }
    if (run->makespan == 0) {
        bool allocates = run->n_placed > 0;
        ech_text_wrap(out, "  ",
                      allocates ? "It takes no time: the trace has allocations only ('echelon alloc' says more about them), or nothing in it has a cost."
                                : "It takes no time: nothing in it has a cost.",
                      columns);
        return;
    }
    g_autofree char *makespan = ech_format_time(run->makespan);
    g_autofree char *bound = ech_format_time(run->lower_bound);
    g_autofree char *serial = ech_format_time(run->serial);
    size_t n;
    EchShare *shares = ech_report_critical_path(report, &n);
    g_autoptr(GString) text = g_string_new(ech_report_time_verdict(report));
    g_string_append_c(text, ' ');
    g_string_append(text, makespan);
    if (n)
        g_string_append_printf(text, ", bound by %s (%.0f %% of the critical path)", shares[0].name, 100 * ratio(shares[0].time, run->makespan));
    g_string_append_c(text, '.');
    ech_text_wrap(out, "  ", text->str, columns);
    g_string_printf(text,
                    run->completed ? "No schedule of it is shorter than %s on this device; with no overlap at all it takes %s."
                                   : "The whole of it would take at least %s on this device; with no overlap at all %s.",
                    bound, serial);
    ech_text_wrap(out, "  ", text->str, columns);
    if (report->program && !report->program->scheduled)
        ech_text_wrap(out, "  ", "No compiler has seen it: its fusions, layouts and order are echelon's. How rough that is stands below.", columns);
    const char *others = ech_trace_get_property(report->trace, ECH_TRACE_OTHER_DEVICES), *device = ech_trace_get_property(report->trace, ECH_TRACE_DEVICE);
    if (others) {
        g_string_printf(text,
                        "All of this is device %s's alone, as if it never waited for the others: the program runs on device %s, too; --set capture_device=N "
                        "tells those.",
                        device ? device : "0", others);
        ech_text_wrap(out, "  ", text->str, columns);
    }
    append_unsplit(out, report, columns);
    append_unmeasured(out, report, columns);
    append_host(out, report, columns);
    append_changes(out, report, columns);
    if (n > 1 && shares[1].time > 0) {
        g_string_append(out, "\n  Critical path\n");
        g_autoptr(GArray) rows = share_rows_new();
        EchTime rest = run->makespan;
        size_t most = n == 9 ? 9 : 8; /* One more takes no more room than to say so. */
        for (size_t i = 0; i < MIN(n, most) && ratio(shares[i].time, run->makespan) >= 0.0005; i++) {
            add_share(rows, shares[i].name, ech_format_time(shares[i].time), ratio(shares[i].time, run->makespan), NULL);
            rest -= shares[i].time;
        }
        g_autofree char *more = g_strdup_printf("in %zu more", n - rows->len);
        if (ratio(rest, run->makespan) >= 0.0005)
            add_share(rows, more, ech_format_time(rest), ratio(rest, run->makespan), NULL);
        append_shares(out, rows, columns);
        for (guint i = 0; i < rows->len; i++) {
            const char *label = g_array_index(rows, ShareRow, i).label, *meaning = ech_report_bound_meaning(label);
            if (!meaning)
                continue;
            g_string_printf(text, "(%s: %s)", label, meaning);
            ech_text_wrap(out, "    ", text->str, columns);
        }
    }
    ech_shares_free(shares, n);
}

static void append_busy(GString *out, const EchReport *report, unsigned columns)
{
    const EchRun *run = report->run;
    if (run->makespan == 0)
        return;
    g_autoptr(GArray) rows = share_rows_new();
    for (size_t i = 0; i < run->n_units; i++) {
        const EchUnitRun *u = &run->units[i];
        if (u->flops == 0)
            continue;
        g_autofree char *label = g_strdup_printf("%s unit", u->name);
        add_share(rows, label, ech_format_time(u->busy), u->utilisation, ech_format_count(u->flops, "OP"));
    }
    for (size_t i = 0; i < run->n_memories; i++) {
        const EchMemoryRun *m = &run->memories[i];
        if (m->read == 0 && m->written == 0)
            continue;
        g_autofree char *read = ech_format_bytes(m->read);
        g_autofree char *written = ech_format_bytes(m->written);
        g_autofree char *label = g_strdup_printf("%s port", m->name);
        g_autofree char *cached = m->cached > 0 ? ech_format_bytes(m->cached) : NULL;
        add_share(rows, label, ech_format_time(m->busy), ratio(m->busy, run->makespan),
                  g_strdup_printf("%s read, %s written%s%s%s", read, written, cached ? "; " : "", cached ? cached : "", cached ? " of that in L2" : ""));
    }
    const guint at_full_rate = rows->len;
    for (size_t i = 0; i < run->n_links; i++) {
        const EchLinkRun *l = &run->links[i];
        const EchBytes bytes[2] = {l->forward, l->backward};
        const EchTime busy[2] = {l->busy_forward, l->busy_backward};
        for (unsigned way = 0; way < 2; way++) {
            if (bytes[way] == 0)
                continue;
            g_autofree char *amount = ech_format_bytes(bytes[way]);
            g_autofree char *rate = busy[way] > 0 ? ech_format_rate((EchRate)((double)bytes[way] / (double)busy[way] * 1e12)) : g_strdup("-");
            g_autofree char *label = g_strdup_printf("%s link %s", l->name, ech_report_link_way(ech_report_link_peers(report->device, l->name), way));
            add_share(rows, label, ech_format_time(busy[way]), ratio(busy[way], run->makespan), g_strdup_printf("%s at %s", amount, rate));
        }
    }
    if (rows->len)
        g_string_append(out, "\n  Busy\n");
    append_shares(out, rows, columns);
    if (at_full_rate > 0)
        ech_text_wrap(out, "    ", "(units and ports: what their operations and bytes take at full rate)", columns);
}

const char *ech_report_wait_words(EchWait wait, bool launches)
{
    switch (wait) {
    case ECH_WAIT_DEPENDENCY: return "what they depend on";
    case ECH_WAIT_QUEUE: return "their own queue";
    case ECH_WAIT_LINK: return "a link in use";
    case ECH_WAIT_MEMORY_PORT: return "a shared memory port";
    case ECH_WAIT_COMPUTE: return "a shared unit";
    case ECH_WAIT_SPACE: return "memory to become free";
    case ECH_WAIT_HOST: return launches ? "the host's launches" : "the host, as recorded";
    case ECH_WAIT_ALLOCATOR: return "the allocator's cudaFree";
    case ECH_WAIT_PAGES: return "unified memory's pages";
    case ECH_WAIT_PEERS: return "other devices";
    case ECH_N_WAITS: break;
    }
    return "";
}

static void append_waits(GString *out, const EchReport *report, unsigned columns)
{
    const EchRun *run = report->run;
    EchTime total = 0;
    for (int i = 0; i < ECH_N_WAITS; i++)
        total = ech_time_add(total, run->waits[i]);
    if (total == 0)
        return;
    g_string_append(out, "\n  Operations waited (sum over all of them)\n");
    g_autoptr(GArray) rows = share_rows_new();
    for (int i = 0; i < ECH_N_WAITS; i++) {
        g_autofree char *words = g_strconcat("for ", ech_report_wait_words((EchWait)i, run->host_launch > 0), NULL);
        if (run->waits[i] > 0)
            add_share(rows, words, ech_format_time(run->waits[i]), ratio(run->waits[i], total), NULL);
    }
    append_shares(out, rows, columns);
}

/* Whose offsets fixed buffers have. */
static const char *placed_by(const EchReport *report)
{
    const char *source = ech_trace_get_property(report->trace, "buffer_assignment");
    if (!source || !*source)
        return "places as in the trace";
    return strcmp(source, "made by echelon") == 0 ? "placed by the compiler's rules" : "placed by the compiler";
}

/* What a kind of on-chip memory has of its own. */
static void append_onchip(GString *out, const EchReport *report, const EchMemoryRun *m, size_t live, unsigned columns)
{
    const EchMemory *memory = ech_device_memory(report->device, m->name);
    EchWindows windows = ech_report_windows(report, m->name);
    if (windows.kernels > 0) {
        g_autofree char *most = ech_format_bytes(windows.most), *kept = ech_format_bytes(windows.kept), *spilled = ech_format_bytes(windows.spilled);
        g_autofree char *text =
            g_strdup_printf("besides, kernels' own windows: %s at most (%s), of %s kept for them%s%s%s", most, windows.kernel ? windows.kernel : "?", kept,
                            windows.spilled > 0 ? "; " : "", windows.spilled > 0 ? spilled : "", windows.spilled > 0 ? " beyond that, over all kernels" : "");
        ech_text_wrap(out, "      ", text, columns);
        g_autofree char *results = ech_format_bytes(windows.results);
        g_autofree char *may = g_strdup_printf("the compiler may refuse a kernel: up to %s with what it spills, vectors that no registers hold", results);
        if (windows.results > 0)
            ech_text_wrap(out, "      ", may, columns);
    }
    if (memory && memory->kind == ECH_MEM_SCALAR && live > 0)
        g_string_append_printf(out, "      read in words of 32 bits: %zu value%s of %zu bytes\n", live, live == 1 ? "" : "s",
                               (size_t)ech_onchip_scalar_bytes(live));
}

void ech_report_append_memories(GString *out, const EchReport *report, unsigned columns)
{
    const EchRun *run = report->run;
    gsize start = out->len;
    g_string_append(out, "\n  Memory at its fullest\n");
    bool any = false;
    size_t n_rows;
    g_autofree EchFitRow *rows = ech_report_fit_rows(report, &n_rows);
    for (size_t i = 0; i < run->n_memories; i++) {
        const EchMemoryRun *m = &run->memories[i];
        if (m->peak_live == 0 && m->peak_reserved == 0)
            continue;
        if (!run->fits && run->completed && strcmp(run->failure.memory, m->name) == 0 && m->fixed_extent > run->failure.limit)
            continue; /* Said above. */
        if (!run->fits && run->failure.op == ECH_NONE && strcmp(run->failure.memory, m->name) == 0)
            continue;
        g_autofree char *peak = ech_format_bytes(m->peak_live);
        g_autofree char *when = ech_format_time(m->peak_at);
        g_autofree char *reserved = ech_format_bytes(m->peak_reserved);
        g_autoptr(GString) text = g_string_new(NULL);
        g_string_append_printf(text, "%s: %s live%s%s", m->name, peak,
                               run->makespan == 0 ? ""
                               : m->peak_at == 0  ? " from the start"
                                                  : " at ",
                               run->makespan > 0 && m->peak_at > 0 ? when : "");
        if (ech_report_is_taken_whole(m->allocator))
            g_string_append_printf(text, ", %s reserved, whole at the start", reserved);
        else if (m->fragmentation >= 0.0005)
            g_string_append_printf(text, ", %s reserved (%.1f %% of it %s)", reserved, 100 * m->fragmentation,
                                   strcmp(m->allocator, "fixed") == 0 ? "not in use then" : "lost to fragmentation");
        g_string_append_printf(text, "; %s",
                               strcmp(m->allocator, "fixed") == 0     ? placed_by(report)
                               : strcmp(m->allocator, "counted") == 0 ? "counted only"
                                                                      : m->allocator);
        for (size_t r = 0; r < n_rows; r++) {
            g_autofree char *asked = ech_format_bytes(rows[r].needed);
            if (strcmp(rows[r].memory, m->name) == 0 && strcmp(m->allocator, "fixed") == 0 && rows[r].needed > m->peak_reserved + m->peak_reserved / 100)
                g_string_append_printf(text, "; the program asks for %s at once, alignment and tuple tables included", asked);
        }
        ech_text_wrap(out, "    ", text->str, columns);
        size_t n;
        g_autofree EchHolder *holders = ech_report_holders(report, m->name, m->peak_at, &n);
        append_holders(out, report, holders, n, 5, "    ", columns);
        append_onchip(out, report, m, n, columns);
        g_autoptr(EchPadding) padding = ech_padding_new(report->trace, m->name, run, m->peak_at);
        ech_padding_text(out, report->trace, padding, 3, "      ", columns);
        any = true;
    }
    if (!any)
        g_string_truncate(out, start);
}

static void append_longest(GString *out, const EchReport *report, unsigned columns)
{
    const EchRun *run = report->run;
    if (run->n_spans == 0 || run->makespan == 0)
        return;
    size_t n_all, n;
    g_autofree EchNameTime *all = ech_report_longest(report, SIZE_MAX, &n_all), *times = ech_report_longest_alike(all, n_all, 6, &n);
    if (n == 0)
        return;
    g_string_append(out, "\n  Longest operations\n");
    g_autoptr(GArray) rows = share_rows_new();
    /* Who priced it says less than where it comes from, and that less than how often it ran. */
    int room = (int)(columns ? columns : ECH_TEXT_COLUMNS) - SHARE_COLUMNS - LABEL - 2;
    for (size_t i = 0; i < n; i++) {
        bool kernel = times[i].kind == ECH_OP_KERNEL, classed = kernel && times[i].kernel_class;
        const char *what = times[i].price == ECH_PRICE_HOST                                      ? "operator"
                           : times[i].price == ECH_PRICE_PIN || times[i].price == ECH_PRICE_FILE ? "call"
                                                                                                 : ech_op_kind_name(times[i].kind);
        g_autofree char *price = !kernel ? g_strdup("")
                                 : classed
                                     ? g_strdup_printf("%s: %s, by %s", ech_price_words(times[i].price), ech_gpu_class_name((EchGpuClass)times[i].kernel_class),
                                                       ech_gpu_bound_name((EchGpuBound)times[i].kernel_bound))
                                 : times[i].price == ECH_PRICE_CODE
                                     ? g_strdup_printf("%s: by %s", ech_price_words(times[i].price), ech_gpu_bound_name((EchGpuBound)times[i].kernel_bound))
                                     : g_strdup(ech_price_words(times[i].price));
        g_autofree char *count = times[i].count > 1 ? g_strdup_printf(", %" G_GUINT64_FORMAT " times", times[i].count) : g_strdup("");
        /* Kernels of a capture that XLA compiled say where in the source as a program's do. */
        bool told = report->program || (kernel && times[i].one_asker && strstr(times[i].stack, ".py:"));
        g_autofree char *source = told ? ech_report_source_line(times[i].stack) : NULL;
        /* A transfer of an argument: its name. */
        if (report->program && !source && times[i].kind == ECH_OP_COPY && *times[i].stack && strlen(times[i].stack) <= 32 && g_str_is_ascii(times[i].stack))
            source = g_strdup(times[i].stack);
        /* PyTorch's operator ("aten::mul"), which the middle of a template's name hides. */
        size_t operator_length = strcspn(times[i].stack, "\n");
        if (!told && kernel && times[i].one_asker && g_strstr_len(times[i].stack, (gssize)operator_length, "::"))
            source = g_strndup(times[i].stack, operator_length);
        int least = ech_text_width(what) + ech_text_width(count), line = source ? ech_text_width(source) + 2 : 0;
        if (line == 0 || least + line > room)
            g_clear_pointer(&source, g_free);
        else
            least += line;
        /* Where there is no room for all of it, the class of the kernel. */
        if (classed && least + ech_text_width(price) + 2 > room) {
            g_free(price);
            price = g_strdup(ech_gpu_class_name((EchGpuClass)times[i].kernel_class));
        }
        bool priced = *price && least + ech_text_width(price) + 2 <= room;
        char *note = g_strdup_printf("%s%s%s%s%s%s", what, priced ? ", " : "", priced ? price : "", count, source ? ", " : "", source ? source : "");
        g_autofree char *label =
            times[i].n_alike > 1 ? g_strdup_printf("%.*s.*", (int)ech_report_stem(times[i].name), times[i].name) : ech_text_kernel(times[i].name);
        add_share(rows, label, ech_format_time(times[i].time), ratio(times[i].time, run->makespan), note);
    }
    append_shares(out, rows, columns);
}

/* Modules of a network, where the trace tells them: who asked says more than how a kernel is called. */
static void append_askers(GString *out, const EchReport *report, unsigned columns)
{
    enum { MOST = 8 };
    size_t n;
    EchAsker *askers = ech_report_askers(report, &n);
    bool backward = false;
    for (size_t i = 0; i < n; i++)
        backward |= askers[i].again || askers[i].backward;
    if (n > 0)
        g_string_append_printf(out, "\n  Who asked for it%s\n", backward ? " (forward, recomputed, backward)" : "");
    g_autoptr(GArray) rows = share_rows_new();
    EchTime rest = 0;
    for (size_t i = 0; i < n; i++) {
        EchTime all = ech_asker_time(&askers[i]);
        if (i >= MOST) {
            rest = ech_time_add(rest, all);
            continue;
        }
        const EchTime parts[] = {askers[i].forward, askers[i].again, askers[i].backward};
        g_autoptr(GString) note = g_string_new(NULL);
        for (size_t k = 0; k < G_N_ELEMENTS(parts) && (askers[i].again || askers[i].backward); k++) {
            g_autofree char *time = parts[k] > 0 ? ech_format_time(parts[k]) : g_strdup("-");
            g_string_append_printf(note, "%s%s", k ? ", " : "", time);
        }
        add_share(rows, askers[i].name, ech_format_time(all), ratio(all, report->run->makespan), g_string_free(g_steal_pointer(&note), FALSE));
    }
    if (rest > 0) {
        g_autofree char *label = g_strdup_printf("in %zu more", n - MOST);
        add_share(rows, label, ech_format_time(rest), ratio(rest, report->run->makespan), NULL);
    }
    append_shares(out, rows, columns);
    ech_askers_free(askers, n);
}

static void append_remarks(GString *out, const EchReport *report, unsigned columns)
{
    const EchRun *run = report->run;
    g_autoptr(GString) text = g_string_new("Kernel times:");
    bool any = false;
    for (int i = 0; i < ECH_N_PRICES; i++) {
        if (!run->provenance.kernels[i])
            continue;
        g_string_append_printf(text, "%s %" G_GUINT64_FORMAT " %s", any ? ";" : "", run->provenance.kernels[i], ech_price_words((EchPriceSource)i));
        any = true;
    }
    bool versioned = run->provenance.engine_version && *run->provenance.engine_version;
    g_string_append_printf(text, "%s. Engine: %s%s%s%s.", any ? "" : " none", run->provenance.engine, versioned ? " (" : "",
                           versioned ? run->provenance.engine_version : "", versioned ? ")" : "");
    g_string_append_c(out, '\n');
    ech_text_wrap(out, "  ", text->str, columns);
    EchBasis basis;
    if (ech_report_basis(report, &basis) && (!basis.tpu || basis.compiler < basis.all)) {
        g_autofree char *said = ech_report_basis_text(&basis);
        ech_text_wrap(out, "  ", said, columns);
    }
    if (report->refusal && !ech_report_refused(report)) {
        g_string_printf(text, "the compiler refused it: %s", report->refusal);
        ech_text_wrap(out, "  - ", text->str, columns);
    }
    const EchDiag *const diags[] = {report->import_diag, report->pass_diag, run->diag};
    for (size_t i = 0; i < G_N_ELEMENTS(diags); i++) {
        size_t n = 0;
        const EchDiagRow *rows = diags[i] ? ech_diag_rows(diags[i], &n) : NULL;
        for (size_t j = 0; j < n; j++) {
            if (!rows[j].fatal_if_strict || !rows[j].count)
                continue;
            g_autofree char *name = g_strdelimit(g_strdup(rows[j].name), "_", ' ');
            g_string_printf(text, "%" G_GUINT64_FORMAT " %s%s%s", rows[j].count, name, rows[j].first ? ", first at " : "", rows[j].first ? rows[j].first : "");
            ech_text_wrap(out, "  ! ", text->str, columns);
        }
        size_t remarks = 0;
        for (const char *const *remark = diags[i] ? ech_diag_remarks(diags[i]) : NULL; remark && *remark; remark++) {
            if (++remarks <= 12)
                ech_text_wrap(out, "  - ", *remark, columns);
        }
        if (remarks > 12)
            g_string_append_printf(out, "  - and %zu more remarks (--json has them all)\n", remarks - 12);
    }
}

GString *ech_report_summary(const EchReport *report, unsigned columns)
{
    GString *out = g_string_new(NULL);
    g_autoptr(GString) title = g_string_new(NULL);
    g_string_append_printf(title, "%s on %s", report->title, report->device->name);
    if (*report->device->summary)
        g_string_append_printf(title, " (%s)", report->device->summary);
    ech_text_wrap(out, "", title->str, columns);
    for (const char *const *setting = report->settings; setting && *setting; setting++)
        g_string_append_printf(out, "  with %s\n", *setting);
    for (const char *const *pass = report->passes; pass && *pass; pass++)
        g_string_append_printf(out, "  after pass %s\n", *pass);
    g_string_append_c(out, '\n');
    ech_report_append_fit(out, report, columns);
    append_time(out, report, columns);
    ech_report_append_steps(out, report, columns);
    append_busy(out, report, columns);
    append_waits(out, report, columns);
    ech_report_append_transfer_waits(out, report, columns);
    ech_report_append_memories(out, report, columns);
    append_askers(out, report, columns);
    append_longest(out, report, columns);
    ech_report_append_counters(out, report, columns);
    ech_report_append_stalls(out, report, columns);
    append_remarks(out, report, columns);
    return out;
}
