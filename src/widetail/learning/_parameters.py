"""Which numbers of a process can be learned, and as what."""

import dataclasses
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from widetail.checks import as_parameter
from widetail.nn import Activation, Layer
from widetail.process import ScaleMixture

Part = Literal["kernel", "noise", "prior"]

# Bounds are factors around a variance of one, wide enough for standardised data. Noise inside of the scale is in units
# of the readout variance, which is thousands where functions are smooth.
BOUNDS = {"kernel": (1e-6, 1e4), "noise": (2e-10, 1e2), "prior": (1e-3, 1e4)}
# Kernel parameters that multiply the whole kernel, or undo another one, have nothing to learn.
LEARNABLE = {
    "weight_var",
    "bias_var",
    "query_key_var",
    "length_scale",
    "variances",
    "part_var",
    "interaction_var",
    "power",
    "alpha",
}
# Fields that have an end of their own.
FIELD_BOUNDS = {"power": (0.1, 2.0)}


@dataclasses.dataclass(frozen=True)
class Slot:
    """One leaf of a process that is learned.

    Attributes:
        name: where it is, such as "kernel.layers[0].weight_var".
        index: its place among the leaves of the process.
        size: how many numbers it holds.
        part: what it belongs to.
        field: its name alone, such as "weight_var".
    """

    name: str
    index: int
    size: int
    part: Part
    field: str


class Parameters:
    """The logs of all learned numbers of a process, as one vector, and back."""

    def __init__(self, process: ScaleMixture, learn: tuple[Part, ...]):
        paths, self._structure = jax.tree_util.tree_flatten_with_path(process)
        self._leaves = [leaf for _, leaf in paths]
        frozen = _degenerate(process)
        self.slots: list[Slot] = []
        self.fixed: list[str] = []
        for index, (path, leaf) in enumerate(paths):
            name = jax.tree_util.keystr(path).lstrip(".").replace("prior_scale", "prior")
            part = name.split(".")[0].split("[")[0]
            if part not in learn or not eqx.is_inexact_array_like(leaf):
                continue
            field = name.split("[")[0].split(".")[-1] if "variances[" in name else name.split(".")[-1]
            if (part == "kernel" and field not in LEARNABLE) or np.any(np.asarray(leaf) <= 0):
                continue
            if part == "kernel" and field == "weight_var" and frozen and jnp.ndim(leaf) == 0:
                self.fixed.append(name)
                continue
            self.slots.append(Slot(name, index, int(np.size(leaf)), part, field))  # type: ignore[arg-type]
        if not self.slots:
            raise ValueError(f"learn={learn!r}: there is nothing to learn in {process!r}.")

    def start(self) -> np.ndarray:
        """The vector of the process as it was given."""
        return np.concatenate([np.log(np.ravel(np.asarray(self._leaves[slot.index], float))) for slot in self.slots])

    def bounds(self) -> list[tuple[float, float]]:
        """Lower and upper bound of every entry."""
        return [
            tuple(np.log(FIELD_BOUNDS.get(slot.field, BOUNDS[slot.part])))
            for slot in self.slots
            for _ in range(slot.size)
        ]

    def process(self, vector: np.ndarray) -> ScaleMixture:
        """The process with the learned numbers put in."""
        leaves = list(self._leaves)
        for slot, values in self.split(np.exp(vector)):
            old = self._leaves[slot.index]
            leaves[slot.index] = as_parameter(float(values[0])) if jnp.ndim(old) == 0 else values
        return jax.tree.unflatten(self._structure, leaves)

    def gradient(self, vector: np.ndarray, derivatives: dict[int, Any]) -> np.ndarray:
        """Derivatives in the logs, from derivatives in the leaves (by their index)."""
        return np.concatenate(
            [
                values * np.ravel(np.asarray(derivatives[slot.index], float))
                for slot, values in self.split(np.exp(vector))
            ]
        )

    def table(self, vector: np.ndarray) -> list[tuple[str, float, bool]]:
        """Name, value and whether it sits at a bound, for every learned number."""
        low, high = np.array(self.bounds()).T
        at_bound = (vector <= low + 1e-6) | (vector >= high - 1e-6)
        names = [slot.name if slot.size == 1 else f"{slot.name}[{i}]" for slot in self.slots for i in range(slot.size)]
        return list(zip(names, np.exp(vector).tolist(), at_bound.tolist(), strict=True))

    def split(self, vector: np.ndarray) -> list[tuple[Slot, np.ndarray]]:
        """The entries of every slot."""
        ends = np.cumsum([slot.size for slot in self.slots])
        return list(zip(self.slots, np.split(vector, ends[:-1]), strict=True))


def _degenerate(process: ScaleMixture) -> bool:
    """Whether weight variances and the readout variance are (nearly) one degree of freedom.

    So it is when every activation is positively homogeneous: a factor of the weights then passes through the
    network up to the readout. The readout variance is inferred anyway, so the weight variances stay fixed.
    """
    net = getattr(process.kernel, "net", process.kernel)  # of a table, what its groups go into
    if not isinstance(net, Layer):
        return False
    layers = jax.tree.leaves(net, is_leaf=lambda node: isinstance(node, Activation))
    return all(layer.is_homogeneous for layer in layers if isinstance(layer, Activation))
