"""Summands of a function against the joint normal law of summand and targets, written out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import widetail as wt
from widetail.kernels import Anova, anova_part
from widetail.process import effect

RNG = np.random.default_rng(0)
X, NEW = RNG.normal(size=(14, 3)), RNG.normal(size=(5, 3))
Y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
LENGTH, PART = np.array([1.0, 0.7, 2.0]), np.array([0.5, 2.0, 1.2])
ORDERS = pytest.mark.parametrize("order", [None, 1, 2])


def one(i, a, b):
    return PART[i] * np.exp(-0.5 * ((a[:, None, i] - b[None, :, i]) / LENGTH[i]) ** 2)


@ORDERS
def test_parts_add_up_to_the_kernel(order):
    kernel = Anova(LENGTH, PART, order=order, interaction_var=0.3)
    sets = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
    sets = [s for s in sets if len(s) <= (order or 3)]
    constant = 1.0 if order else 1 / np.prod(1 + PART)
    total = constant + sum(anova_part(kernel, s, X, NEW) for s in sets)
    assert_allclose(total, kernel.kernel(X, NEW, get="nngp").nngp, rtol=1e-12)


def test_the_law_of_a_summand_given_the_sum():
    """All rows of the summand and the targets are jointly normal: condition by hand, then take the mean out."""
    kernel = Anova(LENGTH, PART, order=2, interaction_var=0.3)
    counts = RNG.integers(1, 4, 14).astype(float)
    process = wt.ScaleMixture(kernel, wt.PointMass(1.7), wt.ScaledNoise(0.1))
    dist = effect(process.posterior(X, Y, counts=counts), lambda a, b: anova_part(kernel, [1, 2], a, b), NEW)
    part = lambda a, b: 0.3 * one(1, a, b) * one(2, a, b)  # noqa: E731
    whole = np.asarray(kernel.kernel(X, get="nngp").nngp) + np.diag(0.1 / counts)
    points = np.concatenate([NEW, X])
    centre = np.eye(5, 19) - np.concatenate([np.zeros(5), counts / counts.sum()])
    cross = centre @ part(points, X)
    covariance = centre @ part(points, points) @ centre.T - cross @ np.linalg.solve(whole, cross.T)
    assert_allclose(dist.median, cross @ np.linalg.solve(whole, Y), rtol=1e-9)
    assert_allclose(dist.var, 1.7 * np.diag(covariance), rtol=1e-9)


def test_bad_features_and_noise():
    kernel = Anova(LENGTH, PART, order=1)
    with pytest.raises(ValueError, match="features must be different numbers from 0 to 2"):
        anova_part(kernel, [3], X, X)
    with pytest.raises(ValueError, match="at most 1 act together"):
        anova_part(kernel, [0, 1], X, X)
    outside = wt.ScaleMixture(kernel, noise=wt.IndependentNoise(0.1)).posterior(X, Y)
    with pytest.raises(ValueError, match="noise inside of the scale"):
        effect(outside, lambda a, b: anova_part(kernel, [0], a, b), NEW)
