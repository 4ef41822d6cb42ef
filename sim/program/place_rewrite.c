#include "sim/program/place_rewrite.h"

#include "sim/base/error.h"
#include "sim/base/hash.h"

#include <string.h>

enum { MAX_CHAIN = 64 };

/* A copy of a program under way. Ids of the old program are mapped to those of the new one. */
typedef struct {
    const EchProgram *p;
    EchProgramBuilder *b;
    EchId *map;          /* per instruction: the new one that stands for it */
    EchId *computations; /* per computation */
    int32_t fast;
} Writer;

static void writer_init(Writer *w, const EchProgram *p, int32_t fast)
{
    *w = (Writer){.p = p, .fast = fast};
    w->b = ech_program_builder_new(p->name);
    w->map = g_new(EchId, p->n_instructions + 1);
    w->computations = g_new(EchId, p->n_computations + 1);
    for (size_t i = 0; i < p->n_instructions; i++)
        w->map[i] = ECH_NONE;
    EchProgram *out = ech_program_builder_peek(w->b);
    out->platform = p->platform;
    out->tuple_granule = p->tuple_granule;
    out->scheduled = p->scheduled;
    out->replicas = p->replicas;
    out->partitions = p->partitions;
    out->unsplit = p->unsplit;
    for (guint i = 0; i < p->keep->len; i++)
        ech_program_builder_keep(w->b, p->keep->pdata[i]);
}

static void writer_done(Writer *w)
{
    ech_program_builder_free(w->b);
    g_free(w->map);
    g_free(w->computations);
}

static const EchShape *new_shape(const Writer *w, EchId shape)
{
    return &ech_program_builder_peek(w->b)->shapes[shape];
}

static EchId shape_of(const Writer *w, EchId instruction)
{
    return ech_program_builder_peek(w->b)->instructions[instruction].shape;
}

/* The same array in another memory; @shape is the new program's. */
static EchId in_space(Writer *w, EchId shape, int32_t space)
{
    const EchProgram *out = ech_program_builder_peek(w->b);
    if (out->shapes[shape].is_tuple || out->shapes[shape].layout == ECH_NONE)
        return shape;
    EchLayout layout = out->layouts[out->shapes[shape].layout];
    layout.space = space;
    return ech_program_builder_array(w->b, &layout);
}

/* An old shape in the new program. flags[leaf]: in the fast memory; NULL: nothing is, what was is not any more. */
static EchId copy_shape(Writer *w, EchId shape, const bool *flags, uint32_t *leaf, unsigned depth)
{
    const EchShape *s = &w->p->shapes[shape];
    if (!s->is_tuple) {
        EchLayout layout = w->p->layouts[s->layout];
        if (layout.space == w->fast)
            layout.space = ECH_SPACE_HBM;
        if (flags != NULL && flags[*leaf])
            layout.space = w->fast;
        (*leaf)++;
        return ech_program_builder_array(w->b, &layout);
    }
    g_autofree EchId *members = g_new(EchId, MAX(s->n_elements, 1));
    for (uint32_t k = 0; k < s->n_elements; k++)
        members[k] = depth < MAX_CHAIN ? copy_shape(w, w->p->elements[s->first_element + k], flags, leaf, depth + 1) : 0;
    return ech_program_builder_tuple(w->b, members, s->n_elements);
}

static bool on_chip(const EchShape *shape)
{
    return !shape->is_tuple && (shape->space == ECH_SPACE_VECTOR || shape->space == ECH_SPACE_COMMON);
}

/* Which arrays of an instruction lie on chip: EchInstruction.compiled. */
static uint64_t compiled_places(const EchProgram *p, const EchInstruction *i)
{
    uint64_t bits = UINT64_C(1) << 63;
    for (uint32_t k = 0; k < MIN(i->n_operands, 32); k++)
        bits |= (uint64_t)on_chip(&p->shapes[p->instructions[ech_program_operand(p, i, k)].shape]) << k;
    const EchShape *shape = &p->shapes[i->shape];
    for (uint32_t l = 0; l < (shape->is_tuple ? MIN(shape->n_elements, 31) : 1); l++)
        bits |= (uint64_t)on_chip(shape->is_tuple ? &p->shapes[p->elements[shape->first_element + l]] : shape) << (32 + l);
    return bits;
}

/* An instruction like @from with another shape; operands follow. */
static EchId write_like(Writer *w, const EchInstruction *from, EchId shape)
{
    EchInstruction i = *from;
    if (i.compiled == 0)
        i.compiled = compiled_places(w->p, from);
    i.shape = shape;
    i.name = ech_program_builder_string(w->b, from->name, -1);
    i.opcode_name = ech_program_builder_string(w->b, from->opcode_name, -1);
    i.op_name = from->op_name != NULL ? ech_program_builder_string(w->b, from->op_name, -1) : NULL;
    i.source = from->source != NULL ? ech_program_builder_string(w->b, from->source, -1) : NULL;
    i.target = from->target != NULL ? ech_program_builder_string(w->b, from->target, -1) : NULL;
    i.attributes = from->attributes_n > 0 ? ech_program_builder_string(w->b, from->attributes, (gssize)from->attributes_n) : from->attributes;
    return ech_program_builder_instruction(w->b, i);
}

static EchId write_new(Writer *w, EchHlo opcode, const char *opcode_name, const char *name, EchId shape)
{
    EchInstruction i = {.opcode = (uint16_t)opcode, .shape = shape};
    i.name = ech_program_builder_string(w->b, name, -1);
    i.opcode_name = ech_program_builder_string(w->b, opcode_name != NULL ? opcode_name : ech_hlo_name(opcode), -1);
    return ech_program_builder_instruction(w->b, i);
}

static void write_links(Writer *w, const EchInstruction *i)
{
    for (uint32_t k = 0; k < i->n_called; k++)
        ech_program_builder_called(w->b, w->computations[ech_program_called(w->p, i, k)]);
    for (uint32_t k = 0; k < i->n_control; k++) {
        EchId before = w->map[w->p->control[i->first_control + k]];
        if (before != ECH_NONE)
            ech_program_builder_control(w->b, before);
    }
}

static EchProgram *finish(Writer *w, EchDiag *diag, GError **error)
{
    EchProgram *out = ech_program_builder_peek(w->b);
    out->entry = w->computations[w->p->entry];
    for (size_t d = 0; d < w->p->n_donations; d++)
        ech_program_builder_donation(w->b, w->p->donations[d]);
    ech_program_set_kernels_for(out, w->p->kernels_for);
    return ech_program_builder_finish(w->b, w->p->chip, diag, error);
}

/* ---- strip ---- */

typedef enum { PLAIN, GONE, VIEW, SLICE } Fate; /* as it is; taken out; taken out, another stands for it; a synchronous slice again */

typedef struct {
    Fate fate;
    EchId source;                /* VIEW: what stands for it; SLICE: the async start */
    const EchInstruction *inner; /* SLICE */
} Doom;

static int32_t space_of(const EchProgram *p, EchId shape)
{
    return p->shapes[shape].is_tuple ? -1 : p->shapes[shape].space;
}

static bool between(int32_t a, int32_t b, int32_t fast)
{
    return (a == fast && b == ECH_SPACE_HBM) || (a == ECH_SPACE_HBM && b == fast) || (a == fast && b == fast);
}

static const EchInstruction *operand_of(const EchProgram *p, const EchInstruction *i, uint32_t k)
{
    return &p->instructions[ech_program_operand(p, i, k)];
}

/* The slice inside an asynchronous computation that does nothing else, or NULL. */
static const EchInstruction *inner_slice(const EchProgram *p, const EchInstruction *start)
{
    if (start->n_called == 0)
        return NULL;
    const EchComputation *c = &p->computations[ech_program_called(p, start, 0)];
    const EchInstruction *found = NULL;
    for (uint32_t k = 0; k < c->n; k++) {
        const EchInstruction *i = &p->instructions[c->first + k];
        if (i->opcode == ECH_HLO_PARAMETER)
            continue;
        if (found != NULL || (i->opcode != ECH_HLO_SLICE && i->opcode != ECH_HLO_DYNAMIC_SLICE))
            return NULL;
        found = i;
    }
    return found;
}

static bool is_slice_start(const EchProgram *p, const EchInstruction *i, int32_t fast)
{
    if (i->opcode != ECH_HLO_ASYNC_START || i->n_operands == 0 || p->shapes[i->shape].n_elements < 2)
        return false;
    EchId to = p->elements[p->shapes[i->shape].first_element + 1];
    bool slices =
        inner_slice(p, i) != NULL || (i->n_called == 0 && (g_str_has_prefix(i->opcode_name, "slice") || g_str_has_prefix(i->opcode_name, "dynamic-slice")));
    return slices && between(space_of(p, operand_of(p, i, 0)->shape), space_of(p, to), fast);
}

static bool crosses(const EchProgram *p, const EchInstruction *start, int32_t fast)
{
    const EchShape *s = &p->shapes[start->shape];
    if (start->opcode != ECH_HLO_COPY_START || s->n_elements < 2 || start->n_operands == 0)
        return false;
    return between(space_of(p, p->elements[s->first_element]), space_of(p, p->elements[s->first_element + 1]), fast);
}

/* Inside the body of an asynchronous computation: what it makes is its start's. */
static bool in_async(const EchProgram *p, const EchInstruction *i)
{
    EchId caller = p->computations[i->computation].caller;
    return caller != ECH_NONE && (p->instructions[caller].opcode == ECH_HLO_ASYNC_START || p->instructions[caller].opcode == ECH_HLO_ASYNC_UPDATE);
}

/* Arrays that a kernel makes in the fast memory. */
static void count_made(const EchProgram *p, const EchInstruction *i, int32_t fast, EchPlaceCounts *counts)
{
    switch ((int)i->opcode) {
    case ECH_HLO_PARAMETER:
    case ECH_HLO_TUPLE:
    case ECH_HLO_GET_TUPLE_ELEMENT:
    case ECH_HLO_BITCAST:
    case ECH_HLO_WHILE:
    case ECH_HLO_CONDITIONAL:
    case ECH_HLO_COPY_START:
    case ECH_HLO_COPY_DONE:
    case ECH_HLO_ASYNC_START:
    case ECH_HLO_ASYNC_UPDATE:
    case ECH_HLO_ASYNC_DONE: return;
    default: break;
    }
    for (uint32_t q = 0; !in_async(p, i) && q < p->shapes[i->shape].n_positions; q++) {
        EchId shape = ech_program_subshape(p, i->shape, q);
        if (space_of(p, shape) != fast)
            continue;
        counts->kept++;
        counts->kept_bytes = ech_bytes_add(counts->kept_bytes, p->shapes[shape].bytes);
    }
}

static Doom *doom(const EchProgram *p, int32_t fast, EchPlaceCounts *counts)
{
    Doom *dooms = g_new0(Doom, p->n_instructions + 1);
    g_autofree bool *apart = g_new0(bool, p->n_instructions + 1);   /* a slice that someone reads by itself */
    g_autofree bool *carried = g_new0(bool, p->n_instructions + 1); /* a start that a loop hands to its next iteration, which waits for it */
    for (size_t id = 0; id < p->n_instructions; id++) {
        const EchInstruction *i = &p->instructions[id];
        for (uint32_t k = 0; k < i->n_operands; k++) {
            apart[ech_program_operand(p, i, k)] |= !ech_program_joins_slices(i);
            carried[ech_program_operand(p, i, k)] |= i->opcode != ECH_HLO_ASYNC_DONE && i->opcode != ECH_HLO_COPY_DONE;
        }
    }
    for (size_t id = 0; id < p->n_instructions; id++) {
        const EchInstruction *i = &p->instructions[id];
        size_t n;
        if (i->schedule == ECH_NONE || (i->n_operands == 0 && !p->shapes[i->shape].is_tuple && space_of(p, i->shape) != fast))
            continue;
        bool waits = i->opcode == ECH_HLO_ASYNC_DONE || i->opcode == ECH_HLO_COPY_DONE;
        if ((waits && carried[ech_program_operand(p, i, 0)]) || ((i->opcode == ECH_HLO_ASYNC_START || i->opcode == ECH_HLO_COPY_START) && carried[id]))
            continue;
        if (crosses(p, i, fast)) {
            dooms[id].fate = GONE;
            EchId to = p->elements[p->shapes[i->shape].first_element];
            bool in = space_of(p, to) == fast, early = ech_program_attribute(i, "cross_program_prefetch_index", &n) != NULL;
            *(early ? &counts->cross_program : in ? &counts->prefetches : &counts->evictions) += 1;
            EchBytes *sum = early ? &counts->cross_program_bytes : in ? &counts->prefetched : &counts->evicted;
            *sum = ech_bytes_add(*sum, p->shapes[to].bytes);
        } else if (i->opcode == ECH_HLO_COPY_DONE && crosses(p, operand_of(p, i, 0), fast))
            dooms[id] = (Doom){VIEW, ech_program_operand(p, operand_of(p, i, 0), 0), NULL};
        else if (is_slice_start(p, i, fast)) {
            dooms[id].fate = GONE;
            counts->prefetched = ech_bytes_add(counts->prefetched, p->shapes[p->elements[p->shapes[i->shape].first_element + 1]].bytes);
        } else if (i->opcode == ECH_HLO_ASYNC_DONE && is_slice_start(p, operand_of(p, i, 0), fast)) {
            EchId start = ech_program_operand(p, i, 0);
            dooms[id] = apart[id] ? (Doom){SLICE, start, inner_slice(p, &p->instructions[start])} : (Doom){GONE, ECH_NONE, NULL};
            counts->prefetches += apart[id];
        } else if (ech_program_joins_slices(i) && i->n_operands > 0) {
            const EchInstruction *done = operand_of(p, i, 0);
            const EchInstruction *start = done->opcode == ECH_HLO_ASYNC_DONE ? operand_of(p, done, 0) : NULL;
            if (start == NULL || !is_slice_start(p, start, fast))
                continue;
            /* Pieces of a fixed size are cut from a view of bytes. */
            EchId source = ech_program_operand(p, start, 0);
            while (p->instructions[source].opcode == ECH_HLO_BITCAST && p->instructions[source].n_operands > 0 &&
                   p->shapes[p->instructions[source].shape].count != p->shapes[i->shape].count)
                source = ech_program_operand(p, &p->instructions[source], 0);
            dooms[id] = (Doom){VIEW, source, NULL};
            counts->prefetches++;
            counts->sliced++;
        } else
            count_made(p, i, fast, counts);
    }
    return dooms;
}

/* Computations that are still called. */
static bool *reachable(const EchProgram *p, const Doom *dooms)
{
    bool *used = g_new0(bool, p->n_computations + 1);
    g_autoptr(GArray) todo = g_array_new(FALSE, FALSE, sizeof(EchId));
    g_array_append_val(todo, p->entry);
    used[p->entry] = true;
    while (todo->len > 0) {
        EchId c = g_array_index(todo, EchId, todo->len - 1);
        g_array_set_size(todo, todo->len - 1);
        for (uint32_t k = 0; k < p->computations[c].n; k++) {
            const EchInstruction *i = &p->instructions[p->computations[c].first + k];
            for (uint32_t j = 0; dooms[p->computations[c].first + k].fate == PLAIN && j < i->n_called; j++) {
                EchId called = ech_program_called(p, i, j);
                if (!used[called])
                    g_array_append_val(todo, called);
                used[called] = true;
            }
        }
    }
    return used;
}

static void open_computations(Writer *w, const bool *used)
{
    EchId n = 0;
    for (size_t c = 0; c < w->p->n_computations; c++)
        w->computations[c] = used == NULL || used[c] ? n++ : ECH_NONE;
}

static void open_computation(Writer *w, EchId c)
{
    const EchComputation *from = &w->p->computations[c];
    EchId made = ech_program_builder_computation(w->b, ech_program_builder_string(w->b, from->name, -1));
    if (from->thread != NULL)
        ech_program_builder_peek(w->b)->computations[made].thread = ech_program_builder_string(w->b, from->thread, -1);
}

static EchId stripped_operand(Writer *w, const Doom *dooms, EchId id)
{
    for (unsigned depth = 0; depth < 1u << 20 && dooms[id].fate == VIEW && w->map[id] == ECH_NONE; depth++)
        id = dooms[id].source;
    return w->map[id];
}

EchPlaceCounts ech_place_count(const EchProgram *program, int32_t fast)
{
    EchPlaceCounts counts = {0};
    g_free(doom(program, fast, &counts));
    return counts;
}

EchProgram *ech_place_strip(const EchProgram *program, int32_t fast, EchDiag *diag, GError **error)
{
    const EchProgram *p = program;
    EchPlaceCounts counts = {0};
    g_autofree Doom *dooms = doom(p, fast, &counts);
    g_autofree bool *used = reachable(p, dooms);
    Writer writer, *w = &writer;
    writer_init(w, p, fast);
    open_computations(w, used);
    bool ok = true;
    for (EchId c = 0; ok && c < p->n_computations; c++) {
        if (!used[c])
            continue;
        open_computation(w, c);
        for (uint32_t k = 0; ok && k < p->computations[c].n; k++) {
            EchId id = p->computations[c].first + k;
            const EchInstruction *i = &p->instructions[id];
            uint32_t leaf = 0;
            if (dooms[id].fate == GONE)
                continue;
            EchId shape = copy_shape(w, i->shape, NULL, &leaf, 0);
            if (dooms[id].fate == VIEW) {
                EchId source = stripped_operand(w, dooms, dooms[id].source);
                if (source == ECH_NONE) {
                    ok = false;
                    break;
                }
                bool same = shape_of(w, source) == shape;
                if (same && !i->is_root)
                    continue;
                w->map[id] =
                    write_like(w, &(EchInstruction){.opcode = ECH_HLO_BITCAST, .name = i->name, .opcode_name = "bitcast", .is_root = i->is_root}, shape);
                ech_program_builder_operand(w->b, source);
                continue;
            }
            if (dooms[id].fate == SLICE) {
                const EchInstruction *start = &p->instructions[dooms[id].source], *inner = dooms[id].inner != NULL ? dooms[id].inner : start;
                EchInstruction slice = *inner;
                slice.opcode = inner == start ? (g_str_has_prefix(start->opcode_name, "dynamic") ? ECH_HLO_DYNAMIC_SLICE : ECH_HLO_SLICE) : inner->opcode;
                slice.opcode_name = ech_hlo_name((EchHlo)slice.opcode);
                slice.name = i->name;
                slice.is_root = i->is_root;
                w->map[id] = write_like(w, &slice, shape);
                for (uint32_t o = 0; ok && o < start->n_operands; o++) {
                    EchId operand = stripped_operand(w, dooms, ech_program_operand(p, start, o));
                    ok = operand != ECH_NONE;
                    if (ok)
                        ech_program_builder_operand(w->b, operand);
                }
                continue;
            }
            w->map[id] = write_like(w, i, shape);
            for (uint32_t o = 0; ok && o < i->n_operands; o++) {
                EchId operand = stripped_operand(w, dooms, ech_program_operand(p, i, o));
                ok = operand != ECH_NONE;
                if (ok)
                    ech_program_builder_operand(w->b, operand);
            }
            write_links(w, i);
        }
    }
    EchProgram *out = NULL;
    if (ok)
        out = finish(w, diag, error);
    else
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "%s: a copy between HBM and the fast memory is used in a way that cannot be undone", p->name);
    writer_done(w);
    return out;
}

/* ---- apply ---- */

typedef struct {
    uint32_t leaf, stay;
} Replaced;

typedef struct {
    Writer writer;
    const EchPlaceProblem *problem;
    const EchMsaProblem *m;
    const EchFlow *flow;
    const EchMsaResult *r;
    GHashTable *replaced;     /* use_key() -> GArray of Replaced */
    GArray **starts, **dones; /* per step + 1, of stays (and slices): what begins after, ends before */
    GArray **begins;          /* per computation: starts before its first instruction that is no parameter */
    uint32_t *source;         /* per stay: the stay it copies, or ECH_PLACE_NONE: where the value is defined */
    EchId *made;              /* per stay: the array that holds it, in the new program */
    EchId **parts;            /* per stay: slice starts */
    bool *fast;               /* per leaf of a step */
    uint64_t *places;         /* per leaf of a step that is fast: offset */
    bool *needed;             /* per instruction */
    bool *converted;          /* per step: a synchronous copy or slice that a prefetch replaces */
    GHashTable *offsets;      /* new instruction << 20 | position -> 1 + offset */
    uint32_t *names;          /* per instruction: copies made of it */
} Apply;

typedef struct {
    uint32_t stay, slice;
} Start;

static bool moves(const EchMsaStay *stay)
{
    return stay->kind == ECH_MSA_COPIED || stay->kind == ECH_MSA_SLICED;
}

static void push(GArray **lists, size_t at, Start start)
{
    if (lists[at] == NULL)
        lists[at] = g_array_new(FALSE, FALSE, sizeof(Start));
    g_array_append_val(lists[at], start);
}

static gpointer use_key(uint32_t step, uint32_t operand)
{
    return GSIZE_TO_POINTER(((gsize)step << 24 | (operand & 0xffffff)) + 1);
}

static void note_offset(Apply *a, EchId instruction, uint32_t position, uint64_t offset)
{
    g_hash_table_insert(a->offsets, GSIZE_TO_POINTER((gsize)instruction << 20 | (position & 0xfffff)), GSIZE_TO_POINTER((gsize)offset + 1));
}

static void follow(Apply *a, const bool *decided, uint32_t step, uint32_t leaf, const EchMsaStay *stay)
{
    if (leaf >= a->problem->instructions[step].n_leaves)
        return;
    leaf += a->flow->leaf_start[step];
    if (decided[leaf])
        return;
    a->fast[leaf] = stay != NULL && stay->fast;
    a->places[leaf] = stay != NULL ? stay->offset : 0;
}

/* Arrays of loops and branches that nobody reads lie where what is handed to them lies. */
static void fill_unread(Apply *a, const bool *decided, const uint32_t *serving)
{
    const EchMsaProblem *m = a->m;
    for (uint32_t u = 0; u < m->n_uses; u++) {
        const EchFlowPlace *place = &a->flow->use_places[u];
        const EchFlowInstruction *in = &a->problem->instructions[place->step];
        if (in->op != ECH_FLOW_WHILE && in->op != ECH_FLOW_CONDITIONAL)
            continue;
        const EchMsaStay *stay = serving[u] != ECH_PLACE_NONE ? &a->r->stays[serving[u]] : NULL;
        for (uint32_t c = 0; c < in->n_called; c++) {
            const EchComputation *called = &a->writer.p->computations[in->called[c]];
            for (uint32_t t = called->begin; t < called->end; t++)
                if (a->problem->instructions[t].op == ECH_FLOW_PARAMETER && a->problem->instructions[t].computation == in->called[c] &&
                    (in->op == ECH_FLOW_WHILE || place->operand == c + 1))
                    follow(a, decided, t, place->leaf, stay);
        }
        if (in->op == ECH_FLOW_WHILE)
            follow(a, decided, place->step, place->leaf, stay);
    }
}

/* Where a copy begins and ends: in the computation of what waits for it. */
static void plan_copy(Apply *a, uint32_t s)
{
    const EchMsaProblem *m = a->m;
    const EchMsaStay *stay = &a->r->stays[s];
    /* The second stay of a cross-program prefetch fetches for the next run: nothing here reads it. */
    uint32_t until = (uint32_t)MIN(stay->copy_before, (int64_t)m->n_steps);
    uint32_t home = until < m->n_steps ? m->steps[until].computation : a->writer.p->entry;
    /* An eviction that ends inside a loop is over before the loop: only there is the array at hand. */
    uint32_t origin = stay->position != ECH_PLACE_NONE ? m->steps[m->positions[stay->position].step].computation : home;
    if (!stay->fast && origin != home) {
        uint32_t outside = until;
        while (outside < m->n_steps && m->steps[outside].computation != origin)
            outside++;
        if (outside < m->n_steps || origin == a->writer.p->entry) {
            until = outside;
            home = origin;
        }
    }
    for (uint32_t part = 0; part < MAX(stay->n_slices, 1); part++) {
        int64_t after = stay->n_slices > 0 ? (int64_t)(int32_t)a->r->slices[stay->first_slice + part].after : stay->copy_after;
        Start start = {s, part};
        while (after >= 0 && m->steps[after].computation != home)
            after--;
        if (after < 0)
            push(a->begins, home, start);
        else
            push(a->starts, (size_t)after, start);
    }
    push(a->dones, until, (Start){s, 0});
    if (stay->sync_step != ECH_PLACE_NONE)
        a->converted[stay->sync_step] = true;
}

/* Which operands read a copy. */
static void plan_readers(Apply *a, uint32_t s)
{
    const EchMsaStay *stay = &a->r->stays[s];
    for (uint32_t i = 0; i < stay->n_uses; i++) {
        uint32_t u = a->r->use_list[stay->first_use + i];
        const EchFlowPlace *place = &a->flow->use_places[u];
        const EchFlowInstruction *in = &a->problem->instructions[place->step];
        bool view = in->op == ECH_FLOW_TUPLE || in->op == ECH_FLOW_ELEMENT || in->op == ECH_FLOW_BITCAST;
        if (view && !in->root)
            continue;
        GArray *list = g_hash_table_lookup(a->replaced, use_key(place->step, place->operand));
        if (list == NULL) {
            list = g_array_new(FALSE, FALSE, sizeof(Replaced));
            g_hash_table_insert(a->replaced, use_key(place->step, place->operand), list);
        }
        Replaced entry = {place->leaf, s};
        g_array_append_val(list, entry);
    }
}

/* What each stay copies, which uses read a copy, where copies begin and end. */
static void plan(Apply *a)
{
    const EchMsaProblem *m = a->m;
    g_autofree uint32_t *last_slow = g_new(uint32_t, MAX(m->n_positions, 1)), *last = g_new(uint32_t, MAX(m->n_positions, 1));
    g_autofree uint32_t *serving = g_new(uint32_t, MAX(m->n_uses, 1)); /* per use: the stay it reads */
    g_autofree bool *decided = g_new0(bool, (size_t)a->flow->leaf_start[m->n_steps] + 1);
    for (uint32_t k = 0; k < m->n_positions; k++)
        last_slow[k] = last[k] = ECH_PLACE_NONE;
    for (uint32_t u = 0; u < m->n_uses; u++)
        serving[u] = ECH_PLACE_NONE;
    for (uint32_t s = 0; s < a->r->n_stays; s++) {
        const EchMsaStay *stay = &a->r->stays[s];
        a->source[s] = ECH_PLACE_NONE;
        if (stay->kind == ECH_MSA_SCOPED)
            continue;
        uint32_t k = stay->position;
        if (k != ECH_PLACE_NONE) {
            uint32_t from = stay->fast ? last_slow[k] : last[k];
            if (moves(stay) && from != ECH_PLACE_NONE && moves(&a->r->stays[from]))
                a->source[s] = from;
            last[k] = s;
            if (!stay->fast)
                last_slow[k] = s;
            const EchMsaPosition *position = &m->positions[k];
            uint32_t leaf = a->flow->leaf_start[position->step] + a->flow->position_places[k].leaf;
            decided[leaf] = true;
            if (!moves(stay) && stay->fast && stay->start <= (int64_t)position->step) {
                a->fast[leaf] = true;
                a->places[leaf] = stay->offset;
            }
        }
        for (uint32_t i = 0; i < stay->n_uses; i++)
            serving[a->r->use_list[stay->first_use + i]] = s;
        if (moves(stay)) {
            plan_copy(a, s);
            plan_readers(a, s);
        }
    }
    fill_unread(a, decided, serving);
}

static const GArray *replaced_at(const Apply *a, uint32_t step, uint32_t operand)
{
    return g_hash_table_lookup(a->replaced, use_key(step, operand));
}

static uint32_t replacement(const GArray *list, uint32_t leaf)
{
    for (guint i = 0; list != NULL && i < list->len; i++)
        if (g_array_index(list, Replaced, i).leaf == leaf)
            return g_array_index(list, Replaced, i).stay;
    return ECH_PLACE_NONE;
}

/* Where a copy's source is defined. */
static EchFlowPlace source_place(const Apply *a, const EchMsaStay *stay)
{
    return stay->position != ECH_PLACE_NONE ? a->flow->position_places[stay->position] : a->flow->value_places[stay->value];
}

/* ---- what is still needed ---- */

static void need_operand(Apply *a, EchId operand, const GArray *list, uint32_t first_leaf, unsigned depth)
{
    const EchProgram *p = a->writer.p;
    const EchInstruction *o = &p->instructions[operand];
    if (!p->shapes[o->shape].is_tuple) {
        if (replacement(list, first_leaf) == ECH_PLACE_NONE)
            a->needed[operand] = true;
        return;
    }
    bool any = false;
    uint32_t n = ech_place_leaves(p, o->shape);
    for (uint32_t l = 0; l < n && !any; l++)
        any = replacement(list, first_leaf + l) != ECH_PLACE_NONE;
    if (!any || o->opcode != ECH_HLO_TUPLE || depth > MAX_CHAIN) {
        a->needed[operand] = true;
        return;
    }
    for (uint32_t k = 0; k < o->n_operands; k++) {
        EchId member = ech_program_operand(p, o, k);
        need_operand(a, member, list, first_leaf, depth + 1);
        first_leaf += ech_place_leaves(p, p->instructions[member].shape);
    }
}

static void find_needed(Apply *a)
{
    const EchProgram *p = a->writer.p;
    for (uint32_t s = 0; s < a->r->n_stays; s++) {
        const EchMsaStay *stay = &a->r->stays[s];
        if (!moves(stay) || a->source[s] != ECH_PLACE_NONE)
            continue;
        if (stay->sync_step == ECH_PLACE_NONE)
            a->needed[a->problem->ids[source_place(a, stay).step]] = true;
        else {
            const EchInstruction *i = &p->instructions[a->problem->ids[stay->sync_step]];
            for (uint32_t k = 0; k < i->n_operands; k++)
                need_operand(a, ech_program_operand(p, i, k), replaced_at(a, stay->sync_step, k), 0, 0);
        }
    }
    for (size_t id = p->n_instructions; id > 0; id--) {
        const EchInstruction *i = &p->instructions[id - 1];
        bool view = i->opcode == ECH_HLO_TUPLE || i->opcode == ECH_HLO_GET_TUPLE_ELEMENT || i->opcode == ECH_HLO_BITCAST;
        bool gone = i->schedule != ECH_NONE && a->converted[i->schedule];
        if (i->is_root || i->schedule == ECH_NONE || (!view && !gone))
            a->needed[id - 1] = true;
        if (!a->needed[id - 1])
            continue;
        for (uint32_t k = 0; k < i->n_operands; k++)
            need_operand(a, ech_program_operand(p, i, k), i->schedule == ECH_NONE ? NULL : replaced_at(a, i->schedule, k), 0, 0);
    }
}

/* ---- writing ---- */

static EchId element(Apply *a, EchId tuple, uint32_t member)
{
    Writer *w = &a->writer;
    const EchProgram *out = ech_program_builder_peek(w->b);
    EchId shape = out->elements[out->shapes[shape_of(w, tuple)].first_element + member];
    g_autofree char *name = g_strdup_printf("%s.%u", out->instructions[tuple].name, member);
    EchId made = write_new(w, ECH_HLO_GET_TUPLE_ELEMENT, NULL, name, shape);
    ech_program_builder_peek(w->b)->instructions[made].number = member;
    ech_program_builder_operand(w->b, tuple);
    return made;
}

/* The array that is leaf @leaf of a new instruction. */
static EchId array_in(Apply *a, EchId instruction, uint32_t leaf)
{
    Writer *w = &a->writer;
    for (unsigned depth = 0; depth < MAX_CHAIN; depth++) {
        const EchProgram *out = ech_program_builder_peek(w->b);
        const EchShape *s = &out->shapes[shape_of(w, instruction)];
        if (!s->is_tuple)
            return instruction;
        uint32_t k = 0;
        for (; k < s->n_elements; k++) {
            uint32_t n = ech_place_leaves(out, out->elements[s->first_element + k]);
            if (leaf < n)
                break;
            leaf -= n;
        }
        if (k == s->n_elements)
            return ECH_NONE;
        instruction = element(a, instruction, k);
    }
    return ECH_NONE;
}

static EchId reshaped(Apply *a, EchId array, EchId old_shape)
{
    Writer *w = &a->writer;
    uint32_t leaf = 0;
    EchId shape = in_space(w, copy_shape(w, old_shape, NULL, &leaf, 0), new_shape(w, shape_of(w, array))->space);
    if (shape == shape_of(w, array))
        return array;
    g_autofree char *name = g_strdup_printf("%s.view", ech_program_builder_peek(w->b)->instructions[array].name);
    EchId made = write_new(w, ECH_HLO_BITCAST, NULL, name, shape);
    ech_program_builder_operand(w->b, array);
    return made;
}

/* Operand @operand of an old instruction as its user is to read it now; ECH_NONE if a copy it reads is not there yet. */
static EchId rewritten(Apply *a, EchId operand, const GArray *list, uint32_t first_leaf, unsigned depth)
{
    Writer *w = &a->writer;
    const EchProgram *p = w->p;
    const EchInstruction *o = &p->instructions[operand];
    if (!p->shapes[o->shape].is_tuple) {
        uint32_t stay = replacement(list, first_leaf);
        if (stay == ECH_PLACE_NONE)
            return w->map[operand];
        return a->made[stay] == ECH_NONE ? ECH_NONE : reshaped(a, a->made[stay], o->shape);
    }
    uint32_t n = ech_place_leaves(p, o->shape);
    bool any = false;
    for (uint32_t l = 0; l < n && !any; l++)
        any = replacement(list, first_leaf + l) != ECH_PLACE_NONE;
    if (!any || depth > MAX_CHAIN)
        return w->map[operand];
    const EchShape *s = &p->shapes[o->shape];
    g_autofree EchId *members = g_new(EchId, MAX(s->n_elements, 1)), *shapes = g_new(EchId, MAX(s->n_elements, 1));
    for (uint32_t k = 0; k < s->n_elements; k++) {
        EchId member_shape = p->elements[s->first_element + k];
        uint32_t leaves = ech_place_leaves(p, member_shape);
        if (o->opcode == ECH_HLO_TUPLE)
            members[k] = rewritten(a, ech_program_operand(p, o, k), list, first_leaf, depth + 1);
        else {
            uint32_t stay = p->shapes[member_shape].is_tuple ? ECH_PLACE_NONE : replacement(list, first_leaf);
            members[k] = stay == ECH_PLACE_NONE      ? element(a, w->map[operand], k)
                         : a->made[stay] == ECH_NONE ? ECH_NONE
                                                     : reshaped(a, a->made[stay], member_shape);
        }
        if (members[k] == ECH_NONE)
            return ECH_NONE;
        shapes[k] = shape_of(w, members[k]);
        first_leaf += leaves;
    }
    g_autofree char *name = g_strdup_printf("%s.placed", o->name);
    EchId made = write_new(w, ECH_HLO_TUPLE, NULL, name, ech_program_builder_tuple(w->b, shapes, s->n_elements));
    for (uint32_t k = 0; k < s->n_elements; k++)
        ech_program_builder_operand(w->b, members[k]);
    return made;
}

static EchId flag_shape(Apply *a, const char *text)
{
    EchId shape = ECH_NONE;
    size_t used;
    (void)ech_program_builder_shape(a->writer.b, text, strlen(text), &shape, &used, NULL);
    return shape;
}

static EchId copy_source(Apply *a, uint32_t s)
{
    const EchMsaStay *stay = &a->r->stays[s];
    Writer *w = &a->writer;
    if (a->source[s] != ECH_PLACE_NONE)
        return a->made[a->source[s]];
    if (stay->sync_step != ECH_PLACE_NONE) {
        const EchInstruction *i = &w->p->instructions[a->problem->ids[stay->sync_step]];
        return rewritten(a, ech_program_operand(w->p, i, 0), replaced_at(a, stay->sync_step, 0), 0, 0);
    }
    EchFlowPlace place = source_place(a, stay);
    EchId home = w->map[a->problem->ids[place.step]];
    return home == ECH_NONE ? ECH_NONE : array_in(a, home, place.leaf);
}

static char *copy_name(Apply *a, uint32_t s, const char *what)
{
    const EchMsaStay *stay = &a->r->stays[s];
    EchId id = a->problem->ids[source_place(a, stay).step];
    const char *name = a->writer.p->instructions[id].name;
    uint32_t n = a->names[id]++;
    return n == 0 ? g_strdup_printf("%s.%s", what, name) : g_strdup_printf("%s.%s.%u", what, name, n);
}

/* One part of an array: whole rows (of tiles) of its most major dimension, or a run of bytes where it is cut to a fixed size. */
static EchId part_shape(Apply *a, EchId whole, EchBytes bytes)
{
    Writer *w = &a->writer;
    const EchProgram *out = ech_program_builder_peek(w->b);
    const EchShape *s = &out->shapes[whole];
    EchLayout layout = out->layouts[s->layout];
    EchBytes all = ech_layout_padded_bytes(&layout, ECH_LAYOUT_TPU);
    layout.space = w->fast;
    if (layout.rank > 0) {
        uint8_t major = layout.order[layout.rank - 1];
        uint64_t side;
        uint32_t pieces = ech_flow_major(&layout, &side);
        EchBytes row = pieces > 0 ? all / pieces : 0;
        if (row > 0 && bytes % row == 0) {
            layout.dims[major] = MIN(bytes / row * side, layout.dims[major]);
            if (ech_layout_padded_bytes(&layout, ECH_LAYOUT_TPU) == bytes)
                return ech_program_builder_array(w->b, &layout);
        }
    }
    g_autofree char *text = g_strdup_printf("u8[%" G_GUINT64_FORMAT "]{0:T(512)S(%d)}", bytes, w->fast);
    return flag_shape(a, text);
}

static bool write_start(Apply *a, const Start *start)
{
    Writer *w = &a->writer;
    const EchMsaStay *stay = &a->r->stays[start->stay];
    EchId source = copy_source(a, start->stay);
    if (source == ECH_NONE)
        return false;
    EchId from = shape_of(w, source);
    if (stay->kind == ECH_MSA_SLICED || (stay->sync_step != ECH_PLACE_NONE && a->problem->instructions[stay->sync_step].op == ECH_FLOW_SLICE)) {
        const EchInstruction *sync = stay->sync_step != ECH_PLACE_NONE ? &w->p->instructions[a->problem->ids[stay->sync_step]] : NULL;
        bool own = sync != NULL && stay->kind != ECH_MSA_SLICED; /* the program's own slice, become a prefetch */
        EchId to;
        uint32_t leaf = 0;
        const EchMsaSlice *slice = stay->n_slices > 0 ? &a->r->slices[stay->first_slice + start->slice] : NULL;
        if (own)
            to = in_space(w, copy_shape(w, sync->shape, NULL, &leaf, 0), w->fast);
        else {
            g_assert(slice);
            to = part_shape(a, from, slice->bytes);
        }
        g_autofree char *name = copy_name(a, start->stay, "prefetch-part");
        EchId inputs[1 + ECH_LAYOUT_MAX_RANK] = {from}, operands[1 + ECH_LAYOUT_MAX_RANK] = {source}; /* of a dynamic slice an index for each dimension */
        uint32_t n = own ? MIN(sync->n_operands, G_N_ELEMENTS(inputs)) : 1;
        for (uint32_t k = 1; k < n; k++) {
            operands[k] = rewritten(a, ech_program_operand(w->p, sync, k), replaced_at(a, stay->sync_step, k), 0, 0);
            if (operands[k] == ECH_NONE)
                return false;
            inputs[k] = shape_of(w, operands[k]);
        }
        EchId members[3] = {ech_program_builder_tuple(w->b, inputs, n), to, flag_shape(a, "s32[]{:S(2)}")};
        const char *opcode = own && sync->opcode == ECH_HLO_DYNAMIC_SLICE ? "dynamic-slice-start" : "slice-start";
        EchId made = write_new(w, ECH_HLO_ASYNC_START, opcode, name, ech_program_builder_tuple(w->b, members, 3));
        for (uint32_t k = 0; k < n; k++)
            ech_program_builder_operand(w->b, operands[k]);
        if (own && sync->attributes_n > 0) {
            EchInstruction *i = &ech_program_builder_peek(w->b)->instructions[made];
            i->attributes = ech_program_builder_string(w->b, sync->attributes, (gssize)sync->attributes_n);
            i->attributes_n = sync->attributes_n;
        }
        if (a->parts[start->stay] == NULL) {
            a->parts[start->stay] = g_new(EchId, MAX(stay->n_slices, 1));
            for (uint32_t k = 0; k < MAX(stay->n_slices, 1); k++)
                a->parts[start->stay][k] = ECH_NONE;
        }
        a->parts[start->stay][start->slice] = made;
        note_offset(a, made, ech_program_member_position(ech_program_builder_peek(w->b), shape_of(w, made), 1), slice != NULL ? slice->offset : stay->offset);
        return true;
    }
    EchId to = in_space(w, from, stay->fast ? w->fast : ECH_SPACE_HBM);
    EchId members[3] = {to, from, flag_shape(a, "u32[]{:S(2)}")};
    g_autofree char *name = copy_name(a, start->stay, !stay->fast ? "evict" : stay->cross_program ? "prefetch-before" : "prefetch");
    EchId made = write_new(w, ECH_HLO_COPY_START, NULL, name, ech_program_builder_tuple(w->b, members, 3));
    ech_program_builder_operand(w->b, source);
    if (stay->cross_program && stay->copy_after < 0) {
        static const char index[] = ", cross_program_prefetch_index=0";
        EchInstruction *i = &ech_program_builder_peek(w->b)->instructions[made];
        i->attributes = ech_program_builder_string(w->b, index, -1);
        i->attributes_n = (uint32_t)strlen(index);
    }
    a->parts[start->stay] = g_new0(EchId, 1);
    a->parts[start->stay][0] = made;
    if (stay->fast)
        note_offset(a, made, ech_program_member_position(ech_program_builder_peek(w->b), shape_of(w, made), 0), stay->offset);
    return true;
}

static bool write_done(Apply *a, uint32_t s)
{
    Writer *w = &a->writer;
    const EchMsaStay *stay = &a->r->stays[s];
    for (uint32_t k = 0; k < MAX(stay->n_slices, 1); k++)
        if (a->parts[s] == NULL || a->parts[s][k] == ECH_NONE)
            return false;
    const EchProgram *out = ech_program_builder_peek(w->b);
    g_autofree char *name = g_strdup_printf("%s.done", out->instructions[a->parts[s][0]].name);
    bool sliced = out->instructions[a->parts[s][0]].opcode == ECH_HLO_ASYNC_START;
    uint32_t n = MAX(stay->n_slices, 1);
    g_autofree EchId *done = g_new(EchId, n);
    for (uint32_t k = 0; k < n; k++) {
        out = ech_program_builder_peek(w->b);
        EchId start = a->parts[s][k], shape = out->elements[out->shapes[shape_of(w, start)].first_element + (sliced ? 1 : 0)];
        done[k] = write_new(w, sliced ? ECH_HLO_ASYNC_DONE : ECH_HLO_COPY_DONE, NULL, name, shape);
        ech_program_builder_operand(w->b, start);
    }
    a->made[s] = done[0];
    if (stay->kind != ECH_MSA_SLICED)
        return true;
    /* The parts are by start; the array joins them in the order of their places. */
    uint32_t leaf = 0;
    const EchInstruction *sync = stay->sync_step != ECH_PLACE_NONE ? &w->p->instructions[a->problem->ids[stay->sync_step]] : NULL;
    EchFlowPlace place = source_place(a, stay);
    const EchInstruction *definer = &w->p->instructions[a->problem->ids[place.step]];
    EchId old = sync != NULL ? sync->shape : ech_program_subshape(w->p, definer->shape, ech_place_position(w->p, definer->shape, place.leaf));
    EchId whole = in_space(w, copy_shape(w, old, NULL, &leaf, 0), w->fast);
    g_autofree char *joined = g_strdup_printf("%s.joined", name);
    EchId made = write_new(w, ECH_HLO_CUSTOM_CALL, NULL, joined, whole);
    ech_program_builder_peek(w->b)->instructions[made].target = ech_program_builder_string(w->b, "ConcatBitcast", -1);
    for (uint32_t rank = 0; rank < n; rank++)
        for (uint32_t k = 0; k < n; k++) {
            uint32_t below = 0;
            for (uint32_t j = 0; j < n; j++)
                below += a->r->slices[stay->first_slice + j].offset < a->r->slices[stay->first_slice + k].offset;
            if (below == rank)
                ech_program_builder_operand(w->b, done[k]);
        }
    note_offset(a, made, 0, stay->offset);
    a->made[s] = made;
    return true;
}

static gint compare_start(gconstpointer x, gconstpointer y, gpointer data)
{
    const EchMsaResult *r = data;
    const Start *a = x, *b = y;
    const EchMsaStay *s = &r->stays[a->stay], *t = &r->stays[b->stay];
    if (s->copy_before != t->copy_before)
        return s->copy_before < t->copy_before ? -1 : 1;
    if (a->stay != b->stay)
        return a->stay < b->stay ? -1 : 1;
    return (a->slice > b->slice) - (a->slice < b->slice);
}

static bool write_starts(Apply *a, GArray *list)
{
    if (list == NULL)
        return true;
    g_array_sort_with_data(list, compare_start, (gpointer)(uintptr_t)a->r);
    for (guint i = 0; i < list->len; i++)
        if (!write_start(a, &g_array_index(list, Start, i)))
            return false;
    return true;
}

/* Whether what is fetched before anything else is there: a program whose schedule is not a compiler's may name its parameters late. */
static bool sources_written(const Apply *a, const GArray *list)
{
    for (guint i = 0; list != NULL && i < list->len; i++) {
        uint32_t s = g_array_index(list, Start, i).stay;
        if (a->source[s] == ECH_PLACE_NONE && a->r->stays[s].sync_step == ECH_PLACE_NONE &&
            a->writer.map[a->problem->ids[source_place(a, &a->r->stays[s]).step]] == ECH_NONE)
            return false;
    }
    return true;
}

static bool write_dones(Apply *a, const GArray *list)
{
    for (guint i = 0; list != NULL && i < list->len; i++)
        if (!write_done(a, g_array_index(list, Start, i).stay))
            return false;
    return true;
}

/* The new shape of a scheduled instruction: views take it from what they view, all others from the placement. */
static EchId placed_shape(Apply *a, const EchInstruction *i, const EchId *operands)
{
    Writer *w = &a->writer;
    const EchProgram *out = ech_program_builder_peek(w->b);
    uint32_t leaf = 0;
    switch ((int)i->opcode) {
    case ECH_HLO_TUPLE: {
        g_autofree EchId *members = g_new(EchId, MAX(i->n_operands, 1));
        for (uint32_t k = 0; k < i->n_operands; k++)
            members[k] = shape_of(w, operands[k]);
        return ech_program_builder_tuple(w->b, members, i->n_operands);
    }
    case ECH_HLO_GET_TUPLE_ELEMENT: {
        const EchShape *tuple = i->n_operands > 0 ? new_shape(w, shape_of(w, operands[0])) : NULL;
        if (tuple == NULL || i->number < 0 || i->number >= tuple->n_elements)
            break;
        return out->elements[tuple->first_element + (uint32_t)i->number];
    }
    case ECH_HLO_BITCAST: {
        if (i->n_operands == 0)
            break;
        EchId shape = copy_shape(w, i->shape, NULL, &leaf, 0);
        return new_shape(w, shape)->is_tuple ? shape : in_space(w, shape, new_shape(w, shape_of(w, operands[0]))->space);
    }
    default: break;
    }
    return copy_shape(w, i->shape, a->fast + a->flow->leaf_start[i->schedule], &leaf, 0);
}

static bool write_instruction(Apply *a, EchId id)
{
    Writer *w = &a->writer;
    const EchInstruction *i = &w->p->instructions[id];
    g_autofree EchId *operands = g_new(EchId, MAX(i->n_operands, 1));
    for (uint32_t k = 0; k < i->n_operands; k++) {
        operands[k] = rewritten(a, ech_program_operand(w->p, i, k), i->schedule == ECH_NONE ? NULL : replaced_at(a, i->schedule, k), 0, 0);
        if (operands[k] == ECH_NONE)
            return false;
    }
    uint32_t leaf = 0;
    EchId shape = i->schedule == ECH_NONE ? copy_shape(w, i->shape, NULL, &leaf, 0) : placed_shape(a, i, operands);
    w->map[id] = write_like(w, i, shape);
    for (uint32_t k = 0; k < i->n_operands; k++)
        ech_program_builder_operand(w->b, operands[k]);
    write_links(w, i);
    return true;
}

/* Places of what is made in the fast memory. */
static void note_positions(Apply *a)
{
    for (uint32_t k = 0; k < a->m->n_positions; k++) {
        const EchFlowPlace *place = &a->flow->position_places[k];
        EchId id = a->problem->ids[place->step], made = a->writer.map[id];
        uint32_t leaf = a->flow->leaf_start[place->step] + place->leaf;
        if (made != ECH_NONE && a->fast[leaf])
            note_offset(a, made, ech_place_position(a->writer.p, a->writer.p->instructions[id].shape, place->leaf), a->places[leaf]);
    }
}

static bool write_all(Apply *a)
{
    Writer *w = &a->writer;
    const EchProgram *p = w->p;
    open_computations(w, NULL);
    for (EchId c = 0; c < p->n_computations; c++) {
        open_computation(w, c);
        bool begun = false;
        for (uint32_t k = 0; k < p->computations[c].n; k++) {
            EchId id = p->computations[c].first + k;
            uint32_t step = p->instructions[id].schedule;
            if (!begun && p->instructions[id].opcode != ECH_HLO_PARAMETER && p->instructions[id].opcode != ECH_HLO_CONSTANT &&
                sources_written(a, a->begins[c])) {
                begun = true;
                if (!write_starts(a, a->begins[c]))
                    return false;
            }
            if (step != ECH_NONE && !write_dones(a, a->dones[step]))
                return false;
            if (a->needed[id] && !write_instruction(a, id))
                return false;
            if (step != ECH_NONE && !write_starts(a, a->starts[step]))
                return false;
        }
        if (c == p->entry && !write_dones(a, a->dones[a->m->n_steps]))
            return false;
    }
    return true;
}

/* The fast memory's values lie where they were placed. */
static void set_offsets(const Apply *a, const EchProgram *out, EchProgramAssignment *assignment, EchDiag *diag)
{
    uint64_t unknown = 0;
    for (size_t k = 0; k < assignment->n_allocations; k++) {
        EchAllocation *allocation = &assignment->allocations[k];
        if (allocation->space != a->writer.fast || !allocation->is_temp)
            continue;
        allocation->bytes = 0;
        for (uint32_t v = 0; v < allocation->n_assigned; v++) {
            EchAssigned *assigned = &assignment->assigned[allocation->first_assigned + v];
            const EchPosition *defined = &out->values[assigned->value].defined;
            gsize known =
                GPOINTER_TO_SIZE(g_hash_table_lookup(a->offsets, GSIZE_TO_POINTER((gsize)defined->instruction << 20 | (defined->position & 0xfffff))));
            if (known > 0)
                assigned->offset = known - 1;
            unknown += known == 0;
            allocation->bytes = MAX(allocation->bytes, ech_bytes_add(assigned->offset, assigned->bytes));
        }
        for (size_t h = 0; h < assignment->n_heaps; h++)
            if (assignment->heaps[h].space == a->writer.fast)
                assignment->heaps[h].allocation_bytes = allocation->bytes;
    }
    ech_diag_note(diag, "values_in_fast_memory_without_a_place", unknown);
}

static void free_lists(GArray **lists, size_t n)
{
    for (size_t i = 0; i < n; i++)
        g_clear_pointer(&lists[i], g_array_unref);
    g_free(lists);
}

EchProgram *ech_place_apply(const EchProgram *program, const EchPlaceProblem *problem, const EchMsaResult *result, int32_t fast, EchBytes hbm_limit,
                            EchDiag *diag, GError **error)
{
    Apply apply = {.problem = problem, .m = &problem->flow->problem, .flow = problem->flow, .r = result}, *a = &apply;
    uint32_t n = a->m->n_steps;
    writer_init(&a->writer, program, fast);
    a->replaced = g_hash_table_new_full(ech_hash_key, NULL, NULL, (GDestroyNotify)g_array_unref);
    a->starts = g_new0(GArray *, (size_t)n + 1);
    a->dones = g_new0(GArray *, (size_t)n + 1);
    a->begins = g_new0(GArray *, program->n_computations + 1);
    a->source = g_new0(uint32_t, MAX(result->n_stays, 1));
    a->made = g_new(EchId, MAX(result->n_stays, 1));
    a->parts = g_new0(EchId *, MAX(result->n_stays, 1));
    for (uint32_t s = 0; s < result->n_stays; s++)
        a->made[s] = ECH_NONE;
    a->fast = g_new0(bool, (size_t)a->flow->leaf_start[n] + 1);
    a->places = g_new0(uint64_t, (size_t)a->flow->leaf_start[n] + 1);
    a->needed = g_new0(bool, program->n_instructions + 1);
    a->converted = g_new0(bool, (size_t)n + 1);
    a->names = g_new0(uint32_t, program->n_instructions + 1);
    a->offsets = g_hash_table_new(ech_hash_key, NULL);
    plan(a);
    find_needed(a);
    EchProgram *out = NULL;
    if (write_all(a)) {
        note_positions(a);
        out = finish(&a->writer, diag, error);
    } else
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "%s: a copy of the placement would be read before it is there", program->name);
    if (out != NULL) {
        EchProgramAssignment *assignment = ech_program_assign(out, hbm_limit, diag, error);
        if (assignment == NULL)
            g_clear_pointer(&out, ech_program_unref);
        else {
            set_offsets(a, out, assignment, diag);
            ech_program_set_assignment(out, assignment, "made by echelon");
        }
    }
    writer_done(&a->writer);
    g_hash_table_unref(a->replaced);
    g_hash_table_unref(a->offsets);
    free_lists(a->starts, (size_t)n + 1);
    free_lists(a->dones, (size_t)n + 1);
    free_lists(a->begins, program->n_computations);
    for (uint32_t s = 0; s < result->n_stays; s++)
        g_free(a->parts[s]);
    g_free(a->parts);
    g_free(a->made);
    g_free(a->source);
    g_free(a->fast);
    g_free(a->places);
    g_free(a->needed);
    g_free(a->converted);
    g_free(a->names);
    return out;
}
