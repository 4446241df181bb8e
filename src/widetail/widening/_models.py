"""A user's model at a width: its parameters by path, and a function of them and of one input."""

import dataclasses
import inspect
import sys
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from widetail.widening._source import WidenError

Width = int | tuple[int, ...]  # several numbers for a model with several widths


@dataclasses.dataclass(frozen=True)
class Built:
    """A model at one width.

    Attributes:
        paths: names of the parameters, such as "layers.0.weight".
        leaves: their values as the user's own `init` drew them.
        apply: a function of a list of parameters and of one input, without rows.
        rebuild: the user's own model with other parameters, in the order of `paths`.
        has_state: whether it holds arrays that are no parameters, such as batch statistics, whose values are needed.
    """

    paths: tuple[str, ...]
    leaves: tuple[Any, ...]
    apply: Callable[[list[Any], Any], Any]
    rebuild: Callable[[list[Any]], Any]
    has_state: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class Make:
    """Builds a model at a width.

    Attributes:
        model: the user's function of a width and a key.
        read: takes what it returns apart.
    """

    model: Callable[[Any, Any], Any]
    read: Callable[[Any], Built]

    def __call__(self, width: Width, key: Any) -> Built:
        """The model, drawn."""
        return self.read(self.model(width, key))

    def abstract(self, width: Width, key: Any) -> Built:
        """The model with shapes in place of its parameters, which takes no compilation."""
        try:
            nnx = getattr(sys.modules.get("flax"), "nnx", None)
            if nnx is not None and self._is_nnx(nnx, width, key):
                built = self.read(nnx.eval_shape(lambda: self.model(width, key)))
                return self(width, key) if built.has_state else built
            return self.read(eqx.filter_eval_shape(lambda k: self.model(width, k), key))
        except Exception:  # a model that cannot be built without numbers is built with them
            return self(width, key)

    def _is_nnx(self, nnx: Any, width: Width, key: Any) -> bool:
        kinds: list[bool] = []

        def probe(k: Any) -> int:
            kinds.append(isinstance(self.model(width, k), nnx.Module))
            return 0

        jax.eval_shape(probe, key)
        return kinds[0]

    def constants(self, width: Width, key: Any, numbers: list[int]) -> list[Any]:
        """Some parameters, drawn; the others are not computed."""
        if not numbers:
            return []
        return jax.jit(lambda k: [jnp.asarray(self.read(self.model(width, k)).leaves[n]) for n in numbers])(key)


def reader(model: Any) -> Make:
    """A function of a width and a key that builds the user's model.

    Args:
        model: `lambda width, key: ...` that gives an Equinox module (it takes one input) or a Flax NNX module (it takes
            a batch); or a pair `(init, apply)` with `init(width, key)` and `apply(params, x)` of a batch.
    """
    if isinstance(model, tuple):
        if len(model) != 2 or not all(callable(part) for part in model):
            raise ValueError(f"model must be a function of (width, key) or a pair (init, apply); got {model!r}.")
        init, apply = model
        return Make(init, lambda params: _from_pair(params, apply))
    if not callable(model):
        raise ValueError(
            f"model must be a function of (width, key), such as lambda width, key: MyModel(width, key=key), or a pair "
            f"(init, apply); got {type(model).__name__}. A model of one width says nothing of its limit."
        )
    try:
        inspect.signature(model).bind(1, None)
    except TypeError:
        raise ValueError(
            f"model must take two arguments, a width and a key; {getattr(model, '__name__', model)!r} does not."
        ) from None
    return Make(model, _from_module)


def _from_pair(params: Any, apply: Any) -> Built:
    def call(p: Any, x: Any) -> Any:
        y = apply(p, x[None])
        if not isinstance(y, (jax.Array, np.ndarray)):
            raise WidenError(f"the model must return one array; it returns {type(y).__name__}")
        return y[0]

    return _split(params, call, lambda p: p)


def _from_module(module: Any) -> Built:
    nnx = getattr(sys.modules.get("flax"), "nnx", None)
    if nnx is not None and isinstance(module, nnx.Module):
        module.eval()
        graph, params, rest = nnx.split(module, nnx.Param, ...)
        pure = nnx.to_pure_dict(params)

        def merged(values: Any) -> Any:
            state = jax.tree.unflatten(jax.tree.structure(params), jax.tree.leaves(values))
            # streams of random numbers are copied, so that they may count on where the model is traced
            return nnx.merge(graph, state, jax.tree.map(_a_stream, rest))

        built = _split(pure, lambda p, x: merged(p)(x[None])[0], merged)
        return dataclasses.replace(built, has_state=any(_is_parameter(leaf) for leaf in jax.tree.leaves(rest)))
    if isinstance(module, eqx.Module):
        if not callable(module):
            raise ValueError(f"the model must be callable on one input; {type(module).__name__} has no __call__.")
        module = eqx.nn.inference_mode(module)
        return _split(module, lambda m, x: m(x), lambda m: m)
    raise ValueError(
        f"the function must give an Equinox module or a Flax NNX module; got {type(module).__name__}. A model of plain "
        f"functions is a pair (init, apply)."
    )


def _a_stream(leaf: Any) -> Any:
    """Some key or count where only its shape is known; anything else as it is."""
    if not isinstance(leaf, jax.ShapeDtypeStruct) or jnp.issubdtype(leaf.dtype, jnp.inexact):
        return leaf
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.split(jax.random.key(0), leaf.shape) if leaf.shape else jax.random.key(0)
    return jnp.zeros(leaf.shape, leaf.dtype)


def _split(params: Any, call: Callable[[Any, Any], Any], finish: Callable[[Any], Any]) -> Built:
    free, fixed = eqx.partition(params, _is_parameter)
    pairs, structure = jax.tree_util.tree_flatten_with_path(free)
    if not pairs:
        raise ValueError("the model holds no floating-point arrays, so there is nothing that could be wide.")

    def combine(leaves: list[Any]) -> Any:
        return eqx.combine(jax.tree.unflatten(structure, list(leaves)), fixed)

    return Built(
        tuple(jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in pairs),
        tuple(leaf for _, leaf in pairs),
        lambda leaves, x: call(combine(leaves), x),
        lambda leaves: finish(combine(leaves)),
    )


def _is_parameter(leaf: Any) -> bool:
    return isinstance(leaf, (jax.Array, np.ndarray, jax.ShapeDtypeStruct)) and jnp.issubdtype(leaf.dtype, jnp.inexact)


def traced(built: Built, input_shape: tuple[int, ...]) -> Any:
    """The jaxpr of the model for one input, in double precision where the model allows it.

    A model that takes whole numbers, such as those of tokens, is traced with them.
    """
    error: Exception | None = None
    for dtype, input_dtype in ((np.float64,) * 2, (np.float32,) * 2, (np.float32, np.int32)):
        leaves = [jax.ShapeDtypeStruct(leaf.shape, dtype) for leaf in built.leaves]
        try:
            with jax.enable_x64(dtype == np.float64):
                return jax.make_jaxpr(built.apply)(leaves, jax.ShapeDtypeStruct(input_shape, input_dtype))
        except WidenError:
            raise
        except Exception as raised:
            error = error or raised
    raise WidenError(
        f"the model cannot be called on one input of shape {input_shape}: {type(error).__name__}: {error}"
    ) from error
