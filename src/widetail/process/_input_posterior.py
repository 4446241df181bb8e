"""Posterior with noise that depends on the input: exact given the noise, which is inferred by a variational bound."""

import dataclasses
import warnings
from typing import Any, NamedTuple

import numpy as np

from widetail.checks import two_dimensional
from widetail.kernels import Kernel
from widetail.mixing import scale_posterior
from widetail.numerics import CholeskyFactor
from widetail.predictive import OwnScales, Predictive, from_scale
from widetail.priors import ScalePrior
from widetail.process._adapter import CallableKernel
from widetail.process._base import as_double, check_new
from widetail.process._inferred import InferredNoisePosterior
from widetail.process._noise import InputNoise, RowNoise
from widetail.process._noise_field import FieldLaw
from widetail.process._options import Inference
from widetail.process._row_posterior import RowPosterior
from widetail.process._row_scales import Cavities, RowLaw
from widetail.process._rows import RowFactors
from widetail.process._scaled import ScaledPosterior, add_to_diagonal

MOST_STEPS = 100
FIRST_STEPS = 3  # of every start; the best goes on
GAIN = 1e-6  # of the bound, in nats per observation, below which a step is the last
FIRST_FIELD_STEPS = 10  # of Newton; one in every later turn
# Of the law of the noise given the misfits, in nats per row: while learning these change with it anyway.
FIELD_GAIN, LAST_FIELD_GAIN = 1e-5, 1e-8
FIELD_NODES = 7  # of the law of the logarithm of the noise variance at a new input
FIELD_NODES_WITH_ROWS = 5
MOST_ROW_NODES = 32


class NoiseStart(NamedTuple):
    """Where the search for the noise starts: what an earlier posterior of the same rows found.

    Attributes:
        field: law of the logarithm of the noise variance.
        own: law of the scales of single rows, or None.
    """

    field: FieldLaw
    own: RowLaw | None


@dataclasses.dataclass(frozen=True, eq=False)
class InputScales:
    """How the noise was found.

    Attributes:
        field: law of the logarithm of the noise variance at the rows, relative to the model's.
        own: law of the scales of single rows; None where the model has none.
        bounds: the bound reached from each start after a few steps, by name.
        steps: factorisations of the function's covariance, all starts together.
        converged: whether the last step changed next to nothing.
    """

    field: FieldLaw
    own: RowLaw | None
    bounds: dict[str, float]
    steps: int
    converged: bool

    @property
    def weights(self) -> np.ndarray:
        """The factor of the noise variance of every row that the function sees, shape (n,)."""
        return self.field.weights if self.own is None else self.field.weights * self.own.weights

    @property
    def start(self) -> NoiseStart:
        """For a search that goes on from here."""
        return NoiseStart(self.field, self.own)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class InputPosterior(InferredNoisePosterior):
    r"""Posterior of $Y_d \mid \beta, g \sim N(0, \beta (\bar K + s^2 \mathrm{diag}(e^{g} w)))$ with $g \sim GP$.

    Attributes:
        given: the exact posterior with `noise_weights`.
        noise_weights: the factor of the noise variance of every row that the function sees, shape (n,).
        log_evidence: a lower bound of the log evidence, in nats.
    """

    model: InputNoise
    given: ScaledPosterior
    factors: RowFactors  # of the rows, as they were given
    scales: InputScales
    cavities: Cavities
    log_evidence: float

    @classmethod
    def condition(
        cls,
        kernel: Kernel | CallableKernel,
        prior: ScalePrior,
        model: InputNoise,
        inference: Inference,
        x: Any,
        y: np.ndarray,
        rows: RowFactors,
        start: NoiseStart | None = None,
        gain: float | None = None,
    ) -> "InputPosterior":
        """Infer the noise, and the function with it.

        Args:
            kernel, prior, inference, x, y, rows: as for `ScaledPosterior`.
            model: the noise.
            start: where to start from, instead of several starts.
            gain: of the bound, in nats per observation, below which a step is the last.
        """
        problem = _Problem(kernel, prior, model, inference, x, y, rows, LAST_FIELD_GAIN if gain is None else FIELD_GAIN)
        states = problem.starts() if start is None else {"given": problem.state(*start)}
        best = max(states.values(), key=lambda state: state.bound)
        state, converged = problem.climb(best, gain=GAIN if gain is None else gain)
        if not converged:
            warnings.warn(
                f"the noise of the inputs still changes after {MOST_STEPS} steps: the bound is one, but not yet the "
                f"best one. The noise variance ({float(model.variance):.3g}) is probably far too small for these "
                f"targets.",
                stacklevel=5,
            )
        bounds = {name: one.bound for name, one in states.items()}
        scales = InputScales(state.field, state.own, bounds, problem.steps, converged)
        return cls(model, state.given, rows, scales, state.cavities, state.bound)

    @property
    def noise_weights(self) -> np.ndarray:
        """The factor of the noise variance of every row that the function sees, shape (n,)."""
        return self.scales.weights

    def log_noise(self, x_new: Any) -> tuple[np.ndarray, np.ndarray]:
        r"""Mean and standard deviation of the logarithm of the noise variance at new rows, shapes (m,).

        It is that of $s^2 e^{g(x)}$, per unit of readout variance, with the scale of a single row at one.

        Example:
            >>> import numpy as np, widetail as wt
            >>> x = np.linspace(-2.0, 2.0, 100)[:, None]
            >>> y = np.where(x[:, 0] > 0, 1.0, 0.1) * np.random.default_rng(0).normal(size=100)
            >>> noise = wt.InputNoise(wt.kernels.RBF(1.0), variance=0.3)
            >>> posterior = wt.ScaleMixture(wt.kernels.RBF(), noise=noise).posterior(x, y)
            >>> mean, std = posterior.log_noise(np.array([[-1.0], [1.0]]))
            >>> bool(mean[1] > mean[0] + 2.0)
            True
        """
        mean, variance = self._field(x_new)
        return mean + np.log(self.noise), np.sqrt(variance)

    def _field(self, x_new: Any) -> tuple[np.ndarray, np.ndarray]:
        net, spread = self.model.net, float(self.model.spread)
        x_new = check_new(net, self.x, x_new)
        cross = spread * as_double(net.kernel(x_new, self.x, get="nngp").nngp)
        own = spread * np.asarray(net.diagonal(x_new, get="nngp").nngp, float)
        return self.scales.field.at_new(cross, own)

    def outliers(self, threshold: float = 2.0) -> np.ndarray:
        """Rows that the function hardly sees though the noise at their inputs is small: indices, the worst first.

        Args:
            threshold: how many times the standard deviation of an ordinary row's noise at the same input theirs is at
                least.
        """
        if self.scales.own is None or self.model.rows is None:
            raise ValueError(
                "outliers: this noise depends on the input alone, and holds no row for an outlier; give rows scales of "
                "their own, wt.InputNoise(net, rows=wt.InverseGamma(2.0, 2.0))."
            )
        return self._outliers(threshold, self.model.rows, self.scales.own.weights)

    def _left_out_noise(self) -> tuple[np.ndarray, np.ndarray, Any, bool]:
        counts = self.factors.counts
        mean, variance = self.scales.field.without_own(0.5 * counts * self.cavities.outputs, counts)
        return self._noise_nodes(mean, variance, self.factors.single)

    def _predict(self, x_new: Any, *, with_noise: bool) -> Predictive:
        parts = self.given.parts(x_new)
        if not with_noise:
            return from_scale(self.scale, parts.location, parts.dispersion, parts.matrix)
        nodes, log_weights, tail_index, thin = self._noise_nodes(*self._field(x_new), 1.0)
        return OwnScales(
            self.scale, parts.location, parts.dispersion, nodes, log_weights, parts.matrix, tail_index, thin=thin
        )

    def _noise_nodes(
        self, mean: np.ndarray, variance: np.ndarray, single: Any
    ) -> tuple[np.ndarray, np.ndarray, Any, bool]:
        """Noise variances per unit of readout variance, (Q, m), the logs of their probabilities, and their tail."""
        law = self.model.rows
        points, chances = np.polynomial.hermite_e.hermegauss(FIELD_NODES if law is None else FIELD_NODES_WITH_ROWS)
        log_chances = np.log(chances / chances.sum())
        noise = self.noise * single * np.exp(np.clip(mean + np.sqrt(variance) * points[:, None], -300.0, 300.0))
        if law is None:
            return noise, log_chances, np.inf, False
        own = scale_posterior(law)
        scales, log_scales = (np.asarray(part) for part in own.nodes())
        every = max(1, len(scales) // MOST_ROW_NODES)
        scales, log_scales = scales[::every], log_scales[::every]
        log_scales = log_scales - np.log(np.exp(log_scales).sum())
        both = (scales[:, None, None] * noise).reshape(-1, noise.shape[1])
        return both, (log_scales[:, None] + log_chances).reshape(-1), own.tail_index, False

    def _again(self, x: Any, y: np.ndarray, rows: RowFactors) -> "InputPosterior":
        given = self.given
        return self.condition(given.kernel, given.prior, self.model, given.inference, x, y, rows)


@dataclasses.dataclass(frozen=True, eq=False)
class _State:
    field: FieldLaw
    own: RowLaw | None
    given: ScaledPosterior
    cavities: Cavities
    bound: float


class _Problem:
    """Both kernel matrices and the targets, and how to climb the bound."""

    def __init__(self, kernel, prior, model, inference, x, y, rows, field_gain):
        self.field_gain = field_gain
        self.parts = (kernel, prior, float(model.variance), inference, x, y)
        self.rows, self.prior = rows, model.rows
        self.outputs = two_dimensional(y).shape[1]
        self.halves = 0.5 * rows.counts * self.outputs
        self.noise = float(model.variance)
        self.matrix = as_double(kernel.kernel(x, get="nngp").nngp)
        self.field_matrix = float(model.spread) * as_double(model.net.kernel(x, get="nngp").nngp)
        self.steps = 0

    def given(self, weights: np.ndarray) -> ScaledPosterior:
        """The exact posterior with these weights."""
        self.steps += 1
        rows = RowFactors(self.rows.factors * weights, self.rows.single * weights, self.rows.counts)
        matrix = self.matrix.copy()
        add_to_diagonal(matrix, self.noise * rows.factors)
        return ScaledPosterior._from_factor(*self.parts, rows, CholeskyFactor.of(matrix))

    def state(self, field: FieldLaw, own: RowLaw | None) -> _State:
        given = self.given(field.weights if own is None else field.weights * own.weights)
        bound = given.log_evidence + field.bound + (0.0 if own is None else own.bound)
        return _State(field, own, given, Cavities.of(given, self.rows), bound)

    def believe(self, misfit: np.ndarray, before: NoiseStart | None = None) -> _State:
        """The best laws for these misfits, one after the other, then the function with them."""
        own = before.own if before else None
        if self.prior is not None and own is None:
            own = RowLaw.of(self.prior, misfit, self.rows.counts, self.outputs)
        weighted = misfit if own is None else misfit / own.weights
        start, steps = (before.field, 1) if before else (None, FIRST_FIELD_STEPS)
        field = FieldLaw.of(self.field_matrix, weighted / self.outputs, self.halves, start, steps, self.field_gain)
        if self.prior is not None:
            own = RowLaw.of(self.prior, misfit / field.weights, self.rows.counts, self.outputs)
        return self.state(field, own)

    def starts(self) -> dict[str, _State]:
        """A few steps from all rows alike, and from how far each is from what the others say of it."""
        n = len(self.halves)
        alike = self.given(np.ones(n))
        cavities = Cavities.of(alike, self.rows)
        begun = {
            "alike": self.believe(cavities.misfit(np.ones(n))),
            "left out": self.believe(cavities.left_out()),
        }
        if self.prior is not None:
            kernel, prior, noise, inference, x, y = self.parts
            model = RowNoise(self.prior, noise)
            alone = RowPosterior.condition(kernel, prior, model, inference, x, y, self.rows)
            begun["rows"] = self.believe(alone.scales.law.misfit)
        return {name: self.climb(state, FIRST_STEPS)[0] for name, state in begun.items()}

    def climb(self, state: _State, most: int = MOST_STEPS, gain: float = GAIN) -> tuple[_State, bool]:
        """Raise the bound until it stays, and whether it did."""
        for _ in range(most):
            weights = state.field.weights if state.own is None else state.field.weights * state.own.weights
            after = self.believe(state.cavities.misfit(weights), NoiseStart(state.field, state.own))
            gained = after.bound - state.bound
            state = after if gained >= 0 else state
            if gained < gain * self.rows.observations:
                return state, True
        return state, False
