import re
from xml.etree import ElementTree

import numpy as np
import pytest

from widetail.plots import ResultTable

VALUES = np.array([[2.4, 2.3, 1.0], [-0.9832, -0.9809, -2.0], [np.nan, 0.5, np.nan], [np.inf, 1.0, 1.0]])


def table(**changes):
    settings = {
        "rows": ("Boston", "Wine | red", "Yacht <s>", "Naval"),
        "columns": ("NNGP", "IG", "paper"),
        "values": VALUES,
        "title": "NLL",
        "corner": "data set",
        "beside": ("paper",),
    }
    return ResultTable(**(settings | changes))


def test_the_best_of_each_row_wins_and_references_do_not_compete():
    np.testing.assert_array_equal(
        table().is_best(),
        [[False, True, False], [True, False, False], [False, True, False], [False, True, False]],
    )


def test_what_looks_equal_is_marked_together():
    np.testing.assert_array_equal(table(digits=2).is_best()[1], [True, True, False])


def test_highest_and_by_column_and_none():
    np.testing.assert_array_equal(table(best="highest", beside=()).is_best()[0], [True, False, False])
    np.testing.assert_array_equal(table(compare="rows").is_best()[:, 0], [False, True, False, False])
    assert not table(best=None).is_best().any()


def test_an_empty_row_has_no_winner():
    assert not table(values=np.full((4, 3), np.nan)).is_best().any()


def test_markdown():
    errors = np.where(np.arange(12).reshape(4, 3) == 1, 0.05, np.nan)
    lines = table(errors=errors, digits=2).to_markdown().splitlines()
    assert lines[:4] == ["**NLL**", "", "| data set | NNGP | IG | paper |", "| :-- | --: | --: | --: |"]
    assert lines[4] == "| Boston | 2.40 | **2.30 ± 0.05** | 1.00 |"
    assert lines[5].startswith("| Wine \\| red | **\N{MINUS SIGN}0.98** |")
    assert lines[6] == "| Yacht <s> | \N{EN DASH} | **0.50** | \N{EN DASH} |"
    assert "∞" in lines[7]


def test_html_is_well_formed_and_escaped():
    root = ElementTree.fromstring(table().to_html())
    assert root.find("caption").text == "NLL"
    assert [cell.text for cell in root.findall("thead/tr/th")] == ["data set", "NNGP", "IG", "paper"]
    assert [row.find("th").text for row in root.findall("tbody/tr")][2] == "Yacht <s>"
    best = root.findall("tbody/tr/td[@class='best']/strong")
    assert [cell.text for cell in best] == ["2.300", "\N{MINUS SIGN}0.983", "0.500", "1.000"]


def test_zero_has_no_sign():
    text = ResultTable(("a",), ("b",), np.array([[-0.0001]])).to_markdown()
    assert re.search(r"\*\*0\.000\*\*", text)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"values": VALUES[:2]}, r"values must have shape \(4, 3\).*got \(2, 3\)"),
        ({"errors": VALUES[:, :1]}, r"errors must have shape"),
        ({"beside": ("papre",)}, "beside must name columns"),
        ({"best": "largest"}, "best must be 'lowest'"),
        ({"compare": "row"}, "compare must be"),
    ],
)
def test_bad_input_is_named(changes, message, monkeypatch):
    monkeypatch.setattr("jaxtyping.config.jaxtyping_disable", True)  # as users have it
    with pytest.raises(ValueError, match=message):
        table(**changes)
