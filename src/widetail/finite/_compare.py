"""Tests of finite networks against a predicted law: distances, and their distributions when the prediction is right."""

import dataclasses
from typing import Any

import jax
import numpy as np
import scipy.spatial.distance
import scipy.stats
from jaxtyping import Float, PRNGKeyArray
from scipy.special import ndtri

from widetail.checks import check_count
from widetail.finite._draws import NetworkDraws
from widetail.predictive import Predictive

SMALLEST_PROBABILITY = 1e-15


@dataclasses.dataclass(frozen=True, eq=False)
class Comparison:
    """Distances between networks and a predicted law, and their null distributions.

    Coordinates are inputs, or pairs of input and output. Per coordinate everything happens after the predicted
    cdf, on the scale of probabilities, where laws without moments can be compared and null distributions are
    the same for all laws. The joint law is compared on normal scores, the standard normal quantiles of those
    probabilities: margins no longer matter there, what is left is how coordinates go together.

    Attributes:
        networks: number of networks.
        probabilities: predicted cdf of every value, shape (networks, coordinates): uniform if the prediction is right;
            of a sample in place of a law its empirical cdf.
        ks: Kolmogorov-Smirnov distance of each coordinate.
        ks_pvalues: probability of a larger one if the prediction is right.
        ks_null: distances that samples of the predicted law itself have.
        energy: energy distance of each coordinate to the uniform law, twice the integrated squared difference of cdfs.
        energy_pvalues, energy_null: as for `ks`.
        joint_ks: distance between the laws of the length of the whitened normal scores: the one that sees whether
            coordinates share a scale.
        joint_ks_pvalue, joint_ks_null: against that of an equally large sample of the predicted law.
        joint_energy: energy distance between normal scores of the networks and of that sample.
        joint_energy_pvalue, joint_energy_null: by permutations of the two samples.
    """

    networks: int
    probabilities: Float[np.ndarray, "networks coordinates"]
    ks: Float[np.ndarray, " coordinates"]
    ks_pvalues: Float[np.ndarray, " coordinates"]
    ks_null: Float[np.ndarray, " draws"]
    energy: Float[np.ndarray, " coordinates"]
    energy_pvalues: Float[np.ndarray, " coordinates"]
    energy_null: Float[np.ndarray, " draws"]
    joint_ks: float
    joint_ks_pvalue: float
    joint_ks_null: Float[np.ndarray, " draws"]
    joint_energy: float
    joint_energy_pvalue: float
    joint_energy_null: Float[np.ndarray, " permutations"]

    def rejects_margins(self, level: float = 0.01) -> bool:
        """Whether the KS test of any coordinate rejects, at `level` for all of them together (Bonferroni)."""
        return bool(np.min(self.ks_pvalues) < level / len(self.ks))

    def rejects_joint(self, level: float = 0.01) -> bool:
        """Whether either joint test rejects, at `level` for both together (Bonferroni)."""
        return min(self.joint_ks_pvalue, self.joint_energy_pvalue) < level / 2

    def rejects(self, level: float = 0.01) -> bool:
        """Whether the margins or the joint law are rejected, each at half of `level`."""
        return self.rejects_margins(level / 2) or self.rejects_joint(level / 2)

    def __str__(self) -> str:
        lines = [
            f"{self.networks} networks, {len(self.ks)} coordinates",
            "  coordinate   KS distance  p-value   energy distance  p-value",
        ]
        rows = zip(self.ks, self.ks_pvalues, self.energy, self.energy_pvalues, strict=True)
        lines += [
            f"  {i:<12d} {d:.4f}       {p:.3g}".ljust(37) + f" {e:.2e}         {q:.3g}"
            for i, (d, p, e, q) in enumerate(rows)
        ]
        lines.append(
            f"  {'joint':<12s} {self.joint_ks:.4f}       {self.joint_ks_pvalue:.3g}".ljust(37)
            + f" {self.joint_energy:.2e}         {self.joint_energy_pvalue:.3g}"
        )
        null = np.quantile(self.ks_null, [0.5, 0.99])
        lines.append(f"  of the predicted law itself: KS distance {null[0]:.4f} (median), {null[1]:.4f} (99 %)")
        return "\n".join(lines)


def compare(
    draws: NetworkDraws | Any,
    predicted: Predictive | Any,
    *,
    key: PRNGKeyArray | None = None,
    permutations: int = 999,
) -> Comparison:
    """Compare the law of networks at given inputs with a predicted one, coordinate by coordinate and jointly.

    Args:
        draws: what `sample`, `train_readout` or `train` returned, or an array of shape (networks, m[, outputs]).
        predicted: a predictive distribution of the same m inputs, such as `ScaleMixture(net, prior).prior(x)`; or an
            array of draws from one, (more_than_100, m[, outputs]), where only those are known: both sides are
            then random, and the tests are those of two samples.
        key: random key of the sample from the predicted law and of the permutations; key 0 by default.
        permutations: for the null distribution of the joint energy distance; also the number of draws from the others.

    Inputs at which training has removed all randomness (those trained on) have no law to compare: leave them out.

    Example:
        >>> import jax, numpy as np, widetail as wt
        >>> net, prior, x = wt.nn.mlp(1, "erf"), wt.InverseGamma(2.0, 2.0), np.array([[-0.5], [1.0]])
        >>> draws = wt.finite.sample(net, prior, x, width=128, networks=500, key=jax.random.key(0))
        >>> wt.finite.compare(draws, wt.ScaleMixture(net, prior).prior(x)).rejects()
        False
    """
    check_count("permutations", permutations, least=99)
    values = np.asarray(draws.values if isinstance(draws, NetworkDraws) else draws, dtype=np.float64)
    if values.ndim not in (2, 3) or len(values) < 20:
        raise ValueError(
            f"draws must have shape (networks, m) or (networks, m, outputs) with at least 20 networks; got "
            f"{values.shape}."
        )
    if not np.all(np.isfinite(values)):
        raise ValueError(f"draws must be finite; {int(np.sum(~np.isfinite(values)))} values are NaN or infinite.")
    key = jax.random.key(0) if key is None else key
    sample_key, rest_key = jax.random.split(key)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(rest_key), np.uint32).tolist())
    if isinstance(predicted, Predictive):
        reference = np.asarray(predicted.sample(sample_key, (len(values),)), np.float64)
        _check_shapes(values, reference)
        probabilities = _flat(predicted.cdf(values))
        ranks = probabilities, _flat(predicted.cdf(reference))
        margins = _margins_of_law(probabilities, permutations, rng)
    else:
        reference = np.asarray(predicted, dtype=np.float64)
        _check_shapes(values, reference)
        margins = _margins_of_samples(_flat(values), _flat(reference), permutations, rng)
        ranks = _pooled_ranks(_flat(values), _flat(reference))
        probabilities = _empirical_cdf(_flat(reference), _flat(values))
    scores, reference_scores = (ndtri(np.clip(part, SMALLEST_PROBABILITY, 1 - 1e-15)) for part in ranks)
    return Comparison(
        networks=len(values),
        probabilities=probabilities,
        **margins,
        **_joint_ks(scores, reference_scores, permutations, rng),
        **_joint_energy(scores, reference_scores, permutations, rng),
    )


def _check_shapes(values: np.ndarray, reference: np.ndarray) -> None:
    if values.shape[1:] != reference.shape[1:] or len(reference) < 20:
        raise ValueError(
            f"draws and predicted must be of the same inputs: draws have shape (networks, m[, outputs]) = "
            f"{values.shape}, what is predicted has {reference.shape}."
        )


def _flat(values: Any) -> np.ndarray:
    values = np.asarray(values, np.float64)
    return values.reshape(len(values), -1)


def _ks_of_uniform(sorted_u: np.ndarray) -> np.ndarray:
    """KS distance to the uniform law of values sorted along the first axis."""
    n = len(sorted_u)
    steps = np.arange(n + 1).reshape((-1,) + (1,) * (sorted_u.ndim - 1)) / n
    return np.maximum(np.max(steps[1:] - sorted_u, axis=0), np.max(sorted_u - steps[:-1], axis=0))


def _energy_of_uniform(sorted_u: np.ndarray) -> np.ndarray:
    """Twice the integral over [0, 1] of the squared difference between the empirical cdf and the uniform one."""
    n = len(sorted_u)
    middles = (np.arange(n).reshape((-1,) + (1,) * (sorted_u.ndim - 1)) + 0.5) / n
    return 2 * (np.mean((sorted_u - middles) ** 2, axis=0) + 1 / (12 * n**2))


def _margins_of_law(u: np.ndarray, draws: int, rng: np.random.Generator) -> dict[str, Any]:
    """Tests of every column against the uniform law."""
    n = len(u)
    ordered = np.sort(u, axis=0)
    null = np.sort(rng.random((n, draws)), axis=0)
    ks = _ks_of_uniform(ordered)
    return {
        "ks": ks,
        "ks_pvalues": scipy.stats.kstwo.sf(ks, n),
        "ks_null": _ks_of_uniform(null),
        "energy": _energy_of_uniform(ordered),
        "energy_pvalues": np.array([scipy.stats.cramervonmises(column, "uniform").pvalue for column in u.T]),
        "energy_null": _energy_of_uniform(null),
    }


def _pooled_ranks(values: np.ndarray, reference: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both samples as probabilities of the empirical law of both together."""
    ranks = scipy.stats.rankdata(np.concatenate([values, reference]), axis=0)
    u = (ranks - 0.5) / len(ranks)
    return u[: len(values)], u[len(values) :]


def _empirical_cdf(reference: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Share of the reference below each value, column by column."""
    columns = zip(np.sort(reference, axis=0).T, values.T, strict=True)
    return np.stack([np.searchsorted(own, at) / len(own) for own, at in columns], axis=1)


def _margins_of_samples(
    values: np.ndarray, reference: np.ndarray, draws: int, rng: np.random.Generator
) -> dict[str, Any]:
    """Two-sample tests of every column; the null distributions depend on ranks alone."""
    n, m = len(values), len(reference)
    labels = np.zeros(n + m, bool)
    labels[:n] = True
    null = np.stack([_two_sample_distances(rng.permutation(labels)) for _ in range(draws)])
    pooled = np.concatenate([values, reference])
    found = np.stack([_two_sample_distances(labels[np.argsort(column, kind="stable")]) for column in pooled.T])
    tests: list[Any] = [scipy.stats.ks_2samp(a, b) for a, b in zip(values.T, reference.T, strict=True)]
    return {
        "ks": found[:, 0],
        "ks_pvalues": np.array([test.pvalue for test in tests]),
        "ks_null": null[:, 0],
        "energy": found[:, 1],
        "energy_pvalues": _permutation_pvalues(found[:, 1], null[:, 1]),
        "energy_null": null[:, 1],
    }


def _two_sample_distances(labels: np.ndarray) -> np.ndarray:
    """KS and energy distance of two samples on the scale of pooled ranks; `labels` in the order of the values."""
    difference = np.cumsum(labels) / labels.sum() - np.cumsum(~labels) / (~labels).sum()
    return np.array([np.max(np.abs(difference)), 2 * np.mean(difference**2)])


def _permutation_pvalues(found: Any, null: np.ndarray) -> Any:
    return (1 + np.sum(null >= np.asarray(found)[..., None], axis=-1)) / (1 + len(null))


def _joint_ks(scores: np.ndarray, reference: np.ndarray, draws: int, rng: np.random.Generator) -> dict[str, Any]:
    pooled = np.concatenate([scores, reference])
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(pooled.T)))
    keep = values > 1e-8 * values[-1]
    whitener = vectors[:, keep] / np.sqrt(values[keep])
    lengths, reference_lengths = (np.linalg.norm(part @ whitener, axis=1) for part in (scores, reference))
    test: Any = scipy.stats.ks_2samp(lengths, reference_lengths)
    labels = np.zeros(len(pooled), bool)
    labels[: len(scores)] = True
    null = np.array([_two_sample_distances(rng.permutation(labels))[0] for _ in range(draws)])
    return {"joint_ks": float(test.statistic), "joint_ks_pvalue": float(test.pvalue), "joint_ks_null": null}


# All pairs of two samples of this size: 128 MB, and a second per thousand permutations.
MOST_FOR_ALL_PAIRS = 2000


def _joint_energy(
    scores: np.ndarray, reference: np.ndarray, permutations: int, rng: np.random.Generator
) -> dict[str, Any]:
    if len(scores) > MOST_FOR_ALL_PAIRS:
        scores = scores[rng.choice(len(scores), MOST_FOR_ALL_PAIRS, replace=False)]
    if len(reference) > MOST_FOR_ALL_PAIRS:
        reference = reference[rng.choice(len(reference), MOST_FOR_ALL_PAIRS, replace=False)]
    n, m = len(scores), len(reference)
    pooled = np.concatenate([scores, reference])
    distances = scipy.spatial.distance.squareform(scipy.spatial.distance.pdist(pooled)).astype(np.float32)
    labels = np.zeros((n + m, permutations + 1), np.float32)
    labels[:n, 0] = 1.0
    for column in range(1, permutations + 1):
        labels[rng.permutation(n + m)[:n], column] = 1.0
    # 2 E|X - Y| - E|X - X'| - E|Y - Y'| is minus the quadratic form of the difference of the empirical measures
    difference = labels / n - (1 - labels) / m
    energy = -np.einsum("ij,ij->j", difference, distances @ difference, dtype=np.float64)
    return {
        "joint_energy": float(energy[0]),
        "joint_energy_pvalue": float(_permutation_pvalues(energy[0], energy[1:])),
        "joint_energy_null": energy[1:],
    }
