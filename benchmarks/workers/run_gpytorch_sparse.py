"""GPyTorch's SVGP answers: whitened, full covariance for every class, its kernel looked up in a table."""

import time

import gpytorch  # pyright: ignore[reportMissingImports]
import numpy as np
import torch  # pyright: ignore[reportMissingImports]

from benchmarks.workers._serve import serve

MANY_DRAWS = 1024


class Table(gpytorch.kernels.Kernel):
    """A kernel that costs nothing: its values are known, inputs are row numbers."""

    def __init__(self, matrix):
        super().__init__()
        self.matrix = matrix

    def forward(self, x1, x2, diag=False, **_):
        first, second = x1[..., 0].long(), x2[..., 0].long()
        if diag:
            return self.matrix[first, second]
        return self.matrix[first.unsqueeze(-1), second.unsqueeze(-2)]


class Model(gpytorch.models.ApproximateGP):
    def __init__(self, matrix, count, classes):
        shape = torch.Size([classes])
        posterior = gpytorch.variational.CholeskyVariationalDistribution(count, batch_shape=shape)
        inducing = torch.arange(count, dtype=matrix.dtype).reshape(1, count, 1).repeat(classes, 1, 1)
        strategy = gpytorch.variational.IndependentMultitaskVariationalStrategy(
            gpytorch.variational.VariationalStrategy(self, inducing, posterior, learn_inducing_locations=False),
            num_tasks=classes,
        )
        super().__init__(strategy)
        self.mean = gpytorch.means.ZeroMean(batch_shape=shape)
        self.covariance = Table(matrix)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.covariance(x))


def problem(matrix, y, mean, factor, dtype):
    kind = getattr(torch, dtype)
    torch.set_default_dtype(kind)
    matrix, mean, factor = (torch.as_tensor(np.load(path), dtype=kind) for path in (matrix, mean, factor))
    y = torch.as_tensor(np.load(y))
    classes, count = mean.shape
    model = Model(matrix, count, classes)
    posterior = model.variational_strategy.base_variational_strategy._variational_distribution
    model.variational_strategy.base_variational_strategy.variational_params_initialized.fill_(1)
    with torch.no_grad():
        posterior.variational_mean.copy_(mean)
        posterior.chol_variational_covar.copy_(factor)
    likelihood = gpytorch.likelihoods.SoftmaxLikelihood(num_features=classes, num_classes=classes, mixing_weights=False)
    loss = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    x = torch.arange(count, count + len(y), dtype=kind).unsqueeze(-1)
    return model.train(), loss, x, y


def bound(dtype, **paths):
    model, loss, x, y = problem(dtype=dtype, **paths)
    torch.manual_seed(0)
    # its own jitter, 1e-4 in single precision, would be another kernel
    no_jitter = gpytorch.settings.variational_cholesky_jitter(float_value=1e-8, double_value=1e-8)
    with torch.no_grad(), no_jitter, gpytorch.settings.num_likelihood_samples(MANY_DRAWS):
        return {"bound": float(loss(model(x), y)) * len(y)}


def steps(dtype, steps, draws, **paths):
    model, loss, x, y = problem(dtype=dtype, **paths)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    with gpytorch.settings.num_likelihood_samples(draws):
        start, used = time.perf_counter(), time.process_time()
        for _ in range(steps):
            optimiser.zero_grad()
            (-loss(model(x), y)).backward()
            optimiser.step()
        return {"seconds": (time.perf_counter() - start) / steps, "cpu": (time.process_time() - used) / steps}


if __name__ == "__main__":
    serve({"bound": bound, "steps": steps})
