"""A training step whose batch alone is split over the chips: each holds all weights and Adam's moments, or a part of them.

python compile.py examples/data_parallel.py --mesh data=8 --chip v5e --no-codegen -o data_parallel_whole.v5e
python compile.py examples/data_parallel.py --mesh data=8 --chip v5e --no-codegen --set held=parts -o data_parallel_parts.v5e

held = whole | parts (ZeRO-1: weights are gathered in bfloat16 when the step begins, and each chip updates its part by its part of the gradients)"""
import jax
import jax.numpy as jnp


def normalise(x):
    y = x.astype("float32")
    return (y * jax.lax.rsqrt(jnp.mean(y * y, -1, keepdims=True) + 1e-6)).astype(x.dtype)


def block(x, w, heads):
    q, k, v = (a.reshape(*x.shape[:2], heads, -1) for a in jnp.split(normalise(x) @ w["qkv"], 3, -1))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype("float32") * q.shape[-1] ** -0.5
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e30)
    x = x + jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1).astype(x.dtype), v).reshape(x.shape) @ w["out"]
    return x + jax.nn.gelu(normalise(x) @ w["up"]) @ w["down"]


def build(target, held="whole", layers=6, width=1024, heads=8, vocabulary=8192, batch=32, length=256):
    one = {"qkv": (width, 3 * width), "out": (width, width), "up": (width, 4 * width), "down": (4 * width, width)}
    shapes = {"embedding": (vocabulary, width), "blocks": [one] * layers}
    parts, whole = target.sharding("data"), target.sharding()
    is_shape = lambda s: isinstance(s, tuple)
    spec = ("data",) if held == "parts" else ()
    weights, first, second = (jax.tree.map(lambda s: target.array(s, "float32", spec=spec), shapes, is_leaf=is_shape) for _ in range(3))
    tokens, labels = (target.array((batch, length), "int32", spec=("data",)) for _ in range(2))

    def loss(w, tokens, labels):
        x = w["embedding"][tokens]
        for one in w["blocks"]:
            x = block(x, one, heads)
        logits = (normalise(x) @ w["embedding"].T).astype("float32")
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1))

    def step(weights, first, second, tokens, labels):
        used = jax.tree.map(lambda p: jax.lax.with_sharding_constraint(p.astype("bfloat16"), whole), weights)
        value, gradients = jax.value_and_grad(loss)(used, tokens, labels)
        if held == "parts":
            gradients = jax.tree.map(lambda g: jax.lax.with_sharding_constraint(g, parts), gradients)

        def update(p, g, m, v):
            g = g.astype("float32")
            m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
            return p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), m, v
        leaves, tree = jax.tree.flatten(weights)
        new = [update(*all) for all in zip(leaves, *(jax.tree.leaves(t) for t in (gradients, first, second)))]
        return *(jax.tree.unflatten(tree, [n[i] for n in new]) for i in range(3)), value
    kept = parts if held == "parts" else whole
    return jax.jit(step, donate_argnums=(0, 1, 2), out_shardings=(kept, kept, kept, whole)), (weights, first, second, tokens, labels)
