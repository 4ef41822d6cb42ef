/* Donation. Source: XLA's input_output_alias and its copy insertion (xla/hlo/transforms/.../copy_insertion.cc: an argument that an output takes the place of,
 * and one that is written over without that, is copied unless the two are never alive at once); JAX pairs arguments with outputs of equal shape in their order;
 * those that it finds none for, but one of as many elements (jax/_src/interpreters/mlir.py, _set_up_aliases), are XLA's to pair, by their size alone
 * (buffer_donor; xla/service/optimize_input_output_buffer_alias.cc). */
#include "sim/program/donation.h"

#include "sim/program/private.h"

#include <string.h>

typedef struct {
    const EchProgram *p;
    EchProgramBuilder *b;
    EchId root;
    uint32_t *n_users; /* per instruction */
    bool *given;       /* per place: an argument's that was paired with an output in it */
    bool *taken;       /* per position of the root: an argument's place, */
    EchId *shapes;     /* its shape, */
    uint32_t *members; /* and the root's operand that it is; UINT32_MAX where there is none of its own */
    GArray *inserts;   /* Insert */
    GArray *left;      /* Sized: arguments that no output of their shape was found for */
    EchDonationChange change;
} Donate;

/* An array of an argument, or of the root. */
typedef struct {
    EchId parameter; /* ECH_NONE: the root's */
    uint32_t position;
    int32_t space;
    EchBytes dense;
} Sized;

/* A copy to be made before instruction @before of what @of makes. It takes the place of operand @operand of @user. */
typedef struct {
    EchId before, of, user;
    uint32_t operand;
} Insert;

static const EchShape *shape_at(const EchProgram *p, EchId instruction, uint32_t position)
{
    return &p->shapes[ech_program_subshape(p, p->instructions[instruction].shape, position)];
}

static bool is_donated(const EchProgram *p, int64_t parameter, uint32_t position)
{
    for (size_t k = 0; k < p->n_donations; k++)
        if (p->donations[k].parameter == parameter && p->donations[k].parameter_position == position)
            return true;
    return false;
}

/* When a place is last read. */
static int64_t last_read(const EchProgram *p, EchId buffer)
{
    int64_t last = 0;
    for (uint32_t k = 0; k < p->buffers[buffer].n_values; k++) {
        const EchValue *value = &p->values[p->buffer_values[p->buffers[buffer].first_value + k]];
        for (uint32_t u = 0; u < value->n_uses; u++) {
            uint32_t at = p->instructions[p->uses[value->first_use + u].user].schedule;
            last = at != ECH_NONE ? MAX(last, (int64_t)at) : last;
        }
    }
    return last;
}

/* The value that is first in a place. */
static EchId first_value(const EchProgram *p, EchId buffer)
{
    EchId first = ECH_NONE;
    for (uint32_t k = 0; k < p->buffers[buffer].n_values; k++) {
        EchId v = p->buffer_values[p->buffers[buffer].first_value + k];
        if (p->values[v].start >= 0 && (first == ECH_NONE || ech_program_compare_ranges(&v, &first, (gpointer)(uintptr_t)p) < 0))
            first = v;
    }
    return first;
}

static bool reads(const EchProgram *p, EchId instruction, EchId value, EchId *ret_operand)
{
    const EchInstruction *i = &p->instructions[instruction];
    for (uint32_t k = 0; k < i->n_operands; k++) {
        EchId operand = ech_program_operand(p, i, k);
        if (p->instructions[operand].first_position != ECH_NONE && ech_program_value(p, operand, 0) == value) {
            *ret_operand = operand;
            return true;
        }
    }
    return false;
}

/* May what @value holds last be written over by the instruction that makes @next as it reads it? A TPU's compiler makes fusions so that they can; of a program
 * compiled without donation it had no reason to say so. */
static bool in_place(const Donate *d, EchId value, EchId next)
{
    const EchProgram *p = d->p;
    EchPosition made = p->values[next].defined;
    EchId operand;
    if (!reads(p, made.instruction, value, &operand))
        return false;
    const EchInstruction *i = &p->instructions[made.instruction];
    if (p->platform == ECH_PLATFORM_TPU && (i->opcode == ECH_HLO_FUSION || ech_hlo_is_elementwise((EchHlo)i->opcode)))
        return true;
    return ech_program_may_share(p, made.instruction, made.position, operand, d->n_users);
}

/* The copy of an argument that a place begins with, the last to read it: it needs no copy when the place is the argument's. */
static EchId spared_copy(const EchProgram *p, EchId value, EchId first, int64_t last)
{
    const EchInstruction *i = &p->instructions[p->values[first].defined.instruction];
    if (i->opcode != ECH_HLO_COPY || i->n_operands != 1 || ech_program_value(p, ech_program_operand(p, i, 0), 0) != value || (int64_t)i->schedule < last)
        return ECH_NONE;
    return p->values[first].defined.instruction;
}

static void copy_before_root(Donate *d, uint32_t member, EchBytes bytes)
{
    const EchInstruction *root = &d->p->instructions[d->root];
    Insert insert = {.before = d->root, .of = ech_program_operand(d->p, root, member), .user = d->root, .operand = member};
    g_array_append_val(d->inserts, insert);
    d->change.copies++;
    d->change.copy_bytes = ech_bytes_add(d->change.copy_bytes, bytes);
}

static void find_outputs(Donate *d)
{
    const EchProgram *p = d->p;
    const EchInstruction *root = &p->instructions[d->root];
    const EchShape *shape = &p->shapes[root->shape];
    for (uint32_t q = 0; q < shape->n_positions; q++) {
        d->shapes[q] = ech_program_subshape(p, root->shape, q);
        d->members[q] = UINT32_MAX;
    }
    uint32_t position = 1;
    for (uint32_t k = 0; root->opcode == ECH_HLO_TUPLE && k < MIN(root->n_operands, shape->n_elements); k++) {
        d->members[position] = k;
        position += p->shapes[p->elements[shape->first_element + k]].n_positions;
    }
}

/* Whether arrays of two shapes lie alike in memory: as long in each dimension from the minor one on, and tiled alike. */
static bool lie_alike(const EchProgram *p, EchId a, EchId b)
{
    const EchShape *s = &p->shapes[a], *t = &p->shapes[b];
    if (a == b || s->layout == ECH_NONE || t->layout == ECH_NONE)
        return a == b;
    const EchLayout *x = &p->layouts[s->layout], *y = &p->layouts[t->layout];
    bool alike = s->dtype == t->dtype && s->bytes == t->bytes && x->rank == y->rank && x->n_tiles == y->n_tiles;
    for (uint8_t k = 0; alike && k < x->rank; k++)
        alike = x->dims[x->order[k]] == y->dims[y->order[k]];
    for (uint8_t k = 0; alike && k < x->n_tiles; k++)
        alike = x->tiles[k].rank == y->tiles[k].rank && memcmp(x->tiles[k].dims, y->tiles[k].dims, x->tiles[k].rank * sizeof *x->tiles[k].dims) == 0;
    return alike;
}

/* Lets the root's array at @q take the argument's place. False where it cannot be. */
static bool take_place(Donate *d, EchId parameter, uint32_t position, uint32_t q)
{
    const EchProgram *p = d->p;
    EchId shape = ech_program_subshape(p, p->instructions[parameter].shape, position);
    EchId value = ech_program_value(p, parameter, position), buffer = p->values[value].buffer;
    EchBytes bytes = p->shapes[shape].bytes;
    EchId out = ech_program_value(p, d->root, q), into = p->values[out].buffer;
    const EchValueBuffer *place = &p->buffers[into];
    if (into != buffer) {
        bool alike = lie_alike(p, shape, d->shapes[q]);
        int64_t last = last_read(p, buffer);
        EchId first = first_value(p, into);
        EchId copy = alike && first != ECH_NONE && !d->given[into] ? spared_copy(p, value, first, last) : ECH_NONE;
        bool free = first != ECH_NONE && !place->is_parameter && !place->is_constant && !d->given[into] &&
                    (p->values[first].start > last || (alike && p->values[first].start == last && in_place(d, value, first)));
        if (copy != ECH_NONE && !place->is_parameter) {
            EchInstruction *made = &ech_program_builder_peek(d->b)->instructions[copy];
            made->opcode = ECH_HLO_BITCAST;
            made->opcode_name = ech_hlo_name(ECH_HLO_BITCAST);
            made->attributes_n = 0;
            d->change.spared++;
            d->change.spared_bytes = ech_bytes_add(d->change.spared_bytes, bytes);
        } else if (!free && d->members[q] == UINT32_MAX)
            return false;
        else if (!free)
            copy_before_root(d, d->members[q], bytes);
        d->given[into] = true;
    }
    d->taken[q] = true;
    ech_program_builder_donation(d->b, (EchDonation){.output_position = q, .parameter = p->instructions[parameter].number, .parameter_position = position});
    d->change.donated++;
    d->change.donated_bytes = ech_bytes_add(d->change.donated_bytes, bytes);
    return true;
}

static bool pair(Donate *d, EchId parameter, uint32_t position)
{
    const EchProgram *p = d->p;
    EchId shape = ech_program_subshape(p, p->instructions[parameter].shape, position);
    for (uint32_t q = 0; q < p->shapes[p->instructions[d->root].shape].n_positions; q++)
        if (!d->taken[q] && d->shapes[q] == shape && take_place(d, parameter, position, q))
            return true;
    return false;
}

static int compare_sized(const Sized *x, const Sized *y)
{
    return x->space != y->space ? (x->space < y->space ? -1 : 1) : (x->dense < y->dense) - (x->dense > y->dense);
}

/* Of those of one memory the largest first, else in their order. */
static gint compare_for_sort(gconstpointer a, gconstpointer b)
{
    const Sized *x = a, *y = b;
    int by_size = compare_sized(x, y);
    if (by_size != 0)
        return by_size;
    return x->parameter != y->parameter ? (x->parameter < y->parameter ? -1 : 1) : (x->position > y->position) - (x->position < y->position);
}

static uint64_t elements_of(const EchShape *shape, const EchProgram *p)
{
    return shape->layout == ECH_NONE ? 0 : ech_layout_elements(&p->layouts[shape->layout]);
}

/* Of arguments that are left those that JAX donates at all: as many as there are outputs left of as many elements. */
static void keep_elements(Donate *d)
{
    const EchProgram *p = d->p;
    g_autoptr(GHashTable) outputs = g_hash_table_new(NULL, NULL); /* elements -> outputs left */
    guint n = 0;
    for (uint32_t q = 0; q < p->shapes[p->instructions[d->root].shape].n_positions; q++) {
        gpointer key = GSIZE_TO_POINTER(elements_of(&p->shapes[d->shapes[q]], p));
        if (!p->shapes[d->shapes[q]].is_tuple && !d->taken[q])
            g_hash_table_insert(outputs, key, GUINT_TO_POINTER(GPOINTER_TO_UINT(g_hash_table_lookup(outputs, key)) + 1));
    }
    for (guint a = 0; a < d->left->len; a++) {
        const Sized argument = g_array_index(d->left, Sized, a);
        const EchShape *shape = shape_at(p, argument.parameter, argument.position);
        gpointer key = GSIZE_TO_POINTER(elements_of(shape, p));
        guint there = GPOINTER_TO_UINT(g_hash_table_lookup(outputs, key));
        if (there > 0) {
            g_array_index(d->left, Sized, n++) = argument;
            g_hash_table_insert(outputs, key, GUINT_TO_POINTER(there - 1));
            continue;
        }
        d->change.unmatched++;
        d->change.unmatched_bytes = ech_bytes_add(d->change.unmatched_bytes, shape->bytes);
    }
    g_array_set_size(d->left, n);
}

/* Arguments that are left with outputs that are left, largest first, where their sizes are the same: before XLA tiles them, so only what is padded alike can
 * have that place. */
static void pair_by_size(Donate *d)
{
    const EchProgram *p = d->p;
    keep_elements(d);
    g_autoptr(GArray) outputs = g_array_new(FALSE, FALSE, sizeof(Sized));
    for (uint32_t q = 0; q < p->shapes[p->instructions[d->root].shape].n_positions; q++) {
        const EchShape *s = &p->shapes[d->shapes[q]];
        Sized one = {ECH_NONE, q, s->space, s->dense};
        if (!s->is_tuple && !d->taken[q])
            g_array_append_val(outputs, one);
    }
    g_array_sort(outputs, compare_for_sort);
    g_array_sort(d->left, compare_for_sort);
    for (guint a = 0, o = 0; a < d->left->len;) {
        const Sized *argument = &g_array_index(d->left, Sized, a), *output = o < outputs->len ? &g_array_index(outputs, Sized, o) : NULL;
        int order = output ? compare_sized(argument, output) : -1;
        if (order > 0) {
            o++;
            continue;
        }
        EchBytes bytes = shape_at(p, argument->parameter, argument->position)->bytes;
        bool paired =
            order == 0 && bytes == p->shapes[d->shapes[output->position]].bytes && take_place(d, argument->parameter, argument->position, output->position);
        a++;
        o += order == 0;
        d->change.unmatched += !paired;
        d->change.unmatched_bytes = ech_bytes_add(d->change.unmatched_bytes, paired ? 0 : bytes);
    }
}

/* Calls @each for every array of every parameter that is meant. */
static void each_argument(Donate *d, EchArgumentFunc meant, const void *data, void (*each)(Donate *d, EchId parameter, uint32_t position))
{
    const EchProgram *p = d->p;
    const EchComputation *entry = &p->computations[p->entry];
    g_autoptr(GArray) parameters = g_array_new(FALSE, FALSE, sizeof(EchId));
    for (EchId i = entry->first; i < entry->first + entry->n; i++)
        if (p->instructions[i].opcode == ECH_HLO_PARAMETER)
            g_array_append_val(parameters, i);
    /* In the order of their numbers, which is JAX's. */
    for (int64_t number = 0; number < (int64_t)parameters->len; number++)
        for (guint k = 0; k < parameters->len; k++) {
            EchId i = g_array_index(parameters, EchId, k);
            if (p->instructions[i].number != number)
                continue;
            for (uint32_t q = 0; q < p->shapes[p->instructions[i].shape].n_positions; q++)
                if (!shape_at(p, i, q)->is_tuple && meant(p, i, q, data))
                    each(d, i, q);
        }
}

static void give(Donate *d, EchId parameter, uint32_t position)
{
    if (is_donated(d->p, d->p->instructions[parameter].number, position) || pair(d, parameter, position))
        return;
    const EchShape *shape = shape_at(d->p, parameter, position);
    Sized left = {parameter, position, shape->space, shape->dense};
    g_array_append_val(d->left, left);
}

static void keep(Donate *d, EchId parameter, uint32_t position)
{
    EchProgram *out = ech_program_builder_peek(d->b);
    int64_t number = d->p->instructions[parameter].number;
    for (size_t k = 0; k < out->n_donations; k++) {
        if (out->donations[k].parameter != number || out->donations[k].parameter_position != position)
            continue;
        out->donations[k] = out->donations[--out->n_donations];
        d->change.kept++;
        d->change.kept_bytes = ech_bytes_add(d->change.kept_bytes, shape_at(d->p, parameter, position)->bytes);
        return;
    }
}

/* Does an entry instruction hand what it has as operand @k to what writes it in place? */
static bool writes_over(const EchProgram *p, EchId user, uint32_t k)
{
    g_autoptr(GArray) pairs = g_array_new(FALSE, FALSE, sizeof(EchSharePair));
    ech_program_must_share(p, user, pairs);
    for (guint j = 0; j < pairs->len; j++)
        if (g_array_index(pairs, EchSharePair, j).operand == k)
            return true;
    return p->instructions[user].opcode == ECH_HLO_TUPLE || p->instructions[user].opcode == ECH_HLO_WHILE;
}

/* Arguments that are written over, or handed back, without being donated: what does so gets a copy. */
static void protect(Donate *d)
{
    const EchProgram *p = d->p;
    const EchComputation *entry = &p->computations[p->entry];
    for (EchId i = entry->first; i < entry->first + entry->n; i++) {
        const EchInstruction *parameter = &p->instructions[i];
        if (parameter->opcode != ECH_HLO_PARAMETER || p->shapes[parameter->shape].is_tuple || is_donated(p, parameter->number, 0))
            continue;
        EchId value = ech_program_value(p, i, 0);
        const EchValueBuffer *buffer = &p->buffers[p->values[value].buffer];
        bool written = buffer->live_out;
        for (uint32_t k = 0; k < buffer->n_values; k++) {
            const EchValue *other = &p->values[p->buffer_values[buffer->first_value + k]];
            written |= !other->is_phi && p->instructions[other->defined.instruction].opcode != ECH_HLO_PARAMETER;
        }
        for (EchId user = i + 1; user < entry->first + entry->n && written; user++) {
            const EchInstruction *u = &p->instructions[user];
            for (uint32_t k = 0; k < u->n_operands; k++) {
                EchId operand = ech_program_operand(p, u, k);
                if (p->instructions[operand].first_position == ECH_NONE || ech_program_value(p, operand, 0) != value || !writes_over(p, user, k))
                    continue;
                Insert insert = {.before = user, .of = operand, .user = user, .operand = k};
                g_array_append_val(d->inserts, insert);
                d->change.copies++;
                d->change.copy_bytes = ech_bytes_add(d->change.copy_bytes, p->shapes[parameter->shape].bytes);
            }
        }
    }
}

/* From the last to the first, so that the numbers of those before still hold. */
static gint compare_inserts(gconstpointer a, gconstpointer b)
{
    const Insert *x = a, *y = b;
    return x->before != y->before ? (x->before > y->before ? -1 : 1) : (x->operand > y->operand) - (x->operand < y->operand);
}

static void insert_copies(Donate *d)
{
    g_array_sort(d->inserts, compare_inserts);
    EchId before = ECH_NONE;
    uint32_t moved = 0; /* @before, by copies put there already */
    for (guint k = 0; k < d->inserts->len; k++) {
        Insert *insert = &g_array_index(d->inserts, Insert, k);
        moved = insert->before == before ? moved + 1 : 0;
        before = insert->before;
        EchProgram *out = ech_program_builder_peek(d->b);
        const EchInstruction *of = &out->instructions[insert->of];
        g_autofree char *name = g_strdup_printf("copy.of.%s", of->name);
        EchInstruction copy = {
            .opcode = ECH_HLO_COPY, .shape = of->shape, .opcode_name = ech_hlo_name(ECH_HLO_COPY), .op_name = of->op_name, .source = of->source};
        copy.name = ech_program_builder_string(d->b, name, -1);
        EchId made = ech_program_builder_insert(d->b, insert->before + moved, copy, &insert->of, 1);
        out = ech_program_builder_peek(d->b);
        out->operands[out->instructions[insert->user + moved + 1].first_operand + insert->operand] = made;
    }
}

static EchProgram *finish(Donate *d, const char *chip, GError **error)
{
    insert_copies(d);
    g_autoptr(EchDiag) said = ech_diag_new();
    return ech_program_builder_finish(d->b, chip, said, error);
}

EchProgram *ech_program_donate(EchProgram *program, EchArgumentFunc meant, const void *data, bool donate, EchDonationChange *ret, GError **error)
{
    g_autoptr(EchProgramBuilder) builder = ech_program_builder_new_from(program);
    g_autoptr(GArray) inserts = g_array_new(FALSE, FALSE, sizeof(Insert)), left = g_array_new(FALSE, FALSE, sizeof(Sized));
    EchId root = program->computations[program->entry].root;
    size_t n_outputs = program->shapes[program->instructions[root].shape].n_positions;
    g_autofree bool *taken = g_new0(bool, n_outputs + 1);
    g_autofree EchId *shapes = g_new(EchId, n_outputs + 1);
    g_autofree uint32_t *members = g_new(uint32_t, n_outputs + 1);
    g_autofree uint32_t *n_users = g_new0(uint32_t, program->n_instructions + 1);
    g_autofree bool *given = g_new0(bool, program->n_buffers + 1);
    for (size_t k = 0; k < program->n_operands; k++)
        n_users[program->operands[k]]++;
    for (size_t k = 0; k < program->n_donations; k++)
        taken[program->donations[k].output_position] = true;
    Donate d = {.p = program,
                .b = builder,
                .root = root,
                .n_users = n_users,
                .given = given,
                .taken = taken,
                .shapes = shapes,
                .members = members,
                .inserts = inserts,
                .left = left};
    find_outputs(&d);
    each_argument(&d, meant, data, donate ? give : keep);
    pair_by_size(&d);
    *ret = d.change;
    if (d.change.donated + d.change.kept == 0)
        return ech_program_ref(program);
    EchProgram *out = finish(&d, program->chip, error);
    if (out == NULL || donate)
        return out;
    /* Only now does it show what is still written over. */
    g_autoptr(EchProgram) bare = out;
    EchDonationChange more;
    out = ech_program_keep_arguments(bare, &more, error);
    ret->copies = more.copies;
    ret->copy_bytes = more.copy_bytes;
    return out;
}

EchProgram *ech_program_keep_arguments(EchProgram *program, EchDonationChange *ret, GError **error)
{
    g_autoptr(EchProgramBuilder) builder = ech_program_builder_new_from(program);
    g_autoptr(GArray) inserts = g_array_new(FALSE, FALSE, sizeof(Insert));
    Donate d = {.p = program, .b = builder, .inserts = inserts};
    protect(&d);
    *ret = d.change;
    return inserts->len > 0 ? finish(&d, program->chip, error) : ech_program_ref(program);
}
