"""The theory experiments: laws of finite networks against their limits.

`python -m widetail.experiments.theory [--quick] [--out FOLDER]` runs all of them, prints the results and draws the
figures.
"""

import argparse
import dataclasses
import math
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from widetail import nn
from widetail._progress import Progress, reporter
from widetail.experiments._convergence import Convergence, convergence_in_width
from widetail.finite import Comparison, NetworkDraws, TrainedDraws, compare, train, train_readout
from widetail.mixing import ScaledNoiseLikelihood, scale_posterior
from widetail.nn import Layer
from widetail.predictive import Elliptical, Normal, Predictive, from_scale
from widetail.priors import BurrXII, InverseGamma, ScalePrior
from widetail.process import ScaleMixture

LEVEL = 0.01


@dataclasses.dataclass(frozen=True)
class TheoryConfig:
    """What to run. The defaults take about ten minutes on two cores, `TheoryConfig.quick()` less than one.

    Weights have variance 8 / fan-in and biases 0.0025, as the paper's text has it.

    Attributes:
        width: of the networks whose law is tested.
        networks: how many of them.
        depth: hidden layers of the erf network; the readout is one layer more.
        weight_var, bias_var: variances of all hidden layers.
        priors: priors of the readout variance; the wrong laws are tried against the first, which needs a variance.
        all_layers_prior: prior of the experiment in which all layers are trained.
        all_layers_networks, steps: of that experiment.
        all_layers_bias_var: of that experiment. With the biases above the tangent kernel is so ill-conditioned that
            plain gradient descent needs thousands of steps, and momentum leaves the linear regime of such networks.
        widths: widths of the convergence experiment.
        normals: random numbers spent on each of them.
        most_bodies: most bodies of one width.
        literal_widths: widths at which the distance is also measured with networks, as far as they can tell.
        seed: of everything.
    """

    width: int = 512
    networks: int = 2000
    depth: int = 2
    weight_var: float = 8.0
    bias_var: float = 0.0025
    priors: tuple[ScalePrior, ...] = (
        InverseGamma(2.0, 2.0),
        InverseGamma(1.0, 1.0),
        InverseGamma(0.5, 0.5),
        InverseGamma(4.0, 4.0),
        BurrXII(2.0, 1.0),
    )
    all_layers_prior: ScalePrior = InverseGamma(1.0, 1.0)  # noqa: RUF009
    all_layers_networks: int = 2000
    all_layers_bias_var: float = 1.0
    steps: int = 60
    widths: tuple[int, ...] = (16, 32, 64, 128, 256, 512, 1024)
    normals: float = 3e8
    most_bodies: int = 40_000
    literal_widths: tuple[int, ...] = (16, 32, 64, 128, 256)
    seed: int = 0

    @classmethod
    def quick(cls) -> "TheoryConfig":
        """Smaller in every direction: below a minute."""
        return cls(
            width=256,
            networks=800,
            priors=(InverseGamma(2.0, 2.0), BurrXII(2.0, 1.0)),
            all_layers_networks=200,
            widths=(16, 32, 64, 128),
            normals=8e6,
            most_bodies=5000,
            literal_widths=(16,),
        )

    @property
    def net(self) -> Layer:
        """The erf network."""
        return nn.mlp(self.depth, "erf", weight_var=self.weight_var, bias_var=self.bias_var)

    @property
    def residual_net(self) -> Layer:
        """The residual network."""
        return nn.resnet(1, "erf", weight_var=self.weight_var, bias_var=self.bias_var)


# Five points of the sine to train on, and five inputs to look at, between and beside them.
X = np.linspace(-2.0, 2.0, 5)[:, None]
Y = np.sin(X[:, 0])
X_NEW = np.array([-2.6, -1.5, -0.4, 0.6, 1.4])[:, None]


@dataclasses.dataclass(frozen=True, eq=False)
class Check:
    """One law against one set of networks.

    Attributes:
        name: which experiment.
        law: which law.
        is_right: whether the networks should follow it.
        comparison: distances and tests.
        draws: the networks.
        predicted: the law, or draws from it.
    """

    name: str
    law: str
    is_right: bool
    comparison: Comparison
    draws: NetworkDraws
    predicted: Predictive | np.ndarray

    @property
    def passed(self) -> bool:
        """The right law is not rejected, input by input; a wrong one is rejected."""
        if self.is_right:
            return not self.comparison.rejects_margins(LEVEL)
        return self.comparison.rejects(LEVEL)

    def __str__(self) -> str:
        c = self.comparison
        verdict = "rejected" if (c.rejects_margins(LEVEL) if self.is_right else c.rejects(LEVEL)) else "not rejected"
        return (
            f"{'ok ' if self.passed else 'BAD'} {self.name} | {self.law}: {verdict}; largest KS {c.ks.max():.4f} "
            f"(p {c.ks_pvalues.min():.2g}), joint KS {c.joint_ks:.4f} (p {c.joint_ks_pvalue:.2g}), "
            f"joint energy {c.joint_energy:.2e} (p {c.joint_energy_pvalue:.2g})"
        )


@dataclasses.dataclass(frozen=True, eq=False)
class AllLayers:
    """Networks with all layers trained, beside the spread between samples of the limit.

    Attributes:
        draws: the networks.
        predicted: their limit.
        comparison: tests against it.
        distance: mean over inputs of the KS distance between the networks and a sample of the limit as large.
        null_distance: the same between two samples of the limit; mean of 20 pairs.
    """

    draws: TrainedDraws
    predicted: Predictive
    comparison: Comparison
    distance: float
    null_distance: float

    @property
    def passed(self) -> bool:
        """Within twice the distance of two samples of the limit."""
        return self.distance <= 2 * self.null_distance

    def __str__(self) -> str:
        loss = np.median(self.draws.losses / self.draws.scales)
        return (
            f"{'ok ' if self.passed else 'BAD'} all layers trained ({len(self.draws)} networks): KS distance to a "
            f"sample of the limit {self.distance:.4f}, between two of them {self.null_distance:.4f}, ratio "
            f"{self.distance / self.null_distance:.2f}; left of the loss in units of the readout variance {loss:.1e}"
        )


@dataclasses.dataclass(frozen=True, eq=False)
class TheoryResult:
    """Everything that `run` found.

    Attributes:
        config: what was run.
        checks: theorems 3.1 and 3.2, right and wrong laws.
        all_layers: theorem 3.3.
        convergence: distance against width, at initialisation and after training of the readout.
        literal: width, largest KS distance of networks, and its median if the limit held, after training.
        seconds: wall time of each part.
    """

    config: TheoryConfig
    checks: list[Check]
    all_layers: AllLayers
    convergence: tuple[Convergence, Convergence]
    literal: list[tuple[int, float, float]]
    seconds: dict[str, float]

    @property
    def passed(self) -> bool:
        """Whether every check came out as the theory says."""
        return all(check.passed for check in self.checks) and self.all_layers.passed

    def __str__(self) -> str:
        lines = [str(check) for check in self.checks] + [str(self.all_layers)]
        lines += [str(part) for part in self.convergence]
        lines += [
            f"  width {w}: largest KS distance of {self.config.networks} networks {d:.4f}, {null:.4f} if in the limit"
            for w, d, null in self.literal
        ]
        total = sum(self.seconds.values())
        lines.append(f"{total:.0f} s: " + ", ".join(f"{name} {s:.0f} s" for name, s in self.seconds.items()))
        return "\n".join(lines)

    def figures(self, folder: str | Path) -> list[Path]:
        """Draw all figures as PNG files into `folder`; their paths."""
        from widetail.experiments._theory_figures import draw_all

        return draw_all(self, Path(folder))


def run(config: TheoryConfig | None = None, *, progress: Progress = False) -> TheoryResult:
    """Run the theory experiments.

    Args:
        config: what to run; the full version by default.
        progress: True for a bar on a terminal, or a function of (parts done, all parts).
    """
    config = TheoryConfig() if config is None else config
    report = reporter(progress, "theory")
    seconds: dict[str, float] = {}
    checks: list[Check] = []
    parts = len(config.priors) + 3

    def clocked(name: str, fn: Any) -> Any:
        report(len(seconds), parts)
        began = time.monotonic()
        result = fn()
        seconds[name] = time.monotonic() - began
        return result

    for number, prior in enumerate(config.priors):
        checks += clocked(
            str(prior), lambda n=number, p=prior: _right_laws(config, config.net, "erf", p, n, with_wrong=n == 0)
        )
    first = config.priors[0]
    checks += clocked("residual", lambda: _right_laws(config, config.residual_net, "residual", first, 100, False))
    all_layers = clocked("all layers", lambda: _all_layers(config))
    convergence, literal = clocked("widths", lambda: _widths(config))
    report(parts, parts)
    return TheoryResult(config, checks, all_layers, convergence, literal, seconds)


def _key(config: TheoryConfig, number: int) -> Any:
    return jax.random.fold_in(jax.random.key(config.seed), number)


def _right_laws(
    config: TheoryConfig, net: Layer, name: str, prior: ScalePrior, number: int, with_wrong: bool
) -> list[Check]:
    """Theorems 3.1 and 3.2 on the same networks, before and after training."""
    key = _key(config, number)
    draws = train_readout(
        net, prior, X, Y, X_NEW, width=config.width, networks=config.networks, key=key, time=(0.0, math.inf)
    )
    start, end = (NetworkDraws(values, draws.scales) for values in draws.values)
    process = ScaleMixture(net, prior)
    limits = process.prior(X_NEW), process.trained(X, Y)(X_NEW)
    checks = []
    for stage, networks, limit in zip(("initialisation", "readout trained"), (start, end), limits, strict=True):
        title = f"{name}, {prior}, {stage}"
        laws: list[tuple[str, bool, Any]] = [("the limit", True, limit)]
        if with_wrong:
            laws += [
                (law, False, predicted) for law, predicted in _wrong_laws(config, prior, stage, net, limit).items()
            ]
        for law, is_right, predicted in laws:
            checks.append(Check(title, law, is_right, compare(networks, predicted, key=key), networks, predicted))
    return checks


def _wrong_laws(config: TheoryConfig, prior: ScalePrior, stage: str, net: Layer, limit: Predictive) -> dict[str, Any]:
    """Laws that look similar: a Gaussian, the posterior of the scale, a scale for every input."""
    assert isinstance(limit, Elliptical)
    matrix = limit.matrix.values
    wrong: dict[str, Any] = {
        "Gaussian of the same variance": Normal(limit.loc, limit.dispersion, matrix, scale=float(prior.mean)),
    }
    if stage != "initialisation":
        k = np.asarray(net.kernel(X, get="nngp").nngp)
        data = ScaledNoiseLikelihood(count=len(Y), quad=float(Y @ np.linalg.solve(k, Y)))
        wrong["posterior of the scale"] = from_scale(scale_posterior(prior, data), limit.loc, limit.dispersion, matrix)
    keys = jax.random.split(_key(config, 1000))
    scales = np.asarray(prior.sample(keys[0], (config.networks, len(X_NEW))))
    normal = np.asarray(Normal(np.zeros(len(X_NEW)), limit.dispersion, matrix).sample(keys[1], (config.networks,)))
    wrong["a scale for every input"] = np.asarray(limit.loc) + np.sqrt(scales) * normal
    return wrong


def _all_layers(config: TheoryConfig) -> AllLayers:
    net = nn.mlp(config.depth, "erf", weight_var=config.weight_var, bias_var=config.all_layers_bias_var)
    draws = train(
        net,
        config.all_layers_prior,
        X,
        Y,
        X_NEW,
        width=config.width,
        networks=config.all_layers_networks,
        key=_key(config, 200),
        steps=config.steps,
    )
    limit = ScaleMixture(net, config.all_layers_prior).trained(X, Y, "all")(X_NEW)
    size = (len(draws),)
    pairs = [np.asarray(limit.sample(key, (2, *size))) for key in jax.random.split(_key(config, 201), 20)]
    to_networks = [float(np.mean(_two_sample_ks(draws.values, first))) for first, _ in pairs]
    between = [float(np.mean(_two_sample_ks(second, first))) for first, second in pairs]
    return AllLayers(draws, limit, compare(draws, limit), float(np.mean(to_networks)), float(np.mean(between)))


def _two_sample_ks(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """KS distance of every column."""
    distances = []
    for first, second in zip(a.T, b.T, strict=True):
        both = np.concatenate([first, second])
        shares = [np.searchsorted(np.sort(part), both, side="right") / len(part) for part in (first, second)]
        distances.append(np.max(np.abs(shares[0] - shares[1])))
    return np.array(distances)


def _widths(config: TheoryConfig) -> tuple[tuple[Convergence, Convergence], list[tuple[int, float, float]]]:
    prior = config.priors[0]
    convergence = convergence_in_width(
        config.net,
        prior,
        X,
        Y,
        X_NEW,
        widths=config.widths,
        normals=config.normals,
        most_networks=config.most_bodies,
        seed=config.seed,
    )
    limit = ScaleMixture(config.net, prior).trained(X, Y)(X_NEW)
    literal = []
    for width in config.literal_widths:
        draws = train_readout(
            config.net, prior, X, Y, X_NEW, width=width, networks=config.networks, key=_key(config, 300 + width)
        )
        comparison = compare(draws, limit)
        literal.append((width, float(comparison.ks.max()), float(np.median(comparison.ks_null))))
    return convergence, literal


def main(arguments: list[str] | None = None) -> int:
    """The command: 0 if everything came out as the theory says."""
    parser = argparse.ArgumentParser(prog="python -m widetail.experiments.theory", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller in every direction: below a minute")
    parser.add_argument("--out", default="out/theory", help="folder of the figures and the report")
    options = parser.parse_args(arguments)
    result = run(TheoryConfig.quick() if options.quick else TheoryConfig(), progress=True)
    print(result)
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "theory.txt").write_text(f"{result}\n")
    for path in result.figures(folder):
        print(f"wrote {path}")
    return 0 if result.passed else 1


if __name__ == "__main__":
    raise SystemExit(main())
