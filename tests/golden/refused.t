Programs that their compiler refused, as compile.py's notes beside them say: what no list of values shows does not fit; HBM is counted from the program.
$ echelon run --trace tests/golden/data/refused.hlo.txt --device tpu-v5e | sed -n 3,8p
  IT DOES NOT FIT. hbm 8 MiB of 15.8 GiB (0 %)
  The compiler refused it: RESOURCE_EXHAUSTED: E1001: Ran out of memory in memory space vmem while allocating on stack for %f.1. Scoped allocation with size 24.00M and limit 16.00M exceeded scoped vmem limit by 8.00M.
  What a kernel keeps on chip for its own windows and scratch has a limit, less than the 128 MiB there are. Smaller blocks or fewer buffers need less; a Pallas kernel may ask for more (pltpu.CompilerParams(vmem_limit_bytes=...)), XLA's own with --option xla_tpu_scoped_vmem_limit_kib=...
  What would make it fit: 'echelon advise', with the same --trace and --device.
  If it fitted, it would take 11.4 us, bound by hbm port (100 % of the critical path).
  No schedule of it is shorter than 11.4 us on this device; with no overlap at all it takes 11.4 us.
$ echelon run --trace tests/golden/data/refused.hlo.txt --device tpu-v5e --json >$T/json; code=$?; grep -e '"fits"' -e refused\" $T/json; exit $code
echelon: refused does not fit on tpu-v5e
  "title" : "refused",
  "fits" : false,
  "refused" : "RESOURCE_EXHAUSTED: E1001: Ran out of memory in memory space vmem while allocating on stack for %f.1. Scoped allocation with size 24.00M and limit 16.00M exceeded scoped vmem limit by 8.00M.",
      "fits" : true,
exit 3
$ echelon info tests/golden/data/refused.hlo.txt | grep refused
tests/golden/data/refused.hlo.txt: hlo
the compiler refused it: RESOURCE_EXHAUSTED: E1001: Ran out of memory in memory space vmem while allocating on stack for %f.1. Scoped allocation with size 24.00M and limit 16.00M exceeded scoped vmem limit by 8.00M.
$ echelon run --trace tests/golden/data/refused_hbm.hlo.txt --device tpu-v5e | grep -e fits -e refused
refused_hbm on tpu-v5e (TPU v5e, one chip (one core), 16 GiB HBM)
  It fits. hbm 8 MiB of 15.8 GiB (0 %)
  - the compiler refused it: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm.
$ echelon run --trace tests/golden/data/refused_other.hlo.txt --device tpu-v5e | grep -e fits -e refused
refused_other on tpu-v5e (TPU v5e, one chip (one core), 16 GiB HBM)
  It fits. hbm 8 MiB of 15.8 GiB (0 %)
  - the compiler refused it: INTERNAL: RET_CHECK failure (hlo_instruction.cc:390) an instruction should have 1 operands but sees 4
$ echelon run --trace tests/golden/data/unsplit.hlo.txt --device tpu-v5e --engine native 2>&1 | grep 'PARTITIONED\|partition\|advise'
  NOT PARTITIONED YET: what all devices have together DOES NOT FIT one. hbm 16.1 GiB of 15.8 GiB (102 %)
  Nor has a partitioner: what is told here is all 4 devices' work on one. What each of them runs, the compiler tells: 'echelon capture --pretend tpu-v5e --gpus 4 -- COMMAND'.
  - the module is not partitioned yet: its arrays are those of all 4 devices together, and so are the memory and the time told here (16.1 GiB of arguments, of which each device holds 4.06 GiB)
$ echelon run --trace tests/golden/data/unsplit.hlo.txt --device tpu-v5p --engine native 2>&1 | grep -A1 'It fits\|Nor has'
  It fits. hbm 16.1 GiB of 95.7 GiB (17 %)
  It takes 12.7 ms, bound by hbm port (65 % of the critical path).
--
  Nor has a partitioner: what is told here is all 4 devices' work on one. What each of them runs, the compiler tells: 'echelon capture --pretend tpu-v5p --gpus 4 -- COMMAND'.

