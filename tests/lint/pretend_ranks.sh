#!/bin/bash
# What ranks of torch.distributed tell one another where no GPU and no PyTorch is: pretend_ranks.py over a torch.distributed of as many lines as it needs, in
# processes of a world that are there and for ones that are not. Skipped (77) without python3.
set -u
cd "$(dirname "$0")/../.." || exit 1
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1

cat >"$work/fake.py" <<'PY'
"""torch.distributed as far as pretend_ranks.py looks: a store in a folder, groups, and one backend a group."""
import os
import sys
import time
import types


class Store:
    def set(self, key, value): raise NotImplementedError
    def get(self, key): raise NotImplementedError
    def add(self, key, amount): raise NotImplementedError
    def wait(self, keys, *timeout): raise NotImplementedError


class FileStore(Store):
    def __init__(self, path, n):
        self.path = path

    def _file(self, key):
        return "%s.%s" % (self.path, key.replace("/", "_"))

    def set(self, key, value):
        with open(self._file(key) + ".part", "wb") as file:
            file.write(value)
        os.replace(self._file(key) + ".part", self._file(key))

    def get(self, key):
        for _ in range(1000):
            if os.path.exists(self._file(key)):
                with open(self._file(key), "rb") as file:
                    return file.read()
            time.sleep(0.01)
        raise TimeoutError(key)


class TCPStore(Store):
    def set(self, key, value): pass
    def get(self, key): return b""
    def add(self, key, amount): return amount
    def wait(self, keys, *timeout): pass


for name in ("set", "get", "add", "wait"):  # of the base alone, as in C++
    setattr(Store, name, (lambda name: lambda self, *rest: getattr(self, "_" + name)(*rest))(name))
for kind in (FileStore, TCPStore):
    for name in ("set", "get", "add", "wait"):
        if name in vars(kind):
            setattr(kind, "_" + name, vars(kind)[name])
            delattr(kind, name)


class HashStore(Store):
    pass


class PrefixStore(Store):
    def __init__(self, prefix, store):
        self.prefix, self.store = prefix, store

    def _set(self, key, value):
        self.store._set(self.prefix + "/" + key, value)

    def _get(self, key):
        return self.store._get(self.prefix + "/" + key)


class Device:
    def __init__(self, kind):
        self.type = kind


class Tensor:
    def __init__(self, kind):
        self.device = Device(kind)


class Numbers:
    """A tensor of whole numbers on a device."""

    def __init__(self, data):
        self.data, self.nbytes = data, len(data)


class Options:
    def __init__(self, root=0, device=None):
        self.rootRank, self.device = root, device


Options.__name__ = "BroadcastOptions"


class Work:
    def wait(self):
        return True


class ProcessGroup:
    def __init__(self, rank, ranks, backends):
        self.ranks, self.own, self.backends, self.group_name = ranks, rank, backends, "g" + "_".join(map(str, ranks))

    def rank(self):
        return self.own

    def _get_backend(self, device):
        if device.type not in self.backends:
            raise RuntimeError("no backend for " + device.type)
        return types.SimpleNamespace(name=lambda: self.backends[device.type])

    def allreduce(self, tensors, options=None): return Work()
    def broadcast(self, tensors, options=None): return Work()
    def gather(self, outputs, inputs, options=None): return Work()
    def barrier(self, opts=None): return Work()
    def monitored_barrier(self, timeout=None, wait=False): return None
    def send(self, tensors, to, tag): return Work()
    def recv(self, tensors, of, tag): return Work()


said = []


class Library:
    def pretend_host_says(self, tells, what, key):
        said.append((bool(tells), what.decode(), key.value))

    def pretend_group(self, *rest): pass
    def pretend_rank(self, *rest): pass


def install(rank, ranks):
    import ctypes
    ctypes.CDLL = lambda path: Library()
    world = ProcessGroup(rank, list(range(ranks)), {"cpu": "gloo", "cuda": "nccl"})
    c10d = types.ModuleType("torch.distributed.distributed_c10d")
    c10d.ProcessGroup, c10d.Work = ProcessGroup, Work
    c10d.get_rank = lambda: rank
    c10d.get_process_group_ranks = lambda group: group.ranks
    c10d._get_default_group = lambda: world
    c10d._get_object_coll_device = lambda group: "cpu"
    c10d._rank_not_in_group = lambda group: False
    c10d.ReduceOp = types.SimpleNamespace(SUM=0, MAX=1, MIN=2)
    for name in ("_new_process_group_helper", "split_group", "init_process_group", "all_gather_object", "gather_object", "broadcast_object_list",
                 "scatter_object_list", "send_object_list", "recv_object_list", "monitored_barrier", "broadcast", "all_gather",
                 "all_gather_into_tensor", "all_reduce"):
        setattr(c10d, name, lambda *rest, **more: None)
    dist = types.ModuleType("torch.distributed")
    dist.distributed_c10d, dist.Store, dist.FileStore, dist.TCPStore, dist.HashStore, dist.PrefixStore = c10d, Store, FileStore, TCPStore, HashStore, PrefixStore
    dist.is_available = dist.is_initialized = lambda: True
    torch = types.ModuleType("torch")
    torch.distributed, torch.device, torch.compiler = dist, Device, None
    torch.sum = torch.amax = torch.amin = None
    values = types.ModuleType("pretend_values")
    values.is_whole = lambda tensor: isinstance(tensor, Numbers)
    values.bytes_of = lambda tensor: tensor.data
    values.put_bytes = lambda tensor, told: setattr(tensor, "data", told)
    sys.modules.update({"torch": torch, "torch.distributed": dist, "torch.distributed.distributed_c10d": c10d, "pretend_values": values})
    import pretend_ranks
    pretend_ranks.install(torch, types.SimpleNamespace(when=lambda *asked: None))
    return c10d, world
PY

cat >"$work/ranks.py" <<'PY'
import json
import os
import sys

import fake

rank, world = int(sys.argv[1]), 4
c10d, group = fake.install(rank, world)
here = [int(r) for r in os.environ["ECHELON_PRETEND_RANKS"].split(",")]
got = [None] * world
c10d.all_gather_object(got, {"from": rank})
assert [o["from"] for o in got] == [r if r in here else rank for r in range(world)], got  # of one that is not there, the own
objects = ["of", rank]
c10d.broadcast_object_list(objects, src=2)
assert objects == ["of", 2], objects
objects = [rank]
c10d.broadcast_object_list(objects, src=1)  # who is not there
assert objects == [rank], objects
for src, told in ((2, b"2"), (1, b"%d" % rank)):
    number = fake.Numbers(b"%d" % rank)
    c10d.broadcast(number, src=src)
    assert number.data == told, number.data
numbers = [fake.Numbers(b"-") for _ in range(world)]
c10d.all_gather(numbers, fake.Numbers(b"%d" % rank))
assert [n.data for n in numbers] == [b"%d" % (r if r in here else rank) for r in range(world)]
whole = fake.Numbers(b"----")
c10d.all_gather_into_tensor(whole, fake.Numbers(b"%d" % rank))
assert whole.data == b"".join(n.data for n in numbers), whole.data
c10d.broadcast(fake.Tensor("cuda"), src=2)  # others do not travel
out = [None]
c10d.scatter_object_list(out, list("abcd") if rank == 2 else None, src=2)
assert out == ["abcd"[rank]], out
gathered = [None] * world if rank == 0 else None
c10d.gather_object(rank * 10, gathered, dst=0)
assert rank != 0 or gathered == [0, 0, 20, 0], gathered
for text in ("first", "second"):
    if rank == 0:
        c10d.send_object_list([text], dst=2)
    else:
        heard = [None]
        assert c10d.recv_object_list(heard, src=0) == 0 and heard == [text], heard
try:
    c10d.recv_object_list([None], src=3)
    raise SystemExit("heard from a rank that is not there")
except RuntimeError as error:
    assert "--rank %d,3" % rank in str(error), error
json.dump(fake.said, open(sys.argv[2], "w"))
PY

cat >"$work/hosts.py" <<'PY'
import json
import sys

import fake

rank = int(sys.argv[1])
c10d, group = fake.install(rank, 3)
host, gpu = fake.Tensor("cpu"), fake.Tensor("cuda")
group.allreduce([gpu])  # NCCL's is no business of the hosts
group.barrier(opts=fake.Options(device=fake.Device("cuda")))
assert not fake.said, fake.said
group.barrier(opts=fake.Options(device=fake.Device("cpu"))).wait()
assert [s[:2] for s in fake.said] == [(True, "barrier"), (False, "barrier")], fake.said
work = group.allreduce([host])
assert len(fake.said) == 3 and fake.said[2][0], fake.said  # who has not waited has not heard
work.wait()
work.wait()
assert len(fake.said) == 4, fake.said
group.broadcast([host], fake.Options(1)).wait()
assert [s[0] for s in fake.said[4:]] == ([True] if rank == 1 else [False]), fake.said
group.gather([], [host], fake.Options(1)).wait()
assert [s[0] for s in fake.said[5:]] == ([True, False] if rank == 1 else [True]), fake.said
group.monitored_barrier()
assert [s[:2] for s in fake.said[-2:]] == [(True, "monitored_barrier"), (False, "monitored_barrier")], fake.said
before = len(fake.said)
for tag in (0, 5):
    if rank == 0:
        group.send([host], 2, tag).wait()
    elif rank == 2:
        group.recv([host], 0, tag).wait()
assert [s[0] for s in fake.said[before:]] == {0: [True, True], 1: [], 2: [False, False]}[rank], fake.said
store, before = fake.TCPStore(), len(fake.said)
for _ in range(2):  # what is set again was there
    store.add("counter", 1)
    if rank == 0:
        store.set("key", "value")
    else:
        store.wait(["key"])
        store.get("key")
assert [s[:2] for s in fake.said[before:]] == [(rank == 0, "store")], fake.said
both = fake.ProcessGroup(rank, [0, 1, 2], {"cpu": "gloo", "cuda": "gloo"})  # gloo takes arrays of a GPU, too
both.allreduce([gpu]).wait()
assert [s[:2] for s in fake.said[-2:]] == [(True, "allreduce"), (False, "allreduce")], fake.said
json.dump(fake.said, open(sys.argv[2], "w"))
PY

cat >"$work/match.py" <<'PY'
"""What one rank hears another tells, under the same number; no number stands for two things."""
import json
import sys

ranks = [json.load(open(path)) for path in sys.argv[2:]]
told = {key: what for said in ranks for tells, what, key in said if tells}
unheard = [(what, key) for said in ranks for tells, what, key in said if not tells and key not in told]
pairs = {"recv": "send", "recv_object_list": "send_object_list"}
assert len(unheard) == int(sys.argv[1]), unheard
for said in ranks:
    for tells, what, key in said:
        assert tells or key not in told or told[key] == pairs.get(what, what), (what, told[key])
    keys = [key for tells, what, key in said if tells]
    assert len(set(keys)) == len(keys), said
PY

cp traces/capture/pretend/python/pretend_ranks.py "$work/"
cd "$work" || exit 1
mkdir meeting
failed=0
export ECHELON_PRETEND_WORLD=4 ECHELON_PRETEND_RANKS=0,2 ECHELON_PRETEND_MEETING=$work/meeting
python3 ranks.py 0 0.json & first=$!
python3 ranks.py 2 2.json || failed=1
wait "$first" || failed=1
python3 match.py 2 0.json 2.json || failed=1 # what rank 1, which is not there, would have told both
unset ECHELON_PRETEND_WORLD ECHELON_PRETEND_RANKS ECHELON_PRETEND_MEETING
for rank in 0 1 2; do python3 hosts.py $rank h$rank.json || failed=1; done
python3 match.py 0 h0.json h1.json h2.json || failed=1
exit $failed
