"""The line of the user's program that made a statement, and the name that it assigns."""

import ast
import dataclasses
import functools
import inspect
import itertools
import linecache
import traceback
from pathlib import Path
from types import FrameType

# Not the library: its programs are written as a user's are.
_ROOM = Path(__file__).parents[1]
_OWN_FOLDERS = {str(_ROOM), str(_ROOM / "language"), str(_ROOM / "limits")}
# Between the line of the user and the language: type checkers, and libraries whose functions the user called.
_BETWEEN = ("jaxtyping", "beartype", "jax", "numpy")


@dataclasses.dataclass(frozen=True)
class SourceLine:
    """A line of a program.

    Attributes:
        file: path of the file, as Python knows it.
        line: number of the line, from 1.
        name: what the line assigns the value to, where it does so directly.
    """

    file: str
    line: int
    name: str | None = None

    @property
    def text(self) -> str:
        """The line itself; empty where its source is not at hand."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}"
        return f"{where}: {self.text}" if self.text else where


class ProgramError(ValueError):
    """A program that the theory does not cover, or that does not fit its inputs; the message names the line."""

    def __init__(self, message: str, place: SourceLine | None = None):
        super().__init__(message if place is None or not place.line else f"{message}\n  at {place}")
        self.place = place


class InputError(ProgramError):
    """A program that does not fit the shape of its inputs."""


def here() -> SourceLine:
    """The line of the program that is being executed: the first one outside of the language itself."""
    frame = inspect.currentframe()
    while frame is not None and _is_inside(frame):
        frame = frame.f_back
    if frame is None:
        return SourceLine("<unknown>", 0)
    code = frame.f_code
    position = next(itertools.islice(code.co_positions(), frame.f_lasti // 2, None), None)
    name = _assigned(code.co_filename).get(position) if position is not None else None
    return SourceLine(code.co_filename, frame.f_lineno, name)


def line_of(error: BaseException) -> SourceLine:
    """The last line of the program on the way to an error."""
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if not _is_inside(frame)]
    frame, line = frames[-1]
    return SourceLine(frame.f_code.co_filename, line)


def _is_inside(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    module = str(frame.f_globals.get("__name__", ""))
    is_own = str(Path(file).parent) in _OWN_FOLDERS
    return is_own or file.startswith("<@beartype") or module.split(".")[0] in _BETWEEN


@functools.lru_cache(maxsize=64)
def _assigned(file: str) -> dict[tuple[int | None, ...], str]:
    """The names that expressions are assigned to, by the expression's first and last line and column."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return {}
    names: dict[tuple[int | None, ...], str] = {}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Assign) and len(node.targets) == 1):
            continue
        target, value = node.targets[0], node.value
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=False))
        for left, right in pairs:
            if isinstance(left, ast.Name):
                names[(right.lineno, right.end_lineno, right.col_offset, right.end_col_offset)] = left.id
    return names
