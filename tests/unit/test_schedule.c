/* The schedule pass, and the scheduler behind it: against what XLA's compilers made of the same, by hand what its rules say, and what it must not do. */
#include "models/device/device_yaml.h"
#include "models/place/latency_hiding.h"
#include "tests/support/made.h"
#include "tests/support/random.h"

#include <check.h>

static const EchTime ms = ECH_TEST_MS;
static const EchBytes GB = 1000000000;

/* ---- what is compiled ---- */

/* Steps compiled with their optimizer's state on the device, and what the same compilers made of them with it on the host. */
static const struct {
    const char *kept, *compiled, *names;
    double memory, time; /* relative errors allowed */
} pairs[] = {
    {"adam_none.v5e", "adam_moments.v5e", "state*", .01, .001},
    {"adam_none.h100", "adam_moments.h100", "state*", .01, .001},
    {"adam_stacked_none.v5e", "adam_stacked_whole.v5e", "moments*", .04, .001},
    {"adam_stacked_none.v6e", "adam_stacked_whole.v6e", "moments*", .001, .001},
    {"adam_stacked_none.h100", "adam_stacked_whole.h100", "moments*", .001, .001},
};

static void compare(EchTrace *trace, EchTrace *compiled, const EchDevice *device, int i, const char *what)
{
    g_autoptr(EchRun) told = ech_test_replay(trace, device), known = ech_test_replay(compiled, device);
    double memory = (double)ech_test_peak(told, "hbm") / (double)ech_test_peak(known, "hbm") - 1, time = (double)told->makespan / (double)known->makespan - 1;
    ck_assert_msg(memory > -pairs[i].memory && memory < pairs[i].memory, "%s, %s: memory %+.2f %%", pairs[i].compiled, what, 100 * memory);
    ck_assert_msg(time > -pairs[i].time && time < pairs[i].time, "%s, %s: time %+.2f %%", pairs[i].compiled, what, 100 * time);
}

START_TEST(as_compiled)
{
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autofree char *name = ech_test_device_of(pairs[_i].kept), *offload = g_strdup_printf("offload:what=arguments,names=%s", pairs[_i].names);
    g_autoptr(EchDevice) device = ech_test_device(name, NULL);
    g_autoptr(EchTrace) kept = ech_test_shipped(pairs[_i].kept, device, diag), compiled = ech_test_shipped(pairs[_i].compiled, device, diag);
    g_autoptr(EchTrace) told = ech_test_pass(kept, device, diag, (const char *const[]){offload, "schedule", "plan", NULL});
    ck_assert(ech_trace_get_property(told, "offload_early_bytes") == NULL);
    compare(told, compiled, device, _i, "told");
    /* What is scheduled already is scheduled so again. */
    g_autoptr(EchTrace) again = ech_test_pass(compiled, device, diag, (const char *const[]){"schedule", "plan", NULL});
    compare(again, compiled, device, _i, "again");
}
END_TEST

/* ---- the scheduler ---- */

/* Steps of 50 ms, copies of 90 to the device before step 3: where each starts and is waited for. */
static const struct {
    uint32_t copies, limit, depth;
    bool backs_up;
    uint32_t start[2], done[2];
} fetches[] = {
    /* What is an argument starts as early as may be; what came by a copy itself as late as its own length allows. */
    {1, 5, 0, true, {0}, {3}},
    {1, 5, 1, true, {1}, {3}},
    /* Two at once; one behind the other, the first of which makes way as soon as it could be over, or stays. */
    {2, 2, 1, true, {1, 1}, {3, 3}},
    {2, 1, 0, true, {1, 0}, {3, 1}},
    {2, 1, 0, false, {0, 0}, {3, 0}},
};

START_TEST(fetched)
{
    const EchHideStep steps[4] = {{.length = 50 * ms}, {.length = 50 * ms}, {.length = 50 * ms}, {.length = 50 * ms, .waits = true}};
    EchHideCopy copies[2];
    for (int k = 0; k < 2; k++)
        copies[k] = (EchHideCopy){.to_device = true, .length = 90 * ms, .depth = fetches[_i].depth, .until = 3};
    const EchHideProblem problem = {.steps = steps,
                                    .n_steps = 4,
                                    .copies = copies,
                                    .n_copies = fetches[_i].copies,
                                    .rules = {fetches[_i].limit, fetches[_i].backs_up, true},
                                    .memory = UINT64_MAX};
    EchHideEvent events[4];
    uint32_t flying;
    ck_assert_int_eq(ech_hide_latencies(&problem, events, &flying), 0);
    ck_assert_uint_eq(flying, MIN(fetches[_i].copies, fetches[_i].limit));
    for (uint32_t e = 0; e < 2 * problem.n_copies; e++)
        ck_assert_msg(events[e].step == (events[e].done ? fetches[_i].done : fetches[_i].start)[events[e].copy], "copy %u %s before step %u", events[e].copy,
                      events[e].done ? "waited for" : "starts", events[e].step);
}
END_TEST

/* Of two arrays of 100 bytes, brought for steps 1 and 2, both are there at once only where that has room. */
START_TEST(fetched_within)
{
    const EchHideStep steps[3] = {{.length = 50 * ms, .before = 210, .most = 210},
                                  {.length = 50 * ms, .before = 210, .most = 210, .waits = true},
                                  {.length = 50 * ms, .before = 110, .most = 110, .waits = true}};
    const EchHideCopy copies[2] = {{.to_device = true, .length = 90 * ms, .bytes = 100, .until = 1},
                                   {.to_device = true, .length = 90 * ms, .bytes = 100, .until = 2}};
    EchHideProblem problem = {.steps = steps, .n_steps = 3, .at_end = 10, .copies = copies, .n_copies = 2, .rules = {5, true, true}, .memory = 1000};
    EchHideEvent events[4];
    ck_assert_int_eq(ech_hide_latencies(&problem, events, NULL), 210);
    ck_assert(events[1].step == 0 && !events[1].done);
    problem.memory = 150;
    ck_assert_int_eq(ech_hide_latencies(&problem, events, NULL), 110);
    ck_assert(events[2].copy == 1 && events[2].step == 2 && !events[2].done && events[3].copy == 1 && events[3].step == 2);
}
END_TEST

/* What goes out is waited for last, whatever was brought for it: state that is brought, updated and sent back is all there in between. */
START_TEST(updated)
{
    enum { N = 4 };
    EchHideStep steps[N];
    EchHideCopy copies[2 * N];
    EchHideOrder orders[N];
    for (uint32_t k = 0; k < N; k++) {
        steps[k] = (EchHideStep){.length = ms, .depth = 1, .waits = true};
        copies[2 * k] = (EchHideCopy){.to_device = true, .length = 100 * ms, .until = k};
        copies[2 * k + 1] = (EchHideCopy){.length = 100 * ms, .depth = 1, .after = k + 1, .until = N, .used = k + 1};
        orders[k] = (EchHideOrder){2 * k, 2 * k + 1};
    }
    const EchHideProblem problem = {
        .steps = steps, .n_steps = N, .copies = copies, .n_copies = 2 * N, .orders = orders, .n_orders = N, .rules = {2, true, true}, .memory = UINT64_MAX};
    EchHideEvent events[4 * N];
    (void)ech_hide_latencies(&problem, events, NULL);
    for (uint32_t e = 0, brought = 0; e < 4 * N; e++) {
        brought += events[e].done && events[e].copy % 2 == 0;
        ck_assert(!events[e].done || events[e].copy % 2 == 0 || brought == N);
    }
}
END_TEST

/* Problems at random: each copy is between what it must be, no more are under way than may be, and all else is scheduled beside. */
START_TEST(at_random)
{
    enum { STEPS = 12, COPIES = 10 };
    uint64_t state = ech_test_seed_of(_i);
    EchHideStep steps[STEPS];
    EchHideCopy copies[COPIES];
    EchHideOrder orders[COPIES];
    EchHideProblem p = {.steps = steps, .n_steps = (uint32_t)(ech_test_draw(&state) % STEPS), .copies = copies, .orders = orders};
    p.rules = (EchHideRules){1 + (uint32_t)(ech_test_draw(&state) % 4), ech_test_draw(&state) % 2, ech_test_draw(&state) % 2};
    p.memory = ech_test_draw(&state) % 4000;
    p.n_copies = (uint32_t)(ech_test_draw(&state) % COPIES);
    for (uint32_t j = 0; j < p.n_steps; j++) {
        int64_t before = (int64_t)(ech_test_draw(&state) % 2000);
        steps[j] = (EchHideStep){.length = (EchTime)(ech_test_draw(&state) % 100) * ms,
                                 .depth = (uint32_t)(ech_test_draw(&state) % 3),
                                 .copies = (uint32_t)(ech_test_draw(&state) % (p.rules.limit + 1)),
                                 .before = before,
                                 .most = before + (int64_t)(ech_test_draw(&state) % 500)};
    }
    for (uint32_t k = 0; k < p.n_copies; k++) {
        uint32_t until = (uint32_t)(ech_test_draw(&state) % (p.n_steps + 1)), from = (uint32_t)(ech_test_draw(&state) % (until + 1));
        copies[k] = (EchHideCopy){.to_device = ech_test_draw(&state) % 2,
                                  .length = (EchTime)(1 + ech_test_draw(&state) % 200) * ms,
                                  .depth = (uint32_t)(ech_test_draw(&state) % 3),
                                  .bytes = (int64_t)(ech_test_draw(&state) % 500),
                                  .after = (uint32_t)(ech_test_draw(&state) % (from + 1)),
                                  .until = until,
                                  .used = from};
        /* Copies come in their order. */
        if (k > 0 && copies[k].until >= copies[k - 1].until && ech_test_draw(&state) % 2)
            orders[p.n_orders++] = (EchHideOrder){k - 1, k};
    }
    EchHideEvent events[2 * COPIES];
    uint32_t flying;
    (void)ech_hide_latencies(&p, events, &flying);
    ck_assert_uint_le(flying, p.rules.limit);
    uint32_t started[COPIES], done[COPIES], now = 0;
    for (uint32_t k = 0; k < p.n_copies; k++)
        started[k] = done[k] = UINT32_MAX;
    for (uint32_t e = 0; e < 2 * p.n_copies; e++) {
        const EchHideCopy *c = &copies[events[e].copy];
        ck_assert(e == 0 || events[e].step >= events[e - 1].step);
        (events[e].done ? done : started)[events[e].copy] = e;
        now += events[e].done ? -1u : 1u;
        ck_assert_uint_le(now, p.rules.limit);
        ck_assert(events[e].step >= c->after && events[e].step <= c->until);
    }
    for (uint32_t k = 0; k < p.n_copies; k++)
        ck_assert_uint_lt(started[k], done[k]);
    for (uint32_t o = 0; o < p.n_orders; o++)
        ck_assert_uint_lt(done[orders[o].done], started[orders[o].start]);
}
END_TEST

/* ---- the pass ---- */

/* A gigabyte takes 10 ms through the memory and 100 ms over the link. */
static const char device_text[] = "name: t\nfamily: other\nmemories:\n  hbm: {kind: hbm, space: 0, capacity: 80GB, read: 100GB/s, write: 100GB/s}\n"
                                  "  host: {kind: host-pinned, space: 5, capacity: 64GB}\n"
                                  "links:\n  host: {from: host, to: hbm, to_device: 10GB/s, from_device: 10GB/s, both_ways: 20GB/s}\n"
                                  "units:\n  matrix: {peaks: {bf16: 100TFLOP/s}}\n  vector: {peaks: {f32: 10GFLOP/s}}\n";

/* Six kernels of 100 ms, then six updates, of 20 ms each, of a gigabyte of state. */
static EchTrace *step(void)
{
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId state[6];
    for (int k = 0; k < 6; k++)
        state[k] = ech_test_buffer(b, "state", GB, ECH_ROLE_OPTIMIZER, true);
    for (int k = 0; k < 6; k++)
        ech_test_kernel(b, 100 * ms, ECH_NONE, ECH_READ, 0);
    for (int k = 0; k < 6; k++) {
        ech_test_kernel(b, 0, state[k], ECH_READ, GB);
        ech_trace_builder_use(b, state[k], ECH_WRITE, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
    }
    return ech_test_finish(b);
}

/* How the state comes and goes: waited for one by one; as XLA has it, all there at once before any goes; kept to 3 GB, and no more than an update more, in
 * which it is late; one copy at a time. No schedule is shorter than the kernels and the last update's copy. */
static const struct {
    const char *specs[3];
    EchTime least, most;
    EchBytes hbm_least, hbm_most;
} ways[] = {
    {{"offload:what=arguments", NULL}, 600 + 6 * 220, 600 + 6 * 220, 1000000000, 1000000000},
    {{"offload:what=arguments", "schedule", NULL}, 1220, 1320, 6000000000, 8000000000},
    {{"offload:what=arguments", "schedule:memory=3GB", NULL}, 1320, 1920, 2000000000, 4000000000},
    {{"offload:what=arguments", "schedule:copies=1", NULL}, 1200, 1920, 2000000000, 8000000000},
};

START_TEST(state)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) in = step();
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, ways[_i].specs);
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    ck_assert_msg(run->makespan >= ways[_i].least * ms && run->makespan <= ways[_i].most * ms + 10, "%" G_GINT64_FORMAT, run->makespan);
    EchBytes peak = ech_test_peak(run, "hbm");
    ck_assert_msg(peak >= ways[_i].hbm_least && peak <= ways[_i].hbm_most, "%" G_GUINT64_FORMAT, peak);
    ck_assert_uint_eq(ech_test_count(out, ECH_OP_COPY), 12);
    ck_assert(_i == 0 || ech_test_says(diag, "schedule: 12 copies from and to the host where XLA's scheduler has them"));
}
END_TEST

/* What is brought and updated becomes an array of its own; what is only brought, or updated in part, does not. */
START_TEST(of_its_own)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    for (int part = 0; part < 3; part++) {
        g_autoptr(EchDiag) diag = ech_diag_new();
        g_autoptr(EchTraceBuilder) b = ech_test_begin();
        EchId array = ech_test_buffer(b, "state", GB, ECH_ROLE_OPTIMIZER, true);
        ech_test_kernel(b, 0, array, ECH_READ, GB);
        if (part > 0)
            ech_trace_builder_use(b, array, ECH_WRITE, GB / (EchBytes)part, ECH_PATTERN_STREAM, ECH_KNOWN);
        g_autoptr(EchTrace) in = ech_test_finish(b);
        g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, (const char *const[]){"offload:what=arguments", "schedule", NULL});
        g_autoptr(EchRun) run = ech_test_replay(out, device);
        ck_assert_uint_eq(ech_test_peak(run, "hbm"), (part == 1 ? 2 : 1) * GB);
    }
}
END_TEST

/* A copy of what nothing has written is behind where that is allocated, and before who reads the copy, even where there is nothing between the two. */
START_TEST(never_written)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId queue = ech_trace_builder_queue(b, "dma hbm>host", ECH_QUEUE_COPY, 0);
    EchId here = ech_test_buffer(b, "here", GB, ECH_ROLE_TEMPORARY, false), there = ech_test_buffer(b, "there", GB, ECH_ROLE_TEMPORARY, true);
    ech_trace_builder_peek_buffer(b, there)->memory = ech_trace_builder_memory(b, "host");
    EchId taken = ech_test_put(b, ECH_OP_ALLOC, here);
    EchOp copy = ech_op_init(ECH_OP_COPY);
    copy.queue = queue;
    copy.memory_from = ech_trace_builder_memory(b, "hbm");
    copy.memory_to = ech_trace_builder_memory(b, "host");
    copy.bytes = GB;
    EchId made = ech_trace_builder_op(b, copy);
    ech_trace_builder_use(b, here, ECH_READ, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_use(b, there, ECH_WRITE, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
    ech_trace_builder_dep(b, taken, 0);
    ech_test_kernel(b, 100 * ms, there, ECH_READ, GB);
    ech_trace_builder_dep(b, made, 0);
    (void)ech_test_put(b, ECH_OP_FREE, here);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, (const char *const[]){"schedule", NULL});
    const EchOp *ops = ech_trace_ops(out);
    ck_assert_uint_eq(ech_test_count(out, ECH_OP_COPY), 1);
    ck_assert(ops[0].kind == ECH_OP_ALLOC && ops[1].kind == ECH_OP_COPY && ops[2].kind == ECH_OP_WAIT && ops[3].kind == ECH_OP_FREE &&
              ops[4].kind == ECH_OP_KERNEL);
}
END_TEST

/* Programs that run as they are written have no such scheduler; what copies nothing has nothing to be scheduled. */
START_TEST(left)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTrace) in = step();
    g_autoptr(EchTrace) same = ech_test_pass(in, device, diag, (const char *const[]){"schedule", NULL});
    ck_assert(same == in && ech_test_says(diag, "schedule: nothing is copied from or to the host by a copy of its own"));
    g_autoptr(EchTrace) captured = ech_trace_with_properties(in, (const char *const[]){"host_order", "1", NULL});
    g_autoptr(EchTrace) kept = ech_test_pass(captured, device, diag, (const char *const[]){"offload:what=arguments", "schedule", NULL});
    ck_assert(ech_test_count(kept, ECH_OP_COPY) == 12 && ech_test_says(diag, "schedule: left the trace as it is: it is no program of XLA's"));
}
END_TEST

/* One wait stands for a copy out and for another queue's, behind where what was copied is brought back and used: the copy is over before that all the same, and
 * what it took away is given back behind the wait. */
START_TEST(waited_for_with_others)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId out_queue = ech_trace_builder_queue(b, "dma hbm>host", ECH_QUEUE_COPY, 0), in_queue = ech_trace_builder_queue(b, "dma host>hbm", ECH_QUEUE_COPY, 0);
    EchId third = ech_trace_builder_queue(b, "dma hbm>hbm", ECH_QUEUE_COPY, 0), hbm = ech_trace_builder_memory(b, "hbm"),
          host = ech_trace_builder_memory(b, "host");
    EchId first = ech_test_buffer(b, "first", GB, ECH_ROLE_TEMPORARY, false), there = ech_test_buffer(b, "there", GB, ECH_ROLE_TEMPORARY, true);
    EchId again = ech_test_buffer(b, "again", GB, ECH_ROLE_TEMPORARY, false), other = ech_test_buffer(b, "other", GB, ECH_ROLE_TEMPORARY, true);
    ech_trace_builder_peek_buffer(b, there)->memory = host;
    (void)ech_test_put(b, ECH_OP_ALLOC, first);
    ech_test_kernel(b, 100 * ms, first, ECH_WRITE, GB);
    const struct {
        EchId queue, from, to, source, target;
    } moves[] = {{out_queue, hbm, host, first, there}, {third, hbm, hbm, first, other}, {in_queue, host, hbm, there, again}};
    EchId made[3];
    for (int k = 0; k < 3; k++) {
        if (k == 2)
            (void)ech_test_put(b, ECH_OP_ALLOC, again);
        EchOp copy = ech_op_init(ECH_OP_COPY);
        copy.queue = moves[k].queue;
        copy.memory_from = moves[k].from;
        copy.memory_to = moves[k].to;
        copy.bytes = GB;
        made[k] = ech_trace_builder_op(b, copy);
        ech_trace_builder_use(b, moves[k].source, ECH_READ, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
        ech_trace_builder_use(b, moves[k].target, ECH_WRITE, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
        ech_trace_builder_dep(b, k == 2 ? made[0] : 1, 0);
    }
    ech_test_kernel(b, 100 * ms, again, ECH_READ, GB);
    ech_trace_builder_dep(b, made[2], 0);
    (void)ech_test_put(b, ECH_OP_WAIT, ECH_NONE);
    ech_trace_builder_dep(b, made[0], 0);
    ech_trace_builder_dep(b, made[1], 0);
    (void)ech_test_put(b, ECH_OP_FREE, first);
    (void)ech_test_put(b, ECH_OP_FREE, again);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, (const char *const[]){"schedule", NULL});
    const EchOp *ops = ech_trace_ops(out);
    size_t wait = 0, freed = 0;
    for (size_t i = 0; i < ech_trace_n_ops(out); i++) {
        for (uint32_t d = 0; ops[i].kind == ECH_OP_WAIT && d < ops[i].n_deps; d++)
            wait = ops[ech_trace_deps(out)[ops[i].first_dep + d].op].queue == third ? i : wait;
        freed = ops[i].kind == ECH_OP_FREE && ops[i].target == first ? i : freed;
    }
    ck_assert(wait > 0 && freed > wait);
    g_autoptr(EchRun) run = ech_test_replay(out, device);
    ck_assert_int_ge(run->makespan, 400 * ms);
}
END_TEST

/* How much comes back early stays in doubt where a GPU's program sends what it makes itself. */
START_TEST(activations)
{
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchDevice) device = ech_test_device("h100-sxm", NULL);
    g_autoptr(EchTrace) in = ech_test_shipped("gpt_unrolled_kept.h100", device, diag);
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, (const char *const[]){"offload", "schedule", NULL});
    ck_assert(ech_trace_get_property(out, "offload_early_bytes") != NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedule");
    TCase *tcase = tcase_create("schedule");
    suite_add_tcase(suite, tcase);
    ech_test_print_seed();
    tcase_add_loop_test(tcase, as_compiled, 0, G_N_ELEMENTS(pairs));
    tcase_add_loop_test(tcase, fetched, 0, G_N_ELEMENTS(fetches));
    tcase_add_test(tcase, fetched_within);
    tcase_add_test(tcase, updated);
    tcase_add_loop_test(tcase, at_random, 0, 300);
    tcase_add_loop_test(tcase, state, 0, G_N_ELEMENTS(ways));
    tcase_add_test(tcase, of_its_own);
    tcase_add_test(tcase, waited_for_with_others);
    tcase_add_test(tcase, activations);
    tcase_add_test(tcase, never_written);
    tcase_add_test(tcase, left);
    return ech_test_main(suite);
}
