"""A training step of residual layers under jax.lax.scan with Adam; the optimizer's moments, stacked as the weights are, in device memory or on the host.

offload = none
        | whole   what one writes first: the moments come to the device, are updated and go back, as whole arrays
        | layers  the update is a jax.lax.fori_loop over the layers, which brings and sends back one layer's moments at a time
"""
import jax
import jax.numpy as jnp


def update(weights, moments, gradient):
    mean, square = moments
    gradient = gradient.astype(jnp.float32)
    mean = 0.9 * mean + 0.1 * gradient
    square = 0.999 * square + 0.001 * gradient * gradient
    return (weights - 1e-3 * mean / (jnp.sqrt(square) + 1e-8)).astype(weights.dtype), (mean, square)


def build(target, offload="none", layers=12, width=1024, rows=2048):
    on_host = offload != "none"
    shapes = {"up": (layers, width, 4 * width), "down": (layers, 4 * width, width)}
    weights = {name: target.array(shape, jnp.bfloat16) for name, shape in shapes.items()}
    moments = {name: tuple(target.array(shape, host=on_host) for _ in range(2)) for name, shape in shapes.items()}
    to_device = lambda tree: jax.tree.map(lambda a: jax.device_put(a, target.device), tree)
    to_host = lambda tree: jax.tree.map(lambda a: jax.device_put(a, target.host), tree)
    of_layer = lambda tree, i: jax.tree.map(lambda a: jax.lax.dynamic_index_in_dim(a, i, 0, keepdims=False), tree)
    put_layer = lambda tree, new, i: jax.tree.map(lambda a, b: jax.lax.dynamic_update_index_in_dim(a, b, i, 0), tree, new)

    @jax.checkpoint
    def layer(x, w):
        return x + jax.nn.gelu(x @ w["up"]) @ w["down"], None

    def loss(weights, x):
        return jnp.mean(jnp.square(jax.lax.scan(layer, x, weights)[0].astype(jnp.float32)))

    def updated(weights, moments, gradients):
        new = {name: update(weights[name], moments[name], gradients[name]) for name in weights}
        return {name: w for name, (w, _) in new.items()}, {name: m for name, (_, m) in new.items()}

    def step(weights, moments, x):
        gradients = jax.grad(loss)(weights, x)
        if offload == "none":
            return updated(weights, moments, gradients)
        if offload == "whole":
            weights, moments = updated(weights, to_device(moments), gradients)
            return weights, to_host(moments)

        def one(i, state):
            weights, moments = state
            w, m = updated(of_layer(weights, i), to_device(of_layer(moments, i)), of_layer(gradients, i))
            return put_layer(weights, w, i), put_layer(moments, to_host(m), i)

        return jax.lax.fori_loop(0, layers, one, (weights, moments))

    return jax.jit(step, donate_argnums=(0, 1)), (weights, moments, target.array((rows, width), jnp.bfloat16))
