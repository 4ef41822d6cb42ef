"""What differs between the versions of JAX whose programs are compiled for chips that are not there: 0.4.38 of December 2024 and later ones."""
import ast
import functools
import inspect
import os
import textwrap

OLDEST = (0, 4, 38)


def is_known(jax):
    return jax.__version_info__ >= OLDEST


def wraps(function):
    """functools.wraps of one that may be cached: JAX clears its caches when it ends."""

    def wrap(wrapper):
        wrapper = functools.wraps(function)(wrapper)
        for name in ("cache_clear", "cache_info"):
            if hasattr(function, name):
                setattr(wrapper, name, getattr(function, name))
        return wrapper

    return wrap


def ask_for_cpus(jax, n):
    """Before the CPUs' client begins: a setting since 0.5, XLA's flag before."""
    if hasattr(jax.config, "jax_num_cpu_devices"):
        jax.config.update("jax_num_cpu_devices", n)
    else:
        os.environ["XLA_FLAGS"] = "%s --xla_force_host_platform_device_count=%d" % (os.environ.get("XLA_FLAGS", ""), n)


def compile_for(jax, module, chips, settings):
    """By the client of described chips: it takes the module itself since 0.8, its bytes before; the devices one by one since 0.6, in the settings alone before."""
    from jax._src.interpreters import mlir
    client = chips[0].client
    if jax.__version_info__ >= (0, 8):
        from jaxlib import _jax
        return client.compile(module, _jax.DeviceList(tuple(chips)), settings)
    module = mlir.module_to_bytecode(module)
    if jax.__version_info__ >= (0, 6):
        from jaxlib import _jax
        return client.compile(module, _jax.DeviceList(tuple(chips)), settings)
    return client.compile(module, settings)


def results_beside(function):
    """How many values a function of JAX's gives back beside its first."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    given = [node.value for node in ast.walk(tree) if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple)]
    return len(given[-1].elts) - 1


def devices_of(lowering):
    """Those that a lowered program names, or None."""
    return lowering._device_list if hasattr(lowering, "_device_list") else lowering.compile_args.get("device_assignment")


def mutations_of(lowering):
    """Arrays that a program changes in place (jax.new_ref): those that it closes over, which come after its parameters, and for each result the parameter that it
    is put into, or None."""
    mutated = lowering.compile_args.get("mut")
    return (list(mutated.in_mut), list(mutated.out_mut)) if mutated else ([], [])


def _holder_of(what):
    """Where such an array keeps its values: in one of its own making since 0.9."""
    holder = getattr(what, "_refs", what)
    return holder if type(what).__name__ in ("Ref", "ArrayRef", "MutableArray") and hasattr(holder, "_buf") else None


def values_of(what):
    holder = _holder_of(what)
    return what if holder is None else holder._buf


def put_into(what, values):
    holder = _holder_of(what)
    if holder is not None:
        holder._buf = values


def results_of(jax, lowered):
    """Shapes and types of all that a lowered program gives back, what it changes in place included."""
    if not mutations_of(lowered._lowering)[1]:
        return jax.tree.leaves(lowered.out_info)
    return [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in lowered._lowering.compile_args["global_out_avals"]]


def mesh_around(jax):
    """The mesh that the program has set around, or None."""
    from jax._src import mesh
    set_ = mesh.get_concrete_mesh()
    if isinstance(set_, jax.sharding.Mesh) and not set_.empty:
        return set_
    entered = mesh.thread_resources.env.physical_mesh if jax.__version_info__ < (0, 7) else None  # `with mesh:`
    return entered if entered is not None and not entered.empty else None


class _Memory:
    def __init__(self, device, kind):
        self.device, self.kind, self.platform = device, kind, device.platform

    def addressable_by_devices(self):
        return [self.device]

    def __repr__(self):
        return "MemorySpace(kind=%s, device=%r)" % (self.kind, self.device)


def keep_memory_kinds(jax, is_chip, host):
    """Before 0.7 a CPU device has one memory, "unpinned_host", and JAX's shardings refuse others: those on chips say by themselves what the program asked for."""
    device_class = type(host)
    if any(memory.kind == "pinned_host" for memory in host.addressable_memories()):
        return
    from jax._src import sharding_impls
    from jax._src.interpreters import pxla
    kinds = ("device", "pinned_host", "unpinned_host")
    own_memories, own_memory, own_default = device_class.addressable_memories, device_class.memory, device_class.default_memory
    device_class.addressable_memories = lambda device: [_Memory(device, kind) for kind in kinds] if is_chip(device) else own_memories(device)
    device_class.memory = lambda device, kind: _Memory(device, kind) if is_chip(device) and kind in kinds else own_memory(device, kind)
    device_class.default_memory = lambda device: _Memory(device, "device") if is_chip(device) else own_default(device)

    def keep(sharding_class):
        begin, kind_of, equal = sharding_class.__init__, sharding_class._memory_kind, sharding_class.__eq__

        def begun(sharding, *given, memory_kind=None, **named):
            begin(sharding, *given, memory_kind=None if memory_kind in kinds else memory_kind, **named)
            sharding._kept_kind = memory_kind
            if memory_kind in kinds and not on_chips(sharding):
                begin(sharding, *given, memory_kind=memory_kind, **named)  # its own, or refused

        def on_chips(sharding):
            try:
                return all(map(is_chip, sharding.device_set))
            except (AttributeError, ValueError):  # an abstract mesh's
                return True

        def kind(sharding):
            kept = getattr(sharding, "_kept_kind", None)
            own = kind_of.__get__(sharding, sharding_class)
            return kept or ("device" if own is not None and on_chips(sharding) else own)

        sharding_class.__init__ = begun
        sharding_class._memory_kind = sharding_class.memory_kind = property(kind)
        own_hash = sharding_class.__hash__
        sharding_class.__eq__ = lambda one, other: bool(equal(one, other)) and one.memory_kind == other.memory_kind
        sharding_class.__hash__ = own_hash

    for sharding_class in (jax.sharding.NamedSharding, jax.sharding.SingleDeviceSharding, sharding_impls.GSPMDSharding):
        keep(sharding_class)
    pxla.are_all_shardings_default_mem_kind = lambda _, shardings: all(getattr(one, "memory_kind", None) in (None, "device") for one in shardings)


def static_of(function, jitted, options):
    """Numbers and names of a jitted function's arguments that are no arrays: it says them itself since 0.6."""
    info = getattr(jitted, "_jit_info", None)
    if info is not None:
        return info.static_argnums or (), info.static_argnames or ()
    from jax._src import api_util
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # built in
        signature = inspect.Signature()
    return api_util.infer_argnums_and_argnames(signature, options.get("static_argnums"), options.get("static_argnames"))
