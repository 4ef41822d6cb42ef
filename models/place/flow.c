#include "models/place/flow.h"

#include <string.h>

/* Nesting of a result: an array is a leaf. */
typedef struct EchFlowTree Tree;
struct EchFlowTree {
    Tree **children;
    uint32_t *starts; /* [n_children + 1] leaves before each child */
    uint32_t n_children;
    uint32_t n_leaves;
    bool array;
};

typedef struct {
    const EchFlowInstruction *in;
    uint32_t n;
    EchFlow *flow;
    uint32_t *first_step, *root, *caller; /* per computation */
    uint32_t n_computations;
    uint32_t *first_parameter, *parameters; /* per computation + 1: where its parameters' steps begin in the list of all, by step */
    uint32_t *binder;                       /* per step that starts asynchronous work: the step that hands it its operands */
} Build;

EchFlowOp ech_flow_op(const char *opcode)
{
    static const struct {
        const char *name;
        EchFlowOp op;
    } table[] = {
        {"parameter", ECH_FLOW_PARAMETER},
        {"constant", ECH_FLOW_CONSTANT},
        {"tuple", ECH_FLOW_TUPLE},
        {"get-tuple-element", ECH_FLOW_ELEMENT},
        {"bitcast", ECH_FLOW_BITCAST},
        {"while", ECH_FLOW_WHILE},
        {"conditional", ECH_FLOW_CONDITIONAL},
        {"call", ECH_FLOW_CALL},
        {"async-start", ECH_FLOW_ASYNC_START},
        {"async-update", ECH_FLOW_ASYNC_UPDATE},
        {"async-done", ECH_FLOW_ASYNC_DONE},
        {"copy-start", ECH_FLOW_COPY_START},
        {"copy-done", ECH_FLOW_COPY_DONE},
        {"all-gather-start", ECH_FLOW_GATHER_START},
        {"all-gather-done", ECH_FLOW_GATHER_DONE},
        {"collective-permute-start", ECH_FLOW_GATHER_START},
        {"collective-permute-done", ECH_FLOW_GATHER_DONE},
        {"copy", ECH_FLOW_COPY},
        {"slice", ECH_FLOW_SLICE},
        {"dynamic-slice", ECH_FLOW_SLICE},
        {"all-reduce-done", ECH_FLOW_FORWARD},
        {"opt-barrier", ECH_FLOW_FORWARD},
        {"optimization-barrier", ECH_FLOW_FORWARD},
        {"add-dependency", ECH_FLOW_FORWARD},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(table); i++)
        if (strcmp(opcode, table[i].name) == 0)
            return table[i].op;
    return ECH_FLOW_OTHER;
}

/* ---- nesting ---- */

static void tree_free(gpointer data)
{
    Tree *tree = data;
    g_free(tree->children);
    g_free(tree->starts);
    g_free(tree);
}

static Tree *tree_new(Build *b, uint32_t n_children)
{
    Tree *tree = g_new0(Tree, 1);
    tree->n_children = n_children;
    tree->children = g_new0(Tree *, MAX(n_children, 1));
    tree->starts = g_new0(uint32_t, n_children + 1);
    g_ptr_array_add(b->flow->all_trees, tree);
    return tree;
}

static Tree *tree_leaf(Build *b)
{
    Tree *tree = tree_new(b, 0);
    tree->array = true;
    tree->n_leaves = 1;
    return tree;
}

static Tree *tree_sum(Tree *tree)
{
    for (uint32_t i = 0; i < tree->n_children; i++)
        tree->starts[i + 1] = tree->starts[i] + tree->children[i]->n_leaves;
    tree->n_leaves = tree->starts[tree->n_children];
    return tree;
}

static Tree *tree_flat(Build *b, const EchFlowInstruction *in)
{
    if (in->n_leaves == 1 && !in->tuple)
        return tree_leaf(b);
    Tree *tree = tree_new(b, in->n_leaves);
    for (uint32_t i = 0; i < in->n_leaves; i++)
        tree->children[i] = tree_leaf(b);
    return tree_sum(tree);
}

static Tree *operand_tree(Build *b, const EchFlowInstruction *in, uint32_t k)
{
    return k < in->n_operands && in->operands[k] != ECH_PLACE_NONE ? b->flow->trees[in->operands[k]] : NULL;
}

/* Where asynchronous work is handed its operands: at its start, or, of another core's that starts without any, at its first update. */
static void find_binders(Build *b)
{
    for (uint32_t t = 0; t < b->n; t++) {
        const EchFlowInstruction *in = &b->in[t];
        b->binder[t] = t;
        uint32_t start = in->op == ECH_FLOW_ASYNC_UPDATE && in->n_operands > 1 ? in->operands[0] : ECH_PLACE_NONE;
        if (start < t && b->in[start].op == ECH_FLOW_ASYNC_START && b->in[start].n_operands == 0 && b->binder[start] == start)
            b->binder[start] = t;
    }
}

/* What an update that hands operands to another core's work starts; ECH_PLACE_NONE for other instructions. */
static uint32_t bound_by(const Build *b, uint32_t step)
{
    const EchFlowInstruction *in = &b->in[step];
    uint32_t start = in->op == ECH_FLOW_ASYNC_UPDATE && in->n_operands > 1 ? in->operands[0] : ECH_PLACE_NONE;
    bool bound = start != ECH_PLACE_NONE && b->in[start].op == ECH_FLOW_ASYNC_START && b->in[start].n_operands == 0 && b->in[start].n_called > 0 &&
                 b->root[b->in[start].called[0]] < step;
    return bound ? start : ECH_PLACE_NONE;
}

/* The operand of the caller that a parameter stands for. */
static bool parameter_source(const Build *b, uint32_t step, uint32_t *ret_caller, uint32_t *ret_operand)
{
    const EchFlowInstruction *in = &b->in[step];
    uint32_t caller = in->entry ? ECH_PLACE_NONE : b->caller[in->computation];
    if (caller == ECH_PLACE_NONE)
        return false;
    const EchFlowInstruction *call = &b->in[caller];
    uint32_t k = in->number;
    if (call->op == ECH_FLOW_WHILE)
        k = 0;
    else if (call->op == ECH_FLOW_CONDITIONAL) {
        k = 0;
        for (uint32_t i = 0; i < call->n_called; i++)
            if (call->called[i] == in->computation)
                k = i + 1;
    } else if (call->op == ECH_FLOW_ASYNC_START && call->n_operands == 0) {
        caller = b->binder[caller];
        call = &b->in[caller];
        k++;
    }
    if (k >= call->n_operands || call->operands[k] == ECH_PLACE_NONE || call->operands[k] >= step)
        return false;
    *ret_caller = caller;
    *ret_operand = k;
    return true;
}

/* What runs asynchronously: (operands from @first on), result, what it needs. */
static Tree *async_tree(Build *b, const EchFlowInstruction *in, uint32_t first, uint32_t root)
{
    Tree *inputs = tree_new(b, in->n_operands - first);
    for (uint32_t i = first; i < in->n_operands; i++) {
        inputs->children[i - first] = operand_tree(b, in, i);
        if (inputs->children[i - first] == NULL)
            inputs->children[i - first] = tree_leaf(b);
    }
    tree_sum(inputs);
    Tree *output = b->flow->trees[root];
    uint32_t rest = in->n_leaves > inputs->n_leaves + output->n_leaves ? in->n_leaves - inputs->n_leaves - output->n_leaves : 0;
    Tree *tree = tree_new(b, 2 + rest);
    tree->children[0] = inputs;
    tree->children[1] = output;
    for (uint32_t i = 0; i < rest; i++)
        tree->children[2 + i] = tree_leaf(b);
    return tree_sum(tree);
}

/* Needs the trees of earlier steps only: a caller's operands come before its body. */
static Tree *make_tree(Build *b, uint32_t step)
{
    const EchFlowInstruction *in = &b->in[step];
    Tree *tree = NULL, *operand = operand_tree(b, in, 0);
    uint32_t caller, k;
    switch (in->op) {
    case ECH_FLOW_TUPLE:
        tree = tree_new(b, in->n_operands);
        for (uint32_t i = 0; i < in->n_operands; i++) {
            tree->children[i] = operand_tree(b, in, i);
            if (tree->children[i] == NULL)
                return tree_flat(b, in);
        }
        tree_sum(tree);
        break;
    case ECH_FLOW_ELEMENT:
        if (operand != NULL && in->index < operand->n_children)
            tree = operand->children[in->index];
        break;
    case ECH_FLOW_WHILE:
    case ECH_FLOW_FORWARD: tree = operand; break;
    case ECH_FLOW_ASYNC_UPDATE: {
        uint32_t start = bound_by(b, step);
        tree = start == ECH_PLACE_NONE ? operand : async_tree(b, in, 1, b->root[b->in[start].called[0]]);
        break;
    }
    case ECH_FLOW_CONDITIONAL:
        if (in->n_called > 0 && b->root[in->called[0]] < step)
            tree = b->flow->trees[b->root[in->called[0]]];
        break;
    case ECH_FLOW_CALL:
        if (in->n_called > 0 && b->root[in->called[0]] < step)
            tree = b->flow->trees[b->root[in->called[0]]];
        break;
    case ECH_FLOW_PARAMETER:
        if (parameter_source(b, step, &caller, &k))
            tree = b->flow->trees[b->in[caller].operands[k]];
        break;
    case ECH_FLOW_ASYNC_START:
        if (in->n_called > 0 && b->root[in->called[0]] < step && b->binder[step] == step)
            tree = async_tree(b, in, 0, b->root[in->called[0]]);
        break;
    case ECH_FLOW_ASYNC_DONE:
        if (operand != NULL && operand->n_children > 1)
            tree = operand->children[1];
        break;
    case ECH_FLOW_OTHER:
    case ECH_FLOW_CONSTANT:
    case ECH_FLOW_BITCAST:
    case ECH_FLOW_COPY_START:
    case ECH_FLOW_COPY_DONE:
    case ECH_FLOW_GATHER_START:
    case ECH_FLOW_GATHER_DONE:
    case ECH_FLOW_COPY:
    case ECH_FLOW_SLICE: break;
    }
    return tree != NULL && tree->n_leaves == in->n_leaves ? tree : tree_flat(b, in);
}

static uint32_t child_start(const Tree *tree, uint32_t child)
{
    return tree->starts[MIN(child, tree->n_children)];
}

uint32_t ech_flow_leaf(const EchFlow *flow, uint32_t step, const char *index)
{
    const Tree *tree = flow->trees[step];
    uint32_t at = 0;
    while (*index != '\0') {
        char *end;
        guint64 k = g_ascii_strtoull(index, &end, 10);
        if (end == index || k >= tree->n_children)
            return ECH_PLACE_NONE;
        at += child_start(tree, (uint32_t)k);
        tree = tree->children[k];
        index = *end == ',' ? end + 1 : end;
        if (*end != ',' && *end != '\0')
            return ECH_PLACE_NONE;
    }
    return tree->array ? at : ECH_PLACE_NONE;
}

char *ech_flow_index(const EchFlow *flow, uint32_t step, uint32_t leaf)
{
    const Tree *tree = flow->trees[step];
    if (tree->array)
        return g_strdup("");
    GString *text = g_string_new("{");
    while (!tree->array) {
        uint32_t k = 0;
        while (k < tree->n_children && leaf >= tree->children[k]->n_leaves)
            leaf -= tree->children[k++]->n_leaves;
        if (k == tree->n_children)
            break;
        g_string_append_printf(text, text->len > 1 ? ",%u" : "%u", k);
        tree = tree->children[k];
    }
    g_string_append_c(text, '}');
    return g_string_free(text, FALSE);
}

/* ---- values ---- */

static uint32_t leaf_at(const EchFlow *flow, uint32_t step, uint32_t leaf)
{
    return flow->leaf_start[step] + leaf;
}

static uint32_t value_at(const EchFlow *flow, uint32_t step, uint32_t leaf)
{
    return flow->value_of[leaf_at(flow, step, leaf)];
}

/* Lets the leaves of @step from @at on be those of @source (ECH_PLACE_NONE: nothing) from @first on, as many as both have. Returns the leaf behind the last. */
static uint32_t hand_on(Build *b, uint32_t step, uint32_t at, uint32_t source, uint32_t first)
{
    EchFlow *flow = b->flow;
    for (uint32_t l = first; source != ECH_PLACE_NONE && l < b->in[source].n_leaves && at < b->in[step].n_leaves; l++, at++)
        flow->value_of[leaf_at(flow, step, at)] = value_at(flow, source, l);
    return at;
}

/* The first arrays of what runs asynchronously are its operands, from @first on. Returns how many. */
static uint32_t take_operands(Build *b, uint32_t step, uint32_t first)
{
    uint32_t at = 0;
    for (uint32_t i = first; i < b->in[step].n_operands; i++)
        at = hand_on(b, step, at, b->in[step].operands[i], 0);
    return at;
}

/* Root of the first computation that @step calls; ECH_PLACE_NONE unless it ran before. */
static uint32_t result_of_call(const Build *b, uint32_t step)
{
    uint32_t root = b->in[step].n_called > 0 ? b->root[b->in[step].called[0]] : ECH_PLACE_NONE;
    return root < step ? root : ECH_PLACE_NONE;
}

/* A conditional hands on what is the same in all of its branches. */
static void resolve_conditional(Build *b, uint32_t step)
{
    const EchFlowInstruction *in = &b->in[step];
    EchFlow *flow = b->flow;
    for (uint32_t l = 0; l < in->n_leaves && in->n_called > 0; l++) {
        uint32_t one = ECH_PLACE_NONE;
        bool same = true;
        for (uint32_t c = 0; c < in->n_called && same; c++) {
            uint32_t root = b->root[in->called[c]];
            if (root >= step || l >= b->in[root].n_leaves)
                same = false;
            else if (one == ECH_PLACE_NONE)
                one = value_at(flow, root, l);
            else
                same = one == value_at(flow, root, l);
        }
        if (same && one != ECH_PLACE_NONE)
            flow->value_of[leaf_at(flow, step, l)] = one;
    }
}

/* Sets value_of for the leaves of a step. An entry of its own means: a value is defined here. @fresh marks loop leaves that the loop changes. */
static void resolve_step(Build *b, uint32_t step, const bool *fresh)
{
    EchFlow *flow = b->flow;
    const EchFlowInstruction *in = &b->in[step];
    uint32_t base = flow->leaf_start[step], operand = in->n_operands > 0 ? in->operands[0] : ECH_PLACE_NONE;
    uint32_t caller, k, at = 0;
    for (uint32_t l = 0; l < in->n_leaves; l++)
        flow->value_of[base + l] = base + l;
    switch (in->op) {
    case ECH_FLOW_TUPLE:
        for (uint32_t i = 0; i < in->n_operands && in->operands[i] != ECH_PLACE_NONE; i++)
            at = hand_on(b, step, at, in->operands[i], 0);
        break;
    case ECH_FLOW_ELEMENT:
        if (operand != ECH_PLACE_NONE)
            hand_on(b, step, 0, operand, child_start(flow->trees[operand], in->index));
        break;
    case ECH_FLOW_BITCAST:
    case ECH_FLOW_FORWARD:
    case ECH_FLOW_ASYNC_UPDATE:
        if (bound_by(b, step) != ECH_PLACE_NONE) {
            at = take_operands(b, step, 1);
            at = hand_on(b, step, at, b->root[b->in[operand].called[0]], 0);
        }
        hand_on(b, step, at, operand, 0);
        break;
    case ECH_FLOW_WHILE:
        for (uint32_t l = 0; operand != ECH_PLACE_NONE && l < MIN(in->n_leaves, b->in[operand].n_leaves); l++)
            if (!fresh[base + l])
                flow->value_of[base + l] = value_at(flow, operand, l);
        break;
    case ECH_FLOW_CALL: hand_on(b, step, 0, result_of_call(b, step), 0); break;
    case ECH_FLOW_CONDITIONAL: resolve_conditional(b, step); break;
    case ECH_FLOW_PARAMETER:
        if (!parameter_source(b, step, &caller, &k))
            break;
        for (uint32_t l = 0; l < MIN(in->n_leaves, b->in[b->in[caller].operands[k]].n_leaves); l++)
            if (b->in[caller].op != ECH_FLOW_WHILE || !fresh[leaf_at(flow, caller, l)])
                flow->value_of[base + l] = value_at(flow, b->in[caller].operands[k], l);
        break;
    case ECH_FLOW_ASYNC_START:
        if (b->binder[step] != step)
            break;
        at = take_operands(b, step, 0);
        hand_on(b, step, at, result_of_call(b, step), 0);
        break;
    case ECH_FLOW_ASYNC_DONE:
        if (operand != ECH_PLACE_NONE)
            hand_on(b, step, 0, operand, flow->trees[operand]->n_children > 1 ? child_start(flow->trees[operand], 1) : 0);
        break;
    case ECH_FLOW_COPY_START:
        if (operand != ECH_PLACE_NONE && in->n_leaves > 1 && b->in[operand].n_leaves > 0)
            flow->value_of[base + 1] = value_at(flow, operand, 0);
        break;
    case ECH_FLOW_COPY_DONE:
        if (operand != ECH_PLACE_NONE && in->n_leaves > 0 && b->in[operand].n_leaves > 0)
            flow->value_of[base] = value_at(flow, operand, 0);
        break;
    case ECH_FLOW_GATHER_START:
        for (uint32_t o = 0; o < in->n_operands && o + in->n_operands < in->n_leaves; o++)
            if (in->operands[o] != ECH_PLACE_NONE && b->in[in->operands[o]].n_leaves > 0)
                flow->value_of[base + o] = value_at(flow, in->operands[o], 0);
        break;
    case ECH_FLOW_GATHER_DONE: hand_on(b, step, 0, operand, in->n_leaves); break;
    case ECH_FLOW_OTHER:
    case ECH_FLOW_CONSTANT:
    case ECH_FLOW_COPY:
    case ECH_FLOW_SLICE: break;
    }
}

/* A loop leaf is new unless the body hands its parameter through. Starts from "none is" and adds until nothing changes. */
static void find_values(Build *b)
{
    EchFlow *flow = b->flow;
    g_autofree bool *fresh = g_new0(bool, MAX(flow->leaf_start[b->n], 1));
    bool changed = true;
    while (changed) {
        changed = false;
        for (uint32_t step = 0; step < b->n; step++)
            resolve_step(b, step, fresh);
        for (uint32_t step = 0; step < b->n; step++) {
            const EchFlowInstruction *in = &b->in[step];
            if (in->op != ECH_FLOW_WHILE || in->n_called == 0 || in->n_operands == 0 || in->operands[0] == ECH_PLACE_NONE)
                continue;
            uint32_t root = b->root[in->called[0]];
            for (uint32_t l = 0; l < in->n_leaves && root < step && l < b->in[root].n_leaves && l < b->in[in->operands[0]].n_leaves; l++)
                if (!fresh[leaf_at(flow, step, l)] && value_at(flow, root, l) != value_at(flow, in->operands[0], l))
                    fresh[leaf_at(flow, step, l)] = changed = true;
        }
    }
}

static uint32_t find(uint32_t *parent, uint32_t x)
{
    while (parent[x] != x)
        x = parent[x] = parent[parent[x]];
    return x;
}

static void join(uint32_t *parent, uint32_t a, uint32_t b)
{
    a = find(parent, a);
    b = find(parent, b);
    if (a != b)
        parent[MAX(a, b)] = MIN(a, b);
}

static bool views(EchFlowOp op)
{
    return op == ECH_FLOW_TUPLE || op == ECH_FLOW_ELEMENT || op == ECH_FLOW_BITCAST;
}

/* The parameter of the lowest number, or ECH_PLACE_NONE. */
static uint32_t parameter_of(const Build *b, uint32_t computation)
{
    uint32_t best = ECH_PLACE_NONE;
    for (uint32_t i = b->first_parameter[computation]; i < b->first_parameter[computation + 1]; i++) {
        uint32_t t = b->parameters[i];
        if (best == ECH_PLACE_NONE || b->in[t].number < b->in[best].number)
            best = t;
    }
    return best;
}

typedef struct {
    uint32_t value;
    EchFlowPlace place;
} Found;

static gint compare_found(gconstpointer a, gconstpointer b)
{
    const Found *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    if (x->place.step != y->place.step)
        return x->place.step < y->place.step ? -1 : 1;
    if (x->place.operand != y->place.operand)
        return x->place.operand < y->place.operand ? -1 : 1;
    return (x->place.leaf > y->place.leaf) - (x->place.leaf < y->place.leaf);
}

static uint64_t key_of(uint32_t step, uint32_t leaf)
{
    return (uint64_t)step << 32 | leaf;
}

static void fill_steps(Build *b)
{
    EchMsaProblem *p = &b->flow->problem;
    p->n_steps = b->n;
    p->steps = g_new0(EchMsaStep, MAX(b->n, 1));
    for (uint32_t t = 0; t < b->n; t++) {
        const EchFlowInstruction *in = &b->in[t];
        EchMsaStep *step = &p->steps[t];
        step->seconds = in->seconds;
        step->computation = in->computation;
        step->called_from = step->corrected = t;
        step->root = in->root;
        step->parameter = in->op == ECH_FLOW_PARAMETER;
        step->operand = step->result = ECH_PLACE_NONE;
        if (views(in->op))
            step->kind = ECH_MSA_TRIVIAL;
        else if (in->op == ECH_FLOW_ASYNC_START || in->op == ECH_FLOW_ASYNC_UPDATE || in->op == ECH_FLOW_COPY_START || in->op == ECH_FLOW_GATHER_START)
            step->kind = ECH_MSA_ASYNC_START;
        else if (in->op == ECH_FLOW_ASYNC_DONE)
            step->kind = ECH_MSA_ASYNC_DONE;
        else if (in->op == ECH_FLOW_WHILE || in->op == ECH_FLOW_CONDITIONAL) {
            step->kind = in->op == ECH_FLOW_WHILE ? ECH_MSA_WHILE : ECH_MSA_CONDITIONAL;
            for (uint32_t c = 0; c < in->n_called; c++) {
                step->called_from = MIN(step->called_from, b->first_step[in->called[c]]);
                uint32_t parameter = parameter_of(b, in->called[c]);
                if (parameter != ECH_PLACE_NONE && (in->op == ECH_FLOW_CONDITIONAL || c == 0))
                    step->corrected = MIN(step->corrected, parameter);
            }
        }
        uint32_t computation = in->computation;
        for (uint32_t depth = 0; depth < 64; depth++) {
            uint32_t caller = b->caller[computation];
            if (caller == ECH_PLACE_NONE)
                break;
            step->nest++;
            step->while_nest += b->in[caller].op == ECH_FLOW_WHILE;
            computation = b->in[caller].computation;
        }
    }
}

static uint32_t position_of(const EchMsaProblem *p, const EchFlow *flow, uint32_t value, uint32_t step, uint32_t leaf)
{
    uint32_t low = 0, high = p->n_positions;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        const EchFlowPlace *place = &flow->position_places[middle];
        uint32_t v = p->positions[middle].value;
        if (v < value || (v == value && (place->step < step || (place->step == step && place->leaf < leaf))))
            low = middle + 1;
        else
            high = middle;
    }
    if (low < p->n_positions && p->positions[low].value == value && flow->position_places[low].step == step && flow->position_places[low].leaf == leaf)
        return low;
    return ECH_PLACE_NONE;
}

/* Of all uses; more come only of loops that hand many arrays round through one place: so many squared. */
#define MAX_ALIASES (1u << 24)

/* Positions that must get the place of the use at hand, each once. */
typedef struct {
    GArray *list;   /* EchMsaPosition, of all uses */
    uint32_t use;   /* 1 + its number */
    uint32_t *seen; /* per leaf number: the last use of which it is one */
} Aliases;

static void add_alias(const Build *b, Aliases *aliases, uint32_t step, uint32_t leaf)
{
    uint32_t *seen = &aliases->seen[leaf_at(b->flow, step, leaf)];
    if (*seen == aliases->use)
        return;
    *seen = aliases->use;
    EchMsaPosition alias = {value_at(b->flow, step, leaf), step, key_of(step, leaf)};
    g_array_append_val(aliases->list, alias);
}

/* Positions of the group at @step. */
static void add_group_aliases(const Build *b, Aliases *aliases, uint32_t group, uint32_t step)
{
    const EchFlow *flow = b->flow;
    if (views(b->in[step].op))
        return;
    for (uint32_t l = 0; l < b->in[step].n_leaves; l++)
        if (flow->problem.values[value_at(flow, step, l)].group == group)
            add_alias(b, aliases, step, l);
}

/* What a use by a loop, a branch or a call is inside of it. */
static void fill_called(const Build *b, EchMsaUse *use, const EchFlowPlace *place, Aliases *aliases)
{
    const EchFlow *flow = b->flow;
    const EchMsaProblem *p = &flow->problem;
    const EchFlowInstruction *in = &b->in[place->step];
    uint32_t group = p->values[use->value].group, caller, k;
    for (uint32_t c = 0; in->op != ECH_FLOW_OTHER && c < in->n_called; c++)
        for (uint32_t i = b->first_parameter[in->called[c]]; i < b->first_parameter[in->called[c] + 1]; i++) {
            uint32_t t = b->parameters[i];
            add_group_aliases(b, aliases, group, t);
            if (!parameter_source(b, t, &caller, &k) || k != place->operand || place->leaf >= b->in[t].n_leaves)
                continue;
            uint32_t v = value_at(flow, t, place->leaf);
            if ((in->op == ECH_FLOW_WHILE && c == 0) || in->op == ECH_FLOW_CONDITIONAL)
                use->loop_position = position_of(p, flow, v, t, place->leaf);
            if (in->op == ECH_FLOW_CONDITIONAL)
                use->branch_value = v;
        }
    if (in->op == ECH_FLOW_WHILE && in->n_called > 0) {
        uint32_t root = b->root[in->called[0]];
        if (place->leaf < in->n_leaves)
            use->loop_value = value_at(flow, place->step, place->leaf);
        if (root < b->n && place->leaf < b->in[root].n_leaves)
            add_alias(b, aliases, root, place->leaf);
    }
}

/* False where there are more aliases than is sensible. */
static bool fill_uses(Build *b)
{
    EchFlow *flow = b->flow;
    EchMsaProblem *p = &flow->problem;
    g_autoptr(GArray) list = g_array_new(FALSE, FALSE, sizeof(EchMsaPosition));
    g_autofree uint32_t *seen = g_new0(uint32_t, MAX(flow->leaf_start[b->n], 1));
    for (uint32_t u = 0; u < p->n_uses; u++) {
        const EchFlowPlace *place = &flow->use_places[u];
        const EchFlowInstruction *in = &b->in[place->step];
        EchMsaUse *use = &p->uses[u];
        Aliases aliases = {list, u + 1, seen};
        use->step = place->step;
        use->position = use->loop_position = use->loop_value = use->branch_value = ECH_PLACE_NONE;
        use->tuple_key = UINT64_MAX;
        use->first_alias = list->len;
        if (place->operand == 0 &&
            (in->op == ECH_FLOW_ASYNC_DONE || in->op == ECH_FLOW_ASYNC_UPDATE || in->op == ECH_FLOW_COPY_DONE || in->op == ECH_FLOW_GATHER_DONE))
            use->position = position_of(p, flow, use->value, in->operands[0], place->leaf);
        uint32_t leaf = place->leaf; /* in the result of a tuple */
        if (in->op == ECH_FLOW_TUPLE) {
            for (uint32_t i = 0; i < place->operand; i++)
                leaf += in->operands[i] != ECH_PLACE_NONE ? b->in[in->operands[i]].n_leaves : 0;
            use->tuple_key = key_of(place->step, leaf);
        }
        add_group_aliases(b, &aliases, p->values[use->value].group, place->step);
        fill_called(b, use, place, &aliases);
        uint32_t caller = b->caller[in->computation];
        if (in->root && in->op == ECH_FLOW_TUPLE && caller != ECH_PLACE_NONE && b->in[caller].op == ECH_FLOW_CONDITIONAL && leaf < b->in[caller].n_leaves)
            add_alias(b, &aliases, caller, leaf);
        use->n_aliases = list->len - use->first_alias;
        if (list->len > MAX_ALIASES)
            return false;
    }
    p->n_aliases = list->len;
    p->aliases = (EchMsaPosition *)(void *)g_array_free(g_steal_pointer(&list), FALSE);
    return true;
}

/* Where the leaves of each step begin; each computation's first step, its root, its parameters, and the step that calls it. */
static void index_steps(Build *b)
{
    for (uint32_t c = 0; c < b->n_computations; c++)
        b->first_step[c] = b->root[c] = b->caller[c] = ECH_PLACE_NONE;
    memset(b->first_parameter, 0, (b->n_computations + 1) * sizeof *b->first_parameter);
    for (uint32_t t = 0; t < b->n; t++) {
        const EchFlowInstruction *in = &b->in[t];
        b->flow->leaf_start[t + 1] = b->flow->leaf_start[t] + in->n_leaves;
        b->first_step[in->computation] = MIN(b->first_step[in->computation], t);
        b->first_parameter[in->computation] += in->op == ECH_FLOW_PARAMETER;
        if (in->root)
            b->root[in->computation] = t;
        for (uint32_t c = 0; in->op != ECH_FLOW_OTHER && c < in->n_called; c++)
            b->caller[in->called[c]] = t;
    }
    uint32_t end = 0;
    for (uint32_t c = 0; c <= b->n_computations; c++) {
        end += b->first_parameter[c];
        b->first_parameter[c] = end;
    }
    for (uint32_t t = b->n; t > 0; t--)
        if (b->in[t - 1].op == ECH_FLOW_PARAMETER)
            b->parameters[--b->first_parameter[b->in[t - 1].computation]] = t - 1;
}

/* Numbers the values in the order of their definitions. */
static void number_values(Build *b)
{
    EchFlow *flow = b->flow;
    EchMsaProblem *p = &flow->problem;
    uint32_t n_leaves = flow->leaf_start[b->n];
    g_autofree uint32_t *number = g_new(uint32_t, MAX(n_leaves, 1));
    for (uint32_t l = 0; l < n_leaves; l++)
        number[l] = flow->value_of[l] == l ? p->n_values++ : ECH_PLACE_NONE;
    for (uint32_t l = 0; l < n_leaves; l++)
        flow->value_of[l] = number[flow->value_of[l]];
    p->values = g_new0(EchMsaValue, MAX(p->n_values, 1));
    flow->value_places = g_new0(EchFlowPlace, MAX(p->n_values, 1));
    for (uint32_t t = 0; t < b->n; t++)
        for (uint32_t l = 0; l < b->in[t].n_leaves; l++) {
            uint32_t v = number[leaf_at(flow, t, l)];
            if (v == ECH_PLACE_NONE)
                continue;
            const EchFlowLeaf *leaf = &b->in[t].leaves[l];
            bool parameter = b->in[t].entry && b->in[t].op == ECH_FLOW_PARAMETER;
            p->values[v] = (EchMsaValue){
                .bytes = leaf->bytes, .step = t, .first = parameter ? 0 : t, .last = parameter ? b->n : t, .major = leaf->major, .id = v, .allowed = true};
            flow->value_places[v] = (EchFlowPlace){t, 0, l};
        }
}

/* Joins the values of a loop's or a conditional's leaves with those that share their buffers. */
static void join_control(const Build *b, uint32_t step, uint32_t *parent)
{
    const EchFlow *flow = b->flow;
    const EchFlowInstruction *in = &b->in[step];
    if (in->op == ECH_FLOW_WHILE && in->n_called > 0 && in->n_operands > 0 && in->operands[0] != ECH_PLACE_NONE) {
        uint32_t root = b->root[in->called[0]], parameters[2] = {parameter_of(b, in->called[0]), ECH_PLACE_NONE};
        if (in->n_called > 1)
            parameters[1] = parameter_of(b, in->called[1]);
        for (uint32_t l = 0; l < in->n_leaves && l < b->in[in->operands[0]].n_leaves; l++) {
            uint32_t v = value_at(flow, step, l);
            join(parent, v, value_at(flow, in->operands[0], l));
            for (uint32_t c = 0; c < G_N_ELEMENTS(parameters); c++)
                if (parameters[c] != ECH_PLACE_NONE && l < b->in[parameters[c]].n_leaves)
                    join(parent, v, value_at(flow, parameters[c], l));
            if (root < b->n && l < b->in[root].n_leaves)
                join(parent, v, value_at(flow, root, l));
        }
    }
    if (in->op == ECH_FLOW_CONDITIONAL)
        for (uint32_t c = 0; c < in->n_called; c++) {
            uint32_t root = b->root[in->called[c]];
            for (uint32_t l = 0; root < b->n && l < MIN(in->n_leaves, b->in[root].n_leaves); l++)
                join(parent, value_at(flow, step, l), value_at(flow, root, l));
        }
}

/* Sets the groups: values in one buffer. */
static void group_values(Build *b, const EchFlowPair *pairs, uint32_t n_pairs)
{
    const EchFlow *flow = b->flow;
    const EchMsaProblem *p = &flow->problem;
    g_autofree uint32_t *parent = g_new(uint32_t, MAX(p->n_values, 1)), *group_size = g_new0(uint32_t, MAX(p->n_values, 1));
    for (uint32_t v = 0; v < p->n_values; v++)
        parent[v] = v;
    for (uint32_t t = 0; t < b->n; t++)
        join_control(b, t, parent);
    for (uint32_t i = 0; i < n_pairs; i++)
        join(parent, value_at(flow, pairs[i].step_a, pairs[i].leaf_a), value_at(flow, pairs[i].step_b, pairs[i].leaf_b));
    for (uint32_t v = 0; v < p->n_values; v++) {
        p->values[v].group = find(parent, v);
        group_size[p->values[v].group]++;
    }
    /* A parameter whose buffer goes on in another value ends like any other value. */
    for (uint32_t v = 0; v < p->n_values; v++)
        if (group_size[p->values[v].group] > 1)
            p->values[v].last = p->values[v].step;
}

/* The leaves of a step's operands that it uses: a tuple or an element of one only when it is a root, an element's own part. */
static void find_uses(const Build *b, uint32_t step, GArray *uses)
{
    const EchFlow *flow = b->flow;
    const EchFlowInstruction *in = &b->in[step];
    if ((in->op == ECH_FLOW_TUPLE || in->op == ECH_FLOW_ELEMENT) && !in->root)
        return;
    uint32_t skip =
        in->op == ECH_FLOW_ELEMENT && in->n_operands > 0 && in->operands[0] != ECH_PLACE_NONE ? child_start(flow->trees[in->operands[0]], in->index) : 0;
    for (uint32_t k = 0; k < in->n_operands; k++)
        for (uint32_t l = 0; in->operands[k] != ECH_PLACE_NONE && l < b->in[in->operands[k]].n_leaves; l++) {
            if (in->op == ECH_FLOW_ELEMENT && (l < skip || l >= skip + in->n_leaves))
                continue;
            Found found = {value_at(flow, in->operands[k], l), {step, k, l}};
            g_array_append_val(uses, found);
        }
}

/* Positions, views and uses of all values, sorted by value and place. A value lasts to its last use. */
static void fill_places(Build *b)
{
    EchFlow *flow = b->flow;
    EchMsaProblem *p = &flow->problem;
    g_autoptr(GArray) positions = g_array_new(FALSE, FALSE, sizeof(Found)), uses = g_array_new(FALSE, FALSE, sizeof(Found)),
                      seen = g_array_new(FALSE, FALSE, sizeof(Found));
    for (uint32_t t = 0; t < b->n; t++) {
        for (uint32_t l = 0; l < b->in[t].n_leaves; l++) {
            Found found = {value_at(flow, t, l), {t, 0, l}};
            g_array_append_val(views(b->in[t].op) ? seen : positions, found);
        }
        find_uses(b, t, uses);
    }
    g_array_sort(positions, compare_found);
    g_array_sort(seen, compare_found);
    g_array_sort(uses, compare_found);
    p->n_positions = positions->len;
    p->positions = g_new0(EchMsaPosition, MAX(positions->len, 1));
    p->definition_bytes = g_new0(int64_t, MAX(positions->len, 1));
    flow->position_places = g_new0(EchFlowPlace, MAX(positions->len, 1));
    for (guint i = 0; i < positions->len; i++) {
        const Found *found = &g_array_index(positions, Found, i);
        flow->position_places[i] = found->place;
        p->positions[i] = (EchMsaPosition){found->value, found->place.step, key_of(found->place.step, found->place.leaf)};
    }
    p->n_views = seen->len;
    p->views = g_new0(EchMsaPosition, MAX(seen->len, 1));
    for (guint i = 0; i < seen->len; i++) {
        const Found *found = &g_array_index(seen, Found, i);
        p->views[i] = (EchMsaPosition){found->value, found->place.step, key_of(found->place.step, found->place.leaf)};
    }
    p->n_uses = uses->len;
    p->uses = g_new0(EchMsaUse, MAX(uses->len, 1));
    flow->use_places = g_new0(EchFlowPlace, MAX(uses->len, 1));
    for (guint i = 0; i < uses->len; i++) {
        const Found *found = &g_array_index(uses, Found, i);
        flow->use_places[i] = found->place;
        p->uses[i].value = found->value;
        p->values[found->value].last = MAX(p->values[found->value].last, found->place.step);
    }
}

EchFlow *ech_flow_new(const EchFlowInstruction *instructions, uint32_t n, uint32_t n_computations, const EchFlowPair *pairs, uint32_t n_pairs)
{
    g_autoptr(EchFlow) flow = g_new0(EchFlow, 1);
    ech_msa_options_default(&flow->problem.options);
    flow->all_trees = g_ptr_array_new_with_free_func(tree_free);
    flow->trees = g_new0(Tree *, MAX(n, 1));
    flow->leaf_start = g_new0(uint32_t, n + 1);
    g_autofree uint32_t *first = g_new(uint32_t, MAX(n_computations, 1)), *root = g_new(uint32_t, MAX(n_computations, 1)),
                        *caller = g_new(uint32_t, MAX(n_computations, 1)), *first_parameter = g_new(uint32_t, n_computations + 1),
                        *parameters = g_new(uint32_t, MAX(n, 1)), *binder = g_new(uint32_t, MAX(n, 1));
    Build build = {.in = instructions,
                   .n = n,
                   .flow = flow,
                   .first_step = first,
                   .root = root,
                   .caller = caller,
                   .n_computations = n_computations,
                   .first_parameter = first_parameter,
                   .parameters = parameters,
                   .binder = binder},
          *b = &build;
    index_steps(b);
    find_binders(b);
    for (uint32_t t = 0; t < n; t++)
        flow->trees[t] = make_tree(b, t);
    flow->value_of = g_new0(uint32_t, MAX(flow->leaf_start[n], 1));
    find_values(b);
    number_values(b);
    group_values(b, pairs, n_pairs);
    fill_places(b);
    fill_steps(b);
    return fill_uses(b) ? g_steal_pointer(&flow) : NULL;
}

typedef struct {
    uint32_t first, last, value; /* value ECH_PLACE_NONE: a tuple's table */
    uint64_t id;
} Life;

static int compare_life(const void *a, const void *b)
{
    const Life *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    if (x->last != y->last)
        return x->last < y->last ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

void ech_flow_clock(EchFlow *flow, const EchFlowInstruction *instructions, EchBytes table_bytes)
{
    EchMsaProblem *p = &flow->problem;
    g_autoptr(GArray) lives = g_array_new(FALSE, FALSE, sizeof(Life));
    uint32_t n_computations = 0;
    for (uint32_t t = 0; t < p->n_steps; t++)
        n_computations = MAX(n_computations, instructions[t].computation + 1);
    g_autofree uint32_t *span_end = g_new0(uint32_t, MAX(n_computations, 1));
    g_autofree uint32_t *table_end = g_new0(uint32_t, MAX(p->n_steps, 1));
    for (uint32_t t = 0; t < p->n_steps; t++)
        span_end[instructions[t].computation] = t;
    for (uint32_t t = 0; t < p->n_steps; t++) {
        const EchFlowInstruction *in = &instructions[t];
        for (uint32_t k = 0; k < in->n_operands; k++)
            if (in->operands[k] != ECH_PLACE_NONE)
                table_end[in->operands[k]] = MAX(table_end[in->operands[k]], t);
        table_end[t] = MAX(table_end[t], t);
        for (uint32_t l = 0; in->root && l < in->n_leaves; l++) {
            EchMsaValue *value = &p->values[value_at(flow, t, l)];
            value->last = MAX(value->last, in->entry ? p->n_steps : span_end[in->computation]);
        }
    }
    for (uint32_t v = 0; v < p->n_values; v++) {
        Life life = {p->values[v].first, p->values[v].last, v, p->values[v].id};
        if (p->values[v].bytes > 0)
            g_array_append_val(lives, life);
    }
    for (uint32_t t = 0; t < p->n_steps && table_bytes > 0; t++)
        if (!flow->trees[t]->array && instructions[t].op != ECH_FLOW_ELEMENT && instructions[t].op != ECH_FLOW_BITCAST) {
            Life life = {t, table_end[t], ECH_PLACE_NONE, (uint64_t)t};
            g_array_append_val(lives, life);
        }
    g_array_sort(lives, compare_life);
    /* Releases of a step come after its allocations, in the same order. */
    g_autofree uint32_t *head = g_new(uint32_t, p->n_steps + 2), *next = g_new(uint32_t, MAX(lives->len, 1)), *tail = g_new(uint32_t, p->n_steps + 2);
    for (uint32_t t = 0; t < p->n_steps + 2; t++)
        head[t] = tail[t] = ECH_PLACE_NONE;
    for (guint i = 0; i < lives->len; i++) {
        uint32_t end = MIN(g_array_index(lives, Life, i).last, p->n_steps + 1);
        next[i] = ECH_PLACE_NONE;
        if (tail[end] == ECH_PLACE_NONE)
            head[end] = i;
        else
            next[tail[end]] = i;
        tail[end] = i;
    }
    int64_t clock = 0;
    guint at = 0;
    for (uint32_t t = 0; t < p->n_steps + 2; t++) {
        for (; at < lives->len && g_array_index(lives, Life, at).first <= t; at++, clock++)
            if (g_array_index(lives, Life, at).value != ECH_PLACE_NONE)
                p->values[g_array_index(lives, Life, at).value].duration = -clock;
        for (uint32_t i = head[t]; i != ECH_PLACE_NONE; i = next[i], clock++)
            if (g_array_index(lives, Life, i).value != ECH_PLACE_NONE)
                p->values[g_array_index(lives, Life, i).value].duration += clock;
    }
}

uint32_t ech_flow_major(const EchLayout *layout, uint64_t *ret_side)
{
    uint64_t side = 1, length = layout->rank > 0 ? layout->dims[layout->order[layout->rank - 1]] : 0;
    if (layout->rank > 0 && layout->n_tiles > 0 && layout->tiles[0].rank >= layout->rank) {
        int64_t dim = layout->tiles[0].dims[layout->tiles[0].rank - layout->rank];
        side = dim > 0 ? (uint64_t)dim : 1;
    }
    if (ret_side != NULL)
        *ret_side = side;
    return (uint32_t)MIN(ech_div_up(length, side), UINT32_MAX);
}

/* Reads "[a:b]" or "[a:b:c]" at @at; NULL if there is none. */
static const char *read_bound(const char *at, const char *end, uint64_t *ret_start, uint64_t *ret_stride)
{
    uint64_t numbers[3] = {0, 0, 1};
    unsigned n = 0;
    while (at < end && *at != '[')
        at++;
    if (at == end)
        return NULL;
    for (at++; at < end && n < 3 && g_ascii_isdigit(*at);) {
        uint64_t x = 0;
        for (; at < end && g_ascii_isdigit(*at); at++)
            x = x > UINT64_MAX / 16 ? x : x * 10 + (uint64_t)(*at - '0');
        numbers[n++] = x;
        if (at < end && *at == ':')
            at++;
    }
    if (n < 2 || at == end || *at != ']')
        return NULL;
    *ret_start = numbers[0];
    *ret_stride = numbers[2];
    return at + 1;
}

static bool same_tiles(const EchLayout *a, const EchLayout *b, uint8_t first_side)
{
    if (a->n_tiles != b->n_tiles)
        return false;
    for (uint8_t t = 0; t < a->n_tiles; t++) {
        if (a->tiles[t].rank != b->tiles[t].rank)
            return false;
        for (uint8_t k = t == 0 ? first_side : 0; k < a->tiles[t].rank; k++)
            if (a->tiles[t].dims[k] != b->tiles[t].dims[k])
                return false;
    }
    return true;
}

bool ech_flow_slice_is_copy(const char *from, const char *to, const char *bounds, size_t n)
{
    EchLayout a, b;
    if (from == NULL || to == NULL || bounds == NULL || !ech_layout_parse(from, strlen(from), &a, NULL, NULL) ||
        !ech_layout_parse(to, strlen(to), &b, NULL, NULL) || a.rank != b.rank)
        return true;
    for (uint8_t k = 0; k < a.rank; k++)
        if (a.order[k] != b.order[k])
            return false;
    const char *at = bounds, *end = bounds + n;
    uint8_t cut = UINT8_MAX;
    uint64_t from_start = 0;
    for (uint8_t d = 0; d < a.rank; d++) {
        uint64_t start, stride;
        at = read_bound(at, end, &start, &stride);
        if (at == NULL)
            return true;
        if (stride > 1)
            return false;
        if (start == 0 && a.dims[d] == b.dims[d])
            continue;
        if (cut != UINT8_MAX)
            return false;
        cut = d;
        from_start = start;
    }
    if (cut == UINT8_MAX || a.n_tiles == 0)
        return same_tiles(&a, &b, 0);
    uint8_t rank = a.tiles[0].rank, minor = 0; /* how minor the dimension is that is cut */
    while (minor < a.rank && a.order[minor] != cut)
        minor++;
    if (minor >= rank)
        return same_tiles(&a, &b, 0);
    int64_t side = a.tiles[0].dims[rank - 1 - minor];
    if (side > 0 && from_start % (uint64_t)side != 0)
        return false;
    /* Fewer sublanes make a smaller tile: the first of the old one's rows. */
    return same_tiles(&a, &b, 0) || (minor == 1 && rank == 2 && from_start == 0 && b.dims[cut] > 1 && same_tiles(&a, &b, 1));
}

void ech_flow_mark_sync(EchFlow *flow, const EchFlowInstruction *instructions)
{
    EchMsaProblem *p = &flow->problem;
    g_autofree bool *at_root = g_new0(bool, MAX(p->n_values, 1));
    g_autofree bool *async = g_new0(bool, MAX(p->n_values, 1));
    g_autofree uint32_t *best = g_new(uint32_t, MAX(p->n_values, 1));
    for (uint32_t v = 0; v < p->n_values; v++)
        best[v] = ECH_PLACE_NONE;
    for (uint32_t v = 0; v < p->n_values; v++) {
        uint32_t g = p->values[v].group;
        if (best[g] == ECH_PLACE_NONE || (p->values[v].eligible && !p->values[best[g]].eligible) ||
            (p->values[v].eligible == p->values[best[g]].eligible && p->values[v].first < p->values[best[g]].first))
            best[g] = v;
    }
    for (uint32_t t = 0; t < p->n_steps; t++) {
        const EchFlowInstruction *in = &instructions[t];
        for (uint32_t l = 0; in->root && l < in->n_leaves; l++)
            if (p->values[value_at(flow, t, l)].step < p->n_steps && instructions[p->values[value_at(flow, t, l)].step].computation == in->computation)
                at_root[value_at(flow, t, l)] = true;
    }
    for (uint32_t u = 0; u < p->n_uses; u++)
        if (instructions[p->uses[u].step].op == ECH_FLOW_ASYNC_START)
            async[p->uses[u].value] = true;
    for (uint32_t t = 0; t < p->n_steps; t++) {
        const EchFlowInstruction *in = &instructions[t];
        if ((in->op != ECH_FLOW_COPY && in->op != ECH_FLOW_SLICE) || in->synchronous || in->root || in->n_operands == 0 || in->operands[0] == ECH_PLACE_NONE ||
            in->n_leaves != 1)
            continue;
        const EchFlowInstruction *from = &instructions[in->operands[0]];
        if (from->n_leaves != 1 || from->leaves[0].space != 0 || in->leaves[0].space != 0)
            continue;
        if (in->op == ECH_FLOW_COPY && g_strcmp0(from->leaves[0].text, in->leaves[0].text) != 0)
            continue;
        uint32_t operand = value_at(flow, in->operands[0], 0), result = value_at(flow, t, 0);
        if (at_root[result] || async[result] || best[p->values[operand].group] != operand || best[p->values[result].group] != result)
            continue;
        EchMsaStep *step = &p->steps[t];
        step->kind = in->op == ECH_FLOW_COPY ? ECH_MSA_COPY : ECH_MSA_SLICE;
        step->operand = operand;
        step->result = result;
        step->latest_operand = 0;
        for (uint32_t k = 0; k < in->n_operands; k++)
            if (in->operands[k] != ECH_PLACE_NONE)
                step->latest_operand = MAX(step->latest_operand, in->operands[k]);
    }
}

typedef struct {
    EchMsaCandidate candidate;
    uint64_t bytes, elements, id;
} Ranked;

static gint compare_ranked(gconstpointer a, gconstpointer b)
{
    const Ranked *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->elements != y->elements)
        return x->elements > y->elements ? -1 : 1;
    if (x->candidate.last_use != y->candidate.last_use)
        return x->candidate.last_use < y->candidate.last_use ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

void ech_flow_finish(EchFlow *flow, const EchFlowInstruction *instructions)
{
    EchMsaProblem *p = &flow->problem;
    g_autoptr(GArray) required = g_array_new(FALSE, FALSE, sizeof(EchMsaRequired));
    g_autoptr(GArray) ranked = g_array_new(FALSE, FALSE, sizeof(Ranked));
    g_autofree bool *live_out = g_new0(bool, MAX(p->n_values, 1)); /* per group */
    g_autofree uint32_t *head = g_new(uint32_t, MAX(p->n_values, 1)), *next = g_new(uint32_t, MAX(p->n_values, 1));
    for (uint32_t v = 0; v < p->n_values; v++)
        head[v] = next[v] = ECH_PLACE_NONE;
    for (uint32_t v = p->n_values; v > 0; v--) {
        next[v - 1] = head[p->values[v - 1].group];
        head[p->values[v - 1].group] = v - 1;
    }
    g_array_append_vals(required, p->required, p->n_required);
    for (uint32_t t = 0; t < p->n_steps; t++) {
        const EchFlowInstruction *in = &instructions[t];
        bool input = in->entry && in->op == ECH_FLOW_PARAMETER, output = in->entry && in->root;
        if (!input && !output && in->op != ECH_FLOW_CONSTANT)
            continue;
        for (uint32_t l = 0; l < in->n_leaves; l++) {
            uint32_t group = p->values[value_at(flow, t, l)].group;
            live_out[group] = live_out[group] || output;
            for (uint32_t v = head[group]; v != ECH_PLACE_NONE; v = next[v]) {
                EchMsaRequired r = {v, t};
                g_array_append_val(required, r);
                p->values[v].output = p->values[v].output || output;
            }
        }
    }
    for (uint32_t u = 0; u < p->n_uses;) {
        uint32_t v = p->uses[u].value, end = u;
        while (end < p->n_uses && p->uses[end].value == v)
            end++;
        const EchFlowInstruction *in = &instructions[p->values[v].step];
        if (in->entry && in->op == ECH_FLOW_PARAMETER && !live_out[p->values[v].group] && p->values[v].bytes <= p->options.size) {
            Ranked r = {.candidate = {v, UINT32_MAX, 0}, .bytes = p->values[v].bytes, .id = p->values[v].id};
            for (uint32_t k = u; k < end; k++) {
                const EchFlowInstruction *user = &instructions[p->uses[k].step];
                r.candidate.first_use = MIN(r.candidate.first_use, p->uses[k].step);
                r.candidate.last_use = MAX(r.candidate.last_use, p->uses[k].step);
                for (uint32_t l = 0; l < user->n_leaves; l++)
                    r.elements += user->leaves[l].elements;
            }
            g_array_append_val(ranked, r);
        }
        u = end;
    }
    g_array_sort(ranked, compare_ranked);
    g_free(p->candidates);
    p->n_candidates = ranked->len;
    p->candidates = g_new0(EchMsaCandidate, MAX(ranked->len, 1));
    for (guint i = 0; i < ranked->len; i++)
        p->candidates[i] = g_array_index(ranked, Ranked, i).candidate;
    g_free(p->required);
    p->n_required = required->len;
    p->required = (EchMsaRequired *)(void *)g_array_free(g_steal_pointer(&required), FALSE);
}

void ech_flow_free(EchFlow *flow)
{
    if (flow == NULL)
        return;
    EchMsaProblem *p = &flow->problem;
    g_free(p->steps);
    g_free(p->values);
    g_free(p->positions);
    g_free(p->views);
    g_free(p->uses);
    g_free(p->aliases);
    g_free(p->required);
    g_free(p->candidates);
    g_free(p->scoped);
    g_free(p->colors);
    g_free(p->definition_bytes);
    g_free(flow->value_places);
    g_free(flow->position_places);
    g_free(flow->use_places);
    g_free(flow->leaf_start);
    g_free(flow->value_of);
    g_free(flow->trees);
    g_ptr_array_unref(flow->all_trees);
    g_free(flow);
}
