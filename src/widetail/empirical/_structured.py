"""Tangent kernels layer by layer, without the gradients of the weights.

A weight that meets the row in a product, y[p] = h[p] W for positions p, has the gradient sum_p h[p] c[p] with the
derivative c of an output in y. The inner product of two such gradients is sum_pq (h[p] . h'[q]) (c[p] . c'[q]): two
small products instead of one over all entries of W. A convolution is the same with patches for h.
"""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from widetail.empirical._outputs import Layout
from widetail.empirical._tape import Chain, Meeting, Meetings, Step, Tape

# from (diagonal, n1, free, n2, free) to (n1, n2, diagonal, free, free)
ORDER = (1, 3, 0, 2, 4)


@dataclasses.dataclass(frozen=True)
class Product:
    """A weight that enters by one product: y of shape (positions, fan_out) from h of shape (positions, fan_in)."""

    meeting: Meeting
    positions: int
    fan_in: int
    fan_out: int
    pairs: bool  # whether pairs of positions are cheaper than gradients of the weight
    bias: Meeting | None = None  # what is added to y right away; its slopes are those of y

    def chains(self) -> list[Chain]:
        """The parameters whose gradients need not be made."""
        return [meeting.chain for meeting in (self.meeting, self.bias) if meeting is not None and meeting.chain]


class Structured:
    """Kernels of a model on rows, by a walk over what the model does to one of them.

    Attributes:
        tape: the model on one row; its first inputs are the parameters.
        products: weights whose gradients are never made, or made from patches.
        loose: indices of the parameters for which gradients are made.
    """

    def __init__(self, row_function: Any, params: Any, row: Any, layout: Layout):
        leaves, structure = jax.tree.flatten(params)
        self.layout = layout
        self.tape = Tape(
            lambda values, x: layout.sort(row_function(jax.tree.unflatten(structure, values), x)), leaves, row
        )
        self.count = len(leaves)
        self.meetings = Meetings(self.tape, self.count)
        self.products = [self._product(meeting) for meeting in self.meetings.structured()]
        tied = {chain.leaf for product in self.products for chain in product.chains()}
        used = frozenset[int]().union(*(meeting.leaves for meeting in self.meetings.found))
        self.loose = sorted(used - tied)
        self.loose_meetings = [meeting for meeting in self.meetings.found if meeting.leaves & set(self.loose)]

    def _product(self, meeting: Meeting) -> Product:
        step = self.tape.steps[meeting.index]
        out = math.prod(self.tape.shapes[step.outputs[0]].shape)
        weight = next(slot for slot in step.inputs if slot not in self.meetings.from_row)
        size = math.prod(self.tape.shapes[weight].shape)
        if step.name == "dot_general":
            fan_in = _dot_sizes(step, step.inputs[0] == weight, self.tape)
        else:
            fan_in = size // self.tape.shapes[weight].shape[step.eqn.params["dimension_numbers"].rhs_spec[0]]
        fan_out = size // fan_in
        positions = out // fan_out
        diagonal, traced, free = self.layout.groups
        pairs = positions**2 * (fan_in + diagonal * free**2 * (traced * fan_out + 1))
        gradients = diagonal * traced * free**2 * size
        # a bias is one more input of the layer, which is one
        bias = self.meetings.bias_of(step.outputs[0]) if positions == 1 else None
        return Product(
            meeting, positions, fan_in + (bias is not None), fan_out, positions == 1 or pairs < gradients, bias
        )

    @property
    def loose_size(self) -> int:
        """How many numbers the gradients hold that are made for one output."""
        made = sum(product.fan_in * product.fan_out for product in self.products if not product.pairs)
        return made + sum(math.prod(self.tape.shapes[self.tape.inputs[leaf]].shape) for leaf in self.loose)

    def row_numbers(self) -> int:
        """Numbers that a prepared row holds."""
        outputs = math.prod(self.layout.groups)
        kept = sum(p.positions * (p.fan_in + outputs * p.fan_out) for p in self.products if p.pairs)
        return kept + outputs * (self.loose_size + 1)

    def row_flops(self) -> float:
        """Operations to prepare one row: one pass forward, and back once for every output."""
        outputs = math.prod(self.layout.groups)
        made = sum(2 * p.positions * p.fan_in * p.fan_out for p in self.products if not p.pairs)
        return self.tape.flops() * (1 + outputs) + outputs * made

    def pair_flops(self) -> float:
        """Operations to combine two prepared rows."""
        diagonal, traced, free = self.layout.groups
        blocks = diagonal * free**2
        total = 2.0 * blocks * traced * self.loose_size
        for p in self.products:
            if p.pairs:
                total += p.positions**2 * (2 * p.fan_in + blocks * (2 * traced * p.fan_out + 2))
        return total

    def pair_numbers(self) -> int:
        """Numbers that a pair of rows needs while it is combined; positions go row by row of the first side."""
        diagonal, _, free = self.layout.groups
        return 3 * diagonal * free**2

    def position_numbers(self) -> int:
        """Numbers that one row against another needs where pairs of positions are combined."""
        diagonal, _, free = self.layout.groups
        widest = max((p.positions for p in self.products if p.pairs), default=1)
        return 0 if widest == 1 else widest**2 * (1 + 2 * diagonal * free**2)

    def rows(self, params: Any, x: Any) -> Any:
        """Prepare rows: outputs (n, diagonal, traced, free), the two factors of every product, and gradients."""
        leaves = jax.tree.leaves(params)
        return jax.vmap(lambda row: self._prepare(leaves, row))(x)

    def _prepare(self, leaves: list[Any], row: Any) -> tuple[Any, list[tuple[Any, Any]], list[Any]]:
        tape, groups = self.tape, self.layout.groups
        wanted = {product.meeting.index for product in self.products} | {m.index for m in self.loose_meetings}
        deltas = {
            index: [jnp.zeros(tape.shapes[slot].shape, tape.shapes[slot].dtype) for slot in self._float_outputs(index)]
            for index in wanted
        }

        def moved(deltas: Any) -> Any:
            slots = self._run(leaves, row, deltas)
            kept = {index: [slots[slot] for slot in tape.steps[index].inputs] for index in wanted}
            factors = [[self._factor(chain, slots) for chain in product.chains()] for product in self.products]
            return slots[tape.outputs[0]], (kept, factors)

        y, back, (kept, factors) = jax.vjp(moved, deltas, has_aux=True)
        basis = jnp.eye(y.size, dtype=y.dtype).reshape(y.size, *groups)
        (slopes,) = jax.vmap(back)(basis)
        products, gradients = [], []
        for product, factor in zip(self.products, factors, strict=True):
            step = tape.steps[product.meeting.index]
            h, c = _as_product(
                step, kept[product.meeting.index], slopes[product.meeting.index][0], self._row_side(step)
            )
            h = h * factor[0].astype(h.dtype)
            if product.bias is not None:
                h = jnp.concatenate([h, jnp.reshape(factor[1], (1, 1)).astype(h.dtype)], axis=1)
            if product.pairs:
                products.append((h, c.reshape(*groups, *c.shape[1:])))
            else:
                gradients.append(jnp.einsum("pk,opm->okm", h, c).reshape(y.size, -1))
        if self.loose:
            gradients += self._loose_gradients(leaves, kept, slopes)
        return y, products, [gradient.reshape(*groups, -1) for gradient in gradients]

    def _row_side(self, step: Step) -> int:
        """Which of the two inputs of a product depends on the row."""
        return 0 if step.inputs[0] in self.meetings.from_row else 1

    def _float_outputs(self, index: int) -> list[int]:
        outputs = self.tape.steps[index].outputs
        return [slot for slot in outputs if jnp.issubdtype(self.tape.shapes[slot].dtype, jnp.floating)]

    def _run(self, leaves: list[Any], row: Any, deltas: dict[int, list[Any]]) -> dict[int, Any]:
        """All slots of the tape, with something added to the outputs of some steps."""
        slots = dict(self.tape.constants)
        slots.update(zip(self.tape.inputs, [*leaves, *jax.tree.leaves(row)], strict=True))
        for index, step in enumerate(self.tape.steps):
            slots.update(zip(step.outputs, step.run([slots[slot] for slot in step.inputs]), strict=True))
            if index in deltas:
                for slot, delta in zip(self._float_outputs(index), deltas[index], strict=True):
                    slots[slot] = slots[slot] + delta
        return slots

    def _factor(self, chain: Chain, slots: dict[int, Any]) -> Any:
        factor = jnp.ones(())
        for slot, divides in chain.factors:
            number = jnp.reshape(slots[slot], ())
            factor = factor / number if divides else factor * number
        return factor

    def _loose_gradients(self, leaves: list[Any], kept: dict[int, list[Any]], slopes: Any) -> list[Any]:
        """Gradients of the parameters in no product, for every output: the last step of the chain rule."""
        tape = self.tape
        ahead = [step for step in tape.steps if not any(slot in self.meetings.from_row for slot in step.outputs)]

        def local(values: list[Any]) -> list[list[Any]]:
            slots = dict(tape.constants)
            slots.update(zip(tape.inputs, leaves, strict=False))
            slots.update({tape.inputs[leaf]: value for leaf, value in zip(self.loose, values, strict=True)})
            for step in ahead:
                if all(slot in slots for slot in step.inputs):
                    slots.update(zip(step.outputs, step.run([slots[slot] for slot in step.inputs]), strict=True))
            results = []
            for meeting in self.loose_meetings:
                step = tape.steps[meeting.index]
                inputs = [
                    known if slot in self.meetings.from_row else slots[slot]
                    for slot, known in zip(step.inputs, kept[meeting.index], strict=True)
                ]
                outputs = dict(zip(step.outputs, step.run(inputs), strict=True))
                results.append([outputs[slot] for slot in self._float_outputs(meeting.index)])
            return results

        _, back = jax.vjp(local, [leaves[leaf] for leaf in self.loose])
        (found,) = jax.vmap(back)([slopes[meeting.index] for meeting in self.loose_meetings])
        return [gradient.reshape(len(gradient), -1) for gradient in found]

    def cross(self, rows1: Any, rows2: Any) -> Any:
        """The tangent kernel of prepared rows, shape (n1, n2, diagonal, free, free); traced axes are averaged."""
        return jnp.transpose(self.products_of_rows(rows1, rows2), ORDER)

    def products_of_rows(self, rows1: Any, rows2: Any) -> Any:
        """The same in the order in which products of matrices leave it, (diagonal, n1, free, n2, free)."""
        _, products1, made1 = rows1
        _, products2, made2 = rows2
        total: Any = 0.0
        for gradient1, gradient2 in zip(made1, made2, strict=True):
            total += _dots(gradient1, gradient2)
        for (h1, c1), (h2, c2) in zip(products1, products2, strict=True):
            if h1.shape[1] == 1:
                inner = h1[:, 0] @ h2[:, 0].T
                total += inner[None, :, None, :, None] * _dots(c1[:, :, :, :, 0], c2[:, :, :, :, 0])
            else:
                one_row = functools.partial(_positions, h2=h2, c2=c2)
                total += jnp.moveaxis(lax.map(one_row, (h1, c1)), 0, 1)
        if isinstance(total, float):
            y1, y2 = rows1[0], rows2[0]
            total = jnp.zeros((y1.shape[1], len(y1), y1.shape[3], len(y2), y1.shape[3]), y1.dtype)
        return total / self.layout.groups[1]


def _dots(first: Any, second: Any) -> Any:
    """Inner products of (n, diagonal, traced, free, numbers), as (diagonal, n1, free, n2, free)."""
    if first.shape[1] == first.shape[2] == 1:  # one product of matrices as they are; einsum would copy them
        shapes = [(x.shape[0], x.shape[3]) for x in (first, second)]
        flat1, flat2 = (x.reshape(-1, x.shape[-1]) for x in (first, second))
        return (flat1 @ flat2.T).reshape(1, *shapes[0], *shapes[1])
    return jnp.einsum("idtfp,jdtgp->difjg", first, second)


def _positions(row: tuple[Any, Any], *, h2: Any, c2: Any) -> Any:
    """One row against many, over all pairs of positions: (diagonal, free, n2, free)."""
    h1, c1 = row
    inner = jnp.einsum("pk,jqk->pjq", h1, h2)
    slopes = jnp.einsum("dtfpm,jdtgqm->dfpjgq", c1, c2)
    return jnp.einsum("pjq,dfpjgq->dfjg", inner, slopes)


def _dot_sizes(step: Step, weight_first: bool, tape: Tape) -> int:
    """How many numbers of the weight are summed over."""
    (first, second), _ = step.eqn.params["dimension_numbers"]
    shape = tape.shapes[step.inputs[0 if weight_first else 1]].shape
    return math.prod(shape[axis] for axis in (first if weight_first else second))


def _as_product(step: Step, inputs: list[Any], slopes: Any, row_side: int) -> tuple[Any, Any]:
    """What a weight is multiplied by, (positions, fan_in), and the slopes of what comes out, (outputs, ., fan_out)."""
    if step.name == "dot_general":
        return _as_matrix_product(step, inputs, slopes, row_side)
    numbers = step.eqn.params["dimension_numbers"]
    patches = _patches(inputs[0], inputs[1].shape, step.eqn.params)
    order = [axis + 1 for axis in (numbers.out_spec[0], *numbers.out_spec[2:], numbers.out_spec[1])]
    c = jnp.transpose(slopes, (0, *order))
    return patches, c.reshape(len(slopes), -1, c.shape[-1])


def _as_matrix_product(step: Step, inputs: list[Any], slopes: Any, row_side: int) -> tuple[Any, Any]:
    contracted, _ = step.eqn.params["dimension_numbers"]
    h = inputs[row_side]
    summed = tuple(contracted[row_side])
    free = tuple(axis for axis in range(h.ndim) if axis not in summed)
    positions = math.prod(h.shape[axis] for axis in free)
    h = jnp.transpose(h, free + summed).reshape(positions, -1)
    if row_side == 0:
        return h, slopes.reshape(len(slopes), positions, -1)
    return h, jnp.swapaxes(slopes.reshape(len(slopes), -1, positions), 1, 2)


def _patches(x: Any, filters: tuple[int, ...], options: dict[str, Any]) -> Any:
    """What each position of a convolution's output sees, shape (positions, window * channels)."""
    numbers = options["dimension_numbers"]
    batch, channels, *space = numbers.lhs_spec
    x = jnp.transpose(x, (batch, *space, channels))
    edges = [
        (0, 0, 0),
        *((*pad, step - 1) for pad, step in zip(options["padding"], options["lhs_dilation"], strict=True)),
    ]
    x = lax.pad(x, jnp.zeros((), x.dtype), [*edges, (0, 0, 0)])
    window = [filters[axis] for axis in numbers.rhs_spec[2:]]
    strides, spread = options["window_strides"], options["rhs_dilation"]
    counts = [
        (size - (width - 1) * gap - 1) // stride + 1
        for size, width, gap, stride in zip(x.shape[1:-1], window, spread, strides, strict=True)
    ]
    seen = []
    for offset in np.ndindex(*window):
        start = [o * gap for o, gap in zip(offset, spread, strict=True)]
        stop = [s + (count - 1) * stride + 1 for s, count, stride in zip(start, counts, strides, strict=True)]
        seen.append(lax.slice(x, (0, *start, 0), (len(x), *stop, x.shape[-1]), (1, *strides, 1)))
    return jnp.stack(seen, axis=-2).reshape(len(x) * math.prod(counts), -1)
