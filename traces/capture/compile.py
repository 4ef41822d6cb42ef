#!/usr/bin/env python3
"""Compile a JAX program for a TPU or GPU that is not there, and keep what the compiler decided.

  pip install jax libtpu                      # any TPU from v2 to tpu7x      (pip install 'jax[cuda13]' for a100, h100, b200)
  python compile.py examples/gpt_step.py --chip v5e -o gpt_step
  echelon run --trace gpt_step --device tpu-v5e

FILE.py defines `build(target)` and returns (function, tuple of arguments), or a third: a dict of keyword arguments. The function may be a jax.jit,
flax's nnx.jit, equinox's filter_jit, or one that calls such (what that donates is donated).
`target.array(shape, dtype, host=False)` describes an argument and where it lives; arrays and ShapeDtypeStructs (jax.eval_shape) that name no sharding
are taken to lie on the device, and static arguments are passed as they are. `target.device` and `target.host` are shardings for jax.device_put;
nothing is run and nothing is allocated. `--set name=value` passes a keyword to build (numbers are numbers).

`--no-codegen` (TPUs) ends the compiler when it has written the program and its assignment: seconds, where it may take many minutes to generate the code of large
Pallas kernels. Kernels then carry no estimates of the compiler, and what it would have refused while generating code is not known.

`--mesh data=2,model=2` compiles for that many chips: `target.mesh` is their mesh, `target.array(..., spec=("data", None))` shards an argument,
`target.sharding("data", None)` is the sharding for jax.lax.with_sharding_constraint. The files then hold what one device runs. A program that makes
meshes of its own makes them of `target.devices`.

The folder then holds
  program.hlo.txt.gz                  the scheduled module
  program.buffer-assignment.txt.gz    every buffer, its memory and offset
  program.before.hlo.txt.gz           with --before: the module as it was handed to the compiler, without schedule, fusions or copies
  program.json                        memory_analysis() in the compiler's own words, the chip, the versions, the command, what the compiler refused, and the
                                      integers that a captured program was given last
"""
import argparse
import ctypes
import glob
import gzip
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import inspect
import json
import math
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import time

# chip: (slices it is sold in, devices per chip, prefix of TPU_ACCELERATOR_TYPE, what that counts per chip). Chips whose cores are devices of their own
# have two devices each. The smallest slice with enough devices is described; --topology names another.
FLAT = ("1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
CUBE = ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8", "8x8x16", "8x16x16")
TPUS = {
    "v2": (("2x2", "4x4", "8x8", "16x16"), 2, "v2", 2),
    "v3": (("2x2", "4x4", "8x8", "16x16", "32x32"), 2, "v3", 2),
    "v4": (CUBE, 2, "v4", 2),
    "v5e": (FLAT, 1, "v5litepod", 1),
    "v5p": (CUBE, 1, "v5p", 2),
    "v6e": (FLAT, 1, "v6e", 1),
    "tpu7x": (CUBE, 2, "tpu7x", 2),
}
# XLA's own figures for its targets (openxla/xla xla/backends/gpu/target_config/specs): SMs, FP32 lanes per SM, memory bytes/s,
# L2 bytes, clock GHz, memory bytes, shared memory per SM, shared memory per block (opt-in), compute capability, PCIe bytes/s.
GPUS = {
    "a100": ("NVIDIA A100-SXM4-80GB", 108, 64, 2039040000000, 41943040, 1.41, 85100068864, 167936, 166912, (8, 0), 17179869184),
    "h100": ("NVIDIA H100 80GB HBM3", 132, 128, 3352320000000, 52428800, 1.98, 84942979072, 233472, 232448, (9, 0), 34359738368),
    "b200": ("NVIDIA B200", 148, 128, 7672320000000, 132644864, 1.965, 191514411008, 233472, 232448, (10, 0), 68719476736),
}
ESTIMATED = ((9, 0), (10, 0))  # compute capabilities that XLA has tables of kernels for; it compiles for no others where its estimates are asked for
CUDA_PACKAGE = "'jax[cuda13]'"
PRETEND = "run the program itself under 'echelon capture --pretend DEVICE' (traces/capture/README.md), where it finds one"
GPU_TARGET = """
gpu_device_info {{
  threads_per_block_limit: 1024  threads_per_warp: 32  shared_memory_per_block: 49152  threads_per_core_limit: 2048
  block_dim_limit_x: 2147483647  block_dim_limit_y: 65535  block_dim_limit_z: 65535
  thread_dim_limit_x: 1024  thread_dim_limit_y: 1024  thread_dim_limit_z: 64
  registers_per_core_limit: 65536  registers_per_block_limit: 65536
  core_count: {sms}  fpus_per_core: {lanes}  memory_bandwidth: {bandwidth}  l2_cache_size: {l2}  clock_rate_ghz: {clock}
  device_memory_size: {memory}  shared_memory_per_core: {shared}  shared_memory_per_block_optin: {optin}
  cuda_compute_capability {{ major: {major} minor: {minor} feature_extension: {extension} }}
  pcie_bandwidth: {pcie}  name: "{name}"  device_vendor: "NVIDIA Corporation"  device_address_bits: 64  ecc_enabled: true
  driver_version: "13.0.0"  runtime_version: "12.8.0"  compile_time_toolkit_version: "12.8.0"  dnn_version: "9.10.0"
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 patch: 0 }}
runtime_version {{ major: 12 minor: 8 }}
device_description_str: "{name}"
"""


def chip_of(device_kind):
    """The name here of what libtpu calls "TPU v5 lite"; None where it is none of these."""
    return {"TPU v2": "v2", "TPU v3": "v3", "TPU v4": "v4", "TPU v5 lite": "v5e", "TPU v5": "v5p", "TPU v6 lite": "v6e",
            "TPU7x": "tpu7x"}.get(device_kind)


def chips_of(slice_):
    return math.prod(int(n) for n in slice_.split("x"))


def choose_slice(chip, devices, topology):
    """The slice to describe: what --topology says, else the smallest with enough devices."""
    slices, per_chip, _, _ = TPUS[chip]
    if topology:
        slice_ = topology.split(":")[-1]
        if not re.fullmatch(r"\d+(x\d+){1,2}", slice_):
            sys.exit(f"--topology: '{topology}' is not a slice; expected something like {slices[0]} or {slices[2]}")
        return slice_
    for candidate in slices:
        if chips_of(candidate) * per_chip >= devices:
            return candidate
    sys.exit(f"a mesh of {devices} devices is larger than any slice of {chip}; the largest known has {chips_of(slices[-1]) * per_chip}")


def tpu_environment(chip, slice_):
    """What libtpu is to believe: no chip is opened, and several compilers may work side by side."""
    _, _, prefix, counted = TPUS[chip]
    return {"TPU_SKIP_MDS_QUERY": "1", "TPU_ACCELERATOR_TYPE": f"{prefix}-{chips_of(slice_) * counted}", "TPU_WORKER_HOSTNAMES": "localhost",
            "TPU_WORKER_ID": "0", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}


def describe_slice(chip, slice_):
    """The chips of a slice, of which a host has four at most."""
    from jax.experimental import topologies
    host = [min(int(n), 2) for n in slice_.split("x")[:2]] + [1]
    return topologies.get_topology_desc(platform="tpu", topology_name=f"{chip}:{slice_}", chips_per_host_bounds=host).devices


def parse_mesh(text):
    """'data=2,model=4' -> {'data': 2, 'model': 4}"""
    mesh = {}
    for part in text.split(","):
        name, _, size = part.partition("=")
        if not name.isidentifier() or not size.isdigit() or int(size) < 1:
            sys.exit(f"--mesh: '{part}' is not NAME=SIZE; expected something like data=2,model=4")
        mesh[name] = int(size)
    return mesh


def tell_pallas(device):
    """Kernels that ask which chip they are for (emit_pipeline's) look at the one that is here: tell them of the described one."""
    for name in ("jax._src.tpu_info", "jax._src.pallas.mosaic.tpu_info"):  # since jax 0.11, and before; kernels of older ones do not ask
        try:
            tpu_info = importlib.import_module(name)
        except ImportError:
            continue
        tpu_info.get_device_kind = lambda: device.device_kind
        tpu_info.get_num_device_cores = lambda: device.num_cores


class Target:
    """The described chip or chips: their mesh, shardings on their memories, and arguments that live there."""

    def __init__(self, chip, slice_, axes):
        import jax
        import numpy as np
        from jax.experimental import topologies
        from jax.sharding import Mesh, NamedSharding, PartitionSpec

        self.chip, self.jax = chip, jax
        self.is_gpu = chip in GPUS
        if self.is_gpu:
            name, sms, lanes, bandwidth, l2, clock, memory, shared, optin, (major, minor), pcie = GPUS[chip]
            self.capability = (major, minor)
            text = GPU_TARGET.format(name=name, sms=sms, lanes=lanes, bandwidth=bandwidth, l2=l2, clock=clock, memory=memory, shared=shared, optin=optin,
                                     major=major, minor=minor, extension="ACCELERATED_FEATURES" if major >= 9 else "NONE", pcie=pcie)
        try:
            if self.is_gpu:
                described = topologies.get_topology_desc(platform="cuda", target_config=text, topology=f"1x1x{math.prod(axes.values())}").devices
            else:
                described = describe_slice(chip, slice_)
        except NotImplementedError:
            sys.exit(f"this jax knows no {'CUDA' if self.is_gpu else 'TPU'} compiler; pip install {CUDA_PACKAGE if self.is_gpu else 'libtpu'}")
        except (RuntimeError, ValueError) as error:
            wanted = "" if self.is_gpu else f" Slices of {chip}: {', '.join(TPUS[chip][0])}."
            sys.exit(f"{chip} cannot be described: {str(error).splitlines()[0]}{wanted}")
        devices = math.prod(axes.values())
        if devices > len(described):
            sys.exit(f"the mesh has {devices} devices, {chip}:{slice_} only {len(described)}")
        self.devices = described[:devices]
        if not self.is_gpu:
            tell_pallas(self.devices[0])
        mesh = self.mesh = Mesh(np.array(self.devices).reshape(list(axes.values())), tuple(axes))

        class Kind(str):
            """A memory kind; the compiler for a described GPU tells none of what it returns, which jax would take for another one (out_shardings=)."""
            def __ne__(self, other):
                return other is not None and str.__ne__(self, other)

        class Described(NamedSharding):
            """Described GPUs list no memories, and NamedSharding drops a memory kind that is not listed: keep it."""
            memory_kind = property(lambda sharding: sharding.kept_kind)

            def __eq__(self, other):
                return type(self) is type(other) and NamedSharding.__eq__(self, other)

            def __hash__(self):
                return hash((type(self).__name__, NamedSharding.__hash__(self)))

        def sharding(*spec, memory="device"):
            for axis in (a for part in spec if part for a in ((part,) if isinstance(part, str) else part)):
                if axis not in axes:
                    sys.exit(f"something is split over '{axis}', which --mesh does not name; expected something like --mesh {axis}=2")
            if self.is_gpu:
                return type("On_" + memory, (Described,), {"kept_kind": Kind(memory)})(mesh, PartitionSpec(*spec))
            return NamedSharding(mesh, PartitionSpec(*spec), memory_kind=memory)

        self.sharding, self.device, self.host = sharding, sharding(), sharding(memory="pinned_host")
        self.whole = []  # bytes of each argument that nothing says how to split

    def array(self, shape, dtype="float32", host=False, spec=()):
        """An argument of this shape in device or pinned host memory; spec names the mesh axis of each dimension that is split."""
        return self.jax.ShapeDtypeStruct(shape, dtype, sharding=self.sharding(*spec, memory="pinned_host" if host else "device"))

    def arrays(self, tree, host=False):
        """The same for every array (or ShapeDtypeStruct) of a tree."""
        return self.jax.tree.map(lambda leaf: self.array(leaf.shape, leaf.dtype, host), tree)

    def described(self, leaf):
        """An argument as the compiler is to see it: what is here, or nowhere yet, is on the target."""
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            return leaf  # static, or a Python number
        sharding = getattr(leaf, "sharding", None)
        if sharding is not None and not isinstance(leaf, self.jax.Array):
            return leaf
        if leaf.shape:
            self.whole.append(math.prod(leaf.shape) * getattr(leaf.dtype, "itemsize", 4))
        return self.array(leaf.shape, leaf.dtype)


def settings(parser, option, pairs):
    """["a=1", "b=x"] -> {"a": 1, "b": "x"}"""
    for pair in pairs:
        if "=" not in pair:
            parser.error(f"{option}: '{pair}' is not NAME=VALUE")
    return {name: number(value) for name, value in (pair.split("=", 1) for pair in pairs)}


def load(parser, path):
    """The module of the user's file, whatever its name ends in."""
    if not os.path.isfile(path):
        parser.error(f"{path}: no such file")
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_loader("program", importlib.machinery.SourceFileLoader("program", path))
    module = importlib.util.module_from_spec(spec)
    sys.modules["program"] = module
    spec.loader.exec_module(module)
    if not callable(getattr(module, "build", None)):
        sys.exit(f"{path} defines no function build(target); it should return a jitted function and a tuple of its arguments (examples/ has some)")
    return module


def built(target, module, keywords):
    """What build returned, as a jitted function, its arguments, its keyword arguments."""
    try:
        inspect.signature(module.build).bind(target, **keywords)
    except TypeError as error:
        sys.exit(f"build{inspect.signature(module.build)} does not take what --set says: {error}")
    result = module.build(target, **keywords)
    if not isinstance(result, tuple) or len(result) not in (2, 3) or not callable(result[0]) or not isinstance(result[1], (tuple, list)):
        sys.exit("build should return (function, tuple of arguments) or (function, tuple of arguments, dict of keyword arguments)")
    function, arguments, named = result[0], result[1], result[2] if len(result) == 3 else {}
    arguments, named = target.jax.tree.map(target.described, (tuple(arguments), dict(named)))
    if len(target.devices) > 1 and sum(target.whole) >= 1 << 20:
        print(f"{len(target.whole)} arrays of the arguments, {sum(target.whole) / 2**20:.1f} MiB, say nothing of how they are split: each of the "
              f"{len(target.devices)} devices holds them whole (ShapeDtypeStruct(..., sharding=target.sharding(...)) splits one)", file=sys.stderr)
    return (function, arguments, named) if hasattr(function, "trace") else wrapped(target.jax, function, arguments, named)


def wrapped(jax, function, arguments, named):
    """What is no jax.jit itself (a plain function, a method, equinox's filter_jit) as one: arrays are traced, all else stays as it is; arguments that are
    donated to a jitted function inside are donated."""
    def is_array(leaf):
        return hasattr(leaf, "shape") and hasattr(leaf, "dtype")

    leaves, tree = jax.tree.flatten((arguments, named))

    def call(*arguments, **named):
        given = iter(jax.tree.leaves((arguments, named)))
        arguments, named = jax.tree.unflatten(tree, [next(given) if is_array(leaf) else leaf for leaf in leaves])
        return [leaf for leaf in jax.tree.leaves(function(*arguments, **named)) if is_array(leaf)]

    call.__name__ = getattr(function, "__name__", None) or getattr(getattr(function, "__wrapped__", None), "__name__", None) or "step"
    arguments, named = jax.tree.unflatten(tree, [leaf if is_array(leaf) else None for leaf in leaves])
    jaxpr = jax.jit(call).trace(*arguments, **named).jaxpr.jaxpr
    donated, kept = set(), {id(v) for v in jaxpr.outvars}
    for equation in jaxpr.eqns:
        gone = equation.params.get("donated_invars", (False,) * len(equation.invars))
        donated |= {id(v) for v, g in zip(equation.invars, gone) if g}
        kept |= {id(v) for v, g in zip(equation.invars, gone) if not g}
    inputs, whole = iter(jaxpr.invars), []
    for k, argument in enumerate(arguments):
        ids = {id(next(inputs)) for _ in jax.tree.leaves(argument)}
        if ids and ids <= donated - kept:
            whole.append(k)
        elif ids & donated:
            print(f"argument {k} is donated in part: it is taken as kept (donate whole arguments)", file=sys.stderr)
    return jax.jit(call, donate_argnums=whole), arguments, named


def refusal(error):
    """What the compiler said, without the encoded copy of it that comes last."""
    return re.sub(r"\s*\[type\.googleapis\.com/.*\Z", "", str(error), flags=re.DOTALL)[:20000].strip()


def gist(text):
    """The sentences of a refusal that say what did not fit; the shapes and operands of instructions are in the program."""
    text = re.sub(r"(%[\w.-]+) = .*?(?=(?:\. |\n|$))", r"\1", text.split("\n\n")[0])
    return re.sub(r"\s+", " ", re.sub(r" *It should not be possible.*| *See https?:.*", "", text, flags=re.DOTALL)).strip()


def number(text):
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            pass
    return {"true": True, "false": False}.get(text.lower(), text)


def have_dumped(folder, flags):
    """Has XLA, which looks at the environment once, write all that it compiles into the folder, and heed @flags. The program's own flags win over those, but not
    where they ask for dumps of some modules elsewhere."""
    theirs = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = f"{flags} {theirs} --xla_dump_to={folder} --xla_dump_hlo_as_text --xla_dump_hlo_module_re=."


def dumped(dump, ends):
    """The first of these dumps that there is of the program: not of what the user's file ran on this machine to make its arguments, nor of the modules that
    the compiler took out of the program."""
    try:
        with open(os.path.join(dump, "module"), encoding="utf-8") as name:
            named = glob.escape(name.read())
    except OSError:
        return None
    for end in ends:
        for module in (named, "*"):
            found = [f for f in glob.glob(os.path.join(glob.escape(dump), f"module_*.{module}.*{end}")) if ".cpu_after" not in f]
            # A module of that name that ran here too has no more to its name.
            found = [f for f in found if not f.endswith(f".{named}.{end}")] or found
            if found:
                return max(found, key=os.path.getsize)
    return None


def keep(source, path):
    """Copy a dump, gzipped; in its table of file names a path stays only below the current folder (elsewhere its last two parts, or what follows
    site-packages)."""
    def shorten(line):
        name = re.fullmatch(r'(\d+ ")(/[^"]*)("\s*)', line)
        if not name:
            return line
        inside, library = os.path.relpath(name[2]), re.search(r"(?:site|dist)-packages/.*", name[2])
        if library:  # said, so that readers can tell them from the program's own files
            return name[1] + library[0] + name[3]
        return name[1] + ("/".join(name[2].split("/")[-2:]) if inside.startswith("..") else inside) + name[3]

    def keep_small(line):  # a Pallas kernel's lists of blocks are worth keeping, a table of weights is not
        return re.sub(r" constant\(\{[^()]*\}\)", " constant({...})", line) if len(line) > 65536 and " constant({" in line else line

    in_names = False
    with open(source, encoding="utf-8", errors="surrogateescape") as text, open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as out:
        for line in text:
            in_names = line.strip() == "FileNames" or (in_names and line.strip() != "")
            out.write((shorten(line) if in_names else keep_small(line)).encode("utf-8", "surrogateescape"))


def keep_program(dump, stem, what, before=False, package="jax", ran=False):
    """The program's files, from the dumps; @what is known of it besides; the @package that asked for it; @ran: this process runs it, and what it launches names
    the module by its number. False where the compiler left none."""
    scheduled = dumped(dump, ["after_codegen.txt"] * what["codegen"] + ["gpu_after_optimizations.txt", "after_optimizations.txt"])
    assignment = dumped(dump, ["after_optimizations-buffer-assignment.txt"])
    if not scheduled:
        return False
    os.makedirs(os.path.dirname(stem) or ".", exist_ok=True)
    keep(scheduled, stem + ".hlo.txt.gz")
    before = dumped(dump, ["before_optimizations.txt"]) if before else None
    if before:
        keep(before, stem + ".before.hlo.txt.gz")
    if assignment:
        keep(assignment, stem + ".buffer-assignment.txt.gz")
    number = re.match(r"module_(\d+)\.", os.path.basename(scheduled)) if ran else None
    process = {"program_id": int(number[1]), "written_unix_ns": time.time_ns()} if number else {}
    with open(stem + ".json", "w") as out:
        json.dump({**{k: what[k] for k in ("chip", "command")}, package: importlib.metadata.version(package), **process,
                   **{k: what[k] for k in ("codegen", "error", "refused", "memory_analysis")}}, out, indent=1)
        out.write("\n")
    return True


def note_arguments(stem, arguments):
    """Beside what is noted of a program: the integers that it was given last, by the numbers of its parameters. How long sequences are, say."""
    with open(stem + ".json") as file:
        notes = json.load(file)
    with open(stem + ".json.part", "w") as out:
        json.dump({**notes, "arguments": {str(k): ",".join(map(str, values)) for k, values in arguments.items()}}, out, indent=1)
        out.write("\n")
    os.replace(stem + ".json.part", stem + ".json")


def run_compiler(parser, args, slice_, axes, keywords, options, dump):
    """Compiles, and returns memory_analysis() and what the compiler refused, if anything; its dumps are in the folder."""
    try:
        import jax
    except ImportError:
        sys.exit(f"jax is not here; pip install {'jax libtpu' if args.chip in TPUS else CUDA_PACKAGE}")

    # The code of Pallas kernels names files too: of libraries, what follows site-packages.
    jax.config.update("jax_hlo_source_file_canonicalization_regex", r".*/(?=(?:site|dist)-packages/)")
    module = load(parser, args.file)
    target = Target(args.chip, slice_, axes)
    function, arguments, named = built(target, module, keywords)
    if target.is_gpu:  # no device to time candidates on
        options = {"xla_gpu_autotune_level": 0, "xla_gpu_collect_cost_model_stats": target.capability in ESTIMATED, "xla_dump_to": dump,
                   "xla_dump_hlo_as_text": True, **options}
    traced = function.trace(*arguments, **named)
    try:
        lowered = traced.lower(lowering_platforms=("cuda" if target.is_gpu else "tpu",))
    except RuntimeError as error:
        if "No supported GPU devices" not in str(error):
            raise
        sys.exit(f"a Pallas kernel asks the GPU what it is, and there is none: {PRETEND}")
    with open(os.path.join(dump, "module"), "w", encoding="utf-8") as name:  # how its dumps are called
        name.write(str(lowered.compiler_ir().operation.attributes["sym_name"].value))
    try:
        compiled = lowered.compile(compiler_options=options or None)
        memory = compiled.memory_analysis()
        return {n: getattr(memory, n) for n in dir(memory) if n.endswith("_in_bytes") and isinstance(getattr(memory, n), int)}, None
    except jax.errors.JaxRuntimeError as error:  # a program that does not fit still leaves its program and assignment
        return {}, refusal(error)


def written(dump):
    """Bytes of the buffer assignment once all is there that the compiler writes before it generates code, a module's options the last of it; until then 0."""
    try:
        with open(os.path.join(dump, "module"), encoding="utf-8") as name:
            stem = os.path.join(glob.escape(dump), f"module_*.{glob.escape(name.read())}.*")
    except OSError:
        return 0
    end = "after_optimizations-buffer-assignment.txt"
    return max((os.path.getsize(path) for path in glob.glob(stem + end) if os.path.exists(path[:-len(end)] + "debug_options")), default=0)


def watched(dump, work):
    """Does the work in a child process that is ended once the program and its assignment are written."""
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it does not outlive who waits for it
        _, failure = work()
        with open(os.path.join(dump, "failure"), "w", encoding="utf-8") as out:
            out.write(failure or "")
        sys.stdout.flush()
        os._exit(0)
    status, left, size = None, 20, 0  # tenths of a second: time to refuse what it has written, since that comes next; a large assignment takes its time
    try:
        while status is None and left > 0:
            time.sleep(0.1)
            before, size = size, written(dump)
            left = left - 1 if 0 < size == before else 20
            ended, how = os.waitpid(child, os.WNOHANG)
            status = how if ended else None
    finally:
        if status is None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    if status:  # it has said why
        code = os.waitstatus_to_exitcode(status)
        sys.exit(code if code > 0 else f"the compiler ended by signal {-code}")
    try:
        with open(os.path.join(dump, "failure"), encoding="utf-8") as text:
            return {}, text.read() or None
    except OSError:
        return {}, None


def temporary_folder():
    """A folder that goes when this process does, however it ends: a compiler is often killed."""
    folder = tempfile.mkdtemp(prefix="echelon-compile-")
    ours, theirs = os.pipe()
    if os.fork() == 0:
        os.setsid()
        os.close(theirs)
        os.read(ours, 1)  # returns when nobody holds the other end any more
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)
    os.close(ours)
    return folder


def main():
    chips = sorted(TPUS) + sorted(GPUS)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="Python file that defines build(target)")
    parser.add_argument("--chip", required=True, choices=chips, type=lambda chip: chip[4:] if chip[:4] == "tpu-" else chip)
    parser.add_argument("-o", "--out", required=True, help="folder to write")
    parser.add_argument("--name", default="program", help="stem of the files (default: program)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="keyword argument of build")
    parser.add_argument("--mesh", default="x=1", help="axes of the mesh of devices, as data=2,model=4 (default: one device)")
    parser.add_argument("--topology", help="slice to describe, as 4x4 (default: the smallest with enough devices)")
    parser.add_argument("--before", action="store_true", help="keep the module before optimisation too")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="compiler option (xla_...)")
    parser.add_argument("--no-codegen", action="store_true", help="end the compiler when the program and its buffer assignment are written")
    args = parser.parse_args()
    if args.no_codegen and args.chip not in TPUS:
        parser.error("--no-codegen is for TPUs")

    dump = temporary_folder()
    os.environ["JAX_PLATFORMS"] = "cpu"  # nothing is run here; the target is described, not present
    keywords, options = settings(parser, "--set", args.set), settings(parser, "--option", args.option)
    axes = parse_mesh(args.mesh)
    slice_ = None
    if args.chip in TPUS:
        slice_ = choose_slice(args.chip, math.prod(axes.values()), args.topology)
        os.environ.update(tpu_environment(args.chip, slice_))
        have_dumped(dump, "--xla_dump_large_constants")
    try:
        os.makedirs(args.out, exist_ok=True)
    except OSError as error:
        sys.exit(f"{args.out} cannot be written: {error.strerror}")
    def work():
        return run_compiler(parser, args, slice_, axes, keywords, options, dump)

    analysis, failure = watched(dump, work) if args.no_codegen else work()

    stem = os.path.join(args.out, args.name)
    what = {"chip": args.chip, "command": " ".join([os.path.basename(sys.argv[0])] + sys.argv[1:]), "codegen": not args.no_codegen, "error": failure,
            "refused": failure and gist(failure), "memory_analysis": analysis}
    if not keep_program(dump, stem, what, args.before):
        # Without a GPU to time on XLA gives some products no kernel at all (JAX 0.11, 6304 rows).
        sys.exit(f"the compiler left no program: {failure or 'no message'}" + (f"\n{PRETEND}" if "No supported config found" in (failure or "") else ""))
    device = args.chip if args.chip == "tpu7x" else {"a100": "a100-80", "h100": "h100-sxm"}.get(args.chip, args.chip if args.chip in GPUS else "tpu-" + args.chip)
    if failure:
        print(f"The compiler refused the program: {gist(failure)}\nIts files show why:", file=sys.stderr)
    print(f"{stem}.hlo.txt.gz written; now: echelon run --trace {shlex.quote(args.out)} --device {device}")


if __name__ == "__main__":
    main()
