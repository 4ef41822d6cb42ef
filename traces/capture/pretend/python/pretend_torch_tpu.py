"""What `echelon capture --pretend tpu-v5e` adds to a PyTorch program that brings torch_tpu or torch_xla: it finds chips, and its runtime is a TPU that is not
there (traces/capture/pjrt), for which the real libtpu compiles. Nothing of it is run: results are zeros."""
import ctypes
import importlib.util
import os
import sys

_PLUGIN = os.environ.get("ECHELON_PRETEND_PLUGIN")
_NAMES = {"v4": "TPU v4", "v5e": "TPU v5e", "v5p": "TPU v5p", "v6e": "TPU v6e", "tpu7x": "TPU v7"}  # torch_tpu's


def begin(finder, chip, devices, slice_):
    """When Python starts. torch_tpu takes its runtime from where TPU_LIBRARY_PATH leads when it is imported; JAX, which would look there too, is another matter."""
    if _PLUGIN:
        for name in ("torch_tpu._versioned_so_loader", "torch_tpu._internal.utils.hardware"):  # the first of its modules, and one that looks for chips
            finder.when(name, lambda module: _take_over(module, chip, devices, slice_), "this torch_tpu finds no TPU")
        finder.when("torch_xla._internal.tpu", lambda module: _take_over_xla(module, chip, devices, slice_), "this torch_xla finds no TPU")
        finder.when("torch_xla.core.xla_model", _share, "this torch_xla's processes tell each other nothing")
        finder.when("torch.nn.parallel.distributed", _agree, "DistributedDataParallel finds that its processes have different models")


def _lead_to_plugin(chip, slice_):
    """TPU_LIBRARY_PATH leads to the TPU that is not there, which finds the real libtpu for itself."""
    if os.environ.get("TPU_LIBRARY_PATH") != _PLUGIN:
        libtpu = importlib.util.find_spec("libtpu")
        real = os.environ.get("TPU_LIBRARY_PATH") or (os.path.join(os.path.dirname(libtpu.origin), "libtpu.so") if libtpu else "")
        bounds = [min(int(n), 2) for n in slice_.split("x")[:2]] + [1]
        os.environ.update({"ECHELON_PRETEND_LIBTPU": real, "TPU_LIBRARY_PATH": _PLUGIN, "ECHELON_PRETEND_SLICE": "%s:%s" % (chip, slice_),
                           "ECHELON_PRETEND_HOST_BOUNDS": ",".join(map(str, bounds))})


def _take_over(module, chip, devices, slice_):
    _lead_to_plugin(chip, slice_)
    if module.__name__.endswith("hardware"):
        name = _NAMES.get(chip)
        ids = {known: number for number, known in module._PCI_DEVICE_ID_TO_NAME.items()}
        if name not in ids:
            sys.stderr.write("echelon capture: torch_tpu knows no %s\n" % chip)
            return
        module.get_tpu_device_name = lambda: name
        shapes = module._TOPOLOGY_BY_TPU_PCI_DEVICE_ID[ids[name]]
        module._scan_pci_tpus = lambda: (devices, shapes)
        if devices in shapes:  # what torch.tpu.distributed.set_tpu_launch_env() sets before torchrun; nobody listens there
            os.environ.setdefault("TORCH_TPU_TOPOLOGY", shapes[devices])
            os.environ.setdefault("TORCH_TPU_SLICEBUILDER_ADDRESSES", ",".join("localhost:%d" % (8070 + k) for k in range(devices)))
        _tell_steps("tpu", lambda: sys.modules["torch"].accelerator.synchronize())


_ACCELERATORS = {"v5e": "v5litepod"}  # as Google's metadata server names them


def _take_over_xla(module, chip, devices, slice_):
    """torch_xla asks the machine's metadata server, and the PCI bus, what is there."""
    _lead_to_plugin(chip, slice_)
    configure = module.configure_topology

    def configure_topology(local_rank, local_world_size, *given, **named):
        """A process of several, which has a chip of its own: what torch_xla.launch() and torchrun start."""
        configure(local_rank, local_world_size, *given, **named)
        os.environ.update({"ECHELON_PRETEND_RANK": str(local_rank), "ECHELON_PRETEND_RANKS": str(local_world_size)})

    module.configure_topology = configure_topology
    module.num_available_chips = lambda: devices
    module.get_worker_ips = lambda: ["localhost"]
    module.get_tpu_env = lambda: {"ACCELERATOR_TYPE": "%s-%d" % (_ACCELERATORS.get(chip, chip), devices), "TPU_PROCESS_BOUNDS": "1,1,1",
                                  "TPU_CHIPS_PER_PROCESS_BOUNDS": "%s,1" % ",".join(slice_.split("x")[:2]), "WORKER_ID": "0"}
    for variable in ("XLA_IR_DEBUG", "XLA_HLO_DEBUG"):  # the line that each operator comes from
        os.environ.setdefault(variable, "1")
    _tell_steps("xla", lambda: sys.modules["torch_xla"]._XLAC._xla_wait_device_ops([]))


def _share(module):
    """What processes tell each other by collectives (losses, metrics, whether all are there): of the others it is what this one says."""
    rendezvous = module.xla_rendezvous
    module.xla_rendezvous = lambda payload=b"", *given, **named: [payload for _ in rendezvous(payload, *given, **named)]


class _Reducer:
    """DDP's, whose buckets stay as they are: the first process tells the others the order in which gradients came, by a collective of which nothing comes back."""

    def __init__(self, own):
        self._own = own

    def __getattr__(self, name):
        return getattr(self._own, name)

    def _rebuild_buckets(self):
        return False


def _agree(module):
    """Whether all processes have the same model is asked by a collective, too."""
    module._verify_param_shape_across_processes = lambda *given, **named: None
    helper = module.DistributedDataParallel._ddp_init_helper

    def initialize(ddp, *given, **named):
        helper(ddp, *given, **named)
        ddp.reducer = _Reducer(ddp.reducer)

    module.DistributedDataParallel._ddp_init_helper = initialize


def _tell_steps(kind, wait):
    """An optimizer's step is where a step of the program ends. What was handed over before has been compiled and run then, which both do in threads of their own.
    torch_xla hands over all operators of a step when that has ended: behind its mark, before the next one's."""
    from torch.optim.optimizer import register_optimizer_step_pre_hook
    mark = ctypes.CDLL(_PLUGIN).pretend_tpu_mark
    mark.argtypes, mark.restype = [ctypes.c_char_p], None

    def step(optimizer, given, named):
        if any(parameter.device.type == kind for group in optimizer.param_groups for parameter in group["params"]):
            wait()
            mark(("Optimizer.step#%s.step" % type(optimizer).__name__).encode())

    register_optimizer_step_pre_hook(step)
