"""MPT as mosaicml/llm-foundry trains it for its table of speeds: `mpt.py DIM HEADS LAYERS SEQUENCES CHECKPOINT SHARDING [LENGTH]`; weights as they are allocated, one
token over and over. Attention takes sequences out of their padding, of which there is none, and puts them back, as flash-attn's bert_padding does. FSDP of blocks, embeddings and last norm, weights in bf16 and gradients summed in f32 (its DEFAULT), Composer's AdamW, tensor by tensor."""
import functools
import math
import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, apply_activation_checkpointing, checkpoint_wrapper
from torch.distributed.fsdp import BackwardPrefetch, FullyShardedDataParallel, MixedPrecision, ShardingStrategy
from torch.distributed.fsdp.wrap import CustomPolicy

VOCABULARY = 50368
dim, heads, layers, sequences = map(int, sys.argv[1:5])
checkpoint, sharding = sys.argv[5] == "True", sys.argv[6]
length = int(sys.argv[7]) if len(sys.argv) > 7 else 2048


class Norm(nn.LayerNorm):
    def forward(self, x):
        with torch.autocast("cuda", enabled=False):
            return F.layer_norm(x.bfloat16(), self.normalized_shape, self.weight.bfloat16(), self.bias.bfloat16(), self.eps)


class Rows(torch.autograd.Function):
    """Rows of an array that a mask picks."""
    @staticmethod
    def forward(ctx, x, rows):
        ctx.save_for_backward(rows)
        ctx.shape = x.shape
        return torch.gather(x, 0, rows[:, None].expand(-1, x.shape[1]))

    @staticmethod
    def backward(ctx, grad):
        rows, = ctx.saved_tensors
        return torch.zeros(ctx.shape, device=grad.device, dtype=grad.dtype).scatter_(0, rows[:, None].expand(-1, grad.shape[1]), grad), None


class Padded(torch.autograd.Function):
    """The same rows back in their places."""
    @staticmethod
    def forward(ctx, x, rows, count):
        ctx.save_for_backward(rows)
        out = torch.zeros(count, x.shape[1], device=x.device, dtype=x.dtype)
        out[rows] = x
        return out

    @staticmethod
    def backward(ctx, grad):
        rows, = ctx.saved_tensors
        return grad[rows], None, None


def unpad(x, mask):
    lengths = mask.sum(dim=-1, dtype=torch.int32)
    rows = torch.nonzero(mask.flatten()).flatten()
    longest = lengths.max().item()
    ends = F.pad(torch.cumsum(lengths, dim=0, dtype=torch.int32), (1, 0))
    return Rows.apply(x.flatten(0, 1), rows).unflatten(-1, (heads, -1)), rows, ends, longest


def attention(q, k, v, mask):
    q, rows, ends_q, longest_q = unpad(q, mask)
    k, _, ends_k, longest_k = unpad(k, mask)
    v, _, _, _ = unpad(v, mask)
    out = torch.ops.aten._flash_attention_forward(q, k, v, ends_q, ends_k, longest_q, longest_k, 0.0, True, False)[0]
    return Padded.apply(out.flatten(1), rows, mask.numel()).unflatten(0, mask.shape)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = Norm(dim), Norm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x, mask):
        x = x + self.out(attention(*self.qkv(self.norm_1(x)).chunk(3, dim=-1), mask))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Shared(nn.Embedding):
    def forward(self, x, unembed=False):
        return F.linear(x, self.weight) if unembed else super().forward(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = Shared(VOCABULARY, dim), nn.Embedding(length, dim)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.norm_f = Norm(dim)

    def forward(self, tokens, mask):
        x = self.wte(tokens) + self.wpe(torch.arange(length, device="cuda"))[None]
        for block in self.blocks:
            x = block(x, mask)
        return self.wte(self.norm_f(x), True)


def step(weights, states, lr=1e-4, betas=(0.9, 0.95), eps=1e-8):
    for weight in weights:
        if weight.grad is None:
            continue
        if weight not in states:
            states[weight] = (torch.zeros((), device="cuda"), torch.zeros_like(weight), torch.zeros_like(weight))
        count, mean, square = states[weight]
        count += 1
        steps = max(count.item(), 1)
        mean.mul_(betas[0]).add_(weight.grad, alpha=1 - betas[0])
        square.mul_(betas[1]).addcmul_(weight.grad, weight.grad, value=1 - betas[1])
        weight.addcdiv_(mean, (square.sqrt() / math.sqrt(1 - betas[1]**steps)).add_(eps), value=-lr / (1 - betas[0]**steps))


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
with torch.device("meta"):
    model = Model()
model = FullyShardedDataParallel(
    model, auto_wrap_policy=CustomPolicy(lambda m: isinstance(m, (Block, nn.Embedding)) or m is model.norm_f),
    sharding_strategy=getattr(ShardingStrategy, sharding), mixed_precision=MixedPrecision(torch.bfloat16, torch.float32, torch.bfloat16),
    backward_prefetch=BackwardPrefetch.BACKWARD_PRE, forward_prefetch=True, limit_all_gathers=True, use_orig_params=True,
    device_id=torch.cuda.current_device(), param_init_fn=lambda m: m.to_empty(device="cuda", recurse=False))
if checkpoint:
    wrapper = functools.partial(checkpoint_wrapper, checkpoint_impl=CheckpointImpl.NO_REENTRANT)
    apply_activation_checkpointing(model, wrapper, lambda m: isinstance(m, Block))
loss_of, states = torch.compile(lambda logits, labels: F.cross_entropy(logits, labels)), {}
for number in range(3):
    torch.cuda.nvtx.range_push(f"step {number}")
    tokens, mask = torch.ones(sequences, length, dtype=torch.int64).cuda(), torch.ones(sequences, length, dtype=torch.bool).cuda()
    with torch.autocast("cuda", torch.bfloat16):
        loss = loss_of(model(tokens, mask).view(-1, VOCABULARY), tokens.view(-1))
    loss.backward()
    model.clip_grad_norm_(1.0)
    with torch.no_grad():
        step(list(model.parameters()), states)
    model.zero_grad()
    loss.item()
    torch.cuda.nvtx.range_pop()
