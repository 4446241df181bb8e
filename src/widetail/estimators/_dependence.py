"""What predictions are on average over the rows, at values of one column: partial dependence, with its uncertainty."""

from typing import Any, NamedTuple

import numpy as np

from widetail.estimators._explained import places_of
from widetail.predictive import Predictive, Transformed, Weighted
from widetail.process import average


class Dependence(NamedTuple):
    """How predictions depend on one column.

    Attributes:
        name: of the column.
        values: of the column, in order: numbers, dates, levels, or parts of a year, week or day from 0 to 1.
        average: the law of the average of the noise-free function over the rows, at each of them, in units of y.
    """

    name: str
    values: np.ndarray
    average: Predictive


def dependence_of(model: Any, feature: str | int, points: int, most_rows: int) -> Dependence:
    """The average over rows in each of which the column has the cell of a row that was fitted."""
    x = np.asarray(model.posterior.x)
    if x.ndim != 2:
        raise ValueError("partial dependence is of tables; this model was fitted to sequences or images.")
    places = places_of(model, x.shape[1])
    number = _number(feature, list(places))
    name = list(places)[number]
    here = places[name]
    values, cells = _cells(model, number, x[:, here], points)
    rows = x[np.sort(np.random.default_rng(0).permutation(len(x))[:most_rows])]
    sets = np.repeat(rows[None], len(cells), axis=0)
    sets[:, :, here] = cells[:, None, :]
    mixture = model.weighted_posterior_
    if mixture is None:
        dist = average(model.posterior, sets)
    else:
        dist = Weighted([average(posterior, sets) for posterior in mixture.posteriors], mixture.weights)
    shift, factor = model.y_scaling_.shift, model.y_scaling_.factor
    is_one = len(dist.event_shape) == 1
    dist = dist.rescale(shift[0], factor[0]) if is_one else dist.rescale(shift, factor)
    warp = model.target_.warp
    return Dependence(name, values, dist if warp is None else Transformed(dist, warp))


def _number(feature: str | int, names: list[str]) -> int:
    if isinstance(feature, str) and feature in names:
        return names.index(feature)
    if isinstance(feature, (int, np.integer)) and not isinstance(feature, bool) and 0 <= feature < len(names):
        return int(feature)
    raise ValueError(
        f"feature must be a name ({', '.join(names[:12])}) or a number from 0 to {len(names) - 1}; got {feature!r}."
    )


def _cells(model: Any, number: int, block: np.ndarray, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Values of a column and what rows have there: of rows without a gap, at most `points` of them.

    Args:
        model: a fitted exact regressor.
        number: of the group of features.
        block: what the fitted rows have there, shape (n, features of the group, and its gap if there are gaps).
        points: how many different values at most, except of categories.
    """
    if not model._is_encoded:
        shift, factor = model.x_scaling_.shift[number], model.x_scaling_.factor[number]
        return _spread(block[:, 0] * factor + shift, block, points)
    encoder = model.table_
    group = encoder.groups_[number]
    column = next(one for one in encoder.columns_ if group.name in [each.name for each in one.groups])
    block = block[block[:, -1] == 0]  # no gap: it is known, and no new level
    if column.kind == "category":
        codes = np.argmax(block[:, :-1], axis=1)
        known, first = np.unique(codes, return_index=True)
        return np.array(column.levels)[known], block[first]
    if group.norm is not None:
        return _spread(np.arctan2(block[:, 0], block[:, 1]) / (2 * np.pi) % 1.0, block, points)
    place = encoder.places_.index(number)
    values, cells = _spread(block[:, 0] * encoder.factor_[place] + encoder.shift_[place], block, points)
    return (values.round().astype(int).astype("datetime64[D]") if column.kind == "date" else values), cells


def _spread(values: np.ndarray, block: np.ndarray, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Different values, at even steps through all of them in order."""
    order = np.argsort(values, kind="stable")
    chosen = order[np.linspace(0, len(order) - 1, points).round().astype(int)]
    different, first = np.unique(values[chosen], return_index=True)
    return different, block[chosen[first]]
