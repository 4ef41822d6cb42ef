/* Offline planners: buffers per second, beside what XLA's own heap simulator did on the same lifetimes, and height over the lower bound.
 * The figures of the real code are those measured for its static heap (2k to 22k buffers/s best fit, 0.3M to 0.6M one-pass). */
#include "models/alloc/plan.h"
#include "tests/support/clock.h"
#include "tests/support/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t state = 88172645463325252;

static uint64_t draw(void)
{
    return ech_test_draw(&state);
}

/** Random frees around a number of live buffers: the shape that costs a best-fit heap most. */
static size_t churn(EchPlanItem *items, size_t n, size_t n_live)
{
    g_autofree size_t *live = g_new(size_t, n_live);
    int64_t now = 0;
    for (size_t i = 0; i < n; i++) {
        size_t slot = i < n_live ? i : (size_t)(draw() % n_live);
        if (i >= n_live)
            items[live[slot]].end = now++;
        items[i] = (EchPlanItem){now++, INT64_MAX, 1 + draw() % (4 << 20), 0, 0, ECH_PLAN_ALONE};
        live[slot] = i;
    }
    for (size_t i = 0; i < n; i++) {
        if (items[i].end == INT64_MAX)
            items[i].end = now++;
    }
    return n;
}

/** Layers forward and backward, as a training step allocates. */
static size_t training(EchPlanItem *items, size_t steps, size_t layers)
{
    size_t n = 0;
    int64_t now = 0;
    for (size_t s = 0; s < steps; s++) {
        size_t first = n;
        for (size_t l = 0; l < layers; l++) {
            items[n++] = (EchPlanItem){now, 0, (8 + l % 7) << 20, 0, 0, ECH_PLAN_ALONE};
            items[n++] = (EchPlanItem){now + 1, now + 3, (40 + s % 3) << 20, 0, 0, ECH_PLAN_ALONE};
            now += 4;
        }
        for (size_t l = layers; l-- > 0;) {
            items[n++] = (EchPlanItem){now, now + 2, (24 + l % 5) << 20, 0, 0, ECH_PLAN_ALONE};
            items[first + l * 2].end = now + 3;
            now += 4;
        }
    }
    return n;
}

int main(void)
{
    static const char *const specs[] = {"xla:algorithm=spatial", "xla:algorithm=temporal", "xla:algorithm=fast_merge", "xla:algorithm=fast_split", "greedy"};
    static const double real[] = {2221, 1997, 287704, 258879, 0}; /* real code, uniform_1e5, same machine */
    enum { N = 50000 };
    g_autofree EchPlanItem *items = g_new(EchPlanItem, N * 2);
    for (int shape = 0; shape < 2; shape++) {
        size_t n = shape == 0 ? churn(items, N, 2000) : training(items, 200, 80);
        for (size_t i = 0; i < G_N_ELEMENTS(specs); i++) {
            g_autoptr(EchPlan) plan = NULL;
            double best = INFINITY;
            for (int round = 0; round < 3; round++) {
                g_clear_pointer(&plan, ech_plan_free);
                double begin = ech_test_cpu_seconds();
                plan = ech_plan_new(specs[i], items, n, 0, NULL);
                best = MIN(best, ech_test_cpu_seconds() - begin);
            }
            printf("{\"bench\": \"plan\", \"shape\": \"%s\", \"planner\": \"%s\", \"buffers_per_s\": %.0f, \"height_over_bound\": %.4f",
                   shape ? "training" : "churn", specs[i], (double)n / best, (double)plan->height / (double)plan->lower_bound);
            if (shape == 0 && real[i] > 0)
                printf(", \"ratio_to_real\": %.1f", (double)n / best / real[i]);
            printf("}\n");
        }
    }
    return EXIT_SUCCESS;
}
