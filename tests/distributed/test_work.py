"""What a worker does, without a cluster: tiles of kernels and of factors, preconditioners, several devices."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from widetail import kernels, nn
from widetail.distributed._factor_work import FINAL, FactorTiles
from widetail.distributed._gram import default_block
from widetail.distributed._preconditioner import Preconditioner, pivoted_cholesky
from widetail.distributed._work import KernelJob
from widetail.kernels import tile_rows
from widetail.stores import Location, TileStore

IMAGES = nn.Sequential(nn.Conv(2, weight_var=1.5, bias_var=0.1), nn.Relu(), nn.GlobalAvgPool())


@pytest.mark.parametrize(
    ("kernel", "shape", "dtype"),
    [(nn.mlp(2, "erf"), (23, 3), "float32"), pytest.param(IMAGES, (23, 4, 4, 1), "float64", marks=pytest.mark.slow)],
)
def test_tiles_have_the_bits_of_one_machine(kernel, shape, dtype, monkeypatch):
    """Also the ragged last ones, after a journey through cloudpickle."""
    monkeypatch.setattr("widetail.kernels.engine._tiles.MAX_TILE_ROWS", 4)
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
