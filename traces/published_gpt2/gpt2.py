"""One training step and one evaluation of GPT-2 124M as ch05/10_llm-training-speed of rasbt/LLMs-from-scratch times them on an A100, stage by stage.

    echelon capture --pretend a100-40 -o gpt2_f32 -- python gpt2.py f32        (or tf32, bf16, native, flash)

Ranges "step 0".."step 2" hold training steps, "step 3" an evaluation."""
import sys

import torch
from torch import nn
from torch.nn import functional as F

STAGES = ["f32", "tf32", "bf16", "native", "flash"]
stage = STAGES.index(sys.argv[1])
VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS, BATCH, DROPOUT = 50257, 1024, 768, 12, 12, 8, 0.1


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x):
        mean, variance = x.mean(dim=-1, keepdim=True), x.var(dim=-1, keepdim=True, unbiased=False)
        return self.scale * ((x - mean) / torch.sqrt(variance + 1e-5)) + self.shift


class Gelu(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1 + torch.tanh(torch.sqrt(torch.tensor(2.0 / torch.pi)) * (x + 0.044715 * torch.pow(x, 3))))


def norm():
    return Norm() if stage < 3 else nn.LayerNorm(WIDTH)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3)]) if stage < 4 else nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out, self.dropout = nn.Linear(WIDTH, WIDTH), nn.Dropout(DROPOUT)

    def forward(self, x):
        batch, length, _ = x.shape
        shape = (batch, length, HEADS, WIDTH // HEADS)
        if stage == 4:
            q, k, v = self.parts(x).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=DROPOUT if self.training else 0.0, is_causal=True)
            return self.out(y.transpose(1, 2).contiguous().view(batch, length, WIDTH))
        q, k, v = (part(x).view(shape).transpose(1, 2) for part in self.parts)
        scores = q @ k.transpose(2, 3)
        scores.masked_fill_(torch.triu(torch.ones(length, length, device=x.device), diagonal=1).bool(), -torch.inf)
        weights = self.dropout(torch.softmax(scores / (WIDTH // HEADS) ** 0.5, dim=-1))
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, WIDTH))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms, self.attention, self.dropout = nn.ModuleList([norm(), norm()]), Attention(), nn.Dropout(DROPOUT)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), Gelu() if stage < 3 else nn.GELU(approximate="tanh"), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = self.dropout(self.attention(self.norms[0](x))) + x
        return self.dropout(self.feed(self.norms[1](x))) + x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places, self.dropout = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH), nn.Dropout(DROPOUT)
        self.blocks, self.norm, self.head = nn.Sequential(*[Block() for _ in range(LAYERS)]), norm(), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, x):
        x = self.tokens(x) + self.places(torch.arange(x.shape[1], device=x.device))
        return self.head(self.norm(self.blocks(self.dropout(x))))


if stage >= 1:
    torch.set_float32_matmul_precision("high")
with torch.device("cuda"):
    model = Model()
if stage >= 2:
    model.to(torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.1, fused=True if stage >= 2 else None)
data = torch.zeros(2, BATCH, LENGTH, dtype=torch.long)


def loss():
    inputs, targets = data[0].to("cuda"), data[1].to("cuda")
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


for i in range(3):
    torch.cuda.nvtx.range_push(f"step {i}")
    optimizer.zero_grad()
    loss().backward()
    optimizer.step()
    torch.cuda.nvtx.range_pop()
model.eval()
torch.cuda.nvtx.range_push("step 3")
with torch.no_grad():
    loss().item()
torch.cuda.nvtx.range_pop()
