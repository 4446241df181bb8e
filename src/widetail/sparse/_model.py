"""A fitted sparse model: all that prediction and updates need."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from widetail.files import damage_named, fits, from_config, parse_json, read_sealed, savable, to_config, write_sealed
from widetail.predictive import LazyMatrix, Predictive
from widetail.priors import ScalePrior
from widetail.sparse._features import Whitening
from widetail.sparse._memory import Memory
from widetail.sparse._rows import CachedRows, variances
from widetail.sparse._variational import Variational
from widetail.sparse.likelihoods import Bernoulli, Categorical, Likelihood
from widetail.sparse.likelihoods._base import SMALLEST_VARIANCE
from widetail.sparse.predictions._latent import Latent
from widetail.sparse.predictions._probabilities import ClassProbabilities, class_probabilities
from widetail.sparse.scales import ScaleLaw, law_for
from widetail.sparse.training._held_out import HeldOutChoice
from widetail.sparse.training._train import SparseFit

NOTE = "widetail_sparse"  # of a file, which holds the model
PARTS = {
    "whitening": Whitening,
    "mean": np.ndarray,
    "precision": np.ndarray,
    "law": ScaleLaw | dict,
    "likelihood": Likelihood,
    "residual_share": float,
    "memory": dict,
}


@savable("sparse.SparseModel")
@dataclasses.dataclass(frozen=True, eq=False)
class SparseModel:
    """Inducing inputs, the posterior of their variables, and the likelihood.

    Attributes:
        whitening: kernel, inducing inputs and their factor.
        q: variational posterior.
        likelihood: with its learned parameters.
        memory: what is remembered of the rows.
        residual_share: how much of the residual variance, which the inducing inputs do not explain, is part of the
            model: from 0 to 1.
        fit: how training went; None in a model that was read from a file.
        choice: what held-out rows said; None where they were not asked.
    """

    whitening: Whitening
    q: Variational
    likelihood: Likelihood
    memory: Memory
    residual_share: float = 1.0
    fit: SparseFit | None = None
    choice: HeldOutChoice | None = None

    def latent(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean, and variance given a unit scale, of the latent values, shape (m, outputs), float64."""
        found = self.posterior(x)
        return found.mean, found.variance

    def location(self, x: Any) -> np.ndarray:
        """Means of the latent values alone, shape (m, outputs), float64."""
        features, _ = self.whitening.features(x)
        return features.astype(np.float64) @ self.q.mean.T

    def class_probabilities(self, x: Any, *, seed: int = 0) -> ClassProbabilities:
        """Probabilities of classes, their entropy and mutual information."""
        if not isinstance(self.likelihood, (Bernoulli, Categorical)):
            raise TypeError(f"class probabilities need Bernoulli or Categorical; the model has {self.likelihood!r}.")
        return class_probabilities(*self.latent(x), self.q.law, seed=seed)

    def posterior(self, x: Any, *, is_vector: bool = False) -> Latent:
        """The posterior of the latent values at m points, joint if need be.

        Args:
            x: inputs, rows first.
            is_vector: whether targets have no axis of outputs.
        """
        features, residual = self.whitening.features(x)
        rows = CachedRows.of(features, residual * self.residual_share, np.zeros(len(features)))
        features = features.astype(np.float64)

        def covariance() -> np.ndarray:
            projected = np.einsum("nm,ckm->cnk", features, self.q.root)
            explained = projected @ np.swapaxes(projected, 1, 2)
            if not self.residual_share:
                return explained
            matrix = np.asarray(self.whitening.kernel.kernel(np.asarray(x, np.float64), get="nngp").nngp)
            return explained + self.residual_share * (matrix - features @ features.T)

        scales, weights = self.q.law.nodes()
        return Latent(
            mean=features @ self.q.mean.T,
            # without the residual, none may remain far from all inducing inputs
            variance=np.maximum(variances(rows, self.q).astype(np.float64), SMALLEST_VARIANCE),
            covariance=LazyMatrix(covariance),
            scales=scales,
            weights=weights,
            tail_index=self.q.law.tail_index,
            is_vector=is_vector,
        )

    def f(self, x: Any) -> Predictive:
        """The predictive distribution of the latent functions, shape (m, outputs)."""
        return self.posterior(x).with_noise(0.0)

    def y(self, x: Any, *, is_vector: bool = False) -> Predictive:
        """The predictive distribution of targets, shape (m, outputs), or (m,) where `is_vector`."""
        return self.likelihood.predictive(self.posterior(x, is_vector=is_vector))

    def save(self, path: str | Path) -> None:
        """Write the model to one file, without the inputs of its rows; `load` reads it.

        Where rows are remembered as they are, which no likelihood but the Gaussian needs, the file holds their features
        and targets.
        """
        arrays: dict[str, np.ndarray] = {}
        described = to_config(self, arrays)
        write_sealed(Path(path), arrays, {NOTE: described})

    def saved_fields(self) -> dict[str, Any]:
        """Arrays, numbers and objects that determine the model."""
        return {
            "whitening": self.whitening,
            "mean": self.q.mean,
            "precision": self.q.precision,
            "law": self.q.law,
            "likelihood": self.likelihood,
            "residual_share": float(self.residual_share),
            "memory": self.memory.arrays(),
        }

    @classmethod
    def from_saved(cls, fields: dict[str, Any], prior: ScalePrior | None = None) -> "SparseModel":
        """The model whose `saved_fields` these are.

        Args:
            fields: in version 1 of the files of estimators the law is a dictionary of the numbers beside the prior's,
                and what is remembered may be two numbers.
            prior: of the scale, for such a law.
        """
        if "open_share" in fields:  # its name in older files
            fields = {**fields, "residual_share": fields["open_share"]}
        for name, kind in PARTS.items():
            if not fits(fields[name], kind):
                raise ValueError(f"{name} is {fields[name]!r}")
        whitening, mean, precision, law = (fields[name] for name in ("whitening", "mean", "precision", "law"))
        likelihood, remembered = fields["likelihood"], fields["memory"]
        outputs, count = len(mean), len(whitening.inducing)
        if mean.shape != (outputs, count) or precision.shape != (outputs, count, count):
            raise ValueError(f"mean {mean.shape} and precision {precision.shape} do not fit {count} inducing inputs")
        if not 0 <= fields["residual_share"] <= 1:
            raise ValueError(f"residual_share is {fields['residual_share']}")
        if isinstance(law, dict):
            if prior is None:
                raise ValueError("the law of the scale needs its prior")
            law = law_for(prior).restored(law)
        q = Variational.at_prior(outputs, count, law).with_mean(mean).with_precision(precision)
        if "spill" in remembered:  # what it says of the residual is multiplied by the expected precision
            residual = remembered["spill"] / q.law.mean_precision
            memory = Memory.of_posterior(q, likelihood, residual, remembered["observations"])
        else:
            memory = Memory.from_arrays(remembered)
        slope = memory.parameter_slope
        if memory.cross.shape != mean.shape or (slope is not None and len(slope) != len(likelihood.learnable)):
            raise ValueError("its arrays do not fit together")
        return cls(whitening, q, likelihood, memory, fields["residual_share"])


def load(path: str | Path) -> SparseModel:
    """Read a model that `SparseModel.save` wrote; estimators have files of their own, which `wt.load` reads.

    Raises:
        ValueError: a bit of the file has changed, it is truncated, or it is not such a file.

    Example:
        >>> import pathlib, tempfile, numpy as np, widetail as wt
        >>> from widetail import sparse
        >>> x = np.linspace(-2.0, 2.0, 60)[:, None]
        >>> prior = wt.InverseGamma(2.0, 2.0)
        >>> model = sparse.fit(wt.nn.mlp(1, "erf"), prior, sparse.Gaussian(0.01), x, np.sin(2 * x), inducing=12)
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.widetail"
        >>> model.save(path)
        >>> bool(np.array_equal(sparse.load(path).latent(x), model.latent(x)))
        True
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {str(path)!r}.")
    with damage_named(path, "sparse model of widetail"):
        arrays, notes, is_sealed = read_sealed(path)
        if not is_sealed:
            raise ValueError("it has no checksum")
        return from_config(parse_json(notes[NOTE]), arrays, expected=SparseModel)
