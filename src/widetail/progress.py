"""Telling the user how far a long computation has come."""

import sys
import time
from collections.abc import Callable

Progress = bool | Callable[[int, int], None]


def reporter(progress: Progress, label: str, *, lines: bool = False) -> Callable[[int, int], None]:
    """A function of (done, total): the user's own, a bar on a terminal, or nothing.

    With `lines`, a line now and then where there is no terminal: the log of a job that runs for hours.
    """
    if callable(progress):
        return progress
    if not isinstance(progress, bool):
        raise ValueError(f"progress must be True, False or a function of (done, total); got {progress!r}.")
    if progress and sys.stderr.isatty():
        return _Bar(label)
    if progress and lines:
        return _Lines(label)
    return lambda done, total: None


def annotate(report: Callable[[int, int], None], note: str) -> None:
    """Have a bar say more than how far it has come; a user's own function is not told."""
    if isinstance(report, _Bar):
        report.note = note


SECONDS_PER_LINE = 30.0


class _Lines:
    """A line on standard error every half minute, and one at the end."""

    def __init__(self, label: str):
        self.label = label
        self.start = self.written = time.monotonic()
        self.first: int | None = None

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        self.first = done if self.first is None else self.first
        if done < total and now - self.written < SECONDS_PER_LINE:
            return
        self.written = now
        left = (now - self.start) / max(done - self.first, 1) * (total - done)
        rest = f", {left:.0f} s left" if done < total else f" in {now - self.start:.0f} s"
        print(f"{self.label}: {done}/{total}{rest}", file=sys.stderr, flush=True)


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
