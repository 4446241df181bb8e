"""Inputs of estimators that take tables, images and sequences: their shape and their units."""

from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from widetail.estimators._frames import TableInputs
from widetail.estimators._scaling import Scaling
from widetail.programs import Program


def per_feature(x: np.ndarray, counts: np.ndarray | None, net: Any) -> Scaling:
    """One shift and factor per feature, for all positions of a sequence or pixels of an image alike."""
    positions = x[0].size // x.shape[-1]
    weights = None if counts is None else np.repeat(counts, positions)
    scaling = Scaling.of(x.reshape(-1, x.shape[-1]), weights)
    if has_flag(net):
        scaling.shift[-1], scaling.factor[-1] = 0.0, 1.0
    return scaling


def has_flag(net: Any) -> bool:
    """Whether the last feature of an input says where it has something: of masked programs, and behind `nn.Masked`."""
    return bool(getattr(net, "masked", False))


def check_weights(sample_weight: Any, x: np.ndarray) -> np.ndarray:
    """Weights as counts: a row of weight w counts as w equal observations."""
    weights = _check_sample_weight(sample_weight, x, dtype=np.float64)
    if np.any(weights < 0):
        raise ValueError(f"sample_weight must not be negative; the smallest is {weights.min()}.")
    if not weights.any():  # scikit-learn says so itself from 1.9 on
        raise ValueError("sample_weight must have at least one non-zero weight; all of them are 0.")
    return weights


def with_weights(x: np.ndarray, y: np.ndarray, sample_weight: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of positive weight, and their weights."""
    weights = check_weights(sample_weight, x)
    is_there = weights > 0
    return (x, y, weights) if np.all(is_there) else (x[is_there], y[is_there], weights[is_there])


def check_input_shape(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Refuse an array of this shape where inputs of the shape `expected` belong."""
    if shape[1:] == expected:
        return
    is_one = expected in (shape, (*shape, 1))
    hint = " Of one input alone give X[None]." if is_one else ""
    raise ValueError(f"X must hold inputs of shape {expected}, as in fit; got {shape[1:]}.{hint}")


class StructuredInputs(TableInputs):
    """Remembers shape and scaling of the first inputs, and brings later ones into the same form.

    Grey images (n, height, width) get their axis of channels, and all pixels one shift and factor. Sequences of a
    program (n, time, features), and inputs with a flag, stay as they are, with a shift and a factor per feature, as
    tables have them.
    """

    net: Any
    standardise: bool
    x_scaling_: Scaling
    input_shape_: tuple[int, ...]
    _fitted_attribute: ClassVar[str]
    _input_dtype: ClassVar[Any] = np.float64

    def _first_inputs(self, x: np.ndarray, counts: np.ndarray | None = None) -> np.ndarray:
        """Remember shape and scaling of the inputs; the inputs in standard units."""
        x = self._with_channels(x)
        self.input_shape_ = x.shape[1:]
        if self._is_encoded:
            self.x_scaling_ = Scaling.identity(x.shape[-1])
        elif x.ndim == 2 or not self._takes_images:
            self.x_scaling_ = per_feature(x, counts, self.net) if self.standardise else Scaling.identity(x.shape[-1])
        else:
            self.x_scaling_ = self._pixel_scaling(x, counts) if self.standardise else Scaling.identity(1)
        return self._in_standard_units(x)

    def _pixel_scaling(self, x: np.ndarray, counts: np.ndarray | None) -> Scaling:
        """One shift and factor for all pixels of images (n, height, width, channels)."""
        return Scaling.of(x.reshape(-1, 1), None if counts is None else np.repeat(counts, x[0].size))

    def _more_inputs(self, x: Any) -> np.ndarray:
        """Inputs of another call, checked against the first ones, in standard units."""
        x = self._with_channels(np.asarray(x))
        if x.shape[1:] != self.input_shape_ and self.table_ is not None:
            raise ValueError(
                "X has missing cells, and the rows of fit had none: networks of numbers alone cannot take them."
            )
        check_input_shape(x.shape, self.input_shape_)
        return self._in_standard_units(x)

    def _new_inputs(self, x: Any) -> np.ndarray:
        """Inputs to predict at, in standard units."""
        check_is_fitted(self, self._fitted_attribute)
        if len(self.input_shape_) > 1:  # scikit-learn would call the height of images their number of features
            check_input_shape(self._with_channels(np.asarray(x)).shape, self.input_shape_)
        return self._more_inputs(self._new_checked(x, allow_nd=True))

    def _with_channels(self, x: np.ndarray) -> np.ndarray:
        return x[..., None] if x.ndim == 3 and self._takes_images else x

    @property
    def _takes_images(self) -> bool:
        """Whether what is no table is pictures, whose features are all pixels."""
        return not isinstance(self.net, Program) and not has_flag(self.net)

    def _in_standard_units(self, x: np.ndarray) -> np.ndarray:
        return self.x_scaling_.apply(x).astype(self._input_dtype, copy=False)
