/* What is written in place must be alone in its place: a copy where it is not. XLA's CopyInsertion decides the same by live ranges; here a value may be
 * overwritten if whatever else reads it stands before, and is then made to come before, else it is copied (a broadcast or a constant is made again). */
#include "sim/program/graph.h"

#include "sim/base/compare.h"
#include "sim/base/hash.h"

#include <string.h>

typedef struct {
    EchId id;
    uint32_t position;
} Source;

typedef struct {
    EchGraph *g;
    GArray *rank;        /* uint32_t per node: an order that all edges agree with */
    uint8_t **idle;      /* per while: per position 0 unknown, 1 the body hands it on as it is, 2 it does not; NULL: nothing asked yet */
    EchId *caller;       /* per computation: the while whose body it is, or ECH_NONE */
    GHashTable *copies;  /* node -> GArray of EchId: copies made of it */
    GHashTable *claimed; /* "computation.node.position" that is handed out already */
    uint64_t made;
} Copier;

static uint32_t rank_of(const Copier *c, EchId id)
{
    return id < c->rank->len ? g_array_index(c->rank, uint32_t, id) : UINT32_MAX;
}

static void set_rank(Copier *c, EchId id, uint32_t rank)
{
    uint32_t none = UINT32_MAX;
    while (c->rank->len <= id)
        g_array_append_val(c->rank, none);
    g_array_index(c->rank, uint32_t, id) = rank;
}

static bool is_table(const EchGraph *g, EchId id, uint32_t position)
{
    const EchProgram *out = ech_program_builder_peek(g->out);
    return out->shapes[ech_program_subshape(out, ech_graph_node(g, id)->shape, position)].is_tuple;
}

/* One step towards where a value is made; false where it is made here. */
static bool step_back(const EchGraph *g, Source *s, uint32_t *ret_operand)
{
    const EchInstruction *i = ech_graph_node(g, s->id);
    *ret_operand = 0;
    if (i->n_operands == 0)
        return false;
    switch ((int)i->opcode) {
    case ECH_HLO_BITCAST:
    case ECH_HLO_OPTIMIZATION_BARRIER:
    case ECH_HLO_ADD_DEPENDENCY:
    case ECH_HLO_DOMAIN: break;
    case ECH_HLO_GET_TUPLE_ELEMENT: {
        uint32_t at = ech_graph_member(g, ech_graph_operand(g, s->id, 0), i->number);
        if (at == UINT32_MAX)
            return false;
        s->position += at;
        break;
    }
    case ECH_HLO_TUPLE: {
        uint32_t behind = 1, n = i->n_operands; /* the first member that begins behind it */
        ECH_SEARCH(behind, n, middle, ech_graph_member(g, s->id, middle) <= s->position);
        uint32_t k = behind - 1, at = ech_graph_member(g, s->id, k);
        if (s->position < at)
            return false;
        s->position -= at;
        *ret_operand = k;
        break;
    }
    default: return false;
    }
    EchId next = ech_graph_operand(g, s->id, *ret_operand);
    if (s->position >= ech_graph_n_positions(g, next))
        return false;
    s->id = next;
    return true;
}

static bool is_idle(Copier *c, EchId loop, uint32_t position);

/* Where the value at a place is made, idle loops seen through. */
static Source origin(Copier *c, Source s)
{
    uint32_t operand;
    while (true) {
        if (step_back(c->g, &s, &operand))
            continue;
        const EchInstruction *i = ech_graph_node(c->g, s.id);
        if (i->opcode != ECH_HLO_WHILE || i->n_operands == 0 || !is_idle(c, s.id, s.position))
            return s;
        s.id = ech_graph_operand(c->g, s.id, 0);
    }
}

static bool is_idle(Copier *c, EchId loop, uint32_t position)
{
    const EchGraph *g = c->g;
    const EchInstruction *i = ech_graph_node(g, loop);
    if (i->n_called < 2 || position >= ech_graph_n_positions(g, loop) || position >= ech_graph_n_positions(g, ech_graph_operand(g, loop, 0)))
        return false;
    if (!c->idle[loop])
        c->idle[loop] = g_new0(uint8_t, ech_graph_n_positions(g, loop));
    if (c->idle[loop][position] == 0) {
        EchId body = ech_graph_called(g, loop, 1), root = ech_graph_computation(g, body)->root;
        c->idle[loop][position] = 2;
        if (position < ech_graph_n_positions(g, root)) {
            Source s = origin(c, (Source){root, position});
            bool same = ech_graph_node(g, s.id)->opcode == ECH_HLO_PARAMETER && ech_graph_node(g, s.id)->computation == body && s.position == position;
            c->idle[loop][position] = same ? 1 : 2;
        }
    }
    return c->idle[loop][position] == 1;
}

/* Must what reads @a at @use come before @site, and can it? Adds the order. */
static bool comes_before(Copier *c, EchId reader, EchId site)
{
    if (rank_of(c, reader) >= rank_of(c, site) || ech_graph_node(c->g, reader)->computation != ech_graph_node(c->g, site)->computation)
        return false;
    ech_graph_add_control(c->g, site, reader);
    return true;
}

static bool reads_only(EchGraph *g, EchId user, uint32_t operand)
{
    const EchInstruction *i = ech_graph_node(g, user);
    switch ((int)i->opcode) {
    case ECH_HLO_TUPLE:
    case ECH_HLO_BITCAST:
    case ECH_HLO_GET_TUPLE_ELEMENT:
    case ECH_HLO_OPTIMIZATION_BARRIER:
    case ECH_HLO_ADD_DEPENDENCY:
    case ECH_HLO_DOMAIN:
    case ECH_HLO_WHILE:
    case ECH_HLO_CONDITIONAL:
    case ECH_HLO_CALL: return false;
    case ECH_HLO_DYNAMIC_UPDATE_SLICE:
    case ECH_HLO_SCATTER:
    case ECH_HLO_ASYNC_START: return operand > 0;
    default: return true;
    }
}

/* Everything else that reads @a, @next (at operand @k) aside, is before @site or made so. @at: the position meant. */
static bool alone(Copier *c, EchId a, uint32_t at, EchId next, uint32_t k, EchId site)
{
    EchGraph *g = c->g;
    if (a >= g->n_known)
        return true;
    if (ech_graph_computation(g, ech_graph_node(g, a)->computation)->root == a && next != ECH_NONE)
        return false;
    const GArray *copies = g_hash_table_lookup(c->copies, GSIZE_TO_POINTER((size_t)a + 1));
    for (guint n = 0; copies && n < copies->len; n++) {
        EchId copy = g_array_index(copies, EchId, n);
        if (copy != next && !comes_before(c, copy, site))
            return false;
    }
    for (uint32_t u = g->first_use[a]; u < g->first_use[a + 1]; u++) {
        EchId user = g->uses[u].user;
        uint32_t operand = g->uses[u].operand;
        if ((user == next && operand == k) || ech_graph_operand(g, user, operand) != a)
            continue;
        const EchInstruction *w = ech_graph_node(g, user);
        if (ech_graph_shape(g, a)->is_tuple) {
            uint32_t other = w->opcode == ECH_HLO_GET_TUPLE_ELEMENT ? ech_graph_member(g, a, w->number) : UINT32_MAX;
            if (other != UINT32_MAX && (other > at || other + ech_graph_n_positions(g, user) <= at))
                continue;
            return false;
        }
        if (reads_only(g, user, operand)) {
            if (!comes_before(c, user, site))
                return false;
            continue;
        }
        /* Handed to loops that leave it as it is: they only read it. */
        if (w->opcode != ECH_HLO_TUPLE || ech_graph_computation(g, w->computation)->root == user || user >= g->n_known)
            return false;
        for (uint32_t l = g->first_use[user]; l < g->first_use[user + 1]; l++) {
            EchId loop = g->uses[l].user;
            if (ech_graph_node(g, loop)->opcode != ECH_HLO_WHILE || !is_idle(c, loop, ech_graph_member(g, user, operand)) || !comes_before(c, loop, site))
                return false;
        }
    }
    return true;
}

static bool is_cheap(const EchGraph *g, EchId id)
{
    const EchInstruction *i = ech_graph_node(g, id);
    if (i->opcode == ECH_HLO_BROADCAST && i->n_operands == 1)
        return ech_graph_shape(g, ech_graph_operand(g, id, 0))->count <= 1;
    return i->opcode == ECH_HLO_IOTA || (i->target && strcmp(i->target, "AllocateBuffer") == 0);
}

/* Puts a copy of the array @id between it and operand @k of @user (ECH_NONE: the root of @computation). */
static void put_copy(Copier *c, EchId computation, EchId user, uint32_t k, EchId id, EchId site)
{
    EchGraph *g = c->g;
    EchId made;
    if (is_cheap(g, id)) {
        g_autofree EchId *operands = g_new(EchId, ech_graph_node(g, id)->n_operands + 1);
        uint32_t n = ech_graph_node(g, id)->n_operands;
        for (uint32_t o = 0; o < n; o++)
            operands[o] = ech_graph_operand(g, id, o);
        made = ech_graph_add(g, computation, *ech_graph_node(g, id), operands, n);
    } else {
        made = ech_graph_add_new(g, computation, ECH_HLO_COPY, "copy", ech_graph_node(g, id)->shape, &id, 1);
        ech_graph_node(g, made)->op_name = ech_graph_node(g, id)->op_name;
        ech_graph_node(g, made)->source = ech_graph_node(g, id)->source;
        GArray *list = g_hash_table_lookup(c->copies, GSIZE_TO_POINTER((size_t)id + 1));
        if (!list) {
            list = g_array_new(FALSE, FALSE, sizeof(EchId));
            g_hash_table_insert(c->copies, GSIZE_TO_POINTER((size_t)id + 1), list);
        }
        g_array_append_val(list, made);
        c->made++;
    }
    uint32_t rank = rank_of(c, site);
    set_rank(c, made, rank == 0 || rank == UINT32_MAX ? rank : rank - 1);
    if (user == ECH_NONE)
        ech_graph_computation(g, computation)->root = made;
    else
        ech_graph_set_operand(g, user, k, made);
}

/* The place that @site writes on, handed over at operand @k of @user (ECH_NONE: as the root of @computation) at @position. */
static void make_alone(Copier *c, EchId computation, EchId user, uint32_t k, uint32_t position, EchId site)
{
    EchGraph *g = c->g;
    EchId next = user, a = user == ECH_NONE ? ech_graph_computation(g, computation)->root : ech_graph_operand(g, user, k);
    uint32_t operand = k;
    Source s = {a, position};
    if (position >= ech_graph_n_positions(g, a) || is_table(g, a, position))
        return;
    /* Down to the tuple member or the array that is handed over. */
    while (ech_graph_node(g, s.id)->opcode == ECH_HLO_TUPLE) {
        EchId tuple = s.id;
        if (!step_back(g, &s, &operand))
            return;
        next = tuple;
    }
    EchId array = s.id, holder = next;
    uint32_t at = operand;
    if (ech_graph_shape(g, array)->is_tuple) {
        return; /* a whole tuple is handed on, as from loop to loop */
    }
    bool fine = true;
    while (fine) {
        fine = alone(c, s.id, s.position, next, operand, site);
        EchId here = s.id;
        if (!fine || !step_back(g, &s, &operand))
            break;
        next = here;
    }
    const EchInstruction *d = ech_graph_node(g, s.id);
    if (fine && d->opcode == ECH_HLO_WHILE)
        fine = !is_idle(c, s.id, s.position);
    else if (fine && d->opcode == ECH_HLO_PARAMETER) {
        EchId loop = c->caller[d->computation];
        fine = loop != ECH_NONE && !is_idle(c, loop, s.position);
    } else if (fine)
        fine = d->opcode != ECH_HLO_CONSTANT;
    if (!fine)
        put_copy(c, computation, holder, at, array, site);
}

/* A donated parameter's place may be written on where its output is what is written. */
static bool is_donated(const EchGraph *g, EchId parameter, uint32_t position)
{
    const EchProgram *p = g->source;
    for (size_t k = 0; k < p->n_donations; k++) {
        if (p->donations[k].parameter == ech_graph_node(g, parameter)->number && p->donations[k].parameter_position == position)
            return true;
    }
    return false;
}

/* A loop's result lies in the place of what the loop begins with: where that is a donated argument's, nothing else may read the argument beside the loop or
 * after it. */
static bool is_read_beside(Copier *c, EchId loop, uint32_t position, EchId parameter)
{
    EchGraph *g = c->g;
    EchId init = ech_graph_operand(g, loop, 0);
    if (parameter >= g->n_known || position >= ech_graph_n_positions(g, init))
        return false;
    Source from = origin(c, (Source){init, position});
    for (uint32_t u = g->first_use[parameter]; u < g->first_use[parameter + 1]; u++) {
        EchId user = g->uses[u].user;
        uint32_t operand = g->uses[u].operand;
        if (ech_graph_operand(g, user, operand) != parameter)
            continue;
        bool begins = from.id == parameter && user == init && ech_graph_member(g, init, operand) == position;
        if (!begins && (user == init || !comes_before(c, user, loop)))
            return true;
    }
    return false;
}

/* What is handed out of @computation at @position: made there, and handed out once. */
static void settle_root(Copier *c, EchId computation, uint32_t position, EchId loop)
{
    EchGraph *g = c->g;
    EchId root = ech_graph_computation(g, computation)->root;
    if (position >= ech_graph_n_positions(g, root) || is_table(g, root, position))
        return;
    Source s = origin(c, (Source){root, position});
    const EchInstruction *d = ech_graph_node(g, s.id);
    bool own = d->opcode != ECH_HLO_CONSTANT;
    if (d->opcode == ECH_HLO_PARAMETER) {
        own = loop != ECH_NONE && s.position == position;
        for (size_t k = 0; computation == g->entry && k < g->source->n_donations && !own; k++) {
            const EchDonation *donation = &g->source->donations[k];
            own = donation->output_position == position && donation->parameter == d->number && donation->parameter_position == s.position;
        }
    }
    for (size_t k = 0; computation == g->entry && d->opcode == ECH_HLO_WHILE && d->n_operands == 1 && k < g->source->n_donations && own; k++) {
        const EchDonation *donation = &g->source->donations[k];
        EchId parameter = donation->parameter_position == 0 ? ech_graph_parameter(g, g->entry, donation->parameter) : ECH_NONE;
        own = donation->output_position != position || parameter == ECH_NONE || !is_read_beside(c, s.id, s.position, parameter);
    }
    g_autofree char *key = g_strdup_printf("%u.%u.%u", computation, s.id, s.position);
    own = g_hash_table_add(c->claimed, g_strdup(key)) && own;
    if (own)
        return;
    /* Where the array hangs in the root's tuples. */
    EchId user = ECH_NONE;
    uint32_t operand = 0;
    Source at = {root, position};
    while (ech_graph_node(g, at.id)->opcode == ECH_HLO_TUPLE) {
        EchId tuple = at.id;
        if (!step_back(g, &at, &operand))
            return;
        user = tuple;
    }
    if (!ech_graph_shape(g, at.id)->is_tuple)
        put_copy(c, computation, user, operand, at.id, root);
}

static void settle_computation(Copier *c, EchId computation)
{
    EchGraph *g = c->g;
    g_autoptr(GArray) sorted = ech_graph_sorted(g, computation);
    for (guint k = 0; k < sorted->len; k++)
        set_rank(c, g_array_index(sorted, EchId, k), (k + 1) * 2);
    EchId loop = c->caller[computation];
    EchId root = ech_graph_computation(g, computation)->root;
    for (uint32_t q = 0; q < ech_graph_n_positions(g, root); q++)
        settle_root(c, computation, q, loop);
    for (guint k = 0; k < sorted->len; k++) {
        EchId id = g_array_index(sorted, EchId, k);
        EchInstruction i = *ech_graph_node(g, id);
        bool async_update = false;
        if (i.opcode == ECH_HLO_ASYNC_START && i.n_called > 0) {
            EchId inner = ech_graph_computation(g, ech_graph_called(g, id, 0))->root;
            async_update = ech_graph_node(g, inner)->opcode == ECH_HLO_DYNAMIC_UPDATE_SLICE;
        }
        if ((i.opcode == ECH_HLO_DYNAMIC_UPDATE_SLICE || async_update) && i.n_operands > 0) {
            Source s = origin(c, (Source){ech_graph_operand(g, id, 0), 0});
            const EchInstruction *d = ech_graph_node(g, s.id);
            if (!(d->opcode == ECH_HLO_PARAMETER && d->computation == g->entry && is_donated(g, s.id, s.position)))
                make_alone(c, computation, id, 0, 0, id);
        } else if (i.opcode == ECH_HLO_SCATTER) {
            for (uint32_t o = 0; o < i.n_operands / 2; o++)
                make_alone(c, computation, id, o, 0, id);
        } else if (i.opcode == ECH_HLO_WHILE && i.n_operands > 0) {
            for (uint32_t q = 0; q < ech_graph_n_positions(g, id); q++) {
                Source s = origin(c, (Source){ech_graph_operand(g, id, 0), MIN(q, ech_graph_n_positions(g, ech_graph_operand(g, id, 0)) - 1)});
                const EchInstruction *d = ech_graph_node(g, s.id);
                if (!is_idle(c, id, q) && !(d->opcode == ECH_HLO_PARAMETER && d->computation == g->entry && is_donated(g, s.id, s.position)))
                    make_alone(c, computation, id, 0, q, id);
            }
        }
    }
}

void ech_graph_insert_copies(EchGraph *g)
{
    ech_graph_find_uses(g);
    Copier c = {.g = g};
    size_t n = g->n_known;
    c.rank = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    c.idle = g_new0(uint8_t *, n + 1);
    c.caller = g_new(EchId, g->computations->len + 1);
    c.copies = g_hash_table_new_full(g_direct_hash, g_direct_equal, NULL, (GDestroyNotify)g_array_unref);
    c.claimed = g_hash_table_new_full(ech_hash_text, g_str_equal, g_free, NULL);
    for (EchId k = 0; k < g->computations->len; k++)
        c.caller[k] = ECH_NONE;
    for (EchId id = 0; id < n; id++) {
        const EchInstruction *i = ech_graph_node(g, id);
        if (g->live[id] && i->opcode == ECH_HLO_WHILE && i->n_called >= 2)
            c.caller[ech_graph_called(g, id, 1)] = id;
    }
    g_autoptr(GArray) running = ech_graph_running(g);
    for (guint k = 0; k < running->len; k++)
        settle_computation(&c, g_array_index(running, EchId, k));
    if (c.made > 0)
        ech_diag_note(g->diag, "copies_for_updates_in_place", c.made);
    for (size_t id = 0; id < n; id++)
        g_free(c.idle[id]);
    g_free(c.idle);
    g_free(c.caller);
    g_array_unref(c.rank);
    g_hash_table_unref(c.copies);
    g_hash_table_unref(c.claimed);
}
