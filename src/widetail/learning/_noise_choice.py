"""Choosing between kinds of noise: constant, per row, by input, both."""

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np

from widetail.checks import check_targets
from widetail.kernels import RBF, Kernel
from widetail.learning._fit import EvidenceFit, fit_evidence
from widetail.learning._parameters import Part
from widetail.learning._row_turns import with_noise
from widetail.priors import Contaminated
from widetail.process import InputNoise, Noise, RowNoise, ScaledNoise, ScaleMixture

NoiseName = Literal["constant", "rows", "inputs", "both"]
NOISES: tuple[NoiseName, ...] = get_args(NoiseName)  # the simplest first
# Of a constant noise variance; noise that varies over the inputs by a factor of e or so.
LENGTH_PER_ROOT_FEATURE = 1.5
NEXT_TO_NOTHING = 0.01  # nats per row, for which no noise is more complicated


@dataclasses.dataclass(frozen=True)
class NoiseChoice:
    """What `choose_noise` found.

    Attributes:
        name: of the noise: "constant", "rows", "inputs" or "both".
        fit: its learned process and how it was learned.
        scores: mean log density of left-out rows of every kind of noise, in nats; higher is better.
        errors: standard errors of the differences of the scores to that of the best.
    """

    name: NoiseName
    fit: EvidenceFit
    scores: dict[str, float]
    errors: dict[str, float]

    def __str__(self) -> str:
        width = max(map(len, self.scores))
        lines = [f"  {name.ljust(width)}  {score:.4f}" for name, score in self.scores.items()]
        return "\n".join(["log density of left-out rows, mean", *lines])


def noise_of_kind(name: str, variance: Any, features: int, net: Kernel | None = None) -> Noise:
    """A noise to start learning from.

    Args:
        name: which.
        variance: where its variance starts.
        features: of the inputs; sets the length scale of the default network of the noise.
        net: network of the logarithm of the noise variance; an RBF kernel with one length scale by default.
    """
    if name not in NOISES:
        raise ValueError(f"noise must be one of {', '.join(map(repr, NOISES))}; got {name!r}.")
    if name == "constant":
        return ScaledNoise(variance)
    if name == "rows":
        return RowNoise(Contaminated(), variance)
    net = RBF(LENGTH_PER_ROOT_FEATURE * float(np.sqrt(features))) if net is None else net
    return InputNoise(net, variance, rows=Contaminated() if name == "both" else None)


def with_noise_of_kind(process: ScaleMixture, kind: str | None, x: Any, net: Kernel | None = None) -> ScaleMixture:
    """The process with another kind of noise, its variance where it was; None leaves it as it is.

    By default the network of the noise is that of `noise_of_kind` for tables, that of the function for sequences and
    images. What is learned of a law of the scales of rows is kept.
    """
    if kind is None:
        return process
    if net is None and np.ndim(x) > 2 and isinstance(process.kernel, Kernel):
        net = process.kernel
    noise = noise_of_kind(kind, process.noise.variance, int(np.shape(x)[-1]), net)
    law = process.noise.prior if isinstance(process.noise, RowNoise) else None
    if law is not None and isinstance(noise, RowNoise):
        noise = RowNoise(law, process.noise.variance)
    elif law is not None and isinstance(noise, InputNoise) and noise.rows is not None:
        noise = dataclasses.replace(noise, rows=law)
    return with_noise(process, noise)


def choose_noise(
    process: ScaleMixture,
    x: Any,
    y: Any,
    *,
    kinds: Sequence[NoiseName] = NOISES,
    net: Kernel | None = None,
    counts: Any = None,
    subset: int | None = 800,
    seed: int = 0,
    learn: tuple[Part, ...] = ("kernel", "noise"),
    max_iterations: int = 25,
    tolerance: float = 1e-4,
) -> NoiseChoice:
    """Learn a process with each kind of noise, and take the simplest that predicts left-out rows as well as any.

    A kind counts as good as the best where its mean log density of rows that are left out one at a time is less than
    one standard error of the difference below, or less than 0.01 nats. Costs a fit for every kind; those with scales
    cost several times that with constant noise.

    Args:
        process: where to start; the variance of its noise is where all kinds start.
        x: inputs, rows first, in standard units.
        y: targets, shape (n,) or (n, outputs).
        kinds: which to compare, out of "constant", "rows", "inputs" and "both".
        net: network of the logarithm of the noise variance; an RBF kernel by default.
        counts: how often each row was observed.
        subset: learn from a random subset of this many rows.
        seed: of the subset.
        learn: as in `fit_evidence`; ("noise",) leaves the function's numbers alone and is several times as fast.
        max_iterations, tolerance: of `fit_evidence`.

    Example:
        >>> import numpy as np, widetail as wt
        >>> x = np.linspace(-2.0, 2.0, 60)[:, None]
        >>> y = np.sin(3.0 * x[:, 0]) + 0.05 * np.random.default_rng(0).normal(size=60)
        >>> y[[5, 20, 44]] += [3.0, -4.0, 5.0]
        >>> wt.learning.choose_noise(wt.ScaleMixture(wt.kernels.RBF()), x, y, kinds=("constant", "rows")).name
        'rows'
    """
    if not kinds:
        raise ValueError("kinds must name at least one kind of noise.")
    x = x if hasattr(x, "dtype") else np.asarray(x)
    y = check_targets(x, y)
    counts = np.ones(len(y)) if counts is None else np.asarray(counts, dtype=np.float64)
    rows = np.sort(np.random.default_rng(seed).permutation(len(y))[:subset])
    x, y, counts = x[rows], y[rows], counts[rows]
    fits, densities = {}, {}
    for kind in sorted(kinds, key=NOISES.index):
        start = with_noise_of_kind(process, kind, x, net)
        options = {"learn": learn, "counts": counts, "max_iterations": max_iterations, "tolerance": tolerance}
        with warnings.catch_warnings():
            # noise that does not fit the rows is found slowly, and its score says so
            warnings.filterwarnings("ignore", "the (scales of the rows|noise of the inputs) still change")
            fits[kind] = fit_evidence(start, x, y, **options)
            left = fits[kind].process.posterior(x, y, counts=counts).left_out_dist()
        densities[kind] = np.asarray(left.log_prob(y)).reshape(len(y), -1).sum(axis=1)
    total = counts.sum()
    scores = {kind: float(counts @ each / total) for kind, each in densities.items()}
    best = max(scores, key=lambda kind: scores[kind])
    errors = {kind: _standard_error(densities[best] - each, counts) for kind, each in densities.items()}
    name = next(kind for kind in fits if scores[best] - scores[kind] <= max(errors[kind], NEXT_TO_NOTHING))
    return NoiseChoice(name, fits[name], scores, errors)


def _standard_error(difference: np.ndarray, counts: np.ndarray) -> float:
    mean = counts @ difference / counts.sum()
    return float(np.sqrt(counts @ (difference - mean) ** 2) / counts.sum())
