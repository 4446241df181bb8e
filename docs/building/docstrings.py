"""Docstrings as griffe, which reads them for the site, understands them.

Ours head an example with "Example:", which griffe would render as a quotation: it knows "Examples:" as code. And they
may describe two arguments in one entry ("mean, variance: shape (rows,)"), of which griffe would make a name and a type.
"""

import inspect
import re
from typing import Any

from griffe import Extension

ENTRY = re.compile(r"(?P<indent> +)(?P<names>\*{0,2}\w+(, \*{0,2}\w+)+)(?P<rest>( \([^)]*\))?:( .*)?)")


class Docstrings(Extension):
    """Rewrites docstrings before they are parsed."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Called for everything that may have a docstring."""
        if obj.docstring is not None:
            obj.docstring.value = rewritten(obj.docstring.value)


def rewritten(docstring: str) -> str:
    """Examples as `Examples:`, and an entry of its own for every name."""
    lines = [re.sub(r"^( *)Example:$", r"\1Examples:", line) for line in inspect.cleandoc(docstring).splitlines()]
    result: list[str] = []
    while lines:
        line = lines.pop(0)
        entry = ENTRY.fullmatch(line)
        if entry is None:
            result.append(line)
            continue
        further = []
        while lines and lines[0].startswith(entry["indent"] + " "):
            further.append(lines.pop(0))
        for name in entry["names"].split(", "):
            result += [f"{entry['indent']}{name}{entry['rest']}", *further]
    return "\n".join(result)
