#include "sim/report/report.h"

#include "models/memory/onchip.h"
#include "sim/base/hash.h"
#include "sim/base/tally.h"
#include "sim/trace/ranges.h"
#include "sim/trace/select.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

/* Its buffers still lie where the compiler placed them: a pass that gave its plan up (unplan) has an allocator instead. Nor do they where a pass changed the
 * program, and places of our own would take more than there is. */
static bool is_planned(const EchTrace *trace, const EchRun *run, const char *memory)
{
    g_autofree char *unplaced = g_strconcat("unplaced.", memory, NULL);
    if (ech_trace_get_property(trace, unplaced))
        return false;
    for (size_t i = 0; i < run->n_memories; i++) {
        if (strcmp(run->memories[i].name, memory) == 0 && run->memories[i].allocs + run->memories[i].peak_live > 0)
            return strcmp(run->memories[i].allocator, "fixed") == 0;
    }
    return true;
}

/* A pass made changes and a plan of its own (sim/pass/plan.c): how high that is. False where none did. */
static bool planned_anew(const EchReport *report, const char *memory, EchBytes *ret)
{
    if (g_strcmp0(ech_trace_get_property(report->trace, "planned_anew"), memory) != 0)
        return false;
    const EchMemoryRun *run = ech_report_memory(report->run, memory);
    *ret = run ? run->fixed_extent : 0;
    return true;
}

/* What lowering noted of the program; 0 where it did not. */
static EchBytes noted(const EchTrace *trace, const char *name)
{
    g_autofree char *key = g_strconcat("memory_analysis.", name, NULL);
    const char *value = ech_trace_get_property(trace, key);
    uint64_t bytes;
    return value && ech_parse_u64(value, &bytes, NULL) ? bytes : 0;
}

bool ech_report_memory_needs(const EchReport *report, EchMemoryAnalysis *ret)
{
    if (report->program && report->program->assignment)
        *ret = ech_program_memory_analysis(report->program);
    else if (!report->program && ech_trace_get_property(report->trace, "memory_analysis.argument"))
        *ret = (EchMemoryAnalysis){.argument = noted(report->trace, "argument"),
                                   .output = noted(report->trace, "output"),
                                   .temp = noted(report->trace, "temp"),
                                   .alias = noted(report->trace, "alias"),
                                   .host_argument = noted(report->trace, "host_argument"),
                                   .host_output = noted(report->trace, "host_output"),
                                   .host_temp = noted(report->trace, "host_temp"),
                                   .host_alias = noted(report->trace, "host_alias"),
                                   .constant = noted(report->trace, "constant"),
                                   .peak = noted(report->trace, "peak")};
    else
        return false;
    return true;
}

static EchBytes space_needs(const EchReport *report, int32_t space)
{
    if (report->program)
        return ech_program_space_bytes(report->program, space);
    g_autofree char *name = g_strdup_printf("space_%d", space);
    return noted(report->trace, name);
}

EchFitRow *ech_report_fit_rows(const EchReport *report, size_t *ret_n)
{
    *ret_n = 0;
    EchMemoryAnalysis a;
    if (!ech_report_memory_needs(report, &a))
        return NULL;
    EchFitRow *rows = g_new0(EchFitRow, report->device->n_memories + 1);
    for (size_t i = 0; i < report->device->n_memories; i++) {
        const EchMemory *memory = &report->device->memories[i];
        EchBytes needed = 0;
        if (memory->space == ECH_SPACE_HBM)
            needed = ech_bytes_add(a.argument - MIN(a.argument, a.alias), ech_bytes_add(a.output, ech_bytes_add(a.constant, a.temp)));
        else if (memory->space == ECH_SPACE_HOST)
            needed = ech_bytes_add(a.host_argument - MIN(a.host_argument, a.host_alias), ech_bytes_add(a.host_output, a.host_temp));
        else if (memory->space > 0)
            needed = space_needs(report, memory->space);
        const char *name = memory->name;
        for (size_t k = 0; k < report->run->n_memories; k++) /* as the program calls it */
            name = ech_device_memory(report->device, report->run->memories[k].name) == memory ? report->run->memories[k].name : name;
        bool anew = planned_anew(report, name, &needed);
        if (needed == 0 || !is_planned(report->trace, report->run, name))
            continue;
        const EchMemoryRun *m = ech_report_memory(report->run, name);
        rows[*ret_n] = (EchFitRow){name, needed, m && m->on_device ? m->available : memory->available, anew};
        ++*ret_n;
    }
    return rows;
}

bool ech_report_refused(const EchReport *report)
{
    static const char *const counted[] = {"HbmOom", "on HBM", "memory space hbm"}, *const wanted[] = {"RESOURCE_EXHAUSTED", "memory", "vmem", "smem"};
    bool wants = false;
    for (size_t i = 0; report->refusal && i < G_N_ELEMENTS(wanted); i++)
        wants |= strstr(report->refusal, wanted[i]) != NULL;
    for (size_t i = 0; wants && i < G_N_ELEMENTS(counted); i++)
        wants = !strstr(report->refusal, counted[i]);
    return wants;
}

/* The innermost line that is not PyTorch's, of a stack of "file.py:12:function". */
static char *own_line(const char *stack)
{
    for (const char *at = stack; *at;) {
        size_t n = strcspn(at, "\n");
        const char *dot = g_strstr_len(at, (gssize)n, ".py:"), *begin = dot;
        while (begin && begin > at && begin[-1] != '/')
            begin--;
        if (dot && !g_strstr_len(at, (gssize)n, "-packages/torch/"))
            return g_strndup(begin, (size_t)(dot - begin) + 4 + strspn(dot + 4, "0123456789"));
        at += n + (at[n] == '\n');
    }
    return NULL;
}

/* Requests that were refused. */
typedef struct {
    const EchMemory *memory;       /* which was short */
    const EchOp *last, *largest;   /* that nothing ran behind; of the others the largest; NULL: none */
    EchBytes last_live, live;      /* in use then */
    EchBytes held, left, capacity; /* by the allocator, and free, at the last; of the device */
    uint64_t n_caught;
} Refusals;

/* False where no device was pretended; with @recorded, where one was. */
static bool find_refusals(const EchReport *report, bool recorded, Refusals *ret)
{
    const EchTrace *trace = report->trace;
    const char *pretended = ech_trace_get_property(trace, "pretended_bytes");
    const EchMemory *memory = ech_device_memory_kind(report->device, ECH_MEM_HBM);
    EchId id = memory ? ech_trace_find_memory(trace, memory->name) : ECH_NONE;
    Refusals out = {.memory = memory};
    uint32_t device = 0;
    if (id == ECH_NONE || (recorded ? pretended != NULL : !pretended || !ech_parse_u64(pretended, &out.capacity, NULL)))
        return false;
    (void)ech_trace_device_of(trace, id, &device); /* what nothing was given of is the first one's */
    const EchOp *ops = ech_trace_ops(trace);
    const EchBuffer *buffers = ech_trace_buffers(trace);
    EchBytes live = 0;
    for (size_t i = 0; i < ech_trace_n_buffers(trace); i++)
        live = ech_bytes_add(live, buffers[i].memory == id && buffers[i].resident ? buffers[i].bytes : 0);
    for (const EchOp *op = ops; op < ops + ech_trace_n_ops(trace); op++) {
        EchBytes bytes = (op->kind == ECH_OP_ALLOC || op->kind == ECH_OP_FREE) && buffers[op->target].memory == id ? buffers[op->target].bytes : 0;
        live = op->kind == ECH_OP_ALLOC ? ech_bytes_add(live, bytes) : live - MIN(live, bytes);
        if (op->kind == ECH_OP_KERNEL && out.last) { /* what was refused before was caught: the program tries smaller ones, say */
            out.n_caught++;
            if (!out.largest || out.last->bytes > out.largest->bytes) {
                out.largest = out.last;
                out.live = out.last_live;
            }
            out.last = NULL;
        }
        /* What PyTorch's snapshot says of a request that was refused. */
        if (op->kind == ECH_OP_MARK && op->queue != ECH_NONE && ech_trace_queues(trace)[op->queue].device == device &&
            sscanf(ech_trace_string(trace, op->name), "oom device_free=%" G_GUINT64_FORMAT " reserved=%" G_GUINT64_FORMAT, &out.left, &out.held) == 2) {
            out.last = op;
            out.last_live = live;
        }
    }
    *ret = out;
    return true;
}

bool ech_report_ran_out(const EchReport *report, EchRanOut *ret)
{
    Refusals refusals;
    if (!find_refusals(report, false, &refusals))
        return false;
    const char *said = ech_trace_get_property(report->trace, ECH_TRACE_NO_ROOM);
    if (said) {
        *ret = (EchRanOut){.capacity = refusals.capacity, .said = said, .here = refusals.memory->available <= refusals.capacity};
        return true;
    }
    if (!refusals.last)
        return false;
    const EchMemoryRun *run = ech_report_memory(report->run, refusals.memory->name);
    *ret = (EchRanOut){.asked = refusals.last->bytes,
                       .live = refusals.last_live,
                       .held = refusals.held,
                       .left = refusals.left,
                       .capacity = refusals.capacity,
                       .line = own_line(ech_trace_string(report->trace, refusals.last->stack)),
                       .here = refusals.memory->available <= refusals.capacity && run && run->peak_live >= refusals.last_live};
    return true;
}

char *ech_report_went_on(const EchReport *report)
{
    Refusals refusals;
    if (!find_refusals(report, false, &refusals) || !refusals.largest)
        return NULL;
    g_autofree char *line = own_line(ech_trace_string(report->trace, refusals.largest->stack)), *asked = ech_format_bytes(refusals.largest->bytes),
                    *live = ech_format_bytes(refusals.live), *capacity = ech_format_bytes(refusals.capacity);
    bool once = refusals.n_caught == 1;
    return g_strdup_printf("The program ran out of memory %" G_GUINT64_FORMAT
                           " time%s when it was captured, with %s, and went on: %s%s more were asked for%s%s "
                           "with %s in use. What it leaves out then, a batch say, is in no figure here; captured with room (--set "
                           "device.memories.hbm.capacity=1TiB) it leaves out nothing.",
                           refusals.n_caught, once ? "" : "s", capacity, once ? "" : "at the most ", asked, line ? " by " : "", line ? line : "", live);
}

char *ech_report_refused_when_recorded(const EchReport *report)
{
    Refusals refusals;
    if (!find_refusals(report, true, &refusals) || !refusals.last)
        return NULL;
    g_autofree char *line = own_line(ech_trace_string(report->trace, refusals.last->stack)), *asked = ech_format_bytes(refusals.last->bytes),
                    *live = ech_format_bytes(refusals.last_live), *left = ech_format_bytes(refusals.left),
                    *unused = ech_format_bytes(refusals.held - MIN(refusals.held, refusals.last_live));
    const char *device = ech_trace_get_property(report->trace, ECH_TRACE_DEVICE);
    return g_strdup_printf("The program ran out of memory%s%s when it was recorded: %s more were asked for%s%s with %s in use, %s held unused by PyTorch's "
                           "allocator and %s free. What is said here is up to there. 'echelon alloc' says which settings of the allocator would have served "
                           "that.",
                           device ? " on device " : "", device ? device : "", asked, line ? " by " : "", line ? line : "", live, unused, left);
}

bool ech_report_fits(const EchReport *report)
{
    EchCrowded crowded;
    if (!report->run->fits || ech_report_refused(report) || ech_report_crowded(report, &crowded))
        return false;
    EchRanOut ran_out;
    if (ech_report_ran_out(report, &ran_out)) {
        g_free(ran_out.line);
        if (ran_out.here)
            return false;
    }
    size_t n;
    g_autofree EchFitRow *rows = ech_report_fit_rows(report, &n);
    for (size_t i = 0; i < n; i++) {
        if (rows[i].needed > rows[i].available)
            return false;
    }
    return true;
}

EchMemoryUse *ech_report_uses(const EchReport *report, size_t *ret_n)
{
    const EchRun *run = report->run;
    bool fits = ech_report_fits(report);
    size_t n, n_out = 0;
    g_autofree EchFitRow *rows = ech_report_fit_rows(report, &n);
    EchMemoryUse *out = g_new0(EchMemoryUse, run->n_memories + 1);
    for (size_t i = 0; i < run->n_memories; i++) {
        const EchMemoryRun *m = &run->memories[i];
        bool failed = !run->fits && strcmp(run->failure.memory, m->name) == 0;
        EchMemoryUse use = {
            .memory = m->name, .bytes = strcmp(m->allocator, "fixed") == 0 ? m->fixed_extent : MAX(m->peak_live, m->fixed_extent), .available = m->available};
        if (failed)
            use.bytes = MAX(use.bytes, run->failure.op == ECH_NONE && run->failure.buffer == ECH_NONE ? run->failure.asked
                                                                                                      : ech_bytes_add(run->failure.live, run->failure.asked));
        for (size_t k = 0; k < n; k++) {
            if (strcmp(rows[k].memory, m->name) != 0)
                continue;
            use.bytes = MAX(use.bytes, rows[k].needed);
            use.planned = true;
            use.anew = rows[k].anew;
        }
        use.fits = fits || use.bytes <= use.available;
        if (m->available + m->context > 0 && (use.planned || m->peak_live > 0 || m->peak_reserved > 0 || failed))
            out[n_out++] = use;
    }
    *ret_n = n_out;
    return out;
}

EchBytes ech_report_again_at_once(const EchReport *report)
{
    const char *from = ech_trace_get_property(report->trace, "remat_from_bytes"), *once = ech_trace_get_property(report->trace, "remat_at_once_bytes");
    const EchMemoryRun *hbm = ech_report_memory(report->run, "hbm");
    if (!from || !once || !hbm || !ech_report_fits(report) || g_ascii_strtoull(from, NULL, 10) <= hbm->available)
        return 0;
    return g_ascii_strtoull(once, NULL, 10);
}

EchBytes ech_report_fetched_early(const EchReport *report)
{
    const char *early = ech_trace_get_property(report->trace, "offload_early_bytes");
    return early ? g_ascii_strtoull(early, NULL, 10) : 0;
}

EchBytes ech_report_brought_first(const EchReport *report)
{
    const char *first = ech_trace_get_property(report->trace, "schedule_first_bytes");
    return first ? g_ascii_strtoull(first, NULL, 10) : 0;
}

EchBytes ech_report_may_need(const EchReport *report)
{
    static const char *const margins[] = {"remat_takes_up_to", "schedule_takes_up_to", "shard_takes_up_to", "graph_takes_up_to"};
    const char *times = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(margins) && !times; i++)
        times = ech_trace_get_property(report->trace, margins[i]);
    const EchBytes early = MAX(ech_report_fetched_early(report), ech_report_brought_first(report));
    const EchMemoryRun *hbm = ech_report_memory(report->run, "hbm");
    if ((!times && !early) || !hbm || !ech_report_fits(report))
        return 0;
    size_t n;
    g_autofree EchFitRow *rows = ech_report_fit_rows(report, &n);
    EchBytes needed = MAX(hbm->peak_reserved, hbm->peak_live);
    for (size_t i = 0; i < n; i++)
        needed = strcmp(rows[i].memory, "hbm") == 0 ? rows[i].needed : needed;
    needed = MAX(needed, early);
    double most = (double)needed * (times ? g_ascii_strtod(times, NULL) : 1);
    return most > (double)hbm->available ? (EchBytes)most : 0;
}

EchBytes ech_report_beyond_goal(const EchReport *report)
{
    size_t n;
    g_autofree EchMemoryUse *uses = ech_report_uses(report, &n);
    for (size_t i = 0; report->goal > 0 && i < n; i++)
        if (strcmp(uses[i].memory, "hbm") == 0 && uses[i].bytes > report->goal)
            return uses[i].bytes;
    return 0;
}

/* Names of resources */

const char *ech_report_link_way(bool peers, unsigned way)
{
    static const char *const ways[2][3] = {{"to device", "from device", "both ways"}, {"out", "in", "both ways"}};
    return ways[peers][MIN(way, 2u)];
}

bool ech_report_link_peers(const EchDevice *device, const char *name)
{
    const EchLink *link = ech_device_link(device, name);
    return link && link->from == link->to;
}

char *ech_report_resource_name(const EchReport *report, uint32_t resource)
{
    const EchRun *run = report->run;
    if (resource >= run->n_resources)
        return g_strdup("overhead");
    const char *name = run->resources[resource];
    static const char *const ends[] = {".to_device", ".from_device", ".both_ways"};
    for (unsigned i = 0; i < G_N_ELEMENTS(ends); i++) {
        if (!g_str_has_suffix(name, ends[i]))
            continue;
        g_autofree char *link = g_strndup(name, strlen(name) - strlen(ends[i]));
        return g_strdup_printf("%s link %s", link, ech_report_link_way(ech_report_link_peers(report->device, link), i));
    }
    if (strstr(name, ".lane"))
        return g_strdup("one way of a link");
    if (g_str_has_prefix(name, "multiprocessors."))
        return g_strdup("kernels beside collectives");
    if (g_str_has_suffix(name, ".beside"))
        return g_strdup("host link beside kernels");
    /* Ports come first, in the device's order; a unit may have a memory's name. */
    uint32_t next = 0;
    for (size_t i = 0; i < report->device->n_memories && next < run->n_resources; i++) {
        if (strcmp(report->device->memories[i].name, run->resources[next]) != 0 ||
            MAX(report->device->memories[i].read, report->device->memories[i].write) == 0)
            continue;
        if (next == resource)
            return g_strdup_printf("%s port", name);
        next++;
    }
    return g_strdup_printf("%s unit", name);
}

/* Holders */

static int compare_holders(const void *a, const void *b)
{
    const EchHolder *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->buffer != y->buffer ? (x->buffer < y->buffer ? -1 : 1) : 0;
}

const EchMemoryRun *ech_report_memory(const EchRun *run, const char *name)
{
    for (size_t i = 0; i < run->n_memories; i++) {
        if (strcmp(run->memories[i].name, name) == 0)
            return &run->memories[i];
    }
    return NULL;
}

const EchMemoryRun *ech_report_main_memory(const EchReport *report)
{
    const EchMemory *memory = ech_device_memory_kind(report->device, ECH_MEM_HBM);
    return memory ? ech_report_memory(report->run, memory->name) : NULL;
}

bool ech_report_failed_before(const EchReport *report)
{
    const EchRun *run = report->run;
    return report->is_step && !run->fits && !run->completed && run->failure.op == ECH_NONE && run->failure.buffer != ECH_NONE;
}

EchBytes ech_report_untold(const EchMemoryRun *memory)
{
    enum { LEAST_PART = 10 };
    EchBytes beyond = memory->on_device > 0 && memory->peak_live > memory->on_device ? memory->peak_live - memory->on_device : 0;
    return beyond > 0 && memory->untold >= beyond / LEAST_PART ? memory->untold : 0;
}

bool ech_report_live(const EchMemoryRun *memory, const EchPlaced *placed, EchTime time)
{
    if (memory && time == memory->peak_at)
        return placed->born <= memory->peak_born && placed->died > memory->peak_born;
    return placed->begin <= time && placed->end > time;
}

/* Live at a time; with @at_end, what was never given back. */
static EchHolder *holders_of(const EchReport *report, const char *memory, EchTime time, bool at_end, size_t *ret_n)
{
    const EchRun *run = report->run;
    EchId id = ech_trace_find_memory(report->trace, memory);
    g_autoptr(GArray) holders = g_array_new(FALSE, FALSE, sizeof(EchHolder));
    const EchMemoryRun *of = ech_report_memory(run, memory);
    for (size_t i = 0; i < run->n_placed; i++) {
        const EchPlaced *placed = &run->placed[i];
        const EchBuffer *buffer = &ech_trace_buffers(report->trace)[placed->buffer];
        if (buffer->memory != id || MAX(placed->place.rounded, buffer->bytes) == 0)
            continue;
        if (at_end ? placed->died != UINT64_MAX : !ech_report_live(of, placed, time))
            continue;
        EchHolder holder = {placed->buffer, MAX(placed->place.rounded, buffer->bytes), placed->place.address};
        g_array_append_val(holders, holder);
    }
    g_array_sort(holders, compare_holders);
    *ret_n = holders->len;
    return (EchHolder *)(void *)g_array_steal(holders, NULL);
}

EchHolder *ech_report_holders(const EchReport *report, const char *memory, EchTime time, size_t *ret_n)
{
    return holders_of(report, memory, time, false, ret_n);
}

/* Windows */

EchWindows ech_report_windows(const EchReport *report, const char *name)
{
    EchWindows windows = {0};
    const EchMemory *memory = ech_device_memory(report->device, name);
    if (!memory || memory->kind != ECH_MEM_VECTOR)
        return windows;
    windows.kept = memory->kernel_reserved;
    const EchProgram *program = report->program;
    for (size_t i = 0; program && i < program->n_instructions; i++) {
        EchBytes own = ech_program_kept_bytes(program, (EchId)i);
        if (own == 0)
            continue;
        windows.kernels++;
        const EchKernelGrid *grid = program->scheduled ? NULL : ech_program_grid(program, (EchId)i);
        EchBytes most = grid ? ech_bytes_add(own, grid->results) : 0;
        windows.results = most > windows.kept && own <= windows.kept && ech_program_asked_bytes(&program->instructions[i], ECH_SPACE_VECTOR) == 0
                              ? MAX(windows.results, most)
                              : windows.results;
        windows.spilled = ech_bytes_add(windows.spilled, ech_onchip_fit(memory, own).spilled);
        if (own > windows.most) {
            windows.most = own;
            windows.kernel = program->instructions[i].name;
        }
    }
    return windows;
}

/* Longest operations */

static int compare_names(const void *a, const void *b)
{
    const EchNameTime *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? 1 : -1;
    int names = strcmp(x->name, y->name);
    if (names != 0)
        return names;
    return x->kind != y->kind ? (int)x->kind - (int)y->kind : x->price != y->price ? (int)x->price - (int)y->price : x->kernel_class - y->kernel_class;
}

static bool is_first_line_same(const char *a, const char *b)
{
    size_t n = strcspn(a, "\n");
    return a == b || (strncmp(a, b, n) == 0 && (b[n] == '\0' || b[n] == '\n'));
}

/** What is summed under a name, kind, price source and class, with those that share the first two behind it. */
typedef struct {
    EchNameTime sum;
    EchTime longest; /**< Of its spans: that one's bound is told. */
    size_t next;     /**< Index + 1 in the list of all; 0: the last. */
} NameSum;

/* Finds the sum that @span belongs to, from *first on; a new one begins with what its first span says. The pointer is good until the next call. */
static NameSum *sum_of(GArray *sums, size_t *first, const EchReport *report, const EchSpan *span)
{
    const EchRun *run = report->run;
    const EchOp *op = &ech_trace_ops(report->trace)[span->op];
    EchPriceSource price = 0;
    uint8_t class = 0;
    if (span->op < run->n_prices) {
        price = (EchPriceSource)run->prices[span->op].source;
        class = run->prices[span->op].kernel_class;
    }
    for (size_t at = *first; at != 0;) {
        NameSum *known = &g_array_index(sums, NameSum, at - 1);
        if (known->sum.price == price && known->sum.kernel_class == class)
            return known;
        at = known->next;
    }
    NameSum fresh = {.sum = {.name = ech_trace_string(report->trace, op->name),
                             .kind = op->kind,
                             .n_alike = 1,
                             .price = price,
                             .kernel_class = class,
                             .stack = ech_trace_string(report->trace, op->stack),
                             .one_asker = true},
                     .longest = -1,
                     .next = *first};
    g_array_append_val(sums, fresh);
    *first = sums->len;
    return &g_array_index(sums, NameSum, sums->len - 1);
}

EchNameTime *ech_report_longest(const EchReport *report, size_t most, size_t *ret_n)
{
    static const EchOpKind kinds[] = {ECH_OP_KERNEL, ECH_OP_COPY, ECH_OP_COLLECTIVE};
    const EchRun *run = report->run;
    size_t n_strings = ech_trace_n_strings(report->trace), used = 0;
    g_autofree size_t *firsts = g_new0(size_t, n_strings * G_N_ELEMENTS(kinds) + 1);
    g_autoptr(GArray) sums = g_array_new(FALSE, FALSE, sizeof(NameSum));
    g_autofree uint64_t *counts = ech_run_span_counts(run, report->trace);
    for (size_t i = 0; i < run->n_spans; i++) {
        const EchSpan *span = &run->spans[i];
        const EchOp *op = &ech_trace_ops(report->trace)[span->op];
        for (size_t k = 0; k < G_N_ELEMENTS(kinds); k++) {
            if (op->kind != kinds[k] || op->name >= n_strings)
                continue;
            NameSum *at = sum_of(sums, &firsts[op->name * G_N_ELEMENTS(kinds) + k], report, span);
            EchTime took = span->end - span->start;
            if (took > at->longest) {
                at->longest = took;
                at->sum.kernel_bound = span->op < run->n_prices ? run->prices[span->op].kernel_bound : 0;
            }
            at->sum.one_asker = at->sum.one_asker && is_first_line_same(at->sum.stack, ech_trace_string(report->trace, op->stack));
            at->sum.time = ech_time_add(at->sum.time, (EchTime)MIN(ech_bytes_mul((uint64_t)took, counts[i]), (uint64_t)INT64_MAX));
            at->sum.count += counts[i];
        }
    }
    EchNameTime *ret = g_new0(EchNameTime, sums->len + 1);
    for (guint i = 0; i < sums->len; i++) {
        if (g_array_index(sums, NameSum, i).sum.time > 0)
            ret[used++] = g_array_index(sums, NameSum, i).sum;
    }
    qsort(ret, used, sizeof *ret, compare_names);
    *ret_n = MIN(used, most);
    return ret;
}

/* Whether a line of a stack is one of a file, "dir/model.py:29:layer": neither a range ("nn.Module: layers.3") nor what was written while the program ran
 * ("<eval_with_key>.5:29:forward"); of a program in @python neither the interpreter's nor a library's in C, nor one of no number ("??:0:clone"). Its length
 * without the function; 0. */
static size_t source_length(const char *line, size_t n, bool python)
{
    const char *stop = g_strrstr_len(line, (gssize)n, ":");
    bool of_file = stop && stop > line + 2 && g_ascii_isdigit(stop[-1]) && memcmp(stop - 2, ":0", 2) != 0 && *line != '<';
    return of_file && (!python || g_strstr_len(line, stop - line, ".py:")) ? (size_t)(stop - line) : 0;
}

typedef struct {
    const char *at; /* NULL: none */
    size_t n;       /* bytes, without the function */
} Frame;

char *ech_report_source_line(const char *stack)
{
    Frame own = {NULL, 0}, library = {NULL, 0}, other = {NULL, 0}; /* innermost of each kind, so far as the module reaches */
    bool torch = false, called = false, python = strstr(stack, ".py:") != NULL;
    size_t n = strcspn(stack, "\n");
    const char *next = g_strstr_len(stack, (gssize)n, ".py:") ? stack : stack[n] ? stack + n + 1 : NULL; /* arrays' begin with a frame, not an operation */
    for (const char *at = next; at && !called && (!own.at || library.at); at = next) {
        n = strcspn(at, "\n");
        next = at[n] ? at + n + 1 : NULL;
        Frame frame = {at, source_length(at, n, python)};
        if (frame.n == 0)
            continue;
        bool installed = g_strstr_len(frame.at, (gssize)n, "-packages/"), of_torch = g_strstr_len(frame.at, (gssize)n, "-packages/torch/"),
             common =
                 of_torch || g_strstr_len(frame.at, (gssize)n, "/echelon/pretend/python/") || (!installed && g_strstr_len(frame.at, (gssize)n, "/lib/python"));
        torch |= of_torch;
        called = (own.at || library.at) && g_strstr_len(frame.at, (gssize)n, "-packages/torch/nn/modules/module.py:");
        Frame *of = common ? &other : installed ? &library : &own;
        if (!of->at)
            *of = frame;
    }
    /* Outside of modules a program that PyTorch runs says less of what a library makes (a trainer, a loss) than the library itself. */
    bool inner = own.at && torch && !called && library.at && library.at < own.at;
    Frame found = own.at && !inner ? own : library.at ? library : other;
    const char *slash = found.at ? g_strrstr_len(found.at, (gssize)found.n, "/") : NULL;
    const char *begin = slash ? slash + 1 : found.at;
    return found.at ? g_strndup(begin, found.n - (size_t)(begin - found.at)) : NULL;
}

size_t ech_report_stem(const char *name)
{
    size_t n = strlen(name), stem = n;
    while (stem > 0 && g_ascii_isdigit(name[stem - 1]))
        stem--;
    return stem < n && stem > 1 && name[stem - 1] == '.' ? stem - 1 : n;
}

static EchTime sum_of_times(const EchNameTime *times, size_t n)
{
    EchTime sum = 0;
    for (size_t i = 0; i < n; i++)
        sum = ech_time_add(sum, times[i].time);
    return sum;
}

EchNameTime *ech_report_longest_alike(const EchNameTime *times, size_t n, size_t most, size_t *ret_n)
{
    size_t used = 0;
    *ret_n = MIN(n, most);
    if (n <= most || sum_of_times(times, most) >= sum_of_times(times, n) / 2)
        return g_memdup2(times, *ret_n * sizeof *times);
    EchNameTime *alike = g_new(EchNameTime, n);
    g_autoptr(GHashTable) places = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL); /* what they share -> place + 1 */
    for (size_t i = 0; i < n; i++) {
        g_autofree char *line = ech_report_source_line(times[i].stack);
        g_autofree char *shared =
            g_strdup_printf("%d %d %d %.*s\n%.*s", times[i].kind, times[i].price, times[i].kernel_class, (int)ech_report_stem(times[i].name), times[i].name,
                            line ? (int)strlen(line) : (int)strcspn(times[i].stack, "\n"), line ? line : times[i].stack);
        size_t at = GPOINTER_TO_SIZE(g_hash_table_lookup(places, shared));
        if (at > 0) {
            alike[at - 1].time = ech_time_add(alike[at - 1].time, times[i].time);
            alike[at - 1].count += times[i].count;
            alike[at - 1].n_alike++;
        } else {
            alike[used++] = times[i];
            g_hash_table_insert(places, g_steal_pointer(&shared), GSIZE_TO_POINTER(used));
        }
    }
    qsort(alike, used, sizeof *alike, compare_names);
    *ret_n = MIN(used, most);
    return alike;
}

char *ech_report_buffer_name(const EchTrace *trace, EchId buffer)
{
    if (buffer >= ech_trace_n_buffers(trace))
        return g_strdup("?");
    const EchBuffer *b = &ech_trace_buffers(trace)[buffer];
    const char *name = ech_trace_string(trace, b->name), *shape = ech_trace_string(trace, b->shape);
    if (*name && !(strcmp(name, "[memory]") == 0 && b->stack != ECH_NONE)) /* What Kineto calls every allocation. */
        return g_strdup(name);
    /* Allocations of PyTorch are known by where they were asked for: the first frame of a program's own. */
    const char *stack = ech_trace_string(trace, b->stack);
    if (*stack && !*shape) {
        g_auto(GStrv) frames = g_strsplit(stack, "\n", -1);
        const char *frame = NULL;
        for (char **at = frames; *at; at++) {
            if (!frame && **at && !g_str_has_prefix(*at, "??"))
                frame = *at;
            if (strstr(*at, ".py") && !strstr(*at, "/torch/") && !g_str_has_prefix(*at, "torch/") && !strstr(*at, "site-packages")) {
                frame = *at;
                break;
            }
        }
        return frame ? g_strdup_printf("#%u %s", buffer, frame) : g_strdup_printf("#%u", buffer);
    }
    return *shape ? g_strdup_printf("#%u %s", buffer, shape) : g_strdup_printf("#%u", buffer);
}

/* All that a memory is to hold from the start, largest first. */
static EchHolder *resident_holders(const EchTrace *trace, const char *memory, size_t *ret_n)
{
    EchId id = ech_trace_find_memory(trace, memory);
    g_autoptr(GArray) out = g_array_new(FALSE, FALSE, sizeof(EchHolder));
    for (size_t i = 0; i < ech_trace_n_buffers(trace); i++) {
        const EchBuffer *b = &ech_trace_buffers(trace)[i];
        EchHolder holder = {.buffer = (EchId)i, .bytes = b->bytes};
        if (b->resident && b->bytes > 0 && b->alias_of == ECH_NONE && b->memory == id)
            g_array_append_val(out, holder);
    }
    g_array_sort(out, compare_holders);
    *ret_n = out->len;
    return (EchHolder *)(void *)g_array_steal(out, NULL);
}

EchHolder *ech_report_failure_holders(const EchReport *report, size_t *ret_n)
{
    const EchFailure *f = &report->run->failure;
    if (f->op == ECH_NONE && f->buffer == ECH_NONE)
        return resident_holders(report->trace, f->memory, ret_n);
    size_t n;
    EchHolder *all = holders_of(report, f->memory, f->time, true, &n);
    EchBytes sum = 0;
    for (size_t i = 0; i < n; i++)
        sum = ech_bytes_add(sum, all[i].bytes);
    if (sum == f->live) {
        *ret_n = n;
        return all;
    }
    g_free(all);
    *ret_n = f->n_holders;
    return g_memdup2(f->holders, f->n_holders * sizeof *f->holders);
}

/* What buffers of one origin have in common: their name, without the number that tells one from another. */
static char *group_name(const EchReport *report, EchId buffer)
{
    const EchBuffer *b = &ech_trace_buffers(report->trace)[buffer];
    g_autofree char *name = ech_report_buffer_name(report->trace, buffer);
    if (*ech_trace_string(report->trace, b->name) && *name != '#')
        return g_steal_pointer(&name);
    const char *space = *name == '#' ? strchr(name, ' ') : NULL;
    /* An innermost frame of C++ is where the stack was taken, or a library. */
    if (space)
        return g_strdup(strstr(space, ".cpp:") || strstr(space, ".cu:") ? "(without a line of Python)" : space + 1);
    return g_strdup(b->resident ? "(in use before the recording)" : "(without a name)");
}

static int by_group_bytes(const void *a, const void *b)
{
    const EchHolderGroup *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return (x->buffer > y->buffer) - (x->buffer < y->buffer);
}

/* Per buffer that is no view, the stack of the first op in a module that uses it; ECH_NONE: none does. */
static EchId *module_stacks(const EchTrace *trace)
{
    size_t n_buffers = ech_trace_n_buffers(trace);
    EchId *of = g_new(EchId, n_buffers + 1);
    g_autofree uint8_t *known = g_new0(uint8_t, ech_trace_n_strings(trace) + 1); /* 0: not asked, 1: in no module, 2: in one */
    for (size_t b = 0; b <= n_buffers; b++)
        of[b] = ECH_NONE;
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        if (op->kind != ECH_OP_KERNEL || op->n_uses == 0 || op->stack >= ech_trace_n_strings(trace))
            continue;
        if (known[op->stack] == 0)
            known[op->stack] = ech_stack_has_module(ech_trace_string(trace, op->stack)) ? 2 : 1;
        for (uint32_t u = op->first_use; known[op->stack] == 2 && u < op->first_use + op->n_uses; u++) {
            EchId root = ech_buffer_root(ech_trace_buffers(trace), ech_trace_uses(trace)[u].buffer, NULL);
            of[root] = of[root] == ECH_NONE ? op->stack : of[root];
        }
    }
    return of;
}

/* "FluxTransformer2DModel", of a stack's outermost module; NULL where that has a path in another that is called elsewhere. */
static char *outermost_module(const char *stack)
{
    const char *found = NULL;
    for (const char *at = strstr(stack, ECH_RANGE_MODULE); at; at = strstr(at + 1, ECH_RANGE_MODULE))
        found = at + strlen(ECH_RANGE_MODULE);
    size_t n = strcspn(found, "\n");
    return g_strstr_len(found, (gssize)n, " (") ? NULL : g_strndup(found, n);
}

char *ech_report_parts(const EchReport *report, const EchHolder *holders, size_t n)
{
    g_autofree EchId *stacks = module_stacks(report->trace);
    EchTally *tally = ech_tally_new();
    for (size_t i = 0; i < n; i++) {
        if (ech_trace_buffers(report->trace)[holders[i].buffer].role != ECH_ROLE_PARAMETER || stacks[holders[i].buffer] == ECH_NONE)
            continue;
        char *module = outermost_module(ech_trace_string(report->trace, stacks[holders[i].buffer]));
        if (module)
            ech_tally_add(tally, module, holders[i].bytes);
    }
    g_autoptr(GArray) rows = ech_tally_end(tally);
    ech_tally_drop_trifles(rows);
    g_autoptr(GString) text = g_string_new(NULL);
    for (guint i = 0; i < rows->len; i++) {
        const EchTallyRow *row = &g_array_index(rows, EchTallyRow, i);
        g_autofree char *bytes = ech_format_bytes(row->bytes);
        g_string_append_printf(text, "%s%s %s", i ? ", " : "", row->name, bytes);
    }
    return rows->len > 1 ? g_string_free(g_steal_pointer(&text), FALSE) : NULL;
}

EchHolderGroup *ech_report_holder_groups(const EchReport *report, const EchHolder *holders, size_t n, size_t *ret_n)
{
    EchHolderGroup *out = g_new0(EchHolderGroup, n + 1);
    g_autoptr(GHashTable) known = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL); /* role and name to index + 1 */
    size_t n_out = 0;
    for (size_t i = 0; i < n; i++) {
        g_autofree char *name = group_name(report, holders[i].buffer);
        g_autofree char *key = g_strdup_printf("%u %s", ech_trace_buffers(report->trace)[holders[i].buffer].role, name);
        size_t at = GPOINTER_TO_SIZE(g_hash_table_lookup(known, key));
        if (at == 0) {
            out[n_out] = (EchHolderGroup){g_steal_pointer(&name), holders[i].buffer, holders[i].bytes, 1};
            g_hash_table_insert(known, g_steal_pointer(&key), GSIZE_TO_POINTER(n_out + 1));
            n_out++;
        } else {
            out[at - 1].bytes = ech_bytes_add(out[at - 1].bytes, holders[i].bytes);
            out[at - 1].buffers++;
        }
    }
    if (n_out > 0)
        qsort(out, n_out, sizeof *out, by_group_bytes);
    /* One alone keeps its number: it is found by it. */
    for (size_t i = 0; i < n_out; i++) {
        if (out[i].buffers > 1 || *out[i].name == '(')
            continue;
        g_free(out[i].name);
        out[i].name = ech_report_buffer_name(report->trace, out[i].buffer);
    }
    *ret_n = n_out;
    return out;
}

void ech_holder_groups_free(EchHolderGroup *groups, size_t n)
{
    for (size_t i = 0; i < n; i++)
        g_free(groups[i].name);
    g_free(groups);
}

GBytes *ech_report_gzip(const void *data, size_t n)
{
    z_stream stream = {0};
    int code = deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    g_assert(code == Z_OK);
    g_autoptr(GByteArray) out = g_byte_array_new();
    guint8 buffer[1 << 16];
    stream.next_in = (Bytef *)(uintptr_t)data;
    size_t left = n;
    do {
        if (stream.avail_in == 0 && left > 0) {
            stream.avail_in = (uInt)MIN(left, (size_t)1 << 30);
            left -= stream.avail_in;
        }
        stream.next_out = buffer;
        stream.avail_out = sizeof buffer;
        code = deflate(&stream, left == 0 ? Z_FINISH : Z_NO_FLUSH);
        g_byte_array_append(out, buffer, (guint)(sizeof buffer - stream.avail_out));
    } while (code != Z_STREAM_END);
    deflateEnd(&stream);
    return g_byte_array_free_to_bytes(g_steal_pointer(&out));
}
