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
import torch

# An optimizer on the host: 1 M parameters of 4 bytes. It reads them, gradients and two moments, and writes all but the gradients.
p = torch.nn.Parameter(torch.zeros(1 << 20))
step = torch.optim.AdamW([p], fused=True)
p.grad = torch.zeros(1 << 20, device="cuda").cpu()
step.step()
p.data[:1000].add_(1)  # too little to tell of
# More of a mask than is kept of what is copied else: a graph's edges, a third of them loops.
edges = torch.arange(1 << 20)
to = torch.where(edges % 3 == 0, edges, edges + 1)
assert (edges.cuda() != to.cuda()).nonzero().shape == (699050, 1)
assert edges.cuda()[edges.cuda() != to.cuda()].shape == (699050,)
mask = torch.ones(5 << 20, dtype=torch.bool, device="cuda")
assert mask.nonzero().numel() == 0
# What hangs on results of kernels is told, and where.
scores = torch.rand(300, device="cuda")
boxes = torch.where(scores > 0.5)[0]
assert boxes.numel() == 0
# A program that records its memory itself, and stops: ours goes on.
torch.cuda.memory._record_memory_history(max_entries=1)
torch.cuda.memory._record_memory_history(enabled=None)
kept = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
assert torch.cuda.memory._snapshot()["segments"]
PY
"$echelon" capture --pretend h100-sxm -o "$work/p" -- python3 "$work/step.py" >"$work/said" 2>&1 || { tail -20 "$work/said"; exit 1; }
number=$(sed -n 's/^name \([0-9]*\) "aten::_fused_adamw_"$/\1/p' "$work"/p.*.pretend)
[ -n "$number" ] && [ "$(grep -c "^host [0-9]* 0 $number 16777[0-9]* 12582[0-9]*$" "$work"/p.*.pretend)" = 1 ] || { echo "the optimizer's step is not told:"; grep '^host' "$work"/p.*.pretend; exit 1; }
grep -q 'a mask picks hangs on results of kernels, which are zeros here (step.py:[0-9]*): 0 of 300 are picked' "$work/said" || { cat "$work/said"; exit 1; }
grep -q 'a mask of 5242880 elements is too large' "$work/said" || { cat "$work/said"; exit 1; }
"$echelon" run --trace "$work"/p.*.pretend --device h100-sxm >"$work/run" || exit 1
grep -q '100 MiB  step.py' "$work/run" || { echo "no line of an allocation is told:"; cat "$work/run"; exit 1; }
tr '\n' ' ' <"$work/run" | grep -q "operators run on the host's processor" || exit 1
