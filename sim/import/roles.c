#include "sim/import/roles.h"

#include "sim/base/compare.h"
#include "sim/base/hash.h"
#include "sim/trace/ranges.h"
#include "sim/trace/step.h"

#include <stdio.h>
#include <string.h>

enum { IN_MODULE = 1, IN_BACKWARD = 2, IN_OPTIMIZER = 4, IN_HOOK = 8, LOOKED_AT = 16 }; /* IN_HOOK: an optimizer's, of a gradient */

/* Of a buffer. */
typedef struct {
    EchId alloc, free;   /* Ops, or ECH_NONE. */
    EchId maker, reader; /* Stacks of the first op that writes it; of the first in a module's forward that reads it. */
    uint8_t made, read;  /* Where: of the first that writes it; of all that read it. */
    uint8_t let_go;      /* Where both what runs before it is freed and what runs behind that are. */
    bool any;            /* It is used at all. */
    bool stepped;        /* By an optimizer. */
    bool given;          /* To a module, by the program. */
    uint32_t owner;      /* The optimizer that writes it, or UINT32_MAX. */
} Life;

typedef struct {
    EchTraceBuilder *builder;
    GByteArray *places; /* Per string: where a stack says that an op is. */
    uint8_t *of_ops;    /* Per op, if it uses anything: where it is; per FREE: where what uses anything behind it is. */
    Life *lives;
    GArray *steps;       /* EchId: the first op of each step of an optimizer; of several, of the one that ends the program's. */
    EchId first_forward; /* The first op within a module, */
    EchId last_forward;  /* and the last; ECH_NONE both. */
} Roles;

static uint8_t place_of(Roles *r, EchId stack)
{
    if (stack == ECH_NONE)
        return 0;
    while (r->places->len <= stack)
        g_byte_array_append(r->places, (const guint8 *)"", 1);
    if (r->places->data[stack] == 0) {
        const char *text = ech_trace_builder_peek_string(r->builder, stack);
        if (ech_stack_steps_in_backward(text))
            r->places->data[stack] = LOOKED_AT | IN_OPTIMIZER | IN_HOOK;
        else
            r->places->data[stack] = (uint8_t)(LOOKED_AT | (ech_stack_has_module(text) ? IN_MODULE : 0) | (ech_stack_is_backward(text) ? IN_BACKWARD : 0) |
                                               (ech_stack_is_optimizer(text) ? IN_OPTIMIZER : 0));
    }
    return r->places->data[stack];
}

static void note_use(Life *life, const EchOp *op, const EchUse *use, uint8_t place)
{
    bool forward = (place & (IN_MODULE | IN_BACKWARD)) == IN_MODULE;
    life->any = true;
    life->stepped |= (place & IN_OPTIMIZER) != 0;
    if (use->access == ECH_WRITE && life->maker == ECH_NONE) {
        life->maker = op->stack;
        life->made = place;
    }
    if (use->access == ECH_READ) {
        life->read |= place;
        if (forward && life->reader == ECH_NONE)
            life->reader = op->stack;
    }
}

/* Whether an op uses anything. */
static bool works(const EchOp *op)
{
    return op->kind == ECH_OP_KERNEL || op->kind == ECH_OP_COPY || op->kind == ECH_OP_COLLECTIVE;
}

static void place_ops(Roles *r)
{
    bool before_backward = false;
    uint8_t next = 0;
    for (EchId i = (EchId)ech_trace_builder_n_ops(r->builder); i-- > 0;) {
        const EchOp *op = ech_trace_builder_peek_op(r->builder, i);
        if (!works(op)) {
            r->of_ops[i] = op->kind == ECH_OP_FREE ? next : 0;
            continue;
        }
        uint8_t place = place_of(r, op->stack);
        bool before = ech_stack_before_backward(place & IN_MODULE, place & IN_BACKWARD, place & IN_OPTIMIZER, &before_backward);
        if (place & (IN_MODULE | IN_BACKWARD) || (before && !(place & IN_HOOK)))
            place &= (uint8_t)~IN_OPTIMIZER;
        r->of_ops[i] = next = place;
    }
}

static void walk(Roles *r)
{
    bool forward = true; /* since the step before: steps with none in between are one of the program's */
    uint8_t last = 0;
    for (EchId i = 0; i < ech_trace_builder_n_ops(r->builder); i++) {
        const EchOp *op = ech_trace_builder_peek_op(r->builder, i);
        if (op->kind == ECH_OP_ALLOC)
            r->lives[op->target].alloc = i;
        if (op->kind == ECH_OP_FREE) {
            r->lives[op->target].free = i;
            r->lives[op->target].let_go = last & r->of_ops[i];
        }
        if (!works(op))
            continue;
        uint8_t place = last = r->of_ops[i];
        if ((place & IN_OPTIMIZER) && forward) {
            g_array_append_val(r->steps, i);
            forward = false;
        }
        forward |= (place & (IN_MODULE | IN_BACKWARD)) == IN_MODULE || (r->first_forward == ECH_NONE && !(place & IN_OPTIMIZER));
        if ((place & IN_MODULE) && r->first_forward == ECH_NONE)
            r->first_forward = i;
        if (place & IN_MODULE)
            r->last_forward = i;
        for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
            const EchUse *use = ech_trace_builder_peek_use(r->builder, u);
            note_use(&r->lives[use->buffer], op, use, place);
        }
    }
}

/* Whose optimizer's step [begin, end) begins with: the first that anything it writes has, or else @fresh. All that it writes is that one's then. */
static uint32_t owner_of(Roles *r, EchId begin, EchId end, uint32_t fresh)
{
    uint32_t owner = UINT32_MAX;
    for (int pass = 0; pass < 2; pass++) {
        for (EchId i = begin; i < end; i++) {
            const EchOp *op = ech_trace_builder_peek_op(r->builder, i);
            for (uint32_t u = op->first_use; (r->of_ops[i] & IN_OPTIMIZER) && u < op->first_use + op->n_uses; u++) {
                const EchUse *use = ech_trace_builder_peek_use(r->builder, u);
                uint32_t *of = &r->lives[use->buffer].owner;
                if (use->access == ECH_WRITE && pass > 0)
                    *of = owner;
                else if (use->access == ECH_WRITE && owner == UINT32_MAX)
                    owner = *of;
            }
        }
        owner = owner == UINT32_MAX ? fresh : owner;
    }
    return owner;
}

/* Of several optimizers (a GAN's, say) that step in turn, only the steps of the one that ends a step of the program stay. */
static void keep_steps_of_program(Roles *r)
{
    g_autoptr(GArray) of = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    uint32_t n = 0;
    for (guint k = 0; k < r->steps->len; k++) {
        EchId end = k + 1 < r->steps->len ? g_array_index(r->steps, EchId, k + 1) : (EchId)ech_trace_builder_n_ops(r->builder);
        uint32_t owner = owner_of(r, g_array_index(r->steps, EchId, k), end, n);
        n += owner == n;
        if (n > ECH_MAX_OPTIMIZERS)
            return;
        g_array_append_val(of, owner);
    }
    uint32_t one = ech_steps_of_program((const uint32_t *)(const void *)of->data, of->len);
    guint kept = 0;
    for (guint k = 0; one != UINT32_MAX && k < of->len; k++)
        if (g_array_index(of, uint32_t, k) == one)
            g_array_index(r->steps, EchId, kept++) = g_array_index(r->steps, EchId, k);
    if (one != UINT32_MAX)
        g_array_set_size(r->steps, kept);
}

/* The first step that begins after @op; steps->len if none does. */
static guint step_after(const GArray *steps, EchId op)
{
    guint low = 0, high = steps->len;
    ECH_SEARCH(low, high, middle, g_array_index(steps, EchId, middle) <= op);
    return low;
}

static bool is_state(const Roles *r, const Life *life)
{
    bool stays = life->free == ECH_NONE;
    guint first = life->alloc == ECH_NONE ? 0 : step_after(r->steps, life->alloc);
    if (first + 1 < r->steps->len && (stays || life->free > g_array_index(r->steps, EchId, first + 1)))
        return true;
    if (stays && life->stepped)
        return true;
    /* What is let go behind the last module goes with the program, as with a server that is shut down. */
    bool before = r->first_forward != ECH_NONE && (life->alloc == ECH_NONE || life->alloc < r->first_forward);
    return before && r->steps->len < 2 && (stays || life->free > r->last_forward);
}

/* A server makes it within a range that may tell how many tokens it has room for. */
static bool is_cache(const Roles *r, const Life *life)
{
    const char *range = life->maker != ECH_NONE ? strstr(ech_trace_builder_peek_string(r->builder, life->maker), ECH_RANGE_CACHE) : NULL;
    uint64_t tokens;
    if (range && sscanf(range, ECH_RANGE_CACHE " of %" G_GUINT64_FORMAT " tokens", &tokens) == 1)
        ech_trace_builder_printf_property(r->builder, ECH_TRACE_SERVED_TOKENS, "%" G_GUINT64_FORMAT, tokens);
    return range != NULL;
}

static EchRole role_of(const Roles *r, const Life *life, bool state)
{
    bool backward = (life->made & IN_BACKWARD) != 0;
    if (is_cache(r, life))
        return ECH_ROLE_KV_CACHE;
    if (life->given && !(life->made & IN_MODULE) && !backward)
        return ECH_ROLE_INPUT;
    if (state)
        return backward ? ECH_ROLE_GRADIENT : life->read & IN_MODULE ? ECH_ROLE_PARAMETER : life->stepped ? ECH_ROLE_OPTIMIZER : ECH_ROLE_UNKNOWN;
    if (backward && life->stepped)
        return ECH_ROLE_GRADIENT;
    if (!backward && life->maker != ECH_NONE && !(life->made & IN_OPTIMIZER) && ((life->read | life->let_go) & IN_BACKWARD))
        return ECH_ROLE_ACTIVATION;
    return life->free != ECH_NONE && r->first_forward != ECH_NONE ? ECH_ROLE_TEMPORARY : ECH_ROLE_UNKNOWN;
}

/* Of state that neither modules nor optimizers use, what the program brings up to date by weights as large are copies of those: averages. */
static void find_copies(const Roles *r)
{
    g_autoptr(GHashTable) sizes = g_hash_table_new(ech_hash_int64, g_int64_equal); /* of the weights that an op uses */
    for (EchId i = 0; i < ech_trace_builder_n_ops(r->builder); i++) {
        const EchOp *op = ech_trace_builder_peek_op(r->builder, i);
        if (!works(op) || (r->of_ops[i] & (IN_MODULE | IN_BACKWARD | IN_OPTIMIZER)))
            continue;
        for (int copies = 0; copies < 2; copies++)
            for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
                EchId b = ech_trace_builder_peek_use(r->builder, u)->buffer;
                EchBuffer *buffer = ech_trace_builder_peek_buffer(r->builder, b);
                if (!copies && buffer->role == ECH_ROLE_PARAMETER && buffer->bytes > 0)
                    g_hash_table_add(sizes, &buffer->bytes);
                else if (copies && buffer->role == ECH_ROLE_UNKNOWN && g_hash_table_contains(sizes, &buffer->bytes) && is_state(r, &r->lives[b]))
                    buffer->role = ECH_ROLE_WEIGHT_COPY;
            }
        g_hash_table_remove_all(sizes);
    }
}

/* The innermost module of @stack, behind the buffer's own stack. */
static void add_module(EchTraceBuilder *builder, EchId buffer, EchId stack)
{
    const char *text = ech_trace_builder_peek_string(builder, stack), *module = strstr(text, ECH_RANGE_MODULE);
    const EchBuffer *b = ech_trace_builder_peek_buffer(builder, buffer);
    const char *known = ech_trace_builder_peek_string(builder, b->stack);
    if (!module || ech_stack_has_module(known))
        return;
    g_autofree char *line = g_strndup(module, strcspn(module, "\n")), *whole = *known ? g_strconcat(known, "\n", line, NULL) : g_strdup(line);
    EchId id = ech_trace_builder_string(builder, whole, -1);
    ech_trace_builder_peek_buffer(builder, buffer)->stack = id;
}

void ech_roles_infer(EchTraceBuilder *builder, const GArray *given)
{
    size_t n = ech_trace_builder_n_buffers(builder);
    g_autoptr(GByteArray) places = g_byte_array_new();
    g_autoptr(GArray) steps = g_array_new(FALSE, FALSE, sizeof(EchId));
    g_autofree Life *lives = g_new(Life, n + 1);
    for (size_t b = 0; b <= n; b++)
        lives[b] = (Life){.alloc = ECH_NONE, .free = ECH_NONE, .maker = ECH_NONE, .reader = ECH_NONE, .owner = UINT32_MAX};
    for (guint k = 0; k < given->len; k++)
        lives[g_array_index(given, EchId, k)].given = true;
    g_autofree uint8_t *of_ops = g_new0(uint8_t, ech_trace_builder_n_ops(builder) + 1);
    Roles r = {.builder = builder, .places = places, .of_ops = of_ops, .lives = lives, .steps = steps, .first_forward = ECH_NONE, .last_forward = ECH_NONE};
    place_ops(&r);
    walk(&r);
    keep_steps_of_program(&r);
    for (EchId b = 0; b < n; b++) {
        EchBuffer *buffer = ech_trace_builder_peek_buffer(builder, b);
        if (buffer->bytes == 0 || !lives[b].any || buffer->role != ECH_ROLE_UNKNOWN)
            continue;
        bool state = is_state(&r, &lives[b]);
        buffer->role = (uint8_t)role_of(&r, &lives[b], state);
        if (buffer->role != ECH_ROLE_KV_CACHE) /* all layers' */
            add_module(builder, b, state ? lives[b].reader : lives[b].maker);
    }
    find_copies(&r);
}
