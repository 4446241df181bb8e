"""Hyperparameters integrated out: a mixture of processes instead of the best one.

Below some hundred rows the evidence is wide, and one optimum is far too sure of itself. Around the optimum of each
candidate a multivariate t distribution in the logarithms of the parameters is laid; draws of it, and some of the prior,
weighted by evidence times prior over the density that they were drawn with, stand for the posterior of the parameters.
The mean of the weights is the evidence of the candidate, by which candidates are averaged.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import scipy.optimize
import scipy.special
import scipy.stats

from widetail.checks import check_targets
from widetail.files import savable
from widetail.learning._hyperpriors import Hyperpriors
from widetail.learning._objective import evidence_and_gradient, log_evidence
from widetail.learning._parameters import Parameters
from widetail.learning._row_turns import with_noise
from widetail.learning._stacking import stacking_weights
from widetail.learning._weighted_posterior import WeightedPosterior
from widetail.numerics import in_parallel
from widetail.process import Noise, RowFactors, ScaledNoise, ScaleMixture, check_counts, check_noise_weights
from widetail.progress import Progress, reporter

DEGREES = 8.0  # of the t distribution that draws come from: wider than a normal one, so that weights stay bounded
DRAWS_PER_PRIOR_DRAW = 4  # some draws are of the prior: they find other optima, and bound the weights
SMALL_STEP = 1e-3  # of the logarithms, for second derivatives
SMOOTH = {"length_scale": 6.0, "weight_var": 0.05, "noise": 1e-6}  # the second start
NORMAL_FALL = 2.0  # nats, of a normal density two standard deviations off
FARTHEST_FALL, MOST_SHRINKINGS = 32.0, 6
STRAIGHT = 0.5  # of the logarithms: on so short a way no ridge bends
FINE_GAIN = 0.003  # nats: the centre of the draws need not be nearer to the optimum than that
# Multiplications for an evidence, about, per pair of rows: from some hundred rows on they are shared among the cores.
OPERATIONS_PER_PAIR = 1000.0
LARGE = 1e10  # what a line search sees where the covariance cannot be factored


@savable("learning.Integrated")
@dataclasses.dataclass(frozen=True)
class Integrated:
    """Processes that stand for the posterior of their hyperparameters.

    Attributes:
        processes: draws of all candidates, those of the one with the largest evidence first.
        names: of which candidate each is.
        weights: one per process, adding up to one.
        log_evidences: of every candidate by name, hyperparameters integrated out, in nats.
        effective: effective number of draws by candidate; a few are enough to predict with, one is not.
        best: the process at the optimum of the candidate with the largest evidence.
    """

    processes: list[ScaleMixture]
    names: list[str]
    weights: np.ndarray
    log_evidences: dict[str, float]
    effective: dict[str, float]
    best: ScaleMixture

    def __post_init__(self):
        if not len(self.processes) == len(self.names) == len(self.weights) > 0 or not np.all(self.weights > 0):
            raise ValueError(f"a positive weight and a name for every process were expected; got {self.weights!r}.")

    @property
    def shares(self) -> dict[str, float]:
        """Weight of every candidate, all its draws together; the heaviest first."""
        names = np.array(self.names)
        shares = {name: float(np.sum(self.weights[names == name])) for name in self.log_evidences}
        return dict(sorted(shares.items(), key=lambda item: -item[1]))

    def posterior(self, x: Any, y: Any, **rows: Any) -> WeightedPosterior:
        """Condition every process on the same data; `rows` are `noise_weights` and `counts`."""
        posteriors = in_parallel(
            lambda process: process.posterior(x, y, **rows), self.processes, OPERATIONS_PER_PAIR * len(y) ** 2
        )
        return WeightedPosterior(posteriors, self.weights)

    def with_noise(self, noise: Noise | None) -> "Integrated":
        """The same processes with another kind of noise, each with the variance that it has; None leaves them."""
        if noise is None or isinstance(noise, ScaledNoise):
            return self

        def changed(process: ScaleMixture) -> ScaleMixture:
            return with_noise(process, dataclasses.replace(noise, variance=process.noise.variance))

        return dataclasses.replace(self, processes=[*map(changed, self.processes)], best=changed(self.best))

    def __str__(self) -> str:
        width = max(map(len, self.log_evidences))
        lines = [
            f"  {name.ljust(width)}  weight {share:.3f}, log evidence {self.log_evidences[name]:.2f}, "
            f"effective draws {self.effective[name]:.1f}"
            for name, share in self.shares.items()
        ]
        return "\n".join(["hyperparameters integrated out", *lines])


def integrate_evidence(
    candidates: ScaleMixture | Mapping[str, ScaleMixture],
    x: Any,
    y: Any,
    *,
    hyperpriors: Mapping[str, tuple[float, float]] | None = None,
    draws: int = 128,
    keep: int = 32,
    smooth: bool = True,
    average: Literal["evidence", "stacking"] = "evidence",
    max_iterations: int = 100,
    tolerance: float = 1e-7,
    seed: int = 0,
    noise_weights: Any = None,
    counts: Any = None,
    progress: Progress = False,
) -> Integrated:
    """Average processes over the posterior of their hyperparameters, and over candidates by their evidence.

    For few rows: it costs the optimum that `fit_evidence` finds, one evaluation per learned number for second
    derivatives, and `draws` factorisations; predictions then cost `keep` posteriors at most.

    Args:
        candidates: a process, or several by name; their float parameters are where learning starts.
        x: inputs, rows first, in standard units.
        y: targets, shape (n,) or (n, outputs), in standard units.
        hyperpriors: priors that differ from `widetail.learning.HYPERPRIORS`: (median, spread of the logarithm) by
            field, such as {"length_scale": (1.0, 0.5)}; "noise" for the noise variance.
        draws: of each candidate's hyperparameters around its optimum, and a quarter as many of the prior; powers of
            two are best.
        keep: how many processes to predict with: draws of all candidates, each as often as its weight says.
        smooth: whether the optimum is looked for from a second start as well: hardly any noise, and functions that
            hardly bend. False where candidates have been learned.
        average: what candidates are averaged by: their "evidence", or "stacking", the weights with which they predict
            left-out rows best together (see `stacking_weights`).
        max_iterations: of each optimisation.
        tolerance: of each optimisation, in nats per observation; it ends before where a step gains less than 0.003
            nats of all rows together.
        seed: of the draws.
        noise_weights, counts: as in `ScaleMixture.posterior`.
        progress: True for a bar on a terminal, or a function of (candidates done, in all).

    Example:
        >>> import numpy as np, widetail as wt
        >>> x = np.linspace(-1.5, 1.5, 12)[:, None]
        >>> process = wt.ScaleMixture(wt.kernels.RBF())
        >>> integrated = wt.learning.integrate_evidence(process, x, np.sin(3.0 * x[:, 0]), draws=8)
        >>> dist = integrated.posterior(x, np.sin(3.0 * x[:, 0]))(np.array([[0.5]]))
        >>> bool(dist.interval(0.9)[0][0] < np.sin(1.5) < dist.interval(0.9)[1][0])
        True
    """
    if isinstance(candidates, ScaleMixture):
        candidates = {"given": candidates}
    if not candidates:
        raise ValueError("candidates must hold at least one process.")
    if average not in ("evidence", "stacking"):
        raise ValueError(f"average must be 'evidence' or 'stacking'; got {average!r}.")
    x = x if hasattr(x, "dtype") else np.asarray(x)
    y = check_targets(x, y)
    rows = RowFactors.of(len(y), check_noise_weights(noise_weights, len(y)), check_counts(counts, len(y)))
    report = reporter(progress, "candidates")
    found: dict[str, _Draws] = {}
    for done, (name, process) in enumerate(candidates.items()):
        report(done, len(candidates))
        problem = _Problem(process, x, y, rows, hyperpriors)
        centre = problem.optimum(max_iterations, max(tolerance, FINE_GAIN / rows.observations), smooth=smooth)
        found[name] = _draw(problem, centre, draws, seed)
    report(len(candidates), len(candidates))
    processes = [process for part in found.values() for process in part.processes]
    names = [name for name, part in found.items() for _ in part.processes]
    evidences = {name: float(np.asarray(scipy.special.logsumexp(part.log_weights))) for name, part in found.items()}
    if average == "evidence":
        shares = scipy.special.softmax(list(evidences.values()))
    else:
        left_out = [_left_out(part, x, y, rows, keep, seed) for part in found.values()]
        shares = stacking_weights(np.array(left_out), rows.counts)
    inside = [scipy.special.softmax(part.log_weights) for part in found.values()]
    times = _as_often(np.concatenate([s * part for s, part in zip(shares, inside, strict=True)]), keep, seed)
    order = sorted(np.flatnonzero(times), key=lambda i: (-evidences[names[i]], -times[i]))
    return Integrated(
        processes=[processes[i] for i in order],
        names=[names[i] for i in order],
        weights=times[order] / np.sum(times),
        log_evidences=evidences,
        effective={name: part.effective for name, part in found.items()},
        best=found[max(evidences, key=lambda name: evidences[name])].best,
    )


class _Problem:
    """The log posterior density of the logarithms of one candidate's parameters."""

    def __init__(self, process: ScaleMixture, x: Any, y: np.ndarray, rows: RowFactors, hyperpriors: Any):
        self.parameters = Parameters(process, ("kernel", "noise"))
        self.prior = Hyperpriors(self.parameters, hyperpriors)
        self.x, self.y, self.rows = x, y, rows
        self.low, self.high = np.array(self.parameters.bounds()).T

    def value_and_gradient(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = evidence_and_gradient(self.parameters, vector, self.x, self.y, self.rows)
        prior, slope = self.prior.log_prob_and_gradient(vector)
        return value + prior, gradient + slope

    def value(self, vector: np.ndarray) -> float:
        """Without the gradient, which costs three times as much; minus infinity where nothing can be factored."""
        try:
            evidence = log_evidence(self.parameters.process(vector), self.x, self.y, self.rows)
        except np.linalg.LinAlgError:
            return -np.inf
        return evidence + self.prior.log_prob_and_gradient(vector)[0]

    def starts(self, *, smooth: bool) -> list[np.ndarray]:
        """As given; and nearly without noise, with functions that hardly bend, from where smooth ones are found."""
        given = self.parameters.start()
        if not smooth:
            return [np.clip(given, self.low, self.high)]
        parts = []
        for slot, values in self.parameters.split(given):
            field = slot.field if slot.part == "kernel" else slot.part
            parts.append(np.full(slot.size, np.log(SMOOTH[field])) if field in SMOOTH else values)
        return [np.clip(start, self.low, self.high) for start in (given, np.concatenate(parts))]

    def optimum(self, max_iterations: int, tolerance: float, *, smooth: bool) -> np.ndarray:
        """The best of what the starts lead to."""
        count = self.rows.observations

        def loss(vector: np.ndarray) -> tuple[float, np.ndarray]:
            try:
                value, gradient = self.value_and_gradient(vector)
            except np.linalg.LinAlgError:
                return LARGE, np.zeros_like(vector)
            return -value / count, -gradient / count

        options = {"maxiter": max_iterations, "ftol": tolerance}
        bounds = list(zip(self.low, self.high, strict=True))
        found = [
            scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
            for start in self.starts(smooth=smooth)
        ]
        return min(found, key=lambda result: result.fun).x

    def precision(self, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues and eigenvectors of minus the second derivatives; at least what the prior alone would say.

        Along a ridge that bends second derivatives say nothing of how far one gets on a straight line. So the density
        is asked, two standard deviations off on either side: where it is far lower than it would be for a normal law,
        the eigenvalue grows until it is not.
        """
        middle = self.value_and_gradient(vector)[1]

        def column(number: int) -> np.ndarray:
            # towards the inside, where there is an end
            step = SMALL_STEP if vector[number] + SMALL_STEP <= self.high[number] else -SMALL_STEP
            there = vector.copy()
            there[number] += step
            return (middle - self.value_and_gradient(there)[1]) / step

        second = np.array(self.side_by_side(column, range(len(vector))))
        values, vectors = np.linalg.eigh(0.5 * (second + second.T))
        values = np.maximum(values, 0.5 / np.max(self.prior.spread) ** 2)
        here = self.value(vector)

        def shrunk(number: int) -> float:
            value = values[number]
            for _ in range(MOST_SHRINKINGS):
                step = 2 / np.sqrt(value)
                if step < STRAIGHT:
                    break
                ends = [np.clip(vector + end * vectors[:, number], self.low, self.high) for end in (-step, step)]
                fall = np.mean([min(here - self.value(end), FARTHEST_FALL) for end in ends])
                if fall < 2 * NORMAL_FALL:
                    break
                value *= fall / NORMAL_FALL
            return value

        return np.array(self.side_by_side(shrunk, range(len(vector)))), vectors

    def side_by_side(self, work: Any, items: Any) -> list[Any]:
        """Results for all items; with enough rows, on all cores."""
        return in_parallel(work, items, OPERATIONS_PER_PAIR * len(self.y) ** 2)


@dataclasses.dataclass(frozen=True)
class _Draws:
    processes: list[ScaleMixture]
    log_weights: np.ndarray
    effective: float
    best: ScaleMixture


def _draw(problem: _Problem, centre: np.ndarray, draws: int, seed: int) -> _Draws:
    """Weighted draws of one candidate's hyperparameters, around their optimum and from their prior."""
    values, vectors = problem.precision(centre)
    uniform = _uniform(draws, len(centre) + 1, seed)
    stretch = np.sqrt(DEGREES / scipy.stats.chi2.ppf(uniform[:, -1], DEGREES))
    normal = scipy.special.ndtri(uniform[:, :-1]) * stretch[:, None]
    near = centre + (normal / np.sqrt(values)) @ vectors.T
    anywhere = scipy.special.ndtri(_uniform(draws // DRAWS_PER_PRIOR_DRAW, len(centre), seed + 1))
    anywhere = problem.prior.mean + problem.prior.spread * anywhere
    points = np.clip(np.concatenate([near, anywhere]), problem.low, problem.high)
    share = len(anywhere) / len(points)
    with np.errstate(divide="ignore"):  # few draws are all near
        log_density = np.logaddexp(
            np.log1p(-share) + _log_t(points - centre, values, vectors),
            np.log(share) + np.array([problem.prior.log_prob_and_gradient(point)[0] for point in points]),
        )
    log_weights = np.array(problem.side_by_side(problem.value, list(points))) - log_density
    # the largest weights are cut at what many draws would have left of them: less variance for a little bias
    limit = scipy.special.logsumexp(log_weights) - 0.5 * np.log(len(points))
    log_weights = np.minimum(log_weights, limit) - np.log(len(points))
    shares = scipy.special.softmax(log_weights)
    return _Draws(
        processes=[problem.parameters.process(point) for point in points],
        log_weights=log_weights,
        effective=float(1 / np.sum(shares**2)),
        best=problem.parameters.process(centre),
    )


def _left_out(found: _Draws, x: Any, y: np.ndarray, rows: RowFactors, keep: int, seed: int) -> np.ndarray:
    """Log density of every row given the others, for a candidate with its hyperparameters integrated out."""
    times = _as_often(scipy.special.softmax(found.log_weights), keep, seed)
    kept = np.flatnonzero(times)
    posteriors = [found.processes[i].condition(x, y, rows) for i in kept]
    return WeightedPosterior(posteriors, times[kept] / np.sum(times)).left_out_log_prob()


def _as_often(weights: np.ndarray, keep: int, seed: int) -> np.ndarray:
    """How often each draw is kept, `keep` times in all: its share, rounded up or down by one random number for all."""
    ends = np.floor(keep * np.cumsum(weights) + np.random.default_rng(seed).uniform())
    return np.diff(ends, prepend=0.0)


def _uniform(count: int, size: int, seed: int) -> np.ndarray:
    """Points spread evenly over the unit cube, inside of it."""
    power = max(count - 1, 0).bit_length()
    points = scipy.stats.qmc.Sobol(size, rng=seed).random_base2(power)[:count]
    return np.clip(points, 1e-9, 1 - 1e-9)


def _log_t(shift: np.ndarray, values: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Log density of a multivariate t distribution at `shift` from its centre, by its precision's eigenvectors."""
    size = len(values)
    half = 0.5 * (DEGREES + size)
    constant = scipy.special.gammaln(half) - scipy.special.gammaln(0.5 * DEGREES) - 0.5 * size * np.log(DEGREES * np.pi)
    squares = np.sum((shift @ vectors) ** 2 * values, axis=1)
    return constant + 0.5 * np.sum(np.log(values)) - half * np.log1p(squares / DEGREES)
