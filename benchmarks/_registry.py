"""The benchmarks by name."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

Result = dict[str, Any]  # one row of the printed table, and one line of the saved results


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """A named measurement: `run` yields one result per case, as soon as the case is done.

    Those that keep every fit have `so_far`, which yields what is known without measuring anything.
    """

    name: str
    summary: str
    run: Callable[[], Iterable[Result]]
    so_far: Callable[[], Iterable[Result]] | None = None


BENCHMARKS: dict[str, Benchmark] = {}


def benchmark(
    name: str, summary: str, so_far: Callable[[], Iterable[Result]] | None = None
) -> Callable[[Callable[[], Iterable[Result]]], Callable[[], Iterable[Result]]]:
    """Enter a function into the registry."""

    def register(run: Callable[[], Iterable[Result]]) -> Callable[[], Iterable[Result]]:
        BENCHMARKS[name] = Benchmark(name, summary, run, so_far)
        return run

    return register
