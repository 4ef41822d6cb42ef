A program compiled for an H100: kernels by class, tiles never timed by the best or as written, another GPU.
$ echelon run --trace traces/gpt_nothing.h100 --device h100-sxm --engine native | sed -n '/It takes/p;/Longest/,$p'
  It takes 980 us, bound by latency inside kernels (95 % of the critical path).
  Longest operations
    gemm_fusion_dot.*           165 us  16.9 %  kernel, kernel model: product, by latency, 28 times, gpt_step.py:32
    gemm_fusion_dot.*           113 us  11.5 %  kernel, product, 16 times, gpt_step.py:28
    gemm_fusion_dot.*          95.1 us   9.7 %  kernel, product, 16 times, gpt_step.py:30
    gemm_fusion_dot.*          89.4 us   9.1 %  kernel, product, 16 times, gpt_step.py:31
    gemm_fusion_dot.*          88.1 us   9.0 %  kernel, kernel model: product, by latency, 16 times, gpt_step.py:26
    input_transpose_fusion.*   56.8 us   5.8 %  kernel, kernel model: relayout, by latency, 28 times, gpt_step.py:26

  Kernel times: 98 kernel model. Engine: native (0.1.0).
  Of the kernels' time 58 % is products, which are held against published times; 41 % other kernels with the constants of PyTorch's, held against no GPU; 1 % assumed (most of it scatter).
  - buffer assignment taken from traces/gpt_nothing.h100/program.buffer-assignment.txt.gz
  - 22 products carry a tile that no timing would have chosen (compiled where there was no GPU to time on): priced with the best tile, as autotuning finds it; replay.tuned_tiles=false prices them as written
$ echelon run --trace traces/gpt_nothing.h100 --device h100-sxm --engine native --set replay.tuned_tiles=false | grep -E 'It takes|products carry'
  It takes 1.87 ms, bound by latency inside kernels (98 % of the critical path).
    It takes 91.0 % longer: 980 us -> 1.87 ms. Along the critical path: +891 us latency inside kernels.
$ echelon run --trace traces/gpt_nothing.h100 --device a100-80 --engine native --json | grep -E '"(priced_by|kernel_class)"' | sort | uniq -c | tr -s ' '
 3 "kernel_class" : "elementwise",
 22 "kernel_class" : "product",
 3 "kernel_class" : "reduce",
 2 "kernel_class" : "relayout",
 2 "kernel_class" : "softmax_warp",
 32 "priced_by" : "model",
$ echelon run --trace traces/gpt_nothing.h100 --device h100-sxm --engine native --json | grep -A6 '"kernel_time_basis"'
  "kernel_time_basis" : {
    "held_ps" : 568487617,
    "borrowed_ps" : 405104236,
    "assumed_ps" : 6045472,
    "roofline_ps" : 0,
    "unknown_ps" : 0
  },
