Three training steps of a GPT in PyTorch that asked for a TPU where there was none, its compiled programs beside them.
$ echelon info traces/gpt_torch_tpu.v6e
traces/gpt_torch_tpu.v6e: pretend_tpu
7203 operations on 7 queues, 1608 buffers
  kernel 1214  copy 847  alloc 1708  free 1604  wait 1021  mark 809
bytes
  allocated in all           32.5 GiB  (34934039552)
  most live in hbm           4.36 GiB  (4683943424)
  most live in vector         125 MiB  (131137536)
  most live in scalar           4 KiB  (4096)
  padding of all buffers in vector
    288 MiB of 2.77 GiB is padding (10.2 %)
        16 MiB  of 32 MiB in tt_jit_export_L589C0_fx_to_mlir_traverse_and_compile_compile_mlir_as_strided/slice_bitcast_fusion.3{1}  bf16[8,16,1024,64]{3,1,2,0:T(8,128)(2,1)S(1)}, dimension 3: 64 stored as 128; bf16[8,16,1024,64]{2,3,1,0:T(8,128)(2,1)S(1)} would take 16 MiB
        16 MiB  of 32 MiB in tt_jit_export_L589C0_fx_to_mlir_traverse_and_compile_compile_mlir_as_strided/slice_bitcast_fusion.3{2}  bf16[8,16,1024,64]{3,1,2,0:T(8,128)(2,1)S(1)}, dimension 3: 64 stored as 128; bf16[8,16,1024,64]{2,3,1,0:T(8,128)(2,1)S(1)} would take 16 MiB
        16 MiB  of 32 MiB in tt_jit_export_L589C0_fx_to_mlir_traverse_and_compile_compile_mlir_as_strided/copy.74  bf16[8,1024,16,64]{3,1,2,0:T(8,128)(2,1)S(1)}, dimension 3: 64 stored as 128; bf16[8,1024,16,64]{1,3,2,0:T(8,128)(2,1)S(1)} would take 16 MiB
        16 MiB  of 32 MiB in tt_jit_export_L589C0_fx_to_mlir_traverse_and_compile_compile_mlir_as_strided/slice_bitcast_fusion{1}  bf16[8,16,1024,64]{3,1,2,0:T(8,128)(2,1)S(1)}, dimension 3: 64 stored as 128; bf16[8,16,1024,64]{2,3,1,0:T(8,128)(2,1)S(1)} would take 16 MiB
        16 MiB  of 32 MiB in tt_jit_export_L589C0_fx_to_mlir_traverse_and_compile_compile_mlir_as_strided/slice_bitcast_fusion{2}  bf16[8,16,1024,64]{3,1,2,0:T(8,128)(2,1)S(1)}, dimension 3: 64 stored as 128; bf16[8,16,1024,64]{2,3,1,0:T(8,128)(2,1)S(1)} would take 16 MiB
  live at the end            1.50 GiB  (1613502976)
  host to device              346 MiB  (363041872)
  device to host                  0 B  (0)
  device to device           3.78 GiB  (4060514304)
what the file says, what was inferred
  sizes of allocations   absent 4.8 % known 95.2 %
  bytes of copies        known 100.0 %
  bytes of kernels       known 97.3 % inferred 2.7 %
  operations of kernels  absent 41.5 % known 58.5 %
records of the file
        1035  array
         383  free
         104  run
          40  copy
          26  program
           3  mark
notes
          26  programs
         104  runs of programs
- 104 runs of 26 compiled programs, one after the other: what the host takes between them (Python, dispatch, compiling) is not in the time
$ echelon run --trace traces/gpt_torch_tpu.v6e --device tpu-v6e --engine native --step last | sed -n '/It fits/,/No schedule/p;/Steps/,/^$/p;/fullest/,/vector/p;/Longest/,/^$/p;/Kernel times/,$p'
  It fits. hbm 4.36 GiB of 31.2 GiB (14 %), vector 126 MiB of 128 MiB (99 %), scalar 4 KiB of 1 MiB (0 %)
  4.98 GiB reserved by allocator best_fit.
  It takes 26.1 ms, bound by hbm port (78 % of the critical path).
  No schedule of it is shorter than 25.5 ms on this device; with no overlap at all it takes 26.6 ms.
  Steps: one whole one
    26.1 ms from Optimizer.step#AdamW.step to the next, 383 kernels, at most 4.36 GiB

  Memory at its fullest
    hbm: 4.36 GiB live at 14.7 ms, 4.98 GiB reserved (12.3 % of it lost to fragmentation); best_fit
      1.29 GiB  tt_jit_to_copy_copy_, 9 of them                                                       f32[8192,32000]
      1.08 GiB  tt_jit_export_L589C0_fx_to_mlir_tra...compile_mlir_as_strided, 48 of them             bf16[8,1024,32000]
      1000 MiB  temporaries of tt_jit_cross_entropy_loss                                   temporary
       500 MiB  tt_jit_zeros_like, 4 of them                                                          f32[32000,1024]
       346 MiB  from the host, 36 of them                                                             f32[32000,1024]
       193 MiB  in 30 more
    vector: 125 MiB live at 19.3 ms, 126 MiB reserved (1.1 % of it not in use then); places as in the trace
  Longest operations
    tt_jit_cross...ard/fusion.*    2.12 ms    8.1 % ##..................  kernel, kernel model, 2 times
    tt_jit_cross...tract_fusion    1.41 ms    5.4 % #...................  kernel, kernel model
    tt_jit_gpt_t...kward/copy.*    1.17 ms    4.5 % #...................  kernel, kernel model, 6 times, gpt_train.py:33
    tt_jit_to_co...nvert_fusion    1.06 ms    4.1 % #...................  kernel, kernel model
    tt_jit_to_co...y_.2/copy_.1    1.06 ms    4.1 % #...................  kernel, kernel model
    tt_jit_to_co...ed_inverse.*    1.02 ms    3.9 % #...................  kernel, kernel model, 12 times

  Kernel times: 19 roofline; 364 kernel model. Engine: native (0.1.0).
  - 104 runs of 26 compiled programs, one after the other: what the host takes between them (Python, dispatch, compiling) is not in the time
  - step 2 of 2 alone, from Optimizer.step#AdamW.step to the next: what was asked for before is held as it was then, and takes no time here
$ echelon run --trace traces/gpt_torch_tpu.v6e/gpt.programs/tt_jit_cross_entropy_loss --device tpu-v6e --engine native | sed -n '1,4p'
tt_jit_cross_entropy_loss on tpu-v6e (TPU v6e, one chip (one core), 32 GiB HBM)
  with replay.engine=native

  It fits. hbm 1.95 GiB of 31.2 GiB (6 %), vector 64 KiB of 128 MiB (0 %)
$ echelon run --trace traces/gpt_torch_tpu.v6e --device tpu-v5e --engine native --step last | sed -n '/It takes/p;/compiled for/p'
  It takes 90.8 ms, bound by hbm port (50 % of the critical path).
  - its programs are those that were compiled for tpu-v6e; echelon capture --pretend tpu-v5e has them compiled for tpu-v5e
$ echelon run --trace traces/gpt_torch_tpu.v6e --device tpu-v6e --engine native --set device.memories.hbm.available=4GiB | sed -n '/DOES NOT FIT/,/^$/p'; echo $?
  IT DOES NOT FIT. hbm 3.69 GiB of 4 GiB (92 %), vector 126 MiB of 128 MiB (99 %)
  3.29 GiB reserved by allocator best_fit.
  At 19.7 ms 'temporaries of tt_jit_cross_entropy_loss' asks for 1000 MiB more in hbm: 2.71 GiB of 4 GiB are live, 3.29 GiB reserved, and no free piece is large enough (fragmentation).
  What held the memory:
    1.29 GiB  tt_jit_to_copy_copy_, 9 of them                                                         f32[8192,32000]
    1.08 GiB  tt_jit_export_L589C0_fx_to_mlir_trav...e_compile_mlir_as_strided, 48 of them            bf16[8,1024,32000]
     346 MiB  from the host, 38 of them                                                               f32[32000,1024]
      64 KiB  tt_jit_random_                                                                          s64[8,1024]
       1 KiB  tt_jit_random_.2                                                                      , 98 % padding
       512 B  tt_jit_random_/constant.6                                                     constant, 99 % padding
       512 B  tt_jit_export_L589C0_fx_to_mlir_trav...le_compile_mlir_as_strided/constant.7  constant, 99 % padding
       512 B  tt_jit_to_copy_copy_/constant.0                                               constant, 100 % padding
       512 B  tt_jit_to_copy_copy_/constant.1                                               constant, 100 % padding
  (4 GiB of the 32 GiB of hbm were set to be available.)
  What would make it fit:
    echelon advise --trace traces/gpt_torch_tpu.v6e --device tpu-v6e --set device.memories.hbm.available=4GiB
  Up to there it takes 19.7 ms, bound by host link to device (65 % of the critical path).
  The whole of it would take at least 76.9 ms on this device; with no overlap at all 93.3 ms.

0
