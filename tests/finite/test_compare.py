"""Tests of laws: right ones pass, wrong ones do not."""

import jax
import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

from widetail import finite, plots, predictive
from widetail.finite._compare import _energy_of_uniform, _ks_of_uniform

V = np.array([[1.0, 0.6, 0.2], [0.6, 2.0, 0.4], [0.2, 0.4, 0.5]])
LOC = np.array([1.0, -2.0, 0.0])
LAW = predictive.StudentT(3.0, LOC, np.diag(V), V, scale=1.5)


def draws(count=600, seed=0, df=3.0, scale=1.5):
    """A law like `LAW` by NumPy: nothing to compile for every count, and nothing of the code under test."""
    rng = np.random.default_rng(seed)
    scales = scale * df / rng.chisquare(df, (count, 1))
    return LOC + np.sqrt(scales) * rng.multivariate_normal(np.zeros(3), V, count)


def test_distances_against_scipy():
    u = np.random.default_rng(0).random(200) ** 1.1
    ordered = np.sort(u)[:, None]
    assert_allclose(_ks_of_uniform(ordered)[0], scipy.stats.kstest(u, "uniform").statistic)
    test = scipy.stats.cramervonmises(u, "uniform")
    assert_allclose(_energy_of_uniform(ordered)[0], 2 * test.statistic / 200)
    # the definition of the energy distance, against a fine grid of the uniform law
    grid = (np.arange(4000) + 0.5) / 4000
    to_law = np.abs(u[:, None] - grid).mean()
    within = np.abs(u[:, None] - u).mean()
    assert_allclose(_energy_of_uniform(ordered)[0], 2 * to_law - within - 1 / 3, atol=1e-6)


def test_joint_energy_against_its_definition():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(40, 2)), rng.normal(size=(50, 2)) + 1.5
    found = finite._compare._joint_energy(a, b, 99, np.random.default_rng(0))

    def mean_distance(p, q):
        return np.mean(np.linalg.norm(p[:, None] - q, axis=-1))

    expected = 2 * mean_distance(a, b) - mean_distance(a, a) - mean_distance(b, b)
    assert_allclose(found["joint_energy"], expected, rtol=1e-4)
    assert found["joint_energy_pvalue"] == 0.01  # none of 99 permutations is as far apart


def test_p_values_of_the_right_law_are_uniform():
    """40 repetitions: none of the tests rejects more often at 5 % than 7 times (probability 1e-3 for each)."""
    found = [finite.compare(draws(count=60, seed=i), LAW, key=jax.random.key(i), permutations=99) for i in range(40)]
    for name in ("ks_pvalues", "energy_pvalues"):
        for column in range(3):
            assert sum(getattr(c, name)[column] < 0.05 for c in found) <= 7
    for name in ("joint_ks_pvalue", "joint_energy_pvalue"):
        p = np.array([getattr(c, name) for c in found])
        assert np.sum(p <= 0.05) <= 7
        assert 0.35 < np.mean(p) < 0.7  # the discrete test is on the careful side


def independent_scales(count, seed=1):
    rng = np.random.default_rng(seed)
    scales = 1.5 * 3.0 / rng.chisquare(3.0, (count, 3))
    return LOC + np.sqrt(scales) * rng.multivariate_normal(np.zeros(3), V, count)


def test_the_right_law_is_not_rejected_and_wrong_ones_are():
    values = draws()
    assert not finite.compare(values, LAW).rejects()
    assert not finite.compare(values, draws(seed=7)).rejects()
    gaussian = predictive.Normal(LOC, np.diag(V), V, scale=4.5)  # of the same variance
    assert finite.compare(values, gaussian).rejects_margins()
    assert finite.compare(values, predictive.StudentT(3.0, LOC, np.diag(V), V, scale=4.0)).rejects_margins()
    shifted = predictive.StudentT(3.0, LOC + np.array([0.3, 0.0, 0.0]), np.diag(V), V, scale=1.5)
    found = finite.compare(values, shifted)
    assert np.argmin(found.ks_pvalues) == 0
    assert found.rejects_margins()


def test_only_the_joint_law_sees_independent_scales():
    found = finite.compare(draws(count=2000), independent_scales(2000))
    assert not found.rejects_margins()
    assert found.rejects_joint()
    found = finite.compare(independent_scales(2000), LAW)
    assert not found.rejects_margins()
    assert found.rejects_joint()


def test_outputs_are_coordinates_too():
    law = predictive.StudentT(3.0, np.zeros((3, 2)), np.diag(V), V)
    found = finite.compare(np.asarray(law.sample(jax.random.key(0), (200,))), law)
    assert found.ks.shape == (6,)
    assert not found.rejects()


def test_infinite_variance_and_the_same_key_the_same_numbers():
    law = predictive.StudentT(1.0, LOC, np.diag(V), V)
    values = draws(300, df=1.0, scale=1.0)
    first, second = (finite.compare(values, law, key=jax.random.key(3)) for _ in range(2))
    assert not first.rejects()
    assert np.array_equal(first.joint_energy_null, second.joint_energy_null)
    assert "300 networks, 3 coordinates" in str(first)


def test_plot(tmp_path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    ax = plots.comparison(finite.compare(draws(), LAW))
    ax.figure.savefig(tmp_path / "differences.png")
    lines = [line for line in ax.lines if len(line.get_xdata()) == 600]
    assert len(lines) == 3
    assert max(np.max(np.abs(line.get_ydata())) for line in lines) < 0.1
    pyplot.close("all")


@pytest.mark.usefixtures("as_users_call")
def test_bad_input():
    with pytest.raises(ValueError, match="at least 20 networks"):
        finite.compare(draws(count=5), LAW)
    with pytest.raises(ValueError, match="same inputs"):
        finite.compare(draws()[:, :2], LAW)
    with pytest.raises(ValueError, match="NaN"):
        finite.compare(draws() * np.nan, LAW)
    with pytest.raises(ValueError, match="permutations"):
        finite.compare(draws(), LAW, permutations=5)
