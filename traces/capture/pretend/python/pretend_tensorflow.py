"""What `echelon capture --pretend h100-sxm` adds to a program that imports tensorflow, which runs as it is over the GPU that is not there.

Unless the program's environment chooses an allocator, arrays are asked for one by one (cuda_malloc_async) and not cut from one block that is taken at the start:
so the capture has each of them, and `echelon alloc --allocator tensorflow` cuts the block. What XLA compiles (jit_compile=True) is written down beside the
capture when the program ends, as traces/capture/compile.py writes programs."""
import atexit
import ctypes
import glob
import mmap
import os
import re
import sys

_OUT = os.environ["ECHELON_PRETEND_OUT"]

def _say(text):
    sys.stderr.write("echelon capture: %s\n" % text)


def _load_solver(folder):
    """TensorFlow 2.21 looks for cuSOLVER elsewhere than where its wheels put it, and without it takes no GPU. What is loaded already is found by its name."""
    packages = os.path.dirname(folder)
    found = glob.glob(os.path.join(packages, "nvidia", "cusolver", "lib", "libcusolver.so.*"))
    framework = glob.glob(os.path.join(folder, "libtensorflow_framework.so.*"))
    if not found or not framework:
        return
    with open(framework[0], "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
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
        name = re.sub(r"^a_inference_|(_\d+)?__[.\d]*$", "", module[1])  # TensorFlow's name of the function, and numbers
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


def install(tensorflow):
    """When the program has imported tensorflow: before it asks for devices."""
    # Nothing can be tuned by timing it. Kernels are launched one by one, so that each is written down.
    import pretend_compile as capture  # traces/capture/compile.py
    dump = capture.temporary_folder()
    capture.have_dumped(dump, "--xla_gpu_autotune_level=0 --xla_gpu_enable_command_buffer=")
    atexit.register(_keep_programs, capture, dump, os.getpid())
    os.environ.setdefault("TF_GPU_ALLOCATOR", "cuda_malloc_async")
    _load_solver(os.path.dirname(tensorflow.__file__))
