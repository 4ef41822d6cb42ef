What people paste when memory runs out: what held it, what is lost to padding, which chip would hold it, what to do next.
$ echelon info tests/fuzz/corpus/out_of_memory/tpu.txt --device tpu-v5e
tests/fuzz/corpus/out_of_memory/tpu.txt: out_of_memory
- XLA refused the program: 18.3 GiB of hbm asked for, of 15.8 GiB there are: 2.52 GiB too much
- 3.87 GiB of the 11.2 GiB of temporaries are padding, without which it would fit: arrays are stored in whole tiles of their last two dimensions as laid out; 'echelon layout SHAPE --device CHIP' says which dimension costs what, and what another order would take
- listed: 6 allocations, 11.1 GiB in all; the largest only
- what would make room takes the program itself, which 'echelon capture --pretend NAME -- COMMAND' writes down without the device, also where it does not fit ('echelon advise')
held, most first
      7.06 GiB  arguments
         4 GiB  s32[1048576,8,4] reshape (data.py:17)
         4 GiB  4 x f32[64,2048,2048] exp (attention.py:41)
      3.07 GiB  bf16[32768,50304] fusion.9
       133 MiB  HLO temp, not listed
         8 MiB  scoped
      1.50 MiB  global
      18.3 GiB  in all  (19616487178)
  padding of all buffers in hbm
    3.88 GiB of 11.1 GiB is padding (35.0 %)
      3.88 GiB  of 4 GiB in s32[1048576,8,4] reshape (data.py:17)  s32[1048576,8,4]{2,1,0:T(8,128)}, dimension 2: 4 stored as 128; s32[1048576,8,4]{0,2,1:T(4,128)} would take 128 MiB
room for 18.3 GiB have: tpu-v6e (31.2 GiB), tpu7x (94.7 GiB, and 1 like it), tpu-8i (142 GiB)
$ echelon run --trace tests/fuzz/corpus/out_of_memory/tpu.txt --device tpu-v5e --engine native; echo exit $?
tpu on tpu-v5e (TPU v5e, one chip (one core), 16 GiB HBM)
  with replay.engine=native

  IT DOES NOT FIT. hbm 18.3 GiB of 15.8 GiB (116 %)
  From the start: what hbm is to hold takes 18.3 GiB, its limit is 15.8 GiB.
  What that is:
    7.06 GiB  arguments                                           parameter
       4 GiB  s32[1048576,8,4] reshape (data.py:17)               temporary  s32[1048576,8,4], 97 % padding
       4 GiB  f32[64,2048,2048] exp (attention.py:41), 4 of them  temporary  f32[64,2048,2048]{2,1,0:T(8,128)}
    3.07 GiB  bf16[32768,50304] fusion.9                          temporary  bf16[32768,50304]{1,0:T(8,128)(2,1)}
     133 MiB  HLO temp, not listed                                temporary
       8 MiB  scoped
    1.50 MiB  global
  (256 MiB of the 16 GiB of hbm are kept by the driver and the runtime.)
  What would make it fit takes the program: 'echelon capture --pretend NAME -- COMMAND' writes it down, then 'echelon advise'.
  That is before anything ran.

  Kernel times: none. Engine: native (0.1.0).
  - XLA refused the program: 18.3 GiB of hbm asked for, of 15.8 GiB there are: 2.52 GiB too much
  - 3.87 GiB of the 11.2 GiB of temporaries are padding, without which it would fit: arrays are stored in whole tiles of their last two dimensions as laid out; 'echelon layout SHAPE --device CHIP' says which dimension costs what, and what another order would take
  - listed: 6 allocations, 11.1 GiB in all; the largest only
  - what would make room takes the program itself, which 'echelon capture --pretend NAME -- COMMAND' writes down without the device, also where it does not fit ('echelon advise')
exit 3
$ echelon run --trace tests/fuzz/corpus/out_of_memory/tpu.txt --device tpu-v6e --engine native | sed -n 3,6p

  It fits. hbm 18.3 GiB of 31.2 GiB (58 %)
  It takes no time: the trace has allocations only ('echelon alloc' says more about them), or nothing in it has a cost.

$ echelon info tests/fuzz/corpus/out_of_memory/pytorch.txt
tests/fuzz/corpus/out_of_memory/pytorch.txt: out_of_memory
- 1.50 GiB would fit into what is free (1 GiB) and what PyTorch holds unused (4 GiB): the latter lies in pieces that are too small, partly used or of another stream; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True can join them (not on Windows), and 'echelon alloc' of a memory snapshot says which setting does. It would leave 3.50 GiB for those after it: where more than that is still to come (the first step of training, a longer input), only less in use helps
- 1 GiB of this process are not PyTorch's: the context, libraries that allocate for themselves (NCCL, cuBLAS, JAX, TensorFlow)
- what was in use, and from which line: torch.cuda.memory._record_memory_history() when the program begins, torch.cuda.memory._dump_snapshot("oom.pickle") where the error is caught
held, most first
        18 GiB  PyTorch's tensors
         1 GiB  of this process, not PyTorch's (context, libraries)
      1.50 GiB  asked for besides
      20.5 GiB  in all  (22011707392)
$ echelon run --trace tests/fuzz/corpus/out_of_memory/pytorch_old.txt --device h100-sxm --engine native --json | grep -m1 fits
  "fits" : true,
$ echelon info tests/fuzz/corpus/out_of_memory/gpu.txt | sed -n 5,9p
held, most first
         3 GiB  f32[3,16384,16384] mul (model.py:9)
      2.00 GiB  temporaries, results and constants, not listed
         1 GiB  f32[16384,16384] (argument)
         1 GiB  arguments, not listed
$ echelon alloc tests/fuzz/corpus/out_of_memory/pytorch.txt
tests/fuzz/corpus/out_of_memory/pytorch.txt: out_of_memory, 3 events; device memory 24 GiB, what there is, as the message says
no allocator needs less than 20.5 GiB

1.50 GiB would fit into what is free (1 GiB) and what PyTorch holds unused (4 GiB): the latter lies in pieces that are too small, partly used or of another stream; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True can join them (not on Windows), and 'echelon alloc' of a memory snapshot says which setting does. It would leave 3.50 GiB for those after it: where more than that is still to come (the first step of training, a longer input), only less in use helps
1 GiB of this process are not PyTorch's: the context, libraries that allocate for themselves (NCCL, cuBLAS, JAX, TensorFlow)
what was in use, and from which line: torch.cuda.memory._record_memory_history() when the program begins, torch.cuda.memory._dump_snapshot("oom.pickle") where the error is caught

these are sums, not where each array lay: whether another allocator or setting had served the request, no replay of them tells
$ echelon info tests/fuzz/corpus/out_of_memory/bfc.txt
tests/fuzz/corpus/out_of_memory/bfc.txt: out_of_memory
- GPU_0_bfc refused 1 GiB, f32[64,64,256,256]: 2.44 GiB of its limit of 4 GiB were in use, 1.56 GiB free in 3 pieces, the largest 700 MiB
- fragmentation: 1.56 GiB are free, not in one piece
- nearest to a piece of 1 GiB: where 1 chunk in use (256 B) lies between free ones: 256 B at 0x7f0c6bc00500 of loss/Mean
- allocators that map pages do not need one piece: XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async (JAX), TF_GPU_ALLOCATOR=cuda_malloc_async (TensorFlow). Or allocate what stays before what comes and goes
held, most first
         1 GiB  conv1/Conv2D
       704 MiB  conv3/Relu
       512 MiB  model/embedding/Read
       256 MiB  conv2/Relu
      1.25 KiB  chunk of 1.25 KiB
         256 B  loss/Mean
         1 GiB  asked for besides
      3.44 GiB  in all  (3690987520)
'echelon alloc' asks for it again in the memory as it is here, and under other allocators
$ echelon info tests/fuzz/corpus/out_of_memory/bfc_growth.txt | sed -n '/^held/,$p'
held, most first
      2.50 GiB  chunk of 2.50 GiB
         2 GiB  chunk of 2 GiB
         3 MiB  chunk of 3 MiB
         2 MiB  chunk of 2 MiB
         2 GiB  asked for besides
      6.50 GiB  in all  (6984564736)
room for 6.50 GiB have: rtx-4060 (7.65 GiB, and 1 like it), rtx-3080 (9.78 GiB), rtx-2080-ti (10.8 GiB), rtx-5070 (11.5 GiB, and 5 like it), t4 (14.7 GiB, and 11 like it) and 52 larger ('echelon list devices')
'echelon alloc' asks for it again in the memory as it is here, and under other allocators
$ echelon alloc tests/fuzz/corpus/out_of_memory/bfc.txt | sed -n '/^allocator/,$p'
allocators that map pages do not need one piece: XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async (JAX), TF_GPU_ALLOCATOR=cuda_malloc_async (TensorFlow). Or allocate what stays before what comes and goes

allocator            failed  peak live  reserved    frag     waste   largest  segments  smallest
bfc, as recorded          1   2.44 GiB     4 GiB   whole       0 B   700 MiB         1  3.44 GiB
bfc:                      0   3.44 GiB     4 GiB   whole       0 B   576 MiB         1  3.44 GiB
cuda_async                0   3.44 GiB  3.47 GiB   0.9 %     512 B  32.0 MiB         6  3.44 GiB

bfc, as recorded: in the memory as the log has it, chunk by chunk

cuda_async: placement is a model: the driver's policy and growth step are not documented; reuse, release and the remapping of fragmented memory follow what NVIDIA says, and users report more fragmentation

rows that are not as recorded begin with what was live at the start, asked for in order of address: the holes between are gone. 'bfc:' is the same allocator begun so, for comparison

bfc, as recorded: out of memory at event 0, 1 GiB for what was asked for, f32[64,64,256,256], though as many bytes are free: fragmentation; --report says what stood in the way
frag: what of the most that is reserved is not in use at the peak; waste: lost to rounding then; largest: free block of what is reserved at the end; segments: how often more was taken from the device
whole: the pool is taken at the start; what is needed of it, holes included, is what 'smallest' tells (--smallest)
$ echelon alloc tests/fuzz/corpus/out_of_memory/bfc_mixed.txt; echo exit $?
tests/fuzz/corpus/out_of_memory/bfc_mixed.txt: out_of_memory, 3 events; device memory 4 GiB, what there is, as the message says
no allocator needs less than 4.50 GiB

GPU_0_bfc refused 1.50 GiB: 3 GiB of its limit of 4 GiB were in use, 1 GiB free in 1 piece, the largest 1 GiB
use, not fragmentation: 512 MiB too much, however the chunks lie. Use less at a time (a smaller batch, rematerialisation, offload), or raise the limit of 4 GiB where the device has more: XLA_PYTHON_CLIENT_MEM_FRACTION (JAX, .75 unless set), per_process_gpu_memory_fraction or memory_limit (TensorFlow)
1 more refusal in the text, by other processes or later, is not told here

allocator            failed  peak live  reserved    frag     waste   largest  segments  smallest
bfc, as recorded          1      3 GiB     4 GiB   whole       0 B     1 GiB         1  4.50 GiB
bfc:                      1      3 GiB     4 GiB   whole       0 B     1 GiB         1  4.50 GiB
cuda_async                1      3 GiB     3 GiB   0.0 %       0 B       0 B         2  4.50 GiB

bfc, as recorded: in the memory as the log has it, chunk by chunk

cuda_async: placement is a model: the driver's policy and growth step are not documented; reuse, release and the remapping of fragmented memory follow what NVIDIA says, and users report more fragmentation

rows that are not as recorded begin with what was live at the start, asked for in order of address: the holes between are gone. 'bfc:' is the same allocator begun so, for comparison

bfc, as recorded: out of memory at event 0, 1.50 GiB for what was asked for, for want of memory
bfc:: out of memory at event 2, 1.50 GiB for what was asked for, for want of memory
cuda_async: out of memory at event 2, 1.50 GiB for what was asked for, for want of memory
frag: what of the most that is reserved is not in use at the peak; waste: lost to rounding then; largest: free block of what is reserved at the end; segments: how often more was taken from the device
whole: the pool is taken at the start; what is needed of it, holes included, is what 'smallest' tells (--smallest)
exit 3
$ echelon run --trace tests/fuzz/corpus/out_of_memory/bfc_growth.txt --device h100-sxm --engine native --json | grep -m1 fits
  "fits" : true,
$ echelon alloc tests/fuzz/corpus/out_of_memory/tpu.txt >/dev/null; echo exit $?
exit 3
$ echelon alloc tests/fuzz/corpus/out_of_memory/pytorch.txt -a pytorch | grep '^pytorch '
pytorch                   0   20.5 GiB  20.5 GiB   0.0 %       0 B       0 B         3
$ echelon advise tests/fuzz/corpus/out_of_memory/pytorch.txt --device l4; echo exit $?
echelon: pytorch is a message, with sums and no program in it; measures are tried on the program itself, which 'echelon capture --pretend l4 -- COMMAND' writes down without the device
exit 1
$ echo 'RuntimeError: CUDA error: out of memory' >$T/said.txt; (cd $T; echelon info said.txt); echo exit $?
echelon: said.txt: the text says that the device's memory ran out (line 1: 'RuntimeError: CUDA error: out of memory'), but not what was asked for and what held it: nvidia-smi (rocm-smi, xpu-smi, npu-smi) says who holds the rest: what others hold no setting of this program frees. Less at a time (a smaller batch, a shorter context, fewer bits), or a part of it on the host or on more devices, needs less; 'echelon capture --pretend DEVICE -- COMMAND' runs the program on a device that is not there and tells who asks for what, and so does PyTorch's memory snapshot
exit 1
$ echelon info - <tests/fuzz/corpus/out_of_memory/shares.txt
-: out_of_memory
- refused on GPU 0 (rank 0)
- no setting of the allocator would have served it: 2 GiB asked for, 768 MiB free and unused together, 1.25 GiB too much beside 17 GiB in use: use less (smaller batch, checkpointing, offload) or a larger card
- 4.25 GiB are other processes', by number 77 (4.25 GiB): nvidia-smi (rocm-smi) names them; what they hold, no setting of this one frees
- 2 GiB of this process are not PyTorch's: the context, libraries that allocate for themselves (NCCL, cuBLAS, JAX, TensorFlow)
- 16 MiB of what is allocated are kept in private pools, of captured graphs: nothing else gets them
- what was in use, and from which line: torch.cuda.memory._record_memory_history() when the program begins, torch.cuda.memory._dump_snapshot("oom.pickle") where the error is caught
held, most first
        17 GiB  PyTorch's tensors
      4.25 GiB  other processes
         2 GiB  of this process, not PyTorch's (context, libraries)
         2 GiB  asked for besides
      25.2 GiB  in all  (27111981056)
$ echelon info tests/fuzz/corpus/out_of_memory/record.txt
tests/fuzz/corpus/out_of_memory/record.txt: out_of_memory
- XLA refused the program: 3 GiB of hbm asked for, of 1 GiB there are: 2 GiB too much
- listed: 1 allocation, 2 GiB in all; the largest only
- what would make room takes the program itself, which 'echelon capture --pretend NAME -- COMMAND' writes down without the device, also where it does not fit ('echelon advise')
held, most first
         2 GiB  f32[536870912] params['w']
         1 GiB  HLO temp, not listed
         3 GiB  in all  (3221225472)
room for 3 GiB have: tpu-v2 (7.48 GiB, and 1 like it), tpu-v4 (15.2 GiB, and 2 like it), tpu-v6e (31.2 GiB), tpu7x (94.7 GiB, and 1 like it), tpu-8i (142 GiB)
$ echelon info tests/fuzz/corpus/out_of_memory/vllm.txt
tests/fuzz/corpus/out_of_memory/vllm.txt: out_of_memory
- vLLM means to take 36 GiB on GPU 0 (0.9 of 40 GiB), and 30 GiB were free when it began: 6 GiB too little
- 10 GiB were held by others: nvidia-smi names them (an earlier run that has not ended, another server, a desktop), its own context, some 300 to 600 MiB, among them. Free that; --gpu-memory-utilization 0.75 or less passes this check too, and weights, the peak of a trial run and the KV cache then have to fit into so much less
held, most first
        10 GiB  held by others
        36 GiB  asked for besides
        46 GiB  in all  (49392123904)
$ echelon info tests/fuzz/corpus/out_of_memory/triton.txt
tests/fuzz/corpus/out_of_memory/triton.txt: out_of_memory
- Triton was refused 128 KiB of shared memory, of 64 KiB there are: 64 KiB too much
- this is memory on the chip that one block of a kernel shares, not the GPU's: the kernel fits with smaller blocks or fewer stages (num_stages buffers of each tile it loads), or was tuned for a GPU with more of it; what else runs does not matter
       128 KiB  asked for besides
$ echelon run --trace tests/fuzz/corpus/out_of_memory/triton.txt --device h100-sxm; echo exit $?
echelon: tests/fuzz/corpus/out_of_memory/triton.txt is a message about what one kernel keeps on the chip, which has a limit of its own: no device's memory decides whether it fits; 'echelon info' says what the message comes to
exit 1
$ echelon run --trace tests/fuzz/corpus/out_of_memory/vmem.txt --device tpu-v5e; echo exit $?
echelon: tests/fuzz/corpus/out_of_memory/vmem.txt is a message about what one kernel keeps on the chip, which has a limit of its own: no device's memory decides whether it fits; 'echelon info' says what the message comes to
exit 1
$ echelon alloc tests/fuzz/corpus/out_of_memory/llama.txt; echo exit $?
tests/fuzz/corpus/out_of_memory/llama.txt: out_of_memory, 3 events; device memory 80 GiB, assumed (--device or --capacity says it)
no allocator needs less than 6.50 GiB

llama.cpp was refused 2 GiB on GPU 1, with 4.50 GiB that it tells of on that device
fewer layers on this device (-ngl, --tensor-split), a shorter context (-c) or a KV cache of 8 bits (--cache-type-k q8_0), a smaller batch (-ub) need less of it

these are sums, not where each array lay: whether another allocator or setting had served the request, no replay of them tells
exit 0
$ echelon info tests/fuzz/corpus/memory_figures/llama.txt
tests/fuzz/corpus/memory_figures/llama.txt: memory_figures
- llama.cpp: CPU_Mapped 2 GiB (model 2 GiB); CUDA0 4.75 GiB (model 4 GiB, KV 512 MiB, compute 256 MiB); CPU 256 MiB (KV 256 MiB); CUDA_Host 16 MiB (compute 16 MiB)
- 20 of its 33 layers lie on GPUs; the others run on the CPU, from the host's memory, which is what makes it slow
- the context of each process (some 300 to 600 MiB) comes on top; the KV cache (in tables: the context) grows with the context (-c) and halves in 8 bits (--cache-type-k q8_0 --cache-type-v q8_0, the latter with flash attention); compute buffers shrink with the batch (-ub), weights with fewer layers on the GPU (-ngl) or a mixture's experts on the host (--n-cpu-moe)
held, most first
         4 GiB  model, CUDA0  in hbm
      2.27 GiB  on the host  in host
       512 MiB  KV, CUDA0  in hbm
       256 MiB  compute, CUDA0  in hbm
      4.75 GiB  in all in hbm  (5100273664)
  most live in host          2.27 GiB  (2432696320)
$ echelon info tests/fuzz/corpus/memory_figures/ollama.txt | tail -7
held, most first
        16 GiB  weights
         4 GiB  KV cache
         4 GiB  besides, on all GPUs
         2 GiB  compute buffers
        26 GiB  in all  (27917287424)
room for 26 GiB have: rtx-5090 (31.4 GiB, and 7 like it), a100-40 (39.4 GiB, and 1 like it), l20 (44.4 GiB, and 6 like it), jetson-agx-orin (61.4 GiB), h100-pcie (79.1 GiB, and 6 like it) and 17 larger ('echelon list devices')
$ M='torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 79.11 GiB of which 101.94 MiB is free. Including non-PyTorch memory, this process has 79.01 GiB memory in use. Of the allocated memory 78.13 GiB is allocated by PyTorch, and 385.47 MiB is reserved by PyTorch but unallocated.'; for f in _multi_tensor_adam _single_tensor_adam; do printf 'Traceback (most recent call last):\n  File "/home/me/train.py", line 14, in <module>\n    o.step()\n  File "/v/torch/optim/adam.py", line 703, in %s\n    exp_avg_sq_sqrt = torch._foreach_sqrt(device_exp_avg_sqs)\n%s\n' $f "$M" >$T/$f.txt; echelon info $T/$f.txt | grep '^- '; done; sed 's/^\(Traceback\|torch\)/[rank0]: \1/' $T/_multi_tensor_adam.txt $T/_single_tensor_adam.txt >$T/ranks.txt; sed 1,5d $T/_multi_tensor_adam.txt >>$T/ranks.txt; echelon info $T/ranks.txt | grep -c optimizer
- no setting of the allocator would have served it: 512 MiB asked for, 487 MiB free and unused together, 24.6 MiB too much beside 78.1 GiB in use: use less (smaller batch, checkpointing, offload) or a larger card
- it was asked for in the optimizer's step, which takes all parameters at once and makes temporaries as large as they are: fused=True (Adam, AdamW, Adagrad, SGD) makes none, foreach=False those of one parameter at a time; a smaller batch changes nothing of them
- what was in use, and from which line: torch.cuda.memory._record_memory_history() when the program begins, torch.cuda.memory._dump_snapshot("oom.pickle") where the error is caught
- no setting of the allocator would have served it: 512 MiB asked for, 487 MiB free and unused together, 24.6 MiB too much beside 78.1 GiB in use: use less (smaller batch, checkpointing, offload) or a larger card
- what was in use, and from which line: torch.cuda.memory._record_memory_history() when the program begins, torch.cuda.memory._dump_snapshot("oom.pickle") where the error is caught
1
$ echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 79.11 GiB of which 101.94 MiB is free. Including non-PyTorch memory, this process has 79.01 GiB memory in use. Of the allocated memory 78.13 GiB is allocated by PyTorch, and 385.47 MiB is reserved by PyTorch but unallocated.' >$T/whole.txt; echelon info $T/whole.txt | grep '^room'; for d in h100-sxm a100-80; do echelon run --trace $T/whole.txt --device $d | sed -n 3p; done; echelon import $T/whole.txt --anonymize -o $T/whole.ech >/dev/null 2>&1; echelon run --trace $T/whole.ech --device a100-80 | sed -n 3p
room for 79.1 GiB have: a100-80 (79.3 GiB, and 2 like it), h100-nvl (93.1 GiB), gh200 (94.5 GiB, and 4 like it), gb10 (120 GiB, and 1 like it), h200 (140 GiB, and 2 like it) and 6 larger ('echelon list devices')
  IT DOES NOT FIT. hbm 79.1 GiB of 79.1 GiB (100 %)
  It fits. hbm 79.1 GiB of 79.3 GiB (100 %)
  It fits. hbm 79.1 GiB of 79.3 GiB (100 %)
$ printf 'index, name, memory.used [MiB], memory.total [MiB]\n0, NVIDIA H100 80GB HBM3, 71045 MiB, 81559 MiB\n' >$T/smi.txt; for f in whole smi; do echelon alloc $T/$f.txt --device h100-sxm | sed -n '1s/.*; //p'; done; echelon run --trace $T/smi.txt --device h100-sxm | sed -n 3p
device memory 79.1 GiB
device memory 79.1 GiB
  It fits. hbm 69.4 GiB of 79.1 GiB (88 %)
$ : of a convolution and of attention that ask for more than all tensors have, as the traceback ends there
$ M='torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 161.37 GiB. GPU 0 has a total capacity of 79.11 GiB of which 71.61 GiB is free. Of the allocated memory 7.00 GiB is allocated by PyTorch, and 5.96 MiB is reserved by PyTorch but unallocated.'; for l in '  File "/v/torch/nn/modules/conv.py", line 725, in _conv_forward' '    return F.scaled_dot_product_attention(q, k, v)' '  File "/v/torch/nn/modules/linear.py", line 9, in forward'; do printf 'Traceback (most recent call last):\n%s\n%s\n' "$l" "$M" | echelon info - | grep -c 'asked for than all tensors'; done
1
1
0
exit 1
$ printf 'Traceback (most recent call last):\n  File "/v/conv.py", line 1, in _conv_forward\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.61 GiB is free. Of the allocated memory 77.00 GiB is allocated by PyTorch, and 5.96 MiB is reserved by PyTorch but unallocated.\n' | echelon info - | grep -c 'asked for than all tensors'
0
exit 1
