#include "models/place/msa_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define KERNEL_SECONDS 2e-9  /* what takes longer is a kernel, not a name for data */
#define DECREASING_STEPS 100 /* earlier starts tried once the later ones are used up [XLA picker] */
#define EVICTION_RETRY 2.0f  /* a retry asks for 1 + 2 x retry times the distance [XLA picker] */

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
    ech_msa_commit_chunk(m, (EchVmemChunk){want.starts[0], r->end, offset, r->bytes});
    if (before != NULL)
        extend(before, r->end);
    else {
        Stay *stay = ech_msa_stay_new(m, ECH_MSA_PINNED, true, holder->value, holder->position, r->start, r->end);
        stay->offset = offset;
        stay->bytes = r->bytes;
        g_ptr_array_add(holder->stays, stay);
        ech_msa_set_place(m, stay, preferred);
    }
    if (!r->extend_only)
        add_use(holder->stays->pdata[holder->stays->len - 1], r->use);
    return OK;
}

static int evict(Msa *m, const Request *r, bool force)
{
    Holder *holder = r->from;
    Stay *before = holder->stays->pdata[holder->stays->len - 1];
    int64_t start = before->start, end = before->end, bytes = MAX(holder->bytes, r->bytes);
    float seconds = picker_seconds(m, r->update->bytes);
    int64_t preferred = start + 1;
    float wanted = (1.0f + EVICTION_RETRY * (float)m->retry) * (float)m->o->preferred_overlap * seconds;
    while (preferred <= r->end && ech_msa_elapsed(m, start, preferred) < wanted)
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
    end = until;
    float resource = copy_seconds(m, holder->bytes);
    bool too_short = start == end;
    bool busy = !ech_msa_enough(m, &m->evict, start, end, resource);
    if (busy) {
        if (m->retry + 1 == m->o->max_retries)
            resource = 0;
        busy = !ech_msa_enough(m, &m->evict, start, end, resource);
    }
    bool many = m->o->max_evictions >= 0 && ech_msa_overlapping(m, m->evict_starts, m->evict_ends, start + 1, end) + 1 >= m->o->max_evictions;
    if ((too_short || busy || many) && force) {
        ech_msa_add_copy(m, holder, false, -1, holder->bytes, before->end, r->end, before->end + 1, -1, 0, ECH_PLACE_NONE);
        return OK;
    }
    if (too_short || busy || many)
        return OUT_OF_COPIES;
    int64_t old = before->end;
    extend(before, end);
    if (found)
        ech_msa_commit_chunk(m, (EchVmemChunk){old + 1, end, before->offset, bytes});
    ech_msa_add_copy(m, holder, false, -1, holder->bytes, start, before->end, end, -1, resource, ECH_PLACE_NONE);
    return OK;
}

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
        target = ech_msa_elapsed(m, time, pick->end) + ech_msa_elapsed(m, pick->earliest, pick->end) / DECREASING_STEPS;
    while (pick->down >= pick->earliest && (m->nest[pick->down] != nest || ech_msa_elapsed(m, pick->down, pick->end) < target))
        pick->down--;
    if (pick->up <= pick->latest)
        pick->rising = true;
    return time;
}

int64_t ech_msa_preferred_start(const Msa *m, int64_t bytes, int64_t earliest, int64_t latest, int64_t end)
{
    float wanted = (float)m->o->preferred_overlap * picker_seconds(m, bytes), best = ech_msa_elapsed(m, earliest, end);
    int64_t at = earliest;
    for (int64_t t = earliest + 1; t <= latest; t++) {
        float distance = ech_msa_elapsed(m, t, end);
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
    while (pick->latest >= start && (m->nest[pick->latest] != nest || least > ech_msa_elapsed(m, pick->latest, end) + pick->reduction))
        pick->latest--;
    pick->earliest = start;
    while (pick->earliest < pick->latest && (m->nest[pick->earliest] != nest || m->max_seconds < ech_msa_elapsed(m, pick->earliest, end)))
        pick->earliest++;
    if (pick->earliest > pick->latest) {
        pick->up = pick->earliest;
        pick->down = pick->latest;
        return;
    }
    int64_t at = m->o->on_demand ? pick->latest : ech_msa_preferred_start(m, r->update->bytes, pick->earliest, pick->latest, end);
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
    if (m->o->alignment > 1 && piece * each % (int64_t)m->o->alignment != 0)
        return 0; /* every slice begins where an array may */
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
    float all = ech_msa_elapsed(m, start, end);
    if (all <= 0)
        return;
    uint32_t count = 1, home = m->p->steps[MAX(start, 0)].computation;
    int64_t valid = start, at = start;
    while (at < end - 1 && count < n) {
        float target = all * (float)(n - count) / (float)n;
        if (ech_msa_elapsed(m, at, end) < target) {
            starts[count++] = valid;
            continue;
        }
        bool matters = valid != at && ech_msa_elapsed(m, valid, at + 1) > 0;
        if (matters && m->p->steps[MAX(at, 0)].computation == home)
            valid = at;
        at++;
    }
    while (count < n)
        starts[count++] = valid;
}

static bool too_many(const Msa *m, int64_t start, int64_t end, int64_t extra, int64_t more)
{
    return m->o->max_prefetches >= 0 && ech_msa_overlapping(m, m->fetch_starts, m->fetch_ends, start, end) + more >= m->o->max_prefetches + extra;
}

typedef struct {
    bool found;
    uint32_t n;
    int64_t starts[ECH_VMEM_MAX_SLICES], offsets[ECH_VMEM_MAX_SLICES], sizes[ECH_VMEM_MAX_SLICES]; /* by start */
    float seconds[ECH_VMEM_MAX_SLICES];
} Solution;

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
            if (ech_msa_breaks_fifo(m, s.starts[i], end))
                return OUT_OF_BANDWIDTH;
    for (uint32_t i = 0; i < n; i++)
        if (too_many(m, s.starts[i], end, extra, i))
            return OUT_OF_COPIES;
    if (!ech_msa_enough_for(m, &m->fetch, n, s.starts, end, s.seconds))
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
    if (n > 1 && !ech_msa_enough_for(m, &m->fetch, n, s.starts, end, s.seconds))
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
        ech_msa_commit_chunk(m, (EchVmemChunk){s->starts[i] + 1, s->starts[last], s->offsets[i], s->sizes[i]});
    ech_msa_commit_chunk(m, (EchVmemChunk){s->starts[last] + 1, r->end, lowest, bytes});
    Stay *stay = ech_msa_stay_new(m, ECH_MSA_SLICED, true, r->update->value, r->update->position, s->starts[0] + 1, r->end);
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
        ech_msa_register_copy(m, true, s->starts[i], end, s->seconds[i], true);
    ech_msa_set_place(m, stay, r->preferred);
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
        ech_msa_commit_chunk(m, (EchVmemChunk){unsliced.starts[0] + 1, r->end, unsliced.offsets[0], r->bytes});
        Stay *stay = ech_msa_add_copy(m, r->update, true, unsliced.offsets[0], r->bytes, unsliced.starts[0], r->end, end, r->preferred, unsliced.seconds[0],
                                      r->copy_for);
        extend(slow, r->latest);
        add_use(stay, r->use);
        return OK;
    }
    return result == OK ? TOO_SHORT : result;
}

/* The fast memory for the one step at which a kernel asks for it; there was room kept. NULL if there is none. */
static Stay *force_place(Msa *m, const Request *r, int64_t step, bool copy)
{
    Holder *holder = r->from;
    int64_t offset = ech_vmem_find(m->vmem, step, step, r->bytes, -1);
    if (offset + r->bytes > (int64_t)m->o->size)
        return NULL;
    ech_msa_commit_chunk(m, (EchVmemChunk){step, step, offset, r->bytes});
    if (copy)
        return ech_msa_add_copy(m, holder, true, offset, r->bytes, step - 1, step, step, -1, 0, r->copy_for);
    Stay *stay = ech_msa_stay_new(m, ECH_MSA_PINNED, true, holder->value, holder->position, step, step);
    stay->offset = offset;
    stay->bytes = r->bytes;
    g_ptr_array_add(holder->stays, stay);
    ech_msa_set_place(m, stay, -1);
    return stay;
}

/* Where something is required at the segment's start: a stay in that memory goes on until there, or one begins there. */
static void meet_start(Msa *m, const Request *r, const Need *need)
{
    Holder *holder = r->from;
    for (guint i = holder->stays->len; i > 0; i--) {
        Stay *stay = holder->stays->pdata[i - 1];
        if (stay->fast != need->fast)
            continue;
        extend(stay, r->start);
        return;
    }
    Stay *stay = ech_msa_stay_new(m, ECH_MSA_PINNED, need->fast, holder->value, holder->position, r->start, r->start);
    stay->bytes = r->bytes;
    g_ptr_array_add(holder->stays, stay);
    if (need->fast) {
        stay->offset = g_array_index(m->places, int64_t, need->place);
        ech_msa_set_place(m, stay, need->place);
    }
}

/* A fetch in place of a synchronous copy is done by the time that this is read, unless an earlier one is. */
static void limit_copy(Request *r)
{
    for (guint i = 0; i < r->from->stays->len; i++) {
        const Stay *stay = r->from->stays->pdata[i];
        if (stay->kind == ECH_MSA_COPIED && stay->before <= r->copy_latest)
            return;
    }
    r->latest = MIN(r->latest, r->copy_latest);
}

int ech_msa_allocate_segment(Msa *m, Request *r)
{
    const EchMsaUse *use = &m->p->uses[r->use];
    Holder *holder = r->from;
    if (r->start == r->end) {
        Stay *stay = ech_msa_live_at(r->update, r->end);
        if (stay != NULL)
            add_use(stay, r->use);
        return OK;
    }
    const Need *at_start = ech_msa_need_at(m, holder->value, r->start);
    const Need *at_end = ech_msa_need_at(m, r->update->value, r->end), *alias_end = ech_msa_aliased_need(m, use);
    if (at_end == NULL)
        at_end = alias_end;
    bool start_slow = at_start != NULL && !at_start->fast, end_slow = at_end != NULL && !at_end->fast;
    bool end_fast = at_end != NULL && at_end->fast, start_fast = at_start != NULL && at_start->fast;
    if (at_start != NULL)
        meet_start(m, r, at_start);
    int result = OK;
    Asked asked = ech_msa_asked(m, holder, r->start, r->end);
    if (!asked.start_slow && !asked.end_slow && !start_slow && !end_slow && r->allow_keep && !r->need_copy) {
        result = keep(m, r);
        if (result == OK)
            return OK;
    }
    if (asked.start_fast && holder->stays->len == 0 && !holder->contiguous)
        force_place(m, r, r->start, false);
    Stay *slow = ech_msa_last_slow(holder);
    if (!holder->contiguous) {
        Stay *last = holder->stays->len > 0 ? holder->stays->pdata[holder->stays->len - 1] : NULL;
        if (slow == NULL && last != NULL && last->fast) {
            int evicted = is_copy(last) ? OUT_OF_COPIES : evict(m, r, asked.start_fast || asked.end_fast);
            if (evicted != OK)
                return evicted | UNCOMMIT;
            slow = holder->stays->pdata[holder->stays->len - 1];
        } else if (slow == NULL) {
            slow = ech_msa_stay_new(m, ECH_MSA_PINNED, false, holder->value, holder->position, r->start, r->end);
            g_ptr_array_add(holder->stays, slow);
        }
    } else if (slow == NULL)
        return result | UNCOMMIT;
    if (holder->contiguous && at_start != NULL && at_end != NULL && at_start->fast != at_end->fast)
        return result | UNCOMMIT;
    if (!holder->contiguous && !r->extend_only && !end_slow && !asked.end_slow && r->hint != ECH_MSA_HINT_SLOW) {
        if (r->need_copy && !r->copy_is_slice)
            limit_copy(r);
        int got = prefetch(m, r, slow);
        if (got == OK)
            return OK;
        Stay *forced = asked.end_fast ? force_place(m, r, r->end, true) : NULL;
        if (forced != NULL) {
            add_use(forced, r->use);
            return OK;
        }
        result |= got;
    }
    if (end_fast || (start_fast && holder->contiguous))
        return result | UNCOMMIT;
    extend(slow, r->end);
    add_use(slow, r->use);
    return result;
}
