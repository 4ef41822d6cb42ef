#include "sim/pass/remat.h"

#include <string.h>

#define ON_CHIP_ALIGNMENT 1024

gint ech_remat_compare_back(gconstpointer x, gconstpointer y, gpointer data)
{
    const EchRemat *r = data;
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    EchId i = ech_remat_array(r, a)->back, j = ech_remat_array(r, b)->back;
    return i != j ? (i < j ? -1 : 1) : (a > b) - (a < b);
}

static gint compare_site(gconstpointer x, gconstpointer y, gpointer data)
{
    const EchRemat *r = data;
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    EchId i = ech_remat_run(r, a)->site, j = ech_remat_run(r, b)->site;
    return i != j ? (i < j ? -1 : 1) : (a > b) - (a < b);
}

void ech_remat_keep_longer(EchRemat *remat, EchId buffer, EchId until)
{
    EchRemat *r = remat;
    EchId end = ech_survey_after(r->s, ech_survey_at_level(r->s, until - 1, r->s->buffers[buffer].loop));
    uint32_t *known = &r->longer_of[buffer];
    EchRematLonger longer = {buffer, end};
    if (*known == UINT32_MAX) {
        *known = r->longer->len;
        g_array_append_val(r->longer, longer);
    } else
        ech_remat_longer(r, *known)->until = MAX(ech_remat_longer(r, *known)->until, end);
}

static void extend(EchRemat *r, const EchRematInput *input, uint32_t reader, EchId region, EchId until)
{
    if (input->kind == ECH_REMAT_KEPT)
        ech_remat_keep_longer(r, input->id, until);
    if (input->kind != ECH_REMAT_VALUE)
        return;
    EchRematValue *value = ech_remat_value(r, input->id);
    if (reader != UINT32_MAX && value->region == region) {
        const EchRematRun *last = ech_remat_run(r, value->last_run), *run = ech_remat_run(r, reader);
        if (run->site > last->site || (run->site == last->site && reader > value->last_run))
            value->last_run = reader;
        return;
    }
    value->until = MAX(value->until, value->region == region ? until : ech_survey_after(r->s, ech_survey_at_level(r->s, until - 1, value->region)));
}

/* Nobody needs what stands for chosen @a from there on. */
static EchId used_until(const EchRemat *r, const EchRematArray *a)
{
    EchId until = a->until;
    g_autoptr(GArray) copies = g_array_new(FALSE, FALSE, sizeof(EchId));
    ech_remat_copies(r, a, copies);
    for (guint i = 0; i < copies->len; i++)
        until = MAX(until, r->free[g_array_index(copies, EchId, i)]);
    return until;
}

/* How long each value is needed. */
static void find_ends(EchRemat *r, const GArray *chosen)
{
    g_autoptr(GArray) inputs = g_array_new(FALSE, FALSE, sizeof(EchRematInput)), ops = g_array_new(FALSE, FALSE, sizeof(EchId));
    for (guint k = 0; k < r->runs->len + chosen->len; k++) {
        bool is_run = k < r->runs->len;
        const EchRematRun *run = is_run ? ech_remat_run(r, k) : NULL;
        const EchRematArray *a = is_run ? NULL : ech_remat_array(r, g_array_index(chosen, uint32_t, k - r->runs->len));
        if (is_run && run->fused)
            continue;
        g_array_set_size(inputs, 0);
        g_array_set_size(ops, 0);
        if (is_run)
            ech_remat_gather_run(r, k, inputs, ops);
        else
            ech_remat_gather(r, ech_remat_input(r, a->stand), inputs, ops);
        EchId until = is_run ? 0 : used_until(r, a);
        for (uint32_t v = is_run ? run->value : UINT32_MAX; v != UINT32_MAX; v = ech_remat_value(r, v)->next) {
            EchRematInput before = {.kind = ECH_REMAT_VALUE, .id = ech_remat_value(r, v)->over};
            if (before.id != UINT32_MAX)
                extend(r, &before, k, run->region, run->site + 1);
        }
        for (guint i = 0; i < inputs->len; i++) {
            const EchRematInput *input = &g_array_index(inputs, EchRematInput, i);
            if (is_run)
                extend(r, input, k, run->region, run->site + 1);
            else
                extend(r, input, UINT32_MAX, a->made_in != ECH_NONE ? a->used_in : a->level, until);
        }
    }
}

/* The plan for arrays @chosen, ascending. */
static EchRematReason plan_for(EchRemat *r, const GArray *chosen)
{
    ech_remat_reset(r);
    g_autoptr(GArray) order = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_array_append_vals(order, chosen->data, chosen->len);
    g_array_sort_with_data(order, ech_remat_compare_back, r);
    guint along = 0;
    for (guint k = 0; k < order->len; k++) {
        EchRematArray *a = ech_remat_array(r, g_array_index(order, uint32_t, k));
        for (; along < r->along->len && g_array_index(r->along, EchRematAlong, along).site <= a->back; along++)
            ech_remat_make_along(r, &g_array_index(r->along, EchRematAlong, along));
        EchRematInput stand;
        EchRematReason why = ech_remat_bring_back(r, a, &stand);
        if (why != ECH_REMAT_OK)
            return why;
        a->stand = r->inputs->len;
        g_array_append_val(r->inputs, stand);
    }
    memset(r->wanted, 0, r->s->n_buffers * sizeof(bool));
    for (uint32_t k = 0; k < r->inputs->len; k++)
        if (ech_remat_input(r, k)->kind == ECH_REMAT_DIRECT || ech_remat_input(r, k)->kind == ECH_REMAT_KEPT)
            r->wanted[ech_remat_input(r, k)->id] = true;
    for (uint32_t k = 0; k < r->runs->len; k++)
        g_array_append_val(r->order, k);
    g_array_sort_with_data(r->order, compare_site, r);
    ech_remat_fuse(r, chosen);
    find_ends(r, chosen);
    return ECH_REMAT_OK;
}

EchRematReason ech_remat_plan(EchRemat *remat)
{
    g_autoptr(GArray) chosen = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (uint32_t k = 0; k < remat->arrays->len; k++)
        if (ech_remat_array(remat, k)->chosen)
            g_array_append_val(chosen, k);
    return plan_for(remat, chosen);
}

EchRematReason ech_remat_plan_alone(EchRemat *remat, uint32_t array)
{
    g_autoptr(GArray) chosen = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_array_append_val(chosen, array);
    ech_remat_array(remat, array)->chosen = true;
    EchRematReason why = plan_for(remat, chosen);
    ech_remat_array(remat, array)->chosen = false;
    return why;
}

EchTime ech_remat_time(const EchRemat *remat)
{
    EchTime time = 0;
    for (guint k = 0; k < remat->runs->len; k++) {
        const EchRematRun *run = ech_remat_run(remat, k);
        if (run->fused)
            continue;
        uint64_t times = MIN(ech_survey_runs(remat->s, run->site), INT64_C(1) << 40);
        EchTime length = remat->s->ops[run->op].kind == ECH_OP_LOOP ? remat->s->clock[remat->s->end[run->op]] - remat->s->clock[run->op]
                                                                    : ech_survey_length(remat->s, run->op);
        time = length > 0 && times > (uint64_t)(INT64_MAX / 8 - time) / (uint64_t)length ? INT64_MAX / 8 : time + length * (EchTime)times;
    }
    return time;
}

static uint32_t run_in_order(const EchRemat *r, guint k)
{
    return g_array_index(r->order, uint32_t, k);
}

static int64_t bytes_of(const EchRemat *r, uint32_t run, bool made, uint32_t reader)
{
    int64_t bytes = 0;
    for (uint32_t v = ech_remat_run(r, run)->fused ? UINT32_MAX : ech_remat_run(r, run)->value; v != UINT32_MAX; v = ech_remat_value(r, v)->next)
        if (made || (ech_remat_value(r, v)->last_run == reader && ech_remat_value(r, v)->until <= ech_remat_run(r, reader)->site))
            bytes += (int64_t)MIN(ech_remat_value(r, v)->bytes, INT64_MAX / 4);
    return bytes;
}

EchRematValue *ech_remat_taken_over(const EchRemat *remat, uint32_t run, const EchRematBinding *binding)
{
    const EchRematRun *at = ech_remat_run(remat, run);
    const EchRematInput *input = binding->value != UINT32_MAX && binding->n_inputs == 1 ? ech_remat_input(remat, binding->first_input) : NULL;
    EchRematValue *v = input != NULL && input->kind == ECH_REMAT_VALUE ? ech_remat_value(remat, input->id) : NULL;
    if (v == NULL || v->last_run != run || v->until > at->site || v->region != at->region || v->bytes != remat->s->buffers[binding->buffer].bytes)
        return NULL;
    uint32_t n = 0;
    for (uint32_t i = at->first_input; i < at->first_input + at->n_inputs; i++)
        n += ech_remat_input(remat, i)->kind == ECH_REMAT_VALUE && ech_remat_input(remat, i)->id == input->id;
    return n == 1 ? v : NULL;
}

/* Bytes of what run @run adds to where it is. */
static int64_t added_to(const EchRemat *r, uint32_t run)
{
    int64_t bytes = 0;
    for (uint32_t v = ech_remat_run(r, run)->value; v != UINT32_MAX; v = ech_remat_value(r, v)->next)
        bytes += ech_remat_value(r, v)->over != UINT32_MAX ? (int64_t)MIN(ech_remat_value(r, v)->bytes, INT64_MAX / 4) : 0;
    return bytes;
}

/* Bytes of what run @run begins in the place of, of what is made before the same op. */
static int64_t taken_over(const EchRemat *r, uint32_t run)
{
    const EchRematRun *at = ech_remat_run(r, run);
    int64_t bytes = 0;
    for (uint32_t k = at->first_binding; k < at->first_binding + at->n_bindings; k++) {
        const EchRematValue *v = ech_remat_taken_over(r, run, ech_remat_binding(r, k));
        bytes += v != NULL && ech_remat_run(r, v->run)->site == at->site ? (int64_t)MIN(v->bytes, INT64_MAX / 4) : 0;
    }
    return bytes;
}

/* Bytes of values made before other ops that runs before an op are the last to need, per op; the caller frees it. */
static int64_t *brought_along(const EchRemat *r)
{
    int64_t *bytes = g_new0(int64_t, r->s->n + 1);
    for (guint k = 0; k < r->values->len; k++) {
        const EchRematValue *v = ech_remat_value(r, k);
        EchId last = ech_remat_run(r, v->last_run)->site;
        if (!ech_remat_run(r, v->run)->fused && ech_remat_run(r, v->run)->site != last && v->until <= last)
            bytes[last] += (int64_t)MIN(v->bytes, INT64_MAX / 4);
    }
    return bytes;
}

/* More than stays of what is made before one op, while it is made: @first to @end in order, beside @brought along. */
static int64_t passing(const EchRemat *r, guint first, guint end, int64_t brought)
{
    int64_t now = brought, most = now;
    g_autoptr(GArray) inputs = g_array_new(FALSE, FALSE, sizeof(EchRematInput)), ops = g_array_new(FALSE, FALSE, sizeof(EchId));
    for (guint k = first; k < end; k++) {
        uint32_t run = run_in_order(r, k);
        if (ech_remat_run(r, run)->fused)
            continue;
        int64_t over = taken_over(r, run);
        now += bytes_of(r, run, true, run) - over - added_to(r, run);
        most = MAX(most, now + (int64_t)MIN(ech_remat_run(r, run)->inside, INT64_MAX / 4));
        now += over;
        now -= bytes_of(r, run, false, run);
        g_array_set_size(inputs, 0);
        g_array_set_size(ops, 0);
        ech_remat_gather_run(r, run, inputs, ops);
        for (guint i = 0; i < inputs->len; i++) {
            const EchRematInput *input = &g_array_index(inputs, EchRematInput, i);
            const EchRematValue *v = input->kind == ECH_REMAT_VALUE ? ech_remat_value(r, input->id) : NULL;
            if (v != NULL && v->run != run && v->last_run == run && v->until <= ech_remat_run(r, run)->site)
                now -= (int64_t)MIN(v->bytes, INT64_MAX / 4);
        }
    }
    return most - now;
}

/* Adds to @change, per op, what values begin and end to take, and to @extra what more there is of them while they are made before one. */
static void add_values(const EchRemat *r, int64_t *change, int64_t *extra)
{
    for (guint k = 0; k < r->values->len; k++) {
        const EchRematValue *v = ech_remat_value(r, k);
        EchId from = ech_remat_run(r, v->run)->site, until = MAX(v->until, ech_remat_run(r, v->last_run)->site);
        if (until <= from || ech_remat_run(r, v->run)->fused)
            continue;
        change[from] += (int64_t)MIN(v->bytes, INT64_MAX / 4);
        change[until] -= (int64_t)MIN(v->bytes, INT64_MAX / 4);
    }
    g_autofree int64_t *brought = brought_along(r);
    for (guint k = 0, end; k < r->order->len; k = end) {
        EchId site = ech_remat_run(r, run_in_order(r, k))->site;
        for (end = k; end < r->order->len && ech_remat_run(r, run_in_order(r, end))->site == site;)
            end++;
        extra[site] += passing(r, k, end, brought[site]);
    }
}

int64_t ech_remat_live(const EchRemat *remat, int64_t *ret_live)
{
    const EchSurvey *s = remat->s;
    size_t n = s->n;
    g_autofree int64_t *change = g_new0(int64_t, n + 2), *extra = g_new0(int64_t, n + 2);
    for (guint k = 0; k < remat->arrays->len; k++) {
        const EchRematArray *a = ech_remat_array(remat, k);
        if (!a->chosen)
            continue;
        int64_t bytes = (int64_t)MIN(s->buffers[a->buffer].bytes, INT64_MAX / 4);
        change[a->made_in != ECH_NONE ? a->gone + 1 : a->gone] -= bytes;
        change[a->free != ECH_NONE ? a->free + 1 : n + 1] += bytes;
        if (a->source == a->buffer)
            continue;
        change[remat->alloc[a->source] + 1] -= bytes;
        change[remat->free[a->source] + 1] += bytes;
    }
    add_values(remat, change, extra);
    for (guint k = 0; k < remat->longer->len; k++) {
        const EchRematLonger *l = ech_remat_longer(remat, k);
        int64_t bytes = (int64_t)MIN(s->buffers[l->buffer].bytes, INT64_MAX / 4);
        change[remat->free[l->buffer] + 1] += bytes;
        change[MAX(l->until, remat->free[l->buffer] + 1)] -= bytes;
    }
    for (guint k = 0; k < remat->carries->len; k++) {
        const EchRematCarry *c = ech_remat_carry(remat, k);
        int64_t bytes = (int64_t)MIN(ech_bytes_mul(c->bytes, s->ops[c->made_in].bytes), INT64_MAX / 4);
        change[c->made_in] += bytes;
        change[s->end[c->used_in]] -= bytes;
    }
    int64_t now = 0, most = 0;
    for (size_t i = 0; i <= n; i++) {
        now += change[i];
        ret_live[i] = (int64_t)MIN(s->live[i], INT64_MAX / 4) + now + extra[i];
        most = MAX(most, ret_live[i]);
    }
    return most;
}

EchBytes ech_remat_at_once(const EchRemat *remat)
{
    size_t n = remat->s->n;
    g_autofree int64_t *change = g_new0(int64_t, n + 2), *extra = g_new0(int64_t, n + 2);
    add_values(remat, change, extra);
    int64_t now = 0, most = 0;
    for (size_t i = 0; i <= n; i++) {
        now += change[i];
        most = MAX(most, now + extra[i]);
    }
    return (EchBytes)most;
}

typedef struct {
    uint64_t begin, end;
} Taken;

static gint compare_taken(gconstpointer x, gconstpointer y)
{
    const Taken *a = x, *b = y;
    return a->begin != b->begin ? (a->begin < b->begin ? -1 : 1) : (a->end > b->end) - (a->end < b->end);
}

static EchId end_of_value(const EchRemat *r, const EchRematValue *v)
{
    EchId site = ech_remat_run(r, v->run)->site;
    return MAX(MAX(v->until, ech_remat_run(r, v->last_run)->site), site + 1);
}

/* What of on-chip @memory is taken at some time from op @from until op @until: by buffers as they are, and by values. What lies nobody knows where counts as
 * lying at its beginning, one after the other. */
static void collect_taken(const EchRemat *r, EchId memory, EchId from, EchId until, GArray *ret_taken)
{
    const EchSurvey *s = r->s;
    Taken unplaced = {0, 0};
    g_array_set_size(ret_taken, 0);
    for (EchId b = 0; b < s->n_buffers; b++) {
        const EchBuffer *buffer = &s->buffers[b];
        Taken place = {buffer->offset, buffer->offset + buffer->bytes};
        if (buffer->memory != memory || buffer->alias_of != ECH_NONE || (r->alloc[b] != ECH_NONE && r->alloc[b] >= until) ||
            (r->free[b] != ECH_NONE && r->free[b] < from))
            continue;
        if (buffer->offset != ECH_OFFSET_NONE)
            g_array_append_val(ret_taken, place);
        else if (r->alloc[b] != ECH_NONE || buffer->resident)
            unplaced.end = ech_bytes_add(unplaced.end, buffer->bytes);
    }
    if (unplaced.end > 0)
        g_array_append_val(ret_taken, unplaced);
    for (guint j = 0; j < r->values->len; j++) {
        const EchRematValue *other = ech_remat_value(r, j);
        Taken place = {other->offset, other->offset + other->bytes};
        if (other->offset != ECH_OFFSET_NONE && ech_remat_run(r, other->run)->site < until && end_of_value(r, other) > from)
            g_array_append_val(ret_taken, place);
    }
}

/* The lowest place between those taken; ECH_OFFSET_NONE where there is none. */
static uint64_t find_gap(GArray *taken, EchBytes bytes, EchBytes capacity)
{
    g_array_sort(taken, compare_taken);
    uint64_t at = 0;
    for (guint j = 0; j < taken->len && g_array_index(taken, Taken, j).begin < at + bytes; j++)
        at = MAX(at, (g_array_index(taken, Taken, j).end + ON_CHIP_ALIGNMENT - 1) / ON_CHIP_ALIGNMENT * ON_CHIP_ALIGNMENT);
    return bytes <= capacity && at <= capacity - bytes ? at : ECH_OFFSET_NONE;
}

/* Something that could lie in on-chip memory: a value, or what the iterations of a loop that runs again have there of their own. */
typedef struct {
    uint32_t run, value; /* value: UINT32_MAX: */
    EchId buffer;        /* of run's loop */
    double gain;         /* Bytes that go there, and not to device memory, for each of its own. */
} Candidate;

/* Bytes that run @run, or what it repeats, moves of @buffer in one pass over the trace. */
static double traffic(const EchRemat *r, const EchRematRun *run, EchId buffer)
{
    const EchSurvey *s = r->s;
    double bytes = 0, outside = (double)ech_survey_runs(s, run->op);
    for (uint32_t u = r->users.first[buffer]; u < r->users.first[buffer + 1]; u++) {
        EchId op = r->users.op[u];
        bool reads, writes;
        if (op >= run->op && op < ech_survey_after(s, run->op))
            bytes += (double)ech_survey_access(s, op, buffer, &reads, &writes) * (double)ech_survey_runs(s, op) / outside;
    }
    return bytes * (double)ech_survey_runs(s, run->site);
}

/* What a run's loop reads of what it begins with goes by the name that it had at first. */
static double read_by(const EchRemat *r, const EchRematRun *run, uint32_t input)
{
    double runs = (double)ech_survey_runs(r->s, run->site);
    for (uint32_t k = run->first_binding; k < run->first_binding + run->n_bindings; k++) {
        const EchRematBinding *b = ech_remat_binding(r, k);
        if (input >= b->first_input && input < b->first_input + b->n_inputs)
            return b->value == UINT32_MAX ? traffic(r, run, b->buffer) : runs * (double)ech_remat_input(r, input)->bytes;
    }
    return runs * (double)ech_remat_input(r, input)->bytes;
}

/* What each value's readers move of it, and its maker. The caller frees it. */
static double *count_traffic(const EchRemat *r)
{
    const EchSurvey *s = r->s;
    double *moved = g_new0(double, r->values->len + 1);
    g_autoptr(GArray) users = g_array_new(FALSE, FALSE, sizeof(EchRematUser));
    for (guint k = 0; k < r->values->len; k++) {
        const EchRematRun *run = ech_remat_run(r, ech_remat_value(r, k)->run);
        moved[k] += traffic(r, run, ech_remat_value(r, k)->buffer);
    }
    for (guint k = 0; k < r->runs->len; k++) {
        const EchRematRun *run = ech_remat_run(r, k);
        for (uint32_t i = run->first_input; i < run->first_input + run->n_inputs; i++)
            if (ech_remat_input(r, i)->kind == ECH_REMAT_VALUE)
                moved[ech_remat_input(r, i)->id] += read_by(r, run, i);
    }
    for (guint k = 0; k < r->arrays->len; k++) {
        const EchRematArray *a = ech_remat_array(r, k);
        const EchRematInput *stand = a->chosen ? ech_remat_input(r, a->stand) : NULL;
        g_array_set_size(users, 0);
        if (stand != NULL && stand->kind == ECH_REMAT_VALUE)
            ech_remat_late_users(r, a, users);
        for (guint u = 0; u < users->len; u++) {
            const EchRematUser *user = &g_array_index(users, EchRematUser, u);
            bool reads, writes;
            moved[stand->id] += (double)ech_survey_access(s, user->op, user->buffer, &reads, &writes) * (double)ech_survey_runs(s, user->op);
        }
    }
    return moved;
}

static gint compare_gain(gconstpointer x, gconstpointer y)
{
    const Candidate *a = x, *b = y;
    return a->gain != b->gain ? (a->gain > b->gain ? -1 : 1) : 0;
}

/* Values that copies from device memory, or parts, are not brought to, and what loops that run again had in @memory: by what they move, most first. */
static GArray *find_candidates(const EchRemat *r, EchId memory, const bool *barred)
{
    const EchSurvey *s = r->s;
    GArray *all = g_array_new(FALSE, FALSE, sizeof(Candidate));
    g_autofree double *moved = count_traffic(r);
    for (guint k = 0; k < r->order->len; k++) {
        uint32_t index = run_in_order(r, k);
        const EchRematRun *run = ech_remat_run(r, index);
        for (uint32_t v = run->fused ? UINT32_MAX : run->value; v != UINT32_MAX; v = ech_remat_value(r, v)->next) {
            Candidate c = {index, v, ECH_NONE, moved[v] / (double)MAX(ech_remat_value(r, v)->bytes, 1)};
            if (!barred[v])
                g_array_append_val(all, c);
        }
        for (EchId i = run->op + 1; s->ops[run->op].kind == ECH_OP_LOOP && i < s->end[run->op]; i++) {
            EchId b = s->ops[i].target;
            if (s->ops[i].kind != ECH_OP_ALLOC || s->buffers[b].memory != memory || !ech_remat_is_inside(s, b, run->op) || r->alloc[b] != i)
                continue;
            Candidate c = {index, UINT32_MAX, b, traffic(r, run, b) / (double)MAX(s->buffers[b].bytes, 1)};
            g_array_append_val(all, c);
        }
    }
    /* Of equals, as they come. */
    g_array_sort(all, compare_gain);
    return all;
}

/* What loops that run again have in @memory from op @from until op @until, and, of @run's own (else UINT32_MAX), while its @buffer is there. */
static void collect_inside(const EchRemat *r, EchId from, EchId until, uint32_t run, EchId buffer, GArray *ret_taken)
{
    for (guint k = 0; k < r->places->len; k++) {
        const EchRematPlace *other = &g_array_index(r->places, EchRematPlace, k);
        EchId site = ech_remat_run(r, other->run)->site;
        bool beside = run == UINT32_MAX ? site >= from && site < until
                                        : other->run == run && r->free[other->buffer] > r->alloc[buffer] && r->alloc[other->buffer] < r->free[buffer];
        Taken place = {other->offset, other->offset + r->s->buffers[other->buffer].bytes};
        if (beside)
            g_array_append_val(ret_taken, place);
    }
}

static gint compare_place(gconstpointer x, gconstpointer y, gpointer data)
{
    const EchRematPlace *a = x, *b = y;
    const uint32_t *rank = data;
    return rank[a->run] != rank[b->run] ? (rank[a->run] < rank[b->run] ? -1 : 1) : (a->buffer > b->buffer) - (a->buffer < b->buffer);
}

/* Values that cannot be there: those that copies take from device memory, and what is written in parts. The caller frees it. */
static bool *find_barred(const EchRemat *r)
{
    const EchSurvey *s = r->s;
    bool *barred = g_new0(bool, r->values->len + 1);
    for (guint k = 0; k < r->arrays->len; k++) {
        const EchRematArray *a = ech_remat_array(r, k);
        const EchRematInput *stand = a->chosen ? ech_remat_input(r, a->stand) : NULL;
        for (uint32_t u = r->users.first[a->buffer]; stand != NULL && stand->kind == ECH_REMAT_VALUE && u < r->users.first[a->buffer + 1]; u++)
            barred[stand->id] |= s->ops[r->users.op[u]].kind == ECH_OP_COPY && r->users.op[u] >= a->back;
    }
    for (guint k = 0; k < r->values->len; k++)
        if (ech_remat_value(r, k)->over != UINT32_MAX)
            barred[k] = barred[ech_remat_value(r, k)->over] = true;
    return barred;
}

void ech_remat_place_on_chip(EchRemat *remat, EchId memory, EchBytes capacity)
{
    EchRemat *r = remat;
    g_array_set_size(r->places, 0);
    g_autofree bool *barred = find_barred(r);
    g_autoptr(GArray) all = find_candidates(r, memory, barred), taken = g_array_new(FALSE, FALSE, sizeof(Taken));
    for (guint k = 0; k < all->len; k++) {
        const Candidate *c = &g_array_index(all, Candidate, k);
        EchId site = ech_remat_run(r, c->run)->site;
        EchRematValue *value = c->value != UINT32_MAX ? ech_remat_value(r, c->value) : NULL;
        EchId until = value != NULL ? end_of_value(r, value) : site + 1;
        collect_taken(r, memory, site, until, taken);
        collect_inside(r, site, until, value != NULL ? UINT32_MAX : c->run, c->buffer, taken);
        EchBytes bytes = value != NULL ? value->bytes : r->s->buffers[c->buffer].bytes;
        uint64_t at = find_gap(taken, bytes, capacity);
        if (value != NULL)
            value->offset = at;
        else if (at != ECH_OFFSET_NONE) {
            EchRematPlace place = {c->run, c->buffer, at};
            g_array_append_val(r->places, place);
        }
    }
    g_autofree uint32_t *rank = g_new0(uint32_t, r->runs->len + 1);
    for (guint k = 0; k < r->order->len; k++)
        rank[run_in_order(r, k)] = k;
    g_array_sort_with_data(r->places, compare_place, rank);
}
