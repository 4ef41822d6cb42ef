"""The program as it would be with measures that PyTorch, or a library of it, has (`echelon capture --pretend --with`), though it asks for none of them: applied to the modules that it calls
from outside of all others, before they run for the first time, and to optimizers and wrappers as they are made. What each was applied to is a line on standard error
and a mark in the capture."""
import atexit
import fnmatch
import functools
import os
import threading
import weakref

import torch

import pretend_regions

_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None) or (lambda: False)
_in_backward = getattr(torch._C, "_current_graph_task_id", None) or (lambda: -1)
_say = None  # sitecustomize's
_inside = threading.local()  # root: a module that was called from outside of all others, while it runs; else None
_speaks = os.environ.get("RANK", "0") == "0"  # for ranks that all do the same


class _Measure:
    """One of --with: NAME or NAME=VALUE."""

    default = ""  # VALUE where none is given

    def __init__(self, name, value):
        self.name, self.value = name, value or self.default
        self.title = name + ("=" + self.value if self.value else "")
        self.applied = False
        self.said = set()
        self.changed = weakref.WeakSet()  # roots that are given other arrays, too

    def tell(self, what):
        if _speaks and what not in self.said:
            _say("with %s: %s" % (self.title, what))
        self.said.add(what)

    def applies(self, what):
        if not self.applied:
            torch.cuda._lazy_call(lambda: torch.cuda.nvtx.mark("echelon with: " + self.title))
        self.applied = True
        self.tell(what)

    def may(self, step, *given):
        """A program goes on as it is where a measure cannot be applied."""
        try:
            step(*given)
        except Exception as error:
            self.tell("could not be applied: %s: %s" % (type(error).__name__, str(error).split("\n")[0]))

    def prepare(self, root):
        """@root, a module with weights, before it runs for the first time."""

    def wrapping(self, module, named):
        """@module is about to be handed to DistributedDataParallel with the options @named."""

    def optimizer(self, kind, defaults):
        """An optimizer is made."""

    def given(self, value):
        """Of an array that a root of @changed is given, what it is given instead."""
        return value

    def enter(self, root):
        """@root runs..."""

    def leave(self):
        """...and has run."""

    def close(self):
        """Gradients are asked for, or an optimizer's step begins."""

    missing = "no module with weights was called"


def _kind(root):
    return type(getattr(root, "module", root) if isinstance(root, torch.nn.parallel.DistributedDataParallel) else root).__name__


class _Autocast(_Measure):
    """From a root's forward pass to the backward one, as programs have it: the loss is within."""

    default = "bfloat16"

    def __init__(self, name, value):
        super().__init__(name, value)
        self.open = threading.local()

    def enter(self, root):
        if getattr(self.open, "context", None) is not None:
            return
        if torch.is_autocast_enabled():
            self.tell("the program has its own around %s" % _kind(root))
            return
        self.applies("%s, and what follows up to the backward pass" % _kind(root))
        self.open.context = torch.autocast("cuda", dtype=getattr(torch, self.value))
        self.open.context.__enter__()

    def leave(self):
        if not torch.is_grad_enabled():
            self.close()

    def close(self):
        context, self.open.context = getattr(self.open, "context", None), None
        if context is not None:
            context.__exit__(None, None, None)


class _Bfloat16(_Measure):
    def narrow(self, module, kind):
        if any(weight.dtype is torch.float32 for weight in module.parameters()):
            module.to(torch.bfloat16)
            self.changed.add(module)
            self.applies("weights of %s" % kind)

    def prepare(self, root):
        if not isinstance(root, torch.nn.parallel.DistributedDataParallel):
            self.narrow(root, _kind(root))

    def wrapping(self, module, named):
        self.narrow(module, type(module).__name__)

    def given(self, value):
        return value.to(torch.bfloat16) if value.dtype is torch.float32 else value

    missing = "no module with weights in float32 was called"


class _Float32(_Measure):
    """Products of float32 in TF32; medium: in bfloat16 where a compiler has it so."""

    default = "high"

    def prepare(self, root):
        torch.set_float32_matmul_precision(self.value)
        self.applies("products in float32")


class _Budget(_Measure):
    def prepare(self, root):
        import torch._functorch.config as config
        config.activation_memory_budget = float(self.value)
        self.applies("what torch.compile keeps for the backward pass")


class _Compile(_Measure):
    def prepare(self, root):
        if getattr(root, "_compiled_call_impl", None) is not None or type(root).__name__ == "OptimizedModule":
            self.tell("%s is compiled as it is" % _kind(root))
            return
        root.compile(**({"mode": self.value} if self.value else {}))
        self.applies(_kind(root))

    missing = "no module with weights was called that is not compiled as it is"


def _repeated(root):
    """Modules of one kind, of several modules each, that are numbered, as those of a list are; outermost ones; no experts, of which tokens choose some."""
    found = {}
    for name, module in root.named_modules():
        if "expert" in name or any(name == other or name.startswith(other + ".") for other in found):
            continue
        inner = [(which, child) for which, child in module.named_children() if which[-1].isdigit()]
        kinds = [type(child) for _, child in inner]
        for which, child in inner:
            path = "%s.%s" % (name, which) if name else which
            if kinds.count(type(child)) > 1 and sum(1 for leaf in child.modules() if not any(leaf.children())) > 2:
                found[path] = child
    return found


def _blocks(root):
    """What checkpoints are usually put around, by name: what is repeated; of stages that are made of blocks and little else, those."""
    size = lambda modules: sum(weight.numel() for module in modules.values() for weight in module.parameters())
    found = _repeated(root)
    inner = {"%s.%s" % (name, path): module for name, stage in found.items() for path, module in _repeated(stage).items()}
    return inner if inner and size(inner) >= 0.9 * size(found) else found


# How models of libraries have it themselves: transformers' (which then keep no cache), diffusers' and timm's.
_OWN_CHECKPOINTS = (("gradient_checkpointing_enable", "supports_gradient_checkpointing", {"gradient_checkpointing_kwargs": {"use_reentrant": False}}),
                    ("enable_gradient_checkpointing", "_supports_gradient_checkpointing", {}), ("set_grad_checkpointing", "set_grad_checkpointing", {}))


class _Checkpoint(_Measure):
    """torch.utils.checkpoint (not reentrant) around modules whose names match: "blocks.*", several joined by "+"."""

    def __init__(self, name, value):
        super().__init__(name, value)
        self.names = {}
        self.done = weakref.WeakSet()

    def around(self, module):
        run = module.forward

        @functools.wraps(run)
        def again(*given, **named):
            if not torch.is_grad_enabled():
                return run(*given, **named)
            return torch.utils.checkpoint.checkpoint(run, *given, use_reentrant=False, **named)

        module.forward = again
        self.done.add(module)

    def prepare(self, root):
        import torch.utils.checkpoint
        inner = root.module if isinstance(root, torch.nn.parallel.DistributedDataParallel) else getattr(root, "_orig_mod", root)
        for own, whether, how in _OWN_CHECKPOINTS if not self.value else ():
            try:
                if not hasattr(inner, own) or not getattr(inner, whether, True):
                    continue
                getattr(inner, own)(**how)
            except Exception:  # some have it to say that they cannot
                continue
            self.applies("%s.%s()" % (type(inner).__name__, own))
            return
        named = {pretend_regions.program_path(name): module for name, module in inner.named_modules() if name}
        self.names.update((_starred(name), None) for name, module in named.items() if any(module.children()))
        patterns = self.value.split("+") if self.value else []
        chosen = {name: named[name] for name in named if any(_matches(name, pattern) for pattern in patterns)} if patterns else _blocks(inner)
        chosen = {name: module for name, module in chosen.items() if module not in self.done}
        for module in chosen.values():
            self.around(module)
        if chosen:
            names = sorted({_starred(name) for name in chosen})
            self.applies("%d module%s of %s (%s)" % (len(chosen), "s" if len(chosen) > 1 else "", type(inner).__name__, ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")))

    @property
    def missing(self):
        known = list(self.names)[:6]
        return "%s; expected names as checkpoint=%s" % ("no module of that name" if self.value else "no modules are repeated", ", checkpoint=".join(known) if known else "blocks.*")


def _starred(name):
    """Of "blocks.0.norm" "blocks.*.norm"."""
    return ".".join("*" if part.isdigit() else part for part in name.split("."))


def _matches(name, pattern):
    """Part by part: "blocks.*" is no module inside of a block."""
    parts, wanted = name.split("."), pattern.split(".")
    return len(parts) == len(wanted) and all(fnmatch.fnmatchcase(part, want) for part, want in zip(parts, wanted))


class _WithGradients(_Measure):
    """A context around each root that is called with gradients."""

    context = None

    def enter(self, root):
        if torch.is_grad_enabled():
            self.applies(self.what % _kind(root))
            self.context = self.made()
            self.context.__enter__()

    def leave(self):
        context, self.context = self.context, None
        if context is not None:
            context.__exit__(None, None, None)

    missing = "no module with weights was called with gradients"


class _SaveOnCpu(_WithGradients):
    what = "what %s keeps for its backward pass, pinned"

    def made(self):
        return torch.autograd.graph.save_on_cpu(pin_memory=True)


class _NoGrad(_WithGradients):
    what = "%s keeps nothing for a backward pass"

    def made(self):
        return torch.no_grad()


class _Optimizer(_Measure):
    """fused, foreach=false."""

    def optimizer(self, kind, defaults):
        if self.name not in defaults:
            self.tell("%s has no %s" % (kind, self.name))
            return
        defaults[self.name] = self.value != "false"
        if self.name == "fused":
            defaults["foreach"] = False
        self.applies(kind)

    missing = "no optimizer was made that has it"


class _ChannelsLast(_Measure):
    def prepare(self, root):
        if any(weight.dim() == 4 for weight in root.parameters()):
            root.to(memory_format=torch.channels_last)
            self.changed.add(root)
            self.applies("weights and inputs of %s" % _kind(root))

    def given(self, value):
        return value.contiguous(memory_format=torch.channels_last) if value.dim() == 4 else value

    missing = "no module with convolutions was called"


class _Attention(_Measure):
    """By PyTorch's own kernels: transformers' models that compute all scores have a setting, timm's a word of each of their modules."""

    def prepare(self, root):
        for module in root.modules():
            config = getattr(module, "config", None)
            if getattr(config, "_attn_implementation", None) == "eager" and hasattr(module, "set_attn_implementation"):
                module.set_attn_implementation("sdpa")
                self.applies(type(module).__name__)
            elif getattr(module, "fused_attn", True) is False:
                module.fused_attn = True
                self.applies(type(module).__name__)

    missing = "no module was called that computes all scores and can do without"


class _Quantize(_Measure):
    """Weights of linear layers in few bits, by torchao: of those that are not trained."""

    default = "Int8WeightOnly"

    def prepare(self, root):
        import torchao.quantization as quantization
        config = getattr(quantization, self.value + "Config")()
        frozen = lambda module: isinstance(module, torch.nn.Linear) and type(module.weight.data) is torch.Tensor and not (torch.is_grad_enabled() and module.weight.requires_grad)
        n = sum(1 for module in root.modules() if frozen(module))
        if n:
            quantization.quantize_(root, config, lambda module, name: frozen(module))
            self.applies("%d linear layer%s of %s, which %s not trained" % (n, "s" if n > 1 else "", _kind(root), "are" if n > 1 else "is"))

    missing = "no module was called with linear layers that are not trained"


class _LayerwiseCasting(_Measure):
    """Weights stored in 8-bit floats and widened while their layer runs, as models of diffusers have it."""

    default = "float8_e4m3fn"

    def prepare(self, root):
        if not hasattr(root, "enable_layerwise_casting"):
            return
        kinds = [weight.dtype for weight in root.parameters() if weight.is_floating_point()]
        root.enable_layerwise_casting(storage_dtype=getattr(torch, self.value), compute_dtype=torch.bfloat16 if torch.bfloat16 in kinds else kinds[0])
        self.applies("weights of %s, but those that it leaves out (%s)" % (_kind(root), ", ".join(getattr(root, "_skip_layerwise_casting_patterns", None) or ("norms",))))

    missing = "no model of diffusers was called"


class _BucketView(_Measure):
    def wrapping(self, module, named):
        named["gradient_as_bucket_view"] = True
        self.applies("gradients of %s" % type(module).__name__)

    missing = "no module was handed to DistributedDataParallel"


_KINDS = {"autocast": _Autocast, "bfloat16": _Bfloat16, "compile": _Compile, "checkpoint": _Checkpoint, "save_on_cpu": _SaveOnCpu, "no_grad": _NoGrad, "fused": _Optimizer, "foreach": _Optimizer,
          "float32_matmul_precision": _Float32, "activation_memory_budget": _Budget, "channels_last": _ChannelsLast, "sdpa": _Attention, "gradient_as_bucket_view": _BucketView,
          "quantize": _Quantize, "layerwise_casting": _LayerwiseCasting}
# Weights first, then what runs them; what is compiled last has all of that inside.
_ORDER = ("channels_last", "sdpa", "bfloat16", "quantize", "layerwise_casting", "checkpoint", "activation_memory_budget", "compile")


def _changed(value, measures):
    """What is given, with its arrays changed: in tuples, lists and dictionaries, too."""
    if isinstance(value, torch.Tensor):
        for measure in measures:
            value = measure.given(value) if value.is_cuda and type(value) is torch.Tensor else value
        return value
    if type(value) in (tuple, list):
        return type(value)(_changed(one, measures) for one in value)
    return {key: _changed(one, measures) for key, one in value.items()} if type(value) is dict else value


def _around_calls(measures):
    """Roots are modules with weights that are called outside of all others, and of backward passes (which run what is checkpointed)."""
    call, ready = torch.nn.Module.__call__, weakref.WeakSet()
    ordered = sorted(measures, key=lambda measure: _ORDER.index(measure.name) if measure.name in _ORDER else len(_ORDER))

    @functools.wraps(call)
    def called(module, *given, **named):
        if _compiling() or getattr(_inside, "root", None) is not None or _in_backward() != -1 or torch.jit.is_tracing() or next(module.parameters(), None) is None:
            return call(module, *given, **named)
        _inside.root = module
        torch.nn.Module.__call__ = call  # what a compiler meets below is PyTorch's own
        entered = []
        try:
            if module not in ready:
                for measure in ordered:
                    measure.may(measure.prepare, module)
                ready.update(module.modules())
            changing = [measure for measure in measures if module in measure.changed or getattr(module, "module", None) in measure.changed]
            if changing:
                given, named = _changed(given, changing), _changed(named, changing)
            for measure in measures:
                entered.append(measure)
                measure.may(measure.enter, module)
            return call(module, *given, **named)
        finally:
            for measure in reversed(entered):
                measure.leave()
            torch.nn.Module.__call__ = called
            _inside.root = None

    torch.nn.Module.__call__ = called


def _around(owner, name, before):
    run = getattr(owner, name)

    @functools.wraps(run)
    def around(*given, **named):
        before(given, named)
        return run(*given, **named)

    setattr(owner, name, around)


def install(say, asked):
    """@asked: "NAME" and "NAME=VALUE" joined by commas; `echelon capture` has looked at them."""
    global _say
    _say = say
    measures = [_KINDS[name](name, value) for name, _, value in (word.partition("=") for word in asked.split(","))]

    def close(given, named):
        if getattr(_inside, "root", None) is None:  # else it is a compiler's, or what a module has inside (forces)
            for measure in measures:
                measure.close()

    def makes(given, named):  # Optimizer.__init__(self, params, defaults)
        defaults = given[2] if len(given) > 2 else named.get("defaults")
        for measure in measures if isinstance(defaults, dict) else ():
            measure.optimizer(type(given[0]).__name__, defaults)

    def wraps(given, named):  # DistributedDataParallel.__init__(self, module, ...)
        module = given[1] if len(given) > 1 else named.get("module")
        for measure in measures:
            measure.may(measure.wrapping, module, named)

    _around_calls(measures)
    _around(torch.autograd, "backward", close)
    _around(torch.autograd, "grad", close)
    try:
        from torch.optim.optimizer import register_optimizer_step_pre_hook
        register_optimizer_step_pre_hook(lambda *given: close(None, None))
    except ImportError:  # before 2.1
        pass
    _around(torch.optim.Optimizer, "__init__", makes)
    _around(torch.nn.parallel.DistributedDataParallel, "__init__", wraps)

    def ended():
        for measure in measures:
            if not measure.applied:
                measure.tell("nothing was changed" + ("" if measure.said else ": " + measure.missing))

    torch.cuda._lazy_call(lambda: atexit.register(ended))
