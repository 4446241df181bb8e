"""What turns three plain functions into a layer of `stax`: inputs to kernels, layouts, shapes and masks."""

import dataclasses
import enum
import functools
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from widetail.compat.neural_tangents._arrays import gather, masked, variances
from widetail.compat.neural_tangents._get import with_get
from widetail.compat.neural_tangents._kernel import Kernel

ARRAYS = (np.ndarray, jax.Array)
DEFAULTS = {
    "diagonal_batch": True,
    "diagonal_spatial": False,
    "batch_axis": 0,
    "use_dropout": False,
    "channel_axis": -1,
    "mask_constant": None,
}


class Bool(enum.IntEnum):
    """No, maybe or yes; the conjunction is the smaller one."""

    NO = 0
    MAYBE = 1
    YES = 2

    def __and__(self, other: Any) -> "Bool":
        return Bool(min(self, other))

    __rand__ = __and__


@dataclasses.dataclass(frozen=True)
class Diagonal:
    """Whether a layer can do with covariances of equal positions alone.

    Attributes:
        input: YES when what comes in may leave out pairs of different positions, whatever is above; MAYBE when it may
            if those covariances are zero; NO when it must not.
        output: YES when nothing of different positions is left to tell; MAYBE when their covariances are zero in what
            comes out; NO when they matter.
    """

    input: Bool = Bool.YES
    output: Bool = Bool.NO

    def __rshift__(self, other: "Diagonal") -> "Diagonal":
        """This layer and then the other one."""
        if self.output == Bool.YES:
            return self
        if self.output == Bool.MAYBE and other.input != Bool.NO:
            needed = self.input
        elif self.output == Bool.NO and other.input != Bool.YES:
            needed = Bool.NO
        else:
            needed = self.input & other.input
        return Diagonal(needed, other.output)

    def __lshift__(self, other: "Diagonal") -> "Diagonal":
        return other >> self

    def __and__(self, other: "Diagonal") -> "Diagonal":
        """Both, side by side."""
        return Diagonal(self.input & other.input, self.output & other.output)

    __rand__ = __and__

    def __bool__(self) -> bool:
        return self.input == Bool.YES and self.output > Bool.NO


@functools.partial(jax.tree_util.register_dataclass, data_fields=("masked_value", "mask"), meta_fields=())
@dataclasses.dataclass(frozen=True)
class MaskedArray:
    """Values with zeros where the mask is True."""

    masked_value: Any
    mask: Any

    def replace(self, **changes: Any) -> "MaskedArray":
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)


def is_kernel(x: Any) -> bool:
    """For trees of kernels."""
    return isinstance(x, Kernel)


def as_masked(x: Any, mask_constant: Any = None) -> MaskedArray:
    """An array with its mask: entries equal to the constant (NaN for NaN), or no mask."""
    if isinstance(x, MaskedArray):
        return MaskedArray(masked(x.masked_value, x.mask), x.mask)
    if x is None or mask_constant is None:
        return MaskedArray(x, None)
    x = jnp.asarray(x)
    mask = jnp.where(jnp.isnan(mask_constant), jnp.isnan(x), x == mask_constant)
    return MaskedArray(masked(x, mask), mask)


def unmask_fn(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function with plain arrays, zero where masked, instead of `MaskedArray`s."""

    @functools.wraps(fn)
    def unmasked(*args: Any, **kwargs: Any) -> Any:
        def plain(x):
            return masked(x.masked_value, x.mask) if isinstance(x, MaskedArray) else x

        return jax.tree.map(plain, fn(*args, **kwargs), is_leaf=lambda x: isinstance(x, MaskedArray))

    return unmasked


def supports_masking(remask_kernel: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A layer of three functions, or four with `mask_fn(mask, input_shape)`, that takes masked inputs.

    Args:
        remask_kernel: whether covariances of masked positions have to be set to zero again after the layer.
    """

    def decorate(make: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(make)
        def made(*args: Any, **kwargs: Any) -> Any:
            functions = make(*args, **kwargs)
            if len(functions) not in (3, 4):
                raise ValueError(
                    f"a layer must have three functions (init_fn, apply_fn, kernel_fn) or four (..., mask_fn); "
                    f"got {len(functions)}."
                )
            init_fn, apply_fn, kernel_fn = functions[:3]
            own_mask_fn = functions[3] if len(functions) == 4 else lambda mask, input_shape: mask

            def mask_fn(mask, input_shape):
                if mask is None or (type(mask) in (list, tuple) and all(m is None for m in mask)):
                    return None
                return own_mask_fn(mask, input_shape)

            def masked_apply(params, inputs, *, mask_constant=None, **options):
                several = type(inputs) in (list, tuple)
                found = [as_masked(x, mask_constant) for x in (inputs if several else [inputs])]
                values, masks = [one.masked_value for one in found], [one.mask for one in found]
                if several:
                    outputs = apply_fn(params, type(inputs)(values), mask=masks, **options)
                    mask = mask_fn(masks, [x.shape for x in values])
                else:
                    outputs = apply_fn(params, values[0], mask=masks[0], **options)
                    mask = mask_fn(masks[0], values[0].shape)
                return outputs if mask is None else MaskedArray(outputs, mask)

            def masked_kernel(k, **options):
                ks = k if type(k) in (list, tuple) else None
                if ks is None:
                    mask1, mask2 = mask_fn(k.mask1, k.shape1), mask_fn(k.mask2, k.shape2)
                else:
                    mask1 = mask_fn([one.mask1 for one in ks], [one.shape1 for one in ks])
                    mask2 = mask_fn([one.mask2 for one in ks], [one.shape2 for one in ks])
                out = kernel_fn(k, **options)
                if remask_kernel and (mask1 is not None or mask2 is not None):
                    return out.mask(mask1, mask2)
                return out.replace(mask1=mask1, mask2=mask2)

            if hasattr(kernel_fn, "input_req"):
                set_requirements(masked_kernel, kernel_fn.input_req)
            return init_fn, masked_apply, masked_kernel

        return made

    return decorate


def requirements(kernel_fn: Any) -> dict[str, Any]:
    """What layout a kernel function needs; nothing particular when it does not say."""
    return getattr(kernel_fn, "input_req", {})


def set_requirements(kernel_fn: Any, wanted: dict[str, Any]) -> Any:
    """The function, on which neural-tangents looks for `input_req`."""
    kernel_fn.input_req = dict(wanted)
    return kernel_fn


def requires(**static_reqs: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """State what layout of its input a `kernel_fn` needs: `diagonal_spatial`, `batch_axis`, `channel_axis`, ..."""

    def decorate(kernel_fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(kernel_fn)
        def checked(k, **options):
            wanted = merge(static_reqs, {}, options)
            if isinstance(k, Kernel):
                for name, value in wanted.items():
                    _check_requirement(kernel_fn, k, name, value)
            return kernel_fn(k, **options)

        return set_requirements(checked, static_reqs)

    return decorate


def _check_requirement(kernel_fn: Any, k: Kernel, name: str, value: Any) -> None:
    who = getattr(kernel_fn, "__name__", "kernel_fn")
    if value is None:
        return
    if name in ("diagonal_batch", "diagonal_spatial"):
        must_be_full = value is False or (isinstance(value, Diagonal) and value.input == Bool.NO)
        if getattr(k, name) and must_be_full:
            raise ValueError(
                f"{who} needs {name}={value}, but the kernel that it got has {name}=True: compute it anew."
            )
    elif name in ("batch_axis", "channel_axis"):
        have = getattr(k, name)
        if have != value % len(k.shape1):
            raise ValueError(f"{who} needs {name}={value}, but the kernel that it got has {name}={have}.")


def merge(own: dict[str, Any], defaults: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Requirements of a kernel function, overridden by the user's, completed by defaults."""
    wanted = dict(own)
    for name, value in given.items():
        if value is None:
            continue
        if name in wanted:
            needs_full = wanted[name] is False or (isinstance(wanted[name], Diagonal) and wanted[name].input == Bool.NO)
            if value is True and needs_full:
                raise ValueError(f"{name}=True was asked for, but the network needs {name}={wanted[name]}.")
        wanted[name] = value
    return defaults | wanted


def layer(layer_fn: Callable[..., Any]) -> Callable[..., Any]:
    """Turn a function that returns (init_fn, apply_fn, kernel_fn of a `Kernel`) into a layer of `stax`.

    The layer's `kernel_fn` takes inputs too, and sets the shapes.
    """
    name = layer_fn.__name__

    @functools.wraps(layer_fn)
    def made(*args: Any, **kwargs: Any) -> Any:
        init_fn, apply_fn, kernel_fn = layer_fn(*args, **kwargs)
        kernel_fn = _of_inputs_or_kernel(init_fn, kernel_fn)
        for fn in (init_fn, apply_fn, kernel_fn):
            try:
                fn.__name__ = name
            except AttributeError:
                continue
        return init_fn, apply_fn, kernel_fn

    return made


def _of_inputs_or_kernel(init_fn: Callable[..., Any], kernel_fn: Callable[..., Any]) -> Callable[..., Any]:
    if not hasattr(kernel_fn, "input_req"):
        kernel_fn = requires()(kernel_fn)
    own = requirements(kernel_fn)

    @with_get("AnalyticKernel")
    def any_kernel_fn(
        x1_or_kernel,
        x2=None,
        get=None,
        *,
        pattern=None,
        mask_constant=None,
        diagonal_batch=None,
        diagonal_spatial=None,
        **kwargs,
    ):
        options = {"diagonal_batch": diagonal_batch, "diagonal_spatial": diagonal_spatial}
        patterns = {} if pattern is None else {"pattern": pattern}
        leaves = jax.tree.leaves(x1_or_kernel, is_leaf=is_kernel)
        if x2 is None and leaves and all(is_kernel(leaf) for leaf in leaves):
            start = jax.tree.map(lambda k: k.reverse() if k.is_reversed else k, x1_or_kernel, is_leaf=is_kernel)
        else:
            wanted = merge(own, DEFAULTS, options | {"mask_constant": mask_constant} | kwargs)
            with_ntk = get is None or "ntk" in get

            def begin(x1, x2):
                return inputs_to_kernel(x1, x2, with_ntk, wanted)

            others = jax.tree.map(lambda _: None, x1_or_kernel) if x2 is None else x2
            start = _zip_tree(begin, x1_or_kernel, others)
        out = kernel_fn(start, **options, **patterns, **kwargs)
        return _with_shapes(init_fn, start, out)

    return set_requirements(any_kernel_fn, own)


def _zip_tree(fn: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    if type(one) in (list, tuple):
        second = other if other is not None else [None] * len(one)
        return type(one)(_zip_tree(fn, a, b) for a, b in zip(one, second, strict=True))
    return fn(one, other)


def _with_shapes(init_fn: Callable[..., Any], start: Any, out: Any) -> Any:
    """The shapes of the finite outputs, which the finite layer knows."""

    def shapes(name):
        inputs = jax.tree.map(lambda k: getattr(k, name), start, is_leaf=is_kernel)
        found = []

        def draw(key):
            found.append(init_fn(key, inputs)[0])
            return 0

        jax.eval_shape(draw, jax.eval_shape(jax.random.PRNGKey, 0))
        return found[0]

    def put(k, shape1, shape2):
        if isinstance(k, Kernel):
            return k.replace(shape1=tuple(map(int, shape1)), shape2=tuple(map(int, shape2)))
        return type(k)(put(*each) for each in zip(k, shape1, shape2, strict=True))

    return put(out, shapes("shape1"), shapes("shape2"))


def inputs_to_kernel(x1: Any, x2: Any, with_ntk: bool, wanted: dict[str, Any]) -> Kernel:
    """The kernel of the inputs themselves."""
    for name, x in (("x1", x1), ("x2", x2)):
        if not isinstance(x, ARRAYS) and not (name == "x2" and x is None):
            raise TypeError(f"{name} must be an array (lists are for several inputs); got {type(x).__name__}.")
        if x is not None and x.ndim < 2:
            raise ValueError(f"{name} must have an axis of data points and one of features; got shape {x.shape}.")
    batch_axis, channel_axis = wanted["batch_axis"] % x1.ndim, wanted["channel_axis"]
    diagonal_batch, diagonal = bool(wanted["diagonal_batch"]), bool(wanted["diagonal_spatial"])
    if batch_axis != 0:
        warnings.warn(f"inputs with batch_axis={batch_axis} instead of 0 cannot be used with nt.batch.", stacklevel=4)
    if channel_axis is None:
        x1, x2 = (x if x is None else jnp.moveaxis(x, batch_axis, 0).reshape(x.shape[batch_axis], -1) for x in (x1, x2))
        batch_axis, channel_axis, diagonal = 0, 1, False
    channel_axis %= x1.ndim
    if x2 is not None and (x2.ndim != x1.ndim or x2.shape[channel_axis] != x1.shape[channel_axis]):
        raise ValueError(f"x1 and x2 must have as many axes and features; got shapes {x1.shape} and {x2.shape}.")
    ones, others = as_masked(x1, wanted["mask_constant"]), as_masked(x2, wanted["mask_constant"])
    h1 = jnp.asarray(ones.masked_value, dtype=float)
    h2 = None if x2 is None else jnp.asarray(others.masked_value, dtype=float)

    def products(a, b, batch):
        """(n, [n'], positions) in the layout asked for."""
        a, b = (jnp.moveaxis(h, (batch_axis, channel_axis), (0, -1)) for h in (a, b))
        rank = a.ndim - 2
        first = list(range(2, 2 + rank))
        second = first if diagonal else list(range(2 + rank, 2 + 2 * rank))
        rows = [0] if batch == 1 else [0, 1]
        out = [*first, *([] if diagonal else second), *rows]
        k = jnp.einsum(a, [0, *first, 99], b, [rows[-1], *second, 99], out)
        return gather(k, batch, diagonal) / a.shape[-1]

    own = 1 if diagonal_batch else 2
    nngp = products(h1, h1 if h2 is None else h2, 2)
    return Kernel(
        nngp=nngp,
        ntk=jnp.zeros_like(nngp) if with_ntk else None,
        cov1=products(h1, h1, own),
        cov2=None if h2 is None else products(h2, h2, own),
        x1_is_x2=are_equal(h1, h2),
        is_gaussian=False,
        is_reversed=False,
        is_input=True,
        diagonal_batch=diagonal_batch,
        diagonal_spatial=diagonal,
        shape1=h1.shape,
        shape2=h1.shape if h2 is None else h2.shape,
        batch_axis=batch_axis,
        channel_axis=channel_axis,
        mask1=ones.mask,
        mask2=others.mask,
    )


def are_equal(x1: Any, x2: Any) -> Any:
    """Whether two sets of inputs are the same."""
    if x2 is None or x1 is x2:
        return jnp.asarray(True)
    if x1.shape != x2.shape:
        return jnp.asarray(False)
    return jnp.all(jnp.abs(x1 - x2) < 1e-12)


def own_variances(k: Kernel) -> tuple[Any, Any]:
    """The variances (n, positions) of both sets; the second is None when there is one set."""
    own = k.batch_ndim
    second = None if k.cov2 is None else variances(k.cov2, own, k.diagonal_spatial)
    return variances(k.cov1, own, k.diagonal_spatial), second
