"""What `echelon capture --pretend` adds to a Python program that imports torch: ranges of its operators, modules and optimizers, and its memory snapshot. And to
one that imports jax, where the device is a TPU: pretend_tpu.py; jax and tensorflow where it is a GPU: pretend_jax.py, pretend_tensorflow.py.

A program without torch runs as ever. Whatever fails here is one line on standard error, never the program's failure."""
import os
import sys
import threading

_HERE = os.path.dirname(os.path.abspath(__file__))


def _say(what, error=None):
    try:
        sys.stderr.write("echelon capture: %s%s\n" % (what, ": %s: %s" % (type(error).__name__, str(error).split("\n")[0]) if error is not None else ""))
    except Exception:
        pass


def _chain():
    """The sitecustomize that this one hides."""
    import importlib.machinery
    import importlib.util
    paths = [path for path in sys.path if os.path.abspath(path or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", paths)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _file():
    out = os.environ.get("ECHELON_PRETEND_OUT", "").replace("%p", str(os.getpid()))
    return out[: -len(".pretend")] + ".pickle" if out.endswith(".pretend") else None


class _Modules:
    """A range for each module's forward, named as its root names it."""

    def __init__(self, torch):
        import weakref
        import pretend_regions
        self.names = weakref.WeakKeyDictionary()
        self.known = pretend_regions.known_as
        self.entered = threading.local()
        self.of_all = torch.nn.modules.module
        self.hooks = []
        self.push = torch.cuda.nvtx.range_push
        self.pop = torch.cuda.nvtx.range_pop
        self.mark = torch.cuda.nvtx.mark
        self.tensor, self.strided = torch.Tensor, torch.strided
        self.compiling = pretend_regions.compiling
        self.tracing = torch.jit.is_tracing
        self.graphs = torch.fx.GraphModule
        self.keeping, self.keeps = torch.is_grad_enabled, False

    def open(self):
        self.hooks = [self.of_all.register_module_forward_pre_hook(self.before)]
        try:
            self.hooks.append(self.of_all.register_module_forward_hook(self.after, always_call=True))
        except TypeError:
            self.hooks.append(self.of_all.register_module_forward_hook(self.after))

    def pause(self):
        hooks, self.hooks = self.hooks, []
        for hook in hooks:
            hook.remove()
        return bool(hooks)

    def name_of(self, module):
        name = self.names.get(module)
        if name is None:
            for path, inner in module.named_modules():  # the outermost module that is called names those below it
                if inner not in self.names:
                    self.names[inner] = "nn.Module: " + self.known(path, inner)
            name = self.names[module]
        return name

    def of_compiler(self, module, within):
        """What torch.compile makes where it cuts a graph (DDP's buckets) is none of the program's modules."""
        return type(module).__module__.startswith("torch._dynamo.backends.") or within and isinstance(module, self.graphs)

    def tell_given(self, values):
        """Where the arrays lie that the outermost module is given, and how many rows the first has: a batch's."""
        try:
            arrays = [value for value in values if type(value) is self.tensor and value.is_cuda and value.dim() > 0 and value.layout is self.strided]
            if arrays:
                self.mark("nn.Module given: %d%s" % (arrays[0].shape[0], "".join(" %d" % array.data_ptr() for array in arrays)))
        except Exception:  # what vmap wraps, say, lies nowhere
            pass

    def before(self, module, inputs, named=None):
        if self.compiling() or self.tracing():
            return
        stack = self.entered.__dict__.setdefault("stack", [])
        if self.of_compiler(module, stack):
            return
        try:
            if not stack:  # a hook for all modules is not handed what is given by name: the call that runs it has that
                named = sys._getframe(1).f_locals.get("kwargs") if named is None else named
                self.tell_given([*inputs, *(named or {}).values()])
                if not self.keeps and self.keeping() and any(weight.requires_grad for weight in module.parameters()):
                    self.keeps = True
                    self.mark("nn.Module keeps what a backward pass takes")
            self.push(self.name_of(module))
            stack.append(module)
        except Exception:  # a module that cannot be hashed, say
            pass

    def after(self, module, inputs, output):
        if self.compiling() or self.tracing():
            return
        stack = self.entered.__dict__.setdefault("stack", [])
        if stack and stack[-1] is module:
            stack.pop()
            self.pop()

    def enter(self, name):
        """A mark where a compiled function is called outside of modules and of other such calls; whether it is."""
        outside = not self.entered.__dict__.get("stack") and not self.entered.__dict__.get("called")
        if outside:
            self.mark(name)
            self.entered.called = True
        return outside

    def leave(self):
        self.entered.called = False


def _pause_in(module, names, *kinds):
    """While a compiler traces, nothing reaches the device, a range that asks for the sizes of a traced tensor would settle them for good, and hooks would be traced."""
    import functools

    def pausing(run):
        @functools.wraps(run)
        def paused(*given, **named):
            stopped = [kind for kind in kinds if kind.pause()]
            try:
                return run(*given, **named)
            finally:
                for kind in stopped:
                    kind.open()

        return paused

    for name in names:
        if hasattr(module, name):
            setattr(module, name, pausing(getattr(module, name)))


class _Operators:
    """Ranges of operators, while no profiler of the program's own runs: there is one at a time."""

    def __init__(self, torch):
        self.profiler = torch.autograd.profiler
        self.enable, self.disable, self.prepare = (getattr(self.profiler, name) for name in ("_enable_profiler", "_disable_profiler", "_prepare_profiler"))
        self.cuda = torch.profiler.ProfilerActivity.CUDA
        self.ranges = None
        self.busy = self.said = False
        self.thread = None

    def open(self):
        self.busy = True
        self.thread = threading.get_ident()
        try:
            self.ranges = self.profiler.emit_nvtx(record_shapes=True)
            self.ranges.__enter__()
        except BaseException:
            self.ranges = None
            raise
        finally:
            self.busy = False

    def close(self):
        ranges, self.ranges, self.busy = self.ranges, None, True
        try:
            if ranges is not None:
                ranges.__exit__(None, None, None)
        finally:
            self.busy = False

    def pause(self):
        """Whether there was anything to pause."""
        if self.ranges is None or threading.get_ident() != self.thread:
            return False
        self.close()
        return True

    def without_cuda(self, activities):
        if self.cuda in activities:
            if not self.said:
                _say("PyTorch's profiler sees no kernels of a GPU that is not there; the capture has them")
            self.said = True
            activities = {activity for activity in activities if activity != self.cuda}
        return activities

    def install(self):
        """CUPTI, which the profiler would ask for kernels, does not survive a driver that is not NVIDIA's."""

        def prepare(config, activities, *rest, **more):
            return self.prepare(config, self.without_cuda(activities), *rest, **more)

        def enable(config, activities, *rest, **more):
            if not self.busy:
                self.close()
            return self.enable(config, self.without_cuda(activities), *rest, **more)

        def disable(*rest, **more):
            result = self.disable(*rest, **more)
            if not self.busy:
                try:
                    self.open()
                except Exception as error:
                    _say("no more ranges of operators", error)
            return result

        self.profiler._prepare_profiler, self.profiler._enable_profiler, self.profiler._disable_profiler = prepare, enable, disable


class _Recorder:
    def __init__(self, torch):
        self.torch = torch
        self.pid = None
        self.operators = None

    def start(self):
        """When CUDA is initialized, in the process that does it."""
        if self.pid == os.getpid():
            return
        self.pid = os.getpid()
        for what, step in (("no memory snapshot", self.record_memory), ("no ranges of operators", self.record_operators), ("no ranges of modules", self.record_modules),
                           ("results are all zeros", self.compute_values)):
            try:
                step()
            except Exception as error:
                _say(what, error)

    def keep_memory(self):
        """A program that records its memory itself, or ends that, would end ours: all of it is recorded anyway, and its own snapshots have it."""
        memory = self.torch.cuda.memory
        self.history = memory._record_memory_history
        if _file() is None:  # none of ours is asked for
            return

        def history(*how, **more):
            self.torch.cuda.init()

        memory._record_memory_history = history

    def record_memory(self):
        record = self.history
        try:
            record(enabled="all", context="alloc", stacks="python")
        except TypeError:
            record(True, trace_alloc_max_entries=1 << 24, trace_alloc_record_context=True)  # before 2.1
        import atexit
        atexit.register(self.write)
        from multiprocessing.util import Finalize
        Finalize(None, self.write, exitpriority=-100)  # its forked processes end without atexit
        self.write_when_ended()
        self.write_when_killed()

    def write_when_ended(self):
        """`timeout` and schedulers end a program by SIGTERM, which Python dies of without a word."""
        import signal
        if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
            return

        def ended(number, frame):
            signal.signal(number, signal.SIG_DFL)
            self.write()
            os.kill(os.getpid(), number)

        signal.signal(signal.SIGTERM, ended)

    def write_when_killed(self):
        """A process of the program that is to be killed by another is asked to write first (record.c)."""
        import signal
        if threading.current_thread() is not threading.main_thread():
            return

        def killed(number, frame):
            import ctypes
            self.write()
            ctypes.CDLL(None).pretend_finish()
            os.kill(os.getpid(), signal.SIGKILL)

        signal.signal(signal.SIGRTMAX - 3, killed)

    def record_operators(self):
        operators = _Operators(self.torch)
        operators.install()
        operators.open()
        for module, names in (("_dynamo.convert_frame", ("_compile", "fullgraph_capture")), ("_dynamo.aot_compile", ("aot_compile_fullgraph",)),
                              ("_inductor.compile_fx", ("compile_fx", "compile_fx_aot")), ("export.exported_program", ("_decompose_exported_program",))):
            _finder.when("torch." + module, lambda there, names=names: _pause_in(there, names, operators), "a compiler sees ranges that it may trip over")
        _finder.when("torch.fx.experimental.proxy_tensor", lambda there: _pause_in(getattr(there, "_MakefxTracer", there), ("trace",), operators), "make_fx sees ranges that it may trip over")
        self.operators = operators

        def nested(there):  # a range asks a nested tensor for sizes, and it has none: those of what it is made of
            for ask in (self.torch.ops.aten.size.default, self.torch.ops.aten.stride.default):
                there.JAGGED_OPS_TABLE[ask] = lambda array, ask=ask: list(ask(array._values))

        _finder.when("torch.nested._internal.ops", nested, "ranges trip over nested tensors")

    def record_modules(self):
        hooks = _Modules(self.torch)
        import warnings
        warnings.filterwarnings("ignore", message="Using `torch.compile.module.` when there are global hooks")  # ours do nothing there
        hooks.open()
        import pretend_regions
        pretend_regions.hooks.append(hooks)
        kinds = (hooks, self.operators) if self.operators is not None else (hooks,)
        _finder.when("torch.export._trace", lambda there: _pause_in(there, ("_export", "_export_for_training"), *kinds), "torch.export sees ranges that it may trip over")

    def compute_values(self):
        import pretend_values
        if not pretend_values.begin():
            return
        _finder.when("torch._dynamo.guards", pretend_values.keep_compiled, "torch.compile compiles anew at each call")

    def write(self):
        """The snapshot beside the capture: whole or not at all."""
        if os.getpid() != self.pid:
            return
        try:
            if self.operators is not None:
                self.operators.close()  # PyTorch warns of one that is left open
        except Exception:
            pass
        try:
            import ctypes
            ctypes.CDLL(None).pretend_flush()
        except Exception:
            pass
        path = _file()
        part = "%s.part" % path
        try:
            if path is not None and os.path.exists(path[: -len("pickle")] + "pretend"):  # a process that only looked leaves nothing
                import pickle
                snapshot = self.torch.cuda.memory._snapshot()
                with open(part, "wb") as file:
                    pickle.dump(snapshot, file)
                os.replace(part, path)
                _say_unheeded(snapshot.get("allocator_settings", {}), self.torch.__version__)
        except BaseException as error:
            _say("no memory snapshot", error)
            try:
                os.unlink(part)
            except OSError:
                pass


def _say_unheeded(settings, version):
    """A program that asks for expandable segments and does not have them looks fragmented for no reason that it tells: PyTorch 2.9 reads that only from the
    older of the two names (pytorch/pytorch issue 183387), and none reads it later than when its allocator begins."""
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        if "expandable_segments:true" in os.environ.get(name, "").lower().replace(" ", "") and settings.get("expandable_segments") is False:
            _say("%s asks for expandable_segments, and PyTorch %s has not heeded it: set PYTORCH_CUDA_ALLOC_CONF, before PyTorch is imported" % (name, version))
            return


def _install(torch):
    if getattr(torch.version, "cuda", None) is None:
        _say("this PyTorch (%s) is built without CUDA and asks for no GPU; install the one for CUDA" % torch.__version__)
        return
    recorder = _Recorder(torch)
    recorder.keep_memory()
    torch.cuda._lazy_call(recorder.start)
    torch.cuda._lazy_call(lambda: torch.cuda.nvtx.mark("echelon torch: %s" % torch.__version__))
    import pretend_ranks
    pretend_ranks.install(torch, _finder)
    pretend_ranks.install_servers(_finder)
    import pretend_values
    pretend_values.install()
    pretend_values.install_lengths(_finder)
    import pretend_generated
    pretend_generated.install(_finder)
    import pretend_regions
    pretend_regions.install(_finder)
    import pretend_triton
    pretend_triton.install(_finder)


def _mark_batches(callbacks):
    """Keras over TensorFlow and PyTorch trains with optimizers of its own: its batches tell steps. Over JAX runs of a program do."""
    import ctypes
    import itertools
    from keras.src.backend.config import backend
    if backend() == "jax":
        return
    begin, count, mark = callbacks.CallbackList.on_train_batch_begin, itertools.count(), ctypes.CDLL(None).nvtxMarkA

    def marked(self, *given, **named):
        mark(b"train batch %d" % next(count))
        return begin(self, *given, **named)

    callbacks.CallbackList.on_train_batch_begin = marked


def _install_measures(torch):
    import pretend_with
    pretend_with.install(_say, os.environ["ECHELON_PRETEND_WITH"])


def _say_without_torch():
    """Measures are PyTorch's."""
    others = [name for name in ("tensorflow", "jax") if name in sys.modules]
    if others and "torch" not in sys.modules:
        _say("--with applies what PyTorch has, and this is a program of %s: it ran as it is; what it should have, say in it and capture that" % others[0])


class _Finder:
    """Finds modules as the others do, and is told when they are there. Some programs only look whether one could be found, and import it later."""

    def __init__(self):
        self.awaited = {}  # what is to be called for each name, in their order
        self.looking = False

    def when(self, name, then, otherwise):
        """Calls @then with the module, once it is there; @otherwise is said where that fails."""
        if name in sys.modules:
            then(sys.modules[name])
        else:
            self.awaited.setdefault(name, []).append((then, otherwise))

    def find_spec(self, name, path=None, target=None):
        if name not in self.awaited or self.looking:
            return None
        import importlib.util
        self.looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.looking = False
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            for then, otherwise in self.awaited.pop(name, ()):
                try:
                    then(module)
                except Exception as error:
                    _say(otherwise, error)

        spec.loader.exec_module = exec_module
        return spec


_finder = _Finder()
if os.environ.get("ECHELON_PRETEND_TPU_OUT"):
    import pretend_tpu
    sys.meta_path.insert(0, _finder)
    pretend_tpu.begin(_finder)
if os.environ.get("ECHELON_PRETEND_OUT"):
    sys.meta_path.insert(0, _finder)
    _finder.when("torch", _install, "no ranges and no memory snapshot of this program")
    if os.environ.get("ECHELON_PRETEND_WITH"):
        _finder.when("torch", _install_measures, "the program runs as it is, without what --with asks for")
        import atexit
        atexit.register(_say_without_torch)
    import pretend_jax
    _finder.when("jax", pretend_jax.install, "this jax finds no GPU")
    import pretend_tensorflow
    _finder.when("tensorflow", pretend_tensorflow.install, "this TensorFlow may find no GPU")
    _finder.when("keras.src.callbacks.callback_list", _mark_batches, "no steps of Keras' are told")
    import pretend_saved
    _finder.when("torch.autograd.graph", pretend_saved.install, "what hooks for saved arrays take of the host is not told")
    import pretend_files
    _finder.when("deepspeed.ops.op_builder.async_io", pretend_files.install, "files that DeepSpeed swaps are not told")
    import pretend_ranks
    pretend_ranks.set_environment()
try:
    _chain()
except Exception as error:
    _say("another sitecustomize failed", error)
