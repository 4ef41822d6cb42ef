/* What PyTorch's caching allocator gives back, and when (CUDACachingAllocator.cpp, "CCA", of PyTorch 2.6.0). */
#include "models/alloc/pytorch_private.h"
#include "sim/base/compare.h"

#include <stdlib.h>

/* Of the small and the large pool of a private pool together. */
static int64_t mallocs_of(const PyTorch *self, uint32_t pool, uint32_t *ret_other)
{
    const Pool *one = &self->pools[pool];
    *ret_other = ech_pytorch_find_pool(self, one->stream, !one->small);
    return one->mallocs + (*ret_other < self->n_pools ? self->pools[*ret_other].mallocs : 0);
}

/* Said once beside the results: the real one goes wrong in this trace. */
static void goes_wrong(PyTorch *self, const char *how)
{
    if (self->wrong)
        return;
    self->wrong = true;
    g_autofree char *before = self->base.note;
    self->base.note = g_strconcat(before ? before : "", before ? "; " : "", how, NULL);
}

void ech_pytorch_count_given(PyTorch *self, uint32_t pool, bool pages)
{
    if (!self->pools[pool].private || (pages && self->conf.release > 0 && self->conf.release < 6))
        return;
    uint32_t other;
    self->pools[pool].mallocs--;
    if (mallocs_of(self, pool, &other) < 0)
        goes_wrong(self,
                   "PyTorch itself stops in this trace at an assertion of its own (cudaMalloc_count > 0): a private pool in expandable segments gives back "
                   "more ranges of pages than requests took");
}

void ech_pytorch_forget(PyTorch *self, uint32_t pool)
{
    uint32_t other;
    if (!self->pools[pool].private || !self->pools[pool].done || self->pools[pool].forgotten || mallocs_of(self, pool, &other) > 0)
        return;
    self->pools[pool].forgotten = true;
    uint32_t in_use = self->pools[pool].n_allocated;
    if (other < self->n_pools) {
        self->pools[other].forgotten = true;
        in_use += self->pools[other].n_allocated;
    }
    if (in_use > 0)
        goes_wrong(self,
                   "PyTorch itself may crash in this trace: it deletes a private pool in expandable segments that has blocks in use, and goes on using it");
}

static void release_block(PyTorch *self, uint32_t at)
{
    Block block = self->blocks[at];
    bool small = self->pools[block.pool].small;
    pull(self, at);
    ech_alloc_give_segment(&self->base, block.address, block.bytes);
    self->total -= block.bytes;
    count(self, SEGMENT, small, -1);
    count(self, RESERVED_BYTES, small, -(int64_t)block.bytes);
    self->device_frees++;
    ech_pytorch_count_given(self, block.pool, false);
    if (block.bytes >= self->conf.max_split)
        stat_sub(&self->oversize_segments, 1);
    ech_pytorch_drop_segment(self, block.segment);
    ech_pytorch_drop_block(self, at);
}

void ech_pytorch_release_pool(PyTorch *self, uint32_t pool)
{
    g_autoptr(GArray) found = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (EchTreeIter it = ech_tree_first(&self->pools[pool].free); it.leaf; it = ech_tree_next(it)) {
        uint32_t at = ech_tree_iter_value(it);
        if (is_expandable(self, &self->blocks[at]) || !is_split(&self->blocks[at]))
            g_array_append_val(found, at);
    }
    for (guint j = 0; j < found->len; j++) {
        uint32_t at = g_array_index(found, uint32_t, j);
        if (is_expandable(self, &self->blocks[at]))
            ech_pytorch_unmap(self, at);
        else
            release_block(self, at);
    }
}

void ech_pytorch_touch(PyTorch *self, uint32_t pool)
{
    self->pools[pool].touched = true;
    if (self->pools[pool].forgotten || (self->pools[pool].private && !self->pools[pool].done))
        return; /* looked at when it is done */
    if (self->n_touched == self->allocated_touched) {
        self->allocated_touched = self->allocated_touched ? self->allocated_touched * 2 : 16;
        self->touched = g_renew(uint32_t, self->touched, self->allocated_touched);
    }
    self->touched[self->n_touched++] = pool;
}

void ech_pytorch_release_cached(PyTorch *self)
{
    ech_pytorch_synchronize(self);
    /* Releasing leaves pieces of pages, which touch their pools again. */
    g_autofree uint32_t *pools = g_steal_pointer(&self->touched);
    uint32_t n = self->n_touched;
    self->n_touched = self->allocated_touched = 0;
    if (n > 1)
        qsort(pools, n, sizeof *pools, ech_compare_u32);
    for (uint32_t i = 0; i < n; i++)
        self->pools[pools[i]].touched = false;
    for (int small = 0; small < 2; small++) {
        for (uint32_t i = 0; i < n; i++) {
            if (self->pools[pools[i]].small == small && !self->pools[pools[i]].forgotten)
                ech_pytorch_release_pool(self, pools[i]);
        }
    }
    for (uint32_t i = 0; i < n; i++)
        ech_pytorch_forget(self, pools[i]);
}

/* cudaFree takes whole segments alone. Only a start state recorded under another max_split_size has oversize blocks that are split. */
static bool is_whole(const PyTorch *self, uint32_t at)
{
    return !is_expandable(self, &self->blocks[at]) && !is_split(&self->blocks[at]);
}

/* Gives back the oversize blocks it takes to make room for @size (CCA:2811-2857). */
bool ech_pytorch_release_available(PyTorch *self, uint32_t pool, EchBytes size)
{
    if (self->conf.max_split == UINT64_MAX)
        return false;
    EchTree *tree = &self->pools[pool].free;
    EchBytes wanted = MAX(size, self->conf.max_split), released = 0;
    EchTreeIter it = ech_tree_lower_bound(tree, ech_tree_key(wanted, 0));
    if (it.leaf && is_whole(self, ech_tree_iter_value(it))) {
        release_block(self, ech_tree_iter_value(it));
        return true;
    }
    EchTreeKey bound = it.leaf ? ech_tree_iter_key(it) : ech_tree_key(UINT64_MAX, UINT64_MAX);
    while (released < wanted) {
        EchTreeIter after = ech_tree_lower_bound(tree, bound);
        EchTreeIter before = after.leaf ? ech_tree_prev(after) : ech_tree_last(tree);
        if (!before.leaf)
            break;
        bound = ech_tree_iter_key(before);
        uint32_t at = ech_tree_iter_value(before);
        EchBytes bytes = self->blocks[at].bytes;
        if (bytes < self->conf.max_split)
            break;
        if (!is_whole(self, at))
            continue;
        release_block(self, at);
        released += bytes;
    }
    return released >= wanted;
}

/* CCA:2629-2686. */
void ech_pytorch_garbage_collect(PyTorch *self)
{
    EchBytes threshold = (EchBytes)(self->conf.gc_threshold * (double)self->allowed);
    if (self->total <= threshold)
        return;
    EchBytes target = self->total - threshold, reclaimed = 0;
    uint64_t total_age = 0, n = 0;
    g_autoptr(GArray) candidates = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (uint32_t i = 0; i < self->n_pools; i++) {
        if (self->pools[i].small || self->pools[i].private)
            continue;
        for (EchTreeIter it = ech_tree_first(&self->pools[i].free); it.leaf; it = ech_tree_next(it)) {
            uint32_t at = ech_tree_iter_value(it);
            if (is_split(&self->blocks[at]))
                continue;
            total_age += self->calls[0] - self->blocks[at].gc_base;
            n++;
            if (!is_expandable(self, &self->blocks[at]))
                g_array_append_val(candidates, at);
        }
    }
    bool freed = n > 0;
    while (reclaimed < target && freed && n > 0) {
        double limit = (double)total_age / (double)n;
        freed = false;
        guint kept = 0;
        for (guint i = 0; i < candidates->len; i++) {
            uint32_t at = g_array_index(candidates, uint32_t, i);
            uint64_t age = self->calls[0] - self->blocks[at].gc_base;
            if ((double)age < limit) {
                g_array_index(candidates, uint32_t, kept++) = at;
                continue;
            }
            freed = true;
            reclaimed += self->blocks[at].bytes;
            total_age -= age;
            n--;
            release_block(self, at);
        }
        g_array_set_size(candidates, kept);
    }
}

/* What a recorded allocator gave back to the device (empty_cache, or another process's pressure). */
bool ech_pytorch_give_back(EchAllocator *base, uint64_t address, EchBytes bytes)
{
    (void)bytes; /* all of the free block or of its pages */
    PyTorch *self = (PyTorch *)base;
    ech_pytorch_process_events(self);
    for (uint32_t i = 0; i < self->n_pools; i++) {
        for (EchTreeIter it = ech_tree_first(&self->pools[i].free); it.leaf; it = ech_tree_next(it)) {
            uint32_t at = ech_tree_iter_value(it);
            const Block *block = &self->blocks[at];
            if (address < block->address || address - block->address >= block->bytes)
                continue;
            if (!is_expandable(self, block)) {
                if (is_split(block))
                    return false;
                release_block(self, at);
                return true;
            }
            return ech_pytorch_unmap(self, at);
        }
    }
    return false;
}
