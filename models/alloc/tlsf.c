/* Two-level segregated fit: constant-time good fit. A free block of 2^f + s * 2^(f-5) bytes is in list (f, s); a request is rounded up to
 * the next list, so the first block of the first list at or above it fits; lists are last in, first out. */
#include "models/alloc/chunks.h"
#include "models/alloc/range.h"

enum { SECOND_BITS = 5, N_SECOND = 1 << SECOND_BITS, N_FIRST = 64 };

typedef struct {
    uint32_t prev, next; /* in the free list */
} Links;

typedef struct {
    EchAllocator base;
    EchBytes limit, alignment;
    EchChunks chunks;
    Links *links;
    uint32_t n_links;
    uint64_t first;
    uint32_t second[N_FIRST];
    uint32_t heads[N_FIRST][N_SECOND];
} Tlsf;

static const EchParam params[] = {
    {"limit", ECH_PARAM_BYTES, offsetof(Tlsf, limit), NULL, NULL, NULL, NULL, "bytes of the range; the device's capacity if not given"},
    {"alignment", ECH_PARAM_BYTES, offsetof(Tlsf, alignment), "256", "1", "1GiB", NULL, "sizes are rounded up to a multiple of it"},
    {0},
};

static unsigned floor_log2(uint64_t value)
{
    return 63u - (unsigned)__builtin_clzll(value);
}

static void map(EchBytes bytes, unsigned *ret_first, unsigned *ret_second)
{
    if (bytes < N_SECOND) {
        *ret_first = 0;
        *ret_second = (unsigned)bytes;
        return;
    }
    *ret_first = floor_log2(bytes);
    *ret_second = (unsigned)(bytes >> (*ret_first - SECOND_BITS)) & (N_SECOND - 1);
}

static void put(Tlsf *self, uint32_t at)
{
    if (at >= self->n_links) {
        self->n_links = self->chunks.allocated;
        self->links = g_renew(Links, self->links, self->n_links);
    }
    unsigned f, s;
    map(self->chunks.items[at].bytes, &f, &s);
    uint32_t head = self->heads[f][s];
    self->links[at] = (Links){0, head};
    if (head)
        self->links[head].prev = at;
    self->heads[f][s] = at;
    self->first |= UINT64_C(1) << f;
    self->second[f] |= UINT32_C(1) << s;
}

static void pull(void *data, uint32_t at)
{
    Tlsf *self = data;
    unsigned f, s;
    map(self->chunks.items[at].bytes, &f, &s);
    Links links = self->links[at];
    if (links.next)
        self->links[links.next].prev = links.prev;
    if (links.prev) {
        self->links[links.prev].next = links.next;
        return;
    }
    self->heads[f][s] = links.next;
    if (links.next)
        return;
    self->second[f] &= ~(UINT32_C(1) << s);
    if (self->second[f] == 0)
        self->first &= ~(UINT64_C(1) << f);
}

static bool tlsf_init(EchAllocator *base, GError **error)
{
    (void)error;
    Tlsf *self = (Tlsf *)base;
    ech_range_init(base, &self->limit, self->alignment);
    if (self->limit)
        put(self, ech_chunks_add(&self->chunks, 0, self->limit, 0));
    return true;
}

static void tlsf_done(EchAllocator *base)
{
    Tlsf *self = (Tlsf *)base;
    ech_chunks_clear(&self->chunks);
    g_free(self->links);
}

/* The first block of list (@f, @s) and of those behind it where @bytes end at @most, or 0. */
static uint32_t find_below(const Tlsf *self, unsigned f, unsigned s, EchBytes bytes, EchBytes most)
{
    for (; f < N_FIRST; f++, s = 0)
        for (; s < N_SECOND; s++)
            for (uint32_t at = self->heads[f][s]; at; at = self->links[at].next)
                if (self->chunks.items[at].address + bytes <= most)
                    return at;
    return 0;
}

static uint32_t find(const Tlsf *self, EchBytes bytes)
{
    /* Up to the next list's lower bound, so that any block found is large enough. */
    EchBytes wanted = bytes < N_SECOND ? bytes : bytes + (UINT64_C(1) << (floor_log2(bytes) - SECOND_BITS)) - 1;
    unsigned f, s;
    map(wanted, &f, &s);
    uint32_t second = self->second[f] & (~UINT32_C(0) << s);
    if (!second) {
        uint64_t first = f + 1 < N_FIRST ? self->first & (~UINT64_C(0) << (f + 1)) : 0;
        if (!first)
            return 0;
        f = (unsigned)__builtin_ctzll(first);
        second = self->second[f];
    }
    s = (unsigned)__builtin_ctz(second);
    EchBytes most = ech_range_most(&self->base);
    uint32_t at = self->heads[f][s];
    return self->chunks.items[at].address + bytes <= most ? at : find_below(self, f, s, bytes, most);
}

static bool tlsf_alloc(EchAllocator *base, const EchAllocRequest *request, EchLive *live, EchPlacement *ret)
{
    Tlsf *self = (Tlsf *)base;
    if (request->bytes > self->limit)
        return false;
    EchBytes bytes = ech_round_up(request->bytes, self->alignment);
    uint32_t at = find(self, bytes);
    if (!at)
        return false;
    pull(self, at);
    if (self->chunks.items[at].bytes > bytes)
        put(self, ech_chunks_split(&self->chunks, at, bytes));
    self->chunks.items[at].used = 1;
    live->handle = at;
    ech_range_place(base, self->chunks.items[at].address, bytes, live, ret);
    return true;
}

static void tlsf_release(EchAllocator *base, uint32_t id, const EchLive *live)
{
    (void)id;
    Tlsf *self = (Tlsf *)base;
    put(self, ech_chunks_free(&self->chunks, live->handle, pull, self));
}

static void tlsf_walk(const EchAllocator *base, GArray *out)
{
    const Tlsf *self = (const Tlsf *)base;
    for (uint32_t at = 1; at < self->chunks.n; at++) {
        const EchChunk *chunk = &self->chunks.items[at];
        if (!chunk->used)
            ech_range_add_free(base, chunk->address, chunk->bytes, out);
    }
}

const EchAllocClass ech_alloc_tlsf = {
    .name = "tlsf",
    .summary = "two-level segregated fit, 32 lists per power of two",
    .source = "Masmano, Ripoll, Crespo, Real: TLSF, ECRTS 2004",
    .size = sizeof(Tlsf),
    .params = params,
    .init = tlsf_init,
    .done = tlsf_done,
    .alloc = tlsf_alloc,
    .release = tlsf_release,
    .walk_free = tlsf_walk,
};
