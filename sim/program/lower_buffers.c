/* The trace's buffers: how long each of the program's lives and at what level of the loops, where it lies, what shares its place, and its name. */
#include "sim/program/lower.h"

/* Memories */

const char *ech_lower_memory_name(const Lowerer *l, int32_t space)
{
    static const char *const usual[] = {"hbm", "vector", NULL, "common", NULL, "host", "scalar"};
    if (l->device) {
        const EchMemory *memory = ech_device_space(l->device, space);
        if (memory)
            return memory->name;
        /* A GPU program's space 1 is ordinary memory set apart for collectives. */
        if (space == ECH_SPACE_VECTOR && l->p->platform == ECH_PLATFORM_GPU)
            return ech_lower_memory_name(l, ECH_SPACE_HBM);
        return space == ECH_SPACE_HBM || space == ECH_SPACE_HOST ? usual[space] : NULL;
    }
    if (l->p->platform == ECH_PLATFORM_GPU)
        return space == ECH_SPACE_HOST || space == 6 ? "host" : "hbm";
    return space >= 0 && (size_t)space < G_N_ELEMENTS(usual) ? usual[space] : NULL;
}

/* Structure */

static EchId loop_around(const EchProgram *p, EchId computation)
{
    while (true) {
        EchId caller = p->computations[computation].caller;
        if (caller == ECH_NONE || p->instructions[caller].opcode == ECH_HLO_WHILE)
            return caller;
        computation = p->instructions[caller].computation;
    }
}

static uint32_t loop_level(const EchProgram *p, EchId loop)
{
    return loop == ECH_NONE ? 0 : p->computations[p->instructions[loop].computation].loop_depth + 1;
}

static EchId common_loop(const EchProgram *p, EchId a, EchId b)
{
    while (a != b) {
        if (loop_level(p, a) >= loop_level(p, b))
            a = loop_around(p, p->instructions[a].computation);
        else
            b = loop_around(p, p->instructions[b].computation);
    }
    return a;
}

/* The instruction at @home's level that @i is part of: itself, or the loop around it. */
static EchId at_level(const EchProgram *p, EchId i, EchId home)
{
    EchId loop = loop_around(p, p->instructions[i].computation);
    while (loop != home && loop != ECH_NONE) {
        i = loop;
        loop = loop_around(p, p->instructions[i].computation);
    }
    return i;
}

static int64_t begin_of(const EchProgram *p, EchId i)
{
    const EchInstruction *instruction = &p->instructions[i];
    if (instruction->opcode == ECH_HLO_WHILE && instruction->n_called > 0)
        return p->computations[ech_program_called(p, instruction, 0)].begin;
    return instruction->schedule;
}

static void touch(const Lowerer *l, Place *place, EchId i)
{
    const EchProgram *p = l->p;
    if (p->instructions[i].schedule == ECH_NONE || l->untaken[p->instructions[i].computation])
        return;
    i = at_level(p, i, place->home);
    int64_t begin = begin_of(p, i), end = p->instructions[i].schedule;
    if (place->first_at == ECH_NONE || begin < place->first) {
        place->first = begin;
        place->first_at = i;
    }
    if (place->last_at == ECH_NONE || end > place->last) {
        place->last = end;
        place->last_at = i;
    }
}

/* True goes to the first of two branches, a number to its own, and one that has none to the last. */
static bool known_branch(const Lowerer *l, const EchInstruction *i, uint32_t *ret)
{
    EchId which = i->n_operands > 0 ? ech_program_operand(l->p, i, 0) : ECH_NONE;
    const GArray *values = which != ECH_NONE ? ech_integers_of(l->integers, which, NULL) : NULL;
    if (!values || values->len != 1 || i->n_called == 0)
        return false;
    int64_t value = g_array_index(values, int64_t, 0);
    if (strcmp(ech_dtype_name((EchDtype)l->p->shapes[l->p->instructions[which].shape].dtype), "pred") == 0)
        *ret = value ? 0 : i->n_called - 1;
    else
        *ret = value >= 0 && value < (int64_t)i->n_called ? (uint32_t)value : i->n_called - 1;
    return true;
}

/* Work and instructions of a computation as it runs: loops as often as they do, of branches the one with the most. Calls are nested no deeper than the flat
 * schedule has been checked for. */
static uint64_t weight_of(const Lowerer *l, EchId computation)
{
    const EchProgram *p = l->p;
    const EchComputation *c = &p->computations[computation];
    uint64_t *known = &l->weights[computation], weight = c->n;
    if (*known > 0)
        return *known;
    for (EchId id = c->first; id < c->first + c->n; id++) {
        const EchInstruction *i = &p->instructions[id];
        EchHloWork work = ech_program_work(p, id);
        uint64_t most = 0, sum = 0, trips = 1;
        EchOrigin origin;
        bool runs = i->opcode == ECH_HLO_WHILE || i->opcode == ECH_HLO_CONDITIONAL || i->opcode == ECH_HLO_CALL || i->opcode == ECH_HLO_ASYNC_START;
        for (uint32_t k = 0; runs && k < i->n_called; k++) {
            uint64_t called = weight_of(l, ech_program_called(p, i, k));
            most = MAX(most, called);
            sum = ech_bytes_add(sum, called);
        }
        if (i->opcode == ECH_HLO_WHILE && !ech_program_trips(p, id, &trips, &origin))
            trips = MAX(l->options.loop_trips, 1);
        if (runs)
            weight = ech_bytes_add(weight, i->opcode == ECH_HLO_CONDITIONAL ? most : ech_bytes_mul(sum, trips));
        else
            weight = ech_bytes_add(weight, ech_bytes_add(ech_bytes_add(work.matrix, work.vector), work.transcendental));
    }
    return *known = MAX(weight, 1);
}

uint32_t ech_lower_taken_branch(const Lowerer *l, EchId conditional, bool *ret_known)
{
    const EchProgram *p = l->p;
    const EchInstruction *i = &p->instructions[conditional];
    uint32_t best = 0;
    bool known = known_branch(l, i, &best);
    if (ret_known)
        *ret_known = known;
    if (known)
        return best;
    uint64_t most = 0;
    for (uint32_t k = 0; k < i->n_called; k++) {
        uint64_t weight = weight_of(l, ech_program_called(p, i, k));
        if (weight > most) {
            most = weight;
            best = k;
        }
    }
    return best;
}

/* Computations of branches that are not taken, and what they call, are no part of the trace. */
static void find_untaken(Lowerer *l)
{
    const EchProgram *p = l->p;
    for (size_t k = p->n_flat; k-- > 0;) {
        const EchInstruction *i = &p->instructions[p->flat[k]];
        bool branches = i->opcode == ECH_HLO_CONDITIONAL;
        uint32_t taken = branches ? ech_lower_taken_branch(l, p->flat[k], NULL) : 0;
        for (uint32_t c = 0; c < i->n_called; c++) {
            EchId called = ech_program_called(p, i, c);
            if (p->computations[called].caller == p->flat[k])
                l->untaken[called] = l->untaken[i->computation] || (branches && called != ech_program_called(p, i, taken));
        }
    }
}

static void place_buffer(Lowerer *l, EchId b)
{
    const EchProgram *p = l->p;
    const EchValueBuffer *buffer = &p->buffers[b];
    Place *place = &l->places[b];
    *place = (Place){
        .id = ECH_NONE, .home = ECH_NONE, .first_at = ECH_NONE, .last_at = ECH_NONE, .merged = ECH_NONE, .bytes = buffer->bytes, .offset = ECH_OFFSET_NONE};
    place->wanted = buffer->in_flat && !buffer->is_tuple && buffer->bytes > 0 && ech_lower_memory_name(l, buffer->space) != NULL;
    if (!place->wanted)
        return;
    bool first = true;
    for (uint32_t k = 0; k < buffer->n_values; k++) {
        const EchValue *value = &p->values[p->buffer_values[buffer->first_value + k]];
        const EchInstruction *definer = &p->instructions[value->defined.instruction];
        if (definer->schedule == ECH_NONE || l->untaken[definer->computation])
            continue;
        EchId loop = loop_around(p, definer->computation);
        place->home = first ? loop : common_loop(p, place->home, loop);
        first = false;
        /* Fetched before the program starts: it is there. */
        size_t n;
        place->resident |= definer->opcode == ECH_HLO_COPY_START && ech_program_attribute(definer, "cross_program_prefetch_index", &n) != NULL;
    }
    /* Only a computation that is called twice has readers outside the loop of what they read. */
    for (uint32_t k = 0; k < buffer->n_values; k++) {
        const EchValue *value = &p->values[p->buffer_values[buffer->first_value + k]];
        for (uint32_t u = 0; u < value->n_uses && place->home != ECH_NONE; u++) {
            const EchInstruction *user = &p->instructions[p->uses[value->first_use + u].user];
            if (user->schedule != ECH_NONE && !l->untaken[user->computation])
                place->home = common_loop(p, place->home, loop_around(p, user->computation));
        }
    }
    for (uint32_t k = 0; k < buffer->n_values; k++) {
        const EchValue *value = &p->values[p->buffer_values[buffer->first_value + k]];
        for (uint32_t h = 0; h < value->n_holders; h++) {
            const EchPosition *holder = &p->holders[value->first_holder + h];
            touch(l, place, holder->instruction);
        }
        /* A call does not use what it hands on: its computation does. */
        for (uint32_t u = 0; u < value->n_uses; u++) {
            EchId user = p->uses[value->first_use + u].user;
            if (p->instructions[user].opcode != ECH_HLO_CALL)
                touch(l, place, user);
        }
    }
    place->resident |= buffer->is_parameter || buffer->is_constant;
    place->kept = buffer->live_out || place->resident;
    if (place->resident)
        place->home = ECH_NONE;
}

/* Temporaries that lie in a donated parameter's place while it is not in use: the parameter is there all the time, they are part of it. */
static void join_resident(Lowerer *l, const EchAllocation *allocation)
{
    const EchProgram *p = l->p;
    EchId into = ECH_NONE;
    for (uint32_t k = 0; k < allocation->n_assigned && into == ECH_NONE; k++) {
        EchId value = p->assignment->assigned[allocation->first_assigned + k].value;
        EchId b = value == ECH_NONE ? ECH_NONE : p->values[value].buffer;
        if (b != ECH_NONE && l->places[b].wanted && l->places[b].resident && l->places[b].first_at != ECH_NONE)
            into = b;
    }
    for (uint32_t k = 0; into != ECH_NONE && k < allocation->n_assigned; k++) {
        EchId value = p->assignment->assigned[allocation->first_assigned + k].value;
        EchId b = value == ECH_NONE ? ECH_NONE : p->values[value].buffer;
        if (b == ECH_NONE || b == into || !l->places[b].wanted || l->places[b].first_at == ECH_NONE || l->places[b].merged != ECH_NONE)
            continue;
        l->places[b].merged = into;
        l->places[into].bytes = MAX(l->places[into].bytes, l->places[b].bytes);
    }
}

/* The text of a program does not hold where its on-chip arrays lie, only that they do. Our own places may need more than there is: then they say nothing, and
 * the memory does not run out. */
static bool is_guess(const Lowerer *l, const EchAllocation *allocation)
{
    if (!l->p->assignment->made || l->p->platform != ECH_PLATFORM_TPU || !l->device ||
        (allocation->space != ECH_SPACE_VECTOR && allocation->space != ECH_SPACE_COMMON))
        return false;
    const EchMemory *memory = ech_device_space(l->device, allocation->space);
    EchBytes limit = memory ? (memory->available ? memory->available : memory->capacity) : 0;
    if (limit == 0 || allocation->bytes <= limit)
        return false;
    g_autofree char *needed = ech_format_bytes(allocation->bytes), *there = ech_format_bytes(limit);
    ech_diag_remark(l->diag,
                    "memory '%s': the program's text does not say where its arrays lie there, and places of our own would take %s of %s: they are counted only",
                    memory->name, needed, there);
    g_autofree char *key = g_strconcat("unplaced.", memory->name, NULL);
    ech_trace_builder_set_property(l->b, key, needed);
    return true;
}

static void give_offsets(Lowerer *l)
{
    const EchProgram *p = l->p;
    const EchProgramAssignment *assignment = p->assignment;
    if (!assignment)
        return;
    g_autoptr(GArray) tops = g_array_new(FALSE, TRUE, sizeof(EchBytes)); /* by space */
    g_array_set_size(tops, 256);
    /* Temporaries last: what does not fit is then theirs. */
    for (unsigned pass = 0; pass < 2; pass++) {
        for (size_t a = 0; a < assignment->n_allocations; a++) {
            const EchAllocation *allocation = &assignment->allocations[a];
            if (allocation->is_thread_local || allocation->space < 0 || allocation->space > 255 || allocation->is_temp != (pass == 1) ||
                is_guess(l, allocation))
                continue;
            int32_t space = ech_program_memory_of(p, allocation->space);
            EchBytes *top = &g_array_index(tops, EchBytes, space);
            EchBytes alignment = p->platform == ECH_PLATFORM_GPU ? 256 : 512;
            EchBytes base = allocation->is_temp && space != ECH_SPACE_HBM && space != ECH_SPACE_HOST ? *top : ech_round_up(*top, alignment);
            for (uint32_t k = 0; k < allocation->n_assigned; k++) {
                const EchAssigned *assigned = &assignment->assigned[allocation->first_assigned + k];
                if (assigned->value == ECH_NONE)
                    continue;
                Place *place = &l->places[p->values[assigned->value].buffer];
                uint64_t offset = ech_bytes_add(base, assigned->offset);
                if (offset <= UINT64_MAX / 4)
                    place->offset = MIN(place->offset, offset);
            }
            *top = ech_bytes_add(base, allocation->bytes);
            if (pass == 0)
                join_resident(l, allocation);
        }
    }
}

/* What was fetched before the program stays to its end, unless its place is another array's later: then its last reader frees it, and the program's
 * end fetches it anew for the next run. */
static void free_fetched(Lowerer *l)
{
    enum { MOST = 64 }; /* Compilers make a few. */
    const EchProgram *p = l->p;
    unsigned n = 0;
    for (EchId b = 0; b < p->n_buffers && n < MOST; b++) {
        Place *early = &l->places[b];
        if (!early->wanted || !early->resident || early->offset == ECH_OFFSET_NONE || p->buffers[b].is_parameter || p->buffers[b].is_constant ||
            p->buffers[b].live_out)
            continue;
        n++;
        for (EchId k = 0; k < p->n_buffers && early->kept; k++) {
            const Place *other = &l->places[k];
            early->kept = k == b || !other->wanted || other->first_at == ECH_NONE || p->buffers[k].space != p->buffers[b].space ||
                          other->offset == ECH_OFFSET_NONE || other->offset >= early->offset + early->bytes || early->offset >= other->offset + other->bytes;
        }
    }
}

/* The instruction that stands for @i in the trace: the one that runs the outermost hidden computation around it, or itself. */
static EchId shown(const Lowerer *l, EchId i)
{
    const EchProgram *p = l->p;
    for (EchId c = p->instructions[i].computation; c != ECH_NONE;) {
        EchId caller = p->computations[c].caller;
        if (l->hidden[c] && caller != ECH_NONE)
            i = caller;
        c = caller == ECH_NONE ? ECH_NONE : p->instructions[caller].computation;
    }
    return i;
}

/* Bodies of async computations are not lowered one by one: what first or last touches a buffer in them is the instruction that runs them. */
static void lift_unlowered(Lowerer *l)
{
    const EchProgram *p = l->p;
    bool *hidden = l->hidden;
    for (size_t k = 0; k < p->n_flat; k++) {
        const EchInstruction *i = &p->instructions[p->flat[k]];
        for (uint32_t c = 0; c < i->n_called; c++)
            hidden[ech_program_called(p, i, c)] |= l->untaken[ech_program_called(p, i, c)] || i->opcode == ECH_HLO_ASYNC_START;
    }
    for (EchId b = 0; b < p->n_buffers; b++) {
        Place *place = &l->places[b];
        EchId *ends[2] = {&place->first_at, &place->last_at};
        for (unsigned e = 0; place->wanted && e < 2; e++) {
            if (*ends[e] == ECH_NONE)
                continue;
            *ends[e] = shown(l, *ends[e]);
        }
    }
}

static EchRole role_of(const EchValueBuffer *buffer)
{
    return buffer->is_parameter ? ECH_ROLE_PARAMETER : buffer->live_out ? ECH_ROLE_OUTPUT : buffer->is_constant ? ECH_ROLE_CONSTANT : ECH_ROLE_TEMPORARY;
}

static void append_id(GArray **lists, EchId at, EchId id)
{
    if (!lists[at])
        lists[at] = g_array_new(FALSE, FALSE, sizeof(EchId));
    g_array_append_val(lists[at], id);
}

/* The value that a buffer is named after: the first of the largest that the trace has. */
static const EchValue *speaker(const Lowerer *l, const EchValueBuffer *buffer)
{
    const EchProgram *p = l->p;
    const EchValue *best = NULL;
    bool best_taken = false;
    for (uint32_t k = 0; k < buffer->n_values; k++) {
        const EchValue *value = &p->values[p->buffer_values[buffer->first_value + k]];
        bool taken = !l->untaken[p->instructions[value->defined.instruction].computation];
        if (!best || (taken && !best_taken) || (taken == best_taken && value->bytes > best->bytes)) {
            best = value;
            best_taken = taken;
        }
    }
    return best;
}

/* "fusion.3{1}" for a member of a tuple result, as XLA writes it; the plain name for an array, and for what a start makes for its done. */
static char *position_name(const EchProgram *p, const EchInstruction *definer, uint32_t position)
{
    GString *text = g_string_new(definer->name);
    if (position == 0 || definer->opcode == ECH_HLO_COPY_START || definer->opcode == ECH_HLO_ASYNC_START)
        return g_string_free(text, FALSE);
    EchId shape = definer->shape;
    for (unsigned depth = 0; position > 0 && p->shapes[shape].is_tuple && depth < 64; depth++) {
        uint32_t k = ech_program_member_at(p, shape, position, &position);
        g_string_append_printf(text, "%c%u", depth == 0 ? '{' : ',', k);
        shape = p->elements[p->shapes[shape].first_element + k];
    }
    g_string_append_c(text, '}');
    return g_string_free(text, FALSE);
}

/* Of the value that the buffer is named after; of the first other where that has none: a buffer born empty says nothing. */
static EchId origin_of(const EchProgram *p, const EchValueBuffer *buffer, const EchValue *speaks)
{
    EchId origin = ech_program_origin(p, speaks->defined.instruction, speaks->defined.position);
    for (uint32_t k = 0; k < MIN(buffer->n_values, 16) && origin == ECH_NONE; k++) {
        const EchValue *value = &p->values[p->buffer_values[buffer->first_value + k]];
        if (value->bytes == speaks->bytes)
            origin = ech_program_origin(p, value->defined.instruction, value->defined.position);
    }
    return origin;
}

/* The trace's string of a shape: many arrays share one. */
static EchId shape_text(Lowerer *l, EchId shape)
{
    EchId *known = &l->shape_texts[shape];
    if (*known == ECH_NONE) {
        g_autofree char *text = ech_program_shape_text(l->p, shape);
        *known = ech_trace_builder_string(l->b, text, -1);
    }
    return *known;
}

static void make_trace_buffer(Lowerer *l, EchId b)
{
    const EchProgram *p = l->p;
    const EchValueBuffer *buffer = &p->buffers[b];
    Place *place = &l->places[b];
    if (!place->wanted || place->merged != ECH_NONE || place->first_at == ECH_NONE)
        return;
    const EchValue *value = speaker(l, buffer);
    const EchInstruction *definer = &p->instructions[value->defined.instruction];
    EchId shape = ech_program_subshape(p, definer->shape, value->defined.position);
    EchBuffer made = ech_buffer_init();
    g_autofree char *name = position_name(p, definer, value->defined.position);
    made.name = ech_trace_builder_string(l->b, name, -1);
    EchId origin = origin_of(p, buffer, value);
    if (origin != ECH_NONE)
        made.stack = ech_lower_stack(l, &p->instructions[origin]);
    made.memory = ech_trace_builder_memory(l->b, ech_lower_memory_name(l, buffer->space));
    made.role = (uint8_t)role_of(buffer);
    made.dtype = p->shapes[shape].dtype;
    made.resident = place->resident;
    EchDtype own;
    made.product = (uint8_t)ech_program_product(p, value->defined.instruction, value->defined.position, &own);
    made.product_dtype = (uint8_t)(own != p->shapes[shape].dtype ? own : ECH_DTYPE_NONE);
    for (uint32_t k = 0; k < buffer->n_values; k++)
        made.replicas = MAX(made.replicas, l->replicas[p->buffer_values[buffer->first_value + k]]);
    made.bytes = place->bytes;
    made.dense = MIN(p->shapes[shape].dense, place->bytes);
    made.offset = place->offset;
    made.shape = shape_text(l, shape);
    place->id = ech_trace_builder_buffer(l->b, made);
    if (place->home != ECH_NONE)
        append_id(l->homed, place->home, b);
    if (!place->resident)
        append_id(l->born, place->first_at, b);
    if (!place->kept)
        append_id(l->dies, place->last_at, b);
}

typedef struct {
    EchId id; /* trace buffer */
    int64_t start, end;
    EchId buffer;
} Life;

static int compare_lives(gconstpointer a, gconstpointer b)
{
    const Life *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* Gives a place back between its last reader at @end and its next value at @start, where both are in one body: what goes around a loop is not
 * needed between the last use of the old value and the new one. */
static void open_gap(Lowerer *l, EchId buffer, int64_t end, int64_t start)
{
    const EchProgram *p = l->p;
    if (end < 0 || (size_t)start >= p->n_flat)
        return;
    EchId next = shown(l, p->flat[start]), loop = loop_around(p, p->instructions[next].computation);
    EchId last = at_level(p, shown(l, p->flat[end]), loop);
    if (loop_around(p, p->instructions[last].computation) != loop || p->instructions[last].schedule >= begin_of(p, next))
        return;
    append_id(l->dies, last, buffer);
    append_id(l->born, next, buffer);
}

static void open_gaps(Lowerer *l)
{
    const EchProgram *p = l->p;
    g_autoptr(GArray) lives = g_array_new(FALSE, FALSE, sizeof(Life));
    for (EchId v = 0; v < p->n_values; v++) {
        const EchValue *value = &p->values[v];
        const Place *place = &l->places[value->buffer];
        if (place->id == ECH_NONE || value->start < 0 || l->untaken[p->instructions[value->defined.instruction].computation] ||
            ech_trace_builder_peek_buffer(l->b, place->id)->resident)
            continue;
        Life life = {place->id, value->start, value->end, value->buffer};
        g_array_append_val(lives, life);
    }
    g_array_sort(lives, compare_lives);
    int64_t end = 0;
    for (guint k = 0; k < lives->len; k++) {
        const Life *life = &g_array_index(lives, Life, k);
        if (k > 0 && g_array_index(lives, Life, k - 1).id == life->id) {
            if (life->start > end)
                open_gap(l, life->buffer, end, life->start);
            end = MAX(end, life->end);
        } else
            end = life->end;
    }
}

void ech_lower_buffers(Lowerer *l)
{
    find_untaken(l);
    for (EchId b = 0; b < l->p->n_buffers; b++)
        place_buffer(l, b);
    lift_unlowered(l);
    give_offsets(l);
    free_fetched(l);
    for (EchId b = 0; b < l->p->n_buffers; b++)
        make_trace_buffer(l, b);
    for (EchId b = 0; b < l->p->n_buffers; b++) {
        EchId into = l->places[b].merged;
        if (into == ECH_NONE)
            continue;
        l->places[b].id = l->places[into].id;
    }
    open_gaps(l);
}

/* The trace's buffer of a value's position, or ECH_NONE. */
EchId ech_lower_buffer_at(const Lowerer *l, EchId instruction, uint32_t position)
{
    if (l->repeats > 0)
        return ECH_NONE;
    EchId value = ech_program_value(l->p, instruction, position);
    if (value == ECH_NONE)
        return ECH_NONE;
    EchId b = l->p->values[value].buffer;
    return l->places[l->handed[b] == ECH_NONE ? b : l->handed[b]].id;
}

uint64_t ech_lower_buffer_bytes(const Lowerer *l, EchId buffer)
{
    return ech_trace_builder_peek_buffer(l->b, buffer)->bytes;
}
