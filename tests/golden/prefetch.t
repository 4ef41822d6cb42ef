The prefetch pass: fetches from the host ahead of loops' iterations and of straight code, within a budget.
$ echelon run --trace traces/gpt_offload.v5e/program.hlo.txt.gz --device tpu-v5e --engine native --pass prefetch 2>&1 | grep -E 'prefetch:'
  - prefetch: 1 fetch in loops (512 KiB an iteration) runs 1 iteration ahead; as many more than needed are made as the loop ends
  - prefetch: it takes up to 1 MiB more of the device's memory; the compiler's places do not hold any more
$ echelon run --trace traces/gpt_offload.v5e/program.hlo.txt.gz --device tpu-v5e --engine native --pass prefetch:budget=100KiB 2>&1 | grep -E 'prefetch:'
  after pass prefetch:budget=100KiB
  - prefetch: left 1 fetch in place: no memory is free to hold it longer
$ echelon run --trace traces/gpt_unrolled_offload.h100/program.hlo.txt.gz --device h100-sxm --engine native --pass prefetch 2>&1 | grep -E 'prefetch:'
  - prefetch: 18 fetches from the host start earlier (96 MiB), by 525 us of computing at most
  - prefetch: it takes up to 64 MiB more of the device's memory; the compiler's places do not hold any more
$ echelon run --trace traces/gpt_unrolled_offload.h100/program.hlo.txt.gz --device h100-sxm --engine native --pass prefetch:budget=16MiB,lookahead=2 2>&1 | grep -E 'prefetch:'
  after pass prefetch:lookahead=2,budget=16MiB
  - prefetch: 6 fetches from the host start earlier (32 MiB), by 139 us of computing at most
  - prefetch: it takes up to 16 MiB more of the device's memory; the compiler's places do not hold any more
  - prefetch: left 12 fetches in place: no memory is free to hold it longer
$ echelon run --trace traces/adam_moments.v5e/program.hlo.txt.gz --device tpu-v5e --engine native --pass prefetch:above=1GiB 2>&1 | grep -E 'prefetch:'
  after pass prefetch:above=1GiB
  - prefetch: nothing is fetched from the host by a copy of its own
$ echelon run --trace traces/gpt_nothing.v5e/program.hlo.txt.gz --device tpu-v5e --engine native --pass prefetch 2>&1 | grep -E 'prefetch:'
  - prefetch: nothing is fetched from the host by a copy of its own
$ echelon run --trace tests/golden/data/fetched.ech --device tests/golden/data/small.yaml --pass prefetch 2>&1 | grep 'prefetch:'
  - prefetch: left 1 fetch in place: they start with their iteration, and what views their memory would have to move with them
$ sed '/"half"/d; s/buffers 3/buffers 2/' tests/golden/data/fetched.ech >$T/alone.ech; echelon run --trace $T/alone.ech --device tests/golden/data/small.yaml --pass prefetch 2>&1 | grep 'prefetch:'
  - prefetch: 1 fetch in loops (977 KiB an iteration) runs 1 iteration ahead; as many more than needed are made as the loop ends
  - prefetch: it takes up to 1.91 MiB more of the device's memory
