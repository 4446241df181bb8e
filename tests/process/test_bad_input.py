"""Messages that name the argument, what was expected and what arrived."""

import warnings

import numpy as np
import pytest

import widetail as wt
from widetail import nn

pytestmark = pytest.mark.usefixtures("as_users_call")

X, Y = np.ones((4, 2)) * np.arange(4.0)[:, None], np.arange(4.0)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: wt.ScaleMixture("mlp"), "kernel must be a network"),
        (lambda: wt.ScaleMixture(nn.Relu), "the class Relu; call it"),
        (lambda: wt.ScaleMixture(nn.mlp(), prior=2.0), r"prior must be a prior of widetail.*got 2.0"),
        (lambda: wt.ScaleMixture(nn.mlp(), noise=0.1), r"noise must be wt.ScaledNoise"),
        (lambda: wt.ScaleMixture(nn.mlp(), scale_sharing="some"), "scale_sharing must be"),
        (lambda: wt.ScaledNoise(-1.0), r"variance must be.*got -1.0"),
        (lambda: wt.IndependentNoise(0.0), "variance must be a positive number"),
    ],
)
def test_construction(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X, Y[:3]), "x has 4, y has 3"),
        ((X, np.full(4, np.nan)), r"y must be finite; 4 rows.*first is row 0"),
        ((X, np.array(["a"] * 4)), "y must hold real numbers; got dtype <U1"),
        ((X, np.zeros((4, 2, 2))), r"y must have shape \(n,\) or \(n, outputs\)"),
        ((X * np.nan, Y), "x1 must be finite"),
        ((X, Y, "exact"), "method must be"),
    ],
)
def test_posterior(arguments, message):
    with pytest.raises(ValueError, match=message):
        wt.ScaleMixture(nn.mlp()).posterior(*arguments)


def test_row_arguments():
    process = wt.ScaleMixture(nn.mlp())
    with pytest.raises(ValueError, match=r"noise_weights must have shape \(4,\)"):
        process.posterior(X, Y, noise_weights=np.ones(3))
    with pytest.raises(ValueError, match="noise_weights must be positive"):
        process.posterior(X, Y, noise_weights=np.zeros(4))
    with pytest.raises(ValueError, match="counts must be positive"):
        process.posterior(X, Y, counts=-np.ones(4))
    with pytest.raises(ValueError, match="outputs of the first call"):
        process.posterior(X, Y).update(X, np.zeros((4, 2)))


def test_trained_arguments():
    process = wt.ScaleMixture(nn.mlp())
    with pytest.raises(ValueError, match="layers must be"):
        process.trained(X, Y, "first")
    with pytest.raises(ValueError, match="time must be"):
        process.trained(X, Y, time=-1.0)
    with pytest.raises(ValueError, match="needs a network with a tangent kernel"):
        wt.ScaleMixture(wt.kernels.RBF()).trained(X, Y, "all")


def test_a_bad_function_in_place_of_a_kernel():
    with pytest.raises(ValueError, match=r"must return an array of shape \(4, 4\)"):
        wt.ScaleMixture(lambda a, b: np.ones(3)).posterior(X, Y)
    with pytest.raises(ValueError, match="returned NaN"):
        wt.ScaleMixture(lambda a, b: np.full((4, 4), np.nan)).posterior(X, Y)
    with pytest.raises(np.linalg.LinAlgError, match="positive semi-definite"):
        wt.ScaleMixture(lambda a, b: -np.eye(4)).posterior(X, Y)


def test_contradicting_rows_without_noise_are_named():
    x, y = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]), np.array([0.0, 1.0, 2.0])
    process = wt.ScaleMixture(wt.kernels.RBF(), noise=wt.ScaledNoise(0.0))
    with pytest.warns(UserWarning, match=r"row 2 repeats row 0\), and next to no noise.*Give a noise variance"):
        process.posterior(x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        process.posterior(x, y[[0, 1, 0]])  # says the same thing twice
        wt.ScaleMixture(wt.kernels.RBF(), noise=wt.ScaledNoise(0.1)).posterior(x, y)


def test_one_training_time_at_once():
    with pytest.raises(ValueError, match=r"time must be one number.*once for each of \[1\.0, 2\.0\]"):
        wt.ScaleMixture(wt.kernels.RBF()).trained(np.zeros((2, 1)), np.zeros(2), time=[1.0, 2.0])
