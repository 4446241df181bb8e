"""Likelihoods that are tested alike: enter a new one here."""

import numpy as np

from widetail import sparse

# A likelihood, and either the values that its targets can have, or None where they are real numbers.
LIKELIHOODS = {
    "gaussian": (sparse.Gaussian(0.3), None),
    "gaussian outside": (sparse.Gaussian(0.3, scaled=False), None),
    "student t": (sparse.StudentT(5.0, 0.2), None),
    "bernoulli": (sparse.Bernoulli(), np.arange(2.0)),
    "poisson": (sparse.Poisson(), np.arange(200.0)),
    "poisson, softplus": (sparse.Poisson("softplus"), np.arange(100.0)),
}
