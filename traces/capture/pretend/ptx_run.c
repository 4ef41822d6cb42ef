/* Which memory a kernel touches: some of its blocks are run, warp by warp, and what they touch is counted in sectors of 32 bytes, once a block. What all blocks
 * touch is that times their number, and at most what lies between the first address and the last: the first and last blocks along each axis are among those
 * that run. On the way what accesses cost and what warps wait for is counted, for the first of them. */
#include "ptx.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 32, BANKS = 32, SECTOR = 32, LINE = 128, WORD = 4, FEW_BLOCKS = 16, CORNERS = 8, INNER = 192, LEAST_INNER = 3 };
#define MOST_SECTORS (UINT32_C(1) << 20) /* told apart in a block */
#define MOST_SHARED (UINT64_C(1) << 18)
#define MOST_LOCAL (UINT64_C(1) << 16)

typedef struct {
    uint64_t low, high;          /* addresses; low > high: it touched none */
    uint64_t corner, inner;      /* sectors that it was the first of its block to touch: in blocks counted as they are, and in those that stand for others */
    bool reads, writes, spreads; /* spreads: by what memory holds, which is not known */
} Site;

/* What a warp has waited for. */
typedef struct {
    uint64_t cycles, trips, barriers;
} Path;

typedef struct {
    uint64_t *registers, *constants; /* of each lane */
    uint32_t *marks;                 /* of registers: other than 0, it hangs on a value of memory that is not known, and on which */
    uint8_t *local;
    uint64_t *loaded; /* behind what a load in an unrolled loop had last */
    uint32_t at[LANES], alive;
    bool waits;
    bool is_away; /* since its last basic block it loaded what the block had not had */
    Path path;    /* until here */
} Warp;

/* What atomics left. */
typedef struct {
    uint64_t address, value;
} Cell;
enum { CELLS = 256 };

/* Atomics on global memory are done by units of L2, each for some of its sectors. Clocks of such a unit: for a sector that a warp asks for, and for each more
 * of the warp's lanes at one address of it. Whole numbers: 1 and 1, 2^26 additions to one address of int on seven cards of 14 to 68 multiprocessors take 0.53
 * to 0.61 ns each (R100001/Programming-Massively-Parallel-Processors, histogram). Other numbers: 3 more, 2^25 additions to one float on an RTX A6000, 1.67 ns
 * each
 * ("CUDA Kernel Study: Reduction"; held out: an A100 2.5, a V100 2.6, atomicAddBench); 2, scatter_add_ of 2^24 floats on an H100 (traces/gpu_h100-sxm,
 * operators.csv), 65 a nanosecond, half as many as sectors that its L2 reads and writes. A unit has 512 bytes that lie together: 256 counters on an H100 go at
 * two a clock (yencal/gpu-histogram-optimization). A sector that is written in part is changed likewise, and takes as long as one of floats: 2^30 stores of 4
 * bytes apart on an H100 take 18.1 ms (the plain one of yencal/gpu-matrix-transpose), at this rate 17.0. */
enum { SECTOR_CLOCKS = 1, MORE_CLOCKS = 1, FLOAT_SECTOR_CLOCKS = 2, FLOAT_MORE_CLOCKS = 3, UNIT = 512 };

/* What one of them does. */
typedef struct {
    uint64_t unit, clocks[2]; /* unit: its number + 1; clocks: by is_inner */
    uint32_t stamp;           /* of the first block that needed it */
    bool is_shared;           /* others did, too */
} Crowd;
enum { CROWDS = 4096 };

/* Additions of other than whole numbers of 32 bits to shared memory are a loop that loads, adds and compares and swaps, in which one lane of a block after the
 * other gets its turn at an address (LDS, FADD, ATOMS.CAST.SPIN): cycles of a turn, of 2^25 additions on an RTX A6000 that take
 * 3.02 ms ("CUDA Kernel Study: Reduction", whose blocks are taken to be of 256). */
enum { TURN = 70, TURNS = 256 };

typedef struct {
    const PtxKernel *kernel;
    const PtxLaunch *launch;
    Site *sites;
    Warp *warps;
    unsigned n_warps, n_kept; /* of a block; of those that are kept: one, where none waits for others */
    uint8_t *shared;
    uint64_t shared_bytes;
    uint64_t *keys;   /* sectors that the block touched */
    uint32_t *stamps; /* and in which block */
    uint32_t room, stamp, n_keys;
    bool is_inner, is_marked; /* is_marked: some register is */
    uint64_t steps, limit;    /* instructions of warps so far, and behind which it is given up */
    uint64_t multiplied[2], flops[2], flops_64[2], slots[2], slots_64[2], functions[2], issued[2]; /* by is_inner */
    bool by_groups;
    Path paths[2];                                                            /* of all blocks together, by is_inner */
    bool is_timed;                                                            /* Accesses are counted: until they took as many steps as are enough. */
    uint64_t timed_steps, timed, accesses, wavefronts, stored, parts, joined; /* timed: what was issued meanwhile */
    Cell cells[CELLS];
    size_t n_cells;
    uint64_t atomics[2]; /* clocks of all units of L2 that do them, by is_inner */
    Crowd *crowds;       /* CROWDS; NULL: no atomics yet */
    size_t n_crowds;
    uint32_t turns[TURNS]; /* of the block, by words of shared memory */
} Run;

/* ---- sectors ---- */

static uint32_t slot_of(const Run *r, uint64_t key)
{
    uint32_t slot = (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (r->room - 1);
    while (r->stamps[slot] == r->stamp && r->keys[slot] != key)
        slot = (slot + 1) & (r->room - 1);
    return slot;
}

static void widen(Run *r)
{
    Run larger = *r;
    larger.room = 2 * r->room;
    larger.keys = calloc(larger.room, sizeof *larger.keys);
    larger.stamps = calloc(larger.room, sizeof *larger.stamps);
    if (!larger.keys || !larger.stamps) {
        free(larger.keys);
        free(larger.stamps);
        return;
    }
    for (uint32_t i = 0; i < r->room; i++)
        if (r->stamps[i] == r->stamp) {
            uint32_t slot = slot_of(&larger, r->keys[i]);
            larger.keys[slot] = r->keys[i];
            larger.stamps[slot] = r->stamp;
        }
    free(r->keys);
    free(r->stamps);
    *r = larger;
}

/* Whether the block had not touched it before. */
static bool is_new(Run *r, uint64_t key)
{
    if (2 * r->n_keys >= r->room && r->room < MOST_SECTORS)
        widen(r);
    if (r->n_keys + 1 >= r->room)
        return true;
    uint32_t slot = slot_of(r, key);
    if (r->stamps[slot] == r->stamp)
        return false;
    r->stamps[slot] = r->stamp;
    r->keys[slot] = key;
    r->n_keys++;
    return true;
}

/* Whether it touched what the block had not. */
static bool touch(Run *r, Site *site, uint64_t address, uint64_t bytes, uint32_t mark, bool reads, bool writes)
{
    if (bytes == 0)
        return false;
    r->steps += bytes / (LANES * SECTOR); /* as many as loads would take */
    if (bytes > MOST_SHARED) {            /* no copy is as large: it is given up */
        r->steps = r->limit;
        return false;
    }
    site->low = address < site->low ? address : site->low;
    site->high = address + bytes > site->high ? address + bytes : site->high;
    site->reads |= reads;
    site->writes |= writes;
    site->spreads |= mark != 0;
    uint64_t first = address / SECTOR, last = (address + bytes - 1) / SECTOR, n = 0, apart = mark * UINT64_C(0xd1342543de82ef95);
    for (uint64_t sector = first; sector <= last; sector++)
        n += is_new(r, (sector << 1 | writes) + apart);
    *(r->is_inner ? &site->inner : &site->corner) += n;
    return n > 0;
}

/* ---- memory ---- */

static uint64_t mask_of(unsigned bits)
{
    return bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

static uint64_t extend(uint64_t value, unsigned bits)
{
    unsigned left = bits >= 64 ? 0 : 64 - bits;
    return (uint64_t)((int64_t)(value << left) >> left);
}

static Cell *cell_of(Run *r, uint64_t address, bool make)
{
    for (size_t i = 0; i < r->n_cells; i++)
        if (r->cells[i].address == address)
            return &r->cells[i];
    if (!make || r->n_cells == CELLS)
        return NULL;
    r->cells[r->n_cells] = (Cell){address, 0};
    return &r->cells[r->n_cells++];
}

/* Where @bytes of shared or local memory lie; NULL: neither, or beyond. */
static uint8_t *inside(Run *r, Warp *w, PtxSpace space, unsigned lane, uint64_t address, uint64_t bytes)
{
    if (space == PTX_GENERIC) {
        space = address >= PTX_LOCAL && address < PTX_PARAMETER ? PTX_IN_LOCAL : address >= PTX_SHARED && address < PTX_LOCAL ? PTX_IN_SHARED : PTX_GLOBAL;
        address -= space == PTX_IN_LOCAL ? PTX_LOCAL : space == PTX_IN_SHARED ? PTX_SHARED : 0;
    }
    uint64_t size = space == PTX_IN_SHARED ? r->shared_bytes : space == PTX_IN_LOCAL ? r->kernel->local : 0;
    uint8_t *data = space == PTX_IN_SHARED ? r->shared : space == PTX_IN_LOCAL ? w->local : NULL;
    if (!data || address > size || bytes > size - address)
        return NULL;
    return data + (space == PTX_IN_LOCAL ? lane * size : 0) + address;
}

static uint64_t of_parameter(const PtxLaunch *l, uint64_t address, unsigned bytes)
{
    uint64_t ordinal = (address - PTX_PARAMETER) >> PTX_PARAMETER_BITS, at = address & ((1u << PTX_PARAMETER_BITS) - 1), value = 0;
    if (address >= PTX_PARAMETER && ordinal < l->n_parameters && l->parameters[ordinal] && at + bytes <= l->parameter_bytes[ordinal])
        memcpy(&value, (const uint8_t *)l->parameters[ordinal] + at, bytes);
    return value;
}

/* A value; *@mark: which one, where it is not known. */
static uint64_t load(Run *r, Warp *w, const PtxInstruction *in, unsigned lane, uint64_t address, unsigned bytes, uint32_t *mark)
{
    uint64_t value = 0;
    unsigned n = bytes < 8 ? bytes : 8;
    if (in->space == PTX_PARAM || (in->space == PTX_GENERIC && address >= PTX_PARAMETER))
        return of_parameter(r->launch, address, n);
    const uint8_t *own = inside(r, w, in->space, lane, address, n);
    if (own) {
        memcpy(&value, own, n);
        return value;
    }
    const Cell *cell = cell_of(r, address, false);
    if (cell)
        return cell->value & mask_of(8 * n);
    if (in->space == PTX_IN_SHARED || in->space == PTX_IN_LOCAL || (r->launch->peek && r->launch->peek(address, n, &value)))
        return value;
    /* A byte that is not known may be any; of more than that nothing is told but that it is not known. */
    uint64_t hash = address * UINT64_C(0x9e3779b97f4a7c15);
    if (n == 1)
        return hash >> 56;
    *mark = (uint32_t)(hash >> 33) | 1;
    return 0;
}

/* ---- one instruction ---- */

/* Lanes of an operand; of none, zeros. */
static uint64_t *lanes_of(Warp *w, PtxOperand operand)
{
    static const uint64_t zeros[LANES];
    if (operand == PTX_NOWHERE)
        return (uint64_t *)(uintptr_t)zeros;
    return operand < 0 ? w->constants + (size_t)~operand * LANES : w->registers + (size_t)operand * LANES;
}

static uint32_t *marks_of(Warp *w, PtxOperand operand)
{
    return operand < 0 || operand == PTX_NOWHERE ? NULL : w->marks + (size_t)operand * LANES;
}

#define FOR_LANES(mask) for (uint32_t left_ = (mask), lane; left_ != 0 && (lane = (uint32_t)__builtin_ctz(left_), true); left_ &= left_ - 1)

static uint32_t mix(uint32_t a, uint32_t b)
{
    return a == b || b == 0 ? a : a == 0 ? b : (a * 31 + b) | 1;
}

/* Results hang on what their operands hang on. */
static void pass_marks(Run *r, Warp *w, const PtxInstruction *in, uint32_t mask)
{
    const PtxOperand *operands = r->kernel->operands + in->first;
    for (size_t i = 0; i < in->n_results; i++) {
        uint32_t *to = marks_of(w, operands[i]);
        if (!to)
            continue;
        uint32_t made[LANES] = {0};
        for (size_t k = in->n_results; k < in->n; k++) {
            const uint32_t *from = marks_of(w, operands[k]);
            if (from)
                FOR_LANES(mask) made[lane] = mix(made[lane], from[lane]);
        }
        FOR_LANES(mask) to[lane] = made[lane];
    }
}

static double number_of(uint64_t value, unsigned bits)
{
    if (bits == 64) {
        double d;
        memcpy(&d, &value, sizeof d);
        return d;
    }
    uint32_t word = (uint32_t)value;
    float f;
    memcpy(&f, &word, sizeof f);
    return (double)f;
}

static uint64_t bits_of(double number, unsigned bits)
{
    uint64_t value = 0;
    float f = (float)number;
    if (bits == 64)
        memcpy(&value, &number, sizeof number);
    else
        memcpy(&value, &f, sizeof f);
    return value;
}

static bool compare(int relation, PtxType type, uint64_t a, uint64_t b)
{
    int order;
    if (type.is_float) {
        double x = number_of(a, type.bits), y = number_of(b, type.bits);
        if (isnan(x) || isnan(y))
            return relation == PTX_NE || relation == PTX_NAN;
        order = (x > y) - (x < y);
    } else if (type.is_signed) {
        int64_t x = (int64_t)extend(a, type.bits), y = (int64_t)extend(b, type.bits);
        order = (x > y) - (x < y);
    } else {
        uint64_t x = a & mask_of(type.bits), y = b & mask_of(type.bits);
        order = (x > y) - (x < y);
    }
    switch (relation) {
    case PTX_EQ: return order == 0;
    case PTX_NE: return order != 0;
    case PTX_LT: return order < 0;
    case PTX_LE: return order <= 0;
    case PTX_GT: return order > 0;
    case PTX_GE: return order >= 0;
    case PTX_NUM: return true;
    default: return false;
    }
}

static uint64_t combine(int code, PtxType type, uint64_t a, uint64_t b)
{
    switch (code) {
    case PTX_ADD: return a + b;
    case PTX_SUB: return a - b;
    case PTX_MIN: return compare(PTX_LT, type, a, b) ? a : b;
    case PTX_MAX: return compare(PTX_GT, type, a, b) ? a : b;
    case PTX_AND: return a & b;
    case PTX_OR: return a | b;
    case PTX_XOR: return a ^ b;
    default: return b;
    }
}

static uint64_t divide(const PtxInstruction *in, uint64_t a, uint64_t b, bool remainder)
{
    unsigned bits = in->type.bits;
    if (in->type.is_float)
        return bits_of(number_of(a, bits) / number_of(b, bits), bits);
    if (in->type.is_signed) {
        int64_t x = (int64_t)extend(a, bits), y = (int64_t)extend(b, bits);
        if (y == 0)
            return 0;
        if (y == -1)
            return remainder ? 0 : 0 - (uint64_t)x;
        return (uint64_t)(remainder ? x % y : x / y);
    }
    uint64_t y = b & mask_of(bits);
    return y == 0 ? 0 : remainder ? (a & mask_of(bits)) % y : (a & mask_of(bits)) / y;
}

static uint64_t multiply_high(PtxType type, uint64_t a, uint64_t b)
{
    __extension__ typedef __int128 Wide;
    __extension__ typedef unsigned __int128 UnsignedWide;
    if (type.is_signed)
        return (uint64_t)((Wide)(int64_t)extend(a, type.bits) * (int64_t)extend(b, type.bits) >> type.bits);
    return (uint64_t)((UnsignedWide)(a & mask_of(type.bits)) * (b & mask_of(type.bits)) >> type.bits);
}

static uint64_t multiply_wide(PtxType type, uint64_t a, uint64_t b)
{
    return type.is_signed ? extend(a, type.bits) * extend(b, type.bits) : (a & mask_of(type.bits)) * (b & mask_of(type.bits));
}

static uint64_t shift_right(PtxType type, uint64_t a, uint64_t by)
{
    if (type.is_signed)
        return (uint64_t)((int64_t)extend(a, type.bits) >> (by >= type.bits ? type.bits - 1u : by));
    return by >= type.bits ? 0 : (a & mask_of(type.bits)) >> by;
}

/* Of 32 bits and 32 more above them. */
static uint64_t funnel(bool right, bool wraps, uint64_t a, uint64_t b, uint64_t by)
{
    uint64_t both = (b & UINT32_MAX) << 32 | (a & UINT32_MAX);
    by = wraps ? by & 31 : by > 32 ? 32 : by;
    return right ? both >> by : both << by >> 32;
}

static uint64_t extract(PtxType type, uint64_t a, uint64_t at, uint64_t n)
{
    at &= 255;
    n &= 255;
    if (n == 0)
        return 0;
    uint64_t value = at >= type.bits ? 0 : (a & mask_of(type.bits)) >> at;
    n = n > type.bits ? type.bits : n;
    return type.is_signed ? extend(value, (unsigned)n) : value & mask_of((unsigned)n);
}

static uint64_t insert(unsigned bits, uint64_t a, uint64_t b, uint64_t at, uint64_t n)
{
    at &= 255;
    n &= 255;
    uint64_t field = at >= bits ? 0 : mask_of((unsigned)(n > 64 ? 64 : n)) << at;
    return (b & ~field) | (a << (at & 63) & field);
}

static uint64_t find_highest(PtxType type, uint64_t a)
{
    a &= mask_of(type.bits);
    if (type.is_signed && a >> (type.bits - 1))
        a = ~a & mask_of(type.bits);
    return a == 0 ? UINT32_MAX : 63u - (unsigned)__builtin_clzll(a);
}

static uint64_t reverse(unsigned bits, uint64_t a)
{
    uint64_t made = 0;
    for (unsigned i = 0; i < bits; i++)
        made |= (a >> i & 1) << (bits - 1 - i);
    return made;
}

static uint64_t permute(uint64_t a, uint64_t b, uint64_t selected)
{
    uint64_t both = (b & UINT32_MAX) << 32 | (a & UINT32_MAX), made = 0;
    for (unsigned i = 0; i < 4; i++) {
        unsigned which = selected >> (4 * i) & 15;
        uint64_t byte = both >> (8 * (which & 7)) & 255;
        if (which & 8)
            byte = byte & 128 ? 255 : 0;
        made |= byte << (8 * i);
    }
    return made;
}

static uint64_t by_table(uint64_t a, uint64_t b, uint64_t c, uint64_t table)
{
    uint64_t made = 0;
    for (unsigned i = 0; i < 8; i++)
        if (table >> i & 1)
            made |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return made;
}

static uint64_t convert(const PtxInstruction *in, uint64_t a)
{
    PtxType from = in->from, to = in->type;
    if (!from.is_float && !to.is_float)
        return from.is_signed ? extend(a, from.bits) : a & mask_of(from.bits);
    double number = from.is_float ? number_of(a, from.bits) : from.is_signed ? (double)(int64_t)extend(a, from.bits) : (double)(a & mask_of(from.bits));
    if (to.is_float)
        return bits_of(number, to.bits);
    if (isnan(number))
        return 0;
    return to.is_signed ? (uint64_t)(int64_t)(number < -9e18  ? -9e18
                                              : number > 9e18 ? 9e18
                                                              : number)
           : number < 0 ? 0
                        : (uint64_t)(number > 1.8e19 ? 1.8e19 : number);
}

static uint64_t arithmetic(const PtxInstruction *in, uint64_t a, uint64_t b, uint64_t c)
{
    double x = number_of(a, in->type.bits), y = number_of(b, in->type.bits), made = 0;
    switch (in->code) {
    case PTX_ADD: made = x + y; break;
    case PTX_SUB: made = x - y; break;
    case PTX_MUL: made = x * y; break;
    case PTX_FMA: made = x * y + number_of(c, in->type.bits); break;
    case PTX_ABS: made = fabs(x); break;
    case PTX_NEG: made = -x; break;
    case PTX_MIN: made = x < y ? x : y; break;
    case PTX_MAX: made = x > y ? x : y; break;
    case PTX_SQRT: made = x > 0 ? __builtin_sqrt(x) : 0; break;
    case PTX_RCP: made = 1 / x; break;
    default: break;
    }
    return bits_of(made, in->type.bits);
}

static uint64_t compute(const PtxInstruction *in, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    PtxType type = in->type;
    if (type.is_float && (in->code <= PTX_MAX || in->code == PTX_FMA || in->code == PTX_SQRT || in->code == PTX_RCP) && in->code != PTX_DIV)
        return arithmetic(in, a, b, c);
    switch (in->code) {
    case PTX_ADD: return a + b;
    case PTX_SUB: return a - b;
    case PTX_MUL: return a * b;
    case PTX_MULHI: return multiply_high(type, a, b);
    case PTX_MULWIDE: return multiply_wide(type, a, b);
    case PTX_MAD: return a * b + c;
    case PTX_MADHI: return multiply_high(type, a, b) + c;
    case PTX_MADWIDE: return multiply_wide(type, a, b) + c;
    case PTX_DIV: return divide(in, a, b, false);
    case PTX_REM: return divide(in, a, b, true);
    case PTX_ABS: return extend(a, type.bits) >> 63 ? 0 - extend(a, type.bits) : a;
    case PTX_NEG: return 0 - a;
    case PTX_NOT: return ~a;
    case PTX_CNOT: return (a & mask_of(type.bits)) == 0;
    case PTX_LOP3: return by_table(a, b, c, d);
    case PTX_SHL: return (b & UINT32_MAX) >= type.bits ? 0 : a << (b & UINT32_MAX);
    case PTX_SHR: return shift_right(type, a, b & UINT32_MAX);
    case PTX_SHFL: return funnel(false, in->wraps, a, b, c);
    case PTX_SHFR: return funnel(true, in->wraps, a, b, c);
    case PTX_BFE: return extract(type, a, b, c);
    case PTX_BFI: return insert(type.bits, a, b, c, d);
    case PTX_BFIND: return find_highest(type, a);
    case PTX_CLZ: return (a & mask_of(type.bits)) == 0 ? type.bits : (unsigned)__builtin_clzll(a & mask_of(type.bits)) - (64u - type.bits);
    case PTX_POPC: return (unsigned)__builtin_popcountll(a & mask_of(type.bits));
    case PTX_BREV: return reverse(type.bits, a);
    case PTX_PRMT: return permute(a, b, c);
    case PTX_SELP: return c ? a : b;
    case PTX_SLCT: return (int64_t)extend(c, 32) >= 0 ? a : b;
    case PTX_CVT: return convert(in, a);
    case PTX_MOV: return a;
    case PTX_TO_GENERIC: return a + (in->space == PTX_IN_SHARED ? PTX_SHARED : in->space == PTX_IN_LOCAL ? PTX_LOCAL : 0);
    case PTX_FROM_GENERIC: return a - (in->space == PTX_IN_SHARED ? PTX_SHARED : in->space == PTX_IN_LOCAL ? PTX_LOCAL : 0);
    default: return combine(in->code, type, a, b);
    }
}

/* Each lane by itself. */
static void run_lanes(Run *r, Warp *w, const PtxInstruction *in, uint32_t mask)
{
    const PtxOperand *operands = r->kernel->operands + in->first;
    uint64_t *to = operands[0] == PTX_NOWHERE ? NULL : lanes_of(w, operands[0]);
    const uint64_t *of[4];
    for (size_t i = 0; i < 4; i++)
        of[i] = lanes_of(w, i + 1 < in->n ? operands[i + 1] : PTX_NOWHERE);
    bool one_bit = in->code == PTX_BFIND || in->code == PTX_CLZ || in->code == PTX_POPC;
    bool wide = in->code == PTX_MULWIDE || in->code == PTX_MADWIDE;
    uint64_t keep = one_bit ? UINT32_MAX : mask_of(wide ? 2u * in->type.bits : in->type.bits);
    if (to)
        FOR_LANES(mask) to[lane] = compute(in, of[0][lane], of[1][lane], of[2][lane], of[3][lane]) & keep;
}

static void run_set(Run *r, Warp *w, const PtxInstruction *in, uint32_t mask)
{
    const PtxOperand *operands = r->kernel->operands + in->first;
    size_t at = in->n_results;
    const uint64_t *a = lanes_of(w, operands[at]), *b = lanes_of(w, at + 1 < in->n ? operands[at + 1] : PTX_NOWHERE),
                   *c = lanes_of(w, at + 2 < in->n ? operands[at + 2] : PTX_NOWHERE);
    for (size_t i = 0; i < in->n_results; i++) {
        uint64_t *to = lanes_of(w, operands[i]), made[LANES];
        if (operands[i] == PTX_NOWHERE)
            continue;
        FOR_LANES(mask)
        {
            uint64_t is = compare(in->relation, in->type, a[lane], b[lane]) != (i == 1), other = c[lane] != in->negates;
            is = in->combined ? combine(in->combined, in->type, is, other) : is;
            made[lane] = in->from.bits == 1 ? is : !is ? 0 : in->from.is_float ? bits_of(1, 32) : mask_of(in->from.bits);
        }
        FOR_LANES(mask) to[lane] = made[lane];
    }
}

static void run_pack(Run *r, Warp *w, const PtxInstruction *in, uint32_t mask)
{
    const PtxOperand *operands = r->kernel->operands + in->first;
    bool packs = in->code == PTX_PACK;
    size_t n = packs ? in->n - 1u : in->n_results;
    unsigned each = in->type.bits / (unsigned)(n > 0 ? n : 1);
    FOR_LANES(mask)
    {
        uint64_t whole = packs ? 0 : lanes_of(w, operands[n])[lane];
        for (size_t i = 0; i < n && each > 0 && i * each < 64; i++) {
            PtxOperand part = operands[packs ? i + 1 : i];
            if (packs)
                whole |= (lanes_of(w, part)[lane] & mask_of(each)) << (i * each);
            else if (part != PTX_NOWHERE)
                lanes_of(w, part)[lane] = whole >> (i * each) & mask_of(each);
        }
        if (packs && operands[0] != PTX_NOWHERE)
            lanes_of(w, operands[0])[lane] = whole;
    }
}

/* Values of other lanes (PTX ISA, shfl.sync): the segment and the clamp stand in one number. */
static void run_shuffle(Run *r, Warp *w, const PtxInstruction *in, uint32_t mask)
{
    const PtxOperand *operands = r->kernel->operands + in->first;
    size_t at = in->n_results;
    const uint64_t *a = lanes_of(w, operands[at]), *b = lanes_of(w, at + 1 < in->n ? operands[at + 1] : PTX_NOWHERE),
                   *c = lanes_of(w, at + 2 < in->n ? operands[at + 2] : PTX_NOWHERE);
    uint64_t made[LANES], is_there[LANES];
    FOR_LANES(mask)
    {
        uint32_t by = (uint32_t)b[lane] & 31, clamp = (uint32_t)c[lane] & 31, segment = (uint32_t)c[lane] >> 8 & 31;
        uint32_t most = (lane & segment) | (clamp & ~segment), least = lane & segment, from = lane;
        switch (in->relation) {
        case PTX_UP: from = lane - by; break;
        case PTX_DOWN: from = lane + by; break;
        case PTX_BFLY: from = lane ^ by; break;
        default: from = least | (by & ~segment); break;
        }
        bool there = in->relation == PTX_UP ? (int32_t)from >= (int32_t)most : from <= most;
        from = there ? from & 31 : lane;
        made[lane] = a[from];
        is_there[lane] = there;
    }
    for (size_t i = 0; i < in->n_results; i++) {
        uint64_t *to = lanes_of(w, operands[i]);
        if (operands[i] != PTX_NOWHERE)
            FOR_LANES(mask) to[lane] = i == 0 ? made[lane] : is_there[lane];
    }
}

/* One result of the whole warp. */
static void run_together(Run *r, Warp *w, const PtxInstruction *in, uint32_t mask)
{
    const PtxOperand *operands = r->kernel->operands + in->first;
    const uint64_t *a = lanes_of(w, in->n > in->n_results ? operands[in->n_results] : PTX_NOWHERE);
    uint64_t made = 0;
    uint32_t ballot = 0;
    bool begun = false;
    FOR_LANES(mask)
    {
        ballot |= (uint32_t)((a[lane] != 0) != in->negates) << lane;
        if (in->code == PTX_REDUX)
            made = begun ? combine(in->relation, in->type, made, a[lane]) : a[lane];
        begun = true;
    }
    if (in->code == PTX_ACTIVE)
        made = mask;
    else if (in->code == PTX_VOTE)
        made = in->relation == PTX_BALLOT ? ballot
               : in->relation == PTX_ANY  ? ballot != 0
               : in->relation == PTX_ALL  ? ballot == mask
                                          : ballot == mask || ballot == 0;
    else if (in->code == PTX_ELECT)
        made = (uint64_t)__builtin_ctz(mask);
    for (size_t i = 0; i < in->n_results; i++) {
        uint64_t *to = lanes_of(w, operands[i]);
        if (operands[i] != PTX_NOWHERE)
            FOR_LANES(mask) to[lane] = i == 0 ? made & UINT32_MAX : lane == (uint32_t)__builtin_ctz(mask);
    }
}

/* ---- what touches memory ---- */

static bool is_global(const PtxInstruction *in, uint64_t address)
{
    return in->space == PTX_GLOBAL || (in->space == PTX_GENERIC && address < PTX_SHARED);
}

static uint32_t mark_at(Warp *w, PtxOperand operand, unsigned lane)
{
    const uint32_t *marks = marks_of(w, operand);
    return marks ? marks[lane] : 0;
}

/* Where lanes go: those whose address hangs on what memory holds, which is not known, may be at any place of the array behind it; where several hang on one
 * value, these lie together as they are. @spread is room for that. */
static const uint64_t *spread_out(Run *r, Warp *w, const PtxInstruction *in, PtxOperand where, uint32_t mask, unsigned bytes, uint64_t *spread)
{
    const uint64_t *base = lanes_of(w, where);
    const uint32_t *marks = marks_of(w, where);
    uint32_t marked = 0;
    if (r->is_marked && marks)
        FOR_LANES(mask) marked |= (uint32_t)(marks[lane] != 0) << lane;
    if (marked == 0)
        return base;
    uint32_t first = (uint32_t)__builtin_ctz(marked);
    uint64_t address = base[first] + (uint64_t)in->offset, grain = bytes, end;
    if (is_global(in, address))
        end = r->launch->end(address);
    else if (in->space == PTX_IN_SHARED || (in->space == PTX_GENERIC && address < PTX_LOCAL))
        end = r->shared_bytes + (in->space == PTX_GENERIC ? PTX_SHARED : 0);
    else
        return base;
    FOR_LANES(marked) grain = lane != first && marks[lane] == marks[first] ? LINE : grain;
    uint64_t places = end > address ? (end - address) / grain : 0;
    FOR_LANES(mask)
    {
        __extension__ typedef unsigned __int128 Wide;
        uint64_t hash = marks[lane] * UINT64_C(0x9e3779b97f4a7c15);
        spread[lane] = base[lane] + (marks[lane] != 0 ? (uint64_t)((Wide)hash * places >> 64) * grain : 0);
    }
    return spread;
}

static void run_load(Run *r, Warp *w, const PtxInstruction *in, uint32_t mask)
{
    const PtxOperand *operands = r->kernel->operands + in->first, where = operands[in->n_results];
    const uint64_t *base = lanes_of(w, where);
    unsigned each = in->type.bits >= 8 ? in->type.bits / 8u : 1;
    FOR_LANES(mask)
    {
        uint64_t address = base[lane] + (uint64_t)in->offset;
        uint32_t of_address = mark_at(w, where, lane);
        if (in->site != UINT32_MAX && is_global(in, address))
            w->is_away |= touch(r, &r->sites[in->site], address, (uint64_t)each * in->n_results, of_address, true, false);
        for (size_t i = 0; i < in->n_results; i++) {
            if (operands[i] == PTX_NOWHERE)
                continue;
            uint32_t mark = 0;
            lanes_of(w, operands[i])[lane] = load(r, w, in, lane, address + i * each, each, &mark);
            mark = mix(mark, of_address);
            marks_of(w, operands[i])[lane] = mark;
            r->is_marked |= mark != 0;
        }
    }
}

static void run_store(Run *r, Warp *w, const PtxInstruction *in, uint32_t mask)
{
    const PtxOperand *operands = r->kernel->operands + in->first;
    const uint64_t *base = lanes_of(w, operands[0]);
    unsigned each = in->type.bits >= 8 ? in->type.bits / 8u : 1;
    FOR_LANES(mask)
    {
        uint64_t address = base[lane] + (uint64_t)in->offset;
        if (in->site != UINT32_MAX && is_global(in, address)) {
            touch(r, &r->sites[in->site], address, (uint64_t)each * (in->n - 1u), mark_at(w, operands[0], lane), false, true);
            Cell *cell = cell_of(r, address, false); /* a lock is let go of */
            if (cell)
                cell->value = lanes_of(w, operands[1])[lane];
            continue;
        }
        for (size_t i = 1; i < in->n; i++) {
            uint8_t *own = inside(r, w, (PtxSpace)in->space, lane, address + (i - 1) * each, each < 8 ? each : 8);
            if (own)
                memcpy(own, &lanes_of(w, operands[i])[lane], each < 8 ? each : 8);
        }
    }
}

/* The unit of L2 at @address; NULL: there are too many to tell. */
static Crowd *crowd_of(Run *r, uint64_t address)
{
    if (!r->crowds)
        r->crowds = calloc(CROWDS, sizeof *r->crowds);
    uint64_t unit = address / UNIT + 1;
    for (uint32_t slot = (uint32_t)((unit * UINT64_C(0x9e3779b97f4a7c15)) >> 52); r->crowds; slot = (slot + 1) % CROWDS) {
        Crowd *crowd = &r->crowds[slot];
        if (crowd->unit == unit)
            return crowd;
        if (crowd->unit == 0 && 2 * r->n_crowds >= CROWDS)
            return NULL;
        if (crowd->unit == 0) {
            *crowd = (Crowd){.unit = unit, .stamp = r->stamp};
            r->n_crowds++;
            return crowd;
        }
    }
    return NULL;
}

/* Of lanes at @base + @offset, those whose first is there, and at most how many of them have one address. */
static uint32_t lanes_of_sector(const uint64_t *base, int64_t offset, uint32_t mask, unsigned *ret_most)
{
    uint64_t sector = (base[__builtin_ctz(mask)] + (uint64_t)offset) / SECTOR;
    uint32_t there = 0;
    FOR_LANES(mask) there |= (uint32_t)((base[lane] + (uint64_t)offset) / SECTOR == sector) << lane;
    unsigned most = 0;
    for (uint32_t others = there; others != 0;) {
        uint64_t address = base[__builtin_ctz(others)];
        uint32_t same = 0;
        FOR_LANES(others) same |= (uint32_t)(base[lane] == address) << lane;
        others &= ~same;
        most = (unsigned)__builtin_popcount(same) > most ? (unsigned)__builtin_popcount(same) : most;
    }
    *ret_most = most;
    return there;
}

/* What L2's units do for an atomic on global memory. */
static void ask_units(Run *r, const PtxInstruction *in, const uint64_t *base, uint32_t mask)
{
    unsigned most;
    for (uint32_t left = mask, there; left != 0; left &= ~there) {
        uint64_t address = base[__builtin_ctz(left)] + (uint64_t)in->offset;
        there = lanes_of_sector(base, in->offset, left, &most);
        uint64_t clocks = in->type.is_float ? FLOAT_SECTOR_CLOCKS + FLOAT_MORE_CLOCKS * (most - 1) : SECTOR_CLOCKS + MORE_CLOCKS * (most - 1);
        r->atomics[r->is_inner] += clocks;
        Crowd *crowd = crowd_of(r, address);
        if (!crowd)
            continue;
        crowd->clocks[r->is_inner] += clocks;
        crowd->is_shared |= crowd->stamp != r->stamp;
    }
}

static bool takes_turns(const PtxInstruction *in)
{
    return in->type.is_float || (in->type.bits != 32 && in->relation != PTX_MOV && in->relation != PTX_SELP);
}

/* Lanes of an atomic that machine code has, once they have summed up what they can. */
static uint32_t lanes_of_atom(const PtxInstruction *in, const uint64_t *base, uint32_t mask)
{
    uint32_t first = (uint32_t)__builtin_ctz(mask);
    bool at_once = in->at_once;
    FOR_LANES(mask) at_once = at_once && base[lane] == base[first];
    return at_once ? UINT32_C(1) << first : mask;
}

/* What an atomic takes of what does it: units of L2, or turns at shared memory. */
static void time_atom(Run *r, Warp *w, const PtxInstruction *in, uint32_t mask)
{
    uint64_t spread[LANES];
    PtxOperand where = r->kernel->operands[in->first + in->n_results];
    const uint64_t *base = spread_out(r, w, in, where, mask, in->type.bits / 8u, spread);
    mask = lanes_of_atom(in, base, mask);
    if (is_global(in, base[__builtin_ctz(mask)] + (uint64_t)in->offset))
        ask_units(r, in, base, mask);
    else if (takes_turns(in))
        FOR_LANES(mask) r->turns[(base[lane] + (uint64_t)in->offset) / WORD % TURNS]++;
}

static void run_atom(Run *r, Warp *w, const PtxInstruction *in, uint32_t mask)
{
    const PtxOperand *operands = r->kernel->operands + in->first;
    size_t at = in->n_results;
    const uint64_t *base = lanes_of(w, operands[at]), *a = lanes_of(w, at + 1 < in->n ? operands[at + 1] : PTX_NOWHERE),
                   *b = lanes_of(w, at + 2 < in->n ? operands[at + 2] : PTX_NOWHERE);
    FOR_LANES(mask)
    {
        uint64_t address = base[lane] + (uint64_t)in->offset, old = 0;
        if (in->site != UINT32_MAX && is_global(in, address)) {
            touch(r, &r->sites[in->site], address, in->type.bits / 8u, mark_at(w, operands[at], lane), true, false);
            w->is_away = true; /* L2 does it */
            touch(r, &r->sites[in->site], address, in->type.bits / 8u, mark_at(w, operands[at], lane), false, true);
        }
        Cell *cell = at > 0 && operands[0] != PTX_NOWHERE ? cell_of(r, address, true) : NULL;
        if (cell) {
            old = cell->value;
            cell->value = in->relation == PTX_SELP ? (old == a[lane] ? b[lane] : old) : combine(in->relation, in->type, old, a[lane]);
            cell->value &= mask_of(in->type.bits);
        }
        if (at > 0 && operands[0] != PTX_NOWHERE)
            lanes_of(w, operands[0])[lane] = old;
    }
}

static void run_copy(Run *r, Warp *w, const PtxInstruction *in, uint32_t mask)
{
    const PtxOperand *operands = r->kernel->operands + in->first;
    const uint64_t *base = lanes_of(w, operands[0]), *bytes = lanes_of(w, operands[1]);
    FOR_LANES(mask)
    w->is_away |= touch(r, &r->sites[in->site], base[lane] + (uint64_t)in->offset, bytes[lane] & UINT32_MAX, mark_at(w, operands[0], lane), !in->is_written,
                        in->is_written);
}

static void run_tile(Run *r, Warp *w, const PtxInstruction *in, uint32_t mask)
{
    const PtxOperand *operands = r->kernel->operands + in->first;
    uint32_t lane = (uint32_t)__builtin_ctz(mask), mark = mark_at(w, operands[0], lane);
    uint64_t address = lanes_of(w, operands[0])[lane] + (uint64_t)in->offset, apart = (lanes_of(w, operands[1])[lane] & UINT32_MAX) * in->type.bits / 8;
    for (uint64_t row = 0; row < in->relation && is_global(in, address); row++)
        w->is_away |= touch(r, &r->sites[in->site], address + row * apart, in->multiplied, mark, !in->is_written, in->is_written);
}

/* The map at @address, among the parameters or in memory that is known. */
static bool read_map(Run *r, uint64_t address, PtxTensor *ret)
{
    uint64_t words[(sizeof *ret + 7) / 8] = {0};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (address >= PTX_PARAMETER)
            words[i] = of_parameter(r->launch, address + 8 * i, 8);
        else if (!r->launch->peek || !r->launch->peek(address + 8 * i, 8, &words[i]))
            return false;
    }
    memcpy(ret, words, sizeof *ret);
    return ret->bits > 0 && ret->dimensions >= 1 && ret->dimensions <= 5;
}

/* One row of the box at @at, number @row of all: what of it lies inside. */
static bool row_of_box(const PtxTensor *map, const int64_t *at, uint64_t row, uint64_t *ret_address, uint64_t *ret_bytes)
{
    uint64_t address = map->address;
    for (size_t i = 1; i < map->dimensions; i++) {
        int64_t place = at[i] + (int64_t)(row % map->box[i]);
        row /= map->box[i];
        if (place < 0 || place >= (int64_t)map->sizes[i])
            return false;
        address += (uint64_t)place * map->apart[i - 1];
    }
    int64_t first = at[0] < 0 ? 0 : at[0], end = at[0] + (int64_t)map->box[0];
    end = end > (int64_t)map->sizes[0] ? (int64_t)map->sizes[0] : end;
    if (end <= first)
        return false;
    *ret_address = address + (uint64_t)first * map->bits / 8;
    *ret_bytes = (uint64_t)(end - first) * map->bits / 8;
    return true;
}

static void run_tensor(Run *r, Warp *w, const PtxInstruction *in, uint32_t mask)
{
    enum { MOST_ROWS = 1 << 16, ROWS_A_STEP = 16 };
    const PtxOperand *operands = r->kernel->operands + in->first;
    FOR_LANES(mask)
    {
        PtxTensor map;
        int64_t at[5] = {0};
        uint32_t mark = mark_at(w, operands[0], lane);
        uint64_t rows = 1, address, bytes;
        if (!read_map(r, lanes_of(w, operands[0])[lane] + (uint64_t)in->offset, &map) || map.dimensions != in->relation) {
            r->steps = r->limit; /* it is not known which */
            return;
        }
        for (size_t i = 0; i < map.dimensions; i++) {
            at[i] = (int32_t)lanes_of(w, operands[i + 1])[lane];
            mark = mix(mark, mark_at(w, operands[i + 1], lane));
            map.box[i] = map.box[i] > 0 ? map.box[i] : 1;
            rows *= i > 0 ? map.box[i] : 1;
        }
        rows = rows < MOST_ROWS ? rows : MOST_ROWS;
        r->steps += rows / ROWS_A_STEP;
        for (uint64_t row = 0; row < rows; row++)
            if (row_of_box(&map, at, row, &address, &bytes))
                w->is_away |= touch(r, &r->sites[in->site], address, bytes, mark, !in->is_written, in->is_written);
    }
}

/* Adds @key unless it is among the @n that there are; those of neighbours are often the same. */
static unsigned add_key(uint64_t *keys, unsigned n, uint64_t key)
{
    for (unsigned i = n; i-- > 0;)
        if (keys[i] == key)
            return n;
    keys[n] = key;
    return n + 1;
}

/* Pieces of @size, lines or sectors, of global memory that lanes at @base + @offset touch, @bytes each. */
static unsigned pieces_of(const uint64_t *base, int64_t offset, uint32_t mask, unsigned bytes, unsigned size)
{
    uint64_t pieces[2 * LANES];
    unsigned n = 0;
    FOR_LANES(mask)
    {
        uint64_t address = base[lane] + (uint64_t)offset;
        n = add_key(pieces, n, address / size);
        n = add_key(pieces, n, (address + bytes - 1) / size);
    }
    return n;
}

/* Sectors of which lanes write a part. */
static unsigned parts_of(const uint64_t *base, int64_t offset, uint32_t mask, unsigned bytes)
{
    uint64_t sectors[2 * LANES];
    uint32_t written[2 * LANES], n = 0, parts = 0;
    FOR_LANES(mask)
    {
        uint64_t first = base[lane] + (uint64_t)offset, end = first + bytes;
        for (uint64_t sector = first / SECTOR; sector <= (end - 1) / SECTOR && sector <= first / SECTOR + 1; sector++) {
            uint64_t from = first > sector * SECTOR ? first % SECTOR : 0, to = end < (sector + 1) * SECTOR ? end % SECTOR : SECTOR;
            uint32_t at = 0;
            while (at < n && sectors[n - 1 - at] != sector) /* those of neighbours are often the same */
                at++;
            if (at == n) {
                sectors[n] = sector;
                written[n++] = 0;
                at = 0;
            }
            written[n - 1 - at] |= (uint32_t)(mask_of((unsigned)(to - from)) << from);
        }
    }
    for (uint32_t i = 0; i < n; i++)
        parts += written[i] != UINT32_MAX;
    return parts;
}

/* Words of shared memory that lanes touch of the bank of which they touch most. */
static unsigned conflicts_of(const uint64_t *base, int64_t offset, uint32_t mask, unsigned bytes)
{
    uint64_t words[BANKS][LANES];
    unsigned n[BANKS] = {0}, most = 0;
    FOR_LANES(mask)
    {
        uint64_t address = base[lane] + (uint64_t)offset;
        for (uint64_t word = address / WORD; word <= (address + bytes - 1) / WORD; word++) {
            unsigned bank = word % BANKS;
            if (n[bank] < LANES)
                n[bank] = add_key(words[bank], n[bank], word);
            most = n[bank] > most ? n[bank] : most;
        }
    }
    return most;
}

/* Lanes of an atomic on shared memory at the bank at which there are most: each has its turn. */
static unsigned lanes_of_bank(const uint64_t *base, int64_t offset, uint32_t mask)
{
    unsigned n[BANKS] = {0}, most = 0;
    FOR_LANES(mask)
    {
        unsigned *bank = &n[(base[lane] + (uint64_t)offset) / WORD % BANKS];
        *bank += 1;
        most = *bank > most ? *bank : most;
    }
    return most;
}

/* Whether it only counts: lanes at one word of shared memory are counted at once (ATOMS.POPC.INC, from compute capability 8.0 on). */
static bool adds_one(const PtxKernel *k, const PtxInstruction *in)
{
    PtxOperand added = in->n > in->n_results + 1 ? k->operands[in->first + in->n_results + 1] : PTX_NOWHERE;
    return in->relation == PTX_ADD && in->n_results == 0 && added < 0 && k->constants[~added].kind == PTX_NUMBER && k->constants[~added].value == 1;
}

/* Whether each lane has the address of the one @apart (1 or 2: whose number differs in that bit). */
static bool are_pairs(const uint64_t *base, uint32_t mask, uint32_t apart)
{
    FOR_LANES(mask)
    {
        uint32_t other = lane ^ apart;
        if ((mask >> other & 1) && base[lane] != base[other])
            return false;
    }
    return true;
}

/* Wavefronts of shared memory: of accesses of 8 and 16 bytes each half and quarter of a warp is one of its own, or two of these together are where lanes in
 * pairs have the same address (forums.developer.nvidia.com/t/77228, on compute capabilities 7.0 to 7.5). */
static unsigned shared_wavefronts(const uint64_t *base, int64_t offset, uint32_t mask, unsigned bytes)
{
    unsigned lanes = bytes > 8 ? LANES / 4 : bytes > 4 ? LANES / 2 : LANES, n = 0;
    lanes = lanes < LANES && (are_pairs(base, mask, 1) || are_pairs(base, mask, 2)) ? 2 * lanes : lanes;
    uint32_t some = lanes < LANES ? (UINT32_C(1) << lanes) - 1 : UINT32_MAX;
    for (unsigned first = 0; first < LANES; first += lanes)
        n += conflicts_of(base, offset, mask & some << first, bytes);
    return n;
}

/* Wavefronts of the units that load and store: of local memory, where lanes lie side by side, one for each word. A load of global memory takes at least
 * two, 1.9 and 2.0 of a plain product of matrices on an A100 and an H200 (yencal/gpu-gemm). */
static unsigned wavefronts_of(const PtxKernel *k, const PtxInstruction *in, const uint64_t *base, int64_t offset, uint32_t mask, unsigned bytes)
{
    uint64_t address = base[__builtin_ctz(mask)] + (uint64_t)offset;
    if (is_global(in, address)) {
        unsigned lines = pieces_of(base, offset, mask, bytes, LINE), least = in->code == PTX_LD ? 2 : 1;
        return lines > least ? lines : least;
    }
    if (in->space == PTX_IN_LOCAL || (in->space == PTX_GENERIC && address >= PTX_LOCAL))
        return (bytes + WORD - 1) / WORD;
    return in->code == PTX_ATOM && !adds_one(k, in) ? lanes_of_bank(base, offset, mask) : shared_wavefronts(base, offset, mask, bytes);
}

/* Whether a load in a loop that is unrolled is one with that of the round before: of the next bytes of one aligned piece. */
static bool goes_on(Warp *w, const PtxInstruction *in, uint64_t address, unsigned bytes)
{
    enum { PIECE = 16 };
    bool goes_on = address == w->loaded[in->again - 1] && address % PIECE != 0;
    w->loaded[in->again - 1] = address + bytes;
    return goes_on;
}

/* What the access takes of the units that load and store. */
static void time_access(Run *r, Warp *w, const PtxInstruction *in, uint32_t mask)
{
    const PtxOperand *operands = r->kernel->operands + in->first, where = operands[in->code == PTX_ST ? 0 : in->n_results];
    unsigned each = in->type.bits >= 8 ? in->type.bits / 8u : 1,
             n = in->code == PTX_LD   ? in->n_results
                 : in->code == PTX_ST ? in->n - 1u
                                      : 1,
             joined = in->joined;
    uint64_t spread[LANES];
    const uint64_t *base = spread_out(r, w, in, where, mask, each * n, spread);
    int64_t offset = in->offset;
    unsigned bytes = each * n, times = 1;
    if (in->code == PTX_ATOM)
        mask = lanes_of_atom(in, base, mask);
    if (joined > 1 && (where < 0 || base[__builtin_ctz(mask)] % (each * joined) == 0)) {
        bytes = each * joined;
        offset -= (int64_t)((uint64_t)offset % bytes);
        r->joined += joined - 1;
    } else {
        times = joined;
    }
    r->timed_steps++;
    if (in->again > 0 && goes_on(w, in, base[__builtin_ctz(mask)] + (uint64_t)offset, bytes)) {
        r->joined += times;
        return;
    }
    r->accesses += times;
    r->wavefronts += (uint64_t)times * wavefronts_of(r->kernel, in, base, offset, mask, bytes);
    uint64_t address = base[__builtin_ctz(mask)] + (uint64_t)offset;
    if (in->code != PTX_LD && is_global(in, address))
        r->stored += pieces_of(base, offset, mask, bytes, SECTOR);
    if (in->code == PTX_ST && is_global(in, address))
        r->parts += parts_of(base, offset, mask, bytes);
}

/* The same of matrices, whose rows the first lanes say, and of a copy to shared memory. */
static void time_rows(Run *r, Warp *w, const PtxInstruction *in, uint32_t mask)
{
    enum { ROWS = 8, ROW_BYTES = 16 };
    const PtxOperand *operands = r->kernel->operands + in->first;
    r->timed_steps++;
    r->accesses++;
    if (in->code == PTX_MATRIX) {
        mask &= (uint32_t)mask_of(ROWS * in->relation);
        r->wavefronts += shared_wavefronts(lanes_of(w, operands[in->n_results]), in->offset, mask, ROW_BYTES);
        return;
    }
    unsigned bytes = (unsigned)(lanes_of(w, operands[1])[__builtin_ctz(mask)] & UINT32_MAX);
    bytes = bytes >= 1 && bytes <= ROW_BYTES ? bytes : ROW_BYTES;
    r->wavefronts += pieces_of(lanes_of(w, operands[0]), in->offset, mask, bytes, LINE);
    r->wavefronts += shared_wavefronts(lanes_of(w, operands[2]), in->apart, mask, bytes);
}

static void run_instruction(Run *r, Warp *w, const PtxInstruction *in, uint32_t mask)
{
    if (r->is_timed && (in->code == PTX_MATRIX || (in->code == PTX_COPY && in->n > 2)))
        time_rows(r, w, in, mask);
    else if (r->is_timed && ptx_is_access(in))
        time_access(r, w, in, mask);
    switch (in->code) {
    case PTX_NOP: return;
    case PTX_LD: run_load(r, w, in, mask); return;
    case PTX_ST: run_store(r, w, in, mask); return;
    case PTX_ATOM:
        time_atom(r, w, in, mask);
        run_atom(r, w, in, mask);
        return;
    case PTX_COPY: run_copy(r, w, in, mask); return;
    case PTX_TILE: run_tile(r, w, in, mask); return;
    case PTX_TENSOR: run_tensor(r, w, in, mask); return;
    case PTX_MMA:
        r->multiplied[r->is_inner] += in->multiplied * (unsigned)__builtin_popcount(mask) / LANES; /* lanes may come one by one */
        r->by_groups |= in->by_groups;
        return;
    case PTX_SET: run_set(r, w, in, mask); break;
    case PTX_PACK:
    case PTX_UNPACK: run_pack(r, w, in, mask); break;
    case PTX_LANES: run_shuffle(r, w, in, mask); break;
    case PTX_VOTE:
    case PTX_ACTIVE:
    case PTX_REDUX:
    case PTX_ELECT: run_together(r, w, in, mask); break;
    case PTX_MATRIX:
    case PTX_ZERO:
        for (size_t i = 0; i < in->n_results; i++) {
            PtxOperand result = r->kernel->operands[in->first + i];
            if (result != PTX_NOWHERE)
                FOR_LANES(mask) lanes_of(w, result)[lane] = 0;
        }
        break;
    default: run_lanes(r, w, in, mask); break;
    }
    if (r->is_marked)
        pass_marks(r, w, in, mask);
}

/* ---- warps ---- */

static uint32_t guarded(Warp *w, const PtxInstruction *in, uint32_t mask)
{
    if (in->guard == PTX_NOWHERE)
        return mask;
    const uint64_t *guard = lanes_of(w, in->guard);
    uint32_t made = 0;
    FOR_LANES(mask) made |= (uint32_t)((guard[lane] != 0) != in->not_guard) << lane;
    return made;
}

/* The lanes that are furthest behind; *@ret_next: where the next ones are. */
static uint32_t furthest_behind(const Warp *w, uint32_t *ret_at, uint32_t *ret_next)
{
    uint32_t at = UINT32_MAX, next = UINT32_MAX, mask = 0;
    FOR_LANES(w->alive)
    {
        if (w->at[lane] < at) {
            next = at;
            at = w->at[lane];
            mask = UINT32_C(1) << lane;
        } else if (w->at[lane] == at) {
            mask |= UINT32_C(1) << lane;
        } else if (w->at[lane] < next) {
            next = w->at[lane];
        }
    }
    *ret_at = at;
    *ret_next = next;
    return mask;
}

static bool is_flow(const PtxInstruction *in)
{
    return in->code == PTX_BRA || in->code == PTX_BRX || in->code == PTX_EXIT || in->code == PTX_BAR;
}

/* What the instruction comes to by itself, for @lanes, and the basic block that ends with it. */
static void count(Run *r, Warp *w, const PtxInstruction *in, uint32_t lanes)
{
    enum { L1 = 40 }; /* cycles of a load that L1 has: arXiv 2402.13499 (38 to 43: RTX 4090, A100, H100) */
    const PtxCounts *counts = &in->counts;
    r->flops[r->is_inner] += (uint64_t)counts->flops * lanes;
    r->flops_64[r->is_inner] += (uint64_t)counts->flops_64 * lanes;
    r->slots[r->is_inner] += (uint64_t)counts->slots * lanes;
    r->slots_64[r->is_inner] += (uint64_t)counts->slots_64 * lanes;
    r->functions[r->is_inner] += (uint64_t)counts->functions * lanes;
    r->issued[r->is_inner] += counts->issued;
    r->timed += r->is_timed ? counts->issued : 0;
    r->timed_steps += in->only_times;
    r->is_timed = r->is_timed && r->timed_steps < r->launch->enough;
    w->path.barriers += counts->barriers;
    if (counts->cycles == 0)
        return;
    w->path.cycles += counts->cycles + (w->is_away ? 0 : (uint64_t)L1 * counts->trips);
    w->path.trips += w->is_away ? counts->trips : 0;
    w->is_away = false;
}

/* Those lanes, until others are as far, or a barrier. False: it takes too long. */
static bool run_some(Run *r, Warp *w, uint32_t mask, uint32_t at, uint32_t next)
{
    const PtxKernel *k = r->kernel;
    while (at < next && mask != 0) {
        if (at >= k->n_instructions) {
            w->alive &= ~mask;
            return true;
        }
        const PtxInstruction *in = &k->instructions[at++];
        uint32_t run = guarded(w, in, mask);
        if (!in->only_times && ++r->steps > r->limit)
            return false;
        if (run != 0 && !is_flow(in) && (r->is_timed || !in->only_times))
            run_instruction(r, w, in, run);
        count(r, w, in, (uint32_t)__builtin_popcount(mask));
        if (in->code == PTX_BRA) {
            if (run == mask) {
                at = in->target;
            } else if (run != 0) {
                FOR_LANES(mask) w->at[lane] = run >> lane & 1 ? in->target : at;
                return true;
            }
        } else if (in->code == PTX_BRX) {
            const uint64_t *which = lanes_of(w, k->operands[in->first]);
            FOR_LANES(mask) w->at[lane] = which[lane] < in->n_targets ? k->targets[in->target + which[lane]] : k->n_instructions;
            return true;
        } else if (in->code == PTX_EXIT) {
            w->alive &= ~run;
            mask &= ~run;
        } else if (in->code == PTX_BAR) {
            w->waits = true;
            FOR_LANES(mask) w->at[lane] = at;
            return true;
        }
    }
    FOR_LANES(mask) w->at[lane] = at;
    return true;
}

/* To its end, or to a barrier. */
static bool run_warp(Run *r, Warp *w)
{
    while (w->alive != 0 && !w->waits) {
        uint32_t at, next, mask = furthest_behind(w, &at, &next);
        if (!run_some(r, w, mask, at, next))
            return false;
    }
    return true;
}

static void set_constant(Warp *w, uint32_t which, uint32_t lane, uint64_t value)
{
    w->constants[(size_t)which * LANES + lane] = value;
}

static uint64_t special_value(const Run *r, uint64_t which, const unsigned *block, unsigned warp, unsigned lane)
{
    const PtxLaunch *l = r->launch;
    unsigned thread = warp * LANES + lane, cluster[3];
    for (size_t i = 0; i < 3; i++)
        cluster[i] = r->kernel->cluster[i] > 0 ? r->kernel->cluster[i] : 1;
    switch (which) {
    case PTX_TID_X: return thread % l->block[0];
    case PTX_TID_Y: return thread / l->block[0] % l->block[1];
    case PTX_TID_Z: return thread / l->block[0] / l->block[1];
    case PTX_NTID_X:
    case PTX_NTID_Y:
    case PTX_NTID_Z: return l->block[which - PTX_NTID_X];
    case PTX_CTAID_X:
    case PTX_CTAID_Y:
    case PTX_CTAID_Z: return block[which - PTX_CTAID_X];
    case PTX_NCTAID_X:
    case PTX_NCTAID_Y:
    case PTX_NCTAID_Z: return l->grid[which - PTX_NCTAID_X];
    case PTX_LANEID: return lane;
    case PTX_WARPID: return warp;
    case PTX_NWARPID: return r->n_warps;
    case PTX_LANEMASK_EQ: return UINT32_C(1) << lane;
    case PTX_LANEMASK_LT: return (UINT32_C(1) << lane) - 1;
    case PTX_LANEMASK_LE: return ((UINT32_C(1) << lane) - 1) | UINT32_C(1) << lane;
    case PTX_LANEMASK_GT: return ~(((UINT32_C(1) << lane) - 1) | UINT32_C(1) << lane);
    case PTX_LANEMASK_GE: return ~((UINT32_C(1) << lane) - 1);
    case PTX_DYNAMIC_SHARED: return l->dynamic_shared;
    case PTX_IN_CLUSTER_X:
    case PTX_IN_CLUSTER_Y:
    case PTX_IN_CLUSTER_Z: return block[which - PTX_IN_CLUSTER_X] % cluster[which - PTX_IN_CLUSTER_X];
    case PTX_IN_CLUSTER: return block[0] % cluster[0] + cluster[0] * (block[1] % cluster[1] + cluster[1] * (block[2] % cluster[2]));
    case PTX_CLUSTER_X:
    case PTX_CLUSTER_Y:
    case PTX_CLUSTER_Z: return block[which - PTX_CLUSTER_X] / cluster[which - PTX_CLUSTER_X];
    case PTX_CLUSTERS_X:
    case PTX_CLUSTERS_Y:
    case PTX_CLUSTERS_Z: return l->grid[which - PTX_CLUSTERS_X] / cluster[which - PTX_CLUSTERS_X];
    case PTX_SPECIALS: return (r->kernel->shared + 15) / 16 * 16;
    default: return 0;
    }
}

/* Warp @warp of a block, at its beginning. */
static void begin_warp(Run *r, Warp *w, const unsigned *block, unsigned warp)
{
    const PtxKernel *k = r->kernel;
    unsigned threads = r->launch->block[0] * r->launch->block[1] * r->launch->block[2], here = threads - warp * LANES;
    w->alive = here >= LANES ? UINT32_MAX : (UINT32_C(1) << here) - 1;
    w->waits = w->is_away = false;
    w->path = (Path){0};
    memset(w->at, 0, sizeof w->at);
    memset(w->registers, 0, (size_t)k->n_registers * LANES * sizeof *w->registers);
    if (r->is_marked)
        memset(w->marks, 0, (size_t)k->n_registers * LANES * sizeof *w->marks);
    for (uint32_t i = 0; i < k->n_constants; i++)
        if (k->constants[i].kind == PTX_SPECIAL)
            for (uint32_t lane = 0; lane < LANES; lane++)
                set_constant(w, i, lane, special_value(r, k->constants[i].value, block, warp, lane) + k->constants[i].more);
}

/* ---- blocks ---- */

static uint64_t blocks_of(const PtxLaunch *l)
{
    return (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
}

/* Whichever is longer, where a trip takes a few hundred cycles and a barrier some. */
static void take_longer(Path *path, const Path *other)
{
    enum { TRIP = 500 };
    if (other->cycles + TRIP * other->trips + other->barriers > path->cycles + TRIP * path->trips + path->barriers)
        *path = *other;
}

static void add_path(Path *to, const Path *more)
{
    to->cycles += more->cycles;
    to->trips += more->trips;
    to->barriers += more->barriers;
}

/* A block's warps take turns where they add to one word. */
static void take_turns(const Run *r, Path *path)
{
    uint32_t most = 0;
    for (size_t i = 0; i < TURNS; i++)
        most = r->turns[i] > most ? r->turns[i] : most;
    path->cycles += (uint64_t)TURN * most;
}

static bool run_block(Run *r, const unsigned *block, bool is_inner)
{
    Path longest = {0}; /* of a warp so far */
    /* The first block of several must leave room for others; one that waits for another never ends. */
    r->limit = r->stamp == 0 && blocks_of(r->launch) > 1 ? r->launch->most / 4 : r->launch->most;
    r->stamp++;
    r->n_keys = 0;
    r->is_inner = is_inner;
    memset(r->turns, 0, sizeof r->turns);
    if (r->shared)
        memset(r->shared, 0, r->shared_bytes);
    if (r->n_kept == 1) {
        for (unsigned i = 0; i < r->n_warps; i++) {
            begin_warp(r, r->warps, block, i);
            do {
                r->warps->waits = false; /* for nobody */
                if (!run_warp(r, r->warps))
                    return false;
            } while (r->warps->alive != 0);
            take_longer(&longest, &r->warps->path);
        }
        take_turns(r, &longest);
        add_path(&r->paths[is_inner], &longest);
        return true;
    }
    for (unsigned i = 0; i < r->n_warps; i++)
        begin_warp(r, &r->warps[i], block, i);
    for (bool lives = true; lives;) {
        lives = false;
        for (unsigned i = 0; i < r->n_warps; i++) {
            if (!run_warp(r, &r->warps[i]))
                return false;
            lives = lives || r->warps[i].alive != 0;
            take_longer(&longest, &r->warps[i].path);
        }
        for (unsigned i = 0; i < r->n_warps; i++)
            if (r->warps[i].waits) {
                r->warps[i].waits = false;
                r->warps[i].path = longest;
            }
    }
    take_turns(r, &longest);
    add_path(&r->paths[is_inner], &longest);
    return true;
}

static void place_of(const PtxLaunch *l, uint64_t which, unsigned *ret)
{
    ret[0] = (unsigned)(which % l->grid[0]);
    ret[1] = (unsigned)(which / l->grid[0] % l->grid[1]);
    ret[2] = (unsigned)(which / l->grid[0] / l->grid[1]);
}

/* Blocks that run: all where they are few; else the corners of the grid, and some within, evenly. */
static bool run_blocks(Run *r, uint64_t *ret_corners, uint64_t *ret_inner)
{
    const PtxLaunch *l = r->launch;
    uint64_t n = blocks_of(l), corners = 0, inner = 0;
    unsigned block[3];
    if (n <= FEW_BLOCKS) {
        for (; corners < n; corners++) {
            place_of(l, corners, block);
            if (!run_block(r, block, false))
                return false;
        }
    } else {
        for (unsigned i = 0; i < CORNERS; i++) {
            bool is_new_one = true, is_last = true;
            for (unsigned axis = 0; axis < 3; axis++) {
                bool last = i >> axis & 1;
                is_new_one = is_new_one && !(last && l->grid[axis] == 1);
                is_last = is_last && (last || l->grid[axis] == 1);
                block[axis] = last ? l->grid[axis] - 1 : 0;
            }
            /* Of those that take long the first and the last say between which addresses all are. */
            is_new_one = is_new_one && (r->steps < l->enough || is_last);
            if (is_new_one && !run_block(r, block, false))
                return false;
            corners += is_new_one;
        }
        for (; inner < INNER && (inner < LEAST_INNER || r->steps < l->enough); inner++) {
            /* The golden section spreads any first few of them evenly. */
            uint64_t part = (inner + 1) * UINT64_C(0x9e3779b97f4a7c15);
            __extension__ typedef unsigned __int128 Wide;
            place_of(l, (uint64_t)((Wide)part * n >> 64), block);
            if (!run_block(r, block, true))
                return false;
        }
    }
    *ret_corners = corners;
    *ret_inner = inner;
    return true;
}

/* ---- what it comes to ---- */

/* Of all blocks: what some came to by themselves, and what others did, that stand for the rest. */
static uint64_t of_all(const Run *r, uint64_t corner, uint64_t inner, uint64_t n_corners, uint64_t n_inner)
{
    if (n_inner == 0)
        return corner;
    return corner + (uint64_t)((double)inner * (double)(blocks_of(r->launch) - n_corners) / (double)n_inner);
}

static int by_place(const void *a, const void *b)
{
    const PtxMove *x = a, *y = b;
    if (x->writes != y->writes)
        return x->writes ? 1 : -1;
    return x->address < y->address ? -1 : x->address > y->address;
}

typedef struct {
    PtxMove move; /* bytes: sectors of all blocks, in bytes */
    uint64_t high;
} Span;

static bool add_span(Span *spans, size_t *n, size_t room, const Site *site, uint64_t bytes, bool writes, uint64_t end)
{
    if (*n == room)
        return false;
    spans[(*n)++] = (Span){{site->low, bytes, writes}, site->spreads && end > site->high ? end : site->high};
    return true;
}

/* Neighbours that overlap are one array. */
static bool gather(Run *r, uint64_t n_corners, uint64_t n_inner, PtxMoves *ret)
{
    size_t n = 0, room = 2 * (size_t)r->kernel->n_sites;
    Span *spans = malloc((room + 1) * sizeof *spans);
    bool ok = spans != NULL;
    for (uint32_t i = 0; ok && i < r->kernel->n_sites; i++) {
        const Site *site = &r->sites[i];
        if (site->low >= site->high)
            continue;
        uint64_t end = r->launch->end(site->low), bytes = SECTOR * of_all(r, site->corner, site->inner, n_corners, n_inner);
        bool both = site->reads && site->writes;
        ok = end > 0 && (!site->reads || add_span(spans, &n, room, site, both ? bytes / 2 : bytes, false, end)) &&
             (!site->writes || add_span(spans, &n, room, site, both ? bytes / 2 : bytes, true, end));
    }
    if (ok)
        qsort(spans, n, sizeof *spans, by_place);
    ret->n = 0;
    ret->fetched = 0;
    for (size_t i = 0; i < n; i++)
        ret->fetched += spans[i].move.writes ? 0 : spans[i].move.bytes;
    for (size_t i = 0, next; ok && i < n; i = next) {
        Span whole = spans[i];
        uint64_t end = r->launch->end(whole.move.address);
        for (next = i + 1; next < n && spans[next].move.writes == whole.move.writes && spans[next].move.address <= whole.high && spans[next].move.address < end;
             next++) {
            whole.high = spans[next].high > whole.high ? spans[next].high : whole.high;
            whole.move.bytes += spans[next].move.bytes;
        }
        uint64_t extent = whole.high - whole.move.address;
        whole.move.bytes = whole.move.bytes < extent ? whole.move.bytes : extent;
        ok = ret->n < PTX_MOVES;
        if (ok && whole.move.bytes > 0)
            ret->moves[ret->n++] = whole.move;
    }
    free(spans);
    return ok;
}

static bool begin(Run *r)
{
    const PtxKernel *k = r->kernel;
    const PtxLaunch *l = r->launch;
    uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
    if (threads == 0 || threads > 1024 || blocks_of(l) == 0 || k->local > MOST_LOCAL)
        return false;
    r->n_warps = (unsigned)((threads + LANES - 1) / LANES);
    r->n_kept = k->reads_shared ? r->n_warps : 1;
    r->shared_bytes = (k->shared + 15) / 16 * 16 + l->dynamic_shared;
    if (k->reads_shared && r->shared_bytes > MOST_SHARED)
        return false;
    r->shared = k->reads_shared ? calloc(1, r->shared_bytes + 1) : NULL;
    r->sites = calloc(k->n_sites + 1u, sizeof *r->sites);
    r->warps = calloc(r->n_kept, sizeof *r->warps);
    r->room = 1024;
    r->keys = calloc(r->room, sizeof *r->keys);
    r->stamps = calloc(r->room, sizeof *r->stamps);
    bool ok = r->sites && r->warps && r->keys && r->stamps && (r->shared || !k->reads_shared);
    for (uint32_t i = 0; ok && i < k->n_sites; i++)
        r->sites[i].low = UINT64_MAX;
    for (unsigned i = 0; ok && i < r->n_kept; i++) {
        Warp *w = &r->warps[i];
        w->registers = calloc((size_t)k->n_registers * LANES + 1, sizeof *w->registers);
        w->marks = calloc((size_t)k->n_registers * LANES + 1, sizeof *w->marks);
        w->constants = calloc((size_t)k->n_constants * LANES + 1, sizeof *w->constants);
        w->loaded = calloc(k->n_again + 1u, sizeof *w->loaded);
        w->local = k->reads_local ? calloc(LANES, k->local + 1) : NULL;
        ok = w->registers && w->marks && w->constants && w->loaded && (w->local || !k->reads_local);
        for (uint32_t c = 0; ok && c < k->n_constants; c++)
            for (uint32_t lane = 0; lane < LANES; lane++)
                if (k->constants[c].kind != PTX_SPECIAL)
                    set_constant(w, c, lane,
                                 (k->constants[c].kind == PTX_VARIABLE ? l->variables[k->constants[c].value] : k->constants[c].value) + k->constants[c].more);
    }
    return ok;
}

static void end(Run *r)
{
    for (unsigned i = 0; r->warps && i < r->n_kept; i++) {
        free(r->warps[i].registers);
        free(r->warps[i].marks);
        free(r->warps[i].constants);
        free(r->warps[i].local);
        free(r->warps[i].loaded);
    }
    free(r->warps);
    free(r->sites);
    free(r->shared);
    free(r->keys);
    free(r->stamps);
    free(r->crowds);
}

bool ptx_moves(const PtxKernel *kernel, const PtxLaunch *launch, PtxMoves *ret)
{
    Run r = {.kernel = kernel, .launch = launch, .is_timed = true};
    uint64_t corners = 0, inner = 0;
    bool ok = begin(&r) && run_blocks(&r, &corners, &inner) && gather(&r, corners, inner, ret);
    ret->multiplied = of_all(&r, r.multiplied[0], r.multiplied[1], corners, inner);
    ret->flops = of_all(&r, r.flops[0], r.flops[1], corners, inner);
    ret->flops_64 = of_all(&r, r.flops_64[0], r.flops_64[1], corners, inner);
    ret->slots = of_all(&r, r.slots[0], r.slots[1], corners, inner);
    ret->slots_64 = of_all(&r, r.slots_64[0], r.slots_64[1], corners, inner);
    ret->functions = of_all(&r, r.functions[0], r.functions[1], corners, inner);
    ret->by_groups = r.by_groups;
    ret->issued = of_all(&r, r.issued[0], r.issued[1], corners, inner);
    double part = r.timed > 0 ? (double)ret->issued / (double)r.timed : 0;
    ret->accesses = (uint64_t)((double)r.accesses * part);
    ret->wavefronts = (uint64_t)((double)r.wavefronts * part);
    ret->fetched += (uint64_t)((double)r.stored * SECTOR * part);
    ret->issued -= (uint64_t)((double)r.joined * part);
    const Path *few = &r.paths[0], *more = &r.paths[1];
    ret->cycles = of_all(&r, few->cycles, more->cycles, corners, inner);
    ret->trips = of_all(&r, few->trips, more->trips, corners, inner);
    ret->barriers = of_all(&r, few->barriers, more->barriers, corners, inner);
    ret->atomics = of_all(&r, r.atomics[0], r.atomics[1], corners, inner) + (uint64_t)((double)r.parts * FLOAT_SECTOR_CLOCKS * part);
    ret->crowded = 0;
    for (size_t i = 0; r.crowds && i < CROWDS; i++) {
        const Crowd *crowd = &r.crowds[i];
        uint64_t clocks = crowd->is_shared ? of_all(&r, crowd->clocks[0], crowd->clocks[1], corners, inner) : crowd->clocks[0] + crowd->clocks[1];
        ret->crowded = clocks > ret->crowded ? clocks : ret->crowded;
    }
    end(&r);
    return ok;
}
