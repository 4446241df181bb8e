"""Frames in place of arrays: what an estimator does with names, texts, dates and missing cells."""

from typing import Any, ClassVar

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import _check_y, check_consistent_length, validate_data

from widetail.kernels import Kernel
from widetail.tables import Encoded, TableEncoder, as_numbers, for_table, is_frame, rows_text


class TableInputs:
    """Takes frames of pandas and polars, and arrays with texts or missing cells; not for direct use.

    Attributes:
        table_: what encodes the rows; None of models that were fitted to an array of numbers.
    """

    table: TableEncoder | None = None
    table_: TableEncoder | None = None
    standardise: bool
    n_features_in_: int
    feature_names_in_: np.ndarray
    # whether a table of numbers alone is taken as an array would be, and gaps are thought of when they come
    _numbers_stay: ClassVar[bool] = False

    @property
    def _is_encoded(self) -> bool:
        """Whether the model is one of encoded rows: features and gaps."""
        return self.table_ is not None and not (self._numbers_stay and self.table_.is_plain_)

    def _checked(self, x: Any, y: Any, *, reset: bool = True, **options: Any) -> tuple[np.ndarray, np.ndarray]:
        """Training rows as numbers: those of a frame encoded, an array as it is; more of them unless `reset`."""
        if options.get("y_numeric"):
            y = as_numbers(y)
            _check_known(y)
        if not reset:
            if self.table_ is None:
                x, y = validate_data(self, x, y, dtype=np.float64, reset=False, **options)
                return np.asarray(x), np.asarray(y)
            return self._with_targets(x, y, options)
        if not isinstance(x, Encoded) and not _is_table(x):
            self.table_ = None
            x, y = validate_data(self, x, y, dtype=np.float64, **options)
            return np.asarray(x), np.asarray(y)
        table = encoder_of(self.table)
        if not isinstance(x, Encoded):  # else a fold of a model, which keeps the encoder
            encoder: Any = TableEncoder(standardise=self.standardise) if table is None else table
            self.table_ = encoder if hasattr(encoder, "columns_") else TableEncoder(**encoder.get_params()).fit(x)
        encoder = self.table_
        assert encoder is not None
        self.n_features_in_ = encoder.n_features_in_
        if hasattr(encoder, "feature_names_in_"):
            self.feature_names_in_ = encoder.feature_names_in_
        else:
            vars(self).pop("feature_names_in_", None)
        return self._with_targets(x, y, options)

    def _with_targets(self, x: Any, y: Any, options: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        checks = {name: options[name] for name in ("multi_output", "y_numeric") if name in options}
        values, y = self._encoded(x), _check_y(y, **checks, estimator=self)
        check_consistent_length(values, y)
        return values, y

    def _new_checked(self, x: Any, **options: Any) -> np.ndarray:
        """Rows of another call, encoded in the same way; of as many columns as in `fit`, in any order."""
        if self.table_ is None:
            if _is_table(x) and not is_frame(x) and np.ndim(x) == 2 and _has_nan(x):
                raise ValueError(
                    "X has missing cells (NaN), and the model was fitted to an array of numbers alone. Fit it to a "
                    "frame of pandas or polars, with or without missing cells, and it takes them."
                )
            return np.asarray(validate_data(self, x, reset=False, dtype=np.float64, **options))
        return self._encoded(x)

    def _encoded(self, x: Any) -> np.ndarray:
        encoder = self.table_
        assert encoder is not None
        values = encoder.transform(x)
        if self._is_encoded:
            return values
        known = len(encoder.places_)
        features, gaps = values[:, :known] * encoder.factor_ + encoder.shift_, values[:, known:]
        return np.concatenate([features, gaps * encoder.factor_], axis=1) if np.any(gaps) else features

    def _fits_inputs(self, shape: tuple[int, ...]) -> bool:
        """Whether inputs of a file are those of the table, or of the array, that they are said to be."""
        if self.table_ is None:
            return shape[1] == self.n_features_in_
        groups = len(self.table_.groups_) if self._is_encoded else 0
        return shape[1:] == (len(self.table_.places_) + groups,) and self.n_features_in_ == self.table_.n_features_in_

    def _on_table(self, net: Any) -> Any:
        """A network or kernel of groups of features, as one of encoded rows."""
        if not self._is_encoded or not isinstance(net, Kernel):
            return net
        assert self.table_ is not None
        return for_table(net, self.table_.places_)

    def _relevances(self, x: np.ndarray) -> int:
        """How many numbers say what of the inputs matters."""
        return x.shape[1] if not self._is_encoded or self.table_ is None else len(self.table_.groups_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags


def _is_table(x: Any) -> bool:
    """Whether something is a frame, or an array with texts or missing cells."""
    if is_frame(x) or hasattr(x, "collect"):
        return True
    if hasattr(x, "tocsr"):  # a sparse matrix, of which scikit-learn says what it thinks
        return False
    try:
        array = np.asarray(x)
    except ValueError:  # rows of different lengths
        return False
    if array.ndim != 2 or array.size == 0:
        return False
    if array.dtype.kind in "OUT":
        return any(isinstance(cell, str) or cell is None or cell != cell for cell in array.ravel().tolist())
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


def _check_known(y: Any) -> None:
    """Say which targets are missing or infinite, in the words with which scikit-learn says that some are."""
    values = np.asarray(y)
    if values.dtype.kind != "f" or values.ndim == 0:
        return
    rows = np.flatnonzero(~np.all(np.isfinite(values.reshape(len(values), -1)), axis=1))
    if len(rows):
        has_nan = bool(np.isnan(values).any())
        what = "NaN" if has_nan else f"infinity or a value too large for dtype('{values.dtype}')"
        raise ValueError(f"Input y contains {what}. Leave out {rows_text(rows + 1)}, counted from one.")


def _has_nan(x: Any) -> bool:
    array = np.asarray(x)
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


def encoder_of(table: Any) -> TableEncoder | None:
    """The encoder that a parameter `table` is, or that scikit-learn's FrozenEstimator around it keeps."""
    encoder = table.estimator if isinstance(table, FrozenEstimator) else table
    if encoder is not None and not isinstance(encoder, TableEncoder):
        raise ValueError(f"table must be a TableEncoder, or None for its defaults; got {table!r}.")
    return encoder
