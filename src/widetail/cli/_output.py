"""Results on standard output, remarks on standard error."""

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from widetail.cli._errors import CommandError, UsageError


class Output:
    """What a command prints, as its options ask for it."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False):
        self.as_json = as_json
        self.quiet = quiet

    def remark(self, text: str) -> None:
        """A line on standard error, unless nobody wants it."""
        if not self.quiet:
            say(text)

    def result(self, values: Mapping[str, Any], draw: Callable[[Any], None]) -> None:
        """The results: one JSON object, or what `draw` puts on a `rich.console.Console`."""
        if self.as_json:
            print(json.dumps(json_types(values), ensure_ascii=False, indent=2))
        elif not self.quiet:
            draw(_console())


def say(text: str) -> None:
    """A line on standard error; a progress bar that stands there is wiped first."""
    wipe = "\r\033[K" if sys.stderr.isatty() else ""
    print(f"{wipe}{text}", file=sys.stderr, flush=True)


def counted(number: int, thing: str) -> str:
    """Such as "1 column", "2 columns"."""
    return f"{number} {thing}{'s' * (number != 1)}"


def _console() -> Any:
    from rich.console import Console

    class PlainConsole(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # which ends the command as it ends other ones, not as a failure

    # a pipe has no width: long lines must not be folded there
    width = None if sys.stdout.isatty() else 200
    return PlainConsole(highlight=False, width=width, markup=False, emoji=False)


def table(title: str | None, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Any:
    """A table for `Console.print`; the first column is text, the others are numbers."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        made.add_column(Text(column), justify="left" if number == 0 else "right")
    for row in rows:
        made.add_row(*(Text(number_text(cell)) for cell in row))
    return made


def number_text(value: Any) -> str:
    """Four significant digits for floats, everything else as it is."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value)


def json_types(value: Any) -> Any:
    """JSON types only: NaN becomes null, infinities become words."""
    if isinstance(value, Mapping):
        return {str(name): json_types(entry) for name, entry in value.items()}
    if hasattr(value, "tolist"):
        return json_types(value.tolist())
    if isinstance(value, (list, tuple)):
        return [json_types(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return str(value) if isinstance(value, Path) else value


def check_output(option: str, path: Path | None, suffixes: Sequence[str] = ()) -> None:
    """Find out before the work, not after it, that its result cannot be written."""
    if path is None:
        return
    if suffixes and path.suffix.lower() not in suffixes:
        raise UsageError(f"{option} must end in {' or '.join(suffixes)}; got {str(path)!r}.")
    if path.is_dir():
        raise CommandError(f"{option} {str(path)!r} is a folder; name a file in it.")
    if not path.parent.is_dir():
        raise CommandError(f"the folder {str(path.parent)!r} of {option} does not exist; make it with `mkdir -p`.")
    if not os.access(path.parent, os.W_OK):
        raise CommandError(f"the folder {str(path.parent)!r} of {option} is not writable; choose another one.")


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure whole or not at all."""
    from matplotlib import pyplot

    from widetail.files import whole_file

    with whole_file(path) as temporary:
        figure.savefig(temporary, dpi=150)
    pyplot.close(figure)


PICTURES = (".png", ".svg", ".pdf")


def use_no_display() -> None:
    """Draw to files: a command must work where there is no screen."""
    import matplotlib

    matplotlib.use("Agg")


def integrated_table(facts: dict[str, Any]) -> Any:
    """What was averaged where hyperparameters were integrated out."""
    rows = [
        (name, weight, facts["log_evidences"][name], facts["effective_draws"][name])
        for name, weight in facts["weights"].items()
    ]
    title = f"hyperparameters integrated out: {facts['processes']} processes predict together"
    return table(title, ["architecture", "weight", "log evidence", "effective draws"], rows)


def noise_table(facts: dict[str, Any]) -> Any:
    """How kinds of noise predicted rows that were left out."""
    rows = [(name, score, "chosen" * (name == facts["kind"])) for name, score in facts["scores"].items()]
    return table(None, ["noise", "log density of left-out rows", ""], rows)
