"""`widetail reproduce`."""

import importlib
from pathlib import Path
from typing import Annotated, Any

import typer

from widetail.cli import _options as options
from widetail.cli._errors import UsageError
from widetail.cli._output import Output


def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Which experiment, or all; none lists them.")
    ] = None,
    is_quick: Annotated[bool, typer.Option("--quick", help="A few minutes; the default.")] = False,
    is_full: Annotated[bool, typer.Option("--full", help="As in the paper; hours.")] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Folder of the results; results/NAME-SIZE by default."),
    ] = None,
    so_far: Annotated[
        bool, typer.Option("--so-far", help="Only write the report, of the results that there are.")
    ] = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
):
    """Redo a table or figure of the paper.

    Says what was found, and writes a report with the tables, what differs from the paper and why.
    """
    experiments: Any = importlib.import_module("widetail.experiments")
    output = Output(as_json=as_json, quiet=quiet)
    names = list(experiments.NAMES)
    if is_quick and is_full:
        raise UsageError("--quick and --full exclude each other.")
    if name is None:
        output.result({"experiments": names}, lambda console: console.print("\n".join(names)))
        return
    if name not in (*names, "all"):
        raise UsageError(f"no experiment is called {name!r}; there are {', '.join(names)}, and all.")
    size = "full" if is_full else "quick"
    found = experiments.reproduced(name, size=size, out=out, progress=not quiet, so_far=so_far)
    results = {"experiment": name, "size": size, "report": str(found.page), "findings": found.findings}

    def show(console: Any) -> None:
        for title, sentences in found.findings.items():
            console.print(title)
            for sentence in sentences:
                console.print(f"- {sentence}", soft_wrap=True)
        console.print(f"report: {found.page}", soft_wrap=True)

    output.result(results, show)
