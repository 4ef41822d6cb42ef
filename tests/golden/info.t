What is in a file, on a device, in a shape: the verbs that run nothing, and the forms of their output.
$ echelon info tests/golden/data/stream.ech
tests/golden/data/stream.ech: ech
14 operations on 3 queues, 8 buffers
  kernel 2  copy 4  alloc 4  free 4
bytes
  allocated in all           3.73 GiB  (4000000000)
  most live in hbm           2.79 GiB  (3000000000)
  most live in host          3.73 GiB  (4000000000)
  live at the end                 0 B  (0)
  host to device             1.86 GiB  (2000000000)
  device to host             1.86 GiB  (2000000000)
  device to device                0 B  (0)
what the file says, what was inferred
  sizes of allocations   known 100.0 %
  bytes of copies        known 100.0 %
  bytes of kernels       known 100.0 %
  operations of kernels  known 100.0 %
$ echelon info tests/golden/data/stream.ech --json | grep -o '"[a-z0-9_]*" : *[^ ]*$' | tr '\n' ' '; echo
"format" : "ech", "source_format" : "test", "events" : 14, "ops" : { "kernel" : 2, "copy" : 4, "alloc" : 4, "free" : 4, "collective" : 0, "loop" : 0, "signal" : 0, "wait" : 0, "mark" : 0, "memset" : 0 "buffers" : 8, "queues" : 3, "bytes" : { "allocated" : 4000000000, "peak_live" : 3000000000, "h2d" : 2000000000, "d2h" : 2000000000, "d2d" : 0, "h2h" : 0, "end_allocated" : 0, "end_reserved" : 0 "span_ps" : 0, "recorded_ps" : { "kernel" : 0, "copy" : 0, "memset" : 0 "origins" : { "copy_bytes" : { "absent" : 0, "known" : 4, "inferred" : 0, "assumed" : 0 "kernel_bytes" : { "absent" : 0, "known" : 2, "inferred" : 0, "assumed" : 0 "kernel_work" : { "absent" : 0, "known" : 2, "inferred" : 0, "assumed" : 0 "allocation_bytes" : { "absent" : 0, "known" : 4, "inferred" : 0, "assumed" : 0 "loop_trips" : { "absent" : 0, "known" : 0, "inferred" : 0, "assumed" : 0 "memories" : { "hbm" : { "allocations" : 4, "peak_live_bytes" : 3000000000, "end_live_bytes" : 0 "host" : { "allocations" : 4, "peak_live_bytes" : 4000000000, "end_live_bytes" : 4000000000 "names" : [], "names_on_all_devices" : [], "transfers" : [], "remarks" : [] 
$ echelon info tests/golden/data/oom.pickle
tests/golden/data/oom.pickle: memory_snapshot
11 operations on 2 queues, 6 buffers
  alloc 6  free 1  mark 4
bytes
  allocated in all            156 MiB  (163577856)
  live at the peak            120 MiB  (125829120)
  live at the end              56 MiB  (58720256)
  reserved at the end         120 MiB  (125829120)
recorded: 110.00 us from first to last
what the file says, what was inferred
  sizes of allocations   known 100.0 %
PyTorch's allocator: default settings
out of memory 1 time: 100 MiB asked for, 120 MiB held, 90 MiB left on the device; 'echelon alloc tests/golden/data/oom.pickle' says who would have served it
records of the file
           6  alloc
           6  blocks
           3  segment_alloc
           3  segments
           1  free_completed
           1  free_requested
           1  oom
$ echelon info tests/golden/data/oom.pickle --json | grep -o '"[a-z0-9_]*" : *[^ ]*$' | tr '\n' ' '; echo
"format" : "memory_snapshot", "source_format" : "memory_snapshot", "events" : 11, "ops" : { "kernel" : 0, "copy" : 0, "alloc" : 6, "free" : 1, "collective" : 0, "loop" : 0, "signal" : 0, "wait" : 0, "mark" : 4, "memset" : 0 "buffers" : 6, "queues" : 2, "bytes" : { "allocated" : 163577856, "peak_live" : 125829120, "h2d" : 0, "d2h" : 0, "d2d" : 0, "h2h" : 0, "end_allocated" : 58720256, "end_reserved" : 125829120 "span_ps" : 110000000, "recorded_ps" : { "kernel" : 0, "copy" : 0, "memset" : 0 "origins" : { "copy_bytes" : { "absent" : 0, "known" : 0, "inferred" : 0, "assumed" : 0 "kernel_bytes" : { "absent" : 0, "known" : 0, "inferred" : 0, "assumed" : 0 "kernel_work" : { "absent" : 0, "known" : 0, "inferred" : 0, "assumed" : 0 "allocation_bytes" : { "absent" : 0, "known" : 6, "inferred" : 0, "assumed" : 0 "loop_trips" : { "absent" : 0, "known" : 0, "inferred" : 0, "assumed" : 0 "memories" : { "hbm" : { "allocations" : 6, "peak_live_bytes" : 125829120, "end_live_bytes" : 58720256 "names" : [], "names_on_all_devices" : [], "transfers" : [], "properties" : { "time_zero_unix_us" : "1700000000000010", "end_allocated_bytes" : "58720256", "end_reserved_bytes" : "125829120" "records" : { "segments" : 3, "blocks" : 6, "alloc" : 6, "free_requested" : 1, "free_completed" : 1, "segment_alloc" : 3, "oom" : 1 "remarks" : [] 
$ echelon info tests/fuzz/corpus/memory_snapshot/small.4.pickle | grep '^  .*at the'
  live at the peak           2.00 MiB  (2098452)
  live at the end            1.27 KiB  (1300)
  in blocks at the end       1.50 KiB  (1536)
  reserved at the end          22 MiB  (23068672)
$ echelon info tests/fuzz/corpus/gpu_target/new.txtpb | head -12
tests/fuzz/corpus/gpu_target/new.txtpb: gpu_target_config, a device: NVIDIA H100
  memory hbm                 79.1 GiB, read 3.12 TB/s, written 3.12 TB/s
  memory host                   1 TiB, read 300 GB/s, written 300 GB/s
  link host                 28.9 GB/s to the device, 28.9 GB/s from it
  link nvlink                 23 GB/s to the device, 23 GB/s from it, each port
  unit matrix            bf16 989 TOP/s
  unit vector            f32 66.9 TOP/s
  unit transcendental    f32 4.18 TOP/s
give it as --device FILE; 'echelon import FILE -o DEVICE.yaml' writes it as a device file, with the source of every number
$ echelon info tests/fuzz/corpus/gpu_target/new.txtpb --json | grep -o '"[a-z0-9_]*" :' | sort -u | tr -d '\n'; echo
"bf16" :"capacity_bytes" :"device" :"f32" :"format" :"from_device_bytes_per_s" :"hbm" :"host" :"links" :"matrix" :"memories" :"name" :"nominal_bytes_per_s" :"nvlink" :"read_bytes_per_s" :"summary" :"to_device_bytes_per_s" :"transcendental" :"units" :"vector" :"write_bytes_per_s" :
$ echelon info tests/golden/data/small.yaml
tests/golden/data/small.yaml: a device: a device for tests
  memory hbm                 3.73 GiB, read 100 GB/s, written 100 GB/s
  memory host                59.6 GiB, read unlimited, written unlimited
  link host                   10 GB/s to the device, 10 GB/s from it
  unit matrix            bf16 100 GOP/s
  unit vector            f32 10 GOP/s
'echelon list devices tests/golden/data/small.yaml --sources' tells every number and where it comes from
$ echelon info tests/fuzz/corpus/hlo_proto/attributes.pb --device tpu-v5e
tests/fuzz/corpus/hlo_proto/attributes.pb: hlo_proto
23 operations on 3 queues, 10 buffers
  kernel 6  alloc 7  free 6  collective 2  wait 2
bytes
  allocated in all            512 KiB  (524288)
  live at the peak           1.69 MiB  (1769472)
  live at the end            1.41 MiB  (1474560)
what the file says, what was inferred
  sizes of allocations   known 100.0 %
  bytes of kernels       known 83.3 % inferred 16.7 %
  operations of kernels  absent 50.0 % known 50.0 %
program attributes (tpu, tpu-v5e): 2 computations, 14 instructions, 11 in the schedule
memory (buffer assignment inside the program)
  arguments              1.38 MiB
  outputs                32 KiB
  temporaries            320 KiB
  peak, all memories     1.72 MiB
  heap of hbm (0)        320 KiB, at most 320 KiB live
kernels, one after the other on tpu-v5e, loops as often as they run: 14.9 us (5 in the schedule)
  Of the kernels' time 100 % is the model's own, which comes near the compiler's for such kernels.
records of the file
           5  parameter
           1  add
           1  all-reduce
           1  collective-permute
           1  convolution
           1  custom-call
           1  dot
           1  negate
           1  reshape
           1  slice
$ for f in hlo_proto/attributes.pb hlo_text/attributes.hlo.txt; do echelon import tests/fuzz/corpus/$f --device tpu-v5e 2>/dev/null | sed -n '/^ops/,$p' | md5sum; done | uniq | wc -l
1
$ echelon info nothing.ech
echelon: nothing.ech: No such file or directory
exit 1
$ echelon layout 'f32[4096,64]{1,0:T(8,128)}' 'bf16[8,128]' --device tpu-v5e
f32[4096,64]{1,0:T(8,128)}
  1048576 bytes dense (1 MiB), 2097152 padded (2 MiB): 50.0 % waste, 2.000x
  dimension 1: 64 takes 128, which alone costs 1 MiB
  cheapest order: f32[4096,64]{0,1:T(8,128)} takes 1 MiB
bf16[8,128]{1,0:T(8,128)(2,1)}
  2048 bytes dense (2 KiB), 2048 padded (2 KiB): 0.0 % waste, 1.000x
$ echelon layout 'f32[4096,64]{1,0:T(8,128)}' --device tpu-v5e --json | tr -d '\n '; echo
{"shapes":[{"text":"f32[4096,64]{1,0:T(8,128)}","dense_bytes":1048576,"padded_bytes":2097152,"waste":0.5,"dimensions":[{"size":4096,"padded":4096,"lost_bytes":0},{"size":64,"padded":128,"lost_bytes":1048576,"grow":128}],"better":"f32[4096,64]{0,1:T(8,128)}","better_bytes":1048576}]}
$ echelon layout 'f32[3,130]' --device tpu-v5e --json | grep -A9 dimensions; echelon layout 'f16[1001]' --device h100-sxm --json | grep -A6 tensor_cores
      "dimensions" : [
        {
          "size" : 3,
          "padded" : 4,
          "lost_bytes" : 1024,
          "grow" : 4
        },
        {
          "size" : 130,
          "padded" : 256,
      "tensor_cores" : {
        "row_bytes" : 2002,
        "usable" : false,
        "best" : false,
        "next_usable" : 1008,
        "next_best" : 1024
      }
$ echelon layout 'f32[4096,'
echelon layout: 'f32[4096,': at byte 9: '': expected a dimension
exit 2
$ for what in allocators planners passes formats experiments; do echelon list $what | grep -v '^      ' | cut -c3-18 | tr -s ' \n' ' '; echo; done
bfc jax tensorflow onnxruntime cupy pytorch pytorch_pinned cuda_async platform best_fit first_fit next_fit buddy tlsf slab arena plugin 
xla exact greedy 
place carry donate slice batch shard offload remat fuse schedule prefetch pin pad unplan plan serial 
ech memory_snapshot hlo alloc_text rmm_log minimalloc pytorch_et kineto nsys_sqlite rocpd rocprof_json rocprof_csv chakra chakra_json hlo_proto xplane cupti pretend pretend_tpu xplane_json scalesim memory_timeline memory_profile memory_usage_rep out_of_memory memory_figures 
batch_sizes break_even buffers capacity checkpoint_or_of every_chip half_link half_vmem head_dim least_hbm offload_adam offload_gpt offload_h100 offload_mlp overlap prefetch_depth slowest_link tpu_v1 tutorial twice_hbm 
$ echelon list engines | grep -v '^      ' | cut -c3-18
native          
simgrid         
cuda            
$ echelon list allocators --json | grep -c name
72
$ echelon list things
echelon list: expected one of devices, allocators, planners, passes, formats, writers, engines, experiments, measures
exit 2
$ echelon alloc tests/golden/data/oom.pickle --json --report | grep -E '"(format|capacity_bytes|peak_live_bytes|peak_reserved_bytes|failed|fragmentation|out_of_memory_served)"' | tr -s ' '
 "format" : "memory_snapshot",
 "capacity_bytes" : 220200960,
 "failed" : 1,
 "peak_live_bytes" : 125829120,
 "peak_reserved_bytes" : 125829120,
 "fragmentation" : 0.0,
 "out_of_memory_served" : 0,
 "failed" : 0,
 "peak_live_bytes" : 163577856,
 "peak_reserved_bytes" : 163577856,
 "fragmentation" : 0.0,
 "out_of_memory_served" : 1,
 "failed" : 0,
 "peak_live_bytes" : 163577856,
 "peak_reserved_bytes" : 167772160,
 "fragmentation" : 0.025000000000000022,
 "out_of_memory_served" : 1,
 "failed" : 0,
 "peak_live_bytes" : 163577856,
 "peak_reserved_bytes" : 167772160,
 "fragmentation" : 0.025000000000000022,
 "out_of_memory_served" : 1,
$ echelon run --trace tests/fuzz/corpus/recorded/no_parts.ech --device tests/golden/data/small.yaml --json | iconv -f utf-8 -t utf-8 | grep -c makespan_ps
3
$ echelon info traces/gpt_offload.v5e --json | sed -n '/"memory_analysis"/,/"copies"/p' | tr -d ' \n'; echo
"memory_analysis":{"argument":6821888,"output":6816768,"temp":1327104,"alias":6815744,"constant":6144,"host_argument":0,"host_output":0,"host_alias":0,"host_temp":2097152,"peak":39457792},"heap":{"0":{"allocation_bytes":1311232,"peak_live_bytes":525312},"1":{"allocation_bytes":32628736,"peak_live_bytes":32628736},"2":{"allocation_bytes":36,"peak_live_bytes":36},"5":{"allocation_bytes":2097152,"peak_live_bytes":2097152},"6":{"allocation_bytes":512,"peak_live_bytes":512}},"spaces":{"0":8167936,"1":32628736,"2":36,"5":2097152,"6":512},"copies":{
$ echelon info traces/gpt_offload.v5e --json | sed -n '/"copies"/,/"program"/p' | tr -d ' \n'; echo
"copies":{"1->0":6,"0->1":6},"program":{
$ cat tests/golden/data/oom.pickle | echelon info - | head -n 2
-: memory_snapshot
11 operations on 2 queues, 6 buffers
$ gzip -c tests/golden/data/oom.pickle | echelon alloc /dev/stdin -a pytorch: | head -n 1
/dev/stdin: memory_snapshot, 9 events; device memory 210 MiB, what the recording held and what was free when it ran out
$ echelon info - </dev/null
echelon: -: nothing came from standard input
exit 1
$ echelon info traces/decode_64.v5e | grep -E 'heap of vector|most live in vector'
  most live in vector         105 MiB  (109627392)
  heap of vector (1)     105 MiB, at most 105 MiB live
$ echelon tests/golden/data/stream.ech
echelon: 'tests/golden/data/stream.ech' is a file, not a verb; 'echelon info tests/golden/data/stream.ech' says what is in it, 'echelon help' lists the verbs
exit 2
$ echelon info h100-sxm | sed -n '1,2p;$p'
h100-sxm: a device: NVIDIA H100 SXM5, 80 GB HBM3
  memory hbm                   80 GiB, read 3.14 TB/s, written 3.14 TB/s
'echelon list devices h100-sxm --sources' tells every number and where it comes from
$ echelon info
echelon info: one FILE is needed; '-' reads what is pasted into the terminal, up to Ctrl-D
exit 2
$ printf 'base: h100-sxm\nmemories: {hbm: {capacity: 10GiB}}\n' > $T/mine.yaml; cp $T/mine.yaml $T/mine.yml; for f in $T/mine.yaml $T/mine.yml; do echelon info $f | sed "s,$T/,,g" | sed -n '1,2p;$p'; done  # a device file
mine.yaml: a device: mine
  memory hbm                   10 GiB, read 3.14 TB/s, written 3.14 TB/s
'echelon list devices mine.yaml --sources' tells every number and where it comes from
mine.yml: a device: mine.yml
  memory hbm                   10 GiB, read 3.14 TB/s, written 3.14 TB/s
'echelon list devices mine.yml --sources' tells every number and where it comes from
$ cd $T; echelon list devices mine.yml; echelon run --trace $OLDPWD/traces/adam_none.h100 --device mine.yml | sed 3q
  mine.yml
adam_none.h100 on mine.yml

  It fits. hbm 2.52 GiB of 9.11 GiB (28 %)
$ echelon info traces/gpu_h100-sxm/models/ResNet-50__256.json.gz | sed -n "/steps and/,/kernels and/p"
recorded steps and phases
       count       median        total  name
           1     67.49 ms     67.49 ms  step 1
           1     50.05 ms     50.05 ms  step 0
           1     29.44 ms     29.44 ms  step 0, on the device
           1     29.08 ms     29.08 ms  step 1, on the device
           2      2.46 ms      4.91 ms  Optimizer.step#SGD.step
           2    428.00 us    855.99 us  Optimizer.zero_grad#SGD.zero_grad
           2    364.71 us    729.41 us  Optimizer.step#SGD.step, on the device
recorded kernels and collectives, longest in all first
$ echelon info tests/fuzz/corpus/memory_figures/megatron.txt | grep '^room'
room for 44 GiB have: a40 (44.4 GiB, and 5 like it), jetson-agx-orin (61.4 GiB), h100-pcie (79.1 GiB, and 6 like it), h100-nvl (93.1 GiB), gh200 (94.5 GiB, and 4 like it) and 11 larger ('echelon list devices')
