"""Operators in eager PyTorch as Liger-Kernel's benchmarks time them beside its own kernels (triton.testing.do_bench), with gradients: each once to begin with, and once in a range
"step 0", "step 1" and so on, in the order of the table at the end."""
import torch
import torch.nn.functional as F

bf16 = torch.bfloat16


class Norm(torch.nn.Module):
    """RMS norms as transformers writes them out."""

    def __init__(self, size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(size, device="cuda"))

    def forward(self, x):
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


def rms_norm(rows, columns):
    norm, x = Norm(columns), torch.empty(rows, columns, dtype=bf16, device="cuda", requires_grad=True)
    back = torch.empty_like(x)
    return lambda: norm(x).backward(back), [x]


def layer_norm(rows, columns):
    norm, x = torch.nn.LayerNorm(columns, eps=1e-6, device="cuda"), torch.empty(rows, columns, device="cuda", requires_grad=True)
    back = torch.empty_like(x)
    return lambda: norm(x).backward(back), [x]


def cross_entropy(rows, columns):
    x, to = torch.empty(rows, columns, device="cuda", requires_grad=True), torch.randint(columns, (rows,), device="cuda")
    return lambda: F.cross_entropy(x, to).backward(), []


def turned(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def rope(length, size):
    q, k = (torch.empty(1, length, heads, size // 32, dtype=bf16, device="cuda", requires_grad=True).transpose(1, 2) for heads in (32, 8))
    cos, sin = (torch.empty(1, 1, length, size // 32, dtype=bf16, device="cuda") for _ in range(2))
    back = [torch.empty_like(q), torch.empty_like(k)]

    def step():
        out = [x * cos + turned(x) * sin for x in (q, k)]
        torch.autograd.grad(out, (q, k), back)
    return step, []


cleared, number = torch.empty(64000000, dtype=torch.int32, device="cuda"), 0
for make, *sizes in (rms_norm, 2048, 16384), (layer_norm, 4096, 8192), (cross_entropy, 16384, 32768), (rope, 16384, 8192):
    step, given = make(*sizes)
    for _ in range(2):
        for x in given:
            x.grad = None
        cleared.zero_()
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_push("step %d" % (number // 2) if number % 2 else "first")
        step()
        torch.cuda.nvtx.range_pop()
        number += 1
torch.cuda.synchronize()
