"""Choices that the bound makes badly, made by the log score of held-out rows.

The bound is lowered at every row by the residual variance (which the inducing inputs do not explain) times the scale.
Where this is large, the scale with the largest bound is smaller than the one that predicts best. There are two
remedies: a model without the residual variance, whose own bound has a scale that predicts well, or a larger scale than
that of the largest bound.
"""

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from widetail.progress import Progress, reporter
from widetail.sparse._rows import CachedRows, log_score, log_scores
from widetail.sparse._variational import Variational
from widetail.sparse.likelihoods import Likelihood
from widetail.sparse.training._train import SparseFit, train

FACTOR = 4.0  # between the scales that are tried
MOST_TRIED = 10  # to either side
ROUGH = 1e-4  # nats per row: tolerance of the training of a candidate
CLEARLY = 2.0  # standard errors of a difference
NOTICEABLE = 1e-3  # nats per row


@dataclasses.dataclass(frozen=True, eq=False)
class HeldOutChoice:
    """The chosen candidate, and all that were tried.

    Attributes:
        residual_share: how much of the residual variance is part of the model.
        scale: where to hold the law of the scale; None to let the bound say.
        score: mean log predictive density of the held-out rows.
        q: posterior on the rows that it was chosen with, a start for training.
        likelihood: with the parameters that go with it.
        tried: residual share, scale and score of every candidate.
    """

    residual_share: float
    scale: float | None
    score: float
    q: Variational
    likelihood: Likelihood
    tried: list[tuple[float, float, float]]

    @property
    def start(self) -> Variational:
        """Where training on all rows starts."""
        return self.q if self.scale is None else self.q.with_law(self.q.law.held_at(self.scale))


def choose_residual_share(
    rows: CachedRows,
    held_out: CachedRows,
    likelihood: Likelihood,
    q: Variational,
    *,
    trainer: Callable[..., SparseFit] = train,
    checkpoint: str | Path | None = None,
    **options: Any,
) -> HeldOutChoice:
    """Keep the residual variance, unless the model without it has a clearly better log score.

    "Clearly" means by two standard errors of the row-by-row difference, and by a thousandth of a nat. The residual
    variance is uncertainty that the model should have far from its inducing inputs, where held-out rows that resemble
    the training rows say nothing.

    Args:
        rows: to train on, in random order, with all of the residual variance.
        held_out: to score.
        likelihood, q: where to start.
        trainer: how a candidate is trained, called as `train` is.
        checkpoint: the beginning of the names of files, one per candidate, that are written and resumed from.
        options: of `trainer`.
    """
    found: dict[float, tuple[SparseFit, np.ndarray]] = {}
    for share in (1.0, 0.0):
        fit = trainer(
            rows.with_residual_share(share),
            likelihood,
            q,
            tolerance=ROUGH,
            checkpoint=_part(checkpoint, share),
            **options,
        )
        others = held_out.with_residual_share(share)
        found[share] = fit, log_scores(others, fit.q, fit.likelihood, options.get("seed", 0))
    gain = found[0.0][1] - found[1.0][1]
    weights = held_out.counts.astype(np.float64)
    mean = float(np.average(gain, weights=weights))
    error = math.sqrt(np.average((gain - mean) ** 2, weights=weights) / weights.sum())
    share = 0.0 if mean > max(CLEARLY * error, NOTICEABLE) else 1.0
    tried = [
        (share, 1 / fit.q.law.mean_precision, float(np.average(scores, weights=weights)))
        for share, (fit, scores) in found.items()
    ]
    fit, scores = found[share]
    return HeldOutChoice(share, None, float(np.average(scores, weights=weights)), fit.q, fit.likelihood, tried)


def choose_scale(
    rows: CachedRows,
    held_out: CachedRows,
    likelihood: Likelihood,
    q: Variational,
    *,
    trainer: Callable[..., SparseFit] = train,
    residual_share: float = 1.0,
    checkpoint: str | Path | None = None,
    progress: Progress = False,
    **options: Any,
) -> HeldOutChoice:
    """The scale with the best log score of held-out rows.

    The search begins where the bound is largest and goes up in factors of four while the score rises (down, if the
    first step up lowers it); a parabola through the best three, in the logarithm, gives the last digits. At every scale
    the means, the covariances and the width of the law are those with the largest bound.

    Args:
        rows, held_out, likelihood, q, trainer, checkpoint: as in `choose_residual_share`.
        residual_share: of the residual variance.
        progress: True for a bar on a terminal, or a function of (scales tried, most possible).
        options: of `trainer`.
    """
    report = reporter(progress, "scale")
    most = 2 * MOST_TRIED + 1
    rows, held_out = rows.with_residual_share(residual_share), held_out.with_residual_share(residual_share)
    seed = options.get("seed", 0)
    report(0, most)
    fit = trainer(rows, likelihood, q, tolerance=ROUGH, checkpoint=_part(checkpoint, residual_share), **options)
    by_bound = 1 / fit.q.law.mean_precision
    tried = {0: (log_score(held_out, fit.q, fit.likelihood, seed), fit.q, fit.likelihood)}
    for direction in (1, -1):
        step = direction
        while abs(step) <= MOST_TRIED:
            report(len(tried), most)
            _, near, own = tried[step - direction]
            scale = by_bound * FACTOR**step
            if not near.law.log_limits[0] < math.log(scale) < near.law.log_limits[1]:
                break
            held = near.with_law(near.law.held_at(scale))
            path = _part(checkpoint, residual_share, step)
            found = trainer(rows, own, held, tolerance=ROUGH, from_few=False, checkpoint=path, **options)
            tried[step] = (log_score(held_out, found.q, found.likelihood, seed), found.q, found.likelihood)
            if tried[step][0] <= tried[step - direction][0]:
                break
            step += direction
        if max(tried, key=lambda number: tried[number][0]) > 0:
            break  # the best is above
    report(most, most)
    steps = np.array(sorted(tried))
    scores = np.array([tried[int(step)][0] for step in steps])
    best = int(np.argmax(scores))
    scale = by_bound * FACTOR ** _peak(steps, scores, best)
    listed = [
        (residual_share, by_bound * FACTOR ** float(step), float(score))
        for step, score in zip(steps, scores, strict=True)
    ]
    return HeldOutChoice(residual_share, scale, *tried[int(steps[best])], listed)


def _peak(steps: np.ndarray, scores: np.ndarray, best: int) -> float:
    """Where the parabola through the best point and its neighbours is highest."""
    if not 0 < best < len(steps) - 1:
        return float(steps[best])
    left, middle, right = scores[best - 1 : best + 2]
    bend = left - 2 * middle + right
    shift = 0.5 * (left - right) / bend if math.isfinite(bend) and bend < 0 else 0.0
    return float(steps[best] + np.clip(shift, -0.5, 0.5))


def _part(checkpoint: str | Path | None, *labels: float | int) -> Path | None:
    """The file of one candidate, next to that of the run."""
    if checkpoint is None:
        return None
    path = Path(checkpoint)
    return path.with_name(path.name + "".join(f"-{label:g}" for label in labels))
