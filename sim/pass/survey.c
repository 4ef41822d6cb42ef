#include "sim/pass/survey.h"

#include "models/kernel/gpu.h"
#include "models/kernel/stalls.h"
#include "sim/trace/step.h"

#include <string.h>

bool ech_survey_is_host(const EchSurvey *survey, EchId memory)
{
    const char *name = ech_trace_memory(survey->t, memory);
    const EchMemory *known = survey->device != NULL ? ech_device_memory(survey->device, name) : NULL;
    return known != NULL ? known->kind == ECH_MEM_HOST_PINNED || known->kind == ECH_MEM_HOST_PAGEABLE : g_str_has_prefix(name, "host");
}

bool ech_survey_has_places(const EchSurvey *survey)
{
    for (size_t i = 0; i < survey->n_buffers; i++) {
        if (survey->buffers[i].memory == survey->hbm && survey->buffers[i].offset != ECH_OFFSET_NONE)
            return true;
    }
    return false;
}

EchId ech_survey_root(const EchSurvey *survey, EchId buffer)
{
    return buffer == ECH_NONE ? ECH_NONE : ech_buffer_root(survey->buffers, buffer, NULL);
}

EchBytes ech_survey_moved(const EchSurvey *survey, EchId op)
{
    EchBytes bytes = 0;
    for (uint32_t u = 0; u < survey->ops[op].n_uses; u++) {
        const EchUse *use = &survey->uses[survey->ops[op].first_use + u];
        bytes = ech_bytes_add(bytes, survey->buffers[use->buffer].memory == survey->hbm ? use->bytes : 0);
    }
    return bytes;
}

EchTime ech_survey_hbm_time(const EchSurvey *survey, EchBytes bytes)
{
    const EchMemory *hbm = survey->device != NULL ? ech_device_memory(survey->device, "hbm") : NULL;
    return hbm != NULL && hbm->read > 0 ? ech_time_for(bytes, hbm->read) : 0;
}

EchTime ech_survey_work_time(const EchSurvey *survey, EchId op)
{
    const EchOp *o = &survey->ops[op];
    EchTime time = 0;
    for (uint32_t w = 0; survey->device != NULL && w < o->n_work; w++) {
        const EchWork *work = &ech_trace_work(survey->t)[o->first_work + w];
        const EchUnit *unit = ech_device_unit(survey->device, work->unit == ECH_WORK_MATRIX   ? ECH_UNIT_MATRIX
                                                              : work->unit == ECH_WORK_VECTOR ? ECH_UNIT_VECTOR
                                                                                              : ECH_UNIT_TRANSCENDENTAL);
        uint64_t peak = ech_unit_peak(unit, ech_dtype_name((EchDtype)work->dtype));
        if (peak > 0)
            time = MAX(time, ech_time_for(work->count, peak));
    }
    return time;
}

EchTime ech_survey_length(const EchSurvey *survey, EchId op)
{
    const EchOp *o = &survey->ops[op];
    if (o->kind != ECH_OP_KERNEL || o->queue != survey->core)
        return 0;
    if (o->estimate != ECH_TIME_NONE)
        return o->estimate;
    if (o->recorded.duration != ECH_TIME_NONE)
        return o->recorded.duration;
    return MAX(ech_survey_hbm_time(survey, ech_survey_moved(survey, op)), ech_survey_work_time(survey, op));
}

EchId ech_survey_at_level(const EchSurvey *survey, EchId op, EchId region)
{
    while (op != ECH_NONE && survey->region[op] != region)
        op = survey->region[op];
    return op;
}

const char *ech_survey_host_memory(const EchSurvey *survey)
{
    const EchMemory *pinned = survey->tier ? survey->tier : survey->device ? ech_device_memory_kind(survey->device, ECH_MEM_HOST_PINNED) : NULL;
    return pinned ? pinned->name : "host";
}

static EchTime time_over(const EchLink *link, bool forward, EchBytes bytes)
{
    EchRate rate = link == NULL ? 0 : forward ? link->to_device : link->from_device;
    return rate > 0 ? ech_time_add(ech_time_for(bytes, rate), ech_time_add(link->latency, link->setup)) : 0;
}

/* To the device, or NULL. */
static const EchLink *link_from(const EchSurvey *survey, const EchMemory *from, bool *ret_forward)
{
    const EchMemory *hbm = survey->device && from ? ech_device_memory_kind(survey->device, ECH_MEM_HBM) : NULL;
    return hbm ? ech_device_transfer_link(survey->device, from, hbm, ret_forward) : NULL;
}

EchTime ech_survey_copy_time(const EchSurvey *survey, EchBytes bytes, bool to_device)
{
    bool forward = true;
    const EchLink *link = survey->tier ? link_from(survey, survey->tier, &forward) : survey->device ? ech_device_host_link(survey->device, &forward) : NULL;
    return time_over(link, to_device == forward, bytes);
}

bool ech_trace_is_remade(const EchTrace *trace)
{
    const EchOp *ops = ech_trace_ops(trace);
    bool tpu = g_strcmp0(ech_trace_get_property(trace, "platform"), "tpu") == 0, remade = false;
    for (size_t i = 0; i < ech_trace_n_ops(trace) && tpu && !remade; i++)
        remade = ops[i].kind == ECH_OP_KERNEL && strstr(ech_trace_string(trace, ops[i].name), ECH_REMADE) != NULL;
    return remade;
}

EchTime ech_survey_fetch_time(const EchSurvey *survey, EchId from, EchBytes bytes)
{
    bool forward = true;
    const EchMemory *memory = survey->device && from != ECH_NONE ? ech_device_memory(survey->device, ech_trace_memory(survey->t, from)) : NULL;
    const EchLink *link = link_from(survey, memory, &forward);
    return link ? time_over(link, forward, bytes) : ech_survey_copy_time(survey, bytes, true);
}

EchBytes ech_survey_access(const EchSurvey *survey, EchId op, EchId buffer, bool *ret_reads, bool *ret_writes)
{
    EchBytes most = 0;
    *ret_reads = *ret_writes = false;
    for (uint32_t u = 0; u < survey->ops[op].n_uses; u++) {
        const EchUse *use = &survey->uses[survey->ops[op].first_use + u];
        if (use->buffer != buffer && ech_survey_root(survey, use->buffer) != buffer)
            continue;
        most = MAX(most, use->bytes);
        *ret_reads |= use->access == ECH_READ;
        *ret_writes |= use->access == ECH_WRITE;
    }
    return most;
}

bool ech_survey_has_products(const EchSurvey *survey, EchId op)
{
    for (uint32_t w = 0; w < survey->ops[op].n_work; w++)
        if (ech_trace_work(survey->t)[survey->ops[op].first_work + w].unit == ECH_WORK_MATRIX)
            return true;
    return false;
}

bool ech_survey_lies_inside(const EchSurvey *survey, EchId part, EchId whole)
{
    const EchBuffer *p = &survey->buffers[part], *w = &survey->buffers[whole];
    return p->memory == w->memory && p->memory != survey->hbm && p->bytes < w->bytes && p->offset != ECH_OFFSET_NONE && w->offset != ECH_OFFSET_NONE &&
           p->offset >= w->offset && p->offset + p->bytes <= w->offset + w->bytes;
}

bool ech_survey_is_inside(const EchSurvey *survey, EchId part, EchId whole)
{
    return survey->buffers[part].loop == survey->buffers[whole].loop && ech_survey_lies_inside(survey, part, whole);
}

bool ech_survey_begins_in_place(const EchSurvey *survey, EchId old, EchId buffer)
{
    const EchBuffer *o = &survey->buffers[old], *b = &survey->buffers[buffer];
    return ech_survey_is_inside(survey, old, buffer) ||
           (o->loop == b->loop && o->memory == b->memory && o->offset != ECH_OFFSET_NONE && o->offset == b->offset && o->bytes == b->bytes);
}

EchId ech_survey_after(const EchSurvey *survey, EchId op)
{
    return survey->ops[op].kind == ECH_OP_LOOP ? survey->end[op] : op + 1;
}

bool ech_survey_fits_name(const EchSurvey *survey, EchId buffer, const char *pattern)
{
    const EchBuffer *b = &survey->buffers[buffer];
    if (strcmp(pattern, "*") == 0 || g_pattern_match_simple(pattern, ech_trace_string(survey->t, b->name)) ||
        (b->role != ECH_ROLE_UNKNOWN && g_pattern_match_simple(pattern, ech_role_name((EchRole)b->role))))
        return true;
    if (strcmp(pattern, ECH_PRODUCTS) == 0)
        return b->product == ECH_PRODUCT_RESULT;
    if (strcmp(pattern, ECH_STACKS) == 0)
        return survey->is_stack[buffer];
    g_auto(GStrv) lines = g_strsplit(ech_trace_string(survey->t, b->stack), "\n", -1);
    for (char **line = lines; *line; line++)
        if (g_pattern_match_simple(pattern, *line))
            return true;
    return false;
}

GPtrArray *ech_survey_unnamed(const EchSurvey *survey, const char *pattern)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    for (EchId b = 0; b < survey->n_buffers; b++) {
        if (ech_survey_fits_name(survey, b, pattern))
            return NULL;
        const EchBuffer *buffer = &survey->buffers[b];
        const char *known = ech_trace_string(survey->t, buffer->stack);
        if (buffer->resident && buffer->role == ECH_ROLE_PARAMETER)
            g_ptr_array_add(names, *known ? g_strndup(known, strcspn(known, "\n")) : g_strdup(ech_trace_string(survey->t, buffer->name)));
    }
    return g_steal_pointer(&names);
}

uint64_t ech_survey_runs(const EchSurvey *survey, EchId op)
{
    uint64_t runs = 1;
    for (EchId loop = survey->region[op]; loop != ECH_NONE; loop = survey->region[loop])
        runs = ech_bytes_mul(runs, survey->ops[loop].bytes);
    return runs;
}

static void walk(EchSurvey *s)
{
    g_autoptr(GArray) open = g_array_new(FALSE, FALSE, sizeof(EchId));
    g_autofree EchTime *began = g_new0(EchTime, s->n + 1);
    EchTime now = 0;
    EchBytes live = 0;
    for (size_t b = 0; b < s->n_buffers; b++)
        if (s->buffers[b].resident && s->buffers[b].memory == s->hbm && s->buffers[b].alias_of == ECH_NONE)
            live = ech_bytes_add(live, s->buffers[b].bytes);
    for (size_t i = 0; i <= s->n; i++) {
        while (open->len > 0 && s->end[g_array_index(open, EchId, open->len - 1)] == i) {
            EchId loop = g_array_index(open, EchId, open->len - 1);
            /* Its other iterations, or none at all. */
            EchTime body = now - began[loop];
            uint64_t more = s->ops[loop].bytes > 0 ? s->ops[loop].bytes - 1 : 0;
            now = s->ops[loop].bytes > 0 ? now : began[loop];
            if (body > 0 && more > 0)
                now = (uint64_t)body > (uint64_t)INT64_MAX / 4 / more ? INT64_MAX / 4 : now + body * (EchTime)more;
            now = MIN(now, INT64_MAX / 4);
            g_array_set_size(open, open->len - 1);
        }
        s->clock[i] = now;
        s->live[i] = live;
        if (i == s->n)
            break;
        const EchOp *o = &s->ops[i];
        s->region[i] = open->len > 0 ? g_array_index(open, EchId, open->len - 1) : ECH_NONE;
        if (o->kind == ECH_OP_LOOP) {
            EchId loop = (EchId)i;
            s->end[i] = (EchId)(i + 1 + o->target);
            began[i] = now;
            g_array_append_val(open, loop);
        } else if ((o->kind == ECH_OP_ALLOC || o->kind == ECH_OP_FREE) && s->buffers[o->target].memory == s->hbm)
            live = o->kind == ECH_OP_ALLOC ? ech_bytes_add(live, s->buffers[o->target].bytes) : live - MIN(live, s->buffers[o->target].bytes);
        EchTime length = ech_survey_length(s, (EchId)i);
        now = MIN(now + MIN(length, INT64_MAX / 8), INT64_MAX / 4);
    }
}

static void find_stacks(EchSurvey *s)
{
    g_autofree bool *is_written = g_new0(bool, s->n_buffers + 1);
    for (int reads = 0; reads < 2; reads++)
        for (EchId i = 0; i < s->n; i++)
            for (uint32_t u = s->ops[i].first_use; s->region[i] != ECH_NONE && u < s->ops[i].first_use + s->ops[i].n_uses; u++) {
                EchId a = ech_survey_used(s, u);
                bool slice = s->uses[u].bytes > 0 && s->uses[u].bytes <= s->buffers[a].bytes / 2 && s->buffers[a].loop != s->region[i];
                is_written[a] |= !reads && slice && s->uses[u].access == ECH_WRITE;
                s->is_stack[a] |= reads && slice && s->uses[u].access == ECH_READ && is_written[a];
            }
}

bool ech_survey_init(EchSurvey *survey, const EchTrace *trace, const EchDevice *device)
{
    *survey = (EchSurvey){.t = trace,
                          .device = device,
                          .ops = ech_trace_ops(trace),
                          .uses = ech_trace_uses(trace),
                          .deps = ech_trace_deps(trace),
                          .buffers = ech_trace_buffers(trace),
                          .n = ech_trace_n_ops(trace),
                          .n_buffers = ech_trace_n_buffers(trace),
                          .hbm = ech_trace_find_memory(trace, "hbm"),
                          .core = ECH_NONE};
    for (size_t i = 0; i < survey->n; i++) {
        EchId queue = survey->ops[i].kind == ECH_OP_KERNEL ? survey->ops[i].queue : ECH_NONE;
        if (queue != ECH_NONE && queue < survey->core && ech_trace_queues(trace)[queue].kind == ECH_QUEUE_COMPUTE)
            survey->core = queue;
    }
    if (survey->hbm == ECH_NONE || survey->core == ECH_NONE)
        return false;
    survey->region = g_new0(EchId, survey->n + 1);
    survey->end = g_new0(EchId, survey->n + 1);
    survey->clock = g_new0(EchTime, survey->n + 1);
    survey->live = g_new0(EchBytes, survey->n + 1);
    survey->region[survey->n] = ECH_NONE;
    survey->is_stack = g_new0(bool, survey->n_buffers + 1);
    walk(survey);
    find_stacks(survey);
    return true;
}

void ech_survey_clear(EchSurvey *survey)
{
    g_clear_pointer(&survey->region, g_free);
    g_clear_pointer(&survey->end, g_free);
    g_clear_pointer(&survey->clock, g_free);
    g_clear_pointer(&survey->live, g_free);
    g_clear_pointer(&survey->is_stack, g_free);
}

void ech_users_init(EchUsers *users, const EchSurvey *survey, bool roots, bool writes)
{
    users->first = g_new0(uint32_t, survey->n_buffers + 2);
    users->op = NULL;
    g_autofree EchId *last = g_new(EchId, survey->n_buffers + 1);
    for (int filling = 0; filling < 2; filling++) {
        for (size_t b = 0; b < survey->n_buffers; b++)
            last[b] = ECH_NONE;
        for (EchId i = 0; i < survey->n; i++)
            for (uint32_t u = 0; u < survey->ops[i].n_uses; u++) {
                const EchUse *use = &survey->uses[survey->ops[i].first_use + u];
                EchId b = roots ? ech_survey_root(survey, use->buffer) : use->buffer;
                if (last[b] == i || (writes && use->access != ECH_WRITE))
                    continue;
                last[b] = i;
                if (filling)
                    users->op[users->first[b + 1]++] = i;
                else
                    users->first[b + 2]++;
            }
        if (filling)
            break;
        for (size_t b = 0; b < survey->n_buffers; b++)
            users->first[b + 2] += users->first[b + 1];
        users->op = g_new(EchId, users->first[survey->n_buffers + 1] + 1);
    }
}

bool ech_users_of_arrays(const EchUsers *users, const EchSurvey *survey)
{
    const EchBuffer *buffers = ech_trace_buffers(survey->t);
    for (EchId b = 0; b < survey->n_buffers; b++) {
        if (buffers[b].resident && buffers[b].bytes > 0 && users->first[b + 1] > users->first[b])
            return true;
    }
    for (EchId i = 0; i < survey->n; i++) {
        EchId b = survey->ops[i].target;
        if (survey->ops[i].kind == ECH_OP_ALLOC && users->first[b + 1] > users->first[b])
            return true;
    }
    return false;
}

char *ech_users_untold(const EchSurvey *survey)
{
    static const char untold[] = "it does not say which arrays its operations use";
    g_autofree char *program = ech_trace_get_property(survey->t, ECH_PROGRAMS_BESIDE) ? ech_trace_main_program(survey->t) : NULL;
    return program ? g_strdup_printf("%s; the program that the profile holds does: 'echelon import FILE --program %s -o program.hlo.pb'", untold, program)
                   : g_strdup(untold);
}

void ech_users_clear(EchUsers *users)
{
    g_clear_pointer(&users->first, g_free);
    g_clear_pointer(&users->op, g_free);
}

EchId ech_edit_text(EchEdit *edit, EchId string)
{
    return string == ECH_NONE ? ECH_NONE : ech_trace_builder_string(edit->builder, ech_trace_string(edit->survey->t, string), -1);
}

/* A dependency on what is not written yet. */
typedef struct {
    uint32_t dep;   /* as EchOp.first_dep counts */
    EchId from, on; /* new and old number */
} Ahead;

void ech_edit_init(EchEdit *edit, const EchSurvey *survey, EchTraceBuilder *builder)
{
    *edit = (EchEdit){.survey = survey,
                      .builder = builder,
                      .map = g_new(EchId, survey->n + 1),
                      .asks = ECH_NONE,
                      .last_core = ECH_NONE,
                      .host = ECH_NONE,
                      .waited = ECH_NONE,
                      .ahead = g_array_new(FALSE, FALSE, sizeof(Ahead))};
    for (size_t i = 0; i <= survey->n; i++)
        edit->map[i] = ECH_NONE;
    const EchTrace *t = survey->t;
    for (size_t i = 0; i < survey->n && !edit->tells_operators; i++)
        edit->tells_operators = ech_op_operators(t, &survey->ops[i]) > 0;
    for (size_t m = 0; m < ech_trace_n_memories(t); m++)
        (void)ech_trace_builder_memory(builder, ech_trace_memory(t, (EchId)m));
    for (size_t q = 0; q < ech_trace_n_queues(t); q++) {
        const EchQueue *queue = &ech_trace_queues(t)[q];
        (void)ech_trace_builder_queue(builder, ech_trace_string(t, queue->name), (EchQueueKind)queue->kind, queue->device);
    }
    const char *key, *value;
    for (size_t i = 0; (key = ech_trace_property(t, i, &value)) != NULL; i++)
        ech_trace_builder_set_property(builder, key, value);
    ech_trace_builder_drop_properties(builder, "buffer_assignment");
    for (size_t b = 0; b < survey->n_buffers; b++) {
        EchBuffer buffer = survey->buffers[b];
        buffer.name = ech_edit_text(edit, buffer.name);
        buffer.pool = ech_edit_text(edit, buffer.pool);
        buffer.stack = ech_edit_text(edit, buffer.stack);
        buffer.shape = ech_edit_text(edit, buffer.shape);
        if (buffer.memory == survey->hbm)
            buffer.offset = ECH_OFFSET_NONE;
        (void)ech_trace_builder_buffer(builder, buffer);
    }
}

void ech_edit_keep_places(EchEdit *edit)
{
    static const char made_by[] = "buffer_assignment";
    const char *source = ech_trace_get_property(edit->survey->t, made_by);
    if (source)
        ech_trace_builder_set_property(edit->builder, made_by, source);
    for (size_t b = 0; b < edit->survey->n_buffers; b++)
        ech_trace_builder_peek_buffer(edit->builder, (EchId)b)->offset = edit->survey->buffers[b].offset;
}

void ech_edit_clear(EchEdit *edit)
{
    g_clear_pointer(&edit->map, g_free);
    g_clear_pointer(&edit->heard, g_free);
    g_clear_pointer(&edit->ahead, g_array_unref);
}

EchOp ech_edit_op(EchEdit *edit, EchId op)
{
    EchOp o = edit->survey->ops[op];
    o.name = ech_edit_text(edit, o.name);
    o.stack = ech_edit_text(edit, o.stack);
    o.launch = ech_edit_text(edit, o.launch);
    return o;
}

void ech_edit_keep(EchEdit *edit, EchId op)
{
    const EchSurvey *s = edit->survey;
    const EchOp *o = &s->ops[op];
    edit->map[op] = ech_trace_builder_op(edit->builder, ech_edit_op(edit, op));
    for (uint32_t u = o->first_use; u < o->first_use + o->n_uses; u++)
        ech_trace_builder_use(edit->builder, s->uses[u].buffer, (EchAccess)s->uses[u].access, s->uses[u].bytes, (EchPattern)s->uses[u].pattern,
                              (EchOrigin)s->uses[u].origin);
    for (uint32_t d = o->first_dep; d < o->first_dep + o->n_deps; d++)
        ech_edit_dep(edit, &s->deps[d], 0);
    ech_edit_work(edit, op, 1);
}

EchId ech_edit_memory(EchEdit *edit, EchOpKind kind, EchId buffer)
{
    const EchBuffer *b = ech_trace_builder_peek_buffer(edit->builder, buffer);
    EchOp o = ech_op_init(kind);
    o.target = buffer;
    o.bytes = b->bytes;
    o.bytes_origin = ECH_INFERRED;
    bool apart = edit->asks != ECH_NONE && edit->last_core != ECH_NONE;
    o.queue = apart ? edit->asks : edit->survey->core;
    o.name = b->name;
    EchId op = ech_trace_builder_op(edit->builder, o);
    if (apart) /* by turns with the rest of it, behind what the core was asked for */
        ech_trace_builder_dep(edit->builder, edit->last_core, 0);
    else
        edit->last_core = op;
    return op;
}

void ech_edit_move_buffer(EchBuffer *buffer, EchId memory)
{
    buffer->memory = memory;
    buffer->offset = ECH_OFFSET_NONE;
    buffer->rounded = 0;
    buffer->address = ECH_OFFSET_NONE;
    buffer->pool = buffer->segment = ECH_NONE;
}

EchId ech_edit_copy_queue(EchEdit *edit, bool to_host)
{
    const EchTrace *t = edit->survey->t;
    const char *name = to_host ? "dma hbm>host" : "dma host>hbm";
    for (EchId q = 0; q < ech_trace_n_queues(t); q++)
        if (strcmp(ech_trace_string(t, ech_trace_queues(t)[q].name), name) == 0)
            return q;
    return ech_trace_builder_queue(edit->builder, name, ECH_QUEUE_COPY, ech_trace_queues(t)[edit->survey->core].device);
}

EchId ech_edit_copy(EchEdit *edit, EchId queue, EchId from, EchId to, EchBytes bytes)
{
    const EchBuffer *source = ech_trace_builder_peek_buffer(edit->builder, from);
    EchOp o = ech_op_init(ECH_OP_COPY);
    o.name = source->name;
    o.stack = source->stack;
    o.queue = queue;
    o.memory_from = source->memory;
    o.memory_to = ech_trace_builder_peek_buffer(edit->builder, to)->memory;
    o.bytes = bytes;
    o.bytes_origin = ECH_INFERRED;
    EchId made = ech_trace_builder_op(edit->builder, o);
    ech_trace_builder_use(edit->builder, from, ECH_READ, bytes, ECH_PATTERN_STREAM, ECH_INFERRED);
    ech_trace_builder_use(edit->builder, to, ECH_WRITE, bytes, ECH_PATTERN_STREAM, ECH_INFERRED);
    if (edit->last_core != ECH_NONE)
        ech_trace_builder_dep(edit->builder, edit->last_core, 0);
    return made;
}

void ech_edit_work(EchEdit *edit, EchId op, uint64_t parts)
{
    const EchOp *o = &edit->survey->ops[op];
    for (uint32_t k = 0; k < o->n_work; k++) {
        const EchWork *work = &ech_trace_work(edit->survey->t)[o->first_work + k];
        ech_trace_builder_work(edit->builder, (EchWorkUnit)work->unit, (EchDtype)work->dtype, work->count / parts, (EchOrigin)work->origin);
    }
}

EchId ech_edit_launch(EchEdit *edit, EchId launch, uint64_t parts)
{
    const char *was = ech_trace_string(edit->survey->t, launch);
    g_autoptr(GString) now = g_string_new(NULL);
    EchKernelInside inside;
    EchGpuLaunch gpu;
    if (ech_kernel_inside_parse(was, &inside)) {
        for (unsigned k = 0; k < ECH_N_STALLS; k++)
            inside.stalls.at[k] /= (EchTime)parts;
        ech_kernel_inside_print(&inside, now);
    } else if (ech_gpu_launch_parse(was, &gpu)) {
        gpu.grid[0] = (uint32_t)((gpu.grid[0] + parts - 1) / parts);
        gpu.elements /= parts;
        gpu.rows /= parts;
        g_autofree char *changed = ech_gpu_launch_change(was, &gpu);
        g_string_append(now, changed);
    } else
        return ech_edit_text(edit, launch);
    return ech_trace_builder_string(edit->builder, now->str, (gssize)now->len);
}

void ech_edit_operators(EchEdit *edit, EchOp *op, uint64_t operators)
{
    if (!edit->tells_operators)
        return;
    g_autofree char *launch = ech_launch_with_operators(op->launch == ECH_NONE ? "" : ech_trace_builder_peek_string(edit->builder, op->launch), operators);
    op->launch = *launch ? ech_trace_builder_string(edit->builder, launch, -1) : ECH_NONE;
}

void ech_edit_host(EchEdit *edit)
{
    const EchSurvey *s = edit->survey;
    if (!ech_trace_get_property(s->t, "host_order"))
        return;
    for (EchId i = 0; i < s->n && edit->host == ECH_NONE; i++)
        if (s->ops[i].kind == ECH_OP_WAIT && s->ops[i].queue != ECH_NONE && ech_trace_queues(s->t)[s->ops[i].queue].kind == ECH_QUEUE_HOST)
            edit->host = s->ops[i].queue;
    if (edit->host == ECH_NONE)
        edit->host = ech_trace_builder_queue(edit->builder, "host", ECH_QUEUE_HOST, ech_trace_queues(s->t)[s->core].device);
    const size_t n = ech_trace_builder_n_queues(edit->builder);
    edit->heard = g_new(EchId, n);
    memset(edit->heard, 0xff, n * sizeof *edit->heard);
}

void ech_edit_host_wait(EchEdit *edit, EchId op)
{
    if (edit->host == ECH_NONE)
        return;
    EchOp wait = ech_op_init(ECH_OP_WAIT);
    wait.queue = edit->host;
    wait.name = ech_trace_builder_peek_op(edit->builder, op)->name;
    edit->waited = ech_trace_builder_op(edit->builder, wait);
    ech_trace_builder_dep(edit->builder, op, 0);
}

void ech_edit_asked(EchEdit *edit, EchId queue)
{
    if (edit->waited == ECH_NONE || edit->heard[queue] == edit->waited)
        return;
    ech_trace_builder_dep(edit->builder, edit->waited, 0);
    edit->heard[queue] = edit->waited;
}

void ech_edit_close(EchEdit *edit, EchId loop)
{
    ech_trace_builder_peek_op(edit->builder, loop)->target = (EchId)(ech_trace_builder_n_ops(edit->builder) - loop - 1);
    edit->last_core = loop;
}

void ech_edit_dep(EchEdit *edit, const EchDep *dep, uint32_t more)
{
    EchId on = edit->map[dep->op];
    if (on == ECH_NONE && dep->distance == 0)
        return;
    ech_trace_builder_dep(edit->builder, on, dep->distance + more);
    if (on != ECH_NONE)
        return;
    Ahead ahead = {.from = (EchId)ech_trace_builder_n_ops(edit->builder) - 1, .on = dep->op};
    const EchOp *from = ech_trace_builder_peek_op(edit->builder, ahead.from);
    ahead.dep = from->first_dep + from->n_deps - 1;
    g_array_append_val(edit->ahead, ahead);
}

void ech_edit_loops(EchEdit *edit, size_t n)
{
    for (guint i = 0; i < edit->ahead->len; i++) {
        const Ahead *ahead = &g_array_index(edit->ahead, Ahead, i);
        EchId on = edit->map[ahead->on];
        /* Left out after all: its own iteration before, which is over when this one begins. */
        ech_trace_builder_peek_dep(edit->builder, ahead->dep)->op = on != ECH_NONE ? on : ahead->from;
    }
    for (size_t b = 0; b < n; b++)
        if (edit->survey->buffers[b].loop != ECH_NONE)
            ech_trace_builder_peek_buffer(edit->builder, (EchId)b)->loop = edit->map[edit->survey->buffers[b].loop];
}
