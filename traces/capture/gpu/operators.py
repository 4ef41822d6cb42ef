"""Operators of PyTorch, one after another on a GPU: how long each takes (medians by events, what the cache held thrown out before), and all of them once under its profiler.

    python operators.py --out DIR                                            DIR/operators.csv, DIR/operators.json.gz (Kineto)
    echelon capture --pretend h100-sxm -o operators -- python operators.py --plain    the same without a GPU: operator N in a range "step 2N+1", what prepares it in "step 2N"

What fails says so in its row and stops nothing. The list was written, and predicted, before any of it was measured (validation/gpu_times.md).
"""
import argparse
import os
import statistics
import time

import torch
import torch.nn.functional as F

half, bf16, f32, f64 = torch.float16, torch.bfloat16, torch.float32, torch.float64


def new(*shape, dtype=bf16, grad=False):
    return torch.randn(*shape, dtype=f64 if dtype == f64 else f32, device="cuda").to(dtype).requires_grad_(grad)


def product(m, n, k, dtype=bf16):
    a, b = new(m, k, dtype=dtype), new(k, n, dtype=dtype)
    return lambda: a @ b


def tf32(m, n, k):
    a, b = new(m, k, dtype=f32), new(k, n, dtype=f32)

    def run():
        torch.backends.cuda.matmul.allow_tf32 = True
        a @ b
        torch.backends.cuda.matmul.allow_tf32 = False
    return run


def batched(count, m, n, k, dtype=bf16):
    a, b = new(count, m, k, dtype=dtype), new(count, k, n, dtype=dtype)
    return lambda: torch.bmm(a, b)


def integers(m, n, k):
    a, b = (torch.randint(-9, 9, s, dtype=torch.int8, device="cuda") for s in ((m, k), (n, k)))
    return lambda: torch._int_mm(a, b.t())


def eighth(m, n, k):
    a, b, one = new(m, k).to(torch.float8_e4m3fn), new(n, k).to(torch.float8_e4m3fn), torch.ones((), device="cuda")
    return lambda: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=bf16)


def back(function, *inputs):
    """With gradients of all inputs that want them."""
    wanted = [x for x in inputs if x.requires_grad]
    like = torch.randn_like(function(*inputs))
    return lambda: torch.autograd.grad(function(*inputs), wanted, like)


def linear(rows, wide, out):
    x, layer = new(rows, wide, grad=True), torch.nn.Linear(wide, out, device="cuda", dtype=bf16)
    return back(lambda x, w, b: F.linear(x, w, b), x, layer.weight, layer.bias)


def conv(batch, channels, out, size, kernel, stride=1, groups=1, dtype=half, last=True, gradients=False):
    layout = torch.channels_last if last else torch.contiguous_format
    x = new(batch, channels, size, size, dtype=dtype).to(memory_format=layout).requires_grad_(gradients)
    w = new(out, channels // groups, kernel, kernel, dtype=dtype).to(memory_format=layout).requires_grad_(gradients)
    run = lambda x, w: F.conv2d(x, w, stride=stride, padding=kernel // 2, groups=groups)
    return back(run, x, w) if gradients else lambda: run(x, w)


def attention(batch, heads, length, size, causal=True, gradients=False, keys=None, kv=None, dtype=bf16, backend=None):
    q = new(batch, heads, length, size, dtype=dtype, grad=gradients)
    k, v = (new(batch, kv or heads, keys or length, size, dtype=dtype, grad=gradients) for _ in range(2))

    def run(q, k, v):
        if backend is None:
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=kv is not None)
        with torch.nn.attention.sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=kv is not None)
    return back(run, q, k, v) if gradients else lambda: run(q, k, v)


def loss(rows, words, dtype=f32):
    x, to = new(rows, words, dtype=dtype, grad=True), torch.randint(words, (rows,), device="cuda")
    return lambda: torch.autograd.grad(F.cross_entropy(x, to), x)


def embedding(words, wide, count):
    w, at = new(words, wide, grad=True), torch.randint(words, (count,), device="cuda")
    return back(lambda w: F.embedding(at, w), w)


def one(function, *shape, dtype=bf16):
    x = new(*shape, dtype=dtype)
    return lambda: function(x)


def two(function, *shape, dtype=bf16):
    x, y = new(*shape, dtype=dtype), new(*shape, dtype=dtype)
    return lambda: function(x, y)


def module(make, *shape, dtype=bf16, gradients=True, layout=torch.contiguous_format):
    layer, x = make().to("cuda", dtype), new(*shape, dtype=dtype)
    x = x.contiguous(memory_format=layout).requires_grad_(gradients)
    weights = list(layer.parameters())
    return back(lambda x, *_: layer(x), x, *weights) if gradients else lambda: layer(x)


def optimizer(make, count=64, size=1 << 20, dtype=f32):
    weights = [torch.nn.Parameter(new(size, dtype=dtype)) for _ in range(count)]
    for w in weights:
        w.grad = torch.randn_like(w)
    return make(weights).step


def clipped(count=64, size=1 << 20):
    weights = [torch.nn.Parameter(new(size, dtype=f32)) for _ in range(count)]
    for w in weights:
        w.grad = torch.randn_like(w)
    return lambda: torch.nn.utils.clip_grad_norm_(weights, 1.0)


def chosen(function, rows, columns, count, dtype=bf16):
    x, at = new(rows, columns, dtype=dtype), torch.randint(rows, (count,), device="cuda")
    return lambda: function(x, at)


def added(rows, columns, count, dtype=f32):
    x, at, y = new(rows, columns, dtype=dtype), torch.randint(rows, (count,), device="cuda"), new(count, columns, dtype=dtype)
    return lambda: x.index_add_(0, at, y)


def whole(high, *shape, dtype=torch.int64):
    x = torch.randint(high, shape, dtype=dtype, device="cuda")
    return x


def definite(n, batch=1):
    x = new(batch, n, n, dtype=f32) if batch > 1 else new(n, n, dtype=f32)
    return x @ x.mT + n * torch.eye(n, device="cuda")


def host(count, pinned, there):
    on = torch.empty(count, dtype=torch.uint8, device="cuda")
    off = torch.empty(count, dtype=torch.uint8, pin_memory=pinned)
    off.zero_()  # pages that are there
    return (lambda: on.copy_(off, non_blocking=True)) if there else (lambda: off.copy_(on, non_blocking=True))


def recurrent(batch, length, wide, layers=1):
    layer, x = torch.nn.LSTM(wide, wide, layers, batch_first=True, device="cuda", dtype=half), new(batch, length, wide, dtype=half)
    return lambda: layer(x)


def rms(x, w):
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w


def turned(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


backends = torch.nn.attention.SDPBackend
operators = [
    *(("product bf16 %dx%dx%d" % s, lambda s=s: product(*s)) for s in (
        (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (4096, 4096, 1024), (4096, 1024, 4096), (16384, 4096, 4096), (1024, 32000, 4096),
        (1, 4096, 4096), (8, 4096, 4096), (16, 14336, 4096), (64, 4096, 14336), (128, 8192, 8192), (256, 4096, 4096), (4095, 4095, 4095), (1000, 1000, 1000), (64, 64, 262144))),
    ("product f16 4096x4096x4096", lambda: product(4096, 4096, 4096, half)),
    ("product f32 2048x2048x2048", lambda: product(2048, 2048, 2048, f32)),
    ("product f32 4096x4096x4096", lambda: product(4096, 4096, 4096, f32)),
    ("product f64 2048x2048x2048", lambda: product(2048, 2048, 2048, f64)),
    ("product tf32 4096x4096x4096", lambda: tf32(4096, 4096, 4096)),
    ("product s8 4096x4096x4096", lambda: integers(4096, 4096, 4096)),
    ("product f8 4096x4096x4096", lambda: eighth(4096, 4096, 4096)),
    ("product f8 8192x8192x8192", lambda: eighth(8192, 8192, 8192)),
    ("batched bf16 128x512x512x64", lambda: batched(128, 512, 512, 64)),
    ("batched bf16 64x1024x1024x128", lambda: batched(64, 1024, 1024, 128)),
    ("batched f32 512x64x64x64", lambda: batched(512, 64, 64, 64, f32)),
    ("matrix times vector f32 8192x8192", lambda: (lambda a, x: lambda: a @ x)(new(8192, 8192, dtype=f32), new(8192, dtype=f32))),
    ("linear and gradients 8192x1024x4096", lambda: linear(8192, 1024, 4096)),
    ("linear and gradients 4096x4096x4096", lambda: linear(4096, 4096, 4096)),
    ("conv f16 64x64x56x56 3x3", lambda: conv(64, 64, 64, 56, 3)),
    ("conv f16 64x256x14x14 3x3", lambda: conv(64, 256, 256, 14, 3)),
    ("conv f16 64x1024x14x14 1x1 to 256", lambda: conv(64, 1024, 256, 14, 1)),
    ("conv f16 64x3x224x224 7x7 stride 2", lambda: conv(64, 3, 64, 224, 7, 2)),
    ("conv f16 channels first 64x128x28x28 3x3", lambda: conv(64, 128, 128, 28, 3, last=False)),
    ("conv f32 32x128x28x28 3x3", lambda: conv(32, 128, 128, 28, 3, dtype=f32)),
    ("conv f16 depthwise 64x384x14x14 3x3", lambda: conv(64, 384, 384, 14, 3, groups=384)),
    ("conv f16 32 groups 64x256x28x28 3x3", lambda: conv(64, 256, 256, 28, 3, groups=32)),
    ("conv and gradients f16 64x128x28x28 3x3", lambda: conv(64, 128, 128, 28, 3, gradients=True)),
    ("conv and gradients bf16 32x512x7x7 3x3", lambda: conv(32, 512, 512, 7, 3, dtype=bf16, gradients=True)),
    ("conv transposed f16 16x256x32x32 4x4 stride 2", lambda: (lambda x, w: lambda: F.conv_transpose2d(x, w, stride=2, padding=1))(new(16, 256, 32, 32, dtype=half), new(256, 128, 4, 4, dtype=half))),
    ("conv1d f16 32x512x1024 3", lambda: (lambda x, w: lambda: F.conv1d(x, w, padding=1))(new(32, 512, 1024, dtype=half), new(512, 512, 3, dtype=half))),
    ("conv3d f16 4x64x16x56x56 3x3x3", lambda: (lambda x, w: lambda: F.conv3d(x, w, padding=1))(new(4, 64, 16, 56, 56, dtype=half), new(64, 64, 3, 3, 3, dtype=half))),
    ("attention 8x16x512x64 causal", lambda: attention(8, 16, 512, 64)),
    ("attention 4x32x2048x128 causal", lambda: attention(4, 32, 2048, 128)),
    ("attention 1x32x16384x128 causal", lambda: attention(1, 32, 16384, 128)),
    ("attention 16x16x1024x64 whole", lambda: attention(16, 16, 1024, 64, causal=False)),
    ("attention 8x32x2048x128 over 8 keys' heads, causal", lambda: attention(8, 32, 2048, 128, kv=8)),
    ("attention 64x32x1x128 against 4096", lambda: attention(64, 32, 1, 128, causal=False, keys=4096)),
    ("attention and gradients 8x16x512x64 causal", lambda: attention(8, 16, 512, 64, gradients=True)),
    ("attention and gradients 4x32x2048x128 causal", lambda: attention(4, 32, 2048, 128, gradients=True)),
    ("attention and gradients 16x16x1024x64 whole", lambda: attention(16, 16, 1024, 64, causal=False, gradients=True)),
    ("flash attention 4x32x2048x128 causal", lambda: attention(4, 32, 2048, 128, backend=backends.FLASH_ATTENTION)),
    ("flash attention and gradients 4x32x2048x128 causal", lambda: attention(4, 32, 2048, 128, gradients=True, backend=backends.FLASH_ATTENTION)),
    ("flash attention and gradients 8x16x1024x64 whole", lambda: attention(8, 16, 1024, 64, causal=False, gradients=True, backend=backends.FLASH_ATTENTION)),
    ("efficient attention f32 4x16x1024x64 whole", lambda: attention(4, 16, 1024, 64, causal=False, dtype=f32, backend=backends.EFFICIENT_ATTENTION)),
    ("efficient attention and gradients f16 4x16x2048x64 causal", lambda: attention(4, 16, 2048, 64, dtype=half, gradients=True, backend=backends.EFFICIENT_ATTENTION)),
    ("written out attention 8x16x512x64", lambda: attention(8, 16, 512, 64, causal=False, backend=backends.MATH)),
    ("layer norm and gradients 8192x4096", lambda: module(lambda: torch.nn.LayerNorm(4096), 8192, 4096)),
    ("layer norm 16384x1024", lambda: module(lambda: torch.nn.LayerNorm(1024), 16384, 1024, gradients=False)),
    ("layer norm and gradients f32 4096x768", lambda: module(lambda: torch.nn.LayerNorm(768), 4096, 768, dtype=f32)),
    ("RMS norm and gradients 8192x4096", lambda: module(lambda: torch.nn.RMSNorm(4096), 8192, 4096)),
    ("RMS norm written out 8192x4096", lambda: (lambda x, w: lambda: rms(x, w))(new(8192, 4096), new(4096))),
    ("rotary embedding 4x32x2048x128", lambda: (lambda x, c, s: lambda: turned(x, c, s))(new(4, 32, 2048, 128), new(2048, 128), new(2048, 128))),
    ("batch norm and gradients f16 64x256x28x28 last", lambda: module(lambda: torch.nn.BatchNorm2d(256), 64, 256, 28, 28, dtype=half, layout=torch.channels_last)),
    ("batch norm and gradients f32 64x64x56x56", lambda: module(lambda: torch.nn.BatchNorm2d(64), 64, 64, 56, 56, dtype=f32)),
    ("group norm and gradients f16 16x320x64x64", lambda: module(lambda: torch.nn.GroupNorm(32, 320), 16, 320, 64, 64, dtype=half)),
    ("softmax 16384x4096", lambda: one(lambda x: torch.softmax(x, -1), 16384, 4096)),
    ("softmax and gradients f32 8192x1024", lambda: back(lambda x: torch.softmax(x, -1), new(8192, 1024, dtype=f32, grad=True))),
    ("log softmax f32 2048x50257", lambda: one(lambda x: torch.log_softmax(x, -1), 2048, 50257, dtype=f32)),
    ("cross entropy and gradients f32 4096x50257", lambda: loss(4096, 50257)),
    ("cross entropy and gradients bf16 8192x32000", lambda: loss(8192, 32000, bf16)),
    ("embedding and gradients 50257x1024, 8192", lambda: embedding(50257, 1024, 8192)),
    ("gelu 8192x4096", lambda: one(F.gelu, 8192, 4096)),
    ("gelu and gradients 16384x4096", lambda: back(F.gelu, new(16384, 4096, grad=True))),
    ("silu times 8192x14336", lambda: two(lambda x, y: F.silu(x) * y, 8192, 14336)),
    ("relu f32 64 M", lambda: one(F.relu, 64 << 20, dtype=f32)),
    ("dropout and gradients 16384x4096", lambda: back(lambda x: F.dropout(x, 0.1), new(16384, 4096, grad=True))),
    ("add bf16 4 M", lambda: two(torch.add, 4 << 20)),
    ("add bf16 64 M", lambda: two(torch.add, 64 << 20)),
    ("add f32 1 M", lambda: two(torch.add, 1 << 20, dtype=f32)),
    ("add f32 256 M", lambda: two(torch.add, 256 << 20, dtype=f32)),
    ("add a row f32 8192x8192", lambda: (lambda x, y: lambda: x + y)(new(8192, 8192, dtype=f32), new(8192, dtype=f32))),
    ("add a column f32 8192x8192", lambda: (lambda x, y: lambda: x + y)(new(8192, 8192, dtype=f32), new(8192, 1, dtype=f32))),
    ("multiply f64 16 M", lambda: two(torch.mul, 16 << 20, dtype=f64)),
    ("exponential f32 64 M", lambda: one(torch.exp, 64 << 20, dtype=f32)),
    ("power f32 64 M", lambda: one(lambda x: x.pow(2.5), 64 << 20, dtype=f32)),
    ("where 64 M", lambda: (lambda m, x, y: lambda: torch.where(m, x, y))(whole(2, 64 << 20, dtype=torch.bool), new(64 << 20), new(64 << 20))),
    ("masked fill f16 64x16x512x512", lambda: (lambda x, m: lambda: x.masked_fill(m, -1e4))(new(64, 16, 512, 512, dtype=half), whole(2, 64, 1, 512, 512, dtype=torch.bool))),
    ("compare f32 64 M", lambda: two(torch.gt, 64 << 20, dtype=f32)),
    ("fill f32 64 M", lambda: one(lambda x: x.fill_(1), 64 << 20, dtype=f32)),
    ("zero f32 64 M", lambda: one(lambda x: x.zero_(), 64 << 20, dtype=f32)),
    ("clone f32 64 M", lambda: one(torch.clone, 64 << 20, dtype=f32)),
    ("clone bf16 4 M", lambda: one(torch.clone, 4 << 20)),
    ("to bf16 from f32 64 M", lambda: one(lambda x: x.to(bf16), 64 << 20, dtype=f32)),
    ("to f32 from bf16 64 M", lambda: one(lambda x: x.float(), 64 << 20)),
    ("to f8 from bf16 64 M", lambda: one(lambda x: x.to(torch.float8_e4m3fn), 64 << 20)),
    ("transposed copy f32 8192x8192", lambda: one(lambda x: x.t().contiguous(), 8192, 8192, dtype=f32)),
    ("transposed copy bf16 8192x8192", lambda: one(lambda x: x.t().contiguous(), 8192, 8192)),
    ("heads first bf16 8x2048x32x128", lambda: one(lambda x: x.transpose(1, 2).contiguous(), 8, 2048, 32, 128)),
    ("channels last f16 64x256x56x56", lambda: one(lambda x: x.contiguous(memory_format=torch.channels_last), 64, 256, 56, 56, dtype=half)),
    ("concatenate last bf16 2 of 8192x2048", lambda: two(lambda x, y: torch.cat((x, y), -1), 8192, 2048)),
    ("concatenate first f32 2 of 16 M", lambda: two(lambda x, y: torch.cat((x, y)), 16 << 20, dtype=f32)),
    ("stack bf16 8 of 1 M", lambda: (lambda xs: lambda: torch.stack(xs))([new(1 << 20) for _ in range(8)])),
    ("pad f16 64x64x112x112 by 1", lambda: one(lambda x: F.pad(x, (1, 1, 1, 1)), 64, 64, 112, 112, dtype=half)),
    ("roll f16 64x56x56x96", lambda: one(lambda x: x.roll((3, 3), (1, 2)), 64, 56, 56, 96, dtype=half)),
    ("flip f32 4096x4096", lambda: one(lambda x: x.flip(-1), 4096, 4096, dtype=f32)),
    ("lower triangle f32 8192x8192", lambda: one(torch.tril, 8192, 8192, dtype=f32)),
    ("rows chosen bf16 50000x1024, 32768", lambda: chosen(lambda x, at: x.index_select(0, at), 50000, 1024, 32768)),
    ("indexed f32 100000x64, 262144", lambda: chosen(lambda x, at: x[at], 100000, 64, 262144, f32)),
    ("gather f32 4096x4096", lambda: (lambda x, at: lambda: x.gather(1, at))(new(4096, 4096, dtype=f32), whole(4096, 4096, 4096))),
    ("scatter add f32 4096x4096", lambda: (lambda x, at, y: lambda: x.scatter_add_(1, at, y))(new(4096, 4096, dtype=f32), whole(4096, 4096, 4096), new(4096, 4096, dtype=f32))),
    ("index add f32 50000x128, 262144", lambda: added(50000, 128, 262144)),
    ("masked select f32 16 M", lambda: (lambda x, m: lambda: x.masked_select(m))(new(16 << 20, dtype=f32), torch.arange(16 << 20, device="cuda") % 2 == 0)),
    ("bin count 16 M into 1000", lambda: (lambda x: lambda: torch.bincount(x, minlength=1000))(whole(1000, 16 << 20))),
    ("histogram f32 16 M into 256", lambda: one(lambda x: torch.histc(x, 256, -4, 4), 16 << 20, dtype=f32)),
    ("search sorted f32 1 M in 1 M", lambda: (lambda x, y: lambda: torch.searchsorted(x, y))(torch.linspace(-4, 4, 1 << 20, device="cuda"), new(1 << 20, dtype=f32))),
    ("upsample nearest f16 16x256x64x64", lambda: one(lambda x: F.interpolate(x, scale_factor=2), 16, 256, 64, 64, dtype=half)),
    ("upsample bilinear f32 16x64x128x128", lambda: one(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), 16, 64, 128, 128, dtype=f32)),
    ("max pool and gradients f16 64x64x112x112 last", lambda: back(lambda x: F.max_pool2d(x, 3, 2, 1), new(64, 64, 112, 112, dtype=half).to(memory_format=torch.channels_last).requires_grad_())),
    ("average pool f16 64x2048x7x7", lambda: one(lambda x: F.adaptive_avg_pool2d(x, 1), 64, 2048, 7, 7, dtype=half)),
    ("sum of all f32 64 M", lambda: one(torch.sum, 64 << 20, dtype=f32)),
    ("sum of rows f32 8192x8192", lambda: one(lambda x: x.sum(-1), 8192, 8192, dtype=f32)),
    ("sum of columns f32 8192x8192", lambda: one(lambda x: x.sum(0), 8192, 8192, dtype=f32)),
    ("sum of columns bf16 8192x4096", lambda: one(lambda x: x.sum(0), 8192, 4096)),
    ("mean of squares bf16 8192x4096", lambda: one(lambda x: x.float().pow(2).mean(-1), 8192, 4096)),
    ("maximum of rows bf16 16384x4096", lambda: one(lambda x: x.amax(-1), 16384, 4096)),
    ("largest's place f32 4096x50257", lambda: one(lambda x: x.argmax(-1), 4096, 50257, dtype=f32)),
    ("deviation of rows f32 8192x4096", lambda: one(lambda x: x.std(-1), 8192, 4096, dtype=f32)),
    ("norm f32 64 M", lambda: one(torch.linalg.vector_norm, 64 << 20, dtype=f32)),
    ("running sum of rows f32 4096x4096", lambda: one(lambda x: x.cumsum(-1), 4096, 4096, dtype=f32)),
    ("running sum f32 16 M", lambda: one(lambda x: x.cumsum(0), 16 << 20, dtype=f32)),
    ("sort f32 16 M", lambda: one(torch.sort, 16 << 20, dtype=f32)),
    ("sort rows f32 4096x1024", lambda: one(lambda x: x.sort(-1), 4096, 1024, dtype=f32)),
    ("sort int64 4 M", lambda: (lambda x: lambda: x.sort())(whole(1 << 40, 4 << 20))),
    ("top 50 of f32 64x50257", lambda: one(lambda x: x.topk(50), 64, 50257, dtype=f32)),
    ("top 2 of f32 16384x64", lambda: one(lambda x: x.topk(2), 16384, 64, dtype=f32)),
    ("median of rows f32 4096x4096", lambda: one(lambda x: x.median(-1), 4096, 4096, dtype=f32)),
    ("unique of int64 4 M", lambda: (lambda x: lambda: x.unique())(whole(100000, 4 << 20))),
    ("one hot 1 M of 64", lambda: (lambda x: lambda: F.one_hot(x, 64))(whole(64, 1 << 20))),
    ("FFT complex f32 256x65536", lambda: one(torch.fft.fft, 256, 65536, dtype=torch.complex64)),
    ("FFT real f32 64x1024x1024", lambda: one(torch.fft.rfft2, 64, 1024, 1024, dtype=f32)),
    ("absolute of complex 16 M", lambda: one(torch.abs, 16 << 20, dtype=torch.complex64)),
    ("multiply complex 16 M", lambda: two(torch.mul, 16 << 20, dtype=torch.complex64)),
    ("Cholesky f32 4096", lambda: (lambda x: lambda: torch.linalg.cholesky(x))(definite(4096))),
    ("Cholesky f32 512 of 32", lambda: (lambda x: lambda: torch.linalg.cholesky(x))(definite(32, 512))),
    ("LU f32 4096", lambda: one(torch.linalg.lu_factor, 4096, 4096, dtype=f32)),
    ("QR f32 2048", lambda: one(torch.linalg.qr, 2048, 2048, dtype=f32)),
    ("inverse f32 2048", lambda: one(torch.linalg.inv, 2048, 2048, dtype=f32)),
    ("triangular solve f32 4096, 512", lambda: (lambda a, b: lambda: torch.linalg.solve_triangular(a, b, upper=True))(torch.triu(definite(4096)), new(4096, 512, dtype=f32))),
    ("eigenvalues f32 1024", lambda: (lambda x: lambda: torch.linalg.eigvalsh(x))(definite(1024))),
    ("singular values f32 512", lambda: one(torch.linalg.svdvals, 512, 512, dtype=f32)),
    ("normal numbers f32 64 M", lambda: one(lambda x: x.normal_(), 64 << 20, dtype=f32)),
    ("even numbers bf16 64 M", lambda: one(lambda x: x.uniform_(), 64 << 20)),
    ("permutation of 1 M", lambda: lambda: torch.randperm(1 << 20, device="cuda")),
    ("numbers by weights 64x50257", lambda: (lambda p: lambda: torch.multinomial(p, 1))(torch.softmax(new(64, 50257, dtype=f32), -1))),
    ("AdamW fused f32 64 of 1 M", lambda: optimizer(lambda w: torch.optim.AdamW(w, fused=True))),
    ("AdamW of lists f32 64 of 1 M", lambda: optimizer(torch.optim.AdamW)),
    ("AdamW of lists bf16 16 of 4 M", lambda: optimizer(torch.optim.AdamW, 16, 4 << 20, bf16)),
    ("SGD with momentum f32 64 of 1 M", lambda: optimizer(lambda w: torch.optim.SGD(w, lr=0.1, momentum=0.9))),
    ("gradients clipped f32 64 of 1 M", lambda: clipped()),
    ("to the device, pinned, 64 MiB", lambda: host(64 << 20, True, True)),
    ("from the device, pinned, 64 MiB", lambda: host(64 << 20, True, False)),
    ("to the device, pinned, 64 KiB", lambda: host(64 << 10, True, True)),
    ("to the device, pageable, 64 MiB", lambda: host(64 << 20, False, True)),
    ("from the device, pageable, 64 MiB", lambda: host(64 << 20, False, False)),
    ("LSTM f16 64x128x512", lambda: recurrent(64, 128, 512)),
    ("transformer layer and gradients 8x512x1024", lambda: module(lambda: torch.nn.TransformerEncoderLayer(1024, 16, 4096, 0.0, "gelu", batch_first=True), 8, 512, 1024)),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=".")
    parser.add_argument("--plain", action="store_true", help="each once, in a range of its own: somebody else captures")
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--most", type=float, default=150, help="seconds after which no further operator is begun")
    parser.add_argument("--only", help="those whose names hold this")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    torch.manual_seed(0)
    began, rows, runs = time.monotonic(), [], []
    cleared = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    for number, (name, make) in enumerate(operators):
        if args.only and args.only not in name:
            continue
        if time.monotonic() - began > args.most:
            rows.append((number, name, "", "", "", "left, no time"))
            continue
        try:
            if args.plain:
                torch.cuda.nvtx.range_push("step %d" % (2 * number))
            run = make()
            run()
            run()
            torch.cuda.synchronize()
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            if args.plain:
                cleared.zero_()
                cleared.zero_()
                torch.cuda.nvtx.range_pop()
                torch.cuda.nvtx.range_push("step %d" % (2 * number + 1))
                run()
                torch.cuda.nvtx.range_pop()
                torch.cuda.synchronize()
                print(number, name, torch.cuda.max_memory_allocated() - before, flush=True)
                continue
            times = []
            for _ in range(args.repeat):
                start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                cleared.zero_()
                cleared.zero_()
                start.record()
                run()
                end.record()
                torch.cuda.synchronize()
                times.append(start.elapsed_time(end) * 1e3)
            rows.append((number, name, "%.2f" % statistics.median(times), "%.2f" % min(times), torch.cuda.max_memory_allocated() - before, ""))
            runs.append((number, run))
        except Exception as error:
            rows.append((number, name, "", "", "", str(error).split("\n")[0].replace(",", ";")[:100]))
            print(number, name, "failed:", rows[-1][-1], flush=True)
    if args.plain:
        return
    with open(os.path.join(args.out, "operators.csv"), "w") as file:
        file.write("# PyTorch %s on %s: microseconds by events, what the cache held thrown out before; bytes: the most allocated beyond what was held\n" % (torch.__version__, torch.cuda.get_device_name()))
        file.write("number,operator,median_us,least_us,bytes,failure\n")
        for row in rows:
            file.write(",".join('"%s"' % x if "," in str(x) else str(x) for x in row) + "\n")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA], record_shapes=True) as profile:
        for number, run in runs:
            with torch.profiler.record_function("step %d" % (2 * number)):
                cleared.zero_()
                cleared.zero_()
            with torch.profiler.record_function("step %d" % (2 * number + 1)):
                run()
            torch.cuda.synchronize()
    profile.export_chrome_trace(os.path.join(args.out, "operators.json.gz"))
    print("torch", torch.__version__, "on", torch.cuda.get_device_name(), len(runs), "of", len(operators), "operators in %.0f s" % (time.monotonic() - began))


if __name__ == "__main__":
    main()
