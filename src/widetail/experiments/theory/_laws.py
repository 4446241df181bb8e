"""Finite networks of the theory experiments, and the laws that they are compared with, right and wrong."""

import dataclasses
import math
from typing import Any

import jax
import numpy as np

from widetail import nn
from widetail.experiments.theory._config import LEVEL, X_NEW, TheoryConfig, X, Y
from widetail.experiments.theory._convergence import Convergence, convergence_in_width
from widetail.finite import Comparison, NetworkDraws, TrainedDraws, compare, stable_rates, train, train_readout
from widetail.mixing import ScaledNoiseLikelihood, scale_posterior
from widetail.nn import Layer
from widetail.predictive import Elliptical, Normal, Predictive, from_scale
from widetail.priors import PointMass, ScalePrior
from widetail.process import ScaleMixture


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
        laws: how many laws the run tests, for which the level is divided.
    """

    name: str
    law: str
    is_right: bool
    comparison: Comparison
    draws: NetworkDraws
    predicted: Predictive | np.ndarray
    laws: int

    @property
    def is_rejected(self) -> bool:
        """By the margins or the joint law, right or wrong: one standard for all."""
        return self.comparison.rejects(LEVEL / self.laws)

    @property
    def passed(self) -> bool:
        """The right law is not rejected, a wrong one is."""
        return self.is_rejected != self.is_right


@dataclasses.dataclass(frozen=True, eq=False)
class AllLayers:
    """Networks with all layers trained, beside the spread between samples of the limit.

    Attributes:
        family: the architecture and the prior.
        draws: the networks.
        predicted: their limit.
        comparison: tests against it.
        distance: mean over inputs of the KS distance between the networks and a sample of the limit as large.
        null_distance: the same between two samples of the limit; mean of 20 pairs.
    """

    family: "Trained"
    draws: TrainedDraws
    predicted: Predictive
    comparison: Comparison
    distance: float
    null_distance: float

    @property
    def passed(self) -> bool:
        """Within twice the distance of two samples of the limit."""
        return self.distance <= 2 * self.null_distance


@dataclasses.dataclass(frozen=True, eq=False)
class TheoryResult:
    """Everything that the parts of the experiment found.

    Attributes:
        config: what was run.
        checks: theorems 3.1 and 3.2, right and wrong laws.
        all_layers: theorem 3.3, for several priors, residual networks, and deeper ones with small biases.
        convergence: distance against width, at initialisation and after training of the readout.
        literal: width, largest KS distance of networks, and its median if the limit held, after training.
    """

    config: TheoryConfig
    checks: list[Check]
    all_layers: list[AllLayers]
    convergence: tuple[Convergence, Convergence]
    literal: list[tuple[int, float, float]]

    @property
    def passed(self) -> bool:
        """Whether every check came out as the theory says."""
        return all(check.passed for check in (*self.checks, *self.all_layers))


def _key(config: TheoryConfig, number: int) -> Any:
    return jax.random.fold_in(jax.random.key(config.seed), number)


@dataclasses.dataclass(frozen=True)
class Family:
    """Networks of one architecture under one prior.

    Attributes:
        name: of the architecture.
        net: the architecture.
        prior: of the readout variance.
        number: of its random key.
        with_wrong: whether wrong laws are tried too.
    """

    name: str
    net: Layer
    prior: ScalePrior
    number: int
    with_wrong: bool


def families(config: TheoryConfig) -> dict[str, Family]:
    """The networks on which theorems 3.1 and 3.2 are checked, by the name of their part of the experiment."""
    found = {str(prior): Family("erf", config.net, prior, i, i == 0) for i, prior in enumerate(config.priors)}
    return found | {"residual": Family("residual", config.residual_net, config.priors[0], 100, False)}


def count_laws(config: TheoryConfig) -> int:
    """How many laws are tested: two stages of every family, and the wrong ones, of which one is of the second alone."""
    return sum(2 + (5 if family.with_wrong else 0) for family in families(config).values())


def draw_stages(config: TheoryConfig, family: Family) -> tuple[NetworkDraws, NetworkDraws]:
    """The same networks before and after training of the readout."""
    sizes = {"width": config.width, "networks": config.networks, "time": (0.0, math.inf)}
    draws = train_readout(family.net, family.prior, X, Y, X_NEW, key=_key(config, family.number), **sizes)
    start, end = (NetworkDraws(values, draws.scales) for values in draws.values)
    return start, end


def stage_laws(config: TheoryConfig, family: Family) -> list[list[tuple[str, str, bool, Any]]]:
    """Title, name, whether it is right, and the law itself: for the networks before and after training."""
    process = ScaleMixture(family.net, family.prior)
    limits = process.prior(X_NEW), process.trained(X, Y)(X_NEW)
    found = []
    for stage, limit in zip(("initialisation", "readout trained"), limits, strict=True):
        title = f"{family.name}, {family.prior}, {stage}"
        laws: list[tuple[str, str, bool, Any]] = [(title, "the limit", True, limit)]
        if family.with_wrong:
            wrong = _wrong_laws(config, family.prior, stage, family.net, limit)
            laws += [(title, law, False, predicted) for law, predicted in wrong.items()]
        found.append(laws)
    return found


def check_family(config: TheoryConfig, family: Family) -> list[Check]:
    """Theorems 3.1 and 3.2 on the same networks, before and after training."""
    stages = zip(draw_stages(config, family), stage_laws(config, family), strict=True)
    key = _key(config, family.number)
    return [
        Check(title, law, is_right, compare(draws, predicted, key=key), draws, predicted, count_laws(config))
        for draws, laws in stages
        for title, law, is_right, predicted in laws
    ]


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


@dataclasses.dataclass(frozen=True)
class Trained:
    """Networks of which all layers are trained.

    Attributes:
        name: of the architecture.
        net: the architecture.
        prior: of the readout variance.
        networks, steps: how many.
        number: of its random key.
    """

    name: str
    net: Layer
    prior: ScalePrior
    networks: int
    steps: int
    number: int

    @property
    def title(self) -> str:
        """What its part of the experiment is called."""
        return f"all layers, {self.name}, {self.prior}"

    @property
    def law(self) -> Predictive:
        """The limit at the time when training stops.

        Steps are inversely proportional to the readout variance, so that all networks get equally far: what they
        started from is a Gaussian times a scale, and so is what becomes of it.
        """
        time = self.steps * float(stable_rates(self.net, X, [1.0])[0])
        unit = ScaleMixture(self.net, PointMass(1.0)).trained(X, Y, "all", time)(X_NEW)
        scale = ScaleMixture(self.net, self.prior).trained(X, Y, "all").scale
        return from_scale(scale, unit.mean, unit.var, unit.cov)


def trained_families(config: TheoryConfig) -> list[Trained]:
    """The networks on which theorem 3.3 is checked."""
    variances = {"weight_var": config.weight_var, "bias_var": config.all_layers_bias_var}
    net, residual = nn.mlp(config.depth, "erf", **variances), nn.resnet(1, "erf", **variances)
    deep = nn.mlp(config.deep, "erf", weight_var=config.weight_var, bias_var=config.bias_var)
    count, steps = config.all_layers_networks, config.steps
    return [
        *(Trained("erf", net, prior, count, steps, 200 + i) for i, prior in enumerate(config.all_layers_priors)),
        Trained("residual", residual, config.residual_prior, count, steps, 250),
        Trained(
            f"erf, {config.deep} hidden layers", deep, config.all_layers_priors[0], config.deep_networks,
            config.deep_steps, 260,
        ),
    ]  # fmt: skip


def train_all_layers(config: TheoryConfig, family: Trained) -> AllLayers:
    """Theorem 3.3."""
    limit = family.law
    draws = train(
        family.net,
        family.prior,
        X,
        Y,
        X_NEW,
        width=config.width,
        networks=family.networks,
        key=_key(config, family.number),
        steps=family.steps,
    )
    keys = jax.random.split(_key(config, 1000 + family.number), 20)
    pairs = [np.asarray(limit.sample(key, (2, len(draws)))) for key in keys]
    to_networks = [float(np.mean(_two_sample_ks(draws.values, first))) for first, _ in pairs]
    between = [float(np.mean(_two_sample_ks(second, first))) for first, second in pairs]
    return AllLayers(family, draws, limit, compare(draws, limit), float(np.mean(to_networks)), float(np.mean(between)))


def _two_sample_ks(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """KS distance of every column."""
    distances = []
    for first, second in zip(a.T, b.T, strict=True):
        both = np.concatenate([first, second])
        shares = [np.searchsorted(np.sort(part), both, side="right") / len(part) for part in (first, second)]
        distances.append(np.max(np.abs(shares[0] - shares[1])))
    return np.array(distances)


def measure_widths(config: TheoryConfig) -> tuple[tuple[Convergence, Convergence], list[tuple[int, float, float]]]:
    """Distance to the limit against the width: computed from bodies, and of networks themselves."""
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
