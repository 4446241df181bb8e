"""The learnable parameters of a likelihood, which are positive, as a vector of their logarithms."""

import dataclasses

import numpy as np

from widetail.sparse.likelihoods import Likelihood


def logs_of(likelihood: Likelihood) -> np.ndarray:
    """In the order of `learnable`, shape (parameters,)."""
    return np.log([float(getattr(likelihood, name)) for name in likelihood.learnable])


def with_logs(likelihood: Likelihood, logs: np.ndarray) -> Likelihood:
    """The likelihood with these parameters."""
    numbers = {name: float(np.exp(log)) for name, log in zip(likelihood.learnable, logs, strict=True)}
    return dataclasses.replace(likelihood, **numbers)
