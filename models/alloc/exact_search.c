#include "models/alloc/exact_search.h"

#include "models/alloc/plan_internal.h"

#include <string.h>

/** More groups than this in one piece of time are left to the heuristic: a search would not end, and its stack grows with them. */
#define MAX_GROUPS 2000
#define TABLE_BITS 20
#define CLOCK_EVERY 256

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
    uint32_t group;      /* in the problem */
    double weight;       /* preference; learnt from failures */
    uint64_t salt[2];    /* for hashing */
} Block;

/** A block that meets another: where this lies below it, the other starts at least @size higher. */
typedef struct {
    uint32_t block;
    Level size;
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
    Block *blocks;
    uint32_t n_blocks;
    Span *spans;
    Neighbour *neighbours;
    uint32_t n_sections;
    uint32_t *first_entry; /* first_entry[n_sections + 1] */
    Entry *entries;
    Level unit; /* bytes of a unit */

    /* State. */
    Level height;   /* H */
    Level *low;     /* low[block]: it lies here or higher */
    Level *floor;   /* floor[section]: lowest low of what is to be placed there */
    Level *missing; /* missing[section]: sizes to be placed */
    uint32_t *crossing; /* crossing[section]: hulls of unplaced blocks that reach from the section before into it */
    bool *placed;
    Level *at;      /* result */

    /* Undo: what a frame overwrote. */
    GArray *trail;
    uint32_t *stamp_section, stamp;
    GArray *touched; /* sections to look at again */

    Failed *table;
    uint64_t random;
    uint64_t steps, step_limit, attempt_limit;
    gint64 deadline;
    bool stopped;
    unsigned rule;
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

/** Raises the bound of an unplaced block. False where it no longer fits below H. */
static bool raise_block(Search *search, uint32_t id, Level low)
{
    Block *block = &search->blocks[id];
    if (low <= search->low[id])
        return true;
    set_level(search, &search->low[id], low);
    touch_block(search, block);
    return low + block->size <= search->height;
}

/** Recounts the touched sections. False where one cannot hold what it misses. */
static bool check_touched(Search *search)
{
    for (guint i = 0; i < search->touched->len; i++) {
        uint32_t s = g_array_index(search->touched, uint32_t, i);
        Level lows[64], sizes[64];
        size_t n = 0;
        Level floor = INT64_MAX;
        bool few = search->first_entry[s + 1] - search->first_entry[s] <= 64;
        for (uint32_t e = search->first_entry[s]; e < search->first_entry[s + 1]; e++) {
            const Entry *entry = &search->entries[e];
            if (search->placed[entry->block])
                continue;
            Level low = search->low[entry->block];
            floor = MIN(floor, low);
            if (few) { /* insertion by falling bound */
                size_t j = n++;
                for (; j > 0 && lows[j - 1] < low; j--) {
                    lows[j] = lows[j - 1];
                    sizes[j] = sizes[j - 1];
                }
                lows[j] = low;
                sizes[j] = entry->size;
            }
        }
        if (floor != search->floor[s])
            set_level(search, &search->floor[s], floor);
        if (floor == INT64_MAX)
            continue;
        if (floor + search->missing[s] > search->height)
            return false;
        Level sum = 0;
        for (size_t j = 0; j < n; j++) {
            sum += sizes[j];
            if (lows[j] + sum > search->height)
                return false;
        }
    }
    return true;
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
    for (uint32_t s = block->begin + 1; s < block->end; s++)
        search->crossing[s]--;
    touch_block(search, block);
    bool ok = true;
    for (uint32_t i = block->first_neighbour; ok && i < block->first_neighbour + block->n_neighbours; i++) {
        const Neighbour *neighbour = &search->neighbours[i];
        if (!search->placed[neighbour->block])
            ok = raise_block(search, neighbour->block, align_level(at + neighbour->size, search->blocks[neighbour->block].alignment));
    }
    return ok && check_touched(search);
}

static void unplace_block(Search *search, uint32_t id)
{
    Block *block = &search->blocks[id];
    search->placed[id] = false;
    for (uint32_t i = block->first_span; i < block->first_span + block->n_spans; i++) {
        for (uint32_t s = search->spans[i].begin; s < search->spans[i].end; s++)
            search->missing[s] += search->spans[i].size;
    }
    for (uint32_t s = block->begin + 1; s < block->end; s++)
        search->crossing[s]++;
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
        /* Where the neighbour lies below, this block starts the neighbour's size above it; sizes in shared sections are found at the other's side. */
        Level top = search->low[neighbour->block];
        const Block *other = &search->blocks[neighbour->block];
        for (uint32_t j = other->first_neighbour; j < other->first_neighbour + other->n_neighbours; j++) {
            if (search->neighbours[j].block == id) {
                top += search->neighbours[j].size;
                break;
            }
        }
        low = MIN(low, align_level(top, block->alignment));
    }
    if (low == INT64_MAX)
        return false;
    begin_touching(search);
    return raise_block(search, id, low) && check_touched(search);
}

static void hash_state(const Search *search, const uint32_t *blocks, size_t n, uint64_t ret[2])
{
    uint64_t a = 0, b = 0;
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
    else if (search->steps % CLOCK_EVERY == 0 && g_get_monotonic_time() >= search->deadline)
        search->stopped = true;
    return search->stopped;
}

static double preference(const Search *search, uint32_t id)
{
    const Block *block = &search->blocks[id];
    double size = (double)block->size, life = (double)(block->end - block->begin);
    switch (search->rule % 4) {
    case 0: return size * life * block->weight;
    case 1: return life * block->weight + size * 1e-9;
    case 2: return size * block->weight;
    default: return block->weight;
    }
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
        for (uint32_t s = block->begin; n > 0 && s < block->end; s++) {
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
        const Failed *seen = &search->table[key[0] & ((1u << TABLE_BITS) - 1)];
        if (seen->key[0] == key[0] && seen->key[1] == key[1])
            break;
        if (first) {
            first_key[0] = key[0];
            first_key[1] = key[1];
        }
        /* The lowest floor, in the section with the least slack. */
        Level lowest = INT64_MAX;
        uint32_t reach = 0, from = search->blocks[blocks[0]].begin;
        for (size_t i = 0; i < n; i++) {
            lowest = MIN(lowest, search->low[blocks[i]]);
            reach = MAX(reach, search->blocks[blocks[i]].end);
        }
        uint32_t section = UINT32_MAX;
        Level slack = INT64_MAX;
        for (uint32_t s = from; s < reach; s++) {
            if (search->floor[s] == lowest && search->height - search->missing[s] < slack) {
                slack = search->height - search->missing[s];
                section = s;
            }
        }
        uint32_t chosen = UINT32_MAX;
        double best = -1;
        for (uint32_t e = search->first_entry[section]; e < search->first_entry[section + 1]; e++) {
            uint32_t id = search->entries[e].block;
            if (search->placed[id] || search->low[id] != lowest)
                continue;
            double value = preference(search, id);
            if (value > best) {
                best = value;
                chosen = id;
            }
        }
        g_assert(chosen != UINT32_MAX);
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
        search->blocks[chosen].weight *= 1.0 + 1.0 / 64;
        if (!exclude_block(search, chosen))
            break;
    }
    undo_to(search, mark);
    if (outcome == NONE && first_key[1] != 0)
        search->table[first_key[0] & ((1u << TABLE_BITS) - 1)] = (Failed){{first_key[0], first_key[1]}};
    return outcome;
}

/* ---- Set-up ---- */

static int compare_times(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static uint32_t slot_of(const int64_t *times, uint32_t n, int64_t time)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (times[middle] < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

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
        unit = gcd(unit, g_array_index(pieces, EchPlanPiece, i).bytes);
    for (guint i = 0; i < pieces->len; i++) {
        uint32_t group = g_array_index(pieces, EchPlanPiece, i).group;
        uint64_t alignment = problem->items[problem->member[problem->first[group]]].alignment;
        if (unit % alignment != 0)
            unit = gcd(unit, alignment);
    }
    return unit;
}

/** Sections are the sets of pieces alive at a begin that no other begin's set contains: a begin followed by an end. */
static uint32_t make_sections(const GArray *pieces, EchPlanPiece *ret_slots)
{
    size_t n = pieces->len;
    g_autofree int64_t *times = g_new(int64_t, n + 1);
    for (size_t i = 0; i < n; i++)
        times[i] = g_array_index(pieces, EchPlanPiece, i).begin;
    qsort(times, n, sizeof *times, compare_times);
    uint32_t n_slots = 0;
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || times[i] != times[i - 1])
            times[n_slots++] = times[i];
    }
    g_autofree uint32_t *number = g_new0(uint32_t, (size_t)n_slots + 1); /* number[slot]: sections before it */
    for (size_t i = 0; i < n; i++) {
        const EchPlanPiece *piece = &g_array_index(pieces, EchPlanPiece, i);
        uint32_t end = slot_of(times, n_slots, piece->end);
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
        ret_slots[i].begin = number[slot_of(times, n_slots, piece->begin)];
        ret_slots[i].end = number[slot_of(times, n_slots, piece->end) - 1] + 1;
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
    g_free(search->floor);
    g_free(search->missing);
    g_free(search->crossing);
    g_free(search->placed);
    g_free(search->at);
    g_free(search->stamp_section);
    g_free(search->table);
    g_array_free(search->trail, TRUE);
    g_array_free(search->touched, TRUE);
}

static void make_neighbours(Search *search)
{
    uint32_t n = search->n_blocks;
    g_autofree Level *size = g_new0(Level, n);
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
                }
            }
        }
        for (uint32_t i = 0; i < n_met; i++) {
            Neighbour neighbour = {met[i], size[met[i]]};
            g_array_append_val(all, neighbour);
            size[met[i]] = 0;
        }
        block->n_neighbours = all->len - block->first_neighbour;
    }
    search->neighbours = (Neighbour *)(void *)g_array_free(all, FALSE);
}

/** Builds the search over pieces of one part of time; their begin and end are sections. */
static void search_init(Search *search, const EchPlanProblem *problem, const EchPlanPiece *pieces, size_t n, uint32_t first_section, uint32_t n_sections, uint64_t unit)
{
    *search = (Search){.unit = (Level)unit, .n_sections = n_sections, .random = 1};
    search->spans = g_new(Span, n);
    search->blocks = g_new0(Block, n);
    /* Pieces of one group are neighbours in the array. */
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || pieces[i].group != pieces[i - 1].group) {
            Block *block = &search->blocks[search->n_blocks++];
            uint64_t alignment = problem->items[problem->member[problem->first[pieces[i].group]]].alignment;
            block->first_span = (uint32_t)i;
            block->begin = (uint32_t)pieces[i].begin - first_section;
            block->group = pieces[i].group;
            block->alignment = unit % alignment == 0 ? 1 : (Level)(alignment / gcd(alignment, unit));
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
    search->floor = g_new0(Level, n_sections);
    search->missing = g_new0(Level, n_sections);
    search->crossing = g_new0(uint32_t, (size_t)n_sections + 1);
    search->placed = g_new0(bool, search->n_blocks);
    search->at = g_new0(Level, search->n_blocks);
    search->stamp_section = g_new0(uint32_t, n_sections);
    search->table = g_new0(Failed, (size_t)1 << TABLE_BITS);
    search->trail = g_array_new(FALSE, FALSE, sizeof(Undo));
    search->touched = g_array_new(FALSE, FALSE, sizeof(uint32_t));
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
        for (uint32_t s = block->begin + 1; s < block->end; s++)
            search->crossing[s]++;
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

/** One decision: is there a plan of height @height? Restarts with other preferences and growing limits until decided or stopped. */
static Outcome decide(Search *search, Level height, uint64_t budget)
{
    search->height = height;
    g_autofree uint32_t *all = g_new(uint32_t, search->n_blocks);
    for (uint32_t b = 0; b < search->n_blocks; b++)
        all[b] = b;
    memset(search->table, 0, sizeof(Failed) << TABLE_BITS);
    uint64_t end = budget > UINT64_MAX - search->steps ? UINT64_MAX : search->steps + budget;
    uint64_t attempt = 2000;
    for (unsigned turn = 0;; turn++) {
        search->rule = turn;
        search->stopped = false;
        search->attempt_limit = MIN(end, search->steps + attempt);
        for (uint32_t b = 0; turn > 3 && b < search->n_blocks; b++)
            search->blocks[b].weight = MIN(search->blocks[b].weight, 1e100) * (0.5 + (double)(next_random(search) >> 11) / (double)(1ull << 53));
        Outcome outcome = solve_parts(search, all, search->n_blocks);
        if (outcome != STOPPED)
            return outcome;
        reset(search);
        if (search->steps >= end || (search->step_limit && search->steps >= search->step_limit) || g_get_monotonic_time() >= search->deadline)
            return STOPPED;
        if (turn % 4 == 3)
            attempt *= 2;
    }
}

void ech_exact_improve(const EchPlanProblem *problem, EchPlanSolution *solution, gint64 deadline_us, uint64_t step_limit)
{
    g_autoptr(GArray) array = ech_plan_pieces(problem);
    if (array->len == 0) {
        solution->proved_optimal = true;
        return;
    }
    uint64_t unit = find_unit(problem, array);
    g_autofree EchPlanPiece *pieces = g_new(EchPlanPiece, array->len);
    uint32_t n_sections = make_sections(array, pieces);
    Search search;
    search_init(&search, problem, pieces, array->len, 0, n_sections + 1, unit);
    search.deadline = deadline_us;
    search.step_limit = step_limit;
    Level best = 0;
    for (size_t i = 0; i < problem->n; i++) {
        const EchPlanItem *item = &problem->items[i];
        if (item->bytes && item->begin < item->end)
            best = MAX(best, (Level)((solution->offsets[i] + item->bytes + unit - 1) / unit));
    }
    Level bound = 0;
    for (uint32_t s = 0; s < search.n_sections; s++)
        bound = MAX(bound, search.missing[s]);
    Level capacity = problem->capacity ? (Level)(problem->capacity / unit) : 0;
    uint64_t budget = 200000;
    while (bound < best) {
        Level height = capacity > bound && capacity < best ? capacity : bound;
        
        Outcome outcome = decide(&search, height, budget);
        if (outcome == FOUND) {
            Level *at = g_new(Level, problem->n_groups);
            best = 0;
            for (uint32_t b = 0; b < search.n_blocks; b++) {
                at[search.blocks[b].group] = search.at[b];
                best = MAX(best, search.at[b] + search.blocks[b].size);
            }
            for (size_t i = 0; i < problem->n; i++)
                if (problem->items[i].bytes && problem->items[i].begin < problem->items[i].end)
                    solution->offsets[i] = (uint64_t)at[problem->group[i]] * unit;
            g_free(at);
        } else if (outcome == NONE) {
            bound = height + 1;
        } else if (g_get_monotonic_time() >= deadline_us) {
            break;
        }
        budget *= 2;
        reset(&search);
        for (uint32_t b = 0; b < search.n_blocks; b++)
            search.blocks[b].weight = 1;
    }
    solution->proved_optimal = bound >= best;
    solution->steps += search.steps;
    search_clear(&search);
}
