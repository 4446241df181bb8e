"""A computation as a list of compiled calls: recorded once, replayed for every tile.

One compiled function for all of it would be shorter, but XLA computes shared terms of it again wherever they are used:
for a recurrent network of 20 steps it takes six times as long, and four times as long to compile.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax


class Slot:
    """Stands for a value that is not known while a plan is made."""

    def __init__(self, place: int):
        self.place = place


@dataclasses.dataclass(frozen=True)
class _Step:
    """Values at places go into a function; its result goes to another place. `last` are not needed any more."""

    fn: Callable[..., Any]
    places: tuple[int, ...]
    result: int
    last: tuple[int, ...] = ()


class Recorder:
    """Writes a plan down."""

    def __init__(self):
        self.start: list[Any] = []  # constants at their places, None at the others
        self.steps: list[_Step] = []

    def given(self) -> Slot:
        """A value that will be handed to `Plan.run`, in the order of these calls."""
        return Slot(self._place(None))

    def call(self, fn: Callable[..., Any], fixed: tuple[Any, ...], *arguments: Any) -> Slot:
        """The result of a function of fixed arguments, which are compiled in, and of trees of slots and numbers."""
        leaves, structure = jax.tree.flatten(arguments)
        places = tuple(leaf.place if isinstance(leaf, Slot) else self._place(leaf) for leaf in leaves)
        slot = Slot(self._place(None))
        self.steps.append(_Step(_compiled(fn, fixed, structure), places, slot.place))
        return slot

    def _place(self, value: Any) -> int:
        self.start.append(value)
        return len(self.start) - 1

    def plan(self, outputs: Any) -> "Plan":
        """The steps that some outputs, a tree of slots, need."""
        leaves, structure = jax.tree.flatten(outputs)
        wanted = [leaf.place for leaf in leaves]
        needed, steps = set(wanted), []
        for step in reversed(self.steps):
            if step.result in needed:
                last = tuple(set(step.places) - needed)
                needed |= set(step.places)
                steps.append(dataclasses.replace(step, last=last))
        return Plan(self.start, steps[::-1], wanted, structure)


class Plan:
    """Calls of compiled functions, in order."""

    def __init__(self, start: list[Any], steps: list[_Step], outputs: list[int], structure: Any):
        self._start = start
        self._steps = steps
        self._outputs = outputs
        self._structure = structure

    def run(self, given: Sequence[Any]) -> Any:
        """The outputs, from what is given: the first places, in order."""
        values = self._start.copy()
        values[: len(given)] = given
        for step in self._steps:
            values[step.result] = step.fn(*[values[place] for place in step.places])
            for place in step.last:
                values[place] = None
        return jax.tree.unflatten(self._structure, [values[place] for place in self._outputs])


@functools.lru_cache(maxsize=4096)
def _compiled(fn: Callable[..., Any], fixed: tuple[Any, ...], structure: Any) -> Callable[..., Any]:
    """A compiled function of the leaves of its arguments; the same one for all plans."""

    @jax.jit
    def call(*leaves: Any) -> Any:
        return fn(*fixed, *jax.tree.unflatten(structure, leaves))

    return call
