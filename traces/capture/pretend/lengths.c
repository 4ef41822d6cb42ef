/* How long the sequences are that attention goes over: a kernel reads it from arrays of the device, which the Python hook tells before the kernel is launched
 * and which say at each launch, of a graph's node too, what the host last put there. */
#include "pretend.h"

#include <inttypes.h>

static __thread PretendLengths told;

PRETEND_EXPORT void pretend_lengths_of(const int32_t *keys, int cumulative, const int32_t *query_starts, size_t n, int causal, const int32_t *before)
{
    told = (PretendLengths){.keys = keys, .query_starts = query_starts, .before = before, .n = n, .cumulative = cumulative != 0, .causal = causal != 0};
}

const PretendLengths *pretend_lengths(void)
{
    return told.n > 0 ? &told : NULL;
}

void pretend_write_lengths(const PretendLengths *lengths)
{
    size_t n = lengths->n;
    if (!pretend_known(lengths->keys, (n + lengths->cumulative) * sizeof *lengths->keys))
        return;
    const int32_t *before = lengths->before && pretend_known(lengths->before, (n + 1) * sizeof *lengths->before) ? lengths->before : NULL;
    bool starts = lengths->query_starts && pretend_known(lengths->query_starts, (n + 1) * sizeof *lengths->query_starts);
    uint64_t sequences = 0, all_queries = 0, all_keys = 0, longest = 0, scores = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t keys = lengths->cumulative ? (int64_t)lengths->keys[i + 1] - lengths->keys[i] : lengths->keys[i],
                queries = starts ? (int64_t)lengths->query_starts[i + 1] - lengths->query_starts[i] : 1;
        keys += before ? (int64_t)before[i + 1] - before[i] : 0;
        if (keys <= 0 || queries <= 0) /* what fills a batch up */
            continue;
        queries = queries < keys || !lengths->causal ? queries : keys;
        sequences++;
        all_queries += (uint64_t)queries;
        all_keys += (uint64_t)keys;
        longest = (uint64_t)keys > longest ? (uint64_t)keys : longest;
        scores += (uint64_t)queries * (uint64_t)keys - (lengths->causal ? (uint64_t)queries * ((uint64_t)queries - 1) / 2 : 0);
    }
    if (sequences > 0)
        pretend_line("lengths", "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, sequences, starts ? all_queries : 0, all_keys, longest,
                     starts ? scores : 0);
}
