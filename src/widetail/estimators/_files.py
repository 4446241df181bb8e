"""Saving and loading fitted estimators: arrays in safetensors, the rest as JSON in its header. No pickle, no code."""

import json
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np
import safetensors
import safetensors.numpy

from widetail.estimators._classifier import ScaleMixtureClassifier
from widetail.estimators._regressor import ScaleMixtureRegressor
from widetail.estimators._scaling import Scaling
from widetail.estimators._sparse import SparseEstimator
from widetail.estimators._sparse_classifier import SparseMixtureClassifier
from widetail.estimators._sparse_files import describe_likelihood, rebuild_sparse, restore_likelihood, sparse_parts
from widetail.estimators._sparse_regressor import SparseMixtureRegressor
from widetail.estimators._tails import Tails
from widetail.estimators._wide import WideEnsemble
from widetail.estimators._wide_classifier import WideEnsembleClassifier
from widetail.estimators._wide_regressor import WideEnsembleRegressor
from widetail.files import write_whole
from widetail.files.checkpoints import from_named_leaves, named_leaves
from widetail.finite import ScaledNetwork
from widetail.kernels import from_config, to_config
from widetail.nn import Layer
from widetail.priors import ScalePrior, prior_from_config
from widetail.process import IndependentNoise, ScaledNoise, ScaleMixture
from widetail.sparse.likelihoods import Likelihood

VERSION = 1
ExactEstimators = ScaleMixtureRegressor | ScaleMixtureClassifier
WideEstimators = WideEnsembleRegressor | WideEnsembleClassifier
SparseEstimators = SparseMixtureRegressor | SparseMixtureClassifier
Estimator = ExactEstimators | WideEstimators | SparseEstimators
Regressors = (ScaleMixtureRegressor, WideEnsembleRegressor, SparseMixtureRegressor)
KINDS: dict[str, type[Estimator]] = {
    kind.__name__: kind
    for kind in (*Regressors, ScaleMixtureClassifier, WideEnsembleClassifier, SparseMixtureClassifier)
}
PARAMETER = "parameter_"  # in front of the number of an array of parameters
NOISES = {kind.__name__: kind for kind in (ScaledNoise, IndependentNoise)}


def save(model: Estimator, path: str | Path) -> None:
    """Write a fitted estimator to `path`, whole or not at all.

    The file of an exact estimator holds the training data in standard units and the learned numbers; loading factors
    the covariance matrix again, which keeps files small and results the same. That of an ensemble holds the parameters
    of its networks, that of a sparse estimator its inducing inputs and their posterior.
    """
    tensors, facts, fitted = _parts(model)
    tensors |= {"x_shift": model.x_scaling_.shift, "x_factor": model.x_scaling_.factor}
    fitted["n_features_in_"] = int(model.n_features_in_)
    if hasattr(model, "feature_names_in_"):
        fitted["feature_names_in_"] = [str(name) for name in model.feature_names_in_]
    if isinstance(model, Regressors):
        tensors |= {"y_shift": model.y_scaling_.shift, "y_factor": model.y_scaling_.factor}
    else:
        fitted["classes_"] = _describe_labels(model.classes_)
    header = {
        "version": VERSION,
        "kind": type(model).__name__,
        "parameters": {name: _describe(name, value) for name, value in model.get_params(deep=False).items()},
        "fitted": fitted,
        **facts,
    }
    tensors = {name: np.ascontiguousarray(values) for name, values in tensors.items()}
    data = safetensors.numpy.save(tensors, metadata={"widetail": json.dumps(header)})
    write_whole(Path(path), data)


Parts = tuple[dict[str, np.ndarray], dict[str, Any], dict[str, Any]]


def _parts(model: Estimator) -> Parts:
    if isinstance(model, WideEnsemble):
        return _wide_parts(model)
    return sparse_parts(model) if isinstance(model, SparseEstimator) else _exact_parts(model)


def _exact_parts(model: ExactEstimators) -> Parts:
    """Arrays, facts and fitted numbers of an exact estimator."""
    posterior = model.posterior
    tensors = {"x": np.asarray(posterior.x), "y": posterior.y, "counts": posterior.rows.counts}
    fitted: dict[str, Any] = {"architecture_": model.architecture_}
    if isinstance(model, ScaleMixtureClassifier):
        fitted["temperature_"] = model.temperature_
    elif model.tails_ is not None:
        tensors |= {"tail_degrees": model.tails_.degrees, "tail_factor": model.tails_.factor}
    return tensors, {"process": _describe_process(model.process_)}, fitted


def _wide_parts(model: WideEstimators) -> Parts:
    """Arrays, facts and fitted numbers of an ensemble."""
    network = {
        "net": to_config(model.net_),
        "width": model.network_.network.width,
        "outputs": model.network_.network.outputs,
        "parametrisation": model.network_.network.parametrisation,
        "readout": model.network_.readout,
        "input_shape": list(model.input_shape_),
    }
    tensors = {"scales": model.scales_, **named_leaves(model.parameters_, PARAMETER)}
    fitted: dict[str, Any] = {}
    if isinstance(model, WideEnsembleRegressor):
        fitted = {"noise_": model.noise_, "is_vector_": model.is_vector_}
    return tensors, {"network": network}, fitted


def load(path: str | Path) -> Any:
    """Read an estimator that `save` wrote.

    Raises:
        ValueError: the file is truncated, of another program or a later version, or not what it claims to be.

    Example:
        >>> import tempfile, pathlib, numpy as np, widetail as wt
        >>> x = np.linspace(0.0, 1.0, 12)[:, None]
        >>> model = wt.ScaleMixtureRegressor(net=wt.nn.mlp(1, "erf")).fit(x, x[:, 0])
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.widetail"
        >>> model.save(path)
        >>> bool(np.array_equal(wt.load(path).predict(x), model.predict(x)))
        True
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {str(path)!r}.")
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {})["widetail"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return _rebuild(header, tensors)
    except (safetensors.SafetensorError, KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ValueError(f"{str(path)!r} is not a widetail model, or it is damaged: {error}") from None


def _rebuild(header: dict[str, Any], tensors: dict[str, np.ndarray]) -> Estimator:
    if header["version"] != VERSION:
        raise ValueError(f"its format is version {header['version']!r}, this widetail reads version {VERSION}")
    kind = KINDS.get(header["kind"])
    if kind is None:
        raise ValueError(f"it holds a {header['kind']!r}, which is not an estimator of this widetail")
    if not all(np.all(np.isfinite(values)) for values in tensors.values()):
        raise ValueError("its arrays hold NaN or infinite numbers")
    model = kind(**{name: _restore(value) for name, value in header["parameters"].items()})
    if isinstance(model, WideEnsemble):
        _rebuild_network(model, header["network"], tensors)
    elif isinstance(model, SparseEstimator):
        rebuild_sparse(model, header["sparse"], tensors)
    else:
        _rebuild_posterior(model, header["process"], tensors)
    model.x_scaling_ = Scaling(tensors["x_shift"], tensors["x_factor"])
    fitted = dict(header["fitted"])
    if isinstance(model, Regressors):
        model.y_scaling_ = Scaling(tensors["y_shift"], tensors["y_factor"])
    else:
        model.classes_ = _restore_labels(fitted.pop("classes_"))
    if "feature_names_in_" in fitted:
        model.feature_names_in_ = np.asarray(fitted.pop("feature_names_in_"), dtype=object)
    for name in ("architecture_", "n_features_in_", "temperature_", "noise_", "is_vector_"):
        if name in fitted:
            setattr(model, name, fitted[name])
    return model


def _rebuild_posterior(model: ExactEstimators, process: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    x, y, counts = tensors["x"], tensors["y"], tensors["counts"]
    if len(x) != len(y):
        raise ValueError("its arrays do not fit together")
    model.process_ = _restore_process(process)
    model.posterior_ = model.process_.posterior(x, y, counts=None if np.all(counts == 1) else counts)
    model.choice_, model.evidence_fit_ = None, None
    if isinstance(model, ScaleMixtureRegressor):
        model.tails_ = Tails(tensors["tail_degrees"], tensors["tail_factor"]) if model.calibrate else None


def _rebuild_network(model: WideEstimators, network: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    model.net_ = cast(Layer, from_config(network["net"]))
    model.network_ = ScaledNetwork(
        model.net_,
        network["width"],
        outputs=network["outputs"],
        parametrisation=network["parametrisation"],
        readout=network["readout"],
    )
    model.input_shape_ = tuple(network["input_shape"])
    model.scales_ = tensors["scales"]
    key = jax.eval_shape(lambda: jax.random.key(0))
    one = jax.eval_shape(lambda key: model.network_.init(key, model.input_shape_, 1.0), key)
    members = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((len(model.scales_), *leaf.shape), leaf.dtype), one)
    model.parameters_ = from_named_leaves(members, tensors, PARAMETER)
    model.history_ = None


def _describe(name: str, value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, ScalePrior):
        return {"prior": value.to_config()}
    if isinstance(value, (ScaledNoise, IndependentNoise)):
        return {"noise": _describe_noise(value)}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Likelihood):
        return {"likelihood": describe_likelihood(value)}
    if name == "inducing":  # the inputs themselves are among the arrays of the file
        return len(value)
    if name == "net":
        return {"net": to_config(value)}
    raise ValueError(f"{name}={value!r} cannot be saved.")


def _restore(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "prior" in value:
        return prior_from_config(value["prior"])
    if "noise" in value:
        return _restore_noise(value["noise"])
    if "likelihood" in value:
        return restore_likelihood(value["likelihood"])
    return from_config(value["net"])


def _describe_noise(noise: ScaledNoise | IndependentNoise) -> dict[str, Any]:
    return {"name": type(noise).__name__, "variance": float(noise.variance)}


def _restore_noise(config: dict[str, Any]) -> ScaledNoise | IndependentNoise:
    return NOISES[config["name"]](float(config["variance"]))


def _describe_process(process: ScaleMixture) -> dict[str, Any]:
    return {
        "kernel": to_config(process.kernel),
        "prior": process.prior_scale.to_config(),
        "noise": _describe_noise(process.noise),
        "scale_sharing": process.scale_sharing,
    }


def _restore_process(config: dict[str, Any]) -> ScaleMixture:
    return ScaleMixture(
        from_config(config["kernel"]),
        prior_from_config(config["prior"]),
        _restore_noise(config["noise"]),
        scale_sharing=config["scale_sharing"],
    )


def _describe_labels(labels: np.ndarray) -> dict[str, Any]:
    if labels.dtype.kind == "O":
        if not all(isinstance(label, str) for label in labels):
            raise ValueError(f"classes {labels[:5]!r} cannot be saved; use numbers or strings.")
        return {"dtype": "object", "values": labels.tolist()}
    if labels.dtype.kind not in "biufU":
        raise ValueError(f"classes of dtype {labels.dtype} cannot be saved; use numbers or strings.")
    return {"dtype": labels.dtype.str, "values": labels.tolist()}


def _restore_labels(config: dict[str, Any]) -> np.ndarray:
    dtype = np.dtype(object if config["dtype"] == "object" else config["dtype"])
    if dtype.kind not in "biufUO":
        raise ValueError(f"its labels have dtype {dtype}")
    return np.asarray(config["values"], dtype=dtype)
