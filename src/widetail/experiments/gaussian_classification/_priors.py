"""The prior of the readout variance that the data suggest."""

import itertools

from widetail.mixing import ScaledNoiseLikelihood
from widetail.priors import BurrXII, InverseGamma, PointMass, ScalePrior
from widetail.process import ScaledPosterior

# What the paper tries for both parameters of its Burr XII prior; here for both families, and chosen by evidence.
PRIOR_PARAMETERS = (0.5, 1.0, 2.0, 3.0, 4.0)


def best_prior(posterior: ScaledPosterior, family: type[InverseGamma] | type[BurrXII] | None) -> ScalePrior:
    """The prior of a family, with parameters from a grid, under which the training targets have the largest evidence.

    Without a family it is the point mass of the largest evidence: the readout variance that a plain Gaussian process
    learns.
    """
    if family is None:
        return largest_evidence(posterior.likelihood)
    candidates = [family(*pair) for pair in itertools.product(PRIOR_PARAMETERS, repeat=2)]
    return max(candidates, key=lambda prior: posterior.with_prior(prior).log_evidence)


def largest_evidence(likelihood: ScaledNoiseLikelihood) -> PointMass:
    r"""$y \sim N(0, \beta A)$ is most likely for $\beta = y^\top A^{-1} y / n$."""
    return PointMass(float(likelihood.quad / likelihood.count))
