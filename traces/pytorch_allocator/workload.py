"""Allocation workloads for PyTorch's caching allocator, made from a kind and a seed, and run by the real one.

    echelon capture --pretend h100-sxm -- python workload.py OUT RUN...        ("-" reads them from standard input)

RUN is KIND:SEED:ROOM:ENDS[:SETTINGS]: one of KINDS; the device memory, as a multiple of the most that the workload has in use ("1.05"); what the program does when
memory runs out ("stop", or "go" on without that allocation); PYTORCH_CUDA_ALLOC_CONF. Each runs in a process of its own, forked before CUDA begins.
OUT/KIND-SEED.txt are the requests as `echelon alloc` reads them, OUT/runs.csv has a line for each run with what PyTorch says of it; with WORKLOAD_SNAPSHOTS=1 in
the environment OUT/RUN.pickle is its snapshot and OUT/RUN.json all it says.
"""
import json
import os
import pickle
import sys

KiB, MiB = 1 << 10, 1 << 20


class Random:
    """splitmix64: the same numbers in every version of Python."""

    def __init__(self, seed):
        self.state = seed

    def bits(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        z = self.state
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
        return z ^ z >> 31

    def below(self, n):
        return self.bits() % n

    def between(self, low, high):
        return low + self.below(high - low + 1)

    def one_in(self, n):
        return self.below(n) == 0

    def of(self, items):
        return items[self.below(len(items))]

    def power(self, low, high):
        """Evenly over the powers of two from 2^low to 2^high, and evenly between two of them."""
        at = 1 << self.between(low, high - 1)
        return at + self.below(at)


class Workload:
    """A list of requests: ("a", id, bytes, stream, pool), ("f", id), ("r", id, stream), ("c",) to empty the cache, ("d", pool) where a private pool is let go."""

    def __init__(self):
        self.ops, self.sizes, self.live = [], {}, {}
        self.n = self.bytes = self.peak = 0

    def take(self, n_bytes, stream=0, pool=0):
        self.n += 1
        self.ops.append(("a", self.n - 1, n_bytes, stream, pool))
        self.live[self.n - 1] = n_bytes
        self.bytes += (n_bytes + 511) // 512 * 512
        self.peak = max(self.peak, self.bytes)
        return self.n - 1

    def free(self, number):
        self.ops.append(("f", number))
        self.bytes -= (self.live.pop(number) + 511) // 512 * 512

    def use(self, number, stream):
        self.ops.append(("r", number, stream))

    def empty_cache(self):
        self.ops.append(("c",))

    def done(self, pool):
        self.ops.append(("d", pool))


def any_size(r):
    kind = r.below(10)
    if kind < 4:
        return r.power(6, 20)
    if kind < 6:
        return r.power(20, 24)
    if kind < 9:
        return r.power(24, 28)
    return r.of((512, 1 * MiB, 2 * MiB, 10 * MiB, 12 * MiB, 20 * MiB, 32 * MiB, 64 * MiB, 100 * MiB, 128 * MiB)) + r.of((-511, -1, 0, 1, 512))


def churn(w, r, n=1500, streams=1, empties=300, uses=0):
    """Sizes of all kinds that come and go; the number alive rises and falls."""
    target, alive = r.between(20, 120), []
    for _ in range(n):
        if r.one_in(100):
            target = r.between(5, 150)
        if empties and r.one_in(empties):
            w.empty_cache()
        if alive and r.below(200) > 100 + target - len(alive):
            at = r.below(len(alive))
            alive[at], alive[-1] = alive[-1], alive[at]
            w.free(alive.pop())
        else:
            alive.append(w.take(any_size(r), r.below(streams)))
            if uses and r.one_in(uses):
                for stream in range(streams):
                    if r.one_in(2):
                        w.use(alive[-1], stream)


def streams(w, r):
    """Four streams, a third of the allocations used on others too."""
    churn(w, r, 1500, 4, 400, 3)


def train(w, r):
    """A transformer's training steps with another sequence length each."""
    layers, width, batch = r.between(4, 12), r.of((512, 768, 1024, 1600)), r.between(1, 8)
    weights = [(4 * width * width * 4, 8 * width * width * 4, width * 4, width * 4) for _ in range(layers)]
    kept = [w.take(n) for layer in weights for n in layer] + [w.take(50257 * width * 4)]
    moments = []
    for step in range(r.between(6, 14)):
        tokens = batch * (64 + r.below(960))
        saved = [w.take(tokens * width * 4)]
        for _ in range(layers):
            for factor in (4, 12, 4, 4, 16, 16, 4):
                saved.append(w.take(tokens * width * factor))
                scratch = w.take(tokens * width * r.of((2, 4, 8))) if r.one_in(3) else None
                if scratch is not None:
                    w.free(scratch)
        logits = [w.take(tokens * 50257 * 2), w.take(tokens * 50257 * 4)]
        grads, at = [], None
        w.free(logits.pop())
        for layer in reversed(weights):
            for n in layer:
                grads.append(w.take(n))
            for _ in range(7):
                following = w.take(tokens * width * 4)
                if at is not None:
                    w.free(at)
                at = following
                w.free(saved.pop())
        w.free(at)
        for number in saved + logits:
            w.free(number)
        if not moments:
            moments = [w.take(n) for layer in weights for n in layer for _ in range(2)]
        for number in grads:
            w.free(number)
        if r.one_in(8):
            w.empty_cache()
    for number in kept:
        w.free(number)


def decode(w, r):
    """Continuous batching: each request's keys and values are copied into larger arrays as it grows, layer by layer."""
    layers, head = r.between(4, 12), r.of((512, 1024, 2048))
    for _ in range(layers):
        w.take(12 * head * head * 2)
    requests = []
    for _ in range(r.between(60, 120)):
        if len(requests) < 12 and r.one_in(3):
            length = r.between(16, 2048)
            requests.append([length, r.between(4, 60), [w.take(2 * length * head * 2) for _ in range(layers)]])
        for request in requests:
            request[0] += r.between(1, 64)
            request[1] -= 1
            for layer in range(layers):
                grown = w.take(2 * request[0] * head * 2)
                w.free(request[2][layer])
                request[2][layer] = grown
        for request in [request for request in requests if request[1] == 0]:
            for number in request[2]:
                w.free(number)
            requests.remove(request)


def images(w, r):
    """A U-Net over images of several sizes: halved and doubled again, workspaces of convolutions beside."""
    for _ in range(r.between(20, 40)):
        w.take(r.power(18, 25))
    for _ in range(r.between(6, 12)):
        side, batch = 64 * r.between(4, 16), r.between(1, 4)
        skips, at = [], w.take(batch * side * side * 64 * 2)
        for level in range(4):
            for _ in range(2):
                workspace = w.take(r.power(22, 27))
                out = w.take(batch * (side >> level) ** 2 * (64 << level) * 2)
                w.free(workspace)
                skips.append(at)
                at = out
        while skips:
            skip = skips.pop()
            joined = w.take(w.live[skip] + w.live[at])
            w.free(skip)
            w.free(at)
            at = w.take(w.live[joined] // 2)
            w.free(joined)
        w.free(at)
        if r.one_in(6):
            w.empty_cache()


def pools(w, r):
    """Private pools beside the common one: filled, partly freed, let go."""
    alive, of_pool, made = [], {}, 0
    for _ in range(900):
        pool = 0
        if r.one_in(3) and of_pool:
            pool = r.of(sorted(of_pool))
        if r.one_in(90) and len(of_pool) < 4:
            made += 1
            pool = made
            of_pool[pool] = []
        if r.one_in(120) and of_pool:
            gone = r.of(sorted(of_pool))
            if r.one_in(2):
                w.done(gone)
                alive += of_pool.pop(gone)
            else:
                for number in of_pool.pop(gone):
                    w.free(number)
                w.done(gone)
            continue
        if r.one_in(250):
            w.empty_cache()
        mine = of_pool.get(pool, alive)
        if mine and r.below(100) < 46:
            at = r.below(len(mine))
            mine[at], mine[-1] = mine[-1], mine[at]
            w.free(mine.pop())
        else:
            mine.append(w.take(any_size(r), 0, pool))


KINDS = {"churn": churn, "streams": streams, "train": train, "decode": decode, "images": images, "pools": pools}


def make(kind, seed):
    w = Workload()
    KINDS[kind](w, Random(seed * 1000003 + sum(kind.encode())))
    return w


def text_of(w):
    """The requests as `echelon alloc` reads them. A block that other streams use is free when the events that its freeing records are complete: at once here."""
    lines, used = [], {}
    for op in w.ops:
        if op[0] == "a":
            private = op[4] != 0
            lines.append("%s %d %d %d" % ("p" if private else "a", op[1], op[2], 1000 + op[4] if private else op[3]))
        elif op[0] == "r":
            used.setdefault(op[1], []).append(op[2])
            lines.append("r %d %d" % op[1:])
        elif op[0] == "f":
            lines.append("f %d" % op[1])
            lines += ["e %d" % stream for stream in sorted(set(used.pop(op[1], [])))]
        elif op[0] == "c":
            lines.append("c")
        else:
            lines.append("d %d" % (1000 + op[1]))
    return "\n".join(lines) + "\n"


def run(w, ends, torch):
    """All requests; the messages of those refused, by number of the request."""
    others = [torch.cuda.Stream() for _ in range(3)]
    handles = [torch.cuda.current_stream()] + others
    held, shared, refused, mempools = {}, {}, [], {}
    empty, uint8 = torch.empty, torch.uint8
    for op in w.ops:
        if op[0] == "a":
            _, number, n_bytes, stream, pool = op
            try:
                if pool:
                    if pool not in mempools:
                        mempools[pool] = torch.cuda.MemPool()
                    with torch.cuda.use_mem_pool(mempools[pool]):
                        held[number] = empty(n_bytes, dtype=uint8, device="cuda")
                elif stream:
                    with torch.cuda.stream(others[stream - 1]):
                        held[number] = empty(n_bytes, dtype=uint8, device="cuda")
                else:
                    held[number] = empty(n_bytes, dtype=uint8, device="cuda")
            except torch.cuda.OutOfMemoryError as error:
                refused.append((number, str(error)))
                if ends == "stop":
                    return refused, (held, mempools)
        elif op[0] == "f":
            held.pop(op[1], None)
        elif op[0] == "r":
            if op[1] in held:
                held[op[1]].record_stream(handles[op[2]])
        elif op[0] == "c":
            torch.cuda.empty_cache()
        else:
            mempools.pop(op[1], None)
    return refused, (held, mempools)


def placements(snapshot, w, refused):
    """Where each request went, a line each: "ID SEGMENT OFFSET", segments in the order in which requests meet them, or "ID -" where it was refused. None where a
    pool had several expandable segments at a time: which of them it looks at first hangs on their addresses, which are the driver's to choose."""
    live, next_segment, placed = [], 0, []  # [address, bytes, number, mapped bytes, whose]
    for event in snapshot["device_traces"][0]:
        action, address, size = event["action"], event.get("addr", 0), event["size"]
        inside = [segment for segment in live if segment[0] <= address < segment[0] + segment[1]]
        if action == "segment_alloc":
            live.append([address, size, next_segment, size, None])
            next_segment += 1
        elif action == "segment_map":  # where pages of a reservation are, or behind them; else the first of a new one
            of = inside or [segment for segment in live if segment[0] + segment[1] == address]
            if of:
                of[0][1] = max(of[0][1], address + size - of[0][0])
                of[0][3] += size
            else:
                whose = (event["stream"], event.get("pool_id"), size == 2 * MiB)
                if whose in [segment[4] for segment in live]:
                    return None
                live.append([address, size, next_segment, size, whose])
                next_segment += 1
        elif action in ("segment_free", "segment_unmap"):
            inside[0][3] -= size
            if inside[0][3] == 0:
                live.remove(inside[0])
        elif action == "alloc":
            placed.append((inside[0][2], address - inside[0][0]))
    lines, names = [], {}
    for number in range(w.n):
        if number in refused:
            lines.append("%d -\n" % number)
        elif placed:
            segment, offset = placed.pop(0)
            lines.append("%d %d %d\n" % (number, names.setdefault(segment, len(names)), offset))
    return "".join(lines)


def fnv(text):
    """64 bits of FNV-1a."""
    state = 0xCBF29CE484222325
    for byte in text.encode():
        state = ((state ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return state


# What torch.cuda.memory_stats() counts, and no hash of a stream's address decides.
STATS = ("num_alloc_retries", "num_ooms", "num_device_alloc", "num_device_free", "num_sync_all_streams", "segment.all.allocated", "allocated_bytes.all.allocated",
         "allocated_bytes.all.peak", "requested_bytes.all.peak", "reserved_bytes.all.peak", "reserved_bytes.all.current")


def parts_of(spec):
    kind, seed, room, ends, settings = (spec.split(":", 4) + [""])[:5]
    w = make(kind, int(seed))
    return w, int(w.peak * float(room)) // (2 * MiB) * (2 * MiB), ends, settings


def pretend(granted, settings):
    """What a process that is forked now sees: a device with so much memory, none of it lost to a context, and PyTorch's settings."""
    device = dict(item.split("=", 1) for item in os.environ["ECHELON_PRETEND_DEVICE"].split(";") if "=" in item)
    device.update(bytes=str(granted), context="0")
    os.environ["ECHELON_PRETEND_DEVICE"] = ";".join("%s=%s" % item for item in device.items())
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = settings


def write_row(out, name, granted, settings, refused, where, stats, torch):
    row = [name, ".".join(torch.__version__.split(".")[:2]), str(granted), '"%s"' % settings.strip(","), str(min(refused)) if refused else "", str(fnv(where))]
    with open(os.path.join(out, "runs.csv"), "a") as file:
        file.write(",".join(row + [str(stats.get(key, "")) for key in STATS]) + "\n")


def one(out, spec, w, granted, ends, settings, torch):
    torch.cuda.init()
    keeps = bool(os.environ.get("WORKLOAD_SNAPSHOTS"))
    torch.cuda.memory._record_memory_history("all", context="all" if keeps else None, stacks="python", max_entries=1 << 20)
    fraction = 1.0
    if "garbage_collection_threshold" in settings and "per_process_memory_fraction" not in settings:
        fraction = 0.95  # without a fraction it does nothing
        torch.cuda.set_per_process_memory_fraction(fraction)
    refused, held = run(w, ends, torch)
    snapshot = torch.cuda.memory._snapshot()
    stats = torch.cuda.memory_stats()
    numbers = {number for number, _ in refused}
    where = placements(snapshot, w, numbers)
    kind, seed = spec.split(":")[:2]
    name = "%s-%s" % (kind, seed)
    with open(os.path.join(out, name + ".txt"), "w") as file:
        file.write(text_of(w))
    if where is not None:
        write_row(out, name, granted, settings + (",per_process_memory_fraction:%g" % fraction if fraction < 1 else ""), numbers, where, stats, torch)
    if keeps:
        with open(os.path.join(out, spec + ".pickle"), "wb") as file:
            pickle.dump(snapshot, file)
        with open(os.path.join(out, spec + ".json"), "w") as file:
            json.dump({"run": spec, "torch": torch.__version__, "granted": granted, "free": granted, "total": granted, "fraction": fraction, "requests": w.n, "peak": w.peak,
                       "refused": refused, "text": name + ".txt", "stats": dict(stats)}, file)


def main():
    out, specs = sys.argv[1], sys.argv[2:]
    if specs == ["-"]:
        specs = sys.stdin.read().split()
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "runs.csv"), "w") as file:
        file.write(",".join(("workload", "torch", "bytes", "settings", "first_refused", "placements") + STATS) + "\n")
    os.environ["ECHELON_PRETEND_OUT"] = ""  # no recording: the device is read when a child begins, and PyTorch's own snapshot is what counts
    os.environ["TORCH_CPP_LOG_LEVEL"] = "ERROR"  # a line for each refusal
    import torch
    getattr(torch.cuda, "_queued_calls", []).clear()  # what would record operators, modules and stacks
    failed = 0
    for spec in specs:
        sys.stdout.flush()
        w, granted, ends, settings = parts_of(spec)
        pretend(granted, settings)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                one(out, spec, w, granted, ends, settings, torch)
                code = 0
            except BaseException:
                import traceback
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        if os.waitpid(child, 0)[1]:
            failed += 1
            print("failed: %s" % spec, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
