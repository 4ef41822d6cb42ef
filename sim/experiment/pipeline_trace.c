/* Activities of a tile pipeline as ops. */
#include "sim/experiment/pipeline_trace.h"

/* As many copies of one array can be under way as it has buffers; each lands on a queue of its own. */
static uint32_t landings_of(const EchPipeline *pipeline, uint32_t operand)
{
    uint32_t buffers = pipeline->operands[operand].buffers;
    return (buffers > 0 ? buffers : 2) + 1;
}

EchTrace *ech_pipeline_trace(const EchPipeline *pipeline, GError **error)
{
    g_autoptr(EchPipelineExpansion) expansion = ech_pipeline_expand(pipeline, error);
    if (expansion == NULL)
        return NULL;
    static const char *const names[] = {"compute", "copy in", "copy out"}, *const queue_names[] = {"core", "copies in", "copies out"};
    g_autoptr(EchTraceBuilder) builder = ech_trace_builder_new("pipeline");
    EchId queues[3], strings[3];
    for (unsigned i = 0; i < 3; i++) {
        queues[i] = ech_trace_builder_queue(builder, queue_names[i], i == 0 ? ECH_QUEUE_COMPUTE : ECH_QUEUE_COPY, 0);
        strings[i] = ech_trace_builder_string(builder, names[i], -1);
    }
    EchId landing = ech_trace_builder_string(builder, "landing", -1);
    g_autofree EchId *ends = g_new(EchId, MAX(expansion->n_activities, 1));
    uint32_t landed[ECH_PIPELINE_MAX_OPERANDS] = {0};
    for (size_t i = 0; i < expansion->n_activities; i++) {
        const EchPipelineActivity *activity = &expansion->activities[i];
        EchOp op = ech_op_init(ECH_OP_KERNEL);
        op.name = strings[activity->kind];
        op.queue = queues[activity->queue];
        op.recorded.duration = activity->duration;
        ends[i] = ech_trace_builder_op(builder, op);
        for (uint32_t d = 0; d < activity->n_dependencies; d++)
            ech_trace_builder_dep(builder, ends[expansion->dependencies[activity->first_dependency + d]], 0);
        if (activity->tail > 0) {
            g_autofree char *queue =
                g_strdup_printf("landing %u.%u", activity->operand, landed[activity->operand]++ % landings_of(pipeline, activity->operand));
            EchOp tail = ech_op_init(ECH_OP_KERNEL);
            tail.name = landing;
            tail.queue = ech_trace_builder_queue(builder, queue, ECH_QUEUE_COPY, 0);
            tail.recorded.duration = activity->tail;
            EchId copy = ends[i];
            ends[i] = ech_trace_builder_op(builder, tail);
            ech_trace_builder_dep(builder, copy, 0);
        }
    }
    return ech_trace_builder_finish(builder, error);
}
