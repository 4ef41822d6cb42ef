/* May a user take the place of an operand whose life ends there? XLA's CanShareOperandBufferWithUser, with the GPU's rule for fusions and the
 * TPU's announced lists. */
#include "sim/program/private.h"

#include <string.h>

static bool same_array(const EchProgram *p, EchId a, EchId b)
{
    return a == b && !p->shapes[a].is_tuple;
}

/* Same dimensions and layout, whatever the element type says: what an elementwise op needs. */
static bool is_must_share(const EchProgram *p, EchId user, uint32_t result, EchId operand)
{
    g_autoptr(GArray) pairs = g_array_new(FALSE, FALSE, sizeof(EchSharePair));
    ech_program_must_share(p, user, pairs);
    for (guint k = 0; k < pairs->len; k++) {
        const EchSharePair *pair = &g_array_index(pairs, EchSharePair, k);
        if (pair->result == result && pair->position == 0 && ech_program_operand(p, &p->instructions[user], pair->operand) == operand)
            return true;
    }
    return false;
}

/* Number of @operand among the operands of @i; *ret_first is its first place. */
static uint32_t places_of(const EchProgram *p, const EchInstruction *i, EchId operand, uint32_t *ret_first)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < i->n_operands; k++) {
        if (ech_program_operand(p, i, k) == operand && n++ == 0)
            *ret_first = k;
    }
    return n;
}

/* The member of a tuple result that @position is, 0 for an array; ECH_NONE for anything deeper. */
static uint32_t member_of(const EchProgram *p, EchId shape, uint32_t position)
{
    const EchShape *s = &p->shapes[shape];
    if (!s->is_tuple)
        return position == 0 ? 0 : ECH_NONE;
    for (uint32_t k = 0; k < s->n_elements; k++) {
        if (ech_program_member_position(p, shape, k) == position)
            return k;
    }
    return ECH_NONE;
}

/* Fusions on a GPU */

typedef struct {
    const EchProgram *p;
    const EchComputation *body;
    GArray **users; /* per instruction of the body: EchId of users */
    EchId output;   /* the wanted output inside the body */
    EchId real;     /* behind a bitcast */
    EchId hero;     /* reduce that may be reached, or ECH_NONE */
} Walk;

static bool is_output(const EchProgram *p, const EchComputation *body, EchId i)
{
    const EchInstruction *root = &p->instructions[body->root];
    if (root->opcode != ECH_HLO_TUPLE)
        return body->root == i;
    for (uint32_t k = 0; k < root->n_operands; k++) {
        if (ech_program_operand(p, root, k) == i)
            return true;
    }
    return false;
}

/* The reduce behind elementwise steps of an output, or ECH_NONE. */
static EchId reduce_behind(const EchProgram *p, EchId i)
{
    for (unsigned steps = 0; steps < 1000; steps++) {
        const EchInstruction *instruction = &p->instructions[i];
        if (instruction->opcode == ECH_HLO_REDUCE)
            return i;
        if (instruction->n_operands == 0 || !(ech_hlo_is_elementwise((EchHlo)instruction->opcode) || instruction->opcode == ECH_HLO_BITCAST))
            return ECH_NONE;
        /* Of several operands the one that is computed from more than a scalar. */
        EchId next = ech_program_operand(p, instruction, 0);
        for (uint32_t k = 0; k < instruction->n_operands; k++) {
            EchHlo opcode = (EchHlo)p->instructions[ech_program_operand(p, instruction, k)].opcode;
            if (opcode != ECH_HLO_BROADCAST && opcode != ECH_HLO_CONSTANT && opcode != ECH_HLO_PARAMETER) {
                next = ech_program_operand(p, instruction, k);
                break;
            }
        }
        i = next;
    }
    return ECH_NONE;
}

static EchId find_hero(const EchProgram *p, const EchComputation *body)
{
    const EchInstruction *root = &p->instructions[body->root];
    if (root->opcode != ECH_HLO_TUPLE)
        return reduce_behind(p, body->root);
    for (uint32_t k = 0; k < root->n_operands; k++) {
        EchId hero = reduce_behind(p, ech_program_operand(p, root, k));
        if (hero != ECH_NONE)
            return hero;
    }
    return ECH_NONE;
}

/* A dynamic-slice of the array that the root changes, which reads just what is changed: the same place, or one element. */
static bool reads_what_changes(const Walk *w, const EchInstruction *slice)
{
    const EchProgram *p = w->p;
    const EchInstruction *update = &p->instructions[w->real];
    if (update->opcode != ECH_HLO_DYNAMIC_UPDATE_SLICE || update->n_operands != slice->n_operands + 1 ||
        ech_program_operand(p, update, 0) != ech_program_operand(p, slice, 0) ||
        !same_array(p, slice->shape, p->instructions[ech_program_operand(p, update, 1)].shape))
        return false;
    bool same = true;
    for (uint32_t o = 1; o < slice->n_operands && same; o++)
        same = ech_program_operand(p, slice, o) == ech_program_operand(p, update, o + 1);
    return same || p->shapes[slice->shape].count == 1;
}

/* May the walk go from @x through @user? */
static bool step_allowed(const Walk *w, EchId x, EchId user)
{
    const EchProgram *p = w->p;
    const EchInstruction *i = &p->instructions[user];
    EchHlo opcode = (EchHlo)i->opcode;
    if (opcode == ECH_HLO_BITCAST || opcode == ECH_HLO_TUPLE || ech_hlo_is_elementwise(opcode))
        return true;
    if (opcode == ECH_HLO_DYNAMIC_UPDATE_SLICE && i->n_operands > 1) {
        for (uint32_t k = 1; k < i->n_operands; k++)
            if (ech_program_operand(p, i, k) == x && (k != 1 || user != w->real))
                return false;
        return true;
    }
    if (opcode == ECH_HLO_DYNAMIC_SLICE && i->n_operands > 0)
        return reads_what_changes(w, i);
    if (opcode == ECH_HLO_SCATTER && user == w->real)
        return i->n_operands > 0 && ech_program_operand(p, i, 0) == x;
    return false;
}

static GArray **body_users(const EchProgram *p, const EchComputation *body)
{
    GArray **users = g_new0(GArray *, body->n + 1);
    for (uint32_t k = 0; k < body->n; k++) {
        const EchInstruction *i = &p->instructions[body->first + k];
        for (uint32_t o = 0; o < i->n_operands; o++) {
            EchId user = body->first + k, operand = ech_program_operand(p, i, o) - body->first;
            if (!users[operand])
                users[operand] = g_array_new(FALSE, FALSE, sizeof(EchId));
            if (users[operand]->len == 0 || g_array_index(users[operand], EchId, users[operand]->len - 1) != user)
                g_array_append_val(users[operand], user);
        }
    }
    return users;
}

static bool walk_fusion(Walk *w, EchId parameter)
{
    const EchProgram *p = w->p;
    g_autofree bool *seen = g_new0(bool, w->body->n + 1);
    g_autoptr(GArray) queue = g_array_new(FALSE, FALSE, sizeof(EchId));
    bool found = false, others = false, moved = false;
    g_array_append_val(queue, parameter);
    seen[parameter - w->body->first] = true;
    for (guint at = 0; at < queue->len; at++) {
        EchId x = g_array_index(queue, EchId, at);
        EchHlo opcode = (EchHlo)p->instructions[x].opcode;
        if (is_output(p, w->body, x)) {
            found |= x == w->output;
            others |= x != w->output;
            moved |= opcode == ECH_HLO_TRANSPOSE || opcode == ECH_HLO_COPY;
        }
        const GArray *users = w->users[x - w->body->first];
        for (guint k = 0; users && k < users->len; k++) {
            EchId user = g_array_index(users, EchId, k);
            if (seen[user - w->body->first])
                continue;
            /* The hero has read all of its input before any other output is written. */
            if (user == w->hero)
                continue;
            if (!step_allowed(w, x, user))
                return false;
            seen[user - w->body->first] = true;
            g_array_append_val(queue, user);
        }
    }
    if (!found)
        return false;
    return !others || (!moved && ech_hlo_is_elementwise((EchHlo)p->instructions[w->real].opcode));
}

/* A fused sort works in place like a sort: operand k may become result k where nothing else reads it. */
static bool fused_sort_may_share(const EchProgram *p, const EchComputation *body, uint32_t number, uint32_t member)
{
    const EchInstruction *sort = &p->instructions[body->root];
    if (member >= sort->n_operands)
        return false;
    EchId parameter = ech_program_operand(p, sort, member);
    if (p->instructions[parameter].opcode != ECH_HLO_PARAMETER || p->instructions[parameter].number != number)
        return false;
    uint32_t uses = 0;
    for (uint32_t k = 0; k < body->n; k++) {
        const EchInstruction *i = &p->instructions[body->first + k];
        for (uint32_t o = 0; o < i->n_operands; o++)
            uses += ech_program_operand(p, i, o) == parameter;
    }
    return uses == 1;
}

static bool fusion_may_share(const EchProgram *p, EchId user, uint32_t result, EchId operand)
{
    const EchInstruction *fusion = &p->instructions[user];
    uint32_t number = 0;
    if (fusion->n_called == 0 || places_of(p, fusion, operand, &number) == 0)
        return false;
    EchId out_shape = ech_program_subshape(p, fusion->shape, result), in_shape = p->instructions[operand].shape;
    const EchLayout *out = ech_program_layout(p, out_shape), *in = ech_program_layout(p, in_shape);
    if (!out || !in || p->shapes[out_shape].count != p->shapes[in_shape].count || out->bits != in->bits)
        return false;
    const EchComputation *body = &p->computations[ech_program_called(p, fusion, 0)];
    uint32_t member = member_of(p, fusion->shape, result);
    const EchInstruction *root = &p->instructions[body->root];
    if (member != ECH_NONE && root->opcode == ECH_HLO_SORT)
        return fused_sort_may_share(p, body, number, member);
    if (member == ECH_NONE || (p->shapes[fusion->shape].is_tuple && (root->opcode != ECH_HLO_TUPLE || member >= root->n_operands)))
        return false;
    Walk w = {.p = p, .body = body, .hero = ECH_NONE};
    w.output = p->shapes[fusion->shape].is_tuple ? ech_program_operand(p, root, member) : body->root;
    w.real = w.output;
    if (p->instructions[w.real].opcode == ECH_HLO_BITCAST && p->instructions[w.real].n_operands > 0)
        w.real = ech_program_operand(p, &p->instructions[w.real], 0);
    if (fusion->fusion_kind == 'I')
        w.hero = find_hero(p, body);
    EchId parameter = ECH_NONE;
    for (uint32_t k = 0; k < body->n && parameter == ECH_NONE; k++) {
        if (p->instructions[body->first + k].opcode == ECH_HLO_PARAMETER && p->instructions[body->first + k].number == number)
            parameter = body->first + k;
    }
    if (parameter == ECH_NONE)
        return false;
    w.users = body_users(p, body);
    bool ok = walk_fusion(&w, parameter);
    for (uint32_t k = 0; k < body->n; k++)
        g_clear_pointer(&w.users[k], g_array_unref);
    g_free(w.users);
    return ok;
}

/* Announced by the TPU compiler: a list of operand and result numbers that share a buffer. -1: nothing announced; else whether this pair is. */
static int announced(const EchProgram *p, const EchInstruction *user, uint32_t number, uint32_t member)
{
    size_t n;
    const char *text = ech_program_config(user, "aliasing_operands.lists", &n);
    (void)p;
    if (!text)
        return -1;
    const char *end = text + n;
    while (text < end) {
        const char *open = memchr(text + 1, '[', (size_t)(end - text - 1));
        const char *close = open ? memchr(open, ']', (size_t)(end - open)) : NULL;
        if (!close)
            break;
        int64_t numbers[256];
        size_t count = MIN(ech_program_numbers(open, (size_t)(close - open), numbers, G_N_ELEMENTS(numbers)), G_N_ELEMENTS(numbers));
        bool in = false, out = false;
        for (size_t k = 0; k < count; k++) {
            in |= numbers[k] == number;
            out |= numbers[k] == (int64_t)user->n_operands + member;
        }
        if (in && out)
            return 1;
        text = close;
    }
    return 0;
}

static bool sort_may_share(const EchProgram *p, EchId user, uint32_t result, EchId operand, const uint32_t *n_users)
{
    const EchInstruction *sort = &p->instructions[user];
    uint32_t number = 0;
    return n_users[operand] == 1 && places_of(p, sort, operand, &number) == 1 && member_of(p, sort->shape, result) == number;
}

bool ech_program_may_share(const EchProgram *p, EchId user, uint32_t result, EchId operand, const uint32_t *n_users)
{
    const EchInstruction *u = &p->instructions[user], *o = &p->instructions[operand];
    uint32_t number = 0, places = places_of(p, u, operand, &number);
    if (places == 0 || u->opcode == ECH_HLO_COPY || o->opcode == ECH_HLO_CONSTANT)
        return false;
    if (p->platform == ECH_PLATFORM_TPU) {
        uint32_t member = member_of(p, u->shape, result);
        int told = member == ECH_NONE ? 0 : announced(p, u, number, member);
        if (told > 0)
            return true;
        if (told == 0 || u->opcode == ECH_HLO_FUSION || u->opcode == ECH_HLO_SORT || u->opcode == ECH_HLO_ALL_REDUCE)
            return false;
    }
    if (is_must_share(p, user, result, operand))
        return true;
    switch ((int)u->opcode) {
    case ECH_HLO_WHILE:
    case ECH_HLO_CONDITIONAL: return true;
    case ECH_HLO_SORT: return sort_may_share(p, user, result, operand, n_users);
    case ECH_HLO_DYNAMIC_UPDATE_SLICE: return places == 1 && number == 0;
    case ECH_HLO_SCATTER: return places == 1 && number == 0 && result == 0;
    case ECH_HLO_FUSION: return p->platform == ECH_PLATFORM_GPU && fusion_may_share(p, user, result, operand);
    case ECH_HLO_ALL_REDUCE: /* NCCL's can be in place: XLA's hint for GPUs */
        return p->platform == ECH_PLATFORM_GPU && places == 1 && (u->n_operands == 1 || member_of(p, u->shape, result) == number);
    default: return ech_hlo_is_elementwise((EchHlo)u->opcode) && same_array(p, u->shape, o->shape);
    }
}
