"""What a report says: sections of prose, tables and figures, written once for every format."""

import dataclasses
from collections.abc import Mapping, Sequence

from widetail.plots import ResultTable

# In all texts, `code` and **bold** are marked as in Markdown; nothing else is.


@dataclasses.dataclass(frozen=True)
class Prose:
    """A paragraph."""

    text: str


@dataclasses.dataclass(frozen=True)
class Bullets:
    """A list of short texts."""

    items: Sequence[str]


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """A table of results, and a note below it."""

    results: ResultTable
    note: str = ""


@dataclasses.dataclass(frozen=True)
class TextTable:
    """A table of short texts under a head."""

    head: Sequence[str]
    lines: Sequence[Sequence[str]]


@dataclasses.dataclass(frozen=True, eq=False)
class Figure:
    """A picture.

    Attributes:
        name: of its file; unlike that of any other figure of the report.
        png: the file.
        caption: what one sees.
    """

    name: str
    png: bytes
    caption: str


@dataclasses.dataclass(frozen=True)
class Code:
    """Lines to copy, or, with a title, lines that are folded away until asked for."""

    text: str
    title: str = ""


Block = Prose | Bullets | Table | TextTable | Figure | Code


@dataclasses.dataclass(frozen=True)
class Section:
    """Blocks under a heading."""

    title: str
    blocks: Sequence[Block]


@dataclasses.dataclass(frozen=True)
class Report:
    """A page.

    Attributes:
        title: its heading.
        lead: what was asked, in a sentence or two.
        findings: the answers, each in a sentence.
        facts: where the numbers are from: date, commit, machine, time.
        sections: everything else.
    """

    title: str
    lead: str
    findings: Sequence[str]
    facts: Mapping[str, str]
    sections: Sequence[Section]

    def figures(self) -> list[Figure]:
        """All figures, in order."""
        return [block for section in self.sections for block in section.blocks if isinstance(block, Figure)]
