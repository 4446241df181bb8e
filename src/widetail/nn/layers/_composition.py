"""Networks made of layers: chains, residual blocks, parallel branches."""

import functools
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from widetail.files import savable
from widetail.kernels import ByHand
from widetail.nn._base import Layer, Leaf
from widetail.nn._by_hand import chain_by_hand
from widetail.nn._chain import Chain
from widetail.nn._covariance import Covariance, Inputs, resolve
from widetail.nn._signal import Signal


def check_layers(owner: str, layers: tuple[Any, ...]) -> None:
    """A composition takes layers, at least one, and says which argument is not one."""
    if not layers:
        raise ValueError(f"{owner} needs at least one layer.")
    for position, layer in enumerate(layers):
        if isinstance(layer, type) and issubclass(layer, Layer):
            raise ValueError(
                f"{owner}: argument {position} is the class {layer.__name__}; call it, nn.{layer.__name__}(...)."
            )
        if isinstance(layer, list | tuple):
            raise ValueError(
                f"{owner} takes layers one by one, not a {type(layer).__name__} of them: {owner}(*layers)."
            )
        if not isinstance(layer, Layer):
            raise ValueError(
                f"{owner}: argument {position} must be a layer; got {layer!r}. "
                f"A function of every feature is nn.Elementwise(function)."
            )


@savable("nn.Sequential", positional="layers")
class Sequential(Layer):
    """Layers one after the other.

    Args:
        *layers: the layers, from the input up. The readout is implied.

    Example:
        >>> from widetail import nn
        >>> nn.Sequential(nn.Dense(weight_var=2.0), nn.Relu())
        nn.Sequential(nn.Dense(weight_var=2.0), nn.Relu())
    """

    layers: tuple[Layer, ...]

    def __init__(self, *layers: Layer):
        check_layers("nn.Sequential", layers)
        self.layers = layers

    @property
    def masked(self) -> bool:
        return self.layers[0].masked

    def input_weights(self):
        return self.layers[0].input_weights()

    def signal(self, signal: Signal) -> Signal:
        for layer in self.layers:
            end = layer.signal(signal)
            source = signal.source if isinstance(layer, Identity) else f"the output of nn.{type(layer).__name__}"
            signal = end.replace(source=source)
        return signal

    def needs_all_pairs(self, wanted: bool) -> bool:
        for layer in reversed(self.layers):
            wanted = layer.needs_all_pairs(wanted)
        return wanted

    def needs_distances(self, wanted: bool) -> bool:
        for layer in reversed(self.layers):
            wanted = layer.needs_distances(wanted)
        return wanted

    def by_hand(self) -> ByHand | None:
        """In NumPy, for chains of Dense with Erf, Relu or Rbf."""
        return chain_by_hand(self.layers)

    def propagate_rows_fn(self, all_pairs):
        return Chain(self.layers, all_pairs).rows

    def propagate_cross_fn(self, all_pairs):
        return Chain(self.layers, all_pairs).cross

    def init(self, key, signal, parametrisation):
        parameters = []
        for layer, layer_key in zip(self.layers, jax.random.split(key, len(self.layers)), strict=True):
            parameters.append(layer.init(layer_key, signal, parametrisation))
            signal = layer.signal(signal)
        return tuple(parameters)

    def apply(self, parameters, x, parametrisation, key):
        for layer, layer_parameters, layer_key in zip(
            self.layers, parameters, split_optional(key, len(self.layers)), strict=True
        ):
            x = layer.apply(layer_parameters, x, parametrisation, layer_key)
        return x


def split_optional(key, count: int):
    """Keys for `count` layers, or as many times None."""
    return [None] * count if key is None else list(jax.random.split(key, count))


@savable("nn.Residual", positional="layers")
class Residual(Layer):
    """The input plus what the layers make of it.

    Args:
        *layers: the branch; it must end in random weights (Dense, Conv, SelfAttention), so that in the
            limit its output is uncorrelated with the input it is added to.
    """

    layers: tuple[Layer, ...]

    def __init__(self, *layers: Layer):
        check_layers("nn.Residual", layers)
        self.layers = layers

    @property
    def branches(self) -> "Parallel":
        """The input beside what the layers make of it."""
        return Parallel(Identity(), Sequential(*self.layers))

    def signal(self, signal: Signal) -> Signal:
        return self.branches.signal(signal)

    def needs_all_pairs(self, wanted: bool) -> bool:
        return self.branches.needs_all_pairs(wanted)

    def needs_distances(self, wanted: bool) -> bool:
        return self.branches.needs_distances(wanted)

    def propagate_rows_fn(self, all_pairs):
        return self.branches.propagate_rows_fn(all_pairs)

    def propagate_cross_fn(self, all_pairs):
        return self.branches.propagate_cross_fn(all_pairs)

    def init(self, key, signal, parametrisation):
        return self.branches.init(key, signal, parametrisation)

    def apply(self, parameters, x, parametrisation, key):
        return self.branches.apply(parameters, x, parametrisation, key)


@savable("nn.Parallel", positional="layers")
class Parallel(Layer):
    """Branches that see the same input; their outputs are added, multiplied or put side by side.

    Args:
        *layers: the branches.
        combine: "sum", "product" (entry by entry) or "concatenate". In a sum and in a product, all branches but one
            must end in random weights: correlations between branches are not tracked, so they have to vanish.
    """

    layers: tuple[Layer, ...]
    combine: Literal["sum", "product", "concatenate"] = eqx.field(static=True, default="sum")

    def __init__(self, *layers: Layer, combine: Literal["sum", "product", "concatenate"] = "sum"):
        check_layers("nn.Parallel", layers)
        if combine not in ("sum", "product", "concatenate"):
            raise ValueError(f"nn.Parallel: combine must be 'sum', 'product' or 'concatenate'; got {combine!r}.")
        self.layers = layers
        self.combine = combine

    def signal(self, signal: Signal) -> Signal:
        # Branches share what they receive, so that none may treat it as independent of everything else.
        ends = [layer.signal(signal.replace(is_fresh=False)) for layer in self.layers]
        first = ends[0]
        sizes = [(end.space, end.features, end.multiple) for end in ends]
        if any(size != sizes[0] for size in sizes):
            shapes = ", ".join(f"{end.space} x {end.feature_count}" for end in ends)
            raise ValueError(
                f"branches must agree in positions and features to be joined, but they give {shapes}; "
                f"a nn.Dense or nn.Conv in the branch that passes the input on makes them agree"
            )
        if self.combine == "concatenate":
            features = None if first.features is None else sum(end.features or 0 for end in ends)
            return first.replace(
                features=features, multiple=first.multiple * len(ends), is_gaussian=False, is_fresh=False
            )
        stale = [layer for layer, end in zip(self.layers, ends, strict=True) if not end.is_fresh]
        if len(stale) > 1:
            raise ValueError(
                f"a {self.combine} needs branches that are uncorrelated, so all but one must end in random weights "
                f"(nn.Dense, nn.Conv or nn.SelfAttention), but these do not: {', '.join(map(repr, stale))}"
            )
        if self.combine == "product":
            return first.replace(is_gaussian=False, is_fresh=False)
        return first.replace(
            is_gaussian=all(end.is_gaussian for end in ends),
            is_fresh=all(layer.signal(signal.replace()).is_fresh for layer in self.layers),
        )

    def needs_all_pairs(self, wanted: bool) -> bool:
        return any(layer.needs_all_pairs(wanted) for layer in self.layers)

    def needs_distances(self, wanted: bool) -> bool:
        return any(layer.needs_distances(wanted) for layer in self.layers)

    def _entries(self, all_pairs: bool) -> list[bool]:
        """Which form of the positions each branch needs."""
        return [layer.needs_all_pairs(all_pairs) for layer in self.layers]

    def propagate_rows_fn(self, all_pairs):
        entries = self._entries(all_pairs)
        steps = [layer.propagate_rows_fn(all_pairs) for layer in self.layers]

        def propagate(k):
            ends = [step(enter(k, entry)) for step, entry in zip(steps, entries, strict=True)]
            return join([k for k, _ in ends], self.combine), tuple(found for _, found in ends)

        return propagate

    def propagate_cross_fn(self, all_pairs):
        entries = self._entries(all_pairs)
        steps = [layer.propagate_cross_fn(all_pairs) for layer in self.layers]

        def propagate(k, statistics1, statistics2):
            ends = [
                step(enter(k, entry), first, second)
                for step, entry, first, second in zip(steps, entries, statistics1, statistics2, strict=True)
            ]
            return join(ends, self.combine)

        return propagate

    def init(self, key, signal, parametrisation):
        keys = jax.random.split(key, len(self.layers))
        return tuple(
            layer.init(layer_key, signal, parametrisation) for layer, layer_key in zip(self.layers, keys, strict=True)
        )

    def apply(self, parameters, x, parametrisation, key):
        ends = [
            layer.apply(layer_parameters, x, parametrisation, layer_key)
            for layer, layer_parameters, layer_key in zip(
                self.layers, parameters, split_optional(key, len(self.layers)), strict=True
            )
        ]
        return self.join_finite(ends)

    def join_finite(self, ends: list[Any]) -> Any:
        """The outputs of finite branches, together."""
        if self.combine == "concatenate":
            return jnp.concatenate(ends, axis=-1)
        return functools.reduce(jnp.multiply if self.combine == "product" else jnp.add, ends)


@functools.partial(jax.jit, static_argnums=1)
def enter(k: Covariance | Inputs, all_pairs: bool) -> Covariance:
    """What a branch begins with, in the form of positions that it needs."""
    k = resolve(k)
    return k if all_pairs else k.equal_positions()


@functools.partial(jax.jit, static_argnums=1)
def join(ends: list[Covariance], combine: str) -> Covariance:
    """What branches end with, together."""
    if combine == "product":
        return functools.reduce(_multiply, ends)
    factor = 1 / len(ends) if combine == "concatenate" else 1.0
    if any(end.apart is None for end in ends):
        ends = [end.with_values(end.nngp, end.ntk) for end in ends]
    return jax.tree.map(lambda *values: factor * sum(values[1:], values[0]), *ends)


def _multiply(one: Covariance, other: Covariance) -> Covariance:
    """Second moments of a product of independent features; its derivative is that of one factor or of the other."""
    ntk = None if one.ntk is None else one.ntk * other.nngp + one.nngp * other.ntk
    return one.with_values(one.nngp * other.nngp, ntk)


@savable("nn.Identity")
class Identity(Leaf):
    """The input as it is: a skip connection in `Parallel`."""

    is_elementwise = True

    def signal(self, signal: Signal) -> Signal:
        return signal.replace()

    def needs_distances(self, wanted: bool) -> bool:
        return wanted

    def limit_rows(self, k):
        return k, None

    def limit_cross(self, k, statistics1, statistics2):
        return k

    def init(self, key, signal, parametrisation):
        return {}

    def apply(self, parameters, x, parametrisation, key):
        return x
