#!/bin/bash
# A PyTorch program on an NVIDIA GPU that is not there: what Python alone can tell of it. Operators on the host's own arrays, and how many elements of a mask are
# set that the host copied to the device. Skipped (77) where python3 has no torch built with CUDA.
set -u
python3 -c 'import torch; assert torch.version.cuda' 2>/dev/null || { echo "no torch built with CUDA for python3"; exit 77; }
echelon=${2:?usage: pretend_torch.sh SOURCE ECHELON}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1

cat >"$work/step.py" <<'PY'
import ctypes, torch, torch.utils.checkpoint

# An operator that inference mode leaves whole is cast within autocast as elsewhere.
recurrent, said = torch.nn.LSTM(64, 64).cuda(), torch.zeros(5, 2, 64, device="cuda")
for guard in torch.no_grad, torch.inference_mode:
    with guard(), torch.autocast("cuda", dtype=torch.bfloat16):
        assert recurrent(said)[0].dtype == torch.float16
        assert recurrent(said, (said[:1].bfloat16(), said[:1].bfloat16()))[0].dtype == torch.float16
    assert recurrent(said)[0].dtype == torch.float32
# An optimizer on the host: 1 M parameters of 4 bytes. It reads them, gradients and two moments, and writes all but the gradients.
p = torch.nn.Parameter(torch.zeros(1 << 20))
step = torch.optim.AdamW([p], fused=True)
p.grad = torch.zeros(1 << 20, device="cuda").cpu()
step.step()
p.data[:1000].add_(1)  # too little to tell of
# One whose steps are none of PyTorch's operators, as DeepSpeed's: half as many parameters, their gradients and a moment.
class Own(torch.optim.Optimizer):
    def __init__(self, weights):
        super().__init__(weights, {})
        for weight in weights:
            self.state[weight]["moment"] = torch.zeros(weight.shape)
    def step(self):
        for weight, kept in self.state.items():
            ctypes.memmove(weight.data_ptr(), kept["moment"].data_ptr(), kept["moment"].nbytes)
q = torch.nn.Parameter(torch.zeros(1 << 19))
own = Own([q, torch.nn.Parameter(torch.zeros(1 << 19))])  # the second has no gradient
q.grad = torch.zeros(1 << 19)
own.step()
own.step()
# Checkpoints that stop early, in the middle of an operator whose result is let go (PyTorch 2.11, where each freed array's line was asked for, lost the error).
weight = torch.zeros(8, 8, device="cuda", requires_grad=True)
torch.utils.checkpoint.checkpoint(lambda x: (x @ weight).exp(), torch.zeros(4, 8, device="cuda", requires_grad=True), use_reentrant=False).sum().backward()
# More of a mask than is kept of what is copied else: a graph's edges, a third of them loops.
edges = torch.arange(1 << 20)
to = torch.where(edges % 3 == 0, edges, edges + 1)
assert (edges.cuda() != to.cuda()).nonzero().shape == (699050, 1)
assert edges.cuda()[edges.cuda() != to.cuda()].shape == (699050,)
# What a kernel is to write is no index, whatever lay there: rows' ends, of which the first is written anew.
ends = torch.arange(8, dtype=torch.int32).cuda() * 1024 + 1023
ends[:1] = torch.zeros(1, dtype=torch.int32).cuda()
at = ends.data_ptr()
del ends
to_write = torch.empty(4, dtype=torch.int64, device="cuda")
assert to_write.data_ptr() == at and to_write.tolist() == [0] * 4
mask = torch.ones(20 << 20, dtype=torch.bool, device="cuda")
assert mask.nonzero().numel() == 0
# A sparse matrix has its elements on the device, too, each place once; its product is cuSPARSE's. What is sparse itself in the end is refused.
matrix = torch.sparse_coo_tensor(torch.tensor([[0, 0, 2, 2], [1, 1, 0, 3]]), torch.ones(4), (3, 4)).cuda()
assert matrix._nnz() == 4 and matrix.coalesce()._nnz() == 3 and matrix.coalesce().indices().tolist() == [[0, 2, 2], [1, 0, 3]]
assert torch.sparse.mm(matrix, torch.rand(4, 64, device="cuda")).shape == (3, 64)
rows = torch.sparse_csr_tensor(torch.tensor([0, 1, 1, 3]), torch.tensor([1, 0, 3]), torch.ones(3), (3, 4)).cuda()
assert rows.crow_indices().tolist() == [0, 1, 1, 3] and (rows @ torch.rand(4, device="cuda")).shape == (3,)
assert torch.tensor([[0, 5], [7, 0]]).cuda().to_sparse()._nnz() == 2
try:
    rows @ rows.t().to_sparse_csr()
except RuntimeError as error:
    assert "not supported" in str(error)
# Operators that go by counts of their own: which of many are among many, exponentials of many matrices; and weights decide nothing of how many bins there are.
many, some = torch.arange(10000).cuda(), torch.arange(0, 1000, 3).cuda()
for invert in (False, True):
    assert torch.isin(many, some, invert=invert).sum() == torch.isin(many, some, assume_unique=True, invert=invert).sum() == (9666 if invert else 334)
assert torch.linalg.matrix_exp(torch.rand(2, 8, 4, 4, device="cuda", requires_grad=True)).sum().backward() is None
assert torch.bincount(some, weights=torch.rand(334, device="cuda")).shape == (1000,)
# An operator that looks whether lengths sum up, which kernels would find out, goes on.
torch.segment_reduce(torch.rand(64, device="cuda"), "sum", lengths=torch.full((4,), 16, device="cuda"))
# Attention whose kernels do not name their mask: it is told, once, where it is given and where it is not.
if hasattr(torch.nn, "attention"):
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION):
        query = torch.rand(1, 2, 128, 64, device="cuda", dtype=torch.float16, requires_grad=True)
        for causal in (False, True):
            torch.nn.functional.scaled_dot_product_attention(query, query, query, is_causal=causal).sum().backward()
# A kind of tensor that only answers to functions (fastai's, torchvision's boxes) is one like others.
class Picture(torch.Tensor):
    pass
picture = torch.arange(6).as_subclass(Picture).cuda()
assert type(picture) is Picture and picture[picture > 2].shape == (3,)
# It may be made by its class alone, as the masks of PyTorch's own are that decode against longer keys.
assert type(Picture(3, 4)) is Picture and type(Picture(picture) + 1) is Picture
if hasattr(torch.nn, "attention") and hasattr(torch.nn.attention, "bias"):
    short, long = (torch.rand(1, 2, rows, 64, device="cuda", dtype=torch.float16) for rows in (8, 32))
    assert torch.nn.functional.scaled_dot_product_attention(short, long, long, torch.nn.attention.bias.causal_lower_right(8, 32)).shape == (1, 2, 8, 64)
# What hangs on results of kernels is told, and where: a half is above a threshold and the other below it, a row has one greatest element, results are finite.
scores = torch.rand(300, device="cuda")
boxes = torch.where(scores > 0.5)[0]
assert boxes.numel() == 150 and scores[scores > 0.5].shape == (150,)
assert ((scores > 0.5) | (scores <= 0.5)).sum() == 300 and ((scores >= 0.1) & (scores < 0.2)).sum() == 0
assert (scores >= scores.roll(1))[scores <= scores.roll(1)].sum() == 150
overlaps = torch.rand(7, 300, device="cuda")
best, of = overlaps.max(dim=0)
assert of.tolist() == [i % 7 for i in range(300)]
assert torch.where(overlaps == overlaps.max(dim=1, keepdim=True)[0])[1].tolist() == list(range(7))
assert torch.isfinite(scores).all() and not torch.isnan(scores).any() and (scores > float("-inf")).sum() == 300
# Checks that all is well find nothing wrong; what is computed from a guess is computed.
assert (overlaps >= 0).all() and not (overlaps < 0).any()
labels = torch.full((300,), -1, device="cuda")
labels[best >= 0.5], labels[best < 0.5] = 1, 0
assert (labels >= 0).all() and (labels == 1).any() and torch.unique(labels).tolist() == [0, 1]
assert torch.randperm(150, device="cuda").sort()[0].tolist() == list(range(150)) and torch.randint(3, 9, (100,), device="cuda").unique().tolist() == [3, 4, 5, 6, 7, 8]
assert scores.topk(200)[1].tolist() == list(range(200)) and scores.sort()[1].tolist() == list(range(300))
# What the host copied to the device reads back, and what a comparison of it is; what a kernel made of it does not.
noise = torch.linspace(1, 0, 101).cuda()
assert noise[50].item() == 0.5 and noise[noise > 0].shape == (100,) and noise.min().item() == 0 and noise.max().item() == 1 and noise[noise > 0].shape[0] == (noise > 0).sum()
assert (noise * 2)[0].item() == 0 and noise.clone()[noise > 0.9].shape == (10,)
weights = [torch.ones(100).cuda(), torch.ones(100).cuda()]
torch._foreach_mul_(weights, 2)
assert weights[0][0].item() == 0 and not torch.equal(weights[1].cpu(), torch.ones(100))
# What a program decides by is what it would read: a scale that was made up reads 0.0, which is not above 0, and so not above it at the second look either.
scale = torch.rand((), device="cuda")
assert scale.item() == 0 and not scale > 0 and scale <= 0 and not scale != 0 and scale < 1e-3
# Distributions check their parameters, of which one or many were made up.
for scale in (torch.rand(3, 6, device="cuda").exp(), torch.rand(1, 1, device="cuda").exp(), scale.exp()):
    torch.distributions.Independent(torch.distributions.Normal(torch.zeros_like(scale), scale), scale.dim()).log_prob(scale)
torch.distributions.Categorical(probs=torch.rand(4, 8, device="cuda").softmax(-1)).sample()
torch.distributions.MultivariateNormal(torch.zeros(6, device="cuda"), covariance_matrix=torch.rand(6, 6, device="cuda"))
assert torch.isclose(scores, scores.roll(1)).all() and torch.allclose(scores, scores.roll(1)) and not (scores.view(30, 10) < 0).any(dim=1).any()
# What is filled holds that, whatever lay in what it is made like.
total = torch.rand(100, device="cuda").sum()
assert torch.equal(torch.ones_like(total), torch.tensor(1.0, device="cuda")) and torch.full_like(total, 3).item() == 3 and total.new_full((2,), 4)[1].item() == 4
assert total.clone().fill_(5).item() == 5 and total.fill_(6).zero_().item() == 0
# A nested tensor says what is done with what it is made of; its whole numbers are computed as those of others are.
nested = torch.nested.nested_tensor([torch.zeros(n, 64) for n in (3, 5)], layout=torch.jagged, device="cuda", requires_grad=True)
torch.nn.functional.layer_norm(torch.nn.Linear(64, 64, device="cuda")(nested).chunk(2, -1)[0], (32,)).values().sum().backward()
if hasattr(torch, "compiler"):  # one that a compiled region is given comes to its ranges past all that stands around it
    torch.compile(lambda nested: nested * 2, backend="aot_eager")(nested).values().sum().backward()
assert nested.grad.offsets().tolist() == [0, 3, 8] and torch.nested.to_padded_tensor(nested, 0.0).shape == (2, 5, 64)
# Memory that a server's own kernel is to write, which does not run, holds none of what lay there before: two numbers of 32 bits are no index of 64.
before = torch.arange(1, 1001, dtype=torch.int32).cuda()
there = before.data_ptr()
del before
places = torch.empty(500, dtype=torch.int64, device="cuda")
assert places.data_ptr() == there and places.sum() == 0
# What is exported and traced is what the program does: neither sizes nor tests of ours are part of it, and modules have their names again afterwards.
class Halves(torch.nn.Module):
    def forward(self, x):
        return x.view(x.shape[0] // 2, -1).relu()
if hasattr(torch, "export"):
    exported = torch.export.export(Halves(), (torch.rand(8, 3, device="cuda"),), dynamic_shapes={"x": {0: 2 * torch.export.Dim("half", min=2, max=64)}})
    assert exported.module()(torch.rand(12, 3, device="cuda")).shape == (6, 6)
    if hasattr(torch, "float4_e2m1fn_x2"):  # of earlier releases some take a size for settled by themselves
        assert exported.run_decompositions().module()(torch.rand(12, 3, device="cuda")).shape == (6, 6)
    from torch.fx.experimental.proxy_tensor import make_fx
    assert make_fx(lambda x: (x @ x.t()).view(-1), tracing_mode="symbolic")(torch.rand(8, 3, device="cuda"))(torch.rand(12, 3, device="cuda")).shape == (144,)
traced = torch.jit.trace(Halves(), torch.rand(8, 3, device="cuda"), check_trace=False)
assert "aten::numel" not in str(traced.graph) and traced(torch.rand(12, 3, device="cuda")).shape == (6, 6)
Halves()(torch.rand(4, 3, device="cuda"))
# A program that records its memory itself, and stops: ours goes on.
torch.cuda.memory._record_memory_history(max_entries=1)
torch.cuda.memory._record_memory_history(enabled=None)
kept = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
assert torch.cuda.memory._snapshot()["segments"]
PY
"$echelon" capture --pretend h100-sxm -o "$work/p" -- python3 "$work/step.py" >"$work/said" 2>&1 || { tail -20 "$work/said"; exit 1; }
grep -q '^name [0-9]* "nn.Module: Halves"$' "$work"/p.*.pretend || { echo "modules have no names after an export"; exit 1; }
grep -q 'Exception in RecordFunction' "$work/said" && { echo "ranges trip over a nested tensor:"; cat "$work/said"; exit 1; }

# A nested tensor of the older kind (strided), which nn.TransformerEncoder makes of a batch with a mask of its padding, has kernels of its own for what others share.
cat >"$work/strided.py" <<'PY'
import torch
from torch import nn

nested = torch.nested.nested_tensor([torch.zeros(n, 64) for n in (3, 5)], device="cuda", requires_grad=True)
out = torch.nested.to_padded_tensor(torch.relu(nn.Linear(64, 96, device="cuda")(nn.LayerNorm(64, device="cuda")(nested))), 0.0)
out.sum().backward()
assert out.shape == (2, 5, 96) and [one.shape[0] for one in nested.unbind()] == [3, 5]
encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), 2).cuda().eval()
padding = torch.arange(8, device="cuda")[None] >= torch.tensor([[8], [3]], device="cuda")
with torch.no_grad():
    assert encoder(torch.zeros(2, 8, 64, device="cuda"), src_key_padding_mask=padding).shape == (2, 8, 64)
PY
"$echelon" capture --pretend h100-sxm -o "$work/strided" -- python3 "$work/strided.py" >"$work/strided" 2>&1 || { echo "a strided nested tensor:"; tail -3 "$work/strided"; exit 1; }
for call in "efficient_attention, .*types = \[f16, f16, f16, -, true, -, true, -" "efficient_attention_backward, .*types = .*, true, -" "efficient_attention, .*types = \[f16, f16, f16, -, true, -, -, -"; do
  [ "$(grep -c "^name [0-9]* \"aten::_scaled_dot_product_$call" "$work"/p.*.pretend)" = 1 ] || { echo "the mask of attention is not told: $call"; grep '_efficient_attention' "$work"/p.*.pretend; exit 1; }
done
number=$(sed -n 's/^name \([0-9]*\) "aten::_fused_adamw_"$/\1/p' "$work"/p.*.pretend)
[ -n "$number" ] && [ "$(grep -c "^host [0-9]* 0 $number 16777[0-9]* 12582[0-9]*$" "$work"/p.*.pretend)" = 1 ] || { echo "the optimizer's step is not told:"; grep '^host' "$work"/p.*.pretend; exit 1; }
number=$(sed -n 's/^name \([0-9]*\) "Own.step"$/\1/p' "$work"/p.*.pretend)
[ -n "$number" ] && [ "$(grep -c "^host [0-9]* 0 $number 6291456 4194304$" "$work"/p.*.pretend)" = 2 ] || { echo "a step of an optimizer of the program's own is not told:"; grep '^host' "$work"/p.*.pretend; exit 1; }
grep -q '"AdamW.step"' "$work"/p.*.pretend && { echo "an optimizer's step is told twice"; exit 1; }
grep -q 'a mask picks hangs on results of kernels, which are not computed (step.py:[0-9]*): 150 of 300 are taken' "$work/said" || { cat "$work/said"; exit 1; }
cat >"$work/none.py" <<'PY'
import torch
scores = torch.rand(300, device="cuda")
assert scores[scores > 0.5].numel() == 0 and scores[scores <= 0.5].numel() == 0 and torch.where(scores.bool())[0].numel() == 0
PY
for share in 0 2; do
  ECHELON_PRETEND_PICKED=$share "$echelon" capture --pretend h100-sxm -o "$work/none$share" -- python3 "$work/none.py" >"$work/none$share.said" 2>&1
  [ $((share > 0)) = $(($? > 0)) ] || { echo "a share of $share:"; cat "$work/none$share.said"; exit 1; }
done
grep -q "ECHELON_PRETEND_PICKED: '2' is not a share" "$work/none2.said" || { cat "$work/none2.said"; exit 1; }
# A program that divides by a result, which is zero, where it is not told otherwise. What the host brought stays what it is.
cat >"$work/read.py" <<'PY'
import torch
spread = torch.rand(300, device="cuda")
assert torch.tensor(0.0).cuda().item() == 0
print("spread", 1 / (spread.max() - spread.min()).item())
PY
ECHELON_PRETEND_READ=0.25 "$echelon" capture --pretend h100-sxm -o "$work/read" -- python3 "$work/read.py" >"$work/read.said" 2>&1
grep -q '^spread 4.0$' "$work/read.said" || { cat "$work/read.said"; exit 1; }
ECHELON_PRETEND_READ=nan "$echelon" capture --pretend h100-sxm -o "$work/read" -- python3 "$work/read.py" >"$work/read.said" 2>&1 && exit 1
grep -q "ECHELON_PRETEND_READ: 'nan' is not a finite number" "$work/read.said" || { cat "$work/read.said"; exit 1; }
grep -q 'a mask of 20971520 elements is too large' "$work/said" || { cat "$work/said"; exit 1; }
"$echelon" run --trace "$work"/p.*.pretend --device h100-sxm >"$work/run" || exit 1
grep -q '100 MiB  step.py' "$work/run" || { echo "no line of an allocation is told:"; cat "$work/run"; exit 1; }
tr '\n' ' ' <"$work/run" | grep -q "operators run on the host's processor" || exit 1

# What computes values changes nothing of what PyTorch launches and allocates: gradients that meet are added up in place, and operators take no longer ways.
cat >"$work/same.py" <<'PY'
import torch
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

x = torch.rand(4, 32, 64, device="cuda", requires_grad=True)
weight, bias = torch.rand(64, 64, device="cuda", requires_grad=True), torch.rand(64, device="cuda", requires_grad=True)
h = functional.linear(x * 2, weight, bias)
y = functional.silu(h) + functional.mish(h) + h.sin() * h.cos() + (functional.rms_norm(h, (64,), bias) if hasattr(functional, "rms_norm") else h)
y = y + functional.linear(h[:, ::2], weight, bias).sum() + h.cumprod(0) + h.prod(1, keepdim=True)
y.sum().backward()
lengths = torch.full((2,), 50), torch.full((2,), 10)
functional.ctc_loss(torch.rand(50, 2, 20, device="cuda").log_softmax(2), torch.ones(2, 10, dtype=torch.long, device="cuda"), *lengths)
with FlopCounterMode(display=False) as counter:
    functional.linear(x, weight, bias).sum().backward()
print("operations", counter.get_total_flops(), "peak", torch.cuda.max_memory_allocated())
PY
for values in 0 1; do
  ECHELON_PRETEND_VALUES=$values "$echelon" capture --pretend h100-sxm -o "$work/same$values" -- python3 "$work/same.py" >"$work/same$values.said" 2>&1 || { tail -20 "$work/same$values.said"; exit 1; }
  awk '$1 == "name" { number = $2; sub(/^name [0-9]* /, ""); name[number] = $0 } $1 == "kernel" { print name[$5], $6, $7, $8, $9 }' "$work"/same$values.*.pretend >"$work/same$values.kernels"
  grep '^operations' "$work/same$values.said" >>"$work/same$values.kernels"
done
grep -q silu_backward "$work/same0.kernels" && diff "$work"/same?.kernels || { echo "other kernels or memory with values than without"; exit 1; }

# Triton's autotuner times nothing: of four choices the first has no code, the second is taken, the others are not compiled. Once to tune, once for each call.
cat >"$work/tuned.py" <<'PY'
import torch, triton, triton.language as tl
@triton.autotune([triton.Config({"N": n}) for n in (64, 128, 256, 512)], key=["n"])
@triton.jit
def double(x, n, N: tl.constexpr):
    tl.static_assert(N != 64)
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(x + at, tl.load(x + at, at < n) * 2, at < n)
x = torch.ones(4096, device="cuda")
for _ in range(3):
    double[lambda meta: (triton.cdiv(4096, meta["N"]),)](x, 4096)
assert double.best_config.kwargs["N"] == 128
assert len(next(iter(double.fn.device_caches.values()))[0]) == 1  # compiled
PY
if python3 -c 'import triton' 2>/dev/null; then
  TRITON_CACHE_DIR=$work/triton "$echelon" capture --pretend h100-sxm -o "$work/tuned" -- python3 "$work/tuned.py" >"$work/said" 2>&1 || { tail -20 "$work/said"; exit 1; }
  number=$(sed -n 's/^name \([0-9]*\) "double"$/\1/p' "$work"/tuned.*.pretend)
  [ "$(grep -c "^kernel [0-9]* 0 0 $number " "$work"/tuned.*.pretend)" = 4 ] || { echo "not four launches:"; grep -n '^kernel' "$work"/tuned.*.pretend; exit 1; }
fi

# What a program's own kernels multiply, by their tiles: loops that hang on the program, on numbers that it is given, on whole numbers that the host copied; an early
# end, a loop whose end is computed, one that goes on; a descriptor's sizes; the same within torch.compile, and from its cache. One that hangs on results is said.
cat >"$work/tiles.py" <<'PY'
import torch, triton, triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
@triton.jit
def attend(q, k, v, o, n, causal: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    rows, columns = tl.program_id(0) * N + tl.arange(0, N), tl.arange(0, D)
    mine = tl.load(q + rows[:, None] * D + columns[None, :])
    most, sums, out = tl.full((N,), -1e9, tl.float32), tl.zeros((N,), tl.float32), tl.zeros((N, D), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * N if causal else n, N):
        there = (start + tl.arange(0, N))[:, None] * D + columns[None, :]
        scores = tl.dot(mine, tl.load(k + there).T)
        more = tl.maximum(most, tl.max(scores, 1))
        shares, kept = tl.exp(scores - more[:, None]), tl.exp(most - more)
        sums, most = sums * kept + tl.sum(shares, 1), more
        out = out * kept[:, None] + tl.dot(shares.to(tl.bfloat16), tl.load(v + there))
    tl.store(o + rows[:, None] * D + columns[None, :], (out / sums[:, None]).to(tl.bfloat16))
@triton.jit
def grouped(x, w, y, ends, groups, K, N: tl.constexpr):
    tile, row, found, start = tl.program_id(0), 0, -1, 0
    for i in range(groups):
        end = tl.load(ends + i)
        if found < 0:
            if tile < tl.cdiv(end - row, N):
                found, start = i, row + tile * N
            else:
                tile -= tl.cdiv(end - row, N)
        row = end
    if found < 0:
        return
    at, sums = tl.arange(0, N), tl.zeros((N, N), tl.float32)
    for k in range(0, K, N):
        sums += tl.dot(tl.load(x + (start + at)[:, None] * K + k + at[None, :]), tl.load(w + found * K * N + (k + at)[:, None] * N + at[None, :]))
    tl.store(y + (start + at)[:, None] * N + at[None, :], sums)
@triton.jit
def again(x, times, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    i, left, x_at = 0, tl.load(times), tl.load(x + at)
    sums = tl.zeros((N, N), tl.float32)
    while i < left:
        sums, i = tl.dot(x_at, x_at, sums), i + 2
    tl.store(x + at, sums)
@triton.jit
def persistent(a, b, c, N: tl.constexpr, STEP: tl.constexpr):
    wide = tl.cdiv(b.shape[0], N)
    for tile in tl.range(tl.program_id(0), tl.cdiv(a.shape[0], N) * wide, STEP, flatten=True):
        sums = tl.zeros((N, N), tl.float32)
        for k in range(tl.cdiv(a.shape[1], N)):
            sums = tl.dot(a.load([tile // wide * N, k * N]), b.load([tile % wide * N, k * N]).T, sums)
        c.store([tile // wide * N, tile % wide * N], sums.to(tl.bfloat16))
q = torch.zeros(1024, 64, dtype=torch.bfloat16, device="cuda")
attend[(16,)](q, q, q, torch.empty_like(q), 1024, True, 64, 64)
print("tiles attend", 4 * 64 * 64 * 64 * (16 * 17 // 2))
attend[(16,)](q, q, q, torch.empty_like(q), 1000, False, 64, 64)
print("tiles attend", 4 * 64 * 64 * 64 * 16 * 16)
for ends in ([100, 1000, 1000, 1300], [1, 2, 3, 4]):
    grouped[(40,)](torch.zeros(2048, 256, dtype=torch.bfloat16, device="cuda"), torch.zeros(4, 256, 64, dtype=torch.bfloat16, device="cuda"),
                   torch.zeros(2048, 64, device="cuda"), torch.tensor(ends, dtype=torch.int32).cuda(), 4, 256, 64)
    print("tiles grouped", 2 * 64 * 64 * 256 * sum(-(-(end - start) // 64) for start, end in zip([0] + ends, ends)))
again[(3,)](torch.zeros(32, 32, device="cuda"), torch.tensor([11]).cuda(), 32)
print("tiles again", 3 * 2 * 32**3 * 6)
again[(3,)](torch.zeros(32, 32, device="cuda"), torch.rand(1, device="cuda") * 8, 32)  # not known
a, b, c = (torch.zeros(size, dtype=torch.bfloat16, device="cuda") for size in ((300, 200), (150, 200), (300, 152)))
persistent[(7,)](*(TensorDescriptor.from_tensor(array, [64, 64]) for array in (a, b, c)), 64, 7)
print("tiles persistent", 2 * 64**3 * 5 * 3 * 4)
@torch.library.triton_op("their::attend", mutates_args=())
def operator(q: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(q)
    torch.library.wrap_triton(attend)[(16,)](q, q, q, out, 1024, True, 64, 64)
    return out
torch.compile(lambda q: operator(q * 2) + 1)(q)
print("tiles attend", 4 * 64 * 64 * 64 * (16 * 17 // 2))
PY
if python3 -c 'import triton.tools.tensor_descriptor' 2>/dev/null; then
  for cached in 0 1; do
    TRITON_CACHE_DIR=$work/triton TORCHINDUCTOR_CACHE_DIR=$work/tiles.inductor "$echelon" capture --pretend h100-sxm -o "$work/tiles$cached" -- python3 "$work/tiles.py" >"$work/said" 2>&1 ||
      { tail -20 "$work/said"; exit 1; }
    awk '$1 == "name" { number = $2; sub(/^name [0-9]* /, ""); gsub(/"/, ""); name[number] = $0 } $1 == "kernel" { kernel = name[$5] } $1 == "products" { print "tiles", kernel, $3 }' \
      "$work/tiles$cached".*.pretend >"$work/told"
    grep '^tiles' "$work/said" | diff - "$work/told" || { echo "other products (cached: $cached)"; exit 1; }
    [ "$(grep -c '"class=attention head=64"' "$work/tiles$cached".*.pretend)" = 1 ] && grep -q '"product=1x192x320x256 operand_bytes=2 class=product tile=64x64x64 ' "$work/tiles$cached".*.pretend ||
      { grep class= "$work/tiles$cached".*.pretend; exit 1; }
    grep -q "how much Triton's again multiplies is not told (its loops hang on what is computed)" "$work/said" || { cat "$work/said"; exit 1; }
  done
fi

# What a kernel in Triton moves of each array that it is given, read and written: rows of a table that it looks up, elements alone in a loop of which nobody knows how
# often it goes round, tiles in such a one (0: not known how much); and of rows that one of TorchInductor's picks. No more than there is.
cat >"$work/rows.py" <<'PY'
import torch, triton, triton.language as tl
@triton.jit
def count(places, counts, width, made, tokens):
    row = tl.load(places + tl.program_id(0))
    if row < 0:
        return
    for i in range(tl.load(made + tl.program_id(0)).to(tl.int32)):
        at = counts + row * width + tl.load(tokens + tl.program_id(0))
        tl.store(at, tl.load(at) + 1)
@triton.jit
def take(places, table, out, width, n: tl.constexpr):
    row = tl.load(places + tl.program_id(0))
    for start in range(0, width, n):
        at = start + tl.arange(0, n)
        tl.store(out + tl.program_id(0) * width + at, tl.load(table + row * width + at, at < width), at < width)
@triton.jit
def add(x, length, y, n: tl.constexpr):
    sums = tl.zeros((n,), tl.float32)
    for start in range(0, tl.load(length).to(tl.int32), n):
        sums += tl.load(x + start + tl.arange(0, n))
    tl.atomic_add(y + tl.arange(0, n), sums)
@triton.jit
def choose(x, y, out, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(out + at, tl.load(tl.where(tl.program_id(0) == 0, x + at, y + at)))
counts, places = torch.zeros(1024, 4096, dtype=torch.int32, device="cuda"), torch.tensor([3, 5, 7, 9], dtype=torch.int32).cuda()
tokens, known, unknown = torch.zeros(4, dtype=torch.int32, device="cuda"), torch.tensor([3, 3, 3, 3], dtype=torch.int32).cuda(), torch.rand(4, device="cuda")
out, x, y = torch.empty(4, 4096, dtype=torch.int32, device="cuda"), torch.zeros(1 << 20, device="cuda"), torch.zeros(256, device="cuda")
def told(*uses):
    print("rows", *(number for how, array, bytes in uses for number in (how, array.data_ptr(), bytes)))
count[(4,)](places, counts, 4096, known, tokens)
told((1, places, 4 * 4), (1, known, 4 * 4), (1, tokens, 4 * 4), (1, counts, 3 * 4 * 32), (2, counts, 3 * 4 * 32))
count[(4,)](places, counts, 4096, unknown, tokens)
told((1, places, 4 * 4), (1, unknown, 4 * 4), (1, tokens, 4 * 4), (1, counts, 4 * 32), (2, counts, 4 * 32))
take[(4,)](places, counts, out, 4096, 1024)
told((1, places, 4 * 4), (1, counts, 4 * 4096 * 4), (2, out, 4 * 4096 * 4))
add[(2,)](x, unknown, y, 256)
told((1, unknown, 4 * 4), (1, x, 0), (1, y, 1024), (2, y, 1024))
choose[(2,)](x, y, x, 256)  # not told: as all of its arrays
if torch.__version__ >= "2.8":
    rows = torch.randint(0, 1024, (16,), device="cuda")
    picked = torch.compile(lambda: counts[rows] * 2)()
    told((1, rows, 16 * 8), (1, counts, 16 * 4096 * 4), (2, picked, 16 * 4096 * 4))
PY
if python3 -c 'import triton' 2>/dev/null; then
  TRITON_CACHE_DIR=$work/triton TORCHINDUCTOR_CACHE_DIR=$work/inductor "$echelon" capture --pretend h100-sxm -o "$work/rows" -- python3 "$work/rows.py" >"$work/said" 2>&1 || { tail -20 "$work/said"; exit 1; }
  awk '$1 == "name" { number = $2; sub(/^name [0-9]* /, ""); name[number] = $0 } $1 == "kernel" { kernel = name[$5] } $1 == "uses" && kernel ~ /^"(count|take|add|choose|triton_poi_.*index.*)"$/ { sub("uses", "rows"); print }' \
    "$work"/rows.*.pretend >"$work/told"
  grep '^rows' "$work/said" | diff - "$work/told" || { echo "other bytes that a kernel in Triton moves"; exit 1; }
  grep -q "what Triton's choose moves is not told (which arrays it uses hangs on conditions)" "$work/said" || { cat "$work/said"; exit 1; }
fi

# Products that torch.compile times, padded and as they are, run a few times and not for 25 ms: with the two of each call, no more than a dozen.
cat >"$work/padded.py" <<'PY'
import torch
product = torch.compile(lambda x, y: (x @ y).relu())
x, y = torch.zeros(1024, 4097, dtype=torch.bfloat16, device="cuda"), torch.zeros(4097, 4097, dtype=torch.bfloat16, device="cuda")
for _ in range(2):
    product(x, y)
PY
if python3 -c 'import triton; from torch._inductor.runtime.benchmarking import InductorBenchmarker' 2>/dev/null; then
  TRITON_CACHE_DIR=$work/padded.triton TORCHINDUCTOR_CACHE_DIR=$work/padded.inductor "$echelon" capture --pretend h100-sxm -o "$work/padded" -- python3 "$work/padded.py" >"$work/said" 2>&1 ||
    { tail -20 "$work/said"; exit 1; }
  n=$(grep -c '^library ' "$work"/padded.*.pretend)
  [ "$n" -gt 2 ] && [ "$n" -le 12 ] || { echo "$n products where two shapes are timed"; exit 1; }
  # Calls of a compiled function that is no module tell steps.
  "$echelon" run --trace "$work"/padded.*.pretend --device h100-sxm | grep 'Steps: 2, ' >/dev/null || { echo "no steps of a compiled function"; exit 1; }
fi

# Nor does torch.compile: of what max-autotune could try for a product the library's kernel is taken, of the element-wise kernel beside it the first choice.
cat >"$work/most.py" <<'PY'
import torch
most = torch.compile(lambda x, y: (x @ y).relu().sum(-1), mode="max-autotune-no-cudagraphs")
x = torch.zeros(512, 512, dtype=torch.bfloat16, device="cuda")
for _ in range(2):
    most(x, x)
PY
if python3 -c 'import triton' 2>/dev/null; then
  TRITON_CACHE_DIR=$work/most.triton TORCHINDUCTOR_CACHE_DIR=$work/most.inductor "$echelon" capture --pretend h100-sxm -o "$work/most" -- python3 "$work/most.py" >"$work/said" 2>&1 ||
    { tail -20 "$work/said"; exit 1; }
  [ "$(find "$work/most.triton" "$work/most.inductor" -name '*.cubin' | wc -l)" = 1 ] || { echo "more than one kernel is compiled:"; find "$work/most.triton" "$work/most.inductor" -name '*.cubin'; exit 1; }
  grep -q '^library ' "$work"/most.*.pretend || { echo "no product of the library's"; exit 1; }
fi

# Checks that operators make of what they computed hold; processes hand one another arrays; of what two hold on a device neither has room; and what is being
# captured is not read.
cat >"$work/checks.py" <<'PY'
import multiprocessing, torch
def fill(given, back):
    array = given.get()
    free, all = torch.cuda.mem_get_info()
    assert array.shape == (5 << 20,) and all - free >= 2 * (512 << 20) + (5 << 20), (free, all)  # two contexts and the other's array
    back.put(torch.ones(3, device="cuda"))
    given.get()
if __name__ == "__main__":
    assert torch.linalg.eig(torch.rand(70, 70, device="cuda"))[0].shape == (70,) and torch.linalg.eigvals(torch.rand(70, 70, device="cuda")).shape == (70,)
    assert torch.linalg.ldl_factor(torch.rand(70, 70, device="cuda"))[0].shape == (70, 70)
    window = torch.hann_window(400, device="cuda")
    spectrum = torch.stft(torch.rand(16000, device="cuda"), 400, 160, window=window, return_complex=True)
    assert torch.istft(spectrum, 400, 160, window=window).shape == (16000,)
    x = torch.rand(1000, device="cuda")
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            x.sum().item()
        raise SystemExit("what is being captured was read")
    except RuntimeError as error:
        assert "capture" in str(error), error
    del x, window, spectrum, graph
    torch.cuda.empty_cache()
    spawn = multiprocessing.get_context("spawn")
    import torch.multiprocessing  # how arrays are handed over
    given, back = spawn.Queue(), spawn.Queue()
    other = spawn.Process(target=fill, args=(given, back))
    other.start()
    given.put(torch.ones(5 << 20, dtype=torch.uint8, device="cuda"))
    assert back.get().shape == (3,)
    given.put(None)
    other.join()
    assert other.exitcode == 0
PY
"$echelon" capture --pretend h100-sxm -o "$work/checks" -- python3 "$work/checks.py" >"$work/said" 2>&1 || { tail -20 "$work/said"; exit 1; }

# FlexAttention: how many scores a head's blocks have, forward and backward, where the program makes the blocks, where a compiled graph does, and where one only
# leaves out some of them; and nothing of a mask that hangs on results.
cat >"$work/flexible.py" <<'PY'
import torch
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
places = torch.arange(1024) // 300
there = places.cuda()
q, k = (torch.zeros(2, heads, 1024, 64, dtype=torch.bfloat16, device="cuda", requires_grad=True) for heads in (4, 2))
attend = torch.compile(flex_attention, dynamic=False)
attend(q, k, k, block_mask=create_block_mask(lambda b, h, q, k: q >= k, None, None, 1024, 1024, device="cuda"), enable_gqa=True).sum().backward()

def of(places):
    return lambda b, h, q, k: (q >= k) & (places[q] == places[k])

def pack(q, k, there, most=None):
    mask = create_block_mask(of(there), None, None, 1024, 1024, device="cuda")
    if most is not None:  # none of the full ones
        mask = BlockMask.from_kv_blocks(mask.kv_num_blocks.clamp_max(most), mask.kv_indices, mask_mod=mask.mask_mod)
    return flex_attention(q, k, k, block_mask=mask, enable_gqa=True)

torch.compile(pack, dynamic=False)(q, k, there).sum().backward()
torch.compile(pack, dynamic=False)(q, k, there, 1).sum().backward()
reach = torch.rand(1024, device="cuda") * 1024
attend(q, k, k, block_mask=create_block_mask(lambda b, h, i, j: reach[i] >= j, None, None, 1024, 1024, device="cuda"), enable_gqa=True)
mask = create_block_mask(of(places), None, None, 1024, 1024, device="cpu")
for blocks in (36, (mask.kv_num_blocks + mask.full_kv_num_blocks).sum().item(), mask.kv_num_blocks.clamp_max(1).sum().item()):
    print("scores", 2 * 128 * 128 * blocks)
PY
if python3 -c 'import triton, torch.nn.attention.flex_attention' 2>/dev/null; then
  TRITON_CACHE_DIR=$work/triton TORCHINDUCTOR_CACHE_DIR=$work/inductor "$echelon" capture --pretend h100-sxm -o "$work/flexible" -- python3 "$work/flexible.py" >"$work/said" 2>&1 ||
    { tail -20 "$work/said"; exit 1; }
  for scores in $(sed -n 's/^scores //p' "$work/said"); do
    [ "$(grep -c "^lengths 2 2048 2048 1024 $scores$" "$work"/flexible.*.pretend)" = 2 ] || { echo "not $scores scores forward and backward:"; grep '^lengths' "$work"/flexible.*.pretend; exit 1; }
  done
  "$echelon" run --trace "$work"/flexible.*.pretend --device h100-sxm | tr -s ' \n' ' ' | grep -q 'is not known for 1 of its kernels' || { echo "an unknown mask is not told"; exit 1; }
fi

# Sequences of several lengths, one behind the other: work is the sum over them, of PyTorch's own kernels, forward and backward, and of cuDNN's.
cat >"$work/packed.py" <<'PY'
import torch
lengths = [900, 100, 24]
scores, causal = sum(n * n for n in lengths), sum(n * (n + 1) // 2 for n in lengths)
starts = torch.tensor([0] + lengths).cumsum(0).to(torch.int32).cuda()
q = torch.zeros(1024, 2, 64, dtype=torch.bfloat16, device="cuda", requires_grad=True)
out, sums, random, unused, _ = torch.ops.aten._flash_attention_forward(q, q, q, starts, starts, 900, 900, 0.0, True, False)
torch.ops.aten._flash_attention_backward(torch.zeros_like(q), q, q, q, out, sums, starts, starts, 900, 900, 0.0, True, random, unused)
with torch.no_grad():
    torch.ops.aten._efficient_attention_forward(q[None], q[None], q[None], None, starts, starts, 900, 900, 0.0, 0)
print("lengths", 3, 1024, 1024, 900, causal)
print("lengths", 3, 1024, 1024, 900, scores)
try:
    from torch.nn.attention.varlen import _CUDNN_ATTENTION_BACKEND, varlen_attn
    varlen_attn(q, q, q, starts, starts, 900, 900).sum().backward()
    print("cudnn", 2 * 2 * 2 * 64 * scores)
    print("cudnn", 5 * 2 * 2 * 64 * scores)
except ImportError:
    pass
PY
"$echelon" capture --pretend h100-sxm -o "$work/packed" -- python3 "$work/packed.py" >"$work/said" 2>&1 || { tail -20 "$work/said"; exit 1; }
for lengths in $(sed -n 's/^lengths //p' "$work/said" | tr ' ' '/'); do
  grep -q "^lengths $(echo "$lengths" | tr '/' ' ')$" "$work"/packed.*.pretend || { echo "no lengths $lengths:"; grep '^lengths' "$work"/packed.*.pretend; exit 1; }
done
for operations in $(sed -n 's/^cudnn //p' "$work/said"); do
  awk -v of="$operations" '$1 == "library" && $9 == of { found = 1 } END { exit !found }' "$work"/packed.*.pretend || { echo "cuDNN's attention has not $operations operations:"; grep '^library' "$work"/packed.*.pretend; exit 1; }
done

# Operators of other packages, kernels of CuTe's DSL, and FlashAttention 4 on it, by what their packages look like; and a worker that is killed by its own program.
mkdir -p "$work/cutlass/cutlass_dsl" "$work/flash_attn/cute"
touch "$work/cutlass/__init__.py" "$work/cutlass/cutlass_dsl/__init__.py" "$work/flash_attn/__init__.py" "$work/flash_attn/cute/__init__.py"
cat >"$work/cutlass/cutlass_dsl/tvm_ffi_provider.py" <<'PY'
class TVMFFIJitCompiledFunction:
    def __init__(self, name): self.function_name = name
    def __call__(self, *values): values[-1].fill_(1)
PY
cat >"$work/flash_attn/cute/interface.py" <<'PY'
import torch
from cutlass.cutlass_dsl.tvm_ffi_provider import TVMFFIJitCompiledFunction
torch.cuda.init()  # as it does while it is imported
def _flash_attn_fwd(q, k, v, cu_seqlens_q=None, cu_seqlens_k=None, seqused_k=None, causal=False):
    _flash_attn_fwd.compile_cache[0](q, k, v, out := torch.empty_like(q))
    return out
_flash_attn_fwd.compile_cache = {0: TVMFFIJitCompiledFunction("flash_attncuteflash_fwd_sm90_object_at_0")}
def _flash_attn_bwd(q, k, v, out, dout, lse, causal=False):
    TVMFFIJitCompiledFunction("flash_bwd_postprocess_object_at_0")(q, k)
def forward(*given, **named): return _flash_attn_fwd(*given, **named)
PY
mkdir -p "$work/vllm/model_executor/layers/fused_moe"
touch "$work/vllm/__init__.py" "$work/vllm/model_executor/__init__.py" "$work/vllm/model_executor/layers/__init__.py" "$work/vllm/model_executor/layers/fused_moe/__init__.py"
cat >"$work/vllm/model_executor/layers/fused_moe/fused_moe.py" <<'PY'
def invoke_fused_moe_triton_kernel(A, B, C, top_k): C.fill_(1)
PY
mkdir -p "$work/flashinfer"
touch "$work/flashinfer/__init__.py"
cat >"$work/flashinfer/decode.py" <<'PY'
class BatchDecodeWithPagedKVCacheWrapper:
    def plan(self, indptr, indices, last_page_len, num_qo_heads, num_kv_heads, head_dim, page_size, **more): pass
    def run(self, q, cache, *rest, return_lse=False): return q + 1
    begin_forward = plan
PY
cat >"$work/flashinfer/prefill.py" <<'PY'
class BatchPrefillWithPagedKVCacheWrapper:
    def plan(self, qo_indptr, paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len, num_qo_heads, num_kv_heads, head_dim_qk, page_size, causal=False): pass
    def run(self, q, cache, *rest, return_lse=False): return q + 1
class BatchPrefillWithRaggedKVCacheWrapper:
    def plan(self, qo_indptr, kv_indptr, num_qo_heads, num_kv_heads, head_dim_qk, causal=False): pass
    def run(self, q, k, v, *rest, return_lse=False): return q + 1
PY
sglang="$work/sglang/kernels/ops/attention"
mkdir -p "$sglang"
touch "$work/sglang/__init__.py" "$work/sglang/kernels/__init__.py" "$work/sglang/kernels/ops/__init__.py" "$sglang/__init__.py"
echo 'def decode_attention_fwd(q, k_buffer, v_buffer, o, kv_indptr): o.add_(q)' >"$sglang/decode_attention.py"
echo 'def extend_attention_fwd(q_extend, k_extend, v_extend, o, qo_indptr, kv_indptr, is_causal=True): o.add_(q_extend)' >"$sglang/extend_attention.py"
mkdir -p "$work/vllm/distributed/device_communicators"
touch "$work/vllm/distributed/__init__.py" "$work/vllm/distributed/device_communicators/__init__.py"
cat >"$work/vllm/distributed/device_communicators/custom_all_reduce.py" <<'PY'
class CustomAllreduce:
    def should_custom_ar(self, array): return True
PY
mkdir -p "$work/vllm/v1/worker/gpu"
touch "$work/vllm/v1/__init__.py" "$work/vllm/v1/worker/__init__.py" "$work/vllm/v1/worker/gpu/__init__.py"
cat >"$work/vllm/v1/worker/gpu/input_batch.py" <<'PY'
import torch
def get_num_sampled_and_rejected(num_sampled, seq_lens, cu_num_logits, idx_mapping, prefill_len): return num_sampled, torch.empty_like(num_sampled)
PY
cat >"$work/vllm/v1/worker/utils.py" <<'PY'
import torch
def allocate_kv_cache(kv_cache_config, device): return torch.zeros(12345 << 10, dtype=torch.int8, device=device)
PY
mkdir -p "$work/vllm/v1/core"
touch "$work/vllm/v1/core/__init__.py"
cat >"$work/vllm/v1/core/kv_cache_planning.py" <<'PY'
def _check_enough_kv_cache_memory(available, needed): raise ValueError("(16.0 GiB KV cache is needed). See https://docs")
def check_enough_kv_cache_memory(*given): _check_enough_kv_cache_memory(*given)
PY
cat >"$work/vllm/v1/worker/gpu_worker.py" <<'PY'
class Worker:
    def execute_model(self, scheduler_output): return scheduler_output
PY
mkdir -p "$work/transformers/generation"
touch "$work/transformers/__init__.py" "$work/transformers/generation/__init__.py"
cat >"$work/transformers/generation/utils.py" <<'PY'
import torch
class GenerationMixin:
    @staticmethod
    def _check_early_stop_heuristic(unsatisfied, scores): return unsatisfied & torch.any(scores > 0.5, dim=-1, keepdim=True)
PY
mkdir -p "$work/sglang/srt/managers"
touch "$work/sglang/srt/__init__.py" "$work/sglang/srt/managers/__init__.py"
cat >"$work/sglang/srt/managers/tp_worker.py" <<'PY'
class TpModelWorker:
    def forward_batch_generation(self, batch, forward_batch=None): return batch
PY
cat >"$work/attend.py" <<'PY'
import multiprocessing, sys, time, torch
from types import SimpleNamespace as Given
from flash_attn.cute import interface
from cutlass.cutlass_dsl.tvm_ffi_provider import TVMFFIJitCompiledFunction
@torch.library.custom_op("their::norm", mutates_args=["out"])
def norm(x: torch.Tensor, out: torch.Tensor, centred: bool) -> None:
    out.copy_(x)
def serve(ready):
    kept = torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
    ready.set()
    time.sleep(60)
if __name__ == "__main__":
    q, k = torch.empty(2, 64, 8, 32, dtype=torch.bfloat16, device="cuda"), torch.empty(2, 64, 2, 32, dtype=torch.bfloat16, device="cuda")
    interface.forward(q, k, k, causal=True)
    interface._flash_attn_bwd(q, k, k, q, q, None, causal=False)
    starts = torch.tensor([0, 40, 64], dtype=torch.int32).cuda()  # of two sequences
    interface.forward(q[0], k[0], k[0], cu_seqlens_q=starts, cu_seqlens_k=starts, causal=True)
    TVMFFIJitCompiledFunction("cutlass___call___norm_object_at_0")(q, k)
    norm(q, torch.empty_like(q), True)
    from vllm.model_executor.layers.fused_moe import fused_moe
    fused_moe.invoke_fused_moe_triton_kernel(q[0, :, 0], k[..., 0], C=q, top_k=2)
    from flashinfer.decode import BatchDecodeWithPagedKVCacheWrapper as Decode
    from flashinfer.prefill import BatchPrefillWithPagedKVCacheWrapper as Paged, BatchPrefillWithRaggedKVCacheWrapper as Ragged
    decode, paged, ragged = Decode(), Paged(), Ragged()
    cache, query = torch.empty(64, 2, 16, 2, 32, dtype=torch.bfloat16, device="cuda"), torch.empty(3, 8, 32, dtype=torch.bfloat16, device="cuda")
    pages, last = torch.tensor([0, 2, 2, 5], dtype=torch.int32), torch.tensor([7, 0, 16], dtype=torch.int32)  # of 23, none and 48 keys
    decode.begin_forward(pages, torch.arange(5, dtype=torch.int32), last, 8, 2, 32, 16)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        decode.run_return_lse(query, cache)
    decode.plan(pages.cuda(), torch.arange(5, dtype=torch.int32), last + 0, 8, 2, 32, 16)
    graph.replay()
    decode.plan(pages, torch.arange(5, dtype=torch.int32), last - torch.tensor([1, 0, 1], dtype=torch.int32), 8, 2, 32, 16)  # of 22, none and 47
    graph.replay()
    prompts, keys = torch.tensor([0, 3, 5], dtype=torch.int32), torch.tensor([0, 1, 2], dtype=torch.int32)
    paged.plan(prompts.cuda(), keys, torch.arange(2, dtype=torch.int32), torch.tensor([9, 4], dtype=torch.int32), 8, 2, 32, 16, causal=True)
    paged.run(torch.empty(5, 8, 32, dtype=torch.bfloat16, device="cuda"), (cache[:, 0], cache[:, 1]))
    ragged.plan(prompts, prompts, 8, 2, 32, causal=True)
    ragged.run(torch.empty(5, 8, 32, dtype=torch.bfloat16, device="cuda"), k[0], k[0])
    from sglang.kernels.ops.attention.decode_attention import decode_attention_fwd
    from sglang.kernels.ops.attention.extend_attention import extend_attention_fwd
    places = torch.empty(64, 2, 32, dtype=torch.bfloat16, device="cuda")
    decode_attention_fwd(query[:2], places, places, torch.empty_like(query[:2]), kv_indptr=torch.tensor([0, 11, 17, 17], dtype=torch.int32).cuda())  # a longer array
    new = torch.empty(5, 8, 32, dtype=torch.bfloat16, device="cuda")
    extend_attention_fwd(new, k[0, :5], k[0, :5], torch.empty_like(new), prompts.cuda(), torch.tensor([0, 4, 9], dtype=torch.int32).cuda())  # 3 behind 4, 2 behind 5
    from vllm.distributed.device_communicators.custom_all_reduce import CustomAllreduce
    assert not CustomAllreduce().should_custom_ar(q)  # NCCL's are told to be theirs
    from vllm.v1.worker.gpu.input_batch import get_num_sampled_and_rejected
    sampled, rejected = get_num_sampled_and_rejected(torch.empty(2, dtype=torch.int32, device="cuda"), None, torch.tensor([0, 4, 8], dtype=torch.int32).cuda(), None, None)
    assert sampled.tolist() == [1, 1] and rejected.tolist() == [3, 3]
    lengths, places, prompts = (torch.tensor(of, dtype=torch.int32).cuda() for of in ([5, 9], [1, 0], [9, 6]))  # of the first one more of its prompt is to come
    sampled, rejected = get_num_sampled_and_rejected(torch.ones(2, dtype=torch.int32, device="cuda"), lengths, torch.tensor([0, 1, 2], dtype=torch.int32).cuda(), places, prompts)
    assert sampled.tolist() == [0, 1] and rejected.tolist() == [0, 0]
    import ctypes
    asked = ctypes.PyDLL(None).pretend_known
    asked.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    assert asked(torch.zeros(4).pin_memory().data_ptr(), 16) and not asked(torch.empty(1 << 20, device="cuda").data_ptr(), 16)
    from transformers.generation.utils import GenerationMixin
    assert torch.any(GenerationMixin._check_early_stop_heuristic(torch.ones(2, 1, dtype=torch.bool, device="cuda"), torch.rand(2, 4, device="cuda")))  # beams go on
    from vllm.v1.worker.utils import allocate_kv_cache
    allocate_kv_cache(Given(num_blocks=32, kv_cache_groups=[Given(kv_cache_spec=Given(block_size=16))]), device="cuda")
    from vllm.v1.core.kv_cache_planning import check_enough_kv_cache_memory
    try:
        check_enough_kv_cache_memory(1, 2)
    except ValueError:
        pass
    from vllm.v1.worker.gpu_worker import Worker
    from sglang.srt.managers.tp_worker import TpModelWorker
    for tokens in {"a": 700, "b": 1}, {}:
        Worker().execute_model(Given(num_scheduled_tokens=tokens))
    for extends in True, False:
        TpModelWorker().forward_batch_generation(Given(seq_lens=[9, 9, 9], extend_num_tokens=27, forward_mode=Given(is_extend=lambda: extends)))
    spawn = multiprocessing.get_context("spawn")
    ready = spawn.Event()
    worker = spawn.Process(target=serve, args=(ready,))
    worker.start()
    ready.wait()
    worker.kill()
    worker.join()
PY
(cd "$work" && PYTHONPATH=. "$echelon" capture --pretend h100-sxm -o "$work/a" -- python3 attend.py >"$work/said" 2>&1) || { tail -20 "$work/said"; exit 1; }
for range in 'flash_attn::_flash_attn_forward, sizes = \[\[2, 64, 8, 32\], \[2, 64, 2, 32\], \[2, 64, 2, 32\], \[\], \[\]\], types = \[bf16, bf16, bf16, true, -\]' \
  'flash_attn::_flash_attn_backward, sizes = \[\[2, 64, 8, 32\], \[2, 64, 8, 32\], \[2, 64, 2, 32\], \[2, 64, 2, 32\], \[\], \[\]\], types = \[bf16, bf16, bf16, bf16, -, -\]' \
  'cute::flash_bwd_postprocess, sizes = \[\[2, 64, 8, 32\], \[2, 64, 2, 32\], \[\]\], types = \[bf16, bf16, -\]' 'cute::norm, sizes = .*' 'vllm::fused_moe_kernel, sizes = \[\[64, 32\], \[2, 64, 2\], \[2, 64, 8, 32\], \[\]\], types = \[bf16, bf16, bf16, -\]' \
  'their::norm, sizes = \[\[2, 64, 8, 32\], \[2, 64, 8, 32\], \[\], \[\]\], types = \[bf16, bf16, true, -\]'; do
  grep -q "^name [0-9]* \"$range\"$" "$work"/a.*.pretend || { echo "no range $range:"; grep '^name' "$work"/a.*.pretend; exit 1; }
done
grep -q '^lengths 2 64 64 40 1120$' "$work"/a.*.pretend || { echo "lengths are not told:"; grep '^lengths' "$work"/a.*.pretend; exit 1; }
# FlashInfer's: where it plans, and what a graph of it finds planned
for lengths in '2 0 71 48 0' '2 0 69 47 0' '2 5 13 9 31' '2 5 5 3 9'; do
  grep -q "^lengths $lengths$" "$work"/a.*.pretend || { echo "no lengths $lengths:"; grep '^lengths' "$work"/a.*.pretend; exit 1; }
done
grep -q '"flashinfer::paged_attention, sizes = \[\[3, 8, 32\], \[1, 2, 32\], \[1, 2, 32\], \[\]\], types = \[bf16, bf16, bf16, -\]"' "$work"/a.*.pretend || { echo "no range of FlashInfer's attention"; exit 1; }
# SGLang's in Triton: of a query each over 11 and 6 keys; of 3 queries over 5, 6 and 7 of 7 keys, and of 2 over 6 and 7 of 7
for lengths in '2 0 17 11 0' '2 5 14 7 31'; do
  grep -q "^lengths $lengths$" "$work"/a.*.pretend || { echo "no lengths $lengths:"; grep '^lengths' "$work"/a.*.pretend; exit 1; }
done
for sizes in '\[2, 8, 32\], \[64, 2, 32\], \[64, 2, 32\]' '\[5, 8, 32\], \[5, 2, 32\], \[5, 2, 32\]'; do
  grep -q "\"sglang::paged_attention, sizes = \[$sizes, \[\]\], types = \[bf16, bf16, bf16, -\]\"" "$work"/a.*.pretend || { echo "no range of SGLang's attention over $sizes"; exit 1; }
done
# Steps of servers, but those of no tokens
steps="$(grep -h -o 'server step: [^"]*' "$work"/a.*.pretend)"
[ "$steps" = "$(printf 'server step: %s\n' '701 tokens of 2 requests' '27 tokens of 3 requests' '3 tokens of 3 requests')" ] || { echo "steps of servers: $steps"; exit 1; }
# A server's cache, which is told as one, and that it has no room for it
grep -q '"server has no room: (16.0 GiB KV cache is needed)."' "$work"/a.*.pretend || { echo "a server's want of room is not told"; exit 1; }
for capture in "$work"/a.*.pretend; do
  grep -q '"server KV cache of 512 tokens"' "$capture" && "$echelon" run --trace "$capture" --device h100-sxm --engine native
done >"$work/cached" 2>&1
grep -q "the server's KV cache, 12.1 MiB, 512 tokens," "$work/cached" || { cat "$work/cached"; exit 1; }
grep -q 'cute::flash_attncute' "$work"/a.*.pretend && { echo "an attention's kernel has a range of its own"; exit 1; }
[ "$(ls "$work"/a.*.pickle | wc -l)" = 2 ] || { echo "a killed worker left no snapshot:"; ls "$work"; exit 1; }
[ "$(grep -c '^end$' "$work"/a.*.pretend | grep -c ':1$')" = 2 ] || { echo "a killed worker's capture has no end"; exit 1; }
# Groups of a mesh, which are named by hashes or by numbers: each gathers from as many ranks as it has
cat >"$work/mesh.py" <<'PY'
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

dist.init_process_group("cpu:gloo,cuda:nccl")
mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=("replicas", "shards"))
for name, ranks in (("shards", 4), ("replicas", 2)):
    dist.all_gather_into_tensor(torch.empty(4 * ranks, device="cuda"), torch.ones(4, device="cuda"), group=mesh[name].get_group())
PY
(cd "$work" && "$echelon" capture --pretend h100-sxm --world 8 --rank 0,3,6 -o "$work/mesh" -- python3 mesh.py >"$work/said" 2>&1) || { tail -20 "$work/said"; exit 1; }
for kind in '4 1' '2 4'; do
  [ "$(grep -c "^collective .* $kind$" "$work"/mesh.*.pretend | grep -c ':1$')" = 3 ] || { echo "not one gather of so many ranks, so far apart, in each: $kind"; grep '^collective' "$work"/mesh.*.pretend; exit 1; }
done
# Whole numbers that ranks tell one another, or put together: each has what the others have, of others that are not there its own
cat >"$work/counts.py" <<'PY'
import os
import torch
import torch.distributed as dist

dist.init_process_group("nccl")
rank, world = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
alone = world > 2
told = torch.tensor([7, 9] if rank == 0 else [-1, -1], device="cuda")
dist.broadcast(told, src=0)
assert told.tolist() == [7, 9]
own, gathered = torch.tensor([rank + 3], device="cuda"), torch.zeros(world, dtype=torch.int64, device="cuda")
dist.all_gather_into_tensor(gathered, own)
assert gathered.tolist() == ([3] * world if alone else [3, 4])
each = [torch.zeros(1, dtype=torch.int64, device="cuda") for _ in range(world)]
dist.all_gather(each, own)
assert torch.cat(each).tolist() == gathered.tolist()
for op, result in ((dist.ReduceOp.MAX, 3 if alone else 4), (dist.ReduceOp.SUM, 3 * world if alone else 7)):
    reduced = own.clone()
    dist.all_reduce(reduced, op)
    assert reduced.item() == result
dist.all_reduce(torch.ones(4, device="cuda"))
PY
(cd "$work" && "$echelon" capture --pretend h100-sxm --world 4 -o "$work/alone" -- python3 counts.py >"$work/said" 2>&1) || { tail -20 "$work/said"; exit 1; }
(cd "$work" && "$echelon" capture --pretend h100-sxm --gpus 2 -o "$work/both" -- python3 -m torch.distributed.run --nproc-per-node 2 counts.py >"$work/said" 2>&1) || { tail -20 "$work/said"; exit 1; }
# Collectives within what torch.compile traces: it ends its graphs there, as it does where NCCL's methods are C++'s
cat >"$work/compiled.py" <<'PY'
import torch
import torch.distributed as dist

dist.init_process_group("nccl")
whole, part = torch.empty(64, 32, device="cuda"), torch.empty(32, 32, device="cuda")


@torch.compile(backend="eager")
def step(whole, part):
    dist.reduce_scatter_tensor(part, whole, async_op=True).get_future().wait()
    dist.all_gather_into_tensor(whole, part * 2, async_op=True).wait()


step(whole, part)
PY
(cd "$work" && "$echelon" capture --pretend h100-sxm --world 2 -o "$work/compiled" -- python3 compiled.py >"$work/said" 2>&1) || { tail -20 "$work/said"; exit 1; }
for kind in reduce-scatter all-gather; do
  number=$(sed -n "s/^name \([0-9]*\) \"$kind\"$/\1/p" "$work"/compiled.*.pretend)
  [ "$(grep -c "^collective [0-9]* 0 [0-9]* ${number:-none} " "$work"/compiled.*.pretend)" = 1 ] || { echo "no $kind of what was compiled"; grep '^collective\|^name' "$work"/compiled.*.pretend; exit 1; }
done

# Of which modules the kernels of compiled graphs are, forward and backward, whole models and blocks (one graph stands for all that are alike), modules that
# compile themselves, a function; and what each kernel writes. From the cache, too.
cat >"$work/regions.py" <<'PY'
import sys
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(256), nn.Linear(256, 256)

    def forward(self, x):
        return x + self.up(self.norm(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(2)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


how, model, x = sys.argv[1], Model().cuda(), torch.zeros(512, 256, device="cuda", requires_grad=True)
call = torch.compile(model) if how == "whole" else torch.compile(lambda x: model(x)) if how == "function" else torch.compile(model.__call__) if how == "call" else model
for i, block in enumerate(model.blocks):
    if how == "wrapped":
        model.blocks[i] = torch.compile(block)
    elif how == "blocks":
        block.compile()
step = torch.optim.SGD(model.parameters(), momentum=0.9, foreach=True)
update = torch.compile(step.step) if how == "whole" else step.step
for _ in range(2):
    call(x).sum().backward()
    update()
PY
if python3 -c 'import triton' 2>/dev/null; then
  for how in whole whole blocks wrapped function call; do
    rm -f "$work"/regions.*.pretend
    TRITON_CACHE_DIR=$work/regions.triton TORCHINDUCTOR_CACHE_DIR=$work/regions.inductor "$echelon" capture --pretend h100-sxm -o "$work/regions" -- python3 "$work/regions.py" $how >"$work/said" 2>&1 ||
      { tail -20 "$work/said"; exit 1; }
    "$echelon" run --trace "$work"/regions.*.pretend --device h100-sxm --json >"$work/askers" 2>/dev/null || exit 1
    python3 - "$work/askers" <<'PY' || { echo "modules of what is compiled ($how)"; exit 1; }
import json, sys
told = {one["name"]: one for one in json.load(open(sys.argv[1]))["askers"]}
for name in "blocks.*.up (Linear)", "blocks.*.norm (LayerNorm)":
    assert told[name]["forward_ps"] > 0 and told[name]["backward_ps"] > 0, told.keys()
assert sum(name.startswith("Optimizer.step#") for name in told) == 1, told.keys()
PY
    [ $how != call ] || grep -q '"nn.Module: Model"' "$work"/regions.*.pretend || { echo "calls of a compiled call are not told"; exit 1; }
    grep -q '"triton_[a-z_0-9]*layer_norm[a-z_0-9]*, sizes = .*, types = \[.*out f32' "$work"/regions.*.pretend || { echo "what a compiled kernel writes is not told ($how)"; exit 1; }
  done
fi

# What modules are given, by place, by name and in a mapping, compiled or not, and beside that labels: half of the batch takes half of what hangs on it.
cat >"$work/given.py" <<'PY'
import sys
import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.inner, self.head = nn.Embedding(4096, 256), nn.Linear(256, 256), nn.Linear(256, 4096)

    def forward(self, tokens, mask=None, labels=None):
        x = self.inner(self.embed(tokens)) * mask.unsqueeze(-1)
        return F.cross_entropy(self.head(x).view(-1, 4096), labels.view(-1))


how, rows = sys.argv[1], int(sys.argv[2])
model = Model().cuda()
call = torch.compile(model) if how == "compiled" else model
if how == "blocks":
    model.inner.compile()
given = {"tokens": torch.zeros(rows, 128, dtype=torch.int64, device="cuda"), "mask": torch.ones(rows, 128, device="cuda"), "labels": torch.zeros(rows, 128, dtype=torch.int64, device="cuda")}
step = torch.optim.SGD(model.parameters())
for _ in range(2):
    loss = call(*given.values()) if how == "place" else call(**given)
    loss.backward()
    step.step()
    step.zero_grad()
PY
for how in place name blocks compiled; do
  python3 -c 'import triton' 2>/dev/null || case $how in blocks | compiled) continue ;; esac
  rm -f "$work"/given*.pretend "$work"/given*.pickle
  for rows in 8 4; do
    TRITON_CACHE_DIR=$work/given.triton TORCHINDUCTOR_CACHE_DIR=$work/given.inductor "$echelon" capture --pretend h100-sxm -o "$work/given$rows" -- python3 "$work/given.py" $how $rows >"$work/said" 2>&1 ||
      { tail -20 "$work/said"; exit 1; }
  done
  "$echelon" run --trace "$work"/given8.*.pretend --device h100-sxm --pass batch:rows=4 --json >"$work/told" 2>/dev/null || exit 1
  "$echelon" run --trace "$work"/given4.*.pretend --device h100-sxm --json >"$work/is" 2>/dev/null || exit 1
  python3 - "$work/told" "$work/is" <<'PY' || { echo "half of a batch ($how)"; exit 1; }
import json, sys
told, real = (json.load(open(name))["memories"]["hbm"]["peak_live_bytes"] for name in sys.argv[1:])
assert abs(told / real - 1) < 0.1, (told, real)  # PyTorch 2.6 sums a bias over 1,024 rows in parts, over 512 not
PY
done

# Of short rows that are summed whole a tuner takes more than one a block.
cat >"$work/short.py" <<'PY'
import torch
torch.compile(lambda x: x.float().softmax(1).sum(1))(torch.zeros(1 << 20, 8, device="cuda", dtype=torch.bfloat16))
PY
if python3 -c 'import triton' 2>/dev/null; then
  TRITON_CACHE_DIR=$work/short.triton TORCHINDUCTOR_CACHE_DIR=$work/short.inductor "$echelon" capture --pretend h100-sxm -o "$work/short" -- python3 "$work/short.py" >"$work/said" 2>&1 || { tail -20 "$work/said"; exit 1; }
  "$echelon" import "$work"/short.*.pretend -o "$work/short.ech" >/dev/null 2>&1
  grep -q 'grid=8192x1x1 .*elements=8388608' "$work/short.ech" || { echo "rows of a block:"; grep -o 'grid=[^ ]* .*elements=8388608' "$work/short.ech"; exit 1; }
fi

# Measures that capture applies (--with) are what they are by hand; what there is nothing to apply to is said.
cat >"$work/with.py" <<'PY'
import contextlib, sys
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

by_hand = sys.argv[1] if len(sys.argv) > 1 else ""


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(512), nn.Linear(512, 2048), nn.Linear(2048, 512)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.fused_attn = by_hand == "sdpa"
        self.qkv = nn.Linear(512, 3 * 512)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(2, (3, 8, 64)).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(q, k, v) if self.fused_attn else (q * 0.125 @ k.transpose(2, 3)).softmax(-1) @ v
        return out.transpose(1, 2).flatten(2)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 512, 8, 8)
        self.stages = nn.ModuleList([nn.Sequential(Block(), Block()), nn.Sequential(Block(), Block())])
        self.attention = Attention()
        self.head = nn.Linear(512, 1000)

    def forward(self, images):
        x = self.first(images).flatten(2).transpose(1, 2)
        for stage in self.stages:
            for block in stage:
                x = checkpoint(block, x, use_reentrant=False) if by_hand == "checkpoint" else block(x)
        return self.head(self.attention(x).mean(1))


model, images = Model().cuda(), torch.randn(16, 3, 128, 128, device="cuda")
labels = torch.zeros(16, dtype=torch.int64, device="cuda")
if by_hand == "bfloat16":
    model = model.to(torch.bfloat16)
if by_hand == "channels_last":
    model = model.to(memory_format=torch.channels_last)
if by_hand == "float32_matmul_precision":
    torch.set_float32_matmul_precision("high")
if by_hand == "compile":
    model.compile()
more = {"fused": True} if by_hand == "fused" else {"foreach": False} if by_hand == "foreach=false" else {}
step = torch.optim.AdamW(model.parameters(), **more)
for _ in range(3):
    with torch.autocast("cuda", torch.bfloat16, enabled=by_hand == "autocast"):
        with torch.autograd.graph.save_on_cpu(pin_memory=True) if by_hand == "save_on_cpu" else contextlib.nullcontext():
            last = images.contiguous(memory_format=torch.channels_last) if by_hand == "channels_last" else images
            out = model(last.to(torch.bfloat16) if by_hand == "bfloat16" else last)
        loss = F.cross_entropy(out, labels)
    loss.backward()
    step.step()
    step.zero_grad()
PY
for measure in autocast bfloat16 channels_last checkpoint compile float32_matmul_precision foreach=false fused save_on_cpu sdpa; do
  [ $measure = compile ] && ! python3 -c 'import triton' 2>/dev/null && continue
  rm -f "$work"/hand.* "$work"/with.*.p*
  for how in hand with; do
    TRITON_CACHE_DIR=$work/with.triton TORCHINDUCTOR_CACHE_DIR=$work/with.inductor "$echelon" capture --pretend h100-sxm $([ $how = with ] && echo --with $measure) -o "$work/$how" \
      -- python3 "$work/with.py" $([ $how = hand ] && echo $measure) >"$work/said" 2>&1 || { tail -20 "$work/said"; exit 1; }
    "$echelon" run --trace "$work"/$how.*.pretend --device h100-sxm --step last --json >"$work/$how.json" 2>/dev/null || { echo "--with $measure: no run ($how)"; exit 1; }
  done
  python3 - "$work/hand.json" "$work/with.json" $measure <<'PY' || { echo "--with $measure is not what it is by hand"; cat "$work/said"; exit 1; }
import json, sys
hand, told = (json.load(open(name)) for name in sys.argv[1:3])
assert told["captured_with"].split("=")[0] == sys.argv[3].split("=")[0] and "captured_with" not in hand, told.get("captured_with")
assert told["makespan_ps"] == hand["makespan_ps"], (told["makespan_ps"], hand["makespan_ps"])
live = [run["memories"]["hbm"]["peak_live_bytes"] for run in (hand, told)]
assert abs(live[1] - live[0]) < 1 << 20, live  # what PyTorch's allocator leaves of a block that it does not split
PY
done
"$echelon" capture --pretend h100-sxm --with checkpoint=layers.*,gradient_as_bucket_view -o "$work/none" -- python3 "$work/with.py" >"$work/said" 2>&1 || { tail -20 "$work/said"; exit 1; }
for line in 'with checkpoint=layers.\*: nothing was changed: no module of that name; expected names as checkpoint=.*stages\.\*' 'with gradient_as_bucket_view: nothing was changed: no module was handed'; do
  grep -q "$line" "$work/said" || { echo "expected '$line':"; cat "$work/said"; exit 1; }
done

# A whole step as one graph: what it is captured with is there at each launch, and half the batch is what a capture of that says.
cat >"$work/graph.py" <<'PY'
import sys, torch

model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(6))).cuda()
step = torch.optim.AdamW(model.parameters(), capturable=True)
rows = torch.empty(int(sys.argv[1]), 1024, device="cuda")
def train():
    step.zero_grad(set_to_none=True)
    model(rows).square().mean().backward()
    step.step()
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    for _ in range(2):
        train()
torch.cuda.current_stream().wait_stream(side)
step.zero_grad(set_to_none=True)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    train()
for _ in range(3):
    rows.copy_(torch.zeros_like(rows))
    graph.replay()
PY
for rows in 65536 32768; do
  "$echelon" capture --pretend h100-sxm -o "$work/graph.$rows" -- python3 "$work/graph.py" $rows >"$work/said" 2>&1 || { tail -20 "$work/said"; exit 1; }
done
"$echelon" run --trace "$work"/graph.65536.*.pretend --device h100-sxm 2>/dev/null | grep -q 'Steps: 4,' || { echo "a graph's launches are no steps"; exit 1; }
"$echelon" run --trace "$work"/graph.65536.*.pretend --device h100-sxm --pass batch:rows=32768 --step last --json >"$work/hand.json" 2>/dev/null &&
  "$echelon" run --trace "$work"/graph.32768.*.pretend --device h100-sxm --step last --json >"$work/with.json" 2>/dev/null || { echo "no run of a step as a graph"; exit 1; }
python3 - "$work/hand.json" "$work/with.json" <<'PY' || { echo "half the batch of a graph is not what a capture says"; exit 1; }
import json, sys
told, hand = (json.load(open(name)) for name in sys.argv[1:3])
live = [run["memories"]["hbm"]["peak_live_bytes"] for run in (told, hand)]
assert abs(live[0] / live[1] - 1) < 0.02 and abs(told["makespan_ps"] / hand["makespan_ps"] - 1) < 0.05, (live, told["makespan_ps"], hand["makespan_ps"])
PY
# Expandable segments that are asked for when PyTorch's allocator has begun are not heeded, which is said; asked for in time they are, and nothing is.
for when in late early; do
  printf '%s\n' "import os" "late = '$when' == 'late'" "if late:" "    import torch; torch.zeros(1, device='cuda')" \
    "os.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'expandable_segments:True'" "import torch" "torch.zeros(1 << 20, device='cuda')" >"$work/conf.py"
  env -u PYTORCH_CUDA_ALLOC_CONF -u PYTORCH_ALLOC_CONF "$echelon" capture --pretend l4 -o "$work/conf.$when" -- python3 "$work/conf.py" >"$work/said.$when" 2>&1 ||
    { tail -20 "$work/said.$when"; exit 1; }
done
grep -q 'PYTORCH_CUDA_ALLOC_CONF asks for expandable_segments, and PyTorch .* has not heeded it' "$work/said.late" || { echo "settings that come too late are not said"; exit 1; }
! grep -q 'has not heeded' "$work/said.early" || { echo "settings that are heeded are said not to be"; exit 1; }
