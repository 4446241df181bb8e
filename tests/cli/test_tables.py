"""Files as they come: CSV and Parquet, good and hostile."""

import io
import struct

import numpy as np
import polars as pl
import pytest

from widetail.cli._errors import CommandError
from widetail.cli._tables import open_table


def read(path, rows=3, **options):
    table = open_table(path, **options)
    batches = list(table.batches(rows))
    assert all(len(batch) <= rows for batch in batches)
    return pl.concat(batches).to_dict(as_series=False)


@pytest.mark.parametrize(
    "text", ["a,b\n1,x\n2,y\n3,z\n4,w\n", "a;b\r\n1;x\r\n2;y\r\n3;z\r\n4;w", "a\tb\n1\tx\n2\ty\n3\tz\n4\tw\n\n"]
)
def test_csv_of_several_kinds(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())  # with the mark that spreadsheets put in front
    assert read(path) == {"a": ["1", "2", "3", "4"], "b": ["x", "y", "z", "w"]}


@pytest.mark.parametrize("first", ["sep=;", "SEP=;\r"])
def test_what_spreadsheets_say_of_separators_is_no_header(tmp_path, first):
    path = tmp_path / "t.csv"
    path.write_text(f"{first}\na;b\n1;2,5\n")
    assert read(path) == {"a": ["1"], "b": ["2,5"]}
    path.write_text(f'{first}\na;b\n1;"2"3\n')
    with pytest.raises(CommandError, match="line 3: "):
        read(path)


def test_csv_quotes_and_missing_cells(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a,b\n"1\n2","x ""y"", z"\nNA,\n')
    assert read(path) == {"a": ["1\n2", "NA"], "b": ['x "y", z', ""]}


def test_parquet(tmp_path):
    path = tmp_path / "t.parquet"
    columns = {"a": [1, 2, None], "b": ["x", None, "z"], "c": [True, False, None], "d": [0.5, float("nan"), 2.0]}
    pl.DataFrame(columns).write_parquet(path)
    got = read(path, rows=2)
    np.testing.assert_array_equal(got.pop("d"), columns.pop("d"))
    assert got == columns


def test_parquet_keeps_the_order_of_rows(tmp_path):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"a": np.arange(10_000)}).write_parquet(path, row_group_size=700)
    assert read(path, rows=300)["a"] == list(range(10_000))


HOSTILE = {
    "empty": (b"", "is empty"),
    "only a header": (b"a,b\n", "no rows"),
    "binary": (bytes(range(256)) * 40, "NUL bytes"),
    "NUL later": (b"a,b\n" + b"1,2\n" * 30_000 + b"1,\x00\n", "line 30002 holds a NUL"),
    "latin-1": ("a,b\ncafé,1\n".encode("latin-1"), "not UTF-8"),
    "utf-16": ("a,b\n1,2\n".encode("utf-16"), "UTF-16"),
    "a million columns": (lambda: b",".join(b"c%d" % i for i in range(1_000_000)) + b"\n", "1000000 columns"),
    "the same name twice": (b"a,b,a\n1,2,3\n", "'a'"),
    "nothing but empty lines": (b"\n\n\n", "the first line is empty"),
    "a column without a name": (b"a,,b\n1,2,3\n", "column 2 has no name"),
    "ragged": (b"a,b\n1,2\n1,2,3\n", "row 2 has 3 cells"),
    "an open quote": (b'a,b\n1,2\n1,"2\n3,4\n', "quote is opened in line 3 and not closed"),
    "an open quote in a long file": (b'a,b\n1,"2\n' + b"3,4\n" * 40_000, "quote is opened in line 2 and not closed"),
    "a cell of 200 kB": (b"a,b\n1,2\n1," + b"x" * 200_000 + b"\n", "a cell of line 3 has more than 131,072 characters"),
    "text behind a quote": (b'a,b\n1,"2"3\n', "line 2: .*must be doubled"),
    "not parquet": (b"PAR1 but not really", "not a Parquet file"),
    "gzip": (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", "NUL bytes"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(tmp_path, name):
    data, words = HOSTILE[name]
    path = tmp_path / "t.csv"
    path.write_bytes(data() if callable(data) else data)
    with pytest.raises(CommandError, match=words) as caught:
        read(path)
    assert "t.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_parquet_bomb_is_not_unpacked(tmp_path):
    # a file of some kilobytes that claims 4 * 10^9 rows: its footer is rewritten, its pages are not
    buffer = io.BytesIO()
    zeros = pl.DataFrame({f"c{i}": np.zeros(200_000) for i in range(10)})
    zeros.write_parquet(buffer, compression="zstd", row_group_size=200_000)
    data = bytearray(buffer.getvalue())
    assert len(data) < 100_000
    length = struct.unpack("<I", data[-8:-4])[0]
    footer = bytes(data[-8 - length : -8]).replace(_varint(2 * 200_000), _varint(2 * 4_000_000_000))
    path = tmp_path / "bomb.parquet"
    path.write_bytes(bytes(data[: -8 - length]) + footer + struct.pack("<I", len(footer)) + b"PAR1")
    table = open_table(path)
    with pytest.raises(CommandError, match=r"unpacks to .* GB"):
        table.read()
    with pytest.raises(CommandError, match="damaged"):
        list(table.batches())


def test_truncated_and_scrambled_parquet(tmp_path):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"a": np.arange(1000)}).write_parquet(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for trial in range(40):
        data = bytearray(whole)
        if trial % 2:
            data = data[: rng.integers(len(data))]
        for place in rng.integers(4, max(len(data) - 8, 5), 6):
            if place < len(data):
                data[place] = rng.integers(256)
        path.write_bytes(bytes(data))
        try:
            read(path, rows=1000)
        except CommandError as error:
            assert "\n" not in str(error)  # noqa: PT017


def test_nested_columns_are_refused(tmp_path):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"a": [[1, 2], [3]]}).write_parquet(path)
    with pytest.raises(CommandError, match="'a' is of type List"):
        open_table(path)


def _varint(value):
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
