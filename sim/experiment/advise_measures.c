#include "sim/experiment/advise_private.h"

#include "sim/experiment/torch_measures.h"
#include "sim/pass/survey.h"

#include <string.h>

/* Row by row batches are gone over where there are no more rows, since each is run. */
enum { MOST_ROWS = 32 };

/* Tried late: training rounds otherwise then. */
#define IN_8_BITS "fuse:state=8bit"
#define EIGHT_BITS                                                                                                                                             \
    "bitsandbytes.optim.AdamW8bit(...) in place of torch.optim.AdamW (of others their like there; of transformers' Trainer optim=\"adamw_bnb_8bit\"): its "    \
    "state is rounded to 8 bits"
#define LOSS "batch:what=loss"
#define LOSS_IN_EIGHT LOSS ",parts=8"
/* What blocks of a loop begin with, it stacks. */
#define INPUTS "offload:what=activations,idle=0,names=" ECH_STACKS
#define BY_LAYER_TPU "offload:what=arguments,overlap=true"

static const char blocks_cheap[] = "remat_blocks_cheap", fused_optimizer[] = "fused_optimizer";
static const char again_whole[] = "remat_and_arguments", again_by_layer[] = "remat_and_arguments_by_layer";
static const char fetched_later[] = "schedule";        /* of what waits on the host already */
static const char inputs_on_host[] = "inputs_on_host"; /* of blocks that are checkpointed */

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

/* In the order in which a person would try them. */
const Measure ech_advise_measures[] = {
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
    {"donate", "donate what results can replace", {PASS_DONATE, NULL}, 0, NULL, DONATE, NULL, NULL, ALWAYS},
    {"carry",
     "loops update their stacks in place",
     {"place:policy=none", PASS_DONATE, "carry", "place", NULL},
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
    {REMAT_CHEAP, "make again what needs no product", {"remat:products=false", NULL}, 1, NULL, JAX_POLICY "dots_saveable)", NULL, NULL, ALWAYS},
    {REMAT_BETWEEN,
     "keep products of weights alone",
     {"remat:keep=" ECH_PRODUCTS, NULL},
     0,
     NULL,
     JAX_POLICY "dots_with_no_batch_dims_saveable)",
     NULL,
     NULL,
     ALWAYS},
    {PASS_REMAT, "make activations again", {PASS_REMAT, NULL}, 1, NULL, JAX_CHECKPOINT, TORCH_PARTS, NULL, ALWAYS},
    {OFFLOADED_PRODUCTS,
     "products on host, the rest again",
     {"remat:keep=" ECH_PRODUCTS, "offload:what=activations,idle=0,above=64KiB,names=" ECH_PRODUCTS, PASS_SCHEDULE, NULL},
     0,
     NULL,
     OFFLOAD_PRODUCTS,
     NULL,
     NULL,
     ALWAYS},
    {inputs_on_host, "blocks' inputs on host", {INPUTS, PASS_SCHEDULE, NULL}, 0, NULL, OFFLOAD_NAMES ", of what blocks begin with", NULL, NULL, ALWAYS},
    {fetched_later, "what is on host, fetched later", {PASS_SCHEDULE, NULL}, 1, NULL, SCHEDULED, NULL, NULL, ALWAYS},
    {"shard", "weights and state split (ZeRO-1)", {PASS_SHARD, NULL}, 0, NULL, SHARD, NULL, NULL, ALWAYS},
    {"shard_state", "optimizer state split (ZeRO-1)", {"shard:weights=false", NULL}, 0, NULL, NULL, ZERO_OPTIMIZER, NULL, ALWAYS},
    {"shard_once", "all split, gathered once (ZeRO-2)", {"shard:keep=true", NULL}, 0, NULL, NULL, FULLY_SHARD_ONCE, NULL, ALWAYS},
    {"shard_all", "all split (FSDP, ZeRO-3)", {PASS_SHARD, NULL}, 0, NULL, NULL, FULLY_SHARD, NULL, ALWAYS},
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
    {"offload_arguments", "arguments on host", {"offload:what=arguments,idle=1000000", PASS_SCHEDULE, NULL}, 1, NULL, PINNED_HOST, NULL, NULL, ALWAYS},
    {"offload_arguments", "arguments on host, waited for", {"offload:what=arguments", NULL}, 1, NULL, "", NULL, NULL, ALWAYS},
    /* In such a loop XLA overlaps copies both ways on TPUs, and waits for each on GPUs (validation/what_ifs.md). */
    {"arguments_by_layer", "arguments on host, layer by layer", {PASS_SLICE, "offload:what=arguments", NULL}, 1, NULL, BY_LAYER, NULL, NULL, ALWAYS},
    {"arguments_by_layer", "arguments on host, layer by layer", {PASS_SLICE, BY_LAYER_TPU, NULL}, 1, NULL, BY_LAYER, NULL, NULL, ALWAYS},
    {"offload_arguments_overlapped",
     "arguments on host, overlapped",
     {"offload:what=arguments,overlap=true", PASS_PREFETCH, NULL},
     1,
     NULL,
     "",
     NULL,
     NULL,
     ALWAYS},
    {"weights_on_host", "weights and optimizer on host", {"fuse:where=host", "offload:what=arguments", NULL}, 0, NULL, NULL, CPU_OFFLOAD, NULL, ALWAYS},
    {PARTS_IN_TURN, "parts on host, in turn", {"offload:what=parts,to=pageable", NULL}, 0, NULL, NULL, NULL, HOST_PARTS, ALWAYS},
    {WEIGHTS_AHEAD, "weights on host, fetched ahead", {"offload:what=arguments,each=true,overlap=true", NULL}, 0, NULL, NULL, NULL, HOST_AHEAD, ALWAYS},
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
    {"remat_and_optimizer",
     "again, and optimizer on host",
     {PASS_REMAT, "fuse:where=host", NULL},
     1,
     NULL,
     NULL,
     TORCH_PARTS "; and " HOST_OPTIMIZER,
     NULL,
     LAST},
    {"remat_and_loss", "again, loss in eight parts", {PASS_REMAT, LOSS_IN_EIGHT, NULL}, 0, NULL, JAX_CHECKPOINT "; and " JAX_LOSS_IN_EIGHTHS, NULL, NULL, LAST},
    {again_whole,
     "again, and arguments on host",
     {PASS_REMAT, "offload:what=arguments,idle=1000000", PASS_SCHEDULE, NULL},
     2,
     NULL,
     JAX_CHECKPOINT "; and " PINNED_HOST,
     NULL,
     NULL,
     LAST},
    {again_by_layer,
     "again, and arguments layer by layer",
     {PASS_REMAT, PASS_SLICE, "offload:what=arguments", NULL},
     2,
     NULL,
     JAX_CHECKPOINT "; and " BY_LAYER,
     NULL,
     NULL,
     LAST},
    {"blocks_and_shard", "checkpoint each, all split (FSDP)", {BLOCKS, PASS_SHARD, NULL}, 0, NULL, NULL, ECH_TORCH_CHECKPOINT "; and " FULLY_SHARD, NULL, LAST},
    {"remat_and_shard", "again, weights and state split", {PASS_REMAT, PASS_SHARD, NULL}, 1, NULL, JAX_CHECKPOINT "; and " SHARD, NULL, NULL, LAST},
    {"remat_and_offload",
     "activations again or all on host",
     {PASS_REMAT, "offload:what=activations,idle=0", PASS_SCHEDULE, NULL},
     2,
     NULL,
     OFFLOAD_NAMES ", of what blocks begin with",
     NULL,
     NULL,
     LAST},
    {"remat_and_inputs",
     "again, blocks' inputs on host",
     {PASS_REMAT, INPUTS, PASS_SCHEDULE, NULL},
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

const size_t ech_advise_n_measures = G_N_ELEMENTS(ech_advise_measures);

bool ech_advise_is_place(const char *pass)
{
    return g_str_has_prefix(pass, "place");
}

bool ech_advise_is_by_layer(const Measure *m)
{
    return m->passes[0] && strcmp(m->passes[0], PASS_SLICE) == 0;
}

bool ech_advise_is_sharded(const Measure *m)
{
    bool is = false;
    for (size_t i = 0; m->passes[i]; i++)
        is |= g_str_has_prefix(m->passes[i], PASS_SHARD);
    return is;
}

bool ech_advise_is_policy(const char *measure)
{
    return strcmp(measure, REMAT_CHEAP) == 0 || strcmp(measure, REMAT_BETWEEN) == 0;
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

/* Such a program can be told to compute again. Memory of the host it has no words for, and what results can replace it gives by itself. */
static const char *code_in_tensorflow(const Measure *m)
{
    if (m->when == PAGED)
        return "TF_FORCE_UNIFIED_MEMORY=true and tf.compat.v1.GPUOptions(per_process_gpu_memory_fraction=...) above 1";
    return strcmp(m->name, PASS_REMAT) == 0
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

const char *ech_advise_code_for(const Advise *a, const Measure *m)
{
    const char *first = m->passes[0] ? m->passes[0] : "";
    if ((!a->lists && strcmp(m->name, fused_optimizer) == 0) || (!a->averages && has_pass(m, AVERAGES)) || !is_divisible(a, m))
        return NULL;
    if (a->xla && a->remade && strcmp(m->name, REMAT_CHEAP) == 0)
        return NULL; /* its policy would forbid what the compiler made again by itself */
    if (a->xla && a->again >= 0 && (ech_advise_is_policy(m->name) || (a->again >= MOST_AGAIN && g_str_has_prefix(first, PASS_REMAT))))
        return NULL; /* its own checkpoints do that, or keep less */
    if (has_pass(m, INPUTS) && (!a->xla || !a->loops || (a->again < MOST_AGAIN) == (strcmp(m->name, inputs_on_host) == 0)))
        return NULL; /* what a loop stacks of blocks that are checkpointed, by itself or by the measure */
    if (has_pass(m, LOSS_IN_EIGHT) && !a->pytorch && (!a->logits || a->advice->forward))
        return NULL;
    if (a->xla && a->advice->forward && g_str_has_prefix(first, PASS_REMAT))
        return NULL; /* jax.checkpoint keeps less for a backward pass */
    if (a->xla && a->again >= 0 && a->advice->base.host > 0 && strcmp(m->name, OFFLOADED_PRODUCTS) == 0)
        return NULL; /* their policy sends arrays to the host already */
    if (strcmp(m->name, fetched_later) == 0 && (!a->xla || a->advice->base.host == 0))
        return NULL;
    if (a->twice && strcmp(m->name, blocks_cheap) == 0)
        return NULL; /* PyTorch 2.15: "You are only allowed to backward once on any region computed under selective activation checkpoint" */
    if (m->in_jax && (a->xla ? !*m->in_jax : g_strcmp0(m->passes[1], PASS_SCHEDULE) == 0))
        return NULL;
    bool of_blocks = g_str_has_prefix(first, BLOCKS), compiled = strcmp(first, PASS_DONATE) == 0 || ech_advise_is_place(first) || ech_advise_is_by_layer(m);
    if (ech_advise_is_by_layer(m) && a->tpu != (strcmp(m->passes[1], BY_LAYER_TPU) == 0))
        return NULL;
    if (strcmp(m->name, a->stacks ? again_whole : again_by_layer) == 0 ||
        (ech_advise_is_sharded(m) && (a->advice->n_devices > 0 || a->several != (m->when != MORE))))
        return NULL;
    if ((compiled && !a->xla) || (of_blocks && !a->advice->blocks) || (!of_blocks && a->advice->blocks && g_str_has_prefix(first, PASS_REMAT)))
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
