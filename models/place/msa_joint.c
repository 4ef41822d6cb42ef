#include "models/place/msa_private.h"

#include "sim/base/compare.h"

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

/* Whether @step is in @list, which ascends. */
static bool is_in(const GArray *list, uint32_t step)
{
    guint low = 0, high = list->len;
    ECH_SEARCH(low, high, middle, g_array_index(list, uint32_t, middle) < step);
    return low < list->len && g_array_index(list, uint32_t, low) == step;
}

static bool is_pending(const Msa *m, uint32_t step)
{
    return is_in(m->candidates, step);
}

gint ech_msa_compare_value(gconstpointer a, gconstpointer b, gpointer data)
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

static void add_once(GArray *list, GHashTable *known, uint32_t x)
{
    if (g_hash_table_add(known, GUINT_TO_POINTER(x)))
        g_array_append_val(list, x);
}

GArray *ech_msa_joint_values(Msa *m, uint32_t value)
{
    const EchMsaProblem *p = m->p;
    GArray *list = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_autoptr(GHashTable) listed = g_hash_table_new(NULL, NULL), pending = g_hash_table_new(NULL, NULL);
    add_once(list, listed, value);
    for (guint i = 0; i < list->len; i++) {
        uint32_t v = g_array_index(list, uint32_t, i);
        for (uint32_t u = m->first_use[v]; u < m->first_use[v + 1]; u++)
            if (is_candidate(m, p->uses[u].step) && p->steps[p->uses[u].step].operand == v)
                add_once(list, listed, p->steps[p->uses[u].step].result);
        const EchMsaStep *step = &p->steps[p->values[v].step];
        if ((step->kind == ECH_MSA_COPY || step->kind == ECH_MSA_SLICE) && step->result == v && is_candidate(m, p->values[v].step))
            add_once(list, listed, step->operand);
    }
    g_array_sort_with_data(list, ech_msa_compare_value, (gpointer)(guintptr)p);
    g_array_set_size(m->candidates, 0);
    for (guint i = 0; i < list->len; i++) {
        uint32_t v = g_array_index(list, uint32_t, i);
        for (uint32_t u = m->first_use[v]; u < m->first_use[v + 1]; u++)
            if (is_candidate(m, p->uses[u].step) && p->steps[p->uses[u].step].operand == v)
                add_once(m->candidates, pending, p->uses[u].step);
        const EchMsaStep *step = &p->steps[p->values[v].step];
        if ((step->kind == ECH_MSA_COPY || step->kind == ECH_MSA_SLICE) && step->result == v && is_candidate(m, p->values[v].step))
            add_once(m->candidates, pending, p->values[v].step);
    }
    g_array_sort(m->candidates, ech_compare_u32);
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

GPtrArray *ech_msa_joint_holders(Msa *m, const GArray *values)
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

/* A conditional's operand belongs there if some branch uses it soon, or ends soon. */
static bool branch_use_good(const Msa *m, const Holder *holder, const EchMsaUse *use)
{
    const EchMsaProblem *p = m->p;
    if (p->steps[use->step].kind != ECH_MSA_CONDITIONAL)
        return true;
    for (guint i = 0; i < holder->uses->len; i++) {
        const EchMsaUse *other = &p->uses[g_array_index(holder->uses, uint32_t, i)];
        if (other->step != use->step || other->branch_value == ECH_PLACE_NONE)
            continue;
        uint32_t v = other->branch_value, parameter = p->positions[other->loop_position].step;
        int64_t first = use->step;
        for (uint32_t u = m->first_use[v]; u < m->first_use[v + 1]; u++)
            if (!trivial(m, p->uses[u].step) && p->steps[p->uses[u].step].computation == p->steps[parameter].computation)
                first = MIN(first, p->uses[u].step);
        if (can_keep(m, parameter, first))
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
            const Need *need = ech_msa_need_at(m, other->value, corrected(m, u->step)), *alias = ech_msa_aliased_need(m, u);
            const Need *defined = ech_msa_need_at(m, other->value, other->step);
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
        Stay *stay = ech_msa_stay_new(m, moved ? ECH_MSA_PINNED : ECH_MSA_MIRRORED, !moved, inner->value, inner->position, inner->step, end);
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
    Stay *stay = ech_msa_live_at(holder, time);
    if (stay == NULL)
        return true;
    Need need = {.fast = stay->fast, .place = stay->fast ? place_of(stay) : -1};
    for (uint32_t i = 0; i < use->n_aliases; i++) {
        const EchMsaPosition *alias = &m->p->aliases[use->first_alias + i];
        const Need *old = ech_msa_need_at(m, alias->value, alias->step);
        if (old != NULL && !same_need(old, &need))
            return false;
    }
    for (uint32_t i = 0; i < use->n_aliases; i++) {
        const EchMsaPosition *alias = &m->p->aliases[use->first_alias + i];
        ech_msa_require(m, alias->value, alias->step, need.fast, need.place, true);
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
    Stay *stay = ech_msa_live_at(holder, time);
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
                Stay *copy = ech_msa_stay_new(m, parameter ? ECH_MSA_PARENT : ECH_MSA_MIRRORED, false, other->value, other->position, other->step, other->step);
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
        for (uint32_t k = m->first_view[from->value]; k < m->first_view[from->value + 1]; k++)
            if ((int64_t)p->views[k].step > least)
                earliest = MIN(earliest, (int64_t)p->views[k].step);
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
    const Need *loop = step->kind == ECH_MSA_WHILE ? ech_msa_need_at(m, use->loop_value, use->step) : NULL;
    if ((loop != NULL && !loop->fast) || !loop_use_good(m, use))
        ech_msa_require(m, update->value, time, false, -1, true);
    else if (!branch_use_good(m, update, use)) {
        const Need *need = ech_msa_need_at(m, update->value, time);
        if (need == NULL || !need->fast)
            ech_msa_require(m, update->value, time, false, -1, true);
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

static uint8_t reason(int result)
{
    return (uint8_t)(((result & OUT_OF_MEMORY) != 0 ? ECH_MSA_WHY_SPACE : 0) | ((result & (TOO_LONG | TOO_SHORT)) != 0 ? ECH_MSA_WHY_TIME : 0) |
                     ((result & (OUT_OF_COPIES | OUT_OF_BANDWIDTH)) != 0 ? ECH_MSA_WHY_COPIES : 0));
}

/* Holders by their steps, in their order. */
typedef struct {
    GHashTable *first; /* step -> 1 + the first holder there */
    guint *next;       /* by holder: 1 + the next one of its step; 0: none */
} Chains;

static Chains chain_up(const GPtrArray *holders)
{
    Chains chains = {g_hash_table_new(NULL, NULL), g_new0(guint, MAX(holders->len, 1))};
    for (guint h = holders->len; h > 0; h--) {
        gpointer step = GUINT_TO_POINTER((guint)((const Holder *)holders->pdata[h - 1])->step);
        chains.next[h - 1] = GPOINTER_TO_UINT(g_hash_table_lookup(chains.first, step));
        g_hash_table_insert(chains.first, step, GUINT_TO_POINTER(h));
    }
    return chains;
}

/* The uses of a holder, and behind a copy that may become unnecessary those of what it makes, in the order of time. */
static GArray *contexts_of(Msa *m, Holder *holder, const GPtrArray *holders, const Chains *at_step)
{
    const EchMsaProblem *p = m->p;
    GArray *work = g_array_new(FALSE, FALSE, sizeof(Context));
    for (guint k = 0; k < holder->uses->len; k++) {
        Context context = {holder, g_array_index(holder->uses, uint32_t, k), false};
        uint32_t step = p->uses[context.use].step;
        context.extend_only = is_pending(m, step) && p->steps[step].operand == holder->value;
        g_array_append_val(work, context);
        guint first = context.extend_only ? GPOINTER_TO_UINT(g_hash_table_lookup(at_step->first, GUINT_TO_POINTER(step))) : 0;
        for (guint h = first; h > 0; h = at_step->next[h - 1]) {
            Holder *target = holders->pdata[h - 1];
            if (target->value != p->steps[step].result)
                continue;
            for (guint u = 0; u < target->uses->len; u++) {
                Context second = {target, g_array_index(target->uses, uint32_t, u), false};
                m->sync_of[second.use] = step;
                g_array_append_val(work, second);
            }
        }
    }
    g_array_sort_with_data(work, compare_context, (gpointer)(guintptr)p);
    return work;
}

/* Where the chunk of a holder that lies in one place begins: behind the stays of the @n holders before it in the same place. */
static int64_t chunk_start_of(const Msa *m, const Holder *holder, const Request *request, const GPtrArray *holders, guint n)
{
    const Need *at_start = ech_msa_need_at(m, holder->value, request->start);
    if (at_start == NULL || !at_start->fast)
        return request->chunk_start;
    int64_t from = request->start, offset = g_array_index(m->places, int64_t, at_start->place);
    for (guint h = 0; h < n; h++) {
        const Holder *earlier = holders->pdata[h];
        for (guint s = 0; s < earlier->stays->len; s++) {
            const Stay *stay = earlier->stays->pdata[s];
            if (stay->fast && stay->start <= request->start && request->start <= stay->end && stay->offset == offset && stay->bytes == request->bytes)
                from = MAX(from, stay->end + 1);
        }
    }
    return from;
}

/* False, and remembered, where a copy that was to become unnecessary did not. */
static bool all_converted(Msa *m)
{
    g_array_sort(m->converted, ech_compare_u32);
    for (guint i = 0; i < m->candidates->len; i++) {
        uint32_t step = g_array_index(m->candidates, uint32_t, i);
        if (!is_in(m->converted, step)) {
            m->failed_sync[step] = true;
            return false;
        }
    }
    return true;
}

int ech_msa_allocate_holders(Msa *m, GPtrArray *holders)
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
    g_array_sort(times, ech_compare_i64);
    Chains at_step = chain_up(holders);
    g_autoptr(GHashTable) at_first = at_step.first;
    g_autofree guint *at_next = at_step.next;
    int result = OK;
    for (guint i = 0; i < holders->len; i++) {
        Holder *holder = holders->pdata[i];
        if (is_pending(m, (uint32_t)holder->step) && p->steps[holder->step].result == holder->value)
            continue;
        g_autoptr(GArray) work = contexts_of(m, holder, holders, &at_step);
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
            const Need *alias = ech_msa_aliased_need(m, use);
            if (alias != NULL && alias->fast)
                preferred[k] = alias->place;
            Request request;
            make_request(m, holder, context, previous, preferred[k], definition[k], times, holders, &request);
            bool skip = (trivial(m, use->step) && !p->steps[use->step].root) || holder->done;
            if (!skip) {
                if (holder->contiguous)
                    request.chunk_start = chunk_start_of(m, holder, &request, holders, i);
                int got = ech_msa_allocate_segment(m, &request);
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
    return all_converted(m) ? result : result | SYNC_FAILED | UNCOMMIT;
}
