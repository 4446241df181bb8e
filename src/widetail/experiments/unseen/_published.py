"""SVGP and SVTP as the paper's scripts train them, on features that are there already.

They draw the latent value of every image and class by itself: from Student's t law in an SVTP, from a normal one in an
SVGP. A process has one scale for all of them. The divergence of the law of the scale is counted once all the same,
while every image pulls at it. Covariances of inducing variables are diagonal, and not whitened.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.linalg
import scipy.special

from widetail.sparse import CachedRows

DRAWS = 8
LARGEST_BATCH, FEWEST_STEPS = 512, 20  # steps of an epoch
EPOCHS = 25
LEARNING_RATE = 0.02
LOG_SHAPES = np.linspace(np.log(0.5), np.log(1000.0), 129)
STRATA = 512


@dataclasses.dataclass(frozen=True, eq=False)
class Published:
    """A posterior of the kind.

    Attributes:
        mean: of whitened inducing variables, shape (classes, inducing).
        deviation: of inducing variables as they are, given a unit scale, the same shape.
        root: inverse of the Cholesky factor of the kernel matrix of inducing inputs.
        a, b: of the law of the scale, InverseGamma(a, b); a is infinite, and b the scale, where it is a point.
        bound: nats per image, mean of the last epoch.
    """

    mean: np.ndarray
    deviation: np.ndarray
    root: np.ndarray
    a: float
    b: float
    bound: float

    @property
    def scale(self) -> float:
        """One over the mean of one over the scale."""
        return self.b if np.isinf(self.a) else self.b / self.a

    @property
    def degrees(self) -> float:
        """Degrees of freedom of a latent value."""
        return 2 * self.a

    def latent(self, features: np.ndarray, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Location and squared scale of the latent values given a unit scale, shape (m, classes)."""
        spread = (features @ self.root) ** 2 @ self.deviation.T**2
        return features @ self.mean.T, spread + residual[:, None]


def train_published(
    rows: CachedRows,
    factor: np.ndarray,
    classes: int,
    *,
    prior: float | None,
    scale: float = 10.0,
    is_given: bool = False,
    epochs: int = EPOCHS,
    seed: int = 0,
) -> Published:
    """Adam on minibatches, with a learning rate that falls to nothing.

    Args:
        rows: features, all of what is open, and class numbers.
        factor: Cholesky factor of the kernel matrix of the inducing inputs.
        classes: how many.
        prior: a = b of the inverse gamma prior of an SVTP; None for an SVGP, whose scale is a number.
        scale: where it starts.
        is_given: whether the scale of the SVGP stays there.
        epochs: passes through the rows.
        seed: of their order and of the draws.
    """
    root = scipy.linalg.solve_triangular(factor, np.eye(len(factor)), lower=True)
    pull = np.sum(root**2, axis=0)  # diagonal of the inverse of the kernel matrix
    shape = (classes, len(factor))
    start = {
        "mean": jnp.zeros(shape, jnp.float32),
        "log_deviation": jnp.broadcast_to(jnp.asarray(-0.5 * np.log(pull), jnp.float32), shape),
        "log_a": jnp.asarray(np.log(10.0), jnp.float32),
        "log_scale": jnp.asarray(np.log(scale), jnp.float32),
    }
    batch_size = min(LARGEST_BATCH, max(1, len(rows) // FEWEST_STEPS))
    per_epoch = len(rows) // batch_size
    rule = optax.adam(optax.cosine_decay_schedule(LEARNING_RATE, epochs * per_epoch))
    constants = tuple(np.asarray(part, np.float32) for part in (root, pull, _log_scales_of_shapes()))
    key, order = jax.random.key(seed), np.random.default_rng(seed)
    step = functools.partial(_step, rule, prior, is_given, float(len(rows)))
    parameters, bounds = start, []
    with jax.numpy_dtype_promotion("standard"):  # optax is not written for the strict one
        state = rule.init(start)
        for epoch in range(epochs):
            shuffled, bounds = order.permutation(len(rows)), []
            for number in range(per_epoch):
                some = np.sort(shuffled[number * batch_size : (number + 1) * batch_size])
                batch = (rows.features[some].astype(np.float32), rows.residual[some].astype(np.float32), rows.y[some])
                own_key = jax.random.fold_in(key, epoch * per_epoch + number)
                parameters, state, bound = step(parameters, state, *batch, constants, own_key)
                bounds.append(bound)
    own = {name: np.asarray(part, np.float64) for name, part in parameters.items()}
    a = np.inf if prior is None else float(np.exp(own["log_a"]))
    b = float(np.exp(own["log_scale"])) * (1.0 if prior is None else a)
    bound = float(np.mean(bounds)) / len(rows)
    return Published(own["mean"], np.exp(own["log_deviation"]), root, a, b, bound)


@functools.cache
def _log_scales_of_shapes() -> np.ndarray:
    """Logarithms of the scale over b / a, at the middle of equally probable strata, for each of `LOG_SHAPES`."""
    a, p = np.exp(LOG_SHAPES)[:, None], (np.arange(STRATA) + 0.5) / STRATA
    return np.log(a / scipy.special.gammainccinv(a, p))


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _step(
    rule: Any, prior: float | None, is_given: bool, count: float, parameters: Any, state: Any, features: Any,
    residual: Any, y: Any, constants: Any, key: Any,
) -> Any:  # fmt: skip
    def loss(parameters: Any) -> Any:
        return -_bound(prior, is_given, count, parameters, features, residual, y, constants, key)

    value, slope = jax.value_and_grad(loss)(parameters)
    change, state = rule.update(slope, state)
    return optax.apply_updates(parameters, change), state, -value


def _bound(
    prior: float | None, is_given: bool, count: float, parameters: Any, features: Any, residual: Any, y: Any,
    constants: Any, key: Any,
) -> Any:  # fmt: skip
    root, pull, log_scales_of_shapes = constants
    mean, variance = parameters["mean"], jnp.exp(2 * parameters["log_deviation"])
    log_scale = jax.lax.stop_gradient(parameters["log_scale"]) if is_given else parameters["log_scale"]
    location, open_variance = features @ mean.T, (features @ root) ** 2 @ variance.T + residual[:, None]
    keys = jax.random.split(key)
    draws = jax.random.normal(keys[0], (DRAWS, *location.shape))
    divergence = 0.0
    if prior is not None:
        log_a = parameters["log_a"]
        place = jnp.clip((log_a - LOG_SHAPES[0]) / (LOG_SHAPES[1] - LOG_SHAPES[0]), 0.0, len(LOG_SHAPES) - 1.001)
        below = jax.lax.stop_gradient(jnp.floor(place)).astype(jnp.int32)
        both = log_scales_of_shapes[below], log_scales_of_shapes[below + 1]
        of_stratum = both[0] + (place - below) * (both[1] - both[0])
        draws = draws * jnp.exp(0.5 * of_stratum[jax.random.randint(keys[1], draws.shape, 0, STRATA)])
        a, b = jnp.exp(log_a), jnp.exp(log_a + log_scale)
        gammas = jax.scipy.special.gammaln(prior) - jax.scipy.special.gammaln(a)
        divergence = (a - prior) * jax.scipy.special.digamma(a) + gammas
        divergence = divergence + prior * (jnp.log(b) - jnp.log(prior)) + a * (prior - b) / b
    f = location + jnp.exp(0.5 * log_scale) * jnp.sqrt(open_variance) * draws
    expected = jnp.mean(jax.nn.log_softmax(f, axis=-1), axis=0)
    fit = jnp.sum(jnp.take_along_axis(expected, y[:, None], axis=1)) * (count / len(y))
    spread = jnp.sum(pull * variance) - 2 * jnp.sum(parameters["log_deviation"]) - jnp.sum(jnp.log(pull))
    quad = jnp.exp(-log_scale) * jnp.sum(mean**2)
    return fit - 0.5 * (quad + spread - mean.size) - divergence
