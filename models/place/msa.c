#include "models/place/msa.h"

#include "models/place/vmem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SLICE_CAUTION 1.8f              /* sliced prefetches must find this much more bandwidth than they need [XLA algorithm, kSlicedCopyResourceInflation] */
#define KERNEL_SECONDS 2e-9             /* what takes longer is a kernel, not a name for data */
#define DECREASING_STEPS 100            /* earlier starts tried once the later ones are used up [XLA picker] */
#define EVICTION_RETRY 2.0f             /* a retry asks for 1 + 2 x retry times the distance [XLA picker] */
#define FREE_BELOW 0.6f                 /* a cross-program prefetch is freed if it occupies less of the time */
#define RESOURCE_SCALE 1099511627776.0f /* 2^40: copy seconds as integers */

/* Bits of a result, as they are collected over the segments of a buffer. */
enum {
    OK = 0,
    OUT_OF_MEMORY = 1,
    NOT_FAST_BEFORE = 2,
    TOO_LONG = 4,
    TOO_SHORT = 8,
    OUT_OF_COPIES = 16,
    OUT_OF_BANDWIDTH = 32,
    UNCOMMIT = 64,
    SAME_START = 128,
    OTHER_OFFSET = 256,
    SYNC_FAILED = 512,
};

typedef struct Stay Stay;
struct Stay {
    EchMsaKind kind;
    bool fast, cross, dead;
    uint32_t value, position, sync;
    int64_t offset, bytes, start, end, after, before;
    int32_t place;  /* index of the shared offset, -1 none */
    GArray *slices; /* EchMsaSlice by start, or NULL */
    GArray *uses;   /* uint32_t */
    const Stay *original;
};

typedef struct {
    int64_t time;
    bool fast, pending;
    int32_t place;
} Need;

typedef struct {
    int64_t after, before, amount;
    uint32_t id;
} Copy;

/* Copy bandwidth as seconds per step: copies take it in order of their start; the part left over delays the next. */
typedef struct {
    int64_t *offered, *delay;
    GArray *copies; /* Copy, by start */
    GArray *undo;   /* int64_t pairs: step, delay */
} Resource;

typedef struct {
    float seconds, reduction; /* of the copy; saved by the use */
    int64_t end, earliest, latest, up, down;
    bool rising;
} Picker;

typedef struct {
    uint32_t position, value, computation;
    int64_t bytes, step;
    bool contiguous, done; /* done: mirrored through a conditional */
    GArray *uses;          /* uint32_t */
    GPtrArray *stays;
} Holder; /* an allocation value: one position and its uses */

typedef struct {
    EchVmemChunk chunk;
} Pending;

typedef struct {
    Holder *from, *update;
    uint32_t use;
    int64_t start, end, latest;
    int64_t bytes;
    int64_t chunk_start; /* INT64_MIN: none */
    int64_t earliest;    /* INT64_MIN: none */
    int32_t preferred;   /* place, -1 */
    bool allow_keep, extend_only, need_copy, copy_is_slice;
    EchMsaHint hint;
    int64_t copy_latest;
    uint32_t copy_for;
    const GArray *times; /* int64_t, all use steps, ascending */
} Request;

typedef struct {
    const EchMsaProblem *p;
    const EchMsaOptions *o;
    uint32_t n;
    float *cumulative; /* [n + 1] seconds x 5^nest */
    uint32_t *nest, *while_nest;
    int64_t *lower; /* [n + 1] last earlier step in fewer loops, -1 */
    float power[64];
    float max_seconds;
    EchVmem *vmem;
    int64_t *peak;
    Resource fetch, evict;
    int64_t *fetch_starts, *fetch_ends, *evict_starts, *evict_ends; /* Fenwick trees */
    GArray **needs;                                                 /* per value: Need */
    GArray *pending_needs;                                          /* uint32_t value */
    GArray *pending_chunks;
    GArray *pending_fetch, *pending_evict; /* Copy */
    GHashTable *intervals;                 /* fetches under way as counted: key -> number */
    GArray *places;                        /* int64_t */
    GPtrArray *final;                      /* Stay, every stay, in order */
    GArray *blocks;                        /* struct BlockRef */
    GPtrArray *all;                        /* every Stay made, to free */
    bool *finalized;
    bool *failed_sync;
    GArray *candidates; /* uint32_t steps */
    GArray *converted;  /* uint32_t steps, not final */
    bool any_converted;
    bool *edges;       /* [n + 2] shifted by one */
    uint32_t *sync_of; /* per use */
    uint8_t *why;      /* per use */
    float *waits;      /* belady, per value: longest time between two uses */
    uint32_t copies, repacks, repacks_good, retry, freed;
    uint32_t *first_use, *first_position; /* per value, n_values + 1 */
    GArray **members;                     /* per group: values by start */
    Picker pick;
    uint32_t next_group;
} Msa;

typedef struct {
    Stay *stay;
    uint32_t group;
} BlockRef;

/* ---- time ---- */

static void prepare_times(Msa *m)
{
    const EchMsaProblem *p = m->p;
    m->cumulative = g_new0(float, m->n + 1);
    m->nest = g_new0(uint32_t, m->n + 1);
    m->while_nest = g_new0(uint32_t, m->n + 1);
    m->lower = g_new0(int64_t, m->n + 1);
    m->power[0] = 1.0f;
    for (uint32_t i = 1; i < 64; i++)
        m->power[i] = i < 16 ? m->power[i - 1] * 5.0f : m->power[i - 1];
    float sum = 0;
    for (uint32_t t = 0; t <= m->n; t++) {
        if (t < m->n) {
            m->nest[t] = p->steps[t].nest;
            m->while_nest[t] = MIN(p->steps[t].while_nest, 63);
            sum += (float)p->steps[t].seconds * m->power[m->while_nest[t]];
        }
        m->cumulative[t] = sum;
        int64_t k = (int64_t)t - 1;
        while (k >= 0 && m->while_nest[k] >= m->while_nest[t])
            k = m->lower[k];
        m->lower[t] = k;
    }
    m->max_seconds = (float)(m->o->size / 4 * 4) / (float)m->o->copy_bytes_per_s * (float)m->o->max_overlap;
}

/* Seconds strictly between two steps, per run of the innermost loop around both. */
static float elapsed(const Msa *m, int64_t from, int64_t to)
{
    if (from >= to)
        return 0;
    from = MAX(from, 0);
    if (from >= to)
        return 0;
    uint32_t least = MIN(m->while_nest[from], m->while_nest[to]);
    for (int64_t k = m->lower[to]; k >= from; k = m->lower[k])
        least = MIN(least, m->while_nest[k]);
    return (m->cumulative[to - 1] - m->cumulative[from]) / m->power[least];
}

static float copy_seconds(const Msa *m, int64_t bytes)
{
    return (float)bytes / (float)m->o->copy_bytes_per_s;
}

static float picker_seconds(const Msa *m, int64_t bytes)
{
    return copy_seconds(m, m->o->picker_bytes != 0 ? (int64_t)m->o->picker_bytes : bytes);
}

static bool can_keep(const Msa *m, int64_t from, int64_t to)
{
    return m->max_seconds > elapsed(m, from, to);
}

/* ---- counting copies under way ---- */

static void tree_add(int64_t *tree, uint32_t n, int64_t at, int64_t by)
{
    for (int64_t i = CLAMP(at, 0, (int64_t)n + 1) + 1; i <= (int64_t)n + 2; i += i & -i)
        tree[i] += by;
}

static int64_t tree_sum(const int64_t *tree, uint32_t n, int64_t at)
{
    int64_t sum = 0;
    for (int64_t i = MIN(at, (int64_t)n + 1) + 1; i > 0; i -= i & -i)
        sum += tree[i];
    return sum;
}

static int64_t overlapping(const Msa *m, const int64_t *starts, const int64_t *ends, int64_t from, int64_t to)
{
    return tree_sum(starts, m->n, to) - tree_sum(ends, m->n, from - 1);
}

/* ---- bandwidth ---- */

static int64_t scaled(float seconds)
{
    return (int64_t)(seconds * RESOURCE_SCALE);
}

static void resource_init(Resource *r, const EchMsaProblem *p)
{
    r->offered = g_new0(int64_t, p->n_steps + 1);
    r->delay = g_new0(int64_t, p->n_steps + 2);
    r->copies = g_array_new(FALSE, FALSE, sizeof(Copy));
    r->undo = g_array_new(FALSE, FALSE, 2 * sizeof(int64_t));
    for (uint32_t t = 0; t < p->n_steps; t++)
        r->offered[t] = scaled((float)p->steps[t].seconds);
}

static guint first_after(const Resource *r, int64_t start)
{
    guint low = 0, high = r->copies->len;
    while (low < high) {
        guint middle = (low + high) / 2;
        if (g_array_index(r->copies, Copy, middle).after > start)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Takes @amount of the seconds in (after, before), pushing later copies back; or gives @release back. With @log the changes can be undone. */
static bool consume(const Msa *m, Resource *r, int64_t after, int64_t before, int64_t amount, int64_t release, bool log)
{
    int64_t n = m->n;
    if (amount == 0 && release == 0)
        return true;
    guint next = first_after(r, after);
    amount += r->delay[CLAMP(after + 1, 0, n)];
    while (true) {
        bool has_delay = false;
        int64_t pass_on = 0, freed = 0;
        for (int64_t t = after + 1; t < before && t < n && amount != 0; t++) {
            int64_t offered = r->offered[t], used = MIN(amount, offered);
            if (next < r->copies->len && g_array_index(r->copies, Copy, next).after == t - 1) {
                has_delay = true;
                pass_on = amount;
                release -= freed;
            }
            if (!has_delay) {
                int64_t old = r->delay[t], old_left = MAX(0, offered - old), now = MAX(0, amount - release);
                freed += MAX(0, MAX(0, offered - now) - old_left);
                r->delay[t] = now;
                if (log) {
                    int64_t pair[2] = {t, old};
                    g_array_append_vals(r->undo, pair, 1);
                }
            }
            amount -= used;
        }
        if (amount > 0)
            return false;
        if (!has_delay)
            return true;
        const Copy *copy = &g_array_index(r->copies, Copy, next);
        after = copy->after;
        before = copy->before;
        amount = pass_on + copy->amount;
        next++;
        if (amount == 0 && release == 0)
            return true;
    }
}

static void undo(Resource *r)
{
    for (guint i = r->undo->len; i > 0; i--) {
        const int64_t *pair = (const int64_t *)(const void *)(r->undo->data + (i - 1) * 2 * sizeof(int64_t));
        r->delay[pair[0]] = pair[1];
    }
    g_array_set_size(r->undo, 0);
}

static bool enough(const Msa *m, Resource *r, int64_t after, int64_t before, float seconds)
{
    bool result = consume(m, r, after, before, scaled(seconds), 0, true);
    undo(r);
    return result;
}

static void resource_add(const Msa *m, Resource *r, Copy copy)
{
    consume(m, r, copy.after, copy.before, copy.amount, 0, false);
    g_array_insert_val(r->copies, first_after(r, copy.after), copy);
}

/* Only the last of the copies with one start can be taken out, so the later ones leave for a moment. */
static void resource_remove(const Msa *m, Resource *r, const Copy *copy)
{
    g_autoptr(GArray) back = g_array_new(FALSE, FALSE, sizeof(Copy));
    for (guint i = first_after(r, copy->after); i > 0;) {
        i--;
        Copy last = g_array_index(r->copies, Copy, i);
        if (last.after != copy->after)
            break;
        consume(m, r, last.after, last.before, 0, last.amount, false);
        g_array_remove_index(r->copies, i);
        if (last.id == copy->id)
            break;
        g_array_prepend_val(back, last);
    }
    for (guint i = 0; i < back->len; i++)
        resource_add(m, r, g_array_index(back, Copy, i));
}

static bool breaks_fifo(const Msa *m, int64_t after, int64_t before)
{
    for (guint i = 0; i < m->fetch.copies->len; i++) {
        const Copy *c = &g_array_index(m->fetch.copies, Copy, i);
        if ((c->after < after && c->before > before) || (c->after > after && c->before < before))
            return true;
    }
    return false;
}

/* ---- stays ---- */

static Stay *stay_new(Msa *m, EchMsaKind kind, bool fast, uint32_t value, uint32_t position, int64_t start, int64_t end)
{
    Stay *stay = g_new0(Stay, 1);
    stay->kind = kind;
    stay->fast = fast;
    stay->value = value;
    stay->position = position;
    stay->start = start;
    stay->end = end;
    stay->offset = -1;
    stay->place = -1;
    stay->sync = ECH_PLACE_NONE;
    stay->bytes = (int64_t)m->p->values[value].bytes;
    stay->uses = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_ptr_array_add(m->all, stay);
    return stay;
}

static void stay_free(gpointer data)
{
    Stay *stay = data;
    if (stay->slices != NULL)
        g_array_unref(stay->slices);
    g_array_unref(stay->uses);
    g_free(stay);
}

static bool is_copy(const Stay *stay)
{
    return stay->kind == ECH_MSA_COPIED || stay->kind == ECH_MSA_SLICED;
}

static int64_t available(const Stay *stay)
{
    return is_copy(stay) ? stay->before : stay->start;
}

static void extend(Stay *stay, int64_t end)
{
    stay->end = MAX(stay->end, end);
}

static void add_use(Stay *stay, uint32_t use)
{
    g_array_append_val(stay->uses, use);
}

static int32_t place_of(const Stay *stay)
{
    while (stay->kind == ECH_MSA_MIRRORED && stay->original != NULL)
        stay = stay->original;
    return stay->place;
}

static void set_place(Msa *m, Stay *stay, int32_t place)
{
    if (place < 0) {
        place = (int32_t)m->places->len;
        g_array_append_val(m->places, stay->offset);
    }
    stay->place = place;
}

static Stay *live_at(const Holder *holder, int64_t time)
{
    for (guint i = holder->stays->len; i > 0; i--) {
        Stay *stay = holder->stays->pdata[i - 1];
        if (stay->start <= time && stay->end >= time)
            return stay;
    }
    return NULL;
}

static Stay *last_slow(const Holder *holder)
{
    for (guint i = holder->stays->len; i > 0; i--)
        if (!((Stay *)holder->stays->pdata[i - 1])->fast)
            return holder->stays->pdata[i - 1];
    return NULL;
}

static void commit_chunk(Msa *m, EchVmemChunk chunk)
{
    for (int64_t t = MAX(chunk.start, 0); t <= chunk.end && t <= (int64_t)m->n; t++)
        m->peak[t] += chunk.bytes;
    ech_vmem_add(m->vmem, chunk);
    g_array_append_val(m->pending_chunks, chunk);
}

/* Changes the number of fetches counted over (from, before); false if there are none to take away. */
static bool count_interval(Msa *m, int64_t from, int64_t before, int change)
{
    gpointer key = GSIZE_TO_POINTER((gsize)((from + 1) * ((int64_t)m->n + 3) + before + 1));
    guint old = GPOINTER_TO_UINT(g_hash_table_lookup(m->intervals, key));
    if (change < 0 && old == 0)
        return false;
    g_hash_table_insert(m->intervals, key, GUINT_TO_POINTER((guint)((int)old + change)));
    return true;
}

static void register_copy(Msa *m, bool fetch, int64_t after, int64_t before, float seconds, bool slice)
{
    Copy copy = {after, before, scaled(seconds), m->copies++};
    /* A slice counts from its start step on, a whole copy from the step after it: as XLA's interval trees do. */
    int64_t from = slice ? after : after + 1;
    if (fetch)
        count_interval(m, from, before, 1);
    tree_add(fetch ? m->fetch_starts : m->evict_starts, m->n, from, 1);
    tree_add(fetch ? m->fetch_ends : m->evict_ends, m->n, before, 1);
    resource_add(m, fetch ? &m->fetch : &m->evict, copy);
    g_array_append_val(fetch ? m->pending_fetch : m->pending_evict, copy);
}

static Stay *add_copy(Msa *m, Holder *holder, bool fast, int64_t offset, int64_t bytes, int64_t after, int64_t end, int64_t before, int32_t place,
                      float seconds, uint32_t sync)
{
    Stay *stay = stay_new(m, ECH_MSA_COPIED, fast, holder->value, holder->position, after + 1, end);
    stay->after = after;
    stay->before = before;
    stay->offset = offset;
    stay->bytes = bytes;
    stay->sync = sync;
    g_ptr_array_add(holder->stays, stay);
    register_copy(m, fast, after, before, seconds, false);
    if (fast)
        set_place(m, stay, place);
    return stay;
}

/* ---- requirements ---- */

static const Need *need_at(const Msa *m, uint32_t value, int64_t time)
{
    if (value == ECH_PLACE_NONE || m->needs[value] == NULL)
        return NULL;
    for (guint i = 0; i < m->needs[value]->len; i++)
        if (g_array_index(m->needs[value], Need, i).time == time)
            return &g_array_index(m->needs[value], Need, i);
    return NULL;
}

static void require(Msa *m, uint32_t value, int64_t time, bool fast, int32_t place, bool pending)
{
    if (need_at(m, value, time) != NULL)
        return;
    if (m->needs[value] == NULL)
        m->needs[value] = g_array_new(FALSE, FALSE, sizeof(Need));
    Need need = {time, fast, pending, place};
    g_array_append_val(m->needs[value], need);
    if (pending)
        g_array_append_val(m->pending_needs, value);
}

static bool same_need(const Need *a, const Need *b)
{
    return a->fast == b->fast && (!a->fast || a->place == b->place);
}

static const Need *aliased_need(const Msa *m, const EchMsaUse *use)
{
    for (uint32_t i = 0; i < use->n_aliases; i++) {
        const EchMsaPosition *alias = &m->p->aliases[use->first_alias + i];
        const Need *need = need_at(m, alias->value, alias->step);
        if (need != NULL)
            return need;
    }
    return NULL;
}

static void clear_pending(Msa *m)
{
    g_array_set_size(m->pending_chunks, 0);
    g_array_set_size(m->pending_fetch, 0);
    g_array_set_size(m->pending_evict, 0);
    for (guint i = 0; i < m->pending_needs->len; i++) {
        GArray *needs = m->needs[g_array_index(m->pending_needs, uint32_t, i)];
        for (guint k = 0; k < needs->len; k++)
            g_array_index(needs, Need, k).pending = false;
    }
    g_array_set_size(m->pending_needs, 0);
    g_array_set_size(m->places, 0);
}

static void uncommit(Msa *m, GPtrArray *holders)
{
    for (guint i = 0; i < holders->len; i++) {
        Holder *holder = holders->pdata[i];
        for (guint k = 0; k < holder->stays->len; k++)
            ((Stay *)holder->stays->pdata[k])->dead = true;
        g_ptr_array_set_size(holder->stays, 0);
        holder->done = false;
    }
    for (guint i = 0; i < m->pending_chunks->len; i++) {
        EchVmemChunk chunk = g_array_index(m->pending_chunks, EchVmemChunk, i);
        for (int64_t t = MAX(chunk.start, 0); t <= chunk.end && t <= (int64_t)m->n; t++)
            m->peak[t] -= chunk.bytes;
        ech_vmem_remove(m->vmem, chunk);
    }
    for (guint which = 0; which < 2; which++) {
        GArray *copies = which == 0 ? m->pending_fetch : m->pending_evict;
        for (guint i = 0; i < copies->len; i++) {
            const Copy *copy = &g_array_index(copies, Copy, i);
            /* A slice was counted from one step earlier and so is not found here: XLA leaves it counted, and so do we. */
            if (which == 1 || count_interval(m, copy->after + 1, copy->before, -1)) {
                tree_add(which == 0 ? m->fetch_starts : m->evict_starts, m->n, copy->after + 1, -1);
                tree_add(which == 0 ? m->fetch_ends : m->evict_ends, m->n, copy->before, -1);
            }
            resource_remove(m, which == 0 ? &m->fetch : &m->evict, copy);
        }
    }
    for (guint i = 0; i < m->pending_needs->len; i++) {
        GArray *needs = m->needs[g_array_index(m->pending_needs, uint32_t, i)];
        for (guint k = needs->len; k > 0; k--)
            if (g_array_index(needs, Need, k - 1).pending)
                g_array_remove_index(needs, k - 1);
    }
    g_array_set_size(m->pending_needs, 0);
    clear_pending(m);
}

/* ---- where a chunk fits ---- */

/* The longest range of uses, from this one on, for which there is room; fills offsets (by start). With a preferred place only that one. */
static bool find_best(Msa *m, const Request *r, int32_t preferred, EchVmemRequest *want, int64_t *ret_offsets)
{
    int64_t bytes = 0, offsets[ECH_VMEM_MAX_SLICES];
    for (uint32_t i = 0; i < want->n; i++)
        bytes += want->bytes[i];
    if (preferred >= 0) {
        int64_t offset = g_array_index(m->places, int64_t, preferred);
        want->end = r->end;
        if (!ech_vmem_find_sliced(m->vmem, want, offset, offsets))
            return false;
        int64_t lowest = offsets[0];
        for (uint32_t i = 1; i < want->n; i++)
            lowest = MIN(lowest, offsets[i]);
        if (lowest != offset || lowest + bytes > (int64_t)m->o->size)
            return false;
        memcpy(ret_offsets, offsets, want->n * sizeof(int64_t));
        return true;
    }
    const int64_t *times = (const int64_t *)(const void *)r->times->data;
    guint low = 0, n = r->times->len;
    while (low < n && times[low] < r->end)
        low++;
    guint high = low;
    while (high + 1 < n && can_keep(m, times[high], times[high + 1]))
        high++;
    bool found = false;
    int64_t latest = INT64_MIN;
    guint first = low, count = high + 1 - low;
    if (low >= n)
        count = 0;
    while (count > 0) /* binary search for the first use that does not fit */
    {
        guint half = count / 2;
        int64_t use = times[first + half];
        want->end = use;
        bool fits = ech_vmem_find_sliced(m->vmem, want, -1, offsets);
        int64_t lowest = offsets[0];
        for (uint32_t i = 1; fits && i < want->n; i++)
            lowest = MIN(lowest, offsets[i]);
        if (fits && lowest + bytes <= (int64_t)m->o->size) {
            if (use > latest) {
                memcpy(ret_offsets, offsets, want->n * sizeof(int64_t));
                latest = use;
            }
            found = true;
            first += half + 1;
            count -= half + 1;
        } else
            count = half;
    }
    want->end = r->end;
    return found;
}

/* ---- keep ---- */

static int keep(Msa *m, const Request *r)
{
    Holder *holder = r->from;
    Stay *before = holder->stays->len > 0 ? holder->stays->pdata[holder->stays->len - 1] : NULL;
    if (before == NULL ? !m->p->values[holder->value].allowed : !before->fast)
        return NOT_FAST_BEFORE;
    if (r->hint != ECH_MSA_HINT_KEEP && !can_keep(m, r->start, r->end))
        return TOO_LONG;
    int32_t preferred = -1;
    EchVmemRequest want = {.n = 1, .bytes = {r->bytes}, .starts = {r->start}, .end = r->end};
    if (before != NULL) {
        preferred = place_of(before);
        want.starts[0] = before->end + 1;
        if (r->chunk_start != INT64_MIN)
            want.starts[0] = r->chunk_start;
    }
    if (r->preferred >= 0) {
        if (preferred >= 0 && r->preferred != preferred)
            return OTHER_OFFSET;
        preferred = r->preferred;
    }
    int64_t offset;
    if (!find_best(m, r, preferred, &want, &offset) || offset + r->bytes > (int64_t)m->o->size)
        return OUT_OF_MEMORY;
    commit_chunk(m, (EchVmemChunk){want.starts[0], r->end, offset, r->bytes});
    if (before != NULL)
        extend(before, r->end);
    else {
        Stay *stay = stay_new(m, ECH_MSA_PINNED, true, holder->value, holder->position, r->start, r->end);
        stay->offset = offset;
        stay->bytes = r->bytes;
        g_ptr_array_add(holder->stays, stay);
        set_place(m, stay, preferred);
    }
    if (!r->extend_only)
        add_use(holder->stays->pdata[holder->stays->len - 1], r->use);
    return OK;
}

/* ---- evict ---- */

static int evict(Msa *m, const Request *r)
{
    Holder *holder = r->from;
    Stay *before = holder->stays->pdata[holder->stays->len - 1];
    int64_t start = before->start, end = before->end, bytes = MAX(holder->bytes, r->bytes);
    float seconds = picker_seconds(m, r->update->bytes);
    int64_t preferred = start + 1;
    float wanted = (1.0f + EVICTION_RETRY * (float)m->retry) * (float)m->o->preferred_overlap * seconds;
    while (preferred <= r->end && elapsed(m, start, preferred) < wanted)
        preferred++;
    preferred = MIN(MAX(preferred, end), r->latest);
    bool found = false;
    int64_t until = preferred;
    while (until > end) {
        int64_t free = ech_vmem_free_until(m->vmem, end + 1, until, before->offset, bytes);
        if (free <= end) {
            until = end;
            break;
        }
        until = free;
        if (until == preferred || m->edges[until + 1]) {
            found = true;
            break;
        }
        do
            until--;
        while (until > end && !m->edges[until + 1]);
    }
    end = MIN(until, MAX(until, end));
    float resource = copy_seconds(m, holder->bytes);
    bool too_short = start == end;
    bool busy = !enough(m, &m->evict, start, end, resource);
    if (busy) {
        if (m->retry + 1 == m->o->max_retries)
            resource = 0;
        busy = !enough(m, &m->evict, start, end, resource);
    }
    bool many = m->o->max_evictions >= 0 && overlapping(m, m->evict_starts, m->evict_ends, start + 1, end) + 1 >= m->o->max_evictions;
    if (too_short || busy || many)
        return OUT_OF_COPIES;
    int64_t old = before->end;
    extend(before, end);
    if (found)
        commit_chunk(m, (EchVmemChunk){old + 1, end, before->offset, bytes});
    add_copy(m, holder, false, -1, holder->bytes, start, before->end, end, -1, resource, ECH_PLACE_NONE);
    return OK;
}

/* ---- prefetch ---- */

static bool pick_done(const Picker *pick)
{
    return pick->up > pick->latest && pick->down < pick->earliest;
}

static int64_t pick_next(Msa *m)
{
    Picker *pick = &m->pick;
    uint32_t nest = m->nest[pick->end];
    if (pick->rising) {
        int64_t time = pick->up++;
        while (pick->up <= pick->latest && m->nest[pick->up] != nest)
            pick->up++;
        if (pick->down >= pick->earliest)
            pick->rising = false;
        return time;
    }
    int64_t time = pick->down--;
    float target = 0;
    if (pick->up > pick->latest)
        target = elapsed(m, time, pick->end) + elapsed(m, pick->earliest, pick->end) / DECREASING_STEPS;
    while (pick->down >= pick->earliest && (m->nest[pick->down] != nest || elapsed(m, pick->down, pick->end) < target))
        pick->down--;
    if (pick->up <= pick->latest)
        pick->rising = true;
    return time;
}

/* The start in [earliest, latest] whose distance is nearest to the preferred one. */
static int64_t preferred_start(const Msa *m, int64_t bytes, int64_t earliest, int64_t latest, int64_t end)
{
    float wanted = (float)m->o->preferred_overlap * picker_seconds(m, bytes), best = elapsed(m, earliest, end);
    int64_t at = earliest;
    for (int64_t t = earliest + 1; t <= latest; t++) {
        float distance = elapsed(m, t, end);
        if (m->nest[t] == m->nest[end] && fabsf(wanted - distance) < fabsf(wanted - best)) {
            best = distance;
            at = t;
        }
    }
    return at;
}

static void pick_begin(Msa *m, const Request *r, int64_t start, int64_t end)
{
    Picker *pick = &m->pick;
    pick->seconds = picker_seconds(m, r->update->bytes);
    pick->reduction = (float)m->p->uses[r->use].reduction;
    pick->end = end;
    uint32_t nest = m->nest[end];
    float least = (float)m->o->min_overlap * pick->seconds;
    pick->latest = end - 1;
    while (pick->latest >= start && (m->nest[pick->latest] != nest || least > elapsed(m, pick->latest, end) + pick->reduction))
        pick->latest--;
    pick->earliest = start;
    while (pick->earliest < pick->latest && (m->nest[pick->earliest] != nest || m->max_seconds < elapsed(m, pick->earliest, end)))
        pick->earliest++;
    if (pick->earliest > pick->latest) {
        pick->up = pick->earliest;
        pick->down = pick->latest;
        return;
    }
    int64_t at = m->o->on_demand ? pick->latest : preferred_start(m, r->update->bytes, pick->earliest, pick->latest, end);
    if (r->hint == ECH_MSA_HINT_FETCH && m->p->uses[r->use].preferred_start <= pick->latest)
        at = m->p->uses[r->use].preferred_start;
    if (m->o->depth > 0) {
        /* Right after the kernel that comes so many before the one that reads. */
        uint32_t kernels = 0;
        at = end - 1;
        while (at > pick->earliest && kernels < m->o->depth)
            kernels += m->p->steps[at--].seconds > KERNEL_SECONDS;
    }
    at = CLAMP(at, pick->earliest, pick->latest);
    pick->up = pick->down = at;
    pick->rising = true;
    pick_next(m);
}

/* How a buffer is cut: sizes by offset. 0: not cut. */
static uint32_t propose_slices(const Msa *m, const EchMsaValue *value, int64_t bytes, int64_t *sizes)
{
    if (m->o->max_slices < 2 || bytes < (int64_t)m->o->min_slice_bytes)
        return 0;
    if (m->o->preferred_slice > 0) {
        int64_t piece = (int64_t)m->o->preferred_slice, n = (bytes + piece - 1) / piece;
        if (n < 2 || n > (int64_t)m->o->max_slices || n > ECH_VMEM_MAX_SLICES)
            return 0;
        for (int64_t i = 0; i < n; i++)
            sizes[i] = i + 1 < n ? piece : bytes - piece * (n - 1);
        return (uint32_t)n;
    }
    uint32_t n = MIN(m->o->max_slices, value->major);
    if (n < 2)
        return 0;
    /* Equal parts in whole pieces; the last has what is left. */
    uint32_t each = value->major / n + (value->major % n != 0);
    n = value->major / each + (value->major % each != 0);
    if (n < 2 || n > ECH_VMEM_MAX_SLICES)
        return 0;
    int64_t piece = bytes / value->major;
    for (uint32_t i = 0; i < n; i++)
        sizes[i] = i + 1 < n ? piece * each : bytes - piece * each * (n - 1);
    return n;
}

/* Start times of the slices: equal parts of the time left, all in one computation. */
static void slice_starts(const Msa *m, uint32_t n, int64_t start, int64_t end, int64_t *starts)
{
    for (uint32_t i = 0; i < n; i++)
        starts[i] = start;
    if (start >= end - 2 || n == 1)
        return;
    float all = elapsed(m, start, end);
    if (all <= 0)
        return;
    uint32_t count = 1, home = m->p->steps[MAX(start, 0)].computation;
    int64_t valid = start, at = start;
    while (at < end - 1 && count < n) {
        float target = all * (float)(n - count) / (float)n;
        if (elapsed(m, at, end) < target) {
            starts[count++] = valid;
            continue;
        }
        bool matters = valid != at && elapsed(m, valid, at + 1) > 0;
        if (matters && m->p->steps[MAX(at, 0)].computation == home)
            valid = at;
        at++;
    }
    while (count < n)
        starts[count++] = valid;
}

static bool too_many(const Msa *m, int64_t start, int64_t end, int64_t extra, int64_t more)
{
    return m->o->max_prefetches >= 0 && overlapping(m, m->fetch_starts, m->fetch_ends, start, end) + more >= m->o->max_prefetches + extra;
}

typedef struct {
    bool found;
    uint32_t n;
    int64_t starts[ECH_VMEM_MAX_SLICES], offsets[ECH_VMEM_MAX_SLICES], sizes[ECH_VMEM_MAX_SLICES]; /* by start */
    float seconds[ECH_VMEM_MAX_SLICES];
} Solution;

static bool enough_for(const Msa *m, Resource *r, uint32_t n, const int64_t *starts, int64_t end, const float *seconds)
{
    bool result = true;
    for (uint32_t i = 0; i < n && result; i++)
        result = consume(m, r, starts[i], end, scaled(n > 1 ? seconds[i] * SLICE_CAUTION : seconds[i]), 0, true);
    undo(r);
    return result;
}

static int compare_float(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static int try_start(Msa *m, const Request *r, int64_t start, int64_t end, int64_t extra, uint32_t n, const int64_t *sizes, int64_t *oom_start, bool sets_oom,
                     Solution *ret)
{
    Solution s = {.n = n};
    slice_starts(m, n, start, end, s.starts);
    if (n > 1) {
        bool same = true;
        for (uint32_t i = 1; i < n; i++)
            same = same && s.starts[i] == s.starts[0];
        if (same)
            return SAME_START;
    }
    /* A loop's fetch has its bandwidth counted by the optimizer of loops; its slices have not. */
    bool counted = n == 1 && r->hint == ECH_MSA_HINT_FETCH;
    for (uint32_t i = 0; i < n; i++)
        s.seconds[i] = counted ? 0 : copy_seconds(m, sizes[i]);
    qsort(s.seconds, n, sizeof(float), compare_float);
    if (m->o->fifo)
        for (uint32_t i = 0; i < n; i++)
            if (breaks_fifo(m, s.starts[i], end))
                return OUT_OF_BANDWIDTH;
    for (uint32_t i = 0; i < n; i++)
        if (too_many(m, s.starts[i], end, extra, i))
            return OUT_OF_COPIES;
    if (!enough_for(m, &m->fetch, n, s.starts, end, s.seconds))
        return OUT_OF_BANDWIDTH;
    EchVmemRequest want = {.n = n, .end = r->end, .all_orders = m->o->max_slices <= m->o->all_permutations};
    for (uint32_t i = 0; i < n; i++) {
        want.bytes[i] = sizes[i];
        want.starts[i] = s.starts[i] + 1;
    }
    if (!find_best(m, r, r->preferred, &want, s.offsets)) {
        if (sets_oom)
            *oom_start = MAX(*oom_start, s.starts[0]);
        return OUT_OF_MEMORY;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rank = 0; /* by offset */
        for (uint32_t k = 0; k < n; k++)
            rank += s.offsets[k] < s.offsets[i];
        s.sizes[i] = sizes[rank];
        s.seconds[i] = counted ? 0 : copy_seconds(m, sizes[rank]);
    }
    if (n > 1 && !enough_for(m, &m->fetch, n, s.starts, end, s.seconds))
        return OUT_OF_BANDWIDTH;
    s.found = true;
    *ret = s;
    return OK;
}

static void take_sliced(Msa *m, const Request *r, const Solution *s, int64_t end)
{
    uint32_t last = s->n - 1;
    int64_t lowest = s->offsets[0], bytes = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        lowest = MIN(lowest, s->offsets[i]);
        bytes += s->sizes[i];
    }
    for (uint32_t i = 0; i < s->n && s->starts[i] != s->starts[last]; i++)
        commit_chunk(m, (EchVmemChunk){s->starts[i] + 1, s->starts[last], s->offsets[i], s->sizes[i]});
    commit_chunk(m, (EchVmemChunk){s->starts[last] + 1, r->end, lowest, bytes});
    Stay *stay = stay_new(m, ECH_MSA_SLICED, true, r->update->value, r->update->position, s->starts[0] + 1, r->end);
    stay->after = s->starts[0];
    stay->before = end;
    stay->offset = lowest;
    stay->bytes = bytes;
    stay->sync = r->copy_for;
    stay->slices = g_array_new(FALSE, FALSE, sizeof(EchMsaSlice));
    for (uint32_t i = 0; i < s->n; i++) {
        EchMsaSlice slice = {(uint32_t)s->starts[i], (uint64_t)s->offsets[i], (EchBytes)s->sizes[i]};
        g_array_append_val(stay->slices, slice);
    }
    g_ptr_array_add(r->update->stays, stay);
    for (uint32_t i = 0; i < s->n; i++)
        register_copy(m, true, s->starts[i], end, s->seconds[i], true);
    set_place(m, stay, r->preferred);
    add_use(stay, r->use);
}

static int prefetch(Msa *m, const Request *r, Stay *slow)
{
    int64_t sizes[ECH_VMEM_MAX_SLICES], whole[1] = {r->bytes};
    uint32_t n = r->copy_is_slice ? 0 : propose_slices(m, &m->p->values[r->from->value], r->bytes, sizes);
    int64_t earliest = available(slow), end = r->latest;
    if (r->earliest != INT64_MIN)
        earliest = MAX(earliest, r->earliest);
    /* Where even the sum of the bytes leaves no room there is nothing to try. */
    int64_t roomy = INT64_MIN;
    for (int64_t t = end - 1; t > earliest && m->peak[t] + r->bytes <= (int64_t)m->o->size; t--)
        roomy = t - 1;
    if (roomy == INT64_MIN)
        return OUT_OF_MEMORY;
    if (n == 0)
        earliest = roomy;
    pick_begin(m, r, earliest, end);
    EchVmemRequest want = {.n = MAX(n, 1), .end = r->end, .all_orders = m->o->max_slices <= m->o->all_permutations};
    for (uint32_t i = 0; i < want.n; i++) {
        want.bytes[i] = n == 0 ? r->bytes : sizes[i];
        want.starts[i] = m->pick.latest + 1;
    }
    int64_t offsets[ECH_VMEM_MAX_SLICES];
    if (!find_best(m, r, r->preferred, &want, offsets))
        return OUT_OF_MEMORY;
    int64_t extra = m->p->steps[m->p->uses[r->use].step].kind == ECH_MSA_WHILE ? m->o->while_extra : 0;
    Solution sliced = {0}, unsliced = {0};
    int result = OK;
    int64_t oom_start = INT64_MIN;
    while (!pick_done(&m->pick)) {
        int64_t start = pick_next(m);
        if (oom_start != INT64_MIN && start <= oom_start)
            return OUT_OF_MEMORY;
        if (n > 0) {
            int got = try_start(m, r, start, end, extra, n, sizes, &oom_start, true, &sliced);
            if (got == OK)
                break;
            if (got != SAME_START)
                result |= got;
        }
        if (!unsliced.found) {
            int got = try_start(m, r, start, end, extra, 1, whole, &oom_start, n == 0, &unsliced);
            result |= got;
            if (got == OK && n == 0)
                break;
        }
    }
    if (sliced.found) {
        take_sliced(m, r, &sliced, end);
        return OK;
    }
    if (unsliced.found) {
        commit_chunk(m, (EchVmemChunk){unsliced.starts[0] + 1, r->end, unsliced.offsets[0], r->bytes});
        Stay *stay =
            add_copy(m, r->update, true, unsliced.offsets[0], r->bytes, unsliced.starts[0], r->end, end, r->preferred, unsliced.seconds[0], r->copy_for);
        extend(slow, r->latest);
        add_use(stay, r->use);
        return OK;
    }
    return result == OK ? TOO_SHORT : result;
}

/* ---- one segment ---- */

static int allocate_segment(Msa *m, Request *r)
{
    const EchMsaUse *use = &m->p->uses[r->use];
    Holder *holder = r->from;
    if (r->start == r->end) {
        Stay *stay = live_at(r->update, r->end);
        if (stay != NULL)
            add_use(stay, r->use);
        return OK;
    }
    const Need *at_start = need_at(m, holder->value, r->start);
    const Need *at_end = need_at(m, r->update->value, r->end), *alias_end = aliased_need(m, use);
    if (at_end == NULL)
        at_end = alias_end;
    bool start_slow = at_start != NULL && !at_start->fast, end_slow = at_end != NULL && !at_end->fast;
    bool end_fast = at_end != NULL && at_end->fast, start_fast = at_start != NULL && at_start->fast;
    if (at_start != NULL) {
        Stay *stay = NULL;
        for (guint i = holder->stays->len; i > 0 && stay == NULL; i--)
            if (((Stay *)holder->stays->pdata[i - 1])->fast == at_start->fast)
                stay = holder->stays->pdata[i - 1];
        if (stay != NULL)
            extend(stay, r->start);
        else {
            stay = stay_new(m, ECH_MSA_PINNED, at_start->fast, holder->value, holder->position, r->start, r->start);
            stay->bytes = r->bytes;
            g_ptr_array_add(holder->stays, stay);
            if (at_start->fast) {
                stay->offset = g_array_index(m->places, int64_t, at_start->place);
                set_place(m, stay, at_start->place);
            }
        }
    }
    int result = OK;
    if (!start_slow && !end_slow && r->allow_keep && !r->need_copy) {
        result = keep(m, r);
        if (result == OK)
            return OK;
    }
    Stay *slow = last_slow(holder);
    if (!holder->contiguous) {
        Stay *last = holder->stays->len > 0 ? holder->stays->pdata[holder->stays->len - 1] : NULL;
        if (slow == NULL && last != NULL && last->fast) {
            int evicted = is_copy(last) ? OUT_OF_COPIES : evict(m, r);
            if (evicted != OK)
                return evicted | UNCOMMIT;
            slow = holder->stays->pdata[holder->stays->len - 1];
        } else if (slow == NULL) {
            slow = stay_new(m, ECH_MSA_PINNED, false, holder->value, holder->position, r->start, r->end);
            g_ptr_array_add(holder->stays, slow);
        }
    } else if (slow == NULL)
        return result | UNCOMMIT;
    if (holder->contiguous && at_start != NULL && at_end != NULL && at_start->fast != at_end->fast)
        return result | UNCOMMIT;
    if (!holder->contiguous && !r->extend_only && !end_slow && r->hint != ECH_MSA_HINT_SLOW) {
        if (r->need_copy && !r->copy_is_slice) {
            bool has = false;
            for (guint i = 0; i < holder->stays->len; i++) {
                const Stay *stay = holder->stays->pdata[i];
                has = has || (stay->kind == ECH_MSA_COPIED && stay->before <= r->copy_latest);
            }
            if (!has)
                r->latest = MIN(r->latest, r->copy_latest);
        }
        int got = prefetch(m, r, slow);
        if (got == OK)
            return OK;
        result |= got;
    }
    if (end_fast || (start_fast && holder->contiguous))
        return result | UNCOMMIT;
    extend(slow, r->end);
    add_use(slow, r->use);
    return result;
}

/* ---- buffers that must be placed together ---- */

static int64_t corrected(const Msa *m, uint32_t step)
{
    return m->p->steps[step].corrected;
}

static bool is_candidate(const Msa *m, uint32_t step)
{
    const EchMsaStep *s = &m->p->steps[step];
    if (s->kind == ECH_MSA_COPY ? !m->o->sync_copies : s->kind == ECH_MSA_SLICE ? !m->o->sync_slices : true)
        return false;
    if (m->failed_sync[step] || m->finalized[s->result] || !m->p->values[s->result].eligible || (int64_t)m->p->values[s->result].bytes > (int64_t)m->o->size)
        return false;
    const EchMsaStep *source = &m->p->steps[m->p->values[s->operand].step];
    bool source_moves = (source->kind == ECH_MSA_COPY || source->kind == ECH_MSA_SLICE) && source->result == s->operand;
    return !(source_moves && m->p->values[s->operand].step != step && is_candidate(m, m->p->values[s->operand].step));
}

static bool is_pending(const Msa *m, uint32_t step)
{
    for (guint i = 0; i < m->candidates->len; i++)
        if (g_array_index(m->candidates, uint32_t, i) == step)
            return true;
    return false;
}

static gint compare_value(gconstpointer a, gconstpointer b, gpointer data)
{
    const EchMsaProblem *p = data;
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    const EchMsaValue *x = &p->values[i], *y = &p->values[k];
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    if (x->last != y->last)
        return x->last < y->last ? -1 : 1;
    return (i > k) - (i < k);
}

static gint compare_step(gconstpointer a, gconstpointer b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void add_once(GArray *list, uint32_t x)
{
    for (guint i = 0; i < list->len; i++)
        if (g_array_index(list, uint32_t, i) == x)
            return;
    g_array_append_val(list, x);
}

/* The value and what hangs together with it through copies and slices that may become prefetches. */
static GArray *joint_values(Msa *m, uint32_t value)
{
    const EchMsaProblem *p = m->p;
    GArray *list = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_array_append_val(list, value);
    for (guint i = 0; i < list->len; i++) {
        uint32_t v = g_array_index(list, uint32_t, i);
        for (uint32_t u = m->first_use[v]; u < m->first_use[v + 1]; u++)
            if (is_candidate(m, p->uses[u].step) && p->steps[p->uses[u].step].operand == v)
                add_once(list, p->steps[p->uses[u].step].result);
        const EchMsaStep *step = &p->steps[p->values[v].step];
        if ((step->kind == ECH_MSA_COPY || step->kind == ECH_MSA_SLICE) && step->result == v && is_candidate(m, p->values[v].step))
            add_once(list, step->operand);
    }
    g_array_sort_with_data(list, compare_value, (gpointer)(guintptr)p);
    g_array_set_size(m->candidates, 0);
    for (guint i = 0; i < list->len; i++) {
        uint32_t v = g_array_index(list, uint32_t, i);
        for (uint32_t u = m->first_use[v]; u < m->first_use[v + 1]; u++)
            if (is_candidate(m, p->uses[u].step) && p->steps[p->uses[u].step].operand == v)
                add_once(m->candidates, p->uses[u].step);
        const EchMsaStep *step = &p->steps[p->values[v].step];
        if ((step->kind == ECH_MSA_COPY || step->kind == ECH_MSA_SLICE) && step->result == v && is_candidate(m, p->values[v].step))
            add_once(m->candidates, p->values[v].step);
    }
    g_array_sort(m->candidates, compare_step);
    return list;
}

static void holder_free(gpointer data)
{
    Holder *holder = data;
    g_array_unref(holder->uses);
    g_ptr_array_unref(holder->stays);
    g_free(holder);
}

static gint compare_use(gconstpointer a, gconstpointer b, gpointer data)
{
    const EchMsaProblem *p = data;
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    uint32_t x = p->uses[i].step, y = p->uses[k].step;
    return x != y ? (x < y ? -1 : 1) : (i > k) - (i < k);
}

/* One holder per position of every value that shares the place of @value, with the uses that read it. */
static void add_holders(Msa *m, uint32_t value, GPtrArray *holders)
{
    const EchMsaProblem *p = m->p;
    const GArray *members = m->members[p->values[value].group];
    for (guint i = 0; i < members->len; i++) {
        uint32_t v = g_array_index(members, uint32_t, i);
        guint first = holders->len;
        for (uint32_t k = m->first_position[v]; k < m->first_position[v + 1]; k++) {
            Holder *holder = g_new0(Holder, 1);
            holder->position = k;
            holder->value = v;
            holder->step = p->positions[k].step;
            holder->computation = p->steps[holder->step].computation;
            holder->bytes = (int64_t)p->values[v].bytes;
            holder->contiguous = p->steps[holder->step].kind == ECH_MSA_ASYNC_START;
            holder->uses = g_array_new(FALSE, FALSE, sizeof(uint32_t));
            holder->stays = g_ptr_array_new();
            g_ptr_array_add(holders, holder);
        }
        g_autoptr(GArray) uses = g_array_new(FALSE, FALSE, sizeof(uint32_t));
        for (uint32_t u = m->first_use[v]; u < m->first_use[v + 1]; u++)
            g_array_append_val(uses, u);
        g_array_sort_with_data(uses, compare_use, (gpointer)(guintptr)p);
        for (guint k = 0; k < uses->len; k++) {
            uint32_t u = g_array_index(uses, uint32_t, k);
            Holder *home = NULL;
            for (guint h = holders->len; h > first && home == NULL; h--) {
                Holder *holder = holders->pdata[h - 1];
                if (p->uses[u].position != ECH_PLACE_NONE
                        ? holder->position == p->uses[u].position
                        : holder->step < p->uses[u].step && !holder->contiguous && holder->computation == p->steps[p->uses[u].step].computation)
                    home = holder;
            }
            if (home == NULL)
                continue;
            g_array_append_val(home->uses, u);
            m->sync_of[u] = ECH_PLACE_NONE;
        }
    }
}

static GPtrArray *joint_holders(Msa *m, const GArray *values)
{
    const EchMsaProblem *p = m->p;
    g_autoptr(GPtrArray) all = g_ptr_array_new();
    for (guint i = 0; i < values->len; i++) {
        uint32_t v = g_array_index(values, uint32_t, i);
        if (m->finalized[v] || !p->values[v].eligible)
            continue;
        if (p->values[v].bytes > m->o->size) {
            bool sliced = false;
            for (uint32_t u = m->first_use[v]; u < m->first_use[v + 1]; u++)
                sliced = sliced || (is_pending(m, p->uses[u].step) && p->steps[p->uses[u].step].kind == ECH_MSA_SLICE);
            if (!sliced)
                continue;
        }
        add_holders(m, v, all);
    }
    GPtrArray *holders = g_ptr_array_new_with_free_func(holder_free);
    for (uint32_t pass = 0; pass < 2; pass++)
        for (guint i = 0; i < all->len; i++) {
            const Holder *holder = all->pdata[i];
            bool last = is_pending(m, (uint32_t)holder->step) && p->steps[holder->step].result == holder->value;
            if (last == (pass == 1))
                g_ptr_array_add(holders, all->pdata[i]);
        }
    return holders;
}

typedef struct {
    Holder *update;
    uint32_t use;
    bool extend_only;
} Context;

static gint compare_context(gconstpointer a, gconstpointer b, gpointer data)
{
    const EchMsaProblem *p = data;
    uint32_t x = p->uses[((const Context *)a)->use].step, y = p->uses[((const Context *)b)->use].step;
    return (x > y) - (x < y);
}

static bool trivial(const Msa *m, uint32_t step)
{
    return m->p->steps[step].kind == ECH_MSA_TRIVIAL;
}

/* A loop's operand belongs in the fast memory only if the body uses it, and not too long after it begins. */
static bool loop_use_good(const Msa *m, const EchMsaUse *use)
{
    const EchMsaProblem *p = m->p;
    if (p->steps[use->step].kind != ECH_MSA_WHILE || use->loop_position == ECH_PLACE_NONE)
        return true;
    uint32_t v = p->positions[use->loop_position].value;
    int64_t parameter = p->positions[use->loop_position].step, root = (int64_t)use->step - 1, first = root;
    for (uint32_t u = m->first_use[v]; u < m->first_use[v + 1]; u++)
        if (!trivial(m, p->uses[u].step) && p->uses[u].step > parameter)
            first = MIN(first, p->uses[u].step);
    return first != root && can_keep(m, parameter, first);
}

static bool branch_use_good(const Msa *m, const Holder *holder, const EchMsaUse *use)
{
    const EchMsaProblem *p = m->p;
    if (p->steps[use->step].kind != ECH_MSA_CONDITIONAL)
        return true;
    for (guint i = 0; i < holder->uses->len; i++) {
        const EchMsaUse *other = &p->uses[g_array_index(holder->uses, uint32_t, i)];
        if (other->step != use->step || other->branch_value == ECH_PLACE_NONE)
            continue;
        uint32_t v = other->branch_value;
        int64_t parameter = other->loop_position != ECH_PLACE_NONE ? (int64_t)p->positions[other->loop_position].step : (int64_t)p->values[v].step;
        int64_t first = use->step;
        for (uint32_t u = m->first_use[v]; u < m->first_use[v + 1]; u++)
            if (!trivial(m, p->uses[u].step) && p->uses[u].step > parameter && p->uses[u].step < use->step)
                first = MIN(first, p->uses[u].step);
        if (first != use->step && can_keep(m, parameter, first))
            return true;
    }
    return false;
}

/* Whether what lies inside the conditional forbids to keep the value through it. */
static bool evict_at_conditional(const Msa *m, const Holder *holder, uint32_t use, uint32_t previous, const GPtrArray *holders)
{
    const EchMsaProblem *p = m->p;
    if (previous == ECH_PLACE_NONE || p->steps[p->uses[previous].step].kind != ECH_MSA_CONDITIONAL || p->uses[use].step == p->uses[previous].step)
        return false;
    int64_t from = corrected(m, p->uses[previous].step), to = p->uses[previous].step;
    if (to > corrected(m, p->uses[use].step))
        return false;
    uint32_t group = p->values[holder->value].group;
    for (guint i = 0; i < holders->len; i++) {
        const Holder *other = holders->pdata[i];
        if (other->step < from || other->step >= to)
            continue;
        const EchMsaStep *step = &p->steps[other->step];
        if ((step->kind == ECH_MSA_COPY || step->kind == ECH_MSA_SLICE) && step->result == other->value && is_candidate(m, (uint32_t)other->step)) {
            if (p->values[step->operand].group == group)
                continue;
            return true;
        }
        if (p->values[other->value].group != group)
            return true;
        for (guint k = 0; k < other->uses->len; k++) {
            const EchMsaUse *u = &p->uses[g_array_index(other->uses, uint32_t, k)];
            const Need *need = need_at(m, other->value, corrected(m, u->step)), *alias = aliased_need(m, u);
            const Need *defined = need_at(m, other->value, other->step);
            if (!branch_use_good(m, other, u) || (need != NULL && !need->fast) || (alias != NULL && !alias->fast) || (defined != NULL && !defined->fast))
                return true;
        }
    }
    return false;
}

static void mirror_through_conditional(Msa *m, Holder *holder, uint32_t use, uint32_t previous, GPtrArray *holders)
{
    const EchMsaProblem *p = m->p;
    if (previous == ECH_PLACE_NONE || p->steps[p->uses[previous].step].kind != ECH_MSA_CONDITIONAL || p->uses[use].step == p->uses[previous].step ||
        holder->stays->len == 0)
        return;
    const Stay *last = holder->stays->pdata[holder->stays->len - 1];
    if (!last->fast)
        return;
    bool serves = false;
    for (guint i = 0; i < last->uses->len; i++)
        serves = serves || g_array_index(last->uses, uint32_t, i) == previous;
    int64_t from = corrected(m, p->uses[previous].step), to = p->uses[previous].step, now = corrected(m, p->uses[use].step);
    if (!serves || available(last) > from || to > now || now > last->end)
        return;
    for (guint i = 0; i < holders->len; i++) {
        Holder *inner = holders->pdata[i];
        if (inner->step < from || inner->step >= to)
            continue;
        inner->done = true;
        int64_t end = inner->step;
        for (guint k = 0; k < inner->uses->len; k++)
            end = MAX(end, (int64_t)p->uses[g_array_index(inner->uses, uint32_t, k)].step);
        bool moved = is_pending(m, (uint32_t)inner->step) && p->steps[inner->step].result == inner->value;
        Stay *stay = stay_new(m, moved ? ECH_MSA_PINNED : ECH_MSA_MIRRORED, !moved, inner->value, inner->position, inner->step, end);
        stay->offset = moved ? -1 : last->offset;
        stay->original = moved ? NULL : last;
        for (guint k = 0; k < inner->uses->len; k++)
            add_use(stay, g_array_index(inner->uses, uint32_t, k));
        g_ptr_array_add(inner->stays, stay);
    }
}

/* Hands the place at the use on to what must share it. False if that contradicts a requirement. */
static bool pass_on_place(Msa *m, const Holder *holder, const EchMsaUse *use, int64_t time)
{
    Stay *stay = live_at(holder, time);
    if (stay == NULL)
        return true;
    Need need = {.fast = stay->fast, .place = stay->fast ? place_of(stay) : -1};
    for (uint32_t i = 0; i < use->n_aliases; i++) {
        const EchMsaPosition *alias = &m->p->aliases[use->first_alias + i];
        const Need *old = need_at(m, alias->value, alias->step);
        if (old != NULL && !same_need(old, &need))
            return false;
    }
    for (uint32_t i = 0; i < use->n_aliases; i++) {
        const EchMsaPosition *alias = &m->p->aliases[use->first_alias + i];
        require(m, alias->value, alias->step, need.fast, need.place, true);
    }
    return true;
}

typedef struct {
    uint32_t computation;
    int32_t place;
} BodyPlace;

static void enter_loop(Msa *m, Holder *holder, const EchMsaUse *use, int64_t time, GPtrArray *holders, GArray *body_places)
{
    const EchMsaProblem *p = m->p;
    if (p->steps[use->step].kind != ECH_MSA_WHILE)
        return;
    Stay *stay = live_at(holder, time);
    if (stay == NULL || !stay->fast)
        return;
    uint32_t body = p->steps[use->step - 1].computation;
    /* A value that the loop leaves as it is, with a copy left in the slow memory: no need to write it back there. */
    if (use->loop_value == holder->value) {
        Stay *slow = NULL;
        for (guint i = holder->stays->len; i > 0 && slow == NULL; i--) {
            Stay *s = holder->stays->pdata[i - 1];
            /* A mirror is known by where its original was made. */
            const Stay *made = s;
            while (made->kind == ECH_MSA_MIRRORED && made->original != NULL)
                made = made->original;
            if (!s->fast && made->position == holder->position)
                slow = s;
        }
        if (slow != NULL) {
            for (guint i = 0; i < holders->len; i++) {
                Holder *other = holders->pdata[i];
                if (other->value != holder->value)
                    continue;
                bool parameter = p->steps[other->step].parameter && other->computation == body;
                if (!parameter && other->step != (int64_t)use->step)
                    continue;
                Stay *copy = stay_new(m, parameter ? ECH_MSA_PARENT : ECH_MSA_MIRRORED, false, other->value, other->position, other->step, other->step);
                copy->original = slow;
                g_ptr_array_add(other->stays, copy);
            }
        }
    }
    BodyPlace entry = {body, place_of(stay)};
    for (guint i = 0; i < body_places->len; i++)
        if (g_array_index(body_places, BodyPlace, i).computation == body) {
            g_array_index(body_places, BodyPlace, i) = entry;
            return;
        }
    g_array_append_val(body_places, entry);
}

static void make_request(Msa *m, Holder *from, const Context *context, uint32_t previous, int32_t preferred, int64_t definition, const GArray *times,
                         const GPtrArray *holders, Request *ret)
{
    const EchMsaProblem *p = m->p;
    const EchMsaUse *use = &p->uses[context->use];
    Holder *update = context->update;
    Request r = {.from = from, .update = update, .use = context->use, .chunk_start = INT64_MIN, .earliest = INT64_MIN, .preferred = preferred, .times = times};
    r.copy_for = ECH_PLACE_NONE;
    r.extend_only = context->extend_only;
    r.hint = use->hint;
    r.allow_keep = use->hint != ECH_MSA_HINT_SLOW;
    r.bytes = update->bytes;
    uint32_t sync = m->sync_of[context->use];
    if (sync != ECH_PLACE_NONE && is_pending(m, sync)) {
        r.copy_for = sync;
        r.need_copy = true;
        r.copy_is_slice = p->steps[sync].kind == ECH_MSA_SLICE;
        int64_t least = corrected(m, (uint32_t)from->step), earliest = INT64_MAX;
        for (uint32_t k = m->first_position[from->value]; k < m->first_position[from->value + 1]; k++) {
            int64_t t = corrected(m, p->positions[k].step);
            if (t > least)
                earliest = MIN(earliest, t);
        }
        for (guint i = 0; i < update->uses->len; i++) {
            uint32_t step = p->uses[g_array_index(update->uses, uint32_t, i)].step;
            if (!trivial(m, step) || p->steps[step].root)
                earliest = MIN(earliest, corrected(m, step));
        }
        r.copy_latest = earliest;
        r.earliest = p->steps[sync].latest_operand;
    }
    int64_t time = use->step;
    r.latest = use->step;
    const EchMsaStep *step = &p->steps[use->step];
    if (step->kind == ECH_MSA_WHILE || step->kind == ECH_MSA_CONDITIONAL) {
        r.latest = MIN(r.latest, (int64_t)step->called_from - 1);
        time = corrected(m, use->step);
    }
    const Need *loop = step->kind == ECH_MSA_WHILE ? need_at(m, use->loop_value, use->step) : NULL;
    if ((loop != NULL && !loop->fast) || !loop_use_good(m, use))
        require(m, update->value, time, false, -1, true);
    else if (!branch_use_good(m, update, use)) {
        const Need *need = need_at(m, update->value, time);
        if (need == NULL || !need->fast)
            require(m, update->value, time, false, -1, true);
    } else if (evict_at_conditional(m, from, context->use, previous, holders)) {
        r.allow_keep = false;
        r.earliest = p->uses[previous].step;
    }
    r.start = MIN(definition, time);
    r.end = time;
    *ret = r;
}

static int check_conversion(Msa *m, const Request *r, int result)
{
    const Stay *found = NULL;
    for (guint i = 0; i < r->update->stays->len && found == NULL; i++) {
        const Stay *stay = r->update->stays->pdata[i];
        if ((stay->kind == ECH_MSA_COPIED || (stay->kind == ECH_MSA_SLICED && !r->copy_is_slice)) && stay->before <= r->copy_latest &&
            stay->sync == r->copy_for)
            found = stay;
    }
    bool has = false;
    for (guint i = 0; found != NULL && i < found->uses->len; i++)
        has = has || g_array_index(found->uses, uint32_t, i) == r->use;
    if ((result & UNCOMMIT) != 0 || !has) {
        m->failed_sync[r->copy_for] = true;
        return result | SYNC_FAILED | UNCOMMIT;
    }
    g_array_append_val(m->converted, r->copy_for);
    return result;
}

static gint compare_int64(gconstpointer a, gconstpointer b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static uint8_t reason(int result)
{
    return (uint8_t)(((result & OUT_OF_MEMORY) != 0 ? ECH_MSA_WHY_SPACE : 0) | ((result & (TOO_LONG | TOO_SHORT)) != 0 ? ECH_MSA_WHY_TIME : 0) |
                     ((result & (OUT_OF_COPIES | OUT_OF_BANDWIDTH)) != 0 ? ECH_MSA_WHY_COPIES : 0));
}

static int allocate_holders(Msa *m, GPtrArray *holders)
{
    const EchMsaProblem *p = m->p;
    g_autoptr(GArray) times = g_array_new(FALSE, FALSE, sizeof(int64_t));
    g_autoptr(GArray) body_places = g_array_new(FALSE, FALSE, sizeof(BodyPlace));
    g_autofree int64_t *definition = g_new(int64_t, MAX(holders->len, 1));
    g_autofree int32_t *preferred = g_new(int32_t, MAX(holders->len, 1));
    g_autofree bool *seen = g_new0(bool, MAX(holders->len, 1));
    g_autoptr(GHashTable) index = g_hash_table_new(NULL, NULL);
    g_array_set_size(m->converted, 0);
    for (guint i = 0; i < holders->len; i++) {
        const Holder *holder = holders->pdata[i];
        g_hash_table_insert(index, holders->pdata[i], GUINT_TO_POINTER(i));
        for (guint k = 0; k < holder->uses->len; k++) {
            int64_t step = p->uses[g_array_index(holder->uses, uint32_t, k)].step;
            g_array_append_val(times, step);
        }
    }
    g_array_sort(times, compare_int64);
    int result = OK;
    for (guint i = 0; i < holders->len; i++) {
        Holder *holder = holders->pdata[i];
        if (is_pending(m, (uint32_t)holder->step) && p->steps[holder->step].result == holder->value)
            continue;
        g_autoptr(GArray) work = g_array_new(FALSE, FALSE, sizeof(Context));
        for (guint k = 0; k < holder->uses->len; k++) {
            Context context = {holder, g_array_index(holder->uses, uint32_t, k), false};
            uint32_t step = p->uses[context.use].step;
            context.extend_only = is_pending(m, step) && p->steps[step].operand == holder->value;
            g_array_append_val(work, context);
            for (guint h = 0; context.extend_only && h < holders->len; h++) {
                Holder *target = holders->pdata[h];
                if (target->step != (int64_t)step || target->value != p->steps[step].result)
                    continue;
                for (guint u = 0; u < target->uses->len; u++) {
                    Context second = {target, g_array_index(target->uses, uint32_t, u), false};
                    m->sync_of[second.use] = step;
                    g_array_append_val(work, second);
                }
            }
        }
        g_array_sort_with_data(work, compare_context, (gpointer)(guintptr)p);
        uint32_t previous = ECH_PLACE_NONE;
        for (guint w = 0; w < work->len; w++) {
            const Context *context = &g_array_index(work, Context, w);
            const EchMsaUse *use = &p->uses[context->use];
            Holder *update = context->update;
            guint k = GPOINTER_TO_UINT(g_hash_table_lookup(index, update));
            if (!seen[k]) {
                seen[k] = true;
                definition[k] = update->step;
                preferred[k] = -1;
                for (guint b = 0; b < body_places->len; b++)
                    if (g_array_index(body_places, BodyPlace, b).computation == update->computation)
                        preferred[k] = g_array_index(body_places, BodyPlace, b).place;
            }
            const Need *alias = aliased_need(m, use);
            if (alias != NULL && alias->fast)
                preferred[k] = alias->place;
            Request request;
            make_request(m, holder, context, previous, preferred[k], definition[k], times, holders, &request);
            bool skip = (trivial(m, use->step) && !p->steps[use->step].root) || holder->done;
            if (!skip) {
                if (holder->contiguous) {
                    const Need *at_start = need_at(m, holder->value, request.start);
                    if (at_start != NULL && at_start->fast) {
                        int64_t from = request.start, offset = g_array_index(m->places, int64_t, at_start->place);
                        for (guint h = 0; h < i; h++) {
                            const Holder *earlier = holders->pdata[h];
                            for (guint s = 0; s < earlier->stays->len; s++) {
                                const Stay *stay = earlier->stays->pdata[s];
                                if (stay->fast && stay->start <= request.start && request.start <= stay->end && stay->offset == offset &&
                                    stay->bytes == request.bytes)
                                    from = MAX(from, stay->end + 1);
                            }
                        }
                        request.chunk_start = from;
                    }
                }
                int got = allocate_segment(m, &request);
                m->why[context->use] = reason(got);
                result |= got;
                if (got == OK)
                    mirror_through_conditional(m, update, context->use, previous, holders);
                if (request.need_copy)
                    result = check_conversion(m, &request, result);
                if ((result & UNCOMMIT) != 0)
                    return result;
                definition[k] = use->step;
                previous = context->use;
            }
            if (context->extend_only)
                continue;
            if (!pass_on_place(m, update, use, request.end))
                return result | UNCOMMIT;
            enter_loop(m, update, use, request.end, holders, body_places);
        }
    }
    for (guint i = 0; i < m->candidates->len; i++) {
        uint32_t step = g_array_index(m->candidates, uint32_t, i);
        bool done = false;
        for (guint k = 0; k < m->converted->len; k++)
            done = done || g_array_index(m->converted, uint32_t, k) == step;
        if (!done) {
            m->failed_sync[step] = true;
            return result | SYNC_FAILED | UNCOMMIT;
        }
    }
    return result;
}

/* ---- undoing what does not pay ---- */

typedef struct {
    uint64_t key;
    int32_t group;
} Link;

/* Requires the slow memory where a group of stays copies more than twice what is used of it. True if something new was required. */
static bool refuse_inefficient(Msa *m, GPtrArray *holders)
{
    const EchMsaProblem *p = m->p;
    if (m->o->inefficient_ratio <= 0 || holders->len == 0)
        return false;
    int64_t bytes = ((const Holder *)holders->pdata[0])->bytes;
    g_autoptr(GArray) links = g_array_new(FALSE, FALSE, sizeof(Link));
    g_autoptr(GPtrArray) stays = g_ptr_array_new();
    g_autoptr(GArray) groups = g_array_new(FALSE, FALSE, sizeof(int32_t));
    int32_t n_groups = 0;
    for (guint h = 0; h < holders->len; h++) {
        const Holder *holder = holders->pdata[h];
        for (guint s = 0; s < holder->stays->len; s++) {
            Stay *stay = holder->stays->pdata[s];
            bool from_fast = is_copy(stay) ? !stay->fast : stay->fast;
            if (!stay->fast && !from_fast)
                continue;
            int32_t group = -1;
            for (guint i = 0; from_fast && i < links->len; i++)
                if (g_array_index(links, Link, i).key == p->positions[stay->position].key)
                    group = g_array_index(links, Link, i).group;
            for (guint u = 0; stay->fast && u < stay->uses->len; u++) {
                const EchMsaUse *use = &p->uses[g_array_index(stay->uses, uint32_t, u)];
                for (guint i = 0; use->tuple_key != UINT64_MAX && i < links->len; i++) {
                    int32_t other = g_array_index(links, Link, i).group;
                    if (g_array_index(links, Link, i).key != use->tuple_key)
                        continue;
                    if (group != -1 && group != other) {
                        for (guint k = 0; k < links->len; k++)
                            if (g_array_index(links, Link, k).group == other)
                                g_array_index(links, Link, k).group = group;
                        for (guint k = 0; k < groups->len; k++)
                            if (g_array_index(groups, int32_t, k) == other)
                                g_array_index(groups, int32_t, k) = group;
                    } else
                        group = other;
                    break;
                }
            }
            if (group == -1)
                group = n_groups++;
            g_ptr_array_add(stays, stay);
            g_array_append_val(groups, group);
            for (guint u = 0; stay->fast && u < stay->uses->len; u++) {
                const EchMsaUse *use = &p->uses[g_array_index(stay->uses, uint32_t, u)];
                for (uint32_t a = 0; a < use->n_aliases; a++) {
                    Link link = {p->aliases[use->first_alias + a].key, group};
                    bool known = false;
                    for (guint i = 0; i < links->len && !known; i++)
                        if (g_array_index(links, Link, i).key == link.key) {
                            g_array_index(links, Link, i).group = group;
                            known = true;
                        }
                    if (!known)
                        g_array_append_val(links, link);
                }
            }
        }
    }
    g_autofree int64_t *copied = g_new0(int64_t, MAX(n_groups, 1)), *used = g_new0(int64_t, MAX(n_groups, 1));
    for (guint i = 0; i < stays->len; i++) {
        const Stay *stay = stays->pdata[i];
        int32_t group = g_array_index(groups, int32_t, i);
        bool from_fast = is_copy(stay) ? !stay->fast : stay->fast;
        if (is_copy(stay))
            copied[group] += bytes;
        if (from_fast && p->definition_bytes != NULL)
            used[group] += p->definition_bytes[stay->position];
        for (guint u = 0; stay->fast && u < stay->uses->len; u++)
            used[group] += p->uses[g_array_index(stay->uses, uint32_t, u)].accessed;
    }
    /* New requirements only after the pending ones are gone; find out first whether there would be any. */
    g_autoptr(GArray) sites = g_array_new(FALSE, FALSE, sizeof(EchMsaRequired));
    bool fresh = false;
    for (guint i = 0; i < stays->len; i++) {
        const Stay *stay = stays->pdata[i];
        int32_t group = g_array_index(groups, int32_t, i);
        if (copied[group] <= 0 || m->o->inefficient_ratio * (double)copied[group] <= (double)MAX(used[group], 0))
            continue;
        if (stay->fast && !is_copy(stay)) {
            EchMsaRequired site = {stay->value, p->positions[stay->position].step};
            g_array_append_val(sites, site);
        }
        for (guint u = 0; stay->fast && u < stay->uses->len; u++) {
            const EchMsaUse *use = &p->uses[g_array_index(stay->uses, uint32_t, u)];
            EchMsaRequired site = {use->value, (uint32_t)corrected(m, use->step)};
            g_array_append_val(sites, site);
        }
    }
    for (guint i = 0; i < sites->len; i++) {
        const EchMsaRequired *site = &g_array_index(sites, EchMsaRequired, i);
        const Need *need = need_at(m, site->value, site->step);
        fresh = fresh || need == NULL || need->pending;
    }
    if (!fresh)
        return false;
    uncommit(m, holders);
    for (guint i = 0; i < sites->len; i++) {
        const EchMsaRequired *site = &g_array_index(sites, EchMsaRequired, i);
        require(m, site->value, site->step, false, -1, false);
    }
    return true;
}

/* ---- finishing a buffer, repacking ---- */

static void finalize(Msa *m, GPtrArray *holders)
{
    if (m->candidates->len > 0)
        m->any_converted = true;
    g_array_set_size(m->converted, 0);
    g_autoptr(GHashTable) groups = g_hash_table_new(NULL, NULL);
    g_autoptr(GArray) refs = g_array_new(FALSE, FALSE, sizeof(BlockRef));
    for (guint h = 0; h < holders->len; h++) {
        Holder *holder = holders->pdata[h];
        for (guint s = 0; s < holder->stays->len; s++) {
            Stay *stay = holder->stays->pdata[s];
            g_ptr_array_add(m->final, stay);
            if (!stay->fast)
                continue;
            int32_t place = place_of(stay);
            gpointer known = g_hash_table_lookup(groups, GINT_TO_POINTER(place + 1));
            if (known == NULL) {
                known = GUINT_TO_POINTER(++m->next_group);
                g_hash_table_insert(groups, GINT_TO_POINTER(place + 1), known);
            }
            BlockRef ref = {stay, GPOINTER_TO_UINT(known)};
            g_array_append_val(refs, ref);
            m->edges[CLAMP(stay->start - 1, -1, (int64_t)m->n) + 1] = true;
            m->edges[CLAMP(stay->end + 1, -1, (int64_t)m->n) + 1] = true;
        }
    }
    /* Blocks of one place stand together, in the order in which the places were met. */
    for (guint i = 0; i < refs->len; i++) {
        uint32_t group = g_array_index(refs, BlockRef, i).group;
        bool first = true;
        for (guint k = 0; k < i && first; k++)
            first = g_array_index(refs, BlockRef, k).group != group;
        for (guint k = i; first && k < refs->len; k++)
            if (g_array_index(refs, BlockRef, k).group == group)
                g_array_append_val(m->blocks, g_array_index(refs, BlockRef, k));
    }
    clear_pending(m);
}

static bool repack(Msa *m)
{
    guint n = m->blocks->len;
    g_autofree EchVmemBlock *blocks = g_new0(EchVmemBlock, MAX(n, 1));
    for (guint i = 0; i < n; i++) {
        const BlockRef *ref = &g_array_index(m->blocks, BlockRef, i);
        const Stay *stay = ref->stay;
        EchVmemBlock *block = &blocks[i];
        block->group = ref->group;
        block->request.end = stay->end;
        block->request.all_orders = m->o->max_slices <= m->o->all_permutations;
        if (stay->slices == NULL) {
            block->request.n = 1;
            block->request.bytes[0] = stay->bytes;
            block->request.starts[0] = stay->start;
            continue;
        }
        block->request.n = stay->slices->len;
        for (guint k = 0; k < stay->slices->len; k++) {
            const EchMsaSlice *slice = &g_array_index(stay->slices, EchMsaSlice, k);
            uint32_t rank = 0;
            for (guint j = 0; j < stay->slices->len; j++)
                rank += g_array_index(stay->slices, EchMsaSlice, j).offset < slice->offset;
            block->request.starts[k] = (int64_t)(int32_t)slice->after + 1;
            block->request.bytes[rank] = (int64_t)slice->bytes;
            block->original[rank] = (int64_t)(int32_t)slice->after + 1;
        }
    }
    if (!ech_vmem_repack(blocks, n, m->n + 1, (int64_t)m->o->alignment, (int64_t)m->o->size))
        return false;
    ech_vmem_clear(m->vmem);
    for (guint i = 0; i < n; i++) {
        Stay *stay = g_array_index(m->blocks, BlockRef, i).stay;
        const EchVmemBlock *block = &blocks[i];
        if (stay->slices == NULL) {
            stay->offset = block->offsets[0];
            ech_vmem_add(m->vmem, (EchVmemChunk){stay->start, stay->end, stay->offset, stay->bytes});
            continue;
        }
        stay->offset = INT64_MAX;
        for (guint k = 0; k < stay->slices->len; k++) {
            EchMsaSlice *slice = &g_array_index(stay->slices, EchMsaSlice, k);
            uint32_t rank = 0;
            for (guint j = 0; j < stay->slices->len; j++)
                rank += block->offsets[j] < block->offsets[k];
            slice->offset = (uint64_t)block->offsets[k];
            slice->bytes = (EchBytes)block->request.bytes[rank];
            stay->offset = MIN(stay->offset, block->offsets[k]);
            ech_vmem_add(m->vmem, (EchVmemChunk){block->request.starts[k], stay->end, block->offsets[k], block->request.bytes[rank]});
        }
    }
    return true;
}

/* ---- before the buffers ---- */

static void place_scoped(Msa *m)
{
    const EchMsaProblem *p = m->p;
    uint32_t group = ++m->next_group;
    for (uint32_t i = 0; i < p->n_scoped; i++) {
        if (p->scoped[i].bytes == 0 || p->scoped[i].step > m->n || m->p->n_values == 0)
            continue;
        Stay *stay = stay_new(m, ECH_MSA_SCOPED, true, 0, ECH_PLACE_NONE, p->scoped[i].step, p->scoped[i].step);
        stay->value = i;
        stay->bytes = (int64_t)MIN(p->scoped[i].bytes, m->o->size);
        stay->offset = 0;
        commit_chunk(m, (EchVmemChunk){stay->start, stay->end, 0, stay->bytes});
        g_ptr_array_add(m->final, stay);
        BlockRef ref = {stay, group};
        g_array_append_val(m->blocks, ref);
    }
    clear_pending(m);
}

static void cross_program(Msa *m)
{
    const EchMsaProblem *p = m->p;
    if (!m->o->cross_program)
        return;
    uint64_t pressure = 0;
    for (uint32_t v = 0; v < p->n_values; v++)
        if (p->values[v].eligible && p->values[v].bytes <= m->o->size)
            pressure += p->values[v].bytes;
    uint32_t taken = 0;
    for (uint32_t i = 0; i < p->n_candidates && taken < m->o->max_cross_program; i++) {
        const EchMsaCandidate *c = &p->candidates[i];
        int64_t bytes = (int64_t)p->values[c->value].bytes, n = m->n;
        int64_t offset = ech_vmem_find(m->vmem, 0, n, bytes, -1);
        if (offset + bytes > (int64_t)m->o->size)
            continue;
        int64_t again = preferred_start(m, bytes, c->last_use, n, n);
        float all = elapsed(m, 0, n);
        float occupied = MAX(elapsed(m, again, n), copy_seconds(m, bytes)) + elapsed(m, 0, c->last_use);
        bool free = m->o->cross_program_free && pressure > m->o->size && occupied / all < FREE_BELOW && again > (int64_t)c->last_use && again < n;
        uint32_t group = ++m->next_group;
        for (uint32_t part = 0; part < (free ? 2u : 1u); part++) {
            Stay *stay = stay_new(m, ECH_MSA_COPIED, true, c->value, ECH_PLACE_NONE, part == 0 ? 0 : again, part == 0 && free ? (int64_t)c->last_use : n);
            stay->after = part == 0 ? -1 : again - 1;
            stay->before = part == 0 ? (int64_t)c->first_use : n;
            stay->offset = offset;
            stay->cross = true;
            register_copy(m, true, stay->after, stay->before, 0, false);
            commit_chunk(m, (EchVmemChunk){stay->start, stay->end, offset, bytes});
            if (part == 0)
                for (uint32_t u = m->first_use[c->value]; u < m->first_use[c->value + 1]; u++)
                    add_use(stay, u);
            g_ptr_array_add(m->final, stay);
            BlockRef ref = {stay, group};
            g_array_append_val(m->blocks, ref);
        }
        m->freed += free;
        m->finalized[c->value] = true;
        clear_pending(m);
        taken++;
    }
}

/* ---- the order ---- */

static gint compare_order(gconstpointer a, gconstpointer b, gpointer data)
{
    const Msa *m = data;
    const EchMsaProblem *p = m->p;
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    const EchMsaValue *x = &p->values[i], *y = &p->values[k];
    if (m->waits != NULL && m->waits[i] != m->waits[k])
        return m->waits[i] < m->waits[k] ? -1 : 1;
    if (x->boundedness != y->boundedness)
        return x->boundedness > y->boundedness ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    int64_t u = -x->duration, v = -y->duration;
    if (u != v)
        return u < v ? -1 : 1;
    u = v = -1;
    for (uint32_t s = m->first_use[i]; s < m->first_use[i + 1]; s++)
        u = MAX(u, (int64_t)p->uses[s].step);
    for (uint32_t s = m->first_use[k]; s < m->first_use[k + 1]; s++)
        v = MAX(v, (int64_t)p->uses[s].step);
    if (u != v)
        return u < v ? -1 : 1;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* The longest time from the definition or one use of a value to the next; what nothing reads waits for ever. */
static float *longest_waits(const Msa *m)
{
    const EchMsaProblem *p = m->p;
    float *waits = g_new0(float, MAX(p->n_values, 1));
    for (uint32_t v = 0; v < p->n_values; v++) {
        int64_t at = p->values[v].step;
        waits[v] = m->first_use[v] == m->first_use[v + 1] ? HUGE_VALF : 0;
        bool parameter = p->steps[at].parameter;
        for (uint32_t u = m->first_use[v]; u < m->first_use[v + 1]; u++) {
            /* Uses are by step; a parameter waits only from its first use on, it can be fetched for that. */
            if (!parameter || u > m->first_use[v])
                waits[v] = MAX(waits[v], elapsed(m, at, p->uses[u].step));
            at = p->uses[u].step;
        }
    }
    return waits;
}

static void process(Msa *m, uint32_t value)
{
    GArray *values = joint_values(m, value);
    GPtrArray *holders = joint_holders(m, values);
    bool repacked = false;
    uint32_t guard = 0;
    for (int64_t retry = 0; holders->len > 0 && retry < (int64_t)m->o->max_retries && guard < 1000; retry++, guard++) {
        m->retry = (uint32_t)retry;
        int result = allocate_holders(m, holders);
        if ((result & SYNC_FAILED) != 0) {
            uncommit(m, holders);
            g_ptr_array_unref(holders);
            g_array_unref(values);
            values = joint_values(m, value);
            holders = joint_holders(m, values);
            retry--;
        } else if ((result & UNCOMMIT) != 0) {
            uncommit(m, holders);
            if (retry > 0 && m->candidates->len > 0) {
                m->failed_sync[g_array_index(m->candidates, uint32_t, 0)] = true;
                g_ptr_array_unref(holders);
                g_array_unref(values);
                values = joint_values(m, value);
                holders = joint_holders(m, values);
                retry--;
            }
        } else if ((result & OUT_OF_MEMORY) != 0 && m->repacks < m->o->max_repacks && !repacked && !m->any_converted) {
            uncommit(m, holders);
            m->repacks++;
            repacked = true;
            if (repack(m)) {
                m->repacks_good++;
                retry--;
            }
        } else {
            if (m->candidates->len == 0 && refuse_inefficient(m, holders)) {
                retry--;
                continue;
            }
            finalize(m, holders);
            break;
        }
    }
    for (guint i = 0; i < values->len; i++)
        m->finalized[g_array_index(values, uint32_t, i)] = true;
    m->finalized[value] = true;
    g_ptr_array_unref(holders);
    g_array_unref(values);
}

static void collect_result(Msa *m, EchMsaResult *result)
{
    const EchMsaProblem *p = m->p;
    uint32_t n_slices = 0, n_uses = 0;
    for (guint i = 0; i < m->final->len; i++) {
        const Stay *stay = m->final->pdata[i];
        n_slices += stay->slices != NULL ? stay->slices->len : 0;
        n_uses += stay->uses->len;
    }
    result->stays = g_new0(EchMsaStay, MAX(m->final->len, 1));
    result->n_stays = m->final->len;
    result->slices = g_new0(EchMsaSlice, MAX(n_slices, 1));
    result->use_list = g_new0(uint32_t, MAX(n_uses, 1));
    result->use_fast = g_new0(bool, MAX(p->n_uses, 1));
    n_slices = n_uses = 0;
    for (guint i = 0; i < m->final->len; i++) {
        const Stay *stay = m->final->pdata[i];
        EchMsaStay *out = &result->stays[i];
        *out = (EchMsaStay){.kind = stay->kind,
                            .fast = stay->fast,
                            .value = stay->value,
                            .position = stay->position,
                            .bytes = (EchBytes)stay->bytes,
                            .start = stay->start,
                            .end = stay->end,
                            .copy_after = stay->after,
                            .copy_before = stay->before,
                            .cross_program = stay->cross,
                            .sync_step = stay->sync,
                            .first_slice = n_slices,
                            .first_use = n_uses,
                            .n_uses = stay->uses->len};
        if (stay->fast) {
            const Stay *real = stay;
            while (real->kind == ECH_MSA_MIRRORED && real->original != NULL)
                real = real->original;
            out->offset = (uint64_t)real->offset;
            result->peak = MAX(result->peak, out->offset + out->bytes);
        }
        for (guint k = 0; stay->slices != NULL && k < stay->slices->len; k++)
            result->slices[n_slices++] = g_array_index(stay->slices, EchMsaSlice, k);
        out->n_slices = n_slices - out->first_slice;
        for (guint k = 0; k < stay->uses->len; k++) {
            uint32_t use = g_array_index(stay->uses, uint32_t, k);
            result->use_list[n_uses++] = use;
            result->use_fast[use] = stay->fast;
        }
        if (is_copy(stay))
            *(stay->fast ? &result->prefetched : &result->evicted) += out->bytes;
    }
    result->repacks = m->repacks;
    result->repacks_good = m->repacks_good;
    result->freed = m->freed;
}

void ech_msa_options_default(EchMsaOptions *options)
{
    *options = (EchMsaOptions){
        .alignment = 4096,
        .min_overlap = 1,
        .preferred_overlap = 2,
        .max_overlap = 8,
        .max_prefetches = 40,
        .max_evictions = 40,
        .while_extra = 4,
        .max_retries = 2,
        .max_repacks = 4,
        .max_cross_program = 1,
        .cross_program = true,
        .cross_program_free = true,
        .min_slice_bytes = 1048576,
        .all_permutations = 4,
        .inefficient_ratio = 0.5,
        .sync_copies = true,
        .sync_slices = true,
    };
}

EchMsaResult *ech_msa_run(const EchMsaProblem *problem)
{
    EchMsaResult *result = g_new0(EchMsaResult, 1);
    Msa state = {.p = problem, .o = &problem->options, .n = problem->n_steps}, *m = &state;
    prepare_times(m);
    uint32_t n = m->n, values = problem->n_values;
    m->vmem = ech_vmem_new(n + 2, (int64_t)m->o->alignment);
    ech_vmem_keep_largest_gap(m->vmem, m->o->keep_largest_gap);
    m->peak = g_new0(int64_t, n + 2);
    resource_init(&m->fetch, problem);
    resource_init(&m->evict, problem);
    m->fetch_starts = g_new0(int64_t, n + 4);
    m->fetch_ends = g_new0(int64_t, n + 4);
    m->evict_starts = g_new0(int64_t, n + 4);
    m->evict_ends = g_new0(int64_t, n + 4);
    m->needs = g_new0(GArray *, MAX(values, 1));
    m->pending_needs = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    m->pending_chunks = g_array_new(FALSE, FALSE, sizeof(EchVmemChunk));
    m->pending_fetch = g_array_new(FALSE, FALSE, sizeof(Copy));
    m->pending_evict = g_array_new(FALSE, FALSE, sizeof(Copy));
    m->intervals = g_hash_table_new(NULL, NULL);
    m->places = g_array_new(FALSE, FALSE, sizeof(int64_t));
    m->final = g_ptr_array_new();
    m->all = g_ptr_array_new_with_free_func(stay_free);
    m->blocks = g_array_new(FALSE, FALSE, sizeof(BlockRef));
    m->finalized = g_new0(bool, MAX(values, 1));
    m->failed_sync = g_new0(bool, n + 1);
    m->candidates = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    m->converted = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    m->edges = g_new0(bool, n + 3);
    m->sync_of = g_new(uint32_t, MAX(problem->n_uses, 1));
    m->why = g_new0(uint8_t, MAX(problem->n_uses, 1));
    for (uint32_t u = 0; u < problem->n_uses; u++)
        m->sync_of[u] = ECH_PLACE_NONE;
    m->first_use = g_new0(uint32_t, values + 1);
    m->first_position = g_new0(uint32_t, values + 1);
    for (uint32_t u = 0; u < problem->n_uses; u++)
        m->first_use[problem->uses[u].value + 1]++;
    for (uint32_t k = 0; k < problem->n_positions; k++)
        m->first_position[problem->positions[k].value + 1]++;
    uint32_t n_groups = 0;
    for (uint32_t v = 0; v < values; v++) {
        m->first_use[v + 1] += m->first_use[v];
        m->first_position[v + 1] += m->first_position[v];
        n_groups = MAX(n_groups, problem->values[v].group + 1);
    }
    m->members = g_new0(GArray *, MAX(n_groups, 1));
    for (uint32_t v = 0; v < values; v++) {
        GArray **members = &m->members[problem->values[v].group];
        if (*members == NULL)
            *members = g_array_new(FALSE, FALSE, sizeof(uint32_t));
        g_array_append_val(*members, v);
    }
    for (uint32_t g = 0; g < n_groups; g++)
        if (m->members[g] != NULL)
            g_array_sort_with_data(m->members[g], compare_value, (gpointer)(guintptr)problem);

    place_scoped(m);
    cross_program(m);
    for (uint32_t i = 0; i < problem->n_required; i++)
        require(m, problem->required[i].value, problem->required[i].step, false, -1, false);
    g_autoptr(GArray) order = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (uint32_t v = 0; v < values; v++)
        if (problem->values[v].eligible)
            g_array_append_val(order, v);
    m->waits = m->o->belady ? longest_waits(m) : NULL;
    g_array_sort_with_data(order, compare_order, m);
    for (guint i = 0; i < order->len; i++)
        if (!m->finalized[g_array_index(order, uint32_t, i)])
            process(m, g_array_index(order, uint32_t, i));

    collect_result(m, result);
    result->use_why = g_steal_pointer(&m->why);
    result->n_order = order->len;
    result->order = (uint32_t *)(void *)g_array_free(g_steal_pointer(&order), FALSE);

    ech_vmem_free(m->vmem);
    for (uint32_t v = 0; v < values; v++)
        if (m->needs[v] != NULL)
            g_array_unref(m->needs[v]);
    for (uint32_t g = 0; g < n_groups; g++)
        if (m->members[g] != NULL)
            g_array_unref(m->members[g]);
    for (uint32_t i = 0; i < 2; i++) {
        Resource *r = i == 0 ? &m->fetch : &m->evict;
        g_free(r->offered);
        g_free(r->delay);
        g_array_unref(r->copies);
        g_array_unref(r->undo);
    }
    g_array_unref(m->pending_needs);
    g_array_unref(m->pending_chunks);
    g_array_unref(m->pending_fetch);
    g_array_unref(m->pending_evict);
    g_array_unref(m->places);
    g_hash_table_unref(m->intervals);
    g_array_unref(m->blocks);
    g_array_unref(m->candidates);
    g_array_unref(m->converted);
    g_ptr_array_unref(m->final);
    g_ptr_array_unref(m->all);
    g_free(m->cumulative);
    g_free(m->nest);
    g_free(m->while_nest);
    g_free(m->lower);
    g_free(m->peak);
    g_free(m->fetch_starts);
    g_free(m->fetch_ends);
    g_free(m->evict_starts);
    g_free(m->evict_ends);
    g_free(m->needs);
    g_free(m->members);
    g_free(m->finalized);
    g_free(m->failed_sync);
    g_free(m->edges);
    g_free(m->sync_of);
    g_free(m->waits);
    g_free(m->first_use);
    g_free(m->first_position);
    return result;
}

void ech_msa_result_free(EchMsaResult *result)
{
    if (result == NULL)
        return;
    g_free(result->stays);
    g_free(result->slices);
    g_free(result->use_list);
    g_free(result->use_fast);
    g_free(result->use_why);
    g_free(result->order);
    g_free(result);
}

typedef struct {
    int64_t start, end;
    uint64_t offset, bytes;
    uint32_t value;
} Row;

static gint compare_row(gconstpointer a, gconstpointer b)
{
    const Row *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

char *ech_msa_check(const EchMsaProblem *problem, const EchMsaResult *result)
{
    g_autoptr(GArray) rows = g_array_new(FALSE, FALSE, sizeof(Row));
    for (uint32_t i = 0; i < result->n_stays; i++) {
        const EchMsaStay *stay = &result->stays[i];
        if (!stay->fast || stay->kind == ECH_MSA_MIRRORED)
            continue;
        uint32_t group = stay->kind == ECH_MSA_SCOPED ? ECH_PLACE_NONE : problem->values[stay->value].group;
        for (uint32_t k = 0; k < MAX(stay->n_slices, 1); k++) {
            Row row = {stay->start, stay->end, stay->offset, stay->bytes, group};
            if (stay->n_slices > 0) {
                const EchMsaSlice *slice = &result->slices[stay->first_slice + k];
                row = (Row){(int64_t)(int32_t)slice->after + 1, stay->end, slice->offset, slice->bytes, group};
            }
            g_array_append_val(rows, row);
            if (row.offset % problem->options.alignment != 0)
                return g_strdup_printf("value %u: offset %" G_GUINT64_FORMAT " is not a multiple of %" G_GUINT64_FORMAT, stay->value, row.offset,
                                       problem->options.alignment);
            if (row.offset + row.bytes > problem->options.size)
                return g_strdup_printf("value %u: ends at %" G_GUINT64_FORMAT ", limit %" G_GUINT64_FORMAT, stay->value, row.offset + row.bytes,
                                       problem->options.size);
        }
    }
    g_array_sort(rows, compare_row);
    for (guint i = 0; i < rows->len; i++)
        for (guint k = i + 1; k < rows->len; k++) {
            const Row *a = &g_array_index(rows, Row, i), *b = &g_array_index(rows, Row, k);
            if (b->start >= a->end)
                break;
            if (a->value != b->value && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes)
                return g_strdup_printf("groups %u and %u overlap at step %" G_GINT64_FORMAT, a->value, b->value, b->start);
        }
    return NULL;
}
