#!/bin/bash
# A JAX program on an NVIDIA GPU that is not there: JAX's own CUDA client runs over the pretended driver, and what it compiles has the memory of what
# traces/capture/compile.py compiles of the same function. Arrays are placed by `echelon alloc` where JAX's own allocator put them. Skipped (77) where python3
# has no jax with its CUDA plugin.
set -u
. "$(dirname "$0")/pretend_begin"
begin 'import jax, importlib.util as u; assert u.find_spec("jax_plugins.xla_cuda13") or u.find_spec("jax_plugins.xla_cuda12")' "jax with a CUDA plugin"

cat >"$work/step.py" <<'PY'
import functools

import jax
import jax.numpy as jnp


@functools.partial(jax.jit, donate_argnums=0)
def train(w, x):
    loss, g = jax.value_and_grad(lambda w: (jnp.tanh(x @ w["a"]) @ w["b"]).astype(jnp.float32).var())(w)
    return jax.tree.map(lambda p, q: p - 0.1 * q, w, g), loss


def build(target):
    a, b, x = ((512, 1024), (1024, 256), (256, 512))
    return train, ({"a": target.array(a, "bfloat16"), "b": target.array(b, "bfloat16")}, target.array(x, "bfloat16"))


if __name__ == "__main__":
    import os
    os.environ["XLA_FLAGS"] = "--xla_dump_to=elsewhere --xla_dump_hlo_module_re=another"  # as trainers ask for dumps; of what is captured none is left out
    assert jax.default_backend() == "gpu" and len(jax.devices("cuda")) == 2 and "H100" in jax.devices()[0].device_kind, jax.devices()
    w, x = {"a": jnp.ones((512, 1024), "bfloat16"), "b": jnp.ones((1024, 256), "bfloat16")}, jnp.ones((256, 512), "bfloat16")
    for _ in range(2):
        old, (w, loss) = w, train(w, x)
        assert old["a"].is_deleted() and not x.is_deleted() and w["b"].shape == (1024, 256) and float(loss) == 0
    from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
    mesh = jax.make_mesh((2,), ("x",), axis_types=(AxisType.Auto,))
    y = jax.device_put(jnp.ones((2, 1 << 20)), NamedSharding(mesh, P("x")))
    whole = jax.jit(lambda y: y * 2, out_shardings=NamedSharding(mesh, P()))(y)  # an all-gather by NCCL
    host = jax.device_put(y, NamedSharding(mesh, P("x"), memory_kind="pinned_host"))
    assert whole.sharding.is_fully_replicated and host.sharding.memory_kind == "pinned_host"
PY
"$echelon" capture --pretend h100-sxm --gpus 2 -o "$work/p" -- python3 "$work/step.py" >"$work/said" 2>&1 || { tail -20 "$work/said"; exit 1; }
(cd "$work" && python3 "$OLDPWD/traces/capture/compile.py" step.py --chip h100 -o "$work/c") >"$work/also" 2>&1 || { tail -5 "$work/also"; exit 1; }
memory() { # of a folder: its memory analysis, and every value's size, place and shape
  sed -n '/memory_analysis/,$p' "$1/program.json" | grep -v generated_code
  zcat "$1/program.buffer-assignment.txt.gz" | sed -n 's/.*\((size=.*\)/\1/p' | sort
}
set -- "$work"/p.*.train
if [ $# != 1 ] || ! diff <(memory "$1") <(memory "$work/c") >"$work/differences"; then
  echo "compiled otherwise than by compile.py:"
  head -20 "$work/differences"
  exit 1
fi
"$echelon" run --trace "$1" --device h100-sxm | grep -q 'It fits' || exit 1
# The whole run has the kernels of each program as its folder has them.
"$echelon" info "$work"/p.*.pretend | grep -q 'kernels that XLA compiled are priced as in the folders of their programs beside: jit_train' ||
  { echo "kernels of the run are not those of the program"; exit 1; }
grep -q '^collective ' "$work"/p.*.pretend || { echo "no collective was recorded"; exit 1; }

# JAX's own allocator says where it puts each array; the same requests, asked for one by one, are placed by ours. After each array the program waits, so that both
# runs ask and free in the same order.
cat >"$work/arrays.py" <<'PY'
import random
import time

import jax
import numpy as np

random.seed(1)
held = []
for _ in range(120):
    held.append(jax.device_put(np.zeros(4096 * random.choice((1, 2, 3, 7, 16, 33, 100, 257, 900)), "float32")).block_until_ready())
    time.sleep(0.003)
    while held and random.random() < 0.45:
        held.pop(random.randrange(len(held)))
        time.sleep(0.003)
PY
TF_CPP_MIN_LOG_LEVEL=0 TF_CPP_VMODULE=bfc_allocator=4 XLA_PYTHON_CLIENT_ALLOCATOR=bfc "$echelon" capture --pretend h100-sxm -o "$work/b" -- \
  python3 "$work/arrays.py" >"$work/log" 2>&1 || { tail -5 "$work/log"; exit 1; }
"$echelon" capture --pretend h100-sxm -o "$work/a" -- python3 "$work/arrays.py" >"$work/said" 2>&1 || { tail -5 "$work/said"; exit 1; }
"$echelon" alloc "$work"/a.*.pretend --allocator jax --placements "$work/ours.csv" >/dev/null || exit 1
real() {
  base=$(sed -n '/GPU_0_bfc/,$s/.*Allocated memory at \(0x[0-9a-f]*\) .*/\1/p' "$work/log" | head -1)
  sed -n 's/.*\] AllocateRaw GPU_0_bfc  \([0-9]*\) \(0x[0-9a-f]*\).*/\1 \2/p' "$work/log" | while read -r bytes address; do echo "$bytes,$((address - base))"; done
}
real >"$work/real"
[ "$(wc -l <"$work/real")" -ge 120 ] || { echo "JAX's allocator told of $(wc -l <"$work/real") arrays"; exit 1; }
diff "$work/real" <(sed 1d "$work/ours.csv" | cut -d, -f3,6) >"$work/differences" || { echo "placed otherwise than by JAX:"; head "$work/differences"; exit 1; }

# Programs that compile in several threads at once: each function's is written.
cat >"$work/threads.py" <<'PY'
import threading

import jax
import jax.numpy as jnp


def work(of):
    for i in range(3):
        def step(x):
            return jnp.tanh(x @ x + of + i).sum()
        step.__name__ = "step_%d_%d" % (of, i)
        jax.jit(step)(jnp.ones((64, 64)))


threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
PY
"$echelon" capture --pretend h100-sxm -o "$work/t" -- python3 "$work/threads.py" >"$work/said" 2>&1 || { tail -5 "$work/said"; exit 1; }
written=$(ls "$work"/t.*.step_?_?/program.hlo.txt.gz | wc -l)
[ "$written" = 12 ] || { echo "12 programs were compiled and $written written"; exit 1; }

# Steps are the runs of a program that a loop calls again and again, or what the program names steps.
cat >"$work/loop.py" <<'PY'
import sys

import jax
import jax.numpy as jnp

step = jax.jit(lambda w: w - 0.1 * jnp.tanh(w @ w))
w = jnp.ones((512, 512))
for i in range(3):
    if sys.argv[1] == "named":
        with jax.profiler.StepTraceAnnotation("train", step_num=i + 5):
            w = step(w)
    else:
        w = step(w)
w.block_until_ready()
PY
for how in named called; do
  "$echelon" capture --pretend h100-sxm -o "$work/$how" -- python3 "$work/loop.py" "$how" >"$work/said" 2>&1 || { tail -5 "$work/said"; exit 1; }
  wanted='from jit__lambda'
  [ "$how" = called ] || wanted='from train step 7'
  "$echelon" run --trace "$work/$how".*.pretend --device h100-sxm >"$work/told"
  grep -q 'Steps: 3, ' "$work/told" && grep -q "$wanted" "$work/told" || { echo "steps of a loop in JAX are not told ($how):"; grep -A4 Steps "$work/told"; exit 1; }
done
