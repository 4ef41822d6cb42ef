"""What `echelon capture --pretend h100-sxm` adds to a program that imports tensorflow, which runs as it is over the GPU that is not there.

Unless the program's environment chooses an allocator, arrays are asked for one by one (cuda_malloc_async) and not cut from one block that is taken at the start:
so the capture has each of them, and `echelon alloc --allocator tensorflow` cuts the block. What XLA compiles (jit_compile=True) is written down beside the
capture when the program ends, as traces/capture/compile.py writes programs."""
import atexit
import ctypes
import functools
import glob
import itertools
import mmap
import os
import re
import sys
import weakref

_OUT = os.environ["ECHELON_PRETEND_OUT"]
_ONE_BY_ONE = "cuda_malloc_async"


def _say(text):
    sys.stderr.write("echelon capture: %s\n" % text)


def _load_solver(folder):
    """TensorFlow 2.21 looks for cuSOLVER elsewhere than where its wheels put it, and without it takes no GPU. What is loaded already is found by its name."""
    packages = os.path.dirname(folder)
    found = glob.glob(os.path.join(packages, "nvidia", "cusolver", "lib", "libcusolver.so.*"))
    framework = _library(folder)
    if not found or framework is None:
        return
    with open(framework, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data.find(b"/nvidia/cusolver/lib") >= 0:
            return
    ctypes.CDLL(found[0])
    _say("this TensorFlow does not look for libcusolver where its wheel lies, and finds no GPU without; on a machine with one, too: export LD_LIBRARY_PATH=%s"
         % os.path.dirname(found[0]))


def _keep_programs(capture, dump, owner):
    """PREFIX.PID.NAME for each that XLA compiled, and from the second of a name on .2, .3..."""
    names = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(dump), "module_*_gpu_after_optimizations.txt"))) if os.getpid() == owner else []:
        module = re.fullmatch(r"module_\d+\.(.+)\.sm_[\d.]+[a-z]?_gpu_after_optimizations\.txt", os.path.basename(path))
        if module is None:
            continue
        name = re.sub(r"^a_inference_|(_\d+)?__(XlaMustCompile_.*)?[.\d]*$", "", module[1])  # TensorFlow's name of the function, numbers, and how it is compiled
        name = re.sub(r"[^\w-]+", "_", name).strip("_") or "program"
        names[name] = names.get(name, 0) + 1
        folder = "%s.%s%s" % (_OUT[: -len(".pretend")].replace("%p", str(owner)), name, ".%d" % names[name] if names[name] > 1 else "")
        try:
            with open(os.path.join(dump, "module"), "w", encoding="utf-8") as file:
                file.write(module[1])
            capture.keep_program(dump, os.path.join(folder, "program"), {"chip": os.environ.get("ECHELON_PRETEND_CHIP", ""), "command": "", "codegen": False,
                                                                         "error": None, "refused": None, "memory_analysis": None}, package="tensorflow", ran=True)
        except Exception as error:
            _say("a program is not written: %s: %s" % (type(error).__name__, str(error).split("\n")[0]))


def _library(folder):
    """TensorFlow's own, which is loaded; NULL where there is none of that name."""
    found = glob.glob(os.path.join(folder, "libtensorflow_framework.so.*"))
    return found[0] if found else None


def _name_operators(folder):
    """TensorFlow tells its operators to profilers while one is on: as ranges, which nvtx.c writes down."""
    enable = getattr(ctypes.CDLL(_library(folder)), "_ZN3tsl8profiler15AnnotationStack6EnableEb", None)
    if enable is not None:
        enable(True)


def _tell_pool():
    """What the program asks of TensorFlow's own pool (memory growth, a limit, several devices in one) holds for what stands in its place."""
    from tensorflow.python.eager import context
    options = context.Context._compute_gpu_options

    @functools.wraps(options)
    def told(self):
        wanted = options(self)
        limits = [sum(device.memory_limit_mb) for device in wanted.experimental.virtual_devices]
        grows = {"true": True, "false": False}.get(os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH", ""), wanted.allow_growth)
        ctypes.CDLL(None).pretend_tell_pool(ctypes.c_uint64(int(max(limits, default=0)) << 20), int(grows))
        return wanted

    context.Context._compute_gpu_options = told


def _mark_calls():
    """A mark at each call of a tf.function of the program's own: "train_step 3" tells a step. Of several functions of a name the later ones are .2, .3..."""
    from tensorflow.python.eager import context
    from tensorflow.python.eager.polymorphic_function import polymorphic_function as polymorphic
    call, mark = polymorphic.Function.__call__, ctypes.CDLL(None).nvtxMarkA
    names, counts = {}, weakref.WeakKeyDictionary()

    @functools.wraps(call)
    def marked(self, *given, **named):
        if context.executing_eagerly() and not getattr(self.python_function, "__module__", "").startswith("keras."):  # whose batches are marks (sitecustomize.py)
            if self not in counts:
                name = getattr(self.python_function, "__name__", "function")
                names[name] = names.get(name, 0) + 1
                counts[self] = itertools.count(), "%s.%d" % (name, names[name]) if names[name] > 1 else name
            count, name = counts[self]
            mark(("%s %d" % (name, next(count))).encode())
        return call(self, *given, **named)

    polymorphic.Function.__call__ = marked


def _name_variables():
    """What a variable is made of is asked for at once, outside of all operators that TensorFlow names."""
    from tensorflow.python.eager import context
    from tensorflow.python.ops import resource_variable_ops
    variables, driver = resource_variable_ops.ResourceVariable, ctypes.CDLL(None)
    begin = variables._init_from_args

    @functools.wraps(begin)
    def named(self, *given, **by_name):
        if not context.executing_eagerly():
            return begin(self, *given, **by_name)
        driver.nvtxRangePushA(("tf::%s (Variable)" % (by_name.get("name") or "Variable")).encode())
        try:
            return begin(self, *given, **by_name)
        finally:
            driver.nvtxRangePop()

    variables._init_from_args = named


def _choose_allocator():
    if "TF_GPU_ALLOCATOR" not in os.environ or "ECHELON_PRETEND_IN_PLACE" in os.environ:
        os.environ["TF_GPU_ALLOCATOR"] = _ONE_BY_ONE
        os.environ["ECHELON_PRETEND_IN_PLACE"] = "1"  # processes of this one's own see what is set here
        ctypes.CDLL(None).pretend_tell_pool(ctypes.c_uint64(0), 0)
        _tell_pool()
    elif os.environ["TF_GPU_ALLOCATOR"] == _ONE_BY_ONE:
        ctypes.CDLL(None).pretend_pool_is_wanted()


def install(tensorflow):
    """When the program has imported tensorflow: before it asks for devices."""
    # Nothing can be tuned by timing it. Kernels are launched one by one, so that each is written down.
    import pretend_compile as capture  # traces/capture/compile.py
    dump = capture.temporary_folder()
    capture.have_dumped(dump, "--xla_gpu_autotune_level=0 --xla_gpu_enable_command_buffer=")
    atexit.register(_keep_programs, capture, dump, os.getpid())
    folder = os.path.dirname(tensorflow.__file__)
    for what, step in (("the device's memory is TensorFlow's whatever the program says of it", _choose_allocator), ("it may find no GPU", lambda: _load_solver(folder)),
                       ("operators have no names", lambda: _name_operators(folder)), ("variables have no names", _name_variables), ("no steps are told", _mark_calls)):
        try:
            step()
        except Exception as error:
            _say("of this TensorFlow %s: %s: %s" % (what, type(error).__name__, str(error).split("\n")[0]))
