#!/bin/bash
# A JAX program on a TPU that is not there is compiled as traces/capture/compile.py compiles the same function; what it gets back has the shapes, shardings and
# lifetimes that it asked for. Skipped (77) where python3 has no jax and libtpu. With a python3 whose JAX is older than 0.8 (from 0.4.38 on) the first program alone is tried.
set -u
. "$(dirname "$0")/pretend_begin"
begin 'import jax, libtpu' "jax and libtpu"

cat >"$work/old.py" <<'PY'
import functools

import jax
import jax.numpy as jnp
import numpy
from jax.experimental.pjit import pjit
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

chip, cpu = jax.devices()[0], jax.devices("cpu")[0]
device, host = (SingleDeviceSharding(chip, memory_kind=kind) for kind in ("device", "pinned_host"))
assert {"device", "pinned_host"} <= {memory.kind for memory in chip.addressable_memories()} and chip.default_memory().kind == "device"
assert SingleDeviceSharding(chip) == device != host and "pinned_host" in str(host) and device.with_memory_kind("pinned_host") == host
assert SingleDeviceSharding(cpu).memory_kind == cpu.default_memory().kind  # the host's own says what it always did
momentum = jax.device_put(jnp.zeros((1024, 1024)), host)
assert momentum.sharding.memory_kind == "pinned_host"


@functools.partial(jax.jit, donate_argnums=(0, 1), static_argnums=3, out_shardings=(device, host, device))
def update(w, momentum, n, rate):
    moved = jax.device_put(momentum, device) * 0.9 + w
    return w - rate * moved, jax.device_put(moved, host), n + 1


w, n = jax.random.normal(jax.random.PRNGKey(0), (1024, 1024)), jnp.int32(0)
while n < 3:
    old, (w, momentum, n) = w, update(w, momentum, n, 0.5)
    assert old.is_deleted() and momentum.sharding == host and w.sharding == device
mesh = Mesh(numpy.array(jax.devices()), ("d",))
split = NamedSharding(mesh, P("d"))
kept = NamedSharding(mesh, P("d"), memory_kind="pinned_host")
assert split != kept and hash(kept) == hash(NamedSharding(mesh, P("d"), memory_kind="pinned_host"))
layers = jax.jit(lambda: jnp.ones((4, 256, 256)), out_shardings=NamedSharding(mesh, P(None, "d")))()


@jax.jit
def scanned(layers, x):
    def layer(x, w):
        return jax.lax.with_sharding_constraint(jnp.tanh(x @ w), split), None
    return jax.grad(lambda layers: jax.lax.scan(jax.checkpoint(layer), x, layers)[0].sum())(layers)


with mesh:
    g = scanned(layers, jax.device_put(jnp.ones((64, 256)), split))
    assert g.shape == (4, 256, 256) and g.sharding.device_set == set(jax.devices())



def split_rows(x, w):
    return jnp.tanh(x @ w), w


with mesh:  # the name that jax.jit had, options by their places
    y, _ = pjit(split_rows, (P("d"), P()), (P("d"), P()), donate_argnums=1)(jnp.ones((64, 256)), jnp.ones((256, 256)))
    assert y.sharding.spec == P("d") and not y.sum()

# What hangs on no weight, as an optimizer's first state, goes wherever it is used with them; what was put on a chip stays there.
first = jax.jit(lambda layers: (jnp.zeros(layers.shape), jnp.int32(0)))(layers)
assert jax.jit(lambda w, s: w + s[0] + s[1])(layers, first).sharding.device_set == set(jax.devices())
assert jax.jit(lambda x: x + 1)(jax.device_put(jnp.ones(4), jax.devices()[1])).devices() == {jax.devices()[1]}


def told(x):
    jax.debug.print("{}", x.sum())
    return x + 1


assert jax.jit(told).lower(jnp.ones(1 << 18)).compile().memory_analysis().argument_size_in_bytes == 1 << 20
assert jax.lax.scan(lambda sum, v: (sum + v, None), 0.0, jnp.arange(5.0))[0] == 10
PY
"$echelon" capture --pretend tpu-v5e --gpus 2 -o "$work/o" -- python3 "$work/old.py" >"$work/said" 2>&1 || { tail -20 "$work/said"; exit 1; }
[ "$(grep -c 'update: called 3 times' "$work/said")" = 1 ] && ! grep -q 'Exception ignored' "$work/said" || { echo "of three updates:"; cat "$work/said"; exit 1; }
grep -q 'the program went by numbers that chips would have computed, first at old.py:' "$work/said" || { echo "of what the program looked at:"; cat "$work/said"; exit 1; }
grep -q 'split_rows: called 1 time' "$work/said" || { echo "of jax.experimental.pjit:"; cat "$work/said"; exit 1; }
"$echelon" info --json "$work"/o.*.update | grep -Eq '"host_argument" *: *4194304' || { echo "the momentum is not on the host"; exit 1; }
python3 -c 'import jax; raise SystemExit(jax.__version_info__ < (0, 8))' || exit 0

cat >"$work/step.py" <<'PY'
import jax
import jax.numpy as jnp


def train(w, x):
    loss, g = jax.value_and_grad(lambda w: (jnp.tanh(x @ w["a"]) @ w["b"]).astype(jnp.float32).var())(w)
    return jax.tree.map(lambda p, q: p - 0.1 * q, w, g), loss


def build(target):
    a, b, x = ((512, 1024), (1024, 256), (256, 512))
    return jax.jit(train, donate_argnums=0), ({"a": target.array(a, "bfloat16"), "b": target.array(b, "bfloat16")}, target.array(x, "bfloat16"))


if __name__ == "__main__":
    import os
    os.environ["XLA_FLAGS"] = "--xla_dump_to=elsewhere --xla_dump_hlo_module_re=another"  # as trainers ask for dumps; of what is captured none is left out
    from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
    step = jax.jit(train, donate_argnums=0)
    w, x = {"a": jnp.ones((512, 1024), "bfloat16"), "b": jnp.ones((1024, 256), "bfloat16")}, jnp.ones((256, 512), "bfloat16")
    for _ in range(2):
        old, (w, loss) = w, step(w, x)
        assert old["a"].is_deleted() and not x.is_deleted() and w["b"].shape == (1024, 256) and w["b"].dtype == "bfloat16" and float(loss) == 0
    assert len(jax.devices("tpu")) == 4 and jax.default_backend() == "tpu"
    mesh = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,))
    split, host = NamedSharding(mesh, P("x")), NamedSharding(mesh, P("x"), memory_kind="pinned_host")
    y = jax.jit(lambda: jnp.ones((1 << 16, 1 << 16)), out_shardings=split)()  # 16 GiB, of which this machine gives nothing
    z = jax.jit(lambda y: jax.device_put(y * 2, host))(y)
    assert y.sharding == split and z.sharding.memory_kind == "pinned_host" and z.sharding.spec == P("x"), (y.sharding, z.sharding)
    import resource
    before, half = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, jax.jit(lambda: {"m": jnp.ones((1 << 14, 1 << 14))}, out_shardings=split)()
    kept = jax.device_put(half, host)  # 1 GiB, nor does the host give any
    also = jax.device_put({"m": half["m"], "own": w["b"]}, {"m": host, "own": None}, donate=True)
    assert kept["m"].sharding == host and not also["own"].sum() and resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 19
    assert (jax.device_put(jnp.arange(4), jax.devices()[1]) == jnp.arange(4)).all()  # what is known stays so
    assert jax.jit(lambda y: y.sum(), out_shardings=NamedSharding(mesh, P())).lower(y).compile()(y).shape == ()
    assert jax.grad(jax.jit(lambda v: (v**2).sum()))(jnp.ones(3)).tolist() == [2, 2, 2]  # inside of others it runs
    import dataclasses
    import functools

    @functools.partial(jax.tree_util.register_dataclass, data_fields=["of"], meta_fields=[], drop_fields=["beside"])
    @dataclasses.dataclass
    class Lengths:  # as vLLM's: JAX makes it anew without what its constructor does not set, and so made it does not print
        of: jax.Array
        beside: object = dataclasses.field(init=False)
    assert jax.jit(lambda lengths: lengths.of * 2)(Lengths(jnp.ones(8))).shape == (8,)
    assert jax.lax.scan(lambda sum, v: (sum + v, None), 0.0, jnp.arange(5.0))[0] == 10  # outside of them a loop is a program, and runs
    try:
        jax.jit(lambda y: jnp.sort(y, axis=0).sum())(jnp.zeros((), "float32").reshape(1, 1) + jax.jit(lambda: jnp.ones((1 << 17, 1 << 16)))())
        raise SystemExit("34 GiB fitted a chip of 16")
    except jax.errors.JaxRuntimeError as error:
        assert "RESOURCE_EXHAUSTED" in str(error), error
PY
for chip in v2 v4 v5p tpu7x; do # meshes of what are chips or cores to JAX
  "$echelon" capture --pretend "${chip/#v/tpu-v}" --gpus 4 -o "$work/m" -- python3 -c 'import jax; assert jax.make_mesh((2, 2), ("a", "b")).size == 4' >"$work/said" 2>&1 ||
    { echo "$chip:"; tail -3 "$work/said"; exit 1; }
done

cat >"$work/chips.py" <<'PY'
import functools
import resource
import threading

import jax
import jax.numpy as jnp
import numpy
from jax.experimental import mesh_utils, topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

jax.distributed.initialize()
chip, host = jax.devices()[0], jax.devices("cpu")[0]
assert (chip.platform, chip.device_kind, list(chip.coords)) == ("tpu", "TPU v6 lite", [0, 0, 0]) and "TPU_0" in str(chip), chip
assert host.platform == "cpu" and host not in jax.devices() and jax.device_count() == jax.local_device_count() == len(jax.local_devices()) == 8
assert chip.memory_stats()["bytes_limit"] > 30 << 30 and chip.memory_stats()["bytes_in_use"] == 0
assert numpy.ravel(mesh_utils.create_device_mesh((2, 4))).tolist() != jax.devices()  # by the slice's wires

with jax.default_device(host):  # there it runs
    a = jax.jit(lambda: jnp.full(8, 3.0))()
assert a.devices() == {host} and a.sum() == 24 and jax.jit(lambda: jnp.arange(4), backend="cpu")().sum() == 6
assert chip.memory_stats()["bytes_in_use"] == 0


def mapped(w, x):
    return w - jax.lax.pmean(x @ w, "i")


y = jax.pmap(mapped, axis_name="i", donate_argnums=0)(jnp.ones((8, 128, 128)), jnp.ones((8, 128, 128)))
assert y.shape == (8, 128, 128) and not y.sum()

mesh_8 = Mesh(numpy.array(jax.devices()), ("d",))
split_8 = NamedSharding(mesh_8, P("d"))
mesh = Mesh(numpy.array(jax.devices()[4:]), ("d",))
twice = jax.jit(lambda v: v * 2, out_shardings=NamedSharding(mesh, P("d")))
twice.__wrapped__.__name__ = "twice"
for spec in (P("d"), P(("d",)), P("d", None)):  # three spellings
    twice(jax.device_put(jnp.ones((64, 64)), NamedSharding(mesh, spec)))


def told(v):
    jax.debug.print("{}", v.sum())
    return v + 1


compiled = jax.jit(told).trace(jnp.ones(1 << 20)).lower().compile()
assert compiled.cost_analysis()["flops"] > 0 and "is_scheduled=true" in compiled.as_text() and compiled.memory_analysis().temp_size_in_bytes >= 0
assert compiled.input_shardings[0][0].device_set == compiled.output_shardings.device_set == {chip}
with jax.profiler.trace("profile"):
    compiled(jnp.ones(1 << 20))
jax.profiler.start_trace("profile")
jax.profiler.stop_trace()

described = topologies.get_topology_desc(platform="tpu", topology_name="v6e:4x4").devices
split = NamedSharding(Mesh(numpy.array(described), ("d",)), P("d"))


def ahead(v):
    return v.sum()


assert jax.jit(ahead, in_shardings=split).lower(jax.ShapeDtypeStruct((1 << 20,), "float32")).compile().memory_analysis().argument_size_in_bytes == 1 << 18

def alike(v, k):
    return v @ v * k


threads = [threading.Thread(target=jax.jit(alike, static_argnums=1), args=(jnp.ones((64, 64)), k)) for k in range(3)]
[thread.start() for thread in threads] and [thread.join() for thread in threads]

if hasattr(jax, "new_ref"):  # arrays that programs change in place, given and closed over
    sums, steps = jax.new_ref(jnp.ones((512, 512))), jax.new_ref(jnp.int32(0))

    @jax.jit
    def summed(into, v):
        into[...] += v
        steps[...] += 1
        return into[0, 0]

    assert summed(sums, jnp.ones((512, 512))).shape == () and summed(sums, jnp.ones((512, 512))).shape == ()
    assert sums[...].shape == (512, 512) and not sums[...].any() and steps[...].shape == ()

kept = jax.jit(lambda: jnp.ones(5 << 30))()  # 20 GiB of 31


def more(v):
    return v * 2


class Model:
    @functools.partial(jax.jit, static_argnums=0)
    def doubled(self, v):
        return v * 2


model = Model()  # a method of jax.jit is one as JAX's are
assert model.doubled(jnp.ones(4)).shape == (4,) and model.doubled.lower(model, jnp.ones(4)).compile().memory_analysis().argument_size_in_bytes == 512


@functools.partial(jax.jit, static_argnames="shape", donate_argnames="cache")
def picked(shape, leaves, cache, at):
    return jax.tree.unflatten(shape, leaves)["table"][at["which"]] * at["scale"], cache + 1


shape, cache = jax.tree.structure({"table": 0}), jnp.ones((512, 1024))
picked(shape, [jnp.ones((64, 8))], cache, {"which": jnp.array([3, 1, 2]), "scale": 5})
assert cache.is_deleted()  # with static arguments and numbers beside it
gone = jnp.ones((1024, 1024))  # large enough to be none
jax.jit(lambda x: x + 1, donate_argnums=0)(gone)
for use in (lambda: gone + 1, lambda: jax.jit(lambda x: x * 2)(gone), lambda: jax.device_put(gone, jax.devices()[0])):
    try:
        use()
        raise AssertionError("used after it was donated")
    except RuntimeError as error:
        assert "deleted" in str(error), error


@functools.partial(jax.jit, donate_argnums=0)
def trained(state, x):
    seed, used = jax.random.split(state["seed"])
    with jax.ensure_compile_time_eval():
        eight = jax.lax.iota("int32", 8).sum()
    w = state["w"] - x.sum() * jax.random.uniform(used)
    return {"w": w, "at": state["at"] + 1, "seed": seed, "rate": jnp.log2(state["rate"])}, w.sum() + eight


state, seed = {"w": jnp.ones((512, 512)), "at": jnp.int32(0), "seed": jax.random.key(7), "rate": jnp.float32(16)}, jax.random.key(7)
with jax.set_mesh(mesh_8):
    while state["at"] < 3:  # what hangs on counters and seeds alone is computed, and the loop ends
        state, loss = trained(state, jnp.ones((512, 512)))
        seed = jax.random.split(seed)[0]
assert not loss and state["rate"] == 1 and jax.random.key_data(state["seed"]).tolist() == jax.random.key_data(seed).tolist()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
large = jnp.ones((1 << 15, 1 << 14)) * 2  # 2 GiB of the chip's, of which this machine gives nothing
brought = jax.device_put(numpy.zeros((1 << 15, 1 << 14), "float32"), split_8)
normal = jax.random.normal(jax.random.key(0), (1 << 15, 1 << 14))  # jitted by JAX itself
parts = []
joined = jax.make_array_from_callback((1 << 15, 1 << 14), split_8, lambda at: parts.append(at) or numpy.zeros((1 << 12, 1 << 14), "float32"))
also = jnp.zeros_like(joined)
assert len(parts) == 8 and joined.sharding == also.sharding == split_8 and normal.devices() == {chip}
assert jax.make_array_from_callback((8,), split_8, lambda at: numpy.arange(8)[at]).tolist() == list(range(8))  # small ones are what they are
assert large.devices() == {chip} and brought.sharding == split_8 and resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 19
assert not large[0, 0]
with jax.default_device(host):
    assert (jnp.ones(1 << 20) * 3)[5] == 3  # and on the host it is what it is
del large, brought, normal, joined, also
assert chip.memory_stats()["bytes_in_use"] > 20 << 30
jax.jit(more)(jax.jit(lambda: jnp.ones(2 << 30))())
assert chip.memory_stats()["peak_bytes_in_use"] > 35 << 30
PY
"$echelon" capture --pretend tpu-v6e --gpus 8 -o "$work/q" -- python3 "$work/chips.py" >"$work/said" 2>&1 || { tail -20 "$work/said"; exit 1; }
said() { # a line that is to be on standard error, once
  [ "$(grep -c -- "$1" "$work/said")" = 1 ] || { echo "not said once: $1"; cat "$work/said"; exit 1; }
}
said 'mapped: compiled for 8 x v6e'
said 'twice: called 3 times'
said 'told: called 1 time$'
said 'summed: called 2 times'
said 'ahead: compiled ahead of time for 16 x v6e'
said 'more: DOES NOT FIT beside them: it needs 16.00 GiB itself'
said 'this process has all 8 chips'
said 'no profile is written'
grep -q '"3": "3,1,2"' "$work"/q.*.picked/program.json && grep -q '"2": "5"' "$work"/q.*.picked/program.json || { echo "what picked was given last:"; cat "$work"/q.*.picked/program.json; exit 1; }
[ "$(ls -d "$work"/q.*.alike*/program.hlo.txt.gz 2>/dev/null | wc -l)" = 3 ] || { echo "three threads left:" "$work"/q.*; exit 1; }

"$echelon" capture --pretend tpu-v5e --gpus 4 -o "$work/p" -- python3 "$work/step.py" >"$work/said" 2>&1 || { tail -20 "$work/said"; exit 1; }
(cd "$work" && python3 "$OLDPWD/traces/capture/compile.py" step.py --chip v5e -o "$work/c") >"$work/also" 2>&1 || { tail -5 "$work/also"; exit 1; }
program() { # of a folder, without its first line and its tables of names
  zcat "$1"/program.hlo.txt.gz | sed '1d;/^FileNames/,/^StackFrames/d;s/, metadata={[^}]*}//g;s/stack_frame_id=[0-9]*//g;s/, sharding={replicated}.*//;s/, sharding={mesh.*//' | sed -n '/^%\|^ENTRY\|^  /p' |
    grep -v '^  *{\|file_name_id\|parent_frame_id'
}
set -- "$work"/p.*.train
if [ $# != 1 ] || ! diff <(program "$1") <(program "$work/c") >"$work/differences"; then
  echo "compiled otherwise than by compile.py:"
  head -20 "$work/differences"
  exit 1
fi
[ -f "$work"/p.*.scan/program.hlo.txt.gz ] || { echo "a loop outside of jax.jit left no program"; exit 1; }
"$echelon" run --trace "$1" --device tpu-v5e | grep -q 'It fits'
