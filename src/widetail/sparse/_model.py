"""A fitted sparse model: what is needed to predict, and to go on learning."""

import dataclasses
from typing import Any

import numpy as np

from widetail.predictive import LazyMatrix, Predictive
from widetail.sparse._features import Whitening
from widetail.sparse._held_out import HeldOutChoice
from widetail.sparse._latent import Latent
from widetail.sparse._memory import Memory
from widetail.sparse._probabilities import ClassProbabilities, class_probabilities
from widetail.sparse._rows import Rows, variances
from widetail.sparse._train import SparseFit
from widetail.sparse._variational import Variational
from widetail.sparse.likelihoods import Bernoulli, Categorical, Likelihood
from widetail.sparse.likelihoods._base import SMALLEST_VARIANCE


@dataclasses.dataclass(frozen=True, eq=False)
class SparseModel:
    """Inducing inputs, the posterior of their variables, and the likelihood.

    Attributes:
        whitening: kernel, inducing inputs and their factor.
        q: variational posterior.
        likelihood: with its learned parameters.
        memory: what is remembered of the rows.
        open_share: how much of the variance that inducing inputs leave open belongs to the model: 1 for all of it, 0
            for the model of their span alone.
        fit: how training went; None in a model that was read from a file.
        choice: what held-out rows said; None where they were not asked.
    """

    whitening: Whitening
    q: Variational
    likelihood: Likelihood
    memory: Memory
    open_share: float = 1.0
    fit: SparseFit | None = None
    choice: HeldOutChoice | None = None

    def latent(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean, and variance given a unit scale, of the latent values, shape (m, outputs), float64."""
        found = self.posterior(x)
        return found.mean, found.variance

    def class_probabilities(self, x: Any, *, seed: int = 0) -> ClassProbabilities:
        """Probabilities of classes and what they are made of."""
        if not isinstance(self.likelihood, (Bernoulli, Categorical)):
            raise TypeError(f"class probabilities need Bernoulli or Categorical; the model has {self.likelihood!r}.")
        return class_probabilities(*self.latent(x), self.q.law, seed=seed)

    def posterior(self, x: Any, *, is_vector: bool = False) -> Latent:
        """The posterior of the latent values at m points, joint if need be.

        Args:
            x: inputs, rows first.
            is_vector: whether targets have no axis of outputs.
        """
        features, residual = self.whitening.features(x)
        rows = Rows.of(features, residual * self.open_share, np.zeros(len(features)))
        features = features.astype(np.float64)

        def covariance() -> np.ndarray:
            projected = np.einsum("nm,ckm->cnk", features, self.q.root)
            explained = projected @ np.swapaxes(projected, 1, 2)
            if not self.open_share:
                return explained
            matrix = np.asarray(self.whitening.kernel.kernel(np.asarray(x, np.float64), get="nngp").nngp)
            return explained + self.open_share * (matrix - features @ features.T)

        scales, weights = self.q.law.nodes()
        return Latent(
            mean=features @ self.q.mean.T,
            # without what is open, nothing may be left where the kernel has forgotten all inducing inputs
            variance=np.maximum(variances(rows, self.q).astype(np.float64), SMALLEST_VARIANCE),
            covariance=LazyMatrix(covariance),
            scales=scales,
            weights=weights,
            tail_index=self.q.law.tail_index,
            is_vector=is_vector,
        )

    def f(self, x: Any) -> Predictive:
        """The predictive distribution of the latent functions, shape (m, outputs)."""
        return self.posterior(x).with_noise(0.0)

    def y(self, x: Any, *, is_vector: bool = False) -> Predictive:
        """The predictive distribution of targets, shape (m, outputs), or (m,) where `is_vector`."""
        return self.likelihood.predictive(self.posterior(x, is_vector=is_vector))
