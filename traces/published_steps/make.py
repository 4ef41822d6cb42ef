#!/usr/bin/env python3
"""Compiles the steps of steps.csv again that are not here, or those named: pip install 'jax[tpu]==0.6.1' absl-py; python make.py (half a minute each)."""
import os
import shutil
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
FUSION, SPARSE = "xla_tpu_enable_async_collective_fusion", "xla_tpu_enable_sparse_core_collective_offload"
FLAGS = {  # as in MaxText's benchmarks/xla_flags_library.py
    "DENSE": {"xla_tpu_scoped_vmem_limit_kib": 98304},
    "LAYOUT": {"xla_tpu_use_minor_sharding_for_major_trivial_input": "true", "xla_tpu_relayout_group_size_threshold_for_reduce_scatter": 1,
               "xla_tpu_assign_all_reduce_scatter_layout": "true"},
    "DATA": {"xla_tpu_enable_data_parallel_all_reduce_opt": "true", "xla_tpu_data_parallel_opt_different_sized_ops": "true"},
    "GATHER": {FUSION: "true", FUSION + "_fuse_all_gather": "true", FUSION + "_multiple_steps": "true", "xla_tpu_overlap_compute_collective_tc": "true",
               "xla_enable_async_all_gather": "true"},
    "SPARSE": {FUSION + "_fuse_all_reduce": "false", SPARSE + "_all_reduce": "true", "xla_tpu_enable_all_reduce_offload_tracing": "true",
               "xla_tpu_use_tc_device_shape_on_sc": "true", "xla_sc_enable_instruction_fusion": "false", "xla_sc_disjoint_spmem": "false",
               "xla_sc_disable_megacore_partitioning": "true"},
    "HOST": {"xla_tpu_enable_all_experimental_scheduler_features": "true", "xla_tpu_enable_scheduler_memory_pressure_tracking": "true",
             "xla_tpu_host_transfer_overlap_limit": 24, "xla_tpu_aggressive_opt_barrier_removal": "ENABLED", "xla_lhs_prioritize_async_depth_over_stall": "ENABLED",
             "xla_tpu_enable_ag_backward_pipelining": "true", "xla_should_allow_loop_variant_parameter_in_chain": "ENABLED",
             "xla_should_add_loop_invariant_op_in_chain": "ENABLED", "xla_max_concurrent_host_send_recv": 100, "xla_tpu_scheduler_percent_shared_memory_limit": 100,
             "xla_latency_hiding_scheduler_rerun": 2},
    "BUNDLE": {"xla_tpu_use_bundle_aware_cost_model_for_fusions": "false"},
    "PERMUTE": {"xla_tpu_megacore_fusion_allow_ags": "false", "xla_enable_async_collective_permute": "true", "xla_tpu_enable_ag_backward_pipelining": "true"},
    "SEPARATE": {"xla_jf_spmd_threshold_for_windowed_einsum_mib": 1000000},
}

with open(os.path.join(here, "steps.csv")) as table:
    rows = [line.strip().split(",", 5) for line in table if line[0] != "#"][1:]
for name, device, _, chips, flags, parameters in rows:
    kept = os.path.join(here, name + ".hlo.txt.gz")
    if name not in sys.argv[1:] and (sys.argv[1:] or os.path.exists(kept)):
        continue
    arguments = [part for pair in parameters.split() for part in ("--set", pair)]
    environment = dict(os.environ, LIBTPU_INIT_ARGS=" ".join(f"--{key}={value}" for group in flags.split() for key, value in FLAGS[group].items()))
    mesh = "fsdp=" + chips if chips.isdigit() else chips.replace(" ", ",")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "compile.py", "examples/llama_step.py", "--no-codegen", "--chip", device[4:], "--mesh", mesh, "-o", folder] + arguments,
                       cwd=os.path.join(here, "..", "capture"), env=environment, check=True, stdout=subprocess.DEVNULL)
        shutil.copy(os.path.join(folder, "program.hlo.txt.gz"), kept)
    print(name, flush=True)
