"""Posterior with a scale for every row: exact given the scales, which are inferred by a variational bound."""

import dataclasses
import functools
import warnings
from typing import Any, NamedTuple

import numpy as np

from widetail.checks import two_dimensional
from widetail.kernels import Kernel
from widetail.mixing import ScalePosterior, scale_posterior
from widetail.numerics import CholeskyFactor
from widetail.predictive import OwnScales, Predictive, from_scale
from widetail.priors import ScalePrior
from widetail.process._adapter import CallableKernel
from widetail.process._base import as_double
from widetail.process._inferred import InferredNoisePosterior
from widetail.process._noise import RowNoise
from widetail.process._options import Inference
from widetail.process._row_scales import Cavities, OwnScaleLikelihood, RowLaw, WeightTable
from widetail.process._rows import RowFactors
from widetail.process._scaled import Parts, ScaledPosterior, add_to_diagonal

MOST_STEPS = 200
FIRST_STEPS = 2  # of every start; the best goes on
TOLERANCE = 1e-6  # of the logs of the weights
GAIN = 1e-9  # of the bound, in nats per observation, below which a step is the last
SHARES = (0.5, 0.5, 0.6, 0.7, 0.75)  # of the rows that agree with each other, one fit after the other
UNHEARD = 1e6  # noise variance of a row that says nothing, over the largest variance of the function
TURNS = 20  # of the weights, one by one, before the covariance is factored anew
COOLER = 3.0  # times quieter is the noise in every step of a start
MIDDLE = 1.4826  # standard deviation of a normal law over its median distance from the middle


@dataclasses.dataclass(frozen=True, eq=False)
class RowScales:
    """How the scales of the rows were found.

    Attributes:
        law: what is believed of them.
        start: name of the start that led to the best bound.
        bounds: the bound reached from each start after a few steps, by name.
        steps: factorisations, all starts together.
        converged: whether the last step changed next to nothing.
    """

    law: RowLaw
    start: str
    bounds: dict[str, float]
    steps: int
    converged: bool


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class RowPosterior(InferredNoisePosterior):
    r"""Posterior of $Y_d \mid \beta, w \sim N(0, \beta (\bar K + s^2 \mathrm{diag}(w)))$ with $w_i \sim H$.

    Attributes:
        given: the exact posterior with `noise_weights`.
        noise_weights: the factor of the noise variance of every row that the function sees, shape (n,).
        log_evidence: a lower bound of the log evidence, in nats.
    """

    model: RowNoise
    given: ScaledPosterior
    factors: RowFactors  # of the rows, as they were given
    scales: RowScales
    cavities: Cavities
    log_evidence: float

    @classmethod
    def condition(
        cls,
        kernel: Kernel | CallableKernel,
        prior: ScalePrior,
        model: RowNoise,
        inference: Inference,
        x: Any,
        y: np.ndarray,
        rows: RowFactors,
        misfit: np.ndarray | None = None,
        gain: float | None = None,
    ) -> "RowPosterior":
        """Infer the scales of the rows, and the function with them.

        Args:
            kernel, prior, inference, x, y, rows: as for `ScaledPosterior`.
            model: the noise.
            misfit: where to start from, instead of several starts; shape (n,).
            gain: of the bound, in nats per observation, below which a step is the last.
        """
        problem = _Problem(kernel, prior, model, inference, x, y, rows)
        if misfit is None:
            states = problem.starts()
            start = max(states, key=lambda name: states[name].bound)
        else:
            states = {"given": problem.state(misfit)}
            start = "given"
        state, converged = problem.climb(states[start], gain=GAIN if gain is None else gain)
        if not converged:
            warnings.warn(
                f"the scales of the rows still change after {MOST_STEPS} steps: the bound is one, but not yet the best "
                f"one. The noise variance ({float(model.variance):.3g}) is probably far too small for these targets.",
                stacklevel=5,
            )
        bounds = {name: one.bound for name, one in states.items()}
        scales = RowScales(state.law, start, bounds, problem.steps, converged)
        return cls(model, state.given, rows, scales, state.cavities, state.bound)

    @property
    def noise_weights(self) -> np.ndarray:
        """The factor of the noise variance of every row that the function sees, shape (n,)."""
        return self.scales.law.weights

    def row_scale(self) -> ScalePosterior:
        """The law of the scale of every row given all targets; its batch shape is (n,).

        The function is integrated out, with the other rows as they are: nearer to the truth than the law that the bound
        was made with, which takes a row's scale and the function as independent. Of a row that was observed several
        times, it is the law of one of the observations.
        """
        one = self.one_left_out
        likelihood = OwnScaleLikelihood(one.square, one.variance, one.unit, one.outputs)
        return scale_posterior(self.model.prior, likelihood)

    @functools.cached_property
    def _spread(self) -> "_Spread":
        return _Spread.of(self)

    def parts(self, x_new: Any) -> Parts:
        """Location and covariance of f at new rows, per unit of readout variance, row scales integrated out."""
        spread = self._spread
        parts = spread.given.parts(x_new)

        @functools.cache
        def pulls() -> np.ndarray:
            return spread.roots[:, None] * spread.given.pulls(x_new)

        def dispersion() -> np.ndarray:
            return parts.dispersion() + np.einsum("nm,nm->m", pulls(), pulls())

        def matrix() -> np.ndarray:
            return parts.matrix() + pulls().T @ pulls()

        return Parts(parts.location, dispersion, matrix)

    def outliers(self, threshold: float = 2.0) -> np.ndarray:
        """Rows that the function hardly sees: indices, the most extreme first.

        Args:
            threshold: how many times the standard deviation of an ordinary row's noise theirs is at least. With
                Student's t noise of four degrees of freedom, 2 is reached by a residual of four standard deviations.

        Example:
            >>> import numpy as np, widetail as wt
            >>> x = np.linspace(-1.0, 1.0, 30)[:, None]
            >>> y = np.where(np.arange(30) == 7, 5.0, np.sin(3.0 * x[:, 0]))
            >>> process = wt.ScaleMixture(wt.kernels.RBF(0.5), noise=wt.RowNoise(variance=1e-3))
            >>> process.posterior(x, y).outliers().tolist()
            [7]
        """
        return self._outliers(threshold, self.model.prior, self.noise_weights)

    def _again(self, x: Any, y: np.ndarray, rows: RowFactors) -> "RowPosterior":
        given = self.given
        return self.condition(given.kernel, given.prior, self.model, given.inference, x, y, rows)

    def _left_out_noise(self) -> tuple[np.ndarray, np.ndarray, Any, bool]:
        own = scale_posterior(self.model.prior)
        nodes, log_weights = (np.asarray(part) for part in own.nodes())
        return self.noise * self.factors.single * nodes[:, None], log_weights, own.tail_index, True

    def _predict(self, x_new: Any, *, with_noise: bool) -> Predictive:
        parts = self.parts(x_new)
        if not with_noise:
            return from_scale(self.scale, parts.location, parts.dispersion, parts.matrix)
        own = scale_posterior(self.model.prior)
        nodes, log_weights = (np.asarray(part) for part in own.nodes())
        noise = np.broadcast_to(self.noise * nodes[:, None], (len(nodes), len(parts.location)))
        return OwnScales(self.scale, parts.location, parts.dispersion, noise, log_weights, parts.matrix, own.tail_index)


class _Spread(NamedTuple):
    r"""What the uncertainty of the scales does to the function.

    The function sees row i through $h_i(w) = 1 / (v_i + s^2 w)$, v the variance that all other rows leave. Its mean
    under the law of w that has the function integrated out is $h_i(\tilde w_i)$, and the location is that with all
    weights $\tilde w$ at once: rows that are uncertain together, as wrong ones that lie side by side, still have to
    agree. To first order in each row the variance grows by that of $h_i / h_i(\tilde w_i)$.

    Attributes:
        given: the exact posterior with these weights.
        roots: square roots of what each row adds to the variance, per squared pull, shape (n,).
    """

    given: ScaledPosterior
    roots: np.ndarray

    @classmethod
    def of(cls, posterior: RowPosterior) -> "_Spread":
        given, factors, one = posterior.given, posterior.factors, posterior.one_left_out
        nodes, log_weights = (np.asarray(part) for part in posterior.row_scale().nodes())
        probabilities = np.exp(log_weights)
        seen = 1 / (one.variance + one.unit * nodes)
        mean = np.sum(probabilities * seen, axis=0)
        var = np.sum(probabilities * (seen / mean - 1) ** 2, axis=0)
        weights = np.sum(probabilities * nodes * seen, axis=0) / mean
        rows = RowFactors(factors.factors * weights, factors.single * weights, factors.counts)
        given = ScaledPosterior.condition(
            given.kernel, given.prior, given.noise, given.inference, given.x, given.y, rows
        )
        return cls(given, np.sqrt(one.square / one.outputs * var / factors.counts))


@dataclasses.dataclass(frozen=True, eq=False)
class _State:
    law: RowLaw
    given: ScaledPosterior
    cavities: Cavities
    bound: float


class _Problem:
    """The kernel matrix and the targets, and how to climb the bound."""

    def __init__(self, kernel, prior, model, inference, x, y, rows):
        self.parts = (kernel, prior, float(model.variance), inference, x, y)
        self.prior, self.rows, self.outputs = model.prior, rows, two_dimensional(y).shape[1]
        self.matrix = as_double(kernel.kernel(x, get="nngp").nngp)
        self.y, self.noise = two_dimensional(y), float(model.variance)
        self.guess = WeightTable(self.prior, self.outputs)
        self.steps = 0

    def law(self, misfit: np.ndarray) -> RowLaw:
        return RowLaw.of(self.prior, misfit, self.rows.counts, self.outputs)

    def given(self, weights: np.ndarray) -> ScaledPosterior:
        """The exact posterior with these weights."""
        self.steps += 1
        rows = RowFactors(self.rows.factors * weights, self.rows.single * weights, self.rows.counts)
        matrix = self.matrix.copy()
        add_to_diagonal(matrix, self.noise * rows.factors)
        return ScaledPosterior._from_factor(*self.parts, rows, CholeskyFactor.of(matrix))

    def state(self, misfit: np.ndarray) -> _State:
        law = self.law(misfit)
        given = self.given(law.weights)
        return _State(law, given, Cavities.of(given, self.rows), given.log_evidence + law.bound)

    def starts(self) -> dict[str, _State]:
        """A few steps from each of several beginnings: there are several optima."""
        begun = {
            "alike": self.state(np.full(len(self.y), float(self.outputs))),
            "agreeing": self.state(self._agreeing(self._from_smooth())),
            "cooled": self.state(self._cooled()),
        }
        return {name: self.climb(state, FIRST_STEPS)[0] for name, state in begun.items()}

    def _from_smooth(self) -> np.ndarray:
        """How far each row is from a fit so smooth that single rows hardly move it, squared."""
        heavy = np.full(len(self.y), float(np.mean(np.diagonal(self.matrix))) / self.noise)
        smooth = self.given(heavy)
        residual = smooth.weights * (smooth.noise * smooth.rows.factors)[:, None]
        width = MIDDLE * np.median(np.abs(residual - np.median(residual, axis=0)), axis=0)
        return np.sum((residual / np.maximum(width, np.finfo(float).tiny)) ** 2, axis=1)

    def _cooled(self) -> np.ndarray:
        """Misfits where all noise is first as loud as the function, and then, step by step, what it is.

        A function without noise meets any targets: which of them are wrong only shows on the way there.
        """
        heat = max(float(np.mean(np.diagonal(self.matrix))) / self.noise, 1.0)
        weights = np.full(len(self.y), heat)
        while True:
            cavities = Cavities.of(self.given(weights), self.rows)
            misfit = cavities.misfit(weights) / heat
            if heat == 1.0:
                return misfit
            for _ in range(TURNS):
                weights = heat * self.guess(misfit)
                misfit = cavities.misfit(weights) / heat
            heat = max(heat / COOLER, 1.0)

    def _agreeing(self, distance: np.ndarray) -> np.ndarray:
        """Misfits from rows that agree with each other, as in least trimmed squares.

        The function is made of the rows that are nearest to the last one, a share of all; the others are given so much
        noise that they say nothing.
        """
        unheard = UNHEARD * float(np.max(np.diagonal(self.matrix))) / self.noise
        for share in SHARES:
            kept = np.argsort(distance, kind="stable")[: max(1, round(share * len(distance)))]
            weights = np.full(len(distance), max(unheard, 1.0))
            weights[kept] = 1.0
            cavities = Cavities.of(self.given(weights), self.rows)
            distance = cavities.square / (cavities.variance + cavities.unit)
        return distance

    def climb(self, state: _State, most: int = MOST_STEPS, gain: float = GAIN) -> tuple[_State, bool]:
        """Raise the bound until it stays, and whether it did."""
        bold = True
        for _ in range(most):
            after = self._step(state, bold=bold)
            if after.bound < state.bound and bold:
                # rows that were moved one by one have moved together too far: a step that cannot lower the bound
                bold, after = False, self._step(state, bold=False)
            change = np.max(np.abs(np.log(after.law.weights / state.law.weights)))
            gained = after.bound - state.bound
            state = after if gained >= 0 else state
            if change < TOLERANCE or gained < gain * self.rows.observations:
                return state, True
        return state, False

    def _step(self, state: _State, *, bold: bool) -> _State:
        misfit = state.cavities.misfit(state.law.weights)
        for _ in range(TURNS if bold else 0):
            misfit = state.cavities.misfit(self.guess(misfit))
        return self.state(misfit)
