"""Of which module each kernel is that torch.compile compiled. TorchInductor knows where each node of its graphs came from, whoever calls what it wrote only the function; so
what it writes says so itself, and what it keeps of that on disk is found by captures alone. Modules are named from the one (or the function) that was compiled on, since one
compiled block stands for all that are alike: sim/import/pretend_ranges.c joins that to the module that is called."""
import functools
import re
import threading

import torch

import pretend_generated

_push, _pop = torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop
compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None) or (lambda: False)
FORWARD, BACKWARD = "nn.Module below: ", "backward of nn.Module below: "
COMPILED = "torch.compile: "


OTHERWISE = "modules of what torch.compile compiles are not told"


def install(finder):
    _compile_in_place()
    torch._echelon_within = within
    for module, kind in (("ir", "ExternKernel"), ("scheduler", "BaseScheduling"), ("codegen.simd", "SIMDScheduling"), ("codegen.triton", "TritonScheduling")):
        finder.when("torch._inductor." + module, functools.partial(_written, kind), OTHERWISE)
    for module in ("codecache", "output_code"):  # up to 2.5, and later
        finder.when("torch._inductor." + module, _called, OTHERWISE)
    finder.when("torch._inductor.codecache", _kept, OTHERWISE)


# ---- what a compiled graph says while it runs ----

_running = threading.local()  # names: of the modules that are open, None outside of all graphs


def within(*names):
    """From here on kernels are of these modules, outermost first."""
    before = getattr(_running, "names", None)
    if before is None or before == names:
        return
    for _ in before:
        _pop()
    for name in names:
        _push(name)
    _running.names = names


def _called(module):
    kind = getattr(module, "CompiledFxGraph", None)
    if kind is None or "__call__" not in vars(kind) or hasattr(kind.__call__, "__wrapped__"):  # there under another name
        return
    call = kind.__call__

    @functools.wraps(call)
    def called(graph, *given, **named):
        around, _running.names = getattr(_running, "names", None), ()
        try:
            return call(graph, *given, **named)
        finally:
            within()
            _running.names = around

    kind.__call__ = called


# ---- what is written into it ----

WRAPPERS = ("_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module")


def program_path(path):
    """As the program's own modules are called, whatever wraps them."""
    return ".".join(part for part in path.split(".") if part not in WRAPPERS)


def _joined(path, kind):
    """"blocks.0 (Block)"; a root is its kind alone."""
    path = program_path(path)
    return "%s (%s)" % (path, kind) if path else kind


def known_as(path, module):
    """As the program's own modules are called, whatever torch.compile, checkpoints and FSDP1 wrap them in."""
    for wrapper in WRAPPERS * 2:
        module = getattr(module, wrapper, module)
    return _joined(path, type(module).__name__)


def _name(path, kind):
    """Of "L['self'].blocks.0.qkv" "blocks.0.qkv (Linear)", of "G['model']" "GPT"; None of what is no such path."""
    path = re.sub(r"\._compiled_call_impl\b.*?\.__self__", "", path)  # module.compile() within what is compiled
    path = re.sub(r"^(.*\.(__self__|cell_contents)\b|L\['args'\]\[\d+\])", "L['self']", path)  # what decorators hand on
    path = re.sub(r"\._modules\['([^']*)'\]|\['?([^'\]]*)'?\]", lambda found: "." + (found[1] or found[2]), re.sub(r"^[LG]\['[^']*'\]", "", path)).strip(".")
    kind = (kind if isinstance(kind, str) else kind.__name__).split(".")[-1]
    return _joined(path, kind) if re.fullmatch(r"[\w.]*", path) else None


def _stack(node):
    """Of a node of a graph: whether it is of a backward pass, and of which modules, outermost first, or of which optimizer's step."""
    backward = node.meta.get("fwd_nn_module_stack") or node.meta.get("partitioner_tag") == "is_backward"
    stack = node.meta.get("fwd_nn_module_stack" if backward else "nn_module_stack") or {}
    names = (_name(*told[:2]) for told in stack.values())
    step = re.search(r"torch/optim/(\w+)\.py\", line \d+, in step\n", node.meta.get("stack_trace") or "") if not stack else None
    if step is not None:  # whose own range is left out of what is compiled
        return False, ("Optimizer.step#%s.step" % step[1],)
    return bool(backward), tuple(name for name in names if name is not None)


def _is_view(node):
    return not isinstance(node.target, torch._ops.OpOverload) or getattr(node.target, "is_view", False) or node.target is torch.ops.aten.reshape.default


def _agreed(stacks):
    """The modules that most of @stacks stand in; of as many, those of the last."""
    agreed = ()
    while True:
        next_ones = [stack[len(agreed)] if len(stack) > len(agreed) else None for stack in stacks]
        most = max(reversed(next_ones), key=next_ones.count, default=None)
        if most is None:
            return agreed
        agreed += (most,)
        stacks = [stack for stack in stacks if stack[:len(agreed)] == agreed]


def _nodes_of(kernel):
    if not isinstance(kernel, (list, tuple)):
        return [kernel.origin_node] if kernel.get_origin_node() is not None else list(kernel.origins)
    return [node for part in kernel if getattr(part, "node", None) is not None for node in part.node.origins]


def _or_nothing(tell):
    """What is told of a graph is worth no program's failure."""

    @functools.wraps(tell)
    def told(*given):
        try:
            return tell(*given)
        except Exception as error:
            pretend_generated.say(OTHERWISE, error)
            return []

    return told


@_or_nothing
def modules_of(kernel, of_forward):
    """What within() is to be called with: of an ExternKernel, or of what the scheduler makes one kernel of, in a graph of a forward pass or of a backward one."""
    nodes = {node: None for node in _nodes_of(kernel) if node.op == "call_function"}
    nodes = [node for node in nodes if not _is_view(node)] or list(nodes)
    if len({node.graph for node in nodes}) == 1:
        graph = nodes[0].graph
        if not hasattr(graph, "_echelon_places"):
            graph._echelon_places = {node: i for i, node in enumerate(graph.nodes)}
        nodes.sort(key=lambda node: graph._echelon_places.get(node, -1))
    told = [_stack(node) for node in nodes]
    backward = any(of for of, _ in told) and not of_forward  # which a forward pass may begin, and which may make again what that made
    prefix = BACKWARD if backward else FORWARD
    return [name if name.startswith("Optimizer.") else prefix + name for name in _agreed([stack for of, stack in told if of == backward or of_forward])]


def _written(kind, module):
    kind = getattr(module, kind, None)
    if kind is None or "codegen_comment" not in vars(kind):
        return
    comment = kind.codegen_comment

    @functools.wraps(comment)
    def commented(self, about, *rest, **named):
        comment(self, about, *rest, **named)
        from torch._inductor.virtualized import V
        wrapper, kernel = (about, self) if hasattr(self, "origins") else (V.graph.wrapper_code, about)
        if not V.graph.cpp_wrapper and type(wrapper).__name__ in ("WrapperCodeGen", "PythonWrapperCodegen", "SubgraphPythonWrapperCodegen"):
            names = ", ".join(map(repr, modules_of(kernel, not V.graph.is_backward)))
            wrapper.writeline("if hasattr(torch, '_echelon_within'): torch._echelon_within(%s)" % names)  # servers keep such code where others find it

    kind.codegen_comment = commented


@_or_nothing
def _all_of(graph):
    return [_stack(node) for node in graph.graph.nodes]


def _kept(module):
    """What is written hangs on the names, and is of no use to a program without this: the disk keeps it apart."""
    details = module.FxGraphHashDetails
    make = details.__init__

    @functools.wraps(make)
    def made(self, graph, *given, **named):
        make(self, graph, *given, **named)
        self.echelon_modules = _all_of(graph)

    details.__init__ = made


# ---- modules that compile themselves, or are called by what was compiled of them ----

hooks = []  # the recorder's of modules, once there is one


def _called_as(module, run):
    """A compiled call of @module: hooks are compiled as well, ours among them, which say nothing then."""

    @functools.wraps(run)
    def called(*values, **more):
        if compiling() or not hooks:
            return run(*values, **more)
        hooks[0].before(module, values, more)
        try:
            return run(*values, **more)
        finally:
            hooks[0].after(module, values, None)

    return called


def _marked(function, run):
    """A mark before each compiled call of a function that stands in no module's and in no other such call."""
    name = "%s%s" % (COMPILED, getattr(function, "__qualname__", type(function).__name__))

    @functools.wraps(run)
    def called(*values, **more):
        if compiling() or not hooks or not hooks[0].enter(name):
            return run(*values, **more)
        try:
            return run(*values, **more)
        finally:
            hooks[0].leave()

    return called


def _compile_in_place():
    """module.compile(), torch.compile(module.__call__), as transformers' generate does, and torch.compile(function)."""
    compile_it = getattr(torch.nn.Module, "compile", None)  # from 2.1 on
    if compile_it is None:
        return

    @functools.wraps(compile_it)
    def compiled(self, *given, **named):
        compile_it(self, *given, **named)
        self._compiled_call_impl = _called_as(self, self._compiled_call_impl)

    compile_any = torch.compile

    @functools.wraps(compile_any)
    def compiled_any(*given, **named):
        run, model = compile_any(*given, **named), given[0] if given else named.get("model")
        module = getattr(model, "__self__", None)
        if isinstance(module, torch.nn.Module) and model == module.__call__:
            return _called_as(module, run)
        return run if model is None or isinstance(model, (type, torch.nn.Module)) else _marked(model, run)

    torch.nn.Module.compile, torch.compile = compiled, compiled_any
