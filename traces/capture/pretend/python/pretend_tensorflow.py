"""What `echelon capture --pretend h100-sxm` adds to a program that imports tensorflow, which runs as it is over the GPU that is not there.

Unless the program's environment chooses an allocator, arrays are asked for one by one (cuda_malloc_async) and not cut from one block that is taken at the start:
so the capture has each of them, and `echelon alloc --allocator tensorflow` cuts the block."""
import ctypes
import glob
import mmap
import os
import sys


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


def install(tensorflow):
    """When the program has imported tensorflow: before it asks for devices."""
    # Nothing can be tuned by timing it. Kernels are launched one by one, so that each is written down.
    os.environ["XLA_FLAGS"] = ("--xla_gpu_autotune_level=0 --xla_gpu_enable_command_buffer= " + os.environ.get("XLA_FLAGS", "")).strip()
    os.environ.setdefault("TF_GPU_ALLOCATOR", "cuda_malloc_async")
    _load_solver(os.path.dirname(tensorflow.__file__))
