"""What a file holds of a sparse model: its posterior and what it remembers, without inputs."""

from typing import Any

import numpy as np

from widetail.files import fits
from widetail.priors import ScalePrior
from widetail.sparse import Memory, ScaleLaw, SparseModel, Variational, Whitening, law_for
from widetail.sparse.likelihoods import Likelihood

PARTS = {
    "whitening": Whitening,
    "mean": np.ndarray,
    "precision": np.ndarray,
    "law": ScaleLaw | dict,
    "likelihood": Likelihood,
    "open_share": float,
    "memory": dict,
}


def parts_of(model: SparseModel) -> dict[str, Any]:
    """Arrays, numbers and objects that determine the model."""
    return {
        "whitening": model.whitening,
        "mean": model.q.mean,
        "precision": model.q.precision,
        "law": model.q.law,
        "likelihood": model.likelihood,
        "open_share": float(model.open_share),
        "memory": model.memory.arrays(),
    }


def model_of(parts: dict[str, Any], prior: ScalePrior) -> SparseModel:
    """The model that has these parts.

    Args:
        parts: as `parts_of` gives them; in version 1 the law is a dictionary of the numbers beside the prior's, and
            what is remembered may be two numbers.
        prior: of the scale.
    """
    for name, kind in PARTS.items():
        if not fits(parts[name], kind):
            raise ValueError(f"{name} is {parts[name]!r}")
    whitening, mean, precision, law = (parts[name] for name in ("whitening", "mean", "precision", "law"))
    likelihood, remembered = parts["likelihood"], parts["memory"]
    count = len(whitening.inducing)
    outputs = len(mean)
    if mean.shape != (outputs, count) or precision.shape != (outputs, count, count):
        raise ValueError(f"mean {mean.shape} and precision {precision.shape} do not fit {count} inducing inputs")
    if not 0 <= parts["open_share"] <= 1:
        raise ValueError(f"open_share is {parts['open_share']}")
    if isinstance(law, dict):
        law = law_for(prior).restored(law)
    q = Variational.at_prior(outputs, count, law).with_mean(mean).with_precision(precision)
    if "spill" in remembered:  # what it says of the residual is multiplied by the expected precision
        residual = remembered["spill"] / q.law.mean_precision
        memory = Memory.of_posterior(q, likelihood, residual, remembered["observations"])
    else:
        memory = Memory.from_arrays(remembered)
    if memory.cross.shape != mean.shape:
        raise ValueError("its arrays do not fit together")
    return SparseModel(whitening, q, likelihood, memory, parts["open_share"])
