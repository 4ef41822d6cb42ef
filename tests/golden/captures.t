What run makes of captured files: on what they were recorded, what their allocator had before.
$ D=tests/golden/data; echelon run --trace $D/figures.ech --device h100-sxm --engine native | grep recorded; sed 's/"304"/"300"/' $D/figures.ech >$T/other.ech; echelon run --trace $T/other.ech --device h100-sxm --engine native | grep recorded; sed -e 's/AMD/Nvidia/;s/"304"/"132"/;s/"2100000"/"1980000"/;s/206100000000/84900000000/;s/"4"/"0"/' $D/figures.ech >$T/nvidia.ech; echelon run --trace $T/nvidia.ech --device a100-80 --engine native | grep 'recorded on'
  It takes 53.5 us, bound by recorded kernel times (100 % of the critical path).
    scale                         53.5 us  100.0 % ####################  kernel, recorded, scaled
  Kernel times: 1 recorded, scaled. Engine: native (0.1.0).
  - recorded on AMD Instinct MI300X: recorded times are carried from mi300x to h100-sxm
  - of the 40 us recorded on mi300x, 100.0 % by the rates of memory, or of products, alone
  It takes 40 us, bound by recorded kernel times (100 % of the critical path).
    scale                           40 us  100.0 % ####################  kernel, recorded
  Kernel times: 1 recorded. Engine: native (0.1.0).
  - recorded on a GPU by AMD of 300 multiprocessors at 2.1 GHz with 192 GiB, which is all that the file says of it: its recorded times count as those of h100-sxm
  - recorded on NVIDIA H100 80GB HBM3: recorded times are carried from h100-sxm to a100-80
  - of the 40 us recorded on h100-sxm, 100.0 % by the rates of memory, or of products, alone
$ D=tests/golden/data; echelon run --trace $D/warm_cache.json --device h100-sxm --engine native | grep -E 'takes|held'; for c in '2s/LaunchKernel/Malloc/;s/Reserved":130023424,"Total Allocated":7/Reserved":96468992,"Total Allocated":7/' 's/"Total Reserved":130023424,//' 's/"Total Reserved":130023424,//;s/"cudaLaunchKernel"/"cudaMalloc"/'; do sed "$c" $D/warm_cache.json >$T/changed.json; echelon run --trace $T/changed.json --device h100-sxm --engine native | grep -E 'It takes'; done
  100 MiB reserved by allocator pytorch, as recorded; nvidia-smi would show 612 MiB, 512 MiB of it the process's context. When it was recorded it held 124 MiB: how its cache lay when that began is not known here.
  It takes 50 us, bound by recorded kernel times (100 % of the critical path).
  No schedule of it is shorter than 50.0 us on this device; with no overlap at all it takes 50 us.
  It takes 208 us, bound by allocator (100 % of the critical path).
  It takes 50 us, bound by recorded kernel times (100 % of the critical path).
  It takes 416 us, bound by allocator (100 % of the critical path).
$ for r in 0 1; do printf '{"version": "0.0.4"}\n{"id": "1", "name": "tell", "type": "COMM_SEND_NODE", "attr": [{"name": "comm_size", "int64Val": "2097152"}, {"name": "comm_dst", "int32Val": %s}, {"name": "comm_tag", "int32Val": 7}]}\n{"id": "2", "name": "hear", "type": "COMM_RECV_NODE", "dataDeps": ["1"], "attr": [{"name": "comm_size", "int64Val": "2097152"}, {"name": "comm_src", "int32Val": %s}, {"name": "comm_tag", "int32Val": 7}]}\n{"id": "3", "name": "work", "type": "COMP_NODE", "dataDeps": ["2"], "durationMicros": "%s"}\n{"id": "4", "name": "sum", "type": "COMM_COLL_NODE", "dataDeps": ["3"], "attr": [{"name": "comm_type", "int64Val": "0"}, {"name": "comm_size", "int64Val": "1048576"}, {"name": "pg_name", "stringVal": "both"}]}\n{"id": "5", "name": "meet", "type": "COMM_COLL_NODE", "dataDeps": ["4"], "attr": [{"name": "comm_type", "int64Val": "9"}, {"name": "comm_size", "int64Val": "8"}]}\n' $((1-r)) $((1-r)) $((r*90+10)) >$T/ring.$r.json; done; cd $T; echelon import ring.1.json | tail -5; echelon run --trace ring.1.json ring.0.json --device h100-sxm
collective "tell" q=0 type=send from=2 bytes=2097152 launch="meets=e53d9959314e6ce1/0>18446744073709551615"
collective "hear" q=1 type=recv from=2 bytes=2097152 after=-1 launch="meets=5e40defe324ff681/0"
kernel "work" q=2 after=-1 duration=100000000
collective "sum" q=3 type=all-reduce from=0 bytes=1048576 after=-1 launch="meets=cd17f69bc69bbca2/0"
wait "meet" q=3 after=-1 launch="meets=0/0"
ring.1 and 1 more: 2 ranks on h100-sxm

  Nothing here says what lies in memory.
  It takes 158 us; 28.4 % of all ranks' time is waiting for one another.

                                                  kernels   communication       waits for           host,
   rank       live   reserved       time              run           alone           ranks            idle
      0        0 B        0 B     158 us      10 us   6 %   58.2 us  37 %     90 us  57 %      0 ps   0 %
      1        0 B        0 B     158 us     100 us  63 %   58.2 us  37 %      0 ps   0 %      0 ps   0 %

  Who waits for whom, and what that one does meanwhile
    rank 0 for 1           90 us  1 time, all at sum: runs kernels 100 %
    Rank 1 is waited for longest, 90 us by all together; its kernels take 100 us, those of the others 10 us, most of it at work: 100 us against 10 us.

  Remarks
    ranks 0, 1: the file does not say what it was recorded on: its recorded times count as those of h100-sxm
$ printf '{"version": "0.0.4"}\n{"id": "1", "name": "c10d::allreduce_", "type": "COMM_COLL_NODE", "attr": [{"name": "comm_size", "int64Val": "3145728"}]}\n{"id": "2", "name": "exchange", "type": "COMM_COLL_NODE", "attr": [{"name": "comm_size", "int64Val": "2097152"}]}\n{"id": "3", "name": "c10d::barrier", "type": "COMM_COLL_NODE"}\n' >$T/untold.json; cd $T; echelon import untold.json 2>&1 | tail -4
ops 3
collective "c10d::allreduce_" q=0 type=all-reduce from=0 bytes=3145728 launch="meets=0/0"
collective "exchange" q=0 type=permute from=0 bytes=2097152 launch="meets=0/1"
wait "c10d::barrier" q=0 launch="meets=0/2"
$ printf '{"traceEvents": [{"ph": "X", "cat": "CatX", "name": "t", "pid": 1, "tid": 1, "ts": 5, "dur": 2}]}' >$T/other.json; printf 'Kernel_Name,GPU_ID,Start_Timestamp,End_Timestamp\nscale,1,700100,700200\nscale,1,7.0E+05,7.1E+05\n' >$T/rounded.csv; cd $T; for f in other.json rounded.csv; do echelon run --trace $f --device mi300x --engine native | grep -E 'takes|  [!-] '; done
  It takes no time: nothing in it has a cost.
  - none of its events is of a kind that PyTorch's profiler writes (its own are 'CatX'): a timeline of another tool, of which nothing is read here. What is: profiles of torch.profiler, of XLA (.xplane.pb, its trace.json.gz) and of ONNX Runtime, Nsight Systems' SQLite, rocprofv3's outputs
  It takes 100 ns, bound by recorded kernel times (100 % of the critical path).
  No schedule of it is shorter than 100 ns on this device; with no overlap at all it takes 100 ns.
  ! 1 rows without times, first at rounded.csv:3: Start_Timestamp: '7.0E+05'
  - the file does not say what it was recorded on: its recorded times count as those of mi300x
$ printf 'echelon-trace 1 "test"\nstrings 0\nmemories 1\n"hbm"\nqueues 1\ncompute 0 "stream 7"\nbuffers 2\nb "weights" m=0 bytes=120000000000 resident=1\nb "(data of unknown place)" m=0 bytes=0 resident=1\nops 1\nkernel "scale" q=0 r=1:4096 start=0 duration=40000000\n' >$T/much.ech; cd $T; echelon info much.ech | grep -A2 held; echelon run --trace much.ech --device h100-sxm --engine native | grep -A2 'What that is'
held, most first
       112 GiB  weights
what the file says, what was inferred
  What that is:
     112 GiB  weights
  (1.39 GiB of the 80 GiB of hbm are kept by the driver and the process's context.)
