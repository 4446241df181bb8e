"""Layers one after the other and side by side, and what joins branches."""

import functools
import operator
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from widetail.compat.neural_tangents._kernel import Kernel
from widetail.compat.neural_tangents._requirements import layer, requires, supports_masking


def _joint_requirements(kernel_fns: Sequence[Any], fold: Any) -> dict[str, Any]:
    joint: dict[str, Any] = {}
    for kernel_fn in kernel_fns:
        for name, value in getattr(kernel_fn, "input_req", {}).items():
            if name not in joint:
                joint[name] = value
            elif name == "use_dropout":
                if joint[name] != value:
                    raise ValueError("use_dropout must be the same in the whole network.")
            elif name in ("batch_axis", "channel_axis"):
                if fold is operator.and_ and joint[name] != value:
                    warnings.warn(
                        f"branches of stax.parallel have different values of {name}, {joint[name]} and {value}; "
                        f"kernel_fn may then be wrong.",
                        stacklevel=3,
                    )
            elif name in ("diagonal_batch", "diagonal_spatial"):
                both = isinstance(joint[name], bool) and isinstance(value, bool)
                joint[name] = (joint[name] and value) if both else fold(joint[name], value)
    return joint


@layer
def serial(*layers: Any) -> Any:
    """Layers one after the other."""
    init_fns, apply_fns, kernel_fns = zip(*layers, strict=True) if layers else ((), (), ())

    def init_fn(rng, input_shape):
        params = []
        for init in init_fns:
            rng, layer_rng = jax.random.split(rng)
            input_shape, drawn = init(layer_rng, input_shape)
            params.append(drawn)
        return input_shape, params

    def apply_fn(params, inputs, **kwargs):
        rng = kwargs.pop("rng", None)
        rngs = [None] * len(apply_fns) if rng is None else jax.random.split(rng, len(apply_fns))
        for apply, own, layer_rng in zip(apply_fns, params, rngs, strict=True):
            inputs = apply(own, inputs, rng=layer_rng, **kwargs)
        return inputs

    @requires(**_joint_requirements(kernel_fns, operator.rshift))
    def kernel_fn(k, **kwargs):
        for fn in kernel_fns:
            k = fn(k, **kwargs)
        return k

    return init_fn, apply_fn, kernel_fn


@layer
def parallel(*layers: Any) -> Any:
    """Layers side by side, each with its own input from a list."""
    init_fns, apply_fns, kernel_fns = zip(*layers, strict=True)

    def init_fn(rng, input_shape):
        rngs = jax.random.split(rng, len(init_fns))
        made = [init(key, shape) for init, key, shape in zip(init_fns, rngs, input_shape, strict=True)]
        return type(input_shape)(shape for shape, _ in made), tuple(drawn for _, drawn in made)

    def apply_fn(params, inputs, **kwargs):
        rng = kwargs.pop("rng", None)
        rngs = [None] * len(apply_fns) if rng is None else jax.random.split(rng, len(apply_fns))
        return type(inputs)(
            apply(own, x, rng=key, **kwargs) for apply, own, x, key in zip(apply_fns, params, inputs, rngs, strict=True)
        )

    @requires(**_joint_requirements(kernel_fns, operator.and_))
    def kernel_fn(ks, **kwargs):
        return type(ks)(fn(k, **kwargs) for k, fn in zip(ks, kernel_fns, strict=True))

    return init_fn, apply_fn, kernel_fn


@layer
def repeat(layer: Any, n: int) -> Any:
    """The same layer n times, with parameters of its own each time."""
    one_init, one_apply, one_kernel = layer

    def init_fn(rng, input_shape):
        output_shape, _ = one_init(rng, input_shape)
        if output_shape != input_shape:
            raise ValueError(
                f"stax.repeat needs a layer whose output has the shape of its input; got {input_shape} -> "
                f"{output_shape}. Use stax.serial(*[layer] * n)."
            )

        def draw(key, _):
            key, own = jax.random.split(key)
            return key, one_init(own, input_shape)[1]

        return output_shape, jax.lax.scan(draw, rng, None, n)[1]

    def apply_fn(params, inputs, **kwargs):
        return jax.lax.scan(lambda x, own: (one_apply(own, x, **kwargs), None), inputs, params, n)[0]

    @requires(**getattr(one_kernel, "input_req", {}))
    def kernel_fn(k, **kwargs):
        if n == 0:
            return k
        # the first step settles what is static (Gaussian or not); the others then have one form
        k = one_kernel(k, **kwargs)
        return jax.lax.scan(lambda k, _: (one_kernel(k, **kwargs), None), k, None, n - 1)[0]

    return init_fn, apply_fn, kernel_fn


@layer
def FanOut(num: int) -> Any:  # noqa: N802
    """The input as a list of `num` copies."""

    def init_fn(rng, input_shape):
        return [input_shape] * num, ()

    def apply_fn(params, inputs, **kwargs):
        return [inputs] * num

    def kernel_fn(k, **kwargs):
        return [k] * num

    return init_fn, apply_fn, kernel_fn


def _same_layout(ks: Sequence[Kernel]) -> list[Kernel]:
    names = ("diagonal_batch", "diagonal_spatial", "batch_axis", "channel_axis")
    if any(getattr(k, name) != getattr(ks[0], name) for k in ks for name in names):
        raise NotImplementedError(f"branches must end in kernels of one layout: the same {', '.join(names)}.")
    return [k.reverse() if k.is_reversed else k for k in ks]


def _check_shapes(owner: str, ks: Sequence[Kernel]) -> None:
    if any((k.shape1, k.shape2) != (ks[0].shape1, ks[0].shape2) for k in ks):
        raise ValueError(f"{owner} needs branches of one shape; got {[k.shape1 for k in ks]}.")


def _all_masked(masks, input_shape):
    """Masked where every branch that has a mask is."""
    found = [m for m in masks if m is not None]
    return functools.reduce(jnp.logical_and, found) if found else None


def _first_shape(rng, input_shape):
    return input_shape[0], ()


@layer
@supports_masking(remask_kernel=False)
def FanInSum() -> Any:  # noqa: N802
    """The sum of branches, which must be independent."""

    def apply_fn(params, inputs, **kwargs):
        return functools.reduce(jnp.add, inputs)

    def kernel_fn(ks, **kwargs):
        ks = _same_layout(ks)
        _check_shapes("stax.FanInSum", ks)
        if len(ks) > 1 and not all(k.is_gaussian for k in ks):
            raise NotImplementedError(
                f"stax.FanInSum needs branches that are Gaussian of mean zero, ending in random weights; got "
                f"is_gaussian={[k.is_gaussian for k in ks]}."
            )

        def total(name):
            values = [getattr(k, name) for k in ks]
            return None if values[0] is None else sum(values[1:], values[0])

        return ks[0].replace(**{name: total(name) for name in ("cov1", "cov2", "nngp", "ntk")}, mask1=None, mask2=None)

    return _first_shape, apply_fn, kernel_fn, _all_masked


@layer
@supports_masking(remask_kernel=False)
def FanInProd() -> Any:  # noqa: N802
    """The product of branches, which must be independent."""

    def apply_fn(params, inputs, **kwargs):
        return functools.reduce(jnp.multiply, inputs)

    def kernel_fn(ks, **kwargs):
        ks = _same_layout(ks)
        _check_shapes("stax.FanInProd", ks)

        def times(one, other):
            ntk = None if one.ntk is None else one.ntk * other.nngp + one.nngp * other.ntk
            cov2 = None if one.cov2 is None else one.cov2 * other.cov2
            return one.replace(cov1=one.cov1 * other.cov1, cov2=cov2, nngp=one.nngp * other.nngp, ntk=ntk)

        gaussian = len(ks) == 1 and ks[0].is_gaussian
        return functools.reduce(times, ks).replace(is_gaussian=gaussian, mask1=None, mask2=None)

    return _first_shape, apply_fn, kernel_fn, _all_masked


@layer
@supports_masking(remask_kernel=False)
def FanInConcat(axis: int = -1) -> Any:  # noqa: N802
    """Branches side by side along an axis."""

    def init_fn(rng, input_shape):
        place = axis % len(input_shape[0])
        total = sum(shape[place] for shape in input_shape)
        return (*input_shape[0][:place], total, *input_shape[0][place + 1 :]), ()

    def apply_fn(params, inputs, **kwargs):
        return jnp.concatenate(inputs, axis)

    def kernel_fn(ks, **kwargs):
        ks = _same_layout(ks)
        first = ks[0]
        ndim = len(first.shape1)
        place = axis % ndim

        def others(shape):
            return (*shape[:place], *shape[place + 1 :])

        if any(others(k.shape1) != others(first.shape1) or others(k.shape2) != others(first.shape2) for k in ks):
            raise ValueError(
                f"stax.FanInConcat needs shapes that agree but for axis {axis}; got {[k.shape1 for k in ks]}."
            )
        if place == first.channel_axis:
            widths = [k.shape1[place] for k in ks]
            return _add_up(ks, [width / sum(widths) for width in widths])
        if not all(k.is_gaussian for k in ks):
            raise NotImplementedError(
                "stax.FanInConcat along another axis than that of channels needs Gaussian branches of mean zero."
            )
        if place == first.batch_axis:
            warnings.warn("stax.FanInConcat along the batch axis gives other kernels when batched.", stacklevel=2)
            return _beside(ks, None)
        positions = [i for i in range(ndim) if i not in (first.batch_axis, first.channel_axis)]
        return _beside(ks, positions.index(place))

    def mask_fn(masks, input_shapes):
        place = axis % len(input_shapes[0])
        rest = [max(sizes) for sizes in zip(*(m.shape for m in masks if m is not None), strict=True)]
        wide = []
        for mask, shape in zip(masks, input_shapes, strict=True):
            target = [*rest[:place], shape[place], *rest[place + 1 :]]
            wide.append(jnp.zeros(target, bool) if mask is None else jnp.broadcast_to(mask, target))
        return jnp.concatenate(wide, place)

    return init_fn, apply_fn, kernel_fn, mask_fn


def _add_up(ks: Sequence[Kernel], shares: Sequence[float]) -> Kernel:
    def total(name):
        values = [getattr(k, name) for k in ks]
        if values[0] is None:
            return None
        return functools.reduce(jnp.add, [share * value for share, value in zip(shares, values, strict=True)])

    found = {name: total(name) for name in ("cov1", "cov2", "nngp", "ntk")}
    return ks[0].replace(**found, is_gaussian=False, mask1=None, mask2=None)


def _beside(ks: Sequence[Kernel], position: int | None) -> Kernel:
    """Independent branches in blocks along an axis of positions, or of data points (None)."""
    first = ks[0]

    def join(name, batch):
        values = [getattr(k, name) for k in ks]
        if values[0] is None:
            return None
        if position is None:
            axes = (0,) if batch == 1 else (0, 1)
        elif first.diagonal_spatial:
            axes = (batch + position,)
        else:
            axes = (batch + 2 * position, batch + 2 * position + 1)
        if len(axes) == 1:
            return jnp.concatenate(values, axes[0])
        strips = []
        for i, value in enumerate(values):
            pads = [(0, 0)] * value.ndim
            sizes = [other.shape[axes[0]] for other in values]
            pads[axes[0]] = (sum(sizes[:i]), sum(sizes[i + 1 :]))
            strips.append(jnp.pad(value, pads))
        return jnp.concatenate(strips, axes[1])

    own = first.batch_ndim
    return first.replace(
        cov1=join("cov1", own), cov2=join("cov2", own), nngp=join("nngp", 2), ntk=join("ntk", 2), mask1=None, mask2=None
    )
