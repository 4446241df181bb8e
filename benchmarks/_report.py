"""Printing results as a table and keeping them as JSON lines."""

import datetime
import json
import os
from pathlib import Path
from typing import Any

from benchmarks._registry import Result
from widetail.experiments.running._machine import origin

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"


class Table:
    """Rows of text under the keys of the first row, printed as they come."""

    def __init__(self):
        self.widths: dict[str, int] = {}

    def add(self, result: Result) -> None:
        """Print one result, and the head before the first."""
        cells = {key: _cell(value) for key, value in result.items()}
        if list(cells) != list(self.widths):
            self.widths = {key: max(len(key), len(cell), 56 if key == "case" else 8) for key, cell in cells.items()}
            self._print(dict(zip(cells, cells, strict=True)))
        self._print(cells)

    def end(self) -> None:
        """Say so when there was nothing."""
        if not self.widths:
            print("(nothing measured)")

    def _print(self, cells: dict[str, str]) -> None:
        line = "  ".join(
            cell.ljust(self.widths[key]) if key == "case" else cell.rjust(self.widths[key])
            for key, cell in cells.items()
        )
        print(line, flush=True)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def save(name: str, results: list[Result]) -> Path:
    """Append one line per result, with the commit, the date, the machine and the versions."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.jsonl"
    about = {
        **origin(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "load": os.getloadavg()[0],  # times taken next to other work are not worth much
    }
    with path.open("a") as file:
        for result in results:
            file.write(json.dumps(about | result) + "\n")
    return path.relative_to(ROOT)
