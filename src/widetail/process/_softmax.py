r"""Classes with a softmax likelihood: a scale mixture of Gaussian approximations (Laplace's).

One function per class, $f_c \mid \beta \sim GP(0, \beta \bar K)$. For each of a few scales $\beta$ the mode of the
posterior is found by Newton's method, and the posterior near it is taken as Gaussian; its evidence weighs the scale,
together with the prior. A step costs a factorisation and an inverse for every class.

Notation: $\pi$ are the probabilities at the mode, $D_c = \mathrm{diag}(\pi_c)$, $E_c = (\beta \bar K + D_c^{-1})^{-1}$,
and $M$ the lower factor of $\sum_c E_c$. With $W = D - \Pi \Pi^\top$ the second derivatives of the likelihood,
$(W^{-1} + K)^{-1} = E - E R (\sum_c E_c)^{-1} R^\top E$, where R adds up classes.
"""

import dataclasses
from typing import Any

import numpy as np
from scipy.special import log_softmax, logsumexp, softmax
from scipy.stats import norm, qmc

from widetail.numerics import CholeskyFactor, one_thread

MOST_STEPS = 40
# The search for a mode ends where a step gains less, in nats.
LEAST_GAIN = 1e-4
LEAST_PROBABILITY = 1e-10
DRAWS = 256


@dataclasses.dataclass(frozen=True)
class SoftmaxMode:
    """The Gaussian approximation for one readout variance.

    Attributes:
        scale: the readout variance.
        location: of the functions at the rows, shape (n, classes).
        weights: what new locations are made of, counts times (one-hot labels - probabilities), shape (n, classes).
        inner: $E_c$, shape (classes, n, n).
        total: the factor M.
        log_evidence: of the labels, by Laplace's approximation.
    """

    scale: float
    location: np.ndarray
    weights: np.ndarray
    inner: np.ndarray
    total: CholeskyFactor
    log_evidence: float

    def at(self, cross: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Locations (m, classes) and covariances (m, classes, classes) of new rows.

        Args:
            cross: the kernel of the rows with the new ones, shape (n, m).
            own: the kernel of each new row with itself, shape (m,).
        """
        cross, own = self.scale * cross, self.scale * own
        with one_thread():
            solved = self.inner @ cross  # (classes, n, m)
            shared = np.stack([self.total.solve_lower(part) for part in solved])
            covariance = np.einsum("cnm,dnm->mcd", shared, shared)
            covariance += np.eye(len(solved)) * (own - np.einsum("nm,cnm->cm", cross, solved)).T[:, :, None]
            return cross.T @ self.weights, covariance


def softmax_mode(
    kernel: np.ndarray, labels: np.ndarray, counts: np.ndarray, scale: float, start: np.ndarray | None = None
) -> SoftmaxMode:
    """The mode for one readout variance.

    Args:
        kernel: of the rows with each other, shape (n, n).
        labels: one-hot, shape (n, classes).
        counts: how often each row was observed, positive.
        scale: the readout variance.
        start: of another scale, the `weights` from which to begin.
    """
    kernel, often = scale * kernel, counts[:, None]
    weights = np.zeros_like(labels) if start is None else start
    f = kernel @ weights

    def objective(f: np.ndarray, weights: np.ndarray) -> float:
        return float(-0.5 * np.vdot(weights, f) + np.sum(often * labels * log_softmax(f, axis=1)))

    value = objective(f, weights)
    with one_thread():
        for _ in range(MOST_STEPS):
            inner, total, _ = _inner(kernel, often * softmax(f, axis=1))
            new = _newton(kernel, inner, total, f, often, labels)
            length = 1.0
            while True:  # the objective is concave: a step that is short enough gains
                trial = weights + length * (new - weights)
                trial_f = kernel @ trial
                trial_value = objective(trial_f, trial)
                if trial_value >= value or length < 1e-3:
                    break
                length *= 0.5
            gained = trial_value - value
            if gained > 0:
                weights, f, value = trial, trial_f, trial_value
            if gained < LEAST_GAIN:
                break
        inner, total, log_det = _inner(kernel, often * softmax(f, axis=1))
    log_det += total.log_det() - float(np.sum(np.log(counts)))
    return SoftmaxMode(scale, f, often * (labels - softmax(f, axis=1)), inner, total, value - 0.5 * log_det)


def _inner(kernel: np.ndarray, expected: np.ndarray) -> tuple[np.ndarray, CholeskyFactor, float]:
    """E of every class, the factor of their sum, and the log determinant of I + K D."""
    inner, log_det = np.empty((expected.shape[1], *kernel.shape)), 0.0
    for number, share in enumerate(np.maximum(expected, LEAST_PROBABILITY).T):
        root = np.sqrt(share)
        factor = CholeskyFactor.of(np.eye(len(root)) + root[:, None] * kernel * root)
        log_det += factor.log_det()
        np.multiply(root[:, None], factor.inverse(overwrite=True), out=inner[number])
        inner[number] *= root
    return inner, CholeskyFactor.of(np.sum(inner, axis=0)), log_det


def _newton(
    kernel: np.ndarray, inner: np.ndarray, total: CholeskyFactor, f: np.ndarray, often: np.ndarray, labels: np.ndarray
) -> np.ndarray:
    """The weights of the next locations."""
    p = softmax(f, axis=1)
    b = often * (p * (f - np.sum(p * f, axis=1, keepdims=True)) + labels - p)
    c = np.einsum("cij,jc->ic", inner, kernel @ b)
    return b - c + np.einsum("cij,j->ic", inner, total.solve(np.sum(c, axis=1)))


@dataclasses.dataclass(frozen=True)
class SoftmaxMixture:
    """Modes of several readout variances, weighted.

    Attributes:
        modes: one per scale.
        log_weights: logs of their posterior probabilities.
        log_evidence: of the labels, all scales together.
        left_out: mean over rows of the log probability of a row's label given all others, approximately.
    """

    modes: list[SoftmaxMode]
    log_weights: np.ndarray
    log_evidence: float
    left_out: float

    @classmethod
    def condition(
        cls, kernel: np.ndarray, labels: np.ndarray, counts: np.ndarray, scales: Any, log_prior: Any
    ) -> "SoftmaxMixture":
        """Find the modes.

        Args:
            kernel: of the rows with each other, shape (n, n).
            labels: one-hot, shape (n, classes).
            counts: how often each row was observed, positive.
            scales: readout variances, in order.
            log_prior: logs of their prior probabilities.
        """
        modes: list[SoftmaxMode] = []
        for scale in scales:
            start = modes[-1].weights if modes else None
            modes.append(softmax_mode(kernel, labels, counts, float(scale), start))
        log_weights = np.array([mode.log_evidence for mode in modes]) + np.asarray(log_prior)
        evidence = float(logsumexp(log_weights))
        log_weights -= evidence
        heaviest = modes[int(np.argmax(log_weights))]
        return cls(modes, log_weights, evidence, _left_out(heaviest, kernel, labels, counts))

    def probabilities(self, cross: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Class probabilities of new rows, shape (m, classes); arguments as in `SoftmaxMode.at`."""
        total = np.zeros((cross.shape[1], self.modes[0].weights.shape[1]))
        for mode, log_weight in zip(self.modes, self.log_weights, strict=True):
            if log_weight > np.log(1e-4):
                total += np.exp(log_weight) * expected_softmax(*mode.at(cross, own))
        return total / np.sum(total, axis=1, keepdims=True)


def expected_softmax(location: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Means of the softmax of normal variables, by the same quasi-random draws for every row.

    Args:
        location: shape (m, classes).
        covariance: shape (m, classes, classes).
    """
    classes = location.shape[1]
    draws = norm.ppf(qmc.Sobol(classes, seed=0).random(DRAWS))
    draws = np.concatenate([draws, -draws])
    values, vectors = np.linalg.eigh(covariance)
    roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    found = np.empty_like(location)
    for start in range(0, len(location), 512):
        rows = slice(start, start + 512)
        f = location[rows, None] + np.einsum("kd,mcd->mkc", draws, roots[rows])
        found[rows] = np.mean(softmax(f, axis=2), axis=1)
    return found


def _left_out(mode: SoftmaxMode, kernel: np.ndarray, labels: np.ndarray, counts: np.ndarray) -> float:
    """Every row's own factor taken out of the Gaussian approximation: V becomes (V^-1 - W)^-1."""
    _, covariance = mode.at(kernel, np.diagonal(kernel))
    p = softmax(mode.location, axis=1)
    curvature = counts[:, None, None] * (np.eye(p.shape[1]) * p[:, :, None] - p[:, :, None] * p[:, None])
    without = np.linalg.solve(np.eye(p.shape[1]) - covariance @ curvature, covariance)
    without = 0.5 * (without + np.swapaxes(without, 1, 2))
    location = mode.location - np.einsum("ncd,nd->nc", without, mode.weights)
    probability = np.sum(labels * expected_softmax(location, without), axis=1)
    return float(np.average(np.log(np.maximum(probability, 1e-300)), weights=counts))
