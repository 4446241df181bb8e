"""The regressor: units, intervals, hard inputs, files."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_diabetes

import widetail as wt
from tests.files.edited import fields, with_header
from widetail import nn

NET = nn.mlp(1, "erf")


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2))
    y = 1000 + 50 * np.sin(2 * x[:, 0]) + 5 * rng.normal(size=80)
    return wt.ScaleMixtureRegressor(net=NET, max_iterations=20).fit(x[:60], y[:60]), x[60:], y[60:]


def test_predictions_are_in_the_units_of_y(fitted):
    model, x, y = fitted
    dist = model.predict_dist(x)
    assert np.sqrt(np.mean((model.predict(x) - y) ** 2)) < 25
    assert_allclose(dist.mean, model.predict(x), rtol=1e-9)
    assert_allclose(model.log_score(x, y), np.mean(dist.log_prob(y)))
    lower, upper = model.predict_interval(x, 0.8)
    quantiles = model.predict_quantiles(x, [0.1, 0.5, 0.9])
    assert_allclose(quantiles, np.stack([lower, model.predict(x), upper], 1), rtol=1e-8)
    draws = model.sample_y(x, 500, random_state=1)
    assert draws.shape == (20, 500)
    assert np.all(np.abs(draws.mean(1) - dist.mean) < 5 * np.asarray(dist.std) / np.sqrt(500))


def test_rescaling_the_data_rescales_the_prediction(fitted):
    _, x, y = fitted
    plain = wt.ScaleMixtureRegressor(net=NET, learn=False).fit(x, y)
    scaled = wt.ScaleMixtureRegressor(net=NET, learn=False).fit(1e3 * x + 7, 1e-3 * y - 2)
    assert_allclose(scaled.predict(1e3 * x + 7), 1e-3 * plain.predict(x) - 2, rtol=1e-8)
    assert_allclose(scaled.predict_dist(1e3 * x + 7).std, 1e-3 * np.asarray(plain.predict_dist(x).std), rtol=1e-8)


def test_defaults_choose_learn_and_fit():
    """All defaults on scikit-learn's diabetes data: as good as ridge regression's R^2, calibrated within 5 points."""
    x, y = load_diabetes(return_X_y=True)
    model = wt.ScaleMixtureRegressor(choose_rows=100, learn_rows=200, max_iterations=15).fit(x[:300], y[:300])
    assert model.architecture_ in model.choice_.scores
    assert model.score(x[300:], y[300:]) > 0.4
    lower, upper = model.predict_interval(x[300:], 0.9)
    assert abs(np.mean((y[300:] > lower) & (y[300:] < upper)) - 0.9) < 0.05


@pytest.mark.parametrize("scale", [1e-300, 1e300])
@pytest.mark.parametrize("noise", ["scaled", "independent"])
def test_extreme_magnitudes(scale, noise):
    x = np.linspace(0.5, 1.0, 12)[:, None]
    model = wt.ScaleMixtureRegressor(net=NET, noise=noise, max_iterations=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        prediction = model.fit(x * scale, x[:, 0] * scale).predict(x * scale)
    assert_allclose(prediction / scale, x[:, 0], atol=0.1)


def test_targets_that_overflow_are_named():
    x = np.linspace(0.5, 1.0, 24)[:, None]
    with pytest.raises(ValueError, match=r"y has values up to 1e\+308"):
        wt.ScaleMixtureRegressor(net=NET).fit(x, x[:, 0] * 1e308)


@pytest.mark.parametrize("case", ["one row", "constant y", "duplicates", "constant column", "fewer rows than columns"])
def test_degenerate_data(case):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(15, 3)), rng.normal(size=15)
    if case == "one row":
        x, y = x[:1], y[:1]
    elif case == "constant y":
        y = np.full(15, 3.0)
    elif case == "duplicates":
        x, y = np.repeat(x, 3, 0), np.repeat(y, 3)
    elif case == "constant column":
        x[:, 1] = 4.0
    else:
        x = rng.normal(size=(15, 40))
    model = wt.ScaleMixtureRegressor(net=nn.mlp(1, "relu"), max_iterations=5).fit(x, y)
    dist = model.predict_dist(x)
    assert np.all(np.isfinite(dist.mean))
    assert np.all(np.isfinite(dist.log_prob(y)))


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"net": "mlp"}, "kernel must be a network"),
        ({"prior": 1.0}, "prior must be a prior"),
        ({"noise": "loud"}, "noise must be one of 'scaled', 'independent'"),
        ({"max_iterations": 0}, "max_iterations must be a positive integer; got 0"),
        ({"random_state": None}, "random_state must be an integer"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        wt.ScaleMixtureRegressor(**arguments).fit(np.ones((12, 2)), np.arange(12.0))


def test_bad_weights():
    model = wt.ScaleMixtureRegressor(net=NET)
    with pytest.raises(ValueError, match="must not be negative"):
        model.fit(np.eye(3), np.arange(3.0), sample_weight=[-1, 1, 1])
    with pytest.raises(ValueError, match="at least one non-zero"):
        model.fit(np.eye(3), np.arange(3.0), sample_weight=np.zeros(3))


def test_too_many_rows_are_refused_before_anything_starts(monkeypatch):
    monkeypatch.setattr("widetail.estimators._exact.available_memory", lambda: 1e6)
    with pytest.raises(
        MemoryError, match=r"Exact inference on 400 rows needs about 0.00166 GB.*SparseMixtureRegressor"
    ):
        wt.ScaleMixtureRegressor().fit(np.random.default_rng(0).normal(size=(400, 2)), np.zeros(400))


def test_saving_and_loading(fitted, tmp_path):
    model, x, y = fitted
    path = tmp_path / "model.widetail"
    model.save(path)
    loaded = wt.load(path)
    assert_allclose(loaded.predict(x), model.predict(x), rtol=0, atol=0)
    assert_allclose(loaded.predict_dist(x).log_prob(y), model.predict_dist(x).log_prob(y), rtol=0, atol=0)
    assert repr(loaded) == repr(model)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.widetail"]


def test_damaged_foreign_and_hostile_files(fitted, tmp_path):
    model, _, _ = fitted
    path = tmp_path / "model.widetail"
    model.save(path)
    good = path.read_bytes()

    def rewritten(change):
        return with_header(good, lambda described: change(described, fields(described)))

    def process(change):
        return rewritten(lambda _, parts: change(parts["learned"]["process_"]["fields"]))

    bad = {
        "empty": b"",
        "truncated": good[: len(good) // 2],
        "text": b"hello " * 50,
        "later version": rewritten(lambda h, _: h.update(version=99)),
        "another class": rewritten(lambda h, _: h["model"].update(kind="os.system")),
        "code as network": process(lambda f: f["kernel"].update(kind="os.system")),
        "no network": process(lambda f: f.update(kernel=None)),
        "unknown argument": rewritten(lambda _, f: f["parameters"].update(evil=1)),
        "negative noise": rewritten(
            lambda _, f: f["learned"]["process_"]["fields"]["noise"]["fields"].update(variance=-1.0)
        ),
    }
    for data in bad.values():
        path.write_bytes(data)
        with pytest.raises(ValueError, match="is not a widetail model, or it is damaged"):
            wt.load(path)
    with pytest.raises(FileNotFoundError, match="There is no file"):
        wt.load(tmp_path / "nothing")


def test_what_cannot_be_saved_says_so(tmp_path):
    x = np.linspace(0.0, 1.0, 12)[:, None]
    with pytest.raises(ValueError, match="numbers, not functions"):
        wt.ScaleMixtureRegressor(net=nn.mlp(1, _double), learn=False).fit(x, x[:, 0]).save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def _double(x):
    return 2 * x
