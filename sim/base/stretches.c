#include "sim/base/compare.h"
#include "sim/base/stretches.h"

static int compare_begins(gconstpointer a, gconstpointer b)
{
    const EchStretch *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

void ech_stretches_merge(GArray *stretches)
{
    g_array_sort(stretches, compare_begins);
    guint n = 0;
    for (guint i = 0; i < stretches->len; i++) {
        EchStretch next = g_array_index(stretches, EchStretch, i), *last = n ? &g_array_index(stretches, EchStretch, n - 1) : NULL;
        if (last && next.begin <= last->end) {
            last->end = MAX(last->end, next.end);
            continue;
        }
        next.before = last ? ech_time_add(last->before, last->end - last->begin) : 0;
        g_array_index(stretches, EchStretch, n++) = next;
    }
    g_array_set_size(stretches, n);
}

EchTime ech_stretches_before(const GArray *stretches, EchTime time)
{
    guint low = 0, high = stretches->len;
    ECH_SEARCH(low, high, middle, g_array_index(stretches, EchStretch, middle).begin < time);
    if (low == 0)
        return 0;
    const EchStretch *last = &g_array_index(stretches, EchStretch, low - 1);
    return last->before + MIN(time, last->end) - last->begin;
}
