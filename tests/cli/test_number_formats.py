"""Decimal commas and their relatives, through the command."""

import numpy as np
import pytest

from tests.cli.conftest import NET, write_csv


def with_commas(text):
    return text.replace(",", ";").replace(".", ",")


def test_decimal_commas_are_regressed(run, tables, tmp_path):
    for name in ("train.csv", "test.csv"):
        (tmp_path / name).write_text(with_commas((tables / name).read_text()))
    fitted = run("fit", tmp_path / "train.csv", "--target", "y", "--net", NET, "--out", tmp_path / "m", "--json")
    assert fitted.code == 0, fitted.err
    assert fitted.json["task"] == "regression"
    assert "'a', 'b', 'y': numbers with decimal commas" in fitted.err
    expected = run("predict", tables / "model", tables / "test.csv").out
    assert run("predict", tmp_path / "m", tmp_path / "test.csv").out == expected
    other = run("predict", tmp_path / "m", tables / "test.csv")
    assert other.code == 1
    assert "Try --decimal point." in other.err
    assert run("predict", tmp_path / "m", tables / "test.csv", "--decimal", "point").out == expected
    scores = [
        run("evaluate", *where, "--json").json
        for where in ((tables / "model", tables / "test.csv"), (tmp_path / "m", tmp_path / "test.csv"))
    ]
    assert scores[0] == scores[1]


@pytest.mark.parametrize("unit", [" kg", " m/s", "x"])
def test_a_target_with_units_is_not_classified_unasked(run, tmp_path, unit):
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "".join(f"{a},{a * 1.5}{unit}\n" for a in np.arange(9)))
    outcome = run("fit", path, "--target", "y", "--out", tmp_path / "m")
    assert outcome.code == 1
    assert "Try --task classification." in outcome.err


def test_a_cell_of_the_target_that_is_no_number(run, tmp_path):
    """Nobody wants prices as names because one of them is missing."""
    write_csv(tmp_path / "t.csv", {"a": range(12), "price": [*range(10, 20), "sold; ask", 30]})
    outcome = run("fit", tmp_path / "t.csv", "--target", "price", "--out", tmp_path / "m")
    assert outcome.code == 1
    assert "'sold; ask' in row 11, where most cells are numbers; correct it, or leave the row out" in outcome.err
    assert "categorical" not in outcome.err
    assert not (tmp_path / "m").exists()
