"""Frames with texts, dates and missing cells, straight into the estimators."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import widetail as wt
from widetail import nn, tables

N = 80
NET = nn.mlp(1, "erf")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    size, colour = rng.normal(size=N), rng.choice(["red", "Blue", "blue "], N)
    y = 2 * size + 3.0 * (colour == "red") + 0.3 * rng.normal(size=N)
    frame = pd.DataFrame({"size": size, "colour": colour, "day": pd.date_range("2020-01-01", periods=N)})
    frame.loc[::9, "size"] = np.nan
    frame.loc[4, "colour"] = None
    return frame, y


@pytest.fixture(scope="module")
def model(data):
    return wt.ScaleMixtureRegressor(net=NET, max_iterations=5).fit(*data)


def test_pandas_and_polars_give_the_same_numbers(data, model):
    frame, y = data
    columns = {name: [None if pd.isna(cell) else cell for cell in frame[name]] for name in ("day", "size", "colour")}
    other = pl.DataFrame(columns)
    assert_allclose(model.predict(other), model.predict(frame), rtol=1e-10)
    assert model.feature_names_in_.tolist() == ["size", "colour", "day"]
    assert model.score(frame, y) > 0.7


def test_intervals_widen_where_cells_are_missing_or_unseen(data, model):
    rows = data[0].iloc[[1, 1, 1]].copy()
    rows.iloc[1, 0] = np.nan
    rows.iloc[2, 1] = "green"
    lower, upper = model.predict_interval(rows, 0.9)
    width = upper - lower
    assert width[1] > 1.3 * width[0]
    assert width[2] > 1.1 * width[0]


def test_an_unseen_level_is_a_new_one(data, model):
    """Two unseen levels are as likely as each other, whatever they are called; a level is one in all its spellings."""
    rows = data[0].iloc[[1, 1]].assign(colour=["green", "violet"])
    assert model.predict(rows)[0] == model.predict(rows)[1]
    rows = data[0].iloc[[1, 1]].assign(colour=["RED", " red"])
    assert model.predict(rows)[0] == model.predict(rows)[1]


def test_one_relevance_for_all_levels(model):
    learned = [name for name, _, _ in model.evidence_fit_.learned]
    assert sum("weight_var" in name for name in learned) <= len(model.table_.groups_)


def test_frames_of_complete_numbers_are_arrays_until_a_cell_is_missing():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 2))
    y = x[:, 0] + 0.1 * rng.normal(size=40)
    frame = pd.DataFrame(x, columns=["a", "b"])
    for learn in (False, True):
        model = wt.ScaleMixtureRegressor(net=NET, max_iterations=3, learn=learn).fit(frame, y)
        plain = wt.ScaleMixtureRegressor(net=NET, max_iterations=3, learn=learn).fit(x, y)
        assert_allclose(model.predict(frame), plain.predict(x), rtol=1e-6)
    new = frame.iloc[:3].copy()
    new.iloc[0, 0] = np.nan
    lower, upper = model.predict_interval(new)
    full = model.predict_interval(frame.iloc[:3])
    assert upper[0] - lower[0] > 2 * (full[1][0] - full[0][0])
    assert_allclose(lower[1:], full[0][1:], rtol=1e-6)
    with pytest.raises(ValueError, match="none of which had a missing cell"):
        model.predict_interval(new, method="full")
    with pytest.raises(ValueError, match="Fit it to a frame"):
        plain.predict(new.to_numpy())


def test_files(data, model, tmp_path):
    model.save(tmp_path / "m")
    again = wt.load(tmp_path / "m")
    assert_array_equal(again.predict(data[0]), model.predict(data[0]))
    assert again.table_.columns_ == model.table_.columns_


def test_guarantees_and_their_groups(data, model):
    frame, y = data
    lower, upper = model.predict_interval(frame.iloc[:4], 0.7, method="full", groups="colour")
    assert np.all(lower < upper)
    fitted, new = (model.table_.labels_of("colour", model.table_.transform(part)) for part in (frame, frame.iloc[:4]))
    by_hand = model.predict_interval(frame.iloc[:4], 0.7, method="full", groups=(fitted, new))
    assert_allclose([lower, upper], by_hand)
    assert np.mean(y[:4] >= lower) >= 0.5


@pytest.mark.slow
def test_models_that_learn_anew_without_a_tenth(data, model):
    lower, upper = model.predict_interval(data[0].iloc[:5], 0.8, method="cv+")
    assert np.all(lower < upper)


def test_behind_a_pipeline(data):
    frame, y = data
    model = make_pipeline(wt.TableEncoder(), wt.ScaleMixtureRegressor(net=NET, learn=False)).fit(frame, y)
    lower, upper = model[-1].predict_interval(model[:-1].transform(frame), 0.9)
    assert np.mean((lower <= y) & (y <= upper)) > 0.7


def test_a_table_that_is_read_otherwise(data):
    frame, y = data
    coded = frame.assign(colour=np.arange(N) % 4)[["size", "colour"]]
    model = wt.ScaleMixtureRegressor(net=NET, learn=False, table=wt.TableEncoder(categorical=["colour"])).fit(coded, y)
    assert model.table_.columns_[1].levels == ("0", "1", "2", "3")
    with pytest.raises(ValueError, match="table must be a TableEncoder"):
        wt.ScaleMixtureRegressor(table="auto").fit(coded, y)
    with pytest.raises(tables.TableError, match="categorical names 'color'; there are 'colour'"):
        wt.ScaleMixtureRegressor(table=wt.TableEncoder(categorical=["color"])).fit(coded, y)


SPARSE = {"net": NET, "inducing": 15, "learn": False}
OTHERS = [
    wt.SparseMixtureRegressor(**SPARSE),
    wt.WideEnsembleRegressor(members=2, width=16, max_epochs=30),
    wt.ScaleMixtureClassifier(net=NET, learn=False),
    wt.SparseMixtureClassifier(**SPARSE),
    wt.WideEnsembleClassifier(members=2, width=16, max_epochs=30),
]


@pytest.mark.parametrize("other", OTHERS, ids=lambda model: type(model).__name__)
def test_the_other_estimators(other, data, tmp_path):
    frame, y = data
    is_regressor = type(other).__name__.endswith("Regressor")
    other.fit(frame, y if is_regressor else np.where(y > 1, "much", "little"))
    new = frame.iloc[:6].assign(colour=["green", "red", None, "blue", "blue", "red"])
    expected = other.predict(new)
    assert expected.shape == (6,)
    other.save(tmp_path / "m")
    assert_array_equal(wt.load(tmp_path / "m").predict(new), expected)
    if hasattr(other, "partial_fit"):
        assert other.partial_fit(frame, y if is_regressor else np.where(y > 1, "much", "little")).predict(
            new
        ).shape == (6,)


@pytest.mark.parametrize(("cell", "message"), [(np.nan, "contains NaN"), (np.inf, "contains infinity")])
def test_targets_that_are_no_numbers_are_named_by_their_row(cell, message):
    y = np.arange(6.0)
    y[[1, 4]] = cell
    for x in (np.zeros((6, 1)), pd.DataFrame({"a": range(6)})):
        with pytest.raises(ValueError, match=f"{message}.* rows 2, 5, counted from one"):
            wt.ScaleMixtureRegressor().fit(x, y)


def test_targets_of_texts_are_numbers_or_a_message_with_the_row():
    x = np.linspace(0.0, 1.0, 12)[:, None]
    texts = pd.Series([f"{1000 + 100 * i:,}.50" for i in range(12)], name="price")
    model = wt.ScaleMixtureRegressor(net=wt.nn.mlp(1, "erf"), learn=False)
    numbers = 1000.5 + 100 * np.arange(12)
    assert np.array_equal(model.fit(x, texts).predict(x), clone(model).fit(x, numbers).predict(x))
    texts[4] = "on request"
    with pytest.raises(ValueError, match="column 'price' must hold numbers; row 5 is 'on request'"):
        model.fit(x, texts)
    with pytest.raises(ValueError, match=r"'1,000', which may be 1000 or 1; .* Pass numbers"):
        model.fit(x, [f"{1000 + i:,}" for i in range(12)])
    with pytest.raises(ValueError, match="the target 'y' is missing in row 3"):
        model.fit(x, [1.0, 2.0, None, *range(9)])
