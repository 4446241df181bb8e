"""Model files of version 1, as version 2 describes them.

They have no checksum, so that a flipped bit in one of their arrays cannot be noticed; everything else is checked as in
later files. Nothing here builds anything: names and numbers are put where version 2 has them.
"""

from collections.abc import Collection
from typing import Any

Config = dict[str, Any]
# Parameters of sparse estimators that are in one object since.
OPTIONS = (
    "selection", "scale", "open_share", "precision", "max_iterations", "tolerance", "early_stopping",
    "validation_fraction", "patience", "optimiser", "train_inputs", "train_kernel", "epochs", "learning_rate",
    "batch_size",
)  # fmt: skip


def upgraded(header: Config, arrays: Collection[str]) -> Config:
    """The description of an estimator, from the header of its file and the names of its arrays."""
    if header["version"] != 1:
        raise ValueError(f"its format is version {header['version']!r}, and it has no checksum")
    parameters = {name: _parameter(value) for name, value in header["parameters"].items()}
    learned: Config = dict(header["fitted"])
    learned["x_scaling_"] = _scaling("x")
    if "classes_" not in learned:
        learned["y_scaling_"] = _scaling("y")
    else:
        labels = learned["classes_"]
        learned["classes_"] = {"array": labels["values"], "dtype": labels["dtype"]}
    if "feature_names_in_" in learned:
        learned["feature_names_in_"] = {"array": learned["feature_names_in_"], "dtype": "object"}
    if "process" in header:
        learned |= _exact(header["process"], parameters)
    elif "network" in header:
        learned |= _wide(header["network"], arrays)
    else:
        learned |= _sparse(header["sparse"], arrays)
        given = {name: parameters.pop(name) for name in OPTIONS if name in parameters}
        parameters["options"] = _made("sparse.TrainingOptions", **given)
    return _made(f"estimators.{header['kind']}", parameters=_dict(parameters), learned=_dict(learned))


def _exact(process: Config, parameters: Config) -> Config:
    learned: Config = {
        "process_": _made(
            "process.ScaleMixture",
            kernel=_kernel(process["kernel"]),
            prior=_prior(process["prior"]),
            noise=_noise(process["noise"]),
            scale_sharing=process["scale_sharing"],
        ),
        "x": _array("x"),
        "y": _array("y"),
        "counts": _array("counts"),
    }
    if "calibrate" in parameters:
        tails = _made("estimators.Tails", degrees=_array("tail_degrees"), factor=_array("tail_factor"))
        learned["tails_"] = tails if parameters["calibrate"] else None
    return learned


def _wide(network: Config, arrays: Collection[str]) -> Config:
    return {
        "net_": _kernel(network["net"]),
        "input_shape_": {"tuple": network["input_shape"]},
        "scales_": _array("scales"),
        "parameters": [_array(name) for name in sorted(arrays) if name.startswith("parameter_")],
        **{name: network[name] for name in ("width", "outputs", "parametrisation", "readout")},
    }


def _sparse(facts: Config, arrays: Collection[str]) -> Config:
    remembered = {name: _array(name) for name in arrays if name.startswith("memory_")}
    return {
        "whitening": _made(
            "sparse.Whitening",
            kernel=_kernel(facts["kernel"]),
            inducing=_array("inducing"),
            factor=_array("factor"),
            dtype=facts["dtype"],
        ),
        "mean": _array("mean"),
        "precision": _array("precision"),
        "law": _dict(facts["law"]),
        "likelihood": _likelihood(facts["likelihood"]),
        "input_shape_": {"tuple": facts["input_shape"]},
        "open_share": facts["open_share"],
        "memory": _dict(remembered or {name: facts[name] for name in ("spill", "observations")}),
    }


def _scaling(name: str) -> Config:
    return _made("estimators.Scaling", shift=_array(f"{name}_shift"), factor=_array(f"{name}_factor"))


def _parameter(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((name, described),) = value.items()
    return {"prior": _prior, "noise": _noise, "likelihood": _likelihood, "net": _kernel}[name](described)


def _prior(config: Config) -> Config:
    return {"kind": f"priors.{config['name']}", "fields": config["params"]}


def _noise(config: Config) -> Config:
    return _made(f"process.{config['name']}", variance=config["variance"])


def _likelihood(config: Config) -> Config:
    return {"kind": f"sparse.{config['name']}", "fields": config["fields"]}


def _kernel(config: Any) -> Any:
    """A network or kernel, and what is inside of it."""
    if not isinstance(config, dict):
        return config
    if "program" in config:
        settings = {name: _kernel(value) for name, value in config["settings"].items()}
        return _made(
            "programs.Program", **(config | {"settings": _dict(settings), "variances": _dict(config["variances"])})
        )
    if "activation" in config:
        return _kernel(config["activation"])
    if "tuple" in config:
        return {"tuple": [_kernel(entry) for entry in config["tuple"]]}
    if "array" in config:
        return config
    fields = {name: _kernel(value) for name, value in config["fields"].items() if name != "layers"}
    if "layers" in config["fields"]:
        fields["layers"] = {"tuple": [_kernel(layer) for layer in config["fields"]["layers"]]}
    return {"kind": f"{config['room'].removeprefix('widetail.')}.{config['class']}", "fields": fields}


def _made(kind: str, **fields: Any) -> Config:
    return {"kind": kind, "fields": fields}


def _dict(values: Config) -> Config:
    return {"dict": values}


def _array(name: str) -> Config:
    return {"array": name}
