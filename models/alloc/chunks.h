/** @file chunks.h
 * Address-ordered chunks that tile a range, in one growing array with a free list: what boundary-tag allocators keep. Chunk 0 is never
 * used, so 0 means none.
 */
#pragma once
#include "sim/base/units.h"

typedef struct {
    uint64_t address;
    EchBytes bytes;
    uint32_t prev, next; /**< Address neighbours in the same segment; next also links spare chunks. */
    uint32_t segment;
    uint8_t used;
    uint8_t tag; /**< The allocator's own. */
} EchChunk;

/** Zero-initialised is empty. */
typedef struct {
    EchChunk *items;
    uint32_t n, allocated, spare;
} EchChunks;

/** Frees what it holds. */
void ech_chunks_clear(EchChunks *chunks);
/** A new chunk, free and without neighbours. Invalidates pointers into items. */
uint32_t ech_chunks_add(EchChunks *chunks, uint64_t address, EchBytes bytes, uint32_t segment);
/** Cuts a chunk: it keeps its first @bytes bytes, the rest becomes a new free chunk after it with the same tag, which is returned. */
uint32_t ech_chunks_split(EchChunks *chunks, uint32_t at, EchBytes bytes);
/** Joins a chunk with the one after it, whose number becomes spare. */
void ech_chunks_absorb_next(EchChunks *chunks, uint32_t at);
/** Makes a chunk's number spare. Its neighbours must not point to it. */
void ech_chunks_drop(EchChunks *chunks, uint32_t at);

/** Frees a used chunk and joins it with its free neighbours, each of which @pull takes out of the allocator's free set first; @self is passed on.
 * The chunk that they are together, which is in no set yet. */
static inline uint32_t ech_chunks_free(EchChunks *chunks, uint32_t at, void (*pull)(void *self, uint32_t at), void *self)
{
    EchChunk *items = chunks->items;
    items[at].used = 0;
    uint32_t next = items[at].next, prev = items[at].prev;
    if (next && !items[next].used) {
        pull(self, next);
        ech_chunks_absorb_next(chunks, at);
    }
    if (!prev || items[prev].used)
        return at;
    pull(self, prev);
    ech_chunks_absorb_next(chunks, prev);
    return prev;
}
