#include "sim/base/range_max.h"

/* A segment tree over leaves[size], size the power of two that holds n: most[node] is the largest below a node, all[node] included, which was added to all of
 * them. Node 1 is the root, its children 2 and 3; what no value stands for is as low as can be. */
struct EchRangeMax {
    size_t n, size;
    int64_t *most, *all;
};

static const int64_t LOWEST = INT64_MIN / 2;

EchRangeMax *ech_range_max_new(const int64_t *values, size_t n)
{
    EchRangeMax *self = g_new0(EchRangeMax, 1);
    self->n = n;
    for (self->size = 1; self->size < n;)
        self->size *= 2;
    self->most = g_new(int64_t, 2 * self->size);
    self->all = g_new0(int64_t, 2 * self->size);
    for (size_t i = 0; i < self->size; i++)
        self->most[self->size + i] = i < n ? values[i] : LOWEST;
    for (size_t node = self->size - 1; node > 0; node--)
        self->most[node] = MAX(self->most[2 * node], self->most[2 * node + 1]);
    return self;
}

void ech_range_max_free(EchRangeMax *self)
{
    if (!self)
        return;
    g_free(self->most);
    g_free(self->all);
    g_free(self);
}

static int64_t sum(int64_t a, int64_t b)
{
    int64_t out;
    return __builtin_add_overflow(a, b, &out) ? (b > 0 ? INT64_MAX : INT64_MIN) : out;
}

static void add_to(EchRangeMax *self, size_t node, int64_t more)
{
    self->most[node] = sum(self->most[node], more);
    self->all[node] = sum(self->all[node], more);
}

static void settle_above(EchRangeMax *self, size_t node)
{
    for (node /= 2; node > 0; node /= 2)
        self->most[node] = sum(MAX(self->most[2 * node], self->most[2 * node + 1]), self->all[node]);
}

void ech_range_max_add(EchRangeMax *self, size_t first, size_t end, int64_t more)
{
    end = MIN(end, self->n);
    if (first >= end)
        return;
    for (size_t low = self->size + first, high = self->size + end; low < high; low /= 2, high /= 2) {
        if (low & 1)
            add_to(self, low++, more);
        if (high & 1)
            add_to(self, --high, more);
    }
    settle_above(self, self->size + first);
    settle_above(self, self->size + end - 1);
}

int64_t ech_range_max_peak(const EchRangeMax *self, size_t *ret_at)
{
    size_t node = 1;
    while (ret_at && node < self->size)
        node = self->most[2 * node] >= self->most[2 * node + 1] ? 2 * node : 2 * node + 1;
    if (ret_at)
        *ret_at = node - self->size;
    return self->most[1];
}

/* Of the leaves [@low, @high) below @node the last before @end above @limit. */
static size_t last_above(const EchRangeMax *self, size_t node, size_t low, size_t high, size_t end, int64_t limit)
{
    if (low >= end || self->most[node] <= limit)
        return SIZE_MAX;
    if (high - low == 1)
        return low;
    size_t middle = low + (high - low) / 2;
    limit = sum(limit, self->all[node] == INT64_MIN ? INT64_MAX : -self->all[node]);
    size_t right = last_above(self, 2 * node + 1, middle, high, end, limit);
    return right != SIZE_MAX ? right : last_above(self, 2 * node, low, middle, end, limit);
}

size_t ech_range_max_last_above(const EchRangeMax *self, size_t end, int64_t limit)
{
    return last_above(self, 1, 0, self->size, MIN(end, self->n), limit);
}

void ech_range_max_values(const EchRangeMax *self, int64_t *ret_values)
{
    for (size_t i = 0; i < self->n; i++) {
        ret_values[i] = self->most[self->size + i];
        for (size_t node = (self->size + i) / 2; node > 0; node /= 2)
            ret_values[i] = sum(ret_values[i], self->all[node]);
    }
}
