Captured files to our trace and to other tools' formats; what was lost is said; nothing is left half written.
$ echelon import tests/fuzz/corpus/chakra/gpu.et
note allocations inferred from first write: 2
note frees inferred from last use: 2
a kernel's tensors are those of the operator that launched it; operators on CPU threads are marks
echelon-trace 1 "chakra"
property "chakra_version" "0.0.4"
property "chakra.rank" "0"
property "records.COMP" "3"
property "records.COMM_COLL" "1"
property "noted.allocations_inferred_from_first_write" "2"
property "noted.frees_inferred_from_last_use" "2"
property "remark.0" "a kernel's tensors are those of the operator that launched it; operators on CPU threads are marks"
strings 0
memories 2
"hbm"
"host"
queues 4
host 0 "thread 1"
copy 0 "stream 20"
compute 0 "stream 7"
collective 0 "stream 20"
buffers 4
b "storage 3" m=0 bytes=2048
b "storage 4" m=0 bytes=2112 resident=1
b "storage 8" m=0 bytes=4096
b "storage 2" m=1 bytes=2048 resident=1
ops 8
mark "aten::mm" q=0 start=0 duration=40000000
alloc q=1 target=0 bytes=2048~
copy "Memcpy HtoD (Pinned -> Device)" q=1 from=1 to=0 bytes=2048~ r=3:2048~ w=0:2048~ after=-2 start=1000000 duration=5000000
alloc q=2 target=2 bytes=4096~
kernel "gemm_kernel" q=2 r=0:2048~ r=1:2048~ w=2:4096~ after=-4 after=-2 start=10000000 duration=25000000
free q=2 target=0 bytes=2048~
collective "all_reduce" q=3 type=all-reduce from=0 bytes=4096 r=2:4096~ after=-6 after=-2 start=40000000 duration=90000000 launch="meets=0/0"
free q=3 target=2 bytes=4096~
$ echelon import tests/fuzz/corpus/chakra/gpu.et -o $T/a.ech 2>&1 | sed "s,$T,T,"; echelon import $T/a.ech -o $T/b.ech 2>/dev/null; cmp $T/a.ech $T/b.ech && echo the same
note allocations inferred from first write: 2
note frees inferred from last use: 2
a kernel's tensors are those of the operator that launched it; operators on CPU threads are marks
tests/fuzz/corpus/chakra/gpu.et: chakra, 8 operations, 4 buffers -> T/a.ech
the same
$ echelon import tests/fuzz/corpus/chakra/cycle.et --strict -o $T/c.ech; ls $T
dropped or repaired repeated node ids: 1, first at node 3
dropped or repaired nodes in dependency cycles: 3, first at node 1
note control dependencies against data: 1
note allocations inferred from first write: 1
note frees inferred from last use: 1
echelon: tests/fuzz/corpus/chakra/cycle.et: node 3: 1 repeated_node_ids; expected none with --strict
a.ech
b.ech
$ echelon import tests/fuzz/corpus/chakra/gpu.et -o $T/a.csv 2>&1 | sed "s,$T,T,"; cat $T/a.csv
note allocations inferred from first write: 2
note frees inferred from last use: 2
a kernel's tensors are those of the operator that launched it; operators on CPU threads are marks
lifetimes are those of hbm, half-open, in numbers of operations
tests/fuzz/corpus/chakra/gpu.et: chakra, 8 operations, 4 buffers -> T/a.csv
id,lower,upper,size
storage 4,0,8,2112
storage 3,1,5,2048
storage 8,3,7,4096
$ echelon import tests/fuzz/corpus/chakra/gpu.et -o $T/a.json.gz 2>/dev/null; gzip -dc $T/a.json.gz | tail -3
{"ph":"C","pid":3,"tid":1,"name":"hbm bytes","ts":40.000,"args":{"live":2112,"reserved, not live":0}},
{"ph":"C","pid":3,"tid":2,"name":"host bytes","ts":0.000,"args":{"live":2048,"reserved, not live":0}}
]}
$ echelon import tests/fuzz/corpus/chakra/gpu.et --to chakra -o $T/anything 2>/dev/null; echelon info $T/anything | sed "s,$T,T," | head -3
T/anything: chakra
8 operations on 4 queues, 4 buffers
  kernel 1  copy 1  alloc 2  free 2  collective 1  mark 1
$ echelon import traces/pipeline_pytorch.h100/rank0.pretend.gz -o $T/rank.et 2>&1 | grep written
note meetings of ranks not written: 18
note permutes written as sends: 9
$ echelon import tests/fuzz/corpus/minimalloc/plain.csv -o $T/plain.et; ls $T/plain.et 2>&1 | sed "s,$T,T,"
echelon: plain.csv: nothing but allocations is in it, of which Chakra's nodes tell nothing
ls: cannot access 'T/plain.et': No such file or directory
$ echelon import tests/golden/data/stream.ech -o $T/no.pftrace; ls $T/no.pftrace 2>&1 | sed "s,$T,T,"
echelon: stream.ech: no operation has a recorded start, so there is no timeline to write; 'echelon run -o DIR' writes the simulated one
ls: cannot access 'T/no.pftrace': No such file or directory
$ echelon import tests/golden/data/stream.ech -o $T/x.foo 2>&1 | sed "s,$T,T,"
echelon: T/x.foo: the ending does not say what to write; expected one of .ech, .json, .pftrace .perfetto-trace, .pb .pprof .prof, .csv, .et (and .gz behind it), or --to FORMAT
$ echelon import tests/golden/data/stream.ech --to perfeto
echelon: --to perfeto: no such format to write; did you mean 'perfetto'?
exit 2
$ echelon import tests/golden/data/stream.ech -o $T/none/x.ech 2>&1 | sed "s,$T,T,"
echelon: T/none/x.ech: cannot write: No such file or directory
$ echelon import tests/golden/data/stream.ech -o /dev/full/x.ech
echelon: /dev/full/x.ech: cannot write: Not a directory
exit 1
$ echelon import tests/golden/data/stream.ech -o /dev/full --to ech
echelon: /dev/full: cannot write: No space left on device
exit 1
$ echelon import tests/golden/data/stream.ech --to ech -o /dev/stdout 2>/dev/null | head -1
echelon-trace 1 "test"
$ echelon import tests/golden/data/stream.ech >/dev/full
echelon: standard output: No space left on device
exit 1
$ echelon import
echelon import: one FILE is needed
exit 2
$ echelon import tests/golden/data/small.yaml
echelon: tests/golden/data/small.yaml: the text looks like a device, not a trace; give it as --device FILE
exit 1
$ echelon import tests/fuzz/corpus/xplane/tpu.pb --capture-device 9
note host events only counted: 1
note async copies timed by completion: 2
note async copies of unknown end: 1
note start state baseline: 1
echelon: tests/fuzz/corpus/xplane/tpu.pb: --capture-device 9: nothing ran there; expected one of 0
exit 2
$ echelon import traces/mlp_activations.v5e --device tpu-v5e -o $T/p.ech 2>&1 | sed "s,$T,T,"; for t in traces/mlp_activations.v5e $T/p.ech; do echelon run --trace $t --device tpu-v5e --json | grep makespan_ps; done
note loops with inferred trip counts: 2
2 arguments (w[0] and others, 20 MiB) are not donated in the program as captured, though results have the same shape, type and memory: both are held. Where the caller does not use them again, jax.jit's donate_argnames spares that; --pass donate tells what it changes
buffer assignment taken from traces/mlp_activations.v5e/program.buffer-assignment.txt.gz
an XLA program, lowered for tpu-v5e
'run' and 'alloc' take the trace; passes that change programs, and what is inside kernels, need the original
traces/mlp_activations.v5e: hlo, 77 operations, 34 buffers -> T/p.ech
  "makespan_ps" : 698911143,
  "makespan_ps" : 698911143,
$ for t in traces/mlp_activations.v5e $T/p.ech; do echelon run --trace $t --device tpu-v5e --json | sed -n '/"needs"/,/^  }/p;/"memory_analysis"/,/^  }/p' >$T/$(basename $t).json; echelon run --trace $t --device tpu-v5e | grep fits; done; cmp $T/mlp_activations.v5e.json $T/p.ech.json; wc -l <$T/p.ech.json
  It fits. hbm 40.7 MiB of 15.8 GiB (0 %), host 2.50 MiB of 384 GiB (0 %), vector 30.6 MiB of 128 MiB (24 %)
  It fits. hbm 40.7 MiB of 15.8 GiB (0 %), host 2.50 MiB of 384 GiB (0 %), vector 30.6 MiB of 128 MiB (24 %)
32
$ cd $T; echo '[[1, 2], [3, 4]]' > sums.json; echo '<!DOCTYPE html><html></html>' > page.html; echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.' > err.log; printf '\001\002\003\004' > r.nsys-rep; for f in sums.json page.html err.log r.nsys-rep; do echelon alloc $f; done
echelon: sums.json: the text looks like the sums of a PyTorch memory timeline; export_memory_timeline("NAME.raw.json.gz") writes the allocations themselves
echelon: page.html: the text is a web page; give the capture that it was made from (a memory snapshot's .pickle, a memory timeline's .raw.json.gz)
err.log: out_of_memory, 1 event; device memory 80 GiB, assumed (--device or --capacity says it)
no allocator needs less than 2 GiB

the message does not say what was allocated: a memory snapshot does: torch.cuda.memory._record_memory_history() when the program begins, torch.cuda.memory._dump_snapshot("oom.pickle") where the error is caught

these are sums, not where each array lay: whether another allocator or setting had served the request, no replay of them tells
echelon: r.nsys-rep: no captured format that echelon knows: a report of Nsight Systems; 'nsys export --type sqlite FILE' writes the database that echelon reads
exit 1
$ echelon import tests/fuzz/corpus/gpu_target/new.txtpb | head -6
# Made from XLA's gpu_target_config; what it does not say is marked assumed.
name: "nvidia-h100"
summary: "NVIDIA H100"
family: gpu
compiler: h100
cores: {value: 1, source: "one program has the whole GPU"}
$ cd $T; echelon import "$OLDPWD/tests/fuzz/corpus/gpu_target/new.txtpb" -o d.yaml 2>/dev/null && echelon layout 'f32[8,128]{1,0}' --device d.yaml
f32[8,128]{1,0}
  4096 bytes dense (4 KiB), 4096 padded (4 KiB): 0.0 % waste, 1.000x
  tensor cores: rows of 512 bytes, a multiple of 128: best
$ echelon import tests/fuzz/corpus/gpu_target/new.txtpb -o /nowhere/d.yaml
echelon: /nowhere/d.yaml: No such file or directory
exit 1
$ echelon import tests/golden/data/pageable.json -o $T/p.pftrace >/dev/null 2>&1; cd $T; echelon info p.pftrace
echelon: p.pftrace: no captured format that echelon knows: the bytes look like a Perfetto trace, which is for looking at; give the capture that it was made from
exit 1
$ cd $T; s=$OLDPWD/tests/fuzz/corpus/memory_snapshot/small.4.pickle; (printf '\n<html>\nimport {add_local_files} from "x"\nconst local_files = [{"name": "s", "base64": "'; base64 -w0 "$s"; echo '"}]') >viz.html; echelon import viz.html -o page.ech 2>/dev/null; echelon import "$s" -o own.ech 2>/dev/null; cmp page.ech own.ech && echelon info viz.html | head -1
viz.html: memory_snapshot
$ cd $T; printf '\n<!DOCTYPE html>\nimport x\n' >other.html; printf 'GPU 0: NVIDIA A100 (UUID: GPU-0)\n  MIG 3g.20gb     Device  0: (UUID: MIG-0)\n' >list.txt; for f in other.html list.txt; do echelon info $f; done
echelon: other.html: the text is a web page; give the capture that it was made from (a memory snapshot's .pickle, a memory timeline's .raw.json.gz)
echelon: list.txt: the text is nvidia-smi's list of GPUs (-L), without sizes; what nvidia-smi alone prints has them, and those of MIG's slices
exit 1
$ cd $T; printf '{"traceEvents": [{"ph": "X", "cat": "mtia_ccp_events", "name": "mm", "ts": 1, "dur": 2}]}' >mtia.json; printf '[{"ph": "X", "name": "MatMulV2", "pid": 3, "tid": 2, "ts": "1020.1", "dur": 12.5, "args": {"Task Type": "AI_CORE"}}]' >npu.json; for f in mtia.json npu.json; do echelon info $f | grep '^- it ran'; done
- it ran on Meta's MTIA, whose work is not read; that of CUDA, ROCm and XPU is
- it ran on an Ascend NPU, whose work is not read; that of CUDA, ROCm and XPU is
$ printf '{"memoryProfilePerAllocator":{},"numHosts":1}' >$T/profile.json; cd $T; echelon info profile.json
echelon: profile.json: a JSON document without traceEvents: its keys begin "memoryProfilePerAllocator", "numHosts"; it is what XProf's memory profile shows, whose events are read from the .xplane.pb that it was made from
exit 1
$ printf '{"rocprofiler-sdk-tool":[{"metadata":{}}]}' >$T/rocprof.json; cd $T; echelon info rocprof.json
rocprof.json: rocprof_json
0 operations on 0 queues, 0 buffers
bytes
  allocated in all                0 B  (0)
  live at the peak                0 B  (0)
  live at the end                 0 B  (0)
- nothing in it ran on a GPU; 'rocprofv3 --runtime-trace' records what does
$ cd $T && python3 -c "import sqlite3; c=sqlite3.connect('results.db'); c.execute('create table rocpd_string_00(id integer)'); c.commit()"; echelon info results.db
echelon: results.db: an SQLite database, but not rocprofv3's: it has no table rocpd_kernel_dispatch
exit 1
$ cd $T; echelon import "$OLDPWD/tests/golden/data/stream.ech" --anonymize
anonymize: 10 names, 0 files and 0 functions have pseudonyms; what remains can still tell a known model: sizes, shapes, element types, order, times, line numbers, names of memories and hardware
echelon-trace 1 "test"
strings 0
memories 2
"hbm"
"host"
queues 3
compute 0 "core"
copy 0 "dma in"
copy 0 "dma out"
buffers 8
b "buffer6" m=1 bytes=1000000000 resident=1
b "buffer7" m=1 bytes=1000000000 resident=1
b "out.0" m=1 bytes=1000000000 resident=1
b "out.1" m=1 bytes=1000000000 resident=1
b "in.0" m=0 bytes=1000000000
b "in.1" m=0 bytes=1000000000
b "buffer12" m=0 bytes=1000000000
b "buffer13" m=0 bytes=1000000000
ops 14
alloc "in.0" q=0 target=4 bytes=1000000000
alloc "in.1" q=0 target=5 bytes=1000000000
copy "copy14" q=1 from=1 to=0 bytes=1000000000 r=0:1000000000 w=4:1000000000 after=-2
copy "copy15" q=1 from=1 to=0 bytes=1000000000 r=1:1000000000 w=5:1000000000 after=-2
alloc "buffer12" q=0 target=6 bytes=1000000000
kernel "kernel1" q=0 r=4:1000000000 w=6:1000000000 work=matrix:bf16:10000000000 after=-3
free "in.0" q=0 target=4 bytes=1000000000
copy "copy16" q=2 from=0 to=1 bytes=1000000000 r=6:1000000000 w=2:1000000000 after=-2
alloc "buffer13" q=0 target=7 bytes=1000000000
kernel "kernel2" q=0 r=5:1000000000 w=7:1000000000 work=matrix:bf16:10000000000 after=-6
free "in.1" q=0 target=5 bytes=1000000000
copy "copy17" q=2 from=0 to=1 bytes=1000000000 r=7:1000000000 w=3:1000000000 after=-2
free "buffer12" q=0 target=6 bytes=1000000000 after=-5
free "buffer13" q=0 target=7 bytes=1000000000 after=-2
$ echelon import traces/gpt_offload.v5e --anonymize -o $T/shared.ech 2>&1 | grep anonymize; ! grep -e gpt -e jit $T/shared.ech
anonymize: properties left out: program, buffer_assignment
anonymize: 74 names, 2 files and 6 functions have pseudonyms; what remains can still tell a known model: sizes, shapes, element types, order, times, line numbers, names of memories and hardware
$ for file in traces/gpt_offload.v5e $T/shared.ech; do echelon run --trace $file --device tpu-v5e --json | grep -E '"makespan_ps"'; done
  "makespan_ps" : 731678787,
  "makespan_ps" : 731678787,
$ printf '"Name","Calls","TotalDurationNs"\n' > $T/x.csv; echelon info $T/x.csv 2>&1 | sed "s|$T/||"
echelon: x.csv: the text is a table of sums or of counters by AMD's rocprof; what ran when is read: rocprofv3's database, its JSON, or STEM_kernel_trace.csv with what lies beside it (--runtime-trace)
$ printf 'schema_version: "1"\nnodes {\n  id: 1\n}\n' > $T/x.et; echelon info $T/x.et 2>&1 | sed "s|$T/||"
echelon: x.et: the text looks like a protobuf's text form (a Chakra trace's, say); give the binary file that it was made from
$ printf '#!/usr/bin/env python\nimport torch\n' >$T/train.py; echelon info $T/train.py 2>&1 | sed "s|$T/||"; echelon help import >/dev/full 2>&1; echo $?
echelon: train.py: the text looks like a Python program; 'echelon capture --pretend DEVICE -o step -- python FILE' runs it and leaves what echelon reads
1
$ mkdir -p $T/secret; cp tests/golden/data/small.yaml $T/secret/plan.yaml; for a in "" --anonymize; do echelon import tests/fuzz/corpus/out_of_memory/pytorch.txt --device $T/secret/plan.yaml $a 2>/dev/null | grep -c '"chip"\|secret'; done
1
0
exit 1
$ echelon import traces/gpu_h100-sxm/jax_profile.xplane.pb.gz --program jit_step -o $T/step.hlo.pb 2>&1 | sed "s,$T,T,"; echelon run --trace $T/step.hlo.pb --device h100-sxm | grep -E 'It takes|placed|jax_step' | head -8
traces/gpu_h100-sxm/jax_profile.xplane.pb.gz: program jit_step(6643), 55949 bytes -> T/step.hlo.pb
  It takes 8.13 ms, bound by matrix unit (45 % of the critical path).
    1.63 ms 20.1 %: gemm_fusion_dot_general.9 (jax_step.py:23) for dynamic-slice-start.1 (jax_step.py:31, 8 MiB from host to hbm), 10 times; the longest: could begin only then, took 163 us
    1.63 ms 20.0 %: gemm_fusion_dot_general.2 (jax_step.py:23) for dynamic-update-slice-start.1 (jax_step.py:31, 8 MiB from hbm to host), 10 times; the longest: could begin only then, took 163 us
    67.8 us 0.8 %: gemm_fusion_dot_general.3 (jax_step.py:23) for fusion-start (w[1], 8 MiB from hbm to hbm), 10 times; the longest: 6.78 us in its own queue
    67.8 us 0.8 %: loop_add_fusion.1 (jax_step.py:31) for fusion-start.4 (jax_step.py:31, 8 MiB from hbm to hbm), 10 times; the longest: 6.78 us in its own queue
    67.8 us 0.8 %: gemm_fusion_dot_general.9 (jax_step.py:23) for fusion-start.2 (w[0], 8 MiB from hbm to hbm), 10 times; the longest: 6.78 us in its own queue
    hbm: 456 MiB live at 3.28 ms; placed by the compiler
        80 MiB  loop_dynamic_update_slice_fusion.2  temporary  bf16[10,1024,4096]{2,1,0}  jax_step.py:23
$ echelon run --trace traces/gpu_h100-sxm/jax_profile.xplane.pb.gz --device h100-sxm --step 2 | grep -E 'It takes|- '
  It takes 7.76 ms, bound by matrix unit (45 % of the critical path).
  - the profile holds the programs that ran: 'echelon import FILE --program jit_step -o program.hlo.pb' takes one out, for what its memory holds by name and for passes
  - step 2 of 3 alone, from jit_step(6643): what was asked for before is held as it was then, and takes no time here
$ echelon import traces/gpu_h100-sxm/jax_profile.xplane.pb.gz --program jit__normal -o $T/none
echelon: traces/gpu_h100-sxm/jax_profile.xplane.pb.gz: several programs are called 'jit__normal'; expected jit__normal(3318), jit__normal(4650), jit__normal(5979)
exit 2
$ echelon import traces/gpu_h100-sxm/jax_profile.xplane.pb.gz --program step
echelon: traces/gpu_h100-sxm/jax_profile.xplane.pb.gz: it holds no program 'step'; expected jit__normal(3318), jit__normal(4650), jit__normal(5979), jit__threefry_seed(663), jit__threefry_split(1327), jit_dynamic_slice(1991), jit_multiply(3985), jit_multiply(5315), jit_squeeze(2655), jit_stage(0), jit_step(6643)
exit 2
$ echelon import traces/gpu_h100-sxm/torch_profile.json.gz --program step
echelon: traces/gpu_h100-sxm/torch_profile.json.gz: it holds no programs; a profile that JAX or TensorFlow wrote (*.xplane.pb) does
exit 2
$ echelon import traces/gpu_h100-sxm/jax_profile.xplane.pb.gz --program step --to ech
echelon import: --program takes a program out as it stands; expected no --to, --format, --device, --beside or --anonymize with it
exit 2
$ for pass in offload remat; do echelon run --trace traces/gpu_h100-sxm/jax_profile.xplane.pb.gz --device h100-sxm --pass $pass | grep Nothing; done
    Nothing: pass offload leaves it as it is: it does not say which arrays its operations use; the program that the profile holds does: 'echelon import FILE --program jit_step -o program.hlo.pb'.
    Nothing: pass remat leaves it as it is: it does not say which arrays its operations use; the program that the profile holds does: 'echelon import FILE --program jit_step -o program.hlo.pb'.
$ echelon import traces/gpt_offload.v5e -o - 2>/dev/null | head -1
echelon-trace 1 "hlo"
