"""Limits of models as people write them: against layers, against programs, against finite draws of the models."""

import pickle
import warnings

import cloudpickle
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import widetail as wt
from tests.distributed.clusters import local_client
from tests.widening.cases import ALL, STYLES, inputs, widened
from tests.widening.models import equinox_models, plain_models
from widetail import distributed, nn, programs, widening
from widetail.files import fingerprint

QUICK = ("equinox mlp", "gated", "skip concatenation", "added heads", "layer norms", "columns", "ensemble", "experts")


@pytest.fixture
def as_models_are_written():
    with jax.numpy_dtype_promotion("standard"):  # few are written for the strict one, under which tests run
        yield


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in ALL])
@pytest.mark.usefixtures("as_models_are_written")
def test_agrees_with_layers_and_with_finite_draws(name):
    case, x = ALL[name], inputs(name, 3)
    wide = widened(name)
    assert case.engine in wide.info.engine
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", programs.QuasiMonteCarloWarning)
        warnings.simplefilter("ignore", programs.AccuracyWarning)
        if case.same is not None:
            values, expected = wide.kernel(x), case.same.kernel(x)
            for mine, theirs in zip(values, expected, strict=True):
                size = np.sqrt(np.outer(theirs.diagonal(), theirs.diagonal()))
                np.testing.assert_allclose(mine / size, theirs / size, rtol=0, atol=case.tolerance)
        found = wide.check(x, (256, 1024) if name in STYLES and name not in QUICK else (256,), draws=60)
    # second moments of 60 draws at the largest width, within 5 of their standard errors
    assert found.agrees, str(found)


@pytest.mark.parametrize("name", ["two layers", pytest.param("equinox cnn", marks=pytest.mark.slow)])
def test_both_engines_agree(name):
    x = inputs(name, 3)
    layers, program = widened(name, engine="nn").kernel(x), widened(name, engine="program").kernel(x)
    np.testing.assert_allclose(program.nngp, layers.nngp, rtol=1e-6)
    np.testing.assert_allclose(program.ntk, layers.ntk, rtol=1e-6)


@pytest.mark.parametrize(
    "name", ["trunk and gate", *(pytest.param(n, marks=pytest.mark.slow) for n in ("stem and attention", "sequential"))]
)
@pytest.mark.usefixtures("as_models_are_written")
def test_a_program_on_top_of_layers_is_as_a_program_alone(name):
    x = inputs(name, 3)
    both, alone = widened(name), widened(name, engine="program")
    assert both.info.engine == "as layers of nn and a tensor program on top"
    assert alone.info.engine == "as a tensor program"
    assert "layers:" in both.explain()
    assert "what the layers give" in both.explain()
    for other in (None, x[1:]):
        for mine, theirs in zip(both.kernel(x, other), alone.kernel(x, other), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-6 * np.max(theirs))


def test_it_is_a_kernel_as_any_other():
    x = inputs("equinox mlp", 6)
    y = np.sin(x[:, 0])
    wide = widened("equinox mlp")
    process = wt.ScaleMixture(wide, prior=wt.InverseGamma(2.0, 2.0), noise=wt.ScaledNoise(1e-2))
    same = wt.ScaleMixture(nn.mlp(2, "relu"), prior=wt.InverseGamma(2.0, 2.0), noise=wt.ScaledNoise(1e-2))
    np.testing.assert_allclose(process.posterior(x, y)(x[:2]).mean, same.posterior(x, y)(x[:2]).mean, rtol=1e-6)


def test_estimators_take_it_and_say_that_they_cannot_be_saved(tmp_path):
    x = inputs("equinox mlp", 24)
    y = np.sin(x[:, 0])
    options = {"learn": False, "calibrate": False, "standardise": False}
    mine = wt.ScaleMixtureRegressor(net=widened("equinox mlp"), **options).fit(x, y)
    same = wt.ScaleMixtureRegressor(net=nn.mlp(2, "relu"), **options).fit(x, y)
    np.testing.assert_allclose(mine.predict(x[:3]), same.predict(x[:3]), rtol=1e-6)
    with pytest.raises(ValueError, match=r"net=widen.*cannot be saved: it was read from a model of your own"):
        mine.save(tmp_path / "model.widetail")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_sparse_models_take_it():
    x = inputs("equinox mlp", 40)
    y = np.sin(x[:, 0])
    wide = widened("equinox mlp")
    mine = wt.SparseMixtureRegressor(net=wide, inducing=8, learn=False).fit(x, y)
    same = wt.SparseMixtureRegressor(net=nn.mlp(2, "relu"), inducing=8, learn=False).fit(x, y)
    np.testing.assert_allclose(mine.predict(x[:3]), same.predict(x[:3]), rtol=1e-4, atol=1e-4)


def test_workers_of_a_cluster_receive_it():
    wide, x = widened("equinox mlp"), inputs("equinox mlp", 4)
    other = jax.tree.map(lambda leaf: leaf * 1.5, wide)
    again = pickle.loads(pickle.dumps(other))
    np.testing.assert_array_equal(again.kernel(x).ntk, other.kernel(x).ntk)


def test_stores_know_it_again():
    """What was computed before goes on, in another process too: nothing of the name depends on where a model stands."""

    def read(var=1.0, width_of_hidden=1):
        def model(width, key):
            return eqx.nn.MLP(3, 1, width_of_hidden * width, 1, key=key)

        return wt.widen(model, (3,), variances={"*.weight": var})

    name = fingerprint(read())
    assert fingerprint(read()) == name
    assert fingerprint(read(var=2.0)) != name
    assert fingerprint(read(width_of_hidden=2)) != name
    assert fingerprint(jax.tree.map(lambda leaf: leaf * 1.5, read())) != name


def test_a_model_that_a_worker_cannot_build_says_so():
    """As classes of Equinox do that were defined in a script."""
    is_here = [True]

    def model(width, key):
        if not is_here[0]:
            raise AttributeError("cannot assign to field 'layers'")
        return eqx.nn.MLP(3, 1, width, 1, key=key)

    wide = widening.widen(model, (3,))
    is_here[0] = False  # in the copy
    with pytest.raises(
        RuntimeError, match=r"cannot assign to field.*a module that the workers of the cluster can import"
    ):
        cloudpickle.loads(cloudpickle.dumps(wide))


@pytest.mark.slow
def test_a_cluster_computes_it(tmp_path):
    x, store = inputs("equinox mlp", 40), tmp_path / "kernel.zarr"
    with local_client() as client:
        first, second = (
            distributed.gram(widened("equinox mlp"), x, client, store, block=16, progress=False) for _ in range(2)
        )
    assert first.computed > second.computed == 0  # the same model, read again, finds what was computed
    np.testing.assert_allclose(second.array[:], widened("equinox mlp").kernel(x, get="nngp").nngp, rtol=1e-12)


def test_the_users_model_comes_back():
    wide = widened("equinox mlp")
    finite = wide.at_width(8)
    params = finite.init(jax.random.key(0))
    model = finite.model(params)
    x = inputs("equinox mlp").astype(np.float32)
    np.testing.assert_allclose(finite.apply(params, x), jax.vmap(model)(x), rtol=1e-5)
    assert model.layers[0].weight.shape == (8, 3)


def test_explain_names_parameters_and_lines():
    text = widened("tied").explain()
    assert "w  matrix, entries N(0, 1 / fan-in)" in text
    assert "plain_models.py" in text
    assert "readout: v, variance 1" in text
    assert "nn.Relu()" in widened("equinox mlp").explain()


def test_a_model_that_divides_by_the_root_of_its_fan_in_itself():
    def init(width, key):
        keys = jax.random.split(key, 3)
        shapes = {"u": (3, width), "w": (width, width), "v": (width, 1)}
        return {name: jax.random.normal(k, shapes[name]) for name, k in zip(shapes, keys, strict=True)}

    def apply(p, x):
        n = p["w"].shape[0]
        return jnp.tanh(jnp.tanh(x @ p["u"] / 3**0.5) @ p["w"] * (1.5 / n**0.5)) @ p["v"] / n**0.5

    def scaled_weights(p, x):
        n = p["w"].shape[0]
        return jnp.tanh(jnp.tanh(x @ p["u"] / 3**0.5) @ (p["w"] * (1.5 / n**0.5))) @ (p["v"] / n**0.5)

    wide = wt.widen((init, apply), (3,), variances="from_init")
    fast = wt.widen((init, scaled_weights), (3,), variances="from_init")
    assert "layers" in fast.info.engine
    variances = wide.info.variances
    net = nn.Sequential(
        nn.Dense(weight_var=variances["u"] / 3), nn.Tanh(), nn.Dense(weight_var=1.5**2 * variances["w"]), nn.Tanh()
    )  # "u" has no wide axis to be summed over, so its law is told times fan-in
    x = inputs("two layers", 3)
    for found in (wide, fast):
        np.testing.assert_allclose(found.kernel(x).ntk, net.kernel(x).ntk, rtol=1e-6)
    deviations = wide.at_width(64).deviations
    assert deviations["w"] == pytest.approx(1.0, rel=0.02)
    assert deviations["v"] == 1.0
    assert "entries N(0, 1)" in wide.explain()


def test_biases_of_heads_that_init_leaves_at_zero_are_biases():
    def init(width, key):
        return plain_models.normal(key, u=(3, width), v=(width, 1)) | {"b": jnp.zeros((2, width))}

    def apply(p, x):
        return (jnp.tanh(x @ p["u"] + p["b"][0]) + jnp.tanh(x @ p["u"] + p["b"][1])) @ p["v"]

    x = inputs("two layers", 3)
    expected = nn.Sequential(nn.Dense(), nn.Tanh()).kernel(x).nngp
    np.testing.assert_allclose(wt.widen((init, apply), (3,)).kernel(x).nngp, 4 * expected, rtol=1e-6)
    assert wt.widen((init, apply), (3,), variances={"b": 2.0}).info.variances["b"] == 2.0


def test_an_activation_of_a_multiple_has_its_closed_form():
    def apply(p, x):
        return jax.nn.relu(0.5 * (jnp.tanh(x @ p["u"]) @ p["w"])) @ p["v"]

    def init(width, key):
        return plain_models.normal(key, u=(3, width), w=(width, width), v=(width, 1))

    x = inputs("two layers", 3)
    net = nn.Sequential(nn.Dense(), nn.Tanh(), nn.Dense(weight_var=0.25), nn.Relu())
    found, expected = wt.widen((init, apply), (3,), engine="program").kernel(x), net.kernel(x)
    np.testing.assert_allclose(found.nngp, expected.nngp, rtol=1e-9)
    np.testing.assert_allclose(found.ntk, expected.ntk, rtol=1e-9)


@pytest.mark.usefixtures("as_models_are_written")
def test_whole_numbers_are_checked():
    wide = widened("equinox tokens")
    with pytest.raises(ValueError, match="x1 must hold whole numbers"):
        wide.kernel(np.full((2, 4), 0.5))

    def init(width, key):
        return plain_models.normal(key, t=(5, width), v=(width, 1))

    def apply(p, x):
        return jnp.tanh(jnp.take(p["t"], x[:, 0].astype(int), axis=0)) @ p["v"]

    with pytest.raises(ValueError, match="a row that a table does not have"):
        wt.widen((init, apply), (1,)).kernel(np.array([[0.0], [7.0]]))


def test_several_widths_grow_together():
    def make(widths, key):
        return eqx.nn.Sequential(
            [
                eqx.nn.Linear(3, widths[0], key=key),
                eqx.nn.Lambda(jnp.tanh),
                eqx.nn.Linear(widths[0], widths[1], key=key),
                eqx.nn.Lambda(jnp.tanh),
                eqx.nn.Linear(widths[1], 1, key=key),
            ]
        )

    wide = wt.widen(make, (3,), widths=((24, 36), (48, 72), (120, 180)))
    x = inputs("two layers", 3)
    same = nn.mlp(2, "tanh", weight_var=1.0, bias_var=0.0)
    np.testing.assert_allclose(wide.kernel(x).ntk, same.kernel(x).ntk, rtol=1e-6)
    assert wide.at_width((20, 30)).init(jax.random.key(0))["layers.2.weight"].shape == (30, 20)
    with pytest.raises(ValueError, match="proportions"):
        wide.at_width((20, 20))


def test_parameters_without_a_wide_axis_are_as_told():
    def init(width, key):
        return plain_models.normal(key, u=(3, width), v=(width, 1)) | {"temp": jnp.asarray(2.0), "shift": jnp.ones(3)}

    def apply(p, x):
        return jnp.tanh((x + p["shift"]) @ p["u"] / p["temp"]) @ p["v"]

    x = inputs("two layers", 3)
    net = nn.Sequential(nn.Dense(weight_var=0.25), nn.Tanh())
    np.testing.assert_allclose(wt.widen((init, apply), (3,)).kernel(x).nngp, net.kernel(x + 1.0).nngp, rtol=1e-6)
    told = wt.widen((init, apply), (3,), constants={"temp": 1.0, "shift": [0.0, 1.0, 2.0]})
    expected = nn.Sequential(nn.Dense(), nn.Tanh()).kernel(x + np.arange(3.0))
    np.testing.assert_allclose(told.kernel(x).nngp, expected.nngp, rtol=1e-6)
    drawn = wt.widen((init, apply), (3,), variances={"shift": 4.0})
    shift = np.asarray(drawn.at_width(8).constants["shift"])
    assert 0.5 < np.std(shift) < 4.0
    np.testing.assert_allclose(drawn.kernel(x).nngp, net.kernel(x + shift).nngp, rtol=1e-6)
    assert "one draw of N(0, 4)" in drawn.explain()


def test_the_first_kernel_says_that_there_is_a_check():
    wide, x = wt.widen(plain_models.two_layers, (3,)), inputs("two layers", 3)
    with pytest.warns(widening.UncheckedWarning, match=r"check\(x\)"):
        wide.kernel(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wide.kernel(x)
    wide = wt.widen(plain_models.two_layers, (3,))
    wide.check(x, (16,), draws=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wide.kernel(x)


def test_variances_from_init():
    wide = wt.widen(plain_models.two_layers, (3,), variances="from_init")
    assert wide.info.variances["w2"] == pytest.approx(1.0, rel=0.05)
    assert wide.info.variances["w1"] == pytest.approx(1.0, rel=0.1)


@pytest.mark.slow
def test_uniform_weights_of_equinox_have_a_third():
    wide = wt.widen(equinox_models.mlp, (3,), variances="from_init")
    assert wide.info.variances["layers.1.weight"] == pytest.approx(1 / 3, rel=0.05)
    assert wide.info.variances["layers.1.bias"] == 0
