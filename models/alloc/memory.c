#include "models/alloc/memory.h"

/* Virtual space is never short: 47 bits, as on x86-64 Linux. */
static const uint64_t VIRTUAL_BYTES = UINT64_C(1) << 47;

void ech_device_memory_init(EchDeviceMemory *memory, EchBytes capacity, EchBytes granule)
{
    *memory = (EchDeviceMemory){.capacity = MIN(capacity, VIRTUAL_BYTES / 2), .granule = granule ? granule : ECH_GRANULE};
    ech_gaps_add(&memory->space, 0, VIRTUAL_BYTES);
    ech_gaps_add(&memory->beside, VIRTUAL_BYTES, VIRTUAL_BYTES); /* up to the first reservation */
}

void ech_device_memory_clear(EchDeviceMemory *memory)
{
    ech_gaps_clear(&memory->space);
    ech_gaps_clear(&memory->beside);
    g_free(memory->script_used);
}

EchBytes ech_device_memory_left(const EchDeviceMemory *memory)
{
    EchBytes left = memory->capacity - memory->used;
    return left - MIN(left, memory->elsewhere);
}

static bool refuse(EchDeviceMemory *memory)
{
    if (memory->fail == 0)
        return false;
    if (memory->fail_skip > 0) {
        memory->fail_skip--;
        return false;
    }
    memory->fail--;
    return true;
}

static bool account(EchDeviceMemory *memory, EchBytes bytes)
{
    if (bytes > ech_device_memory_left(memory) || refuse(memory))
        return false;
    memory->used += bytes;
    memory->takes++;
    return true;
}

/* The first unused range of the script with so many bytes. */
static bool scripted(EchDeviceMemory *memory, EchBytes whole, uint64_t *ret_address)
{
    /* A recording and its replay take the same sizes in nearly the same order: a short look ahead is enough, and keeps this linear. */
    enum { LOOK_AHEAD = 256 };
    while (memory->script_at < memory->n_script && memory->script_used[memory->script_at])
        memory->script_at++;
    for (size_t i = memory->script_at; i < MIN(memory->n_script, memory->script_at + LOOK_AHEAD); i++) {
        uint64_t start, length, address = memory->script[i].address;
        if (memory->script_used[i] || ech_round_up(memory->script[i].bytes, memory->granule) != whole)
            continue;
        if (!ech_gaps_at(&memory->space, address, &start, &length) || address - start > length || length - (address - start) < whole)
            continue;
        memory->script_used[i] = true;
        *ret_address = address;
        return true;
    }
    return false;
}

static void note_mapped(EchDeviceMemory *memory, EchBytes bytes, uint64_t pieces)
{
    memory->maps++;
    memory->pieces_mapped += pieces;
    memory->mapped += bytes;
}

static void note_unmapped(EchDeviceMemory *memory, EchBytes bytes, uint64_t pieces)
{
    memory->unmaps++;
    memory->pieces_unmapped += pieces;
    memory->unmapped += bytes;
}

static void note_range(EchDeviceMemory *memory, uint64_t address, EchBytes whole)
{
    memory->lowest = memory->highest ? MIN(memory->lowest, address) : address;
    memory->highest = MAX(memory->highest, address + whole);
}

/* By the device's order; virtual space is never short. */
static bool choose(EchDeviceMemory *memory, EchBytes whole, uint64_t *ret_address)
{
    uint64_t start, length, address = 0;
    switch (memory->order) {
    case ECH_ADDRESSES_ASCEND: address = memory->highest; break;
    case ECH_ADDRESSES_DESCEND: address = (memory->highest ? memory->lowest : VIRTUAL_BYTES) - whole; break;
    case ECH_ADDRESSES_FIRST_FIT: return ech_gaps_find(&memory->space, 0, whole, ret_address);
    }
    if (!ech_gaps_at(&memory->space, address, &start, &length) || length - (address - start) < whole || address - start > length)
        return ech_gaps_find(&memory->space, 0, whole, ret_address);
    *ret_address = address;
    return true;
}

bool ech_device_memory_take(EchDeviceMemory *memory, EchBytes bytes, uint64_t *ret_address)
{
    if (bytes > memory->capacity)
        return false;
    EchBytes whole = ech_round_up(bytes, memory->granule);
    uint64_t address;
    if (whole == 0 || whole > ech_device_memory_left(memory))
        return false;
    if (!scripted(memory, whole, &address) && !choose(memory, whole, &address))
        return false;
    if (!account(memory, whole))
        return false;
    if (memory->maps_ranges)
        note_mapped(memory, whole, 1);
    else
        memory->taken += whole;
    ech_gaps_take(&memory->space, address, whole);
    note_range(memory, address, whole);
    *ret_address = address;
    return true;
}

bool ech_device_memory_take_beside(EchDeviceMemory *memory, EchBytes bytes, uint64_t *ret_address)
{
    if (bytes == 0 || !ech_gaps_find(&memory->beside, 0, bytes, ret_address) || !account(memory, bytes))
        return false;
    memory->taken += bytes;
    ech_gaps_take(&memory->beside, *ret_address, bytes);
    return true;
}

void ech_device_memory_give_beside(EchDeviceMemory *memory, uint64_t address, EchBytes bytes)
{
    memory->used -= bytes;
    memory->given += bytes;
    memory->gives++;
    ech_gaps_add(&memory->beside, address, bytes);
}

bool ech_device_memory_take_at(EchDeviceMemory *memory, uint64_t address, EchBytes bytes)
{
    uint64_t start, length;
    EchBytes whole = ech_round_up(bytes, memory->granule);
    if (whole == 0 || !ech_gaps_at(&memory->space, address, &start, &length) || address - start > length || length - (address - start) < whole ||
        !account(memory, whole))
        return false;
    memory->taken += whole;
    ech_gaps_take(&memory->space, address, whole);
    note_range(memory, address, whole);
    return true;
}

void ech_device_memory_give(EchDeviceMemory *memory, uint64_t address, EchBytes bytes)
{
    EchBytes whole = ech_round_up(bytes, memory->granule);
    memory->used -= whole;
    if (memory->maps_ranges)
        note_unmapped(memory, whole, 1);
    else
        memory->given += whole;
    memory->gives++;
    ech_gaps_add(&memory->space, address, whole);
}

bool ech_device_memory_take_pages(EchDeviceMemory *memory, EchBytes bytes)
{
    if (!account(memory, bytes))
        return false;
    memory->taken += bytes;
    return true;
}

void ech_device_memory_give_pages(EchDeviceMemory *memory, EchBytes bytes)
{
    memory->used -= bytes;
    memory->given += bytes;
    memory->gives++;
}

bool ech_device_memory_map(EchDeviceMemory *memory, EchBytes page, uint64_t n)
{
    if (!account(memory, ech_bytes_mul(page, n)))
        return false;
    note_mapped(memory, page * n, n);
    return true;
}

void ech_device_memory_unmap(EchDeviceMemory *memory, EchBytes page, uint64_t n)
{
    memory->used -= page * n;
    memory->gives++;
    note_unmapped(memory, page * n, n);
}

uint64_t ech_device_memory_reserve(EchDeviceMemory *memory, uint32_t stream, bool small_pool, uint32_t *ret_number)
{
    *ret_number = memory->n_reservations++;
    for (size_t i = memory->script_at; i < memory->n_script; i++) {
        const EchSegmentRange *range = &memory->script[i];
        if (range->bytes == 0 && range->stream == stream && range->small_pool == small_pool && !memory->script_used[i]) {
            memory->script_used[i] = true;
            return range->address;
        }
    }
    return (memory->order == ECH_ADDRESSES_DESCEND ? (uint64_t)UINT16_MAX - *ret_number : (uint64_t)*ret_number + 1) << 48;
}
