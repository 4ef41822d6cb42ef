Nothing is wider than the terminal, 80 columns or 120, but what is for copying and names of files.
$ for c in 80 120; do export COLUMNS=$c; for v in "alloc tests/golden/data/oom.pickle --report" "alloc traces/gpt_pytorch.h100 --capacity 2GiB --report" "alloc traces/gpt_everything.v5e --report" "info traces/gpt_pytorch.h100" "info tests/golden/data/recorded.ech" "info traces/measured_gpu" "info h100-sxm" "validate tests/golden/data/recorded.ech --device tests/golden/data/small.yaml" "validate traces/gpt_everything.v5e --device tpu-v5e" "layout f32[4096,64] bf16[128,8,96,77]{0,1,3,2} s8[3,5,7,11,13,17,19] --device tpu-v5e" "layout f32[4096,63] --device h100-sxm" "list devices" "list devices tpu-v5e --sources" "list allocators --sources" "list passes" "list planners" "list formats" "list engines" "help device" "run every_chip" "run tutorial" "run --trace traces/gpt_pytorch.h100 --device h100-sxm --step last" "advise traces/gpt_unrolled_kept.h100 --device h100-sxm --memory 140MiB" "run --trace adam_none.v5e --device tpu-v5e --engine native --find device.memories.hbm.capacity=1GiB..16GiB"; do echelon $v 2>/dev/null | awk -v c=$c -v v="$v" 'length > c { print v ": " length " of " c ": " $0 }'; done; done
$ echo 'RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`' >$T/oom.txt; cd $T; for c in 80 120; do COLUMNS=$c echelon info oom.txt 2>&1 | awk -v c=$c 'length > c'; done; COLUMNS=80 echelon info oom.txt 2>&1 | head -2; echelon info oom.txt 2>&1 | wc -l
echelon: oom.txt: the text says that memory ran out for CUBLAS
(CUBLAS_STATUS_ALLOC_FAILED), which takes its own from the driver beside the
1
$ COLUMNS=80 echelon validate traces/gpt_everything.v5e --device tpu-v5e | sed -n '/pairs/,/^$/{s/[0-9.+-]* [um]s\|[0-9.+-]* %/N/g;p;}'
                                 pairs  estimated  predicted    in all    median
  kernel                            86     N     N    N     N
    of kinds that the model prices roughly
                                     3    N    N    N     N

$ COLUMNS=80 echelon alloc tests/golden/data/oom.pickle --report --allocator pytorch: | sed -n '/peak, event/,/segment/p'
  peak, event 2
    reserved 120 MiB, allocated 120 MiB (0 B of it waste), largest free 0 B,
    stranded 0 B, cached 0 B
    [**************************************************************************]
  failure, event 7: 100 MiB asked for loss.py:8; 154 MiB are not in use, but
  fragmented: 90 MiB left on the device, 1 free block, the largest 64 MiB
    least in the way: 36 MiB of 100 MiB in segment 2, held by 3 live blocks:
$ printf 'title: long\ntrace: gpt_nothing.h100\ndevice: h100-sxm\nsweep:\n  - {path: passes, values: ["", "offload:what=arguments,names=*opt_state*,above=1MiB,overlap=true", prefetch]}\n  - {name: host link of this machine and others like it, path: device.links.host.to_device, values: [x1, x0.5]}\n' >$T/long.yaml; for c in 80 120; do COLUMNS=$c echelon run $T/long.yaml | awk -v c=$c 'length > c'; done; COLUMNS=80 echelon run $T/long.yaml | sed -n '/^  passes/,/^  ---/p'
  passes, host link of this machine and others like it
    1  none, x1
    2  none, x0.5
    3  offload:what=arguments,names=*opt_state*,above=1MiB,overlap=true, x1
    4  offload:what=arguments,names=*opt_state*,above=1MiB,overlap=true, x0.5
    5  prefetch, x1
    6  prefetch, x0.5

       fits    time  x first  hbm needed  bound by
  ---  ----  ------  -------  ----------  ----------------------
$ COLUMNS=80 echelon run tutorial | head -5
The host-offloading tutorial on one TPU v5e

  on the host                 fits     time  x its base  bound by
  --------------------------  ----  -------  ----------  -------------------
  nothing                     yes    170 us       1.000  hbm port
