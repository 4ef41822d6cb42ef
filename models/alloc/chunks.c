#include "models/alloc/chunks.h"

#include <string.h>

G_STATIC_ASSERT(sizeof(EchChunk) == 32);

void ech_chunks_clear(EchChunks *chunks)
{
    g_aligned_free(chunks->items);
    *chunks = (EchChunks){0};
}

uint32_t ech_chunks_add(EchChunks *chunks, uint64_t address, EchBytes bytes, uint32_t segment)
{
    uint32_t at = chunks->spare;
    if (at) {
        chunks->spare = chunks->items[at].next;
    } else {
        if (chunks->n == chunks->allocated) {
            chunks->allocated = chunks->allocated ? chunks->allocated * 2 : 256;
            /* Two to a cache line. */
            EchChunk *items = g_aligned_alloc(chunks->allocated, sizeof(EchChunk), 2 * sizeof(EchChunk));
            if (chunks->n)
                memcpy(items, chunks->items, chunks->n * sizeof *items);
            g_aligned_free(chunks->items);
            chunks->items = items;
            if (chunks->n == 0)
                chunks->items[chunks->n++] = (EchChunk){0};
        }
        at = chunks->n++;
    }
    chunks->items[at] = (EchChunk){.address = address, .bytes = bytes, .segment = segment};
    return at;
}

uint32_t ech_chunks_split(EchChunks *chunks, uint32_t at, EchBytes bytes)
{
    EchChunk old = chunks->items[at];
    uint32_t rest = ech_chunks_add(chunks, old.address + bytes, old.bytes - bytes, old.segment);
    chunks->items[rest].prev = at;
    chunks->items[rest].next = old.next;
    chunks->items[rest].tag = old.tag;
    if (old.next)
        chunks->items[old.next].prev = rest;
    chunks->items[at].next = rest;
    chunks->items[at].bytes = bytes;
    return rest;
}

void ech_chunks_absorb_next(EchChunks *chunks, uint32_t at)
{
    EchChunk *items = chunks->items;
    uint32_t next = items[at].next;
    items[at].bytes += items[next].bytes;
    items[at].next = items[next].next;
    if (items[next].next)
        items[items[next].next].prev = at;
    ech_chunks_drop(chunks, next);
}

void ech_chunks_drop(EchChunks *chunks, uint32_t at)
{
    chunks->items[at] = (EchChunk){.next = chunks->spare};
    chunks->spare = at;
}
