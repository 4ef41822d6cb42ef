/** @file pytorch_private.h
 * What the files of PyTorch's caching allocator share: its blocks, segments and pools (pytorch.c), pages of expandable segments (pytorch_expand.c), giving
 * memory back (pytorch_release.c), start states (pytorch_seed.c).
 */
#pragma once
#include "models/alloc/class.h"
#include "models/alloc/pytorch_conf.h"
#include "models/alloc/tree.h"

/* CUDACachingAllocator.cpp ("CCA") of PyTorch 2.6.0, lines 121 to 128. */
#define ECH_PYTORCH_SMALL_SIZE (UINT64_C(1) << 20) /**< Larger requests are of the large pool. */

typedef struct {
    uint64_t address;
    EchBytes bytes;
    EchBytes requested;
    uint64_t gc_base;    /* the pool's calls when it was last put into the free set */
    uint32_t prev, next; /* neighbours in the segment, 0 none; next also links spare blocks */
    uint32_t pool;       /* of pools */
    uint32_t segment;    /* of segments */
    uint32_t events;     /* outstanding */
    uint32_t uses;       /* list of other streams, 0 none */
    bool allocated, mapped;
    uint32_t age; /* number of the block in the order they were made */
} Block;
G_STATIC_ASSERT(sizeof(Block) == 64); /* a cache line, and laid out so */

typedef struct {
    uint64_t address; /* of the range or the reservation */
    EchBytes bytes;   /* 0: slot is spare, number is the next one + 1 */
    EchBytes page;    /* 0: cudaMalloc */
    uint32_t number;
    int32_t reservation;
} Segment;

/* Free blocks of one stream in one of the two pools. */
typedef struct {
    uint32_t stream;
    bool small;
    bool private, done;   /* of a graph or a MemPool, which keeps it until it is released */
    bool captured;        /* a graph's: what it cached goes back when the next cache is emptied, a MemPool's at once */
    bool forgotten;       /* released, and never looked at again (ech_pytorch_forget) */
    uint32_t n_allocated; /* blocks in use */
    int64_t mallocs;      /* requests that took memory from the device, less the segments and ranges of pages given back */
    bool touched;         /* a block became free since the pool was last released: what is left then cannot go back before one does */
    EchTree free;         /* (bytes, address) */
    EchTree unmapped;     /* (address, 0) */
} Pool;

/* Events of one stream, oldest first: items[head..n), of which those below done are complete. */
typedef struct {
    uint32_t stream;
    uint32_t head, done, n, allocated;
    uint32_t *blocks;
    uint32_t next_ready; /* while ready: number of the next ready one + 1 */
    bool ready;          /* some are complete and not yet processed */
} Events;

typedef struct {
    uint32_t stream, next;
} Use;

typedef struct {
    int64_t current, peak, allocated, freed;
} Stat;

typedef enum {
    ALLOCATION,
    SEGMENT,
    ACTIVE,
    INACTIVE_SPLIT,
    ALLOCATED_BYTES,
    RESERVED_BYTES,
    ACTIVE_BYTES,
    INACTIVE_SPLIT_BYTES,
    REQUESTED_BYTES,
    N_STATS
} StatKind;

typedef struct {
    EchAllocator base;
    /* Settings. */
    EchPyTorchConf conf;
    EchBytes allowed;                              /* of the device: by per_process_memory_fraction */
    EchBytes most;                                 /* the same, as throw_on_cudamalloc_oom counts it; UINT64_MAX without that */
    EchBytes reserve;                              /* addresses of an expandable segment, before it is rounded to pages */
    bool limited;                                  /* per_process_memory_fraction is given */
    enum { BY_ADDRESS, BY_BLOCK, BY_SEGMENT } tie; /* of free blocks of a size */
    uint32_t made;                                 /* blocks */
    bool collects;                                 /* blocks that were not used for long are given back */
    /* State. */
    Block *blocks;
    uint32_t n_blocks, allocated_blocks, spare_block;
    Segment *segments;
    uint32_t n_segments, spare_segment; /* spare: slot + 1 */
    Pool *pools;
    uint32_t n_pools, last_pool[2];
    uint32_t *touched; /* touched[n_touched]: numbers of pools that are, and give their cache back when it is emptied */
    uint32_t n_touched, allocated_touched;
    EchTree pool_index; /* (stream, small) to a number of pools */
    Events *events;
    uint32_t n_events, first_ready; /* ready: number + 1 */
    EchTree event_index;            /* (stream, 0) */
    Use *uses;
    uint32_t n_uses, allocated_uses, spare_use;
    uint64_t calls[2];      /* get_free_block calls: large, small */
    EchBytes total;         /* total_allocated_memory: of all segments and mapped pages */
    Stat stats[N_STATS][3]; /* all, small, large */
    Stat oversize_allocations, oversize_segments;
    int64_t retries, ooms, syncs, device_allocs, device_frees, rejections;
    bool rejected; /* the request at hand is, by throw_on_cudamalloc_oom */
    bool wrong;    /* the real one goes wrong in this trace, and the note says so */
} PyTorch;

static inline void stat_add(Stat *stat, int64_t n)
{
    stat->current += n;
    stat->peak = MAX(stat->peak, stat->current);
    stat->allocated += n;
}

static inline void stat_sub(Stat *stat, int64_t n)
{
    stat->current -= n;
    stat->freed += n;
}

/* Five of them an event: without a branch. */
static inline void stat_change(Stat *stat, int64_t n)
{
    stat->current += n;
    stat->peak = MAX(stat->peak, stat->current);
    stat->allocated += n > 0 ? n : 0;
    stat->freed -= n < 0 ? n : 0;
}

static inline void count(PyTorch *self, StatKind kind, bool small, int64_t n)
{
    stat_change(&self->stats[kind][0], n);
    stat_change(&self->stats[kind][2 - small], n);
}

static inline bool is_expandable(const PyTorch *self, const Block *block)
{
    return self->segments[block->segment].page != 0;
}

static inline bool is_split(const Block *block)
{
    return block->prev || block->next;
}

/* Where a free block stands among those of its size: the lowest address first; in 2.12 the block that was made first, since 2.13 the oldest segment. */
static inline EchTreeKey place_of(const PyTorch *self, const Block *block)
{
    switch (self->tie) {
    case BY_BLOCK: return ech_tree_key(block->bytes, block->age);
    case BY_SEGMENT: {
        const Segment *segment = &self->segments[block->segment];
        return ech_tree_key(block->bytes, (uint64_t)segment->number << 40 | (block->address - segment->address) / ECH_PYTORCH_MIN_BLOCK);
    }
    case BY_ADDRESS: break;
    }
    return ech_tree_key(block->bytes, block->address);
}

/** Notes that emptying caches has to look at this pool. */
void ech_pytorch_touch(PyTorch *self, uint32_t pool);

static inline void put(PyTorch *self, uint32_t at)
{
    Block *block = &self->blocks[at];
    Pool *pool = &self->pools[block->pool];
    block->gc_base = self->calls[pool->small];
    if (!pool->touched)
        ech_pytorch_touch(self, block->pool);
    ech_tree_insert(&pool->free, place_of(self, block), at);
}

static inline void pull(PyTorch *self, uint32_t at)
{
    const Block *block = &self->blocks[at];
    ech_tree_remove(&self->pools[block->pool].free, place_of(self, block));
}

static inline void put_unmapped(PyTorch *self, uint32_t at)
{
    ech_tree_insert(&self->pools[self->blocks[at].pool].unmapped, ech_tree_key(self->blocks[at].address, 0), at);
}

static inline void pull_unmapped(PyTorch *self, uint32_t at)
{
    ech_tree_remove(&self->pools[self->blocks[at].pool].unmapped, ech_tree_key(self->blocks[at].address, 0));
}

static inline bool allocatable(const Block *block)
{
    return !block->allocated && block->events == 0 && block->uses == 0;
}

/* pytorch.c */
/** A block of its own, in no set. */
uint32_t ech_pytorch_new_block(PyTorch *self, Block block);
void ech_pytorch_drop_block(PyTorch *self, uint32_t at);
uint32_t ech_pytorch_new_segment(PyTorch *self, Segment segment);
void ech_pytorch_drop_segment(PyTorch *self, uint32_t at);
/** Number of the pool of a stream; made where there is none. */
uint32_t ech_pytorch_pool_of(PyTorch *self, uint32_t stream, bool small, bool private, bool captured);
/** The same; n_pools where there is none. */
uint32_t ech_pytorch_find_pool(const PyTorch *self, uint32_t stream, bool small);
/** Joins @from, a neighbour of @at or 0, into @at. Its bytes, or 0 where it stays. @at is in no set. */
EchBytes ech_pytorch_try_merge(PyTorch *self, uint32_t at, uint32_t from);
/** A new block between @prev and @next (neighbours or 0). */
uint32_t ech_pytorch_splice(PyTorch *self, Block block, uint32_t prev, uint32_t next);
/** Frees the blocks whose last event is complete. */
void ech_pytorch_process_events(PyTorch *self);
/** Completes all events and frees what waited for them. */
void ech_pytorch_synchronize(PyTorch *self);

/* pytorch_expand.c */
/** A block of at least @size bytes that is in no set, from pages of an expandable segment; 0: refused. */
uint32_t ech_pytorch_allocate_expandable(PyTorch *self, uint32_t pool, EchBytes size);
/** Gives the pages wholly inside a free block back, and a reservation without pages (CCA:3061-3066). False where the block has no whole page. */
bool ech_pytorch_unmap(PyTorch *self, uint32_t at);

/* pytorch_release.c */
/** Gives back all that is cached, as far as it is whole segments or pages, private pools' only where they are released. */
void ech_pytorch_release_cached(PyTorch *self);
/** A private pool is forgotten when it is released and has given back as often as it took (CCA: cudaMalloc_count, of its small and its large pool together).
 * With expandable segments a request takes once, however many pages it maps, and each range of pages that goes back counts: what is left in a pool that is
 * forgotten stays for good, and one that would give back more often than it took stops the program. Since 2.6; read in 2.4's source, ranges of pages did not
 * count. */
void ech_pytorch_forget(PyTorch *self, uint32_t pool);
/** Counts what a pool gave back for ech_pytorch_forget(). */
void ech_pytorch_count_given(PyTorch *self, uint32_t pool, bool pages);
/** Gives back what one pool has cached, as far as it is whole segments or pages. */
void ech_pytorch_release_pool(PyTorch *self, uint32_t pool);
/** Gives back the oversize blocks it takes to make room for @size; false where those are too few (CCA:2811-2857). */
bool ech_pytorch_release_available(PyTorch *self, uint32_t pool, EchBytes size);
/** Gives back what was not used for long (CCA:2629-2686). */
void ech_pytorch_garbage_collect(PyTorch *self);
/** Of EchAllocClass. */
bool ech_pytorch_give_back(EchAllocator *base, uint64_t address, EchBytes bytes);

/* pytorch_seed.c */
/** Of EchAllocClass. */
bool ech_pytorch_seed(EchAllocator *base, const EchSeedBlock *blocks, size_t n, GError **error);
