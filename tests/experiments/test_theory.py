"""The theory experiments in their quick version: right laws pass, wrong laws do not, distances fall with the width."""

import dataclasses

import matplotlib
import numpy as np
import pytest

from widetail.experiments import Results, Store, rows_of, run_tasks, theory
from widetail.experiments.report import Figure
from widetail.priors import InverseGamma, PointMass

matplotlib.use("Agg")


# Far too few and too narrow networks to say anything of the laws, but every part of the experiment.
TINY = dataclasses.replace(
    theory.TheoryConfig.quick(),
    priors=(InverseGamma(2.0, 2.0),),
    width=16,
    networks=40,
    all_layers_networks=20,
    deep_networks=20,
    steps=4,
    deep_steps=4,
    widths=(8, 16, 32),
    normals=1e5,
    most_bodies=100,
    literal_widths=(8,),
)


def run_one_by_one(config, folder):
    """The tasks one by one, and what is left of them on the disk."""
    with Store(folder, "theory", config) as store:
        run_tasks(store, theory.EXPERIMENT.tasks(config), seed=config.seed)
    with Store(folder, "theory", config) as store:
        by_part = {record["task"]["part"]: record for record in store.records.values()}
        arrays = {part: store.arrays(record) for part, record in by_part.items()}
        return Results(config, "quick", rows_of(store.records.values()), arrays.__getitem__)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return run_one_by_one(TINY, tmp_path_factory.mktemp("tiny"))


@pytest.mark.slow
def test_findings(tiny):
    found = theory.EXPERIMENT.findings(tiny)
    checks = theory.result_of(tiny).checks
    assert len(checks) == 9
    assert {check.laws for check in checks} == {9}  # the correction is for as many as there are
    passed = [sum(check.passed for check in checks if check.is_right == right) for right in (True, False)]
    assert f"**{passed[0]} of 4**" in found.sentences[0]
    assert f"**{passed[1]} of 5**" in found.sentences[0]
    assert [section.title for section in found.sections][-1] == "How this differs from the paper"
    figures = [part for section in found.sections for part in section.blocks if isinstance(part, Figure)]
    assert [figure.name for figure in figures] == [
        f"theory-{name}"
        for name in (
            "posteriors",
            "histograms",
            "tails",
            "tails-trained",
            "histograms-trained",
            "differences",
            "widths",
        )
    ]
    assert all(len(figure.png) > 10_000 for figure in figures)


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return theory.result_of(run_one_by_one(theory.TheoryConfig.quick(), tmp_path_factory.mktemp("theory")))


@pytest.mark.slow
def test_no_right_law_is_rejected(result):
    right = [check for check in result.checks if check.is_right]
    assert len(right) == 6  # two priors and a residual network, before and after training
    assert [check.name for check in right if not check.passed] == []


@pytest.mark.slow
def test_every_wrong_law_is_rejected(result):
    wrong = [check for check in result.checks if not check.is_right]
    assert sorted({check.law for check in wrong}) == [
        "Gaussian of the same variance",
        "a scale for every input",
        "posterior of the scale",
    ]
    assert [f"{check.name}: {check.law}" for check in wrong if not check.passed] == []
    # equal margins: only the joint law can tell
    shared = [check for check in wrong if check.law == "a scale for every input"]
    assert not any(check.comparison.rejects_margins() for check in shared)


@pytest.mark.slow
def test_all_layers(result):
    assert [part.family.name for part in result.all_layers] == ["erf", "residual", "erf, 3 hidden layers"]
    for part in result.all_layers:
        assert part.passed, part.family.title
    for part in result.all_layers[:2]:
        assert np.all(part.draws.losses < 1e-3 * (1 + part.draws.scales))


def test_the_law_of_training_for_a_time_against_every_step():
    """Location and covariance after each step of gradient descent on the linear limit, for two scales."""
    family = theory.trained_families(theory.TheoryConfig.quick())[-1]
    x, new = theory.X, theory.X_NEW
    k = family.net.kernel(np.concatenate([x, new]))
    nngp, ntk = (np.asarray(part, float) for part in (k.nngp, k.ntk))
    n = len(x)
    for scale in (0.3, 5.0):
        rate = 0.8 * n / (2 * scale * np.linalg.eigvalsh(ntk[:n, :n])[-1])
        step = np.eye(n + len(new))
        step[:, :n] -= 2 * rate / n * scale * ntk[:, :n]
        whole, location = np.eye(len(step)), np.zeros(len(step))
        for _ in range(family.steps):
            location = location + 2 * rate / n * scale * ntk[:, :n] @ (theory.Y - location[:n])
            whole = step @ whole
        covariance = scale * whole @ nngp @ whole.T
        law = dataclasses.replace(family, prior=PointMass(scale)).law
        np.testing.assert_allclose(law.mean, location[n:], atol=0.01)
        np.testing.assert_allclose(law.cov, covariance[n:, n:], atol=0.01 * scale * nngp.max())


@pytest.mark.slow
def test_distances_fall_like_one_over_the_width(result):
    for part in result.convergence:
        assert abs(part.rate + 1) < 0.1 + 3 * part.rate_error
    start, trained = result.convergence
    assert np.all(np.diff(trained.distances) < 0)
    assert np.all(start.distances < trained.distances)
    width, distance, null = result.literal[0]
    assert width == trained.widths[0]
    # networks themselves show the distance that was computed from bodies, within the resolution of a sample
    assert abs(distance - trained.distances[0]) < 2 * null


def test_fitted_rate_of_a_known_law():
    widths = np.array([16, 32, 64, 128])
    rng = np.random.default_rng(0)
    errors = 0.02 * 3.0 * widths**-1.5
    rate, error, constant = theory.fit_rate(widths, 3.0 * widths**-1.5 + errors * rng.normal(size=4), errors)
    assert abs(rate + 1.5) < 4 * error
    assert 0.003 < error < 0.05
    assert abs(np.log(constant / 3.0)) < 0.2


@pytest.mark.slow
def test_parts_on_the_disk_are_what_they_were_in_memory(result):
    config = theory.TheoryConfig.quick()
    in_memory = [check for family in theory.families(config).values() for check in theory.check_family(config, family)]
    for read, direct in zip(result.checks, in_memory, strict=True):
        assert (read.name, read.law, read.passed) == (direct.name, direct.law, direct.passed)
        np.testing.assert_array_equal(read.comparison.ks, direct.comparison.ks)
    direct = theory.train_all_layers(config, theory.trained_families(config)[0])
    read = result.all_layers[0]
    assert (read.distance, read.null_distance) == (direct.distance, direct.null_distance)
    convergence, literal = theory.measure_widths(config)
    assert [(part.rate, part.rate_error) for part in result.convergence] == [
        (p.rate, p.rate_error) for p in convergence
    ]
    assert result.literal == literal


@pytest.mark.slow
def test_the_full_version(tmp_path):
    assert theory.result_of(run_one_by_one(theory.TheoryConfig(), tmp_path)).passed
