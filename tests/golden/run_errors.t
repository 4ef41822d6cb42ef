What is wrong, where, and what was expected.
$ echelon run
echelon run: expected an experiment file, or --trace FILE --device NAME
exit 2
$ echelon run --trace tests/golden/data/stream.ech
echelon: no device is given; expected 'device: tpu-v5e' in the experiment, or --device tpu-v5e ('echelon list devices')
exit 2
$ echelon run $(yes tests/golden/data/stream.ech | head -65) --device tests/golden/data/small.yaml
echelon run: more than 64 ranks
exit 2
$ echelon run --trace tests/golden/data/stream.ech --device tpu-v5e --pass serial --pass pin -a pytorch: --allocator=jax
echelon run: --allocator: given twice; expected one value
exit 2
$ echelon run --trace tests/golden/data/stream.ech -dtpu-v5e -j0
echelon run: --jobs: expected 1 to 256
exit 2
$ echelon run - --device tpu-v5e </dev/null
echelon: -: nothing came from standard input
exit 1
$ echelon run --trace tests/golden/data/stream.ech --device tpu-v5e -o tests/golden/data/stream.ech/out --set 'sweep=[{path: device.links.host.to_device, values: [x1, nonsense]}]'
echelon: tests/golden/data/stream.ech: Not a directory
exit 1
$ echelon run --trace tests/golden/data/none.ech --device tpu-v5e --set 'sweep=[{path: device.links.host.to_device, values: [x1, x2]}]'
echelon: tests/golden/data/none.ech: No such file or directory
exit 1
$ echelon run --trace tests/golden/data/stream.ech --device tpu-v5
echelon: 'tpu-v5' is no device; did you mean 'tpu-v5e' or 'tpu-v5p'?
exit 2
$ LC_ALL=C echelon run --trace tests/golden/data/none.ech --device tpu-v5e
echelon: tests/golden/data/none.ech: No such file or directory
exit 1
$ echelon run --trace tests/golden/data/stream.ech --device tests/golden/data/small.yaml --set device.links.hst.to_device=x2
echelon: --set device.links.hst.to_device=x2: there is no 'hst' to multiply; did you mean 'host'?
exit 2
$ echelon run --trace tests/golden/data/stream.ech --device tests/golden/data/small.yaml --set device.links.host.to_device=quick
echelon: --set device.links.host.to_device=quick: links.host.to_device: 'quick' is not a rate; expected something like 819GB/s or 400Gbit/s
exit 2
$ echelon run --trace tests/golden/data/stream.ech --device tests/golden/data/small.yaml --set devise=x
echelon: --set devise=x: experiment: 'devise' is no key here; did you mean 'device'?
exit 2
$ for step in 3 0 2..1 1..x last..2 middle; do echelon run --trace gpt_pytorch.h100 --device h100-sxm --step $step; done; echelon run --trace traces/gpt_offload.v5e --device tpu-v5e --step last
echelon: step: '3' is no step of this trace; expected a number from 1 to 2, several as 1..2, last or usual
echelon: step: '0' is no step of this trace; expected a number from 1 to 2, several as 1..2, last or usual
echelon: step: '2..1' is no step of this trace; expected a number from 1 to 2, several as 1..2, last or usual
echelon: step: '1..x' is no step of this trace; expected a number from 1 to 2, several as 1..2, last or usual
echelon: step: 'last..2' is no step of this trace; expected a number from 1 to 2, several as 1..2, last or usual
echelon: step: 'middle' is no step of this trace; expected a number from 1 to 2, several as 1..2, last or usual
echelon: step: nothing in traces/gpt_offload.v5e tells steps; expected marks like "step 3" (NVTX ranges, ProfilerStep#3), optimizers' steps, runs of one of XLA's programs or, where nothing is trained, calls of a PyTorch module outside of others, two at least
exit 1
$ echelon run --trace tests/golden/data/stream.ech --device tests/golden/data/small.yaml --pass padd
echelon: --pass: 'padd' is no pass; did you mean 'pad'?
exit 2
$ echelon run --trace tests/golden/data/stream.ech --device tests/golden/data/small.yaml --pass pad:align=0
echelon: --pass: pass pad: align: '0' is out of range; expected 1 to 1GiB
exit 2
$ echelon run --trace tests/golden/data/stream.ech --device tests/golden/data/small.yaml --allocator bfcc
echelon: --allocator: 'bfcc' is no allocator; did you mean 'bfc'?
exit 2
$ echelon run --trace tests/golden/data/stream.ech --device tests/golden/data/small.yaml --engine nativ
echelon: --engine: 'nativ' is unknown; expected one of auto, native, simgrid, cuda
exit 2
$ echelon run --trace tests/golden/data/stream.ech --device tests/golden/data/small.yaml --engine native --set replay.engine=simgrid
echelon: --engine native: --set replay.engine=simgrid says otherwise; leave one of them out
exit 2
$ echelon run --trace tests/golden/data/stream.ech --device tests/golden/data/small.yaml --engine native --set replay.engine=native | grep -c engine
1
$ printf 'trace: a\ndevise: b\n' >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:"
echelon: T/e.yaml:2:9: experiment: 'devise' is no key here; did you mean 'device'?
$ printf 'trace: a\nsweep:\n  - {path: devise, values: [1]}\n' >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:"
echelon: T/e.yaml:3:12: path: 'devise' cannot be varied; did you mean 'device'?
$ printf 'trace: a\nsweep:\n  - {path: [], values: [1]}\n' >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:"
echelon: T/e.yaml:3:12: path: expected what to vary, such as device.memories.hbm.capacity
$ printf 'trace: a\nsweep:\n  - {path: [replay.trips, replay.trips], values: [x1, x2]}\n' >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:"
echelon: T/e.yaml:3:12: path: 'replay.trips' stands here twice
$ printf 'trace: a\ndevice: tpu-v5e\nset:\n  find.for: fits\n' >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:"
echelon: T/e.yaml:4:13: find.for=fits: that is of the whole experiment, and a setting is of each of its runs; 'echelon help experiment' tells what can be set
$ printf 'trace: gpt_offload.v5e\ndevice: tpu-v5e\nsweep: [{path: beside, values: ["", none.pb]}]\n' >$T/e.yaml; LC_ALL=C echelon run $T/e.yaml 2>&1 | sed "s:$T:T:g"
echelon: T/e.yaml:3:37: beside=T/none.pb: T/none.pb: No such file or directory
$ printf 'trace: gpt_offload.v5e\ndevice: tpu-v5e\nsweep: [{path: format, values: [hlo, hol]}]\n' >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:g"
echelon: T/e.yaml:3:38: format=hol: 'hol' is no format; did you mean 'hlo'? 'echelon list formats' shows them
$ echelon run tests/golden/data/sweep.yaml --for 'time<=1s'
echelon: --for: what --find asks for; expected --find PATH=FROM..TO too
exit 2
$ for line in 'passes: [[pad]]' 'passes: {pad: [a]}' 'replay: fast' 'sweep:' 'sweep: [{name: [a], path: device.memories.hbm.capacity, values: [x1, x2]}]' 'find: {path: device.memories.hbm.capacity, values: [1GiB, 2GiB]}' 'find: {name: [a], path: device.memories.hbm.capacity, values: 1GiB..2GiB}'; do printf 'trace: gpt_offload.v5e\ndevice: tpu-v5e\n%s\n' "$line" >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:"; done
echelon: T/e.yaml:3:9: passes: expected a list of texts
echelon: T/e.yaml:3:9: passes: expected a list of texts
echelon: T/e.yaml:3:9: replay: expected options with their values
echelon: T/e.yaml:3:1: sweep: expected a list of axes, each {path: ..., values: [...]}
echelon: T/e.yaml:3:16: name: expected one text
echelon: T/e.yaml:3:52: a list is no range; expected values like 1GiB..16GiB, x0.1..x2, 1..8 or prefetch:budget={1MiB..1GiB}, the smaller first
echelon: T/e.yaml:3:14: name: expected one text
$ printf 'device: tpu-v5e\nsweep: [{path: device.memories.hbm.capacity, values: [x1, x2]}]\n' >$T/e.yaml; echelon run $T/e.yaml
echelon: no trace is given; expected 'trace: step.hlo.txt' in the experiment, or --trace step.hlo.txt
exit 2
$ for axis in 'matmul.dtype, values: [bf16, f8]' 'matmul.m, values: [128, 0]' 'device, values: [tpu-v5e, h100-sxm]'; do printf 'device: tpu-v5e\nmatmul: {m: 512, n: 512, k: 512}\nsweep: [{path: %s}]\n' "$axis" >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:"; done
echelon: T/e.yaml:2:9: matmul: dtype: 'f8' is no element type; expected f8e4m3fn or f8e5m2
echelon: T/e.yaml:3:40: matmul.m=0: matmul: m: '0' is out of range; expected 1 to 1048576
echelon: T/e.yaml:2:9: matmul: h100-sxm has no vector memory; a tiled product as a workload is for chips whose kernels manage their on-chip memory (TPUs)
$ printf 'device: tpu-v5e\ntrace: gpt_offload.v5e\nsweep: [{path: device.memories.hbm.capacity, values: [x1, x2, x4], labels: [small, large, large]}]\n' >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:"
echelon: T/e.yaml:3:76: labels: 'large' stands for two values
$ echelon run --trace tests/golden/data/stream.ech --device tests/golden/data/small.yaml --set device.links.host.to_device=x1e3
echelon: --set device.links.host.to_device=x1e3: '10GB/s' times '1e3' cannot be written; expected a factor like x0.5 or x1000 of a decimal number
exit 2
$ echelon alloc tests/golden/data/stream.ech --capacity 1000
echelon alloc: --capacity: '1000' is 1000 bytes; expected 1MiB at least, something like 16GiB
exit 2
$ printf 'trace: [a\n' >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:"
echelon: T/e.yaml:2:1: flow sequence without a closing bracket
$ printf 'trace: a\nreplay: {engin: native}\ndevice: tpu-v5e\n' >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:"
echelon: T/e.yaml:2:17: replay: 'engin' is no parameter here; did you mean 'engine'?
$ LC_ALL=C echelon compare tests/golden/data tests/golden/data
echelon: tests/golden/data holds no finished run; expected a folder made by 'echelon run ... -o DIR'
exit 1
$ LC_ALL=C echelon report tests/golden/data
echelon report: tests/golden/data holds no finished run; expected a folder made by 'echelon run ... -o DIR'
exit 1
$ echelon list
echelon list: expected one of devices, allocators, planners, passes, formats, writers, engines, experiments, measures
exit 2
$ echelon list device
echelon list: did you mean 'devices'?
exit 2
$ ECHELON_LIBCUDA=/nonexistent/libcuda.so.1 echelon validate traces/gpt_offload.v5e --device h100-sxm --engine cuda 2>&1
echelon: engine cuda: no NVIDIA driver here: /nonexistent/libcuda.so.1: cannot open shared object file: No such file or directory
exit 1
$ for more in 'traces/gpt_everything.h100' '--find device.memories.hbm.capacity=1MiB..1GiB' '-o out'; do echelon run traces/gpt_offload.h100 --device h100-sxm --engine cuda $more; done  # one run, no more
echelon: engine cuda replays one capture on one GPU; ranks run together on the other engines
echelon: engine cuda replays one case, and searches for none; leave out --find or the engine
echelon: --output: engine cuda writes no folder; expected --json
exit 2
$ echelon validate traces/gpt_offload.v5e --device h100-sxm --repeat 3 2>&1
echelon validate: --repeat, --cuda and --allocator belong to --engine cuda; --repeat is at least 1
exit 2
$ ECHELON_LIBCUDA=/nonexistent/libcuda.so.1 echelon calibrate -o $T/x.yaml; ls $T/x.yaml 2>/dev/null
echelon: calibrate: no NVIDIA driver here: /nonexistent/libcuda.so.1: cannot open shared object file: No such file or directory
Without the GPU: 'echelon list devices' shows those that are described, 'echelon run --trace FILE --device NAME' takes one of them, --set device.PATH=VALUE with any number of it as you know it, and 'echelon help device' tells how to write a file for another. Nothing here measures GPUs other than NVIDIA's.
exit 2
$ echelon run --trace tests/golden/data/stream.ech --device H100 2>&1
echelon: 'H100' is no device; did you mean 'h100-nvl' or 'h100-pcie' or 'h100-sxm' or 'h100-sxm-calibrated'?
exit 2
$ echelon run --trace tests/golden/data/stream.ech --device tpu-v5e --jsn
echelon run: Unknown option --jsn; did you mean --json?
usage: echelon run EXPERIMENT | --trace FILE [FILE]... --device NAME [--allocator SPEC] [--pass SPEC]... [--set PATH=VALUE]... [-o DIR] [--jobs N] [--json]
exit 2
$ echelon run tutoral
echelon run: 'tutoral' is no file, no experiment and no shipped trace; did you mean 'tutorial'? 'echelon list experiments' shows them
exit 1
$ echelon run --trace tests/golden/data/stream.ech --device tpu-v5e --set links.host.to_device=x2
echelon: --set links.host.to_device=x2: that is the device's; did you mean 'device.links.host.to_device=x2'?
exit 2
$ echelon run --trace tests/golden/data/stream.ech --device tpu-v5e --set device.links.host.to_device=5
echelon: --set device.links.host.to_device=5: links.host.to_device: '5' has no unit; expected something like 819GB/s
exit 2
$ echelon plan tests/golden/data/stream.ech --planner exact:time_limit=3
echelon: --planner: exact: time_limit: '3' has no unit; expected 3ps, 3ns, 3us, 3ms or 3s
exit 2
$ echelon plan tests/golden/data/stream.ech --capacity 2GiB | grep -v time
greedy: 4 buffers in hbm
  height       2.79 GiB (3000000000 bytes), proved lowest
  lower bound  2.79 GiB (3000000000 bytes), 0.00 % below the height
  capacity     2 GiB: IT DOES NOT FIT, 813 MiB too much
$ echelon layout 'f32[99999999999,99999999999]'
echelon layout: 'f32[99999999999,99999999999]' is larger than 16 EiB
exit 2
$ echelon layout 'bf16[5,3]'
bf16[5,3]
  30 bytes dense (30 B), 30 padded (30 B): 0.0 % waste, 1.000x
(without tiles in the shape nothing is padded; --device tpu-v5e takes those that its compiler chooses)
$ echelon alloc traces/gpt_nothing.v5e --allocator best_fit | head -1
traces/gpt_nothing.v5e: hlo, 31 events; device memory 15.8 GiB, tpu-v5e
$ echelon alloc traces/gpt_nothing.h100 --allocator best_fit | head -1
traces/gpt_nothing.h100: hlo, 176 events; device memory 80 GiB, assumed (--device or --capacity says it)
$ printf 'trace: gpt_offload.v5e\ndevice: tpu-v5e\nsweep:\n  - {path: device.memories.hbm.size, values: [x1, x2]}\n' >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:"
echelon: T/e.yaml:4:47: device.memories.hbm.size=x1: there is no 'size' to multiply; expected one of kind, dram, space, capacity, available, assignment_limit, nominal, read, write, both, latency, granule, assignable
$ printf 'trace: gpt_offload.v5e\ndevice: tpu-v5e\nsweep:\n  - {path: passes, values: ["", padd]}\n' >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:"
echelon: T/e.yaml:4:33: passes=padd: 'padd' is no pass; did you mean 'pad'?
$ printf 'trace: gpt_offload.v5e\ndevice: tpu-v5e\nsweep:\n  - {path: passes.prefetch.depth, values: [1, 2]}\n' >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:"
echelon: T/e.yaml:4:12: path: 'passes.prefetch.depth' cannot be varied; expected path: passes, with values like "prefetch:depth=1", or of find "prefetch:depth={1..8}"
$ printf 'trace: gpt_offload.v5e\ndevice: tpu-v5e\nsweep:\n  - {path: memories.hbm.capacity, values: [1GiB, 2GiB]}\n' >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:"
echelon: T/e.yaml:4:12: path: 'memories.hbm.capacity' cannot be varied; did you mean 'device.memories.hbm.capacity'?
$ printf 'trace: gpt_offload.v5e\nsweep:\n  - {path: device, values: [tpu-v5e, tpu-v6]}\n' >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:"
echelon: T/e.yaml:3:38: device=tpu-v6: 'tpu-v6' is no device; did you mean 'tpu-v6e'?
$ printf 'trace: gpt_offload.v5\ndevice: tpu-v5e\n' >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:g"
echelon: T/e.yaml:1:8: T/gpt_offload.v5: No such file or directory; did you mean the shipped 'gpt_offload.v5e'?
$ printf 'trace: gpt_offload.v5e\ndevice: tpu-v5e\nsweep:\n  - {path: matmul.buffers, values: [1, 2]}\n' >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:"
echelon: T/e.yaml:4:37: matmul.buffers=1: matmul: stands in place of a trace, and a trace is given too; expected one of them
$ printf 'trace: gpt_offload.v5e\ndevice: tpu-v5e\nset: {link: x2}\n' >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:"
echelon: T/e.yaml:3:13: link=x2: there is no 'link' to multiply; expected one of trace, device
$ printf 'trace: gpt_nothing.h100\ndevice: h100-sxm\nsweep:\n  - {path: allocator, values: [bfc, bfcc]}\n' >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:"
echelon: T/e.yaml:4:37: allocator=bfcc: 'bfcc' is no allocator; did you mean 'bfc'?
$ echelon list devices tpu-v9
echelon list devices: there is no 'tpu-v9'; did you mean 'tpu-v1'?
exit 2
$ echelon run --trace adam_none.v5e --device tpu-v5e --find device.memories.hbm.capacity=16GiB
echelon: --find: '16GiB' is no range; expected values like 1GiB..16GiB, x0.1..x2, 1..8 or prefetch:budget={1MiB..1GiB}, the smaller first
exit 2
$ echelon run --trace adam_none.v5e --device tpu-v5e --for fits
echelon: --for: what --find asks for; expected --find PATH=FROM..TO too
exit 2
$ echelon run --trace adam_none.v5e --device tpu-v5e --set device.memories.hbm.capacity=8
echelon: --set device.memories.hbm.capacity=8: memories.hbm.capacity: '8' is 8 bytes; expected something like 16GiB
exit 2
$ echelon run --trace adam_none.v5e --device tpu-v5e --set hbm=8GiB
echelon: --set hbm=8GiB: that is the device's; did you mean 'device.memories.hbm.capacity=8GiB'?
exit 2
$ printf 'base: h100-sxm\nmemories:\n  hbm: {capacity: 48GiB}\n' >$T/mine.yaml; echelon run $T/mine.yaml 2>&1 | sed "s:$T:T:g"; echelon list devices $T/mine.yaml --sources | grep -E 'mine|hbm.(capacity|available)'
echelon: T/mine.yaml: that is a device's file; expected an experiment, or 'echelon run --trace FILE --device T/mine.yaml'
  mine
      memories.hbm.capacity                         51539607552  assumed
      memories.hbm.available                        50583240704  follows what was changed; was as h100-sxm: measured: spec, what the driver reports
$ echelon run --trace traces/adam_none.v5e --device tpu-v5e --set device.memories.hmb.capacity=1GiB
echelon: --set device.memories.hmb.capacity=1GiB: memories.hmb: expected a kind; its memories are hbm, vector, scalar, host; did you mean 'hbm'?
exit 2
$ echelon run --trace traces/adam_none.v5e --device tpu-v5e --set device.kernel.power=500
echelon: --set device.kernel.power=500: kernel.power: how tpu-v5e slows under less power than its own is not known; expected kernel.rated_power, the watts that its rates were measured under
exit 2
$ echelon run --trace traces/adam_none.v5e --device tpu-v5e --set device.units.xyz.clock=1GHz
echelon: --set device.units.xyz.clock=1GHz: units.xyz: expected a kind, one of matrix, vector, transcendental, scalar; its units are matrix, vector, transcendental
exit 2
$ printf 'hello\n' >$T/hello; for verb in info plan import alloc; do echelon $verb tests/golden/data/stream.ech --device $T/hello 2>&1 | sed "s:$T:T:"; done
echelon: T/hello:1:1: device: expected keys with their values, of name, summary, family, compiler, products, cores, memories, links, units, kernel, runtime, layout, dram, mig, calibrated, unmeasured
echelon: T/hello:1:1: device: expected keys with their values, of name, summary, family, compiler, products, cores, memories, links, units, kernel, runtime, layout, dram, mig, calibrated, unmeasured
echelon: T/hello:1:1: device: expected keys with their values, of name, summary, family, compiler, products, cores, memories, links, units, kernel, runtime, layout, dram, mig, calibrated, unmeasured
echelon: T/hello:1:1: device: expected keys with their values, of name, summary, family, compiler, products, cores, memories, links, units, kernel, runtime, layout, dram, mig, calibrated, unmeasured
$ printf 'name: like\nbase: sub/other.yaml\n' >$T/like.yaml; mkdir $T/sub; printf 'name: other\nbase: h100-sxm\n' >$T/sub/other.yaml; echelon info tests/golden/data/stream.ech --device $T/like.yaml | head -1; printf 'name: round\nbase: like.yaml\n' >$T/round.yaml; printf 'name: other\nbase: ../round.yaml\n' >$T/sub/other.yaml; echelon info tests/golden/data/stream.ech --device $T/like.yaml 2>&1 | sed "s:$T:T:"
tests/golden/data/stream.ech: ech
echelon: T/sub/../sub/other.yaml:2:7: base: more than 4 devices, each like the next
$ LC_ALL=C echelon run --trace tests/golden/data/stream.ech --device tests/golden/data/
echelon: tests/golden/data/: Is a directory
exit 1
$ echelon plan tests/golden/data/stream.ech --capacity 0
echelon plan: --capacity: '0' is 0 bytes; expected something like 16GiB
exit 2
$ cat configs/devices/h100-sxm.yaml | echelon run --trace tests/golden/data/stream.ech --device /dev/stdin | sed -n 1p
stream on h100-sxm (NVIDIA H100 SXM5, 80 GB HBM3)
$ mkdir $T/run; printf '[%.0s' $(seq 1000) >$T/run/run.json; for verb in "compare $T/run" report; do echelon $verb $T/run 2>&1 | sed "s:$T:T:"; done; echo '{"makespan_ps": "x"}' >$T/run/run.json; echelon report $T/run 2>&1 | sed "s:$T:T:"; echo '{"makespan_ps": 1}' >$T/run/run.json; printf '{\n"a": [}' >$T/run/details.json; echelon report $T/run 2>&1 | sed "s:$T:T:"
echelon: T/run/run.json: values nest more than 64 deep
echelon: T/run/run.json: values nest more than 64 deep
echelon: T/run/run.json: is no run of echelon; expected an object with 'makespan_ps'
echelon: T/run/details.json:2:7: Parse error: unexpected character `}', expected character `]'
$ mkdir $T/swept; echo '{"points": 5}' >$T/swept/sweep.json; echelon report $T/swept 2>&1 | sed "s:$T:T:"; ls $T/swept; for t in '' '{"points": [{"run": 5}, 1]}' '{"points": [{"run": {}}' '{"points": [{]}, "axes": []}' '{"points": [{"label": "\"'; do printf '%s' "$t" >$T/swept/sweep.json; echelon report $T/swept 2>&1 | sed "s:$T:T:"; done
echelon: T/swept/sweep.json: is no sweep of echelon; expected an object with a list 'points'
sweep.json
echelon: T/swept/sweep.json: the file is empty
T/swept/report.html
echelon: T/swept/sweep.json:1:23: Parse error: unexpected character `}', expected character `,'
echelon: T/swept/sweep.json:1:13: Parse error: unexpected character `{', expected string constant
echelon: T/swept/sweep.json:1:26: Parse error: scanner: unterminated string constant
$ echelon run tests/golden/data/sweep.yaml -o $T/points >/dev/null 2>&1; echelon report $T/points/001 2>&1 | sed "s:$T:T:"
echelon: T/points/001 holds a run's numbers alone, as a sweep keeps them, and nothing to draw; 'echelon run' with its values as --set, and -o, makes a page
$ printf 'echelon-trace 1 "x"\nstrings 0\nmemories 1\n"hbm"\nqueues 1\ncompute 0 "q"\nbuffers 0\nops 1\nmark "m" q=0\n' >$T/bare.ech; echelon plan $T/bare.ech; echelon advise --trace $T/bare.ech --device h100-sxm --memory 0
echelon: nothing to place: this trace tells of no buffer
echelon advise: --memory: '0' is 0 B; expected something like 16GiB
exit 2
$ echelon run --trace traces/adam_none.v5e --device tpu-v5e --find sweep=1..2
echelon: --find: path: 'sweep' cannot be varied; 'echelon help experiment' tells what can
exit 2
$ echelon advise traces/gpt_everything.h100 --device h100-sxm --memory 24
echelon advise: --memory: '24' is 24 B; expected something like 16GiB
exit 2
$ echelon run --trace traces/gpt_everything.h100 --device h100-sxm --engine native -o $T/done >/dev/null 2>&1; printf 'title: mine\ntrace: a.v5e\ndevice: tpu-v5e\n' >$T/mine.yaml; cd $T; for f in done mine.yaml; do echelon info $f; done
echelon: done: the results of a finished run, not what was run; 'echelon report' makes its page again, 'echelon compare' sets it beside others
echelon: mine.yaml: the text looks like an experiment; 'echelon run FILE' runs it, and its key 'trace' names what is read here
exit 1
$ echelon run --trace traces/gpt_everything.h100 --device h100-sxm --engine native --set device.memories.hbm.capacity=64MiB -o $T/short 2>/dev/null | grep 'What would make it fit:'; grep -c 'What would make it fit:' $T/short/report.html
  What would make it fit:
1
$ cd $T; echelon run --trace mine.ech --device abacus; echo > mine.txt; echelon run --trace $OLDPWD/traces/adam_none.h100 --device mine.txt
echelon: 'abacus' is no device; expected a file, or a name of those that 'echelon list devices' shows
echelon: mine.txt: the file is empty; expected keys and values
exit 2
$ echelon run --trace traces/gpt_pytorch.h100 --device h100-sxm --set device.memories.hbm.capacity=3GiB --find device.links.host.to_device=x0.1..x1 --for 'time<=x1.1'
echelon: --for: 'time<=x1.1' is held against the run without the edit, which does not fit and so has no time; expected time<=10ms or hbm<=4GiB, or a device that it fits
exit 2
$ for words in "info" "run --device h100-sxm --trace" "run --trace tests/golden/data/stream.ech --device h100-sxm -o" "layout"; do echelon $words ''; echo exit $?; done 2>&1
echelon info: '' names nothing; is a variable empty?
exit 2
echelon run: --trace: '' names nothing; is a variable empty?
exit 2
echelon run: --output: '' names nothing; is a variable empty?
exit 2
echelon layout: '' names nothing; is a variable empty?
exit 2
$ cp tests/fuzz/corpus/out_of_memory/mps.txt $T/-mine.txt; cd $T; echelon info -- -mine.txt | head -1
-mine.txt: out_of_memory
$ gzip -c tests/golden/data/stream.ech >$T/whole.gz; for n in 2 10 60; do head -c $n $T/whole.gz >$T/cut.gz; echelon info $T/cut.gz 2>&1 | sed "s:$T:T:"; done
echelon: T/cut.gz: byte 2: gzip data end in the middle (0 bytes unpacked); the file is cut
echelon: T/cut.gz: byte 10: gzip data end in the middle (0 bytes unpacked); the file is cut
echelon: T/cut.gz: byte 60: gzip data end in the middle (0 bytes unpacked); the file is cut
$ echelon run --trace tests/golden/data/stream.ech --device tpu-v5e --pass offload:memory=24
echelon: --pass: pass offload: memory: '24' is 24 bytes; expected something like 16GiB
exit 2
$ echelon advise --trace tests/golden/data/stream.ech --device tpu-v5e --memory 24 GiB
echelon advise: 'GiB' is no file, and one trace is expected (a size is one word: 24GiB)
exit 2
$ printf 'trace: a\ndevice: tpu-v5e\nsweep:\n  - {path: device.memories.hbm.capacity, values: []}\n' >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:"
echelon: T/e.yaml:4:50: values: nothing is in the list; expected something like [x0.5, x1, x2] ('find' takes a range)
$ for k in bf61 fp16 int8 f8; do sed "s/bf16: /$k: /" tests/golden/data/small.yaml >$T/e.yaml; echelon run --trace tests/golden/data/stream.ech --device $T/e.yaml 2>&1 | sed -n "s:$T:T:; s/expected one of.*/expected .../; 1p"; done
echelon: T/e.yaml:10:26: units.matrix.peaks: 'bf61' is no key here; did you mean 'bf16'?
echelon: T/e.yaml:10:26: units.matrix.peaks: 'fp16' is no key here; did you mean 'f16'?
echelon: T/e.yaml:10:26: units.matrix.peaks: 'int8' is no key here; expected ...
stream on small (a device for tests)
$ for s in memories.hbm.bandwidth=x0.5 memories.hbm.bandwidth=1TB/s memories.hbm.bw=x2 links.host.bandwidth=x2 links.host.bandwidth=20GB/s; do echelon run --trace gpt_offload.v5e --device tpu-v5e --set device.$s; done
echelon: --set device.memories.hbm.bandwidth=x0.5: there is no 'bandwidth' to multiply; did you mean 'read' and 'write', one edit each?
echelon: --set device.memories.hbm.bandwidth=1TB/s: memories.hbm: 'bandwidth' is no key here; did you mean 'read' and 'write', one edit each?
echelon: --set device.memories.hbm.bw=x2: there is no 'bw' to multiply; did you mean 'read' and 'write', one edit each?
echelon: --set device.links.host.bandwidth=x2: there is no 'bandwidth' to multiply; did you mean 'to_device' and 'from_device', one edit each?
echelon: --set device.links.host.bandwidth=20GB/s: links.host: 'bandwidth' is no key here; did you mean 'to_device' and 'from_device', one edit each?
exit 2
$ for text in '- trace: a\n' 'plain\n' 'title: a\ntitle: b\n' 'title: [a\n' '' 'title: a\nbogus: 1\n'; do printf -- "$text" >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:"; echelon run $T/e.yaml 2>/dev/null; echo $?; done
echelon: T/e.yaml:1:1: experiment: expected keys with their values, of title, trace, device, allocator, host_allocator, passes, replay, set, sweep, find, matmul, format, beside, step, capture_device
2
echelon: T/e.yaml:1:1: experiment: expected keys with their values, of title, trace, device, allocator, host_allocator, passes, replay, set, sweep, find, matmul, format, beside, step, capture_device
2
echelon: T/e.yaml:2:8: 'title' stands here twice
2
echelon: T/e.yaml:2:1: flow sequence without a closing bracket
2
echelon: T/e.yaml: the file is empty; expected keys and values
2
echelon: T/e.yaml:2:8: experiment: 'bogus' is no key here; expected one of title, trace, device, allocator, host_allocator, passes, replay, set, sweep, find, matmul, format, beside, step, capture_device
2
