/** @file class.h
 * What one allocator implements. This is the guide to adding one: a file with a struct that begins with EchAllocator, a parameter table,
 * and a const EchAllocClass; one row in allocators.def.
 *
 * The base (alloc.c) keeps the table of live allocations, the statistics every allocator has, and the simulated device; a class
 * decides where blocks go. A class never sees a request of 0 bytes, one beside the allocator, an id that is live, or the release of one that is not.
 */
#pragma once
#include "models/alloc/alloc.h"
#include "models/alloc/memory.h"

/** A live allocation, one cache line half: the base's record of it. */
typedef struct {
    EchBytes requested;
    EchBytes rounded; /**< 0: not live. */
    uint64_t address;
    uint32_t handle; /**< The class's own number of the block. */
    uint32_t segment;
} EchLive;

typedef struct EchLivePage EchLivePage;

typedef struct EchAllocClass {
    const char *name, *summary, *source;
    const char *note;       /**< Said beside its results, or NULL. */
    bool release_waits;     /**< Every release is a driver call that waits for the device. */
    size_t size;            /**< Of the object; zeroed, defaults of params filled in. */
    const EchParam *params; /**< May be NULL. */
    /** Reads the text after "name:" (NULL: none) where params do not do it all, or NULL for ech_params_parse. */
    bool (*configure)(EchAllocator *self, const char *text, GError **error);
    /** Sets up; parameters are known. May be NULL. */
    bool (*init)(EchAllocator *self, GError **error);
    /** Frees what the object owns but its parameters; also of an object whose configure or init failed. May be NULL. */
    void (*done)(EchAllocator *self);
    /** Places. True: address, rounded, handle, segment of @live and offset, reservation of @ret are set (the base copies the rest). */
    bool (*alloc)(EchAllocator *self, const EchAllocRequest *request, EchLive *live, EchPlacement *ret);
    /** Takes the block of @live back; the base has counted it already. */
    void (*release)(EchAllocator *self, uint32_t id, const EchLive *live);
    /* The rest is optional: what alloc.h says of ech_allocator_NAME(), for classes whose frameworks have it. */
    /** @live will be released soon: fetches what that reads into the cache, without touching it. Stage 0 first (the block), 1 some events later
     * (its neighbours). */
    void (*prefetch)(const EchAllocator *self, const EchLive *live, unsigned stage);
    /** @stream uses live allocation @id, too: once released, it is free when that stream is done. */
    void (*record_stream)(EchAllocator *self, uint32_t id, const EchLive *live, uint32_t stream);
    void (*stream_done)(EchAllocator *self, uint32_t stream);
    /** @live will be released next, by @stream as its @stamp-th act, which ordered and passed tell of. */
    void (*free_on)(EchAllocator *self, uint32_t id, const EchLive *live, uint32_t stream, uint64_t stamp);
    void (*ordered)(EchAllocator *self, uint32_t stream, uint64_t stamp);
    void (*passed)(EchAllocator *self, uint64_t stamp);
    void (*pool_done)(EchAllocator *self, uint32_t stream);
    void (*set_expandable)(EchAllocator *self, bool on);
    EchBytes (*kept)(const EchAllocator *self, uint32_t stream, bool private_pool);
    /** The largest of what walk_free adds, for a class that finds it without walking. */
    EchBytes (*largest_free)(const EchAllocator *self);
    /** Adds every block that is not in use to @out (EchAllocBlock). */
    void (*walk_free)(const EchAllocator *self, GArray *out);
    /** Adds the framework's own statistics, with ech_alloc_add_stat. */
    void (*own_stats)(EchAllocator *self, GArray *out);
    bool (*give_back)(EchAllocator *self, uint64_t address, EchBytes bytes);
    void (*empty_cache)(EchAllocator *self);
    /** Before the first request; live blocks are told to the base with ech_alloc_seed_live. */
    bool (*seed)(EchAllocator *self, const EchSeedBlock *blocks, size_t n, GError **error);
} EchAllocClass;

struct EchAllocator {
    const EchAllocClass *class;
    EchDeviceMemory memory;
    EchBytes limit;      /**< Most bytes it may hold; the capacity unless the class says less. */
    EchBytes total;      /**< Bytes of the device, those of the process's context among them. */
    EchAllocStats stats; /**< largest_free is filled on demand. */
    uint32_t n_segments; /**< Next running number. */
    EchLivePage **pages;
    size_t n_pages;
    char *name;
    char *fault;
    char *note; /**< Said beside its results instead of the class's; or NULL. */
    GArray *own;
};

/** A range of the device, counted as a segment; false where refused. ech_alloc_give_segment() gives it back. */
bool ech_alloc_take_segment(EchAllocator *self, EchBytes bytes, uint64_t *ret_address, uint32_t *ret_segment);
void ech_alloc_give_segment(EchAllocator *self, uint64_t address, EchBytes bytes);
/** Counts reserved bytes that a class keeps itself. */
void ech_alloc_count_reserved(EchAllocator *self, EchBytes added, EchBytes removed);
/** Allocation @id will be released soon. Stage 0, 1, 2: ever nearer, some events apart, so that what a stage reads is there. */
void ech_alloc_prefetch(const EchAllocator *self, uint32_t id, unsigned stage);
/** Registers an allocation that exists at start (seed). */
bool ech_alloc_seed_live(EchAllocator *self, uint32_t id, const EchLive *live);
/** Adds what lies below @end between the live allocations as free blocks of segment 0, for allocators with one range. */
void ech_alloc_walk_holes(const EchAllocator *self, uint64_t end, GArray *out);
/** For own_stats. */
void ech_alloc_add_stat(GArray *out, const char *name, int64_t value);
