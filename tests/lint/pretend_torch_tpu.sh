#!/bin/bash
# A PyTorch program on a TPU that is not there (torch_tpu): what it gets back, what is written down, what does not fit, several processes. Skipped (77) where
# python3 has no torch_tpu.
set -u
. "$(dirname "$0")/pretend_begin"
begin 'import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ("torch", "torch_tpu", "libtpu"))))' "torch_tpu"

cat >"$work/step.py" <<'PY'
import torch

d = torch.device("tpu")
m = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256)).to(d)
o = torch.optim.AdamW(m.parameters())
for _ in range(3):
    x = torch.randn(64, 256).to(d)
    loss = m(x).square().mean()
    loss.backward()
    o.step()
    o.zero_grad()
assert loss.item() == 0 and loss.device.type == "tpu"
labels = torch.arange(12).reshape(3, 4).to(d)
assert labels.cpu().tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]  # what the host copied reads back
torch.accelerator.synchronize()
before = torch.accelerator.memory_allocated()
big = torch.ones(1024, 3, device=d)
torch.accelerator.synchronize()
assert torch.accelerator.memory_allocated() - before == 1024 * 4 * 4  # the compiler turns it round, and has four rows
f = torch.compile(lambda x: (x @ x.T).relu().sum())
assert f(x).item() == 0
for make in (lambda: torch.ones(1 << 34, device=d).sum().item(), lambda: f(torch.ones(1 << 18, 64, device=d)).item() or f(torch.ones(1 << 18, 64, device=d)).item()):
    try:
        make()
    except RuntimeError as error:
        assert "ran out of memory" in str(error), error
        break
else:
    raise SystemExit("64 GiB fitted a chip of 16")
PY
capture_small_step "$work/step.py"
grep -q "echelon capture: s.[0-9]*.programs/.*: refused: .*memory" "$work/said" || { echo "nothing was refused"; exit 1; }

cat >"$work/ranks.py" <<'PY'
import torch
import torch.distributed as dist

dist.init_process_group("tpu_dist")
t = torch.ones(512, 512, device="tpu")
dist.all_reduce(t)
assert t.sum().item() == 0 and dist.get_world_size() == 4
PY
if command -v torchrun >/dev/null; then
  "$echelon" capture --pretend tpu-v5e --gpus 4 -o "$work/r" -- torchrun --nproc-per-node 4 "$work/ranks.py" >"$work/said" 2>&1 || { tail -20 "$work/said"; exit 1; }
  [ "$(ls "$work"/r.*.pretend | wc -l)" -ge 4 ] || { echo "ranks left no captures"; exit 1; }
  "$echelon" run --trace "$(ls "$work"/r.*.pretend | tail -1)" --device tpu-v5e | grep -q "all_reduce.*collective" || { echo "no all-reduce"; exit 1; }
fi

# JAX beside it is compiled as ever.
if python3 -c 'import jax' 2>/dev/null; then
  "$echelon" capture --pretend tpu-v5e -o "$work/j" -- python3 -c 'import torch, jax; jax.jit(lambda x: x @ x)(jax.numpy.ones((64, 64)))' >"$work/said" 2>&1 || { tail -20 "$work/said"; exit 1; }
  "$echelon" run --trace "$work"/j.*.lambda --device tpu-v5e >"$work/said" || { echo "no program of JAX's: $?"; exit 1; }
fi
