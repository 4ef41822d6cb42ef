/* What a loop only reads and what is made of nothing (a mask, zeros, positions) is made inside it: XLA's WhileLoopConstantSinking and what fusion does with it.
 * Frameworks hand such arrays in from outside, whole. And what it only reads as bf16 is made so before it: a TPU's products of f32 convert what they read
 * first, and XLA's WhileLoopInvariantCodeMotion takes what is the same in each iteration out of the loop (an LSTM's weights; libtpu 0.0.52, v5e, v6e, tpu7x).
 */
#include "sim/program/graph.h"

#include <string.h>

enum { MAX_SUNK = 24, MIN_BYTES = 65536, MAX_NODES = 1 << 22, MAX_LOOKED_AT = 1 << 28 };

/* Nodes that @top is made of, operands first; 0 where it takes more than constants, or too many. */
static unsigned made_of_nothing(const EchGraph *g, EchId top, EchId ret[MAX_SUNK])
{
    EchId found[MAX_SUNK] = {top};
    unsigned n = 1;
    for (unsigned at = 0; at < n; at++) {
        const EchInstruction *i = ech_graph_node(g, found[at]);
        bool small = i->opcode == ECH_HLO_CONSTANT && ech_graph_shape(g, found[at])->count <= 1;
        bool spread = i->opcode == ECH_HLO_BROADCAST || i->opcode == ECH_HLO_IOTA || i->opcode == ECH_HLO_RESHAPE || i->opcode == ECH_HLO_BITCAST;
        bool each = ech_hlo_is_elementwise((EchHlo)i->opcode) && i->n_called == 0;
        if (i->n_control > 0 || ech_graph_shape(g, found[at])->is_tuple || (!small && !spread && !each))
            return 0;
        for (uint32_t k = 0; k < i->n_operands; k++) {
            EchId operand = ech_graph_operand(g, found[at], k);
            bool known = false;
            for (unsigned o = 0; o < n; o++)
                known |= found[o] == operand;
            if (known)
                continue;
            if (n == MAX_SUNK)
                return 0;
            found[n++] = operand;
        }
    }
    /* Operands first: a node goes out once all that it reads is out. */
    unsigned out = 0;
    bool done[MAX_SUNK] = {false};
    for (bool moved = true; moved && out < n;) {
        moved = false;
        for (unsigned at = 0; at < n; at++) {
            const EchInstruction *i = ech_graph_node(g, found[at]);
            bool ready = !done[at];
            for (uint32_t k = 0; ready && k < i->n_operands; k++) {
                for (unsigned o = 0; o < n; o++)
                    ready = ready && (found[o] != ech_graph_operand(g, found[at], k) || done[o]);
            }
            if (!ready)
                continue;
            ret[out++] = found[at];
            done[at] = moved = true;
        }
    }
    return out == n ? n : 0;
}

static EchId copy_into(EchGraph *g, EchId computation, const EchId *nodes, unsigned n)
{
    EchId made[MAX_SUNK];
    for (unsigned at = 0; at < n; at++) {
        EchInstruction old = *ech_graph_node(g, nodes[at]);
        g_autofree EchId *operands = g_new(EchId, (size_t)old.n_operands + 1);
        for (uint32_t k = 0; k < old.n_operands; k++) {
            EchId operand = ech_graph_operand(g, nodes[at], k);
            for (unsigned o = 0; o < at; o++)
                operands[k] = nodes[o] == operand ? made[o] : operands[k];
        }
        made[at] = ech_graph_add(g, computation, old, operands, old.n_operands);
    }
    return made[n - 1];
}

static bool is_element(const EchGraph *g, EchId id, EchId tuple, uint32_t k)
{
    const EchInstruction *i = ech_graph_node(g, id);
    return i->opcode == ECH_HLO_GET_TUPLE_ELEMENT && i->number == (int64_t)k && ech_graph_operand(g, id, 0) == tuple;
}

static bool reads_element(const EchGraph *g, EchId tuple, uint32_t k)
{
    for (uint32_t u = g->first_use[tuple]; u < g->first_use[tuple + 1]; u++) {
        if (!is_element(g, g->uses[u].user, tuple, k))
            continue;
        EchId element = g->uses[u].user;
        if (g->first_use[element] < g->first_use[element + 1])
            return true;
    }
    return false;
}

/* Element @k of the loop is made in its body; what is carried instead is one number. */
static void sink_element(EchGraph *g, EchId loop, EchId init, EchId parameter, uint32_t k, const EchId *nodes, unsigned n)
{
    EchId body = ech_graph_node(g, parameter)->computation, root = ech_graph_computation(g, body)->root, copy = ECH_NONE;
    for (uint32_t u = g->first_use[parameter]; u < g->first_use[parameter + 1]; u++) {
        EchId element = g->uses[u].user;
        if (!is_element(g, element, parameter, k))
            continue;
        for (uint32_t v = g->first_use[element]; v < g->first_use[element + 1]; v++) {
            EchGraphUse use = g->uses[v];
            if (use.user == root && use.operand == k)
                continue;
            if (copy == ECH_NONE)
                copy = copy_into(g, body, nodes, n);
            ech_graph_set_operand(g, use.user, use.operand, copy);
        }
    }
    for (uint32_t u = g->first_use[loop]; u < g->first_use[loop + 1]; u++) {
        EchId element = g->uses[u].user;
        for (uint32_t v = g->first_use[element]; is_element(g, element, loop, k) && v < g->first_use[element + 1]; v++)
            ech_graph_set_operand(g, g->uses[v].user, g->uses[v].operand, nodes[n - 1]);
    }
    EchId number = ech_graph_add_new(g, ech_graph_node(g, init)->computation, ECH_HLO_CONSTANT, "sunk",
                                     ech_graph_array(g, ech_graph_layout(g, nodes[n - 1]), NULL, 0), NULL, 0);
    ech_graph_set_operand(g, init, k, number);
}

typedef struct {
    EchId loop, init, root;
    EchId parameters[2]; /* of the body, of the condition */
} Loop;

/* A loop whose elements are told one by one, where they come from and where they end. */
static bool read_loop(const EchGraph *g, EchId id, Loop *ret)
{
    const EchInstruction *i = ech_graph_node(g, id);
    if (i->opcode != ECH_HLO_WHILE || i->n_called < 2 || i->n_operands != 1)
        return false;
    EchId init = ech_graph_operand(g, id, 0), condition = ech_graph_called(g, id, 0), body = ech_graph_called(g, id, 1);
    *ret = (Loop){id, init, ech_graph_computation(g, body)->root, {ech_graph_parameter(g, body, 0), ech_graph_parameter(g, condition, 0)}};
    return ret->parameters[0] != ECH_NONE && ret->parameters[1] != ECH_NONE && ret->root != ECH_NONE && ech_graph_node(g, init)->opcode == ECH_HLO_TUPLE &&
           ech_graph_node(g, ret->root)->opcode == ECH_HLO_TUPLE && ech_graph_node(g, ret->root)->n_operands == ech_graph_node(g, init)->n_operands &&
           g->first_use[init + 1] - g->first_use[init] == 1;
}

/* Does the loop only read its element @k, an array, and not to see whether it ends? */
static bool only_reads(const EchGraph *g, const Loop *loop, uint32_t k)
{
    const EchShape *shape = ech_graph_shape(g, ech_graph_operand(g, loop->init, k));
    return !shape->is_tuple && shape->dense >= MIN_BYTES && is_element(g, ech_graph_operand(g, loop->root, k), loop->parameters[0], k) &&
           !reads_element(g, loop->parameters[1], k);
}

static uint64_t sink_into(EchGraph *g, EchId id)
{
    Loop loop;
    if (!read_loop(g, id, &loop))
        return 0;
    uint64_t sunk = 0;
    for (uint32_t k = 0; k < ech_graph_node(g, loop.init)->n_operands; k++) {
        EchId nodes[MAX_SUNK];
        if (g->nodes->len > MAX_NODES || !only_reads(g, &loop, k))
            continue;
        unsigned n = made_of_nothing(g, ech_graph_operand(g, loop.init, k), nodes);
        if (n == 0)
            continue;
        sink_element(g, id, loop.init, loop.parameters[0], k, nodes, n);
        sunk++;
    }
    return sunk;
}

/* What @use makes of an array of f32 does with bf16: a product in one pass, or a conversion to that. */
static bool wants_narrow(const EchGraph *g, EchGraphUse use)
{
    const EchInstruction *i = ech_graph_node(g, use.user);
    const EchLayout *own = ech_graph_layout(g, use.user);
    size_t n;
    if (i->opcode == ECH_HLO_CONVERT)
        return own && strcmp(own->dtype, "bf16") == 0;
    const char *precision = ech_program_attribute(i, "operand_precision", &n);
    return (i->opcode == ECH_HLO_DOT || i->opcode == ECH_HLO_CONVOLUTION) && use.operand < 2 && (!precision || !g_strstr_len(precision, (gssize)n, "high"));
}

/* Element @k of the loop, of f32 and only read as bf16, is carried as that: converted before the loop, and what follows it reads what was converted. */
static bool narrow_element(EchGraph *g, const Loop *loop, uint32_t k)
{
    EchId source = ech_graph_operand(g, loop->init, k), parameter = loop->parameters[0];
    const EchLayout *wide = ech_graph_layout(g, source);
    unsigned reads = 0;
    if (!wide || strcmp(wide->dtype, "f32") != 0 || wide->space != ECH_SPACE_HBM)
        return false;
    for (uint32_t u = g->first_use[parameter]; u < g->first_use[parameter + 1]; u++) {
        EchId element = g->uses[u].user;
        for (uint32_t v = g->first_use[element]; is_element(g, element, parameter, k) && v < g->first_use[element + 1]; v++) {
            bool round = g->uses[v].user == loop->root && g->uses[v].operand == k;
            if (!round && !wants_narrow(g, g->uses[v]))
                return false;
            reads += !round;
        }
    }
    if (reads == 0)
        return false;
    EchLayout narrow = *wide;
    g_strlcpy(narrow.dtype, "bf16", sizeof narrow.dtype);
    narrow.bits = 16;
    if (narrow.n_tiles > 0)
        ech_layout_choose_tiles(&narrow, g->generation);
    EchId shape = ech_program_builder_array(g->out, &narrow);
    EchId converted = ech_graph_add_new(g, ech_graph_node(g, loop->init)->computation, ECH_HLO_CONVERT, "narrow", shape, &source, 1);
    for (uint32_t u = g->first_use[loop->loop]; u < g->first_use[loop->loop + 1]; u++) {
        EchId element = g->uses[u].user;
        for (uint32_t v = g->first_use[element]; is_element(g, element, loop->loop, k) && v < g->first_use[element + 1]; v++)
            ech_graph_set_operand(g, g->uses[v].user, g->uses[v].operand, source);
    }
    for (uint32_t u = g->first_use[parameter]; u < g->first_use[parameter + 1]; u++) {
        EchId element = g->uses[u].user;
        if (!is_element(g, element, parameter, k))
            continue;
        ech_graph_node(g, element)->shape = shape;
        for (uint32_t v = g->first_use[element]; v < g->first_use[element + 1]; v++) {
            EchId user = g->uses[v].user;
            for (uint32_t r = g->first_use[user]; ech_graph_node(g, user)->opcode == ECH_HLO_CONVERT && r < g->first_use[user + 1]; r++)
                ech_graph_set_operand(g, g->uses[r].user, g->uses[r].operand, element);
        }
    }
    ech_graph_set_operand(g, loop->init, k, converted);
    return true;
}

void ech_graph_narrow_loops(EchGraph *g)
{
    ech_graph_find_uses(g);
    uint64_t looked_at = 0;
    g_autoptr(GArray) running = ech_graph_running(g);
    for (guint c = running->len; c-- > 0;) { /* what is within first: what it converts may be the same in each iteration around it, too */
        g_autoptr(GArray) sorted = ech_graph_sorted(g, g_array_index(running, EchId, c));
        for (guint s = 0; s < sorted->len && looked_at < MAX_LOOKED_AT; s++) {
            Loop loop;
            bool narrowed = false;
            if (!read_loop(g, g_array_index(sorted, EchId, s), &loop))
                continue;
            for (uint32_t k = 0; g->nodes->len < MAX_NODES && k < ech_graph_node(g, loop.init)->n_operands; k++)
                narrowed |= only_reads(g, &loop, k) && narrow_element(g, &loop, k);
            if (narrowed) {
                ech_graph_find_uses(g);
                looked_at += g->nodes->len;
            }
        }
    }
}

void ech_graph_sink_constants(EchGraph *g)
{
    ech_graph_find_uses(g);
    uint64_t sunk = 0, looked_at = 0;
    g_autoptr(GArray) running = ech_graph_running(g);
    for (guint c = 0; c < running->len; c++) {
        g_autoptr(GArray) sorted = ech_graph_sorted(g, g_array_index(running, EchId, c));
        for (guint k = 0; k < sorted->len; k++) {
            /* Loops inside have been handed what was sunk around them: their uses have changed. */
            uint64_t here = looked_at < MAX_LOOKED_AT ? sink_into(g, g_array_index(sorted, EchId, k)) : 0;
            if (here == 0)
                continue;
            ech_graph_find_uses(g);
            looked_at += g->nodes->len;
            sunk += here;
        }
    }
    if (sunk > 0)
        ech_diag_note(g->diag, "constants_made_inside_loops", sunk);
}
