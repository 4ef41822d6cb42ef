"""Three training steps of a small GPT in PyTorch: autocast to bfloat16, fused attention, AdamW.

    echelon capture --pretend h100-sxm -o gpt -- python gpt_train.py [checkpoint] [save_on_cpu] [compile] [accumulate]   # tpu-v6e: with torch_tpu

checkpoint: each block's activations are made again; save_on_cpu: what autograd saves waits in pinned host memory; compile: by torch.compile, whole; accumulate: the batch in two.
"""

import contextlib
import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

how = sys.argv[1:]


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before = nn.LayerNorm(width)
        self.between = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.before(x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.between(x))))


class GPT(nn.Module):
    def __init__(self, layers=2, width=1024, heads=16, words=32000):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if "checkpoint" in how else block(x)
        return self.head(x)


model, run = GPT().to(torch.accelerator.current_accelerator()), torch.compile if "compile" in how else lambda model: model
optimizer = torch.optim.AdamW(model.parameters())
tokens = torch.randint(0, 32000, (8, 1024), device=model.head.weight.device).chunk(2 if "accumulate" in how else 1)
for k, rows in enumerate(3 * tokens):
    saved = torch.autograd.graph.save_on_cpu(pin_memory=True) if "save_on_cpu" in how else contextlib.nullcontext()
    with saved, torch.autocast(rows.device.type, torch.bfloat16):
        logits = run(model)(rows)
        loss = F.cross_entropy(logits.view(-1, logits.shape[-1]), rows.view(-1))
    (loss / len(tokens)).backward()
    if (k + 1) % len(tokens) == 0:
        optimizer.step()
        optimizer.zero_grad()
