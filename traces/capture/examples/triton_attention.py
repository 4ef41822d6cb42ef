"""Causal attention by JAX's own Pallas kernel for GPUs, which Triton compiles: 8 heads, 2 sequences of 4096.

  echelon capture --pretend h100-sxm -o attention -- python triton_attention.py
"""
import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.gpu.attention import mha

BATCH, LENGTH, HEADS, WIDTH = 2, 4096, 8, 128


@jax.jit
def attend(q, k, v):
    return mha(q, k, v, None, causal=True)


q = jnp.zeros((BATCH, LENGTH, HEADS, WIDTH), jnp.bfloat16)
jax.block_until_ready(attend(q, q, q))
