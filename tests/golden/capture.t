A GPU that is not there: what is asked of the verb, and what it says.
$ echelon capture
echelon capture: no command; expected echelon capture [--pretend DEVICE] [-o PREFIX] -- COMMAND
exit 2
$ for o in '--gpus 0' '--world 0' '--gpus -2'; do echelon capture --pretend h100-sxm $o -- true; echo exit $?; done
echelon capture: --gpus 0: expected 1 or more
exit 2
echelon capture: --world 0: expected 1 to 1048576
exit 2
echelon capture: --gpus -2: expected 1 or more
exit 2
$ echelon capture --gpus 2 -- true
echelon capture: --gpus is for a device that is not there; expected --pretend DEVICE, too
exit 2
$ echelon capture --pretend tpu-v1 -- true
echelon: --pretend tpu-v1: that is neither a GPU nor a TPU that a compiler is for
exit 2
$ echelon capture --pretend mi300x -- true
echelon: --pretend mi300x: a GPU by AMD, whose driver and libraries are other ones; pretend an NVIDIA GPU, like h100-sxm, and replay that capture with --device mi300x
exit 2
$ echelon capture --pretend tpu-v5e --set memories.hbm.capacity=1GiB -- true
echelon: --set: the compiler of tpu-v5e knows that chip as it is, and several of them by --gpus
exit 2
$ echelon capture --pretend tpu-v5e --world 8 -- true
echelon: --world: the compiler of tpu-v5e knows that chip as it is, and several of them by --gpus
exit 2
$ cd $T && echelon capture --pretend tpu-v5e --gpus 4 -o chip -- sh -c 'echo $ECHELON_PRETEND_CHIP $ECHELON_PRETEND_DEVICES; mkdir chip.7.step chip.8 chip.x.step; exit 3'; echo exit $?; rmdir chip.*
v5e 4
echelon capture: wrote chip.7.step; now: echelon run --trace chip.7.step --device tpu-v5e
exit 3
$ echelon capture --pretend h100 -- true
echelon: 'h100' is no device; did you mean 'h100-nvl' or 'h100-pcie' or 'h100-sxm' or 'h100-sxm-calibrated'?
exit 2
$ echelon capture --pretend h100-sxm --gpus 257 -- true
echelon: --gpus 257: expected 1 to 256
exit 2
$ echelon capture --world 2 -- true
echelon capture: --world is for a device that is not there; expected --pretend DEVICE, too
exit 2
$ echelon capture --pretend h100-sxm --rank 2 -- true
echelon capture: --rank 2: expected --world N, too
exit 2
$ echelon capture --pretend h100-sxm --world 2 --rank 2 -- true
echelon capture: --rank 2: expected numbers less than --world, ascending from 0, at most 64 of them
exit 2
$ echelon capture --pretend h100-sxm --world 64 --rank 9 -- sh -c 'echo $ECHELON_PRETEND_WORLD $ECHELON_PRETEND_RANK; echo "$ECHELON_PRETEND_DEVICE" | tr ";" "\n" | grep devices' 2>/dev/null
64 9
devices=8
$ echelon capture --pretend tests/golden/data/small.yaml -- true
echelon: --pretend small: that is neither a GPU nor a TPU that a compiler is for
exit 2
$ echelon capture --pretend h100-sxm --set kernel.compute_capability=x -- true
echelon: --set device.kernel.compute_capability=x: kernel.compute_capability: 'x' is not a number; expected something like 0.9, 5us or 4MiB
exit 2
$ cd $T && echelon capture --pretend h100-sxm -o step -- sh -c 'echo "$ECHELON_PRETEND_DEVICE"; exit 3'
id=h100-sxm;name=NVIDIA H100 80GB HBM3;bytes=84942979072;context=536870912;devices=1;links=18;staged=0;major=9;minor=0;memory_bus_bits=5120;memory_clock_khz=2619000;shared=233472;multiprocessors=132;clock_khz=1980000;host_rate=63000000000;l2=52428800
echelon capture: nothing was captured; no process of the command asked for a GPU
exit 3
$ cd $T && echelon capture --pretend h100-sxm -o step -- sh -c 'setsid sleep 1000 & echo $! > left; exit 3' 2>&1 | sed 's/(.*)/(PID)/'; kill -0 $(cat $T/left) 2>/dev/null || echo gone; rm $T/left
echelon capture: ended what the command left running: sleep (PID)
echelon capture: nothing was captured; no process of the command asked for a GPU
gone
$ mkdir $T/there && TMPDIR=$T/there echelon capture --pretend h100-sxm -o $T/step -- sh -c 'ls $TMPDIR | cut -d- -f1,2' 2>&1 | grep -v nothing; rmdir $T/there
echelon-processes
$ cd $T && echelon capture --pretend h100-sxm --set device.memories.hbm.capacity=1GiB --gpus 2 -- sh -c 'echo "$ECHELON_PRETEND_DEVICE" | tr ";" "\n" | grep -E "bytes|devices"'
bytes=536870912
devices=2
echelon capture: nothing was captured; no process of the command asked for a GPU
$ cd $T && echelon capture --pretend h100-sxm -- no-such-command-here
echelon capture: Failed to execute child process “no-such-command-here” (No such file or directory)
exit 1
$ cd $T && echelon capture --pretend h100-sxm -- sh -c 'kill -9 $$'
echelon capture: the command ended by signal 9: not by the kernel for want of the host's memory, of which it has counted nothing meanwhile, but by another program or by itself, as servers do whose worker failed: what was printed above says why then
echelon capture: nothing was captured; no process of the command asked for a GPU
exit 137
$ cd $T && P=$(dirname "$(command -v echelon)")/tests/pretend_program; echelon capture --pretend h100-sxm -o step -- "$P" 2>&1 | sed 's/[0-9]\{3,\}\././g'; sed -n 's/^\(kernel\|copy\|alloc\) [0-9]*/\1/p; /^name/p; /^device/p; /^end/p' step.*.pretend | sed 's/^alloc 0 0 [0-9]*/alloc 0 0/'
echelon capture: results of kernels are zeros; the program read 1 small one back (a loss, a sum, a count), and where it decides by it, a GPU goes another way
the answer is 0
echelon capture: wrote step..pretend; now: echelon run --trace step..pretend --device h100-sxm
device 84942979072 536870912 1 "h100-sxm"
alloc 0 0 1073741824 3 0
name 1 "_Z5scalePff"
kernel 0 0 1 1024 1 1 256 1 1 0
copy 0 0 4 3 1 0
end
$ : a program in C is not asked for what PyTorch would tell; cd $T && P=$(dirname "$(command -v echelon)")/tests/pretend_program; echelon capture --pretend h100-sxm -o plain -- "$P" by-name 2>/dev/null >&2; echelon advise --trace plain.*.pretend --device h100-sxm | grep -c "PyTorch itself"; rm plain.*
0
$ cd $T && P=$(dirname "$(command -v echelon)")/tests/pretend_program; echelon capture --pretend h100-sxm -o named -- "$P" by-name 2>&1 | sed 's/[0-9]\{3,\}\././g'; rm named.*
runtime: 0, 12000
allocated: 0; cos there; malloc there; cuNoSuchName missing
CuTe's names: cudaMalloc there, a launch there, cudaNoSuchName gone
echelon capture: wrote named..pretend; now: echelon run --trace named..pretend --device h100-sxm
$ cd $T && P=$(dirname "$(command -v echelon)")/tests; echelon capture --pretend h100-sxm --gpus 2 -o linked -- "$P/pretend_linked" "$P/libpretend_linked_late.so" "$P/libpretend_linked_forwards.so" 2>&1 | sed 's/[0-9]\{3,\}\././g'; sed -n 's/^kernel [0-9]*/kernel/p; /^name/p' linked.*.pretend; rm linked.*
early: 2 devices (0), allocated: 0, launched: 0, built for 12040
late: 2 devices (0), allocated: 0, launched: 0, built for 12040
forwards: 0 devices (35), allocated: 35, launched: 35, built for 12040
echelon capture: wrote linked..pretend; now: echelon run --trace linked..pretend --device h100-sxm
name 1 "early"
kernel 0 0 1 1024 1 1 256 1 1 0
name 2 "late"
kernel 0 0 2 1024 1 1 256 1 1 0
$ cd $T && P=$(dirname "$(command -v echelon)")/tests/pretend_program; for earlier in 0 1; do echelon capture --pretend h100-sxm -o two -- sh -c "'$P' by-name & '$P' by-name; wait" 2>&1 | sed -n 's/\.[0-9]*\.pretend/.PID.pretend/g; s/.*ranks of/ranks of/p'; done; rm two.*
ranks of one program wait for one another: echelon run --trace two.*.pretend --device h100-sxm
ranks of one program wait for one another: echelon run --trace two.PID.pretend two.PID.pretend --device h100-sxm
$ cd $T && P=$(dirname "$(command -v echelon)")/tests/pretend_program; echelon capture --pretend h100-sxm -o jax -- sh -c "mkdir jax.7.step; '$P' by-name" 2>&1 | sed -n 's/[0-9]\{3,\}\././g; /wrote/p'; rm -r jax.*
echelon capture: wrote jax.7.step; now: echelon run --trace jax.7.step --device h100-sxm
echelon capture: wrote jax..pretend; now: echelon run --trace jax..pretend --device h100-sxm
$ cd $T && P=$(dirname "$(command -v echelon)")/tests/pretend_program; echelon capture --pretend h100-sxm --set memories.hbm.capacity=70GiB -o large -- "$P" large 2>&1 | sed "s/[0-9]\{3,\}\././g; s,'*$P'*,PROGRAM,"; grep -c refused large.*.pretend
no room for 79 GiB
echelon capture: wrote large..pretend; now: echelon run --trace large..pretend --device h100-sxm --set device.memories.hbm.capacity=70GiB
echelon capture: it ran out of memory; would another setting of the allocator have done? echelon alloc large..pretend
echelon capture: all that it needs: echelon capture --pretend h100-sxm --set device.memories.hbm.capacity=70GiB --set device.memories.hbm.capacity=1TiB -o large.whole -- PROGRAM large
echelon capture: then, what would make it fit: echelon advise --trace large.whole.PID.pretend --device h100-sxm --set device.memories.hbm.capacity=70GiB
1
$ : a server is told of its cache, and of more GPUs; cd $T && P=$(dirname "$(command -v echelon)")/tests/pretend_program; rm -f large.*; echelon capture --pretend h100-sxm --set memories.hbm.capacity=70GiB -o large -- sh -c "'$P' large; echo 'name 999 \"server loads its weights\"' >>\$(ls large.*.pretend); exit 1" 2>&1 | sed -n 's/ -- sh .*/ -- SERVER/; s/^echelon capture: \(all\|or\)/\1/p'
all that it needs (its KV cache takes what is left of that, and is told apart): echelon capture --pretend h100-sxm --set device.memories.hbm.capacity=70GiB --set device.memories.hbm.capacity=1TiB -o large.whole -- SERVER
or on two GPUs, with tensor_parallel_size=2: echelon capture --pretend h100-sxm --set device.memories.hbm.capacity=70GiB --gpus 2 -o large.two -- SERVER
$ cd $T && P=$(dirname "$(command -v echelon)")/tests/pretend_program; for programs in big.7.step 'big.7.step big.7.other'; do echelon capture --pretend h100-sxm --set memories.hbm.capacity=70GiB -o big -- sh -c "mkdir $programs; '$P' large" 2>&1 | grep -o 'echelon advise.*'; rm -r big.*; done
echelon advise --trace big.whole.PID.step --device h100-sxm --set device.memories.hbm.capacity=70GiB
echelon advise --trace big.whole.PID.NAME --device h100-sxm --set device.memories.hbm.capacity=70GiB
$ cd $T && P=$(dirname "$(command -v echelon)")/tests/pretend_program; echelon capture --pretend h100-sxm -o keeps -- "$P" keeps 2>&1 | sed "s/[0-9]\{3,\}\././g"; grep -c refused keeps.*.pretend; rm keeps.*
20 GiB beside 70: no room, alone: there is room
echelon capture: wrote keeps..pretend; now: echelon run --trace keeps..pretend --device h100-sxm
1
$ cd $T && echelon capture --pretend l4 --gpus 2 -o smi -- sh -c 'nvidia-smi -L; nvidia-smi --query-gpu=index,gpu_name,memory.total,memory.used,power.draw,power.limit,clocks.sm,pci.bus_id,compute_cap --format=csv; nvidia-smi -i 1 --query-gpu=memory.free,utilization.gpu,driver_version --format=csv,noheader,nounits; nvidia-smi --query-compute-apps=pid,used_memory --format=csv; nvidia-smi | sed -n "3p;6,13p;\$p"; nvidia-smi -i 5; echo $?; nvidia-smi --query-gpu=colour --format=csv; echo $?; nvidia-smi topo -m; echo $?' 2>/dev/null
GPU 0: NVIDIA L4 (UUID: GPU-01000000-0000-0000-0000-000000000000)
GPU 1: NVIDIA L4 (UUID: GPU-02000000-0000-0000-0000-000000000000)
index, name, memory.total [MiB], memory.used [MiB], power.draw [W], power.limit [W], clocks.current.sm [MHz], pci.bus_id, compute_cap
0, NVIDIA L4, 22702 MiB, 0 MiB, 0.00 W, [N/A], 2040 MHz, 00000000:01:00.0, 8.9
1, NVIDIA L4, 22702 MiB, 0 MiB, 0.00 W, [N/A], 2040 MHz, 00000000:02:00.0, 8.9
22702, 0, 570.0.0
pid, used_gpu_memory [MiB]
| NVIDIA-SMI 570.0.0                Driver Version: 570.0.0        CUDA Version: 12.8     |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA L4                       On |   00000000:01:00.0 Off |                  N/A |
| N/A    0C    P0              0W /  N/A |       0MiB /  22702MiB  |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA L4                       On |   00000000:02:00.0 Off |                  N/A |
+-----------------------------------------------------------------------------------------+
No devices were found
6
Field "colour" is not a valid field to query.

2
nvidia-smi of a GPU that is not there: 'topo' is not known; expected -L, -i, --query-gpu, --query-compute-apps, --format, -l, -f
2
$ cd $T && P=$(dirname "$(command -v echelon)")/tests/pretend_program; echelon capture --pretend h100-sxm -o smi -- "$P" smi 2>/dev/null | sed 's/^[0-9]*, .*pretend_program/PID, pretend_program/'; rm smi.*
memory.used [MiB]
1536 MiB
PID, pretend_program, 1536 MiB
$ cd $T && P=$(dirname "$(command -v echelon)")/tests/pretend_program; echelon capture --pretend h100-sxm --find gib=1..200 -o find -- "$P" gib {gib} 2>&1 | sed 's/\.[0-9]\{3,\}\././g'; ls find.* | sed 's/\.[0-9]\{3,\}\././g'; rm find.*
echelon capture: gib 1: fits, 1 GiB of 79.1 GiB, 20.1 us
echelon capture: gib 200: runs out of memory
echelon capture: gib 14: fits, 14 GiB of 79.1 GiB, 20.1 us
echelon capture: gib 52: fits, 52 GiB of 79.1 GiB, 20.1 us
echelon capture: gib 101: runs out of memory
echelon capture: gib 76: fits, 76 GiB of 79.1 GiB, 20.1 us
echelon capture: gib 88: runs out of memory
echelon capture: gib 82: runs out of memory
echelon capture: gib 79: runs out of memory
echelon capture: gib 77: fits, 77 GiB of 79.1 GiB, 20.1 us
echelon capture: gib 78: fits, 78 GiB of 79.1 GiB, 20.1 us
Largest gib with which it fits h100-sxm: 78 (78 GiB of 79.1 GiB, 20.1 us). With 79 it runs out of memory.
           1  fits                    1 GiB of 79.1 GiB         20.1 us
          14  fits                    14 GiB of 79.1 GiB        20.1 us
          52  fits                    52 GiB of 79.1 GiB        20.1 us
          76  fits                    76 GiB of 79.1 GiB        20.1 us
          77  fits                    77 GiB of 79.1 GiB        20.1 us
          78  fits                    78 GiB of 79.1 GiB        20.1 us
          79  runs out of memory
          82  runs out of memory
          88  runs out of memory
         101  runs out of memory
         200  runs out of memory
Now: echelon run --trace find.78.pretend --device h100-sxm
Beyond: what held it, would another setting of the allocator have done? echelon alloc find.79.pretend
find.78.pretend
find.78.log
find.79.pretend
find.79.log
$ : two devices of one process: a step is that of both, and GeForces do not reach one another
$ cd $T && P=$(dirname "$(command -v echelon)")/tests/pretend_program; echelon capture --pretend h100-sxm --gpus 2 --find gib=1..2 -o two -- "$P" gib {gib} two 2>&1 | sed 's/\.[0-9]\{3,\}\././g'; rm two.*; for d in rtx-4090 l4; do echelon capture --pretend $d --gpus 2 -o two -- "$P" gib 1 two 2>/dev/null | grep peers; done; rm two.*
echelon capture: gib 1: fits, 1 GiB of 79.1 GiB, 40.3 us
echelon capture: gib 2: fits, 2 GiB of 79.1 GiB, 40.3 us
It fits h100-sxm with gib 1 as with 2; nothing between was tried, and what is asked for lies outside.
           1  fits                    1 GiB of 79.1 GiB         40.3 us
           2  fits                    2 GiB of 79.1 GiB         40.3 us
Now: echelon run --trace two.2.pretend --device h100-sxm
peers: 0, error 217
peers: 1, error 0
$ cd $T && P=$(dirname "$(command -v echelon)")/tests/pretend_program; echelon capture --pretend h100-sxm --set device.memories.hbm.capacity={cap}GiB --find cap=16..128:8 -o least -- "$P" gib 40 2>&1 | sed 's/\.[0-9]\{3,\}\././g'; rm least.*
echelon capture: cap 16: runs out of memory
echelon capture: cap 128: fits, 40 GiB of 127 GiB, 20.1 us
echelon capture: cap 40: runs out of memory
echelon capture: cap 64: fits, 40 GiB of 63.1 GiB, 20.1 us
echelon capture: cap 48: fits, 40 GiB of 47.1 GiB, 20.1 us
Least cap with which it fits h100-sxm: 48 (40 GiB of 47.1 GiB, 20.1 us). With 40 it runs out of memory.
          16  runs out of memory
          40  runs out of memory
          48  fits                    40 GiB of 47.1 GiB        20.1 us
          64  fits                    40 GiB of 63.1 GiB        20.1 us
         128  fits                    40 GiB of 127 GiB         20.1 us
Now: echelon run --trace least.48.pretend --device h100-sxm --set device.memories.hbm.capacity=48GiB
Beyond: what held it, would another setting of the allocator have done? echelon alloc least.40.pretend
$ cd $T && P=$(dirname "$(command -v echelon)")/tests/pretend_program; echelon capture --pretend h100-sxm --set device.memories.hbm.capacity={cap}GiB --find cap=12.5..16:0.25 -o least -- "$P" gib 13 2>&1 | sed 's/\.[0-9]\{3,\}\././g'; rm least.*
echelon capture: cap 12.50: runs out of memory
echelon capture: cap 16.00: fits, 13 GiB of 15.1 GiB, 20.1 us
echelon capture: cap 14.25: runs out of memory
echelon capture: cap 15.00: fits, 13 GiB of 14.1 GiB, 20.1 us
echelon capture: cap 14.50: fits, 13 GiB of 13.6 GiB, 20.1 us
Least cap with which it fits h100-sxm: 14.50 (13 GiB of 13.6 GiB, 20.1 us). With 14.25 it runs out of memory.
       12.50  runs out of memory
       14.25  runs out of memory
       14.50  fits                    13 GiB of 13.6 GiB        20.1 us
       15.00  fits                    13 GiB of 14.1 GiB        20.1 us
       16.00  fits                    13 GiB of 15.1 GiB        20.1 us
Now: echelon run --trace least.14.50.pretend --device h100-sxm --set device.memories.hbm.capacity=14.50GiB
Beyond: what held it, would another setting of the allocator have done? echelon alloc least.14.25.pretend
$ cd $T && P=$(dirname "$(command -v echelon)")/tests/pretend_program; echelon capture --pretend h100-sxm --find gib=80..99 -o none -- "$P" gib {gib} 2>&1 | sed 's/\.[0-9]\{3,\}\././g'; ls none.*.pretend | wc -l; rm none.*
echelon capture: gib 80: runs out of memory
echelon capture: gib 99: runs out of memory
It does not fit h100-sxm with gib 80 nor with 99; nothing between was tried, and what is asked for lies outside.
          80  runs out of memory
          99  runs out of memory
Now: what held it, would another setting of the allocator have done? echelon alloc none.80.pretend
2
$ cd $T && P=$(dirname "$(command -v echelon)")/tests/pretend_program; echelon capture --pretend h100-sxm --find=gib=1..20 -o all -- "$P" gib {gib} 2>&1 | sed 's/\.[0-9]\{3,\}\././g'; rm all.*
echelon capture: gib 1: fits, 1 GiB of 79.1 GiB, 20.1 us
echelon capture: gib 20: fits, 20 GiB of 79.1 GiB, 20.1 us
It fits h100-sxm with gib 1 as with 20; nothing between was tried, and what is asked for lies outside.
           1  fits                    1 GiB of 79.1 GiB         20.1 us
          20  fits                    20 GiB of 79.1 GiB        20.1 us
Now: echelon run --trace all.20.pretend --device h100-sxm
$ cd $T && P=$(dirname "$(command -v echelon)")/tests/pretend_program; echelon capture --pretend h100-sxm --find n=1..9 -o ends -- sh -c 'test {n} -lt 5 || exit 7; "$0"' "$P" 2>&1 | sed 's/\.[0-9]\{3,\}\././g'; rm ends.*
echelon capture: n 1: fits, 1 GiB of 79.1 GiB, 20.1 us
echelon capture: n 9: fails: exit status 7
echelon capture: n 3: fits, 1 GiB of 79.1 GiB, 20.1 us
echelon capture: n 5: fails: exit status 7
echelon capture: n 4: fits, 1 GiB of 79.1 GiB, 20.1 us
Largest n with which it fits h100-sxm: 4 (1 GiB of 79.1 GiB, 20.1 us). With 5 it fails: exit status 7, not for want of memory that it says: see ends.5.log.
           1  fits                    1 GiB of 79.1 GiB         20.1 us
           3  fits                    1 GiB of 79.1 GiB         20.1 us
           4  fits                    1 GiB of 79.1 GiB         20.1 us
           5  fails: exit status 7
           9  fails: exit status 7
Now: echelon run --trace ends.4.pretend --device h100-sxm
$ cd $T && echelon capture --pretend h100-sxm --find n=1..9 -o early -- sh -c 'echo {n} is no number of mine; exit 7' 2>&1; rm early.*
echelon capture: n 1: fails: exit status 7
echelon capture: with n 1 already the command fails, not for want of memory; it printed (early.1.log):
1 is no number of mine
$ cd $T && echelon capture --pretend h100-sxm --find n=1..9 -o idle -- true {n} 2>&1; rm idle.*
echelon capture: nothing was captured with n 1; no process of the command asked for the device: see idle.1.log
$ cd $T && echelon capture --pretend h100-sxm --find n=1..9 -- true
echelon capture: --find: {n} stands nowhere; expected it where the number goes: -- python train.py --n {n}
exit 2
$ cd $T && echelon capture --pretend h100-sxm --find n=9..1 -- true {n}
echelon: --find: 'n=9..1': expected NAME=FROM..TO or NAME=FROM..TO:STEP, numbers above 0, the smaller first: length=512..65536:128, share=0.5..0.95
exit 2
$ cd $T && echelon capture --pretend h100-sxm --find n=1..9:0 -- true {n}
echelon: --find: 'n=1..9:0': expected NAME=FROM..TO or NAME=FROM..TO:STEP, numbers above 0, the smaller first: length=512..65536:128, share=0.5..0.95
exit 2
$ cd $T && echelon capture --pretend h100-sxm --find 4..9 -- true {n}
echelon: --find: '4..9': expected NAME=FROM..TO or NAME=FROM..TO:STEP, numbers above 0, the smaller first: length=512..65536:128, share=0.5..0.95
exit 2
$ cd $T && echelon capture --find n=1..9 -- true {n}
echelon capture: --find is for a device that is not there; expected --pretend DEVICE, too
exit 2
$ cd $T && ls | sed 's/[0-9]\{2,\}/PID/'
large.PID.pretend
step.PID.pretend
$ cd $T && for d in p100 v100-16 a40 rtx-6000-ada h20 b300 rtx-pro-6000; do echelon capture --pretend $d -- sh -c 'echo "$ECHELON_PRETEND_DEVICE"' 2>/dev/null; done
id=p100;name=Tesla P100-PCIE-16GB;bytes=17072495002;context=278921216;devices=1;links=0;staged=0;major=6;minor=0;memory_bus_bits=5120;memory_clock_khz=572000;shared=65536;multiprocessors=56;clock_khz=1328500;host_rate=15750000000;l2=4194304
id=v100-16;name=Tesla V100-SXM2-16GB;bytes=16935682048;context=398458880;devices=1;links=6;staged=0;major=7;minor=0;memory_bus_bits=5120;memory_clock_khz=701600;shared=98304;multiprocessors=80;clock_khz=1530000;host_rate=15750000000;l2=6291456
id=a40;name=NVIDIA A40;bytes=47706349240;context=234881024;devices=1;links=4;staged=0;major=8;minor=6;memory_bus_bits=5120;memory_clock_khz=543750;shared=102400;multiprocessors=84;clock_khz=1740000;host_rate=31500000000;l2=6291456
id=rtx-6000-ada;name=NVIDIA RTX 6000 Ada Generation;bytes=51041271808;context=536870912;devices=1;links=0;staged=0;major=8;minor=9;memory_bus_bits=5120;memory_clock_khz=750000;shared=102400;multiprocessors=142;clock_khz=2505000;host_rate=31500000000;l2=100663296
id=h20;name=NVIDIA H20;bytes=102241696481;context=536870912;devices=1;links=18;staged=0;major=9;minor=0;memory_bus_bits=5120;memory_clock_khz=3125000;shared=233472;multiprocessors=78;clock_khz=1980000;host_rate=63000000000;l2=62914560
id=b300;name=NVIDIA B300 SXM6 AC;bytes=287429948867;context=536870912;devices=1;links=18;staged=0;major=10;minor=3;memory_bus_bits=5120;memory_clock_khz=5994000;shared=233472;multiprocessors=148;clock_khz=2032000;host_rate=63000000000;l2=132644864
id=rtx-pro-6000;name=NVIDIA RTX PRO 6000 Blackwell Workstation Edition;bytes=101973261025;context=536870912;devices=1;links=0;staged=0;major=12;minor=0;memory_bus_bits=5120;memory_clock_khz=1400000;shared=102400;multiprocessors=188;clock_khz=2617000;host_rate=63000000000;l2=134217728
$ for d in $(echelon list devices | awk '/^  .*NVIDIA/ {print $1}'); do echelon capture --pretend $d -- sh -c 'echo "$ECHELON_PRETEND_DEVICE" | tr ";" "\n" | grep -cE "^(bytes|context|major|multiprocessors|clock_khz|l2|host_rate|shared)=[1-9]"' 2>/dev/null; done | sort | uniq -c
     76 8
$ echelon capture --pretend h100-sxm --world 8 --rank 0,4 -- sh -c 'test -d "$ECHELON_PRETEND_MEETING" && echo rank $ECHELON_PRETEND_RANK of $ECHELON_PRETEND_WORLD' 2>/dev/null | sort
rank 0 of 8
rank 4 of 8
$ echelon capture --pretend h100-sxm --world 8 --rank 4,0 -- true
echelon capture: --rank 4,0: expected numbers less than --world, ascending from 0, at most 64 of them
exit 2
$ echelon capture --pretend h100-sxm --world 8 --rank 0,8 -- true
echelon capture: --rank 0,8: expected numbers less than --world, ascending from 0, at most 64 of them
exit 2
$ echelon capture --pretend h100-sxm --rank 0,1 -- true
echelon capture: --rank 0,1: expected --world N, too
exit 2
$ echelon capture --pretend h100-sxm --world 2 --rank 0,1 -- sh -c 'exit 3' 2>/dev/null
exit 3
$ echelon capture --pretend h100-sxm -o $T/none/x -- echo ran 2>&1 | sed "s|$T||g"
echelon capture: -o /none/x: nothing can be written to /none: No such file or directory
