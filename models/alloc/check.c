#include "models/alloc/check.h"

#include "models/alloc/tree.h"
#include "sim/base/error.h"

/* Live placements by (address, end); two neighbours in this order overlap if any two do. */
struct EchPlacementChecker {
    EchTree live;
};

EchPlacementChecker *ech_placement_checker_new(void)
{
    return g_new0(EchPlacementChecker, 1);
}

void ech_placement_checker_free(EchPlacementChecker *checker)
{
    if (!checker)
        return;
    ech_tree_clear(&checker->live);
    g_free(checker);
}

bool ech_placement_checker_add(EchPlacementChecker *checker, uint32_t id, uint64_t address, EchBytes bytes, GError **error)
{
    uint64_t end = address + bytes;
    if (bytes == 0)
        return true;
    if (end < address) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_VERIFY, "placement of %u at %" G_GUINT64_FORMAT " with %" G_GUINT64_FORMAT " bytes wraps around", id, address,
                    bytes);
        return false;
    }
    EchTreeIter after = ech_tree_lower_bound(&checker->live, ech_tree_key(address, 0));
    EchTreeIter before = after.leaf ? ech_tree_prev(after) : ech_tree_last(&checker->live);
    EchTreeIter bad = {0};
    if (after.leaf && (uint64_t)(ech_tree_iter_key(after) >> 64) < end)
        bad = after;
    else if (before.leaf && (uint64_t)ech_tree_iter_key(before) > address)
        bad = before;
    if (bad.leaf) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_VERIFY,
                    "placement of %u at [%" G_GUINT64_FORMAT ", %" G_GUINT64_FORMAT ") overlaps %u at [%" G_GUINT64_FORMAT ", %" G_GUINT64_FORMAT ")", id,
                    address, end, ech_tree_iter_value(bad), (uint64_t)(ech_tree_iter_key(bad) >> 64), (uint64_t)ech_tree_iter_key(bad));
        return false;
    }
    ech_tree_insert(&checker->live, ech_tree_key(address, end), id);
    return true;
}

void ech_placement_checker_remove(EchPlacementChecker *checker, uint64_t address)
{
    EchTreeIter it = ech_tree_lower_bound(&checker->live, ech_tree_key(address, 0));
    if (it.leaf && (uint64_t)(ech_tree_iter_key(it) >> 64) == address)
        ech_tree_remove_at(&checker->live, it);
}

typedef struct {
    uint64_t time;
    uint32_t item;
    bool begins;
} Step;

static int compare_steps(const void *a, const void *b)
{
    const Step *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    if (x->begins != y->begins)
        return x->begins ? 1 : -1; /* half-open: ends first */
    return (x->item > y->item) - (x->item < y->item);
}

bool ech_placement_check(const EchPlacedRange *items, size_t n, EchBytes limit, GError **error)
{
    g_assert(n < UINT32_MAX);
    g_autofree Step *steps = g_new(Step, 2 * n + 1);
    size_t n_steps = 0;
    for (size_t i = 0; i < n; i++) {
        const EchPlacedRange *item = &items[i];
        if (item->bytes == 0 || item->begin >= item->end)
            continue;
        if (limit && (item->bytes > limit || item->address > limit - item->bytes)) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_VERIFY, "placement of %zu ends at %" G_GUINT64_FORMAT ", above the limit of %" G_GUINT64_FORMAT " bytes", i,
                        item->address + item->bytes, limit);
            return false;
        }
        steps[n_steps++] = (Step){item->begin, (uint32_t)i, true};
        steps[n_steps++] = (Step){item->end, (uint32_t)i, false};
    }
    if (n_steps)
        qsort(steps, n_steps, sizeof *steps, compare_steps);
    g_autoptr(EchPlacementChecker) checker = ech_placement_checker_new();
    for (size_t i = 0; i < n_steps; i++) {
        const EchPlacedRange *item = &items[steps[i].item];
        if (!steps[i].begins)
            ech_placement_checker_remove(checker, item->address);
        else if (!ech_placement_checker_add(checker, steps[i].item, item->address, item->bytes, error))
            return false;
    }
    return true;
}
