/* A bump arena: addresses only grow; the space comes back when everything has been freed. */
#include "models/alloc/range.h"

typedef struct {
    EchAllocator base;
    EchBytes limit, alignment;
    EchBytes top;
    uint64_t n_live;
} Arena;

static const EchParam params[] = {
    {"limit", ECH_PARAM_BYTES, offsetof(Arena, limit), NULL, NULL, NULL, NULL, "bytes of the range; the device's capacity if not given"},
    {"alignment", ECH_PARAM_BYTES, offsetof(Arena, alignment), "256", "1", "1GiB", NULL, "sizes are rounded up to a multiple of it"},
    {0},
};

static bool arena_init(EchAllocator *base, GError **error)
{
    (void)error;
    Arena *self = (Arena *)base;
    ech_range_init(base, &self->limit, 1);
    return true;
}

static bool arena_alloc(EchAllocator *base, const EchAllocRequest *request, EchLive *live, EchPlacement *ret)
{
    Arena *self = (Arena *)base;
    EchBytes bytes = ech_round_up(request->bytes, self->alignment), there = MIN(self->limit, base->memory.capacity - base->stats.direct);
    if (bytes < request->bytes || bytes > there - MIN(there, self->top))
        return false;
    ech_range_place(base, self->top, bytes, live, ret);
    self->top += bytes;
    self->n_live++;
    return true;
}

static void arena_release(EchAllocator *base, uint32_t id, const EchLive *live)
{
    (void)id;
    (void)live;
    Arena *self = (Arena *)base;
    if (--self->n_live == 0)
        self->top = 0;
}

static EchBytes arena_largest(const EchAllocator *base)
{
    const Arena *self = (const Arena *)base;
    return base->stats.reserved - self->top;
}

/* Freed space below the top is stranded, above it is usable: two kinds of free blocks, told apart by their place only. */
static void arena_walk(const EchAllocator *base, GArray *out)
{
    const Arena *self = (const Arena *)base;
    ech_alloc_walk_holes(base, self->top, out);
    ech_range_add_free(base, self->top, base->stats.reserved - self->top, out);
}

const EchAllocClass ech_alloc_arena = {
    .name = "arena",
    .summary = "bump arena: freed space returns when nothing is live",
    .source = "own design",
    .size = sizeof(Arena),
    .params = params,
    .init = arena_init,
    .alloc = arena_alloc,
    .release = arena_release,
    .largest_free = arena_largest,
    .walk_free = arena_walk,
};
