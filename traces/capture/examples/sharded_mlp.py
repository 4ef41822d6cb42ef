"""A training step of an MLP on a mesh: the batch is split over `data`, the hidden dimension over `model`.

python compile.py examples/sharded_mlp.py --chip v5e --mesh data=2,model=2 -o sharded_mlp.v5e
"""
import jax
import jax.numpy as jnp


def build(target, layers=4, width=1024, hidden=4096, batch=512):
    weights = {
        "up": target.array((layers, width, hidden), "bfloat16", spec=(None, "data", "model")),
        "down": target.array((layers, hidden, width), "bfloat16", spec=(None, "model", "data")),
    }

    def layer(x, w):
        hidden_states = jax.nn.gelu(x @ w["up"])
        x = x + hidden_states @ w["down"]
        return jax.lax.with_sharding_constraint(x, target.sharding("data", None)), None

    def loss(w, x):
        return jnp.mean(jnp.square(jax.lax.scan(layer, x, w)[0].astype(jnp.float32)))

    def step(w, x):
        value, gradients = jax.value_and_grad(loss)(w, x)
        return jax.tree.map(lambda p, g: p - 1e-3 * g, w, gradients), value

    return jax.jit(step, donate_argnums=0), (weights, target.array((batch, width), "bfloat16", spec=("data", None)))
