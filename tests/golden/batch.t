The batch pass: what a PyTorch program takes with a larger batch or a smaller one, or one taken in parts, told from one capture; and captured so.
$ echelon run --trace traces/gpt_pytorch.h100 --device h100-sxm --step last --engine native --pass batch:parts=2 2>&1 | grep -E '^  (It (fits|takes)|[0-9.]+ GiB reserved)|batch:'
  after pass batch:parts=2
  It fits. hbm 3.22 GiB of 78.6 GiB (4 %)
  3.71 GiB reserved by allocator pytorch:release:2.15, as recorded (PyTorch 2.13 or later); nvidia-smi would show 4.21 GiB, 512 MiB of it the process's context.
  It takes 13.0 ms, bound by hbm port (50 % of the critical path).
  - batch: in 2 parts, 4 each, one after the other, whose gradients are added up: 1.01 GiB in all; what is a mean over a batch is one over a part
$ echelon run --trace traces/gpt_pytorch_measures.h100/accumulate.pretend.gz --device h100-sxm --step last --engine native 2>&1 | grep -E '^  (It (fits|takes)|[0-9.]+ GiB reserved)'
  It fits. hbm 3.22 GiB of 78.6 GiB (4 %)
  3.71 GiB reserved by allocator pytorch:release:2.15, as recorded (PyTorch 2.13 or later); nvidia-smi would show 4.21 GiB, 512 MiB of it the process's context.
  It takes 13.0 ms, bound by hbm port (50 % of the critical path).
$ echelon run --trace traces/gpt_pytorch.h100 --device h100-sxm --step last --engine native --pass batch:rows=32 2>&1 | grep -E '^  It (fits|takes)|batch:'
  after pass batch:rows=32
  It fits. hbm 15.2 GiB of 78.6 GiB (19 %)
  It takes 37.3 ms, bound by hbm port (45 % of the critical path).
  - batch: a batch of 32 for 8: 289 arrays have rows of it
$ echelon run --trace traces/gpt_pytorch_compiled.h100/whole.pretend.gz --device h100-sxm --step last --engine native --pass batch:times=0.5 2>&1 | grep -E '^  It (fits|takes)|batch:'
  after pass batch:times=0.5
  It fits. hbm 2.89 GiB of 78.6 GiB (4 %), host 6 B of 2 TiB (0 %)
  It takes 6.99 ms, bound by hbm port (61 % of the critical path).
  - batch: a batch of 4 for 8: 142 arrays have rows of it
$ echelon run --trace traces/gpt_pytorch.h100 --device h100-sxm --pass batch:parts=3 2>&1 | grep -E 'batch:'
  after pass batch:parts=3
    Nothing: pass batch:parts=3 leaves it as it is: its batch of 8 would be 2.66667.
  - batch: left the trace as it is: its batch of 8 would be 2.66667
$ echelon run --trace traces/gpt_unrolled_kept.h100 --device h100-sxm --pass batch:times=2 2>&1 | grep -E 'batch:'
  after pass batch:times=2
    Nothing: pass batch:times=2 leaves it as it is: it does not tell what its modules are given; one of PyTorch's that is captured anew by 'echelon capture --pretend' does.
  - batch: left the trace as it is: it does not tell what its modules are given; one of PyTorch's that is captured anew by 'echelon capture --pretend' does
$ zcat traces/gpt_pytorch_measures.h100/checkpoint.pretend.gz | sed 's/nn.Module given/given/' >$T/before.pretend; cp traces/gpt_pytorch_measures.h100/checkpoint.pickle.gz $T/before.pickle.gz; echelon run --trace $T/before.pretend --device h100-sxm --pass batch:rows=4 2>&1 | grep -E 'batch:'
  after pass batch:rows=4
    Nothing: pass batch:rows=4 leaves it as it is: it does not tell what its modules are given; one of PyTorch's that is captured anew by 'echelon capture --pretend' does.
  - batch: left the trace as it is: it does not tell what its modules are given; one of PyTorch's that is captured anew by 'echelon capture --pretend' does
$ echelon run --trace traces/gpt_pytorch.h100 --device h100-sxm --pass batch:parts=0
echelon: --pass: pass batch: parts: '0' is out of range; expected 1 to 1024
exit 2
$ echelon run batch_sizes --engine native 2>&1
A GPT's training step with batches of 4 to 128, on four cards

  batch, device          fits     time  x first  hbm peak  hbm reserved  bound by
  ---------------------  ----  -------  -------  --------  ------------  -----------
  4, l4                  yes   84.0 ms    1.000  2.88 GiB      3.22 GiB  hbm port
  4, l40s                yes   22.3 ms    0.265  2.88 GiB      3.22 GiB  hbm port
  4, a100-80             yes   15.8 ms    0.188  2.88 GiB      3.22 GiB  hbm port
  4, h100-sxm            yes   7.46 ms    0.089  2.88 GiB      3.22 GiB  hbm port
  8, l4                  yes    136 ms    1.620  4.63 GiB      4.99 GiB  hbm port
  8, l40s                yes   35.8 ms    0.427  4.63 GiB      4.99 GiB  hbm port
  8, a100-80             yes   26.4 ms    0.314  4.63 GiB      4.99 GiB  matrix unit
  8, h100-sxm            yes   11.8 ms    0.140  4.63 GiB      4.99 GiB  hbm port
  32, l4                 yes    438 ms    5.218  15.2 GiB      18.6 GiB  hbm port
  32, l40s               yes    115 ms    1.370  15.2 GiB      18.6 GiB  hbm port
  32, a100-80            yes   88.4 ms    1.052  15.2 GiB      18.6 GiB  matrix unit
  32, h100-sxm           yes   37.3 ms    0.444  15.2 GiB      18.6 GiB  hbm port
  64, l4                 NO    stopped           28.5 GiB             -  space
  64, l40s               yes    218 ms    2.593  29.2 GiB      36.7 GiB  hbm port
  64, a100-80            yes    170 ms    2.023  29.2 GiB      36.7 GiB  matrix unit
  64, h100-sxm           yes   71.1 ms    0.847  29.2 GiB      36.7 GiB  hbm port
  128, l4                NO    stopped           25.3 GiB             -  space
  128, l40s              NO    stopped           56.6 GiB             -  space
  128, a100-80           yes    335 ms    3.984  57.3 GiB      73.1 GiB  matrix unit
  128, h100-sxm          yes    139 ms    1.651  57.3 GiB      73.1 GiB  hbm port
  128 in four, l4        yes    1.67 s   19.927  15.5 GiB      18.6 GiB  hbm port
  128 in four, l40s      yes    438 ms    5.209  15.5 GiB      18.6 GiB  hbm port
  128 in four, a100-80   yes    343 ms    4.083  15.5 GiB      18.6 GiB  matrix unit
  128 in four, h100-sxm  yes    143 ms    1.707  15.5 GiB      18.6 GiB  hbm port

  What changed, and why

  4, l4
    It takes 84.0 ms. Its critical path: hbm port 71 %, matrix unit 28 %.
    It needs 2.88 GiB of hbm; at its fullest that holds 1.13 GiB activations, 692 MiB optimizer state, 500 MiB
    temporaries in use.

  4, l4 -> 8, l4
    It takes 62.0 % longer: 84.0 ms -> 136 ms. Along the critical path: +29.1 ms hbm port, +23.2 ms matrix unit.
    The hbm port has to move 21.9 GiB (266 MiB of that in L2) instead of 14.9 GiB (657 MiB of that in L2); that keeps it
    busy for 99.3 ms instead of 65.3 ms.
    The operations that changed most: 'cublasGemmEx' 16.3 ms -> 32.5 ms, 'cublasLtMatmul' 8.08 ms -> 16.0 ms,
    'vectorized_elementwise_kerne...1}, array<char*, 2ul>, false>' 5.10 ms -> 9.87 ms.
    Traffic of hbm: 14.9 GiB -> 21.9 GiB (1.47x).
    hbm: 2.88 GiB -> 4.63 GiB (+1.75 GiB). At its fullest it holds +1.02 GiB activations, +500 MiB temporaries in use,
    +250 MiB buffers.

  4, l4 -> 32, l4
    It takes 5.22 times as long: 84.0 ms -> 438 ms. Along the critical path: +193 ms hbm port, +162 ms matrix unit.
    The hbm port has to move 64.0 GiB instead of 14.9 GiB (657 MiB of that in L2); that keeps it busy for 293 ms instead
    of 65.3 ms.
    The operations that changed most: 'cublasGemmEx' 16.3 ms -> 129 ms, 'cublasLtMatmul' 8.08 ms -> 63.7 ms,
    'vectorized_elementwise_kerne...1}, array<char*, 2ul>, false>' 5.10 ms -> 35.9 ms.
    Traffic of hbm: 14.9 GiB -> 64.0 GiB (4.30x).
    hbm: 2.88 GiB -> 15.2 GiB (+12.3 GiB). At its fullest it holds +7.16 GiB activations, +3.42 GiB temporaries in use,
    +1.71 GiB buffers.

  4, l4 -> 64, l4
    It stops fitting: in the steps before 'NllLossBackward0' asks for 7.81 GiB of hbm, where 20.7 GiB of 22.0 GiB are
    live.

  4, l4 -> 128, l4
    It stops fitting: in the steps before 'gpt_train.py:59 (functional.py:3561)' asks for 7.81 GiB of hbm, where
    17.5 GiB of 22.0 GiB are live.

  4, l4 -> 128 in four, l4
    It takes 19.9 times as long: 84.0 ms -> 1.67 s. Along the critical path: +872 ms hbm port, +716 ms matrix unit.
    The hbm port has to move 239 GiB instead of 14.9 GiB (657 MiB of that in L2); that keeps it busy for 1.09 s instead
    of 65.3 ms.
    The operations that changed most: 'cublasGemmEx' 16.3 ms -> 515 ms, 'cublasLtMatmul' 8.08 ms -> 255 ms,
    'vectorized_elementwise_kerne...1}, array<char*, 2ul>, false>' 5.10 ms -> 144 ms.
    Traffic of hbm: 14.9 GiB -> 239 GiB (16.05x).
    hbm: 2.88 GiB -> 15.5 GiB (+12.6 GiB). At its fullest it holds +7.16 GiB activations, +3.42 GiB temporaries in use,
    +1.71 GiB buffers.

  128, l4 -> 128, l40s
    It still does not fit: in the steps before 'NllLossBackward0' asks for 15.6 GiB of hbm, where 41.0 GiB of 44.0 GiB
    are live.

  128, l4 -> 128, a100-80, 128, h100-sxm
    It fits now.
$ echelon advise traces/gpt_pytorch.h100 --device h100-sxm --memory 3GiB --step last | head -n 6
gpt_pytorch.h100 on h100-sxm (NVIDIA H100 SXM5, 80 GB HBM3)
  with allocator pytorch:release:2.15, as recorded

  IT DOES NOT FIT. 4.63 GiB of hbm are needed, 3 GiB are there.
  Do first: loss in eight parts (2.72 GiB, 12.2 ms a step): the last layer and the loss of an eighth of the rows at a time: h = x.detach().requires_grad_(); for a, b in zip(h.chunk(8), labels.chunk(8)): (cross_entropy(head(a), b, reduction="sum") / rows).backward(); then x.backward(h.grad).
  A batch of 3 fits as it is (8 now): 2.44 GiB, 6.37 ms a step, 0.69 times the rows a second.
$ zcat traces/gpt_pytorch.h100/gpt.pretend.gz | awk '/^name 828 / {$0 = "name 828 \"nn.Module given: 4 64214205174784\""} /^mark .* 92$/ && ++n == 3 {$4 = 828} 1' | gzip > $T/less.pretend.gz; cp traces/gpt_pytorch.h100/gpt.pickle.gz $T/less.pickle.gz; echelon run --trace $T/less.pretend.gz --device h100-sxm --engine native --step last | grep rows; echelon run --trace $T/less.pretend.gz --device h100-sxm --engine native --step usual | head -1; echelon advise --trace $T/less.pretend.gz --device h100-sxm | grep -E 'A batch|last step'; echelon advise --trace $T/less.pretend.gz --device h100-sxm --step last | grep -c 'A batch'; echelon advise --trace $T/less.pretend.gz --device h100-sxm --json | grep -A1 '"number"'
  - its batch was captured with 4 rows, others with 8, which is what --pass batch goes by: --step usual is the last of those
less.pretend, step 1 of 2 on h100-sxm (NVIDIA H100 SXM5, 80 GB HBM3)
  A batch of 138 fits as it is (8 now): 61.7 GiB, 150 ms a step, 1.39 times the rows a second.
  Its last step with as large a batch as most, 1 of 2, from Optimizer.step#AdamW.step to the next, takes 12.1 ms: times below are of that step, memory is of the whole.
0
    "number" : 1,
    "from" : "Optimizer.step#AdamW.step to the next"
$ echelon advise traces/gpt_pytorch.h100 --device h100-sxm --memory 1GiB --step last | grep batch
  No smaller batch fits as it is (8 now): one of 1 needs 1.76 GiB.
   2  checkpoint each, micro-batches of 1  1.80 GiB         -        -         -
   3+ micro-batches of one                 1.90 GiB         -        -         -
   2, 6  torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) for block(x) of blocks.*; and for each part of the batch (loss / parts).backward(), then one optimizer.step(): gradient_accumulation_steps of transformers' Trainer and accelerate, accumulate_grad_batches of Lightning, with the batch divided by that; under DistributedDataParallel all but the last within model.no_sync()
   3, 8  for each part of the batch (loss / parts).backward(), then one optimizer.step(): gradient_accumulation_steps of transformers' Trainer and accelerate, accumulate_grad_batches of Lightning, with the batch divided by that; under DistributedDataParallel all but the last within model.no_sync(); and PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
   4  for each part of the batch (loss / parts).backward(), then one optimizer.step(): gradient_accumulation_steps of transformers' Trainer and accelerate, accumulate_grad_batches of Lightning, with the batch divided by that; under DistributedDataParallel all but the last within model.no_sync()
   2  --set device.memories.hbm.capacity=64TiB --set device.memories.hbm.available=64TiB --pass remat:modules=blocks.* --pass batch:parts=8
   3  --set device.memories.hbm.capacity=64TiB --set device.memories.hbm.available=64TiB --allocator pytorch:expandable_segments:True --pass batch:parts=8
   4  --set device.memories.hbm.capacity=64TiB --set device.memories.hbm.available=64TiB --pass batch:parts=4
   5  --set device.memories.hbm.capacity=64TiB --set device.memories.hbm.available=64TiB --allocator pytorch:expandable_segments:True --pass batch:what=loss,parts=8
   6  --set device.memories.hbm.capacity=64TiB --set device.memories.hbm.available=64TiB --pass remat:modules=blocks.* --pass batch:parts=2
   8  --set device.memories.hbm.capacity=64TiB --set device.memories.hbm.available=64TiB --allocator pytorch:expandable_segments:True --pass batch:parts=2
  16  --set device.memories.hbm.capacity=64TiB --set device.memories.hbm.available=64TiB --pass remat:modules=blocks.* --pass batch:what=loss
$ echelon advise traces/gpt_pytorch.h100 --device l4 --step last --json | sed -n '/"batch" :/,/}/p'
  "batch" : {
    "rows" : 8,
    "most_rows" : 38,
    "fits" : true,
    "hbm_bytes" : 19108892160,
    "host_bytes" : 0,
    "makespan_ps" : 513477055215
  },
$ for p in batch:rows=8 batch:parts=1 batch:rows=0; do echelon run --trace gpt_pytorch.h100 --device h100-sxm --pass $p | grep -E 'Nothing|- batch'; done
    Nothing: pass batch:rows=8 leaves it as it is: its batch is 8 already; rows=, times= or parts= asks for another.
  - batch: left the trace as it is: its batch is 8 already; rows=, times= or parts= asks for another
    Nothing: pass batch leaves it as it is: its batch is 8 already; rows=, times= or parts= asks for another.
  - batch: left the trace as it is: its batch is 8 already; rows=, times= or parts= asks for another
    Nothing: pass batch leaves it as it is: its batch is 8 already; rows=, times= or parts= asks for another.
  - batch: left the trace as it is: its batch is 8 already; rows=, times= or parts= asks for another
$ echelon run --trace traces/gpt_pytorch.h100 --device l4 --engine native --step last --pass batch:rows=64 | sed -n '/DOES NOT FIT/,/before anything/p'; sh -c "$(echelon run --trace traces/gpt_pytorch.h100 --device l4 --engine native --step last --pass batch:rows=64 | grep '^ *echelon advise')" | grep -E 'with|FIT|batch of'; echelon run --trace traces/gpt_pytorch.h100 --device l4 --engine native --step last --pass batch:rows=64 --json | jq -c '.failure | {before_the_step, n: .held_by | length}'; echelon run batch_sizes | grep -c 'stops fitting: in the steps before'
  IT DOES NOT FIT. hbm 28.5 GiB of 22.0 GiB (130 %)
  In the steps before 'NllLossBackward0' asks for 7.81 GiB more in hbm: 20.7 GiB of 22.0 GiB are live, 20.9 GiB reserved.
  What held the memory:
    11.7 GiB  gpt_train.py:59 (functional.py:3561), 2 of them  activation
    3.91 GiB  gpt_train.py:49 (linear.py:134)                  temporary
    1.25 GiB  gpt_train.py:35, 3 of them                       activation
    1.12 GiB  gpt_train.py:35 (linear.py:134), 3 of them       activation
     896 MiB  gpt_train.py:32 (linear.py:134), 3 of them       activation
     512 MiB  gpt_train.py:34, 2 of them                       activation
     256 MiB  gpt_train.py:46 (functional.py:2621)             activation
     128 MiB  gpt_train.py:33                                  activation
  (2.04 GiB of the 24 GiB of hbm are kept by the driver and the process's context.)
  What would make it fit:
    echelon advise --trace traces/gpt_pytorch.h100 --device l4 --step last --pass batch:rows=64
  That is before anything of it ran.
  with pass batch:rows=64
  with allocator pytorch:release:2.15, as recorded
  IT DOES NOT FIT. 29.2 GiB of hbm are needed, 22.0 GiB are there beside 212 MiB of the process's context.
  Do first: gradient accumulation in two (15.5 GiB, 851 ms a step): for each part of the batch (loss / parts).backward(), then one optimizer.step(): gradient_accumulation_steps of transformers' Trainer and accelerate, accumulate_grad_batches of Lightning, with the batch divided by that; under DistributedDataParallel all but the last within model.no_sync().
  A batch of 38 fits as it is (64 now): 17.8 GiB, 514 ms a step, 0.97 times the rows a second.
  By line of the program, without what it is given: gpt_train.py:59 (11.7 GiB), gpt_train.py:49 (4.09 GiB), gpt_train.py:35 (2.53 GiB), gpt_train.py:32 (1.01 GiB), gpt_train.py:34 (516 MiB), and others.
  What would run as it is, with what has no room on the host
  (+: with segments that grow, too: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True)
   1, 2  for each part of the batch (loss / parts).backward(), then one optimizer.step(): gradient_accumulation_steps of transformers' Trainer and accelerate, accumulate_grad_batches of Lightning, with the batch divided by that; under DistributedDataParallel all but the last within model.no_sync()
   5  with torch.autograd.graph.save_on_cpu(pin_memory=True): around the forward pass; and PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
  Not tried, since PyTorch itself tells: compile. 'echelon capture --pretend l4 --set device.memories.hbm.capacity=1TiB --with compile -o with -- COMMAND', then '--also with.PID.pretend' here; 'echelon list measures' has more.
    loss in parts, with its logits: its loss is of few classes
echelon: gpt_pytorch.h100, step 2 of 2 does not fit on l4
{"before_the_step":true,"n":8}
2
$ echelon run --trace traces/gpt_pytorch.h100 --device h100-sxm --engine native --set device.memories.hbm.available=3GiB | grep -A3 'set to be'
  (3 GiB of the 80 GiB of hbm were set to be available.)
  What would make it fit:
    echelon advise --trace traces/gpt_pytorch.h100 --device h100-sxm --set device.memories.hbm.available=3GiB
  Up to there it takes 38.5 ms, bound by pageable port (85 % of the critical path).
