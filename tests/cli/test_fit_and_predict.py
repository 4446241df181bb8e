"""From a table to predictions: the numbers of the library, and errors that say what to do."""

import csv
import io

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import widetail as wt
from tests.cli.conftest import NET, write_csv


def columns_of(text):
    header, *rows = csv.reader(io.StringIO(text))
    return dict(zip(header, zip(*rows, strict=True), strict=True))


def numbers_of(values):
    return np.array(values, dtype=np.float64)


def frame_of(numbers, rows, *names):
    """Some rows as a frame."""
    return pl.DataFrame({name: numbers[name][rows] for name in names or ("a", "b", "colour")})


def test_same_numbers_as_python(run, tables, numbers):
    x, new = frame_of(numbers, slice(60)), frame_of(numbers, slice(60, None))
    model = wt.ScaleMixtureRegressor(net=wt.nn.mlp(1, "erf")).fit(x, numbers["y"][:60])
    outcome = run("predict", tables / "model", tables / "test.csv", "--interval", 0.8, "--quantiles", "0.05,0.5")
    assert outcome.code == 0
    got = columns_of(outcome.out)
    assert list(got) == ["prediction", "lower", "upper", "q0.05", "q0.5"]
    assert_array_equal(numbers_of(got["prediction"]), model.predict(new))
    lower, upper = model.predict_interval(new, 0.8)
    assert_array_equal(numbers_of(got["lower"]), lower)
    assert_array_equal(numbers_of(got["upper"]), upper)
    assert_array_equal(numbers_of(got["q0.05"]), model.predict_quantiles(new, [0.05])[:, 0])


def test_python_takes_the_frame_that_the_command_takes(run, tables):
    model, new = wt.load(tables / "model"), pl.read_csv(tables / "test.csv")
    got = columns_of(run("predict", tables / "model", tables / "test.csv").out)
    assert_array_equal(model.predict(new), numbers_of(got["prediction"]))
    pandas = pd.DataFrame(new.to_dict(as_series=False))
    assert_array_equal(model.predict(pandas[["colour", "b", "y", "a"]]), model.predict(new))


def test_chunks_and_formats_do_not_matter(run, tables, tmp_path):
    whole = columns_of(run("predict", tables / "model", tables / "test.csv", "--keep", "colour").out)
    parquet = tmp_path / "test.parquet"
    pl.read_csv(tables / "test.csv").select("y", "colour", "b", "a").write_parquet(parquet)
    out = tmp_path / "p.parquet"
    assert run("predict", tables / "model", parquet, "--chunk", 7, "--keep", "colour", "--out", out).code == 0
    pieces = pl.read_parquet(out)
    assert pieces.columns == ["colour", "prediction", "lower", "upper"]
    assert pieces["colour"].to_list() == list(whole["colour"])
    assert_allclose(pieces["upper"].to_numpy(), numbers_of(whole["upper"]), rtol=1e-12)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.parquet", "test.parquet"]


def test_evaluate_agrees_with_the_library(run, tables, numbers, tmp_path):
    new, y = frame_of(numbers, slice(60, None)), numbers["y"][60:]
    model = wt.load(tables / "model")
    plot = tmp_path / "calibration.png"
    outcome = run("evaluate", tables / "model", tables / "test.csv", "--chunk", 11, "--json", "--plot", plot)
    assert outcome.code == 0
    scores = outcome.json
    assert scores["rows"] == 30
    assert_allclose(scores["log_score"], model.log_score(new, y), rtol=1e-10)
    assert_allclose(scores["rmse"], np.sqrt(np.mean((model.predict(new) - y) ** 2)), rtol=1e-10)
    lower, upper = model.predict_interval(new, 0.9)
    assert scores["coverage"]["90%"] == np.mean((lower <= y) & (y <= upper))
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_inspect(run, tables, tmp_path):
    outcome = run("inspect", tables / "model", "--json", "--plot", tmp_path / "scale.svg")
    assert outcome.code == 0
    facts = outcome.json
    assert facts["target"] == "y"
    assert [column["name"] for column in facts["columns"]] == ["a", "b", "colour"]
    assert facts["columns"][2]["levels"] == ["blue", "green", "red"]
    model = wt.load(tables / "model")
    assert_allclose(facts["scale"]["posterior"]["0.5"], model.posterior_.scale.quantile(0.5), rtol=1e-12)
    assert_allclose(facts["scale"]["prior"]["0.5"], wt.InverseGamma(2.0, 2.0).quantile(0.5), rtol=1e-12)
    assert (tmp_path / "scale.svg").read_text().startswith("<?xml")
    drawn = run("inspect", tables / "model").out
    assert "posterior" in drawn
    assert "█" in drawn


def test_inspect_draws_partial_dependence(run, tables, tmp_path):
    outcome = run("inspect", tables / "model", "--json", "--plot-dependence", tmp_path / "along.png")
    assert outcome.code == 0, outcome.err
    along = outcome.json["dependence"]
    assert set(along) == {"a", "b", "colour"}
    by_level = {one["value"]: one for one in along["colour"]}
    assert by_level["red"]["median"] > by_level["blue"]["median"] + 1
    assert all(one["lower"] < one["median"] < one["upper"] for one in along["a"])
    assert (tmp_path / "along.png").stat().st_size > 3000


def test_what_is_fitted_without_a_wish_is_said(run, tables, tmp_path):
    outcome = run("fit", tables / "train.csv", "--target", "y", "--net", NET, "--out", tmp_path / "m", "--json")
    assert "ScaleMixtureRegressor: exact: 60 rows" in outcome.err
    assert outcome.json["estimator"] == "ScaleMixtureRegressor"
    options = ("--target", "colour", "--net", NET, "--out", tmp_path / "c", "--json")
    outcome = run("fit", tables / "train.csv", *options)
    assert "SparseMixtureClassifier: all 60 rows are inducing inputs" in outcome.err
    assert outcome.json["estimator"] == "SparseMixtureClassifier"


def test_classification(run, numbers, tmp_path):
    data = {name: numbers[name] for name in ("a", "b")} | {"kind": np.where(numbers["a"] > 0, "up", "=1+1")}
    write_csv(tmp_path / "train.csv", {name: values[:60] for name, values in data.items()})
    write_csv(tmp_path / "test.csv", {name: values[60:] for name, values in data.items()})
    fitted = run("fit", tmp_path / "train.csv", "--target", "kind", "--net", NET, "--out", tmp_path / "m", "--json")
    assert fitted.code == 0, fitted.err
    assert fitted.json["task"] == "classification"
    got = columns_of(run("predict", tmp_path / "m", tmp_path / "test.csv").out)
    assert list(got) == ["prediction", "p(=1+1)", "p(up)"]  # a formula in a cell is text, and stays what it was
    assert_allclose(numbers_of(got["p(=1+1)"]) + numbers_of(got["p(up)"]), 1.0)
    scores = run("evaluate", tmp_path / "m", tmp_path / "test.csv", "--json", "--plot", tmp_path / "r.png").json
    assert scores["accuracy"] == np.mean(np.array(got["prediction"]) == data["kind"][60:])
    assert scores["accuracy"] > 0.8
    outcome = run("predict", tmp_path / "m", tmp_path / "test.csv", "--interval", 0.9)
    assert outcome.code == 2
    assert "categories" in outcome.err


def test_missing_and_unseen_cells(run, numbers, tmp_path):
    data = {name: values[:40].astype(object) for name, values in numbers.items()}
    data["a"][[2, 30]] = "NA"
    data["colour"][4] = ""
    path = write_csv(tmp_path / "t.csv", data)
    assert run("fit", path, "--target", "y", "--net", NET, "--out", tmp_path / "m", "--quiet").code == 0
    new = {name: values[60:63].astype(object) for name, values in numbers.items()}
    known = columns_of(run("predict", tmp_path / "m", write_csv(tmp_path / "known.csv", new)).out)
    new["a"][0], new["colour"][1] = "", "violet"
    unknown = columns_of(run("predict", tmp_path / "m", write_csv(tmp_path / "unknown.csv", new)).out)
    widths = [numbers_of(got["upper"]) - numbers_of(got["lower"]) for got in (known, unknown)]
    assert widths[1][0] > 1.2 * widths[0][0]
    assert widths[1][1] > 1.2 * widths[0][1]
    assert_allclose(widths[1][2], widths[0][2], rtol=1e-12)


BAD_TABLES = {
    "no such date": ({"day": "2020-02-30", "n": "1", "y": "2"}, ["'day'", "2020-02-30", "row 4"]),
    "a target of dates": ({"n": "1", "y": "2020-02-03"}, ["'y'", "dates"]),
    "only a constant": ({"n": "1.5", "y": "2"}, ["'n': it is the same in all rows"]),
    "only missing cells": ({"n": "", "y": "2"}, ["'n': all of its cells are missing"]),
    "a target with a text": ({"n": "1", "y": "two"}, ["'y'", "'two'", "row 4"]),
    "a formula among numbers": ({"n": "=SUM(A1:A3)", "y": "2"}, ["'n'", "row 4", "=SUM(A1:A3)"]),
    "an infinity": ({"n": "1e999", "y": "2"}, ["'n'", "infinite", "row 4"]),
    "a missing target": ({"n": "1", "y": ""}, ["'y'", "1 rows", "row 4"]),
    "no other column": ({"y": "1"}, ["nothing to predict"]),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_tables_that_cannot_be_fitted(run, tmp_path, name):
    last, words = BAD_TABLES[name]
    data = {column: ["1.5", "2.5", "3.5", cell] for column, cell in last.items()}
    for column, cell in last.items():
        if cell.startswith("2020-"):
            data[column] = ["2020-01-01", "2020-01-02", "2020-01-05", cell]
    if name.startswith("only"):
        data["n"] = [last["n"]] * 4
    path = write_csv(tmp_path / "t.csv", data)
    outcome = run("fit", path, "--target", "y", "--out", tmp_path / "m")
    assert outcome.code == 1
    assert all(word in outcome.err for word in words), outcome.err
    assert outcome.err.count("\n") == 1
    assert outcome.out == ""
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


def test_one_row(run, tmp_path):
    path = write_csv(tmp_path / "t.csv", {"a": [1.0], "y": [2.0]})
    outcome = run("fit", path, "--target", "y", "--out", tmp_path / "m")
    assert outcome.code == 1
    assert "1 row" in outcome.err


def test_names_and_constants_are_left_out(run, tmp_path):
    data = {"name": [f"n{i}" for i in range(40)], "a": range(40), "one": [1] * 40, "y": range(40)}
    path = write_csv(tmp_path / "t.csv", data)
    outcome = run("fit", path, "--target", "y", "--net", NET, "--out", tmp_path / "m", "--json")
    assert outcome.json["features"] == ["a"]
    assert "'name' is left out: every text is different" in outcome.err
    assert "'one' is left out: it is the same in all rows" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--target", "z"], ["'z'", "'colour'"]),
        (["--target", "colur"], ["there are 'colour', 'a', 'b', 'y'"]),
        (["--target", "y", "--drop", "q"], ["--drop", "'q'"]),
        (["--target", "y", "--net", "mlp(depth=three)"], ["depth"]),
        (["--target", "y", "--prior", "gama(1,1)"], ["gamma(a, b)"]),
        (["--target", "y", "--noise", "loud"], ["--noise"]),
        (["--target", "y", "--sparse", "0"], ["--sparse"]),
        (["--target", "y", "--sparse", "10", "--noise", "scaled"], ["--noise"]),
        (["--target", "y", "--delimiter", "ab"], ["--delimiter"]),
        ([], ["--target"]),
        (["--target", "y", "--wat"], ["--wat", "fit --help"]),
    ],
)
def test_wrong_usage(run, tables, tmp_path, arguments, words, as_users_call):
    outcome = run("fit", tables / "train.csv", "--out", tmp_path / "m", *arguments)
    assert outcome.code == 2
    assert all(word in outcome.err for word in words), outcome.err
    assert outcome.err.count("\n") == 1


def test_new_tables_that_do_not_fit(run, tables, numbers, tmp_path):
    new = {name: values[60:63].astype(object) for name, values in numbers.items()}
    without = write_csv(tmp_path / "a.csv", {name: new[name] for name in ("b", "colour")})
    outcome = run("predict", tables / "model", without)
    assert outcome.code == 1
    assert "lacks 'a'" in outcome.err
    words = write_csv(tmp_path / "c.csv", new | {"a": ["1", "2", "three"]})
    assert "row 3 is 'three'" in run("predict", tables / "model", words).err


def test_a_kept_column_does_not_hide_a_prediction(run, tables, numbers, tmp_path):
    new = {name: values[60:63] for name, values in numbers.items()} | {"lower": [1, 2, 3]}
    outcome = run("predict", tables / "model", write_csv(tmp_path / "t.csv", new), "--keep", "a,lower")
    assert outcome.code == 2
    assert "--keep lower" in outcome.err


def test_an_error_halfway_leaves_the_old_file(run, tables, numbers, tmp_path):
    new = {name: values[60:].astype(object) for name, values in numbers.items()}
    new["a"][25] = "x"
    path = write_csv(tmp_path / "new.csv", new)
    out = tmp_path / "p.csv"
    out.write_text("what was there")
    assert run("predict", tables / "model", path, "--chunk", 10, "--out", out).code == 1
    assert out.read_text() == "what was there"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new.csv", "p.csv"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["predict", "MODEL", "nowhere.csv"], 1, "no file"),
        (["predict", "nowhere", "nowhere.csv"], 1, "no model"),
        (["predict", "MODEL", "MODEL"], 1, "NUL"),
        (["predict", "TEST", "TEST"], 1, "not a widetail model"),
        (["predict", "MODEL", "TEST", "--out", "nowhere/p.csv"], 1, "mkdir"),
        (["predict", "MODEL", "TEST", "--out", "p.xlsx"], 2, ".csv"),
        (["predict", "MODEL", "TEST", "--interval", "90"], 2, "between 0 and 1"),
        (["predict", "MODEL", "TEST", "--quantiles", "0.1;0.2"], 2, "between 0 and 1"),
        (["predict", "MODEL", "TEST", "--json"], 2, "--out"),
        (["evaluate", "MODEL", "TEST", "--plot", "p.bmp"], 2, ".png"),
        (["juggle"], 2, "juggle"),
    ],
)
def test_wrong_files_and_options(run, tables, monkeypatch, arguments, code, words):
    monkeypatch.chdir(tables)
    outcome = run(*({"MODEL": "model", "TEST": "test.csv"}.get(word, word) for word in arguments))
    assert outcome.code == code
    assert words in outcome.err, outcome.err
    assert outcome.err.count("\n") == 1
    assert outcome.out == ""


def test_a_model_of_python_has_no_table(run, tables, tmp_path):
    wt.load(tables / "model").save(tmp_path / "plain")
    outcome = run("inspect", tmp_path / "plain")
    assert outcome.code == 1
    assert "saved in Python" in outcome.err


def test_debug_shows_the_traceback(run, tables):
    assert "Traceback" in run("predict", tables / "model", "nowhere.csv", "--debug").err


def test_arrays_in_files_are_little_endian(tables):
    import json
    import struct

    data = (tables / "model").read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    shift = header["learned.y_scaling_.shift"]["data_offsets"]
    stored = struct.unpack("<d", data[8 + length + shift[0] : 8 + length + shift[0] + 8])[0]
    assert stored == wt.load(tables / "model").y_scaling_.shift[0]
