The place pass: the compiler's own placement again, less on-chip memory, other policies, and programs it has nothing to say about.
$ echelon run --trace traces/gpt_nothing.v5e/program.hlo.txt.gz --device tpu-v5e --engine native --pass place 2>&1 | grep 'place:'
  - place: the compiler had: 104 arrays made on chip (66.5 MiB), 6 prefetches (6.51 MiB, 2 of them in slices), 5 evictions (6.50 MiB), 0 fetched before the program begins (0 B)
  - place: now, with 112 MiB (31.6 MiB used at most, policy xla): 105 arrays made on chip (66.5 MiB), 6 prefetches (6.51 MiB, 2 of them in slices), 5 evictions (6.50 MiB), 0 fetched before the program begins (0 B)
  - place: declined 1 read that would be faster (8 KiB): too soon after the value is there to hide a copy
  - place: declined 3 reads that would be faster (4.00 MiB): no bandwidth or no free copy
  - place: declined 33 reads that would be faster (144 KiB): need not or may not be on chip (inputs and outputs of the program in place, other cores, no gain)
$ echelon run --trace traces/gpt_nothing.v5e/program.hlo.txt.gz --device tpu-v5e --engine native --pass place:vmem=8MiB,prefetches=2 2>&1 | grep 'place:'
  after pass place:vmem=8MiB,prefetches=2
  - place: the compiler had: 104 arrays made on chip (66.5 MiB), 6 prefetches (6.51 MiB, 2 of them in slices), 5 evictions (6.50 MiB), 0 fetched before the program begins (0 B)
  - place: now, with 8 MiB (8 MiB used at most, policy xla): 83 arrays made on chip (44.4 MiB), 18 prefetches (13.0 MiB, 1 of them in slices), 22 evictions (11.7 MiB), 0 fetched before the program begins (0 B)
  - place: ran out of space 4 times; placing everything again helped 4 times
  - place: declined 26 reads that would be faster (7.23 MiB): no room
  - place: declined 2 reads that would be faster (520 KiB): too soon after the value is there to hide a copy
  - place: declined 13 reads that would be faster (12.5 MiB): no bandwidth or no free copy
  - place: declined 35 reads that would be faster (784 KiB): need not or may not be on chip (inputs and outputs of the program in place, other cores, no gain)
$ echelon run --trace traces/gpt_nothing.v5e/program.hlo.txt.gz --device tpu-v5e --engine native --pass place:vmem=8MiB,evictions=3 2>&1 | grep 'now, with'
  - place: now, with 8 MiB (8 MiB used at most, policy xla): 76 arrays made on chip (42.7 MiB), 22 prefetches (17.5 MiB, 6 of them in slices), 12 evictions (8.52 MiB), 0 fetched before the program begins (0 B)
$ echelon run --trace traces/gpt_nothing.v5e/program.hlo.txt.gz --device tpu-v5e --engine native --set device.memories.vector.capacity=x0.25 --pass place 2>&1 | grep 'now, with'
  - place: now, with 16 MiB (16 MiB used at most, policy xla): 93 arrays made on chip (53.5 MiB), 20 prefetches (19.0 MiB, 8 of them in slices), 15 evictions (14.1 MiB), 0 fetched before the program begins (0 B)
$ echelon run --trace traces/gpt_nothing.v5e/program.hlo.txt.gz --device tpu-v5e --engine native --pass place:policy=on-demand 2>&1 | grep 'now, with'
  - place: now, with 112 MiB (31.6 MiB used at most, policy on-demand): 105 arrays made on chip (66.5 MiB), 6 prefetches (6.51 MiB, 0 of them in slices), 5 evictions (6.50 MiB), 0 fetched before the program begins (0 B)
$ echelon run --trace traces/gpt_nothing.v5e/program.hlo.txt.gz --device tpu-v5e --engine native --pass place:policy=none 2>&1 | grep 'place:'
  after pass place:policy=none
  - place: the compiler had: 104 arrays made on chip (66.5 MiB), 6 prefetches (6.51 MiB, 2 of them in slices), 5 evictions (6.50 MiB), 0 fetched before the program begins (0 B)
  - place: took everything off the chip: all values are in HBM
$ echelon run --trace traces/adam_moments.v5e/program.hlo.txt.gz --device tpu-v5e --engine native --pass place:cross_program=0 2>&1 | grep 'place:'
  after pass place:cross_program=0
  - place: the compiler had: 7 arrays made on chip (21 MiB), 6 prefetches (17.5 MiB, 1 of them in slices), 6 evictions (17.5 MiB), 1 fetched before the program begins (3.50 MiB)
  - place: now, with 112 MiB (19.2 MiB used at most, policy xla): 7 arrays made on chip (21 MiB), 7 prefetches (21 MiB, 2 of them in slices), 6 evictions (17.5 MiB), 0 fetched before the program begins (0 B)
  - place: declined 19 reads that would be faster (3.64 GiB): larger than the on-chip memory given
  - place: declined 2 reads that would be faster (3.50 MiB): too soon after the value is there to hide a copy
  - place: declined 18 reads that would be faster (9 KiB): need not or may not be on chip (inputs and outputs of the program in place, other cores, no gain)
$ echelon run --trace traces/gpt_nothing.h100/program.hlo.txt.gz --device h100-sxm --engine native --pass place 2>&1 | grep 'place:'
  - place: left the program as it is: a GPU's compiler manages no on-chip memory across kernels
$ echelon run --trace traces/gpt_nothing.v5e/program.hlo.txt.gz --device tpu-v5e --pass place:policy=best
echelon: --pass: pass place: policy: 'best' is unknown; expected one of xla, fragmentation, on-demand, depth, belady, none
exit 2
$ echelon run --trace traces/gpt_offload.v6e --device tpu-v6e --pass place:policy=belady --engine native | grep -A2 "It fits"
  It fits. hbm 7.61 MiB of 31.2 GiB (0 %), host 2 MiB of 1.41 TiB (0 %), vector 29.6 MiB of 128 MiB (23 %), scalar 512 B of 1 MiB (0 %)
  It takes 332 us, bound by overhead (22 % of the critical path).
  No schedule of it is shorter than 155 us on this device; with no overlap at all it takes 389 us.
$ echelon run --trace traces/splash_attention.v6e --device tpu-v6e --json | sed -n '/"hbm" : {/,/}/s/.*"bytes" : //p' | head -1
7195168,
$ echelon run --trace traces/splash_attention.v6e --device tpu-v6e --pass plan | grep '  - plan'
  - plan: 16 buffers of 'hbm' placed by xla in 6.75 MiB; 6.00 MiB are live at its fullest
$ echelon run --trace traces/splash_attention.v6e --device tpu-v6e --pass plan:results_apart=false | grep '  - plan'
  - plan: 16 buffers of 'hbm' placed by xla in 6.00 MiB; 6.00 MiB are live at its fullest
$ echelon run --trace traces/splash_attention.v6e --device tpu-v6e --pass plan --set device.memories.hbm.available=4MiB | grep '  - plan'
  - plan: 16 buffers of 'hbm' placed by xla in 6.25 MiB; 6.00 MiB are live at its fullest
$ for c in auto libtpu-0.0.52; do echelon run --trace traces/gpt_nothing.v5e --device tpu7x --engine native --pass place:compiler=$c 2>&1 | grep -E 'place: (now|.*scratch)'; done
  - place: now, with 63.9 MiB (60.6 MiB used at most, policy xla): 103 arrays made on chip (66.0 MiB), 12 prefetches (9.52 MiB, 0 of them in slices), 8 evictions (8.51 MiB), 0 fetched before the program begins (0 B)
  - place: 32 MiB for kernels' scratch is cut off beforehand, as libtpu 0.0.52 does
  - place: now, with 31.9 MiB (28.6 MiB used at most, policy xla): 103 arrays made on chip (66.0 MiB), 12 prefetches (9.52 MiB, 0 of them in slices), 8 evictions (8.51 MiB), 0 fetched before the program begins (0 B)
$ for p in '' 'place:policy=none' 'remat'; do echelon run --trace traces/gpt_everything.v5e --device h100-sxm --engine native ${p:+--pass "$p"} | grep -E '^  It (fits|takes)|on chip than|has no memory'; done
  It fits. hbm 116 MiB of 79.1 GiB (0 %)
  It takes 455 us, bound by overhead (59 % of the critical path).
  - it keeps more on chip than h100-sxm has: all of it lies in hbm (--pass place)
  It fits. hbm 116 MiB of 79.1 GiB (0 %)
  It takes 455 us, bound by overhead (59 % of the critical path).
  It fits. hbm 32.2 MiB of 79.1 GiB (0 %)
  It takes 481 us, bound by overhead (60 % of the critical path).
  - it keeps more on chip than h100-sxm has: all of it lies in hbm (--pass place)
