#!/bin/bash
# What torch.compile compiles of PyTorch on an NVIDIA GPU that is not there. Skipped (77) where python3 has no torch built with CUDA.
set -u
. "$(dirname "$0")/pretend_begin"
begin 'import torch; assert torch.version.cuda' "torch built with CUDA"

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
reach = torch.empty(1024, device="cuda").uniform_() * 1024
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
