What people paste when memory runs out: what held it, what is lost to padding, which chip would hold it, what to do next.
$ echelon info tests/fuzz/corpus/out_of_memory/tpu.txt --device tpu-v5e
tests/fuzz/corpus/out_of_memory/tpu.txt: out_of_memory
0 operations on 0 queues, 10 buffers
bytes
  allocated in all                0 B  (0)
  live at the peak           18.3 GiB  (19616487178)
  padding of all buffers in hbm
    3.88 GiB of 11.1 GiB is padding (35.0 %)
      3.88 GiB  of 4 GiB in s32[1048576,8,4] reshape (data.py:17)  s32[1048576,8,4]{2,1,0:T(8,128)}, dimension 2: 4 stored as 128; s32[1048576,8,4]{0,1,2:T(8,128)} would take 128 MiB
  live at the end            18.3 GiB  (19616487178)
held, most first
      7.06 GiB  arguments
         4 GiB  s32[1048576,8,4] reshape (data.py:17)
         4 GiB  4 x f32[64,2048,2048] exp (attention.py:41)
      3.07 GiB  bf16[32768,50304] fusion.9
       133 MiB  HLO temp, not listed
         8 MiB  scoped
      1.50 MiB  global
records of the file
           6  allocations
           6  sums
notes
           6  sizes_from_shapes
XLA refused the program: 18.3 GiB of hbm asked for, of 15.8 GiB there are: 2.52 GiB too much
3.87 GiB of the 11.2 GiB of temporaries are padding, without which it would fit: arrays are stored in whole tiles of their last two dimensions as laid out; 'echelon layout SHAPE --device CHIP' says which dimension costs what, and what another order would take
listed: 6 allocations, 11.1 GiB in all; the largest only
'echelon run --trace FILE --device NAME' says which chips would have room for as much; what would make room takes the program itself, which traces/capture/compile.py writes without the chip, also where it does not fit
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
  That is before anything ran.

  Kernel times: none. Engine: native (0.1.0).
  - XLA refused the program: 18.3 GiB of hbm asked for, of 15.8 GiB there are: 2.52 GiB too much
  - 3.87 GiB of the 11.2 GiB of temporaries are padding, without which it would fit: arrays are stored in whole tiles of their last two dimensions as laid out; 'echelon layout SHAPE --device CHIP' says which dimension costs what, and what another order would take
  - listed: 6 allocations, 11.1 GiB in all; the largest only
  - 'echelon run --trace FILE --device NAME' says which chips would have room for as much; what would make room takes the program itself, which traces/capture/compile.py writes without the chip, also where it does not fit
exit 3
$ echelon run --trace tests/fuzz/corpus/out_of_memory/tpu.txt --device tpu-v6e --engine native | sed -n 3,6p

  It fits. hbm 18.3 GiB of 31.2 GiB (58 %)
  It takes no time: the trace has allocations only ('echelon alloc' says more about them), or nothing in it has a cost.

$ echelon info tests/fuzz/corpus/out_of_memory/pytorch.txt
tests/fuzz/corpus/out_of_memory/pytorch.txt: out_of_memory
1 operation on 1 queue, 3 buffers
  alloc 1
bytes
  allocated in all           1.50 GiB  (1610612736)
  live at the peak           20.5 GiB  (22011707392)
  live at the end            20.5 GiB  (22011707392)
held, most first
        18 GiB  PyTorch's tensors
         1 GiB  not PyTorch's (context, libraries, other processes)
what the file says, what was inferred
  sizes of allocations   known 100.0 %
1.50 GiB would fit into what is free (1 GiB) and what PyTorch holds unused (4 GiB): the latter lies in pieces that are too small or partly used; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True can join them, and 'echelon alloc' of a memory snapshot says which setting does
1 GiB are neither PyTorch's nor free: the CUDA context, libraries, other processes
what was in use, and from which line: torch.cuda.memory._record_memory_history() when the program begins, torch.cuda.memory._dump_snapshot("oom.pickle") where the error is caught
$ echelon run --trace tests/fuzz/corpus/out_of_memory/pytorch_old.txt --device h100-sxm --engine native --json | grep -m1 fits
  "fits" : true,
$ echelon info tests/fuzz/corpus/out_of_memory/gpu.txt | sed -n 5,9p
  live at the peak           7.00 GiB  (7516192832)
  live at the end            7.00 GiB  (7516192832)
held, most first
         3 GiB  f32[3,16384,16384] mul (model.py:9)
      2.00 GiB  temporaries, results and constants, not listed
$ echelon alloc tests/fuzz/corpus/out_of_memory/pytorch.txt
tests/fuzz/corpus/out_of_memory/pytorch.txt: out_of_memory, 3 events; device memory 24 GiB, what there is, as the message says
no allocator needs less than 20.5 GiB

1.50 GiB would fit into what is free (1 GiB) and what PyTorch holds unused (4 GiB): the latter lies in pieces that are too small or partly used; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True can join them, and 'echelon alloc' of a memory snapshot says which setting does
1 GiB are neither PyTorch's nor free: the CUDA context, libraries, other processes
what was in use, and from which line: torch.cuda.memory._record_memory_history() when the program begins, torch.cuda.memory._dump_snapshot("oom.pickle") where the error is caught

allocator              failed   peak live    reserved    frag       waste     largest  segments
bfc                         0    20.5 GiB      24 GiB  14.6 %         0 B    3.50 GiB         1
pytorch                     0    20.5 GiB    20.5 GiB   0.0 %         0 B         0 B         3
