/** @file echelon_allocator.h
 * An allocator of your own for echelon: one shared object that exports echelon_allocator_get. Plain C, no dependency; this file is all you need.
 *
 * Build:  gcc -std=c99 -O2 -shared -fPIC -I DIRECTORY_OF_THIS_FILE -o mine.so mine.c
 * Run:    echelon alloc TRACE --allocator plugin:./mine.so,key=value
 *
 * echelon calls it in a process of its own, one call at a time: a crash, a hang of 10 seconds or an illegal placement (overlap with a live
 * block, outside [0, capacity), fewer bytes than asked for) is reported, not suffered. What the plugin prints on standard output goes to
 * standard error. The memory is simulated: addresses are numbers, nothing is behind them.
 */
#ifndef ECHELON_ALLOCATOR_H
#define ECHELON_ALLOCATOR_H

#include <stddef.h>
#include <stdint.h>

/** Version of this interface. Later versions add fields at the end only. */
#define ECHELON_ALLOCATOR_VERSION 1u

#ifdef __cplusplus
extern "C" {
#endif

typedef struct echelon_allocator {
    uint32_t version; /**< ECHELON_ALLOCATOR_VERSION the plugin was compiled with. */
    const char *name; /**< For messages. */
    /** Makes an allocator over addresses [0, capacity). keys[n] and values[n] are the settings of the command line, in order. Returns what
     * the other calls get as self, or NULL with a reason in message[n_message]. */
    void *(*create)(uint64_t capacity, const char *const *keys, const char *const *values, uint32_t n, char *message, size_t n_message);
    /** Places bytes > 0. Returns 0 and sets *address and *rounded (>= bytes: what the block takes); or 1: there is no room. ids are dense from
     * 0 and not used twice. */
    int (*alloc)(void *self, uint32_t id, uint64_t bytes, uint32_t stream, uint64_t *address, uint64_t *rounded);
    /** Frees an allocation that alloc placed. */
    void (*release)(void *self, uint32_t id, uint64_t address);
    /** The allocation is also used on another stream; may be NULL. */
    void (*record_stream)(void *self, uint32_t id, uint32_t stream);
    /** All work recorded so far on the stream is complete; may be NULL. */
    void (*stream_done)(void *self, uint32_t stream);
    /** May be NULL. */
    void (*destroy)(void *self);
} echelon_allocator;

/** What the shared object exports. version is echelon's; return NULL if you cannot serve it. */
const echelon_allocator *echelon_allocator_get(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif
