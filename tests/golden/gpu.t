A program compiled for an H100: kernels by class, tiles never timed by the best or as written, another GPU.
$ echelon run --trace traces/gpt_nothing.h100 --device h100-sxm --engine native | sed -n '/It takes/p;/Longest/,$p'
  It takes 916 us, bound by latency inside kernels (93 % of the critical path).
  Longest operations
    gemm_fusion_dot.47    24.1 us    2.6 % .........  kernel, kernel model: product, by latency, 4 times, gpt_step.py:32
    gemm_fusion_dot.48    24.1 us    2.6 % .........  kernel, kernel model: product, by latency, 4 times, gpt_step.py:32
    gemm_fusion_dot.50    24.1 us    2.6 % .........  kernel, kernel model: product, by latency, 4 times, gpt_step.py:32
    gemm_fusion_dot.53    24.1 us    2.6 % .........  kernel, kernel model: product, by latency, 4 times, gpt_step.py:32
    gemm_fusion_dot.11    23.0 us    2.5 % .........  kernel, kernel model: product, by latency, 4 times, gpt_step.py:32
    gemm_fusion_dot.4     23.0 us    2.5 % .........  kernel, kernel model: product, by latency, 4 times, gpt_step.py:32

  Kernel times: 100 kernel model. Engine: native (0.1.0).
  Of the kernels' time 55 % is products, which are held against published times; 44 % other kernels with the constants of PyTorch's, held against no GPU; 1 % assumed (most of it scatter).
  - buffer assignment taken from traces/gpt_nothing.h100/program.buffer-assignment.txt.gz
  - 26 products carry a tile that no timing would have chosen (compiled where there was no GPU to time on): priced with the best tile, as autotuning finds it; replay.tuned_tiles=false prices them as written
$ echelon run --trace traces/gpt_nothing.h100 --device h100-sxm --engine native --set replay.tuned_tiles=false | grep -E 'It takes|products carry'
  It takes 2.94 ms, bound by latency inside kernels (98 % of the critical path).
    It takes 3.21 times as long: 916 us -> 2.94 ms. Along the critical path: +2.02 ms latency inside kernels.
$ echelon run --trace traces/gpt_nothing.h100 --device a100-80 --engine native --json | grep -E '"(priced_by|kernel_class)"' | sort | uniq -c | tr -s ' '
 16 "kernel_class" : "product",
 16 "priced_by" : "model",
$ echelon run --trace traces/gpt_nothing.h100 --device h100-sxm --engine native --json | grep -A6 '"kernel_time_basis"'
  "kernel_time_basis" : {
    "held_ps" : 505294061,
    "borrowed_ps" : 404454064,
    "assumed_ps" : 6045628,
    "roofline_ps" : 0,
    "unknown_ps" : 0
  },
