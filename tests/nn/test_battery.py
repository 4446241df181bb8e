"""What every kernel and its derivatives must satisfy, on every layer and several compositions.

One file, because a file of tests runs in one process: a network is compiled once for its values and derivatives.
"""

import equinox as eqx
import jax
import numpy as np
import pytest

from .evaluations import in_one_piece, in_tiles, loss_weights
from .zoo import ACTIVATIONS, ALIKE, EVERY, SLOW, named, over

# The same code serves every network here, so a few of each kind are enough.
SOME = [*ACTIVATIONS[:6], *map(named, ["ard", "concatenate", "attention_softmax", "conv_global_pool"])]


def assert_close(found, expected, relative):
    """Entries within `relative` times the largest one of the diagonal."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=relative * np.max(np.diagonal(expected)))


@over(EVERY)
def test_symmetric_and_positive_semi_definite(case):
    for k in in_tiles(case.name):
        np.testing.assert_array_equal(k, k.T)
        assert np.linalg.eigvalsh(k)[0] > -1e-10 * np.trace(k)


@over(EVERY)
def test_diagonal_agrees(case):
    for k, d in zip(in_tiles(case.name), case.net.diagonal(case.inputs()), strict=True):
        np.testing.assert_allclose(d, np.diagonal(k), rtol=1e-14)


# Between equal inputs the correlation is 1 up to rounding, and angles depend on the root of what is missing.
@over(EVERY, SLOW | ALIKE)
def test_tiles_agree_with_one_traced_function(case):
    for k, whole in zip(in_tiles(case.name), in_one_piece(case.name).values, strict=True):
        assert_close(whole, k, 1e-7)
        assert_close(whole[:3, :3], k[:3, :3], 2e-14)


@over(EVERY, SLOW | ALIKE)
def test_derivatives_are_finite_at_equal_opposite_and_zero_inputs(case):
    found = in_one_piece(case.name)
    for derivative in [*jax.tree.leaves(found.parameters), found.inputs]:
        assert np.all(np.isfinite(derivative))


def loss(k):
    weights = loss_weights(6)
    return np.vdot(k.nngp, weights.nngp) + np.vdot(k.ntk, weights.ntk)


def central_difference(kernel_at, step=1e-5):
    return (loss(kernel_at(step)) - loss(kernel_at(-step))) / (2 * step)


@over(EVERY, SLOW | ALIKE)
def test_finite_differences_in_the_parameters(case):
    parameters, rest = eqx.partition(case.net, eqx.is_inexact_array_like)
    # biases that are absent stay so: their variance cannot become negative
    direction = jax.tree.map(lambda p: np.where(p == 0, 0, 0.3 * np.ones_like(p)), parameters)

    def kernel_at(step):
        moved = jax.tree.map(lambda p, d: p + step * d, parameters, direction)
        return eqx.combine(moved, rest).kernel(case.inputs())

    gradient = in_one_piece(case.name).parameters
    expected = sum(np.vdot(g, d) for g, d in zip(jax.tree.leaves(gradient), jax.tree.leaves(direction), strict=True))
    np.testing.assert_allclose(central_difference(kernel_at), expected, rtol=1e-6, atol=1e-7)


@over(EVERY, SLOW | ALIKE)
def test_finite_differences_in_the_inputs(case):
    """Moving the inputs that have no equal and no opposite: with one of those, angles have a corner."""
    x = case.inputs()
    direction = np.random.default_rng(5).normal(size=x.shape)
    direction[[0, 3, 4, 5]] = 0
    found = central_difference(lambda step: case.net.kernel(x + step * direction))
    np.testing.assert_allclose(found, np.vdot(in_one_piece(case.name).inputs, direction), rtol=1e-6, atol=1e-7)


@over(SOME)
def test_cross_kernel_is_a_block_of_the_symmetric_one(case):
    x = case.inputs()
    for k, block in zip(in_tiles(case.name), case.net.kernel(x[:5], x[1:]), strict=True):
        np.testing.assert_allclose(block, k[:5, 1:], rtol=0, atol=1e-7 * np.max(k))
        np.testing.assert_allclose(block[0, :2], k[0, 1:3], rtol=1e-13)


def test_dropout_masks_of_one_input_on_both_sides_are_independent():
    case = named("dropout")
    x = case.inputs()
    symmetric, cross = case.net.kernel(x), case.net.kernel(x, x)
    for k, other in zip(symmetric, cross, strict=True):
        assert np.all(np.diagonal(other)[:3] < 0.99 * np.diagonal(k)[:3])
        np.testing.assert_allclose((other - np.diag(np.diagonal(other))), k - np.diag(np.diagonal(k)), atol=1e-7)


@over(SOME)
def test_what_is_asked_for(case):
    x = case.inputs()
    both = in_tiles(case.name)
    nngp, ntk = case.net.kernel(x, get="nngp"), case.net.kernel(x, get="ntk")
    assert nngp.ntk is None
    assert ntk.nngp is None
    np.testing.assert_array_equal(ntk.ntk, both.ntk)
    assert_close(nngp.nngp, both.nngp, 1e-14)


@over(SOME)
def test_single_precision_is_close(case):
    for single, double in zip(
        case.net.kernel(case.inputs(np.float32)), case.net.kernel(case.inputs(np.float32).astype(float)), strict=True
    ):
        assert single.dtype == np.float32
        assert_close(single[:3, :3], double[:3, :3], 3e-6)
        assert_close(single, double, 1e-3)  # equal and opposite inputs, as above


@pytest.mark.parametrize("name", ["relu", "conv_global_pool", "attention_softmax"])
def test_rows_may_come_in_any_order(name):
    case = named(name)
    order = np.array([4, 1, 5, 0, 3, 2])
    for k, shuffled in zip(in_tiles(name), case.net.kernel(case.inputs()[order]), strict=True):
        assert_close(shuffled, k[np.ix_(order, order)], 1e-7)
