"""laplace-torch answers: all weights, full Hessian, prior precision and noise by its marginal likelihood."""

import importlib.util
import sys
import time
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]

from benchmarks.workers._serve import serve

# it wants torchvision, whose build for CPUs not every registry has, for images alone; told that there is none, it does
# not ask
if importlib.util.find_spec("torchvision") is None:
    sys.modules["torchvision"] = None  # type: ignore[assignment]
Laplace = importlib.import_module("laplace").Laplace
torch.set_num_threads(1)
# in single precision its Cholesky factor of the posterior fails on some of these networks
torch.set_default_dtype(torch.float64)
STEPS, RATE = 100, 0.1  # of the marginal likelihood, as in its own example of a regression


def load(path: str) -> tuple[dict[str, Any], Any]:
    """Arrays of a task, and the network with the given weights."""
    with np.load(path) as file:
        task = {key: torch.as_tensor(file[key]).double() for key in file.files}
    features, width = task["w1"].shape
    model = torch.nn.Sequential(
        torch.nn.Linear(features, width), torch.nn.Tanh(), torch.nn.Linear(width, task["w2"].shape[1])
    )
    for layer, (weight, bias) in ((model[0], ("w1", "b1")), (model[2], ("w2", "b2"))):
        layer.weight.data, layer.bias.data = task[weight].T.contiguous(), task[bias]
    return task, model


def error_bars(path: str) -> dict[str, Any]:
    """Mean and variance of new targets under the Laplace approximation around given weights."""
    task, model = load(path)
    rows = torch.utils.data.TensorDataset(task["x"], task["y"][:, None])
    began = time.process_time()
    bars = Laplace(model, "regression", subset_of_weights="all", hessian_structure="full")
    bars.fit(torch.utils.data.DataLoader(rows, batch_size=len(rows)))
    log_prior, log_sigma = torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)
    optimiser = torch.optim.Adam([log_prior, log_sigma], lr=RATE)
    for _ in range(STEPS):
        optimiser.zero_grad()
        loss = -bars.log_marginal_likelihood(log_prior.exp(), log_sigma.exp())
        loss.backward()
        optimiser.step()
    mean, variance = bars(task["new"])
    variance = variance.detach().reshape(-1) + bars.sigma_noise.item() ** 2
    return {
        "mean": mean.detach().reshape(-1).double().tolist(),
        "variance": variance.double().tolist(),
        "seconds": time.process_time() - began,
    }


def probabilities(path: str) -> dict[str, Any]:
    """Class probabilities, averaged over the logits by its default, the probit approximation."""
    task, model = load(path)
    rows = torch.utils.data.TensorDataset(task["x"], task["y"].long())
    began = time.process_time()
    bars = Laplace(model, "classification", subset_of_weights="all", hessian_structure="full")
    bars.fit(torch.utils.data.DataLoader(rows, batch_size=len(rows)))
    bars.optimize_prior_precision(method="marglik")
    found = bars(task["new"], link_approx="probit").detach()
    return {"probabilities": found.double().tolist(), "seconds": time.process_time() - began}


if __name__ == "__main__":
    serve({"error_bars": error_bars, "probabilities": probabilities})
