#include "sim/import/page_cache.h"

/* A part of a file that was used in one go last: extents of a file are disjoint. */
typedef struct {
    uint64_t file, from, to;
    size_t use; /* which, of all uses */
} Extent;

struct EchPageCache {
    GTree *extents; /* by file, then by place */
    uint64_t *sums; /* a Fenwick tree: of each use the bytes that were not used again */
    size_t n, room; /* uses; room: a power of two */
};

static int compare(const void *a, const void *b, void *unused)
{
    const Extent *x = a, *y = b;
    (void)unused;
    return x->file != y->file ? (x->file < y->file ? -1 : 1) : (x->from > y->from) - (x->from < y->from);
}

EchPageCache *ech_page_cache_new(void)
{
    EchPageCache *cache = g_new0(EchPageCache, 1);
    cache->extents = g_tree_new_full(compare, NULL, g_free, NULL);
    return cache;
}

void ech_page_cache_free(EchPageCache *cache)
{
    if (!cache)
        return;
    g_tree_destroy(cache->extents);
    g_free(cache->sums);
    g_free(cache);
}

/* Numbers wrap, so that what is taken away is an addition, too. */
static void add(EchPageCache *cache, size_t use, uint64_t bytes)
{
    for (size_t i = use + 1; i <= cache->room; i += i & -i)
        cache->sums[i - 1] += bytes;
}

static uint64_t sum_before(const EchPageCache *cache, size_t use)
{
    uint64_t sum = 0;
    for (size_t i = use; i > 0; i &= i - 1)
        sum += cache->sums[i - 1];
    return sum;
}

static void make_room(EchPageCache *cache)
{
    if (cache->n < cache->room)
        return;
    const size_t room = MAX(2 * cache->room, 64);
    cache->sums = g_renew(uint64_t, cache->sums, room);
    for (size_t i = cache->room; i < room; i++)
        cache->sums[i] = 0;
    if (cache->room > 0) /* the node of all of the old ones; those between have none of them */
        cache->sums[room - 1] = sum_before(cache, cache->room);
    cache->room = room;
}

static void keep(EchPageCache *cache, Extent extent)
{
    if (extent.from >= extent.to)
        return;
    g_tree_insert(cache->extents, g_memdup2(&extent, sizeof extent), NULL);
    add(cache, extent.use, extent.to - extent.from);
}

/* The extent that ends behind @from and begins before @to, or NULL. */
static const Extent *overlapping(const EchPageCache *cache, uint64_t file, uint64_t from, uint64_t to)
{
    const Extent place = {.file = file, .from = from};
    GTreeNode *node = g_tree_upper_bound(cache->extents, &place), *before = node ? g_tree_node_previous(node) : g_tree_node_last(cache->extents);
    const Extent *found = before ? g_tree_node_key(before) : NULL;
    if (found && found->file == file && found->to > from)
        return found;
    found = node ? g_tree_node_key(node) : NULL;
    return found && found->file == file && found->from < to ? found : NULL;
}

EchBytes ech_page_cache_take(EchPageCache *cache, uint64_t file, uint64_t from, EchBytes bytes, EchBytes *ret_new)
{
    const uint64_t to = from + MIN(bytes, G_MAXUINT64 - from);
    *ret_new = to - from;
    if (from >= to)
        return 0;
    make_room(cache);
    size_t oldest = cache->n;
    uint64_t known = 0, since = 0;
    for (const Extent *found; (found = overlapping(cache, file, from, to));) {
        const Extent whole = *found;
        if (whole.use < oldest) { /* before anything of it is taken away: what was used with it came in with it */
            oldest = whole.use;
            since = sum_before(cache, cache->n) - sum_before(cache, whole.use) + known;
        }
        known += MIN(whole.to, to) - MAX(whole.from, from);
        g_tree_remove(cache->extents, found);
        add(cache, whole.use, -(whole.to - whole.from));
        keep(cache, (Extent){file, whole.from, MAX(whole.from, from), whole.use});
        keep(cache, (Extent){file, MIN(whole.to, to), whole.to, whole.use});
    }
    keep(cache, (Extent){file, from, to, cache->n++});
    *ret_new -= known;
    return since;
}
