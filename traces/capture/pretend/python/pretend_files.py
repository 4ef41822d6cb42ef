"""Files that DeepSpeed's own threads read and write (ZeRO-Infinity's swapping to NVMe): asked for through a handle, and awaited by it. They go around the host's page
cache, so that a disk takes time for each; the library writes down what is asked for and when the program waits."""
import ctypes
import itertools

# Whether it writes, and whether the program goes on meanwhile; None: its fourth argument says.
METHODS = {"read": (False, False), "sync_pread": (False, False), "async_pread": (False, True), "pread": (False, None),
           "write": (True, False), "sync_pwrite": (True, False), "async_pwrite": (True, True), "pwrite": (True, None)}
_numbers = itertools.count(1)


def _watched(handle, library):
    """A handle as @handle is, that tells what it is asked for."""

    class Watched(handle):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self._number = next(_numbers)

        def wait(self):
            done = super().wait()
            library.pretend_await_files(ctypes.c_uint(self._number))
            return done

    def telling(method, written, beside):
        def call(self, buffer, filename, *args, **kwargs):
            goes_on = bool(args[1]) if beside is None else beside
            library.pretend_file(ctypes.c_uint(self._number), ctypes.c_char_p(str(filename).encode()), ctypes.c_bool(written), ctypes.c_bool(goes_on),
                                 ctypes.c_uint64(buffer.numel() * buffer.element_size()))
            return getattr(handle, method)(self, buffer, filename, *args, **kwargs)
        return call

    for method, (written, beside) in METHODS.items():
        if hasattr(handle, method):
            setattr(Watched, method, telling(method, written, beside))
    Watched.__name__ = Watched.__qualname__ = handle.__name__
    return Watched


def install(builder):
    """@builder: the module deepspeed.ops.op_builder.async_io."""
    library, load = ctypes.CDLL(None), builder.AsyncIOBuilder.load
    made = {}

    def loaded(self, *args, **kwargs):
        module = load(self, *args, **kwargs)
        if module.aio_handle not in made.values():
            module.aio_handle = made.setdefault(module.aio_handle, _watched(module.aio_handle, library))
        return module

    builder.AsyncIOBuilder.load = loaded
