"""Ten two-matrix layers under jax.lax.scan, differentiated: the program of JAX's host-offloading tutorial, in four ways.

offload = none | activations | parameters (activations too)
"""
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name


def build(target, offload="none", layers=10, width=256, hidden=1024, rows=256):
    host_weights = offload == "parameters"
    weights = (target.array((layers, width, hidden), host=host_weights), target.array((layers, hidden, width), host=host_weights))

    def layer(x, w):
        if host_weights:
            w = jax.tree.map(lambda a: jax.device_put(a, target.device), w)
        if offload != "none":
            x = checkpoint_name(x, "layer_input")
        return (x @ w[0]) @ w[1], None

    if offload != "none":
        policy = jax.checkpoint_policies.save_and_offload_only_these_names(
            names_which_can_be_saved=[], names_which_can_be_offloaded=["layer_input"], offload_src="device", offload_dst="pinned_host")
        layer = jax.checkpoint(layer, policy=policy, prevent_cse=False)

    def loss(w, x):
        return jnp.sum(jax.lax.scan(layer, x, w)[0])

    return jax.jit(jax.grad(loss)), (weights, target.array((rows, width)))
