"""Networks of finite width: shapes, transformations, training, parametrisations."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from widetail import nn

from .zoo import COMPOSITIONS, named, over


@pytest.fixture
def inputs():
    return jnp.asarray(named("relu").generic(5, np.float32))


@over(COMPOSITIONS)
@pytest.mark.parametrize("parametrisation", ["ntk", "standard"])
def test_shapes(case, parametrisation):
    network = case.net.at_width(7, outputs=2, parametrisation=parametrisation)
    parameters = jax.eval_shape(lambda key: network.init(key, case.shape), jax.random.key(0))
    x = jax.ShapeDtypeStruct((5, *case.shape), jnp.float32)
    outputs = jax.eval_shape(network.apply, parameters, x)
    assert outputs.shape == (5, 2)
    assert outputs.dtype == jnp.float32
    features = jax.eval_shape(network.features, parameters, x)
    assert parameters["readout"].shape == (features.shape[1], 2)


@over([named(name) for name in ("ard", "attention_linear", "conv_valid_strides")], slow=("ard", "conv_valid_strides"))
def test_parametrisations_are_one_function_of_the_same_key(case, key):
    """Standard parameters are those of the NTK parametrisation times their standard deviations."""
    x = jnp.asarray(case.generic(4, np.float32))
    outputs = []
    for parametrisation in ("ntk", "standard"):
        network = case.net.at_width(9, parametrisation=parametrisation)
        outputs.append(jax.jit(lambda x, f=network: f.apply(f.init(key, case.shape), x))(x))
    np.testing.assert_allclose(*outputs, rtol=1e-4, atol=1e-5)


def test_parameters_have_the_variances_of_their_parametrisation(key):
    net = nn.Sequential(nn.Dense(weight_var=[0.5, 8.0], bias_var=0.25), nn.Relu())
    for parametrisation, stds in {"ntk": (1, 1, 1, 1), "standard": (0.5, 2.0, 0.5, 1 / np.sqrt(4000))}.items():
        parameters = net.at_width(4000, parametrisation=parametrisation).init(key, (2,))
        layer = parameters["body"][0]
        found = [np.std(v) for v in (layer["weight"][0], layer["weight"][1], layer["bias"], parameters["readout"])]
        np.testing.assert_allclose(found, stds, rtol=5 / np.sqrt(2 * 4000))  # five standard errors


def test_no_bias_parameters_for_a_bias_variance_of_zero(key):
    assert set(nn.Sequential(nn.Dense(weight_var=2.0), nn.Relu()).at_width(3).init(key, (2,))["body"][0]) == {"weight"}


@pytest.mark.parametrize("parametrisation", ["ntk", pytest.param("standard", marks=pytest.mark.slow)])
def test_trains_with_optax(parametrisation, inputs, key):
    network = nn.resnet(blocks=1).at_width(32, parametrisation=parametrisation)
    targets = jnp.sin(inputs[:, :1])
    parameters = network.init(key, inputs.shape[1:])
    optimiser = optax.adam(1e-2)

    @jax.jit
    def step(parameters, state):
        loss, gradient = jax.value_and_grad(lambda p: jnp.mean((network.apply(p, inputs) - targets) ** 2))(parameters)
        updates, state = optimiser.update(gradient, state, parameters)
        return optax.apply_updates(parameters, updates), state, loss

    state = optimiser.init(parameters)
    losses = []
    for _ in range(30):
        with jax.numpy_dtype_promotion("standard"):  # optax is not written for the strict one
            parameters, state, loss = step(parameters, state)
        losses.append(float(loss))
    assert losses[-1] < 0.5 * losses[0]


def test_vmap_over_networks_and_gradient_in_a_hyperparameter(inputs, key):
    def second_moment(weight_var):
        network = nn.Sequential(nn.Dense(weight_var=weight_var, bias_var=0.1), nn.Erf()).at_width(16)
        parameters = jax.vmap(lambda k: network.init(k, (3,)))(jax.random.split(key, 10))
        return jnp.mean(jax.vmap(lambda p: network.apply(p, inputs))(parameters) ** 2)

    assert float(jax.jit(jax.grad(second_moment))(1.5)) > 0


def test_dropout_needs_a_key(inputs, key):
    network = nn.Sequential(nn.Dense(weight_var=2.0), nn.Relu(), nn.Dropout(0.5)).at_width(400)
    parameters = network.init(key, (3,))
    kept = network.features(parameters, inputs)
    dropped = network.features(parameters, inputs, key=jax.random.key(1))
    is_zero = np.asarray(dropped)[np.asarray(kept) > 0] == 0
    assert abs(np.mean(is_zero) - 0.5) < 5 * 0.5 / np.sqrt(is_zero.size)  # five standard errors
    np.testing.assert_allclose(dropped[dropped > 0], 2 * kept[dropped > 0])
    assert not np.array_equal(dropped[0] == 0, dropped[1] == 0), "every input has a mask of its own"
