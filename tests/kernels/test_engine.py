"""Tiles, panels, threads, progress, interruption, and the kinds of arrays that come back."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from widetail import nn
from widetail.kernels import RBF, KernelValues
from widetail.kernels.engine import _engine, _pullback, _tiles

NET = nn.Sequential(nn.Dense(weight_var=1.5, bias_var=0.1), nn.Relu(), nn.Dense(weight_var=1.2), nn.Erf())
IMAGES = nn.Sequential(nn.Conv(2, weight_var=1.5, bias_var=0.1), nn.Relu(), nn.GlobalAvgPool())


@pytest.fixture
def x():
    return np.random.default_rng(0).normal(size=(17, 3))


@pytest.fixture
def small_tiles(monkeypatch):
    """Tiles of 4 x 4 rows, so that a few rows already make several, with ragged ends."""
    monkeypatch.setattr(_tiles, "MAX_TILE_ROWS", 4)


@pytest.fixture
def small_panels(small_tiles, monkeypatch):
    monkeypatch.setattr(_engine, "PANEL_BYTES", 1)


def widetail_threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("widetail")]


def assert_same(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-14)


@pytest.fixture(scope="module")
def whole():
    """The kernels of the seventeen rows in one tile."""
    return NET.kernel(np.random.default_rng(0).normal(size=(17, 3)))


@pytest.mark.parametrize("n", [1, 3, 4, 5, 8, 9, 17])
def test_any_number_of_rows_in_tiles(n, x, whole, small_tiles):
    assert_same(NET.kernel(x[:n]), [k[:n, :n] for k in whole])
    assert_same(NET.kernel(x[:n], x[n - 1 :]), [k[:n, n - 1 :] for k in NET.kernel(x, x)])
    assert_same(NET.diagonal(x[:n]), [np.diagonal(k)[:n] for k in whole])


def test_panels_of_one_block(x, whole, small_panels):
    counts = []
    assert_same(NET.kernel(x, progress=lambda done, total: counts.append((done, total))), whole)
    assert counts == [(i, 15) for i in range(1, 16)]
    counts.clear()
    assert_same(NET.kernel(x[:9], x, progress=lambda done, total: counts.append((done, total))), NET.kernel(x[:9], x))
    assert counts == [(i, 15) for i in range(1, 16)]


def test_tiles_hold_fewer_rows_where_a_pair_has_more_numbers(monkeypatch):
    monkeypatch.setattr(_tiles, "TILE_NUMBERS", 16 * 36 + 5)
    images = np.random.default_rng(1).normal(size=(6, 3, 2, 1))
    counts = []
    tiled = IMAGES.kernel(images, progress=lambda done, total: counts.append(total))
    assert counts == [3] * 3, "two blocks of four rows, the upper triangle of tiles"
    monkeypatch.undo()
    assert_same(tiled, IMAGES.kernel(images))


def test_symmetric_tiles_only_once(x, small_tiles):
    counts = []
    NET.kernel(x, progress=lambda done, total: counts.append((done, total)))
    assert counts == [(i, 15) for i in range(1, 16)], "5 blocks: 15 of 25 tiles"


shapes = st.tuples(st.integers(1, 13), st.just(2))
numbers = st.floats(-3, 3, width=32)


@given(hnp.arrays(np.float64, shapes, elements=numbers), st.randoms(use_true_random=False))
def test_properties_of_any_inputs_in_tiles(x, random):
    """Symmetric, positive semi-definite, and no row knows which tile it is in."""
    rows = _tiles.MAX_TILE_ROWS
    _tiles.MAX_TILE_ROWS = 4
    try:
        k = NET.kernel(x)
        order = list(range(len(x)))
        random.shuffle(order)
        shuffled = NET.kernel(x[order])
        cross = NET.kernel(x, x[order])
    finally:
        _tiles.MAX_TILE_ROWS = rows
    for values, other, block in zip(k, shuffled, cross, strict=True):
        np.testing.assert_array_equal(values, values.T)
        assert np.linalg.eigvalsh(values)[0] > -1e-10 * np.trace(values)
        np.testing.assert_allclose(other, values[np.ix_(order, order)], atol=1e-7)
        np.testing.assert_allclose(block, values[:, order], atol=1e-7)


@given(
    hnp.arrays(np.float64, (3, 2), elements=numbers),
    hnp.arrays(np.float64, 2, elements=st.floats(0.1, 5)),
)
def test_one_variance_per_feature_scales_the_inputs(x, variances):
    by_hand = nn.Sequential(nn.Dense(weight_var=1.0, bias_var=0.1), nn.Relu()).kernel(x * np.sqrt(variances))
    found = nn.Sequential(nn.Dense(weight_var=variances, bias_var=0.1), nn.Relu()).kernel(x)
    for a, b in zip(found, by_hand, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def test_an_interrupt_leaves_no_threads_behind(x, small_tiles):
    def interrupt(done, total):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        NET.kernel(x, progress=interrupt)
    assert widetail_threads() == []
    with pytest.raises(KeyboardInterrupt):
        NET.pull_back(KernelValues(ntk=np.ones((17, 17))), x, progress=interrupt)
    assert widetail_threads() == []


def test_no_threads_are_left_after_a_run(x):
    NET.kernel(x)
    NET.diagonal(x)
    assert widetail_threads() == []


class Broken(RBF):
    def cross_fn(self, get):
        def cross(rows1, rows2):
            raise RuntimeError("this tile is broken")

        return cross


def test_an_error_in_a_tile_comes_out(x, small_tiles):
    with pytest.raises(RuntimeError, match="this tile is broken"):
        Broken().kernel(x)
    assert widetail_threads() == []


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numpy_in_numpy_out(dtype, x):
    for k in (*NET.kernel(x.astype(dtype)), *NET.diagonal(x.astype(dtype)), RBF().kernel(x.astype(dtype)).nngp):
        assert isinstance(k, np.ndarray)
        assert k.dtype == dtype
        assert k.flags.writeable


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_jax_in_jax_out(dtype, x):
    """Also a double-precision array that is used outside of the context it was made in."""
    with jax.enable_x64(dtype == np.float64):
        inputs = jnp.asarray(x.astype(dtype))
    assert not jax.config.jax_enable_x64
    for k in (*NET.kernel(inputs), *NET.diagonal(inputs), RBF().kernel(inputs).nngp):
        assert isinstance(k, jax.Array)
        assert k.dtype == dtype


def test_double_precision_needs_no_flag(x, whole):
    """One variance per feature, arrays as parameters, and everything else: 1e-14, not 1e-8."""
    assert not jax.config.jax_enable_x64
    weights = np.array([0.1, 0.7, 1.3])
    linear = nn.Dense(weight_var=weights, bias_var=np.float64(0.1)).kernel(x, get="nngp").nngp
    np.testing.assert_allclose(linear, (x * weights) @ x.T / 3 + 0.1, rtol=1e-14, atol=1e-15)
    with jax.enable_x64(True):
        flagged = NET.kernel(x)
    assert_same(whole, flagged)
    length = np.array([0.3, 1.1, 0.7])
    squared = np.sum(((x[:, None] - x[None]) / length) ** 2, axis=-1)
    np.testing.assert_allclose(RBF(length, 0.3).kernel(x).nngp, 0.3 * np.exp(-0.5 * squared), rtol=1e-13)


@pytest.mark.parametrize("layout", ["fortran", "strided", "read-only", "list"])
def test_memory_layouts(layout, x, whole):
    inputs = {
        "fortran": np.asfortranarray(x),
        "strided": np.repeat(x, 2, axis=0)[::2],
        "read-only": np.broadcast_to(x, x.shape),
        "list": x.tolist(),
    }[layout]
    assert_same(NET.kernel(inputs), whole)


def test_the_callers_array_is_not_written_to(x):
    before = x.copy()
    NET.kernel(x)
    np.testing.assert_array_equal(x, before)


def test_threads_share_the_work_of_one_process(x, small_tiles, whole):
    """Two evaluations at the same time, from two threads of the caller."""
    found = [None, None]

    def run(slot):
        found[slot] = NET.kernel(x)

    callers = [threading.Thread(target=run, args=(slot,)) for slot in range(2)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for values in found:
        assert_same(values, whole)


def test_pull_back_reports_progress(x, small_tiles):
    counts = []
    NET.pull_back(KernelValues(ntk=np.ones((17, 17))), x, progress=lambda done, total: counts.append((done, total)))
    assert counts == [(i, 15) for i in range(1, 16)]
    assert _pullback.tile_rows is _tiles.tile_rows
