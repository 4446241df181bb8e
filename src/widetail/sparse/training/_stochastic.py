"""Training by natural gradients of minibatches."""

import dataclasses
import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from widetail.files import fingerprint
from widetail.progress import Progress
from widetail.sparse._draws import nodes_of
from widetail.sparse._memory import KEPT_ROWS, Memory
from widetail.sparse._rows import CachedRows, as_numbers_of, variances
from widetail.sparse._variational import Variational
from widetail.sparse.likelihoods import Likelihood
from widetail.sparse.scales import ScaleLaw
from widetail.sparse.training._epochs import Epochs
from widetail.sparse.training._extrapolate import extrapolate, extrapolation
from widetail.sparse.training._learn import improved_likelihood
from widetail.sparse.training._minibatch import (
    REFRESH_EVERY,
    Moments,
    minibatch_step,
    moments_of,
    refresh,
    variational_of,
)
from widetail.sparse.training._natural import SCALE_ROWS, Ascent
from widetail.sparse.training._train import SparseFit, Validate, likelihood_facts, restored_likelihood

# How steps shorten: with 1 every row would count alike, below it late rows count more, which saw a better posterior.
POWER = 0.8
NO_SCALES = np.full(3, np.nan)
SLOWEST = 0.8  # as in `_extrapolate`, with steps that are noisy here


class _State(NamedTuple):
    """What changes, as arrays: a checkpoint holds it."""

    moments: Moments
    law: dict[str, Any]
    likelihood: dict[str, Any]
    log_scales: np.ndarray  # after the last three epochs, since the last extrapolation; NaN before


def train_minibatches(
    rows: CachedRows,
    likelihood: Likelihood,
    q: Variational,
    seen: int,
    *,
    kept_rows: int = KEPT_ROWS,
    learn_likelihood: bool = True,
    batch_size: int = 256,
    epochs: int = 10,
    seed: int = 0,
    validate: Validate | None = None,
    patience: int = 5,
    checkpoint: str | Path | None = None,
    progress: Progress = False,
) -> SparseFit:
    """Maximise the evidence lower bound by natural gradients of minibatches, from a good start.

    An epoch reads the features once, in order, and computes about as much as an iteration of `train`, which reads them
    tens of times. What is left of the noise of minibatches falls with the number of epochs. Steps shorten by
    themselves, beginning with what is sensible after `seen` rows; the law of the scale and the likelihood are improved
    after every epoch.

    Args:
        rows: cached features and targets, in random order.
        likelihood: where learning starts.
        q: where to start: what `train` found for the first rows.
        seen: how many these were.
        kept_rows: how many rows may be remembered as they are; see `Memory`.
        learn_likelihood: whether to learn the parameters of the likelihood.
        batch_size: rows per step.
        epochs: passes through the rows, at most.
        seed: of the order of the rows and the draws of f.
        validate, patience: as in `train`, after every epoch.
        checkpoint: a file that is written after every epoch; if it is there already, training resumes from it.
        progress: True for a bar on a terminal, or a function of (steps done, steps in all).

    Raises:
        DivergenceError: the bound or a score is NaN or infinite, or a covariance is not positive definite.
    """
    began = time.monotonic()
    dtype = rows.features.dtype
    size = min(batch_size, len(rows))
    some = _counting_for_all(rows.first(SCALE_ROWS), rows)
    plan = Epochs(
        label="minibatches",
        rows=len(rows),
        are_shuffled=True,
        batch_size=size,
        epochs=epochs,
        seed=seed,
        patience=patience,
        observations=rows.observations,
        progress=progress,
        checkpoint=checkpoint,
        identity="" if checkpoint is None else fingerprint(
            rows, likelihood, q, seen, learn_likelihood, batch_size, seed, validate is None
        ),
    )  # fmt: skip

    def law_of(state: _State) -> ScaleLaw:
        return q.law.restored(state.law)

    def likelihood_of(state: _State) -> Likelihood:
        return restored_likelihood(likelihood, state.likelihood)

    def step(state: _State, chosen: np.ndarray, before: int) -> tuple[_State, Any]:
        law, own = law_of(state), likelihood_of(state)
        nodes = nodes_of(law, own, len(q.mean), seed, dtype, rows=size)
        rate = (2 + seen / size + before) ** -POWER
        numbers = (np.asarray(number, dtype) for number in (law.mean_precision, len(rows) / size, rate))
        batch = (part[chosen] for part in (rows.features, rows.residual, rows.y, rows.counts))
        moments, bound = minibatch_step(as_numbers_of(rows, own), state.moments, *batch, nodes, *numbers)
        if before % REFRESH_EVERY == REFRESH_EVERY - 1:
            moments = refresh(moments)
        return state._replace(moments=moments), bound - law.divergence

    def end_of_epoch(state: _State) -> _State:
        """The law of the scale and the likelihood, from so many rows that they cannot be far off."""
        own, now = likelihood_of(state), variational_of(state.moments, law_of(state))
        ascent, variance = Ascent(some, Memory.none(*q.mean.shape), seed), variances(some, now)
        now = ascent.law_optimum(now, own, variance)
        own = improved_likelihood(ascent, now, own, variance) if learn_likelihood else own
        log_scales = np.append(state.log_scales[1:], -np.log(now.law.mean_precision))
        return _State(refresh(state.moments), *_as_arrays(now.law, own), log_scales)

    def start_of_epoch(state: _State) -> _State:
        """The scale where it is going; here, so that training does not end with it."""
        length = extrapolation([value for value in state.log_scales.tolist() if not math.isnan(value)], SLOWEST)
        if not length:
            return state
        now = variational_of(state.moments, law_of(state))
        moved, own = extrapolate(now, likelihood_of(state), length, learn_likelihood=learn_likelihood)
        return _State(moments_of(moved, dtype), *_as_arrays(moved.law, own), NO_SCALES)

    def score(state: _State) -> float:
        assert validate is not None
        return validate(variational_of(state.moments, law_of(state)), likelihood_of(state))

    with jax.enable_x64(True):
        start = _State(moments_of(_with_all(q, rows, seen), dtype), *_as_arrays(q.law, likelihood), NO_SCALES)
        course = plan.run(
            start,
            step,
            advice=f"try a batch_size above {batch_size}",
            start_of_epoch=start_of_epoch,
            end_of_epoch=end_of_epoch,
            score=None if validate is None else score,
        )
    best, learned = variational_of(course.best.moments, law_of(course.best)), likelihood_of(course.best)
    return SparseFit.after_epochs(
        Ascent(rows, Memory.none(*q.mean.shape), seed),
        best,
        learned,
        [bound / rows.observations for bound in course.bounds],
        scores=course.scores,
        kept_rows=kept_rows,
        converged=len(course.bounds) < epochs,
        seconds=time.monotonic() - began,
    )


def _counting_for_all(some: CachedRows, rows: CachedRows) -> CachedRows:
    """Some rows that count as much as all of them."""
    factor = rows.observations / some.observations
    return dataclasses.replace(some, counts=some.counts * some.counts.dtype.type(factor))


def _with_all(q: Variational, rows: CachedRows, seen: int) -> Variational:
    """The covariances that q would have if all rows were like those that it has seen."""
    eye, times = np.eye(q.mean.shape[1]), rows.observations / rows.first(seen).observations
    try:
        return q.with_precision(eye + times * (q.precision - eye))
    except np.linalg.LinAlgError:  # log densities that are not concave: the covariances that there are will do
        return q


def _as_arrays(law: ScaleLaw, likelihood: Likelihood) -> tuple[dict[str, Any], dict[str, Any]]:
    facts, own = law.facts(), likelihood_facts(likelihood)
    return {name: np.asarray(fact) for name, fact in facts.items()}, {name: np.asarray(own[name]) for name in own}
