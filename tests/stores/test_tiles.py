"""Stores without a cluster: manifests, checksums, locks, damage."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import zarr

from widetail.stores import Location, RunLock, StoreBusyError, StoreDamagedError, StoreMismatchError, TileStore, _lock


def silent(done, total):
    pass


def numbers(here, there):
    rows, columns = np.arange(here.start, here.stop), np.arange(there.start, there.stop)
    return np.minimum(rows[:, None], columns) + rows[:, None] * columns + 1.0


def store_at(path, **options):
    if "://" in str(path):
        options["options"] = {"auto_mkdir": True}  # object stores have no folders; fsspec's local files do
    return TileStore(path, 25, 10, "float64", options.pop("facts", {"network": "a"}), **options)


@pytest.mark.parametrize("name", ["k.zarr", "k.npy", "file://{}/k.zarr"])
def test_only_what_is_missing_or_damaged_is_computed_again(tmp_path, name):
    location = name.format(tmp_path) if "://" in name else tmp_path / name
    with store_at(location) as store:
        assert store.fill_here(numbers, silent) == 6
    with store_at(location) as store:
        assert store.check_here(silent) == 0
        assert store.missing == []
        expected = numbers(slice(0, 25), slice(0, 25))
        np.testing.assert_array_equal(store.tiles.matrix.read(slice(0, 25), slice(0, 25)), expected)
        if name.endswith("npy"):
            with (tmp_path / "k.npy").open("r+b") as file:
                file.seek(-8 * 25 * 25 + 8 * 24, os.SEEK_END)  # row 0, column 24: the tile (0, 2)
                file.write(b"\1")
            damaged = {(0, 2)}
        else:
            chunks = tmp_path / "k.zarr" / "c"
            with (chunks / "2" / "0").open("r+b") as file:  # the mirror image of (0, 2)
                file.seek(100)
                byte = file.read(1)[0]
                file.seek(100)
                file.write(bytes([byte ^ 16]))
            os.truncate(chunks / "1" / "1", 300)
            (chunks / "1" / "2").unlink()
            damaged = {(0, 2), (1, 1), (1, 2)}
    with store_at(location) as store:
        assert store.check_here(silent) == len(damaged)
        assert set(store.missing) == damaged
        assert store.fill_here(numbers, silent) == len(damaged)
        np.testing.assert_array_equal(store.tiles.matrix.read(slice(0, 25), slice(0, 25)), expected)


def test_an_entry_that_was_cut_does_not_count(tmp_path):
    with store_at(tmp_path / "k.zarr") as store:
        store.fill_here(numbers, silent)
    (tmp_path / "k.zarr.tiles" / "tile-0-1").write_text('{"crc')
    with store_at(tmp_path / "k.zarr") as store:
        assert store.missing == [(0, 1)]


def _facts(path, text):
    path.with_name(f"{path.name}.tiles").joinpath("facts.json").write_text(text)


def _array(path, change):
    if path.suffix == ".npy":
        path.write_bytes(change.encode())
    else:
        (path / "zarr.json").write_text(change)


def _int8(path, _):
    path.unlink() if path.suffix == ".npy" else shutil.rmtree(path)
    small = np.zeros((25, 25), np.int8)
    np.save(path, small) if path.suffix == ".npy" else zarr.create_array(store=path, data=small, chunks=(10, 10))


def _tile(path, name):
    path.with_name(f"{path.name}.tiles").joinpath(name).write_text('{"crc32": [1]}')


@pytest.mark.parametrize("name", ["k.zarr", "k.npy"])
@pytest.mark.parametrize(
    ("damage", "how", "message"),
    [
        (_facts, "[]", "facts.json must be"),
        (_facts, "{}", "facts.json must be"),
        (_facts, "{", "facts.json must be"),
        (_array, "[]", "is damaged"),
        (_array, "{}", "is damaged"),
        (_int8, None, "holds int8"),
        (_tile, "tile-7-9", "none of its 3 x 3 tiles"),
        (_tile, "tile-x", "none of its 3 x 3 tiles"),
        (_tile, "tile-2-0", "upper triangle"),
    ],
)
def test_a_damaged_store_is_refused_and_can_be_discarded(tmp_path, name, damage, how, message):
    path = tmp_path / name
    with store_at(path) as store:
        store.tiles.write(0, 0, np.ones((10, 10)))
    damage(path, how)
    with pytest.raises(StoreDamagedError, match=message) as caught:
        store_at(path).__enter__()
    assert "restart=True" in str(caught.value)
    with store_at(path, restart=True) as store:
        assert store.fill_here(numbers, silent) == 6
    with store_at(path) as store:
        assert store.check_here(silent) == 0


@pytest.mark.parametrize("entry", ["[]", "{}", "3", '{"crc32": 5}'])
def test_damaged_entries_are_computed_again(tmp_path, entry):
    with store_at(tmp_path / "k.npy") as store:
        store.fill_here(numbers, silent)
    (tmp_path / "k.npy.tiles" / "tile-0-1").write_text(entry)
    with store_at(tmp_path / "k.npy") as store:
        store.check_here(silent)
        assert store.missing == [(0, 1)]


@pytest.mark.parametrize("lease", ["[]", "{}", "{", '{"time": "now"}'])
def test_a_damaged_lease_holds_nobody_back(tmp_path, monkeypatch, lease):
    monkeypatch.setattr(_lock, "SETTLE_SECONDS", 0.01)
    folder = Location.of(f"file://{tmp_path}/tiles")
    folder.write("lease.json", lease.encode())
    lock = RunLock(folder, "K")
    lock.acquire()
    lock.release()


def test_another_run_is_not_mixed_in(tmp_path):
    path = tmp_path / "k.zarr"
    with store_at(path) as store:
        store.tiles.write(0, 0, np.ones((10, 10)))
        straggler = store.tiles
    with pytest.raises(StoreMismatchError, match="begun with another network \\('a', now 'b'\\)") as caught:
        store_at(path, facts={"network": "b"}).__enter__()
    assert caught.value.name == "network"
    with pytest.raises(StoreMismatchError, match="dtype"):
        TileStore(path, 25, 10, "float32", {"network": "a"}).__enter__()
    with store_at(path, facts={"network": "b"}, restart=True) as store:
        assert len(store.missing) == 6
        # a worker of the first run is still at work
        with pytest.raises(RuntimeError, match="begun anew"):
            straggler.write(0, 1, np.ones((10, 10)))
        assert len(store.tiles.finished()) == 0


def test_what_is_not_ours_is_not_overwritten(tmp_path):
    (tmp_path / "k.zarr").mkdir()
    (tmp_path / "k.zarr" / "precious").write_text("data")
    with pytest.raises(FileExistsError, match="nothing says what it is of"):
        store_at(tmp_path / "k.zarr").__enter__()
    assert (tmp_path / "k.zarr" / "precious").read_text() == "data"


def test_unfinished_tiles_read_as_nan(tmp_path):
    with store_at(tmp_path / "k.zarr") as store:
        store.tiles.write(0, 1, np.ones((10, 10)))
        assert np.all(np.isnan(store.tiles.read(1, 1)))
        np.testing.assert_array_equal(store.tiles.read(1, 0), 1.0)


def test_a_lock_is_held_by_one_and_freed_by_a_kill(tmp_path):
    folder = Location.of(tmp_path / "tiles")
    code = (
        "import sys, time; from widetail.stores import Location, RunLock; "
        "lock = RunLock(Location.of(sys.argv[1]), 'K'); lock.acquire(); print('held', flush=True); time.sleep(100)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, folder.address], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(StoreBusyError, match=f"process {process.pid} on .* is writing to 'K'"):
            RunLock(folder, "K").acquire()
        process.send_signal(signal.SIGKILL)
        process.wait()
        lock = RunLock(folder, "K")
        lock.acquire()
        lock.release()
        lock.release()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_lease_behind_a_url(tmp_path, monkeypatch):
    monkeypatch.setattr(_lock, "SETTLE_SECONDS", 0.01)
    monkeypatch.setattr(_lock, "RENEW_SECONDS", 0.05)
    folder = Location.of(f"file://{tmp_path}/tiles")
    first = RunLock(folder, "K")
    first.acquire()
    with pytest.raises(StoreBusyError, match=f"process {os.getpid()}"):
        RunLock(folder, "K").acquire()
    # the owner is gone: nobody renews
    first.stopped.set()
    assert first.thread is not None
    first.thread.join()
    lease = json.loads((tmp_path / "tiles" / "lease.json").read_text())
    lease["time"] -= _lock.STALE_SECONDS + 1
    (tmp_path / "tiles" / "lease.json").write_text(json.dumps(lease))
    second = RunLock(folder, "K")
    second.acquire()
    # somebody else takes over while this process was stopped
    (tmp_path / "tiles" / "lease.json").write_text(json.dumps(lease | {"id": "other", "time": time.time()}))
    deadline = time.time() + 20
    while not second.lost and time.time() < deadline:
        time.sleep(0.02)
    with pytest.raises(StoreBusyError, match="took over"):
        second.check()
    second.release()
    assert (tmp_path / "tiles" / "lease.json").exists(), "it belongs to the other run"
