"""The polynomials for arc functions against 50-digit arithmetic."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from widetail.gaussian import arc

mpmath.mp.dps = 50


def correlations(dtype):
    """All over [-1, 1], and close to its middle and ends."""
    eps = np.finfo(dtype).eps
    small = np.concatenate([[0], np.logspace(-18, -2, 17), [eps, 0.1, 0.5 - eps, 0.5, 0.5 + eps]])
    positive = np.unique(np.concatenate([small, 1 - small, np.linspace(0, 1, 101)]).astype(dtype))
    positive = positive[(positive < 1 - 8 * eps) | (positive == 1)]  # in between they are taken for 1
    return np.concatenate([-positive[::-1], positive])


def half_space(c):
    return (mpmath.pi - mpmath.acos(c)) / mpmath.pi


def ramp(c):
    return (mpmath.sqrt(1 - c * c) + (mpmath.pi - mpmath.acos(c)) * c) / mpmath.pi


FUNCTIONS = {"half_space": half_space, "ramp": ramp, "arcsin": mpmath.asin}


def evaluate(fn, c):
    with jax.enable_x64(c.dtype == np.float64):
        return np.asarray(jax.jit(fn)(jnp.asarray(c)))


# In units of the last digit, relative to the value.
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_relative_error(name, dtype):
    c = correlations(dtype)
    found = evaluate(getattr(arc, name), c)
    assert found.dtype == dtype
    exact = [FUNCTIONS[name](mpmath.mpf(float(v))) for v in c]
    units = [
        abs((mpmath.mpf(float(value)) - true) / true) / np.finfo(dtype).eps if true else abs(float(value))
        for value, true in zip(found, exact, strict=True)
    ]
    assert max(units) < 5, (c[int(np.argmax(units))], float(max(units)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exact_at_the_ends(dtype):
    ends = np.array([-1, 0, 1], dtype)
    np.testing.assert_array_equal(evaluate(arc.half_space, ends)[[0, 2]], np.array([0, 1], dtype))
    np.testing.assert_array_equal(evaluate(arc.ramp, ends)[[0, 2]], np.array([0, 1], dtype))
    np.testing.assert_allclose(evaluate(arc.arcsin, ends), np.arcsin(ends), rtol=np.finfo(dtype).eps)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_correlation_that_rounding_has_pushed_over_the_end(name):
    over = np.array([-1 - 1e-15, 1 + 1e-15])
    np.testing.assert_array_equal(evaluate(getattr(arc, name), over), evaluate(getattr(arc, name), np.sign(over)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_correlations_of_equal_inputs_are_taken_for_one(dtype):
    eps = np.finfo(dtype).eps
    rounded = np.array([1 - 4 * eps, -1 + 4 * eps], dtype)
    np.testing.assert_array_equal(evaluate(arc.half_space, rounded), np.array([1, 0], dtype))
    np.testing.assert_array_equal(evaluate(arc.ramp, rounded), np.array([1, 0], dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_are_right_inside_and_finite_at_the_ends(name, dtype):
    fn = getattr(arc, name)
    inside = np.linspace(-0.99, 0.99, 41).astype(dtype)
    exact = [float(mpmath.diff(FUNCTIONS[name], mpmath.mpf(float(c)))) for c in inside]
    np.testing.assert_allclose(evaluate(jax.vmap(jax.grad(fn)), inside), exact, rtol=8 * np.finfo(dtype).eps)
    second = [float(mpmath.diff(FUNCTIONS[name], mpmath.mpf(float(c)), 2)) for c in inside]
    np.testing.assert_allclose(
        evaluate(jax.vmap(jax.grad(jax.grad(fn))), inside), second, rtol=200 * np.finfo(dtype).eps, atol=1e-15
    )
    ends = np.array([-1, 1, -1 - 1e-7, 1 + 1e-7], dtype)
    for derivative in (jax.grad(fn), jax.grad(jax.grad(fn))):
        assert np.all(np.isfinite(evaluate(jax.vmap(derivative), ends)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_inverse_square_root(dtype):
    x = np.logspace(-30, 30, 400).astype(dtype)
    exact = np.array([float(1 / mpmath.sqrt(mpmath.mpf(float(v)))) for v in x])
    np.testing.assert_allclose(evaluate(arc.inverse_sqrt, x), exact, rtol=4 * np.finfo(dtype).eps)
    some = np.logspace(-6, 6, 30).astype(dtype)
    derivative = evaluate(jax.vmap(jax.grad(arc.inverse_sqrt)), some)
    np.testing.assert_allclose(derivative, -0.5 * some.astype(float) ** -1.5, rtol=40 * np.finfo(dtype).eps)
