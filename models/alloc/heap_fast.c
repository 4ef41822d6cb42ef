#include "models/alloc/heap_fast.h"

#define NIL 0u

/** A chunk; together they cover all below the top, each with its neighbours. Free ones are nodes of a treap ordered by (room, start). */
typedef struct {
    uint64_t start, end;
    uint64_t room; /* from the aligned start to the end; 0 where that is not inside */
    uint32_t left, right, priority;
    uint32_t below, above; /* neighbours, or NIL */
    bool is_free;
} Chunk;

struct EchFastHeap {
    uint64_t top; /* the endless chunk starts here */
    uint64_t alignment;
    Chunk *chunks; /* chunks[0] is unused */
    uint32_t n, room;
    uint32_t spare; /* list of unused chunks, by left */
    uint32_t root;
    uint32_t highest; /* chunk below the top, or NIL */
    uint32_t random;
};

static uint64_t align_up(uint64_t value, uint64_t alignment)
{
    uint64_t rest = (alignment & (alignment - 1)) == 0 ? value & (alignment - 1) : value % alignment;
    return rest ? value + (alignment - rest) : value;
}

static bool before(const Chunk *a, const Chunk *b)
{
    return a->room != b->room ? a->room < b->room : a->start < b->start;
}

/** Splits the treap at @node into what comes before chunk @key and the rest. */
static void split(Chunk *chunks, uint32_t node, const Chunk *key, uint32_t *ret_left, uint32_t *ret_right)
{
    uint32_t *left = ret_left, *right = ret_right;
    while (node != NIL) {
        if (before(&chunks[node], key)) {
            *left = node;
            left = &chunks[node].right;
            node = *left;
        } else {
            *right = node;
            right = &chunks[node].left;
            node = *right;
        }
    }
    *left = *right = NIL;
}

static uint32_t join(Chunk *chunks, uint32_t a, uint32_t b)
{
    uint32_t root = NIL, *link = &root;
    while (a != NIL && b != NIL) {
        if (chunks[a].priority >= chunks[b].priority) {
            *link = a;
            link = &chunks[a].right;
            a = *link;
        } else {
            *link = b;
            link = &chunks[b].left;
            b = *link;
        }
    }
    *link = a != NIL ? a : b;
    return root;
}

static void insert_free(EchFastHeap *heap, uint32_t id)
{
    Chunk *chunks = heap->chunks, *chunk = &chunks[id];
    uint64_t aligned = align_up(chunk->start, heap->alignment);
    heap->random ^= heap->random << 13;
    heap->random ^= heap->random >> 17;
    heap->random ^= heap->random << 5;
    chunk->room = aligned < chunk->end ? chunk->end - aligned : 0;
    chunk->priority = heap->random;
    chunk->is_free = true;
    uint32_t *link = &heap->root;
    while (*link != NIL && chunks[*link].priority >= chunk->priority)
        link = before(&chunks[*link], chunk) ? &chunks[*link].right : &chunks[*link].left;
    split(chunks, *link, chunk, &chunk->left, &chunk->right);
    *link = id;
}

static void remove_free(EchFastHeap *heap, uint32_t id)
{
    Chunk *chunks = heap->chunks;
    uint32_t *link = &heap->root;
    while (*link != id)
        link = before(&chunks[*link], &chunks[id]) ? &chunks[*link].right : &chunks[*link].left;
    *link = join(chunks, chunks[id].left, chunks[id].right);
    chunks[id].is_free = false;
}

/** A used chunk [start, end) above chunk @below, or lowest. */
static uint32_t add_chunk(EchFastHeap *heap, uint64_t start, uint64_t end, uint32_t below)
{
    uint32_t id = heap->spare;
    if (id != NIL) {
        heap->spare = heap->chunks[id].left;
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
    chunk->left = heap->spare;
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
    heap->random = 2463534242u;
    return heap;
}

void ech_fast_heap_free(EchFastHeap *heap)
{
    if (!heap)
        return;
    g_free(heap->chunks);
    g_free(heap);
}

/** The first free chunk with room for @bytes, or NIL: then the endless one is meant. */
static uint32_t tightest(const EchFastHeap *heap, EchBytes bytes)
{
    uint32_t best = NIL;
    for (uint32_t node = heap->root; node != NIL;) {
        if (heap->chunks[node].room >= bytes) {
            best = node;
            node = heap->chunks[node].left;
        } else {
            node = heap->chunks[node].right;
        }
    }
    return best;
}

uint64_t ech_fast_heap_look(const EchFastHeap *heap, EchBytes bytes)
{
    uint32_t id = tightest(heap, bytes);
    return align_up(id != NIL ? heap->chunks[id].start : heap->top, heap->alignment);
}

uint32_t ech_fast_heap_take(EchFastHeap *heap, EchBytes bytes, uint64_t *ret_offset)
{
    uint32_t id = tightest(heap, bytes);
    uint64_t offset = align_up(id != NIL ? heap->chunks[id].start : heap->top, heap->alignment), end = offset + bytes;
    if (id == NIL) {
        id = add_chunk(heap, heap->top, end, heap->highest);
        heap->top = end;
    } else {
        remove_free(heap, id);
        uint64_t rest = heap->chunks[id].end;
        heap->chunks[id].end = end;
        if (end < rest)
            insert_free(heap, add_chunk(heap, end, rest, id));
    }
    *ret_offset = offset;
    return id;
}

void ech_fast_heap_give(EchFastHeap *heap, uint32_t id)
{
    uint32_t below = heap->chunks[id].below, above = heap->chunks[id].above;
    if (below != NIL && heap->chunks[below].is_free) {
        remove_free(heap, below);
        heap->chunks[id].start = heap->chunks[below].start;
        drop_chunk(heap, below);
    }
    if (above == NIL) {
        heap->top = heap->chunks[id].start;
        drop_chunk(heap, id);
        return;
    }
    if (heap->chunks[above].is_free) {
        remove_free(heap, above);
        heap->chunks[id].end = heap->chunks[above].end;
        drop_chunk(heap, above);
    }
    insert_free(heap, id);
}
