/* Launches as XLA's emitters for GPUs choose them. */
#include "models/kernel/gpu_xla.h"

enum {
    WARP = 32,
    LOOP_BLOCK = 128, /* four schedulers' warps */
    LOOP_UNROLL = 4,
    SM_LANES = 2048,      /* threads of an SM: what a loop must keep busy before a thread takes four elements */
    ROW_EACH = 16,        /* elements of a row a thread */
    ROW_BLOCK = 1024,     /* threads of a long row */
    SHORT_ROWS = 256,     /* threads of a block of short rows */
    COLUMN_TILE = 32,     /* columns, and warps of a block */
    NARROW_COLUMNS = 128, /* threads of a block where there are fewer columns than a tile */
    TRANSPOSE_TILE = 32,
    TRANSPOSE_BLOCK = 128,
    UNROLLED = 400 / 16, /* steps of a loop in one: XLA's limit of operations over those of a step with an addition or two */
    AHEAD = 2,           /* loads on their way in a loop that stays one: the next step's are asked for before */
    IN_FLIGHT = 8,       /* loads that the registers keep of an unrolled one; assumed */
    TOGETHER = 2,        /* trips of a block that adds up its threads' sums and writes them */
};

static uint64_t blocks_of(uint64_t count, uint64_t each)
{
    return each == 0 ? 1 : MAX(ech_div_up(count, each), 1u);
}

static void set(uint64_t blocks, uint64_t threads, unsigned vector, EchGpuLaunch *ret)
{
    ret->grid[0] = (uint32_t)MIN(blocks, (uint64_t)INT32_MAX);
    ret->block[0] = (uint32_t)CLAMP(threads, 1u, 1024u);
    ret->grid[1] = ret->grid[2] = ret->block[1] = ret->block[2] = 1;
    ret->vector = (uint8_t)vector;
}

bool ech_gpu_reduction_of(const uint64_t *dims, const bool *reduced, size_t n, EchGpuReduction *ret)
{
    uint64_t sizes[3] = {1, 1, 1};
    size_t groups = 0;
    bool last = false, fastest = false;
    for (size_t i = 0; i < n; i++) {
        if (dims[i] == 1)
            continue;
        if (groups == 0)
            fastest = reduced[i];
        if (groups == 0 || reduced[i] != last) {
            if (groups == 3)
                return false;
            groups++;
        }
        sizes[groups - 1] = ech_bytes_mul(sizes[groups - 1], dims[i]);
        last = reduced[i];
    }
    *ret = (EchGpuReduction){.row = groups == 0 || fastest, .major = sizes[2], .mid = sizes[1], .minor = sizes[0]};
    return true;
}

void ech_gpu_launch_loop(uint64_t elements, unsigned bits, bool vectorizes, uint32_t sms, EchGpuLaunch *ret)
{
    unsigned unroll = 1;
    if (vectorizes && elements >= (uint64_t)sms * SM_LANES)
        for (unroll = LOOP_UNROLL; unroll > 1 && elements % unroll; unroll /= 2)
            ;
    if (bits > 0 && bits < 8) /* whole bytes */
        unroll = MAX(unroll, 8 / bits);
    uint64_t threads = blocks_of(elements, unroll);
    set(blocks_of(threads, LOOP_BLOCK), MIN(threads, (uint64_t)LOOP_BLOCK), unroll, ret);
}

static bool is_power(uint64_t n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

uint16_t ech_gpu_loop_trips(uint64_t each, unsigned vector)
{
    uint64_t steps = blocks_of(each, MAX(vector, 1u)), together = MIN(steps, (uint64_t)UNROLLED);
    while (together > 1 && steps % together)
        together--;
    together = CLAMP(together, AHEAD, IN_FLIGHT);
    return (uint16_t)MIN(blocks_of(steps, together), (uint64_t)UINT16_MAX - TOGETHER);
}

bool ech_gpu_reduction_together(const EchGpuReduction *r)
{
    if (r->row)
        return r->minor >= WARP || (r->minor > 1 && is_power(r->minor)) || r->mid == 1;
    return !(r->mid < WARP || (r->mid < 2 * WARP && r->minor < WARP) || (r->mid < 4 * WARP && r->minor < 8) || (r->mid < 8 * WARP && r->minor < 3));
}

static void launch_rows(const EchGpuReduction *r, unsigned bits, uint32_t sms, EchGpuLaunch *ret)
{
    /* Rows that a warp holds: as many a block as make 256 threads. */
    uint64_t vector = CLAMP(64 / MAX(bits, 8u), 1u, bits >= 32 ? 128 / bits : 8u);
    vector = MIN(vector, r->minor);
    if (is_power(r->minor) && r->minor <= WARP * vector) {
        for (; vector > 1; vector /= 2) {
            uint64_t lanes = MAX(r->minor / vector, 1u), kept = MIN(r->mid, MAX(SHORT_ROWS / lanes, 1u));
            if (blocks_of(r->mid, kept) >= sms || r->minor > WARP * (vector / 2))
                break;
        }
        uint64_t lanes = MAX(r->minor / vector, 1u), kept = MIN(r->mid, MAX(SHORT_ROWS / lanes, 1u));
        set(blocks_of(r->mid, kept), ech_bytes_mul(lanes, kept), (unsigned)vector, ret);
        ret->trips = TOGETHER + ech_gpu_loop_trips(ech_bytes_mul(r->major, vector), (unsigned)vector);
        return;
    }
    uint64_t threads = MIN((uint64_t)ROW_BLOCK, blocks_of(blocks_of(r->minor, ROW_EACH), WARP) * WARP), kept = 1;
    if (threads * 2 <= SHORT_ROWS)
        kept = MIN(r->mid, SHORT_ROWS / threads);
    unsigned wide = bits >= 64 || threads <= WARP || r->minor % 2 ? 1 : bits >= 32 || r->minor % 4 ? 2 : 4;
    uint64_t pieces = blocks_of(r->minor, threads * ROW_EACH);
    set(ech_bytes_mul(blocks_of(r->mid, kept), pieces), threads * kept, wide, ret);
    ret->trips = TOGETHER + ech_gpu_loop_trips(ech_bytes_mul(r->major, MIN(blocks_of(r->minor, threads), (uint64_t)ROW_EACH)), wide);
}

static void launch_columns(const EchGpuReduction *r, unsigned bits, EchGpuLaunch *ret)
{
    unsigned wide = bits >= 64 ? 1 : bits >= 32 ? 2 : 4;
    if (r->minor < COLUMN_TILE && is_power(r->minor)) {
        set(r->major, NARROW_COLUMNS, wide, ret);
        ret->trips = TOGETHER + ech_gpu_loop_trips(blocks_of(ech_bytes_mul(r->mid, r->minor), NARROW_COLUMNS), wide);
        return;
    }
    while (wide > 1 && r->minor % (COLUMN_TILE * wide))
        wide /= 2;
    set(ech_bytes_mul(r->major, blocks_of(r->minor, COLUMN_TILE * wide)), COLUMN_TILE * COLUMN_TILE, wide, ret);
    ret->trips = TOGETHER + ech_gpu_loop_trips(ech_bytes_mul(blocks_of(r->mid, COLUMN_TILE), wide), wide);
}

void ech_gpu_launch_reduce(const EchGpuReduction *reduction, unsigned bits, uint32_t sms, EchGpuLaunch *ret)
{
    if (reduction->row)
        launch_rows(reduction, bits, sms, ret);
    else
        launch_columns(reduction, bits, ret);
}

void ech_gpu_launch_transpose(uint64_t elements, unsigned bits, EchGpuLaunch *ret)
{
    uint64_t side = bits <= 16 ? 2 * TRANSPOSE_TILE : TRANSPOSE_TILE;
    set(blocks_of(elements, side * side), TRANSPOSE_BLOCK, bits <= 16 ? 2 : 1, ret);
}

void ech_gpu_launch_tiles(const uint64_t *dims, const uint64_t *tiles, size_t n, uint32_t warps, EchGpuLaunch *ret)
{
    uint64_t blocks = 1;
    for (size_t i = 0; i < n; i++)
        blocks = ech_bytes_mul(blocks, blocks_of(dims[i], MAX(tiles[i], 1u)));
    set(blocks, (uint64_t)MAX(warps, 1u) * WARP, 1, ret);
}
