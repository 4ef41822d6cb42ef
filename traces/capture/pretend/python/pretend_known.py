"""Results of a program for chips that are not there which hang on nothing but small arrays whose values are known: counters of steps, seeds, learning rates.
They are computed for real, as JAX would on CPU devices, which those that are pretended are: a program whose loop ends by its own counter would never end if that stayed zero."""
import math

SMALL = 1 << 16  # bytes, of arrays that are looked at
_ACROSS = ("shard_map", "psum", "all_gather", "all_to_all", "ppermute", "axis_index")  # of one device among others


def known_results(jax, closed):
    """[(number of a result, which arguments it hangs on, function of those that returns it as a list of one)] of a traced function."""
    from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
    from jax._src.api import jit
    from jax._src.interpreters.partial_eval import dce_jaxpr
    jaxpr, found = closed.jaxpr, []
    if jaxpr.effects:
        return found
    for k, result in enumerate(jaxpr.outvars):
        if not _is_small(jax, result.aval):
            continue
        own, used = dce_jaxpr(jaxpr, [other == k for other in range(len(jaxpr.outvars))])
        if _is_cheap(jax, own):
            hangs_on = [at for at, one in enumerate(used) if one]
            found.append((k, hangs_on, jit(jaxpr_as_fun(ClosedJaxpr(own, closed.consts)))))
    return found


def _is_small(jax, aval):
    shape, dtype = getattr(aval, "shape", None), getattr(aval, "dtype", None)
    return shape is not None and dtype is not None and math.prod(shape) * getattr(dtype, "itemsize", 4) <= SMALL


def _is_cheap(jax, jaxpr):
    """Nothing of it is large or goes round, and no other device has a part in it."""
    if not all(_is_small(jax, v.aval) for v in (*jaxpr.invars, *jaxpr.constvars)):
        return False
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name in ("while", "scan", "pallas_call", "device_put") or name.startswith(_ACROSS) or not all(_is_small(jax, v.aval) for v in equation.outvars):
            return False
        for value in equation.params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns") and not _is_cheap(jax, inner):
                    return False
    return True
