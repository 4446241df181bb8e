"""What a fitted exact regressor goes by: columns that matter, rows that predictions lean on, rows that are unusual."""

from typing import Any, NamedTuple

import numpy as np
import scipy.special

from widetail.learning import WeightedPosterior

MOST_ROWS = 300  # of those that were fitted, over which relevances are averaged


class Support(NamedTuple):
    """The rows that predictions lean on most, shapes (m, count) or (m, count, outputs).

    Attributes:
        rows: numbers of rows that were fitted (those of positive weight), the most important ones first.
        changes: how much the prediction would fall without one observation of each, in units of y.
    """

    rows: np.ndarray
    changes: np.ndarray


def relevances_of(model: Any) -> dict[str, float]:
    """Standard deviation of what each column does to the location, in units of y or of what y is mapped to."""
    x = np.asarray(model.posterior.x)
    if x.ndim != 2:
        raise ValueError("relevances are of tables; this model was fitted to sequences or images.")
    rows = x[np.sort(np.random.default_rng(0).permutation(len(x))[:MOST_ROWS])]
    before, found = model._mixture.location(rows), {}
    for name, places in places_of(model, x.shape[1]).items():
        without = rows.copy()
        without[:, places] = x[:, places].mean(axis=0)
        change = (before - model._mixture.location(without)).reshape(len(rows), -1) * model.y_scaling_.factor
        found[name] = float(np.sqrt(np.mean(change**2)))
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def places_of(model: Any, features: int) -> dict[str, list[int]]:
    """The columns of the matrix of inputs that belong to every column of the table."""
    if model.table_ is None:
        names = [str(name) for name in getattr(model, "feature_names_in_", [f"x{i}" for i in range(features)])]
        return {name: [place] for place, name in enumerate(names)}
    groups, known = model.table_.groups_, len(model.table_.places_)
    gaps = {place: [known + place] if model._is_encoded else [] for place in range(len(groups))}
    return {
        group.name: [f for f, of in enumerate(model.table_.places_) if of == place] + gaps[place]
        for place, group in enumerate(groups)
    }


def support_of(model: Any, x: np.ndarray, count: int) -> Support:
    """The rows whose absence would change the predictions at some inputs in standard units most."""
    mixture = model._mixture_at(x)
    is_several = isinstance(mixture, WeightedPosterior)
    parts = zip(mixture.weights, mixture.posteriors, strict=True) if is_several else [(1.0, mixture)]
    total: Any = 0.0
    for weight, posterior in parts:
        found = posterior.influence(x)
        total = total + weight * found.reach * (found.weights / found.precision)[:, None]  # (n, m, outputs)
    changes = np.moveaxis(np.asarray(total) * model.y_scaling_.factor, 0, 1)
    size = np.max(np.abs(changes), axis=2)
    order = np.argsort(-size, axis=1, kind="stable")[:, :count]
    chosen = np.take_along_axis(changes, order[..., None], axis=1)
    return Support(order, chosen[..., 0] if model.posterior.y.ndim == 1 else chosen)


def unusual_rows_of(model: Any, probability: float) -> np.ndarray:
    """Rows whose targets the others would have given a smaller probability to be as far off."""
    left = model._mixture.left_out()
    scores = ((model.posterior.y - left.location) / left.scale).reshape(len(left.location), -1)
    degrees, factor = (1e9, 1.0) if model.tails_ is None else (model.tails_.degrees, model.tails_.factor)
    beyond = np.min(2 * scipy.special.stdtr(degrees, -np.abs(scores) / factor), axis=1)
    order = np.argsort(beyond, kind="stable")
    return order[beyond[order] < probability]
