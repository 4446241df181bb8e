"""Saving and loading fitted estimators: one file of arrays and JSON with a checksum. No pickle, no code, no paths."""

import abc
import typing
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone

from widetail.estimators._frames import encoder_of
from widetail.estimators._scaling import Scaling
from widetail.estimators._version_1 import upgraded
from widetail.files import (
    damage_named,
    fields_not_saved,
    fits,
    from_config,
    parse_json,
    read_sealed,
    to_config,
    write_sealed,
)

VERSION = 2
MODEL = "widetail_model"  # the note that holds the model, from version 2 on
MODEL_1 = "widetail"  # the same in version 1, whose files have no checksum
OPTIONAL = ("feature_names_in_", "table_", "target_", "first_rows_", "tails_")  # many files lack them
PATHS = ("cache", "checkpoint")  # parameters that are paths of the machine that fitted


class SavedEstimator(BaseEstimator, abc.ABC):
    """An estimator that can be written to a file: its parameters, and what it learned; not for direct use.

    A subclass lists the attributes that it keeps in `_kept`, beside those of its bases. What is not kept as it is goes
    through `_learned` and `_restore`.
    """

    n_features_in_: int
    feature_names_in_: np.ndarray
    x_scaling_: Scaling
    _kept: ClassVar[tuple[str, ...]] = ("n_features_in_", "x_scaling_")

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file, without pickles; `wt.load` reads it."""
        save(self, path)

    def saved_fields(self) -> dict[str, Any]:
        """What a file holds: parameters without paths, and what was learned."""
        without = fields_not_saved(type(self))
        parameters = {name: value for name, value in self.get_params(deep=False).items() if name not in without}
        if parameters.get("table") is not None:
            # what it learned is in `table_`
            parameters["table"] = clone(encoder_of(parameters["table"]))
        learned = self._learned() | {name: getattr(self, name) for name in self._names_kept()}
        for name in OPTIONAL:
            if getattr(self, name, None) is not None:
                learned[name] = getattr(self, name)
        return {"parameters": parameters, "learned": learned}

    @classmethod
    def from_saved(cls, fields: dict[str, Any]) -> "SavedEstimator":
        """The estimator whose `saved_fields` these are, every value checked."""
        parameters, learned = fields["parameters"], fields["learned"]
        paths = set(parameters) & set(fields_not_saved(cls))
        model = cls(**{name: value for name, value in parameters.items() if name not in paths})
        model._check_parameters()
        annotations = typing.get_type_hints(cls)
        for name in (*cls._names_kept(), *OPTIONAL):
            if name in OPTIONAL and name not in learned:
                continue
            if name not in annotations:
                raise ValueError(f"{name} is not of a {cls.__name__}")
            value = learned.pop(name)
            if not fits(value, annotations[name]):
                raise ValueError(f"{name} is {value!r}")
            setattr(model, name, value)
        names = getattr(model, "feature_names_in_", None)
        if names is not None and names.shape != (model.n_features_in_,):
            raise ValueError(f"feature_names_in_ are {names.shape}, for {model.n_features_in_} features")
        model._restore(learned)
        return model

    @classmethod
    def _names_kept(cls) -> list[str]:
        return [name for kind in reversed(cls.__mro__) for name in vars(kind).get("_kept", ())]

    def _check_parameters(self) -> None:
        """Raise a ValueError for parameters that cannot be fitted with."""

    @abc.abstractmethod
    def _learned(self) -> dict[str, Any]:
        """What is written beside the attributes of `_kept`; a NotFittedError before `fit`."""

    @abc.abstractmethod
    def _restore(self, learned: dict[str, Any]) -> None:
        """Set what `_learned` gave, and what follows from it."""


class Loaded(NamedTuple):
    """A model, and what was written beside it."""

    model: Any
    metadata: dict[str, Any]


def save(model: SavedEstimator, path: str | Path, metadata: dict[str, Any] | None = None) -> None:
    """Write a fitted estimator to `path`, whole or not at all.

    The file of an exact estimator holds the training data in standard units and the learned numbers; loading factors
    the covariance matrix again, which keeps files small and results the same. That of an ensemble holds the parameters
    of its networks, that of a sparse estimator its inducing inputs and their posterior.

    Args:
        model: any estimator of this room.
        path: of the file.
        metadata: JSON values by name to write beside the model, such as what is known of the table that it was fitted
            to; `load_with_metadata` gives them back.
    """
    arrays: dict[str, np.ndarray] = {}
    described = {"version": VERSION, "model": to_config(model, arrays)}
    write_sealed(Path(path), arrays, {MODEL: described} | (metadata or {}))


def load(path: str | Path) -> Any:
    """Read an estimator that `save` wrote.

    Parameters that are paths (`cache`, `checkpoint`) are not in the file: set them anew where they are wanted.

    Raises:
        ValueError: a bit of the file has changed, it is truncated, of another program or a later version, or not what
            it claims to be.

    Example:
        >>> import tempfile, pathlib, numpy as np, widetail as wt
        >>> x = np.linspace(0.0, 1.0, 12)[:, None]
        >>> model = wt.ScaleMixtureRegressor(net=wt.nn.mlp(1, "erf")).fit(x, x[:, 0])
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.widetail"
        >>> model.save(path)
        >>> bool(np.array_equal(wt.load(path).predict(x), model.predict(x)))
        True
    """
    return load_with_metadata(path).model


def load_with_metadata(path: str | Path) -> Loaded:
    """Read an estimator, and the metadata that `save` was given."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {str(path)!r}.")
    with damage_named(path, "widetail model"):
        arrays, notes, is_sealed = read_sealed(path)
        values = {name: parse_json(note) for name, note in notes.items() if name != "sha256"}
        if MODEL in values:
            if not is_sealed:
                raise ValueError("it has no checksum")
            described = values.pop(MODEL)
            if described["version"] != VERSION:
                raise ValueError(f"its format is version {described['version']!r}, this widetail reads 1 to {VERSION}")
            config = described["model"]
        else:
            config = upgraded(values.pop(MODEL_1), arrays)
        return Loaded(from_config(config, arrays, expected=SavedEstimator), values)
