"""Wrong targets and loud inputs: what is done to tables, what is scored, and reports of runs that are not finished."""

import numpy as np
import pytest
import scipy.stats

from widetail import metrics
from widetail.experiments import Results, noise
from widetail.experiments.noise import _cases as cases
from widetail.experiments.noise import _models as models

CONFIG = noise.NoiseConfig(tables=("diabetes",), functions=("griewank",), motorcycle_splits=2)


def table(rows=100):
    return cases.table("diabetes", 0, rows, 200, 0)


def test_rows_that_are_not_learned_from_are_test_rows():
    case = table()
    assert (len(case.y), len(case.y_test)) == (100, 200)
    known = {tuple(row) for row in case.x}
    assert not any(tuple(row) in known for row in case.x_test)
    assert np.array_equal(table().y, case.y)


@pytest.mark.parametrize("kind", ["shift", "scatter", "wrong sign"])
def test_wrong_targets(kind):
    case = table()
    few, many = (cases.spoilt(case, kind, share, 0) for share in (0.05, 0.2))
    changed = [np.flatnonzero(one.y != case.y) for one in (few, many)]
    assert [len(rows) for rows in changed] == [5, 20]
    assert set(changed[0]) < set(changed[1])
    moved = (many.y - case.y)[changed[1]]
    if kind == "shift":
        assert np.allclose(moved, 5 * np.std(case.y))
    elif kind == "wrong sign":
        assert np.allclose(many.y[changed[1]] + case.y[changed[1]], 2 * np.mean(case.y))
    else:
        assert 3 < np.std(moved) / np.std(case.y) < 7
    assert np.array_equal(many.y_test, case.y_test)
    assert set(many.wrong) == set(changed[1])
    known = many.without_wrong()
    assert len(known.y) == 80
    assert {(*x, y) for x, y in zip(known.x, known.y, strict=True)} < {
        (*x, y) for x, y in zip(case.x, case.y, strict=True)
    }


def test_noise_of_functions_grows_along_their_first_input():
    case = cases.loud_function("griewank", 0, 256, 2000, 0)
    quiet = cases.datasets.FUNCTIONS["griewank"].function
    residual = (case.y_test - quiet(case.x_test)) / np.std(quiet(case.x_test))
    place = (case.x_test[:, 0] + 600) / 1200
    for low in (0.0, 0.9):
        inside = (place >= low) & (place < low + 0.1)
        expected = 0.05 * np.exp(3.0 * (low + 0.05 - 0.5))
        assert np.isclose(np.std(residual[inside]), expected, rtol=5 / np.sqrt(2 * inside.sum()))


def test_scores_of_quantiles():
    rng = np.random.default_rng(0)
    sd = np.linspace(0.5, 2.0, 4000)
    y = sd * rng.normal(size=4000)
    quantiles = sd * scipy.stats.norm.ppf(models.LEVELS)[:, None]
    found = models.Forecast(np.zeros(4000), None, quantiles).scores(y)
    assert np.isclose(found["crps"], np.mean(metrics.crps_normal(np.zeros(4000), sd, y)), rtol=0.05)
    assert np.allclose(found["in_90%_by_width"], 0.9, atol=4 * np.sqrt(0.09 / 800))


def test_log_density_of_student_t_around_a_normal_law():
    said = {"location": np.zeros(1), "sd": np.full(1, 1e-6), "degrees": np.array(4.0), "scale": np.array(2.0)}
    y = np.array([1.5])
    assert np.isclose(models._nll_of_student_t(said, y), -scipy.stats.t.logpdf(1.5, 4, 0, 2.0))


def made_up(task, rng):
    row = {
        "rmse": rng.uniform(1, 2),
        "nll": 1.0,
        "crps": rng.uniform(1, 2),
        "in_90%": 0.9,
        "in_90%_by_width": [0.9] * 5,
    }
    about = {"measured": True, "noise": "rows"}
    return {**task.key, **row, **about, "seconds": 1.0, "processor_seconds": 1.0}


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_report_of_what_there_is(share):
    rng = np.random.default_rng(0)
    tasks = noise.tasks(CONFIG)
    assert len({str(task.key) for task in tasks}) == len(tasks)
    rows = [made_up(task, rng) for task in tasks[: round(share * len(tasks))]]
    found = noise.EXPERIMENT.findings(Results(CONFIG, "full", rows, lambda *key: {}))
    assert len(found.sections) == 7
    assert bool(found.sentences) == (share > 0)
