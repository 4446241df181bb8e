"""Kernels as means over random finite networks."""

import operator
from collections.abc import Callable, Iterable
from typing import Any

import jax

from widetail.compat.neural_tangents._arrays import Axes
from widetail.compat.neural_tangents._batching import batch
from widetail.compat.neural_tangents._empirical import DEFAULT, NtkImplementation, empirical_kernel_fn
from widetail.compat.neural_tangents._get import with_get


def monte_carlo_kernel_fn(
    init_fn: Callable[..., Any],
    apply_fn: Callable[..., Any],
    key: Any,
    n_samples: int | Iterable[int],
    batch_size: int = 0,
    device_count: int = -1,
    store_on_device: bool = True,
    trace_axes: Axes = (-1,),
    diagonal_axes: Axes = (),
    vmap_axes: Any = None,
    implementation: NtkImplementation | int = DEFAULT,
    _j_rules: bool = True,
    _s_rules: bool = True,
    _fwd: bool | None = None,
) -> Callable[..., Any]:
    """Mean kernels over `n_samples` networks; several numbers give a generator of means over the first so many."""
    counts, several = _counts(n_samples)
    kernel_fn = empirical_kernel_fn(apply_fn, trace_axes, diagonal_axes, vmap_axes, implementation)

    run = batch(kernel_fn, batch_size, device_count, store_on_device)
    compiled: dict[str, Any] = {}  # drawing parameters, by the shapes of inputs

    def sums(x1, x2, get, options):
        running, total = key, None
        shapes = jax.tree.map(lambda x: x.shape, x1)
        draw = compiled.setdefault(repr(shapes), jax.jit(lambda own: init_fn(own, shapes)[1]))
        for count in range(1, max(counts) + 1):
            running, own = jax.random.split(running)
            init_key, dropout_key = jax.random.split(own)
            sample = run(x1, x2, get, draw(init_key), rng=dropout_key, **options)
            total = sample if total is None else jax.tree.map(operator.add, total, sample)
            if count in counts:
                yield jax.tree.map(lambda x, over=count: x / over, total)

    @with_get("MonteCarloKernel")
    def sampled(x1, x2, get=None, **apply_fn_kwargs):
        names = ("nngp", "ntk") if get is None else get
        found = (_as_dicts(mean) for mean in sums(x1, x2, names, apply_fn_kwargs))
        return found if several else next(found)

    return sampled


def _as_dicts(out: Any) -> Any:
    if hasattr(out, "_asdict"):
        return out._asdict()
    return type(out)(_as_dicts(one) for one in out)


def _counts(n_samples: Any) -> tuple[set[int], bool]:
    several = not isinstance(n_samples, int)
    if several and not hasattr(n_samples, "__iter__"):
        raise TypeError(f"n_samples must be an integer or several; got {type(n_samples).__name__}.")
    counts = set(n_samples) if several else {n_samples}
    if not all(isinstance(count, int) for count in counts):
        raise ValueError(f"n_samples must be integers; got {n_samples!r}.")
    if any(count <= 0 for count in counts):
        raise ValueError(f"n_samples must be positive; got {n_samples!r}.")
    return counts, several
