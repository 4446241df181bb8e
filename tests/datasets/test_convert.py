"""Files in the formats of the public sources, written byte by byte, come back as the arrays they hold."""

import gzip
import io
import tarfile
import zipfile

import numpy as np
import pytest
from scipy.io import savemat

from widetail.datasets import _convert


def idx(array):
    header = bytes((0, 0, 8, array.ndim)) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    return header + array.tobytes()


def pixels(*shape):
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content)
    return path


def test_idx_files(tmp_path):
    expected = {
        "x_train": pixels(5, 28, 28),
        "y_train": pixels(5),
        "x_test": pixels(3, 28, 28),
        "y_test": pixels(3),
    }
    paths = [write(tmp_path, key, gzip.compress(idx(value))) for key, value in expected.items()]
    arrays = _convert.mnist_like(paths)
    for key, value in expected.items():
        np.testing.assert_array_equal(arrays[key], value)
    np.testing.assert_array_equal(_convert.idx_test_part(paths[2:])["x_test"], expected["x_test"])


def test_what_is_not_idx_is_refused():
    with pytest.raises(ValueError, match="not an IDX file"):
        _convert.read_idx(b"<html>")


def test_emnist_letters_are_turned_upright(tmp_path):
    images, labels = pixels(4, 28, 28), np.arange(1, 5, dtype=np.uint8)
    with zipfile.ZipFile(tmp_path / "gzip.zip", "w") as bundle:
        for part in ("train", "test"):
            stem = f"gzip/emnist-letters-{part}"
            bundle.writestr(f"{stem}-images-idx3-ubyte.gz", gzip.compress(idx(images)))
            bundle.writestr(f"{stem}-labels-idx1-ubyte.gz", gzip.compress(idx(labels)))
    arrays = _convert.emnist_letters([tmp_path / "gzip.zip"])
    np.testing.assert_array_equal(arrays["x_test"][2], images[2].T)
    np.testing.assert_array_equal(arrays["y_train"], labels)


def test_cifar_records(tmp_path):
    batches = [(pixels(2, 32, 32, 3) // (i + 1), np.array([i, 9], np.uint8)) for i in range(6)]
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
    with tarfile.open(tmp_path / "cifar.tar.gz", "w:gz") as bundle:
        for name, (x, y) in zip(names, batches, strict=True):
            records = b"".join(
                bytes([label]) + b"".join(image[..., channel].tobytes() for channel in range(3))
                for image, label in zip(x, y, strict=True)
            )
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(records)
            bundle.addfile(member, io.BytesIO(records))
    arrays = _convert.cifar10([tmp_path / "cifar.tar.gz"])
    np.testing.assert_array_equal(arrays["x_train"], np.concatenate([x for x, _ in batches[:5]]))
    np.testing.assert_array_equal(arrays["y_train"], [0, 9, 1, 9, 2, 9, 3, 9, 4, 9])
    np.testing.assert_array_equal(arrays["x_test"], batches[5][0])


def test_svhn_label_ten_is_the_digit_zero(tmp_path):
    images = pixels(3, 32, 32, 3)
    for part in ("train", "test"):
        savemat(tmp_path / f"{part}.mat", {"X": images.transpose(1, 2, 3, 0), "y": np.array([[10], [1], [9]])})
    arrays = _convert.svhn([tmp_path / "train.mat", tmp_path / "test.mat"])
    np.testing.assert_array_equal(arrays["x_train"], images)
    np.testing.assert_array_equal(arrays["y_test"], [0, 1, 9])
    assert arrays["y_test"].dtype == np.uint8
