"""Training in closed form or by a differential equation, and inference with Gaussian processes."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import ode

from widetail.compat.neural_tangents._arrays import Axes, Number, canonical_axes, make_2d, zip_axes
from widetail.compat.neural_tangents._empirical import split_options
from widetail.compat.neural_tangents._get import tuple_class, with_get
from widetail.numerics import cholesky_in_jax

TrainTest = tuple_class("Kernel", ("nngp", "ntk"))


class Gaussian(NamedTuple):
    """Mean and covariance of predictions."""

    mean: Any
    covariance: Any


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=("fx_train", "fx_test", "qx_train", "qx_test"), meta_fields=()
)
@dataclasses.dataclass(frozen=True)
class ODEState:
    """Outputs on training and test inputs, and with momentum their velocities."""

    fx_train: Any = None
    fx_test: Any = None
    qx_train: Any = None
    qx_test: Any = None

    def replace(self, **changes: Any) -> "ODEState":
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)


class _Targets:
    """Targets as a matrix: rows are what the kernel is of, columns the traced axes, along which it is the identity."""

    def __init__(self, y: Any, trace_axes: Axes):
        self.shape, self.ndim = y.shape, y.ndim
        self.traced = canonical_axes(trace_axes, y.ndim)
        self.kept = [axis for axis in range(y.ndim) if axis not in self.traced]
        self.columns = tuple(y.shape[axis] for axis in self.traced)

    def flat(self, y: Any) -> Any:
        """(rows, columns)."""
        y = jnp.broadcast_to(y, self.shape) if jnp.ndim(y) < self.ndim else jnp.asarray(y)
        moved = jnp.transpose(y, (*self.kept, *self.traced))
        return moved.reshape(-1, int(np.prod(self.columns, dtype=int)))

    def full(self, values: Any, rows: tuple[int, ...], lead: tuple[int, ...] = ()) -> Any:
        """From (*lead, rows, columns) to the form of the targets, with the rows of `rows`."""
        wide = values.reshape(*lead, *rows, *self.columns)
        order = list(np.argsort([*self.kept, *self.traced]))
        return jnp.transpose(wide, (*range(len(lead)), *(len(lead) + int(axis) for axis in order)))


def _regularised(k: Any, diag_reg: Number, is_absolute: bool) -> Any:
    k = make_2d(k)
    size = k.shape[0]
    scale = 1.0 if is_absolute else jnp.trace(k) / size
    return k + diag_reg * scale * jnp.eye(size, dtype=k.dtype)


def _solver(k: Any, diag_reg: Number, is_absolute: bool) -> Callable[[Any], Any]:
    with jax.ensure_compile_time_eval():
        factor = cholesky_in_jax(_regularised(k, diag_reg, is_absolute))
    return lambda b: jax.scipy.linalg.cho_solve((factor, True), b)


def _check_inputs(fx_train_0: Any, fx_test_0: Any, k_test_train: Any) -> None:
    if fx_test_0 is not None and k_test_train is None:
        raise ValueError("fx_test_0 needs k_test_train, the kernel between test and training inputs.")
    if fx_train_0 is None and fx_test_0 is None:
        raise ValueError("fx_train_0 and fx_test_0 must not both be None: there is nothing to predict.")


def gradient_descent_mse(
    k_train_train: Any,
    y_train: Any,
    learning_rate: Number = 1.0,
    diag_reg: Number = 0.0,
    diag_reg_absolute_scale: bool = False,
    trace_axes: Axes = (-1,),
) -> Callable[..., Any]:
    """Gradient flow on half the mean squared error, `predict_fn(t, fx_train_0, fx_test_0, k_test_train)`.

    `t=None` is the end of training.
    """
    targets = _Targets(y_train, trace_axes)
    y = targets.flat(y_train)

    @functools.lru_cache(1)
    def eigen():
        with jax.ensure_compile_time_eval():
            return jnp.linalg.eigh(_regularised(k_train_train, diag_reg, diag_reg_absolute_scale))

    @functools.lru_cache(1)
    def solve():
        return _solver(k_train_train, diag_reg, diag_reg_absolute_scale)

    def predict_fn(t=None, fx_train_0=0.0, fx_test_0=None, k_test_train=None):
        _check_inputs(fx_train_0, fx_test_0, k_test_train)
        start = jnp.zeros_like(y) if fx_train_0 is None else targets.flat(fx_train_0)
        gap = y - start
        rows = tuple(k_train_train.shape[::2])
        if t is None:
            lead = ()
            train = jnp.asarray(y_train, k_train_train.dtype)
            moved = None if fx_test_0 is None else solve()(gap)
        else:
            time = jnp.asarray(t, k_train_train.dtype) * learning_rate / y_train.size
            lead = time.shape
            values, vectors = eigen()
            values = jnp.maximum(values, 0.0)
            done, per_value = _progress(time.reshape(-1, 1), values)
            within = vectors.T @ gap
            moved = jnp.einsum("ji,ti,ic->tjc", vectors, per_value, within)
            # adding up what the kernel makes of the weights would lose the end of training to rounding
            change = jnp.einsum("ji,ti,ic->tjc", vectors, done, within)
            train = targets.full(start + change, rows, lead)
        results = []
        if fx_train_0 is not None:
            results.append(train)
        if fx_test_0 is not None and k_test_train is not None:
            test = make_2d(k_test_train) @ moved
            results.append(fx_test_0 + targets.full(test, tuple(k_test_train.shape[::2]), lead))
        return results[0] if len(results) == 1 else tuple(results)

    return predict_fn


def _progress(time: Any, values: Any) -> tuple[Any, Any]:
    """1 - exp(-t v), and that divided by v, for all times (also infinite ones) and eigenvalues."""
    rate = jnp.where(values > 0, time * jnp.where(values > 0, values, 1.0), 0.0)
    done = -jnp.expm1(-rate)
    is_large = rate > 1e-6
    return done, jnp.where(is_large, done / jnp.where(is_large, values, 1.0), time)


def gradient_descent(
    loss: Callable[[Any, Any], Any],
    k_train_train: Any,
    y_train: Any,
    learning_rate: Number = 1.0,
    momentum: Number = None,
    trace_axes: Axes = (-1,),
) -> Callable[..., Any]:
    """Gradient flow on any loss, with or without momentum, by a differential equation.

    `predict_fn(t, fx_train_or_state_0, fx_test_0, k_test_train)`; a state gives a state.
    """
    targets = _Targets(y_train, trace_axes)
    slope = jax.grad(lambda fx: loss(fx, y_train))
    dtype = k_train_train.dtype
    pace, friction = learning_rate, None
    if momentum is not None:
        pace = learning_rate**0.5
        friction = (1.0 - momentum) / pace

    def act(k, force):
        return targets.full(make_2d(k) @ targets.flat(force), tuple(k.shape[::2]))

    def predict_fn(t=None, fx_train_or_state_0=0.0, fx_test_0=None, k_test_train=None):
        _check_inputs(fx_train_or_state_0, fx_test_0, k_test_train)
        is_state = isinstance(fx_train_or_state_0, ODEState)
        given = fx_train_or_state_0 if is_state else ODEState(fx_train_or_state_0, fx_test_0)
        if momentum is None and (given.qx_train is not None or given.qx_test is not None):
            raise ValueError("a state with qx_train or qx_test needs momentum, which is None.")
        test_shape = None
        if k_test_train is not None:
            kept = iter(k_test_train.shape[::2])
            test_shape = tuple(
                y_train.shape[axis] if axis in targets.traced else next(kept) for axis in range(y_train.ndim)
            )

        def fill(value, shape):
            return jnp.zeros(shape, dtype) if value is None else jnp.broadcast_to(jnp.asarray(value, dtype), shape)

        has_test = given.fx_test is not None
        start = [fill(given.fx_train, y_train.shape)] + ([fill(given.fx_test, test_shape)] if has_test else [])
        speed = []
        if momentum is not None:
            speed = [fill(given.qx_train, y_train.shape)] + ([fill(given.qx_test, test_shape)] if has_test else [])

        def flow(state, _):
            outputs, speeds = state
            force = slope(outputs[0])
            pull = [-act(k_train_train, force)] + ([-act(k_test_train, force)] if has_test else [])
            if friction is None:
                return pull, []
            return speeds, [p - friction * v for p, v in zip(pull, speeds, strict=True)]

        time = jnp.asarray(jnp.inf if t is None else t, dtype) * pace
        flat = time.reshape(-1)
        # the solver wants increasing times; asked for time 0, it starts a moment before
        begin = jnp.where(flat[:1] == 0, jnp.full((1,), -1e-24, dtype), jnp.zeros((1,), dtype))
        outputs, speeds = ode.odeint(flow, (start, speed), jnp.concatenate([begin, flat]))
        outputs, speeds = ([one[1:].reshape(*time.shape, *one.shape[1:]) for one in part] for part in (outputs, speeds))
        if is_state:
            fx_train, fx_test = (*outputs, None)[:2]
            qx_train, qx_test = (*speeds, None, None)[:2]
            return ODEState(fx_train, fx_test, qx_train, qx_test)
        if given.fx_train is None:
            return outputs[1]
        return tuple(outputs) if has_test else outputs[0]

    return predict_fn


def _of(k: Any, name: str) -> Any:
    """One kernel of a named tuple or a `Kernel`; an array is what it is."""
    return k if isinstance(k, (jax.Array, np.ndarray)) else getattr(k, name)


def gp_inference(
    k_train_train: Any,
    y_train: Any,
    diag_reg: Number = 0.0,
    diag_reg_absolute_scale: bool = False,
    trace_axes: Axes = (-1,),
) -> Callable[..., Any]:
    """Predictions of fully trained infinite ensembles, `predict_fn(get, k_test_train, k_test_test)`.

    "nngp" is the Bayesian posterior, "ntk" networks after gradient descent, "ntkgp" a Gaussian process with the
    tangent kernel as its prior covariance.
    """
    targets = _Targets(y_train, trace_axes)
    y = targets.flat(y_train)

    @functools.lru_cache(2)
    def solver(name):
        return _solver(_of(k_train_train, name), diag_reg, diag_reg_absolute_scale)

    @functools.lru_cache(2)
    def weights(name):
        with jax.ensure_compile_time_eval():
            return solver(name)(y)

    @with_get("Gaussians")
    def predict_fn(get=None, k_test_train=None, k_test_test=None):
        names = ("nngp", "ntk") if get is None else get
        out = {}
        for name in names:
            if name not in ("nngp", "ntk", "ntkgp"):
                raise ValueError(f"get must be 'nngp', 'ntk', 'ntkgp' or several of them; got {name!r}.")
            solves, prior = ("nngp" if name == "nngp" else "ntk"), ("ntk" if name == "ntkgp" else "nngp")
            k_dd = _of(k_train_train, solves)
            if k_test_train is None:
                mean = jnp.asarray(y_train, k_dd.dtype)
                out[name] = mean if k_test_test is None else Gaussian(mean, jnp.zeros_like(k_dd))
                continue
            k_td = _of(k_test_train, solves)
            across = make_2d(k_td)
            mean = targets.full(across @ weights(solves), tuple(k_td.shape[::2]))
            if k_test_test is None:
                out[name] = mean
                continue
            if name == "ntk" and not (hasattr(k_train_train, "nngp") and hasattr(k_test_train, "nngp")):
                raise ValueError(
                    "the covariance of 'ntk' needs both kernels of train-train and test-train: pass what "
                    "kernel_fn(x, x2, ('nngp', 'ntk')) returns."
                )
            k_tt = _of(k_test_test, prior)
            before = make_2d(_of(k_test_train, prior))
            moved = solver(solves)(across.T)
            change = before @ moved
            cov = make_2d(k_tt) - change
            if name == "ntk":
                cov = cov - change.T + moved.T @ make_2d(_of(k_train_train, "nngp")) @ moved
            out[name] = Gaussian(mean, _in_pairs(cov, tuple(k_tt.shape[::2])))
        return out

    return predict_fn


def _in_pairs(cov: Any, rows: tuple[int, ...], lead: tuple[int, ...] = ()) -> Any:
    return zip_axes(cov.reshape(*lead, *rows, *rows), len(lead))


def gradient_descent_mse_ensemble(
    kernel_fn: Callable[..., Any],
    x_train: Any,
    y_train: Any,
    learning_rate: Number = 1.0,
    diag_reg: Number = 0.0,
    diag_reg_absolute_scale: bool = False,
    trace_axes: Axes = (-1,),
    **kernel_fn_train_train_kwargs: Any,
) -> Callable[..., Any]:
    """Infinite ensembles trained for a time, `predict_fn(t, x_test, get, compute_cov, **kernel_fn_kwargs)`."""
    targets = _Targets(y_train, trace_axes)
    y = targets.flat(y_train)
    cache: dict[str, Any] = {}

    def train_kernels(names):
        missing = tuple(name for name in names if name not in cache)
        if missing:
            found = kernel_fn(x_train, None, missing, **kernel_fn_train_train_kwargs)
            cache.update({name: getattr(found, name) for name in missing})
        return TrainTest(*(cache.get(name) for name in TrainTest._fields))

    @functools.lru_cache(2)
    def eigen(name):
        with jax.ensure_compile_time_eval():
            k = getattr(train_kernels((name,)), name)
            values, vectors = jnp.linalg.eigh(_regularised(k, diag_reg, diag_reg_absolute_scale))
        return jnp.maximum(values, 0.0), vectors

    @functools.lru_cache(4)
    def at_end(names):
        k = train_kernels(names)
        return gp_inference(k, y_train, diag_reg, diag_reg_absolute_scale, trace_axes)

    @with_get("Gaussians")
    def predict_fn(t=None, x_test=None, get=None, compute_cov=False, **kernel_fn_test_test_kwargs):
        names = ("nngp", "ntk") if get is None else get
        for name in names:
            if name not in ("nngp", "ntk"):
                raise NotImplementedError(f"get must be 'nngp', 'ntk' or both; got {name!r}.")
        wanted = tuple(n for n in TrainTest._fields if n in names or (n == "nngp" and compute_cov))
        k_dd = train_kernels(wanted)
        k_td, k_tt = None, (compute_cov or None)
        if x_test is not None:
            across, within = _options(kernel_fn_train_train_kwargs, kernel_fn_test_test_kwargs, x_train, x_test)
            k_td = kernel_fn(x_test, x_train, wanted, **across)
            k_tt = kernel_fn(x_test, None, "nngp", **within) if compute_cov else None
        if t is None:
            return at_end(wanted)(names, k_td, k_tt)._asdict()
        time = jnp.asarray(t, y.dtype if jnp.issubdtype(y.dtype, jnp.floating) else float)
        time, lead = (time * learning_rate / y_train.size).reshape(-1, 1), time.shape
        rows = tuple(getattr(k_dd if k_td is None else k_td, wanted[0]).shape[::2])
        out = {}
        reach: Any = None
        moved: Any = None
        for name in names:
            values, vectors = eigen(name)
            done, per_value = _progress(time, values)
            decay = 1 - done
            if k_td is None:
                mean = jnp.einsum("ji,ti,ic->tjc", vectors, done, vectors.T @ y)
            else:
                moved = jnp.einsum("ji,ti,ki->tjk", vectors, per_value, vectors)
                reach = make_2d(getattr(k_td, name))
                mean = reach @ (moved @ y)
            mean = targets.full(mean, rows, lead)
            if not compute_cov:
                out[name] = mean
                continue
            prior = make_2d(k_dd.nngp)
            if k_td is None:
                if name == "nngp":
                    cov = jnp.einsum("ji,ti,ki->tjk", vectors, values * decay**2, vectors)
                else:
                    left = jnp.einsum("ji,ti,ki->tjk", vectors, decay, vectors)
                    cov = left @ prior @ left
            elif name == "nngp":
                twice = jnp.einsum("ji,ti,ki->tjk", vectors, _progress(2 * time, values)[1], vectors)
                cov = make_2d(k_tt) - reach @ twice @ reach.T
            else:
                step = reach @ moved
                change = step @ make_2d(k_td.nngp).T
                cov = make_2d(k_tt) - change - jnp.swapaxes(change, -1, -2)
                cov = cov + step @ prior @ jnp.swapaxes(step, -1, -2)
            out[name] = Gaussian(mean, _in_pairs(cov, rows, lead))
        return out

    return predict_fn


def _options(train: dict[str, Any], test: dict[str, Any], x_train: Any, x_test: Any) -> Any:
    """Keyword arguments of the kernels test-train and test-test."""
    of_train, _ = split_options(train, x_train)
    of_test, _ = split_options(test, x_test)
    across, within = dict(train), dict(train)
    for name, value in test.items():
        if name not in train:
            raise ValueError(f"{name} was given for the test inputs, but not for the training inputs.")
        is_pair = type(value) is tuple and len(value) == 2 and all(hasattr(one, "shape") for one in value)
        if not is_pair and not hasattr(value, "shape") and value != train[name]:
            raise ValueError(f"{name} must be the same for training and test inputs; got {train[name]} and {value}.")
        across[name] = (of_test[name], of_train[name]) if is_pair else value
        within[name] = value
    return across, within


def max_learning_rate(
    ntk_train_train: Any, y_train_size: int | None = None, momentum: Number = 0.0, eps: Number = 1e-12
) -> Any:
    """The largest rate at which gradient descent on half the mean squared error converges."""
    k = make_2d(ntk_train_train)
    size = k.shape[0] if y_train_size is None else y_train_size
    return 2 * (1 + momentum) * size / (jnp.linalg.eigvalsh(k)[-1] + eps)
