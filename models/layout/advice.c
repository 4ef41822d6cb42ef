/* What padding costs and what would avoid it. */
#include "models/layout/advice.h"

unsigned ech_layout_generation(const char *compiler)
{
    const char *at = compiler;
    if (g_str_has_prefix(at, "tpu"))
        at += at[3] == '-' ? 4 : 3;
    if (*at == 'v')
        at++;
    return *at >= '2' && *at <= '7' && (at[1] == '\0' || (g_ascii_isalpha(at[1]) && at[2] == '\0')) ? (unsigned)(*at - '0') : 0;
}

static uint64_t tile_of(const EchLayout *layout, unsigned position)
{
    const EchTile *tile = layout->n_tiles > 0 ? &layout->tiles[0] : NULL;
    if (tile == NULL || position >= tile->rank)
        return 1;
    int64_t size = tile->dims[tile->rank - 1u - position];
    return size > 0 ? (uint64_t)size : 1;
}

/* Order @layout's dimensions so that @minor lies on lanes and @second on rows; the others keep theirs. */
static EchLayout reorder(const EchLayout *layout, unsigned minor, unsigned second, unsigned generation)
{
    EchLayout ret = *layout;
    unsigned n = 0;
    ret.order[n++] = (uint8_t)minor;
    ret.order[n++] = (uint8_t)second;
    for (unsigned i = 0; i < layout->rank; i++)
        if (layout->order[i] != minor && layout->order[i] != second)
            ret.order[n++] = layout->order[i];
    ret.n_splits = 0;
    ech_layout_choose_tiles(&ret, generation);
    return ret;
}

void ech_layout_advise(const EchLayout *layout, EchLayoutRules rules, unsigned generation, EchLayoutAdvice *ret)
{
    EchLayoutAdvice advice = {.dense = ech_layout_dense_bytes(layout), .padded = ech_layout_padded_bytes(layout, rules), .rank = layout->rank};
    advice.waste = advice.padded > advice.dense ? (double)(advice.padded - advice.dense) / (double)advice.padded : 0;
    for (unsigned position = 0; position < layout->rank; position++) {
        unsigned dim = layout->order[position];
        uint64_t size = layout->dims[dim], tile = tile_of(layout, position);
        EchLayoutDimension *d = &advice.dims[dim];
        d->size = size;
        d->padded = ech_round_up(size, tile);
        d->grow = d->padded;
        d->shrink = size / tile * tile;
        if (d->padded > 0) /* what would be saved if this dimension alone were not padded */
            d->lost = (EchBytes)((double)advice.padded * (1 - (double)size / (double)d->padded) + 0.5);
    }
    if (generation > 0 && layout->rank >= 2 && ech_layout_element_bits(layout) > 0) {
        advice.better_bytes = UINT64_MAX;
        for (unsigned minor = layout->rank; minor-- > 0;) { /* of orders that take as much the one nearest to row after row */
            for (unsigned second = layout->rank; second-- > 0;) {
                if (minor == second)
                    continue;
                EchLayout other = reorder(layout, minor, second, generation);
                EchBytes bytes = ech_layout_padded_bytes(&other, rules);
                if (bytes < advice.better_bytes) {
                    advice.better_bytes = bytes;
                    advice.better = other;
                }
            }
        }
        advice.has_better = advice.better_bytes < advice.padded;
    }
    *ret = advice;
}

EchGpuAlignment ech_gpu_alignment(uint64_t elements, unsigned bits)
{
    uint64_t width = MAX(bits, 1u);
    uint64_t usable = MAX(16u * 8u / width, 1u), best = MAX(128u * 8u / width, 1u);
    return (EchGpuAlignment){
        .row_bytes = ech_bytes_add(ech_bytes_mul(elements / 8, width), elements % 8 * width / 8), /* whose bits may be too many to count */
        .usable = elements % usable == 0,
        .best = elements % best == 0,
        .next_usable = ech_round_up(elements, usable),
        .next_best = ech_round_up(elements, best),
    };
}
