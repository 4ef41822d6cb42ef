"""The matrix products of a transformer, one at a time, in bfloat16: what the published device times of traces/measured_v6e are of.

part = gemm        rows x k by k x n
       ffn_gated   a decoder's feed-forward: k wide, one product for gate and up (2n wide), SiLU, and one down
       ffn_erf     an encoder's feed-forward: k wide, n inside, biases, and GELU by the error function
"""
import jax
import jax.numpy as jnp


def build(target, part="gemm", rows=128, k=4096, n=4096):
    def gemm(x, w):
        return x @ w

    def ffn_gated(x, gate_up, down):
        gate, up = jnp.split(x @ gate_up, 2, axis=-1)
        return (jax.nn.silu(gate) * up) @ down

    def ffn_erf(x, up, up_bias, down, down_bias):
        y = x @ up + up_bias
        return (0.5 * y * (1 + jax.lax.erf(y / jnp.sqrt(2).astype(y.dtype)))) @ down + down_bias

    function, shapes = {
        "gemm": (gemm, [(k, n)]),
        "ffn_gated": (ffn_gated, [(k, 2 * n), (n, k)]),
        "ffn_erf": (ffn_erf, [(k, n), (n,), (n, k), (k,)]),
    }[part]
    return jax.jit(function), tuple(target.array(shape, "bfloat16") for shape in [(rows, k)] + shapes)
