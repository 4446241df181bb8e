"""Which noise is chosen, and that scores of left-out rows are those of refits."""

import numpy as np
import pytest

import widetail as wt
from tests.process.test_input_noise import data
from widetail.learning import choose_noise, noise_of_kind

PROCESS = wt.ScaleMixture(wt.kernels.RBF(1.0), noise=wt.ScaledNoise(0.05))


def sine(n=100, seed=0):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-2, 2, n))[:, None]
    return x, np.sin(2 * x[:, 0]) + 0.2 * rng.normal(size=n)


@pytest.mark.slow
def test_constant_noise_stays_where_nothing_else_is_better():
    choice = choose_noise(PROCESS, *sine())
    assert choice.name == "constant"
    assert list(choice.scores) == ["constant", "rows", "inputs", "both"]
    assert "constant" in str(choice)


def test_outliers_ask_for_rows():
    x, y = sine()
    y[::9] += 4.0 * (-1.0) ** np.arange(len(y[::9]))
    choice = choose_noise(PROCESS, x, y, kinds=("rows", "constant"))
    assert choice.name == "rows"
    assert isinstance(choice.fit.process.noise, wt.RowNoise)


@pytest.mark.slow
def test_noise_of_the_input_asks_for_inputs():
    choice = choose_noise(PROCESS, *data(150, seed=3), kinds=("constant", "inputs"))
    assert choice.name == "inputs"


@pytest.mark.parametrize("kind", ["constant", pytest.param("rows", marks=pytest.mark.slow)])
def test_scores_of_left_out_rows_are_those_of_refits(kind):
    """The readout scale, and with rows the scales of the others, are those of all rows: refits differ by little."""
    x, y = sine(60)
    process = wt.ScaleMixture(wt.kernels.RBF(1.0), noise=noise_of_kind(kind, 0.05, 1))
    scores = process.posterior(x, y).left_out_dist().log_prob(y)
    for row in (5, 30, 51):
        rest = np.arange(60) != row
        refit = process.posterior(x[rest], y[rest])(x[row : row + 1]).log_prob(y[row : row + 1])[0]
        assert np.isclose(scores[row], refit, atol=0.1)


def test_unknown_kinds_are_refused():
    with pytest.raises(ValueError, match="noise must be one of 'constant'"):
        noise_of_kind("loud", 0.1, 1)
