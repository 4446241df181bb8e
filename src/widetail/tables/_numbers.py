"""Numbers as people write them: decimal commas, separated thousands, percent and currency signs."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from widetail.files import savable

Decimal = Literal[".", ","]

CODES = "USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|SEK|NOK|DKK|PLN|CZK"
UNIT = rf"([$¢-¥฿\u20a0-\u20c0]|%|‰|{CODES})"
PREFIX, SUFFIX = re.compile(rf"^([+-]?) ?{UNIT} ?"), re.compile(rf" ?{UNIT}$")
QUOTED = re.compile(r"""^(?:'(.*)'|"(.*)")$""", re.DOTALL)


@savable("tables.NumberFormat")
@dataclass(frozen=True)
class NumberFormat:
    """How the numbers of a column are written.

    Attributes:
        decimal: the mark before the fraction.
        thousands: the mark between groups of three digits ("," "." "'" or " "), or "" for none. Not every number
            need have it.
        unit: a sign that stands before or behind every number, such as "%" or "$"; the number is taken as it is, 12 %
            as 12.

    Example:
        >>> from widetail import tables
        >>> tables.NumberFormat(",", ".").parse(["1.234,5", "0,25", "1.5"]).tolist()
        [1234.5, 0.25, nan]
    """

    decimal: Decimal = "."
    thousands: str = ""
    unit: str = ""

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        """Texts as float64, with NaN for those that are not such numbers."""
        return self.parse_bare([split_unit(text) for text in texts])

    def parse_bare(self, parts: Sequence[tuple[str, str]]) -> np.ndarray:
        """The same of what `split_unit` has made of the texts."""
        matches = re.compile(self._pattern()).match
        values = np.full(len(parts), np.nan)
        for place, (bare, unit) in enumerate(parts):
            if unit == self.unit and matches(bare):
                plain = bare.replace(self.thousands, "") if self.thousands else bare
                values[place] = float(plain.replace(self.decimal, "."))
        return values

    def _pattern(self) -> str:
        mark, between = re.escape(self.decimal), re.escape(self.thousands)
        whole = rf"(?:[0-9]+|[1-9][0-9]{{0,2}}(?:{between}[0-9]{{3}})+)" if self.thousands else "[0-9]+"
        digits = rf"(?:{whole}(?:{mark}[0-9]*)?|{mark}[0-9]+)(?:[eE][+-]?[0-9]+)?"
        return rf"^[+-]?(?:{digits}|(?i:infinity|inf))\Z"

    def describe(self) -> str:
        """In words, for people."""
        marks = {",": "commas", ".": "points", "'": "apostrophes", " ": "spaces"}
        parts = [f"decimal {marks[self.decimal]}"]
        if self.thousands:
            parts.append(f"{marks[self.thousands]} between thousands")
        if self.unit:
            parts.append(f"the unit {self.unit}")
        return " and ".join(parts)


PLAIN = NumberFormat()
# the simplest first: the first that fits is taken
MARKS: tuple[tuple[Decimal, str], ...] = (
    (".", ""),
    (",", ""),
    (".", ","),
    (".", "'"),
    (".", " "),
    (",", "."),
    (",", "'"),
    (",", " "),
)


def split_unit(text: str) -> tuple[str, str]:
    """A number and its unit ("" for none); quotes around it, and typographic spaces and signs, made plain."""
    plain = re.sub(r"\s", " ", text).strip()
    plain = QUOTED.sub(lambda found: found[1] if found[1] is not None else found[2], plain)
    plain = plain.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").replace("\N{MINUS SIGN}", "-")
    before = PREFIX.match(plain)
    if before:
        return before[1] + plain[before.end() :], before[2]
    behind = SUFFIX.search(plain)
    return (plain[: behind.start()], behind[1]) if behind else (plain, "")


def candidates(texts: Sequence[str]) -> tuple[list[NumberFormat], np.ndarray]:
    """Formats in which every text is a number, the simplest first; and which texts the best of all formats reads.

    Args:
        texts: one or more.
    """
    parts = [split_unit(text) for text in texts]
    counts = Counter(unit for _, unit in parts)
    common = min(counts, key=lambda unit: (-counts[unit], unit))
    fitting, best = [], np.zeros(len(texts), bool)
    for decimal, thousands in MARKS:
        one = NumberFormat(decimal, thousands, common)
        is_read = ~np.isnan(one.parse_bare(parts))
        if is_read.all():
            fitting.append(one)
        if is_read.sum() > best.sum():
            best = is_read
    return fitting, best
