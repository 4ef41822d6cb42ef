The donate pass: what donation saves and costs, asked of programs that were compiled otherwise.
$ echelon run --trace adam_none.v5e --device tpu-v5e --engine native --pass donate:what=none 2>&1 | grep -E 'It (fits|takes)|hbm: .* -> |donate:'
  after pass donate:what=none
  It fits. hbm 4.61 GiB of 15.8 GiB (29 %), scalar 1.50 KiB of 1 MiB (0 %), vector 15.8 MiB of 128 MiB (12 %)
  It takes 10.0 ms, bound by hbm port (87 % of the critical path).
    It takes as long as before, 10.0 ms: 87 % of its critical path is on the hbm port, which this does not touch.
    hbm: 2.31 GiB -> 4.61 GiB (+2.30 GiB): +2.30 GiB arguments and results. At its fullest it holds +2.30 GiB results.
  - donate: 12 arrays (2.30 GiB): donated no more, the output has a place of its own
  - donate: what is on chip is left as it was; decided anew too: pass place:policy=none before, place after
$ echelon run --trace gpt_nothing.h100 --device h100-sxm --engine native --pass donate:what=none,names=w* 2>&1 | grep -E 'It (fits|takes)|hbm: .* -> |donate:'
  after pass donate:what=none,names=w*
  It fits. hbm 32.0 MiB of 79.1 GiB (0 %)
  It takes 980 us, bound by latency inside kernels (95 % of the critical path).
    It takes as long as before, 980 us: 95 % of its critical path is on the latency inside kernels, which this does not touch.
  - donate: 5 arrays (6.50 MiB): donated no more, the output has a place of its own
$ echelon run --trace mlp_none.v5e --device tpu-v5e --engine native --pass donate 2>&1 | grep -E 'It (fits|takes)|hbm: .* -> |donate:'
  It fits. hbm 20.4 MiB of 15.8 GiB (0 %), scalar 512 B of 1 MiB (0 %), vector 36.9 MiB of 128 MiB (29 %)
  It takes 170 us, bound by hbm port (25 % of the critical path).
    It takes as long as before, 170 us: 25 % of its critical path is on the hbm port, which this does not touch.
    hbm: 40.4 MiB -> 20.4 MiB (-20 MiB): -20 MiB arguments and results. At its fullest it holds -20 MiB results.
  - donate: 2 arrays (20 MiB): donated, an output takes the argument's place
  - donate: 1 array (256 KiB): asked for, but no output left has the argument's shape, layout and memory
  - donate: what is on chip is left as it was; decided anew too: pass place:policy=none before, place after
$ echelon run --trace mlp_none.v5e --device tpu-v5e --engine native --pass donate:what=none 2>&1 | grep 'donate:'
  after pass donate:what=none
  - donate: left the program as it is: none of these arguments is donated
$ echelon run --trace decode_64.v5e --device tpu-v5e --engine native --pass donate:what=none --pass place 2>&1 | grep -E 'It (fits|takes)|hbm: .* -> |donate:|copied first'
  after pass donate:what=none
  It fits. hbm 544 MiB of 15.8 GiB (3 %), vector 102 MiB of 128 MiB (80 %), scalar 1.50 KiB of 1 MiB (0 %)
  It takes 1.07 ms, bound by hbm port (48 % of the critical path).
    It takes 19.3 % longer: 893 us -> 1.07 ms. Along the critical path: +170 us vector unit, +67.1 us hbm port, -61.2 us latency inside kernels.
    Traffic of hbm: 460 MiB -> 550 MiB (1.20x).
    hbm: 288 MiB -> 544 MiB (+256 MiB): +256 MiB arguments and results. At its fullest it holds +256 MiB results.
  - donate: 8 arrays (256 MiB): donated no more, the output has a place of its own
  - donate: 3 arrays (96 MiB): copied before they are written over, since the argument must stay
  - donate: what is on chip is left as it was; decided anew too: pass place:policy=none before, place after
  - place: 5 arguments are updated in place (160 MiB) but not donated: copied first
$ echelon run --trace gpt_pytorch.h100 --device h100-sxm --pass donate | grep -E '^    Nothing|donate:'; echelon run --trace gpt_offload.v5e --device tpu-v5e --engine native --pass serial --pass place:policy=none | grep 'comes before'
    Nothing: pass donate leaves it as it is: it changes programs as their compiler would, and this is no XLA program.
  - donate: left the trace as it is: it changes programs as their compiler would, and this is no XLA program
  - place: comes before serial, which changes what the program is lowered to
$ echelon advise tests/golden/data/undonated.hlo.txt --device tpu-v5e 2>&1 | grep argnames
   1  jax.jit(step, donate_argnames=["params", "state"])
$ echelon advise --trace tests/golden/data/argument_path.hlo.txt --device tpu-v5e | grep donate_argnames
   1  jax.jit(step, donate_argnames=["m"])
$ echelon run --trace tests/golden/data/argument_path.hlo.txt --device tpu-v5e | grep donate_argnames
  - 2 arguments (m.states[0][1] and others, 128 MiB) are not donated in the program as captured, though results have the same shape, type and memory: both are held. Where the caller does not use them again, jax.jit's donate_argnames spares that; --pass donate tells what it changes
