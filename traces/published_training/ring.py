"""Ring and zigzag attention as zhuzilin/ring-flash-attention times them, `ring.py CHECKOUT`: 8,192 tokens a GPU, Llama 3.1 8B's heads, twice each the forward alone
and with gradients. PyTorch's own flash attention takes the place of the package's, which has to be compiled; its gradients are copied where that writes them."""
import sys
import types

import torch
import torch.distributed as dist

aten = torch.ops.aten


def _flash_attn_forward(q, k, v, dropout_p, softmax_scale, causal, window_size_left=-1, window_size_right=-1, softcap=0.0, alibi_slopes=None, return_softmax=False):
    out, lse, *_ = aten._flash_attention_forward(q, k, v, None, None, q.shape[1], k.shape[1], 0.0, causal, False, scale=softmax_scale)
    return out, lse, None, None


def _flash_attn_backward(dout, q, k, v, out, softmax_lse, dq, dk, dv, dropout_p, softmax_scale, causal, window_size_left=-1, window_size_right=-1, softcap=0.0,
                         alibi_slopes=None, deterministic=False, rng_state=None):
    seed = torch.zeros((), dtype=torch.int64)
    made = aten._flash_attention_backward(dout, q, k, v, out, softmax_lse, None, None, q.shape[1], k.shape[1], 0.0, causal, seed, seed, scale=softmax_scale)
    for gradient, value in zip((dq, dk, dv), made):
        gradient.copy_(value)


flash = types.ModuleType("flash_attn.flash_attn_interface")
flash._flash_attn_forward, flash._flash_attn_backward = _flash_attn_forward, _flash_attn_backward
flash._flash_attn_varlen_forward = flash._flash_attn_varlen_backward = None
sys.modules["flash_attn"], sys.modules["flash_attn.flash_attn_interface"] = types.ModuleType("flash_attn"), flash
package = types.ModuleType("ring_flash_attn")  # without what its own wants of transformers
package.__path__ = [sys.argv[1] + "/ring_flash_attn"]
sys.modules["ring_flash_attn"] = package
from ring_flash_attn.ring_flash_attn import ring_flash_attn_kvpacked_func  # noqa: E402
from ring_flash_attn.zigzag_ring_flash_attn import zigzag_ring_flash_attn_kvpacked_func  # noqa: E402

dist.init_process_group("nccl")
q = torch.empty(1, 8192, 32, 128, dtype=torch.bfloat16, device="cuda", requires_grad=True)
kv = torch.empty(1, 8192, 2, 8, 128, dtype=torch.bfloat16, device="cuda", requires_grad=True)
number = 0
for attention in ring_flash_attn_kvpacked_func, zigzag_ring_flash_attn_kvpacked_func:
    for gradients in False, False, True, True:
        torch.cuda.nvtx.range_push(f"step {number}")
        with torch.set_grad_enabled(gradients):
            out = attention(q, kv, causal=True)
        if gradients:
            q.grad = kv.grad = None
            out.backward(torch.empty_like(out))
        torch.cuda.nvtx.range_pop()
        number += 1
torch.cuda.synchronize()
