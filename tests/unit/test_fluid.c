/* The engine seam: closed forms for both engines, and the two against each other on random cases. */
#include "sim/replay/fluid.h"
#include "tests/support/support.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_DEMANDS = 64, MAX_RESOURCES = 8 };

/* All start together; ends[i] in picoseconds. */
typedef struct {
    EchFluidResource resources[MAX_RESOURCES];
    uint32_t n_resources;
    EchFluidPart parts[MAX_DEMANDS][MAX_RESOURCES];
    uint32_t n_parts[MAX_DEMANDS];
    EchTime min_time[MAX_DEMANDS];
    uint32_t n_demands;
    EchTime *ends;
    bool *done;
} Case;

static void drive_case(const EchFluidClass *class, void *engine, void *data)
{
    Case *c = data;
    for (uint32_t i = 0; i < c->n_demands; i++)
        class->start(engine, i, c->parts[i], c->n_parts[i], c->min_time[i]);
    uint32_t tokens[MAX_DEMANDS], n;
    EchTime now;
    while ((n = class->next(engine, tokens, &now)) > 0)
        for (uint32_t k = 0; k < n; k++)
            c->ends[tokens[k]] = now;
    *c->done = true;
}

static void run_native(Case *c)
{
    g_autoptr(EchNative) engine = ech_native_new(c->resources, c->n_resources, MAX_DEMANDS);
    drive_case(&ech_native_class, engine, c);
}

/* In a child, as the replay does. False where the child died (its solver gave up). */
static bool run_simgrid(Case *c, const EchFluidModule *module)
{
    fflush(NULL);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(1);
        module->run(c->resources, c->n_resources, MAX_DEMANDS, ECH_PS_PER_S, drive_case, c);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    return *c->done;
}

static void share_results(Case *c)
{
    char *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    c->ends = (EchTime *)(void *)shared;
    c->done = (bool *)(shared + sizeof(EchTime) * MAX_DEMANDS);
}

static void part(Case *c, uint32_t demand, uint32_t resource, double amount)
{
    c->parts[demand][c->n_parts[demand]++] = (EchFluidPart){.resource = resource, .amount = amount};
}

/* The four demands of the design: three resources of 10^6/s. */
static void four_demands(Case *c)
{
    static const double amounts[4][3] = {{1, 1, 0}, {1, .001, 0}, {.5, 0, 1}, {.2, .9, .3}};
    c->n_resources = 3;
    for (uint32_t j = 0; j < 3; j++)
        c->resources[j].capacity = 1e6;
    c->n_demands = 4;
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t j = 0; j < 3; j++)
            part(c, i, j, amounts[i][j] * 1e6);
}

START_TEST(four_demands_share_by_bottleneck)
{
    static const double want[4] = {2.7, 2.7, 1.7, 1.250525263};
    Case c = {0};
    four_demands(&c);
    share_results(&c);
    run_native(&c);
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_double_lt(fabs((double)c.ends[i] * 1e-12 - want[i]), 1e-9);
    /* 2.7 and 1.7 are exact: nothing idles. */
    ck_assert_int_le(llabs(c.ends[0] - INT64_C(2700000000000)), 1);
    ck_assert_int_le(llabs(c.ends[2] - INT64_C(1700000000000)), 1);
    g_autoptr(GError) error = NULL;
    const EchFluidModule *module = ech_simgrid_module(&error);
    if (!module) {
        printf("skipped on simgrid: %s\n", error->message);
        return;
    }
    ck_assert(run_simgrid(&c, module));
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_double_lt(fabs((double)c.ends[i] * 1e-12 - want[i]), 2.7e-9);
}
END_TEST

/* A chain of 10^4 demands of an amount that no picosecond divides: within 1 ps of n * a / c. */
START_TEST(chain_does_not_drift)
{
    EchFluidResource resource = {.capacity = 819e9};
    g_autoptr(EchNative) engine = ech_native_new(&resource, 1, 2);
    EchTime now = 0;
    for (uint32_t i = 0; i < 10000; i++) {
        EchFluidPart one = {.resource = 0, .amount = 1000003};
        ech_native_class.start(engine, 0, &one, 1, 0);
        uint32_t tokens[2];
        ck_assert_uint_eq(ech_native_class.next(engine, tokens, &now), 1);
    }
    ck_assert_int_le(llabs(now - ech_time_for(UINT64_C(10000030000), UINT64_C(819000000000))), 1);
}
END_TEST

START_TEST(minimum_times_cap_and_free_capacity)
{
    Case c = {0};
    share_results(&c);
    c.n_resources = 1;
    c.resources[0].capacity = 1e12;
    c.n_demands = 4;
    part(&c, 0, 0, 1e6); /* Needs at least 4 us: draws a quarter of the rate. */
    c.min_time[0] = 4 * ECH_PS_PER_US;
    part(&c, 1, 0, 3e6); /* Gets the other three quarters: 4 us. */
    c.min_time[2] = 5 * ECH_PS_PER_US;
    run_native(&c);
    ck_assert_int_eq(c.ends[0], 4 * ECH_PS_PER_US);
    ck_assert_int_eq(c.ends[1], 4 * ECH_PS_PER_US);
    ck_assert_int_eq(c.ends[2], 5 * ECH_PS_PER_US);
    ck_assert_int_eq(c.ends[3], 0);
    const EchFluidModule *module = ech_simgrid_module(NULL);
    if (!module)
        return;
    memset(c.ends, 0xff, 4 * sizeof *c.ends);
    ck_assert(run_simgrid(&c, module));
    for (uint32_t i = 0; i < 2; i++)
        ck_assert_int_le(llabs(c.ends[i] - 4 * ECH_PS_PER_US), 1);
    ck_assert_int_le(llabs(c.ends[2] - 5 * ECH_PS_PER_US), 1);
    ck_assert_int_eq(c.ends[3], 0);
}
END_TEST

static void random_case(Case *c, GRand *rand)
{
    c->n_resources = (uint32_t)g_rand_int_range(rand, 2, 7);
    c->n_demands = (uint32_t)g_rand_int_range(rand, 2, 17);
    for (uint32_t j = 0; j < c->n_resources; j++)
        c->resources[j].capacity = 1e6;
    for (uint32_t i = 0; i < c->n_demands; i++) {
        for (uint32_t j = 0; j < c->n_resources; j++)
            if (g_rand_double(rand) < 0.5)
                part(c, i, j, pow(10, g_rand_double_range(rand, -2, 0)) * 1e6);
        if (g_rand_double(rand) < 0.3 || c->n_parts[i] == 0)
            c->min_time[i] = (EchTime)(g_rand_double_range(rand, 0.1, 2) * 1e12);
    }
}

START_TEST(random_cases_agree)
{
    const EchFluidModule *module = ech_simgrid_module(NULL);
    if (!module) {
        printf("skipped: no simgrid module\n");
        return;
    }
    guint32 seed = 20240 + (guint32)_i;
    Case c = {0};
    g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
    random_case(&c, rand);
    share_results(&c);
    if (!run_simgrid(&c, module)) {
        printf("seed %u: simgrid's solver gave up\n", seed);
        return;
    }
    EchTime reference[MAX_DEMANDS];
    memcpy(reference, c.ends, sizeof reference);
    run_native(&c);
    for (uint32_t i = 0; i < c.n_demands; i++)
        ck_assert_msg(fabs((double)(c.ends[i] - reference[i])) <= 1e-9 * (double)reference[i] + 1,
                      "seed %u, demand %u: native %" G_GINT64_FORMAT ", simgrid %" G_GINT64_FORMAT, seed, i, c.ends[i], reference[i]);
}
END_TEST

/* Many demands that come and go, some at their min_time: at every event, what each draws is bottleneck-fair, by the definition. */
static void check_shares(const Case *c, const double *pace, guint32 seed, unsigned event)
{
    double used[MAX_RESOURCES] = {0}, most[MAX_RESOURCES] = {0};
    for (uint32_t i = 0; i < c->n_demands; i++)
        for (uint32_t k = 0; k < c->n_parts[i]; k++) {
            double draws = pace[i] * c->parts[i][k].amount;
            used[c->parts[i][k].resource] += draws;
            most[c->parts[i][k].resource] = MAX(most[c->parts[i][k].resource], draws);
        }
    for (uint32_t j = 0; j < c->n_resources; j++)
        ck_assert_msg(used[j] <= c->resources[j].capacity * (1 + 1e-7), "seed %u, event %u: resource %u gives %.9g", seed, event, j, used[j]);
    for (uint32_t i = 0; i < c->n_demands; i++) {
        bool bounded = c->min_time[i] > 0 && pace[i] * (double)c->min_time[i] * 1e-12 >= 1 - 1e-7;
        for (uint32_t k = 0; k < c->n_parts[i]; k++) {
            uint32_t j = c->parts[i][k].resource;
            bounded |= used[j] >= c->resources[j].capacity * (1 - 1e-7) && pace[i] * c->parts[i][k].amount >= most[j] * (1 - 1e-7);
        }
        ck_assert_msg(bounded, "seed %u, event %u: nothing bounds demand %u", seed, event, i);
    }
}

START_TEST(many_demands_share_fairly)
{
    static const uint32_t lives[] = {3, 8, 20, 64};
    guint32 seed = 777 + (guint32)_i;
    g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
    Case c = {.n_resources = 6, .n_demands = lives[_i % (int)G_N_ELEMENTS(lives)]};
    for (uint32_t j = 0; j < c.n_resources; j++)
        c.resources[j].capacity = 1e6;
    g_autoptr(EchNative) engine = ech_native_new(c.resources, c.n_resources, MAX_DEMANDS);
    const EchFluidClass *class = &ech_native_class;
    uint32_t tokens[MAX_DEMANDS], n = c.n_demands;
    for (uint32_t i = 0; i < n; i++)
        tokens[i] = i;
    double before[MAX_DEMANDS], pace[MAX_DEMANDS];
    for (unsigned event = 0; event < 2000; event++) {
        for (uint32_t t = 0; t < n; t++) {
            uint32_t i = tokens[t];
            c.n_parts[i] = 0;
            for (uint32_t j = 0; j < c.n_resources; j++)
                if (g_rand_double(rand) < 0.4)
                    part(&c, i, j, pow(10, g_rand_double_range(rand, -2, 0)) * 1e6);
            c.min_time[i] = g_rand_double(rand) < 0.3 || c.n_parts[i] == 0 ? (EchTime)(g_rand_double_range(rand, 0.1, 20) * 1e12) : 0;
            class->start(engine, i, c.parts[i], c.n_parts[i], c.min_time[i]);
        }
        for (uint32_t i = 0; i < c.n_demands; i++)
            before[i] = class->remaining(engine, i);
        EchTime ps, later;
        double part_of_ps = class->clock(engine, &ps);
        n = class->next(engine, tokens, &later);
        ck_assert_uint_gt(n, 0);
        double spent = -(part_of_ps + (double)ps);
        part_of_ps = class->clock(engine, &later);
        spent += part_of_ps + (double)later;
        if (spent < 1e7) /* too short to tell a pace by what is left */
            continue;
        for (uint32_t i = 0; i < c.n_demands; i++)
            pace[i] = (before[i] - class->remaining(engine, i)) / (spent * 1e-12);
        check_shares(&c, pace, seed, event);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fluid");
    TCase *tests = tcase_create("fluid");
    tcase_add_test(tests, four_demands_share_by_bottleneck);
    tcase_add_test(tests, chain_does_not_drift);
    tcase_add_test(tests, minimum_times_cap_and_free_capacity);
    tcase_add_loop_test(tests, many_demands_share_fairly, 0, 8);
    const char *cases = g_getenv("ECHELON_TEST_CASES");
    tcase_add_loop_test(tests, random_cases_agree, 0, cases ? atoi(cases) : 40);
    suite_add_tcase(suite, tests);
    return ech_test_main(suite);
}
