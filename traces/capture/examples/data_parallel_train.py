"""Three training steps of a small transformer in PyTorch over eight GPUs, each with a batch of its own: autocast to bfloat16, fused attention, AdamW.

    echelon capture --pretend h100-sxm --world 8 -o ddp -- python data_parallel_train.py [ddp|zero1|zero2|fsdp]

ddp: each GPU holds weights, gradients and optimizer state whole; zero1: the state in parts; fsdp: all in parts, weights gathered block by block, forward and
backward; zero2: gathered for both at once.
"""
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

WIDTH, HEADS, LAYERS, WORDS, BATCH, LENGTH, STEPS = 1024, 16, 4, 32000, 4, 1024, 3
how = sys.argv[1] if len(sys.argv) > 1 else "ddp"


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(self.before(x)).view(*x.shape[:2], 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.between(x))))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.blocks, self.head = nn.Embedding(WORDS, WIDTH), nn.ModuleList(Block() for _ in range(LAYERS)), nn.Linear(WIDTH, WORDS)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
dist.init_process_group("nccl")
with device:
    model, tokens = Transformer(), torch.randint(0, WORDS, (BATCH, LENGTH))
if how in ("zero2", "fsdp"):
    for block in model.blocks:
        fully_shard(block, reshard_after_forward=how == "fsdp")
    fully_shard(model)
else:
    model = DistributedDataParallel(model, device_ids=[device.index])
optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW) if how == "zero1" else torch.optim.AdamW(model.parameters())
for _ in range(STEPS):
    with torch.autocast("cuda", torch.bfloat16):
        logits = model(tokens)
        loss = F.cross_entropy(logits.view(-1, WORDS), tokens.view(-1))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
