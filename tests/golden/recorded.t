Recordings of several devices in one file, and of one rank each: replayed together.
$ echelon run --trace tests/golden/data/two_devices.json --device a100-80
two_devices: 2 devices of one process, a100-80

  Every device fits.
  It takes 3.70 ms; 29.2 % of all devices' time is waiting for one another.

                                                   kernels   communication       waits for           host,
  device       live   reserved       time              run           alone          others            idle
       0      2 GiB      2 GiB    2.80 ms    1.40 ms  50 %   1.40 ms  50 %      0 ps   0 %      0 ps   0 %
       1      3 GiB      3 GiB    3.70 ms    1.80 ms  49 %      0 ps   0 %   1.90 ms  51 %      0 ps   0 %

  Who waits for whom, and what that one does meanwhile
    device 1 for 0         1.90 ms  2 times, all at layer1: runs kernels 37 %, communicates 63 %
    Device 0 is waited for longest, 1.90 ms by all together; its kernels take 1.40 ms, those of the others 1.80 ms.

  Device 1 is the fullest; spread evenly, each would hold 2.50 GiB at its fullest. --set capture_device=N tells all of one, alone; -o DIR writes a page of each.

  Memory at its fullest
    hbm: 3 GiB live from the start; pytorch
         3 GiB  [memory]

  Remarks
    devices 0, 1: of none of the 2 waits of streams in it is told what for: Kineto leaves that out for events of another device, and with CUDA 12.9 and later for all (github.com/pytorch/kineto/pull/1552)
    devices 0, 1: what comes after what in different streams is taken from the order of calls and the recorded times, where the recording does not say it: 2 times
$ echelon run --trace tests/golden/data/two_devices.json --device a100-80 --set capture_device=1 | head -4
two_devices, device 1 on a100-80 (NVIDIA A100 SXM4, 80 GB HBM2e)
  with capture_device=1

  It fits. hbm 3 GiB of 78.8 GiB (4 %)
$ echelon run --trace tests/golden/data/two_devices.pickle --device a100-80 --set device.memories.hbm.available=90MiB
two_devices.pickle: 2 devices of one process, a100-80

  IT DOES NOT FIT: device 1. (The others were replayed as if nobody had to wait for those; times mean little.)
  It takes 436 us; 0.0 % of all devices' time is waiting for one another.

                                                   kernels   communication       waits for           host,
  device       live   reserved       time              run           alone          others            idle
       0     70 MiB     70 MiB     436 us       0 ps   0 %      0 ps   0 %      0 ps   0 %    436 us 100 %
       1     70 MiB     70 MiB     228 us       0 ps   0 %      0 ps   0 %      0 ps   0 %    228 us 100 %  does not fit

  On device 1
  IT DOES NOT FIT. hbm 100 MiB of 90 MiB (111 %)
  70 MiB reserved by allocator pytorch, as recorded. When it was recorded it held 100 MiB: how its cache lay when that began is not known here.
  The program ran out of memory on device 1 when it was recorded: 40 MiB more were asked for by serve.py:9 with 100 MiB in use, 0 B held unused by PyTorch's allocator and 10 MiB free. What is said here is up to there. 'echelon alloc' says which settings of the allocator would have served that.
  At 228 us 'serve.py:9' asks for 30 MiB more in hbm: 70 MiB of 90 MiB are live, 70 MiB reserved.
  What held the memory:
      70 MiB  serve.py:9
  (90 MiB of the 80 GiB of hbm were set to be available.)
  What would make it fit:
    echelon advise --trace tests/golden/data/two_devices.pickle --device a100-80 --set device.memories.hbm.available=90MiB

  --set capture_device=N tells all of one, alone; -o DIR writes a page of each.
exit 3
$ echelon info tests/golden/data/two_devices.pickle | grep 'out of memory'
out of memory 1 time: 40 MiB asked for, 100 MiB held, 10 MiB left on device 1; 'echelon alloc tests/golden/data/two_devices.pickle' says who would have served it
$ echelon alloc tests/golden/data/two_devices.json --device a100-80 | head -3
tests/golden/data/two_devices.json: kineto, 1 event; device memory 78.8 GiB
allocations of hbm:1 (--memory: hbm)
no allocator needs less than 3 GiB; the recorded one held 4 GiB
$ echelon advise tests/golden/data/two_devices.json --device a100-80 | head -8
two_devices on a100-80 (NVIDIA A100 SXM4, 80 GB HBM2e)
  with allocator pytorch, as recorded

  It fits. 3 GiB of 78.8 GiB of hbm are needed beside 512 MiB of the process's context: what needing less would cost.
  It runs on 2 devices: 0 needs 2 GiB, 1 needs 3 GiB. Below, hbm is that of the fullest, times are of all together.
  It takes 3.70 ms. Its critical path: waiting for other devices 51 %, recorded kernel times 49 %.
  It needs 3 GiB of hbm; at its fullest that holds 3 GiB buffers.

$ echelon run --trace tests/golden/data/rank1.json tests/golden/data/rank0.json --device a100-80 2>&1
rank1 and 1 more: 2 ranks on a100-80

  Nothing here says what lies in memory.
  It takes 5.90 ms; 17.8 % of all ranks' time is waiting for one another.

                                                  kernels   communication       waits for           host,
   rank       live   reserved       time              run           alone           ranks            idle
      0        0 B        0 B    5.90 ms       4 ms  68 %    900 us  15 %      1 ms  17 %      0 ps   0 %
      1        0 B        0 B    5.90 ms    4.50 ms  76 %    300 us   5 %   1.10 ms  19 %      0 ps   0 %

  Who waits for whom, and what that one does meanwhile
    rank 1 for 0         1.10 ms  1 time, all at ncclDevKernel_...um_bf16_RING_LL: runs kernels 91 %, communicates 9 %
    rank 0 for 1            1 ms  2 times, all at ncclDevKernel_...um_bf16_RING_LL: runs kernels 100 %
    Rank 0 is waited for longest, 1.10 ms by all together; its kernels take 4 ms, those of the others 4.50 ms.

  Remarks
    ranks 0, 1: a recorded collective takes as long as it did with who came last to it; how long the others wait there is replayed
    rank 0: 1 of its collectives and messages are with ranks that are not given, too: those are taken to be ready when it is
    rank 0: what comes after what in different streams is taken from the order of calls and the recorded times, where the recording does not say it: 7 times; torch.profiler.profile(experimental_config=torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)) has it say which stream waits for which
    rank 1: what comes after what in different streams is taken from the order of calls and the recorded times, where the recording does not say it: 5 times; torch.profiler.profile(experimental_config=torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)) has it say which stream waits for which
$ head -c 2200 tests/golden/data/two_devices.json >$T/cut.json; echelon run --trace $T/cut.json --device a100-80 | grep -E 'It takes|cut,'; echelon import $T/cut.json --strict 2>&1 >/dev/null | grep -o 'byte .*strict'
  It takes 2.30 ms; 31.8 % of all devices' time is waiting for one another.
    devices 0, 1: the file is cut, at byte 2197 of its text: 13 events are read, those behind are missing
byte 2197: 1 cut_files; expected none with --strict
$ head -c 300 tests/golden/data/two_devices.json >$T/cut.json; echelon info $T/cut.json 2>&1 | grep -o 'byte.*'
byte 300: the text ends inside a string; the file is cut
$ cat tests/golden/data/rank0.json tests/golden/data/rank1.json >$T/both.json; echelon info $T/both.json 2>&1 | grep -o 'byte.*'
byte 3819: another document after the end of the first: are they two files? expected one of them
$ echelon run --trace tests/fuzz/corpus/cupti/two_devices.capture --device h100-sxm | sed -n 3,9p
  Every device fits.
  It takes 3.70 ms; 29.2 % of all devices' time is waiting for one another.

                                                   kernels   communication       waits for           host,
  device       live   reserved       time              run           alone          others            idle
       0      2 GiB      2 GiB    2.80 ms    1.40 ms  50 %   1.40 ms  50 %      0 ps   0 %      0 ps   0 %
       1      3 GiB      3 GiB    3.70 ms    1.80 ms  49 %      0 ps   0 %   1.90 ms  51 %      0 ps   0 %
$ printf 'trace: %s\ndevice: a100-80\nsweep:\n  - {path: device.links.nvlink.to_device, values: [x1, x0.5]}\n' "$PWD/tests/golden/data/two_devices.json" >$T/e.yaml; echelon run $T/e.yaml | sed -n 3,7p
  to_device  fits     time  x first  hbm peak  of device  bound by
  ---------  ----  -------  -------  --------  ---------  -------------------------
  x1         yes   3.70 ms    1.000     3 GiB          1  waiting for other devices
  x0.5       yes   5.10 ms    1.377     3 GiB          1  waiting for other devices

