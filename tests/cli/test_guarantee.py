"""`widetail predict --guarantee`: the intervals of the library, and messages for what cannot be."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import widetail as wt
from tests.cli.test_fit_and_predict import columns_of, frame_of, numbers_of


@pytest.mark.parametrize("method", ["full", "jackknife+"])
@pytest.mark.parametrize("groups", [None, "colour"])
def test_same_intervals_as_python(run, tables, numbers, method, groups):
    arguments = [] if groups is None else ["--groups", groups]
    outcome = run(
        "predict", tables / "model", tables / "test.csv", "--interval", 0.8, "--guarantee", method, *arguments
    )
    assert outcome.code == 0, outcome.err
    got = columns_of(outcome.out)
    new = frame_of(numbers, slice(60, None))
    expected = wt.load(tables / "model").predict_interval(new, 0.8, method, groups=groups)
    assert_allclose([numbers_of(got["lower"]), numbers_of(got["upper"])], expected, rtol=1e-12)
    assert np.all(np.isfinite(expected)) or groups


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--guarantee", "jackknife"], "--guarantee takes full, jackknife+ or cv+; got 'jackknife'"),
        (["--groups", "a"], "add --guarantee full"),
        (["--guarantee", "full", "--groups", "shape"], "got 'shape'"),
    ],
)
def test_wrong_options_are_named(run, tables, arguments, message):
    outcome = run("predict", tables / "model", tables / "test.csv", *arguments)
    assert outcome.code != 0
    assert message in " ".join(outcome.err.split())
