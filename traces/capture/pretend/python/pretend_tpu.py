"""What `echelon capture --pretend tpu-v5e` adds to a JAX program: each function of jax.jit that it calls is compiled by the real TPU compiler for the chip
that is not there, and written down as traces/capture/compile.py writes programs. Nothing of it is run: results are zeros.

All arrays are on CPU devices, as many as the chips that are pretended, so that meshes, shardings and memory kinds of the program hold; they look like the chips to
all but those parts of JAX that run things. What the program does outside of jax.jit runs on the CPU, for real."""
import atexit
import functools
import inspect
import hashlib
import os
import re
import sys
import threading
import time
import types

import pretend_arrays
import pretend_chips
import pretend_compile as capture  # traces/capture/compile.py
import pretend_known
import pretend_torch_tpu
import pretend_versions


_MOST_INTEGERS = 1 << 16  # of an argument whose values are kept
_SLOW = 30  # seconds of compiling after which that is said
_CHIP, _DEVICES = os.environ["ECHELON_PRETEND_CHIP"], int(os.environ["ECHELON_PRETEND_DEVICES"])
_SLICE = capture.choose_slice(_CHIP, _DEVICES, None)
_ENVIRONMENT = capture.tpu_environment(_CHIP, _SLICE)


def _say(text):
    sys.stderr.write("echelon capture: %s\n" % text)


class _Program:
    """A compiled function: what its results are, how often it was called, and what else was on the device then."""

    def __init__(self, name, written, lowered, results, known, donated, executable, n_devices):
        """@written: the compiler has left it; @known: as pretend_known tells them."""
        self.known = known
        self.name, self.tree, self.results, self.donated, self.executable = name, lowered.out_tree, results, donated, executable
        self.lowered, self.n_devices, self.memory = lowered, n_devices, executable.get_compiled_memory_stats()
        self.calls = self.beside = 0
        self.kept = sorted(lowered._lowering.compile_args["kept_var_idx"])  # which of its arguments are the program's parameters
        self.in_place, self.puts = pretend_versions.mutations_of(lowered._lowering)
        self.own = [k for k in range(len(results)) if not self.puts or self.puts[k] is None]  # results that it returns
        self.written = written
        self.given, self.noted, self.noted_at = {}, {}, 0.0

    def was_given(self, leaves, is_made):
        """The integers of the last call: what kernels choose their steps by. Kept now and then, for a process that others will kill."""
        import numpy
        if len(leaves) == len(self.donated):
            self.given = {}
            for k, leaf in enumerate(leaves[i] for i in self.kept):
                if isinstance(leaf, int):
                    self.given[k] = [int(leaf)]
                elif getattr(getattr(leaf, "dtype", None), "kind", "-") in "iub" and leaf.size <= _MOST_INTEGERS and not is_made(leaf):
                    own = leaf.addressable_data(0) if hasattr(leaf, "addressable_data") else leaf
                    self.given[k] = numpy.asarray(own).ravel().astype(int).tolist()
        if time.monotonic() > self.noted_at + 1:
            self.note()

    def note(self):
        if self.written and self.given != self.noted:
            capture.note_arguments(os.path.join(self.name, "program"), self.given)
            self.noted, self.noted_at = self.given, time.monotonic()

    def bytes_of_its_own(self):
        """What a device holds of it while it runs: arguments and results, too."""
        m = self.memory
        return m.argument_size_in_bytes + m.output_size_in_bytes - m.alias_size_in_bytes + m.temp_size_in_bytes


class _Jitted:
    """A function of jax.jit. Inside of others, and of transformations, it is what it was."""

    def __init__(self, pretended, function, jitted, options, static):
        """@options: the compiler's; static: numbers and names of the arguments that are no arrays."""
        functools.update_wrapper(self, function)
        self._pretended, self._jitted, self._options, self._static = pretended, jitted, options, static

    def __call__(self, *given, **named):
        pretended = self._pretended
        program, placed = pretended.program_of(self._jitted, given, named, self._options) if pretended.is_outermost() else (None, True)
        return pretended.call(program, placed, *self._traced_of(given, named)) if program else self._jitted(*given, **named)

    def _traced_of(self, given, named):
        """The arguments without the static ones."""
        numbers, names = self._static
        static = {at % len(given) for at in numbers if given}
        return tuple(one for at, one in enumerate(given) if at not in static), {name: one for name, one in named.items() if name not in names}

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name):
        return getattr(self._jitted, name)

    def trace(self, *given, **named):
        return _Traced(self._pretended, self._jitted.trace(*given, **named), self._options)

    def lower(self, *given, **named):
        return self.trace(*given, **named).lower()


class _Traced:
    def __init__(self, pretended, traced, options):
        self._pretended, self._traced, self._options = pretended, traced, options

    def lower(self, *, lowering_platforms=None, **named):
        if lowering_platforms not in (None, ("tpu",)):
            return self._traced.lower(lowering_platforms=lowering_platforms, **named)
        return _Lowered(self._pretended, self._traced, self._traced.lower(lowering_platforms=("tpu",), **named), self._options)

    def __getattr__(self, name):
        return getattr(self._traced, name)


class _Lowered:
    def __init__(self, pretended, traced, lowered, options):
        self._pretended, self._traced, self._lowered, self._options = pretended, traced, lowered, options

    def compile(self, compiler_options=None, **named):
        chips, ours = self._pretended.chips.described_of(pretend_versions.devices_of(self._lowered._lowering))
        if not ours:  # a topology that the program asked for, which JAX compiles for without a TPU; or the host
            return self._pretended.compiled_by_jax(self._lowered, chips[0], compiler_options, named)
        program = self._pretended.program_from(self._traced, self._lowered, {**self._options, **(compiler_options or {})})
        return _Compiled(self._pretended, program, _is_placed(self._lowered))

    def __getattr__(self, name):
        return getattr(self._lowered, name)


class _Compiled:
    """What jax.stages.Compiled says of a program, of the one for the TPU."""

    def __init__(self, pretended, program, placed):
        self._pretended, self._program, self._placed = pretended, program, placed

    def __call__(self, *given, **named):
        return self._pretended.call(self._program, self._placed, given, named)

    def memory_analysis(self):
        return self._program.memory

    def cost_analysis(self):
        return self._program.executable.cost_analysis()

    def as_text(self):
        return "\n\n".join(module.to_string() for module in self._program.executable.hlo_modules())

    def runtime_executable(self):
        return self._program.executable

    @property
    def input_shardings(self):
        lowering = self._program.lowered._lowering
        shardings = self._pretended.shardings_of(lowering, lowering.compile_args["in_shardings"], self._program.executable.get_parameter_shardings(), None,
                                                 self._program.n_devices)
        kept = lowering.compile_args["kept_var_idx"]
        of = dict(zip(sorted(kept), shardings)) if len(shardings) == len(kept) else dict(enumerate(shardings))
        return self.in_tree.unflatten([of.get(k) for k in range(self.in_tree.num_leaves)])

    @property
    def output_shardings(self):
        return self._program.tree.unflatten([self._program.results[k][1] for k in self._program.own])

    def __getattr__(self, name):
        if name in ("in_tree", "out_tree", "args_info", "in_avals", "out_info", "donate_argnums"):
            return getattr(self._program.lowered, name)
        raise AttributeError("echelon capture: '%s' of a compiled program is not pretended: nothing of it was loaded on a device" % name)


class _Pretended:
    def __init__(self, jax):
        self.jax, self.chip = jax, _CHIP
        self.dump = None
        self.hbm_bytes = int(os.environ["ECHELON_PRETEND_HBM"])
        self.chips = pretend_chips.Chips(jax, self.describe, self.hbm_bytes)
        self.arrays = pretend_arrays.Arrays(jax, self.chips)
        self.arrays.take_over()
        self.programs, self.written, self.names = {}, {}, {}  # by what was given; by what was compiled; folders of a name
        self.compiling = threading.RLock()  # one at a time: all are dumped into one folder
        self.called_as = None  # the name of the program's function, where JAX has wrapped it in one of its own
        self.teller = None  # the process that says at its end what it called

    def describe(self):
        """The chips; libtpu and XLA look at what the program told them by the environment now, and not again."""
        self.dump = capture.temporary_folder()
        capture.have_dumped(self.dump, "--xla_dump_large_constants")
        os.environ.update(_ENVIRONMENT)
        try:
            described = capture.describe_slice(_CHIP, _SLICE)[:_DEVICES]
        except NotImplementedError:
            sys.exit("echelon capture: this jax knows no TPU compiler; pip install libtpu")
        capture.tell_pallas(described[0])
        return described

    def is_outermost(self):
        from jax._src import core
        return core.trace_state_clean() and not self.jax.config.jax_disable_jit

    # -- compiling --

    def program_of(self, jitted, given, named, options):
        """None where the function runs on the host; and _is_placed."""
        traced = jitted.trace(*given, **named)
        leaves = self.jax.tree.leaves((given, named))
        places = tuple((str(getattr(leaf, "sharding", None)), getattr(leaf, "_committed", True)) for leaf in leaves)
        key = (id(traced.jaxpr), places, self.jax.config.jax_default_device, str(options))
        if key not in self.programs:
            lowered = traced.lower(lowering_platforms=("tpu",))
            ours = self.chips.described_of(pretend_versions.devices_of(lowered._lowering))[1]
            # What was traced stays, or its id would be another's.
            self.programs[key] = (self.program_from(traced, lowered, options) if ours else None, _is_placed(lowered), traced)
        return self.programs[key][:2]

    def program_from(self, traced, lowered, options):
        """Compiled once, however its arguments' shardings are written."""
        lowering = lowered._lowering
        chips, _ = self.chips.described_of(pretend_versions.devices_of(lowering))
        args = lowering.compile_args
        said = [[None if _unsaid(s) else str(s) for s in args[which]] for which in ("in_shardings", "out_shardings")]
        # By its leaves: JAX has made the classes around them anew, without what their constructors would have set, so that they may not print.
        given = [str(info) for info in self.jax.tree.leaves(lowered.args_info, is_leaf=lambda leaf: hasattr(leaf, "donated"))]
        open_ones = [s is None for s in said[0]] if len(chips) > 1 else []
        what = (said[1], open_ones, [chip.id for chip in chips], str(lowered.out_tree), str(lowered.in_tree), given, sorted(options.items()))
        text = _without_defaults(lowering.stablehlo().operation.get_asm(enable_debug_info=False))
        key = hashlib.sha256((text + repr(what)).encode()).hexdigest()
        with self.compiling:
            if key not in self.written:
                self.written[key] = self.compile(traced, lowered, chips, options)
            return self.written[key]

    def folder_of(self, name):
        """PREFIX.PID.NAME, and from the second program of a name on .2, .3..."""
        name = re.sub(r"[^\w-]+", "_", name).strip("_") or "program"
        self.names[name] = self.names.get(name, 0) + 1
        again = ".%d" % self.names[name] if self.names[name] > 1 else ""
        return "%s.%d.%s%s" % (os.environ["ECHELON_PRETEND_TPU_OUT"], os.getpid(), name, again)

    def name_of(self, lowered):
        """What the module is called in the compiler's dumps, and the function in the program."""
        module = str(lowered._lowering.stablehlo().operation.attributes["sym_name"].value)
        with open(os.path.join(self.dump, "module"), "w", encoding="utf-8") as file:
            file.write(module)
        return module, self.called_as or module.removeprefix("jit_")

    def keep(self, name, chip, executable, error):
        """Write down what the compiler left; the folder, and whether it left anything."""
        folder = self.folder_of(name)
        memory = executable.get_compiled_memory_stats() if executable is not None else None
        analysis = {k: getattr(memory, k) for k in dir(memory) if k.endswith("_in_bytes") and isinstance(getattr(memory, k), int)}
        failure = capture.refusal(error) if error is not None else None
        kept = capture.keep_program(self.dump, os.path.join(folder, "program"), {"chip": chip, "command": "", "codegen": True, "error": failure,
                                                                                    "refused": failure and capture.gist(failure), "memory_analysis": analysis})
        for left in os.listdir(self.dump):
            if os.path.isfile(os.path.join(self.dump, left)):
                os.unlink(os.path.join(self.dump, left))
        if failure or not kept:
            _say("%s: refused: %s" % (os.path.basename(folder), capture.gist(failure)) if kept else "%s: the compiler left no program" % name)
        return folder, kept

    def compile(self, traced, lowered, chips, options):
        import numpy
        from jax._src import compiler
        begun = time.monotonic()
        self.tell_at_end()
        lowering = lowered._lowering
        module, name = self.name_of(lowered)
        n = len(chips)
        settings = compiler.get_compile_options(num_replicas=1, num_partitions=n, device_assignment=numpy.array(chips, dtype=object).reshape(1, n),
                                                env_options_overrides={k: str(v) for k, v in options.items()} or None)
        build = settings.executable_build_options
        build.allow_spmd_sharding_propagation_to_parameters = [_unsaid(s) for s in lowering.compile_args["in_shardings"]]
        build.allow_spmd_sharding_propagation_to_output = [_unsaid(s) for s in lowering.compile_args["out_shardings"]]
        error = executable = None
        slow = threading.Timer(_SLOW, _say, ["%s: still compiling after %d s; nothing is captured of it before that ends" % (name, _SLOW)])
        slow.daemon = True
        slow.start()
        try:
            executable = pretend_versions.compile_for(self.jax, lowering.stablehlo(), chips, settings)
        except self.jax.errors.JaxRuntimeError as refused:
            error = refused
        finally:
            slow.cancel()
        folder, kept = self.keep(name, self.chip, executable, error)
        if error is not None:
            raise error
        results = pretend_versions.results_of(self.jax, lowered)
        donated = [info.donated for info in self.jax.tree.leaves(lowered.args_info, is_leaf=lambda leaf: hasattr(leaf, "donated"))]
        _say("%s: compiled for %d x %s in %.1f s" % (os.path.basename(folder), n, self.chip, time.monotonic() - begun))
        places = self.shardings_of(lowering, lowering.compile_args["out_shardings"], executable.get_output_shardings(),
                                   executable.get_output_memory_kinds()[0], n)
        return _Program(folder, kept, lowered, list(zip(results, places)), pretend_known.known_results(self.jax, traced.jaxpr), donated, executable, n)

    def compiled_by_jax(self, lowered, chip, compiler_options, named):
        """As JAX compiles ahead of time; what is for a TPU is written down, too."""
        if chip.platform != "tpu":
            return lowered.compile(compiler_options, **named)
        with self.compiling:
            begun = time.monotonic()
            _, name = self.name_of(lowered)
            kind = capture.chip_of(chip.device_kind) or self.chip
            try:
                compiled = lowered.compile(compiler_options, **named)
            except self.jax.errors.JaxRuntimeError as refused:
                self.keep(name, kind, None, refused)
                raise
            folder, _ = self.keep(name, kind, compiled.runtime_executable(), None)
            n = len(pretend_versions.devices_of(lowered._lowering))
            _say("%s: compiled ahead of time for %d x %s in %.1f s" % (os.path.basename(folder), n, kind, time.monotonic() - begun))
            return compiled

    def shardings_of(self, lowering, said, chosen, kinds, n):
        """Of results or arguments: as the program says, else as the compiler chose."""
        from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding
        from jax._src import sharding_impls
        inside = lowering.compile_args.get("intermediate_shardings") or ()
        meshes = [s.mesh for s in (*lowering.compile_args["in_shardings"], *lowering.compile_args["out_shardings"], *inside) if isinstance(s, NamedSharding)]
        meshes += [lowering.compile_args.get("context_mesh"), pretend_versions.mesh_around(self.jax)]
        mesh = next((m for m in meshes if isinstance(m, Mesh) and not m.empty), None)
        chosen, kinds = chosen or [None] * len(said), kinds or [None] * len(said)
        device = (pretend_versions.devices_of(lowering) or self.jax.devices())[0]
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

    def note_call(self, program, leaves):
        program.calls += 1
        device = (pretend_versions.devices_of(program.lowered._lowering) or self.jax.devices())[0]
        beside = self.chips.bytes_in_use(device, {id(leaf) for leaf in leaves})
        program.beside = max(program.beside, beside)
        total = beside + program.bytes_of_its_own()
        self.chips.ran(pretend_versions.devices_of(program.lowered._lowering) or [device], total)

    def note_loop(self, jitted, given):
        """A loop outside of jax.jit is a program of its own on the chip."""
        program = self.program_of(jitted, given, {}, {})[0] if self.is_outermost() else None
        if program:
            self.note_call(program, self.jax.tree.leaves(given))

    def call(self, program, placed, given, named):
        holders = self.jax.tree.leaves((given, named))
        leaves = [pretend_versions.values_of(leaf) for leaf in holders]
        for leaf in leaves:
            self.arrays.check_kept(leaf)
        self.note_call(program, leaves + [pretend_versions.values_of(one) for one in program.in_place])
        known = self.known_of(program, placed, leaves)
        results = [known[k] if k in known else self.arrays.zeros(info, sharding, placed) for k, (info, sharding) in enumerate(program.results)]
        program.was_given(leaves, self.arrays.is_made)
        for leaf, gone in zip(leaves, program.donated if len(leaves) == len(program.donated) else ()):
            if gone and isinstance(leaf, self.jax.Array) and not leaf.is_deleted():
                leaf.delete()
        if program.puts:
            parameters = [holders[k] for k in program.kept] + program.in_place
            for k, at in enumerate(program.puts):
                if at is not None:
                    pretend_versions.put_into(parameters[at], results[k])
        return self.jax.tree.unflatten(program.tree, [results[k] for k in program.own])

    def known_of(self, program, placed, leaves):
        """Results whose values are known, by their numbers."""
        if not program.known or len(leaves) != len(program.donated):
            return {}
        known = {}
        for k, hangs_on, function in program.known:
            given = [leaves[at] for at in hangs_on]
            if not any(map(self.arrays.is_made, given)):
                known[k] = self.jax.device_put(function(*given)[0], program.results[k][1] if placed else None)
        return known

    # -- at the end --

    def tell_at_end(self):
        if self.teller == os.getpid():
            return
        self.teller = os.getpid()
        from multiprocessing.util import Finalize
        atexit.register(self.tell)
        Finalize(None, self.tell, exitpriority=-100)  # processes of multiprocessing end without atexit

    def tell(self):
        written, self.written = self.written, {}
        if self.arrays.looked_at and written:
            _say("the program went by numbers that chips would have computed, first at %s; here they are zeros, or made of such: what has its size by them, or goes "
                 "another way, is another program" % self.arrays.looked_at)
        for program in written.values():
            program.note()
            beside = ", beside up to %.2f GiB of other arrays on each device" % (program.beside / 2**30) if program.beside >= 1 << 26 else ""
            name, own = os.path.basename(program.name), program.bytes_of_its_own()
            _say("%s: called %d time%s%s" % (name, program.calls, "" if program.calls == 1 else "s", beside))
            if own + program.beside > self.hbm_bytes:
                _say("%s: DOES NOT FIT beside them: it needs %.2f GiB itself, a device has %.2f GiB; a TPU would have said RESOURCE_EXHAUSTED there" %
                     (name, own / 2**30, self.hbm_bytes / 2**30))


def _is_placed(lowered):
    """Whether the program says where its results lie, by its arguments or itself: others go wherever what they are used with lies (an optimizer's state under
    jax.jit(init), which reads none of the weights)."""
    return lowered._lowering.compile_args.get("committed", True)


def _unsaid(sharding):
    """Whether the program leaves it to the compiler."""
    return type(sharding).__name__ in ("UnspecifiedValue", "AUTO")


def _without_defaults(text):
    """A module without what it says of arrays that lie whole on the device: since JAX 0.12 it does for those alone that the program put there."""
    said = r'mhlo\.memory_kind = "device"|sdy\.sharding = #sdy\.sharding<@empty_mesh, [^>]*>|sdy\.mesh @empty_mesh = .*'
    return re.sub(r"[{}, ]+", " ", re.sub(said, "", text)).replace(" )", ")")


def begin(finder):
    """When Python starts: programs look for chips before they import jax."""
    os.environ.update(_ENVIRONMENT)
    finder.when("jax", functools.partial(_install, finder=finder), "this jax's programs are not compiled for a TPU")
    finder.when("tpu_info.device", _tell_chips, "tpu_info finds no TPU")
    pretend_torch_tpu.begin(finder, _CHIP, _DEVICES, _SLICE)


def _tell_chips(device):
    """Google's tpu-info, which servers ask for the chips of this machine."""
    name = _CHIP.removeprefix("tpu")
    chip = next(chip for chip in device.TpuChip if chip.value.name == name)
    device.get_local_chips = lambda: (chip, -(-_DEVICES // chip.value.devices_per_chip))


def _install(jax, finder):
    """When the program has imported jax: before it asks for devices."""
    if not pretend_versions.is_known(jax):
        sys.exit("echelon capture: JAX %s is too old to be compiled for a TPU that is not there; 0.4.38 or later is needed" % jax.__version__)
    jax.config.update("jax_hlo_source_file_canonicalization_regex", r".*/(?=(?:site|dist)-packages/)")
    from jax._src import source_info_util
    source_info_util.register_exclusion(__file__)  # no line of the program's
    pretended = _Pretended(jax)
    pretended_jit = _jit_of(pretended, jax, jax.jit)
    jax.jit = pretended_jit
    jax.pmap = _mapped(pretended, jax.pmap, pretended_jit)
    finder.when("jax.experimental.pjit", functools.partial(_take_pjit, pretended, jax), "functions of jax.experimental.pjit run on the CPU, for real")
    jax.distributed.initialize = _alone(jax, _DEVICES)
    _compile_loops(pretended)
    _profile_nothing(jax)
    _lower_for(pretended.chips)


def _jit_of(pretended, jax, jit):
    """What stands for @jit, jax.jit or one of its older names, which may be given options by their places, too."""
    names = list(inspect.signature(jit).parameters)[1:]

    @functools.wraps(jit)
    def pretended_jit(function=None, *given, **options):
        options.update(zip(names, given))
        function = options.pop("fun", function)
        if function is None:
            return functools.partial(pretended_jit, **options)
        backend = options.pop("backend", None)
        if backend not in (None, "tpu"):
            options["device"] = jax.devices(backend)[0]
        jitted = jit(function, **options)
        return _Jitted(pretended, function, jitted, dict(options.get("compiler_options") or {}), pretend_versions.static_of(function, jitted, options))

    return pretended_jit


def _take_pjit(pretended, jax, module):
    """jax.experimental.pjit.pjit, which JAX says since 0.8 is another name for jax.jit, and T5X, AXLearn and others call."""
    said = getattr(module, "_deprecations", {}).get("pjit")
    pretended_pjit = _jit_of(pretended, jax, said[1] if said else module.pjit)
    if said:
        module._deprecations["pjit"] = (said[0], pretended_pjit)
    else:
        module.pjit = pretended_pjit


def _compile_loops(pretended):
    """Loops outside of jax.jit are compiled and noted like its functions. What comes of them is what comes of other operations there: programs go by it
    (whether a sampler's first state is a valid one)."""
    from jax._src.lax.control_flow import loops

    def noted(loop, run):
        def call(*given, **params):
            pretended.note_loop(pretended.arrays.jitted_of(loop, **params), given)
            return run(*given, **params)
        return call

    for loop in (loops.scan_p, loops.while_p):
        loop.def_impl(noted(loop, loop.impl))


def _mapped(pretended, pmap, pretended_jit):
    """jax.pmap is a jax.jit of its own making."""
    try:
        from jax._src import pmap as maps
        api = maps.api
    except (ImportError, AttributeError):
        return _said(pmap, "this jax's pmap runs on the CPU, for real, and is not compiled for the TPU; jax.jit with shardings is")

    class _Api:
        jit = staticmethod(pretended_jit)

        def __getattr__(self, name):
            return getattr(api, name)

    maps.api = _Api()

    @functools.wraps(pmap)
    def pretended_pmap(function, *given, **named):
        mapped = pmap(function, *given, **named)

        def called(what):
            @functools.wraps(what)
            def call(*given, **named):
                before, pretended.called_as = pretended.called_as, getattr(function, "__name__", None)
                try:
                    return what(*given, **named)
                finally:
                    pretended.called_as = before
            return call

        outer = called(mapped)
        outer.lower = called(mapped.lower)
        return outer

    return pretended_pmap


def _alone(jax, n_devices):
    """jax.distributed.initialize of the one process that has all chips."""

    @functools.wraps(jax.distributed.initialize)
    def initialize(*given, **named):
        _say("jax.distributed.initialize: this process has all %d chips, and jax.process_count() is 1; on a slice of several hosts each process has its own" % n_devices)
        jax.distributed.is_initialized = lambda: True
        jax.distributed.shutdown = lambda: None

    return initialize


def _lower_for(chips):
    """Callbacks (jax.debug.print) ask for the client that is compiled for, while the arrays are another's."""
    from jax._src.interpreters import mlir
    context_class = mlir.ModuleContext
    was_property = not hasattr(context_class, "get_backend")  # before 0.5
    own = context_class.backend.fget if was_property else context_class.get_backend

    @functools.wraps(own)
    def get_backend(context, *given, **named):
        chips.begin()
        asked = context.backend_or_name if was_property else context.backend
        ours = tuple(context.platforms) == ("tpu",) and asked is chips.host.client
        return chips.described[0].client if ours else own(context, *given, **named)

    if was_property:
        context_class.backend = property(get_backend)
    else:
        context_class.get_backend = get_backend


def _profile_nothing(jax):
    """libtpu's profiler, which JAX starts beside its own, has nothing to attach to."""
    from jax._src import profiler
    nothing = _said(lambda *given, **named: None, "jax.profiler: nothing is run, and no profile is written; echelon run -o DIR leaves a timeline")
    names = ["start_trace", "stop_trace", "start_server", "stop_server"]
    session = getattr(profiler, "ProfileSession", None)
    if session:  # since JAX 0.12 a trace is an object, which says itself whether it runs
        def start(own):
            nothing()
            own._is_running, profiler._profile_state.session = True, own
            return own

        def stop(own):
            own._is_running, profiler._profile_state.session = False, None

        session.start, session.stop, session.export_profile_data = start, stop, nothing
        names[:2] = ["export_profile_data"]
    for name in names:
        for module in (profiler, jax.profiler):
            if hasattr(module, name):
                setattr(module, name, nothing)


def _said(function, text):
    said = []

    @functools.wraps(function)
    def saying(*given, **named):
        if not said:
            said.append(_say(text))
        return function(*given, **named)

    return saying
