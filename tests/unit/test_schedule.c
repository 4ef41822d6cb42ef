/* The schedule pass, and the scheduler behind it: against what XLA's compilers made of the same, by hand what its rules say, and what it must not do. */
#include "models/device/device_yaml.h"
#include "models/place/latency_hiding.h"
#include "models/place/sooner.h"
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

/* Where a node is in an order. */
static uint32_t place_of(const uint32_t *order, uint32_t n, uint32_t node)
{
    for (uint32_t k = 0; k < n; k++)
        if (order[k] == node)
            return k;
    ck_abort_msg("node %u is not in the order", node);
}

/* How many steps come before a node. */
static uint32_t steps_before(const EchHideProblem *p, const uint32_t *order, uint32_t node)
{
    uint32_t steps = 0;
    for (uint32_t k = 0; order[k] != node; k++)
        steps += order[k] < p->n_steps;
    return steps;
}

static const EchHideRules tpu = {.limit = 5, .aggressive = true};

/* Four steps of 50 ms, one behind the other, copies of 90 to the device before the last: how many steps are over when each starts and is waited for. */
static const struct {
    uint32_t copies, limit;
    bool sent; /* What they bring was sent before, behind the first step. */
    uint32_t start[2], done[2];
} fetches[] = {
    /* What is an argument starts as early as may be; what was sent as late as its own length allows. */
    {1, 5, false, {0}, {3}},
    {1, 5, true, {1}, {3}},
    /* Two at once; one behind the other, the first of which makes way as soon as it could be over. */
    {2, 2, false, {0, 0}, {3, 3}},
    {2, 1, false, {0, 1}, {1, 3}},
};

START_TEST(fetched)
{
    const EchHideStep steps[4] = {{.length = 50 * ms}, {.length = 50 * ms}, {.length = 50 * ms}, {.length = 50 * ms, .waits = true}};
    const EchHideCopy copies[3] = {{true, 90 * ms}, {true, 90 * ms}, {false, ms}};
    EchHideProblem p = {.steps = steps, .n_steps = 4, .copies = copies, .n_copies = 2, .rules = tpu, .memory = UINT64_MAX};
    EchHideOrder orders[8] = {{0, 1, false}, {1, 2, false}, {2, 3, false}, {ECH_HIDE_DONE(&p, 0), 3, false}, {ECH_HIDE_DONE(&p, 1), 3, false}};
    p.orders = orders;
    p.n_orders = 5;
    p.rules.limit = fetches[_i].limit;
    if (fetches[_i].copies == 1)
        p.n_copies = 1, p.n_orders = 4;
    const EchHideCopy sent[2] = {{true, 90 * ms}, {false, ms}};
    if (fetches[_i].sent) {
        p.copies = sent;
        p.n_copies = 2;
        orders[4] = (EchHideOrder){0, ECH_HIDE_START(&p, 1), false};
        orders[5] = (EchHideOrder){ECH_HIDE_DONE(&p, 1), ECH_HIDE_START(&p, 0), false};
        p.n_orders = 6;
    }
    uint32_t order[10], flying;
    ck_assert_int_eq(ech_hide_latencies(&p, order, &flying), 0);
    ck_assert_uint_eq(flying, MIN(fetches[_i].copies, fetches[_i].limit));
    for (uint32_t k = 0; k < fetches[_i].copies; k++) {
        ck_assert_uint_eq(steps_before(&p, order, ECH_HIDE_START(&p, k)), fetches[_i].start[k]);
        ck_assert_uint_eq(steps_before(&p, order, ECH_HIDE_DONE(&p, k)), fetches[_i].done[k]);
    }
}
END_TEST

/* Of two arrays of 100 bytes, brought for steps 1 and 2 beside 10 that are there, both are there at once only where that has room. */
START_TEST(fetched_within)
{
    const EchHideStep steps[3] = {{.length = 50 * ms}, {.length = 50 * ms, .waits = true}, {.length = 50 * ms, .waits = true}};
    const EchHideCopy copies[2] = {{true, 90 * ms}, {true, 90 * ms}};
    EchHideProblem p = {.steps = steps, .n_steps = 3, .copies = copies, .n_copies = 2, .held = 10, .rules = tpu, .memory = 1000};
    const EchHideOrder orders[] = {{0, 1, false}, {1, 2, false}, {ECH_HIDE_DONE(&p, 0), 1, false}, {ECH_HIDE_DONE(&p, 1), 2, false}};
    const uint32_t users[] = {ECH_HIDE_START(&p, 0), ECH_HIDE_DONE(&p, 0), 1, ECH_HIDE_START(&p, 1), ECH_HIDE_DONE(&p, 1), 2};
    const EchHideArray arrays[] = {{.bytes = 100, .first_user = 0, .n_users = 3}, {.bytes = 100, .first_user = 3, .n_users = 3}};
    p.orders = orders;
    p.n_orders = G_N_ELEMENTS(orders);
    p.users = users;
    p.arrays = arrays;
    p.n_arrays = 2;
    uint32_t order[7];
    ck_assert_int_eq(ech_hide_latencies(&p, order, NULL), 210);
    ck_assert_uint_eq(steps_before(&p, order, ECH_HIDE_START(&p, 1)), 0);
    p.memory = 150;
    ck_assert_int_eq(ech_hide_latencies(&p, order, NULL), 110);
    ck_assert_uint_eq(steps_before(&p, order, ECH_HIDE_START(&p, 1)), 2);
}
END_TEST

/* Of state that is brought, updated and sent back, of two sizes: by aggressive policies all goes out behind the last that comes in, and updates stand at the
 * end, behind what nothing waits for; without them what goes comes as it is given. */
START_TEST(updated)
{
    enum { N = 4, STEPS = 2 * N };
    EchHideStep steps[STEPS];
    EchHideCopy copies[2 * N];
    EchHideOrder orders[4 * N];
    EchHideProblem p = {
        .steps = steps, .n_steps = STEPS, .copies = copies, .n_copies = 2 * N, .orders = orders, .n_orders = 4 * N, .rules = tpu, .memory = UINT64_MAX};
    for (uint32_t k = 0; k < N; k++) {
        EchTime length = (k % 2 ? 100 : 50) * ms;
        /* A kernel, and the update that reads what it makes. */
        steps[2 * k] = (EchHideStep){.length = ms};
        steps[2 * k + 1] = (EchHideStep){.length = ms, .waits = true};
        copies[2 * k] = (EchHideCopy){true, length};
        copies[2 * k + 1] = (EchHideCopy){false, length};
        orders[4 * k] = (EchHideOrder){2 * k, 2 * k + 1, false};
        orders[4 * k + 1] = (EchHideOrder){ECH_HIDE_DONE(&p, 2 * k), 2 * k + 1, false};
        orders[4 * k + 2] = (EchHideOrder){2 * k + 1, ECH_HIDE_START(&p, 2 * k + 1), false};
        orders[4 * k + 3] = (EchHideOrder){2 * k, k + 1 < N ? 2 * k + 2 : 2 * k + 1, false};
    }
    p.rules.limit = 2;
    uint32_t order[STEPS + 4 * N];
    for (int plain = 0; plain < 2; plain++) {
        p.rules.aggressive = !plain;
        (void)ech_hide_latencies(&p, order, NULL);
        bool late = true, last = true;
        for (uint32_t k = 0; k < N; k++)
            for (uint32_t j = 0; j < N; j++) {
                uint32_t in = place_of(order, G_N_ELEMENTS(order), ECH_HIDE_DONE(&p, 2 * k)),
                         out = place_of(order, G_N_ELEMENTS(order), ECH_HIDE_DONE(&p, 2 * j + 1));
                late &= in < out;
                last &= k % 2 || !(j % 2) || place_of(order, G_N_ELEMENTS(order), ECH_HIDE_DONE(&p, 2 * k + 1)) < out;
            }
        ck_assert(late == !plain && last == !plain);
    }
}
END_TEST

/* Problems at random: all that comes before something does so in the order, no more copies are under way than may be, and memory is counted as it is held. */
START_TEST(at_random)
{
    enum { STEPS = 12, COPIES = 10, NODES = STEPS + 2 * COPIES, ARRAYS = 8, ORDERS = 40 };
    uint64_t state = ech_test_seed_of(_i);
    EchHideStep steps[STEPS];
    EchHideCopy copies[COPIES];
    EchHideOrder orders[ORDERS];
    EchHideArray arrays[ARRAYS];
    uint32_t users[ARRAYS * NODES], n_users = 0;
    EchHideProblem p = {.steps = steps, .copies = copies, .orders = orders, .arrays = arrays, .users = users};
    p.n_steps = (uint32_t)(ech_test_draw(&state) % STEPS);
    p.n_copies = (uint32_t)(ech_test_draw(&state) % COPIES);
    p.rules = (EchHideRules){.limit = 1 + (uint32_t)(ech_test_draw(&state) % 4), .aggressive = ech_test_draw(&state) % 2, .first = ech_test_draw(&state) % 2};
    p.memory = ech_test_draw(&state) % 4000;
    p.held = (int64_t)(ech_test_draw(&state) % 100);
    uint32_t n = p.n_steps + 2 * p.n_copies, any[NODES];
    for (uint32_t j = 0; j < p.n_steps; j++)
        steps[j] = (EchHideStep){.length = (EchTime)(ech_test_draw(&state) % 100) * ms,
                                 .copies = (uint32_t)(ech_test_draw(&state) % (p.rules.limit + 1)),
                                 .waits = ech_test_draw(&state) % 2,
                                 .inside = (int64_t)(ech_test_draw(&state) % 500)};
    for (uint32_t k = 0; k < p.n_copies; k++)
        copies[k] = (EchHideCopy){ech_test_draw(&state) % 2, (EchTime)(1 + ech_test_draw(&state) % 200) * ms};
    /* Some order that is possible, and of that a part: starts before waits. */
    for (uint32_t k = 0; k < n; k++) {
        uint32_t at = (uint32_t)(ech_test_draw(&state) % (k + 1));
        any[k] = any[at];
        any[at] = k;
    }
    for (uint32_t k = 0; k < p.n_copies; k++) {
        uint32_t start = place_of(any, n, ECH_HIDE_START(&p, k)), done = place_of(any, n, ECH_HIDE_DONE(&p, k));
        any[MIN(start, done)] = ECH_HIDE_START(&p, k);
        any[MAX(start, done)] = ECH_HIDE_DONE(&p, k);
    }
    for (uint32_t wanted = n > 1 ? (uint32_t)(ech_test_draw(&state) % ORDERS) : 0; p.n_orders < wanted; p.n_orders++) {
        uint32_t first = (uint32_t)(ech_test_draw(&state) % (n - 1)), second = first + 1 + (uint32_t)(ech_test_draw(&state) % (n - first - 1));
        bool start = any[first] >= p.n_steps && (any[first] - p.n_steps) % 2 == 0; /* only its wait comes behind it */
        orders[p.n_orders] = (EchHideOrder){any[first], start ? any[first] + 1 : any[second], ech_test_draw(&state) % 2};
    }
    for (uint32_t a = 0; a < ARRAYS && n > 0; a++) {
        arrays[a] = (EchHideArray){
            .bytes = (int64_t)(ech_test_draw(&state) % 500), .first_user = n_users, .given = ech_test_draw(&state) % 2, .left = ech_test_draw(&state) % 2};
        uint32_t first = (uint32_t)(ech_test_draw(&state) % n);
        for (uint32_t k = first; k < n && arrays[a].n_users < 1 + a; k++, arrays[a].n_users++)
            users[n_users++] = any[k];
        p.n_arrays++;
    }
    uint32_t order[NODES], flying, now = 0, most_now = 0;
    int64_t most = ech_hide_latencies(&p, order, &flying), seen = 0;
    for (uint32_t o = 0; o < p.n_orders; o++)
        ck_assert_uint_lt(place_of(order, n, orders[o].before), place_of(order, n, orders[o].after));
    for (uint32_t k = 0; k < p.n_copies; k++)
        ck_assert_uint_lt(place_of(order, n, ECH_HIDE_START(&p, k)), place_of(order, n, ECH_HIDE_DONE(&p, k)));
    for (uint32_t k = 0; k < n; k++) {
        bool copy = order[k] >= p.n_steps, start = copy && (order[k] - p.n_steps) % 2 == 0;
        now += start;
        most_now = MAX(most_now, now);
        ck_assert_uint_le(now + (copy ? 0 : steps[order[k]].copies), p.rules.limit);
        int64_t held = p.held + (copy ? 0 : steps[order[k]].inside);
        for (uint32_t a = 0; a < p.n_arrays; a++) {
            uint32_t first = arrays[a].given ? 0 : n, last = arrays[a].left ? n : 0;
            for (uint32_t u = arrays[a].first_user; u < arrays[a].first_user + arrays[a].n_users; u++) {
                first = MIN(first, place_of(order, n, users[u]));
                last = MAX(last, place_of(order, n, users[u]));
            }
            held += first <= k && k <= last ? arrays[a].bytes : 0;
        }
        seen = MAX(seen, held);
        now -= copy && !start;
    }
    ck_assert_uint_eq(flying, most_now);
    ck_assert(n == 0 || most >= seen);
}
END_TEST

/* ---- sooner ---- */

/* Steps 0 to 3 make arrays of 100 bytes each of the one before; 4 to 7 read what 3 to 0 made, last of all, and make one of so many bytes that stays; in the
 * second case through a step of each that turns it round, and does not pay alone. */
static const struct {
    int64_t made;
    bool turned, stays;
    uint32_t sooner;
} gradients[] = {{10, false, false, 3}, {100, false, false, 0}, {150, false, false, 0}, {10, true, false, 6}, {120, true, false, 0}, {10, false, true, 0}};

START_TEST(sooner)
{
    enum { N = 4 };
    const bool turned = gradients[_i].turned;
    EchHideStep steps[3 * N] = {0};
    EchHideOrder orders[3 * N];
    EchHideArray arrays[3 * N];
    uint32_t users[6 * N], order[3 * N];
    bool stays[3 * N] = {0};
    EchHideProblem p = {.steps = steps, .n_steps = turned ? 3 * N : 2 * N, .orders = orders, .arrays = arrays, .users = users, .memory = UINT64_MAX};
    uint32_t n_users = 0;
    for (uint32_t k = 1; k < N; k++)
        orders[p.n_orders++] = (EchHideOrder){k - 1, k, false};
    for (uint32_t k = 0; k < N; k++) {
        const uint32_t reader = N + (N - 1 - k) * (turned ? 2 : 1), last = reader + turned;
        arrays[p.n_arrays++] = (EchHideArray){.bytes = 100, .first_user = n_users, .n_users = k + 1 < N ? 3 : 2};
        users[n_users++] = k;
        if (k + 1 < N)
            users[n_users++] = k + 1;
        users[n_users++] = reader;
        orders[p.n_orders++] = (EchHideOrder){k, reader, false};
        if (turned) {
            arrays[p.n_arrays++] = (EchHideArray){.bytes = 100, .first_user = n_users, .n_users = 2};
            users[n_users++] = reader;
            users[n_users++] = last;
            orders[p.n_orders++] = (EchHideOrder){reader, last, false};
        }
        arrays[p.n_arrays++] = (EchHideArray){.bytes = gradients[_i].made, .first_user = n_users, .n_users = 1, .left = true};
        users[n_users++] = last;
        stays[reader] = gradients[_i].stays;
    }
    ck_assert_uint_eq(ech_order_sooner(&p, stays, order), gradients[_i].sooner);
    for (uint32_t k = 0; k < p.n_steps; k++)
        ck_assert(gradients[_i].sooner > 0 || order[k] == k);
    /* What the first made is read right behind the second, which reads it, too: the former's own reader comes before the third. */
    for (uint32_t k = 0; k + 1 < N && gradients[_i].sooner > 0; k++)
        ck_assert_uint_lt(place_of(order, p.n_steps, N + (N - 1 - k) * (turned ? 2 : 1) + turned), place_of(order, p.n_steps, k + 1));
}
END_TEST

/* Whatever the computation: each step once, behind what comes before it; those that stay in their order. */
START_TEST(sooner_at_random)
{
    enum { STEPS = 12, ORDERS = 24, ARRAYS = 10 };
    uint64_t state = ech_test_seed() + (uint64_t)_i;
    EchHideStep steps[STEPS] = {0};
    EchHideOrder orders[ORDERS];
    EchHideArray arrays[ARRAYS];
    uint32_t users[ARRAYS * STEPS], order[STEPS], n = (uint32_t)(ech_test_draw(&state) % (STEPS + 1)), n_users = 0;
    bool stays[STEPS], seen[STEPS] = {0};
    EchHideProblem p = {.steps = steps, .n_steps = n, .orders = orders, .arrays = arrays, .users = users};
    for (uint32_t k = 0; k < n; k++)
        stays[k] = ech_test_draw(&state) % 3 == 0;
    for (uint32_t wanted = n > 1 ? (uint32_t)(ech_test_draw(&state) % ORDERS) : 0; p.n_orders < wanted; p.n_orders++) {
        uint32_t first = (uint32_t)(ech_test_draw(&state) % (n - 1));
        orders[p.n_orders] = (EchHideOrder){first, first + 1 + (uint32_t)(ech_test_draw(&state) % (n - first - 1)), false};
    }
    for (uint32_t a = 0; a < ARRAYS && n > 0; a++) {
        arrays[a] = (EchHideArray){
            .bytes = (int64_t)(ech_test_draw(&state) % 500), .first_user = n_users, .given = ech_test_draw(&state) % 2, .left = ech_test_draw(&state) % 2};
        for (uint32_t k = 0; k < n; k++)
            if (ech_test_draw(&state) % 3 == 0) {
                users[n_users++] = k;
                arrays[a].n_users++;
            }
        p.n_arrays++;
    }
    uint32_t last = 0, counted = ech_order_sooner(&p, stays, order), before = 0;
    for (uint32_t k = 0; k < n; k++) {
        ck_assert(order[k] < n && !seen[order[k]]);
        seen[order[k]] = true;
        ck_assert(!stays[order[k]] || order[k] >= last);
        last = stays[order[k]] ? order[k] : last;
        before += order[k] != k;
    }
    ck_assert(counted > 0 || before == 0);
    for (uint32_t o = 0; o < p.n_orders; o++)
        ck_assert_uint_lt(place_of(order, n, orders[o].before), place_of(order, n, orders[o].after));
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
    {{"offload:what=arguments", "schedule", NULL}, 1120, 1320, 6000000000, 8000000000},
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

/* Which of two orders a compiler gives its scheduler stays in doubt where that does not go by how long copies take. */
START_TEST(in_doubt)
{
    static const struct {
        const char *device;
        bool doubt;
    } cases[] = {{"h100-sxm", false}, {"tpu-v5e", false}, {"tpu7x", false}, {"tpu-v6e", true}, {"tpu-v5p", true}};
    for (size_t k = 0; k < G_N_ELEMENTS(cases); k++) {
        g_autoptr(EchDiag) diag = ech_diag_new();
        g_autoptr(EchDevice) device = ech_test_device(cases[k].device, NULL);
        g_autoptr(EchTrace) in = step();
        g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, (const char *const[]){"offload:what=arguments", "schedule:copies=1", NULL});
        g_autoptr(EchRun) run = ech_test_replay(out, device);
        const char *first = ech_trace_get_property(out, "schedule_first_bytes");
        ck_assert_msg((first != NULL) == cases[k].doubt, "%s: %s", cases[k].device, first);
        ck_assert(first == NULL || g_ascii_strtoull(first, NULL, 10) > ech_test_peak(run, "hbm"));
    }
}
END_TEST

/* The same of a compiler that made arrays again itself, where it had to. */
static EchTrace *remade(const char *platform)
{
    g_autoptr(EchTrace) plain = step();
    g_autoptr(EchTraceBuilder) b = ech_trace_builder_new_from(plain);
    ech_trace_builder_set_property(b, "platform", platform);
    ech_trace_builder_peek_op(b, 0)->name = ech_trace_builder_string(b, "fusion.7.remat2", -1);
    return ech_test_finish(b);
}

/* Where memory cannot be kept to, or could not before, libtpu has all as it is given: one array is there at a time, as where each copy is waited for, and one
 * copy under way. */
START_TEST(as_given)
{
    g_autoptr(EchDevice) device = ech_test_device("tpu-v5e", NULL);
    EchBytes peaks[3];
    for (int k = 0; k < 3; k++) {
        g_autoptr(EchDiag) diag = ech_diag_new();
        g_autoptr(EchTrace) in = k == 2 ? remade("tpu") : step();
        g_autoptr(EchTrace) out =
            ech_test_pass(in, device, diag, (const char *const[]){"offload:what=arguments", k == 1 ? "schedule:memory=3GB" : "schedule:memory=64GB", NULL});
        g_autoptr(EchRun) run = ech_test_replay(out, device);
        peaks[k] = ech_test_peak(run, "hbm");
        ck_assert_uint_eq(ech_test_count(out, ECH_OP_COPY), 12);
        uint32_t now = 0, most = 0;
        for (size_t i = 0; i < ech_trace_n_ops(out); i++) {
            now += ech_trace_ops(out)[i].kind == ECH_OP_COPY ? 1 : ech_trace_ops(out)[i].kind == ECH_OP_WAIT ? -1u : 0;
            most = MAX(most, now);
        }
        ck_assert_msg(k == 0 ? most > 1 : most == 1, "%u copies under way", most);
        ck_assert((k == 2) == (ech_trace_get_property(out, "schedule_takes_up_to") != NULL));
    }
    ck_assert_uint_ge(peaks[0], 6 * GB);
    ck_assert_uint_le(peaks[1], 2 * GB);
    ck_assert_uint_le(peaks[2], 2 * GB);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchDevice) gpu = ech_test_device("h100-sxm", NULL);
    g_autoptr(EchTrace) in = remade("gpu"), out = ech_test_pass(in, gpu, diag, (const char *const[]){"offload:what=arguments", "schedule", NULL});
    ck_assert(ech_trace_get_property(out, "schedule_takes_up_to") == NULL);
}
END_TEST

/* A kernel that JAX's names say is of @operation. */
static void named_kernel(EchTraceBuilder *b, const char *operation, EchId target, EchAccess access)
{
    ech_test_kernel(b, 100 * ms, target, access, GB);
    ech_trace_builder_peek_op(b, (EchId)ech_trace_builder_n_ops(b) - 1)->stack = ech_trace_builder_string(b, operation, -1);
}

/* What jax.checkpoint's policy for dots sends goes out once and comes back once, behind the gradient before it; what no product made stays, and what a gradient
 * makes and reads. */
static const struct {
    const char *operation;
    EchProduct product;
    bool sent;
} made[] = {
    {"jit(f)/jvp()/dot_general", ECH_PRODUCT_RESULT, true},
    {"jit(f)/jvp()/dot_general", ECH_PRODUCT_BATCH, false},
    {"jit(f)/jvp()/tanh", ECH_PRODUCT_BESIDE, false},
    {"jit(f)/transpose(jvp(ti,io->to))/dot_general", ECH_PRODUCT_RESULT, false},
};

START_TEST(products)
{
    g_autoptr(EchDevice) device = ech_test_device_yaml(device_text);
    g_autoptr(EchDiag) diag = ech_diag_new();
    g_autoptr(EchTraceBuilder) b = ech_test_begin();
    EchId array = ech_test_buffer(b, "array", GB, ECH_ROLE_TEMPORARY, false), gradient = ech_test_buffer(b, "gradient", GB, ECH_ROLE_TEMPORARY, true);
    ech_trace_builder_peek_buffer(b, array)->stack = ech_trace_builder_string(b, made[_i].operation, -1);
    ech_trace_builder_peek_buffer(b, array)->product = (uint8_t)made[_i].product;
    named_kernel(b, "jit(f)/transpose(jvp())/transpose", gradient, ECH_READ); /* run early: no backward pass begins there */
    if (strstr(made[_i].operation, "transpose") != NULL)
        named_kernel(b, "jit(f)/transpose(jvp())/mul", gradient, ECH_WRITE);
    (void)ech_test_put(b, ECH_OP_ALLOC, array);
    named_kernel(b, made[_i].operation, array, ECH_WRITE);
    named_kernel(b, "jit(f)/jvp()/exp", array, ECH_READ);
    named_kernel(b, "jit(f)/transpose(jvp())/mul", gradient, ECH_WRITE);
    named_kernel(b, "jit(f)/transpose(jvp())/dot_general", array, ECH_READ);
    ech_trace_builder_use(b, gradient, ECH_READ, GB, ECH_PATTERN_STREAM, ECH_KNOWN);
    (void)ech_test_put(b, ECH_OP_FREE, array);
    g_autoptr(EchTrace) in = ech_test_finish(b);
    g_autoptr(EchTrace) out = ech_test_pass(in, device, diag, (const char *const[]){"offload:what=activations,idle=0,names=products", NULL});
    ck_assert_uint_eq(ech_test_count(out, ECH_OP_COPY), made[_i].sent ? 2 : 0);
    ck_assert(!ech_test_says(diag, "nothing fits"));
    const EchOp *ops = ech_trace_ops(out);
    size_t behind = 0;
    for (size_t i = 0; i < ech_trace_n_ops(out); i++)
        for (uint32_t d = 0; d < ops[i].n_deps && ops[i].kind == ECH_OP_COPY && ech_trace_is_host(out, ops[i].memory_from); d++)
            behind += ops[ech_trace_deps(out)[ops[i].first_dep + d].op].kind == ECH_OP_KERNEL;
    ck_assert_uint_eq(behind, made[_i].sent ? 1 : 0);
    g_autoptr(EchTrace) scheduled = ech_test_pass(out, device, diag, (const char *const[]){"schedule", NULL});
    bool known = false;
    for (size_t i = 0; i < ech_trace_n_ops(scheduled); i++) {
        const EchOp *op = &ech_trace_ops(scheduled)[i];
        known |= op->kind == ECH_OP_KERNEL && strcmp(ech_trace_string(scheduled, op->stack), "jit(f)/transpose(jvp())/mul") == 0;
        ck_assert(known || op->kind != ECH_OP_COPY || !ech_trace_is_host(scheduled, op->memory_from));
    }
    g_autoptr(EchRun) run = ech_test_replay(scheduled, device);
    ck_assert_int_ge(run->makespan, 400 * ms);
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
    tcase_add_loop_test(tcase, sooner, 0, G_N_ELEMENTS(gradients));
    tcase_add_loop_test(tcase, sooner_at_random, 0, 300);
    tcase_add_loop_test(tcase, state, 0, G_N_ELEMENTS(ways));
    tcase_add_test(tcase, of_its_own);
    tcase_add_test(tcase, waited_for_with_others);
    tcase_add_test(tcase, in_doubt);
    tcase_add_test(tcase, as_given);
    tcase_add_loop_test(tcase, products, 0, G_N_ELEMENTS(made));
    tcase_add_test(tcase, never_written);
    tcase_add_test(tcase, left);
    return ech_test_main(suite);
}
