/** @file plan.h
 * Offline placement: all lifetimes known in advance, one offset for each buffer. One planner per file, one class table.
 *
 * Plain arrays in and out; knows no traces and no programs. Not an online allocator (alloc.h). A plan that does not fit is a result
 * (EchPlan.fits), never an error. To add a planner: one file with a const EchPlanClass `ech_plan_NAME` and one row in planners.def;
 * tests and `echelon list planners` take it from the table.
 *
 * Specs: "xla:algorithm=spatial|temporal|best|phase|phase_end|fast_merge|fast_split,alignment=256,limit=4GiB",
 * "exact:time_limit=30s", "greedy". Times are any integers: planners use only their order (see EchPlanItem).
 */
#pragma once
#include "sim/base/param.h"

#include <signal.h>

#define ECH_PLAN_ALONE UINT32_MAX              /**< EchPlanItem.colocation of an item that shares with nobody. */
#define ECH_PLAN_MAX_ITEMS ((size_t)1 << 28)   /**< More are refused with ECH_ERROR_CONFIG. */
#define ECH_PLAN_MAX_BYTES (UINT64_C(1) << 60) /**< Of a buffer and of an alignment; larger ones are, too. */

/** A buffer to place.
 *
 * XLA's heaps are driven by a clock that ticks at every allocation and every free. The "xla" planner makes that clock itself from
 * begin and end: events in order of time, at equal times ends before begins, then by index; items of 0 bytes do not tick. A caller
 * that knows the order of events (XLA: at a schedule step all definitions, then all ends) gives each event its own integer.
 */
typedef struct {
    int64_t begin, end;  /**< Half-open life; begin <= end. Two items with equal end and begin do not meet. */
    EchBytes bytes;      /**< At most ECH_PLAN_MAX_BYTES. 0 is allowed: offset 0, in no heap's way. */
    EchBytes alignment;  /**< The offset is a multiple of it; 0: the planner's own. The xla heap aligns all of a colour alike, to the least common multiple. */
    uint32_t colour;     /**< Memory space: each colour has heaps of its own; heaps are numbered colour by colour, ascending. */
    uint32_t colocation; /**< Items of a colour with the same number get the same offset, and may live at once. Else ECH_PLAN_ALONE. */
} EchPlanItem;

/** A placement of n items. Owned by the caller. */
typedef struct {
    size_t n;
    uint64_t *offsets; /**< offsets[n], bytes, in the item's heap. */
    uint32_t *heaps;   /**< heaps[n]: heap of each item. */
    size_t n_heaps;
    EchBytes *heap_bytes;   /**< heap_bytes[n_heaps]: largest end of a placed item; not rounded. */
    uint32_t *heap_colours; /**< heap_colours[n_heaps] */
    EchBytes height;        /**< Sum of heap_bytes. */
    EchBytes lower_bound;   /**< Sum over colours of the most bytes live at once (and at least the largest item): no plan is lower. */
    bool fits;              /**< No heap is higher than the capacity asked for (true if none was asked for). */
    bool proved_optimal;    /**< No plan (one heap a colour) is lower than this one: it equals a lower bound or the search was exhausted. */
    bool out_of_time;       /**< A search stopped at its limit; the plan is the best so far. */
    bool too_large;         /**< So many buffers meet that no search was begun; the plan is a heuristic's. */
    uint64_t steps;         /**< Placements tried by a search, else items placed. */
} EchPlan;

/** One colour's problem as a planner sees it: checked, groups dense. Borrowed. */
typedef struct {
    size_t n;
    const EchPlanItem *items; /**< items[n], of one colour; alignments filled in, one for all of a group. */
    const uint32_t *group;    /**< group[n]: co-location group of an item, numbered in order of the first member's index. */
    size_t n_groups;
    const uint32_t *member; /**< member[n]: items by group, in index order; */
    const uint32_t *first;  /**< first[n_groups + 1]: where a group's members begin in member. */
    EchBytes capacity;      /**< The height that was asked for: the exact search tries it first; 0: none given. */
    EchBytes lower_bound;   /**< Of this colour. */
    /** Not 0: whoever asked wants the best plan so far, at once; NULL: that never happens. */
    const volatile sig_atomic_t *stop;
    /** Wants to be told now and then how many of how many placements are done; NULL: does not. */
    void (*progress)(uint64_t done, uint64_t total);
} EchPlanProblem;

/** What a planner fills for one colour; arrays are there (offsets and heaps zeroed), heaps are numbered from 0. */
typedef struct {
    uint64_t *offsets;
    uint32_t *heaps;
    uint32_t n_heaps;    /**< 1 on entry. */
    bool proved_optimal; /**< false on entry; reaching the lower bound is seen by the caller. */
    bool out_of_time, too_large;
    uint64_t steps;
} EchPlanSolution;

/** What every planner's object begins with. */
typedef struct {
    uint64_t alignment; /**< Offsets of items without one of their own are multiples of it; at least 1. */
} EchPlanObject;

/** A planner. Its object is a plain struct of parameters, an EchPlanObject first. */
typedef struct {
    const char *name;
    const char *summary; /**< One sentence. */
    const char *source;  /**< Where the behaviour comes from. */
    size_t object_size;
    const EchParam *params; /**< Fields of the object; ends with a row without a name. */
    bool searches;          /**< It looks at EchPlanProblem.stop: it may take long and has a plan at every moment. */
    /** Places one colour. Cannot fail: what cannot be found in time is answered by the best plan so far. */
    void (*plan)(const void *object, const EchPlanProblem *problem, EchPlanSolution *solution);
} EchPlanClass;

/** The table; rows in the order of planners.def. */
const EchPlanClass *const *ech_plan_classes(size_t *ret_n);

typedef struct EchPlanner EchPlanner;

/** Makes a planner from a spec. ECH_ERROR_CONFIG with the nearest name. */
EchPlanner *ech_planner_new(const char *spec, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_planner_free(EchPlanner *planner);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchPlanner, ech_planner_free)
/** Canonical spec; borrowed. */
const char *ech_planner_name(const EchPlanner *planner);
/** Runs of a planner that searches end with the best plan so far (out_of_time) once *@stop is not 0, which a signal's handler may make it; borrowed, and
 * must stay there. False for a planner that does not search: it would never look. */
bool ech_planner_stop_when(EchPlanner *planner, const volatile sig_atomic_t *stop);
/** Runs of a planner whose time grows with what there is to place ("xla": minutes for a hundred thousand long lives) tell @progress now and then how many of
 * how many placements of a colour are done; others have a limit of their own and tell nothing. */
void ech_planner_tell(EchPlanner *planner, void (*progress)(uint64_t done, uint64_t total));
/** Places @items[@n]. @capacity 0: none. ECH_ERROR_CONFIG for an impossible item (begin > end, too many bytes, an alignment that is too large). */
EchPlan *ech_planner_run(const EchPlanner *planner, const EchPlanItem *items, size_t n, EchBytes capacity, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** The three calls above in one, for callers with a fixed spec. */
EchPlan *ech_plan_new(const char *spec, const EchPlanItem *items, size_t n, EchBytes capacity, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ech_plan_free(EchPlan *plan);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EchPlan, ech_plan_free)

/** The planner-blind oracle: offsets aligned and equal within groups, no two items that live at once in one heap overlap, heights as stated.
 * Knows nothing of how the plan was made; O(n log n). ECH_ERROR_VERIFY names the two items by index. */
bool ech_plan_check(const EchPlanItem *items, size_t n, const EchPlan *plan, GError **error);
