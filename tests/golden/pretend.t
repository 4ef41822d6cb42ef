Three training steps of a GPT in PyTorch that asked for an H100 where there was none, PyTorch's snapshot beside them.
$ echelon info traces/gpt_pytorch.h100/gpt.pretend.gz
traces/gpt_pytorch.h100/gpt.pretend.gz: pretend
2170 operations on 4 queues, 798 buffers
  kernel 451  copy 27  alloc 796  free 712  wait 29  mark 56  memset 99
bytes
  allocated in all           25.5 GiB  (27353995267)
  most live in hbm           4.63 GiB  (4972854324)
  in blocks at the end       1.50 GiB  (1615576576)
  reserved at the end        4.99 GiB  (5356126208)
  host to device              346 MiB  (363041792)
  device to host                  0 B  (0)
  device to device                0 B  (0)
what the file says, what was inferred
  sizes of allocations   known 100.0 %
  bytes of copies        known 100.0 %
  bytes of kernels       known 20.6 % inferred 73.4 % assumed 6.0 %
  operations of kernels  absent 16.6 % known 20.6 % inferred 62.7 %
PyTorch's allocator: default settings
records of the file
        4032  pop
        4032  push
         358  kernel
          99  set
          93  library
          34  alloc
          29  sync
          27  copy
           3  mark
notes
         322  kernel traffic inferred from shapes
           9  kernel traffic inferred from grids
          27  kernel traffic assumed
          34  memory events replaced by the snapshot
         307  uses of inferred direction
- PyTorch's allocations taken from traces/gpt_pytorch.h100/gpt.pickle.gz
$ echelon run --trace traces/gpt_pytorch.h100/gpt.pretend.gz --device h100-sxm --engine native | sed -n '/It fits/,/No schedule/p;/Steps/,/^$/p;/fullest/,/^$/p;/Who asked/,/^$/p;/Kernel times/,$p'
  It fits. hbm 4.63 GiB of 78.6 GiB (6 %)
  4.99 GiB reserved by allocator pytorch:release:2.15, as recorded (PyTorch 2.13 or later); nvidia-smi would show 5.49 GiB, 512 MiB of it the process's context.
  It takes 69.9 ms, bound by pageable port (47 % of the critical path).
  No schedule of it is shorter than 67.8 ms on this device; with no overlap at all it takes 96.9 ms.
  Steps: 2, the middle one takes 12.1 ms; --step N tells all of this of one alone
    12.1 ms from Optimizer.step#AdamW.step to the next, 219 kernels, at most 4.63 GiB
    11.8 ms from Optimizer.step#AdamW.step to the next, 165 kernels, at most 4.63 GiB

  Memory at its fullest
    hbm: 4.63 GiB live at 49.4 ms, 4.99 GiB reserved (7.1 % of it lost to fragmentation); pytorch:release:2.15
      1.46 GiB  gpt_train.py:59 (functional.py:3561), 3 of them  activation
      1000 MiB  NllLossBackward0                                 temporary
       500 MiB  gpt_train.py:49 (linear.py:134)                  temporary
       348 MiB  gpt_train.py:52 (module.py:1374), 27 of them     parameter
       346 MiB  gpt_train.py:62 (adam.py:179), 27 of them        optimizer
      1.03 GiB  in 17 more

  Who asked for it (forward, recomputed, backward)
    aten::to                      33.0 ms   47.2 % #########...........
    Optimizer.step#AdamW.step     7.27 ms   10.4 % ##..................
    head (Linear)                 6.63 ms    9.5 % ##..................  2.24 ms, -, 4.39 ms
    blocks.* (Block)              3.54 ms    5.1 % #...................  1.12 ms, -, 2.43 ms
    aten::cross_entropy_loss      3.32 ms    4.8 % #...................
    LogSoftmaxBackward0           2.22 ms    3.2 % #...................  -, -, 2.22 ms
    blocks.*.up (Linear)          1.96 ms    2.8 % #...................  701 us, -, 1.25 ms
    blocks.*.down (Linear)        1.76 ms    2.5 % #...................  601 us, -, 1.15 ms
    in 14 more                    8.37 ms   12.0 % ##..................

  Kernel times: 550 kernel model. Engine: native (0.1.0).
  Of the kernels' time 32 % is products, which are held against published times; 67 % other kernels with constants from recorded ones of their class; 1 % assumed (most of it scatter).
  - PyTorch's allocations taken from traces/gpt_pytorch.h100/gpt.pickle.gz
  - PyTorch's optimizer takes all parameters at once and makes 346 MiB of temporaries for that: fused=True makes none, foreach=False those of one parameter at a time
  - 27 copies of 346 MiB in all are from or to pageable host memory, which is not counted; --pass pin says what pinned memory would be worth
$ for how in '' '--pass remat:modules=blocks.*,above=1' '--set device.memories.hbm.capacity=4GiB'; do echelon run --trace traces/gpt_pytorch.h100 --device h100-sxm --engine native --step last $how | sed -n '1p;/fit/I,/It takes/p;/It takes [0-9.]* [%t]/p;/Steps/,/^$/p;/alone/p'; done
gpt_pytorch.h100, step 2 of 2 on h100-sxm (NVIDIA H100 SXM5, 80 GB HBM3)
  It fits. hbm 4.63 GiB of 78.6 GiB (6 %)
  4.99 GiB reserved by allocator pytorch:release:2.15, as recorded (PyTorch 2.13 or later); nvidia-smi would show 5.49 GiB, 512 MiB of it the process's context.
  It takes 11.8 ms, bound by hbm port (52 % of the critical path).
  Steps: one whole one
    11.8 ms from Optimizer.step#AdamW.step to the next, 165 kernels, at most 4.63 GiB

  - step 2 of 2 alone, from Optimizer.step#AdamW.step to the next: what was asked for before is held as it was then, and takes no time here
gpt_pytorch.h100, step 2 of 2 on h100-sxm (NVIDIA H100 SXM5, 80 GB HBM3)
  It fits. hbm 4.09 GiB of 78.6 GiB (5 %)
  4.52 GiB reserved by allocator pytorch:release:2.15, as recorded (PyTorch 2.13 or later); nvidia-smi would show 5.02 GiB, 512 MiB of it the process's context.
  It takes 12.7 ms, bound by hbm port (52 % of the critical path).
    It takes 8.0 % longer: 11.8 ms -> 12.7 ms. Along the critical path: +486 us hbm port, +373 us matrix unit, +73 us overhead.
  Steps: one whole one
    12.7 ms from Optimizer.step#AdamW.step to the next, 201 kernels, at most 4.09 GiB

  - step 2 of 2 alone, from Optimizer.step#AdamW.step to the next: what was asked for before is held as it was then, and takes no time here
gpt_pytorch.h100, step 2 of 2 on h100-sxm (NVIDIA H100 SXM5, 80 GB HBM3)
  IT DOES NOT FIT. hbm 2.98 GiB of 2.61 GiB (114 %)
  In the steps before 'gpt_train.py:59 (functional.py:3561)' asks for 1000 MiB more in hbm: 2.00 GiB of 2.61 GiB are live, 2.03 GiB reserved.
  What held the memory:
     500 MiB  gpt_train.py:49 (linear.py:134)              temporary
     500 MiB  gpt_train.py:59 (functional.py:3561)         activation
     268 MiB  gpt_train.py:52 (module.py:1374), 3 of them  parameter
     160 MiB  gpt_train.py:35, 3 of them                   activation
     128 MiB  gpt_train.py:35 (linear.py:134), 2 of them   activation
      96 MiB  gpt_train.py:32 (linear.py:134), 2 of them   activation
      64 MiB  gpt_train.py:34, 2 of them                   activation
    62.5 MiB  gpt_train.py:49 (linear.py:134)              activation
      32 MiB  gpt_train.py:46 (functional.py:2621)         activation
  (1.39 GiB of the 4 GiB of hbm are kept by the driver and the process's context.)
  What would make it fit:
    echelon advise --trace traces/gpt_pytorch.h100 --device h100-sxm --step last --set device.memories.hbm.capacity=4GiB
  That is before anything of it ran.

  Kernel times: 165 kernel model. Engine: native (0.1.0).
  - PyTorch's allocations taken from traces/gpt_pytorch.h100/gpt.pickle.gz
  - PyTorch's optimizer takes all parameters at once and makes 346 MiB of temporaries for that: fused=True makes none, foreach=False those of one parameter at a time
  - step 2 of 2 alone, from Optimizer.step#AdamW.step to the next: what was asked for before is held as it was then, and takes no time here
  - step 2 of 2 alone, from Optimizer.step#AdamW.step to the next: what was asked for before is held as it was then, and takes no time here
$ echelon run --trace traces/pipeline_pytorch.h100/rank*.pretend.gz --device h100-sxm --step 1..2 | grep -E 'It takes|alone, from'
  It takes 51.7 ms, step 2 of 2 takes 25.9 ms; 20.4 % of all ranks' time in that step is waiting for one another.
    ranks 0, 1: steps 1 to 2 of 2 alone, from Optimizer.step#SGD.step to the next: what was asked for before is held as it was then, and takes no time here
$ printf 'trace: gpt_pytorch.h100\ndevice: h100-sxm\nreplay: {engine: native}\nsweep: [{path: step, values: [1, 2, 1..2]}]\n' >$T/e.yaml; echelon run $T/e.yaml | grep -E '^ *(1|2|1\.\.2)  '
  1     yes   12.1 ms    1.000  4.63 GiB  hbm port
  2     yes   11.8 ms    0.971  4.63 GiB  hbm port
  1..2  yes   23.9 ms    1.971  4.63 GiB  hbm port
$ echelon run --trace traces/gpt_pytorch.h100/gpt.pretend.gz --device h100-sxm --engine native --pass pin | grep -E 'It takes'
  It takes 43.8 ms, bound by hbm port (43 % of the critical path).
    It takes 37.3 % less time: 69.9 ms -> 43.8 ms. Along the critical path: -32.7 ms pageable port, +6.76 ms host link to device.
$ echelon run --trace traces/gpt_pytorch.h100/gpt.pretend.gz --device h100-sxm --engine native --set device.runtime.eager_launch_ps=200us | grep -E "It takes|host's launches  "
  It takes 149 ms, bound by the host's launches (53 % of the critical path).
    It takes 2.14 times as long: 69.9 ms -> 149 ms. Along the critical path: +77.9 ms the host's launches.
    the host's launches           78.8 ms   52.8 % ###########.........
    for the host's launches        197 ms   52.7 % ###########.........
$ echelon run --trace traces/gpt_pytorch.h100/gpt.pretend.gz --device a100-80 --engine native | grep -E 'It takes|chosen for'
  It takes 154 ms, bound by pageable port (47 % of the critical path).
  - its kernels are those that were chosen for h100-sxm, of another compute capability: the libraries choose others for a100-80; echelon capture --pretend a100-80 asks them
$ echelon alloc traces/gpt_pytorch.h100/gpt.pretend.gz | sed -n '1,/^pytorch,/p;/recorded addresses/p;/in use when/,/^$/p'
traces/gpt_pytorch.h100/gpt.pretend.gz: pretend, 1509 events; device memory 78.6 GiB, what the pretended device had beside its context
no allocator needs less than 4.63 GiB; the recorded one held 4.99 GiB

PyTorch's allocations taken from traces/gpt_pytorch.h100/gpt.pickle.gz

allocator                        failed  peak live  reserved    frag     waste   largest  segments  smallest
pytorch, as recorded                  0   4.63 GiB  4.99 GiB   7.1 %  2.00 MiB  1000 MiB        34  4.99 GiB
pytorch, as recorded: from the recorded start state; 796 of 796 allocations at their recorded addresses, as by PyTorch 2.13 or later
in use when most is, 4.63 GiB, by what asked for it
    1.46 GiB      4 blocks  functional.py:3561 cross_entropy < gpt_train.py:59 <module>
    1000 MiB      1 block   NllLossBackward0
     578 MiB      3 blocks  linear.py:134 forward < gpt_train.py:49 forward < gpt_train.py:58 <module>
     346 MiB     27 blocks  adam.py:179 _init_group < adam.py:239 step < gpt_train.py:62 <module>
     346 MiB     27 blocks  adam.py:183 _init_group < adam.py:239 step < gpt_train.py:62 <module>
     972 MiB     69 blocks  of 14 more lines (--top)

$ echelon import traces/gpt_pytorch.h100 --anonymize -o $T/a.ech >/dev/null 2>&1; for pass in pin 'remat:modules=*.0' offload:what=activations; do for f in $T/a.ech traces/gpt_pytorch.h100; do echelon run --trace $f --device h100-sxm --engine native --pass $pass | grep -E "It takes|reserved by|Steps|forward, recomp" >$T/$(basename $f).said; done; cmp $T/a.ech.said $T/gpt_pytorch.h100.said; grep Steps $T/a.ech.said; done; ! grep -e gpt_train -e /opt/ $T/a.ech
  Steps: 2, the middle one takes 12.1 ms; --step N tells all of this of one alone
  Steps: 2, the middle one takes 12.6 ms; --step N tells all of this of one alone
  Steps: 2, the middle one takes 37.4 ms; --step N tells all of this of one alone
$ for how in checkpoint save_on_cpu; do echelon run --trace traces/gpt_pytorch_measures.h100/$how.pretend.gz --device h100-sxm --engine native | sed -n '/It fits/p;/Steps/,/^$/p'; done
  It fits. hbm 4.09 GiB of 78.6 GiB (5 %)
  Steps: 2, the middle one takes 13.1 ms; --step N tells all of this of one alone
    13.1 ms from Optimizer.step#AdamW.step to the next, 255 kernels, at most 4.09 GiB
    12.7 ms from Optimizer.step#AdamW.step to the next, 201 kernels, at most 4.09 GiB

  It fits. hbm 3.46 GiB of 78.6 GiB (4 %), host 2.22 GiB of 2 TiB (0 %)
  Steps: 2, the middle one takes 99.5 ms; --step N tells all of this of one alone
    99.5 ms from Optimizer.step#AdamW.step to the next, 236 kernels, at most 3.46 GiB
    99.2 ms from Optimizer.step#AdamW.step to the next, 182 kernels, at most 3.46 GiB

$ echelon run --trace traces/gpt_pytorch.h100/gpt.pretend.gz --device h100-sxm --engine native --pass 'remat:modules=layers.*' | grep 'remat: left'
  - remat: left the trace as it is: no module of PyTorch whose path fits 'layers.*' makes arrays that wait; 'run' names modules
$ echelon run --trace traces/gpt_pytorch.h100/gpt.pretend.gz --device h100-sxm --engine native --pass 'remat:modules=blocks.*,above=1' | sed -n '/It fits/p;/Steps/,/^$/p;/ - remat/p'
  It fits. hbm 4.09 GiB of 78.6 GiB (5 %)
  Steps: 2, the middle one takes 13.6 ms; --step N tells all of this of one alone
    13.6 ms from Optimizer.step#AdamW.step to the next, 255 kernels, at most 4.09 GiB
    12.7 ms from Optimizer.step#AdamW.step to the next, 201 kernels, at most 4.09 GiB

  - remat: 96 arrays (1.64 GiB) made again instead of kept: 108 kernels run again, 2.00 ms by their own times
$ echelon run --trace traces/gpt_pytorch.h100/gpt.pretend.gz --device h100-sxm --engine native --pass 'offload:what=activations,idle=0,above=1,each=true' | sed -n '/It fits/p;/Steps/,/^$/p;/ - offload/p'
  It fits. hbm 3.46 GiB of 78.6 GiB (4 %), host 2.15 GiB of 2 TiB (0 %)
  Steps: 2, the middle one takes 100 ms; --step N tells all of this of one alone
    100 ms from Optimizer.step#AdamW.step to the next, 219 kernels, at most 3.46 GiB
    99.5 ms from Optimizer.step#AdamW.step to the next, 165 kernels, at most 3.46 GiB

  - offload: 120 arrays (6.46 GiB) on the host; 138 copies there (6.55 GiB) and 138 back (6.55 GiB); the program waits for each (overlap=true, and pass prefetch: what overlapping them would be worth)
$ echelon run --trace traces/gpt_pytorch.h100/gpt.pretend.gz --device h100-sxm --engine native --pass 'offload:what=arguments,names=optimizer' | sed -n '/It fits/p;/Steps/,/^$/p;/ - offload/p'
  It fits. hbm 3.96 GiB of 78.6 GiB (5 %), host 692 MiB of 2 TiB (0 %)
  Steps: 2, the middle one takes 40.8 ms; --step N tells all of this of one alone
    31.8 ms from Optimizer.step#AdamW.step to the next, 219 kernels, at most 3.96 GiB
    40.8 ms from Optimizer.step#AdamW.step to the next, 165 kernels, at most 3.96 GiB

  - offload: 20 arrays (692 MiB) on the host; 70 copies there (2.13 GiB) and 74 back (1.73 GiB); the program waits for each (overlap=true, and pass prefetch: what overlapping them would be worth)
$ echelon run --trace traces/gpt_pytorch.h100/gpt.pretend.gz --device h100-sxm --engine native --pass 'offload:what=activations,names=*blocks.0.up*' | sed -n '/It fits/p;/ - offload/p'
  It fits. hbm 4.55 GiB of 78.6 GiB (6 %), host 88 MiB of 2 TiB (0 %)
  - offload: 9 arrays (264 MiB) on the host; 9 copies there (264 MiB) and 9 back (264 MiB); the program waits for each (overlap=true, and pass prefetch: what overlapping them would be worth)
$ echelon run --trace traces/gpt_pytorch.h100/gpt.pretend.gz --device h100-sxm --engine native --pass offload:what=activations,overlap=true --pass prefetch:depth=4 | sed -n '/It fits/,/It takes/p;/ - offload/p;/ - prefetch/p'
  It fits. hbm 5.12 GiB of 78.6 GiB (7 %), host 640 MiB of 2 TiB (0 %)
  5.30 GiB reserved by allocator pytorch:release:2.15, as recorded (PyTorch 2.13 or later); nvidia-smi would show 5.80 GiB, 512 MiB of it the process's context.
  It takes 118 ms, bound by host link to device (32 % of the critical path).
  - offload: 75 arrays (1.88 GiB) on the host; 75 copies there (1.88 GiB) and 75 back (1.88 GiB)
  - offload: left 9 arrays on the device (4.58 GiB): they are used again before copies out and back would be over (idle=0 takes them all the same)
  - prefetch: 75 fetches from the host start earlier (1.88 GiB), by 5.23 ms of computing at most
  - prefetch: it takes up to 640 MiB more of the device's memory
$ for v in 2.11.0 2.12.1+cu130; do zcat traces/gpt_pytorch_measures.h100/accumulate.pretend.gz | awk -v V=$v '/^name /{n = $2} /^end$/{printf "name %d \"echelon torch: %s\"\nmark 1 1 %d\n", n + 1, V, n + 1} {print}' > $T/of.pretend; cp traces/gpt_pytorch_measures.h100/accumulate.pickle.gz $T/of.pickle.gz; echelon run --trace $T/of.pretend --device h100-sxm --engine native --pass offload:what=activations,idle=0,each=true,above=1 | grep -e 'It takes' -e reserved; done
  3.00 GiB reserved by allocator pytorch:release:2.11, as recorded (PyTorch 2.11); nvidia-smi would show 3.50 GiB, 512 MiB of it the process's context.
  It takes 365 ms, bound by host link to device (38 % of the critical path).
    It takes 4.89 times as long: 74.6 ms -> 365 ms. Along the critical path: +137 ms host link to device, +137 ms host link from device, +15.3 ms others.
    hbm: 2.58 GiB live at 226 ms, 3.00 GiB reserved (14.3 % of it lost to fragmentation); pytorch:release:2.11
  3.00 GiB reserved by allocator pytorch:release:2.12, as recorded (PyTorch 2.12); nvidia-smi would show 3.50 GiB, 512 MiB of it the process's context.
  It takes 353 ms, bound by host link to device (39 % of the critical path).
    It takes 4.74 times as long: 74.6 ms -> 353 ms. Along the critical path: +137 ms host link to device, +137 ms host link from device.
    hbm: 2.58 GiB live at 219 ms, 3.00 GiB reserved (14.3 % of it lost to fragmentation); pytorch:release:2.12
$ gzip -dc traces/gpt_pytorch.h100/gpt.pretend.gz > $T/alone.pretend; echelon info $T/alone.pretend | tail -2
         307  uses of inferred direction
- no snapshot of PyTorch's lies beside it: what is allocated are the segments that PyTorch asked the driver for, not its tensors
$ echelon run --trace $T/alone.pretend --device h100-sxm --engine native --pass batch:rows=16 --pass remat | grep 'left the'; echelon advise $T/alone.pretend --device h100-sxm | grep -A3 -e 'A batch of' -e 'cannot be done'
  - batch: left the trace as it is: no snapshot of PyTorch's lies beside it, and what is known are segments of its allocator, not its tensors; 'echelon capture' writes one (PID.pickle beside PID.pretend)
  - remat: left the trace as it is: no snapshot of PyTorch's lies beside it, and what is known are segments of its allocator, not its tensors; 'echelon capture' writes one (PID.pickle beside PID.pretend)
  What cannot be done, or needs no less
    all that was tried: no snapshot of PyTorch's lies beside it, and what is known are segments of its allocator, not its tensors; 'echelon capture' writes one (PID.pickle beside PID.pretend)
$ printf 'echelon-pretend 1\nclock 1\ndevice 84825604096 536870912 1 "h100-sxm"\nname 1 "k"\nalloc 10 0 0 4294967296 84600000000 3 0\nkernel 20 0 0 1 1 1 1 32 1 1 0\nend\n' > $T/tight.pretend; echelon advise $T/tight.pretend --device h100-sxm | sed -n '/NOT FIT/p;/larger device/,/^$/p'
  IT DOES NOT FIT. 78.8 GiB of hbm are needed, 78.6 GiB are there beside 512 MiB of the process's context.
  As it is, on a larger device
   1  h100-nvl                             78.8 GiB         -  5.57 us    x1.000
   2  gh200                                78.8 GiB         -  5.57 us    x1.000
   3  gb10                                 78.8 GiB         -  5.57 us    x1.000

$ : what would make it fit is told in the words of its own language
$ echelon advise $T/tight.pretend --device h100-sxm | grep -ciE 'torch|jax'; echelon advise $T/tight.pretend --device h100-sxm | sed -n '/How a program/,/^$/p'
0
  How a program says so
   4  cudaMallocManaged in the place of cudaMalloc (llama.cpp: GGML_CUDA_ENABLE_UNIFIED_MEMORY=1)

$ echelon run --trace traces/keras_cnn.h100 --device h100-sxm | sed -n '3,12p; /Longest/,$p'
  It fits. hbm 113 MiB of 78.6 GiB (0 %), host 2 MiB of 2 TiB (0 %)
  76.9 GiB reserved by allocator tensorflow, as recorded; nvidia-smi would show 77.4 GiB, 512 MiB of it the process's context.
  It takes 20.4 ms, bound by the host's launches (63 % of the critical path).
  No schedule of it is shorter than 19.3 ms on this device; with no overlap at all it takes 27.7 ms.
  For 63 % of that the GPU waits for the program's host: 15 us for each launch (runtime.eager_launch_ps; of a core of an AMD EPYC). Other hosts differ (--set device.runtime.eager_launch_ps=30us).

  Critical path
    the host's launches           12.8 ms   62.6 % #############.......
    overhead                      3.65 ms   17.9 % ####................
    hbm port                      1.48 ms    7.3 % #...................
  Longest operations
    Memcpy HtoD (Pageable -> Device)              1.36 ms    6.7 % #...................  copy, 27 times
    cudaHostAlloc                                  960 us    4.7 % #...................  call, on the host, page by page
    Memcpy DtoH (Device -> Pageable)               790 us    3.9 % #...................  copy, 29 times
    Mul_GPU_DT_FLOAT_DT_FLOAT_kernel               681 us    3.3 % #...................  kernel, roofline, 211 times
    main_kernel                                    307 us    1.5 % ....................  kernel, roofline, 175 times
    stream_executor::gp...eAllocatorKernelImpl     257 us    1.3 % ....................  kernel, roofline, 20 times

  Kernel times: 1010 roofline; 163 kernel model; 1 on the host, page by page. Engine: simgrid (SimGrid version ...).
  Of the kernels' time 11 % is products, which are held against published times; 15 % other kernels with constants from recorded ones of their class; 75 % of no known class: bytes and operations at the device's rates.
  - 56 copies of 12.0 MiB in all are from or to pageable host memory, which is not counted; --pass pin says what pinned memory would be worth
$ echelon run --trace traces/keras_cnn.h100 --device h100-sxm --engine native | grep 'pinning memory'
    pinning memory                 960 us    4.7 % #...................
    (pinning memory: the host waits while pages of its memory are locked one by one: once, where a cache of pinned memory keeps them, as PyTorch's does)
$ echelon alloc traces/keras_cnn.h100/cnn.pretend.gz | sed -n '1,9p'
traces/keras_cnn.h100/cnn.pretend.gz: pretend, 1148 events; device memory 78.6 GiB, what the pretended device had beside its context
allocations of hbm (--memory: host)
no allocator needs less than 105 MiB; the recorded one held 105 MiB

allocator            failed  peak live  reserved    frag     waste   largest  segments
tensorflow                0    113 MiB  76.9 GiB   whole  12.1 MiB  76.9 GiB         1
cuda_async                0    105 MiB   160 MiB  34.4 %    26 KiB  17.5 MiB         5

cuda_async: placement is a model: the driver's policy and growth step are not documented; reuse, release and the remapping of fragmented memory follow what NVIDIA says, and users report more fragmentation
$ echelon alloc traces/keras_cnn.h100/cnn.bfc.events.gz -a tensorflow -c 84406108160 --placements $T/p.csv > $T/said && cut -d, -f2,7 --output-delimiter=' ' $T/p.csv | tail -n +2 > $T/ours && zcat traces/keras_cnn.h100/cnn.bfc.addresses.gz | cmp - $T/ours && wc -l < $T/ours; rm $T/p.csv $T/ours $T/said
571
$ cp tests/fuzz/corpus/pretend/small.pretend $T/a.pretend; cp tests/fuzz/corpus/memory_snapshot/old_list.pickle $T/a.pickle; echelon info $T/a.pretend | grep -o 'lies beside.*'
lies beside it but tells no times: left out
$ echelon info $T/a.pretend --beside $T/a.pickle 2>&1 | grep -o 'this snapshot.*'
this snapshot tells no times; it cannot be merged with what was asked of a device
$ gzip -dc traces/keras_cnn.h100/cnn.pretend.gz | sed 's/"h100-sxm"/"l4"/' >$T/k.pretend; echelon run --trace $T/k.pretend --device l4 --engine native | grep -o 'reserved by allocator [^;]*'
reserved by allocator tensorflow:compute_capability=8.9, as recorded
$ for pool in '900000 0' '0 1' '450000 1'; do gzip -dc traces/gpt_jax.h100/gpt.pretend.gz | sed "/^device/a pool $pool" >$T/j.pretend; echelon run --trace $T/j.pretend --device h100-sxm --engine native | grep 'reserved by allocator'; done; echelon alloc $T/j.pretend | grep '^jax'; echelon import $T/j.pretend --anonymize -o $T/j.ech >/dev/null 2>&1 && echelon run --trace $T/j.ech --device h100-sxm --engine native | grep -o 'reserved by allocator [^ ]*'
  71.2 GiB reserved by allocator jax:mem_fraction=0.9, as recorded; 512 B beside it, from the device itself (variables of modules); nvidia-smi would show 71.7 GiB, 512 MiB of it the process's context.
  142 MiB reserved by allocator jax:preallocate=false, as recorded; 512 B beside it, from the device itself (variables of modules); nvidia-smi would show 654 MiB, 512 MiB of it the process's context.
  142 MiB reserved by allocator jax:mem_fraction=0.45,preallocate=false, as recorded; 512 B beside it, from the device itself (variables of modules); nvidia-smi would show 654 MiB, 512 MiB of it the process's context.
jax:mem_fraction=0.45,preallocate=false      0    135 MiB   142 MiB   4.9 %  12.3 MiB   128 MiB         4
reserved by allocator jax:mem_fraction=0.45,preallocate=false,
$ echelon run --trace traces/gpt_jax.h100 --device h100-sxm --engine native | sed -n '/It takes/p;/Longest/,$p'
  It takes 4.49 ms, bound by latency inside kernels (51 % of the critical path).
  Longest operations
    cudaHostAlloc                 960 us  21.4 %  call, on the host, page by page, 3 times
    Memcpy DtoD...e -> Device)    473 us  10.5 %  copy, 299 times
    gemm_fusion_dot.*             427 us   9.5 %  kernel, kernel model: product, by latency, 72 times, gpt_step.py:32
    gemm_fusion_dot.*             227 us   5.1 %  kernel, product, 36 times, gpt_step.py:28
    gemm_fusion_dot.*             227 us   5.1 %  kernel, product, 36 times, gpt_step.py:30
    gemm_fusion_dot.*             210 us   4.7 %  kernel, product, 36 times, gpt_step.py:31

  Kernel times: 8 roofline; 846 kernel model; 3 on the host, page by page. Engine: native (0.1.0).
  Of the kernels' time 48 % is products, which are held against published times; 50 % other kernels with the constants of PyTorch's, held against no GPU; 1 % assumed (most of it scatter); 1 % bytes and operations at the device's rates.
  - 846 kernels that XLA compiled are priced as in the folders of their programs beside: jit_step
  - 8 kernels that XLA compiled are priced by the arrays that they are given: no folder of their programs lies beside (jit_broadcast_in_dim)
  - 189 products carry a tile that no timing would have chosen (compiled where there was no GPU to time on): priced with the best tile, as autotuning finds it; replay.tuned_tiles=false prices them as written
$ echelon run --trace traces/gpt_jax.h100/gpt.step --device h100-sxm --engine native | sed -n '/It takes/p;/Longest/,$p'
  It takes 1.08 ms, bound by latency inside kernels (81 % of the critical path).
  Longest operations
    gemm_fusion_dot.*             142 us  13.2 %  kernel, kernel model: product, by latency, 24 times, gpt_step.py:32
    loop_dynami...ice_fusion.*   98.0 us   9.1 %  kernel, elementwise, 64 times, gpt_step.py:47
    gemm_fusion_dot.*            75.7 us   7.0 %  kernel, product, 12 times, gpt_step.py:28
    gemm_fusion_dot.*            75.7 us   7.0 %  kernel, product, 12 times, gpt_step.py:30
    gemm_fusion_dot.*            70.0 us   6.5 %  kernel, product, 12 times, gpt_step.py:31
    gemm_fusion_dot.*            66.6 us   6.2 %  kernel, kernel model: product, by latency, 12 times, gpt_step.py:26

  Kernel times: 128 kernel model. Engine: native (0.1.0).
  Of the kernels' time 42 % is products, which are held against published times; 58 % other kernels with the constants of PyTorch's, held against no GPU; 1 % assumed (most of it scatter).
  - buffer assignment taken from traces/gpt_jax.h100/gpt.step/program.buffer-assignment.txt.gz
  - 18 products carry a tile that no timing would have chosen (compiled where there was no GPU to time on): priced with the best tile, as autotuning finds it; replay.tuned_tiles=false prices them as written
$ cp traces/gpt_jax.h100/gpt.pretend.gz $T/alone.pretend.gz; cd $T; echelon run --trace alone.pretend.gz --device h100-sxm --engine native | sed -n '/It takes/p;/beside/p'
  59.3 GiB reserved by allocator jax, as recorded; 512 B beside it, from the device itself (variables of modules); nvidia-smi would show 59.8 GiB, 512 MiB of it the process's context.
  It takes 9.24 ms, bound by hbm port (69 % of the critical path).
  - 854 kernels that XLA compiled are priced by the arrays that they are given: no folder of their programs lies beside (jit_broadcast_in_dim, jit_step)
$ printf 'echelon-pretend 1\nclock 1\ndevice 85899345920 0 2 "h100-sxm"\nalloc 1 0 0 4096 1048576 3 0\nalloc 2 1 0 4096 2097152 3 0\nend\n' >$T/two.pretend; for m in hbm hbm:1; do echelon alloc $T/two.pretend --memory $m | sed -n 3p; done
no allocator needs less than 1 MiB
no allocator needs less than 2 MiB
$ for p in '' 'remat:modules=blocks.*' 'shard:over=8'; do echelon run --trace traces/gpt_pytorch_compiled.h100/whole.pretend.gz --device h100-sxm --step last --engine native ${p:+--pass "$p"} 2>/dev/null | grep -E '^  It (fits|takes)|head \(Linear\)  |blocks\.\*\.up|- (remat|shard):'; done
  It fits. hbm 4.62 GiB of 78.6 GiB (6 %), host 6 B of 2 TiB (0 %)
  It takes 10.7 ms, bound by hbm port (56 % of the critical path).
    head (Linear)                 2.36 ms   22.0 % ####................  730 us, -, 1.63 ms
    blocks.*.up (Linear)           582 us    5.4 % #...................  200 us, -, 382 us
  It fits. hbm 4.09 GiB of 78.6 GiB (5 %), host 6 B of 2 TiB (0 %)
  It takes 11.5 ms, bound by hbm port (55 % of the critical path).
    head (Linear)                 2.36 ms   20.6 % ####................  730 us, -, 1.63 ms
    blocks.*.up (Linear)           783 us    6.8 % #...................  200 us, 200 us, 382 us
  - remat: 72 arrays (1.64 GiB) made again instead of kept: 78 kernels run again, 1.70 ms by their own times
  - remat: these modules are parts of a graph of torch.compile, which decides itself when gradients are computed: 14 steps checkpointed so took 0.8 to 1.3 times the memory that is told; modules compiled one at a time (module.compile()) take what is told
  It fits. hbm 4.14 GiB of 78.6 GiB (5 %), host 6 B of 2 TiB (0 %)
  It takes 11.2 ms, bound by hbm port (41 % of the critical path).
    head (Linear)                 2.41 ms   21.6 % ####................  730 us, -, 1.68 ms
    blocks.*.up (Linear)           582 us    5.2 % #...................  200 us, -, 382 us
  - shard: weights and optimizer state (1.01 GiB), and gradients, in parts over 8 devices, 130 MiB and gradients on each, as fully_shard of blocks.* and of the model has them
  - shard: 1.66 GiB of weights are gathered and 1.01 GiB of gradients summed up, in the types that they have
$ echelon run --trace traces/gpt_pytorch_compiled.h100/checkpointed.pretend.gz --device h100-sxm --step last --engine native 2>/dev/null | grep -E '^  It (fits|takes)|head \(Linear\)  |blocks\.\*\.up'
  It fits. hbm 4.09 GiB of 78.6 GiB (5 %), host 6 B of 2 TiB (0 %)
  It takes 11.4 ms, bound by hbm port (55 % of the critical path).
    head (Linear)                 2.36 ms   20.7 % ####................  730 us, -, 1.63 ms
    blocks.*.up (Linear)           783 us    6.8 % #...................  200 us, 200 us, 382 us
$ awk 'BEGIN { print "echelon-pretend 1\nclock 1\ndevice 85899345920 0 1 \"h100-sxm\"\nname 1 \"k(float const*, float*)\"\nname 2 \"nn.Module: M\"\nalloc 1 0 0 8192 4096 3 0"; for (i = 1; i <= 200; i++) printf "alloc 1 0 0 %d 10485760 3 0\nset 1 0 0 10485760\nuses 2 %d 10485760\n", i * 10485760, i * 10485760; for (t = 10; t < 40; t += 10) { print "push " t " 9 2"; for (i = 1; i <= 200; i++) printf "kernel %d 0 0 1 8192 1 1 256 1 1 0\nargs 0 %d 1 8192\n", t, i * 10485760; print "pop " t " 9" } print "end" }' >$T/weights.pretend; echelon advise $T/weights.pretend --device h100-sxm --memory 1536MiB | sed -n '/would make/,/^$/p'
  What would make it fit
   1  weights on host, fetched ahead       1.49 GiB  1.95 GiB  43.5 ms   x14.486
   2  weights on host, as many as needed   1.49 GiB   480 MiB  49.6 ms   x16.531
   3  weights on host                      20.0 MiB  1.95 GiB   197 ms   x65.711
  (1: from pinned memory, which takes the host half a second a GiB once and is not in the time; PyTorch rounds each array there up to a power of two, so that it may take up to twice as much of the host)

$ for d in h100-sxm l4; do echelon run --trace tests/golden/data/server_cache.pretend --device $d --engine native | grep -E 'of 7|FIT|kv_cache|KV'; echelon advise tests/golden/data/server_cache.pretend --device $d | grep -E 'server|KV|on host'; done; sed 's/^device 84942979072/device 1099511627776/' tests/golden/data/server_cache.pretend >$T/large.pretend; echelon run --trace $T/large.pretend --device h100-sxm --engine native | grep 'KV cache,'
  It fits. hbm 71 GiB of 78.6 GiB (90 %)
        55 GiB  cudaMalloc  kv_cache
  - the server's KV cache, 55 GiB, is what its share of the memory left it (h100-sxm, 79.1 GiB); beside it 16 GiB are needed at most
server_cache.pretend on h100-sxm (NVIDIA H100 SXM5, 80 GB HBM3)
  The server's KV cache, 55 GiB, is what its share of the memory left it (h100-sxm, 79.1 GiB); beside it 16 GiB are needed at most; memory is told without it.
  Other settings make another program of a server, whose capture tells its tokens in its log: a cache in 8 bits holds twice the tokens of one in 16 (--kv-cache-dtype fp8 of vLLM, fp8_e4m3 of SGLang), and weights in 8 bits (--quantization fp8) leave it half of what they have in 16.
      3.90 GiB  cudaMalloc  kv_cache
  - the server's KV cache, 55 GiB, is what its share of the memory left it (h100-sxm, 79.1 GiB); beside it 16 GiB are needed at most, so that the same share leaves some 3.90 GiB here ('echelon capture --pretend l4' tells exactly), with which it is replayed
server_cache.pretend on l4 (NVIDIA L4, 24 GB GDDR6)
  The server's KV cache, 55 GiB, is what its share of the memory left it (h100-sxm, 79.1 GiB); beside it 16 GiB are needed at most, so that the same share leaves some 3.90 GiB here ('echelon capture --pretend l4' tells exactly); memory is told without it.
  Other settings make another program of a server, whose capture tells its tokens in its log: a cache in 8 bits holds twice the tokens of one in 16 (--kv-cache-dtype fp8 of vLLM, fp8_e4m3 of SGLang), and weights in 8 bits (--quantization fp8) leave it half of what they have in 16.
  - the server's KV cache, 55 GiB, is what its share of the memory left it (h100-sxm, 1 TiB); beside it 16 GiB are needed at most, more than the same share is here
$ for d in h100-sxm h200; do echelon run --trace tests/golden/data/server_no_room.pretend --device $d --engine native | grep -E 'FIT|fits|stopped'; done; echelon advise tests/golden/data/server_no_room.pretend --device h100-sxm
  IT DOES NOT FIT. hbm 16 GiB of 78.6 GiB (20 %)
  The server stopped when it was captured, with 79.1 GiB: "To serve at least one request with the model's max seq len (131072), 16.0 GiB KV cache is needed." What is said here is up to there.
  It fits as far as the program came. hbm 16 GiB of 139 GiB (11 %)
  The server stopped when it was captured, with 79.1 GiB: "To serve at least one request with the model's max seq len (131072), 16.0 GiB KV cache is needed." What is said here is up to there.
echelon: the server stopped when it was captured, and what a step of it takes is not known; expected one that came to serve. It said: To serve at least one request with the model's max seq len (131072), 16.0 GiB KV cache is needed.
exit 1
$ { grep -v '^end' $T/weights.pretend; awk 'BEGIN { for (i = 1; i <= 200; i++) printf "free 50 0 0 %d 10485760 3 0\n", i * 10485760; print "end" }'; } >$T/shut.pretend; echelon advise $T/shut.pretend --device h100-sxm --memory 1536MiB | grep 'weights on host  '
   3  weights on host                      20.0 MiB  1.95 GiB   197 ms   x65.711
$ : one process on two devices in turn, and where the second has no room
$ awk 'BEGIN { print "echelon-pretend 1\nclock 1\ndevice 25769803776 0 2 \"rtx-4090\"\nname 1 \"k(float const*, float*)\"\nname 2 \"nn.Module: Net\""; for (d = 0; d < 2; d++) printf "alloc 1 %d 0 %d %d 3 0\nset 1 %d 0 %d\nuses 2 %d %d\n", d, (d + 1) * 16777216, (d + 1) * 4194304, d, (d + 1) * 4194304, (d + 1) * 16777216, (d + 1) * 4194304; for (s = 0; s < 3; s++) { t = 10 + 10 * s; print "push " t " 9 2"; for (d = 0; d < 2; d++) for (k = 0; k <= d; k++) printf "kernel %d %d 0 1 4096 1 1 256 1 1 0\nargs 0 %d\n", t, d, (d + 1) * 16777216; print "pop " t " 9" } print "end" }' >$T/two.pretend; echelon run --trace $T/two.pretend --device rtx-4090; echelon run --trace $T/two.pretend --device rtx-4090 --set device.memories.hbm.available=6MiB --set device.runtime.driver.context_bytes=0 >$T/two.txt; echo $?; sed -n 3,4p $T/two.txt; grep -A1 'On device' $T/two.txt; echelon run --trace $T/two.pretend --device rtx-4090 --set capture_device=0 | grep -E '^  It fits|All of this|alone, on'; echelon run --trace $T/two.pretend --device rtx-4090 --engine native --step last --set replay.host_launches=false --json | grep -E '^  "(makespan|step|fullest|devices)|^      "(rank|time_ps)'
two.pretend: 2 devices of one process, rtx-4090

  Every device fits.
  It takes 176 us, step 2 of 3 takes 45 us; 0.0 % of all devices' time in that step is waiting for one another.

                                                   kernels   communication       waits for           host,
  device       live   reserved       step              run           alone          others            idle
       0      4 MiB      4 MiB      45 us    5.95 us  13 %      0 ps   0 %      0 ps   0 %   39.1 us  87 %
       1      8 MiB      8 MiB      45 us    21.0 us  47 %      0 ps   0 %      0 ps   0 %   24.0 us  53 %

  Device 1 is the fullest; spread evenly, each would hold 6 MiB at its fullest. --set capture_device=N tells all of one, alone; -o DIR writes a page of each.

  Memory at its fullest
    hbm: 8 MiB live from the start; best_fit
         8 MiB  cudaMalloc  parameter
3
  IT DOES NOT FIT: device 1. (The others were replayed as if nobody had to wait for those; times mean little.)
  It takes 126 us; 0.0 % of all devices' time is waiting for one another.
  On device 1
  IT DOES NOT FIT. hbm 8 MiB of 6 MiB (133 %)
  It fits. hbm 4 MiB of 23.2 GiB (0 %)
  All of this is device 0's alone, as if it never waited for the others: the program runs on device 1 (7 kernels), too; --set capture_device=N tells those.
  - the capture holds devices 0, 1: device 0 is replayed alone, on links and memories of its own, as if it had to wait for none of the others (capture_device chooses another)
  "makespan_ps" : 22253504,
  "step_ps" : 22253504,
  "fullest_bytes" : 8388608,
  "devices_of_one_process" : true,
      "rank" : 0,
      "rank" : 1,
      "ranks" : [
$ : what one sends the other over NVLink, waits for an event, and a host that waits for that; others have no NVLink, one of them no way but over the memory of the host
sh: 1: others: not found
exit 127
$ awk 'BEGIN { print "echelon-pretend 1\nclock 1\ndevice 25769803776 0 2 \"h100-sxm\"\nname 1 \"k(float const*, float*)\"";  M=67108864;  for (d = 0; d < 2; d++) printf "alloc 1 %d 0 %d %d 3 0\nset 1 %d 0 %d\nuses 2 %d %d\n", d, (d+1)*1000000000, M, d, M, (d+1)*1000000000, M;  for (s = 0; s < 2; s++) { t = 100 * s + 10;   printf "kernel %d 0 1 1 4096 1 1 256 1 1 0\nargs 0 1000000000\n", t;   printf "copy %d 0 1 %d 3 3 1\nuses 1 1000000000 %d 2 2000000000 %d\nrecord %d 0 1 1\nwait %d 1 1 1\n", t+1, M, M, M, t+2, t+3;   printf "kernel %d 1 1 1 4096 1 1 256 1 1 0\nargs 0 2000000000\nrecord %d 1 1 2\n", t+4, t+5;   printf "sync %d 3 1 1 0\n", t+6; }  print "end" }' >$T/chain.pretend; echelon run --trace $T/chain.pretend --device h100-sxm; for d in l4 rtx-4090; do echelon run --trace $T/chain.pretend --device $d | grep '^  It takes'; done; echelon run --trace $T/chain.pretend --device h100-sxm -o $T/chain >/dev/null 2>&1; ls $T/chain; grep devices_of $T/chain/ranks.json; echelon import $T/two.pretend --anonymize -o $T/other.ech >/dev/null 2>&1; echelon run --trace $T/other.ech --device rtx-4090 | sed -n 1,8p
chain.pretend: 2 devices of one process, h100-sxm

  Every device fits.
  It takes 446 us; 44.0 % of all devices' time is waiting for one another.

                                                   kernels   communication       waits for           host,
  device       live   reserved       time              run           alone          others            idle
       0     64 MiB     64 MiB     423 us    66.6 us  16 %    324 us  77 %   22.9 us   5 %   9.14 us   2 %
       1     64 MiB     64 MiB     446 us    68.1 us  15 %      0 ps   0 %    359 us  81 %   18.3 us   4 %

  Who waits for whom, and what that one does meanwhile
    device 1 for 0          359 us  2 times, all at Stream waits for event: runs kernels 10 %, communicates 90 %
    device 0 for 1         22.9 us  1 time, all at Synchronize stream: runs kernels 100 %
    Device 0 is waited for longest, 359 us by all together; its kernels take 66.6 us, those of the others 68.1 us.

  Device 0 is the fullest. --set capture_device=N tells all of one, alone; -o DIR writes a page of each.

  Memory at its fullest
    hbm: 64 MiB live from the start; best_fit
        64 MiB  cudaMalloc
  It takes 6.90 ms; 46.7 % of all devices' time is waiting for one another.
  It takes 8.26 ms; 49.3 % of all devices' time is waiting for one another.
000
001
details.json
ranks.json
report.html
summary.txt
timeline.pftrace
  "devices_of_one_process" : true,
other: 2 devices of one process, rtx-4090

  Every device fits.
  It takes 176 us; 0.0 % of all devices' time is waiting for one another.

                                                   kernels   communication       waits for           host,
  device       live   reserved       time              run           alone          others            idle
       0      4 MiB      4 MiB     126 us    19.9 us  16 %      0 ps   0 %      0 ps   0 %    106 us  84 %
$ : kernels told by their code, of which L2 has what was used just before, where it is large, and whose instructions take their time. A program in C++ asks by the driver alone
$ awk 'BEGIN { print "echelon-pretend 1\nclock 1\ndevice 15000000000 0 1 \"h100-sxm\"\nname 1 \"scale\"\nname 2 \"count\"\nalloc 1 0 0 4294967296 1073741824 3 0"; for (i = 0; i < 100; i++) printf "kernel %d 0 0 1 4096 1 1 256 1 1 0\nuses 1 %d 4194304 2 %d 4194304\nlanes 0 0 1000\n", i, 4294967296 + i % 2 * 4194304, 4294967296 + (i + 1) % 2 * 4194304; print "kernel 200 0 0 2 4096 1 1 256 1 1 0\nuses 1 4294967296 4\nlanes 0 0 9000000000\nend" }' >$T/code.pretend; for d in h100-sxm v100-32 t4; do echelon run --trace $T/code.pretend --device $d | grep -E "^  It takes|hbm port .* read|  (count|scale) "; done; echelon run --trace $T/code.pretend --device h100-sxm --set device.runtime.submit_ps=99us | grep -E "waits for the program" | cut -c1-190; rm $T/code.pretend
  It takes 9.07 ms, bound by latency inside kernels (98 % of the critical path).
    hbm port    18.5 us    0.2 % ....................  400 MiB read, 400 MiB written; 744 MiB of that in L2
    count                         8.61 ms   94.9 % ###################.  kernel, roofline
    scale                          250 us    2.8 % #...................  kernel, roofline, 100 times
  It takes 19.2 ms, bound by latency inside kernels (96 % of the critical path).
    hbm port     538 us    2.8 % #...................  400 MiB read, 400 MiB written; 396 MiB of that in L2
    count                         18.4 ms   95.7 % ###################.  kernel, roofline
    scale                          688 us    3.6 % #...................  kernel, roofline, 100 times
  It takes 38.3 ms, bound by latency inside kernels (92 % of the critical path).
    hbm port    2.69 ms    7.0 % #...................  400 MiB read, 400 MiB written; 198 MiB of that in L2
    count                         35.4 ms   92.3 % ##################..  kernel, roofline
    scale                         2.84 ms    7.4 % #...................  kernel, roofline, 100 times
  For 52 % of that the GPU waits for the program's host: 99 us for each launch (runtime.submit_ps; assumed). Other hosts differ (--set device.runtime.submit_ps=2.5us).
