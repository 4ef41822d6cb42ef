/** @file managed_case.h
 * Any bytes as a run of managed memory: what is touched, moved, freed and taken by others, four bytes each. Blocks are kept count of apart: what crosses the
 * link must be what lies on the other side afterwards. Fuzzed, and a property test of random bytes.
 */
#pragma once
#include "models/memory/managed.h"

enum { ECH_MANAGED_CASE_RANGES = 8 };

/* Ranges of 0 to 7 MiB, a GiB apart; one has blocks that begin in the middle of another's. */
static inline EchManagedRange ech_managed_case_range(unsigned i, unsigned advice)
{
    EchBytes mib = (EchBytes)1 << 20;
    return (EchManagedRange){.address = ((EchBytes)i << 30) + (i % 2) * mib, .bytes = i * mib, .advice = advice % 16, .of_host = i % 3 != 0};
}

static inline void ech_managed_case(const uint8_t *data, size_t size)
{
    EchBytes mib = (EchBytes)1 << 20, room = size > 0 ? data[0] % 32 * mib : 0, block = 2 * mib;
    bool coherent = size > 1 && data[1] % 4 == 0;
    g_autoptr(EchManaged) managed = ech_managed_new(room, coherent);
    EchManagedRange ranges[ECH_MANAGED_CASE_RANGES];
    EchBytes all = 0;
    bool copies = false;
    for (unsigned i = 0; i < ECH_MANAGED_CASE_RANGES; i++) {
        ranges[i] = ech_managed_case_range(i, size > 2 + i ? data[2 + i] : 0);
        all += ranges[i].bytes;
        copies = copies || (ranges[i].advice & ECH_ADVICE_READ_MOSTLY) != 0;
    }
    for (size_t at = 2 + ECH_MANAGED_CASE_RANGES; at + 4 <= size; at += 4) {
        const uint8_t *op = data + at;
        const EchManagedRange *range = &ranges[op[1] % ECH_MANAGED_CASE_RANGES];
        EchBytes offset = op[2] * mib / 16, bytes = op[3] * mib / 16, device = ech_managed_on_device(managed), host = ech_managed_on_host(managed);
        EchMigration moved = {0};
        switch (op[0] % 8) {
        case 0: room = op[3] % 32 * mib, ech_managed_set_room(managed, room, &moved); break;
        case 1: ech_managed_forget(managed, range); break;
        case 2: ech_managed_move(managed, range, offset, bytes, true, &moved); break;
        case 3: ech_managed_move(managed, range, offset, bytes, false, &moved); break;
        default: ech_managed_touch(managed, range, offset, bytes, op[0] & 8, op[0] & 16, &moved); break;
        }
        EchBytes now = ech_managed_on_device(managed), left = ech_managed_on_host(managed);
        g_assert(now <= MAX(room, block));
        g_assert(now + left <= all);
        if (op[0] % 8 == 1) {
            g_assert(moved.to_device + moved.from_device + moved.read + moved.written == 0 && now <= device && left <= host);
            continue;
        }
        g_assert(now + left >= device + host);                                   /* nothing is lost */
        g_assert(left + moved.to_device >= host + moved.from_device);            /* what goes is there */
        g_assert(copies || now + moved.from_device >= device + moved.to_device); /* what comes is there; mostly read blocks go without a copy */
        g_assert(moved.read <= bytes && moved.written <= bytes);
        EchMigration again = {0};
        /* A block is there now; of two the first may have been the oldest, and gone for the second. */
        bool is_one = bytes > 0 && (range->address + offset) / block == (range->address + offset + bytes - 1) / block;
        if (op[0] % 8 >= 4 && !coherent && range->advice == 0 && is_one) {
            ech_managed_touch(managed, range, offset, bytes, op[0] & 8, op[0] & 16, &again);
            g_assert(again.to_device + again.from_device + again.read + again.written == 0);
        }
    }
}
