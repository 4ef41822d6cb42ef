"""Training steps of several models with their activations kept, or each block under jax.checkpoint: what rematerialisation costs and saves.

model = gpt | llama | vit | resnet | moe | mamba
save = everything | nothing | dots (products are kept) | minimal (those of weights are) | offloaded (those are, on the host)
unroll = blocks one after the other instead of under jax.lax.scan (vit and resnet always are)
optimizer = sgd | adam; donate = whether weights and moments are updated in place
split = of several chips (--mesh data=4, or data=2,model=2) each holds its part of the batch (over data) and of every matrix (rows over data; columns, if
        there is one, over model), which products gather; else each holds all
"""
import jax
import jax.numpy as jnp


def normalise(x, scale):
    x32 = x.astype(jnp.float32)
    return (x32 * jax.lax.rsqrt(jnp.mean(x32 * x32, -1, keepdims=True) + 1e-6)).astype(x.dtype) * scale.astype(x.dtype)


def attend(q, k, v, causal):
    scores = jnp.einsum("bthd,bshd->bhts", q, k).astype(jnp.float32) * q.shape[-1] ** -0.5
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones((q.shape[1], k.shape[1]), bool)), scores, -1e30)
    return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores).astype(q.dtype), v)


def split_heads(x, heads):
    return x.reshape(*x.shape[:-1], heads, -1)


def gpt_block(x, w, heads, causal=True):
    q, k, v = (split_heads(a, heads) for a in jnp.split(normalise(x, w["norm1"]) @ w["qkv"], 3, -1))
    x = x + attend(q, k, v, causal).reshape(x.shape) @ w["out"]
    return x + jax.nn.gelu(normalise(x, w["norm2"]) @ w["up"]) @ w["down"]


def rotate(x):
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1])[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    cos, sin = (f(angles)[:, None, :].astype(x.dtype) for f in (jnp.cos, jnp.sin))
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def llama_block(x, w, heads):
    h = normalise(x, w["norm1"])
    q, k, v = rotate(split_heads(h @ w["q"], heads)), rotate(split_heads(h @ w["k"], heads // 4)), split_heads(h @ w["v"], heads // 4)
    k, v = (jnp.repeat(a, 4, 2) for a in (k, v))
    x = x + attend(q, k, v, True).reshape(x.shape) @ w["out"]
    h = normalise(x, w["norm2"])
    return x + (jax.nn.silu(h @ w["gate"]) * (h @ w["up"])) @ w["down"]


def moe_block(x, w, heads):
    q, k, v = (split_heads(a, heads) for a in jnp.split(normalise(x, w["norm1"]) @ w["qkv"], 3, -1))
    x = x + attend(q, k, v, True).reshape(x.shape) @ w["out"]
    h = normalise(x, w["norm2"])
    gates, chosen = jax.lax.top_k(jax.nn.softmax((h @ w["router"]).astype(jnp.float32)), 2)
    experts = w["up"].shape[0]
    capacity = 2 * x.shape[1] // experts
    one_hot = jax.nn.one_hot(chosen, experts, dtype=jnp.float32)  # batch, tokens, 2, experts
    place = (jnp.cumsum(one_hot.reshape(x.shape[0], -1, experts), 1) - 1).reshape(one_hot.shape) * one_hot
    dispatch = one_hot[..., None] * jax.nn.one_hot(place.astype(jnp.int32), capacity)
    combine = jnp.einsum("btk,btkec->btec", gates, dispatch).astype(x.dtype)
    inside = jnp.einsum("btec,btd->ebcd", dispatch.sum(2).astype(x.dtype), h)
    inside = jnp.einsum("ebcf,efd->ebcd", jax.nn.gelu(jnp.einsum("ebcd,edf->ebcf", inside, w["up"])), w["down"])
    return x + jnp.einsum("btec,ebcd->btd", combine, inside)


def mamba_block(x, w, heads):
    h, z = jnp.split(normalise(x, w["norm1"]) @ w["in"], 2, -1)
    h = jax.nn.silu(sum(jnp.pad(h, ((0, 0), (i, 0), (0, 0)))[:, : h.shape[1]] * w["conv"][i] for i in range(4)))
    delta = jax.nn.softplus((h @ w["delta"]).astype(jnp.float32))
    b, c = jnp.split((h @ w["bc"]).astype(jnp.float32), 2, -1)
    decay = jnp.exp(-delta[..., None] * jnp.exp(w["a"].astype(jnp.float32)))  # batch, tokens, inner, states
    inner = (delta * h.astype(jnp.float32))[..., None] * b[:, :, None, :]
    _, state = jax.lax.associative_scan(lambda one, two: (one[0] * two[0], two[0] * one[1] + two[1]), (decay, inner), axis=1)
    y = jnp.einsum("btns,bts->btn", state, c).astype(x.dtype)
    return x + (y * jax.nn.silu(z)) @ w["out"]


def convolve(x, w, stride=1):
    return jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def batch_norm(x, scale):
    x32 = x.astype(jnp.float32)
    mean = jnp.mean(x32, (0, 1, 2))
    var = jnp.mean(x32 * x32, (0, 1, 2)) - mean * mean
    return ((x32 - mean) * jax.lax.rsqrt(var + 1e-5)).astype(x.dtype) * scale.astype(x.dtype)


def residual_block(x, w, stride):
    y = jax.nn.relu(batch_norm(convolve(x, w["a"]), w["na"]))
    y = jax.nn.relu(batch_norm(convolve(y, w["b"], stride), w["nb"]))
    y = batch_norm(convolve(y, w["c"]), w["nc"])
    return jax.nn.relu(y + (batch_norm(convolve(x, w["s"], stride), w["ns"]) if "s" in w else x))


def build(target, model="gpt", save="everything", layers=8, width=1024, heads=8, vocabulary=16384, batch=8, length=1024, unroll=False, optimizer="sgd",
          donate=True, dtype="bfloat16", split=False):
    wide = 4 * width
    rows_over, columns_over = "data" if split else None, "model" if split and "model" in target.mesh.axis_names else None

    def weight(shape):
        return target.array(shape, "float32", spec=(None,) * (len(shape) - 2) + (rows_over, columns_over)[: len(shape)] if len(shape) > 1 else ())

    def given(shape, dtype):
        return target.array(shape, dtype, spec=(rows_over,))

    attention = {"qkv": (width, 3 * width), "out": (width, width)}
    norms = {"norm1": (width,), "norm2": (width,)}
    shapes = {
        "gpt": {**norms, **attention, "up": (width, wide), "down": (wide, width)},
        "vit": {**norms, **attention, "up": (width, wide), "down": (wide, width)},
        "llama": {**norms, "q": (width, width), "k": (width, width // 4), "v": (width, width // 4), "out": (width, width), "gate": (width, wide),
                  "up": (width, wide), "down": (wide, width)},
        "moe": {**norms, **attention, "router": (width, 8), "up": (8, width, 2 * width), "down": (8, 2 * width, width)},
        "mamba": {"norm1": (width,), "in": (width, 4 * width), "conv": (4, 2 * width), "delta": (2 * width, 2 * width), "bc": (2 * width, 32),
                  "a": (2 * width, 16), "out": (2 * width, width)},
    }
    policies = {"dots": jax.checkpoint_policies.dots_saveable,
                "minimal": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
                "offloaded": jax.checkpoint_policies.offload_dot_with_no_batch_dims("device", "pinned_host")}
    wrap = {"everything": lambda f, **how: f,
            "nothing": jax.checkpoint,
            **{name: lambda f, policy=policy, **how: jax.checkpoint(f, policy=policy, **how) for name, policy in policies.items()}}[save]

    if model == "resnet":
        stages = ((64, 3), (128, 4), (256, 6), (512, 3))
        blocks, last = [], 64
        for stage, (inner, n) in enumerate(stages):
            for k in range(n):
                w = {"a": (1, 1, last, inner), "na": (inner,), "b": (3, 3, inner, inner), "nb": (inner,), "c": (1, 1, inner, 4 * inner), "nc": (4 * inner,)}
                if k == 0:
                    w |= {"s": (1, 1, last, 4 * inner), "ns": (4 * inner,)}
                blocks.append({name: weight(shape) for name, shape in w.items()})
                last = 4 * inner
        strides = [2 if stage > 0 and k == 0 else 1 for stage, (_, n) in enumerate(stages) for k in range(n)]
        weights = {"stem": target.array((7, 7, 3, 64), "float32"), "blocks": blocks, "head": weight((last, 1000))}
        data = (given((batch, 224, 224, 3), dtype), given((batch,), "int32"))

        def loss(w, images, labels):
            cast = jax.tree.map(lambda p: p.astype(dtype), w)
            x = convolve(images, cast["stem"], 2)
            x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
            for one, stride in zip(cast["blocks"], strides):
                x = wrap(lambda x, w, stride=stride: residual_block(x, w, stride))(x, one)
            logits = (jnp.mean(x, (1, 2)) @ cast["head"]).astype(jnp.float32)
            return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], -1))
    else:
        one_by_one = unroll or model == "vit"
        block = {"gpt": gpt_block, "llama": llama_block, "moe": moe_block, "mamba": mamba_block, "vit": lambda x, w, heads: gpt_block(x, w, heads, False)}[model]
        block = wrap(lambda x, w, inner=block: inner(x, w, heads), prevent_cse=one_by_one) if save != "everything" else (
            lambda x, w, inner=block: inner(x, w, heads))
        if one_by_one:
            stacked = [{name: weight(shape) for name, shape in shapes[model].items()} for _ in range(layers)]
        else:
            stacked = {name: weight((layers, *shape)) if len(shape) > 1 else target.array((layers, *shape)) for name, shape in shapes[model].items()}
        rows = 768 if model == "vit" else vocabulary
        weights = {"embedding": weight((rows, width)), "layers": stacked, "norm": weight((width,)),
                   "head": weight((width, 1000 if model == "vit" else vocabulary))}
        if model == "vit":
            data = (given((batch, length, 768), dtype), given((batch,), "int32"))
        else:
            data = (given((batch, length), "int32"), given((batch, length), "int32"))

        def loss(w, inputs, labels):
            cast = jax.tree.map(lambda p: p.astype(dtype), w)
            x = inputs @ cast["embedding"] if model == "vit" else cast["embedding"][inputs]
            x = jax.lax.with_sharding_constraint(x, target.sharding(rows_over)) if split else x
            if one_by_one:
                for one in cast["layers"]:
                    x = block(x, one)
            else:
                x = jax.lax.scan(lambda x, w: (block(x, w), None), x, cast["layers"])[0]
            x = normalise(x, w["norm"])
            if model == "vit":
                x = jnp.mean(x, 1)
            logits = (x @ cast["head"]).astype(jnp.float32)
            return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1))

    def step(state, *data):
        value, gradients = jax.value_and_grad(loss)(state["weights"], *data)
        if optimizer == "sgd":
            return {"weights": jax.tree.map(lambda p, g: p - 1e-3 * g, state["weights"], gradients)}, value
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["first"], gradients)
        second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, state["second"], gradients)
        updated = jax.tree.map(lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), state["weights"], first, second)
        return {"weights": updated, "first": first, "second": second}, value

    state = {"weights": weights}
    if optimizer == "adam":
        state |= {"first": weights, "second": weights}
    return jax.jit(step, donate_argnums=0 if donate else ()), (state, *data)
