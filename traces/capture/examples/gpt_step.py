"""A training step (loss, gradients, SGD) of a small GPT, layers under jax.lax.scan or, with unroll=true, one after the other.

save = everything | nothing | inputs (the layer's input and its wide products) | offload (the layer's input goes to pinned host memory and
comes back) | offload_inputs (what `inputs` keeps goes to the host)
"""
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name


def build(target, layers=4, width=256, heads=4, vocabulary=1024, batch=4, length=256, save="everything", unroll=False):
    bf16 = "bfloat16"
    shapes = {"qkv": (width, 3 * width), "out": (width, width), "up": (width, 4 * width), "down": (4 * width, width)}
    if unroll:
        stacked = [{name: target.array(shape, bf16) for name, shape in shapes.items()} for _ in range(layers)]
    else:
        stacked = {name: target.array((layers, *shape), bf16) for name, shape in shapes.items()}
    weights = {"embedding": target.array((vocabulary, width), bf16), "layers": stacked}

    def normalise(x):
        x32 = x.astype(jnp.float32)
        return (x32 * jax.lax.rsqrt(jnp.mean(x32 * x32, -1, keepdims=True) + 1e-6)).astype(x.dtype)

    def layer(x, w):
        x = checkpoint_name(x, "layer_input")
        q, k, v = jnp.split(checkpoint_name(normalise(x) @ w["qkv"], "wide"), 3, -1)
        q, k, v = (a.reshape(batch, length, heads, width // heads) for a in (q, k, v))
        scores = jnp.einsum("bthd,bshd->bhts", q, k).astype(jnp.float32) * (width // heads) ** -0.5
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e30)
        mixed = jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores).astype(x.dtype), v).reshape(batch, length, width)
        x = x + mixed @ w["out"]
        return x + jax.nn.gelu(checkpoint_name(normalise(x) @ w["up"], "wide")) @ w["down"], None

    cse = unroll  # outside a loop, common subexpressions would undo the rematerialisation
    policies = jax.checkpoint_policies
    if save == "nothing":
        layer = jax.checkpoint(layer, prevent_cse=cse)
    elif save == "inputs":
        layer = jax.checkpoint(layer, prevent_cse=cse, policy=policies.save_only_these_names("layer_input", "wide"))
    elif save.startswith("offload"):
        layer = jax.checkpoint(layer, prevent_cse=cse, policy=policies.save_and_offload_only_these_names(
            names_which_can_be_saved=[], names_which_can_be_offloaded=["layer_input", "wide"] if save == "offload_inputs" else ["layer_input"],
            offload_src="device", offload_dst="pinned_host"))

    def layers_of(x, w):
        if not unroll:
            return jax.lax.scan(layer, x, w)[0]
        for one in w:
            x = layer(x, one)[0]
        return x

    def loss(w, tokens):
        x = layers_of(w["embedding"][tokens[:, :-1]], w["layers"])
        logits = (normalise(x) @ w["embedding"].T).astype(jnp.float32)
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], -1))

    def step(w, tokens):
        value, gradients = jax.value_and_grad(loss)(w, tokens)
        return jax.tree.map(lambda p, g: p - 1e-3 * g, w, gradients), value

    return jax.jit(step, donate_argnums=0), (weights, target.array((batch, length + 1), "int32"))


def main():
    """Three steps, as a program of its own: echelon capture --pretend h100-sxm -o gpt -- python gpt_step.py"""
    class Target:
        array = staticmethod(lambda shape, dtype: jax.ShapeDtypeStruct(shape, dtype))

    step, (weights, tokens) = build(Target)
    weights = jax.tree.map(lambda like: jnp.zeros(like.shape, like.dtype), weights)
    for _ in range(3):
        weights, loss = step(weights, jnp.zeros(tokens.shape, tokens.dtype))
        print(float(loss))


if __name__ == "__main__":
    main()
