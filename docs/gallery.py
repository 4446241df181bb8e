"""The pictures of the documentation, made by the library itself: `python docs/gallery.py` writes docs/pictures/."""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import jax
import numpy as np
from matplotlib import pyplot

import widetail as wt
from widetail import plots
from widetail.plots.axes import BAND_GREY, COLOURS, LINE_STYLES, axes_or_new, label_axes

FOLDER = Path(__file__).parent / "pictures"
NET = wt.nn.Sequential(wt.nn.Dense(weight_var=8.0, bias_var=1.0), wt.nn.Erf())


def panels(count, size=(12.0, 3.6)):
    """Axes side by side, in the colours of the library."""
    figure, axes = pyplot.subplots(1, count, figsize=size, layout="constrained")
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
        one.set_prop_cycle(color=COLOURS, linestyle=LINE_STYLES)
    return figure, axes


def draws():
    """Functions of networks with a fixed and with a random readout variance, and the tails of their outputs."""
    x = np.linspace(-3, 3, 200)[:, None]
    figure, (left, middle, right) = panels(3)
    laws = {"Gaussian process": wt.PointMass(1.0), "Student-t process": wt.InverseGamma(1.0, 0.5)}
    grid = np.linspace(-12.0, 12.0, 401)
    densities = {}
    for axes, (name, prior) in zip((left, middle), laws.items(), strict=True):
        process = wt.ScaleMixture(NET, prior)
        sample = process.prior(x).sample(jax.random.key(3), (12,))
        axes.set_prop_cycle(color=COLOURS)
        axes.plot(x[:, 0], np.asarray(sample).T, lw=1.2)
        axes.set(xlabel="x", ylabel="f(x)", ylim=(-6, 6), xlim=(-3, 3))
        axes.set_title(f"12 draws of a {name}", fontsize="medium")
        density = process.prior(np.zeros((1, 1))).log_prob(grid[:, None])
        densities[name] = np.asarray(density)[:, 0]
    plots.density_tails(grid, densities, lowest=1e-9, xlabel="f(0)", ax=right)
    right.legend(frameon=False, loc="upper left", fontsize="small")
    right.set_title("Density of one output", fontsize="medium")
    return figure


def tails():
    """The density of one output under several priors of the readout variance, all with the same quartiles."""
    grid = np.linspace(-20.0, 20.0, 401)
    laws = {
        "point mass": wt.PointMass(1.0),
        "gamma (2, 2)": wt.Gamma(2.0, 2.0),
        "log-normal (0, 1)": wt.LogNormal(0.0, 1.0),
        "inverse gamma (2, 2)": wt.InverseGamma(2.0, 2.0),
        "half-Cauchy (1)": wt.HalfCauchy(1.0),
    }
    densities = {}
    for name, prior in laws.items():
        dist = wt.ScaleMixture(wt.nn.mlp(2, "erf"), prior).prior(np.full((1, 3), 0.5))
        quartile = float(np.asarray(dist.quantile(0.75))[0])
        densities[name] = np.asarray(dist.log_prob(quartile * grid[:, None]))[:, 0] + np.log(quartile)
    axes = axes_or_new(None, (6.6, 4.0))
    return plots.density_tails(grid, densities, xlabel="output, in units of its upper quartile", ax=axes).figure


def few_observations():
    """The prediction at one point after one, ten and a hundred observations, beside a normal one."""
    rng = np.random.default_rng(0)
    grid = np.linspace(-10.0, 10.0, 401)
    densities = {}
    for n in (1, 10, 100):
        x = rng.normal(size=(n, 1))
        process = wt.ScaleMixture(wt.nn.mlp(2, "erf"), wt.InverseGamma(2.0, 2.0), wt.ScaledNoise(0.01))
        dist = process.posterior(x, np.sin(x[:, 0]))(np.array([[0.3]]))
        mean, std = float(np.asarray(dist.mean)[0]), float(np.asarray(dist.std)[0])
        values = np.asarray(dist.log_prob((mean + std * grid)[:, None]))[:, 0] + np.log(std)
        densities[f"{n} observation{'s' if n > 1 else ''}"] = values
    densities["normal"] = -0.5 * grid**2 - 0.5 * np.log(2 * np.pi)
    axes = axes_or_new(None, (6.6, 4.0))
    label = "y at one point, in standard deviations"
    return plots.density_tails(grid, densities, lowest=1e-10, xlabel=label, ax=axes).figure


def scale():
    """What data say about the readout variance: its posterior after more and more observations."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 2))
    process = wt.ScaleMixture(wt.nn.mlp(2, "erf"), wt.InverseGamma(2.0, 2.0), wt.ScaledNoise(0.01))
    k = process.kernel.kernel(x, get="nngp").nngp + 0.01 * np.eye(len(x))
    y = np.sqrt(3.0) * np.linalg.cholesky(k) @ rng.normal(size=len(x))  # a network of readout variance 3
    axes = axes_or_new(None, (6.6, 3.8))
    grid = np.linspace(np.log(0.2), np.log(20.0), 400)
    axes.plot(np.exp(grid), np.exp(process.prior_scale.log_prob_of_log(grid)), lw=1.8, label="prior")
    for n in (3, 30, 300):
        law = process.posterior(x[:n], y[:n]).scale
        axes.plot(np.exp(grid), np.exp(np.asarray(law.log_prob_of_log(grid))), lw=1.8, label=f"{n} observations")
    axes.axvline(3.0, color="0.45", lw=1)
    axes.annotate("truth", (3.0, 4.6), xytext=(-4, 0), textcoords="offset points", color="0.35", ha="right")
    axes.set_xscale("log")
    axes.set_xticks([0.2, 0.5, 1, 2, 3, 5, 10, 20], ["0.2", "0.5", "1", "2", "3", "5", "10", "20"])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    label_axes(axes, "readout variance", "density of its logarithm", "The scale is learned quickly")
    return axes.figure


def bands():
    """Predictions from five points whose size the prior does not know: a plain process and a mixture."""
    x = np.array([-2.0, -1.2, 0.0, 0.7, 1.5])[:, None]
    y = 6.0 * np.sin(2.0 * x[:, 0])
    grid = np.linspace(-3.5, 3.5, 240)
    figure, both = panels(2, (11.0, 3.8))
    for axes, (name, prior) in zip(
        both, {"plain NNGP": wt.PointMass(1.0), "Student-t process": wt.InverseGamma(1.0, 1.0)}.items(), strict=True
    ):
        posterior = wt.ScaleMixture(NET, prior, wt.ScaledNoise(1e-3)).posterior(x, y)
        plots.predictive_band(grid, posterior(grid[:, None]), observed=(x[:, 0], y), ax=axes)
        axes.plot(grid, 6.0 * np.sin(2.0 * grid), color="0.45", lw=1, ls="--", label="truth")
        axes.set(ylim=(-28, 16), title=f"{name}, five observations")
        axes.legend(loc="lower left", frameon=False, fontsize="small", ncols=2)
    return figure


def outlier():
    """One outlier moves a Gaussian and a Student-t process alike; only the width differs."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-2.0, 2.0, size=(40, 1)), axis=0)
    y = np.sin(2.0 * x[:, 0]) + 0.1 * rng.normal(size=40)
    y[20] += 4.0
    grid = np.linspace(-2.4, 2.4, 240)
    figure, both = panels(2, (11.0, 3.8))
    for axes, (name, prior) in zip(
        both, {"plain NNGP": wt.PointMass(1.0), "Student-t process": wt.InverseGamma(2.0, 2.0)}.items(), strict=True
    ):
        posterior = wt.ScaleMixture(wt.nn.mlp(2, "erf"), prior, wt.ScaledNoise(0.01)).posterior(x, y)
        plots.predictive_band(grid, posterior(grid[:, None]), observed=(x[:, 0], y), ax=axes)
        axes.set(ylim=(-2.5, 5), title=f"{name}: the same location")
        axes.legend(loc="upper left", frameon=False, fontsize="small")
    return figure


def widths():
    """The covariance of finite networks against that of their limit, at growing width."""
    net = wt.nn.mlp(2, "relu", weight_var=2.0, bias_var=0.1)
    x = np.random.default_rng(0).normal(size=(30, 5))
    limit = net.kernel(x, get="nngp").nngp
    sizes = (8, 32, 128, 512, 2048)
    errors = []
    for width in sizes:
        f = net.at_width(width)
        features = [
            f.features(f.init(key, (5,)), x.astype(np.float32)) for key in jax.random.split(jax.random.key(1), 8)
        ]
        gaps = [np.linalg.norm(np.asarray(h @ h.T) / width - limit) / np.linalg.norm(limit) for h in features]
        errors.append((np.mean(gaps), np.std(gaps)))
    mean, spread = np.array(errors).T
    axes = axes_or_new(None, (5.6, 3.8))
    axes.errorbar(sizes, mean, spread, marker="o", capsize=3, lw=1.8, label="8 networks each")
    axes.plot(sizes, mean[-1] * np.sqrt(sizes[-1] / np.array(sizes)), ls="--", color="0.45", lw=1, label="1 / √width")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.legend(frameon=False)
    label_axes(axes, "width", "relative error of the covariance", "Finite networks approach their limit")
    return axes.figure


def kernels():
    """Covariance of the output at two inputs of unit length, against the angle between them."""
    angle = np.linspace(0.0, np.pi, 181)
    x = np.sqrt(2.0) * np.column_stack([np.cos(angle), np.sin(angle)])
    figure, (left, right) = panels(2, (10.0, 3.8))
    for name in ("relu", "erf", "gelu", "sin", "tanh", "abs"):
        net = wt.nn.mlp(1, name, weight_var=2.0, bias_var=0.0)
        k = net.kernel(x[:1], x)
        for axes, values in ((left, k.nngp), (right, k.ntk)):
            axes.plot(np.degrees(angle), values[0] / values[0, 0], lw=1.8, label=name)
    for axes, title in ((left, "NNGP"), (right, "NTK")):
        axes.axhline(0, color=BAND_GREY, lw=1, zorder=0)
        axes.set(xlabel="angle between two inputs [degrees]", ylabel="correlation", title=title, xlim=(0, 180))
        axes.set_xticks([0, 45, 90, 135, 180])
    right.legend(frameon=False)
    return figure


FIGURES = (draws, tails, few_observations, scale, bands, outlier, widths, kernels)


def main(names):
    """Draw the figures that are named, or all of them."""
    FOLDER.mkdir(exist_ok=True)
    for figure in FIGURES:
        if not names or figure.__name__ in names:
            made = figure()
            # no date and no version in the file: the same figure gives the same bytes
            made.savefig(FOLDER / f"{figure.__name__}.png", dpi=110, metadata={"Software": None})
            pyplot.close(made)
            print(f"{figure.__name__}: {figure.__doc__}")


if __name__ == "__main__":
    main(sys.argv[1:])
