"""Kernels, factors and posteriors on a cluster of two processes, against one machine."""

import doctest
import gc
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import Matern as SklearnMatern

import widetail as wt
from tests.distributed.clusters import dense, local_client, slow_kernel
from widetail import distributed as wd
from widetail import nn
from widetail.cli import main
from widetail.distributed import _conjugate, _factor, _gram
from widetail.numerics import CholeskyFactor
from widetail.stores import Location

NET = nn.mlp(1, "relu")
SLOW = pytest.mark.slow
SQUARES = nn.Sequential(nn.Dense(weight_var=1.5, bias_var=0.1), nn.Elementwise(lambda t: t**2 / (1 + t**2)))


@wt.programs.program
def tied(p, x):
    """The same matrix twice."""
    weights = p.matrix(var=1.6)
    hidden = p.nonlin(jnp.abs, p.input_matrix(var=0.8) @ x)
    return p.nonlin(jnp.abs, weights @ p.nonlin(jnp.abs, weights @ hidden))


@pytest.fixture(scope="module")
def client():
    with local_client() as client:
        yield client


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(130, 3))
    y = np.stack([np.sin(x[:, 0]), x[:, 1] * x[:, 2]], axis=1) + 0.1 * rng.normal(size=(130, 2))
    return x, y, rng.normal(size=(17, 3))


@pytest.fixture(scope="module")
def matrix(client, data, tmp_path_factory):
    return wd.gram(NET, data[0], client, tmp_path_factory.mktemp("matrix") / "K.zarr", block=32, progress=False)


def test_the_bits_of_one_machine_read_by_plain_zarr(client, matrix, data, tmp_path):
    """The rows of the engine's tiles are 130, those of the store 32: tiles are what one machine makes of their rows."""
    x = data[0]
    assert matrix.computed == matrix.tiles.total == 15
    code = (
        "import sys, numpy, zarr; k = zarr.open_array(sys.argv[1], mode='r'); numpy.save(sys.argv[2], k[:]);"
        "print(k.chunks, k.attrs['get'], 'widetail' in sys.modules)"
    )
    command = [sys.executable, "-c", code, matrix.tiles.location.address, str(tmp_path / "k.npy")]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout == "(32, 32) nngp False\n"
    stored = np.load(tmp_path / "k.npy")
    assert_array_equal(stored, stored.T)
    assert_allclose(stored, NET.kernel(x, get="nngp").nngp, rtol=1e-13)
    job = _gram.KernelJob.of(NET, "nngp", 130)
    for i, j in matrix.tiles.pairs():
        here, there = matrix.tiles.rows(i), matrix.tiles.rows(j)
        assert_array_equal(stored[here, there], job.values(x[here], None if i == j else x[there]))
    code = "import sys, dask.array; print(dask.array.from_zarr(sys.argv[1]).chunksize)"
    command = [sys.executable, "-c", code, matrix.tiles.location.address]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "(32, 32)\n"


def test_blocks_of_whole_tiles_have_the_bits_of_the_whole_matrix(client, tmp_path):
    x = np.random.default_rng(1).normal(size=(620, 3)).astype(np.float32)
    found = wd.gram(NET, x, client, tmp_path / "K.zarr", get="ntk", block=500, progress=False)
    assert_array_equal(np.asarray(found), NET.kernel(x, get="ntk").ntk)
    assert np.asarray(found).dtype == np.float32
    with pytest.raises(wd.StoreMismatchError, match="another dtype"):
        wd.gram(NET, x.astype(np.float64), client, tmp_path / "K.zarr", get="ntk", block=500, progress=False)


@pytest.mark.parametrize(
    ("kernel", "exact"),
    [
        pytest.param(SQUARES, lambda x: SQUARES.kernel(x, get="nngp").nngp, marks=SLOW),
        pytest.param(tied, lambda x: tied.kernel(x, get="nngp").nngp, marks=SLOW),
        pytest.param(SklearnMatern(0.7), SklearnMatern(0.7), marks=SLOW),
    ],
    ids=["a function inside", "a program", "another library"],
)
def test_any_kernel_reaches_the_workers(client, kernel, exact, tmp_path):
    x = np.random.default_rng(1).normal(size=(7, 3))
    found = wd.gram(kernel, x, client, tmp_path / "K.zarr", block=4, progress=False)
    assert_allclose(np.asarray(found), exact(x), rtol=1e-12)


def test_the_same_call_goes_on_and_mends(client, tmp_path, capsys):
    x, store = np.random.default_rng(1).normal(size=(50, 2)), tmp_path / "K.zarr"

    def interrupt(done, total):
        if done == 4:
            raise KeyboardInterrupt

    marks = tmp_path / "marks"
    marks.mkdir()
    kernel = slow_kernel(marks=str(marks))
    with pytest.raises(KeyboardInterrupt):
        wd.gram(kernel, x, client, store, block=10, progress=interrupt)
    finished = len(list((tmp_path / "K.zarr.tiles").glob("tile-*")))
    assert 4 <= finished < 15
    rest = wd.gram(kernel, x, client, store, block=10)
    assert rest.computed <= 15 - 4
    assert "kernel: 2 workers, http" in capsys.readouterr().err
    assert_array_equal(np.asarray(rest), dense(x))

    os.truncate(store / "c" / "0" / "3", 111)
    with (store / "c" / "4" / "1").open("r+b") as file:
        file.seek(64)
        file.write(b"\7\7")
    before = len(list(marks.iterdir()))
    assert wd.gram(kernel, x, client, store, block=10, progress=False).computed == 2
    assert len(list(marks.iterdir())) == before + 2
    assert_array_equal(np.asarray(rest), dense(x))

    for changed in ({"kernel": SklearnMatern(2.0)}, {"x": x + 1e-9}, {"block": 20}, {"x": x[:40]}):
        arguments = {"kernel": kernel, "x": x, "block": 10} | changed
        with pytest.raises(wd.StoreMismatchError, match="was begun with another"):
            wd.gram(**arguments, client=client, store=store, progress=False)
    with pytest.raises(wd.StoreMismatchError, match="another data"):
        wd.gram(kernel, x.astype(np.float32), client, store, block=10, progress=False)
    assert wd.gram(kernel, x, client, store, block=10, progress=False).computed == 0


def test_a_poisoned_tile_is_reported_with_its_rows(client, tmp_path):
    x = np.random.default_rng(1).normal(size=(30, 2))
    x[[7, 13]] = 100.0  # finite, but the exponential of its square is not
    with pytest.raises(wd.PoisonedTileError, match="rows that take part most") as caught:
        wd.gram(nn.Sequential(nn.Dense(), nn.Exp()), x, client, tmp_path / "K.zarr", block=10, progress=False)
    assert set(caught.value.rows[:1]) <= {7, 13}
    finished = {path.name for path in (tmp_path / "K.zarr.tiles").glob("tile-*")}
    assert finished <= {"tile-2-2"}, "all others have a bad row"


def test_a_tile_that_fails_is_tried_again(client, tmp_path):
    flag = str(tmp_path / "failed")

    def shaky(x1, x2):
        if not os.path.exists(flag):
            with open(flag, "w"):
                pass
            raise ConnectionError("the network was away for a moment")
        return x1 @ x2.T

    x = np.eye(3)
    found = wd.gram(shaky, x, client, tmp_path / "K.zarr", block=3, progress=False)
    assert_array_equal(np.asarray(found), x)

    def broken(x1, x2):
        raise ZeroDivisionError("in the user's own kernel")

    with pytest.raises(ZeroDivisionError, match="in the user's own kernel"):
        wd.gram(broken, x, client, tmp_path / "B.zarr", progress=False)


def test_a_store_behind_a_url(client, tmp_path, monkeypatch):
    monkeypatch.setattr("widetail.stores._lock.SETTLE_SECONDS", 0.01)
    x = np.random.default_rng(1).normal(size=(20, 2))
    options = {"auto_mkdir": True}
    url = f"file://{tmp_path}/K.zarr"
    found = wd.gram(slow_kernel(), x, client, url, block=10, progress=False, storage_options=options)
    assert_array_equal(np.asarray(found), dense(x))
    factor = wd.cholesky(found, client, f"file://{tmp_path}/L.zarr", noise=0.1, progress=False, storage_options=options)
    assert_allclose(factor.array[:], np.linalg.cholesky(dense(x) + 0.1 * np.eye(20)), atol=1e-13)


def test_bad_arguments(client, matrix, tmp_path, as_users_call):
    x, store = np.eye(3), tmp_path / "K.zarr"
    for message, arguments in {
        "client must be": (NET, x, "tcp://nowhere", store),
        "kernel must be": ("mlp", x, client, store),
        "x1 must be float": (NET, np.eye(3, dtype=int), client, store),
        "must be a Zarr array": (NET, x, client, tmp_path / "K.npy"),
        "store must be a path": (NET, x, client, 3),
    }.items():
        with pytest.raises(ValueError, match=message):
            wd.gram(*arguments, progress=False)
    with pytest.raises(ValueError, match="get must be"):
        wd.gram(NET, x, client, store, get="both")
    with pytest.raises(ValueError, match="block must be"):
        wd.gram(NET, x, client, store, block=0)
    with pytest.raises(ValueError, match="storage_options are for URLs"):
        wd.gram(NET, x, client, store, storage_options={"key": "value"})
    with pytest.raises(ValueError, match="not visible from 2 workers"):
        _gram._check_shared(client, Location.of(tmp_path / "elsewhere"))
    with pytest.raises(ValueError, match="noise must be"):
        wd.cholesky(matrix, client, tmp_path / "L.zarr", noise=-1.0)
    with pytest.raises(ValueError, match="matrix must be"):
        wd.cholesky(np.eye(3), client, tmp_path / "L.zarr")
    with pytest.raises(ValueError, match="noise must be positive"):
        wd.conjugate_gradients(matrix, client, noise=0.0)
    with pytest.raises(ValueError, match="rank must be"):
        wd.ConjugateGradients(rank=-1)
    with pytest.raises(ValueError, match="tolerance must be"):
        wd.ConjugateGradients(tolerance=0.0)
    process = wt.ScaleMixture(NET)
    with pytest.raises(ValueError, match="for a cluster"):
        process.posterior(x, np.ones(3), store=tmp_path)
    with pytest.raises(ValueError, match="solver must be"):
        process.posterior(x, np.ones(3), client=client, solver="cg")
    with pytest.raises(ValueError, match="only the eigendecomposition"):
        wt.ScaleMixture(NET, noise=wt.IndependentNoise(0.1)).posterior(
            x, np.ones(3), client=client, store=tmp_path / "run", solver=wd.ConjugateGradients()
        )


def test_factor_and_solves(client, matrix, data, tmp_path):
    """Five blocks in panels of four: updates, the last block is ragged."""
    noise = np.random.default_rng(2).uniform(0.05, 0.2, size=130)
    exact = np.asarray(matrix) + np.diag(noise)
    lower = np.linalg.cholesky(exact)

    def interrupt(done, total):
        if done == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wd.cholesky(matrix, client, tmp_path / "L.zarr", noise=noise, progress=interrupt)
    found = wd.cholesky(matrix, client, tmp_path / "L.zarr", noise=noise, progress=False)
    assert found.computed <= 16 - 7
    assert_allclose(found.array[:], lower, atol=1e-12)
    assert_allclose(found.log_det, np.linalg.slogdet(exact)[1], rtol=1e-12)
    b = data[1]
    assert_allclose(found.solve(b), np.linalg.solve(exact, b), atol=1e-9)
    assert_allclose(found.solve_lower(b), np.linalg.solve(lower, b), atol=1e-10)
    assert_allclose(found.inverse_diagonal(), np.diagonal(np.linalg.inv(exact)), rtol=1e-9)

    assert wd.cholesky(matrix, client, tmp_path / "L.zarr", noise=noise, progress=False).computed == 0
    with pytest.raises(wd.StoreMismatchError, match="another noise"):
        wd.cholesky(matrix, client, tmp_path / "L.zarr", noise=0.3, progress=False)
    os.truncate(tmp_path / "L.zarr" / "c" / "3" / "1", 10)
    mended = wd.cholesky(matrix, client, tmp_path / "L.zarr", noise=noise, progress=False)
    assert mended.computed == 16, "a damaged factor is made anew"
    assert_allclose(mended.array[:], lower, atol=1e-12)


def test_the_jitter_of_one_machine(client, tmp_path):
    x = np.linspace(0.0, 1.0, 40)[:, None]
    found = wd.gram(wt.kernels.RBF(3.0), x, client, tmp_path / "K.zarr", block=16, progress=False)
    exact = CholeskyFactor.of(wt.kernels.RBF(3.0).kernel(x).nngp)
    for _ in range(2):
        factor = wd.cholesky(found, client, tmp_path / "L.zarr", progress=False)
        assert factor.jitter == pytest.approx(exact.jitter, rel=1e-12, abs=0.0)
    assert exact.jitter > 0
    assert factor.computed == 0
    # eigenvalues below the jitter are rounding: eight digits of them cannot be the same
    assert factor.log_det == pytest.approx(exact.log_det(), rel=1e-4)
    negative = wd.gram(lambda a, b: -a @ b.T, x, client, tmp_path / "N.zarr", block=16, progress=False)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        wd.cholesky(negative, client, tmp_path / "M.zarr", progress=False)


@pytest.mark.parametrize("tolerance", [1e-10, pytest.param(1e-4, marks=SLOW)])
def test_conjugate_gradients(client, matrix, data, tolerance):
    exact = np.asarray(matrix) + 0.05 * np.eye(130)
    b = data[1]
    settings = wd.ConjugateGradients(tolerance, rank=60, probes=30)
    found = wd.conjugate_gradients(matrix, client, noise=0.05, settings=settings, progress=False)
    residual = np.linalg.norm(exact @ found.solve(b) - b, axis=0) / np.linalg.norm(b, axis=0)
    assert np.all(residual <= 1.01 * tolerance)
    assert 0 < found.log_det_error < 3.0
    assert abs(found.log_det - np.linalg.slogdet(exact)[1]) < 4 * found.log_det_error
    _, quad = found.weights_and_quad(b)
    assert_allclose(quad, np.sum(b * np.linalg.solve(exact, b), axis=0), rtol=100 * tolerance)
    with pytest.raises(ValueError, match="block Cholesky"):
        found.inverse_diagonal()
    hopeless = wd.ConjugateGradients(1e-12, rank=0, probes=2, most_iterations=3)
    with pytest.raises(ArithmeticError, match="stopped after 3 iterations"):
        wd.conjugate_gradients(matrix, client, noise=1e-9, settings=hopeless, progress=False)


def test_probes_are_not_data_of_the_same_seed(client, tmp_path):
    n, probes = 300, 8
    x = np.random.default_rng(0).normal(size=(n, probes))
    matrix = wd.gram(wt.kernels.RBF(2.0), x, client, tmp_path / "K.zarr", progress=False)
    settings = wd.ConjugateGradients(1e-8, rank=20, probes=probes, seed=0)
    found = wd.conjugate_gradients(matrix, client, noise=0.1, settings=settings, progress=False)
    exact = np.asarray(matrix) + 0.1 * np.eye(n)
    preconditioner = found.preconditioner.columns @ found.preconditioner.columns.T + 0.1 * np.eye(n)
    logs = np.log(scipy.linalg.eigvalsh(exact, preconditioner))
    standard_error = np.sqrt(2 * n * np.var(logs) / probes)  # of unit vectors in random directions
    assert found.log_det_error < 2 * standard_error
    assert abs(found.log_det - np.linalg.slogdet(exact)[1]) < 4 * standard_error


def assert_same_law(found, exact, y, tolerance=1e-8):
    for name in ("mean", "var"):
        assert_allclose(getattr(found, name), getattr(exact, name), rtol=tolerance, atol=tolerance)
    assert_allclose(found.log_prob(y), exact.log_prob(y), rtol=tolerance, atol=tolerance)
    assert_allclose(found.joint_log_prob(y), exact.joint_log_prob(y), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "prior",
    [
        pytest.param(wt.InverseGamma(2.0, 2.0), id="closed"),
        pytest.param(wt.BurrXII(2.0, 1.0), id="quadrature", marks=SLOW),
    ],
)
def test_the_posterior_of_one_machine(client, data, prior, tmp_path):
    x, y, x_new = data
    counts = np.arange(1, 131) % 3 + 1.0
    process = wt.ScaleMixture(NET, prior, wt.ScaledNoise(0.05))
    exact = process.posterior(x, y, counts=counts)
    found = process.posterior(x, y, counts=counts, client=client, store=tmp_path)
    assert found.log_evidence == pytest.approx(exact.log_evidence, abs=1e-8)
    assert found.log_evidence_error == 0.0
    assert found.diagnostics.jitter == 0.0
    assert found.scale.quantile(0.9) == pytest.approx(exact.scale.quantile(0.9), rel=1e-8)
    assert_same_law(found(x_new), exact(x_new), y[:17])
    assert_same_law(found.f(x_new), exact.f(x_new), y[:17])
    for one, other in zip(found.left_out(), exact.left_out(), strict=True):
        assert_allclose(one, other, atol=1e-8)
    assert_allclose(found.covariance(x_new[:4], x_new[2:9]), exact.covariance(x_new[:4], x_new[2:9]), atol=1e-9)
    key = jax.random.key(0)
    assert_allclose(found.draw(key)(x_new[:5]), exact.draw(key)(x_new[:5]), atol=1e-6)
    gaussian = wt.PointMass(0.7)
    assert found.with_prior(gaussian).log_evidence == pytest.approx(exact.with_prior(gaussian).log_evidence, abs=1e-8)

    by_iteration = process.posterior(
        x, y, counts=counts, client=client, store=tmp_path, solver=wd.ConjugateGradients(1e-11, rank=40, probes=20)
    )
    assert abs(by_iteration.log_evidence - exact.log_evidence) < 4 * by_iteration.log_evidence_error
    assert by_iteration.scale.quantile(0.9) == pytest.approx(exact.scale.quantile(0.9), rel=1e-8)
    assert_same_law(by_iteration(x_new), exact(x_new), y[:17], 1e-7)


def test_more_rows_one_output_and_a_temporary_store(client, data):
    x, y, x_new = data
    process = wt.ScaleMixture(NET, noise=wt.ScaledNoise(0.05), scale_sharing="per_output")
    found = process.posterior(x[:100], y[:100, 0], client=client)
    folder = found.crosses.inputs.location.path.parent
    assert folder.is_dir()
    updated = found.update(x[100:], y[100:, 0], noise_weights=np.full(30, 2.0))
    weights = np.append(np.ones(100), np.full(30, 2.0))
    exact = process.posterior(x, y[:, 0], noise_weights=weights)
    assert updated.log_evidence == pytest.approx(exact.log_evidence, abs=1e-8)
    assert_allclose(updated(x_new).quantile(0.05), exact(x_new).quantile(0.05), atol=1e-8)
    with pytest.raises(ValueError, match="outputs of the first call"):
        found.update(x[100:], y[100:])
    del found
    gc.collect()  # the predictive distributions that it made may know it in a circle
    assert not folder.exists(), "a temporary store goes with its posterior"


@SLOW
def test_independent_noise_takes_the_kernel_of_the_cluster(client, data, tmp_path):
    x, y, x_new = data
    process = wt.ScaleMixture(NET, wt.InverseGamma(2.0, 2.0), wt.IndependentNoise(0.05))
    found, exact = process.posterior(x, y, client=client, store=tmp_path), process.posterior(x, y)
    assert found.log_evidence == pytest.approx(exact.log_evidence, abs=1e-8)
    assert_allclose(found(x_new).mean, exact(x_new).mean, atol=1e-8)


def test_the_command(client, data, tmp_path):
    np.save(tmp_path / "x.npy", data[0])
    net, address = "mlp(depth=1, activation=relu)", client.scheduler.address
    command = ["kernel", tmp_path / "x.npy", "--net", net, "--out", tmp_path / "K.zarr", "--block", 50, "--quiet"]
    assert main([str(part) for part in [*command, "--scheduler", address]]) == 0
    import zarr

    assert_allclose(zarr.open_array(tmp_path / "K.zarr", mode="r")[:], NET.kernel(data[0], get="nngp").nngp, rtol=1e-13)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["K.zarr", "x.npy"]


@pytest.mark.parametrize("module", [_gram, _factor, _conjugate])
def test_examples(module, client, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = doctest.testmod(module, extraglobs={"client": client})
    assert found.failed == 0
    assert found.attempted > 0


@pytest.mark.slow
def test_workers_that_factor_do_without_jax():
    code = "import sys, widetail.distributed._factor_work; print('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
