What is given wrongly is told with its place, what was expected, and what comes near; what is written otherwise than usual is understood.
$ for g in 'time<=50' 'time<50us' 'tim<=50us' 'hbm<=4' 'hbm<=4Gb' 'hmb<=4GB' 'time<=110%' 'time<=x'; do echelon run --trace gpt_nothing.h100 --device h100-sxm --find device.memories.hbm.capacity=1GiB..64GiB --for "$g"; done
echelon: --for: 'time<=50': '50' has no unit; expected 50ps, 50ns, 50us, 50ms or 50s
echelon: --for: 'time<50us' cannot be asked for: only 'at most' can, which is <=; expected fits, time<=10ms, time<=x1.05 or hbm<=4GiB
echelon: --for: 'tim<=50us': '50us' is a time, and a memory is asked for in bytes; expected something like time<=50us or hbm<=4GiB
echelon: --for: 'hbm<=4': '4' has no unit; expected something like 4GiB
echelon: --for: 'hbm<=4Gb': '4Gb' is not a size; did you mean '4GB'?
echelon: --for: 'hmb' is no memory of h100-sxm; did you mean 'hbm'?
echelon: --for: 'time<=110%': '110%': how much of what it is now is a factor, something like x1.05
echelon: --for: 'time<=x': 'x' is no factor; expected something like x1.05
exit 2
$ for v in 1..64 64GiB..1GiB 1GiB-64GiB x0.1..2 1GiB..64 1GiX..4GiB 5us..10GiB '{1GiB..2GiB'; do echelon run --trace gpt_nothing.h100 --device h100-sxm --find device.memories.hbm.capacity=$v 2>&1 | sed 's/; expected values.*//'; done
echelon: --find: device.memories.hbm.capacity=1: memories.hbm.capacity: '1' is 1 bytes; expected something like 16GiB
echelon: --find: '64GiB..1GiB': the smaller comes first
echelon: --find: '1GiB-64GiB' is no range
echelon: --find: 'x0.1..2': both begin with x, as factors do, or neither
echelon: --find: '1GiB..64': '1GiB' has a unit, '64' has none
echelon: --find: '1GiX..4GiB': '1GiX' is no number, with a unit or without
echelon: --find: '5us..10GiB': '5us' and '10GiB' are not of one kind
echelon: --find: '{1GiB..2GiB': '{1GiB' is no number, with a unit or without
$ for p in hbm capacity prefetch:budget 'passes=ofload:memory={1GiB..2GiB}' device.links.host.to_device; do case $p in *=*) ;; *) p=$p=1..4 ;; esac; echelon run --trace gpt_nothing.h100 --device h100-sxm --find "$p"; done
echelon: --find: path: 'hbm' cannot be varied; did you mean 'device.memories.hbm.capacity'?
echelon: --find: path: 'capacity' cannot be varied; did you mean 'device.memories.hbm.capacity'?
echelon: --find: path: 'prefetch:budget' cannot be varied; expected path: passes, with values like "prefetch:budget=1", or of find "prefetch:budget={1..8}"
echelon: --find: passes=ofload:memory=1GiB: 'ofload' is no pass; did you mean 'offload'?
echelon: --find: device.links.host.to_device=1: links.host.to_device: '1' has no unit; expected something like 819GB/s
exit 2
$ for r in 128gb/s 900G 99999999999TB/s; do echelon run --trace gpt_nothing.h100 --device h100-sxm --set device.links.host.to_device=$r; done; echelon run --trace gpt_nothing.h100 --device h100-sxm --set device.links.host.latency=5; echelon run --trace gpt_nothing.h100 --device h100-sxm --set device.units.vector.clock=1500; echelon run --trace gpt_nothing.h100 --device h100-sxm --set device.units.matrix.bf16=900TFLOPS
echelon: --set device.links.host.to_device=128gb/s: links.host.to_device: '128gb/s' is not a rate; did you mean '128GB/s' or '128Gb/s'?
echelon: --set device.links.host.to_device=900G: links.host.to_device: '900G' is not a rate; expected something like 819GB/s or 400Gbit/s
echelon: --set device.links.host.to_device=99999999999TB/s: links.host.to_device: '99999999999TB/s' is too large for a rate; expected something like 819GB/s or 400Gbit/s
echelon: --set device.links.host.latency=5: links.host.latency: '5' has no unit; expected 5ps, 5ns, 5us, 5ms or 5s
echelon: --set device.units.vector.clock=1500: units.vector.clock: '1500' has no unit; expected something like 197TFLOP/s or 1.5GHz
echelon: --set device.units.matrix.bf16=900TFLOPS: units.matrix: 'bf16' is no key here; did you mean 'peaks.bf16'?
exit 2
$ for r in 800Gbps 100GB/s 100GbE 100Gbit/s 12.5GB/s; do echelon run --trace gpt_offload.h100 --device h100-sxm --engine native --set device.links.host.to_device=$r --json | grep -m1 busy_forward_ps; done
      "busy_forward_ps" : 20971520,
      "busy_forward_ps" : 20971520,
      "busy_forward_ps" : 167772160,
      "busy_forward_ps" : 167772160,
      "busy_forward_ps" : 167772160,
$ for k in 'allocator: pytorhc' 'host_allocator: bcf' 'replay: {allocator: bcf}' 'format: hol' 'beside: nothere' 'title: [a]' 'sweep: [{path: allocator, values: [bfc, pytoch]}]' 'passes: [ofload]' 'matmul: {dtype: half}' 'find: {path: passes, values: "ofload:memory={1GiB..2GiB}"}' 'find: {path: device.memories.hbm.capacity, values: 1GiB..2GiB, for: [fits, time<=5]}'; do printf 'trace: gpt_nothing.h100\ndevice: h100-sxm\n%s\n' "$k" >$T/e.yaml; case $k in matmul*) sed -i 1d $T/e.yaml; sed -i s/h100-sxm/tpu-v5e/ $T/e.yaml ;; esac; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:g"; done
echelon: T/e.yaml:3:12: 'pytorhc' is no allocator; did you mean 'pytorch'?
echelon: T/e.yaml:3:17: 'bcf' is no allocator; did you mean 'bfc'?
echelon: T/e.yaml:3:21: 'bcf' is no allocator; did you mean 'bfc'?
echelon: T/e.yaml:3:9: 'hol' is no format; did you mean 'hlo'? 'echelon list formats' shows them
echelon: T/e.yaml:3:9: T/nothere: No such file or directory
echelon: T/e.yaml:3:8: title: expected one text
echelon: T/e.yaml:3:41: allocator=pytoch: 'pytoch' is no allocator; did you mean 'pytorch'?
echelon: T/e.yaml:3:10: 'ofload' is no pass; did you mean 'offload'?
echelon: T/e.yaml:2:9: matmul: dtype: 'half' is no element type; expected f16
echelon: T/e.yaml:3:31: passes=ofload:memory=1GiB: 'ofload' is no pass; did you mean 'offload'?
echelon: T/e.yaml:3:76: 'time<=5': '5' has no unit; expected 5ps, 5ns, 5us, 5ms or 5s
$ for s in 'f32[4096, 64]' 'f32 [8, 128]{1, 0}' 'fp8[8]' 'half[8]' 'torch.half[8]' 'double[8]' 'int4[8,128]' 'BF16[8]' 'i32[8]' 'mxfp4[8]' 'bf16 8x128'; do echelon layout "$s" --device tpu-v5e 2>&1 | head -1; done
f32[4096,64]{1,0:T(8,128)}
f32[8,128]{1,0:T(8,128)}
echelon layout: 'fp8[8]': at byte 0: 'fp8[8]': expected an element type by XLA's name, here f8e4m3fn or f8e5m2
echelon layout: 'half[8]': at byte 0: 'half[8]': expected an element type by XLA's name, here f16
echelon layout: 'torch.half[8]': at byte 0: 'torch.half[8]': expected an element type by XLA's name, here f16
echelon layout: 'double[8]': at byte 0: 'double[8]': expected an element type by XLA's name, here f64
s4[8,128]{1,0:T(8,128)(4,1)}
echelon layout: 'BF16[8]': at byte 0: 'BF16[8]': expected an element type by XLA's name, here bf16
echelon layout: 'i32[8]': at byte 0: 'i32[8]': expected an element type by XLA's name, here s32
echelon layout: 'mxfp4[8]': at byte 0: 'mxfp4[8]': expected an element type by XLA's name, here f4e2m1fn
echelon layout: 'bf16 8x128': at byte 4: ' 8x128': expected '['
$ printf 'base: tpu-v4\nunits: {matrix: {clock: none}}\n' >$T/clock.yaml; printf 'Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,\nA, 58, 58, 3, 3, 64, 64, 1,\n' >$T/net.csv; echelon run --trace $T/net.csv --device $T/clock.yaml | grep clock; echelon run --trace $T/net.csv --device $T/clock.yaml --set device.units.matrix.clock=1.05GHz | grep 'layers priced'
net.csv on clock
  - clock: kernels cannot be priced: the device lacks units.matrix.clock (in its file, or something like --set device.units.matrix.clock=1.5GHz): layers take what their bytes and operations do at full rate
  - 1 of 1 layers priced by the kernel model from their shapes, with tiles of our own choice
$ : >$T/empty; printf '\n \n' >$T/blank; : | gzip >$T/empty.gz; for c in 'info empty' 'info blank' 'info empty.gz' 'alloc empty' 'plan empty' 'plan empty.csv' 'import empty' 'run --trace empty --device h100-sxm' 'run --trace empty --format kineto --device h100-sxm' 'advise empty --device h100-sxm' 'validate empty --device h100-sxm' 'compare empty empty' 'run empty.yaml' 'run --trace gpt_nothing.h100 --device empty.yaml' 'run --trace gpt_nothing.h100 --beside empty --device h100-sxm'; do cp $T/empty $T/empty.yaml; cp $T/empty $T/empty.csv; (cd $T; echelon $c); done; for v in alloc plan 'run --device h100-sxm --trace'; do : | echelon $v -; done
echelon: empty: the file is empty
echelon: blank: only blanks and ends of lines are in it
echelon: empty.gz: the file is empty
echelon: empty: the file is empty
echelon: empty: the file is empty
echelon: empty.csv: the file is empty
echelon: empty: the file is empty
echelon: empty: the file is empty
echelon: empty: the file is empty
echelon: empty: the file is empty
echelon: empty: the file is empty
echelon: empty: the file is empty
echelon: empty.yaml: the file is empty; expected keys and values
echelon: empty.yaml: the file is empty; expected keys and values
echelon: empty: the file is empty
echelon: -: nothing came from standard input
echelon: -: nothing came from standard input
echelon: -: nothing came from standard input
exit 1
$ for p in remat:names=fusion 'remat:names=*fusoin*' remat:keep=tokns offload:names=gpt_step.py:30 remat:names=abracadabra; do echelon run --trace gpt_unrolled_kept.h100 --device h100-sxm --engine native --pass "$p" | grep 'nothing fits'; done; echelon run --trace gpt_pytorch.h100 --device h100-sxm --engine native --pass 'remat:modules=layers.*' | grep 'nothing fits'; echelon run --trace gpt_nothing.v5e --device tpu-v5e --engine native --pass donate:names=toke | grep '  - donate'
  - remat: nothing fits names=fusion: '*fusion*' fits 303 names, like fusion.546
  - remat: nothing fits names=*fusoin*: did you mean '*fusion*'?
  - remat: nothing fits keep=tokns: did you mean '*tokens*'?
  - offload: nothing fits names=gpt_step.py:30: '*gpt_step.py:30*' fits 1 name, like capture/examples/gpt_step.py:30:build.<locals>.layer
  - remat: nothing fits names=abracadabra: there are copy*, fusion*, gemm_fusion_dot*, input_add_convert_reduce_fusion*, input_add_reduce_fusion*, input_reduce_fusion* and 21 more
  - remat: nothing fits modules=layers.*: there are GPT*, blocks*, embed*, head*
  - donate: left the program as it is: no array is called 'toke'; arguments are w*, tokens; '*toke*' fits 1 name, like tokens
$ for d in 3 20; do echelon run --trace gpt_offload.v5e --device tpu-v5e --engine native --pass prefetch:depth=$d | grep -E 'iterations? ahead'; done
  - prefetch: 1 fetch in loops (512 KiB an iteration) runs 3 iterations ahead; as many more than needed are made as the loop ends
  - prefetch: 1 fetch in loops (512 KiB an iteration) runs 3 iterations ahead, not the 20 asked for: their loop has 4 iterations; as many more than needed are made as the loop ends
$ echelon run --trace gpt_everything.v5e --device tpu-v5e --engine native --set device.memories.vector.capacity=64MiB | grep -e '--pass place'; echelon run --trace gpt_everything.v5e --device tpu-v5e --engine native --set device.memories.vector.capacity=64MiB --pass place | grep -E 'It fits|--pass place'
  A compiler that knew of so little would keep less of it on chip: --pass place decides anew what lies there.
  It fits. hbm 74.1 MiB of 15.8 GiB (0 %), vector 48 MiB of 64 MiB (75 %), scalar 512 B of 1 MiB (0 %)
$ echelon help device | sed -n '/^  links/,/^$/p' | grep -A1 -E 'both_ways|from, to'; echelon help device | sed '1,/^For example/d' >$T/own.yaml; echelon run --trace gpt_nothing.h100 --device $T/own.yaml | head -1
      from, to=memory  where it leads from, and to; have to be given
      curve=sizes with rates  what copies of a size reach to the device, and from it too where that has none of its own: {64KiB: 2GB/s, 1MiB: 9GB/s}
--
      both_ways=bandwidth  reached in all while copies go both ways: the faster way's rate for a link that carries one way at a time (half duplex), up to the sum of both, which it is where it is left out. Less than the faster way holds that up alone, too; where one way is set and this is not, it keeps its part of the sum, but no less than the faster way
      latency=time  one way
gpt_nothing.h100 on our-h100
$ printf 'base: h100-sxm\nlinks:\n  host: {to_device: 25GB/s, from_device: 26GB/s,\n    both_ways: 12GB/s}\n' >$T/half.yaml; echelon run --trace gpt_nothing.h100 --device $T/half.yaml 2>&1 | sed "s:$T:T:"; sed -i s/12GB/20GB/ $T/half.yaml; echelon run --trace gpt_nothing.h100 --device $T/half.yaml | head -1
echelon: T/half.yaml:4:16: links.host.both_ways: 12 GB/s in all while copies go both ways is less than half of what to_device reaches alone, 25 GB/s; expected up to the sum, 51 GB/s
gpt_nothing.h100 on half
$ printf 'trace: gpt_unrolled_kept.h100\ndevice: h100-sxm\npasses: [offload]\nsweep:\n  - {name: PCIe, path: [device.links.host.to_device, device.links.host.from_device], values: [12GB/s, 24GB/s]}\n' >$T/pcie.yaml; echelon run $T/pcie.yaml | grep -A1 'choose otherwise'
    (The same passes choose otherwise here. offload: left 268 arrays on the device (1.27 GiB): they are used again
    before copies out and back would be over (idle=0 takes them all the same))
$ for m in 12GB 12GiB 1536 3000kB; do echelon run --trace gpt_nothing.v5e --device tpu-v5e --engine native --pass remat:memory=$m | grep 'after pass'; done
  after pass remat:memory=12GB
  after pass remat:memory=12GiB
  after pass remat:memory=1536
  after pass remat:memory=3MB
$ echelon run --trace gpt_everything.v6e --device tpu-v6e --engine native --set device.memories.vector.capacity=32MiB --pass place | grep 'nothing can lie'
  - place: nothing can lie in vector: the compiler keeps 32 MiB for kernels' own windows, and there are 32 MiB (--set device.memories.vector.kernel_reserved=... says what windows take)
$ for d in v5litepod-8 tpu-v5litepod-4 trillium Ironwood v6e-8; do echelon run --trace gpt_nothing.v5e --device $d; done
echelon: 'v5litepod-8' is no device; did you mean 'tpu-v5e'?
echelon: 'tpu-v5litepod-4' is no device; did you mean 'tpu-v5e'?
echelon: 'trillium' is no device; did you mean 'tpu-v6e'?
echelon: 'Ironwood' is no device; did you mean 'tpu7x'?
echelon: 'v6e-8' is no device; did you mean 'tpu-v6e'?
exit 2
$ for v in "run gpt_nothing.v5e --device tpu-v5e" "info gpt_nothing.v5e" "alloc gpt_nothing.v5e" "plan gpt_nothing.v5e" "validate gpt_nothing.v5e --device tpu-v5e" "run gpt_nothin.v5e --device tpu-v5e"; do (cd $T; echelon $v 2>&1 | sed '1s:/.*/traces/:.../traces/:;1q'); done
gpt_nothing.v5e on tpu-v5e (TPU v5e, one chip (one core), 16 GiB HBM)
.../traces/gpt_nothing.v5e: hlo
.../traces/gpt_nothing.v5e: hlo, 31 events; device memory 15.8 GiB, tpu-v5e
greedy: 24 buffers in hbm
gpt_nothing.v5e
echelon run: 'gpt_nothin.v5e' is no file, no experiment and no shipped trace; did you mean 'gpt_nothing.v5e'? 'echelon list experiments' shows them
$ printf 'trace: gpt_nothing.h100\ndevice: h100-sxm\nsweep:\n  - {path: device.links.host.to_device, values: x0.5..x2}\n' >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:"
echelon: T/e.yaml:4:49: values: 'x0.5..x2' is no list; expected something like [x0.5, x1, x2] ('find' takes a range)
$ echelon run --trace pipeline_pytorch.h100 --device h100-sxm --engine native | grep 'such files'; echelon run --trace gpt_nothing.h100 --device h100-sxm --set device.kernel.power=500W
note pipeline_pytorch.h100: the captures of 2 ranks in it are replayed together
echelon: --set device.kernel.power=500W: kernel.power: '500W' is not a number; expected '500' or something like 0.9, 5us or 4MiB
exit 2
$ printf 'trace: gpt_unrolled_kept.h100\ndevice: h100-sxm\npasses: donate\nreplay: {engine: native}\nsweep:\n  - {path: passes, values: ["", offload], labels: [kept, host]}\n  - {path: passes, name: prefetch, values: ["", prefetch], labels: [none, ahead]}\n' >$T/e.yaml; printf 'trace: gpt_unrolled_kept.h100\ndevice: h100-sxm\nreplay: {engine: native}\nsweep:\n  - {path: passes, values: [donate, donate prefetch, donate offload, donate offload prefetch], labels: ["kept, none", "kept, ahead", "host, none", "host, ahead"]}\n' >$T/one.yaml; for f in e one; do echelon run $T/$f.yaml | sed -n '/^  ---/,/^$/p'; done
  ----------------  ----  -------  -------  ----------  ---------  -----------  -------------  ---------------------
  kept, none        yes   1.83 ms    1.000     180 MiB          -            -              -  hbm port
  kept, ahead       yes   1.83 ms    1.000     180 MiB          -            -              -  hbm port
  host, none        yes   5.64 ms    3.090     104 MiB   79.5 MiB     89.5 MiB       89.5 MiB  host link to device
  host, ahead       yes   4.16 ms    2.280     108 MiB   79.5 MiB     89.5 MiB       89.5 MiB  host link from device

  -----------  ----  -------  -------  ----------  ---------  -----------  -------------  ---------------------
  kept, none   yes   1.83 ms    1.000     180 MiB          -            -              -  hbm port
  kept, ahead  yes   1.83 ms    1.000     180 MiB          -            -              -  hbm port
  host, none   yes   5.64 ms    3.090     104 MiB   79.5 MiB     89.5 MiB       89.5 MiB  host link to device
  host, ahead  yes   4.16 ms    2.280     108 MiB   79.5 MiB     89.5 MiB       89.5 MiB  host link from device

$ echelon run checkpoint_or_offload --set trace=gpt_unrolled_kept.h100 --set sweep.0.values='[donate, remat]' --set sweep.0.labels='[a, b]' --pass unplan | sed -n '/^  kept/,/^$/p'
  kept  fits     time  x first  hbm peak  hbm reserved  bound by
  ----  ----  -------  -------  --------  ------------  ----------------------
  a     yes   1.83 ms    1.000   180 MiB       188 MiB  hbm port
  b     yes   2.09 ms    1.145   108 MiB       118 MiB  latency inside kernels

$ echelon run --trace gpt_unrolled_kept.h100 --device h100-sxm --pass remat:memory=150MiB --find 'passes=offload:memory={110MiB..180MiB}' --for 'time<=x2' --for 'hbm<=140MiB' | sed -n '3,/^$/p'
  Most memory with which it fits and takes at most 3.73 ms (2 times the 1.86 ms that it takes as it is) and needs at
  most 140 MiB of hbm: 141.5MiB. With 141.6MiB not.

$ printf 'trace: gpt_unrolled_kept.h100\ndevice: h100-sxm\nsweep:\n  - {path: device.links.host.to_device, values: [x0.5, x1]}\n  - {name: link, path: [device.links.host.from_device, device.links.host.to_device], values: [16GB/s, 32GB/s]}\n' >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:g"; sed -i 's:16GB/s, 32GB/s:x0.5, x1:' $T/e.yaml; echelon run $T/e.yaml | sed -n '/^  ---/,/^$/p'
echelon: T/e.yaml:5:5: sweep: 'device.links.host.to_device' is varied by the axis 'to_device' already; expected factors (x0.5) here, or one axis
  ---------------  ----  -------  -------  ----------  --------
  x0.5, x0.5       yes   1.83 ms    1.000     180 MiB  hbm port
  x0.5, x1         yes   1.83 ms    1.000     180 MiB  hbm port
  x1, x0.5         yes   1.83 ms    1.000     180 MiB  hbm port
  x1, x1           yes   1.83 ms    1.000     180 MiB  hbm port

$ printf 'trace: gpt_unrolled_kept.h100\ndevice: h100-sxm\nsweep:\n  - {path: passes, values: [[], [offload, prefetch]]}\n' >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:g"
echelon: T/e.yaml:4:28: values: expected a list of texts; several passes are one text, "offload:idle=0 prefetch", none is ""
$ echelon run --trace gpt_unrolled_kept.h100 --device h100-sxm --pass offload --find device.links.host.to_device=1GB/s..100GB/s --for 'time<=6ms' | sed -n 3,4p
  With to_device 1GB/s as with 100GB/s, it fits and takes at most 6 ms; nothing between was tried: the least lies below
  1GB/s, or the most above 100GB/s.
$ printf 'trace: gpt_nothing.h100\nallocator: bfc\nsweep:\n  - {name: link, path: device.links.host.to_device, values: [16GB/s, 32GB/s]}\n  - {name: card, path: device, values: [h100-sxm, h200]}\n' >$T/e.yaml; for o in '--device h200' '--set device=h200' '--set device.links.host.to_device=1GB/s' '--find device.links.host.to_device=1GB/s..2GB/s' ; do echelon run $T/e.yaml $o; done; echelon run $T/e.yaml --set device.links.host.to_device=x2 --allocator jax --set sweep.1.values='[h200]' | sed -n '/^  ---/,/^$/p'
echelon: --device: the experiment's sweep decides that, by its axis 'card'; leave it out, or give the axis other values: --set 'sweep.1.values=[...]'
echelon: --set device=h200: the experiment's sweep decides that, by its axis 'card'; leave it out, or give the axis other values: --set 'sweep.1.values=[...]'
echelon: --set device.links.host.to_device=1GB/s: the experiment's sweep decides that, by its axis 'link'; leave it out, or give the axis other values: --set 'sweep.0.values=[...]'
echelon: --find: find: 'device.links.host.to_device' is varied by the axis 'link' already; expected factors (x0.5..x2) here, or one of both
echelon: --set device.links.host.to_device=x2: the experiment's sweep decides that, by its axis 'link'; leave it out, or give the axis other values: --set 'sweep.0.values=[...]'
$ echelon run --trace traces/gpt_offload.v5e --device tests/golden/data/own_names.yaml --engine native | grep -E 'fits|vmem|has no memory'
  It fits. vector 31.1 MiB of 64 MiB (49 %), hbm 7.78 MiB of 96 GiB (0 %), host 2 MiB of 512 GiB (0 %)
    vmem port                     7.86 us    2.7 % #...................
                             compute    hbm  space   vmem  latency   fill   step
  - nova has no memory 'scalar': its traffic costs nothing and its capacity is not checked
$ printf 'echelon-trace 1 "by hand"\nstrings 0\nmemories 1\n"hbm"\nqueues 1\ncompute 0 "core"\nbuffers 0\nops 1\nkernel "product" q=0 work=matrix:f32:800000000000\n' >$T/f32.ech; echelon run --trace $T/f32.ech --device tests/golden/data/own_names.yaml --engine native | grep -E 'takes|no peak'; echelon run --trace $T/f32.ech --device tests/golden/data/own_names.yaml --engine native --set device.units.matrix.peaks.f32=100TFLOP/s | grep -E 'takes|no peak'
  It takes 2 ms, bound by matrix unit (100 % of the critical path).
  No schedule of it is shorter than 2.00 ms on this device; with no overlap at all it takes 2 ms.
  - nova's matrix unit has no peak for f32: 800 GOP of products (loops counted once) are priced by bf16's 400 TOP/s; --set device.units.matrix.peaks.f32=... says it
  It takes 8 ms, bound by matrix unit (100 % of the critical path).
  No schedule of it is shorter than 8.00 ms on this device; with no overlap at all it takes 8 ms.
    It takes 4 times as long: 2 ms -> 8 ms. Along the critical path: +6 ms matrix unit.
$ echelon run --trace traces/gpt_pytorch.h100 --device h100-sxm --set device.memories.hbm.capacity=x0; echelon run --trace traces/gpt_pytorch.h100 --device h100-sxm --set device.memories.hbm.capacity=0GiB
echelon: --set device.memories.hbm.capacity=x0: memories.hbm.capacity: '0GiB' leaves no memory; expected something like 16GiB
echelon: --set device.memories.hbm.capacity=0GiB: memories.hbm.capacity: '0GiB' leaves no memory; expected something like 16GiB
exit 2
$ printf 'name: mine\nfamily: gpu\nmemories:\n  hbm: {kind: hbm, space: 0, capacity: 48GiB, read: 900GB/s}\nunits:\n  matrix: {peaks: {bf16: 200TFLOP/s, f32: 100TFLOP/s}}\n  vector: {peaks: {f32: 80TFLOP/s}}\n' >$T/mine.yaml; sed 's/vector: {/vector: {count: 132, clock: 1.7GHz, /' $T/mine.yaml >$T/whole.yaml; for how in "$T/mine.yaml" "$T/mine.yaml --set device.units.vector.clock=1.7GHz" "$T/mine.yaml --set device.units.vector.clock=1.7GHz --set device.units.vector.count=132" $T/whole.yaml; do echelon run --trace gpt_unrolled_kept.h100 --engine native --device $how | grep -E '^  It takes|says nothing of'; done
  It takes 4.30 ms, bound by hbm port (76 % of the critical path).
  - mine's file says nothing of units.vector.count: its kernels are not modelled and take what their bytes and operations do at full rate, the least; with 'base: h100-sxm', say, all that it does not say is that GPU's
  It takes 4.30 ms, bound by hbm port (76 % of the critical path).
  - mine's file says nothing of units.vector.count: its kernels are not modelled and take what their bytes and operations do at full rate, the least; with 'base: h100-sxm', say, all that it does not say is that GPU's
  It takes 5.44 ms, bound by hbm port (72 % of the critical path).
  It takes 5.44 ms, bound by hbm port (72 % of the critical path).
