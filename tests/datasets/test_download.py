import hashlib
import io
import itertools
import os

import pytest

from widetail.datasets import ChecksumError, DataUnavailableError
from widetail.datasets._archives import RawFile
from widetail.datasets._download import ResumingDownloader, fetch

CONTENT = os.urandom(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def raw(server, empty_machine, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    server.files["/table.bin"] = CONTENT
    return RawFile(f"{server.url}/table.bin", SHA256)


def test_a_whole_transfer_arrives_and_is_not_repeated(raw, server, tmp_path):
    assert fetch(raw, tmp_path).read_bytes() == CONTENT
    assert fetch(raw, tmp_path).read_bytes() == CONTENT
    assert len(server.requests) == 1


def test_a_broken_transfer_is_resumed_where_it_stopped(raw, server, tmp_path):
    server.breaks = 2
    assert fetch(raw, tmp_path).read_bytes() == CONTENT
    asked = [wanted for _, wanted in server.requests]
    assert asked[0] is None
    starts = [int(wanted.removeprefix("bytes=").removesuffix("-")) for wanted in asked[1:]]
    assert 100_000 < starts[0] <= 150_000
    assert starts[0] < starts[1] <= 225_000
    assert not (tmp_path / "table.bin.part").exists()


def test_the_next_call_resumes_what_an_earlier_one_left(raw, server, tmp_path):
    server.breaks = ResumingDownloader(tmp_path).attempts
    with pytest.raises(DataUnavailableError, match=r"table\.bin"):
        fetch(raw, tmp_path)
    left = (tmp_path / "table.bin.part").stat().st_size
    assert 0 < left < len(CONTENT)
    assert fetch(raw, tmp_path).read_bytes() == CONTENT
    assert server.requests[-1][1] == f"bytes={left}-"


def test_a_server_without_ranges_sends_everything_again(raw, server, tmp_path):
    server.breaks, server.knows_ranges = 1, False
    assert fetch(raw, tmp_path).read_bytes() == CONTENT


def test_a_part_longer_than_the_file_is_thrown_away(raw, server, tmp_path):
    (tmp_path / "table.bin.part").write_bytes(CONTENT + b"more")
    assert fetch(raw, tmp_path).read_bytes() == CONTENT


def test_a_wrong_checksum_is_refused_and_not_kept(raw, server, tmp_path):
    server.files["/table.bin"] = CONTENT[::-1]
    with pytest.raises(ChecksumError, match=SHA256):
        fetch(raw, tmp_path)
    assert not list(tmp_path.glob("table.bin*"))
    server.files["/table.bin"] = CONTENT
    assert fetch(raw, tmp_path).read_bytes() == CONTENT


def test_a_missing_file_is_asked_for_once(raw, server, tmp_path):
    server.files.clear()
    with pytest.raises(DataUnavailableError, match="404"):
        fetch(raw, tmp_path)
    assert len(server.requests) == 1


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("stream", "drawn"), [(Terminal(), True), (io.StringIO(), False)])
def test_progress_is_drawn_for_people_only(raw, tmp_path, monkeypatch, stream, drawn):
    ticks = itertools.count()
    monkeypatch.setattr("time.monotonic", lambda: float(next(ticks)))
    monkeypatch.setattr("sys.stderr", stream)
    fetch(raw, tmp_path)
    assert ("table.bin, kB: [" in stream.getvalue()) == drawn
