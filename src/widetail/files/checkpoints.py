"""The state of a training run in a file: arrays, and facts as JSON, with a checksum."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from widetail.files._sealed import damage_named, parse_json, read_sealed, write_sealed

VERSION = 2
CHECKPOINT = "widetail_checkpoint"


def with_leaves(template: Any, leaves: Sequence[np.ndarray]) -> Any:
    """The pytree of the structure and shapes of `template`; a ValueError if the arrays do not fit."""
    expected, structure = jax.tree.flatten(template)
    if len(expected) != len(leaves):
        raise ValueError(f"there are {len(leaves)} arrays, where {len(expected)} belong")
    for leaf, array in zip(expected, leaves, strict=True):
        if tuple(leaf.shape) != array.shape or np.dtype(leaf.dtype) != array.dtype:
            raise ValueError(
                f"an array has shape {array.shape} of {array.dtype}, where {tuple(leaf.shape)} of {leaf.dtype} belongs"
            )
    return jax.tree.unflatten(structure, leaves)


def write_checkpoint(path: Path, run: str, state: Any, facts: dict[str, Any]) -> None:
    """Write a pytree of arrays and plain facts."""
    arrays = {f"{i:05d}": np.asarray(leaf, order="C") for i, leaf in enumerate(jax.tree.leaves(state))}
    write_sealed(path, arrays, {CHECKPOINT: {"version": VERSION, "run": run, "facts": facts}})


def read_checkpoint(path: Path, run: str, template: Any) -> tuple[Any, dict[str, Any]]:
    """What `write_checkpoint` wrote; a ValueError if a bit of it has changed, or if it is of another run."""
    with damage_named(path, "checkpoint of widetail"):
        arrays, notes, is_sealed = read_sealed(path)
        header = parse_json(notes[CHECKPOINT], finite=False)  # losses of what is not there are NaN
        if header["version"] != VERSION or not is_sealed:
            raise ValueError(f"its format is version {header['version']!r}, this widetail reads version {VERSION}")
        if not isinstance(header["facts"], dict):
            raise ValueError(f"its facts are {header['facts']!r}, not names and values")
        is_same_run = header["run"] == run
        state = with_leaves(template, [arrays[name] for name in sorted(arrays)]) if is_same_run else None
    if not is_same_run:
        raise ValueError(
            f"checkpoint {str(path)!r} is of a run with other data or settings; delete it, or give another path."
        )
    return state, header["facts"]
