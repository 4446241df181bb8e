"""Which scores tell rows of a class that a model has never seen: classes of training images are hidden in turn."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
from scipy import ndimage
from scipy.special import xlogy

from benchmarks._registry import Result, benchmark
from widetail import metrics
from widetail.estimators import ImageTreatment
from widetail.experiments.images._shifts import training_images
from widetail.experiments.sparse import Plain, SparseConfig, latent, plain_model
from widetail.experiments.unseen import drawn
from widetail.sparse import CachedRows, Variational, class_probabilities, train
from widetail.sparse.predictions._remote import Known, directions

SIZE: dict[str, Any] = {"rows": 10_000, "inducing": 200}
ROWS_TO_SCORE = 2048
RIDGE = 1e-3
DOUBT = ("entropy", "remoteness", "residual share")  # what `sparse.fit_doubt` uses
MORE = ("entropy, t with 4 degrees", "largest mean", "Mahalanobis", "Mahalanobis, relative", "Mahalanobis by class")
VIEWS = ("treated pixels", "roots of pixels", "oriented gradients")
OF_VIEWS = tuple(f"{view}, {score}" for view in VIEWS for score in ("Mahalanobis", "fifth nearest row, whitened"))
COMBINATIONS = (DOUBT, *((*DOUBT, name) for name in (*MORE, *OF_VIEWS)), (*DOUBT, *MORE), DOUBT[::2])
COMPONENTS, RIDGE_OF_VIEWS = 120, 1e-2
DIRECTIONS, CELL = 8, 4  # of gradients, and pixels between the places where they are pooled


@benchmark("hidden-fashion", "AUROC of scores of novelty, Fashion-MNIST: each of ten training classes hidden in turn")
def hidden_fashion() -> Iterator[Result]:
    yield from _scores("fashion_mnist")


@benchmark("hidden-mnist", "the same of MNIST")
def hidden_mnist() -> Iterator[Result]:
    yield from _scores("mnist")


def _scores(images: str) -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder:
        config = SparseConfig(**SIZE)
        fitted = plain_model(config, images, "clean", 0, Path(folder))
        pixels, y = training_images(config, images, "clean", 0)
        order = np.random.default_rng(0).permutation(len(y))  # that of the rows of the model
        assert np.array_equal(y[order], fitted.labels)
        views = _views(pixels[order] / 255.0)
        parts = [_hidden(fitted, views, label) for label in range(10)]
    for name in parts[0][0]:
        each = [_auroc(scores[name], is_hidden) for scores, is_hidden in parts]
        yield {"case": name, "mean AUROC": f"{np.mean(each):.3f}"} | {
            f"class {label}": f"{value:.3f}" for label, value in enumerate(each)
        }
    for names in COMBINATIONS:
        each = [_combined(parts, names, label) for label in range(len(parts))]
        yield {"case": f"together: {'; '.join(names)}", "mean AUROC": f"{np.mean(each):.3f}"}


def _auroc(score: np.ndarray, is_hidden: np.ndarray) -> float:
    return metrics.auroc(score[~is_hidden], score[is_hidden])


def _hidden(fitted: Plain, views: dict[str, np.ndarray], label: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Scores of held-out rows under a model without the class, and which of them are of that class."""
    model, rows, y = fitted.model, fitted.rows, fitted.labels
    features, residual = rows.features.astype(np.float64), rows.residual.astype(np.float64)
    is_kept = np.argmax(np.asarray(model.latent(model.whitening.inducing)[0]), axis=1) != label
    factor = model.whitening.factor
    own_factor = np.linalg.cholesky((factor @ factor.T)[np.ix_(is_kept, is_kept)])
    own = scipy.linalg.solve_triangular(own_factor, (features @ factor.T)[:, is_kept].T, lower=True).T
    residual = np.maximum(np.sum(features**2, axis=1) + residual - np.sum(own**2, axis=1), 0.0)
    count = len(y) - ROWS_TO_SCORE
    chosen = np.flatnonzero(y[:count] != label)
    share = model.residual_share
    some = CachedRows.of(own[chosen].astype(np.float32), residual[chosen] * share, y[chosen])
    start = Variational.at_prior(len(model.q.mean), own.shape[1], model.q.law)
    q = train(some, model.likelihood, start, tolerance=1e-3).q
    new, new_residual = own[count:], residual[count:]
    mean, variance = latent(new, new_residual * share, q)
    variance = np.maximum(variance, 1e-12)
    p = class_probabilities(mean, variance, q.law, draws=64).probabilities
    seen = np.arange(len(q.mean)) != label
    spread = np.sqrt(variance / q.law.mean_precision)
    labels = np.zeros(len(new), np.int64)
    near, at = directions(own[chosen], residual[chosen]), directions(new, new_residual)
    products = at @ near.T
    known = Known(near, y[chosen])
    fewer = Known(near[: len(near) // 2], y[chosen][: len(near) // 2])
    found = {
        "entropy": _entropy(p),
        "entropy, t with 4 degrees": _entropy(drawn(mean[:, seen], spread[:, seen], labels, 4.0).probabilities),
        "largest mean": -mean[:, seen].max(axis=1),
        "remoteness": known.remoteness(at),
        "remoteness, half of the rows": fewer.remoteness(at),
        "fifth nearest row of any class": np.log(np.maximum(1 - np.partition(products, -5, axis=1)[:, -5], 1e-6)),
        "residual share": np.log(np.maximum(new_residual / np.sum(new**2, axis=1), 1e-9)),
        **_mahalanobis(near.astype(np.float64), y[chosen], at.astype(np.float64)),
    }
    for name, view in views.items():
        scores = _whitened(view[chosen], y[chosen], view[count:])
        found |= {f"{name}, {score}": value for score, value in scores.items()}
    return found, y[count:] == label


def _entropy(p: np.ndarray) -> np.ndarray:
    return np.log(-np.sum(xlogy(p, p), axis=1) + 1e-3)


def _mahalanobis(rows: np.ndarray, y: np.ndarray, new: np.ndarray) -> dict[str, np.ndarray]:
    """Squared distances from the nearest class, with one covariance, minus that of all rows, with one for each."""
    classes = np.unique(y)
    means = np.stack([rows[y == label].mean(axis=0) for label in classes])
    shared = _covariance(rows - means[np.searchsorted(classes, y)])
    nearest = np.min([_squares(shared, new - mean) for mean in means], axis=0)
    of_all = _squares(_covariance(rows - rows.mean(axis=0)), new - rows.mean(axis=0))
    by_class = []
    for label, mean in zip(classes, means, strict=True):
        own = 0.5 * (_covariance(rows[y == label] - mean) + shared)
        by_class.append(_squares(own, new - mean) + np.linalg.slogdet(own)[1])
    return {
        "Mahalanobis": np.log(nearest),
        "Mahalanobis, relative": nearest - of_all,
        "Mahalanobis by class": np.min(by_class, axis=0),
    }


def _views(x: np.ndarray) -> dict[str, np.ndarray]:
    """What else can be made of grey images in [0, 1], a vector of each."""
    across, along = np.gradient(x, axis=(1, 2))
    place = np.arctan2(across, along) % np.pi / np.pi * DIRECTIONS
    pooled = []
    for number in range(DIRECTIONS):
        away = np.abs((place - number + DIRECTIONS / 2) % DIRECTIONS - DIRECTIONS / 2)
        some = ndimage.gaussian_filter(np.hypot(across, along) * np.maximum(1 - away, 0), (0, CELL / 2, CELL / 2))
        pooled.append(some[:, CELL // 2 :: CELL, CELL // 2 :: CELL])
    gradients = np.stack(pooled, axis=-1)
    strength = np.sum(gradients**2, axis=-1, keepdims=True)
    found = ImageTreatment().apply(x), np.sqrt(x), gradients / np.sqrt(strength + RIDGE_OF_VIEWS * np.mean(strength))
    return {name: view.reshape(len(x), -1) for name, view in zip(VIEWS, found, strict=True)}


def _whitened(rows: np.ndarray, y: np.ndarray, new: np.ndarray) -> dict[str, np.ndarray]:
    """Distances in coordinates in which classes have the covariance 1.

    They are principal components of known rows alone: those of hidden rows, too, would know what the hidden class is.
    """
    centre = rows.mean(axis=0)
    axes = np.linalg.eigh(_covariance(rows - centre))[1][:, ::-1][:, :COMPONENTS]
    rows, new = (rows - centre) @ axes, (new - centre) @ axes
    classes, number = np.unique(y, return_inverse=True)
    means = np.stack([rows[y == label].mean(axis=0) for label in classes])
    within = np.cov((rows - means[number]).T, bias=True)
    within += RIDGE_OF_VIEWS * np.trace(within) / len(within) * np.eye(len(within))
    root = np.linalg.cholesky(np.linalg.inv(within))
    rows, new, means = rows @ root, new @ root, means @ root
    squares = np.sum(new**2, axis=1)[:, None] + np.sum(rows**2, axis=1) - 2 * new @ rows.T
    return {
        "Mahalanobis": np.log(np.min(np.sum((new[:, None] - means) ** 2, axis=2), axis=1)),
        "fifth nearest row, whitened": np.log(np.partition(squares, 4, axis=1)[:, 4]),
    }


def _covariance(centred: np.ndarray) -> np.ndarray:
    matrix = centred.T @ centred / len(centred)
    return matrix + RIDGE * np.trace(matrix) / len(matrix) * np.eye(len(matrix))


def _squares(covariance: np.ndarray, differences: np.ndarray) -> np.ndarray:
    factor = np.linalg.cholesky(covariance)
    return np.sum(scipy.linalg.solve_triangular(factor, differences.T, lower=True) ** 2, axis=0)


def _combined(parts: list[tuple[dict[str, np.ndarray], np.ndarray]], names: tuple[str, ...], label: int) -> float:
    """AUROC for one hidden class of a logistic regression on the other ones; more of a score is never less doubt."""
    standard = []
    for scores, is_hidden in parts:
        columns = np.column_stack([scores[name] for name in names])
        known = columns[~is_hidden]
        standard.append((columns - known.mean(axis=0)) / (known.std(axis=0) + 1e-12))
    others = [number for number in range(len(parts)) if number != label]
    design = np.concatenate([standard[number] for number in others])
    sign = np.where(np.concatenate([parts[number][1] for number in others]), 1.0, -1.0)

    def loss(w: np.ndarray) -> float:
        return float(np.mean(np.logaddexp(0.0, -sign * (design @ w[:-1] + w[-1]))) + 0.5 * RIDGE * w @ w)

    limits = [(0.0, None)] * len(names) + [(None, None)]
    found: Any = scipy.optimize.minimize(loss, np.zeros(len(names) + 1), method="L-BFGS-B", bounds=limits)
    return _auroc(standard[label] @ found.x[:-1], parts[label][1])
