"""One Adam step over a stack of wide GELU layers; the optimizer's moments in device memory or pinned host memory.

offload = none | moments
"""
import jax
import jax.numpy as jnp


def build(target, offload="none", layers=4, width=7168, rows=128):
    on_host = offload == "moments"
    weights = tuple(target.array((width, width)) for _ in range(layers))
    moments = tuple((target.array((width, width), host=on_host), target.array((width, width), host=on_host)) for _ in range(layers))

    def loss(ws, x):
        for w in ws:
            x = jax.nn.gelu(x @ w)
        return jnp.mean(x * x)

    def step(ws, state, count, x):
        gradients = jax.grad(loss)(ws, x)
        new_ws, new_state = [], []
        for w, (mean, square), g in zip(ws, state, gradients):
            if on_host:
                mean, square = jax.device_put(mean, target.device), jax.device_put(square, target.device)
            mean = 0.9 * mean + 0.1 * g
            square = 0.999 * square + 0.001 * g * g
            corrected = (mean / (1 - 0.9**count)) / (jnp.sqrt(square / (1 - 0.999**count)) + 1e-8)
            new_ws.append(w - 1e-3 * corrected)
            if on_host:
                mean, square = jax.device_put(mean, target.host), jax.device_put(square, target.host)
            new_state.append((mean, square))
        return tuple(new_ws), tuple(new_state), count + 1

    return jax.jit(step, donate_argnums=(0, 1)), (weights, moments, target.array(()), target.array((rows, width)))
