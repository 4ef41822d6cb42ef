#include "models/place/msa_private.h"

#include "sim/base/compare.h"

#define SLICE_CAUTION 1.8f              /* sliced prefetches must find this much more bandwidth than they need [XLA algorithm, kSlicedCopyResourceInflation] */
#define RESOURCE_SCALE 1099511627776.0f /* 2^40: copy seconds as integers */
#define MOST ((int64_t)1 << 60)         /* of them, 12 days: longer times, and sums of them, count as that */

void ech_msa_prepare_times(Msa *m)
{
    const EchMsaProblem *p = m->p;
    m->cumulative = g_new0(float, m->n + 1);
    m->nest = g_new0(uint32_t, m->n + 1);
    m->while_nest = g_new0(uint32_t, m->n + 1);
    m->lower = g_new0(int64_t, m->n + 1);
    m->power[0] = 1.0f;
    for (uint32_t i = 1; i < G_N_ELEMENTS(m->power); i++) /* a loop counts as 5 trips; more than 15 nested ones as 15 */
        m->power[i] = i < 16 ? m->power[i - 1] * 5.0f : m->power[i - 1];
    float sum = 0;
    for (uint32_t t = 0; t <= m->n; t++) {
        if (t < m->n) {
            m->nest[t] = p->steps[t].nest;
            m->while_nest[t] = MIN(p->steps[t].while_nest, G_N_ELEMENTS(m->power) - 1);
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

float ech_msa_elapsed(const Msa *m, int64_t from, int64_t to)
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

int64_t ech_msa_overlapping(const Msa *m, const int64_t *starts, const int64_t *ends, int64_t from, int64_t to)
{
    return tree_sum(starts, m->n, to) - tree_sum(ends, m->n, from - 1);
}

static int64_t scaled(float seconds)
{
    float amount = seconds * RESOURCE_SCALE;
    return amount < (float)MOST ? (int64_t)amount : MOST;
}

void ech_msa_resource_init(Resource *r, const EchMsaProblem *p)
{
    r->offered = g_new0(int64_t, p->n_steps + 1);
    r->delay = g_new0(int64_t, p->n_steps + 2);
    r->copies = g_array_new(FALSE, FALSE, sizeof(Copy));
    r->undo = g_array_new(FALSE, FALSE, 2 * sizeof(int64_t));
    for (uint32_t t = 0; t < p->n_steps; t++)
        r->offered[t] = scaled((float)(1 - p->steps[t].taken) * (float)p->steps[t].seconds);
}

static guint first_after(const Resource *r, int64_t start)
{
    guint low = 0, high = r->copies->len;
    ECH_SEARCH(low, high, middle, g_array_index(r->copies, Copy, middle).after <= start);
    return low;
}

/* Takes @amount of the seconds in (after, before), pushing later copies back; or gives @release back. With @log the changes can be undone. */
static bool consume(const Msa *m, Resource *r, int64_t after, int64_t before, int64_t amount, int64_t release, bool log)
{
    int64_t n = m->n;
    if (amount == 0 && release == 0)
        return true;
    guint next = first_after(r, after);
    amount = MIN(amount + r->delay[CLAMP(after + 1, 0, n)], MOST);
    while (true) {
        bool has_delay = false;
        int64_t pass_on = 0, freed = 0;
        for (int64_t t = after + 1; t < before && t < n && amount != 0; t++) {
            int64_t offered = r->offered[t], used = MIN(amount, offered);
            if (next < r->copies->len && g_array_index(r->copies, Copy, next).after == t - 1) {
                has_delay = true;
                pass_on = amount;
                release = MAX(release - freed, -MOST);
            }
            if (!has_delay) {
                int64_t old = r->delay[t], old_left = MAX(0, offered - old), now = MAX(0, amount - release);
                freed = MIN(freed + MAX(0, MAX(0, offered - now) - old_left), MOST);
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
        amount = MIN(pass_on + copy->amount, MOST);
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

bool ech_msa_enough(const Msa *m, Resource *r, int64_t after, int64_t before, float seconds)
{
    bool result = consume(m, r, after, before, scaled(seconds), 0, true);
    undo(r);
    return result;
}

bool ech_msa_enough_for(const Msa *m, Resource *r, uint32_t n, const int64_t *starts, int64_t end, const float *seconds)
{
    bool result = true;
    for (uint32_t i = 0; i < n && result; i++)
        result = consume(m, r, starts[i], end, scaled(n > 1 ? seconds[i] * SLICE_CAUTION : seconds[i]), 0, true);
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

bool ech_msa_breaks_fifo(const Msa *m, int64_t after, int64_t before)
{
    for (guint i = 0; i < m->fetch.copies->len; i++) {
        const Copy *c = &g_array_index(m->fetch.copies, Copy, i);
        if ((c->after < after && c->before > before) || (c->after > after && c->before < before))
            return true;
    }
    return false;
}

Stay *ech_msa_stay_new(Msa *m, EchMsaKind kind, bool fast, uint32_t value, uint32_t position, int64_t start, int64_t end)
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

void ech_msa_stay_free(gpointer data)
{
    Stay *stay = data;
    if (stay->slices != NULL)
        g_array_unref(stay->slices);
    g_array_unref(stay->uses);
    g_free(stay);
}

void ech_msa_set_place(Msa *m, Stay *stay, int32_t place)
{
    if (place < 0) {
        place = (int32_t)m->places->len;
        g_array_append_val(m->places, stay->offset);
    }
    stay->place = place;
}

Stay *ech_msa_live_at(const Holder *holder, int64_t time)
{
    for (guint i = holder->stays->len; i > 0; i--) {
        Stay *stay = holder->stays->pdata[i - 1];
        if (stay->start <= time && stay->end >= time)
            return stay;
    }
    return NULL;
}

Stay *ech_msa_last_slow(const Holder *holder)
{
    for (guint i = holder->stays->len; i > 0; i--)
        if (!((Stay *)holder->stays->pdata[i - 1])->fast)
            return holder->stays->pdata[i - 1];
    return NULL;
}

void ech_msa_commit_chunk(Msa *m, EchVmemChunk chunk)
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

void ech_msa_register_copy(Msa *m, bool fetch, int64_t after, int64_t before, float seconds, bool slice)
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

Stay *ech_msa_add_copy(Msa *m, Holder *holder, bool fast, int64_t offset, int64_t bytes, int64_t after, int64_t end, int64_t before, int32_t place,
                       float seconds, uint32_t sync)
{
    Stay *stay = ech_msa_stay_new(m, ECH_MSA_COPIED, fast, holder->value, holder->position, after + 1, end);
    stay->after = after;
    stay->before = before;
    stay->offset = offset;
    stay->bytes = bytes;
    stay->sync = sync;
    g_ptr_array_add(holder->stays, stay);
    ech_msa_register_copy(m, fast, after, before, seconds, false);
    if (fast)
        ech_msa_set_place(m, stay, place);
    return stay;
}

const Need *ech_msa_need_at(const Msa *m, uint32_t value, int64_t time)
{
    if (value == ECH_PLACE_NONE || m->needs[value] == NULL)
        return NULL;
    for (guint i = 0; i < m->needs[value]->len; i++)
        if (g_array_index(m->needs[value], Need, i).time == time)
            return &g_array_index(m->needs[value], Need, i);
    return NULL;
}

void ech_msa_require(Msa *m, uint32_t value, int64_t time, bool fast, int32_t place, bool pending)
{
    if (ech_msa_need_at(m, value, time) != NULL)
        return;
    if (m->needs[value] == NULL)
        m->needs[value] = g_array_new(FALSE, FALSE, sizeof(Need));
    Need need = {time, fast, pending, place};
    g_array_append_val(m->needs[value], need);
    if (pending)
        g_array_append_val(m->pending_needs, value);
}

const Need *ech_msa_aliased_need(const Msa *m, const EchMsaUse *use)
{
    for (uint32_t i = 0; i < use->n_aliases; i++) {
        const EchMsaPosition *alias = &m->p->aliases[use->first_alias + i];
        const Need *need = ech_msa_need_at(m, alias->value, alias->step);
        if (need != NULL)
            return need;
    }
    return NULL;
}

/* Changes what the fast memory holds for a color by its room. */
static void move_color(Msa *m, const Color *color, bool in)
{
    EchVmemChunk chunk = {color->time, color->time, color->stay->offset, color->stay->bytes};
    if (in)
        ech_vmem_add(m->vmem, chunk);
    else
        ech_vmem_remove(m->vmem, chunk);
    m->peak[color->time] += in ? chunk.bytes : -chunk.bytes;
}

Asked ech_msa_asked(Msa *m, const Holder *holder, int64_t start, int64_t end)
{
    Asked asked = {0};
    guint low = 0, high = m->colors->len;
    ECH_SEARCH(low, high, middle, g_array_index(m->colors, Color, middle).value < holder->value);
    for (; low < m->colors->len && g_array_index(m->colors, Color, low).value == holder->value; low++) {
        Color *color = &g_array_index(m->colors, Color, low);
        bool at_start = start == holder->step && color->time == start, at_end = color->time == end;
        asked.start_fast |= at_start && color->stay != NULL;
        asked.start_slow |= at_start && color->stay == NULL;
        asked.end_fast |= at_end && color->stay != NULL;
        asked.end_slow |= at_end && color->stay == NULL;
        if (!color->kept || (!at_start && !at_end))
            continue;
        color->kept = false;
        color->pending = true;
        m->colors_pending = true;
        move_color(m, color, false);
    }
    return asked;
}

/* What was given up since the last call is given up for good, or is there again. */
static void settle_colors(Msa *m, bool back)
{
    for (guint i = 0; m->colors_pending && i < m->colors->len; i++) {
        Color *color = &g_array_index(m->colors, Color, i);
        if (!color->pending)
            continue;
        color->pending = false;
        color->kept = back;
        if (back) {
            move_color(m, color, true);
            continue;
        }
        for (guint k = 0; k < m->blocks->len; k++)
            if (g_array_index(m->blocks, BlockRef, k).stay == color->stay) {
                g_array_remove_index(m->blocks, k);
                break;
            }
    }
    m->colors_pending = false;
}

void ech_msa_clear_pending(Msa *m)
{
    settle_colors(m, false);
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

void ech_msa_uncommit(Msa *m, GPtrArray *holders)
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
    settle_colors(m, true);
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
    ech_msa_clear_pending(m);
}

static gint compare_color(gconstpointer a, gconstpointer b)
{
    const Color *x = a, *y = b;
    return (x->value > y->value) - (x->value < y->value);
}

void ech_msa_keep_colors(Msa *m)
{
    const EchMsaProblem *p = m->p;
    for (uint32_t i = 0; i < p->n_colors; i++) {
        const EchMsaColor *asked = &p->colors[i];
        Color color = {.value = asked->value, .time = asked->step, .kept = asked->fast};
        if (asked->fast) {
            int64_t bytes = (int64_t)p->values[asked->value].bytes, offset = ech_vmem_find(m->vmem, color.time, color.time, bytes, -1);
            if (bytes == 0 || offset + bytes > (int64_t)m->o->size)
                continue;
            color.stay = ech_msa_stay_new(m, ECH_MSA_PINNED, true, asked->value, ECH_PLACE_NONE, color.time, color.time);
            color.stay->offset = offset;
            ech_msa_commit_chunk(m, (EchVmemChunk){color.time, color.time, offset, bytes});
            BlockRef ref = {color.stay, ++m->next_group};
            g_array_append_val(m->blocks, ref);
        }
        g_array_append_val(m->colors, color);
    }
    g_array_sort(m->colors, compare_color);
    ech_msa_clear_pending(m);
}
