"""What a file holds of a sparse estimator."""

import dataclasses
from typing import Any

import numpy as np

from widetail.estimators._sparse import SparseEstimator
from widetail.estimators._sparse_regressor import SparseMixtureRegressor
from widetail.kernels import from_config, to_config
from widetail.sparse import Memory, SparseModel, Variational, Whitening, law_for
from widetail.sparse.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood, Poisson, StudentT

LIKELIHOODS = {kind.__name__: kind for kind in (Bernoulli, Categorical, Gaussian, Poisson, StudentT)}


def describe_likelihood(likelihood: Likelihood) -> dict[str, Any]:
    """Name and parameters of a likelihood of this library."""
    if type(likelihood).__name__ not in LIKELIHOODS:
        raise ValueError(f"{likelihood!r} cannot be saved; save the likelihoods of widetail.sparse.")
    fields = {field.name: getattr(likelihood, field.name) for field in dataclasses.fields(likelihood)}
    return {
        "name": type(likelihood).__name__,
        "fields": {
            name: value if isinstance(value, (bool, int, str)) else float(value) for name, value in fields.items()
        },
    }


def restore_likelihood(config: dict[str, Any]) -> Likelihood:
    """What `describe_likelihood` described."""
    return LIKELIHOODS[config["name"]](**config["fields"])


def sparse_parts(model: SparseEstimator) -> tuple[dict[str, np.ndarray], dict[str, Any], dict[str, Any]]:
    """Arrays, facts and fitted numbers."""
    fitted, q = model.model_, model.model_.q
    tensors = {
        "inducing": fitted.whitening.inducing,
        "factor": fitted.whitening.factor,
        "mean": q.mean,
        "precision": q.precision,
    } | fitted.memory.arrays()
    facts = {
        "kernel": to_config(model.kernel_),
        "dtype": fitted.whitening.dtype,
        "law": q.law.facts(),
        "likelihood": describe_likelihood(fitted.likelihood),
        "open_share": float(fitted.open_share),
        "input_shape": list(model.input_shape_),
    }
    numbers = {"is_vector_": model.is_vector_} if isinstance(model, SparseMixtureRegressor) else {}
    return tensors, {"sparse": facts}, numbers


def rebuild_sparse(model: SparseEstimator, facts: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    """Put the fitted parts back."""
    mean, precision, inducing, factor = (tensors[name] for name in ("mean", "precision", "inducing", "factor"))
    outputs, count = mean.shape
    if precision.shape != (outputs, count, count) or factor.shape != (count, count) or len(inducing) != count:
        raise ValueError("its arrays do not fit together")
    model.kernel_ = from_config(facts["kernel"])
    model.input_shape_ = tuple(facts["input_shape"])
    model.fit_ = None
    model.choice_ = None
    law = law_for(model._prior).restored(facts["law"])
    q = Variational.at_prior(outputs, count, law).with_mean(mean).with_precision(precision)
    whitening = Whitening(model.kernel_, inducing, factor, facts["dtype"])
    likelihood = restore_likelihood(facts["likelihood"])
    if "memory_gram" in tensors:
        memory = Memory.from_arrays(tensors)
    else:  # a file of an earlier version; what it says of the residual is multiplied by the expected precision
        residual = facts["spill"] / q.law.mean_precision
        memory = Memory.of_posterior(q, likelihood, residual, facts["observations"])
    if memory.cross.shape != mean.shape:
        raise ValueError("its arrays do not fit together")
    model.model_ = SparseModel(whitening, q, likelihood, memory, facts["open_share"])
