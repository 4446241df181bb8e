r"""What a model keeps of the rows it has seen, so that a stream of rows gives the same model as one table of them.

Given the scale $\beta$, a row with Gaussian noise of variance $v(\beta)$ has the expected log density
$-\frac12\{(y - a_x^\top m)^2 / v + \beta\,(a_x^\top S a_x + r_x) / v + \log 2\pi v\}$: its sums over rows are all that
is needed of them, whatever the posterior, the law of the scale and the noise will be. Other likelihoods have no such
sums. Of them some rows are kept as they are. Where there are more, near rows of the same class or count become one
that counts for both; rows whose targets all differ are let go, the oldest first. The derivatives that this would change
are kept as Gaussian factors of f: the same sums, with $v = 1$. What was said of the likelihood's own parameters (df and
noise of a Student-t, say) stays as well, as a quadratic function of the logarithms.

Classes say nothing of what all latent functions have in common, and neither may their factors. Of one row with
probabilities p the curvature is $\mathrm{diag}(p) - p p^\top$, whose sum over rows has a matrix for every pair of
classes. Where these would be too large, one for every class has to do: the curvature of a row is what
$\sum_c p_c (f_c - t)^2$ leaves for the best shift t, and of all rows the shift is taken as a function $a_x^\top t$.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable

import numpy as np
import scipy.linalg

from widetail.sparse._draws import draws_of, nodes_of
from widetail.sparse._merge import merged
from widetail.sparse._parameters import logs_of, with_logs
from widetail.sparse._rows import CachedRows, contrast_gram, totals, values, variances
from widetail.sparse._variational import Variational
from widetail.sparse.likelihoods import Likelihood
from widetail.sparse.scales import ScaleLaw

KEPT_ROWS = 4096
# Of the trace, added where the sums of single precision may be singular.
SHIFT_JITTER = 1e-7
STEP_OF_LOGS = 0.05


@dataclasses.dataclass(frozen=True, eq=False)
class Memory:
    r"""Sums over rows, and rows that are kept as they are.

    Attributes:
        gram: $\sum_x a_x a_x^\top$, shape (1, inducing, inducing), or one for every output.
        cross: $\sum_x y_x a_x$, shape (outputs, inducing).
        square: $\sum_x y_x^2$, all outputs together.
        residual: sum of the residual variances $r_x$, all outputs together.
        summed: how many rows are in the sums alone.
        rows: those that are kept, some of them for several; None for none.
        contrasts: what the means of classes are known by, up to a shift of them all; `contrast_gram` has its shapes.
            None where the gram itself is for means, too.
        parameter_slope, parameter_curvature: g and H of $g^\top t - \frac12 t^\top H t$, what rows that were let go say
            of the logarithms t of the likelihood's learnable parameters, shapes (parameters,) and (parameters,
            parameters). None where they said nothing.
    """

    gram: np.ndarray
    cross: np.ndarray
    square: float = 0.0
    residual: float = 0.0
    summed: float = 0.0
    rows: CachedRows | None = None
    contrasts: np.ndarray | None = None
    parameter_slope: np.ndarray | None = None
    parameter_curvature: np.ndarray | None = None

    @classmethod
    def none(cls, outputs: int, inducing: int) -> "Memory":
        """Nothing was seen."""
        return cls(np.zeros((1, inducing, inducing)), np.zeros((outputs, inducing)))

    @property
    def observations(self) -> float:
        """How many rows were seen."""
        return self.summed + (0.0 if self.rows is None else self.rows.observations)

    @property
    def only_differences(self) -> bool:
        """Whether the sums say nothing of a shift of all outputs alike."""
        return not self.summed or self.contrasts is not None

    def misfit(self, mean: np.ndarray) -> float:
        r"""$\sum_x |y_x - a_x^\top m|^2$."""
        return self.square + float(np.sum((self.pull(mean) - 2 * self.cross) * mean))

    def pull(self, mean: np.ndarray) -> np.ndarray:
        """Half the derivative of the sum of squared means of rows; of classes, after the best shift of them all."""
        if self.contrasts is None:
            return times(self.gram, mean)
        if self.contrasts.ndim == 4:
            return np.sum(times(self.contrasts, mean), axis=1)
        pulled = times(self.contrasts, mean)
        shift = scipy.linalg.cho_solve((self._shift_factor, True), np.sum(pulled, axis=0))
        return pulled - self.contrasts @ shift

    @functools.cached_property
    def _shift_factor(self) -> np.ndarray:
        assert self.contrasts is not None
        total = np.sum(self.contrasts, axis=0)
        return scipy.linalg.cholesky(total + SHIFT_JITTER * np.trace(total) * np.eye(len(total)), lower=True)

    def per_noise(self, law: ScaleLaw, likelihood: Likelihood) -> float:
        """Expectation of one over the variance of the noise: what the sums for the means count by."""
        scales, weights = law.nodes()
        return float(weights @ (1 / self._noise(likelihood, scales)))

    def scale_per_noise(self, law: ScaleLaw, likelihood: Likelihood) -> float:
        """Expectation of the scale over the variance of the noise: what the sums for the covariances count by."""
        scales, weights = law.nodes()
        return float(weights @ (scales / self._noise(likelihood, scales)))

    def values_at(self, scales: np.ndarray, q: Variational, likelihood: Likelihood) -> np.ndarray:
        """Expected log density of the summed rows at each of some scales; of Gaussian factors, up to a constant."""
        if not np.any(self.gram):
            return np.zeros(len(scales))
        noise = self._noise(likelihood, scales)
        spread = float(np.sum(self.gram * q.covariance)) + self.residual
        found = -0.5 * (self.misfit(q.mean) + scales * spread) / noise
        if likelihood.noise_at(scales) is None:
            return found + self._value_of_logs(likelihood)
        return found - 0.5 * self.summed * len(q.mean) * np.log(2 * math.pi * noise)

    def value(self, q: Variational, likelihood: Likelihood) -> float:
        """Their expectation under the law of the scale."""
        scales, weights = q.law.nodes()
        return float(weights @ self.values_at(scales, q, likelihood))

    def after(self, rows: CachedRows, q: Variational, likelihood: Likelihood, *, keep: int, seed: int) -> "Memory":
        """With rows that come after those that are kept.

        Args:
            rows: features and targets.
            q, likelihood: what was found with all rows.
            keep: how many rows may be kept, where there are no exact sums.
            seed: of the draws of f.
        """
        if likelihood.noise_at(np.ones(1)) is not None:
            return self.with_sums(rows)
        rows = rows if self.rows is None else self.rows.followed_by(rows)
        if len(rows) <= keep:
            return dataclasses.replace(self, rows=rows.copied() if keep else None)
        instead, place = merged(rows, keep)
        gone = max(0, len(instead) - keep)  # the oldest, where there are too many targets
        is_new = (place < gone) | (np.bincount(place)[place] > 1)
        new = instead.at((np.bincount(place) > 1) & (np.arange(len(instead)) >= gone))
        condensed = self._condensed(rows.at(is_new), new, q, likelihood, seed)
        return dataclasses.replace(condensed, rows=instead.after(gone).copied() if keep else None)

    def arrays(self) -> dict[str, np.ndarray]:
        """For a file; `from_arrays` reads them."""
        found = {"gram": self.gram, "cross": self.cross, "sums": np.array([self.square, self.residual, self.summed])}
        for name in ("contrasts", "parameter_slope", "parameter_curvature"):
            if getattr(self, name) is not None:
                found[name] = getattr(self, name)
        if self.rows is not None:
            found |= {field.name: getattr(self.rows, field.name) for field in dataclasses.fields(CachedRows)}
        return {f"memory_{name}": values for name, values in found.items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> "Memory":
        """What `arrays` gave, perhaps among others; a ValueError where they do not fit together."""
        gram, cross, sums = (arrays[f"memory_{name}"] for name in ("gram", "cross", "sums"))
        outputs, inducing = cross.shape
        is_right = sums.shape == (3,) and gram.shape[0] in (1, outputs) and gram.shape[1:] == (inducing, inducing)
        rows, contrasts = None, arrays.get("memory_contrasts")
        slope, curvature = (arrays.get(f"memory_parameter_{name}") for name in ("slope", "curvature"))
        if slope is not None or curvature is not None:
            is_right &= slope is not None and curvature is not None and curvature.shape == 2 * slope.shape != ()
        of_classes = (outputs, inducing, inducing)
        is_right &= contrasts is None or contrasts.shape in (of_classes, (outputs, *of_classes))
        if "memory_features" in arrays:
            rows = CachedRows(*(arrays[f"memory_{field.name}"] for field in dataclasses.fields(CachedRows)))
            is_right &= rows.features.shape == (len(rows), inducing)
            is_right &= rows.residual.shape == rows.counts.shape == (len(rows),)
        if not is_right:
            raise ValueError("its arrays of remembered rows do not fit together")
        square, residual, summed = (float(number) for number in sums)
        return cls(gram, cross, square, residual, summed, rows, contrasts, slope, curvature)

    @classmethod
    def of_posterior(cls, q: Variational, likelihood: Likelihood, residual: float, observations: float) -> "Memory":
        """What a posterior says beyond the prior, for a file that was written before rows were remembered exactly.

        Args:
            q, likelihood: what was found.
            residual: how fast the expected log density falls with the scale because of the residual variances.
            observations: how many rows there were.
        """
        memory = dataclasses.replace(cls.none(*q.mean.shape), summed=observations)
        scale, per_noise = memory.scale_per_noise(q.law, likelihood), memory.per_noise(q.law, likelihood)
        gram = (q.precision - np.eye(q.mean.shape[1])) / scale
        cross = times(gram, q.mean) + q.law.mean_precision / per_noise * q.mean
        square = float(np.sum((2 * cross - times(gram, q.mean)) * q.mean))
        memory = dataclasses.replace(memory, gram=gram, cross=cross, square=square, residual=residual / scale)
        if likelihood.noise_at(np.ones(1)) is None:
            return memory
        # such a file lacks the sum of squares: it is chosen so that learning would find the noise that the file has
        unexplained = observations * len(q.mean) - scale * (float(np.sum(gram * q.covariance)) + residual / scale)
        return dataclasses.replace(memory, square=square + max(0.0, unexplained) / per_noise)

    @staticmethod
    def _noise(likelihood: Likelihood, scales: np.ndarray) -> np.ndarray:
        noise = likelihood.noise_at(scales)
        return np.ones(len(scales)) if noise is None else noise

    def with_sums(self, rows: CachedRows) -> "Memory":
        """With rows that have Gaussian noise, of which sums are all that is needed."""
        gram, cross, square = np.zeros(self.gram.shape[1:]), np.zeros(self.cross.shape), 0.0
        for _, (features, y, counts) in rows.chunks():
            features, y, counts = (np.asarray(part, np.float64) for part in (features, y, counts))
            weighted = features * counts[:, None]
            gram += weighted.T @ features
            cross += y.T @ weighted
            square += float(np.sum(counts[:, None] * y**2))
        open_variance = len(cross) * float(np.sum(rows.residual * rows.counts, dtype=np.float64))
        return Memory(
            self.gram + gram,
            self.cross + cross,
            self.square + square,
            self.residual + open_variance,
            self.summed + rows.observations,
        )

    def _condensed(
        self, rows: CachedRows, instead: CachedRows, q: Variational, likelihood: Likelihood, seed: int
    ) -> "Memory":
        """Gaussian factors in place of what rows say beyond others: at q they have the same derivatives."""
        nodes = nodes_of(q.law, likelihood, len(q.mean), seed, rows.features.dtype, draws_of(len(rows)))
        scale = self.scale_per_noise(q.law, likelihood)
        gram, residual, slope, contrasts = self.gram, self.residual, self.cross - self.pull(q.mean), self.contrasts
        parts = [(1.0, rows), (-1.0, instead)] if len(instead) else [(1.0, rows)]
        for sign, part in parts:
            variance = variances(part, q)
            found = totals(part, q, variance, likelihood, nodes)
            gram, residual = gram + sign * found.curvature / scale, residual + sign * found.residual / scale
            slope = slope + sign * found.slope
            between = contrast_gram(part, q, variance, likelihood, nodes)
            if between is not None:
                contrasts = sign * between + (self._contrasts_before(between.ndim) if contrasts is None else contrasts)
        condensed = dataclasses.replace(
            self,
            gram=_not_negative(gram),
            square=0.0,
            residual=residual,
            summed=self.summed + rows.observations - instead.observations,
            contrasts=None if contrasts is None else _not_negative(contrasts),
        )
        condensed = dataclasses.replace(condensed, cross=slope + condensed.pull(q.mean))
        if not likelihood.learnable:
            return condensed

        def at(logs: np.ndarray) -> float:
            own = with_logs(likelihood, logs)
            return sum(sign * values(part, q.mean, variances(part, q), own, nodes) for sign, part in parts)

        slope, curvature = _quadratic(at, logs_of(likelihood))
        if self.parameter_slope is not None and self.parameter_curvature is not None:
            slope, curvature = slope + self.parameter_slope, curvature + self.parameter_curvature
        return dataclasses.replace(condensed, parameter_slope=slope, parameter_curvature=curvature)

    def _value_of_logs(self, likelihood: Likelihood) -> float:
        if self.parameter_slope is None or self.parameter_curvature is None:
            return 0.0
        logs = logs_of(likelihood)
        return float((self.parameter_slope - 0.5 * self.parameter_curvature @ logs) @ logs)

    def _contrasts_before(self, ndim: int) -> np.ndarray:
        if self.contrasts is not None:
            return self.contrasts
        # of an earlier version's file: a gram for every class, which is all that there is
        return self.gram if ndim == 3 else np.eye(len(self.cross))[:, :, None, None] * self.gram[None]


def _quadratic(value: Callable[[np.ndarray], float], at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""g and H, not negative, for which $g^\top t - \frac12 t^\top H t$ has the slope of a function at a point.

    By differences, wide enough that single precision does not matter.
    """
    steps, here = STEP_OF_LOGS * np.eye(len(at)), value(at)
    ups, downs = (np.array([value(at + sign * step) for step in steps]) for sign in (1, -1))
    bent = np.diag(2 * here - ups - downs)
    for i, j in itertools.combinations(range(len(at)), 2):
        along, across = steps[i] + steps[j], steps[i] - steps[j]
        mixed = value(at + along) + value(at - along) - value(at + across) - value(at - across)
        bent[i, j] = bent[j, i] = -0.25 * mixed
    heights, directions = np.linalg.eigh(bent / STEP_OF_LOGS**2)
    curvature = (directions * np.maximum(heights, 0.0)) @ directions.T
    return (ups - downs) / (2 * STEP_OF_LOGS) + curvature @ at, curvature


def _not_negative(matrices: np.ndarray) -> np.ndarray:
    """The nearest matrices without negative eigenvalues: a difference of sums may have some."""
    shape, size = matrices.shape, matrices.shape[-1]
    if matrices.ndim == 4:  # of every pair of outputs: one large matrix
        size *= shape[0]
        matrices = np.swapaxes(matrices, 1, 2).reshape(1, size, size)
    heights, directions = np.linalg.eigh(0.5 * (matrices + np.swapaxes(matrices, 1, 2)))
    found = directions * np.maximum(heights, 0.0)[:, None] @ np.swapaxes(directions, 1, 2)
    if len(shape) == 4:
        return np.swapaxes(found.reshape(shape[0], shape[2], shape[0], shape[2]), 1, 2)
    return found


def times(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """A matrix for every output, or one for all of them, times a vector for every output."""
    return (matrices @ vectors[..., None])[..., 0]
