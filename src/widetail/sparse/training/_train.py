"""Fitting the variational posterior on cached features, with checkpoints and early stopping."""

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from widetail.files import fingerprint
from widetail.files.checkpoints import read_checkpoint, write_checkpoint
from widetail.progress import Progress, annotate, reporter
from widetail.sparse._memory import KEPT_ROWS, Memory
from widetail.sparse._rows import CachedRows, variances
from widetail.sparse._variational import Variational
from widetail.sparse.likelihoods import Likelihood
from widetail.sparse.training._epochs import note_of
from widetail.sparse.training._extrapolate import extrapolate, extrapolation
from widetail.sparse.training._learn import improved_likelihood
from widetail.sparse.training._natural import Ascent

# Few rows find the scale and rough means at almost no cost; every stage has four times as many.
FIRST_STAGE_PER_POINT = 4
GROWTH = 4
ROUGH = 30.0  # how much less precise the earlier stages are
# Training ends when an iteration gains little per row, and little for all rows together: classes without rows hardly
# show in the bound of a row, but do in the sum.
TOLERANCE, NATS_IN_ALL = 1e-5, 0.02
SHORTEST_STEP = 0.05
# With Gaussian noise sums stand for all rows, and iterations cost next to nothing. There the product of scale and noise
# is found long before either of them, so the tolerance is smaller by this factor, but no less than the least gain that
# optimisers can tell.
SHARE_OF_SUMS = 1e-4
LEAST_GAIN = 1e-11
ITERATIONS_AFTER_EXTRAPOLATION = 3

Validate = Callable[[Variational, Likelihood], float]


@dataclasses.dataclass(frozen=True, eq=False)
class SparseFit:
    """What training found.

    Attributes:
        q: the variational posterior.
        likelihood: with its learned parameters.
        bounds: evidence lower bound after every iteration, in nats per row of its stage; of minibatches, the mean of
            their estimates in every epoch, and the bound itself at the end.
        stage_rows: rows of the stage of every iteration.
        scores: validation log score after every iteration; empty without validation data.
        memory: what a later fit needs to remember of these rows and those before.
        converged: whether it stopped by itself rather than at `max_iterations`.
        seconds: wall time, of this run only if it was resumed.
    """

    q: Variational
    likelihood: Likelihood
    bounds: list[float]
    stage_rows: list[int]
    scores: list[float]
    memory: Memory
    converged: bool
    seconds: float

    @property
    def bound(self) -> float:
        """The last evidence lower bound, in nats per row."""
        return self.bounds[-1]

    @classmethod
    def after_epochs(
        cls,
        ascent: Ascent,
        q: Variational,
        likelihood: Likelihood,
        estimates: list[float],
        *,
        scores: list[float],
        kept_rows: int,
        converged: bool,
        seconds: float,
    ) -> "SparseFit":
        """What minibatches found: their estimates of the bound, in nats per row, and one pass for the bound itself."""
        variance = variances(ascent.rows, q)
        bounds = [*estimates, ascent.bound(q, likelihood, variance) / ascent.rows.observations]
        return cls(
            q=q,
            likelihood=likelihood,
            bounds=bounds,
            stage_rows=[len(ascent.rows)] * len(bounds),
            scores=scores,
            memory=ascent.memory.after(ascent.rows, q, likelihood, keep=kept_rows, seed=ascent.seed),
            converged=converged,
            seconds=seconds,
        )


def train(
    rows: CachedRows,
    likelihood: Likelihood,
    q: Variational,
    *,
    memory: Memory | None = None,
    kept_rows: int = KEPT_ROWS,
    learn_likelihood: bool = True,
    max_iterations: int = 40,
    tolerance: float | None = None,
    seed: int = 0,
    from_few: bool = True,
    validate: Validate | None = None,
    patience: int = 5,
    checkpoint: str | Path | None = None,
    progress: Progress = False,
) -> SparseFit:
    """Maximise the evidence lower bound.

    Every iteration takes the best means for the current covariances, then the best law of the scale, then a
    natural-gradient step of the covariances; the scale is extrapolated to its limit where three iterations show it. The
    first iterations see few rows, the last ones all of them. With Gaussian noise one pass over the rows is enough:
    iterations see their sums.

    Args:
        rows: cached features and targets, in random order.
        likelihood: where learning starts.
        q: where to start.
        memory: what is remembered of rows seen before.
        kept_rows: how many rows may be remembered as they are; see `Memory`.
        learn_likelihood: whether to learn the parameters of the likelihood.
        max_iterations: of each stage.
        tolerance: the last stage ends when an iteration gains less than this, in nats per row; by default less than
            1e-5, and where features of rows are kept less than 0.02 nats of all rows, so that classes without rows
            settle. Earlier stages, of few rows, end 30 times as soon.
        seed: of the draws of f.
        from_few: whether the first iterations see few rows; not worth it from a good start.
        validate: log score of held-out rows; the best iterate of the last stage is kept, and training ends after
            `patience` iterations without a better one.
        patience: see `validate`.
        checkpoint: a file that is written after every iteration; if it is there already, training resumes from it.
        progress: True for a bar on a terminal, or a function of (iterations done, most possible).
    """
    began = time.monotonic()
    memory = Memory.none(*q.mean.shape) if memory is None else memory
    # what is remembered of earlier rows is a better start than a few of these
    from_few = from_few and not memory.observations
    if memory.rows is not None:
        rows, memory = memory.rows.followed_by(rows), dataclasses.replace(memory, rows=None)
    seen = len(rows)
    if likelihood.noise_at(np.ones(1)) is not None:
        rows, memory = rows.first(0), memory.with_sums(rows)
    run = _Run(rows, memory, seed, learn_likelihood, tolerance, max_iterations, from_few, validate, patience, seen)
    path = None if checkpoint is None else Path(checkpoint)
    identity = "" if path is None else _identity(rows, likelihood, q, memory, run)
    state = _State.start(q, likelihood)
    if path is not None and path.exists():
        state = _State.read(path, identity, state)
    most = len(run.stages) * max_iterations
    report = reporter(progress, "sparse")
    while state.stage < len(run.stages):
        report(min(len(state.bounds), most - 1), most)
        state = run.iterate(state)
        annotate(report, note_of(state.bounds[-1], state.scores))
        if path is not None:
            state.write(path, identity)
    report(most, most)
    q, likelihood = (state.best_q, state.best_likelihood) if validate else (state.q, state.likelihood)
    remembered = memory.after(rows, q, likelihood, keep=kept_rows, seed=seed)
    return SparseFit(
        q,
        likelihood,
        state.bounds,
        state.stage_rows,
        state.scores,
        remembered,
        state.converged,
        time.monotonic() - began,
    )


@dataclasses.dataclass(frozen=True, eq=False)
class _State:
    """What a checkpoint holds."""

    q: Variational
    likelihood: Likelihood
    best_q: Variational
    best_likelihood: Likelihood
    stage: int = 0
    within: int = 0  # iterations of this stage
    rate: float = 1.0  # of the next step of the covariances
    log_scales: list[float] = dataclasses.field(default_factory=list)  # of this stage, since the last extrapolation
    bounds: list[float] = dataclasses.field(default_factory=list)
    stage_rows: list[int] = dataclasses.field(default_factory=list)
    scores: list[float] = dataclasses.field(default_factory=list)
    converged: bool = False

    @classmethod
    def start(cls, q: Variational, likelihood: Likelihood) -> "_State":
        return cls(q, likelihood, q, likelihood)

    def arrays(self) -> dict[str, Any]:
        return {
            "mean": self.q.mean,
            "precision": self.q.precision,
            "best_mean": self.best_q.mean,
            "best_precision": self.best_q.precision,
        }

    def write(self, path: Path, identity: str) -> None:
        facts: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("stage", "within", "rate", "log_scales", "bounds", "stage_rows", "scores", "converged")
        }
        facts["law"], facts["best_law"] = self.q.law.facts(), self.best_q.law.facts()
        facts["likelihood"] = likelihood_facts(self.likelihood)
        facts["best_likelihood"] = likelihood_facts(self.best_likelihood)
        write_checkpoint(path, identity, self.arrays(), facts)

    @classmethod
    def read(cls, path: Path, identity: str, start: "_State") -> "_State":
        arrays, facts = read_checkpoint(path, identity, start.arrays())
        parts = {}
        for prefix in ("", "best_"):
            law = start.q.law.restored(facts.pop(f"{prefix}law"))
            q = start.q.with_law(law).with_mean(arrays[f"{prefix}mean"])
            parts[f"{prefix}q"] = q.with_precision(arrays[f"{prefix}precision"])
            parts[f"{prefix}likelihood"] = restored_likelihood(start.likelihood, facts.pop(f"{prefix}likelihood"))
        return cls(**parts, **facts)


@dataclasses.dataclass(frozen=True, eq=False)
class _Run:
    rows: CachedRows
    memory: Memory
    seed: int
    learn_likelihood: bool
    tolerance: float | None
    max_iterations: int
    from_few: bool
    validate: Validate | None
    patience: int
    seen: int  # rows of the last stage, with those that are summed

    @property
    def stages(self) -> list[int]:
        """Numbers of rows."""
        sizes = [len(self.rows)]
        while self.from_few and sizes[0] > GROWTH * FIRST_STAGE_PER_POINT * self.rows.features.shape[1]:
            sizes.insert(0, sizes[0] // GROWTH)
        return sizes

    def tolerance_of(self, is_last_stage: bool) -> float:
        """Nats per row."""
        usual = TOLERANCE if self.tolerance is None else self.tolerance
        if not is_last_stage:
            return ROUGH * usual
        if self.tolerance is None and len(self.rows):
            return min(usual, NATS_IN_ALL / self.rows.observations)
        return usual

    def iterate(self, state: _State) -> _State:
        """Means, scale, likelihood, covariances."""
        size = self.stages[state.stage]
        is_last_stage = state.stage == len(self.stages) - 1
        ascent = Ascent(self.rows.first(size), self.memory, self.seed)
        variance = variances(ascent.rows, state.q)
        q = ascent.mean_optimum(state.q, state.likelihood, variance)
        q = ascent.law_optimum(q, state.likelihood, variance)
        likelihood = (
            improved_likelihood(ascent, q, state.likelihood, variance) if self.learn_likelihood else state.likelihood
        )
        bound = ascent.bound(q, likelihood, variance) / ascent.observations
        previous = state.bounds[-1] if state.within else -np.inf
        was_extrapolated = bool(state.within and not state.log_scales)  # which forgets earlier scales
        # covariances that depend on themselves may overshoot: shorter steps then
        rate = state.rate if bound >= previous or was_extrapolated else max(0.5 * state.rate, SHORTEST_STEP)
        log_scales = [*state.log_scales, -float(np.log(q.law.mean_precision))]
        tolerance = self.tolerance_of(is_last_stage)
        gain = abs(bound - previous)
        has_settled = gain < tolerance and not was_extrapolated
        is_exact = len(self.rows) > 0 or gain < max(SHARE_OF_SUMS * tolerance, LEAST_GAIN)
        is_over = (has_settled and is_exact) or state.within + 1 >= self.max_iterations
        scores, best = state.scores, (state.best_q, state.best_likelihood)
        if self.validate is not None:
            score = self.validate(q, likelihood)
            own = [*scores, score][-state.within - 1 :]
            if not is_last_stage or score >= max(own):
                best = q, likelihood
            elif len(own) - int(np.argmax(own)) > self.patience:
                is_over = has_settled = True
            scores = [*scores, score]
        if not (is_over and is_last_stage):
            found = ascent.totals(q, likelihood, variance)
            q = ascent.covariance_step(q, likelihood, found.curvature, rate)
            has_time = state.within + ITERATIONS_AFTER_EXTRAPOLATION < self.max_iterations
            if has_time and (length := extrapolation(log_scales)):
                stepped = q
                q, likelihood = extrapolate(q, likelihood, length, learn_likelihood=self.learn_likelihood)
                log_scales = log_scales if q is stepped else []
        return _State(
            q=q,
            likelihood=likelihood,
            best_q=best[0],
            best_likelihood=best[1],
            stage=state.stage + is_over,
            within=0 if is_over else state.within + 1,
            rate=1.0 if is_over else rate,
            log_scales=[] if is_over else log_scales,
            bounds=[*state.bounds, float(bound)],
            stage_rows=[*state.stage_rows, size or self.seen],
            scores=scores,
            converged=bool(has_settled),
        )


def likelihood_facts(likelihood: Likelihood) -> dict[str, float]:
    """The learnable numbers of a likelihood."""
    return {name: float(getattr(likelihood, name)) for name in likelihood.learnable}


def restored_likelihood(likelihood: Likelihood, facts: dict[str, Any]) -> Likelihood:
    """A likelihood with other numbers."""
    return dataclasses.replace(likelihood, **{name: float(facts[name]) for name in likelihood.learnable})


def _identity(rows: CachedRows, likelihood: Likelihood, q: Variational, memory: Memory, run: _Run) -> str:
    return fingerprint(
        rows, likelihood, q, memory, run.seed, run.learn_likelihood, run.tolerance, run.max_iterations, run.patience,
        run.from_few, run.validate is None,
    )  # fmt: skip
