"""One token through a decoder whose layers, and their KV cache, go through `lax.scan`; the cache is donated.

`cache=scan`: as xs and ys. One is read while the other is written, so that the cache is held twice.
`cache=carry`: as the scan's carry, updated in place. Its layout is held to that of the argument; the compiler would choose another inside the loop.
"""
import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.layout import Layout, with_layout_constraint


def build(target, cache="scan", layers=8, batch=8, length=2048, heads=8, width=1024):
    bf16, head_dim = "bfloat16", 128
    kept = target.array((layers, batch, heads, length, head_dim), bf16)
    weights = {name: target.array((layers, width, heads * head_dim), bf16) for name in "qkv"}
    weights["o"] = target.array((layers, heads * head_dim, width), bf16)

    def layer(x, w, update, position):
        q, k, v = ((x @ w[name]).reshape(batch, heads, 1, head_dim) for name in "qkv")
        keys, values = update(k, v)
        scores = jnp.einsum("bhqd,bhtd->bhqt", q, keys).astype(jnp.float32) * head_dim**-0.5
        scores = jnp.where(jnp.arange(length) <= position, scores, -1e30)
        mixed = jnp.einsum("bhqt,bhtd->bhqd", jax.nn.softmax(scores).astype(x.dtype), values)
        return x + mixed.reshape(batch, heads * head_dim) @ w["o"]

    def by_scan(caches, weights, x, position):
        def body(x, xs):
            caches, w = xs
            new = []

            def update(*rows):
                new.extend(lax.dynamic_update_slice(c, row, (0, 0, position, 0)) for c, row in zip(caches, rows))
                return new

            return layer(x, w, update, position), tuple(new)

        x, caches = lax.scan(body, x, (caches, weights))
        return caches, x

    def by_carry(caches, weights, x, position):
        def body(carry, xs):
            x, caches = carry
            index, w = xs
            new = []

            def update(*rows):
                for c, row in zip(caches, rows):
                    c = lax.dynamic_update_slice(c, row[None], (index, 0, 0, position, 0))
                    new.append(with_layout_constraint(c, Layout(major_to_minor=(0, 1, 2, 3, 4))))
                return [lax.dynamic_index_in_dim(c, index, keepdims=False) for c in new]

            return (layer(x, w, update, position), tuple(new)), None

        (x, caches), _ = lax.scan(body, (x, caches), (jnp.arange(layers), weights))
        return caches, x

    step = {"scan": by_scan, "carry": by_carry}[cache]
    return jax.jit(step, donate_argnums=0), ((kept, kept), weights, target.array((batch, width), bf16), target.array((), "int32"))
