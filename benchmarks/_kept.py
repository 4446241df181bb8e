"""Measurements that are kept as soon as they are done, so that a later run goes on from there."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks._report import RESULTS


class Kept:
    """Lines of a file in the folder of results, by the values of some of their names.

    Delete the file to begin anew: rows of earlier code are not told from those of today.
    """

    def __init__(self, file: str, *names: str):
        self.path: Path = RESULTS / file
        self.names = names
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        self.lines = {self._key(line): line for line in map(json.loads, lines)}

    def get(self, measure: Callable[[], dict[str, Any]], **key: Any) -> dict[str, Any]:
        """The line of a key; measured where there is none."""
        if self._key(key) not in self.lines:
            line = key | measure()
            RESULTS.mkdir(exist_ok=True)
            with self.path.open("a") as file:
                file.write(json.dumps(line) + "\n")
            self.lines[self._key(key)] = line
        return self.lines[self._key(key)]

    def _key(self, line: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(line[name] for name in self.names)
