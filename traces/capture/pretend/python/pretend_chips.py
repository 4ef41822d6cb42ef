"""The devices of a JAX program on TPUs that are not there: as many CPU devices as chips are pretended, which say of themselves what the chips would, and one
more, the host's own. Only what of JAX runs things still sees CPU devices in them."""
import functools
import math
import sys
import threading

import pretend_versions

# Parts of JAX that choose for a device and run nothing on it.
_CHOOSING = ("jax._src.mesh_utils", "jax._src.pallas.", "jax.experimental.")
_OF_CHIPS = ("coords", "core_on_chip", "num_cores", "slice_index")  # what a TPU's device has and a CPU's has not


class Chips:
    def __init__(self, jax, describe, hbm_bytes):
        """@describe: gives the chips, of a topology; hbm_bytes: what the runtime hands out of each one's memory."""
        from jax._src import xla_bridge
        self.jax, self.describe, self.hbm_bytes = jax, describe, hbm_bytes
        self.described, self.devices, self.host, self.peak, self._chip_of = [], [], None, [], {}
        self._begun, self._beginning = False, threading.RLock()
        backends, self._all_devices = xla_bridge.backends, xla_bridge.devices

        @pretend_versions.wraps(backends)
        def begun_backends():
            self.begin()
            return backends()

        xla_bridge.backends = begun_backends
        self._show_functions(xla_bridge)

    def begin(self):
        """When the program first asks for devices: until then it may still say, by the environment, how libtpu and XLA are to be started."""
        with self._beginning:
            if self._begun:
                return
            self._begun = True
            self.described = self.describe()
            self.peak = [0] * len(self.described)
            self.jax.config.update("jax_platforms", "cpu")
            pretend_versions.ask_for_cpus(self.jax, len(self.described) + 1)
            devices = self._all_devices("cpu")
            self.devices, self.host = devices[:-1], devices[-1]
            self._chip_of.update(zip(self.devices, self.described))
            self._show_devices()
            pretend_versions.keep_memory_kinds(self.jax, self._chip_of.__contains__, self.host)

    def described_of(self, device_list):
        """The chips that a program is to be compiled for, given the devices that it names (None: nothing says), and whether they are pretended ones."""
        self.begin()
        if device_list is None:
            return [self.described[0]], True
        devices = list(device_list)
        return [self._chip_of.get(device, device) for device in devices], all(device in self._chip_of for device in devices)

    def has_all(self, devices):
        return all(device in self._chip_of for device in devices)

    def bytes_in_use(self, device, without=frozenset()):
        """Of the arrays that are alive on a chip, but for those whose ids are given."""
        total = 0
        for array in self.jax.live_arrays():
            if id(array) in without or array.is_deleted():
                continue
            sharding = array.sharding
            if getattr(sharding, "memory_kind", None) not in ("pinned_host", "unpinned_host") and device in sharding.device_set:
                total += math.prod(sharding.shard_shape(array.shape)) * getattr(array.dtype, "itemsize", 4)
        return total

    def ran(self, devices, total):
        """A program held that many bytes of each device's memory."""
        for device in devices:
            if device in self._chip_of:
                k = self.devices.index(device)
                self.peak[k] = max(self.peak[k], total)

    # -- what the program sees --

    def _show_functions(self, xla_bridge):
        jax = self.jax
        for name in ("devices", "local_devices"):
            found = self._found(getattr(xla_bridge, name))
            setattr(xla_bridge, name, found)
            setattr(jax, name, found)
        for name in ("device_count", "local_device_count"):
            def count(backend=None):
                return len(jax.devices(backend))
            functools.update_wrapper(count, getattr(xla_bridge, name))
            setattr(xla_bridge, name, count)
            setattr(jax, name, count)
        jax.default_backend = lambda: "tpu"

    def _show_devices(self):
        kind = type(self.host)
        chip_of = self._chip_of
        # The topology that libtpu describes has a v4's cores as devices of their own; meshes by wires are of chips.
        choosing = _CHOOSING[1:] if self.described[0].device_kind == "TPU v4" else _CHOOSING
        own_platform, own_kind = kind.platform.fget, kind.device_kind.fget

        def platform(device):
            name = sys._getframe(1).f_globals.get("__name__", "")
            runs = (name == "jax" or name.startswith(("jax.", "jaxlib."))) and not name.startswith(choosing)
            return own_platform(device) if runs or device not in chip_of else chip_of[device].platform

        def of_chips_only(name):
            return property(lambda device: getattr(chip_of[device], name) if device in chip_of else kind.__getattr__(device, name))

        def memory_stats(device):
            if device not in chip_of:
                return own_stats(device)
            used = self.bytes_in_use(device)
            k = self.devices.index(device)
            self.peak[k] = max(self.peak[k], used)
            return {"bytes_in_use": used, "peak_bytes_in_use": self.peak[k], "bytes_limit": self.hbm_bytes, "bytes_reserved": 0,
                    "largest_free_block_bytes": max(self.hbm_bytes - used, 0)}

        own_stats, own_repr, own_str = kind.memory_stats, kind.__repr__, kind.__str__
        kind.platform = property(platform)
        kind.device_kind = property(lambda device: chip_of[device].device_kind if device in chip_of else own_kind(device))
        for name in _OF_CHIPS:
            setattr(kind, name, of_chips_only(name))
        kind.memory_stats = memory_stats
        kind.__repr__ = lambda device: own_repr(chip_of.get(device, device))
        kind.__str__ = lambda device: own_str(chip_of.get(device, device))

    def _found(self, devices):
        """jax.devices() and jax.devices("tpu") are the chips, jax.devices("cpu") is the host."""

        @pretend_versions.wraps(devices)
        def of(*given, **named):
            asked = [one for one in (*given, named.get("backend")) if isinstance(one, str)]
            given = tuple(None if one == "tpu" else one for one in given)
            all_ = devices(*given, **{name: None if one == "tpu" else one for name, one in named.items()})
            if asked == ["cpu"]:
                return [device for device in all_ if device is self.host]
            return [device for device in all_ if device is not self.host]

        return of
