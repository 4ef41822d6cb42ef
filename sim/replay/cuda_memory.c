/* Buffers get their bytes and give them back: by the driver at once, by its pool or an allocator of ours in the order of the queues, by mappings. */
#include "sim/replay/cuda_private.h"

#include "sim/base/error.h"

#include <string.h>

bool ech_cuda_take_host(Engine *e, EchBytes bytes, bool pinned, void **ret, GError **error)
{
    if (pinned)
        return CU(e, host_allocate, "allocating pinned memory", error, ret, bytes, 0);
    *ret = g_try_malloc(bytes);
    if (!*ret) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "no %" G_GUINT64_FORMAT " bytes of host memory", bytes);
        return false;
    }
    memset(*ret, 0, bytes); /* Pages that were never written cost nothing to read */
    return true;
}

bool ech_cuda_give_host(Engine *e, void *host, bool pinned, GError **error)
{
    if (pinned)
        return CU(e, host_release, "freeing pinned memory", error, host);
    g_free(host);
    return true;
}

/* Before an allocation. What was freed and has passed goes back to the allocator; so does what the queue that asks now has freed itself, since it runs in
 * order. Where others have freed, the host first waits for the asking queue, so that the memory is as it is when the queue comes here: allocation coupled to
 * the GPU's time. */
static bool settle_frees(Engine *e, EchId queue, GError **error)
{
    bool others = false;
    for (guint i = 0; i < e->freed->len; i++) {
        const Freed *freed = &g_array_index(e->freed, Freed, i);
        others |= freed->queue != queue && (!freed->released || freed->range == ECH_NONE);
    }
    if (others && !CU(e, stream_synchronize, "waiting to allocate", error, e->streams[queue]))
        return false;
    guint kept = 0;
    for (guint i = 0; i < e->freed->len; i++) {
        Freed *freed = &g_array_index(e->freed, Freed, i);
        EchCuResult state = e->cu->event_query(freed->end);
        if (state != 0 && state != ECH_CU_ERROR_NOT_READY)
            return ech_cuda_check(e->cu, state, "cuEventQuery", "looking for freed memory", error);
        if (!freed->released && (state == 0 || freed->queue == queue)) {
            ech_allocator_release(e->allocator, freed->range);
            freed->released = true;
        }
        if (state == 0)
            continue;
        if (freed->range != ECH_NONE && freed->released && freed->queue != queue &&
            !CU(e, stream_wait, "waiting for freed memory", error, e->streams[queue], freed->end, 0))
            return false;
        g_array_index(e->freed, Freed, kept++) = *freed;
    }
    g_array_set_size(e->freed, kept);
    return true;
}

/* Takes a range of the arena; while it is full and something freed is still in use, waits for that. */
static bool take_range(Engine *e, EchId buffer, EchId queue, GError **error)
{
    Place *p = &e->places[buffer];
    EchAllocRequest request = {.id = e->next_range++, .bytes = p->bytes};
    EchPlacement placement;
    if (!settle_frees(e, queue, error))
        return false;
    while (ech_allocator_alloc(e->allocator, &request, &placement) != ECH_FIT_OK) {
        if (e->freed->len == 0) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "buffer %u of %" G_GUINT64_FORMAT " bytes does not fit the arena under %s", buffer, p->bytes,
                        ech_allocator_name(e->allocator));
            return false;
        }
        if (!CU(e, event_synchronize, "waiting for freed memory", error, g_array_index(e->freed, Freed, 0).end) || !settle_frees(e, queue, error))
            return false;
    }
    p->range = request.id;
    p->device = e->arena + placement.address;
    e->extent = MAX(e->extent, placement.address + p->bytes);
    return true;
}

bool ech_cuda_place_buffer(Engine *e, EchId id, EchId queue, GError **error)
{
    EchCuStream stream = e->streams[queue];
    Place *p = &e->places[id];
    if (p->live || p->bytes == 0)
        return true;
    if (p->fixed) {
        const Block *block = &e->blocks[ech_trace_buffers(e->trace)[id].memory];
        if (p->is_host)
            p->host = (char *)block->host + p->offset;
        else
            p->device = block->device + p->offset;
        p->live = 1;
        return true;
    }
    if (p->is_host) {
        if (!ech_cuda_take_host(e, p->bytes, p->pinned, &p->host, error))
            return false;
        p->live = 1;
        return true;
    }
    switch ((EchCudaAlloc)e->options->alloc) {
    case ECH_CUDA_ALLOC_VMM:
        if (!ech_cuda_map(e->cu, &e->gpu, ech_round_up(p->bytes, e->gpu.page), 1, &p->mapping, error))
            return false;
        p->device = p->mapping.address;
        break;
    case ECH_CUDA_ALLOC_AUTO:
    case ECH_CUDA_ALLOC_MALLOC:
        if (!CU(e, allocate, "allocating a buffer", error, &p->device, p->bytes))
            return false;
        break;
    case ECH_CUDA_ALLOC_ASYNC:
        if (!settle_frees(e, queue, error) || !CU(e, allocate_async, "allocating a buffer from the pool", error, &p->device, p->bytes, stream))
            return false;
        break;
    case ECH_CUDA_ALLOC_ARENA:
        if (!take_range(e, id, queue, error))
            return false;
        break;
    case ECH_N_CUDA_ALLOCS: g_assert_not_reached();
    }
    p->live = 1;
    return true;
}

/* Gives a buffer back in whatever state it is; used by FREE ops and by the clean-up. */
bool ech_cuda_release_buffer(Engine *e, EchId id, EchCuStream stream, GError **error)
{
    Place *p = &e->places[id];
    if (!p->live)
        return true;
    p->live = 0;
    EchCuPointer pointer = p->device;
    void *host = g_steal_pointer(&p->host);
    p->device = 0;
    if (p->fixed)
        return true;
    if (p->is_host)
        return ech_cuda_give_host(e, host, p->pinned, error);
    switch ((EchCudaAlloc)e->options->alloc) {
    case ECH_CUDA_ALLOC_VMM: {
        /* What is still in use must not be unmapped. */
        bool idle = synchronize(e, error);
        return ech_cuda_unmap(e->cu, &p->mapping, idle ? error : NULL) && idle;
    }
    case ECH_CUDA_ALLOC_AUTO:
    case ECH_CUDA_ALLOC_MALLOC: return CU(e, release, "freeing a buffer", error, pointer);
    case ECH_CUDA_ALLOC_ASYNC: return CU(e, release_async, "freeing a buffer to the pool", error, pointer, stream);
    case ECH_CUDA_ALLOC_ARENA: ech_allocator_release(e->allocator, p->range); return true;
    case ECH_N_CUDA_ALLOCS: break;
    }
    g_assert_not_reached();
}

/* A FREE in the trace: at once, but of an arena or a pool when its queue has come to it. */
bool ech_cuda_free_buffer(Engine *e, EchId id, EchId queue, GError **error)
{
    Place *p = &e->places[id];
    bool arena = e->options->alloc == ECH_CUDA_ALLOC_ARENA, pool = e->options->alloc == ECH_CUDA_ALLOC_ASYNC;
    /* Where one queue does all of it, its order is enough, and an event between kernels takes time that no allocator's program takes. */
    bool wait = (arena || pool) && !p->is_host && p->live && e->several_queues;
    Freed freed = {.range = arena ? p->range : ECH_NONE, .queue = queue, .released = pool};
    if ((!wait || pool) && !ech_cuda_release_buffer(e, id, e->streams[queue], error))
        return false;
    if (!wait)
        return true;
    if (!ech_cuda_next_mark(e, e->streams[queue], &freed.end, error))
        return false;
    g_array_append_val(e->freed, freed);
    p->live = 0;
    p->device = 0;
    return true;
}

/* Only in one replay: every one takes the same memory, and asking takes time. */
bool ech_cuda_note_memory(Engine *e, GError **error)
{
    size_t available, total;
    if (!e->noting)
        return true;
    if (!CU(e, memory_info, "asking for free memory", error, &available, &total))
        return false;
    if (e->free_before > available)
        e->run->peak_used = MAX(e->run->peak_used, (EchBytes)(e->free_before - available));
    return true;
}

void ech_cuda_settle_all(Engine *e)
{
    for (guint i = 0; i < e->freed->len; i++) {
        if (!g_array_index(e->freed, Freed, i).released)
            ech_allocator_release(e->allocator, g_array_index(e->freed, Freed, i).range);
    }
    g_array_set_size(e->freed, 0);
}
