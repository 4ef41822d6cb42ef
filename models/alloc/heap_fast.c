#include "models/alloc/heap_fast.h"

#define NIL 0u

/** A free chunk; a node of a treap ordered by (room, start). */
typedef struct {
    uint64_t start, end;
    uint64_t room; /* from the aligned start to the end; 0 where that is not inside */
    uint32_t left, right, priority;
} Chunk;

/** Open addressing: an address to the free chunk that starts (or ends) there. Key 0 in value NIL is empty. */
typedef struct {
    uint64_t *keys;
    uint32_t *values;
    size_t mask, n;
} Map;

struct EchFastHeap {
    uint64_t top; /* the endless chunk starts here */
    uint64_t alignment;
    Chunk *chunks; /* chunks[0] is unused */
    uint32_t n, room;
    uint32_t spare; /* list of unused chunks, by left */
    uint32_t root;
    uint32_t random;
    Map by_start, by_end;
};

static size_t slot_of(const Map *map, uint64_t key)
{
    return (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & map->mask;
}

static void map_put(Map *map, uint64_t key, uint32_t value)
{
    if (map->n * 2 >= map->mask) {
        Map old = *map;
        map->mask = old.mask * 2 + 1;
        map->keys = g_new(uint64_t, map->mask + 1);
        map->values = g_new0(uint32_t, map->mask + 1);
        map->n = 0;
        for (size_t i = 0; i <= old.mask; i++) {
            if (old.values[i] != NIL)
                map_put(map, old.keys[i], old.values[i]);
        }
        g_free(old.keys);
        g_free(old.values);
    }
    size_t slot = slot_of(map, key);
    while (map->values[slot] != NIL)
        slot = (slot + 1) & map->mask;
    map->keys[slot] = key;
    map->values[slot] = value;
    map->n++;
}

static uint32_t map_get(const Map *map, uint64_t key)
{
    for (size_t slot = slot_of(map, key); map->values[slot] != NIL; slot = (slot + 1) & map->mask) {
        if (map->keys[slot] == key)
            return map->values[slot];
    }
    return NIL;
}

static void map_remove(Map *map, uint64_t key)
{
    size_t slot = slot_of(map, key);
    while (map->keys[slot] != key || map->values[slot] == NIL)
        slot = (slot + 1) & map->mask;
    /* Move later entries of the cluster into the hole, so that no look-up stops early. */
    for (size_t next = (slot + 1) & map->mask; map->values[next] != NIL; next = (next + 1) & map->mask) {
        size_t home = slot_of(map, map->keys[next]);
        if (((next - home) & map->mask) >= ((next - slot) & map->mask)) {
            map->keys[slot] = map->keys[next];
            map->values[slot] = map->values[next];
            slot = next;
        }
    }
    map->values[slot] = NIL;
    map->n--;
}

static void map_init(Map *map)
{
    map->mask = 255;
    map->n = 0;
    map->keys = g_new(uint64_t, map->mask + 1);
    map->values = g_new0(uint32_t, map->mask + 1);
}

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

static void insert_chunk(EchFastHeap *heap, uint64_t start, uint64_t end)
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
    uint64_t aligned = align_up(start, heap->alignment);
    heap->random ^= heap->random << 13;
    heap->random ^= heap->random >> 17;
    heap->random ^= heap->random << 5;
    Chunk chunk = {start, end, aligned < end ? end - aligned : 0, NIL, NIL, heap->random};
    uint32_t *link = &heap->root;
    while (*link != NIL && heap->chunks[*link].priority >= chunk.priority)
        link = before(&heap->chunks[*link], &chunk) ? &heap->chunks[*link].right : &heap->chunks[*link].left;
    split(heap->chunks, *link, &chunk, &chunk.left, &chunk.right);
    heap->chunks[id] = chunk;
    *link = id;
    map_put(&heap->by_start, start, id);
    map_put(&heap->by_end, end, id);
}

static void remove_chunk(EchFastHeap *heap, uint32_t id)
{
    Chunk *chunks = heap->chunks;
    uint32_t *link = &heap->root;
    while (*link != id)
        link = before(&chunks[*link], &chunks[id]) ? &chunks[*link].right : &chunks[*link].left;
    *link = join(chunks, chunks[id].left, chunks[id].right);
    map_remove(&heap->by_start, chunks[id].start);
    map_remove(&heap->by_end, chunks[id].end);
    chunks[id].left = heap->spare;
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
    map_init(&heap->by_start);
    map_init(&heap->by_end);
    return heap;
}

void ech_fast_heap_free(EchFastHeap *heap)
{
    if (!heap)
        return;
    g_free(heap->chunks);
    g_free(heap->by_start.keys);
    g_free(heap->by_start.values);
    g_free(heap->by_end.keys);
    g_free(heap->by_end.values);
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

uint64_t ech_fast_heap_look(EchFastHeap *heap, EchBytes bytes, uint64_t *ret_start, uint64_t *ret_end)
{
    uint32_t id = tightest(heap, bytes);
    *ret_start = id != NIL ? heap->chunks[id].start : heap->top;
    uint64_t offset = align_up(*ret_start, heap->alignment);
    *ret_end = offset + bytes;
    return offset;
}

uint64_t ech_fast_heap_take(EchFastHeap *heap, EchBytes bytes, uint64_t *ret_start, uint64_t *ret_end)
{
    uint32_t id = tightest(heap, bytes);
    if (id == NIL) {
        uint64_t offset = align_up(heap->top, heap->alignment);
        *ret_start = heap->top;
        *ret_end = heap->top = offset + bytes;
        return offset;
    }
    uint64_t start = heap->chunks[id].start, end = heap->chunks[id].end;
    uint64_t offset = align_up(start, heap->alignment);
    remove_chunk(heap, id);
    if (offset + bytes < end)
        insert_chunk(heap, offset + bytes, end);
    *ret_start = start;
    *ret_end = offset + bytes;
    return offset;
}

void ech_fast_heap_give(EchFastHeap *heap, uint64_t start, uint64_t end)
{
    uint32_t below = map_get(&heap->by_end, start);
    if (below != NIL) {
        start = heap->chunks[below].start;
        remove_chunk(heap, below);
    }
    if (end == heap->top) {
        heap->top = start;
        return;
    }
    uint32_t above = map_get(&heap->by_start, end);
    if (above != NIL) {
        end = heap->chunks[above].end;
        remove_chunk(heap, above);
    }
    insert_chunk(heap, start, end);
}
