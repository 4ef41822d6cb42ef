The shard pass: what every chip holds whole is split over them.
$ echelon run --trace data_parallel_whole.h100 --device h100-sxm --engine native --pass shard 2>&1 | grep -E '^  (It (fits|takes)|  - .* same on)|shard:|hbm: .*->'
  It fits. hbm 660 MiB of 79.1 GiB (1 %)
  It takes 3.00 ms, bound by nvlink link out (30 % of the critical path).
    Traffic of hbm: 6.28 GiB -> 4.51 GiB (0.72x).
    hbm: 1.46 GiB -> 660 MiB (-834 MiB). At its fullest it holds -840 MiB arguments.
  - shard: 75 arrays (960 MiB, 25 of them weights), alike on each of 8 devices, split over them: 120 MiB on each
  - shard: 25 kernels update a part each; 160 MiB are gathered when the step begins; 1 of the reductions leaves each device its part
$ echelon run --trace data_parallel_parts.h100 --device h100-sxm --engine native 2>&1 | grep -E '^  It (fits|takes)'
  It fits. hbm 658 MiB of 79.1 GiB (1 %)
  It takes 3.05 ms, bound by nvlink link out (30 % of the critical path).
$ echelon run --trace data_parallel_whole.v5e --device tpu-v5e --engine native --set device.memories.hbm.capacity=520MiB --set device.memories.hbm.available=520MiB --pass shard 2>&1 | grep -E '^  (It (may|fits|takes)|Compilers)'
  It may fit. vector 112 MiB of 128 MiB (88 %), hbm 448 MiB of 520 MiB (86 %), scalar 4 KiB of 1 MiB (0 %)
  Compilers asked for it have taken up to 1.25 times what shard says; that would be 560 MiB of hbm. The compiler settles it: with the measure in the program (jax.checkpoint, its offload policies, memory_kind="pinned_host", shardings), 'echelon capture --pretend tpu-v5e -o asked -- python train.py' tells what it needs then (large programs: compile.py --no-codegen tells the memory, long before the compiler is done).
  It takes 8.20 ms, bound by ici link out (64 % of the critical path).
$ echelon run --trace data_parallel_whole.v5e --device tpu-v5e --engine native --pass shard:names=opt* 2>&1 | grep -E 'shard:'
  after pass shard:names=opt*
  - shard: nothing fits names=opt*: did you mean '*out*'?
  - shard: left the trace as it is: no array is called 'opt*'; arguments are weights*, tokens, labels, first*, second*
$ echelon run --trace adam_none.v5e --device tpu-v5e --engine native --pass shard 2>&1 | grep -E 'shard:'
  - shard: left the trace as it is: one device runs this alone
$ for p in shard:weights=false shard:keep=true shard "remat:modules=module.blocks.* --pass shard"; do echelon run --trace traces/data_parallel_pytorch.h100/ddp.pretend.gz --device h100-sxm --step last --engine native --pass $p 2>&1 | grep -E '^  (It (fits|takes)|[0-9.]+ GiB reserved|  - .* same on)|- shard:'; done
  It fits. hbm 3.83 GiB of 78.6 GiB (5 %), host 8 B of 2 TiB (0 %)
  3.58 GiB reserved by allocator pytorch:release:2.15, as recorded (PyTorch 2.13 or later); 544 MiB beside it, from the device itself (NCCL's buffers); nvidia-smi would show 4.61 GiB, 512 MiB of it the process's context.
  It takes 13.4 ms, bound by hbm port (31 % of the critical path).
  - shard: optimizer state (885 MiB) split over 8 devices, weight by weight, at most 250 MiB on one, which sends the weights that it brought up to date to all: 1.30 GiB
  It fits. hbm 3.07 GiB of 78.6 GiB (4 %), host 8 B of 2 TiB (0 %)
  3.57 GiB reserved by allocator pytorch:release:2.15, as recorded (PyTorch 2.13 or later); 288 MiB beside it, from the device itself (NCCL's buffers); nvidia-smi would show 4.36 GiB, 512 MiB of it the process's context.
  It takes 12.9 ms, bound by hbm port (28 % of the critical path).
  - shard: weights and optimizer state (1.30 GiB), and gradients, in parts over 8 devices, 166 MiB and gradients on each, as fully_shard of module.blocks.* and of the model has them
  - shard: 1.30 GiB of weights are gathered and 1.30 GiB of gradients summed up, in the types that they have
  - shard: autocast stays; MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) for fully_shard in its place takes less, of eight steps 0.70 to 0.89 times the memory and 0.71 to 0.86 times the time
  It fits. hbm 2.88 GiB of 78.6 GiB (4 %), host 8 B of 2 TiB (0 %)
  3.44 GiB reserved by allocator pytorch:release:2.15, as recorded (PyTorch 2.13 or later); 288 MiB beside it, from the device itself (NCCL's buffers); nvidia-smi would show 4.22 GiB, 512 MiB of it the process's context.
  It takes 13.8 ms, bound by hbm port (27 % of the critical path).
  - shard: weights and optimizer state (1.30 GiB), and gradients, in parts over 8 devices, 166 MiB and gradients on each, as fully_shard of module.blocks.* and of the model has them
  - shard: 1.86 GiB of weights are gathered and 1.30 GiB of gradients summed up, in the types that they have
  - shard: autocast stays; MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) for fully_shard in its place takes less, of eight steps 0.70 to 0.89 times the memory and 0.71 to 0.86 times the time
  It fits. hbm 2.29 GiB of 78.6 GiB (3 %), host 8 B of 2 TiB (0 %)
  3.00 GiB reserved by allocator pytorch:release:2.15, as recorded (PyTorch 2.13 or later); 288 MiB beside it, from the device itself (NCCL's buffers); nvidia-smi would show 3.79 GiB, 512 MiB of it the process's context.
  It takes 20.3 ms, bound by the host's launches (43 % of the critical path).
  - shard: weights and optimizer state (1.30 GiB), and gradients, in parts over 8 devices, 166 MiB and gradients on each, as fully_shard of module.blocks.* and of the model has them
  - shard: 1.86 GiB of weights are gathered and 1.30 GiB of gradients summed up, in the types that they have
  - shard: autocast stays; MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) for fully_shard in its place takes less, of eight steps 0.70 to 0.89 times the memory and 0.71 to 0.86 times the time
$ for how in ddp zero1 zero2 fsdp; do echelon run --trace traces/data_parallel_pytorch.h100/$how.pretend.gz --device h100-sxm --step last --engine native 2>&1 | grep -E '^  (It (fits|takes)|[0-9.]+ GiB reserved)'; done
  It fits. hbm 4.45 GiB of 78.6 GiB (6 %), host 8 B of 2 TiB (0 %)
  4.07 GiB reserved by allocator pytorch:release:2.15, as recorded (PyTorch 2.13 or later); 544 MiB beside it, from the device itself (NCCL's buffers); nvidia-smi would show 5.10 GiB, 512 MiB of it the process's context.
  It takes 13.5 ms, bound by hbm port (47 % of the critical path).
  It fits. hbm 3.83 GiB of 78.6 GiB (5 %), host 8 B of 2 TiB (0 %)
  3.58 GiB reserved by allocator pytorch:release:2.15, as recorded (PyTorch 2.13 or later); 544 MiB beside it, from the device itself (NCCL's buffers); nvidia-smi would show 4.61 GiB, 512 MiB of it the process's context.
  It takes 13.4 ms, bound by hbm port (31 % of the critical path).
  It fits. hbm 3.07 GiB of 78.6 GiB (4 %), host 176 KiB of 2 TiB (0 %)
  3.58 GiB reserved by allocator pytorch:release:2.15, as recorded (PyTorch 2.13 or later); 288 MiB beside it, from the device itself (NCCL's buffers); nvidia-smi would show 4.36 GiB, 512 MiB of it the process's context.
  It takes 12.9 ms, bound by hbm port (28 % of the critical path).
  It fits. hbm 2.89 GiB of 78.6 GiB (4 %), host 176 KiB of 2 TiB (0 %)
  3.46 GiB reserved by allocator pytorch:release:2.15, as recorded (PyTorch 2.13 or later); 288 MiB beside it, from the device itself (NCCL's buffers); nvidia-smi would show 4.24 GiB, 512 MiB of it the process's context.
  It takes 13.8 ms, bound by hbm port (27 % of the critical path).
$ for how in ddp zero1 fsdp; do echelon run --trace traces/data_parallel_pytorch.h100/$how.pretend.gz --device h100-sxm --step last --engine native 2>&1 | grep -E 'the same on'; done
  - weights and optimizer state (1.30 GiB) are the same on each of 8 devices: --pass shard tells what splitting them over these would change (FSDP; weights=false: ZeRO-1)
  - weights (442 MiB) are the same on each of 8 devices: --pass shard tells what splitting them over these would change (FSDP)
exit 1
$ echelon run --trace traces/data_parallel_pytorch.h100/fsdp.pretend.gz --device h100-sxm --step last --engine native --pass shard 2>&1 | grep -E 'shard:'
  - shard: left the trace as it is: its gradients are split over devices already
$ echelon run --trace traces/gpt_pytorch.h100 --device h100-sxm --step last --engine native --pass shard 2>&1 | grep -E 'shard:'
  - shard: left the trace as it is: its gradients are not summed over devices; over=8 says of how many it is one
$ echelon run --trace traces/gpt_pytorch.h100 --device h100-sxm --step last --engine native --pass shard:over=8 2>&1 | grep -E '^  It (fits|takes)|- shard:'
  It fits. hbm 4.27 GiB of 78.6 GiB (5 %)
  It takes 11.8 ms, bound by hbm port (40 % of the critical path).
  - shard: weights and optimizer state (1.01 GiB), and gradients, in parts over 8 devices, 130 MiB and gradients on each, as fully_shard of blocks.* and of the model has them
  - shard: 1.30 GiB of weights are gathered and 1.01 GiB of gradients summed up, in the types that they have
  - shard: autocast stays; MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) for fully_shard in its place takes less, of eight steps 0.70 to 0.89 times the memory and 0.71 to 0.86 times the time
$ echelon run --trace traces/gpt_pytorch.h100 --device h100-sxm --step last --engine native --pass shard:over=8,modules=layers.* 2>&1 | grep -E '^  It (fits|takes)|- shard:'
  It fits. hbm 4.63 GiB of 78.6 GiB (6 %)
  It takes 11.8 ms, bound by hbm port (52 % of the critical path).
  - shard: nothing fits modules=layers.*: there are GPT*, blocks*, embed*, head*
  - shard: left the trace as it is: it repeats no module that its operations tell, or none fits modules=
$ echelon advise traces/data_parallel_pytorch.h100/ddp.pretend.gz --device h100-sxm --step last --memory 3GiB | sed -n '/IT DOES/,/Do first/p;/make it fit/,/^$/p;/not be enough/,/^$/p'
  IT DOES NOT FIT. 4.45 GiB of hbm are needed, 3 GiB are there.
  Do first: all split (FSDP, ZeRO-3) (2.88 GiB, 13.1 ms a step): torch.distributed.fsdp.fully_shard(block) of each block, then of the model, before the optimizer is made, not DistributedDataParallel; DeepSpeed's ZeRO-3 (with mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16) in place of autocast less than is told).
  What would make it fit
   1  all split (FSDP, ZeRO-3)             2.88 GiB         -  13.1 ms    x0.971

  What would not be enough
   3  all split, gathered once (ZeRO-2)    3.07 GiB         -        -         -
   4+ weights and optimizer on host        3.15 GiB  1.73 GiB        -         -
   5+ gradient accumulation in four        3.35 GiB         -        -         -
   6+ activations on host, waited for      3.48 GiB  1.46 GiB        -         -
   7+ loss in eight parts                  3.49 GiB         -        -         -
   8  optimizer on host                    3.59 GiB  1.73 GiB        -         -
   9  optimizer state split (ZeRO-1)       3.83 GiB         -        -         -
  10+ checkpoint each block                3.86 GiB         -        -         -
  11  gradient accumulation in two         3.87 GiB         -        -         -
  12  checkpoint each, keep its products   4.17 GiB         -        -         -
  (+: with segments that grow, too: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True)

$ echelon advise traces/gpt_pytorch.h100 --device h100-sxm --memory 4600MiB --step last | sed -n '/On several/,/^$/p'
  On several of this device
   9  eight, all split (FSDP, ZeRO-3)      4.27 GiB         -  18.8 ms    x1.594

