"""What the theory experiments found."""

from typing import Any

import numpy as np

from widetail.experiments.reporting._parts import Bullets, Figure, Prose, Section, Table, TextTable
from widetail.experiments.reporting._tables import between
from widetail.experiments.running._registry import Findings, Results
from widetail.experiments.theory._config import LEVEL
from widetail.experiments.theory._figures import draw_all
from widetail.experiments.theory._laws import AllLayers, Check, TheoryResult
from widetail.experiments.theory._tasks import result_of
from widetail.plots import ResultTable


def findings(results: Results) -> Findings:
    """Sentences and sections of the report."""
    result = result_of(results)
    pictures = draw_all(result)

    def figure(name: str, caption: str) -> Figure:
        return Figure(f"theory-{name}", pictures[name], caption)

    count = f"{result.config.networks:,} networks of width {result.config.width}"
    sections = [
        Section(
            "Posteriors and laws of networks",
            [
                figure(
                    "posteriors",
                    "The paper's figure 1, left: posterior of the NNGP and of the scale mixture, after five points of "
                    "a sine. The NNGP keeps the mean of the prior as its readout variance, the mixture infers it from "
                    "the points.",
                ),
                figure(
                    "histograms",
                    "The paper's figure 1, right: outputs of finite networks at one input, and the density of the "
                    "limit: at initialisation (theorem 3.1), readout trained (3.2), all layers trained (3.3).",
                ),
                figure(
                    "tails",
                    "The paper's figure 2, impact of the prior: densities at initialisation on a log scale. The "
                    "smaller the first parameter of the inverse gamma, the heavier the tail; networks are dots, "
                    "limits are lines.",
                ),
                figure("tails-trained", "The same with all layers trained (figure 2, right)."),
                figure(
                    "histograms-trained",
                    "All layers trained: residual networks, as in the paper's figure 3, and deeper ones with the small "
                    "biases of its figure 1, part of the way.",
                ),
            ],
        ),
        Section("Tests of every law", [*_tests(result), figure("differences", _differences_caption(count))]),
        Section("All layers trained", _all_layers(result)),
        Section("Convergence in the width", [_widths(result), figure("widths", _WIDTHS_CAPTION)]),
        Section("How this differs from the paper", [Bullets(_DIFFERENCES)]),
    ]
    return Findings(_sentences(result), sections)


def _sentences(result: TheoryResult) -> list[str]:
    right = [check for check in result.checks if check.is_right]
    wrong = [check for check in result.checks if not check.is_right]
    start, trained = result.convergence
    ratios = [part.distance / part.null_distance for part in result.all_layers]
    return [
        f"The limits of theorems 3.1 and 3.2 are not rejected in **{sum(c.passed for c in right)} of {len(right)}** "
        f"tests; laws that look similar are rejected in **{sum(c.passed for c in wrong)} of {len(wrong)}**, by the "
        f"same tests at the same level, {LEVEL:.0%} for all laws together.",
        f"With all layers trained (theorem 3.3; {len(ratios)} kinds of networks and priors) networks are "
        f"{between(ratios, 2)} times as far from a sample of the limit as two such samples are from each other.",
        f"The distance to the limit falls like width to the power {_minus(start.rate)} ± {start.rate_error:.2f} at "
        f"initialisation and {_minus(trained.rate)} ± {trained.rate_error:.2f} with a trained readout.",
    ]


def _minus(number: float) -> str:
    return f"{number:.2f}".replace("-", "\N{MINUS SIGN}")


def _tests(result: TheoryResult) -> list[Any]:
    def line(check: Check) -> list[str]:
        found = check.comparison
        expected = "not rejected" if check.is_right else "rejected"
        verdict = expected if check.passed else f"**{'rejected' if check.is_right else 'not rejected'}**"
        return [
            check.name,
            check.law,
            f"{found.ks.max():.4f}",
            f"{found.ks_pvalues.min():.2g}",
            f"{found.joint_ks_pvalue:.2g}",
            f"{found.joint_energy_pvalue:.2g}",
            f"{verdict}{'' if check.passed else f' (should be {expected})'}",
        ]

    head = ("networks", "law", "largest KS distance", "smallest p", "joint KS p", "joint energy p", "verdict")
    return [
        Prose(
            "Kolmogorov-Smirnov distances at five inputs; p-values of the inputs one by one and of the joint law, "
            "which is what a scale that is shared by all inputs changes. Right and wrong laws are judged alike, by "
            f"margins and joint tests, at {LEVEL:.0%} for all inputs, tests and {len(result.checks)} laws together "
            "(Bonferroni). The energy test, by 999 permutations, cannot reject alone at such a level."
        ),
        TextTable(head, [line(check) for check in result.checks]),
    ]


def _differences_caption(count: str) -> str:
    return (
        f"Empirical minus predicted cdf of {count} with a trained readout, at five inputs: the right law, then laws "
        "that look similar. A scale for every input has the right margins: only the joint law tells."
    )


_WIDTHS_CAPTION = (
    "Largest difference between the cdf at a finite width and the limit, computed from the covariances of random "
    "bodies; bars are two standard errors. Crosses: networks themselves, which cannot resolve less than the dotted "
    "line."
)


def _all_layers(result: TheoryResult) -> list[Any]:
    def line(part: AllLayers) -> list[str]:
        family, losses = part.family, part.draws.losses / part.draws.scales
        return [
            family.name,
            str(family.prior),
            f"{len(part.draws):,}",
            str(family.steps),
            f"{float(np.median(losses)):.0e}",
            f"{part.distance:.4f}",
            f"{part.null_distance:.4f}",
            f"{part.distance / part.null_distance:.2f}",
        ]

    config = result.config
    head = (
        "networks", "prior", "number", "steps", "loss left, over the readout variance", "distance to the limit",
        "between samples of the limit", "ratio",
    )  # fmt: skip
    return [
        Prose(
            f"Networks of width {config.width}, plain gradient descent on the mean squared error, with rates that are "
            "inversely proportional to their readout variances; the limit is that of the time when training stops. "
            f"Biases have variance {config.all_layers_bias_var:g}, those of the deeper networks {config.bias_var:g}: "
            "with these the tangent kernel is so ill-conditioned that training to the end takes thousands of steps. "
            "Distances are mean KS distances over the inputs, to a sample of the limit as large."
        ),
        TextTable(head, [line(part) for part in result.all_layers]),
    ]


def _widths(result: TheoryResult) -> Table:
    start, trained = result.convergence
    values = np.stack([start.distances, trained.distances], axis=1)
    errors = np.stack([start.errors, trained.errors], axis=1)
    table = ResultTable(
        [f"{width:.0f}" for width in start.widths],
        ["at initialisation", "readout trained"],
        values,
        errors,
        title="Largest difference of the cdfs over all inputs, ± standard error",
        corner="width",
        best=None,
        digits=5,
    )
    return Table(table)


_DIFFERENCES = (
    "Weights have variance 8 / fan-in here, as the paper's text says. Its published scripts use standard deviation 8 "
    "(variance 64 / fan-in) and biases of standard deviation 0.05.",
    "Readouts are trained by the exact flow to infinite time. Ten thousand steps of gradient descent, as in the "
    "paper, had not converged.",
    "Theorem 3.3 as printed trains readout weights v ~ N(0, β) themselves, for which the tangent kernel is not β times "
    "that of β = 1. Here the weights are √β u and u is trained, for which the theorem holds.",
    "It is tested with biases of variance 1, and with the small ones for a part of the training: the limit at a finite "
    "time is known as well.",
    "There is no theorem for residual networks with all layers trained; the paper shows them too.",
    "Laws are tested, with p-values and with wrong laws that must fail; the paper shows histograms at one input.",
)
