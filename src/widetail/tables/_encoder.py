"""A table as a matrix that kernels and networks take: a transformer of scikit-learn."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from widetail.checks import check_count
from widetail.files import savable
from widetail.tables._cells import Cells, cells_of, columns_of, is_frame
from widetail.tables._columns import Column, Group
from widetail.tables._detect import Detected, detect_columns
from widetail.tables._errors import TableError
from widetail.tables._gaps import JointNormal
from widetail.tables._numbers import Decimal
from widetail.tables._words import listed, nearest_first


class Encoded(NamedTuple):
    """Rows that are encoded already, where a frame is expected; `values` is a matrix (n, features and gaps)."""

    values: np.ndarray


@savable("tables.TableEncoder")
class TableEncoder(TransformerMixin, BaseEstimator):
    r"""Numbers, categories, dates, texts and missing cells of a frame as a finite matrix.

    A number is standardised. A category is a feature per level, so scaled that two rows are as far apart as two
    standardised numbers are on average. A date is its number of days, and a point on a circle for the time of year,
    the day of the week and the time of day where they vary. What says nothing (a column with one value, without values,
    or of texts that are all different) is left out, and `left_out_` says why.

    A missing cell stands for all that it may be. Its features are those expected given the other cells of the row, and
    behind all features stands a **gap** for every group of them that shares a relevance: how far off that may be, in
    the same units. Gaps of different rows are in different directions, which `tables.for_table` tells a kernel: the
    squared distance of a row to another one is then the expected one, and the covariances between rows fade as they
    should. A category that was not seen, or was too rare to have a feature, is a gap too: as far from all levels as
    they are from each other. Other models may take gaps as features that say how much is not known.

    Args:
        categorical: names of columns that are categories even if they look like numbers.
        max_levels: most levels of a category that are told apart, the most frequent ones.
        decimal: the mark before decimals, "." or ",", of numbers that are texts; found out by default.
        standardise: whether numbers are standardised.

    Attributes:
        columns_: the columns that are used.
        left_out_: the others by name, and why.
        remarks_: what is not obvious of how cells were read.
        n_features_in_, feature_names_in_: as in scikit-learn.

    Example:
        >>> from widetail import TableEncoder
        >>> import polars as pl
        >>> frame = pl.DataFrame({"size": [1.0, 3.0, None], "colour": ["red", "blue", "Red "]})
        >>> encoder = TableEncoder().fit(frame)
        >>> encoder.get_feature_names_out().tolist()
        ['size', 'colour=blue', 'colour=Red', 'gap: size', 'gap: colour']
        >>> encoder.transform(frame).round(2)[:, [0, 3]]  # the last size may be anything between the others
        array([[-1.  ,  0.  ],
               [ 1.  ,  0.  ],
               [-0.  ,  1.  ]])
    """

    columns_: tuple[Column, ...]
    left_out_: dict[str, str]
    remarks_: tuple[str, ...]
    shift_: np.ndarray
    factor_: np.ndarray
    law_: JointNormal
    has_gaps_: bool
    names_: tuple[str, ...]

    def __init__(
        self,
        categorical: Sequence[str] = (),
        max_levels: int = 100,
        decimal: Decimal | None = None,
        standardise: bool = True,
    ):
        self.categorical = categorical
        self.max_levels = max_levels
        self.decimal = decimal
        self.standardise = standardise

    def fit(self, X: Any, y: Any = None, *, usual_decimal: Decimal | None = None) -> "TableEncoder":
        """Find out what the columns are.

        Args:
            X: a frame of pandas or polars, or an array (n, d) of numbers, texts and missing cells.
            y: not used.
            usual_decimal: the decimal mark that goes with the file that the frame was read from.
        """
        check_count("max_levels", self.max_levels)
        if self.decimal not in (None, ".", ","):
            raise ValueError(f"decimal must be '.', ',' or None; got {self.decimal!r}.")
        columns = columns_of(X)
        unknown = [name for name in self.categorical if name not in columns]
        if unknown:
            raise TableError(f"categorical names {unknown[0]!r}; {_there_are(unknown[0], list(columns))}.")
        if not columns or not len(next(iter(columns.values()))):
            raise TableError("the table is empty; rows and columns are expected.")
        found = detect_columns(
            columns,
            categorical=self.categorical,
            max_levels=self.max_levels,
            decimal=self.decimal,
            usual_decimal=usual_decimal,
        )
        return self.learn(X, found)

    def learn(self, X: Any, found: Detected) -> "TableEncoder":
        """What `fit` does once it is known what the columns are."""
        columns = columns_of(X)
        if not found.columns:
            reasons = listed([f"{name!r}: {reason}" for name, reason in found.left_out.items()], ";")
            raise TableError(f"the table has no column that a model can use: {reasons}.")
        self.columns_, self.left_out_ = tuple(found.columns), found.left_out
        left = [f"{name!r} is left out: {reason}" for name, reason in found.left_out.items()]
        self.remarks_ = tuple(found.remarks + left)
        self.names_, self.n_features_in_ = tuple(columns), len(columns)
        if is_frame(X):
            self.feature_names_in_ = np.array(list(columns), dtype=object)
        else:
            vars(self).pop("feature_names_in_", None)
        features, is_new = self._read(columns, 1)
        is_number = np.repeat([group.norm is None for group in self.groups_], self._sizes)
        self.shift_, self.factor_ = np.zeros(len(is_number)), np.ones(len(is_number))
        if self.standardise:
            self.shift_[is_number], self.factor_[is_number] = _moments(features[:, is_number])
        self.law_ = JointNormal.learn((features - self.shift_) / self.factor_)
        self.has_gaps_ = bool(np.isnan(features).any() or is_new.any())
        return self

    @property
    def groups_(self) -> list[Group]:
        """Features that share a relevance, in order."""
        return [group for column in self.columns_ for group in column.groups]

    @property
    def _sizes(self) -> list[int]:
        return [len(group.features) for group in self.groups_]

    @property
    def places_(self) -> tuple[int, ...]:
        """The group of every feature, without gaps."""
        return tuple(int(place) for place in np.repeat(np.arange(len(self._sizes)), self._sizes))

    @property
    def is_plain_(self) -> bool:
        """Whether the table was one of numbers alone, none of them missing."""
        return not self.has_gaps_ and all(column.kind == "number" for column in self.columns_)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the features, and of the gaps behind them."""
        check_is_fitted(self, "columns_")
        features = [name for group in self.groups_ for name in group.features]
        return np.array([*features, *(f"gap: {group.name}" for group in self.groups_)], dtype=object)

    def transform(self, X: Any, first_row: int = 1) -> np.ndarray:
        """Features and gaps of some rows, shape (n, features + groups), float64 and finite.

        Args:
            X: as in `fit`; of frames columns may be in another order, and further ones do no harm.
            first_row: number of the first row, for messages.
        """
        check_is_fitted(self, "columns_")
        if isinstance(X, Encoded):
            return X.values
        columns = self._columns_like_first(X)
        if not len(next(iter(columns.values()))):
            raise TableError("the table has no rows.")
        features, is_new = self._read(columns, first_row)
        mean, variance = self.law_.complete((features - self.shift_) / self.factor_)
        gaps = np.zeros((len(mean), len(self._sizes)))
        start = 0
        for place, group in enumerate(self.groups_):
            here = slice(start, start + len(group.features))
            start = here.stop
            if group.norm is None:
                gaps[:, place] = np.sqrt(variance[:, start - 1])
                continue
            rows = np.any(np.isnan(features[:, here]), axis=1)
            mean[rows, here] = _inside(mean[rows, here], group)
            rows |= is_new[:, place]
            rest = group.norm - np.sum(mean[rows, here] ** 2, axis=1)
            gaps[rows, place] = np.sqrt(np.maximum(rest, 0.0))
        return np.concatenate([mean, gaps], axis=1)

    def with_decimal(self, decimal: Decimal | None) -> "TableEncoder":
        """The same encoder for a table whose numbers are written with another decimal mark."""
        if decimal is None:
            return self
        copy = TableEncoder.from_saved(self.saved_fields())
        copy.columns_ = tuple(column.with_decimal(decimal) for column in self.columns_)
        return copy

    def labels_of(self, name: str, values: np.ndarray) -> np.ndarray:
        """What encoded rows have in a column: the number, or of a category the place of the level, -1 for none."""
        start = 0
        for column in self.columns_:
            size = sum(len(group.features) for group in column.groups)
            if column.name == name:
                part = values[:, start : start + size]
                if column.kind != "category":
                    return part[:, 0]
                best = np.argmax(part, axis=1)
                norm = np.sqrt(column.groups[0].norm or 1.0)
                return np.where(part[np.arange(len(part)), best] > 0.999 * norm, best, -1)
            start += size
        raise ValueError(f"there is no column {name!r}; {_there_are(name, [column.name for column in self.columns_])}.")

    def saved_fields(self) -> dict[str, Any]:
        """What a file holds."""
        learned = ("columns_", "left_out_", "remarks_", "shift_", "factor_", "law_", "has_gaps_", "names_")
        parameters = self.get_params() | {"categorical": tuple(self.categorical)}
        if not hasattr(self, "columns_"):
            return {"parameters": parameters}
        named = {"is_named": hasattr(self, "feature_names_in_")}
        return {"parameters": parameters, **{name.rstrip("_"): getattr(self, name) for name in learned}, **named}

    @classmethod
    def from_saved(cls, fields: dict[str, Any]) -> "TableEncoder":
        """The encoder whose `saved_fields` these are."""
        encoder, rest = cls(**fields["parameters"]), dict(fields)
        del rest["parameters"]
        if not rest:
            return encoder
        is_named = rest.pop("is_named")
        for name, value in rest.items():
            setattr(encoder, f"{name}_", value)
        encoder.n_features_in_ = len(encoder.names_)
        if is_named:
            encoder.feature_names_in_ = np.array(encoder.names_, dtype=object)
        known = all(isinstance(column, Column) for column in encoder.columns_)
        size = sum(encoder._sizes) if known else 0
        if not size or encoder.shift_.shape != (size,) or encoder.factor_.shape != (size,):
            raise ValueError(f"{encoder.columns_!r} do not have {encoder.shift_.shape} features")
        if not isinstance(encoder.law_, JointNormal) or encoder.law_.covariance.shape != (size, size):
            raise ValueError(f"law is {encoder.law_!r}")
        return encoder

    def _columns_like_first(self, X: Any) -> dict[str, Any]:
        columns = columns_of(X)
        if not is_frame(X):
            if len(columns) != self.n_features_in_:
                raise ValueError(
                    f"X has {len(columns)} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                    f"features as input."
                )
            return dict(zip(self.names_, columns.values(), strict=True))
        missing = [column.name for column in self.columns_ if column.name not in columns]
        if missing:
            raise TableError(
                f"the table lacks {listed(map(repr, missing))}, which the model was fitted with; it has "
                f"{listed(map(repr, nearest_first(missing[0], list(columns))))}."
            )
        return columns

    def _read(self, columns: dict[str, Any], first_row: int) -> tuple[np.ndarray, np.ndarray]:
        """Features as they are, NaN where missing, and for every group where a level is a new one."""
        features, is_new = [], []
        for column in self.columns_:
            part, new = column.read(self._cells(column, columns, first_row), first_row)
            features.append(part)
            is_new += [new] * len(column.groups)
        return np.concatenate(features, axis=1), np.stack(is_new, axis=1)

    def _cells(self, column: Column, columns: dict[str, Any], first_row: int) -> Cells:
        return cells_of(column.name, columns[column.name], first_row)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags


def _moments(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of what is known of every feature, at any magnitude."""
    largest = np.maximum(np.nanmax(np.abs(features), axis=0), np.finfo(np.float64).tiny)
    scaled = features / largest
    return np.nanmean(scaled, axis=0) * largest, np.maximum(np.nanstd(scaled, axis=0) * largest, 1e-300)


def _inside(mean: np.ndarray, group: Group) -> np.ndarray:
    """Expected features of a category or of a point on a circle, brought to where such expectations can be."""
    norm = group.norm or 1.0
    if len(group.features) == 2 and norm == 1.0:  # a circle: two levels of a category have the norm 2
        radius = np.sqrt(np.sum(mean**2, axis=1, keepdims=True))
        return mean / np.maximum(radius, 1.0)
    shares = np.maximum(mean, 1e-9)
    return np.sqrt(norm) * shares / np.sum(shares, axis=1, keepdims=True)


def _there_are(wanted: str, names: list[str]) -> str:
    return f"there are {listed(map(repr, nearest_first(wanted, names)))}"
