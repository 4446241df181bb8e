"""Probabilities of trained networks, against Laplace's method in the parameters of a linear model."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
from numpy.testing import assert_allclose
from scipy.special import expit, log_softmax, softmax
from scipy.stats import norm

import widetail as wt
from widetail.empirical import LinearisedClassifier

RNG = np.random.default_rng(5)
X = RNG.normal(size=(20, 2))
LABELS = (X[:, 0] + 0.7 * RNG.normal(size=20) > 0).astype(int)
KINDS = np.where(X[:, 1] + 0.3 * RNG.normal(size=20) > 0.5, 2, LABELS)
NEW = np.array([[0.3, -0.4], [3.0, 2.0]])
SCALE = 2.0
ONE = {"a": np.array([[0.2], [1.5], [-0.1]])}
THREE = {"a": RNG.normal(size=(3, 3))}


def features(x):
    return np.concatenate([np.ones_like(x[:, :1]), x], axis=1)


def apply(params, x):
    """Linear in its parameters already."""
    return jnp.concatenate([jnp.ones_like(x[:, :1]), x], axis=1) @ params["a"]


def log_likelihood(a, x, labels):
    logits = features(x) @ a
    logits = np.concatenate([0 * logits, logits], axis=1) if a.shape[1] == 1 else logits
    return np.sum(log_softmax(logits, axis=1)[np.arange(len(x)), labels])


def laplace(x, labels, outputs):
    """Mode and covariance of the parameters."""
    shape = (3, outputs)

    def loss(a):
        return 0.5 * np.sum(a**2) / SCALE - log_likelihood(a.reshape(shape), x, labels)

    mode = scipy.optimize.minimize(loss, np.zeros(3 * outputs), tol=1e-12).x
    logits = features(x) @ mode.reshape(shape)
    if outputs == 1:
        curvature = (expit(logits) * expit(-logits))[:, :, None]
    else:
        p = softmax(logits, axis=1)
        curvature = p[:, :, None] * np.eye(outputs) - p[:, :, None] * p[:, None, :]
    precision = np.einsum("ni,nab,nj->iajb", features(x), curvature, features(x)).reshape(len(mode), -1)
    return mode.reshape(shape), np.linalg.inv(precision + np.eye(len(mode)) / SCALE)


def mean_sigmoid(mean, variance):
    return scipy.integrate.quad(lambda z: expit(mean + variance**0.5 * z) * norm.pdf(z), -12, 12)[0]


@pytest.fixture(scope="module")
def two():
    return LinearisedClassifier(apply, ONE, prior=wt.PointMass(SCALE)).fit(X, np.array(["no", "yes"])[LABELS])


def test_two_classes_are_those_of_logistic_regression(two):
    _, cov = laplace(X, LABELS, 1)
    widths = np.einsum("ni,ij,nj->n", features(NEW), cov, features(NEW))
    expected = [mean_sigmoid(m, v) for m, v in zip((features(NEW) @ ONE["a"])[:, 0], widths, strict=True)]
    assert_allclose(two.predict_proba(NEW)[:, 1], expected, rtol=1e-4)
    assert two.predict(NEW).tolist() == ["no" if p < 0.5 else "yes" for p in expected]
    assert_allclose(two.scales_, [SCALE])


def test_left_out_rows_are_those_of_fits_without_them(two):
    total = 0.0
    for i in range(len(X)):
        kept = np.arange(len(X)) != i
        mode, cov = laplace(X[kept], LABELS[kept], 1)
        f = features(X[i : i + 1])
        p = mean_sigmoid((f @ mode).item(), (f @ cov @ f.T).item())
        total += np.log(p if LABELS[i] else 1 - p)
    assert_allclose(two.score_, total / len(X), rtol=0.01)


def test_three_classes():
    model = LinearisedClassifier(apply, THREE, prior=wt.PointMass(SCALE)).fit(X, KINDS)
    _, cov = laplace(X, KINDS, 3)
    slopes = np.einsum("ni,ab->naib", features(NEW), np.eye(3)).reshape(2, 3, 9)
    widths = np.einsum("nap,pq,nbq->nab", slopes, cov, slopes)
    for row, width, found in zip(features(NEW) @ THREE["a"], widths, model.predict_proba(NEW), strict=True):
        draws = np.random.default_rng(0).multivariate_normal(row, width, size=200_000)
        assert_allclose(found, np.mean(softmax(draws, axis=1), axis=0), atol=4e-3)


def test_scales_are_weighed_by_left_out_rows_and_the_prior(two):
    prior = wt.InverseGamma(2.0, 3.0)
    model = LinearisedClassifier(apply, ONE, prior=prior).fit(X, np.array(["no", "yes"])[LABELS])
    assert_allclose(np.sum(model.weights_), 1.0)
    scores = []
    for scale in model.scales_[:2]:
        one = LinearisedClassifier(apply, ONE, prior=wt.PointMass(float(scale))).fit(X, LABELS)
        scores.append(len(X) * one.score_ + float(prior.log_prob(scale)) + np.log(scale))  # evenly spaced logarithms
    assert_allclose(np.diff(np.log(model.weights_[:2])), np.diff(scores), rtol=1e-3)


def test_held_out_rows_calibrate(two):
    labels = np.array([1, 0])
    model = LinearisedClassifier(apply, ONE, prior=wt.PointMass(SCALE)).fit(X, LABELS, NEW, labels)
    assert_allclose(model.score_, np.mean(np.log(two.predict_proba(NEW)[[0, 1], labels])), rtol=1e-6)


def test_a_perfect_fit_is_not_taken_for_knowledge():
    """Huge logits on rows that could be told apart with smaller ones: there is doubt near the boundary."""
    sure = {"a": 50.0 * ONE["a"]}
    labels = (np.asarray(apply(sure, X))[:, 0] > 0).astype(int)
    near = np.array([[0.05, 0.0]])
    doubt = np.min(LinearisedClassifier(apply, sure).fit(X, labels).predict_proba(near))
    assert doubt > 20 * expit(-np.asarray(apply(sure, near))).item()


def test_bad_input(two):
    from sklearn.base import clone

    assert clone(two).get_params()["classes"] is None
    with pytest.raises(ValueError, match="it has 3, and there are 2 classes"):
        LinearisedClassifier(apply, THREE).fit(X, LABELS)
    with pytest.raises(ValueError, match=r"classes of the model, \[0, 1\]; got 2"):
        LinearisedClassifier(apply, ONE, classes=[0, 1]).fit(X, KINDS)
    with pytest.raises(ValueError, match=r"label for every row, shape \(20,\); got \(20, 1\)"):
        LinearisedClassifier(apply, ONE).fit(X, LABELS[:, None])
    with pytest.raises(ValueError, match="given together"):
        LinearisedClassifier(apply, ONE).fit(X, LABELS, X)
    with pytest.raises(ValueError, match="not fitted yet"):
        LinearisedClassifier(apply, ONE).predict(X)
