"""Ranges of kernels that are written and compiled while the program runs (TorchInductor's, CuTe's), which are no operators of PyTorch's: sizes of what they are called
with, as PyTorch's own ranges say them, and types, which those do not. Of operators of other packages. And of FlashAttention 4, whose masks are compiled into its kernels.
And marks of servers' steps."""
import ctypes
import functools
import inspect
import math
import os
import sys
import threading

import torch

NAMES = {"bfloat16": "bf16", "float16": "f16", "float32": "f32", "float64": "f64", "int64": "s64", "int32": "s32", "int16": "s16", "int8": "s8", "uint8": "u8",
         "bool": "pred", "float8_e4m3fn": "f8e4m3fn", "float8_e5m2": "f8e5m2"}
_push, _pop = torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop
_told = torch.autograd._profiler_enabled  # while ranges are written


def say(what, error):
    """Once of each kind."""
    if what not in _said:
        _said.add(what)
        sys.stderr.write("echelon capture: %s: %s: %s\n" % (what, type(error).__name__, str(error).split("\n")[0]))


_said = set()


NO_STEPS = "steps of the server are not told"


def install(finder):
    if os.environ.get("ECHELON_PRETEND_VALUES") != "0":
        import pretend_masks
        finder.when("torch._inductor.compile_fx", pretend_masks.watch, "what masks of FlexAttention leave is not known")
    for module in ("triton_heuristics", "runtime.triton_heuristics"):  # up to 2.3, and later
        finder.when("torch._inductor." + module, _inductor, "types of what generated kernels use are guessed")
    finder.when("torch._inductor.runtime.benchmarking", _benchmarks, "torch.compile tries what it chooses from a hundred times")
    finder.when("torch._inductor.select_algorithm", _select, "torch.compile compiles all of its choices")
    finder.when("triton.runtime.autotuner", _autotuner, "Triton's autotuner compiles all of its choices")
    finder.when("cutlass.cutlass_dsl.tvm_ffi_provider", _cute, "sizes of what CuTe's kernels use are guessed")
    finder.when("vllm.model_executor.layers.fused_moe.fused_moe", _experts, "what experts of a mixture compute is guessed")
    for package in ("sglang.kernels.ops.attention", "sglang.srt.layers.attention.triton_ops"):  # later, and before
        finder.when(package + ".decode_attention", _decodes, "how much SGLang's attention in Triton computes is guessed")
        finder.when(package + ".extend_attention", _extends, "how much SGLang's attention in Triton computes is guessed")
    finder.when("flash_attn.cute.interface", _attention, "how much FlashAttention computes is guessed")
    finder.when("vllm.v1.worker.gpu_worker", _steps_of_vllm, NO_STEPS)
    finder.when("vllm.v1.worker.utils", _cache, "which array is the server's KV cache is not told")
    for module in ("vllm.v1.core.kv_cache_planning", "vllm.v1.core.kv_cache_utils"):  # since 0.33, and before
        finder.when(module, _room, "that the server has no room for its KV cache is not told")
    finder.when("sglang.srt.managers.tp_worker", _steps_of_sglang, NO_STEPS)


def _type_of(value):
    if value is True:
        return "true"
    if not isinstance(value, torch.Tensor):
        return "-"
    kind = str(value.dtype).split(".")[-1]
    return NAMES.get(kind, kind)


def _text(name, values, elements=None, numbers=False, directions=()):
    """The last type is no type but the elements that the kernel goes over, where they are known; @numbers: whole ones among the values stand for themselves;
    @directions: "out " or "inout " before the type of what is written."""
    types = [str(value) if numbers and type(value) is int and value >= 0 else _type_of(value) for value in values]
    types = [one + kind for one, kind in zip(directions, types)] if directions else types
    sizes = ", ".join(str(list(value.shape)) if isinstance(value, torch.Tensor) else "[]" for value in values)
    return "%s, sizes = [%s, []], types = [%s]" % (name, sizes, ", ".join(types + [str(elements or "-")]))


def _within(text, run, *values, **named):
    _push(text)
    try:
        return run(*values, **named)
    finally:
        _pop()


def typed(func, args, kwargs, run=None):
    """An operator of another package's, or of PyTorch's own that hangs on more than sizes, which is all that PyTorch's range of it says. @run: what does it, if not
    the operator itself."""
    run = run or func
    if not _told():
        return run(*args, **kwargs)
    values = list(args) + list(kwargs.values())
    if func.namespace == "aten":  # all of them, in their order
        values = list(args) + [kwargs.get(one.name, one.default_value) for one in func._schema.arguments[len(args):]]
    # Numbers: how wide rows of tables are, the kind of a mask.
    text = _text(func._schema.name, values, numbers=func.namespace in ("aten", "fbgemm"))
    return _within(text, run, *args, **kwargs)


_inside = threading.local()  # FlashAttention tells of all of its kernels together, and of lengths who is asked first
_lengths_of = ctypes.PyDLL(None).pretend_lengths_of
_lengths_of.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_int)


def address(tensor):
    return tensor.data_ptr() if isinstance(tensor, torch.Tensor) and tensor.is_cuda and tensor.dtype in (torch.int32, torch.int64) and tensor.is_contiguous() else None


# What operators and functions call where queries and keys of packed sequences begin, and how many keys of each are used.
STARTS, KEYS, USED = ("cu_seqlens_q", "cum_seq_q", "cu_seq_q"), ("cu_seqlens_k", "cum_seq_k", "cu_seq_k", "cu_seqlens_kv"), ("seqused_k", "cache_seqlens", "seqlen_k")


def with_lengths(given, attend, *args, **named):
    """Attends, telling how long the sequences are that it goes over, by the names that its arguments have (@given)."""
    starts, keys, used = (next((given[name] for name in names if given.get(name) is not None), None) for names in (STARTS, KEYS, USED))
    before = given.get("cu_seqlens_before")
    keys = used if used is not None else keys
    appends = "k_cache" in given and given.get("k") is not None  # longer than it says
    if getattr(_inside, "lengths", False) or address(keys) is None or appends or os.environ.get("ECHELON_PRETEND_VALUES") == "0":
        return attend(*args, **named)
    n = keys.numel() - (used is None)
    starts, before = (one if address(one) is not None and one.numel() == n + 1 else None for one in (starts, before))
    wide = sum(1 << i for i, one in enumerate((keys, starts, before)) if one is not None and one.dtype == torch.int64)
    causal = given.get("causal") is True or given.get("is_causal") is True or given.get("custom_mask_type") in (1, 2)
    _lengths_of(address(keys), used is None, address(starts), n, causal, address(before), wide)
    _inside.lengths = True
    try:
        return attend(*args, **named)
    finally:
        _inside.lengths = False
        _lengths_of(None, 0, None, 0, 0, None, 0)


def _direction(name, value, changed):
    """Of an argument as TorchInductor names it."""
    if not isinstance(value, torch.Tensor):
        return ""
    return "inout " if name.startswith(("in_out_ptr", "ws_ptr")) else "out " if name.startswith("out_ptr") else "inout " if name in changed else ""


# Elements of a block, and blocks of each multiprocessor, up to which and from which on more rows a block are quicker: the former is what other kernels have.
BLOCK, BLOCKS = 2048, 2


def _likely(autotuner):
    """What would be chosen if kernels were timed: the first, as a rule; of short rows that are summed whole, which it takes one a block, as many a block as fill it."""
    hints, kind = getattr(autotuner, "size_hints", None), getattr(autotuner, "heuristic_type", None)
    blocks = BLOCKS * (getattr(getattr(autotuner, "device_props", None), "multi_processor_count", None) or 0)
    if not isinstance(hints, dict) or getattr(kind, "name", "") != "PERSISTENT_REDUCTION" or blocks == 0:
        return autotuner.configs[0]
    length = math.prod(hint for name, hint in hints.items() if name.startswith("r"))
    rows = lambda config: config.kwargs.get("XBLOCK", 1)
    fit = [config for config in autotuner.configs if rows(config) * length <= BLOCK and hints.get("x", 1) >= rows(config) * blocks]
    return max(fit, key=rows, default=autotuner.configs[0])


def _inductor(heuristics):
    def text(autotuner, values):
        """xnumel times r0_numel and so on; kernels that are several in one have xnumel_0, xnumel_1."""
        parts, names, changed = {}, autotuner.fn.arg_names, autotuner.inductor_meta.get("mutated_arg_names") or ()
        for name, value in zip(names, values):
            if "numel" in name and type(value) is int:
                part = name.split("numel")[1]
                parts[part] = parts.get(part, 1) * value
        directions = [_direction(name, value, changed) for name, value in zip(names, values)] if len(names) >= len(values) else ()
        return _text(autotuner.inductor_meta.get("kernel_name", "triton_"), values, sum(parts.values()), directions=directions)

    launch = heuristics.CachingAutotuner.run

    @functools.wraps(launch)
    def run(autotuner, *values, **named):
        if not _told():
            return launch(autotuner, *values, **named)
        name = autotuner.inductor_meta.get("kernel_name", "triton_")
        if "flex_attention" in name and "pretend_masks" in sys.modules:
            return sys.modules["pretend_masks"].within(text(autotuner, values), launch, autotuner, *values, **named)
        return _within(text(autotuner, values), launch, autotuner, *values, **named)

    tune = heuristics.CachingAutotuner.bench

    @functools.wraps(tune)
    def bench(autotuner, launcher, *values, **named):
        _push("nn.Module: tuning of kernels (torch.compile)")  # not of the module that is compiled
        try:
            return _within(text(autotuner, values), tune, autotuner, launcher, *values, **named)
        finally:
            _pop()

    make = heuristics.CachingAutotuner.__init__

    @functools.wraps(make)
    def made(autotuner, *given, **named):
        make(autotuner, *given, **named)
        if autotuner.configs:
            autotuner.configs = [_likely(autotuner)]

    heuristics.CachingAutotuner.__init__, heuristics.CachingAutotuner.run, heuristics.CachingAutotuner.bench = made, run, bench
    if hasattr(heuristics.CachingAutotuner, "coordinate_descent_tuning"):
        heuristics.CachingAutotuner.coordinate_descent_tuning = lambda autotuner, launcher, *values, **named: launcher


def _select(module):
    """max-autotune times the library's kernel and dozens of its own, which are compiled for that. Where nothing is timed the library's is taken, and where there is none
    the first that can be compiled."""
    choose = module.AlgorithmSelectorCache.__call__

    def can_be(choice):
        try:
            choice.precompile()
        except Exception:  # it asks for more shared memory than there is, say
            return False
        return True

    @functools.wraps(choose)
    def chosen(cache, name, choices, *given, **named):
        choices = [choice for choice in choices if choice is not None]
        if len(choices) > 1:
            of_library = [choice for choice in choices if isinstance(choice, module.ExternKernelCaller)]
            choices = of_library[:1] or [next((choice for choice in choices if can_be(choice)), choices[0])]
        return choose(cache, name, choices, *given, **named)

    module.AlgorithmSelectorCache.__call__ = chosen


def _benchmarks(module):
    """What TorchInductor times (padded products beside others, say) is run once to learn of its memory: times mean nothing here."""
    kind = getattr(module, "InductorBenchmarker", None)
    if kind is None:
        return
    measure = kind.benchmark_gpu
    counts = ("estimation_iters", "memory_warmup_iters", "benchmark_iters")
    once = {name: 1 for name in counts if name in inspect.signature(measure).parameters}

    @functools.wraps(measure)
    def measured(benchmarker, call, *given, **named):
        _push("tuning of kernels (torch.compile)")
        try:
            return measure(benchmarker, call, *given, **(named if given else dict(named, **once)))
        finally:
            _pop()

    kind.benchmark_gpu = measured


def _autotuner(module):
    """Where nothing is timed, the first choice that compiles is as good as any: it is launched once, and the others are not compiled."""
    tune = module.Autotuner._bench

    def once(call, *how, quantiles=None, **more):
        call()
        return [1.0] * len(quantiles) if quantiles else 1.0

    @functools.wraps(tune)
    def bench(tuner, *values, **named):
        if getattr(tuner, "_chosen_for", None) is tuner.nargs:  # a new dict at each call of the kernel
            return [float("inf")] * 3
        tuner.do_bench = once
        _push("nn.Module: tuning of kernels (Triton)")
        try:
            times = tune(tuner, *values, **named)
        finally:
            _pop()
        if times != [float("inf")] * 3 and times != float("inf"):  # else it did not compile, or takes more shared memory than there is
            tuner._chosen_for = tuner.nargs
        return times

    module.Autotuner._bench = bench
    if hasattr(module, "do_bench"):  # up to 3.0
        module.do_bench = once


def _cute(provider):
    """A compiled function takes what its author's does: inputs, and then outputs, as a rule."""

    def telling(call):
        @functools.wraps(call)
        def told(function, *values, **named):
            name = str(getattr(function, "function_name", "")).replace("cutlass___call___", "", 1).split("_object_at")[0]
            if hasattr(_inside, "attention") and "process" not in name or not _told():  # sums before a gradient and after it are as long as their own arrays
                return call(function, *values, **named)
            return _within(_text("cute::" + name, list(values) + list(named.values())), call, function, *values, **named)

        return told

    for name in ("TVMFFIJitCompiledFunction", "TVMFFIJitCompiledFunctionWithKwargs"):
        kind = getattr(provider, name, None)
        if kind is not None:
            kind.__call__ = telling(kind.__call__)


def _experts(module):
    """One product of a mixture's experts: rows, weights [experts, inner, width], results."""
    def telling(invoke):
        @functools.wraps(invoke)
        def told(*args, **named):
            arrays = [args[i] if i < len(args) else named.get("ABC"[i]) for i in range(3)]
            if not _told() or not all(isinstance(array, torch.Tensor) for array in arrays):
                return invoke(*args, **named)
            return _within(_text("vllm::fused_moe_kernel", arrays), invoke, *args, **named)

        return told

    for name in ("invoke_fused_moe_kernel", "invoke_fused_moe_triton_kernel", "invoke_fused_moe_wna16_triton_kernel"):
        if hasattr(module, name):
            setattr(module, name, telling(getattr(module, name)))


def _attention(interface):
    def telling(attend, range_name, first):
        names = list(inspect.signature(attend).parameters)

        @functools.wraps(attend)
        def told(*args, **named):
            given = dict(zip(names, args), **named)
            arrays = [given.get(name) for name in first + ("q", "k", "v")]
            if hasattr(_inside, "attention") or not _told() or not all(isinstance(array, torch.Tensor) for array in arrays):
                return attend(*args, **named)
            _inside.attention = True
            try:
                return with_lengths(given, _within, _text(range_name, arrays + [given.get("causal") is True]), attend, *args, **named)
            finally:
                del _inside.attention

        return told

    interface._flash_attn_fwd = telling(interface._flash_attn_fwd, "flash_attn::_flash_attn_forward", ())
    interface._flash_attn_bwd = telling(interface._flash_attn_bwd, "flash_attn::_flash_attn_backward", ("dout",))


def _pages(module, name, arrays, lengths):
    """Tells of SGLang's attention in Triton over pages of a cache, @arrays of its arguments, and how long the sequences are: @lengths of all of them."""
    attend = getattr(module, name)
    names = list(inspect.signature(attend).parameters)

    @functools.wraps(attend)
    def told(*args, **named):
        given = dict(zip(names, args), **named)
        if not _told():
            return attend(*args, **named)
        return with_lengths(lengths(given), _within, _text("sglang::paged_attention", [given[array] for array in arrays]), attend, *args, **named)

    setattr(module, name, told)


def _decodes(module):
    """A query of each sequence, over keys of the cache, [places, heads, depth]."""
    _pages(module, "decode_attention_fwd", ("q", "k_buffer", "v_buffer"), lambda given: {"cu_seqlens_k": given["kv_indptr"][:given["q"].shape[0] + 1]})


def _extends(module):
    """The same of prompts, or of parts of them: over what the cache has of each, and over themselves."""

    def lengths(given):
        return dict(given, cu_seqlens_k=given["qo_indptr"], cu_seqlens_q=given["qo_indptr"], cu_seqlens_before=given["kv_indptr"], causal=given.get("is_causal", True))

    _pages(module, "extend_attention_fwd", ("q_extend", "k_extend", "v_extend"), lengths)


def _steps(kind, name, count):
    """A mark before each step of a server's worker; @count: how many tokens of how many requests it computes, of what it is given."""
    run = getattr(kind, name)

    @functools.wraps(run)
    def told(worker, *args, **named):
        try:
            tokens, requests = count(*args, **named)
            if tokens > 0:
                torch.cuda.nvtx.mark("server step: %d tokens of %d requests" % (tokens, requests))
        except Exception as error:  # of another release
            say(NO_STEPS, error)
        return run(worker, *args, **named)

    setattr(kind, name, told)


def _cache(module):
    make = getattr(module, "allocate_kv_cache", None)  # since 0.33
    if make is None:
        return

    @functools.wraps(make)
    def told(config, *args, **named):
        sizes = [getattr(group.kv_cache_spec, "block_size", 0) for group in getattr(config, "kv_cache_groups", ())]
        tokens = " of %d tokens" % (config.num_blocks * sizes[0]) if len(sizes) == 1 and sizes[0] else ""  # kinds of layers share blocks in ways of their own
        return _within("server KV cache" + tokens, make, config, *args, **named)

    module.allocate_kv_cache = told


def _room(module):
    """What a server says that has too little memory left for its cache, of which it has asked the device for nothing yet."""
    check = getattr(module, "_check_enough_kv_cache_memory", None)
    if check is None or check.__module__ != module.__name__:
        return

    @functools.wraps(check)
    def checked(*args, **named):
        try:
            return check(*args, **named)
        except ValueError as error:
            torch.cuda.nvtx.mark("server has no room: " + " ".join(str(error).split(" See http")[0].split()))
            raise

    module._check_enough_kv_cache_memory = checked


def _steps_of_vllm(module):
    def count(scheduler_output, *rest, **named):
        tokens = scheduler_output.num_scheduled_tokens
        return sum(tokens.values()), len(tokens)

    _steps(module.Worker, "execute_model", count)
    load = module.Worker.load_model

    @functools.wraps(load)
    def loads(worker, *args, **named):
        torch.cuda.nvtx.mark("server loads its weights")
        return load(worker, *args, **named)

    module.Worker.load_model = loads


def _steps_of_sglang(module):
    def count(batch=None, *rest, **named):
        requests = len(batch.seq_lens) if batch is not None else 0
        return batch.extend_num_tokens if requests and batch.forward_mode.is_extend() else requests, requests

    _steps(module.TpModelWorker, "forward_batch_generation", count)
