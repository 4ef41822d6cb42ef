"""What FlexAttention's masks leave. A compiled program works out on the device which blocks of queries meet which blocks of keys, in kernels that do not run. Its graph
says how: whole numbers of it that hang on no floating-point result are computed here when it is called, of masks alone where there are blocks with anything in
them; kernels of FlexAttention's are launched with that told beside them. Whole numbers that a graph gives back are written where they lie."""
import ctypes
import functools
import math
import re
import threading

import pretend_generated
import torch

LARGEST = 1 << 26  # bytes of an array of a graph; what needs a larger one is not computed
PLACES = 1 << 24  # pairs of a query and a key that a mask is looked at for; of more, evenly spread ones of each block, its corners among them
AT_ONCE = 1 << 22
KEPT = 256  # masks whose blocks are remembered
WHOLE = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_inside = threading.local()  # what is known of the FlexAttention of the graph that runs
_counted = {}
_scores_of = ctypes.PyDLL(None).pretend_scores_of
_scores_of.argtypes = (ctypes.c_uint64,) * 5


def watch(compile_fx):
    """Of each graph that is compiled."""
    compiles = getattr(compile_fx, "_compile_fx_inner", None)
    if compiles is None:  # before FlexAttention
        return

    @functools.wraps(compiles)
    def compiled(graph, *args, **named):
        plan = None
        try:
            plan = Plan(graph)
        except Exception as error:
            pretend_generated.say("what masks of FlexAttention leave is not known", error)
        result = compiles(graph, *args, **named)
        if plan is not None and plan.wanted and getattr(result, "current_callable", None) is not None:
            result.current_callable = plan.around(result.current_callable)
        return result

    compile_fx._compile_fx_inner = compiled
    import torch._functorch.config as config
    config.enable_autograd_cache = False  # what it keeps comes without its graph


def _on_host(value):
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return type(value)(_on_host(one) for one in value) if type(value) in (list, tuple) else value


class Steps:
    """Nodes of a graph, as they are when it is given: compilers change them."""

    def __init__(self, graph):
        self.module = graph
        self.nodes = [(node, node.op, node.target, node.args, node.kwargs) for node in graph.graph.nodes]
        self.inputs = [node for node, op, _, _, _ in self.nodes if op == "placeholder"]
        self.computable, self.needs = set(), {}
        for node, op, target, args, kwargs in self.nodes:
            needs = []
            torch.fx.map_arg((args, kwargs), needs.append)
            self.needs[node] = needs
            if self.can_compute(node, op, target) and all(one in self.computable for one in needs):
                self.computable.add(node)

    def can_compute(self, node, op, target):
        made = node.meta.get("val")
        if op == "placeholder":
            return not isinstance(made, torch.Tensor) or made.dtype in WHOLE
        if op == "get_attr":
            array = getattr(self.module, target, None)
            return isinstance(array, torch.Tensor) and array.dtype in WHOLE
        if op != "call_function":
            return False
        if isinstance(target, torch._ops.OpOverload):
            name = target._schema.name
            if target.namespace not in ("aten", "prims") or target._schema.is_mutable or torch.Tag.nondeterministic_seeded in target.tags:
                return False
            if name.startswith(("aten::empty", "aten::new_empty")):
                return False
        elif isinstance(target, torch._ops.HigherOrderOperator):
            return False
        return all(math.prod(_size(n) for n in one.shape) * one.itemsize <= LARGEST for one in (made if isinstance(made, (list, tuple)) else (made,))
                   if isinstance(one, torch.Tensor))

    def run(self, values, wanted):
        """Values of @wanted nodes, or what is known of them; of @values the inputs."""
        needed, look = set(), list(wanted)
        while look:
            node = look.pop()
            if node not in needed:
                needed.add(node)
                look.extend(self.needs[node])
        for node, op, target, args, kwargs in self.nodes:
            if node not in needed or node in values or op not in ("call_function", "get_attr"):
                continue
            if op == "get_attr":
                array = getattr(self.module, target)
                values[node] = _known(array) if isinstance(array, torch.Tensor) else array
            elif all(values.get(one) is not None for one in self.needs[node]):
                given = torch.fx.map_arg((args, kwargs), lambda one: values[one])
                values[node] = target(*_on_host(given[0]), **{name: _on_host(value) for name, value in given[1].items()})
        return values


def _size(n):
    hint = getattr(getattr(n, "node", None), "hint", n)
    return int(hint) if hint is not None else LARGEST


def _known(array):
    """An array of whole numbers as the host has it; None where it is not known."""
    import pretend_values
    if not isinstance(array, torch.Tensor) or array.device.type == "cpu":
        return array
    if array.numel() == 0:
        return torch.empty(array.shape, dtype=array.dtype)
    if not array.is_cuda or array.dtype not in WHOLE or array.data_ptr() in pretend_values.guesses():
        return None
    return pretend_values._seen(array) if pretend_values._library.pretend_known(array.data_ptr(), pretend_values._span(array)) else None


class Plan:
    def __init__(self, graph):
        self.steps = Steps(graph)
        nodes = self.steps.nodes
        self.flexible = [_Attention(self.steps, args) for _, op, target, args, _ in nodes
                         if op == "call_function" and getattr(target, "__name__", "") in ("flex_attention", "flex_attention_backward")]
        last = nodes[-1][3][0] if nodes and nodes[-1][1] == "output" else ()
        last = last if isinstance(last, (list, tuple)) else (last,)
        self.given_back = [(i, node) for i, node in enumerate(last) if self.is_result(node)]
        self.changed = [(args[0], args[1]) for _, op, target, args, _ in nodes if op == "call_function" and target is torch.ops.aten.copy_.default
                        and args[0] in self.steps.inputs and self.is_result(args[1])]
        self.wanted = [node for _, node in self.given_back + self.changed] + [node for one in self.flexible for node in one.wanted]

    def is_result(self, node):
        made = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
        return isinstance(made, torch.Tensor) and made.dtype in WHOLE and made.device.type == "cuda" and node in self.steps.computable and node.op != "placeholder"

    def compute(self, inputs):
        known = {}
        for node, value in zip(self.steps.inputs, inputs):
            if node in self.steps.computable:
                known[node] = _known(value)
        return self.steps.run(known, self.wanted)

    def around(self, call):
        @functools.wraps(call)
        def called(inputs):
            if not pretend_generated._told():
                return call(inputs)
            changed = {}
            try:
                with torch.utils._python_dispatch._disable_current_modes(), torch.no_grad():
                    values = self.compute(inputs)
                changed = [(inputs[self.steps.inputs.index(there)], values.get(here)) for there, here in self.changed]
            except Exception as error:
                values = {}
                pretend_generated.say("whole numbers of a compiled graph are not computed", error)
            around = getattr(_inside, "queue", None)
            _inside.queue = [(one, values) for one in self.flexible]
            try:
                results = call(inputs)
            finally:
                _inside.queue = around
            self.write(changed, [(results[i], values.get(node)) for i, node in self.given_back] if isinstance(results, (list, tuple)) else [])
            return results

        return called

    def write(self, *pairs):
        import pretend_values
        for there, here in [pair for some in pairs for pair in some]:
            if isinstance(there, torch.Tensor) and isinstance(here, torch.Tensor) and there.is_cuda and there.shape == here.shape and there.numel() > 0:
                with torch.utils._python_dispatch._disable_current_modes():
                    pretend_values._seen(there).copy_(here)
                pretend_values._library.pretend_fill(there.data_ptr(), pretend_values._span(there))


class _Attention:
    """One call of FlexAttention's in a graph: its blocks, where they can be computed, and its mask."""

    def __init__(self, steps, args):
        blocks = next((one for one in args if isinstance(one, (list, tuple)) and len(one) > 8 and isinstance(one[-1], torch.fx.Node) and one[-1].op == "get_attr"), None)
        arrays = [one for one in blocks or () if isinstance(one, torch.fx.Node) and isinstance(one.meta.get("val"), torch.Tensor)]
        full = [one for one in blocks or () if one is None or one in arrays]
        self.counts = [one for one in (full[0], full[2]) if one is not None] if len(full) > 2 else []
        self.mask = getattr(steps.module, blocks[-1].target, None) if blocks else None
        self.mask_steps = Steps(self.mask) if isinstance(self.mask, torch.fx.GraphModule) else None
        self.buffers = list(args[-1]) if blocks and isinstance(args[-1], (list, tuple)) else []
        self.can_count = bool(self.counts) and all(one in steps.computable for one in self.counts)
        has_mask = self.mask_steps is not None and all(not isinstance(one, torch.fx.Node) or one in steps.computable for one in self.buffers)
        self.wanted = (self.counts if self.can_count else []) + ([one for one in self.buffers if isinstance(one, torch.fx.Node)] if has_mask else [])
        self.has_mask = has_mask

    def blocks(self, values, shape, rows, columns, block):
        """How many blocks of keys each block of queries meets, of @shape; None: not known. @rows, @columns of queries and keys, @block of each."""
        if self.can_count and all(values.get(one) is not None for one in self.counts):
            return sum(values[one].to(torch.int64) for one in self.counts if values[one].numel() > 0)
        if not self.has_mask:
            return None
        buffers = [values.get(one) if isinstance(one, torch.fx.Node) else one for one in self.buffers]
        if any(one is None for one in buffers):
            return None
        key = (self.mask.code, tuple(shape), rows, columns, block) + tuple(one.numpy().tobytes() if isinstance(one, torch.Tensor) else one for one in buffers)
        if hash(key) not in _counted:
            if len(_counted) >= KEPT:
                _counted.clear()
            _counted[hash(key)] = self.look(buffers, shape, rows, columns, block)
        return _counted[hash(key)]

    def look(self, buffers, shape, rows, columns, block):
        """Whether a block has anything in it: all of its places are looked at, or some."""
        places = [torch.arange(math.ceil(n / size)) * size for n, size in zip((rows, columns), block)]
        each = max(int(math.sqrt(PLACES / max(len(places[0]) * len(places[1]) * shape[0] * shape[1], 1))), 2)
        q, k = (torch.minimum(start[:, None] + torch.linspace(0, size - 1, min(each, size)).round().long(), torch.tensor(n - 1))
                for start, size, n in zip(places, block, (rows, columns)))
        b, h = (torch.arange(n) for n in shape[:2])
        found = torch.zeros(shape[0], shape[1], q.shape[0], dtype=torch.int64)
        step = max(AT_ONCE // max(shape[0] * shape[1] * q.shape[1] * k.numel(), 1), 1)
        for first in range(0, q.shape[0], step):
            some = q[first:first + step]
            held = self.holds(b[:, None, None, None], h[None, :, None, None], some.reshape(1, 1, -1, 1), k.reshape(1, 1, 1, -1), buffers)
            held = held.expand(shape[0], shape[1], some.numel(), k.numel()).reshape(shape[0], shape[1], some.shape[0], some.shape[1], k.shape[0], k.shape[1])
            found[:, :, first:first + step] = held.any(5).any(3).sum(3)
        return found

    def holds(self, b, h, q, k, buffers):
        steps = self.mask_steps
        result = steps.nodes[-1][3][0]
        result = result[0] if isinstance(result, (list, tuple)) else result
        return steps.run(dict(zip(steps.inputs, [b, h, q, k] + buffers)), [result])[result]


def _constant(kernel, name):
    """A number that is written into the kernel's text."""
    found = re.search(name + r"\s*:\s*tl\.constexpr\s*=\s*(\d+)", str(getattr(kernel, "src", "")))
    return int(found.group(1)) if found else None


def within(text, launch, autotuner, *values, **named):
    """Launches a kernel of FlexAttention's, telling how many scores its blocks have; what only goes before or after it as its @text says."""
    given = dict(zip(autotuner.fn.arg_names, values))
    q = given.get("arg_Q")
    k = given.get("arg_K", q)  # what is given twice is an argument once
    if not all(isinstance(one, torch.Tensor) and one.dim() == 4 for one in (q, k)):
        return pretend_generated._within(text, launch, autotuner, *values, **named)
    scores = 0
    try:
        with torch.utils._python_dispatch._disable_current_modes():
            scores = _scores(autotuner.fn, given, q, k)
    except Exception as error:
        pretend_generated.say("what a mask of FlexAttention leaves is not known", error)
    if scores > 0:
        _scores_of(q.shape[0], q.shape[0] * q.shape[2], k.shape[0] * k.shape[2], k.shape[2], scores // max(q.shape[1], 1))
    try:
        return pretend_generated._within(text, launch, autotuner, *values, **named)
    finally:
        if scores > 0:
            pretend_generated._lengths_of(None, 0, None, 0, 0, None, 0)


def _scores(kernel, given, q, k):
    """Of all heads and sequences."""
    counts = given.get("arg_KV_NUM_BLKS")
    block = tuple(_constant(kernel, name) for name in ("SPARSE_Q_BLOCK_SIZE", "SPARSE_KV_BLOCK_SIZE"))
    queue = getattr(_inside, "queue", None)
    attention, values = queue.pop(0) if queue else (None, {})
    if attention is None or counts is None or None in block:
        return 0
    rows, columns = q.shape[2], k.shape[2]
    found = attention.blocks(values, counts.shape, rows, columns, block)
    if found is None:
        return 0
    tall = torch.arange(found.shape[-1]) * block[0]
    tall = (rows - tall).clamp(0, block[0])
    wide = (found * block[1]).clamp(max=math.ceil(columns / min(block[1], 128)) * min(block[1], 128))
    return int((wide * tall).sum()) * (q.shape[0] * q.shape[1]) // (found.numel() // found.shape[-1])
