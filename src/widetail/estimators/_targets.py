"""What a target is (positive, between two ends, whole numbers), and the map that makes it fit for a process."""

import dataclasses
from typing import Any, Literal

import numpy as np

from widetail.estimators._scaling import Scaling
from widetail.files import savable
from widetail.kernels import Anova
from widetail.learning import fit_evidence
from widetail.predictive import BoundedWarp, PositiveWarp, Predictive, Rounded, Transformed
from widetail.priors import InverseGamma
from widetail.process import ScaledNoise, ScaleMixture
from widetail.tables import for_table

TargetKind = Literal["real", "positive", "bounded", "integer"]
TARGETS = ("auto", "real", "positive", "bounded", "integer")

# Units of the map of positive targets, as multiples of their median: from hardly bent to a logarithm of them all.
UNITS = (0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
MOST_ROWS = 200  # by whose evidence maps are compared
MOST_NUMBERS = 4_000_000  # features times pairs of rows that are compared by
FEWEST_ROWS = 20
GAIN = 3.0  # nats of evidence that a map must be worth
ITERATIONS = 12
# Whole numbers of which there are few are seen rounded; of many, rounding says nothing.
MOST_INTEGERS = 25
STEPS_PER_SPREAD = 5.0


@savable("estimators.Target")
@dataclasses.dataclass(frozen=True)
class Target:
    """What the values of a target can be.

    Attributes:
        kind: "real"; "positive" and "bounded" targets are mapped to the real line; an "integer" one is seen rounded.
        warp: the map, or None.
        lowest: of whole numbers that are not negative, zero; else None.
        gain: nats of evidence that the map is worth over none, on the rows that were compared; 0 without comparison.
    """

    kind: TargetKind = "real"
    warp: PositiveWarp | BoundedWarp | None = None
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
        return "real"


def recognise(kind: Any, x: np.ndarray, y: np.ndarray, places: tuple[int, ...] | None, seed: int) -> Target:
    """What a target is, by its values and, for the map of positive ones, by the evidence.

    Args:
        kind: one of `TARGETS`; "auto" finds out.
        x: inputs in standard units.
        y: targets, shape (n,) or (n, outputs); only single outputs are mapped.
        places: of encoded tables, the group of every feature.
        seed: of the rows that are compared by.
    """
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
    if not low > 0 or high == low or (kind == "auto" and (len(y) < FEWEST_ROWS or x.ndim > 2)):
        return Target()
    maps: list[PositiveWarp | BoundedWarp] = [PositiveWarp(unit * float(np.median(y))) for unit in UNITS]
    if high < 1:
        maps.append(BoundedWarp())
    best, gain = _best_map(maps, x, y, places, seed)
    if kind == "auto" and gain < GAIN:
        return Target()
    return Target("bounded" if isinstance(best, BoundedWarp) else "positive", best, gain=max(gain, 0.0))


def _best_map(
    maps: list[PositiveWarp | BoundedWarp], x: np.ndarray, y: np.ndarray, places: tuple[int, ...] | None, seed: int
) -> tuple[PositiveWarp | BoundedWarp, float]:
    """The map with the largest evidence of y, and what it gains over none.

    A sum over functions of any features is learned roughly from the values as they are, and from their logarithms; with
    what each of them found every map is scored.
    """
    size = max(40, min(MOST_ROWS, int((MOST_NUMBERS / x.shape[1]) ** 0.5)))
    rows = np.random.default_rng(seed).permutation(len(y))[:size]
    x, y = x[rows], y[rows]
    kernel = Anova(3.0, 0.15)
    start = ScaleMixture(
        kernel if places is None else for_table(kernel, places), InverseGamma(0.5, 0.5), ScaledNoise(0.05)
    )
    scores = np.full((2, len(maps) + 1), -np.inf)
    for number, first in enumerate((None, maps[len(UNITS) - 1])):
        learned = fit_evidence(start, x, _standard(first, y)[0], max_iterations=ITERATIONS, tolerance=1e-3).process
        for place, one in enumerate([None, *maps]):
            z, log_slopes = _standard(one, y)
            scores[number, place] = learned.posterior(x, z).log_evidence + log_slopes
    best = np.max(scores, axis=0)
    place = int(np.argmax(best[1:]))
    return maps[place], float(best[1 + place] - best[0])


def _standard(warp: PositiveWarp | BoundedWarp | None, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Mapped and standardised values, and the logarithm of the Jacobian of both."""
    z = y if warp is None else np.asarray(warp.forward(y))
    scaling = Scaling.of(z[:, None])
    slopes = 0.0 if warp is None else float(np.sum(warp.log_slope(y)))
    return scaling.apply(z[:, None])[:, 0], slopes - len(y) * float(np.log(scaling.factor[0]))
