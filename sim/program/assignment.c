/* Figures of a buffer assignment, read or made: what memory_analysis() counts, and the live bytes of each heap. */
#include "sim/program/private.h"

#include <string.h>

/* A place in the heap over time; both ends inclusive. */
typedef struct {
    int64_t start, end;
    EchBytes offset, bytes;
} Span;

static int compare_spans(gconstpointer a, gconstpointer b)
{
    const Span *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

typedef struct {
    int64_t at;
    uint8_t is_free;
    EchBytes bytes;
} Event;

static int compare_events(gconstpointer a, gconstpointer b)
{
    const Event *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->is_free - y->is_free;
}

static EchBytes largest_sum(const GArray *spans)
{
    g_autoptr(GArray) events = g_array_sized_new(FALSE, FALSE, sizeof(Event), spans->len * 2);
    for (guint i = 0; i < spans->len; i++) {
        const Span *span = &g_array_index(spans, Span, i);
        Event born = {span->start, 0, span->bytes}, dies = {span->end, 1, span->bytes};
        g_array_append_val(events, born);
        g_array_append_val(events, dies);
    }
    g_array_sort(events, compare_events);
    EchBytes live = 0, peak = 0;
    for (guint i = 0; i < events->len; i++) {
        const Event *event = &g_array_index(events, Event, i);
        live = event->is_free ? live - event->bytes : ech_bytes_add(live, event->bytes);
        peak = MAX(peak, live);
    }
    return peak;
}

/* Values of one place that follow each other without a gap are one buffer: in-place updates and loops do not count twice. */
static void join_spans(GArray *spans)
{
    g_array_sort(spans, compare_spans);
    guint kept = 0;
    for (guint i = 0; i < spans->len; i++) {
        Span span = g_array_index(spans, Span, i);
        Span *last = kept > 0 ? &g_array_index(spans, Span, kept - 1) : NULL;
        if (last && last->offset == span.offset && span.start <= last->end) {
            last->end = MAX(last->end, span.end);
            last->bytes = MAX(last->bytes, span.bytes);
        } else
            g_array_index(spans, Span, kept++) = span;
    }
    g_array_set_size(spans, kept);
}

static int compare_heaps(gconstpointer a, gconstpointer b)
{
    const struct EchHeapFigures *x = a, *y = b;
    return (x->space > y->space) - (x->space < y->space);
}

/* Of one element: a scalar to the compiler, whatever its rank. */
static bool is_array(const EchProgram *program, const EchInstruction *i)
{
    const EchShape *shape = &program->shapes[i->shape];
    return !shape->is_tuple && shape->count != 1;
}

/* A scalar that comes of arrays is written to memory by the vector unit, and so is what a kernel with room of its own in VMEM makes; one that comes of other
 * chips by the link; one that comes of scalars never leaves the core's registers. */
static bool is_written(const EchProgram *program, const EchInstruction *i)
{
    if (ech_hlo_class((EchHlo)i->opcode) == ECH_CLASS_COLLECTIVE || ech_program_scoped_bytes(i) > 0)
        return true;
    const EchComputation *body = i->opcode == ECH_HLO_FUSION && i->n_called > 0 ? &program->computations[ech_program_called(program, i, 0)] : NULL;
    for (uint32_t k = 0; body && k < body->n; k++) {
        if (is_array(program, &program->instructions[body->first + k]))
            return true;
    }
    for (uint32_t k = 0; k < i->n_operands; k++) {
        if (is_array(program, &program->instructions[ech_program_operand(program, i, k)]))
            return true;
    }
    return false;
}

/* Does an allocation hold anything that needs memory: an array of more than one element, or a scalar that is written there? */
static bool holds_arrays(const EchProgram *program, const EchProgramAssignment *assignment, const EchAllocation *allocation)
{
    for (uint32_t k = 0; k < allocation->n_assigned; k++) {
        EchId v = assignment->assigned[allocation->first_assigned + k].value;
        if (v == ECH_NONE)
            return true;
        const EchValue *value = &program->values[v];
        const EchInstruction *definer = &program->instructions[value->defined.instruction];
        const EchShape *shape = &program->shapes[ech_program_subshape(program, definer->shape, value->defined.position)];
        if (!shape->is_tuple && (shape->count != 1 || (!value->is_phi && is_written(program, definer))))
            return true;
    }
    return false;
}

static EchMemoryAnalysis analyse(const EchProgram *program, const EchProgramAssignment *assignment)
{
    EchMemoryAnalysis m = {0};
    bool tpu = program->platform == ECH_PLATFORM_TPU;
    for (size_t a = 0; a < assignment->n_allocations; a++) {
        const EchAllocation *allocation = &assignment->allocations[a];
        bool host = allocation->space == ECH_SPACE_HOST;
        if (!host && ech_program_memory_of(program, allocation->space) != ECH_SPACE_HBM)
            continue;
        EchBytes bytes = allocation->bytes;
        EchBytes *argument = host ? &m.host_argument : &m.argument, *output = host ? &m.host_output : &m.output;
        EchBytes *alias = host ? &m.host_alias : &m.alias, *temp = host ? &m.host_temp : &m.temp;
        if (allocation->is_parameter)
            *argument = ech_bytes_add(*argument, bytes);
        if (allocation->is_live_out)
            *output = ech_bytes_add(*output, bytes);
        if (allocation->is_parameter && allocation->is_live_out)
            *alias = ech_bytes_add(*alias, bytes);
        if (allocation->is_constant && !host)
            m.constant = ech_bytes_add(m.constant, bytes);
        if (allocation->is_temp) {
            /* The TPU rounds to its heap's alignment, and reports nothing for scalars and tuple tables alone. */
            EchBytes counted = !tpu || host ? bytes : holds_arrays(program, assignment, allocation) ? ech_round_up(bytes, 16384) : 0;
            *temp = ech_bytes_add(*temp, counted);
        }
    }
    m.peak = assignment->peak;
    return m;
}

/* The compiler's peak counts by the order in which it made the assignment, which an assignment that was read does not tell: where ours comes to the same
 * sizes, where there is room for all or where there is not, its peak is the compiler's. 0 where neither does. */
static EchBytes peak_by_rules(const EchProgram *program, const EchProgramAssignment *read)
{
    for (EchBytes limit = 0; limit < 2; limit++) {
        g_autoptr(EchDiag) quiet = ech_diag_new();
        g_autoptr(EchProgramAssignment) made = ech_program_assign(program, limit, quiet, NULL);
        if (!made)
            return 0;
        EchMemoryAnalysis theirs = analyse(program, read), ours = analyse(program, made);
        theirs.peak = ours.peak;
        if (memcmp(&theirs, &ours, sizeof ours) == 0)
            return ours.peak;
    }
    return 0;
}

/* Per space: size of the temporaries' allocation and its largest live sum, from live ranges. */
static void heap_figures(const EchProgram *program, EchProgramAssignment *assignment)
{
    g_autoptr(GArray) heaps = g_array_new(FALSE, TRUE, sizeof(struct EchHeapFigures));
    EchBytes fixed = 0, largest = 0;
    for (size_t a = 0; a < assignment->n_allocations; a++) {
        const EchAllocation *allocation = &assignment->allocations[a];
        if (allocation->is_parameter || allocation->is_constant || allocation->is_live_out)
            fixed = ech_bytes_add(fixed, allocation->bytes);
        if (!allocation->is_temp)
            continue;
        g_autoptr(GArray) spans = g_array_new(FALSE, FALSE, sizeof(Span));
        for (uint32_t k = 0; k < allocation->n_assigned; k++) {
            const EchAssigned *assigned = &assignment->assigned[allocation->first_assigned + k];
            const EchValue *value = assigned->value == ECH_NONE ? NULL : &program->values[assigned->value];
            if (!value || value->start < 0 || assigned->bytes == 0 || program->buffers[value->buffer].is_tuple)
                continue;
            Span span = {value->start, value->end, assigned->offset, assigned->bytes};
            g_array_append_val(spans, span);
        }
        join_spans(spans);
        EchBytes sum = largest_sum(spans);
        largest = MAX(largest, sum);
        /* Slices and the array that they are joined to lie in one place. */
        struct EchHeapFigures heap = {allocation->space, allocation->bytes, MIN(sum, allocation->bytes)};
        g_array_append_val(heaps, heap);
    }
    g_array_sort(heaps, compare_heaps);
    assignment->n_heaps = heaps->len;
    assignment->heaps = (struct EchHeapFigures *)(void *)g_array_free(g_steal_pointer(&heaps), FALSE);
    if (assignment->peak == 0 && !assignment->made)
        assignment->peak = peak_by_rules(program, assignment);
    if (assignment->peak == 0)
        assignment->peak = ech_bytes_add(fixed, largest);
}

void ech_program_set_assignment(EchProgram *program, EchProgramAssignment *assignment, const char *source)
{
    ech_program_assignment_free(program->assignment);
    program->assignment = assignment;
    program->assignment_source = g_string_chunk_insert(program->strings, source);
    for (size_t a = 0; a < assignment->n_allocations; a++) {
        EchAllocation *allocation = &assignment->allocations[a];
        for (uint32_t k = 0; k < allocation->n_assigned; k++) {
            EchId v = assignment->assigned[allocation->first_assigned + k].value;
            if (v != ECH_NONE && program
                                     ->shapes[ech_program_subshape(program, program->instructions[program->values[v].defined.instruction].shape,
                                                                   program->values[v].defined.position)]
                                     .is_tuple)
                allocation->is_tuple = 1;
        }
    }
    if (!assignment->heaps)
        heap_figures(program, assignment);
}

EchBytes ech_program_space_bytes(const EchProgram *program, int32_t space)
{
    EchBytes total = 0;
    for (size_t a = 0; program->assignment && a < program->assignment->n_allocations; a++) {
        if (program->assignment->allocations[a].space == space)
            total = ech_bytes_add(total, program->assignment->allocations[a].bytes);
    }
    return total;
}

EchMemoryAnalysis ech_program_memory_analysis(const EchProgram *program)
{
    return program->assignment ? analyse(program, program->assignment) : (EchMemoryAnalysis){0};
}
