/* Virtual memory management, by the rules of the driver API's reference (group CUDA_VA): addresses are reserved, pieces of physical memory created, the one
 * mapped to the other and opened; nothing can be reached before it is open, a piece is mapped whole, what is unmapped is whole pieces and no more in use,
 * memory is the card's until its piece is released and nowhere mapped, and addresses go back as they were reserved, with nothing mapped.
 *
 * Times of a machine: as published for 2 MiB on an A100 (vAttention, arXiv 2405.04437): create 29, map 2, access 38, unmap 34, release 23 us; to reserve
 * addresses and to free them 2 and 1. Access and unmapping take that for every piece in the range, as PyTorch's authors report (one of 20 MiB is as fast as one
 * of 2); what is created is larger by 1 us for 2 MiB more, as for cudaMalloc. */
#include "tests/gpu/fake/fake.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GRANULE = 2 << 20, MOST_PIECES = 4096 };

typedef struct {
    size_t bytes; /* 0: none */
    int mapped, released;
} Piece;

struct Granule {
    int piece;           /* That lies behind it, from 1; 0: none */
    int begins, is_open; /* The piece begins here; it was opened */
};

static Piece pieces[MOST_PIECES];

static void takes(double begin, double microseconds)
{
    if (fake_real())
        fake_keep_host(begin, microseconds * 1e3);
}

static void drop_if_unused(Piece *piece)
{
    if (!piece->released || piece->mapped > 0)
        return;
    fake.used -= piece->bytes;
    *piece = (Piece){0};
}

/* The reservation that holds a range of whole granules, and the first of them. */
static Block *reserved(EchCuPointer pointer, size_t bytes, size_t *ret_first)
{
    char *begin = (char *)(uintptr_t)pointer;
    for (size_t back = 0; bytes > 0 && bytes % GRANULE == 0 && back <= CARD_BYTES; back += GRANULE) {
        Block *b = fake_block_from(begin - back);
        if (!b || !b->granules)
            continue;
        *ret_first = back / GRANULE;
        return back + bytes <= b->bytes ? b : NULL;
    }
    return NULL;
}

/* How many pieces a range of granules holds, all of them whole; 0 where it does not. */
static unsigned whole_pieces(const Block *b, size_t first, size_t n)
{
    unsigned found = 0;
    for (size_t i = first; i < first + n; i++) {
        if (!b->granules[i].piece || (i == first && !b->granules[i].begins))
            return 0;
        found += (unsigned)b->granules[i].begins;
    }
    size_t end = first + n;
    return end < b->bytes / GRANULE && b->granules[end].piece && !b->granules[end].begins ? 0 : found;
}

int fake_is_open(const Block *block, const void *pointer, size_t bytes)
{
    size_t from = (size_t)((const char *)pointer - block->data);
    for (size_t i = from / GRANULE; i * GRANULE < from + (bytes > 0 ? bytes : 1); i++) {
        if (!block->granules[i].is_open)
            return 0;
    }
    return 1;
}

EXPORT EchCuResult cuMemGetAllocationGranularity(size_t *ret, const EchCuAllocationProp *prop, int option)
{
    ENTER_CONTEXT();
    *ret = GRANULE;
    return prop && prop->type == ECH_CU_ALLOCATION_PINNED && prop->location.type == ECH_CU_LOCATION_DEVICE && option >= 0 ? 0 : INVALID_VALUE;
}

EXPORT EchCuResult cuMemAddressReserve(EchCuPointer *ret, size_t bytes, size_t alignment, EchCuPointer hint, unsigned long long flags)
{
    ENTER_CONTEXT();
    double begin = fake_wall_ns();
    (void)hint;
    if (bytes == 0 || bytes % GRANULE != 0 || (alignment & (alignment - 1)) != 0 || flags)
        return INVALID_VALUE;
    Block *b = fake_new_block(bytes, 0);
    b->granules = calloc(bytes / GRANULE, sizeof *b->granules);
    if (!b->granules)
        abort();
    *ret = (EchCuPointer)(uintptr_t)b->data;
    takes(begin, 2);
    return 0;
}

EXPORT EchCuResult cuMemAddressFree(EchCuPointer pointer, size_t bytes)
{
    int fails = fake_failing();
    double begin = fake_wall_ns();
    Block *b = fake_block_from((void *)(uintptr_t)pointer);
    if (!b || !b->granules || b->bytes != bytes)
        return INVALID_VALUE;
    for (size_t i = 0; i < bytes / GRANULE; i++) {
        if (b->granules[i].piece)
            return INVALID_VALUE;
    }
    fake_drop_block(b);
    takes(begin, 1);
    return fails ? LAUNCH_FAILED : 0;
}

EXPORT EchCuResult cuMemCreate(unsigned long long *ret, size_t bytes, const EchCuAllocationProp *prop, unsigned long long flags)
{
    ENTER_CONTEXT();
    double begin = fake_wall_ns();
    int at = 0;
    while (at < MOST_PIECES && pieces[at].bytes > 0)
        at++;
    if (bytes == 0 || bytes % GRANULE != 0 || flags || at == MOST_PIECES || !prop || prop->type != ECH_CU_ALLOCATION_PINNED ||
        prop->location.type != ECH_CU_LOCATION_DEVICE || prop->location.id != 0)
        return INVALID_VALUE;
    if (fake.used + bytes > CARD_BYTES)
        return ECH_CU_ERROR_OUT_OF_MEMORY;
    fake.used += bytes;
    fake.held++;
    pieces[at].bytes = bytes;
    *ret = (unsigned long long)at + 1;
    takes(begin, 29 + (double)(bytes / GRANULE - 1));
    return 0;
}

EXPORT EchCuResult cuMemRelease(unsigned long long handle)
{
    int fails = fake_failing();
    double begin = fake_wall_ns();
    if (handle == 0 || handle > MOST_PIECES || pieces[handle - 1].bytes == 0 || pieces[handle - 1].released)
        return INVALID_VALUE;
    pieces[handle - 1].released = 1;
    drop_if_unused(&pieces[handle - 1]);
    fake.held--;
    takes(begin, 23);
    return fails ? LAUNCH_FAILED : 0;
}

EXPORT EchCuResult cuMemMap(EchCuPointer pointer, size_t bytes, size_t offset, unsigned long long handle, unsigned long long flags)
{
    ENTER_CONTEXT();
    double begin = fake_wall_ns();
    const char *harm = getenv("ECH_FAKE_CUDA_MAP");
    if (harm && strcmp(harm, "crash") == 0)
        raise(SIGKILL);
    while (harm && strcmp(harm, "hang") == 0)
        pause();
    size_t first = 0;
    Block *b = reserved(pointer, bytes, &first);
    if (!b || offset != 0 || flags || handle == 0 || handle > MOST_PIECES || pieces[handle - 1].bytes != bytes || pieces[handle - 1].released)
        return INVALID_VALUE;
    for (size_t i = first; i < first + bytes / GRANULE; i++) {
        if (b->granules[i].piece)
            return INVALID_VALUE;
    }
    for (size_t i = first; i < first + bytes / GRANULE; i++)
        b->granules[i] = (struct Granule){.piece = (int)handle, .begins = i == first};
    pieces[handle - 1].mapped++;
    takes(begin, 2);
    return 0;
}

EXPORT EchCuResult cuMemSetAccess(EchCuPointer pointer, size_t bytes, const EchCuAccess *access, size_t n)
{
    ENTER_CONTEXT();
    fake_take_beside();
    double begin = fake_wall_ns();
    size_t first = 0;
    Block *b = reserved(pointer, bytes, &first);
    unsigned found = b ? whole_pieces(b, first, bytes / GRANULE) : 0;
    if (found == 0 || n != 1 || !access || access->location.type != ECH_CU_LOCATION_DEVICE || access->location.id != 0 ||
        access->flags != ECH_CU_ACCESS_READ_WRITE)
        return INVALID_VALUE;
    for (size_t i = first; i < first + bytes / GRANULE; i++)
        b->granules[i].is_open = 1;
    takes(begin, 38 * (double)found);
    return 0;
}

EXPORT EchCuResult cuMemUnmap(EchCuPointer pointer, size_t bytes)
{
    int fails = fake_failing();
    double begin = fake_wall_ns();
    size_t first = 0;
    Block *b = reserved(pointer, bytes, &first);
    unsigned found = b ? whole_pieces(b, first, bytes / GRANULE) : 0;
    if (found == 0)
        return INVALID_VALUE;
    /* What queues have still to do might reach it. */
    for (const struct EchCuStreamOpaque *stream = fake.streams; stream; stream = stream->next)
        fails |= stream->first != NULL;
    for (size_t i = first; i < first + bytes / GRANULE; i++) {
        Piece *piece = &pieces[b->granules[i].piece - 1];
        if (b->granules[i].begins) {
            piece->mapped--;
            drop_if_unused(piece);
        }
        b->granules[i] = (struct Granule){0};
    }
    takes(begin, 34 * (double)found);
    return fails ? LAUNCH_FAILED : 0;
}
