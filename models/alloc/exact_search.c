#include "models/alloc/exact_search.h"

#include "models/alloc/coarsen.h"
#include "sim/base/compare.h"

#include <math.h>

/** More groups than this in one piece of time are left to the heuristic: a search would not end, and its stack grows with them. */
#define MAX_GROUPS 2000
#define MAX_PIECES 4000
#define MAX_TABLE_BITS 20
#define CLOCK_EVERY 256
#define BUDGET UINT64_C(1000) /* steps of a first decision on a form */

typedef int64_t Level; /* an address, in units */

/** A block's size over the sections [begin, end). */
typedef struct {
    uint32_t begin, end;
    Level size;
} Span;

/** A group to place. */
typedef struct {
    uint32_t first_span, n_spans;
    uint32_t first_neighbour, n_neighbours;
    uint32_t begin, end; /* hull of its sections */
    Level size;          /* largest */
    Level alignment;
    uint32_t group;   /* in the problem */
    Level pressure;   /* most bytes live at once during its life */
    double taste;     /* preference of this attempt */
    double weight;    /* learnt from failures */
    uint64_t salt[2]; /* for hashing */
} Block;

/** A block that meets another: where this lies below it, the other starts at least @size higher. */
typedef struct {
    uint32_t block;
    Level size;
    Level back; /**< The other way: where it lies below this one. */
} Neighbour;

typedef struct {
    uint32_t block;
    Level size;
} Entry;

typedef struct {
    uint64_t key[2];
} Failed;

typedef enum { FOUND, NONE, STOPPED } Outcome;

typedef struct {
    gint64 time; /* of the monotonic clock, us */
    const volatile sig_atomic_t *stop;
} Deadline;

static bool is_over(const Deadline *deadline)
{
    return (deadline->stop && *deadline->stop) || g_get_monotonic_time() >= deadline->time;
}

typedef struct {
    Block *blocks;
    uint32_t n_blocks;
    Span *spans;
    Neighbour *neighbours;
    uint32_t *first_entry; /* first_entry[section], and where the last ends */
    Entry *entries;

    /* State. */
    Level height;   /* H */
    Level *low;     /* low[block]: it lies here or higher... */
    Level *high;    /* ...and here or lower */
    Level *floor;   /* floor[section]: lowest low of what is to be placed there */
    Level *missing; /* missing[section]: sizes to be placed */
    bool *placed;
    Level *at; /* result */

    /* Undo: what a frame overwrote. */
    GArray *trail;
    uint32_t *stamp_section, stamp;
    GArray *touched, *work; /* sections to look at again */
    uint32_t *queue;        /* ring of n_blocks + 1: blocks whose bounds changed */
    bool *queued;
    uint32_t queue_head, queue_tail;
    bool queue_skip; /* only empty the queue */

    Failed *table;  /* borrowed; 2^table_bits entries */
    uint64_t epoch; /* of the decision: entries of others do not count */
    unsigned table_bits;
    uint64_t random;
    uint64_t steps, step_limit, attempt_limit;
    Deadline deadline;
    bool stopped;
    enum { BY_FLOOR, BY_SLACK, BY_FAILURES } choice; /* of sections, in this attempt */
    bool learnt;
    double *failures; /* failures[section] */
} Search;

typedef struct {
    Level *where;
    Level old;
} Undo;

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t next_random(Search *search)
{
    search->random += UINT64_C(0x9E3779B97F4A7C15);
    return mix(search->random);
}

static Level align_level(Level value, Level alignment)
{
    if (alignment == 1)
        return value;
    Level rest = value % alignment;
    return rest ? value + (alignment - rest) : value;
}

static void set_level(Search *search, Level *where, Level value)
{
    Undo undo = {where, *where};
    g_array_append_val(search->trail, undo);
    *where = value;
}

static void undo_to(Search *search, guint mark)
{
    while (search->trail->len > mark) {
        Undo *undo = &g_array_index(search->trail, Undo, search->trail->len - 1);
        *undo->where = undo->old;
        g_array_set_size(search->trail, search->trail->len - 1);
    }
}

static void touch_block(Search *search, const Block *block)
{
    for (uint32_t i = block->first_span; i < block->first_span + block->n_spans; i++) {
        for (uint32_t s = search->spans[i].begin; s < search->spans[i].end; s++) {
            if (search->stamp_section[s] != search->stamp) {
                search->stamp_section[s] = search->stamp;
                g_array_append_val(search->touched, s);
            }
        }
    }
}

static void begin_touching(Search *search)
{
    search->stamp++;
    g_array_set_size(search->touched, 0);
}

static void enqueue(Search *search, uint32_t id)
{
    if (search->queued[id])
        return;
    search->queued[id] = true;
    search->queue[search->queue_tail] = id;
    search->queue_tail = search->queue_tail == search->n_blocks ? 0 : search->queue_tail + 1;
}

/** Raises the lower bound of an unplaced block. False where nothing is left between the bounds. */
static bool raise_block(Search *search, uint32_t id, Level low)
{
    if (low <= search->low[id])
        return true;
    low = align_level(low, search->blocks[id].alignment);
    set_level(search, &search->low[id], low);
    touch_block(search, &search->blocks[id]);
    enqueue(search, id);
    return low <= search->high[id];
}

static bool lower_block(Search *search, uint32_t id, Level high)
{
    if (high >= search->high[id])
        return true;
    if (high < 0)
        return false;
    high -= high % search->blocks[id].alignment;
    set_level(search, &search->high[id], high);
    touch_block(search, &search->blocks[id]);
    enqueue(search, id);
    return search->low[id] <= high;
}

/** Of two blocks that meet one is below the other: where the bounds leave one way only, it bounds both. Until nothing changes. */
static bool propagate(Search *search)
{
    bool ok = !search->queue_skip;
    while (search->queue_head != search->queue_tail) {
        uint32_t id = search->queue[search->queue_head];
        search->queue_head = search->queue_head == search->n_blocks ? 0 : search->queue_head + 1;
        search->queued[id] = false;
        if (!ok || search->placed[id])
            continue;
        const Block *block = &search->blocks[id];
        for (uint32_t i = block->first_neighbour; ok && i < block->first_neighbour + block->n_neighbours; i++) {
            const Neighbour *neighbour = &search->neighbours[i];
            uint32_t other = neighbour->block;
            if (search->placed[other])
                continue;
            bool below = search->low[id] + neighbour->size <= search->high[other], above = search->low[other] + neighbour->back <= search->high[id];
            if (below && above)
                continue;
            if (below)
                ok = raise_block(search, other, search->low[id] + neighbour->size) && lower_block(search, id, search->high[other] - neighbour->size);
            else
                ok = above && raise_block(search, id, search->low[other] + neighbour->back) && lower_block(search, other, search->high[id] - neighbour->back);
        }
    }
    return ok;
}

#define MANY 128    /* a section with more blocks gets the sum test only */
#define WORDS 32    /* subset sums up to 64 * WORDS units... */
#define MAX_SUMS 40 /* ...of so many blocks */

/** The unplaced blocks of a section, by falling lower bound. */
typedef struct {
    size_t n;
    uint32_t ids[MANY];
    Level lows[MANY], sizes[MANY], ends[MANY];
} Stack;

/** sums |= sums << by, over @words words. */
static void add_shifted(uint64_t *sums, size_t words, Level by)
{
    size_t whole = (size_t)by / 64, bits = (size_t)by % 64;
    for (size_t w = words; w-- > whole;) {
        uint64_t shifted = sums[w - whole] << bits;
        if (bits && w > whole)
            shifted |= sums[w - whole - 1] >> (64 - bits);
        sums[w] |= shifted;
    }
}

/** The lowest set bit at or above @from, or @limit. */
static Level next_bit(const uint64_t *sums, Level from, Level limit)
{
    for (size_t w = (size_t)from / 64; w * 64 < (size_t)limit; w++) {
        uint64_t word = sums[w];
        if (w == (size_t)from / 64)
            word &= UINT64_MAX << ((size_t)from % 64);
        if (word)
            return MIN((Level)(w * 64) + __builtin_ctzll(word), limit);
    }
    return limit;
}

/** The highest set bit at or below @from; bit 0 is always set. */
static Level last_bit(const uint64_t *sums, Level from)
{
    for (size_t w = (size_t)from / 64;; w--) {
        uint64_t word = sums[w];
        if (w == (size_t)from / 64 && (size_t)from % 64 != 63)
            word &= (UINT64_C(1) << ((size_t)from % 64 + 1)) - 1;
        if (word)
            return (Level)(w * 64) + 63 - __builtin_clzll(word);
    }
}

/** Where a section has little slack, what lies below a block is a sum of sizes of others, and at most the slack is wasted: bounds move to such sums. */
static bool check_sums(Search *search, const Stack *stack, Level floor, Level slack)
{
    Level span = search->height - floor;
    size_t words = (size_t)span / 64 + 1;
    for (size_t k = 0; k < stack->n; k++) {
        uint64_t sums[WORDS] = {1};
        for (size_t j = 0; j < stack->n; j++) {
            if (j != k)
                add_shifted(sums, words, stack->sizes[j]);
        }
        Level low = search->low[stack->ids[k]] - floor, high = search->high[stack->ids[k]] - floor;
        if (low > span || high < 0 || high > span)
            continue;
        Level base = MAX(low - slack, 0);
        Level bit = next_bit(sums, base, span + 1);
        if (bit > low && !raise_block(search, stack->ids[k], floor + bit))
            return false;
        bit = last_bit(sums, high);
        if (bit + slack < high && !lower_block(search, stack->ids[k], floor + bit + slack))
            return false;
    }
    return true;
}

/** Recounts a section. False where blocks that must end below some address do not fit above their lower bounds. */
static bool check_section(Search *search, uint32_t s)
{
    Stack stack;
    stack.n = 0;
    Level floor = INT64_MAX, smallest = INT64_MAX;
    bool few = search->first_entry[s + 1] - search->first_entry[s] <= MANY;
    for (uint32_t e = search->first_entry[s]; e < search->first_entry[s + 1]; e++) {
        const Entry *entry = &search->entries[e];
        if (search->placed[entry->block])
            continue;
        Level low = search->low[entry->block];
        floor = MIN(floor, low);
        smallest = MIN(smallest, entry->size);
        if (few) { /* insertion by falling bound */
            size_t j = stack.n++;
            for (; j > 0 && stack.lows[j - 1] < low; j--) {
                stack.lows[j] = stack.lows[j - 1];
                stack.sizes[j] = stack.sizes[j - 1];
                stack.ends[j] = stack.ends[j - 1];
                stack.ids[j] = stack.ids[j - 1];
            }
            stack.lows[j] = low;
            stack.sizes[j] = entry->size;
            stack.ends[j] = search->high[entry->block] + entry->size;
            stack.ids[j] = entry->block;
        }
    }
    if (floor != search->floor[s])
        set_level(search, &search->floor[s], floor);
    if (floor == INT64_MAX)
        return true;
    Level slack = search->height - floor - search->missing[s];
    if (slack < 0)
        return false;
    Level sum = 0;
    for (size_t j = 0; j < stack.n; j++) {
        sum += stack.sizes[j];
        if (stack.lows[j] + sum > search->height)
            return false;
    }
    for (size_t k = 0; k < stack.n; k++) {
        Level end = stack.ends[k];
        if (end >= search->height)
            continue;
        sum = 0;
        for (size_t j = 0; j < stack.n; j++) {
            if (stack.ends[j] > end)
                continue;
            sum += stack.sizes[j];
            if (stack.lows[j] + sum > end)
                return false;
        }
    }
    if (stack.n > 1 && few && stack.n <= MAX_SUMS && slack < smallest && search->height - floor < 64 * WORDS)
        return check_sums(search, &stack, floor, slack);
    return true;
}

/** Draws every conclusion from what changed; empties the queue in any case. */
static bool settle(Search *search, bool ok)
{
    do {
        search->queue_skip = !ok;
        ok = propagate(search) && ok;
        search->queue_skip = false;
        if (!ok)
            return false;
        GArray *work = search->touched;
        search->touched = search->work;
        search->work = work;
        begin_touching(search);
        for (guint i = 0; ok && i < work->len; i++) {
            uint32_t section = g_array_index(work, uint32_t, i);
            ok = check_section(search, section);
            if (!ok)
                search->failures[section] += 1;
        }
    } while (search->queue_head != search->queue_tail || (ok && search->touched->len > 0));
    return ok;
}

/** Puts a block at its bound; everything else in its sections is above. */
static bool place_block(Search *search, uint32_t id)
{
    Block *block = &search->blocks[id];
    Level at = search->low[id];
    begin_touching(search);
    search->placed[id] = true;
    search->at[id] = at;
    for (uint32_t i = block->first_span; i < block->first_span + block->n_spans; i++) {
        for (uint32_t s = search->spans[i].begin; s < search->spans[i].end; s++)
            search->missing[s] -= search->spans[i].size;
    }
    touch_block(search, block);
    bool ok = true;
    for (uint32_t i = block->first_neighbour; ok && i < block->first_neighbour + block->n_neighbours; i++) {
        const Neighbour *neighbour = &search->neighbours[i];
        if (!search->placed[neighbour->block])
            ok = raise_block(search, neighbour->block, at + neighbour->size);
    }
    return settle(search, ok);
}

static void unplace_block(Search *search, uint32_t id)
{
    Block *block = &search->blocks[id];
    search->placed[id] = false;
    for (uint32_t i = block->first_span; i < block->first_span + block->n_spans; i++) {
        for (uint32_t s = search->spans[i].begin; s < search->spans[i].end; s++)
            search->missing[s] += search->spans[i].size;
    }
}

/** The block is not at its bound: it rests on something yet to be placed. */
static bool exclude_block(Search *search, uint32_t id)
{
    Block *block = &search->blocks[id];
    Level low = INT64_MAX;
    for (uint32_t i = block->first_neighbour; i < block->first_neighbour + block->n_neighbours; i++) {
        const Neighbour *neighbour = &search->neighbours[i];
        if (search->placed[neighbour->block])
            continue;
        Level top = search->low[neighbour->block] + neighbour->back;
        low = MIN(low, align_level(top, block->alignment));
    }
    if (low == INT64_MAX)
        return false;
    begin_touching(search);
    return settle(search, raise_block(search, id, low));
}

static void hash_state(const Search *search, const uint32_t *blocks, size_t n, uint64_t ret[2])
{
    uint64_t a = mix(search->epoch), b = search->epoch;
    for (size_t i = 0; i < n; i++) {
        const Block *block = &search->blocks[blocks[i]];
        uint64_t low = (uint64_t)search->low[blocks[i]];
        a += mix(block->salt[0] + low * UINT64_C(0x9E3779B97F4A7C15));
        b += mix(block->salt[1] ^ (low * UINT64_C(0xD6E8FEB86659FD93)));
    }
    ret[0] = a;
    ret[1] = b | 1; /* never the empty entry */
}

static bool out_of_limits(Search *search)
{
    if (search->stopped)
        return true;
    search->steps++;
    if (search->steps >= search->attempt_limit || (search->step_limit && search->steps >= search->step_limit))
        search->stopped = true;
    else if (search->steps % CLOCK_EVERY == 0 && is_over(&search->deadline))
        search->stopped = true;
    return search->stopped;
}

static double preference(const Search *search, uint32_t id)
{
    return search->blocks[id].taste * (search->learnt ? search->blocks[id].weight : 1);
}

static Outcome solve(Search *search, const uint32_t *blocks, size_t n);

/** Solves the blocks left after a placement, cut into parts that no unplaced block connects; the fullest part first. */
static Outcome solve_parts(Search *search, const uint32_t *blocks, size_t n)
{
    /* blocks are in order of their hull's begin, so parts are runs. */
    g_autofree uint32_t *left = g_new(uint32_t, n + 1);
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        if (!search->placed[blocks[i]])
            left[m++] = blocks[i];
    }
    if (m == 0)
        return FOUND;
    typedef struct {
        size_t from, to;
        Level slack;
        bool done;
    } Part;
    g_autofree Part *parts = g_new(Part, m);
    size_t n_parts = 0;
    uint32_t reach = 0;
    for (size_t i = 0; i < m; i++) {
        const Block *block = &search->blocks[left[i]];
        if (i == 0 || block->begin >= reach) {
            if (n_parts > 0)
                parts[n_parts - 1].to = i;
            parts[n_parts++] = (Part){i, m, INT64_MAX, false};
        }
        reach = MAX(reach, block->end);
        Part *part = &parts[n_parts - 1];
        for (uint32_t s = block->begin; s < block->end; s++) {
            if (search->floor[s] != INT64_MAX)
                part->slack = MIN(part->slack, search->height - search->floor[s] - search->missing[s]);
        }
    }
    if (n_parts == 1)
        return solve(search, left, m);
    for (size_t turn = 0; turn < n_parts; turn++) {
        size_t best = SIZE_MAX;
        for (size_t p = 0; p < n_parts; p++) {
            if (!parts[p].done && (best == SIZE_MAX || parts[p].slack < parts[best].slack))
                best = p;
        }
        parts[best].done = true;
        Outcome outcome = solve(search, left + parts[best].from, parts[best].to - parts[best].from);
        if (outcome != FOUND)
            return outcome;
    }
    return FOUND;
}

/** A block to decide on: in the section with the least slack one that can lie on its floor; or, if something may come below that, the lowest of those,
 * and so on down. What is found has nothing to come below it. */
static uint32_t choose(const Search *search, const uint32_t *blocks, size_t n)
{
    uint32_t reach = 0, from = search->blocks[blocks[0]].begin;
    for (size_t i = 0; i < n; i++)
        reach = MAX(reach, search->blocks[blocks[i]].end);
    uint32_t section = UINT32_MAX;
    double least = INFINITY;
    for (uint32_t s = from; s < reach; s++) {
        if (search->floor[s] == INT64_MAX)
            continue;
        Level slack = search->height - search->missing[s] - search->floor[s];
        double value;
        switch (search->choice) {
        case BY_FLOOR: value = (double)search->floor[s] - (double)search->missing[s] / ((double)search->height + 1); break;
        case BY_SLACK: value = (double)slack + (double)search->floor[s] / ((double)search->height + 1); break;
        case BY_FAILURES:
        default: value = (double)(slack + 1) / (search->failures[s] + 1); break;
        }
        if (value < least) {
            least = value;
            section = s;
        }
    }
    uint32_t chosen = UINT32_MAX;
    double best = -1;
    for (uint32_t e = search->first_entry[section]; e < search->first_entry[section + 1]; e++) {
        uint32_t id = search->entries[e].block;
        if (search->placed[id] || search->low[id] != search->floor[section])
            continue;
        double value = preference(search, id);
        if (value > best) {
            best = value;
            chosen = id;
        }
    }
    for (bool clean = false; !clean;) {
        const Block *block = &search->blocks[chosen];
        Level low = search->low[chosen];
        uint32_t below = chosen;
        clean = true;
        for (uint32_t i = block->first_neighbour; i < block->first_neighbour + block->n_neighbours; i++) {
            uint32_t other = search->neighbours[i].block;
            if (search->placed[other] || search->low[other] + search->neighbours[i].back > low)
                continue;
            if (clean || search->low[other] < search->low[below] ||
                (search->low[other] == search->low[below] && preference(search, other) > preference(search, below)))
                below = other;
            clean = false;
        }
        chosen = below;
    }
    return chosen;
}

/** Finds places for @blocks[@n], all unplaced and connected in time. On FOUND they stay placed. */
static Outcome solve(Search *search, const uint32_t *blocks, size_t n)
{
    guint mark = search->trail->len;
    uint64_t first_key[2] = {0, 0};
    Outcome outcome = NONE;
    for (bool first = true;; first = false) {
        if (out_of_limits(search)) {
            outcome = STOPPED;
            break;
        }
        uint64_t key[2];
        hash_state(search, blocks, n, key);
        const Failed *seen = &search->table[key[0] & ((1u << search->table_bits) - 1)];
        if (seen->key[0] == key[0] && seen->key[1] == key[1])
            break;
        if (first) {
            first_key[0] = key[0];
            first_key[1] = key[1];
        }
        uint32_t chosen = choose(search, blocks, n);
        guint inner = search->trail->len;
        bool ok = place_block(search, chosen);
        Outcome below = ok ? solve_parts(search, blocks, n) : NONE;
        if (below == FOUND)
            return FOUND;
        undo_to(search, inner);
        unplace_block(search, chosen);
        for (size_t i = 0; i < n; i++) /* parts that were solved before another failed */
            if (search->placed[blocks[i]])
                unplace_block(search, blocks[i]);
        if (below == STOPPED) {
            outcome = STOPPED;
            break;
        }
        search->blocks[chosen].weight = MIN(search->blocks[chosen].weight * (1 + 1.0 / 64), 1e100);
        if (!exclude_block(search, chosen))
            break;
    }
    undo_to(search, mark);
    if (outcome == NONE && first_key[1] != 0)
        search->table[first_key[0] & ((1u << search->table_bits) - 1)] = (Failed){{first_key[0], first_key[1]}};
    return outcome;
}

/* ---- Set-up ---- */

static int compare_blocks(const void *a, const void *b)
{
    const Block *left = a, *right = b;
    if (left->begin != right->begin)
        return left->begin < right->begin ? -1 : 1;
    return (left->group > right->group) - (left->group < right->group);
}

/** The unit of addresses: every size and every alignment that matters is a multiple. */
static uint64_t find_unit(const EchPlanProblem *problem, const GArray *pieces)
{
    uint64_t unit = 0;
    for (guint i = 0; i < pieces->len; i++)
        unit = ech_gcd(unit, g_array_index(pieces, EchPlanPiece, i).bytes);
    for (uint64_t before = 0; before != unit;) { /* a smaller unit may be no multiple of an alignment that the one before was */
        before = unit;
        for (guint i = 0; i < pieces->len; i++) {
            uint32_t group = g_array_index(pieces, EchPlanPiece, i).group;
            uint64_t alignment = problem->items[problem->member[problem->first[group]]].alignment;
            if (unit % alignment != 0)
                unit = ech_gcd(unit, alignment);
        }
    }
    g_assert(unit > 0); /* there are pieces, none of them empty */
    return unit;
}

/** Sections are the sets of pieces alive at a begin that no other begin's set contains: a begin followed by an end. */
static uint32_t make_sections(const GArray *pieces, EchPlanPiece *ret_slots)
{
    size_t n = pieces->len;
    g_autofree int64_t *times = g_new(int64_t, n + 1);
    for (size_t i = 0; i < n; i++)
        times[i] = g_array_index(pieces, EchPlanPiece, i).begin;
    qsort(times, n, sizeof *times, ech_compare_i64);
    uint32_t n_slots = 0;
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || times[i] != times[i - 1])
            times[n_slots++] = times[i];
    }
    g_autofree uint32_t *number = g_new0(uint32_t, (size_t)n_slots + 1); /* number[slot]: sections before it */
    for (size_t i = 0; i < n; i++) {
        const EchPlanPiece *piece = &g_array_index(pieces, EchPlanPiece, i);
        uint32_t end = ech_plan_slot(times, n_slots, piece->end);
        number[end] = 1; /* something ends between slots end - 1 and end */
    }
    number[n_slots] = 1;
    uint32_t n_sections = 0;
    for (uint32_t s = 0; s <= n_slots; s++) {
        n_sections += number[s];
        number[s] = n_sections;
    }
    /* number[s] now counts cuts up to s; slot s lies in section number[s] (cuts before or at s). */
    for (size_t i = 0; i < n; i++) {
        const EchPlanPiece *piece = &g_array_index(pieces, EchPlanPiece, i);
        ret_slots[i] = *piece;
        ret_slots[i].begin = number[ech_plan_slot(times, n_slots, piece->begin)];
        ret_slots[i].end = number[ech_plan_slot(times, n_slots, piece->end) - 1] + 1;
    }
    return n_sections;
}

static void search_clear(Search *search)
{
    g_free(search->blocks);
    g_free(search->spans);
    g_free(search->neighbours);
    g_free(search->first_entry);
    g_free(search->entries);
    g_free(search->low);
    g_free(search->high);
    g_free(search->queue);
    g_free(search->queued);
    g_free(search->floor);
    g_free(search->failures);
    g_free(search->missing);
    g_free(search->placed);
    g_free(search->at);
    g_free(search->stamp_section);
    g_array_free(search->trail, TRUE);
    g_array_free(search->touched, TRUE);
    g_array_free(search->work, TRUE);
}

static void make_neighbours(Search *search)
{
    uint32_t n = search->n_blocks;
    g_autofree Level *size = g_new0(Level, n), *back = g_new0(Level, n);
    g_autofree uint32_t *met = g_new(uint32_t, n);
    GArray *all = g_array_new(FALSE, FALSE, sizeof(Neighbour));
    for (uint32_t b = 0; b < n; b++) {
        Block *block = &search->blocks[b];
        block->first_neighbour = all->len;
        uint32_t n_met = 0;
        for (uint32_t i = block->first_span; i < block->first_span + block->n_spans; i++) {
            for (uint32_t s = search->spans[i].begin; s < search->spans[i].end; s++) {
                for (uint32_t e = search->first_entry[s]; e < search->first_entry[s + 1]; e++) {
                    uint32_t other = search->entries[e].block;
                    if (other == b)
                        continue;
                    if (size[other] == 0)
                        met[n_met++] = other;
                    size[other] = MAX(size[other], search->spans[i].size);
                    back[other] = MAX(back[other], search->entries[e].size);
                }
            }
        }
        for (uint32_t i = 0; i < n_met; i++) {
            Neighbour neighbour = {met[i], size[met[i]], back[met[i]]};
            g_array_append_val(all, neighbour);
            size[met[i]] = back[met[i]] = 0;
        }
        block->n_neighbours = all->len - block->first_neighbour;
    }
    search->neighbours = (Neighbour *)(void *)g_array_free(all, FALSE);
}

/** Builds the search over pieces of one part of time; their begin and end are sections. alignments[group] */
static void search_init(Search *search, const EchBytes *alignments, const EchPlanPiece *pieces, size_t n, uint32_t first_section, uint32_t n_sections,
                        uint64_t unit)
{
    *search = (Search){.random = 1};
    search->spans = g_new(Span, n);
    search->blocks = g_new0(Block, n);
    /* Pieces of one group are neighbours in the array. */
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || pieces[i].group != pieces[i - 1].group) {
            Block *block = &search->blocks[search->n_blocks++];
            uint64_t alignment = alignments[pieces[i].group];
            block->first_span = (uint32_t)i;
            block->begin = (uint32_t)pieces[i].begin - first_section;
            block->group = pieces[i].group;
            block->alignment = unit % alignment == 0 ? 1 : (Level)(alignment / ech_gcd(alignment, unit));
            block->weight = 1;
        }
        Block *block = &search->blocks[search->n_blocks - 1];
        search->spans[i] = (Span){(uint32_t)pieces[i].begin - first_section, (uint32_t)pieces[i].end - first_section, (Level)(pieces[i].bytes / unit)};
        block->n_spans++;
        block->end = search->spans[i].end;
        block->size = MAX(block->size, search->spans[i].size);
    }
    qsort(search->blocks, search->n_blocks, sizeof *search->blocks, compare_blocks);
    search->low = g_new0(Level, search->n_blocks);
    search->high = g_new0(Level, search->n_blocks);
    search->queue = g_new0(uint32_t, (size_t)search->n_blocks + 1);
    search->queued = g_new0(bool, search->n_blocks);
    search->floor = g_new0(Level, n_sections);
    search->failures = g_new0(double, n_sections);
    search->missing = g_new0(Level, n_sections);
    search->placed = g_new0(bool, search->n_blocks);
    search->at = g_new0(Level, search->n_blocks);
    search->stamp_section = g_new0(uint32_t, n_sections);
    search->table_bits = search->n_blocks < 24 ? 12 : search->n_blocks < 72 ? 16 : MAX_TABLE_BITS;
    search->trail = g_array_new(FALSE, FALSE, sizeof(Undo));
    search->touched = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    search->work = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    search->first_entry = g_new0(uint32_t, (size_t)n_sections + 1);
    for (size_t i = 0; i < n; i++) {
        for (uint32_t s = search->spans[i].begin; s < search->spans[i].end; s++)
            search->first_entry[s + 1]++;
    }
    for (uint32_t s = 0; s < n_sections; s++)
        search->first_entry[s + 1] += search->first_entry[s];
    search->entries = g_new(Entry, (size_t)search->first_entry[n_sections] + 1);
    g_autofree uint32_t *next = g_memdup2(search->first_entry, ((size_t)n_sections + 1) * sizeof *next);
    for (uint32_t b = 0; b < search->n_blocks; b++) {
        Block *block = &search->blocks[b];
        block->salt[0] = mix((uint64_t)b * 2 + 1);
        block->salt[1] = mix((uint64_t)b * 2 + 2);
        for (uint32_t i = block->first_span; i < block->first_span + block->n_spans; i++) {
            for (uint32_t s = search->spans[i].begin; s < search->spans[i].end; s++) {
                search->entries[next[s]++] = (Entry){b, search->spans[i].size};
                search->missing[s] += search->spans[i].size;
            }
        }
    }
    for (uint32_t b = 0; b < search->n_blocks; b++) {
        Block *block = &search->blocks[b];
        for (uint32_t i = block->first_span; i < block->first_span + block->n_spans; i++) {
            for (uint32_t s = search->spans[i].begin; s < search->spans[i].end; s++)
                block->pressure = MAX(block->pressure, search->missing[s]);
        }
    }
    make_neighbours(search);
}

static void reset(Search *search)
{
    undo_to(search, 0);
    for (uint32_t b = 0; b < search->n_blocks; b++) {
        if (search->placed[b])
            unplace_block(search, b);
    }
}

#define N_RULES 15

/** 1 1 2 1 1 2 4 ...: how long attempts should be if nothing is known of how long they need. */
static uint64_t luby(uint64_t i)
{
    uint64_t k = 1;
    while (((UINT64_C(1) << k) - 1) < i)
        k++;
    return ((UINT64_C(1) << k) - 1) == i ? UINT64_C(1) << (k - 1) : luby(i - (UINT64_C(1) << (k - 1)) + 1);
}

/** Preferences of an attempt. Searches of this kind find a plan almost without a wrong turn or not for ages, so that many short attempts that differ
 * do better than a long one. */
static void start_attempt(Search *search, unsigned turn)
{
    static const double noises[] = {0.1, 0.3, 1};
    unsigned round = turn / N_RULES, rule = turn % N_RULES;
    double noise = round == 0 ? 0 : noises[round % G_N_ELEMENTS(noises)];
    search->choice = rule % 3 == 0 ? BY_FLOOR : rule % 3 == 1 ? BY_SLACK : BY_FAILURES;
    search->learnt = round % 2 == 1;
    for (uint32_t b = 0; b < search->n_blocks; b++) {
        Block *block = &search->blocks[b];
        double size = (double)block->size, life = (double)(block->end - block->begin), pressure = (double)block->pressure;
        switch (rule / 3) {
        case 0: block->taste = life; break;
        case 1: block->taste = size * life; break;
        case 2: block->taste = size; break;
        case 3: block->taste = pressure * pressure * pressure * pressure * life; break;
        default: block->taste = pressure * pressure * pressure * pressure * size * life; break;
        }
        if (noise > 0)
            block->taste *= exp(noise * (2 * (double)(next_random(search) >> 11) / (double)(UINT64_C(1) << 53) - 1));
    }
}

/** One decision: is there a plan of height @height? Restarts with other preferences and growing limits until decided or stopped. */
static Outcome decide(Search *search, Level height, uint64_t budget)
{
    search->height = height;
    g_autofree uint32_t *all = g_new(uint32_t, search->n_blocks);
    for (uint32_t b = 0; b < search->n_blocks; b++)
        all[b] = b;
    begin_touching(search);
    for (uint32_t b = 0; b < search->n_blocks; b++) {
        search->low[b] = 0;
        search->high[b] = height - search->blocks[b].size;
        if (search->high[b] < 0)
            return NONE;
        search->high[b] -= search->high[b] % search->blocks[b].alignment;
        touch_block(search, &search->blocks[b]);
    }
    for (uint32_t b = 0; b < search->n_blocks; b++)
        enqueue(search, b);
    if (!settle(search, true))
        return NONE;
    g_array_set_size(search->trail, 0);
    uint64_t end = budget > UINT64_MAX - search->steps ? UINT64_MAX : search->steps + budget;
    for (unsigned turn = 0;; turn++) {
        start_attempt(search, turn);
        search->stopped = false;
        search->attempt_limit = MIN(end, search->steps + (300 + 4 * (uint64_t)search->n_blocks) * luby(turn / N_RULES + 1));
        Outcome outcome = solve_parts(search, all, search->n_blocks);
        if (outcome != STOPPED)
            return outcome;
        reset(search);
        if (search->steps >= end || (search->step_limit && search->steps >= search->step_limit) || is_over(&search->deadline))
            return STOPPED;
    }
}

/** A part's problem, or a coarser one whose plans are plans of it. */
typedef struct {
    Search *search;
    EchBarPlace *places; /* places[n_blocks of the part]: where its groups, in order of their pieces, lie; NULL: in themselves */
} Form;

#define MAX_FORMS 9

/** A part of time that shares nothing with the others. */
typedef struct {
    uint32_t first, n; /* pieces */
    uint32_t n_blocks;
    Form forms[MAX_FORMS]; /* the part itself, then ever coarser; made when they are needed */
    uint32_t n_forms;
    Level best;     /* height of the plan known */
    Level bound;    /* most units live at once */
    Level given_up; /* in this round no plan of this height was found */
    unsigned round;
} Part;

typedef struct {
    EchPlanPiece piece;
    uint32_t part;
} Placed;

static int compare_placed(const void *a, const void *b)
{
    const Placed *left = a, *right = b;
    if (left->part != right->part)
        return left->part < right->part ? -1 : 1;
    if (left->piece.group != right->piece.group)
        return left->piece.group < right->piece.group ? -1 : 1;
    return (left->piece.begin > right->piece.begin) - (left->piece.begin < right->piece.begin);
}

/** part[section]: number of the part a section belongs to; cuts are where no group's hull crosses. Returns the number of parts. */
static uint32_t find_parts(const EchPlanPiece *pieces, size_t n, uint32_t n_sections, uint32_t *part)
{
    g_autofree int64_t *change = g_new0(int64_t, (size_t)n_sections + 1);
    for (size_t i = 0; i < n;) {
        size_t to = i;
        while (to + 1 < n && pieces[to + 1].group == pieces[i].group)
            to++;
        change[pieces[i].begin]++;
        change[pieces[to].end - 1]--; /* joins each section to the next but for the last */
        i = to + 1;
    }
    int64_t joined = 0;
    uint32_t count = 0;
    for (uint32_t s = 0; s < n_sections; s++) {
        part[s] = count;
        joined += change[s];
        if (joined == 0)
            count++;
    }
    return count;
}

/** The height to try next. The bound first: where it can be reached, that is the end. Then halfway between what was given up and what is known,
 * until the two meet; then again with more patience. @refuted: bounds in a row that could not be reached; after a few, larger and larger steps up are taken. */
static Level next_height(Part *part, Level bound, Level capacity, unsigned refuted)
{
    Level half = (part->best - bound) / 2, step = ((Level)1 << MIN(refuted, 60u)) >> 3;
    if (capacity >= bound && capacity < part->best)
        return capacity;
    if (part->given_up >= part->best - 1) {
        part->given_up = 0;
        part->round++;
    }
    return part->given_up < bound ? bound + MIN(step, half) : part->given_up + (part->best - part->given_up) / 2;
}

/** Takes the plan that a form's search has found. */
static void keep(Part *part, const Form *form, const EchPlanPiece *pieces, uint64_t unit, const EchPlanProblem *problem, EchPlanSolution *solution)
{
    const Search *search = form->search;
    uint32_t n_groups = 0;
    for (uint32_t b = 0; b < search->n_blocks; b++)
        n_groups = MAX(n_groups, search->blocks[b].group + 1);
    g_autofree Level *at = g_new0(Level, n_groups);
    for (uint32_t b = 0; b < search->n_blocks; b++)
        at[search->blocks[b].group] = search->at[b];
    part->best = 0;
    uint32_t n = 0;
    for (uint32_t i = part->first; i < part->first + part->n; i++) {
        uint32_t group = pieces[i].group;
        bool first = i == part->first || group != pieces[i - 1].group;
        n += first;
        const EchBarPlace *place = form->places ? &form->places[n - 1] : NULL;
        Level offset = place ? at[place->bar] + (Level)(place->above / unit) : at[group];
        part->best = MAX(part->best, offset + (Level)(pieces[i].bytes / unit));
        for (uint32_t m = problem->first[group]; first && m < problem->first[group + 1]; m++)
            solution->offsets[problem->member[m]] = (uint64_t)offset * unit;
    }
}

/** Fills @parts with the pieces, bounds and known heights; pieces end up in order of parts. Returns how many. */
static uint32_t make_parts(const EchPlanProblem *problem, const EchPlanSolution *solution, EchPlanPiece *pieces, size_t n, uint32_t n_sections, uint64_t unit,
                           Part **ret_parts)
{
    g_autofree uint32_t *part_of = g_new0(uint32_t, (size_t)n_sections + 1);
    g_autofree Level *live = g_new0(Level, (size_t)n_sections + 1);
    uint32_t n_parts = find_parts(pieces, n, n_sections, part_of);
    g_autofree Placed *placed = g_new(Placed, n);
    for (size_t i = 0; i < n; i++) {
        placed[i] = (Placed){pieces[i], part_of[pieces[i].begin]};
        live[pieces[i].begin] += (Level)(pieces[i].bytes / unit);
        live[pieces[i].end] -= (Level)(pieces[i].bytes / unit);
    }
    qsort(placed, n, sizeof *placed, compare_placed);
    Part *parts = g_new0(Part, n_parts);
    for (size_t i = 0; i < n; i++) {
        pieces[i] = placed[i].piece;
        Part *part = &parts[placed[i].part];
        if (part->n++ == 0)
            part->first = (uint32_t)i;
        if (part->n == 1 || pieces[i].group != pieces[i - 1].group)
            part->n_blocks++;
        uint64_t offset = solution->offsets[problem->member[problem->first[pieces[i].group]]];
        part->best = MAX(part->best, (Level)((offset + pieces[i].bytes + unit - 1) / unit));
    }
    for (uint32_t s = 0; s < n_sections; s++) {
        if (s > 0)
            live[s] += live[s - 1];
        parts[part_of[s]].bound = MAX(parts[part_of[s]].bound, live[s]);
    }
    *ret_parts = parts;
    return n_parts;
}

static Search *make_search(const EchBytes *alignments, const EchPlanPiece *pieces, size_t n, uint64_t unit, const Deadline *deadline)
{
    uint32_t first = UINT32_MAX, end = 0;
    for (size_t i = 0; i < n; i++) {
        first = MIN(first, (uint32_t)pieces[i].begin);
        end = MAX(end, (uint32_t)pieces[i].end);
    }
    Search *search = g_new0(Search, 1);
    search_init(search, alignments, pieces, n, first, end - first, unit);
    search->deadline = *deadline;
    return search;
}

/** One bar a group, in order of the pieces; a group with several sizes keeps its shape. */
static void make_bars(const Part *part, const EchPlanPiece *pieces, const EchBytes *alignments, EchBar *ret_bars, EchBarPlace *ret_places)
{
    uint32_t n = 0;
    for (uint32_t i = part->first; i < part->first + part->n; i++) {
        const EchPlanPiece *piece = &pieces[i];
        if (i > part->first && piece->group == piece[-1].group) {
            ret_bars[n - 1].fixed = true;
            ret_bars[n - 1].end = piece->end;
            continue;
        }
        ret_places[n] = (EchBarPlace){n, 0};
        ret_bars[n++] = (EchBar){piece->begin, piece->end, piece->bytes, alignments[piece->group], false};
    }
}

/** The search over bars; those that are fixed have the pieces of their one group. */
static Search *make_coarse_search(const Part *part, const EchPlanPiece *pieces, const EchBar *bars, size_t n_bars, const EchBarPlace *places, uint64_t unit,
                                  const Deadline *deadline)
{
    g_autoptr(GArray) coarse = g_array_new(FALSE, FALSE, sizeof(EchPlanPiece));
    g_autofree EchBytes *alignments = g_new(EchBytes, n_bars + 1);
    g_autofree uint32_t *first_piece = g_new0(uint32_t, n_bars + 1);
    uint32_t n = 0;
    for (uint32_t i = part->first; i < part->first + part->n; i++) {
        if (i == part->first || pieces[i].group != pieces[i - 1].group)
            first_piece[places[n++].bar] = i;
    }
    for (uint32_t b = 0; b < n_bars; b++) {
        alignments[b] = bars[b].alignment;
        EchPlanPiece piece = {bars[b].begin, bars[b].end, bars[b].bytes, b};
        if (!bars[b].fixed)
            g_array_append_val(coarse, piece);
        uint32_t group = pieces[first_piece[b]].group;
        for (uint32_t i = first_piece[b]; bars[b].fixed && i < part->first + part->n && pieces[i].group == group; i++) {
            piece = pieces[i];
            piece.group = b;
            g_array_append_val(coarse, piece);
        }
    }
    g_autofree EchPlanPiece *slots = g_new(EchPlanPiece, coarse->len);
    make_sections(coarse, slots);
    return make_search(alignments, slots, coarse->len, unit, deadline);
}

static void make_forms(Part *part, const EchBytes *alignments, const EchPlanPiece *pieces, uint64_t unit, const Deadline *deadline)
{
    if (part->n_blocks <= MAX_GROUPS && part->n <= MAX_PIECES)
        part->forms[0].search = make_search(alignments, pieces + part->first, part->n, unit, deadline);
    part->n_forms = 1;
    size_t n = part->n_blocks;
    g_autofree EchBar *bars = g_new(EchBar, n), *next = g_new(EchBar, n);
    g_autofree EchBarPlace *places = g_new(EchBarPlace, n), *step = g_new(EchBarPlace, n);
    make_bars(part, pieces, alignments, bars, places);
    for (unsigned pass = 0, idle = 0; idle < 2 && part->n_forms < MAX_FORMS; pass++) {
        size_t fewer = pass % 2 == 0 ? ech_coarsen_stack(bars, n, next, step) : ech_coarsen_chain(bars, n, next, step);
        idle = fewer < n ? 0 : idle + 1;
        if (idle)
            continue;
        EchBar *old = bars;
        bars = next;
        next = old;
        n = fewer;
        for (uint32_t g = 0; g < part->n_blocks; g++)
            places[g] = (EchBarPlace){step[places[g].bar].bar, step[places[g].bar].above + places[g].above};
        if (n > MAX_GROUPS || part->n > MAX_PIECES * 16)
            continue;
        Form *form = &part->forms[part->n_forms++];
        form->places = g_memdup2(places, part->n_blocks * sizeof *places);
        form->search = make_coarse_search(part, pieces, bars, n, places, unit, deadline);
    }
}

/** Looks for a plan of @height: the coarsest form first, the part itself last, which alone can tell that there is none. */
static Outcome decide_part(Part *part, Level height, uint64_t step_limit, Failed *table, uint64_t *epoch, uint64_t *steps, const Form **ret_form)
{
    for (uint32_t f = part->n_forms; f-- > 0;) {
        Search *search = part->forms[f].search;
        if (!search)
            continue;
        search->table = table;
        search->epoch = ++*epoch;
        uint64_t before = search->steps;
        search->step_limit = step_limit ? before + (step_limit - MIN(*steps, step_limit)) : 0;
        if (step_limit && *steps >= step_limit)
            return STOPPED;
        Outcome outcome = decide(search, height, BUDGET << MIN(part->round, 40));
        *steps += search->steps - before;
        *ret_form = &part->forms[f];
        if (outcome == FOUND || (outcome == NONE && f == 0))
            return outcome;
        reset(search);
    }
    return STOPPED;
}

void ech_exact_improve(const EchPlanProblem *problem, EchPlanSolution *solution, gint64 deadline_us, uint64_t step_limit)
{
    g_autoptr(GArray) array = ech_plan_pieces(problem);
    if (array->len == 0) {
        solution->proved_optimal = true;
        return;
    }
    const Deadline deadline = {deadline_us, problem->stop};
    uint64_t unit = find_unit(problem, array);
    g_autofree EchPlanPiece *pieces = g_new(EchPlanPiece, array->len);
    uint32_t n_sections = make_sections(array, pieces);
    g_autofree Part *parts = NULL;
    uint32_t n_parts = make_parts(problem, solution, pieces, array->len, n_sections, unit, &parts);
    g_autofree EchBytes *alignments = g_new(EchBytes, problem->n_groups);
    for (size_t g = 0; g < problem->n_groups; g++)
        alignments[g] = problem->items[problem->member[problem->first[g]]].alignment;
    g_autofree Failed *table = NULL;
    Level bound = 0;
    for (uint32_t p = 0; p < n_parts; p++)
        bound = MAX(bound, parts[p].bound);
    Level capacity = problem->capacity ? (Level)(problem->capacity / unit) : 0;
    uint64_t steps = 0, epoch = 0;
    unsigned refuted = 0;
    bool proved = true;
    for (;;) {
        Part *part = &parts[0];
        for (uint32_t p = 1; p < n_parts; p++) {
            if (parts[p].best > part->best)
                part = &parts[p];
        }
        if (part->best <= bound)
            break;
        if (part->n_forms == 0)
            make_forms(part, alignments, pieces, unit, &deadline);
        solution->too_large = part->n_forms == 1 && !part->forms[0].search;
        if (solution->too_large || (step_limit && steps >= step_limit) || is_over(&deadline)) {
            proved = false;
            break;
        }
        if (!table)
            table = g_new0(Failed, (size_t)1 << MAX_TABLE_BITS);
        Level height = next_height(part, bound, capacity, refuted);
        const Form *form = NULL;
        Outcome outcome = decide_part(part, height, step_limit, table, &epoch, &steps, &form);
        if (outcome == FOUND)
            keep(part, form, pieces, unit, problem, solution);
        else if (outcome == NONE)
            bound = MAX(bound, height + 1);
        refuted = outcome == NONE ? refuted + 1 : 0;
        if (outcome != STOPPED)
            reset(form->search);
        else if (height > part->given_up)
            part->given_up = height;
        if (height == capacity && outcome == STOPPED)
            part->round++;
    }
    solution->proved_optimal = proved;
    solution->out_of_time = !proved && !solution->too_large;
    solution->steps += steps;
    for (uint32_t p = 0; p < n_parts; p++) {
        for (uint32_t f = 0; f < parts[p].n_forms; f++) {
            if (parts[p].forms[f].search)
                search_clear(parts[p].forms[f].search);
            g_free(parts[p].forms[f].search);
            g_free(parts[p].forms[f].places);
        }
    }
}
