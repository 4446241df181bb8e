"""The predictive distribution of a network that is already trained."""

from typing import Any

import numpy as np
import scipy.linalg
from sklearn.base import BaseEstimator, RegressorMixin

from widetail.checks import check_targets, like_targets, two_dimensional
from widetail.empirical._kernel import EmpiricalKernel
from widetail.mixing import ScaledNoiseLikelihood, ScalePosterior, scale_posterior
from widetail.predictive import Predictive, from_scale
from widetail.priors import InverseGamma, ScalePrior

# noise variances that are compared, in units of the mean of the kernel's diagonal
NOISES = np.logspace(-8.0, 2.0, 81)


class LinearisedRegressor(RegressorMixin, BaseEstimator):
    r"""Error bars for a trained network: the linearised Laplace approximation with a scale mixture.

    Around its trained parameters $\hat\theta$ the network is taken to be linear,
    $f(x) + J(x)\, (\theta - \hat\theta)$, with $\theta \sim N(0, \beta I)$, noise of variance $\beta s^2$ and a prior
    of the scale $\beta$. Its predictions stay what they are; around them is the posterior of that linear model, in
    closed form: with $A = J J^\top + s^2 I$ of the rows it was trained on, a variance
    $\beta\,(k - k^\top A^{-1} k + s^2)$ with the tangent kernel $k$, hence a Student-t distribution for an
    inverse-gamma prior.

    A trained network fits its own rows too well, so the size of its errors there says little about others. What says
    more is how far training has moved the parameters: the evidence of the linear model is that of targets
    $t = y - f + J \hat\theta \sim N(0, \beta A)$. The $s^2$ with the largest evidence is taken, and the posterior of
    $\beta$ given $t$. But the linear model may fit its rows far better than the network does, whose training stopped
    before; the variance of the noise, $\beta s^2$, is therefore at least the network's mean squared error there.
    Rows that the network has not seen, `fit(X, y, X_held, y_held)`, serve the same purpose, better: then the errors
    there decide.

    Args:
        model: a trained network: `apply(params, x)`, `net.at_width(n)`, an Equinox or a Flax NNX module.
        params: its parameters, for the first two.
        prior: prior of the scale, in squared units of y; InverseGamma(1, the likeliest scale) by default.
        noise: $s^2$ in units of the mean of the tangent kernel's diagonal; None to choose it.

    Attributes:
        scale_: posterior of $\beta$.
        noise_: $s^2$.
        score_: log evidence of the rows, or of the held-out ones, per target in nats.

    Several outputs share the mean of their tangent kernels. The kernel of all rows is held: n x n numbers.

    Example:
        >>> import jax, numpy as np
        >>> from widetail import empirical, nn
        >>> f = nn.mlp(depth=1, activation="erf").at_width(64)
        >>> params = f.init(jax.random.key(0), (1,))  # pretend that it was trained
        >>> x = np.linspace(-1.0, 1.0, 30, dtype=np.float32)[:, None]
        >>> y = np.sin(3.0 * x[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=30)
        >>> model = empirical.LinearisedRegressor(f, params).fit(x, y)
        >>> mean, std = model.predict(np.array([[0.5], [4.0]], np.float32), return_std=True)
        >>> bool(std[0] < std[1])
        True
    """

    scale_: ScalePosterior
    noise_: float

    def __init__(self, model: Any = None, params: Any = None, prior: ScalePrior | None = None, noise: Any = None):
        self.model = model
        self.params = params
        self.prior = prior
        self.noise = noise

    def fit(self, X: Any, y: Any, X_held: Any = None, y_held: Any = None) -> "LinearisedRegressor":
        """Condition on the rows that the network was trained on, and calibrate.

        Args:
            X: inputs, rows first, as the model takes them.
            y: targets, (n,) or (n, outputs).
            X_held, y_held: rows that the network was not trained on, to calibrate with; None to leave rows of X out.
        """
        if self.noise is not None and not (np.ndim(self.noise) == 0 and self.noise > 0):
            raise ValueError(f"noise must be a positive number, or None to choose it; got {self.noise!r}.")
        if (X_held is None) != (y_held is None):
            raise ValueError("X_held and y_held must be given together.")
        self.kernel_ = EmpiricalKernel(self.model, self.params)
        self._x = np.asarray(X)
        y = check_targets(self._x, y)
        self._like, self.n_features_in_ = y, self._x.shape[-1]
        unexplained = two_dimensional(y) - self._network(self._x, two_dimensional(y).shape[1])
        targets = unexplained + self.kernel_.push_forward(self._x, self.kernel_.params).reshape(unexplained.shape)
        matrix = np.asarray(self.kernel_.ntk(self._x), float)
        self._unit = float(np.mean(np.diag(matrix))) or 1.0
        values, self._vectors = scipy.linalg.eigh(matrix)
        self._values = np.maximum(values, 0.0)
        held = None if X_held is None else self._held(np.asarray(X_held), y_held)
        noises = self._unit * (NOISES if self.noise is None else np.array([float(self.noise)]))
        if held is None:
            rotated = self._vectors.T @ targets
            measured = [(rotated, self._values + noise) for noise in noises]
            allowed = _loud_enough(noises, measured, float(np.mean(unexplained**2)))
            noises, measured = noises[allowed:], measured[allowed:]
        else:
            errors, own, cross = held
            measured = [(errors, self._width(own, cross, noise)) for noise in noises]
        prior = self.prior
        if prior is None:
            prior = InverseGamma(1.0, _likeliest_scale(measured))
        elif not isinstance(prior, ScalePrior):
            raise ValueError(f"prior must be a prior of widetail, such as wt.InverseGamma(2.0, 2.0); got {prior!r}.")
        found = [_scale(prior, errors, variances) for errors, variances in measured]
        scores = [float(np.asarray(scale.log_evidence)) for scale in found]
        best = int(np.argmax(scores))
        self.noise_, self.scale_ = float(noises[best]), found[best]
        self.score_ = scores[best] / measured[best][0].size
        return self

    def predict_dist(self, X: Any) -> Predictive:
        """The predictive distribution of y at the rows of `X`."""
        X = self._fitted(X)
        location = self._network(X, two_dimensional(self._like).shape[1])

        def dispersion() -> np.ndarray:
            return self._width(np.asarray(self.kernel_.ntk_diagonal(X), float), self._rotated(X), self.noise_)

        def matrix() -> np.ndarray:
            rotated = self._rotated(X)
            own = np.asarray(self.kernel_.ntk(X), float)
            return own - (rotated / (self._values + self.noise_)) @ rotated.T + self.noise_ * np.eye(len(X))

        return from_scale(self.scale_, like_targets(location, self._like), dispersion, matrix)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The location of y, with its standard deviation if asked for."""
        dist = self.predict_dist(X)
        return (np.asarray(dist.mean), np.asarray(dist.std)) if return_std else np.asarray(dist.median)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of central intervals of y."""
        lower, upper = self.predict_dist(X).interval(coverage)
        return np.asarray(lower), np.asarray(upper)

    def _fitted(self, X: Any) -> np.ndarray:
        if not hasattr(self, "scale_"):
            raise ValueError("this LinearisedRegressor is not fitted yet; call fit(X, y) first.")
        return np.asarray(X, self._x.dtype)

    def _network(self, x: np.ndarray, outputs: int) -> np.ndarray:
        found = np.asarray(self.kernel_.apply(x), float).reshape(len(x), -1)
        if found.shape[1] != outputs:
            raise ValueError(f"y must have as many outputs as the model, {found.shape[1]}; got {outputs}.")
        return found

    def _rotated(self, x: np.ndarray) -> np.ndarray:
        """The kernel with the rows of training, in the basis of its eigenvectors."""
        return np.asarray(self.kernel_.ntk(x, self._x), float) @ self._vectors

    def _width(self, own: np.ndarray, rotated: np.ndarray, noise: float) -> np.ndarray:
        """Variances of new targets per unit of the scale."""
        return np.maximum(own - rotated**2 @ (1.0 / (self._values + noise)), 0.0) + noise

    def _held(self, x: np.ndarray, y: Any) -> tuple[np.ndarray, ...]:
        """What held-out rows need, whatever the noise: errors, own variances, rotated kernels."""
        targets = two_dimensional(check_targets(x, y))
        errors = targets - self._network(x, targets.shape[1])
        return errors, np.asarray(self.kernel_.ntk_diagonal(x), float), self._rotated(x)


def _loud_enough(noises: np.ndarray, measured: list[tuple[np.ndarray, np.ndarray]], least: float) -> int:
    """The first of increasing noises whose variance, at the likeliest scale, reaches `least`; the last if none does."""
    scales = [float(np.mean(errors**2 / variances[:, None])) for errors, variances in measured]
    return int(np.argmax([*(noises * scales >= least)[:-1], True]))


def _likeliest_scale(measured: list[tuple[np.ndarray, np.ndarray]]) -> float:
    """The scale of the likeliest noise, each with its own likeliest scale."""

    def profile(errors: np.ndarray, variances: np.ndarray) -> tuple[float, float]:
        scale = max(float(np.mean(errors**2 / variances[:, None])), np.finfo(float).tiny)
        return float(np.mean(np.log(variances))) + np.log(scale), scale

    return min(profile(*one) for one in measured)[1]


def _scale(prior: ScalePrior, errors: np.ndarray, variances: np.ndarray) -> ScalePosterior:
    """The posterior of the scale given independent errors."""
    quad = float(np.sum(errors**2 / variances[:, None]))
    log_det = errors.shape[1] * float(np.sum(np.log(variances)))
    return scale_posterior(prior, ScaledNoiseLikelihood(errors.size, quad, log_det))
