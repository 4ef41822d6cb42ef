"""What `echelon capture --pretend tpu-v5e` adds to a JAX program: each function of jax.jit that it calls is compiled by the real TPU compiler for the chip
that is not there, and written down as traces/capture/compile.py writes programs. Nothing of it is run: results are zeros.

All arrays are on CPU devices, as many as the chips that are pretended, so that meshes, shardings and memory kinds of the program hold. What the program does
outside of jax.jit runs on the CPU, for real."""
import atexit
import functools
import math
import mmap
import os
import re
import sys
import time
import weakref

import pretend_compile as capture  # traces/capture/compile.py


def _say(text):
    sys.stderr.write("echelon capture: %s\n" % text)


class _Program:
    """A compiled function: what its results are, how often it was called, and what else was on the device then."""

    def __init__(self, name, tree, results, donated, executable):
        self.name, self.tree, self.results, self.donated, self.executable = name, tree, results, donated, executable
        self.calls = self.beside = 0


class _Jitted:
    """A function of jax.jit. Inside of others, and of transformations, it is what it was."""

    def __init__(self, pretended, function, jitted, options):
        functools.update_wrapper(self, function)
        self._pretended, self._jitted, self._options = pretended, jitted, options

    def __call__(self, *given, **named):
        if not self._pretended.is_outermost():
            return self._jitted(*given, **named)
        return self._pretended.call(self._pretended.program_of(self._jitted, given, named, self._options), given, named)

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def __getattr__(self, name):
        return getattr(self._jitted, name)

    def lower(self, *given, **named):
        return _Lowered(self._pretended, self._jitted.lower(*given, **named), self._jitted, given, named, self._options)


class _Lowered:
    def __init__(self, pretended, lowered, jitted, given, named, options):
        self._lowered, self._make = lowered, functools.partial(pretended.program_of, jitted, given, named)
        self._pretended, self._options = pretended, options

    def compile(self, compiler_options=None):
        return _Compiled(self._pretended, self._make({**self._options, **(compiler_options or {})}))

    def __getattr__(self, name):
        return getattr(self._lowered, name)


class _Compiled:
    def __init__(self, pretended, program):
        self._pretended, self._program = pretended, program

    def __call__(self, *given, **named):
        return self._pretended.call(self._program, given, named)

    def memory_analysis(self):
        return self._program.executable.get_compiled_memory_stats()


class _Pretended:
    def __init__(self, jax, chip, n_devices):
        from jax.experimental import topologies
        self.jax, self.chip = jax, chip
        self.dump = capture.temporary_folder()
        os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_dump_to=%s --xla_dump_hlo_as_text --xla_dump_large_constants" % self.dump
        slice_ = capture.choose_slice(chip, n_devices, None)
        os.environ.update(capture.tpu_environment(chip, slice_))
        try:
            self.devices = topologies.get_topology_desc(platform="tpu", topology_name="%s:%s" % (chip, slice_)).devices[:n_devices]
        except NotImplementedError:
            sys.exit("echelon capture: this jax knows no TPU compiler; pip install libtpu")
        capture.tell_pallas(self.devices[0])
        self.programs, self.names = {}, {}
        self.nothing = None  # zeros, as many as the largest result took
        self.made = weakref.WeakValueDictionary()  # arrays of such zeros, by id
        atexit.register(self.tell)

    def is_outermost(self):
        from jax._src import core
        return core.trace_state_clean() and not self.jax.config.jax_disable_jit

    # -- compiling --

    def program_of(self, jitted, given, named, options):
        traced = jitted.trace(*given, **named)
        leaves = self.jax.tree.leaves((given, named))
        key = (id(traced.jaxpr), tuple(str(getattr(leaf, "sharding", None)) for leaf in leaves), str(options))
        if key not in self.programs:
            self.programs[key] = (self.compile(traced, options), traced)  # the latter stays, or its id would be another's
        return self.programs[key][0]

    def folder_of(self, name):
        """PREFIX.PID.NAME, and from the second program of a name on .2, .3..."""
        name = re.sub(r"[^\w-]+", "_", name).strip("_") or "program"
        self.names[name] = self.names.get(name, 0) + 1
        again = ".%d" % self.names[name] if self.names[name] > 1 else ""
        return "%s.%d.%s%s" % (os.environ["ECHELON_PRETEND_TPU_OUT"], os.getpid(), name, again)

    def compile(self, traced, options):
        import numpy
        from jax._src import compiler
        from jaxlib import _jax
        begun = time.monotonic()
        lowered = traced.lower(lowering_platforms=("tpu",))
        lowering = lowered._lowering
        module = lowering.stablehlo()
        name = str(module.operation.attributes["sym_name"].value)
        n = lowering.compile_args["num_devices"]
        settings = compiler.get_compile_options(num_replicas=1, num_partitions=n, device_assignment=numpy.array(self.devices[:n], dtype=object).reshape(1, n),
                                                env_options_overrides={k: str(v) for k, v in options.items()} or None)
        build = settings.executable_build_options
        build.allow_spmd_sharding_propagation_to_parameters = [_unsaid(s) for s in lowering.compile_args["in_shardings"]]
        build.allow_spmd_sharding_propagation_to_output = [_unsaid(s) for s in lowering.compile_args["out_shardings"]]
        with open(os.path.join(self.dump, "module"), "w", encoding="utf-8") as file:
            file.write(name)
        error = executable = None
        try:
            executable = self.devices[0].client.compile(module, _jax.DeviceList(tuple(self.devices[:n])), settings)
        except self.jax.errors.JaxRuntimeError as refused:
            error = refused
        folder = self.folder_of(name[4:] if name.startswith("jit_") else name)
        memory = executable.get_compiled_memory_stats() if executable is not None else None
        analysis = {k: getattr(memory, k) for k in dir(memory) if k.endswith("_in_bytes") and isinstance(getattr(memory, k), int)}
        failure = capture.refusal(error) if error is not None else None
        kept = capture.keep_program(self.dump, os.path.join(folder, "program"), {"chip": self.chip, "command": "", "codegen": True, "error": failure,
                                                                                    "refused": failure and capture.gist(failure), "memory_analysis": analysis})
        for left in os.listdir(self.dump):
            if os.path.isfile(os.path.join(self.dump, left)):
                os.unlink(os.path.join(self.dump, left))
        if error is not None:
            _say("%s: refused: %s" % (os.path.basename(folder), capture.gist(failure)) if kept else "%s: the compiler left no program" % name)
            raise error
        results, tree = self.jax.tree.flatten(lowered.out_info)
        donated = [info.donated for info in self.jax.tree.leaves(lowered.args_info, is_leaf=lambda leaf: hasattr(leaf, "donated"))]
        _say("%s: compiled for %d x %s in %.1f s" % (os.path.basename(folder), n, self.chip, time.monotonic() - begun))
        return _Program(folder, tree, list(zip(results, self.shardings_of(lowering, executable, n))), donated, executable)

    def shardings_of(self, lowering, executable, n):
        """Of each result: as the program says, else as the compiler chose."""
        from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding
        from jax._src import mesh as mesh_lib, sharding_impls
        said = lowering.compile_args["out_shardings"]
        inside = lowering.compile_args.get("intermediate_shardings") or ()
        meshes = [s.mesh for s in (*lowering.compile_args["in_shardings"], *said, *inside) if isinstance(s, NamedSharding)]
        meshes += [lowering.compile_args.get("context_mesh"), mesh_lib.get_concrete_mesh()]
        mesh = next((m for m in meshes if isinstance(m, Mesh) and not m.empty), None)
        kinds = executable.get_output_memory_kinds()[0]
        chosen = executable.get_output_shardings() or [None] * len(said)
        device = self.jax.devices()[0]
        found = []
        for own, compiled, kind in zip(said, chosen, kinds):
            if not _unsaid(own) and getattr(own, "mesh", None) is not None and not isinstance(own.mesh, AbstractMesh):
                found.append(own)
            elif mesh is None:
                found.append(SingleDeviceSharding(device, memory_kind=kind))
            elif n == 1 or compiled is None:
                found.append(NamedSharding(mesh, PartitionSpec(), memory_kind=kind))
            else:
                spec = sharding_impls.parse_flatten_op_sharding(compiled, mesh)[0]
                found.append(NamedSharding(mesh, spec if isinstance(spec, PartitionSpec) else spec.partitions, memory_kind=kind))
        return found

    # -- calling --

    def call(self, program, given, named):
        leaves = self.jax.tree.leaves((given, named))
        program.calls += 1
        program.beside = max(program.beside, self.bytes_beside(leaves))
        results = [self.zeros(info, sharding) for info, sharding in program.results]
        if len(leaves) != len(program.donated):
            leaves = [leaf for leaf in leaves if hasattr(leaf, "dtype")]  # without static arguments
        for leaf, gone in zip(leaves, program.donated if len(leaves) == len(program.donated) else ()):
            if gone and isinstance(leaf, self.jax.Array) and not leaf.is_deleted():
                leaf.delete()
        return self.jax.tree.unflatten(program.tree, results)

    def bytes_beside(self, leaves):
        """What else a device holds while the program runs."""
        own = {id(leaf) for leaf in leaves}
        total = 0
        for array in self.jax.live_arrays():
            if id(array) not in own and getattr(array.sharding, "memory_kind", None) != "pinned_host" and not array.is_deleted():
                total += math.prod(array.sharding.shard_shape(array.shape)) * array.dtype.itemsize
        return total

    def zeros(self, info, sharding):
        """An array that takes no memory: all of them are the same page of zeros, read over and over."""
        jax = self.jax
        if jax.dtypes.issubdtype(info.dtype, jax.dtypes.prng_key):
            return jax.random.split(jax.random.key(0, impl=info.dtype._impl.name), info.shape) if info.shape else jax.random.key(0, impl=info.dtype._impl.name)
        import numpy
        dtype = numpy.dtype(info.dtype)
        shape = sharding.shard_shape(info.shape)
        n = math.prod(shape) * dtype.itemsize
        if self.nothing is None or len(self.nothing) < n:
            self.nothing = mmap.mmap(-1, max(n, mmap.PAGESIZE), prot=mmap.PROT_READ)
        shard = numpy.frombuffer(self.nothing, dtype=numpy.uint8, count=n).view(dtype).reshape(shape)
        array = jax.make_array_from_callback(info.shape, sharding, lambda index: shard)
        self.made[id(array)] = array
        return array

    def putting(self, device_put):
        """jax.device_put, but that zeros take no memory where they are put either: optimizer state on the host, parameters on a mesh."""
        jax = self.jax
        from jax.sharding import Sharding, SingleDeviceSharding

        def is_place(what):
            return what is None or isinstance(what, (Sharding, jax.Device))

        def put_leaf(leaf, place, named):
            if place is None or self.made.get(id(leaf)) is not leaf or leaf.is_deleted():
                return device_put(leaf, place, **named)
            put = self.zeros(leaf, place if isinstance(place, Sharding) else SingleDeviceSharding(place))
            if named.get("donate") is True:
                leaf.delete()
            return put

        @functools.wraps(device_put)
        def put(x, device=None, **named):
            places = jax.tree.leaves(device, is_leaf=is_place)
            if not self.is_outermost() or device is None or not all(map(is_place, places)):
                return device_put(x, device, **named)
            return jax.tree.map(lambda place, part: jax.tree.map(lambda leaf: put_leaf(leaf, place, named), part), device, x, is_leaf=is_place)

        return put

    # -- at the end --

    def tell(self):
        for program, _ in self.programs.values():
            beside = ", beside up to %.2f GiB of other arrays on each device" % (program.beside / 2**30) if program.beside >= 1 << 26 else ""
            _say("%s: called %d time%s%s" % (os.path.basename(program.name), program.calls, "" if program.calls == 1 else "s", beside))


def _unsaid(sharding):
    """Whether the program leaves it to the compiler."""
    return type(sharding).__name__ in ("UnspecifiedValue", "AUTO")


def install(jax):
    """When the program has imported jax: before it asks for devices."""
    chip, n_devices = os.environ["ECHELON_PRETEND_CHIP"], int(os.environ.get("ECHELON_PRETEND_DEVICES", "1"))
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", n_devices)
    jax.config.update("jax_hlo_source_file_canonicalization_regex", r".*/(?=(?:site|dist)-packages/)")
    from jax._src import source_info_util
    source_info_util.register_exclusion(__file__)  # no line of the program's
    pretended = _Pretended(jax, chip, n_devices)
    jit = jax.jit

    @functools.wraps(jit)
    def pretended_jit(function=None, /, **options):
        if function is None:
            return functools.partial(pretended_jit, **options)
        return _Jitted(pretended, function, jit(function, **options), dict(options.get("compiler_options") or {}))

    jax.jit = pretended_jit
    jax.device_put = pretended.putting(jax.device_put)
    jax.pmap = _said(jax.pmap, "jax.pmap runs on the CPU, for real, and is not compiled for the TPU; jax.jit with shardings is")
    jax.default_backend = lambda: "tpu"
    for name in ("devices", "local_devices"):
        setattr(jax, name, _of_any_backend(getattr(jax, name)))


def _said(function, text):
    said = []

    @functools.wraps(function)
    def saying(*given, **named):
        if not said:
            said.append(_say(text))
        return function(*given, **named)

    return saying


def _of_any_backend(devices):
    """jax.devices("tpu") are those that are pretended."""

    @functools.wraps(devices)
    def of(*given, **named):
        given = tuple(None if one == "tpu" else one for one in given)
        return devices(*given, **{name: None if one == "tpu" else one for name, one in named.items()})

    return of
