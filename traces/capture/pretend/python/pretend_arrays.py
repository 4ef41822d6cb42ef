"""Arrays on chips that are not there, which take no memory: what programs for the chips give back, and large arrays of floats that the program makes outside of
jax.jit or brings from the host. All of them are zeros, the same page of them, read over and over; smaller ones keep their values."""
import functools
import math
import mmap
import os
import sys
import threading
import weakref

import pretend_versions

LARGE = 1 << 20  # bytes


class Arrays:
    def __init__(self, jax, chips):
        self.jax, self.chips = jax, chips
        self.from_callback = jax.make_array_from_callback
        self.nothing, self.growing = None, threading.Lock()  # zeros, as many as the largest array took
        self.made = weakref.WeakValueDictionary()  # by id
        self.results = {}  # of operations outside of jax.jit, by what they are given
        self.hanging = weakref.WeakValueDictionary()  # what such operations made of zeros, by id
        self.looked_at = None  # where the program went first by what chips would have computed

    def zeros(self, info, sharding, committed=True):
        """@committed: whether the program said where it lies."""
        jax = self.jax
        if jax.dtypes.issubdtype(info.dtype, jax.dtypes.prng_key):
            return jax.random.split(jax.random.key(0, impl=info.dtype._impl.name), info.shape) if info.shape else jax.random.key(0, impl=info.dtype._impl.name)
        import numpy
        dtype = numpy.dtype(info.dtype)
        shape = sharding.shard_shape(info.shape)
        n = math.prod(shape) * dtype.itemsize
        with self.growing:
            if self.nothing is None or len(self.nothing) < n:
                self.nothing = mmap.mmap(-1, max(n, mmap.PAGESIZE), prot=mmap.PROT_READ)
            nothing = self.nothing
        shard = numpy.frombuffer(nothing, dtype=numpy.uint8, count=n).view(dtype).reshape(shape)
        array = self.from_callback(info.shape, sharding, lambda index: shard)
        if not committed:
            from jax._src.array import ArrayImpl
            array = ArrayImpl(array.aval, sharding, array._arrays, committed=False)
        self.made[id(array)] = array
        return array

    def is_made(self, what):
        return self.made.get(id(what)) is what

    def check_kept(self, what):
        """As JAX has it: an array that was donated is used no more."""
        if isinstance(what, self.jax.Array) and what.is_deleted():
            what._check_if_deleted()

    def take_over(self):
        """Operations outside of jax.jit, and what brings arrays to devices."""
        from jax._src import array, dispatch, pjit
        array.make_array_from_callback = self.jax.make_array_from_callback = self._assembling(self.from_callback)
        dispatch._batched_device_put_impl = self._putting(dispatch._batched_device_put_impl)
        self.jitted_of = dispatch.xla_primitive_callable  # an operation as JAX jits it where it stands alone
        dispatch.xla_primitive_callable = self._computing(self.jitted_of)
        pjit._pjit_call_impl_python = self._calling(pjit._pjit_call_impl_python)  # of JAX's own functions: jax.random.normal, jnp.where
        for name in ("__bool__", "__int__", "__index__"):
            setattr(array.ArrayImpl, name, self._looking(getattr(array.ArrayImpl, name)))

    def _looking(self, convert):
        """Of one number: sizes and ways that a program takes go by that."""

        @functools.wraps(convert)
        def look(what):
            if not self.looked_at and (self.is_made(what) or self.hanging.get(id(what)) is what):
                self.looked_at = self._line()
            return convert(what)

        return look

    def _line(self):
        """Of whoever called JAX, "train.py:12"."""
        ours, frame = (os.path.dirname(self.jax.__file__), os.path.dirname(__file__)), sys._getframe(2)
        while frame and frame.f_code.co_filename.startswith(ours):
            frame = frame.f_back
        return "%s:%d" % (os.path.basename(frame.f_code.co_filename), frame.f_lineno) if frame else "its end"

    def _hang(self, results, args):
        """Notes results of an operation, a list, that it made of zeros."""
        if any(self.is_made(x) or self.hanging.get(id(x)) is x for x in args):
            for one in results:
                if isinstance(one, self.jax.Array):
                    self.hanging[id(one)] = one
        return results

    def _is_large(self, what):
        dtype = getattr(what, "dtype", None)
        return dtype is not None and self.jax.dtypes.issubdtype(dtype, self.jax.numpy.floating) and math.prod(what.shape) * dtype.itemsize >= LARGE

    # -- what is brought to a device --

    def _putting(self, put):
        from jax.sharding import Sharding, SingleDeviceSharding

        def put_one(x, place):
            """None where it is as it ever was."""
            self.check_kept(x)
            made = self.is_made(x)
            if place is None and isinstance(x, self.jax.Array):
                return x if made else None
            if not made and not self._is_large(x):
                return None
            sharding = SingleDeviceSharding(place or self._default()) if place is None or isinstance(place, self.jax.Device) else place
            if not isinstance(sharding, Sharding) or not (made or self.chips.has_all(sharding.device_set)):
                return None
            return self.zeros(x, sharding, place is not None)

        def put_all(*xs, devices, copy_semantics, **params):
            found = [put_one(x, place) for x, place in zip(xs, devices)]
            for x, y, how in zip(xs, found, copy_semantics):
                if y is not None and y is not x and isinstance(x, self.jax.Array) and "DONATE" in str(how):
                    x.delete()
            left = [k for k, y in enumerate(found) if y is None]
            if left:
                of = {name: tuple(value[k] for k in left) for name, value in {**params, "devices": devices, "copy_semantics": copy_semantics}.items()}
                for k, y in zip(left, put(*(xs[k] for k in left), **of)):
                    found[k] = y
            return found

        return put_all

    def _assembling(self, assemble):
        """Of parts that the program gives one by one."""

        @functools.wraps(assemble)
        def make_array_from_callback(shape, sharding, data_callback, *given, **named):
            place = getattr(sharding, "sharding", sharding)  # a Format's
            if not self.chips.has_all(place.device_set) or math.prod(shape) * 8 < LARGE:
                return assemble(shape, sharding, data_callback, *given, **named)
            indices = list(place.addressable_devices_indices_map(tuple(shape)).values())
            firsts = [data_callback(indices[0])]
            info = self.jax.ShapeDtypeStruct(shape, (*given, named.get("dtype"))[0] or firsts[0].dtype)
            if not self._is_large(info):
                return assemble(shape, sharding, lambda index: firsts.pop() if firsts and index == indices[0] else data_callback(index), *given, **named)
            for index in indices[1:]:
                data_callback(index)
            return self.zeros(info, place)

        return make_array_from_callback

    def _default(self):
        default = self.jax.config.jax_default_device
        return default if isinstance(default, self.jax.Device) else self.jax.devices(default)[0]

    # -- what is computed outside of jax.jit --

    def _computing(self, callable_of):
        from jax._src.config import eager_constant_folding

        @pretend_versions.wraps(callable_of)
        def callable_here(primitive, **params):
            run = callable_of(primitive, **params)

            def compute(*args):
                key = (primitive, tuple(sorted(params.items())), tuple((getattr(x, "shape", ()), getattr(x, "dtype", type(x))) for x in args))
                if key not in self.results:
                    with eager_constant_folding(False):  # under jax.ensure_compile_time_eval() it would come back here
                        self.results[key] = self.jax.eval_shape(lambda *given: primitive.bind(*given, **params), *args)
                out = self.results[key]
                made = self._nothing_of(out if primitive.multiple_results else [out], args)
                if made is not None:
                    return made if primitive.multiple_results else made[0]
                own = run(*args)
                self._hang(own if primitive.multiple_results else [own], args)
                return own

            return compute

        return callable_here

    def _calling(self, call):
        beside = {1: [None], 2: [None, None], 3: [None, None, []]}[pretend_versions.results_beside(call)]  # the program, its profiler, its constants

        def called(*args, jaxpr, out_shardings, **params):
            made = None
            if not jaxpr.effects:
                made = self._nothing_of([out.aval for out in getattr(jaxpr, "jaxpr", jaxpr).outvars], args, out_shardings)
            if made is not None:
                return made, *beside
            own = call(*args, jaxpr=jaxpr, out_shardings=out_shardings, **params)
            self._hang(own[0], args)
            return own

        return called

    def _nothing_of(self, infos, args, said=None):
        """Zeros for results that are large, all of floats and on chips; else None."""
        if not infos or not all(hasattr(info, "shape") and self.jax.dtypes.issubdtype(info.dtype, self.jax.numpy.floating) for info in infos) or not any(
                map(self._is_large, infos)):
            return None
        arrays = [x for x in args if isinstance(x, self.jax.Array)]
        for x in arrays:
            self.check_kept(x)
        mesh = pretend_versions.mesh_around(self.jax)
        devices = set(() if mesh is None else mesh.devices.flat).union(*(x.sharding.device_set for x in arrays))
        if not self.chips.has_all(devices or {self._default()}):
            return None
        return [self._like(info, arrays, place) for info, place in zip(infos, said or [None] * len(infos))]

    def _like(self, info, arrays, place):
        """Where what is computed of these arrays lies."""
        from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding
        if hasattr(place, "device_set"):
            return self.zeros(info, place)
        given = [x for x in arrays if getattr(x, "_committed", True)]
        meshes = [x.sharding.mesh for x in given if isinstance(x.sharding, NamedSharding)] + [pretend_versions.mesh_around(self.jax)]
        mesh = next((mesh for mesh in meshes if mesh is not None and not mesh.empty), None)
        own = getattr(info, "sharding", None)
        if mesh is not None and own is not None and not own.mesh.empty and any(part is not None for part in own.spec):
            return self.zeros(info, NamedSharding(mesh, own.spec))
        same = next((x.sharding for x in given if x.shape == info.shape), None)
        if same is not None:
            return self.zeros(info, same)
        if mesh is not None:
            return self.zeros(info, NamedSharding(mesh, PartitionSpec()))
        return self.zeros(info, given[0].sharding if given else SingleDeviceSharding(self._default()), bool(given))
