"""The short way to the evidence of processes in closed form against the general one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import widetail as wt
from widetail import nn
from widetail.kernels import Anova
from widetail.learning import Parameters
from widetail.learning._objective import evidence_and_gradient, log_evidence
from widetail.learning._short import short_evidence
from widetail.process import RowFactors

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = np.stack([np.sin(X[:, 0]) + 0.1 * RNG.normal(size=40), X[:, 1] * X[:, 2]], axis=1)
COUNTS, WEIGHTS = RNG.integers(1, 4, 40).astype(float), RNG.uniform(0.5, 2.0, 40)
KERNELS = {"sum": Anova(np.full(3, 1.5), 0.3, order=2), "network": nn.mlp(2, "relu", weight_var=np.full(3, 2.0))}
PRIORS = {"inverse gamma": wt.InverseGamma(0.5, 0.7), "point mass": wt.PointMass(2.0)}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("sharing", ["shared", "per_output"])
def test_against_conditioned_processes(kernel, prior, sharing):
    process = wt.ScaleMixture(KERNELS[kernel], PRIORS[prior], wt.ScaledNoise(0.05), scale_sharing=sharing)
    rows = RowFactors.of(40, WEIGHTS, COUNTS)
    expected = process.posterior(X, Y, noise_weights=WEIGHTS, counts=COUNTS).log_evidence
    assert_allclose(short_evidence(process, X, Y, rows, gradient=False)[0], expected, rtol=1e-12)
    parameters = Parameters(process, ("kernel", "noise"))
    start = parameters.start()
    value, gradient = evidence_and_gradient(parameters, start, X, Y, rows)
    assert_allclose(value, expected, rtol=1e-12)
    for number, step in enumerate(1e-5 * np.eye(len(start))):
        ends = [log_evidence(parameters.process(start + sign * step), X, Y, rows) for sign in (-1.0, 1.0)]
        assert_allclose(gradient[number], (ends[1] - ends[0]) / 2e-5, rtol=1e-4, atol=1e-5)


def test_other_processes_take_the_general_way():
    rows = RowFactors.of(40, None, None)
    for process in (
        wt.ScaleMixture(KERNELS["sum"], wt.HalfCauchy(1.0)),
        wt.ScaleMixture(KERNELS["sum"], noise=wt.IndependentNoise(0.1)),
        wt.ScaleMixture(nn.mlp(1, "gelu")),
    ):
        assert short_evidence(process, X, Y, rows, gradient=False) is None
        assert_allclose(log_evidence(process, X, Y, rows), process.posterior(X, Y).log_evidence)


def test_wrong_inputs_are_named():
    with pytest.raises(ValueError, match="length_scale"):
        wt.fit_evidence(wt.ScaleMixture(KERNELS["sum"]), X[:, :2], Y)
