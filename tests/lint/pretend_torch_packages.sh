#!/bin/bash
# Operators of packages for PyTorch, servers and ranks on NVIDIA GPUs that are not there. Skipped (77) where python3 has no torch built with CUDA.
set -u
. "$(dirname "$0")/pretend_begin"
begin 'import torch; assert torch.version.cuda' "torch built with CUDA"

# Operators of other packages, kernels of CuTe's DSL, and FlashAttention 4 on it, by what their packages look like; and a worker that is killed by its own program.
mkdir -p "$work/cutlass/cutlass_dsl" "$work/flash_attn/cute"
touch "$work/cutlass/__init__.py" "$work/cutlass/cutlass_dsl/__init__.py" "$work/flash_attn/__init__.py" "$work/flash_attn/cute/__init__.py"
cat >"$work/cutlass/cutlass_dsl/tvm_ffi_provider.py" <<'PY'
class TVMFFIJitCompiledFunction:
    def __init__(self, name): self.function_name = name
    def __call__(self, *values): values[-1].fill_(1)
PY
cat >"$work/flash_attn/cute/interface.py" <<'PY'
import torch
from cutlass.cutlass_dsl.tvm_ffi_provider import TVMFFIJitCompiledFunction
torch.cuda.init()  # as it does while it is imported
def _flash_attn_fwd(q, k, v, cu_seqlens_q=None, cu_seqlens_k=None, seqused_k=None, causal=False):
    _flash_attn_fwd.compile_cache[0](q, k, v, out := torch.empty_like(q))
    return out
_flash_attn_fwd.compile_cache = {0: TVMFFIJitCompiledFunction("flash_attncuteflash_fwd_sm90_object_at_0")}
def _flash_attn_bwd(q, k, v, out, dout, lse, causal=False):
    TVMFFIJitCompiledFunction("flash_bwd_postprocess_object_at_0")(q, k)
def forward(*given, **named): return _flash_attn_fwd(*given, **named)
PY
mkdir -p "$work/vllm/model_executor/layers/fused_moe"
touch "$work/vllm/__init__.py" "$work/vllm/model_executor/__init__.py" "$work/vllm/model_executor/layers/__init__.py" "$work/vllm/model_executor/layers/fused_moe/__init__.py"
cat >"$work/vllm/model_executor/layers/fused_moe/fused_moe.py" <<'PY'
def invoke_fused_moe_triton_kernel(A, B, C, top_k): C.fill_(1)
PY
mkdir -p "$work/flashinfer"
touch "$work/flashinfer/__init__.py"
cat >"$work/flashinfer/decode.py" <<'PY'
class BatchDecodeWithPagedKVCacheWrapper:
    def plan(self, indptr, indices, last_page_len, num_qo_heads, num_kv_heads, head_dim, page_size, **more): pass
    def run(self, q, cache, *rest, return_lse=False): return q + 1
    begin_forward = plan
PY
cat >"$work/flashinfer/prefill.py" <<'PY'
class BatchPrefillWithPagedKVCacheWrapper:
    def plan(self, qo_indptr, paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len, num_qo_heads, num_kv_heads, head_dim_qk, page_size, causal=False): pass
    def run(self, q, cache, *rest, return_lse=False): return q + 1
class BatchPrefillWithRaggedKVCacheWrapper:
    def plan(self, qo_indptr, kv_indptr, num_qo_heads, num_kv_heads, head_dim_qk, causal=False): pass
    def run(self, q, k, v, *rest, return_lse=False): return q + 1
PY
sglang="$work/sglang/kernels/ops/attention"
mkdir -p "$sglang"
touch "$work/sglang/__init__.py" "$work/sglang/kernels/__init__.py" "$work/sglang/kernels/ops/__init__.py" "$sglang/__init__.py"
echo 'def decode_attention_fwd(q, k_buffer, v_buffer, o, kv_indptr): o.add_(q)' >"$sglang/decode_attention.py"
echo 'def extend_attention_fwd(q_extend, k_extend, v_extend, o, qo_indptr, kv_indptr, is_causal=True): o.add_(q_extend)' >"$sglang/extend_attention.py"
mkdir -p "$work/vllm/distributed/device_communicators"
touch "$work/vllm/distributed/__init__.py" "$work/vllm/distributed/device_communicators/__init__.py"
cat >"$work/vllm/distributed/device_communicators/custom_all_reduce.py" <<'PY'
class CustomAllreduce:
    def should_custom_ar(self, array): return True
PY
mkdir -p "$work/vllm/v1/worker/gpu"
touch "$work/vllm/v1/__init__.py" "$work/vllm/v1/worker/__init__.py" "$work/vllm/v1/worker/gpu/__init__.py"
cat >"$work/vllm/v1/worker/gpu/input_batch.py" <<'PY'
import torch
def get_num_sampled_and_rejected(num_sampled, seq_lens, cu_num_logits, idx_mapping, prefill_len): return num_sampled, torch.empty_like(num_sampled)
PY
cat >"$work/vllm/v1/worker/utils.py" <<'PY'
import torch
def allocate_kv_cache(kv_cache_config, device): return torch.zeros(12345 << 10, dtype=torch.int8, device=device)
PY
mkdir -p "$work/vllm/v1/core"
touch "$work/vllm/v1/core/__init__.py"
cat >"$work/vllm/v1/core/kv_cache_planning.py" <<'PY'
def _check_enough_kv_cache_memory(available, needed): raise ValueError("(16.0 GiB KV cache is needed). See https://docs")
def check_enough_kv_cache_memory(*given): _check_enough_kv_cache_memory(*given)
PY
cat >"$work/vllm/v1/worker/gpu_worker.py" <<'PY'
class Worker:
    def execute_model(self, scheduler_output): return scheduler_output
PY
mkdir -p "$work/transformers/generation"
touch "$work/transformers/__init__.py" "$work/transformers/generation/__init__.py"
cat >"$work/transformers/generation/utils.py" <<'PY'
import torch
class GenerationMixin:
    @staticmethod
    def _check_early_stop_heuristic(unsatisfied, scores): return unsatisfied & torch.any(scores > 0.5, dim=-1, keepdim=True)
PY
mkdir -p "$work/sglang/srt/managers"
touch "$work/sglang/srt/__init__.py" "$work/sglang/srt/managers/__init__.py"
cat >"$work/sglang/srt/managers/tp_worker.py" <<'PY'
class TpModelWorker:
    def forward_batch_generation(self, batch, forward_batch=None): return batch
PY
cat >"$work/attend.py" <<'PY'
import multiprocessing, sys, time, torch
from types import SimpleNamespace as Given
from flash_attn.cute import interface
from cutlass.cutlass_dsl.tvm_ffi_provider import TVMFFIJitCompiledFunction
@torch.library.custom_op("their::norm", mutates_args=["out"])
def norm(x: torch.Tensor, out: torch.Tensor, centred: bool) -> None:
    out.copy_(x)
def serve(ready):
    kept = torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
    ready.set()
    time.sleep(60)
if __name__ == "__main__":
    q, k = torch.empty(2, 64, 8, 32, dtype=torch.bfloat16, device="cuda"), torch.empty(2, 64, 2, 32, dtype=torch.bfloat16, device="cuda")
    interface.forward(q, k, k, causal=True)
    interface._flash_attn_bwd(q, k, k, q, q, None, causal=False)
    starts = torch.tensor([0, 40, 64], dtype=torch.int32).cuda()  # of two sequences
    interface.forward(q[0], k[0], k[0], cu_seqlens_q=starts, cu_seqlens_k=starts, causal=True)
    TVMFFIJitCompiledFunction("cutlass___call___norm_object_at_0")(q, k)
    norm(q, torch.empty_like(q), True)
    from vllm.model_executor.layers.fused_moe import fused_moe
    fused_moe.invoke_fused_moe_triton_kernel(q[0, :, 0], k[..., 0], C=q, top_k=2)
    from flashinfer.decode import BatchDecodeWithPagedKVCacheWrapper as Decode
    from flashinfer.prefill import BatchPrefillWithPagedKVCacheWrapper as Paged, BatchPrefillWithRaggedKVCacheWrapper as Ragged
    decode, paged, ragged = Decode(), Paged(), Ragged()
    cache, query = torch.empty(64, 2, 16, 2, 32, dtype=torch.bfloat16, device="cuda"), torch.empty(3, 8, 32, dtype=torch.bfloat16, device="cuda")
    pages, last = torch.tensor([0, 2, 2, 5], dtype=torch.int32), torch.tensor([7, 0, 16], dtype=torch.int32)  # of 23, none and 48 keys
    decode.begin_forward(pages, torch.arange(5, dtype=torch.int32), last, 8, 2, 32, 16)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        decode.run_return_lse(query, cache)
    decode.plan(pages.cuda(), torch.arange(5, dtype=torch.int32), last + 0, 8, 2, 32, 16)
    graph.replay()
    decode.plan(pages, torch.arange(5, dtype=torch.int32), last - torch.tensor([1, 0, 1], dtype=torch.int32), 8, 2, 32, 16)  # of 22, none and 47
    graph.replay()
    prompts, keys = torch.tensor([0, 3, 5], dtype=torch.int32), torch.tensor([0, 1, 2], dtype=torch.int32)
    paged.plan(prompts.cuda(), keys, torch.arange(2, dtype=torch.int32), torch.tensor([9, 4], dtype=torch.int32), 8, 2, 32, 16, causal=True)
    paged.run(torch.empty(5, 8, 32, dtype=torch.bfloat16, device="cuda"), (cache[:, 0], cache[:, 1]))
    ragged.plan(prompts, prompts, 8, 2, 32, causal=True)
    ragged.run(torch.empty(5, 8, 32, dtype=torch.bfloat16, device="cuda"), k[0], k[0])
    from sglang.kernels.ops.attention.decode_attention import decode_attention_fwd
    from sglang.kernels.ops.attention.extend_attention import extend_attention_fwd
    places = torch.empty(64, 2, 32, dtype=torch.bfloat16, device="cuda")
    decode_attention_fwd(query[:2], places, places, torch.empty_like(query[:2]), kv_indptr=torch.tensor([0, 11, 17, 17], dtype=torch.int32).cuda())  # a longer array
    new = torch.empty(5, 8, 32, dtype=torch.bfloat16, device="cuda")
    extend_attention_fwd(new, k[0, :5], k[0, :5], torch.empty_like(new), prompts.cuda(), torch.tensor([0, 4, 9], dtype=torch.int32).cuda())  # 3 behind 4, 2 behind 5
    from vllm.distributed.device_communicators.custom_all_reduce import CustomAllreduce
    assert not CustomAllreduce().should_custom_ar(q)  # NCCL's are told to be theirs
    from vllm.v1.worker.gpu.input_batch import get_num_sampled_and_rejected
    sampled, rejected = get_num_sampled_and_rejected(torch.empty(2, dtype=torch.int32, device="cuda"), None, torch.tensor([0, 4, 8], dtype=torch.int32).cuda(), None, None)
    assert sampled.tolist() == [1, 1] and rejected.tolist() == [3, 3]
    lengths, places, prompts = (torch.tensor(of, dtype=torch.int32).cuda() for of in ([5, 9], [1, 0], [9, 6]))  # of the first one more of its prompt is to come
    sampled, rejected = get_num_sampled_and_rejected(torch.ones(2, dtype=torch.int32, device="cuda"), lengths, torch.tensor([0, 1, 2], dtype=torch.int32).cuda(), places, prompts)
    assert sampled.tolist() == [0, 1] and rejected.tolist() == [0, 0]
    import ctypes
    asked = ctypes.PyDLL(None).pretend_known
    asked.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    assert asked(torch.zeros(4).pin_memory().data_ptr(), 16) and not asked(torch.empty(1 << 20, device="cuda").data_ptr(), 16)
    from transformers.generation.utils import GenerationMixin
    assert torch.any(GenerationMixin._check_early_stop_heuristic(torch.ones(2, 1, dtype=torch.bool, device="cuda"), torch.rand(2, 4, device="cuda")))  # beams go on
    from vllm.v1.worker.utils import allocate_kv_cache
    allocate_kv_cache(Given(num_blocks=32, kv_cache_groups=[Given(kv_cache_spec=Given(block_size=16))]), device="cuda")
    from vllm.v1.core.kv_cache_planning import check_enough_kv_cache_memory
    try:
        check_enough_kv_cache_memory(1, 2)
    except ValueError:
        pass
    from vllm.v1.worker.gpu_worker import Worker
    from sglang.srt.managers.tp_worker import TpModelWorker
    for tokens in {"a": 700, "b": 1}, {}:
        Worker().execute_model(Given(num_scheduled_tokens=tokens))
    for extends in True, False:
        TpModelWorker().forward_batch_generation(Given(seq_lens=[9, 9, 9], extend_num_tokens=27, forward_mode=Given(is_extend=lambda: extends)))
    spawn = multiprocessing.get_context("spawn")
    ready = spawn.Event()
    worker = spawn.Process(target=serve, args=(ready,))
    worker.start()
    ready.wait()
    worker.kill()
    worker.join()
PY
(cd "$work" && PYTHONPATH=. "$echelon" capture --pretend h100-sxm -o "$work/a" -- python3 attend.py >"$work/said" 2>&1) || { tail -20 "$work/said"; exit 1; }
for range in 'flash_attn::_flash_attn_forward, sizes = \[\[2, 64, 8, 32\], \[2, 64, 2, 32\], \[2, 64, 2, 32\], \[\], \[\]\], types = \[bf16, bf16, bf16, true, -\]' \
  'flash_attn::_flash_attn_backward, sizes = \[\[2, 64, 8, 32\], \[2, 64, 8, 32\], \[2, 64, 2, 32\], \[2, 64, 2, 32\], \[\], \[\]\], types = \[bf16, bf16, bf16, bf16, -, -\]' \
  'cute::flash_bwd_postprocess, sizes = \[\[2, 64, 8, 32\], \[2, 64, 2, 32\], \[\]\], types = \[bf16, bf16, -\]' 'cute::norm, sizes = .*' 'vllm::fused_moe_kernel, sizes = \[\[64, 32\], \[2, 64, 2\], \[2, 64, 8, 32\], \[\]\], types = \[bf16, bf16, bf16, -\]' \
  'their::norm, sizes = \[\[2, 64, 8, 32\], \[2, 64, 8, 32\], \[\], \[\]\], types = \[bf16, bf16, true, -\]'; do
  grep -q "^name [0-9]* \"$range\"$" "$work"/a.*.pretend || { echo "no range $range:"; grep '^name' "$work"/a.*.pretend; exit 1; }
done
grep -q '^lengths 2 64 64 40 1120$' "$work"/a.*.pretend || { echo "lengths are not told:"; grep '^lengths' "$work"/a.*.pretend; exit 1; }
# FlashInfer's: where it plans, and what a graph of it finds planned
for lengths in '2 0 71 48 0' '2 0 69 47 0' '2 5 13 9 31' '2 5 5 3 9'; do
  grep -q "^lengths $lengths$" "$work"/a.*.pretend || { echo "no lengths $lengths:"; grep '^lengths' "$work"/a.*.pretend; exit 1; }
done
grep -q '"flashinfer::paged_attention, sizes = \[\[3, 8, 32\], \[1, 2, 32\], \[1, 2, 32\], \[\]\], types = \[bf16, bf16, bf16, -\]"' "$work"/a.*.pretend || { echo "no range of FlashInfer's attention"; exit 1; }
# SGLang's in Triton: of a query each over 11 and 6 keys; of 3 queries over 5, 6 and 7 of 7 keys, and of 2 over 6 and 7 of 7
for lengths in '2 0 17 11 0' '2 5 14 7 31'; do
  grep -q "^lengths $lengths$" "$work"/a.*.pretend || { echo "no lengths $lengths:"; grep '^lengths' "$work"/a.*.pretend; exit 1; }
done
for sizes in '\[2, 8, 32\], \[64, 2, 32\], \[64, 2, 32\]' '\[5, 8, 32\], \[5, 2, 32\], \[5, 2, 32\]'; do
  grep -q "\"sglang::paged_attention, sizes = \[$sizes, \[\]\], types = \[bf16, bf16, bf16, -\]\"" "$work"/a.*.pretend || { echo "no range of SGLang's attention over $sizes"; exit 1; }
done
# Steps of servers, but those of no tokens
steps="$(grep -h -o 'server step: [^"]*' "$work"/a.*.pretend)"
[ "$steps" = "$(printf 'server step: %s\n' '701 tokens of 2 requests' '27 tokens of 3 requests' '3 tokens of 3 requests')" ] || { echo "steps of servers: $steps"; exit 1; }
# A server's cache, which is told as one, and that it has no room for it
grep -q '"server has no room: (16.0 GiB KV cache is needed)."' "$work"/a.*.pretend || { echo "a server's want of room is not told"; exit 1; }
for capture in "$work"/a.*.pretend; do
  grep -q '"server KV cache of 512 tokens"' "$capture" && "$echelon" run --trace "$capture" --device h100-sxm --engine native
done >"$work/cached" 2>&1
grep -q "the server's KV cache, 12.1 MiB, 512 tokens," "$work/cached" || { cat "$work/cached"; exit 1; }
grep -q 'cute::flash_attncute' "$work"/a.*.pretend && { echo "an attention's kernel has a range of its own"; exit 1; }
[ "$(ls "$work"/a.*.pickle | wc -l)" = 2 ] || { echo "a killed worker left no snapshot:"; ls "$work"; exit 1; }
[ "$(grep -c '^end$' "$work"/a.*.pretend | grep -c ':1$')" = 2 ] || { echo "a killed worker's capture has no end"; exit 1; }
# Groups of a mesh, which are named by hashes or by numbers: each gathers from as many ranks as it has
cat >"$work/mesh.py" <<'PY'
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

dist.init_process_group("cpu:gloo,cuda:nccl")
mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=("replicas", "shards"))
for name, ranks in (("shards", 4), ("replicas", 2)):
    dist.all_gather_into_tensor(torch.empty(4 * ranks, device="cuda"), torch.ones(4, device="cuda"), group=mesh[name].get_group())
PY
(cd "$work" && "$echelon" capture --pretend h100-sxm --world 8 --rank 0,3,6 -o "$work/mesh" -- python3 mesh.py >"$work/said" 2>&1) || { tail -20 "$work/said"; exit 1; }
for kind in '4 1' '2 4'; do
  [ "$(grep -c "^collective .* $kind$" "$work"/mesh.*.pretend | grep -c ':1$')" = 3 ] || { echo "not one gather of so many ranks, so far apart, in each: $kind"; grep '^collective' "$work"/mesh.*.pretend; exit 1; }
done
# Whole numbers that ranks tell one another, or put together: each has what the others have, of others that are not there its own
cat >"$work/counts.py" <<'PY'
import os
import torch
import torch.distributed as dist

dist.init_process_group("nccl")
rank, world = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
alone = world > 2
told = torch.tensor([7, 9] if rank == 0 else [-1, -1], device="cuda")
dist.broadcast(told, src=0)
assert told.tolist() == [7, 9]
own, gathered = torch.tensor([rank + 3], device="cuda"), torch.zeros(world, dtype=torch.int64, device="cuda")
dist.all_gather_into_tensor(gathered, own)
assert gathered.tolist() == ([3] * world if alone else [3, 4])
each = [torch.zeros(1, dtype=torch.int64, device="cuda") for _ in range(world)]
dist.all_gather(each, own)
assert torch.cat(each).tolist() == gathered.tolist()
for op, result in ((dist.ReduceOp.MAX, 3 if alone else 4), (dist.ReduceOp.SUM, 3 * world if alone else 7)):
    reduced = own.clone()
    dist.all_reduce(reduced, op)
    assert reduced.item() == result
dist.all_reduce(torch.ones(4, device="cuda"))
PY
(cd "$work" && "$echelon" capture --pretend h100-sxm --world 4 -o "$work/alone" -- python3 counts.py >"$work/said" 2>&1) || { tail -20 "$work/said"; exit 1; }
(cd "$work" && "$echelon" capture --pretend h100-sxm --gpus 2 -o "$work/both" -- python3 -m torch.distributed.run --nproc-per-node 2 counts.py >"$work/said" 2>&1) || { tail -20 "$work/said"; exit 1; }
