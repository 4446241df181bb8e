"""A table of prices as tables come: missing cells, text, dates, a target whose logarithm is what is nearly normal."""

import datetime
from typing import Any

import numpy as np

CITIES = (
    "Basel",
    "Bern",
    "Chur",
    "Genève",
    "Lausanne",
    "Luzern",
    "St. Gallen",
    "Zürich",
    "Aarau",
    "Sion",
    "Zug",
    "Thun",
)
CONDITIONS = ("poor", "fair", "good", "excellent")
FIRST_DAY = datetime.date(2015, 1, 1)
Table = dict[str, list[Any]]


def prices(rows: int, seed: int) -> tuple[Table, np.ndarray]:
    """Columns of cells (None where one is missing), and the prices.

    Floor area counts by its logarithm and by city, age by condition, the date by a trend that bends; two columns say
    nothing. Errors of the logarithm have heavy tails and are larger for old houses.
    """
    rng = np.random.default_rng(seed)
    popularity = 1 / np.arange(1, len(CITIES) + 1)
    city = rng.choice(len(CITIES), rows, p=popularity / popularity.sum())
    area = np.exp(rng.normal(4.6, 0.4, rows))
    bedrooms = np.clip(np.round(area / 30 + rng.normal(0, 0.8, rows)), 1, 9)
    built = np.round(2020 - rng.gamma(2.0, 25.0, rows))
    condition = np.clip(np.round(3.4 - (2020 - built) / 50 + rng.normal(0, 0.8, rows)), 0, 3).astype(int)
    days = rng.integers(0, 3000, rows)
    distance = rng.gamma(2.0, 3.0, rows)
    has_garden = rng.random(rows) < 0.4
    level = np.random.default_rng(7).normal(0.0, 0.3, len(CITIES))  # the cities are the same in every draw
    per_area = np.random.default_rng(8).normal(0.9, 0.15, len(CITIES))
    age = (2020 - built) / 50
    log_price = (
        12.6
        + level[city]
        + per_area[city] * (np.log(area) - 4.6)
        + 0.05 * bedrooms
        + np.array([-0.35, -0.1, 0.0, 0.15])[condition] * (0.5 + age)
        - 0.25 * np.tanh(distance / 6)
        + 0.3 * np.sin(days / 900)
        + 0.08 * has_garden * (distance < 5)
        + (0.08 + 0.06 * np.minimum(age, 2)) * rng.standard_t(4, rows)
    )
    table: Table = {
        "city": [CITIES[i] for i in city],
        "area": np.round(area, 1).tolist(),
        "bedrooms": bedrooms.astype(int).tolist(),
        "built": built.astype(int).tolist(),
        "condition": [CONDITIONS[i] for i in condition],
        "sold": [(FIRST_DAY + datetime.timedelta(days=int(day))).isoformat() for day in days],
        "distance_km": np.round(distance, 2).tolist(),
        "garden": has_garden.tolist(),
        "agent": [f"agent {i}" for i in rng.integers(0, 25, rows)],
        "listing": rng.integers(10_000, 99_999, rows).tolist(),
    }
    for name, share in {"area": 0.05, "built": 0.15, "condition": 0.2, "distance_km": 0.1, "garden": 0.05}.items():
        for row in np.flatnonzero(rng.random(rows) < share):
            table[name][row] = None
    return table, np.round(np.exp(log_price), -2)


def numbers(table: Table) -> np.ndarray:
    """What a careful user makes of it for a library that wants numbers: one-hot text, days, NaN for what is missing."""
    columns = []
    for name, cells in table.items():
        if name == "sold":
            columns.append([(datetime.date.fromisoformat(cell) - FIRST_DAY).days for cell in cells])
        elif name == "condition":
            columns.append([np.nan if cell is None else CONDITIONS.index(cell) for cell in cells])
        elif name in ("city", "agent"):
            levels = CITIES if name == "city" else [f"agent {i}" for i in range(25)]
            columns += [[float(cell == level) for cell in cells] for level in levels]
        else:
            columns.append([np.nan if cell is None else float(cell) for cell in cells])
    return np.array(columns, float).T
