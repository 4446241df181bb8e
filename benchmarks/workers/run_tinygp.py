"""tinygp answers."""

import jax
import jax.numpy as jnp
from tinygp import GaussianProcess, kernels  # pyright: ignore[reportMissingImports]

from benchmarks.workers._regression import LENGTH_SCALE, NOISE, VARIANCE, timed, values
from benchmarks.workers._serve import serve

jax.config.update("jax_enable_x64", True)


@jax.jit
def fit_and_predict(x, y, x_new):
    kernel = VARIANCE * kernels.ExpSquared(LENGTH_SCALE, distance=kernels.distance.L2Distance())
    _, conditioned = GaussianProcess(kernel, x, diag=NOISE).condition(y, x_new)
    return conditioned.loc, conditioned.variance


if __name__ == "__main__":
    serve({"exact": timed(fit_and_predict, jnp.asarray), "values": values})
