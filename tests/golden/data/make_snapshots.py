"""Writes oom.pickle, and backward.pickle, streams.pickle, graphs.pickle, served.pickle, two_devices.pickle, share.pickle and grown.pickle below. oom.pickle: what torch.cuda.memory._snapshot() returns after a run that ended out of memory, from a small model of PyTorch's allocator (large pool, one
stream). A large temporary's segment is cut up by what stays, so that the temporary fits no more although enough bytes are free."""
import pathlib
import pickle

MIB = 1 << 20


class Allocator:
    def __init__(self, total):
        self.total, self.segments, self.trace, self.clock = total, {}, [], 1_700_000_000_000_000  # segments: address: [[address, bytes, frames or None]]

    def reserved(self):
        return sum(b[1] for blocks in self.segments.values() for b in blocks)

    def event(self, action, where, size, frames):
        self.clock += 10
        key = "device_free" if action == "oom" else "addr"
        self.trace.append({"action": action, key: where, "size": size, "stream": 0, "time_us": self.clock, "frames": frames, "segment_pool_id": (0, 0)})

    def malloc(self, size, *stack):
        frames = [{"filename": f"/home/me/{f}", "line": line, "name": name} for f, line, name in stack]
        fits = [(b[1], b[0], a) for a, blocks in self.segments.items() for b in blocks if not b[2] and b[1] >= size]
        if not fits:
            if size > self.total - self.reserved():
                self.event("oom", self.total - self.reserved(), size, frames)
                return None
            address = 0x7F0000000000 + sum(b[1] for blocks in self.segments.values() for b in blocks)
            self.segments[address] = [[address, size, None]]
            self.event("segment_alloc", address, size, frames)
            fits = [(size, address, address)]
        free, at, segment = min(fits)
        blocks = self.segments[segment]
        i = next(i for i, b in enumerate(blocks) if b[0] == at)
        blocks[i : i + 1] = [[at, size, frames]] + ([[at + size, free - size, None]] if free > size else [])
        self.event("alloc", at, size, frames)
        return at

    def free(self, address):
        for blocks in self.segments.values():
            for b in blocks:
                if b[0] == address:
                    self.event("free_requested", address, b[1], [])
                    self.event("free_completed", address, b[1], [])
                    b[2] = None

    def snapshot(self):
        segments = [
            {
                "device": 0, "address": a, "total_size": sum(b[1] for b in blocks), "allocated_size": sum(b[1] for b in blocks if b[2]),
                "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False,
                "blocks": [{"address": b[0], "size": b[1], "requested_size": b[1], "frames": b[2] or [],
                            "state": "active_allocated" if b[2] else "inactive"} for b in blocks],
            }
            for a, blocks in self.segments.items()
        ]
        return {"segments": segments, "device_traces": [self.trace], "allocator_settings": {"expandable_segments": False}, "external_annotations": []}


run = Allocator(210 * MIB)
main = ("train.py", 30, "main")
for _ in range(2):
    run.malloc(10 * MIB, ("model.py", 12, "__init__"), main)
run.free(run.malloc(100 * MIB, ("loss.py", 8, "cross_entropy"), main))
for _ in range(3):
    run.malloc(12 * MIB, ("adam.py", 77, "step"), main)
assert run.malloc(100 * MIB, ("loss.py", 8, "cross_entropy"), main) is None
with open(pathlib.Path(__file__).with_name("oom.pickle"), "wb") as out:
    pickle.dump(run.snapshot(), out, protocol=4)

# backward.pickle: the same where a backward pass asked, of which Python has no line.
run.trace[-1]["frames"] = []
with open(pathlib.Path(__file__).with_name("backward.pickle"), "wb") as out:
    pickle.dump(run.snapshot(), out, protocol=4)

# streams.pickle: expandable segments of two streams with handles as CUDA gives them, the window begun mid-run. The stream that asks first then has the higher
# addresses; blocks go where PyTorch's rules put them: into the smallest free block of their own stream, else behind what is mapped, in pages of 20 MiB.
A, B, STREAM = 0x7E0000000000, 0x7F0000000000, {0x7E0000000000: 0x55D0C0002000, 0x7F0000000000: 0x55D0C0001000}
window, ticks = [], iter(range(1_700_000_000_000_000, 1_700_000_001_000_000, 10))
frames = [{"filename": "/home/me/serve.py", "line": 9, "name": "decode"}]


def event(base, offset, size, *actions):
    for action in actions:
        window.append({"action": action, "addr": base + offset * MIB, "size": size * MIB, "stream": STREAM[base], "time_us": next(ticks), "frames": frames})


event(B, 20, 40, "segment_map")
event(B, 20, 30, "alloc")
event(A, 0, 10, "alloc")
event(B, 50, 10, "alloc")
event(A, 20, 20, "segment_map")
event(A, 10, 20, "alloc")
event(B, 20, 30, "free_requested", "free_completed")
event(B, 20, 5, "alloc")


def expandable(base, *blocks):
    listed, at = [], base
    for size, used in blocks:
        listed.append({"address": at, "size": size * MIB, "requested_size": size * MIB if used else 0, "state": "active_allocated" if used else "inactive", "frames": []})
        at += size * MIB
    return {"device": 0, "address": base, "total_size": at - base, "allocated_size": sum(b["requested_size"] for b in listed), "stream": STREAM[base],
            "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": True, "blocks": listed}


state = {"segments": [expandable(A, (10, 1), (20, 1), (10, 0)), expandable(B, (20, 1), (5, 1), (25, 0), (10, 1))], "device_traces": [window],
         "allocator_settings": {"PYTORCH_HIP_ALLOC_CONF": "expandable_segments:True", "expandable_segments": True}, "external_annotations": []}
with open(pathlib.Path(__file__).with_name("streams.pickle"), "wb") as out:
    pickle.dump(state, out, protocol=4)

# graphs.pickle: a CUDA graph's private pool keeps what it has cached. 200 MiB of memory; the graph's capture needed 100 of them and holds 20 in use, and 110 are
# asked for outside of it: 100 are free on the device once the default pool's 50 are given back, and the other 80 stay the graph's.
window, MAIN, GRAPH = [], (0, 0), (1, 0)


def note(pool, at, size, *actions):
    for action in actions:
        window.append({"action": action, "device_free" if action == "oom" else "addr": at if action == "oom" else A + at * MIB, "size": size * MIB, "stream": 0,
                       "time_us": next(ticks), "frames": frames, "pool_id": pool})


note(MAIN, 0, 50, "segment_alloc", "alloc", "free_requested", "free_completed")
note(GRAPH, 50, 20, "segment_alloc", "alloc")
note(GRAPH, 70, 80, "segment_alloc", "alloc", "free_requested", "free_completed")
note(MAIN, 0, 50, "segment_free")
note(MAIN, 100 * MIB, 110, "oom")
segments = [{"device": 0, "address": A + at * MIB, "total_size": size * MIB, "allocated_size": size * MIB if used else 0, "stream": 0, "segment_type": "large",
             "segment_pool_id": GRAPH, "is_expandable": False, "blocks": [{"address": A + at * MIB, "size": size * MIB, "requested_size": size * MIB if used else 0,
                                                                         "state": "active_allocated" if used else "inactive", "frames": []}]}
            for at, size, used in ((50, 20, True), (70, 80, False))]
with open(pathlib.Path(__file__).with_name("graphs.pickle"), "wb") as out:
    pickle.dump({"segments": segments, "device_traces": [window], "allocator_settings": {"expandable_segments": False}, "external_annotations": []}, out, protocol=4)

# served.pickle: the same with memory enough for the 110 MiB. Then the graph is destroyed, what it had cached goes, and 180 MiB are asked for.
window.pop()
note(MAIN, 150, 110, "segment_alloc", "alloc", "free_requested", "free_completed")
note(GRAPH, 70, 80, "segment_free")
note(MAIN, 150, 110, "segment_free")
note(MAIN, 300, 180, "segment_alloc", "alloc")
segments[1] = {**segments[0], "address": A + 300 * MIB, "total_size": 180 * MIB, "allocated_size": 180 * MIB, "segment_pool_id": MAIN,
               "blocks": [{**segments[0]["blocks"][0], "address": A + 300 * MIB, "size": 180 * MIB, "requested_size": 180 * MIB}]}
with open(pathlib.Path(__file__).with_name("served.pickle"), "wb") as out:
    pickle.dump({"segments": segments, "device_traces": [window], "allocator_settings": {"expandable_segments": False}, "external_annotations": []}, out, protocol=4)

# two_devices.pickle: one program on two devices; the second holds more, and is refused.
def listed(device, *allocations):
    base = A + device * (1 << 40)
    return [{"action": action, "addr": base + at * MIB, "size": size * MIB, "stream": 0, "time_us": next(ticks), "frames": frames}
            for at, size in allocations for action in ("segment_alloc", "alloc")], [
           {"device": device, "address": base + at * MIB, "total_size": size * MIB, "allocated_size": size * MIB, "stream": 0, "segment_type": "large",
            "segment_pool_id": MAIN, "is_expandable": False, "blocks": [{"address": base + at * MIB, "size": size * MIB, "requested_size": size * MIB,
                                                                         "state": "active_allocated", "frames": []}]} for at, size in allocations]


first, of_first = listed(0, (0, 50), (50, 20))
second, of_second = listed(1, (0, 70), (70, 30))
second.append({"action": "oom", "device_free": 10 * MIB, "size": 40 * MIB, "stream": 0, "time_us": next(ticks), "frames": frames})
with open(pathlib.Path(__file__).with_name("two_devices.pickle"), "wb") as out:
    pickle.dump({"segments": of_first + of_second, "device_traces": [first, second], "allocator_settings": {"expandable_segments": False},
                 "external_annotations": []}, out, protocol=4)

# share.pickle: 40 MiB more than the tenth of the device that the settings leave.
only, of_it = listed(0, (0, 50), (50, 20))
only.append({"action": "oom", "device_free": 600 * MIB, "size": 40 * MIB, "stream": 0, "time_us": next(ticks), "frames": frames})
with open(pathlib.Path(__file__).with_name("share.pickle"), "wb") as out:
    pickle.dump({"segments": of_it, "device_traces": [only], "external_annotations": [],
                 "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "per_process_memory_fraction:0.1", "expandable_segments": False}}, out, protocol=4)

# grown.pickle: the same of segments that grow. Of 30 MiB the limit is asked for all, though 10 MiB are there.
window.clear()
event(A, 0, 60, "segment_map")
event(A, 0, 50, "alloc")
event(A, 60, 20, "segment_map")
event(A, 50, 30, "alloc")
window.append({"action": "oom", "device_free": 600 * MIB, "size": 40 * MIB, "stream": STREAM[A], "time_us": next(ticks), "frames": frames})
with open(pathlib.Path(__file__).with_name("grown.pickle"), "wb") as out:
    pickle.dump({"segments": [expandable(A, (50, 1), (30, 1))], "device_traces": [window], "external_annotations": [],
                 "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,per_process_memory_fraction:0.1", "expandable_segments": True}}, out,
                protocol=4)
