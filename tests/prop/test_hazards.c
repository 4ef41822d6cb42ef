/* What is read has been written, and what is written over has been read: on every engine queue, whatever moved the copies. Each shipped program as it was
 * compiled, and after the passes that make or move copies. And where their buffers are placed anew, no two that live at once share a byte. */
#include "sim/pass/pass.h"
#include "tests/support/made.h"
#include "tests/support/random.h"

#include <check.h>

/* Every instance's span, by op and number. */
typedef struct {
    const EchTrace *trace;
    EchId *region; /* per op: the LOOP it is in */
    GArray **of;   /* per op: EchSpan, in order of their numbers */
} Timeline;

static gint compare_iteration(gconstpointer a, gconstpointer b)
{
    const EchSpan *x = a, *y = b;
    return (x->iteration > y->iteration) - (x->iteration < y->iteration);
}

static Timeline timeline_new(const EchTrace *trace, const EchRun *run)
{
    size_t n = ech_trace_n_ops(trace);
    Timeline t = {trace, g_new(EchId, n + 1), g_new0(GArray *, n + 1)};
    g_autoptr(GArray) ends = g_array_new(FALSE, FALSE, sizeof(EchId)), open = g_array_new(FALSE, FALSE, sizeof(EchId));
    for (EchId i = 0; i < n; i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        while (ends->len > 0 && g_array_index(ends, EchId, ends->len - 1) == i) {
            g_array_set_size(ends, ends->len - 1);
            g_array_set_size(open, open->len - 1);
        }
        t.region[i] = open->len > 0 ? g_array_index(open, EchId, open->len - 1) : ECH_NONE;
        t.of[i] = g_array_new(FALSE, FALSE, sizeof(EchSpan));
        EchId end = i + 1 + op->target;
        if (op->kind == ECH_OP_LOOP) {
            g_array_append_val(open, i);
            g_array_append_val(ends, end);
        }
    }
    for (size_t k = 0; k < run->n_spans; k++)
        g_array_append_val(t.of[run->spans[k].op], run->spans[k]);
    for (size_t i = 0; i < n; i++)
        g_array_sort(t.of[i], compare_iteration);
    return t;
}

static void timeline_clear(Timeline *t)
{
    for (size_t i = 0; i < ech_trace_n_ops(t->trace); i++)
        g_array_unref(t->of[i]);
    g_free(t->of);
    g_free(t->region);
}

static EchId outermost(const Timeline *t, EchId op)
{
    while (t->region[op] != ECH_NONE)
        op = t->region[op];
    return op;
}

/* Is every instance of @second that must come behind one of @first there after it? Of one iteration those of one body; of bodies apart all. */
static bool in_order(const Timeline *t, EchId first, EchId second)
{
    const GArray *a = t->of[first], *b = t->of[second];
    if (t->region[first] == t->region[second] && t->region[first] != ECH_NONE) {
        for (guint k = 0; k < MIN(a->len, b->len); k++)
            if (g_array_index(a, EchSpan, k).end > g_array_index(b, EchSpan, k).start)
                return false;
        return true;
    }
    if (outermost(t, first) == outermost(t, second))
        return true; /* of loops in loops: which of their instances go together is not told here */
    EchTime last = 0, earliest = INT64_MAX;
    for (guint k = 0; k < a->len; k++)
        last = MAX(last, g_array_index(a, EchSpan, k).end);
    for (guint k = 0; k < b->len; k++)
        earliest = MIN(earliest, g_array_index(b, EchSpan, k).start);
    return last <= earliest;
}

/* Each pair of uses of a buffer of which one writes and one takes all of it. */
static size_t hazards(const EchTrace *trace, const EchRun *run, const char *what)
{
    Timeline t = timeline_new(trace, run);
    const EchOp *ops = ech_trace_ops(trace);
    const EchUse *uses = ech_trace_uses(trace);
    const EchBuffer *buffers = ech_trace_buffers(trace);
    size_t checked = 0;
    g_autoptr(GPtrArray) users = g_ptr_array_new_with_free_func((GDestroyNotify)g_array_unref);
    for (size_t b = 0; b < ech_trace_n_buffers(trace); b++)
        g_ptr_array_add(users, g_array_new(FALSE, FALSE, sizeof(EchId)));
    for (EchId i = 0; i < ech_trace_n_ops(trace); i++)
        for (uint32_t u = 0; u < ops[i].n_uses; u++) {
            const EchUse *use = &uses[ops[i].first_use + u];
            GArray *before = users->pdata[use->buffer];
            for (guint k = 0; k < before->len; k++) {
                EchId j = g_array_index(before, EchId, k);
                for (uint32_t v = 0; v < ops[j].n_uses && j != i; v++) {
                    const EchUse *other = &uses[ops[j].first_use + v];
                    bool whole = MAX(use->bytes, other->bytes) >= buffers[use->buffer].bytes;
                    if (other->buffer != use->buffer || !whole || (use->access != ECH_WRITE && other->access != ECH_WRITE))
                        continue;
                    ck_assert_msg(in_order(&t, j, i), "%s: op %u '%s' %s what op %u '%s' %s before that is over (buffer %u '%s')", what, i,
                                  ech_trace_string(trace, ops[i].name), use->access == ECH_WRITE ? "writes" : "reads", j, ech_trace_string(trace, ops[j].name),
                                  other->access == ECH_WRITE ? "writes" : "reads", use->buffer, ech_trace_string(trace, buffers[use->buffer].name));
                    checked++;
                }
            }
            if (before->len == 0 || g_array_index(before, EchId, before->len - 1) != i)
                g_array_append_val(before, i);
        }
    timeline_clear(&t);
    return checked;
}

static gint compare_begin(gconstpointer a, gconstpointer b)
{
    const EchPlaced *x = *(EchPlaced *const *)a, *y = *(EchPlaced *const *)b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Of hbm's buffers, each pair that lives at once. */
static size_t overlaps(const EchTrace *trace, const EchRun *run, const char *what)
{
    g_autoptr(GPtrArray) all = g_ptr_array_new(), live = g_ptr_array_new();
    EchId hbm = ech_trace_find_memory(trace, "hbm");
    for (size_t i = 0; i < run->n_placed; i++) {
        if (ech_trace_buffers(trace)[run->placed[i].buffer].memory == hbm && run->placed[i].place.rounded > 0)
            g_ptr_array_add(all, &run->placed[i]);
    }
    g_ptr_array_sort(all, compare_begin);
    size_t checked = 0;
    for (guint i = 0; i < all->len; i++) {
        const EchPlaced *a = all->pdata[i];
        for (guint k = live->len; k-- > 0;) {
            const EchPlaced *b = live->pdata[k];
            if (b->end >= 0 && b->end <= a->begin) {
                g_ptr_array_remove_index_fast(live, k);
                continue;
            }
            bool apart = a->place.address >= b->place.address + b->place.rounded || b->place.address >= a->place.address + a->place.rounded;
            ck_assert_msg(apart, "%s: buffers %u '%s' and %u '%s' share a place at %" G_GINT64_FORMAT, what, a->buffer,
                          ech_trace_string(trace, ech_trace_buffers(trace)[a->buffer].name), b->buffer,
                          ech_trace_string(trace, ech_trace_buffers(trace)[b->buffer].name), a->begin);
            checked++;
        }
        g_ptr_array_add(live, (gpointer)(uintptr_t)a);
    }
    return checked;
}

static const char *const programs[] = {"adam_stacked_none.v5e",  "adam_stacked_none.h100",    "adam_moments.v5e",    "adam_none.h100",     "cache_scan.v5e",
                                       "decode_64.v5e",          "gpt_everything.h100",       "gpt_everything.v5e",  "gpt_offload.h100",   "gpt_offload.v6e",
                                       "gpt_unrolled_kept.h100", "gpt_unrolled_overlap.h100", "mlp_activations.v5e", "mlp_parameters.v6e", "sharded_mlp.v5e"};
/* Passes over programs come first. */
static const struct {
    const char *program[5], *trace[5];
} asked[] = {
    {{NULL}, {NULL}},
    {{NULL}, {"prefetch", NULL}},
    {{NULL}, {"prefetch:depth=1", NULL}},
    {{NULL}, {"offload:idle=0,above=4KiB", NULL}},
    {{NULL}, {"offload:idle=0,above=4KiB,overlap=true", NULL}},
    {{NULL}, {"offload:idle=0,above=4KiB,overlap=true", "prefetch:depth=2,lookahead=3", NULL}},
    {{NULL}, {"offload:what=arguments,above=4KiB,overlap=true", "prefetch", NULL}},
    {{NULL}, {"remat:above=1", NULL}},
    {{NULL}, {"remat:above=1,products=false", "offload:idle=0,above=4KiB,overlap=true", "prefetch", NULL}},
    {{NULL}, {"plan", NULL}},
    {{NULL}, {"offload:idle=0,above=4KiB", "plan", NULL}},
    {{NULL}, {"offload:idle=0,above=4KiB", "prefetch", "plan:planner=greedy", NULL}},
    {{NULL}, {"offload:idle=0,above=4KiB,overlap=true", "prefetch:depth=2,lookahead=3", "plan", NULL}},
    {{NULL}, {"offload:what=arguments,above=4KiB", "prefetch:depth=2", "plan", NULL}},
    {{NULL}, {"remat:above=1", "plan", NULL}},
    {{NULL}, {"remat:above=1", "offload:what=arguments,above=4KiB", "prefetch", "plan", NULL}},
    {{NULL}, {"slice:above=1", "plan", NULL}},
    {{NULL}, {"slice:above=1", "offload:what=arguments,above=4KiB", "plan", NULL}},
    {{NULL}, {"remat:above=1", "slice:above=1", "offload:what=arguments,above=4KiB,overlap=true", "prefetch", NULL}},
    {{NULL}, {"schedule", NULL}},
    {{NULL}, {"offload:idle=0,above=4KiB", "schedule", "plan", NULL}},
    {{NULL}, {"offload:what=arguments,above=4KiB,idle=1000000", "schedule:copies=1,memory=1MiB", "plan", NULL}},
    {{NULL}, {"offload:what=arguments,above=4KiB,overlap=true", "prefetch", "schedule:copies=2", NULL}},
    {{NULL}, {"slice:above=1", "offload:what=arguments,above=4KiB", "schedule", "plan", NULL}},
    {{"donate:what=none", "place:prefetches=3", NULL}, {NULL}},
    {{"place:policy=none", "donate", NULL}, {"offload:what=arguments,above=4KiB,overlap=true", "prefetch", NULL}},
    {{"place:vmem=4MiB", NULL}, {"prefetch:lookahead=10", NULL}},
    {{"place:policy=none", "donate", "carry", "place", NULL}, {NULL}},
};

static void add_passes(GPtrArray *passes, const char *const *specs, GString *what)
{
    for (; *specs != NULL; specs++) {
        GError *error = NULL;
        EchPass *made = ech_pass_new(*specs, &error);
        ck_assert_ok(made != NULL, error);
        g_ptr_array_add(passes, made);
        g_string_append_printf(what, " %s", *specs);
    }
}

/* A program in the making: loops in loops, kernels, and copies of queues of their own, each of which what touches the same arrays waits for. */
typedef struct {
    EchTraceBuilder *b;
    uint64_t state;
    GArray *live, *under_way; /* EchId: buffers; copies that nothing has waited for */
    EchId hbm, host, last;    /* last: of the queue that computes, in the body at hand */
} Making;

static uint64_t any(Making *m, uint64_t n)
{
    return ech_test_draw(&m->state) % n;
}

static bool touches(const Making *m, EchId op, EchId buffer)
{
    const EchOp *o = ech_trace_builder_peek_op(m->b, op);
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++)
        if (ech_trace_builder_peek_use(m->b, u)->buffer == buffer)
            return true;
    return false;
}

/* The last op waits for the copies that touch @buffer; ECH_NONE: for all. */
static void wait_for(Making *m, EchId buffer)
{
    EchId self = (EchId)ech_trace_builder_n_ops(m->b) - 1;
    bool core = ech_trace_builder_peek_op(m->b, self)->queue == 0;
    for (guint k = m->under_way->len; k-- > 0;) {
        EchId copy = g_array_index(m->under_way, EchId, k);
        if (copy == self || (buffer != ECH_NONE && !touches(m, copy, buffer)))
            continue;
        ech_trace_builder_dep(m->b, copy, 0);
        if (core)
            g_array_remove_index(m->under_way, k);
    }
}

static void add_use(Making *m, EchId buffer, EchAccess access)
{
    EchBytes bytes = ech_trace_builder_peek_buffer(m->b, buffer)->bytes;
    ech_trace_builder_use(m->b, buffer, access, any(m, 4) == 0 ? bytes / 4 : bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
    wait_for(m, buffer);
}

static void compute(Making *m, EchId made)
{
    m->last = (EchId)ech_trace_builder_n_ops(m->b);
    ech_test_kernel(m->b, (EchTime)(1 + any(m, 20)) * ECH_TEST_MS, ECH_NONE, ECH_READ, 0);
    if (made != ECH_NONE)
        ech_trace_builder_use(m->b, made, ECH_WRITE, ech_trace_builder_peek_buffer(m->b, made)->bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
    for (uint64_t n = any(m, 3); n > 0; n--) {
        EchId buffer = g_array_index(m->live, EchId, any(m, m->live->len));
        if (buffer != made && !touches(m, m->last, buffer))
            add_use(m, buffer, any(m, 3) == 0 ? ECH_WRITE : ECH_READ);
    }
}

static void copy(Making *m)
{
    EchId here = g_array_index(m->live, EchId, any(m, m->live->len)), there = (EchId)any(m, 2); /* the first two are the host's */
    if (ech_trace_builder_peek_buffer(m->b, here)->memory != m->hbm)
        return;
    bool in = any(m, 2) == 0;
    EchOp o = ech_op_init(ECH_OP_COPY);
    o.name = ech_trace_builder_string(m->b, in ? "in" : "out", -1);
    o.queue = in ? 1 : 2;
    o.memory_from = in ? m->host : m->hbm;
    o.memory_to = in ? m->hbm : m->host;
    o.bytes = MIN(ech_trace_builder_peek_buffer(m->b, here)->bytes, ech_trace_builder_peek_buffer(m->b, there)->bytes);
    EchId made = ech_trace_builder_op(m->b, o);
    ech_trace_builder_use(m->b, in ? there : here, ECH_READ, o.bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_use(m->b, in ? here : there, ECH_WRITE, o.bytes, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_dep(m->b, m->last, 0);
    wait_for(m, here);
    wait_for(m, there);
    g_array_append_val(m->under_way, made);
}

static void wait_for_all(Making *m)
{
    m->last = ech_test_put(m->b, ECH_OP_WAIT, ECH_NONE);
    wait_for(m, ECH_NONE);
}

static void make_body(Making *m, unsigned depth, EchId loop)
{
    guint outside = m->live->len;
    compute(m, ECH_NONE);
    for (uint64_t n = 3 + any(m, 7); n > 0; n--) {
        uint64_t what = any(m, 10);
        if (what < 3) {
            static const EchRole roles[] = {ECH_ROLE_ACTIVATION, ECH_ROLE_TEMPORARY, ECH_ROLE_UNKNOWN};
            EchId made = ech_test_buffer(m->b, "made", UINT64_C(1) << (18 + any(m, 6)), roles[any(m, 3)], false);
            ech_trace_builder_peek_buffer(m->b, made)->loop = loop;
            (void)ech_test_put(m->b, ECH_OP_ALLOC, made);
            compute(m, made);
            g_array_append_val(m->live, made);
        } else if (what < 6) {
            compute(m, ECH_NONE);
        } else if (what < 8) {
            copy(m);
        } else if (depth < 3) {
            wait_for_all(m);
            EchId inner = ech_test_loop(m->b, 1 + any(m, 6));
            make_body(m, depth + 1, inner);
            ech_test_close_loop(m->b, inner);
            m->last = inner;
        }
    }
    wait_for_all(m);
    for (; m->live->len > outside; g_array_set_size(m->live, m->live->len - 1))
        (void)ech_test_put(m->b, ECH_OP_FREE, g_array_index(m->live, EchId, m->live->len - 1));
}

static EchTrace *made_at_random(uint64_t seed)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    (void)ech_trace_builder_queue(b, "dma host>hbm", ECH_QUEUE_COPY, 0);
    (void)ech_trace_builder_queue(b, "dma hbm>host", ECH_QUEUE_COPY, 0);
    g_autoptr(GArray) live = g_array_new(FALSE, FALSE, sizeof(EchId)), under_way = g_array_new(FALSE, FALSE, sizeof(EchId));
    Making m = {b, seed, live, under_way, ech_trace_builder_memory(b, "hbm"), ech_trace_builder_memory(b, "host"), ECH_NONE};
    for (unsigned k = 0; k < 4; k++) {
        EchId given = ech_test_buffer(b, "given", UINT64_C(1) << (19 + any(&m, 4)), k < 2 ? ECH_ROLE_UNKNOWN : ECH_ROLE_PARAMETER, true);
        if (k < 2)
            ech_trace_builder_peek_buffer(b, given)->memory = m.host;
        else
            g_array_append_val(live, given);
    }
    make_body(&m, 0, ECH_NONE);
    return ech_test_finish(b);
}

static EchRun *replayed(const EchTrace *trace, const EchDevice *device)
{
    EchReplayOptions options = {0};
    GError *error = NULL;
    ech_params_defaults(ech_replay_params, &options);
    options.engine = ECH_ENGINE_NATIVE;
    options.skip_steady = 0;
    EchRun *run = ech_replay_run(trace, device, NULL, &options, &error);
    ech_params_clear(ech_replay_params, &options);
    ck_assert_ok(run != NULL, error);
    return run;
}

/* Programs nobody would write: passes leave every one of them legal, and none that gives memory back for it takes more. */
START_TEST(at_random)
{
    static const struct {
        const char *specs[5];
        bool saves;
    } passes[] = {
        {{NULL}, true},
        {{"prefetch:depth=2", NULL}, false},
        {{"offload:idle=0,above=1", NULL}, true},
        {{"offload:idle=0,above=1,overlap=true", "prefetch:depth=2", NULL}, false},
        {{"offload:what=arguments,idle=0,above=1", NULL}, true},
        {{"offload:what=arguments,idle=0,above=1", "offload:idle=0,above=1", "prefetch", "plan", NULL}, false},
        {{"remat:above=1", NULL}, true},
        {{"remat:above=1", "offload:idle=0,above=1", "plan", NULL}, false},
        {{"serial", NULL}, true},
        {{"plan", NULL}, true},
    };
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", NULL);
    g_autoptr(EchDiag) diag = ech_diag_new();
    uint64_t seed = ech_test_seed_of(_i);
    g_autoptr(EchTrace) in = made_at_random(seed);
    g_autoptr(EchRun) before = replayed(in, device);
    for (size_t k = 0; k < G_N_ELEMENTS(passes); k++) {
        g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, passes[k].specs);
        g_autoptr(EchRun) run = replayed(out, device);
        g_autofree char *what = g_strdup_printf("program %d, passes %zu", _i, k);
        ck_assert_msg(run->completed, "%s", what);
        hazards(out, run, what);
        ck_assert_msg(!passes[k].saves || ech_test_peak(run, "hbm") <= ech_test_peak(before, "hbm"), "%s: %" G_GUINT64_FORMAT " after %" G_GUINT64_FORMAT, what,
                      ech_test_peak(run, "hbm"), ech_test_peak(before, "hbm"));
    }
}
END_TEST

START_TEST(nothing_too_early)
{
    g_autofree char *name = g_strconcat(ECH_SOURCE_DIR "/traces/", programs[_i], NULL), *device_name = ech_test_device_of(programs[_i]);
    g_autoptr(EchImport) import = ech_test_import(name, NULL);
    g_autoptr(EchDevice) device = ech_test_device(device_name, NULL);
    GError *error = NULL;
    g_autoptr(EchDiag) diag = ech_diag_new();
    size_t n_planned = 0;
    for (size_t k = 0; k < G_N_ELEMENTS(asked); k++) {
        g_autoptr(GPtrArray) first = g_ptr_array_new_with_free_func((GDestroyNotify)ech_pass_free);
        g_autoptr(GPtrArray) then = g_ptr_array_new_with_free_func((GDestroyNotify)ech_pass_free);
        g_autoptr(GString) what = g_string_new(programs[_i]);
        add_passes(first, asked[k].program, what);
        add_passes(then, asked[k].trace, what);
        g_autoptr(EchProgram) program = ech_passes_run_program(first, device, import->program, diag, &error);
        ck_assert_ok(program != NULL, error);
        EchProgramAssignment *places = ech_program_assign(program, 0, diag, &error);
        ck_assert_ok(places != NULL, error);
        ech_program_set_assignment(program, places, "made by echelon");
        g_autoptr(EchTrace) in = ech_program_lower(program, device, &(EchLowerOptions){0}, diag, &error);
        ck_assert_ok(in != NULL, error);
        g_autoptr(EchTrace) out = ech_passes_run_trace(then, device, in, diag, &error);
        ck_assert_ok(out != NULL, error);
        g_autoptr(EchRun) run = replayed(out, device);
        ck_assert_uint_gt(hazards(out, run, what->str), 0);
        bool planned = g_strcmp0(ech_trace_get_property(out, "planned_anew"), "hbm") == 0;
        n_planned += planned;
        ck_assert(!planned || overlaps(out, run, what->str) > 0);
    }
    ck_assert_uint_ge(n_planned, 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hazards");
    TCase *tcase = tcase_create("hazards");
    tcase_add_loop_test(tcase, nothing_too_early, 0, G_N_ELEMENTS(programs));
    ech_test_print_seed();
    tcase_add_loop_test(tcase, at_random, 0, 200);
    suite_add_tcase(suite, tcase);
    return ech_test_main(suite);
}
