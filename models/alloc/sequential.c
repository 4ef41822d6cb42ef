/* First fit and next fit: the lowest free range that is large enough, from the beginning or from where the last search ended. */
#include "models/alloc/gaps.h"
#include "models/alloc/range.h"

typedef struct {
    EchAllocator base;
    EchBytes limit, alignment;
    EchGaps free;
    uint64_t rover; /* next fit: end of the last placement */
} Sequential;

static const EchParam params[] = {
    {"limit", ECH_PARAM_BYTES, offsetof(Sequential, limit), NULL, NULL, NULL, NULL, "bytes of the range; the device's capacity if not given"},
    {"alignment", ECH_PARAM_BYTES, offsetof(Sequential, alignment), "256", "1", "1GiB", NULL, "sizes are rounded up to a multiple of it"},
    {0},
};

extern const EchAllocClass ech_alloc_next_fit;

static bool sequential_init(EchAllocator *base, GError **error)
{
    (void)error;
    Sequential *self = (Sequential *)base;
    ech_range_init(base, &self->limit, self->alignment);
    ech_gaps_add(&self->free, 0, self->limit);
    return true;
}

static void sequential_done(EchAllocator *base)
{
    ech_gaps_clear(&((Sequential *)base)->free);
}

static bool sequential_alloc(EchAllocator *base, const EchAllocRequest *request, EchLive *live, EchPlacement *ret)
{
    Sequential *self = (Sequential *)base;
    EchBytes bytes = ech_round_up(request->bytes, self->alignment);
    uint64_t address = 0, most = ech_range_most(base); /* what is taken beside it is not there */
    bool found = false;
    if (bytes < request->bytes)
        return false;
    if (base->class == &ech_alloc_next_fit)
        found = ech_gaps_find(&self->free, self->rover, bytes, &address) && address + bytes <= most;
    if (!found && (!ech_gaps_find(&self->free, 0, bytes, &address) || address + bytes > most))
        return false;
    ech_gaps_take(&self->free, address, bytes);
    self->rover = address + bytes;
    ech_range_place(base, address, bytes, live, ret);
    return true;
}

static void sequential_release(EchAllocator *base, uint32_t id, const EchLive *live)
{
    (void)id;
    ech_gaps_add(&((Sequential *)base)->free, live->address, live->rounded);
}

typedef struct {
    const EchAllocator *base;
    GArray *out;
} Visit;

static void visit(uint64_t address, uint64_t bytes, void *data)
{
    const Visit *state = data;
    ech_range_add_free(state->base, address, bytes, state->out);
}

static void sequential_walk(const EchAllocator *base, GArray *out)
{
    Visit state = {base, out};
    ech_gaps_each(&((const Sequential *)base)->free, visit, &state);
}

#define SEQUENTIAL(symbol, text)                                                                                                                               \
    const EchAllocClass ech_alloc_##symbol = {                                                                                                                 \
        .name = #symbol,                                                                                                                                       \
        .summary = text,                                                                                                                                       \
        .source = "Knuth, The Art of Computer Programming 1, 2.5",                                                                                             \
        .size = sizeof(Sequential),                                                                                                                            \
        .params = params,                                                                                                                                      \
        .init = sequential_init,                                                                                                                               \
        .done = sequential_done,                                                                                                                               \
        .alloc = sequential_alloc,                                                                                                                             \
        .release = sequential_release,                                                                                                                         \
        .walk_free = sequential_walk,                                                                                                                          \
    }

SEQUENTIAL(first_fit, "first fit by address over one range");
SEQUENTIAL(next_fit, "first fit from where the last search ended");
