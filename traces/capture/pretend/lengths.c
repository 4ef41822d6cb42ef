/* How long the sequences are that attention goes over: a kernel reads it from arrays of the device, which the Python hook tells before the kernel is launched
 * and which say at each launch, of a graph's node too, what the host last put there. */
#include "pretend.h"

#include <inttypes.h>
#include <string.h>

static __thread PretendLengths told;

/* @wide: a bit for each array, the first one's lowest, whose integers have 64 bits. */
PRETEND_EXPORT void pretend_lengths_of(const void *keys, int cumulative, const void *query_starts, size_t n, int causal, const void *before, int wide)
{
    told = (PretendLengths){.keys = {keys, (wide & 1) != 0},
                            .query_starts = {query_starts, (wide & 2) != 0},
                            .before = {before, (wide & 4) != 0},
                            .n = n,
                            .cumulative = cumulative != 0,
                            .causal = causal != 0};
}

/* The same of what was counted by the program's own mask (FlexAttention); @scores of one head. */
PRETEND_EXPORT void pretend_scores_of(uint64_t sequences, uint64_t queries, uint64_t keys, uint64_t longest, uint64_t scores)
{
    told = (PretendLengths){.n = sequences, .counted = {sequences, queries, keys, longest, scores}};
}

const PretendLengths *pretend_lengths(void)
{
    return told.n > 0 ? &told : NULL;
}

static int64_t value_at(const PretendIntegers *array, size_t i)
{
    return array->wide ? ((const int64_t *)array->address)[i] : ((const int32_t *)array->address)[i];
}

static bool are_known(const PretendIntegers *array, size_t first, size_t n)
{
    size_t size = array->wide ? 8 : 4;
    return array->address && pretend_known((const uint8_t *)array->address + first * size, n * size);
}

/* Where each of @n begins and the last ends: the first 0 may have been there from the start, with nothing written over it. */
static bool are_starts(const PretendIntegers *array, size_t n)
{
    return are_known(array, 1, n) && value_at(array, 0) == 0;
}

/* From one's beginning to the next one's. */
static int64_t between(const PretendIntegers *starts, size_t i)
{
    return (int64_t)((uint64_t)value_at(starts, i + 1) - (uint64_t)value_at(starts, i));
}

bool pretend_count_lengths(const PretendLengths *lengths, uint64_t ret[5])
{
    size_t n = lengths->n;
    if (lengths->counted[0] > 0) {
        memcpy(ret, lengths->counted, sizeof lengths->counted);
        return true;
    }
    if (lengths->cumulative ? !are_starts(&lengths->keys, n) : !are_known(&lengths->keys, 0, n))
        return false;
    const bool before = are_starts(&lengths->before, n), starts = are_starts(&lengths->query_starts, n);
    uint64_t sequences = 0, all_queries = 0, all_keys = 0, longest = 0, scores = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t keys = lengths->cumulative ? between(&lengths->keys, i) : value_at(&lengths->keys, i),
                queries = starts ? between(&lengths->query_starts, i) : 1, earlier = before ? between(&lengths->before, i) : 0;
        if (keys < 0 || queries < 0 || earlier < 0 || keys > INT32_MAX || queries > INT32_MAX || earlier > INT32_MAX) /* no lengths */
            return false;
        keys += earlier;
        if (keys <= 0 || queries <= 0) /* what fills a batch up */
            continue;
        queries = queries < keys || !lengths->causal ? queries : keys;
        sequences++;
        all_queries += (uint64_t)queries;
        all_keys += (uint64_t)keys;
        longest = (uint64_t)keys > longest ? (uint64_t)keys : longest;
        scores += (uint64_t)queries * (uint64_t)keys - (lengths->causal ? (uint64_t)queries * ((uint64_t)queries - 1) / 2 : 0);
    }
    const uint64_t counted[5] = {sequences, starts ? all_queries : 0, all_keys, longest, starts ? scores : 0};
    memcpy(ret, counted, sizeof counted);
    return sequences > 0;
}

void pretend_write_lengths(const PretendLengths *lengths)
{
    uint64_t counted[5];
    if (pretend_count_lengths(lengths, counted))
        pretend_line("lengths", "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, counted[0], counted[1], counted[2], counted[3], counted[4]);
}
