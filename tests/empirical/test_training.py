"""Training of linear models: closed forms against gradient descent on parameters, step by step."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import widetail as wt
from widetail import nn
from widetail.empirical import LinearTraining, train_by_flow

RNG = np.random.default_rng(1)
J, J_NEW = RNG.normal(size=(6, 9)), RNG.normal(size=(3, 9))  # slopes of outputs in the parameters of a linear model
Y, START, START_NEW = RNG.normal(size=6), RNG.normal(size=6), RNG.normal(size=3)
TRAINING = LinearTraining(J @ J.T, Y, START)


def walk(steps, rate, momentum):
    """Gradient descent on nine parameters of the loss mean((start + J w - y)^2)."""
    w, v = np.zeros(9), np.zeros(9)
    for _ in range(steps):
        gradient = 2.0 / 6.0 * J.T @ (START + J @ w - Y)
        v = momentum * v - rate * gradient
        w = w + v
    return START + J @ w, START_NEW + J_NEW @ w


@pytest.mark.parametrize(("steps", "momentum"), [(0, 0.0), (1, 0.0), (17, 0.0), (1, 0.8), (40, 0.8)])
def test_gradient_descent(steps, momentum):
    rate = 0.4 * TRAINING.max_rate(momentum)
    train, new = walk(steps, rate, momentum)
    assert_allclose(TRAINING.descend(steps, rate=rate, momentum=momentum), train, rtol=1e-9)
    found = TRAINING.descend(steps, J_NEW @ J.T, START_NEW, rate=rate, momentum=momentum)
    assert_allclose(found, new, rtol=1e-9)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_largest_rate_is_the_largest(momentum):
    best = TRAINING.max_rate(momentum)
    calm, wild = (np.abs(walk(3000, factor * best, momentum)[0] - Y).max() for factor in (0.99, 1.01))
    assert calm < 0.5
    assert wild > 1e3


@pytest.mark.parametrize("friction", [None, 0.7])
def test_flow_is_the_limit_of_small_steps(friction):
    times, count = np.array([0.3, 1.0]), 20000
    if friction is None:
        expected = [walk(int(count * t), 1.0 / count, 0.0) for t in times]
    else:  # a step of size rate is a time of its square root
        step = 1.0 / count
        expected = [walk(int(count * t), step**2, 1 - friction * step) for t in times]
    found = TRAINING.flow(times, friction=friction)
    found_new = TRAINING.flow(times, J_NEW @ J.T, START_NEW, friction=friction)
    for index, (train, new) in enumerate(expected):
        assert_allclose(found[index], train, atol=2e-3)
        assert_allclose(found_new[index], new, atol=2e-3)


def test_infinite_time_and_the_wide_limit():
    x = RNG.normal(size=(6, 2))
    net = nn.mlp(depth=2, activation="erf")
    theta, across = net.kernel(x, get="ntk").ntk, net.kernel(x[:2] + 0.1, x, get="ntk").ntk
    for time in (1.5, math.inf):
        limit = wt.ScaleMixture(net, wt.PointMass(1.0)).trained(x, Y, layers="all", time=time)(x[:2] + 0.1).mean
        assert_allclose(LinearTraining(theta, Y).flow(time, across), limit, rtol=1e-6)


def test_outputs_that_depend_on_each_other():
    slopes = RNG.normal(size=(3, 2, 9))
    theta, y = np.einsum("iap,jbp->ijab", slopes, slopes), RNG.normal(size=(3, 2))
    w = np.zeros(9)
    for _ in range(25):
        w -= 0.05 * 2.0 / 3.0 * np.einsum("iap,ia->p", slopes, slopes @ w - y)
    assert_allclose(LinearTraining(theta, y).descend(25, rate=0.05), slopes @ w, rtol=1e-9)


@pytest.mark.parametrize("friction", [pytest.param(None, marks=pytest.mark.slow), 0.7])
def test_any_loss_by_an_equation(friction):
    pytest.importorskip("diffrax")
    times = np.array([0.0, 0.5, 2.0])

    def loss(f, y):
        return jnp.mean((f - y) ** 2)

    train, new = train_by_flow(
        loss, J @ J.T, Y, times, start=START, kernel_new=J_NEW @ J.T, start_new=START_NEW, friction=friction
    )
    assert_allclose(train, TRAINING.flow(times, friction=friction), atol=1e-5)
    assert_allclose(new, TRAINING.flow(times, J_NEW @ J.T, START_NEW, friction=friction), atol=1e-5)


def test_bad_input():
    with pytest.raises(ValueError, match=r"kernel must have shape \(6, 6\)"):
        LinearTraining(np.eye(5), Y)
    with pytest.raises(ValueError, match="steps must be whole numbers"):
        TRAINING.descend(1.5, rate=0.1)
    with pytest.raises(ValueError, match="kernel_new must have shape"):
        TRAINING.flow(1.0, np.eye(3))
    with pytest.raises(ValueError, match="momentum must be from 0"):
        TRAINING.max_rate(1.0)
    with pytest.raises(ValueError, match="time must be finite"):
        train_by_flow(lambda f, y: 0.0, np.eye(2), np.zeros(2), math.inf)
