Two ranks of a pipeline in PyTorch on GPUs that were not there, replayed together: a bubble of (p - 1) / (m + p - 1) = 1 / 5 of the time.
$ echelon run --trace traces/pipeline_pytorch.h100/rank*.gz --device h100-sxm 2>&1 | head -5
note traces/pipeline_pytorch.h100/rank0.pickle.gz and its like: read beside the captures of the same name, not as ranks
rank0.pretend and 1 more: 2 ranks on h100-sxm

  Every rank fits.
  It takes 79.9 ms, step 2 of 2 takes 25.9 ms; 20.4 % of all ranks' time in that step is waiting for one another.
$ for r in 0 1; do cp tests/golden/data/stream.ech $T/s.$r.ech; done; echelon run --trace $T/s.?.ech --device tests/golden/data/small.yaml 2>&1 >/dev/null
note these captures know of no rank and meet nowhere: were they several runs of one program, each is given alone
$ echelon run --trace traces/pipeline_pytorch.h100/rank1.pretend.gz traces/pipeline_pytorch.h100/rank0.pretend.gz --device h100-sxm
rank1.pretend and 1 more: 2 ranks on h100-sxm

  Every rank fits.
  It takes 79.9 ms, step 2 of 2 takes 25.9 ms; 20.4 % of all ranks' time in that step is waiting for one another.

                                                  kernels   communication       waits for           host,
   rank       live   reserved       step              run           alone           ranks            idle
      0   2.53 GiB   1.67 GiB    25.9 ms    19.6 ms  76 %    430 us   2 %   5.79 ms  22 %   98.8 us   0 %
      1   2.66 GiB   1.82 GiB    25.9 ms    20.4 ms  79 %    534 us   2 %   4.78 ms  18 %    141 us   1 %
  Live, but beside what the allocator has reserved: 960 MiB of each rank (NCCL's buffers).

  Who waits for whom in that step, and what that one does meanwhile
    rank 0 for 1         5.79 ms  4 times, most at permute: runs kernels 99 %
    rank 1 for 0         4.78 ms  1 time, all at recv: runs kernels 99 %
    Rank 1 is waited for longest, 5.79 ms by all together; its kernels take 20.4 ms, those of the others 19.6 ms, most of it at layer_norm_grad_input_...BFloat16, float, false>: 219 us against none.
$ echelon run traces/pipeline_pytorch.h100/rank*.pretend.gz --device h100-sxm --set device.memories.hbm.capacity=2GiB --set device.memories.hbm.available=1GiB | head -n 8
rank0.pretend and 1 more: 2 ranks on h100-sxm

  IT DOES NOT FIT: ranks 0, 1. (The others were replayed as if nobody had to wait for those; times mean little.)
  It takes 897 us; 0.0 % of all ranks' time is waiting for one another.

                                                  kernels   communication       waits for           host,
   rank       live   reserved       time              run           alone           ranks            idle
      0    992 MiB    418 MiB     897 us     443 us  49 %   22.8 us   3 %      0 ps   0 %    431 us  48 %  does not fit
$ echelon run traces/pipeline_pytorch.h100/rank*.pretend.gz --device h100-sxm --set device.links.nvlink.to_device=x0.1 --set device.links.nvlink.from_device=x0.1 | head -n 5
rank0.pretend and 1 more: 2 ranks on h100-sxm

  Every rank fits.
  It takes 92.2 ms, step 2 of 2 takes 30.0 ms; 18.3 % of all ranks' time in that step is waiting for one another.
  What that changes: 25.9 ms -> 30.0 ms; the fullest rank's memory 2.66 GiB -> 2.66 GiB; waiting for one another 20.4 % -> 18.3 %.
$ echelon run traces/pipeline_pytorch.h100/rank*.pretend.gz --device h100-sxm --json | tr -d ' \n' | grep -o '"ranks":.*' | grep -oE '"(rank|time_ps|waits_for_ranks_ps|peers)":[0-9]+' | head -n 8
"rank":0
"time_ps":25875108863
"waits_for_ranks_ps":5788723408
"rank":1
"time_ps":5788723408
"waits_for_ranks_ps":0
"peers":0
"peers":0
$ echelon run traces/pipeline_pytorch.h100/rank*.pretend.gz --device h100-sxm -o $T/out >/dev/null 2>&1; cd $T && ls out out/001; cp out/report.html a.html; echelon report out >/dev/null && cmp a.html out/report.html
out:
000
001
details.json
ranks.json
report.html
summary.txt
timeline.pftrace

out/001:
details.json
memory.pprof.gz
report.html
run.json
summary.txt
time.pprof.gz
$ echelon run --trace traces/pipeline_pytorch.h100/rank0.pretend.gz traces/pipeline_pytorch.h100/rank0.pretend.gz --device h100-sxm
echelon: traces/pipeline_pytorch.h100/rank0.pretend.gz and traces/pipeline_pytorch.h100/rank0.pretend.gz are both rank 0; expected the captures of one run, one of each rank
exit 2
$ echelon run traces/pipeline_pytorch.h100/rank*.pretend.gz --device h100-sxm --find device.memories.hbm.capacity=1GiB..8GiB
echelon run: --find: searches with one trace; of several ranks, which are replayed together, try values by --set, one run each, and 'echelon compare' their folders
exit 2
$ echelon run traces/pipeline_pytorch.h100/rank0.pretend.gz configs/experiments/tutorial.yaml --device h100-sxm
echelon run: more than one experiment file
exit 2
$ echelon import traces/pipeline_pytorch.h100/rank0.pretend.gz --anonymize -o $T/0.ech 2>/dev/null; echelon import traces/pipeline_pytorch.h100/rank1.pretend.gz -o $T/1.ech 2>/dev/null; cd $T && echelon run --trace 0.ech --trace 1.ech --device h100-sxm | head -n 9
0 and 1 more: 2 ranks on h100-sxm

  Every rank fits.
  It takes 79.9 ms, step 2 of 2 takes 25.9 ms; 20.4 % of all ranks' time in that step is waiting for one another.

                                                  kernels   communication       waits for           host,
   rank       live   reserved       step              run           alone           ranks            idle
      0   2.53 GiB   1.67 GiB    25.9 ms    19.6 ms  76 %    430 us   2 %   5.79 ms  22 %   98.8 us   0 %
      1   2.66 GiB   1.82 GiB    25.9 ms    20.4 ms  79 %    534 us   2 %   4.78 ms  18 %    141 us   1 %
$ echelon run --trace traces/pipeline_pytorch.h100/rank0.pretend.gz --device h100-sxm --engine native --set device.memories.hbm.capacity=2GiB --set device.memories.hbm.available=2GiB | grep -o 'IT DOES NOT FIT'; echelon alloc traces/pipeline_pytorch.h100/rank0.pretend.gz -c 2GiB | grep -o '[^ ]*: out of memory at event.*memory;'
IT DOES NOT FIT
recorded: out of memory at event 63, 128 MiB for AddmmBackward0 of down (Linear), for want of memory;
pytorch:expandable_segments:True: out of memory at event 63, 128 MiB for AddmmBackward0 of down (Linear), for want of memory;
pytorch:backend:cudaMallocAsync: out of memory at event 63, 128 MiB for AddmmBackward0 of down (Linear), for want of memory;
$ P=traces/pipeline_pytorch.h100; echelon run $P/rank*.pretend.gz --device h100-sxm --set ranks.1.device.kernel.power=400 -o $T/slow 2>/dev/null | sed -n 3,13p; echelon run $P/rank*.pretend.gz --device h100-sxm -o $T/as_is >/dev/null 2>&1; cd $T; echelon compare as_is slow; echelon compare as_is slow --json | tr -d ' \n' | grep -o '"relative":[0-9.]*'; echelon compare slow as_is/000
  Every rank fits.
  It takes 106 ms, step 2 of 2 takes 34.0 ms; 27.4 % of all ranks' time in that step is waiting for one another.
  What that changes: 25.9 ms -> 34.0 ms; the fullest rank's memory 2.66 GiB -> 2.66 GiB; waiting for one another 20.4 % -> 27.4 %.

                                                  kernels   communication       waits for           host,
   rank       live   reserved       step              run           alone           ranks            idle
      0   2.53 GiB   1.67 GiB    34.0 ms    19.6 ms  58 %    430 us   1 %   13.8 ms  41 %   98.8 us   0 %
      1   2.66 GiB   1.82 GiB    34.0 ms    28.5 ms  84 %    534 us   2 %   4.80 ms  14 %    141 us   0 %
  Live, but beside what the allocator has reserved: 960 MiB of each rank (NCCL's buffers).

  Who waits for whom in that step, and what that one does meanwhile
  run    ranks       time       step  relative  waiting    fullest
  as_is      2    79.9 ms    25.9 ms         -   20.4 %   2.66 GiB
  slow       2     106 ms    34.0 ms     1.314   27.4 %   2.66 GiB

  What changed from as_is to slow
   rank                     step        kernels  communication          waits     host, idle                     live
      0       25.9 ms -> 34.0 ms       +86.4 us              =       +8.04 ms              =     2.53 GiB -> 2.53 GiB
      1       25.9 ms -> 34.0 ms       +8.11 ms              =       +21.6 us              =     2.66 GiB -> 2.66 GiB

  What changed within one rank, and why: echelon compare as_is/000 slow/000
"relative":1.0
"relative":1.3141378520197493
echelon: slow: holds a run of several ranks, as_is/000 one of a single trace; compare one of its ranks (slow/000, ...)
exit 2
$ echelon run traces/pipeline_pytorch.h100/rank*.pretend.gz --device h100-sxm --pass remat | tail -n 8

  Remarks
    rank 0: remat: 45 arrays (4.50 GiB) made again instead of kept: 45 kernels run again, 15.8 ms by their own times
    rank 0: remat: 15 kernels that made only what is not kept are gone
    rank 0: remat: 3 arrays (288 MiB) kept: sent by another rank, once
    rank 1: remat: 18 arrays (1.41 GiB) made again instead of kept: 18 kernels run again, 4.68 ms by their own times
    rank 1: remat: 2 kernels that made only what is not kept are gone
    rank 1: remat: 10 arrays (512 MiB) kept: sent by another rank, once
$ P=traces/pipeline_pytorch.h100; echelon run $P/rank*.pretend.gz --device h100-sxm --set ranks.3.device.kernel.power=400; echelon run $P/rank*.pretend.gz --device h100-sxm --engine simgrid
echelon: --set ranks.3.device.kernel.power=400: no capture of that rank is given
echelon run: --engine simgrid: replays one trace; several ranks share the native engine
exit 2
$ P=traces/pipeline_pytorch.h100; echelon run $P/rank*.pretend.gz --device h100-sxm --beside x; echelon run $P/rank*.pretend.gz --device h100-sxm --set 'sweep=[{path: device.kernel.power, values: [400, 500]}]'; echelon advise $P/rank*.pretend.gz --device h100-sxm
echelon run: --beside: of several ranks each has its own; expected it beside the capture under the same stem (STEM.pickle)
echelon: sweep: varies runs of one trace; of several ranks, which are replayed together, expected one run each, and 'echelon compare' of their folders
echelon advise: expected one trace; of several ranks the one that does not fit, or the fullest: 'echelon run --trace A B ...' tells which
exit 2
$ echelon run --trace tests/golden/data/retry.ech tests/golden/data/retry.ech --device h100-sxm --set ranks.1.device.memories.hbm.available=48MiB | grep -E 'fits?|FIT|meets'
note these captures know of no rank and meet nowhere: were they several runs of one program, each is given alone
  IT DOES NOT FIT: rank 1. (The others were replayed as if nobody had to wait for those; times mean little.)
      1     31 MiB     31 MiB       0 ps       0 ps   0 %      0 ps   0 %      0 ps   0 %      0 ps   0 %  does not fit
  IT DOES NOT FIT. hbm 41 MiB of 48 MiB (85 %)
  What would make it fit:
    ranks 0, 1: nothing in these traces says what of one rank meets what of another: each is replayed by itself. Are they ranks of one run? Two runs captured with the same -o leave files that the same step.*.pretend matches; then give one of them
$ echelon run --trace traces/pipeline_pytorch.h100/rank*.pretend.gz --device h100-sxm --set device.memories.hbm.capacity=8GiB --set ranks.1.device.memories.hbm.capacity=4GiB | grep -E 'fits?$|FIT'
  IT DOES NOT FIT: rank 1. (The others were replayed as if nobody had to wait for those; times mean little.)
      1   2.47 GiB   1.57 GiB    17.2 ms    16.6 ms  97 %    343 us   2 %      0 ps   0 %    253 us   1 %  does not fit
  IT DOES NOT FIT. hbm 2.56 GiB of 2.61 GiB (98 %), host 4 B of 2 TiB (0 %)
$ G=traces/gpt_pytorch.h100/gpt.pretend.gz; for s in mps slices; do echelon run --trace $G $G --device h100-sxm --step last --set replay.share=$s | sed -n 1,12p; done
gpt.pretend and 1 more: 2 processes on one h100-sxm, side by side (MPS)

  They fit: together they have at most 11.0 GiB of 79.1 GiB of hbm, 1 GiB of it their contexts.
  It takes 23.1 ms, step 1 of 1 takes 23.1 ms.
  Beside what each takes alone: 0 11.8 ms -> 23.1 ms (x1.96), 1 11.8 ms -> 23.1 ms (x1.96). One after the other they take 23.6 ms, together 23.1 ms.

                                                    kernels   communication       waits for           host,
  process       live   reserved       step              run           alone          others            idle
        0   4.63 GiB   4.99 GiB    23.1 ms    22.9 ms  99 %      0 ps   0 %      0 ps   0 %    205 us   1 %
        1   4.63 GiB   4.99 GiB    23.1 ms    22.9 ms  99 %      0 ps   0 %      0 ps   0 %    205 us   1 %

  Remarks
gpt.pretend and 1 more: 2 processes on one h100-sxm, by turns (without MPS)

  They fit: together they have at most 11.0 GiB of 79.1 GiB of hbm, 1 GiB of it their contexts.
  It takes 24.4 ms, step 1 of 1 takes 24.4 ms; 50.8 % of all processes' time in that step is waiting for one another.
  Beside what each takes alone: 0 11.8 ms -> 23.6 ms (x2.00), 1 11.8 ms -> 24.4 ms (x2.07). One after the other they take 23.6 ms, together 24.4 ms.

                                                    kernels   communication       waits for           host,
  process       live   reserved       step              run           alone          others            idle
        0   4.63 GiB   4.99 GiB    23.6 ms    11.6 ms  49 %      0 ps   0 %   11.8 ms  50 %    205 us   1 %
        1   4.63 GiB   4.99 GiB    24.4 ms    11.6 ms  48 %      0 ps   0 %   12.6 ms  52 %    205 us   1 %

  Remarks
$ G=traces/gpt_pytorch.h100/gpt.pretend.gz; echelon run --trace $G $G --device h100-sxm --set replay.share=mps --set device.memories.hbm.available=8GiB >$T/two.txt; echo $?; sed -n '3,5p; /^  In process/,/held the memory/p' $T/two.txt; echelon run --trace $G $G --device h100-sxm --set replay.share=mps --set device.memories.hbm.available=8GiB --json | grep -E '"(fits|share|other_processes_bytes|fullest_bytes)"'
3
  THEY DO NOT FIT: process 0. (The others were replayed without it from there on.) Together they had at most 7.99 GiB of 8 GiB of hbm.
  It takes 116 ms.

  In process 0
  IT DOES NOT FIT. hbm 4.63 GiB of 8 GiB (58 %)
  4.01 GiB reserved by allocator pytorch:release:2.15, as recorded (PyTorch 2.13 or later). When it was recorded it held 4.99 GiB: how its cache lay when that began is not known here.
  At 95.2 ms 'NllLossBackward0' asks for 1000 MiB more in hbm: 3.66 GiB of 4.02 GiB are live, 4.01 GiB reserved, and the other processes on the device have 3.98 GiB.
  What held the memory:
  "fullest_bytes" : 8581545984,
  "fits" : false,
  "share" : "mps",
    "fullest_bytes" : 4974956032,
    "fits" : true,
    "share" : "none"
      "fits" : false,
        "fits" : false,
            "fits" : true,
          "other_processes_bytes" : 4273995776,
      "fits" : true,
        "fits" : true,
            "fits" : true,
$ echelon run --trace traces/gpt_pytorch.h100/gpt.pretend.gz --device h100-sxm --set replay.share=mps
echelon: replay.share: processes share a device, and there is one; expected several captures, --trace FIRST SECOND ...
exit 2
$ mkdir $T/log $T/iteration_10; for r in 0 1; do cp tests/golden/data/rank0.json $T/log/host_$r.100.pt.trace.json; cp tests/golden/data/rank$r.json $T/log/host_$r.200.pt.trace.json; cp tests/golden/data/rank$r.json $T/iteration_10/rank${r}_trace.json; sed -i 's/"distributedInfo":[^}]*},//' $T/iteration_10/rank${r}_trace.json; done; rm $T/log/host_1.100.pt.trace.json; for f in log iteration_10; do echelon run $T/$f --device a100-80 2>&1 | sed "s:$T:T:; 5q"; done
note T/log: the captures of 2 ranks in it are replayed together
host_0.200.pt.trace and 1 more: 2 ranks on a100-80

  Nothing here says what lies in memory.
  It takes 5.90 ms; 17.8 % of all ranks' time is waiting for one another.
note T/iteration_10: the captures of 2 ranks in it are replayed together
rank0_trace and 1 more: 2 ranks on a100-80

  Nothing here says what lies in memory.
  It takes 5.90 ms; 17.8 % of all ranks' time is waiting for one another.
$ mkdir -p $T/jax/plugins/profile/2026_01_02; for h in a b; do cp tests/fuzz/corpus/xplane/gpu.pb $T/jax/plugins/profile/2026_01_02/$h.xplane.pb; done; echelon run $T/jax --device a100-80 2>&1 | sed "s:$T:T:; 4q"
note T/jax: the captures of 2 ranks in it are replayed together
note these captures know of no rank and meet nowhere: were they several runs of one program, each is given alone
a.xplane and 1 more: 2 ranks on a100-80

$ echelon run pipeline_pytorch.h100 --device h100-sxm --find device.links.nvlink.to_device=x0.5..x1 --for 'time<=x1.1' -o $T/found >/dev/null 2>&1; grep -o 'of 2 such files[^;]*' $T/found/000/run.json
of 2 such files in the folder the largest is taken, rank1.pretend.gz
