"""The benchmarks by name."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

Result = dict[str, Any]  # one row of the printed table, and one line of the saved results


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """A named measurement: `run` yields one result per case, as soon as the case is done."""

    name: str
    summary: str
    run: Callable[[], Iterable[Result]]


BENCHMARKS: dict[str, Benchmark] = {}


def benchmark(name: str, summary: str) -> Callable[[Callable[[], Iterable[Result]]], Callable[[], Iterable[Result]]]:
    """Enter a function into the registry."""

    def register(run: Callable[[], Iterable[Result]]) -> Callable[[], Iterable[Result]]:
        BENCHMARKS[name] = Benchmark(name, summary, run)
        return run

    return register
