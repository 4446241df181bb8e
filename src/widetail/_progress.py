"""Telling the user how far a long computation has come."""

import sys
import time
from collections.abc import Callable

Progress = bool | Callable[[int, int], None]


def reporter(progress: Progress, label: str) -> Callable[[int, int], None]:
    """A function of (done, total): the user's own, a bar on a terminal, or nothing."""
    if callable(progress):
        return progress
    if not isinstance(progress, bool):
        raise ValueError(f"progress must be True, False or a function of (done, total); got {progress!r}.")
    if progress and sys.stderr.isatty():
        return _Bar(label)
    return lambda done, total: None


def annotate(report: Callable[[int, int], None], note: str) -> None:
    """Have a bar say more than how far it has come; a user's own function is not told."""
    if isinstance(report, _Bar):
        report.note = note


class _Bar:
    """One line on standard error, redrawn a few times a second and wiped at the end."""

    def __init__(self, label: str):
        self.label = label
        self.note = ""
        self.start = self.drawn = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if done >= total:
            sys.stderr.write("\r\033[K")
        elif now - self.drawn > 0.2:
            self.drawn = now
            left = (now - self.start) / max(done, 1) * (total - done)
            filled = 30 * done // total
            bar = "#" * filled + "." * (30 - filled)
            sys.stderr.write(f"\r\033[K{self.label} [{bar}] {done}/{total}, {left:.0f} s left{self.note}")
        sys.stderr.flush()
