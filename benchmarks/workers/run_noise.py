"""Other libraries on tables with wrong targets and loud inputs: `MODEL IN.npz OUT.npz`.

Inputs are standardised and so are targets, where a library does not do it itself. Boosted trees hold a fifth of the
rows out to know when to stop; everything else is the default of its library.
"""

import sys
import time

import numpy as np


class Units:
    """Targets in standard units and back."""

    def __init__(self, y):
        self.shift, self.factor = y.mean(), y.std() or 1.0

    def __call__(self, y):
        return (y - self.shift) / self.factor

    def back(self, location, sd):
        return {"location": self.shift + self.factor * location, "sd": self.factor * sd}


def relevance_pursuit(x, y, x_test, levels):
    """BoTorch 0.18: sparse outlier variances for rows, chosen by Bayesian model selection."""
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models.robust_relevance_pursuit_model import RobustRelevancePursuitSingleTaskGP
    from gpytorch.mlls import ExactMarginalLogLikelihood

    units = Units(y)
    x, x_test, y = (torch.as_tensor(part, dtype=torch.double) for part in (x, x_test, units(y)[:, None]))
    model = RobustRelevancePursuitSingleTaskGP(x, y, outcome_transform=None)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    posterior = model.posterior(x_test, observation_noise=True)
    mean, variance = (part.detach().numpy()[:, 0] for part in (posterior.mean, posterior.variance))
    return units.back(mean, np.sqrt(variance))


def student_t_svgp(x, y, x_test, levels, inducing=50, steps=300):
    """GPyTorch: Student-t likelihood with learned degrees of freedom, RBF kernel with lengths."""
    import gpytorch
    import torch

    torch.set_default_dtype(torch.double)
    torch.manual_seed(0)
    units = Units(y)
    x, x_test, y = (torch.as_tensor(part, dtype=torch.double) for part in (x, x_test, units(y)))
    points = x[torch.randperm(len(x))[:inducing]].clone()

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self):
            law = gpytorch.variational.CholeskyVariationalDistribution(len(points))
            super().__init__(gpytorch.variational.VariationalStrategy(self, points, law))
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=x.shape[1]))
            self.kernel.base_kernel.lengthscale = np.sqrt(x.shape[1])

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    model, likelihood = Model(), gpytorch.likelihoods.StudentTLikelihood()
    model.train(), likelihood.train()
    optimiser = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.02)
    loss = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    for _ in range(steps):
        optimiser.zero_grad()
        (-loss(model(x), y)).backward()
        optimiser.step()
    model.eval()
    with torch.no_grad():
        law = model(x_test)
        found = units.back(law.mean.numpy(), law.variance.sqrt().numpy())
        noise = {"degrees": likelihood.deg_free.item(), "scale": units.factor * likelihood.noise.sqrt().item()}
    return found | noise


def held_out(x, y):
    """Rows to learn from, and a fifth that says when to stop: without it both kinds of trees learn targets by heart."""
    order = np.random.default_rng(0).permutation(len(y))
    held, kept = order[: len(y) // 5], order[len(y) // 5 :]
    return (x[kept], y[kept]), (x[held], y[held])


def ngboost(x, y, x_test, levels):
    from ngboost import NGBRegressor

    (x, y), held = held_out(x, y)
    law = NGBRegressor(verbose=False, random_state=0).fit(x, y, *held, early_stopping_rounds=50).pred_dist(x_test)
    return {"location": law.params["loc"], "sd": law.params["scale"]}


def catboost(x, y, x_test, levels):
    from catboost import CatBoostRegressor

    model = CatBoostRegressor(
        loss_function="RMSEWithUncertainty", random_seed=0, verbose=False, thread_count=1, allow_writing_files=False
    )
    (x, y), held = held_out(x, y)
    model.fit(x, y, eval_set=held, early_stopping_rounds=50)
    mean, variance = model.predict(x_test, prediction_type="RMSEWithUncertainty").T
    return {"location": mean, "sd": np.sqrt(variance)}


def forest(x, y, x_test, levels):
    from quantile_forest import RandomForestQuantileRegressor

    model = RandomForestQuantileRegressor(n_estimators=200, min_samples_leaf=5, random_state=0).fit(x, y)
    quantiles = model.predict(x_test, quantiles=list(levels)).T
    return {"location": model.predict(x_test, quantiles="mean"), "quantiles": quantiles}


MODELS = {
    "BoTorch relevance pursuit": relevance_pursuit,
    "GPyTorch Student-t SVGP": student_t_svgp,
    "NGBoost": ngboost,
    "CatBoost": catboost,
    "quantile forest": forest,
}

if __name__ == "__main__":
    name, asked, answered = sys.argv[1:]
    with np.load(asked) as file:
        x, y, x_test, levels = (file[part] for part in ("x", "y", "x_test", "levels"))
    middle, spread = x.mean(axis=0), x.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    began = time.perf_counter()
    said = MODELS[name](x=(x - middle) / spread, y=y, x_test=(x_test - middle) / spread, levels=levels)
    np.savez(answered, seconds=time.perf_counter() - began, **said)
