"""Where to put inducing inputs."""

from typing import Any, Literal, get_args

import numpy as np

from widetail.kernels import Kernel

Selection = Literal["greedy", "kmeans", "balanced"]

CANDIDATES_PER_POINT = 5


def choose_inducing(
    kernel: Kernel, x: Any, count: int, method: Selection = "greedy", *, labels: Any = None, seed: int = 0
) -> np.ndarray:
    """Inducing inputs for rows `x`, at most as many as there are rows.

    Args:
        kernel: for "greedy".
        x: inputs, rows first.
        count: how many.
        method: "greedy" takes the row whose variance given those taken before is largest (pivoted Cholesky) among a
            random five times as many; "kmeans" the centres of clusters of rows (in each class, where there are labels);
            "balanced" random rows, as many of each class.
        labels: class numbers, shape (n,); all rows are one class without them.
        seed: of the random choices.

    Returns:
        Inputs, shape (min(count, n), ...).
    """
    x = np.asarray(x)
    if method not in get_args(Selection):
        raise ValueError(f"inducing must be chosen by 'greedy', 'kmeans' or 'balanced'; got {method!r}.")
    rng = np.random.default_rng(seed)
    count = min(count, len(x))
    labels = np.zeros(len(x), np.int64) if labels is None else np.asarray(labels)
    if method == "greedy":
        candidates = _balanced(labels, min(CANDIDATES_PER_POINT * count, len(x)), rng)
        matrix = np.asarray(kernel.kernel(x[candidates], get="nngp").nngp, np.float64)
        return x[candidates[pivots(matrix, count)]]
    if method == "kmeans":
        return _centres(x, labels, count, seed)
    return x[_balanced(labels, count, rng)]


def pivots(matrix: np.ndarray, count: int) -> np.ndarray:
    """The first pivots of a Cholesky factorisation: each has the largest variance given those before."""
    variance = np.diagonal(matrix).copy()
    columns = np.zeros((count, len(matrix)))
    chosen = np.zeros(count, np.int64)
    for k in range(count):
        pivot = int(np.argmax(variance))
        if variance[pivot] <= 1e-10 * matrix[pivot, pivot]:  # the others add nothing
            return chosen[:k] if k else chosen[:1]
        chosen[k] = pivot
        columns[k] = (matrix[pivot] - columns[:k, pivot] @ columns[:k]) / np.sqrt(variance[pivot])
        variance = np.maximum(variance - columns[k] ** 2, 0.0)
        variance[chosen[: k + 1]] = 0.0
    return chosen


def _balanced(labels: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Random rows, as many of each class as can be, sorted."""
    order = rng.permutation(len(labels))
    rank = np.empty(len(labels), np.int64)  # a row's place among those of its class
    for label in np.unique(labels):
        own = order[labels[order] == label]
        rank[own] = np.arange(len(own))
    return np.sort(order[np.argsort(rank[order], kind="stable")[:count]])


def _centres(x: np.ndarray, labels: np.ndarray, count: int, seed: int) -> np.ndarray:
    from sklearn.cluster import MiniBatchKMeans  # takes a second to import, and is used here only

    flat = x.reshape(len(x), -1)
    classes, sizes = np.unique(labels, return_counts=True)
    shares = np.minimum(sizes, np.diff(np.linspace(0, count, len(classes) + 1).astype(int)))
    parts = []
    for label, share in zip(classes, shares, strict=True):
        if share:
            model = MiniBatchKMeans(int(share), random_state=seed, n_init="auto", batch_size=2048)
            parts.append(model.fit(flat[labels == label]).cluster_centers_)
    return np.concatenate(parts).reshape(-1, *x.shape[1:]).astype(x.dtype)
