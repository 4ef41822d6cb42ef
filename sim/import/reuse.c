#include "sim/import/reuse.h"

#include <string.h>

/* Pieces of ranges that are known, at most: their number bounds what a use costs, whatever a file says. */
#define MOST_PIECES 1024

typedef struct {
    uint64_t from, to;
    bool written; /* and maybe read since; of one that was read, most of it */
} Piece;

struct EchReuse {
    Piece pieces[MOST_PIECES]; /* The newest last; disjoint, as far back as ECH_GPU_NEAR_MOST. */
    size_t n;
};

EchReuse *ech_reuse_new(void)
{
    return g_new0(EchReuse, 1);
}

void ech_reuse_free(EchReuse *reuse)
{
    g_free(reuse);
}

static void erase(EchReuse *reuse, size_t at)
{
    memmove(&reuse->pieces[at], &reuse->pieces[at + 1], (--reuse->n - at) * sizeof *reuse->pieces);
}

static void insert(EchReuse *reuse, size_t at, Piece piece)
{
    memmove(&reuse->pieces[at + 1], &reuse->pieces[at], (reuse->n++ - at) * sizeof piece);
    reuse->pieces[at] = piece;
}

/* Makes room for what a use adds at most, itself and one piece that it parts in two: the oldest quarter goes. */
static void make_room(EchReuse *reuse)
{
    if (reuse->n + 2 > MOST_PIECES) {
        reuse->n -= MOST_PIECES / 4;
        memmove(reuse->pieces, reuse->pieces + MOST_PIECES / 4, reuse->n * sizeof *reuse->pieces);
    }
}

void ech_reuse_take(EchReuse *reuse, uint64_t address, uint64_t bytes, bool written, uint64_t near[ECH_GPU_NEAR])
{
    Piece taken = {address, address + MIN(bytes, G_MAXUINT64 - address), written};
    uint64_t since = 0, was_written = 0;
    make_room(reuse);
    for (size_t i = reuse->n; i-- > 0 && since <= ECH_GPU_NEAR_MOST && taken.from < taken.to;) {
        Piece *piece = &reuse->pieces[i], whole = *piece, rest = whole;
        uint64_t from = MAX(whole.from, taken.from), to = MIN(whole.to, taken.to), both = from < to ? to - from : 0;
        since += whole.to - whole.from; /* Of its own, too: who goes through a range again finds each byte behind all others of it */
        if (both == 0)
            continue;
        for (size_t k = 0; k < ECH_GPU_NEAR && (whole.written || !written); k++)
            near[k] += since <= ech_gpu_near_limit(k) ? both : 0;
        was_written += whole.written ? both : 0;
        /* What is used now is no longer where it was; what lies before it and behind it is. */
        piece->to = from;
        rest.from = to;
        if (piece->from < piece->to && rest.from < rest.to)
            insert(reuse, i + 1, rest);
        else if (piece->from == piece->to && rest.from < rest.to)
            *piece = rest;
        else if (piece->from == piece->to)
            erase(reuse, i);
    }
    taken.written = written || was_written > (taken.to - taken.from) / 2;
    if (taken.from < taken.to)
        insert(reuse, reuse->n, taken);
}
