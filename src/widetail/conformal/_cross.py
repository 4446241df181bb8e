"""CV+: intervals from models that were learned without some of the rows, whatever it was that was learned."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from widetail.checks import check_count, check_targets, like_targets, two_dimensional
from widetail.conformal._groups import Groups, Rows, check_coverage, in_parts
from widetail.predictive import Predictive
from widetail.progress import Progress, reporter

NEW_ROWS_AT_A_TIME = 1024
# The central interval of a normal distribution one standard deviation to both sides; every distribution has one.
LEVELS = np.array([0.15865525393145707, 0.5, 0.8413447460685429])

Predict = Callable[[Any], Predictive]


@dataclasses.dataclass(frozen=True, eq=False)
class CrossFits:
    r"""Models that were learned without a fold of the rows each, and how far off they were on it.

    Row i says: a model that had not seen me predicts the new y at $\mu$ with spread $s$ (median, and half the width of
    the central 68 % interval), and on me it was off by $r_i$ such spreads, so expect it within $\mu \pm r_i s$. The
    interval leaves out a share of `1 - coverage` of the lower ends below it, and of the upper ends above it.

    Guarantee: for exchangeable rows a new y is inside with probability `1 - 2 * (1 - coverage) - sqrt(2 / n)` at least,
    whatever its distribution and whatever was learned (the exact bound is `worst_case`). Usually it is `coverage` or a
    little more, because a model of all rows is a little better than those of the folds.

    Attributes:
        held_out: rows of every fold.
        models: what predicts without them: `model(x_new)` is a `Predictive`.
        scores: how far every row was off, shape (n, outputs).
        y: the targets.
        counts: how often each row was observed.
    """

    held_out: Sequence[np.ndarray]
    models: Sequence[Predict]
    scores: np.ndarray
    y: np.ndarray
    counts: np.ndarray | None = None

    @classmethod
    def fit(
        cls,
        fit: Callable[[np.ndarray], Predict],
        x: Any,
        y: Any,
        *,
        folds: int = 10,
        seed: int = 0,
        counts: Any = None,
        progress: Progress = False,
    ) -> "CrossFits":
        """Learn one model per fold: `folds` times the cost of one.

        Args:
            fit: takes the numbers of the rows to learn from, returns what predicts: x_new in, a `Predictive` out. All
                that is learned from data, standardisation included, has to be learned here.
            x: inputs, rows first.
            y: targets, shape (n,) or (n, outputs).
            folds: at least 2; no more than there are rows are made.
            seed: of the split.
            counts: how often each row was observed.
            progress: True for a bar on a terminal, or a function of (folds done, in all).

        Example:
            >>> import numpy as np, widetail as wt
            >>> x = np.linspace(-2.0, 2.0, 40)[:, None]
            >>> y = np.sin(3.0 * x[:, 0])
            >>> process = wt.ScaleMixture(wt.kernels.RBF())
            >>> def fit(rows):
            ...     return wt.fit_evidence(process, x[rows], y[rows]).process.posterior(x[rows], y[rows])
            >>> fits = wt.conformal.CrossFits.fit(fit, x, y, folds=4)
            >>> lower, upper = fits.interval(np.array([[0.5]]), coverage=0.9)
            >>> bool(lower[0] < np.sin(1.5) < upper[0])
            True
        """
        check_count("folds", folds, least=2)
        x = x if hasattr(x, "dtype") else np.asarray(x)
        y = check_targets(x, y)
        if len(y) < 2:
            raise ValueError(
                f"CrossFits needs two rows at least, to learn from one and predict the other; got {len(y)}."
            )
        shuffled = np.random.default_rng(seed).permutation(len(y))
        held_out = [np.sort(part) for part in np.array_split(shuffled, min(folds, len(y)))]
        report = reporter(progress, "folds")
        models, scores = [], np.zeros(two_dimensional(y).shape)
        for done, fold in enumerate(held_out):
            report(done, len(held_out))
            model = fit(np.setdiff1d(np.arange(len(y)), fold))
            centre, spread = _centre_and_spread(model(x[fold]))
            scores[fold] = np.abs(two_dimensional(y)[fold] - centre) / spread
            models.append(model)
        report(len(held_out), len(held_out))
        return cls(held_out, models, scores, y, None if counts is None else np.asarray(counts, dtype=np.float64))

    def interval(
        self, x_new: Any, coverage: float = 0.9, groups: Groups | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends, of shape (m,) or (m, outputs), one output at a time.

        Args:
            x_new: inputs, rows first, m of them.
            coverage: between 0 and 1.
            groups: labels of the observed rows and of the new ones, a pair of arrays of lengths n and m: the guarantee
                then holds within every group. A group of fewer than `coverage / (1 - coverage)` observed rows has
                infinite intervals, and a warning names it.
        """
        coverage = check_coverage(coverage)
        x_new = x_new if hasattr(x_new, "dtype") else np.asarray(x_new)
        rows = Rows(len(self.y), len(x_new), self.counts, groups)
        rows.warn_of_few(coverage)

        def work(part: slice) -> tuple[np.ndarray, np.ndarray]:
            shape = (len(self.y), len(x_new[part]), self.scores.shape[1])
            centre, width = np.empty(shape), np.empty(shape)
            for fold, model in zip(self.held_out, self.models, strict=True):
                middle, spread = _centre_and_spread(model(x_new[part]))
                centre[fold] = middle
                width[fold] = self.scores[fold][:, None] * spread
            ends = [
                rows.ends(
                    centre[..., output] - width[..., output], centre[..., output] + width[..., output], coverage, part
                )
                for output in range(shape[-1])
            ]
            lower, upper = (np.stack(side, axis=-1) for side in zip(*ends, strict=True))
            return like_targets(lower, self.y), like_targets(upper, self.y)

        return in_parts(len(x_new), NEW_ROWS_AT_A_TIME, work)

    def worst_case(self, coverage: float = 0.9) -> float:
        """The probability that a new y is inside, at least, whatever the distribution of the rows."""
        n, folds = len(self.y), len(self.held_out)
        loss = min(2 * (1 - 1 / folds) / (n / folds + 1), (1 - folds / n) / (folds + 1))
        return max(0.0, 1 - 2 * (1 - check_coverage(coverage)) - loss)


def _centre_and_spread(dist: Predictive) -> tuple[np.ndarray, np.ndarray]:
    """Shapes (m, outputs)."""
    lower, middle, upper = (two_dimensional(np.asarray(part)) for part in dist.quantile(LEVELS))
    return middle, np.maximum(0.5 * (upper - lower), np.finfo(float).tiny)
