"""Stores without a cluster: manifests, checksums, locks, and the bits of a tile."""

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
from numpy.testing import assert_array_equal

from widetail import kernels, nn
from widetail.distributed._factor_work import FINAL, FactorTiles
from widetail.distributed._gram import default_block
from widetail.distributed._preconditioner import Preconditioner, pivoted_cholesky
from widetail.distributed._work import KernelJob
from widetail.kernels import tile_rows
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


IMAGES = nn.Sequential(nn.Conv(2, weight_var=1.5, bias_var=0.1), nn.Relu(), nn.GlobalAvgPool())


@pytest.mark.parametrize(
    ("kernel", "shape", "dtype"),
    [(nn.mlp(2, "erf"), (23, 3), "float32"), pytest.param(IMAGES, (23, 4, 4, 1), "float64", marks=pytest.mark.slow)],
)
def test_tiles_have_the_bits_of_one_machine(kernel, shape, dtype, monkeypatch):
    """Also the ragged last ones, after a journey through cloudpickle."""
    monkeypatch.setattr("widetail.kernels._tiles.MAX_TILE_ROWS", 4)
    x = np.random.default_rng(0).normal(size=shape).astype(dtype)
    whole = kernel.kernel(x, get="nngp").nngp
    job = KernelJob.of(kernel, "nngp", tile_rows(kernel.numbers_per_pair(x.shape[1:]), len(x)))
    assert job.rows_per_tile == 4
    block = 8
    for i in range(0, 23, block):
        for j in range(i, 23, block):
            values = job.values(x[i : i + block], None if i == j else x[j : j + block])
            assert values.dtype == dtype
            np.testing.assert_array_equal(values, whole[i : i + block, j : j + block])


def test_blocks_hold_whole_tiles_of_the_engine():
    assert default_block(20_000, 500) == 2000
    assert default_block(2000, 20) == 200
    assert default_block(30, 32) == 30
    assert default_block(12_000, 500) == 1000


def test_pivoted_cholesky_and_what_is_made_of_it():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    matrix = kernels.RBF(1.0).kernel(x).nngp
    columns = pivoted_cholesky(lambda rows: matrix[rows], np.diagonal(matrix), 16, 25)
    assert columns.shape == (60, 25)
    left = matrix - columns @ columns.T
    largest_left = np.sort(np.linalg.eigvalsh(matrix))[::-1][25:].sum()
    assert np.trace(left) < 20 * largest_left, "not far from the best 25 columns there are"
    assert np.linalg.eigvalsh(left)[0] > -1e-12
    everything = pivoted_cholesky(lambda rows: matrix[rows], np.diagonal(matrix), 16, 100, tolerance=1e-13)
    np.testing.assert_allclose(everything @ everything.T, matrix, atol=1e-11)

    noise = rng.uniform(0.1, 0.2, size=60)
    dense = columns @ columns.T + np.diag(noise)
    found = Preconditioner.of(columns, noise)
    b = rng.normal(size=(60, 3))
    np.testing.assert_allclose(found.solve(b), np.linalg.solve(dense, b), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.log_det(), np.linalg.slogdet(dense)[1], rtol=1e-12)
    draws = found.sample(rng, 20_000)
    # entries of a sample covariance have a standard deviation of at most 1.2 * sqrt(2 / 20000) = 0.012
    np.testing.assert_allclose(draws @ draws.T / 20_000, dense, atol=6 * 0.012)


SHARDED = """
import jax, numpy as np
from widetail import nn
from widetail.distributed._sharded import ShardedKernel, device_count
assert device_count() == 2
x = np.random.default_rng(0).normal(size=(43, 3))
net = nn.mlp(1, "erf")
sharded = ShardedKernel(net, "ntk")
own = sharded(x)
np.testing.assert_allclose(own, net.kernel(x, get="ntk").ntk, rtol=1e-12)
np.testing.assert_array_equal(own, own.T)
np.testing.assert_allclose(sharded(x[:5], x), own[:5], rtol=1e-12)
images = np.random.default_rng(0).normal(size=(5, 4, 4, 1)).astype(np.float32)
pooled = nn.Sequential(nn.Conv(2, weight_var=1.5, bias_var=0.1), nn.Relu(), nn.GlobalAvgPool())
found = ShardedKernel(pooled, "nngp")(images)
assert found.dtype == np.float32
np.testing.assert_allclose(found, pooled.kernel(images, get="nngp").nngp, rtol=1e-5)
placed = sharded._prepare_shared(jax.device_put(x[:4].astype(np.float32), jax.sharding.NamedSharding(
    sharded.mesh, jax.sharding.PartitionSpec("rows"))))
assert len(placed.inputs.sharding.device_set) == 2
print("shared by two")
"""


@pytest.mark.slow
def test_two_devices_share_a_tile():
    found = subprocess.run(
        [sys.executable, "-c", SHARDED],
        env=os.environ | {"JAX_NUM_CPU_DEVICES": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stdout == "shared by two\n", found.stderr


def test_tasks_of_an_earlier_factorisation_neither_write_nor_count(tmp_path):
    facts = {"jitter": 0.0}
    with TileStore(tmp_path / "K.zarr", 4, 2, np.float64, {}) as store:
        source = store.tiles
    manifest = Location.of(tmp_path / "L.zarr.tiles")
    old, new = (FactorTiles(source, Location.of(tmp_path / "L.zarr"), manifest, 4, 0.0, name) for name in "ab")
    old.lower.create(2, {})
    manifest.write("facts.json", json.dumps({**facts, "attempt": "a"}).encode())
    old.save(0, 0, FINAL, np.eye(2))
    assert (old.version(0, 0), new.version(0, 0), new.version(1, 0)) == (FINAL, 0, 0)
    manifest.write("facts.json", json.dumps({**facts, "attempt": "b"}).encode())
    with pytest.raises(RuntimeError, match="begun anew"):
        old.save(0, 0, FINAL, 2 * np.eye(2))
    assert_array_equal(new.factor_tile(0, 0), np.eye(2))
