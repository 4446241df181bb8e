"""Formulas of the site as MathML, which browsers draw by themselves: no script, no network.

`pymdownx.arithmatex` marks formulas; this hook of mkdocs replaces what it has marked.
"""

import html
import re
import unicodedata
from typing import Any

from latex2mathml.converter import convert

MARKED = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<formula>.*?)\\[)\]]</(?P=tag)>',
    re.DOTALL,
)
LETTER = re.compile(r'<mi mathvariant="(?P<variant>script|double-struck)">(?P<letter>[A-Z])</mi>')


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """The page with every formula drawn; a formula that cannot be read stops the build."""

    def draw(found: re.Match) -> str:
        formula = html.unescape(found["formula"]).strip()
        try:
            drawn = convert(formula, display="block" if found["tag"] == "div" else "inline")
        except Exception as error:
            raise ValueError(f"{page.file.src_path}: the formula {formula!r} cannot be read: {error!r}") from error
        # latex2mathml takes a command that it does not know for a text
        unknown = re.search(r"\\[A-Za-z]+", drawn.partition("<annotation")[0])
        if unknown:
            raise ValueError(f"{page.file.src_path}: {unknown[0]} of the formula {formula!r} is not known")
        return drawn

    return LETTER.sub(_letter, MARKED.sub(draw, content))


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """The whole page, which must need nothing from elsewhere and have no formula left."""
    foreign = re.search(r'<(?:script|link|img)\b[^>]*\b(?:src|href)="(?:https?:)?//[^"]*"|class="arithmatex"', output)
    if foreign and 'rel="canonical"' not in foreign[0]:
        raise ValueError(f"{page.file.src_path}: {foreign[0]} needs a network")
    return output


def _letter(found: re.Match) -> str:
    """A script or double-struck letter by its own character: browsers have no such variant of an ordinary one."""
    name = f"{'SCRIPT' if found['variant'] == 'script' else 'DOUBLE-STRUCK'} CAPITAL {found['letter']}"
    try:
        return f"<mi>{unicodedata.lookup(name)}</mi>"  # the few that were there before the others
    except KeyError:
        return f"<mi>{unicodedata.lookup(f'MATHEMATICAL {name}')}</mi>"
