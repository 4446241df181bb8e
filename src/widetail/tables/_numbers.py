"""Numbers as people write them: decimal commas, separated thousands, percent and currency signs."""

import re
from dataclasses import dataclass
from typing import Literal

import polars as pl

Decimal = Literal[".", ","]

CODES = "USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|SEK|NOK|DKK|PLN|CZK"
UNIT = rf"(\p{{Sc}}|%|‰|{CODES})"
PREFIX, SUFFIX = rf"^([+-]?) ?{UNIT} ?", rf" ?{UNIT}$"


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
        >>> import polars as pl
        >>> from widetail import tables
        >>> tables.NumberFormat(",", ".").parse(pl.Series(["1.234,5", "0,25", "1.5"])).to_list()
        [1234.5, 0.25, None]
    """

    decimal: Decimal = "."
    thousands: str = ""
    unit: str = ""

    def parse(self, cells: pl.Series) -> pl.Series:
        """Texts as float64, with null for those that are not such numbers."""
        bare, unit = split_units(cells)
        return self.parse_bare(bare, unit)

    def parse_bare(self, bare: pl.Series, unit: pl.Series) -> pl.Series:
        """The same of what `split_units` has made of the cells."""
        is_number = bare.str.contains(self._pattern()) & (unit == self.unit)
        plain = bare.str.replace_all(self.thousands, "", literal=True) if self.thousands else bare
        plain = plain.str.replace(self.decimal, ".", literal=True)
        return pl.select(pl.when(is_number).then(plain).cast(pl.Float64, strict=False)).to_series()

    def _pattern(self) -> str:
        mark, between = re.escape(self.decimal), re.escape(self.thousands)
        whole = rf"(?:[0-9]+|[1-9][0-9]{{0,2}}(?:{between}[0-9]{{3}})+)" if self.thousands else "[0-9]+"
        digits = rf"(?:{whole}(?:{mark}[0-9]*)?|{mark}[0-9]+)(?:[eE][+-]?[0-9]+)?"
        return rf"^[+-]?(?:{digits}|(?i:inf|infinity))$"

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


def split_units(cells: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Numbers and their units ("" for none); quotes around them, and typographic spaces and signs, made plain."""
    plain = (
        cells.str.replace_all(r"\s", " ")
        .str.strip_chars()
        .str.replace(r"^(?:'(.*)'|\"(.*)\")$", "$1$2")
        .str.replace_all("\N{RIGHT SINGLE QUOTATION MARK}", "'", literal=True)
        .str.replace_all("\N{MINUS SIGN}", "-", literal=True)
    )
    before, behind = plain.str.extract(PREFIX, 2), plain.str.extract(SUFFIX, 1)
    text = pl.DataFrame({"plain": plain, "before": before, "behind": behind})
    bare = text.select(
        pl.when(pl.col("before").is_not_null())
        .then(pl.col("plain").str.replace(PREFIX, "${1}"))
        .otherwise(pl.col("plain").str.replace(SUFFIX, ""))
    ).to_series()
    return bare, text.select(pl.coalesce("before", "behind").fill_null("")).to_series()


def candidates(cells: pl.Series) -> tuple[list[NumberFormat], pl.Series]:
    """Formats in which every text is a number, the simplest first; and which texts the best of all formats reads."""
    bare, unit = split_units(cells)
    common = str(unit.mode().sort()[0])
    fitting, best = [], pl.repeat(False, len(cells), eager=True)
    for decimal, thousands in MARKS:
        one = NumberFormat(decimal, thousands, common)
        is_read = one.parse_bare(bare, unit).is_not_null()
        if is_read.all():
            fitting.append(one)
        if is_read.sum() > best.sum():
            best = is_read
    return fitting, best
