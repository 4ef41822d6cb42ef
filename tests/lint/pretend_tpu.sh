#!/bin/bash
# A JAX program on a TPU that is not there is compiled as traces/capture/compile.py compiles the same function; what it gets back has the shapes, shardings and
# lifetimes that it asked for. Skipped (77) where python3 has no jax and libtpu.
set -u
cd "$(dirname "$0")/../.." || exit 1
python3 -c 'import jax, libtpu' 2>/dev/null || { echo "no jax and libtpu for python3"; exit 77; }
echelon=${2:?usage: pretend_tpu.sh SOURCE ECHELON}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1

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
    try:
        jax.jit(lambda y: jnp.sort(y, axis=0).sum())(jnp.zeros((), "float32").reshape(1, 1) + jax.jit(lambda: jnp.ones((1 << 17, 1 << 16)))())
        raise SystemExit("34 GiB fitted a chip of 16")
    except jax.errors.JaxRuntimeError as error:
        assert "RESOURCE_EXHAUSTED" in str(error), error
PY
"$echelon" capture --pretend tpu-v5e --gpus 4 -o "$work/p" -- python3 "$work/step.py" >"$work/said" 2>&1 || { tail -20 "$work/said"; exit 1; }
(cd "$work" && python3 "$OLDPWD/traces/capture/compile.py" step.py --chip v5e -o "$work/c") >"$work/also" 2>&1 || { tail -5 "$work/also"; exit 1; }
program() { # of a folder, without its first line and its tables of names
  zcat "$1"/program.hlo.txt.gz | sed '1d;/^FileNames/,/^StackFrames/d;s/, metadata={[^}]*}//g;s/stack_frame_id=[0-9]*//g;s/, sharding={replicated}.*//' | sed -n '/^%\|^ENTRY\|^  /p' |
    grep -v '^  *{\|file_name_id\|parent_frame_id'
}
set -- "$work"/p.*.train
if [ $# != 1 ] || ! diff <(program "$1") <(program "$work/c") >"$work/differences"; then
  echo "compiled otherwise than by compile.py:"
  head -20 "$work/differences"
  exit 1
fi
"$echelon" run --trace "$1" --device tpu-v5e | grep -q 'It fits'
