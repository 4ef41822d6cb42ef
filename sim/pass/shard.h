/** @file shard.h
 * What pass shard is asked for, and how it splits what PyTorch runs.
 */
#pragma once
#include "sim/pass/survey.h"

/** Options of pass shard. */
typedef struct {
    uint64_t weights, keep, over; /**< over: devices; 0: as many as its gradients are summed over. */
    char *names, *modules;
    EchBytes above;
} EchShardOptions;

/** Whether an optimizer of PyTorch runs in a trace. */
bool ech_shard_is_pytorch(const EchSurvey *survey);
/** The trace, owned, of a step of PyTorch as torch.distributed.fsdp.fully_shard of repeated modules and of the model would have it, or, without weights, as
 * ZeroRedundancyOptimizer would; a reference to what it was, with a remark, where that cannot be told. */
EchTrace *ech_shard_modules(const EchSurvey *survey, EchTrace *trace, const EchShardOptions *options, EchDiag *diag, GError **error) G_GNUC_WARN_UNUSED_RESULT;
