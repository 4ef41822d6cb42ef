The remat pass: what is made again instead of kept, what that costs and saves, and what is left as it is.
$ echelon run --trace gpt_everything.v5e --device tpu-v5e --engine native --pass remat 2>&1 | grep -E '^  (It (fits|takes)|  - remat)|remat:|hbm: '
  It fits. vector 111 MiB of 128 MiB (87 %), hbm 8.51 MiB of 15.8 GiB (0 %), scalar 512 B of 1 MiB (0 %)
  It takes 464 us, bound by matrix unit (33 % of the critical path).
    Traffic of hbm: 22.1 MiB -> 22.6 MiB (1.02x).
    hbm: 11.2 MiB -> 8.51 MiB (-2.69 MiB). At its fullest it holds -4 MiB temporaries in use, +2 MiB kept for later use.
    hbm: 8.51 MiB live at 9.96 us; places as in the trace
  - remat: 2 arrays (4 MiB) made again instead of kept: 4 kernels run again, 41.8 us by their own times, and 3 inside those that read them
  - remat: 2 kernels that made only what is not kept are gone
  - remat: 2 MiB are kept of what iterations begin with
  - remat: kernels are those compiled without it, where a compiler fuses anew and is often faster; the compiler's places do not hold any more
$ echelon run --trace gpt_everything.h100 --device h100-sxm --engine native --pass remat 2>&1 | grep -E 'It (fits|takes)|remat:'
  It fits. hbm 31.5 MiB of 79.1 GiB (0 %)
  It takes 1.13 ms, bound by latency inside kernels (94 % of the critical path).
    It takes 4.9 % longer: 1.08 ms -> 1.13 ms. Along the critical path: +186 us latency inside kernels, -83.1 us hbm port, -50 us overhead.
  - remat: 20 arrays (98.1 MiB) made again instead of kept: 20 kernels run again, 54.3 us by their own times, and 14 inside those that read them
  - remat: 29 kernels that made only what is not kept are gone
  - remat: 3 kernels run inside those that read what they make, which is kept no more
  - remat: 2 MiB are kept of what iterations begin with
  - remat: kernels are those compiled without it, where a compiler fuses anew and is often faster; the compiler's places do not hold any more
  - remat: 1 array (512 KiB) kept: made of what is overwritten by then
  - remat: 1 array (512 KiB) kept: the loops behind them take longer than they are not needed for
$ echelon run --trace gpt_everything.h100 --device h100-sxm --engine native --pass remat:memory=24MiB,products=false 2>&1 | grep -E 'It (fits|takes)|remat:'
  after pass remat:memory=24MiB,products=false
  It fits. hbm 56.6 MiB of 79.1 GiB (0 %)
  It takes 911 us, bound by latency inside kernels (87 % of the critical path).
    It takes 15.3 % less time: 1.08 ms -> 911 us. Along the critical path: -79.8 us latency inside kernels, -59.0 us hbm port, -26 us overhead.
  - remat: 56.6 MiB are left at the fullest moment, in use there or dearer to bring back
  - remat: 19 arrays (94.1 MiB) made again instead of kept: 1 kernel run again, 5.36 us by their own times, and 19 inside those that read them
  - remat: 29 kernels that made only what is not kept are gone
  - remat: 4 kernels run inside those that read what they make, which is kept no more
  - remat: 2 MiB are kept of what iterations begin with
  - remat: 26 MiB are kept of products that iterations make
  - remat: kernels are those compiled without it, where a compiler fuses anew and is often faster; the compiler's places do not hold any more
  - remat: 5 arrays (7.50 MiB) kept: matrix products would have to run again (products=true)
$ echelon run --trace gpt_unrolled_kept.h100 --device h100-sxm --engine native --pass remat 2>&1 | grep -E 'It (fits|takes)|remat:'
  It fits. hbm 108 MiB of 79.1 GiB (0 %)
  It takes 2.20 ms, bound by latency inside kernels (41 % of the critical path).
    It takes 20.3 % longer: 1.83 ms -> 2.20 ms. Along the critical path: +187 us latency inside kernels, +102 us matrix unit, +46.0 us hbm port, +36 us others.
  - remat: 22 arrays (146 MiB) made again instead of kept: 69 kernels run again, 206 us by their own times, and 1 inside those that read them
  - remat: 7 kernels that made only what is not kept are gone
  - remat: kernels are those compiled without it, where a compiler fuses anew and is often faster; the compiler's places do not hold any more
  - remat: 1 array (1.50 MiB) kept: made of what is overwritten by then
$ echelon run --trace gpt_everything.h100 --device h100-sxm --engine native --pass remat:names=nothing* 2>&1 | grep -E 'It (fits|takes)|remat:'
  after pass remat:names=nothing*
  It fits. hbm 123 MiB of 79.1 GiB (0 %)
  It takes 1.08 ms, bound by latency inside kernels (81 % of the critical path).
    It takes as long as before, 1.08 ms: 81 % of its critical path is on the latency inside kernels, which this does not touch.
  - remat: nothing fits names=nothing*: there are constant*, constant_*, fusion*, gemm_fusion_dot*, input_reduce_fusion*, input_transpose_fusion* and 22 more
  - remat: left the trace as it is: no array is called 'nothing*'
$ echelon run --trace mlp0.v1 --device tpu-v1 --engine native --pass remat 2>&1 | grep -E 'It (fits|takes)|remat:'
  It fits. host 800 KiB of 256 GiB (0 %), vector 800 KiB of 24 MiB (3 %), hbm 20.0 MiB of 8 GiB (0 %)
  It takes 742 us, bound by hbm port (53 % of the critical path).
    It takes as long as before, 742 us: 53 % of its critical path is on the hbm port, which this does not touch.
  - remat: left the trace as it is: no array fits what was asked for
$ echelon run checkpoint_or_offload --engine native 2>&1 | head -11
A GPT step on an H100 that keeps everything, makes it again, or sends it to the host

                                                     hbm      host      host      host
  kept                  fits     time  x first    needed      peak    to dev  from dev  bound by
  --------------------  ----  -------  -------  --------  --------  --------  --------  ----------------------
  everything            yes   1.08 ms    1.000   123 MiB         -         -         -  latency inside kernels
  all but cheap ones    yes    911 us    0.847  56.6 MiB         -         -         -  latency inside kernels
  80 MiB                yes   1.08 ms    1.007  31.6 MiB         -         -         -  latency inside kernels
  as little as can be   yes   1.13 ms    1.049  31.5 MiB         -         -         -  latency inside kernels
  60 MiB, rest on host  yes   6.79 ms    6.311  54.5 MiB  87.5 MiB  93.5 MiB   152 MiB  host link from device
  all on host           yes   21.6 ms   20.071  54.5 MiB   112 MiB   516 MiB   406 MiB  host link to device
$ echelon run --trace traces/gpt_unrolled_kept.h100 --device h100-sxm --engine native --pass remat --set device.memories.hbm.available=130MiB | sed -n '/ fit\./,/It takes/p' | sed '$d'
$ echelon run --trace traces/gpt_unrolled_kept.h100 --device h100-sxm --engine native --pass remat --pass offload --set device.memories.hbm.available=110MiB | sed -n '/ fit\./,/It takes/p' | sed '$d'
  It may fit. hbm 96.0 MiB of 110 MiB (87 %), host 17.5 MiB of 2 TiB (0 %)
  Compilers asked for jax.checkpoint have taken up to 1.2 times what remat says. XLA fetches offloaded arrays early, many at once, but for what loops fetch slice by slice; that would be 215 MiB of hbm, or more: --pass schedule, after offload, tells. The compiler settles it: with the measure in the program (jax.checkpoint, its offload policies, memory_kind="pinned_host", shardings), 'echelon capture --pretend h100-sxm -o asked -- python train.py' tells what it needs then.
  Of what is made again 32 MiB are there at once at most. jax.checkpoint has all there that a block makes: what a block makes beyond 32 MiB it needs besides.
  JAX would not run it as it is: it takes three quarters of the memory, 82.5 MiB; nor would the process's context, 512 MiB, have room beside it.
$ echelon run --trace traces/gpt_pytorch.h100 --device h100-sxm --step last --pass 'remat:modules=blocks.*' | grep -A5 'Who asked'
  Who asked for it (forward, recomputed, backward)
    Optimizer.step#AdamW.step     2.33 ms   18.3 % ####................
    head (Linear)                 2.21 ms   17.3 % ###.................  747 us, -, 1.46 ms
    blocks.* (Block)              1.48 ms   11.6 % ##..................  372 us, 296 us, 808 us
    aten::cross_entropy_loss      1.11 ms    8.7 % ##..................
    blocks.*.up (Linear)           885 us    6.9 % #...................  234 us, 234 us, 418 us
$ printf 'trace: gpt_unrolled_kept.h100\ndevice: h100-sxm\nset: {device.memories.hbm.capacity: 130MiB, device.memories.hbm.available: 130MiB}\nsweep: [{path: passes, values: ["", "remat:memory=112MiB", "remat"]}]\n' >$T/e.yaml; echelon run $T/e.yaml | sed -n '/^  passes/,/^$/p'; echelon run $T/e.yaml --json | grep -c '"may_fit" : true'
  passes               fits     time  x first  hbm needed  bound by
  -------------------  ----  -------  -------  ----------  ----------------------
  none                 NO    1.83 ms    1.000     180 MiB  hbm port
  remat:memory=112MiB  may   2.08 ms    1.140     112 MiB  latency inside kernels
  remat                yes   2.20 ms    1.203     108 MiB  latency inside kernels

1
$ echelon run --trace gpt_everything.h100 --device h100-sxm --engine native --set device.memories.hbm.available=40MiB --pass remat:keep=products 2>&1 | grep -E 'IT DOES|fitting'
  IT DOES NOT FIT. hbm 48.4 MiB of 40 MiB (121 %)
    It stops fitting: hbm needs 48.4 MiB and 40 MiB are handed out, 8.45 MiB too little.
