"""Training of a model that is linear in its parameters, seen from its outputs."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg


class LinearTraining:
    r"""Outputs of a linear model while it is trained on the mean squared error, in closed form.

    With the tangent kernel of the n training rows and $\lambda$ its eigenvalues, the part $1 - \lambda a$ of an
    eigenvector's error is left, where $a$ grows from zero: with `flow` by $\dot a = \frac 2n (1 - \lambda a)$; with a
    momentum by $\ddot a + \gamma \dot a = \frac 2n (1 - \lambda a)$; and in steps by gradient descent,
    $v \leftarrow \mu v + \frac{2 \eta}n (1 - \lambda a)$, $a \leftarrow a + v$. The loss is the mean over the rows of
    the squared error, as everywhere in this library.

    Args:
        kernel: tangent kernel of the training rows: (n, n), for all outputs alike, or (n, n, outputs, outputs).
        y: targets, (n,) or (n, outputs).
        start: the model's outputs at the training rows before training, shaped like `y`.

    Example:
        >>> import numpy as np
        >>> from widetail.empirical import LinearTraining
        >>> training = LinearTraining(np.array([[2.0]]), np.array([1.0]))
        >>> training.flow(0.5).round(4)  # 1 - exp(-2 * 2 * 0.5)
        array([0.8647])
        >>> training.descend(2, rate=0.1).round(4)  # the error is multiplied by 1 - 2 * 0.1 * 2 twice
        array([0.64])
    """

    def __init__(self, kernel: Any, y: Any, start: Any = 0.0):
        kernel, y = np.asarray(kernel, float), np.asarray(y, float)
        n, outputs = len(y), y.shape[1:]
        if kernel.shape not in ((n, n), (n, n, *outputs, *outputs)) or y.ndim > 2:
            raise ValueError(
                f"kernel must have shape {(n, n)} or {(n, n, *outputs, *outputs)} for targets of shape {y.shape}; "
                f"got {kernel.shape}."
            )
        self.y, self._sides = y, kernel.shape[1:]
        self._joint = kernel.ndim == 4
        values, self._vectors = scipy.linalg.eigh(_flat(kernel) if self._joint else kernel)
        self._values = np.maximum(values, 0.0)
        self.start = np.broadcast_to(np.asarray(start, float), y.shape)
        self._error = self._vectors.T @ (y - self.start).reshape(len(values), -1)

    def flow(self, time: Any, kernel_new: Any = None, start_new: Any = 0.0, *, friction: float | None = None) -> Any:
        r"""Outputs after training for `time` in infinitely small steps.

        Args:
            time: training time, math.inf allowed; an array of them gives its shape as leading axes.
            kernel_new: kernel between other rows and the training rows, (m, n) or (m, n, outputs, outputs); None for
                the training rows themselves.
            start_new: outputs at the other rows before training.
            friction: $\gamma$ of a momentum: a step of size $\eta$ and momentum $\mu$ is a time of $\sqrt\eta$ with
                $\gamma = (1 - \mu) / \sqrt\eta$. None for plain gradient flow.
        """
        rate = 2.0 / len(self.y)

        def reached(t: float) -> np.ndarray:
            values = self._values
            if math.isinf(t):
                return np.divide(1.0, values, out=np.zeros_like(values), where=values > 1e-14 * values.max())
            if friction is None:
                safe = np.maximum(values, 1e-300)
                return np.where(values * rate * t < 1e-300, rate * t, -np.expm1(-rate * t * safe) / safe)
            system = _affine(values, [[0, 1, 0], [0, -friction, rate], [0, 0, 0]], -rate)
            return scipy.linalg.expm(t * system)[:, 0, 2]

        return self._outputs(time, reached, kernel_new, start_new)

    def descend(
        self, steps: Any, kernel_new: Any = None, start_new: Any = 0.0, *, rate: float, momentum: float = 0.0
    ) -> Any:
        """Outputs after `steps` steps of gradient descent.

        Args:
            steps: how many; an array of them gives its shape as leading axes.
            kernel_new, start_new: as in `flow`.
            rate: the learning rate; above `max_rate()` training diverges.
            momentum: share of the last step that is repeated, from 0 to below 1.
        """
        factor = 2.0 * rate / len(self.y)

        def reached(count: float) -> np.ndarray:
            if count != int(count) or count < 0:
                raise ValueError(f"steps must be whole numbers, zero or more; got {count!r}.")
            # the new velocity moves the outputs in the same step, so its row enters that of the position too
            start = [[1, momentum, factor], [0, momentum, factor], [0, 0, 1]]
            system = _affine(self._values, start, -factor)
            system[:, 0, 0] -= factor * self._values
            return np.linalg.matrix_power(system, int(count))[:, 0, 2]

        return self._outputs(steps, reached, kernel_new, start_new)

    def max_rate(self, momentum: float = 0.0) -> float:
        """The largest learning rate with which gradient descent on this loss does not diverge."""
        return max_rate(float(self._values[-1]), len(self.y), momentum)

    def _outputs(self, times: Any, reached: Callable[[float], np.ndarray], kernel_new: Any, start_new: Any) -> Any:
        times = np.asarray(times, float)
        if not np.all(times >= 0):
            raise ValueError(f"times must be zero or more; got {times!r}.")
        found = [self._at(reached(float(time)), kernel_new, start_new) for time in times.reshape(-1)]
        return np.stack(found).reshape(*times.shape, *found[0].shape) if found else np.zeros(times.shape)

    def _at(self, moved: np.ndarray, kernel_new: Any, start_new: Any) -> np.ndarray:
        """Outputs for `moved`, the a of every eigenvalue."""
        if kernel_new is None:
            change = self._vectors @ ((moved * self._values)[:, None] * self._error)
            return self.start + change.reshape(self.y.shape)
        kernel_new = np.asarray(kernel_new, float)
        rows = (len(kernel_new), *self.y.shape[1:])
        if kernel_new.shape[1:] != self._sides:
            raise ValueError(f"kernel_new must have shape (m, *{self._sides}), like kernel; got {kernel_new.shape}.")
        matrix = _flat(kernel_new) if self._joint else kernel_new
        change = matrix @ (self._vectors @ (moved[:, None] * self._error))
        return np.broadcast_to(np.asarray(start_new, float), rows) + change.reshape(rows)


def max_rate(largest: float, rows: int, momentum: float = 0.0) -> float:
    """The largest stable learning rate for the mean over `rows` of the squared error, given the largest eigenvalue."""
    if not 0 <= momentum < 1:
        raise ValueError(f"momentum must be from 0 to below 1; got {momentum!r}.")
    return math.inf if largest <= 0 else rows * (1.0 + momentum) / largest


def _flat(kernel: np.ndarray) -> np.ndarray:
    """(m, n, outputs, outputs) as a matrix over pairs of row and output."""
    m, n, outputs, _ = kernel.shape
    return kernel.transpose(0, 2, 1, 3).reshape(m * outputs, n * outputs)


def _affine(values: np.ndarray, system: Any, slope: float) -> np.ndarray:
    """One 3 x 3 system of (a, velocity, 1) for every eigenvalue, which slows the velocity down by `slope` a."""
    systems = np.tile(np.array(system, float), (len(values), 1, 1))
    systems[:, 1, 0] += slope * values
    return systems


def train_by_flow(
    loss: Callable[[Any, Any], Any],
    kernel: Any,
    y: Any,
    time: Any,
    *,
    start: Any = 0.0,
    kernel_new: Any = None,
    start_new: Any = 0.0,
    friction: float | None = None,
    rtol: float = 1e-6,
    atol: float = 1e-8,
    max_steps: int = 100_000,
) -> Any:
    r"""Outputs of a linear model while it is trained on any loss, by an ordinary differential equation.

    The outputs follow $\dot f = -\Theta\, \partial_f L(f, y)$; needs diffrax (`pip install widetail[ode]`).

    Args:
        loss: a differentiable function of (outputs at the training rows, targets) that returns a number.
        kernel: tangent kernel of the training rows: (n, n), for all outputs alike, or (n, n, outputs, outputs).
        y: targets, in whatever form `loss` takes.
        time: training times, increasing; an array of any shape.
        start: outputs at the training rows before training, shape (n, ...).
        kernel_new: kernel between other rows and the training rows; None for the training rows alone.
        start_new: outputs at the other rows before training, shape (m, ...).
        friction: $\gamma$ of $\ddot f + \gamma \dot f = -\Theta\, \partial_f L$, a momentum; None for gradient flow.
        rtol, atol: relative and absolute accuracy of the solver.
        max_steps: of the solver.

    Returns:
        Outputs at the training rows, or a pair with those at the other rows; times first.

    Raises:
        RuntimeError: the solver needs more than `max_steps`.

    Example:
        >>> import jax.numpy as jnp, numpy as np
        >>> from widetail import empirical
        >>> half = lambda f, y: jnp.sum((f - y) ** 2) / 2
        >>> empirical.train_by_flow(half, np.eye(1), np.ones((1, 1)), 1.0, start=np.zeros((1, 1))).round(3)
        array([[0.632]])
    """
    try:
        import diffrax
    except ImportError:
        raise ImportError("train_by_flow needs diffrax: pip install 'widetail[ode]'.") from None
    import jax
    import jax.numpy as jnp

    times = np.asarray(time, float)
    if times.size == 0 or not np.all(np.isfinite(times)) or np.any(times < 0) or np.any(np.diff(times.reshape(-1)) < 0):
        raise ValueError(f"time must be finite, zero or more, and increasing; got {time!r}.")
    with jax.enable_x64(True):
        theta = jnp.asarray(np.asarray(kernel, float))
        first = jnp.asarray(np.asarray(start, float))
        if first.ndim == 0:
            first = jnp.broadcast_to(first, np.shape(y))
        joint = theta.ndim == 4
        across = None if kernel_new is None else jnp.asarray(np.asarray(kernel_new, float))

        def act(k: Any, slope: Any) -> Any:
            return jnp.einsum("ijab,jb->ia", k, slope) if joint else jnp.tensordot(k, slope, 1)

        def force(f: Any) -> tuple[Any, ...]:
            slope = jax.grad(loss)(f, y)
            return tuple(-act(k, slope) for k in ((theta,) if across is None else (theta, across)))

        others = ()
        if across is not None:
            rows = (across.shape[0], *first.shape[1:])
            others = (jnp.broadcast_to(jnp.asarray(np.asarray(start_new, float)), rows),)
        outputs = (first, *others)

        def slope_of(_: Any, state: Any, __: Any) -> Any:
            if friction is None:
                return force(state[0])
            f, velocity = state
            pushed = tuple(p - friction * v for p, v in zip(force(f[0]), velocity, strict=True))
            return velocity, pushed

        initial = outputs if friction is None else (outputs, tuple(jnp.zeros_like(part) for part in outputs))
        flat = times.reshape(-1)
        end = max(float(flat[-1]), np.finfo(float).tiny)
        solved = diffrax.diffeqsolve(
            diffrax.ODETerm(slope_of), diffrax.Tsit5(), 0.0, end, None, initial,
            saveat=diffrax.SaveAt(ts=jnp.asarray(np.minimum(flat, end))),
            stepsize_controller=diffrax.PIDController(rtol=rtol, atol=atol),
            max_steps=max_steps, throw=False,
        )  # fmt: skip
        if solved.result != diffrax.RESULTS.successful:
            raise RuntimeError(f"training by flow did not reach time {end:g} in {max_steps} steps; raise max_steps.")
        states: Any = solved.ys
        found = states if friction is None else states[0]
        results = [np.asarray(part).reshape(*times.shape, *part.shape[1:]) for part in found]
        return results[0] if across is None else (results[0], results[1])
