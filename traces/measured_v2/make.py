"""Two parts of a feed-forward block on a TPU v2-8 that jax-ml/scaling-book shows a profile of (profiling.md @ 0819a7d): X[32, 1024, 8192] times W[8192, 32768], rows
over 4 devices and columns over 2, and the sum of the second product's halves.

cd ../capture; python compile.py ../measured_v2/make.py --chip v2 --mesh data=4,model=2 -o OUT --set part=product   (or part=reduce_scatter)
"""
import jax
import jax.numpy as jnp


def build(target, part="product"):
    rows = target.array((32, 1024, 8192), "bfloat16", spec=("data",))
    if part == "product":
        columns = target.array((8192, 32768), "bfloat16", spec=(None, "model"))
        return jax.jit(lambda x, w: jnp.einsum("bld,df->blf", x, w), out_shardings=target.sharding("data", None, "model")), (rows, columns)
    add = jax.shard_map(lambda x: jax.lax.psum_scatter(x, "model", scatter_dimension=2, tiled=True), mesh=target.mesh, in_specs=(target.sharding("data").spec,),
                        out_specs=target.sharding("data", None, "model").spec, check_vma=False)
    return jax.jit(add), (rows,)
