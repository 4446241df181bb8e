"""Targets as they are: positive, between ends, whole numbers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import widetail as wt
from widetail import nn

NET = nn.mlp(1, "erf")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2))
F = X[:, 0] + 0.5 * np.sin(2 * X[:, 1])
NOISE = RNG.normal(size=120)
TARGETS = {
    "real": 3.0 * F + NOISE,
    "positive": np.exp(2.0 * F + 0.3 * NOISE + 5.0),
    "bounded": 1 / (1 + np.exp(-3.0 * F - 0.5 * NOISE)),
    "integer": np.maximum(np.round(3.0 + F + 0.3 * NOISE), 0),
    "bent": -np.exp(0.7 * F + 0.1 * NOISE),
}


def fitted(y, **options):
    return wt.ScaleMixtureRegressor(net=NET, max_iterations=10, **options).fit(X[:90], y[:90])


@pytest.fixture(scope="module")
def models():
    return {name: fitted(y) for name, y in TARGETS.items()}


@pytest.mark.parametrize("name", TARGETS)
def test_targets_are_recognised_and_score_better(models, name):
    model, y = models[name], TARGETS[name][90:]
    assert model.target_.kind == ("real" if name == "bent" else name)
    if name not in ("real", "integer"):
        assert model.log_score(X[90:], y) > fitted(TARGETS[name], target="real").log_score(X[90:], y) + 0.05
    lower, upper = model.predict_interval(X[90:], 0.9)
    assert np.mean((lower <= y) & (y <= upper)) > 0.75
    if name == "integer":
        assert_array_equal(lower, np.round(lower))
    if name == "bent":
        assert model.target_.warp.bend < 0
        assert "large values pulled apart" in model.target_.describe()
    elif name != "real":
        assert np.all(lower >= 0)


def test_a_shift_and_a_scale_of_real_targets_bring_no_map():
    assert fitted(TARGETS["real"] + 100.0).target_.kind == "real"


def test_large_whole_numbers_are_numbers():
    assert fitted(np.round(1000 * TARGETS["real"])).target_.kind == "real"


def test_probabilities_of_whole_numbers_add_up(models):
    dist = models["integer"].predict_dist(X[90:])
    total = sum(np.exp(dist.log_prob(np.full(30, float(k)))) for k in range(20))
    assert_allclose(total, 1.0, atol=1e-3)


def test_quantiles_are_those_of_logarithms(models):
    """Far below its unit the map is a logarithm: quantiles are nearly those of a model of log y."""
    log = wt.ScaleMixtureRegressor(net=NET, max_iterations=10).fit(X[:90], np.log(TARGETS["positive"][:90]))
    found = np.log(models["positive"].predict_quantiles(X[90:]))
    assert np.mean(np.abs(found - log.predict_quantiles(X[90:]))) < 0.05


@pytest.mark.parametrize("name", TARGETS)
def test_files_and_locations(models, name, tmp_path):
    model = models[name]
    model.save(tmp_path / "m")
    again = wt.load(tmp_path / "m")
    assert again.target_ == model.target_
    assert_array_equal(again.predict_quantiles(X[90:]), model.predict_quantiles(X[90:]))
    if name != "integer":
        assert_allclose(model.predict(X[90:]), model.predict_dist(X[90:]).median, rtol=1e-6)


def test_guarantees_are_in_units_of_y(models):
    lower, upper = models["positive"].predict_interval(X[90:], 0.8, method="full")
    assert np.all((lower > 0) & (upper > lower))
    assert np.mean((lower <= TARGETS["positive"][90:]) & (TARGETS["positive"][90:] <= upper)) > 0.6


@pytest.mark.parametrize(
    ("target", "y", "message"),
    [
        ("price", TARGETS["real"], "target must be one of 'auto', 'real'"),
        ("positive", TARGETS["real"], "the smallest of y is"),
        ("integer", TARGETS["real"], "but y holds"),
        ("bounded", TARGETS["positive"], "strictly between 0 and 1"),
    ],
)
def test_targets_that_are_not_what_they_are_said_to_be(target, y, message):
    with pytest.raises(ValueError, match=message):
        fitted(y, target=target)
