"""Intervals of the exact regressor that hold whether or not the model is right."""

from typing import Any, Literal, get_args

import numpy as np
from sklearn.base import clone

from widetail import conformal
from widetail.conformal import CrossFits, Groups
from widetail.tables import Encoded

IntervalMethod = Literal["predictive", "jackknife+", "full", "cv+"]
FOLDS = 10

# Labels of the rows that were fitted and of the new ones, or the column of X that has them.
GroupsOrColumn = Groups | str | int | None


def check_method(method: Any, groups: Any) -> None:
    """One of the methods; groups need one with a guarantee."""
    if method not in get_args(IntervalMethod):
        raise ValueError(f"method must be one of {', '.join(map(repr, get_args(IntervalMethod)))}; got {method!r}.")
    if method == "predictive" and groups is not None:
        raise ValueError("groups are for the methods with a guarantee: 'jackknife+', 'full' or 'cv+'.")


def guaranteed_interval(
    model: Any, x_new: np.ndarray, coverage: float, method: IntervalMethod, groups: GroupsOrColumn
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of intervals in the units of y.

    Args:
        model: a fitted `ScaleMixtureRegressor`.
        x_new: new inputs in standard units.
        coverage, method, groups: as in its `predict_interval`.
    """
    if x_new.shape[1:] != np.shape(model.posterior.x)[1:]:
        raise ValueError(
            f"method={method!r} compares new rows with those of fit, none of which had a missing cell; X has some. Use "
            f"method='predictive', or fit to a table with missing cells."
        )
    labels = _labels(model, x_new, groups)
    if method == "cv+":
        if len(model.posterior.y) < 2:
            raise ValueError("method='cv+' needs two rows at least, to learn from one and predict the other.")
        if not hasattr(model, "_cross_fits"):
            model._cross_fits = _cross_fits(model)
        return model._cross_fits.interval(_in_units(model, x_new), coverage, labels)
    compute = conformal.full if method == "full" else conformal.jackknife_plus
    shift, factor = model.y_scaling_.shift, model.y_scaling_.factor
    if model.posterior.y.ndim == 1:
        shift, factor = shift[0], factor[0]
    lower, upper = compute(model._mixture, x_new, coverage, labels)
    return tuple(model.target_.inverse(shift + factor * end) for end in (lower, upper))  # type: ignore[return-value]


def _in_units(model: Any, x: np.ndarray) -> np.ndarray:
    return x * model.x_scaling_.factor + model.x_scaling_.shift


def _cross_fits(model: Any) -> CrossFits:
    """Models that learn all that this one learned, each without a tenth of the rows."""
    learned = model.posterior
    x, counts = _in_units(model, np.asarray(learned.x)), learned.rows.counts
    z = learned.y.reshape(len(x), -1) * model.y_scaling_.factor + model.y_scaling_.shift
    y = model.target_.inverse(z.reshape(learned.y.shape))

    as_rows = Encoded if model._is_encoded else np.asarray

    def fit(rows: np.ndarray) -> Any:
        fold: Any = clone(model)
        fold.table_ = model.table_  # of encoded rows
        fold.fit(as_rows(x[rows]), y[rows], counts[rows])
        return lambda x_new: fold.predict_dist(as_rows(x_new))

    return CrossFits.fit(fit, x, y, folds=FOLDS, seed=int(model.random_state), counts=counts)


def _labels(model: Any, x_new: np.ndarray, groups: GroupsOrColumn) -> Groups | None:
    if groups is None or isinstance(groups, tuple):
        return groups
    old = np.asarray(model.posterior.x)
    if model.table_ is not None:
        names = [column.name for column in model.table_.columns_]
        if model._is_encoded and (groups in names or (isinstance(groups, int) and groups in range(len(names)))):
            name = groups if isinstance(groups, str) else names[groups]
            return model.table_.labels_of(name, old), model.table_.labels_of(name, x_new)
    else:
        names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if isinstance(groups, str) and groups in names:
        column = names.index(groups)
    elif isinstance(groups, (int, np.integer)) and not isinstance(groups, bool) and 0 <= groups < old.shape[1]:
        column = int(groups)
    else:
        known = f"the names {', '.join(names[:8])}" if names else f"numbers from 0 to {old.shape[1] - 1}"
        raise ValueError(
            f"groups must be a column of X ({known}), or a pair, (labels of the fitted rows, labels of the rows of X); "
            f"got {groups!r}."
        )
    if old.ndim != 2:
        raise ValueError("groups by column are for tables; pass a pair of labels for sequences and images.")
    # the same arithmetic made both of them, so that equal cells are equal numbers
    return old[:, column], x_new[:, column]
