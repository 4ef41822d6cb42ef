A Pallas kernel that keeps more on chip than it may: what it keeps, and what would make room, where the compiler refused it and before any has seen it.
$ echelon run --trace tests/golden/data/crowded.hlo.txt --device tpu-v5e | sed -n 3,14p
  IT DOES NOT FIT. hbm 384 MiB of 15.8 GiB (2 %), vector 48 MiB of 128 MiB (38 %)
  The compiler refused it: RESOURCE_EXHAUSTED: E1001: CompileTimeScopedVmemOom: Ran out of memory in memory space vmem while allocating on stack for %matmul.1. Scoped allocation with size 48.00M and limit 16.00M exceeded scoped vmem limit by 32.00M.
  matmul.1 keeps 48 MiB of vector memory (VMEM) while it runs, and may keep 16 MiB of the 128 MiB that there are:
       16 MiB  out_specs[0]       2 blocks of bf16[2048,2048]
       16 MiB  scratch_shapes[0]  f32[2048,2048]
        8 MiB  in_specs[0]        2 blocks of bf16[2048,1024]
        8 MiB  in_specs[1]        2 blocks of bf16[1024,2048]
    and part of 16 MiB of vectors (results of products, or what is summed up and used again) that no registers hold: the compiler spills them
  What would make room for it
    - a higher limit: compiler_params=pltpu.CompilerParams(vmem_limit_bytes=...), 48 MiB at the least (64 MiB with all that it may spill); or for all kernels --xla_tpu_scoped_vmem_limit_kib in LIBTPU_INIT_ARGS (here --set device.memories.vector.kernel_reserved=...). XLA keeps so much less there from one kernel to the next
    - blocks of 512 instead of 2048 along dimension 0 of the grid, and of 1024 instead of 2048 along dimension 1 of the grid: 10 MiB, and up to 2 MiB of registers
  If it fitted, it would take 5.81 ms, bound by matrix unit (99 % of the critical path).
$ echelon run --trace tests/golden/data/crowded_before.hlo.txt --device tpu-v5e --pass place | sed -n 4,9p
  IT DOES NOT FIT. hbm 384 MiB of 15.8 GiB (2 %), vector 48 MiB of 128 MiB (38 %)
  matmul.1 keeps 48 MiB of vector memory (VMEM) while it runs, and may keep 16 MiB of the 128 MiB that there are:
       16 MiB  out_specs[0]       2 blocks of bf16[2048,2048]
       16 MiB  scratch_shapes[0]  f32[2048,2048]
        8 MiB  in_specs[0]        2 blocks of bf16[2048,1024]
        8 MiB  in_specs[1]        2 blocks of bf16[1024,2048]
$ echelon run --trace tests/golden/data/crowded_before.hlo.txt --device tpu-v5e --pass place --set device.memories.vector.kernel_reserved=64MiB | sed -n 5p
  It fits. hbm 384 MiB of 15.8 GiB (2 %), vector 48 MiB of 128 MiB (38 %)
$ echelon advise --trace tests/golden/data/crowded.hlo.txt --device tpu-v5e; echo exit $?
crowded on tpu-v5e (TPU v5e, one chip (one core), 16 GiB HBM)

  IT DOES NOT FIT. Of hbm it does, 384 MiB of 15.8 GiB are needed; a kernel has too little room on chip.
  matmul.1 keeps 48 MiB of vector memory (VMEM) while it runs, and may keep 16 MiB of the 128 MiB that there are:
       16 MiB  out_specs[0]       2 blocks of bf16[2048,2048]
       16 MiB  scratch_shapes[0]  f32[2048,2048]
        8 MiB  in_specs[0]        2 blocks of bf16[2048,1024]
        8 MiB  in_specs[1]        2 blocks of bf16[1024,2048]
    and part of 16 MiB of vectors (results of products, or what is summed up and used again) that no registers hold: the compiler spills them
  What would make room for it
    - a higher limit: compiler_params=pltpu.CompilerParams(vmem_limit_bytes=...), 48 MiB at the least (64 MiB with all that it may spill); or for all kernels --xla_tpu_scoped_vmem_limit_kib in LIBTPU_INIT_ARGS (here --set device.memories.vector.kernel_reserved=...). XLA keeps so much less there from one kernel to the next
    - blocks of 512 instead of 2048 along dimension 0 of the grid, and of 1024 instead of 2048 along dimension 1 of the grid: 10 MiB, and up to 2 MiB of registers
exit 3
$ echelon run --trace tests/golden/data/crowded.hlo.txt --device tpu-v5e --json 2>/dev/null | grep -A4 crowded.*{
  "crowded" : {
    "kernel" : "matmul.1",
    "kept_bytes" : 50331648,
    "limit_bytes" : 16777216
  },
