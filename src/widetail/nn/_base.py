"""The two readings of a layer: finite networks, and the infinite-width limit."""

import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from widetail.checks import check_count
from widetail.kernels import CrossFn, Get, Kernel, KernelValues, Rows, RowsFn, largest_of_four
from widetail.nn._covariance import Covariance, Inputs, resolve
from widetail.nn._signal import Signal
from widetail.numerics import is_traced

Parametrisation = Literal["ntk", "standard"]
Parameters = Any
RowsStep = Callable[[Covariance | Inputs], tuple[Covariance, Any]]
CrossStep = Callable[[Covariance | Inputs, Any, Any], Covariance]


class Layer(Kernel):
    """A layer, and any network made of layers: one description, two readings.

    The description never mentions a width. `at_width` gives the finite network, `kernel` its limit, both
    with a readout of variance 1 and no bias on top.
    """

    has_ntk: ClassVar[bool] = True
    # Whether the limit acts on every entry of a covariance by itself, so that it can share a compiled loop.
    is_elementwise: ClassVar[bool] = False

    @abc.abstractmethod
    def signal(self, signal: Signal) -> Signal:
        """What comes out when `signal` goes in; a ValueError when it cannot go in."""

    @abc.abstractmethod
    def propagate_rows_fn(self, all_pairs: bool) -> RowsStep:
        """A function that takes each input with itself through the layer.

        It maps a covariance to the next one and the per-row numbers that the function of
        `propagate_cross_fn` wants. `all_pairs` is the form of the positions that the next layer wants.
        """

    @abc.abstractmethod
    def propagate_cross_fn(self, all_pairs: bool) -> CrossStep:
        """A function that takes every pair of inputs through the layer: (k, numbers1, numbers2) -> k."""

    @abc.abstractmethod
    def init(self, key: PRNGKeyArray, signal: Signal, parametrisation: Parametrisation) -> Parameters:
        """Random parameters of the finite layer."""

    @abc.abstractmethod
    def apply(
        self,
        parameters: Parameters,
        x: Float[Array, "n *features"],
        parametrisation: Parametrisation,
        key: PRNGKeyArray | None,
    ) -> Float[Array, "n *out"]:
        """The finite layer on a batch; `key` is for layers that are random each time (None: switched off)."""

    def needs_all_pairs(self, wanted: bool) -> bool:
        """Whether the layer below must give all pairs of positions when the one above wants them or not."""
        return wanted

    def needs_distances(self, wanted: bool) -> bool:
        """Whether the layer below should hand on distances, when the one above would like them or not.

        A layer that says yes to what is wanted above hands on those it gets; see `Covariance`.
        """
        return False

    @property
    def masked(self) -> bool:
        """Whether the last feature of an input is a flag, above 0 where the input has something; see `nn.Masked`."""
        return False

    # Inputs of unequal size, see `nn.Masked`. A mask has shape (*space, n): 1 where a position is there, 0 elsewhere.

    def mask_after(self, mask: Float[Array, "..."]) -> Float[Array, "..."] | None:
        """Which positions are there after the layer; None when it leaves no positions."""
        return mask

    def masked_factor(self, mask: Float[Array, "..."], statistics: Any) -> Float[Array, "..."] | None:
        """What the limit's features have to be multiplied by, (*space, n), given its per-row numbers; None for 1."""
        return self.mask_after(mask)

    def apply_masked(
        self,
        parameters: Parameters,
        x: Float[Array, "n *features"],
        mask: Float[Array, "n *space"],
        parametrisation: Parametrisation,
        key: PRNGKeyArray | None,
    ) -> Float[Array, "n *out"]:
        """The finite layer on inputs that are 0 where the mask is; what it gives where nothing is does not matter."""
        return self.apply(parameters, x, parametrisation, key)

    def input_weights(self) -> Any:
        """Prior variances per input feature, when the first layer has them."""
        return None

    # The interface of a kernel, for the whole network with its readout.

    def rows_fn(self, get: Get) -> RowsFn:
        """Carry each input through the network with itself."""
        start = self.start_fn(get)
        propagate = self.propagate_rows_fn(False)

        def rows(x):
            k, statistics = propagate(start(x, None))
            return Rows(x, statistics, _read_out(k, get))

        return rows

    def cross_fn(self, get: Get) -> CrossFn:
        """Carry every pair of inputs through the network."""
        start = self.start_fn(get)
        propagate = self.propagate_cross_fn(False)

        def cross(rows1, rows2):
            k = start(rows1.inputs, rows2.inputs)
            return _read_out(propagate(k, rows1.statistics, rows2.statistics), get)

        return cross

    def start_fn(self, get: Get, *, all_pairs: bool = False) -> Callable[[Any, Any], Inputs]:
        """A function of both sides' inputs: what the network begins with.

        Args:
            get: which kernels.
            all_pairs: whether all pairs of positions of the output are wanted.
        """
        weights = self.input_weights()
        all_pairs, with_apart = self.needs_all_pairs(all_pairs), self.needs_distances(False)

        def start(x1, x2):
            scale = None if weights is None else jnp.sqrt(jnp.asarray(weights, x1.dtype))
            return Inputs(x1, x2, scale, all_pairs, get != "nngp", with_apart)

        return start

    def check_shape(self, name: str, input_shape: tuple[int, ...]) -> None:
        """Follow the shape through the network up to the readout."""
        self.output_signal(input_shape, name=name)

    def largest_input(self, dtype: Any) -> float:
        """Determinants of covariances are products of four inputs."""
        return largest_of_four(dtype)

    def numbers_per_pair(self, input_shape: tuple[int, ...]) -> int:
        """Positions of the input, squared when all their pairs are needed."""
        positions = Signal.of_input(input_shape).positions
        return positions**2 if self.needs_all_pairs(False) else positions

    def output_signal(
        self, input_shape: tuple[int, ...], width: int | None = None, name: str = "input_shape"
    ) -> Signal:
        """What the readout sees."""
        start = Signal.of_input(input_shape, width)
        try:
            if len(start.space) > 3:
                raise ValueError(
                    "an input must be a vector, a sequence, an image or a volume, with at most three axes of positions"
                )
            end = self.signal(start)
            if end.space:
                raise ValueError(
                    f"the body must end in one vector per input, but it ends in positions {end.space}; "
                    f"add nn.Flatten() or nn.GlobalAvgPool()"
                )
        except ValueError as error:
            rows = "n, " + ", ".join(map(str, input_shape))
            raise ValueError(f"{name} of shape ({rows}) does not fit this network: {error}.") from None
        return end

    def at_width(self, width: int, *, outputs: int = 1, parametrisation: Parametrisation = "ntk") -> "FiniteNetwork":
        """The same network with `width` entries in every hidden layer.

        Args:
            width: entries (channels) of each hidden layer.
            outputs: how many functions the readout gives.
            parametrisation: "ntk" (parameters are standard normal, variances are factors in the forward
                pass) or "standard" (parameters have their prior variances). The same functions at
                initialisation, different training.

        Example:
            >>> import jax
            >>> from widetail import nn
            >>> f = nn.Sequential(nn.Dense(weight_var=2.0), nn.Relu()).at_width(64)
            >>> params = f.init(jax.random.key(0), (3,))
            >>> f.apply(params, jax.numpy.ones((5, 3))).shape
            (5, 1)
        """
        width, outputs = check_count("width", width), check_count("outputs", outputs)
        if parametrisation not in ("ntk", "standard"):
            raise ValueError(f"parametrisation must be 'ntk' or 'standard'; got {parametrisation!r}.")
        return FiniteNetwork(self, width, outputs, parametrisation)

    def __repr__(self) -> str:
        arguments = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == "layers":
                arguments += [repr(layer) for layer in value]
            elif not _is_default(value, field.default):
                arguments.append(f"{field.name}={_show(value)}")
        return f"nn.{type(self).__name__}({', '.join(arguments)})"


class Leaf(Layer):
    """A layer that contains no other: what most new layers derive from."""

    @abc.abstractmethod
    def limit_rows(self, k: Covariance) -> tuple[Covariance, Any]:
        """Each input with itself, and the per-row numbers that `limit_cross` wants."""

    @abc.abstractmethod
    def limit_cross(self, k: Covariance, statistics1: Any, statistics2: Any) -> Covariance:
        """Every pair of inputs."""

    def propagate_rows_fn(self, all_pairs):
        stage = rows_stage((self,), all_pairs)

        def propagate(k):
            k, (statistics,) = stage(k)
            return k, statistics

        return propagate

    def propagate_cross_fn(self, all_pairs):
        stage = cross_stage((self,), all_pairs)
        return lambda k, statistics1, statistics2: stage(k, (statistics1,), (statistics2,))


def rows_stage(layers: tuple[Leaf, ...], all_pairs: bool) -> Callable[[Covariance], Any]:
    """Leaves in a row as one compiled function: covariance in, covariance and their numbers out."""
    leaves, structure = jax.tree.flatten(layers)
    return functools.partial(_rows_stage, structure, all_pairs, leaves)


def cross_stage(layers: tuple[Leaf, ...], all_pairs: bool) -> CrossStep:
    """Leaves in a row as one compiled function of a covariance and both sides' numbers."""
    leaves, structure = jax.tree.flatten(layers)
    return functools.partial(_cross_stage, structure, all_pairs, leaves)


# The layers are taken apart beforehand: flattening them for every tile would cost more than the tile.


@functools.partial(jax.jit, static_argnums=(0, 1))
def _rows_stage(structure, all_pairs, leaves, k):
    k = resolve(k)
    statistics = []
    for layer in jax.tree.unflatten(structure, leaves):
        k, found = layer.limit_rows(k)
        statistics.append(found)
    return (k if all_pairs else k.equal_positions()), tuple(statistics)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _cross_stage(structure, all_pairs, leaves, k, statistics1, statistics2):
    k = resolve(k)
    layers = jax.tree.unflatten(structure, leaves)
    for layer, first, second in zip(layers, statistics1, statistics2, strict=True):
        k = layer.limit_cross(k, first, second)
    return k if all_pairs else k.equal_positions()


class LinearLeaf(Leaf):
    """A layer whose limit is one map, the same for an input with itself and for a pair of inputs."""

    @abc.abstractmethod
    def limit(self, k: Covariance) -> Covariance:
        """The covariance after the layer."""

    def limit_rows(self, k):
        return self.limit(k), None

    def limit_cross(self, k, statistics1, statistics2):
        return self.limit(k)


class FiniteNetwork(eqx.Module):
    """A network of finite width: `init` draws its parameters, `apply` evaluates it.

    Parameters are a pytree of arrays, `{"body": ..., "readout": (features, outputs)}`.
    """

    body: Layer
    width: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)
    parametrisation: Parametrisation = eqx.field(static=True)

    def init(self, key: PRNGKeyArray, input_shape: tuple[int, ...]) -> Parameters:
        """Draw parameters for inputs of shape `(n, *input_shape)`."""
        features, _ = self.body.output_signal(input_shape, self.width).sizes
        body_key, readout_key = jax.random.split(key)
        start = Signal.of_input(input_shape, self.width)
        return {
            "body": self.body.init(body_key, start, self.parametrisation),
            "readout": draw_weight(readout_key, (features, self.outputs), 1.0, features, self.parametrisation),
        }

    def features(
        self, parameters: Parameters, x: Float[Array | np.ndarray, "n *shape"], *, key: PRNGKeyArray | None = None
    ) -> Float[Array, "n features"]:
        """What the readout sees, shape (n, features)."""
        return self.body.apply(parameters["body"], jnp.asarray(x), self.parametrisation, key)

    def apply(
        self, parameters: Parameters, x: Float[Array | np.ndarray, "n *shape"], *, key: PRNGKeyArray | None = None
    ) -> Float[Array, "n outputs"]:
        """The network on a batch, shape (n, outputs). `key` switches dropout on."""
        return self.read_out(parameters, self.features(parameters, x, key=key))

    def read_out(self, parameters: Parameters, h: Float[Array, "n features"]) -> Float[Array, "n outputs"]:
        """The readout of features that `features` gave; `parameters` need hold no body."""
        return h @ scaled_weight(parameters["readout"], 1.0, h.shape[-1], self.parametrisation).astype(h.dtype)


def draw_weight(
    key: PRNGKeyArray, shape: tuple[int, ...], var: Any, fan_in: int, parametrisation: Parametrisation
) -> Float[Array, "..."]:
    """Random weights as the parametrisation stores them; `var` is a number or one per input feature."""
    weight = jax.random.normal(key, shape)
    return weight if parametrisation == "ntk" else weight * _weight_std(var, fan_in, weight)


def scaled_weight(
    weight: Float[Array, "..."], var: Any, fan_in: int, parametrisation: Parametrisation
) -> Float[Array, "..."]:
    """The weights as the forward pass uses them, of variance `var / fan_in`."""
    return weight * _weight_std(var, fan_in, weight) if parametrisation == "ntk" else weight


def _weight_std(var: Any, fan_in: int, weight: Float[Array, "..."]) -> Float[Array, "..."]:
    std = jnp.sqrt(jnp.asarray(var, weight.dtype) / fan_in)
    return std if std.ndim == 0 else std[:, None]


def _read_out(k: Covariance, get: Get) -> KernelValues:
    """The kernels of the network with its readout, whose weights are trained too."""
    return KernelValues(nngp=None if get == "ntk" else k.nngp, ntk=None if k.ntk is None else k.ntk + k.nngp)


def _is_default(value: Any, default: Any) -> bool:
    return isinstance(value, type(default)) and bool(value == default)


# Longer vectors are shown by their length.
LONGEST_SHOWN = 20


def _show(value: Any) -> str:
    if is_traced(value):
        return f"<traced {value.dtype}{list(value.shape)}>"
    if isinstance(value, (jax.Array, np.ndarray, np.generic)):
        return repr(value.tolist()) if value.size <= LONGEST_SHOWN else f"<{value.size} numbers>"
    if callable(value) and hasattr(value, "__name__"):
        return _public_name(value)
    return repr(value)


def _public_name(fn: Any) -> str:
    """How a function of JAX is written in code; its bare name for any other function."""
    homes = {"jax.nn": jax.nn, "jax.numpy": jnp, "jax.lax": jax.lax, "jax.scipy.special": jax.scipy.special}
    found = (f"{path}.{fn.__name__}" for path, home in homes.items() if getattr(home, fn.__name__, None) is fn)
    return next(found, fn.__name__)
