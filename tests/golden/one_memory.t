Host and device that have one memory: what lies on the host takes as much of it.
$ echelon run --trace tests/golden/data/stream.ech --device gb10 | sed -n '3,5p'
  It fits. hbm 2.79 GiB of 119 GiB (2 %), host 3.73 GiB of 128 GiB (3 %)
  Host and device have one memory: of that both held 6.52 GiB at the most.
  It takes 72.4 ms, bound by hbm port (49 % of the critical path).
$ echelon run --trace tests/golden/data/stream.ech --device gb10 --set device.memories.hbm.available=6.9GB | sed -n '4,16p'
  IT DOES NOT FIT. hbm 6.52 GiB of 6.43 GiB (101 %), host 3.73 GiB of 128 GiB (3 %)
  Host and device have one memory: of that both held 5.59 GiB at the most.
  At 0 ps 'y.0' asks for 954 MiB more in hbm: 5.59 GiB of 6.43 GiB are live, 5.59 GiB reserved.
  What held the memory:
     954 MiB  w.0
     954 MiB  w.1
     954 MiB  out.0
     954 MiB  out.1
     954 MiB  in.0
     954 MiB  in.1
  (6.43 GiB of the 128 GiB of hbm were set to be available.)
  What would make it fit:
    echelon advise --trace tests/golden/data/stream.ech --device gb10 --set device.memories.hbm.available=6.9GB
$ echelon run --trace tests/golden/data/stream.ech --device gb10 --set device.memories.hbm.available=6.9GB >/dev/null
exit 3
$ echelon run --trace tests/golden/data/stream.ech --device rtx-pro-6000 --set device.memories.hbm.available=6.9GB | sed -n '4p'
  It fits. hbm 2.79 GiB of 6.43 GiB (43 %), host 3.73 GiB of 512 GiB (1 %)
$ echelon run --trace tests/golden/data/stream.ech --device gb10 --json | grep '"peak_with_host_bytes"'
      "peak_with_host_bytes" : 7000000000,
$ echelon run --trace traces/gpt_unrolled_kept.h100 --device gb10 --pass offload | grep 'left the trace'
  - offload: left the trace as it is: gb10 and its host have one memory, so that what lies on the host takes as much of it
$ echelon run --trace tests/golden/data/stream.ech --device gb10 --set replay.unified_memory=true | grep 'unified memory:'
  - unified memory: gb10 and its host have one memory, beyond which nothing lies
$ printf 'name: mine\nbase: gb10\nmemories:\n  l2: {within: hbm}\n' > $T/cache.yaml; echelon run --trace tests/golden/data/stream.ech --device $T/cache.yaml 2>&1 | sed "s|$T/||"
echelon: cache.yaml:4:16: memories.l2.within: only a host's memory may be another's, like 'within: hbm'
$ printf 'name: mine\nbase: gb10\nmemories:\n  host: {within: pageable}\n' > $T/host.yaml; echelon run --trace tests/golden/data/stream.ech --device $T/host.yaml 2>&1 | sed "s|$T/||"
echelon: host.yaml:4:18: memories.host.within: expected the device's own memory, 'hbm', where the host has no other
$ echelon run --trace tests/golden/data/stream.ech --device rubin | grep -A1 'No times'
  No times of kernels measured on such a device are known: its rates rest on NVIDIA's announced figures, what drivers say of early ones, and shares of them as a GB300's.

$ echelon run --trace traces/adam_moments.v6e --device tpu-8i | grep 'No times'
  No times of kernels measured on such a device are known: its rates rest on JAX's and Google's figures, and a TPU7x's compiler and constants.
