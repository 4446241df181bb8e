"""Learning hyperparameters by maximising the log evidence."""

import contextlib
import dataclasses
import functools
import time
from typing import Any

import numpy as np
import scipy.optimize

from widetail.checks import check_targets
from widetail.learning._input_fit import fit_inputs
from widetail.learning._objective import evidence_and_gradient
from widetail.learning._parameters import Parameters, Part
from widetail.learning._row_fit import fit_rows
from widetail.numerics import one_thread
from widetail.process import (
    InputNoise,
    RowFactors,
    RowNoise,
    ScaledNoise,
    ScaleMixture,
    check_counts,
    check_noise_weights,
)
from widetail.progress import Progress, reporter


@dataclasses.dataclass(frozen=True)
class EvidenceFit:
    """What `fit_evidence` found.

    Attributes:
        process: the process with the learned numbers.
        log_evidence: its log evidence on the rows that it was learned from, in nats.
        rows: how many rows it was learned from.
        learned: name, value, and whether the value sits at a bound, for every learned number.
        fixed: numbers that were left alone because another one does the same (see `fit_evidence`).
        restarts: the log evidence reached from each starting point, the given one first.
        evaluations: evaluations of the evidence and its gradient, all starts together.
        converged: whether the best start stopped by itself rather than at `max_iterations`.
        seconds: wall time.
    """

    process: ScaleMixture
    log_evidence: float
    rows: int
    learned: list[tuple[str, float, bool]]
    fixed: list[str]
    restarts: list[float]
    evaluations: int
    converged: bool
    seconds: float

    @property
    def at_bounds(self) -> list[str]:
        """Names of the numbers that hit a bound."""
        return [name for name, _, at_bound in self.learned if at_bound]

    def __str__(self) -> str:
        lines = [
            f"log evidence {self.log_evidence:.3f} on {self.rows} rows, {self.evaluations} evaluations, "
            f"{self.seconds:.1f} s{'' if self.converged else ', stopped at max_iterations'}"
        ]
        width = max(len(name) for name, _, _ in self.learned)
        lines += [
            f"  {name.ljust(width)}  {value:.4g}{'  (at its bound)' if at_bound else ''}"
            for name, value, at_bound in self.learned
        ]
        lines += [
            f"  {name.ljust(width)}  fixed: one degree of freedom with the readout variance" for name in self.fixed
        ]
        return "\n".join(lines)


def fit_evidence(
    process: ScaleMixture,
    x: Any,
    y: Any,
    *,
    learn: tuple[Part, ...] = ("kernel", "noise"),
    restarts: int = 0,
    max_iterations: int = 100,
    tolerance: float = 1e-6,
    subset: int | None = None,
    seed: int = 0,
    noise_weights: Any = None,
    counts: Any = None,
    progress: Progress = False,
) -> EvidenceFit:
    """Maximise the log evidence over the parameters of a process, by L-BFGS on their logs.

    Weight variances of a network whose activations are all piecewise linear are left alone unless there is
    one per feature: they and the readout variance, which is inferred anyway, are one degree of freedom (without
    biases exactly, with them nearly).

    The evidence of one data set is always highest for a point mass at the best readout variance, so learning the
    prior's own parameters pushes it there: that is empirical Bayes for the scale, and rarely what you want.

    With `RowNoise` it is the bound that is raised, in turns with the scales of the rows and, where "noise" is learned,
    their law: of an inverse gamma law the degrees of freedom. With `InputNoise` the numbers of its own network and its
    spread are learned in the same way.

    Each evaluation costs a kernel, its factorisation, its inverse and one pull-back: about four times a posterior.

    Args:
        process: where to start; its float parameters are learned.
        x: inputs, rows first; standardise them first.
        y: targets, shape (n,) or (n, outputs).
        learn: any of "kernel" (weight and bias variances, per-feature variances, length scales), "noise", "prior".
        restarts: further starts, from values scattered by factors around the given ones.
        max_iterations: of each start.
        tolerance: a start ends when a step gains less than this, in nats per observation.
        subset: learn from a random subset of this many rows; condition on all of them afterwards.
        seed: of the subset and the restarts.
        noise_weights: factors of the noise variance, one per row.
        counts: how often each row was observed.
        progress: True for a bar on a terminal, or a function of (evaluations so far, most possible).

    Example:
        >>> import numpy as np, widetail as wt
        >>> x = np.linspace(-2.0, 2.0, 30)[:, None]
        >>> y = np.sin(3.0 * x[:, 0])
        >>> fit = wt.fit_evidence(wt.ScaleMixture(wt.kernels.RBF()), x, y)
        >>> fit.log_evidence > wt.ScaleMixture(wt.kernels.RBF()).posterior(x, y).log_evidence
        True
    """
    began = time.monotonic()
    x = x if hasattr(x, "dtype") else np.asarray(x)
    y = check_targets(x, y)
    of_rows = RowFactors.of(len(y), check_noise_weights(noise_weights, len(y)), check_counts(counts, len(y)))
    rng = np.random.default_rng(seed)
    if subset is not None and subset < len(y):
        rows = np.sort(rng.choice(len(y), subset, replace=False))
        x, y, of_rows = x[rows], y[rows], of_rows[rows]
    observations = of_rows.observations
    if isinstance(process.noise, (RowNoise, InputNoise)):
        turns = fit_rows if isinstance(process.noise, RowNoise) else fit_inputs
        inner = {"learn": learn, "restarts": restarts, "seed": seed}
        found = turns(
            process,
            x,
            y,
            of_rows,
            functools.partial(fit_evidence, progress=progress, **inner),
            learn_law="noise" in learn,
            max_iterations=max_iterations,
            tolerance=tolerance,
            seed=seed,
        )
        return EvidenceFit(
            process=found.process,
            log_evidence=found.log_evidence,
            rows=len(y),
            learned=found.learned,
            fixed=found.fixed,
            restarts=found.bounds[-1:],
            evaluations=found.evaluations,
            converged=found.converged,
            seconds=time.monotonic() - began,
        )
    parameters = Parameters(process, learn)
    start = parameters.start()
    bounds = parameters.bounds()
    low, high = np.array(bounds).T
    report = reporter(progress, "evidence")
    evaluations = 0
    most = (1 + restarts) * max_iterations

    def loss(vector: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal evaluations
        evaluations += 1
        report(min(evaluations, most - 1), most)
        try:
            value, gradient = evidence_and_gradient(parameters, vector, x, y, of_rows)
        except np.linalg.LinAlgError:
            return LARGE, np.zeros_like(vector)
        return -value / observations, -gradient / observations

    # The factorisation of scaled noise is shared among threads of ours; those of BLAS would spin beside them.
    threads = one_thread() if isinstance(process.noise, ScaledNoise) else contextlib.nullcontext()
    starts = [start] + [np.clip(start + rng.normal(0.0, 1.5, len(start)), low, high) for _ in range(restarts)]
    with threads:
        results = [
            scipy.optimize.minimize(
                loss,
                np.clip(point, low, high),
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                options={"maxiter": max_iterations, "ftol": tolerance},
            )
            for point in starts
        ]
    report(most, most)
    best = min(results, key=lambda result: result.fun)
    return EvidenceFit(
        process=parameters.process(best.x),
        log_evidence=-float(best.fun) * observations,
        rows=len(y),
        learned=parameters.table(best.x),
        fixed=parameters.fixed,
        restarts=[-float(result.fun) * observations for result in results],
        evaluations=evaluations,
        converged=bool(best.success),
        seconds=time.monotonic() - began,
    )


# What a line search sees where the covariance cannot be factored: worse than anything, but finite.
LARGE = 1e10
