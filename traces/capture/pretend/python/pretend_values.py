"""Values of small tensors of integers and truth, which programs decide by: masks, positions, indices, counts, whether all are done.

Kernels do not run, so results are zeros. Device memory is memory of this process, though: what depends on no floating-point result (a mask that the host made,
a comparison of lengths or of random numbers, cells of points) is computed here by PyTorch's own CPU operators after the real operator launched its kernels, and written where its result lies. Where
floating-point results become masks and indices a guess begins, from which the rest is computed again: a comparison holds for a share of the elements
(ECHELON_PRETEND_PICKED), spread evenly; what is sorted stays where it stands, and as many are found as are asked for; choices among few (topk, argmax of a
router) fall anywhere, so that experts get about equal shares, and few tokens leave some without any; torchvision's nms keeps every box. All else that depends on such results is zeros."""
import contextlib
import ctypes
import functools
import math
import os
import sys

import pretend_generated
import torch
from torch.utils._python_dispatch import TorchDispatchMode

LARGEST = 1 << 24  # elements (a graph's edges, say); larger ones stay zeros
HOST_WORK = 1 << 20  # bytes of the host's memory that an operator on its processor reads and writes; fewer are lost in what a launch takes
SCALARS = 64  # elements of floating-point tensors that are looked at: norms of masks, thresholds
COUNTED = 1 << 22  # and of those that are made of whole numbers, ranges, random numbers and the host's data alone: weights of windows that overlap, points
BROUGHT = 1 << 20  # of those that the host copies here, or that are filled: larger ones are weights and caches, and no more than 1 GiB in all is kept
COLUMNS = 64  # of rows that are sorted column by column: coordinates
FEW = 1024  # choices of a router; a vocabulary has more
INDICES = 1 << 16  # bytes of whole numbers; most larger arrays of them are packed weights, which take no memory here
MANY = 64  # that topk finds: boxes, not a router's experts or a search's beams
aten = torch.ops.aten
COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
AS_CALLED = getattr(torch._C, "_RestorePythonTLSSnapshot", contextlib.nullcontext)  # what the thread had on before a mode was asked
WHOLE = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
UINT64 = getattr(torch, "uint64", None)  # which PyTorch has from 2.3 on

ONLY_WRITTEN = ("aten::copy_", "aten::fill_", "aten::zero_")
ROWS = ("aten::embedding", "aten::index", "aten::index_select", "aten::gather", "aten::take")  # read what they return, not all of their table
MASKED = ("aten::_efficient_attention_", "aten::_scaled_dot_product_efficient_attention")  # by an argument that the names of their kernels do not tell
INDEXED = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default}
OF_PYTORCH = ("c10d", "_c10d_functional", "_c10d_functional_autograd", "prim", "prims", "profiler", "inductor", "higher_order", "symm_mem", "_dtensor")
BELOW = {aten.lt.Scalar, aten.le.Scalar}  # a threshold; what is not below it is above it
ABOVE = {aten.gt.Scalar, aten.gt.Tensor, aten.ge.Scalar, aten.ge.Tensor, aten.lt.Tensor, aten.le.Tensor}  # or between two others, as points of a box
EQUAL = {aten.eq.Scalar: True, aten.eq.Tensor: True, aten.ne.Scalar: False, aten.ne.Tensor: False}
LOGICAL = {aten.logical_and.default, aten.logical_or.default, aten.logical_not.default, aten.bitwise_and.Tensor, aten.bitwise_or.Tensor, aten.bitwise_not.default,
           aten.logical_and_.default, aten.logical_or_.default, aten.bitwise_and_.Tensor, aten.bitwise_or_.Tensor, aten.__iand__.Tensor, aten.__ior__.Tensor,
           aten.clone.default, aten.all.dim, aten.all.dims, aten.any.dim, aten.any.dims}
WELL = {aten.all.default: True, aten._is_all_true.default: True, aten.any.default: False, aten._is_any_true.default: False}  # whether all is well, or something wrong
CHOICES = {aten.topk.default: 2, aten.argmax.default: 1, aten.argmin.default: 1, aten.max.dim: 1, aten.min.dim: 1}  # and which argument their axis is
SORTS = {aten.sort.default: 1, aten.sort.stable: 2}
FILLED = {aten.ones_like.default, aten.zeros_like.default, aten.full_like.default, aten.new_ones.default, aten.new_zeros.default, aten.new_full.default,
          aten.fill_.Scalar, aten.zero_.default}  # whatever lies in what they are given: the gradient of a loss begins as ones
MADE = {aten.ones.default, aten.zeros.default, aten.full.default, aten.new_ones.default, aten.new_zeros.default, aten.new_full.default}  # distances begin so
COUNTS = {aten.sum.default, aten.count_nonzero.default}
RANGES = {aten.arange.default, aten.arange.start, aten.arange.start_step, aten.linspace.default}
RANDOM = {aten.randperm.default, aten.randperm.generator, aten.randint.default, aten.randint.generator, aten.randint.low, aten.randint.low_generator}
# Random numbers of a distribution that is known: neighbours that are sampled, rays, masks of tokens. Not those that weights begin as, which are made in place.
DRAWN = {aten.rand.default, aten.rand.generator, aten.rand_like.default, aten.randn.default, aten.randn.generator, aten.randn_like.default, aten.bernoulli.default,
         aten.bernoulli.p}
# What little work beside element-wise operators is done again on random numbers and on the host's data: what a program decides by, and no network.
LIGHT = {"cat", "stack", "index", "index_select", "gather", "sum", "mean", "prod", "linalg_vector_norm", "linalg_cross", "cumsum", "cumprod", "amax", "amin", "max", "min",
         "clone", "_to_copy", "repeat", "roll", "flip", "index_put", "index_put_", "_index_put_impl_", "index_add", "index_add_", "index_reduce_", "scatter", "scatter_",
         "scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_"}
# Look whether all that they are given is finite, or whether lengths sum up, and end where it is not so; as far as this PyTorch has them.
SOUND = {getattr(aten, name).default for name in ("linalg_eig", "_linalg_eigvals", "segment_reduce") if hasattr(aten, name)}
ALL_SOUND = {aten.normal.float_Tensor, aten.normal.Tensor_Tensor}  # whether no deviation is negative, twice
READING = {getattr(aten, name).default for name in ("_grouped_mm",) if hasattr(aten, name)}  # on the host, how many rows each group has, where no kernel does it
CHECKING = ("istft",)  # end where one of their own results is too small to divide by
READS = {aten._local_scalar_dense.default, aten._to_copy.default, aten.copy_.default}

NUMBERS = (int, float, bool)
PLAIN = (torch.Tensor, torch.nn.Parameter)
WITHOUT_MEMORY = (torch._subclasses.fake_tensor.FakeTensor, torch._subclasses.functional_tensor.FunctionalTensor)

_library = ctypes.PyDLL(None)
for _name in ("pretend_known", "pretend_fill", "pretend_clear", "pretend_unknown"):
    getattr(_library, _name).argtypes = (ctypes.c_void_p, ctypes.c_size_t)


_library.pretend_host_work.argtypes = (ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64)
_library.pretend_own_mode.argtypes = (ctypes.c_void_p,)
_tracing = torch._C._get_tracing_state
_compiles = getattr(getattr(torch, "compiler", None), "is_compiling", None) or (lambda: False)
_doubt, _clear = _library.pretend_doubt, _library.pretend_clear


def _is_plain(value):
    """A tensor over memory of its own; also one of a kind that only answers to functions, as fastai's, and not one made of others."""
    return isinstance(value, torch.Tensor) and (type(value) in PLAIN or type(value).__torch_dispatch__ is torch.Tensor.__torch_dispatch__)


def _is_here(value):
    return _is_plain(value) and value.is_cuda and value.layout == torch.strided


def _span(tensor):
    """Bytes from the first element to the last."""
    if tensor.numel() == 0:
        return 0
    return (sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride())) + 1) * tensor.element_size()


def _seen(tensor):
    """The same memory as a tensor of the CPU."""
    bytes = _span(tensor)
    if bytes == 0:
        return torch.empty(tensor.shape, dtype=tensor.dtype)
    memory = (ctypes.c_char * bytes).from_address(tensor.data_ptr())
    return torch.frombuffer(memory, dtype=tensor.dtype).as_strided(tensor.shape, tensor.stride())


def _has_kernel(func, key):
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key)


def _numbers_as_tensors(func, args):
    """A tensor that a number was made (TorchScript's, of a size) comes to a mode as that number, which an operator on tensors does not take."""
    of = [str(argument.type) for argument in func._schema.arguments]
    return tuple(torch.tensor(value) if kind == "Tensor" and type(value) in NUMBERS else value for value, kind in zip(args, of))


def _is_known(tensor):
    return tensor.dtype in WHOLE or bool(_library.pretend_known(tensor.data_ptr(), _span(tensor)))


def _is_made(tensor):
    """Whole numbers that no operator wrote, nor the host: a kernel of the program's own makes them."""
    return tensor.dtype in WHOLE and 0 < tensor.numel() <= LARGEST and not _library.pretend_known(tensor.data_ptr(), _span(tensor))


def _setting(name, default, what, holds):
    """A number of the environment's."""
    text = os.environ.get(name, str(default))
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if holds(number):
        return number
    sys.stderr.write("echelon capture: %s: '%s' is not %s\n" % (name, text, what))
    return default


def _tensors(values):
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _host_bytes(value):
    """Of the host's memory, in an argument or a result; a tensor of tensors (a shard) is the one that lies here. None: it is a device's."""
    sum = 0
    for tensor in _tensors((value,)):
        tensor = getattr(tensor, "_local_tensor", tensor)
        if tensor.device.type != "cpu":
            return None
        dense = tensor.numel() * tensor.element_size()
        sum += min(dense, _span(tensor)) if _is_plain(tensor) and tensor.layout == torch.strided else dense
    return sum


def _indices(sparse):
    """The arrays that say which elements a sparse tensor has; none: of a kind that is left alone."""
    if sparse.layout == torch.sparse_coo:
        return (sparse._indices(),)
    if sparse.layout == torch.sparse_csr:
        return (sparse.crow_indices(), sparse.col_indices())
    return ()


def _made_sparse(like, indices, values):
    if like.layout == torch.sparse_csr:
        return torch.sparse_csr_tensor(*indices, values, like.shape, check_invariants=False)
    return torch.sparse_coo_tensor(*indices, values, like.shape, check_invariants=False)._coalesced_(like.is_coalesced())


def _place():
    """The program's own line, in brackets, where Python is in one."""
    frame = sys._getframe(1)
    own = (os.path.dirname(os.path.abspath(__file__)), os.path.dirname(torch.__file__))
    while frame is not None and frame.f_code.co_filename.startswith(own):
        frame = frame.f_back
    return " (%s:%d)" % (os.path.basename(frame.f_code.co_filename), frame.f_lineno) if frame is not None else ""


def _called(func, args, kwargs):
    return func(*args, **kwargs)


def _moved(value):
    """An argument for the CPU's operator; a sparse one with its elements where they are, all of them zeros."""
    if _is_here(value):
        return _seen(value)
    if isinstance(value, torch.Tensor) and value.is_cuda and value.layout != torch.strided:
        values = value._values() if value.layout == torch.sparse_coo else value.values()
        return _made_sparse(value, [_seen(index) for index in _indices(value)], torch.zeros(values.shape, dtype=values.dtype))
    if isinstance(value, (list, tuple)):
        return type(value)(_moved(one) for one in value) if type(value) in (list, tuple) else value
    return torch.device("cpu") if isinstance(value, torch.device) else value


def _unique_rows(all, dim, sorted=True, return_inverse=False, return_counts=False):
    """As aten.unique_dim, which makes a tensor of each row on the CPU: cells of 100,000 points took minutes. By one column after another, the first one last."""
    moved = all.movedim(dim, 0)
    rows, order = moved.reshape(len(moved), -1), torch.arange(len(moved))
    for column in reversed(rows.unbind(1)):
        order = order[column[order].argsort(stable=True)]
    ordered, first = rows[order], torch.ones(len(rows), dtype=torch.bool)
    first[1:] = (ordered[1:] != ordered[:-1]).any(1)
    place = first.cumsum(0) - 1
    none = order[:0]
    return (moved[order[first]].movedim(0, dim), torch.empty_like(order).index_copy_(0, order, place) if return_inverse else none,
            place.bincount() if return_counts else none)


def _on_host(func, args, kwargs, out):
    """What the CPU's operator makes; of whole numbers in 64-bit floats where it has no kernel for those (histc)."""
    given, named = [_moved(a) for a in args], {name: _moved(value) for name, value in kwargs.items()}
    if func is aten.unique_dim.default and 0 < given[0].numel() <= COLUMNS * given[0].shape[given[1]]:
        func = _unique_rows
    try:
        return func(*given, **named)
    except RuntimeError as error:
        if "not implemented for" not in str(error) or not isinstance(out, torch.Tensor):
            raise
    given = [a.double() if isinstance(a, torch.Tensor) and a.dtype in WHOLE else a for a in given]
    return func(*given, **named).to(out.dtype)


def _finds_by_sorting(elements, among, **named):
    return among.numel() >= int(10 * elements.numel() ** 0.145)


def _isin(elements, among, *, assume_unique=False, invert=False):
    """Which of many are found among many (isin_sorting, ATen/native/TensorCompare.cpp)."""
    flat, others = elements.reshape(-1), among.reshape(-1)
    if not assume_unique:
        flat, order = aten._unique(flat, False, True)
        others, _ = aten._unique(others, False)
    all, at = aten.cat([flat, others]).sort(stable=True, dim=0)
    twice = torch.empty_like(all, dtype=torch.bool)
    twice[:-1] = all[1:] != all[:-1] if invert else all[1:] == all[:-1]
    twice[-1:] = invert
    found = torch.empty_like(twice).index_copy_(0, at, twice)
    return (found[:elements.numel()] if assume_unique else found[order]).reshape(elements.shape)


def _are_many(matrices):
    return matrices.dim() > 2 and matrices.shape[-1] > 1 and matrices[..., 0, 0].numel() > 1


def _matrix_exp(matrices):
    """How many of them fall into each of its cases is counted on the device: all into that of most products (compute_T18, ATen/native/LinearAlgebra.cpp)."""
    matrices.abs().sum(-2).amax(-1)
    many = matrices.reshape(-1, *matrices.shape[-2:])
    second = many @ many
    third = many @ second
    powers = torch.stack([torch.empty_like(many), many, second, third, third @ third])
    sums = (torch.empty(5, 5, dtype=many.dtype, device=many.device) @ powers.view(5, -1)).view(powers.shape)
    ninth = torch.baddbmm(sums[3], sums[0], sums[4])
    return torch.baddbmm(sums[1], sums[2] + ninth, ninth).view(matrices.shape)


def _is_masked(padded, mask, mask_check=True):
    return _is_here(mask)


def _nested_from_mask(padded, mask, mask_check=True):
    return aten._nested_tensor_from_mask.default._op_dk(torch._C.DispatchKey.CUDA, padded, mask, mask_check)


# Operators within which the host goes by counts of the device's: when they do, and what they are made of.
COUNTING = {aten.isin.Tensor_Tensor: (_finds_by_sorting, _isin), aten.linalg_matrix_exp.default: (_are_many, _matrix_exp),
            aten._nested_tensor_from_mask.default: (_is_masked, _nested_from_mask)}


class Values(TorchDispatchMode):
    @classmethod
    def is_infra_mode(cls):
        return True  # torch.compile is to compile as if this were not here

    def __init__(self):
        super().__init__()
        self.kinds = {}
        self.packed = {}  # operators on sequences that lie one behind the other, and the names of their arguments
        self.said = self.said_many = self.said_guess = self.said_count = False
        self.told = 0  # bytes of the host's memory that its operators read and wrote
        self.checking = False  # within one of CHECKING
        self.guessed = set()  # addresses of whole numbers and masks that hang on results of kernels
        self.counted = set()  # of floating-point numbers that hang on no result
        self.drawn = set()  # of those, what hangs on random numbers or on what the host copied here
        self.compared = set()  # of those, masks that are comparisons of results
        self.share = _setting("ECHELON_PRETEND_PICKED", 0.5, "a share; expected a number from 0 to 1", lambda share: 0 <= share <= 1)
        self.read = _setting("ECHELON_PRETEND_READ", 0.0, "a finite number", math.isfinite)  # what a result is to a program that reads one
        self.spread = torch.empty(0, dtype=torch.float64)
        self.random, self.chance = torch.Generator().manual_seed(0), torch.Generator().manual_seed(0)

    def kind(self, func):
        """"view" of an argument, "empty" memory, "random", "masked" attention, "value", or "composite" of those, which inference mode leaves whole; "others": not
        PyTorch's."""
        kind = self.kinds.get(func)
        if kind is None and func.namespace == "aten" and not torch._C._dispatch_has_kernel(func.name()):
            kind = self.kinds[func] = "view"  # what a tensor made of others is asked of itself (sizes of a nested one), which no kernel does
        elif kind is None and func.namespace == "aten" and _has_kernel(func, "CompositeImplicitAutograd") and not _has_kernel(func, "CUDA"):
            kind = self.kinds[func] = "composite"  # silu_backward is both
        elif kind is None:
            returns = func._schema.returns
            aliased = [r.alias_info is not None and not r.alias_info.is_write for r in returns]
            random = torch.Tag.nondeterministic_seeded in func.tags or any(a.name == "generator" for a in func._schema.arguments)
            name = func._schema.name
            kind = "view" if any(aliased) else "empty" if name.startswith(("aten::empty", "aten::new_empty")) else "random" if random else "value"
            if name.startswith(MASKED):
                kind = "masked"
            if name in ("aten::set_", "aten::resize_", "aten::record_stream", "aten::is_pinned", "aten::_pin_memory"):
                kind = "view"
            elif func.namespace != "aten":
                kind = "view" if func.namespace in OF_PYTORCH else "others"
            self.kinds[func] = kind
            names = [argument.name for argument in func._schema.arguments]
            if not set(pretend_generated.KEYS + pretend_generated.USED).isdisjoint(names):
                self.packed[func] = names
        return kind

    def seen_within(self, func, *args, **kwargs):
        """An operator of another package that is given whole numbers may go by what it makes of them itself (the longest of lengths): its operators are looked at."""
        if not _has_kernel(func, "CUDA") or not any(_is_here(value) and value.dtype in WHOLE for value in args):
            return func(*args, **kwargs)
        with AS_CALLED(), self:
            return func._op_dk(torch._C.DispatchKey.CUDA, *args, **kwargs)

    def run(self, kind, func, args, kwargs):
        tell = pretend_generated.typed if kind == "masked" else _called
        if kind == "others":
            tell = functools.partial(pretend_generated.typed, run=functools.partial(self.seen_within, func))
        if func in self.packed:
            given = dict(zip(self.packed[func], args), **kwargs)
            return pretend_generated.with_lengths(given, tell, func, args, kwargs)
        return tell(func, args, kwargs)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if args and type(args[0]) in NUMBERS:
            args = _numbers_as_tensors(func, args)
        if _tracing() is not None:  # what we ask of tensors would be part of what torch.jit.trace records
            return func(*args, **kwargs)
        if any(of.__name__ == "NestedTensor" for of in types):  # it says what is done with what it is made of, which comes here then; a compiler's has no memory
            return func(*args, **kwargs) if any(of in WITHOUT_MEMORY for of in types) else NotImplemented
        if any(tensor.is_nested for tensor in _tensors(args)):  # strided: several sizes, and kernels of its own beside those that others share
            return func(*args, **kwargs)
        if func is aten.masked_select.default and _is_here(args[1]):
            source, mask = torch.broadcast_tensors(*args)
            func, args = aten.index.Tensor, (source, [mask])
        if func in INDEXED:
            args = self.with_indices(args)
        kind = self.kinds.get(func) or self.kind(func)
        if kind == "view":
            out = func(*args, **kwargs)
            if func is aten._pin_memory.default:
                self.tell_host(func, args, kwargs, out)
            return out
        if kind == "empty":
            out = func(*args, **kwargs)
            if _is_here(out) and out.dtype in WHOLE and out.numel() > 0:  # for a kernel to write, which does not run: what lay there is no index
                _clear(out.data_ptr(), _span(out))
                if _span(out) <= INDICES:  # of what was written there in pieces not all is known to be there
                    ctypes.memset(out.data_ptr(), 0, _span(out))
            return out
        if kind == "others":
            if not any(_is_here(value) for value in args):
                return func(*args, **kwargs)
            return self.boxes(func, args, kwargs) if func.name() == "torchvision::nms" else self.run(kind, func, args, kwargs)
        if func in COUNTING and _is_here(args[0]) and COUNTING[func][0](*args, **kwargs):
            with AS_CALLED(), self:
                return COUNTING[func][1](*args, **kwargs)
        if kind == "composite":
            with AS_CALLED(), self:  # within autocast, which is off where a mode is asked, what it is made of is cast
                return func._op_dk(COMPOSITE, *args, **kwargs)  # not func.decompose: what stands in for it in Python does other work (dropout copies)
        if func is aten._local_scalar_dense.default and args[0].dtype is UINT64:
            return func(args[0].view(torch.int64), **kwargs) & (1 << 63) - 1  # PyTorch hands no more than 63 bits of a number to and from a mode: seeds
        if func is aten._local_scalar_dense.default and args[0].device.type == "cpu":
            return func(*args, **kwargs)  # an optimizer's count of steps, for each parameter
        if func in READS:
            out = func(*args, **kwargs)
            if func is aten._local_scalar_dense.default and _is_here(args[0]):
                if type(out) is float and self.read != 0 and not _is_known(args[0]):
                    return self.read
                if type(out) is int and _is_made(args[0]):
                    return self.count(out)
        else:
            _doubt(2 if func in SOUND else 3 if func in ALL_SOUND else 0 if func in READING else 1)
            try:
                out = self.run(kind, func, args, kwargs)
            finally:
                _doubt(0)
        if isinstance(out, torch.Tensor) and out.is_nested:
            return out
        if type(out) is torch.Tensor and out.is_cuda and out.is_floating_point() and out.numel() > SCALARS and out.layout == torch.strided and not self.counts(func, args, out):
            self.counted.discard(out.data_ptr())
            if func not in READS or all(tensor.is_cuda for tensor in _tensors(args)):  # what the host copies to the device reads back
                _clear(out.data_ptr(), out.numel() * out.element_size())  # most of what a program does
            elif out.numel() <= BROUGHT and self.is_data(func, args, out):
                self.write(args[func is aten.copy_.default], out)
                self.counted.add(out.data_ptr())
                self.drawn.add(out.data_ptr())
            return out
        try:
            _library.pretend_quiet(1)
            return self.valued(func, args, kwargs, out)
        except Exception as error:
            self.leave(func, error, out)
            return out
        finally:
            _library.pretend_quiet(0)

    def is_data(self, func, args, out):
        """Whether what the host copied to the device is no weight."""
        source = args[func is aten.copy_.default]
        plain = [type(tensor) is torch.Tensor and not tensor.requires_grad for tensor in (source, args[0])]
        return all(plain) and source.device.type == "cpu" and source.layout == torch.strided and source.shape == out.shape

    def counts(self, func, args, out):
        """Whether @out, of floating-point numbers, hangs on whole numbers, ranges, random numbers or the host's data alone; with weights that the host made it would be
        worked out, too."""
        if out.numel() > COUNTED or func is aten.copy_.default:
            return False
        if func in DRAWN or func in RANGES or (func in MADE and out.numel() <= BROUGHT):
            return True
        if func in FILLED or func in MADE:
            return False
        given = list(_tensors(args))
        if self.kinds.get(func) != "value" or not given or not all(t.is_cuda and (t.dtype in WHOLE or t.numel() <= SCALARS or t.data_ptr() in self.counted) for t in given):
            return False
        return torch.Tag.pointwise in func.tags or func._schema.name[len("aten::"):] in LIGHT or self.drawn.isdisjoint(t.data_ptr() for t in given)

    def leave(self, func, error, out):
        """What we cannot compute is zeros; an operator that the CPU does not have is left alone from now on."""
        if isinstance(error, NotImplementedError):
            self.kinds[func] = "view"
            return
        self.clear(_tensors((out,)))
        if not self.said:
            self.said = True
            sys.stderr.write("echelon capture: values of %s are left zeros: %s: %s\n" % (func, type(error).__name__, str(error).split("\n")[0]))

    def with_indices(self, args):
        """Masks among indices as the places that they choose: how many there are decides the result's shape."""
        chosen = []
        try:
            for index in args[1]:
                if _is_here(index) and index.dtype in (torch.bool, torch.uint8):
                    chosen.extend(self.__torch_dispatch__(aten.nonzero.default, (), (index,)).unbind(1))
                else:
                    chosen.append(index)
        except Exception:
            return args
        return (args[0], chosen) + tuple(args[2:])

    def many(self, func, mask, out):
        """What a mask picks that is too large to be computed: all, as most edges of a graph are no loops, so that memory is no less than a GPU's; of comparisons of
        results a share."""
        elements = mask.numel()
        picked = int(elements * self.share) if mask.data_ptr() in self.compared else elements
        if not self.said_many:
            self.said_many = True
            sys.stderr.write("echelon capture: a mask of %d elements is too large to be computed here: %d of them are taken as set\n" % (elements, picked))
        if func is aten.nonzero.default:
            out = torch.empty((picked, max(mask.dim(), 1)), dtype=out.dtype, device=out.device)
        else:
            self.write(torch.tensor(picked), out)
        self.forget([out])
        return out

    def count(self, here):
        """What a kernel of the program's own counts, which reads as @here."""
        count = max(int(self.read), 0) or here
        if not self.said_count:
            self.said_count = True
            sys.stderr.write("echelon capture: the program reads a whole number that kernels of its own make%s: %d here, and arrays that are as large as it says are so "
                             "here (ECHELON_PRETEND_READ: what such numbers are)\n" % (_place(), count))
        return count

    def say_guess(self, picked, elements):
        if self.said_guess:
            return
        self.said_guess = True
        where = _place()
        sys.stderr.write("echelon capture: which elements a mask picks hangs on results of kernels, which are not computed%s: %d of %d are taken here, and arrays "
                         "behind that are as large (of each such mask a share of %g: ECHELON_PRETEND_PICKED)\n" % (where, picked, elements, self.share))

    def write(self, made, out):
        """What the CPU made, where the real operator's result lies."""
        if isinstance(out, (list, tuple)):
            for one, other in zip(made, out):
                self.write(one, other)
        elif _is_here(out):
            seen = _seen(out)
            if made.data_ptr() != seen.data_ptr():
                seen.copy_(made)
            self.keep(out)
        elif isinstance(out, torch.Tensor):
            out.copy_(made)

    def keep(self, out):
        if out.numel() > 0:
            _library.pretend_fill(out.data_ptr(), _span(out))

    def clear(self, outs):
        for out in outs:
            if _is_here(out) and out.numel() > 0:
                _library.pretend_clear(out.data_ptr(), _span(out))
                if out.dtype in WHOLE and out.numel() <= LARGEST:
                    if _span(out) == out.numel() * out.element_size():  # masks of dropout: PyTorch's own threads would wait for one another longer than this takes
                        ctypes.memset(out.data_ptr(), 0, _span(out))
                    else:
                        _seen(out).zero_()
                    self.keep(out)
                    self.guessed.add(out.data_ptr())
                    self.compared.discard(out.data_ptr())

    def valued(self, func, args, kwargs, out):
        outs = list(_tensors((out,)))
        given = list(_tensors(args)) + list(_tensors(kwargs.values()))
        if any(tensor.layout != torch.strided for tensor in outs + given):
            return self.sparse(func, args, kwargs, given, out)
        here = [tensor for tensor in given if _is_here(tensor)]
        if not any(_is_here(tensor) for tensor in outs) and not here:
            self.tell_host(func, args, kwargs, out)
            return out
        if len(here) < len(given) and any(not _is_plain(t) or t.device.type not in ("cuda", "cpu") for t in given):
            return out
        if func in (aten._to_copy.default, aten.copy_.default) and any(t.device.type == "cpu" for t in given):
            source = args[0] if func is aten._to_copy.default else args[1]
            if _is_here(source) and isinstance(out, torch.Tensor) and out.numel() <= LARGEST and source.dtype in WHOLE:
                out.copy_(_seen(source))
            elif _is_here(out) and source.device.type == "cpu" and out.numel() <= LARGEST and out.dtype in WHOLE and source.dtype in WHOLE:
                self.write(source, out)  # of whole numbers more is kept than of what is copied else
            self.forget(outs)
            return out  # otherwise the copy is as it was asked for
        sizes = max([t.numel() for t in outs + here], default=0)
        if sizes > LARGEST and (func is aten.nonzero.default or (func in COUNTS and here[0].dtype is torch.bool)):
            return self.many(func, here[0], out)
        compared = not self.compared.isdisjoint(t.data_ptr() for t in here)
        if compared and func in WELL:  # it is
            self.write(torch.tensor(WELL[func]), out)
            self.forget(outs)
            return out
        known = self.kind(func) == "value" and sizes <= LARGEST and (func in FILLED or all(_is_known(t) for t in here))
        if func in DRAWN and out.numel() <= COUNTED and (func is not aten.bernoulli.default or _is_known(args[0])):
            self.write(self.draw(func, args, kwargs, out), out)
            self.forget(outs)
            self.counted.add(out.data_ptr())
            self.drawn.add(out.data_ptr())
            return out
        if func in RANDOM and sizes <= LARGEST:
            self.write(self.randomly(func, args), out)
            self.forget(outs)
            return out
        if func is aten.bincount.default and not known and _is_known(args[0]) and args[0].numel() <= LARGEST:  # its weights decide nothing of its size
            bins = torch.bincount(_seen(args[0]), minlength=kwargs.get("minlength", args[2] if len(args) > 2 else 0)).numel()
            return out if out.numel() == bins else torch.zeros(bins, dtype=out.dtype, device=out.device)
        if not known:
            self.clear(outs)
            if func is aten.allclose.default:  # a check holds
                return True
            if func in CHOICES or func in SORTS:
                self.forget(outs)
                return self.chosen(func, args, out)
            return self.compare(func, args, here, out) if type(out) is torch.Tensor else out
        if out is None and any(t.is_floating_point() and t.numel() > SCALARS for t in here):  # an optimizer's step on weights that the host made
            written = [args[at] for at, a in enumerate(func._schema.arguments[: len(args)]) if a.alias_info is not None and a.alias_info.is_write]
            self.clear(_tensors(written))
            return out
        guess = func not in FILLED and not self.guessed.isdisjoint(t.data_ptr() for t in here)
        drawn = func in MADE or (func not in FILLED and not self.drawn.isdisjoint(t.data_ptr() for t in here))
        of_kernels = func not in FILLED and any(_is_made(t) for t in here)
        made = _on_host(func, args, kwargs, out)
        if not outs:
            return made if isinstance(out, (bool, int, float)) else out
        if guess and func is aten.nonzero.default and here[0].numel() > 1:
            self.say_guess(made.shape[0], here[0].numel())
        out = self.fitted(made, out)
        self.write(made, out)
        for tensor in _tensors((out,)):
            if of_kernels and _is_here(tensor) and tensor.numel() > 0:
                _library.pretend_unknown(tensor.data_ptr(), _span(tensor))
            (self.guessed.add if guess else self.guessed.discard)(tensor.data_ptr())
            (self.compared.add if guess and compared and func in LOGICAL else self.compared.discard)(tensor.data_ptr())
            (self.counted.add if tensor.is_floating_point() else self.counted.discard)(tensor.data_ptr())
            (self.drawn.add if tensor.is_floating_point() and drawn else self.drawn.discard)(tensor.data_ptr())
        return out

    def sparse(self, func, args, kwargs, given, out):
        """A sparse result has the elements that the CPU's operator finds, as far as they hang on no result."""
        if not isinstance(out, torch.Tensor) or not out.is_cuda or out.layout == torch.strided:
            self.clear(_tensors((out,)))
            return out
        if any(out is tensor for tensor in given) or not _indices(out) or any(t.numel() > LARGEST for one in given + [out] for t in _indices(one)):
            return out
        if any(t.device.type != "cuda" for t in given):  # a copy to the device: its indices are known there, however many
            for source, index in zip(_indices(given[0]), _indices(out)):
                self.write(source, index)
            return out
        if any(_is_here(t) and (t.numel() > LARGEST or not _is_known(t)) for t in given):
            return out
        made = func(*[_moved(a) for a in args], **{name: _moved(value) for name, value in kwargs.items()})
        indices = [torch.empty(index.shape, dtype=index.dtype, device=out.device) for index in _indices(made)]
        for source, index in zip(_indices(made), indices):
            self.write(source, index)
        values = made._values() if made.layout == torch.sparse_coo else made.values()
        return _made_sparse(made, indices, torch.empty(values.shape, dtype=out.dtype, device=out.device))

    def forget(self, outs):
        """What they hold is no guess."""
        for out in outs:
            self.guessed.discard(out.data_ptr())
            self.compared.discard(out.data_ptr())

    def evenly(self, shape, last):
        """A share of the elements, the first or the last by an order in which all places are alike; halves that two such masks pick make up the whole."""
        elements = shape.numel()
        if self.spread.numel() < elements:
            self.spread = torch.arange(1, elements + 1, dtype=torch.float64).mul_(0.6180339887498949).frac_()  # the golden ratio's multiples lie apart from each other
        order = self.spread[:elements].reshape(shape)
        return order >= 1 - self.share if last else order < self.share

    def compare(self, func, args, here, out):
        """What a comparison of results is, and what else makes a mask of them."""
        if func is aten.nonzero.default and self.share > 0 and here[0].is_floating_point() and here[0].numel() <= LARGEST:
            made = self.evenly(here[0].shape, False).nonzero()
            self.say_guess(made.shape[0], here[0].numel())
            out = self.fitted(made, out)
        elif not _is_here(out) or out.dtype != torch.bool:
            return out
        elif func in ABOVE or func in BELOW or func in EQUAL:
            bound = float(args[1]) if isinstance(args[1], (int, float)) else None
            if args[1] is args[0] or bound in (float("inf"), float("-inf")) or out.numel() <= 1:
                # Results are finite, as zeros are; and what a program decides by is what it would read: a scale that is not above 0 is not above it
                value = 1.0 if self.checking and func in BELOW else 0.0
                self.write(getattr(torch, func._schema.name.split(":")[-1])(torch.full(out.shape, value), bound or 0.0), out)
                self.forget([out])
                if func not in EQUAL and bound not in (float("inf"), float("-inf")):  # a check of it holds, as one of many does
                    self.compared.add(out.data_ptr())
                return out
            if out.numel() > LARGEST:
                if not all(t.dtype in WHOLE for t in here):
                    self.compared.add(out.data_ptr())
                return out
            self.compared.add(out.data_ptr())
            made = self.equal(here, out.shape) == EQUAL[func] if func in EQUAL else self.evenly(out.shape, func in BELOW)
        elif func is aten._to_copy.default and 1 < out.numel() <= LARGEST:
            made = self.evenly(out.shape, False)
        else:
            return out
        self.write(made, out)
        self.guessed.add(out.data_ptr())
        return out

    def equal(self, here, shape):
        """Results are hardly ever equal, but for each greatest one, which equals one along the axis that it is the greatest of."""
        made = torch.zeros(shape, dtype=torch.bool)
        for one in here if self.share > 0 else ():
            sizes = (1,) * (len(shape) - one.dim()) + tuple(one.shape)
            axes = [axis for axis, size in enumerate(sizes) if size != shape[axis]]
            if axes:
                rows = made.movedim(axes[-1], -1)
                turn = torch.arange(rows[..., 0].numel()).reshape(rows.shape[:-1] + (1,)) % rows.shape[-1]
                rows.scatter_(-1, turn, True)
                break
        return made

    def randomly(self, func, args):
        """Whole numbers are random by themselves, the same ones each time."""
        if func in (aten.randperm.default, aten.randperm.generator):
            return torch.randperm(args[0], generator=self.random)
        low = func in (aten.randint.low, aten.randint.low_generator)
        return torch.randint(args[0] if low else 0, args[1 if low else 0], args[2 if low else 1], generator=self.random)

    def draw(self, func, args, kwargs, out):
        """Floating-point numbers that are random by themselves, the same ones each time."""
        if func is aten.bernoulli.default:
            return torch.bernoulli(_seen(args[0]), generator=self.random)
        name, kind = func._schema.name, torch.float64 if out.dtype is torch.float64 else torch.float32
        if name.startswith("aten::randn"):
            return torch.randn(out.shape, dtype=kind, generator=self.random)
        made = torch.rand(out.shape, dtype=kind, generator=self.random)
        return made < (args[1] if len(args) > 1 else kwargs.get("p", 0.5)) if func is aten.bernoulli.p else made

    def boxes(self, func, args, kwargs):
        """What torchvision's nms keeps: where nothing is known of the boxes all of them, so that the program's own limits decide."""
        _doubt(1)
        try:
            out = pretend_generated.typed(func, args, kwargs)
        finally:
            _doubt(0)
        known = _is_known(args[0]) and _is_known(args[1])
        if args[0].shape[0] > LARGEST or (self.share == 0 and not known):
            return out
        made = func(*[_moved(a) for a in args]) if known else torch.arange(args[0].shape[0])
        out = self.fitted(made, out)
        self.write(made, out)
        return out

    def tell_host(self, func, args, kwargs, out):
        """What the host's processor does takes its time, too: an optimizer's step on what was offloaded."""
        read = written = 0
        name = func._schema.name
        for at, argument in enumerate(func._schema.arguments):
            bytes = _host_bytes(args[at] if at < len(args) else kwargs.get(argument.name))
            if bytes is None:
                return
            writes = argument.alias_info is not None and argument.alias_info.is_write
            writes = writes and argument.name != "grads"  # fused optimizers', which only a scale changes
            written += bytes if writes else 0
            read += bytes if not writes or (not argument.is_out and name not in ONLY_WRITTEN) else 0
        bytes = _host_bytes(out) if not any(r.alias_info is not None for r in func._schema.returns) else 0
        if bytes is None:
            return
        written += bytes
        read = min(read, written) if name in ROWS else read
        self.told += read + written
        if read + written >= HOST_WORK:
            _library.pretend_host_work(name.encode(), read, written)

    def fitted(self, made, out):
        """Where a count of the device's decided the shape (nonzero, unique), the shape that it has."""
        if isinstance(out, (list, tuple)) and type(out) in (list, tuple):
            return type(out)(self.fitted(one, other) for one, other in zip(made, out))
        if _is_here(out) and out.shape != made.shape:
            return torch.empty(made.shape, dtype=made.dtype, device=out.device)
        return out

    def choices(self, shape, size):
        """Different ones of @size, as many as the last dimension has, for each of the others."""
        turn = torch.empty(shape, dtype=torch.int64).view(-1, shape[-1])
        for some in turn.split(max(LARGEST // size, 1)):
            some.copy_(torch.rand(len(some), size, generator=self.chance).topk(shape[-1])[1])
        return turn

    def chosen(self, func, args, out):
        """Each choice among few is as likely as another; of many, and of what is sorted, the first ones are chosen."""
        indices = out if isinstance(out, torch.Tensor) else out[1]
        at = SORTS.get(func) or CHOICES[func]
        axis = args[at] if len(args) > at else -1
        if axis is None or args[0].dim() == 0 or not 0 < indices.numel() <= LARGEST:
            return out
        size, rows = args[0].shape[axis], indices
        if func in SORTS or func is aten.topk.default:
            rows = indices.movedim(axis, -1)
        if func in SORTS or (func is aten.topk.default and rows.shape[-1] > MANY):
            turn = torch.arange(rows.shape[-1]).expand(rows.shape)
        elif size <= FEW and rows.numel() * size <= 64 * LARGEST:
            turn = self.choices(rows.shape if func is aten.topk.default else (*rows.shape, 1), size).view(rows.shape)
        else:
            return out
        _seen(rows).copy_(turn)
        self.keep(indices)
        return out


def install_lengths(finder):
    """Tells how long the sequences are that attention goes over. Kernels read it from arrays of the device; what vLLM and SGLang keep of it on the host is put there."""
    if os.environ.get("ECHELON_PRETEND_VALUES") == "0":
        return
    said = "lengths of sequences are not told"
    for name in ("vllm.vllm_flash_attn.flash_attn_interface", "flash_attn.flash_attn_interface", "sgl_kernel.flash_attn"):
        finder.when(name, _tell_lengths, said)
    for name in ("vllm.v1.attention.backend", "vllm.v1.attention.backends.utils"):  # before 0.14 the latter
        finder.when(name, _keep_lengths, said)
    finder.when("sglang.srt.layers.attention.flashattention_backend", _keep_lengths_of_sglang, said)
    for name in ("flashinfer.decode", "flashinfer.prefill"):
        finder.when(name, _plan_lengths, said)
    finder.when("sglang.srt.layers.attention.flashinfer_backend", _plan_quickly, said)
    finder.when("vllm.v1.worker.gpu.input_batch", _count_sampled, "requests whose drafts are looked at never end")
    finder.when("sglang.kernels.ops.memory.small_copy", _copy_small, said)
    finder.when("transformers.generation.utils", _go_on, "beam search may end after its first step")


def _tell_lengths(module):
    """Attention over sequences of several lengths."""
    import functools
    import inspect

    def telling(attend):
        names = list(inspect.signature(attend).parameters)

        @functools.wraps(attend)
        def told(*args, **named):
            return pretend_generated.with_lengths(dict(zip(names, args), **named), attend, *args, **named)

        return told

    for name in ("flash_attn_varlen_func", "flash_attn_with_kvcache"):
        if hasattr(module, name):
            setattr(module, name, telling(getattr(module, name)))


def _keep_lengths(module):
    """What vLLM's attention is told of a batch. It computes the lengths on the device, too, by kernels that do not run."""
    kind = getattr(module, "CommonAttentionMetadata", None)
    if kind is None or kind.__module__ != module.__name__:
        return
    made = kind.__init__

    def make(self, *args, **named):
        made(self, *args, **named)
        kept = self.__dict__
        lengths = next((kept[name] for name in ("seq_lens_cpu_upper_bound", "_seq_lens_cpu", "seq_lens_cpu") if kept.get(name) is not None), None)
        _put(kept.get("seq_lens"), lengths)
        _put(kept.get("query_start_loc"), kept.get("query_start_loc_cpu"))

    kind.__init__ = make


def _host(array):
    """The integers of an array, where they are known."""
    if not isinstance(array, torch.Tensor) or not array.is_cuda:
        return array if isinstance(array, torch.Tensor) else None
    return _seen(array) if _is_here(array) and _library.pretend_known(array.data_ptr(), _span(array)) else None


def _plan(self, given):
    """FlashInfer is told on the host how long the sequences are before it attends to them, and works out for its kernels, in a workspace, who does what. The same
    lengths stand in small arrays of ours, where they stay while graphs are launched that were captured with them."""
    pages, last = (_host(given.get(name, given.get("paged_kv_" + name))) for name in ("indptr", "last_page_len"))
    of_keys, starts = _host(given.get("kv_indptr")), _host(given.get("qo_indptr"))
    kept = self.__dict__.setdefault("_echelon", {})
    with torch.utils._python_dispatch._disable_current_modes():
        keys = None
        if of_keys is not None:
            keys = of_keys[1:] - of_keys[:-1]
        elif pages is not None and last is not None and last.numel() == pages.numel() - 1:
            each = pages[1:] - pages[:-1]
            keys = torch.where(each > 0, (each - 1) * int(given.get("page_size", 1)) + last, each)
        if keys is None or (starts is not None and starts.numel() != keys.numel() + 1):
            kept.clear()
            return
        for name, here in (("keys", keys), ("starts", starts)):
            there = kept.get(name)
            if here is None:
                kept.pop(name, None)
            elif there is None or there.numel() != here.numel():
                kept[name] = torch.empty(here.numel(), dtype=torch.int32, device="cuda")
    for name, here in (("keys", keys), ("starts", starts)):
        if here is not None:
            _put(kept[name], here.to(torch.int32))
    kept.update(heads=int(given["num_kv_heads"]), causal=given.get("causal") is True)


def _plan_lengths(module):
    import functools
    import inspect

    def planning(plan):
        names = list(inspect.signature(plan).parameters)[1:]

        @functools.wraps(plan)
        def planned(self, *args, **named):
            result = plan(self, *args, **named)
            _plan(self, dict(zip(names, args), **named))
            return result

        return planned

    def attending(attend):
        @functools.wraps(attend)
        def attended(self, q, cache, *args, **named):
            kept = self.__dict__.get("_echelon")
            if not kept or not pretend_generated._told() or q.dim() != 3:
                return attend(self, q, cache, *args, **named)
            kind = (cache[0] if isinstance(cache, (tuple, list)) else cache).dtype
            keys = torch.empty(1, kept["heads"], q.shape[-1], dtype=kind, device="meta")
            text = pretend_generated._text("flashinfer::paged_attention", [q, keys, keys])
            lengths = {"seqused_k": kept["keys"], "cu_seqlens_q": kept.get("starts"), "causal": kept["causal"]}
            return pretend_generated.with_lengths(lengths, pretend_generated._within, text, attend, self, q, cache, *args, **named)

        return attended

    for name in ("BatchDecodeWithPagedKVCacheWrapper", "BatchPrefillWithPagedKVCacheWrapper", "BatchPrefillWithRaggedKVCacheWrapper"):
        kind = module.__dict__.get(name)
        if kind is None or kind.__module__ != module.__name__:
            continue
        kind.plan, kind.run = planning(kind.plan), attending(kind.run)
        kind.begin_forward = kind.plan
        kind.run_return_lse = functools.partialmethod(kind.run, return_lse=True)


def _plan_quickly(module):
    """SGLang's own plan of what a CUDA graph decodes."""
    import functools
    import inspect
    plan = getattr(module, "fast_decode_plan", None)
    if plan is None:
        return
    names = list(inspect.signature(plan).parameters)[1:]

    @functools.wraps(plan)
    def planned(self, *args, **named):
        result = plan(self, *args, **named)
        given = dict(zip(names, args), **named)
        quick = given.get("global_override_indptr_cpu")
        given["indptr"] = quick if quick is not None else given.get("indptr")
        _plan(self, given)
        return result

    module.fast_decode_plan = planned


def _count_sampled(module):
    """How many tokens a step has made of each request, which vLLM reads back: of those that it drafted before, whatever kernels find of them, none is taken, and
    the one behind them is new, but of a request of whose prompt more is to come."""
    import functools
    count = getattr(module, "get_num_sampled_and_rejected", None)
    if count is None:
        return

    @functools.wraps(count)
    def counted(num_sampled, seq_lens, cu_num_logits, *rest, **named):
        sampled, rejected = count(num_sampled, seq_lens, cu_num_logits, *rest, **named)
        known, logits = _host(sampled), _host(cu_num_logits)
        given = dict(zip(("idx_mapping", "prefill_len"), rest), **named)
        lengths, places, prompts = _host(seq_lens), _host(given.get("idx_mapping")), _host(given.get("prefill_len"))
        with torch.utils._python_dispatch._disable_current_modes():
            new = torch.ones(sampled.numel(), dtype=sampled.dtype) if known is None else known.clamp(min=1)
            left = (logits[1:sampled.numel() + 1] - logits[:sampled.numel()] - new).clamp(min=0).to(rejected.dtype) if logits is not None else None
            if lengths is not None and places is not None and prompts is not None:
                more = lengths[:sampled.numel()] < prompts[places[:sampled.numel()].long()]
                new, left = new.masked_fill(more, 0), None if left is None else left.masked_fill(more, 0)
        _put(sampled, new)
        _put(rejected, left)
        return sampled, rejected

    module.get_num_sampled_and_rejected = counted


def _go_on(module):
    """Whether a beam can still become better than the worst of those that have ended hangs on scores: it can, until they are as long as they may be."""
    kind = module.GenerationMixin
    if hasattr(kind, "_check_early_stop_heuristic"):  # transformers 4.50 and later
        kind._check_early_stop_heuristic = staticmethod(lambda is_early_stop_heuristic_unsatisfied, *rest, **named: is_early_stop_heuristic_unsatisfied)


def guesses():
    """Addresses of whole numbers that hang on results of kernels."""
    return _modes[0].guessed if _modes else ()


def is_whole(tensor):
    """Whether @tensor has whole numbers on a device, one after the other, and what they are is computed."""
    return bool(_modes) and _is_here(tensor) and tensor.dtype in WHOLE and tensor.numel() > 0 and tensor.is_contiguous()


def bytes_of(tensor):
    return ctypes.string_at(tensor.data_ptr(), _span(tensor))


def put_bytes(tensor, told):
    """What another rank has told lies there now, as if a kernel had written it."""
    if len(told) == _span(tensor):
        ctypes.memmove(tensor.data_ptr(), told, len(told))
        _library.pretend_fill(tensor.data_ptr(), len(told))


def _put(there, here):
    """Values that the host knows, where a kernel of the device's would have computed them."""
    if here is None or pretend_generated.address(there) is None or there.numel() != here.numel():
        return
    with torch.utils._python_dispatch._disable_current_modes():
        _seen(there).copy_(here)
    _library.pretend_fill(there.data_ptr(), _span(there))


def _keep_lengths_of_sglang(module):
    """What SGLang's attention is told of a batch that it decodes by a CUDA graph."""
    import functools
    prepare = module.FlashAttentionBackend.init_forward_metadata_out_graph

    @functools.wraps(prepare)
    def prepared(self, forward_batch, *args, **named):
        result = prepare(self, forward_batch, *args, **named)
        lengths = getattr(forward_batch, "seq_lens_cpu", None)
        if lengths is None and _is_here(forward_batch.seq_lens) and _library.pretend_known(forward_batch.seq_lens.data_ptr(), _span(forward_batch.seq_lens)):
            lengths = _seen(forward_batch.seq_lens)
        if getattr(forward_batch, "spec_info", None) is None:
            _put(getattr(self.forward_metadata, "cache_seqlens_int32", None), lengths)
        return result

    module.FlashAttentionBackend.init_forward_metadata_out_graph = prepared


def _copy_small(module):
    """Lengths of sequences among others: SGLang copies what a batch is made of by a kernel of its own."""
    import functools
    copy = module.try_small_copy

    @functools.wraps(copy)
    def copied(there, here):
        done = copy(there, here)
        if done:
            with torch.utils._python_dispatch._disable_current_modes():
                for to, source in zip(there, here):
                    if _is_here(to) and _is_here(source) and to.dtype in WHOLE and source.dtype in WHOLE:
                        _seen(to).copy_(_seen(source))
                        _library.pretend_fill(to.data_ptr(), _span(to))
        return done

    module.try_small_copy = copied


_modes = []  # PyTorch 2.6 holds none of it while torch.compile takes it off


def install():
    """Before CUDA is initialized: where that happens within inference mode, the thread's dispatch keys go back on leaving to what they were, without ours."""
    if os.environ.get("ECHELON_PRETEND_VALUES") == "0":
        return
    guard, keys = torch.inference_mode, (torch._C.DispatchKey.Python, torch._C.DispatchKey.PythonTLSSnapshot)
    leave = guard.__exit__

    def leave_modes_on(self, *error):
        result = leave(self, *error)
        if torch._C._len_torch_dispatch_stack() > 0:
            for key in keys:
                torch._C._dispatch_tls_set_dispatch_key_included(key, True)
        return result

    guard.__exit__ = leave_modes_on
    _make_kinds()
    for name in CHECKING:
        setattr(torch, name, _checked(getattr(torch, name)))


def _make_kinds():
    """A kind of tensor by its class alone (`Kind(3, 4)`; the masks of torch.nn.attention.bias): what a mode made is a plain tensor already, which no other kind can
    be made of, so that ours stands aside. One of the program's own is in the way there as here."""
    from torch.utils import _python_dispatch
    aside, make, depth = _python_dispatch._disable_current_modes, torch.Tensor.__new__, torch._C._len_torch_dispatch_stack

    def made(*args, **named):  # as torch.compile compares signatures, these agree with any
        if not _modes or args[0] is torch.Tensor or depth() != 1 or _python_dispatch._get_current_dispatch_mode() is not _modes[0]:
            return make(*args, **named)
        with aside():
            return make(*args, **named)

    torch.Tensor.__new__ = staticmethod(made)


def _checked(operator):
    """Operators of operators come to a mode as what they are made of: which they are is known here."""
    import functools

    @functools.wraps(operator)
    def checked(*given, **named):
        if not _modes or _compiles():
            return operator(*given, **named)
        outer, _modes[0].checking = _modes[0].checking, True
        try:
            return operator(*given, **named)
        finally:
            _modes[0].checking = outer

    return checked


def _keep_ranges():
    """A range that is opened through a mode ends as soon as the mode is left: optimizers' steps and the program's own are opened beside it."""
    from torch.utils import _python_dispatch
    aside = _python_dispatch._disable_current_modes
    ranges = torch.autograd.profiler.record_function
    enter, leave = ranges.__enter__, ranges.__exit__

    def enter_aside(self):
        with aside():
            return enter(self)

    def leave_aside(self, *how):
        with aside():
            return leave(self, *how)

    ranges.__enter__, ranges.__exit__ = enter_aside, leave_aside


def _tell_steps(mode):
    """Steps of optimizers on the host that PyTorch's operators tell little or nothing of (DeepSpeed's are compiled by themselves): they read weights, gradients and
    what is kept for each weight, and write all but the gradients."""
    from torch.optim import optimizer as of
    if not hasattr(of, "register_optimizer_step_post_hook"):  # before 2.1
        return
    told = {}

    def before(optimizer, args, kwargs):
        told[id(optimizer)] = mode.told

    def after(optimizer, args, kwargs):
        read = written = 0
        for weight in (weight for group in optimizer.param_groups for weight in group["params"] if weight.grad is not None and weight.device.type == "cpu"):
            kept = [value for value in optimizer.state.get(weight, {}).values() if isinstance(value, torch.Tensor) and value.numel() == weight.numel()]
            bytes = sum(_host_bytes(value) or 0 for value in (weight, *kept))
            read += bytes + (_host_bytes(weight.grad) or 0)
            written += bytes
        if read + written >= HOST_WORK and 2 * (mode.told - told.pop(id(optimizer), mode.told)) < read + written:
            _library.pretend_host_work(("%s.step" % type(optimizer).__name__).encode(), read, written)

    of.register_optimizer_step_pre_hook(before)
    of.register_optimizer_step_post_hook(after)


def begin():
    """Whether there is anything to do."""
    if os.environ.get("ECHELON_PRETEND_VALUES") == "0":
        return False
    _modes.append(Values())
    _library.pretend_own_mode(id(_modes[0]))  # which PyTorch is to work as if it were not there, too
    _keep_ranges()
    _pass_higher_order()
    _tell_steps(_modes[0])
    _modes[0].__enter__()
    return True


def _pass_higher_order():
    """Operators of functions ask each mode for a rule of its own: ours is to run them as if it were not here."""
    of = torch._ops.HigherOrderOperator
    dispatch = of.dispatch

    def dispatched(self, /, *args, **kwargs):
        rules = self.python_key_table if hasattr(self, "python_key_table") else self.python_key_mode_table  # as it was called up to 2.4
        rules.setdefault(Values, lambda mode, /, *args, **kwargs: self(*args, **kwargs))
        return dispatch(self, *args, **kwargs)

    of.dispatch = dispatched


def keep_compiled(guards):
    """What torch.compile compiled is found again. Its guards compare the dispatch keys of tensors, to which a mode that is on adds some; modes are off while it
    compiles and makes them, and before it came to leave out modes like ours (hence the name below) it found nothing again and compiled anew at each call."""
    if hasattr(torch._C._dynamo.guards, "set_is_in_mode_without_ignore_compile_internals"):
        return
    make = guards.CheckFunctionManager.__init__

    def made(*args, **kwargs):
        with _modes[0]:
            make(*args, **kwargs)

    guards.CheckFunctionManager.__init__ = made
