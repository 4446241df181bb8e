"""Kinds of noise on the command line: fit, and what inspect says of outliers."""

import numpy as np
import pytest

from tests.cli.conftest import NET, write_csv


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory):
    """A table of which rows 5 and 31, counted from one, are wrong."""
    rng = np.random.default_rng(0)
    a = np.sort(rng.uniform(-2, 2, 50)).round(6)
    y = (np.sin(2 * a) + 0.1 * rng.normal(size=50)).round(6)
    y[[4, 30]] += [3.0, -40.0]
    return write_csv(tmp_path_factory.mktemp("spoilt") / "t.csv", {"a": a, "y": y})


def test_outliers_are_told_and_drawn(run, spoilt, tmp_path):
    model, picture = tmp_path / "model", tmp_path / "outliers.png"
    fit = run("fit", spoilt, "--target", "y", "--net", NET, "--noise", "rows", "--out", model, "--json")
    assert fit.code == 0, fit.err
    inspected = run("inspect", model, "--json", "--plot-outliers", picture)
    assert inspected.code == 0, inspected.err
    found = inspected.json
    assert [one["row"] for one in found["outliers"]] == [31, 5]
    assert found["outliers"][0]["target"] < -35
    assert abs(found["outliers"][0]["predicted"]) < 1.5
    assert found["outliers"][0]["deviations"] < -50
    assert found["noise"].startswith("RowNoise")
    assert picture.stat().st_size > 3000
    shown = run("inspect", model).out
    assert "2 outliers" in shown


def test_wrong_uses(run, spoilt, tables, tmp_path):
    classes = run("fit", tables / "train.csv", "--target", "colour", "--noise", "rows", "--out", tmp_path / "m")
    assert classes.code == 2
    assert "is for regression" in classes.err
    loud = run("fit", spoilt, "--target", "y", "--noise", "loud", "--out", tmp_path / "m")
    assert loud.code == 2
    assert "rows" in loud.err
