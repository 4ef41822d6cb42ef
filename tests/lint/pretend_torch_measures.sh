#!/bin/bash
# What changes a PyTorch program on an NVIDIA GPU that is not there, beside what is changed by hand. Skipped (77) where python3 has no torch built with CUDA.
set -u
. "$(dirname "$0")/pretend_begin"
begin 'import torch; assert torch.version.cuda' "torch built with CUDA"

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
if sys.argv[-1] == "inference":
    if by_hand == "quantize":
        from torchao.quantization import Int8WeightOnlyConfig, quantize_
        quantize_(model, Int8WeightOnlyConfig())
    with torch.no_grad():
        for _ in range(3):
            model(images)
    sys.exit()
if sys.argv[-1] == "forward":
    with torch.no_grad() if by_hand == "no_grad" else contextlib.nullcontext():
        for _ in range(3):
            model(images)
    sys.exit()
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
for measure in autocast bfloat16 channels_last checkpoint compile float32_matmul_precision foreach=false fused save_on_cpu no_grad sdpa quantize; do
  [ $measure = quantize ] && ! python3 -c 'import torchao' 2>/dev/null && continue
  [ $measure = compile ] && ! python3 -c 'import triton' 2>/dev/null && continue
  rm -f "$work"/hand.* "$work"/with.*.p*
  for how in hand with; do
    TRITON_CACHE_DIR=$work/with.triton TORCHINDUCTOR_CACHE_DIR=$work/with.inductor "$echelon" capture --pretend h100-sxm $([ $how = with ] && echo --with $measure) -o "$work/$how" \
      -- python3 "$work/with.py" $([ $how = hand ] && echo $measure) $([ $measure = quantize ] && echo inference) $([ $measure = no_grad ] && echo forward) >"$work/said" 2>&1 || { tail -20 "$work/said"; exit 1; }
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
# Nothing goes backward, but what that would take is kept: it is said, and what keeps none of it; of a step that is trained, and of one without gradients, nothing.
for how in forward inference ""; do
  "$echelon" capture --pretend h100-sxm -o "$work/keeps$how" -- python3 "$work/with.py" $how >"$work/said" 2>&1 || { tail -20 "$work/said"; exit 1; }
  "$echelon" advise --trace "$work/keeps$how".*.pretend --device h100-sxm --memory 1GiB >"$work/advice" 2>"$work/said"
  said=$(tr -s ' \n' ' ' <"$work/advice" | grep -c 'No backward pass follows, but what one would take is kept: with torch.no_grad(): .* Not tried, since PyTorch itself tells: no_grad, ')
  [ "$said" = $([ "$how" = forward ] && echo 1 || echo 0) ] || { echo "what is kept for no backward pass ($how):"; cat "$work/said" "$work/advice"; exit 1; }
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
