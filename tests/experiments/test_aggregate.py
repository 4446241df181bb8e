"""Means, standard errors and the paper's numbers."""

import math

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

from widetail.experiments.report import between, ours, paired_differences, papers, side_by_side, summarise, summary
from widetail.experiments.reporting import _paper
from widetail.experiments.running import as_json, differences
from widetail.priors import InverseGamma


def rows_and_array():
    values = np.random.default_rng(0).normal(size=(3, 2, 5))  # table, model, split
    rows = [
        {"table": "abc"[t], "model": ("new", "old")[m], "split": s, "nll": values[t, m, s]}
        for t, m, s in np.ndindex(values.shape)
    ]
    return rows, values


def test_mean_and_standard_error_against_numpy():
    rows, values = rows_and_array()
    found = summarise(rows, ("table", "model"), "nll")
    for t, m in np.ndindex(3, 2):
        entry = found["abc"[t], ("new", "old")[m]]
        assert_allclose(entry.mean, values[t, m].mean(), rtol=1e-12)
        assert_allclose(entry.error, np.std(values[t, m], ddof=1) / np.sqrt(5), rtol=1e-12)
        assert entry.size == 5


def test_paired_differences_against_numpy():
    rows, values = rows_and_array()
    order = np.random.default_rng(1).permutation(len(rows))
    found = paired_differences([rows[i] for i in order], ("table",), "model", "new", "old", ("split",), "nll")
    gaps = values[:, 0] - values[:, 1]
    for t in range(3):
        assert_allclose(found[("abc"[t],)].mean, gaps[t].mean(), rtol=1e-12)
        assert_allclose(found[("abc"[t],)].error, np.std(gaps[t], ddof=1) / np.sqrt(5), rtol=1e-12)
    # the error of a difference is not that of independent numbers
    unpaired = paired_differences(rows[:-1], ("table",), "model", "new", "old", ("split",), "nll")
    assert unpaired[("c",)].size == 4  # a row without its partner is left out


def test_clear_differences_against_scipy():
    rng = np.random.default_rng(2)
    for size, shift in ((2, 3.0), (4, 1.0), (20, 0.5), (20, 0.4)):
        values = rng.normal(shift, 1.0, size)
        assert summary(values.tolist()).is_clear == (scipy.stats.ttest_1samp(values, 0.0).pvalue < 0.05)
    assert not summary([5.0]).is_clear


def test_one_number_has_no_error_and_none_is_left_out():
    assert summary([2.0]).mean == 2.0
    assert math.isnan(summary([2.0]).error)
    assert summary([]).size == 0
    assert summarise([{"a": 1, "v": None}, {"a": 1, "v": 3.0}], ("a",), "v")[(1,)].size == 1
    assert summarise([{"a": 1, "v": 3.0}], ("a",), lambda row: 2 * row["v"])[(1,)].mean == 6.0


def test_columns_of_any_origin():
    rows, values = rows_and_array()
    columns = {
        "paper": papers(_paper.UCI_NLL, "Ours"),
        "new": ours(summarise(rows, ("table", "model"), "nll"), "new", factor=100.0),
        "nobody": ours({}, "nobody"),
    }
    table = side_by_side("title", "set", {"a": "A", "b": "B"}, columns, beside=["paper", "nobody"])
    assert list(table.columns) == ["new"]  # tables a and b are not in the paper, and nobody measured the last column
    assert_allclose(table.values[:, 0], 100 * values[:2, 0].mean(axis=1))
    assert between([-1.0, 2.0], 1) == "\N{MINUS SIGN}1.0 to 2.0"
    assert between([0.0001, 0.0002], 3) == "0.000"


# Typed by hand; the tables in the code were converted from the LaTeX source by a program.
@pytest.mark.parametrize(
    ("table", "row", "column", "value", "error"),
    [
        (_paper.UCI_NLL, "boston", "Ours", 2.72, 0.05),
        (_paper.UCI_NLL, "naval", "RBF", -10.07, 0.01),
        (_paper.UCI_NLL, "yacht", "Ours", 0.17, 0.25),
        (_paper.UCI_RMSE, "wine_red", "NNGP", 0.57, 0.01),
        (_paper.UCI_BURR, "kin8nm", "Burr XII", -1.23, 0.01),
        (_paper.GAUSSIAN_CLASSIFICATION, "mnist/clean", "NNGP", 9.29, 0.002),
        (_paper.GAUSSIAN_CLASSIFICATION, "svhn/clean", "accuracy", 42.5, 1.5),
        (_paper.SPARSE, "fashion_mnist/left_out", "SVTP NLL", 241.69, 2.45),
        (_paper.SPARSE, "cifar10/fog", "SVGP accuracy", 25.47, 0.21),
        (_paper.ENSEMBLES, "mnist/glass_blur", "mixture NLL", 2.83, 0.20),
        (_paper.ENSEMBLES, "svhn/label_noise", "plain accuracy", 80.24, 0.20),
    ],
)
def test_numbers_of_the_paper(table, row, column, value, error):
    assert _paper.printed(table, row, column) == (value, error)


def test_the_papers_tables_are_whole_and_agree():
    assert [len(table) for table in (_paper.UCI_NLL, _paper.UCI_RMSE, _paper.UCI_BURR)] == [8, 8, 8]
    assert len(_paper.GAUSSIAN_CLASSIFICATION) == 10
    assert (len(_paper.SPARSE), len(_paper.ENSEMBLES)) == (21, 32)
    for name, row in _paper.UCI_BURR.items():  # printed twice
        assert row["NNGP"] == _paper.UCI_NLL[name]["NNGP"]
        assert row["Inverse gamma"] == _paper.UCI_NLL[name]["Ours"]
    assert math.isnan(_paper.printed(_paper.UCI_NLL, "diabetes", "Ours").value)


def test_plain_values():
    assert as_json({"prior": InverseGamma(2.0, 3.0), "x": np.arange(2), "nan": np.float64("nan")}) == {
        "prior": {"name": "InverseGamma", "params": {"a": 2.0, "b": 3.0}},
        "x": [0, 1],
        "nan": None,
    }
    with pytest.raises(TypeError, match="object"):
        as_json({"x": object()})
    assert differences({"a": 1, "b": 2}, {"a": 1, "b": 3}) == ["b: 2 there, 3 here"]
