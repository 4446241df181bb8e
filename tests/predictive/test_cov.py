"""Covariances between points, against draws and against each other."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

from widetail import predictive
from widetail.mixing import ScaledNoiseLikelihood, scale_posterior
from widetail.priors import BurrXII

LOC = np.array([[0.0, 1.0], [2.0, -1.0], [0.5, 0.0]])
ROOT = np.random.default_rng(0).normal(size=(3, 3))
MATRIX = ROOT @ ROOT.T + np.eye(3)
OTHER = np.diag([0.1, 2.0, 1.0])


def scale_mixture(loc):
    scale = scale_posterior(BurrXII(3.0, 2.0), ScaledNoiseLikelihood(20.0, np.asarray(30.0), np.asarray(0.0)))
    return predictive.from_scale(scale, loc, np.diag(MATRIX), MATRIX)


def normal_mixture(loc):
    both = np.stack([loc, 2.0 * loc + 1.0])
    dispersions = np.stack([np.diag(MATRIX), np.diag(OTHER)])
    return predictive.NormalMixture(np.log([0.3, 0.7]), both, dispersions, lambda j: (MATRIX, OTHER)[j])


def weighted(loc):
    return predictive.Weighted([normal_mixture(loc), predictive.Normal(loc - 1.0, np.diag(OTHER), OTHER)], [0.5, 0.5])


KINDS = {
    "normal": lambda loc: predictive.Normal(loc, np.diag(MATRIX), MATRIX, scale=2.0),
    "student": lambda loc: predictive.StudentT(9.0, loc, np.diag(MATRIX), MATRIX),
    "scale mixture": scale_mixture,
    "normal mixture": normal_mixture,
    "weighted": weighted,
    "rescaled": lambda loc: weighted(loc).rescale(3.0, 0.5),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loc", [LOC[:, 0], LOC], ids=["vector", "two outputs"])
def test_of_draws(kind, loc):
    dist = KINDS[kind](loc)
    cov = np.asarray(dist.cov)
    assert cov.shape == (3, 3, *loc.shape[1:])
    assert_allclose(np.moveaxis(np.diagonal(cov), -1, 0), dist.var, rtol=1e-9)
    draws = np.asarray(dist.sample(jax.random.key(0), (4000,))).reshape(4000, 3, -1)
    columns = cov.reshape(3, 3, -1)
    for output in range(columns.shape[-1]):
        drawn = np.cov(draws[..., output], rowvar=False)
        spread = np.sqrt(np.outer(np.diag(drawn), np.diag(drawn)))
        assert_allclose(drawn / spread, columns[..., output] / spread, atol=0.12)


def test_infinite_variances_are_infinite_covariances():
    dist = predictive.StudentT(1.5, LOC[:, 0], np.diag(MATRIX), MATRIX)
    assert np.all(np.isposinf(dist.cov))


def test_recalibrated_keeps_correlations():
    base = predictive.StudentT(9.0, LOC[:, 0], np.diag(MATRIX), MATRIX)
    dist = predictive.Recalibrated(base, degrees=5.0, factor=1.7)
    assert_allclose(np.diag(dist.cov), dist.var)
    ratio = np.asarray(dist.cov) / np.asarray(base.cov)
    assert_allclose(ratio, ratio[0, 0])
    draws = np.asarray(dist.sample(jax.random.key(1), (4000,)))
    assert_allclose(
        np.corrcoef(draws, rowvar=False), np.asarray(base.cov) / np.sqrt(np.outer(base.var, base.var)), atol=0.1
    )
