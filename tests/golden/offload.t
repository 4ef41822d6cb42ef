The offload pass: what waits on the host, what that costs and saves, and what is left where it is.
$ echelon run --trace gpt_unrolled_kept.h100 --device h100-sxm --engine native --pass offload 2>&1 | grep -E '^  (It (fits|takes)|  - offload)|offload:|So this'
  It fits. hbm 104 MiB of 79.1 GiB (0 %), host 79.5 MiB of 2 TiB (0 %)
  It takes 5.64 ms, bound by host link to device (31 % of the critical path).
    So this offload saves 75.5 MiB of hbm for 79.5 MiB on the host.
  - offload: 23 arrays (89.5 MiB) on the host; 23 copies there (89.5 MiB) and 23 back (89.5 MiB); the program waits for each (overlap=true, and pass prefetch: what overlapping them would be worth)
  - offload: kernels are those compiled without it; the compiler's places do not hold any more
  - offload: left 257 arrays on the device (1.22 GiB): they are used again before copies out and back would be over (idle=0 takes them all the same)
$ echelon run --trace gpt_unrolled_kept.h100 --device h100-sxm --engine native --pass offload:idle=0 2>&1 | grep 'offload: left'
  - offload: left 6 arrays on the device (48 MiB): nothing is done between their uses, or a loop uses them slice by slice
$ echelon run --trace gpt_unrolled_kept.h100 --device h100-sxm --engine native --pass offload:memory=120MiB,overlap=true --pass prefetch 2>&1 | grep -E 'It (fits|takes)|were asked|offload:|So this'
  after pass offload:memory=120MiB,overlap=true
  It fits. hbm 118 MiB of 79.1 GiB (0 %), host 67.5 MiB of 2 TiB (0 %)
  It takes 3.05 ms, bound by host link to device (41 % of the critical path).
    It takes 67.1 % longer: 1.83 ms -> 3.05 ms. Along the critical path: +1.25 ms host link to device, +1.24 ms host link from device, -558 us latency inside kernels, -704 us others.
    So this offload saves 61.5 MiB of hbm for 67.5 MiB on the host. At the peak it holds 44 MiB more leaving for host (largest: 'gemm_fusion_dot.10', 'gemm_fusion_dot.16', 'gemm_fusion_dot.22', 'input_transpose_fusion.9').
  - offload: 14 arrays (67.5 MiB) on the host; 14 copies there (67.5 MiB) and 14 back (67.5 MiB)
  - offload: kernels are those compiled without it; the compiler's places do not hold any more
  - offload: left 257 arrays on the device (1.22 GiB): they are used again before copies out and back would be over (idle=0 takes them all the same)
$ echelon run --trace adam_none.v5e --device tpu-v5e --engine native --pass 'offload:what=arguments,names=state*' 2>&1 | grep -E 'It (fits|takes)|offload:|So this'
  after pass offload:what=arguments,names=state*
  It fits. hbm 1.16 GiB of 15.8 GiB (7 %), scalar 1.50 KiB of 1 MiB (0 %), vector 17.5 MiB of 128 MiB (14 %), host 1.53 GiB of 384 GiB (0 %)
  It takes 229 ms, bound by host link from device (48 % of the critical path).
    It takes 22.9 times as long: 10.0 ms -> 229 ms. Along the critical path: +110 ms host link from device, +110 ms host link to device.
    So this offload saves 1.15 GiB of hbm for 1.53 GiB on the host.
  - offload: 8 arrays (1.53 GiB) on the host; 8 copies there (1.53 GiB) and 8 back (1.53 GiB); the program waits for each (overlap=true, and pass prefetch: what overlapping them would be worth)
  - offload: kernels are those compiled without it; the compiler's places do not hold any more
  - offload: XLA brings back early, many at once, what no loop takes slice by slice (pass schedule after this one has it when XLA has it): of stacks of layers that saved nothing (pass slice before this one updates them layer by layer, as a program can)
$ echelon run --trace mlp_none.h100 --device h100-sxm --engine native --pass offload:names=*mlp_offload.py:19*,idle=0.2 2>&1 | grep -E 'It (fits|takes)|offload:|So this'
  after pass offload:names=*mlp_offload.py:19*,idle=0.2
  It fits. hbm 56.3 MiB of 79.1 GiB (0 %), host 2.50 MiB of 2 TiB (0 %)
  It takes 1.03 ms, bound by latency inside kernels (64 % of the critical path).
    It takes 29.8 % longer: 791 us -> 1.03 ms. Along the critical path: +139 us overhead, +48.8 us host link to device, +48.7 us host link from device.
    So this offload saves 2.50 MiB of hbm for 2.50 MiB on the host.
  - offload: 1 array (2.50 MiB) on the host; 10 copies there (2.50 MiB) and 10 back (2.50 MiB); the program waits for each (overlap=true, and pass prefetch: what overlapping them would be worth)
  - offload: kernels are those compiled without it; the compiler's places do not hold any more
  - offload: left 7 arrays on the device (18 MiB): they are used again before copies out and back would be over (idle=0 takes them all the same)
$ echelon run --trace mlp_none.v5e --device tpu-v5e --engine native --pass offload:names=nothing 2>&1 | grep 'offload:'
  after pass offload:names=nothing
  - offload: nothing fits names=nothing: there are add*, bitcast_dynamic-update-slice_fusion*, constant*, convert*, copy-start*, copy* and 9 more
  - offload: left the trace as it is: no array is called 'nothing'; arguments are x, w*
$ echelon run --trace mlp_none.v5e --device tpu-v5e --engine native --pass offload:what=weights 2>&1
echelon: --pass: pass offload: what: 'weights' is unknown; expected one of saved, activations, arguments, parts, results
exit 2
$ echelon run --trace traces/gpt_unrolled_kept.h100 --device h100-sxm --engine native --pass offload --set device.memories.hbm.available=130MiB | sed -n '/ fit\./,/that would be/p'
  It may fit. hbm 104 MiB of 130 MiB (80 %), host 79.5 MiB of 2 TiB (0 %)
  XLA fetches offloaded arrays early, many at once, but for what loops fetch slice by slice; that would be 180 MiB of hbm, or more: --pass schedule, after offload, tells. The compiler settles it: with the measure in the program (jax.checkpoint, its offload policies, memory_kind="pinned_host", shardings), 'echelon capture --pretend h100-sxm -o asked -- python train.py' tells what it needs then.
$ : what the host memory and its link are called, and a tier beside them, changes nothing; d="name: own\nfamily: other\nmemories:\n  hbm: {kind: hbm, space: 0, capacity: 32GiB, read: 2TB/s, write: 2TB/s, assignable: true}\n"; u="units:\n  matrix: {peaks: {bf16: 400TFLOP/s}}\n  vector: {peaks: {f32: 10TFLOP/s}}\n"; n="capacity: 1TiB, read: 60GB/s, write: 60GB/s"; l="to: hbm, to_device: 50GB/s, from_device: 50GB/s, setup: 1us"; h="kind: host-pinned, space: 5, assignable: true, $n"; printf "${d}  host: {$h}\nlinks:\n  host: {from: host, $l}\n$u" >$T/a.yaml; printf "${d}  far: {kind: host-pinned, $n}\n  dram: {$h}\nlinks:\n  pcie: {from: dram, $l}\n  cxl: {from: far, $l}\n$u" >$T/b.yaml; for x in a b; do echelon run --trace traces/gpt_unrolled_kept.h100 --device $T/$x.yaml --engine native --pass offload | sed -n '/It fits/s/dram/host/; /It fits/p; /It takes/{s/, bound by [a-z]*/, bound by/p;q;}'; done
  It fits. hbm 94.0 MiB of 32 GiB (0 %), host 93.5 MiB of 1 TiB (0 %)
  It takes 7.80 ms, bound by link to device (37 % of the critical path).
  It fits. hbm 94.0 MiB of 32 GiB (0 %), host 93.5 MiB of 1 TiB (0 %)
  It takes 7.80 ms, bound by link to device (37 % of the critical path).
$ printf 'base: h100-sxm\nname: tiers\nmemories:\n  cxl: {kind: host-pinned, capacity: 1TiB, read: 60GB/s, write: 60GB/s}\nlinks:\n  cxl: {from: cxl, to: hbm, to_device: 28GB/s, from_device: 28GB/s, setup: 2us}\n' >$T/t.yaml; for p in offload offload:to=cxl "offload:to=cxl,overlap=true --pass prefetch" offload:to=vector offload:to=cx; do echelon run --trace traces/gpt_unrolled_kept.h100 --device $T/t.yaml --engine native --pass $p 2>&1 | grep -E '^  It fits|^  It takes|^echelon' | head -2; done
  It fits. hbm 104 MiB of 79.1 GiB (0 %), host 79.5 MiB of 2 TiB (0 %)
  It takes 5.64 ms, bound by host link to device (31 % of the critical path).
  It fits. hbm 120 MiB of 79.1 GiB (0 %), cxl 61.5 MiB of 1 TiB (0 %)
  It takes 6.49 ms, bound by cxl link from device (36 % of the critical path).
  It fits. hbm 212 MiB of 79.1 GiB (0 %), cxl 61.5 MiB of 1 TiB (0 %)
  It takes 4.57 ms, bound by cxl link to device (50 % of the critical path).
echelon: pass offload: to: 'vector' is no memory beyond tiers's hbm that a link joins with it; expected one of host, pageable, cxl
echelon: pass offload: to: 'cx' is no memory beyond tiers's hbm that a link joins with it; expected one of host, pageable, cxl
$ : stacked moments, updated layer by layer, where nothing is stacked, and what compilers make of them, whole and by layers
$ for p in "--pass slice" "--pass slice --pass offload:what=arguments,names=moments*" "--pass slice --pass offload:what=arguments,names=moments* --pass prefetch"; do echelon run --trace traces/adam_stacked_none.h100 --device h100-sxm --engine native $p | grep -E '^  It (fits|takes)|slice:|offload:|prefetch:'; done
  It fits. hbm 1.23 GiB of 79.1 GiB (2 %)
  It takes 4.01 ms, bound by matrix unit (54 % of the critical path).
  - slice: 2 kernels that update 960 MiB in place do it 12 slices one after the other
  after pass offload:what=arguments,names=moments*
  It fits. hbm 488 MiB of 79.1 GiB (1 %), host 768 MiB of 2 TiB (0 %)
  It takes 34.5 ms, bound by host link to device (43 % of the critical path).
  - slice: 2 kernels that update 960 MiB in place do it 12 slices one after the other
  - offload: 4 arrays (768 MiB) on the host; 48 copies there (768 MiB) and 48 back (768 MiB); the program waits for each (overlap=true, and pass prefetch: what overlapping them would be worth)
  - offload: kernels are those compiled without it; the compiler's places do not hold any more
  after pass offload:what=arguments,names=moments*
  It fits. hbm 488 MiB of 79.1 GiB (1 %), host 768 MiB of 2 TiB (0 %)
  It takes 34.5 ms, bound by host link to device (43 % of the critical path).
  - slice: 2 kernels that update 960 MiB in place do it 12 slices one after the other
  - offload: 4 arrays (768 MiB) on the host; 48 copies there (768 MiB) and 48 back (768 MiB); the program waits for each (overlap=true, and pass prefetch: what overlapping them would be worth)
  - offload: kernels are those compiled without it; the compiler's places do not hold any more
  - prefetch: left 4 fetches in place: they start with their iteration, and what they read is made in the one before
$ echelon run --trace traces/adam_none.h100 --device h100-sxm --engine native --pass slice | grep slice:
  - slice: left the trace as it is: no kernel updates stacked arrays (of three dimensions or more) in place, element by element (donated arguments are: pass donate)
$ for t in whole layers; do echelon run --trace traces/adam_stacked_$t.h100 --device h100-sxm --engine native | grep -E '^  It (fits|takes)'; done
  It fits. hbm 1.50 GiB of 79.1 GiB (2 %), host 768 MiB of 2 TiB (0 %)
  It takes 27.3 ms, bound by host link to device (41 % of the critical path).
  It fits. hbm 516 MiB of 79.1 GiB (1 %), host 768 MiB of 2 TiB (0 %)
  It takes 35.1 ms, bound by host link to device (43 % of the critical path).
$ : an offload is told apart from what else is changed, to whichever memory; printf 'base: h100-sxm\nname: tiers\nmemories:\n  cxl: {kind: host-pinned, capacity: 1TiB, read: 60GB/s, write: 60GB/s}\nlinks:\n  cxl: {from: cxl, to: hbm, to_device: 28GB/s, from_device: 28GB/s, setup: 2us}\n' >$T/t.yaml; for p in offload:to=cxl "remat:memory=150MiB --pass offload:what=arguments,idle=0" "offload --pass prefetch"; do echelon run --trace traces/gpt_unrolled_kept.h100 --device $T/t.yaml --engine native --pass $p | grep -c 'So this offload'; done; echelon run --trace traces/gpt_unrolled_kept.h100 --device $T/t.yaml --engine native --pass offload:to=cxl | grep 'So this'
1
0
1
    So this offload saves 59.5 MiB of hbm for 61.5 MiB in cxl. At the peak it holds 16 MiB more temporaries in use (largest: 'loop_broadcast_fusion', 'triton_softmax.37', 'gemm_fusion_dot.34', 'loop_convert_fusion').
$ : a pipeline of three modules, uploaded whole. Its weights by calls of layers, one ahead, whole modules in turn. What is never used never comes, and uploads are none any more
$ awk 'function call(module, layers, first,   i) { print "push " t " 9 " module; for (i = 0; i < layers; i++) { print "push " t " 9 " 5 + i; printf "kernel %d 0 0 1 8192 1 1 256 1 1 0\nargs 0 %d 1 8192\n", t, (first + i) * 16777216; print "pop " t " 9"; t += 1 } print "pop " t " 9" } BEGIN { print "echelon-pretend 1\nclock 1\ndevice 25769803776 0 1 \"rtx-4090\"\nname 1 \"k(float const*, float*)\"\nname 2 \"nn.Module: Encoder\"\nname 3 \"nn.Module: Denoiser\"\nname 4 \"nn.Module: Decoder\"\nalloc 1 0 0 8192 4096 3 0"; for (i = 0; i < 6; i++) print "name " 5 + i " \"nn.Module: layers." i " (Linear)\""; for (i = 1; i <= 12; i++) printf "alloc 1 0 0 %d 16777216 3 0\ncopy 2 0 0 16777216 1 3 0\nuses 2 %d 16777216\n", i * 16777216, i * 16777216; t = 10; call(2, 3, 1); for (s = 0; s < 3; s++) call(3, 6, 4); call(4, 2, 10); print "end" }' >$T/pipe.pretend; for p in arguments,each=true,to=pageable arguments,each=true,overlap=true parts,to=pageable; do echelon run --trace $T/pipe.pretend --device rtx-4090 --engine native --pass offload:what=$p | grep -E '^  It (fits|takes)|nn.Mod|- offload'; done; echelon advise --trace $T/pipe.pretend --device rtx-4090 --memory 128MiB | grep -E '^ +[0-9]  (weights|parts)|average|come and go|but one'; sed 's/Encoder/Denoiser/; s/Decoder/Denoiser/' $T/pipe.pretend >$T/one.pretend; echelon run --trace $T/one.pretend --device rtx-4090 --engine native --pass offload:what=parts | grep -E '^  It fits|- offload'
  It fits. hbm 16.0 MiB of 23.2 GiB (0 %), pageable 192 MiB of 128 GiB (0 %)
  It takes 78.2 ms, bound by pageable port (99 % of the critical path).
    17.0 ms from nn.Module: Denoiser to its next call, 6 kernels, at most 16.0 MiB
    20.4 ms from nn.Module: Denoiser to its next call, 6 kernels, at most 16.0 MiB
    20.4 ms from nn.Module: Denoiser to its next call, 6 kernels, at most 16.0 MiB
  - offload: 12 arrays (192 MiB) on the host; 0 copies there (0 B) and 23 back (368 MiB); the program waits for each (overlap=true, and pass prefetch: what overlapping them would be worth)
  It fits. hbm 32.0 MiB of 23.2 GiB (0 %), host 192 MiB of 128 GiB (0 %)
  It takes 16.3 ms, bound by host link to device (96 % of the critical path).
    3.50 ms from nn.Module: Denoiser to its next call, 6 kernels, at most 32.0 MiB
    4.23 ms from nn.Module: Denoiser to its next call, 6 kernels, at most 32.0 MiB
    4.23 ms from nn.Module: Denoiser to its next call, 6 kernels, at most 32.0 MiB
  - offload: 12 arrays (192 MiB) on the host; 0 copies there (0 B) and 23 back (368 MiB)
  It fits. hbm 96.0 MiB of 23.2 GiB (0 %), pageable 192 MiB of 128 GiB (0 %)
  It takes 175 ms, bound by pageable port (100 % of the critical path).
    16.8 ms from nn.Module: Denoiser to its next call, 6 kernels, at most 96.0 MiB
    125 us from nn.Module: Denoiser to its next call, 6 kernels, at most 96.0 MiB
    125 us from nn.Module: Denoiser to its next call, 6 kernels, at most 96.0 MiB
  - offload: 12 arrays (192 MiB) on the host; 11 copies there (176 MiB) and 11 back (176 MiB); the program waits for each (overlap=true, and pass prefetch: what overlapping them would be worth)
  Its last step but one, 2 of 3, from nn.Module: Denoiser to its next call, takes 125 us: times below are of that step, memory is of the whole.
   1  weights on host, as many as needed    112 MiB    96 MiB   125 us    x1.000
   2  weights on host, fetched ahead       32.0 MiB   192 MiB  4.23 ms   x33.812
   3  weights on host                      16.0 MiB   192 MiB  20.4 ms  x162.974
   4  parts on host, in turn               96.0 MiB   192 MiB  44.8 ms  x358.132
  (4: on average over the 3 steps that were captured; a step of a part that is there takes 125 us, and 134 ms more is for parts that come and go, however many steps there are)
  It fits. hbm 192 MiB of 23.2 GiB (1 %)
  - offload: left the trace as it is: no two of PyTorch's modules are called outside of others
