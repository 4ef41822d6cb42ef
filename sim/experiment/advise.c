#include "sim/experiment/advise.h"

#include "models/kernel/gpu.h"
#include "sim/base/error.h"
#include "sim/base/file.h"
#include "sim/base/tally.h"
#include "sim/experiment/devices.h"
#include "sim/experiment/experiment_private.h"
#include "sim/experiment/served.h"
#include "sim/experiment/spread.h"
#include "sim/experiment/torch_measures.h"
#include "sim/import/hlo.h"
#include "sim/pass/batch.h"
#include "sim/pass/modules.h"
#include "sim/pass/remat.h"
#include "sim/pass/schedule.h"
#include "sim/program/softmax.h"
#include "sim/report/devices.h"
#include "sim/report/explain.h"
#include "sim/report/json_out.h"
#include "sim/report/ranks.h"
#include "sim/report/text.h"
#include "sim/trace/ranges.h"
#include "sim/trace/select.h"
#include "sim/trace/step.h"

#include <string.h>

/* Attention's scores are told from one part in SCORES of what is needed on. */
enum { SCORES = 8 };

enum { MOST_DEVICES = 3, MOST_LINES = 5 };

/* Batches are tried up to so many times as large as the one there is; so many at a time; and row by row where there are no more, since each is run. */
enum { MOST_TIMES = 64, PROBES = 3, MOST_ROWS = 32 };

/* Memory that nobody runs short of. */
#define ROOMY "64TiB"

static const char prefetch[] = "prefetch";
/* Only where a program is compiled; what is no program of XLA's is fetched ahead instead. */
static const char donate[] = "donate", slice[] = "slice", schedule[] = "schedule", shard[] = "shard";

/* What is handed to passes as what they may need, in per cent of what there is: all of it where plans and allocators want no more, less where they do; less
 * still where it would fit but may not, as compilers have it, or where what is free is in pieces. At last nothing is fetched ahead, which takes memory, too. */
static const unsigned goals[] = {100, 92, 80, 65, 92};
enum { NARROW_GOAL = 3 };

/* What fits and takes more than so many times as long is dear: more is tried. */
#define DEAR 1.5

/* Where kernels that there are need more than so many times what there is, no policy has been seen to do (validation/what_ifs.md). */
#define POLICY_MARGIN 1.5

/* Devices that work at once for no more than one part in so many of a step take turns. */
#define BESIDE 10

/* Times that differ by less than one part in so many are not told apart. */
#define AS_QUICK 20

/* When a measure is tried. */
typedef enum {
    ALWAYS,
    FRAGMENTED, /* where what is live would have room */
    LAST,       /* where nothing that was tried by then is enough, or only what is dear */
    SHORT,      /* where it does not fit: with no more than that takes */
    MORE,       /* where it does not fit, and one device runs it: on several */
    PAGED       /* where it does not fit an NVIDIA GPU: slow, but no change to the program */
} When;

typedef struct {
    const char *name, *label;
    const char *passes[5];           /* NULL-terminated; after BLOCKS come the modules that a program repeats; place is for TPUs alone */
    size_t n_goals;                  /* of its first passes, slice aside, how many take memory= */
    const char *allocator;           /* or NULL */
    const char *in_jax, *in_pytorch; /* NULL: nothing that such a program could do; "": only of what is no program of XLA's; */
    const char *in_inference;        /* and where PyTorch has no backward pass to run */
    When when;
} Measure;

#define BLOCKS "remat:modules="
/* Tried late: training rounds otherwise then. */
#define IN_8_BITS "fuse:state=8bit"
#define EIGHT_BITS                                                                                                                                             \
    "bitsandbytes.optim.AdamW8bit(...) in place of torch.optim.AdamW (of others their like there; of transformers' Trainer optim=\"adamw_bnb_8bit\"): its "    \
    "state is rounded to 8 bits"
/* With how many: as many as a batch has rows. */
#define ROW_BY_ROW "batch:parts="
#define LOSS "batch:what=loss"
#define LOSS_IN_EIGHT LOSS ",parts=8"
/* What blocks of a loop begin with, it stacks. */
#define INPUTS "offload:what=activations,idle=0,names=" ECH_STACKS
#define BY_LAYER_TPU "offload:what=arguments,overlap=true"

/* With the name of the argument after it, where it is known. */
#define DONATE "jax.jit(step, donate_argnames="

static const char blocks_cheap[] = "remat_blocks_cheap", fused_optimizer[] = "fused_optimizer";
/* What saves less than one part in so many of what is needed is not said to save any. */
enum { WORTH = 100 };
/* From which share on of its products that a program makes again its checkpoints have no policy, or one that keeps no product. */
#define MOST_AGAIN 0.6
static const char again_whole[] = "remat_and_arguments", again_by_layer[] = "remat_and_arguments_by_layer";
static const char fetched_later[] = "schedule"; /* of what waits on the host already */
static const char parts_in_turn[] = "parts_in_turn", weights_ahead[] = "weights_ahead";
static const char remat[] = "remat", remat_cheap[] = "remat_cheap", remat_between[] = "remat_between", offload_products[] = "offload_products";
static const char inputs_on_host[] = "inputs_on_host"; /* of blocks that are checkpointed */

#define JAX_CHECKPOINT "jax.checkpoint(block), around each block of layers; of a jax.lax.scan over layers around its body, with prevent_cse=False"
#define JAX_NO_POLICY "jax.checkpoint(block) without the policy that it has, or with one that keeps less"
#define JAX_POLICY "jax.checkpoint(block, policy=jax.checkpoint_policies."
#define OFFLOAD_PRODUCTS                                                                                                                                       \
    JAX_POLICY "offload_dot_with_no_batch_dims(\"device\", \"pinned_host\")), and convolutions by name: "                                                      \
               "save_and_offload_only_these_names with jax.ad_checkpoint.checkpoint_name"
#define OFFLOAD_NAMES                                                                                                                                          \
    JAX_POLICY "save_and_offload_only_these_names(names_which_can_be_saved=[], names_which_can_be_offloaded=[\"big\"], offload_src=\"device\", "               \
               "offload_dst=\"pinned_host\")), in the block x = checkpoint_name(x, \"big\") (from jax.ad_checkpoint import checkpoint_name)"
/* XLA's defaults; what a program of that memory would have been compiled to. */
#define SCHEDULED                                                                                                                                              \
    "compile it for a device of that memory: XLA's scheduler keeps what comes from the host to 95 % of it, or of as much as "                                  \
    "xla_gpu_memory_limit_slop_factor or xla_tpu_scheduler_percent_shared_memory_limit say (compiler_options of .compile())"
#define STATE "optimizer state (weights come back whole)"
/* Of a program that trains nothing. */
#define GIVEN "weights, a cache or what else it is given"
#define PINNED_HOST STATE " with sharding.with_memory_kind(\"pinned_host\"), in the step jax.device_put to the device and, updated, back"
#define BY_LAYER                                                                                                                                               \
    "optimizer state (weights, too, where a jax.lax.scan runs over their layers) with sharding.with_memory_kind(\"pinned_host\"), and the update in a "        \
    "jax.lax.fori_loop over layers that carries state and weights: of each jax.lax.dynamic_index_in_dim(a, i, 0, keepdims=False), what waits on the host "     \
    "through jax.device_put to the device and, updated, back, and jax.lax.dynamic_update_index_in_dim"
#define SHARD                                                                                                                                                  \
    "weights and optimizer state with jax.sharding.NamedSharding(mesh, P(axis)), of the axis that splits the batch, in in_shardings and out_shardings of the " \
    "step; before the loss jax.lax.with_sharding_constraint of the weights, in the type that products read them in, to what they had (P()), after it of the "  \
    "gradients to P(axis) (ZeRO-1)"
#define KEEPING_PRODUCTS                                                                                                                                       \
    ", with context_fn=lambda: create_selective_checkpoint_contexts(policy), whose policy is MUST_SAVE for products, convolutions and attention "              \
    "(torch.ops.aten.mm.default, addmm, bmm, convolution, ...), else PREFER_RECOMPUTE"
#define TORCH_PARTS                                                                                                                                            \
    "torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False) for parts of the model; what torch.compile compiles: "                                    \
    "torch._functorch.config.activation_memory_budget below 1"
#define ON_STREAMS "copies of saved tensors on a stream of their own: torchtune's OffloadActivations(), activation_offloading=True of TRL"
#define HOST_OPTIMIZER "torchao.optim.CPUOffloadOptimizer(model.parameters(), torch.optim.AdamW), DeepSpeed's ZeRO-Offload"
#define AVERAGES "offload:what=saved,names=weight_copy"
#define HOST_AVERAGES                                                                                                                                          \
    "the average on the host but while it is brought up to date: of diffusers' EMAModel pin_memory() once, then ema.to(\"cuda\", non_blocking=True); "         \
    "ema.step(model.parameters()); ema.to(\"cpu\", non_blocking=True) (--offload_ema of its scripts); timm's ModelEmaV3(model, device=\"cpu\"), slower than "  \
    "told"
#define CPU_OFFLOAD                                                                                                                                            \
    "torch.distributed.fsdp.fully_shard(block, offload_policy=CPUOffloadPolicy()) of each block and the model, which takes the optimizer along (one GPU is "   \
    "a world of one; without fused=True its step on the host takes two to three times as long), DeepSpeed's ZeRO-3 with offload_param"
#define ACCUMULATE                                                                                                                                             \
    "for each part of the batch (loss / parts).backward(), then one optimizer.step(): gradient_accumulation_steps of transformers' Trainer and accelerate, "   \
    "accumulate_grad_batches of Lightning, with the batch divided by that; under DistributedDataParallel all but the last within model.no_sync()"
#define LOSS_IN_PARTS                                                                                                                                          \
    "the last layer and the loss for some rows at a time: use_liger_kernel=True of transformers' Trainer and TRL, "                                            \
    "liger_kernel.transformers.LigerFusedLinearCrossEntropyLoss()(head.weight, x, labels) in place of head and cross_entropy, torchtune's "                    \
    "LinearCrossEntropyLoss"
#define LOSS_IN_EIGHTHS                                                                                                                                        \
    "the last layer and the loss of an eighth of the rows at a time: h = x.detach().requires_grad_(); for a, b in zip(h.chunk(8), labels.chunk(8)): "          \
    "(cross_entropy(head(a), b, reduction=\"sum\") / rows).backward(); then x.backward(h.grad)"
#define JAX_LOSS_IN_EIGHTHS                                                                                                                                    \
    "the last product and the loss of an eighth of the rows at a time: jax.lax.scan(jax.checkpoint(f), 0.0, (x.reshape(8, -1, x.shape[-1]), "                  \
    "labels.reshape(8, -1))), f(total, (a, b)): (total + loss(a @ head, b).sum(), None); where head is the table of embeddings, "                              \
    "jnp.einsum(\"rd,vd->rv\", a, table) for a @ table.T, whose gradient would be turned round and be there twice"
#define LOSS_OF_PAIRS                                                                                                                                          \
    "the loss of some rows of one side at a time against all of the other, and the other way round: A, B = a.detach().requires_grad_(), "                      \
    "b.detach().requires_grad_(); for p, l in zip(A.chunk(8), labels.chunk(8)): (cross_entropy(p @ B.T, l, reduction=\"sum\") / rows).backward(); likewise "   \
    "of B and A.T; then torch.autograd.backward([a, b], [A.grad, B.grad])"
#define ZERO_OPTIMIZER "torch.distributed.optim.ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW); DeepSpeed's ZeRO-1"
#define SHARDS "before the optimizer is made, not DistributedDataParallel; DeepSpeed's ZeRO-"
#define MIXED " (with mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16) in place of autocast less than is told)"
#define FULLY_SHARD "torch.distributed.fsdp.fully_shard(block) of each block, then of the model, " SHARDS "3" MIXED
#define FULLY_SHARD_ONCE "torch.distributed.fsdp.fully_shard(block, reshard_after_forward=False) of each block, then of the model, " SHARDS "2" MIXED
#define HOST_WEIGHTS "accelerate.cpu_offload(model, \"cuda\"); of a pipeline of diffusers pipe.enable_sequential_cpu_offload()"
#define HOST_AHEAD                                                                                                                                             \
    "diffusers.hooks.apply_group_offloading(model, onload_device=torch.device(\"cuda\"), offload_type=\"leaf_level\", use_stream=True), of any "               \
    "torch.nn.Module; of a pipeline of diffusers pipe.enable_group_offload() with these"
#define HOST_PARTS "pipe.enable_model_cpu_offload() of diffusers; else part.to(\"cuda\") before its calls and part.to(\"cpu\") behind them"
#define HOST_SOME "from_pretrained(..., device_map=\"auto\", max_memory={0: ..., \"cpu\": ...}), or accelerate's infer_auto_device_map and dispatch_model"
#define HOST_SERVED "--cpu-offload-gb, in GiB, of vLLM and SGLang"
#define HOST_CACHE "a cache of transformers' with offloading=True, generate(cache_implementation=\"offloaded\")"

#define GROWING "pytorch:expandable_segments:True"
#define EXPANDABLE "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"

/* In the order in which a person would try them. */
static const Measure measures[] = {
    {"expandable_segments", "segments that grow", {NULL}, 0, GROWING, NULL, EXPANDABLE, EXPANDABLE, FRAGMENTED},
    {"collect",
     "memory given back early",
     {NULL},
     0,
     "pytorch:garbage_collection_threshold:0.8",
     NULL,
     "PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:0.8",
     "PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:0.8",
     FRAGMENTED},
    {fused_optimizer, "optimizer in one kernel", {"fuse", NULL}, 0, NULL, NULL, ECH_TORCH_FUSED, NULL, ALWAYS},
    {"donate", "donate what results can replace", {donate, NULL}, 0, NULL, DONATE, NULL, NULL, ALWAYS},
    {"carry",
     "loops update their stacks in place",
     {"place:policy=none", donate, "carry", "place", NULL},
     0,
     NULL,
     "jax.lax.scan with it as carry, not as xs and ys, donated, and jax.experimental.layout.with_layout_constraint on it",
     NULL,
     NULL,
     ALWAYS},
    {"batch_in_two", "gradient accumulation in two", {"batch:parts=2", NULL}, 0, NULL, NULL, ACCUMULATE, NULL, ALWAYS},
    {"batch_in_four", "gradient accumulation in four", {"batch:parts=4", NULL}, 0, NULL, NULL, ACCUMULATE, NULL, ALWAYS},
    {"loss_in_eight", "loss in eight parts", {LOSS_IN_EIGHT, NULL}, 0, NULL, JAX_LOSS_IN_EIGHTHS, LOSS_IN_EIGHTHS, NULL, ALWAYS},
    {"loss_in_parts", "loss in parts, with its logits", {LOSS, NULL}, 0, NULL, NULL, LOSS_IN_PARTS, NULL, ALWAYS},
    {"row_by_row", "micro-batches of one", {ROW_BY_ROW, NULL}, 0, NULL, NULL, ACCUMULATE, NULL, LAST},
    {"remat_blocks", "checkpoint each block", {BLOCKS, NULL}, 0, NULL, NULL, ECH_TORCH_CHECKPOINT, NULL, ALWAYS},
    {blocks_cheap, "checkpoint each, keep its products", {BLOCKS ",products=false", NULL}, 0, NULL, NULL, ECH_TORCH_CHECKPOINT KEEPING_PRODUCTS, NULL, ALWAYS},
    {remat_cheap, "make again what needs no product", {"remat:products=false", NULL}, 1, NULL, JAX_POLICY "dots_saveable)", NULL, NULL, ALWAYS},
    {remat_between,
     "keep products of weights alone",
     {"remat:keep=" ECH_PRODUCTS, NULL},
     0,
     NULL,
     JAX_POLICY "dots_with_no_batch_dims_saveable)",
     NULL,
     NULL,
     ALWAYS},
    {remat, "make activations again", {"remat", NULL}, 1, NULL, JAX_CHECKPOINT, TORCH_PARTS, NULL, ALWAYS},
    {offload_products,
     "products on host, the rest again",
     {"remat:keep=" ECH_PRODUCTS, "offload:what=activations,idle=0,above=64KiB,names=" ECH_PRODUCTS, schedule, NULL},
     0,
     NULL,
     OFFLOAD_PRODUCTS,
     NULL,
     NULL,
     ALWAYS},
    {inputs_on_host, "blocks' inputs on host", {INPUTS, schedule, NULL}, 0, NULL, OFFLOAD_NAMES ", of what blocks begin with", NULL, NULL, ALWAYS},
    {fetched_later, "what is on host, fetched later", {schedule, NULL}, 1, NULL, SCHEDULED, NULL, NULL, ALWAYS},
    {"shard", "weights and state split (ZeRO-1)", {shard, NULL}, 0, NULL, SHARD, NULL, NULL, ALWAYS},
    {"shard_state", "optimizer state split (ZeRO-1)", {"shard:weights=false", NULL}, 0, NULL, NULL, ZERO_OPTIMIZER, NULL, ALWAYS},
    {"shard_once", "all split, gathered once (ZeRO-2)", {"shard:keep=true", NULL}, 0, NULL, NULL, FULLY_SHARD_ONCE, NULL, ALWAYS},
    {"shard_all", "all split (FSDP, ZeRO-3)", {shard, NULL}, 0, NULL, NULL, FULLY_SHARD, NULL, ALWAYS},
    {"save_on_cpu",
     "activations on host, waited for",
     {"offload:what=activations,idle=0,each=true,above=1", NULL},
     0,
     NULL,
     NULL,
     ECH_TORCH_SAVE_ON_CPU,
     NULL,
     ALWAYS},
    {"save_on_streams",
     "activations on host, overlapped",
     {"offload:what=activations,idle=0,each=true,above=1KiB,overlap=true,stash=5", NULL},
     0,
     NULL,
     NULL,
     ON_STREAMS,
     NULL,
     ALWAYS},
    {"optimizer_on_host", "optimizer on host", {"fuse:where=host", NULL}, 0, NULL, NULL, HOST_OPTIMIZER, NULL, ALWAYS},
    {"averages_on_host", "averages of weights on host", {AVERAGES, NULL}, 0, NULL, NULL, HOST_AVERAGES, NULL, ALWAYS},
    /* XLA brings each argument once, for all that uses it. */
    {"offload_arguments", "arguments on host", {"offload:what=arguments,idle=1000000", schedule, NULL}, 1, NULL, PINNED_HOST, NULL, NULL, ALWAYS},
    {"offload_arguments", "arguments on host, waited for", {"offload:what=arguments", NULL}, 1, NULL, "", NULL, NULL, ALWAYS},
    /* In such a loop XLA overlaps copies both ways on TPUs, and waits for each on GPUs (validation/what_ifs.md). */
    {"arguments_by_layer", "arguments on host, layer by layer", {slice, "offload:what=arguments", NULL}, 1, NULL, BY_LAYER, NULL, NULL, ALWAYS},
    {"arguments_by_layer", "arguments on host, layer by layer", {slice, BY_LAYER_TPU, NULL}, 1, NULL, BY_LAYER, NULL, NULL, ALWAYS},
    {"offload_arguments_overlapped", "arguments on host, overlapped", {"offload:what=arguments,overlap=true", prefetch, NULL}, 1, NULL, "", NULL, NULL, ALWAYS},
    {"weights_on_host", "weights and optimizer on host", {"fuse:where=host", "offload:what=arguments", NULL}, 0, NULL, NULL, CPU_OFFLOAD, NULL, ALWAYS},
    {parts_in_turn, "parts on host, in turn", {"offload:what=parts,to=pageable", NULL}, 0, NULL, NULL, NULL, HOST_PARTS, ALWAYS},
    {weights_ahead, "weights on host, fetched ahead", {"offload:what=arguments,each=true,overlap=true", NULL}, 0, NULL, NULL, NULL, HOST_AHEAD, ALWAYS},
    {"inference_on_host", "weights on host", {"offload:what=arguments,each=true,to=pageable", NULL}, 0, NULL, NULL, NULL, HOST_WEIGHTS, ALWAYS},
    {"some_on_host", "weights on host, as many as needed", {"offload:what=arguments,each=true,to=pageable", NULL}, 1, NULL, NULL, NULL, HOST_SOME, SHORT},
    {"served_on_host", "weights on host", {"offload:what=arguments,each=true", NULL}, 0, NULL, NULL, NULL, HOST_SERVED, ALWAYS},
    {"served_some_on_host", "weights on host, as many as needed", {"offload:what=arguments,each=true", NULL}, 1, NULL, NULL, NULL, HOST_SERVED, SHORT},
    {"cache_on_host", "KV cache on host", {"offload:what=saved,names=*cache_utils.py*,overlap=true", NULL}, 0, NULL, NULL, NULL, HOST_CACHE, ALWAYS},
    {"blocks_and_two",
     "checkpoint each, accumulate in two",
     {BLOCKS, "batch:parts=2", NULL},
     0,
     NULL,
     NULL,
     ECH_TORCH_CHECKPOINT "; and " ACCUMULATE,
     NULL,
     LAST},
    {"blocks_and_loss", "checkpoint each, loss in parts", {BLOCKS, LOSS, NULL}, 0, NULL, NULL, ECH_TORCH_CHECKPOINT "; and " LOSS_IN_PARTS, NULL, LAST},
    {"optimizer_in_8_bits", "optimizer state in 8 bits", {IN_8_BITS, NULL}, 0, NULL, NULL, EIGHT_BITS, NULL, LAST},
    {"blocks_and_8_bits", "checkpoint each, state in 8 bits", {BLOCKS, IN_8_BITS, NULL}, 0, NULL, NULL, ECH_TORCH_CHECKPOINT "; and " EIGHT_BITS, NULL, LAST},
    {"blocks_and_rows", "checkpoint each, micro-batches of 1", {BLOCKS, ROW_BY_ROW, NULL}, 0, NULL, NULL, ECH_TORCH_CHECKPOINT "; and " ACCUMULATE, NULL, LAST},
    {"blocks_and_optimizer",
     "checkpoint each, optimizer on host",
     {BLOCKS, "fuse:where=host", NULL},
     0,
     NULL,
     NULL,
     ECH_TORCH_CHECKPOINT "; and " HOST_OPTIMIZER,
     NULL,
     LAST},
    {"averages_and_optimizer",
     "averages and optimizer on host",
     {"fuse:where=host", AVERAGES, NULL},
     0,
     NULL,
     NULL,
     HOST_AVERAGES "; and " HOST_OPTIMIZER,
     NULL,
     LAST},
    {"blocks_and_averages",
     "checkpoint each, averages on host",
     {BLOCKS, AVERAGES, NULL},
     0,
     NULL,
     NULL,
     ECH_TORCH_CHECKPOINT "; and " HOST_AVERAGES,
     NULL,
     LAST},
    {"blocks_and_weights",
     "checkpoint each, weights on host",
     {BLOCKS, "fuse:where=host", "offload:what=arguments", NULL},
     0,
     NULL,
     NULL,
     ECH_TORCH_CHECKPOINT "; and " CPU_OFFLOAD,
     NULL,
     LAST},
    {"blocks_and_save_on_cpu",
     "checkpoint each, what stays on host",
     {BLOCKS, "offload:what=activations,idle=0,each=true,above=1", NULL},
     0,
     NULL,
     NULL,
     ECH_TORCH_CHECKPOINT "; and " ECH_TORCH_SAVE_ON_CPU,
     NULL,
     LAST},
    {"remat_and_optimizer", "again, and optimizer on host", {"remat", "fuse:where=host", NULL}, 1, NULL, NULL, TORCH_PARTS "; and " HOST_OPTIMIZER, NULL, LAST},
    {"remat_and_loss", "again, loss in eight parts", {remat, LOSS_IN_EIGHT, NULL}, 0, NULL, JAX_CHECKPOINT "; and " JAX_LOSS_IN_EIGHTHS, NULL, NULL, LAST},
    {again_whole,
     "again, and arguments on host",
     {"remat", "offload:what=arguments,idle=1000000", schedule, NULL},
     2,
     NULL,
     JAX_CHECKPOINT "; and " PINNED_HOST,
     NULL,
     NULL,
     LAST},
    {again_by_layer,
     "again, and arguments layer by layer",
     {"remat", slice, "offload:what=arguments", NULL},
     2,
     NULL,
     JAX_CHECKPOINT "; and " BY_LAYER,
     NULL,
     NULL,
     LAST},
    {"blocks_and_shard", "checkpoint each, all split (FSDP)", {BLOCKS, shard, NULL}, 0, NULL, NULL, ECH_TORCH_CHECKPOINT "; and " FULLY_SHARD, NULL, LAST},
    {"remat_and_shard", "again, weights and state split", {remat, shard, NULL}, 1, NULL, JAX_CHECKPOINT "; and " SHARD, NULL, NULL, LAST},
    {"remat_and_offload",
     "activations again or all on host",
     {"remat", "offload:what=activations,idle=0", schedule, NULL},
     2,
     NULL,
     OFFLOAD_NAMES ", of what blocks begin with",
     NULL,
     NULL,
     LAST},
    {"remat_and_inputs",
     "again, blocks' inputs on host",
     {"remat", INPUTS, schedule, NULL},
     0,
     NULL,
     OFFLOAD_NAMES ", of what blocks begin with",
     NULL,
     NULL,
     LAST},
    {"over_eight",
     "eight, all split (FSDP, ZeRO-3)",
     {"shard:over=8", NULL},
     0,
     NULL,
     NULL,
     "torchrun --nproc-per-node 8, torch.distributed.init_process_group(\"nccl\"); " FULLY_SHARD,
     NULL,
     MORE},
    {"unified_memory",
     "unified memory, paged on demand",
     {NULL},
     0,
     NULL,
     "TF_FORCE_UNIFIED_MEMORY=true and XLA_CLIENT_MEM_FRACTION above 1",
     "torch.cuda.memory.CUDAPluggableAllocator over cudaMallocManaged",
     "torch.cuda.memory.CUDAPluggableAllocator over cudaMallocManaged",
     PAGED},
};

/* Why a measure that does something is of no use for memory. */
static const char needs_no_less[] = "no less is needed";

/* A measure that is being tried. */
typedef struct {
    const Measure *measure; /* NULL: another device, or */
    const char *trace;      /* another capture; else NULL */
    EchAdviceRow row;
    size_t tried; /* goals */
    size_t last;  /* of them, the one that was tried last */
    bool pieces;  /* What was free then was in pieces. */
    bool roomy;   /* Its numbers are of a run in ROOMY. */
    bool done;
} Trial;

static void row_clear(EchAdviceRow *row)
{
    g_free(row->label);
    g_free(row->options);
    g_free(row->nothing);
    g_free(row->error);
}

static void trial_clear(void *data)
{
    row_clear(&((Trial *)data)->row);
}

typedef struct {
    EchExperiment *experiment;
    EchCase *base;      /* As it is. */
    const char *memory; /* what it may take; NULL: the device's */
    EchAdvice *advice;
    GArray *trials;         /* Trial */
    bool pytorch, xla, tpu; /* what was captured; xla, and for a TPU */
    bool tensorflow;        /* xla, for TensorFlow */
    bool by_hand;           /* No framework asked for it: a program in CUDA C++. */
    bool serves;            /* There is a server's KV cache. */
    bool trains;            /* PyTorch has a backward pass to run, or an optimizer; */
    bool twice;             /* and differentiates a gradient, too; */
    bool lists;             /* and its optimizer takes all parameters at once. */
    bool attends;           /* Much of what it holds is attention's scores. */
    bool loops;             /* A program has some. */
    bool logits;            /* A compiled program has those of a loss. */
    bool averages;          /* There are copies of weights that it brings up to date. */
    bool several;           /* It runs on several devices. */
    bool in_turn;           /* Devices of one process, one after the other. */
    guint step;             /* Of its whole steps the one that times are of, from 0. */
    bool before_last;       /* That is the last but one. */
    bool alone;             /* A step alone is asked for: times are those of the run. */
    bool remade;            /* XLA: the compiler made arrays again by itself. */
    double again;           /* XLA: ech_program_products_again() */
    bool stacks;            /* XLA: arguments are stacks that can be updated a layer at a time. */
    bool donates;           /* Donation saves some and is not enough: what is tried then is tried with it. */
    unsigned jobs;
    const volatile sig_atomic_t *stop;
    EchSweepProgress progress;
    void *data;
} Advise;

static EchCase *vary(const EchCase *from, const char *path, const char *value, GError **error)
{
    const char *const paths[] = {path, NULL};
    return ech_case_vary(from, path, value, paths, value, error);
}

static EchCase *vary_memory(const EchCase *from, const char *bytes, GError **error)
{
    static const char *const paths[] = {"device.memories.hbm.capacity", "device.memories.hbm.available", NULL};
    return ech_case_vary(from, "hbm", bytes, paths, bytes, error);
}

static JsonArray *steps_of(JsonObject *run)
{
    JsonNode *node = json_object_get_member(run, "steps");
    return node && JSON_NODE_HOLDS_ARRAY(node) ? json_node_get_array(node) : NULL;
}

/* What a step takes, the last whole one of a usual batch, of a capture that tells steps: the rest of it, uploads and what is done once, is no part of training.
 * 0: not known. */
static EchTime time_of(const Advise *a, JsonObject *run)
{
    JsonArray *steps = a->alone ? NULL : steps_of(run);
    JsonObject *hbm = ech_member_object(ech_member_object(run, "memories"), "hbm");
    if (!ech_member_bool(run, "completed") || (hbm && json_object_has_member(hbm, "untold_parts_bytes")))
        return 0;
    if (steps)
        return ech_member_int(json_array_get_object_element(steps, MIN(a->step, json_array_get_length(steps) - 1)), "duration_ps");
    return a->advice->n_steps > 0 ? 0 : ech_member_int(run, "makespan_ps");
}

static EchAdviceRun run_of(const Advise *a, JsonObject *run)
{
    bool fits = ech_member_bool(run, "fits") && ech_member_bool(run, "completed"), narrow = json_object_has_member(run, "may_need_hbm_bytes");
    EchBytes hbm = (EchBytes)ech_run_memory_bytes(run, "hbm");
    JsonObject *memory = ech_member_object(ech_member_object(run, "memories"), "hbm");
    /* Unified memory: the rest is the host's. */
    EchBytes here = memory && json_object_has_member(memory, "on_device_bytes") ? MIN(hbm, (EchBytes)ech_member_int(memory, "on_device_bytes")) : hbm;
    JsonObject *need = ech_member_object(ech_member_object(run, "needs"), "hbm");
    if (a->advice->kernel) /* advice is about hbm */
        fits = need && ech_member_bool(need, "fits") && ech_member_bool(run, "completed");
    return (EchAdviceRun){.fits = fits && !narrow,
                          .planned = need && ech_member_bool(need, "planned"),
                          .narrow = fits && narrow,
                          .hbm = here,
                          .host = ech_bytes_add((EchBytes)(ech_run_memory_bytes(run, "host") + ech_run_memory_bytes(run, "pageable")), hbm - here),
                          .makespan = time_of(a, run),
                          .whole = ech_member_int(run, "makespan_ps"),
                          .first = json_object_has_member(run, "brought_first_bytes") ? (EchBytes)ech_member_int(run, "brought_first_bytes") : 0,
                          .early = json_object_has_member(run, "fetched_early_bytes") ? (EchBytes)ech_member_int(run, "fetched_early_bytes") : 0,
                          .once = json_object_has_member(run, "again_at_once_bytes") ? (EchBytes)ech_member_int(run, "again_at_once_bytes") : 0};
}

/* Another device: what its compiler would keep on chip is its own business. */
static EchAdviceRun run_of_device(const Advise *a, JsonObject *run)
{
    EchAdviceRun out = run_of(a, run);
    JsonObject *need = ech_member_object(ech_member_object(run, "needs"), "hbm");
    if (!out.fits && need)
        out.fits = ech_member_bool(need, "fits") && ech_member_bool(run, "completed");
    return out;
}

/* Rounded down. */
static char *goal_text(EchBytes bytes)
{
    const EchBytes mib = (EchBytes)1 << 20;
    return bytes >= 16 * mib ? g_strdup_printf("%" G_GUINT64_FORMAT "MiB", bytes / mib) : g_strdup_printf("%" G_GUINT64_FORMAT "KiB", bytes >> 10);
}

static bool is_place(const char *pass)
{
    return g_str_has_prefix(pass, "place");
}

/* The measure's passes, which the case's own go before. @ahead: with fetches ahead, which fill the memory there is. */
static char *passes_text(const Advise *a, const Trial *t, const char *goal, bool ahead, char **ret_options)
{
    const Measure *measure = t->measure;
    g_autoptr(GPtrArray) all = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GString) options = g_string_new(t->row.donated ? "--pass donate" : NULL);
    if (t->row.donated)
        g_ptr_array_add(all, g_strdup(donate));
    for (size_t i = 0, n = 0; measure->passes[i]; i++) {
        const char *pass = measure->passes[i] == schedule && !a->xla ? prefetch : measure->passes[i];
        bool takes = strcmp(pass, slice) != 0, with_goal = goal && takes && n < measure->n_goals;
        n += takes;
        if ((!ahead && strcmp(pass, prefetch) == 0) || (!a->tpu && is_place(pass)))
            continue;
        bool of_blocks = g_str_has_prefix(pass, BLOCKS);
        g_autofree char *modules = of_blocks                       ? g_strconcat(BLOCKS, a->advice->blocks, pass + strlen(BLOCKS), NULL)
                                   : strcmp(pass, ROW_BY_ROW) == 0 ? g_strdup_printf("%s%" G_GUINT64_FORMAT, pass, a->advice->batch)
                                                                   : g_strdup(pass);
        g_autofree char *spec = g_strconcat(modules, with_goal ? (strchr(pass, ':') ? ",memory=" : ":memory=") : "", with_goal ? goal : "", NULL);
        g_ptr_array_add(all, g_strdup(spec));
        g_string_append_printf(options, "%s--pass %s", options->len ? " " : "", spec);
    }
    g_ptr_array_add(all, NULL);
    *ret_options = g_string_free(g_steal_pointer(&options), FALSE);
    return g_strjoinv(" ", (char **)all->pdata);
}

static EchBytes goal_bytes(const Advise *a, const Trial *t)
{
    return a->advice->available - a->advice->available / 100 * (100 - goals[t->tried]);
}

/* The case of another capture. */
static EchCase *captured_case(const Advise *a, Trial *t, GError **error)
{
    g_autofree char *file = ech_shell_word(t->trace);
    g_free(t->row.options);
    t->row.options = g_strdup_printf("%s--trace %s", t->row.growing ? "--allocator " GROWING " " : "", file);
    EchCase *c = vary(a->base, "trace", t->trace, error), *growing = c && t->row.growing ? vary(c, "allocator", GROWING, error) : NULL;
    if (!t->row.growing)
        return c;
    ech_case_free(c);
    return growing;
}

/* The case of a trial at its present goal. @roomy: to learn what it needs. */
static EchCase *trial_case(const Advise *a, Trial *t, bool roomy, GError **error)
{
    const Measure *m = t->measure;
    if (t->trace)
        return captured_case(a, t, error);
    if (!m)
        return vary(a->base, "device", t->row.label, error);
    g_free(t->row.options);
    if (m->when == PAGED) {
        t->row.options = g_strdup("--set replay.unified_memory=true");
        return vary(a->base, "replay.unified_memory", "true", error);
    }
    const char *spec = t->row.growing ? GROWING : m->allocator;
    g_autofree char *allocator = spec ? g_strdup_printf("--allocator %s", spec) : NULL;
    EchCase *other = spec ? vary(a->base, "allocator", spec, error) : NULL;
    if (spec && (!other || !m->passes[0])) {
        t->row.options = g_steal_pointer(&allocator);
        return other;
    }
    g_autofree char *goal = a->advice->base.fits ? NULL : goal_text(goal_bytes(a, t));
    g_autofree char *options = NULL, *passes = passes_text(a, t, goal, !roomy && t->tried + 1 < G_N_ELEMENTS(goals), &options);
    t->row.options = g_strconcat(allocator ? allocator : "", allocator ? " " : "", options, NULL);
    EchCase *c = vary(other ? other : a->base, "passes", passes, error);
    ech_case_free(other);
    return c;
}

/* Runs cases, @n of them, which are taken. */
static EchSweepPoint *run_cases(const Advise *a, EchCase **cases, size_t n, GError **error)
{
    EchExperiment some = {.least_cache = a->experiment->least_cache,
                          .of_device = a->experiment->of_device,
                          .title = a->experiment->title,
                          .cases = g_new(EchCase, n),
                          .n_cases = n,
                          .cache = a->experiment->cache,
                          .places = a->experiment->places,
                          .brief = true};
    for (size_t i = 0; i < n; i++)
        some.cases[i] = *cases[i];
    EchSweepPoint *points = ech_sweep_run(&some, a->jobs, a->stop, a->progress, a->data, error);
    g_free(some.cases);
    for (size_t i = 0; i < n; i++)
        ech_case_free(cases[i]);
    return points;
}

/* Why every pass of the measure that could save something, or one that the others rest on, left the program as it was; NULL where one did not. */
static char *why_nothing(const Measure *measure, JsonObject *run)
{
    JsonArray *remarks = json_object_get_array_member(run, "remarks");
    char *why = NULL;
    for (size_t i = 0; measure->passes[i]; i++) {
        g_autofree char *name = g_strndup(measure->passes[i], strcspn(measure->passes[i], ":"));
        g_autofree char *left = g_strconcat(name, ": left the ", NULL);
        const char *found = NULL;
        if (strcmp(name, prefetch) == 0 || strcmp(name, schedule) == 0 || is_place(name) || (strcmp(name, donate) == 0 && i > 0))
            continue;
        for (guint k = 0; remarks && !found && k < json_array_get_length(remarks); k++) {
            const char *remark = json_array_get_string_element(remarks, k);
            const char *reason = g_str_has_prefix(remark, left) ? strstr(remark, "as it is: ") : NULL;
            found = reason ? reason + strlen("as it is: ") : NULL;
        }
        if ((strcmp(name, slice) == 0 || strcmp(name, shard) == 0) && found) {
            g_free(why);
            return g_strdup(found);
        }
        if (!found) {
            g_free(why);
            return NULL;
        }
        if (!why)
            why = g_strdup(found);
    }
    return why;
}

/* Whether something is made again and something else goes to the host. */
static bool sends_too(const Measure *measure)
{
    bool sends = false;
    for (size_t i = 1; measure->passes[0] && measure->passes[i]; i++)
        sends |= g_str_has_prefix(measure->passes[0], remat) && g_str_has_prefix(measure->passes[i], "offload");
    return sends;
}

/* Why what makes again and sends something is no more than the former; NULL where it is. */
static char *nothing_sent(const Advise *a, const Trial *t)
{
    bool alone = t->measure && sends_too(t->measure) && t->row.run.host <= a->advice->base.host;
    const char *again = a->advice->blocks ? "checkpoint each block" : "make activations again";
    return alone ? g_strdup_printf("nothing goes to the host, so that it is '%s'", again) : NULL;
}

/* Where there is room a compiler spares none: whether less than half of what a measure saves is saved where what waits on the host comes back early. */
static bool spares_little(const Advise *a, const EchAdviceRun *run)
{
    const EchBytes base = a->advice->base.hbm;
    return run->early > run->hbm && run->hbm < base && (run->early >= base || base - run->early < (base - run->hbm) / 2);
}

/* What another capture of the program has that it has not itself: "autocast=bfloat16,fused", and how a program says so. */
static void name_captured(Trial *t, JsonObject *run)
{
    const char *with = ech_member_text(run, "captured_with");
    if (!with)
        return;
    g_free(t->row.label);
    t->row.label = g_strdup(with);
    g_auto(GStrv) specs = g_strsplit(with, ",", -1);
    g_autoptr(GString) code = g_string_new(NULL);
    for (char **spec = specs; *spec; spec++) {
        g_autofree char *its = ech_torch_measure_code(*spec);
        g_string_append_printf(code, "%s%s", code->len > 0 ? "; and " : "", its);
    }
    t->row.in_code = g_intern_string(code->str);
}

/* What a run says of a trial. */
static void take(const Advise *a, Trial *t, const EchSweepPoint *point)
{
    g_clear_pointer(&t->row.error, g_free);
    g_autoptr(JsonNode) node = ech_sweep_point_json(point);
    if (!node) {
        t->row.error = g_strdup(point->error);
        t->done = true;
        return;
    }
    JsonObject *run = json_node_get_object(node);
    const EchAdviceRun before = t->row.run;
    t->last = t->tried;
    t->row.run = t->row.device ? run_of_device(a, run) : run_of(a, run);
    if (strcmp(t->row.name, parts_in_turn) == 0 && a->advice->n_steps > 0 && t->row.run.makespan > 0)
        t->row.run.makespan = a->advice->base.makespan + MAX(t->row.run.whole - a->advice->base.whole, 0) / (EchTime)a->advice->n_steps;
    if (t->row.captured)
        name_captured(t, run);
    if (t->row.captured && ech_member_bool(run, "ran_out_when_captured")) {
        t->row.error = g_strdup("it ran out of memory when it was captured, and what it needs in all is not known; expected it captured with room: --set "
                                "device.memories.hbm.capacity=1TiB");
        t->done = true;
        return;
    }
    g_free(t->row.nothing);
    t->row.nothing = t->measure && t->measure->passes[0] ? why_nothing(t->measure, run) : NULL;
    EchBytes least = a->advice->base.hbm - (t->measure ? a->advice->base.hbm / WORTH : 0);
    bool no_less = a->advice->base.fits && t->row.run.fits && t->row.run.hbm >= least;
    if (!t->row.nothing && t->measure && no_less)
        t->row.nothing = g_strdup(needs_no_less);
    if (t->row.captured && no_less && t->row.run.makespan >= a->advice->base.makespan)
        t->row.nothing = g_strdup("no less is needed, and it is no quicker");
    if (t->row.run.fits && a->advice->base.fits && spares_little(a, &t->row.run)) {
        t->row.run.fits = false;
        t->row.run.narrow = true;
    }
    /* What allocators place as it comes and does not fit has ended before all that could go went. */
    if (!t->row.nothing && (t->row.run.makespan > 0 || a->xla))
        t->row.nothing = nothing_sent(a, t);
    /* Less is of no use. */
    bool stuck = t->tried > 0 && !t->row.nothing && before.hbm == t->row.run.hbm && before.makespan == t->row.run.makespan && t->row.run.hbm > goal_bytes(a, t);
    size_t n = G_N_ELEMENTS(goals) - (t->measure && t->measure->when == LAST ? 0 : 1);
    t->tried = stuck ? MAX(t->tried + 1, G_N_ELEMENTS(goals) - 1) : t->tried + 1;
    t->pieces = g_strcmp0(ech_member_text(ech_member_object(run, "failure"), "reason"), "fragmented") == 0;
    if (t->tried == NARROW_GOAL && !t->row.run.narrow && !t->pieces)
        t->tried++;
    /* The compiler brings back early what was sent away, however much that is. */
    bool early = t->row.run.narrow && t->measure && t->measure->n_goals > 0 && g_str_has_prefix(t->measure->passes[0], "offload");
    /* What is live is no more than what was asked for, and yet it does not fit: less may be asked for. */
    bool idle = t->row.nothing && (a->advice->base.fits || t->measure->n_goals == 0);
    t->done = t->row.run.fits || early || idle || a->advice->base.fits || !t->measure || t->measure->n_goals == 0 || t->tried >= n;
}

/* One run of each trial that is not done. */
static bool run_round(Advise *a, bool *ret_ran, GError **error)
{
    g_autoptr(GPtrArray) open = g_ptr_array_new();
    g_autoptr(GPtrArray) cases = g_ptr_array_new();
    for (guint i = 0; i < a->trials->len; i++) {
        Trial *t = &g_array_index(a->trials, Trial, i);
        EchCase *c = t->done ? NULL : trial_case(a, t, false, error);
        if (!t->done && !c)
            return false;
        if (c) {
            g_ptr_array_add(open, t);
            g_ptr_array_add(cases, c);
        }
    }
    *ret_ran = open->len > 0;
    if (open->len == 0)
        return true;
    EchSweepPoint *points = run_cases(a, (EchCase **)cases->pdata, cases->len, error);
    if (!points)
        return false;
    for (guint i = 0; i < open->len; i++)
        take(a, open->pdata[i], &points[i]);
    ech_sweep_free(points, open->len);
    return true;
}

static bool run_rounds(Advise *a, GError **error)
{
    bool ran = true;
    while (ran) {
        if (!run_round(a, &ran, error))
            return false;
    }
    return true;
}

/* Whether the program would fit on this device at a fair price. */
static bool is_enough(const Advise *a)
{
    bool enough = a->advice->base.fits;
    for (guint i = 0; i < a->trials->len; i++) {
        const Trial *t = &g_array_index(a->trials, Trial, i);
        enough |= !t->row.device && !t->row.several && t->row.run.fits && (!t->row.spread || t->row.run.makespan > 0) &&
                  (double)t->row.run.makespan <= DEAR * (double)a->advice->base.makespan;
    }
    return enough;
}

/* What is updated a layer at a time is updated in place: arguments are donated. */
static bool is_by_layer(const Measure *m)
{
    return m->passes[0] && strcmp(m->passes[0], slice) == 0;
}

/* What devices hold alike is known of donated arguments alone. */
static bool is_sharded(const Measure *m)
{
    bool is = false;
    for (size_t i = 0; m->passes[i]; i++)
        is |= g_str_has_prefix(m->passes[i], shard);
    return is;
}

/* Whether donation may save some beside the measure; what waits on the host takes along what is written over it. */
static bool may_donate(const Measure *m)
{
    bool may = m->passes[0] != NULL;
    for (size_t i = 0; m->passes[i]; i++)
        may &= strcmp(m->passes[i], donate) != 0;
    return may;
}

/* Donation costs nothing: where it saves some, whatever does not fit is tried again with it; where something was @enough, what without it is not known. */
static bool try_donated(Advise *a, bool enough, GError **error)
{
    for (guint i = 0; i < a->trials->len; i++) {
        const Trial *t = &g_array_index(a->trials, Trial, i);
        a->donates |= t->measure && strcmp(t->row.name, donate) == 0 && !t->row.nothing && !t->row.error && t->row.run.hbm < a->advice->base.hbm;
    }
    for (guint i = 0; a->donates && i < a->trials->len; i++) {
        Trial *t = &g_array_index(a->trials, Trial, i);
        if (!t->measure || !may_donate(t->measure) || (enough && !is_sharded(t->measure)) || t->row.run.fits ||
            (t->row.nothing && !is_by_layer(t->measure) && !is_sharded(t->measure)) || t->row.error)
            continue;
        t->row.donated = true;
        t->row.run = (EchAdviceRun){0};
        t->tried = 0;
        t->done = false;
    }
    return !a->donates || run_rounds(a, error);
}

/* XLA brings stacks back whole and all at once: 17 of 18 steps that asked for it needed as much as without, or more, one 2 % less (validation/what_ifs.md). */
static void leave_whole_stacks(Advise *a)
{
    for (guint i = 0; i < a->trials->len; i++) {
        const Trial *t = &g_array_index(a->trials, Trial, i);
        a->stacks |= t->measure && is_by_layer(t->measure) && !t->row.nothing && !t->row.error;
    }
    for (guint i = 0; a->stacks && i < a->trials->len; i++) {
        Trial *t = &g_array_index(a->trials, Trial, i);
        if (!t->measure || !t->measure->passes[0] || !g_str_has_prefix(t->measure->passes[0], "offload:what=arguments") || t->row.error || t->row.nothing)
            continue;
        t->row.nothing = g_strdup("XLA brings stacked arrays back whole, all at once, and needs as much as without, or more; 'layer by layer' it does not");
        t->row.run.fits = false;
    }
}

/* Where what is free is in pieces, PyTorch's segments may grow. */
static bool try_growing(Advise *a, GError **error)
{
    for (guint i = 0; i < a->trials->len; i++) {
        Trial *t = &g_array_index(a->trials, Trial, i);
        if (t->measure ? t->measure->allocator || !t->measure->passes[0] : !t->trace)
            continue;
        if (!t->pieces || t->row.run.fits || t->row.nothing || t->row.error)
            continue;
        t->row.growing = true;
        t->row.run = (EchAdviceRun){0};
        t->tried = 0;
        t->done = false;
    }
    return run_rounds(a, error);
}

/* What a trial that does not fit needs is known. */
static void settle(const Advise *a, Trial *t)
{
    t->row.run.fits = false;
    t->row.run.makespan = 0;
    if (t->measure && t->measure->n_goals == 0 && t->row.run.hbm >= a->advice->base.hbm)
        t->row.nothing = g_strdup(needs_no_less);
    if (!t->row.nothing)
        t->row.nothing = nothing_sent(a, t);
}

/* What those that do not fit would need. A plan of all places tells, which would be another where there is more room; what is placed as it comes is run where
 * there is. */
static bool learn_needs(Advise *a, GError **error)
{
    g_autoptr(GPtrArray) open = g_ptr_array_new();
    g_autoptr(GPtrArray) cases = g_ptr_array_new();
    for (guint i = 0; i < a->trials->len; i++) {
        Trial *t = &g_array_index(a->trials, Trial, i);
        if (t->row.run.fits || t->row.run.narrow || t->row.nothing || t->row.error || t->row.spread)
            continue;
        if (t->measure && t->row.run.planned) {
            settle(a, t);
            continue;
        }
        t->tried = t->last;
        EchCase *c = trial_case(a, t, true, error), *roomy = c ? vary_memory(c, ROOMY, error) : NULL;
        ech_case_free(c);
        if (!roomy)
            return false;
        g_ptr_array_add(open, t);
        g_ptr_array_add(cases, roomy);
    }
    EchSweepPoint *points = open->len ? run_cases(a, (EchCase **)cases->pdata, cases->len, error) : NULL;
    if (open->len && !points)
        return false;
    for (guint i = 0; i < open->len; i++) {
        Trial *t = open->pdata[i];
        g_autoptr(JsonNode) node = ech_sweep_point_json(&points[i]);
        if (!node) {
            t->row.error = g_strdup(points[i].error);
            continue;
        }
        t->row.run = run_of(a, json_node_get_object(node));
        t->roomy = true;
        settle(a, t);
    }
    ech_sweep_free(points, open->len);
    return true;
}

/* Whether compilers asked for jax.checkpoint have needed as much less than the pass says of making again, which is most of the way there. */
static bool is_near(const Advise *a, const EchAdviceRow *row)
{
    const EchBytes available = a->advice->available, base = a->advice->base.hbm, hbm = row->run.hbm;
    bool within = hbm > available && (double)hbm <= (double)available * g_ascii_strtod(a->advice->margin, NULL);
    return strcmp(row->name, remat) == 0 && (hbm <= available || (within && base > hbm && base - hbm > hbm - available));
}

/* Whether a measure is a policy of jax.checkpoint that keeps products on the device. */
static bool is_policy(const char *measure)
{
    return strcmp(measure, remat_cheap) == 0 || strcmp(measure, remat_between) == 0;
}

/* Where no product has batch dimensions both policies keep the same: one row says so. */
static void drop_alike(Advise *a)
{
    const EchAdviceRow *cheap = NULL;
    for (guint i = 0; i < a->trials->len; i++) {
        const EchAdviceRow *row = &g_array_index(a->trials, Trial, i).row;
        if (strcmp(row->name, remat_cheap) == 0)
            cheap = row;
        if (cheap && strcmp(row->name, remat_between) == 0 && row->run.hbm == cheap->run.hbm && row->run.makespan == cheap->run.makespan) {
            g_array_remove_index(a->trials, i);
            return;
        }
    }
}

/* What a policy of jax.checkpoint neither keeps nor sends to the host is made again, and the compiler fuses anew; the passes have the kernels that there are,
 * which make what could be made again along with what is kept. So a policy may do where checkpointing without one does. */
static void allow_policies(Advise *a)
{
    bool enough = false;
    for (guint i = 0; a->xla && i < a->trials->len; i++) {
        EchAdviceRow *row = &g_array_index(a->trials, Trial, i).row;
        row->run.narrow |= is_near(a, row) && !row->run.fits && !row->nothing && !row->error;
        enough |= strcmp(row->name, remat) == 0 && !row->error && !row->nothing && (row->run.fits || row->run.narrow);
    }
    const double most = POLICY_MARGIN * (double)a->advice->available;
    for (guint i = 0; enough && i < a->trials->len; i++) {
        EchAdviceRow *row = &g_array_index(a->trials, Trial, i).row;
        bool policy = is_policy(row->name) || strcmp(row->name, offload_products) == 0;
        row->run.narrow |= policy && (double)row->run.hbm <= most && !row->run.fits && !row->nothing && !row->error;
    }
}

/* PyTorch makes again what parts of a model make, not arrays one by one, and torch.compile what it chooses: less than the pass's choice may be too little. */
static void allow_parts(Advise *a)
{
    for (guint i = 0; a->pytorch && i < a->trials->len; i++) {
        EchAdviceRow *row = &g_array_index(a->trials, Trial, i).row;
        bool parts = row->in_code && g_str_has_prefix(row->in_code, TORCH_PARTS) && row->run.fits;
        row->run.narrow |= parts;
        row->run.fits &= !parts;
    }
}

static void add_captures(Advise *a, const char *const *also)
{
    for (; also && *also; also++) {
        Trial t = {.trace = *also, .row = {.name = "captured", .captured = true, .label = g_path_get_basename(*also)}};
        g_array_append_val(a->trials, t);
    }
}

/* Larger devices of the family and maker, one of each size, the smallest first. */
static void add_devices(Advise *a, const EchDevice *device)
{
    for (char **setting = a->base->settings; *setting; setting++) {
        if (strstr(*setting, "memories.hbm."))
            return; /* would be said of each of them */
    }
    const EchBytes here = a->advice->available + a->advice->context, needed = ech_bytes_add(a->advice->base.hbm, a->advice->context);
    g_autoptr(GPtrArray) larger = ech_device_with_room(device->family, ech_device_is_amd(device), MAX(here + 1, needed));
    g_autoptr(GPtrArray) sizes = ech_device_of_each_size(larger);
    for (guint i = 0; i < MIN(sizes->len, MOST_DEVICES); i++) {
        const EchDevice *other = sizes->pdata[i];
        Trial t = {.row = {.name = "device", .device = true, .label = g_strdup(other->name), .options = g_strdup_printf("--device %s", other->name)}};
        g_array_append_val(a->trials, t);
    }
}

/* Whether a batch can be taken in the parts that a measure has; row by row is not what other measures have. */
static bool is_divisible(const Advise *a, const Measure *m)
{
    bool is = true;
    for (size_t i = 0; m->passes[i]; i++) {
        const char *parts = g_str_has_prefix(m->passes[i], ROW_BY_ROW) ? m->passes[i] + strlen(ROW_BY_ROW) : NULL;
        uint64_t n = parts ? g_ascii_strtoull(parts, NULL, 10) : 0;
        is &= !parts || (n == 0 ? a->advice->batch > 4 && a->advice->batch <= MOST_ROWS : a->advice->batch >= n && a->advice->batch % n == 0);
    }
    return is;
}

/* What XLA compiled for TensorFlow: its names of a function and of a cluster of operators. */
static bool is_of_tensorflow(const EchProgram *program)
{
    return g_str_has_prefix(program->name, "a_inference_") || g_str_has_prefix(program->name, "cluster_");
}

/* Such a program can be told to compute again. Memory of the host it has no words for, and what results can replace it gives by itself. */
static const char *code_in_tensorflow(const Measure *m)
{
    if (m->when == PAGED)
        return "TF_FORCE_UNIFIED_MEMORY=true and tf.compat.v1.GPUOptions(per_process_gpu_memory_fraction=...) above 1";
    return strcmp(m->name, remat) == 0
               ? "tf.recompute_grad(part) around parts of the model; of Keras' layers with keras.RematScope(mode=\"full\") where they are made"
               : NULL;
}

static bool has_pass(const Measure *m, const char *spec)
{
    bool has = false;
    for (size_t i = 0; m->passes[i] && !has; i++)
        has = strcmp(m->passes[i], spec) == 0;
    return has;
}

/* What the measure says to such a program; NULL where it is none for it. */
static const char *code_for(const Advise *a, const Measure *m)
{
    const char *first = m->passes[0] ? m->passes[0] : "";
    if ((!a->lists && strcmp(m->name, fused_optimizer) == 0) || (!a->averages && has_pass(m, AVERAGES)) || !is_divisible(a, m))
        return NULL;
    if (a->xla && a->remade && strcmp(m->name, remat_cheap) == 0)
        return NULL; /* its policy would forbid what the compiler made again by itself */
    if (a->xla && a->again >= 0 && (is_policy(m->name) || (a->again >= MOST_AGAIN && g_str_has_prefix(first, remat))))
        return NULL; /* its own checkpoints do that, or keep less */
    if (has_pass(m, INPUTS) && (!a->xla || !a->loops || (a->again < MOST_AGAIN) == (strcmp(m->name, inputs_on_host) == 0)))
        return NULL; /* what a loop stacks of blocks that are checkpointed, by itself or by the measure */
    if (has_pass(m, LOSS_IN_EIGHT) && !a->pytorch && (!a->logits || a->advice->forward))
        return NULL;
    if (a->xla && a->advice->forward && g_str_has_prefix(first, remat))
        return NULL; /* jax.checkpoint keeps less for a backward pass */
    if (a->xla && a->again >= 0 && a->advice->base.host > 0 && strcmp(m->name, offload_products) == 0)
        return NULL; /* their policy sends arrays to the host already */
    if (strcmp(m->name, fetched_later) == 0 && (!a->xla || a->advice->base.host == 0))
        return NULL;
    if (a->twice && strcmp(m->name, blocks_cheap) == 0)
        return NULL; /* PyTorch 2.15: "You are only allowed to backward once on any region computed under selective activation checkpoint" */
    if (m->in_jax && (a->xla ? !*m->in_jax : m->passes[1] == schedule))
        return NULL;
    bool of_blocks = g_str_has_prefix(first, BLOCKS), compiled = strcmp(first, donate) == 0 || is_place(first) || is_by_layer(m);
    if (is_by_layer(m) && a->tpu != (strcmp(m->passes[1], BY_LAYER_TPU) == 0))
        return NULL;
    if (strcmp(m->name, a->stacks ? again_whole : again_by_layer) == 0 || (is_sharded(m) && (a->advice->n_devices > 0 || a->several != (m->when != MORE))))
        return NULL;
    if ((compiled && !a->xla) || (of_blocks && !a->advice->blocks) || (!of_blocks && a->advice->blocks && g_str_has_prefix(first, remat)))
        return NULL; /* checkpoint() takes modules, not arrays */
    bool of_servers = m->in_inference && strcmp(m->in_inference, HOST_SERVED) == 0;
    if (m->in_inference && !m->in_pytorch && a->serves != of_servers)
        return NULL; /* a server's attention reads its cache where it is; what it keeps on the host is besides */
    if (a->advice->of_pairs && m->in_pytorch && (has_pass(m, LOSS) || has_pass(m, LOSS_IN_EIGHT)))
        return has_pass(m, BLOCKS) ? ECH_TORCH_CHECKPOINT "; and " LOSS_OF_PAIRS : LOSS_OF_PAIRS;
    if (a->tensorflow)
        return code_in_tensorflow(m);
    if (a->by_hand)
        return m->when == PAGED ? "cudaMallocManaged in the place of cudaMalloc (llama.cpp: GGML_CUDA_ENABLE_UNIFIED_MEMORY=1)" : NULL;
    return !a->pytorch ? m->in_jax : a->trains ? m->in_pytorch : m->in_inference;
}

/* "move 2 blocks from cuda:0 to cuda:1: then 6 on cuda:0 (8.1 GiB), 5 on cuda:1 from model.layers.6 (7.9 GiB); device_map=..." */
static const char *code_of_spread(const EchSpread *spread)
{
    g_autoptr(GString) text = g_string_new("move ");
    bool any = false;
    for (size_t i = 0, was = 0, now = 0; i + 1 < spread->n; i++) { /* over each border */
        const EchSpreadDevice *d = &spread->devices[i], *next = d + 1;
        was += d->was;
        now += d->now;
        if (was == now)
            continue;
        size_t moved = was > now ? was - now : now - was;
        g_string_append_printf(text, "%s%zu%s from cuda:%u to cuda:%u", any ? ", " : "", moved,
                               any          ? ""
                               : moved == 1 ? " block"
                                            : " blocks",
                               was > now ? d->device : next->device, was > now ? next->device : d->device);
        any = true;
    }
    const EchSpreadDevice *last = NULL; /* that has any */
    for (size_t i = 0; i < spread->n; i++) {
        const EchSpreadDevice *d = &spread->devices[i];
        g_autofree char *bytes = ech_format_bytes(d->after), *n = d->now > 0 ? g_strdup_printf("%zu", d->now) : g_strdup("none");
        g_string_append_printf(text, "%s%s on cuda:%u%s%s (%s)", i > 0 ? ", " : ": then ", n, d->device, i > 0 && d->first ? " from " : "",
                               i > 0 && d->first ? d->first : "", bytes);
        last = d->first ? d : last;
    }
    g_string_append_printf(text,
                           ", by device_map={..., \"%s\": %u, ...} of from_pretrained in place of \"auto\", or .to(\"cuda:%u\") where the program places them",
                           last->first, last->device, last->device);
    return g_intern_string(text->str);
}

/* Blocks divided anew between the devices of a process: told by what each holds, not by a run. */
static void add_spread(Advise *a, const EchResult *result)
{
    EchAdvice *advice = a->advice;
    if (advice->n_devices == 0 || !a->pytorch || !advice->blocks || *result->passes || ech_yaml_get(a->base->config, "step"))
        return;
    const EchImport *import = ech_experiment_import_case(a->experiment, a->base, NULL);
    g_autoptr(EchSpread) spread = import ? ech_spread_new(import->trace, advice->blocks) : NULL;
    if (!spread)
        return;
    EchAdviceRun run = {.host = advice->base.host};
    EchBytes reserved = 0;
    for (size_t i = 0; i < spread->n; i++)
        for (size_t k = 0; k < advice->n_devices; k++) {
            const EchSpreadDevice *d = &spread->devices[i];
            EchBytes with = ech_bytes_add(d->after, advice->devices[k].hbm);
            if (advice->devices[k].number != d->device)
                continue;
            run.hbm = MAX(run.hbm, with - MIN(with, d->before));
            reserved = MAX(reserved, with - MIN(with, d->before) + advice->devices[k].beside);
        }
    run.fits = reserved <= advice->available;
    run.narrow = !run.fits && run.hbm <= advice->available;
    run.makespan = a->in_turn && (run.fits || run.narrow) ? advice->base.makespan : 0;
    if (run.hbm + advice->base.hbm / WORTH > advice->base.hbm)
        return;
    Trial t = {.row = {.name = "spread", .spread = true, .label = g_strdup("blocks divided anew between GPUs"), .in_code = code_of_spread(spread), .run = run},
               .done = true};
    g_array_append_val(a->trials, t);
}

static void add_measures(Advise *a, When when)
{
    for (size_t i = 0; i < G_N_ELEMENTS(measures); i++) {
        const Measure *m = &measures[i];
        const char *in_code = code_for(a, m);
        if (m->when != when || !in_code)
            continue;
        Trial t = {.measure = m,
                   .row = {.name = m->name,
                           .label = g_strdup(m->label),
                           .paged = when == PAGED,
                           .several = when == MORE,
                           .donated = a->donates && may_donate(m),
                           .in_code = a->pytorch || a->xla ? in_code : NULL}};
        g_array_append_val(a->trials, t);
    }
}

/* Whether what was captured is a program of PyTorch's. */
static bool is_pytorch(const EchResult *result)
{
    static const char *const formats[] = {"memory_snapshot", "kineto", "pretend", "pytorch_et", NULL};
    bool others = result->allocator && !g_str_has_prefix(result->allocator, "pytorch"); /* TensorFlow's */
    return g_strv_contains(formats, ech_trace_format(result->trace)) && !others;
}

/* Whether anything is known to be kept for a backward pass, or made by one or by an optimizer; or what arrays are for is not known. */
static bool is_training(const EchResult *result)
{
    const EchBuffer *buffers = ech_trace_buffers(result->trace);
    bool any = false, known = false;
    for (size_t i = 0; i < ech_trace_n_buffers(result->trace); i++) {
        EchRole role = (EchRole)buffers[i].role;
        any |= role == ECH_ROLE_ACTIVATION || role == ECH_ROLE_GRADIENT || role == ECH_ROLE_OPTIMIZER;
        known |= role != ECH_ROLE_UNKNOWN;
    }
    return any || !known;
}

static bool has_averages(const EchTrace *trace)
{
    bool has = false;
    for (size_t i = 0; i < ech_trace_n_buffers(trace) && !has; i++)
        has = ech_trace_buffers(trace)[i].role == ECH_ROLE_WEIGHT_COPY;
    return has;
}

static bool has_collectives(const EchTrace *trace)
{
    bool has = false;
    for (size_t i = 0; i < ech_trace_n_ops(trace) && !has; i++)
        has = ech_trace_ops(trace)[i].kind == ECH_OP_COLLECTIVE && ech_trace_ops(trace)[i].memory_from > 1;
    return has;
}

/* Who holds hbm at its fullest. Owned by the caller; NULL and 0: there is none. */
static EchHolder *holders_at_fullest(const EchResult *result, size_t *ret_n)
{
    EchReport report = ech_result_report(result);
    const EchMemoryRun *memory = ech_report_memory(result->run, "hbm");
    *ret_n = 0;
    return memory ? ech_report_holders(&report, "hbm", memory->peak_at, ret_n) : NULL;
}

/* EchTallyRow of each line of the program that made temporaries which hbm holds at its fullest, most bytes first. */
static GArray *rows_by_line(const EchResult *result)
{
    size_t n;
    g_autofree EchHolder *holders = holders_at_fullest(result, &n);
    EchTally *tally = ech_tally_new();
    for (size_t i = 0; i < n; i++) {
        const EchBuffer *buffer = &ech_trace_buffers(result->trace)[holders[i].buffer];
        bool given = buffer->role == ECH_ROLE_PARAMETER || buffer->role == ECH_ROLE_OPTIMIZER || buffer->role == ECH_ROLE_WEIGHT_COPY;
        char *line = given ? NULL : ech_report_source_line(ech_trace_string(result->trace, buffer->stack));
        if (line)
            ech_tally_add(tally, line, holders[i].bytes);
    }
    return ech_tally_end(tally);
}

/* Whose weights it holds, of a program of several modules, in a sentence; NULL where there are no two. */
static char *parts_of(const EchResult *result)
{
    EchReport report = ech_result_report(result);
    size_t n;
    g_autofree EchHolder *holders = holders_at_fullest(result, &n);
    g_autofree char *parts = ech_report_parts(&report, holders, n);
    return parts ? g_strdup_printf("Weights then, by who uses them: %s.", parts) : NULL;
}

/* How one says that images and videos are decoded in parts. */
#define VAE_TILES                                                                                                                                              \
    " Most of that is diffusers' autoencoder: pipe.vae.enable_tiling() has it go over images larger than its tiles (vae.tile_sample_min_size, _height, "       \
    "_width) in parts, enable_slicing() image by image; capture that anew."

/* Bytes of its temporaries that diffusers' autoencoders made, of what hbm holds at its fullest. */
static EchBytes decoded_held(const EchResult *result)
{
    size_t n;
    g_autofree EchHolder *holders = holders_at_fullest(result, &n);
    EchBytes bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const EchBuffer *buffer = &ech_trace_buffers(result->trace)[holders[i].buffer];
        if (buffer->role != ECH_ROLE_PARAMETER && strstr(ech_trace_string(result->trace, buffer->stack), "/diffusers/models/autoencoders/"))
            bytes = ech_bytes_add(bytes, holders[i].bytes);
    }
    return bytes;
}

/* What it holds in a sentence or two, without trifles; NULL where the program does not say. */
static char *lines_of(const EchResult *result)
{
    g_autoptr(GArray) rows = rows_by_line(result);
    EchBytes all = 0;
    for (guint i = 0; i < rows->len; i++)
        all = ech_bytes_add(all, g_array_index(rows, EchTallyRow, i).bytes);
    ech_tally_drop_trifles(rows);
    if (rows->len == 0)
        return NULL;
    g_autoptr(GString) text =
        g_string_new(result->program ? "Its temporaries then, by line of the program: " : "By line of the program, without what it is given: ");
    for (guint i = 0; i < MIN(rows->len, MOST_LINES); i++) {
        const EchTallyRow *row = &g_array_index(rows, EchTallyRow, i);
        g_autofree char *bytes = ech_format_bytes(row->bytes);
        g_string_append_printf(text, "%s%s (%s)", i ? ", " : "", row->name, bytes);
    }
    g_string_append(text, rows->len > MOST_LINES ? ", and others." : ".");
    if (decoded_held(result) > all / 2)
        g_string_append(text, VAE_TILES);
    return g_string_free(g_steal_pointer(&text), FALSE);
}

/* Elements of each array of attention's scores that a compiled program makes, uint64_t. */
static GArray *scores_of(const EchProgram *program)
{
    GArray *counts = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    g_autoptr(GArray) softmaxes = ech_program_softmaxes(program);
    for (guint i = 0; i < softmaxes->len; i++) {
        const EchSoftmax *softmax = &g_array_index(softmaxes, EchSoftmax, i);
        if (softmax->classes == 0)
            g_array_append_val(counts, softmax->elements);
    }
    return counts;
}

/* Whether an array, of the shape that @text says, is of so many elements, or a stack of such. */
static bool is_of_counts(const char *text, const GArray *counts)
{
    EchLayout layout;
    size_t used;
    if (!ech_layout_parse(text, strlen(text), &layout, &used, NULL))
        return false;
    uint64_t elements = ech_layout_elements(&layout), layers = layout.rank > 1 ? layout.dims[0] : 1;
    bool is = false;
    for (guint k = 0; k < counts->len && elements > 0; k++) {
        uint64_t count = g_array_index(counts, uint64_t, k);
        is |= elements == count || (elements / layers == count && elements % layers == 0);
    }
    return is;
}

/* What softmax is given and makes in PyTorch's modules that attend by themselves, or in a compiled program, in bytes of what hbm holds at its fullest. */
static EchBytes scores_held(const EchResult *result)
{
    const EchTrace *trace = result->trace;
    size_t n;
    g_autofree EchHolder *holders = holders_at_fullest(result, &n);
    g_autofree bool *is_score = g_new0(bool, ech_trace_n_buffers(trace) + 1);
    for (size_t i = 0; i < ech_trace_n_ops(trace); i++) {
        const EchOp *op = &ech_trace_ops(trace)[i];
        const char *stack = op->kind == ECH_OP_KERNEL ? ech_trace_string(trace, op->stack) : "";
        if (!strstr(stack, "aten::_softmax\n") || !strstr(stack, ECH_RANGE_MODULE) || strstr(stack, "aten::scaled_dot_product_attention"))
            continue;
        for (uint32_t u = op->first_use; u < op->first_use + op->n_uses; u++) {
            EchId buffer = ech_trace_uses(trace)[u].buffer;
            is_score[buffer] |= ech_trace_buffers(trace)[buffer].role != ECH_ROLE_PARAMETER;
        }
    }
    g_autoptr(GArray) counts = result->program ? scores_of(result->program) : NULL;
    EchBytes bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const EchBuffer *buffer = &ech_trace_buffers(trace)[holders[i].buffer];
        bool compiled = counts && buffer->role == ECH_ROLE_TEMPORARY && is_of_counts(ech_trace_string(trace, buffer->shape), counts);
        bytes = ech_bytes_add(bytes, compiled || is_score[holders[i].buffer] ? holders[i].bytes : 0);
    }
    return bytes;
}

/* Is there a parameter of the program that belongs to this argument? */
static bool is_argument(const EchProgram *program, const char *name, size_t n)
{
    const EchComputation *entry = &program->computations[program->entry];
    for (EchId i = entry->first; n > 0 && i < entry->first + entry->n; i++) {
        const char *own = program->instructions[i].opcode == ECH_HLO_PARAMETER ? program->instructions[i].op_name : NULL;
        if (own && strspn(own, ECH_ARGUMENT_LETTERS) == n && strncmp(own, name, n) == 0)
            return true;
    }
    return false;
}

/* The arguments of the program whose arrays' places results could take, quoted for a list ("p", "state" of "2 arguments (of p, state: state['w'][0] and others,
 * ..."); NULL where none is named. */
static char *undonated_of(const EchProgram *program, JsonArray *remarks)
{
    for (guint k = 0; program && remarks && k < json_array_get_length(remarks); k++) {
        const char *remark = json_array_get_string_element(remarks, k), *named = strchr(remark, '(');
        if (!named++ || !strstr(remark, ECH_REMARK_UNDONATED))
            continue;
        g_autoptr(GString) found = g_string_new(NULL);
        bool several = g_str_has_prefix(named, ECH_REMARK_OF_ARGUMENTS);
        for (named += several ? strlen(ECH_REMARK_OF_ARGUMENTS) : 0; *named != '\0';) {
            size_t n = strspn(named, ECH_ARGUMENT_LETTERS);
            if (!is_argument(program, named, n))
                break;
            g_string_append_printf(found, "%s\"%.*s\"", found->len > 0 ? ", " : "", (int)n, named);
            named += n;
            if (!several || !g_str_has_prefix(named, ", "))
                break;
            named += strlen(", ");
        }
        if (found->len > 0)
            return g_string_free(g_steal_pointer(&found), FALSE);
    }
    return NULL;
}

/* Which step times are of, where it is not the whole run that they are of. */
static void tell_step(Advise *a, JsonObject *run, GPtrArray *said)
{
    JsonArray *steps = a->alone ? NULL : steps_of(run);
    a->advice->per = steps || a->alone || a->xla ? "a step" : "in all";
    if (!steps)
        return;
    a->advice->n_steps = json_array_get_length(steps);
    JsonObject *step = json_array_get_object_element(steps, MIN(a->step, (guint)a->advice->n_steps - 1));
    const char *name = ech_member_text(step, "name");
    a->advice->step = g_strconcat(name, ech_step_until(name, json_object_has_member(step, "of_several_optimizers")), NULL);
    a->advice->number = MIN(a->step + 1, a->advice->n_steps);
    g_autofree char *time = ech_format_time(a->advice->base.makespan);
    g_ptr_array_insert(said, (gint)MIN(said->len, 1u),
                       g_strdup_printf("Its last step%s, %zu of %zu, from %s, takes %s: times below are of that step, memory is of the whole.",
                                       a->before_last                           ? " but one"
                                       : a->advice->number < a->advice->n_steps ? " with as large a batch as most"
                                                                                : "",
                                       a->advice->number, a->advice->n_steps, a->advice->step, time));
}

/* What is said of the run as it is. @run: in as much memory as it wants; @here: in what there is. */
static void tell_base(Advise *a, const EchProgram *program, JsonObject *run, JsonObject *here, const char *parts, const char *lines, const char *scores)
{
    g_autoptr(GPtrArray) said = ech_explain_run(run);
    tell_step(a, run, said);
    a->advice->checkpointed = a->again >= 0;
    if (a->again >= 0)
        g_ptr_array_add(said,
                        g_strdup(a->again >= MOST_AGAIN
                                     ? "It makes activations again by itself (jax.checkpoint), most products too: what would make more again is not tried."
                                     : "It makes activations again by itself (jax.checkpoint), and keeps products: a policy that keeps more is not tried."));
    if (a->advice->forward)
        g_ptr_array_add(said, g_strdup("It has no backward pass, for which jax.checkpoint would make activations again."));
    if (parts)
        g_ptr_array_add(said, g_strdup(parts));
    if (lines)
        g_ptr_array_add(said, g_strdup(lines));
    if (a->attends)
        g_ptr_array_add(said, g_strdup_printf("Softmax takes or makes %s of that, of all pairs of positions: %s keeps no such array.", scores,
                                              a->pytorch || !program                  ? ECH_TORCH_SDPA
                                              : program->platform == ECH_PLATFORM_TPU ? "jax.experimental.pallas.ops.tpu.splash_attention"
                                                                                      : "jax.nn.dot_product_attention(implementation=\"cudnn\")"));
    const char *went_on = ech_member_text(here, "went_on_when_captured");
    if (went_on)
        g_ptr_array_add(said, g_strdup(went_on));
    JsonArray *remarks = json_object_get_array_member(here, "remarks");
    a->advice->undonated = undonated_of(program, remarks);
    for (guint i = 0; remarks && i < json_array_get_length(remarks); i++) {
        const char *remark = json_array_get_string_element(remarks, i);
        if (g_str_has_prefix(remark, ECH_REMARK_OPTIMIZER))
            g_ptr_array_add(said, g_strdup_printf("%s.", remark));
        if (g_str_has_prefix(remark, ECH_REMARK_CACHE) || g_str_has_prefix(remark, ECH_REMARK_DEVICES)) /* one device of a recording */
            g_ptr_array_insert(said, 0, g_strdup_printf("T%s.", remark + 1));
    }
    g_ptr_array_add(said, NULL);
    a->advice->holds = g_strdupv((char **)said->pdata);
}

/* Whether weights are most of what a program without a backward pass needs, none of them of few bits as far as its libraries tell. */
static bool is_for_few_bits(const Advise *a, const EchTrace *trace)
{
    EchBytes weights = 0;
    for (size_t i = 0; i < ech_trace_n_buffers(trace); i++) {
        const EchBuffer *buffer = &ech_trace_buffers(trace)[i];
        if (buffer->role == ECH_ROLE_PARAMETER && buffer->alias_of == ECH_NONE)
            weights = ech_bytes_add(weights, buffer->bytes);
    }
    return !a->trains && weights > a->advice->base.hbm / 2 && !ech_trace_says(trace, "torchao", "") && !ech_trace_says(trace, "bitsandbytes", "");
}

/* Measures of PyTorch's that change kernels and types, which no pass tells of one capture, as far as the program has not got them; NULL: none. */
static char *measures_to_capture(const Advise *a, const EchTrace *trace, const char *const *also)
{
    bool wide = false, narrow = false, few_bits = false, generated = false;
    const char *with = ech_trace_get_property(trace, ECH_TRACE_WITH);
    if (!a->pytorch || a->by_hand || a->serves || with || also || !ech_trace_get_property(trace, "pretended_device") || !ech_trace_says(trace, "aten::", ""))
        return NULL;
    for (const EchOp *op = ech_trace_ops(trace), *end = op + ech_trace_n_ops(trace); op < end; op++) {
        const char *launch = op->kind == ECH_OP_KERNEL && op->launch != ECH_NONE ? ech_trace_string(trace, op->launch) : NULL;
        EchGpuLaunch gpu;
        generated |= launch && g_str_has_prefix(ech_trace_string(trace, op->name), "triton_");
        if (!launch || !strstr(launch, "product=") || !ech_gpu_launch_parse(launch, &gpu))
            continue;
        wide |= gpu.operand_bytes >= 4;
        narrow |= gpu.operand_bytes < 4;
        few_bits |= gpu.operand_bytes < 2;
    }
    g_autoptr(GString) asked = g_string_new(a->advice->keeps ? a->attends ? "no_grad, sdpa" : "no_grad" : a->attends ? "sdpa" : NULL);
    if (wide && !narrow)
        g_string_append_printf(asked, "%sautocast", asked->len > 0 ? ", " : "");
    if (!generated)
        g_string_append_printf(asked, "%scompile", asked->len > 0 ? ", " : "");
    if (narrow && !few_bits && is_for_few_bits(a, trace))
        g_string_append_printf(asked, "%squantize%s", asked->len > 0 ? ", " : "",
                               ech_trace_says(trace, "/diffusers/models/", "") && !ech_trace_says(trace, "layerwise_casting.py", "") ? ", layerwise_casting"
                                                                                                                                     : "");
    return asked->len > 0 ? g_string_free(g_steal_pointer(&asked), FALSE) : NULL;
}

/* Which of its steps times are of; of one alone that is cut out of them, and has another batch than most have, rows are not told. */
static void choose_step(Advise *a, const EchResult *result)
{
    size_t n, n_whole = 0;
    g_autofree EchTraceStep *steps = ech_trace_steps(result->trace, &n), *whole = result->whole ? ech_trace_steps(result->whole, &n_whole) : NULL;
    a->step = steps ? (guint)ech_trace_usual_step(steps, n) : 0;
    /* A model's last call leaves nothing to any other: a cache on the host would go and not come back. */
    const EchOp *mark = steps ? &ech_trace_ops(result->trace)[steps[n - 1].mark] : NULL;
    a->before_last =
        n > 2 && a->step + 1 == n && steps[n - 2].rows == steps[n - 1].rows && ech_mark_is_module_call(ech_trace_string(result->trace, mark->name));
    a->step -= a->before_last;
    if (steps && whole && steps[a->step].rows != whole[ech_trace_usual_step(whole, n_whole)].rows)
        a->advice->batch = 0;
}

/* What each device needs, with as much room as that. */
static void note_needs(EchAdvice *advice, const GPtrArray *results)
{
    for (size_t i = 0; i < advice->n_devices; i++) {
        size_t n;
        EchReport report = ech_result_report(results->pdata[i]);
        g_autofree EchMemoryUse *uses = ech_report_uses(&report, &n);
        const EchMemoryRun *hbm = ech_report_memory(report.run, "hbm");
        for (size_t k = 0; k < n; k++)
            if (strcmp(uses[k].memory, "hbm") == 0)
                advice->devices[i].hbm = uses[k].bytes;
        advice->devices[i].beside = hbm ? hbm->peak_reserved - MIN(hbm->peak_reserved, hbm->peak_live) : 0;
    }
}

/* Whether devices work one after the other, but for an optimizer and the like: moving work from one to another of the same kind takes as long. */
static bool run_in_turn(const GPtrArray *results)
{
    EchReport reports[ECH_MAX_RANKS];
    for (guint i = 0; i < results->len; i++)
        reports[i] = ech_result_report(results->pdata[i]);
    g_autoptr(EchRanks) ranks = ech_ranks_new(reports, results->len);
    EchTime step = 0, busy = 0;
    for (size_t i = 0; i < ranks->n; i++) {
        step = MAX(step, ranks->ranks[i].end - ranks->ranks[i].start);
        busy = ech_time_add(busy, ranks->ranks[i].times[ECH_RANK_KERNELS]);
    }
    return busy <= step + step / BESIDE;
}

static EchResult *fullest_of(const GPtrArray *results)
{
    EchReport reports[ECH_MAX_RANKS];
    for (guint i = 0; i < results->len; i++)
        reports[i] = ech_result_report(results->pdata[i]);
    return results->pdata[ech_report_fullest_device(reports, results->len)];
}

/* What was captured: of several devices all of them. */
static const EchTrace *whole_trace(const Advise *a, const EchResult *result)
{
    const EchImport *import = a->advice->n_devices > 0 || result->program ? NULL : ech_experiment_import_case(a->experiment, a->base, NULL);
    return import && import->trace && !import->program ? import->trace : result->trace;
}

/* Where several devices run it. */
static void take_devices(EchAdvice *advice, const GPtrArray *results)
{
    advice->n_devices = results->len > 1 ? results->len : 0;
    advice->devices = g_new0(EchAdviceDevice, advice->n_devices + 1);
    for (size_t i = 0; i < advice->n_devices; i++) {
        EchReport report = ech_result_report(results->pdata[i]);
        advice->devices[i] = (EchAdviceDevice){.number = (uint32_t)ech_trace_number(report.trace, i), .fits = ech_report_fits(&report)};
    }
    note_needs(advice, results);
}

/* The run as it is; what it would need where it does not fit. */
static bool run_base(Advise *a, GPtrArray **ret_results, EchResult **ret, GError **error)
{
    EchAdvice *advice = a->advice;
    g_autoptr(GPtrArray) results = ech_experiment_run_whole(a->experiment, a->base, error);
    if (!results)
        return false;
    EchResult *result = fullest_of(results);
    const EchTrace *whole = whole_trace(a, result);
    advice->blocks = ech_modules_repeated(whole);
    take_devices(advice, results);
    a->pytorch = is_pytorch(result);
    a->by_hand = g_strcmp0(ech_trace_get_property(result->trace, "host_order"), ECH_HOST_COMPILED) == 0;
    for (guint i = 0; i < results->len; i++)
        a->trains |= is_training(results->pdata[i]);
    advice->keeps = !a->trains && ech_trace_get_property(result->trace, ECH_TRACE_KEEPS);
    a->serves = advice->serves = ech_serves(result->trace);
    a->twice = ech_trace_says(whole, "BackwardBackward", ""); /* nodes of autograd for gradients of gradients: "ConvolutionBackwardBackward0" */
    a->lists = ech_trace_says(whole, "aten::_foreach_", "\n" ECH_RANGE_OPTIMIZER);
    a->averages = has_averages(whole);
    a->loops = ech_trace_has_op(result->trace, ECH_OP_LOOP);
    a->logits = ech_trace_get_property(result->trace, ECH_TRACE_LOGITS) != NULL;
    a->xla = result->program != NULL;
    a->tensorflow = a->xla && is_of_tensorflow(result->program);
    a->again = a->xla ? ech_program_products_again(result->program) : -1;
    advice->forward = a->xla && ech_program_is_forward(result->program);
    a->remade = a->xla && ech_trace_is_remade(result->trace);
    a->tpu = a->xla && result->program->platform == ECH_PLATFORM_TPU;
    a->several = a->xla ? (uint64_t)result->program->partitions * result->program->replicas > 1 : has_collectives(whole);
    advice->margin = ech_remat_margin(result->trace);
    if (a->pytorch && a->trains)
        ech_batch_kind(result->trace, result->device, &advice->is_graph, &advice->of_pairs);
    const char *rows = a->pytorch && a->trains && !advice->is_graph && !advice->of_pairs ? ech_trace_get_property(result->trace, ECH_TRACE_BATCH) : NULL;
    advice->batch = rows ? g_ascii_strtoull(rows, NULL, 10) : 0;
    const EchMemory *hbm = ech_device_memory(result->device, "hbm");
    if (!hbm) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "%s has no memory 'hbm'; advice is about that", result->device->name);
        return false;
    }
    if (ech_trace_get_property(result->trace, "sums_only")) {
        g_set_error(
            error, ECH_ERROR, ECH_ERROR_UNSUPPORTED,
            "%s is a message, with sums and no program in it; measures are tried on the program itself, which 'echelon capture --pretend %s -- COMMAND' "
            "writes down without the device",
            a->experiment->title, result->device->name);
        return false;
    }
    choose_step(a, result);
    EchReport report = ech_result_report(result);
    EchRanOut ran;
    if (ech_report_ran_out(&report, &ran)) {
        g_free(ran.line);
        if (ran.said)
            g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED,
                        "the server stopped when it was captured, and what a step of it takes is not known; expected one that came to serve. It said: %s",
                        ran.said);
        else
            g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED,
                        "the program ran out of memory when it was captured, and what it needs in all is not known; expected one that was captured with room: "
                        "'echelon capture --pretend %s --set device.memories.hbm.capacity=1TiB'",
                        result->device->name);
        return false;
    }
    g_autoptr(JsonNode) node = ech_results_json(results, true);
    const EchMemoryRun *used = ech_report_memory(result->run, "hbm");
    advice->available = used ? used->available : hbm->available;
    advice->context = used ? used->context : 0;
    EchCrowded crowded;
    if (ech_report_crowded(&report, &crowded)) {
        GString *text = g_string_new(NULL);
        ech_report_append_crowded(text, &report, &crowded, 0);
        advice->kernel = g_string_free(text, FALSE);
    }
    advice->base = run_of(a, json_node_get_object(node));
    const char *short_of = ech_member_text(ech_member_object(json_node_get_object(node), "failure"), "memory");
    if (!advice->base.fits && short_of && strcmp(short_of, "hbm") != 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_UNSUPPORTED, "what is short is the memory '%s'; advice is about hbm", short_of);
        return false;
    }
    g_autoptr(JsonNode) roomy_node = NULL;
    g_autofree char *lines = advice->base.fits ? lines_of(result) : NULL, *parts = advice->base.fits ? parts_of(result) : NULL;
    bool attention = a->pytorch || (a->xla && !ech_device_is_amd(result->device));
    EchBytes scores = advice->base.fits && attention ? scores_held(result) : 0;
    if (!advice->base.fits) {
        EchCase *roomy = vary_memory(a->base, ROOMY, error);
        g_autoptr(GPtrArray) with_room = roomy ? ech_experiment_run_whole(a->experiment, roomy, error) : NULL;
        ech_case_free(roomy);
        if (!with_room)
            return false;
        const EchResult *fullest = fullest_of(with_room);
        roomy_node = ech_results_json(with_room, true);
        lines = lines_of(fullest);
        parts = parts_of(fullest);
        scores = attention ? scores_held(fullest) : 0;
        note_needs(advice, with_room);
        a->in_turn = run_in_turn(with_room);
        EchBytes planned = advice->base.hbm;
        bool compiled = ech_member_bool(ech_member_object(ech_member_object(json_node_get_object(node), "needs"), "hbm"), "planned");
        advice->base = run_of(a, json_node_get_object(roomy_node));
        advice->base.fits = false;
        advice->base.hbm = compiled ? planned : advice->base.hbm;
    } else
        a->in_turn = run_in_turn(results);
    advice->live_fits = advice->base.hbm <= advice->available;
    a->attends = scores > advice->base.hbm / SCORES;
    g_autofree char *scores_text = ech_format_bytes(scores);
    tell_base(a, result->program, json_node_get_object(roomy_node ? roomy_node : node), json_node_get_object(node), parts, lines, scores_text);
    *ret = result;
    *ret_results = g_steal_pointer(&results);
    return true;
}

/* What holds for all runs, as the command line and PyTorch's recording have it. */
static char **given(const Advise *a, const EchResult *result)
{
    g_autoptr(GStrvBuilder) all = g_strv_builder_new();
    for (char **edit = a->experiment->cases[0].edits; *edit; edit++)
        g_strv_builder_add(all, *edit);
    for (char **pass = result->passes; *pass; pass++) {
        g_autofree char *text = g_strconcat("pass ", *pass, NULL);
        g_strv_builder_add(all, text);
    }
    const EchYamlNode *allocator = ech_yaml_get(a->base->config, "allocator");
    const char *spec = allocator && allocator->kind == ECH_YAML_SCALAR ? allocator->text : result->allocator;
    if (spec) {
        g_autofree char *text = g_strconcat("allocator ", spec, allocator ? "" : ", as recorded", NULL);
        g_strv_builder_add(all, text);
    }
    return g_strv_builder_end(all);
}

typedef enum { FITS, MAY_FIT, DEVICES, SEVERAL, PAGES, NOT_ENOUGH, NOTHING, ERROR } Rank;

static Rank rank(const EchAdviceRow *row)
{
    return row->error                      ? ERROR
           : row->nothing                  ? NOTHING
           : row->paged                    ? PAGES
           : row->device && row->run.fits  ? DEVICES
           : row->several && row->run.fits ? SEVERAL
           : row->run.fits                 ? FITS
           : row->run.narrow               ? MAY_FIT
                                           : NOT_ENOUGH;
}

/* Of what may fit, what does most often comes first: making again, then what sends to the host, last what has no room with the kernels that there are. */
typedef enum { AGAIN, SENT, NO_TIME } Doubt;

static Doubt doubt(const EchAdviceRow *row)
{
    return strcmp(row->name, remat) == 0 ? AGAIN : row->run.makespan > 0 ? SENT : NO_TIME;
}

/* @data: the EchTime up to which one is as quick as the quickest: of those, what a person would try first. Devices: the smallest first. */
static int compare_rows(const void *a, const void *b, void *data)
{
    const EchAdviceRow *x = a, *y = b;
    if (rank(x) != rank(y))
        return (int)rank(x) - (int)rank(y);
    if (rank(x) == DEVICES)
        return 0;
    const bool untimed[] = {x->spread && x->run.makespan == 0, y->spread && y->run.makespan == 0};
    if (untimed[0] != untimed[1])
        return (int)untimed[0] - (int)untimed[1];
    EchTime quick = *(const EchTime *)data, p = MAX(x->run.makespan, quick), q = MAX(y->run.makespan, quick);
    if (x->run.fits)
        return (p > q) - (p < q);
    if (x->run.narrow && doubt(x) != doubt(y))
        return (int)doubt(x) - (int)doubt(y);
    if (x->run.narrow && doubt(x) < NO_TIME)
        return (x->run.makespan > y->run.makespan) - (x->run.makespan < y->run.makespan);
    return (x->run.hbm > y->run.hbm) - (x->run.hbm < y->run.hbm);
}

/* The memory that a row's numbers are of, where that is not the device's: what schedules, pages and places goes by it. */
static void tell_memory(const Advise *a, Trial *t, const EchDevice *device)
{
    const char *size = t->roomy ? ROOMY : a->memory;
    EchBytes bytes = 0;
    if (!size || !t->row.options || !ech_parse_bytes(size, &bytes, NULL))
        return;
    bool more = bytes > ech_device_memory(device, "hbm")->capacity;
    g_autofree char *capacity = more ? g_strdup_printf("--set device.memories.hbm.capacity=%s ", size) : g_strdup("");
    g_autofree char *options = g_steal_pointer(&t->row.options);
    t->row.options = g_strdup_printf("%s--set device.memories.hbm.available=%s %s", capacity, size, options);
}

/* In their order; equal ones as they stand in the table. */
static void take_rows(Advise *a, const EchDevice *device)
{
    EchAdvice *advice = a->advice;
    advice->n = a->trials->len;
    advice->rows = g_new(EchAdviceRow, advice->n + 1);
    for (guint i = 0; i < a->trials->len; i++) {
        Trial *t = &g_array_index(a->trials, Trial, i);
        tell_memory(a, t, device);
        advice->rows[i] = t->row;
        t->row = (EchAdviceRow){0};
    }
    EchTime quickest = G_MAXINT64;
    for (size_t i = 0; i < advice->n; i++)
        quickest = rank(&advice->rows[i]) == FITS && advice->rows[i].run.makespan > 0 ? MIN(quickest, advice->rows[i].run.makespan) : quickest;
    EchTime quick = quickest < G_MAXINT64 / 2 ? quickest + quickest / AS_QUICK : 0;
    g_qsort_with_data(advice->rows, (gint)advice->n, sizeof *advice->rows, compare_rows, &quick);
}

/* ---- the largest batch ---- */

/* Runs with batches of @n sizes, ascending: *@fit is the largest that has room and its run, where one has that is larger, *@over the smallest that has none. */
static bool try_batches(Advise *a, const uint64_t *sizes, size_t n, uint64_t *fit, uint64_t *over, GError **error)
{
    EchCase *cases[PROBES];
    for (size_t i = 0; i < n; i++) {
        g_autofree char *spec = g_strdup_printf("batch:rows=%" G_GUINT64_FORMAT, sizes[i]);
        cases[i] = vary(a->base, "passes", spec, error);
        if (!cases[i]) {
            while (i-- > 0)
                ech_case_free(cases[i]);
            return false;
        }
    }
    EchSweepPoint *points = run_cases(a, cases, n, error);
    for (size_t i = 0; points && i < n && sizes[i] < *over; i++) {
        g_autoptr(JsonNode) node = ech_sweep_point_json(&points[i]);
        EchAdviceRun run = node ? run_of(a, json_node_get_object(node)) : (EchAdviceRun){0};
        if (run.fits && sizes[i] > *fit) {
            *fit = sizes[i];
            a->advice->most = run;
        } else if (!run.fits)
            *over = sizes[i];
    }
    ech_sweep_free(points, points ? n : 0);
    return points != NULL;
}

/* What a batch of one row needs, which has no room; of a batch that is one already, which part of that row has. */
static bool learn_least(Advise *a, GError **error)
{
    static const char *const parts[] = {"batch:times=0.5", "batch:times=0.25", "batch:times=0.125"};
    const bool one = a->advice->batch == 1;
    for (size_t i = 0; i < (one ? G_N_ELEMENTS(parts) : 1) && a->advice->row_parts == 0; i++) {
        EchCase *c = vary(a->base, "passes", one ? parts[i] : "batch:rows=1", error), *roomy = c ? vary_memory(c, ROOMY, error) : NULL;
        ech_case_free(c);
        EchSweepPoint *points = roomy ? run_cases(a, &roomy, 1, error) : NULL;
        g_autoptr(JsonNode) node = points ? ech_sweep_point_json(points) : NULL;
        if (node)
            a->advice->most = run_of(a, json_node_get_object(node));
        a->advice->most.fits = false;
        a->advice->row_parts = node && one && a->advice->most.hbm <= a->advice->available ? (uint64_t)2 << i : 0;
        ech_sweep_free(points, points ? 1 : 0);
        if (!points)
            return false;
    }
    return true;
}

/* The largest batch that has room as the program is. */
static bool find_batch(Advise *a, GError **error)
{
    const uint64_t rows = a->advice->batch;
    uint64_t fit = a->advice->base.fits ? rows : 0, over = a->advice->base.fits ? UINT64_MAX : rows;
    bool ok = true;
    a->advice->most = a->advice->base;
    for (uint64_t times = 2; ok && over == UINT64_MAX && times <= MOST_TIMES; times *= 8) {
        const uint64_t sizes[PROBES] = {rows * times, rows * times * 2, rows * times * 4};
        ok = try_batches(a, sizes, PROBES, &fit, &over, error);
    }
    while (ok && over != UINT64_MAX && over - fit > 1) {
        uint64_t sizes[PROBES];
        size_t n = 0;
        for (uint64_t k = 1; k <= PROBES; k++) {
            uint64_t size = fit + (over - fit) / (PROBES + 1) * k + (over - fit) % (PROBES + 1) * k / (PROBES + 1);
            if (size > fit && size < over && (n == 0 || size > sizes[n - 1]))
                sizes[n++] = size;
        }
        ok = try_batches(a, sizes, n, &fit, &over, error);
    }
    a->advice->most_batch = fit;
    a->advice->more_batch = over == UINT64_MAX;
    return ok && (fit > 0 || learn_least(a, error));
}

EchAdvice *ech_advise(EchExperiment *experiment, const char *memory, const char *const *also, unsigned jobs, const volatile sig_atomic_t *stop,
                      EchSweepProgress progress, void *data, GError **error)
{
    g_autoptr(EchAdvice) advice = g_new0(EchAdvice, 1);
    /* All on one engine, so that times compare. */
    EchCase *base = vary(&experiment->cases[0], "replay.engine", "native", error);
    if (base && memory) {
        EchCase *limited = vary_memory(base, memory, error);
        ech_case_free(base);
        base = limited;
    }
    if (!base)
        return NULL;
    experiment->least_cache = true;
    Advise a = {.experiment = experiment,
                .base = base,
                .memory = memory,
                .alone = ech_yaml_get(base->config, "step") != NULL,
                .advice = advice,
                .trials = g_array_new(FALSE, TRUE, sizeof(Trial)),
                .jobs = jobs,
                .stop = stop,
                .progress = progress,
                .data = data};
    g_array_set_clear_func(a.trials, trial_clear);
    g_autoptr(GPtrArray) results = NULL;
    EchResult *result = NULL;
    bool ok = run_base(&a, &results, &result, error);
    if (ok) {
        advice->device = g_strdup(result->device->name);
        advice->summary = g_strdup(result->device->summary);
        advice->title = g_strdup(experiment->title);
        advice->given = given(&a, result);
    }
    const bool done = ok && advice->kernel && advice->base.fits; /* of hbm it needs no less */
    if (ok && !done) {
        advice->to_capture = measures_to_capture(&a, result->trace, also);
        if (a.pytorch && !advice->base.fits && advice->live_fits)
            add_measures(&a, FRAGMENTED);
        add_captures(&a, also);
        add_spread(&a, result);
        add_measures(&a, ALWAYS);
        if (!advice->base.fits) {
            add_measures(&a, SHORT);
            add_devices(&a, result->device);
            add_measures(&a, MORE);
        }
        ok = run_rounds(&a, error);
        leave_whole_stacks(&a);
    }
    if (ok && !done) {
        ok = try_donated(&a, is_enough(&a), error);
        leave_whole_stacks(&a);
    }
    if (ok && !done && !is_enough(&a)) {
        add_measures(&a, LAST);
        ok = run_rounds(&a, error);
    }
    if (ok && a.pytorch && !advice->base.fits)
        ok = try_growing(&a, error);
    if (ok && !advice->base.fits && strcmp(result->device->family, "gpu") == 0 && !ech_device_is_amd(result->device)) {
        add_measures(&a, PAGED);
        ok = run_rounds(&a, error);
    }
    ok = ok && (done || learn_needs(&a, error)) && (advice->batch == 0 || find_batch(&a, error));
    if (ok) {
        drop_alike(&a);
        allow_policies(&a);
        allow_parts(&a);
        take_rows(&a, result->device);
    }
    g_array_unref(a.trials);
    ech_case_free(a.base);
    return ok ? g_steal_pointer(&advice) : NULL;
}

void ech_advice_free(EchAdvice *advice)
{
    if (!advice)
        return;
    for (size_t i = 0; i < advice->n; i++)
        row_clear(&advice->rows[i]);
    g_free(advice->rows);
    g_free(advice->title);
    g_free(advice->kernel);
    g_free(advice->device);
    g_free(advice->devices);
    g_free(advice->summary);
    g_strfreev(advice->given);
    g_strfreev(advice->holds);
    g_free(advice->step);
    g_free(advice->undonated);
    g_free(advice->blocks);
    g_free(advice->to_capture);
    g_free(advice);
}

bool ech_advice_helps(const EchAdvice *advice)
{
    if (advice->kernel)
        return false;
    bool helps = advice->base.fits;
    for (size_t i = 0; i < advice->n; i++)
        helps |= rank(&advice->rows[i]) == FITS || rank(&advice->rows[i]) == DEVICES || rank(&advice->rows[i]) == SEVERAL;
    return helps;
}

/* -- telling ---------------------------------------------------------------- */

static void cell(GString *out, const char *text, int width)
{
    g_string_append_printf(out, "%*s%s", MAX(width - ech_text_width(text), 1), "", text);
}

/* @available: what there is, where it does not fit. */
static void print_run(GString *out, const EchAdviceRun *run, EchTime base, EchBytes available)
{
    g_autofree char *hbm = ech_format_bytes(run->hbm), *host = ech_format_bytes(run->host), *time = ech_format_time(run->makespan);
    g_autofree char *factor = g_strdup_printf("x%.3f", base > 0 ? (double)run->makespan / (double)base : 0);
    bool timed = run->makespan > 0;
    cell(out, hbm, 10);
    cell(out, run->host >= 1024 ? host : "-", 10); /* A word or two that a library pins are not worth a row. */
    cell(out, timed ? time : "-", 9);
    cell(out, timed && base > 0 ? factor : run->hbm <= available ? "in pieces" : "-", 10);
    g_string_append_c(out, '\n');
}

/* Rows of one rank, numbered. */
static void print_rows(GString *out, const EchAdvice *advice, Rank of_rank, const char *heading)
{
    bool any = false;
    for (size_t i = 0; i < advice->n; i++) {
        const EchAdviceRow *row = &advice->rows[i];
        if (rank(row) != of_rank)
            continue;
        if (!any)
            g_string_append_printf(out, "\n  %s\n", heading);
        any = true;
        g_string_append_printf(out, "  %2zu%s", i + 1, row->donated ? "* " : row->growing ? "+ " : "  ");
        ech_text_cell(out, row->label, 35);
        print_run(out, &row->run, advice->base.makespan, of_rank == NOT_ENOUGH && !advice->base.fits ? advice->available : 0);
    }
}

/* " (58 ms, x0.853)" of what takes another time, if it needs no less; else nothing. */
static char *time_beside(const EchAdvice *advice, const EchAdviceRow *row)
{
    enum { TOLD_PART = 100 };
    EchTime time = row->run.makespan, base = advice->base.makespan;
    if (g_strcmp0(row->nothing, needs_no_less) != 0 || time == 0 || base == 0 || ABS(time - base) <= base / TOLD_PART)
        return g_strdup("");
    g_autofree char *text = ech_format_time(time);
    return g_strdup_printf(" (%s, x%.3f)", text, (double)time / (double)base);
}

/* What is of no use for memory, and what could not be run, by reason. */
static void print_rest(GString *out, const EchAdvice *advice, Rank of_rank, const char *heading, unsigned columns)
{
    g_autofree bool *said = g_new0(bool, advice->n + 1);
    bool any = false;
    for (size_t i = 0; i < advice->n; i++) {
        if (rank(&advice->rows[i]) != of_rank || said[i])
            continue;
        if (!any)
            g_string_append_printf(out, "\n  %s\n", heading);
        any = true;
        const char *reason = of_rank == ERROR ? advice->rows[i].error : advice->rows[i].nothing;
        g_autoptr(GString) text = g_string_new(NULL);
        size_t n_said = 0;
        for (size_t k = i; k < advice->n; k++) {
            const EchAdviceRow *row = &advice->rows[k];
            if (rank(row) != of_rank || strcmp(reason, of_rank == ERROR ? row->error : row->nothing) != 0)
                continue;
            g_autofree char *time = time_beside(advice, row);
            g_string_append_printf(text, "%s%s%s", text->len ? "; " : "", row->label, time);
            said[k] = true;
            n_said++;
        }
        if (n_said == advice->n)
            g_string_assign(text, "all that was tried");
        g_string_append_printf(text, ": %s", reason);
        ech_text_wrap(out, "    ", text->str, columns);
    }
}

/* 0.49 s a GiB on an L4's host (replay/price.c). */
static void print_pinned(GString *out, const EchAdvice *advice, unsigned columns)
{
    for (size_t i = 0; i < advice->n; i++) {
        if (strcmp(advice->rows[i].name, weights_ahead) != 0 || rank(&advice->rows[i]) != FITS)
            continue;
        g_autofree char *text =
            g_strdup_printf("(%zu: from pinned memory, which takes the host half a second a GiB once and is not in the time; PyTorch rounds "
                            "each array there up to a power of two, so that it may take up to twice as much of the host)",
                            i + 1);
        ech_text_wrap(out, "  ", text, columns);
    }
}

/* Parts come and go once, whatever happens between. */
static void print_parts(GString *out, const EchAdvice *advice, unsigned columns)
{
    for (size_t i = 0; i < advice->n; i++) {
        const EchAdviceRow *row = &advice->rows[i];
        if (strcmp(row->name, parts_in_turn) != 0 || rank(row) != FITS || advice->n_steps == 0)
            continue;
        g_autofree char *more = ech_format_time(MAX(row->run.whole - advice->base.whole, 0)), *step = ech_format_time(advice->base.makespan);
        g_autofree char *text =
            g_strdup_printf("(%zu: on average over the %zu steps that were captured; a step of a part that is there takes %s, and %s more is for parts that "
                            "come and go, however many steps there are)",
                            i + 1, advice->n_steps, step, more);
        ech_text_wrap(out, "  ", text, columns);
    }
}

static void print_untold(GString *out, const EchAdvice *advice, unsigned columns)
{
    bool any = false;
    for (size_t i = 0; i < advice->n; i++)
        any |= rank(&advice->rows[i]) == PAGES && advice->rows[i].run.makespan == 0;
    if (any)
        ech_text_wrap(out, "  ",
                      "(without a time: the capture does not tell which parts of blocks are used when, and which come and go; it may take many times as long)",
                      columns);
}

/* Why rows are not said to fit. */
static void print_why_may(GString *out, const EchAdvice *advice, unsigned columns)
{
    bool again = false, early = false, first = false, scheduled = false, policy = false, parts = false, graph = false;
    for (size_t i = 0; i < advice->n; i++) {
        const EchAdviceRow *row = &advice->rows[i];
        bool may = rank(row) == MAY_FIT && !row->spread, room = row->run.hbm <= advice->available;
        if (row->in_code && g_str_has_prefix(row->in_code, TORCH_PARTS)) {
            parts |= may;
            continue;
        }
        policy |= may && !room;
        if (!may || !room)
            continue;
        bool is_again = strstr(row->options, remat) != NULL, is_early = row->run.early > row->run.hbm, is_first = row->run.first > row->run.hbm;
        again |= is_again && !advice->blocks;
        graph |= is_again && advice->blocks;
        early |= is_early;
        first |= is_first;
        scheduled |= !is_again && !is_early && !is_first && strstr(row->options, schedule) != NULL;
    }
    if (again) {
        g_autofree char *text = g_strdup_printf("(compilers asked for jax.checkpoint have taken up to %s times what is said of making again)", advice->margin);
        ech_text_wrap(out, "  ", text, columns);
    }
    if (scheduled)
        ech_text_wrap(out, "  ",
                      "(how much the compiler makes again itself to come down to memory is its own choice, and has taken up to " ECH_SCHEDULE_MARGIN
                      " times what is said of arrays on the host)",
                      columns);
    if (early)
        ech_text_wrap(out, "  ",
                      "(XLA fetches offloaded arrays early, many at once, and may need as much as without, or more; what a loop over layers fetches slice by "
                      "slice, jax.lax.scan, comes when it is used)",
                      columns);
    if (first)
        ech_text_wrap(out, "  ", "(some programs' offloaded arrays libtpu brings before all else, and needs more; " ECH_BRING_LATE " mostly has them as told)",
                      columns);
    if (policy)
        ech_text_wrap(
            out, "  ",
            "(what is told without a time has no room with the kernels that there are; a policy of jax.checkpoint makes again all that it does not name, "
            "in kernels fused anew, and needs from what 'make activations again' does up to that)",
            columns);
    if (graph)
        ech_text_wrap(out, "  ",
                      "(checkpoints within one graph of torch.compile have taken up to " ECH_REMAT_GRAPH_MARGIN " times what is told; " ECH_REMAT_APART ")",
                      columns);
    if (parts)
        ech_text_wrap(out, "  ", "(which arrays are made again is told as if each could be chosen; PyTorch does so by parts of a model)", columns);
    g_autofree char *know = ech_report_how_to_know(advice->device);
    if (again || early || first || policy)
        ech_text_wrap(out, "  ", know, columns);
}

/* Passes cut what they make again as finely as that helps, a program's author by blocks. */
static void print_blocks(GString *out, const EchAdvice *advice, unsigned columns)
{
    g_autoptr(GString) text = g_string_new(NULL);
    for (size_t i = 0; i < advice->n; i++) {
        const EchAdviceRow *row = &advice->rows[i];
        if (row->run.once == 0 || rank(row) > MAY_FIT)
            continue;
        g_autofree char *bytes = ech_format_bytes(row->run.once);
        g_string_append_printf(text, "%s%s by %zu", text->len ? ", " : "(of what is made again there are at once at most: ", bytes, i + 1);
    }
    if (text->len == 0)
        return;
    g_string_append(text, "; jax.checkpoint has all there that a block makes: what a block makes beyond that it needs besides)");
    ech_text_wrap(out, "  ", text->str, columns);
}

/* How the program says so; NULL where it says nothing. */
static char *code_of(const EchAdvice *advice, const EchAdviceRow *row)
{
    const char *code = row->in_code;
    if (!code)
        return NULL;
    bool policy = advice->checkpointed && g_str_has_prefix(code, JAX_CHECKPOINT), given = advice->forward && g_str_has_prefix(code, STATE);
    g_autoptr(GString) text = g_string_new(policy ? JAX_NO_POLICY : given ? GIVEN : code);
    if (policy || given)
        g_string_append(text, code + strlen(policy ? JAX_CHECKPOINT : STATE));
    if (advice->blocks && g_str_has_prefix(code, ECH_TORCH_CHECKPOINT) && !g_str_has_prefix(code, ECH_TORCH_CHECKPOINT " of ")) {
        g_autofree char *of = g_strconcat(" of ", advice->blocks, NULL);
        g_string_insert(text, strlen(ECH_TORCH_CHECKPOINT), of);
    }
    if (row->growing)
        g_string_append(text, "; and " EXPANDABLE);
    bool donates = strcmp(code, DONATE) == 0;
    if (row->donated && !donates)
        g_string_append(text, "; and " DONATE);
    if (row->donated || donates)
        g_string_append_printf(text, advice->undonated ? "[%s])" : "[...])", advice->undonated);
    return g_string_free(g_steal_pointer(&text), FALSE);
}

/* What to do, rows that say the same together. */
static void print_code(GString *out, const EchAdvice *advice, size_t n, unsigned columns)
{
    g_autofree bool *said = g_new0(bool, n + 1);
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        g_autofree char *code = said[i] ? NULL : code_of(advice, &advice->rows[i]);
        if (!code)
            continue;
        if (!any)
            g_string_append(out, "\n  How a program says so\n");
        any = true;
        g_autoptr(GString) numbers = g_string_new("  ");
        for (size_t k = i; k < n; k++) {
            g_autofree char *other = code_of(advice, &advice->rows[k]);
            if (g_strcmp0(code, other) != 0)
                continue;
            said[k] = true;
            g_string_append_printf(numbers, k == i ? "%2zu" : ", %zu", k + 1);
        }
        g_string_append(numbers, "  ");
        ech_text_wrap(out, numbers->str, code, columns);
    }
}

static void print_how(GString *out, const EchAdvice *advice, unsigned columns)
{
    /* Those that may fit beside those that do; where none does, those that need less. */
    Rank first_rank = rank(&advice->rows[0]), last = first_rank < PAGES ? PAGES : NOT_ENOUGH;
    size_t n = 0;
    while (n < advice->n && rank(&advice->rows[n]) <= last)
        n++;
    if (n == 0)
        return;
    print_code(out, advice, n, columns);
    g_string_append(out, "\n  What to add to 'echelon run', which tells the arrays\n");
    for (size_t i = 0; i < n; i++) {
        if (!advice->rows[i].options)
            continue;
        g_autofree char *first = g_strdup_printf("  %2zu  ", i + 1);
        g_autofree char *options = g_strconcat(advice->rows[i].options, advice->rows[i].captured ? " in place of this one" : "", NULL);
        ech_text_wrap(out, first, options, columns);
    }
}

/* Which device needs how much. */
static void print_devices(GString *out, const EchAdvice *advice, unsigned columns)
{
    if (advice->n_devices == 0)
        return;
    g_autoptr(GString) text = g_string_new(NULL);
    g_string_append_printf(text, "It runs on %zu devices:", advice->n_devices);
    for (size_t i = 0; i < advice->n_devices; i++) {
        g_autofree char *hbm = ech_format_bytes(advice->devices[i].hbm);
        g_string_append_printf(text, "%s %u needs %s%s", i > 0 ? "," : "", advice->devices[i].number, hbm,
                               advice->devices[i].fits ? "" : " and has no room for it");
    }
    g_string_append(text, ". Below, hbm is that of the fullest, times are of all together.");
    ech_text_wrap(out, "  ", text->str, columns);
}

/* Divisions of blocks are not replayed. */
static void print_spread(GString *out, const EchAdvice *advice, unsigned columns)
{
    for (size_t i = 0; i < advice->n; i++) {
        if (!advice->rows[i].spread || rank(&advice->rows[i]) > NOT_ENOUGH)
            continue;
        g_autofree char *text =
            g_strdup_printf("(%zu: by what each block holds when, not replayed%s; %s)", i + 1,
                            rank(&advice->rows[i]) == MAY_FIT ? ", with as much as the allocator holds beside it now there is no room" : "",
                            advice->rows[i].run.makespan > 0 ? "devices that take turns take as long" : "what that does to the time, a capture of it tells");
        ech_text_wrap(out, "  ", text, columns);
    }
}

/* What to begin with, in a sentence. */
static void print_first(GString *out, const EchAdvice *advice, unsigned columns)
{
    const EchAdviceRow *row = advice->n > 0 ? &advice->rows[0] : NULL;
    if (advice->keeps)
        ech_text_wrap(out, "  ", "No backward pass follows, but what one would take is kept: " ECH_TORCH_NO_GRAD " keeps none of it.", columns);
    if (advice->base.fits || !row || rank(row) > MAY_FIT)
        return;
    g_autofree char *code = code_of(advice, row);
    g_autofree char *hbm = ech_format_bytes(row->run.hbm), *time = ech_format_time(row->run.makespan);
    g_autofree char *told = row->run.makespan > 0 ? g_strdup_printf(" (%s, %s %s)", hbm, time, advice->per) : g_strdup("");
    g_autofree char *text = g_strdup_printf("%s first: %s%s%s%s.", rank(row) == FITS ? "Do" : "Try", row->label, told, code ? ": " : "", code ? code : "");
    ech_text_wrap(out, "  ", text, columns);
}

/* The largest batch, in a sentence. */
static void print_batch(GString *out, const EchAdvice *advice, unsigned columns)
{
    if (advice->is_graph)
        ech_text_wrap(
            out, "  ",
            "Its rows are the nodes of one graph, and parts of it would lack one another's: gradients cannot be accumulated over them. Batches of nodes "
            "that bring their neighbours along (torch_geometric.loader.NeighborLoader) need less.",
            columns);
    if (advice->of_pairs)
        ech_text_wrap(out, "  ",
                      "All rows of its batch are compared with all: a smaller batch, or parts of one whose gradients are accumulated, have another loss. What "
                      "runs the model on parts of the batch, and the loss on all of it, needs less: GradCache, CachedMultipleNegativesRankingLoss of "
                      "sentence-transformers.",
                      columns);
    if (advice->batch == 0)
        return;
    g_autofree char *hbm = ech_format_bytes(advice->most.hbm), *time = ech_format_time(advice->most.makespan), *text = NULL;
    if (advice->most_batch == 0 && advice->batch == 1) {
        const char *part = advice->row_parts == 2 ? "half" : advice->row_parts == 4 ? "a quarter" : "an eighth";
        g_autofree char *takes = advice->row_parts > 0 && advice->most.makespan > 0 ? g_strdup_printf(", %s %s", time, advice->per) : g_strdup("");
        text = g_strdup_printf("Its batch is one row, of which %s (fewer tokens, or pixels) %s %s%s. Rows that are packed into one, without padding, are one.",
                               part, advice->row_parts > 0 ? "fits:" : "needs", hbm, takes);
    } else if (advice->most_batch == 0)
        text = g_strdup_printf("No smaller batch fits as it is (%" G_GUINT64_FORMAT " now): one of 1 needs %s.", advice->batch, hbm);
    else if (advice->most_batch == advice->batch)
        text = g_strdup_printf("Its batch of %" G_GUINT64_FORMAT " is the largest that fits.", advice->batch);
    else {
        double speed = (double)advice->most_batch / (double)advice->batch * (double)advice->base.makespan / MAX((double)advice->most.makespan, 1);
        g_autofree char *faster =
            advice->base.makespan > 0 && advice->most.makespan > 0 ? g_strdup_printf(", %.2f times the rows a second", speed) : g_strdup("");
        text = g_strdup_printf("A batch of %" G_GUINT64_FORMAT " fits%s as it is (%" G_GUINT64_FORMAT " now): %s, %s %s%s.", advice->most_batch,
                               advice->more_batch ? ", and perhaps more," : "", advice->batch, hbm, time, advice->per, faster);
    }
    ech_text_wrap(out, "  ", text, columns);
}

GString *ech_advice_text(const EchAdvice *advice, unsigned columns)
{
    g_autofree char *need = ech_format_bytes(advice->base.hbm), *room = ech_format_bytes(advice->available), *taken = ech_format_bytes(advice->context);
    g_autofree char *beside = advice->context ? g_strdup_printf(" beside %s of the process's context", taken) : g_strdup("");
    GString *out = g_string_new(NULL);
    bool summary = advice->summary && *advice->summary;
    g_autofree char *title =
        g_strdup_printf("%s on %s%s%s%s", advice->title, advice->device, summary ? " (" : "", summary ? advice->summary : "", summary ? ")" : "");
    ech_text_wrap(out, "", title, columns);
    for (char **edit = advice->given; *edit; edit++)
        g_string_append_printf(out, "  with %s\n", *edit);
    g_autoptr(GString) line = g_string_new(NULL);
    g_string_append_c(out, '\n');
    if (advice->kernel && advice->base.fits)
        g_string_printf(line, "IT DOES NOT FIT. Of hbm it does, %s of %s are needed; a kernel has too little room on chip.", need, room);
    else if (advice->base.fits)
        g_string_printf(line, "It fits. %s of %s of hbm are needed%s: what needing less would cost.", need, room, beside);
    else if (advice->live_fits)
        g_string_printf(line, "IT DOES NOT FIT, though at most %s of %s of hbm are in use at a time: what is free is in pieces.", need, room);
    else
        g_string_printf(line, "IT DOES NOT FIT. %s of hbm are needed, %s are there%s.", need, room, beside);
    ech_text_wrap(out, "  ", line->str, columns);
    if (advice->kernel) {
        g_autoptr(GString) kernel = ech_text_fold(advice->kernel, columns);
        g_string_append(out, kernel->str);
        if (advice->base.fits)
            return out;
        g_string_append(out, "  What follows is about hbm alone.\n");
    }
    print_first(out, advice, columns);
    print_batch(out, advice, columns);
    print_devices(out, advice, columns);
    for (char **sentence = advice->holds; *sentence; sentence++)
        ech_text_wrap(out, "  ", *sentence, columns);
    g_string_append_printf(out, "\n  %-39s%10s%10s%9s%10s\n", "", "hbm", "host", "time", "relative");
    g_string_append_printf(out, "  %-39s", "as it is");
    print_run(out, &advice->base, 0, 0);
    print_rows(out, advice, FITS, advice->base.fits ? "What would save some" : "What would make it fit");
    print_pinned(out, advice, columns);
    print_parts(out, advice, columns);
    print_rows(out, advice, MAY_FIT, "What may");
    print_blocks(out, advice, columns);
    print_why_may(out, advice, columns);
    print_rows(out, advice, DEVICES, "As it is, on a larger device");
    print_rows(out, advice, SEVERAL, "On several of this device");
    print_rows(out, advice, PAGES, "What would run as it is, with what has no room on the host");
    print_untold(out, advice, columns);
    print_rows(out, advice, NOT_ENOUGH, advice->base.fits ? "What would not" : "What would not be enough");
    bool donated = false, growing = false;
    for (size_t i = 0; i < advice->n; i++) {
        donated |= advice->rows[i].donated && rank(&advice->rows[i]) <= NOT_ENOUGH;
        growing |= advice->rows[i].growing && rank(&advice->rows[i]) <= NOT_ENOUGH;
    }
    if (donated)
        g_string_append(out, "  (*: with arguments donated, too)\n");
    if (growing)
        ech_text_wrap(out, "  ", "(+: with segments that grow, too: " EXPANDABLE ")", columns);
    print_spread(out, advice, columns);
    if (advice->n > 0)
        print_how(out, advice, columns);
    if (advice->to_capture) {
        g_autofree char *first = g_strndup(advice->to_capture, strcspn(advice->to_capture, ","));
        g_autofree char *text =
            g_strdup_printf("Not tried, since PyTorch itself tells: %s. 'echelon capture --pretend %s%s --with %s -o with -- COMMAND', then "
                            "'--also with.PID.pretend' here; 'echelon list measures' has more.",
                            advice->to_capture, advice->device, advice->base.fits ? "" : " --set device.memories.hbm.capacity=1TiB", first);
        ech_text_wrap(g_string_append_c(out, '\n'), "  ", text, columns);
    } else if (advice->serves)
        ech_text_wrap(
            g_string_append_c(out, '\n'), "  ",
            "Other settings make another program of a server, whose capture tells its tokens in its log: a cache in 8 bits holds twice the tokens of one in 16 "
            "(--kv-cache-dtype fp8 of vLLM, fp8_e4m3 of SGLang), and weights in 8 bits (--quantization fp8) leave it half of what they have in 16.",
            columns);
    else if (!advice->base.fits)
        ech_text_wrap(g_string_append_c(out, '\n'), "  ",
                      advice->batch > 0
                          ? "A shorter sequence, or a smaller type, is another program: capture that as you captured this ('echelon capture --find' looks "
                            "for the longest that fits)."
                          : "A smaller batch, a shorter sequence, or a smaller type, is another program: capture that as you captured this ('echelon "
                            "capture --find' looks for the largest that fits).",
                      columns);
    print_rest(out, advice, NOTHING, "What cannot be done, or needs no less", columns);
    print_rest(out, advice, ERROR, "What could not be tried", columns);
    return out;
}

static void json_run(JsonBuilder *b, const EchAdviceRun *run)
{
    ech_json_add_bool(b, "fits", run->fits);
    if (run->narrow)
        ech_json_add_bool(b, "may_fit", true);
    ech_json_add_count(b, "hbm_bytes", run->hbm);
    ech_json_add_count(b, "host_bytes", run->host);
    if (run->once)
        ech_json_add_count(b, "again_at_once_bytes", run->once);
    json_builder_set_member_name(b, "makespan_ps");
    if (run->makespan > 0)
        json_builder_add_int_value(b, run->makespan);
    else
        json_builder_add_null_value(b);
}

JsonNode *ech_advice_json(const EchAdvice *advice)
{
    g_autoptr(JsonBuilder) b = json_builder_new();
    json_builder_begin_object(b);
    ech_json_add_text(b, "title", advice->title);
    ech_json_add_text(b, "device", advice->device);
    ech_json_begin_array(b, "given");
    for (char **edit = advice->given; *edit; edit++)
        json_builder_add_string_value(b, *edit);
    json_builder_end_array(b);
    ech_json_add_count(b, "hbm_available_bytes", advice->available);
    ech_json_add_count(b, "context_bytes", advice->context);
    if (advice->n_steps > 0) {
        json_builder_set_member_name(b, "step");
        json_builder_begin_object(b);
        ech_json_add_count(b, "number", advice->number);
        ech_json_add_text(b, "from", advice->step);
        json_builder_end_object(b);
    }
    if (advice->n_devices > 0)
        ech_json_begin_array(b, "devices");
    for (size_t i = 0; i < advice->n_devices; i++) {
        json_builder_begin_object(b);
        ech_json_add_count(b, "device", advice->devices[i].number);
        ech_json_add_bool(b, "fits", advice->devices[i].fits);
        ech_json_add_count(b, "hbm_bytes", advice->devices[i].hbm);
        json_builder_end_object(b);
    }
    if (advice->n_devices > 0)
        json_builder_end_array(b);
    json_run(b, &advice->base);
    if (advice->kernel)
        ech_json_add_text(b, "kernel", advice->kernel);
    if (advice->batch > 0) {
        json_builder_set_member_name(b, "batch");
        json_builder_begin_object(b);
        ech_json_add_count(b, "rows", advice->batch);
        ech_json_add_count(b, "most_rows", advice->most_batch);
        json_run(b, &advice->most);
        json_builder_end_object(b);
    }
    if (advice->keeps)
        ech_json_add_bool(b, "keeps_for_backward", true);
    if (advice->to_capture)
        ech_json_add_text(b, "to_capture", advice->to_capture);
    ech_json_begin_array(b, "measures");
    for (size_t i = 0; i < advice->n; i++) {
        const EchAdviceRow *row = &advice->rows[i];
        bool known = row->run.makespan > 0 && advice->base.makespan > 0 && !row->error;
        json_builder_begin_object(b);
        ech_json_add_text(b, "name", row->name);
        ech_json_add_text(b, "does", row->label);
        if (row->options)
            ech_json_add_text(b, "options", row->options);
        if (row->donated)
            ech_json_add_bool(b, "donated", true);
        if (row->growing)
            ech_json_add_bool(b, "growing", true);
        json_run(b, &row->run);
        ech_json_add_mean(b, "relative", known ? (double)row->run.makespan / (double)advice->base.makespan : -1);
        if (row->nothing)
            ech_json_add_text(b, "why", row->nothing);
        if (row->error)
            ech_json_add_text(b, "error", row->error);
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
    json_builder_end_object(b);
    return json_builder_get_root(b);
}
