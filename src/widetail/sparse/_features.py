"""Whitened features of inputs: computed once by the tile engine, then everything is matrix products."""

import dataclasses
import hashlib
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg

from widetail.files import fingerprint, savable
from widetail.files.checkpoints import read_checkpoint, write_checkpoint
from widetail.kernels import Kernel
from widetail.numerics import CholeskyFactor
from widetail.progress import Progress, reporter

ROWS_AT_ONCE = 4096
SECONDS_PER_NOTE = 20.0  # between two notes in a file of how many rows there are
# Relative to the mean of the diagonal, for the rounding of features in either precision.
JITTER = {"float32": 1e-6, "float64": 1e-9}


@savable("sparse.Whitening")
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

    def __post_init__(self):
        if self.dtype not in JITTER:
            raise ValueError(f"dtype must be 'float32' or 'float64'; got {self.dtype!r}.")
        if self.factor.shape != (len(self.inducing),) * 2 or not np.all(np.diagonal(self.factor) > 0):
            raise ValueError(f"factor of shape {self.factor.shape} is not that of {len(self.inducing)} inducing inputs")

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
                inputs and rows that are there already are read, not computed, also the first ones of a run that was
                stopped; a file next to it, `path` with ".about" added, says whose they are and how many.
            progress: True for a bar on a terminal, or a function of (rows done, rows in all).
        """
        x = np.asarray(x, self.dtype)
        if path is None:
            kept = _Kept(np.empty((len(x), len(self.inducing)), self.dtype), np.empty(len(x), self.dtype))
        else:
            kept = _Kept.at(Path(path), fingerprint(self.factor, self.inducing, x), len(x), self)
        inducing = self.inducing.astype(self.dtype)
        report = reporter(progress, "features")
        for start in range(kept.done, len(x), ROWS_AT_ONCE):
            report(start, len(x))
            here = slice(start, min(start + ROWS_AT_ONCE, len(x)))
            cross = np.asarray(self.kernel.kernel(x[here], inducing, get="nngp").nngp, np.float64)
            whitened = scipy.linalg.solve_triangular(self.factor, cross.T, lower=True, check_finite=False).T
            diagonal = np.asarray(self.kernel.diagonal(x[here], get="nngp").nngp, np.float64)
            kept.put(here, whitened, np.maximum(diagonal - np.sum(whitened**2, axis=1), 0.0))
        report(len(x), len(x))
        return kept.features, kept.residual


@dataclasses.dataclass
class _Kept:
    """Features and residual variances, and how many rows of them there are; on disk where there is a path."""

    features: np.ndarray
    residual: np.ndarray
    done: int = 0
    about: Path | None = None
    identity: str = ""
    noted: float = dataclasses.field(default_factory=time.monotonic)
    digest: Any = dataclasses.field(default_factory=hashlib.sha256)  # of the rows that are there

    @classmethod
    def at(cls, path: Path, identity: str, rows: int, whitening: Whitening) -> "_Kept":
        """The features in a file, if they are of the same inputs and kernel; a new file otherwise."""
        about, residual = Path(f"{path}.about"), np.zeros(rows, whitening.dtype)
        shape = (rows, len(whitening.inducing))
        if path.exists() and about.exists():
            try:
                residual, facts = read_checkpoint(about, identity, residual)
                done = int(facts["rows"])
                features = np.lib.format.open_memmap(path, mode="r")  # refuses a file that is too short
                digest = hashlib.sha256()
                for start in range(0, done, ROWS_AT_ONCE):
                    digest.update(np.ascontiguousarray(features[start : min(start + ROWS_AT_ONCE, done)]).data)
                is_whole = digest.hexdigest() == facts["sha256"]
                if is_whole and features.shape == shape and features.dtype == whitening.dtype:
                    features = features if done == rows else np.lib.format.open_memmap(path, mode="r+")
                    return cls(features, np.array(residual), done, about, identity, digest=digest)
            except (ValueError, KeyError):  # of other rows, another kernel, or damaged
                pass
        about.unlink(missing_ok=True)
        features = np.lib.format.open_memmap(path, mode="w+", dtype=whitening.dtype, shape=shape)
        return cls(features, residual, 0, about, identity)

    def put(self, here: slice, features: np.ndarray, residual: np.ndarray) -> None:
        """The next rows."""
        self.features[here], self.residual[here], self.done = features, residual, here.stop
        if self.about is not None:
            self.digest.update(np.ascontiguousarray(self.features[here]).data)
        is_due = self.done == len(self.residual) or time.monotonic() - self.noted >= SECONDS_PER_NOTE
        if self.about is not None and isinstance(self.features, np.memmap) and is_due:
            self.features.flush()
            # last, when the rows are written
            write_checkpoint(
                self.about, self.identity, self.residual, {"rows": self.done, "sha256": self.digest.hexdigest()}
            )
            self.noted = time.monotonic()
