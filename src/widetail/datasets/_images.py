"""Labelled images by name."""

from collections.abc import Mapping

import numpy as np

from widetail.datasets._archives import IMAGE_ARCHIVES
from widetail.datasets._locate import read
from widetail.datasets._results import Images

IMAGE_NAMES: tuple[str, ...] = ("digits", *IMAGE_ARCHIVES)

_DIGITS = {i: str(i) for i in range(10)}
_CLASS_NAMES: Mapping[str, Mapping[int, str]] = {
    "mnist": _DIGITS,
    "svhn": _DIGITS,
    "fashion_mnist": dict(
        enumerate(
            (
                "T-shirt",
                "trouser",
                "pullover",
                "dress",
                "coat",
                "sandal",
                "shirt",
                "sneaker",
                "bag",
                "ankle boot",
            )
        )
    ),
    "kmnist": dict(enumerate(("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"))),
    "emnist_letters": {i: chr(ord("A") + i - 1) for i in range(1, 27)},
    "notmnist": dict(enumerate("ABCDEFGHIJ")),
    "cifar10": dict(
        enumerate(("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"))
    ),
}

# Rows of the training and test parts of the originals.
_ORIGINAL_ROWS: Mapping[str, tuple[int, int]] = {
    "mnist": (60000, 10000),
    "fashion_mnist": (60000, 10000),
    "kmnist": (60000, 10000),
    "emnist_letters": (124800, 20800),
    "cifar10": (50000, 10000),
    "svhn": (73257, 26032),
    "notmnist": (0, 10000),
}

_DIGITS_TEST_ROWS = 497


def load_images(name: str = "digits") -> Images:
    """Labelled images, uint8.

    Args:
        name: "digits" (8 x 8, 1300 for training, 497 for test) comes with scikit-learn and needs no
            download. The others: "mnist", "fashion_mnist", "kmnist", "emnist_letters", "notmnist"
            (28 x 28, grey); "cifar10", "svhn" (32 x 32, RGB). They are looked for in the folder that
            the environment variable WIDETAIL_DATA names, then in the user's cache, then downloaded.

    Worth knowing: a copy in a WIDETAIL_DATA folder may hold the first rows only (`complete` tells);
    the labels of "emnist_letters" are 1 to 26 and its test part is sorted by class; "notmnist" has no
    training part; the digit 0 of "svhn" has the label 0 (the original says 10).
    """
    if name == "digits":
        return _digits()
    if name not in IMAGE_ARCHIVES:
        raise ValueError(f"name must be one of {', '.join(IMAGE_NAMES)}; got {name!r}.")
    arrays = read(IMAGE_ARCHIVES[name])
    x_test, y_test = arrays["x_test"], arrays["y_test"]
    x_train = arrays.get("x_train", x_test[:0])
    y_train = arrays.get("y_train", y_test[:0])
    return Images(
        name=name,
        x_train=x_train,
        y_train=y_train,
        x_test=x_test,
        y_test=y_test,
        class_names=_CLASS_NAMES[name],
        complete=(y_train.size, y_test.size) == _ORIGINAL_ROWS[name],
    )


def _digits() -> Images:
    from sklearn.datasets import load_digits

    pixels, labels = map(np.asarray, load_digits(return_X_y=True))
    x = np.rint(pixels.reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)  # the source counts from 0 to 16
    y = labels.astype(np.uint8)
    # The rows come in runs of one writer; a fixed shuffle spreads every writer over both parts.
    order = np.random.default_rng(0).permutation(y.size)
    test, train = order[:_DIGITS_TEST_ROWS], order[_DIGITS_TEST_ROWS:]
    return Images(
        name="digits",
        x_train=x[train],
        y_train=y[train],
        x_test=x[test],
        y_test=y[test],
        class_names=_DIGITS,
        complete=True,
    )
