"""Regression tables by name."""

import numpy as np

from widetail.datasets._archives import UCI_ARCHIVES
from widetail.datasets._locate import read
from widetail.datasets._results import Regression
from widetail.datasets._splits import standard_splits
from widetail.datasets._tables import TABLE_COLUMNS

UCI_NAMES: tuple[str, ...] = tuple(UCI_ARCHIVES)
REGRESSION_NAMES: tuple[str, ...] = ("diabetes", *UCI_NAMES)


def load_regression(name: str = "diabetes") -> Regression:
    """A regression table in raw units, with 20 train/test splits.

    Args:
        name: "diabetes" comes with scikit-learn and needs no download. The others are the eight tables
            of the benchmark of Hernández-Lobato and Adams (2015), with its standard splits: "boston",
            "concrete", "energy", "kin8nm", "naval", "power", "wine_red", "yacht". They are looked for in
            the folder that the environment variable WIDETAIL_DATA names, then in the user's cache, then
            downloaded.

    Worth knowing: columns 8 and 11 of "naval" are constant; "concrete", "power" and "wine_red" hold
    duplicate rows, which can fall on both sides of a split; "wine_red" has integer targets.
    """
    if name == "diabetes":
        return _diabetes()
    if name not in UCI_ARCHIVES:
        raise ValueError(f"name must be one of {', '.join(REGRESSION_NAMES)}; got {name!r}.")
    arrays, columns = read(UCI_ARCHIVES[name]), TABLE_COLUMNS[name]
    return Regression(
        name=name,
        x=arrays["x"],
        y=arrays["y"],
        train_rows=arrays["train_idx"],
        test_rows=arrays["test_idx"],
        feature_names=columns.features,
        target_name=columns.target,
    )


def _diabetes() -> Regression:
    from sklearn.datasets import load_diabetes

    x, y = map(np.asarray, load_diabetes(return_X_y=True, scaled=False))
    train_rows, test_rows = standard_splits(y.size)
    columns = TABLE_COLUMNS["diabetes"]
    return Regression(
        name="diabetes",
        x=x,
        y=y,
        train_rows=train_rows,
        test_rows=test_rows,
        feature_names=columns.features,
        target_name=columns.target,
    )
