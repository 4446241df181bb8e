"""Features that are kept in a file, and bars that say how training goes."""

import io
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

from widetail import progress
from widetail.sparse import Whitening, _features

from .problems import KERNEL, inputs


def test_features_in_a_file_are_found_again(tmp_path, monkeypatch):
    x = inputs(30)
    whitening, path = Whitening.of(KERNEL, x[:5]), tmp_path / "features"
    features, residual = whitening.features(x, path=path)
    in_memory, same = whitening.features(x)
    assert np.array_equal(features, in_memory)
    assert np.array_equal(residual, same)

    def refuse(*_, **__):
        raise AssertionError("the kernel was evaluated")

    monkeypatch.setattr(type(KERNEL), "kernel", refuse)
    again, variance = whitening.features(x, path=path)
    assert isinstance(again, np.memmap)
    assert np.array_equal(again, in_memory)
    assert np.array_equal(variance, residual)
    with pytest.raises(AssertionError, match="evaluated"):
        whitening.features(x + 1.0, path=path)
    # what was begun and not finished is not taken for the features of other rows
    with pytest.raises(AssertionError, match="evaluated"):
        whitening.features(x, path=path)


def test_features_that_were_begun_are_gone_on_with(tmp_path, monkeypatch):
    x, path = inputs(30), tmp_path / "features"
    whitening = Whitening.of(KERNEL, x[:5])
    expected = whitening.features(x)
    monkeypatch.setattr(_features, "ROWS_AT_ONCE", 8)
    monkeypatch.setattr(_features, "SECONDS_PER_NOTE", 0.0)
    seen = []

    def stop(done, total):
        seen.append(done)
        if done == 16 and len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        whitening.features(x, path=path, progress=stop)
    found = whitening.features(x, path=path, progress=stop)
    assert seen == [0, 8, 16, 16, 24, 30]
    for ours, right in zip(found, expected, strict=True):
        assert_allclose(ours, right, rtol=1e-12, atol=1e-14)
    path.write_bytes(path.read_bytes()[:-8])
    again, _ = whitening.features(x, path=path)  # not what is left of the file, filled up with zeros
    assert_allclose(again, expected[0], rtol=1e-12, atol=1e-14)
    del again
    flipped = bytearray(path.read_bytes())
    flipped[-20] ^= 1
    path.write_bytes(flipped)
    again, _ = whitening.features(x, path=path)  # computed anew, not read with a bit that has changed
    assert_allclose(again, expected[0], rtol=1e-12, atol=1e-14)
    assert path.read_bytes() != bytes(flipped)


def test_bars_show_what_they_are_told(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    report = progress.reporter(True, "sparse")
    progress.annotate(report, "; bound -0.1200, validation -0.2500")
    report.drawn -= 1.0
    report(1, 4)
    assert "1/4" in terminal.getvalue()
    assert terminal.getvalue().endswith("; bound -0.1200, validation -0.2500")
    told = []
    own = progress.reporter(lambda done, total: told.append((done, total)), "sparse")
    progress.annotate(own, "; bound")
    own(1, 2)
    assert told == [(1, 2)]
