"""torch.distributed on GPUs that are not there: which ranks a group has, objects that ranks tell one another, and, where ECHELON_PRETEND_WORLD says so, a
process that is the only one of its world.

Nothing waits for another rank's GPU, as collectives are not run (nccl.c). Alone, nothing waits for another process either: what the others would have written
into the store is taken to be what this one writes, and the objects of others are this one's own. Where there are processes for several ranks of such a world
(ECHELON_PRETEND_RANKS), the objects that those tell one another are theirs, by files in ECHELON_PRETEND_MEETING."""
import ctypes
import functools
import hashlib
import os
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
            of = list(c10d.get_process_group_ranks(parent_pg or c10d._get_default_group()))
            for places in split_ranks or []:
                ranks = [of[place] for place in places]
                if c10d.get_rank() in ranks:
                    _tell_group("", ranks, ranks.index(c10d.get_rank()))
            return make(parent_pg, split_ranks, *rest, **more)

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
    return dist.FileStore(os.path.join(folder, "objects"), -1) if folder and alone() else None


def _objects(dist, c10d):
    """Objects travel as bytes whose lengths are compared on the GPU, which does not compute: they go through the store of the processes, where there are
    several."""
    import itertools
    import pickle
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

    def all_gather_object(object_list, obj, group=None, *rest, **more):
        key = place(group)
        tell("%s/%d" % (key, c10d.get_rank()), obj)
        for i, rank in enumerate(members(group)):
            object_list[i] = hear("%s/%d" % (key, rank), obj, rank)

    def gather_object(obj, object_gather_list=None, dst=None, group=None, *rest, **more):
        key = place(group)
        tell("%s/%d" % (key, c10d.get_rank()), obj)
        for i, rank in enumerate(members(group) if object_gather_list else []):
            object_gather_list[i] = hear("%s/%d" % (key, rank), obj, rank)

    def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None, *rest, **more):
        key = place(group)
        if c10d.get_rank() == source(src, group, group_src):
            tell(key, list(object_list))
        else:
            object_list[:] = hear(key, list(object_list), source(src, group, group_src))

    def scatter_object_list(scatter_object_output_list, scatter_object_input_list=None, src=None, group=None, group_src=None, *rest, **more):
        key = place(group)
        if c10d.get_rank() == source(src, group, group_src):
            tell(key, list(scatter_object_input_list))
        given = hear(key, scatter_object_input_list or [None] * len(members(group)), source(src, group, group_src))
        scatter_object_output_list[0] = given[members(group).index(c10d.get_rank())]

    def between(sender, receiver):
        """Where a message between two ranks is left: they come one after another."""
        pair = "%d>%d" % (sender, receiver)
        return "echelon/%s/%d" % (pair, next(calls.setdefault(pair, itertools.count())))

    def send_object_list(object_list, dst=None, group=None, device=None, group_dst=None, *rest, **more):
        tell(between(c10d.get_rank(), source(dst, group, group_dst)), list(object_list))

    def recv_object_list(object_list, src=None, group=None, device=None, group_src=None, *rest, **more):
        sender = source(src, group, group_src)
        if alone() and not (meeting and sender in present):
            raise RuntimeError("rank %d is to hear from rank %d what that alone knows, and it is not there: expected it in --rank, too (--rank %d,%d), or all "
                               "ranks by torchrun" % ((c10d.get_rank(), sender) + tuple(sorted((c10d.get_rank(), sender)))))
        object_list[:] = hear(between(sender, c10d.get_rank()), None, sender)
        return sender

    def monitored_barrier(*rest, **more):
        pass

    for function in (all_gather_object, gather_object, broadcast_object_list, scatter_object_list, send_object_list,
                     recv_object_list) + ((monitored_barrier,) if alone() else ()):
        _replace(c10d, function.__name__, lambda old, new=function: new)


def _alone(dist, c10d):
    alone_store = _store(dist, alone())

    def init(begin):
        def function(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, store=None, *rest, **more):
            return begin(backend, None, timeout, alone(), int(os.environ["RANK"]), alone_store, *rest, **more)

        return function

    _replace(c10d, "init_process_group", init)


def install(torch):
    if not torch.distributed.is_available():
        return
    from torch.distributed import distributed_c10d as c10d
    _groups(c10d)
    _objects(torch.distributed, c10d)
    if alone():
        _alone(torch.distributed, c10d)
