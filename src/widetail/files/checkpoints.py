"""The state of a training run in a file: arrays in safetensors, the rest as JSON in its header."""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import safetensors
import safetensors.numpy

from widetail.files._write import write_whole

VERSION = 1


def named_leaves(tree: Any, prefix: str = "") -> dict[str, np.ndarray]:
    """The arrays of a pytree by their place in it."""
    return {f"{prefix}{i:05d}": np.asarray(leaf, order="C") for i, leaf in enumerate(jax.tree.leaves(tree))}


def from_named_leaves(template: Any, arrays: dict[str, np.ndarray], prefix: str = "") -> Any:
    """The pytree of the structure and shapes of `template`; a ValueError if the arrays do not fit."""
    leaves, structure = jax.tree.flatten(template)
    found = [arrays[f"{prefix}{i:05d}"] for i in range(len(leaves))]
    for leaf, array in zip(leaves, found, strict=True):
        if tuple(leaf.shape) != array.shape or np.dtype(leaf.dtype) != array.dtype:
            raise ValueError(
                f"an array has shape {array.shape} of {array.dtype}, where {tuple(leaf.shape)} of {leaf.dtype} belongs"
            )
    return jax.tree.unflatten(structure, found)


def write_checkpoint(path: Path, run: str, state: Any, facts: dict[str, Any]) -> None:
    """Write a pytree of arrays and plain facts."""
    header = {"version": VERSION, "run": run, "facts": facts}
    write_whole(path, safetensors.numpy.save(named_leaves(state), metadata={"widetail_checkpoint": json.dumps(header)}))


def read_checkpoint(path: Path, run: str, template: Any) -> tuple[Any, dict[str, Any]]:
    """What `write_checkpoint` wrote; a ValueError if the file is damaged or of another run."""
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {})["widetail_checkpoint"])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if header["version"] != VERSION:
            raise ValueError(f"its format is version {header['version']!r}, this widetail reads version {VERSION}")
        is_same_run = header["run"] == run
        state = from_named_leaves(template, arrays) if is_same_run else None
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"checkpoint {str(path)!r} is damaged or of another program: {error}") from None
    if not is_same_run:
        raise ValueError(
            f"checkpoint {str(path)!r} is of a run with other data or settings; delete it, or give another path."
        )
    return state, header["facts"]
