"""Dates and times as people write them, as days since 1970, and what of them comes round again."""

import datetime
import re
from collections.abc import Sequence
from typing import Literal

import numpy as np

from widetail.tables._cells import DAY, day_of

# Which of day, month and year comes first; "time" is a time of day alone.
DateOrder = Literal["ymd", "dmy", "mdy", "time"]
ORDERS: tuple[DateOrder, ...] = ("ymd", "mdy", "dmy", "time")

CLOCK = r"(?:[T ]+(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,]\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
YEAR_FIRST = re.compile(rf"(\d{{4}})[-/.](\d{{1,2}})[-/.](\d{{1,2}}){CLOCK}\Z")
YEAR_LAST = re.compile(rf"(\d{{1,2}})([-/.])(\d{{1,2}})\2(\d{{4}}|\d{{2}}){CLOCK}\Z")
TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?\Z")

YEAR, WEEK = 365.2425, 7.0
FEWEST_DAYS_FOR_SEASONS = 400.0  # in less than a year the season is the date itself


def parse_dates(texts: Sequence[str], order: DateOrder) -> np.ndarray:
    """Days since 1970, or parts of a day for times; NaN for texts that are no such date.

    Example:
        >>> from widetail.tables import parse_dates
        >>> parse_dates(["31.1.1970", "30.2.1970"], "dmy").tolist()
        [30.0, nan]
    """
    return np.array([_parse(text, order) for text in texts], dtype=np.float64)


def orders_of(texts: Sequence[str]) -> tuple[list[DateOrder], np.ndarray]:
    """Orders in which every text is a date, and which texts look like a date at all."""
    looks = np.array([any(form.match(text) for form in (YEAR_FIRST, YEAR_LAST, TIME)) for text in texts], bool)
    if not len(texts) or not looks.all():
        return [], looks
    return [order for order in ORDERS if not np.isnan(parse_dates(texts, order)).any()], looks


def _parse(text: str, order: DateOrder) -> float:
    try:
        if order == "time":
            found = TIME.match(text)
            return _clock(found.groups()) if found else np.nan
        found = (YEAR_FIRST if order == "ymd" else YEAR_LAST).match(text)
        if not found:
            return np.nan
        if order == "ymd":
            year, month, day, *clock = found.groups()
        else:
            first, _, second, year, *clock = found.groups()
            day, month = (first, second) if order == "dmy" else (second, first)
        number = int(year) if len(year) == 4 else int(year) + (1900 if int(year) >= 70 else 2000)
        return day_of(datetime.date(number, int(month), int(day))) + _clock(clock)
    except ValueError:  # no such day
        return np.nan


def _clock(parts: Sequence[str | None]) -> float:
    hours, minutes, seconds = (int(part or 0) for part in parts)
    return datetime.timedelta(hours=datetime.time(hours, minutes, seconds).hour, minutes=minutes, seconds=seconds) / (
        datetime.timedelta(seconds=DAY)
    )


def rounds_of(days: np.ndarray) -> dict[str, float]:
    """What comes round again in known dates, by name, and how long that takes in days."""
    found = {}
    if np.ptp(days) >= FEWEST_DAYS_FOR_SEASONS:
        found["time of year"] = YEAR
    if len(np.unique(np.floor(days) % WEEK)) > 1:
        found["day of week"] = WEEK
    if np.any(days % 1.0):
        found["time of day"] = 1.0
    return found
