"""GPyTorch answers, as it comes (conjugate gradients beyond 800 rows) and with its Cholesky factorisation."""

import gpytorch  # pyright: ignore[reportMissingImports]
import torch  # pyright: ignore[reportMissingImports]

from benchmarks.workers._regression import LENGTH_SCALE, NOISE, VARIANCE, timed, values
from benchmarks.workers._serve import serve

torch.set_default_dtype(torch.float64)


class Model(gpytorch.models.ExactGP):
    def __init__(self, x, y):
        super().__init__(x, y, gpytorch.likelihoods.GaussianLikelihood())
        self.mean = gpytorch.means.ZeroMean()
        self.covariance = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
        self.likelihood.noise = NOISE
        self.covariance.outputscale = VARIANCE
        self.covariance.base_kernel.lengthscale = LENGTH_SCALE

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.covariance(x))


def fit_and_predict(x, y, x_new):
    with torch.no_grad():
        latent = Model(x, y).eval()(x_new)
        return latent.mean.numpy(), latent.variance.numpy()


def fit_and_predict_by_cholesky(x, y, x_new):
    with gpytorch.settings.max_cholesky_size(1_000_000):
        return fit_and_predict(x, y, x_new)


if __name__ == "__main__":
    serve(
        {
            "exact": timed(fit_and_predict, torch.as_tensor),
            "exact_cholesky": timed(fit_and_predict_by_cholesky, torch.as_tensor),
            "values": values,
        }
    )
