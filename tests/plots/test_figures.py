"""What the figures show, read back from the artists; every figure must also render without a warning."""

import subprocess
import sys

import jaxtyping
import numpy as np
import pytest
from matplotlib import pyplot
from scipy import stats

from widetail import metrics, plots


class Band:
    def __init__(self, frozen):
        self.frozen = frozen

    def quantile(self, p):
        return self.frozen.ppf(p)

    def interval(self, level):
        return self.frozen.interval(level)


def forecasts(n=500):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(5, 0.4), n)
    return p, np.array([rng.choice(5, p=row) for row in p])


def render(ax, path):
    ax.figure.savefig(path)
    assert path.stat().st_size > 3000
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    assert ax.get_title()


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


X = np.linspace(-3, 3, 50)
GRID = np.linspace(-50, 50, 101)
TARGETS = np.append(np.linspace(-1, 1, 20), 9.0)
FIGURES = {
    "left out": lambda ax: plots.left_out(TARGETS, np.clip(TARGETS, -1, 1), outliers=[20], ax=ax),
    "reliability": lambda ax: plots.reliability_diagram(*forecasts(), label="model", ax=ax),
    "pit": lambda ax: plots.pit_histogram(np.random.default_rng(0).random(300), label="model", ax=ax),
    "coverage": lambda ax: plots.coverage_curve(np.random.default_rng(0).random(300), label="model", ax=ax),
    "band": lambda ax: plots.predictive_band(X, Band(stats.t(3, loc=np.sin(X))), observed=(X[::9], X[::9]), ax=ax),
    "tails": lambda ax: plots.density_tails(
        GRID, {"normal": stats.norm.logpdf(GRID), "t": stats.t.logpdf(GRID, 3)}, ax=ax
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_draws_on_new_or_given_axes(name, tmp_path):
    render(FIGURES[name](None), tmp_path / "new.png")
    _, ax = pyplot.subplots()
    ax.set_title("mine")
    assert FIGURES[name](ax) is ax
    assert ax.get_title() == "mine"
    render(ax, tmp_path / "given.png")


def test_reliability_shows_the_bins_of_the_metric():
    p, labels = forecasts()
    ax = plots.reliability_diagram(p, labels, bins=10, label="model")
    result = metrics.reliability(p, labels, bins=10)
    filled = result.counts > 0
    line = ax.lines[1]
    np.testing.assert_allclose(line.get_xdata(), result.confidence[filled])
    np.testing.assert_allclose(line.get_ydata(), result.accuracy[filled])
    assert legend(ax) == [f"model, ECE {result.ece:.3f}"]


def test_models_share_axes_and_get_their_own_colours():
    values = np.random.default_rng(0).random(100)
    for draw in (plots.pit_histogram, plots.coverage_curve):
        ax = draw(values, label="a")
        draw(values**2, label="b", ax=ax)
        assert legend(ax) == ["95% band if calibrated", "a", "b"]
        a, b = ax.lines[-2:]
        assert a.get_color() != b.get_color()


def test_pit_band_holds_uniform_bars_as_often_as_it_says():
    ax = plots.pit_histogram(np.linspace(0, 1, 400), bins=20, level=0.9)
    low, high = ax.collections[0].get_datalim(ax.transData).intervaly
    counts = np.random.default_rng(0).multinomial(400, np.full(20, 1 / 20), size=2000) / 20
    inside = np.mean((counts >= low - 1e-9) & (counts <= high + 1e-9))
    assert 0.9 <= inside < 0.95


def test_pit_bars_are_relative_to_uniform():
    ax = plots.pit_histogram(np.array([0.1, 0.1, 0.1, 0.9]), bins=2)
    np.testing.assert_allclose(ax.lines[-1].get_ydata(), [0, 1.5, 1.5, 0.5, 0.5, 0])
    assert ax.get_ylim()[1] > 1.5


def test_coverage_curve_agrees_with_intervals():
    predictive, y = stats.t(3), np.random.default_rng(0).standard_t(3, 500)
    ax = plots.coverage_curve(predictive.cdf(y))
    promised, observed = ax.lines[-1].get_data()
    for level in (0.25, 0.5, 0.9):
        lower, upper = (np.full(500, bound) for bound in predictive.interval(level))
        at = np.argmin(np.abs(promised - level))
        assert observed[at] == pytest.approx(metrics.coverage_of_interval(lower, upper, y), abs=1 / 500)


def test_band_sorts_its_inputs():
    order = np.random.default_rng(0).permutation(X.size)
    ax = plots.predictive_band(X[order], Band(stats.norm(loc=np.sin(X[order]))), levels=(0.9,), label="gp")
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), X)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), np.sin(X))
    assert legend(ax) == ["gp, median", "gp, 90% interval"]


def test_outliers_are_marked_and_numbered():
    ax = plots.left_out(TARGETS, np.zeros(21), outliers=[20, 3])
    assert np.allclose(ax.collections[1].get_offsets(), [[0.0, 9.0], [0.0, TARGETS[3]]])
    assert len(ax.collections[0].get_offsets()) == 19
    assert [text.get_text() for text in ax.texts] == ["20", "3"]
    with pytest.raises(ValueError, match="outliers must be indices of rows, from 0 to 20"):
        plots.left_out(TARGETS, np.zeros(21), outliers=[21])
    with pytest.raises((ValueError, jaxtyping.TypeCheckError)):
        plots.left_out(TARGETS, np.zeros(3))


def test_tails_below_the_smallest_float_do_not_matter():
    ax = plots.density_tails(GRID, {"normal": stats.norm.logpdf(GRID)}, lowest=1e-8, xlabel="strength [MPa]")
    assert ax.get_ylim()[0] == -8
    assert 0 > ax.get_ylim()[1] > -1
    assert ax.get_ylabel() == "density [1/MPa]"
    ax.figure.canvas.draw()
    assert "$10^{-8}$" in [tick.get_text() for tick in ax.get_yticklabels()]


def test_bad_input_is_named(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as users have it
    with pytest.raises(ValueError, match=r"pit must be one value in \[0, 1\] per point, got shape \(2,\) from 0 to 3"):
        plots.pit_histogram(np.array([0.0, 3.0]))
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1, got 95"):
        plots.coverage_curve(np.array([0.5]), level=95)
    with pytest.raises(ValueError, match=r"pass x\[:, 0\]"):
        plots.predictive_band(X[:, None], Band(stats.norm(loc=X)))
    with pytest.raises(ValueError, match=r"levels must be numbers .* got \(90,\)"):
        plots.predictive_band(X, Band(stats.norm(loc=X)), levels=(90,))
    with pytest.raises(ValueError, match=r"quantile\(0.5\) must have one value for each of the 50 inputs"):
        plots.predictive_band(X, Band(stats.norm(loc=X[:3])))
    with pytest.raises(ValueError, match="log_densities is empty"):
        plots.density_tails(GRID, {})


def test_without_matplotlib_the_error_names_the_extra():
    code = (
        "import sys, widetail.plots as plots;"
        "assert 'matplotlib' not in sys.modules;"
        "sys.modules['matplotlib'] = None;"
        "import numpy; plots.pit_histogram(numpy.array([0.5]))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ImportError: plots need matplotlib" in result.stderr
    assert "widetail[plot]" in result.stderr


def test_effects_have_a_panel_each_the_widest_first(tmp_path):
    parts = {name: (X, Band(stats.norm(loc=size * np.sin(X)))) for name, size in (("age", 0.5), ("size", 3.0))}
    figure = plots.effects(parts, ylabel="price")
    assert [axes.get_xlabel() for axes in figure.axes] == ["size", "age"]
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()
    figure.savefig(tmp_path / "effects.png")
    pyplot.close(figure)
    with pytest.raises(ValueError, match="at least"):
        plots.effects({})
