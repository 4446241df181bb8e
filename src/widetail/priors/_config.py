"""Priors from their written description; no code is read from it."""

from collections.abc import Mapping
from typing import Any

import scipy.stats

from widetail.priors._base import ScalePrior
from widetail.priors._burr import BurrXII
from widetail.priors._gammas import BetaPrime, Gamma, InverseGamma
from widetail.priors._half_cauchy import HalfCauchy
from widetail.priors._log_normal import LogNormal
from widetail.priors._point_mass import PointMass

_FAMILIES = {
    family.__name__: family for family in (InverseGamma, BurrXII, LogNormal, Gamma, HalfCauchy, BetaPrime, PointMass)
}


def prior_from_config(config: Mapping[str, Any]) -> ScalePrior:
    """The prior whose `to_config()` is `config`.

    Example:
        >>> from widetail import priors
        >>> priors.prior_from_config({"name": "InverseGamma", "params": {"a": 2.0, "b": 3.0}})
        InverseGamma(a=2.0, b=3.0)
    """
    try:
        name, params = config["name"], dict(config["params"])
        if name == "scipy":
            return _scipy_from_params(**params)
        return _FAMILIES[name](**params)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"config must be a mapping with a `name` among {[*_FAMILIES, 'scipy']} and its `params`, got "
            f"{config!r} ({type(error).__name__}: {error}); make it with `prior.to_config()`."
        ) from error


def _scipy_from_params(dist: str, args: list, **keywords: Any) -> ScalePrior:
    family = getattr(scipy.stats, dist, None)
    if not isinstance(family, scipy.stats.rv_continuous):
        raise TypeError(f"scipy.stats has no continuous distribution {dist!r}")
    return ScalePrior.wrap(family(*args, **keywords))
