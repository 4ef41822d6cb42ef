"""Causal attention by JAX's own Pallas kernels (splash attention), and its gradients: kernels that the program brings along. With --mesh context=4 four chips
share the queries; each has the rows of the mask that are its own, so that the last one has most to do."""
import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel, splash_attention_mask
from jax.sharding import PartitionSpec


def build(target, batch=1, heads=4, kv_heads=1, length=2048, width=128, block=512, gradients=True):
    chips = target.mesh.shape.get("context", 1)
    sizes = splash_attention_kernel.BlockSizes(**{"block_" + of: block for of in ("q", "kv", "kv_compute", "q_dkv", "kv_dkv", "kv_dkv_compute")},
                                               use_fused_bwd_kernel=True)
    mask = splash_attention_mask.MultiHeadMask([splash_attention_mask.CausalMask((length, length))] * heads)
    kernel = splash_attention_kernel.make_splash_mha(mask=mask, head_shards=1, q_seq_shards=chips, block_sizes=sizes)
    if chips == 1:
        attend, split = jax.vmap(kernel), None
    else:
        split, whole = PartitionSpec(None, None, "context"), PartitionSpec()
        rows = kernel.manual_sharding_spec(jax.sharding.NamedSharding(target.mesh, PartitionSpec(None, "context")))
        parts = jax.shard_map(lambda part, q, k, v: jax.vmap(part)(q, k, v), mesh=target.mesh, in_specs=(rows, split, whole, whole), out_specs=split,
                              check_vma=False)

        def attend(q, k, v):
            return parts(kernel, q, k, v)

    def loss(q, k, v):
        return jnp.sum(attend(q, k, v).astype(jnp.float32))

    query = target.array((batch, heads, length, width), "bfloat16", **({"spec": split} if split else {}))
    other = target.array((batch, kv_heads, length, width), "bfloat16")
    return jax.jit(jax.grad(loss, (0, 1, 2)) if gradients else attend), (query, other, other)
