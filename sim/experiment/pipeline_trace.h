/** @file pipeline_trace.h
 * A tile pipeline as a trace: every copy and every compute an op of its own, so that an engine replays what the recurrence computes. */
#pragma once
#include "models/kernel/pipeline.h"
#include "sim/trace/trace.h"

/** The trace of a pipeline: queues "core", "copies in" and "copies out", ops with their durations as recorded times (replay with
 * kernel_time=recorded). A copy's latency is an op behind it on a queue of its own. ECH_ERROR_CONFIG where the pipeline is not sound or too long. */
EchTrace *ech_pipeline_trace(const EchPipeline *pipeline, GError **error) G_GNUC_WARN_UNUSED_RESULT;
