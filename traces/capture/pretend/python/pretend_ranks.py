"""torch.distributed on GPUs that are not there: which ranks a group has, objects that ranks tell one another, and, where ECHELON_PRETEND_WORLD says so, a
process that is the only one of its world.

Nothing waits for another rank's GPU, as collectives are not run (nccl.c). Alone, nothing waits for another process either: what the others would have written
into the store is taken to be what this one writes, and the objects of others are this one's own. Where there are processes for several ranks of such a world
(ECHELON_PRETEND_RANKS), the objects that those tell one another are theirs, by files in ECHELON_PRETEND_MEETING."""
import ctypes
import functools
import hashlib
import itertools
import os
import pickle
import sys

UNIQUE_ID = 128  # bytes of NCCL's


def alone():
    """Ranks of the world that this process is to be the only one of; 0 where all of them run."""
    try:
        return max(int(os.environ.get("ECHELON_PRETEND_WORLD", "0")), 0)
    except ValueError:
        return 0


def _present():
    """Ranks that there are processes for, of a world that no process is alone for otherwise."""
    return [int(rank) for rank in os.environ.get("ECHELON_PRETEND_RANKS", "").split(",") if rank.isdigit()]


def set_environment():
    """Before the program looks: what torchrun would have set."""
    world = alone()
    if world < 1:
        return
    try:
        rank = int(os.environ.get("ECHELON_PRETEND_RANK", "0"))
        devices = int(dict(part.split("=", 1) for part in os.environ.get("ECHELON_PRETEND_DEVICE", "").split(";") if "=" in part).get("devices", "1"))
    except ValueError:
        rank, devices = 0, 1
    devices = max(min(devices, world), 1)
    for name, value in (("RANK", rank), ("WORLD_SIZE", world), ("LOCAL_RANK", rank % devices), ("LOCAL_WORLD_SIZE", devices), ("GROUP_RANK", rank // devices),
                        ("ROLE_RANK", rank), ("ROLE_WORLD_SIZE", world), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29500")):
        os.environ[name] = str(value)


def _store(dist, world):
    class Alone(dist.Store):
        """Every key is there. Counters count all ranks."""

        def __init__(self):
            super().__init__()
            self.values = {}

        def set(self, key, value):
            self.values[key] = value.encode() if isinstance(value, str) else bytes(value)
            if len(self.values[key]) == UNIQUE_ID:
                _tell_id(self.values[key], key)

        def get(self, key):
            if key not in self.values:
                self.set(key, hashlib.sha512(key.encode()).digest() * (UNIQUE_ID // 64))  # it may be the unique id of another rank's NCCL
            return self.values[key]

        def compare_set(self, key, expected, desired):
            self.set(key, desired)
            return self.values[key]

        def add(self, key, amount):
            value = int(self.values.get(key, b"0") or b"0") + amount * world
            self.values[key] = str(value).encode()
            return value

        def check(self, keys):
            return all(key in self.values for key in keys)  # asked of what is not to be there: "abort", say

        def wait(self, keys, *timeout):
            pass

        def num_keys(self):
            return len(self.values)

        def delete_key(self, key):
            return self.values.pop(key, None) is not None

        def set_timeout(self, timeout):
            pass

        def append(self, key, value):
            self.values[key] = self.values.get(key, b"") + (value.encode() if isinstance(value, str) else bytes(value))

        def multi_get(self, keys):
            return [self.get(key) for key in keys]

        def multi_set(self, keys, values):
            for key, value in zip(keys, values):
                self.set(key, value)

        def has_extended_api(self):
            return True

        def clone(self):
            return self

    return Alone()


def _replace(c10d, name, make):
    """Gives @name of torch.distributed what make() makes of it, under all the names that modules have it by."""
    old = getattr(c10d, name, None)
    if old is None:
        return
    new = functools.wraps(old)(make(old))
    for path, module in list(sys.modules.items()):
        if path.startswith("torch.distributed") and getattr(module, name, None) is old:
            setattr(module, name, new)


def _tell_group(name, ranks, own):
    ctypes.CDLL(None).pretend_group(str(name).encode(), len(ranks), (ctypes.c_int * len(ranks))(*ranks), own)


def _tell_id(value, key):
    """A group's NCCL is made with a unique id, which ranks find in the store below the group's name."""
    ctypes.CDLL(None).pretend_group_id(value, str(key).encode())


def _groups(c10d):
    """NCCL is not told which ranks a group has. The world's is made with no ranks given."""

    def helper(make):
        def function(group_size, group_rank, global_ranks_in_group, backend, store, group_name, *rest, **more):
            ranks = list(global_ranks_in_group) or list(range(group_size))
            own = (c10d.get_rank() if global_ranks_in_group else int(group_rank)) if group_rank is not None else -1
            if own in ranks:
                _tell_group(group_name, ranks, ranks.index(own))
            if not global_ranks_in_group:
                ctypes.CDLL(None).pretend_rank(int(group_rank), int(group_size))
            return make(group_size, group_rank, global_ranks_in_group, _without_gloo(str(backend)) if alone() else backend, store, group_name, *rest, **more)

        return function

    def split(make):
        def function(parent_pg=None, split_ranks=None, *rest, **more):
            of, own = list(c10d.get_process_group_ranks(parent_pg or c10d._get_default_group())), None
            for places in split_ranks or []:
                ranks = [of[place] for place in places]
                if c10d.get_rank() in ranks:
                    own = ranks
                    _tell_group("", own, own.index(c10d.get_rank()))
            group = make(parent_pg, split_ranks, *rest, **more)
            if own and getattr(group, "group_name", None):  # NCCL's is split now, or when it is first used
                _tell_group(group.group_name, own, own.index(c10d.get_rank()))
            return group

        return function

    _replace(c10d, "_new_process_group_helper", helper)
    _replace(c10d, "split_group", split)


def _without_gloo(backend):
    """Gloo connects every process with every other. What is done on the CPU is done by none."""
    import torch.testing._internal.distributed.fake_pg  # noqa: F401 it registers "fake"
    if backend in ("", "None", "undefined"):
        return "cpu:fake,cuda:nccl"
    return backend.replace("gloo", "fake")


def _meeting(dist):
    """Where the ranks that are there, of a world of more, leave what they tell one another; None where there is one."""
    folder = os.environ.get("ECHELON_PRETEND_MEETING")
    return dist.PrefixStore("objects", dist.FileStore(os.path.join(folder, "objects"), -1)) if folder and alone() else None


# ---- hosts that wait for one another ----

def _number(key):
    """What stands for @key in the captures of all ranks."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "little")


def _say(tells, what, key):
    """This rank's host tells whoever waits for @key, and goes on, or waits until all that tell @key have. Processes that are no rank (torchrun's) say nothing."""
    if sys.modules["torch.distributed"].is_initialized():
        ctypes.CDLL(None).pretend_host_says(int(tells), what.encode(), ctypes.c_uint64(_number(key)))


def _first_tensor(values):
    for value in values:
        if isinstance(value, (list, tuple)):
            value = _first_tensor(value)
        if hasattr(value, "device"):
            return value
    return None


def _hosts(c10d, finder):
    """What is done among processes on their CPUs, by gloo. Who waits there waits on the host."""
    import torch
    import weakref
    calls, pending = {}, weakref.WeakKeyDictionary()
    every = lambda group, options: (True, True)
    from_root = lambda group, options: (True, False) if group.rank() == options.rootRank else (False, True)
    to_root = lambda group, options: (True, group.rank() == options.rootRank)
    roles = {"broadcast": from_root, "scatter": from_root, "reduce": to_root, "gather": to_root}
    roles.update((name, every) for name in (
        "allreduce", "allreduce_coalesced", "allgather", "allgather_coalesced", "allgather_into_tensor_coalesced", "_allgather_base", "all_gather_single",
        "all_gather_single_coalesced", "reduce_scatter", "_reduce_scatter_base", "reduce_scatter_single", "reduce_scatter_single_coalesced",
        "reduce_scatter_tensor_coalesced", "alltoall", "alltoall_base", "all_to_all_single", "barrier", "monitored_barrier"))

    def count(key):
        return "%s/%d" % (key, next(calls.setdefault(key, itertools.count())))

    def on_host(group, device):
        """NCCL alone does it on the GPU; a group's gloo takes arrays there, too."""
        try:
            return not group._get_backend(device).name().startswith("nccl")
        except RuntimeError:
            return device.type == "cpu"

    def device_of(group, arguments, options):
        tensor = _first_tensor(arguments)
        if tensor is not None:
            return tensor.device
        device = getattr(options, "device", None)
        return device if device is not None else torch.device(c10d._get_object_coll_device(group))

    def done(work, what, key):
        """Whoever asked for it without waiting waits when it calls wait()."""
        if work is None:
            _say(False, what, key)
        else:
            pending[work] = (what, key)
        return work

    def collective(name, role):
        def method(ask):
            def function(group, *rest, **more):
                options = more.get("opts", rest[-1] if rest and type(rest[-1]).__name__.endswith("Options") else None)
                if not on_host(group, device_of(group, rest, options)):
                    return ask(group, *rest, **more)
                key = count("host/" + group.group_name)
                tells, hears = role(group, options)
                if tells:
                    _say(True, name, key)
                work = ask(group, *rest, **more)
                return done(work, name, key) if hears else work

            return function

        return method

    def message(sends):
        def method(ask):
            def function(group, tensors, other, tag, *rest, **more):
                work = ask(group, tensors, other, tag, *rest, **more)
                if not on_host(group, device_of(group, tensors, None)):
                    return work
                key = count("host/%s/%d>%d/%d" % ((group.group_name,) + ((group.rank(), other) if sends else (other, group.rank())) + (tag,)))
                if sends:
                    _say(True, "send", key)
                return work if sends else done(work, "recv", key)

            return function

        return method

    def wait(ask):
        def function(work, *rest, **more):
            result = ask(work, *rest, **more)
            if work in pending:
                _say(False, *pending.pop(work))
            return result

        return function

    changed = []

    def change(kind, name, make):
        if hasattr(kind, name):
            setattr(kind, name, functools.wraps(getattr(kind, name))(make(getattr(kind, name))))
            changed.append((kind, name))

    for name, role in roles.items():
        change(c10d.ProcessGroup, name, collective(name, role))
    change(c10d.ProcessGroup, "send", message(True))
    change(c10d.ProcessGroup, "recv", message(False))
    for kind in [c10d.Work] + c10d.Work.__subclasses__():
        if "wait" in vars(kind):
            change(kind, "wait", wait)

    def leave_alone(dynamo):
        """torch.compile ends its graph at them, as at the methods of C++ that were there, and runs them as they are."""
        for kind, name in changed:
            setattr(kind, name, dynamo.disable(getattr(kind, name)))

    finder.when("torch._dynamo", leave_alone, "programs may end in what torch.compile makes of collectives")


def _stores(dist):
    """What a program keeps in a store of its own: who reads a key for the first time waits for whoever sets it. (The process groups' own stores have a prefix;
    counters are added to by many and waited for by asking again and again.)"""
    said = set()

    def of_program(store):
        return type(store) in (dist.TCPStore, dist.FileStore, dist.HashStore)

    def change(name, tells, keys_of):
        def make(ask):
            def function(store, *rest, **more):
                keys = keys_of(*rest) if of_program(store) and rest else []
                result = ask(store, *rest, **more)
                for key in keys:
                    if (tells, key) not in said:
                        said.add((tells, key))
                        _say(tells, "store", "store/" + str(key))
                return result

            return function

        setattr(dist.Store, name, functools.wraps(getattr(dist.Store, name))(make(getattr(dist.Store, name))))

    change("set", True, lambda key, *rest: [key])
    change("get", False, lambda key, *rest: [key])
    change("wait", False, lambda keys, *rest: list(keys))


# ---- objects ----

def _objects(dist, c10d):
    """Objects travel as bytes whose lengths are compared on the GPU, which does not compute: they go through the store of the processes, where there are
    several. That they travel is written down as PyTorch has it: on the group's GPUs, where the host waits for them, or on its hosts."""
    calls = {}

    def members(group):
        return list(c10d.get_process_group_ranks(group or c10d._get_default_group()))

    def place(group):
        """Where the calls of a group meet: all of its ranks make the same ones in the same order."""
        name = ",".join(map(str, members(group)))
        return "echelon/%s/%d" % (name, next(calls.setdefault(name, itertools.count())))

    meeting = _meeting(dist)
    present = set(_present() if alone() else ())

    def store():
        return meeting or c10d._get_default_store()

    def tell(key, value):
        if meeting or not alone():
            store().set(key, pickle.dumps(value))

    def hear(key, own, rank):
        """What @rank tells; of one that is not there, the own."""
        there = not alone() or (meeting and rank in present)
        return pickle.loads(store().get(key)) if there else own

    def source(src, group, group_src):
        return members(group)[group_src] if group_src is not None else src or 0

    def travel(what, key, group, tells, hears, ask, sizes):
        """@ask does it with bytes on the GPU, of their number first."""
        if c10d._get_object_coll_device(group) == "cpu":
            if tells:
                _say(True, what, key)
            if hears:
                _say(False, what, key)
            return
        import torch
        for size in sizes:
            ask(lambda n=1: torch.empty(n * max(size, 1), dtype=torch.uint8, device="cuda"))
            if hears:
                torch.cuda.current_stream().synchronize()

    def size_of(value):
        return len(pickle.dumps(value))

    def all_gather_object(object_list, obj, group=None, *rest, **more):
        key = place(group)
        tell("%s/%d" % (key, c10d.get_rank()), obj)
        for i, rank in enumerate(members(group)):
            object_list[i] = hear("%s/%d" % (key, rank), obj, rank)
        n = len(members(group))
        travel("all_gather_object", key, group, True, True, lambda array: c10d.all_gather_into_tensor(array(n), array(), group),
               (8, max(map(size_of, object_list[:n]))))

    def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None, *rest, **more):
        key = place(group)
        tell("%s/%d" % (key, c10d.get_rank()), obj)
        for i, rank in enumerate(members(group) if object_gather_list else []):
            object_gather_list[i] = hear("%s/%d" % (key, rank), obj, rank)
        n = len(members(group))
        travel("gather_object", key, group, True, True, lambda array: c10d.all_gather_into_tensor(array(n), array(), group), (8, size_of(obj)))

    def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None, *rest, **more):
        key, root = place(group), source(src, group, group_src)
        own = c10d.get_rank() == root
        if own:
            tell(key, list(object_list))
        else:
            object_list[:] = hear(key, list(object_list), root)
        travel("broadcast_object_list", key, group, own, not own, lambda array: c10d.broadcast(array(), root, group),
               (8 * len(object_list), sum(map(size_of, object_list))))

    def scatter_object_list(scatter_object_output_list, scatter_object_input_list=None, src=None, group=None, group_src=None, *rest, **more):
        key, root = place(group), source(src, group, group_src)
        own = c10d.get_rank() == root
        if own:
            tell(key, list(scatter_object_input_list))
        given = hear(key, scatter_object_input_list or [None] * len(members(group)), root)
        scatter_object_output_list[0] = given[members(group).index(c10d.get_rank())]
        travel("scatter_object_list", key, group, own, not own, lambda array: c10d.broadcast(array(), root, group), (8, max(map(size_of, given))))

    def between(sender, receiver):
        """Where a message between two ranks is left: they come one after another."""
        pair = "%d>%d" % (sender, receiver)
        return "echelon/%s/%d" % (pair, next(calls.setdefault(pair, itertools.count())))

    def send_object_list(object_list, dst=None, group=None, device=None, group_dst=None, *rest, **more):
        receiver = source(dst, group, group_dst)
        key = between(c10d.get_rank(), receiver)
        tell(key, list(object_list))
        travel("send_object_list", key, group, True, False, lambda array: c10d.send(array(), receiver, group),
               (8 * len(object_list), sum(map(size_of, object_list))))

    def recv_object_list(object_list, src=None, group=None, device=None, group_src=None, *rest, **more):
        sender = source(src, group, group_src)
        if alone() and not (meeting and sender in present):
            raise RuntimeError("rank %d is to hear from rank %d what that alone knows, and it is not there: expected it in --rank, too (--rank %d,%d), or all "
                               "ranks by torchrun" % ((c10d.get_rank(), sender) + tuple(sorted((c10d.get_rank(), sender)))))
        key = between(sender, c10d.get_rank())
        object_list[:] = hear(key, None, sender)
        travel("recv_object_list", key, group, False, True, lambda array: c10d.recv(array(), sender, group),
               (8 * len(object_list), sum(map(size_of, object_list))))
        return sender

    def monitored_barrier(group=None, *rest, **more):
        key = place(group)
        _say(True, "monitored_barrier", key)
        _say(False, "monitored_barrier", key)

    for function in (all_gather_object, gather_object, broadcast_object_list, scatter_object_list, send_object_list,
                     recv_object_list) + ((monitored_barrier,) if alone() else ()):
        _replace(c10d, function.__name__, lambda old, new=function: new)
    _numbers(c10d, members, source, place, tell, hear)


SMALL = 1 << 16  # bytes of whole numbers that travel


def _numbers(c10d, members, source, place, tell, hear):
    """Few whole numbers on GPUs that one rank tells the others, or that all put together: lengths, counts, orders, which programs read and go by. Each rank knows
    its own, and no collective is run (nccl.c takes what other ranks have to be the same): they travel as objects do."""
    import torch
    import pretend_values

    reductions = ((c10d.ReduceOp.SUM, torch.sum), (c10d.ReduceOp.MAX, torch.amax), (c10d.ReduceOp.MIN, torch.amin))

    def travel(group, *tensors):
        compiles = getattr(torch.compiler, "is_compiling", bool)()
        return not compiles and not c10d._rank_not_in_group(group) and all(pretend_values.is_whole(tensor) and tensor.nbytes <= SMALL for tensor in tensors)

    def of_all(group, own):
        key = place(group)
        tell("%s/%d" % (key, c10d.get_rank()), own)
        return [hear("%s/%d" % (key, rank), own, rank) for rank in members(group)]

    def broadcast(ask):
        def function(tensor, src=None, group=None, *rest, **more):
            work = ask(tensor, src, group, *rest, **more)
            if travel(group, tensor):
                key, root = place(group), source(src, group, more.get("group_src"))
                if root == c10d.get_rank():
                    tell(key, pretend_values.bytes_of(tensor))
                else:
                    pretend_values.put_bytes(tensor, hear(key, pretend_values.bytes_of(tensor), root))
            return work

        return function

    def all_gather(ask):
        def function(tensor_list, tensor, group=None, *rest, **more):
            work = ask(tensor_list, tensor, group, *rest, **more)
            if travel(group, tensor, *tensor_list):
                for one, told in zip(tensor_list, of_all(group, pretend_values.bytes_of(tensor))):
                    pretend_values.put_bytes(one, told)
            return work

        return function

    def all_gather_into_tensor(ask):
        def function(output_tensor, input_tensor, group=None, *rest, **more):
            work = ask(output_tensor, input_tensor, group, *rest, **more)
            if travel(group, output_tensor, input_tensor):
                pretend_values.put_bytes(output_tensor, b"".join(of_all(group, pretend_values.bytes_of(input_tensor))))
            return work

        return function

    def all_reduce(ask):
        def function(tensor, op=c10d.ReduceOp.SUM, group=None, *rest, **more):
            travels = travel(group, tensor)
            own = pretend_values.bytes_of(tensor) if travels else None
            work = ask(tensor, op, group, *rest, **more)
            reduce = next((how for kind, how in reductions if op == kind), None)
            if reduce is not None and travels:
                told = b"".join(of_all(group, own))
                whole = reduce(torch.frombuffer(bytearray(told), dtype=tensor.dtype).view(-1, tensor.numel()), 0).to(tensor.dtype)
                pretend_values.put_bytes(tensor, whole.numpy().tobytes())
            return work

        return function

    for make in (broadcast, all_gather, all_gather_into_tensor, all_reduce):
        _replace(c10d, make.__name__, make)


def _alone(dist, c10d):
    alone_store = _store(dist, alone())

    def init(begin):
        def function(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, store=None, *rest, **more):
            return begin(backend, None, timeout, alone(), int(os.environ["RANK"]), alone_store, *rest, **more)

        return function

    _replace(c10d, "init_process_group", init)


OWN_BYTES = 8 << 20  # what vLLM's and SGLang's CustomAllreduce are made for


def install_servers(finder):
    """Servers' own kernels for small all-reduces read peers' memory, of which nothing says who takes part: NCCL's calls stand for them, and are told to be
    theirs."""
    for name in ("vllm.distributed.parallel_state", "sglang.srt.distributed.parallel_state"):
        finder.when(name, _own_all_reduces, "small all-reduces are taken to be NCCL's")
    for package in ("vllm.distributed", "sglang.srt.distributed"):
        finder.when(package + ".device_communicators.custom_all_reduce", _no_peers, "small all-reduces are kernels that wait for nobody")
    for package in ("vllm.distributed", "sglang.srt.distributed") if alone() else ():
        finder.when(package + ".device_communicators.shm_broadcast", _no_readers, "it waits for ranks that are not there")


def _no_peers(module):
    """Processes of one host do get at one another's memory, so that the kernels would be launched."""
    kind = getattr(module, "CustomAllreduce", None)
    if kind is not None:
        kind.should_custom_ar = lambda self, *args, **named: False


def _no_readers(module):
    """What a rank writes for those beside it on its host, who are not there to say that they are ready, or that they have read it."""
    for name in ("wait_until_ready", "enqueue"):
        setattr(module.MessageQueue, name, lambda self, *args, **named: None)


def _own_all_reduces(module):
    own = ctypes.CDLL(None).pretend_own_all_reduces
    own.argtypes = (ctypes.c_size_t,)

    def telling(reduce):
        @functools.wraps(reduce)
        def told(self, *args, **named):
            asked = getattr(getattr(self, "device_communicator", None) or self, "use_custom_allreduce", False)
            own(OWN_BYTES if asked else 0)
            try:
                return reduce(self, *args, **named)
            finally:
                own(0)

        return told

    for name in ("_all_reduce_out_place", "_all_reduce_in_place"):
        if hasattr(module.GroupCoordinator, name):
            setattr(module.GroupCoordinator, name, telling(getattr(module.GroupCoordinator, name)))


def install(torch, finder):
    if not torch.distributed.is_available():
        return
    from torch.distributed import distributed_c10d as c10d
    _groups(c10d)
    _hosts(c10d, finder)
    _stores(torch.distributed)
    _objects(torch.distributed, c10d)
    if alone():
        _alone(torch.distributed, c10d)
