#!/usr/bin/env python3
"""Writes the importers' fuzz corpora (hand-made, a few events each). usage: make_corpus.py CORPUS_DIR"""
import gzip, json, os, pickle, sqlite3, struct, sys, tempfile

OUT = sys.argv[1]


def put(folder, name, data):
    os.makedirs(os.path.join(OUT, folder), exist_ok=True)
    with open(os.path.join(OUT, folder, name), "wb") as f:
        f.write(data)


# ---- memory snapshots ----
def frame(line, name="f"):
    return {"filename": "/home/me/train.py", "line": line, "name": name}


frames = [frame(7, "forward"), frame(40, "main")]


def block(address, size, requested, state="active_allocated"):
    return {"address": address, "size": size, "requested_size": requested, "state": state, "frames": frames}


def event(action, addr, size, t, stream=0):
    return {"action": action, "addr": addr, "size": size, "stream": stream, "time_us": 1700000000000000 + t, "frames": frames}


A = 0x7F0000000000
snapshot = {
    "segments": [
        {"device": 0, "address": A, "total_size": 2 << 20, "allocated_size": 1536, "active_size": 1536, "requested_size": 1300, "stream": 0, "segment_type": "small",
         "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
         "blocks": [block(A, 512, 300), block(A + 512, 1024, 1000), block(A + 1536, (2 << 20) - 1536, 0, "inactive")]},
        {"device": 0, "address": A + (64 << 20), "total_size": 20 << 20, "allocated_size": 0, "active_size": 0, "requested_size": 0, "stream": 7, "segment_type": "large",
         "segment_pool_id": (0, 1), "is_expandable": False, "frames": [], "blocks": [block(A + (64 << 20), 20 << 20, 0, "inactive")]},
    ],
    "device_traces": [[
        event("free_requested", A + 4096, 77, 0), event("free_completed", A + 4096, 77, 1),
        event("segment_alloc", A + (64 << 20), 20 << 20, 2, 7), event("alloc", A + (64 << 20), 2 << 20, 3, 7), event("alloc", A + 512, 1000, 4),
        event("free_requested", A + (64 << 20), 2 << 20, 5, 7), event("snapshot", 0, 5, 6), event("free_completed", A + (64 << 20), 2 << 20, 7, 7),
        {"action": "oom", "device_free": 99, "size": 1 << 30, "stream": 0, "time_us": 1700000000000009, "frames": []},
    ], []],
    "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False", "garbage_collection_threshold": 0.5, "roundup_power2_divisions": {"1": 0, "2": 4}},
    "external_annotations": [{"stage": "START", "name": "step", "device": 0, "time_us": 1700000000000000}],
}
for protocol in (2, 4, 5):
    put("memory_snapshot", f"small.{protocol}.pickle", pickle.dumps(snapshot, protocol))
old = [{"device": 0, "address": A, "total_size": 1024, "stream": 0, "segment_type": "small",
        "blocks": [{"size": 512, "state": "active_allocated", "history": [{"addr": A, "real_size": 300, "frames": frames}]}, {"size": 512, "state": "inactive"}]}]
put("memory_snapshot", "old_list.pickle", pickle.dumps(old, 4))
put("memory_snapshot", "expandable.pickle", pickle.dumps({"segments": [dict(snapshot["segments"][0], is_expandable=True)], "device_traces": [
    [event("segment_map", A, 2 << 20, 0), event("alloc", A, 300, 1), event("segment_unmap", A + (1 << 20), 1 << 20, 2), event("segment_map", A + (1 << 20), 1 << 20, 3)]]}, 4))
put("memory_snapshot", "global.pickle", b"\x80\x04cos\nsystem\n\x8c\x02ls\x85R.")
put("memory_snapshot", "self.pickle", b"\x80\x04]\x94h\x00a.")

# ---- Kineto ----
def x(cat, name, ts, dur, tid=1, pid=10, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def mem(ts, n, addr, total, device=0, kind=1):
    return {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 10, "tid": 1, "ts": ts,
            "args": {"Bytes": n, "Addr": addr, "Device Type": kind, "Device Id": device, "Total Allocated": total, "Total Reserved": 2 << 20}}


events = [
    x("user_annotation", "ProfilerStep#1", 100, 900), x("python_function", "train.py(3): step", 101, 890), x("cpu_op", "aten::mm", 110, 30, **{
        "External id": 5, "Input Dims": [[64, 128], [128, 32], []], "Input type": ["float", "float", ""]}),
    x("cuda_runtime", "cudaLaunchKernel", 120, 5, correlation=9, **{"External id": 5}),
    x("kernel", "sgemm<float>", 150.123, 20.5, tid=7, pid=0, device=0, stream=7, correlation=9, **{"External id": 5}),
    x("cuda_runtime", "cudaMemcpyAsync", 130, 5, correlation=10),
    x("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 152, 8, tid=8, pid=0, device=0, stream=8, correlation=10, bytes=4096),
    x("cuda_runtime", "cudaEventRecord", 136, 1, correlation=11), x("cuda_runtime", "cudaStreamWaitEvent", 138, 1, correlation=12),
    x("cuda_sync", "Stream Wait Event", 138, 1, tid=7, pid=0, stream=7, device=0, correlation=12, cuda_sync_kind="Stream Wait Event", wait_on_stream=8,
      wait_on_cuda_event_record_corr_id=11, wait_on_cuda_event_id=3),
    x("cuda_sync", "Context Sync", 200, 10, tid=-1, pid=0, stream=-1, device=0, correlation=13, cuda_sync_kind="Context Sync"),
    x("gpu_memset", "Memset (Device)", 180, 1, tid=7, pid=0, device=0, stream=7, correlation=14, bytes=512),
    mem(112, 1024, 4096, 5120), mem(113, -512, 8192, 4608), mem(300, -1024, 4096, 3584), mem(301, 64, 77, 64, -1, 0),
    {"ph": "s", "id": 9, "pid": 10, "tid": 1, "ts": 120, "cat": "ac2g", "name": "ac2g"}, {"ph": "M", "name": "process_name", "pid": 10, "tid": 0, "ts": 0, "args": {"name": "python"}},
]
whole = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA A100", "totalGlobalMem": 42297524224}], "baseTimeNanoseconds": 1700000000000000000, "traceEvents": events, "traceName": "x.json"}
put("kineto", "new.json", json.dumps(whole).encode())
put("kineto", "array.json", json.dumps(events).encode())
ancient = json.dumps({"traceEvents": [dict(events[4], cat="Kernel", tid="stream 7", ts=1600000000000150, dur=20), dict(events[6], cat="Memcpy", ts=1600000000000152, args={"kind": "HtoD"})]})
put("kineto", "old.json", ancient.replace("sgemm<", "a\\xq<").encode())
put("kineto", "cut.json", json.dumps(whole).encode()[:900])
put("kineto", "deep.json", b'{"traceEvents":' + b"[" * 600)

# ---- gzip and sniffing ----
put("source", "trace.json.gz", gzip.compress(json.dumps(whole).encode(), mtime=0))
put("source", "cut.gz", gzip.compress(json.dumps(whole).encode(), mtime=0)[:200])
put("source", "two_members.gz", gzip.compress(b'{"traceEvents":[', mtime=0) + gzip.compress(b"]}", mtime=0))
put("source", "mangled.pb", b"\x0a\x05\x12\x03" + b"\xef\xbf\xbd\x01\x02" * 60)
put("source", "empty", b"")

# ---- Nsight Systems ----
def nsys(name, new):
    path = tempfile.mktemp()
    c = sqlite3.connect(path)
    c.execute("pragma page_size=512")
    c.execute("create table StringIds (id integer not null primary key, value text not null)")
    c.executemany("insert into StringIds values (?,?)", [(1, "cudaLaunchKernel_v7000"), (2, "add(float*)"), (3, "cudaMalloc_v3020"), (4, "cudaDeviceSynchronize_v3020")])
    pid = 77 << 24
    c.execute("create table CUPTI_ACTIVITY_KIND_RUNTIME (start integer, end integer, eventClass integer, globalTid integer, correlationId integer, nameId integer, returnValue integer, callchainId integer)")
    c.executemany("insert into CUPTI_ACTIVITY_KIND_RUNTIME values (?,?,0,?,?,?,0,null)", [(100, 120, pid | 5, 1, 1), (130, 140, pid | 5, 2, 1), (150, 300, pid | 5, 3, 4)])
    c.execute("create table CUPTI_ACTIVITY_KIND_KERNEL (start integer, end integer, deviceId integer, contextId integer, streamId integer, correlationId integer, globalPid integer, demangledName integer)")
    c.execute("insert into CUPTI_ACTIVITY_KIND_KERNEL values (125, 160, 0, 1, 7, 1, ?, 2)", (pid,))
    columns = "start integer, end integer, deviceId integer, contextId integer, streamId integer, correlationId integer, globalPid integer, bytes integer, copyKind integer, srcKind integer, dstKind integer"
    c.execute(f"create table CUPTI_ACTIVITY_KIND_MEMCPY ({columns}{', migrationCause integer, virtualAddress integer' if new else ''})")
    rows = [(140, 180, 0, 1, 13, 2, pid, 4096, 1, 1, 2)]
    if new:
        rows = [r + (None, None) for r in rows] + [(200, 220, 0, 0, 0, 0, pid, 65536, 11, 7, 7, 2, 0x7F0000000000)]
    for r in rows:
        c.execute(f"insert into CUPTI_ACTIVITY_KIND_MEMCPY values ({','.join('?' * len(r))})", r)
    if new:
        c.execute("create table CUDA_GPU_MEMORY_USAGE_EVENTS (start integer, globalPid integer, deviceId integer, contextId integer, address integer, pc integer, bytes integer, memKind integer, memoryOperationType integer, name integer, correlationId integer)")
        c.executemany("insert into CUDA_GPU_MEMORY_USAGE_EVENTS values (?,?,0,1,?,0,?,2,?,null,null)", [(90, pid, 4096, 1 << 20, 0), (310, pid, 4096, 1 << 20, 1), (320, pid, 8192, 512, 1)])
        c.execute("create table CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start integer, end integer, deviceId integer, contextId integer, streamId integer, correlationId integer, globalPid integer, syncType integer, eventId integer, eventSyncId integer)")
        c.executemany("insert into CUPTI_ACTIVITY_KIND_SYNCHRONIZATION values (?,?,0,1,?,?,?,?,?,?)", [(150, 151, 7, 3, pid, 2, 5, 6), (160, 300, 4294967295, 3, pid, 4, 0, 4294967295)])
        c.execute("create table CUPTI_ACTIVITY_KIND_CUDA_EVENT (timestamp integer, deviceId integer, contextId integer, streamId integer, correlationId integer, globalPid integer, eventId integer, eventSyncId integer)")
        c.execute("insert into CUPTI_ACTIVITY_KIND_CUDA_EVENT values (0,0,1,13,2,?,5,6)", (pid,))
        c.execute("create table NVTX_EVENTS (start integer, end integer, eventType integer, text text, globalTid integer)")
        c.execute("insert into NVTX_EVENTS values (95, 330, 59, 'step', ?)", (pid | 5,))
        c.execute("create table META_DATA_EXPORT (name text, value text)")
        c.execute("insert into META_DATA_EXPORT values ('EXPORT_SCHEMA_VERSION', '3.24.0')")
    c.commit()
    c.execute("vacuum")
    c.close()
    put("nsys", name, open(path, "rb").read())
    os.unlink(path)


nsys("new.sqlite", True)
nsys("old.sqlite", False)

# ---- XPlane ----
def varint(v):
    v &= (1 << 64) - 1
    out = b""
    while True:
        out += bytes([v & 127 | (128 if v > 127 else 0)])
        v >>= 7
        if not v:
            return out


def f(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def entry(number, key, message):
    return f(number, f(1, key) + f(2, message))


def ev(meta, offset, duration, stats=b""):
    return f(4, f(1, meta) + f(2, offset) + f(3, duration) + stats)


MS = 10**9
big = "f32[1024,1024]{1,0:T(8,128)}"
texts = {1: f"%copy-start = ({big}, f32[1024,1024]{{1,0:T(8,128)S(5)}}, u32[]{{:S(2)}}) copy-start(f32[1024,1024]{{1,0:T(8,128)S(5)}} %p.0)",
         2: f"%copy-start.1 = ({big}, f32[1024,1024]{{1,0:T(8,128)S(5)}}, u32[]{{:S(2)}}) copy-start(f32[1024,1024]{{1,0:T(8,128)S(5)}} %p.1)",
         3: f"%copy-done = {big} copy-done(({big}, f32[1024,1024]{{1,0:T(8,128)S(5)}}, u32[]{{:S(2)}}) %copy-start)",
         4: f"%copy-done.1 = {big} copy-done(({big}, f32[1024,1024]{{1,0:T(8,128)S(5)}}, u32[]{{:S(2)}}) %copy-start.1)",
         5: f"%fusion = {big} fusion({big} %copy-done), kind=kLoop, calls=%c",
         6: f"%all-reduce = {big} all-reduce({big} %fusion), channel_id=1, replica_groups=[4,2]<=[8]",
         7: f"%slice-start = (({big}), f32[256,1024]{{1,0:T(8,128)S(1)}}, s32[]{{:S(2)}}) async-start({big} %b), calls=%a",
         8: f"%slice-done = f32[256,1024]{{1,0:T(8,128)S(1)}} async-done((({big}), f32[256,1024]{{1,0:T(8,128)S(1)}}, s32[]{{:S(2)}}) %slice-start)", 9: "jit_f(1)"}
ops = ev(1, 0, 1000) + ev(2, 1000, 1000) + ev(3, 2000, 10 * MS) + ev(5, 10 * MS + 2000, 2 * MS) + ev(7, 12 * MS + 2000, 5) + ev(4, 12 * MS + 3000, 8 * MS) + ev(6, 21 * MS, MS, f(4, f(1, 3) + f(3, MS - 7))) + ev(
    8, 23 * MS, 5)
tpu = f(1, 1) + f(2, "/device:TPU:0") + f(3, f(2, "XLA Ops") + f(3, 5) + ops) + f(3, f(2, "XLA Modules") + f(3, 5) + ev(9, 0, 24 * MS))
for i, text in texts.items():
    stats = f(5, f(1, 1) + f(4, 8 << 20)) + f(5, f(1, 2) + f(5, "loop fusion")) + (f(5, f(1, 4) + f(6, f(1, f(1, 1) + f(2, 1) + f(3, 4 << 20)) + f(1, f(1, 2) + f(2, 1) + f(3, 4 << 20)))) if i == 5 else b"")
    tpu += entry(4, i, f(1, i) + f(2, text) + stats)
for i, name in {1: "bytes_accessed", 2: "hlo_category", 3: "device_duration_ps", 4: "memory_access_breakdown", 5: "device_type_string"}.items():
    tpu += entry(5, i, f(1, i) + f(2, name))
tpu += f(6, f(1, 5) + f(5, "TPU v6 Lite"))
names = {1: "addr", 2: "requested_bytes", 3: "allocation_bytes", 4: "bytes_allocated", 5: "allocator_name", 6: "correlation_id", 7: "memcpy_details"}
host = f(2, "/host:CPU") + f(3, f(2, "main/1") + f(3, 5) + ev(1, 50, 0, f(4, f(1, 1) + f(3, 4096)) + f(4, f(1, 2) + f(4, 100)) + f(4, f(1, 3) + f(4, 256)) + f(4, f(1, 4) + f(4, 1256)))
                                + ev(2, 90, 0, f(4, f(1, 1) + f(3, 4096))) + ev(3, 10, 5, f(4, f(1, 6) + f(3, 1))))
for i, name in {1: "MemoryAllocation", 2: "MemoryDeallocation", 3: "cuLaunch"}.items():
    host += entry(4, i, f(1, i) + f(2, name))
gpu = f(2, "/device:GPU:0") + f(3, f(1, 7) + f(2, "Stream #7(MemcpyH2D)") + f(3, 5) + ev(1, 100, 50, f(4, f(1, 6) + f(3, 1)) + f(4, f(1, 7) + f(5, "kind_src:host kind_dst:device size:512 dest:0 async:1"))) + ev(2, 200, 9))
gpu += entry(4, 1, f(2, "MemcpyH2D")) + entry(4, 2, f(2, "loop_fusion"))
for i, name in names.items():
    host += entry(5, i, f(1, i) + f(2, name))
    gpu += entry(5, i, f(1, i) + f(2, name))
put("xplane", "tpu.pb", f(1, tpu) + f(1, host) + f(4, "host"))
put("xplane", "gpu.pb", f(1, gpu) + f(1, host))
put("xplane", "cut.pb", (f(1, tpu) + f(1, host))[:700])

# ---- the JSON twin ----
def twin(pid, tid, name, ts, dur, **args):
    return {"ph": "X", "pid": pid, "tid": tid, "ts": ts, "dur": dur, "name": name, "args": args}


def named(kind, pid, name, tid=0):
    return {"ph": "M", "pid": pid, "tid": tid, "name": kind, "args": {"name": name}}


rows = [named("process_name", 3, "/device:TPU:0"), named("thread_name", 3, "XLA Modules", 2), named("thread_name", 3, "XLA Ops", 3), named("process_name", 4, "/device:GPU:1"),
        named("thread_name", 4, "Stream #7(MemcpyH2D)", 7), named("process_name", 701, "/host:CPU"), twin(3, 2, "jit_f(1)", 10.000001, 24000.5, device_duration_ps="24000500000")]
for i, (start, duration) in {1: (10.000001, 1e-06), 3: (10.1, 9000.25), 5: (9020, 2000), 7: (11030, 0.005), 8: (12000, 0.002), 6: (13000, 1000)}.items():
    rows.append(twin(3, 3, texts[i].split(" ")[0][1:], start, duration, long_name=texts[i], bytes_accessed="8388608", hlo_category="loop fusion", model_flops="1048576", tf_op="jit(f)/add:"))
rows += [twin(4, 7, "MemcpyH2D", 5.5, 3, memcpy_details="kind_src:host kind_dst:device size:512 dest:0 async:1"), twin(701, 9, "PjitFunction", 1, 2), {}]
put("xplane_json", "tpu.json", json.dumps({"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": rows}).encode())
