"""Kernel matrices on disk: the right numbers, and no work done twice."""

import json

import numpy as np
import pytest
import zarr
from numpy.testing import assert_allclose
from tests.cli.conftest import NET, write_csv

import widetail as wt

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


@pytest.mark.parametrize("name", ["k.npy", "k.zarr"])
def test_an_interrupted_run_is_resumed(run, inputs, tmp_path, monkeypatch, name):
    out = tmp_path / name
    command = ("kernel", tmp_path / "x.npy", "--net", NET, "--out", out, "--block", 10)
    calls = []
    original = wt.nn.Sequential.kernel

    def interrupted(self, *arguments, **options):
        if len(calls) == 4:
            raise KeyboardInterrupt
        calls.append(arguments)
        return original(self, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(wt.nn.Sequential, "kernel", interrupted)
        outcome = run(*command)
    assert outcome.code == 130
    assert not out.exists()
    manifest = json.loads((tmp_path / f"{name}.partial.json").read_text())
    assert manifest["rows"] == 25

    other = run(*command[:3], "mlp(depth=1, activation=relu)", *command[4:])
    assert other.code == 1
    assert "--restart" in other.err
    np.save(tmp_path / "y.npy", inputs + 1)
    changed = run("kernel", tmp_path / "y.npy", *command[2:])
    assert changed.code == 1
    assert "data" in changed.err

    # a kill may cut the last line of the list of finished blocks
    with (tmp_path / f"{name}.partial.done").open("a") as file:
        file.write("2 ")
    outcome = run(*command, "--json")
    assert outcome.code == 0
    assert outcome.json["blocks_computed"] == 2
    stored = np.load(out) if name == "k.npy" else np.asarray(zarr.open_array(out, mode="r"))
    assert_allclose(stored, NETWORK.kernel(inputs).nngp, rtol=1e-13)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "x.npy", "y.npy"])


def test_restart_discards(run, inputs, tmp_path):
    (tmp_path / "k.npy.partial.json").write_text("{}")
    (tmp_path / "k.npy.partial.done").write_text("0 0\n")
    (tmp_path / "k.npy.partial.npy").write_text("nothing")
    command = ("kernel", tmp_path / "x.npy", "--net", NET, "--out", tmp_path / "k.npy")
    assert run(*command).code == 1
    assert run(*command, "--restart").code == 0


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
