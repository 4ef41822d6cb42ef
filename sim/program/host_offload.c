/* Host offload marks become host arrays and copies. Source: XLA's HostOffloader and its lists of what host memory may pass through
 * (xla/hlo/transforms/host_offloader.cc, host_offload_utils.cc); JAX's annotate_device_placement is what ConvertMemoryPlacementToInternalAnnotations
 * makes the marks of.
 *
 * A place is a position in an instruction's shape tree. Host places are found first, forward from what is in host memory through what only passes
 * it on, backward from what must be there to where it is made; then instructions are changed by what their places say. */
#include "sim/program/graph.h"

#include <string.h>

enum { MAX_NAMED = 3 };

typedef enum { MARK_NONE, MARK_HOST, MARK_DEVICE } Mark;

typedef struct {
    EchId id;
    uint32_t position;
} Place;

/* @operand of @user at @position of the operand must be in host memory. user ECH_NONE: the root of computation @operand. */
typedef struct {
    EchId user;
    uint32_t operand, position;
    bool buffer; /* to be written in place: what it held before is never read */
} Need;

typedef struct {
    EchGraph *g;
    uint8_t **host;   /* per node: host[id][position], NULL until one is */
    size_t n_host;    /* nodes that has room for */
    EchId *caller;    /* per computation: who runs it, or ECH_NONE */
    GArray *places;   /* Place: marked, not gone on from */
    GArray *needs;    /* Need */
    uint64_t reached; /* copies that no mark asked for */
    uint64_t on_host; /* instructions that read host memory themselves */
    GString *names;
    unsigned n_names;
} Offload;

static Mark mark_of(const EchInstruction *i)
{
    if (i->opcode != ECH_HLO_CUSTOM_CALL || !i->target || i->n_operands != 1)
        return MARK_NONE;
    if (strcmp(i->target, "MoveToHost") == 0)
        return MARK_HOST;
    if (strcmp(i->target, "MoveToDevice") == 0)
        return MARK_DEVICE;
    if (strcmp(i->target, "annotate_device_placement") == 0) {
        const char *end = i->attributes + i->attributes_n;
        const char *at = g_strstr_len(i->attributes, (gssize)i->attributes_n, "_xla_buffer_placement");
        at = at ? memchr(at, '=', (size_t)(end - at)) : NULL;
        while (at && at < end && (*at == '=' || *at == '"' || *at == ' ' || *at == '\\'))
            at++;
        if (at && (size_t)(end - at) > 11 && (memcmp(at, "pinned_host", 11) == 0 || memcmp(at, "unpinned_ho", 11) == 0))
            return MARK_HOST;
        /* "device", "device_sram" and what was not said. */
        return MARK_DEVICE;
    }
    return MARK_NONE;
}

static const EchShape *leaf(const EchGraph *g, EchId id, uint32_t position)
{
    const EchProgram *out = ech_program_builder_peek(g->out);
    return &out->shapes[ech_program_subshape(out, ech_graph_node(g, id)->shape, position)];
}

static bool is_host(const Offload *o, EchId id, uint32_t position)
{
    return id < o->n_host && o->host[id] && position < ech_graph_n_positions(o->g, id) && o->host[id][position];
}

static void mark(Offload *o, EchId id, uint32_t position)
{
    if (position >= ech_graph_n_positions(o->g, id) || is_host(o, id, position) || leaf(o->g, id, position)->is_tuple)
        return;
    if (id >= o->n_host) {
        size_t n = MAX(o->g->nodes->len, 1u);
        o->host = g_renew(uint8_t *, o->host, n);
        memset(o->host + o->n_host, 0, (n - o->n_host) * sizeof *o->host);
        o->n_host = n;
    }
    if (!o->host[id])
        o->host[id] = g_new0(uint8_t, ech_graph_n_positions(o->g, id));
    o->host[id][position] = 1;
    Place place = {id, position};
    g_array_append_val(o->places, place);
}

static void need(Offload *o, EchId user, uint32_t operand, uint32_t position, bool buffer)
{
    Need one = {user, operand, position, buffer};
    g_array_append_val(o->needs, one);
}

/* What gives its operand on, array for array. */
static bool passes_on(const EchGraph *g, EchId id)
{
    const EchInstruction *i = ech_graph_node(g, id);
    switch ((int)i->opcode) {
    case ECH_HLO_BITCAST:
    case ECH_HLO_RESHAPE:
    case ECH_HLO_COPY:
    case ECH_HLO_OPTIMIZATION_BARRIER:
    case ECH_HLO_ADD_DEPENDENCY:
    case ECH_HLO_DOMAIN: return i->n_operands > 0;
    case ECH_HLO_CUSTOM_CALL: return i->n_operands == 1 && i->target && strcmp(i->target, "AssumeGatherIndicesInBound") == 0;
    default: return false;
    }
}

/* Is a mark's value only written into buffers in place (behind reshapes)? Then the update is the copy. */
static bool only_updates(const EchGraph *g, EchId id)
{
    g_autoptr(GArray) stack = g_array_new(FALSE, FALSE, sizeof(EchId));
    g_array_append_val(stack, id);
    bool any = false;
    for (unsigned steps = 0; stack->len > 0; steps++) {
        EchId at = g_array_index(stack, EchId, stack->len - 1);
        g_array_set_size(stack, stack->len - 1);
        if (steps > 256 || ech_graph_computation(g, ech_graph_node(g, at)->computation)->root == at)
            return false;
        for (uint32_t u = g->first_use[at]; u < g->first_use[at + 1]; u++) {
            const EchInstruction *user = ech_graph_node(g, g->uses[u].user);
            if (user->opcode == ECH_HLO_DYNAMIC_UPDATE_SLICE && g->uses[u].operand == 1)
                any = true;
            else if ((user->opcode == ECH_HLO_RESHAPE || user->opcode == ECH_HLO_BITCAST || user->opcode == ECH_HLO_COPY) && g->uses[u].operand == 0)
                g_array_append_val(stack, g->uses[u].user);
            else
                return false;
        }
    }
    return any;
}

/* A value in host memory that rides to its update: the buffers it is written into are there. */
static void ride(Offload *o, EchId id)
{
    const EchGraph *g = o->g;
    g_autoptr(GArray) stack = g_array_new(FALSE, FALSE, sizeof(EchId));
    g_array_append_val(stack, id);
    while (stack->len > 0) {
        EchId at = g_array_index(stack, EchId, stack->len - 1);
        g_array_set_size(stack, stack->len - 1);
        for (uint32_t u = g->first_use[at]; u < g->first_use[at + 1]; u++) {
            EchId user = g->uses[u].user;
            if (ech_graph_node(g, user)->opcode == ECH_HLO_DYNAMIC_UPDATE_SLICE) {
                mark(o, user, 0);
                need(o, user, 0, 0, true);
            } else
                g_array_append_val(stack, user);
        }
    }
}

static void reads_host(Offload *o, EchId id)
{
    const EchInstruction *i = ech_graph_node(o->g, id);
    o->on_host++;
    if (o->n_names++ < MAX_NAMED)
        g_string_append_printf(o->names, "%s%s (%s)", o->names->len > 0 ? ", " : "", i->name, i->opcode_name);
}

/* An element of a loop's state is one place all around it. */
static void mark_loop(Offload *o, EchId loop, uint32_t position)
{
    const EchGraph *g = o->g;
    const EchInstruction *i = ech_graph_node(g, loop);
    if (i->n_called < 2 || i->n_operands < 1 || is_host(o, loop, position))
        return;
    mark(o, loop, position);
    for (unsigned side = 0; side < 2; side++) {
        EchId parameter = ech_graph_parameter(g, ech_graph_called(g, loop, side), 0);
        if (parameter != ECH_NONE)
            mark(o, parameter, position);
    }
    need(o, loop, 0, position, true);
    need(o, ECH_NONE, ech_graph_called(g, loop, 1), position, false);
}

static void mark_branches(Offload *o, EchId conditional, uint32_t position)
{
    const EchInstruction *i = ech_graph_node(o->g, conditional);
    if (is_host(o, conditional, position))
        return;
    mark(o, conditional, position);
    for (uint32_t k = 0; k < i->n_called; k++)
        need(o, ECH_NONE, ech_graph_called(o->g, conditional, k), position, false);
}

/* A host place is handed out of its computation. */
static void leave(Offload *o, EchId computation, uint32_t position)
{
    EchId caller = o->caller[computation];
    if (caller == ECH_NONE)
        return;
    const EchInstruction *i = ech_graph_node(o->g, caller);
    if (i->opcode == ECH_HLO_CONDITIONAL)
        mark_branches(o, caller, position);
    else if (i->opcode == ECH_HLO_WHILE && i->n_called >= 2 && ech_graph_called(o->g, caller, 1) == computation)
        mark_loop(o, caller, position);
}

/* From a host place to what reads it. */
static void go_on(Offload *o, Place place)
{
    EchGraph *g = o->g;
    const EchInstruction *i = ech_graph_node(g, place.id);
    if (ech_graph_computation(g, i->computation)->root == place.id)
        leave(o, i->computation, place.position);
    if (i->opcode == ECH_HLO_PARAMETER && o->caller[i->computation] != ECH_NONE) {
        EchId caller = o->caller[i->computation];
        if (ech_graph_node(g, caller)->opcode == ECH_HLO_WHILE)
            mark_loop(o, caller, place.position);
    }
    if (i->opcode == ECH_HLO_WHILE) { /* marked by its name alone */
        for (unsigned side = 0; side < 2 && i->n_called >= 2; side++) {
            EchId parameter = ech_graph_parameter(g, ech_graph_called(g, place.id, side), 0);
            if (parameter != ECH_NONE)
                mark(o, parameter, place.position);
        }
    }
    if (place.id >= g->n_known)
        return;
    for (uint32_t u = g->first_use[place.id]; u < g->first_use[place.id + 1]; u++) {
        EchId user = g->uses[u].user;
        uint32_t k = g->uses[u].operand;
        /* A copy may have been put between since the uses were found. */
        if (ech_graph_operand(g, user, k) != place.id)
            continue;
        const EchInstruction *w = ech_graph_node(g, user);
        if (passes_on(g, user)) {
            if (k == 0)
                mark(o, user, place.position);
            continue;
        }
        switch ((int)w->opcode) {
        case ECH_HLO_TUPLE: {
            uint32_t at = ech_graph_member(g, user, k);
            if (at != UINT32_MAX)
                mark(o, user, at + place.position);
            break;
        }
        case ECH_HLO_GET_TUPLE_ELEMENT: {
            uint32_t at = ech_graph_member(g, place.id, w->number);
            if (at != UINT32_MAX && place.position >= at && place.position - at < ech_graph_n_positions(g, user))
                mark(o, user, place.position - at);
            break;
        }
        case ECH_HLO_WHILE:
            if (w->n_called >= 2)
                mark_loop(o, user, place.position);
            break;
        case ECH_HLO_CONDITIONAL:
            if (k > 0 && k - 1 < w->n_called) {
                EchId parameter = ech_graph_parameter(g, ech_graph_called(g, user, k - 1), 0);
                if (parameter != ECH_NONE)
                    mark(o, parameter, place.position);
            }
            break;
        case ECH_HLO_DYNAMIC_UPDATE_SLICE:
            if (k == 0)
                mark(o, user, 0);
            else if (k == 1) {
                mark(o, user, 0);
                need(o, user, 0, 0, true);
            }
            break;
        case ECH_HLO_DYNAMIC_SLICE:
        case ECH_HLO_SLICE:
            if (k != 0)
                reads_host(o, user);
            break;
        case ECH_HLO_COPY_START:
        case ECH_HLO_COPY_DONE:
        case ECH_HLO_ASYNC_START:
        case ECH_HLO_ASYNC_UPDATE:
        case ECH_HLO_ASYNC_DONE: break;
        default:
            if (mark_of(w) == MARK_HOST)
                mark(o, user, 0);
            else if (mark_of(w) == MARK_NONE && !(w->target && strcmp(w->target, "AllocateBuffer") == 0))
                reads_host(o, user);
        }
    }
}

/* Puts @made between @user's operand and its reader. */
static void put_between(Offload *o, const Need *n, EchId made)
{
    if (n->user == ECH_NONE)
        ech_graph_computation(o->g, n->operand)->root = made;
    else
        ech_graph_set_operand(o->g, n->user, n->operand, made);
    mark(o, made, 0);
}

/* Backward from a place that must be in host memory: to what is there, or what can be; else a copy. */
static void fulfil(Offload *o, Need n)
{
    EchGraph *g = o->g;
    while (true) {
        EchId d = n.user == ECH_NONE ? ech_graph_computation(g, n.operand)->root : ech_graph_operand(g, n.user, n.operand);
        if (n.position >= ech_graph_n_positions(g, d) || is_host(o, d, n.position) || leaf(g, d, n.position)->is_tuple)
            return;
        const EchInstruction *i = ech_graph_node(g, d);
        if (passes_on(g, d)) {
            mark(o, d, n.position);
            n = (Need){d, 0, n.position, n.buffer};
            continue;
        }
        switch ((int)i->opcode) {
        case ECH_HLO_GET_TUPLE_ELEMENT: {
            uint32_t at = ech_graph_member(g, ech_graph_operand(g, d, 0), i->number);
            if (at == UINT32_MAX)
                return;
            mark(o, d, n.position);
            n = (Need){d, 0, at + n.position, n.buffer};
            continue;
        }
        case ECH_HLO_TUPLE: {
            uint32_t k = 0;
            while (k + 1 < i->n_operands && ech_graph_member(g, d, k + 1) <= n.position)
                k++;
            if (i->n_operands == 0)
                return;
            uint32_t at = ech_graph_member(g, d, k);
            mark(o, d, n.position);
            n = (Need){d, k, n.position - at, n.buffer};
            continue;
        }
        case ECH_HLO_WHILE: mark_loop(o, d, n.position); return;
        case ECH_HLO_CONDITIONAL: mark_branches(o, d, n.position); return;
        case ECH_HLO_DYNAMIC_UPDATE_SLICE:
            mark(o, d, 0);
            n = (Need){d, 0, 0, true};
            continue;
        case ECH_HLO_PARAMETER: {
            EchId caller = o->caller[i->computation];
            if (caller != ECH_NONE && ech_graph_node(g, caller)->opcode == ECH_HLO_WHILE) {
                mark_loop(o, caller, n.position);
                return;
            }
            break;
        }
        default: break;
        }
        if (mark_of(i) == MARK_HOST) {
            mark(o, d, 0);
            return;
        }
        if (n.position != 0 || ech_graph_shape(g, d)->is_tuple) {
            ech_diag_note(g->diag, "host_places_not_reached", 1);
            return;
        }
        EchId made;
        if (n.buffer && (i->opcode == ECH_HLO_BROADCAST || (i->target && strcmp(i->target, "AllocateBuffer") == 0))) {
            /* Filled in place before anything reads it: no need of what it held. */
            made = ech_graph_add_new(g, i->computation, ECH_HLO_CUSTOM_CALL, "host-buffer", i->shape, NULL, 0);
            ech_graph_node(g, made)->target = "AllocateBuffer";
            ech_graph_node(g, made)->op_name = ech_graph_node(g, d)->op_name;
            ech_graph_node(g, made)->source = ech_graph_node(g, d)->source;
            ech_diag_note(g->diag, "host_buffers_made_of_broadcasts", 1);
        } else {
            made = ech_graph_add_new(g, i->computation, ECH_HLO_CUSTOM_CALL, "to-host", i->shape, &d, 1);
            ech_graph_node(g, made)->target = "MoveToHost";
            o->reached++;
        }
        put_between(o, &n, made);
        return;
    }
}

static void settle(Offload *o)
{
    while (o->places->len > 0 || o->needs->len > 0) {
        if (o->places->len > 0) {
            Place place = g_array_index(o->places, Place, o->places->len - 1);
            g_array_set_size(o->places, o->places->len - 1);
            go_on(o, place);
            continue;
        }
        Need n = g_array_index(o->needs, Need, o->needs->len - 1);
        g_array_set_size(o->needs, o->needs->len - 1);
        fulfil(o, n);
    }
}

/* Changing the instructions */

static EchId flagged_shape(Offload *o, EchId shape, const uint8_t *flags, uint32_t *position, unsigned depth)
{
    const EchShape *s = &ech_program_builder_peek(o->g->out)->shapes[shape];
    uint32_t at = (*position)++;
    if (!s->is_tuple)
        return flags[at] ? ech_graph_in_space(o->g, shape, ECH_SPACE_HOST) : shape;
    uint32_t n = s->n_elements, first = s->first_element;
    g_autofree EchId *members = g_new(EchId, MAX(n, 1));
    for (uint32_t k = 0; k < n; k++) {
        EchId old = ech_program_builder_peek(o->g->out)->elements[first + k];
        members[k] = depth < 128 ? flagged_shape(o, old, flags, position, depth + 1) : old;
    }
    return ech_program_builder_tuple(o->g->out, members, n);
}

static EchId semaphore(EchGraph *g)
{
    EchLayout layout;
    bool ok = ech_layout_parse(g->generation > 0 ? "u32[]{:S(2)}" : "u32[]", g->generation > 0 ? 12 : 5, &layout, NULL, NULL);
    g_assert(ok);
    return ech_program_builder_array(g->out, &layout);
}

/* @id becomes the end of a copy of @from; the start stands before it. */
static void become_copy(EchGraph *g, EchId id, EchId from)
{
    EchId members[] = {ech_graph_node(g, id)->shape, ech_graph_node(g, from)->shape, semaphore(g)};
    EchId shape = ech_program_builder_tuple(g->out, members, 3);
    EchId start = ech_graph_add_new(g, ech_graph_node(g, id)->computation, ECH_HLO_COPY_START, "copy-start", shape, &from, 1);
    EchInstruction *done = ech_graph_node(g, id);
    ech_graph_node(g, start)->op_name = done->op_name;
    ech_graph_node(g, start)->source = done->source;
    done->opcode = ECH_HLO_COPY_DONE;
    done->opcode_name = ech_hlo_name(ECH_HLO_COPY_DONE);
    done->target = NULL;
    done->attributes_n = 0;
    ech_graph_set_operand(g, id, 0, start);
}

/* @id, a slice or an update in place, becomes the end of an asynchronous computation of itself. */
static void become_async(EchGraph *g, EchId id)
{
    EchInstruction old = *ech_graph_node(g, id);
    EchId body = ech_graph_add_body(g, "async_computation");
    uint32_t n = old.n_operands;
    g_autofree EchId *inputs = g_new(EchId, n + 1), *shapes = g_new(EchId, n + 1), *outer = g_new(EchId, n + 1);
    for (uint32_t k = 0; k < n; k++) {
        outer[k] = ech_graph_operand(g, id, k);
        shapes[k] = ech_graph_node(g, outer[k])->shape;
        inputs[k] = ech_graph_add_new(g, body, ECH_HLO_PARAMETER, "param", shapes[k], NULL, 0);
        ech_graph_node(g, inputs[k])->number = k;
    }
    EchId inner = ech_graph_add(g, body, old, inputs, n);
    ech_graph_computation(g, body)->root = inner;
    EchId members[] = {ech_program_builder_tuple(g->out, shapes, n), old.shape, semaphore(g)};
    bool update = old.opcode == ECH_HLO_DYNAMIC_UPDATE_SLICE;
    EchId start = ech_graph_add_new(g, old.computation, ECH_HLO_ASYNC_START, update ? "dynamic-update-slice-start" : "dynamic-slice-start",
                                    ech_program_builder_tuple(g->out, members, 3), outer, n);
    ech_graph_set_called(g, start, body);
    ech_graph_node(g, start)->op_name = old.op_name;
    ech_graph_node(g, start)->source = old.source;
    EchInstruction *done = ech_graph_node(g, id);
    done->opcode = ECH_HLO_ASYNC_DONE;
    done->opcode_name = ech_hlo_name(ECH_HLO_ASYNC_DONE);
    done->n_operands = 1;
    done->attributes_n = 0;
    ech_graph_set_operand(g, id, 0, start);
}

/* What replaces a mark or a copy that moves nothing. */
static EchId behind(const EchGraph *g, const bool *gone, EchId id)
{
    while (gone[id])
        id = ech_graph_operand(g, id, 0);
    return id;
}

static void change_all(Offload *o)
{
    EchGraph *g = o->g;
    size_t n = g->nodes->len;
    g_autofree bool *gone = g_new0(bool, n + 1);
    ech_graph_find_uses(g);
    for (EchId id = 0; id < n; id++) {
        if (g->live[id] && id < o->n_host && o->host[id]) {
            uint32_t position = 0;
            EchId shape = flagged_shape(o, ech_graph_node(g, id)->shape, o->host[id], &position, 0);
            ech_graph_node(g, id)->shape = shape;
        }
    }
    for (EchId id = 0; id < n; id++) {
        const EchInstruction *i = ech_graph_node(g, id);
        Mark kind = mark_of(i);
        if (!g->live[id] || ech_graph_computation(g, i->computation)->body || i->n_operands == 0)
            continue;
        bool from = is_host(o, ech_graph_operand(g, id, 0), 0), to = is_host(o, id, 0);
        gone[id] = (kind != MARK_NONE && from == to) || (i->opcode == ECH_HLO_COPY && from && to && !ech_graph_shape(g, id)->is_tuple);
    }
    for (EchId id = 0; id < n; id++) {
        if (!g->live[id] || gone[id])
            continue;
        for (uint32_t k = 0; k < ech_graph_node(g, id)->n_operands; k++)
            ech_graph_set_operand(g, id, k, behind(g, gone, ech_graph_operand(g, id, k)));
    }
    for (guint c = 0; c < g->computations->len; c++) {
        EchGraphComputation *computation = ech_graph_computation(g, c);
        if (computation->root != ECH_NONE)
            computation->root = behind(g, gone, computation->root);
    }
    for (EchId id = 0; id < n; id++) {
        EchInstruction *i = ech_graph_node(g, id);
        if (!g->live[id] || gone[id] || i->n_operands == 0 || ech_graph_computation(g, i->computation)->body)
            continue;
        EchId first = ech_graph_operand(g, id, 0);
        bool from = is_host(o, first, 0), to = is_host(o, id, 0);
        if (mark_of(i) != MARK_NONE) {
            ech_diag_note(g->diag, to ? "copies_to_host" : "copies_from_host", 1);
            become_copy(g, id, first);
        } else if (i->opcode == ECH_HLO_DYNAMIC_UPDATE_SLICE && to && i->n_operands > 1 && !is_host(o, ech_graph_operand(g, id, 1), 0)) {
            ech_diag_note(g->diag, "slices_to_host", 1);
            become_async(g, id);
        } else if ((i->opcode == ECH_HLO_DYNAMIC_SLICE || i->opcode == ECH_HLO_SLICE) && from && !to) {
            ech_diag_note(g->diag, "slices_from_host", 1);
            become_async(g, id);
        } else if (i->opcode == ECH_HLO_RESHAPE && from && to) {
            i->opcode = ECH_HLO_BITCAST;
            i->opcode_name = ech_hlo_name(ECH_HLO_BITCAST);
        }
    }
}

void ech_graph_offload(EchGraph *g)
{
    ech_graph_find_uses(g);
    Offload o = {.g = g};
    o.n_host = g->nodes->len;
    o.host = g_new0(uint8_t *, o.n_host + 1);
    o.caller = g_new(EchId, g->computations->len + 1);
    o.places = g_array_new(FALSE, FALSE, sizeof(Place));
    o.needs = g_array_new(FALSE, FALSE, sizeof(Need));
    o.names = g_string_new(NULL);
    for (EchId c = 0; c < g->computations->len; c++)
        o.caller[c] = ECH_NONE;
    bool any = false;
    for (EchId id = 0; id < g->n_known; id++) {
        const EchInstruction *i = ech_graph_node(g, id);
        if (!g->live[id])
            continue;
        for (uint32_t k = 0; (i->opcode == ECH_HLO_WHILE || i->opcode == ECH_HLO_CONDITIONAL) && k < i->n_called; k++)
            o.caller[ech_graph_called(g, id, k)] = id;
        any |= mark_of(i) != MARK_NONE;
    }
    /* What is in host memory from the start. */
    for (EchId id = 0; id < g->n_known; id++) {
        const EchInstruction *i = ech_graph_node(g, id);
        if (!g->live[id] || ech_graph_computation(g, i->computation)->body)
            continue;
        for (uint32_t q = 0; q < ech_graph_n_positions(g, id); q++) {
            if (!leaf(g, id, q)->is_tuple && leaf(g, id, q)->space == ECH_SPACE_HOST) {
                any = true;
                mark(&o, id, q);
            }
        }
    }
    settle(&o);
    for (EchId id = 0; any && id < g->n_known; id++) {
        const EchInstruction *i = ech_graph_node(g, id);
        if (!g->live[id] || mark_of(i) != MARK_HOST || is_host(&o, ech_graph_operand(g, id, 0), 0))
            continue;
        if (only_updates(g, id))
            ride(&o, id);
        else
            mark(&o, id, 0);
        settle(&o);
    }
    /* The result's arrays that its layout puts there. */
    const EchProgram *out = ech_program_builder_peek(g->out);
    EchId result = g->source->entry_layout == ECH_NONE ? ECH_NONE : g->source->elements[g->source->shapes[g->source->entry_layout].first_element + 1];
    EchId root = ech_graph_computation(g, g->entry)->root;
    if (result != ECH_NONE && g->source->shapes[result].n_positions == out->shapes[ech_graph_node(g, root)->shape].n_positions) {
        for (uint32_t q = 0; q < g->source->shapes[result].n_positions; q++) {
            const EchShape *array = &g->source->shapes[ech_program_subshape(g->source, result, q)];
            if (!array->is_tuple && array->space == ECH_SPACE_HOST) {
                any = true;
                need(&o, ECH_NONE, g->entry, q, false);
            }
        }
        settle(&o);
    }
    if (any)
        change_all(&o);
    if (o.reached > 0) {
        ech_diag_note(g->diag, "copies_to_host_without_a_mark", o.reached);
        ech_diag_remark(g->diag,
                        "%" G_GUINT64_FORMAT
                        " values must be in host memory (a result's layout or a host buffer says so) but nothing moves them there: they are copied",
                        o.reached);
    }
    if (o.on_host > 0) {
        ech_diag_note(g->diag, "kernels_on_host_memory", o.on_host);
        ech_diag_remark(g->diag,
                        "%" G_GUINT64_FORMAT " instructions compute on host memory without a MoveToDevice before them: XLA refuses such a program, here the "
                        "device reads over the link: %s%s",
                        o.on_host, o.names->str, o.n_names > MAX_NAMED ? ", ..." : "");
    }
    for (size_t k = 0; k < o.n_host; k++)
        g_free(o.host[k]);
    g_free(o.host);
    g_free(o.caller);
    g_array_unref(o.places);
    g_array_unref(o.needs);
    g_string_free(o.names, TRUE);
}
