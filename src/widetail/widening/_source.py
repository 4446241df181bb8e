"""The line of the user's text that an equation of JAX comes from, and refusals that name it."""

import sysconfig
from pathlib import Path
from typing import Any

from widetail.programs import ProgramError
from widetail.programs.statements import NOWHERE, SourceLine

_OWN = str(Path(__file__).parents[1])
_STANDARD = sysconfig.get_paths()["stdlib"]
# Libraries that stand between the user's line and the equation.
_BELOW = ("/jax/", "/jaxlib/", "/numpy/", "/jaxtyping/", "/beartype/")
_BETWEEN = (*_BELOW, "/equinox/", "/flax/")


class WidenError(ProgramError):
    """A model whose limit is not understood, or that has none; the message names the line and the reason."""


def place_of(equation: Any) -> SourceLine:
    """The innermost line outside of libraries; `NOWHERE` where JAX kept none."""
    traceback = getattr(equation.source_info, "traceback", None)
    frames = getattr(traceback, "frames", ())
    for between in (_BETWEEN, _BELOW):  # where no line of the user's is there, the line of the library
        for frame in frames:
            file = frame.file_name.replace("\\", "/")
            is_library = "/site-packages/" in file and any(name in file for name in between)
            if not (is_library or file.startswith((_OWN, "<")) or _is_standard(file)):
                return SourceLine(frame.file_name, frame.line_num)
    return NOWHERE


def _is_standard(file: str) -> bool:
    return file.startswith(_STANDARD) and "/site-packages/" not in file
