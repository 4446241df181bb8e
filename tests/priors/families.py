"""Priors of the readout variance next to the same laws in scipy: the oracles of several test modules."""

import numpy as np
import scipy.optimize
import scipy.stats

from widetail import priors


class TwoLaws:
    """A law that is `first` with probability 1 - share, else `second`."""

    def __init__(self, share, first, second):
        self.share, self.parts = share, (first, second)

    def _mean_of(self, name, *args):
        first, second = (getattr(part, name)(*args) for part in self.parts)
        return (1 - self.share) * first + self.share * second

    def cdf(self, x):
        return self._mean_of("cdf", x)

    def logpdf(self, x):
        return np.log(self._mean_of("pdf", x))

    def mean(self):
        return self._mean_of("mean")

    def support(self):
        return self.parts[0].support()

    def ppf(self, p):
        def root(p):
            ends = [part.ppf(p) for part in self.parts]
            gap = (lambda x: self.cdf(x) - p) if p < 0.5 else (lambda x: 1 - p - self._mean_of("sf", x))
            return scipy.optimize.brentq(gap, min(ends), max(ends), xtol=1e-300, rtol=1e-14)

        return np.vectorize(root)(p)


FAMILIES = {
    "inverse gamma": (priors.InverseGamma(2.0, 3.0), scipy.stats.invgamma(2.0, scale=3.0)),
    "inverse gamma without a mean": (priors.InverseGamma(0.4, 0.2), scipy.stats.invgamma(0.4, scale=0.2)),
    "Burr XII": (priors.BurrXII(2.0, 1.5, scale=0.7), scipy.stats.burr12(2.0, 1.5, scale=0.7)),
    "Burr XII with a heavy tail": (priors.BurrXII(5.0, 0.15), scipy.stats.burr12(5.0, 0.15)),
    "log-normal": (priors.LogNormal(0.3, 0.8), scipy.stats.lognorm(0.8, scale=np.exp(0.3))),
    "gamma": (priors.Gamma(1.5, 2.0), scipy.stats.gamma(1.5, scale=0.5)),
    "half-Cauchy": (priors.HalfCauchy(2.0), scipy.stats.halfcauchy(scale=2.0)),
    "beta prime": (priors.BetaPrime(0.5, 2.5, scale=2.0), scipy.stats.betaprime(0.5, 2.5, scale=2.0)),
    "contaminated": (
        priors.Contaminated(0.2, a=20.0, far=30.0, tail=1.5),
        TwoLaws(0.2, scipy.stats.invgamma(20.0, scale=20.0), scipy.stats.invgamma(1.5, scale=45.0)),
    ),
    "wrapped Weibull": (
        priors.ScalePrior.wrap(scipy.stats.weibull_min(1.5, scale=2.0)),
        scipy.stats.weibull_min(1.5, scale=2.0),
    ),
    "wrapped uniform": (priors.ScalePrior.wrap(scipy.stats.uniform(0.5, 2.0)), scipy.stats.uniform(0.5, 2.0)),
}
OWN_FAMILIES = {name: pair for name, pair in FAMILIES.items() if not name.startswith("wrapped")}


def brute_force_log_integral(log_density, start, lower=-700.0, upper=700.0, points=200_001):
    """Log of the integral of exp(log_density) by a very fine trapezoidal rule in extended precision.

    The window is found by steps that grow outwards from `start`, which must be near the mode; a density with a
    hard end is cut there and the rule corrected by its ends.
    """
    offsets = np.concatenate([-np.geomspace(1e-9, 1400, 4000)[::-1], [0.0], np.geomspace(1e-9, 1400, 4000)])
    t = np.clip(start + offsets, lower, upper)
    values = log_density(t)
    t = t[values > np.max(values) - 60]
    grid = np.linspace(t[0], t[-1], points)
    values = log_density(grid).astype(np.longdouble)
    top = np.max(values)
    terms = np.exp(values - top)
    # Simpson's rule: the ends of a density with a hard edge are where the trapezoidal rule is weak.
    weights = np.full(points, 2.0, np.longdouble)
    weights[1::2] = 4.0
    weights[[0, -1]] = 1.0
    step = np.longdouble(grid[1] - grid[0])
    return float(top + np.log(np.sum(weights * terms) * step / 3))
