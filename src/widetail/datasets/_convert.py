"""From the files of the public sources to the arrays of our archives."""

import gzip
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from widetail.datasets._splits import standard_splits

Arrays = dict[str, np.ndarray]
Convert = Callable[[Sequence[Path]], Arrays]

_IDX_UINT8 = 0x08


def content_digest(array: np.ndarray) -> str:
    """sha256 of the values in row-major order; floats as float32, whatever the last bit of a parser."""
    is_float = np.issubdtype(array.dtype, np.floating)
    return hashlib.sha256(array.astype(np.float32 if is_float else array.dtype).tobytes()).hexdigest()


def read_idx(content: bytes) -> np.ndarray:
    """Array of bytes in the IDX format of MNIST: two zeros, type, rank, big-endian sizes, values."""
    if len(content) < 4 or content[:3] != bytes((0, 0, _IDX_UINT8)):
        raise ValueError(f"not an IDX file of unsigned bytes: it starts with {content[:4].hex()!r}.")
    rank = content[3]
    shape = tuple(np.frombuffer(content, ">u4", count=rank, offset=4).tolist())
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)


def mnist_like(paths: Sequence[Path]) -> Arrays:
    """Four gzipped IDX files: training images and labels, test images and labels."""
    keys = ("x_train", "y_train", "x_test", "y_test")
    return {key: read_idx(gzip.decompress(path.read_bytes())) for key, path in zip(keys, paths, strict=True)}


def idx_test_part(paths: Sequence[Path]) -> Arrays:
    """Two gzipped IDX files: test images and labels."""
    return {
        key: read_idx(gzip.decompress(path.read_bytes())) for key, path in zip(("x_test", "y_test"), paths, strict=True)
    }


def emnist_letters(paths: Sequence[Path]) -> Arrays:
    """The letters of NIST's zip of all EMNIST sets, turned upright (the originals are transposed)."""
    (path,) = paths
    arrays = {}
    with zipfile.ZipFile(path) as bundle:
        for part in ("train", "test"):
            stem = f"gzip/emnist-letters-{part}"
            images = read_idx(gzip.decompress(bundle.read(f"{stem}-images-idx3-ubyte.gz")))
            arrays[f"x_{part}"] = np.ascontiguousarray(images.transpose(0, 2, 1))
            arrays[f"y_{part}"] = read_idx(gzip.decompress(bundle.read(f"{stem}-labels-idx1-ubyte.gz")))
    return arrays


def cifar10(paths: Sequence[Path]) -> Arrays:
    """The binary version: records of one label and the red, green and blue planes, in six files of a tar."""
    (path,) = paths
    with tarfile.open(path) as bundle:
        train = [_cifar_records(bundle, f"data_batch_{i}.bin") for i in range(1, 6)]
        test = _cifar_records(bundle, "test_batch.bin")
    return {
        "x_train": np.concatenate([x for x, _ in train]),
        "y_train": np.concatenate([y for _, y in train]),
        "x_test": test[0],
        "y_test": test[1],
    }


def _cifar_records(bundle: tarfile.TarFile, name: str) -> tuple[np.ndarray, np.ndarray]:
    member = bundle.extractfile(f"cifar-10-batches-bin/{name}")
    if member is None:
        raise ValueError(f"cifar-10-batches-bin/{name} is not a file of the archive.")
    records = np.frombuffer(member.read(), np.uint8).reshape(-1, 1 + 3 * 32 * 32)
    planes = records[:, 1:].reshape(-1, 3, 32, 32)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), records[:, 0].copy()


def svhn(paths: Sequence[Path]) -> Arrays:
    """Two MATLAB files of cropped digits; the label 10 of the original is the digit 0."""
    from scipy.io import loadmat

    arrays = {}
    for part, path in zip(("train", "test"), paths, strict=True):
        content = loadmat(io.BytesIO(path.read_bytes()))
        arrays[f"x_{part}"] = np.ascontiguousarray(content["X"].transpose(3, 0, 1, 2))
        arrays[f"y_{part}"] = (content["y"].ravel() % 10).astype(np.uint8)
    return arrays


def uci_table(n_features: int) -> Convert:
    """A text table whose first columns are the inputs and whose next column is the target."""

    def convert(paths: Sequence[Path]) -> Arrays:
        (path,) = paths
        table = np.loadtxt(path, dtype=np.float64, ndmin=2)
        train_rows, test_rows = standard_splits(table.shape[0])
        return {
            "x": table[:, :n_features],
            "y": table[:, n_features],
            "train_idx": train_rows,
            "test_idx": test_rows,
        }

    return convert
