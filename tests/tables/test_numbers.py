"""Numbers as people write them."""

import pytest

from widetail import tables
from widetail.files import from_config, to_config


def detected(columns, **options):
    found = tables.detect_columns(columns, **options)
    return {column.name: column for column in found.columns}, found.remarks


def read(cells, **options):
    """Values of one column that must be numbers."""
    columns, _ = detected({"a": cells}, **options)
    assert columns["a"].kind == "number"
    return tables.numbers(columns["a"], tables.cells_of("a", cells), 1).tolist()


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1", "-2.5", "+3e2", ".5", "4."], [1, -2.5, 300, 0.5, 4]),
        (["0,31", "1,2", "-4"], [0.31, 1.2, -4]),
        (["1,234,567", "88,700"], [1234567, 88700]),
        (["88,700.5", "1,234"], [88700.5, 1234]),
        (["1.234,5", "12"], [1234.5, 12]),
        (["1.234.567", "12"], [1234567, 12]),
        (["1'234", "1\N{RIGHT SINGLE QUOTATION MARK}234.5"], [1234, 1234.5]),
        (["1 234,5", "1\N{NO-BREAK SPACE}234", "1\N{NARROW NO-BREAK SPACE}000"], [1234.5, 1234, 1000]),
        (["0,123", "4,567"], [0.123, 4.567]),  # no number begins with a thousand of nought
        (["12 %", "3.5%"], [12, 3.5]),
        (["$1,200.50", "-$3", "$ 4"], [1200.5, -3, 4]),
        (["3,50 €", "1.200,00 €"], [3.5, 1200]),
        (["EUR 3", "EUR 4.5"], [3, 4.5]),
        (["\N{MINUS SIGN}5", "5"], [-5, 5]),
        (['"1.5"', "'2.5'", "3"], [1.5, 2.5, 3]),
    ],
)
def test_ways_to_write_numbers(cells, values):
    assert read(cells) == values


def test_what_may_be_two_numbers_is_asked_for():
    cells = ["1,234", "2,345"]
    with pytest.raises(tables.TableError, match=r"'1,234', which may be 1234 or 1\.234") as caught:
        read(cells)
    assert caught.value.remedies == (("decimal", "."), ("decimal", ","))
    assert read(cells, decimal=",") == read(cells, usual_decimal=",") == [1.234, 2.345]
    assert read(cells, decimal=".") == read(cells, usual_decimal=".") == [1234, 2345]


def test_other_columns_decide():
    columns, _ = detected({"a": ["1,234", "2,345"], "b": ["0,5", "1"], "n": ["1", "2"]}, usual_decimal=".")
    assert {column.format.decimal for column in columns.values()} == {","}
    columns, remarks = detected({"a": ["1.234", "999"], "b": ["0,5", "1"]})
    assert columns["a"].format == tables.NumberFormat(",", ".")
    assert any("'1.234' is 1234" in remark for remark in remarks)


def test_points_in_a_table_of_semicolons_are_remarked():
    columns, remarks = detected({"a": ["1.234", "999"]}, usual_decimal=",")
    assert columns["a"].format == tables.NumberFormat()
    assert remarks == ["'a': '1.234' is read as 1.234, not with points between thousands"]
    assert detected({"a": ["1.234", "999"]}, usual_decimal=".")[1] == []


@pytest.mark.parametrize(
    "cells", [["5€20", "1"], ["1.2.3", "4.5.6"], ["1,23,456", "x"], ["12%", "0.5", "€3"], ["1-2", "3"]]
)
def test_what_is_not_a_number_is_not_read_as_one(cells):
    try:
        columns, _ = detected({"a": cells})
    except tables.TableError as error:
        assert "where most cells are numbers" in str(error)  # noqa: PT017
    else:
        assert columns["a"].kind == "category"


def test_new_rows_are_read_in_the_same_way():
    column = detected({"a": ["1.234,5", "2"]})[0]["a"]
    column = from_config(to_config(column))

    def values(cells, first_row=1, column=column):
        return column.read(tables.cells_of("a", cells), first_row)[0].tolist()

    assert values(["5.678"]) == [[5678.0]]
    with pytest.raises(
        tables.TableError, match=r"decimal commas and points between thousands.*row 7 is '5\.6'"
    ) as caught:
        values(["5.6"], 7)
    assert caught.value.remedies == (("decimal", "."),)
    assert values(["5,678.5"], column=column.with_decimal(".")) == [[5678.5]]
    assert values([5.6]) == [[5.6]]


def test_measures_are_remarked():
    columns, remarks = detected({"w": ["12 kg", "13 kg", "9 kg"]})
    assert columns["w"].kind == "category"
    assert "read as names" in remarks[0]
