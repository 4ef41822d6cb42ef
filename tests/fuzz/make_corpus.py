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
put("memory_snapshot", "emptied.pickle", pickle.dumps({"segments": [dict(snapshot["segments"][0], device=2)], "device_traces": [
    [event("snapshot", 0, 5, 9)],
    [event("segment_alloc", A, 2 << 20, 0), event("alloc", A, 300, 1), event("free_requested", A, 300, 2), event("free_completed", A, 300, 3),
     event("segment_free", A, 2 << 20, 4)], []]}, 4))
# Two devices at work at once: between a free and its completion the other allocates.
put("memory_snapshot", "interleaved.pickle", pickle.dumps({"segments": [], "device_traces": [
    [event("segment_alloc", A, 2 << 20, 0), event("alloc", A, 300, 1), event("free_requested", A, 300, 5), event("free_completed", A, 300, 7)],
    [event("segment_alloc", A, 2 << 20, 0), event("alloc", A, 300, 6)]]}, 4))
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
        c.execute("insert into CUDA_GPU_MEMORY_USAGE_EVENTS values (80,?,0,1,12288,0,65536,4,0,null,null)", (pid,))
        c.execute("create table CUDA_UM_GPU_PAGE_FAULT_EVENTS (start integer, end integer, globalPid integer, deviceId integer, address integer, numberOfPageFaults integer, faultAccessType integer)")
        c.executemany("insert into CUDA_UM_GPU_PAGE_FAULT_EVENTS values (?,?,?,0,12288,?,1)", [(130, 140, pid, 2), (141, 150, pid, 3)])
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


# Two processes on one device, with the same addresses and events: one waits for all of its own work while the other goes on, with a stream that waits for another.
def processes(name):
    path = tempfile.mktemp()
    c = sqlite3.connect(path)
    c.execute("pragma page_size=512")
    c.execute("create table StringIds (id integer not null primary key, value text not null)")
    c.executemany("insert into StringIds values (?,?)", [(1, "one"), (2, "two")])
    c.execute("create table CUPTI_ACTIVITY_KIND_KERNEL (start integer, end integer, deviceId integer, contextId integer, streamId integer, correlationId integer, globalPid integer, demangledName integer)")
    a, b = 77 << 24, 78 << 24
    c.executemany("insert into CUPTI_ACTIVITY_KIND_KERNEL values (?,?,0,1,7,?,?,?)", [(100, 200, 1, a, 1), (110, 900, 1, b, 2), (300, 400, 3, a, 1), (950, 960, 3, b, 2)])
    c.execute("create table CUPTI_ACTIVITY_KIND_CUDA_EVENT (timestamp integer, deviceId integer, contextId integer, streamId integer, correlationId integer, globalPid integer, eventId integer, eventSyncId integer)")
    c.executemany("insert into CUPTI_ACTIVITY_KIND_CUDA_EVENT values (0,0,1,7,2,?,5,6)", [(a,), (b,)])
    c.execute("create table CUDA_GPU_MEMORY_USAGE_EVENTS (start integer, globalPid integer, deviceId integer, contextId integer, address integer, pc integer, bytes integer, memKind integer, memoryOperationType integer, name integer, correlationId integer)")
    c.executemany("insert into CUDA_GPU_MEMORY_USAGE_EVENTS values (?,?,0,1,4096,0,?,2,?,null,null)", [(10, a, 1 << 20, 0), (20, b, 1 << 21, 0), (500, a, 1 << 20, 1), (990, b, 1 << 21, 1)])
    c.execute("create table CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start integer, end integer, deviceId integer, contextId integer, streamId integer, correlationId integer, globalPid integer, syncType integer, eventId integer, eventSyncId integer)")
    c.execute("insert into CUPTI_ACTIVITY_KIND_SYNCHRONIZATION values (150, 210, 0, 1, 4294967295, 2, ?, 4, 0, 4294967295)", (a,))
    c.execute("insert into CUPTI_ACTIVITY_KIND_SYNCHRONIZATION values (920, 921, 0, 1, 9, 4, ?, 2, 5, 6)", (b,))
    c.commit()
    c.execute("vacuum")
    c.close()
    put("nsys", name, open(path, "rb").read())
    os.unlink(path)


processes("processes.sqlite")


# Two processes that see one GPU each, the second and third of the machine, of another kind than the first. Nothing but calls tells waits.
def gpus(name):
    path = tempfile.mktemp()
    c = sqlite3.connect(path)
    c.execute("pragma page_size=512")
    c.execute("create table StringIds (id integer not null primary key, value text not null)")
    c.executemany("insert into StringIds values (?,?)", [(1, "one"), (2, "two"), (3, "cudaLaunchKernel_v7000"), (4, "cudaDeviceSynchronize_v3020")])
    a, b = 77 << 24, 78 << 24
    c.execute("create table TARGET_INFO_GPU (id integer, name text)")
    c.executemany("insert into TARGET_INFO_GPU values (?,?)", [(0, "NVIDIA L4"), (1, "NVIDIA H100 80GB HBM3"), (2, "NVIDIA H100 80GB HBM3")])
    c.execute("create table TARGET_INFO_CUDA_DEVICE (gpuId integer, cudaId integer, pid integer)")
    c.executemany("insert into TARGET_INFO_CUDA_DEVICE values (?,0,?)", [(1, 77), (2, 78)])
    c.execute("create table CUPTI_ACTIVITY_KIND_RUNTIME (start integer, end integer, eventClass integer, globalTid integer, correlationId integer, nameId integer, returnValue integer, callchainId integer)")
    for process in (a, b):
        c.executemany("insert into CUPTI_ACTIVITY_KIND_RUNTIME values (?,?,0,?,?,?,0,null)",
                      [(90, 95, process | 5, 1, 3), (96, 210, process | 5, 2, 4), (290, 295, process | 5, 3, 3)])
    c.execute("create table CUPTI_ACTIVITY_KIND_KERNEL (start integer, end integer, deviceId integer, contextId integer, streamId integer, correlationId integer, globalPid integer, demangledName integer)")
    c.executemany("insert into CUPTI_ACTIVITY_KIND_KERNEL values (?,?,0,1,?,?,?,?)",
                  [(100, 200, 7, 1, a, 1), (300, 400, 13, 3, a, 1), (110, 190, 7, 1, b, 2), (310, 400, 13, 3, b, 2)])
    c.execute("create table CUDA_GPU_MEMORY_USAGE_EVENTS (start integer, globalPid integer, deviceId integer, contextId integer, address integer, pc integer, bytes integer, memKind integer, memoryOperationType integer, name integer, correlationId integer)")
    c.executemany("insert into CUDA_GPU_MEMORY_USAGE_EVENTS values (?,?,0,1,4096,0,?,2,0,null,null)", [(10, a, 1 << 20), (20, b, 1 << 21)])
    c.commit()
    c.execute("vacuum")
    c.close()
    put("nsys", name, open(path, "rb").read())
    os.unlink(path)


gpus("gpus.sqlite")

# ---- rocprofv3 ----
def rocpd(schema, runs=("0000450_565d",)):
    path = tempfile.mktemp()
    c = sqlite3.connect(path)
    c.execute("pragma page_size=512")
    for run in runs:
        t = lambda name: f'"rocpd_{name}_{run}"'
        def table(name, columns, rows):
            c.execute(f"create table {t(name)} ({columns})")
            for row in rows:
                c.execute(f"insert into {t(name)} values ({','.join('?' * len(row))})", row)
        table("string", "id integer primary key, guid text, string text", [(1, "g", "HIP_RUNTIME_API"), (2, "g", "hipLaunchKernel"), (3, "g", "hipDeviceSynchronize"), (4, "g", "MARKER_CORE_API"), (5, "g", "roctxRangePushA"), (6, "g", "hipMemcpyWithStream"), (7, "g", "hipMalloc"), (8, "g", "MEMORY_COPY_HOST_TO_DEVICE")])
        table("info_agent", "id integer primary key, nid integer, pid integer, type text, absolute_index integer, name text, product_name text", [(0, 1, 1, "CPU", 0, "AMD EPYC", "AMD EPYC"), (1, 1, 1, "GPU", 1, "gfx942", "AMD Instinct MI300X"), (2, 1, 1, "GPU", 2, "gfx942", "AMD Instinct MI300X")])
        table("info_kernel_symbol", "id integer primary key, kernel_name text, display_name text, arch_vgpr_count integer", [(1, "_Z3addPf.kd", "add(float*)", 8), (2, "Cijk_Ailk_Bljk_BBS.kd", "", 128)])
        table("event", "id integer primary key, category_id integer, stack_id integer, extdata text", [(1, 1, 11, "{}"), (2, 1, 12, "{}"), (3, 1, 13, "{}"), (4, 4, 14, '{"message": "step"}'), (5, 1, 15, "{}"), (6, 1, 16, "{}"), (7, None, 11, "{}"), (8, None, 12, "{}"), (9, None, 15, "{}"), (10, None, 16, "{}")])
        new = schema > 3
        stamps, tracks = [], []
        def at(start, end, tid, agent=None, queue=None, stream=None):
            if not new:
                return (start, end, tid)
            stamps.extend([(len(stamps) + 1, start), (len(stamps) + 2, end)])
            tracks.append((len(tracks) + 1, tid, agent, queue, stream))
            return (len(stamps) - 1, len(stamps), len(tracks))
        place = "start_id integer, end_id integer, track_id integer" if new else '"start" bigint, "end" bigint, tid integer'
        table("region", f"id integer primary key, {place}, name_id integer, event_id integer", [(i + 1, *at(s, e, 5), n, v) for i, (s, e, n, v) in enumerate([(90, 100, 7, 6), (100, 120, 2, 1), (130, 140, 6, 5), (145, 150, 2, 2), (150, 300, 3, 3), (80, 310, 5, 4)])])
        more = "" if new else ", agent_id integer, queue_id integer, stream_id integer"
        sizes = ", ".join(f"{w}_size_{d} integer" for w in ("workgroup", "grid") for d in "xyz")
        kernels = [(1, (125, 160), (1, 3, 1), 1, 7, (256, 1, 1, 1000, 1, 1)), (2, (170, 290), (1, 4, 2), 2, 8, (256, 1, 1, 1024, 4, 1))]
        table("kernel_dispatch", f"id integer primary key, {place}{more}, kernel_id integer, dispatch_id integer, group_segment_size integer, event_id integer, {sizes}", [(i, *(at(*when, 5, *where)), *(() if new else where), k, i, 64, v, *s) for i, when, where, k, v, s in kernels])
        table("memory_copy", f"id integer primary key, {place}, name_id integer, dst_agent_id integer, src_agent_id integer, size integer, event_id integer{'' if new else ', queue_id integer, stream_id integer'}", [(1, *at(140, 165, 5, 1, None, 1), 8, 1, 0, 4096, 9, *(() if new else (None, 1))), (2, *at(300, 320, 5, 2, None, 1), 8, 2, 1, 8192, None, *(() if new else (None, 1)))])
        table("memory_allocate", f"id integer primary key, {place}, type text, level text, address integer, size integer, event_id integer{'' if new else ', agent_id integer'}", [(i, *at(s, e, 5, a), k, l, address, n, 10, *(() if new else (a,))) for i, s, e, a, k, l, address, n in [(1, 91, 99, 1, "ALLOC", "REAL", 0x7F0000000000, 1 << 20), (2, 92, 99, 0, "ALLOC", "REAL", 0x7E0000000000, 4096), (3, 93, 99, 1, "ALLOC", "SCRATCH", 1, 64), (4, 305, 306, None, "FREE", "REAL", 0x7F0000000000, 0), (5, 307, 308, None, "FREE", "REAL", 77, 0)]])
        if new:
            table("timestamp", "id integer primary key, value bigint", stamps)
            table("track", "id integer primary key, tid integer, agent_id integer, queue_id integer, stream_id integer", tracks)
    c.execute(f'create view rocpd_string as select * from "rocpd_string_{runs[0]}"')
    c.commit()
    c.execute("vacuum")
    c.close()
    data = open(path, "rb").read()
    os.unlink(path)
    return data


put("rocpd", "schema3.db", rocpd(3))
put("rocpd", "schema4.db", rocpd(4))
put("rocpd", "merged.db", rocpd(3, ("a", "b")))

# The same run as JSON and as tables.
ROC_GPU = "AMD Instinct MI300X"
roc_calls = [("hipMalloc", 90, 100, 16), ("hipLaunchKernel", 100, 120, 11), ("hipMemcpyWithStream", 130, 140, 15), ("hipLaunchKernel", 145, 150, 12), ("hipDeviceSynchronize", 150, 300, 13)]
roc_kernels = [(125, 160, 1, 3, 1, "add(float*)", "_Z3addPf.kd", 11, (256, 1, 1), (1000, 1, 1)), (170, 290, 1, 4, 2, "", "Cijk_Ailk_Bljk_BBS.kd", 12, (256, 1, 1), (1024, 4, 1))]
roc_copies = [(140, 165, 0, 1, 1, 4096, 15, 2), (300, 320, 1, 2, 1, 8192, 0, 4)]
roc_memory = [(91, 99, 1, 1, 0x7F0000000000, 1 << 20), (92, 99, 1, 0, 0x7E0000000000, 4096), (305, 306, 3, None, 0x7F0000000000, 0), (307, 308, 3, None, 77, 0)]
roc_operations = ["hipMalloc", "hipLaunchKernel", "hipMemcpyWithStream", "hipDeviceSynchronize"]
roc_kinds = [("NONE", []), ("HIP_RUNTIME_API", roc_operations), ("MARKER_CORE_API", ["roctxMarkA", "roctxRangePushA"]), ("MEMORY_COPY", []), ("MEMORY_ALLOCATION", ["NONE", "MEMORY_ALLOCATION_ALLOCATE", "MEMORY_ALLOCATION_VMEM_ALLOCATE", "MEMORY_ALLOCATION_FREE"])]


def roc_record(kind, operation, start, end, call, **more):
    return {"size": 64, "kind": kind, "operation": operation, "thread_id": 5, "correlation_id": {"internal": call, "external": 0}, "start_timestamp": start, "end_timestamp": end, **more}


handle = lambda n: {"handle": n}
xyz = lambda sizes: dict(zip("xyz", sizes))
roc_json = {
    "metadata": {"pid": 5, "init_time": 80, "fini_time": 320},
    "agents": [{"size": 312, "id": handle(100 + i), "type": 2 if i else 1, "sdma_fw_version": {"uCodeSDMA": 0}, "name": "gfx942" if i else "AMD EPYC", "product_name": ROC_GPU if i else "AMD EPYC"} for i in range(3)],
    "strings": {"callback_records": [], "buffer_records": [{"kind": k, "operations": o} for k, o in roc_kinds], "marker_api": [{"key": 14, "value": "step"}]},
    "kernel_symbols": [{"kernel_id": i + 1, "kernel_name": k[6], "formatted_kernel_name": k[5]} for i, k in enumerate(roc_kernels)],
    "buffer_records": {
        "kernel_dispatch": [roc_record(5, 2, k[0], k[1], k[7], dispatch_info={"size": 72, "agent_id": handle(100 + k[2]), "queue_id": handle(k[3]), "kernel_id": i + 1, "dispatch_id": i, "group_segment_size": 64, "workgroup_size": xyz(k[8]), "grid_size": xyz(k[9])}, stream_id=handle(k[4])) for i, k in enumerate(roc_kernels)],
        "hip_api": [roc_record(1, roc_operations.index(name), s, e, call, args={"ptr": "0x0"}) for name, s, e, call in roc_calls],
        "marker_api": [roc_record(2, 1, 80, 310, 14)],
        "memory_copy": [roc_record(3, o, s, e, call, src_agent_id=handle(100 + a), dst_agent_id=handle(100 + b), bytes=n, stream_id=handle(q)) for s, e, a, b, q, n, call, o in roc_copies],
        "memory_allocation": [roc_record(4, o, s, e, 16, agent_id=handle(0 if a is None else 100 + a), address="0x%016x" % address, allocation_size=n) for s, e, o, a, address, n in roc_memory],
        "scratch_memory": [roc_record(6, 1, 93, 99, 16)],
    },
}
put("rocprof_json", "run.json", json.dumps({"rocprofiler-sdk-tool": [roc_json]}).encode())
put("rocprof_json", "processes.json", json.dumps({"rocprofiler-sdk-tool": [roc_json, roc_json]}).encode())


def roc_table(name, columns, rows):
    quote = lambda v: '"' + v + '"' if isinstance(v, str) else str(v)
    put("rocprof_csv", name, "".join(",".join(map(quote, row)) + "\n" for row in [columns.split(","), *rows]).encode())


roc_direction = ["", "MEMORY_COPY_HOST_TO_HOST", "MEMORY_COPY_HOST_TO_DEVICE", "MEMORY_COPY_DEVICE_TO_HOST", "MEMORY_COPY_DEVICE_TO_DEVICE"]
roc_table("run_kernel_trace.csv", "Kind,Agent_Id,Queue_Id,Stream_Id,Thread_Id,Dispatch_Id,Kernel_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp,LDS_Block_Size,Scratch_Size,Workgroup_Size_X,Workgroup_Size_Y,Workgroup_Size_Z,Grid_Size_X,Grid_Size_Y,Grid_Size_Z",
          [("KERNEL_DISPATCH", f"Agent {k[2]}", k[3], k[4], 5, i, i, k[5] or k[6], k[7], k[0], k[1], 64, 0, *k[8], *k[9]) for i, k in enumerate(roc_kernels)])
roc_table("run_memory_copy_trace.csv", "Kind,Direction,Stream_Id,Source_Agent_Id,Destination_Agent_Id,Correlation_Id,Start_Timestamp,End_Timestamp",
          [("MEMORY_COPY", roc_direction[o], q, f"Agent {a}", f"Agent {b}", call, s, e) for s, e, a, b, q, n, call, o in roc_copies])
roc_table("run_memory_allocation_trace.csv", "Kind,Operation,Agent_Id,Allocation_Size,Address,Correlation_Id,Start_Timestamp,End_Timestamp",
          [("MEMORY_ALLOCATION", roc_kinds[4][1][o], "" if a is None else f"Agent {a}", n, "0x%016x" % address, 16, s, e) for s, e, o, a, address, n in roc_memory])
roc_table("run_hip_api_trace.csv", "Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp", [("HIP_RUNTIME_API", name, 5, 5, call, s, e) for name, s, e, call in roc_calls])
roc_table("run_marker_api_trace.csv", "Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp", [("MARKER_CORE_API", "step", 5, 5, 14, 80, 310)])
roc_table("run_agent_info.csv", "Node_Id,Logical_Node_Id,Agent_Type,Product_Name", [(i, i, "GPU" if i else "CPU", ROC_GPU if i else "AMD EPYC") for i in range(3)])
roc_table("typed.csv", "Guid,Kind,Direction,Stream_Id,Source_Agent_Id,Destination_Agent_Id,Correlation_Id,Start_Timestamp,End_Timestamp",
          [(g, "MEMORY_COPY", roc_direction[o], q, a, b, 1, 100, 200) for g, o, q, a, b in [("x", 2, 1, "CPU 0", "GPU 0"), ("x", 4, 1, "GPU 1", "GPU 0"), ("y", 3, 1, "GPU 1", "CPU 1")]])
put("rocprof_csv", "results.csv", b'"Index","KernelName","gpu-id","queue-id","queue-index","pid","tid","grd","wgr","lds","scr","DispatchNs","BeginNs","EndNs","CompleteNs","DurationNs"\n'
    b'0,"void f<int>(int, char const*) [clone .kd]",1,0,0,7,7,65536,256,1024,0,90,8819330200000100,8819330200000350,360,250\n1,"say ""hi"", \nthere",2,0,2,7,7,64,64,0,0,400,8819330200000500,8819330200000510,520,10\n2,"cut')

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


def allocated(offset, address, given, in_use):
    return ev(1, offset, 0, f(4, f(1, 1) + f(3, address)) + f(4, f(1, 3) + f(4, given)) + f(4, f(1, 4) + f(4, in_use)))


# Of two threads that allocate, the one whose line comes later in the file began: 1,000 bytes were in use before it.
threads = f(2, "/host:CPU") + f(3, f(1, 2) + f(2, "second") + f(3, 5) + allocated(80, 8192, 512, 1768)) + f(3, f(1, 1) + f(2, "first") + f(3, 5) + allocated(50, 4096, 256, 1256))
for i, name in names.items():
    threads += entry(5, i, f(1, i) + f(2, name))
put("xplane", "threads.pb", f(1, threads + entry(4, 1, f(1, 1) + f(2, "MemoryAllocation"))))
# A GPU's profile with its program: two streams, a fusion, an all-reduce over four of eight by NCCL. Field numbers of HLO: openxla/xla xla/service/hlo.proto.
def packed(*values):
    return b"".join(varint(v) for v in values)


F32 = f(2, 11) + f(3, packed(1024, 1024)) + f(5, f(1, packed(1, 0)))
SCALAR = f(2, 11)


def instruction(id, name, opcode, shape, operands=(), more=b""):
    return f(2, f(1, name) + f(2, opcode) + f(3, shape) + f(35, id) + (f(36, packed(*operands)) if operands else b"") + more)


def computation(id, name, root, parameters, result, *instructions):
    return f(3, f(1, name) + b"".join(instructions) + f(4, b"".join(f(1, p) for p in parameters) + f(2, result)) + f(5, id) + f(6, root))


add = computation(1, "add", 3, [SCALAR, SCALAR], SCALAR, instruction(1, "a", "parameter", SCALAR), instruction(2, "b", "parameter", SCALAR, (), f(9, 1)),
                  instruction(3, "s", "add", SCALAR, (1, 2)))
fused = computation(2, "fused", 5, [F32], F32, instruction(4, "x", "parameter", F32), instruction(5, "y", "add", F32, (4, 4)))
main = computation(3, "main", 9, [F32], F32, instruction(6, "p", "parameter", F32), instruction(7, "loop_add_fusion", "fusion", F32, (6,), f(11, "kLoop") + f(38, packed(2))),
                   instruction(8, "all-reduce-start.1", "all-reduce-start", F32, (7,), f(26, 1) + f(38, packed(1)) + f(49, f(1, packed(0, 2, 4, 6))) + f(49, f(1, packed(1, 3, 5, 7)))),
                   instruction(9, "all-reduce-done.1", "all-reduce-done", F32, (8,)))
program = f(1, f(1, "jit_f") + f(2, "main") + add + fused + main + f(4, f(1, F32) + f(2, F32)) + f(5, 17) + f(6, 3) + f(7, f(1, f(1, 3) + f(2, f(1, packed(6, 7, 8, 9))))))
metadata = f(2, "/host:metadata") + entry(5, 1, f(1, 1) + f(2, "Hlo Proto")) + entry(4, 17, f(1, 17) + f(2, "jit_f(17)") + f(5, f(1, 1) + f(6, program)))


def launched(meta, offset, duration, op, details=""):
    stats = f(4, f(1, 1) + f(5, op)) + f(4, f(1, 2) + f(3, 17))
    return ev(meta, offset, duration, stats + (f(4, f(1, 3) + f(5, details)) if details else b""))


US = 10**6
busy = f(2, "/device:GPU:0") + f(3, f(1, 7) + f(2, "Stream #7(Kernel)") + f(3, 5)
                                 + launched(1, 0, 10 * US, "loop_add_fusion", "regs:16 static_shared:0 dynamic_shared:0 grid:1024,1,1 block:256,1,1 occ_pct:100")
                                 + launched(1, 60 * US, 10 * US, "loop_add_fusion") + ev(3, 80 * US, US))
busy += f(3, f(1, 8) + f(2, "Stream #8(Kernel)") + f(3, 5) + launched(2, 12 * US, 40 * US, "all-reduce-start.1"))
for i, name in {1: "loop_add_fusion", 2: "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 3: "other"}.items():
    busy += entry(4, i, f(1, i) + f(2, name))
for i, name in {1: "hlo_op", 2: "program_id", 3: "kernel_details"}.items():
    busy += entry(5, i, f(1, i) + f(2, name))
put("hlo_proto", "all_reduce.pb", program)
put("xplane", "gpu_program.pb", f(1, busy) + f(1, metadata))
# Its kernels in a CUDA graph, of which only the graph is told: by name (two instructions of one kernel), by what stands between, a copy of the driver's by its size.
def kernel_of(id, name, operand, more=b""):
    return instruction(id, name, "fusion", F32, (operand,), f(11, "kLoop") + f(38, packed(2)) + more)


def product(id, name, lhs, rhs):
    return instruction(id, name, "custom-call", F32, (lhs, rhs), f(28, "__cublas$gemm"))


graph = computation(3, "main", 15, [F32], F32, instruction(6, "p", "parameter", F32), kernel_of(7, "loop_add_fusion.1", 6), product(8, "custom-call.1", 7, 7), kernel_of(9, "loop_negate_fusion", 8),
                    instruction(10, "copy.1", "copy", F32, (9,)), kernel_of(11, "loop_add_fusion.2", 10, f(7, f(12, "loop_add_fusion.1"))), product(12, "custom-call.2", 11, 11),
                    product(13, "custom-call.3", 12, 6), kernel_of(14, "loop_negate_fusion.2", 13), kernel_of(15, "loop_negate_fusion_2", 14))
graph = f(1, f(1, "jit_g") + f(2, "main") + add + fused + graph + f(4, f(1, F32) + f(2, F32)) + f(5, 21) + f(6, 3) + f(7, f(1, f(1, 3) + f(2, f(1, packed(*range(6, 16)))))))
graphs = f(2, "/host:metadata") + entry(5, 1, f(1, 1) + f(2, "Hlo Proto")) + entry(5, 2, f(1, 2) + f(2, "program_id"))
graphs += entry(4, 1, f(1, 1) + f(2, "jit_g(21)") + f(5, f(1, 1) + f(6, graph)) + f(5, f(1, 2) + f(3, 21)))
kernels = ["loop_add_fusion_1", "nvjet_a", "loop_negate_fusion", "memcpy128", "nvjet_b", "nvjet_c", "loop_negate_fusion_2", "memcpy32", "reduce_b"]
order = [1, 2, 3, 4, 1, 5, 6, 7, 8, 9, 1]
inside = b""
for n, kernel in enumerate(order):
    stats = f(4, f(1, 1) + f(5, "command_buffer_1")) + f(4, f(1, 2) + f(3, 21)) + f(4, f(1, 4) + f(3, 9)) + f(4, f(1, 5) + f(3, 3))
    inside += ev(kernel, n * 10 * US, US, stats + f(4, f(1, 3) + f(5, "regs:16 static_shared:0 dynamic_shared:0 grid:1024,1,1 block:256,1,1 occ_pct:100")))
graphed = f(2, "/device:GPU:0") + f(3, f(1, 7) + f(2, "Stream #7(Kernel)") + f(3, 5) + inside)
for i, name in enumerate(kernels, 1):
    graphed += entry(4, i, f(1, i) + f(2, name))
for i, name in {1: "hlo_op", 2: "program_id", 3: "kernel_details", 4: "correlation_id", 5: "cuda_graph_id"}.items():
    graphed += entry(5, i, f(1, i) + f(2, name))
put("xplane", "gpu_graph.pb", f(1, graphs) + f(1, graphed))
# Two programs of one module, which is no program: stored once, referred to by both.
shared = f(2, "/host:metadata") + entry(5, 1, f(1, 1) + f(2, "Hlo Proto")) + entry(5, 2, f(1, 2) + f(2, b"\xff\xff\xff\xff"))
for i in (17, 18):
    shared += entry(4, i, f(1, i) + f(2, f"jit_{i}") + f(5, f(1, 1) + f(7, 2)))
two = f(2, "/device:GPU:0") + entry(4, 1, f(1, 1) + f(2, "kernel")) + entry(5, 1, f(1, 1) + f(2, "hlo_op")) + entry(5, 2, f(1, 2) + f(2, "program_id"))
two += f(3, f(1, 7) + f(2, "Stream #7(Kernel)") + f(3, 5) + b"".join(ev(1, n * US, US, f(4, f(1, 1) + f(5, "k")) + f(4, f(1, 2) + f(3, i))) for n, i in enumerate((17, 18))))
put("xplane", "shared_program.pb", f(1, two) + f(1, shared))

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
# The twin of a GPU's profile: who asked for what when, and a launch.
gpu_rows = [{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}}, {"ph": "M", "pid": 2, "name": "process_name", "args": {"name": "/host:CPU"}},
            {"ph": "M", "pid": 1, "tid": 7, "name": "thread_name", "args": {"name": "Stream #7(Kernel)"}},
            {"ph": "M", "pid": 1, "tid": 8, "name": "thread_name", "args": {"name": "Stream #8(Kernel)"}}, {"ph": "M", "pid": 2, "tid": 1, "name": "thread_name", "args": {"name": "python"}},
            {"ph": "X", "pid": 1, "tid": 7, "ts": 20, "dur": 30, "name": "a", "args": {"correlation_id": "1", "kernel_details": "regs:16 static_shared:0 dynamic_shared:64 grid:8,1,1 block:256,1,1 occ_pct:100"}},
            {"ph": "X", "pid": 1, "tid": 8, "ts": 60, "dur": 10, "name": "b", "args": {"correlation_id": "2"}}, {"ph": "X", "pid": 1, "tid": 7, "ts": 75, "dur": 10, "name": "c", "args": {"correlation_id": "3"}},
            {"ph": "X", "pid": 2, "tid": 1, "ts": 10, "dur": 1, "name": "cuLaunchKernel", "args": {"correlation_id": "1"}},
            {"ph": "X", "pid": 2, "tid": 1, "ts": 12, "dur": 1, "name": "cuLaunchKernel", "args": {"correlation_id": "2"}},
            {"ph": "X", "pid": 2, "tid": 1, "ts": 72, "dur": 1, "name": "cuLaunchKernel", "args": {"correlation_id": "3"}}]
put("xplane_json", "gpu.json", json.dumps({"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": gpu_rows}).encode())

# ---- SCALE-Sim ----
put("scalesim", "conv.csv", b"Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides, Batch Size,\n\nStem,\nConv1 ,8,8,3,3,3,16,1,1,\n"
    b"Same,6,6,1,1,16,8,1, ,\n,,,,,,,,\nDP_conv,6,6,3,3,8,1,2,2,,,7\nSmall,2,2,3,3,8,1,1,\nshort,1,2\n")
put("scalesim", "gemm.csv", b"\xef\xbb\xbfLayer,M,N,K,\r\nqkv,128,192,64,\r\nout,128,64,192,\r\n")
put("scalesim", "bad.csv", b"Layer,M,N,K,\na,1,2,3,\nb,1,2e9,3\n")
put("scalesim", "huge.csv", b"Layer,M,N,K,\na,1099511627776,1099511627776,1099511627776,\n")

# ---- PyTorch's raw memory timeline ----
T = 1696966047395848161
timeline = [[-1, 1, 1024, 0], [-1, 1, 1024, 0], [-1, 1, 512, 7], [T, 2, 4096, 7], [T + 1000, 3, -4096, 7], [T + 1000, 3, 4096, 4], [T + 2000, 4, -4096, 4], [T + 3000, 4, -1024, 0], [T + 4000, 2, 64, 5]]
put("memory_timeline", "small.json", json.dumps(timeline).encode())
put("memory_timeline", "odd.json", json.dumps([[5, 2, 10, 99], [6, 4, -11, 1], [4, 2, 3, 1], [7, 9, 1, 1], [8, 3, -77, 2], [8, 3, 77, 3]]).encode())
put("memory_timeline", "cut.json", b"[[-1, 1, 5, 0], [1, 2")


# ---- pprof ----
def varint(x):
    x &= (1 << 64) - 1
    out = b""
    while x > 127:
        out += bytes([x & 127 | 128])
        x >>= 7
    return out + bytes([x])


def number(field, value):
    return varint(field << 3) + varint(value)


def message(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


STRINGS = ["", "allocations", "count", "space", "bytes", "kind", "buffer", "executable", "device", "TPU_1(process=0,(0,1,0,0))", "TPU_0(process=0,(0,0,0,0))", "f", "/home/me/train.py", "main", "cpu:0"]


def pprof_sample(locations, values, kind, device):
    labels = b"".join(message(3, number(1, STRINGS.index(k)) + number(2, STRINGS.index(v))) for k, v in (("kind", kind), ("device", device)))
    return message(2, message(1, b"".join(map(varint, locations))) + message(2, b"".join(map(varint, values))) + labels)


def pprof_code(i, name, line):
    return message(4, number(1, i) + message(4, number(1, i) + number(2, line))) + message(5, number(1, i) + number(2, STRINGS.index(name)) + number(4, STRINGS.index("/home/me/train.py")))


types = message(1, number(1, 1) + number(2, 2)) + message(1, number(1, 3) + number(2, 4))
strings = b"".join(message(6, s.encode()) for s in STRINGS)
profile = types + pprof_sample([1, 2], [3, 3000], "buffer", "TPU_0(process=0,(0,0,0,0))") + pprof_sample([2], [1, 512], "buffer", "TPU_1(process=0,(0,1,0,0))")
profile += pprof_sample([1], [4, -4], "executable", "TPU_0(process=0,(0,0,0,0))") + pprof_sample([], [1, 64], "buffer", "cpu:0") + pprof_code(1, "f", 7) + pprof_code(2, "main", 40) + strings
put("memory_profile", "small.pb", profile)
put("memory_profile", "small.prof.gz", gzip.compress(profile, mtime=0))
put("memory_profile", "time.pb", message(1, number(1, 1) + number(2, 2)) + message(2, message(2, varint(5))) + strings)
put("memory_profile", "many.pb", types + pprof_sample([9], [1 << 40, 1 << 41], "buffer", "cpu:0") + pprof_sample([1], [5, -7], "buffer", "cpu:0") + strings)

# ---- XLA's memory-usage report ----
HEAD = "  cumulative_size;       size;       offset; used_by_n_values; shapes_list\n  ------------------------------------------------------------\n"
put("memory_usage_report", "new.txt", ("Memory Space: default (color=0)\nTotal bytes: 1574144 (1.50MiB)\n" + HEAD + "    1.00MiB( 67%);    1.00MiB;            0;                2; 2\u00d7f32[512,512]\n"
    "    1.50MiB(100%);  512.50KiB;      1048576;                1; bf16[256,1025]\n\n" + HEAD + "        24B(100%);        24B;            0;                1; (f32[], f32[])\n\n\n"
    "Memory Space: host (color=5)\nTotal bytes: 4096 (4.0KiB)\n" + HEAD + "     4.0KiB(100%);     4.0KiB;            0;                1; f32[1024]\n").encode())
put("memory_usage_report", "old.txt", b"Total bytes used: 2097664 (2.00MiB)\n\nAllocations sorted by size:\n\ncumulative_size; total_size - cumulative_size; allocation\n"
    b"------------------------------------------------------------------------------\n   2.00MiB(100%);      512B; allocation 0: size 2.00MiB, parameter 0, shape |f32[1024,512]| at ShapeIndex {}:\n"
    b"   2.00MiB(100%);        0B; allocation 1: size 512, preallocated-temp:\n")
put("memory_usage_report", "bad.txt", ("Memory Space: default (color=0)\n" + HEAD + " 1; 2\n").encode())

# ---- what XLA and PyTorch say when memory runs out ----
def allocation(at, size, shape, unpadded, label, operator="", kind="HLO temp", extra=""):
    return (f"  {at}. Size: {size}\n" + (f"     Operator: {operator}\n" if operator else "") + f"     Shape: {shape}\n     Unpadded size: {unpadded}\n{extra}"
            f"     XLA label: {label}\n     Allocation type: {kind}\n     ==========================\n\n")


SOFTMAX = 'op_name="jit(step)/jit(main)/jvp(Model)/block/exp[accuracy=None]" source_file="/home/me/attention.py" source_line=41'
TABLE = 'op_type="reshape" op_name="jit(step)/reshape" source_file="/home/me/data.py" source_line=17'
refused = ("jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 18.27G of 15.75G hbm. "
           "Exceeded hbm capacity by 2.52G.\n\nTotal hbm usage >= 18.79G:\n    reserved        530.00M \n    program          11.21G \n    arguments         7.06G \n\n"
           "Output size 7.06G; shares 7.06G with arguments.\n\nProgram hbm requirement 11.21G:\n    global            1.50M\n    scoped            8.00M\n"
           "    HLO temp         11.20G (65.3% utilization: Unpadded (7.31G) Padded (11.18G), 0.2% fragmentation (20.00M))\n\n  Largest program allocations in hbm:\n\n"
           + allocation(1, "4.00G", "s32[1048576,8,4]{2,1,0:T(8,128)}", "128.00M", "%copy.1 = s32[1048576,8,4]{2,1,0:T(8,128)} copy(s32[1048576,8,4]{0,2,1:T(4,128)} %p)", TABLE,
                        extra="     Extra memory due to padding: 3.88G (32.0x expansion)\n")
           + allocation(2, "3.07G", "bf16[32768,50304]{1,0:T(8,128)(2,1)}", "3.07G", "%fusion.9 = bf16[32768,50304]{1,0:T(8,128)(2,1)} fusion(%a)")
           + "".join(allocation(i, "1.00G", "f32[64,2048,2048]{2,1,0:T(8,128)}", "1.00G", f"%fusion.{i} = f32[64,2048,2048] fusion(%a)", SOFTMAX) for i in range(3, 7)))
put("out_of_memory", "tpu.txt", refused.encode())
put("out_of_memory", "log.txt", "".join(f"2026-01-02 03:04:05.678901: E    1578 xla/client/xla_util.cc:76] {line}\n" for line in (refused + refused).split("\n")).encode())
put("out_of_memory", "shared.txt", ("Ran out of memory in memory space hbm. Used 1.50G of 1.00G hbm.\nProgram hbm requirement 1.50G:\n    HLO temp   1.50G (100.0% utilization)\n\n"
    "  Largest program allocations in hbm:\n" + allocation(1, "1.00G", "f32[64,2048,2048]", "1.00G", "%a = f32[64,2048,2048] add(%p)") * 2).encode())
put("out_of_memory", "vmem.txt", b"RESOURCE_EXHAUSTED: E1001: Ran out of memory in memory space vmem while allocating on stack for %f.1. Scoped allocation with size 24.00M and limit "
    b"16.00M exceeded scoped vmem limit by 8.00M.\n")
put("out_of_memory", "short.txt", b"RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for HLO temporaries (85.41G) exceeds available HBM "
    b"(15.75G). HLO module: jit_step.\n")
put("out_of_memory", "runtime.txt", b"Attempting to reserve 3.95G at the bottom of memory. That was not possible. There are 1.92G free, 0B reserved, and 1.92G reservable.;\n\n"
    b"Total hbm usage >= 10.94G:\n    reserved(Infeed/Outfeed/Continuations) 529.00M \n    heap allocations (without fragmentation)   6.08G \n    program                    4.34G \n")
put("out_of_memory", "gpu.txt", b"RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4298113024 bytes.\nBufferAssignment OOM Debugging.\nBufferAssignment stats:\n"
    b"             parameter allocation:    2.00GiB\n              constant allocation:        64B\n        maybe_live_out allocation:    1.00GiB\n"
    b"     preallocated temp allocation:    4.00GiB\n  preallocated temp fragmentation:         0B (0.00%)\n                 total allocation:    7.00GiB\n"
    b"Peak buffers:\n\tBuffer 1:\n\t\tSize: 3.00GiB\n\t\tOperator: op_name=\"jit(step)/mul\" source_file=\"/home/me/model.py\" source_line=9\n\t\tXLA Label: fusion\n"
    b"\t\tShape: f32[3,16384,16384]\n\t\t==========================\n\n\tBuffer 2:\n\t\tSize: 1.00GiB\n\t\tEntry Parameter Subshape: f32[16384,16384]\n"
    b"\t\t==========================\n")
put("out_of_memory", "pytorch.txt", b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 24.00 GiB of which 1.00 GiB is free. Including "
    b"non-PyTorch memory, this process has 23.00 GiB memory in use. Of the allocated memory 18.00 GiB is allocated by PyTorch, and 4.00 GiB is reserved by PyTorch but "
    b"unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.\n")
put("out_of_memory", "pytorch_old.txt", b"RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 8.00 GiB total capacity; 6.00 GiB already allocated; 256.00 MiB free; 6.50 GiB "
    b"reserved in total by PyTorch)\n")
put("out_of_memory", "shares.txt", b"[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 24.00 GiB of which 0.50 GiB is free. "
    b"18.00 GiB allowed; Process 77 has 4.25 GiB memory in use. Including non-PyTorch memory, this process has 19.25 GiB memory in use. Of the allocated memory 17.00 GiB is "
    b"allocated by PyTorch, with 16.00 MiB allocated in private pools (e.g., CUDA Graphs), and 0.25 GiB is reserved by PyTorch but unallocated.\n")
put("out_of_memory", "async.txt", b"> Allocation on device 0 would exceed allowed memory. (out of memory)\n> Currently allocated     : 6.00 GiB\n> Requested               : 1.00 GiB\n"
    b"> Device limit            : 8.00 GiB\n> Free (according to CUDA): 256.00 MiB\n> PyTorch limit (set by user-supplied memory fraction)\n>   : 17179869184.00 GiB\n")
put("out_of_memory", "mps.txt", b"RuntimeError: MPS backend out of memory (MPS allocated: 12.00 GB, other allocations: 2.00 GB, max allowed: 18.00 GB). Tried to allocate\n5.00 GB on "
    b"private pool.\n")
put("out_of_memory", "record.txt", b'{"severity":"ERROR","message":"\x1b[31mRan out of memory in memory space hbm. Used 3.00G of 1.00G hbm.\\n\\nProgram hbm requirement 3.00G:\\n    '
    b'HLO temp   3.00G\\n\\n  Largest program allocations in hbm:\\n\\n  1. Size: 2.00G\\n     Operator: op_name=\\"params[\\\\\'w\\\\\']\\"\\n     Shape: f32[536870912]\\n"}\n')
put("out_of_memory", "vllm.txt", b"(EngineCore pid=12) ERROR 01-02 03:04:05 [core.py:5] ValueError: Free memory on device cuda:0 (30.00/40.00 GiB) on startup is less than desired GPU "
    b"memory utilization (0.9, 36.00 GiB).\n")
put("out_of_memory", "vllm_cache.txt", b"To serve at least one request with the model's max seq len (65536),\n8.0 GiB KV cache is needed, which is larger than the available KV cache memory "
    b"(2.00 GiB). Based on the available memory, the estimated maximum model length is 16000.\n")
put("out_of_memory", "llama.txt", b"load_tensors:        CUDA1 model buffer size =  4096.00 MiB\nllama_kv_cache:      CUDA1 KV buffer size =   512.00 MiB\n"
    b"ggml_backend_cuda_buffer_type_alloc_buffer: allocating 2048.00 MiB on device 1: cudaMalloc failed: out of memory\n")
put("out_of_memory", "triton.txt", b"out of resource: shared memory, Required: 131072, Hardware limit: 65536. Reducing block sizes or `num_stages` may help.\n")
put("out_of_memory", "paddle.txt", b"Out of memory error on GPU 0. Cannot allocate 256.000000MB memory on GPU 0, 7.000000GB memory has been allocated and available memory is only 96.000000MB.\n")
put("out_of_memory", "cupy.txt", b"Out of memory allocating 1,073,741,824 bytes (allocated so far: 3,221,225,472 bytes, limit set to: 4,000,000,000 bytes).\n")
put("out_of_memory", "cuda_async.txt", b"E0102 03:04:05.678901 11 gpu_cudamallocasync_allocator.cc:9] cuMemAllocAsync failed to allocate 2147483648 bytes: out of memory\n Reported by CUDA: Free "
    b"memory/Total memory: 1073741824/17179869184\nE0102 03:04:05.678902 11 gpu_cudamallocasync_allocator.cc:9] 4096, 3\nE0102 03:04:05.678904 11 "
    b"gpu_cudamallocasync_allocator.cc:9] 1048576, 2\n")
put("out_of_memory", "middle.txt", b"12: 3. Size: 4.00M\n12:      Shape: f32[8192,1]{1,0:T(8,128)}\n12:      Unpadded size: 32.0K\n12:      Extra memory due to padding: 3.97M (128.0x "
    b"expansion)\n12:      XLA label: %copy.3 = x\n")
put("out_of_memory", "bad.txt", b"Traceback\nRan out of memory in memory space hbm.\n  Largest program allocations in hbm:\n")

# ---- XLA's description of a GPU ----
put("gpu_target", "old.pbtxt", b"gpu_device_info {\n  core_count: 108\n  fpus_per_core: 64\n  memory_bandwidth: 1555200000000\n  l2_cache_size: 41943040\n  clock_rate_ghz: 1.41\n"
    b"  device_memory_size: 42505273344\n  cuda_compute_capability {\n    major: 8\n  }\n}\nplatform_name: \"CUDA\"\ndevice_description_str: \"My \\\"GPU\\\"\"\n")
put("gpu_target", "new.txtpb", b"# comment\ngpu_device_info: { core_count: 132 fpus_per_core: 128 memory_bandwidth: 3352320000000 clock_rate_ghz: 1.98 device_memory_size: 84942979072\n"
    b"  cuda_compute_capability { major: 9 } matrix_unit_description { rate_infos { key: 16 value { clock_rate_ghz: 1.8295201 units_per_core: 4 ops_per_clock: 512 } } }\n"
    b"  scalar_unit_description { rate_infos { key: 11 value { clock_rate_ghz: 1.98 units_per_core: 128 ops_per_clock: 1 } } }\n"
    b"  pcie_bandwidth: 34359738368 device_interconnect_info { active_links: 18 } name: 'NVIDIA' ' H100' }\n")
put("gpu_target", "amd.txtpb", b"gpu_device_info { core_count: 304 clock_rate_ghz: 2.1 device_memory_size: 206141652992 memory_bandwidth: 5300000000000 rocm_compute_capability { gcn_arch_name: \"gfx942:sramecc+\" } }\n")
put("gpu_target", "cut.pbtxt", b"gpu_device_info { core_count: 1 name: \"x")
put("gpu_target", "deep.pbtxt", b"gpu_device_info {" * 40)

# ---- a ROCm profile: no bytes in a copy, but in its call; no grid; times relative to a base ----
put("kineto", "waits.json", json.dumps({"traceEvents": [
    event for i, (name, stream, start, extra) in enumerate([
        ("a", 7, 100, {}), (None, 0, 0, {}), ("ncclKernel_AllReduce", 14, 152,
         {"Collective name": "allreduce", "In msg nelems": 4096, "Group size": 8, "dtype": "BFloat16", "Process Group Ranks": "[0, 8, 16, ...]"}),
        (None, 0, 0, {}), ("b", 7, 194, {})])
    for event in [{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel" if name else "cudaStreamWaitEvent", "pid": 1, "tid": 1, "ts": 10 + 2 * i, "dur": 1,
                   "args": {"correlation": i + 1}}] + ([{"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": start, "dur": 40,
                   "args": dict(extra, correlation=i + 1, device=0, stream=stream)}] if name else [])]}).encode())
put("kineto", "rocm.json", rb'''{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "AMD Instinct MI250X", "totalGlobalMem": 68702699520, "numSms": 110}], "roctracer_version": "4", "hip_runtime_version": 60200,
"baseTimeNanoseconds": 1700000000000000000, "displayTimeUnit": "ms", "traceEvents": [
{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":10,"tid":10,"ts":1000.100,"dur":50.000,"args":{"External id":1,"Input Dims":[[64,128],[128,32]],"Input type":["c10::BFloat16","c10::BFloat16"]}},
{"ph":"X","cat":"cuda_runtime","name":"hipExtModuleLaunchKernel","pid":10,"tid":10,"ts":1010.000,"dur":5.000,"args":{"External id":1,"kernel":"Cijk","correlation":7}},
{"ph":"X","cat":"cuda_runtime","name":"hipMemcpyWithStream","pid":10,"tid":10,"ts":1020.000,"dur":5.000,"args":{"correlation":8,"src":"0x7f","dst":"0x8","bytes":"1024","kind":"1"}},
{"ph":"X","cat":"cuda_runtime","name":"hipDeviceSynchronize","pid":10,"tid":10,"ts":1060.000,"dur":45.000,"args":{"correlation":9}},
{"ph":"X","cat":"kernel","name":"Cijk_Ailk_Bljk_BBS","pid":2,"tid":0,"ts":1030.000,"dur":20.500,"args":{"External id":1,"device":2,"stream":0,"correlation":7,"kind":"Dispatch Kernel","grid":[1000,2,1],"block":[256,1,1]}},
{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Host -> Device)","pid":2,"tid":0,"ts":1055.000,"dur":3.250,"args":{"device":2,"stream":0,"correlation":8,"kind":"HtoD"}},
{"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoH (Device -> Host)","pid":2,"tid":0,"ts":1059.000,"dur":3.250,"args":{"device":2,"stream":0,"correlation":18,"kind":"DtoH","bytes":4096}},
{"ph":"X","cat":"gpu_memset","name":"Memset (Device)","pid":2,"tid":0,"ts":1064.000,"dur":1.000,"args":{"device":2,"stream":0,"correlation":19}},
{"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]","pid":10,"tid":10,"ts":1005.000,"args":{"Total Reserved":2097152,"Total Allocated":4096,"Bytes":4096,"Addr":139637976727552,"Device Id":2,"Device Type":6}},
{"ph":"s","id":7,"pid":10,"tid":10,"ts":1010.000,"cat":"ac2g","name":"ac2g"},{"ph":"f","id":7,"pid":2,"tid":0,"ts":1030.000,"cat":"ac2g","name":"ac2g","bp":"e"},
{"ph":"M","name":"process_name","pid":"Spans","tid":0,"ts":0,"args":{"name":"x"}}],"traceName":"x.json"}
''')

# ---- PTX: kernels "k", with what they declare ----
def kernel(body, declared=""):
    return (".version 8.5\n.target sm_80\n.address_size 64\n" + declared + "\n.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)\n.maxntid 1024, 1, 1\n{\n"
            ".reg .pred %p<9>;\n.reg .b32 %r<20>;\n.reg .f32 %f<9>;\n.reg .b64 %d<20>;\nld.param.u64 %d0, [a]; ld.param.u64 %d1, [b]; ld.param.u64 %d2, [c];\n"
            "mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.s32 %r3, %r1, %r2, %r0;\n" + body + "\n}\n").encode()


put("ptx", "stream.ptx", kernel("mul.wide.s32 %d4, %r3, 16; add.s64 %d5, %d0, %d4; add.s64 %d6, %d1, %d4; ld.global.nc.L1::no_allocate.v4.f32 {%f0, %f1, %f2, %f3}, [%d5+16];\n"
                                "fma.rn.f32 %f0, %f0, %f1, %f2; st.global.v4.f32 [%d6], {%f0, %f1, %f2, %f3}; ret;"))
put("ptx", "loop.ptx", kernel("mul.wide.u32 %d4, %r1, 4096; add.s64 %d4, %d0, %d4; mov.u32 %r5, %r0;\n$next:\nmul.wide.u32 %d6, %r5, 4; add.s64 %d6, %d4, %d6; ld.global.f32 %f0, [%d6];\n"
                              "add.s32 %r5, %r5, %r2; setp.lt.u32 %p0, %r5, 1024; @%p0 bra $next; ret;"))
put("ptx", "memories.ptx", kernel(".local .align 8 .b8 own[16];\nmov.u64 %d9, own; cvta.local.u64 %d9, %d9; setp.ne.s32 %p0, %r0, 31; @%p0 bra $wait; st.shared.u64 [kept+8], %d0;\n"
                                  "$wait: bar.sync 0; ld.shared.u64 %d5, [kept+8]; st.u64 [%d9+8], %d5; ld.local.u64 %d6, [own+8]; ld.u32 %r4, [%d6]; mul.wide.u32 %d7, %r4, 8;\n"
                                  "add.s64 %d8, %d1, %d7; red.global.add.f32 [%d8], %f0; mov.u64 %d10, table; ld.global.u32 %r5, [%d10]; ret;",
                                  ".shared .align 8 .b8 kept[16];\n.extern .shared .b8 rest[];\n.global .align 4 .b32 table[4] = {1, 2, 3, 4};"))
put("ptx", "warps.ptx", kernel("and.b32 %r4, %r0, 31; shfl.sync.idx.b32 %r5|%p0, %r3, 0, 31, -1; vote.sync.any.pred %p1, %p0, -1; setp.eq.and.s32 %p2|%p3, %r4, 40, !%p1; mov.b64 %d6, {%r5, %r4};\n"
                               "mov.b64 {%r10, %r11}, %d6; add.s64 %d5, %d0, %d6; @%p1 cp.async.cg.shared.global [%r10], [%d5+16], 16;\n"
                               "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0,%f1,%f2,%f3}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f0,%f1,%f2,%f3};\n"
                               "bfe.u32 %r12, %r3, 5, 2; lop3.b32 %r13, %r12, %r12, 0, 192; prmt.b32 %r13, %r13, 0, 0x4440; goto: .branchtargets $a, $b; @%p3 brx.idx %r13, goto;\n"
                               "$a: bra.uni $b;\n$b: { .reg .pred p; setp.lt.f32 p, %f0, 0f3F800000; @!p bra $c; }\natom.global.add.u32 %r6, [%d1], 1; st.global.u32 [%d1], %r6;\n$c: ret;"))
