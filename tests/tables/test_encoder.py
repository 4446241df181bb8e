"""Frames to matrices: columns of all kinds, in pandas, polars and NumPy; gaps; bad input."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from widetail import TableEncoder, tables
from widetail.files import from_config, to_config

N = 60
RNG = np.random.default_rng(0)
COLUMNS = {
    "size": [None if i % 7 == 0 else float(v) for i, v in enumerate(RNG.normal(3.0, 2.0, N))],
    "quality": [("Good ", "good", "bad", None)[i] for i in RNG.integers(0, 4, N)],
    "day": [datetime.date(2020, 1, 1) + datetime.timedelta(days=int(11 * i)) for i in range(N)],
    "ok": [bool(i) for i in RNG.integers(0, 2, N)],
    "price": [f"{v:.2f}".replace(".", ",") for v in RNG.random(N)],
    "one": ["x"] * N,
    "name": [f"n{i}" for i in range(N)],
}


@pytest.fixture(scope="module")
def encoder():
    return TableEncoder().fit(pl.DataFrame(COLUMNS))


def test_what_the_columns_are(encoder):
    assert [(column.name, column.kind) for column in encoder.columns_] == [
        ("size", "number"),
        ("quality", "category"),
        ("day", "date"),
        ("ok", "number"),
        ("price", "number"),
    ]
    assert encoder.columns_[1].levels == ("bad", "good") or encoder.columns_[1].levels == ("bad", "Good")
    assert encoder.columns_[2].rounds == ("time of year", "day of week")
    assert encoder.left_out_ == {"one": "it is the same in all rows", "name": "every text is different"}
    assert any("are taken as one" in remark for remark in encoder.remarks_)
    assert len(encoder.get_feature_names_out()) == encoder.transform(pl.DataFrame(COLUMNS)).shape[1]


def test_pandas_and_polars_agree_whatever_the_order(encoder):
    expected = encoder.transform(pl.DataFrame(COLUMNS))
    frame = pd.DataFrame(COLUMNS)[list(reversed(COLUMNS))].assign(more=1)
    for same in (
        frame,
        frame.astype({"quality": "category", "ok": "boolean"}),
        frame.assign(day=pd.to_datetime(frame["day"])),
        frame.assign(day=frame["day"].astype(str), ok=frame["ok"].astype(int)),
    ):
        assert_allclose(encoder.transform(same), expected, atol=1e-12)


def test_numbers_are_standardised_and_levels_are_as_far_apart(encoder):
    x = encoder.transform(pl.DataFrame(COLUMNS))
    names = encoder.get_feature_names_out().tolist()
    known = np.array([v is not None for v in COLUMNS["size"]])
    assert_allclose([x[known, 0].mean(), x[known, 0].std()], [0, 1], atol=1e-12)
    levels = x[:, [place for place, name in enumerate(names) if name.startswith("quality=")]]
    there = np.array([v is not None for v in COLUMNS["quality"]])
    assert_allclose(np.sum(levels[there] ** 2, axis=1), 2.0)
    circle = x[:, [names.index(f"day: time of year, {part}") for part in ("sine", "cosine")]]
    assert_allclose(np.sum(circle**2, axis=1), 1.0)


def test_a_gap_makes_distances_the_expected_ones():
    """Of a missing level, the squared distance to every level is the mean over the levels, by their frequency."""
    cells = ["a"] * 6 + ["b"] * 3 + ["c"]
    encoder = TableEncoder().fit(np.array(cells, dtype=object)[:, None])
    levels, gap = np.split(encoder.transform([["a"], ["b"], ["c"]]), [3], axis=1)
    assert not gap.any()
    missing, new = encoder.transform(np.array([[None], ["d"]], dtype=object))
    between = np.sum((levels[:, None] - levels) ** 2, axis=-1)
    assert_allclose(np.sum((levels - missing[:3]) ** 2, axis=1) + missing[3] ** 2, between @ [0.6, 0.3, 0.1], rtol=1e-6)
    assert_allclose(np.sum((levels - new[:3]) ** 2, axis=1) + new[3] ** 2, between[0, 1])


def test_a_gap_of_a_number_is_its_spread_given_the_others():
    rng = np.random.default_rng(1)
    a = rng.normal(size=4000)
    x = np.stack([a, 0.8 * a + 0.6 * rng.normal(size=4000)], axis=1)
    encoder = TableEncoder().fit(x)
    (row,) = encoder.transform([[1.0, np.nan]])
    assert_allclose(row[:2], [1.0, 0.8], atol=0.06)
    assert_allclose(row[2:], [0.0, 0.6], atol=0.05)
    x[rng.random(x.shape) < 0.3] = np.nan  # learned from rows with gaps as well
    assert_allclose(TableEncoder().fit(x).transform([[1.0, np.nan]])[0], row, atol=0.12)


def test_files_hold_encoders(encoder):
    arrays = {}
    again = from_config(to_config(encoder, arrays), arrays)
    assert_array_equal(again.transform(pl.DataFrame(COLUMNS)), encoder.transform(pl.DataFrame(COLUMNS)))
    assert from_config(to_config(TableEncoder(max_levels=7))).max_levels == 7


def test_in_a_pipeline_of_other_models():
    frame = pd.DataFrame(COLUMNS)
    model = make_pipeline(TableEncoder(), Ridge()).fit(frame, np.arange(N))
    assert model.score(frame, np.arange(N)) > 0.9


def test_rare_levels_are_new_ones():
    cells = [f"l{i // 3}" for i in range(90)] + [f"r{i}" for i in range(10)]
    encoder = TableEncoder(max_levels=25).fit(pl.DataFrame({"q": cells}))
    assert len(encoder.columns_[0].levels) == 25
    x = encoder.transform(pl.DataFrame({"q": ["r0", "unseen", cells[0]]}))
    assert not x[:2, :-1].any()
    assert x[0, -1] == x[1, -1] > 0 == x[2, -1]
    assert "25 of 40 texts are told apart" in encoder.remarks_[0]


DATES = {
    ("2024-02-29", "2023-12-31 12:00"): [19782.0, 19722.5],
    ("29.2.2024", "31.12.23"): [19782.0, 19722.0],
    ("2/29/2024", "12/31/2023"): [19782.0, 19722.0],
    ("29/2/2024", "1/12/2023"): [19782.0, 19692.0],
}


@pytest.mark.parametrize("texts", DATES)
def test_ways_to_write_dates(texts):
    (column,) = tables.detect_columns({"d": list(texts)}).columns
    assert column.kind == "date"
    assert column.read(tables.cells_of("d", list(texts)))[0][:, 0].tolist() == DATES[texts]


def test_times_of_day_are_a_circle():
    encoder = TableEncoder().fit(pl.DataFrame({"t": ["00:00", "06:00", "12:00"]}))
    assert_allclose(encoder.transform(pl.DataFrame({"t": ["18:00"]}))[0, :2], [-1.0, 0.0], atol=1e-12)


BAD = {
    "no columns": (pd.DataFrame(index=range(3)), "the table is empty"),
    "no rows": (pl.DataFrame({"a": pl.Series([], dtype=pl.Float64)}), "the table is empty"),
    "nothing usable": (
        pl.DataFrame({"a": [1, 1], "b": pl.Series([None, None], dtype=pl.Float64)}),
        "no column that a model can use: 'a': it is the same in all rows; 'b': all of its cells are missing",
    ),
    "text among numbers": (
        pd.DataFrame({"a": [1, 2, "?", 4]}),
        "'a' holds '\\?' in row 3, where most cells are numbers",
    ),
    "a wrong date": (pl.DataFrame({"d": ["2024-02-28", "2024-02-30"]}), "'d' holds '2024-02-30' in row 2"),
    "inf": (np.array([[1.0, np.nan], [np.inf, 2.0]]), "'x0' is infinite in row 2"),
    "lists": (pd.DataFrame({"a": [[1], [2]]}), "'a' holds a list in row 1"),
    "twice": (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns are called 'a'"),
    "complex": (np.array([[1j], [2j]]), "of type complex128"),
    "a query": (pl.DataFrame({"a": [1]}).lazy(), r"call \.collect\(\)"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_fitted_says_where(name):
    frame, message = BAD[name]
    with pytest.raises(tables.TableError, match=message):
        TableEncoder().fit(frame)


def test_what_new_frames_lack_or_hold(encoder):
    frame = pd.DataFrame(COLUMNS)
    with pytest.raises(tables.TableError, match="lacks 'day'"):
        encoder.transform(frame.drop(columns="day"))
    with pytest.raises(tables.TableError, match=r"'day' must hold dates.*row 3 is 'soon'"):
        encoder.transform(frame.astype({"day": object}).assign(day=["2020-01-01"] * 2 + ["soon"] + ["2020-01-04"] * 57))
    with pytest.raises(tables.TableError, match=r"'size' must hold numbers.*row 13 is 'big'"):
        encoder.transform(pl.DataFrame(COLUMNS | {"size": ["1"] * 2 + ["big"] + ["2"] * 57}), 11)
    with pytest.raises(ValueError, match="expecting 7 features"):
        encoder.transform(np.zeros((2, 3)))
    with pytest.raises(tables.TableError, match="no rows"):
        encoder.transform(frame[:0])


def test_remedies_are_said_in_words_that_work():
    dates = pd.DataFrame({"d": ["2024-02-28"] * 9 + ["2024-02-30"]})
    with pytest.raises(tables.TableError, match=r"Try table=wt.TableEncoder\(categorical=\['d'\]\)"):
        TableEncoder().fit(dates)
    assert TableEncoder(categorical=["d"]).fit(dates).columns_[0].kind == "category"
    with pytest.raises(tables.TableError, match=r"Try X.drop\(columns=\['a'\]\)"):
        TableEncoder().fit(pd.DataFrame({"a": [1j, 2j], "b": [1.0, 2.0]}))


@pytest.mark.parametrize("levels", [30_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_many_levels_are_read_in_a_moment(levels):
    cells = np.arange(levels).astype(str).astype(object)
    encoder = TableEncoder(categorical=["id"]).fit(pl.DataFrame({"id": cells, "a": np.arange(float(levels))}))
    assert encoder.left_out_ == {"id": "every text is different"}


def test_numbers_with_units_are_left_out_and_told_apart_from_names():
    weights = [f"{i / 7:.3f} kg" for i in range(60)]
    encoder = TableEncoder().fit(pl.DataFrame({"weight": weights, "a": np.arange(60.0)}))
    assert "'0.000 kg', hold numbers with something behind" in encoder.left_out_["weight"]
