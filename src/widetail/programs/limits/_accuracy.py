"""Estimated errors of kernels: more polynomials where they are needed, a warning where they do not suffice."""

import abc
import dataclasses
import warnings
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from widetail import kernels
from widetail.kernels import CrossFn, Get, Kernel, KernelValues, Rows, RowsFn
from widetail.numerics import is_traced
from widetail.programs.limits._options import Accuracy, Options

# The share of a second moment that polynomials may miss: it bounds the relative error of an expectation.
TOLERANCE = 1e-4
# The most polynomials.
MOST = Options(order=256, degree=48)
T = TypeVar("T")
K = TypeVar("K", bound="KernelOfIntegrals")
# Rows of which `accuracy` computes the kernel twice.
ROWS_CHECKED = 8


class AccuracyWarning(UserWarning):
    """The relative error of a program's expectations is above 1e-4; the message says how large it is."""


class QuasiMonteCarloWarning(AccuracyWarning):
    """A kernel has the random error of quasi-Monte Carlo; the message says how large."""


class KernelOfIntegrals(Kernel):
    """A kernel made of integrals, some of them without a closed form, whose errors it estimates; not for direct use."""

    has_ntk: ClassVar[bool] = True

    @property
    @abc.abstractmethod
    def integrals(self) -> Options:
        """Accuracy of the integrals."""

    @abc.abstractmethod
    def with_options(self: K, *, order: int | None = None, degree: int | None = None, samples: int | None = None) -> K:
        """The same kernel with another accuracy; see `Program.with_options`."""

    @abc.abstractmethod
    def replicates_of_rows(self, x: Any, get: Get) -> tuple[dict[str, Any], KernelValues]:
        """What is known of each row, and its kernels, once per replicate of quasi-Monte Carlo, or once."""

    @abc.abstractmethod
    def replicates_of_pairs(self, rows1: Rows, rows2: Rows, get: Get) -> KernelValues:
        """The kernels of all pairs, once per replicate of quasi-Monte Carlo, or once."""

    def rows_fn(self, get: Get) -> RowsFn:
        def rows(x: Any) -> Rows:
            statistics, replicates = self.replicates_of_rows(x, get)
            return Rows(x, statistics, mean_of(replicates))

        return rows

    def cross_fn(self, get: Get) -> CrossFn:
        return lambda rows1, rows2: mean_of(self.replicates_of_pairs(rows1, rows2, get))

    def kernel(self, x1: Any, x2: Any = None, get: Get = "both", **options: Any) -> KernelValues:
        """The kernels between the rows of `x1` and of `x2`; see `kernels.Kernel.kernel`.

        For concrete inputs the number of Hermite polynomials is raised, up to four times, until expectations are good
        to 1e-4 of their size; in `diagonal`, `pull_back`, sums and multiples of programs and on a cluster too. Under
        JAX transformations it is what `with_options` says, and nothing warns: `for_inputs(x)` is the program to
        transform.

        Warns:
            AccuracyWarning: polynomials do not suffice, as for functions with jumps.
            QuasiMonteCarloWarning: a function of more than two dependent variables was integrated by quasi-Monte Carlo.
                The message gives the estimated error; more `samples` make it smaller.
        """
        if is_traced(self, x1, x2):
            return super().kernel(x1, x2, get, **options)
        return evaluate(self, x1, x2, get, **options)

    def for_inputs(self: K, x1: Any, x2: Any = None, get: Get = "nngp", *, tell: bool = True) -> K:
        """With as many Hermite polynomials as these inputs take, from carrying each through the program with itself."""
        return settled(self, *kernels.check_inputs(self, x1, x2), get, tell=tell)


class _TooCoarseError(Exception):
    """The polynomials' truncation error is too large; carries the options to try next."""

    def __init__(self, options: Options):
        self.options = options


class _Observed(Generic[K]):
    """A program that records its estimated errors while the engine evaluates it."""

    has_ntk = True

    def __init__(self, program: K):
        self.program = program
        self.left_out: dict[str, float] = {}
        self.standard_errors: list[tuple[float, float]] = []

    def numbers_per_pair(self, input_shape: tuple[int, ...]) -> int:
        return self.program.numbers_per_pair(input_shape)

    def rows_fn(self, get: Get) -> RowsFn:
        def rows(x: Any) -> Rows:
            statistics, replicates = self.program.replicates_of_rows(x, get)
            found = Rows(x, statistics, self._mean(replicates))
            self._look_at(found.statistics)
            return found

        return rows

    def cross_fn(self, get: Get) -> CrossFn:
        return lambda rows1, rows2: self._mean(self.program.replicates_of_pairs(rows1, rows2, get))

    def tell(self) -> None:
        """Warn of errors above the tolerance."""
        program, used = self.program, self.program.integrals
        if self.standard_errors:
            error, size = max(self.standard_errors)
            warnings.warn(
                f"{program}: functions of more than two dependent Gaussian variables were integrated by quasi-Monte "
                f"Carlo with {used.samples} points. The largest standard error of the kernel is "
                f"{error:.1e}, where it is up to {size:.2g}. More points: program.with_options(samples=...).",
                QuasiMonteCarloWarning,
                stacklevel=5,
            )
        worst = max(self.left_out.values(), default=0.0)
        if worst > TOLERANCE:
            warnings.warn(
                f"{program}: Hermite polynomials (order {used.order} in one variable, degree "
                f"{used.degree} in two) leave out up to {worst:.1e} of the second moment of a function, and "
                f"expectations may be wrong by as much of their size; {TOLERANCE:g} is meant. Functions with kinks or "
                f"jumps and large variances need many: program.with_options(order=..., degree=...), or an activation "
                f"of nn with a closed form. program.accuracy(x) estimates the error of the kernel.",
                AccuracyWarning,
                stacklevel=5,
            )

    def _mean(self, replicates: KernelValues) -> KernelValues:
        for values in replicates:
            if values is not None and len(values) > 1:
                self.standard_errors.append(standard_error(values))
        return mean_of(replicates)

    def _look_at(self, statistics: dict[str, Any]) -> None:
        """Raise `_TooCoarseError` where more polynomials can help."""
        for name, left_out in series_left_out(statistics).items():
            self.left_out[name] = max(left_out, self.left_out.get(name, 0.0))
        options = better = self.program.integrals
        for name, left_out in self.left_out.items():
            which = "order" if name.startswith("hermite") else "degree"
            if left_out > TOLERANCE and getattr(options, which) < getattr(MOST, which):
                better = dataclasses.replace(better, **{which: 2 * getattr(options, which)})
        if better != options:
            raise _TooCoarseError(better)


def evaluate(program: KernelOfIntegrals, x1: Any, x2: Any, get: Get, **options: Any) -> KernelValues:
    """A program's kernel of concrete inputs, with enough polynomials, or a warning."""
    kernels.check_get(program, get)
    x1, x2 = kernels.check_inputs(program, x1, x2)
    values, observed = _observed(program, lambda one: kernels.evaluate(one, x1, x2, get, **options))
    observed.tell()
    return values


def settled(program: K, x1: Any, x2: Any, get: Get, *, tell: bool) -> K:
    """The program with as many polynomials as the variances of these inputs need."""

    def of_rows(one: _Observed[K]) -> None:
        for x in (x1,) if x2 is None else (x1, x2):
            kernels.evaluate_diagonal(one, x, get)

    _, observed = _observed(program, of_rows)
    if tell:
        observed.tell()
    return observed.program


def _observed(program: K, evaluate: Callable[[_Observed[K]], T]) -> tuple[T, _Observed[K]]:
    """The result of an evaluation with enough polynomials, and its estimated errors."""
    while True:
        observed = _Observed(program)
        try:
            return evaluate(observed), observed
        except _TooCoarseError as found:
            program = program.with_options(order=found.options.order, degree=found.options.degree)


def accuracy(program: K, more: K, x1: Any, x2: Any) -> list[Accuracy]:
    """The errors of the kernel of the first rows with themselves, and of their pairs; `more` has more polynomials."""
    x1 = np.asarray(x1)[:ROWS_CHECKED]
    x2 = x1 if x2 is None else np.asarray(x2)[:ROWS_CHECKED]
    with jax.enable_x64(x1.dtype == np.float64):
        both = jnp.asarray(x1), jnp.asarray(x2)
        own, pairs, statistics = _kernels_of(program, *both)
        if len(own) > 1:
            return [Accuracy(bool(i), "quasi-Monte Carlo", *standard_error(k)) for i, k in enumerate((own, pairs))]
        finer = own, pairs
        method = "closed forms"
        if series_left_out(statistics):
            method = "Hermite series"
            finer = _kernels_of(more, *both)[:2]
    found = []
    for i, (coarse, fine) in enumerate(zip((own, pairs), finer, strict=True)):
        coarse, fine = np.asarray(coarse), np.asarray(fine)
        size = float(np.max(np.abs(coarse), initial=0))
        rounding = 64 * float(np.finfo(coarse.dtype).eps) * size
        found.append(Accuracy(bool(i), method, float(np.max(np.abs(coarse - fine), initial=0)) + rounding, size))
    return found


def _kernels_of(program: KernelOfIntegrals, x1: Any, x2: Any) -> tuple[Any, Any, dict[str, Any]]:
    """The kernel of each row of both sides with itself, and of pairs, once per replicate; statistics of the rows."""
    rows, own = [], []
    for x in (x1, x2):
        known, replicates = program.replicates_of_rows(x, "nngp")
        rows.append(Rows(x, known, mean_of(replicates)))
        own.append(replicates.nngp)
    pairs = program.replicates_of_pairs(rows[0], rows[1], "nngp").nngp
    return jnp.concatenate(own, axis=1), pairs, rows[0].statistics | rows[1].statistics


def mean_of(replicates: KernelValues) -> KernelValues:
    """The mean over the first axis."""
    return KernelValues(*(None if k is None else k.mean(axis=0) for k in replicates))


def standard_error(replicates: Any) -> tuple[float, float]:
    """The largest standard error of the mean over the first axis, and the largest mean."""
    replicates = np.asarray(replicates)
    error = np.max(replicates.std(axis=0, ddof=1), initial=0) / np.sqrt(len(replicates))
    return float(error), float(np.max(np.abs(replicates.mean(axis=0)), initial=0))


def series_left_out(statistics: dict[str, Any]) -> dict[str, float]:
    """By function name, the largest share of the second moment that its polynomials miss."""
    found = {}
    for name, known in statistics.items():
        if name.startswith("hermite"):
            squares = np.asarray(known["value"]) ** 2
            rest, total = squares[-2:].sum(axis=0), squares.sum(axis=0)
        elif name.startswith("planar"):
            rest = np.sum(np.asarray(known["rest"]) ** 2, axis=0)
            total = rest + np.sum(np.asarray(known["value"]) ** 2, axis=(0, 1))
        else:
            continue
        found[name] = float(np.max(rest / np.where(total > 0, total, 1), initial=0))
    return found
