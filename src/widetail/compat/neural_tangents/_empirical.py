"""Kernels and Taylor series of finite models, for outputs of any shape."""

import enum
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from widetail import empirical
from widetail.compat.neural_tangents._arrays import Axes, canonical_axes
from widetail.compat.neural_tangents._get import with_get
from widetail.compat.neural_tangents._requirements import are_equal
from widetail.empirical import EmpiricalKernel, Layout


class NtkImplementation(enum.IntEnum):
    """How a tangent kernel is computed; the numbers are the same."""

    AUTO = 0
    JACOBIAN_CONTRACTION = 1
    NTK_VECTOR_PRODUCTS = 2
    STRUCTURED_DERIVATIVES = 3


DEFAULT = NtkImplementation.JACOBIAN_CONTRACTION
METHODS = {0: "auto", 1: "jacobian", 2: "products", 3: "structured"}


def linearize(f: Callable[..., Any], params: Any) -> Callable[..., Any]:
    """The model that is linear in its parameters, around those given."""
    return empirical.linearize(f, params)


def taylor_expand(f: Callable[..., Any], params: Any, degree: int) -> Callable[..., Any]:
    """The model's Taylor series in its parameters up to `degree`."""
    return empirical.taylor_expand(f, params, degree)


def no_second(x2: Any) -> bool:
    """Whether a second set of inputs is missing; trees of None are missing too."""
    return not jax.tree.leaves(x2)


def split_options(options: dict[str, Any], x1: Any = None, x2: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keyword arguments of either side: a pair is one for each, a key is another one for other inputs."""
    first, second = {}, {}
    for name, value in options.items():
        if name == "rng" and value is not None and not no_second(x2):
            first[name], second[name] = _two_keys(value, x1, x2)
        elif isinstance(value, tuple) and len(value) == 2:
            first[name], second[name] = value
        else:
            first[name] = second[name] = value
    return first, second


def _two_keys(key: Any, x1: Any, x2: Any) -> tuple[Any, Any]:
    """Equal inputs get equal keys, others different ones."""
    ones, others = jax.tree.leaves(x1), jax.tree.leaves(x2)
    same = jnp.all(jnp.stack([are_equal(a, b) for a, b in zip(ones, others, strict=True)]))
    if isinstance(key, tuple):
        one, other = key
        equal_keys = jnp.all(jnp.asarray(one == other))
        other = jnp.where(equal_keys, jax.random.fold_in(other, 1), other)
    else:
        one, other = key, jax.random.fold_in(key, 1)
    return one, jnp.where(same, one, other)


def _contract(y1: Any, y2: Any, ndim: int, trace_axes: Axes, diagonal_axes: Axes) -> Any:
    """Sum products over trace axes and over all axes after the first `ndim`; the others in pairs, in order."""
    traced, diagonal = canonical_axes(trace_axes, ndim), canonical_axes(diagonal_axes, ndim)
    first, second, out = list(range(y1.ndim)), list(range(y1.ndim)), []
    for axis in range(ndim):
        if axis in traced:
            continue
        if axis not in diagonal:
            second[axis] = y1.ndim + axis
        out += [first[axis]] if axis in diagonal else [first[axis], second[axis]]
    size = 1
    for axis in traced:
        size *= y1.shape[axis]
    return jnp.einsum(y1, first, y2, second, out) / size


def empirical_nngp_fn(f: Callable[..., Any], trace_axes: Axes = (-1,), diagonal_axes: Axes = ()) -> Callable[..., Any]:
    """Products of the outputs of a finite model, `nngp_fn(x1, x2, params, **apply_fn_kwargs)`."""

    def nngp_fn(x1, x2, params, **apply_fn_kwargs):
        first, second = split_options(apply_fn_kwargs, x1, x2)
        y1 = f(params, x1, **first)
        y2 = y1 if no_second(x2) else f(params, x2, **second)
        return jax.tree.map(lambda a, b: _contract(a, b, a.ndim, trace_axes, diagonal_axes), y1, y2)

    return nngp_fn


def empirical_ntk_fn(
    f: Callable[..., Any],
    trace_axes: Axes = (-1,),
    diagonal_axes: Axes = (),
    vmap_axes: Any = None,
    implementation: NtkImplementation | int = DEFAULT,
    _j_rules: bool = True,
    _s_rules: bool = True,
    _fwd: bool | None = None,
) -> Callable[..., Any]:
    """The tangent kernel of a finite model, `ntk_fn(x1, x2, params, **apply_fn_kwargs)`.

    With `vmap_axes=0` the rows of a batch are known to be independent of each other; then the ways of
    `widetail.empirical` are used, the one that `implementation` names. Otherwise, and for models with several outputs,
    further keyword arguments, or kernels of one row only, Jacobians of the whole batch are contracted. `_j_rules`,
    `_s_rules` and `_fwd` chose among the rules of neural-tangents, which this library does not have; they change
    nothing in the result.
    """
    if implementation not in METHODS:
        raise ValueError(f"implementation must be one of nt.NtkImplementation; got {implementation!r}.")
    method = METHODS[int(implementation)]
    compiled: dict[Any, Any] = {}

    def by_rows(x1, x2, params):
        key = jax.tree.structure(params)
        kernel = EmpiricalKernel(f, params, method=method)
        if key in compiled:  # what was compiled for these shapes serves other parameters too
            object.__setattr__(kernel, "compiled", compiled[key])
        compiled[key] = kernel.compiled
        leaf = jax.tree.leaves(x1)[0]
        shape = jax.eval_shape(f, params, x1).shape
        ndim = len(shape)
        traced = tuple(axis - 1 for axis in canonical_axes(trace_axes, ndim))
        diagonal = tuple(axis - 1 for axis in canonical_axes(diagonal_axes, ndim))
        out = kernel.ntk(x1, None if no_second(x2) else x2, Layout(shape[1:], diagonal, traced))
        return jnp.asarray(out, jnp.result_type(leaf, float) if out.dtype == jnp.float64 else None)

    def ntk_fn(x1, x2, params, **apply_fn_kwargs):
        if _rows_are_independent(f, vmap_axes, x1, params, apply_fn_kwargs, trace_axes, diagonal_axes):
            return by_rows(x1, x2, params)
        first, second = split_options(apply_fn_kwargs, x1, x2)
        y1 = jax.eval_shape(lambda p: f(p, x1, **first), params)
        slopes1 = _jacobian(lambda p: f(p, x1, **first), params, y1)
        slopes2 = slopes1 if no_second(x2) else _jacobian(lambda p: f(p, x2, **second), params, y1)

        def of_output(y, one, other):
            terms = [
                _contract(a, b, y.ndim, trace_axes, diagonal_axes)
                for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
            ]
            return sum(terms[1:], terms[0])

        leaves, structure = jax.tree.flatten(y1)
        per_output = zip(leaves, structure.flatten_up_to(slopes1), structure.flatten_up_to(slopes2), strict=True)
        return structure.unflatten([of_output(*each) for each in per_output])

    return ntk_fn


def _rows_are_independent(f, vmap_axes, x1, params, options, trace_axes, diagonal_axes) -> bool:
    """Whether the ways of `widetail.empirical` apply."""
    if isinstance(vmap_axes, tuple) and len(vmap_axes) == 3:
        same = vmap_axes[0] == 0 and vmap_axes[1] == 0
    else:
        same = vmap_axes == 0 and not isinstance(vmap_axes, (list, tuple, dict))
    if not same or options or not isinstance(x1, jax.Array):
        return False
    if not all(jnp.issubdtype(jnp.result_type(leaf), jnp.floating) for leaf in jax.tree.leaves(params)):
        return False
    y = jax.eval_shape(f, params, x1)
    if not isinstance(y, jax.ShapeDtypeStruct) or y.ndim < 1 or y.shape[0] != x1.shape[0]:
        return False
    return 0 not in canonical_axes(trace_axes, y.ndim) + canonical_axes(diagonal_axes, y.ndim)


def _jacobian(f: Callable[[Any], Any], params: Any, y: Any) -> Any:
    """By reverse mode, or forward where there are fewer parameters than outputs."""
    outputs = sum(leaf.size for leaf in jax.tree.leaves(y))
    inputs = sum(jnp.size(leaf) for leaf in jax.tree.leaves(params))
    return (jax.jacfwd if inputs < outputs else jax.jacrev)(f)(params)


def empirical_kernel_fn(
    f: Callable[..., Any],
    trace_axes: Axes = (-1,),
    diagonal_axes: Axes = (),
    vmap_axes: Any = None,
    implementation: NtkImplementation | int = DEFAULT,
    _j_rules: bool = True,
    _s_rules: bool = True,
    _fwd: bool | None = None,
) -> Callable[..., Any]:
    """Both kernels of a finite model, `kernel_fn(x1, x2, get, params, **apply_fn_kwargs)`."""
    functions = {
        "nngp": empirical_nngp_fn(f, trace_axes, diagonal_axes),
        "ntk": empirical_ntk_fn(f, trace_axes, diagonal_axes, vmap_axes, implementation),
    }

    @with_get("EmpiricalKernel")
    def kernel_fn(x1, x2, get, params, **apply_fn_kwargs):
        names = ("nngp", "ntk") if get is None else get
        found = {name: functions[name](x1, x2, params, **apply_fn_kwargs) for name in names}
        return _turn(found, names)

    return kernel_fn


def _turn(found: dict[str, Any], names: tuple[str, ...]) -> Any:
    """A dictionary of lists of arrays as a list of dictionaries."""
    first = found[names[0]]
    if type(first) in (list, tuple):
        return type(first)(_turn({name: found[name][i] for name in names}, names) for i in range(len(first)))
    return found


def empirical_ntk_vp_fn(f: Callable[..., Any], x1: Any, x2: Any, params: Any, **apply_fn_kwargs: Any) -> Any:
    """The product of the tangent kernel with a vector, a pytree like `f(params, x2)`, without the kernel."""
    first, second = split_options(apply_fn_kwargs, x1, x2)

    def f1(p):
        return f(p, x1, **first)

    def f2(p):
        return f1(p) if no_second(x2) else f(p, x2, **second)

    def ntk_vp_fn(cotangents):
        (gradient,) = jax.vjp(f2, params)[1](cotangents)
        return jax.jvp(f1, (params,), (gradient,))[1]

    return ntk_vp_fn


def empirical_direct_ntk_fn(
    f: Callable[..., Any], trace_axes: Axes = (-1,), diagonal_axes: Axes = (), vmap_axes: Any = None
) -> Callable[..., Any]:
    """`empirical_ntk_fn` by Jacobian contraction, as it was called before neural-tangents 0.6."""
    return empirical_ntk_fn(f, trace_axes, diagonal_axes, vmap_axes, NtkImplementation.JACOBIAN_CONTRACTION)


def empirical_implicit_ntk_fn(
    f: Callable[..., Any], trace_axes: Axes = (-1,), diagonal_axes: Axes = (), vmap_axes: Any = None
) -> Callable[..., Any]:
    """`empirical_ntk_fn` by products with vectors, as it was called before neural-tangents 0.6."""
    return empirical_ntk_fn(f, trace_axes, diagonal_axes, vmap_axes, NtkImplementation.NTK_VECTOR_PRODUCTS)
