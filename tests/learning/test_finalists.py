"""Finalists: learned in full, compared by left-out rows."""

import numpy as np

import widetail as wt
from widetail.kernels import RBF, Linear
from widetail.learning import fit_evidence, learn

RNG = np.random.default_rng(0)
X = np.linspace(-2.0, 2.0, 30)[:, None]
Y = np.sin(2.0 * X[:, 0]) + 0.1 * RNG.normal(size=30)
COUNTS = RNG.integers(1, 3, 30)


def left_out_score(process):
    """Conditioned anew without one observation of each row, the scale being that of all rows."""
    posterior = process.posterior(X, Y, counts=COUNTS)
    return COUNTS @ np.asarray(posterior.left_out_dist().log_prob(Y))


def test_the_one_that_predicts_left_out_rows_best_is_taken():
    noise = wt.ScaledNoise(0.05)
    candidates = {
        "line": wt.ScaleMixture(Linear(), noise=noise),
        "short": wt.ScaleMixture(RBF(0.1), noise=noise),
        "long": wt.ScaleMixture(RBF(3.0) + Linear(), noise=noise),
    }
    found = learn(candidates, X, Y, counts=COUNTS, finalists=2, tolerance=1e-9)
    assert len(found.choice.finalists) >= 2
    assert next(iter(found.choice.finalists)) == found.choice.name
    scores = {
        name: left_out_score(fit_evidence(found.choice.finalists[name], X, Y, counts=COUNTS).process)
        for name in list(found.choice.finalists)[:2]
    }
    assert found.name == max(scores, key=scores.get)
    assert found.fit.process is found.process
