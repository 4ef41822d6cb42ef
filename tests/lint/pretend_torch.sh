#!/bin/bash
# A PyTorch program on an NVIDIA GPU that is not there: what Python alone can tell of it. Operators on the host's own arrays, and how many elements of a mask are
# set that the host copied to the device. Skipped (77) where python3 has no torch built with CUDA.
set -u
. "$(dirname "$0")/pretend_begin"
begin 'import torch; assert torch.version.cuda' "torch built with CUDA"

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
# Whole numbers that the CPU has no operator for: how many rows are each expert's.
rows = torch.arange(1000, device="cuda").int() % 7
assert torch.histc(rows, bins=8, min=0, max=7).tolist() == [143] * 6 + [142, 0]
# Floating-point numbers that are made of whole ones: how much each of several windows counts where they overlap. Of weights nothing is known.
window = torch.cat([torch.arange(1, 5001, device="cuda"), torch.arange(5000, 0, -1, device="cuda")])
window = (window / window.max()) ** 1.0
assert window[:9000].cpu().min() > 0 and (window.float() * torch.nn.Parameter(torch.rand(1, 10000)).cuda()).cpu().max() == 0
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
# One that looks twice whether a deviation is negative, too.
assert torch.normal(0, torch.rand(6, device="cuda")).shape == torch.normal(torch.zeros(6, device="cuda"), torch.rand(6, device="cuda")).shape == (6,)
# Attention whose kernels do not name their mask: it is told, once, where it is given and where it is not.
if hasattr(torch.nn, "attention"):
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION):
        query = torch.rand(1, 2, 128, 64, device="cuda", dtype=torch.float16, requires_grad=True)
        for causal in (False, True):
            torch.nn.functional.scaled_dot_product_attention(query, query, query, is_causal=causal).sum().backward()
# Random numbers by themselves: neighbours that are sampled, shares of masks, an order that is shuffled. Not what weights begin as, nor products.
neighbours = (torch.rand(1000, 15, device="cuda") * 100).long()
assert neighbours.unique().numel() == 100 and neighbours.max() == 99
for few in torch.rand(100000, device="cuda") < 0.15, torch.rand_like(torch.zeros(100000, device="cuda")) < 0.15, torch.bernoulli(torch.full((100000,), 0.15, device="cuda")).bool():
    assert 14500 < few.nonzero().shape[0] < 15500
assert torch.rand(2, 196, device="cuda").argsort(dim=1)[0].tolist() != list(range(196)) and -0.1 < torch.randn(10000, device="cuda").mean().item() < 0.1
assert torch.nn.Linear(64, 64, device="cuda").weight.detach().cpu().abs().max() == 0 and (torch.rand(64, 64, device="cuda") @ torch.rand(64, 64, device="cuda")).cpu().max() == 0
# Of points that the host made what a program decides by: cells that hold any, those that lie furthest from each other.
points = torch.rand(4096, 3)
cells = (points.cuda() / 0.1).floor().int().unique(dim=0)
assert torch.equal(cells.cpu(), (points / 0.1).floor().int().unique(dim=0))
many = torch.randint(0, 50, (3, 200000))  # in seconds
cells, of, counts = many.cuda().unique(dim=1, return_inverse=True, return_counts=True)
assert torch.equal(cells.cpu()[:, of.cpu()], many) and torch.equal(of.bincount(), counts) and counts.sum() == 200000
def furthest(points):
    apart, found = torch.ones(len(points), device=points.device) * 1e10, [0]
    for _ in range(8):
        near = ((points - points[found[-1]]) ** 2).sum(-1)
        closer = near < apart
        apart[closer] = near[closer]
        found.append(apart.max(-1)[1].item())
    return found
assert furthest(points.cuda()) == furthest(points)
# An operator of another package that goes by the whole numbers that it is given.
if hasattr(torch.library, "custom_op"):
    @torch.library.custom_op("echelon_lint::padded", mutates_args=(), device_types="cuda")
    def padded(rows: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return rows.new_zeros(len(lengths), int(lengths.max()), rows.shape[1])
    assert padded(torch.zeros(9, 4, device="cuda"), torch.tensor([2, 7]).cuda()).shape == (2, 7, 4)
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
scores = torch.empty(300, device="cuda").uniform_()
boxes = torch.where(scores > 0.5)[0]
assert boxes.numel() == 150 and scores[scores > 0.5].shape == (150,)
assert ((scores > 0.5) | (scores <= 0.5)).sum() == 300 and ((scores >= 0.1) & (scores < 0.2)).sum() == 0
assert (scores >= scores.roll(1))[scores <= scores.roll(1)].sum() == 150
overlaps = torch.empty(7, 300, device="cuda").uniform_()
best, of = overlaps.max(dim=0)
assert of.bincount(minlength=7).min() > 25
assert torch.where(overlaps == overlaps.max(dim=1, keepdim=True)[0])[1].tolist() == list(range(7))
assert torch.isfinite(scores).all() and not torch.isnan(scores).any() and (scores > float("-inf")).sum() == 300
# Checks that all is well find nothing wrong; what is computed from a guess is computed.
assert (overlaps >= 0).all() and not (overlaps < 0).any()
labels = torch.full((300,), -1, device="cuda")
labels[best >= 0.5], labels[best < 0.5] = 1, 0
assert (labels >= 0).all() and (labels == 1).any() and torch.unique(labels).tolist() == [0, 1]
assert torch.randperm(150, device="cuda").sort()[0].tolist() == list(range(150)) and torch.randint(3, 9, (100,), device="cuda").unique().tolist() == [3, 4, 5, 6, 7, 8]
assert scores.topk(200)[1].tolist() == list(range(200)) and scores.sort()[1].tolist() == list(range(300))
# A router's choices fall anywhere: of few tokens some experts get none (64 choices of 60: 39 are expected), of many all about as much, and no token has one twice.
for tokens, least, most in (16, 30, 48), (4096, 60, 60):
    routed = torch.empty(tokens, 60, device="cuda").uniform_().topk(4)[1]
    shares = torch.bincount(routed.flatten(), minlength=60)
    assert least <= (shares > 0).sum() <= most and all(len(set(row)) == 4 for row in routed.tolist()[:64]), shares
    assert tokens < 100 or shares.max() < 1.3 * tokens * 4 / 60
assert torch.empty(64, 8, device="cuda").uniform_().argmax(-1).bincount(minlength=8).max() < 24
# What the host copied to the device reads back, and what a comparison of it is, and what little kernels make of it; of weights that does not.
noise = torch.linspace(1, 0, 101).cuda()
assert noise[50].item() == 0.5 and noise[noise > 0].shape == (100,) and noise.min().item() == 0 and noise.max().item() == 1 and noise[noise > 0].shape[0] == (noise > 0).sum()
assert (noise * 2)[0].item() == 2 and noise.clone()[noise > 0.9].shape == (10,)
weights = [torch.ones(100).cuda(), torch.ones(100).cuda()]
torch._foreach_mul_(weights, 2)
assert weights[0][0].item() == 0 and not torch.equal(weights[1].cpu(), torch.ones(100))
# What a program decides by is what it would read: a scale that was made up reads 0.0, which is not above 0, and so not above it at the second look either.
scale = torch.empty((), device="cuda").uniform_()
assert scale.item() == 0 and not scale > 0 and scale <= 0 and not scale != 0 and scale < 1e-3
# Distributions check their parameters, of which one or many were made up.
for scale in (torch.empty(3, 6, device="cuda").uniform_().exp(), torch.empty(1, 1, device="cuda").uniform_().exp(), scale.exp()):
    torch.distributions.Independent(torch.distributions.Normal(torch.zeros_like(scale), scale), scale.dim()).log_prob(scale)
torch.distributions.Categorical(probs=torch.rand(4, 8, device="cuda").softmax(-1)).sample()
torch.distributions.MultivariateNormal(torch.zeros(6, device="cuda"), covariance_matrix=torch.empty(6, 6, device="cuda").uniform_())
assert torch.isclose(scores, scores.roll(1)).all() and torch.allclose(scores, scores.roll(1)) and not (scores.view(30, 10) < 0).any(dim=1).any()
# What is filled holds that, whatever lay in what it is made like.
total = torch.empty(100, device="cuda").uniform_().sum()
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
    assert torch._nested_tensor_from_mask(torch.zeros(2, 8, 64, device="cuda"), ~padding)._nested_tensor_size().tolist() == [[8, 64], [3, 64]]
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
cat >"$work/many.py" <<'PY'
import torch

# A mask that is too large to be computed counts as set everywhere, so that what it picks is no less than on a GPU.
mask = torch.ones(20 << 20, dtype=torch.bool, device="cuda")
assert mask.nonzero().shape == (20 << 20, 1) and mask.sum() == 20 << 20
many = torch.arange(20 << 20, device="cuda")
assert many[many != many.flip(0)].shape == many.shape
# Rows of experts: where PyTorch has no kernel for groups it reads on the host how many each has, and multiplies one by one.
if hasattr(torch, "_grouped_mm"):
    rows = torch.histc(torch.arange(64, device="cuda").int() // 16, bins=4, min=0, max=3)
    given, experts = torch.zeros(64, 128, device="cuda", dtype=torch.bfloat16), torch.zeros(4, 128, 256, device="cuda", dtype=torch.bfloat16)
    torch._grouped_mm(given, experts, offs=torch.cumsum(rows, 0, dtype=torch.int32))
PY
"$echelon" capture --pretend a100-80 -o "$work/many" -- python3 "$work/many.py" >"$work/many.said" 2>&1 || { cat "$work/many.said"; exit 1; }
grep -q 'a mask of 20971520 elements is too large .*: 20971520 of them' "$work/many.said" || { cat "$work/many.said"; exit 1; }
if grep -q '^name [0-9]* "aten::_grouped_mm, ' "$work"/many.*.pretend; then
  grep -q '^name [0-9]* "\(aten::mm, .*sizes = \[\[16, 128\], \[128, 256\]\|.*cutlass.*[Gg]roup\)' "$work"/many.*.pretend || { echo "no rows of experts are multiplied"; exit 1; }
fi
cat >"$work/none.py" <<'PY'
import torch
scores = torch.empty(300, device="cuda").uniform_()
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
spread = torch.empty(300, device="cuda").uniform_()
assert torch.tensor(0.0).cuda().item() == 0
print("spread", 1 / (spread.max() - spread.min()).item())
print("counts", torch.empty(1000, dtype=torch.int64, device="cuda").cumsum(0)[-1].item(), torch.arange(4, device="cuda").sum().item())  # which a kernel of its own would write
PY
ECHELON_PRETEND_READ=0.25 "$echelon" capture --pretend h100-sxm -o "$work/read" -- python3 "$work/read.py" >"$work/read.said" 2>&1
grep -q '^spread 4.0$' "$work/read.said" || { cat "$work/read.said"; exit 1; }
grep -q '^counts 0 6$' "$work/read.said" || { cat "$work/read.said"; exit 1; }
ECHELON_PRETEND_READ=7 "$echelon" capture --pretend h100-sxm -o "$work/read" -- python3 "$work/read.py" >"$work/read.said" 2>&1
grep -q '^counts 7 6$' "$work/read.said" && grep -q 'a whole number that kernels of its own make (read.py:[0-9]*): 7 here' "$work/read.said" || { cat "$work/read.said"; exit 1; }
ECHELON_PRETEND_READ=nan "$echelon" capture --pretend h100-sxm -o "$work/read" -- python3 "$work/read.py" >"$work/read.said" 2>&1 && exit 1
grep -q "ECHELON_PRETEND_READ: 'nan' is not a finite number" "$work/read.said" || { cat "$work/read.said"; exit 1; }
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
# Expandable segments that are asked for when PyTorch's allocator has begun are not heeded, which is said; asked for in time they are, and nothing is.
for when in late early; do
  printf '%s\n' "import os" "late = '$when' == 'late'" "if late:" "    import torch; torch.zeros(1, device='cuda')" \
    "os.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'expandable_segments:True'" "import torch" "torch.zeros(1 << 20, device='cuda')" >"$work/conf.py"
  env -u PYTORCH_CUDA_ALLOC_CONF -u PYTORCH_ALLOC_CONF "$echelon" capture --pretend l4 -o "$work/conf.$when" -- python3 "$work/conf.py" >"$work/said.$when" 2>&1 ||
    { tail -20 "$work/said.$when"; exit 1; }
done
grep -q 'PYTORCH_CUDA_ALLOC_CONF asks for expandable_segments, and PyTorch .* has not heeded it' "$work/said.late" || { echo "settings that come too late are not said"; exit 1; }
! grep -q 'has not heeded' "$work/said.early" || { echo "settings that are heeded are said not to be"; exit 1; }
# A PyTorch of before 2.3, which has no such operator and no such type, is not ended by what looks for them.
cat >"$work/older.py" <<'PY'
import importlib.util, sys, torch
torch.zeros(4, device="cuda").sum().item()
operators = type(torch.ops.aten)
found = operators.__getattr__
def without(self, name):
    if name in ("_linalg_eigvals", "segment_reduce"):
        raise AttributeError(name)
    return found(self, name)
operators.__getattr__ = without
for name in ("_linalg_eigvals", "segment_reduce"):
    torch.ops.aten.__dict__.pop(name, None)
del torch.uint64
spec = importlib.util.spec_from_file_location("of_older", sys.modules["pretend_values"].__file__)
older = importlib.util.module_from_spec(spec)
spec.loader.exec_module(older)
assert older.SOUND == {torch.ops.aten.linalg_eig.default}, older.SOUND
torch.zeros(4, device="cuda").sum().item()
PY
"$echelon" capture --pretend l4 -o "$work/older" -- python3 "$work/older.py" >"$work/said" 2>&1 || { tail -20 "$work/said"; exit 1; }
