What is wrong, where, and what was expected.
$ echelon run
echelon run: expected an experiment file, or --trace FILE --device NAME
exit 2
$ echelon run --trace tests/golden/data/stream.ech
echelon: no device is given; expected 'device: tpu-v5e' in the experiment, or --device tpu-v5e
exit 2
$ echelon run --trace tests/golden/data/stream.ech --device tpu-v5
echelon: 'tpu-v5' is no device; did you mean 'tpu-v2'?
exit 2
$ LC_ALL=C echelon run --trace tests/golden/data/none.ech --device tpu-v5e
echelon: Failed to open file “tests/golden/data/none.ech”: open() failed: No such file or directory
exit 1
$ echelon run --trace tests/golden/data/stream.ech --device tests/golden/data/small.yaml --set device.links.hst.to_device=x2
echelon: --set links.hst.to_device=x2: there is no 'hst' to multiply; did you mean 'host'?
exit 2
$ echelon run --trace tests/golden/data/stream.ech --device tests/golden/data/small.yaml --set device.links.host.to_device=quick
echelon: --set links.host.to_device=quick: links.host.to_device: 'quick' is not a rate; expected something like 819GB/s
exit 2
$ echelon run --trace tests/golden/data/stream.ech --device tests/golden/data/small.yaml --set devise=x
echelon: --set devise=x: experiment: 'devise' is no key here; did you mean 'device'?
exit 2
$ echelon run --trace tests/golden/data/stream.ech --device tests/golden/data/small.yaml --pass padd
echelon: --pass: 'padd' is no pass; did you mean 'pad'?
exit 2
$ echelon run --trace tests/golden/data/stream.ech --device tests/golden/data/small.yaml --pass pad:align=0
echelon: --pass: pass pad: align: '0' is out of range; expected 1 to 1GiB
exit 2
$ echelon run --trace tests/golden/data/stream.ech --device tests/golden/data/small.yaml --allocator bfcc
echelon: allocator of memory 'hbm': 'bfcc' is no allocator; did you mean 'bfc'?
exit 2
$ echelon run --trace tests/golden/data/stream.ech --device tests/golden/data/small.yaml --engine nativ
echelon: --set replay.engine=nativ: replay: engine: 'nativ' is unknown; expected one of auto, native, simgrid
exit 2
$ printf 'trace: a\ndevise: b\n' >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:"
echelon: T/e.yaml:2:9: experiment: 'devise' is no key here; did you mean 'device'?
$ printf 'trace: a\nsweep:\n  - {path: devise, values: [1]}\n' >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:"
echelon: T/e.yaml:3:12: path: 'devise' cannot be varied; did you mean 'device'?
$ printf 'trace: [a\n' >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:"
echelon: T/e.yaml:2:1: flow sequence without a closing bracket
$ printf 'trace: a\nreplay: {engin: native}\ndevice: tpu-v5e\n' >$T/e.yaml; echelon run $T/e.yaml 2>&1 | sed "s:$T:T:"
echelon: T/e.yaml:2:17: replay: 'engin' is no parameter here; did you mean 'engine'?
$ LC_ALL=C echelon compare tests/golden/data tests/golden/data
echelon: tests/golden/data/run.json: Failed to open file “tests/golden/data/run.json”: No such file or directory
exit 1
$ LC_ALL=C echelon report tests/golden/data
echelon: Failed to open file “tests/golden/data/run.json”: No such file or directory
exit 1
$ echelon list
echelon list: expected one of devices, allocators, planners, passes, formats, writers, engines, experiments
exit 2
$ echelon list device
echelon list: did you mean 'devices'?
exit 2
$ ECHELON_LIBCUDA=/nonexistent/libcuda.so.1 echelon validate traces/gpt_offload.v5e --device h100-sxm --engine cuda 2>&1
echelon: engine cuda: no NVIDIA driver here: /nonexistent/libcuda.so.1: cannot open shared object file: No such file or directory
exit 1
$ echelon validate traces/gpt_offload.v5e --device h100-sxm --repeat 3 2>&1
echelon validate: --repeat, --cuda and --allocator belong to --engine cuda; --repeat is at least 1
exit 2
$ ECHELON_LIBCUDA=/nonexistent/libcuda.so.1 echelon calibrate -o $T/x.yaml; ls $T/x.yaml 2>/dev/null
echelon: calibrate: no NVIDIA driver here: /nonexistent/libcuda.so.1: cannot open shared object file: No such file or directory
exit 2
