"""Figures of the theory experiments."""

import dataclasses
from typing import Any

import numpy as np

from widetail import plots
from widetail.experiments.reporting._figures import panels, png
from widetail.experiments.theory._config import X_NEW, X, Y
from widetail.experiments.theory._convergence import Convergence
from widetail.experiments.theory._laws import AllLayers, Check, TheoryResult
from widetail.plots import density_tails, predictive_band
from widetail.plots.axes import COLOURS, REFERENCE_GREY, axes_or_new
from widetail.predictive import Predictive
from widetail.priors import PointMass
from widetail.process import ScaledNoise, ScaleMixture

INPUT = 2  # which of the inputs the histograms and tails show
BINS = 50


def draw_all(result: TheoryResult) -> dict[str, bytes]:
    """Every figure by name, as PNG."""
    makers = {
        "posteriors": _posteriors,
        "histograms": _histograms,
        "tails": _tails,
        "tails-trained": _tails_trained,
        "histograms-trained": _histograms_trained,
        "differences": _differences,
        "widths": _widths,
    }
    return {name: png(make(result)) for name, make in makers.items()}


def _posteriors(result: TheoryResult) -> Any:
    """The NNGP beside the mixture, on the sine."""
    config = result.config
    grid = np.linspace(-4, 4, 201)
    figure, axes = panels(2, (10.5, 3.6))
    laws = {"NNGP": PointMass(float(config.priors[0].mean)), f"scale mixture, {config.priors[0]}": config.priors[0]}
    for ax, (name, prior) in zip(axes, laws.items(), strict=True):
        posterior = ScaleMixture(config.net, prior, ScaledNoise(1e-4)).posterior(X, Y)
        predictive_band(grid, posterior.f(grid[:, None]), levels=(0.5, 0.95), observed=(X[:, 0], Y), ax=ax)
        ax.plot(grid, np.sin(grid), color=REFERENCE_GREY, lw=1, ls="--", label="sine")
        ax.set_title(name, fontsize="medium")
        ax.set_ylim(-3, 3)
        ax.legend(loc="lower right", frameon=False, fontsize="small")
    return figure


def _right(result: TheoryResult) -> list[Check]:
    return [check for check in result.checks if check.is_right and check.name.startswith("erf")]


Shown = tuple[str, np.ndarray, Any]  # title, values of networks, law


def _histograms(result: TheoryResult) -> Any:
    """Networks against limiting densities: initialisation, readout trained, all layers trained."""
    first, second = _right(result)[:2]
    return _beside_densities(
        [
            (f"at initialisation, {result.config.priors[0]}", first.draws.values, first.predicted),
            (f"readout trained, {result.config.priors[0]}", second.draws.values, second.predicted),
            _shown(result.all_layers[0]),
        ]
    )


def _histograms_trained(result: TheoryResult) -> Any:
    """All layers trained: residual networks, and deeper ones."""
    return _beside_densities([_shown(part) for part in result.all_layers if part.family.name != "erf"])


def _shown(part: AllLayers) -> Shown:
    return part.family.title, part.draws.values, part.predicted


def _beside_densities(shown: list[Shown]) -> Any:
    figure, axes = panels(len(shown), (4.4 * len(shown), 3.6))
    for ax, (title, values, law) in zip(axes, shown, strict=True):
        point = law[[INPUT]]
        low, high = (float(end[0]) for end in point.interval(0.98))
        edges = np.linspace(low, high, BINS + 1)
        column = values[:, INPUT]
        counts, _ = np.histogram(column, edges)
        density = counts / (len(column) * np.diff(edges))
        ax.stairs(density, edges, fill=True, color=COLOURS[5], alpha=0.5, label=f"{len(column)} networks")
        grid = np.linspace(low, high, 400)
        ax.plot(grid, np.exp(_log_density(point, grid)), color=COLOURS[1], lw=1.8, label="limit")
        ax.set(xlabel=f"f({X_NEW[INPUT, 0]:g})", ylabel="density", xlim=(low, high))
        ax.set_title(title, fontsize="medium")
        ax.legend(frameon=False, fontsize="small")
    return figure


def _log_density(point: Predictive, grid: np.ndarray) -> np.ndarray:
    return np.asarray(point.log_prob(grid[:, None]))[:, 0]


def _tails(result: TheoryResult) -> Any:
    """Densities at initialisation on a log scale."""
    checks = [check for check in _right(result) if "initialisation" in check.name]
    names = [check.name.removeprefix("erf, ").removesuffix(", initialisation") for check in checks]
    gaussian = ScaleMixture(result.config.net, PointMass(1.0)).prior(X_NEW)
    shown = [(name, check.draws.values, check.predicted) for name, check in zip(names, checks, strict=True)]
    return _on_a_log_scale(shown, gaussian, "at initialisation")


def _tails_trained(result: TheoryResult) -> Any:
    """The same with all layers trained."""
    parts = [part for part in result.all_layers if part.family.name == "erf"]
    gaussian = dataclasses.replace(parts[0].family, prior=PointMass(1.0)).law
    shown = [(str(part.family.prior), part.draws.values, part.predicted) for part in parts]
    return _on_a_log_scale(shown, gaussian, "with all layers trained")


def _on_a_log_scale(shown: list[Shown], gaussian: Any, stage: str) -> Any:
    """Networks as dots, limits as lines, one Gaussian for comparison."""
    ax = axes_or_new(None, (7.5, 4.6))
    reach = 30.0
    grid = np.linspace(-reach, reach, 601)
    lines = {name: _log_density(law[[INPUT]], grid) for name, _, law in shown}
    lines["PointMass(v=1.0), the NNGP"] = _log_density(gaussian[[INPUT]], grid)
    density_tails(grid, lines, lowest=1e-6, ax=ax)
    edges = np.concatenate([-np.geomspace(reach, 0.1, 16), np.geomspace(0.1, reach, 16)])
    for (_, values, _), line in zip(shown, ax.lines, strict=False):
        counts, _ = np.histogram(values[:, INPUT], edges)
        seen = counts >= 3  # fewer than three networks tell nothing
        middles = (edges[1:] + edges[:-1]) / 2
        density = counts / (len(values) * np.diff(edges))
        ax.plot(middles[seen], np.log10(density[seen]), "o", ms=3.5, color=line.get_color())
    ax.set_xlabel(f"f({X_NEW[INPUT, 0]:g})")
    ax.set_title(f"Tails {stage}: networks (dots) and limits (lines)", fontsize="medium")
    return ax.figure


def _differences(result: TheoryResult) -> Any:
    """Differences of cdfs: a right law beside the wrong ones."""
    shown = [check for check in result.checks if check.name == _right(result)[1].name]
    figure, axes = panels(len(shown), (4.2 * len(shown), 3.6))
    for ax, check in zip(axes, shown, strict=True):
        plots.comparison(check.comparison, ax=ax)
        verdict = "rejected" if check.is_rejected else "not rejected"
        ax.set_title(f"{check.law}: {verdict}\njoint KS p = {check.comparison.joint_ks_pvalue:.2g}", fontsize="medium")
        ax.set_ylim(-0.16, 0.16)
    for ax in axes[1:]:
        ax.get_legend().remove()
        ax.set_ylabel("")
    return figure


def _widths(result: TheoryResult) -> Any:
    """Distance against width on a log-log plot."""
    ax = axes_or_new(None, (7.0, 4.6))
    for number, part in enumerate(result.convergence):
        _convergence_line(ax, part, COLOURS[number])
    if result.literal:
        widths, distances, null = np.array(result.literal).T
        count = result.config.networks
        ax.plot(widths, distances, "x", color=COLOURS[6], label=f"{count} networks, readout trained", ls="")
        ax.axhline(null[0], color=REFERENCE_GREY, lw=1, ls=":")
        ax.annotate(
            f"what {count} draws from the limit have",
            (float(result.convergence[0].widths[0]), null[0]),
            xytext=(0, 3),
            textcoords="offset points",
            fontsize="small",
            color=REFERENCE_GREY,
        )
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    widths = result.convergence[0].widths
    ax.set_xticks(widths, [f"{width:.0f}" for width in widths])
    ax.set(xlabel="width", ylabel="KS distance to the limit (largest over inputs)")
    ax.set_title("Convergence in the width", fontsize="medium")
    ax.legend(frameon=False, fontsize="small", loc="lower left")
    return ax.figure


def _convergence_line(ax: Any, part: Convergence, colour: str) -> None:
    label = f"{part.name}: width$^{{{part.rate:.2f} \\pm {part.rate_error:.2f}}}$"
    errors = np.minimum(2 * part.errors, 0.9 * part.distances), 2 * part.errors
    ax.errorbar(part.widths, part.distances, errors, fmt="o", ms=4, color=colour, capsize=2)
    ax.plot(part.widths, part.constant * part.widths**part.rate, color=colour, lw=1.4, ls="-", label=label)
