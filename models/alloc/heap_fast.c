#include "models/alloc/heap_fast.h"

#include <string.h>

#define NIL 0u

/** A chunk; together they cover all below the top, each with its neighbours. */
typedef struct {
    uint64_t start, end;
    uint64_t room;         /* free: from the aligned start to the end; 0 where that is not inside */
    uint32_t below, above; /* neighbours, or NIL; below also links spare ones */
    bool is_free;
} Chunk;

/** What free chunks are sorted by. */
typedef struct {
    uint64_t room, start;
} Key;

/** Some of the free chunks, sorted; never empty. */
enum { BLOCK = 64 };
typedef struct {
    uint32_t n;
    uint32_t ids[BLOCK];
    Key keys[BLOCK];
} Block;

struct EchFastHeap {
    uint64_t top; /* the endless chunk starts here */
    uint64_t alignment;
    Chunk *chunks; /* chunks[0] is unused */
    uint32_t n, room;
    uint32_t spare;   /* list of unused chunks */
    uint32_t highest; /* chunk below the top, or NIL */
    Block **blocks;   /* blocks[n_blocks], in order, */
    Key *last;        /* and the last key of each */
    uint32_t n_blocks, blocks_room;
};

static uint64_t align_up(uint64_t value, uint64_t alignment)
{
    uint64_t rest = (alignment & (alignment - 1)) == 0 ? value & (alignment - 1) : value % alignment;
    return rest ? value + (alignment - rest) : value;
}

static bool before(Key a, Key b)
{
    return a.room != b.room ? a.room < b.room : a.start < b.start;
}

static uint32_t first_not_before(const Key *keys, uint32_t n, Key key)
{
    uint32_t low = 0;
    while (n > 0) {
        uint32_t half = n / 2;
        bool right = before(keys[low + half], key);
        low = right ? low + half + 1 : low;
        n = right ? n - half - 1 : half;
    }
    return low;
}

typedef struct {
    uint32_t block, at;
} Place;

/** Of the first free chunk that is not before @key; block n_blocks where there is none. */
static Place find_place(const EchFastHeap *heap, Key key)
{
    uint32_t block = first_not_before(heap->last, heap->n_blocks, key);
    return (Place){block, block < heap->n_blocks ? first_not_before(heap->blocks[block]->keys, heap->blocks[block]->n, key) : 0};
}

/** Puts @block, which is not empty, in front of block number @at. */
static void add_block(EchFastHeap *heap, uint32_t at, Block *block)
{
    if (heap->n_blocks == heap->blocks_room) {
        heap->blocks_room = MAX(heap->blocks_room * 2, 16);
        heap->blocks = g_renew(Block *, heap->blocks, heap->blocks_room);
        heap->last = g_renew(Key, heap->last, heap->blocks_room);
    }
    memmove(heap->blocks + at + 1, heap->blocks + at, (heap->n_blocks - at) * sizeof *heap->blocks);
    memmove(heap->last + at + 1, heap->last + at, (heap->n_blocks - at) * sizeof *heap->last);
    heap->n_blocks++;
    heap->blocks[at] = block;
    heap->last[at] = block->keys[block->n - 1];
}

static Place split_block(EchFastHeap *heap, Place place)
{
    Block *low = heap->blocks[place.block], *high = g_new(Block, 1);
    high->n = low->n = BLOCK / 2;
    memcpy(high->keys, low->keys + BLOCK / 2, sizeof high->keys / 2);
    memcpy(high->ids, low->ids + BLOCK / 2, sizeof high->ids / 2);
    heap->last[place.block] = low->keys[low->n - 1];
    add_block(heap, place.block + 1, high);
    return place.at > BLOCK / 2 ? (Place){place.block + 1, place.at - BLOCK / 2} : place;
}

static void insert_free(EchFastHeap *heap, uint32_t id)
{
    Chunk *chunk = &heap->chunks[id];
    uint64_t aligned = align_up(chunk->start, heap->alignment);
    chunk->room = aligned < chunk->end ? chunk->end - aligned : 0;
    chunk->is_free = true;
    Key key = {chunk->room, chunk->start};
    if (heap->n_blocks == 0) {
        Block *first = g_new(Block, 1);
        first->n = 1;
        first->keys[0] = key;
        first->ids[0] = id;
        add_block(heap, 0, first);
        return;
    }
    Place place = find_place(heap, key);
    if (place.block == heap->n_blocks)
        place = (Place){heap->n_blocks - 1, heap->blocks[heap->n_blocks - 1]->n};
    if (heap->blocks[place.block]->n == BLOCK)
        place = split_block(heap, place);
    Block *block = heap->blocks[place.block];
    memmove(block->keys + place.at + 1, block->keys + place.at, (block->n - place.at) * sizeof *block->keys);
    memmove(block->ids + place.at + 1, block->ids + place.at, (block->n - place.at) * sizeof *block->ids);
    block->keys[place.at] = key;
    block->ids[place.at] = id;
    heap->last[place.block] = block->keys[block->n++];
}

/** The free chunk at @place is so no longer. */
static void remove_free(EchFastHeap *heap, Place place)
{
    Block *block = heap->blocks[place.block];
    heap->chunks[block->ids[place.at]].is_free = false;
    block->n--;
    if (block->n > 0) {
        memmove(block->keys + place.at, block->keys + place.at + 1, (block->n - place.at) * sizeof *block->keys);
        memmove(block->ids + place.at, block->ids + place.at + 1, (block->n - place.at) * sizeof *block->ids);
        heap->last[place.block] = block->keys[block->n - 1];
        return;
    }
    g_free(block);
    heap->n_blocks--;
    memmove(heap->blocks + place.block, heap->blocks + place.block + 1, (heap->n_blocks - place.block) * sizeof *heap->blocks);
    memmove(heap->last + place.block, heap->last + place.block + 1, (heap->n_blocks - place.block) * sizeof *heap->last);
}

static void take_out(EchFastHeap *heap, uint32_t id)
{
    remove_free(heap, find_place(heap, (Key){heap->chunks[id].room, heap->chunks[id].start}));
}

/** A used chunk [start, end) above chunk @below, or lowest. */
static uint32_t add_chunk(EchFastHeap *heap, uint64_t start, uint64_t end, uint32_t below)
{
    uint32_t id = heap->spare;
    if (id != NIL) {
        heap->spare = heap->chunks[id].below;
    } else {
        if (heap->n == heap->room) {
            heap->room *= 2;
            heap->chunks = g_renew(Chunk, heap->chunks, heap->room);
        }
        id = heap->n++;
    }
    uint32_t above = below != NIL ? heap->chunks[below].above : NIL;
    heap->chunks[id] = (Chunk){.start = start, .end = end, .below = below, .above = above};
    if (below != NIL)
        heap->chunks[below].above = id;
    if (above != NIL)
        heap->chunks[above].below = id;
    else
        heap->highest = id;
    return id;
}

static void drop_chunk(EchFastHeap *heap, uint32_t id)
{
    Chunk *chunk = &heap->chunks[id];
    if (chunk->below != NIL)
        heap->chunks[chunk->below].above = chunk->above;
    if (chunk->above != NIL)
        heap->chunks[chunk->above].below = chunk->below;
    else
        heap->highest = chunk->below;
    chunk->below = heap->spare;
    heap->spare = id;
}

EchFastHeap *ech_fast_heap_new(uint64_t floor, uint64_t alignment)
{
    EchFastHeap *heap = g_new0(EchFastHeap, 1);
    heap->top = floor;
    heap->alignment = MAX(alignment, 1);
    heap->room = 64;
    heap->chunks = g_new0(Chunk, heap->room);
    heap->n = 1;
    return heap;
}

void ech_fast_heap_free(EchFastHeap *heap)
{
    if (!heap)
        return;
    g_free(heap->chunks);
    for (uint32_t i = 0; i < heap->n_blocks; i++)
        g_free(heap->blocks[i]);
    g_free(heap->blocks);
    g_free(heap->last);
    g_free(heap);
}

uint64_t ech_fast_heap_look(const EchFastHeap *heap, EchBytes bytes)
{
    Place place = find_place(heap, (Key){bytes, 0});
    uint64_t start = place.block < heap->n_blocks ? heap->blocks[place.block]->keys[place.at].start : heap->top;
    return align_up(start, heap->alignment);
}

uint32_t ech_fast_heap_take(EchFastHeap *heap, EchBytes bytes, uint64_t *ret_offset)
{
    Place place = find_place(heap, (Key){bytes, 0});
    if (place.block == heap->n_blocks) {
        uint64_t start = heap->top;
        *ret_offset = align_up(start, heap->alignment);
        heap->top = *ret_offset + bytes;
        return add_chunk(heap, start, heap->top, heap->highest);
    }
    uint32_t id = heap->blocks[place.block]->ids[place.at];
    remove_free(heap, place);
    *ret_offset = align_up(heap->chunks[id].start, heap->alignment);
    uint64_t end = *ret_offset + bytes, rest = heap->chunks[id].end;
    heap->chunks[id].end = end;
    if (end < rest)
        insert_free(heap, add_chunk(heap, end, rest, id));
    return id;
}

void ech_fast_heap_give(EchFastHeap *heap, uint32_t id)
{
    uint32_t below = heap->chunks[id].below, above = heap->chunks[id].above;
    if (below != NIL && heap->chunks[below].is_free) {
        take_out(heap, below);
        heap->chunks[id].start = heap->chunks[below].start;
        drop_chunk(heap, below);
    }
    if (above == NIL) {
        heap->top = heap->chunks[id].start;
        drop_chunk(heap, id);
        return;
    }
    if (heap->chunks[above].is_free) {
        take_out(heap, above);
        heap->chunks[id].end = heap->chunks[above].end;
        drop_chunk(heap, above);
    }
    insert_free(heap, id);
}
