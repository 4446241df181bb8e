"""The posterior of latent values at some points, from which a likelihood makes the predictive distribution of y."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from widetail.predictive import LazyMatrix, NormalMixture, points_index


@dataclasses.dataclass(frozen=True, eq=False)
class Latent:
    """Latent values at m points: Gaussian given the scale, which all points and outputs share.

    Attributes:
        mean: shape (m, outputs).
        variance: given a unit scale, shape (m, outputs).
        covariance: between points given a unit scale, shape (outputs, m, m); made when it is needed.
        scales, weights: nodes of the law of the scale and their probabilities, shape (nodes,).
        tail_index: of that law.
        is_vector: whether targets have no axis of outputs, of which there is one then.
    """

    mean: np.ndarray
    variance: np.ndarray
    covariance: LazyMatrix
    scales: np.ndarray
    weights: np.ndarray
    tail_index: float = float("inf")
    is_vector: bool = False

    def __getitem__(self, index: Any) -> "Latent":
        """Some of the points."""
        rows = points_index(index, len(self.mean))
        return dataclasses.replace(
            self, mean=self.mean[rows], variance=self.variance[rows], covariance=self.covariance[rows]
        )

    @property
    def event_shape(self) -> tuple[int, ...]:
        """Shape of one target for every point and output."""
        return self.mean.shape[:1] if self.is_vector else self.mean.shape

    @property
    def spread(self) -> np.ndarray:
        """Variance at every scale, shape (nodes, m, outputs)."""
        return self.scales[:, None, None] * self.variance

    def as_targets(self, values: np.ndarray) -> np.ndarray:
        """Values of shape (..., m, outputs) without the last axis where targets have none."""
        return values[..., 0] if self.is_vector else values

    def with_noise(self, noise: Any) -> NormalMixture:
        """The mixture of normal distributions with variances `noise` added, one for every scale, shape (nodes,)."""
        noise = np.broadcast_to(noise, self.scales.shape)
        covariance, scales, is_vector = self.covariance, self.scales, self.is_vector

        def matrix(node: int) -> np.ndarray:
            found = scales[node] * covariance.values() + noise[node] * np.eye(len(self.mean))
            return found[0] if is_vector else found

        return self.mixture(self.spread + noise[:, None, None], self.weights, self.tail_index, matrix)

    def mixture(
        self,
        dispersion: np.ndarray,
        weights: np.ndarray,
        tail_index: float,
        matrix: Callable[[int], np.ndarray] | None = None,
    ) -> NormalMixture:
        """A mixture of normal distributions around `mean`, with variances of shape (nodes, m, outputs)."""
        location = np.broadcast_to(self.mean, dispersion.shape)
        parts = (self.as_targets(location), self.as_targets(dispersion))
        return NormalMixture(np.log(np.maximum(weights, 1e-300)), *parts, matrix, tail_index)

    def draw(self, key: Array, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Joint draws: scales of shape `shape`, and latent values of shape (*shape, m, outputs)."""
        with jax.enable_x64(True):
            node_key, normal_key = jax.random.split(key)
            nodes = jax.random.choice(
                node_key, len(self.weights), shape, p=np.asarray(self.weights / np.sum(self.weights))
            )
            normal = np.asarray(jax.random.normal(normal_key, (*shape, *self.mean.shape), dtype=float))
        scales = self.scales[np.asarray(nodes)]
        coloured = np.einsum("dij,...jd->...id", self.covariance.safe_factor(), normal)
        return scales, self.mean + np.sqrt(scales)[..., None, None] * coloured
