"""Training steps of ten two-matrix layers in JAX, activations offloaded to pinned host memory, captured with its profiler (XPlane) or plain for `echelon capture`.

    python jax_step.py --out DIR                         DIR/profile.xplane.pb.gz; DIR/memory.pb.gz, what lived at the end
    echelon capture -o DIR/jax -- python jax_step.py --plain
"""
import argparse
import glob
import gzip
import os
import shutil
import statistics
import tempfile
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name


def build(args):
    def layer(x, w):
        x = checkpoint_name(x, "layer_input")
        return jnp.tanh(x @ w[0]) @ w[1], None

    if args.offload:
        policy = jax.checkpoint_policies.save_and_offload_only_these_names(
            names_which_can_be_saved=[], names_which_can_be_offloaded=["layer_input"], offload_src="device", offload_dst="pinned_host")
        layer = jax.checkpoint(layer, policy=policy, prevent_cse=False)

    def loss(w, x):
        return jnp.mean(jnp.square(jax.lax.scan(layer, x, w)[0].astype(jnp.float32)))

    @jax.jit
    def step(w, x):
        gradients = jax.grad(loss)(w, x)
        return jax.tree.map(lambda a, g: a - jnp.asarray(1e-3, a.dtype) * g, w, gradients)

    keys = jax.random.split(jax.random.key(0), 3)
    w = (jax.random.normal(keys[0], (args.layers, args.width, 4 * args.width), jnp.bfloat16) * 0.02,
         jax.random.normal(keys[1], (args.layers, 4 * args.width, args.width), jnp.bfloat16) * 0.02)
    # On a device from the beginning: what a step returns is, and would be compiled for anew in the midst of what is captured.
    return step, jax.device_put(w, jax.devices()[0]), jax.random.normal(keys[2], (args.rows, args.width), jnp.bfloat16)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=".")
    parser.add_argument("--plain", action="store_true", help="only run: somebody else captures")
    parser.add_argument("--gpu", action="store_true", help="fail where JAX sees no GPU, rather than run on the CPU")
    parser.add_argument("--no-offload", dest="offload", action="store_false")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--rows", type=int, default=4096)
    args = parser.parse_args()
    if args.gpu and jax.default_backend() != "gpu":
        raise SystemExit(f"JAX {jax.__version__} sees no GPU here, only {jax.devices()[0].device_kind}")
    os.makedirs(args.out, exist_ok=True)
    step, w, x = build(args)
    w = jax.block_until_ready(step(w, x))  # compiled, and run once
    if args.plain:
        times = []
        for _ in range(args.steps):
            start = time.perf_counter()
            w = jax.block_until_ready(step(w, x))
            times.append((time.perf_counter() - start) * 1e3)
        print("median step %.3f ms of %d, after the first" % (statistics.median(times[1:] or times), len(times)))
    else:
        folder = tempfile.mkdtemp()
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0  # the device's side is wanted, not every call of Python
        jax.profiler.start_trace(folder, profiler_options=options)
        for i in range(args.steps):
            with jax.profiler.StepTraceAnnotation("train", step_num=i):
                w = step(w, x)
        jax.block_until_ready(w)
        jax.profiler.stop_trace()
        for found in glob.glob(os.path.join(folder, "**", "*.xplane.pb"), recursive=True):
            with open(found, "rb") as source, gzip.open(os.path.join(args.out, "profile.xplane.pb.gz"), "wb") as target:
                shutil.copyfileobj(source, target)
        shutil.rmtree(folder)
        jax.profiler.save_device_memory_profile(os.path.join(args.out, "memory.pb.gz"))
    print("jax", jax.__version__, "on", jax.devices()[0].device_kind)


if __name__ == "__main__":
    main()
