#include "models/place/msa_private.h"

#include "sim/base/hash.h"

#include <math.h>

#define FREE_BELOW 0.6f /* a cross-program prefetch is freed if it occupies less of the time */

typedef struct {
    uint64_t key;
    int32_t group;
} Link;

/* A group goes on under another's number. */
static void merge_groups(GArray *links, GArray *groups, int32_t from, int32_t into)
{
    for (guint k = 0; k < links->len; k++)
        if (g_array_index(links, Link, k).group == from)
            g_array_index(links, Link, k).group = into;
    for (guint k = 0; k < groups->len; k++)
        if (g_array_index(groups, int32_t, k) == from)
            g_array_index(groups, int32_t, k) = into;
}

static void set_link(GArray *links, uint64_t key, int32_t group)
{
    for (guint i = 0; i < links->len; i++)
        if (g_array_index(links, Link, i).key == key) {
            g_array_index(links, Link, i).group = group;
            return;
        }
    Link link = {key, group};
    g_array_append_val(links, link);
}

static bool is_from_fast(const Stay *stay)
{
    return is_copy(stay) ? !stay->fast : stay->fast;
}

/* Stays in the fast memory or copied out of it, and for each the number of its group: stays that hand on to one another by tuples. Returns how many numbers. */
static int32_t group_stays(const Msa *m, const GPtrArray *holders, GPtrArray *stays, GArray *groups)
{
    const EchMsaProblem *p = m->p;
    g_autoptr(GArray) links = g_array_new(FALSE, FALSE, sizeof(Link));
    int32_t n_groups = 0;
    for (guint h = 0; h < holders->len; h++) {
        const Holder *holder = holders->pdata[h];
        for (guint s = 0; s < holder->stays->len; s++) {
            Stay *stay = holder->stays->pdata[s];
            if (!stay->fast && !is_from_fast(stay))
                continue;
            int32_t group = -1;
            for (guint i = 0; is_from_fast(stay) && i < links->len; i++)
                if (g_array_index(links, Link, i).key == p->positions[stay->position].key)
                    group = g_array_index(links, Link, i).group;
            for (guint u = 0; stay->fast && u < stay->uses->len; u++) {
                const EchMsaUse *use = &p->uses[g_array_index(stay->uses, uint32_t, u)];
                guint i = 0;
                while (i < links->len && g_array_index(links, Link, i).key != use->tuple_key)
                    i++;
                if (use->tuple_key == UINT64_MAX || i == links->len)
                    continue;
                int32_t other = g_array_index(links, Link, i).group;
                if (group != -1 && group != other)
                    merge_groups(links, groups, other, group);
                else
                    group = other;
            }
            if (group == -1)
                group = n_groups++;
            g_ptr_array_add(stays, stay);
            g_array_append_val(groups, group);
            for (guint u = 0; stay->fast && u < stay->uses->len; u++) {
                const EchMsaUse *use = &p->uses[g_array_index(stay->uses, uint32_t, u)];
                for (uint32_t a = 0; a < use->n_aliases; a++)
                    set_link(links, p->aliases[use->first_alias + a].key, group);
            }
        }
    }
    return n_groups;
}

/* Where values of groups that copy more than they use begin in the fast memory or are used there, as EchMsaRequired. */
static GArray *inefficient_sites(const Msa *m, const GPtrArray *holders)
{
    const EchMsaProblem *p = m->p;
    int64_t bytes = ((const Holder *)holders->pdata[0])->bytes;
    g_autoptr(GPtrArray) stays = g_ptr_array_new();
    g_autoptr(GArray) groups = g_array_new(FALSE, FALSE, sizeof(int32_t));
    int32_t n_groups = group_stays(m, holders, stays, groups);
    g_autofree int64_t *copied = g_new0(int64_t, MAX(n_groups, 1)), *used = g_new0(int64_t, MAX(n_groups, 1));
    for (guint i = 0; i < stays->len; i++) {
        const Stay *stay = stays->pdata[i];
        int32_t group = g_array_index(groups, int32_t, i);
        if (is_copy(stay))
            copied[group] += bytes;
        if (is_from_fast(stay) && p->definition_bytes != NULL)
            used[group] += p->definition_bytes[stay->position];
        for (guint u = 0; stay->fast && u < stay->uses->len; u++)
            used[group] += p->uses[g_array_index(stay->uses, uint32_t, u)].accessed;
    }
    GArray *sites = g_array_new(FALSE, FALSE, sizeof(EchMsaRequired));
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
    return sites;
}

/* Requires the slow memory where a group of stays copies more than twice what is used of it. True if something new was required. */
static bool refuse_inefficient(Msa *m, GPtrArray *holders)
{
    if (m->o->inefficient_ratio <= 0 || holders->len == 0)
        return false;
    g_autoptr(GArray) sites = inefficient_sites(m, holders);
    /* New requirements only after the pending ones are gone; find out first whether there would be any. */
    bool fresh = false;
    for (guint i = 0; i < sites->len; i++) {
        const EchMsaRequired *site = &g_array_index(sites, EchMsaRequired, i);
        const Need *need = ech_msa_need_at(m, site->value, site->step);
        fresh = fresh || need == NULL || need->pending;
    }
    if (!fresh)
        return false;
    ech_msa_uncommit(m, holders);
    for (guint i = 0; i < sites->len; i++) {
        const EchMsaRequired *site = &g_array_index(sites, EchMsaRequired, i);
        ech_msa_require(m, site->value, site->step, false, -1, false);
    }
    return true;
}

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
    ech_msa_clear_pending(m);
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

static void place_scoped(Msa *m)
{
    const EchMsaProblem *p = m->p;
    uint32_t group = ++m->next_group;
    for (uint32_t i = 0; i < p->n_scoped; i++) {
        if (p->scoped[i].bytes == 0 || p->scoped[i].step > m->n || m->p->n_values == 0)
            continue;
        Stay *stay = ech_msa_stay_new(m, ECH_MSA_SCOPED, true, 0, ECH_PLACE_NONE, p->scoped[i].step, p->scoped[i].step);
        stay->value = i;
        stay->bytes = (int64_t)MIN(p->scoped[i].bytes, m->o->size);
        stay->offset = 0;
        ech_msa_commit_chunk(m, (EchVmemChunk){stay->start, stay->end, 0, stay->bytes});
        g_ptr_array_add(m->final, stay);
        BlockRef ref = {stay, group};
        g_array_append_val(m->blocks, ref);
    }
    ech_msa_clear_pending(m);
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
        int64_t again = ech_msa_preferred_start(m, bytes, c->last_use, n, n);
        float all = ech_msa_elapsed(m, 0, n);
        float occupied = MAX(ech_msa_elapsed(m, again, n), copy_seconds(m, bytes)) + ech_msa_elapsed(m, 0, c->last_use);
        bool free = m->o->cross_program_free && pressure > m->o->size && occupied / all < FREE_BELOW && again > (int64_t)c->last_use && again < n;
        uint32_t group = ++m->next_group;
        for (uint32_t part = 0; part < (free ? 2u : 1u); part++) {
            Stay *stay =
                ech_msa_stay_new(m, ECH_MSA_COPIED, true, c->value, ECH_PLACE_NONE, part == 0 ? 0 : again, part == 0 && free ? (int64_t)c->last_use : n);
            stay->after = part == 0 ? -1 : again - 1;
            stay->before = part == 0 ? (int64_t)c->first_use : n;
            stay->offset = offset;
            stay->cross = true;
            ech_msa_register_copy(m, true, stay->after, stay->before, 0, false);
            ech_msa_commit_chunk(m, (EchVmemChunk){stay->start, stay->end, offset, bytes});
            if (part == 0)
                for (uint32_t u = m->first_use[c->value]; u < m->first_use[c->value + 1]; u++)
                    add_use(stay, u);
            g_ptr_array_add(m->final, stay);
            BlockRef ref = {stay, group};
            g_array_append_val(m->blocks, ref);
        }
        m->freed += free;
        m->finalized[c->value] = true;
        ech_msa_clear_pending(m);
        taken++;
    }
}

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
                waits[v] = MAX(waits[v], ech_msa_elapsed(m, at, p->uses[u].step));
            at = p->uses[u].step;
        }
    }
    return waits;
}

static void process(Msa *m, uint32_t value)
{
    GArray *values = ech_msa_joint_values(m, value);
    GPtrArray *holders = ech_msa_joint_holders(m, values);
    bool repacked = false;
    uint32_t guard = 0;
    for (int64_t retry = 0; holders->len > 0 && retry < (int64_t)m->o->max_retries && guard < 1000; retry++, guard++) {
        m->retry = (uint32_t)retry;
        int result = ech_msa_allocate_holders(m, holders);
        if ((result & SYNC_FAILED) != 0) {
            ech_msa_uncommit(m, holders);
            g_ptr_array_unref(holders);
            g_array_unref(values);
            values = ech_msa_joint_values(m, value);
            holders = ech_msa_joint_holders(m, values);
            retry--;
        } else if ((result & UNCOMMIT) != 0) {
            ech_msa_uncommit(m, holders);
            if (retry > 0 && m->candidates->len > 0) {
                m->failed_sync[g_array_index(m->candidates, uint32_t, 0)] = true;
                g_ptr_array_unref(holders);
                g_array_unref(values);
                values = ech_msa_joint_values(m, value);
                holders = ech_msa_joint_holders(m, values);
                retry--;
            }
        } else if ((result & OUT_OF_MEMORY) != 0 && m->repacks < m->o->max_repacks && !repacked && !m->any_converted) {
            ech_msa_uncommit(m, holders);
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

/* The state of a run with nothing decided; needs p, o and n. */
static void begin(Msa *m)
{
    const EchMsaProblem *problem = m->p;
    ech_msa_prepare_times(m);
    uint32_t n = m->n, values = problem->n_values;
    m->vmem = ech_vmem_new(n + 2, (int64_t)m->o->alignment);
    ech_vmem_keep_largest_gap(m->vmem, m->o->keep_largest_gap);
    m->peak = g_new0(int64_t, n + 2);
    ech_msa_resource_init(&m->fetch, problem);
    ech_msa_resource_init(&m->evict, problem);
    m->fetch_starts = g_new0(int64_t, n + 4);
    m->fetch_ends = g_new0(int64_t, n + 4);
    m->evict_starts = g_new0(int64_t, n + 4);
    m->evict_ends = g_new0(int64_t, n + 4);
    m->needs = g_new0(GArray *, MAX(values, 1));
    m->pending_needs = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    m->pending_chunks = g_array_new(FALSE, FALSE, sizeof(EchVmemChunk));
    m->pending_fetch = g_array_new(FALSE, FALSE, sizeof(Copy));
    m->pending_evict = g_array_new(FALSE, FALSE, sizeof(Copy));
    m->intervals = g_hash_table_new(ech_hash_key, NULL);
    m->places = g_array_new(FALSE, FALSE, sizeof(int64_t));
    m->final = g_ptr_array_new();
    m->all = g_ptr_array_new_with_free_func(ech_msa_stay_free);
    m->blocks = g_array_new(FALSE, FALSE, sizeof(BlockRef));
    m->colors = g_array_new(FALSE, FALSE, sizeof(Color));
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
    m->first_view = g_new0(uint32_t, values + 1);
    for (uint32_t u = 0; u < problem->n_uses; u++)
        m->first_use[problem->uses[u].value + 1]++;
    for (uint32_t k = 0; k < problem->n_positions; k++)
        m->first_position[problem->positions[k].value + 1]++;
    for (uint32_t k = 0; k < problem->n_views; k++)
        m->first_view[problem->views[k].value + 1]++;
    uint32_t n_groups = 0;
    for (uint32_t v = 0; v < values; v++) {
        m->first_use[v + 1] += m->first_use[v];
        m->first_position[v + 1] += m->first_position[v];
        m->first_view[v + 1] += m->first_view[v];
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
            g_array_sort_with_data(m->members[g], ech_msa_compare_value, (gpointer)(guintptr)problem);
    m->n_groups = n_groups;
}

static void finish(Msa *m)
{
    ech_vmem_free(m->vmem);
    for (uint32_t v = 0; v < m->p->n_values; v++)
        if (m->needs[v] != NULL)
            g_array_unref(m->needs[v]);
    for (uint32_t g = 0; g < m->n_groups; g++)
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
    g_array_unref(m->colors);
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
    g_free(m->first_view);
}

EchMsaResult *ech_msa_run(const EchMsaProblem *problem)
{
    EchMsaResult *result = g_new0(EchMsaResult, 1);
    Msa state = {.p = problem, .o = &problem->options, .n = problem->n_steps}, *m = &state;
    begin(m);
    place_scoped(m);
    ech_msa_keep_colors(m);
    cross_program(m);
    for (uint32_t i = 0; i < problem->n_required; i++)
        ech_msa_require(m, problem->required[i].value, problem->required[i].step, false, -1, false);
    g_autoptr(GArray) order = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (uint32_t v = 0; v < problem->n_values; v++)
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
    finish(m);
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
