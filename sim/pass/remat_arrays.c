#include "sim/pass/remat.h"

/* Uses of an array in one op of its own level. */
typedef struct {
    EchId op, first, last;
    bool loop, slices, reads, writes;
    uint32_t n_writers;
    EchId writer;
    EchBytes bytes;
} Event;

static GArray *list_events(const EchRemat *r, EchId buffer)
{
    const EchSurvey *s = r->s;
    EchId level = s->buffers[buffer].loop;
    GArray *events = g_array_new(FALSE, FALSE, sizeof(Event));
    for (uint32_t u = r->users.first[buffer]; u < r->users.first[buffer + 1]; u++) {
        EchId op = r->users.op[u], at = ech_survey_at_level(s, op, level);
        Event *e = events->len > 0 ? &g_array_index(events, Event, events->len - 1) : NULL;
        if (e == NULL || e->op != at) {
            bool loop = s->ops[at].kind == ECH_OP_LOOP;
            Event fresh = {.op = at, .first = op, .loop = loop, .slices = loop};
            g_array_append_val(events, fresh);
            e = &g_array_index(events, Event, events->len - 1);
        }
        bool reads, writes;
        EchBytes bytes = ech_survey_access(s, op, buffer, &reads, &writes);
        e->last = op;
        e->slices &= s->region[op] == at && bytes < s->buffers[buffer].bytes;
        e->reads |= reads;
        e->writes |= writes;
        e->n_writers += writes;
        e->writer = writes ? op : e->writer;
        e->bytes = MAX(e->bytes, bytes);
    }
    return events;
}

/* Whether all that is put there is overwritten, where a loop makes every slice after it: zeros, or a copy of them. */
static bool is_fill(const EchRemat *r, const Event *e)
{
    EchOpKind kind = (EchOpKind)r->s->ops[e->op].kind;
    return !e->loop && !e->reads && e->writes && (kind == ECH_OP_KERNEL || kind == ECH_OP_COPY);
}

/* What a loop makes a slice of each iteration, by one op, and that later at @taken, a later loop of as many iterations, takes a slice of. */
static bool is_stack(const EchRemat *r, EchRematArray *a, const Event *made, const Event *taken)
{
    const EchSurvey *s = r->s;
    if (!made->slices || !taken->slices || made->n_writers != 1 || taken->n_writers != 0 || s->ops[made->op].bytes != s->ops[taken->op].bytes ||
        ech_bytes_mul(made->bytes, s->ops[made->op].bytes) < s->buffers[a->buffer].bytes)
        return false;
    a->made_in = made->op;
    a->used_in = taken->op;
    a->maker = made->writer;
    a->slice = MAX(made->bytes, taken->bytes);
    a->gone = a->alloc != ECH_NONE ? a->alloc : 0;
    a->back = taken->first;
    a->until = ech_survey_after(s, taken->last);
    return true;
}

/* The events after what only fills the array. */
static const Event *after_fill(const EchRemat *r, const GArray *events, guint *ret_n)
{
    const Event *e = (const Event *)(const void *)events->data;
    bool fill = events->len > 0 && is_fill(r, e);
    *ret_n = events->len - fill;
    return fill ? e + 1 : e; /* of no events there is no array */
}

static bool is_plain_stack(const EchRemat *r, EchRematArray *a, const GArray *events)
{
    guint n;
    const Event *e = after_fill(r, events, &n);
    return n == 2 && is_stack(r, a, &e[0], &e[1]);
}

/* The array that kernel @op, which does nothing else, lays out anew in @to; ECH_NONE. */
static EchId turned_by(const EchRemat *r, EchId op, EchId to)
{
    const EchSurvey *s = r->s;
    const EchOp *o = &s->ops[op];
    EchId from = ECH_NONE;
    if (o->kind != ECH_OP_KERNEL || o->n_work > 0)
        return ECH_NONE;
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++) {
        const EchUse *use = &s->uses[u];
        if (use->bytes <= ECH_REMAT_SMALL && use->access == ECH_READ)
            continue;
        if (use->bytes != s->buffers[to].bytes || s->buffers[use->buffer].bytes != use->bytes ||
            (use->access == ECH_WRITE ? use->buffer != to : from != ECH_NONE))
            return ECH_NONE;
        from = use->access == ECH_READ ? use->buffer : from;
    }
    return from;
}

/* A stack that is turned round before the later loop takes its slices: compilers do so where one loop likes another layout than the other. What makes a slice
 * in the place where it is used needs none of it. */
static bool is_turned_stack(const EchRemat *r, EchRematArray *a, const GArray *events, const bool *odd)
{
    guint n;
    const Event *e = (const Event *)(const void *)events->data;
    if (events->len != 2 || e[0].loop || e[0].reads || !e[0].writes)
        return false;
    EchId from = turned_by(r, e[0].op, a->buffer);
    if (from == ECH_NONE || from == a->buffer || odd[from] || r->s->buffers[from].resident || r->alloc[from] == ECH_NONE || r->free[from] == ECH_NONE ||
        r->s->buffers[from].alias_of != ECH_NONE || r->s->buffers[from].memory != r->s->hbm || r->first_within[from] != ECH_NONE)
        return false;
    g_autoptr(GArray) before = list_events(r, from);
    const Event *m = after_fill(r, before, &n);
    if (n != 2 || m[1].op != e[0].op || !is_stack(r, a, &m[0], &e[1]))
        return false;
    a->source = from;
    return true;
}

/* An array with a pause in its uses; a->back stays ECH_NONE where it has none. */
static EchRematReason find_pause(const EchRemat *r, EchRematArray *a, const GArray *events)
{
    const EchSurvey *s = r->s;
    guint made = 0;
    for (guint k = 0; k < events->len; k++)
        made = g_array_index(events, Event, k).writes ? k : made;
    EchTime longest = 0;
    const Event *e = (const Event *)(const void *)events->data;
    for (guint k = made + 1; k < events->len; k++) {
        EchId after = ech_survey_after(s, e[k - 1].op);
        const EchTime pause = s->clock[e[k].op] - s->clock[after];
        if (e[k].op > after && pause >= longest) {
            longest = a->pause = pause;
            a->gone = after;
            a->back = e[k].op;
        }
    }
    if (a->back == ECH_NONE)
        return ECH_REMAT_OK;
    const Event *m = &e[made];
    if (!m->writes)
        return ECH_REMAT_PARTS;
    a->maker = m->op;
    a->slice = s->buffers[a->buffer].bytes;
    a->until = a->free != ECH_NONE ? a->free : a->level != ECH_NONE ? s->end[a->level] : (EchId)s->n;
    return ECH_REMAT_OK;
}

void ech_remat_decline(EchRemat *remat, const EchRematArray *array, EchRematReason why)
{
    if (array->alloc >= remat->fullest || (array->free != ECH_NONE && array->free < remat->fullest))
        return;
    remat->declined[why]++;
    remat->declined_bytes[why] = ech_bytes_add(remat->declined_bytes[why], remat->s->buffers[array->buffer].bytes);
}

static bool is_asked_for(const EchRemat *r, EchId buffer)
{
    const EchBuffer *b = &r->s->buffers[buffer];
    return b->role != ECH_ROLE_CONSTANT && b->role != ECH_ROLE_OUTPUT && b->role != ECH_ROLE_PARAMETER && b->role != ECH_ROLE_INPUT &&
           b->role != ECH_ROLE_OPTIMIZER && b->bytes >= MAX(r->asked.above, 1) && ech_survey_fits_name(r->s, buffer, r->asked.names) &&
           (*r->asked.keep == '\0' || !ech_survey_fits_name(r->s, buffer, r->asked.keep));
}

/* Whether the loop around ALLOC @op of a buffer from outside of it, which lets that go meanwhile, puts all of it there anew next of all: not parts, copied one
 * by one, that end where it begins. */
static bool is_written_next(const EchRemat *r, EchId op)
{
    const EchSurvey *s = r->s;
    EchId buffer = s->ops[op].target;
    for (uint32_t u = r->users.first[buffer]; u < r->users.first[buffer + 1]; u++) {
        EchId next = r->users.op[u];
        bool reads, writes;
        if (next > op)
            return ech_survey_access(s, next, buffer, &reads, &writes) == s->buffers[buffer].bytes && writes && !reads && s->region[next] == s->region[op];
    }
    return false;
}

void ech_remat_keep_arrays(EchRemat *remat, const bool *kept)
{
    GArray *left = g_array_new(FALSE, FALSE, sizeof(EchRematArray));
    for (guint k = 0; k < remat->arrays->len; k++)
        remat->array_of[ech_remat_array(remat, k)->buffer] = remat->array_of[ech_remat_array(remat, k)->source] = UINT32_MAX;
    for (guint k = 0; k < remat->arrays->len; k++) {
        const EchRematArray *a = ech_remat_array(remat, k);
        if (!kept[k])
            continue;
        remat->array_of[a->buffer] = remat->array_of[a->source] = left->len;
        g_array_append_vals(left, a, 1);
    }
    g_array_unref(remat->arrays);
    remat->arrays = left;
}

static void find_arrays(EchRemat *r)
{
    const EchSurvey *s = r->s;
    g_autofree bool *parts = g_new0(bool, s->n_buffers + 1);
    for (EchId i = 0; i < s->n; i++)
        if (s->ops[i].kind == ECH_OP_ALLOC && s->region[i] != s->buffers[s->ops[i].target].loop)
            parts[s->ops[i].target] |= !is_written_next(r, i);
    g_autofree bool *odd = g_new0(bool, s->n_buffers + 1), *aliased = g_new0(bool, s->n_buffers + 1);
    for (size_t b = 0; b < s->n_buffers; b++)
        if (s->buffers[b].alias_of != ECH_NONE)
            aliased[ech_survey_root(s, (EchId)b)] = true;
    for (EchId i = 0; i < s->n; i++) {
        const EchOp *o = &s->ops[i];
        if (o->kind != ECH_OP_ALLOC && o->kind != ECH_OP_FREE)
            continue;
        EchId *known = o->kind == ECH_OP_ALLOC ? r->alloc : r->free;
        bool within = s->region[i] != s->buffers[o->target].loop;
        if (within && !parts[o->target]) {
            r->first_within[o->target] = MIN(r->first_within[o->target], i);
            r->last_within[o->target] = i;
            continue;
        }
        odd[o->target] |= known[o->target] != ECH_NONE || within;
        known[o->target] = i;
    }
    for (EchId b = 0; b < s->n_buffers; b++) {
        const EchBuffer *buffer = &s->buffers[b];
        if (buffer->memory != s->hbm || buffer->alias_of != ECH_NONE || buffer->resident || r->alloc[b] == ECH_NONE || !is_asked_for(r, b))
            continue;
        EchRematArray a = {.buffer = b,
                           .level = buffer->loop,
                           .alloc = r->alloc[b],
                           .source = b,
                           .free = r->free[b],
                           .made_in = ECH_NONE,
                           .used_in = ECH_NONE,
                           .back = ECH_NONE};
        g_autoptr(GArray) events = list_events(r, b);
        bool stack = is_plain_stack(r, &a, events) || (!odd[b] && !aliased[b] && is_turned_stack(r, &a, events, odd));
        if (r->asked.nested && (!stack || a.level == ECH_NONE))
            continue;
        EchRematReason why = stack ? ECH_REMAT_OK : find_pause(r, &a, events);
        if (why == ECH_REMAT_OK && a.back == ECH_NONE)
            continue;
        why = aliased[b] ? ECH_REMAT_ALIASED : odd[b] ? ECH_REMAT_REMADE : why;
        if (why != ECH_REMAT_OK) {
            ech_remat_decline(r, &a, why);
            continue;
        }
        r->array_of[b] = r->arrays->len;
        g_array_append_val(r->arrays, a);
    }
    g_autofree bool *kept = g_new0(bool, r->arrays->len + 1);
    for (guint k = 0; k < r->arrays->len; k++)
        kept[k] = true;
    for (guint k = 0; k < r->arrays->len; k++) {
        const EchRematArray *a = ech_remat_array(r, k);
        if (a->source != a->buffer && r->array_of[a->source] != UINT32_MAX)
            kept[r->array_of[a->source]] = false;
    }
    ech_remat_keep_arrays(r, kept);
}

/* The buffer that @op, in the loop that takes slices of stack @a, copies its slice in @from to, the stack or such a copy: as it is, all of it, for kernels of
 * that iteration to read. */
static EchId copy_of_slice(const EchRemat *r, const EchRematArray *a, EchId from, EchId op)
{
    const EchSurvey *s = r->s;
    const EchOp *o = &s->ops[op];
    EchId to = s->region[op] == a->used_in ? ech_remat_copied(s, op, from, false) : ECH_NONE;
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++)
        if (s->uses[u].buffer == from && s->uses[u].bytes != a->slice)
            return ECH_NONE;
    bool own = to != ECH_NONE && r->slice_of[to] == ECH_NONE && s->buffers[to].bytes == a->slice && s->buffers[to].loop == a->used_in &&
               r->writers.first[to + 1] == r->writers.first[to] + 1 && r->alloc[to] != ECH_NONE && r->free[to] != ECH_NONE && r->free[to] > op &&
               s->region[r->alloc[to]] == a->used_in && r->first_within[to] == ECH_NONE;
    for (uint32_t u = own ? r->users.first[to] : 0; own && u < r->users.first[to + 1]; u++) {
        EchId user = r->users.op[u];
        own = (s->ops[user].kind == ECH_OP_KERNEL || user == op) && user >= op && user < s->end[a->used_in];
        own &= from == a->buffer || s->region[user] == a->used_in; /* a loop below reads what one kernel made before it */
    }
    return own ? to : ECH_NONE;
}

/* Copies of slices, and copies of these: compilers turn a slice round once more for a kernel that likes another layout. */
static void find_copies(EchRemat *r)
{
    g_autoptr(GArray) from = g_array_new(FALSE, FALSE, sizeof(EchId));
    for (guint k = 0; k < r->arrays->len; k++) {
        const EchRematArray *a = ech_remat_array(r, k);
        g_array_set_size(from, 0);
        g_array_append_val(from, a->buffer);
        for (guint i = 0; a->made_in != ECH_NONE && i < from->len; i++) {
            EchId buffer = g_array_index(from, EchId, i);
            for (uint32_t u = r->users.first[buffer]; u < r->users.first[buffer + 1]; u++) {
                EchId copy = copy_of_slice(r, a, buffer, r->users.op[u]);
                if (copy == ECH_NONE)
                    continue;
                r->slice_of[copy] = a->buffer;
                g_array_append_val(from, copy);
            }
        }
    }
}

EchId ech_remat_left_out(const EchRemat *remat, const EchRematArray *array, EchId op)
{
    const EchSurvey *s = remat->s;
    EchId copy = ECH_NONE;
    if (array->made_in == ECH_NONE || ech_remat_input(remat, array->stand)->kind != ECH_REMAT_VALUE)
        return ECH_NONE;
    for (uint32_t u = s->ops[op].first_use; u < s->ops[op].first_use + s->ops[op].n_uses; u++) {
        EchId buffer = s->uses[u].buffer;
        if (remat->slice_of[buffer] != array->buffer)
            continue;
        if (remat->wanted[buffer])
            return ECH_NONE;
        copy = s->uses[u].access == ECH_WRITE && copy == ECH_NONE ? buffer : copy;
    }
    return copy;
}

void ech_remat_copies(const EchRemat *remat, const EchRematArray *array, GArray *ret_copies)
{
    const EchUsers *users = &remat->users;
    EchId from = array->buffer;
    for (guint i = 0; i <= ret_copies->len; i++) {
        for (uint32_t u = users->first[from]; u < users->first[from + 1]; u++) {
            EchId copy = users->op[u] >= array->back ? ech_remat_left_out(remat, array, users->op[u]) : ECH_NONE;
            if (copy != ECH_NONE && copy != from)
                g_array_append_val(ret_copies, copy);
        }
        from = i < ret_copies->len ? g_array_index(ret_copies, EchId, i) : from;
    }
}

void ech_remat_late_users(const EchRemat *remat, const EchRematArray *array, GArray *ret_users)
{
    const EchUsers *users = &remat->users;
    g_autoptr(GArray) names = g_array_new(FALSE, FALSE, sizeof(EchId));
    ech_remat_copies(remat, array, names);
    g_array_prepend_val(names, array->buffer);
    for (guint i = 0; i < names->len; i++) {
        EchRematUser user = {.buffer = g_array_index(names, EchId, i)};
        for (uint32_t u = users->first[user.buffer]; u < users->first[user.buffer + 1]; u++) {
            user.op = users->op[u];
            if (user.op >= array->back && ech_remat_left_out(remat, array, user.op) == ECH_NONE)
                g_array_append_val(ret_users, user);
        }
    }
}

void ech_remat_init(EchRemat *remat, const EchSurvey *survey, const EchRematAsked *asked)
{
    *remat = (EchRemat){.s = survey, .asked = *asked};
    remat->arrays = g_array_new(FALSE, FALSE, sizeof(EchRematArray));
    remat->order = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    remat->runs = g_array_new(FALSE, FALSE, sizeof(EchRematRun));
    remat->values = g_array_new(FALSE, FALSE, sizeof(EchRematValue));
    remat->inputs = g_array_new(FALSE, FALSE, sizeof(EchRematInput));
    remat->bindings = g_array_new(FALSE, FALSE, sizeof(EchRematBinding));
    remat->places = g_array_new(FALSE, FALSE, sizeof(EchRematPlace));
    remat->carries = g_array_new(FALSE, FALSE, sizeof(EchRematCarry));
    remat->longer = g_array_new(FALSE, FALSE, sizeof(EchRematLonger));
    remat->along = g_array_new(FALSE, FALSE, sizeof(EchRematAlong));
    remat->stays = g_hash_table_new(NULL, NULL);
    remat->array_of = g_new(uint32_t, survey->n_buffers + 1);
    remat->longer_of = g_new(uint32_t, survey->n_buffers + 1);
    remat->alloc = g_new(EchId, survey->n_buffers + 1);
    remat->free = g_new(EchId, survey->n_buffers + 1);
    remat->first_within = g_new(EchId, survey->n_buffers + 1);
    remat->last_within = g_new(EchId, survey->n_buffers + 1);
    remat->slice_of = g_new(EchId, survey->n_buffers + 1);
    remat->gathered = g_new(EchId, survey->n_buffers + 1);
    remat->is_gathered = g_new0(bool, survey->n_buffers + 1);
    remat->wanted = g_new0(bool, survey->n_buffers + 1);
    for (size_t b = 0; b <= survey->n_buffers; b++) {
        remat->array_of[b] = remat->longer_of[b] = UINT32_MAX;
        remat->alloc[b] = remat->free[b] = remat->first_within[b] = remat->slice_of[b] = remat->gathered[b] = ECH_NONE;
        remat->last_within[b] = 0;
    }
    for (EchId i = 1; i <= survey->n; i++)
        remat->fullest = survey->live[i] > survey->live[remat->fullest] ? i : remat->fullest;
    ech_users_init(&remat->users, survey, true, false);
    ech_users_init(&remat->writers, survey, true, true);
    ech_remat_find_gathered(remat);
    find_arrays(remat);
    find_copies(remat);
}

void ech_remat_clear(EchRemat *remat)
{
    g_clear_pointer(&remat->arrays, g_array_unref);
    g_clear_pointer(&remat->order, g_array_unref);
    g_clear_pointer(&remat->runs, g_array_unref);
    g_clear_pointer(&remat->values, g_array_unref);
    g_clear_pointer(&remat->inputs, g_array_unref);
    g_clear_pointer(&remat->bindings, g_array_unref);
    g_clear_pointer(&remat->places, g_array_unref);
    g_clear_pointer(&remat->loops, g_hash_table_unref);
    g_clear_pointer(&remat->carries, g_array_unref);
    g_clear_pointer(&remat->value_of, g_hash_table_unref);
    g_clear_pointer(&remat->run_of, g_hash_table_unref);
    g_clear_pointer(&remat->longer, g_array_unref);
    g_clear_pointer(&remat->along, g_array_unref);
    g_clear_pointer(&remat->stays, g_hash_table_unref);
    g_clear_pointer(&remat->modules, g_strfreev);
    g_clear_pointer(&remat->array_of, g_free);
    g_clear_pointer(&remat->longer_of, g_free);
    g_clear_pointer(&remat->slice_of, g_free);
    g_clear_pointer(&remat->gathered, g_free);
    g_clear_pointer(&remat->is_gathered, g_free);
    g_clear_pointer(&remat->wanted, g_free);
    g_clear_pointer(&remat->alloc, g_free);
    g_clear_pointer(&remat->free, g_free);
    g_clear_pointer(&remat->first_within, g_free);
    g_clear_pointer(&remat->last_within, g_free);
    ech_users_clear(&remat->users);
    ech_users_clear(&remat->writers);
}
