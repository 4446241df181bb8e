"""Kernel matrices on disk: the right numbers, and no work done twice."""

import json
import signal

import numpy as np
import pytest
import zarr
from numpy.testing import assert_allclose

import widetail as wt
from tests.cli.conftest import NET, write_csv
from widetail import kernels
from widetail.cli.commands import _kernel
from widetail.stores import TileStore

NETWORK = wt.nn.mlp(1, "erf")


@pytest.fixture
def inputs(tmp_path):
    x = np.random.default_rng(0).normal(size=(25, 3))
    np.save(tmp_path / "x.npy", x)
    return x


@pytest.mark.parametrize(("name", "get"), [("k.npy", "ntk"), ("k.zarr", "nngp")])
def test_numbers(run, inputs, tmp_path, name, get):
    outcome = run(
        "kernel", tmp_path / "x.npy", "--net", NET, "--out", tmp_path / name, "--get", get, "--block", 10, "--json"
    )
    assert outcome.code == 0, outcome.err
    assert outcome.json["blocks"] == outcome.json["blocks_computed"] == 6
    stored = np.load(tmp_path / name) if name == "k.npy" else np.asarray(zarr.open_array(tmp_path / name, mode="r"))
    assert_allclose(stored, getattr(NETWORK.kernel(inputs), get), rtol=1e-13)
    np.testing.assert_array_equal(stored, stored.T)
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, "x.npy"]


def test_a_table_is_standardised(run, tmp_path):
    rng = np.random.default_rng(1)
    a, b = 100 + 5 * rng.normal(size=12), rng.normal(size=12)
    write_csv(tmp_path / "t.csv", {"a": a, "b": b})
    assert run("kernel", tmp_path / "t.csv", "--net", NET, "--out", tmp_path / "k.npy").code == 0
    x = np.column_stack([(v - v.mean()) / v.std() for v in (a, b)])
    assert_allclose(np.load(tmp_path / "k.npy"), NETWORK.kernel(x).nngp, rtol=1e-12)


def test_a_signal_counts_even_when_a_library_answers_it_with_an_error_of_its_own(run, inputs, tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as error:
            raise RuntimeError("the compiler was interrupted") from error

    monkeypatch.setattr(kernels, "evaluate", interrupted)
    outcome = run("kernel", tmp_path / "x.npy", "--net", NET, "--out", tmp_path / "k.npy")
    assert (outcome.code, outcome.err.splitlines()[-1]) == (130, "widetail: interrupted")


@pytest.mark.parametrize("name", ["k.npy", "k.zarr"])
def test_an_interrupted_run_is_resumed(run, inputs, tmp_path, monkeypatch, name):
    out = tmp_path / name
    command = ("kernel", tmp_path / "x.npy", "--net", NET, "--out", out, "--block", 10)
    calls = []
    original = kernels.evaluate

    def interrupted(*arguments, **options):
        if len(calls) == 4:
            raise KeyboardInterrupt
        calls.append(arguments)
        return original(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(kernels, "evaluate", interrupted)
        outcome = run(*command)
    assert outcome.code == 130
    assert not out.exists()
    facts = json.loads((tmp_path / f"{name}.tiles" / "facts.json").read_text())
    assert facts["rows"] == 25

    other = run(*command[:3], "mlp(depth=1, activation=relu)", *command[4:])
    assert other.code == 1
    assert "--restart" in other.err
    np.save(tmp_path / "y.npy", inputs + 1)
    changed = run("kernel", tmp_path / "y.npy", *command[2:])
    assert changed.code == 1
    assert "data" in changed.err

    # one of the four finished blocks is damaged
    _flip_a_byte(tmp_path / f"{name}.partial{out.suffix}", (0, 1))
    outcome = run(*command, "--json")
    assert outcome.code == 0
    assert outcome.json["blocks_computed"] == 3
    stored = np.load(out) if name == "k.npy" else np.asarray(zarr.open_array(out, mode="r"))
    assert_allclose(stored, NETWORK.kernel(inputs).nngp, rtol=1e-13)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "x.npy", "y.npy"])


def _flip_a_byte(path, tile):
    """Damage the block in the given row and column of blocks of ten rows."""
    if path.suffix == ".zarr":
        path = path / "c" / str(tile[0]) / str(tile[1])
        position = 11
    else:
        position = path.stat().st_size - 8 * 25 * 25 + 8 * (25 * 10 * tile[0] + 10 * tile[1]) + 3
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 1]))


def test_restart_discards(run, inputs, tmp_path):
    (tmp_path / "k.npy.partial.npy").write_text("nothing")
    command = ("kernel", tmp_path / "x.npy", "--net", NET, "--out", tmp_path / "k.npy")
    outcome = run(*command)
    assert outcome.code == 1
    assert "--restart" in outcome.err
    assert run(*command, "--restart").code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["k.npy", "x.npy"]


def test_a_second_run_is_refused(run, inputs, tmp_path):
    out = tmp_path / "k.zarr"
    with TileStore(out, 25, 10, "float64", {}, staged=True):
        outcome = run("kernel", tmp_path / "x.npy", "--net", NET, "--out", out)
    assert outcome.code == 1
    assert "is writing to" in outcome.err


def test_a_cluster_needs_zarr_and_an_address_that_answers(run, inputs, tmp_path, monkeypatch):
    command = ("kernel", tmp_path / "x.npy", "--net", NET, "--scheduler", "tcp://127.0.0.1:9")
    assert "--out" in run(*command, "--out", tmp_path / "k.npy").err
    monkeypatch.setattr(_kernel, "CONNECT_SECONDS", 0.2)
    outcome = run(*command, "--out", tmp_path / "k.zarr")
    assert outcome.code == 1
    assert "nothing answers at 'tcp://127.0.0.1:9'" in outcome.err


def test_what_is_there_is_not_overwritten(run, inputs, tmp_path):
    (tmp_path / "k.npy").write_text("precious")
    outcome = run("kernel", tmp_path / "x.npy", "--net", NET, "--out", tmp_path / "k.npy")
    assert outcome.code == 1
    assert "there already" in outcome.err


def test_bad_arrays(run, tmp_path):
    command = ("--net", NET, "--out", tmp_path / "k.npy")
    np.save(tmp_path / "pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
    (tmp_path / "empty.npy").touch()
    np.save(tmp_path / "vector.npy", np.zeros(3))
    for name in ("pickled.npy", "empty.npy", "vector.npy", "nowhere.npy"):
        outcome = run("kernel", tmp_path / name, *command)
        assert outcome.code == 1
        assert name in outcome.err
        assert outcome.err.count("\n") == 1
