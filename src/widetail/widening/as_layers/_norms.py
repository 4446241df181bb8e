"""Normalisation over the features of layers: LayerNorm, RMSNorm, and what people write in their place.

Features that are products with random weights have mean zero in the limit, as long as what it is multiplied by does not
grow with the width, and their second moment is a number per position. A product with c / sqrt(second moment + epsilon)
is `nn.LayerNorm`, however it is written.
"""

import dataclasses
from typing import Any

import jax
import numpy as np

from widetail import nn
from widetail.widening.as_layers._layers import CHANNELS, ONE, Chain, Node
from widetail.widening.as_layers._products import LayerProducts
from widetail.widening.as_program._functions import Instructions
from widetail.widening.as_program._symbols import Base, Lin, Op, Sca, ScaBase, factor_of, scale_sca, without_factor

# Second moments at which a function of them is compared with c / sqrt(second moment + epsilon).
MOMENTS = np.array([0.3, 1.0, 2.5, 7.0])
SECOND_MOMENT, FIRST_MOMENT = ScaBase(-1), ScaBase(-2)


@dataclasses.dataclass(frozen=True, eq=False)
class Moment:
    """Numbers that are a function of the second moment of a layer's features, one per position.

    Attributes:
        chain: the layer.
        over: positions over which it is a mean too.
        shape: of the array.
        axes: what each axis is: a position by its number, or one along which nothing changes.
        value: the function, of `SECOND_MOMENT`; or a multiple of `FIRST_MOMENT`, which is zero.
    """

    chain: Chain
    over: frozenset[int]
    shape: tuple[int, ...]
    axes: tuple[Any, ...]
    value: Sca


class LayerNorms(LayerProducts):
    """What becomes of layers whose features are averaged over the width."""

    def _sum_features(self, equation: Any, chain: Chain) -> Any:
        """A sum along the width, and perhaps over positions."""
        axes = tuple(equation.params["axes"])
        names = [chain.axes[axis] for axis in axes]
        if not self.is_gaussian(chain):
            raise self.refuse("a mean over the width of what is not a product with random weights is no layer")
        shape = equation.outvars[0].aval.shape
        number, function = without_factor(chain.function)
        is_mean = function is self.entry_of_layer
        moment, factor = (FIRST_MOMENT, number) if is_mean else (SECOND_MOMENT, number * self._of_square(function))
        count = int(np.prod([chain.shape[axis] for axis in axes]))
        over = frozenset(name for name in names if isinstance(name, int))
        kept = tuple(name for axis, name in enumerate(chain.axes) if axis not in axes)
        chain = dataclasses.replace(chain, function=self.entry_of_layer)
        return Moment(chain, over, shape, kept, scale_sca(factor * count, moment))

    def is_gaussian(self, chain: Chain) -> bool:
        """Whether the layers end in products with random weights, or in sums of such."""
        if not chain.path or chain.is_output:
            return False
        try:
            signal = nn.Sequential(*(node.layer for node in chain.path)).signal(nn.Signal.of_input(self.front()[2]))
        except ValueError:
            return False
        return signal.is_gaussian and list(signal.space) == chain.space

    def _of_square(self, function: Any) -> float:
        """c for a function of entries that is c z^2."""
        instructions = Instructions(self.builder)
        instructions.of(function)
        points = np.array([1.0, 0.5, -2.0, 3.0])
        with jax.enable_x64(True), jax.ensure_compile_time_eval():
            found = np.asarray(instructions.function()(points))
        if not np.allclose(found, found[0] * points**2, rtol=1e-12):
            raise self.refuse("a mean over the width of something else than squares is no layer")
        return float(found[0])

    def _of_moments(self, equation: Any, op: Op, arguments: list[Any]) -> Any:
        """An elementwise operation of moments, numbers, and perhaps the layer that they are of."""
        shape = equation.outvars[0].aval.shape
        arguments = self._without_means(op, arguments)
        moments = [argument for argument in arguments if isinstance(argument, Moment)]
        if not moments:
            is_number = all(isinstance(argument, np.ndarray) for argument in arguments)
            return self._numbers(equation, arguments)[0] if is_number else self._of_entries(equation, op, arguments)
        chains = [argument for argument in arguments if isinstance(argument, Chain)]
        first = moments[0]
        for other in moments[1:]:
            if other.over != first.over or not self._same_place(other.chain, first.chain):
                raise self.refuse("moments of two layers meet")
        values: list[Any] = []
        for argument in arguments:
            if isinstance(argument, Moment):
                values.append(argument.value)
            elif isinstance(argument, Chain):
                values.append(argument.function)
            elif isinstance(argument, np.ndarray) and len(np.unique(argument)) == 1:
                values.append(float(np.unique(argument)[0]))
            else:
                raise self.refuse("a moment meets something that is no number")
        if not chains:
            axes = self._joined_axes(moments)
            value = self.combine(op, values)
            return dataclasses.replace(first, shape=shape, axes=axes, value=value)
        chain = chains[0]
        if len(chains) > 1 or chain.shape != shape or not self._same_place(chain, first.chain):
            raise self.refuse("a moment of another layer is no normalisation")
        for moment in moments:
            self._check_places(moment, chain)
        function = self.combine(op, values)
        if not isinstance(function, Lin) or len(function.terms) != 1 or function.constant != 0:
            raise self.refuse("a function of features and of their moments is no normalisation")
        ((number, scalar, entry),) = function.terms
        if entry is not self.entry_of_layer or scalar is None:
            raise self.refuse("a function of features and of their moments is no normalisation")
        scale, epsilon = self._as_norm(number, scalar)
        node = Node(next(self._serial), nn.LayerNorm(tuple(sorted(first.over)), epsilon))
        scaled = Lin(1, frozenset(), ((scale, None, self.entry_of_layer),), 0.0)
        same: Base | Lin = self.entry_of_layer if abs(scale - 1) < 1e-9 else scaled
        return dataclasses.replace(chain, path=(*chain.path, node), function=same)

    def _without_means(self, op: Op, arguments: list[Any]) -> list[Any]:
        """Zeros in place of means, whose factors are kept, to be compared across widths; multiples stay as they are."""
        factors = [_factor_of_mean(argument) for argument in arguments]
        others = [a for a, factor in zip(arguments, factors, strict=True) if factor is None]
        only_numbers = all(isinstance(other, np.ndarray) for other in others)
        is_multiple = op.name in ("neg", "mul", "div") and only_numbers and len(others) == len(arguments) - 1
        if all(factor is None for factor in factors) or (is_multiple and _factor_of_mean(arguments[0]) is not None):
            return arguments
        if is_multiple and op.name == "mul":
            return arguments
        self.means += [float(f"{factor:.9g}") for factor in factors if factor is not None]
        return [a if factor is None else np.zeros(a.shape) for a, factor in zip(arguments, factors, strict=True)]

    def _joined_axes(self, moments: list[Moment]) -> tuple[Any, ...]:
        axes = moments[0].axes
        for other in moments[1:]:
            both = zip(axes, other.axes, strict=True)
            if any(one != two and ONE not in (one, two) for one, two in both):
                raise self.refuse("moments of different positions meet")
            axes = tuple(two if one == ONE else one for one, two in zip(axes, other.axes, strict=True))
        return axes

    def _check_places(self, moment: Moment, chain: Chain) -> None:
        """That every position meets its own moment."""
        for size, mine, name in zip(chain.shape, moment.axes, chain.axes, strict=True):
            own = name if isinstance(name, int) and name not in moment.over else ONE
            if size > 1 and mine != own:
                raise self.refuse("moments meet other positions than their own")

    def _as_norm(self, number: float, scalar: Sca) -> tuple[float, float]:
        """c and epsilon of a factor c / sqrt(second moment + epsilon)."""
        instructions = Instructions(self.builder)
        instructions.of(scalar)
        with jax.enable_x64(True), jax.ensure_compile_time_eval():
            squares = (number * np.asarray(instructions.function()(MOMENTS))) ** -2.0
        slope = (squares[-1] - squares[0]) / (MOMENTS[-1] - MOMENTS[0])
        start = squares[0] - slope * MOMENTS[0]
        if number <= 0 or slope <= 0 or not np.allclose(squares, start + slope * MOMENTS, rtol=1e-9):
            raise self.refuse("this function of the second moment is no normalisation")
        epsilon = float(f"{max(start / slope, 0.0):.12g}")  # compared across widths, and rounded
        return float(f"{slope**-0.5:.12g}"), epsilon if epsilon > 1e-14 else 0.0

    def _arranged_moment(self, equation: Any, moment: Moment) -> Moment:
        """A moment in another shape, or repeated."""
        shape, name = equation.outvars[0].aval.shape, equation.primitive.name
        if name == "broadcast_in_dim":
            axes: list[Any] = [ONE] * len(shape)
            for place, own, size in zip(
                equation.params["broadcast_dimensions"], moment.axes, moment.shape, strict=True
            ):
                axes[place] = own if size == shape[place] else ONE
        elif name == "transpose":
            axes = [moment.axes[k] for k in equation.params["permutation"]]
        else:
            named = [(own, size) for own, size in zip(moment.axes, moment.shape, strict=True) if size > 1]
            if [size for size in shape if size > 1] != [size for _, size in named]:
                raise self.refuse("this rearrangement is no layer")
            left = iter(named)
            axes = [next(left)[0] if size > 1 else ONE for size in shape]
        return dataclasses.replace(moment, shape=shape, axes=tuple(axes))

    def is_along_width(self, equation: Any, chain: Chain) -> bool:
        """Whether a sum goes along the width."""
        return any(chain.axes[axis] == CHANNELS for axis in equation.params["axes"])


def _factor_of_mean(argument: Any) -> float | None:
    """What a mean is multiplied by; None for anything else."""
    if not isinstance(argument, Moment):
        return None
    factor, scalar = factor_of(argument.value)
    return factor if scalar is FIRST_MOMENT else None
