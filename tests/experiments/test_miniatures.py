"""The experiments in miniature, on small data: from the first row to the report."""

import matplotlib
import numpy as np
import pytest
from numpy.testing import assert_allclose

import widetail as wt
from widetail import datasets, metrics
from widetail.estimators import _exact
from widetail.experiments import (
    Results,
    Store,
    ensembles,
    gaussian_classification,
    reproduce,
    rows_of,
    run_tasks,
    uci,
)
from widetail.experiments.gaussian_classification import best_prior
from widetail.experiments.reporting import pooled_reliability
from widetail.experiments.uci import MODELS, EnsembleSettings, gaussian_processes

matplotlib.use("Agg")

TINY = EnsembleSettings(members=2, width=8, steps=20, activations=("relu",), learning_rates=(0.01,))
UCI = uci.UciConfig(tables=("diabetes",), splits=2, most_rows_to_relearn=20, ensemble=TINY)
ENSEMBLES = ensembles.EnsembleConfig(
    images=("digits",),
    seeds=2,
    rows=120,
    test_rows=100,
    members=2,
    width=4,
    max_epochs=2,
    corruptions=(),
    trainings=("clean", "left_out"),
)
GAUSSIAN = gaussian_classification.GaussianClassificationConfig(
    images=("digits",), corrupted=(), seeds=2, rows=250, test_rows=100, choose_rows=100, learn_rows=250
)


def results_of(experiment, config, folder):
    with Store(folder, "tiny", config) as store:
        records = run_tasks(store, experiment.tasks(config), seed=config.seed)
    return Results(config, "quick", rows_of(records), lambda *key: {})


@pytest.fixture(scope="module")
def small_table():
    """Sixty rows, two features."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    train, test = datasets.standard_splits(60)
    y = 100.0 + 50.0 * np.sin(x[:, 0]) + 5.0 * rng.normal(size=60)
    return datasets.Regression("diabetes", x, y, train, test, ("a", "b"), "y")


@pytest.fixture(scope="module")
def regression(small_table, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("widetail.experiments.uci._experiment.load_regression", lambda name: small_table)
        # one architecture to compile in place of four
        patch.setattr(_exact, "default_networks", lambda features: {"erf, depth 1": wt.nn.mlp(1, "erf")})
        yield results_of(uci.EXPERIMENT, UCI, tmp_path_factory.mktemp("uci"))


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory):
    return results_of(ensembles.EXPERIMENT, ENSEMBLES, tmp_path_factory.mktemp("ensemble"))


@pytest.fixture(scope="module")
def gaussian(tmp_path_factory):
    return results_of(gaussian_classification.EXPERIMENT, GAUSSIAN, tmp_path_factory.mktemp("gaussian"))


def texts(found):
    from widetail.experiments.report import Report, to_markdown

    return to_markdown([Report("t", "l", found.sentences, {}, found.sections)], "figures")


def test_every_model_is_scored_on_every_split(regression):
    assert [(row["split"], row["model"]) for row in regression.rows] == [
        (split, model) for split in (0, 1) for model in ("Inverse gamma", "NNGP", "Burr XII", "RBF, ARD", "Ensemble")
    ]
    assert {row["model"] for row in regression.rows} == set(MODELS)
    for row in regression.rows:
        assert sum(row["pit_counts"]) == 6
        assert 0 <= row["in_50%"] <= row["in_90%"] <= row["in_95%"] <= 1
        if row["model"] != "Ensemble":  # twenty steps train nothing
            assert 2.0 < row["nll"] < 5.0  # of the noise alone 3.0, of the spread of the targets 5.0
            assert row["rmse"] < 20


def test_the_inverse_gamma_column_is_the_regressor_with_its_prior(regression, small_table):
    """An independent way to the same numbers: the public estimator, told what was chosen."""
    (row,) = (row for row in regression.rows if (row["split"], row["model"]) == (0, "Inverse gamma"))
    split = small_table.split(0)
    learned = wt.ScaleMixtureRegressor(calibrate=False).fit(split.x_train, split.y_train)
    assert learned.architecture_ == row["architecture"]
    a, b = (float(part.split("=")[1]) for part in row["prior"].removesuffix(")").split(","))
    options = {"net": learned.process_.kernel, "noise": learned.process_.noise, "learn": False}
    model = wt.ScaleMixtureRegressor(prior=wt.InverseGamma(a, b), **options).fit(split.x_train, split.y_train)
    dist = model.predict_dist(split.x_test)
    assert_allclose(row["nll"], -model.log_score(split.x_test, split.y_test), rtol=1e-6)
    assert_allclose(row["crps"], metrics.crps(dist, split.y_test), rtol=1e-6)
    assert_allclose(row["in_90%"], metrics.coverage(dist, split.y_test, 0.9))
    assert_allclose(row["rmse"], metrics.rmse(model.predict(split.x_test), split.y_test), rtol=1e-9)
    own = wt.ScaleMixtureRegressor(prior=wt.InverseGamma(a, b), calibrate=False, **options)
    assert_allclose(row["nll_own"], -own.fit(split.x_train, split.y_train).log_score(split.x_test, split.y_test))


def test_regression_report(regression):
    text = texts(uci.EXPERIMENT.findings(regression))
    for part in ("diabetes", "NLL of y in original units", "noise-free function f", "Seconds for one split", "CRPS"):
        assert part in text
    assert "nan" not in text


def test_the_best_prior_has_the_largest_evidence():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 2)), 3.0 * rng.normal(size=30)
    posterior = wt.ScaleMixture(wt.kernels.RBF(), noise=wt.ScaledNoise(0.5)).posterior(x, y)

    def evidence(prior):
        return wt.ScaleMixture(wt.kernels.RBF(), prior, wt.ScaledNoise(0.5)).posterior(x, y).log_evidence

    point = best_prior(posterior, None)
    v = float(point.v)
    assert evidence(point) > max(evidence(wt.PointMass(1.01 * v)), evidence(wt.PointMass(v / 1.01)))
    best = best_prior(posterior, wt.InverseGamma)
    assert_allclose(posterior.with_prior(best).log_evidence, evidence(best), rtol=1e-12)
    grid = (0.5, 1.0, 2.0, 3.0, 4.0)
    assert_allclose(evidence(best), max(evidence(wt.InverseGamma(a, b)) for a in grid for b in grid), rtol=1e-12)


def test_large_tables_share_the_kernel(regression):
    """More rows than `most_rows_to_relearn` here: only the prior differs."""
    found = {row["model"]: row for row in regression.rows if row["split"] == 0}
    assert found["NNGP"]["noise"] == found["Burr XII"]["noise"] == found["Inverse gamma"]["noise"]
    assert_allclose(found["NNGP"]["rmse"], found["Inverse gamma"]["rmse"], rtol=1e-9)
    assert found["NNGP"]["log_evidence"] > found["Inverse gamma"]["log_evidence"]


@pytest.mark.slow
def test_small_tables_learn_on(small_table):
    found = {it.model: it for it in gaussian_processes(small_table.split(0), most_rows_to_relearn=100, seed=0)}
    noises = {found[model].about["noise"] for model in ("NNGP", "Inverse gamma", "Burr XII")}
    assert len(noises) == 3
    evidences = [found[model].about["log_evidence"] for model in ("NNGP", "Inverse gamma")]
    assert evidences[0] > evidences[1] - 0.1


@pytest.mark.slow
def test_ensembles(ensemble):
    trainings = ENSEMBLES.trainings
    keys = [(row["seed"], row["training"], row["model"]) for row in ensemble.rows]
    assert keys == [(s, t, m) for s in (0, 1) for t in trainings for m in ("plain", "mixture")]
    for row in ensemble.rows:
        assert np.isfinite(row["nll"])
        assert ("auroc" in row) == (row["training"] == "left_out")
        assert sum(row["bin_counts"]) == 100
        assert row["nll_of_logits"] != row["nll"]
    text = texts(ensembles.EXPERIMENT.findings(ensemble))
    for part in ("Digits classes left out", "mixture minus plain", "AUROC", "mean over classes too", "of mean outputs"):
        assert part in text


@pytest.mark.slow
def test_gaussian_classification(gaussian):
    assert len(gaussian.rows) == 2
    for row in gaussian.rows:
        assert row["accuracy"] > 0.7
        mixture, learned, fixed = (row["targets"][n]["nll"] for n in ("Inverse gamma", "NNGP", "NNGP, variance 1"))
        assert abs(mixture - learned) < 0.01  # 1200 targets tell the readout variance
        assert learned < fixed + 0.01
    text = texts(gaussian_classification.EXPERIMENT.findings(gaussian))
    for part in ("standard deviation of thousands", "GP, variance 1", "Class probabilities", "one-hot"):
        assert part in text


def test_pooled_bins_against_all_points_at_once():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), size=300)
    labels = rng.integers(0, 4, size=300)
    parts = []
    for rows in np.split(np.arange(300), [70, 150]):
        binned = metrics.reliability(p[rows], labels[rows])
        parts.append(
            {
                "bin_counts": binned.counts,
                "bin_confidence": np.nan_to_num(binned.confidence),
                "bin_accuracy": np.nan_to_num(binned.accuracy),
            }
        )
    pooled, whole = pooled_reliability(parts), metrics.reliability(p, labels)
    assert_allclose(pooled.counts, whole.counts)
    filled = whole.counts > 0
    assert_allclose(pooled.confidence[filled], whole.confidence[filled])
    assert_allclose(pooled.accuracy[filled], whole.accuracy[filled])
    assert_allclose(pooled.ece, whole.ece)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uci", "gaussian-classification", "ensemble", "theory"])
def test_quick_runs_on_real_data(name, data_folder, tmp_path):
    from .browser import look_at

    page = reproduce(name, out=tmp_path / name, progress=False)
    seen = look_at(page, tmp_path)
    assert all(width > 100 for width in seen["images"])
    assert seen["errors"] == seen["console"] == seen["fetched"] == []
