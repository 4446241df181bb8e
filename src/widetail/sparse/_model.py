"""A fitted sparse model: what is needed to predict, and to go on learning, without the training data."""

import dataclasses
from typing import Any

import numpy as np

from widetail.predictive import NormalMixture, Predictive
from widetail.priors import InverseGamma, PointMass
from widetail.sparse._counts import CountMixture
from widetail.sparse._features import Whitening
from widetail.sparse._natural import Sites
from widetail.sparse._probabilities import ClassProbabilities, class_probabilities
from widetail.sparse._rows import Rows, variances
from widetail.sparse._scale import InverseGammaScale, PointScale
from widetail.sparse._variational import Variational
from widetail.sparse.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood, Poisson, StudentT

HERMITE_NODES = 24


@dataclasses.dataclass(frozen=True, eq=False)
class SparseModel:
    """Inducing inputs, the posterior of their variables, and the likelihood.

    Attributes:
        whitening: kernel, inducing inputs and their factor.
        q: variational posterior.
        likelihood: with its learned parameters.
        sites: what is remembered of the rows.
    """

    whitening: Whitening
    q: Variational
    likelihood: Likelihood
    sites: Sites

    def latent(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean, and variance given a unit scale, of the latent values, shape (m, outputs), float64."""
        features, residual = self.whitening.features(x)
        rows = Rows.of(features, residual, np.zeros(len(features)))
        return features.astype(np.float64) @ self.q.mean.T, variances(rows, self.q).astype(np.float64)

    def class_probabilities(self, x: Any, *, seed: int = 0) -> ClassProbabilities:
        """Probabilities of classes and what they are made of."""
        if not isinstance(self.likelihood, (Bernoulli, Categorical)):
            raise TypeError(f"class probabilities need Bernoulli or Categorical; the model has {self.likelihood!r}.")
        return class_probabilities(*self.latent(x), self.q.law, seed=seed)

    def f(self, x: Any) -> Predictive:
        """The predictive distribution of the latent functions, shape (m, outputs)."""
        mean, variance = self.latent(x)
        scales, weights = self.q.law.nodes()
        return self._mixture(mean, scales[:, None, None] * variance, weights, self._tail_index())

    def y(self, x: Any) -> Predictive:
        """The predictive distribution of targets that are numbers, shape (m, outputs)."""
        mean, variance = self.latent(x)
        scales, weights = self.q.law.nodes()
        spread = scales[:, None, None] * variance
        if isinstance(self.likelihood, Gaussian):
            noise = float(self.likelihood.noise) * (scales[:, None, None] if self.likelihood.scaled else 1.0)
            return self._mixture(mean, spread + noise, weights, self._tail_index())
        if isinstance(self.likelihood, StudentT):
            df = float(self.likelihood.df)
            own_scales, own_weights = InverseGammaScale(0.5 * df, 0.5 * df, 1.0, 1.0).nodes()
            noise = float(self.likelihood.noise) * own_scales
            both = (spread[:, None] + noise[None, :, None, None]).reshape(-1, *mean.shape)
            tail = min(self._tail_index(), 0.5 * df)
            return self._mixture(mean, both, np.outer(weights, own_weights).ravel(), tail)
        if isinstance(self.likelihood, Poisson):
            nodes, own_weights = np.polynomial.hermite_e.hermegauss(HERMITE_NODES)
            f = (mean + np.sqrt(spread)[:, None] * nodes[:, None, None]).reshape(-1, *mean.shape)
            rates = np.exp(f) if self.likelihood.link == "exp" else np.logaddexp(f, 0.0)
            return CountMixture(np.outer(weights, own_weights / own_weights.sum()).ravel(), rates)
        raise TypeError(f"a predictive distribution of numbers is not defined for {self.likelihood!r}.")

    @staticmethod
    def one_output(dist: Predictive) -> Predictive:
        """The distribution of a single output without its axis, shape (m,)."""
        if isinstance(dist, CountMixture):
            return CountMixture(dist.weights, dist.rates[..., 0])
        assert isinstance(dist, NormalMixture)
        parts = (dist.log_weights[:, 0], dist.loc[..., 0], dist.dispersion[..., 0])
        return NormalMixture(*parts, None, dist.tail_index)

    def _tail_index(self) -> float:
        law = self.q.law
        if isinstance(law, InverseGammaScale):
            return float(np.asarray(InverseGamma(law.a, law.b).tail_index))
        return float(np.asarray(PointMass(1.0).tail_index)) if isinstance(law, PointScale) else float("inf")

    @staticmethod
    def _mixture(mean: np.ndarray, dispersion: np.ndarray, weights: np.ndarray, tail_index: float) -> Predictive:
        nodes = len(weights)
        location = np.broadcast_to(mean, (nodes, *mean.shape))
        log_weights = np.broadcast_to(np.log(np.maximum(weights, 1e-300))[:, None], (nodes, mean.shape[1]))
        return NormalMixture(log_weights, location, dispersion, None, tail_index)
