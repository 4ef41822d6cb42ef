#include "sim/program/graph.h"
#include "sim/program/induction.h"

#include "sim/base/error.h"

#include <string.h>

/* Instructions that inlining may add to a program: clear of any real one, and bounded memory for a hostile one. */
enum { MAX_CLONED = 1 << 20, MAX_INLINE_DEPTH = 256, MAX_SHAPE_DEPTH = 128 };

static void computation_clear(gpointer data)
{
    g_clear_pointer(&((EchGraphComputation *)data)->order, g_array_unref);
}

void ech_graph_free(EchGraph *graph)
{
    if (!graph)
        return;
    g_clear_pointer(&graph->out, ech_program_builder_free);
    g_array_unref(graph->nodes);
    g_array_unref(graph->operands);
    g_array_unref(graph->called);
    g_array_unref(graph->control);
    g_array_unref(graph->computations);
    g_hash_table_unref(graph->turned);
    g_hash_table_unref(graph->apart);
    g_hash_table_unref(graph->rows);
    g_free(graph->shapes);
    g_free(graph->shared);
    g_free(graph->uses);
    g_free(graph->first_use);
    g_free(graph->live);
    g_free(graph);
}

/* Shapes */

static EchId shape_of(EchGraph *g, EchId shape, unsigned depth)
{
    if (g->shapes[shape] != ECH_NONE)
        return g->shapes[shape];
    const EchShape *s = &g->source->shapes[shape];
    EchId made = ECH_NONE;
    if (!s->is_tuple) {
        EchLayout layout = g->source->layouts[s->layout];
        if (g->generation > 0 && layout.n_tiles == 0 && layout.bits > 0)
            ech_layout_choose_tiles(&layout, g->generation);
        made = ech_program_builder_array(g->out, &layout);
    } else {
        g_autofree EchId *members = g_new(EchId, MAX(s->n_elements, 1));
        for (uint32_t k = 0; k < s->n_elements; k++)
            members[k] = depth < MAX_SHAPE_DEPTH ? shape_of(g, g->source->elements[s->first_element + k], depth + 1) : 0;
        made = ech_program_builder_tuple(g->out, members, s->n_elements);
    }
    return g->shapes[shape] = made;
}

EchId ech_graph_shape_of(EchGraph *graph, EchId shape)
{
    return shape_of(graph, shape, 0);
}

EchId ech_graph_in_space(EchGraph *graph, EchId shape, int32_t space)
{
    const EchLayout *old = ech_program_layout(ech_program_builder_peek(graph->out), shape);
    if (!old || old->space == space)
        return shape;
    EchLayout layout = *old;
    layout.has_layout = true;
    layout.space = space;
    return ech_program_builder_array(graph->out, &layout);
}

/* Nodes */

EchId ech_graph_add(EchGraph *graph, EchId computation, EchInstruction instruction, const EchId *operands, uint32_t n)
{
    EchId id = graph->nodes->len;
    instruction.computation = computation;
    instruction.first_operand = graph->operands->len;
    instruction.n_operands = n;
    instruction.first_called = graph->called->len;
    instruction.first_control = graph->control->len;
    instruction.n_called = instruction.n_control = 0;
    instruction.is_root = 0;
    if (n > 0)
        g_array_append_vals(graph->operands, operands, n);
    g_array_append_val(graph->nodes, instruction);
    g_array_append_val(ech_graph_computation(graph, computation)->order, id);
    return id;
}

EchId ech_graph_add_new(EchGraph *graph, EchId computation, EchHlo opcode, const char *name, EchId shape, const EchId *operands, uint32_t n)
{
    g_autofree char *numbered = g_strdup_printf("%s.e%u", name, ++graph->serial);
    EchInstruction made = {.opcode = (uint16_t)opcode, .shape = shape, .number = -1, .opcode_name = ech_hlo_name(opcode), .attributes = ""};
    made.name = ech_program_builder_string(graph->out, numbered, -1);
    return ech_graph_add(graph, computation, made, operands, n);
}

EchId ech_graph_add_body(EchGraph *graph, const char *name)
{
    g_autofree char *numbered = g_strdup_printf("%s.e%u", name, ++graph->serial);
    EchGraphComputation made = {.name = ech_program_builder_string(graph->out, numbered, -1), .root = ECH_NONE, .body = true};
    made.order = g_array_new(FALSE, FALSE, sizeof(EchId));
    g_array_append_val(graph->computations, made);
    return graph->computations->len - 1;
}

EchId ech_graph_add_reducer(EchGraph *graph, EchHlo opcode, EchId scalar)
{
    EchId body = ech_graph_add_body(graph, "reducer"), sides[2];
    for (unsigned s = 0; s < 2; s++) {
        sides[s] = ech_graph_add_new(graph, body, ECH_HLO_PARAMETER, "reducer-side", scalar, NULL, 0);
        ech_graph_node(graph, sides[s])->number = (int64_t)s;
    }
    EchId sum = ech_graph_add_new(graph, body, opcode, "reducer-sum", scalar, sides, 2);
    ech_graph_computation(graph, body)->root = sum;
    return body;
}

void ech_graph_set_called(EchGraph *graph, EchId id, EchId computation)
{
    EchInstruction *node = ech_graph_node(graph, id);
    node->first_called = graph->called->len;
    node->n_called = 1;
    g_array_append_val(graph->called, computation);
}

void ech_graph_add_control(EchGraph *graph, EchId id, EchId predecessor)
{
    EchInstruction *node = ech_graph_node(graph, id);
    uint32_t first = graph->control->len;
    /* The list moves to the end, where there is room. */
    if (node->n_control > 0 && node->first_control + node->n_control == first)
        first = node->first_control;
    else {
        for (uint32_t k = 0; k < node->n_control; k++) {
            EchId old = g_array_index(graph->control, EchId, node->first_control + k);
            g_array_append_val(graph->control, old);
        }
    }
    g_array_append_val(graph->control, predecessor);
    node->first_control = first;
    node->n_control++;
}

EchId ech_graph_parameter(const EchGraph *graph, EchId computation, int64_t number)
{
    const GArray *order = ech_graph_computation(graph, computation)->order;
    for (guint k = 0; k < order->len; k++) {
        EchId id = g_array_index(order, EchId, k);
        if (ech_graph_node(graph, id)->opcode == ECH_HLO_PARAMETER && ech_graph_node(graph, id)->number == number)
            return id;
    }
    return ECH_NONE;
}

/* Building: calls inlined, equal instructions merged */

static guint hash_node(const EchInstruction *i, const EchId *operands, uint32_t n)
{
    uint64_t h = UINT64_C(0x9e3779b97f4a7c15) ^ i->opcode ^ ((uint64_t)i->shape << 20) ^ ((uint64_t)i->number << 40);
    for (uint32_t k = 0; k < n; k++)
        h = (h ^ operands[k]) * UINT64_C(0xff51afd7ed558ccd);
    return (guint)(h ^ (h >> 32));
}

/* The next attribute that says what is computed; false at the end. */
static bool next_meaning(const char **at, const char *end, EchAttribute *ret)
{
    static const char *const ignored[] = {"metadata", "sharding", "frontend_attributes", "control-predecessors"};
    while (*at && ech_program_next_attribute(at, end, ret)) {
        bool skip = false;
        for (size_t k = 0; k < G_N_ELEMENTS(ignored); k++)
            skip |= strlen(ignored[k]) == ret->name_n && memcmp(ignored[k], ret->name, ret->name_n) == 0;
        if (!skip)
            return true;
    }
    return false;
}

static bool same_attributes(const EchInstruction *a, const EchInstruction *b)
{
    const char *x = a->attributes, *y = b->attributes;
    EchAttribute p, q;
    while (true) {
        bool more = next_meaning(&x, a->attributes + a->attributes_n, &p), other = next_meaning(&y, b->attributes + b->attributes_n, &q);
        if (more != other)
            return false;
        if (!more)
            return true;
        if (p.name_n != q.name_n || p.value_n != q.value_n || memcmp(p.name, q.name, p.name_n) != 0 || memcmp(p.value, q.value, p.value_n) != 0)
            return false;
    }
}

static bool may_merge(const EchInstruction *i)
{
    switch ((int)i->opcode) {
    case ECH_HLO_CONSTANT: return i->has_literal;
    case ECH_HLO_RNG:
    case ECH_HLO_RNG_BIT_GENERATOR:
    case ECH_HLO_RNG_GET_AND_UPDATE_STATE:
    case ECH_HLO_UNKNOWN:
    case ECH_HLO_COPY: return false;
    case ECH_HLO_IOTA:
    case ECH_HLO_GET_TUPLE_ELEMENT:
    case ECH_HLO_TUPLE: return true;
    default: {
        EchHloClass class = ech_hlo_class((EchHlo)i->opcode);
        return i->n_operands > 0 && class != ECH_CLASS_CONTROL && class != ECH_CLASS_COLLECTIVE && class != ECH_CLASS_OTHER;
    }
    }
}

typedef struct {
    EchId id;
    guint hash;
} Slot;

/* Instructions of one computation by what they compute. */
typedef struct {
    Slot *slots;
    size_t size, used;
} Table;

static void table_put(Table *t, EchId id, guint hash)
{
    if ((t->used + 1) * 2 > t->size) {
        Table larger = {.size = t->size ? t->size * 2 : 64};
        larger.slots = g_new(Slot, larger.size);
        for (size_t k = 0; k < larger.size; k++)
            larger.slots[k].id = ECH_NONE;
        for (size_t k = 0; k < t->size; k++) {
            if (t->slots[k].id != ECH_NONE)
                table_put(&larger, t->slots[k].id, t->slots[k].hash);
        }
        g_free(t->slots);
        *t = larger;
    }
    size_t at = hash & (t->size - 1);
    while (t->slots[at].id != ECH_NONE)
        at = (at + 1) & (t->size - 1);
    t->slots[at] = (Slot){id, hash};
    t->used++;
}

static EchId table_find(const EchGraph *g, const Table *t, const EchInstruction *i, const EchId *operands, const EchId *called, guint hash)
{
    for (size_t at = hash; t->size > 0; at++) {
        const Slot *slot = &t->slots[at & (t->size - 1)];
        if (slot->id == ECH_NONE)
            return ECH_NONE;
        const EchInstruction *o = ech_graph_node(g, slot->id);
        if (slot->hash != hash || o->opcode != i->opcode || o->shape != i->shape || o->number != i->number || o->n_operands != i->n_operands ||
            o->n_called != i->n_called)
            continue;
        bool same = true;
        for (uint32_t k = 0; same && k < i->n_operands; k++)
            same = ech_graph_operand(g, slot->id, k) == operands[k];
        for (uint32_t k = 0; same && k < i->n_called; k++)
            same = ech_graph_called(g, slot->id, k) == called[k];
        if (same && same_attributes(i, o))
            return slot->id;
    }
    return ECH_NONE;
}

typedef struct {
    EchGraph *g;
    bool merge;
} Build;

static bool build_computation(Build *b, EchId source, bool body, unsigned depth, EchId *ret, GError **error);

/* What stands for an instruction that only hands one of its inputs on; ECH_NONE for all others. */
static EchId handed_on(const EchGraph *g, const EchInstruction *i, const EchId *in, uint32_t n)
{
    if (n != 1)
        return ECH_NONE;
    /* Says how devices share it, which is decided elsewhere. */
    if (i->opcode == ECH_HLO_CUSTOM_CALL && i->target && (strcmp(i->target, "Sharding") == 0 || strcmp(i->target, "xla.sdy.FuncResultSharding") == 0))
        return in[0];
    const EchInstruction *from = ech_graph_node(g, in[0]);
    if (i->opcode == ECH_HLO_GET_TUPLE_ELEMENT && from->opcode == ECH_HLO_TUPLE && i->number >= 0 && i->number < from->n_operands)
        return ech_graph_operand(g, in[0], (uint32_t)i->number);
    return ECH_NONE;
}

/* Adds instruction @j of computation @c to @computation, unless an equal one is there already. @map: what stands for those before it. Returns what stands for
 * it. */
static EchId emit_one(Build *b, EchId computation, const EchComputation *c, uint32_t j, Table *table, const EchId *map, const GArray *inputs,
                      const GArray *bodies)
{
    EchGraph *g = b->g;
    const EchProgram *p = g->source;
    EchInstruction i = p->instructions[c->first + j];
    uint32_t n_called = i.n_called, first_control = i.first_control, n_control = i.n_control;
    i.shape = shape_of(g, i.shape, 0);
    i.n_operands = inputs->len;
    const EchId *in = (const EchId *)(const void *)inputs->data;
    bool merge = b->merge && n_control == 0 && may_merge(&i);
    guint hash = merge ? hash_node(&i, in, inputs->len) : 0;
    EchId same = merge ? table_find(g, table, &i, in, (const EchId *)(const void *)bodies->data, hash) : ECH_NONE;
    if (same != ECH_NONE) {
        ech_diag_note(g->diag, "equal_instructions_merged", 1);
        return same;
    }
    EchId made = ech_graph_add(g, computation, i, in, inputs->len);
    EchInstruction *node = ech_graph_node(g, made);
    node->first_called = g->called->len;
    node->n_called = n_called;
    if (n_called > 0)
        g_array_append_vals(g->called, bodies->data, n_called);
    for (uint32_t k = 0; k < n_control; k++) {
        EchId before = p->control[first_control + k];
        if (before >= c->first && before < c->first + j)
            ech_graph_add_control(g, made, map[before - c->first]);
    }
    if (merge)
        table_put(table, made, hash);
    return made;
}

/* Writes the instructions of @source into @computation; parameters are @operands where given. *ret is what stands for the root. */
static bool emit(Build *b, EchId computation, EchId source, Table *table, const EchId *operands, uint32_t n, bool top, unsigned depth, EchId *ret,
                 GError **error)
{
    EchGraph *g = b->g;
    const EchProgram *p = g->source;
    const EchComputation *c = &p->computations[source];
    if (depth > MAX_INLINE_DEPTH) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_VERIFY, "%s: calls are nested more than %d deep at computation %s", p->name, MAX_INLINE_DEPTH, c->name);
        return false;
    }
    if (g->nodes->len + c->n > p->n_instructions + MAX_CLONED) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_VERIFY, "%s: with its calls inlined the program has more than %zu instructions (at computation %s)", p->name,
                    p->n_instructions + MAX_CLONED, c->name);
        return false;
    }
    g_autofree EchId *map = g_new(EchId, c->n);
    g_autoptr(GArray) inputs = g_array_new(FALSE, FALSE, sizeof(EchId));
    g_autoptr(GArray) bodies = g_array_new(FALSE, FALSE, sizeof(EchId));
    for (uint32_t j = 0; j < c->n; j++) {
        const EchInstruction *i = &p->instructions[c->first + j];
        if (i->opcode == ECH_HLO_PARAMETER && !top) {
            if (i->number < 0 || i->number >= n) {
                g_set_error(error, ECH_ERROR, ECH_ERROR_VERIFY, "%s: computation %s has a parameter %" G_GINT64_FORMAT " that its call does not give", p->name,
                            c->name, i->number);
                return false;
            }
            map[j] = operands[i->number];
            continue;
        }
        g_array_set_size(inputs, 0);
        for (uint32_t k = 0; k < i->n_operands; k++)
            g_array_append_val(inputs, map[ech_program_operand(p, i, k) - c->first]);
        const EchId *in = (const EchId *)(const void *)inputs->data;
        if (i->opcode == ECH_HLO_CALL && i->n_called == 1) {
            ech_diag_note(g->diag, "calls_inlined", 1);
            if (!emit(b, computation, ech_program_called(p, i, 0), table, in, inputs->len, false, depth + 1, &map[j], error))
                return false;
            continue;
        }
        map[j] = handed_on(g, i, in, inputs->len);
        if (map[j] != ECH_NONE)
            continue;
        bool runs = i->opcode == ECH_HLO_WHILE || i->opcode == ECH_HLO_CONDITIONAL;
        g_array_set_size(bodies, 0);
        for (uint32_t k = 0; k < i->n_called; k++) {
            EchId made;
            if (!build_computation(b, ech_program_called(p, i, k), !runs, depth + 1, &made, error))
                return false;
            g_array_append_val(bodies, made);
        }
        map[j] = emit_one(b, computation, c, j, table, map, inputs, bodies);
    }
    *ret = map[c->root - c->first];
    return true;
}

static bool build_computation(Build *b, EchId source, bool body, unsigned depth, EchId *ret, GError **error)
{
    EchGraph *g = b->g;
    const EchComputation *c = &g->source->computations[source];
    if (body && g->shared[source] != ECH_NONE) {
        *ret = g->shared[source];
        return true;
    }
    EchGraphComputation made = {.name = c->name, .thread = c->thread, .root = ECH_NONE, .body = body};
    made.order = g_array_new(FALSE, FALSE, sizeof(EchId));
    g_array_append_val(g->computations, made);
    EchId id = g->computations->len - 1;
    Table table = {0};
    EchId root;
    /* A fusion's body, a reducer and the like stay as they are. */
    Build inner = {g, b->merge && !body};
    bool ok = emit(&inner, id, source, &table, NULL, 0, true, depth, &root, error);
    g_free(table.slots);
    if (!ok)
        return false;
    ech_graph_computation(g, id)->root = root;
    if (body)
        g->shared[source] = id;
    *ret = id;
    return true;
}

EchGraph *ech_graph_new(const EchProgram *program, unsigned generation, EchDiag *diag, GError **error)
{
    g_autoptr(EchGraph) g = g_new0(EchGraph, 1);
    g->source = program;
    g->generation = generation;
    g->diag = diag;
    g->out = ech_program_builder_new(program->name);
    g->nodes = g_array_new(FALSE, FALSE, sizeof(EchInstruction));
    g->operands = g_array_new(FALSE, FALSE, sizeof(EchId));
    g->called = g_array_new(FALSE, FALSE, sizeof(EchId));
    g->control = g_array_new(FALSE, FALSE, sizeof(EchId));
    g->computations = g_array_new(FALSE, FALSE, sizeof(EchGraphComputation));
    g_array_set_clear_func(g->computations, computation_clear);
    g->turned = g_hash_table_new(g_direct_hash, g_direct_equal);
    g->rows = g_hash_table_new(g_direct_hash, g_direct_equal);
    g->apart = g_hash_table_new(g_direct_hash, g_direct_equal);
    g->shapes = g_new(EchId, program->n_shapes + 1);
    memset(g->shapes, 0xff, (program->n_shapes + 1) * sizeof(EchId));
    g->shared = g_new(EchId, program->n_computations + 1);
    memset(g->shared, 0xff, (program->n_computations + 1) * sizeof(EchId));
    EchProgram *out = ech_program_builder_peek(g->out);
    out->platform = generation > 0 ? ECH_PLATFORM_TPU : program->platform;
    out->replicas = program->replicas;
    out->partitions = program->partitions;
    out->unsplit = program->unsplit;
    for (guint i = 0; i < program->keep->len; i++)
        ech_program_builder_keep(g->out, program->keep->pdata[i]);
    Build build = {g, true};
    if (!build_computation(&build, program->entry, false, 0, &g->entry, error))
        return NULL;
    if (g->nodes->len > program->n_instructions)
        ech_diag_note(diag, "instructions_added_by_inlining", g->nodes->len - program->n_instructions);
    return g_steal_pointer(&g);
}

/* Liveness and uses */

static bool has_effects(const EchGraph *g, EchId id)
{
    const EchInstruction *i = ech_graph_node(g, id);
    size_t n;
    switch ((int)i->opcode) {
    case ECH_HLO_PARAMETER:
    case ECH_HLO_INFEED:
    case ECH_HLO_OUTFEED:
    case ECH_HLO_SEND:
    case ECH_HLO_SEND_DONE:
    case ECH_HLO_RECV:
    case ECH_HLO_RECV_DONE: return true;
    case ECH_HLO_CUSTOM_CALL: {
        const char *text = ech_program_attribute(i, "custom_call_has_side_effect", &n);
        return text && n == 4 && memcmp(text, "true", 4) == 0 && !(i->target && strcmp(i->target, "annotate_device_placement") == 0);
    }
    default: return false;
    }
}

static void visit(EchGraph *g, EchId id, GArray *stack)
{
    if (g->live[id])
        return;
    g->live[id] = true;
    g_array_append_val(stack, id);
}

static void visit_computation(EchGraph *g, EchId computation, bool *seen, GArray *stack)
{
    const EchGraphComputation *c = ech_graph_computation(g, computation);
    if (seen[computation])
        return;
    seen[computation] = true;
    if (c->root != ECH_NONE)
        visit(g, c->root, stack);
    for (guint k = 0; k < c->order->len; k++) {
        EchId id = g_array_index(c->order, EchId, k);
        if (c->body || has_effects(g, id))
            visit(g, id, stack);
    }
}

void ech_graph_find_uses(EchGraph *g)
{
    g_free(g->uses);
    g_free(g->first_use);
    g_free(g->live);
    size_t n = g->nodes->len;
    g->n_known = n;
    g->live = g_new0(bool, n + 1);
    g->first_use = g_new0(uint32_t, n + 2);
    g_autofree bool *seen = g_new0(bool, g->computations->len + 1);
    g_autoptr(GArray) stack = g_array_new(FALSE, FALSE, sizeof(EchId));
    visit_computation(g, g->entry, seen, stack);
    uint32_t total = 0;
    while (stack->len > 0) {
        EchId id = g_array_index(stack, EchId, stack->len - 1);
        g_array_set_size(stack, stack->len - 1);
        const EchInstruction *i = ech_graph_node(g, id);
        for (uint32_t k = 0; k < i->n_operands; k++) {
            EchId operand = ech_graph_operand(g, id, k);
            g->first_use[operand + 1]++;
            total++;
            visit(g, operand, stack);
        }
        for (uint32_t k = 0; k < i->n_called; k++)
            visit_computation(g, ech_graph_called(g, id, k), seen, stack);
    }
    for (size_t k = 0; k < n; k++)
        g->first_use[k + 1] += g->first_use[k];
    g->uses = g_new(EchGraphUse, (size_t)total + 1);
    g_autofree uint32_t *filled = g_new0(uint32_t, n + 1);
    for (EchId id = 0; id < n; id++) {
        for (uint32_t k = 0; g->live[id] && k < ech_graph_node(g, id)->n_operands; k++) {
            EchId operand = ech_graph_operand(g, id, k);
            g->uses[g->first_use[operand] + filled[operand]++] = (EchGraphUse){id, k};
        }
    }
}

GArray *ech_graph_running(const EchGraph *g)
{
    GArray *list = g_array_new(FALSE, FALSE, sizeof(EchId));
    g_array_append_val(list, g->entry);
    /* Every running computation has one caller: no repeats. */
    for (guint at = 0; at < list->len; at++) {
        const EchGraphComputation *c = ech_graph_computation(g, g_array_index(list, EchId, at));
        for (guint k = 0; k < c->order->len; k++) {
            EchId id = g_array_index(c->order, EchId, k);
            const EchInstruction *i = ech_graph_node(g, id);
            if (id >= g->n_known || !g->live[id] || (i->opcode != ECH_HLO_WHILE && i->opcode != ECH_HLO_CONDITIONAL))
                continue;
            for (uint32_t b = 0; b < i->n_called; b++) {
                EchId called = ech_graph_called(g, id, b);
                g_array_append_val(list, called);
            }
        }
    }
    return list;
}

GArray *ech_graph_sorted(const EchGraph *g, EchId computation)
{
    const EchGraphComputation *c = ech_graph_computation(g, computation);
    GArray *sorted = g_array_new(FALSE, FALSE, sizeof(EchId));
    g_autoptr(GHashTable) done = g_hash_table_new(g_direct_hash, g_direct_equal);
    typedef struct {
        EchId id;
        uint32_t next;
    } Frame;
    g_autoptr(GArray) stack = g_array_new(FALSE, FALSE, sizeof(Frame));
    for (guint k = 0; k < c->order->len; k++) {
        Frame frame = {g_array_index(c->order, EchId, k), 0};
        if (frame.id < g->n_known && !g->live[frame.id])
            continue;
        g_array_append_val(stack, frame);
        while (stack->len > 0) {
            Frame *top = &g_array_index(stack, Frame, stack->len - 1);
            const EchInstruction *i = ech_graph_node(g, top->id);
            gpointer key = GSIZE_TO_POINTER((size_t)top->id + 1);
            if (top->next == 0 && g_hash_table_contains(done, key)) {
                g_array_set_size(stack, stack->len - 1);
                continue;
            }
            if (top->next < i->n_operands + i->n_control) {
                uint32_t at = top->next++;
                EchId before = at < i->n_operands ? ech_graph_operand(g, top->id, at) : g_array_index(g->control, EchId, i->first_control + at - i->n_operands);
                /* What only an order asks for may be gone. */
                bool there = at < i->n_operands || before >= g->n_known || g->live[before];
                if (there && !g_hash_table_contains(done, GSIZE_TO_POINTER((size_t)before + 1))) {
                    Frame next = {before, 0};
                    g_array_append_val(stack, next);
                }
                continue;
            }
            if (g_hash_table_add(done, key))
                g_array_append_val(sorted, top->id);
            g_array_set_size(stack, stack->len - 1);
        }
    }
    return sorted;
}

bool ech_graph_is_no_op(const EchGraph *g, EchId id)
{
    const EchInstruction *i = ech_graph_node(g, id);
    if (i->opcode == ECH_HLO_BITCAST)
        return true;
    if ((i->opcode != ECH_HLO_RESHAPE && i->opcode != ECH_HLO_TRANSPOSE) || i->n_operands != 1)
        return false;
    const EchLayout *to = ech_graph_layout(g, id), *from = ech_graph_layout(g, ech_graph_operand(g, id, 0));
    if (!to || !from || to->space != from->space)
        return false;
    if (i->opcode == ECH_HLO_TRANSPOSE) {
        int64_t dims[ECH_LAYOUT_MAX_RANK];
        size_t n;
        const char *text = ech_program_attribute(i, "dimensions", &n);
        if (!text || ech_program_numbers(text, n, dims, G_N_ELEMENTS(dims)) != to->rank || to->rank != from->rank)
            return false;
        for (unsigned k = 0; k < to->rank; k++) {
            int64_t dim = dims[to->order[k]];
            if (dim != from->order[k])
                return false;
        }
        return true;
    }
    /* Row-major to row-major, dimensions of 1 aside; tiled: what the tiles cover must stay, or end at a tile's edge. */
    for (unsigned side = 0; side < 2; side++) {
        const EchLayout *l = side ? to : from;
        int last = -1;
        for (unsigned k = l->rank; k-- > 0;) {
            if (l->dims[l->order[k]] == 1)
                continue;
            if ((int)l->order[k] < last)
                return false;
            last = l->order[k];
        }
    }
    if (g->generation == 0)
        return true;
    uint64_t minor[2][2] = {{1, 1}, {1, 1}};
    for (unsigned side = 0; side < 2; side++) {
        const EchLayout *l = side ? to : from;
        for (unsigned k = 0; k < MIN(l->rank, 2); k++)
            minor[side][k] = l->dims[l->order[k]];
    }
    if (minor[0][0] != minor[1][0] || to->n_tiles == 0 || from->n_tiles == 0)
        return false;
    if (to->rank < 2 || from->rank < 2)
        return to->rank == from->rank;
    uint64_t rows = (uint64_t)MAX(from->tiles[0].dims[0], 1);
    return to->tiles[0].rank == from->tiles[0].rank && to->tiles[0].dims[0] == from->tiles[0].dims[0] &&
           (minor[0][1] == minor[1][1] || (minor[0][1] % rows == 0 && minor[1][1] % rows == 0));
}

/* Writing */

static const char *copied(EchGraph *g, const char *text)
{
    return text ? ech_program_builder_string(g->out, text, -1) : NULL;
}

static void write_computation(EchGraph *g, EchId computation, EchId *map, const EchId *computations)
{
    const EchGraphComputation *c = ech_graph_computation(g, computation);
    EchId id = ech_program_builder_computation(g->out, copied(g, c->name));
    ech_program_builder_peek(g->out)->computations[id].thread = copied(g, c->thread);
    g_autoptr(GArray) sorted = ech_graph_sorted(g, computation);
    for (guint k = 0; k < sorted->len; k++) {
        EchId node = g_array_index(sorted, EchId, k);
        EchInstruction i = *ech_graph_node(g, node);
        EchInstruction made = i;
        made.name = copied(g, i.name);
        made.opcode_name = copied(g, i.opcode_name);
        made.op_name = copied(g, i.op_name);
        made.source = copied(g, i.source);
        made.target = copied(g, i.target);
        made.attributes = i.attributes_n > 0 ? ech_program_builder_string(g->out, i.attributes, (gssize)i.attributes_n) : "";
        made.is_root = node == c->root;
        map[node] = ech_program_builder_instruction(g->out, made);
        for (uint32_t o = 0; o < i.n_operands; o++)
            ech_program_builder_operand(g->out, map[ech_graph_operand(g, node, o)]);
        for (uint32_t o = 0; o < i.n_called; o++)
            ech_program_builder_called(g->out, computations[ech_graph_called(g, node, o)]);
        for (uint32_t o = 0; o < i.n_control; o++) {
            EchId before = map[g_array_index(g->control, EchId, i.first_control + o)];
            if (before != ECH_NONE)
                ech_program_builder_control(g->out, before);
        }
    }
    if (sorted->len > 0)
        ech_program_builder_peek(g->out)->computations[id].root = map[c->root];
}

/* What a loop fills slice by slice (the results that jax.lax.scan stacks) begins as an array of one number, which nothing reads: a TPU's compiler leaves it
 * unset. (Filled from the end, as gradients of weights are, it is set; so in 41 compiles by libtpu 0.0.51 and 0.0.52 for v5e, v6e and tpu7x.) */
static void leave_unset(EchProgram *p)
{
    g_autofree uint8_t *readers = g_new0(uint8_t, p->n_instructions + 1);
    for (size_t o = 0; o < p->n_operands; o++) {
        EchId id = p->operands[o];
        readers[id] = (uint8_t)MIN(readers[id] + 1, 2);
    }
    for (size_t id = 0; id < p->n_instructions; id++) {
        const EchInstruction *loop = &p->instructions[id], *begin = loop->n_operands > 0 ? &p->instructions[ech_program_operand(p, loop, 0)] : NULL;
        if (loop->opcode != ECH_HLO_WHILE || !begin || begin->opcode != ECH_HLO_TUPLE)
            continue;
        g_autofree bool *filled = ech_program_filled(p, (EchId)id, begin->n_operands);
        for (uint32_t k = 0; k < begin->n_operands; k++) {
            EchId set = ech_program_operand(p, begin, k);
            EchInstruction *i = &p->instructions[set];
            if (i->opcode != ECH_HLO_BROADCAST || readers[set] != 1 || !filled[k])
                continue;
            i->opcode = ECH_HLO_CUSTOM_CALL;
            i->opcode_name = ech_hlo_name(ECH_HLO_CUSTOM_CALL);
            i->target = "AllocateBuffer";
            i->n_operands = 0;
        }
    }
}

EchProgram *ech_graph_finish(EchGraph *g, const char *chip, GError **error)
{
    ech_graph_find_uses(g);
    /* What is called comes first, the entry last, as XLA prints them. */
    g_autoptr(GArray) order = g_array_new(FALSE, FALSE, sizeof(EchId));
    g_autofree EchId *computations = g_new(EchId, g->computations->len + 1);
    for (EchId c = 0; c < g->computations->len; c++)
        computations[c] = ECH_NONE;
    g_array_append_val(order, g->entry);
    computations[g->entry] = 0;
    for (guint at = 0; at < order->len; at++) {
        const GArray *nodes = ech_graph_computation(g, g_array_index(order, EchId, at))->order;
        for (guint k = 0; k < nodes->len; k++) {
            EchId id = g_array_index(nodes, EchId, k);
            const EchInstruction *i = ech_graph_node(g, id);
            for (uint32_t b = 0; g->live[id] && b < i->n_called; b++) {
                EchId called = ech_graph_called(g, id, b);
                if (computations[called] != ECH_NONE)
                    continue;
                computations[called] = 0;
                g_array_append_val(order, called);
            }
        }
    }
    for (guint k = 0; k < order->len; k++)
        computations[g_array_index(order, EchId, k)] = order->len - 1 - k;
    g_autofree EchId *map = g_new(EchId, g->nodes->len + 1);
    for (EchId id = 0; id < g->nodes->len; id++)
        map[id] = ECH_NONE;
    for (guint k = order->len; k-- > 0;)
        write_computation(g, g_array_index(order, EchId, k), map, computations);
    EchProgram *out = ech_program_builder_peek(g->out);
    out->entry = computations[g->entry];
    for (size_t k = 0; k < g->source->n_donations; k++)
        ech_program_builder_donation(g->out, g->source->donations[k]);
    if (g->generation > 0)
        leave_unset(out);
    g_autoptr(EchDiag) again = ech_diag_new(); /* what the finish says was said of the file's own program */
    return ech_program_builder_finish(g->out, chip, again, error);
}
