"""A program is a kernel like any other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import widetail as wt
from widetail import programs
from widetail.kernels import KernelValues

from .zoo import CASES, GRU, RAGGED, named, over

SOME = [named(name) for name in ("layer_norm_mlp", "packed_rnn", "self_attention")]


@over(SOME, slow=[named("self_attention")])
def test_symmetric_positive_semi_definite_and_right_on_the_diagonal(case):
    x = case.inputs() if case.name != "layer_norm_mlp" else case.x
    k = case.program.kernel(x, get="nngp").nngp
    np.testing.assert_array_equal(k, k.T)
    assert np.linalg.eigvalsh(k)[0] > -1e-10 * np.trace(k)
    np.testing.assert_allclose(case.program.diagonal(x, get="nngp").nngp, np.diagonal(k), rtol=1e-14)
    np.testing.assert_allclose(case.program.kernel(x[:2], x[2:], get="nngp").nngp, k[:2, 2:], rtol=1e-7, atol=1e-9)


@over([named("rnn"), named("layer_norm_mlp")], slow=[named("rnn")])
def test_traced_and_single_precision(case):
    k = case.program.kernel(case.x, get="nngp").nngp
    with jax.enable_x64(True):
        traced = jax.jit(lambda x: case.program.kernel(x, get="nngp").nngp)(jnp.asarray(case.x))
    np.testing.assert_allclose(traced, k, rtol=1e-12, atol=1e-14)
    single = case.program.kernel(case.x.astype(np.float32), get="nngp").nngp
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, k, rtol=1e-4, atol=1e-5)


def test_many_tiles_agree_with_one():
    x = np.random.default_rng(0).normal(size=(300, 3, 2))
    program = programs.averaged_rnn(fn=jax.scipy.special.erf)
    k = program.kernel(x, get="nngp").nngp
    some = [0, 1, 150, 299]
    np.testing.assert_allclose(program.kernel(x[some], get="nngp").nngp, k[np.ix_(some, some)], rtol=1e-12)


@over([named("packed_rnn"), named("layer_norm_mlp")], slow=[named("packed_rnn")])
def test_gradients_to_the_variances(case):
    """The pull-back against central differences of the kernel itself."""
    rng = np.random.default_rng(0)
    g = rng.normal(size=(len(case.x), len(case.x)))
    found = case.program.pull_back(KernelValues(nngp=g), case.x).variances
    assert set(found) == set(case.program.variances)
    for name, value in case.program.variances.items():
        step = 1e-4 * value
        ends = [
            np.sum(g * case.program.with_variances(**{name: value + sign * step}).kernel(case.x, get="nngp").nngp)
            for sign in (1, -1)
        ]
        np.testing.assert_allclose(found[name], (ends[0] - ends[1]) / (2 * step), rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_gradients_under_jax():
    x = named("rnn").x

    def loss(var):
        return programs.rnn.with_variances(W=var).kernel(x, get="nngp").nngp.sum()

    with jax.enable_x64(True):
        found = jax.grad(loss)(jnp.asarray(1.6))
    ends = [np.sum(programs.rnn.with_variances(W=v).kernel(x, get="nngp").nngp) for v in (1.6 + 1e-4, 1.6 - 1e-4)]
    np.testing.assert_allclose(found, (ends[0] - ends[1]) / 2e-4, rtol=1e-6)


def test_sequences_of_unequal_length():
    """Every pair by the recursion that it has by itself, in plain NumPy: the two end together."""
    program = programs.packed_rnn(fn=jax.scipy.special.erf)

    def moment(a, b):
        length = min(len(a), len(b))
        k = 0.0
        for x, y in zip(a[len(a) - length :], b[len(b) - length :], strict=True):
            kab = 1.6 * k + 0.8 * x @ y / 3 + 0.1
            kaa, kbb = (variances[id(s)][step] for s, step in ((a, id_step(a, x)), (b, id_step(b, y))))
            k = 2 / np.pi * np.arcsin(2 * kab / np.sqrt((1 + 2 * kaa) * (1 + 2 * kbb)))
        return k

    def id_step(sequence, x):
        return next(step for step, row in enumerate(sequence) if row is x or np.array_equal(row, x))

    variances = {}
    for sequence in RAGGED:
        k, found = 0.0, []
        for x in sequence:
            v = 1.6 * k + 0.8 * x @ x / 3 + 0.1
            found.append(v)
            k = 2 / np.pi * np.arcsin(2 * v / (1 + 2 * v))
        variances[id(sequence)] = found
    expected = [[moment(a, b) for b in RAGGED] for a in RAGGED]
    np.testing.assert_allclose(program.kernel(programs.pack(RAGGED), get="nngp").nngp, expected, rtol=1e-12)


def test_scale_mixtures_take_programs():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 4, 2))
    y = np.tanh(x[:, -1, 0] + 0.5 * x[:, 0, 1])
    process = wt.ScaleMixture(programs.rnn, prior=wt.InverseGamma(2.0, 2.0), noise=wt.ScaledNoise(1e-3))
    posterior = process.posterior(x[:20], y[:20])
    k = programs.rnn.kernel(x, get="nngp").nngp
    mean = k[20:, :20] @ np.linalg.solve(k[:20, :20] + 1e-3 * np.eye(20), y[:20])
    np.testing.assert_allclose(posterior(x[20:]).mean, mean, rtol=1e-8, atol=1e-10)


@pytest.mark.slow
def test_learning_the_variances():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(25, 3, 2))
    y = np.tanh(x[:, -1, 0])
    process = wt.ScaleMixture(programs.rnn, prior=wt.InverseGamma(2.0, 2.0), noise=wt.ScaledNoise(1e-2))
    fit = wt.fit_evidence(process, x, y, learn=("kernel",))
    before, after = (p.posterior(x, y).log_evidence for p in (process, fit.process))
    assert after > before + 1
    assert fit.process.kernel.variances["W"] != programs.rnn.variances["W"]


@pytest.mark.slow
def test_quasi_monte_carlo_says_so_and_how_well():
    with pytest.warns(programs.QuasiMonteCarloWarning, match="quasi-Monte Carlo with 2048 points.*standard error"):
        k = GRU.program.kernel(GRU.x, get="nngp").nngp
    found = GRU.program.accuracy(GRU.x)
    assert {entry.method for entry in found} == {"quasi-Monte Carlo"}
    assert all(entry.error < 0.05 * entry.size for entry in found), found
    assert np.linalg.eigvalsh(k)[0] > -0.01 * np.trace(k)


def test_explanations():
    text = str(programs.explain(programs.packed_rnn, (2, 4)))
    assert "A  W" in text
    assert "= 1 where x[0] is present, else 0" in text
    dot = programs.explain(programs.rnn, (2, 3)).dot()
    assert dot.count('"A U" -> ') == 2
    assert dot.startswith("digraph program {")


@over(CASES, slow=[case for case in CASES if case.name not in ("packed_rnn", "self_attention")])
def test_a_drawing(case):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    axes = programs.explain(case.program, case.x.shape[1:]).draw()
    assert len(axes.texts) >= len(case.program.graph(case.x.shape[1:]).needed())
    plt.close(axes.figure)
