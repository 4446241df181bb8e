"""Duals of activations and of their derivatives against two-dimensional integrals."""

import itertools

import jax
import numpy as np
import pytest

from widetail import nn

from .activations import BY_QUADRATURE, CLOSED_FORMS
from .integrals import expectation

AMBIGUOUS_AT_ZERO = ("nn.Sign()", "nn.Abs()", "nn.ABRelu(below=0.3, above=-1.2)", "nn.RectifiedMonomial(degree=0)")
CORRELATIONS = [-1.0, -0.999, -0.5, 0.0, 0.3, 0.9999, 1.0]


def over(samples):
    return pytest.mark.parametrize("sample", samples, ids=[repr(sample.layer) for sample in samples])


PLACES = 42  # of an array of pairs: one shape, so that a layer is compiled once
COMPILED = {}


def dual_and_slope(layer, pairs):
    """The dual, the dual that comes with its slope, the slope, and both of the first variable with itself."""
    var1, var2, correlation = np.resize(np.array(pairs), (PLACES, 3)).T
    if repr(layer) not in COMPILED:

        @jax.jit
        def evaluate(var1, var2, k12):
            first, second = layer.statistics(var1), layer.statistics(var2)
            return layer.dual(k12, first, second), *layer.dual_and_slope(k12, first, second), layer.at_equal(var1)

        COMPILED[repr(layer)] = evaluate
    with jax.enable_x64(True):
        found = COMPILED[repr(layer)](var1, var2, correlation * np.sqrt(var1 * var2))
    return jax.tree.map(lambda v: np.asarray(v)[: len(pairs)], found)


def integrals(fn, pairs, **nodes):
    """The expectations, and the size of each: what it would be at correlation 1."""
    variances = {pair[0] for pair in pairs} | {pair[1] for pair in pairs}
    own = {v: expectation(fn, v, v, 1.0, **nodes) for v in variances}
    sizes = np.array([np.sqrt(own[a] * own[b]) for a, b, _ in pairs])
    return np.array([expectation(fn, *pair, **nodes) for pair in pairs]), sizes


def compare(sample, variances, relative, **nodes):
    pairs = [
        (a, b, c)
        for (a, b), c in itertools.product(itertools.combinations_with_replacement(variances, 2), CORRELATIONS)
    ]
    dual, same_dual, slope, of_equal = dual_and_slope(sample.layer, pairs)
    expected, sizes = integrals(sample.function, pairs, **nodes)
    np.testing.assert_allclose(same_dual, dual, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(dual / sizes, expected / sizes, rtol=0, atol=relative)
    expected, sizes = integrals(sample.derivative, pairs, **nodes)
    sizes = np.maximum(sizes, 1e-300)  # the derivative of the sign is zero
    np.testing.assert_allclose(slope / sizes, expected / sizes, rtol=0, atol=relative)

    own = np.array([pair[0] for pair in pairs])
    for found, fn in zip(of_equal, (sample.function, sample.derivative), strict=True):
        exact = {v: expectation(fn, v, v, 1.0, **nodes) for v in variances}
        np.testing.assert_allclose(found, [exact[v] for v in own], rtol=relative)


@over(CLOSED_FORMS)
def test_closed_forms(sample):
    compare(sample, [1e-4, 0.3, 4.0], 1e-12)


@over([sample for sample in CLOSED_FORMS if type(sample.layer).__name__ in ("Erf", "Gelu", "Relu", "Sign")])
def test_closed_forms_at_a_large_variance(sample):
    compare(sample, [0.3, 25.0], 2e-11, angles=300)


@over(BY_QUADRATURE)
def test_quadrature(sample):
    compare(sample, [1e-4, 0.3, 1.0], 1e-9)


@over([sample for sample in CLOSED_FORMS if repr(sample.layer) not in AMBIGUOUS_AT_ZERO])
def test_zero_variance(sample):
    """One of the two variables is the constant 0; the slope of a kink at its corner is a convention."""
    (dual,), _, (slope,), _ = dual_and_slope(sample.layer, [(0.0, 0.7, 0.0)])
    at_zero = sample.function(np.zeros(1))[0]
    mean = expectation(lambda z: sample.function(z), 0.7, 0.0, 0.0) if at_zero else 0.0
    np.testing.assert_allclose(dual, mean, rtol=1e-12, atol=1e-15)
    assert np.isfinite(slope)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@over([sample for sample in CLOSED_FORMS if type(sample.layer).__name__ in ("Erf", "Gelu")])
def test_slope_at_a_huge_variance_is_bounded(sample, dtype):
    """Where rounding leaves nothing of 1 - c^2, the slope is off by a factor of two at most, not by 1e10."""
    variance = np.array([1e3, 1e6, 1e9, 1e12], dtype)
    layer = sample.layer

    @jax.jit
    def slopes(v):
        statistics = layer.statistics(v)
        return layer.at_equal(v)[1], layer.dual_and_slope(v, statistics, statistics)[1]

    with jax.enable_x64(dtype == np.float64):
        equal, slope = slopes(variance)
    if type(layer).__name__ == "Erf":
        np.testing.assert_allclose(slope, equal, rtol=0.6)
    else:  # E[phi'(z)^2] tends to the probability that z is positive
        np.testing.assert_allclose(slope, 0.5, rtol=0.1)


def test_normalised_exponential():
    """Its function divides by the root mean square of a row, which is the standard deviation in the limit."""
    layer = nn.ExpNormalized(gamma=0.8, shift=-0.3)
    pairs = list(itertools.product([1e-3, 2.5], [0.4], [-1.0, -0.5, 0.0, 0.9, 1.0]))
    dual, same_dual, slope, _ = dual_and_slope(layer, pairs)
    np.testing.assert_array_equal(dual, same_dual)

    def unit(z):
        return np.exp(np.sqrt(0.8) * z + 0.4 * (-0.3 - 1))

    moments = np.array([expectation(unit, 1.0, 1.0, c) for _, _, c in pairs])
    np.testing.assert_allclose(
        dual, [np.sqrt(a * b) * m for (a, b, _), m in zip(pairs, moments, strict=True)], rtol=1e-12
    )
    np.testing.assert_allclose(slope, 0.8 * moments, rtol=1e-12)
