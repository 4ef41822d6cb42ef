echelon advise: measures are tried, and told with what they save and cost.
$ echelon advise traces/gpt_everything.h100 --device h100-sxm --memory 100MiB
gpt_everything.h100 on h100-sxm (NVIDIA H100 SXM5, 80 GB HBM3)

  IT DOES NOT FIT. 123 MiB of hbm are needed, 100 MiB are there.
  Do first: make again what needs no product (56.6 MiB, 911 us a step): jax.checkpoint(block, policy=jax.checkpoint_policies.dots_saveable).
  It takes 1.08 ms. Its critical path: latency inside kernels 81 %, hbm port 11 %, overhead 7 %.
  It needs 123 MiB of hbm; at its fullest that holds 100 MiB kept for later use, 16.0 MiB temporaries in use, 6.50 MiB arguments.
  Its temporaries then, by line of the program: gpt_step.py:32 (58 MiB), gpt_step.py:30 (24.6 MiB), gpt_step.py:21 (9 MiB), gpt_step.py:41 (8.00 MiB), gpt_step.py:26 (7.50 MiB), and others.
  Softmax takes or makes 111 MiB of that, of all pairs of positions: jax.nn.dot_product_attention(implementation="cudnn") keeps no such array.

                                                hbm      host     time  relative
  as it is                                  123 MiB         -  1.08 ms         -

  What would make it fit
   1  make again what needs no product     56.6 MiB         -   911 us    x0.847
   2  keep products of weights alone       48.4 MiB         -  1.01 ms    x0.938
   3  make activations again               31.6 MiB         -  1.08 ms    x1.007
   4  products on host, the rest again     35.3 MiB    16 MiB  1.27 ms    x1.181
  (of what is made again there are at once at most: 16 KiB by 1, 5.88 MiB by 2, 7.52 MiB by 3, 5.88 MiB by 4; jax.checkpoint has all there that a block makes: what a block makes beyond that it needs besides)

  What would run as it is, with what has no room on the host
   5  unified memory, paged on demand       100 MiB  22.7 MiB  13.4 ms   x12.470

  What would not be enough
   6  arguments on host, layer by layer     117 MiB  5.50 MiB        -         -

  How a program says so
   1  jax.checkpoint(block, policy=jax.checkpoint_policies.dots_saveable)
   2  jax.checkpoint(block, policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable)
   3  jax.checkpoint(block), around each block of layers; of a jax.lax.scan over layers around its body, with prevent_cse=False
   4  jax.checkpoint(block, policy=jax.checkpoint_policies.offload_dot_with_no_batch_dims("device", "pinned_host")), and convolutions by name: save_and_offload_only_these_names with jax.ad_checkpoint.checkpoint_name
   5  TF_FORCE_UNIFIED_MEMORY=true and XLA_CLIENT_MEM_FRACTION above 1

  What to add to 'echelon run', which tells the arrays
   1  --set device.memories.hbm.available=100MiB --pass remat:products=false,memory=100MiB
   2  --set device.memories.hbm.available=100MiB --pass remat:keep=products
   3  --set device.memories.hbm.available=100MiB --pass remat:memory=100MiB
   4  --set device.memories.hbm.available=100MiB --pass remat:keep=products --pass offload:what=activations,idle=0,above=64KiB,names=products --pass schedule
   5  --set device.memories.hbm.available=100MiB --set replay.unified_memory=true

  A smaller batch, a shorter sequence, or a smaller type, is another program: capture that as you captured this ('echelon capture --find' looks for the largest that fits).

  What cannot be done, or needs no less
    arguments on host: XLA brings stacked arrays back whole, all at once, and needs as much as without, or more; 'layer by layer' it does not
    donate what results can replace: these arguments are donated already, or no output has the shape, layout and memory of one of them
    loops update their stacks in place: no loop takes an array slice by slice and hands back another of its shape and layout
$ echelon advise traces/gpt_everything.h100 --device h100-sxm --memory 20MiB | sed -n '/not be enough/,/^$/p'
  What would not be enough
   2  again, and arguments layer by layer  26.3 MiB  5.50 MiB        -         -
   3  products on host, the rest again     27.6 MiB    16 MiB        -         -
   4  activations again or all on host     28.6 MiB     2 MiB        -         -
   5  again, blocks' inputs on host        28.6 MiB     2 MiB        -         -
   6  make activations again               31.5 MiB         -        -         -
   7  keep products of weights alone       48.4 MiB         -        -         -
   8  make again what needs no product     56.6 MiB         -        -         -
   9  arguments on host, layer by layer     117 MiB  5.50 MiB        -         -

$ echelon advise traces/gpt_unrolled_kept.h100 --device h100-sxm --memory 60MiB | grep -c -- '--pass schedule'
1
$ echelon advise --trace traces/gpt_everything.v6e --device tpu-v6e --jobs 2
gpt_everything.v6e on tpu-v6e (TPU v6e, one chip (one core), 32 GiB HBM)

  It fits. 31.2 MiB of 31.2 GiB of hbm are needed: what needing less would cost.
  It takes 318 us. Its critical path: vector unit 42 %, overhead 22 %, matrix unit 21 %.
  It needs 31.2 MiB of hbm; at its fullest that holds 18 MiB kept for later use, 6.51 MiB arguments, 4.00 MiB leaving for vector.
  It needs 95.8 MiB of vector; at its fullest that holds 79.3 MiB kept for later use, 10 MiB temporaries in use, 5.50 MiB from hbm, kept for later use.
  Its temporaries then, by line of the program: gpt_step.py:32 (10 MiB), gpt_step.py:26 (5.50 MiB), gpt_step.py:22 (4 MiB), gpt_step.py:41 (2.00 MiB), gpt_step.py:30 (2 MiB), and others.
  Softmax takes or makes 22 MiB of that, of all pairs of positions: jax.experimental.pallas.ops.tpu.splash_attention keeps no such array.

                                                hbm      host     time  relative
  as it is                                 31.2 MiB         -   318 us         -

  What would save some
   1  make activations again               14.5 MiB         -   323 us    x1.015
   2  products on host, the rest again     24.5 MiB     8 MiB   759 us    x2.387

  What may
   3  arguments on host, layer by layer    25.0 MiB  5.50 MiB   720 us    x2.264
  (XLA fetches offloaded arrays early, many at once, and may need as much as without, or more; what a loop over layers fetches slice by slice, jax.lax.scan, comes when it is used)
  The compiler settles it: with the measure in the program (jax.checkpoint, its offload policies, memory_kind="pinned_host", shardings), 'echelon capture --pretend tpu-v6e -o asked -- python train.py' tells what it needs then (large programs: compile.py --no-codegen tells the memory, long before the compiler is done).

  How a program says so
   1  jax.checkpoint(block), around each block of layers; of a jax.lax.scan over layers around its body, with prevent_cse=False
   2  jax.checkpoint(block, policy=jax.checkpoint_policies.offload_dot_with_no_batch_dims("device", "pinned_host")), and convolutions by name: save_and_offload_only_these_names with jax.ad_checkpoint.checkpoint_name
   3  optimizer state (weights, too, where a jax.lax.scan runs over their layers) with sharding.with_memory_kind("pinned_host"), and the update in a jax.lax.fori_loop over layers that carries state and weights: of each jax.lax.dynamic_index_in_dim(a, i, 0, keepdims=False), what waits on the host through jax.device_put to the device and, updated, back, and jax.lax.dynamic_update_index_in_dim

  What to add to 'echelon run', which tells the arrays
   1  --pass remat
   2  --pass remat:keep=products --pass offload:what=activations,idle=0,above=64KiB,names=products --pass schedule
   3  --pass slice --pass offload:what=arguments,overlap=true

  What cannot be done, or needs no less
    donate what results can replace: these arguments are donated already, or no output has the shape, layout and memory of one of them
    loops update their stacks in place: no loop takes an array slice by slice and hands back another of its shape and layout
    make again what needs no product: of the 30.5 MiB that it holds at its fullest, making arrays again (5 could be) saves nothing
    arguments on host: XLA brings stacked arrays back whole, all at once, and needs as much as without, or more; 'layer by layer' it does not
$ echelon advise traces/published_steps/llama3.1-70b.v6e-128.hlo.txt.gz --device tpu-v5e | sed -n '/larger device/,/^$/p'
  As it is, on a larger device
   2  tpu-v6e                              24.7 GiB    90 GiB   34.3 s    x0.274
   3  tpu7x                                24.7 GiB    90 GiB   25.4 s    x0.203
   4  tpu-8i                               24.7 GiB    90 GiB   47.8 s    x0.382

$ echelon advise traces/gpt_pytorch.h100 --device h100-sxm --memory 4GiB | head -n 4
gpt_pytorch.h100 on h100-sxm (NVIDIA H100 SXM5, 80 GB HBM3)
  with allocator pytorch:release:2.15, as recorded

  IT DOES NOT FIT. 4.63 GiB of hbm are needed, 4 GiB are there.
$ for m in 1400MiB 1780MiB; do echelon advise traces/gpt_pytorch.h100 --device h100-sxm --memory $m --pass batch:rows=1 | grep 'one row'; done
  Its batch is one row, of which an eighth (fewer tokens, or pixels) needs 1.71 GiB. Rows that are packed into one, without padding, are one.
  Its batch is one row, of which half (fewer tokens, or pixels) fits: 1.73 GiB, 6.09 ms a step. Rows that are packed into one, without padding, are one.
$ echelon advise traces/gpt_pytorch.h100 --device h100-sxm --memory 4352MiB | sed -n '/make it fit/,/^$/p;/What to add/,/^$/p'
  What would make it fit
   1  loss in eight parts                  2.72 GiB         -  12.2 ms    x1.033
   2  gradient accumulation in two         3.22 GiB         -  13.0 ms    x1.101
   3+ checkpoint each block                4.08 GiB         -  19.1 ms    x1.619
   4  gradient accumulation in four        2.34 GiB         -  21.2 ms    x1.795
   5  optimizer on host                    3.96 GiB  1.35 GiB  52.5 ms    x4.449
   6  weights and optimizer on host        3.62 GiB  1.35 GiB  56.8 ms    x4.818
   7+ activations on host, overlapped      4.05 GiB  2.15 GiB   102 ms    x8.648
   8+ activations on host, waited for      3.46 GiB  2.15 GiB   106 ms    x9.026

  What to add to 'echelon run', which tells the arrays
   1  --set device.memories.hbm.available=4352MiB --pass batch:what=loss,parts=8
   2  --set device.memories.hbm.available=4352MiB --pass batch:parts=2
   3  --set device.memories.hbm.available=4352MiB --allocator pytorch:expandable_segments:True --pass remat:modules=blocks.*
   4  --set device.memories.hbm.available=4352MiB --pass batch:parts=4
   5  --set device.memories.hbm.available=4352MiB --pass fuse:where=host
   6  --set device.memories.hbm.available=4352MiB --pass fuse:where=host --pass offload:what=arguments
   7  --set device.memories.hbm.available=4352MiB --allocator pytorch:expandable_segments:True --pass offload:what=activations,idle=0,each=true,above=1KiB,overlap=true,stash=5
   8  --set device.memories.hbm.available=4352MiB --allocator pytorch:expandable_segments:True --pass offload:what=activations,idle=0,each=true,above=1
   9  --set device.memories.hbm.available=4352MiB --set replay.unified_memory=true

$ echelon advise traces/keras_cnn.h100 --device h100-sxm | grep -cE '^ +[0-9]+  (make again what needs|keep products of)'
1
$ echelon advise traces/keras_cnn.h100 --device h100-sxm --memory 70MiB | sed -n '/make it fit/,/^$/p'
$ echelon advise traces/gpt_pytorch.h100 --device h100-sxm --memory 2GiB --json | sed -n '/"activations on host, overlapped"/,/hbm_bytes/p'
      "does" : "activations on host, overlapped",
      "options" : "--set device.memories.hbm.capacity=64TiB --set device.memories.hbm.available=64TiB --pass offload:what=activations,idle=0,each=true,above=1KiB,overlap=true,stash=5",
      "fits" : false,
      "hbm_bytes" : 5925751296,
$ echelon run traces/gpt_pytorch.h100 --device h100-sxm --set device.memories.hbm.capacity=64TiB --pass offload:what=activations,idle=0,each=true,overlap=true,stash=5 --json | sed -n '/"needs"/,/"bytes"/p'
  "needs" : {
    "hbm" : {
      "bytes" : 5927062016,
$ echelon advise traces/gpt_everything.h100 --device h100-sxm --memory 100MiB --json | sed -n '/"name" : "remat",/,/}/p'
      "name" : "remat",
      "does" : "make activations again",
      "options" : "--set device.memories.hbm.available=100MiB --pass remat:memory=100MiB",
      "fits" : true,
      "hbm_bytes" : 33125376,
      "host_bytes" : 0,
      "again_at_once_bytes" : 7888896,
      "makespan_ps" : 1082821760,
      "relative" : 1.0067742738966381
    },
$ echelon advise traces/gpt_unrolled_kept.h100 --device h100-sxm --memory 107MiB --json >$T/rows; for m in remat_and_offload unified_memory; do sed -n "/\"name\" : \"$m\"/,/}/p" $T/rows >$T/row; sed -n 's/ *"\(host_bytes\|makespan_ps\)"/advised \1/p' $T/row; echelon run traces/gpt_unrolled_kept.h100 --device h100-sxm --engine native $(sed -n 's/.*"options" : "\(.*\)",/\1/p' $T/row) --json | sed -n '/"needs"/,/^  }/{/"host"/,/bytes/{s/ *"bytes"/run host_bytes/p;};};s/^  "makespan_ps"/run makespan_ps/p'; done
advised host_bytes : 2097152,
advised makespan_ps : null,
echelon: gpt_unrolled_kept.h100 does not fit on h100-sxm
run makespan_ps : 2324870841,
run host_bytes : 2097152,
advised host_bytes : 76055604,
advised makespan_ps : 13205101143,
run makespan_ps : 13205101143,
$ echelon advise traces/adam_moments.h100 --device h100-sxm --memory 2950MiB | sed -n '/make it fit/,/^$/p;/^   1  compile/p;/^   1 .*--pass/p'
  What would make it fit
   1  what is on host, fetched later       2.70 GiB  1.53 GiB  58.5 ms    x1.000

   1  compile it for a device of that memory: XLA's scheduler keeps what comes from the host to 95 % of it, or of as much as xla_gpu_memory_limit_slop_factor or xla_tpu_scheduler_percent_shared_memory_limit say (compiler_options of .compile())
   1  --set device.memories.hbm.available=2950MiB --pass schedule:memory=2950MiB
$ echelon run --trace traces/gpt_everything.h100 --device h100-sxm --set device.memories.hbm.capacity=60MiB | grep advise
    echelon advise --trace traces/gpt_everything.h100 --device h100-sxm --set device.memories.hbm.capacity=60MiB
$ echelon advise traces/gpt_everything.h100
echelon advise: expected one trace and --device NAME
exit 2
$ echelon advise traces/gpt_everything.h100 --device h100-sxm --memory much
echelon: --memory: 'much' is not a size; expected something like 16GiB
exit 2
$ echelon advise traces/gpt_everything.h100 --device h100-sxm --jobs 0
echelon advise: expected one trace and --device NAME, --jobs 1 to 256
exit 2
$ echelon advise nothing.hlo --device h100-sxm
echelon: nothing.hlo: No such file or directory
exit 1
$ echelon advise traces/adam_stacked_none.v5e --device tpu-v5e --memory 600MiB | sed -n '/^  Do first/p;/make it fit/,/^$/p;/^   1 .*--pass/p;/XLA brings/p'
  Do first: arguments on host, layer by layer (568 MiB, 116 ms a step): optimizer state (weights, too, where a jax.lax.scan runs over their layers) with sharding.with_memory_kind("pinned_host"), and the update in a jax.lax.fori_loop over layers that carries state and weights: of each jax.lax.dynamic_index_in_dim(a, i, 0, keepdims=False), what waits on the host through jax.device_put to the device and, updated, back, and jax.lax.dynamic_update_index_in_dim.
  What would make it fit
   1  arguments on host, layer by layer     568 MiB   580 MiB   116 ms    x8.668
   2  again, and arguments layer by layer   376 MiB   772 MiB   149 ms   x11.146

   1  --set device.memories.hbm.available=600MiB --pass slice --pass offload:what=arguments,overlap=true,memory=600MiB
    arguments on host: XLA brings stacked arrays back whole, all at once, and needs as much as without, or more; 'layer by layer' it does not
$ echelon advise traces/adam_none.v5e --device tpu-v5e --memory 2000MiB | sed -n '/not be enough/,/^$/p'
  What would not be enough
   2* again, and arguments on host         2.11 GiB   984 MiB        -         -
   3* make activations again               2.31 GiB         -        -         -
   4* products on host, the rest again     2.31 GiB  5.25 MiB        -         -
   5  donate what results can replace      2.31 GiB         -        -         -
  (*: with arguments donated, too)

$ echelon advise traces/gpt_unrolled_kept.h100 --device h100-sxm --pass donate:what=none --memory 115MiB | sed -n '/What may/,/^$/p;/^   1 .*--pass/p;/donated, too/p'
  What may
   1* make activations again                108 MiB         -  2.20 ms    x1.203
  (of what is made again there are at once at most: 32 MiB by 1; jax.checkpoint has all there that a block makes: what a block makes beyond that it needs besides)
  (compilers asked for jax.checkpoint have taken up to 1.2 times what is said of making again)
  The compiler settles it: with the measure in the program (jax.checkpoint, its offload policies, memory_kind="pinned_host", shardings), 'echelon capture --pretend h100-sxm -o asked -- python train.py' tells what it needs then.

  (*: with arguments donated, too)
   1  --set device.memories.hbm.available=115MiB --pass donate --pass remat:memory=74MiB
$ echelon advise traces/gpt_everything.h100 --device h100-sxm --memory 29MiB | sed -n '/NOT FIT/,/It takes/p;/What may/,/^$/p;/not be enough/,/^$/p'
  IT DOES NOT FIT. 123 MiB of hbm are needed, 29 MiB are there.
  Try first: make activations again: jax.checkpoint(block), around each block of layers; of a jax.lax.scan over layers around its body, with prevent_cse=False.
  It takes 1.08 ms. Its critical path: latency inside kernels 81 %, hbm port 11 %, overhead 7 %.
  What may
   1  make activations again               31.5 MiB         -        -         -
   2  activations again or all on host     28.1 MiB     2 MiB  1.17 ms    x1.089
   3  again, blocks' inputs on host        28.1 MiB     2 MiB  1.17 ms    x1.089
   4  again, and arguments layer by layer  26.3 MiB  5.50 MiB  1.91 ms    x1.772
   5  products on host, the rest again     30.9 MiB    16 MiB        -         -
  (of what is made again there are at once at most: 7.52 MiB by 2, 7.52 MiB by 3, 7.52 MiB by 4; jax.checkpoint has all there that a block makes: what a block makes beyond that it needs besides)
  (compilers asked for jax.checkpoint have taken up to 1.2 times what is said of making again)
  (XLA fetches offloaded arrays early, many at once, and may need as much as without, or more; what a loop over layers fetches slice by slice, jax.lax.scan, comes when it is used)
  (what is told without a time has no room with the kernels that there are; a policy of jax.checkpoint makes again all that it does not name, in kernels fused anew, and needs from what 'make activations again' does up to that)
  The compiler settles it: with the measure in the program (jax.checkpoint, its offload policies, memory_kind="pinned_host", shardings), 'echelon capture --pretend h100-sxm -o asked -- python train.py' tells what it needs then.

  What would not be enough
   7  keep products of weights alone       48.4 MiB         -        -         -
   8  make again what needs no product     56.6 MiB         -        -         -
   9  arguments on host, layer by layer     117 MiB  5.50 MiB        -         -

$ sed '/^summary/d' tests/golden/data/small.yaml >$T/bare.yaml; COLUMNS=80 echelon advise tests/golden/data/recorded.ech --device $T/bare.yaml | head -2; cp tests/golden/data/recorded.ech $T/$(printf 'a-long-name-%.0s' 1 2 3 4 5 6 7).ech; COLUMNS=60 echelon advise $T/a-long*.ech --device tests/golden/data/small.yaml | head -3
recorded on small

a-long-name-a-long-name-a-long-name-a-long-name-a-long-name-a-long-name-a-long-name-
on small (a device for tests)

$ echelon advise traces/data_parallel_whole.v5e --device tpu-v5e --memory 700MiB | sed -n '/make it fit/,/^$/p;/not be enough/,/^$/p'
  What would make it fit
   1  weights and state split (ZeRO-1)      448 MiB         -  8.20 ms    x0.787
   2  arguments on host                     698 MiB   448 MiB  73.1 ms    x7.019

  What would not be enough
   3  make activations again               1.08 GiB         -        -         -
   4  products on host, the rest again     1.08 GiB    88 MiB        -         -
   5  keep products of weights alone       1.10 GiB         -        -         -
   6  make again what needs no product     1.12 GiB         -        -         -

$ zcat traces/gpt_pytorch_measures.h100/checkpoint.pretend.gz | awk '/^name /{n = $2} /^end$/{printf "name %d \"echelon with: checkpoint=blocks.*\"\nmark %s 1 %d\nname %d \"echelon with: fused\"\nmark %s 1 %d\n", n + 1, at, n + 1, n + 2, at, n + 2} {at = $2} 1' > $T/with.7.pretend; echelon run --trace $T/with.7.pretend --device h100-sxm | grep 'captured with'
  - it was captured with checkpoint=blocks.*,fused, which the program does not have itself (echelon capture --with)
$ cd $T && G=$OLDPWD/traces; echelon advise --trace $G/gpt_pytorch.h100/gpt.pretend.gz --also with.7.pretend $G/gpt_pytorch_measures.h100/accumulate.pretend.gz no.pretend --device h100-sxm --step last --memory 4300MiB | sed -n "s,$G,TRACES,; /Do first/p; /as it is  /p; /would make it fit/,/^$/p; /not be enough/,/^$/p; /program says/,/^$/p; /What to add/,/^$/p; /could not be tried/,\$p" | grep -E 'with|accum|could|as it is|no.pretend|blocks'
  as it is                                 4.63 GiB         -  11.8 ms         -
   2  accumulate.pretend.gz                3.22 GiB         -  13.0 ms    x1.100
   3  gradient accumulation in two         3.22 GiB         -  13.0 ms    x1.101
   5  gradient accumulation in four        2.34 GiB         -  21.2 ms    x1.795
  13  checkpoint=blocks.*,fused            4.63 GiB         -        -         -
  (+: with segments that grow, too: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True)
   3, 5  for each part of the batch (loss / parts).backward(), then one optimizer.step(): gradient_accumulation_steps of transformers' Trainer and accelerate, accumulate_grad_batches of Lightning, with the batch divided by that; under DistributedDataParallel all but the last within model.no_sync()
   4  torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) for block(x) of blocks.*; and PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
   7  torch.distributed.fsdp.fully_shard(block, offload_policy=CPUOffloadPolicy()) of each block and the model, which takes the optimizer along (one GPU is a world of one; without fused=True its step on the host takes two to three times as long), DeepSpeed's ZeRO-3 with offload_param
   9  with torch.autograd.graph.save_on_cpu(pin_memory=True): around the forward pass; and PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
   2  --set device.memories.hbm.available=4300MiB --trace TRACES/gpt_pytorch_measures.h100/accumulate.pretend.gz in place of this one
   4  --set device.memories.hbm.available=4300MiB --allocator pytorch:expandable_segments:True --pass remat:modules=blocks.*
  What could not be tried
    no.pretend: --set trace=no.pretend: no.pretend: No such file or directory
$ echelon advise traces/gpt_pytorch.h100 --device h100-sxm --step last | grep 'Not tried'
  Not tried, since PyTorch itself tells: compile. 'echelon capture --pretend h100-sxm --with compile -o with -- COMMAND', then '--also with.PID.pretend' here; 'echelon list measures' has more.
$ awk 'BEGIN { print "echelon-pretend 1\nclock 1\ndevice 85899345920 0 1 \"h100-sxm\"\nname 1 \"cublasLtMatmul\"\nname 2 \"nn.Module: M\"\nname 3 \"product=8x8192x640 batch=1 operand_bytes=2 output_bytes=2\"\nname 4 \"bf16\"\nname 5 \"/x/site-packages/diffusers/models/attention.py:9:forward\\naten::linear\""; for (i = 1; i <= 200; i++) printf "alloc 1 0 0 %d 10485760 3 0\nset 1 0 0 10485760\nuses 2 %d 10485760\n", i * 10485760, i * 10485760; for (t = 10; t < 40; t += 10) { print "push " t " 9 2\npush " t " 9 5"; for (i = 1; i <= 200; i++) printf "library %d 0 0 1 3 10485760 131072 83886080 4\nuses 1 %d 10485760\n", t, i * 10485760; print "pop " t " 9\npop " t " 9" } print "end" }' >$T/few_bits.pretend; for library in diffusers torchao; do sed "s,/diffusers/,/$library/," $T/few_bits.pretend >$T/$library.pretend; echelon advise $T/$library.pretend --device h100-sxm | grep 'Not tried'; done
  Not tried, since PyTorch itself tells: compile, quantize, layerwise_casting. 'echelon capture --pretend h100-sxm --with compile -o with -- COMMAND', then '--also with.PID.pretend' here; 'echelon list measures' has more.
  Not tried, since PyTorch itself tells: compile. 'echelon capture --pretend h100-sxm --with compile -o with -- COMMAND', then '--also with.PID.pretend' here; 'echelon list measures' has more.
$ echelon advise tests/golden/data/decoder.ech --device h100-sxm | grep 'By line'
  By line of the program, without what it is given: upsampling.py:186 (286 MiB). Most of that is diffusers' autoencoder: pipe.vae.enable_tiling() has it go over images larger than its tiles (vae.tile_sample_min_size, _height, _width) in parts, enable_slicing() image by image; capture that anew.
$ echelon advise traces/gpt_pytorch_compiled.h100/whole.pretend.gz --device h100-sxm --step last | grep -c 'Not tried'
0
exit 1
$ echelon advise traces/gpt_jax.h100 --device h100-sxm --memory 100MiB | sed -n '/with what has no room/,/^$/p'
  What would run as it is, with what has no room on the host
   1  unified memory, paged on demand       100 MiB  24.7 MiB  7.10 ms    x6.584

$ echelon run --trace traces/gpt_jax.h100 --device h100-sxm --engine native --set device.memories.hbm.available=100MiB --set replay.unified_memory=true | grep 'Unified'
  Unified memory: 100 MiB of it are the device's. 208 MiB came from the host when they were touched, and 234 MiB went there to make room; operations waited 10.5 ms for that.
$ echelon advise --trace traces/gpu_h200/jax_offload/gpt_nothing --device h200-calibrated | grep -E 'in eight parts|inputs on host|checkpoint_name|lax.scan'
   1  loss in eight parts                  2.06 GiB         -  47.4 ms    x1.016
   2  blocks' inputs on host               2.53 GiB   192 MiB  48.7 ms    x1.043
   1  the last product and the loss of an eighth of the rows at a time: jax.lax.scan(jax.checkpoint(f), 0.0, (x.reshape(8, -1, x.shape[-1]), labels.reshape(8, -1))), f(total, (a, b)): (total + loss(a @ head, b).sum(), None); where head is the table of embeddings, jnp.einsum("rd,vd->rv", a, table) for a @ table.T, whose gradient would be turned round and be there twice
   2  jax.checkpoint(block, policy=jax.checkpoint_policies.save_and_offload_only_these_names(names_which_can_be_saved=[], names_which_can_be_offloaded=["big"], offload_src="device", offload_dst="pinned_host")), in the block x = checkpoint_name(x, "big") (from jax.ad_checkpoint import checkpoint_name), of what blocks begin with
   3  optimizer state (weights, too, where a jax.lax.scan runs over their layers) with sharding.with_memory_kind("pinned_host"), and the update in a jax.lax.fori_loop over layers that carries state and weights: of each jax.lax.dynamic_index_in_dim(a, i, 0, keepdims=False), what waits on the host through jax.device_put to the device and, updated, back, and jax.lax.dynamic_update_index_in_dim
$ echelon advise --trace tests/golden/data/oom.pickle --device l4 --set device.memories.hbm.available=100MiB
oom.pickle on l4 (NVIDIA L4, 24 GB GDDR6)
  with device.memories.hbm.available=100MiB
  with allocator pytorch, as recorded

  IT DOES NOT FIT. 120 MiB of hbm are needed, 100 MiB are there.
  It takes 714 us. Its critical path: allocator 87 %, the host, as recorded 13 %.
  It needs 120 MiB of hbm; at its fullest that holds 120 MiB buffers.
  By line of the program, without what it is given: loss.py:8 (100 MiB), model.py:12 (20 MiB).

                                                hbm      host     time  relative
  as it is                                  120 MiB         -   714 us         -

  What computes is not recorded here, and with it most of what would help: 'echelon capture --pretend DEVICE -- COMMAND' runs the program, on a machine without that device too, and leaves what tells.

  What cannot be done, or needs no less
    unified memory, paged on demand: nothing that uses the arrays is recorded, so that what they take to come and go is not known
    loss in eight parts; loss in parts, with its logits: it has no computing queue, or no memory "hbm"
    make activations again; activations on host, waited for; activations on host, overlapped; again, and optimizer on host: it has no device memory 'hbm', or nothing computes in it
    optimizer on host; weights and optimizer on host: none of PyTorch's is recorded with what its kernels read and write
    eight, all split (FSDP, ZeRO-3): nothing computes in it
    optimizer state in 8 bits: none of Adam, AdamW, Adagrad, SGD and RMSprop is recorded with what its kernels read and write
exit 3
