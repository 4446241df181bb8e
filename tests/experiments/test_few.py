"""The experiment on few rows, in miniature, and the functions that it draws from."""

import matplotlib
import numpy as np
import pytest
from numpy.testing import assert_allclose

import widetail as wt
from widetail.datasets import FUNCTIONS
from widetail.experiments import Results, Store, few, rows_of, run_tasks
from widetail.kernels import Anova

matplotlib.use("Agg")

TINY = few.FewConfig(tables=("griewank",), rows=(5, 8), draws=2, test_rows=16, max_iterations=4)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    with Store(tmp_path_factory.mktemp("few"), "few", TINY) as store:
        records = run_tasks(store, few.tasks(TINY), seed=0)
    return Results(TINY, "quick", rows_of(records), lambda *key: {})


@pytest.mark.slow
def test_every_model_is_scored_and_the_report_says_so(results):
    from widetail.experiments.report import Report, to_markdown

    assert len(results.rows) == 2 * 2 * 5 * 2
    found = few.EXPERIMENT.findings(results)
    text = to_markdown([Report("t", "l", found.sentences, {}, found.sections)], "figures")
    for part in ("scale fixed at 1, integrated", "8 rows", "Inverse gamma minus learned scale", "nats per row"):
        assert part in text
    assert "nan" not in text


def test_an_unfinished_run_is_reported_as_far_as_all_tables_have_come():
    scores = {"log_score": 1.0, "interval_score": 2.0, "in_95%": 0.9, "in_90%": 0.8, "rmse": 0.5}
    rows = [
        {"table": table, "n": n, "draw": 0, "prior": prior, "hyperparameters": hyper, **scores}
        for table, n in (("wing", 5), ("yacht", 5), ("wing", 10))
        for prior in ("learned", "fixed", "inverse gamma", "half-Cauchy", "Burr XII")
        for hyper in ("optimum", "integrated")
    ]
    found = few.EXPERIMENT.findings(Results(TINY, "full", rows, lambda *key: {}))
    assert "with 5 rows: median 0.00 nats" in found.sentences[0]
    assert "nan" not in " ".join(found.sentences)


@pytest.mark.slow
def test_scores_are_those_of_the_process_in_units_of_the_test_targets(results):
    """The fixed scale at its optimum, by hand: learned and conditioned anew, scored by scipy's normal law."""
    import scipy.stats

    (row,) = (
        row
        for row in results.rows
        if (row["n"], row["draw"], row["prior"], row["hyperparameters"]) == (8, 1, "fixed", "optimum")
    )
    x, y, x_test, y_test = FUNCTIONS["griewank"].draw(8, 16, noise=few.NOISE, seed=1)
    x_test, x = (x_test - x.mean(0)) / x.std(0), (x - x.mean(0)) / x.std(0)
    start = wt.ScaleMixture(Anova(np.full(10, 3.0), np.full(10, 0.15)), wt.PointMass(1.0), wt.ScaledNoise(0.05))
    fit = wt.fit_evidence(start, x, (y - y.mean()) / y.std(), restarts=1, max_iterations=4)
    dist = fit.process.posterior(x, (y - y.mean()) / y.std())(x_test)
    mean, std = (np.asarray(part) * y.std() for part in (dist.mean, dist.std))
    law = scipy.stats.norm((mean + y.mean()) / y_test.std(), std / y_test.std())
    assert_allclose(row["log_score"], np.mean(law.logpdf(y_test / y_test.std())))
    lower, upper = law.interval(0.95)
    target = y_test / y_test.std()
    outside = np.maximum(lower - target, 0) + np.maximum(target - upper, 0)
    assert_allclose(row["interval_score"], np.mean(upper - lower + 40 * outside))
    assert_allclose(row["in_95%"], np.mean(outside == 0))


@pytest.mark.parametrize(
    ("name", "point", "value"),
    [
        ("ackley", np.zeros(10), 0.0),
        ("griewank", np.zeros(10), 0.0),
        ("rosenbrock", np.ones(10), 0.0),
        ("rosenbrock", np.zeros(10), 9.0),
        ("dixon_price", 2.0 ** -((2.0 ** np.arange(1, 11) - 2) / 2.0 ** np.arange(1, 11)), 0.0),
        # the corner of light wings, by a calculator
        ("wing", np.array([150, 220, 6, 0, 16, 0.5, 0.08, 2.5, 1700, 0.025]), 156.1679),
    ],
)
def test_functions_have_their_known_values(name, point, value):
    assert_allclose(FUNCTIONS[name].function(point[None])[0], value, atol=1e-3 if name == "wing" else 1e-9)


def test_draws_lie_in_the_box_and_have_the_noise_that_they_say():
    law = FUNCTIONS["wing"]
    x, y, x_test, y_test = law.draw(100, 412, noise=0.1, seed=3)
    low, high = np.array(law.box).T
    assert np.all((low <= x_test) & (x_test <= high))
    noise = np.concatenate([y, y_test]) - law.function(np.concatenate([x, x_test]))
    assert np.std(noise) == pytest.approx(0.1 * np.std(law.function(x_test)), rel=0.1)  # 512 of them: 3 errors
