"""A training step (loss, gradients, AdamW) of a Llama or of GPT-3 (without its biases), with the parameters that MaxText's published recipes name.

python compile.py examples/llama_step.py --chip v6e --mesh fsdp=8 -o llama.v6e --no-codegen --set model=llama3.1-8b --set batch=3

Weights and moments are split over `fsdp`, layers run under jax.lax.scan with splash attention. `save` and `offload` list by name what the forward pass keeps
for the backward one, in HBM or in pinned host memory; the rest is computed again. `batch` counts sequences a chip. `transpose` splits the feed-forward weights
along their other dimension (fsdp_transpose). A second axis `tensor` (--mesh fsdp=16,tensor=4) splits heads, hidden features, the vocabulary, and the width of
what layers hand on. `block` is that of attention's kernels, or six: of queries and keys going forward, and for the gradients of keys and of queries. `tiles`
computes the loss in so many parts of the sequence. `rows` asks for activations in row-major layout, where a compiler would turn what it offloads round on the
way.
"""
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel, splash_attention_mask
from jax.sharding import PartitionSpec

MODELS = {  # width, layers, heads, key and value heads, hidden, vocabulary, base of the rotary frequencies; heads are 128 wide
    "llama3.1-8b": (4096, 32, 32, 8, 14336, 128256, 500000),
    "llama3.1-70b": (8192, 80, 64, 8, 28672, 128256, 500000),
    "llama3.1-405b": (16384, 126, 128, 8, 53248, 128256, 500000),
    "llama2-7b": (4096, 32, 32, 32, 11008, 32000, 10000),
    "llama2-70b": (8192, 80, 64, 8, 28672, 32000, 10000),
    "mistral-7b": (4096, 32, 32, 8, 14336, 32000, 10000),
    "gpt3-175b": (12288, 96, 96, 96, 49152, 50304, None),  # no rotation: GPT-3's layers
    "maxtext-16b": (4096, 32, 64, 64, 28672, 32000, 10000),
    "maxtext-32b": (8192, 32, 64, 64, 28672, 32000, 10000),
    "maxtext-64b": (8192, 64, 64, 64, 28672, 32000, 10000),
    "maxtext-128b": (8192, 64, 128, 128, 57344, 32000, 10000),
    "maxtext-256b": (16384, 64, 128, 128, 57344, 32000, 10000),
    "maxtext-512b": (16384, 128, 128, 128, 57344, 32000, 10000),
    "maxtext-1024b": (16384, 128, 256, 256, 114688, 32000, 10000),
}
HEAD = 128


def build(target, model="llama3.1-8b", batch=1, length=8192, save="", offload="decoder_layer_input,out_proj,query_proj,key_proj,value_proj", block=2048, fused=True,
          weights="float32", transpose=False, rows=False, tiles=1):
    width, layers, heads, kv_heads, hidden, vocabulary, base = MODELS[model]
    f32, bf16 = jnp.float32, jnp.bfloat16
    t = "tensor" if "tensor" in target.mesh.axis_names else None
    split = PartitionSpec("fsdp", t)
    across = (None, None, "fsdp") if transpose else (None, "fsdp", t)
    stacked = {"q": ((width, heads, HEAD), (None, "fsdp", t)), "k": ((width, kv_heads, HEAD), (None, "fsdp", t)), "v": ((width, kv_heads, HEAD), (None, "fsdp", t)),
               "o": ((heads, HEAD, width), (None, t, None, "fsdp")), "gate": ((width, hidden), across), "up": ((width, hidden), across),
               "down": ((hidden, width), (None, "fsdp") if transpose else (None, t, "fsdp")), "norm1": ((width,), (None, t)), "norm2": ((width,), (None, t))}
    gpt = base is None
    if gpt:
        del stacked["gate"]

    def arrays():
        ends = {"positions": target.array((length, width), weights, spec=(None, "fsdp"))} if gpt else {
            "logits": target.array((width, vocabulary), weights, spec=("fsdp", t))}
        return {"layers": {name: target.array((layers, *shape), weights, spec=spec) for name, (shape, spec) in stacked.items()},
                "embedding": target.array((vocabulary, width), weights, spec=(t, "fsdp")), "norm": target.array((width,), weights, spec=(t,)), **ends}

    state = {"weights": arrays(), "mean": arrays(), "square": arrays(), "count": target.array((), "int32")}
    tokens = target.array((batch * target.mesh.size, length), "int32", spec=("fsdp",))

    def placed(x, dimension=2):  # which one is split over `tensor`
        x = jax.lax.with_sharding_constraint(x, target.sharding("fsdp", *[None] * (dimension - 1), t))
        if rows:
            from jax.experimental.layout import Layout, with_layout_constraint
            x = with_layout_constraint(x, Layout((0, 1, 2)))
        return x

    def normalise(x, scale):
        y = x.astype(f32)
        y = y - jnp.mean(y, -1, keepdims=True) if gpt else y
        return (y * jax.lax.rsqrt(jnp.mean(jnp.square(y), -1, keepdims=True) + 1e-5)).astype(bf16) * scale.astype(bf16)

    def rotate(x, positions):
        if gpt:
            return x
        angle = positions[:, :, None, None] / base ** (2 * jnp.arange(HEAD // 2) / HEAD)
        sin, cos = jnp.sin(angle).astype(bf16), jnp.cos(angle).astype(bf16)
        first, second = jnp.split(x, 2, -1)
        return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1)

    blocks = [min(int(b), length) for b in str(block).split(",")]
    q, kv, q_dkv, kv_dkv, q_dq, kv_dq = blocks if len(blocks) == 6 else blocks * 6
    sizes = splash_attention_kernel.BlockSizes(block_q=q, block_kv=kv, block_kv_compute=kv, block_q_dkv=q_dkv, block_kv_dkv=kv_dkv, block_kv_dkv_compute=kv_dkv,
                                               block_q_dq=None if fused else q_dq, block_kv_dq=None if fused else kv_dq, use_fused_bwd_kernel=fused)
    mask = splash_attention_mask.MultiHeadMask([splash_attention_mask.CausalMask((length, length))] * heads)
    kernel = splash_attention_kernel.make_splash_mha(mask=mask, head_shards=1, q_seq_shards=1, block_sizes=sizes, residual_checkpoint_name="context")

    def attend(q, k, v, segments):
        return jax.vmap(kernel)(q, k, v, splash_attention_kernel.SegmentIds(segments, segments))

    attend = jax.shard_map(attend, mesh=target.mesh, in_specs=(split,) * 3 + (PartitionSpec("fsdp"),), out_specs=split, check_vma=False)

    def project(x, w, how, name):
        return checkpoint_name(jnp.einsum(how, x, w.astype(bf16)), name)

    def layer(x, w, positions, segments):
        x = placed(checkpoint_name(placed(x), "decoder_layer_input"))
        y = placed(normalise(x, w["norm1"]))
        q, k, v = (jnp.einsum("bld,dhk->blhk", y, w[name].astype(bf16)) for name in "qkv")
        q = checkpoint_name(rotate(q, positions), "query_proj") * HEAD ** -0.5
        k = checkpoint_name(rotate(k, positions), "key_proj")
        v = checkpoint_name(v, "value_proj")
        mixed = attend(*(jnp.swapaxes(a.astype(bf16), 1, 2) for a in (q, k, v)), segments)
        x = x + placed(project(jnp.swapaxes(mixed, 1, 2), w["o"], "blhk,hkd->bld", "out_proj"))
        y = placed(normalise(x, w["norm2"]))
        up = project(y, w["up"], "bld,df->blf", "mlpwi_1")
        y = jax.nn.gelu(up) if gpt else jax.nn.silu(project(y, w["gate"], "bld,df->blf", "mlpwi_0")) * up
        y = placed(y) if t else y
        return placed(x + placed(project(y, w["down"], "blf,fd->bld", "mlpwo")))

    def names(text):
        return [name for name in str(text).split(",") if name not in ("", "none")]

    policy = jax.checkpoint_policies.save_and_offload_only_these_names(names_which_can_be_saved=names(save), names_which_can_be_offloaded=names(offload),
                                                                       offload_src="device", offload_dst="pinned_host")

    def loss(w, inputs, targets, positions, segments):
        x = placed(jnp.einsum("blv,vd->bld", jax.nn.one_hot(inputs, vocabulary, dtype=bf16), w["embedding"].astype(bf16)))
        x = x + w["positions"].astype(bf16) if gpt else x
        head = w["embedding"].T if gpt else w["logits"]
        body = jax.checkpoint(lambda x, w: (layer(x, w, positions, segments), None), prevent_cse=False, policy=policy)
        x, _ = jax.lax.scan(body, x, w["layers"])

        def lose(x, targets):
            logits = placed(jnp.einsum("bld,dv->blv", normalise(x, w["norm"]), head.astype(bf16))).astype(f32)
            return jax.nn.logsumexp(logits, -1) - jnp.sum(logits * jax.nn.one_hot(targets, vocabulary), -1)

        if tiles > 1:
            parts = [jnp.moveaxis(a.reshape(a.shape[0], tiles, -1, *a.shape[2:]), 1, 0) for a in (x, targets)]
            lost = jnp.moveaxis(jax.lax.map(jax.checkpoint(lambda part: lose(*part)), parts), 0, 1).reshape(targets.shape)
        else:
            lost = lose(x, targets)
        return jnp.sum(lost * (segments != 0)) / jnp.maximum(jnp.sum(segments != 0), 1)

    def step(state, inputs, targets, positions, segments):
        value, g = jax.value_and_grad(loss)(state["weights"], inputs, targets, positions, segments)
        size = jnp.sqrt(sum(jnp.sum(jnp.square(x.astype(f32))) for x in jax.tree.leaves(g)))
        g = jax.tree.map(lambda x: jnp.where(size < 1, x, x / size.astype(x.dtype)), g)
        n = state["count"] + 1
        mean = jax.tree.map(lambda g, m: (0.1 * g + 0.9 * m).astype(m.dtype), g, state["mean"])
        square = jax.tree.map(lambda g, s: (0.05 * g * g + 0.95 * s).astype(s.dtype), g, state["square"])
        c1, c2 = 1 - 0.9 ** n.astype(f32), 1 - 0.95 ** n.astype(f32)
        w = jax.tree.map(lambda w, m, s: (w - 3e-5 * (m / c1 / (jnp.sqrt(s / c2) + 1e-8) + 0.1 * w)).astype(w.dtype), state["weights"], mean, square)
        return {"weights": w, "mean": mean, "square": square, "count": n}, {"loss": value, "size": size}

    shardings = jax.tree.map(lambda a: a.sharding, state)
    return jax.jit(step, donate_argnums=0, out_shardings=(shardings, None)), (state, tokens, tokens, tokens, tokens)
