"""Models that an earlier `widetail fit` wrote, before number formats were kept, and models of the command in Python.

Cells of their table have spaces around them, which were part of a category then, and are not now.
"""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import widetail as wt
from tests.cli.conftest import NET, write_csv

FOLDER = Path(__file__).parent / "saved_1"
TABLE = FOLDER / "table.csv"


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_an_earlier_model_predicts_what_it_did(run, tmp_path, task):
    model = FOLDER / f"{task}.widetail"
    predicted = run("predict", model, TABLE, "--out", tmp_path / "p.csv")
    assert predicted.code == 0, predicted.err
    then, now = pl.read_csv(FOLDER / f"{task}.csv"), pl.read_csv(tmp_path / "p.csv")
    assert now.columns == then.columns
    if task == "classification":
        assert now["prediction"].to_list() == then["prediction"].to_list()
    numbers = [name for name, kind in then.schema.items() if kind.is_numeric()]
    np.testing.assert_allclose(now[numbers], then[numbers], rtol=1e-7)
    assert run("evaluate", model, TABLE, "--json").json["rows"] == 12
    assert run("inspect", model, "--json").json["task"] == task


def test_categories_that_differed_in_spaces_only(run, tmp_path):
    data = (FOLDER / "regression.widetail").read_bytes()
    assert b'\\" blue\\", \\" green\\"' in data  # JSON within JSON
    path = tmp_path / "m"
    path.write_bytes(data.replace(b'\\" blue\\", \\" green\\"', b'\\"green \\",\\" green\\"'))
    outcome = run("predict", path, TABLE)
    assert outcome.code == 1
    assert "keeps apart categories of 'colour'" in outcome.err
    assert "fit the model again" in outcome.err


def test_in_python_it_predicts_from_frames_of_numbers(run, numbers, tmp_path):
    table = {name: numbers[name] for name in ("a", "b", "y")}
    path = write_csv(tmp_path / "t.csv", table)
    assert run("fit", path, "--target", "y", "--net", NET, "--out", tmp_path / "m").code == 0
    run("predict", tmp_path / "m", path, "--out", tmp_path / "p.csv")
    expected = pl.read_csv(tmp_path / "p.csv")["prediction"]
    model, frame = wt.load(tmp_path / "m"), pl.DataFrame(table)
    np.testing.assert_allclose(model.predict(frame[["a", "b"]]), expected, rtol=1e-9)
    with pytest.raises(ValueError, match=r"Predict from X\[list\(model.feature_names_in_\)\]"):
        model.predict(frame)
    with pytest.raises(ValueError, match="same order"):
        model.predict(frame[["b", "a"]])


def test_in_python_a_frame_of_texts_is_refused_with_advice(tables):
    model = wt.load(tables / "model")
    assert list(model.feature_names_in_) == ["a", "b", "colour=blue", "colour=green", "colour=red"]
    with pytest.raises(ValueError, match=r"missing:\n- colour=blue(.|\n)*`widetail predict` makes them"):
        model.predict(pl.read_csv(tables / "test.csv").drop("y"))
