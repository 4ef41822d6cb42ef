"""Causal attention by JAX's own Pallas kernels (splash attention), and its gradients: kernels that the program brings along."""
import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel, splash_attention_mask


def build(target, batch=1, heads=4, kv_heads=1, length=2048, width=128, block=512, gradients=True):
    sizes = splash_attention_kernel.BlockSizes(**{"block_" + of: block for of in ("q", "kv", "kv_compute", "q_dkv", "kv_dkv", "kv_dkv_compute")},
                                               use_fused_bwd_kernel=True)
    mask = splash_attention_mask.MultiHeadMask([splash_attention_mask.CausalMask((length, length))] * heads)
    attend = jax.vmap(splash_attention_kernel.make_splash_mha(mask=mask, head_shards=1, q_seq_shards=1, block_sizes=sizes))

    def loss(q, k, v):
        return jnp.sum(attend(q, k, v).astype(jnp.float32))

    query, other = (target.array((batch, n, length, width), "bfloat16") for n in (heads, kv_heads))
    return jax.jit(jax.grad(loss, (0, 1, 2)) if gradients else attend), (query, other, other)
