"""A Pallas kernel that copies as many rows of each sequence as its length says, page by page: `echelon capture --pretend tpu-v5e -- python ragged_copies.py` notes the
lengths and pages that it is called with."""
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

PAGE, MOST = 16, 8


def kernel(lengths, pages, cache, result, buffer, done):
    def sequence(s, _):
        def page(i, _):
            rows = jnp.minimum(PAGE, lengths[s] - i * PAGE)
            copy = pltpu.make_async_copy(cache.at[pl.ds(pages[s * MOST + i] * PAGE, rows)], buffer.at[pl.ds(0, rows)], done)
            copy.start()
            copy.wait()
            result[...] += buffer[0]
            return 0
        return jax.lax.fori_loop(0, pl.cdiv(lengths[s], PAGE), page, 0)
    result[...] = jnp.zeros_like(result)
    jax.lax.fori_loop(0, lengths.shape[0], sequence, 0)


@jax.jit
def ragged_copies(lengths, pages, cache):
    spec = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=2, grid=(1,), in_specs=[pl.BlockSpec(memory_space=pltpu.HBM)],
                                        out_specs=pl.BlockSpec((8, 128), lambda i, *_: (0, 0)),
                                        scratch_shapes=[pltpu.VMEM((PAGE, 8, 128), jnp.float32), pltpu.SemaphoreType.DMA])
    return pl.pallas_call(kernel, grid_spec=spec, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))(lengths, pages, cache)


if __name__ == "__main__":
    ragged_copies(jnp.array([20, 0, 100, 33]), jnp.arange(32)[::-1], jnp.ones((64 * PAGE, 8, 128)))
