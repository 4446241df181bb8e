"""What single features, and features together, add to a prediction: parts of sums over features."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from widetail.kernels import Anova, anova_part
from widetail.predictive import Predictive, Weighted
from widetail.process import effect

Features = str | int | Sequence[str | int]


def effect_of(model: Any, x: np.ndarray, features: Features) -> Predictive:
    """The effect in standard units.

    Args:
        model: a fitted exact regressor.
        x: new inputs in standard units.
        features: as in `ScaleMixtureRegressor.predict_effect`.
    """
    chosen = _numbers(model, model._relevances(x), features)
    mixture = model.weighted_posterior_
    weighted = (
        [(1.0, model.posterior)] if mixture is None else list(zip(mixture.weights, mixture.posteriors, strict=True))
    )
    has_part = [
        (weight, posterior)
        for weight, posterior in weighted
        if isinstance(posterior.kernel, Anova) and len(chosen) <= (posterior.kernel.order or len(chosen))
    ]
    if not has_part:
        raise ValueError(
            f"features={features!r}: no part of what was fitted ({model.architecture_}) is a function of them alone; "
            f"fit with net=wt.kernels.Anova(order=2), or with few rows and no net."
        )
    parts = [effect(p, functools.partial(anova_part, p.kernel, chosen), x) for _, p in has_part]
    return parts[0] if len(parts) == 1 else Weighted(parts, [weight for weight, _ in has_part])


def _numbers(model: Any, count: int, features: Features) -> list[int]:
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if model.table_ is not None:
        names = [group.name for group in model.table_.groups_]
    wanted = [features] if isinstance(features, (str, int, np.integer)) else list(features)
    found = [names.index(f) if isinstance(f, str) and f in names else f for f in wanted]
    if not found or not all(isinstance(f, (int, np.integer)) and 0 <= f < count for f in found):
        known = f"names ({', '.join(names[:8])}) or " if names else ""
        raise ValueError(f"features must be {known}numbers from 0 to {count - 1}, one or several; got {features!r}.")
    return [int(f) for f in found]
