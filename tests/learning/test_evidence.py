"""Gradients of the evidence against finite differences; what fitting reports."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import widetail as wt
from widetail import nn
from widetail.learning import Parameters
from widetail.learning._choose import _best, _sizes
from widetail.learning._objective import evidence_and_gradient
from widetail.process import RowFactors

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
Y = np.sin(X[:, 0] + 0.3 * X[:, 1]) + 0.1 * RNG.normal(size=30)
TWO = np.stack([Y, Y**2], 1)
ROWS = {"noise_weights": np.exp(RNG.normal(size=30)), "counts": np.arange(30) % 3 + 1.0}


# a closed form, and a quadrature for either noise; the others take one of these ways
LAWS = [
    (wt.ScaledNoise(0.05), wt.InverseGamma(2.0, 2.0)),
    (wt.ScaledNoise(0.05), wt.BurrXII(2.0, 2.0)),
    (wt.IndependentNoise(0.05), wt.BurrXII(2.0, 2.0)),
    *(
        pytest.param(*law, marks=pytest.mark.slow)
        for law in (
            (wt.IndependentNoise(0.05), wt.InverseGamma(2.0, 2.0)),
            (wt.ScaledNoise(0.05), wt.PointMass(0.7)),
            (wt.IndependentNoise(0.05), wt.PointMass(0.7)),
        )
    ),
]


@pytest.mark.parametrize(("noise", "prior"), LAWS, ids=repr)
@pytest.mark.parametrize("sharing", ["shared", pytest.param("per_output", marks=pytest.mark.slow)])
def test_gradient_against_finite_differences(noise, prior, sharing):
    """Weights per feature, biases, noise and the prior's parameters; central differences, 1e-6 relative."""
    net = nn.mlp(2, "erf", weight_var=np.array([1.0, 0.5, 2.0]), bias_var=0.2)
    process = wt.ScaleMixture(net, prior, noise, scale_sharing=sharing)
    parameters = Parameters(process, ("kernel", "noise", "prior"))
    point, step = parameters.start() + 0.1, 1e-5
    _, gradient = evidence_and_gradient(parameters, point, X, TWO, RowFactors.of(30, **ROWS))
    for index in range(len(point)):
        ends = []
        for sign in (1, -1):
            moved = point.copy()
            moved[index] += sign * step
            ends.append(parameters.process(moved).posterior(X, TWO, **ROWS).log_evidence)
        numeric = (ends[0] - ends[1]) / (2 * step)
        assert_allclose(gradient[index], numeric, rtol=1e-5, atol=1e-5 * np.abs(gradient).max())


def test_fitting_raises_the_evidence_and_finds_the_relevant_feature():
    process = wt.ScaleMixture(nn.mlp(2, "erf", weight_var=np.ones(3)))
    fit = wt.fit_evidence(process, X, Y, max_iterations=40)
    assert fit.log_evidence > process.posterior(X, Y).log_evidence + 5
    assert_allclose(fit.log_evidence, fit.process.posterior(X, Y).log_evidence, rtol=1e-9)
    relevance = np.asarray(fit.process.kernel.layers[0].weight_var)
    assert relevance[0] > 10 * relevance[2]
    assert "kernel.layers[0].weight_var[0]" in str(fit)


def test_weight_variances_of_a_relu_network_are_one_with_the_readout_variance():
    fit = wt.fit_evidence(wt.ScaleMixture(nn.mlp(2, "relu")), X, Y, max_iterations=5)
    assert fit.fixed == ["kernel.layers[0].weight_var", "kernel.layers[2].weight_var"]
    assert "one degree of freedom with the readout variance" in str(fit)


def test_hitting_a_bound_is_reported():
    x = np.linspace(-1.0, 1.0, 25)[:, None]
    fit = wt.fit_evidence(wt.ScaleMixture(wt.kernels.RBF()), x, x[:, 0] ** 2, max_iterations=60)
    assert "noise.variance" in fit.at_bounds


def test_restarts_subsets_and_progress():
    process = wt.ScaleMixture(wt.kernels.RBF())
    seen = []
    fit = wt.fit_evidence(process, X, Y, restarts=2, subset=20, max_iterations=10, progress=lambda *a: seen.append(a))
    assert fit.rows == 20
    assert len(fit.restarts) == 3
    assert fit.log_evidence == max(fit.restarts)
    assert seen[-1] == (30, 30)
    again = wt.fit_evidence(process, X, Y, restarts=2, subset=20, max_iterations=10)
    assert again.log_evidence == fit.log_evidence


def test_a_kernel_of_the_users_own_has_its_noise_learned():
    from sklearn.gaussian_process.kernels import RBF

    fit = wt.fit_evidence(wt.ScaleMixture(RBF(1.0)), X, Y, max_iterations=20)
    assert [name for name, _, _ in fit.learned] == ["noise.variance"]


CANDIDATES = {
    "constant": wt.ScaleMixture(
        nn.Sequential(nn.Dense(weight_var=1e-6, bias_var=1.0), nn.Erf()), noise=wt.ScaledNoise(0.5)
    ),
    "smooth": wt.ScaleMixture(wt.kernels.RBF()),
}


def test_choosing_prefers_what_explains_the_data():
    choice = wt.choose(CANDIDATES, X, Y, learn=("noise",), max_iterations=20)
    assert choice.name == "smooth"
    assert set(choice.scores) == set(CANDIDATES)
    assert "evidence" in str(choice)


def test_losers_are_dropped_on_few_rows():
    x = np.random.default_rng(0).normal(size=(700, 1))
    rbf = {f"length {length}": wt.ScaleMixture(wt.kernels.RBF(length)) for length in (0.02, 0.1, 0.8, 3.0, 40.0)}
    choice = wt.choose(rbf, x, np.sin(3.0 * x[:, 0]), learn=("noise",), max_iterations=3)
    assert choice.name == "length 0.8"
    assert choice.fit.rows == 700
    assert sorted(choice.rows.values()) == [350, 350, 350, 700, 700]
    # the best begin as they were given, not from what half of the rows said
    anew = wt.fit_evidence(rbf["length 0.8"], x, np.sin(3.0 * x[:, 0]), learn=("noise",), max_iterations=3)
    assert choice.fit.log_evidence == pytest.approx(anew.log_evidence)
    assert choice.scores["length 0.8"] == max(choice.scores.values())
    assert "(of 350 rows)" in str(choice)
    assert [_sizes(rows) for rows in (200, 600, 1000, 2000)] == [[200], [300, 600], [500, 1000], [500, 1000, 2000]]
    assert _sizes(4000) == [500, 1000, 2000]
    assert _best({"a": 0.1, "b": 0.5, "c": 0.49, "d": 0.4, "e": 0.485}) == ["b", "c", "e"]  # the third is close
    assert _best({"a": 0.1, "b": 0.5, "d": 0.4}) == ["b", "d"]


def test_a_round_of_few_rows_says_who_need_not_take_part_and_nothing_of_their_numbers(monkeypatch):
    x = np.random.default_rng(0).normal(size=(1000, 1))
    lengths = (0.02, 0.05, 0.1, 0.4, 0.8, 3.0, 40.0)
    rbf = {f"length {length}": wt.ScaleMixture(wt.kernels.RBF(length)) for length in lengths}
    begun: list[tuple[int, float]] = []

    def spied(process, x, *rest, **options):
        begun.append((len(x), process.noise.variance))
        return wt.fit_evidence(process, x, *rest, **options)

    monkeypatch.setattr("widetail.learning._choose.fit_evidence", spied)
    choice = wt.choose(rbf, x, np.sin(3.0 * x[:, 0]), learn=("noise",), max_iterations=100)
    assert choice.rows[choice.name] == 1000
    assert sorted(choice.rows.values()) == [250] * 5 + [1000] * 2
    given = rbf["length 0.8"].noise.variance
    assert all((noise == given) == (rows < 1000) for rows, noise in begun)
    unfinished = wt.choose(rbf, x, np.sin(3.0 * x[:, 0]), learn=("noise",), max_iterations=1)
    assert sorted(unfinished.rows.values())[0] == 500  # who did not get far in it is not judged by it


def test_learning_is_choosing_then_fitting_the_best():
    learned = wt.learning.learn(CANDIDATES, X, Y, choose_rows=20, max_iterations=30)
    assert learned.name == "smooth"
    assert list(learned.processes.values()) == [learned.process]
    assert learned.weights == (1.0,)
    assert learned.choice.fit.rows == 20
    again = wt.fit_evidence(learned.choice.fit.process, X, Y, max_iterations=30, tolerance=0.01 / len(Y))
    assert_allclose(learned.fit.log_evidence, again.log_evidence, rtol=1e-12)
    assert_allclose(learned.process.posterior(X, Y).log_evidence, again.log_evidence, rtol=1e-9)


def test_learning_one_process_or_from_few_rows():
    alone = wt.learning.learn(CANDIDATES["smooth"], X, Y, max_iterations=5)
    assert (alone.name, alone.choice) == ("given", None)
    assert alone.fit.rows == 30
    few = wt.learning.learn(CANDIDATES, X[:9], Y[:9])
    assert few.process is CANDIDATES["constant"]
    assert few.choice is few.fit is None
    assert wt.learning.learn(CANDIDATES["smooth"], X[:9], Y[:9], counts=np.full(9, 2.0), max_iterations=2).fit.rows == 9


def test_counts_of_one_are_no_counts():
    fit = wt.fit_evidence(CANDIDATES["smooth"], X, Y, max_iterations=3)
    counted = wt.fit_evidence(CANDIDATES["smooth"], X, Y, max_iterations=3, counts=np.ones(30))
    assert counted.log_evidence == fit.log_evidence


@pytest.mark.usefixtures("as_users_call")
def test_bad_input():
    process = wt.ScaleMixture(wt.kernels.RBF())
    with pytest.raises(ValueError, match="nothing to learn"):
        wt.fit_evidence(process, X, Y, learn=())
    with pytest.raises(ValueError, match="at least one process"):
        wt.choose({}, X, Y)
    with pytest.raises(ValueError, match="at least one process"):
        wt.learning.learn({}, X, Y)
