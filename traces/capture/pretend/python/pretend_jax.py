"""What `echelon capture --pretend h100-sxm` adds to a JAX program. Its CUDA plugin runs as it is, over the GPU that is not there: the real compiler, the real
client. Each function of jax.jit that the program makes is written down beside the capture when it is compiled, as traces/capture/compile.py writes programs.

Unless the program's environment chooses an allocator, arrays are asked for one by one (cuda_async) and not cut from one block that is taken at the start: so the
capture has each of them, and `echelon alloc --allocator jax` cuts the block."""
import ctypes
import functools
import os
import re
import sys
import threading

_OUT = os.environ["ECHELON_PRETEND_OUT"]


def _plain(name):
    """Versions of JAX write "<lambda>" differently in a module's name."""
    return re.sub(r"[^\w.-]", "_", name).strip("_")


def _say(text):
    sys.stderr.write("echelon capture: %s\n" % text)


class _Programs:
    """Of the functions that the program gives jax.jit, each of their compilations."""

    def __init__(self, capture, dump):
        self.capture, self.dump, self.owner = capture, dump, os.getpid()
        self.wanted, self.names = set(), {}
        self.compiling = threading.RLock()  # one at a time: what the compiler leaves lies in one folder

    def want(self, function):
        """JAX names a module after the function."""
        while isinstance(function, functools.partial):
            function = function.func
        name = getattr(function, "__name__", None)
        if name is not None:
            self.wanted.add(_plain("jit_" + name))

    def folder_of(self, name):
        """PREFIX.PID.NAME, and from the second program of a name on .2, .3..."""
        name = re.sub(r"[^\w-]+", "_", name[len("jit_"):]).strip("_") or "program"
        self.names[name] = self.names.get(name, 0) + 1
        again = ".%d" % self.names[name] if self.names[name] > 1 else ""
        return "%s.%s%s" % (_OUT[: -len(".pretend")].replace("%p", str(os.getpid())), name, again)

    def keep(self, name, executable):
        try:
            if _plain(name) in self.wanted and self.owner == os.getpid():
                with open(os.path.join(self.dump, "module"), "w", encoding="utf-8") as file:
                    file.write(name)
                memory = executable.get_compiled_memory_stats() if executable is not None else None
                analysis = {k: getattr(memory, k) for k in dir(memory) if k.endswith("_in_bytes") and isinstance(getattr(memory, k), int)}
                self.capture.keep_program(self.dump, os.path.join(self.folder_of(name), "program"),
                                          {"chip": os.environ.get("ECHELON_PRETEND_CHIP", ""), "command": "", "codegen": False, "error": None, "refused": None,
                                           "memory_analysis": analysis}, ran=True)
        finally:
            for left in os.listdir(self.dump):
                path = os.path.join(self.dump, left)
                if os.path.isfile(path):
                    os.unlink(path)


def install(jax):
    """When the program has imported jax: before it asks for devices."""
    from jax._src import compiler, hardware_utils, xla_bridge
    import pretend_compile as capture  # traces/capture/compile.py
    hardware_utils.has_visible_nvidia_gpu = lambda: True  # which looks for files of the kernel's driver
    dump = capture.temporary_folder()
    # Nothing can be tuned by timing it. Kernels are launched one by one, so that each is written down.
    device = dict(setting.split("=", 1) for setting in os.environ.get("ECHELON_PRETEND_DEVICE", "").split(";") if "=" in setting)
    # XLA knows a GB200 by its SMs, and its collectives from a table of 72 GPUs: asked for estimates, it compiles nothing for fewer.
    estimated = (int(device.get("major", 0)), int(device.get("minor", 0))) in capture.ESTIMATED and device.get("multiprocessors") != "152"
    flags = "--xla_gpu_autotune_level=0 --xla_gpu_enable_command_buffer= --xla_gpu_collect_cost_model_stats=%s" % str(estimated).lower()
    xla_bridge._init_backend = _asked_once(functools.partial(capture.have_dumped, dump, flags), xla_bridge._init_backend)
    if os.environ.get("XLA_PYTHON_CLIENT_ALLOCATOR") == "cuda_async" and "ECHELON_PRETEND_IN_PLACE" not in os.environ:
        ctypes.CDLL(None).pretend_pool_is_wanted()
    elif os.environ.setdefault("XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_async") == "cuda_async":
        os.environ["ECHELON_PRETEND_IN_PLACE"] = "1"  # processes of this one's own see what is set here
    _mark_steps(jax)
    jax.config.update("jax_enable_compilation_cache", False)
    jax.config.update("jax_hlo_source_file_canonicalization_regex", r".*/(?=(?:site|dist)-packages/)")
    programs = _Programs(capture, dump)
    jit = jax.jit

    @functools.wraps(jit)
    def named_jit(*given, **options):
        if not given and "fun" not in options:
            return functools.partial(named_jit, **options)
        programs.want(given[0] if given else options["fun"])
        return jit(*given, **options)

    jax.jit = named_jit
    for name in ("backend_compile_and_load", "backend_compile"):  # as it is called since 0.7, and was before
        compile_ = getattr(compiler, name, None)
        if compile_ is not None:
            setattr(compiler, name, _kept(compile_, programs))
            return
    _say("this jax compiles elsewhere than those that are known: no programs are written beside the capture")


def _mark_steps(jax):
    """A mark where jax.profiler.StepTraceAnnotation("train", step_num=3) begins: "train step 3"."""
    import jax.profiler
    kind, mark = jax.profiler.StepTraceAnnotation, ctypes.CDLL(None).nvtxMarkA
    begin, enter = kind.__init__, kind.__enter__

    def __init__(self, name, **given):
        self.step_of_program = "%s step %s" % (name, given["step_num"]) if "step_num" in given else None
        begin(self, name, **given)

    def __enter__(self):
        if self.step_of_program is not None:
            mark(self.step_of_program.encode())
        return enter(self)

    kind.__init__, kind.__enter__ = __init__, __enter__


def _asked_once(ask, begin):
    """Before the first backend begins, by when the program has said in the environment what it wants of XLA."""
    asked = []

    @functools.wraps(begin)
    def begun(*given):
        if not asked:
            asked.append(True)
            ask()
        return begin(*given)

    return begun


def _kept(compile_, programs):
    @functools.wraps(compile_)
    def compiled(backend, module, *rest, **more):
        executable = None
        with programs.compiling:
            try:
                executable = compile_(backend, module, *rest, **more)
                return executable
            finally:
                try:
                    programs.keep(str(module.operation.attributes["sym_name"].value), executable)
                except Exception as error:
                    _say("a program is not written: %s: %s" % (type(error).__name__, str(error).split("\n")[0]))

    return compiled
