"""Empirical laws beside predicted ones."""

from typing import Any

import numpy as np
from jaxtyping import Float

from widetail.metrics import Array
from widetail.plots.axes import BAND_GREY, REFERENCE_GREY, Axes, axes_or_new, label_axes


def comparison(compared: Any, *, ax: Axes | None = None) -> Axes:
    """What `widetail.finite.compare` found, as `cdf_differences` with the band of the predicted law itself.

    Args:
        compared: a `widetail.finite.Comparison`.
        ax: axes to draw on; new ones if None.
    """
    return cdf_differences(compared.probabilities, band=float(np.quantile(compared.ks_null, 0.99)), ax=ax)


def cdf_differences(
    probabilities: Float[Array, "networks coordinates"],
    *,
    band: float,
    names: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Empirical minus predicted cdf, against the predicted one; a line per coordinate.

    Args:
        probabilities: predicted cdf at the observed values.
        band: KS distance that a right prediction stays below with 99 % probability.
        names: names of the coordinates.
        ax: axes to draw on; new ones if None.
    """
    ordered = np.sort(np.asarray(probabilities, np.float64), axis=0)
    n, coordinates = ordered.shape
    ax = axes_or_new(ax)
    ax.axhspan(-band, band, color=BAND_GREY, lw=0, label="99 % if the prediction is right")
    ax.axhline(0, color=REFERENCE_GREY, lw=1, ls="-")
    names = [f"coordinate {i}" for i in range(coordinates)] if names is None else list(names)
    share = (np.arange(n) + 0.5) / n
    for column, name in zip(ordered.T, names, strict=True):
        ax.plot(column, share - column, lw=1.4, label=name)
    ax.set_xlim(0, 1)
    ax.legend(frameon=False, fontsize="small")
    label_axes(ax, "predicted cdf", "empirical \N{MINUS SIGN} predicted cdf", f"{n} networks against the prediction")
    return ax
