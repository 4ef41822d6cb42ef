#!/bin/bash
# A PyTorch/XLA program on a TPU that is not there (torch_xla): what it gets back, what is written down, what does not fit, shards, several processes. Skipped (77)
# where python3 has no torch_xla.
set -u
. "$(dirname "$0")/pretend_begin"
begin 'import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ("torch", "torch_xla", "libtpu"))))' "torch_xla"

cat >"$work/step.py" <<'PY'
import torch
import torch_xla
import torch_xla.core.xla_model as xm

d = torch_xla.device()
assert xm.xla_device_hw(d) == "TPU"
m = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256)).to(d)
o = torch.optim.AdamW(m.parameters())
for _ in range(4):
    x = torch.randn(64, 256).to(d)
    loss = m(x).square().mean()
    loss.backward()
    xm.optimizer_step(o)
    o.zero_grad()
    torch_xla.sync()
assert loss.item() == 0
labels = torch.arange(12).reshape(3, 4).to(d)
assert labels.cpu().tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]  # what the host copied reads back
xm.wait_device_ops()
before = xm.get_memory_info(d)["bytes_used"]
big = torch.ones(1024, 3).to(d)
xm.wait_device_ops()
assert xm.get_memory_info(d)["bytes_used"] - before == 1024 * 128 * 4  # rows lie on 128 lanes
f = torch.compile(lambda x: (x @ x.T).relu().sum(), backend="openxla")
assert f(torch.ones(64, 64).to(d)).item() == 0
kept = []
try:
    for _ in range(40):
        kept.append(torch.empty(16384, 8192).to(d))
        xm.wait_device_ops()
except RuntimeError as error:
    assert "RESOURCE_EXHAUSTED" in str(error), error
else:
    raise SystemExit("20 GiB fitted a chip of 16")
PY
capture_small_step "$work/step.py"
"$echelon" run --trace "$work"/s.*.pretend --device tpu-v5e --step 2 | grep -q "linear.py:" || { echo "no lines of the program"; exit 1; }

cat >"$work/shards.py" <<'PY'
import numpy
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

xr.use_spmd()
n = xr.global_runtime_device_count()
assert n == 4, n
mesh = xs.Mesh(numpy.arange(n), (n,), ("fsdp",))
m = torch.nn.Linear(1024, 4096).to(torch_xla.device())
xs.mark_sharding(m.weight, mesh, ("fsdp", None))
for _ in range(2):
    x = torch.randn(64, 1024).to(torch_xla.device())
    xs.mark_sharding(x, mesh, ("fsdp", None))
    m(x).square().mean().backward()
    torch_xla.sync()
PY
"$echelon" capture --pretend tpu-v5e --gpus 4 -o "$work/f" -- python3 "$work/shards.py" >"$work/said" 2>&1 || { tail -20 "$work/said"; exit 1; }
"$echelon" run --trace "$work"/f.*.pretend --device tpu-v5e | grep -q "ici link" || { echo "nothing went between chips"; exit 1; }

cat >"$work/ranks.py" <<'PY'
import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.runtime as xr


def main(index):
    t = torch.ones(512, 512).to(torch_xla.device())
    t = xm.all_reduce(xm.REDUCE_SUM, t)
    torch_xla.sync()
    assert t.sum().item() == 0 and xr.world_size() == 4 and xr.global_ordinal() == index
    assert xm.mesh_reduce("ordinals", index, sum) == 4 * index  # what this process says stands for all


if __name__ == "__main__":
    torch_xla.launch(main)
PY
"$echelon" capture --pretend tpu-v5e --gpus 4 -o "$work/r" -- python3 "$work/ranks.py" >"$work/said" 2>&1 || { tail -20 "$work/said"; exit 1; }
[ "$(ls "$work"/r.*.pretend | wc -l)" = 4 ] || { echo "$(ls "$work"/r.*.pretend | wc -l) captures of four processes"; exit 1; }
"$echelon" run --trace "$work"/r.*.pretend --device tpu-v5e | grep -q "4 ranks on tpu-v5e" || { echo "no ranks"; exit 1; }
