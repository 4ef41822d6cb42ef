/* An exact planner of MiniMalloc's class: is there a plan of height H, for the lowest H.
 *
 * Only bottom-left plans are searched: each group rests on the floor or on another group. Addresses are decided from below. At each
 * node a group with the lowest possible offset, in the section with the least slack, is placed there (left branch) or is said not to be
 * there (right branch): it must then rest on something not yet placed, which raises its bound. A section (a set of groups that live
 * at once) fails where the lowest bound and the sum of what is missing exceed H, or any suffix of them does. Groups that time cuts apart are searched
 * apart. States that failed are remembered across restarts, so that a restart with other preferences loses nothing. Before a problem is
 * searched, coarser ones are (coarsen.h): their plans are plans of it, and real programs' reuse of memory is often found there at once. */
#include "models/alloc/exact_search.h"
#include "models/alloc/greedy.h"

typedef struct {
    EchPlanObject base;
    EchTime time_limit;
    uint64_t step_limit;
} Exact;

static const EchParam exact_params[] = {
    {"time_limit", ECH_PARAM_TIME, offsetof(Exact, time_limit), "30s", "0", NULL, NULL, "Wall-clock time after which the best plan so far is returned."},
    {"step_limit", ECH_PARAM_U64, offsetof(Exact, step_limit), "0", NULL, NULL, NULL,
     "Search steps after which the best plan so far is returned, the same on every machine; 0: no such limit."},
    {"alignment", ECH_PARAM_BYTES, offsetof(Exact, base.alignment), "1", "1", "1TiB", NULL,
     "Offsets of buffers that state no alignment are multiples of it, in bytes."},
    {NULL, ECH_PARAM_U64, 0, NULL, NULL, NULL, NULL, NULL},
};

static void exact_plan(const void *object, const EchPlanProblem *problem, EchPlanSolution *solution)
{
    const Exact *exact = object;
    gint64 limit = exact->time_limit / ECH_PS_PER_US;
    gint64 now = g_get_monotonic_time();
    ech_greedy_plan(problem, solution);
    ech_exact_improve(problem, solution, limit > INT64_MAX - now ? INT64_MAX : now + limit, exact->step_limit);
}

const EchPlanClass ech_plan_exact = {
    .name = "exact",
    .summary = "Lowest plan by search, with proof; best so far when time is up",
    .source = "our own search; problem and measure of MiniMalloc (Moffitt, ASPLOS 2023, doi 10.1145/3623278.3624752)",
    .object_size = sizeof(Exact),
    .params = exact_params,
    .searches = true,
    .plan = exact_plan,
};
