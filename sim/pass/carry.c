/* carry: an array that a loop takes slice by slice, handing back another of its shape (jax.lax.scan's xs and ys: a KV cache over layers), is updated where it
 * is, as one that the loop carries. Held twice otherwise, donated or not: the first is read while the second is written. */
#include "sim/pass/pass.h"
#include "sim/program/donation.h"
#include "sim/program/induction.h"

/* A loop's elements, and what they are made of. */
typedef struct {
    const EchProgram *p;
    EchId loop, init, parameter, root; /* while, tuples around it, the body's parameter and result */
} Loop;

typedef struct {
    EchId argument;          /* Of the entry, that is the array; ECH_NONE where it is none. */
    EchId init, root, array; /* Tuples of the loop; what is taken. */
    uint32_t taken, stacked; /* Elements: read slice by slice; written slice by slice. */
    EchId made, begun;       /* The stack as an iteration hands it on; what it begins with, which nobody else reads. */
    EchId kept;              /* The stack as an iteration gets it, where all but some rows of a slice go back as they came; else ECH_NONE. */
    EchId copied;            /* Its copy into the argument's place at the end, or ECH_NONE. */
    EchBytes bytes;
} Pair;

static const EchInstruction *at(const EchProgram *p, EchId id)
{
    return &p->instructions[id];
}

static EchId element(const Loop *l, EchId of, uint32_t k)
{
    return ech_program_operand(l->p, at(l->p, of), k);
}

/* The operand of @user, number @from or a later one, that is element @k of the body's parameter; UINT32_MAX. */
static uint32_t operand_of_element(const Loop *l, EchId user, uint32_t k, uint32_t from)
{
    const EchInstruction *i = at(l->p, user);
    for (uint32_t o = from; o < i->n_operands; o++) {
        const EchInstruction *operand = at(l->p, ech_program_operand(l->p, i, o));
        if (operand->opcode == ECH_HLO_GET_TUPLE_ELEMENT && operand->number == k && ech_program_operand(l->p, operand, 0) == l->parameter)
            return o;
    }
    return UINT32_MAX;
}

/* What writes element @k, slice by slice, where it is; ECH_NONE. */
static EchId writer_of(const Loop *l, uint32_t k)
{
    const EchProgram *p = l->p;
    EchId made = element(l, l->root, k);
    uint32_t position = 0;
    if (at(p, made)->opcode == ECH_HLO_GET_TUPLE_ELEMENT && at(p, made)->number >= 0) { /* one of several that a kernel makes */
        position = (uint32_t)at(p, made)->number;
        made = ech_program_operand(p, at(p, made), 0);
        if (position >= p->shapes[at(p, made)->shape].n_elements)
            return ECH_NONE;
        position = ech_program_member_position(p, at(p, made)->shape, position);
    }
    uint32_t operand = operand_of_element(l, made, k, 0);
    EchBytes bytes = p->shapes[ech_program_subshape(p, at(p, made)->shape, position)].bytes;
    bool in_place = operand != UINT32_MAX && ech_program_result_bytes(p, made, position) <= bytes / 2;
    for (; operand != UINT32_MAX; operand = operand_of_element(l, made, k, operand + 1)) /* given twice, it may be read as well */
        in_place &= ech_program_operand_bytes(p, made, operand) == 0;
    return in_place ? made : ECH_NONE;
}

/* Whether anything but @writer reads element @k in the body: slices that were written before, or what it began with. */
static bool is_read_besides(const Loop *l, uint32_t k, EchId writer)
{
    const EchComputation *body = &l->p->computations[at(l->p, l->parameter)->computation];
    for (EchId user = body->first; user < body->first + body->n; user++)
        if (user != writer && operand_of_element(l, user, k, 0) != UINT32_MAX)
            return true;
    return false;
}

/* Whether what @writer writes is a slice with some rows new: a token's in a cache. */
static bool writes_few_rows(const Loop *l, EchId writer)
{
    const EchProgram *p = l->p;
    for (uint32_t o = 0; o < at(p, writer)->n_operands; o++) {
        EchId id = ech_program_operand(p, at(p, writer), o);
        while ((at(p, id)->opcode == ECH_HLO_BITCAST || at(p, id)->opcode == ECH_HLO_COPY) && at(p, id)->n_operands == 1)
            id = ech_program_operand(p, at(p, id), 0);
        bool updates = at(p, id)->opcode == ECH_HLO_FUSION || at(p, id)->opcode == ECH_HLO_DYNAMIC_UPDATE_SLICE;
        const EchShape *shape = &p->shapes[at(p, id)->shape];
        if (!updates || shape->is_tuple || ech_program_result_bytes(p, id, 0) > shape->bytes / 2)
            continue;
        for (uint32_t k = 0; k < at(p, id)->n_operands; k++)
            if (at(p, ech_program_operand(p, at(p, id), k))->shape == at(p, id)->shape && ech_program_operand_bytes(p, id, k) == 0)
                return true;
    }
    return false;
}

/* Whether element @k is only read slice by slice: along @stride, and before @writer writes or as it does. */
static bool is_taken(const Loop *l, uint32_t k, EchId writer, const EchStride *stride)
{
    const EchProgram *p = l->p;
    const EchComputation *body = &p->computations[at(p, l->parameter)->computation];
    EchBytes bytes = p->shapes[at(p, element(l, l->init, k))->shape].bytes;
    bool any = false;
    for (EchId user = body->first; user < body->first + body->n; user++) {
        uint32_t operand = user == l->root ? UINT32_MAX : operand_of_element(l, user, k, 0);
        if (operand == UINT32_MAX)
            continue;
        if (user > writer || at(p, user)->opcode == ECH_HLO_BITCAST)
            return false;
        for (; operand != UINT32_MAX; operand = operand_of_element(l, user, k, operand + 1))
            if (ech_program_operand_bytes(p, user, operand) > bytes / 2 || !ech_program_takes_slices(p, user, operand, stride))
                return false;
        any = true;
    }
    const EchInstruction *handed = at(p, element(l, l->root, k));
    return any && handed->opcode == ECH_HLO_GET_TUPLE_ELEMENT && handed->number == k && ech_program_operand(p, handed, 0) == l->parameter;
}

/* Whether an iteration takes of element @k only what it writes over itself, with @writer, as element @stacked. */
static bool is_taken_where_written(const Loop *l, uint32_t k, EchId writer, uint32_t stacked)
{
    EchStride strides[ECH_LAYOUT_MAX_RANK];
    const EchInstruction *made = at(l->p, element(l, l->root, stacked));
    bool one_of_several = made->opcode == ECH_HLO_GET_TUPLE_ELEMENT && made->number >= 0;
    size_t n = ech_program_put_slices(l->p, l->loop, writer, one_of_several ? (uint32_t)made->number : UINT32_MAX, strides);
    bool taken = false;
    for (size_t s = 0; s < n && !taken; s++)
        taken = is_taken(l, k, writer, &strides[s]);
    return taken;
}

/* Whether what @writer writes comes of element @k in the same iteration. */
static bool comes_of(const Loop *l, EchId writer, uint32_t k)
{
    const EchProgram *p = l->p;
    EchId first = p->computations[at(p, writer)->computation].first;
    g_autofree bool *needed = g_new0(bool, writer - first + 1);
    needed[writer - first] = true;
    for (EchId id = writer + 1; id-- > first;) {
        if (!needed[id - first])
            continue;
        if (operand_of_element(l, id, k, 0) != UINT32_MAX)
            return true;
        for (uint32_t o = 0; o < at(p, id)->n_operands; o++) {
            EchId operand = ech_program_operand(p, at(p, id), o);
            needed[operand - first] |= operand <= writer;
        }
    }
    return false;
}

static bool is_read_by_another(const EchProgram *p, EchId id, EchId user)
{
    const EchComputation *c = &p->computations[at(p, id)->computation];
    for (EchId i = c->first; i < c->first + c->n; i++)
        for (uint32_t o = 0; i != user && o < at(p, i)->n_operands; o++)
            if (ech_program_operand(p, at(p, i), o) == id)
                return true;
    return false;
}

/* Whether computation @c is the loop's or one that it runs. */
static bool is_within(const Loop *l, EchId c)
{
    const EchProgram *p = l->p;
    EchId caller = p->computations[c].caller;
    while (caller != ECH_NONE && caller != l->loop)
        caller = p->computations[at(p, caller)->computation].caller;
    return caller != ECH_NONE;
}

/* Whether anybody reads what @id makes after the loop, or element @k of its result: it is a result itself, or what a loop around this one hands to its next
 * iteration. */
static bool is_wanted_after(const Loop *l, EchId id, uint32_t k)
{
    const EchProgram *p = l->p;
    const EchComputation *c = &p->computations[at(p, l->loop)->computation];
    const EchValue *value = &p->values[ech_program_value(p, id, 0)];
    for (uint32_t h = 0; h < value->n_holders; h++) {
        const EchInstruction *holder = at(p, p->holders[value->first_holder + h].instruction);
        if (holder->is_root && !is_within(l, holder->computation))
            return true;
    }
    for (uint32_t u = 0; u < value->n_uses; u++) {
        const EchInstruction *user = at(p, p->uses[value->first_use + u].user);
        if (user->schedule != ECH_NONE && user->schedule > at(p, l->loop)->schedule)
            return true;
    }
    for (EchId i = l->loop; i < c->first + c->n; i++) {
        bool whole = at(p, i)->opcode != ECH_HLO_GET_TUPLE_ELEMENT || at(p, i)->number == k;
        for (uint32_t o = 0; whole && o < at(p, i)->n_operands; o++)
            if (ech_program_operand(p, at(p, i), o) == l->loop)
                return true;
    }
    return false;
}

/* Whether @id is a copy of the loop's stack. */
static bool copies_stack(const Loop *l, EchId id, uint32_t stacked)
{
    const EchProgram *p = l->p;
    EchId from = at(p, id)->opcode == ECH_HLO_COPY ? ech_program_operand(p, at(p, id), 0) : ECH_NONE;
    return from != ECH_NONE && at(p, from)->opcode == ECH_HLO_GET_TUPLE_ELEMENT && at(p, from)->number == stacked &&
           ech_program_operand(p, at(p, from), 0) == l->loop;
}

/* The copy of the loop's stack at the end into the place of the array: an argument that it was donated, what a loop around it carries. False where the argument
 * is donated to another output. */
static bool find_copy(const Loop *l, Pair *pair)
{
    const EchProgram *p = l->p;
    EchId root = p->computations[at(p, l->loop)->computation].root;
    pair->copied = ECH_NONE;
    if (pair->argument == ECH_NONE) {
        const EchInstruction *array = at(p, pair->array);
        bool carried = array->opcode == ECH_HLO_GET_TUPLE_ELEMENT && at(p, ech_program_operand(p, array, 0))->opcode == ECH_HLO_PARAMETER &&
                       at(p, root)->opcode == ECH_HLO_TUPLE && array->number < at(p, root)->n_operands;
        EchId out = carried ? ech_program_operand(p, at(p, root), (uint32_t)array->number) : ECH_NONE;
        pair->copied = out != ECH_NONE && copies_stack(l, out, pair->stacked) ? out : ECH_NONE;
        return true;
    }
    for (size_t k = 0; k < p->n_donations; k++) {
        if (p->donations[k].parameter != at(p, pair->argument)->number)
            continue;
        uint32_t inner = 1, member = p->donations[k].output_position > 0 && at(p, root)->opcode == ECH_HLO_TUPLE
                                         ? ech_program_member_at(p, at(p, root)->shape, p->donations[k].output_position, &inner)
                                         : 0;
        EchId out = inner == 0 ? ech_program_operand(p, at(p, root), member) : ECH_NONE;
        if (out == ECH_NONE || !copies_stack(l, out, pair->stacked))
            return false;
        pair->copied = out;
    }
    return true;
}

/* The argument of the entry that @array is, perhaps by another shape; ECH_NONE. False where it may not be written over: a constant, a part of an argument. */
static bool find_argument(const EchProgram *p, EchId array, EchId *ret)
{
    const EchValue *value = &p->values[ech_program_value(p, array, 0)];
    const EchInstruction *made = at(p, value->defined.instruction);
    bool given = made->opcode == ECH_HLO_PARAMETER && made->computation == p->entry;
    *ret = given ? value->defined.instruction : ECH_NONE;
    return made->opcode != ECH_HLO_CONSTANT && (!given || value->defined.position == 0);
}

/* Whether an array holds nothing yet, or the same everywhere. */
static bool is_empty(const EchProgram *p, EchId id)
{
    const EchInstruction *i = at(p, id);
    if (i->opcode == ECH_HLO_FUSION && i->n_operands == 0 && i->n_called == 1) /* as a GPU's compiler fills */
        i = at(p, p->computations[ech_program_called(p, i, 0)].root);
    return i->opcode == ECH_HLO_BROADCAST || (i->target && strcmp(i->target, "AllocateBuffer") == 0);
}

/* What element @k is a stack of, if it is one that a loop could carry: of several, what is given its place in the end. */
static bool find_pair(const Loop *l, uint32_t k, Pair *ret)
{
    const EchProgram *p = l->p;
    EchId begun = element(l, l->init, k), writer = writer_of(l, k), shape = at(p, begun)->shape;
    if (writer == ECH_NONE || !is_empty(p, begun) || p->shapes[shape].is_tuple || is_read_by_another(p, begun, l->init) || is_read_besides(l, k, writer))
        return false;
    uint32_t found = 0;
    for (uint32_t a = 0; a < at(p, l->init)->n_operands; a++) {
        EchId array = element(l, l->init, a), argument;
        if (a == k || at(p, array)->shape != shape || !is_taken_where_written(l, a, writer, k) || !comes_of(l, writer, a) || is_wanted_after(l, array, a) ||
            !find_argument(p, array, &argument))
            continue;
        Pair pair = {.argument = argument,
                     .init = l->init,
                     .root = l->root,
                     .array = array,
                     .taken = a,
                     .stacked = k,
                     .made = element(l, l->root, k),
                     .begun = begun,
                     .kept = writer == element(l, l->root, k) && writes_few_rows(l, writer)
                                 ? ech_program_operand(p, at(p, writer), operand_of_element(l, writer, k, 0))
                                 : ECH_NONE,
                     .bytes = p->shapes[shape].bytes};
        if (!find_copy(l, &pair))
            continue;
        *ret = pair;
        found = pair.copied != ECH_NONE ? 1 : found + 1;
        if (pair.copied != ECH_NONE)
            break;
    }
    return found == 1;
}

/* Whether another stack has the place of the array already. */
static bool is_given(const GArray *pairs, const Pair *pair)
{
    for (guint k = 0; k < pairs->len; k++) {
        const Pair *other = &g_array_index(pairs, Pair, k);
        if (other->init == pair->init && other->taken == pair->taken)
            return true;
    }
    return false;
}

static void find_pairs(const EchProgram *p, EchId loop, GArray *pairs)
{
    const EchInstruction *i = at(p, loop);
    if (i->opcode != ECH_HLO_WHILE || i->n_called < 2 || i->n_operands != 1)
        return;
    const EchComputation *body = &p->computations[ech_program_called(p, i, 1)];
    Loop l = {p, loop, ech_program_operand(p, i, 0), ECH_NONE, body->root};
    for (EchId k = body->first; k < body->first + body->n; k++)
        if (at(p, k)->opcode == ECH_HLO_PARAMETER)
            l.parameter = k;
    bool plain = at(p, l.init)->opcode == ECH_HLO_TUPLE && at(p, l.root)->opcode == ECH_HLO_TUPLE && l.parameter != ECH_NONE;
    for (uint32_t k = 0; plain && k < at(p, l.init)->n_operands; k++) {
        Pair pair;
        if (find_pair(&l, k, &pair) && !is_given(pairs, &pair))
            g_array_append_val(pairs, pair);
    }
}

static void become(EchProgram *p, EchId id, EchHlo opcode)
{
    p->instructions[id].opcode = (uint16_t)opcode;
    p->instructions[id].opcode_name = ech_hlo_name(opcode);
    p->instructions[id].attributes_n = 0;
    p->instructions[id].target = NULL;
}

/* Whether an instruction does nothing but take a slice. */
static bool only_slices(const EchProgram *p, EchId id)
{
    if (at(p, id)->opcode == ECH_HLO_DYNAMIC_SLICE)
        return true;
    const EchComputation *c = at(p, id)->opcode == ECH_HLO_FUSION ? &p->computations[ech_program_called(p, at(p, id), 0)] : NULL;
    for (EchId k = c ? c->first : 0; c && k < c->first + c->n; k++) {
        uint16_t opcode = at(p, k)->opcode;
        bool moves = opcode == ECH_HLO_PARAMETER || opcode == ECH_HLO_BITCAST || opcode == ECH_HLO_DYNAMIC_SLICE;
        if (p->shapes[at(p, k)->shape].is_tuple || (!moves && p->shapes[at(p, k)->shape].count > 1))
            return false;
    }
    return c != NULL;
}

/* The same array under another name. */
static void become_bitcast(EchProgram *p, EchId id, EchId of)
{
    become(p, id, ECH_HLO_BITCAST);
    p->operands[p->instructions[id].first_operand] = of;
    p->instructions[id].n_operands = 1;
    p->instructions[id].n_called = 0;
}

/* Both elements are the array from now on. */
static void carry(EchProgramBuilder *b, const EchProgram *in, const Pair *pair)
{
    EchId nothing = ech_program_builder_tuple(b, NULL, 0);
    EchProgram *p = ech_program_builder_peek(b);
    p->operands[p->instructions[pair->init].first_operand + pair->stacked] = pair->array;
    p->operands[p->instructions[pair->root].first_operand + pair->taken] = pair->made;
    become(p, pair->begun, ECH_HLO_TUPLE);
    p->instructions[pair->begun].n_operands = p->instructions[pair->begun].n_called = 0;
    p->instructions[pair->begun].shape = nothing;
    if (pair->copied != ECH_NONE)
        become(p, pair->copied, ECH_HLO_BITCAST);
    if (pair->kept == ECH_NONE)
        return;
    /* Rows are written where they stay: slices are read there, unless they are fetched, and do not go back. */
    become_bitcast(p, pair->made, pair->kept);
    EchId parameter = ech_program_operand(in, at(in, pair->kept), 0);
    for (EchId i = parameter + 1; i < pair->root; i++) {
        EchId of = at(in, i)->n_operands > 0 ? ech_program_operand(in, at(in, i), 0) : ECH_NONE;
        if (of == ECH_NONE || at(in, of)->opcode != ECH_HLO_GET_TUPLE_ELEMENT || at(in, of)->number != pair->taken ||
            ech_program_operand(in, at(in, of), 0) != parameter || in->shapes[at(in, i)->shape].space != in->shapes[at(in, of)->shape].space ||
            !only_slices(in, i))
            continue;
        become_bitcast(p, i, of);
    }
}

/* An argument that stays is copied first, once. */
static void copy_first(EchProgramBuilder *b, const Pair *pair)
{
    const EchInstruction *of = &ech_program_builder_peek(b)->instructions[pair->array];
    g_autofree char *name = g_strdup_printf("copy.of.%s", of->name);
    EchInstruction copy = {.opcode = ECH_HLO_COPY, .shape = of->shape, .opcode_name = ech_hlo_name(ECH_HLO_COPY), .op_name = of->op_name, .source = of->source};
    copy.name = ech_program_builder_string(b, name, -1);
    EchId made = ech_program_builder_insert(b, pair->init, copy, &pair->array, 1);
    EchProgram *p = ech_program_builder_peek(b);
    p->operands[p->instructions[pair->init + 1].first_operand + pair->taken] = made;
    p->operands[p->instructions[pair->init + 1].first_operand + pair->stacked] = made;
}

/* Loops from the last to the first, so that copies leave the numbers of those before as they are. */
static gint compare_pairs(gconstpointer a, gconstpointer b)
{
    const Pair *x = a, *y = b;
    return (x->init < y->init) - (x->init > y->init);
}

/* A TPU's compiler chooses layouts itself, but of arguments. */
static void say_layouts(const EchProgram *p, const GArray *pairs, EchDiag *diag)
{
    for (guint k = 0; p->platform == ECH_PLATFORM_TPU && k < pairs->len; k++) {
        EchId shape = at(p, g_array_index(pairs, Pair, k).array)->shape;
        bool said = false;
        for (guint j = 0; j < k; j++)
            said |= at(p, g_array_index(pairs, Pair, j).array)->shape == shape;
        const EchLayout *layout = ech_program_layout(p, shape);
        if (said || !layout || layout->rank < 2)
            continue;
        g_autoptr(GString) order = g_string_new(NULL);
        for (unsigned d = layout->rank; d-- > 0;)
            g_string_append_printf(order, "%u%s", (unsigned)layout->order[d], d > 0 ? ", " : "");
        g_autofree char *text = ech_program_shape_text(p, shape);
        ech_diag_remark(diag,
                        "carry: %s: hold its layout in the loop's body, jax.experimental.layout.with_layout_constraint(x, Layout(major_to_minor=(%s))); "
                        "left to itself the compiler may choose another for the loop and copy all of it before and after",
                        text, order->str);
    }
}

static EchProgram *carry_run(const void *options, const EchDevice *device, EchProgram *in, EchDiag *diag, GError **error)
{
    (void)options;
    (void)device;
    g_autoptr(GArray) pairs = g_array_new(FALSE, FALSE, sizeof(Pair));
    for (size_t i = 0; i < in->n_flat; i++)
        find_pairs(in, in->flat[i], pairs);
    if (pairs->len == 0) {
        ech_diag_remark(diag, "carry: left the program as it is: no loop takes an array slice by slice and hands back another of its shape and layout");
        return ech_program_ref(in);
    }
    g_autoptr(EchProgramBuilder) builder = ech_program_builder_new_from(in);
    EchBytes bytes = 0, copied = 0;
    for (guint k = 0; k < pairs->len; k++) {
        carry(builder, in, &g_array_index(pairs, Pair, k));
        bytes = ech_bytes_add(bytes, g_array_index(pairs, Pair, k).bytes);
    }
    g_array_sort(pairs, compare_pairs);
    guint moved = 0; /* of one loop, by its copies so far */
    for (guint k = 0; k < pairs->len; k++) {
        Pair pair = g_array_index(pairs, Pair, k);
        moved = k > 0 && g_array_index(pairs, Pair, k - 1).init == pair.init ? moved : 0;
        if (pair.argument == ECH_NONE || pair.copied != ECH_NONE)
            continue;
        pair.init += moved++;
        copy_first(builder, &pair);
        copied = ech_bytes_add(copied, pair.bytes);
    }
    g_autofree char *size = ech_format_bytes(bytes), *more = ech_format_bytes(copied);
    ech_diag_remark(diag, "carry: %u array%s (%s) that a loop takes slice by slice and stacks anew: updated in place, as the loop's carry", pairs->len,
                    pairs->len == 1 ? "" : "s", size);
    if (copied > 0)
        ech_diag_remark(diag, "carry: %s of that are arguments that are not donated: copied first (pass donate before)", more);
    say_layouts(in, pairs, diag);
    g_autoptr(EchDiag) said = ech_diag_new();
    return ech_program_builder_finish(builder, in->chip, said, error);
}

const EchPassClass ech_pass_carry = {.name = "carry",
                                     .summary = "update in place what loops take slice by slice and stack anew (lax.scan's xs and ys)",
                                     .source = "ours; JAX's scan, XLA's while loops, whose elements each have one place",
                                     .program = carry_run};
