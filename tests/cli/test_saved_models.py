"""Models that an earlier `widetail fit` wrote, before number formats were kept, and models of the command in Python.

Cells of their table have spaces around them, which were part of a category then, and are not now.
"""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

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


def test_cells_that_an_earlier_model_fills(run, tmp_path):
    table = pl.read_csv(TABLE, infer_schema_length=0)
    colours = pl.Series(" colour", ["", "violet", *table[" colour"][2:]])
    table.with_columns(colours).write_csv(tmp_path / "t.csv")
    predicted = run("predict", FOLDER / "regression.widetail", tmp_path / "t.csv", "--out", tmp_path / "p.csv")
    assert predicted.code == 0, predicted.err
    then, now = pl.read_csv(FOLDER / "regression.csv"), pl.read_csv(tmp_path / "p.csv")
    np.testing.assert_allclose(now["upper"][2:], then["upper"][2:], rtol=1e-7)
