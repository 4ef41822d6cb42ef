/** @file shard.h
 * What pass shard is asked for, and a training step of PyTorch as it splits it: which units of modules there are, what is run of each when, and what arrays
 * are.
 */
#pragma once
#include "sim/pass/modules.h"

/** Options of pass shard. */
typedef struct {
    uint64_t weights, keep, over; /**< over: devices; 0: as many as its gradients are summed over; fewer: groups of them,
                                     each with all of it in parts (HSDP). */
    char *names, *modules;
    EchBytes above;
} EchShardOptions;

/** The unit of what is in no other; and what is in no module, a loss, say. */
#define ECH_SHARD_ROOT 0u
#define ECH_SHARD_OUTSIDE UINT32_MAX

/** What is run of a unit at a time: of its forward pass what follows one upon the other, of its backward pass all. */
typedef struct {
    uint32_t unit;
    bool backward;
    EchId first, last; /**< Ops. */
    GArray *sources;   /**< EchId: gradients, whole. */
    GArray *targets;   /**< EchId: gradients kept from step to step that they are added to. */
} EchShardTurn;

/** A bucket that gradients of a unit are in. */
typedef struct {
    EchId bucket;
    uint32_t unit;
} EchShardFeed;

/** What is gathered at a time. */
typedef struct {
    const char *line; /**< "nn.Module: blocks.2 (Block)", of n bytes, borrowed; NULL: the root. */
    size_t n;
    GArray *weights; /**< EchId */
    EchBytes bytes;
} EchShardUnit;

typedef struct {
    const EchSurvey *s;
    EchUsers users;
    uint32_t over;        /**< Devices. */
    uint32_t groups;      /**< Of so many each, all of which hold the same, and sum up what each has summed up. */
    uint32_t all;         /**< Devices that its gradients are summed over as it is; 0: none. */
    EchBytes most, total; /**< Where weights stay whole: bytes of those that the device updates which has most to do, and of all; 0, 0: each does as much. */
    char *launch;         /**< Of collectives among so many devices. */
    char *across;         /**< Of those between groups. */
    GArray *units;        /**< EchShardUnit */
    GArray *turns;        /**< EchShardTurn, by their first op. */
    GArray *feeds;        /**< EchShardFeed, by bucket, of what optimizers read. */
    GHashTable *fed;      /**< Those, bucket and unit in one. */
    uint8_t *part;        /**< Per op: EchPart. */
    uint32_t *unit;       /**< Per op: that it stands in. */
    bool *adds;           /**< Per op: it adds a gradient to what is there. */
    bool *syncs;          /**< Per op: it sums gradients up over devices, or brings them to where that is done, or back. */
    uint32_t *owner;      /**< Per buffer: 1 + the unit of a weight; 0: it is none. */
    uint32_t *home;       /**< Per buffer: 1 + the unit whose gradients it holds, whole; 0: none's. */
    uint32_t *first_feed; /**< Per bucket that feeds: the first of those; else UINT32_MAX. */
    EchId *alloc;         /**< Per buffer: the op that asks for it; ECH_NONE: none, or several do. */
    bool *is_state;       /**< Per buffer: an optimizer's, or an average of weights. */
    bool *is_handed;      /**< Per buffer: made by an optimizer for itself. */
    bool *is_read;        /**< Per buffer: by an optimizer. */
    bool *is_gradient;    /**< Per buffer: an optimizer reads it, and a backward pass wrote it. */
    bool *is_bucket;      /**< Per buffer: what is summed up over devices, and holds copies of gradients, or those themselves. */
    bool *is_left;        /**< Per buffer: a library's, for nothing but sums that are no more. */
    bool *lasts;          /**< Per buffer: it is there before anything runs of modules, until nothing does. */
    bool *has_parts;      /**< Per buffer: some of it goes by another name; it stays whole. */
} EchShardStep;

static inline EchShardUnit *ech_shard_unit(const EchShardStep *step, uint32_t unit)
{
    return &g_array_index(step->units, EchShardUnit, unit);
}
static inline EchShardTurn *ech_shard_turn(const EchShardStep *step, uint32_t turn)
{
    return &g_array_index(step->turns, EchShardTurn, turn);
}

/** Whether an optimizer of PyTorch runs in a trace. */
bool ech_shard_is_pytorch(const EchSurvey *survey);
/** The trace, owned, of a step of PyTorch as torch.distributed.fsdp.fully_shard of repeated modules and of the model would have it, or, without weights, as
 * ZeroRedundancyOptimizer would; a reference to @trace, with a remark, where that cannot be told. */
EchTrace *ech_shard_modules(const EchSurvey *survey, EchTrace *trace, const EchShardOptions *options, EchDiag *diag, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/** That trace of @step, whose units are of @modules. */
EchTrace *ech_shard_write(const EchShardStep *step, const EchShardOptions *options, const char *modules, EchDiag *diag,
                          GError **error) G_GNUC_WARN_UNUSED_RESULT;
