"""Class probabilities of a network that is already trained."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.special import log_softmax, logsumexp, softmax
from scipy.stats import norm, qmc
from sklearn.base import BaseEstimator, ClassifierMixin

from widetail.empirical._kernel import EmpiricalKernel
from widetail.priors import InverseGamma, PointMass, ScalePrior

# scales that are compared first, in units of one over the mean of the kernel's diagonal, and how many then
FIRST = np.logspace(-2.0, 4.0, 13)
NODES = 7
LEAST = 1e-3  # scales less likely than this, relative to the likeliest, are left out
DRAWS = 512  # of the logits, at fixed points, each with its mirror image
ROWS = 256  # rows that are predicted at a time
ROUNDING = 1e-6  # of tangent kernels in single precision, relative to their diagonal
STEPS, CLOSE = 50, 1e-6  # of Newton's method


class LinearisedClassifier(ClassifierMixin, BaseEstimator):
    r"""Probabilities of a trained network that know what it has not seen: linearised Laplace with a scale mixture.

    Around its trained parameters $\hat\theta$ the network's logits are taken to be linear,
    $f(x) + J(x)\, (\theta - \hat\theta)$, with $\theta \sim N(0, \beta I)$ and a prior of the scale $\beta$. For each
    scale the posterior of that linear model is found by Laplace's method: at its mode the cross-entropy has the
    curvature $J^\top \Lambda J$, $\Lambda = \mathrm{diag}(p) - p p^\top$ of each row's probabilities p, and logits vary
    with the covariance $J (J^\top \Lambda J + I / \beta)^{-1} J^\top$, which takes only the tangent kernel. Around the
    network's own logits this gives probabilities, averaged over the scales.

    A network that fits its rows perfectly says nothing about how sure it may be elsewhere, and neither does the
    evidence at its parameters. What weighs the scales is therefore how well the linear model predicts each row from
    the others, in closed form: its posterior with the row's own factor divided out. Rows that the network has not
    seen, `fit(X, y, X_held, y_held)`, serve the same purpose, better: then the probabilities of their classes do.

    Args:
        model: a trained network whose outputs are logits, one per class, or one of the second of two classes:
            `apply(params, x)`, `net.at_width(n)`, an Equinox or a Flax NNX module.
        params: its parameters, for the first two.
        prior: prior of the scale; InverseGamma(1, the likeliest scale) by default.
        classes: the class of each output, in order; None for the sorted labels of y.

    Attributes:
        classes_: the classes.
        scales_, weights_: scales and their posterior probabilities.
        score_: mean log probability of the left-out (or held-out) labels, in nats.

    With n rows and c outputs `fit` factors matrices of n c rows some eighty times.

    Example:
        >>> import jax, numpy as np
        >>> from widetail import empirical, nn
        >>> f = nn.mlp(depth=1, activation="erf").at_width(64, outputs=3)
        >>> params = f.init(jax.random.key(0), (2,))  # pretend that it was trained
        >>> x = np.random.default_rng(0).normal(size=(30, 2)).astype(np.float32)
        >>> y = np.array(["a", "b", "c"])[np.argmax(f.apply(params, x), axis=1)]
        >>> model = empirical.LinearisedClassifier(f, params).fit(x, y)
        >>> model.predict_proba(x[:4]).shape
        (4, 3)
    """

    classes_: np.ndarray
    scales_: np.ndarray
    weights_: np.ndarray

    def __init__(self, model: Any = None, params: Any = None, prior: ScalePrior | None = None, classes: Any = None):
        self.model = model
        self.params = params
        self.prior = prior
        self.classes = classes

    def fit(self, X: Any, y: Any, X_held: Any = None, y_held: Any = None) -> "LinearisedClassifier":
        """Condition on the rows that the network was trained on, and calibrate.

        Args:
            X: inputs, rows first, as the model takes them.
            y: labels, (n,).
            X_held, y_held: rows that the network was not trained on, to calibrate with; None to leave rows of X out.
        """
        if not (self.prior is None or isinstance(self.prior, ScalePrior)):
            raise ValueError(
                f"prior must be a prior of widetail, such as wt.InverseGamma(2.0, 2.0); got {self.prior!r}."
            )
        if (X_held is None) != (y_held is None):
            raise ValueError("X_held and y_held must be given together.")
        self.kernel_ = EmpiricalKernel(self.model, self.params)
        self._x = np.asarray(X)
        self.n_features_in_ = self._x.shape[-1]
        self.classes_ = np.unique(np.asarray(y)) if self.classes is None else np.asarray(self.classes)
        labels = self._labels("y", self._x, y)
        logits = self._logits(self._x)
        n, outputs = logits.shape
        kernel = _flat(self.kernel_.ntk(self._x, outputs="all"), outputs)
        unit = float(np.mean(np.diag(kernel))) or 1.0
        kernel[np.diag_indices_from(kernel)] += ROUNDING * unit
        moved = np.asarray(self.kernel_.push_forward(self._x, self.kernel_.params), float).reshape(logits.shape)
        task = _Task(kernel, logits - moved, labels)
        score: Callable[[_Posterior], float] = _Posterior.left_out
        if X_held is not None:
            held = np.asarray(X_held, self._x.dtype)
            found, parts = self._labels("y_held", held, y_held), self._distribution(held)

            def of_held_out(posterior: _Posterior) -> float:
                return _log_chosen(*posterior.around(*parts), found)

            score = of_held_out
        self._posteriors, scores, self.weights_ = _weighed(task, score, FIRST / unit, self.prior)
        self.scales_ = np.array([posterior.scale for posterior in self._posteriors])
        self.score_ = float(scores @ self.weights_) / (n if X_held is None else len(np.asarray(X_held)))
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes at the rows of `X`, (n, classes)."""
        if not hasattr(self, "scales_"):
            raise ValueError("this LinearisedClassifier is not fitted yet; call fit(X, y) first.")
        X = np.asarray(X, self._x.dtype)
        return np.concatenate([self._probabilities(X[start : start + ROWS]) for start in range(0, len(X), ROWS)])

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of every row."""
        probabilities = self.predict_proba(X)
        return self.classes_[np.argmax(probabilities, axis=1)]

    def _probabilities(self, x: np.ndarray) -> np.ndarray:
        parts = self._distribution(x)
        found = [_mean_probabilities(*posterior.around(*parts)) for posterior in self._posteriors]
        return np.einsum("s,snc->nc", self.weights_, np.stack(found))

    def _distribution(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The network's logits, their kernels, (n, outputs, outputs), and those with the seen rows' logits."""
        logits = self._logits(x)
        outputs = logits.shape[1]
        own = np.asarray(self.kernel_.ntk_diagonal(x, outputs="all"), float).reshape(len(x), outputs, outputs)
        across = _flat(self.kernel_.ntk(x, self._x, outputs="all"), outputs)
        return logits, own, across.reshape(len(x), outputs, -1)

    def _logits(self, x: np.ndarray) -> np.ndarray:
        logits = np.asarray(self.kernel_.apply(x), float).reshape(len(x), -1)
        outputs, classes = logits.shape[1], len(self.classes_)
        if outputs != classes and (outputs, classes) != (1, 2):
            raise ValueError(
                f"the model must have one output per class, or one for two classes; it has {outputs}, and there are "
                f"{classes} classes. If y does not hold all of them, give classes=."
            )
        return logits

    def _labels(self, name: str, x: np.ndarray, y: Any) -> np.ndarray:
        """The number of each row's class."""
        y = np.asarray(y)
        if y.shape != x.shape[:1]:
            raise ValueError(f"{name} must hold a label for every row, shape {x.shape[:1]}; got {y.shape}.")
        known = y[:, None] == self.classes_
        strange = ~np.any(known, axis=1)
        if np.any(strange):
            raise ValueError(f"{name} must hold classes of the model, {self.classes_.tolist()}; got {y[strange][0]}.")
        return np.argmax(known, axis=1)


@dataclasses.dataclass(frozen=True)
class _Task:
    """The linear model: covariance of all rows' logits per unit of the scale, their mean before, and the labels."""

    kernel: np.ndarray
    offset: np.ndarray
    labels: np.ndarray

    def slopes(self, logits: np.ndarray) -> np.ndarray:
        """Of the log-likelihood in the logits."""
        p = _softmax(logits)
        missing = np.eye(p.shape[1])[self.labels] - p
        return missing[:, -logits.shape[1] :]

    def value(self, logits: np.ndarray, weights: np.ndarray) -> float:
        """Log-likelihood plus log prior of the logits, offset + scale kernel weights."""
        chosen = _log_softmax(logits)[np.arange(len(logits)), self.labels]
        return float(np.sum(chosen) - 0.5 * np.sum(weights * (logits - self.offset)))


@dataclasses.dataclass(frozen=True)
class _Posterior:
    """Laplace's approximation of a linear model's posterior at one scale."""

    task: _Task
    scale: float
    weights: np.ndarray
    logits: np.ndarray
    roots: np.ndarray
    factor: np.ndarray

    @classmethod
    def find(cls, task: _Task, scale: float, start: np.ndarray) -> "_Posterior":
        """Newton's method, in the weights of the rows' kernels, with steps that are halved until they help."""
        weights = start

        def logits_of(weights: np.ndarray) -> np.ndarray:
            return task.offset + scale * (task.kernel @ weights.ravel()).reshape(weights.shape)

        logits = logits_of(weights)
        for _ in range(STEPS):
            roots = _roots(logits)
            factor = _factor(task.kernel, roots, scale)
            pull = np.einsum("iac,ibc,ib->ia", roots, roots, logits - task.offset) + task.slopes(logits)
            seen = np.einsum("iac,ia->ic", roots, scale * (task.kernel @ pull.ravel()).reshape(pull.shape))
            step = pull - np.einsum("iac,ic->ia", roots, cho_solve((factor, True), seen.ravel()).reshape(seen.shape))
            step, size, value = step - weights, 1.0, task.value(logits, weights)
            while size > CLOSE and not task.value(logits_of(weights + size * step), weights + size * step) >= value:
                size /= 2
            weights = weights + size * step
            logits = logits_of(weights)
            if size * np.max(np.abs(step)) < CLOSE:
                break
        roots = _roots(logits)
        return cls(task, scale, weights, logits, roots, _factor(task.kernel, roots, scale))

    def covariances(self, own: np.ndarray, across: np.ndarray) -> np.ndarray:
        """Of each row's logits, from their kernels with themselves and with the seen rows' logits."""
        n, outputs = len(across), self.logits.shape[1]
        seen = across.reshape(n, outputs, -1, outputs)
        seen = np.einsum("pajb,jbd->pajd", seen, self.roots).reshape(n * outputs, -1)
        known = solve_triangular(self.factor, seen.T, lower=True).T.reshape(n, outputs, -1)
        return self.scale * own - self.scale**2 * np.einsum("pam,pbm->pab", known, known)

    def around(self, logits: np.ndarray, own: np.ndarray, across: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Normal logits around the network's own: means, and roots of their covariances."""
        return logits, _root(self.covariances(own, across))

    def left_out(self) -> float:
        """Log probabilities of all labels, each by the posterior without the factor of its own row."""
        n, outputs = self.logits.shape
        across = self.task.kernel.reshape(n, outputs, -1)
        own = across.reshape(n, outputs, n, outputs)[np.arange(n), :, np.arange(n)]
        cov = self.covariances(own, across)
        curvature = np.einsum("iac,ibc->iab", self.roots, self.roots)
        without = np.linalg.solve(np.eye(outputs) - cov @ curvature, cov)
        mean = self.logits - np.einsum("iab,ib->ia", without, self.task.slopes(self.logits))
        return _log_chosen(mean, _root(0.5 * (without + without.swapaxes(1, 2))), self.task.labels)


def _weighed(
    task: _Task, score: Callable[[_Posterior], float], scales: np.ndarray, prior: ScalePrior | None
) -> tuple[list[_Posterior], np.ndarray, np.ndarray]:
    """Posteriors at the scales that count, their scores, and their probabilities."""
    start = np.zeros_like(task.offset)

    def run(scales: np.ndarray) -> tuple[list[_Posterior], np.ndarray]:
        found, weights = [], start
        for scale in scales:  # from small to large ones: each begins where the one before ended
            found.append(_Posterior.find(task, float(scale), weights))
            weights = found[-1].weights
        return found, np.array([score(one) for one in found])

    if isinstance(prior, PointMass):
        return *run(np.array([float(prior.mean)])), np.ones(1)
    _, scores = run(scales)
    law = prior if prior is not None else InverseGamma(1.0, float(scales[np.argmax(scores)]))
    density = scores + np.asarray(law.log_prob_of_log(np.log(scales)))
    kept = np.flatnonzero(density > np.max(density) + np.log(LEAST))
    ends = scales[max(kept[0] - 1, 0)], scales[min(kept[-1] + 1, len(scales) - 1)]
    found, scores = run(np.geomspace(*ends, NODES))
    density = scores + np.asarray(law.log_prob_of_log(np.log([one.scale for one in found])))
    kept = np.flatnonzero(density > np.max(density) + np.log(LEAST))
    return [found[i] for i in kept], scores[kept], np.exp(density[kept] - logsumexp(density[kept]))


def _flat(kernel: Any, outputs: int) -> np.ndarray:
    """(rows x outputs, rows x outputs)."""
    kernel = np.asarray(kernel, float)
    n, m = kernel.shape[:2]
    return kernel.reshape(n, m, outputs, outputs).swapaxes(1, 2).reshape(n * outputs, m * outputs)


def _factor(kernel: np.ndarray, roots: np.ndarray, scale: float) -> np.ndarray:
    """The Cholesky factor of I + scale R^T K R, with the roots of the rows' curvatures."""
    n, outputs, _ = roots.shape
    half = np.einsum("iac,iam->icm", roots, kernel.reshape(n, outputs, -1))
    whole = np.einsum("pjb,jbd->pjd", half.reshape(n * outputs, n, outputs), roots).reshape(n * outputs, -1)
    return cholesky(scale * whole + np.eye(n * outputs), lower=True, overwrite_a=True)


def _root(covariances: np.ndarray) -> np.ndarray:
    """A square root of each covariance; what rounding made negative counts as zero."""
    spread, axes = np.linalg.eigh(covariances)
    return axes * np.sqrt(np.maximum(spread, 0.0))[:, None, :]


def _both(logits: np.ndarray) -> np.ndarray:
    """One logit is that of the second of two classes."""
    return logits if logits.shape[-1] > 1 else np.concatenate([np.zeros_like(logits), logits], axis=-1)


def _softmax(logits: np.ndarray) -> np.ndarray:
    return softmax(_both(logits), axis=-1)


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    return log_softmax(_both(logits), axis=-1)


def _roots(logits: np.ndarray) -> np.ndarray:
    """Square roots R of the curvature of the cross-entropy, R R^T = diag(p) - p p^T, (n, outputs, outputs)."""
    p = _softmax(logits)
    if logits.shape[1] == 1:
        return np.sqrt(np.prod(p, axis=1))[:, None, None]
    root = np.sqrt(p)
    return root[:, :, None] * np.eye(p.shape[1]) - p[:, :, None] * root[:, None, :]


def _mean_probabilities(logits: np.ndarray, roots: np.ndarray) -> np.ndarray:
    """The mean of the softmax of normal logits, (n, classes)."""
    points, weights = _points(logits.shape[1])
    return np.einsum("s,nsc->nc", weights, _softmax(logits[:, None, :] + np.einsum("nab,sb->nsa", roots, points)))


def _log_chosen(logits: np.ndarray, roots: np.ndarray, labels: np.ndarray) -> float:
    """The sum of the log mean probabilities of some classes."""
    chosen = _mean_probabilities(logits, roots)[np.arange(len(labels)), labels]
    return float(np.sum(np.log(np.maximum(chosen, np.finfo(float).tiny))))


def _points(outputs: int) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal points and their weights: Gauss-Hermite for one logit, Sobol' points for more."""
    if outputs == 1:
        points, weights = np.polynomial.hermite_e.hermegauss(60)
        return points[:, None], weights / np.sum(weights)
    sobol = qmc.Sobol(outputs, scramble=True, rng=np.random.default_rng(0)).random(DRAWS)
    points = norm.ppf(np.clip(sobol, 1e-12, 1 - 1e-12))
    return np.concatenate([points, -points]), np.full(2 * DRAWS, 0.5 / DRAWS)
