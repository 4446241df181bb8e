import dataclasses
import gzip
import hashlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

from widetail import datasets
from widetail.datasets._archives import IMAGE_ARCHIVES, UCI_ARCHIVES, Archive, Content, RawFile
from widetail.datasets._convert import content_digest, uci_table
from widetail.datasets._locate import locate, read

TABLE = np.random.default_rng(0).normal(size=(30, 4))


def table_text(table):
    return "\n".join(" ".join(repr(float(v)) for v in row) for row in table).encode()


@pytest.fixture
def archive(server, empty_machine):
    server.files["/data.txt"] = table_text(TABLE)
    return Archive(
        path="uci/small.npz",
        sha256="0" * 64,
        raw=(RawFile(f"{server.url}/data.txt", None),),
        convert=uci_table(3),
        contents={
            "x": Content(30, content_digest(TABLE[:, :3])),
            "y": Content(30, content_digest(TABLE[:, 3])),
        },
    )


def in_folder(archive, folder, monkeypatch):
    """Put a copy into `folder`, name that in the environment, return the archive with the sum of the copy."""
    path = folder / archive.path
    path.parent.mkdir(parents=True)
    np.savez_compressed(path, x=TABLE[:, :3], y=TABLE[:, 3])
    monkeypatch.setenv("WIDETAIL_DATA", str(folder))
    return dataclasses.replace(archive, sha256=hashlib.sha256(path.read_bytes()).hexdigest())


def test_download_is_converted_cached_and_cleaned_up(archive, server, empty_machine):
    arrays = read(archive)
    np.testing.assert_array_equal(arrays["x"], TABLE[:, :3])
    np.testing.assert_array_equal(arrays["y"], TABLE[:, 3])
    assert arrays["train_idx"].shape == (20, 27)
    assert locate(archive) == empty_machine / "uci/small.npz"
    read(archive)
    assert len(server.requests) == 1
    assert not [path for path in (empty_machine / "raw").rglob("*") if path.is_file()]


def test_the_data_folder_comes_first(archive, server, tmp_path, monkeypatch):
    archive = in_folder(archive, tmp_path / "folder", monkeypatch)
    assert locate(archive) == tmp_path / "folder" / "uci/small.npz"
    assert server.requests == []


def test_what_the_data_folder_lacks_is_looked_for_elsewhere(archive, empty_machine, tmp_path, monkeypatch):
    monkeypatch.setenv("WIDETAIL_DATA", str(tmp_path))
    assert locate(archive) == empty_machine / "uci/small.npz"


def test_a_changed_file_in_the_data_folder_is_an_error(archive, tmp_path, monkeypatch):
    in_folder(archive, tmp_path / "folder", monkeypatch)
    with pytest.raises(datasets.ChecksumError, match=r"small\.npz has sha256 .* expected 0000"):
        read(archive)


def test_a_data_folder_that_is_not_there_is_an_error(archive, tmp_path, monkeypatch):
    monkeypatch.setenv("WIDETAIL_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(datasets.DataUnavailableError, match=r"WIDETAIL_DATA names .*nowhere"):
        read(archive)


def test_an_archive_put_into_the_cache_by_hand_is_used(archive, server, empty_machine, tmp_path, monkeypatch):
    archive = in_folder(archive, tmp_path / "folder", monkeypatch)
    shutil.copytree(tmp_path / "folder", empty_machine)
    monkeypatch.delenv("WIDETAIL_DATA")
    assert locate(archive) == empty_machine / "uci/small.npz"
    assert server.requests == []


def test_a_damaged_cache_is_made_anew(archive, server, empty_machine):
    path = locate(archive)
    path.write_bytes(path.read_bytes()[:-10])
    np.testing.assert_array_equal(read(archive)["x"], TABLE[:, :3])
    assert len(server.requests) == 2


def test_changed_values_are_refused_and_removed(archive, server, empty_machine):
    server.files["/data.txt"] = table_text(TABLE + 1)
    with pytest.raises(datasets.ChecksumError, match=r"small.*'x', 30 rows, has the digest"):
        read(archive)
    server.files["/data.txt"] = b"<html>please log in</html>"
    with pytest.raises(datasets.ChecksumError, match="does not hold the expected data"):
        read(archive)
    server.files["/data.txt"] = table_text(TABLE)
    read(archive)


def test_offline_error_says_which_file_to_put_where(archive, server, empty_machine, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    unreachable = dataclasses.replace(archive, raw=(RawFile("http://127.0.0.1:9/data.txt", None),))
    with pytest.raises(datasets.DataUnavailableError) as caught:
        read(unreachable)
    message = str(caught.value)
    assert "WIDETAIL_DATA is not set" in message
    assert f"uci/small.npz (sha256 {archive.sha256})" in message
    assert str(empty_machine / "uci/small.npz") in message
    assert str(empty_machine / "raw/small/data.txt") in message
    assert "no published checksum" in message
    # The third way of the message works.
    (empty_machine / "raw/small/data.txt").write_bytes(server.files["/data.txt"])
    np.testing.assert_array_equal(read(unreachable)["y"], TABLE[:, 3])


def test_every_uci_table_survives_the_way_through_text(data_folder, server, empty_machine, monkeypatch):
    """The source's text tables, rebuilt from the checked archives, convert back to the same archives."""
    for name in ("boston", "naval", "yacht"):
        archive = UCI_ARCHIVES[name]
        with np.load(data_folder / archive.path) as stored:
            expected = dict(stored)
        server.files["/data.txt"] = table_text(np.column_stack([expected["x"], expected["y"], expected["y"]]))
        arrays = read(dataclasses.replace(archive, raw=(RawFile(f"{server.url}/data.txt", None),)))
        for key, value in expected.items():
            np.testing.assert_array_equal(arrays[key], value)


def test_idx_files_become_the_archive_of_the_data_folder(data_folder, server, empty_machine):
    archive = IMAGE_ARCHIVES["notmnist"]
    with np.load(data_folder / archive.path) as stored:
        expected = dict(stored)
    raw = []
    for key, value in expected.items():
        header = bytes((0, 0, 8, value.ndim)) + np.array(value.shape, ">u4").tobytes()
        server.files[f"/{key}.gz"] = gzip.compress(header + value.tobytes(), compresslevel=1)
        raw.append(RawFile(f"{server.url}/{key}.gz", None))
    arrays = read(dataclasses.replace(archive, raw=tuple(raw)))
    for key, value in expected.items():
        np.testing.assert_array_equal(arrays[key], value)


def test_import_stays_cheap():
    code = (
        "import sys, widetail.datasets;"
        "heavy = {'pooch', 'requests', 'matplotlib'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_pooch_the_error_names_the_extra(monkeypatch):
    monkeypatch.delenv("WIDETAIL_DATA", raising=False)
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r"widetail\[data\]"):
        datasets.load_regression("boston")
