The alloc verb: side by side, failures, messages.
$ printf 'a 0 4194304\na 1 4194304\nf 0\na 2 52428800\na 3 16777216\nf 2\nf 3\n' > $T/t.txt; cd $T; echelon alloc t.txt -a pytorch -a best_fit -c 80MiB -r --smallest --placements p.csv
t.txt: alloc_text, 7 events; device memory 80 MiB
no allocator needs less than 70 MiB

allocator            failed  peak live  reserved    frag     waste   largest  segments  smallest
pytorch                   1     54 MiB    70 MiB  22.9 %       0 B    50 MiB         2    86 MiB
best_fit                  0     70 MiB    74 MiB   5.4 %       0 B    66 MiB         0    74 MiB

pytorch
  peak, event 3
    reserved 70 MiB, allocated 54 MiB (0 B of it waste), largest free 12 MiB, stranded 16 MiB, cached 0 B
    [_____*******________________************************************************************************]
    segment 0: 16 MiB of 20 MiB stranded by 1 live block: #1 (4 MiB, age 2)
  failure, event 4: 16 MiB asked for #3; 26 MiB are not in use, but fragmented: 10 MiB left on the device, 2 free blocks, the largest 12 MiB
    least in the way: 4 MiB of 20 MiB in segment 0, held by 1 live block: #1 (4 MiB, age 3)
    reserved 70 MiB, allocated 54 MiB (0 B of it waste), largest free 12 MiB, stranded 16 MiB, cached 0 B
    [_____*******________________************************************************************************]
    segment 0: 16 MiB of 20 MiB stranded by 1 live block: #1 (4 MiB, age 3)
  end, event 6
    reserved 70 MiB, allocated 4 MiB (0 B of it waste), largest free 50 MiB, stranded 16 MiB, cached 50 MiB
    [_____*******________________________________________________________________________________________]
    segment 0: 16 MiB of 20 MiB stranded by 1 live block: #1 (4 MiB, age 5)
  addresses (70 MiB ever reserved, high ones on top) over events: # in use, + mostly, : partly, . free, blank not reserved
    |   ##..|
    |   ##..|
    |   ##..|
    |   ##..|
    |   ##..|
    |   ##..|
    |   ##..|
    |   ##..|
    |   ##..|
    |   ##..|
    |   ##..|
    |...::..|
    |.......|
    |.......|
    |.++++++|
    |##:::::|

best_fit
  peak, event 4
    reserved 74 MiB, allocated 70 MiB (0 B of it waste), largest free 4 MiB, stranded 4 MiB, cached 0 B
    [_____***********************************************************************************************]
    segment 0: 4 MiB of 74 MiB stranded by 3 live blocks: #2 (50 MiB, age 1), #3 (16 MiB, age 0), #1 (4 MiB, age 3)
  end, event 6
    reserved 74 MiB, allocated 4 MiB (0 B of it waste), largest free 66 MiB, stranded 70 MiB, cached 0 B
    [_____******_________________________________________________________________________________________]
    segment 0: 70 MiB of 74 MiB stranded by 1 live block: #1 (4 MiB, age 5)
  addresses (74 MiB ever reserved, high ones on top) over events: # in use, + mostly, : partly, . free, blank not reserved
    |    ##.|
    |    ##.|
    |    ##.|
    |   +#:.|
    |   ##..|
    |   ##..|
    |   ##..|
    |   ##..|
    |   ##..|
    |   ##..|
    |   ##..|
    |   ##..|
    |   ##..|
    |   ##..|
    | ++##++|
    |+#:::::|

pytorch: out of memory at event 4, 16 MiB for #3, though as many bytes are free: fragmentation
[*x_]: addresses in use, lost to rounding, free, low ones first; stranded: free bytes that live blocks of the same segment keep from going back; cached: free bytes of segments without a live block; age: in events
frag: what of the most that is reserved is not in use at the peak; waste: lost to rounding then; largest: free block of what is reserved at the end; segments: how often more was taken from the device
exit 3
$ cat $T/p.csv $T/p.csv.2
event,id,requested,rounded,segment,offset,address
0,0,4194304,4194304,0,0,0
1,1,4194304,4194304,0,4194304,4194304
3,2,52428800,52428800,1,0,20971520
4,3,16777216,,,,
event,id,requested,rounded,segment,offset,address
0,0,4194304,4194304,0,0,0
1,1,4194304,4194304,0,4194304,4194304
3,2,52428800,52428800,0,8388608,8388608
4,3,16777216,16777216,0,60817408,60817408
$ cd $T; echelon alloc t.txt -a pytorch:max_split_size:200
echelon: pytorch:max_split_size:200: 'max_split_size' is no setting of PYTORCH_CUDA_ALLOC_CONF; did you mean 'max_split_size_mb'?
exit 2
$ cd $T; printf 'a 0 1\nf x\n' > b.txt; echelon alloc b.txt
echelon: b.txt:2: 'f x' is no event; expected 'a ID BYTES [STREAM]', 'u ID BYTES', 'p ID BYTES POOL', 'g ID BYTES POOL', 'f ID', 'r ID STREAM', 'e STREAM', 'd POOL' or 'c'
exit 1
$ cd $T; echelon alloc t.txt -a bfc -c lots
echelon: --capacity: 'lots' is not a size; expected something like 16GiB
exit 2
$ cd $T; echelon alloc nothing.txt -a bfc
echelon: nothing.txt: No such file or directory
exit 1
$ echelon alloc traces/gpt_nothing.h100 -c 16GiB
traces/gpt_nothing.h100: hlo, 176 events; device memory 16 GiB
no allocator needs less than 32.0 MiB
arguments and constants, 6.50 MiB, come first and stay; loop bodies once

allocator                        failed  peak live  reserved    frag     waste   largest  segments  smallest
bfc                                   0   32.5 MiB    16 GiB   whole   509 KiB  16.0 GiB         1    34 MiB
pytorch                               0   33.0 MiB    48 MiB  31.2 %  1.00 MiB    20 MiB         6    48 MiB
pytorch:expandable_segments:True      0   32.0 MiB    50 MiB  35.9 %  1.97 KiB  34.5 MiB         2    50 MiB
plan                                  0   32.0 MiB  32.0 MiB   0.0 %       0 B       0 B         1  32.0 MiB
plan:exact:step_limit=200000          0   32.0 MiB  32.0 MiB   0.0 %       0 B       0 B         1  32.0 MiB
compiler                              0   32.0 MiB  32.0 MiB   0.0 %       0 B       0 B         1  32.0 MiB

plan: xla:algorithm=best, all lifetimes known in advance

plan:exact:step_limit=200000: exact:step_limit=200000, all lifetimes known in advance; proved lowest

compiler: the compiler's own assignment, tuple tables and alignment included: what it asks the runtime for, once

frag: what of the most that is reserved is not in use at the peak; waste: lost to rounding then; largest: free block of what is reserved at the end; segments: how often more was taken from the device
whole: the pool is taken at the start; what is needed of it, holes included, is what 'smallest' tells (--smallest)
$ echelon alloc traces/gpt_nothing.h100 -c 25MiB --temporaries -a compiler -a pytorch
traces/gpt_nothing.h100: hlo, 169 events; device memory 25 MiB
no allocator needs less than 25.5 MiB
arguments and constants, 6.50 MiB, are left out; loop bodies once

allocator            failed  peak live  reserved    frag     waste   largest  segments  smallest
compiler                  1   25.5 MiB  25.5 MiB   0.0 %       0 B       0 B         1  25.5 MiB
pytorch                  14   23.6 MiB    24 MiB   1.5 %   513 KiB    20 MiB         3    44 MiB

compiler: the compiler's own assignment, tuple tables and alignment included: what it asks the runtime for, once

pytorch: out of memory at event 16, 512 KiB for fusion.168, though as many bytes are free: fragmentation; a program ends there, the replay goes on without it: 13 more, 14 of all 14 are fragmentation; --report says what stood in the way
frag: what of the most that is reserved is not in use at the peak; waste: lost to rounding then; largest: free block of what is reserved at the end; segments: how often more was taken from the device
exit 3
$ echelon alloc tests/golden/data/oom.pickle
tests/golden/data/oom.pickle: memory_snapshot, 9 events; device memory 210 MiB, what the recording held and what was free when it ran out
no allocator needs less than 156 MiB; the recorded one held 120 MiB

allocator                        failed  peak live  reserved    frag     waste   largest  segments  smallest
pytorch, as recorded                  1    120 MiB   120 MiB   0.0 %       0 B    64 MiB         3   220 MiB
pytorch:max_split_size_mb:32          0    156 MiB   156 MiB   0.0 %       0 B   100 MiB         6   156 MiB
pytorch:expandable_segments:True      0    156 MiB   160 MiB   2.5 %       0 B   104 MiB         1   160 MiB
pytorch:backend:cudaMallocAsync       0    156 MiB   160 MiB   2.5 %       0 B   100 MiB         3   156 MiB

pytorch, as recorded: from the recorded start state; 6 of 6 allocations at their recorded addresses

pytorch:backend:cudaMallocAsync: placement is a model: the driver's policy and growth step are not documented; reuse, release and the remapping of fragmented memory follow what NVIDIA says, and users report more fragmentation

in use at the refusal, 56 MiB, by what asked for it
      36 MiB      3 blocks  adam.py:77 step < train.py:30 main
      20 MiB      2 blocks  model.py:12 __init__ < train.py:30 main

the recording ran out of memory: 100 MiB asked for by loss.py:8 with 56 MiB allocated, 64 MiB reserved but unallocated, 90 MiB free on the device
    loss.py:8 was asked for in /home/me/loss.py:8:cross_entropy < /home/me/train.py:30:main
  pytorch, as recorded              refuses it too, though as many bytes are free: fragmentation
  pytorch:max_split_size_mb:32      serves it; 156 MiB of device memory would do
  pytorch:expandable_segments:True  serves it; 160 MiB of device memory would do
  pytorch:backend:cudaMallocAsync   serves it; 156 MiB of device memory would do
  try PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:32: it need not empty its cache for that
  the recording ends there: what the program would have asked for next is not in it
  --report says what stood in the way

frag: what of the most that is reserved is not in use at the peak; waste: lost to rounding then; largest: free block of what is reserved at the end; segments: how often more was taken from the device
smallest: the least device memory in which nothing fails, with caches emptied as often as that takes
exit 3
$ echelon alloc tests/golden/data/share.pickle | sed -n "1,5p;/^pytorch/p;/refused it/,/would do/p"
tests/golden/data/share.pickle: memory_snapshot, 4 events; device memory 700 MiB, by what the recording held when its per_process_memory_fraction refused more
no allocator needs less than 110 MiB; the recorded one held 70 MiB

allocator                        failed  peak live  reserved    frag     waste   largest  segments  smallest
pytorch, as recorded                  1     70 MiB    70 MiB   0.0 %       0 B       0 B         2  1.07 GiB
pytorch, as recorded                  1     70 MiB    70 MiB   0.0 %       0 B       0 B         2  1.07 GiB
pytorch:                              0    110 MiB   110 MiB   0.0 %       0 B    40 MiB         3   110 MiB
pytorch:expandable_segments:True      0    110 MiB   120 MiB   8.3 %       0 B    50 MiB         1   120 MiB
pytorch:backend:cudaMallocAsync       0    110 MiB   128 MiB  14.1 %       0 B    40 MiB         3   110 MiB
pytorch, as recorded: from the recorded start state; 2 of 2 allocations at their recorded addresses; settings per_process_memory_fraction:0.1
pytorch:backend:cudaMallocAsync: placement is a model: the driver's policy and growth step are not documented; reuse, release and the remapping of fragmented memory follow what NVIDIA says, and users report more fragmentation
    the device had enough left: a limit refused it (set_per_process_memory_fraction or the like); raise it, or see below
  pytorch, as recorded              refuses it too, for want of memory
  pytorch:                          serves it; 110 MiB of device memory would do
$ echelon alloc tests/golden/data/grown.pickle | sed -n "1,5p;/recorded addresses/p"
tests/golden/data/grown.pickle: memory_snapshot, 4 events; device memory 900 MiB, by what the recording held when its per_process_memory_fraction refused more
no allocator needs less than 120 MiB; the recorded one held 80 MiB of the 90 MiB that it could have had

allocator                       failed  peak live  reserved    frag     waste   largest  segments  smallest
pytorch, as recorded                 1     80 MiB    80 MiB   0.0 %       0 B       0 B         1  1.17 GiB
pytorch, as recorded: from the recorded start state; 2 of 2 allocations at their recorded addresses; settings expandable_segments:True,per_process_memory_fraction:0.1
$ echelon alloc tests/golden/data/graphs.pickle | sed -n "/ran out/,/report/p"
tests/golden/data/graphs.pickle: memory_snapshot, 7 events; device memory 200 MiB, what the recording held and what was free when it ran out
no allocator needs less than 130 MiB; the recorded one held 150 MiB

allocator                        failed  peak live  reserved    frag     waste   largest  segments  smallest
pytorch, as recorded                  1    100 MiB   150 MiB  33.3 %       0 B    80 MiB         3   210 MiB
pytorch:expandable_segments:True      1    100 MiB   160 MiB  37.5 %       0 B    80 MiB         3   220 MiB
pytorch:backend:cudaMallocAsync       0    130 MiB   160 MiB  18.8 %       0 B   110 MiB         4   130 MiB

pytorch, as recorded: from the recorded start state; 3 of 3 allocations at their recorded addresses

pytorch:backend:cudaMallocAsync: placement is a model: the driver's policy and growth step are not documented; reuse, release and the remapping of fragmented memory follow what NVIDIA says, and users report more fragmentation
the recording ran out of memory: 110 MiB asked for by serve.py:9 with 20 MiB allocated, 80 MiB reserved but unallocated, 100 MiB free on the device
    serve.py:9 was asked for in /home/me/serve.py:9:decode
    100 MiB of what was reserved is private pools' (CUDA graphs, MemPools), which keep it until they are released
  pytorch, as recorded              refuses it too, though as many bytes are free, what private pools keep included
  pytorch:expandable_segments:True  refuses it, though as many bytes are free, what private pools keep included
  pytorch:backend:cudaMallocAsync   serves it; 130 MiB of device memory would do, as if no private pool kept memory
  the recording ends there: what the program would have asked for next is not in it
  --report says what stood in the way
$ capture() { cp tests/golden/data/$1.pickle $T/refused.pickle; printf 'echelon-pretend 1\nclock 1700000000000000000\ndevice 220200960 0 1 "h100-sxm"\nname 1 "%s"\nname 2 "%s"\nname 3 "%s"\nname 4 "k(float*)"\npush 1000 9 1\npush 1001 9 2\npush 1002 9 3\nkernel 2000 0 0 4 1 1 1 32 1 1 0\npop 900000 9\npop 900001 9\npop 900002 9\nend\n' "$2" "$3" "$4" >$T/refused.pretend; echelon alloc $T/refused.pretend | sed -n '/^the recording ran/,/refuses/p' | sed '$d'; }; capture oom aten::conv3d aten::slow_conv3d_forward aten::resize_; capture oom aten::scaled_dot_product_attention aten::_scaled_dot_product_attention_math aten::_softmax; capture backward 'nn.Module: layers.3.attention (Attention)' 'autograd::engine::evaluate_function: SoftmaxBackward0' aten::mul; capture backward 'nn.Module: net (Net)' aten::gelu aten::empty
the recording ran out of memory: 100 MiB asked for by loss.py:8 with 56 MiB allocated, 64 MiB reserved but unallocated, 90 MiB free on the device
    loss.py:8 was asked for in aten::slow_conv3d_forward < /home/me/loss.py:8:cross_entropy < /home/me/train.py:30:main
    PyTorch does not hand this convolution to cuDNN, and writes its input out once for each place of the filter: so it does where one sample, or its result, has 2^31 elements and more, where cuDNN is switched off, and where a release does not trust its cuDNN (2.9: 3-D in 16 bits): less of the input at a time, or another release
the recording ran out of memory: 100 MiB asked for by loss.py:8 with 56 MiB allocated, 64 MiB reserved but unallocated, 90 MiB free on the device
    loss.py:8 was asked for in aten::_softmax < /home/me/loss.py:8:cross_entropy < /home/me/train.py:30:main
    attention's scores are written out, as none of PyTorch's fused kernels that are switched on takes these arguments (masks with grouped heads, two or five dimensions, bfloat16 before Ampere): sdpa_kernel() of one of them says why
the recording ran out of memory: 100 MiB asked for by SoftmaxBackward0 of layers.3.attention (Attention) with 56 MiB allocated, 64 MiB reserved but unallocated, 90 MiB free on the device
    SoftmaxBackward0 o...tention (Attention) was asked for in aten::mul < autograd::engine::evaluate_function: SoftmaxBackward0 < nn.Module: layers.3.attention (Attention)
the recording ran out of memory: 100 MiB asked for by the refused request with 56 MiB allocated, 64 MiB reserved but unallocated, 90 MiB free on the device
    the refused request was asked for in aten::gelu < nn.Module: net (Net)
$ echelon alloc tests/golden/data/oom.pickle -c 140MiB -a pytorch:
tests/golden/data/oom.pickle: memory_snapshot, 9 events; device memory 140 MiB
no allocator needs less than 156 MiB; the recorded one held 120 MiB of the 210 MiB that it could have had

allocator            failed  peak live  reserved    frag     waste   largest  segments  smallest
pytorch:                  1    120 MiB   120 MiB   0.0 %       0 B    64 MiB         3   220 MiB

in use at the refusal, 56 MiB, by what asked for it
      36 MiB      3 blocks  adam.py:77 step < train.py:30 main
      20 MiB      2 blocks  model.py:12 __init__ < train.py:30 main

the recording ran out of memory: 100 MiB asked for by loss.py:8 with 56 MiB allocated, 64 MiB reserved but unallocated, 90 MiB free on the device
    loss.py:8 was asked for in /home/me/loss.py:8:cross_entropy < /home/me/train.py:30:main
  no allocator can serve it in 140 MiB: what lives together is 16 MiB more. Use less at a time (micro-batch, checkpointing, offload, shards) or a larger device

frag: what of the most that is reserved is not in use at the peak; waste: lost to rounding then; largest: free block of what is reserved at the end; segments: how often more was taken from the device
smallest: the least device memory in which nothing fails, with caches emptied as often as that takes
exit 3
$ echelon alloc tests/golden/data/oom.pickle --device h200 -a pytorch: --smallest
tests/golden/data/oom.pickle: memory_snapshot, 9 events; device memory 139 GiB
no allocator needs less than 156 MiB; the recorded one held 120 MiB of the 210 MiB that it could have had

allocator            failed  peak live  reserved    frag     waste   largest  segments  smallest
pytorch:                  0    156 MiB   220 MiB  29.1 %       0 B   100 MiB         4   220 MiB

in use at the refusal, 56 MiB, by what asked for it
      36 MiB      3 blocks  adam.py:77 step < train.py:30 main
      20 MiB      2 blocks  model.py:12 __init__ < train.py:30 main

the recording ran out of memory: 100 MiB asked for by loss.py:8 with 56 MiB allocated, 64 MiB reserved but unallocated, 90 MiB free on the device
    loss.py:8 was asked for in /home/me/loss.py:8:cross_entropy < /home/me/train.py:30:main
  pytorch:              serves it; 220 MiB of device memory would do
  the recording ends there: what the program would have asked for next is not in it

frag: what of the most that is reserved is not in use at the peak; waste: lost to rounding then; largest: free block of what is reserved at the end; segments: how often more was taken from the device
smallest: the least device memory in which nothing fails, with caches emptied as often as that takes
$ echelon alloc tests/golden/data/streams.pickle | grep -E "recorded"
no allocator needs less than 90 MiB; the recorded one held 100 MiB
pytorch, as recorded                 0     90 MiB   100 MiB  10.0 %       0 B    25 MiB         2   100 MiB
pytorch, as recorded: from the recorded start state; 5 of 5 allocations at their recorded addresses; settings expandable_segments:True
rows that are not as recorded begin with what was live at the start, asked for in order of address: the holes between are gone. 'pytorch:' is the native allocator begun so, for comparison
$ echelon alloc tests/golden/data/streams.pickle | grep -A2 "^in use when most is"
in use when most is, 90 MiB, by what asked for it
      70 MiB      4 blocks  serve.py:9 decode
      20 MiB      1 block   (in use before the recording, without a stack)
$ echelon alloc tests/golden/data/emptied.pickle -a pytorch -a pytorch:max_split_size_mb:64 | grep -E "^pytorch"
pytorch, as recorded              0    145 MiB   150 MiB   3.3 %       0 B     5 MiB         5   150 MiB
pytorch:max_split_size_mb:64      0    145 MiB   230 MiB  37.0 %       0 B    80 MiB         5   150 MiB
pytorch, as recorded: from the recorded start state; 7 of 7 allocations at their recorded addresses, as by PyTorch 2.13 or later
$ : a setting that 2.13 brought tells the release, whatever more addresses agree with; echelon alloc tests/golden/data/since_2_13.pickle -a pytorch | grep "addresses"
pytorch, as recorded: from the recorded start state; 5 of 7 allocations at their recorded addresses, as by PyTorch 2.13 or later
$ echelon alloc tests/golden/data/apart.pickle -a pytorch | grep -E "^pytorch"
pytorch, as recorded      0    130 MiB   140 MiB   7.1 %       0 B     6 MiB         1   140 MiB
pytorch, as recorded: from the recorded start state; 3 of 3 allocations at their recorded addresses; settings expandable_segments:True
$ COLUMNS=72 echelon alloc tests/golden/data/oom.pickle
tests/golden/data/oom.pickle: memory_snapshot, 9 events; device memory
210 MiB, what the recording held and what was free when it ran out
no allocator needs less than 156 MiB; the recorded one held 120 MiB

allocator                        failed  peak live  reserved    frag
pytorch, as recorded                  1    120 MiB   120 MiB   0.0 %
pytorch:max_split_size_mb:32          0    156 MiB   156 MiB   0.0 %
pytorch:expandable_segments:True      0    156 MiB   160 MiB   2.5 %
pytorch:backend:cudaMallocAsync       0    156 MiB   160 MiB   2.5 %

pytorch, as recorded: from the recorded start state; 6 of 6 allocations
at their recorded addresses

pytorch:backend:cudaMallocAsync: placement is a model: the driver's
policy and growth step are not documented; reuse, release and the
remapping of fragmented memory follow what NVIDIA says, and users report
more fragmentation

in use at the refusal, 56 MiB, by what asked for it
      36 MiB      3 blocks  adam.py:77 step < train.py:30 main
      20 MiB      2 blocks  model.py:12 __init__ < train.py:30 main

the recording ran out of memory: 100 MiB asked for by loss.py:8 with
56 MiB allocated, 64 MiB reserved but unallocated, 90 MiB free on the
device
    loss.py:8 was asked for in /home/me/loss.py:8:cross_entropy <
    /home/me/train.py:30:main
  pytorch, as recorded              refuses it too, though as many bytes
  are free: fragmentation
  pytorch:max_split_size_mb:32      serves it; 156 MiB of device memory
  would do
  pytorch:expandable_segments:True  serves it; 160 MiB of device memory
  would do
  pytorch:backend:cudaMallocAsync   serves it; 156 MiB of device memory
  would do
  try PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:32: it need not empty
  its cache for that
  the recording ends there: what the program would have asked for next
  is not in it
  --report says what stood in the way

frag: what of the most that is reserved is not in use at the peak
exit 3
$ echelon alloc tests/golden/data/oom.pickle --json | sed -n '/"try"/,/}/p'
  "try" : {
    "PYTORCH_CUDA_ALLOC_CONF" : "max_split_size_mb:32",
    "empties_cache" : 0
  },
$ echelon import tests/golden/data/oom.pickle -o $T/oom.ech >/dev/null 2>&1; for f in tests/golden/data/oom.pickle $T/oom.ech; do echelon alloc $f --json | grep -v -e events_per_second -e '"format"' >$T/$(basename $f).json; done; cmp $T/oom.pickle.json $T/oom.ech.json; grep -c -e smallest_capacity_bytes -e in_use_by_line $T/oom.ech.json
5
$ echelon import tests/golden/data/oom.pickle --anonymize -o $T/oom.ech 2>/dev/null; for f in tests/golden/data/oom.pickle $T/oom.ech; do echelon alloc $f | sed -n '1s/.*; //p;/^allocator/,/^$/p;/ran out/s/ by .* with/ with/p' >$T/$(basename $f).said; done; cmp $T/oom.pickle.said $T/oom.ech.said; grep -e 'as recorded' -e ran $T/oom.ech.said
device memory 210 MiB, what the recording held and what was free when it ran out
pytorch, as recorded                  1    120 MiB   120 MiB   0.0 %       0 B    64 MiB         3   220 MiB
the recording ran out of memory: 100 MiB asked for with 56 MiB allocated, 64 MiB reserved but unallocated, 90 MiB free on the device
$ echelon import tests/fuzz/corpus/out_of_memory/bfc.txt --anonymize -o $T/bfc.ech >/dev/null 2>&1; echelon alloc $T/bfc.ech | sed -n '/^allocator/,/^$/p'
allocator            failed  peak live  reserved    frag     waste   largest  segments  smallest
bfc, as recorded          1   2.44 GiB     4 GiB   whole       0 B   700 MiB         1  3.44 GiB
bfc:                      0   3.44 GiB     4 GiB   whole       0 B   576 MiB         1  3.44 GiB
cuda_async                0   3.44 GiB  3.47 GiB   0.9 %     512 B  32.0 MiB         6  3.44 GiB

$ echelon alloc traces/pytorch_allocator/pools-1.expandable.pickle.gz -a pytorch | grep recorded
no allocator needs less than 3.96 GiB; the recorded one held 5.13 GiB
pytorch, as recorded      0   3.96 GiB  5.13 GiB  22.9 %  23.5 KiB   232 MiB        15  4.45 GiB
pytorch, as recorded: from the recorded start state; 490 of 490 allocations at their recorded addresses, as by PyTorch 2.13 or later; settings expandable_segments:True
$ echelon alloc traces/pytorch_allocator/graphs-305.expandable.pickle.gz -a pytorch -c 700MiB | grep 'as recorded:'
pytorch, as recorded: from the recorded start state; 312 of 312 allocations at their recorded addresses, as by PyTorch 2.13 or later; settings expandable_segments:True
$ echelon alloc traces/pytorch_allocator/toggles.expandable.pickle.gz -a pytorch -c 900MiB | grep 'as recorded:'
pytorch, as recorded: from the recorded start state; 315 of 315 allocations at their recorded addresses, as by PyTorch 2.13 or later; settings expandable_segments:True
$ echelon alloc tests/golden/data/rounded.ech -a pytorch | grep -A3 'ran out'; sed -e '/start=30000000/d' -e 's/ops 5/ops 4/' tests/golden/data/rounded.ech >$T/r.ech; echelon alloc $T/r.ech -a pytorch | grep hides
tests/golden/data/rounded.ech: ech, 5 events; device memory 97 MiB, what the recording held and what was free when it ran out
no allocator needs less than 259 MiB; the recorded one held 96 MiB

allocator            failed  peak live  reserved    frag     waste   largest  segments  smallest
--
the recording ran out of memory 2 times, the last time: 96 MiB asked for by serve.py:9 with 66.8 MiB allocated, 29.2 MiB reserved but unallocated, 1 MiB free on the device
    serve.py:9 was asked for in /home/me/serve.py:9:decode
    roundup_power2_divisions hides how much it was before it was rounded: below it is 66.8 MiB, as the last request that was rounded to as much
  no allocator can serve it in 97 MiB: what lives together is 162 MiB more. Use less at a time (micro-batch, checkpointing, offload, shards) or a larger device
    roundup_power2_divisions hides how much it was before it was rounded: below it is 192 MiB, the most that it may have been
$ echelon alloc tests/golden/data/beside.ech -c 5GiB -a pytorch -a best_fit -a plan --smallest
tests/golden/data/beside.ech: ech, 5 events; device memory 5 GiB
no allocator needs less than 3.56 GiB, 960 MiB of it beside any allocator (NCCL's buffers); the recorded one held 2 GiB

allocator            failed  peak live  reserved    frag     waste   largest  segments  smallest
pytorch, as recorded      0      3 GiB     3 GiB   0.0 %       0 B     1 GiB         2  3.94 GiB
best_fit                  0      3 GiB     3 GiB   0.0 %       0 B     1 GiB         0  3.94 GiB
plan                      0      3 GiB     3 GiB   0.0 %       0 B       0 B         1  3.94 GiB

pytorch, as recorded: from the recorded start state; 0 of 0 allocations at their recorded addresses

plan: xla:algorithm=best, all lifetimes known in advance; proved lowest

in use when most is, 3.56 GiB, by what asked for it
       2 GiB      1 block   weights
       1 GiB      1 block   activations
     576 MiB      1 block   NCCL's buffers

frag: what of the most that is reserved is not in use at the peak; waste: lost to rounding then; largest: free block of what is reserved at the end; segments: how often more was taken from the device
smallest: the least device memory in which nothing fails, with caches emptied as often as that takes
$ echelon alloc tests/golden/data/beside.ech -c 4GiB -a pytorch -a best_fit -a plan --json | grep -E '"(direct_bytes|lower_bound_bytes|failed|peak_live_bytes|peak_reserved_bytes)"'
  "lower_bound_bytes" : 3825205248,
  "direct_bytes" : 1006632960,
      "failed" : 0,
      "peak_live_bytes" : 3221225472,
      "peak_reserved_bytes" : 3221225472,
      "failed" : 0,
      "peak_live_bytes" : 3221225472,
      "peak_reserved_bytes" : 3221225472,
      "failed" : 0,
      "peak_live_bytes" : 3221225472,
      "peak_reserved_bytes" : 3221225472,
$ for m in hbm host; do echelon alloc traces/gpt_pytorch.h100 --memory $m --allocator pytorch: | grep 'no allocator'; done
no allocator needs less than 4.63 GiB; the recorded one held 4.99 GiB
no allocator needs less than 0 B
$ cd tests/golden/data; echelon compare served.pickle oom.pickle; echelon compare apart.pickle streams.pickle streams.pickle; echelon compare served.pickle oom.pickle --json | tr -d ' \n' | cut -c1-300; echo
served.pickle -> oom.pickle
  in use at the end: 200 MiB -> 56 MiB (-144 MiB)
      -200 MiB        2 -> 0 blocks  serve.py:9 decode
       +36 MiB        0 -> 3 blocks  adam.py:77 step < train.py:30 main
       +20 MiB        0 -> 2 blocks  model.py:12 __init__ < train.py:30 main
  in use when most is -> at the refusal: 200 MiB -> 56 MiB (-144 MiB)
      -200 MiB        2 -> 0 blocks  serve.py:9 decode
       +36 MiB        0 -> 3 blocks  adam.py:77 step < train.py:30 main
       +20 MiB        0 -> 2 blocks  model.py:12 __init__ < train.py:30 main
apart.pickle -> streams.pickle
  in use at the end: 69 MiB -> 65 MiB (-4 MiB)
       -59 MiB        3 -> 0 blocks  (without a line of Python: gradients of a backward pass, libraries)
       +45 MiB        0 -> 4 blocks  serve.py:9 decode
       +10 MiB        1 -> 1 blocks  (in use before the recording, without a stack)
  in use when most is: 130 MiB -> 90 MiB (-40 MiB)
      -110 MiB        4 -> 1 blocks  (in use before the recording, without a stack)
       +70 MiB        0 -> 4 blocks  serve.py:9 decode

apart.pickle -> streams.pickle
  in use at the end: 69 MiB -> 65 MiB (-4 MiB)
       -59 MiB        3 -> 0 blocks  (without a line of Python: gradients of a backward pass, libraries)
       +45 MiB        0 -> 4 blocks  serve.py:9 decode
       +10 MiB        1 -> 1 blocks  (in use before the recording, without a stack)
  in use when most is: 130 MiB -> 90 MiB (-40 MiB)
      -110 MiB        4 -> 1 blocks  (in use before the recording, without a stack)
       +70 MiB        0 -> 4 blocks  serve.py:9 decode
{"captures":[{"path":"served.pickle","format":"memory_snapshot","most":"peak"},{"path":"oom.pickle","format":"memory_snapshot","most":"failure"}],"end":{"live_bytes":[209715200,58720256],"lines":[{"line":"serve.py:9decode","bytes":[209715200,0],"blocks":[2,0]},{"line":"adam.py:77step<train.py:30main

$ printf 'a 0 4096\n' > $T/a.txt; cd $T; echelon compare a.txt a.txt; mkdir -p run; echelon compare a.txt run
echelon: a.txt: does not say who asked for what: there is nothing to compare it by
echelon: a.txt: no finished run, which others here are; 'echelon run --trace FILE --device NAME -o DIR' makes one
exit 2
$ for f in adam adamax; do python3 -c "import pickle, sys; d = pickle.load(open('tests/golden/data/oom.pickle', 'rb')); [f.update(filename='/v/torch/optim/' + sys.argv[1] + '.py', name='_multi_tensor_' + sys.argv[1]) for e in d['device_traces'][0] for f in e.get('frames', []) if f['name'] == 'step']; pickle.dump(d, open(sys.argv[2], 'wb'))" $f $T/$f.pickle; echelon alloc $T/$f.pickle | grep -A3 'the recording ran out'; done
the recording ran out of memory: 100 MiB asked for by loss.py:8 with 56 MiB allocated, 64 MiB reserved but unallocated, 90 MiB free on the device
    loss.py:8 was asked for in /home/me/loss.py:8:cross_entropy < /home/me/train.py:30:main
    36 MiB of what was allocated are temporaries of the optimizer, which takes all parameters at once: fused=True makes none, foreach=False those of one parameter at a time
  pytorch, as recorded              refuses it too, though as many bytes are free: fragmentation
the recording ran out of memory: 100 MiB asked for by loss.py:8 with 56 MiB allocated, 64 MiB reserved but unallocated, 90 MiB free on the device
    loss.py:8 was asked for in /home/me/loss.py:8:cross_entropy < /home/me/train.py:30:main
    36 MiB of what was allocated are temporaries of the optimizer, which takes all parameters at once: foreach=False makes those of one parameter at a time
  pytorch, as recorded              refuses it too, though as many bytes are free: fragmentation
