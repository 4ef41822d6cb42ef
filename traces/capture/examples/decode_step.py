"""One token of attention over a KV cache, for every layer: what a decoding step reads.

The cache is donated and updated in place. head_dim = 64 does not fill the 128 lanes of a TPU's tiles.
"""
import jax
import jax.numpy as jnp


def build(target, layers=4, batch=8, length=2048, heads=16, head_dim=64):
    bf16 = "bfloat16"
    cache = target.array((batch, length, heads, head_dim), bf16)
    caches = [(cache, cache) for _ in range(layers)]
    width = heads * head_dim
    weights = [(target.array((width, 3 * width), bf16), target.array((width, width), bf16)) for _ in range(layers)]

    def step(caches, weights, x, position):
        new = []
        for (keys, values), (qkv, out) in zip(caches, weights):
            q, k, v = (a.reshape(batch, 1, heads, head_dim) for a in jnp.split(x @ qkv, 3, -1))
            keys = jax.lax.dynamic_update_slice(keys, k, (0, position, 0, 0))
            values = jax.lax.dynamic_update_slice(values, v, (0, position, 0, 0))
            scores = jnp.einsum("bqhd,bthd->bhqt", q, keys).astype(jnp.float32) * head_dim**-0.5
            scores = jnp.where(jnp.arange(length) <= position, scores, -1e30)
            mixed = jnp.einsum("bhqt,bthd->bqhd", jax.nn.softmax(scores).astype(x.dtype), values)
            x = x + mixed.reshape(batch, width) @ out
            new.append((keys, values))
        return new, x

    return jax.jit(step, donate_argnums=0), (caches, weights, target.array((batch, width), bf16), target.array((), "int32"))
