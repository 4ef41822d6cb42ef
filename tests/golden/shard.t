The shard pass: what every chip holds whole is split over them.
$ echelon run --trace data_parallel_whole.h100 --device h100-sxm --engine native --pass shard 2>&1 | grep -E '^  (It (fits|takes)|  - .* same on)|shard:|hbm: .*->'
  It fits. hbm 660 MiB of 79.1 GiB (1 %)
  It takes 3.00 ms, bound by nvlink link out (30 % of the critical path).
    Traffic of hbm: 6.28 GiB -> 4.51 GiB (0.72x).
    hbm: 1.46 GiB -> 660 MiB (-834 MiB). At its fullest it holds -840 MiB arguments.
  - shard: 75 arrays (960 MiB, 25 of them weights), alike on each of 8 devices, split over them: 120 MiB on each
  - shard: 25 kernels update a part each; 160 MiB are gathered when the step begins; 1 of the reductions leaves each device its part
$ echelon run --trace data_parallel_parts.h100 --device h100-sxm --engine native 2>&1 | grep -E '^  It (fits|takes)'
  It fits. hbm 658 MiB of 79.1 GiB (1 %)
  It takes 3.05 ms, bound by nvlink link out (30 % of the critical path).
$ echelon run --trace data_parallel_whole.v5e --device tpu-v5e --engine native --set device.memories.hbm.capacity=520MiB --set device.memories.hbm.available=520MiB --pass shard 2>&1 | grep -E '^  (It (may|fits|takes)|Compilers)'
  It may fit. vector 112 MiB of 128 MiB (88 %), hbm 448 MiB of 520 MiB (86 %), scalar 4 KiB of 1 MiB (0 %)
  Compilers asked for it have taken up to 1.25 times what shard says; that would be 560 MiB of hbm. The compiler settles it: with the measure in the program (jax.checkpoint, its offload policies, memory_kind="pinned_host", shardings), 'echelon capture --pretend tpu-v5e -o asked -- python train.py' tells what it needs then (large programs: compile.py --no-codegen tells the memory, long before the compiler is done).
  It takes 8.20 ms, bound by ici link out (64 % of the critical path).
$ echelon run --trace data_parallel_whole.v5e --device tpu-v5e --engine native --pass shard:names=opt* 2>&1 | grep -E 'shard:'
  after pass shard:names=opt*
  - shard: nothing fits names=opt*: did you mean '*out*'?
  - shard: left the trace as it is: no array is called 'opt*'; arguments are weights*, tokens, labels, first*, second*
$ echelon run --trace adam_none.v5e --device tpu-v5e --engine native --pass shard 2>&1 | grep -E 'shard:'
  - shard: left the trace as it is: one device runs this alone
