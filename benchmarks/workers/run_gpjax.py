"""GPJax answers."""

import gpjax  # pyright: ignore[reportMissingImports]
import jax
import jax.numpy as jnp

from benchmarks.workers._regression import LENGTH_SCALE, NOISE, VARIANCE, timed, values
from benchmarks.workers._serve import serve

jax.config.update("jax_enable_x64", True)


@jax.jit
def fit_and_predict(x, y, x_new):
    kernel = gpjax.kernels.RBF(lengthscale=LENGTH_SCALE, variance=VARIANCE)
    prior = gpjax.gps.Prior(mean_function=gpjax.mean_functions.Zero(), kernel=kernel)
    likelihood = gpjax.likelihoods.Gaussian(obs_stddev=jnp.sqrt(NOISE))
    latent = (prior * likelihood).condition(gpjax.Dataset(X=x, y=y[:, None]))(x_new, covariance="diagonal")
    return latent.mean, latent.variance


if __name__ == "__main__":
    serve({"exact": timed(fit_and_predict, jnp.asarray), "values": values})
