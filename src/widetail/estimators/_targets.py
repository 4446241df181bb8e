"""What a target is (positive, between two ends, whole numbers), and the map that makes it fit for a process."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

import numpy as np

from widetail.estimators._scaling import Scaling
from widetail.files import savable
from widetail.kernels import Anova
from widetail.learning import fit_evidence
from widetail.numerics import in_parallel
from widetail.predictive import BentWarp, BoundedWarp, PositiveWarp, Predictive, Rounded, Transformed, Warp
from widetail.priors import Contaminated, InverseGamma
from widetail.process import RowNoise, RowPosterior, ScaledNoise, ScaleMixture
from widetail.tables import for_table

AnyWarp = TypeVar("AnyWarp", bound=Warp)
TargetKind = Literal["real", "positive", "bounded", "integer"]
TARGETS = ("auto", "real", "positive", "bounded", "integer")

# Units of the map of positive targets, as multiples of their median: from hardly bent to a logarithm of them all.
UNITS = (0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
LARGEST = 1e304  # of a target: sums of them and units of maps are numbers too
MOST_ROWS = 200  # by whose evidence maps are compared
# Multiplications for an evidence, about, per pair of rows.
OPERATIONS_PER_PAIR = 1000.0
MOST_NUMBERS = 4_000_000  # features times pairs of rows that are compared by
FEWEST_ROWS = 20
GAIN = 3.0  # nats of evidence that a map must be worth
GAIN_OF_A_BEND = 5.0  # of many, one gains three by chance, and it says nothing of what values can be
HOPELESS = 2.0  # nats that the best of them gains: a closer look has not made five of so few
BENDS = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5)
BENDS_TO_LEARN_FROM = (-0.6, 0.6)
STEPS = (0.05, 0.02)  # by which the best bend is looked for around the best so far
ITERATIONS = 12
ORDERS, PROPER = (1, 2, None), 40  # sums that a map and none are learned with at the end, and iterations
# Whole numbers of which there are few are seen rounded; of many, rounding says nothing.
MOST_INTEGERS = 25
STEPS_PER_SPREAD = 5.0


@savable("estimators.Target")
@dataclasses.dataclass(frozen=True)
class Target:
    """What the values of a target can be.

    Attributes:
        kind: "real" ones are bent where the evidence asks for it; "positive" and "bounded" targets are mapped to the
            real line; an "integer" one is seen rounded.
        warp: the map, or None.
        lowest: of whole numbers that are not negative, zero; else None.
        gain: nats of evidence that the map is worth over none, on the rows that were compared; 0 without comparison.
    """

    kind: TargetKind = "real"
    warp: Warp | None = None
    lowest: float | None = None
    gain: float = 0.0

    def forward(self, y: np.ndarray) -> np.ndarray:
        """Values that a process takes."""
        return y if self.warp is None else np.asarray(self.warp.forward(y))

    def inverse(self, z: Any) -> np.ndarray:
        """Values of the target."""
        return np.asarray(z if self.warp is None else self.warp.inverse(z))

    def apply(self, dist: Predictive) -> Predictive:
        """The distribution of the target from that of what the process takes."""
        if self.kind == "integer":
            return Rounded(dist, 1.0, self.lowest)
        return dist if self.warp is None else Transformed(dist, self.warp)

    def describe(self) -> str:
        """In words, for people."""
        if self.kind == "integer":
            return "whole numbers: probabilities are of each of them"
        if isinstance(self.warp, PositiveWarp):
            worth = f", worth {self.gain:.0f} nats of evidence" if self.gain else ""
            return f"positive: a logarithm below {self.warp.unit:.4g}, as it is above{worth}"
        if isinstance(self.warp, BoundedWarp):
            return f"between {self.warp.lower:g} and {self.warp.upper:g}: log odds"
        if isinstance(self.warp, BentWarp):
            apart = "small" if self.warp.bend > 0 else "large"
            return f"real: {apart} values pulled apart, worth {self.gain:.0f} nats of evidence"
        return "real"


def recognise(
    kind: Any,
    x: np.ndarray,
    y: np.ndarray,
    places: tuple[int, ...] | None,
    seed: int,
    *,
    has_outliers: bool = False,
) -> Target:
    """What a target is, by its values and, for the map of positive ones, by the evidence.

    Args:
        kind: one of `TARGETS`; "auto" finds out.
        x: inputs in standard units.
        y: targets, shape (n,) or (n, outputs); only single outputs are mapped.
        places: of encoded tables, the group of every feature.
        seed: of the rows that are compared by.
        has_outliers: whether some of the targets may be wrong: the map is then that of ordinary rows.
    """
    largest = float(np.max(np.abs(y)))
    if largest > LARGEST:
        raise ValueError(f"y has values up to {largest:.3g} in size, whose spread overflows; use other units.")
    if y.ndim > 1 or kind == "real":
        return Target()
    is_whole = bool(np.all(y == np.round(y)))
    distinct = len(np.unique(y))
    if kind == "integer" and not is_whole:
        raise ValueError(f"target='integer', but y holds {y[y != np.round(y)][0]!r}; use 'real' or 'auto'.")
    spread = Scaling.of(y[:, None]).factor[0]  # whose squares do not overflow
    is_few = is_whole and 2 < distinct <= MOST_INTEGERS and spread < STEPS_PER_SPREAD and distinct < len(y) / 2
    if kind == "integer" or (kind == "auto" and is_few):
        return Target("integer", lowest=0.0 if np.min(y) >= 0 else None)
    low, high = float(np.min(y)), float(np.max(y))
    if kind == "bounded" and not (low > 0 and high < 1):
        raise ValueError(f"target='bounded' is for y strictly between 0 and 1; it goes from {low:g} to {high:g}.")
    if kind == "positive" and not low > 0:
        raise ValueError(f"target='positive', but the smallest of y is {low:g}; use 'real' or 'auto'.")
    if kind == "bounded":
        return Target("bounded", BoundedWarp())
    if high == low or (kind == "auto" and (len(y) < FEWEST_ROWS or x.ndim > 2)):
        return Target()
    maps: list[Warp] = [PositiveWarp(unit * float(np.median(y))) for unit in UNITS] if low > 0 else []
    if low > 0 and high < 1:
        maps.append(BoundedWarp())
    compared = _Comparison(x, y, places, seed, has_outliers)
    found, gain = Target(), 0.0
    if maps:
        compared.learn(maps[len(UNITS) - 1 : len(UNITS)])
        best, gain = compared.best(maps)
        found = Target("bounded" if isinstance(best, BoundedWarp) else "positive", best, gain=max(gain, 0.0))
    if kind == "positive":
        return found
    if gain < GAIN:
        found, gain = Target(), 0.0
    bent, better = compared.best_bend()
    if better >= gain + GAIN_OF_A_BEND:
        found = Target("real", bent, gain=better)
    if found.warp is None:
        return found
    gain = compared.gain_when_learned(found.warp)
    least = GAIN if found.kind != "real" else GAIN_OF_A_BEND
    return dataclasses.replace(found, gain=gain) if gain >= least else Target()


class _Comparison:
    """The evidence of y under maps, on some of the rows.

    A sum over functions of any features is learned roughly from the values as they are, and from those of a few maps;
    every map is scored with what each of them found, and has the best of these scores.
    """

    def __init__(self, x: np.ndarray, y: np.ndarray, places: tuple[int, ...] | None, seed: int, has_outliers: bool):
        size = max(40, min(MOST_ROWS, int((MOST_NUMBERS / x.shape[1]) ** 0.5)))
        rows = np.random.default_rng(seed).permutation(len(y))[:size]
        self.x, self.y, self.places = x[rows], y[rows], places
        if has_outliers:
            ordinary = self._ordinary()
            self.x, self.y = self.x[ordinary], self.y[ordinary]
        self.processes: list[ScaleMixture] = []
        self.learn([None])

    def _ordinary(self) -> np.ndarray:
        """Which rows are no outliers of a function of the values as they are."""
        start = self._start(noise=RowNoise(Contaminated(), 0.05))
        z = Scaling.robust(self.y[:, None], np.ones(len(self.y))).apply(self.y[:, None])[:, 0]
        found = fit_evidence(start, self.x, z, max_iterations=ITERATIONS, tolerance=1e-3).process
        posterior = found.posterior(self.x, z)
        assert isinstance(posterior, RowPosterior)
        ordinary = np.ones(len(z), dtype=bool)
        ordinary[posterior.outliers()] = False
        return ordinary

    def _start(self, order: int | None = None, noise: Any = None) -> ScaleMixture:
        """Where learning starts: sums of functions of so many features at once."""
        kernel, noise = Anova(3.0, 0.15, order), ScaledNoise(0.05) if noise is None else noise
        kernel = kernel if self.places is None else for_table(kernel, self.places)
        return ScaleMixture(kernel, InverseGamma(0.5, 0.5), noise, scale_sharing="per_output")

    def learn(self, warps: Sequence[Warp | None]) -> None:
        """Learn from the values under maps, too."""

        def learned(warp: Warp | None) -> ScaleMixture:
            z, _ = _standard([warp], self.y)
            return fit_evidence(self._start(), self.x, z, max_iterations=ITERATIONS, tolerance=1e-3).process

        self.processes += self._side_by_side(learned, warps)

    def gain_when_learned(self, warp: Warp) -> float:
        """What a map gains over none where sums of every order are learned properly, from both.

        A function may be a sum over pairs as it is, and under a map a sum of nothing: rough learning sees that late.
        """

        def learned(case: tuple[Warp | None, int | None]) -> float:
            z, log_slopes = _standard(case[:1], self.y)
            fit = fit_evidence(self._start(case[1]), self.x, z, max_iterations=PROPER, tolerance=1e-4)
            return fit.log_evidence + float(log_slopes[0])

        cases = [(one, order) for one in (warp, None) for order in ORDERS]
        found = self._side_by_side(learned, cases)
        return max(found[: len(ORDERS)]) - max(found[len(ORDERS) :])

    def _side_by_side(self, work: Any, items: Sequence[Any]) -> list[Any]:
        return in_parallel(work, items, OPERATIONS_PER_PAIR * len(self.y) ** 2)

    def scores(self, maps: Sequence[Warp | None]) -> np.ndarray:
        """The log evidence of y under every map."""
        z, log_slopes = _standard(maps, self.y)
        evidences = self._side_by_side(lambda one: one.posterior(self.x, z).scale.log_evidence, self.processes)
        return np.max(evidences, axis=0) + log_slopes

    def best(self, maps: Sequence[AnyWarp]) -> tuple[AnyWarp, float]:
        """The map with the largest evidence, and what it gains over none."""
        scores = self.scores([None, *maps])
        place = int(np.argmax(scores[1:]))
        return maps[place], float(scores[1 + place] - scores[0])

    def best_bend(self) -> tuple[BentWarp, float]:
        """The same of all bends: the best of a few is where learning goes on."""
        centre, unit = float(np.mean(self.y)), float(Scaling.of(self.y[:, None]).factor[0])
        bends = [sign * bend for bend in BENDS for sign in (-1.0, 1.0)]
        self.learn([BentWarp(centre, unit, bend) for bend in BENDS_TO_LEARN_FROM])
        best, gain = 0.0, 0.0
        for step in STEPS:
            found, gain = self.best([BentWarp(centre, unit, bend) for bend in bends])
            best = found.bend
            if gain < HOPELESS:
                break
            bends = [best + step * k for k in (-2, -1, 0, 1, 2)]
            self.learn([found])
        return BentWarp(centre, unit, best), gain


def _standard(maps: Sequence[Warp | None], y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mapped and standardised values, a column for each map, and the logarithms of the Jacobians of both."""
    z = np.stack([y if warp is None else np.asarray(warp.forward(y)) for warp in maps], axis=1)
    scaling = Scaling.of(z)
    slopes = [0.0 if warp is None else float(np.sum(warp.log_slope(y))) for warp in maps]
    return scaling.apply(z), np.array(slopes) - len(y) * np.log(scaling.factor)
