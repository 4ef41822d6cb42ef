"""The programs of ../examples on a real GPU: what a step takes with everything kept on the device, recomputed, and with activations, parameters or optimizer state in pinned host memory.

    python jax_offload.py --out DIR                      DIR/jax_offload.csv; DIR/NAME/, each program as XLA compiled it there; with --profile NAME a profile of it, too
    echelon run --trace DIR/NAME --device h100-sxm       what echelon says of that program, which knows nothing of the times
"""
import argparse
import glob
import gzip
import importlib
import os
import re
import shutil
import statistics
import sys
import tempfile
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
dumped = tempfile.mkdtemp()
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_dump_to=%s --xla_dump_hlo_as_text --xla_dump_hlo_module_re=jit_(grad|loss|step).*" % dumped
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples"))

import jax
import jax.numpy as jnp

mlp = dict(width=1024, hidden=4096, rows=4096)
gpt = dict(layers=12, width=1024, heads=16, vocabulary=32768, batch=8, length=1024)
llama = dict(model="llama", layers=8, width=2048, heads=16, vocabulary=32768, batch=4, length=2048, optimizer="adam")
again = {"mlp_offload": lambda out, args: args, "adam_offload": lambda out, args: (*out, args[3]), "gpt_step": lambda out, args: (out[0], args[1]),
         "adam_layers": lambda out, args: (*out, args[2]), "checkpointed": lambda out, args: (out[0], *args[1:])}
# Where Adam's second moments are: what is no square makes NaNs, and products of NaNs draw less power than those of numbers, and so run faster
squares = {"adam_offload": r"\[1\]\[\d+\]\[1\]", "adam_layers": r"\[1\]\['\w+'\]\[1\]", "checkpointed": r"\[0\]\['second'\]"}
serial = {"xla_gpu_enable_latency_hiding_scheduler": False}
cases = [
    ("mlp none", "mlp_offload", dict(offload="none", **mlp), {}),
    ("mlp activations", "mlp_offload", dict(offload="activations", **mlp), {}),
    ("mlp activations, one after another", "mlp_offload", dict(offload="activations", **mlp), serial),
    ("mlp parameters", "mlp_offload", dict(offload="parameters", **mlp), {}),
    ("adam none", "adam_offload", dict(offload="none"), {}),
    ("adam moments", "adam_offload", dict(offload="moments"), {}),
    ("adam moments, one after another", "adam_offload", dict(offload="moments"), serial),
    ("gpt everything", "gpt_step", dict(save="everything", **gpt), {}),
    ("gpt nothing", "gpt_step", dict(save="nothing", **gpt), {}),
    ("gpt offload", "gpt_step", dict(save="offload", **gpt), {}),
    ("gpt unrolled inputs", "gpt_step", dict(save="inputs", unroll=True, **gpt), {}),
    ("gpt unrolled offload_inputs", "gpt_step", dict(save="offload_inputs", unroll=True, **gpt), {}),
    ("gpt unrolled offload_inputs, one after another", "gpt_step", dict(save="offload_inputs", unroll=True, **gpt), serial),
    # From here on: what a pass says of the first of each kind is held against the others
    ("stacked adam none", "adam_layers", dict(offload="none", layers=24, width=2048, rows=8192), {}),
    ("stacked adam whole", "adam_layers", dict(offload="whole", layers=24, width=2048, rows=8192), {}),
    ("stacked adam layers", "adam_layers", dict(offload="layers", layers=24, width=2048, rows=8192), {}),
    ("llama scan everything", "checkpointed", dict(save="everything", **llama), {}),
    ("llama scan nothing", "checkpointed", dict(save="nothing", **llama), {}),
    ("llama scan minimal", "checkpointed", dict(save="minimal", **llama), {}),
    ("llama scan offloaded", "checkpointed", dict(save="offloaded", **llama), {}),
    ("llama unrolled everything", "checkpointed", dict(save="everything", unroll=True, **llama), {}),
    ("llama unrolled nothing", "checkpointed", dict(save="nothing", unroll=True, **llama), {}),
    ("llama unrolled offloaded", "checkpointed", dict(save="offloaded", unroll=True, **llama), {}),
]


class Target:
    """As compile.py's, of the GPU that is here."""
    mesh = jax.sharding.Mesh(jax.devices()[:1], ("data",))
    device = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(), memory_kind="device")
    host = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(), memory_kind="pinned_host")

    @classmethod
    def array(cls, shape, dtype="float32", host=False, spec=()):
        return jax.ShapeDtypeStruct(shape, dtype, sharding=cls.host if host else cls.device)


def filled(like, square, tokens):
    key = jax.random.key(0)
    if like.dtype == jnp.int32:  # of all rows of a table: sums into one and the same take turns
        return jax.device_put(jax.random.randint(key, like.shape, 0, tokens, like.dtype), like.sharding)
    if like.ndim == 0:
        return jax.device_put(jnp.ones(like.shape, like.dtype), like.sharding)
    values = jax.random.normal(key, like.shape, like.dtype) * jnp.asarray(0.02, like.dtype)
    return jax.device_put(jnp.abs(values) if square else values, like.sharding)


def inputs_of(program, settings, like):
    is_square = lambda path: program in squares and re.match(squares[program], jax.tree_util.keystr(path)) is not None
    return jax.tree_util.tree_map_with_path(lambda path, leaf: filled(leaf, is_square(path), settings.get("vocabulary", 2)), like)


def keep(folder):
    """The compiled module and its buffer assignment, as `echelon run --trace` takes a folder."""
    os.makedirs(folder, exist_ok=True)
    for ending, name in ("after_optimizations.txt", "program.hlo.txt.gz"), ("after_optimizations-buffer-assignment.txt", "program.buffer-assignment.txt.gz"):
        found = [f for f in glob.glob(os.path.join(dumped, "*")) if f.endswith(ending)]
        if found:
            with open(max(found, key=os.path.getsize), "rb") as source, gzip.GzipFile(os.path.join(folder, name), "wb", mtime=0) as target:
                shutil.copyfileobj(source, target)
    for f in glob.glob(os.path.join(dumped, "*")):
        shutil.rmtree(f) if os.path.isdir(f) else os.remove(f)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=".")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--most", type=float, default=90, help="seconds after which no further program is begun")
    parser.add_argument("--only", help="those whose names hold this")
    parser.add_argument("--begin", type=int, default=0, help="number of the first one, from 0")
    parser.add_argument("--profile", help="two more steps of the one of this name under JAX's profiler")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    began, rows = time.monotonic(), []
    for name, program, settings, options in cases[args.begin:]:
        if args.only and args.only not in name:
            continue
        if time.monotonic() - began > args.most:
            rows.append((name, "", "", "", "", "left, no time"))
            continue
        inputs = out = None  # of the one before
        try:
            function, like = importlib.import_module(program).build(Target, **settings)
            compiled = function.lower(*like).compile(compiler_options=options or None)
            keep(os.path.join(args.out, name.replace(", ", "-").replace(" ", "_")))
            memory = compiled.memory_analysis()
            inputs = inputs_of(program, settings, like)
            for _ in range(2):
                out = compiled(*inputs)
                inputs = again[program](out, inputs)
            jax.block_until_ready(out)
            times = []
            for _ in range(5):
                start = time.perf_counter()
                for _ in range(args.steps):
                    out = compiled(*inputs)
                    inputs = again[program](out, inputs)
                jax.block_until_ready(out)
                times.append((time.perf_counter() - start) * 1e3 / args.steps)
            finite = jnp.isfinite(jax.device_put(jax.tree.leaves(out)[0], Target.device)).all()
            if args.profile == name:
                with jax.profiler.trace(dumped + "/profile"):
                    for _ in range(2):
                        out = compiled(*inputs)
                        inputs = again[program](out, inputs)
                    jax.block_until_ready(out)
                for f in glob.glob(dumped + "/profile/**/*.xplane.pb", recursive=True):
                    with open(f, "rb") as source, gzip.GzipFile(os.path.join(args.out, name.replace(", ", "-").replace(" ", "_"), "profile.xplane.pb.gz"), "wb", mtime=0) as target:
                        shutil.copyfileobj(source, target)
            rows.append((name, "%.4f" % statistics.median(times), "%.4f" % min(times), memory.argument_size_in_bytes + memory.output_size_in_bytes - memory.alias_size_in_bytes + memory.temp_size_in_bytes,
                         memory.host_temp_size_in_bytes + memory.host_argument_size_in_bytes, "" if finite else "its results are not finite"))
        except Exception as error:
            rows.append((name, "", "", "", "", str(error).split("\n")[0].replace(",", ";")[:120]))
        print(*rows[-1], flush=True)
    with open(os.path.join(args.out, "jax_offload.csv"), "w") as file:
        file.write("# JAX %s on %s: milliseconds a step, one behind the other; bytes by the compiler\n" % (jax.__version__, jax.devices()[0].device_kind))
        file.write("program,median_ms,least_ms,device_bytes,host_bytes,failure\n")
        for row in rows:
            file.write(",".join('"%s"' % x if "," in str(x) else str(x) for x in row) + "\n")


if __name__ == "__main__":
    main()
