"""`widetail bench`."""

import importlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from widetail.cli import _options as options
from widetail.cli._errors import CommandError, UsageError
from widetail.cli._output import Output, table

ROUNDS = 3


def bench(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAMES]...", help="Which; all by default.")] = None,
    small: Annotated[bool, typer.Option("--small", help="Only time this machine: some ten seconds, no peers.")] = False,
    is_list: Annotated[bool, typer.Option("--list", help="Name the benchmarks of the repository.")] = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
):
    """Measure speed.

    In a clone of the repository against other libraries; elsewhere, and with --small, alone.
    """
    output = Output(as_json=as_json, quiet=quiet)
    registry = None if small else _repository_benchmarks()
    if registry is None:
        if names or is_list:
            raise CommandError("the benchmarks are part of the repository; run this in a clone, or use --small.")
        results = list(_small())
        output.result(
            {"results": results},
            lambda console: console.print(table(None, ["case", "seconds"], [tuple(row.values()) for row in results])),
        )
        return
    if is_list:
        known = {entry.name: entry.summary for entry in registry.values()}
        output.result(known, lambda console: console.print(table(None, ["benchmark", "measures"], known.items())))
        return
    unknown = [name for name in names or [] if name not in registry]
    if unknown:
        raise UsageError(f"no benchmark is called {unknown[0]!r}; there are {', '.join(registry)}.")
    found = {name: list(registry[name].run()) for name in names or registry}
    output.result(found, lambda console: _draw(console, found))


def _repository_benchmarks() -> dict[str, Any] | None:
    """The registry of the clone that this package is installed from, or None."""
    import widetail

    root = Path(str(widetail.__file__)).resolve().parents[2]
    if not (root / "benchmarks" / "_registry.py").is_file():
        return None
    sys.path.insert(0, str(root))
    importlib.import_module("benchmarks.__main__")
    return importlib.import_module("benchmarks._registry").BENCHMARKS


def _draw(console: Any, found: dict[str, list[dict[str, Any]]]) -> None:
    for name, results in found.items():
        columns = list(results[0]) if results else ["case"]
        console.print(table(name, columns, [[row.get(column) for column in columns] for row in results]))


def _small() -> Iterator[dict[str, Any]]:
    """Best of a few rounds after one that compiles."""
    import numpy as np

    import widetail as wt

    rng = np.random.default_rng(0)
    x, new = rng.normal(size=(2000, 8)), rng.normal(size=(500, 8))
    y = np.sin(x).sum(axis=1)
    net = wt.nn.mlp(3, "erf")
    process = wt.ScaleMixture(net, wt.InverseGamma(2.0, 2.0), wt.ScaledNoise(0.1))
    posterior = process.posterior(x, y)
    cases: dict[str, Callable[[], Any]] = {
        "kernel, erf, depth 3, n = 2000, NNGP and NTK": lambda: net.kernel(x),
        "posterior, n = 2000": lambda: process.posterior(x, y),
        "predictive intervals of 500 rows": lambda: posterior(new).interval(0.9),
    }
    for name, run in cases.items():
        best = float("inf")
        for _ in range(ROUNDS + 1):
            began = time.perf_counter()
            run()
            best = min(best, time.perf_counter() - began)
        yield {"case": name, "seconds": best}
