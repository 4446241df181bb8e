"""Whitened features of inputs: computed once by the tile engine, then everything is matrix products."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg

from widetail._progress import Progress, reporter
from widetail.finite._checkpoint import fingerprint, read_checkpoint, write_checkpoint
from widetail.kernels import Kernel
from widetail.process._cholesky import CholeskyFactor

ROWS_AT_ONCE = 4096
# Relative to the mean of the diagonal: what rounding of the features in either precision calls for.
JITTER = {"float32": 1e-6, "float64": 1e-9}


@dataclasses.dataclass(frozen=True, eq=False)
class Whitening:
    """Inducing inputs and the factor of their kernel matrix.

    Attributes:
        kernel: with unit readout variance.
        inducing: inputs Z, shape (M, ...).
        factor: lower Cholesky factor of $K_{ZZ}$ plus jitter, shape (M, M), float64.
        dtype: precision of the features, "float32" or "float64".
    """

    kernel: Kernel
    inducing: np.ndarray
    factor: np.ndarray
    dtype: str

    @classmethod
    def of(cls, kernel: Kernel, inducing: Any, dtype: str = "float64") -> "Whitening":
        """Factor the kernel matrix of the inducing inputs, in float64 whatever the features are in."""
        if dtype not in JITTER:
            raise ValueError(f"dtype must be 'float32' or 'float64'; got {dtype!r}.")
        inducing = np.asarray(inducing, np.float64)
        matrix = np.asarray(kernel.kernel(inducing, get="nngp").nngp)
        matrix = matrix + JITTER[dtype] * np.mean(np.diagonal(matrix)) * np.eye(len(matrix))
        return cls(kernel, inducing, np.tril(CholeskyFactor.of(matrix).lower), dtype)

    def features(
        self, x: Any, *, path: str | Path | None = None, progress: Progress = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """$L^{-1} k_{Zx}$ as rows, shape (n, M), and the residual variance $k_{xx} - |a_x|^2$, shape (n,).

        Args:
            x: inputs, rows first.
            path: a file to keep the features in; the result is then a memory map. Features of the same kernel, inducing
                inputs and rows that are there already are read, not computed; a file next to it, `path` with ".about"
                added, says whose they are.
            progress: True for a bar on a terminal, or a function of (rows done, rows in all).
        """
        x = np.asarray(x, self.dtype)
        shape = (len(x), len(self.inducing))
        about = None if path is None else Path(f"{path}.about")
        identity = "" if path is None else fingerprint(self.factor, self.inducing, x)
        if path is None or about is None:
            features = np.empty(shape, self.dtype)
        else:
            kept = _read(Path(path), about, identity)
            if kept is not None:
                return kept
            about.unlink(missing_ok=True)
            features = np.lib.format.open_memmap(path, mode="w+", dtype=self.dtype, shape=shape)
        inducing = self.inducing.astype(self.dtype)
        report = reporter(progress, "features")
        residual = np.empty(len(x))
        for start in range(0, len(x), ROWS_AT_ONCE):
            here = slice(start, start + ROWS_AT_ONCE)
            cross = np.asarray(self.kernel.kernel(x[here], inducing, get="nngp").nngp, np.float64)
            whitened = scipy.linalg.solve_triangular(self.factor, cross.T, lower=True, check_finite=False).T
            diagonal = np.asarray(self.kernel.diagonal(x[here], get="nngp").nngp, np.float64)
            residual[here] = np.maximum(diagonal - np.sum(whitened**2, axis=1), 0.0)
            features[here] = whitened
            report(min(start + ROWS_AT_ONCE, len(x)), len(x))
        residual = residual.astype(self.dtype)
        if about is not None and isinstance(features, np.memmap):
            features.flush()
            write_checkpoint(about, identity, residual, {})  # last: where it is, the features are whole
        return features, residual


def _read(path: Path, about: Path, identity: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Features and residual variances of a file, if they are those that are asked for."""
    if not path.exists() or not about.exists():
        return None
    features = np.lib.format.open_memmap(path, mode="r")
    try:
        residual, _ = read_checkpoint(about, identity, np.empty(len(features), features.dtype))
    except ValueError:  # of other rows, another kernel, or damaged
        return None
    return features, residual
