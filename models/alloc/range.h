/** @file range.h
 * For allocators that hand out one range, segment 0 at address 0. Reserved is what lies below the highest end ever placed.
 */
#pragma once
#include "models/alloc/class.h"

/** Sets the range up at init. *limit, the bytes asked for (0: all), becomes what there is of them, a multiple of @granule. */
static inline void ech_range_init(EchAllocator *self, EchBytes *limit, EchBytes granule)
{
    if (*limit == 0 || *limit > self->limit)
        *limit = self->limit;
    *limit -= *limit % granule;
    self->limit = *limit;
    self->n_segments = 1;
}

/** Where what is handed out must end: what is taken beside the range is not there. */
static inline EchBytes ech_range_most(const EchAllocator *self)
{
    return MAX(self->stats.reserved, self->memory.capacity - self->stats.direct);
}

/** Says that an allocation now lies at [address, address + bytes). */
static inline void ech_range_place(EchAllocator *self, uint64_t address, EchBytes bytes, EchLive *live, EchPlacement *ret)
{
    if (address + bytes > self->stats.reserved)
        ech_alloc_count_reserved(self, address + bytes - self->stats.reserved, 0);
    live->address = ret->offset = address;
    live->rounded = bytes;
    live->segment = 0;
}

/** Adds to @out what of the free bytes [address, address + bytes) is reserved, for walk_free. */
static inline void ech_range_add_free(const EchAllocator *self, uint64_t address, EchBytes bytes, GArray *out)
{
    EchBytes end = self->stats.reserved;
    if (address >= end || bytes == 0)
        return;
    EchAllocBlock block = {.state = ECH_BLOCK_FREE, .address = address, .bytes = MIN(bytes, end - address), .id = UINT32_MAX};
    g_array_append_val(out, block);
}
