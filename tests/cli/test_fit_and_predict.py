"""From a table to predictions: the numbers of the library, and errors that say what to do."""

import csv
import io

import numpy as np
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


def encoded(numbers, rows):
    """The matrix of inputs as the command makes it, written down again here."""
    levels = ("blue", "green", "red")
    return np.column_stack(
        [numbers["a"][rows], numbers["b"][rows], *((numbers["colour"][rows] == level) * 1.0 for level in levels)]
    )


def named(x):
    """A frame of it, with the names that a model of the command knows."""
    return pl.DataFrame(x, schema=["a", "b", "colour=blue", "colour=green", "colour=red"])


def test_same_numbers_as_python(run, tables, numbers):
    x, new = encoded(numbers, slice(60)), encoded(numbers, slice(60, None))
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


def test_the_model_is_one_that_python_loads(tables, numbers):
    model = wt.load(tables / "model")
    assert model.predict(named(encoded(numbers, slice(60, 63)))).shape == (3,)


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
    new, y = named(encoded(numbers, slice(60, None))), numbers["y"][60:]
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


def test_missing_values_are_named_or_imputed(run, numbers, tmp_path):
    data = {name: values[:40].astype(object) for name, values in numbers.items()}
    data["a"][[2, 30]] = "NA"
    data["colour"][4] = ""
    path = write_csv(tmp_path / "t.csv", data)
    fit = ("fit", path, "--target", "y", "--net", NET, "--out", tmp_path / "m")
    outcome = run(*fit)
    assert outcome.code == 1
    assert "column 'a' in rows 3, 31; column 'colour' in row 5" in outcome.err
    assert "--impute" in outcome.err
    assert not (tmp_path / "m").exists()
    assert run(*fit, "--impute", "--quiet").code == 0
    got = columns_of(run("predict", tmp_path / "m", path).out)
    filled = dict(data)
    filled["a"] = np.where(data["a"] == "NA", np.median(numbers_of(data["a"][data["a"] != "NA"])), data["a"])
    values, counts = np.unique(data["colour"][data["colour"] != ""].astype(str), return_counts=True)
    filled["colour"] = np.where(data["colour"] == "", values[counts.argmax()], data["colour"])
    expected = columns_of(run("predict", tmp_path / "m", write_csv(tmp_path / "filled.csv", filled)).out)
    assert got == expected


BAD_TABLES = {
    "a date": ({"day": "2020-01-02", "n": "1", "y": "2"}, ["'day'", "dates", "--drop day"]),
    "a formula among numbers": ({"n": "=SUM(A1:A3)", "y": "2"}, ["'n'", "row 4", "=SUM(A1:A3)"]),
    "an infinity": ({"n": "1e999", "y": "2"}, ["'n'", "infinite", "row 4"]),
    "a missing target": ({"n": "1", "y": ""}, ["'y'", "1 rows", "such as 4"]),
    "no other column": ({"y": "1"}, ["nothing to predict"]),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_tables_that_cannot_be_fitted(run, tmp_path, name):
    last, words = BAD_TABLES[name]
    data = {column: ["1.5", "2.5", "3.5", cell] for column, cell in last.items()}
    if "day" in data:
        data["day"] = ["2020-01-01"] * 3 + [last["day"]]
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


def test_too_many_categories(run, tmp_path):
    data = {"name": [f"n{i}" for i in range(120)], "a": range(120), "y": range(120)}
    path = write_csv(tmp_path / "t.csv", data)
    outcome = run("fit", path, "--target", "y", "--out", tmp_path / "m")
    assert outcome.code == 1
    assert "'name' has more than 100 different texts" in outcome.err


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
    unknown = write_csv(tmp_path / "b.csv", new | {"colour": ["red", "violet", "blue"]})
    outcome = run("predict", tables / "model", unknown, "--out", tmp_path / "p.csv")
    assert outcome.code == 1
    assert "'violet' in row 2" in outcome.err
    assert not (tmp_path / "p.csv").exists()
    assert run("predict", tables / "model", unknown, "--impute", "--out", tmp_path / "p.csv").code == 0
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
